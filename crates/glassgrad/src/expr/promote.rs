//! Type promotion: operands of different element types are cast to the type that both convert to without losing
//! precision, and functions of floating-point numbers take integers as numbers of the default type.
//!
//! The order is bool < u8 < i32 < i64 < f16, bf16 < f32 < f64, as in JAX. A cast is a node like any other, so its transpose gives a
//! cotangent the type of its primal: parameters of 32 bits beside data of 64 bits keep gradients of 32 bits.

use std::borrow::Cow;

use super::build::{Aligned, references};
use super::node::Tensor;
use crate::dtype::DType;
use crate::error::Error;
use crate::ops::{Operation, Relation};

impl Tensor {
    /// The type that operands are promoted to, of which there is at least one.
    pub(crate) fn common_type(operands: &[&Tensor]) -> DType {
        let types = operands.iter().map(|operand| operand.dtype());
        types.reduce(DType::promote).unwrap_or_default()
    }

    /// The operands in one type; those that have it are borrowed.
    #[track_caller]
    pub(crate) fn cast_all<'t>(operands: &[&'t Tensor], dtype: DType) -> Aligned<'t> {
        // A loop and no closure, which would not pass the caller's line on.
        let mut cast = Aligned::new();
        for operand in operands {
            cast.push(match operand.error().is_some() || operand.dtype() == dtype {
                true => Cow::Borrowed(*operand),
                false => Cow::Owned(operand.cast(dtype)),
            });
        }
        cast
    }

    /// The operands in their common type, or the first failure among them.
    #[track_caller]
    pub(crate) fn promoted<'t>(operands: &[&'t Tensor]) -> Result<Aligned<'t>, Tensor> {
        match operands.iter().find(|operand| operand.error().is_some()) {
            Some(failed) => Err((*failed).clone()),
            None => Ok(Tensor::cast_all(operands, Tensor::common_type(operands))),
        }
    }

    /// A tensor that must take on the type of another, which happens only if no precision is lost: new entries of a
    /// tensor do not change the type of the others.
    #[track_caller]
    pub(crate) fn fitted(&self, name: &str, target: &Tensor) -> Result<Tensor, Tensor> {
        match (target.error(), self.error()) {
            (Some(_), _) => return Err(target.clone()),
            (None, Some(error)) if error.operation() == "literal" => {
                return Err(Tensor::refused(error.clone().renamed(name), &[target]));
            }
            (None, Some(_)) => return Err(self.clone()),
            (None, None) => {}
        }
        let (found, wanted) = (self.dtype(), target.dtype());
        if found.promote(wanted) == wanted {
            return Ok(self.cast(wanted));
        }
        let message = format!("values of type {found} would lose precision in a tensor of type {wanted}");
        let help = format!("cast the tensor with .cast(DType::{found:?}), or the values with .cast(DType::{wanted:?})");
        Err(Tensor::refused(Error::new(name, message).help(help), &[target, self]))
    }

    /// Integers as indices: in `i64`, whatever their width. Other types are left to be refused.
    #[track_caller]
    pub(crate) fn as_indices(&self) -> Cow<'_, Tensor> {
        match self.error().is_none() && self.dtype().is_integer() && self.dtype() != DType::I64 {
            true => Cow::Owned(self.cast(DType::I64)),
            false => Cow::Borrowed(self),
        }
    }

    /// A row of the table whose result is an integer wherever its argument is one.
    #[track_caller]
    pub(crate) fn integer_row(&self, operation: Operation) -> Option<Tensor> {
        if self.error().is_some() || !self.dtype().is_integer() {
            return None;
        }
        let truth = |holds: Tensor| holds.cast(self.dtype());
        let result = match operation {
            Operation::Square => self * self,
            Operation::Abs => self.lt(0).choose(&-self, self),
            Operation::Relu => self.lt(0).choose(&self.zeros_like(), self),
            Operation::Sign => truth(self.gt(0)) - truth(self.lt(0)),
            Operation::Floor | Operation::Ceil | Operation::Round => self.clone(),
            _ => return None,
        };
        Some(result.reported_as(operation.name(), &[self]))
    }

    /// A row of two arguments whose result is an integer wherever both arguments are.
    #[track_caller]
    pub(crate) fn integer_row_of_two(&self, operation: Operation, other: &Tensor) -> Option<Tensor> {
        let operands = [self, other];
        if operands.into_iter().any(|operand| operand.error().is_some()) {
            return None;
        }
        let common = Tensor::common_type(&operands);
        if !common.is_integer() {
            return None;
        }
        let relation = match operation {
            Operation::Max => Relation::GreaterOrEqual,
            Operation::Min => Relation::LessOrEqual,
            _ => return None,
        };
        let promoted = Tensor::cast_all(&operands, common);
        let [a, b] = references(&promoted)[..] else { unreachable!("two operands were promoted") };
        Some(a.compare(relation, b).choose(a, b).reported_as(operation.name(), &operands))
    }
}
