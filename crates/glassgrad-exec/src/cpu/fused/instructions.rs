//! One instruction of a fused loop over a block of elements.
#![allow(unsafe_code)]

use super::super::interpreter::{elements, elements_mut};
use super::super::isa::Isa;
use super::super::vector::Vectorised;
use super::{BLOCK, Combinable};
use crate::algebra::Float;
use crate::dtype::DType;
use crate::ops::{Operation, Relation};
use crate::program::Logic;
use crate::program::{Instruction, Loop, Reduction, RowLayout};

/// Runs one instruction over a block of this many elements, or rows, by the instructions of a level that this machine has.
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn execute(
    isa: Isa,
    instruction: Instruction,
    dtype: DType,
    fused: &Loop,
    places: &[*mut u8],
    own: *mut u8,
    count: usize,
    rows: RowLayout,
) {
    let block = Block { isa, fused, places, own, count, rows };
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
        unsafe fn wide(block: &Block<'_>, instruction: Instruction, dtype: DType) {
            block.execute(instruction, dtype);
        }
        #[target_feature(enable = "avx2,fma")]
        unsafe fn medium(block: &Block<'_>, instruction: Instruction, dtype: DType) {
            block.execute(instruction, dtype);
        }
        match isa {
            // SAFETY: the machine has the instructions of the level at which its programs run.
            Isa::Avx512 => return unsafe { wide(&block, instruction, dtype) },
            // SAFETY: as above.
            Isa::Avx2 => return unsafe { medium(&block, instruction, dtype) },
            Isa::Baseline => {}
        }
    }
    block.execute(instruction, dtype);
}

/// A block of a loop on which instructions run: all loops over it are compiled for each level.
struct Block<'b> {
    isa: Isa,
    fused: &'b Loop,
    places: &'b [*mut u8],
    /// Where the register of the instruction is.
    own: *mut u8,
    /// The elements or rows of that register.
    count: usize,
    rows: RowLayout,
}

impl Block<'_> {
    #[inline(always)]
    unsafe fn execute(&self, instruction: Instruction, dtype: DType) {
        let Block { isa, fused, places, own, count, rows } = *self;
        let type_of = |register: usize| fused.dtype(register);
        match dtype {
            DType::F32 => numbers::<f32>(isa, instruction, type_of, places, own, (count, rows)),
            DType::F64 => numbers::<f64>(isa, instruction, type_of, places, own, (count, rows)),
            DType::I64 => integers(instruction, type_of, places, own, (count, rows)),
            DType::Bool => truths(instruction, type_of, places, own, (count, rows)),
            DType::F16 | DType::BF16 | DType::I32 | DType::U8 => unreachable!("no register is of {dtype}"),
        }
    }
}

#[inline(always)]
unsafe fn numbers<F: crate::dtype::Element + Vectorised + Combinable>(
    isa: Isa,
    instruction: Instruction,
    type_of: impl Fn(usize) -> DType,
    places: &[*mut u8],
    own: *mut u8,
    (count, rows): (usize, RowLayout),
) {
    let read = |register: usize| elements::<F>(places[register], count);
    let own_elements = elements_mut::<F>(own, count);
    match instruction {
        Instruction::Constant(_) => unreachable!("constants are written before the first block"),
        Instruction::Compare(..) | Instruction::Logic(..) => unreachable!("{instruction} makes truth values"),
        Instruction::Narrow(..) => unreachable!("conversions run outside of the kernels of instructions"),
        Instruction::Unary(operation, a, parameter) => {
            F::unary(isa, operation, parameter, read(a), own_elements);
        }
        Instruction::Binary(operation, a, b) => {
            F::binary(isa, operation, read(a), read(b), own_elements);
        }
        Instruction::MaskedMul(a, b) => {
            let zero = F::literal(0.0);
            for (y, (a, b)) in own_elements.iter_mut().zip(read(a).iter().zip(read(b))) {
                *y = if *a == zero { zero } else { *a * *b };
            }
        }
        Instruction::Select(condition, a, b) => choose::<F>(places, condition, a, b, own, count),
        Instruction::Cast(a) => cast(places[a], type_of(a), own_elements),
        Instruction::RowReduce(reduction, a, scale) => {
            let from = elements(places[a], count / rows.side_by_side * rows.elements());
            put_together(reduction, scale, from, own_elements, rows)
        }
        Instruction::BroadcastRow(a) => spread::<F>(places[a], own, count, rows),
    }
}

