//! Vector registers: what the tiles of products are computed in.
//!
//! Loops over short arrays become vector instructions if the compiler sees fit. The sums of a tile must, so they are
//! written in registers outright.
#![allow(unsafe_code)]

use super::contraction::Factor;

/// Several numbers that are multiplied and added up at once.
///
/// All functions are for machines that have the instructions of the register.
pub(super) trait Register<E>: Copy {
    /// The same number everywhere.
    unsafe fn splat(number: E) -> Self;
    /// The numbers from an address on.
    unsafe fn load(at: *const E) -> Self;
    /// Writes the numbers from an address on.
    unsafe fn store(self, at: *mut E);
    /// self · factor + addend.
    unsafe fn fused(self, factor: Self, addend: Self) -> Self;
    unsafe fn times(self, other: Self) -> Self;
    unsafe fn plus(self, other: Self) -> Self;
}

/// Eight numbers in whatever registers there are; products are rounded before they are added up.
#[derive(Clone, Copy)]
pub(super) struct Portable<E>([E; 8]);

impl<E: Factor> Register<E> for Portable<E> {
    #[inline(always)]
    unsafe fn splat(number: E) -> Self {
        Portable([number; 8])
    }
    #[inline(always)]
    unsafe fn load(at: *const E) -> Self {
        // SAFETY: whoever calls this has eight numbers there.
        Portable(unsafe { at.cast::<[E; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut E) {
        // SAFETY: as above.
        unsafe { at.cast::<[E; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn fused(self, factor: Self, addend: Self) -> Self {
        // SAFETY: these have no needs.
        unsafe { self.times(factor).plus(addend) }
    }
    #[inline(always)]
    unsafe fn times(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own = own.times(other));
        self
    }
    #[inline(always)]
    unsafe fn plus(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own = own.plus(other));
        self
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    use super::Register;

    macro_rules! registers {
        ($($Register:ty, $Float:ty: $splat:ident $load:ident $store:ident $fused:ident $times:ident $plus:ident;)*) => {$(
            impl Register<$Float> for $Register {
                #[inline(always)]
                unsafe fn splat(number: $Float) -> Self {
                    // SAFETY: whoever calls this has the instructions, and the numbers where it says.
                    unsafe { $splat(number) }
                }
                #[inline(always)]
                unsafe fn load(at: *const $Float) -> Self {
                    // SAFETY: as above.
                    unsafe { $load(at) }
                }
                #[inline(always)]
                unsafe fn store(self, at: *mut $Float) {
                    // SAFETY: as above.
                    unsafe { $store(at, self) }
                }
                #[inline(always)]
                unsafe fn fused(self, factor: Self, addend: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $fused(self, factor, addend) }
                }
                #[inline(always)]
                unsafe fn times(self, other: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $times(self, other) }
                }
                #[inline(always)]
                unsafe fn plus(self, other: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $plus(self, other) }
                }
            }
        )*};
    }
    registers! {
        __m512, f32: _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_mul_ps _mm512_add_ps;
        __m256, f32: _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_mul_ps _mm256_add_ps;
        __m512d, f64: _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd _mm512_mul_pd _mm512_add_pd;
        __m256d, f64: _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd _mm256_mul_pd _mm256_add_pd;
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod neon {
    use core::arch::aarch64::*;

    use super::Register;

    /// Eight numbers in registers of 128 bits, which every machine of this architecture has; multiply-adds round once.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Eight<V, const N: usize>([V; N]);

    macro_rules! registers {
        ($($Vector:ty, $N:literal, $Float:ty: $splat:ident $load:ident $store:ident $fused:ident $times:ident $plus:ident;)*) => {$(
            impl Register<$Float> for Eight<$Vector, $N> {
                #[inline(always)]
                unsafe fn splat(number: $Float) -> Self {
                    // SAFETY: every machine of this architecture has the instructions.
                    Eight([unsafe { $splat(number) }; $N])
                }
                #[inline(always)]
                unsafe fn load(at: *const $Float) -> Self {
                    // SAFETY: as above.
                    let mut own = unsafe { Self::splat(0.0) };
                    for n in 0..$N {
                        // SAFETY: as above, and whoever calls this has eight numbers there.
                        own.0[n] = unsafe { $load(at.wrapping_add(n * (8 / $N))) };
                    }
                    own
                }
                #[inline(always)]
                unsafe fn store(self, at: *mut $Float) {
                    for n in 0..$N {
                        // SAFETY: as above.
                        unsafe { $store(at.wrapping_add(n * (8 / $N)), self.0[n]) };
                    }
                }
                #[inline(always)]
                unsafe fn fused(mut self, factor: Self, addend: Self) -> Self {
                    for n in 0..$N {
                        // SAFETY: every machine of this architecture has the instructions.
                        self.0[n] = unsafe { $fused(addend.0[n], self.0[n], factor.0[n]) };
                    }
                    self
                }
                #[inline(always)]
                unsafe fn times(mut self, other: Self) -> Self {
                    for n in 0..$N {
                        // SAFETY: every machine of this architecture has the instructions.
                        self.0[n] = unsafe { $times(self.0[n], other.0[n]) };
                    }
                    self
                }
                #[inline(always)]
                unsafe fn plus(mut self, other: Self) -> Self {
                    for n in 0..$N {
                        // SAFETY: every machine of this architecture has the instructions.
                        self.0[n] = unsafe { $plus(self.0[n], other.0[n]) };
                    }
                    self
                }
            }
        )*};
    }
    registers! {
        float32x4_t, 2, f32: vdupq_n_f32 vld1q_f32 vst1q_f32 vfmaq_f32 vmulq_f32 vaddq_f32;
        float64x2_t, 4, f64: vdupq_n_f64 vld1q_f64 vst1q_f64 vfmaq_f64 vmulq_f64 vaddq_f64;
    }
}
