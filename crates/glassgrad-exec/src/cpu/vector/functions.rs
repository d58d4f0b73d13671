//! The base functions without branches or calls, so that the compiler turns loops over them into vector instructions.
//!
//! Each is written once for both machine numbers; only lengths of series and splittings of constants differ. Where a
//! multiply-add rounds once, the results are a little better; nothing relies on it. Whole numbers wrap, because a check
//! for overflow would be a branch.

macro_rules! functions {
    ($module:ident, $Float:ident, $Bits:ident, $Unsigned:ident,
     mantissa $MANTISSA:literal, bias $BIAS:literal, ln2 $LN2_HIGH:literal $LN2_LOW:literal,
     exp $OVERFLOW:literal $UNDERFLOW:literal near $NEAR:literal, exp2 $OVERFLOW2:literal $UNDERFLOW2:literal,
     series $($coefficient:literal)*, logarithm $($odd:literal)*, saturated $SATURATED:literal,
     arctangent $HALF_PI_LOW:literal $($arctangent:literal)*,
     erf $($erf:literal)*, tail $MIDDLE:literal $END:literal $($tail:literal)*) => {
        pub(super) mod $module {
            /// Adding this rounds to a whole number, which then stands in the lowest bits.
            const MAGIC: $Float = 1.5 * (1_u64 << $MANTISSA) as $Float;
            /// The same, and the whole number in the lowest bits is the exponent of a machine number.
            const BIASED: $Float = MAGIC + $BIAS as $Float;
            /// Up to this size of x, e to the power of x and of -x are normal numbers.
            pub(in super::super) const NEAR: $Float = $NEAR;
            /// Below this, functions with f(x) = x + O(x²) are x to the last bit.
            const TINY: $Float = $Float::EPSILON * 0.25;

            #[inline(always)]
            fn multiply_add<const FUSED: bool>(a: $Float, b: $Float, c: $Float) -> $Float {
                if FUSED { a.mul_add(b, c) } else { a * b + c }
            }

            /// n, with a number added that rounds it, and r with x = n·ln 2 + r and |r| ≤ ln 2 / 2.
            #[inline(always)]
            fn split<const FUSED: bool>(x: $Float, magic: $Float) -> ($Float, $Float) {
                let shifted = multiply_add::<FUSED>(x, std::$Float::consts::LOG2_E, magic);
                let n = shifted - magic;
                let r = multiply_add::<FUSED>(n, -$LN2_HIGH, x);
                (shifted, multiply_add::<FUSED>(n, -$LN2_LOW, r))
            }

            /// n and r with x = n·ln 2 + r and |r| ≤ ln 2 / 2.
            #[inline(always)]
            fn reduced<const FUSED: bool>(x: $Float) -> ($Bits, $Float) {
                let (shifted, r) = split::<FUSED>(x, MAGIC);
                (whole(shifted), r)
            }

            /// The whole number in the lowest bits of what was rounded by `MAGIC`.
            #[inline(always)]
            fn whole(shifted: $Float) -> $Bits {
                (shifted.to_bits() as $Bits).wrapping_sub(MAGIC.to_bits() as $Bits)
            }

            /// 2ⁿ and r with x = n·ln 2 + r and |r| ≤ ln 2 / 2, for x up to [`NEAR`].
            #[inline(always)]
            fn near_reduced<const FUSED: bool>(x: $Float) -> ($Float, $Float) {
                let (shifted, r) = split::<FUSED>(x, BIASED);
                ($Float::from_bits(shifted.to_bits() << $MANTISSA), r)
            }

            /// (eʳ - 1)/r for a small r, by its series.
            #[inline(always)]
            fn series<const FUSED: bool>(r: $Float) -> $Float {
                let mut sum: $Float = 0.0;
                $(sum = multiply_add::<FUSED>(sum, r, $coefficient);)*
                sum
            }

            /// 2ⁿ for an exponent of the normal range.
            #[inline(always)]
            fn power(n: $Bits) -> $Float {
                $Float::from_bits((n.wrapping_add($BIAS) as $Unsigned) << $MANTISSA)
            }

            /// value·2ⁿ, in two steps, so that numbers below the normal range are reached.
            #[inline(always)]
            fn scaled(value: $Float, n: $Bits) -> $Float {
                let half = n >> 1;
                value * power(half) * power(n.wrapping_sub(half))
            }

            /// [`scaled`] of a normal value. What falls below the normal range is shifted and rounded as an integer: processors
            /// take a hundred times as long for a product that falls there.
            #[inline(always)]
            fn scaled_gradually(value: $Float, n: $Bits) -> $Float {
                const LEAST: $Bits = 1 - $BIAS;
                let bits = value.to_bits() as $Bits;
                let exponent = (bits >> $MANTISSA).wrapping_sub($BIAS).wrapping_add(n);
                let normal = scaled(value, if exponent < LEAST { 0 } else { n });
                let whole = (bits & ((1 << $MANTISSA) - 1)) | (1 << $MANTISSA);
                let shift = LEAST.wrapping_sub(exponent).clamp(0, $MANTISSA + 2);
                // To the nearest, and of two to the even one.
                let half = ((1 as $Bits) << shift) >> 1;
                let rounded = whole.wrapping_add(half).wrapping_sub(1).wrapping_add((whole >> shift) & 1) >> shift;
                if exponent < LEAST { $Float::from_bits(rounded as $Unsigned) } else { normal }
            }

            #[inline(always)]
            pub(in super::super) fn exp<const FUSED: bool>(x: $Float) -> $Float {
                let (n, r) = reduced::<FUSED>(x.clamp($UNDERFLOW, $OVERFLOW));
                let value = scaled_gradually(multiply_add::<FUSED>(r, series::<FUSED>(r), 1.0), n);
                let value = if x > $OVERFLOW { $Float::INFINITY } else { value };
                let value = if x < $UNDERFLOW { 0.0 } else { value };
                if x.is_nan() { x } else { value }
            }

            /// The same, for x up to [`NEAR`]: there is nothing to look after at the ends.
            #[inline(always)]
            pub(in super::super) fn near_exp<const FUSED: bool>(x: $Float) -> $Float {
                let (scale, r) = near_reduced::<FUSED>(x);
                multiply_add::<FUSED>(r, series::<FUSED>(r), 1.0) * scale
            }

            #[inline(always)]
            pub(in super::super) fn exp2<const FUSED: bool>(x: $Float) -> $Float {
                let inside = x.clamp($UNDERFLOW2, $OVERFLOW2);
                let shifted = inside + MAGIC;
                let r = (inside - (shifted - MAGIC)) * std::$Float::consts::LN_2;
                let value = scaled(multiply_add::<FUSED>(r, series::<FUSED>(r), 1.0), whole(shifted));
                if x.is_nan() { x } else { value }
            }

            #[inline(always)]
            pub(in super::super) fn expm1<const FUSED: bool>(x: $Float) -> $Float {
                let (n, r) = reduced::<FUSED>(x.clamp(-$SATURATED, $OVERFLOW));
                // Half of it, since 2ⁿ itself may be beyond the largest number.
                let scale = power(n.wrapping_sub(1));
                let half = multiply_add::<FUSED>(scale * r, series::<FUSED>(r), scale - 0.5);
                let value = if x > $OVERFLOW { $Float::INFINITY } else { 2.0 * half };
                if x.is_nan() || x.abs() < TINY { x } else { value }
            }

            #[inline(always)]
            pub(in super::super) fn tanh<const FUSED: bool>(x: $Float) -> $Float {
                // t = e^(2|x|) - 1 without cancellation; tanh |x| = t / (t + 2).
                let doubled = 2.0 * x.abs();
                // What is no number is not larger, and stays none.
                let (scale, r) = near_reduced::<FUSED>(if doubled > $SATURATED { $SATURATED } else { doubled });
                let t = multiply_add::<FUSED>(scale * r, series::<FUSED>(r), scale - 1.0);
                (t / (t + 2.0)).copysign(x)
            }

            /// e and ln m, for a positive x = 2ᵉ·m with m between √½ and √2; `rest` is added before the last rounding.
            #[inline(always)]
            fn parts<const FUSED: bool>(x: $Float, rest: impl Fn($Float) -> $Float) -> ($Float, $Float) {
                // Numbers below the normal range are lifted into it.
                let tiny = x < $Float::MIN_POSITIVE;
                let lifted = if tiny { x * (1_u64 << ($MANTISSA + 1)) as $Float } else { x };
                let offset = std::$Float::consts::FRAC_1_SQRT_2.to_bits() as $Bits;
                let shifted = (lifted.to_bits() as $Bits).wrapping_sub(offset);
                let exponent = shifted >> $MANTISSA;
                let m = $Float::from_bits((lifted.to_bits() as $Bits).wrapping_sub(exponent << $MANTISSA) as $Unsigned);
                let e = exponent.wrapping_sub(if tiny { $MANTISSA + 1 } else { 0 }) as $Float;
                // ln m = 2 artanh((m - 1)/(m + 1)).
                let f = (m - 1.0) / (m + 1.0);
                let s = f * f;
                let mut sum: $Float = 0.0;
                $(sum = multiply_add::<FUSED>(sum, s, $odd);)*
                (e, multiply_add::<FUSED>(2.0 * f * s, sum, rest(e)) + 2.0 * f)
            }

            /// A logarithm where the argument has none, or an infinite one.
            #[inline(always)]
            fn logarithm_or_edge(x: $Float, value: $Float) -> $Float {
                let value = if x == 0.0 { $Float::NEG_INFINITY } else { value };
                let value = if x == $Float::INFINITY { x } else { value };
                if x < 0.0 || x.is_nan() { $Float::NAN } else { value }
            }

            #[inline(always)]
            pub(in super::super) fn ln<const FUSED: bool>(x: $Float) -> $Float {
                let (e, small) = parts::<FUSED>(x, |e| e * $LN2_LOW);
                logarithm_or_edge(x, multiply_add::<FUSED>(e, $LN2_HIGH, small))
            }

            #[inline(always)]
            pub(in super::super) fn log2<const FUSED: bool>(x: $Float) -> $Float {
                let (e, small) = parts::<FUSED>(x, |_| 0.0);
                logarithm_or_edge(x, multiply_add::<FUSED>(small, std::$Float::consts::LOG2_E, e))
            }

            #[inline(always)]
            pub(in super::super) fn log1p<const FUSED: bool>(x: $Float) -> $Float {
                // What 1 + x rounds off, relative to it, is the derivative's share of the logarithm.
                let sum = 1.0 + x;
                let back = sum - 1.0;
                let lost = ((1.0 - (sum - back)) + (x - back)) / sum;
                let (e, small) = parts::<FUSED>(sum, |e| multiply_add::<FUSED>(e, $LN2_LOW, lost));
                let value = logarithm_or_edge(sum, multiply_add::<FUSED>(e, $LN2_HIGH, small));
                if x.abs() < TINY { x } else { value }
            }

            #[inline(always)]
            pub(in super::super) fn atan<const FUSED: bool>(x: $Float) -> $Float {
                // By atan a = π/4 + atan((a - 1)/(a + 1)) = π/2 - atan(1/a) to arguments up to tan(π/8), with one division.
                let a = x.abs();
                let (middle, large) = (a > std::$Float::consts::SQRT_2 - 1.0, a > std::$Float::consts::SQRT_2 + 1.0);
                let above = if middle { a - 1.0 } else { a };
                let below = if middle { a + 1.0 } else { 1.0 };
                let t = (if large { -1.0 } else { above }) / (if large { a } else { below });
                let share: $Float = if middle { 0.5 } else { 0.0 };
                let share = if large { 1.0 } else { share };
                let s = t * t;
                let mut sum: $Float = 0.0;
                $(sum = multiply_add::<FUSED>(sum, s, $arctangent);)*
                let rest = multiply_add::<FUSED>(t * s, sum, share * $HALF_PI_LOW);
                (share * std::$Float::consts::FRAC_PI_2 + (t + rest)).copysign(x)
            }

            /// erfc a for a ≥ 0: e^(-a²)·t·P, a polynomial of where t = m/(a + m) stands between its ends.
            #[inline(always)]
            fn upper_tail<const FUSED: bool>(a: $Float) -> $Float {
                let a = a.min($END);
                // The square as the sum of an exact square and a small rest.
                let short = $Float::from_bits(a.to_bits() & (!0 << (($MANTISSA + 2) / 2)));
                let rest = (a - short) * (a + short);
                let (n, r) = reduced::<FUSED>(-(short * short));
                let r = r - rest;
                let t = $MIDDLE / (a + $MIDDLE);
                let q = multiply_add::<FUSED>(t, -2.0, 1.0);
                let mut sum: $Float = 0.0;
                $(sum = multiply_add::<FUSED>(sum, q, $tail);)*
                scaled(multiply_add::<FUSED>(r, series::<FUSED>(r), 1.0) * (t * sum), n)
            }

            #[inline(always)]
            pub(in super::super) fn erf<const FUSED: bool>(x: $Float) -> $Float {
                let a = x.abs();
                let s = (a * a).min(1.0);
                let mut sum: $Float = 0.0;
                $(sum = multiply_add::<FUSED>(sum, s, $erf);)*
                let near = multiply_add::<FUSED>(a, sum, a);
                let far = 1.0 - upper_tail::<FUSED>(a);
                let value = (if a < 1.0 { near } else { far }).copysign(x);
                if x.is_nan() { x } else { value }
            }

            #[inline(always)]
            pub(in super::super) fn erfc<const FUSED: bool>(x: $Float) -> $Float {
                let a = x.abs();
                let tail = upper_tail::<FUSED>(a);
                let value = if x < 0.0 { 2.0 - tail } else { tail };
                // Near 0, 1 - erf x by the first terms of its series, which is exact at 0.
                let near = 1.0 - (core::f64::consts::FRAC_2_SQRT_PI as $Float * x) * (1.0 - x * x / 3.0);
                let value = if a < 5e-4 { near } else { value };
                if x.is_nan() { x } else { value }
            }
        }
    };
}

