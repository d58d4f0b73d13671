//! Cumulative sums, products, maxima and minima along an axis, one element after another.
//!
//! A chain of additions waits for each of them, so that several lines run side by side, or several segments of one long line. Sums and
//! products of numbers of 32 bits are accumulated in 64 bits and rounded once for each element. Where lines are cut depends on the shape
//! alone.
#![allow(unsafe_code)]
// Loops over chains run by number: they must vanish even where adaptors of the standard library are not opened.
#![allow(clippy::needless_range_loop)]

use super::fused::Combinable;
use super::interpreter::{Frame, elements, elements_mut};
use super::thread_pool;
use crate::dtype::DType;
use crate::program::{Call, Signature};
use crate::program::{Cumulation, CumulativeKernel};
use crate::shape::Shape;

/// Lines, or segments of a line, that run side by side.
const CHAINS: usize = 8;
/// From this many elements on a line that has no neighbour is cut into segments.
const LONG: usize = 4096;
/// Columns that run side by side.
const COLUMNS: usize = 64;
/// A thread takes about as many elements as this at a time, or more.
const PART: usize = 1 << 15;
/// Shorter axes are left to loops, which are fused with what is around them.
const SHORTEST: usize = 32;

/// Whether there is a kernel for an operand: of 64 bits sums and products are those of the definition, which rounds less often.
pub(super) fn is_supported(kernel: &CumulativeKernel, inputs: &[Signature]) -> bool {
    let (shape, dtype) = &inputs[0];
    let is_long = shape[kernel.axis] >= SHORTEST;
    is_long
        && match (kernel.of, dtype) {
            (_, DType::F32 | DType::I64) => true,
            (Cumulation::Max | Cumulation::Min, DType::F64) => true,
            (Cumulation::Sum | Cumulation::Product, DType::F64) => false,
            (_, DType::Bool | DType::F16 | DType::BF16 | DType::I32 | DType::U8) => false,
        }
}

/// Whether there is a kernel for the pullback.
pub(super) fn is_pullback_supported(kernel: &CumulativeKernel, inputs: &[Signature]) -> bool {
    matches!(kernel.of, Cumulation::Sum | Cumulation::Product)
        && inputs[0].1 == DType::F32
        && is_supported(kernel, inputs)
}

/// The axis as the middle one of three: how many blocks stand in front, its size, and the columns behind.
fn around(shape: &Shape, axis: usize) -> [usize; 3] {
    [shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product()]
}

/// The largest of two numbers, or what is none.
fn larger<E: Combinable>(a: E, b: E) -> E {
    a.larger(b)
}

/// The smallest of two numbers, or what is none.
fn smaller<E: Combinable + std::ops::Neg<Output = E>>(a: E, b: E) -> E {
    -larger(-a, -b)
}

/// Runs the kernel.
pub(super) unsafe fn run(kernel: &CumulativeKernel, call: &Call, frame: &Frame<'_>) {
    let (access, shape) = call.output();
    let (from, to, count) = (frame.at(&call.inputs[0].0, 0), frame.at(access, 0), shape.elements());
    let lines = Lines { sizes: around(shape, kernel.axis), reversed: kernel.reversed };
    if count == 0 {
        return;
    }
    match access.dtype {
        DType::F32 => {
            let (from, to) = (elements::<f32>(from, count), elements_mut::<f32>(to, count));
            match kernel.of {
                Cumulation::Sum => {
                    lines.scan(from, to, -0.0, (|sum: f64, x| sum + f64::from(x), |a, b| a + b), |sum| sum as f32)
                }
                Cumulation::Product => {
                    lines.scan(from, to, 1.0, (|y: f64, x| y * f64::from(x), |a, b| a * b), |y| y as f32)
                }
                Cumulation::Max => lines.scan(from, to, f32::NEG_INFINITY, (larger, larger), |y| y),
                Cumulation::Min => lines.scan(from, to, f32::INFINITY, (smaller, smaller), |y| y),
            }
        }
        DType::F64 => {
            let (from, to) = (elements::<f64>(from, count), elements_mut::<f64>(to, count));
            match kernel.of {
                Cumulation::Max => lines.scan(from, to, f64::NEG_INFINITY, (larger, larger), |y| y),
                Cumulation::Min => lines.scan(from, to, f64::INFINITY, (smaller, smaller), |y| y),
                Cumulation::Sum | Cumulation::Product => unreachable!("a kernel that is not supported"),
            }
        }
        DType::I64 => {
            let (from, to) = (elements::<i64>(from, count), elements_mut::<i64>(to, count));
            match kernel.of {
                Cumulation::Sum => lines.scan(from, to, 0, (i64::wrapping_add, i64::wrapping_add), |y| y),
                Cumulation::Product => lines.scan(from, to, 1, (i64::wrapping_mul, i64::wrapping_mul), |y| y),
                Cumulation::Max => lines.scan(from, to, i64::MIN, (Ord::max, Ord::max), |y| y),
                Cumulation::Min => lines.scan(from, to, i64::MAX, (Ord::min, Ord::min), |y| y),
            }
        }
        dtype @ (DType::Bool | DType::F16 | DType::BF16 | DType::I32 | DType::U8) => {
            unreachable!("cumulative operations of {dtype} are opened")
        }
    }
}

