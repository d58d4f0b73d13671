//! Products of a matrix and a vector (GEMV).
//!
//! Every element of the matrix is read once, so that memory decides: lines are read as they lie. Where sums are contiguous,
//! each result is a dot product, of four lines at a time; where lines do, multiples of one line after another are added up.
//! Threads take lines. The order of all additions follows from sizes alone.
#![allow(unsafe_code)]
// Loops over lanes run by number: they must vanish into vectors.
#![allow(clippy::needless_range_loop)]

use super::contraction::Factor;
use super::interpreter::Frame;
use super::isa::Isa;
use super::thread_pool;
use crate::program::{Contraction, ContractionAxis};

/// The partial sums of a dot product.
const LANES: usize = 16;
/// The lines whose dot products are computed together.
const TOGETHER: usize = 4;
/// The sums that are added up side by side.
const WIDTH: usize = 64;
/// From this many multiplications on a product is worth several threads.
const PARALLEL: usize = 1 << 18;
/// The lines that a thread takes at a time.
const PART: usize = 128;

/// A matrix, a vector and the result, with the steps between lines and between sums.
struct Vectors<E> {
    matrix: *const E,
    vector: *const E,
    result: *mut E,
    lines: usize,
    sums: usize,
    line_step: isize,
    sum_step: isize,
    vector_step: isize,
    result_step: isize,
    coefficient: E,
}
// SAFETY: threads read factors that nobody writes meanwhile, and write to lines of their own.
unsafe impl<E> Sync for Vectors<E> {}

/// The axis along the result, and the number of the factor that is the matrix.
fn sides(product: &Contraction) -> (ContractionAxis, usize) {
    if product.rows.extent == 1 { (product.columns, 1) } else { (product.rows, 0) }
}

/// Whether this kernel computes a product.
pub(super) fn is_for(product: &Contraction) -> bool {
    let (lines, matrix) = sides(product);
    let is_vector = product.rows.extent == 1 || product.columns.extent == 1;
    let is_one = product.batch.is_empty() && product.sums.is_empty() && !product.accumulates;
    let inner = product.inner.strides;
    let is_dense = lines.strides[matrix] == 1 || (inner[matrix] == 1 && inner[1 - matrix] == 1);
    is_vector && is_one && is_dense && product.operands[2].dtype.is_float()
}

/// Computes a product.
pub(super) unsafe fn run<E: Factor>(product: &Contraction, frame: &Frame<'_>) {
    let (lines, matrix) = sides(product);
    let at = |operand: usize| frame.at(&product.operands[operand], 0).cast::<E>();
    let whole = Vectors {
        matrix: at(matrix).cast_const(),
        vector: at(1 - matrix).cast_const(),
        result: at(2),
        lines: lines.extent,
        sums: product.inner.extent,
        line_step: lines.strides[matrix],
        sum_step: product.inner.strides[matrix],
        vector_step: product.inner.strides[1 - matrix],
        result_step: lines.strides[2],
        coefficient: E::from_f64(product.coefficient),
    };
    let isa = frame.isa;
    if whole.lines.saturating_mul(whole.sums) < PARALLEL {
        return whole.with_isa(isa, 0, whole.lines);
    }
    let whole = &whole;
    thread_pool::each(whole.lines.div_ceil(PART), |part| {
        whole.with_isa(isa, part * PART, ((part + 1) * PART).min(whole.lines));
    });
}

