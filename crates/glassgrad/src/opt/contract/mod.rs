//! In which order the factors of an einsum are multiplied.
//!
//! The order does not change the value but can change the cost by orders of magnitude: (AB)v takes n³
//! multiplications and A(Bv) takes n². [`plan`] finds an order, [`plan_all`] one for several einsums over
//! the same operands, in which what they have in common is computed once. This is mathematics of labels
//! and extents alone; no tensor is touched.
//!
//! - `network` is an einsum as sets of labels, and what it costs to join two parts of it;
//! - `search` finds the cheapest tree of joins: up to twelve operands by `exact`, above by `greedy` and then
//!   by `exact` in every small neighbourhood;
//! - `steps` writes a tree down as a list of einsums;
//! - `joint` shares parts between einsums.

mod exact;
mod greedy;
mod joint;
mod network;
mod search;
mod steps;

use std::fmt;

use crate::einsum::{Einsum, Label};

pub use joint::{ContractionRequest, JointPlan, plan_all};

/// The limits and the cost model of a plan.
///
/// The cost of a plan is its FLOPs plus `flops_per_byte` times the bytes that it moves.
///
/// ```
/// use glassgrad::opt::contract::Limits;
/// let limits = Limits { largest_intermediate: Some(1 << 20), ..Limits::default() };
/// assert_eq!((limits.element_bytes, limits.flops_per_byte), (4, 4));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most elements that an intermediate result may have; the output is no intermediate.
    pub largest_intermediate: Option<u128>,
    /// The size of an element in memory.
    pub element_bytes: u128,
    /// How many FLOPs take as long as moving one byte. Zero plans for FLOPs alone.
    pub flops_per_byte: u128,
}

impl Default for Limits {
    /// No limit, `f32`, and four FLOPs a byte: between a processor's first cache, which feeds more than one
    /// byte a FLOP, and its memory, which feeds a tenth.
    fn default() -> Limits {
        Limits { largest_intermediate: None, element_bytes: 4, flops_per_byte: 4 }
    }
}

impl Limits {
    pub(super) fn cost(&self, flops: u128, bytes: u128) -> u128 {
        flops.saturating_add(self.flops_per_byte.saturating_mul(bytes))
    }
}

/// One einsum of a plan.
///
/// ```
/// use glassgrad::einsum::Einsum;
/// use glassgrad::opt::contract::{Limits, plan};
/// let product = Einsum::parse("ij,jk->ik", &[&[2, 3], &[3, 4]]).unwrap();
/// let step = &plan(&product, &Limits::default()).unwrap().steps[0];
/// assert_eq!((step.flops, step.bytes), (2 * 2 * 3 * 4, 4 * (2 * 3 + 3 * 4 + 2 * 4)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The product, with labels and extents of the einsum that was planned.
    pub einsum: Einsum,
    /// The numbers of its operands: inputs come first, then the results of the steps.
    pub operands: Vec<usize>,
    /// Its floating-point operations, as [`flops`] counts them.
    pub flops: u128,
    /// The bytes that it reads and writes, as [`elements_moved`] counts them.
    pub bytes: u128,
}

/// A sequence of einsums of at most two operands that together have the value of a larger one.
///
/// ```
/// use glassgrad::einsum::Einsum;
/// use glassgrad::opt::contract::{Limits, plan};
/// let n = 1000;
/// let product = Einsum::parse("ij,jk,k->i", &[&[n, n], &[n, n], &[n]]).unwrap();
/// assert_eq!(
///     plan(&product, &Limits::default()).unwrap().to_string(),
///     "3 = 1, 2  jk,k->j  2.0 MFLOP, 4.0 MB\n\
///      4 = 0, 3  ij,j->i  2.0 MFLOP, 4.0 MB\n\
///      in all 4.0 MFLOP, 8.0 MB; largest intermediate 1000 elements"
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How many inputs there are; the result of step k has the number `inputs + k`.
    pub inputs: usize,
    /// What is computed, in this order. The coefficient, deltas and broadcasts are in the last step.
    pub steps: Vec<Step>,
    /// The FLOPs of all steps.
    pub flops: u128,
    /// The bytes that all steps move.
    pub bytes: u128,
    /// The most elements that a result has which is not asked for.
    pub largest_intermediate: u128,
    /// How many joins of two parts were weighed to find the plan.
    pub considered: u64,
}

