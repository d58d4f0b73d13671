//! Several einsums over the same operands: what they have in common is computed once.
//!
//! Value, gradient and Hessian of one function multiply the same tensors in different combinations. The
//! einsums are planned one after the other, and parts that an earlier one has computed cost nothing. Which
//! order is best depends on whether the dear ones can use what the cheap ones need anyway or the other way
//! round, so both are tried. No einsum costs more than alone, and all together take no more FLOPs than if each is
//! ordered as it is best alone and only what happens to be equal is shared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::steps::{Steps, Value};
use super::{Limits, Plan, TooLarge, metric, plan};
use crate::einsum::{Einsum, Label};
use crate::sorting::IndirectSort;

/// An einsum, and which tensors of a common pool its operands are.
///
/// ```
/// use glassgrad::einsum::Einsum;
/// use glassgrad::opt::contract::ContractionRequest;
/// // x·x: one tensor, twice.
/// let square = ContractionRequest { einsum: Einsum::parse("i,i->", &[&[3], &[3]]).unwrap(), operands: vec![0, 0] };
/// assert_eq!(square.operands.len(), square.einsum.operands.len());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ContractionRequest {
    /// The product.
    pub einsum: Einsum,
    /// For each operand, the number of its tensor.
    pub operands: Vec<usize>,
}

/// A plan for several einsums.
///
/// ```
/// use glassgrad::einsum::Einsum;
/// use glassgrad::opt::contract::{ContractionRequest, Limits, plan_all};
/// // The same question twice has one answer.
/// let dot = ContractionRequest { einsum: Einsum::parse("i,i->", &[&[50], &[50]]).unwrap(), operands: vec![0, 1] };
/// let joint = plan_all(&[dot.clone(), dot], &Limits::default()).unwrap();
/// assert_eq!(joint.results, [2, 2]);
/// assert_eq!((joint.plan.flops, joint.separate_flops), (100, 200));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct JointPlan {
    /// The steps of all of them; its inputs are the tensors of the pool.
    pub plan: Plan,
    /// For each einsum, the number of its value.
    pub results: Vec<usize>,
    /// The FLOPs of the plans of each einsum alone.
    pub separate_flops: u128,
    /// The bytes that these move.
    pub separate_bytes: u128,
    /// The FLOPs of the plans of each einsum alone, where steps that happen to be equal are counted once.
    pub met_flops: u128,
    /// The bytes that these move.
    pub met_bytes: u128,
}

/// Plans several einsums together.
///
/// ```
/// use glassgrad::einsum::Einsum;
/// use glassgrad::opt::contract::{ContractionRequest, Limits, plan_all};
/// // xᵀAx, and its gradient for a symmetric A: both need Ax.
/// let (a, x): (&[usize], &[usize]) = (&[100, 100], &[100]);
/// let value = ContractionRequest { einsum: Einsum::parse("i,ij,j->", &[x, a, x]).unwrap(), operands: vec![1, 0, 1] };
/// let gradient = ContractionRequest { einsum: Einsum::parse("ij,j->i", &[a, x]).unwrap().scaled(2.0), operands: vec![0, 1] };
/// let joint = plan_all(&[value, gradient], &Limits::default()).unwrap();
/// assert_eq!(
///     joint.to_string(),
///     "2 = 0, 1  ij,j->i  20 kFLOP, 41 kB\n\
///      3 = 1, 2  i,i->  200 FLOP, 804 B\n\
///      4 = 2  2 i->i  0 FLOP, 800 B\n\
///      in all 20 kFLOP, 42 kB; largest intermediate 100 elements\n\
///      asked for 3, 4; separately 40 kFLOP, 82 kB"
/// );
/// ```
pub fn plan_all(asked: &[ContractionRequest], limits: &Limits) -> Result<JointPlan, TooLarge> {
    let alone: Vec<Plan> = asked.iter().map(|one| plan(&one.einsum, limits)).collect::<Result<_, _>>()?;
    let cost = |plan: &Plan| limits.cost(plan.flops, plan.bytes);
    let mut cheap_first: Vec<usize> = (0..asked.len()).collect();
    cheap_first.indirect_sort_by_key(|number| cost(&alone[*number]));
    let dear_first: Vec<usize> = cheap_first.iter().rev().copied().collect();
    let total = |count: fn(&Plan) -> u128| alone.iter().map(count).fold(0, u128::saturating_add);
    let (separate_flops, separate_bytes) = (total(|plan| plan.flops), total(|plan| plan.bytes));

    let mut considered = alone.iter().map(|plan| plan.considered).sum();
    let (steps, mut results) = in_order(asked, &cheap_first, Sharing::Met, limits, &mut considered)?;
    let mut best = steps.plan(&results, 0);
    let (met_flops, met_bytes) = (best.flops, best.bytes);
    for order in [dear_first, cheap_first] {
        let (steps, other_results) = in_order(asked, &order, Sharing::Sought, limits, &mut considered)?;
        let plan = steps.plan(&other_results, 0);
        if cost(&plan) < cost(&best) && plan.flops <= met_flops {
            (best, results) = (plan, other_results);
        }
    }
    let plan = Plan { considered, ..best };
    Ok(JointPlan { plan, results, separate_flops, separate_bytes, met_flops, met_bytes })
}

