//! Products of matrices in which zeros win over what is not finite.
//!
//! The derivative of a choice is exactly zero on the side that was not taken, whatever stands behind it there. Products
//! behind such a derivative are the usual ones as long as both factors are finite. The result tells, which is looked at once and
//! costs little beside a product. If it is not finite because a factor is not, the product follows its definition, one element
//! after another.

use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::contraction::{Factor, every_index};
use super::interpreter::{Frame, elements, elements_mut};
use super::isa::Isa;
use super::thread_pool;
use super::tiles::{count, place};
use crate::program::{Contraction, ContractionAxis};

/// Axes without a request for memory.
type Axes = SmallVec<[ContractionAxis; 8]>;

/// Whether a product that was computed as usual is the product by its definition. A factor that is not finite, multiplied by
/// a zero or not, leaves an infinity or no number in every sum that it is part of: if all sums are finite, then so were all
/// factors that count. Otherwise the factors decide, since sums of finite numbers may overflow.
pub(super) unsafe fn is_usual<E: Factor>(product: &Contraction, frame: &Frame<'_>) -> bool {
    // Nothing is read of what has no elements.
    every_axis(product).any(|axis| axis.extent == 0)
        || all_finite::<E>(product, frame, 2)
        || [0, 1].into_iter().all(|factor| all_finite::<E>(product, frame, factor))
}

/// From this many elements on a scan is worth several threads.
const PARALLEL: usize = 1 << 17;

/// What threads share.
struct Scan<'a, E> {
    at: *const E,
    axes: Axes,
    step: isize,
    line: usize,
    isa: Isa,
    found: &'a AtomicBool,
}
// SAFETY: nobody writes to the operand while it is scanned.
unsafe impl<E> Sync for Scan<'_, E> {}

impl<E: Factor> Scan<'_, E> {
    /// Looks at one line.
    unsafe fn line(&self, number: usize, operand: usize) {
        if !self.found.load(Ordering::Relaxed) {
            let start = place(&self.axes, number)[operand];
            if !line_is_finite(self.isa, self.at.wrapping_offset(start), self.line, self.step) {
                self.found.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Whether all elements of an operand, which has some, are finite.
unsafe fn all_finite<E: Factor>(product: &Contraction, frame: &Frame<'_>, operand: usize) -> bool {
    let moves = |axis: &&ContractionAxis| axis.extent > 1 && axis.strides[operand] != 0;
    let mut axes: Axes = every_axis(product).filter(moves).copied().collect();
    // The nearest elements one after another.
    axes.sort_unstable_by_key(|axis| std::cmp::Reverse(axis.strides[operand].abs()));
    let mut line = axes.pop().unwrap_or(ContractionAxis { extent: 1, strides: [0; 3] });
    while let Some(outer) = axes.pop() {
        if outer.strides[operand] != line.strides[operand] * line.extent as isize {
            axes.push(outer);
            break;
        }
        line.extent *= outer.extent;
    }
    let total = count(&axes) * line.extent;
    if total >= PARALLEL && axes.is_empty() && line.extent.is_multiple_of(16) {
        // One long line in parts.
        line.extent /= 16;
        let strides = line.strides.map(|stride| stride * line.extent as isize);
        axes.push(ContractionAxis { extent: 16, strides });
    }
    let found = AtomicBool::new(false);
    let at = frame.at(&product.operands[operand], 0).cast::<E>().cast_const();
    let lines = count(&axes);
    let scan = Scan { at, axes, step: line.strides[operand], line: line.extent, isa: frame.isa, found: &found };
    if total >= PARALLEL {
        // Lines may be short: some at a time.
        let together = (PARALLEL / 8).div_ceil(line.extent);
        // A closure that asks for a field would take it alone.
        let scan = &scan;
        thread_pool::each(lines.div_ceil(together), |part| {
            (part * together..((part + 1) * together).min(lines)).for_each(|number| scan.line(number, operand));
        });
    } else {
        (0..lines).for_each(|number| scan.line(number, operand));
    }
    !found.load(Ordering::Relaxed)
}

/// Whether the elements of a line are finite, by the instructions of a level that this machine has.
unsafe fn line_is_finite<E: Factor>(isa: Isa, at: *const E, count: usize, step: isize) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
        unsafe fn wide<E: Factor>(at: *const E, count: usize, step: isize) -> bool {
            each_is_finite(at, count, step)
        }
        #[target_feature(enable = "avx2,fma")]
        unsafe fn medium<E: Factor>(at: *const E, count: usize, step: isize) -> bool {
            each_is_finite(at, count, step)
        }
        match isa {
            // SAFETY: the machine has the instructions of the level at which its programs run.
            Isa::Avx512 => return unsafe { wide(at, count, step) },
            // SAFETY: as above.
            Isa::Avx2 => return unsafe { medium(at, count, step) },
            Isa::Baseline => {}
        }
    }
    let _ = isa;
    each_is_finite(at, count, step)
}

#[inline(always)]
unsafe fn each_is_finite<E: Factor>(at: *const E, count: usize, step: isize) -> bool {
    let mut finite = true;
    if step == 1 {
        for element in elements::<E>(at.cast(), count) {
            finite &= element.is_finite();
        }
    } else {
        for k in 0..count as isize {
            finite &= read(at, k * step).is_finite();
        }
    }
    finite
}

/// The product by its definition.
pub(super) unsafe fn run<E: Factor>(product: &Contraction, frame: &Frame<'_>) {
    if let Some(count) = product.clear {
        let c = &product.operands[2];
        elements_mut::<E>(frame.at(c, -c.offset), count).fill(E::default());
    }
    let [a, b, c] = [0, 1, 2].map(|operand| frame.at(&product.operands[operand], 0).cast::<E>());
    let coefficient = E::from_f64(product.coefficient);
    let wins = |factor: usize, element: E| product.masked[factor] && element.is_zero();
    let outer: Axes = product.batch.iter().chain([&product.rows, &product.columns]).copied().collect();
    let inner: Axes = product.sums.iter().chain([&product.inner]).copied().collect();
    every_index(&outer, |start| {
        let mut sum = E::default();
        every_index(&inner, |step| {
            let (x, y) = (read(a.cast_const(), start[0] + step[0]), read(b.cast_const(), start[1] + step[1]));
            if !wins(0, x) && !wins(1, y) {
                sum = sum.plus(coefficient.times(x).times(y));
            }
        });
        let own = &mut elements_mut::<E>(c.wrapping_offset(start[2]).cast(), 1)[0];
        *own = if product.accumulates { own.plus(sum) } else { sum };
    });
}

fn every_axis(product: &Contraction) -> impl Iterator<Item = &ContractionAxis> {
    let Contraction { batch, sums, rows, columns, inner, .. } = product;
    batch.iter().chain(sums).chain([rows, columns, inner])
}

/// The element at an offset from an address.
#[inline(always)]
unsafe fn read<E: Factor>(at: *const E, place: isize) -> E {
    elements::<E>(at.wrapping_offset(place).cast(), 1)[0]
}