// Series: 1/k! from the highest k that matters down to 1/1!. Logarithm: 1/(2k + 1) from the highest down to 1/3.
// ln 2 is split so that its high part times an exponent is exact. Beyond `saturated` e^-x is nothing beside 1.
// Arctangent: what π/2 rounds off, and (atan(t)/t - 1)/t² in t² up to tan²(π/8), interpolated at Chebyshev points.
// Erf: erf(x)/x - 1 in x² up to 1. Tail: the middle m, where nothing is left, and e^(a²)·erfc(a)/t; both interpolate at
// Chebyshev points, to a quarter of the last place.
functions! {
    double, f64, i64, u64, mantissa 52, bias 1023, ln2 6.931471803691238e-1 1.9082149292705877e-10,
    exp 709.782712893384 -745.2 near 708.0, exp2 1024.0 -1076.0,
    series 1.605904383682161e-10 2.08767569878681e-9 2.505210838544172e-8 2.755731922398589e-7 2.7557319223985893e-6
        2.48015873015873e-5 1.984126984126984e-4 1.388888888888889e-3 8.333333333333333e-3 4.1666666666666664e-2
        1.6666666666666666e-1 0.5 1.0,
    logarithm 4.3478260869565216e-2 4.761904761904762e-2 5.263157894736842e-2 5.8823529411764705e-2
        6.666666666666667e-2 7.692307692307693e-2 9.090909090909091e-2 1.111_111_111_111_111e-1 1.4285714285714285e-1
        0.2 3.333333333333333e-1,
    saturated 44.0,
    arctangent 6.123233995736766e-17 1.6285756855221028e-2 -3.4570561981427744e-2 4.551593220626549e-2
        -5.230454270650244e-2 5.878928997834775e-2 -6.666424885738255e-2 7.692296375032143e-2 -9.090908753500877e-2
        1.1111111105155447e-1 -1.4285714285659828e-1 1.9999999999999804e-1 -3.333333333333333e-1,
    erf -7.795898827002142e-10 1.3720064546777686e-8 -1.6208483801871705e-7 1.6447424703317362e-6
        -1.492473690741966e-5 1.2055294904839707e-4 -8.548325975389692e-4 5.2239776071164225e-3 -2.686617064323777e-2
        1.1283791670945006e-1 -3.7612638903183543e-1 1.2837916709551256e-1,
    tail 4.0 27.4 2.213182431720385e-10 -1.7747155973411756e-10 -3.806905173904783e-9 8.888100942249954e-10
        3.102586004414244e-8 -1.9788359178235856e-8 -2.1161944605890258e-7 3.5672912939120853e-7 1.1736869324745802e-6
        -4.7155356782859025e-6 -9.088368904175642e-7 4.420329669137562e-5 -1.1376315829956167e-4 -7.023973347308041e-5
        1.5280139118644424e-3 -6.592513333148238e-3 1.9095378727507967e-2 -4.350273431010528e-2 8.271289696949535e-2
        -1.352134578283052e-1 1.9330217556630938e-1 -2.4413718227022052e-1 2.7399891525012277e-1
}
functions! {
    single, f32, i32, u32, mantissa 23, bias 127, ln2 6.931_457_5e-1 1.428_606_8e-6,
    exp 88.722_83 -103.98 near 87.0, exp2 128.0 -151.0,
    series 1.984_127e-4 1.388_888_9e-3 8.333_333e-3 4.166_666_6e-2 1.666_666_6e-1 0.5 1.0,
    logarithm 1.111_111_1e-1 1.428_571_4e-1 0.2 3.333_333_3e-1,
    saturated 22.0,
    arctangent -4.371_139e-8 -6.451_928e-2 1.074_373_1e-1 -1.426_395_6e-1 1.999_954e-1 -3.333_333e-1,
    erf 7.875_875e-5 -8.016_864e-4 5.189_087e-3 -2.685_421_1e-2 1.128_359_4e-1 -3.761_262_6e-1 1.283_791_7e-1,
    tail 3.0 10.1 -1.113_432_7e-4 -1.665_586_5e-4 1.025_856_4e-3 -4.056_392_6e-4 -8.945_481e-3 3.984_242_7e-2
        -1.034_888_8e-1 1.967_428e-1 -2.944_648_3e-1 3.580_023e-1
}
