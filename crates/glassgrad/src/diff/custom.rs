//! Derivatives of the user's own operations: what a rule does not say is derived from what it says.
//!
//! A pushforward is linear in the tangents and a pullback in the cotangent, and each is the transpose of the
//! other. Pulling a cotangent back through the graph of a linear function transposes it.

use std::panic::Location;

use super::forward::pushforward;
use super::reverse::pullback;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Custom, Node, ProvenanceScope, Rule, Tensor};
use crate::shape::Shape;

/// The cotangents of all inputs from that of the output, without leading axes.
pub(super) fn pull(custom: &Custom, inputs: &[Tensor], output: &Tensor, cotangent: &Tensor) -> Vec<Option<Tensor>> {
    // The rule is the user's: what goes wrong in it goes wrong at its lines.
    let _provenance = ProvenanceScope::with_own_lines();
    match custom.0.rule(inputs, output) {
        Rule::Pullback(rule) => checked_pullback(custom, inputs, output, rule(cotangent)),
        Rule::Pushforward(rule) => {
            let transposed = |number: usize| {
                let tangent = placeholder_like(&inputs[number]);
                let moved: Vec<Option<Tensor>> =
                    (0..inputs.len()).map(|k| (k == number).then(|| tangent.clone())).collect();
                let pushed = checked(custom, "its pushforward gives the output", output, rule(&moved));
                pullback(&[(&pushed, cotangent.clone())], &[&tangent], &[]).remove(0)
            };
            (0..inputs.len()).map(|number| inputs[number].is_float().then(|| transposed(number)).flatten()).collect()
        }
        Rule::Formula(formula) => {
            let variables: Vec<Tensor> = inputs.iter().map(Tensor::wrapped).collect();
            let result = checked(custom, "its formula makes of the output", output, formula(&variables));
            pullback(&[(&result, cotangent.clone())], &variables.iter().collect::<Vec<_>>(), &[])
        }
    }
}

/// The tangent of the output from those of the inputs, without leading axes.
pub(super) fn push(custom: &Custom, inputs: &[Tensor], output: &Tensor, moved: &[Option<Tensor>]) -> Tensor {
    let _provenance = ProvenanceScope::with_own_lines();
    let found = match custom.0.rule(inputs, output) {
        Rule::Pushforward(rule) => Some(checked(custom, "its pushforward gives the output", output, rule(moved))),
        Rule::Pullback(rule) => {
            let cotangent = placeholder_like(output);
            let pulled = checked_pullback(custom, inputs, output, rule(&cotangent));
            if let Some(failed) = pulled.iter().flatten().find(|pulled| pulled.error().is_some()) {
                return failed.clone();
            }
            let pairs: Vec<(&Tensor, Tensor)> = pulled
                .iter()
                .zip(moved)
                .filter_map(|(pulled, moved)| Some((pulled.as_ref()?, moved.clone()?)))
                .collect();
            pullback(&pairs, &[&cotangent], &[]).remove(0)
        }
        Rule::Formula(formula) => {
            let variables: Vec<Tensor> = inputs.iter().map(Tensor::wrapped).collect();
            let pairs: Vec<(&Tensor, Tensor)> =
                variables.iter().zip(moved).filter_map(|(variable, moved)| Some((variable, moved.clone()?))).collect();
            let result = checked(custom, "its formula makes of the output", output, formula(&variables));
            pushforward(&[&result], &pairs, &[]).remove(0)
        }
    };
    found.unwrap_or_else(|| output.zeros_like())
}

/// The output for many examples: by the operation's own rule, or one example at a time.
pub(super) fn batch(node: &Node, custom: &Custom, inputs: &[Tensor], with_axis: &[bool], size: usize) -> Tensor {
    if let Some(whole) = custom.0.batched(inputs, with_axis) {
        let expected = Signature { shape: Shape::from(size).followed_by(&node.shape), dtype: node.dtype };
        return expected.checked(custom, "its batched form makes of the output for all examples", whole, node.origin);
    }
    let example = |k: usize| {
        let taken: Vec<Tensor> = inputs
            .iter()
            .zip(with_axis)
            .map(|(input, has)| if *has { input.slice(&[(k as isize).into()]) } else { input.clone() })
            .collect();
        Tensor::custom_node_at(custom.clone(), &taken.iter().collect::<Vec<_>>(), node.origin)
    };
    let examples: Vec<Tensor> = (0..size).map(example).collect();
    Tensor::stack(examples.iter().collect::<Vec<_>>(), 0)
}

/// What a tensor of the user's must be.
struct Signature {
    shape: Shape,
    dtype: DType,
}

impl Signature {
    /// The tensor, or an error that names the operation if it has another shape or type.
    fn checked(&self, custom: &Custom, what: &str, found: Tensor, origin: &'static Location<'static>) -> Tensor {
        let Signature { shape, dtype } = self;
        if found.error().is_some() || (found.shape() == shape && found.dtype() == *dtype) {
            return found;
        }
        // Constants of more precision in a rule promote; a (co)tangent keeps the type of its primal.
        let is_more_precise =
            found.is_float() && found.dtype() != *dtype && found.dtype().promote(*dtype) == found.dtype();
        if found.shape() == shape && dtype.is_float() && is_more_precise {
            return found.cast(*dtype);
        }
        let message = format!("{what}, {dtype}{shape}, {}{}", found.dtype(), found.shape());
        Tensor::refused_at(Error::new(custom.0.name(), message), &[], origin)
    }
}

/// What a rule gave for a tensor, which must have its shape and type.
fn checked(custom: &Custom, what: &str, like: &Tensor, found: Tensor) -> Tensor {
    let expected = Signature { shape: like.shape().clone(), dtype: like.dtype() };
    expected.checked(custom, what, found, like.origin())
}

/// What a pullback gave: for each input nothing, or a cotangent of its shape and type.
fn checked_pullback(
    custom: &Custom,
    inputs: &[Tensor],
    output: &Tensor,
    pulled: Vec<Option<Tensor>>,
) -> Vec<Option<Tensor>> {
    if pulled.len() != inputs.len() {
        let message = format!("its pullback gives {} cotangents for {} inputs", pulled.len(), inputs.len());
        let error = Error::new(custom.0.name(), message).help("return one entry for each input, `None` for zero");
        let failed = Tensor::refused_at(error, &[], output.origin());
        return inputs.iter().map(|_| Some(failed.clone())).collect();
    }
    let one = |(number, (input, found)): (usize, (&Tensor, Option<Tensor>))| {
        let what = format!("its pullback gives input {}", number + 1);
        let expected = Signature { shape: input.shape().clone(), dtype: input.dtype() };
        // Integers and truth values are not differentiable: what is given for them is not used.
        found.filter(|_| input.is_float()).map(|found| expected.checked(custom, &what, found, output.origin()))
    };
    inputs.iter().zip(pulled).enumerate().map(one).collect()
}

fn placeholder_like(tensor: &Tensor) -> Tensor {
    Tensor::placeholder(tensor.shape().clone(), tensor.dtype())
}
