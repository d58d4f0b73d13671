//! A certificate that derivatives are right, and who is to blame if they are not.
//!
//! Three exact identities are tested at a point along random directions: the adjoint identity
//! ⟨w, Jv⟩ = ⟨Jᵀw, v⟩ between the two sweeps, the symmetry of the Hessian uᵀHv = vᵀHu, and Taylor's
//! theorem: what is left after the first-order term falls with h², after the second-order term with
//! h³. When one fails, every operation is compared with finite differences of itself.
//!
//! The identities stand here; `scalar` measures them on a tape, `tensor` on graphs of tensors.

mod scalar;
mod tensor;

use std::fmt;

pub use scalar::{Blame, certify};
pub use tensor::{Suspicion, TensorBlame, certify_tensors};

/// The steps at which the remainder of Taylor's theorem is measured.
const STEPS: [f64; 6] = [1e-1, 3e-2, 1e-2, 1e-3, 1e-4, 1e-5];

/// The outcome of the tests at one point.
///
/// ```
/// use glassgrad::certify::certify;
/// let certificate = certify(|x| x[0].sin() * x[1], &[0.3, 0.7], 0);
/// let text = certificate.to_string();
/// assert!(text.starts_with("holds ⟨w, Jv⟩ = ⟨Jᵀw, v⟩: gap "));
/// assert!(text.contains("holds f + h·f': the remainder falls with h^2.00"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate<B = Blame> {
    /// |⟨w, Jv⟩ - ⟨Jᵀw, v⟩| relative to its terms.
    pub adjoint_gap: f64,
    /// |uᵀHv - vᵀHu| relative to its terms.
    pub symmetry_gap: f64,
    /// How large these may be: a multiple of machine precision.
    pub tolerance: f64,
    /// Pairs of step and remainder after the first-order term.
    pub first_order_remainders: Vec<(f64, f64)>,
    /// The power of h with which that remainder falls; `None` if it is rounding noise from the start.
    pub first_order_slope: Option<f64>,
    /// The power of h with which the remainder after the second-order term falls.
    pub second_order_slope: Option<f64>,
    /// Operations whose partial derivatives differ from finite differences of themselves.
    pub blame: Vec<B>,
}

impl<B> Certificate<B> {
    /// The certificate of operations whose rules are wrong before any identity can be tested.
    fn refuted(blame: Vec<B>) -> Certificate<B> {
        Certificate {
            adjoint_gap: f64::NAN,
            symmetry_gap: f64::NAN,
            tolerance: 0.0,
            first_order_remainders: Vec::new(),
            first_order_slope: None,
            second_order_slope: None,
            blame,
        }
    }

    /// Whether all tests passed.
    pub fn holds(&self) -> bool {
        let small = |gap: f64| gap <= self.tolerance;
        let converges = |slope: Option<f64>, least: f64| slope.is_none_or(|slope| slope >= least);
        small(self.adjoint_gap)
            && small(self.symmetry_gap)
            && converges(self.first_order_slope, 1.8)
            && converges(self.second_order_slope, 2.7)
            && self.blame.is_empty()
    }
}

/// Each test with its outcome, and who is to blame.
impl<B: fmt::Display> fmt::Display for Certificate<B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gap = |gap: f64| (format!("gap {gap:.1e}"), gap <= self.tolerance);
        let slope = |slope: Option<f64>, least: f64| match slope {
            Some(slope) => (format!("the remainder falls with h^{slope:.2}"), slope >= least),
            None => ("the remainder is rounding".to_owned(), true),
        };
        let tests = [
            ("⟨w, Jv⟩ = ⟨Jᵀw, v⟩", gap(self.adjoint_gap)),
            ("uᵀHv = vᵀHu", gap(self.symmetry_gap)),
            ("f + h·f'", slope(self.first_order_slope, 1.8)),
            ("f + h·f' + h²/2·f''", slope(self.second_order_slope, 2.7)),
        ];
        for (identity, (outcome, holds)) in tests {
            writeln!(formatter, "{} {identity}: {outcome}", if holds { "holds" } else { "FAILS" })?;
        }
        self.blame.iter().try_for_each(|blame| writeln!(formatter, "  {blame}"))
    }
}

