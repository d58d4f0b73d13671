//! The steps of a derivation, recorded only on request.

use std::fmt;

use super::algebra::Product;

/// One step of rewriting: by which rule, what was there before and after, and the FLOPs that computing either takes.
///
/// ```
/// use glassgrad::{Tensor, calculus};
/// let v = Tensor::from([[1.0, 2.0], [3.0, 4.0]]).named("V");
/// let f = |u: &Tensor| u.matmul(&v.transpose()).square().sum();
/// let steps = calculus::hessian(f).derivation(&Tensor::zeros([2, 2]).cast(v.dtype())).unwrap();
/// assert!(steps.iter().any(|step| step.rule == "contract a Kronecker delta"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What was done.
    pub rule: &'static str,
    /// The expression before, in Einstein notation.
    pub before: String,
    /// The expression after.
    pub after: String,
    /// The FLOPs of the expression before.
    pub flops_before: u128,
    /// The FLOPs of the expression after.
    pub flops_after: u128,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { rule, before, after, flops_before, flops_after } = self;
        write!(formatter, "{rule}: {before}  =  {after}  ({flops_before} FLOP, then {flops_after})")
    }
}

/// The steps in the order in which they were taken.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) steps: Vec<Step>,
    /// What each step replaced, and by what, as sums of products.
    pub(super) sides: Vec<[Vec<Product>; 2]>,
}
