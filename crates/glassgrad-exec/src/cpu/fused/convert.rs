//! Storage types at the borders of a fused loop: blocks of their elements become registers of the compute type, and back.
//!
//! Loads and stores convert, so that no kernel of a loop knows of a storage type. Conversions give the same bits at every level
//! of instructions: `f16` has instructions of its own from AVX2 on, everything else is integer arithmetic that is vectorised.
#![allow(unsafe_code)]

use super::super::interpreter::{elements, elements_mut};
use super::super::isa::Isa;
use crate::dtype::{DType, bf16_from_f32, bf16_to_f32, f16_from_f32, f16_to_f32, round_to_odd};

/// Defines a function that runs another one, compiled for each level.
macro_rules! at_each_level {
    ($(#[$documentation:meta])* fn $name:ident = $inner:ident ($($argument:ident: $Type:ty),*)) => {
        $(#[$documentation])*
        pub(super) unsafe fn $name(isa: Isa, $($argument: $Type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx2,fma,f16c")]
                unsafe fn wide($($argument: $Type),*) {
                    $inner(Isa::Avx512, $($argument),*);
                }
                #[target_feature(enable = "avx2,fma,f16c")]
                unsafe fn medium($($argument: $Type),*) {
                    $inner(Isa::Avx2, $($argument),*);
                }
                match isa {
                    // SAFETY: the machine has the instructions of the level at which its programs run.
                    Isa::Avx512 => return unsafe { wide($($argument),*) },
                    // SAFETY: as above.
                    Isa::Avx2 => return unsafe { medium($($argument),*) },
                    Isa::Baseline => {}
                }
            }
            $inner(isa, $($argument),*);
        }
    };
}

at_each_level!(
    /// Elements of a storage type as registers of its compute type.
    fn widen = widen_at(dtype: DType, from: *mut u8, to: *mut u8, count: usize)
);
at_each_level!(
    /// Registers of a compute type as elements of a storage type, rounded or wrapped.
    fn narrow = narrow_at(dtype: DType, from: *mut u8, to: *mut u8, count: usize)
);
at_each_level!(
    /// Numbers of a type as elements of a storage type, as a cast makes them, in registers of the compute type.
    fn hold = hold_at(source: DType, from: *mut u8, dtype: DType, to: *mut u8, count: usize)
);

#[inline(always)]
unsafe fn each<A: Copy, B>(from: *mut u8, to: *mut u8, count: usize, convert: impl Fn(A) -> B) {
    let both = elements_mut::<B>(to, count).iter_mut().zip(elements::<A>(from, count));
    both.for_each(|(y, x)| *y = convert(*x));
}

#[inline(always)]
unsafe fn widen_at(isa: Isa, dtype: DType, from: *mut u8, to: *mut u8, count: usize) {
    match dtype {
        DType::F16 => {
            let done = widened_by_instructions(isa, from, to, count);
            each(from.wrapping_add(2 * done), to.wrapping_add(4 * done), count - done, f16_to_f32);
        }
        DType::BF16 => each(from, to, count, bf16_to_f32),
        DType::I32 => each::<i32, i64>(from, to, count, i64::from),
        DType::U8 => each::<u8, i64>(from, to, count, i64::from),
        DType::F32 | DType::F64 | DType::I64 | DType::Bool => unreachable!("{dtype} is computed in itself"),
    }
}

#[inline(always)]
unsafe fn narrow_at(isa: Isa, dtype: DType, from: *mut u8, to: *mut u8, count: usize) {
    match dtype {
        DType::F16 => {
            let done = narrowed_by_instructions(isa, from, to, count);
            each(from.wrapping_add(4 * done), to.wrapping_add(2 * done), count - done, f16_from_f32);
        }
        DType::BF16 => each(from, to, count, bf16_from_f32),
        DType::I32 => each(from, to, count, |x: i64| x as i32),
        DType::U8 => each(from, to, count, |x: i64| x as u8),
        DType::F32 | DType::F64 | DType::I64 | DType::Bool => unreachable!("{dtype} is computed in itself"),
    }
}

/// Converts as many elements of `f16` as whole vectors of the level hold, and returns how many.
#[inline(always)]
unsafe fn widened_by_instructions(isa: Isa, from: *mut u8, to: *mut u8, count: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx2 {
        use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
        let whole = count / 8 * 8;
        for k in (0..whole).step_by(8) {
            let (from, to) = (from.wrapping_add(2 * k), to.wrapping_add(4 * k));
            // SAFETY: both sides have eight more elements, and the level has these instructions.
            unsafe { _mm256_storeu_ps(to.cast(), _mm256_cvtph_ps(_mm_loadu_si128(from.cast()))) };
        }
        return whole;
    }
    let _ = (isa, from, to, count);
    0
}

/// The opposite of [`widened_by_instructions`].
#[inline(always)]
unsafe fn narrowed_by_instructions(isa: Isa, from: *mut u8, to: *mut u8, count: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx2 {
        use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps};
        let whole = count / 8 * 8;
        for k in (0..whole).step_by(8) {
            let (from, to) = (from.wrapping_add(4 * k), to.wrapping_add(2 * k));
            // SAFETY: both sides have eight more elements, and the level has these instructions.
            unsafe {
                let rounded = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.cast()));
                _mm_storeu_si128(to.cast(), rounded);
            }
        }
        return whole;
    }
    let _ = (isa, from, to, count);
    0
}

#[inline(always)]
unsafe fn hold_at(_: Isa, source: DType, from: *mut u8, dtype: DType, to: *mut u8, count: usize) {
    /// For each source type, the conversion of its numbers; those of 64 bits are rounded once.
    macro_rules! floats {
        ($round:expr) => {
            match source {
                DType::F32 => each(from, to, count, |x: f32| $round(x)),
                DType::F64 => each(from, to, count, |x: f64| $round(round_to_odd(x))),
                DType::I64 => each(from, to, count, |x: i64| $round(round_to_odd(x as f64))),
                DType::Bool => each(from, to, count, |x: bool| f32::from(u8::from(x))),
                other @ (DType::F16 | DType::BF16 | DType::I32 | DType::U8) => {
                    unreachable!("no register is of {other}")
                }
            }
        };
    }
    macro_rules! integers {
        ($Integer:ty) => {
            match source {
                // From floating point to integers a cast saturates, among integers it wraps.
                DType::F32 => each(from, to, count, |x: f32| i64::from(x as $Integer)),
                DType::F64 => each(from, to, count, |x: f64| i64::from(x as $Integer)),
                DType::I64 => each(from, to, count, |x: i64| i64::from(x as $Integer)),
                DType::Bool => each(from, to, count, |x: bool| i64::from(x)),
                other @ (DType::F16 | DType::BF16 | DType::I32 | DType::U8) => {
                    unreachable!("no register is of {other}")
                }
            }
        };
    }
    match dtype {
        DType::F16 => floats!(|x| f16_to_f32(f16_from_f32(x))),
        DType::BF16 => floats!(|x| bf16_to_f32(bf16_from_f32(x))),
        DType::I32 => integers!(i32),
        DType::U8 => integers!(u8),
        DType::F32 | DType::F64 | DType::I64 | DType::Bool => unreachable!("{dtype} is computed in itself"),
    }
}
