//! Products in Einstein notation: strides only, a loop, or a product of matrices whose axes are as long as strides allow.

use super::groups::{Group, PendingProduct};
use super::strides::rows;
use super::{Located, Lowering};
use crate::einsum::{Einsum, Label};
use crate::expr::Op;
use crate::few::Few;
use crate::opt::graph::GraphNode;
use crate::opt::program::{Combine, ProductAxis};
use crate::shape::Shape;

/// The sum of the strides of a label, which leads along a diagonal where it repeats.
fn along(labels: &[Label], strides: &[isize], label: Label) -> isize {
    labels.iter().zip(strides).filter(|(own, _)| **own == label).map(|(_, stride)| *stride).sum()
}

impl Lowering<'_> {
    /// A product in Einstein notation: strides only, a loop, or a product of matrices.
    pub(super) fn einsum(&mut self, node: &GraphNode, einsum: &Einsum) -> Located {
        let operands: Vec<Located> = node.inputs.iter().map(|input| self.at(*input)).collect();
        let is_summed = |label: &&Label| einsum.extents[**label] != 1 && !einsum.output.contains(label);
        let has_sum = einsum.operands.iter().flatten().any(|label| is_summed(&label));
        let has_delta = (1..einsum.output.len()).any(|axis| einsum.output[..axis].contains(&einsum.output[axis]));
        if !has_sum && !has_delta {
            let mut placed = placed(einsum, operands, &einsum.output);
            if einsum.coefficient == 1.0 && placed.len() == 1 {
                return placed.remove(0);
            }
            return self.pointwise(node, &node.shape, placed);
        }
        // Where each label leads in the result.
        let own = rows(&node.shape);
        let operands = self.packed(einsum, operands, &own);
        if let Some(axes) = ProductAxes::of(einsum, &operands, &own) {
            let producer = self.produce(node.dtype, node.shape.elements());
            for operand in &operands {
                self.producers[operand.producer].needed = true;
            }
            if let Ok(factors) = <[Located; 2]>::try_from(operands) {
                let coefficient = einsum.coefficient;
                let is_one = axes.batch.is_empty() && axes.sums.is_empty() && axes.rows.extent == axes.columns.extent;
                let symmetric = is_one && !has_delta && self.is_symmetric(node, einsum);
                let pending = PendingProduct { axes, factors, producer, coefficient, clear: has_delta, symmetric };
                self.group_of(producer, Group::Product(pending));
            }
            return Located::whole(producer, &node.shape);
        }
        // The loop walks along the largest operand, so that it can go on where that was computed.
        let size = |labels: &Vec<Label>| {
            labels.iter().fold(1, |size: usize, label| size.saturating_mul(einsum.extents[*label]))
        };
        let mut order: Few<Label> = Few::new();
        let largest = einsum.operands.iter().rev().max_by_key(|labels| size(labels));
        let mut summed: Vec<Label> = einsum.operands.iter().flatten().filter(is_summed).copied().collect();
        summed.sort_unstable();
        for label in largest.into_iter().flatten().chain(&einsum.output).chain(&summed) {
            if !order.contains(label) {
                order.push(*label);
            }
        }
        let space: Few<usize> = order.iter().map(|label| einsum.extents[*label]).collect();
        let strides: Few<isize> = order.iter().map(|label| along(&einsum.output, &own, *label)).collect();
        let placed = placed(einsum, operands, &order);
        self.combined(node, &space, placed, &strides, Combine::Sum, Some(einsum))
    }
}

