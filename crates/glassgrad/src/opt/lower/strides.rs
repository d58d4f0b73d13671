//! Strides: how the elements of one array lie in another, and which of their shapes need no copy.

use crate::shape::Shape;

/// The strides of elements that lie row by row.
pub(super) fn rows(shape: &[usize]) -> Vec<isize> {
    // Where there is nothing, no step leads anywhere; other axes may be longer than any memory.
    if shape.contains(&0) {
        return vec![0; shape.len()];
    }
    Shape::from(shape).strides().into_iter().map(|stride| stride as isize).collect()
}

/// Sizes and strides without axes of size 1.
pub(super) fn squeezed(shape: &[usize], strides: &[isize]) -> (Vec<usize>, Vec<isize>) {
    shape.iter().zip(strides).filter(|(size, _)| **size != 1).unzip()
}

pub(super) fn is_contiguous(shape: &[usize], strides: &[isize]) -> bool {
    let (shape, strides) = squeezed(shape, strides);
    strides == rows(&shape) || shape.contains(&0)
}

/// The strides of the same elements in another shape, if there are any.
pub(super) fn reshaped(shape: &[usize], strides: &[isize], wanted: &[usize]) -> Option<Vec<isize>> {
    if shape.contains(&0) {
        return Some(rows(wanted));
    }
    let (shape, strides) = squeezed(shape, strides);
    let mut result = vec![0; wanted.len()];
    let (mut old, mut new) = (0, 0);
    while old < shape.len() {
        // The fewest axes of both shapes that hold equally many elements.
        let (first_old, first_new) = (old, new);
        let (mut old_count, mut new_count) = (shape[old], 1);
        old += 1;
        while old_count != new_count || new_count == 1 {
            if new_count < old_count {
                new_count *= wanted.get(new)?;
                new += 1;
            } else {
                old_count *= shape.get(old)?;
                old += 1;
            }
        }
        for axis in first_old..old - 1 {
            if strides[axis] != strides[axis + 1] * shape[axis + 1] as isize {
                return None;
            }
        }
        let mut stride = strides[old - 1];
        for axis in (first_new..new).rev() {
            result[axis] = stride;
            stride *= wanted[axis] as isize;
        }
    }
    Some(result)
}
