//! Conversions between `f32` and the floating-point types of 16 bits, by bit operations without branches, so that loops over
//! them are vectorised. All round to the nearest, ties to even; NaN stays NaN and becomes quiet.

/// The bits of the `f16` nearest to a number.
#[inline(always)]
#[doc(hidden)]
pub fn f16_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = ((bits >> 16) & 0x8000, bits & 0x7FFF_FFFF);
    // From 2¹⁶ on: infinity, or NaN with the upper bits of its payload.
    let payload = 0x0200 | ((magnitude >> 13) & 0x03FF);
    let large = 0x7C00 | if magnitude > 0x7F80_0000 { payload } else { 0 };
    // Below 2⁻¹⁴: one unit in the last place of 0.5 is the smallest subnormal, so the addition rounds.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    // In between: the exponent moves by 127 - 15, and half a unit rounds, less one bit where the last is even.
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_add(0xC800_0FFF).wrapping_add(odd) >> 13;
    let rounded = if magnitude >= 0x4780_0000 {
        large
    } else if magnitude < 0x3880_0000 {
        small
    } else {
        normal
    };
    (sign | rounded) as u16
}

/// The number with these bits of an `f16`.
#[inline(always)]
#[doc(hidden)]
pub fn f16_to_f32(bits: u16) -> f32 {
    /// 2¹¹²: the difference of the exponent biases.
    const SCALE: f32 = f32::from_bits(0x7780_0000);
    let (sign, magnitude) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7FFF) << 13);
    // The product is exact, for subnormal numbers too.
    let finite = (f32::from_bits(magnitude) * SCALE).to_bits();
    let quiet = if magnitude > 0x0F80_0000 { 0x0040_0000 } else { 0 };
    let special = 0x7F80_0000 | (magnitude & 0x007F_E000) | quiet;
    f32::from_bits(sign | if magnitude >= 0x0F80_0000 { special } else { finite })
}

/// The bits of the `bf16` nearest to a number.
#[inline(always)]
#[doc(hidden)]
pub fn bf16_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7FFF).wrapping_add((bits >> 16) & 1) >> 16;
    let quiet = (bits >> 16) | 0x0040;
    (if bits & 0x7FFF_FFFF > 0x7F80_0000 { quiet } else { rounded }) as u16
}

/// The number with these bits of a `bf16`.
#[inline(always)]
#[doc(hidden)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    // A signalling NaN becomes quiet, as in every other conversion.
    let wide = u32::from(bits) << 16;
    f32::from_bits(if wide & 0x7FFF_FFFF > 0x7F80_0000 { wide | 0x0040_0000 } else { wide })
}

