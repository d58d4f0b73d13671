//! Random draws, many at a time: counter-based generation, and the transforms of the distributions, in vectors.
//!
//! Multiply-adds round twice at all ISA levels, so that a key gives the same bits at each of them. Numbers are those of
//! [`Key`](crate::rng::Key), but for the last bit of 64 before they are rounded to 32: logarithm and cosine are this folder's, not
//! the platform's.
#![allow(unsafe_code)]
// Loops over lanes run by number: they must vanish into vectors.
#![allow(clippy::needless_range_loop)]

use super::functions::double;
use super::sincos;
use crate::cpu::isa::Isa;
use crate::rng::{HALF_STEP, Key, philox_together, unit};

/// The numbers that are drawn together.
const TOGETHER: usize = 16;

/// A distribution: what it makes of the four words of a counter.
pub(in crate::cpu) trait Drawn {
    type Number: Copy + Default;
    /// The third word of the counters of this distribution.
    const STREAM: u32;
    fn of(words: [u32; 4]) -> Self::Number;
}

#[inline(always)]
fn both(low: u32, high: u32) -> f64 {
    unit(u64::from(low) | u64::from(high) << 32)
}

/// From 0 up to but not including 1, rounded to 32 bits.
pub(in crate::cpu) struct Uniform;
impl Drawn for Uniform {
    type Number = f32;
    const STREAM: u32 = 0;
    #[inline(always)]
    fn of([a, b, ..]: [u32; 4]) -> f32 {
        both(a, b) as f32
    }
}

/// Between 0 and 1, both excluded.
pub(in crate::cpu) struct OpenUniform;
impl Drawn for OpenUniform {
    type Number = f64;
    const STREAM: u32 = 0;
    #[inline(always)]
    fn of([a, b, ..]: [u32; 4]) -> f64 {
        both(a, b) + HALF_STEP
    }
}

/// Standard normal by the transform of Box and Muller, rounded to 32 bits.
pub(in crate::cpu) struct Normal;
impl Drawn for Normal {
    type Number = f32;
    const STREAM: u32 = 1;
    #[inline(always)]
    fn of([a, b, c, d]: [u32; 4]) -> f32 {
        let radius = (-2.0 * double::ln::<false>(1.0 - both(a, b))).sqrt();
        (radius * sincos::cos::<false>(std::f64::consts::TAU * both(c, d))) as f32
    }
}

/// Draws the numbers of a key from an index on, by the instructions of a level that this machine has.
pub(in crate::cpu) fn draw<D: Drawn>(isa: Isa, key: Key, first: u64, to: &mut [D::Number]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
        fn wide<D: Drawn>(key: Key, first: u64, to: &mut [D::Number]) {
            each::<D>(key, first, to);
        }
        #[target_feature(enable = "avx2,fma")]
        fn medium<D: Drawn>(key: Key, first: u64, to: &mut [D::Number]) {
            each::<D>(key, first, to);
        }
        match isa {
            // SAFETY: the machine has the instructions of the level at which its programs run.
            Isa::Avx512 => return unsafe { wide::<D>(key, first, to) },
            // SAFETY: as above.
            Isa::Avx2 => return unsafe { medium::<D>(key, first, to) },
            Isa::Baseline => {}
        }
    }
    let _ = isa;
    each::<D>(key, first, to);
}

#[inline(always)]
fn each<D: Drawn>(key: Key, first: u64, to: &mut [D::Number]) {
    for (part, to) in to.chunks_mut(TOGETHER).enumerate() {
        let first = first + (part * TOGETHER) as u64;
        let mut counters = [[0; TOGETHER], [0; TOGETHER], [D::STREAM; TOGETHER], [0; TOGETHER]];
        for k in 0..TOGETHER {
            let index = first.wrapping_add(k as u64);
            counters[0][k] = index as u32;
            counters[1][k] = (index >> 32) as u32;
        }
        let [a, b, c, d] = philox_together(key.0, counters);
        let mut numbers = [D::Number::default(); TOGETHER];
        for k in 0..TOGETHER {
            numbers[k] = D::of([a[k], b[k], c[k], d[k]]);
        }
        to.copy_from_slice(&numbers[..to.len()]);
    }
}
