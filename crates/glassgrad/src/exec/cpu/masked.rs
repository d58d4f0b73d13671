//! Products of matrices in which zeros win over what is not finite.
//!
//! The derivative of a choice is exactly zero on the side that was not taken, whatever stands behind it there. Products
//! behind such a derivative are the usual ones as long as both factors are finite, which is found out by looking at them once
//! and costs little beside a product. If they are not, the product follows its definition, one element after another.

use smallvec::SmallVec;

use super::contraction::{Factor, every_index};
use super::interpreter::{Frame, elements, elements_mut};
use crate::opt::program::{Contraction, ContractionAxis};

/// Axes without a request for memory.
type Axes = SmallVec<[ContractionAxis; 8]>;

/// Whether all elements of both factors are finite.
pub(super) unsafe fn is_finite<E: Factor>(product: &Contraction, frame: &Frame<'_>) -> bool {
    // Nothing is read of what has no elements.
    every_axis(product).any(|axis| axis.extent == 0)
        || [0, 1].into_iter().all(|factor| all_finite::<E>(product, frame, factor))
}

/// Whether all elements of a factor, which has some, are finite.
unsafe fn all_finite<E: Factor>(product: &Contraction, frame: &Frame<'_>, factor: usize) -> bool {
    let moves = |axis: &&ContractionAxis| axis.extent > 1 && axis.strides[factor] != 0;
    let mut axes: Axes = every_axis(product).filter(moves).copied().collect();
    // The nearest elements one after another.
    axes.sort_unstable_by_key(|axis| std::cmp::Reverse(axis.strides[factor].abs()));
    let line = axes.pop().unwrap_or(ContractionAxis { extent: 1, strides: [0; 3] });
    let mut finite = true;
    every_index(&axes, |start| {
        let at = frame.at(&product.operands[factor], start[factor]).cast::<E>();
        finite &= match line.strides[factor] {
            1 => elements::<E>(at.cast(), line.extent).iter().fold(true, |all, x| all & x.is_finite()),
            step => (0..line.extent as isize).fold(true, |all, k| all & read(at, k * step).is_finite()),
        };
    });
    finite
}

/// The product by its definition.
pub(super) unsafe fn run<E: Factor>(product: &Contraction, frame: &Frame<'_>) {
    let [a, b, c] = [0, 1, 2].map(|operand| frame.at(&product.operands[operand], 0).cast::<E>());
    let coefficient = E::from_f64(product.coefficient);
    let wins = |factor: usize, element: E| product.masked[factor] && element.is_zero();
    let outer: Axes = product.batch.iter().chain([&product.rows, &product.columns]).copied().collect();
    let inner: Axes = product.sums.iter().chain([&product.inner]).copied().collect();
    every_index(&outer, |start| {
        let mut sum = E::default();
        every_index(&inner, |step| {
            let (x, y) = (read(a, start[0] + step[0]), read(b, start[1] + step[1]));
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

/// The element so many places behind an address.
unsafe fn read<E: Factor>(at: *mut E, place: isize) -> E {
    elements::<E>(at.wrapping_offset(place).cast(), 1)[0]
}
