//! The certificate of a function of trees of tensors, and the operation to blame.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::{Certificate, DIFFERENCE_STEPS, Line, Pair, settled_difference};
use crate::array::{Array, Buffer};
use crate::diff::{Outcome, pullback, pushforward};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{MultiOp, Node, Op, Rule, Tensor};
use crate::glass::{Labels, Scope};
use crate::rng::Key;
use crate::runtime::ValueKey;
use crate::tree::Tree;

/// How many steps of a loop are searched for the faulty rule.
const STEPS_OF_LOOPS: usize = 3;

/// The defect of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// Its derivative is not that of its value.
    Derivative,
    /// Its pullback is not the transpose of its pushforward.
    Transpose,
    /// The derivative of its derivative is not that.
    SecondDerivative,
    /// Its pullback, or its pushforward, is not linear.
    Linearity,
}

/// An operation whose rule is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorBlame {
    /// The label of its result.
    pub label: String,
    /// The operation in a word.
    pub operation: String,
    /// Its expression, in labels.
    pub expression: String,
    /// The line that created it.
    pub origin: &'static Location<'static>,
    /// The operand in which the derivative is wrong, counted from 0.
    pub operand: usize,
    /// What is wrong.
    pub suspicion: Suspicion,
    /// What the rule gives, for one element along one direction.
    pub stored: f64,
    /// What it should be: by finite differences, or for a pullback by the pushforward.
    pub expected: f64,
}

impl fmt::Display for TensorBlame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TensorBlame { label, expression, origin, operand, suspicion, stored, expected, .. } = self;
        let place = format!("{}:{}:{}", origin.file(), origin.line(), origin.column());
        write!(formatter, "{label} = {expression} at {place}: in operand {} ", operand + 1)?;
        match suspicion {
            Suspicion::Derivative => {
                write!(formatter, "its derivative is {stored}, finite differences give {expected}")
            }
            Suspicion::Transpose => write!(formatter, "its pullback gives {stored}, its pushforward {expected}"),
            Suspicion::SecondDerivative => {
                write!(formatter, "its second derivative is {stored}, finite differences give {expected}")
            }
            Suspicion::Linearity => {
                write!(formatter, "its rule is not linear: of 2u - 3v it makes {stored}, of u and v {expected}")
            }
        }
    }
}

