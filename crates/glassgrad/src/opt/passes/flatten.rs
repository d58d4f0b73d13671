//! Products of products become one product, so that the order of all factors can be chosen at once.
//!
//! A product that only one other product reads is put into it, and so on up to [`MOST_FACTORS`], if the cheapest
//! order of all factors costs less than both on their own. Products in which zeros win are left as they are.

use super::dead::dead;
use super::orders::Orders;
use super::product::{all_differ, has_sums, product, substituted};
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
    // From the last to the first: a product is put into what reads it before it looks at its own operands.
    for number in (0..graph.nodes.len()).rev() {
        let node = &graph.nodes[number];
        let Some(einsum) = plain_product(node).filter(|_| !is_settled[number]) else { continue };
        let most = if orders.is_tired() { FEWER_FACTORS } else { MOST_FACTORS };
        let Some(whole) = Whole::grown(&graph, &uses, einsum, node, most) else { continue };
        let apart = whole.parts.iter().filter_map(|part| plain_product(&graph.nodes[*part]));
        let apart = apart.map(|part| orders.cost(part, node.dtype)).fold(0, u128::saturating_add);
        let cost_apart = apart.saturating_add(orders.cost(einsum, node.dtype));
        if orders.cost(&whole.einsum, node.dtype) < cost_apart {
            whole.parts.iter().for_each(|part| is_settled[*part] = true);
            graph.nodes[number].op = Op::Einsum(whole.einsum.into());
            graph.nodes[number].inputs = whole.inputs;
        } else {
            // What is best as it stands is so in its parts, as far as they were looked into. The nearer half of them
            // need not be looked at again, so that every product is looked at about twice and not once for each factor.
            whole.parts[..whole.parts.len() / 2].iter().for_each(|part| is_settled[*part] = true);
        }
    }
    dead(graph)
}

/// A product of floating-point numbers in which no zeros win.
pub(super) fn plain_product(node: &GraphNode) -> Option<&Einsum> {
    product(node).filter(|einsum| !einsum.is_strong() && node.dtype.is_float())
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
            match whole.with(graph, uses, place, most) {
                Some(einsum) => {
                    whole.einsum = einsum;
                    whole.inputs.splice(place..=place, graph.nodes[operand].inputs.iter().copied());
                    whole.parts.push(operand);
                }
                None => place += 1,
            }
        }
        (!whole.parts.is_empty()).then_some(whole)
    }

    /// The product with an operand put into it, if it can be and another order may gain something.
    fn with(&self, graph: &Graph, uses: &[usize], place: usize, most: usize) -> Option<Einsum> {
        let operand = &graph.nodes[self.inputs[place]];
        if uses[self.inputs[place]] != 1 {
            return None;
        }
        let inner = plain_product(operand)?;
        let factors = self.inputs.len() + inner.operands.len() - 1;
        // Element by element there is nothing to gain: one loop computes it all in any case.
        let may_gain =
            has_sums(&self.einsum) || !all_differ(&self.einsum.operands[place]) || self.einsum.operands.len() == 1;
        let fits = factors <= most && may_gain && operand.shape.elements() > 0;
        fits.then(|| substituted(&self.einsum, place, inner, operand.dtype)).flatten()
    }
}
