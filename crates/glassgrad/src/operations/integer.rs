//! Arithmetic of integers: floor division, remainders and bits.

use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{CustomOp, IntoTensor, Rule, Tensor, references};
use crate::shape::Shape;

use super::indexing::integers;

/// Quotients and remainders that are rounded down.
impl Tensor {
    /// The quotient rounded down to an integer, of integers or of floating-point numbers; flat everywhere. Dividing an
    /// integer by 0 is an error when it is read.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([7_i64, -7]).floor_divide(2).to_string(), "[ 3, -4]");
    /// assert_eq!(Tensor::from([7.5, -7.5]).floor_divide(2.0).to_string(), "[ 3, -4]");
    /// ```
    #[track_caller]
    pub fn floor_divide(&self, divisor: impl IntoTensor) -> Tensor {
        let divisor = divisor.into_tensor(self);
        if self.dtype().promote(divisor.dtype()).is_integer() {
            return self.integer_operation(Integer::FloorDivide, &divisor);
        }
        // Without the remainder the quotient is an integer but for its rounding.
        let whole = ((self - self.remainder(&divisor)) / &divisor).round();
        let quotient = divisor.equal(0.0).choose(&(self / &divisor), &whole);
        quotient.composed_as("floor_divide", &[self, &divisor])
    }

    /// The remainder with the sign of the divisor: what `%` is in Python, and `remainder` in NumPy, JAX and PyTorch.
    /// The operator `%` takes the sign of the dividend.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([7.5, -7.5]).remainder(2.0).to_string(), "[1.5, 0.5]");
    /// assert_eq!(Tensor::from([7_i64, -7]).remainder(4).to_string(), "[3, 1]");
    /// ```
    #[track_caller]
    pub fn remainder(&self, divisor: impl IntoTensor) -> Tensor {
        let divisor = divisor.into_tensor(self);
        if self.dtype().promote(divisor.dtype()).is_integer() {
            return self.integer_operation(Integer::Remainder, &divisor);
        }
        let truncated = self % &divisor;
        let other_sign = (&truncated * divisor.sign()).lt(0.0);
        other_sign.choose(&(&truncated + &divisor), &truncated).composed_as("remainder", &[self, &divisor])
    }
}

/// Bits of integers; of truth values where that makes sense.
impl Tensor {
    /// The bits that are set in both.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([6_i64, 5]).bitwise_and(3).to_string(), "[2, 1]");
    /// ```
    #[track_caller]
    pub fn bitwise_and(&self, other: impl IntoTensor) -> Tensor {
        self.integer_operation(Integer::And, &other.into_tensor(self))
    }

    /// The bits that are set in at least one.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([6_i64, 4]).bitwise_or(1).to_string(), "[7, 5]");
    /// ```
    #[track_caller]
    pub fn bitwise_or(&self, other: impl IntoTensor) -> Tensor {
        self.integer_operation(Integer::Or, &other.into_tensor(self))
    }

    /// The bits that are set in exactly one.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([6_i64, 5]).bitwise_xor(3).to_string(), "[5, 6]");
    /// assert_eq!(Tensor::from([true, false]).bitwise_xor(Tensor::from([true, true])).to_string(), "[false,  true]");
    /// ```
    #[track_caller]
    pub fn bitwise_xor(&self, other: impl IntoTensor) -> Tensor {
        self.integer_operation(Integer::Xor, &other.into_tensor(self))
    }

