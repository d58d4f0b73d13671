//! Small products of matrices: columns of the second factor are packed side by side, and each row of the first runs over
//! them with as many sums as a few vector registers hold.
#![allow(unsafe_code)]

use super::contraction::{Factor, Matrices};
use super::interpreter::elements_mut;
use super::isa::Isa;

/// The columns that are computed together.
const WIDTH: usize = 16;
/// The rows that are computed together.
const HEIGHT: usize = 4;

/// The bytes of scratch memory for packed columns, of so many elements each.
pub(super) fn scratch_bytes(length: usize) -> usize {
    length * WIDTH * 8
}

/// A small product, by the instructions of a level that this machine has.
pub(super) unsafe fn packed<E: Factor>(isa: Isa, matrices: Matrices<E>, scratch: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx2,fma")]
        unsafe fn wide<E: Factor>(matrices: Matrices<E>, scratch: *mut u8) {
            columns_together::<E, true>(matrices, scratch);
        }
        #[target_feature(enable = "avx2,fma")]
        unsafe fn medium<E: Factor>(matrices: Matrices<E>, scratch: *mut u8) {
            columns_together::<E, true>(matrices, scratch);
        }
        if const { E::LEVELS } {
            match isa {
                // SAFETY: the machine has the instructions of the level at which its programs run.
                Isa::Avx512 => return unsafe { wide(matrices, scratch) },
                // SAFETY: as above.
                Isa::Avx2 => return unsafe { medium(matrices, scratch) },
                Isa::Baseline => {}
            }
        }
    }
    let _ = isa;
    columns_together::<E, { Isa::BASELINE_FUSES }>(matrices, scratch);
}

#[inline(always)]
unsafe fn columns_together<E: Factor, const FUSED: bool>(matrices: Matrices<E>, scratch: *mut u8) {
    let (columns, inner) = (matrices.columns, matrices.inner);
    let mut first = 0;
    while first < columns.extent {
        let width = (columns.extent - first).min(WIDTH);
        match width {
            0..=4 => rows_together::<E, 4, FUSED>(matrices, first, width, elements_mut(scratch, inner.extent * 4)),
            5..=8 => rows_together::<E, 8, FUSED>(matrices, first, width, elements_mut(scratch, inner.extent * 8)),
            _ => rows_together::<E, WIDTH, FUSED>(matrices, first, width, elements_mut(scratch, inner.extent * WIDTH)),
        }
        first += width;
    }
}

#[inline(always)]
unsafe fn rows_together<E: Factor, const W: usize, const FUSED: bool>(
    matrices: Matrices<E>,
    first: usize,
    width: usize,
    packed: &mut [E],
) {
    let Matrices { a, b, rows, columns, inner, .. } = matrices;
    let read = |at: *const E, place: isize| {
        // SAFETY: the planner's strides stay inside the memory of each operand.
        unsafe { *at.wrapping_offset(place) }
    };
    let (lines, _) = packed.as_chunks_mut::<W>();
    let is_side_by_side = columns.strides[1] == 1;
    for (k, line) in lines.iter_mut().enumerate() {
        if is_side_by_side {
            // SAFETY: as above: so many columns lie side by side from here on.
            let row = unsafe {
                std::slice::from_raw_parts(b.wrapping_offset(k as isize * inner.strides[1] + first as isize), width)
            };
            line[..width].copy_from_slice(row);
            line[width..].fill(E::default());
            continue;
        }
        for (j, element) in line.iter_mut().enumerate() {
            let column = (first + j) as isize;
            *element = if j < width {
                read(b, k as isize * inner.strides[1] + column * columns.strides[1])
            } else {
                E::default()
            };
        }
    }
    let accumulate = |sums: &mut [E; W], factor: E, line: &[E; W]| {
        for (sum, element) in sums.iter_mut().zip(line) {
            *sum = if FUSED { factor.fused(*element, *sum) } else { factor.times(*element).plus(*sum) };
        }
    };
    let mut row = 0;
    while row + HEIGHT <= rows.extent {
        let mut sums = [[E::default(); W]; HEIGHT];
        for (k, line) in lines.iter().enumerate() {
            for (r, sums) in sums.iter_mut().enumerate() {
                let factor = read(a, (row + r) as isize * rows.strides[0] + k as isize * inner.strides[0]);
                accumulate(sums, factor, line);
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            finish(&matrices, [first, width], row + r, sums);
        }
        row += HEIGHT;
    }
    while row < rows.extent {
        let mut sums = [E::default(); W];
        for (k, line) in lines.iter().enumerate() {
            accumulate(&mut sums, read(a, row as isize * rows.strides[0] + k as isize * inner.strides[0]), line);
        }
        finish(&matrices, [first, width], row, &sums);
        row += 1;
    }
}

/// Writes the sums of some columns of a row, from the first on.
#[inline(always)]
unsafe fn finish<E: Factor, const W: usize>(
    matrices: &Matrices<E>,
    [first, width]: [usize; 2],
    row: usize,
    sums: &[E; W],
) {
    let Matrices { c, rows, columns, coefficient, add, .. } = *matrices;
    let start = c.wrapping_offset(row as isize * rows.strides[2] + first as isize * columns.strides[2]);
    let scaled = sums.map(|sum| sum.times(coefficient));
    if columns.strides[2] == 1 && !add {
        // SAFETY: the planner's strides stay inside the result, so many columns lie side by side, and nobody else
        // writes to them.
        let own = unsafe { std::slice::from_raw_parts_mut(start, width) };
        match <&mut [E; W]>::try_from(&mut *own) {
            Ok(whole) => *whole = scaled,
            Err(_) => own.iter_mut().zip(scaled).for_each(|(own, sum)| *own = sum),
        }
        return;
    }
    for (j, sum) in scaled.iter().enumerate().take(width) {
        let place = start.wrapping_offset(j as isize * columns.strides[2]);
        // SAFETY: as above.
        unsafe { *place = if add { sum.plus(*place) } else { *sum } };
    }
}
