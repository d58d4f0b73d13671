//! Products that multiply the same tensors, planned together: value, gradient and Hessian of one function share parts.
//!
//! Two products are of interest to each other if they have two factors in common, or if one is a factor of the other
//! and of something else. Such products are put into groups of at most [`MOST_TOGETHER`], so that the time for a graph
//! grows with its size and no faster. A group is planned as it is, and with products put into those that read them;
//! the cheaper of both is taken if it gains anything over planning one by one.

use std::sync::Arc;

use super::contraction_order::{Chosen, Orders};
use super::flatten::{MOST_FACTORS, plain_product};
use super::product::{has_sums, product_node, substituted};
use super::split::{core, spread};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::hashing::NumberMap;
use crate::opt::contract::ContractionRequest;
use crate::opt::graph::{Graph, GraphNode};

/// The most products that are planned together.
const MOST_TOGETHER: usize = 6;

/// Groups of products with a plan that gains something.
#[derive(Default)]
pub(super) struct Together {
    /// For each node that a group computes, the group, and its place among what the plan is asked for.
    places: NumberMap<usize, (usize, usize)>,
    plans: Vec<Joint>,
}

/// A plan for a group, and what of it has been computed.
struct Joint {
    chosen: Arc<Chosen>,
    /// The nodes that are multiplied, by the numbers that the plan has for them.
    pool: Vec<usize>,
    /// For each product that is asked for, what is planned of it, if not all, and all of it.
    asked: Vec<(Option<Einsum>, Einsum)>,
    /// The nodes of the steps that exist already.
    steps: Vec<Option<usize>>,
}

impl Together {
    pub(super) fn of(graph: &Graph, orders: &mut Orders) -> Together {
        let mut together = Together::default();
        let uses = graph.uses();
        for members in groups(graph, &uses) {
            let Some(dtype) = members.first().map(|member| graph.nodes[*member].dtype) else { continue };
            let as_it_is: Vec<Member> = members.iter().filter_map(|member| Member::new(graph, *member)).collect();
            let expanded = expanded(&uses, &as_it_is, dtype);
            let mut pool = Pool::default();
            let asked: Vec<ContractionRequest> = as_it_is.iter().map(|member| pool.asked(member)).collect();
            let other: Option<Vec<ContractionRequest>> =
                expanded.as_ref().map(|members| members.iter().map(|member| pool.asked(member)).collect());
            let Some(chosen) = orders.joint(&asked, other.as_deref(), dtype) else { continue };
            let planned = if chosen.is_expanded { expanded.unwrap_or_default() } else { as_it_is };
            for (place, member) in planned.iter().enumerate() {
                together.places.insert(member.node, (together.plans.len(), place));
            }
            let steps = vec![None; chosen.plan.plan.steps.len()];
            let asked = planned.into_iter().map(|member| (member.core, member.einsum)).collect();
            together.plans.push(Joint { chosen, pool: pool.nodes, asked, steps });
        }
        together
    }

    /// Whether no group gains anything.
    pub(super) fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// Pushes what a group needs for the next node of the old graph, if that belongs to one; `numbers` are the new
    /// numbers of the nodes before it.
    pub(super) fn result(&mut self, graph: &mut Graph, numbers: &[usize], node: &GraphNode) -> Option<usize> {
        let (group, place) = *self.places.get(&numbers.len())?;
        let Joint { chosen, pool, asked, steps } = &mut self.plans[group];
        let plan = &chosen.plan.plan;
        let mut stack = vec![chosen.plan.results[place]];
        while let Some(number) = stack.last().copied() {
            // What a step reads stands before it, so this comes to an end.
            let open = number.checked_sub(plan.inputs).filter(|step| steps[*step].is_none());
            let Some(step) = open else {
                stack.pop();
                continue;
            };
            let operands = &plan.steps[step].operands;
            let known = |operand: &usize| match operand.checked_sub(plan.inputs) {
                Some(step) => steps[step],
                None => Some(numbers[pool[*operand]]),
            };
            match operands.iter().find(|operand| known(operand).is_none()) {
                Some(missing) => stack.push(*missing),
                None => {
                    let inputs = operands.iter().filter_map(known).collect();
                    steps[step] = Some(graph.push(product_node(&plan.steps[step].einsum, inputs, node)));
                }
            }
        }
        let result = chosen.plan.results[place];
        let known = match result.checked_sub(plan.inputs) {
            Some(step) => steps[step]?,
            None => numbers[pool[result]],
        };
        let (core, einsum) = &asked[place];
        Some(spread(graph, core.as_ref(), einsum, known, node))
    }
}