impl Lowering<'_> {
    /// Whether a product of two factors is its own transpose: both are one matrix, up to factors that only what is summed
    /// decides on, as in XᵀX and in XᵀDX with a diagonal D.
    fn is_symmetric(&self, node: &GraphNode, einsum: &Einsum) -> bool {
        let ([first, second], [row, column]) = (&einsum.operands[..], &einsum.output[..]) else { return false };
        let exchanged = |label: &Label| if label == row { *column } else { *label };
        let is_free = |labels: &[Label], free: &Label| labels.iter().filter(|label| *label == free).count() == 1;
        is_free(first, row)
            && is_free(second, column)
            && first.iter().map(exchanged).eq(second.iter().copied())
            && self.without_factors(node.inputs[0], first, *row)
                == self.without_factors(node.inputs[1], second, *column)
    }

    /// The matrix that a node is a multiple of, by factors that do not differ along one of its labels.
    fn without_factors(&self, node: usize, labels: &[Label], free: Label) -> usize {
        let GraphNode { op: Op::Einsum(product), inputs, .. } = &self.graph.nodes[node] else { return node };
        let is_plain = !product.is_strong() && product.output.len() == product.extents.len();
        let Some(place) = labels.iter().position(|label| *label == free).filter(|_| is_plain) else { return node };
        let along = product.output[place];
        let moving = || (0..inputs.len()).filter(|input| product.operands[*input].contains(&along));
        match moving().next() {
            Some(only) if moving().count() == 1 && product.operands[only] == product.output => inputs[only],
            _ => node,
        }
    }
}

/// Fewer products of matrices than this are not worth a copy.
const MANY: usize = 32;
/// Products of matrices of more multiplications than this are not small.
const SMALL: usize = 32 * 32 * 32;
/// A copy must make so many times fewer products, and cost so many times fewer moves than there are multiplications.
const GAIN: usize = 8;

impl Lowering<'_> {
    /// The operands of a product, one of them copied if that makes a few large products of matrices out of many small
    /// ones: the windows of a convolution, whose axes overlap where they lie.
    fn packed(&mut self, einsum: &Einsum, mut operands: Vec<Located>, own: &[isize]) -> Vec<Located> {
        let Some(before) = ProductAxes::of(einsum, &operands, own) else { return operands };
        let count = before.count();
        let each = before.rows.extent * before.columns.extent * before.inner.extent;
        if count < MANY || each > SMALL {
            return operands;
        }
        let size =
            |labels: &[Label]| labels.iter().fold(1, |size: usize, label| size.saturating_mul(einsum.extents[*label]));
        let candidates = (0..2).filter_map(|operand| {
            let other = 1 - operand;
            let labels = &einsum.operands[operand];
            let has_diagonal = (1..labels.len()).any(|axis| labels[..axis].contains(&labels[axis]));
            if has_diagonal || count.saturating_mul(each) < GAIN * size(labels) {
                return None;
            }
            // What is batch and free in the order of the result, and what is summed in that of the other operand, before
            // or after what is free: one of them lies side by side.
            let is_summed = |label: &Label| !einsum.output.contains(label);
            let mut summed: Vec<Label> = labels.iter().copied().filter(is_summed).collect();
            let step = |label: &Label| along(&einsum.operands[other], &operands[other].strides, *label).abs();
            summed.sort_by_key(|label| std::cmp::Reverse(step(label)));
            let in_result = |wanted: bool| {
                let in_other = move |label: &&Label| einsum.operands[other].contains(label) == wanted;
                einsum.output.iter().filter(|label| labels.contains(label)).filter(in_other).copied()
            };
            let order: Vec<Label> = in_result(true).chain(in_result(false)).chain(summed).collect();
            let shape: Shape = order.iter().map(|label| einsum.extents[*label]).collect();
            let steps = rows(&shape);
            let strides = labels.iter().map(|label| along(&order, &steps, *label)).collect();
            let mut moved = operands.clone();
            moved[operand].strides = strides;
            let after = ProductAxes::of(einsum, &moved, own)?;
            (after.count().saturating_mul(GAIN) <= count).then_some((after.count(), operand, order, shape, moved))
        });
        let Some((_, operand, order, shape, moved)) = candidates.min_by_key(|(count, ..)| *count) else {
            return operands;
        };
        let from = &operands[operand];
        let strides = order.iter().map(|label| along(&einsum.operands[operand], &from.strides, *label)).collect();
        let copy = self.copied(&Located { producer: from.producer, offset: from.offset, strides }, &shape);
        operands[operand] = Located { strides: moved[operand].strides.clone(), ..copy };
        operands
    }
}