/// No order keeps the intermediate results as small as [`Limits::largest_intermediate`] says.
///
/// ```
/// use glassgrad::einsum::Einsum;
/// use glassgrad::opt::contract::{Limits, plan};
/// let product = Einsum::parse("ij,jk,kl->il", &[&[9, 5], &[5, 5], &[5, 9]]).unwrap();
/// let limits = Limits { largest_intermediate: Some(40), ..Limits::default() };
/// let error = plan(&product, &limits).unwrap_err();
/// assert_eq!(error.smallest, 45);
/// assert_eq!(
///     error.to_string(),
///     "an intermediate result may have 40 elements, but ij,jk,kl->il needs one of 45; raise the limit to that"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The einsum, in notation.
    pub einsum: String,
    /// The limit.
    pub limit: u128,
    /// The limit from which on there is a plan; above twelve operands, from which on one was found.
    pub smallest: u128,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLarge { einsum, limit, smallest } = self;
        write!(
            formatter,
            "an intermediate result may have {limit} elements, but {einsum} needs one of {smallest}; \
             raise the limit to that"
        )
    }
}

impl std::error::Error for TooLarge {}

/// The cheapest order found for the factors of an einsum.
///
/// Up to twelve operands there is no cheaper one: all ways to join the operands two by two are weighed,
/// outer products included, where labels are summed as soon as no operand needs them, and those that only one
/// operand has before or while it is joined, whichever is cheaper. Above that the best of a fixed number
/// of greedy searches is taken and mended until no eight neighbours in it can be arranged better. Equal einsums have equal plans.
///
/// An einsum in which the zeros of some operand win is not re-associated: its plan is itself, in one step.
///
/// ```
/// use glassgrad::einsum::Einsum;
/// use glassgrad::opt::contract::{Limits, plan};
/// let trace = Einsum::parse("ij,ji->", &[&[3, 4], &[4, 3]]).unwrap();
/// assert_eq!(plan(&trace, &Limits::default()).unwrap().flops, 24);
/// ```
pub fn plan(einsum: &Einsum, limits: &Limits) -> Result<Plan, TooLarge> {
    let operands: Vec<usize> = (0..einsum.operands.len()).collect();
    let (mut steps, mut considered) = (steps::Steps::new(operands.len(), limits), 0);
    let (result, _) = steps.extend(einsum, &operands, &|_| None, &mut considered)?;
    Ok(steps.plan(&[result], considered))
}

/// The cheapest of a few greedy orders, in time that is polynomial in the number of factors.
pub(crate) fn plan_greedily(einsum: &Einsum, limits: &Limits) -> Result<Plan, TooLarge> {
    let operands: Vec<usize> = (0..einsum.operands.len()).collect();
    let (mut steps, mut considered) = (steps::Steps::new(operands.len(), limits), 0);
    let result = steps.extend_greedily(einsum, &operands, &mut considered)?;
    Ok(steps.plan(&[result], considered))
}

