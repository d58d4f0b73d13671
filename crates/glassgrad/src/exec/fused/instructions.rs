//! One instruction of a fused loop over a block of elements.

use super::super::level::Level;
use super::super::machine::{elements, elements_mut};
use super::super::vector::Vectorised;
use super::Combinable;
use crate::algebra::Float;
use crate::dtype::DType;
use crate::expr::Logic;
use crate::ops::{Operation, Relation};
use crate::opt::program::{Combine, Instruction, Loop};

/// Runs one instruction over a block of so many elements, or rows, of rows of some length.
pub(super) fn execute(
    level: Level,
    instruction: Instruction,
    dtype: DType,
    fused: &Loop,
    places: &[*mut u8],
    own: *mut u8,
    sizes: [usize; 2],
) {
    let type_of = |register: usize| match register.checked_sub(fused.loads.len()) {
        None => fused.loads[register].dtype,
        Some(place) => fused.code[place].1,
    };
    match dtype {
        DType::F32 => numbers::<f32>(level, instruction, type_of, places, own, sizes),
        DType::F64 => numbers::<f64>(level, instruction, type_of, places, own, sizes),
        DType::I64 => integers(instruction, type_of, places, own, sizes),
        DType::Bool => truths(instruction, type_of, places, own, sizes),
    }
}