/// Runs the pullback: from the operand x, the cotangent g and the result y to the cotangent of the operand. That of a sum is the sum
/// from the other end. That of a product is, with S = g + x⁺S⁺ from the last element on, where ⁺ is the next one, S times the product
/// in front: right also where elements are zero.
pub(super) unsafe fn pull_back(kernel: &CumulativeKernel, call: &Call, frame: &Frame<'_>) {
    let (access, shape) = call.output();
    let count = shape.elements();
    if count == 0 {
        return;
    }
    let operand = |number: usize| elements::<f32>(frame.at(&call.inputs[number].0, 0), count);
    let to = elements_mut::<f32>(frame.at(access, 0), count);
    let lines = Lines { sizes: around(shape, kernel.axis), reversed: !kernel.reversed };
    match kernel.of {
        Cumulation::Sum => {
            lines.scan(operand(1), to, -0.0, (|sum: f64, x| sum + f64::from(x), |a, b| a + b), |sum| sum as f32);
        }
        Cumulation::Product => lines.product_pullback([operand(0), operand(1), operand(2)], to),
        Cumulation::Max | Cumulation::Min => unreachable!("a kernel that is not supported"),
    }
}

/// Lines along the middle one of three axes, from the first element or from the last.
#[derive(Clone, Copy)]
struct Lines {
    sizes: [usize; 3],
    reversed: bool,
}

/// The address of a result, which threads share.
struct Shared<E>(*mut E);
// SAFETY: each thread writes to lines, segments or columns of its own.
unsafe impl<E: Send> Sync for Shared<E> {}
impl<E> Shared<E> {
    /// The address some elements further.
    fn at(&self, place: usize) -> *mut E {
        self.0.wrapping_add(place)
    }
}

impl Lines {
    /// The place of element k of a line, from where the line begins.
    fn place(&self, k: usize) -> usize {
        if self.reversed { self.sizes[1] - 1 - k } else { k }
    }