/// Calls a function with the length of rows as a constant, if it is one of those that windows and small classes have.
macro_rules! with_length {
    ($row:expr, $called:ident :: <$($Type:ty),*> ($($argument:expr),*), otherwise $otherwise:expr) => {
        match $row {
            2 => $called::<$($Type,)* 2>($($argument),*),
            3 => $called::<$($Type,)* 3>($($argument),*),
            4 => $called::<$($Type,)* 4>($($argument),*),
            8 => $called::<$($Type,)* 8>($($argument),*),
            9 => $called::<$($Type,)* 9>($($argument),*),
            16 => $called::<$($Type,)* 16>($($argument),*),
            _ => $otherwise,
        }
    };
}

/// Puts the elements of each row together.
#[inline(always)]
fn put_together<F: Float + Combinable>(reduction: Reduction, scale: f64, from: &[F], to: &mut [F], rows: RowLayout) {
    let row = rows.inner;
    match reduction {
        Reduction::Sum if rows.outer > 1 => among_each_other(from, to, rows, F::ZERO, F::plus),
        Reduction::Sum => with_length!(row, short_sums::<F>(from, to), otherwise {
            for (from, to) in from.chunks_exact(row).zip(&mut *to) {
                *to = F::ZERO.plus(F::sum_of(from));
            }
        }),
        Reduction::Max if rows.outer > 1 => {
            among_each_other(from, to, rows, F::literal(f64::NEG_INFINITY), F::larger);
        }
        Reduction::Max => with_length!(row, short_largest::<F>(from, to), otherwise {
            for (from, to) in from.chunks_exact(row).zip(&mut *to) {
                *to = F::literal(f64::NEG_INFINITY).largest_of(from);
            }
        }),
    }
    if scale != 1.0 && reduction == Reduction::Sum {
        let scale = F::literal(scale);
        to.iter_mut().for_each(|to| *to = *to * scale);
    }
}

/// Puts rows together that lie among each other: first every part of every row, then the parts of each row.
#[inline(always)]
fn among_each_other<F: Copy>(from: &[F], to: &mut [F], rows: RowLayout, first: F, both: impl Fn(F, F) -> F + Copy) {
    let RowLayout { outer, side_by_side, inner } = rows;
    if inner == 1 {
        return parts_together(from, to, outer, side_by_side, first, both);
    }
    // Rows that lie among each other have two elements or more, and fit into a block.
    let mut parts = [first; BLOCK / 2];
    let (parts, _) = parts.split_at_mut(from.len() / inner);
    with_length!(inner, parts_of::<F, _>(from, parts, both), otherwise {
        for (from, part) in from.chunks_exact(inner).zip(&mut *parts) {
            *part = from[1..].iter().fold(from[0], |own, other| both(own, *other));
        }
    });
    parts_together(parts, to, outer, side_by_side, first, both);
}

/// Puts the parts of rows together of which this many are contiguous.
#[inline(always)]
fn parts_together<F: Copy>(
    parts: &[F],
    to: &mut [F],
    outer: usize,
    side_by_side: usize,
    first: F,
    both: impl Fn(F, F) -> F + Copy,
) {
    for (parts, to) in parts.chunks_exact(outer * side_by_side).zip(to.chunks_exact_mut(side_by_side)) {
        to.iter_mut().zip(parts).for_each(|(to, part)| *to = both(first, *part));
        for parts in parts.chunks_exact(side_by_side).skip(1) {
            to.iter_mut().zip(parts).for_each(|(to, part)| *to = both(*to, *part));
        }
    }
}

/// Parts of one length, each put together.
#[inline(always)]
fn parts_of<F: Copy, B: Fn(F, F) -> F, const N: usize>(from: &[F], to: &mut [F], both: B) {
    for (from, to) in from.as_chunks::<N>().0.iter().zip(to) {
        let mut own = from[0];
        for other in &from[1..] {
            own = both(own, *other);
        }
        *to = own;
    }
}

/// The sums of rows of one length, in the order of [`Combinable::sum_of`].
#[inline(always)]
fn short_sums<F: Float + Combinable, const N: usize>(from: &[F], to: &mut [F]) {
    for (from, to) in from.as_chunks::<N>().0.iter().zip(to) {
        *to = F::ZERO.plus(F::sum_of(from));
    }
}