/// Tests the derivatives of a function of tensors at a point, along directions drawn from a key: the adjoint
/// identity, and of ⟨w, f⟩ with random w the symmetry of the Hessian and the remainders of Taylor's theorem. If
/// one fails, the rule of every operation is put before finite differences of itself. Certify in 64 bits: in 32
/// bits hardly a remainder stands out from the rounding.
///
/// ```
/// use glassgrad::{Tensor, certify::certify_tensors, rng::Key};
/// let point = (Tensor::from([0.3, -0.7]), Tensor::from([[0.5, 1.0], [-2.0, 0.1]]));
/// let f = |(x, a): &(Tensor, Tensor)| (a.matmul(x).tanh(), x.softmax(0));
/// assert!(certify_tensors(f, &point, Key::new(1)).unwrap().holds());
/// ```
pub fn certify_tensors<X: Tree, R: Outcome>(
    function: impl Fn(&X) -> R,
    x: &X,
    key: Key,
) -> Result<Certificate<TensorBlame>, Error> {
    let direction = |number: u64| -> X {
        let mut leaf_number = 0;
        x.map(|leaf| {
            leaf_number += 1;
            match leaf.is_float() {
                true => Tensor::normal(key.fold(number).fold(leaf_number), leaf.shape()).cast(leaf.dtype()),
                false => leaf.zeros_like(),
            }
        })
    };
    let (u, v) = (direction(1), direction(2));
    let variables = x.map(Tensor::wrapped);
    let leaves = variables.leaves();
    let results: Vec<Tensor> = function(&variables).outcome().flatten();
    if let Some(error) = results.iter().find_map(Tensor::error) {
        return Err(error.clone());
    }
    let names: Vec<(Tensor, String)> = leaves.iter().map(named).collect();
    // Forward and reverse mode of a rule that is not linear are not each other's transposes, and one may not even exist.
    let not_linear = blame(&results, &names, key.fold(4), not_linear)?;
    if !not_linear.is_empty() {
        return Ok(Certificate::refuted(not_linear));
    }
    let floats: Vec<&Tensor> = results.iter().filter(|result| result.is_float()).collect();
    let weights: Vec<Tensor> = floats
        .iter()
        .enumerate()
        .map(|(k, result)| Tensor::normal(key.fold(3).fold(k as u64), result.shape()).cast(result.dtype()))
        .collect();
    let inputs: Vec<&Tensor> = leaves.iter().map(|(_, leaf)| leaf).filter(|leaf| leaf.is_float()).collect();
    let along = |direction: &X| -> Vec<Tensor> { direction.flatten().into_iter().filter(Tensor::is_float).collect() };
    let (u, v_all, v) = (along(&u), v.flatten(), along(&v));
    let moved = |direction: &[Tensor]| -> Vec<(&Tensor, Tensor)> {
        inputs.iter().copied().zip(direction.iter().cloned()).collect()
    };
    let or_zeros = |found: Vec<Option<Tensor>>, like: &[&Tensor]| -> Vec<Tensor> {
        found.into_iter().zip(like).map(|(found, like)| found.unwrap_or_else(|| like.zeros_like())).collect()
    };
    let tangents = or_zeros(pushforward(&floats, &moved(&v), &[]), &floats);
    let seeds: Vec<(&Tensor, Tensor)> = floats.iter().copied().zip(weights.iter().cloned()).collect();
    let gradient = or_zeros(pullback(&seeds, &inputs, &[]), &inputs);
    let partials: Vec<&Tensor> = gradient.iter().collect();
    let [curved_u, curved_v] = [&u, &v].map(|along| or_zeros(pushforward(&partials, &moved(along), &[]), &partials));
    let owned: Vec<Tensor> = floats.iter().map(|result| (*result).clone()).collect();
    let (base, terms) = inner(&weights, &owned)?;
    let (forward, forward_terms) = inner(&weights, &tangents)?;
    let (directional, directional_terms) = inner(&gradient, &v)?;
    let (first, first_terms) = inner(&curved_u, &v)?;
    let (second, second_terms) = inner(&curved_v, &u)?;
    let curvature = inner(&curved_v, &v)?.0;
    let in_64_bits = leaves.iter().map(|(_, leaf)| leaf).chain(&results).all(|tensor| tensor.dtype() != DType::F32);
    let precision = if in_64_bits { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let line = Line { base, terms, directional, curvature, precision };
    let adjoint = Pair { first: forward, second: directional, terms: forward_terms.max(directional_terms) };
    let symmetry = Pair { first, second, terms: first_terms.max(second_terms) };
    let value_at = |step: f64| {
        let point = x.with_leaves(
            x.flatten().iter().zip(&v_all).map(|(x, v)| if x.is_float() { x + v * step } else { x.clone() }).collect(),
        );
        let results = function(&point).outcome().flatten();
        let floats: Vec<Tensor> = results.into_iter().filter(Tensor::is_float).collect();
        inner(&weights, &floats).map_or(f64::NAN, |(value, _)| value)
    };
    let mut certificate = line.certificate(&adjoint, &symmetry, value_at, Vec::new());
    if !certificate.holds() {
        certificate.blame = blame(&results, &names, key.fold(4), suspicion)?;
    }
    Ok(certificate)
}

/// A leaf with the name of its path.
fn named((path, leaf): &(crate::tree::Path, Tensor)) -> (Tensor, String) {
    let path = path.to_string();
    (leaf.clone(), if path.is_empty() { "x".to_owned() } else { path })
}

/// ⟨a, b⟩ over all leaves, and the sum of the sizes of its terms.
fn inner(a: &[Tensor], b: &[Tensor]) -> Result<(f64, f64), Error> {
    let arrays = Tensor::eval_all(&a.iter().chain(b).collect::<Vec<_>>())?;
    let (first, second) = arrays.split_at(a.len());
    let terms = first.iter().zip(second).flat_map(|(a, b)| {
        (0..a.buffer().len()).map(|place| a.buffer().get(place) * b.buffer().get(place)).collect::<Vec<_>>()
    });
    Ok(terms.fold((0.0, 0.0), |(sum, sizes), term| (sum + term, sizes + term.abs())))
}

/// A test of the rule of one operation in one operand: what is wrong, what the rule gives, and what it should.
type Test = fn(&Node, &[Array], usize, Key) -> Option<(Suspicion, f64, f64)>;

/// Tests the rule of every operation that some results depend on.
fn blame(results: &[Tensor], names: &[(Tensor, String)], key: Key, test: Test) -> Result<Vec<TensorBlame>, Error> {
    let roots: Vec<&Tensor> = results.iter().collect();
    let level = Scope::of(&roots);
    let labels = Labels::new(&level, names, &roots);
    let values = level.values()?;
    let mut trial = Trial { labels: &labels, values: &values, key, test, blamed: Vec::new(), seen: HashSet::new() };
    trial.level(&level, &[]);
    Ok(trial.blamed)
}

/// The search for operations to blame.
struct Trial<'t> {
    labels: &'t Labels,
    values: &'t HashMap<ValueKey, Array>,
    key: Key,
    test: Test,
    blamed: Vec<TensorBlame>,
    seen: HashSet<u64>,
}

