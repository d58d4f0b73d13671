//! Functions of each element that are compositions of rows of the table.

use crate::expr::{IntoTensor, Tensor};

/// Arithmetic and logarithms.
impl Tensor {
    /// Linear interpolation from this tensor to another: self + weight·(end - self).
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([0.0, 10.0]).lerp(&Tensor::from([4.0, 20.0]), 0.25).to_string(), "[   1, 12.5]");
    /// ```
    #[track_caller]
    pub fn lerp(&self, end: impl IntoTensor, weight: impl IntoTensor) -> Tensor {
        let (end, weight) = (end.into_tensor(self), weight.into_tensor(self));
        (self + (&end - self) * &weight).composed_as("lerp", &[self, &end, &weight])
    }

    /// ln(eˣ + eʸ) without overflow; derivatives are exact where both are equal.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from(1000.0).logaddexp(1000.0).item().unwrap(), 1000.0 + 2.0_f64.ln());
    /// assert_eq!(Tensor::from(f64::NEG_INFINITY).logaddexp(3.0).item().unwrap(), 3.0);
    /// ```
    #[track_caller]
    pub fn logaddexp(&self, other: impl IntoTensor) -> Tensor {
        let other = other.into_tensor(self);
        // The larger one plus softplus of a difference that is at most 0: smooth also where the two change roles.
        let first = self.ge(&other);
        let (high, low) = (first.choose(self, &other), first.choose(&other, self));
        let gap = &low - &high;
        // An infinite one is the result by itself, and infinity minus infinity would not be a number.
        let gap = high.abs().lt(f64::INFINITY).choose(&gap, &high.literal(f64::NEG_INFINITY));
        (high + gap.softplus()).composed_as("logaddexp", &[self, &other])
    }

    /// x·ln(y), which is 0 where x is 0, whatever number y is.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([0.0, 2.0]).xlogy(Tensor::from([0.0, 1.0])).to_string(), "[0, 0]");
    /// ```
    #[track_caller]
    pub fn xlogy(&self, y: impl IntoTensor) -> Tensor {
        let y = y.into_tensor(self);
        let undefined = self.equal(0.0).and(&y.le(0.0).or(&y.equal(f64::INFINITY)));
        (self * undefined.choose(&y.ones_like(), &y).ln()).composed_as("xlogy", &[self, &y])
    }

    /// x·ln(1 + y), accurate for small y, which is 0 where x is 0, whatever number y is.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let products = Tensor::from([0.0, 2.0]).xlog1py(Tensor::from([-1.0, 1e-20]));
    /// assert_eq!(products.to_vec::<f64>().unwrap(), [0.0, 2e-20]);
    /// ```
    #[track_caller]
    pub fn xlog1py(&self, y: impl IntoTensor) -> Tensor {
        let y = y.into_tensor(self);
        let undefined = self.equal(0.0).and(&y.le(-1.0).or(&y.equal(f64::INFINITY)));
        (self * undefined.choose(&y.zeros_like(), &y).log1p()).composed_as("xlog1py", &[self, &y])
    }

    /// The logit ln(p/(1 - p)): the inverse of [`Tensor::sigmoid`].
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([0.5, 1.0]).logit().to_string(), "[  0, inf]");
    /// ```
    #[track_caller]
    pub fn logit(&self) -> Tensor {
        (self.ln() - (-self).log1p()).composed_as("logit", &[self])
    }

    /// The integer part, rounded towards 0; flat everywhere.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.7, -1.7]).trunc().to_string(), "[ 1, -1]");
    /// ```
    #[track_caller]
    pub fn trunc(&self) -> Tensor {
        (self.sign() * self.abs().floor()).composed_as("trunc", &[self])
    }

    /// The fractional part, with the sign of the number.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.75, -1.75]).frac().to_string(), "[ 0.75, -0.75]");
    /// ```
    #[track_caller]
    pub fn frac(&self) -> Tensor {
        (self - self.trunc()).composed_as("frac", &[self])
    }

    /// The magnitude of this tensor with the sign of another. A zero of either sign counts as positive.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, -2.0]).copysign(Tensor::from([-3.0, 4.0])).to_string(), "[-1,  2]");
    /// ```
    #[track_caller]
    pub fn copysign(&self, sign: impl IntoTensor) -> Tensor {
        let sign = sign.into_tensor(self);
        let magnitude = self.abs();
        sign.lt(0.0).choose(&(-&magnitude), &magnitude).composed_as("copysign", &[self, &sign])
    }
}

/// Bounds and masks.
impl Tensor {
    /// The elements, those below a bound replaced by it. At the bound, both share the derivative evenly.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([-2.0, 0.5]).clip_min(-1.0).to_string(), "[ -1, 0.5]");
    /// assert_eq!(Tensor::from([-2_i64, 5]).clip_min(0).to_string(), "[0, 5]");
    /// ```
    #[track_caller]
    pub fn clip_min(&self, low: impl IntoTensor) -> Tensor {
        let low = low.into_tensor(self);
        self.maximum(&low).composed_as("clip_min", &[self, &low])
    }

    /// The elements, those above a bound replaced by it. At the bound, both share the derivative evenly.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([2.0, 0.5]).clip_max(1.0).to_string(), "[  1, 0.5]");
    /// ```
    #[track_caller]
    pub fn clip_max(&self, high: impl IntoTensor) -> Tensor {
        let high = high.into_tensor(self);
        self.minimum(&high).composed_as("clip_max", &[self, &high])
    }

    /// The elements, those where a mask holds replaced by a value.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let scores = Tensor::from([1.0, 2.0, 3.0]);
    /// assert_eq!(scores.masked_fill(&scores.gt(2.0), f64::NEG_INFINITY).to_string(), "[   1,    2, -inf]");
    /// ```
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: impl IntoTensor) -> Tensor {
        match value.into_values_of(self).fitted("masked_fill", self) {
            Ok(value) => mask.choose(&value, self).composed_as("masked_fill", &[self, mask, &value]),
            Err(failed) => failed,
        }
    }

    /// The elements with NaN replaced by a number; infinities stay.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, f64::NAN]).replace_nan(0.0).to_string(), "[1, 0]");
    /// ```
    #[track_caller]
    pub fn replace_nan(&self, value: impl IntoTensor) -> Tensor {
        match value.into_values_of(self).fitted("replace_nan", self) {
            Ok(value) => self.is_nan().choose(&value, self).composed_as("replace_nan", &[self, &value]),
            Err(failed) => failed,
        }
    }
}
