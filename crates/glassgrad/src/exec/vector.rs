//! Kernels that run over many numbers at once: the arithmetic rows, and the base functions exp, ln and tanh
//! without branches or calls, so that the compiler turns them into vector instructions.
//!
//! Every kernel is compiled for each level of instructions that x86 machines have, and the best is chosen at run
//! time. The worst errors, measured by the tests below against the platform's functions, are stated there.
#![allow(unsafe_code)]

use crate::ops::Operation;

/// A machine number with kernels of its own.
pub(super) trait Vectorised: Sized {
    /// Applies a row of one argument; false if there is no kernel for it.
    fn unary(operation: Operation, x: &[Self], y: &mut [Self]) -> bool;
    /// Applies a row of two arguments; false if there is no kernel for it.
    fn binary(operation: Operation, a: &[Self], b: &[Self], y: &mut [Self]) -> bool;
}

macro_rules! kernels {
    ($Float:ident, $Bits:ident, $Unsigned:ident, $module:ident,
     mantissa $MANTISSA:literal, bias $BIAS:literal, ln2 $LN2_HIGH:literal $LN2_LOW:literal,
     exp $OVERFLOW:literal $UNDERFLOW:literal, series $($coefficient:literal)*, logarithm $($odd:literal)*,
     saturated $SATURATED:literal) => {
        mod $module {
            use crate::ops::Operation;

            /// Adding this rounds to a whole number, which then stands in the lowest bits.
            const MAGIC: $Float = 1.5 * (1_u64 << $MANTISSA) as $Float;

            #[inline(always)]
            fn multiply_add<const FUSED: bool>(a: $Float, b: $Float, c: $Float) -> $Float {
                if FUSED { a.mul_add(b, c) } else { a * b + c }
            }

            /// n and r with x = n·ln 2 + r and |r| ≤ ln 2 / 2.
            #[inline(always)]
            fn reduced<const FUSED: bool>(x: $Float) -> ($Bits, $Float) {
                let shifted = multiply_add::<FUSED>(x, std::$Float::consts::LOG2_E, MAGIC);
                let n = shifted - MAGIC;
                let r = multiply_add::<FUSED>(n, -$LN2_HIGH, x);
                let r = multiply_add::<FUSED>(n, -$LN2_LOW, r);
                ((shifted.to_bits() as $Bits).wrapping_sub(MAGIC.to_bits() as $Bits), r)
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
                $Float::from_bits(((n + $BIAS) as $Unsigned) << $MANTISSA)
            }

            #[inline(always)]
            fn exp<const FUSED: bool>(x: $Float) -> $Float {
                let inside = x.clamp($UNDERFLOW, $OVERFLOW);
                let (n, r) = reduced::<FUSED>(inside);
                let near_one = multiply_add::<FUSED>(r, series::<FUSED>(r), 1.0);
                // In two steps, so that numbers below the normal range are reached.
                let half = n >> 1;
                let value = near_one * power(half) * power(n - half);
                let value = if x > $OVERFLOW { $Float::INFINITY } else { value };
                let value = if x < $UNDERFLOW { 0.0 } else { value };
                if x.is_nan() { x } else { value }
            }

            #[inline(always)]
            fn tanh<const FUSED: bool>(x: $Float) -> $Float {
                // t = e^(2|x|) - 1 without cancellation; tanh |x| = t / (t + 2).
                let doubled = (2.0 * x.abs()).min($SATURATED);
                let (n, r) = reduced::<FUSED>(doubled);
                let scale = power(n);
                let t = multiply_add::<FUSED>(scale * r, series::<FUSED>(r), scale - 1.0);
                let value = (t / (t + 2.0)).copysign(x);
                if x.is_nan() { x } else { value }
            }

            #[inline(always)]
            fn sigmoid<const FUSED: bool>(x: $Float) -> $Float {
                let small = exp::<FUSED>(-x.abs());
                let share = 1.0 / (1.0 + small);
                if x >= 0.0 { share } else { small * share }
            }

            #[inline(always)]
            fn ln<const FUSED: bool>(x: $Float) -> $Float {
                // Numbers below the normal range are lifted into it.
                let tiny = x < $Float::MIN_POSITIVE;
                let lift = (1_u64 << ($MANTISSA + 1)) as $Float;
                let lifted = if tiny { x * lift } else { x };
                // x = 2ᵉ·m with m between √½ and √2.
                let offset = std::$Float::consts::FRAC_1_SQRT_2.to_bits() as $Bits;
                let shifted = (lifted.to_bits() as $Bits).wrapping_sub(offset);
                let exponent = shifted >> $MANTISSA;
                let m = $Float::from_bits((lifted.to_bits() as $Bits).wrapping_sub(exponent << $MANTISSA) as $Unsigned);
                let exponent = exponent - if tiny { $MANTISSA + 1 } else { 0 };
                let e = exponent as $Float;
                // ln m = 2 artanh((m - 1)/(m + 1)).
                let f = (m - 1.0) / (m + 1.0);
                let s = f * f;
                let mut sum: $Float = 0.0;
                $(sum = multiply_add::<FUSED>(sum, s, $odd);)*
                let small = multiply_add::<FUSED>(2.0 * f * s, sum, e * $LN2_LOW) + 2.0 * f;
                let value = multiply_add::<FUSED>(e, $LN2_HIGH, small);
                let value = if x == 0.0 { $Float::NEG_INFINITY } else { value };
                let value = if x == $Float::INFINITY { x } else { value };
                if x < 0.0 || x.is_nan() { $Float::NAN } else { value }
            }

            #[inline(always)]
            fn each(x: &[$Float], y: &mut [$Float], function: impl Fn($Float) -> $Float) -> bool {
                y.iter_mut().zip(x).for_each(|(y, x)| *y = function(*x));
                true
            }

            #[inline(always)]
            fn both(a: &[$Float], b: &[$Float], y: &mut [$Float], function: impl Fn($Float, $Float) -> $Float) -> bool {
                y.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (a, b))| *y = function(*a, *b));
                true
            }

            #[inline(always)]
            pub(super) fn unary<const FUSED: bool>(operation: Operation, x: &[$Float], y: &mut [$Float]) -> bool {
                match operation {
                    Operation::Neg => each(x, y, |x| -x),
                    Operation::Square => each(x, y, |x| x * x),
                    Operation::Recip => each(x, y, |x| 1.0 / x),
                    Operation::Sqrt => each(x, y, $Float::sqrt),
                    Operation::Exp => each(x, y, exp::<FUSED>),
                    Operation::Ln => each(x, y, ln::<FUSED>),
                    Operation::Tanh => each(x, y, tanh::<FUSED>),
                    Operation::Sigmoid => each(x, y, sigmoid::<FUSED>),
                    _ => false,
                }
            }

            #[inline(always)]
            pub(super) fn binary(operation: Operation, a: &[$Float], b: &[$Float], y: &mut [$Float]) -> bool {
                match operation {
                    Operation::Add => both(a, b, y, |a, b| a + b),
                    Operation::Sub => both(a, b, y, |a, b| a - b),
                    Operation::Mul => both(a, b, y, |a, b| a * b),
                    Operation::Div => both(a, b, y, |a, b| a / b),
                    _ => false,
                }
            }
        }

        impl Vectorised for $Float {
            fn unary(operation: Operation, x: &[Self], y: &mut [Self]) -> bool {
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
                    fn wide(operation: Operation, x: &[$Float], y: &mut [$Float]) -> bool {
                        $module::unary::<true>(operation, x, y)
                    }
                    #[target_feature(enable = "avx2,fma")]
                    fn medium(operation: Operation, x: &[$Float], y: &mut [$Float]) -> bool {
                        $module::unary::<true>(operation, x, y)
                    }
                    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
                        // SAFETY: the machine has these instructions.
                        return unsafe { wide(operation, x, y) };
                    }
                    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                        // SAFETY: as above.
                        return unsafe { medium(operation, x, y) };
                    }
                }
                $module::unary::<false>(operation, x, y)
            }

            fn binary(operation: Operation, a: &[Self], b: &[Self], y: &mut [Self]) -> bool {
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx512f,avx2,fma")]
                    fn wide(operation: Operation, a: &[$Float], b: &[$Float], y: &mut [$Float]) -> bool {
                        $module::binary(operation, a, b, y)
                    }
                    #[target_feature(enable = "avx2,fma")]
                    fn medium(operation: Operation, a: &[$Float], b: &[$Float], y: &mut [$Float]) -> bool {
                        $module::binary(operation, a, b, y)
                    }
                    if is_x86_feature_detected!("avx512f") {
                        // SAFETY: the machine has these instructions.
                        return unsafe { wide(operation, a, b, y) };
                    }
                    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                        // SAFETY: as above.
                        return unsafe { medium(operation, a, b, y) };
                    }
                }
                $module::binary(operation, a, b, y)
            }
        }
    };
}