/// How einsums reuse intermediate results of others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// They are ordered as is best alone, and reuse parts by chance.
    Met,
    /// They are ordered so that they reuse parts of others.
    Sought,
}

impl fmt::Display for JointPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let results: Vec<String> = self.results.iter().map(usize::to_string).collect();
        let (flops, bytes) = (metric(self.separate_flops, "FLOP"), metric(self.separate_bytes, "B"));
        write!(formatter, "{}\nasked for {}; separately {flops}, {bytes}", self.plan, results.join(", "))
    }
}

/// Plans the einsums one after the other; each can reuse the parts of those before it.
fn in_order<'a>(
    asked: &[ContractionRequest],
    order: &[usize],
    sharing: Sharing,
    limits: &'a Limits,
    considered: &mut u64,
) -> Result<(Steps<'a>, Vec<usize>), TooLarge> {
    let inputs = asked.iter().flat_map(|one| &one.operands).max().map_or(0, |last| last + 1);
    let mut steps = Steps::new(inputs, limits);
    let mut pool = Pool::default();
    let mut results = vec![0; asked.len()];
    for number in order {
        let ContractionRequest { einsum, operands } = &asked[*number];
        let before = |members: &[usize]| pool.find(&asked[*number], members);
        if sharing == Sharing::Met {
            let (result, computed) = steps.extend_as_if_alone(einsum, operands, &before)?;
            results[*number] = result;
            computed.iter().for_each(|(members, value)| pool.add(&asked[*number], members, value));
            continue;
        }
        let mut shared = steps.clone();
        let (mut result, mut computed) = shared.extend(einsum, operands, &before, considered)?;
        let mut separate = steps.clone();
        let (own_result, own_computed) = separate.extend(einsum, operands, &|_| None, &mut 0)?;
        let spent = |steps: &Steps| {
            steps.steps.iter().fold(0, |sum: u128, s| sum.saturating_add(limits.cost(s.flops, s.bytes)))
        };
        if spent(&separate) < spent(&shared) {
            // A greedy search can be led astray by what is for free.
            (shared, result, computed) = (separate, own_result, own_computed);
        }
        (steps, results[*number]) = (shared, result);
        for (members, value) in computed {
            pool.add(&asked[*number], &members, &value);
        }
    }
    Ok((steps, results))
}

/// A part of an einsum up to the names of labels and the order of factors: equal keys, equal tensors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Canonical {
    /// The tensors with the numbers of their labels.
    factors: Vec<(usize, Vec<usize>)>,
    /// The labels that are not summed.
    kept: Vec<usize>,
    extents: Vec<usize>,
}

/// The parts that have been computed.
#[derive(Default)]
struct Pool {
    /// For each part the number of the tensor, and of the label of each of its axes.
    values: BTreeMap<Canonical, (usize, Vec<usize>)>,
    /// The tensors of each part, sorted, to see quickly that a part is not there.
    tensors: BTreeSet<Vec<usize>>,
}

fn tensors(asked: &ContractionRequest, members: &[usize]) -> Vec<usize> {
    let mut tensors: Vec<usize> = members.iter().map(|member| asked.operands[*member]).collect();
    tensors.indirect_sort();
    tensors
}

impl Pool {
    fn find(&self, asked: &ContractionRequest, members: &[usize]) -> Option<Value> {
        if !self.tensors.contains(&tensors(asked, members)) {
            return None;
        }
        let (key, names) = canonical(asked, members);
        let (number, axes) = self.values.get(&key)?;
        Some(Value { number: *number, labels: axes.iter().map(|axis| names[*axis]).collect() })
    }