impl Trial<'_> {
    fn level(&mut self, level: &Scope, steps: &[usize]) {
        for multi in level.multis().filter(|multi| !matches!(multi.op, MultiOp::Sweep(_))) {
            let inside = Scope::of_body(multi.op.body());
            for step in 0..multi.op.length().min(STEPS_OF_LOOPS) {
                self.level(&inside, &[steps, &[step]].concat());
            }
        }
        for (node, inputs) in &level.nodes {
            let has_rule =
                !matches!(node.op, Op::Variable | Op::GetOutput(_) | Op::Cast) && !node.op.properties().is_flat;
            if !has_rule || inputs.is_empty() || !node.dtype.is_float() || self.seen.contains(&node.id) {
                continue;
            }
            let value = |input: &Arc<Node>| {
                (0..=steps.len()).rev().find_map(|depth| self.values.get(&(steps[..depth].to_vec(), input.id)))
            };
            let Some(arrays) = inputs.iter().map(value).collect::<Option<Vec<&Array>>>() else { continue };
            let arrays: Vec<Array> = arrays.into_iter().map(in_64_bits).collect();
            for operand in (0..inputs.len()).filter(|operand| arrays[*operand].dtype().is_float()) {
                let key = self.key.fold(node.id).fold(operand as u64);
                let Some((suspicion, stored, expected)) = (self.test)(node, &arrays, operand, key) else { continue };
                self.seen.insert(node.id);
                self.blamed.push(TensorBlame {
                    label: self.labels.text(node.id),
                    operation: node.op.name(),
                    expression: self.labels.expression(node, inputs),
                    origin: node.origin,
                    operand,
                    suspicion,
                    stored,
                    expected,
                });
            }
        }
    }
}

fn in_64_bits(array: &Array) -> Array {
    match array.buffer() {
        Buffer::F16(_) | Buffer::BF16(_) | Buffer::F32(_) => {
            Array::new(array.shape().clone(), array.buffer().cast(DType::F64))
        }
        Buffer::F64(_) | Buffer::I64(_) | Buffer::I32(_) | Buffer::U8(_) | Buffer::Bool(_) => array.clone(),
    }
}

/// One operation alone, as a function of a step of one operand along a direction: its value there, and its
/// derivatives by its rule.
struct Alone<'a> {
    node: &'a Node,
    arrays: &'a [Array],
    operand: usize,
    direction: Tensor,
}

impl Alone<'_> {
    /// The operand as a variable, and the result, with the operand moved.
    fn at(&self, step: f64) -> (Tensor, Tensor) {
        let mut inputs: Vec<Tensor> = self.arrays.iter().map(|array| Tensor::leaf(array.clone())).collect();
        let moved =
            if step == 0.0 { inputs[self.operand].clone() } else { &inputs[self.operand] + &self.direction * step };
        let variable = moved.wrapped();
        inputs[self.operand] = variable.clone();
        let nodes = inputs.iter().map(|input| Arc::clone(&input.0)).collect();
        let Node { op, shape, origin, .. } = self.node;
        (variable, Tensor::make(op.clone(), nodes, shape.clone(), DType::F64, None, origin))
    }

    fn pushed(&self, variable: &Tensor, result: &Tensor) -> Tensor {
        let found = pushforward(&[result], &[(variable, self.direction.clone())], &[]).remove(0);
        found.unwrap_or_else(|| result.zeros_like())
    }

    /// Where what a rule gives is not the derivative of what `function` gives: both numbers.
    fn difference(&self, given: &Tensor, function: impl Fn(f64) -> Tensor) -> Option<(f64, f64)> {
        let largest = &self.arrays[self.operand];
        let size = (0..largest.buffer().len()).map(|place| largest.buffer().get(place).abs()).fold(1e-3, f64::max);
        let given = given.eval().ok()?;
        let curve: Vec<Array> =
            DIFFERENCE_STEPS.iter().map(|step| function(step * size).eval().ok()).collect::<Option<_>>()?;
        (0..given.buffer().len()).find_map(|place| {
            let values = std::array::from_fn(|k| curve[k].buffer().get(place));
            let (expected, tolerance) = settled_difference(values, size)?;
            let stored = given.buffer().get(place);
            // Rounding of large numbers in the curve is no fault of the rule.
            let rounding = 1e-10 * curve[3].buffer().get(place).abs() / size;
            (stored.is_nan() || (stored - expected).abs() > tolerance + rounding).then_some((stored, expected))
        })
    }
}