// Series: 1/k! from the highest k that matters down to 1/1!. Logarithm: 1/(2k + 1) from the highest down to 1/3.
// ln 2 is split so that its high part times an exponent is exact.
kernels! {
    f64, i64, u64, double, mantissa 52, bias 1023, ln2 6.931471803691238e-1 1.9082149292705877e-10,
    exp 709.782712893384 -745.2,
    series 1.605904383682161e-10 2.08767569878681e-9 2.505210838544172e-8 2.755731922398589e-7 2.7557319223985893e-6
        2.48015873015873e-5 1.984126984126984e-4 1.388888888888889e-3 8.333333333333333e-3 4.1666666666666664e-2
        1.6666666666666666e-1 0.5 1.0,
    logarithm 4.3478260869565216e-2 4.761904761904762e-2 5.263157894736842e-2 5.8823529411764705e-2
        6.666666666666667e-2 7.692307692307693e-2 9.090909090909091e-2 1.111_111_111_111_111e-1 1.4285714285714285e-1
        0.2 3.333333333333333e-1,
    saturated 44.0
}
kernels! {
    f32, i32, u32, single, mantissa 23, bias 127, ln2 6.931_457_5e-1 1.428_606_8e-6,
    exp 88.722_83 -103.98,
    series 1.984_127e-4 1.388_888_9e-3 8.333_333e-3 4.166_666_6e-2 1.666_666_6e-1 0.5 1.0,
    logarithm 1.111_111_1e-1 1.428_571_4e-1 0.2 3.333_333_3e-1,
    saturated 22.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance in units of the last place of the exact value.
    fn distance_f64(found: f64, exact: f64) -> f64 {
        if found == exact || (found.is_nan() && exact.is_nan()) {
            return 0.0;
        }
        let unit = f64::from_bits(exact.abs().to_bits() + 1) - exact.abs();
        (found - exact).abs() / unit
    }

    fn worst_f64(operation: Operation, exact: fn(f64) -> f64, points: &[f64]) -> f64 {
        let mut found = vec![0.0; points.len()];
        assert!(f64::unary(operation, points, &mut found));
        points.iter().zip(&found).map(|(x, y)| distance_f64(*y, exact(*x))).fold(0.0, f64::max)
    }

    fn worst_f32(operation: Operation, exact: fn(f64) -> f64, points: &[f32]) -> f64 {
        let mut found = vec![0.0; points.len()];
        assert!(f32::unary(operation, points, &mut found));
        let distance = |x: f32, y: f32| {
            let exact = exact(f64::from(x));
            let rounded = exact as f32;
            if y == rounded || (y.is_nan() && rounded.is_nan()) {
                return 0.0;
            }
            let unit = f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
            (f64::from(y) - exact).abs() / unit
        };
        points.iter().zip(&found).map(|(x, y)| distance(*x, *y)).fold(0.0, f64::max)
    }

    fn grid(from: f64, to: f64, count: usize) -> Vec<f64> {
        (0..count).map(|k| from + (to - from) * k as f64 / (count - 1) as f64).collect()
    }

    fn logarithmic(from: f64, to: f64, count: usize) -> Vec<f64> {
        grid(from.ln(), to.ln(), count).into_iter().map(f64::exp).collect()
    }

    #[test]
    fn worst_errors_are_as_stated() {
        let sigmoid = |x: f64| if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) };
        let both = |points: Vec<f64>| -> Vec<f64> { points.iter().flat_map(|x| [*x, -*x]).collect() };
        let wide = [grid(-745.0, 709.7, 200_001), both(logarithmic(1e-300, 1.0, 20_001))].concat();
        let near = [grid(-30.0, 30.0, 200_001), both(logarithmic(1e-300, 1.0, 20_001))].concat();
        let positive = [logarithmic(1e-308, 1e308, 200_001), grid(0.5, 2.0, 200_001)].concat();
        // Against the platform's functions, which have errors of their own below one unit.
        assert!(worst_f64(Operation::Exp, f64::exp, &wide) <= 1.0);
        assert!(worst_f64(Operation::Tanh, f64::tanh, &near) <= 3.0);
        assert!(worst_f64(Operation::Sigmoid, sigmoid, &grid(-700.0, 700.0, 200_001)) <= 2.0);
        assert!(worst_f64(Operation::Ln, f64::ln, &positive) <= 2.0);
        let single = |points: &[f64]| -> Vec<f32> { points.iter().map(|x| *x as f32).collect() };
        let wide = single(&[grid(-87.0, 88.7, 200_001), both(logarithmic(1e-37, 1.0, 20_001))].concat());
        let near = single(&[grid(-15.0, 15.0, 200_001), both(logarithmic(1e-37, 1.0, 20_001))].concat());
        let positive = single(&[logarithmic(1e-37, 1e38, 200_001), grid(0.5, 2.0, 200_001)].concat());
        assert!(worst_f32(Operation::Exp, f64::exp, &wide) <= 1.0);
        assert!(worst_f32(Operation::Tanh, f64::tanh, &near) <= 3.0);
        assert!(worst_f32(Operation::Sigmoid, sigmoid, &single(&grid(-80.0, 80.0, 200_001))) <= 2.5);
        assert!(worst_f32(Operation::Ln, f64::ln, &positive) <= 2.0);
    }

    #[test]
    fn the_ends_of_the_number_range_are_those_of_the_platform() {
        let points = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 5e-324, -5e-324, 1e-310, 800.0, -800.0];
        for (operation, exact) in
            [(Operation::Exp, f64::exp as fn(f64) -> f64), (Operation::Tanh, f64::tanh), (Operation::Ln, f64::ln)]
        {
            let mut found = [0.0; 10];
            assert!(f64::unary(operation, &points, &mut found));
            for (x, y) in points.iter().zip(found) {
                assert!(distance_f64(y, exact(*x)) <= 2.0, "{operation:?} of {x} is {y}, not {}", exact(*x));
            }
        }
    }
}