/// The floating-point operations of an einsum that is computed in one step.
///
/// Let n be the number of ways to give each label of its m operands a value. Each takes m - 1
/// multiplications, and one addition unless nothing is summed, that is unless the output has n elements
/// too. So a matrix product of size n has 2n³ FLOPs, an outer product n², a sum of a vector n and a
/// transposition none. The coefficient, deltas and broadcasts are not counted: they are the same in every
/// plan.
///
/// ```
/// use glassgrad::einsum::Einsum;
/// use glassgrad::opt::contract::flops;
/// let count = |notation, shapes| flops(&Einsum::parse(notation, shapes).unwrap());
/// assert_eq!(count("ij,jk->ik", &[&[9, 9], &[9, 9]]), 2 * 729);
/// assert_eq!(count("i,j->ij", &[&[9], &[9]]), 81);
/// assert_eq!(count("ij->", &[&[9, 9]]), 81);
/// assert_eq!(count("ij->ji", &[&[9, 9]]), 0);
/// ```
pub fn flops(einsum: &Einsum) -> u128 {
    let bound = |label: &Label| einsum.operands.iter().any(|labels| labels.contains(label));
    let (mut visited, mut kept) = (1_u128, 1_u128);
    for label in (0..einsum.extents.len()).filter(bound) {
        visited = visited.saturating_mul(einsum.extents[label] as u128);
        if einsum.output.contains(&label) {
            kept = kept.saturating_mul(einsum.extents[label] as u128);
        }
    }
    operations(visited, kept, einsum.operands.len())
}

/// The elements that an einsum computed in one step reads and writes: of each operand those that its
/// diagonals reach, and all of the output.
///
/// ```
/// use glassgrad::einsum::Einsum;
/// use glassgrad::opt::contract::elements_moved;
/// assert_eq!(elements_moved(&Einsum::parse("ii,ij->jj", &[&[9, 9], &[9, 5]]).unwrap()), 9 + 45 + 25);
/// ```
pub fn elements_moved(einsum: &Einsum) -> u128 {
    let first = |labels: &[Label], axis: usize| !labels[..axis].contains(&labels[axis]);
    let read = |labels: &Vec<Label>| {
        elements(einsum, (0..labels.len()).filter(|axis| first(labels, *axis)).map(|axis| &labels[axis]))
    };
    let written = elements(einsum, &einsum.output);
    einsum.operands.iter().map(read).fold(written, u128::saturating_add)
}

/// The FLOPs of a step that visits `visited` combinations of labels and leaves `kept` numbers.
fn operations(visited: u128, kept: u128, operands: usize) -> u128 {
    let each = operands.saturating_sub(1) as u128 + u128::from(visited > kept);
    visited.saturating_mul(each)
}

fn elements<'a>(einsum: &Einsum, labels: impl IntoIterator<Item = &'a Label>) -> u128 {
    labels.into_iter().fold(1, |product: u128, label| product.saturating_mul(einsum.extents[*label] as u128))
}

/// One line per step, and one for the whole.
impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            let operands: Vec<String> = step.operands.iter().map(usize::to_string).collect();
            let (flops, bytes) = (metric(step.flops, "FLOP"), metric(step.bytes, "B"));
            // A unit tensor has no operands.
            let from = if operands.is_empty() { String::new() } else { operands.join(", ") + "  " };
            writeln!(formatter, "{} = {from}{}  {flops}, {bytes}", self.inputs + number, step.einsum)?;
        }
        let (flops, bytes) = (metric(self.flops, "FLOP"), metric(self.bytes, "B"));
        write!(formatter, "in all {flops}, {bytes}; largest intermediate {} elements", self.largest_intermediate)
    }
}

/// A count with two digits or more and a prefix: 640 B, 2.0 MFLOP, 80 kB.
pub(crate) fn metric(count: u128, unit: &str) -> String {
    if count == u128::MAX {
        return format!("over 3e38 {unit}");
    }
    let mut value = count as f64;
    let mut prefixes = ["", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q"].into_iter().peekable();
    while value >= 999.5 && prefixes.len() > 1 {
        value /= 1000.0;
        prefixes.next();
    }
    let prefix = prefixes.next().unwrap_or_default();
    // Below a thousand the count is exact; above, 9.96 is written as 10.
    let digits = usize::from(!prefix.is_empty() && value < 9.95);
    format!("{value:.digits$} {prefix}{unit}")
}
