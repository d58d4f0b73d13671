//! Small products of matrices: columns of the second factor are packed side by side, and each row of the first runs over
//! them with as many sums as a few vector registers hold.
#![allow(unsafe_code)]

use super::contraction::{Factor, Matrices};
use super::interpreter::elements_mut;
use super::isa::Isa;
use super::simd::Register;

/// The most columns that are computed together.
const WIDTH: usize = 16;

/// The bytes of scratch memory for packed columns of this many elements each.
pub(super) fn scratch_bytes(length: usize) -> usize {
    length * WIDTH * 8
}

/// A small product, by the instructions of an ISA level that this machine has.
pub(super) unsafe fn packed<E: Factor>(isa: Isa, matrices: Matrices<E>, scratch: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx2,fma")]
        unsafe fn wide<E: Factor>(matrices: Matrices<E>, scratch: *mut u8) {
            // SAFETY: the contract of this function.
            unsafe {
                if const { size_of::<E>() == 4 } {
                    each_panel::<E, E::Medium, 1, E::Wide, 1, 8>(matrices, scratch);
                } else {
                    each_panel::<E, E::Wide, 1, E::Wide, 2, 8>(matrices, scratch);
                }
            }
        }
        #[target_feature(enable = "avx2,fma")]
        unsafe fn medium<E: Factor>(matrices: Matrices<E>, scratch: *mut u8) {
            // SAFETY: as above.
            unsafe {
                if const { size_of::<E>() == 4 } {
                    each_panel::<E, E::Medium, 1, E::Medium, 2, 4>(matrices, scratch);
                } else {
                    each_panel::<E, E::Medium, 2, E::Medium, 4, 2>(matrices, scratch);
                }
            }
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
    // SAFETY: the contract of this function.
    unsafe { each_panel::<E, E::Eight, 1, E::Eight, 2, 2>(matrices, scratch) };
}

/// Panels of 16 columns in `N` registers, and the rest in panels of 8 columns in `M` registers; `H` rows at a time.
#[inline(always)]
unsafe fn each_panel<E: Factor, Q: Register<E>, const M: usize, R: Register<E>, const N: usize, const H: usize>(
    matrices: Matrices<E>,
    scratch: *mut u8,
) {
    let mut first = 0;
    while first < matrices.columns.extent {
        let width = (matrices.columns.extent - first).min(WIDTH);
        // SAFETY: the contract of the caller.
        unsafe {
            if width > WIDTH / 2 {
                panel::<E, R, N, H>(matrices, [first, width], scratch);
            } else {
                panel::<E, Q, M, H>(matrices, [first, width], scratch);
            }
        }
        first += width;
    }
}

/// A panel of columns in `N` registers: its columns are packed, and each row of the first factor runs over them.
#[inline(always)]
unsafe fn panel<E: Factor, R: Register<E>, const N: usize, const H: usize>(
    matrices: Matrices<E>,
    [first, width]: [usize; 2],
    scratch: *mut u8,
) {
    let Matrices { b, rows, columns, inner, .. } = matrices;
    let padded = N * size_of::<R>() / size_of::<E>();
    // SAFETY: the scratch memory holds `WIDTH` columns.
    let packed = unsafe { elements_mut(scratch, inner.extent * padded) };
    let is_contiguous = columns.strides[1] == 1;
    for (k, line) in packed.chunks_exact_mut(padded).enumerate() {
        let (own, rest) = line.split_at_mut(width);
        rest.fill(E::default());
        let start = b.wrapping_offset(k as isize * inner.strides[1] + first as isize * columns.strides[1]);
        if is_contiguous {
            // SAFETY: the planner's strides stay inside the memory of each operand; this many columns are contiguous.
            own.copy_from_slice(unsafe { std::slice::from_raw_parts(start, width) });
        } else {
            for (j, element) in own.iter_mut().enumerate() {
                // SAFETY: as above.
                *element = unsafe { *start.wrapping_offset(j as isize * columns.strides[1]) };
            }
        }
    }
    let packed = packed.as_ptr();
    let mut row = 0;
    // SAFETY: the contract of the caller; `packed` has a line for each term.
    unsafe {
        while row + H <= rows.extent {
            some_rows::<E, R, N, H>(&matrices, [first, width], row, packed);
            row += H;
        }
        while row < rows.extent {
            some_rows::<E, R, N, 1>(&matrices, [first, width], row, packed);
            row += 1;
        }
    }
}

/// `H` rows of a panel. The sums are written in registers outright: left to the compiler, they once became scalar instructions.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "loops over registers must vanish even where adaptors are not inlined")]
unsafe fn some_rows<E: Factor, R: Register<E>, const N: usize, const H: usize>(
    matrices: &Matrices<E>,
    place: [usize; 2],
    row: usize,
    packed: *const E,
) {
    let Matrices { a, rows, inner, coefficient, .. } = *matrices;
    let lanes = size_of::<R>() / size_of::<E>();
    // SAFETY: the machine has the registers; the planner's strides stay inside the first factor, and the packed lines are `N`
    // registers each.
    unsafe {
        let mut sums = [[R::splat(E::default()); N]; H];
        let mut factors: [*const E; H] = [a; H];
        for r in 0..H {
            factors[r] = a.wrapping_offset((row + r) as isize * rows.strides[0]);
        }
        for k in 0..inner.extent {
            let mut line = [R::splat(E::default()); N];
            for n in 0..N {
                line[n] = R::load(packed.add((k * N + n) * lanes));
            }
            for r in 0..H {
                let factor = R::splat(*factors[r].wrapping_offset(k as isize * inner.strides[0]));
                for n in 0..N {
                    sums[r][n] = factor.fused(line[n], sums[r][n]);
                }
            }
        }
        for r in 0..H {
            let mut all = [E::default(); WIDTH];
            for n in 0..N {
                sums[r][n].times(R::splat(coefficient)).store(all.as_mut_ptr().add(n * lanes));
            }
            finish(matrices, place, row + r, &all);
        }
    }
}

/// Writes the scaled sums of some columns of a row, from the first on.
#[inline(always)]
unsafe fn finish<E: Factor>(matrices: &Matrices<E>, [first, width]: [usize; 2], row: usize, sums: &[E; WIDTH]) {
    let Matrices { c, rows, columns, add, .. } = *matrices;
    let start = c.wrapping_offset(row as isize * rows.strides[2] + first as isize * columns.strides[2]);
    if columns.strides[2] == 1 && !add {
        // SAFETY: the planner's strides stay inside the result, this many columns are contiguous, and no other thread writes to
        // them.
        let own = unsafe { std::slice::from_raw_parts_mut(start, width) };
        match <&mut [E; WIDTH]>::try_from(&mut *own) {
            Ok(whole) => *whole = *sums,
            Err(_) => own.copy_from_slice(&sums[..width]),
        }
        return;
    }
    for (j, sum) in sums.iter().enumerate().take(width) {
        let place = start.wrapping_offset(j as isize * columns.strides[2]);
        // SAFETY: as above.
        unsafe { *place = if add { sum.plus(*place) } else { *sum } };
    }
}
