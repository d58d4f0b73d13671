//! Strides: how the elements of one array lie in another, and which of their shapes need no copy.

use crate::shape::InlineVec;

/// The strides of elements that lie row by row.
pub(super) fn rows(shape: &[usize]) -> InlineVec<isize> {
    // Where there is nothing, no step leads anywhere; other axes may be longer than any memory.
    if shape.contains(&0) {
        return InlineVec::from_elem(0, shape.len());
    }
    let mut strides = InlineVec::from_elem(1, shape.len());
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = (strides[axis] as usize).saturating_mul(shape[axis]) as isize;
    }
    strides
}

/// Whether elements lie row by row.
pub(in crate::opt) fn is_rows(shape: &[usize], strides: &[isize]) -> bool {
    if shape.contains(&0) {
        return strides.iter().all(|stride| *stride == 0);
    }
    let mut expected = 1_usize;
    shape.iter().zip(strides).rev().all(|(size, stride)| {
        let matches = *stride == expected as isize;
        expected = expected.saturating_mul(*size);
        matches
    })
}

/// Strides along axes as strides along a refinement of them.
pub(super) fn split(extents: &[usize], strides: &[isize], finer: &[usize]) -> InlineVec<isize> {
    if extents == finer {
        return strides.iter().copied().collect();
    }
    let mut result = InlineVec::from_elem(0, finer.len());
    let mut axis = finer.len();
    for (extent, stride) in extents.iter().zip(strides).rev() {
        let mut reached = 1;
        while reached < *extent && axis > 0 {
            axis -= 1;
            result[axis] = stride * reached as isize;
            reached *= finer[axis];
        }
    }
    result
}

/// Sizes and strides without axes of size 1.
pub(super) fn squeezed(shape: &[usize], strides: &[isize]) -> (InlineVec<usize>, InlineVec<isize>) {
    (shape.iter().copied().filter(|size| *size != 1).collect(), squeezed_strides(shape, strides))
}

/// Strides without those of axes of size 1.
pub(super) fn squeezed_strides(shape: &[usize], strides: &[isize]) -> InlineVec<isize> {
    shape.iter().zip(strides).filter(|(size, _)| **size != 1).map(|(_, stride)| *stride).collect()
}

/// Whether elements lie row by row, whatever the strides of axes of size 1 say.
pub(super) fn is_contiguous(shape: &[usize], strides: &[isize]) -> bool {
    let (shape, strides) = squeezed(shape, strides);
    shape.contains(&0) || is_rows(&shape, &strides)
}

/// The strides of the same elements in another shape, if there are any.
pub(super) fn reshaped(shape: &[usize], strides: &[isize], target: &[usize]) -> Option<InlineVec<isize>> {
    if shape.contains(&0) {
        return Some(rows(target));
    }
    let (shape, strides) = squeezed(shape, strides);
    let mut result = InlineVec::from_elem(0, target.len());
    let (mut old, mut new) = (0, 0);
    while old < shape.len() {
        // The fewest axes of both shapes that hold equally many elements.
        let (first_old, first_new) = (old, new);
        let (mut old_count, mut new_count) = (shape[old], 1);
        old += 1;
        while old_count != new_count || new_count == 1 {
            if new_count < old_count {
                new_count *= target.get(new)?;
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
            stride *= target[axis] as isize;
        }
    }
    Some(result)
}