/// The `f32` to round further to 16 bits without rounding twice: round to odd. A number between two neighbours becomes the
/// one whose last bit is 1, which is no tie of a type with at least two bits less.
#[inline(always)]
#[doc(hidden)]
pub fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest) == value || value.is_nan() {
        return nearest;
    }
    // Towards zero, then the last bit is set: of the largest finite number it is.
    let away = u32::from(f64::from(nearest).abs() > value.abs());
    f32::from_bits((nearest.to_bits() - away) | 1)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::super::{DType, Element};
    use super::*;

    #[test]
    fn all_numbers_of_16_bits_agree_with_the_crate_half() {
        for bits in 0..=u16::MAX {
            let (own, other) = (f16_to_f32(bits), f16::from_bits(bits).to_f32());
            assert!(own.to_bits() == other.to_bits() || own.is_nan() && other.is_nan(), "f16 {bits:#06x}");
            let (own, other) = (bf16_to_f32(bits), bf16::from_bits(bits).to_f32());
            assert!(own.to_bits() == other.to_bits() || own.is_nan() && other.is_nan(), "bf16 {bits:#06x}");
        }
    }

    #[test]
    fn every_number_of_16_bits_round_trips() {
        for bits in 0..=u16::MAX {
            let is_nan = f16::from_bits(bits).is_nan();
            let back = f16_from_f32(f16_to_f32(bits));
            assert_eq!(back, if is_nan { bits | 0x0200 } else { bits }, "f16 {bits:#06x}");
            assert_eq!(f16::from_f64(f16::from_bits(bits).to_f64()).to_bits() & 0x7C00, bits & 0x7C00);
            let is_nan = bf16::from_bits(bits).is_nan();
            let back = bf16_from_f32(bf16_to_f32(bits));
            assert_eq!(back, if is_nan { bits | 0x0040 } else { bits }, "bf16 {bits:#06x}");
        }
    }

    /// Around every number of 16 bits: itself, the ties between neighbours, and the numbers of 32 bits next to these.
    fn around(bits: u16, of: fn(u16) -> f32) -> Vec<f32> {
        let (own, next) = (of(bits), of(bits.wrapping_add(1)));
        let tie = ((f64::from(own) + f64::from(next)) / 2.0) as f32;
        let neighbours = |x: f32| [x.to_bits().wrapping_sub(1), x.to_bits(), x.to_bits().wrapping_add(1)];
        [own, tie].into_iter().flat_map(neighbours).map(f32::from_bits).collect()
    }

    #[test]
    fn rounding_agrees_with_the_crate_half_at_every_tie() {
        for bits in 0..=u16::MAX {
            for x in around(bits, f16_to_f32) {
                assert_eq!(f16_from_f32(x), f16::from_f32(x).to_bits(), "{x:e} as f16");
            }
            for x in around(bits, bf16_to_f32) {
                assert_eq!(bf16_from_f32(x), bf16::from_f32(x).to_bits(), "{x:e} as bf16");
            }
        }
    }

    #[test]
    fn numbers_of_64_bits_are_rounded_once() {
        // Just above the tie between 1 and the next number, by less than 32 bits can hold.
        let tiny = f64::EPSILON;
        assert_eq!(bf16::from_f64_exact(1.0 + 2_f64.powi(-8) + tiny), 1.0 + 2_f64.powi(-7));
        assert_eq!(bf16::from_f64_exact(1.0 + 2_f64.powi(-8)), 1.0);
        assert_eq!(bf16::from_f64_exact(-1.0 - 2_f64.powi(-8) - tiny), -1.0 - 2_f64.powi(-7));
        assert_eq!(f16::from_f64_exact(1.0 + 2_f64.powi(-11) + tiny), 1.0 + 2_f64.powi(-10));
        assert_eq!(f16::from_f64_exact(65519.999), 65504.0);
        assert_eq!(f16::from_f64_exact(65520.0), f64::INFINITY);
        assert_eq!(f16::from_f64_exact(-1e300), f64::NEG_INFINITY);
        assert_eq!(bf16::from_f64_exact(1e300), f64::INFINITY);
        assert_eq!(f16::from_f64_exact(2_f64.powi(-25)), 0.0);
        assert_eq!(f16::from_f64_exact(2_f64.powi(-25) * 1.000_001), 2_f64.powi(-24));
        assert!(f16::from_f64_exact(f64::NAN).is_nan() && bf16::from_f64_exact(f64::NAN).is_nan());
    }

    trait FromF64Exact {
        fn from_f64_exact(value: f64) -> f64;
    }
    impl<E: Element> FromF64Exact for E {
        fn from_f64_exact(value: f64) -> f64 {
            E::from_f64(value).to_f64()
        }
    }

    #[test]
    fn integers_wrap_among_each_other_and_saturate_from_floating_point() {
        assert_eq!((i32::from_f64(3e9), i32::from_f64(-3e9), i32::from_f64(f64::NAN)), (i32::MAX, i32::MIN, 0));
        assert_eq!((u8::from_f64(300.7), u8::from_f64(-1.0), u8::from_f64(2.9)), (255, 0, 2));
        assert_eq!(DType::I64.cast_number(300.0, DType::U8), 44.0);
        assert_eq!(DType::F32.cast_number(300.0, DType::U8), 255.0);
        assert_eq!(DType::I64.cast_number(-1.0, DType::U8), 255.0);
        assert_eq!(DType::I64.cast_number(4_294_967_297.0, DType::I32), 1.0);
    }
}
