//! How a composed operation is added: one method, whose body is the formula.
//!
//! The method ends with [`Tensor::composed_as`], which gives errors the name, the operands and the line of the user's
//! call. A row of `docs/coming-from.md` states what PyTorch and JAX call it, and the same expression in
//! `tests/golden/page.rs` is then compared with both in value, gradient and Hessian product, and put through every
//! mode: reverse, forward, both pairs of them, `vmap`, 32 bits, the reference executor, and finite differences.

use std::panic::Location;

use crate::error::Error;
use crate::expr::Tensor;

impl Tensor {
    /// This result of a composition under the name that the user called: the error of an operand as it is, and any
    /// other failure with that name, the operands of the call, and the caller's line.
    #[track_caller]
    pub(crate) fn composed_as(self, name: &str, operands: &[&Tensor]) -> Tensor {
        if let Some(failed) = operands.iter().find(|operand| operand.error().is_some()) {
            return (*failed).clone();
        }
        match self.error() {
            Some(error) => Tensor::refused_at(error.clone().renamed(name), operands, Location::caller()),
            None => self,
        }
    }

    /// The error for operands that are not floating-point numbers.
    #[track_caller]
    pub(crate) fn not_float(name: &str, operands: &[&Tensor]) -> Option<Tensor> {
        if let Some(failed) = operands.iter().find(|operand| operand.error().is_some()) {
            return Some((*failed).clone());
        }
        let other = operands.iter().find(|operand| !operand.is_float())?;
        let message = format!("it is defined for floating-point numbers, not for {}", other.dtype());
        let error = Error::new(name, message).help("cast first, for example with .cast(DType::F32)");
        Some(Tensor::refused(error, operands))
    }
}
