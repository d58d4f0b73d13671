//! Questions with the answer yes or no, and what is done with the answers.

use crate::array::{Array, Buffer};
use crate::diff::Fallible;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Axes, IntoTensor, Tensor};
use crate::shape::Shape;

/// Questions about each element.
impl Tensor {
    /// Where elements are NaN.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, f64::NAN]).is_nan().to_string(), "[false,  true]");
    /// ```
    #[track_caller]
    pub fn is_nan(&self) -> Tensor {
        self.not_equal(self)
    }

    /// Where elements are infinite.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, -1.0 / 0.0]).is_infinite().to_string(), "[false,  true]");
    /// ```
    #[track_caller]
    pub fn is_infinite(&self) -> Tensor {
        let answer = if self.is_float() { self.abs().equal(f64::INFINITY) } else { self.not_equal(self) };
        if self.error().is_some() { self.clone() } else { answer }
    }

    /// Where elements are neither infinite nor NaN.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, f64::NAN, f64::INFINITY]).is_finite().to_string(), "[ true, false, false]");
    /// ```
    #[track_caller]
    pub fn is_finite(&self) -> Tensor {
        let answer = if self.is_float() { self.abs().lt(f64::INFINITY) } else { self.equal(self) };
        if self.error().is_some() { self.clone() } else { answer }
    }

    /// Where |self - other| ≤ absolute + relative·|other|. NaN is close to nothing, and infinities only to themselves.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (a, b) = (Tensor::from([1.0, 2.0]), Tensor::from([1.0 + 1e-12, 2.1]));
    /// assert_eq!(a.is_close(&b, 1e-9, 0.0).to_string(), "[ true, false]");
    /// ```
    #[track_caller]
    pub fn is_close(&self, other: impl IntoTensor, relative: f64, absolute: f64) -> Tensor {
        let other = other.into_tensor(self);
        let near = (self - &other).abs().le(&(other.abs() * relative + absolute));
        // An infinite number is within an infinite tolerance of everything.
        self.equal(&other).or(&near.and(&other.is_finite()))
    }

    /// Whether all elements are close, as in [`Tensor::is_close`], as one truth value.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let a = Tensor::from([1.0, 2.0]);
    /// assert_eq!(a.all_close(&(&a + 1e-12), 1e-9, 0.0).to_string(), "true");
    /// ```
    #[track_caller]
    pub fn all_close(&self, other: impl IntoTensor, relative: f64, absolute: f64) -> Tensor {
        self.is_close(other, relative, absolute).all()
    }

    /// The elements, those below `low` replaced by it and those above `high` by that. At a bound, the derivative is
    /// shared evenly between the element and the bound.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([-2.0, 0.5, 2.0]).clip(-1.0, 1.0).to_string(), "[ -1, 0.5,   1]");
    /// ```
    #[track_caller]
    pub fn clip(&self, low: impl IntoTensor, high: impl IntoTensor) -> Tensor {
        let (low, high) = (low.into_tensor(self), high.into_tensor(self));
        self.maximum(&low).minimum(&high).composed_as("clip", &[self, &low, &high])
    }
}

/// Questions about many elements; those other than truth values hold if they are not zero.
impl Tensor {
    /// Whether all elements hold; of none, all do.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0]).gt(0.0).all().to_string(), "true");
    /// ```
    #[track_caller]
    pub fn all(&self) -> Tensor {
        self.all_over(self.all_axes())
    }

    /// Whether all elements hold over some axes.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([[true, false], [true, true]]).all_over(1).to_string(), "[false,  true]");
    /// ```
    #[track_caller]
    pub fn all_over(&self, axes: impl Into<Axes>) -> Tensor {
        self.truths().not().cast(DType::I64).sum_over(axes).equal(0)
    }

    /// Whether any element holds; of none, none does.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([-1.0, 2.0]).gt(0.0).any().to_string(), "true");
    /// ```
    #[track_caller]
    pub fn any(&self) -> Tensor {
        self.any_over(self.all_axes())
    }

    /// Whether any element holds over some axes.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([[true, false], [false, false]]).any_over(1).to_string(), "[ true, false]");
    /// ```
    #[track_caller]
    pub fn any_over(&self, axes: impl Into<Axes>) -> Tensor {
        self.count_nonzero_over(axes).gt(0)
    }