/// The operands of a product along labels in some order.
fn placed(einsum: &Einsum, mut operands: Vec<Located>, order: &[Label]) -> Vec<Located> {
    for (operand, labels) in operands.iter_mut().zip(&einsum.operands) {
        if labels != order {
            operand.strides = order.iter().map(|label| along(labels, &operand.strides, *label)).collect();
        }
    }
    operands
}

/// The axes of a product of matrices: as long as strides allow; what is left over is batch or sum.
pub(super) struct ProductAxes {
    pub(super) batch: Vec<ProductAxis>,
    pub(super) sums: Vec<ProductAxis>,
    pub(super) rows: ProductAxis,
    pub(super) columns: ProductAxis,
    pub(super) inner: ProductAxis,
}

impl ProductAxes {
    /// How many products of matrices there are.
    fn count(&self) -> usize {
        self.batch.iter().chain(&self.sums).fold(1, |count: usize, axis| count.saturating_mul(axis.extent))
    }

    /// The axes of a product by what they are, if it is one of matrices; `own` are the strides of the result.
    fn of(einsum: &Einsum, operands: &[Located], own: &[isize]) -> Option<ProductAxes> {
        let [first, second] = operands else { return None };
        let [first_labels, second_labels] = &einsum.operands[..] else { return None };
        if einsum.is_strong() {
            return None;
        }
        let (mut batch, mut rows, mut columns, mut inner) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (label, extent) in einsum.extents.iter().enumerate().filter(|(_, extent)| **extent != 1) {
            let [a, b, c] = [first_labels, second_labels, &einsum.output].map(|labels| labels.contains(&label));
            let kind = match (a, b, c) {
                (false, false, false) => continue,
                (true, false, true) => &mut rows,
                (false, true, true) => &mut columns,
                (_, _, true) => &mut batch,
                // If something is summed in one factor alone, another order is better, and found elsewhere.
                (_, _, false) => &mut inner,
            };
            let strides = [
                along(first_labels, &first.strides, label),
                along(second_labels, &second.strides, label),
                along(&einsum.output, own, label),
            ];
            kind.push(ProductAxis { extent: *extent, strides });
        }
        if rows.is_empty() || columns.is_empty() || inner.is_empty() {
            return None;
        }
        let mut batch = merged(batch);
        let (rows, more_rows) = longest(merged(rows));
        let (columns, more_columns) = longest(merged(columns));
        let (inner, sums) = longest(merged(inner));
        batch.extend(more_rows);
        batch.extend(more_columns);
        Some(ProductAxes { batch, sums, rows, columns, inner })
    }
}

/// The longest of some axes, and the others.
fn longest(mut axes: Vec<ProductAxis>) -> (ProductAxis, Vec<ProductAxis>) {
    let place = (0..axes.len()).max_by_key(|place| axes[*place].extent);
    let axis = place.map_or(ProductAxis { extent: 1, strides: [0; 3] }, |place| axes.remove(place));
    (axis, axes)
}

/// Axes put together where they follow one another in all operands, the largest steps first.
fn merged(mut axes: Vec<ProductAxis>) -> Vec<ProductAxis> {
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.strides.map(isize::abs)));
    let mut kept = 0;
    for place in 1..axes.len() {
        let (last, axis) = (axes[kept], axes[place]);
        if (0..3).all(|k| last.strides[k] == axis.strides[k] * axis.extent as isize) {
            axes[kept] = ProductAxis { extent: last.extent * axis.extent, strides: axis.strides };
        } else {
            kept += 1;
            axes[kept] = axis;
        }
    }
    axes.truncate(kept + 1);
    axes
}