/// A product of a group.
#[derive(Clone)]
struct Member {
    node: usize,
    einsum: Einsum,
    /// The product without what its output repeats, if it repeats something.
    core: Option<Einsum>,
    inputs: Vec<usize>,
}

impl Member {
    fn new(graph: &Graph, node: usize) -> Option<Member> {
        let einsum = plain_product(&graph.nodes[node])?.clone();
        let inputs = graph.nodes[node].inputs.clone();
        Some(Member { node, core: core(&einsum), einsum, inputs })
    }
}

/// The tensors of a group.
#[derive(Default)]
struct Pool {
    nodes: Vec<usize>,
}

impl Pool {
    fn asked(&mut self, member: &Member) -> ContractionRequest {
        let mut number = |node: &usize| {
            self.nodes.iter().position(|other| other == node).unwrap_or_else(|| {
                self.nodes.push(*node);
                self.nodes.len() - 1
            })
        };
        let operands = member.inputs.iter().map(&mut number).collect();
        ContractionRequest { einsum: member.core.as_ref().unwrap_or(&member.einsum).clone(), operands }
    }
}

/// Whether a product can gain from others: it sums, or it is larger than what it multiplies and read more than once.
fn may_gain(graph: &Graph, uses: &[usize], node: usize) -> bool {
    let Some(einsum) = plain_product(&graph.nodes[node]).filter(|einsum| einsum.operands.len() > 1) else {
        return false;
    };
    let size = |node: &usize| graph.nodes[*node].shape.elements();
    let is_outer = || uses[node] > 1 && graph.nodes[node].inputs.iter().all(|input| size(input) < size(&node));
    size(&node) > 0 && (has_sums(einsum) || is_outer())
}

/// Groups of at least two products that may share something.
fn groups(graph: &Graph, uses: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut group_of: NumberMap<usize, usize> = NumberMap::default();
    let mut owners: NumberMap<(usize, usize), usize> = NumberMap::default();
    for (number, node) in graph.nodes.iter().enumerate() {
        if !may_gain(graph, uses, number) {
            continue;
        }
        let inputs = &node.inputs;
        let pairs = || {
            let pair = |a: usize, b: usize| (inputs[a].min(inputs[b]), inputs[a].max(inputs[b]));
            (0..inputs.len()).flat_map(move |b| (0..b).map(move |a| pair(a, b)))
        };
        let has_room = |group: &&usize| {
            let members = &groups[**group];
            members.len() < MOST_TOGETHER && graph.nodes[members[0]].dtype == node.dtype
        };
        let read = inputs.iter().filter(|input| uses[**input] > 1).filter_map(|input| group_of.get(input));
        let alike = pairs().filter_map(|pair| owners.get(&pair));
        let group = read.chain(alike).find(has_room).copied().unwrap_or(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(number);
        group_of.insert(number, group);
        // The latest are the nearest.
        pairs().for_each(|pair| {
            owners.insert(pair, group);
        });
    }
    groups.retain(|members| members.len() > 1);
    groups
}

/// The members of a group with those that several of them read put into them. What has no other reader is left out.
fn expanded(uses: &[usize], members: &[Member], dtype: DType) -> Option<Vec<Member>> {
    let mut expanded: Vec<Member> = Vec::with_capacity(members.len());
    let mut taken_in: NumberMap<usize, usize> = NumberMap::default();
    for member in members {
        let mut whole = member.clone();
        let mut place = 0;
        while place < whole.inputs.len() {
            let operand = whole.inputs[place];
            // Members stand in the order of the graph, so what this one reads has been put together already.
            let inner = members.iter().position(|other| other.node == operand);
            let Some(inner) = inner.filter(|inner| *inner < expanded.len()) else {
                place += 1;
                continue;
            };
            let inner = &expanded[inner];
            let fits = whole.inputs.len() + inner.inputs.len() - 1 <= MOST_FACTORS;
            match substituted(&whole.einsum, place, &inner.einsum, dtype).filter(|_| fits) {
                Some(einsum) => {
                    whole.einsum = einsum;
                    whole.inputs.splice(place..=place, inner.inputs.iter().copied());
                    // The factors of what was taken in are not members any more.
                    place += inner.inputs.len();
                    *taken_in.entry(operand).or_default() += 1;
                }
                None => place += 1,
            }
        }
        whole.core = core(&whole.einsum);
        expanded.push(whole);
    }
    expanded.retain(|member| taken_in.get(&member.node).is_none_or(|count| *count < uses[member.node]));
    (!taken_in.is_empty()).then_some(expanded)
}
