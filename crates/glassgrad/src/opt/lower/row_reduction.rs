//! Rows of a loop, over which it can put elements together and go on with what it finds; and loops over the same elements
//! with other axes.
//!
//! A row runs along the last axes, or, as the windows of pooling do, along others further in front too, or along these alone.
//! What rows of a loop lie among each other fits into a block, so that a row is complete when it is put together.

use super::groups::{Group, LoopGroup};
use super::strides::{is_rows, rows, split};
use super::{Located, Lowering};
use crate::shape::InlineVec;

/// From this many rows on, rows are vectorised across instead of along.
const SIDE_BY_SIDE: usize = 8;

/// For each axis of a loop whether its rows run along it, if strides lead from its elements to one place for each row, and
/// these places lie row by row.
pub(super) fn along_rows(extents: &[usize], strides: &[isize], most: usize) -> Option<InlineVec<bool>> {
    let along = along_still_axes(extents, strides, most)?;
    is_rows(&across(extents, &along), &across(strides, &along)).then_some(along)
}

/// For each axis of a loop whether strides stay where they are along it, if these are axes that rows can run along.
fn along_still_axes(extents: &[usize], strides: &[isize], most: usize) -> Option<InlineVec<bool>> {
    let along: InlineVec<bool> = strides.iter().map(|stride| *stride == 0).collect();
    // From the last axis to the first: along rows, then perhaps across some of them, and along them again.
    let is_along = |axis: &usize| along[*axis];
    let inner = (0..extents.len()).rev().take_while(is_along).count();
    let mut first = extents.len() - inner;
    if along[..first].contains(&true) {
        first -= (0..first).rev().take_while(|axis| !is_along(axis)).count();
        first -= (0..first).rev().take_while(is_along).count();
    }
    let elements = extents[first..].iter().fold(1, |elements: usize, extent| elements.saturating_mul(*extent));
    // Rows along axes in front alone are worth it if there is something in front of them, and much side by side.
    let is_wide = || first > 0 && extents.last().is_some_and(|last| *last >= SIDE_BY_SIDE);
    let is_one = (inner > 0 || is_wide()) && !along[..first].contains(&true) && (1..=most).contains(&elements);
    // A sum of all elements of several axes leaves their rows to others.
    (is_one && (extents.len() == 1 || along.contains(&false))).then_some(along)
}

/// What belongs to the axes that rows do not run along.
pub(super) fn across<T: Copy + Default>(all: &[T], along: &[bool]) -> InlineVec<T> {
    all.iter().zip(along).filter(|(_, along)| !**along).map(|(own, _)| *own).collect()
}

/// Strides over the rows of a loop as strides over its elements.
pub(super) fn with_rows(strides: &[isize], along: &[bool]) -> InlineVec<isize> {
    let mut strides = strides.iter();
    along.iter().map(|along| if *along { 0 } else { strides.next().copied().unwrap_or(0) }).collect()
}

/// The coarsest common refinement of two shapes, if there is one: the same elements in the same order.
pub(super) fn common_axes(a: &[usize], b: &[usize]) -> Option<InlineVec<usize>> {
    if a == b || a.contains(&0) || b.contains(&0) {
        return (a == b).then(|| a.iter().copied().collect());
    }
    let mut axes: Vec<usize> = Vec::with_capacity(a.len().max(b.len()));
    let (mut rest_a, mut rest_b) = (a.iter().rev(), b.iter().rev());
    let (mut own, mut other) = (1, 1);
    loop {
        // What is left of an axis of either list; sizes are above 1.
        if own == 1 {
            own = rest_a.next().copied().unwrap_or(1);
        }
        if other == 1 {
            other = rest_b.next().copied().unwrap_or(1);
        }
        let both = own.min(other);
        if both == 1 {
            return (own == other).then(|| axes.into_iter().rev().collect());
        }
        if !own.is_multiple_of(both) || !other.is_multiple_of(both) {
            return None;
        }
        axes.push(both);
        (own, other) = (own / both, other / both);
    }
}

impl LoopGroup {
    /// The sizes of the axes that rows do not run along.
    pub(super) fn row_extents(&self) -> InlineVec<usize> {
        self.along_rows.as_ref().map_or_else(InlineVec::new, |along| across(&self.extents, along))
    }

    /// Strides over rows as strides over elements.
    pub(super) fn with_rows(&self, strides: &[isize]) -> InlineVec<isize> {
        self.along_rows.as_ref().map_or_else(InlineVec::new, |along| with_rows(strides, along))
    }

    /// The strides of one number for each row, over elements.
    pub(super) fn row_strides(&self) -> InlineVec<isize> {
        self.with_rows(&rows(&self.row_extents()))
    }

    /// Whether strides lead to one place for each row. The first such strides determine where the rows of a loop are, if these lie
    /// among each other: then it is cheaper to read one number for each row than to find it for each element.
    pub(super) fn is_one_for_each_row(&mut self, strides: &[isize], most: usize) -> bool {
        let is_among = |along: &InlineVec<bool>| {
            along.last() == Some(&true) && along.iter().zip(along.iter().skip(1)).any(|(own, next)| *own && !next)
        };
        if let Some(along) = &self.along_rows {
            let is_still = strides.iter().zip(along.iter()).all(|(stride, along)| *stride == 0 || !along);
            return is_among(along) && is_still && strides.iter().any(|stride| *stride != 0);
        }
        self.along_rows = along_still_axes(&self.extents, strides, most).filter(is_among);
        self.along_rows.is_some()
    }

    /// The same loop over finer axes.
    pub(super) fn refine(&mut self, axes: &InlineVec<usize>) {
        if *self.extents == **axes {
            return;
        }
        let old = std::mem::replace(&mut self.extents, axes.clone());
        self.loads.iter_mut().for_each(|(load, _)| load.strides = split(&old, &load.strides, axes));
        self.stores.iter_mut().for_each(|store| store.strides = split(&old, &store.strides, axes));
        if let Some(along) = &mut self.along_rows {
            let numbers: InlineVec<isize> = along.iter().map(|along| isize::from(*along)).collect();
            *along = split(&old, &numbers, axes).iter().map(|number| *number != 0).collect();
        }
    }
}

impl Lowering<'_> {
    /// Whether a loop over a space that makes an operand can go on with it, element by element.
    pub(super) fn is_inside(&self, operand: &Located, extents: &[usize]) -> bool {
        let producer = &self.producers[operand.producer];
        if producer.register.is_none() || producer.leaf.is_some() || operand.offset != 0 {
            return false;
        }
        let Group::Loop(group) = &self.groups[producer.group] else { return false };
        match producer.by_row {
            // Rows are indexed by the axes of their own loop.
            true => *group.extents == *extents && *operand.strides == *group.row_strides(),
            false => common_axes(&group.extents, extents).is_some() && is_rows(extents, &operand.strides),
        }
    }
}
