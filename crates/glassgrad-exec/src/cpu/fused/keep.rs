//! Writing blocks of registers to where they belong, element by element or put together.
// Loops over lanes run by number, so that lanes stay in registers.
#![allow(clippy::needless_range_loop)]

use super::super::interpreter::{copy, elements, elements_mut};
use super::super::isa::Isa;
use super::{Axes, BLOCK, Pieces, behind, convert, whole_rows};
use crate::algebra::Float;
use crate::dtype::{DType, Element, bf16, f16};
use crate::program::{Reduction, Store};

/// Sets what is put together to where it begins, and what no element is written to to zero.
pub(super) unsafe fn prepare(store: &Store, target: *mut u8) {
    if let Some(count) = store.clear {
        let first = behind(target, -store.access.offset, store.access.dtype);
        fill(first, store.access.dtype, count, beginning(store.reduction, store.access.dtype));
    }
}

/// The identity of a reduction; the smallest truth value is false.
fn beginning(reduction: Option<Reduction>, dtype: DType) -> f64 {
    match (reduction, dtype) {
        (Some(Reduction::Max), DType::F32 | DType::F64 | DType::I64) => f64::NEG_INFINITY,
        (Some(Reduction::Max), DType::F16 | DType::BF16 | DType::I32 | DType::U8) => {
            unreachable!("reductions are stored in compute types, not in {dtype}")
        }
        (Some(Reduction::Max), DType::Bool) | (Some(Reduction::Sum) | None, _) => 0.0,
    }
}

/// Multiplies a sum by its factor.
pub(super) unsafe fn finish(store: &Store, target: *mut u8) {
    let Some(count) = store.clear.filter(|_| store.scale != 1.0) else { return };
    unsafe fn scale<F: Float>(at: *mut u8, count: usize, factor: f64) {
        let factor = F::literal(factor);
        elements_mut::<F>(at, count).iter_mut().for_each(|element| *element = *element * factor);
    }
    match store.access.dtype {
        DType::F32 => scale::<f32>(target, count, store.scale),
        DType::F64 => scale::<f64>(target, count, store.scale),
        DType::I64 | DType::Bool | DType::F16 | DType::BF16 | DType::I32 | DType::U8 => {
            unreachable!("sums of {} have no factor", store.access.dtype)
        }
    }
}

/// Writes one number everywhere.
pub(super) unsafe fn fill(at: *mut u8, dtype: DType, count: usize, number: f64) {
    match dtype {
        DType::F32 => elements_mut::<f32>(at, count).fill(number as f32),
        DType::F64 => elements_mut::<f64>(at, count).fill(number),
        DType::I64 => elements_mut::<i64>(at, count).fill(number as i64),
        DType::Bool => elements_mut::<bool>(at, count).fill(number != 0.0),
        DType::F16 => elements_mut::<f16>(at, count).fill(Element::from_f64(number)),
        DType::BF16 => elements_mut::<bf16>(at, count).fill(Element::from_f64(number)),
        DType::I32 => elements_mut::<i32>(at, count).fill(number as i32),
        DType::U8 => elements_mut::<u8>(at, count).fill(number as u8),
    }
}

/// Puts what one chunk of a loop found together with what chunks before it found.
pub(super) unsafe fn merge(store: &Store, target: *mut u8, found: *mut u8, count: usize) {
    unsafe fn typed<E: Combinable>(reduction: Option<Reduction>, target: *mut u8, found: *mut u8, count: usize) {
        let both = elements_mut::<E>(target, count).iter_mut().zip(elements::<E>(found, count));
        match reduction {
            Some(Reduction::Max) => both.for_each(|(own, other)| *own = own.larger(*other)),
            _ => both.for_each(|(own, other)| *own = own.plus(*other)),
        }
    }
    match store.access.dtype {
        DType::F32 => typed::<f32>(store.reduction, target, found, count),
        DType::F64 => typed::<f64>(store.reduction, target, found, count),
        DType::I64 => typed::<i64>(store.reduction, target, found, count),
        DType::Bool => typed::<bool>(store.reduction, target, found, count),
        DType::F16 | DType::BF16 | DType::I32 | DType::U8 => {
            unreachable!("reductions are stored in compute types, not in {}", store.access.dtype)
        }
    }
}

