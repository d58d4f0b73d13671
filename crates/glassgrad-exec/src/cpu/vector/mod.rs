//! Kernels that run over many numbers at once: rows of the table, compiled for each instruction set.
//!
//! A kernel is the row's own formula, evaluated in [`lane`]s. The list below says which rows have one, and how far the
//! worst results are from the exact ones; `tests/ulp.rs` measures that. The other rows call the platform's functions
//! number by number.
#![allow(unsafe_code)]

pub(super) mod draws;
mod functions;
mod lane;
mod sincos;

use super::isa::Isa;
use crate::algebra::Float;
use crate::ops::{Binary, Operation, Unary, rule};
use lane::Lane;

/// The kernel of a row of one argument: its parameter, the arguments, the values.
pub(super) type UnaryKernel<F> = unsafe fn(f64, &[F], &mut [F]);
/// The kernel of a row of two arguments.
pub(super) type BinaryKernel<F> = unsafe fn(&[F], &[F], &mut [F]);

/// A machine number with kernels of its own.
pub(super) trait Vectorised: Float {
    /// The kernel of a row of one argument, if it has one. It may be called on machines of the level only.
    fn unary_kernel(isa: Isa, operation: Operation) -> Option<UnaryKernel<Self>>;
    /// The kernel of a row of two arguments.
    fn binary_kernel(isa: Isa, operation: Operation) -> Option<BinaryKernel<Self>>;

    /// Applies a row of one argument to many numbers.
    fn unary(isa: Isa, operation: Operation, parameter: f64, x: &[Self], y: &mut [Self]) {
        match Self::unary_kernel(isa, operation) {
            // SAFETY: the machine has the instructions of the level at which its programs run.
            Some(kernel) => unsafe { kernel(parameter, x, y) },
            None => operation.run_unary(parameter, x, y),
        }
    }

    /// Applies a row of two arguments to many numbers.
    fn binary(isa: Isa, operation: Operation, a: &[Self], b: &[Self], y: &mut [Self]) {
        match Self::binary_kernel(isa, operation) {
            // SAFETY: as above.
            Some(kernel) => unsafe { kernel(a, b, y) },
            None => operation.run_binary(a, b, y),
        }
    }
}

/// Whether a row asks for no powers of e but those of its argument and of what is nearer to 0.
const fn is_of_powers(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Exp
            | Operation::Sigmoid
            | Operation::LogSigmoid
            | Operation::Softplus
            | Operation::Silu
            | Operation::Mish
    )
}

