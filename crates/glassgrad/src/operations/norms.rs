//! Norms, distances and moments with options.

use crate::error::Error;
use crate::expr::{Axes, Axis, Tensor};

/// What lengths count as at least where something is divided by them, as in PyTorch.
const SMALLEST_LENGTH: f64 = 1e-12;
/// The same for cosine similarity.
const SMALLEST_COSINE_LENGTH: f64 = 1e-8;

/// Moments.
impl Tensor {
    /// The variance over some axes with n - correction in place of n: 1 makes it unbiased (Bessel's correction; `ddof`
    /// in NumPy).
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 5.0]]);
    /// assert_eq!(x.var_corrected(1, 1.0).to_string(), "[0.5,   2]");
    /// ```
    #[track_caller]
    pub fn var_corrected(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        let axes = axes.into();
        match self.resolved("var_corrected", &axes) {
            Ok(resolved) => {
                let count = resolved.iter().map(|axis| self.shape()[*axis]).product::<usize>() as f64;
                let centred = self - self.mean_over(axes.clone().keep());
                let variance = centred.square().sum_over(axes) / (count - correction).max(0.0);
                variance.composed_as("var_corrected", &[self])
            }
            Err(failed) => failed,
        }
    }

    /// The standard deviation over some axes with n - correction in place of n. Its derivative where all elements are
    /// equal is 0.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 3.0, 5.0]).std_corrected(0, 1.0).item().unwrap(), 2.0);
    /// ```
    #[track_caller]
    pub fn std_corrected(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        let axes = axes.into();
        match self.resolved("std_corrected", &axes) {
            Ok(resolved) => {
                let count = resolved.iter().map(|axis| self.shape()[*axis]).product::<usize>() as f64;
                let centred = self - self.mean_over(axes.clone().keep());
                let deviation = centred.norm_over(axes) / (count - correction).max(0.0).sqrt();
                deviation.composed_as("std_corrected", &[self])
            }
            Err(failed) => failed,
        }
    }
}

/// Norms and distances.
impl Tensor {
    /// The p-norm (Σ |x|ᵖ)^(1/p) over some axes, without overflow: `f64::INFINITY` is the largest magnitude,
    /// `f64::NEG_INFINITY` the smallest, and 0 counts the elements that are not zero. Its derivative at the origin
    /// is 0.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[3.0, -4.0], [1e200, 1e200]]);
    /// assert_eq!(x.norm_p(1.0, 1).to_vec::<f64>().unwrap(), [7.0, 2e200]);
    /// assert_eq!(x.norm_p(f64::INFINITY, 1).to_vec::<f64>().unwrap(), [4.0, 1e200]);
    /// ```
    #[track_caller]
    pub fn norm_p(&self, p: f64, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        if let Some(failed) = Tensor::not_float("norm_p", &[self]) {
            return failed;
        }
        if p.is_nan() {
            return Tensor::refused(Error::new("norm_p", "the order of a norm is a number, not NaN"), &[self]);
        }
        let magnitudes = self.abs();
        let norm = if p == 2.0 {
            self.norm_over(axes)
        } else if p == 1.0 {
            magnitudes.sum_over(axes)
        } else if p == f64::INFINITY {
            magnitudes.max_over(axes)
        } else if p == f64::NEG_INFINITY {
            magnitudes.min_over(axes)
        } else if p == 0.0 {
            magnitudes.gt(0.0).cast(self.dtype()).sum_over(axes)
        } else {
            magnitudes.power_mean_length(p, axes)
        };
        norm.composed_as("norm_p", &[self])
    }

    /// (Σ xᵖ)^(1/p) of numbers that are not negative, measured in the largest of them.
    #[track_caller]
    fn power_mean_length(&self, p: f64, axes: Axes) -> Tensor {
        let resolved = match self.resolved("norm_p", &axes) {
            Ok(resolved) => resolved,
            Err(failed) => return failed,
        };
        if resolved.iter().any(|axis| self.shape()[*axis] == 0) {
            return self.sum_over(axes);
        }
        let largest = self.stop_gradient().max_over(axes.clone().keep());
        let unit = largest.gt(0.0).and(&largest.lt(f64::INFINITY)).choose(&largest, &largest.ones_like());
        // Zeros have a derivative of their own: the power rule would multiply 0 with infinity.
        let zero = self.equal(0.0);
        let share = zero.choose(&self.ones_like(), &(self / &unit)).powf(p);
        let at_zero = if p > 0.0 { 0.0 } else { f64::INFINITY };
        let sum = zero.choose(&share.full_like(at_zero), &share).sum_over(axes.clone().keep());
        let empty = sum.equal(0.0).or(&sum.equal(f64::INFINITY));
        let length = empty.choose(&sum.ones_like(), &sum).powf(1.0 / p) * &unit;
        let at_origin = sum.stop_gradient().powf(1.0 / p);
        self.put_back(&empty.choose(&at_origin, &length), &axes, &resolved)
    }

    /// The tensor divided by its Euclidean length along an axis, which counts as at least 10⁻¹².
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([[3.0, 4.0], [0.0, 0.0]]).normalize(1).to_string(), "[[0.6, 0.8],\n [  0,   0]]");
    /// ```
    #[track_caller]
    pub fn normalize(&self, axes: impl Into<Axes>) -> Tensor {
        let length = self.norm_over(axes.into().keep()).maximum(SMALLEST_LENGTH);
        (self / length).composed_as("normalize", &[self])
    }

    /// The cosine of the angle between vectors along an axis, whose lengths count as at least 10⁻⁸. The other axes
    /// are broadcast together.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 0.0], [3.0, 3.0]]);
    /// assert_eq!(x.cosine_similarity(&Tensor::from([[0.0, 2.0], [5.0, 5.0]]), 1).to_string(), "[0, 1]");
    /// ```
    #[track_caller]
    pub fn cosine_similarity(&self, other: &Tensor, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        if let Some(failed) = Tensor::not_float("cosine_similarity", &[self, other]) {
            return failed;
        }
        let operands = [self, other];
        let (first, second) = match Tensor::aligned("cosine_similarity", &operands) {
            Ok(aligned) => (aligned[0].clone().into_owned(), aligned[1].clone().into_owned()),
            Err(failed) => return failed,
        };
        let unit = |tensor: &Tensor| tensor / tensor.norm_over(Axes::from(axis).keep()).maximum(SMALLEST_COSINE_LENGTH);
        (unit(&first) * unit(&second)).sum_over(axis).composed_as("cosine_similarity", &operands)
    }

    /// The Euclidean distances of all pairs of rows: from `[.., m, d]` and `[.., n, d]` to `[.., m, n]`. The
    /// derivative at distance 0 is 0.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let points = Tensor::from([[0.0, 0.0], [3.0, 4.0]]);
    /// assert_eq!(points.cdist(&points).to_string(), "[[0, 5],\n [5, 0]]");
    /// ```
    #[track_caller]
    pub fn cdist(&self, other: &Tensor) -> Tensor {
        if let Some(failed) = Tensor::not_float("cdist", &[self, other]) {
            return failed;
        }
        if self.rank() < 2 || other.rank() < 2 {
            let message = format!("it takes rows of points, not the shapes {} and {}", self.shape(), other.shape());
            return Tensor::refused(Error::new("cdist", message), &[self, other]);
        }
        (self.unsqueeze(-2) - other.unsqueeze(-3)).norm_over(-1).composed_as("cdist", &[self, other])
    }
}
