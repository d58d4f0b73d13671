//! The certificate of a function of numbers, on a tape.

use std::fmt;

use super::{Certificate, DIFFERENCE_STEPS, Line, Pair, settled_difference};
use crate::ops::{Operation, Real};
use crate::scalar::tape::{Node, Operand};
use crate::scalar::{Dual, Recorded, Sweep, Tape, Var};

/// An operation whose partial derivative is not that of its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Blame {
    /// The place on the tape.
    pub node: usize,
    /// The operation.
    pub operation: Operation,
    /// The operand with respect to which the partial derivative is wrong, counted from 0.
    pub operand: usize,
    /// What the tape holds.
    pub stored: f64,
    /// What finite differences give.
    pub expected: f64,
}

impl fmt::Display for Blame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Blame { node, operation, operand, stored, expected } = self;
        let ordinal = if *operand == 0 { "first" } else { "second" };
        write!(
            formatter,
            "operation {operation} at node {node}: the partial derivative in its {ordinal} operand is {stored}, \
             finite differences give {expected}"
        )
    }
}

/// Tests the derivatives of a function at a point, along directions drawn from a seed.
///
/// ```
/// use glassgrad::certify::certify;
/// let certificate = certify(|x| x[0].sin() * x[1].exp(), &[0.3, 0.7], 0);
/// assert!(certificate.holds());
/// ```
pub fn certify(
    function: impl for<'t> Fn(&[Var<'t, Dual<f64>>]) -> Var<'t, Dual<f64>>,
    x: &[f64],
    seed: u64,
) -> Certificate {
    let mut random = Directions(seed);
    let (u, v) = (random.next(x.len()), random.next(x.len()));
    let record = |direction: &[f64]| {
        let seeded: Vec<Dual<f64>> = x.iter().zip(direction).map(|(x, v)| Dual::new(*x, [*v])).collect();
        Recorded::new(&function, &seeded)
    };
    let (along_u, along_v) = (record(&u), record(&v));
    let gradient: Vec<f64> = along_v.gradient().iter().map(|partial| partial.value).collect();
    let curved: [Vec<f64>; 2] =
        [&along_u, &along_v].map(|recorded| recorded.gradient().iter().map(|partial| partial.tangent()).collect());
    let forward = forward_derivative(&along_v, &v);
    let directional = dot(&gradient, &v);
    let curvature = dot(&curved[1], &v);
    let base = along_v.value().value;
    let value_at = |step: f64| {
        let moved: Vec<Dual<f64>> = x.iter().zip(&v).map(|(x, v)| Dual::constant(x + step * v)).collect();
        Recorded::new(&function, &moved).value().value
    };
    let (first, second) = (dot(&curved[0], &v), dot(&curved[1], &u));
    let line = Line { base, terms: base.abs(), directional, curvature, precision: f64::EPSILON };
    let [adjoint, symmetry] =
        [(forward, directional), (first, second)].map(|(first, second)| Pair { first, second, terms: 0.0 });
    line.certificate(&adjoint, &symmetry, value_at, blame(along_v.tape()))
}

/// The derivative along a direction, by a forward sweep over the recorded partials.
fn forward_derivative(recorded: &Recorded<Dual<f64>>, direction: &[f64]) -> f64 {
    let mut sweep = Sweep::new();
    let seeds: Vec<_> = recorded.inputs().iter().copied().zip(direction.iter().map(|v| Dual::constant(*v))).collect();
    recorded.tape().forward_into(&seeds, &mut sweep);
    match recorded.outputs()[0] {
        Operand::Node(id) => sweep.of(id).value,
        Operand::Constant(_) => 0.0,
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Compares every operation on the tape with finite differences of itself.
fn blame(tape: &Tape<Dual<f64>>) -> Vec<Blame> {
    let mut blamed = Vec::new();
    for id in tape.ids() {
        let node = tape.node(id);
        let values: Vec<f64> = node
            .operands
            .iter()
            .map(|operand| match operand {
                Operand::Node(id) => tape.value(*id).value,
                Operand::Constant(value) => value.value,
            })
            .collect();
        let slots = (0..values.len()).filter(|slot| matches!(node.operands[*slot], Operand::Node(_)));
        for (slot, partial) in slots.zip(&node.partials) {
            let (stored, expected) = (partial.primal(), finite_difference(&node, &values, slot));
            let Some((expected, tolerance)) = expected else { continue };
            let wrong = (stored - expected).abs() > tolerance;
            if wrong || stored.is_nan() {
                blamed.push(Blame { node: id.index(), operation: node.operation, operand: slot, stored, expected });
            }
        }
    }
    blamed
}

/// The derivative of a node's operation in one operand by differences, and how far it may be off.
fn finite_difference(node: &Node<Dual<f64>>, values: &[f64], slot: usize) -> Option<(f64, f64)> {
    let apply = |operand: f64| {
        let mut moved = values.to_vec();
        moved[slot] = operand;
        match moved[..] {
            [x] => node.operation.apply_unary(x, node.parameter.unwrap_or(0.0)),
            [a, b] => node.operation.apply_binary(a, b),
            _ => None,
        }
    };
    let scale = values[slot].abs().max(1e-3);
    let mut found = [0.0; DIFFERENCE_STEPS.len()];
    for (value, step) in found.iter_mut().zip(DIFFERENCE_STEPS) {
        *value = apply(values[slot] + step * scale)?;
    }
    settled_difference(found, scale)
}

/// Directions with components between -1 and 1 from a seed (SplitMix64).
struct Directions(u64);

impl Directions {
    fn next(&mut self, length: usize) -> Vec<f64> {
        (0..length)
            .map(|_| {
                self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut bits = self.0;
                bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::Float;
    use crate::ops::{Algebra, Unary};

    /// The sine with a derivative that is wrong by 0.1 %.
    struct WrongSine;

    impl Unary for WrongSine {
        const OPERATION: Operation = Operation::Sin;
        const USES_OUTPUT: bool = false;
        fn value<F: Float>(x: F, _: f64) -> F {
            x.sin()
        }
        fn derivative<T: Algebra>(x: T, _: T, _: f64) -> T {
            x.cos() * T::literal(1.001)
        }
    }

    #[test]
    fn a_wrong_rule_is_found_and_named() {
        let certificate = certify(|x| x[0].exp() * x[1].unary::<WrongSine>(0.0) + x[0] * x[1], &[0.4, 0.9], 1);
        assert!(!certificate.holds());
        let [Blame { operation: Operation::Sin, operand: 0, node: 3, .. }] = certificate.blame[..] else {
            panic!("blamed {:?}", certificate.blame);
        };
        assert!(certificate.first_order_slope.is_some_and(|slope| slope < 1.5));
        assert!(
            certificate.blame[0]
                .to_string()
                .starts_with("operation sin at node 3: the partial derivative in its first")
        );
    }

    #[test]
    fn smooth_functions_are_certified_and_kinks_do_not_get_the_blame() {
        for seed in 0..20 {
            let certificate = certify(|x| (x[0] * x[1]).tanh() + x[2].gelu() * x[0].square(), &[0.3, -0.8, 0.5], seed);
            assert!(certificate.holds(), "{certificate:?}");
        }
        assert_eq!(certify(|x| x[0].abs() + x[0].relu() + x[0].exp(), &[0.0], 3).blame, []);
    }

    #[test]
    fn a_linear_function_leaves_no_remainder() {
        let certificate = certify(|x| x[0] * 2.0 - x[1], &[1.0, 2.0], 5);
        assert_eq!((certificate.first_order_slope, certificate.holds()), (None, true));
    }
}