/// The largest elements of rows of one length.
#[inline(always)]
fn short_largest<F: Float + Combinable, const N: usize>(from: &[F], to: &mut [F]) {
    for (from, to) in from.as_chunks::<N>().0.iter().zip(to) {
        let mut largest = F::literal(f64::NEG_INFINITY);
        for own in from {
            largest = largest.larger(*own);
        }
        *to = largest;
    }
}

/// What a register holds for each row, for each element of the row.
#[inline(always)]
unsafe fn spread<E: Copy>(from: *mut u8, to: *mut u8, count: usize, rows: RowLayout) {
    let among = rows.elements();
    let (from, to) = (elements::<E>(from, count / among * rows.side_by_side), elements_mut::<E>(to, count));
    if rows.outer == 1 {
        return each_spread(from, to, rows.inner);
    }
    let spread_parts = |parts: &mut [E]| {
        let each = from.chunks_exact(rows.side_by_side).zip(parts.chunks_exact_mut(rows.outer * rows.side_by_side));
        for (from, parts) in each {
            parts.chunks_exact_mut(rows.side_by_side).for_each(|part| part.copy_from_slice(from));
        }
    };
    if rows.inner == 1 {
        return spread_parts(to);
    }
    // First for every part of a row, then for its elements: both are long loops.
    let Some(some) = from.first() else { return };
    let mut parts = [*some; BLOCK / 2];
    let (parts, _) = parts.split_at_mut(count / rows.inner);
    spread_parts(parts);
    each_spread(parts, to, rows.inner);
}

/// Each element as often as a number says.
#[inline(always)]
fn each_spread<E: Copy>(from: &[E], to: &mut [E], times: usize) {
    with_length!(times, short_spread::<E>(from, to), otherwise {
        for (from, to) in from.iter().zip(to.chunks_exact_mut(times)) {
            to.fill(*from);
        }
    });
}

/// [`each_spread`] for one number of times.
#[inline(always)]
fn short_spread<E: Copy, const N: usize>(from: &[E], to: &mut [E]) {
    for (from, to) in from.iter().zip(to.as_chunks_mut::<N>().0) {
        *to = [*from; N];
    }
}

/// Chooses between elements of a type by their bits, in which nothing hangs on guessing which one it is.
#[inline(always)]
unsafe fn choose<E>(places: &[*mut u8], condition: usize, a: usize, b: usize, own: *mut u8, count: usize) {
    macro_rules! by_bits {
        ($Bits:ty) => {{
            let condition = elements::<u8>(places[condition], count);
            let (a, b) = (elements::<$Bits>(places[a], count), elements::<$Bits>(places[b], count));
            let both = a.iter().zip(b).zip(condition);
            for (y, ((a, b), holds)) in elements_mut::<$Bits>(own, count).iter_mut().zip(both) {
                *y = b ^ ((a ^ b) & <$Bits>::from(*holds).wrapping_neg());
            }
        }};
    }
    match size_of::<E>() {
        1 => by_bits!(u8),
        4 => by_bits!(u32),
        _ => by_bits!(u64),
    }
}

#[inline(always)]
unsafe fn cast<E: crate::dtype::Element>(from: *mut u8, dtype: DType, to: &mut [E]) {
    #[inline(always)]
    unsafe fn each<A: crate::dtype::Element, E: crate::dtype::Element>(from: *mut u8, to: &mut [E]) {
        let count = to.len();
        to.iter_mut().zip(elements::<A>(from, count)).for_each(|(y, x)| *y = E::from_f64(x.to_f64()));
    }
    match dtype {
        DType::F32 => each::<f32, E>(from, to),
        DType::F64 => each::<f64, E>(from, to),
        DType::I64 => each::<i64, E>(from, to),
        DType::Bool => {
            let [no, yes] = [0.0, 1.0].map(E::from_f64);
            let from = elements::<bool>(from, to.len());
            to.iter_mut().zip(from).for_each(|(y, x)| *y = if *x { yes } else { no });
        }
        DType::F16 | DType::BF16 | DType::I32 | DType::U8 => unreachable!("no register is of {dtype}"),
    }
}