    fn add(&mut self, asked: &ContractionRequest, members: &[usize], value: &Value) {
        let (key, names) = canonical(asked, members);
        let numbered = |label: &Label| names.iter().position(|name| name == label);
        let axes: Option<Vec<usize>> = value.labels.iter().map(numbered).collect();
        if let Some(axes) = axes {
            self.values.entry(key).or_insert((value.number, axes));
            self.tensors.insert(tensors(asked, members));
        }
    }
}

/// The canonical form of a part, and which label has which number in it.
///
/// Colours distinguish factors and labels by their neighbours. Where colours leave a choice, the
/// first factor is taken: nearly always the choice is between mirror images, and if it is not, a common
/// part can be missed but never be wrong, for the form says all about the part.
fn canonical(asked: &ContractionRequest, members: &[usize]) -> (Canonical, Vec<Label>) {
    let ContractionRequest { einsum, operands } = asked;
    let needed = |label: &Label| {
        let others = (0..operands.len()).filter(|operand| !members.contains(operand));
        einsum.output.contains(label) || others.into_iter().any(|other| einsum.operands[other].contains(label))
    };
    let labels: BTreeSet<Label> = members.iter().flat_map(|member| &einsum.operands[*member]).copied().collect();
    let kept: BTreeSet<Label> = labels.iter().copied().filter(needed).collect();
    // The place that a factor has been given comes first in its colour; all that have none are equal.
    let mut places: BTreeMap<usize, usize> = members.iter().map(|member| (*member, members.len())).collect();
    let mut order = Vec::new();
    for place in 0..members.len() {
        let colours = factor_colours(asked, &places, &labels, &kept);
        let open = members.iter().filter(|member| places[member] == members.len());
        let next = *open.min_by_key(|member| colours[member]).expect("fewer places than factors are taken");
        places.insert(next, place);
        order.push(next);
    }
    let mut names: Vec<Label> = Vec::new();
    for label in order.iter().flat_map(|member| &einsum.operands[*member]) {
        if !names.contains(label) {
            names.push(*label);
        }
    }
    let number = |label: &Label| names.iter().position(|name| name == label).expect("every label is in a factor");
    let mut kept: Vec<usize> = kept.iter().map(number).collect();
    kept.sort_unstable();
    let factors = order.iter().map(|m| (operands[*m], einsum.operands[*m].iter().map(number).collect())).collect();
    (Canonical { factors, kept, extents: names.iter().map(|label| einsum.extents[*label]).collect() }, names)
}

/// Refines colours until they stay: a factor is identified by its place, its tensor and the colours of its labels, a
/// label by its extent, whether it is kept, and the factors and axes where it stands.
fn factor_colours(
    asked: &ContractionRequest,
    places: &BTreeMap<usize, usize>,
    labels: &BTreeSet<Label>,
    kept: &BTreeSet<Label>,
) -> BTreeMap<usize, usize> {
    let axes = |member: &usize| asked.einsum.operands[*member].iter();
    let mut of_labels =
        ranked(labels.iter().map(|label| (*label, (asked.einsum.extents[*label], kept.contains(label)))));
    loop {
        let of_factors = ranked(places.iter().map(|(member, place)| {
            let colours: Vec<usize> = axes(member).map(|label| of_labels[label]).collect();
            (*member, (*place, asked.operands[*member], colours))
        }));
        let finer = ranked(labels.iter().map(|label| {
            let stands = |member: &usize| {
                let colour = of_factors[member];
                axes(member)
                    .enumerate()
                    .filter(|(_, l)| *l == label)
                    .map(move |(axis, _)| (colour, axis))
                    .collect::<Vec<_>>()
            };
            let mut seen: Vec<(usize, usize)> = places.keys().flat_map(stands).collect();
            seen.indirect_sort();
            (*label, (of_labels[label], seen))
        }));
        let classes = |colours: &BTreeMap<Label, usize>| colours.values().max().copied();
        if classes(&finer) == classes(&of_labels) {
            return of_factors;
        }
        of_labels = finer;
    }
}

/// Numbers items by the order of their keys.
fn ranked<S: Ord>(signatures: impl Iterator<Item = (usize, S)>) -> BTreeMap<usize, usize> {
    let signatures: Vec<(usize, S)> = signatures.collect();
    let mut distinct: Vec<&S> = signatures.iter().map(|(_, signature)| signature).collect();
    distinct.indirect_sort();
    distinct.dedup();
    let rank = |signature: &S| distinct.partition_point(|other| *other < signature);
    signatures.iter().map(|(thing, signature)| (*thing, rank(signature))).collect()
}
