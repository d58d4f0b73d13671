//! What each mode of a derivative costs, as text and as numbers.

use std::fmt;

use super::derivative::Mode;
use crate::opt::contract::metric;

/// What a derivative is predicted to cost in one mode. What the value and the gradient compute anyway is not counted.
///
/// ```
/// use glassgrad::{Tensor, calculus::{self, Mode}};
/// let a = Tensor::ones([20, 10]);
/// let explanation = calculus::hessian(|x: &Tensor| a.matmul(x).exp().sum()).explain(&Tensor::zeros(10)).unwrap();
/// let of = |mode| explanation.candidates.iter().find(|candidate| candidate.mode == mode).unwrap();
/// assert!(of(Mode::CrossCountry).flops <= of(Mode::Reverse).flops.min(of(Mode::Forward).flops));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// In which order partial derivatives are multiplied.
    pub mode: Mode,
    /// The FLOPs of computing what is held.
    pub flops: u128,
    /// The bytes that are moved for it.
    pub bytes: u128,
    /// The bytes that are held.
    pub held_bytes: u128,
    /// Whether this is the mode that is used.
    pub chosen: bool,
}

/// The modes of a derivative side by side.
///
/// ```
/// use glassgrad::{Tensor, calculus};
/// let explanation = calculus::hessian(|x: &Tensor| x.square().sum()).explain(&Tensor::zeros(3)).unwrap();
/// assert!(explanation.to_string().starts_with("2·δ_ij"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Forward, reverse, joined and cross-country mode.
    pub candidates: Vec<Candidate>,
    /// What is held, in Einstein notation.
    pub expression: String,
    /// The FLOPs of the chosen mode if tensors of lowest order were multiplied first: a rule that is easy to follow by
    /// hand, and what the search over all orders is measured against.
    pub lowest_order_first: u128,
    /// The bytes of the derivative as a dense array.
    pub dense_bytes: u128,
    /// How many joins of two factors the search has weighed, in all sweeps together.
    pub joins_weighed: u64,
    /// The budget of that search: for each of six sweeps 20,000 joins, and 50 for each node of the graph that is swept. Plans
    /// are exact within it and greedy up to twice as much, beyond which products stay as they are; so planning takes at
    /// most a fixed multiple of the steps of the dense derivative, beside a constant.
    pub joins_budget: u64,
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.expression)?;
        for candidate in &self.candidates {
            let Candidate { mode, flops, bytes, held_bytes, chosen } = candidate;
            let mark = if *chosen { "  chosen" } else { "" };
            let (flops, bytes, held) = (metric(*flops, "FLOP"), metric(*bytes, "B"), metric(*held_bytes, "B"));
            writeln!(formatter, "{:<13}  {flops:>10}  {bytes:>8} moved  {held:>8} held{mark}", mode.to_string())?;
        }
        let (by_order, dense) = (metric(self.lowest_order_first, "FLOP"), metric(self.dense_bytes, "B"));
        write!(formatter, "lowest order first it would take {by_order}, and the dense array {dense}")
    }
}