    /// All bits inverted, so that n becomes -1 - n.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([0_i64, 5]).bitwise_not().to_string(), "[-1, -6]");
    /// ```
    #[track_caller]
    pub fn bitwise_not(&self) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        match self.dtype() {
            DType::Bool => self.not(),
            DType::I64 | DType::I32 | DType::U8 => (-self - 1).composed_as("bitwise_not", &[self]),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => self.no_integers("bitwise_not", self),
        }
    }

    /// The bits moved to higher places; those that leave are lost. Moving by less than 0 or more than 63 places is an
    /// error when it is read.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1_i64, 3]).shift_left(4).to_string(), "[16, 48]");
    /// ```
    #[track_caller]
    pub fn shift_left(&self, places: impl IntoTensor) -> Tensor {
        self.integer_operation(Integer::ShiftLeft, &places.into_tensor(self))
    }

    /// The bits moved to lower places with the sign kept: the quotient by a power of two, rounded down.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([17_i64, -17]).shift_right(4).to_string(), "[ 1, -2]");
    /// ```
    #[track_caller]
    pub fn shift_right(&self, places: impl IntoTensor) -> Tensor {
        self.integer_operation(Integer::ShiftRight, &places.into_tensor(self))
    }

    #[track_caller]
    fn integer_operation(&self, operation: Integer, other: &Tensor) -> Tensor {
        let name = operation.name();
        let operands = [self, other];
        if let Some(failed) = operands.into_iter().find(|operand| operand.error().is_some()) {
            return failed.clone();
        }
        let dtype = Tensor::common_type(&operands);
        let aligned = match Tensor::aligned(name, &operands) {
            Ok(aligned) => aligned,
            Err(failed) => return failed,
        };
        match dtype {
            // Narrow integers are computed in 64 bits and wrap.
            DType::I64 | DType::I32 | DType::U8 => {
                let integers = Tensor::cast_all(&references(&aligned), DType::I64);
                Tensor::custom(operation, &references(&integers)).cast(dtype)
            }
            DType::Bool if matches!(operation, Integer::And | Integer::Or | Integer::Xor) => {
                let integers = Tensor::cast_all(&references(&aligned), DType::I64);
                Tensor::custom(operation, &references(&integers)).cast(DType::Bool)
            }
            DType::Bool | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => self.no_integers(name, other),
        }
    }

    #[track_caller]
    fn no_integers(&self, name: &str, other: &Tensor) -> Tensor {
        let message = format!("it is defined for integers, not for {}", self.dtype().promote(other.dtype()));
        let error = Error::new(name, message).help("cast first, for example with .cast(DType::I64)");
        Tensor::refused(error, &[self, other])
    }
}

/// An operation on pairs of integers of one shape.
#[derive(Clone, Copy, Debug)]
enum Integer {
    FloorDivide,
    Remainder,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

impl Integer {
    fn of(self, a: i64, b: i64) -> Result<i64, String> {
        let zero = || "an integer is divided by 0".to_owned();
        let places = || match u32::try_from(b) {
            Ok(places) if places < 64 => Ok(places),
            _ => Err(format!("integers of 64 bits are shifted by 0 to 63 places, not by {b}")),
        };
        // Dividing the smallest integer by -1 wraps around, as all arithmetic of 64 bits does.
        let remainder = |a: i64, b: i64| {
            let truncated = a.wrapping_rem(b);
            if truncated != 0 && (truncated < 0) != (b < 0) { truncated + b } else { truncated }
        };
        Ok(match self {
            Integer::FloorDivide if b == 0 => return Err(zero()),
            Integer::Remainder if b == 0 => return Err(zero()),
            Integer::FloorDivide => a.wrapping_div(b) - i64::from(a.wrapping_rem(b) != 0 && (a < 0) != (b < 0)),
            Integer::Remainder => remainder(a, b),
            Integer::And => a & b,
            Integer::Or => a | b,
            Integer::Xor => a ^ b,
            Integer::ShiftLeft => a << places()?,
            Integer::ShiftRight => a >> places()?,
        })
    }
}

impl CustomOp for Integer {
    fn key(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }

    fn name(&self) -> &'static str {
        match self {
            Integer::FloorDivide => "floor_divide",
            Integer::Remainder => "remainder",
            Integer::And => "bitwise_and",
            Integer::Or => "bitwise_or",
            Integer::Xor => "bitwise_xor",
            Integer::ShiftLeft => "shift_left",
            Integer::ShiftRight => "shift_right",
        }
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((inputs[0].shape().clone(), DType::I64))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let pairs = integers(&inputs[0]).iter().zip(integers(&inputs[1]));
        let results = pairs.map(|(a, b)| self.of(*a, *b)).collect::<Result<_, String>>()?;
        Ok(Array::new(inputs[0].shape().clone(), Buffer::I64(results)))
    }

    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|_| vec![None, None]))
    }

    fn batched(&self, inputs: &[Tensor], with_axis: &[bool]) -> Option<Tensor> {
        let shape = inputs.iter().zip(with_axis).find(|(_, has)| **has)?.0.shape();
        let all: Vec<Tensor> = inputs.iter().map(|input| input.broadcast_to(shape)).collect();
        Some(Tensor::custom(*self, &[&all[0], &all[1]]))
    }
}