/// The destination of a block of a register.
#[derive(Clone, Copy)]
pub(super) struct Kept<'k> {
    pub(super) store: &'k Store,
    pub(super) in_order: bool,
    pub(super) axes: &'k Axes,
    pub(super) target: *mut u8,
    pub(super) start: usize,
    pub(super) count: usize,
}

/// Stores a block of a register, at the ISA level of the program.
pub(super) unsafe fn keep(isa: Isa, kept: Kept<'_>, from: *mut u8) {
    match kept.store.access.dtype {
        dtype @ (DType::F16 | DType::BF16 | DType::I32 | DType::U8) if kept.in_order => {
            return convert::narrow(isa, dtype, from, behind(kept.target, kept.start as isize, dtype), kept.count);
        }
        DType::F16 | DType::BF16 => return stored::<u16>(isa, kept, from),
        DType::I32 => return stored::<u32>(isa, kept, from),
        DType::U8 => return stored::<u8>(isa, kept, from),
        DType::F32 | DType::F64 | DType::I64 | DType::Bool => {}
    }
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        unsafe fn medium(kept: Kept<'_>, from: *mut u8) {
            by_type(kept, from);
        }
        match isa {
            // SAFETY: the machine has the instructions of the level at which its programs run.
            Isa::Avx512 | Isa::Avx2 => return unsafe { medium(kept, from) },
            Isa::Baseline => {}
        }
    }
    let _ = isa;
    by_type(kept, from);
}

#[inline(always)]
unsafe fn by_type(kept: Kept<'_>, from: *mut u8) {
    let Kept { store, in_order, axes, target, start, count } = kept;
    match store.access.dtype {
        DType::F32 => typed::<f32>(store, in_order, axes, target, start, elements(from, count)),
        DType::F64 => typed::<f64>(store, in_order, axes, target, start, elements(from, count)),
        DType::I64 => typed::<i64>(store, in_order, axes, target, start, elements(from, count)),
        DType::Bool => typed::<bool>(store, in_order, axes, target, start, elements(from, count)),
        DType::F16 | DType::BF16 | DType::I32 | DType::U8 => {
            unreachable!("{} is written by its bits", store.access.dtype)
        }
    }
}

/// Converts a block to a storage type, and writes the bits of its elements to where they belong.
unsafe fn stored<E: Copy + Default>(isa: Isa, kept: Kept<'_>, from: *mut u8) {
    let Kept { store, axes, target, start, count, .. } = kept;
    let mut bits = [E::default(); BLOCK];
    convert::narrow(isa, store.access.dtype, from, bits.as_mut_ptr().cast(), count);
    let stride = axes.strides.last().copied().unwrap_or(0);
    for (begin, length, place) in Pieces::new(&axes.extents, &axes.strides, start, count) {
        let piece = &bits[begin..begin + length];
        match stride {
            1 => copy(piece, behind(target, place, store.access.dtype)),
            _ => {
                for (k, element) in piece.iter().enumerate() {
                    let at = behind(target, place + k as isize * stride, store.access.dtype);
                    elements_mut::<E>(at, 1)[0] = *element;
                }
            }
        }
    }
}