    /// Accumulates along every line.
    fn scan<E: Copy + Send + Sync, A: Copy + Send + Sync>(
        &self,
        from: &[E],
        to: &mut [E],
        first: A,
        (both, merge): (impl Fn(A, E) -> A + Copy + Sync, impl Fn(A, A) -> A + Copy),
        narrow: impl Fn(A) -> E + Copy + Sync,
    ) {
        let [outer, size, inner] = self.sizes;
        let to = Shared(to.as_mut_ptr());
        if inner > 1 {
            let parts = inner.div_ceil(COLUMNS);
            let together = (PART / (size * COLUMNS.min(inner))).max(1);
            return thread_pool::each((outer * parts).div_ceil(together), |number| {
                for own in number * together..((number + 1) * together).min(outer * parts) {
                    let column = own % parts * COLUMNS;
                    let begin = own / parts * size * inner + column;
                    let count = COLUMNS.min(inner - column);
                    let mut sums = [first; COLUMNS];
                    for k in 0..size {
                        let place = begin + self.place(k) * inner;
                        let x = &from[place..place + count];
                        // SAFETY: these columns of the block are inside of the result, and no other thread has them.
                        let y = unsafe { std::slice::from_raw_parts_mut(to.at(place), count) };
                        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
                            *sum = both(*sum, *x);
                            *y = narrow(*sum);
                        }
                    }
                }
            });
        }
        if outer < CHAINS && size >= LONG {
            return (0..outer).for_each(|line| self.long_line(line * size, from, &to, first, (both, merge), narrow));
        }
        let groups = outer.div_ceil(CHAINS);
        let together = (PART / (size * CHAINS)).max(1);
        thread_pool::each(groups.div_ceil(together), |number| {
            for group in number * together..((number + 1) * together).min(groups) {
                let lines = group * CHAINS..((group + 1) * CHAINS).min(outer);
                if lines.len() == CHAINS {
                    let mut begins = [0; CHAINS];
                    begins.iter_mut().zip(lines).for_each(|(begin, line)| *begin = line * size);
                    self.chains(begins, 0..size, from, &to, [first; CHAINS], both, narrow);
                } else {
                    lines.for_each(|line| {
                        self.chains([line * size], 0..size, from, &to, [first], both, narrow);
                    });
                }
            }
        });
    }

    /// Some lines, or the same part of them, side by side; returns where they end.
    #[allow(clippy::too_many_arguments)]
    fn chains<E: Copy, A: Copy, const N: usize>(
        &self,
        begins: [usize; N],
        range: std::ops::Range<usize>,
        from: &[E],
        to: &Shared<E>,
        mut sums: [A; N],
        both: impl Fn(A, E) -> A,
        narrow: impl Fn(A) -> E,
    ) {
        let last = begins.iter().copied().max().unwrap_or(0);
        assert!(last + range.end <= from.len() && range.end <= self.sizes[1], "lines are inside of the operand");
        for k in range {
            let place = self.place(k);
            for n in 0..N {
                // SAFETY: all lines are inside of the operand, as was asserted, and of the result, which has its size; no other thread
                // has them.
                unsafe {
                    sums[n] = both(sums[n], *from.get_unchecked(begins[n] + place));
                    *to.at(begins[n] + place) = narrow(sums[n]);
                }
            }
        }
    }

    /// A long line in segments: what each of them comes to, what stands in front of each, and all of them side by side.
    fn long_line<E: Copy + Send + Sync, A: Copy + Send + Sync>(
        &self,
        begin: usize,
        from: &[E],
        to: &Shared<E>,
        first: A,
        (both, merge): (impl Fn(A, E) -> A + Copy + Sync, impl Fn(A, A) -> A + Copy),
        narrow: impl Fn(A) -> E + Copy + Sync,
    ) {
        let size = self.sizes[1];
        let length = size.div_ceil(CHAINS);
        let bounds = |segment: usize| [(segment * length).min(size), ((segment + 1) * length).min(size)];
        // What each segment comes to, all of them side by side as far as the shortest goes, and then what stands in front of each.
        let mut sums = [first; CHAINS];
        let [last, end] = bounds(CHAINS - 1);
        for k in 0..end - last {
            for segment in 0..CHAINS {
                sums[segment] = both(sums[segment], from[begin + self.place(segment * length + k)]);
            }
        }
        let mut carry = first;
        for segment in 0..CHAINS {
            let [start, end_of_segment] = bounds(segment);
            let rest = start + (end - last)..end_of_segment;
            let whole = rest.fold(sums[segment], |sum, k| both(sum, from[begin + self.place(k)]));
            (sums[segment], carry) = (carry, merge(carry, whole));
        }
        let sums = &sums;
        thread_pool::each(CHAINS, |segment| {
            let [start, end] = bounds(segment);
            self.chains([begin], start..end, from, to, [sums[segment]], both, narrow);
        });
    }

    /// The cotangent of the operand of products along every line; these lines run from their ends.
    fn product_pullback(&self, [x, g, y]: [&[f32]; 3], to: &mut [f32]) {
        let [outer, size, inner] = self.sizes;
        let to = Shared(to.as_mut_ptr());
        let count = outer * inner;
        let groups = count.div_ceil(CHAINS);
        let together = (PART / (size * CHAINS)).max(1);
        thread_pool::each(groups.div_ceil(together), |number| {
            for group in number * together..((number + 1) * together).min(groups) {
                let lines = group * CHAINS..((group + 1) * CHAINS).min(count);
                let begin = |line: usize| line / inner * size * inner + line % inner;
                // Fewer lines than fit are computed several times over: each writes the same numbers.
                let begins: [usize; CHAINS] = std::array::from_fn(|n| begin((lines.start + n).min(lines.end - 1)));
                let mut sums = [0.0_f64; CHAINS];
                for k in 0..size {
                    let place = self.place(k) * inner;
                    for n in 0..CHAINS {
                        let here = begins[n] + place;
                        let next = if k == 0 { 0.0 } else { f64::from(x[begins[n] + self.place(k - 1) * inner]) };
                        let carried = if k == 0 { 0.0 } else { next * sums[n] };
                        sums[n] = f64::from(g[here]) + carried;
                        let in_front =
                            if k + 1 == size { 1.0 } else { f64::from(y[begins[n] + self.place(k + 1) * inner]) };
                        // SAFETY: the line is inside of the result, and no other thread has it.
                        unsafe { *to.at(here) = (in_front * sums[n]) as f32 };
                    }
                }
            }
        });
    }
}