impl<E: Factor> Vectors<E> {
    /// Computes lines by the instructions of a level that this machine has.
    unsafe fn with_isa(&self, isa: Isa, begin: usize, end: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
            unsafe fn wide<E: Factor>(own: &Vectors<E>, begin: usize, end: usize) {
                own.part::<true>(begin, end);
            }
            #[target_feature(enable = "avx2,fma")]
            unsafe fn medium<E: Factor>(own: &Vectors<E>, begin: usize, end: usize) {
                own.part::<true>(begin, end);
            }
            match isa {
                // SAFETY: the machine has the instructions of the level at which its programs run.
                Isa::Avx512 => return unsafe { wide(self, begin, end) },
                // SAFETY: as above.
                Isa::Avx2 => return unsafe { medium(self, begin, end) },
                Isa::Baseline => {}
            }
        }
        let _ = isa;
        self.part::<{ Isa::BASELINE_FUSES }>(begin, end);
    }

    #[inline(always)]
    unsafe fn part<const FUSED: bool>(&self, begin: usize, end: usize) {
        let mut line = begin;
        if self.line_step == 1 {
            while line + WIDTH <= end {
                self.side_by_side::<WIDTH, FUSED>(line);
                line += WIDTH;
            }
            while line + 8 <= end {
                self.side_by_side::<8, FUSED>(line);
                line += 8;
            }
            while line < end {
                self.side_by_side::<1, FUSED>(line);
                line += 1;
            }
            return;
        }
        while line + TOGETHER <= end {
            self.dot::<TOGETHER, FUSED>(line);
            line += TOGETHER;
        }
        while line < end {
            self.dot::<1, FUSED>(line);
            line += 1;
        }
    }

    #[inline(always)]
    fn plus<const FUSED: bool>(a: E, b: E, sum: E) -> E {
        if FUSED { a.fused(b, sum) } else { a.times(b).plus(sum) }
    }

    /// The results of some lines that are contiguous.
    #[inline(always)]
    unsafe fn side_by_side<const W: usize, const FUSED: bool>(&self, line: usize) {
        let mut sums = [E::default(); W];
        let (mut at, mut factor) = (self.matrix.wrapping_add(line), self.vector);
        for _ in 0..self.sums {
            // SAFETY: the planner's strides stay inside of both factors, and this many lines are contiguous.
            let (row, x) = unsafe { (at.cast::<[E; W]>().read_unaligned(), *factor) };
            for k in 0..W {
                sums[k] = Self::plus::<FUSED>(row[k], x, sums[k]);
            }
            at = at.wrapping_offset(self.sum_step);
            factor = factor.wrapping_offset(self.vector_step);
        }
        for k in 0..W {
            self.write(line + k, sums[k]);
        }
    }

    /// The results of some lines whose sums are contiguous, as do the elements of the vector.
    #[inline(always)]
    unsafe fn dot<const L: usize, const FUSED: bool>(&self, line: usize) {
        let mut lanes = [[E::default(); LANES]; L];
        let mut at = [self.matrix; L];
        for l in 0..L {
            at[l] = self.matrix.wrapping_offset((line + l) as isize * self.line_step);
        }
        let whole = self.sums / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            // SAFETY: the planner's strides stay inside of both factors, and this many terms are contiguous.
            let x = unsafe { self.vector.wrapping_add(first).cast::<[E; LANES]>().read_unaligned() };
            for l in 0..L {
                // SAFETY: as above.
                let row = unsafe { at[l].wrapping_add(first).cast::<[E; LANES]>().read_unaligned() };
                for k in 0..LANES {
                    lanes[l][k] = Self::plus::<FUSED>(row[k], x[k], lanes[l][k]);
                }
            }
        }
        for l in 0..L {
            for k in whole..self.sums {
                // SAFETY: as above.
                let (a, x) = unsafe { (*at[l].wrapping_add(k), *self.vector.wrapping_add(k)) };
                lanes[l][k - whole] = Self::plus::<FUSED>(a, x, lanes[l][k - whole]);
            }
            let mut width = LANES / 2;
            while width > 0 {
                for k in 0..width {
                    lanes[l][k] = lanes[l][k].plus(lanes[l][k + width]);
                }
                width /= 2;
            }
            self.write(line + l, lanes[l][0]);
        }
    }

    #[inline(always)]
    unsafe fn write(&self, line: usize, sum: E) {
        let place = self.result.wrapping_offset(line as isize * self.result_step);
        // SAFETY: the planner's strides stay inside the result, and nobody else writes to this line.
        unsafe { *place = sum.times(self.coefficient) };
    }
}
