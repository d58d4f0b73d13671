//! Products in Einstein notation: strides only, a loop, or a product of matrices whose axes are as long as strides allow.

use super::groups::{Group, PendingContraction};
use super::layout::channels_last;
use super::strides::rows;
use super::{Located, Lowering};
use crate::einsum::{Einsum, Label};
use crate::expr::Op;
use crate::opt::graph::GraphNode;
use crate::opt::program::{ContractionAxis, Reduction};
use crate::shape::InlineVec;
use crate::sorting::IndirectSort;

/// The sum of the strides of a label, which leads along a diagonal where it repeats.
fn along(labels: &[Label], strides: &[isize], label: Label) -> isize {
    labels.iter().zip(strides).filter(|(own, _)| **own == label).map(|(_, stride)| *stride).sum()
}

impl Lowering<'_> {
    /// A product in Einstein notation: strides only, a loop, or a product of matrices.
    pub(super) fn einsum(&mut self, number: usize, node: &GraphNode, einsum: &Einsum) -> Located {
        let operands: Vec<Located> = node.inputs.iter().map(|input| self.at(*input)).collect();
        let is_summed = |label: &&Label| einsum.extents[**label] != 1 && !einsum.output.contains(label);
        let has_sum = einsum.operands.iter().flatten().any(|label| is_summed(&label));
        let has_delta = (1..einsum.output.len()).any(|axis| einsum.output[..axis].contains(&einsum.output[axis]));
        if !has_sum && !has_delta {
            let mut placed = placed(einsum, operands, &einsum.output);
            if einsum.coefficient == 1.0 && placed.len() == 1 {
                return placed.remove(0);
            }
            return self.pointwise(node, &node.shape, placed, self.order_of_node(number));
        }
        // Where each label leads in the result.
        let own = rows(&node.shape);
        // Where zeros win there is a kernel for whole matrices only.
        let is_refused = einsum.is_strong() && has_delta;
        let fold = if is_refused { None } else { self.fold_of(number, einsum) };
        let is_image = self.target.channels_last.contains(&node.dtype) && fold.is_none() && !has_delta;
        let last = if is_image { channels_last(einsum, &node.shape) } else { None };
        let places = fold.as_ref().map_or_else(|| last.as_ref().unwrap_or(&own), |fold| &fold.strides);
        let axes = if is_refused { None } else { ContractionAxes::of(einsum, &operands, places) };
        let axes = axes.filter(|axes| {
            let is_matrix = axes.rows.extent > 1 && axes.columns.extent > 1;
            is_matrix || (fold.is_none() && !has_delta && self.is_matrix_vector(axes, &operands))
        });
        if let Some(axes) = axes {
            let shape = fold.as_ref().map_or(&node.shape, |fold| &fold.shape);
            // Places are the same in the compute type.
            let is_stored = fold.is_none() && !has_delta && self.multiplies_stored(node, einsum, &axes, &operands);
            let is_narrow = is_stored && !self.target.wide_products;
            let dtype = if is_narrow { node.dtype } else { node.dtype.compute_type() };
            let operands = match is_stored {
                true => operands,
                false => operands.iter().map(|operand| self.widened(operand)).collect(),
            };
            let producer = self.produce(dtype, shape.elements());
            for operand in &operands {
                self.producers[operand.producer].needed = true;
            }
            if let Ok(factors) = <[Located; 2]>::try_from(operands) {
                let (coefficient, accumulates) = (einsum.coefficient, fold.is_some());
                let offset = fold.as_ref().map_or(0, |fold| fold.offset);
                let clear = has_delta || accumulates;
                let is_one = axes.batch.is_empty() && axes.sums.is_empty() && axes.rows.extent == axes.columns.extent;
                let masked = [0, 1].map(|factor| einsum.strong[factor] && node.dtype.is_float());
                let symmetric = self.target.symmetric
                    && !is_stored
                    && is_one
                    && !clear
                    && !einsum.is_strong()
                    && self.is_symmetric(node, einsum);
                let pending = PendingContraction {
                    axes,
                    factors,
                    producer,
                    offset,
                    coefficient,
                    clear,
                    accumulates,
                    symmetric,
                    masked,
                    epilogue: None,
                };
                self.group_of(producer, Group::Contract(pending));
            }
            self.producers[producer].channels_last = last.is_some();
            let whole = match last {
                Some(strides) => Located { producer, offset: 0, strides },
                None => Located::whole(producer, shape),
            };
            let made = self.narrowed(&whole, shape, node.dtype);
            if let Some(fold) = &fold {
                self.folded(number, fold, made.producer);
            }
            return made;
        }
        // The loop walks along the largest operand, so that it can go on where that was computed.
        let size = |labels: &Vec<Label>| {
            labels.iter().fold(1, |size: usize, label| size.saturating_mul(einsum.extents[*label]))
        };
        let mut order: InlineVec<Label> = InlineVec::new();
        let largest = einsum.operands.iter().rev().max_by_key(|labels| size(labels));
        let mut summed: Vec<Label> = einsum.operands.iter().flatten().filter(is_summed).copied().collect();
        summed.sort_unstable();
        for label in largest.into_iter().flatten().chain(&einsum.output).chain(&summed) {
            if !order.contains(label) {
                order.push(*label);
            }
        }
        let space: InlineVec<usize> = order.iter().map(|label| einsum.extents[*label]).collect();
        let strides: InlineVec<isize> = order.iter().map(|label| along(&einsum.output, &own, *label)).collect();
        let placed = placed(einsum, operands, &order);
        self.combined(node, &space, placed, &strides, Reduction::Sum, Some(einsum))
    }
}

