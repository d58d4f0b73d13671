//! Skinny products of matrices: a large matrix whose lines are contiguous, and a vector or a few.
//!
//! Each element of the matrix is used by so few sums that packing would cost more than the product. The matrix is read once, in place, four
//! terms at a time, while the results of a chunk of lines stay in the L1 cache. Threads take chunks of lines. Terms are added in order.
#![allow(unsafe_code)]
// Loops over lanes run by number: they must vanish into vectors.
#![allow(clippy::needless_range_loop)]

use super::contraction::{Factor, multiplications};
use super::interpreter::Frame;
use super::isa::Isa;
use super::thread_pool;
use crate::program::{Contraction, ContractionAxis};

/// The largest number of vectors.
const MOST: usize = 8;
/// The lines of a chunk, whose results stay in the L1 cache.
const PART: usize = 512;
/// The terms of a sum that are added up together.
const TERMS: usize = 4;
/// Below this number of multiplications the cost of packing does not matter.
const WORTH: usize = 1 << 17;

/// The matrix, the vectors and the result, with the steps between lines or vectors and between sums.
struct Skinny<E> {
    matrix: *const E,
    sum_step: isize,
    vectors: *const E,
    vector_steps: [isize; 2],
    result: *mut E,
    /// From vector to vector, and from line to line.
    result_steps: [isize; 2],
    lines: usize,
    sums: usize,
    coefficient: E,
}
// SAFETY: no thread writes to the factors, and each thread writes to its own lines.
unsafe impl<E> Sync for Skinny<E> {}

/// The axes along the vectors and along the lines, and the number of the factor that is the matrix.
fn sides(product: &Contraction) -> (ContractionAxis, ContractionAxis, usize) {
    match product.rows.extent <= product.columns.extent {
        true => (product.rows, product.columns, 1),
        false => (product.columns, product.rows, 0),
    }
}

/// Whether this kernel supports a product.
pub(super) fn is_for(product: &Contraction) -> bool {
    let (vectors, lines, matrix) = sides(product);
    let is_one = product.batch.is_empty() && product.sums.is_empty() && !product.accumulates && !product.symmetric;
    (1..=MOST).contains(&vectors.extent)
        && lines.extent >= PART
        && lines.strides[matrix] == 1
        && multiplications(product) >= WORTH
        && is_one
        && product.epilogue.is_none()
        && product.operands[2].dtype.is_float()
}

/// Computes a product.
pub(super) unsafe fn run<E: Factor>(product: &Contraction, frame: &Frame<'_>) {
    let (vectors, lines, matrix) = sides(product);
    let at = |operand: usize| frame.at(&product.operands[operand], 0).cast::<E>();
    let whole = Skinny {
        matrix: at(matrix).cast_const(),
        sum_step: product.inner.strides[matrix],
        vectors: at(1 - matrix).cast_const(),
        vector_steps: [vectors.strides[1 - matrix], product.inner.strides[1 - matrix]],
        result: at(2),
        result_steps: [vectors.strides[2], lines.strides[2]],
        lines: lines.extent,
        sums: product.inner.extent,
        coefficient: E::from_f64(product.coefficient),
    };
    let (isa, whole) = (frame.isa, &whole);
    thread_pool::each(whole.lines.div_ceil(PART), |part| {
        let range = [part * PART, ((part + 1) * PART).min(whole.lines)];
        match vectors.extent {
            1 => whole.with_isa::<1>(isa, range),
            2 => whole.with_isa::<2>(isa, range),
            3 => whole.with_isa::<3>(isa, range),
            4 => whole.with_isa::<4>(isa, range),
            5 => whole.with_isa::<5>(isa, range),
            6 => whole.with_isa::<6>(isa, range),
            7 => whole.with_isa::<7>(isa, range),
            8 => whole.with_isa::<8>(isa, range),
            other => unreachable!("{other} vectors are not few"),
        }
    });
}

impl<E: Factor> Skinny<E> {
    /// Computes lines by the instructions of a level that this machine has.
    unsafe fn with_isa<const V: usize>(&self, isa: Isa, range: [usize; 2]) {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
            unsafe fn wide<E: Factor, const V: usize>(own: &Skinny<E>, range: [usize; 2]) {
                own.part::<V, true>(range);
            }
            #[target_feature(enable = "avx2,fma")]
            unsafe fn medium<E: Factor, const V: usize>(own: &Skinny<E>, range: [usize; 2]) {
                own.part::<V, true>(range);
            }
            match isa {
                // SAFETY: the machine has the instructions of the level at which its programs run.
                Isa::Avx512 => return unsafe { wide::<E, V>(self, range) },
                // SAFETY: as above.
                Isa::Avx2 => return unsafe { medium::<E, V>(self, range) },
                Isa::Baseline => {}
            }
        }
        let _ = isa;
        self.part::<V, { Isa::BASELINE_FUSES }>(range);
    }

    #[inline(always)]
    unsafe fn part<const V: usize, const FUSED: bool>(&self, [begin, end]: [usize; 2]) {
        let count = (end - begin).min(PART);
        let mut sums = [[E::default(); PART]; V];
        let mut term = 0;
        while term + TERMS <= self.sums {
            self.add::<V, TERMS, FUSED>(&mut sums, begin, count, term);
            term += TERMS;
        }
        while term < self.sums {
            self.add::<V, 1, FUSED>(&mut sums, begin, count, term);
            term += 1;
        }
        let [across, along] = self.result_steps;
        for v in 0..V {
            let own = self.result.wrapping_offset(v as isize * across + begin as isize * along);
            for line in 0..count {
                // SAFETY: the planner's strides stay inside the result, and nobody else writes to these lines.
                unsafe { *own.wrapping_offset(line as isize * along) = sums[v][line].times(self.coefficient) };
            }
        }
    }

    /// Adds some terms of all sums of some lines.
    #[inline(always)]
    unsafe fn add<const V: usize, const T: usize, const FUSED: bool>(
        &self,
        sums: &mut [[E; PART]; V],
        begin: usize,
        count: usize,
        term: usize,
    ) {
        let mut factors = [[E::default(); T]; V];
        let mut lines = [self.matrix; T];
        for t in 0..T {
            let term = (term + t) as isize;
            lines[t] = self.matrix.wrapping_offset(term * self.sum_step).wrapping_add(begin);
            for v in 0..V {
                let [across, along] = self.vector_steps;
                // SAFETY: the planner's strides stay inside of both factors.
                factors[v][t] = unsafe { *self.vectors.wrapping_offset(v as isize * across + term * along) };
            }
        }
        for line in 0..count.min(PART) {
            let mut elements = [E::default(); T];
            for t in 0..T {
                // SAFETY: as above: this many lines are contiguous from here on.
                elements[t] = unsafe { *lines[t].add(line) };
            }
            for v in 0..V {
                let mut sum = sums[v][line];
                for t in 0..T {
                    let (factor, element) = (factors[v][t], elements[t]);
                    sum = if FUSED { factor.fused(element, sum) } else { factor.times(element).plus(sum) };
                }
                sums[v][line] = sum;
            }
        }
    }
}
