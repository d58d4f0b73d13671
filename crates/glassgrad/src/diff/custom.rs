//! Derivatives of the user's own operations: what a rule does not say is derived from what it says.
//!
//! A pushforward is linear in the tangents and a pullback in the cotangent, and each is the transpose of the
//! other. Pulling a cotangent back through the graph of a linear function transposes it.

use super::forward::pushforward;
use super::reverse::pullback;
use crate::expr::{Behalf, Custom, Node, Rule, Tensor};

/// The cotangents of all inputs from that of the output, without leading axes.
pub(super) fn pull(custom: &Custom, inputs: &[Tensor], output: &Tensor, cotangent: &Tensor) -> Vec<Option<Tensor>> {
    // The rule is the user's: what goes wrong in it goes wrong at its lines.
    let _behalf = Behalf::with_own_lines();
    match custom.0.rule(inputs, output) {
        Rule::Pullback(rule) => rule(cotangent),
        Rule::Pushforward(rule) => {
            let transposed = |number: usize| {
                let tangent = placeholder_like(&inputs[number]);
                let moved: Vec<Option<Tensor>> =
                    (0..inputs.len()).map(|k| (k == number).then(|| tangent.clone())).collect();
                pullback(&[(&rule(&moved), cotangent.clone())], &[&tangent], &[]).remove(0)
            };
            (0..inputs.len()).map(|number| inputs[number].is_float().then(|| transposed(number)).flatten()).collect()
        }
        Rule::Formula(formula) => {
            let variables: Vec<Tensor> = inputs.iter().map(Tensor::wrapped).collect();
            pullback(&[(&formula(&variables), cotangent.clone())], &variables.iter().collect::<Vec<_>>(), &[])
        }
    }
}

/// The tangent of the output from those of the inputs, without leading axes.
pub(super) fn push(custom: &Custom, inputs: &[Tensor], output: &Tensor, moved: &[Option<Tensor>]) -> Tensor {
    let _behalf = Behalf::with_own_lines();
    let found = match custom.0.rule(inputs, output) {
        Rule::Pushforward(rule) => Some(rule(moved)),
        Rule::Pullback(rule) => {
            let cotangent = placeholder_like(output);
            let pulled = rule(&cotangent);
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
            pushforward(&[&formula(&variables)], &pairs, &[]).remove(0)
        }
    };
    found.unwrap_or_else(|| output.zeros_like())
}

/// The output for many examples: by the operation's own rule, or one example at a time.
pub(super) fn batch(node: &Node, custom: &Custom, inputs: &[Tensor], with_axis: &[bool], size: usize) -> Tensor {
    if let Some(whole) = custom.0.batched(inputs, with_axis) {
        return whole;
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
    Tensor::stack(&examples.iter().collect::<Vec<_>>(), 0)
}

fn placeholder_like(tensor: &Tensor) -> Tensor {
    Tensor::placeholder(tensor.shape().clone(), tensor.dtype())
}