/// From this many elements on the matrix of a matrix-vector product is worth a step of its own.
const LARGE_MATRIX: usize = 1 << 14;

impl Lowering<'_> {
    /// Whether the target multiplies factors of a storage type as they are stored. Where zeros are strong, and the result is in the compute
    /// type, factors are searched for what is not finite in that type.
    fn multiplies_stored(
        &self,
        node: &GraphNode,
        einsum: &Einsum,
        axes: &ContractionAxes,
        operands: &[Located],
    ) -> bool {
        let all = axes.batch.iter().chain(&axes.sums).chain([&axes.rows, &axes.columns, &axes.inner]);
        let multiplications = all.fold(1_usize, |all, axis| all.saturating_mul(axis.extent));
        self.target.products.contains(&node.dtype)
            && multiplications >= self.target.stored_multiplications
            && !(self.target.wide_products && einsum.is_strong())
            && operands.iter().all(|operand| self.producers[operand.producer].dtype == node.dtype)
    }

    /// Whether a product of a matrix and a vector is a contraction for this target: the matrix is large and lies in memory
    /// anyway. A loop multiplies and sums up what it computes itself without storing it.
    fn is_matrix_vector(&self, axes: &ContractionAxes, operands: &[Located]) -> bool {
        let matrix = usize::from(axes.rows.extent == 1);
        let (lines, is_plain) =
            (axes.rows.extent.max(axes.columns.extent), axes.batch.is_empty() && axes.sums.is_empty());
        // A loop converts elements of storage types as it reads them.
        let is_converted = operands.iter().any(|operand| self.producers[operand.producer].dtype.is_storage_only());
        self.target.matrix_vector
            && !is_converted
            && is_plain
            && lines.saturating_mul(axes.inner.extent) >= LARGE_MATRIX
            && operands.get(matrix).is_some_and(|matrix| self.producers[matrix.producer].leaf.is_some())
    }

    /// Whether a product of two factors is its own transpose: both are one matrix, up to factors that only what is summed
    /// decides on, as in XᵀX and in XᵀDX with a diagonal D.
    fn is_symmetric(&self, node: &GraphNode, einsum: &Einsum) -> bool {
        let ([first, second], [row, column]) = (&einsum.operands[..], &einsum.output[..]) else { return false };
        let mut looks = MOST_LOOKS;
        let (one, mut own) = self.without_factors(node.inputs[0], first, *row, &mut looks);
        let (other, others) = self.without_factors(node.inputs[1], second, *column, &mut looks);
        let is_free = |labels: &[Label], free: &Label| labels.iter().filter(|label| *label == free).count() == 1;
        let is_one_matrix = one == other && is_free(&own, row) && is_free(&others, column);
        own.iter_mut().filter(|label| *label == row).for_each(|label| *label = *column);
        is_one_matrix && own == others
    }

    /// The matrix that a node is a multiple of, by factors that do not differ along one of its labels, with its labels.
    fn without_factors(&self, node: usize, labels: &[Label], free: Label, looks: &mut usize) -> (usize, Vec<Label>) {
        let itself = || (node, labels.to_vec());
        let GraphNode { op, inputs, .. } = &self.graph.nodes[node];
        if *looks == 0 {
            return itself();
        }
        *looks -= 1;
        if let (Op::Add, [first, others @ ..]) = (op, &inputs[..]) {
            // A sum of multiples of one matrix is one too.
            let whole = self.without_factors(*first, labels, free, looks);
            let is_one = others.iter().all(|term| self.without_factors(*term, labels, free, looks) == whole);
            return if is_one { whole } else { itself() };
        }
        let Op::Einsum(product) = op else { return itself() };
        let place = |label: &Label| product.output.iter().position(|own| own == label);
        let is_there = |(label, size): (Label, &usize)| *size == 1 || product.output.contains(&label);
        let is_plain = !product.is_strong() && product.extents.iter().enumerate().all(is_there);
        let Some(along) = labels.iter().position(|label| *label == free).filter(|_| is_plain) else { return itself() };
        let along = product.output[along];
        let mut moving = (0..inputs.len()).filter(|input| product.operands[*input].contains(&along));
        let (Some(only), None) = (moving.next(), moving.next()) else { return itself() };
        let own: Option<Vec<Label>> =
            product.operands[only].iter().map(|label| place(label).map(|place| labels[place])).collect();
        match own {
            Some(own) if own.len() == labels.len() => self.without_factors(inputs[only], &own, free, looks),
            _ => itself(),
        }
    }
}

