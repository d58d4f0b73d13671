//! Rounding noise, for tests: how far rounding errors can move a result is measured by perturbing them.
//!
//! Inside of [`with_rounding_noise`] the definitions multiply every operand of a formula, every term of a sum and every result
//! that is rounded by 1 + δ, with |δ| between half and all of some units in the last place. The change of a result then bounds
//! what other orders of summation, fused multiply-add and functions that are accurate to a few units can do to it: also where terms
//! cancel, and inside of derivatives, which perturbations of a program's operands do not reach.

use std::cell::Cell;

use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::rng::Key;

/// Perturbations of a size, drawn from a key by number.
#[derive(Clone, Copy)]
struct Noise {
    key: Key,
    drawn: u64,
    units: f64,
}

thread_local! {
    /// The noise that is added, if any.
    static NOISE: Cell<Option<Noise>> = const { Cell::new(None) };
}

/// Calls a function on whose thread the reference executor's definitions perturb whatever they round, by up to `units` in the last place.
/// This is for tests: it bounds the rounding errors of other executors.
///
/// ```
/// use glassgrad::{Tensor, exec::with_rounding_noise};
/// let difference = || (Tensor::from(1.0).exp() - Tensor::from(1.0).exp().cbrt().powi(3)).eval_by_reference();
/// let noisy = with_rounding_noise(7, 4.0, difference).unwrap().buffer().get(0);
/// assert!(noisy != difference().unwrap().buffer().get(0) && noisy.abs() < 1e-13);
/// ```
#[doc(hidden)]
pub fn with_rounding_noise<R>(seed: u64, units: f64, function: impl FnOnce() -> R) -> R {
    /// Restores the former state, also if the function panics.
    struct Restore(Option<Noise>);
    impl Drop for Restore {
        fn drop(&mut self) {
            NOISE.set(self.0);
        }
    }
    let _restore = Restore(NOISE.replace(Some(Noise { key: Key::new(seed), drawn: 0, units })));
    function()
}

/// Whether noise is added on this thread.
pub fn is_on() -> bool {
    NOISE.get().is_some()
}

/// A number of a type, perturbed.
pub fn perturbed(value: f64, dtype: DType) -> f64 {
    let Some(noise) = NOISE.get() else { return value };
    NOISE.set(Some(Noise { drawn: noise.drawn + 1, ..noise }));
    // From -1 to 1, without the half around zero.
    let drawn = 2.0 * noise.key.uniform(noise.drawn) - 1.0;
    value * (1.0 + drawn.signum() * (0.5 + drawn.abs() / 2.0) * noise.units * dtype.epsilon())
}

/// An array of floating-point numbers, perturbed; others are as they were.
pub fn perturbed_array(array: &Array) -> Array {
    let dtype = array.dtype();
    if !is_on() || !dtype.is_float() {
        return array.clone();
    }
    let buffer = Buffer::from_fn(dtype, array.buffer().len(), |k| perturbed(array.buffer().get(k), dtype));
    Array::new(array.shape().clone(), buffer)
}
