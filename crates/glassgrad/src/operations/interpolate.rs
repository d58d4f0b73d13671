//! Values between given ones: tables with knots, and images of another size.

use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{CustomOp, Rule, Tensor};
use crate::shape::Shape;

/// How [`Tensor::interpolate`] finds values between given ones.
///
/// ```
/// use glassgrad::{Tensor, operations::Interpolation};
/// let x = Tensor::from([0.0, 10.0]);
/// assert_eq!(x.interpolate(&[3], Interpolation::Linear { align_corners: true }).to_string(), "[ 0,  5, 10]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// The element in whose cell the new one begins.
    Nearest,
    /// Linear along each axis between the two neighbours: bilinear for images.
    Linear {
        /// Whether the first and the last element keep their places; otherwise elements are cells, and the outer edges
        /// of the first and of the last cell do.
        align_corners: bool,
    },
    /// Cubic convolution along each axis between the four neighbours, with the coefficient -0.75: `bicubic` for images
    /// in PyTorch. Beyond the edge stands the element at the edge.
    Cubic {
        /// As for `Linear`.
        align_corners: bool,
    },
}

/// The longest axis that a tensor is resized to, so that a slip of the pen is an error and not a crash.
const LONGEST: usize = 1 << 28;

impl Tensor {
    /// The piecewise linear function through the points (knots, values), at each element; constant beyond the first
    /// and the last knot. The knots must increase. It has derivatives in all three; at a knot that in `self` is the
    /// slope on its right, and at the last knot that on its left.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// let (knots, values) = (Tensor::from([0.0, 1.0, 3.0]), Tensor::from([0.0, 10.0, 0.0]));
    /// let x = Tensor::from([-1.0, 0.5, 2.0, 9.0]);
    /// assert_eq!(x.interp(&knots, &values).to_string(), "[0, 5, 5, 0]");
    /// let slope = grad(|x: &Tensor| x.interp(&knots, &values).sum())(&x);
    /// assert_eq!(slope.to_string(), "[ 0, 10, -5,  0]");
    /// ```
    #[track_caller]
    pub fn interp(&self, knots: &Tensor, values: &Tensor) -> Tensor {
        let all = [self, knots, values];
        if let Some(failed) = all.into_iter().find(|tensor| tensor.error().is_some()) {
            return failed.clone();
        }
        if knots.rank() != 1 || values.shape() != knots.shape() || knots.shape()[0] == 0 {
            let message = format!(
                "knots and values must be vectors of one length above 0, not of the shapes {} and {}",
                knots.shape(),
                values.shape()
            );
            return Tensor::refused(Error::new("interp", message), &all);
        }
        let dtype = Tensor::common_type(&all).to_float();
        if all.into_iter().any(|tensor| tensor.dtype() != dtype) {
            return self.cast(dtype).interp(&knots.cast(dtype), &values.cast(dtype));
        }
        let size = knots.shape()[0];
        let (first, last) = (values.part(0, 0, 1).reshape(()), values.part(0, size - 1, 1).reshape(()));
        if size == 1 {
            // A constant, but NaN stays NaN.
            return self.is_nan().choose(self, &first);
        }
        let segment = Tensor::custom(Segment, &[self, knots]);
        let (left, right) = (knots.take(&segment, 0), knots.take(&(&segment + 1), 0));
        let (below, above) = (values.take(&segment, 0), values.take(&(&segment + 1), 0));
        let share = (self - &left) / (right - &left);
        let between = (1.0 - &share) * below + share * above;
        let lowest = knots.part(0, 0, 1).reshape(());
        let highest = knots.part(0, size - 1, 1).reshape(());
        self.lt(&lowest).choose(&first, &self.gt(&highest).choose(&last, &between))
    }

