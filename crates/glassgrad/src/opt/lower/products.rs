//! Products in Einstein notation: strides only, a loop, or a product of matrices whose axes are as long as strides allow.

use super::groups::{Group, PendingProduct};
use super::strides::rows;
use super::{Located, Lowering};
use crate::einsum::Einsum;
use crate::opt::graph::GraphNode;
use crate::opt::program::{Access, Combine, Product, ProductAxis};

impl Lowering<'_> {
    /// A product in Einstein notation: strides only, a loop, or a product of matrices.
    pub(super) fn einsum(&mut self, node: &GraphNode, einsum: &Einsum) -> Located {
        let operands: Vec<Located> = node.inputs.iter().map(|input| self.at(*input)).collect();
        // For each operand, the stride of every label; a label that repeats walks a diagonal.
        let along = |operand: &Located, labels: &[usize], label: usize| -> isize {
            labels.iter().zip(&operand.strides).filter(|(own, _)| **own == label).map(|(_, stride)| *stride).sum()
        };
        let placed = |order: &[usize]| -> Vec<Located> {
            let strides =
                |operand: usize| order.iter().map(move |label| (operand, *label)).collect::<Vec<(usize, usize)>>();
            (0..operands.len())
                .map(|k| Located {
                    strides: strides(k)
                        .into_iter()
                        .map(|(k, label)| along(&operands[k], &einsum.operands[k], label))
                        .collect(),
                    ..operands[k].clone()
                })
                .collect()
        };
        let summed: Vec<usize> = einsum.summed().into_iter().filter(|label| einsum.extents[*label] != 1).collect();
        let mut distinct = einsum.output.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let has_delta = distinct.len() != einsum.output.len();
        if summed.is_empty() && !has_delta {
            let placed = placed(&einsum.output);
            if einsum.coefficient == 1.0 && placed.len() == 1 {
                return placed[0].clone();
            }
            return self.pointwise(node, &node.shape.clone(), &placed);
        }
        // Where each label leads in the result.
        let own = rows(&node.shape);
        let output_stride = |label: usize| -> isize {
            einsum.output.iter().zip(&own).filter(|(own, _)| **own == label).map(|(_, stride)| *stride).sum()
        };
        if let Some(axes) = product_axes(einsum, &operands, along, output_stride) {
            let producer = self.produce(node.dtype, node.shape.elements());
            for operand in &operands {
                self.producers[operand.producer].needed = true;
            }
            let factors = [operands[0].clone(), operands[1].clone()];
            let pending = PendingProduct { axes, factors, producer, coefficient: einsum.coefficient, clear: has_delta };
            self.group_of(producer, Group::Product(pending));
            return Located { producer, offset: 0, strides: rows(&node.shape) };
        }
        // The loop walks along the largest operand, so that it can go on where that was computed.
        let size = |labels: &Vec<usize>| {
            labels.iter().fold(1, |size: usize, label| size.saturating_mul(einsum.extents[*label]))
        };
        let mut order: Vec<usize> = Vec::new();
        let largest = einsum.operands.iter().rev().max_by_key(|labels| size(labels));
        let rest = einsum.output.iter().chain(&summed);
        for label in largest.into_iter().flatten().chain(rest) {
            if !order.contains(label) {
                order.push(*label);
            }
        }
        let space: Vec<usize> = order.iter().map(|label| einsum.extents[*label]).collect();
        let strides: Vec<isize> = order.iter().map(|label| output_stride(*label)).collect();
        self.combined(node, &space, &placed(&order), &strides, Combine::Sum, Some(einsum))
    }
}

/// The axes of a product of matrices by what they are: batch, rows, columns, inner. `None` if it is none.
fn product_axes(
    einsum: &Einsum,
    operands: &[Located],
    along: impl Fn(&Located, &[usize], usize) -> isize,
    output_stride: impl Fn(usize) -> isize,
) -> Option<[Vec<ProductAxis>; 4]> {
    if operands.len() != 2 || einsum.is_strong() {
        return None;
    }
    let mut labels: Vec<usize> = einsum.operands.iter().flatten().chain(&einsum.output).copied().collect();
    labels.sort_unstable();
    labels.dedup();
    let mut axes: [Vec<ProductAxis>; 4] = Default::default();
    for label in labels {
        let [a, b] = [0, 1].map(|k| einsum.operands[k].contains(&label));
        let kind = match (a, b, einsum.output.contains(&label)) {
            (true, false, true) => 1,
            (false, true, true) => 2,
            (true, true, false) => 3,
            (_, _, true) => 0,
            // Something is summed in one factor alone: another order is better, and found elsewhere.
            (_, _, false) => 3,
        };
        let extent = einsum.extents[label];
        let [a, b] = [0, 1].map(|k| along(&operands[k], &einsum.operands[k], label));
        if extent != 1 {
            axes[kind].push(ProductAxis { extent, strides: [a, b, output_stride(label)] });
        }
    }
    let [_, rows, columns, inner] = &axes;
    (!rows.is_empty() && !columns.is_empty() && !inner.is_empty()).then_some(axes)
}

/// A product of matrices whose axes are as long as strides allow; what is left over is batch or sum.
pub(super) fn product(
    axes: &[Vec<ProductAxis>; 4],
    operands: [Access; 3],
    coefficient: f64,
    clear: Option<usize>,
) -> Product {
    let [batch, rows, columns, inner] = axes.clone().map(merged);
    let unit = ProductAxis { extent: 1, strides: [0; 3] };
    let longest = |mut axes: Vec<ProductAxis>| {
        let place = (0..axes.len()).max_by_key(|k| axes[*k].extent);
        let axis = place.map_or(unit, |place| axes.remove(place));
        (axis, axes)
    };
    let ((rows, more_rows), (columns, more_columns), (inner, sums)) = (longest(rows), longest(columns), longest(inner));
    let batch = [batch, more_rows, more_columns].concat();
    Product { batch, sums, rows, columns, inner, operands, coefficient, clear }
}

/// Axes put together where they follow one another in all operands, the largest steps first.
fn merged(mut axes: Vec<ProductAxis>) -> Vec<ProductAxis> {
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.strides.map(isize::abs)));
    let mut merged: Vec<ProductAxis> = Vec::new();
    for axis in axes {
        match merged.last_mut() {
            Some(last) if (0..3).all(|k| last.strides[k] == axis.strides[k] * axis.extent as isize) => {
                *last = ProductAxis { extent: last.extent * axis.extent, strides: axis.strides };
            }
            _ => merged.push(axis),
        }
    }
    merged
}