/// What is wrong with the rule of an operation in one operand: what it gives, and what it should.
fn suspicion(node: &Node, arrays: &[Array], operand: usize, key: Key) -> Option<(Suspicion, f64, f64)> {
    let random = |number: u64, like: &crate::shape::Shape| Tensor::normal(key.fold(number), like).cast(DType::F64);
    let direction = random(1, arrays[operand].shape());
    let alone = Alone { node, arrays, operand, direction };
    let (variable, result) = alone.at(0.0);
    let tangent = alone.pushed(&variable, &result);
    if let Some((stored, expected)) = alone.difference(&tangent, |step| alone.at(step).1) {
        return Some((Suspicion::Derivative, stored, expected));
    }
    let weights = random(2, &node.shape);
    let pulled = pullback(&[(&result, weights.clone())], &[&variable], &[]).remove(0);
    let pulled = pulled.unwrap_or_else(|| variable.zeros_like());
    let (reverse, reverse_terms) = inner(&[pulled], std::slice::from_ref(&alone.direction)).ok()?;
    let (forward, forward_terms) = inner(&[weights], std::slice::from_ref(&tangent)).ok()?;
    if (Pair { first: forward, second: reverse, terms: forward_terms.max(reverse_terms) }).gap() > 1e-10 {
        return Some((Suspicion::Transpose, reverse, forward));
    }
    let curvature = alone.pushed(&variable, &tangent);
    let slope_at = |step: f64| {
        let (variable, result) = alone.at(step);
        alone.pushed(&variable, &result)
    };
    let (stored, expected) = alone.difference(&curvature, slope_at)?;
    Some((Suspicion::SecondDerivative, stored, expected))
}

/// Whether the rule of a custom operation is not linear in one operand: what it gives for 2u - 3v, and what follows from
/// those for u and v.
fn not_linear(node: &Node, arrays: &[Array], operand: usize, key: Key) -> Option<(Suspicion, f64, f64)> {
    let Op::Custom(custom) = &node.op else { return None };
    let random = |number: u64, like: &crate::shape::Shape| Tensor::normal(key.fold(number), like).cast(DType::F64);
    let alone = Alone { node, arrays, operand, direction: random(1, arrays[operand].shape()) };
    let (variable, result) = alone.at(0.0);
    let inputs: Vec<Tensor> = arrays.iter().map(|array| Tensor::leaf(array.clone())).collect();
    let (shape, is_forward) = match custom.0.rule(&inputs, &result) {
        Rule::Pullback(_) => (&node.shape, false),
        Rule::Pushforward(_) => (arrays[operand].shape(), true),
        // Derivatives of formulas are linear by construction.
        Rule::Formula(_) => return None,
    };
    let apply = |argument: &Tensor| {
        let found = match is_forward {
            true => pushforward(&[&result], &[(&variable, argument.clone())], &[]).remove(0),
            false => pullback(&[(&result, argument.clone())], &[&variable], &[]).remove(0),
        };
        found.unwrap_or_else(|| if is_forward { result.zeros_like() } else { variable.zeros_like() })
    };
    let (u, v) = (random(2, shape), random(3, shape));
    // The second pair tests the sign: p(-u) = -p(u).
    [(&u, &v), (&u, &u), (&v, &u)].into_iter().find_map(|(u, v)| {
        let together = apply(&(u * 2.0 - v * 3.0)).eval().ok()?;
        let (of_u, of_v) = (apply(u).eval().ok()?, apply(v).eval().ok()?);
        (0..together.buffer().len()).find_map(|place| {
            let (of_u, of_v) = (2.0 * of_u.buffer().get(place), 3.0 * of_v.buffer().get(place));
            let (stored, expected) = (together.buffer().get(place), of_u - of_v);
            let tolerance = 1e-9 * (of_u.abs() + of_v.abs()).max(1e-300);
            ((stored - expected).abs() > tolerance).then_some((Suspicion::Linearity, stored, expected))
        })
    })
}
