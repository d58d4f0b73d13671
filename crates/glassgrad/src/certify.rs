//! A certificate that derivatives are right, and who is to blame if they are not.
//!
//! Three exact identities are tested at a point along random directions: the adjoint identity
//! ⟨w, Jv⟩ = ⟨Jᵀw, v⟩ between the two sweeps, the symmetry of the Hessian uᵀHv = vᵀHu, and Taylor's
//! theorem: what is left after the first-order term falls with h², after the second-order term with
//! h³. When one fails, every operation on the tape is compared with finite differences of itself.

use std::fmt;

use crate::ops::{Operation, Real};
use crate::scalar::tape::{Node, Operand};
use crate::scalar::{Dual, Recorded, Sweep, Tape, Var};

/// The steps at which the remainder of Taylor's theorem is measured.
const STEPS: [f64; 6] = [1e-1, 3e-2, 1e-2, 1e-3, 1e-4, 1e-5];

/// The outcome of the tests at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// |⟨w, Jv⟩ - ⟨Jᵀw, v⟩| relative to its terms.
    pub adjoint_gap: f64,
    /// |uᵀHv - vᵀHu| relative to its terms.
    pub symmetry_gap: f64,
    /// Pairs of step and remainder after the first-order term.
    pub first_order_remainders: Vec<(f64, f64)>,
    /// The power of h with which that remainder falls; `None` if it is rounding noise from the start.
    pub first_order_slope: Option<f64>,
    /// The power of h with which the remainder after the second-order term falls.
    pub second_order_slope: Option<f64>,
    /// Operations whose stored partial derivatives differ from finite differences of themselves.
    pub blame: Vec<Blame>,
}

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

impl Certificate {
    /// Whether all tests passed.
    pub fn holds(&self) -> bool {
        let small = |gap: f64| gap <= 1e-10;
        let steep = |slope: Option<f64>, least: f64| slope.is_none_or(|slope| slope >= least);
        small(self.adjoint_gap)
            && small(self.symmetry_gap)
            && steep(self.first_order_slope, 1.8)
            && steep(self.second_order_slope, 2.7)
            && self.blame.is_empty()
    }
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
    let gradient: Vec<f64> = along_v.gradient().iter().map(|slope| slope.value).collect();
    let curved: [Vec<f64>; 2] =
        [&along_u, &along_v].map(|recorded| recorded.gradient().iter().map(|slope| slope.tangent()).collect());
    let forward = forward_derivative(&along_v, &v);
    let slope = dot(&gradient, &v);
    let curvature = dot(&curved[1], &v);
    let base = along_v.value().value;
    let value_at = |step: f64| {
        let moved: Vec<Dual<f64>> = x.iter().zip(&v).map(|(x, v)| Dual::constant(x + step * v)).collect();
        Recorded::new(&function, &moved).value().value
    };
    let remainders: Vec<(f64, f64, f64)> = STEPS
        .iter()
        .map(|step| {
            let first = value_at(*step) - base - step * slope;
            (*step, first.abs(), (first - 0.5 * step * step * curvature).abs())
        })
        .collect();
    let noise = 1e3 * f64::EPSILON * (base.abs() + slope.abs()).max(f64::MIN_POSITIVE);
    let fall = |remainder: fn(&(f64, f64, f64)) -> f64| {
        slope_of(remainders.iter().map(|row| (row.0, remainder(row))).filter(|(_, r)| *r > noise))
    };
    Certificate {
        adjoint_gap: relative_gap(forward, slope),
        symmetry_gap: relative_gap(dot(&curved[0], &v), dot(&curved[1], &u)),
        first_order_slope: fall(|row| row.1),
        second_order_slope: fall(|row| row.2),
        first_order_remainders: remainders.iter().map(|row| (row.0, row.1)).collect(),
        blame: blame(along_v.tape()),
    }
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

fn relative_gap(a: f64, b: f64) -> f64 {
    if a == b { 0.0 } else { (a - b).abs() / a.abs().max(b.abs()).max(1e-300) }
}

/// The slope of a straight line through the logarithms, or `None` for fewer than two points.
fn slope_of(points: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let points: Vec<(f64, f64)> = points.map(|(step, remainder)| (step.ln(), remainder.ln())).collect();
    if points.len() < 2 {
        return None;
    }
    // The two smallest steps above the noise are nearest to the limit.
    let [before, last] = [points[points.len() - 2], points[points.len() - 1]];
    Some((before.1 - last.1) / (before.0 - last.0))
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

/// The derivative of a node's operation in one operand by central differences, and how far it may be
/// off: its distance from the same with twice the step. `None` where it does not settle, as at a kink.
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
    let central = |step: f64| Some((apply(values[slot] + step)? - apply(values[slot] - step)?) / (2.0 * step));
    let (wide, narrow) = (central(2e-5 * scale)?, central(1e-5 * scale)?);
    let spread = (wide - narrow).abs();
    let settled = wide.is_finite() && narrow.is_finite() && spread <= 1e-4 * narrow.abs().max(1e-6);
    // At a kink both one-sided slopes are finite and differ; the convention decides there, not the limit.
    let (right, left) = (apply(values[slot] + 1e-6 * scale)?, apply(values[slot] - 1e-6 * scale)?);
    let middle = apply(values[slot])?;
    let sided = ((right - middle) - (middle - left)).abs() <= 1e-3 * (right - left).abs().max(1e-12 * scale);
    (settled && sided).then_some((narrow, 1e-5 * narrow.abs().max(1e-3) + 4.0 * spread))
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