#[inline(always)]
unsafe fn integers(
    instruction: Instruction,
    type_of: impl Fn(usize) -> DType,
    places: &[*mut u8],
    own: *mut u8,
    (count, rows): (usize, RowLayout),
) {
    let read = |register: usize| elements::<i64>(places[register], count);
    let own_elements = elements_mut::<i64>(own, count);
    match instruction {
        Instruction::Binary(operation, a, b) => {
            let both = own_elements.iter_mut().zip(read(a).iter().zip(read(b)));
            // One loop for each operation, each without a call inside.
            match operation {
                Operation::Mul => both.for_each(|(y, (a, b))| *y = a.wrapping_mul(*b)),
                Operation::Sub => both.for_each(|(y, (a, b))| *y = a.wrapping_sub(*b)),
                Operation::Add => both.for_each(|(y, (a, b))| *y = a.wrapping_add(*b)),
                other => unreachable!("lowering emits no {} of integers", other.name()),
            }
        }
        Instruction::MaskedMul(a, b) => {
            for (y, (a, b)) in own_elements.iter_mut().zip(read(a).iter().zip(read(b))) {
                *y = a.wrapping_mul(*b);
            }
        }
        Instruction::Unary(Operation::Neg, a, _) => {
            own_elements.iter_mut().zip(read(a)).for_each(|(y, x)| *y = x.wrapping_neg());
        }
        Instruction::Unary(other, ..) => unreachable!("lowering emits no {} of integers", other.name()),
        Instruction::Select(condition, a, b) => choose::<i64>(places, condition, a, b, own, count),
        Instruction::BroadcastRow(a) => spread::<i64>(places[a], own, count, rows),
        Instruction::Cast(a) => cast(places[a], type_of(a), own_elements),
        Instruction::Constant(_)
        | Instruction::Compare(..)
        | Instruction::Logic(..)
        | Instruction::RowReduce(..)
        | Instruction::Narrow(..) => unreachable!("lowering emits no {instruction} of integers here"),
    }
}

#[inline(always)]
unsafe fn truths(
    instruction: Instruction,
    type_of: impl Fn(usize) -> DType,
    places: &[*mut u8],
    own: *mut u8,
    (count, rows): (usize, RowLayout),
) {
    #[inline(always)]
    unsafe fn compare<E: PartialOrd + Copy>(relation: Relation, a: *mut u8, b: *mut u8, own: *mut u8, count: usize) {
        let (a, b) = (elements::<E>(a, count), elements::<E>(b, count));
        let own = elements_mut::<bool>(own, count);
        // One loop for each relation, each without a choice inside.
        macro_rules! each {
            ($($Relation:ident)*) => {
                match relation {
                    $(Relation::$Relation => {
                        own.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (a, b))| *y = Relation::$Relation.holds(*a, *b));
                    })*
                }
            };
        }
        each!(Less LessOrEqual Greater GreaterOrEqual Equal NotEqual);
    }
    match instruction {
        Instruction::Compare(relation, a, b) => {
            let (first, second) = (places[a], places[b]);
            match type_of(a) {
                DType::F32 => compare::<f32>(relation, first, second, own, count),
                DType::F64 => compare::<f64>(relation, first, second, own, count),
                DType::I64 => compare::<i64>(relation, first, second, own, count),
                DType::Bool => compare::<bool>(relation, first, second, own, count),
                other @ (DType::F16 | DType::BF16 | DType::I32 | DType::U8) => {
                    unreachable!("no register is of {other}")
                }
            }
        }
        Instruction::Logic(logic, a, b) => {
            let (a, b) = (elements::<bool>(places[a], count), elements::<bool>(places[b], count));
            for (k, y) in elements_mut::<bool>(own, count).iter_mut().enumerate() {
                *y = match logic {
                    Logic::And => a[k] && b[k],
                    Logic::Or => a[k] || b[k],
                    Logic::Not => !a[k],
                };
            }
        }
        Instruction::Select(condition, a, b) => choose::<bool>(places, condition, a, b, own, count),
        Instruction::BroadcastRow(a) => spread::<bool>(places[a], own, count, rows),
        Instruction::Cast(a) => cast(places[a], type_of(a), elements_mut::<bool>(own, count)),
        Instruction::Constant(_)
        | Instruction::Unary(..)
        | Instruction::Binary(..)
        | Instruction::MaskedMul(..)
        | Instruction::Narrow(..)
        | Instruction::RowReduce(..) => unreachable!("lowering emits no {instruction} of truth values"),
    }
}
