//! Residuals of a loop: the forward values that its reverse sweep reads, and sums that leave the loop.
//!
//! The loop runs forwards once more, or, where the planner sees that both are one, once in all, and stacks what the way
//! back will read: then nothing of a step is computed twice. What is owed to a tensor from outside is a sum over all
//! steps. Where each term is a product of things that differ from step to step, the sum is one product over all steps,
//! of their stacks, after the loop.

use std::collections::HashSet;
use std::sync::Arc;

use super::reverse::dependent_nodes;
use crate::einsum::Einsum;
use crate::expr::{Node, Op, Subgraph, Tensor, sort_by_creation};
use crate::interning::Shared;
use crate::sorting::IndirectSort;

/// The nodes of one step forwards and of one step back.
pub(super) struct Steps {
    /// What stands for the state and for the entries.
    placeholders: HashSet<u64>,
    /// What is computed on the way forwards.
    inside: HashSet<u64>,
    /// What of it differs from step to step.
    forwards: HashSet<u64>,
    /// Whatever differs from step to step.
    changing: HashSet<u64>,
    first: u64,
}

/// The cotangent of a captured tensor: a product of stacks, summed over all steps.
pub(super) struct SummedLater {
    pub(super) product: Shared<Einsum>,
    pub(super) factors: Vec<Tensor>,
}

impl Steps {
    /// The steps of a loop; `seeds` stand for cotangents, `outputs` are what one step back computes.
    pub(super) fn of(body: &Subgraph, seeds: &[&Tensor], outputs: &[&Tensor]) -> Steps {
        let placeholders: HashSet<u64> = body.parameters.iter().map(|tensor| tensor.0.id).collect();
        let inside: HashSet<u64> = body.nodes().iter().map(|node| node.id).collect();
        let all: Vec<&Tensor> = outputs.iter().copied().chain(&body.outputs).collect();
        let variables: Vec<&Tensor> = body.parameters.iter().chain(seeds.iter().copied()).collect();
        let mut changing: HashSet<u64> = dependent_nodes(&all, &variables).iter().map(|node| node.id).collect();
        changing.extend(variables.iter().map(|variable| variable.0.id));
        let forwards = changing.intersection(&inside).copied().collect();
        let first = placeholders.iter().min().copied().unwrap_or(u64::MAX);
        Steps { placeholders, inside, forwards, changing, first }
    }

    /// What outputs of a step back read of the step forwards: placeholders, and nodes that are worth keeping.
    pub(super) fn read_by(&self, outputs: &[&Tensor]) -> Vec<Tensor> {
        let mut seen = HashSet::new();
        let mut stack: Vec<Arc<Node>> = outputs.iter().map(|output| Arc::clone(&output.0)).collect();
        let mut found = Vec::new();
        while let Some(node) = stack.pop() {
            if node.id < self.first || !seen.insert(node.id) {
                continue;
            }
            if (self.is_forwards(&node) && !node.op.properties().only_moves) || self.is_output_of_forwards(&node) {
                found.push(node);
            } else {
                stack.extend(node.inputs());
            }
        }
        sort_by_creation(&mut found);
        found.into_iter().map(Tensor::onto).collect()
    }

    /// Whether a node is known after the way forwards, and differs from step to step.
    pub(super) fn is_forwards(&self, node: &Node) -> bool {
        self.placeholders.contains(&node.id) || self.forwards.contains(&node.id)
    }

    /// Whether a node is an output of an operation on the way forwards that differs from step to step. The output itself
    /// may be the same in every step, or integers: keeping it is cheaper than running the operation again.
    fn is_output_of_forwards(&self, node: &Node) -> bool {
        let inputs = node.held_inputs();
        inputs.multi().is_some()
            && self.inside.contains(&node.id)
            && inputs.iter().any(|input| self.changing.contains(&input.id))
    }

    /// For each term of a sum over all steps, the product that the sum is, if the stacks that it takes are no larger than
    /// the sum itself. `stacked` is what is stacked anyway.
    pub(super) fn summed_later(&self, terms: &[Tensor], stacked: &[&Tensor]) -> Vec<Option<SummedLater>> {
        let mut stacked: HashSet<u64> = stacked.iter().map(|tensor| tensor.0.id).collect();
        let mut later: Vec<Option<SummedLater>> = terms.iter().map(|_| None).collect();
        let mut order: Vec<usize> = (0..terms.len()).collect();
        order.indirect_sort_by_key(|number| std::cmp::Reverse(terms[*number].shape().elements()));
        for number in order {
            let term = &terms[number];
            let Op::Einsum(product) = term.op() else { continue };
            let factors = term.inputs();
            if factors.is_empty() || !factors.iter().all(|k| self.changing.contains(&k.0.id)) {
                continue;
            }
            let new = factors.iter().filter(|factor| !stacked.contains(&factor.0.id));
            let room = new.fold(0_usize, |room, factor| room.saturating_add(factor.shape().elements()));
            if room <= term.shape().elements() {
                stacked.extend(factors.iter().map(|factor| factor.0.id));
                later[number] = Some(SummedLater { product: product.clone(), factors });
            }
        }
        later
    }
}
