//! Padding: an array with zeros around it, so that a view that reads outside becomes strides.
//!
//! The windows of a padded convolution are then never copied. The transpose accumulates into the padded array, of which the
//! inside is taken.

use super::elements::squeeze;
use super::groups::{Group, PendingStore};
use super::layout::permute;
use super::strides::{rows, split, squeezed_strides};
use super::{Located, Lowering};
use crate::shape::{InlineVec, Shape};
use crate::view::View;

/// A padded array that a view stays inside of.
pub(super) struct PaddedView {
    /// Its shape.
    pub(super) shape: Shape,
    /// The place that the first element of the view leads to.
    pub(super) offset: isize,
    /// How far each axis of the view leads in it.
    pub(super) strides: InlineVec<isize>,
    /// Its own strides.
    lying: InlineVec<isize>,
    /// The place of the first element that is inside.
    pub(super) inside: isize,
}

impl PaddedView {
    /// The padding of a view, row by row.
    pub(super) fn of(view: &View) -> PaddedView {
        PaddedView::lying(view, rows)
    }

    /// The padding of a view, with the strides of its shape by a function.
    fn lying(view: &View, strides: impl FnOnce(&[usize]) -> InlineVec<isize>) -> PaddedView {
        let reach = |steps: &[(usize, isize)], towards: fn(isize) -> isize| -> isize {
            steps.iter().map(|(along, step)| towards(step * (view.output[*along] as isize - 1))).sum()
        };
        let bounds = |(axis, size): (&crate::view::AxisView, &usize)| {
            let first = axis.offset + reach(&axis.steps, |step| step.min(0));
            let last = axis.offset + reach(&axis.steps, |step| step.max(0));
            [first.min(0), (last + 1).max(*size as isize)]
        };
        let bounds: Vec<[isize; 2]> = view.axes.iter().zip(view.input.iter()).map(bounds).collect();
        let shape: Shape = bounds.iter().map(|[first, behind]| (behind - first) as usize).collect();
        let lying = strides(&shape);
        let steps = InlineVec::from_elem(0, view.output.rank());
        let mut room = PaddedView { shape, offset: 0, strides: steps, lying: lying.clone(), inside: 0 };
        for ((axis, [first, _]), stride) in view.axes.iter().zip(bounds).zip(lying.iter()) {
            room.offset += (axis.offset - first) * stride;
            room.inside -= first * stride;
            axis.steps.iter().for_each(|(along, step)| room.strides[*along] += step * stride);
        }
        room
    }
}

impl Lowering<'_> {
    /// What a view reads, if there are no more places in its room than it reads: the array is put into the room by the loop
    /// that makes it, and nothing else is copied.
    pub(super) fn read_padded(&mut self, view: &View, at: &Located) -> Option<Located> {
        let mut operand = [at.clone()];
        let mut extents = squeeze(&view.input, &mut operand);
        let order = self.followed(&operand);
        // What is stored channels-last is padded in that layout.
        let room = PaddedView::lying(view, |shape| match &order {
            Some(order) => {
                let mut axes: Vec<usize> = (0..shape.len()).filter(|axis| view.input[*axis] == 1).collect();
                let long: Vec<usize> = (0..shape.len()).filter(|axis| view.input[*axis] != 1).collect();
                axes.extend(order.iter().map(|axis| long[*axis]));
                let own = rows(&axes.iter().map(|axis| shape[*axis]).collect::<Vec<_>>());
                let mut strides = InlineVec::from_elem(0, shape.len());
                axes.iter().zip(own.iter()).for_each(|(axis, stride)| strides[*axis] = *stride);
                strides
            }
            None => rows(shape),
        });
        if room.shape.elements() > view.output.elements() {
            return None;
        }
        let mut strides = squeezed_strides(&view.input, &room.lying);
        if let Some(order) = &order {
            permute(order, &mut extents, &mut operand);
            strides = order.iter().map(|axis| strides[*axis]).collect();
        }
        let place = self.loop_over(&extents, &mut operand);
        let strides = split(&extents, &strides, &self.axes_of(place));
        let register = self.register(place, &operand[0]);
        let producer = self.produce(self.producers[at.producer].dtype, room.shape.elements());
        self.producers[producer].group = place.group;
        self.producers[producer].needed = true;
        self.producers[producer].channels_last = order.is_some();
        if let Group::Loop(group_loop) = &mut self.groups[place.group] {
            let strides = if place.by_row { group_loop.with_rows(&strides) } else { strides };
            let offset = room.inside;
            let store = PendingStore { register, producer, offset, strides, reduction: None, scale: 1.0, clear: true };
            group_loop.stores.push(store);
        }
        Some(Located { producer, offset: room.offset, strides: room.strides })
    }
}
