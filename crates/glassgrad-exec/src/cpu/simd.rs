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
    /// The eight numbers from an address on, and the eight from another on; for registers of sixteen.
    #[inline(always)]
    unsafe fn load_halves(low: *const E, high: *const E) -> Self
    where
        E: Copy,
    {
        // SAFETY: the caller provides eight numbers at both addresses.
        unsafe {
            let (low, high) = (low.cast::<[E; 8]>().read_unaligned(), high.cast::<[E; 8]>().read_unaligned());
            Self::load([low, high].as_ptr().cast())
        }
    }
    /// Writes the numbers from an address on.
    unsafe fn store(self, at: *mut E);
    /// self · factor + addend.
    unsafe fn fused(self, factor: Self, addend: Self) -> Self;
    unsafe fn times(self, other: Self) -> Self;
    unsafe fn plus(self, other: Self) -> Self;
    /// For each number, the products of a pair of `bf16` with those of the register, added to a sum, the upper half first; for registers that
    /// have an instruction for it.
    #[inline(always)]
    unsafe fn dot(_pair: u32, _pairs: Self, _sum: Self) -> Self {
        unreachable!("a register without products of pairs")
    }
    /// Transposes eight rows of eight numbers: number k of row r goes to `to + k·step + r`.
    #[inline(always)]
    unsafe fn transpose(rows: [*const E; 8], to: *mut E, step: usize)
    where
        E: Copy,
    {
        for k in 0..8 {
            for (r, row) in rows.iter().enumerate() {
                // SAFETY: the caller provides eight numbers in each row, and memory for the transpose.
                unsafe { *to.wrapping_add(k * step + r) = *row.wrapping_add(k) };
            }
        }
    }
    /// Copies eight numbers that lie two places apart.
    #[inline(always)]
    unsafe fn copy_even(from: *const E, to: *mut E)
    where
        E: Copy,
    {
        for k in 0..8 {
            // SAFETY: the caller provides eight numbers, and memory for them.
            unsafe { *to.wrapping_add(k) = *from.wrapping_add(2 * k) };
        }
    }
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
        // SAFETY: the caller has eight numbers there.
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
    // Loops over registers run by number: they must vanish even where adaptors of the standard library are not opened.
    #![allow(clippy::needless_range_loop)]

    use core::arch::x86_64::*;

    use super::Register;

    macro_rules! registers {
        ($($Register:ty, $Float:ty: $splat:ident $load:ident $store:ident $fused:ident $times:ident $plus:ident
            $transpose:ident $copy_even:ident $($halves:ident $dot:ident)?;)*) => {$(
            impl Register<$Float> for $Register {
                $(
                    #[inline(always)]
                    unsafe fn dot(pair: u32, pairs: Self, sum: Self) -> Self {
                        // SAFETY: as below.
                        unsafe { $dot(pair, pairs, sum) }
                    }
                    #[inline(always)]
                    unsafe fn load_halves(low: *const $Float, high: *const $Float) -> Self {
                        // SAFETY: as below.
                        unsafe { $halves(low, high) }
                    }
                )?
                #[inline(always)]
                unsafe fn transpose(rows: [*const $Float; 8], to: *mut $Float, step: usize) {
                    // SAFETY: as below.
                    unsafe { $transpose(rows, to, step) }
                }
                #[inline(always)]
                unsafe fn copy_even(from: *const $Float, to: *mut $Float) {
                    // SAFETY: as below.
                    unsafe { $copy_even(from, to) }
                }
                #[inline(always)]
                unsafe fn splat(number: $Float) -> Self {
                    // SAFETY: the caller has the instructions, and the numbers where it says.
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
        __m512, f32: _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_mul_ps _mm512_add_ps
            transpose_f32 copy_even_f32 load_halves_f32 dot_bf16;
        __m256, f32: _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_mul_ps _mm256_add_ps
            transpose_f32 copy_even_f32;
        __m512d, f64: _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd _mm512_mul_pd _mm512_add_pd
            transpose_f64 copy_even_f64;
        __m256d, f64: _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd _mm256_mul_pd _mm256_add_pd
            transpose_f64 copy_even_f64;
    }

    /// [`Register::dot`].
    #[inline(always)]
    unsafe fn dot_bf16(pair: u32, pairs: __m512, sum: __m512) -> __m512 {
        // SAFETY: the caller checked that the machine has the instruction; the bits of all three types are the same.
        unsafe {
            let pair = std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(pair.cast_signed()));
            _mm512_dpbf16_ps(sum, pair, std::mem::transmute::<__m512, __m512bh>(pairs))
        }
    }

    /// [`Register::load_halves`].
    #[inline(always)]
    unsafe fn load_halves_f32(low: *const f32, high: *const f32) -> __m512 {
        // SAFETY: the caller checked the ISA level, and provides eight numbers at both addresses.
        unsafe {
            let low = _mm512_castps_pd(_mm512_castps256_ps512(_mm256_loadu_ps(low)));
            _mm512_castpd_ps(_mm512_insertf64x4::<1>(low, _mm256_castps_pd(_mm256_loadu_ps(high))))
        }
    }

    /// [`Register::transpose`] by three stages of shuffles.
    #[inline(always)]
    unsafe fn transpose_f32(rows: [*const f32; 8], to: *mut f32, step: usize) {
        // SAFETY: the caller checked the ISA level, and provides eight numbers in each row and memory for the transpose.
        unsafe {
            // Columns k and k + 4 of the upper four rows, and of the lower ones.
            let mut columns = [[_mm256_setzero_ps(); 4]; 2];
            for half in 0..2 {
                let row = 4 * half;
                let (r0, r1) = (_mm256_loadu_ps(rows[row]), _mm256_loadu_ps(rows[row + 1]));
                let (r2, r3) = (_mm256_loadu_ps(rows[row + 2]), _mm256_loadu_ps(rows[row + 3]));
                let (a, b) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
                let (c, d) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
                columns[half] = [
                    _mm256_shuffle_ps::<0x44>(a, c),
                    _mm256_shuffle_ps::<0xee>(a, c),
                    _mm256_shuffle_ps::<0x44>(b, d),
                    _mm256_shuffle_ps::<0xee>(b, d),
                ];
            }
            for k in 0..4 {
                let (low, high) = (columns[0][k], columns[1][k]);
                _mm256_storeu_ps(to.wrapping_add(k * step), _mm256_permute2f128_ps::<0x20>(low, high));
                _mm256_storeu_ps(to.wrapping_add((k + 4) * step), _mm256_permute2f128_ps::<0x31>(low, high));
            }
        }
    }

    /// [`Register::transpose`] in four blocks of four rows and columns.
    #[inline(always)]
    unsafe fn transpose_f64(rows: [*const f64; 8], to: *mut f64, step: usize) {
        for corner in [[0, 0], [0, 4], [4, 0], [4, 4]] {
            let [first, column] = corner;
            // SAFETY: the caller checked the ISA level, and provides eight numbers in each row and memory for the transpose.
            unsafe {
                let r0 = _mm256_loadu_pd(rows[first].wrapping_add(column));
                let r1 = _mm256_loadu_pd(rows[first + 1].wrapping_add(column));
                let r2 = _mm256_loadu_pd(rows[first + 2].wrapping_add(column));
                let r3 = _mm256_loadu_pd(rows[first + 3].wrapping_add(column));
                let (a, b) = (_mm256_unpacklo_pd(r0, r1), _mm256_unpacklo_pd(r2, r3));
                let (c, d) = (_mm256_unpackhi_pd(r0, r1), _mm256_unpackhi_pd(r2, r3));
                let at = to.wrapping_add(column * step + first);
                _mm256_storeu_pd(at, _mm256_permute2f128_pd::<0x20>(a, b));
                _mm256_storeu_pd(at.wrapping_add(step), _mm256_permute2f128_pd::<0x20>(c, d));
                _mm256_storeu_pd(at.wrapping_add(2 * step), _mm256_permute2f128_pd::<0x31>(a, b));
                _mm256_storeu_pd(at.wrapping_add(3 * step), _mm256_permute2f128_pd::<0x31>(c, d));
            }
        }
    }

    /// [`Register::copy_even`]: the second load begins seven numbers later, so that nothing behind the last is read.
    #[inline(always)]
    unsafe fn copy_even_f32(from: *const f32, to: *mut f32) {
        // SAFETY: the caller checked the ISA level, and provides the numbers and memory for them.
        unsafe {
            let (low, high) = (_mm256_loadu_ps(from), _mm256_loadu_ps(from.wrapping_add(7)));
            let mixed = _mm256_castps_pd(_mm256_shuffle_ps::<0xd8>(low, high));
            _mm256_storeu_ps(to, _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(mixed)));
        }
    }

    /// [`Register::copy_even`] in two halves.
    #[inline(always)]
    unsafe fn copy_even_f64(from: *const f64, to: *mut f64) {
        for half in [0, 4] {
            // SAFETY: the caller checked the ISA level, and provides the numbers and memory for them.
            unsafe {
                let at = from.wrapping_add(2 * half);
                let (low, high) = (_mm256_loadu_pd(at), _mm256_loadu_pd(at.wrapping_add(3)));
                let mixed = _mm256_shuffle_pd::<0b1010>(low, high);
                _mm256_storeu_pd(to.wrapping_add(half), _mm256_permute4x64_pd::<0xd8>(mixed));
            }
        }
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
                        // SAFETY: as above, and the caller has eight numbers there.
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