/// Two numbers that should be equal, and the size of the terms that they were added up from.
struct Pair {
    first: f64,
    second: f64,
    terms: f64,
}

impl Pair {
    fn gap(&self) -> f64 {
        let Pair { first, second, terms } = self;
        let gap = (first - second).abs() / terms.max(first.abs()).max(second.abs()).max(1e-300);
        if first == second { 0.0 } else { gap }
    }
}

/// A function along a line: its value at the point, the size of what that is added up from, its first two
/// derivatives, and the machine precision of all this.
struct Line {
    base: f64,
    terms: f64,
    directional: f64,
    curvature: f64,
    precision: f64,
}

impl Line {
    /// The certificate of two identities and of what remains along the line.
    fn certificate<B>(
        &self,
        adjoint: &Pair,
        symmetry: &Pair,
        value_at: impl Fn(f64) -> f64,
        blame: Vec<B>,
    ) -> Certificate<B> {
        let Line { base, terms, directional, curvature, precision } = *self;
        let remainders: Vec<(f64, f64, f64)> = STEPS
            .iter()
            .map(|step| {
                let first = value_at(*step) - base - step * directional;
                (*step, first.abs(), (first - 0.5 * step * step * curvature).abs())
            })
            .collect();
        let noise = 1e3 * precision * (terms + directional.abs()).max(f64::MIN_POSITIVE);
        let fall = |remainder: fn(&(f64, f64, f64)) -> f64| {
            slope_of(remainders.iter().map(|row| (row.0, remainder(row))).filter(|(_, r)| *r > noise))
        };
        Certificate {
            adjoint_gap: adjoint.gap(),
            symmetry_gap: symmetry.gap(),
            tolerance: f64::max(1e-10, 1e3 * precision),
            first_order_slope: fall(|row| row.1),
            second_order_slope: fall(|row| row.2),
            first_order_remainders: remainders.iter().map(|row| (row.0, row.1)).collect(),
            blame,
        }
    }
}

/// The slope of the least-squares line in log-log coordinates: the order of convergence, or `None` for fewer than two points.
fn slope_of(points: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let points: Vec<(f64, f64)> = points.map(|(step, remainder)| (step.ln(), remainder.ln())).collect();
    if points.len() < 2 {
        return None;
    }
    // The two smallest steps above the noise are nearest to the limit.
    let [before, last] = [points[points.len() - 2], points[points.len() - 1]];
    Some((before.1 - last.1) / (before.0 - last.0))
}

/// The steps at which a function must be known for [`settled_difference`], in units of its scale.
const DIFFERENCE_STEPS: [f64; 7] = [-2e-5, -1e-5, -1e-6, 0.0, 1e-6, 1e-5, 2e-5];

/// The derivative of a function of a step by central differences, and how far it may be off: its distance from the
/// same with twice the step. `None` where it does not settle, as at a kink. The values are those at
/// [`DIFFERENCE_STEPS`] times the scale.
fn settled_difference(values: [f64; 7], scale: f64) -> Option<(f64, f64)> {
    let [far_left, left, near_left, middle, near_right, right, far_right] = values;
    let (wide, narrow) = ((far_right - far_left) / (4e-5 * scale), (right - left) / (2e-5 * scale));
    let spread = (wide - narrow).abs();
    let settled = wide.is_finite() && narrow.is_finite() && spread <= 1e-4 * narrow.abs().max(1e-6);
    // At a kink both one-sided derivatives are finite and differ; the convention decides there, not the limit.
    let bend = ((near_right - middle) - (middle - near_left)).abs();
    let sided = bend <= 1e-3 * (near_right - near_left).abs().max(1e-12 * scale);
    (settled && sided).then_some((narrow, 1e-5 * narrow.abs().max(1e-3) + 4.0 * spread))
}
