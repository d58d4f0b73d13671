//! Products of products become one product, so that the order of all factors can be chosen at once.
//!
//! A product that only one other product reads is put into it, and so on up to [`MOST_FACTORS`], if the cheapest
//! order of all factors costs less than both on their own. Products with strong zeros or an empty sum are left as they are.

use super::contraction_order::Orders;
use super::dead::dead;
use super::product::{all_differ, has_empty_sum, has_sums, product, put_in, renamed};
use crate::einsum::Einsum;
use crate::expr::Op;
use crate::opt::graph::{Graph, GraphNode};

/// The most factors that are put together: the search for their order grows threefold with each.
pub(super) const MOST_FACTORS: usize = 8;
/// The most where much was searched for already.
const FEWER_FACTORS: usize = 4;

pub(super) fn flatten(mut graph: Graph) -> Graph {
    let (uses, mut orders) = (graph.uses(), Orders::for_nodes(graph.nodes.len()));
    let mut is_settled = vec![false; graph.nodes.len()];
    // What products cost on their own, as far as anybody asked.
    let mut costs: Vec<Option<u128>> = vec![None; graph.nodes.len()];
    // From the last to the first: a product is put into what reads it before it looks at its own operands.
    for number in (0..graph.nodes.len()).rev() {
        let node = &graph.nodes[number];
        let Some(einsum) = plain_product(node).filter(|_| !is_settled[number]) else { continue };
        let most = if orders.is_tired() { FEWER_FACTORS } else { MOST_FACTORS };
        let Some(whole) = Whole::grown(&graph, &uses, einsum, node, most) else { continue };
        let mut cost_apart = 0_u128;
        for part in whole.parts.iter().chain([&number]) {
            let own = plain_product(&graph.nodes[*part]).filter(|_| costs[*part].is_none());
            if let Some(einsum) = own {
                costs[*part] = Some(orders.cost(einsum, node.dtype));
            }
            cost_apart = cost_apart.saturating_add(costs[*part].unwrap_or(0));
        }
        if orders.cost(&whole.einsum, node.dtype) < cost_apart {
            whole.parts.iter().for_each(|part| is_settled[*part] = true);
            graph.nodes[number].op = Op::Einsum(whole.einsum.into());
            graph.nodes[number].inputs = whole.inputs;
        } else {
            // What is best as it stands is so in its parts, as far as they were looked into. The nearer half of them
            // need not be visited again, so that every product is visited about twice and not once for each factor.
            whole.parts[..whole.parts.len() / 2].iter().for_each(|part| is_settled[*part] = true);
        }
    }
    dead(graph)
}

/// A product of floating-point numbers that may be re-associated: without strong zeros and without an empty sum.
pub(super) fn plain_product(node: &GraphNode) -> Option<&Einsum> {
    product(node).filter(|einsum| !einsum.is_strong() && !has_empty_sum(einsum) && node.dtype.is_float())
}

/// A product with others put into it.
struct Whole {
    einsum: Einsum,
    inputs: Vec<usize>,
    parts: Vec<usize>,
}

impl Whole {
    fn grown(graph: &Graph, uses: &[usize], einsum: &Einsum, node: &GraphNode, most: usize) -> Option<Whole> {
        let may_go_in = |input: &usize| uses[*input] == 1 && plain_product(&graph.nodes[*input]).is_some();
        if !node.inputs.iter().any(may_go_in) {
            return None;
        }
        let mut whole = Whole { einsum: einsum.clone(), inputs: node.inputs.clone(), parts: Vec::new() };
        let mut place = 0;
        while place < whole.inputs.len() {
            let operand = whole.inputs[place];
            let inner = whole.next(graph, uses, place, most);
            match inner.and_then(|inner| put_in(&mut whole.einsum, place, inner, node.dtype)) {
                Some(()) => {
                    whole.inputs.splice(place..=place, graph.nodes[operand].inputs.iter().copied());
                    whole.parts.push(operand);
                }
                None => place += 1,
            }
        }
        whole.einsum = renamed(&whole.einsum);
        (!whole.parts.is_empty()).then_some(whole)
    }

    /// The product that an operand is, if it may be put in and another order may gain something.
    fn next<'g>(&self, graph: &'g Graph, uses: &[usize], place: usize, most: usize) -> Option<&'g Einsum> {
        if uses[self.inputs[place]] != 1 {
            return None;
        }
        let operand = &graph.nodes[self.inputs[place]];
        let inner = plain_product(operand)?;
        let factors = self.inputs.len() + inner.operands.len() - 1;
        // Element by element there is nothing to gain: one loop computes it all in any case.
        let may_gain =
            has_sums(&self.einsum) || !all_differ(&self.einsum.operands[place]) || self.einsum.operands.len() == 1;
        (factors <= most && may_gain && operand.shape.elements() > 0).then_some(inner)
    }
}