    /// The last axes in other sizes, one for each size that is given: an image `[.., h, w]` for two sizes.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Interpolation};
    /// let x = Tensor::from([[0.0, 3.0]]);
    /// let linear = Interpolation::Linear { align_corners: true };
    /// assert_eq!(x.interpolate(&[1, 4], linear).to_string(), "[[0, 1, 2, 3]]");
    /// assert_eq!(x.interpolate(&[1, 4], Interpolation::Nearest).to_string(), "[[0, 0, 3, 3]]");
    /// ```
    #[track_caller]
    pub fn interpolate(&self, sizes: &[usize], method: Interpolation) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let origin = std::panic::Location::caller();
        let fail = |message: String| Tensor::refused_at(Error::new("interpolate", message), &[self], origin);
        if sizes.len() > self.rank() {
            return fail(format!("{} sizes for the {} axes of {}", sizes.len(), self.rank(), self.shape()));
        }
        let lead = self.rank() - sizes.len();
        let mut resized = self.clone();
        for (number, size) in sizes.iter().enumerate() {
            let axis = lead + number;
            if self.shape()[axis] == 0 && *size > 0 {
                return fail(format!("axis {axis} is empty: there is nothing to take values from"));
            }
            if *size > LONGEST {
                return fail(format!("an axis of size {size} is too long"));
            }
            resized = resized.resized(axis, *size, method);
        }
        resized
    }

    /// One axis in another size.
    #[track_caller]
    fn resized(&self, axis: usize, size: usize, method: Interpolation) -> Tensor {
        let old = self.error().map_or_else(|| self.shape()[axis], |_| size);
        if old == size {
            return self.clone();
        }
        if let Interpolation::Cubic { align_corners } = method {
            return self.resized_cubic(axis, size, align_corners);
        }
        let ratio = old as f64 / size.max(1) as f64;
        let position = |k: usize| match method {
            Interpolation::Nearest => (k as f64 * ratio).floor(),
            Interpolation::Linear { align_corners: true } if size > 1 => {
                k as f64 * ((old - 1) as f64 / (size - 1) as f64)
            }
            Interpolation::Linear { align_corners: true } => 0.0,
            Interpolation::Linear { .. } | Interpolation::Cubic { .. } => ((k as f64 + 0.5) * ratio - 0.5).max(0.0),
        };
        let last = old.saturating_sub(1);
        let place = |k: usize, next: usize| ((position(k).floor() as usize).min(last) + next).min(last) as i64;
        let below = self.take(&Tensor::from((0..size).map(|k| place(k, 0)).collect::<Vec<_>>()), axis);
        if method == Interpolation::Nearest || below.error().is_some() {
            return below;
        }
        let above = self.take(&Tensor::from((0..size).map(|k| place(k, 1)).collect::<Vec<_>>()), axis);
        let mut along = vec![1; self.rank()];
        along[axis] = size;
        let share: Vec<f64> = (0..size).map(|k| (position(k) - place(k, 0) as f64).clamp(0.0, 1.0)).collect();
        let share = Tensor::new(&share, along).cast(self.dtype());
        below * (1.0 - &share) + above * share
    }

    /// One axis in another size by cubic convolution: a product with a matrix of weights, four in each row.
    #[track_caller]
    fn resized_cubic(&self, axis: usize, size: usize, align_corners: bool) -> Tensor {
        let old = self.shape()[axis];
        let last = old.saturating_sub(1);
        let position = |k: usize| match align_corners {
            true if size > 1 => k as f64 * (last as f64 / (size - 1) as f64),
            true => 0.0,
            false => (k as f64 + 0.5) * (old as f64 / size as f64) - 0.5,
        };
        let mut weights = vec![0.0; size * old];
        for k in 0..size {
            let below = position(k).floor();
            for neighbour in -1..=2 {
                let place = (below as isize + neighbour).clamp(0, last as isize) as usize;
                weights[k * old + place] += cubic_weight(position(k) - below - neighbour as f64);
            }
        }
        let weights = Tensor::new(&weights, [size, old]).cast(self.dtype());
        let labels: Vec<usize> = (0..self.rank()).collect();
        let mut output = labels.clone();
        output[axis] = self.rank();
        Tensor::einsum_labels(&[(self, &labels), (&weights, &[self.rank(), axis])], &output)
    }
}

/// The kernel of cubic convolution at a distance, with the coefficient -0.75.
fn cubic_weight(distance: f64) -> f64 {
    const A: f64 = -0.75;
    let d = distance.abs();
    if d <= 1.0 {
        ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((A * d - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A
    } else {
        0.0
    }
}

/// For each element, the number of the segment between knots in which it lies, the outer ones for those beyond. Knots
/// may have leading axes, which are then also those of the elements.
#[derive(Clone, Debug)]
struct Segment;

impl CustomOp for Segment {
    fn key(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }

    fn name(&self) -> &str {
        "interp"
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((inputs[0].shape().clone(), DType::I64))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let (x, knots) = (&inputs[0], &inputs[1]);
        let size = knots.shape()[knots.shape().rank() - 1];
        let tables = knots.shape().elements() / size;
        let knot = |table: usize, k: usize| knots.buffer().get(table * size + k);
        for table in 0..tables {
            let wrong =
                (1..size).find(|k| knot(table, k - 1).partial_cmp(&knot(table, *k)) != Some(std::cmp::Ordering::Less));
            if let Some(k) = wrong {
                let (before, this) = (knot(table, k - 1), knot(table, k));
                return Err(format!("the knots must increase: knot {k} is {this}, after {before}"));
            }
        }
        let count = (x.shape().elements() / tables.max(1)).max(1);
        let segment = |place: usize| {
            let (table, number) = (place / count, x.buffer().get(place));
            let (mut low, mut high) = (0, size - 1);
            // The knot at `low` is not above the number, or it is the first; that at `high` is above, or the last.
            while high - low > 1 {
                let middle = (low + high) / 2;
                if knot(table, middle) <= number { low = middle } else { high = middle }
            }
            low as i64
        };
        Ok(Array::new(x.shape().clone(), Buffer::I64((0..x.shape().elements()).map(segment).collect())))
    }

    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|_| vec![None, None]))
    }

    fn batched(&self, inputs: &[Tensor], with_axis: &[bool]) -> Option<Tensor> {
        let (x, knots) = (&inputs[0], &inputs[1]);
        // Knots that all examples share need no axis, unless they have others before.
        if !with_axis[1] && knots.rank() == 1 {
            return Some(Tensor::custom(Segment, &[x, knots]));
        }
        let size = if with_axis[0] { x.shape()[0] } else { knots.shape()[0] };
        let led = |tensor: &Tensor, has: bool| match has {
            true => tensor.clone(),
            false => tensor.broadcast_to(Shape::from(size).followed_by(tensor.shape())),
        };
        Some(Tensor::custom(Segment, &[&led(x, with_axis[0]), &led(knots, with_axis[1])]))
    }
}