fn numbers<F: crate::dtype::Element + Vectorised + Combinable>(
    level: Level,
    instruction: Instruction,
    type_of: impl Fn(usize) -> DType,
    places: &[*mut u8],
    own: *mut u8,
    [count, row]: [usize; 2],
) {
    let read = |register: usize| elements::<F>(places[register], count);
    let own_elements = elements_mut::<F>(own, count);
    match instruction {
        Instruction::Number(_) | Instruction::Compare(..) | Instruction::Logic(..) => {}
        Instruction::Unary(operation, a, parameter) => {
            F::unary(level, operation, parameter, read(a), own_elements);
        }
        Instruction::Binary(operation, a, b) => {
            F::binary(level, operation, read(a), read(b), own_elements);
        }
        Instruction::Strong(a, b) => {
            let zero = F::literal(0.0);
            for (y, (a, b)) in own_elements.iter_mut().zip(read(a).iter().zip(read(b))) {
                *y = if *a == zero { zero } else { *a * *b };
            }
        }
        Instruction::Choose(condition, a, b) => choose::<F>(places, condition, a, b, own, count),
        Instruction::Cast(a) => cast(places[a], type_of(a), own_elements),
        Instruction::Rows(combine, a, scale) => {
            rows(combine, scale, elements(places[a], count * row), own_elements, row)
        }
        Instruction::Spread(a) => spread::<F>(places[a], own, count, row),
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
fn rows<F: Float + Combinable>(combine: Combine, scale: f64, from: &[F], to: &mut [F], row: usize) {
    match combine {
        Combine::Sum => {
            with_length!(row, short_sums::<F>(from, to), otherwise {
                for (from, to) in from.chunks_exact(row).zip(&mut *to) {
                    *to = F::ZERO.plus(F::sum_of(from));
                }
            });
            if scale != 1.0 {
                let scale = F::literal(scale);
                to.iter_mut().for_each(|to| *to = *to * scale);
            }
        }
        Combine::Largest => with_length!(row, short_largest::<F>(from, to), otherwise {
            for (from, to) in from.chunks_exact(row).zip(to) {
                *to = from.iter().fold(F::literal(f64::NEG_INFINITY), |largest, own| largest.larger(*own));
            }
        }),
    }
}

/// The sums of rows of one length, in the order of [`Combinable::sum_of`].
fn short_sums<F: Float + Combinable, const N: usize>(from: &[F], to: &mut [F]) {
    for (from, to) in from.as_chunks::<N>().0.iter().zip(to) {
        *to = F::ZERO.plus(F::sum_of(from));
    }
}

/// The largest elements of rows of one length.
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
fn spread<E: Copy>(from: *mut u8, to: *mut u8, count: usize, row: usize) {
    let (from, to) = (elements::<E>(from, count / row), elements_mut::<E>(to, count));
    with_length!(row, short_spread::<E>(from, to), otherwise {
        for (from, to) in from.iter().zip(to.chunks_exact_mut(row)) {
            to.fill(*from);
        }
    });
}

/// [`spread`] for rows of one length.
fn short_spread<E: Copy, const N: usize>(from: &[E], to: &mut [E]) {
    for (from, to) in from.iter().zip(to.as_chunks_mut::<N>().0) {
        *to = [*from; N];
    }
}

/// Chooses between elements of a type by their bits, in which nothing hangs on guessing which one it is.
fn choose<E>(places: &[*mut u8], condition: usize, a: usize, b: usize, own: *mut u8, count: usize) {
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

fn cast<E: crate::dtype::Element>(from: *mut u8, dtype: DType, to: &mut [E]) {
    fn each<A: crate::dtype::Element, E: crate::dtype::Element>(from: *mut u8, to: &mut [E]) {
        let count = to.len();
        to.iter_mut().zip(elements::<A>(from, count)).for_each(|(y, x)| *y = E::from_f64(x.to_f64()));
    }
    match dtype {
        DType::F32 => each::<f32, E>(from, to),
        DType::F64 => each::<f64, E>(from, to),
        DType::I64 => each::<i64, E>(from, to),
        DType::Bool => each::<bool, E>(from, to),
    }
}

fn integers(
    instruction: Instruction,
    type_of: impl Fn(usize) -> DType,
    places: &[*mut u8],
    own: *mut u8,
    [count, row]: [usize; 2],
) {
    let read = |register: usize| elements::<i64>(places[register], count);
    let own_elements = elements_mut::<i64>(own, count);
    match instruction {
        Instruction::Binary(operation, a, b) => {
            let combine: fn(i64, i64) -> i64 = match operation {
                Operation::Mul => i64::wrapping_mul,
                Operation::Sub => i64::wrapping_sub,
                _ => i64::wrapping_add,
            };
            for (y, (a, b)) in own_elements.iter_mut().zip(read(a).iter().zip(read(b))) {
                *y = combine(*a, *b);
            }
        }
        Instruction::Strong(a, b) => {
            for (y, (a, b)) in own_elements.iter_mut().zip(read(a).iter().zip(read(b))) {
                *y = a.wrapping_mul(*b);
            }
        }
        Instruction::Unary(_, a, _) => {
            own_elements.iter_mut().zip(read(a)).for_each(|(y, x)| *y = x.wrapping_neg());
        }
        Instruction::Choose(condition, a, b) => choose::<i64>(places, condition, a, b, own, count),
        Instruction::Spread(a) => spread::<i64>(places[a], own, count, row),
        Instruction::Cast(a) => cast(places[a], type_of(a), own_elements),
        Instruction::Number(_) | Instruction::Compare(..) | Instruction::Logic(..) | Instruction::Rows(..) => {}
    }
}

fn truths(
    instruction: Instruction,
    type_of: impl Fn(usize) -> DType,
    places: &[*mut u8],
    own: *mut u8,
    [count, row]: [usize; 2],
) {
    fn compare<E: PartialOrd + Copy>(relation: Relation, a: *mut u8, b: *mut u8, own: *mut u8, count: usize) {
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
        Instruction::Choose(condition, a, b) => choose::<bool>(places, condition, a, b, own, count),
        Instruction::Spread(a) => spread::<bool>(places[a], own, count, row),
        Instruction::Cast(a) => cast(places[a], type_of(a), elements_mut::<bool>(own, count)),
        Instruction::Number(_)
        | Instruction::Unary(..)
        | Instruction::Binary(..)
        | Instruction::Strong(..)
        | Instruction::Rows(..) => {}
    }
}