/// At most this many nodes are searched behind the factors of one product: sums of sums could have any number.
const MOST_LOOKS: usize = 64;

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
pub(super) struct ContractionAxes {
    pub(super) batch: Vec<ContractionAxis>,
    pub(super) sums: Vec<ContractionAxis>,
    pub(super) rows: ContractionAxis,
    pub(super) columns: ContractionAxis,
    pub(super) inner: ContractionAxis,
}

impl ContractionAxes {
    /// The axes of a product by what they are, if it is one of matrices or of a matrix and a vector; `own` are the strides of the
    /// result.
    fn of(einsum: &Einsum, operands: &[Located], own: &[isize]) -> Option<ContractionAxes> {
        let [first, second] = operands else { return None };
        let [first_labels, second_labels] = &einsum.operands[..] else { return None };
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
            kind.push(ContractionAxis { extent: *extent, strides });
        }
        if (rows.is_empty() && columns.is_empty()) || inner.is_empty() {
            return None;
        }
        let mut batch = merged(batch);
        let (rows, more_rows) = longest(merged(rows));
        let (columns, more_columns) = longest(merged(columns));
        let (inner, sums) = longest(merged(inner));
        batch.extend(more_rows);
        batch.extend(more_columns);
        Some(ContractionAxes { batch, sums, rows, columns, inner })
    }
}

/// The longest of some axes, and the others.
fn longest(mut axes: Vec<ContractionAxis>) -> (ContractionAxis, Vec<ContractionAxis>) {
    let place = (0..axes.len()).max_by_key(|place| axes[*place].extent);
    let axis = place.map_or(ContractionAxis { extent: 1, strides: [0; 3] }, |place| axes.remove(place));
    (axis, axes)
}

/// Axes put together where they follow one another in all operands, the largest steps first.
fn merged(mut axes: Vec<ContractionAxis>) -> Vec<ContractionAxis> {
    axes.indirect_sort_by_key(|axis| std::cmp::Reverse(axis.strides.map(isize::abs)));
    let mut kept = 0;
    for place in 1..axes.len() {
        let (last, axis) = (axes[kept], axes[place]);
        if (0..3).all(|k| last.strides[k] == axis.strides[k] * axis.extent as isize) {
            axes[kept] = ContractionAxis { extent: last.extent * axis.extent, strides: axis.strides };
        } else {
            kept += 1;
            axes[kept] = axis;
        }
    }
    axes.truncate(kept + 1);
    axes
}
