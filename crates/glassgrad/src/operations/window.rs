//! Sliding windows, and their transpose.

use crate::error::Error;
use crate::expr::{Axis, Number, Tensor};
use crate::shape::Shape;
use crate::view::{View, Window};

/// A number for each of `N` axes: one number stands for all of them.
///
/// ```
/// use glassgrad::operations::PerAxis;
/// assert_eq!(PerAxis::<2>::per_axis(3), [3, 3]);
/// assert_eq!([1, 2].per_axis(), [1, 2]);
/// ```
pub trait PerAxis<const N: usize> {
    /// The number of each axis.
    fn per_axis(self) -> [usize; N];
}

impl<const N: usize> PerAxis<N> for usize {
    fn per_axis(self) -> [usize; N] {
        [self; N]
    }
}

impl<const N: usize> PerAxis<N> for [usize; N] {
    fn per_axis(self) -> [usize; N] {
        self
    }
}

impl Tensor {
    /// What windows see that slide along the axes from `axis` on: the positions of the windows take the place of
    /// those axes, and the places inside of them are new last axes.
    ///
    /// ```
    /// use glassgrad::{Tensor, view::Window};
    /// let x = Tensor::from([1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(x.windows(0, &[Window::new(2)]).to_string(), "[[1, 2],\n [2, 3],\n [3, 4]]");
    /// assert_eq!(x.windows(0, &[Window::new(2).stride(2)]).to_string(), "[[1, 2],\n [3, 4]]");
    /// ```
    #[track_caller]
    pub fn windows(&self, axis: impl Into<Axis>, windows: &[Window]) -> Tensor {
        let Axis(axis) = axis.into();
        let first = match self.axis_from_front("windows", axis) {
            Ok(first) => first,
            Err(failed) => return failed,
        };
        match window_view("windows", self.shape(), first, windows) {
            Ok(view) => self.read(view),
            Err(error) => Tensor::refused(error, &[self]),
        }
    }

    /// The transpose of [`Tensor::windows`]: adds what each window holds up at the places that it sees of axes of
    /// these sizes.
    ///
    /// ```
    /// use glassgrad::{Tensor, view::Window};
    /// let windows = Tensor::from([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]);
    /// assert_eq!(windows.fold(0, &[Window::new(2)], &[4]).to_string(), "[1, 4, 6, 4]");
    /// ```
    #[track_caller]
    pub fn fold(&self, axis: impl Into<Axis>, windows: &[Window], sizes: &[usize]) -> Tensor {
        let Axis(axis) = axis.into();
        let first = match self.axis_from_front("fold", axis) {
            Ok(first) => first,
            Err(failed) => return failed,
        };
        let count = windows.len();
        if sizes.len() != count || first + 2 * count > self.rank() {
            let message =
                format!("{count} windows from axis {first} on and {} sizes do not fit {}", sizes.len(), self.shape());
            return Tensor::refused(Error::new("fold", message), &[self]);
        }
        let mut shape = self.shape()[..self.rank() - count].to_vec();
        shape[first..first + count].copy_from_slice(sizes);
        match window_view("fold", &shape.into(), first, windows) {
            Ok(view) if view.output == *self.shape() => self.spread(view),
            Ok(view) => {
                let message = format!("windows onto axes of these sizes have the shape {}", view.output);
                Tensor::refused(Error::new("fold", message), &[self])
            }
            Err(error) => Tensor::refused(error, &[self]),
        }
    }

    /// The tensor with a number around it: `before` and `after` each axis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0]);
    /// assert_eq!(x.pad_with(&[(1, 2)], -1.0).to_string(), "[-1,  1,  2, -1, -1]");
    /// ```
    #[track_caller]
    pub fn pad_with(&self, widths: &[(usize, usize)], number: impl Number) -> Tensor {
        let padded = self.pad(widths);
        if let (None, Err(message)) = (padded.error(), number.element(self.dtype())) {
            return Tensor::refused(Error::new("pad_with", message), &[self]);
        }
        if padded.error().is_some() || padded.shape() == self.shape() {
            return padded;
        }
        // What lies inside is the same for all indices of the other axes.
        let sizes = self.shape().iter().zip(widths).map(|(size, width)| if *width == (0, 0) { 1 } else { *size });
        let inside = Tensor::full(&sizes.collect::<Vec<usize>>()[..], 1.0, self.dtype()).pad(widths);
        let around = Tensor::full(padded.shape(), number, self.dtype());
        inside.not_equal(inside.zeros_like()).choose(&padded, &around)
    }
}

/// The view of windows, or why there is none.
pub(super) fn window_view(operation: &str, shape: &Shape, first: usize, windows: &[Window]) -> Result<View, Error> {
    if first + windows.len() > shape.rank() {
        let message = format!("{} windows from axis {first} on leave the shape {shape}", windows.len());
        return Err(Error::new(operation, message));
    }
    for (axis, window) in (first..).zip(windows) {
        if window.size == 0 || window.stride == 0 || window.dilation == 0 {
            let message = format!("size, stride and dilation of a window are at least 1: {window:?}");
            return Err(Error::new(operation, message));
        }
        if window.count(shape[axis]).is_none() {
            let (before, after) = window.padding;
            let message = format!(
                "a window over {} places does not fit on axis {axis}, which has size {} and padding ({before}, {after})",
                window.extent(),
                shape[axis]
            );
            return Err(Error::new(operation, message));
        }
    }
    View::windows(shape, first, windows)
        .ok_or_else(|| Error::new(operation, format!("windows onto the shape {shape} are too large")))
}
