//! In which order of its axes something is computed. Row by row is what most readers expect; products of matrices take any
//! strides, and what only they read is computed as its operands lie, which are then read as fast as memory gives them.
//!
//! Where the target asks for it, convolutions are stored channels-last, and what is computed from them follows.

use super::strides::rows;
use super::{Located, Lowering};
use crate::einsum::{Einsum, Label};
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

/// The order of axes of a result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AxisOrder {
    /// Row by row.
    Rows,
    /// That of an operand that is stored channels-last, otherwise row by row.
    Followed,
    /// That of all operands.
    Any,
}

/// The least multiple of channels: a vector of 16 bytes.
const CHANNELS: usize = 8;

/// The strides of the result of a convolution, or of its transpose before windows are added up, with the channels innermost: a product of images
/// and a kernel, no label of whose result is in both, and whose channels stand between the batch and at least two axes of places.
pub(super) fn channels_last(einsum: &Einsum, shape: &[usize]) -> Option<InlineVec<isize>> {
    let [first, second] = &einsum.operands[..] else { return None };
    let axes: Vec<usize> = (0..shape.len()).filter(|axis| shape[*axis] != 1).collect();
    let is_in = |labels: &[Label], axis: usize| labels.contains(&einsum.output[axis]);
    if axes.iter().any(|axis| is_in(first, *axis) == is_in(second, *axis)) {
        return None;
    }
    let [images, kernel] = [[first, second], [second, first]].into_iter().find(|[images, _]| {
        let before = axes.iter().take_while(|axis| is_in(images, **axis)).count();
        before > 0 && axes[before..].iter().filter(|axis| is_in(images, **axis)).count() >= 2
    })?;
    let (mut order, mut inner): (Vec<usize>, Vec<usize>) = axes.iter().partition(|axis| is_in(images, **axis));
    debug_assert!(inner.iter().all(|axis| is_in(kernel, *axis)), "an axis belongs to one factor");
    let channels = *inner.first()?;
    if !shape[channels].is_multiple_of(CHANNELS) {
        return None;
    }
    inner.rotate_left(1);
    order.extend(inner);
    let mut strides = InlineVec::from_elem(0, shape.len());
    let lying = rows(&order.iter().map(|axis| shape[*axis]).collect::<Vec<_>>());
    order.iter().zip(lying.iter()).for_each(|(axis, stride)| strides[*axis] = *stride);
    Some(strides)
}

/// The strides of `[batch, channels, places…]` with the channels innermost.
pub(in crate::opt) fn images_channels_last(shape: &[usize]) -> InlineVec<isize> {
    let order: Vec<usize> = std::iter::once(0).chain(2..shape.len()).chain([1]).collect();
    let lying = rows(&order.iter().map(|axis| shape[*axis]).collect::<Vec<_>>());
    let mut strides = InlineVec::from_elem(0, shape.len());
    order.iter().zip(lying.iter()).for_each(|(axis, stride)| strides[*axis] = *stride);
    strides
}

impl Lowering<'_> {
    /// The order of axes of an operand that is stored channels-last, if one of them is; axes of size 1 are left out.
    pub(super) fn followed(&self, operands: &[Located]) -> Option<InlineVec<usize>> {
        let is_leading = |operand: &&Located| {
            self.producers[operand.producer].channels_last && operand.strides.iter().all(|stride| *stride > 0)
        };
        let leading = operands.iter().find(is_leading)?;
        let mut axes: InlineVec<usize> = (0..leading.strides.len()).collect();
        axes.sort_by_key(|axis| std::cmp::Reverse(leading.strides[*axis]));
        (!axes.is_sorted()).then_some(axes)
    }
}

/// Axes of a space and of what lies in it, in another order.
pub(super) fn permute(order: &[usize], extents: &mut InlineVec<usize>, operands: &mut [Located]) {
    *extents = order.iter().map(|axis| extents[*axis]).collect();
    for operand in operands {
        operand.strides = order.iter().map(|axis| operand.strides[*axis]).collect();
    }
}