    /// How many elements are not zero, or hold.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([3.0, 0.0, -1.0]).count_nonzero().to_string(), "2");
    /// ```
    #[track_caller]
    pub fn count_nonzero(&self) -> Tensor {
        self.count_nonzero_over(self.all_axes())
    }

    /// How many elements are not zero over some axes.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([[3.0, 0.0], [1.0, 2.0]]).count_nonzero_over(0).to_string(), "[2, 1]");
    /// ```
    #[track_caller]
    pub fn count_nonzero_over(&self, axes: impl Into<Axes>) -> Tensor {
        self.truths().cast(DType::I64).sum_over(axes)
    }

    #[track_caller]
    fn truths(&self) -> Tensor {
        if self.error().is_some() || self.dtype() == DType::Bool { self.clone() } else { self.not_equal(0) }
    }
}

/// Elements by their answers. How many there are depends on values, which are read when this is called.
impl Tensor {
    /// The elements where a mask holds, row by row: `x[mask]` in NumPy. The axes of the mask are the first ones of
    /// the tensor, and become one. The mask is read, so it must not depend on an argument of `vmap` or `scan`.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// let x = Tensor::from([3.0, -1.0, 2.0]);
    /// assert_eq!(x.masked(&x.gt(0.0)).to_string(), "[3, 2]");
    /// let slope = grad(|x: &Tensor| x.masked(&x.gt(0.0)).square().sum())(&x);
    /// assert_eq!(slope.to_string(), "[6, 0, 4]");
    /// ```
    #[track_caller]
    pub fn masked(&self, mask: &Tensor) -> Tensor {
        if let Some(failed) = [self, mask].into_iter().find(|tensor| tensor.error().is_some()) {
            return failed.clone();
        }
        if mask.dtype() != DType::Bool {
            let message = format!("the mask must be truth values, not {}", mask.dtype());
            let error = Error::new("masked", message).help("compare first, for example with .gt(0.0)");
            return Tensor::refused(error, &[self, mask]);
        }
        let rank = mask.rank();
        if rank > self.rank() || self.shape()[..rank] != **mask.shape() {
            let message = format!("a mask of the shape {} does not lie on the shape {}", mask.shape(), self.shape());
            return Tensor::refused(Error::new("masked", message), &[self, mask]);
        }
        match mask.holding("masked") {
            Ok((places, _)) => {
                let rows = Shape::from(mask.shape().elements()).followed_by(&self.shape()[rank..]);
                self.reshape(rows).take(&Tensor::from(places), 0)
            }
            Err(failed) => failed,
        }
    }

    /// The indices of the elements that are not zero, or hold, one row each and one column for each axis. The elements
    /// are read, so they must not depend on an argument of `vmap` or `scan`.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[0.0, 5.0], [7.0, 0.0]]);
    /// assert_eq!(x.nonzero().to_string(), "[[0, 1],\n [1, 0]]");
    /// ```
    #[track_caller]
    pub fn nonzero(&self) -> Tensor {
        match self.truths().holding("nonzero") {
            Ok((places, shape)) => {
                let strides = shape.strides();
                let index = |place: &i64| -> Vec<i64> {
                    let place = *place as usize;
                    (0..shape.rank()).map(|axis| (place / strides[axis] % shape[axis]) as i64).collect()
                };
                let rows = Shape::from([places.len(), shape.rank()]);
                Tensor::leaf(Array::new(rows, Buffer::I64(places.iter().flat_map(index).collect())))
            }
            Err(failed) => failed,
        }
    }

    /// The places where truth values hold, row by row, and their shape.
    #[track_caller]
    fn holding(&self, name: &str) -> Result<(Vec<i64>, Shape), Tensor> {
        if self.error().is_some() {
            return Err(self.clone());
        }
        match self.eval() {
            Ok(values) => {
                let holds = |place: &usize| values.buffer().get(*place) != 0.0;
                let places = (0..values.buffer().len()).filter(holds).map(|place| place as i64).collect();
                Ok((places, self.shape().clone()))
            }
            Err(error) if error.operation() == "read" => {
                let message = "its size depends on values that are not known while a function is transformed";
                let help = "inside vmap and scan keep the shape: mask.choose(&x, &x.zeros_like())";
                Err(Tensor::refused(Error::new(name, message).help(help), &[self]))
            }
            Err(error) => Err(Tensor::failed(&error)),
        }
    }
}
