//! In which order of its axes something is computed. Row by row is what most readers expect; products of matrices take any
//! strides, and what only they read is computed as its operands lie, which are then read as fast as memory gives them.

use super::Located;
use super::strides::rows;
use crate::einsum::Einsum;
use crate::expr::Op;
use crate::opt::graph::{Graph, GraphNode};
use crate::shape::InlineVec;
use crate::sorting::IndirectSort;

/// Whether a product sums over something: only then it may be one of matrices.
fn has_sum(einsum: &Einsum) -> bool {
    let is_summed = |label: &usize| einsum.extents[*label] != 1 && !einsum.output.contains(label);
    einsum.operands.len() == 2 && einsum.operands.iter().flatten().any(is_summed)
}

/// Whether each element of a node is computed from the same element of an input.
fn follows(node: &GraphNode, input: usize) -> bool {
    match &node.op {
        Op::Einsum(einsum) => {
            let labels = &einsum.operands[input];
            let is_apart = (1..labels.len()).all(|axis| !labels[..axis].contains(&labels[axis]));
            is_apart && *labels == einsum.output && einsum.operands.iter().flatten().all(|label| labels.contains(label))
        }
        op => matches!(op, Op::Map(_) | Op::Add | Op::Compare(_) | Op::Logic(_) | Op::Select | Op::Cast),
    }
}

/// For each node whether only products read it, or what is computed from it element by element and only products read.
pub(super) fn only_multiplied(graph: &Graph) -> Vec<bool> {
    let mut is_read = vec![false; graph.nodes.len()];
    let mut only = vec![true; graph.nodes.len()];
    graph.results.iter().for_each(|result| only[*result] = false);
    for (number, node) in graph.nodes.iter().enumerate().rev() {
        only[number] &= is_read[number];
        let multiplies = matches!(&node.op, Op::Einsum(einsum) if has_sum(einsum));
        for (place, input) in node.inputs.iter().enumerate() {
            only[*input] &= multiplies || (only[number] && follows(node, place));
            is_read[*input] = true;
        }
    }
    only
}

/// The order of axes in which all operands that move along every axis lie row by row, if they do and it is another than their
/// own; axes of size 1 are left out.
pub(super) fn order_of(operands: &[Located]) -> Option<InlineVec<usize>> {
    let is_full = |operand: &&Located| operand.strides.iter().all(|stride| *stride > 0);
    let mut full = operands.iter().filter(is_full);
    let order = |operand: &Located| {
        let mut axes: InlineVec<usize> = (0..operand.strides.len()).collect();
        axes.indirect_sort_by_key(|axis| std::cmp::Reverse(operand.strides[*axis]));
        axes
    };
    let first = full.next()?;
    let own = order(first);
    let is_useful = own.last().is_some_and(|last| first.strides[*last] == 1) && !own.is_sorted();
    (is_useful && full.all(|operand| order(operand) == own)).then_some(own)
}

/// Row-major strides of a shape under a permutation of its axes longer than 1.
pub(super) fn strides_in(order: &[usize], extents: &[usize], shape: &[usize]) -> InlineVec<isize> {
    let lying = rows(extents);
    let mut squeezed = InlineVec::from_elem(0, order.len());
    order.iter().zip(lying.iter()).for_each(|(axis, stride)| squeezed[*axis] = *stride);
    let mut next = squeezed.iter();
    shape.iter().map(|size| if *size == 1 { 0 } else { next.next().copied().unwrap_or(0) }).collect()
}