macro_rules! kernels {
    (unary { $($Unary:ident [$single:literal $double:literal])* } binary { $($Binary:ident [$bsingle:literal $bdouble:literal])* }) => {
        /// How far the worst results of the kernel of a row are from the exact ones, in units of the last place, for
        /// numbers of 32 and 64 bits; nothing for rows that call the platform's functions number by number.
        ///
        /// Half a unit is the best there is: the result is the exact one, rounded. They are the worst of dense
        /// samples over all exponents, subnormal numbers included, at every [`Isa`], with some room. Where `gelu`,
        /// `gelu_tanh`, `silu` and `mish` fall below the machine precision, the unit is that of the machine precision:
        /// relative to such a value itself the error is much larger.
        ///
        /// ```
        /// use glassgrad::{Operation, exec::accuracy};
        /// assert_eq!(accuracy(Operation::Sqrt), Some([0.5, 0.5]));
        /// assert_eq!(accuracy(Operation::Lgamma), None);
        /// ```
        pub fn accuracy(operation: Operation) -> Option<[f64; 2]> {
            match operation {
                $(Operation::$Unary => Some([$single, $double]),)*
                $(Operation::$Binary => Some([$bsingle, $bdouble]),)*
                _ => None,
            }
        }

        kernels!(@number f32, single_kernels, single, $($Unary)*; $($Binary)*);
        kernels!(@number f64, double_kernels, double, $($Unary)*; $($Binary)*);
    };
    (@number $Float:ident, $module:ident, $functions:ident, $($Unary:ident)*; $($Binary:ident)*) => {
        mod $module {
            use super::*;

            #[inline(always)]
            fn each<R: Unary, const FUSED: bool>(parameter: f64, x: &[$Float], y: &mut [$Float]) {
                if matches!(R::OPERATION, Operation::Powi) {
                    return powers(parameter as i32, x, y);
                }
                if is_of_powers(R::OPERATION) {
                    return powers_of_e::<R, FUSED>(parameter, x, y);
                }
                if !matches!(R::OPERATION, Operation::Sin | Operation::Cos) {
                    for (y, x) in y.iter_mut().zip(x) {
                        *y = R::value(Lane::<$Float, FUSED, false>(*x), parameter).0;
                    }
                    return;
                }
                // Up to which size the loop below is right. Very large angles, and what is no number, are rare, and for the
                // platform.
                let (size, limit) = (|x: &$Float| x.abs().to_bits(), (sincos::LIMIT as $Float).to_bits());
                let mut largest = 0;
                for (y, x) in y.iter_mut().zip(x) {
                    *y = R::value(Lane::<$Float, FUSED, true>(*x), parameter).0;
                    largest = size(x).max(largest);
                }
                if largest > limit {
                    for (y, x) in y.iter_mut().zip(x).filter(|(_, x)| size(x) > limit) {
                        *y = R::value(*x, parameter);
                    }
                }
            }

            /// Some numbers at a time: with powers of e for arguments near 0 if all are, which is faster, and with those for
            /// all arguments otherwise.
            #[inline(always)]
            fn powers_of_e<R: Unary, const FUSED: bool>(parameter: f64, x: &[$Float], y: &mut [$Float]) {
                const TOGETHER: usize = 128;
                for (x, y) in x.chunks(TOGETHER).zip(y.chunks_mut(TOGETHER)) {
                    let mut largest = 0;
                    for x in x {
                        largest = x.abs().to_bits().max(largest);
                    }
                    if largest > functions::$functions::NEAR.to_bits() {
                        for (y, x) in y.iter_mut().zip(x) {
                            *y = R::value(Lane::<$Float, FUSED, false>(*x), parameter).0;
                        }
                    } else {
                        for (y, x) in y.iter_mut().zip(x) {
                            *y = R::value(Lane::<$Float, FUSED, true>(*x), parameter).0;
                        }
                    }
                }
            }

            /// The power by squaring, of some numbers at once: the exponent is the same for all.
            #[inline(always)]
            fn powers(exponent: i32, x: &[$Float], y: &mut [$Float]) {
                const TOGETHER: usize = 64;
                for (x, y) in x.chunks(TOGETHER).zip(y.chunks_mut(TOGETHER)) {
                    let mut base = [1.0; TOGETHER];
                    let mut power = [1.0; TOGETHER];
                    base[..x.len()].copy_from_slice(x);
                    let mut rest = exponent.unsigned_abs();
                    while rest > 0 {
                        if rest % 2 == 1 {
                            power.iter_mut().zip(&base).for_each(|(power, base)| *power *= base);
                        }
                        base.iter_mut().for_each(|base| *base *= *base);
                        rest /= 2;
                    }
                    if exponent < 0 {
                        power.iter_mut().for_each(|power| *power = 1.0 / *power);
                    }
                    y.copy_from_slice(&power[..y.len()]);
                }
            }

            #[inline(always)]
            fn both<R: Binary>(a: &[$Float], b: &[$Float], y: &mut [$Float]) {
                for (y, (a, b)) in y.iter_mut().zip(a.iter().zip(b)) {
                    *y = R::value(*a, *b);
                }
            }

            fn narrow<R: Unary>(parameter: f64, x: &[$Float], y: &mut [$Float]) {
                each::<R, { Isa::BASELINE_FUSES }>(parameter, x, y);
            }
            fn narrow_both<R: Binary>(a: &[$Float], b: &[$Float], y: &mut [$Float]) {
                both::<R>(a, b, y);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn medium<R: Unary>(parameter: f64, x: &[$Float], y: &mut [$Float]) {
                each::<R, true>(parameter, x, y);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn medium_both<R: Binary>(a: &[$Float], b: &[$Float], y: &mut [$Float]) {
                both::<R>(a, b, y);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
            fn wide<R: Unary>(parameter: f64, x: &[$Float], y: &mut [$Float]) {
                each::<R, true>(parameter, x, y);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
            fn wide_both<R: Binary>(a: &[$Float], b: &[$Float], y: &mut [$Float]) {
                both::<R>(a, b, y);
            }

            impl Vectorised for $Float {
                fn unary_kernel(isa: Isa, operation: Operation) -> Option<UnaryKernel<Self>> {
                    Some(match (isa, operation) {
                        $((Isa::Baseline, Operation::$Unary) => narrow::<rule::$Unary>,)*
                        $(#[cfg(target_arch = "x86_64")]
                        (Isa::Avx2, Operation::$Unary) => medium::<rule::$Unary>,)*
                        $(#[cfg(target_arch = "x86_64")]
                        (Isa::Avx512, Operation::$Unary) => wide::<rule::$Unary>,)*
                        _ => return None,
                    })
                }
                fn binary_kernel(isa: Isa, operation: Operation) -> Option<BinaryKernel<Self>> {
                    Some(match (isa, operation) {
                        $((Isa::Baseline, Operation::$Binary) => narrow_both::<rule::$Binary>,)*
                        $(#[cfg(target_arch = "x86_64")]
                        (Isa::Avx2, Operation::$Binary) => medium_both::<rule::$Binary>,)*
                        $(#[cfg(target_arch = "x86_64")]
                        (Isa::Avx512, Operation::$Binary) => wide_both::<rule::$Binary>,)*
                        _ => return None,
                    })
                }
            }
        }
    };
}

// The row, and its worst error in units of the last place in 32 and in 64 bits. `powi` is judged at its default.
kernels! {
    unary {
        Neg [0.5 0.5] Recip [0.5 0.5] Square [0.5 0.5] Sqrt [0.5 0.5] Rsqrt [1.5 1.5] Powi [1.5 1.5]
        Exp [1.25 1.25] Exp2 [1.25 1.25] Expm1 [2.5 2.5] Ln [2.0 2.0] Log2 [3.25 3.0] Log1p [2.25 2.25]
        Sin [0.75 1.0] Cos [0.75 1.0] Atan [2.0 2.0] Tanh [3.0 3.0]
        Sigmoid [2.5 2.5] LogSigmoid [3.0 3.0] Softplus [3.0 3.0] Softsign [1.5 1.5]
        Relu [0.5 0.5] LeakyRelu [1.0 1.0] Elu [2.5 2.5] Silu [3.5 3.5] Mish [6.0 6.0]
        Gelu [32.0 100.0] GeluTanh [48.0 90.0] Erf [2.0 2.0] Erfc [7.0 9.0]
        Abs [0.5 0.5] Sign [0.5 0.5] Step [0.5 0.5]
    }
    binary { Add [0.5 0.5] Sub [0.5 0.5] Mul [0.5 0.5] Div [0.5 0.5] Max [0.5 0.5] Min [0.5 0.5] }
}
