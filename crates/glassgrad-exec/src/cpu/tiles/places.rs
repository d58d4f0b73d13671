//! Where the elements of a product lie whose rows, columns and sums run over several axes.

use super::super::fused::MOST_AXES;
use crate::program::ContractionAxis;

/// How many indices some axes have.
pub(crate) fn count(axes: &[ContractionAxis]) -> usize {
    axes.iter().map(|axis| axis.extent).product()
}

/// The places in each operand that an index of some axes leads to.
pub(crate) fn place(axes: &[ContractionAxis], mut index: usize) -> [isize; 3] {
    let mut places = [0; 3];
    for axis in axes.iter().rev() {
        let own = (index % axis.extent) as isize;
        index /= axis.extent;
        places.iter_mut().zip(axis.strides).for_each(|(place, stride)| *place += own * stride);
    }
    places
}

/// Calls a function with each index of some axes from one to another, counted from the first, and its places.
#[inline(always)]
pub(super) fn each_place(axes: &[ContractionAxis], range: [usize; 2], mut visit: impl FnMut(usize, [isize; 3])) {
    let [a, b, c] = axes.last().map_or([0; 3], |last| last.strides);
    each_run(axes, range, |number, length, [in_a, in_b, in_c]| {
        for k in 0..length {
            let along = k as isize;
            visit(number + k, [in_a + along * a, in_b + along * b, in_c + along * c]);
        }
    });
}

/// Calls a function with each run of indices along the last of some axes, from one index to another: the number of its first, counted
/// from there, its length, and the places of its first.
#[inline(always)]
pub(super) fn each_run(
    axes: &[ContractionAxis],
    [begin, end]: [usize; 2],
    mut visit: impl FnMut(usize, usize, [isize; 3]),
) {
    if begin == end {
        return;
    }
    let Some((last, outer)) = axes.split_last() else { return visit(0, 1, [0; 3]) };
    let mut index = [0_usize; MOST_AXES];
    let (mut rest, mut column) = (begin / last.extent, begin % last.extent);
    for (axis, own) in outer.iter().enumerate().rev() {
        index[axis] = rest % own.extent;
        rest /= own.extent;
    }
    // Where the row begins, along the last axis.
    let mut row = place(axes, begin - column);
    let mut number = 0;
    while number < end - begin {
        let length = (last.extent - column).min(end - begin - number);
        let [a, b, c] = last.strides.map(|stride| column as isize * stride);
        visit(number, length, [row[0] + a, row[1] + b, row[2] + c]);
        number += length;
        column = 0;
        for (axis, own) in outer.iter().enumerate().rev() {
            index[axis] += 1;
            (0..3).for_each(|operand| row[operand] += own.strides[operand]);
            if index[axis] < own.extent {
                break;
            }
            index[axis] = 0;
            (0..3).for_each(|operand| row[operand] -= own.extent as isize * own.strides[operand]);
        }
    }
}