/// What a sum or a largest element needs of an element type.
pub(crate) trait Combinable: Copy {
    /// What a sum begins with.
    const ZERO: Self;
    fn sum_of(elements: &[Self]) -> Self;
    fn plus(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
    /// The largest of some elements and of one more.
    #[inline(always)]
    fn largest_of(self, elements: &[Self]) -> Self {
        elements.iter().fold(self, |largest, element| largest.larger(*element))
    }
}

/// The lanes of vectors that are compared side by side: as many in every type and at every level, so that results are the same.
const LANES: usize = 16;

/// Combines two vectors lane by lane.
#[inline(always)]
fn both<E: Copy>(mut a: [E; LANES], b: [E; LANES], of: impl Fn(E, E) -> E) -> [E; LANES] {
    for k in 0..LANES {
        a[k] = of(a[k], b[k]);
    }
    a
}

/// Combines vectors as a tree.
#[inline(always)]
fn vectors_together<E: Copy, const VECTORS: usize>(
    mut vectors: [[E; LANES]; VECTORS],
    of: impl Fn(E, E) -> E + Copy,
) -> [E; LANES] {
    let mut width = VECTORS / 2;
    while width > 0 {
        for n in 0..width {
            vectors[n] = both(vectors[n], vectors[n + width], of);
        }
        width /= 2;
    }
    vectors[0]
}

/// Combines lanes as a tree: the first half with the second, and so on.
#[inline(always)]
fn tree<E: Copy, const N: usize>(mut lanes: [E; N], of: impl Fn(E, E) -> E) -> E {
    let mut width = N / 2;
    while width > 0 {
        for k in 0..width {
            lanes[k] = of(lanes[k], lanes[k + width]);
        }
        width /= 2;
    }
    lanes[0]
}

macro_rules! combinable_floats {
    ($($Float:ty),*) => {$(
        impl Combinable for $Float {
            const ZERO: Self = 0.0;
            /// Sixty-four sums side by side, or sixteen of fewer elements, added up as a tree: the same on every machine. One vector of
            /// sums would wait for itself.
            #[inline(always)]
            fn sum_of(elements: &[Self]) -> Self {
                #[inline(always)]
                fn side_by_side<const N: usize>(elements: &[$Float]) -> $Float {
                    let (chunks, rest) = elements.as_chunks::<N>();
                    // An array of its own, of which every element has a constant place: it stays in registers.
                    let mut sums = [0.0; N];
                    for chunk in chunks {
                        for k in 0..N {
                            sums[k] += chunk[k];
                        }
                    }
                    let mut lanes = sums;
                    lanes.iter_mut().zip(rest).for_each(|(lane, element)| *lane += element);
                    tree(lanes, |a: $Float, b| a + b)
                }
                match elements.len() {
                    0..16 => elements.iter().fold(0.0, |sum, element| sum + element),
                    16..256 => side_by_side::<16>(elements),
                    _ => side_by_side::<64>(elements),
                }
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                if other > self || other.is_nan() { other } else { self }
            }
            /// Many side by side, as in a sum. A comparison that ignores what is not a number is one instruction; whether there was
            /// something of the kind shows in a sum of zeros, which infinities spoil too. Then all elements are compared again.
            #[inline(always)]
            fn largest_of(self, elements: &[Self]) -> Self {
                const VECTORS: usize = 4;
                let (chunks, rest) = elements.as_chunks::<LANES>();
                let (groups, more) = chunks.as_chunks::<VECTORS>();
                if chunks.is_empty() || self.is_nan() {
                    return rest.iter().fold(self, |largest, element| largest.larger(*element));
                }
                let greater = |a: $Float, b: $Float| if b > a { b } else { a };
                let (mut largest, mut zeros) = ([[self; LANES]; VECTORS], [[0.0; LANES]; VECTORS]);
                for group in groups {
                    for n in 0..VECTORS {
                        largest[n] = both(largest[n], group[n], greater);
                        zeros[n] = both(zeros[n], group[n], |zero: $Float, element| zero + element * 0.0);
                    }
                }
                let mut largest = vectors_together(largest, greater);
                let mut zeros = vectors_together(zeros, |a: $Float, b| a + b);
                for chunk in more {
                    largest = both(largest, *chunk, greater);
                    zeros = both(zeros, *chunk, |zero: $Float, element| zero + element * 0.0);
                }
                let is_finite = tree(zeros, |a: $Float, b| a + b) == 0.0;
                let largest = tree(largest, Combinable::larger);
                let from = if is_finite { rest } else { elements };
                from.iter().fold(largest, |largest, element| largest.larger(*element))
            }
        }
    )*};
}
combinable_floats!(f32, f64);

impl Combinable for i64 {
    const ZERO: Self = 0;
    fn sum_of(elements: &[Self]) -> Self {
        elements.iter().fold(0, |sum, element| sum.wrapping_add(*element))
    }
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Combinable for bool {
    const ZERO: Self = false;
    fn sum_of(elements: &[Self]) -> Self {
        elements.contains(&true)
    }
    fn plus(self, other: Self) -> Self {
        self || other
    }
    fn larger(self, other: Self) -> Self {
        self || other
    }
}

/// Up to this many sums side by side stay in registers.
const SIDE_BY_SIDE: usize = 32;

#[inline(always)]
unsafe fn typed<E: Combinable>(store: &Store, in_order: bool, axes: &Axes, target: *mut u8, start: usize, from: &[E]) {
    let access = &store.access;
    let count = from.len();
    let at = |place: isize| behind(target, place, access.dtype);
    if in_order {
        return copy(from, at(start as isize));
    }
    match (store.reduction, whole_rows(&axes.extents, &axes.strides, start, count)) {
        // One sum, or largest element, for each row.
        (Some(reduction), Some((first, [step, 0], inner))) if step != 0 => {
            for (row, elements) in from.chunks_exact(inner).enumerate() {
                let own = &mut elements_mut::<E>(at(first + row as isize * step), 1)[0];
                *own = match reduction {
                    Reduction::Sum => own.plus(E::sum_of(elements)),
                    Reduction::Max => own.largest_of(elements),
                };
            }
        }
        // One sum for each of a few columns.
        (Some(Reduction::Sum), Some((first, [0, 1], inner))) if inner <= SIDE_BY_SIDE => {
            let mut sums = [E::ZERO; SIDE_BY_SIDE];
            for row in from.chunks_exact(inner) {
                sums.iter_mut().zip(row).for_each(|(sum, element)| *sum = sum.plus(*element));
            }
            let own = elements_mut::<E>(at(first), inner);
            own.iter_mut().zip(sums).for_each(|(own, sum)| *own = own.plus(sum));
        }
        // One sum for all.
        (Some(Reduction::Sum), Some((first, [0, 0], _))) => {
            let own = &mut elements_mut::<E>(at(first), 1)[0];
            *own = own.plus(E::sum_of(from));
        }
        _ => by_pieces(store, axes, target, start, from),
    }
}

#[inline(always)]
unsafe fn by_pieces<E: Combinable>(store: &Store, axes: &Axes, target: *mut u8, start: usize, from: &[E]) {
    let access = &store.access;
    let at = |place: isize| behind(target, place, access.dtype);
    let one = |place: isize| &mut elements_mut::<E>(at(place), 1)[0];
    let Axes { extents, strides } = axes;
    let stride = strides.last().copied().unwrap_or(0);
    for (begin, length, place) in Pieces::new(extents, strides, start, from.len()) {
        let piece = &from[begin..begin + length];
        match (store.reduction, stride) {
            (None, 1) => copy(piece, at(place)),
            (None, stride) => {
                for (k, element) in piece.iter().enumerate() {
                    *one(place + k as isize * stride) = *element;
                }
            }
            (Some(Reduction::Sum), 0) => {
                let sum = one(place);
                *sum = sum.plus(E::sum_of(piece));
            }
            (Some(Reduction::Sum), 1) => {
                let sums = elements_mut::<E>(at(place), length);
                sums.iter_mut().zip(piece).for_each(|(sum, element)| *sum = sum.plus(*element));
            }
            (Some(Reduction::Max), 1) => {
                let largest = elements_mut::<E>(at(place), length);
                largest.iter_mut().zip(piece).for_each(|(largest, element)| *largest = largest.larger(*element));
            }
            (Some(Reduction::Max), 0) => {
                let largest = one(place);
                *largest = largest.largest_of(piece);
            }
            (Some(reduction), stride) => {
                for (k, element) in piece.iter().enumerate() {
                    let combined = one(place + k as isize * stride);
                    *combined = match reduction {
                        Reduction::Sum => combined.plus(*element),
                        Reduction::Max => combined.larger(*element),
                    };
                }
            }
        }
    }
}
