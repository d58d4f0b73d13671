//! Pooling: the largest or the mean of what windows see.

use super::PerAxis;
use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Axes, Tensor};
use crate::shape::Shape;
use crate::view::{View, Window};

/// Windows that pool the last `N` axes. By default they are contiguous, without padding.
///
/// ```
/// use glassgrad::operations::Pooling;
/// let how = Pooling::<2>::new(3).stride(2).padding(1);
/// assert_eq!((how.size, how.stride, how.padding), ([3, 3], [2, 2], [1, 1]));
/// assert_eq!(Pooling::<1>::new(2).stride, [2]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pooling<const N: usize> {
    /// How many places a window sees.
    pub size: [usize; N],
    /// How far it moves at a time.
    pub stride: [usize; N],
    /// How far it reaches over both ends.
    pub padding: [usize; N],
    /// How far apart the places are that it sees.
    pub dilation: [usize; N],
    /// Whether a mean counts the zeros over the ends, as it does by default.
    pub count_padding: bool,
    /// Whether a window may reach over the far end beyond the padding, if it begins before it.
    pub ceil_mode: bool,
    /// What sums are divided by in place of the number of places, if anything.
    pub divisor: Option<usize>,
}

impl<const N: usize> Pooling<N> {
    /// Windows of a size, side by side.
    ///
    /// ```
    /// use glassgrad::operations::Pooling;
    /// assert_eq!(Pooling::<2>::new([2, 3]).stride, [2, 3]);
    /// ```
    pub fn new(size: impl PerAxis<N>) -> Self {
        let size = size.per_axis();
        Pooling {
            size,
            stride: size,
            padding: [0; N],
            dilation: [1; N],
            count_padding: true,
            ceil_mode: false,
            divisor: None,
        }
    }

    /// They move by this many places.
    ///
    /// ```
    /// use glassgrad::operations::Pooling;
    /// assert_eq!(Pooling::<2>::new(3).stride(1).stride, [1, 1]);
    /// ```
    pub fn stride(self, stride: impl PerAxis<N>) -> Self {
        Pooling { stride: stride.per_axis(), ..self }
    }

    /// They reach this far over both ends.
    ///
    /// ```
    /// use glassgrad::operations::Pooling;
    /// assert_eq!(Pooling::<1>::new(3).padding(1).padding, [1]);
    /// ```
    pub fn padding(self, padding: impl PerAxis<N>) -> Self {
        Pooling { padding: padding.per_axis(), ..self }
    }

    /// The places that they see are this far apart.
    ///
    /// ```
    /// use glassgrad::operations::Pooling;
    /// assert_eq!(Pooling::<1>::new(3).dilation(2).dilation, [2]);
    /// ```
    pub fn dilation(self, dilation: impl PerAxis<N>) -> Self {
        Pooling { dilation: dilation.per_axis(), ..self }
    }

    /// A mean is that of the places on the axis only.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Pooling};
    /// let how = Pooling::new(2).padding(1);
    /// let x = Tensor::from([2.0, 4.0]);
    /// assert_eq!(x.avg_pool1d(how).to_string(), "[1, 2]");
    /// assert_eq!(x.avg_pool1d(how.ignore_padding()).to_string(), "[2, 4]");
    /// ```
    pub fn ignore_padding(self) -> Self {
        Pooling { count_padding: false, ..self }
    }

    /// A last window that begins on the axis or in the padding before it counts, also where it reaches over the far end:
    /// the number of windows is rounded up.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Pooling};
    /// let x = Tensor::from([1.0, 2.0, 3.0]);
    /// assert_eq!(x.max_pool1d(Pooling::new(2).ceil_mode()).to_string(), "[2, 3]");
    /// assert_eq!(x.avg_pool1d(Pooling::new(2).ceil_mode()).to_string(), "[1.5,   3]");
    /// ```
    pub fn ceil_mode(self) -> Self {
        Pooling { ceil_mode: true, ..self }
    }

    /// Sums are divided by this number in place of the number of places.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Pooling};
    /// assert_eq!(Tensor::from([1.0, 2.0]).avg_pool1d(Pooling::new(2).divisor(1)).to_string(), "[3]");
    /// ```
    pub fn divisor(self, divisor: usize) -> Self {
        Pooling { divisor: Some(divisor), ..self }
    }

    /// How far the last window reaches over the padded far end of each axis, if their number is rounded up.
    fn overhang(&self, sizes: &[usize]) -> [usize; N] {
        std::array::from_fn(|k| {
            let (stride, window) = (self.stride[k].max(1), self.dilation[k] * (self.size[k].max(1) - 1) + 1);
            let padded = sizes[k] + 2 * self.padding[k];
            if !self.ceil_mode || padded < window {
                return 0;
            }
            let more = (padded - window).div_ceil(stride);
            // The last window must begin before the padding at the far end.
            let more = if more * stride >= sizes[k] + self.padding[k] { more - 1 } else { more };
            (more * stride + window).saturating_sub(padded)
        })
    }

    fn windows(&self) -> Vec<Window> {
        (0..N)
            .map(|k| Window { size: self.size[k], stride: self.stride[k], dilation: self.dilation[k], padding: (0, 0) })
            .collect()
    }
}

impl Tensor {
    /// The largest element of each window over the last `N` axes; equal ones share the derivative evenly.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Pooling};
    /// assert_eq!(Tensor::ones([4, 4, 4]).max_pool(Pooling::<3>::new(2)).shape().to_string(), "[2, 2, 2]");
    /// ```
    #[track_caller]
    pub fn max_pool<const N: usize>(&self, config: Pooling<N>) -> Tensor {
        self.max_pool_as(super::with_axes(["max_pool", "max_pool1d", "max_pool2d", "max_pool3d"], N), config)
    }

    /// The mean of each window over the last `N` axes.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Pooling};
    /// assert_eq!(Tensor::ones([4, 4]).avg_pool(Pooling::<2>::new(4)).to_string(), "[[1]]");
    /// ```
    #[track_caller]
    pub fn avg_pool<const N: usize>(&self, config: Pooling<N>) -> Tensor {
        self.avg_pool_as(super::with_axes(["avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d"], N), config)
    }

    /// The largest element of each window along the last axis; equal ones share the derivative evenly.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Pooling};
    /// let x = Tensor::from([1.0, 5.0, 2.0, 3.0]);
    /// assert_eq!(x.max_pool1d(Pooling::new(2)).to_string(), "[5, 3]");
    /// ```
    #[track_caller]
    pub fn max_pool1d(&self, config: Pooling<1>) -> Tensor {
        self.max_pool_as("max_pool1d", config)
    }

    /// The largest element of each window over the last two axes; equal ones share the derivative evenly.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Pooling};
    /// let image = Tensor::arange(16.0).reshape([4, 4]);
    /// assert_eq!(image.max_pool2d(Pooling::new(2)).to_string(), "[[ 5,  7],\n [13, 15]]");
    /// ```
    #[track_caller]
    pub fn max_pool2d(&self, config: Pooling<2>) -> Tensor {
        self.max_pool_as("max_pool2d", config)
    }

    /// The mean of each window along the last axis.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Pooling};
    /// let x = Tensor::from([1.0, 5.0, 2.0, 3.0]);
    /// assert_eq!(x.avg_pool1d(Pooling::new(2)).to_string(), "[  3, 2.5]");
    /// ```
    #[track_caller]
    pub fn avg_pool1d(&self, config: Pooling<1>) -> Tensor {
        self.avg_pool_as("avg_pool1d", config)
    }

    /// The mean of each window over the last two axes.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Pooling};
    /// let image = Tensor::arange(16.0).reshape([4, 4]);
    /// assert_eq!(image.avg_pool2d(Pooling::new(2)).to_string(), "[[ 2.5,  4.5],\n [10.5, 12.5]]");
    /// ```
    #[track_caller]
    pub fn avg_pool2d(&self, config: Pooling<2>) -> Tensor {
        self.avg_pool_as("avg_pool2d", config)
    }

    /// The largest element of each window over the last three axes; equal ones share the derivative evenly.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Pooling};
    /// assert_eq!(Tensor::ones([4, 4, 4]).max_pool3d(Pooling::new(2)).shape().to_string(), "[2, 2, 2]");
    /// ```
    #[track_caller]
    pub fn max_pool3d(&self, config: Pooling<3>) -> Tensor {
        self.max_pool_as("max_pool3d", config)
    }

    /// The mean of each window over the last three axes.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Pooling};
    /// assert_eq!(Tensor::ones([2, 2, 2]).avg_pool3d(Pooling::new(2)).to_string(), "[[[1]]]");
    /// ```
    #[track_caller]
    pub fn avg_pool3d(&self, config: Pooling<3>) -> Tensor {
        self.avg_pool_as("avg_pool3d", config)
    }

    /// The mean of each of the parts of the last three axes, as even as they can be.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::ones([4, 5, 6]).adaptive_avg_pool3d([1, 2, 3]).shape().to_string(), "[1, 2, 3]");
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool3d(&self, counts: impl PerAxis<3>) -> Tensor {
        self.adaptive_avg("adaptive_avg_pool3d", &counts.per_axis())
    }

    /// The largest element of each of the parts of the last three axes, as even as they can be.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::ones([4, 5, 6]).adaptive_max_pool3d(2).shape().to_string(), "[2, 2, 2]");
    /// ```
    #[track_caller]
    pub fn adaptive_max_pool3d(&self, counts: impl PerAxis<3>) -> Tensor {
        self.adaptive_max("adaptive_max_pool3d", &counts.per_axis())
    }

    /// The mean of each of `count` parts of the last axis, as even as they can be.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0, 3.0, 4.0, 5.0]);
    /// assert_eq!(x.adaptive_avg_pool1d(2).to_string(), "[2, 4]"); // the middle one is in both
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool1d(&self, count: usize) -> Tensor {
        self.adaptive_avg("adaptive_avg_pool1d", &[count])
    }

    /// The mean of each of the parts of the last two axes, as even as they can be.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let image = Tensor::arange(16.0).reshape([4, 4]);
    /// assert_eq!(image.adaptive_avg_pool2d([1, 2]).to_string(), "[[6.5, 8.5]]");
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool2d(&self, counts: impl PerAxis<2>) -> Tensor {
        self.adaptive_avg("adaptive_avg_pool2d", &counts.per_axis())
    }

    /// The largest element of each of `count` parts of the last axis, as even as they can be.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 5.0, 2.0, 4.0, 3.0]);
    /// assert_eq!(x.adaptive_max_pool1d(2).to_string(), "[5, 4]");
    /// ```
    #[track_caller]
    pub fn adaptive_max_pool1d(&self, count: usize) -> Tensor {
        self.adaptive_max("adaptive_max_pool1d", &[count])
    }

    /// The largest element of each of the parts of the last two axes, as even as they can be.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let image = Tensor::arange(16.0).reshape([4, 4]);
    /// assert_eq!(image.adaptive_max_pool2d([1, 2]).to_string(), "[[13, 15]]");
    /// ```
    #[track_caller]
    pub fn adaptive_max_pool2d(&self, counts: impl PerAxis<2>) -> Tensor {
        self.adaptive_max("adaptive_max_pool2d", &counts.per_axis())
    }

    #[track_caller]
    fn max_pool_as<const N: usize>(&self, name: &str, config: Pooling<N>) -> Tensor {
        if let Some(failed) = self.not_poolable(name, N) {
            return failed;
        }
        // A window that sees nothing but padding would have no largest element.
        if (0..N).any(|k| config.padding[k] >= config.size[k].max(1)) {
            return Tensor::refused(Error::new(name, "the padding must be less than the size of the window"), &[self]);
        }
        let padded = self.pad_with(&self.pooled_widths(&config), f64::NEG_INFINITY);
        match padded.pooled(name, &config.windows()) {
            Ok((windows, places)) => windows.max_over(places),
            Err(failed) => failed,
        }
    }

    #[track_caller]
    fn avg_pool_as<const N: usize>(&self, name: &str, config: Pooling<N>) -> Tensor {
        if let Some(failed) = self.not_poolable(name, N) {
            return failed;
        }
        if (0..N).any(|k| config.padding[k] >= config.size[k].max(1)) {
            return Tensor::refused(Error::new(name, "the padding must be less than the size of the window"), &[self]);
        }
        let widths = self.pooled_widths(&config);
        let mean = self.pad(&widths).mean_of_windows(name, &config.windows());
        if let Some(divisor) = config.divisor {
            if divisor == 0 {
                return Tensor::refused(Error::new(name, "the divisor must not be 0"), &[self]);
            }
            return mean * (config.size.iter().product::<usize>() as f64 / divisor as f64);
        }
        let overhang = config.overhang(&self.shape()[self.rank() - N..]);
        if config.count_padding && overhang == [0; N] {
            return mean;
        }
        // The share of each window that counts is the mean of ones: never what lies beyond the padding.
        let counted = match config.count_padding {
            true => {
                let beyond: Vec<(usize, usize)> =
                    std::iter::repeat_n((0, 0), self.rank() - N).chain(overhang.map(|width| (0, width))).collect();
                self.ones_like().pad_with(&self.last_axes(&config.padding), 1.0).pad(&beyond)
            }
            false => self.ones_like().pad(&widths),
        };
        mean / counted.mean_of_windows(name, &config.windows())
    }

    /// The largest element of each window over the last `N` axes, and where it stands: its place in these axes taken as
    /// one. Of equal elements the first counts, and has the derivative.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Pooling};
    /// let image = Tensor::arange(16.0).reshape([4, 4]);
    /// let (largest, places) = image.max_pool_with_indices(Pooling::<2>::new(2));
    /// assert_eq!(largest.to_string(), "[[ 5,  7],\n [13, 15]]");
    /// assert_eq!(places.to_string(), "[[ 5,  7],\n [13, 15]]");
    /// ```
    #[track_caller]
    pub fn max_pool_with_indices<const N: usize>(&self, config: Pooling<N>) -> (Tensor, Tensor) {
        let name = "max_pool_with_indices";
        let pair = |failed: Tensor| (failed.clone(), failed);
        if let Some(failed) = self.not_poolable(name, N) {
            return pair(failed);
        }
        if (0..N).any(|k| config.padding[k] >= config.size[k].max(1)) {
            let error = Error::new(name, "the padding must be less than the size of the window");
            return pair(Tensor::refused(error, &[self]));
        }
        let first = self.rank() - N;
        let plane = &self.shape()[first..];
        let numbers = Tensor::arange(plane.iter().product::<usize>() as i64).reshape(plane);
        let (widths, windows) = (self.pooled_widths(&config), config.windows());
        // Places inside of windows become one last axis.
        let lined_up = |padded: &Tensor, lead: usize| {
            let seen = padded.windows(lead as isize, &windows);
            if seen.error().is_some() {
                return seen;
            }
            let shape = seen.shape()[..lead + N].to_vec();
            seen.reshape([&shape[..], &[config.size.iter().product()]].concat())
        };
        let seen = lined_up(&self.pad_with(&widths, f64::NEG_INFINITY), first);
        let seen_numbers = lined_up(&numbers.pad_with(&widths[first..], -1), 0);
        if let Some(failed) = [&seen, &seen_numbers].into_iter().find(|seen| seen.error().is_some()) {
            return pair(failed.clone().composed_as(name, &[self]));
        }
        let chosen = seen.argmax(Axes::from(-1).keep());
        let places = seen_numbers.broadcast_to(seen.shape()).take_along(&chosen, -1).squeeze(-1);
        (seen.take_along(&chosen, -1).squeeze(-1), places)
    }

    /// Widths of padding for all axes, with what windows reach beyond it.
    fn pooled_widths<const N: usize>(&self, config: &Pooling<N>) -> Vec<(usize, usize)> {
        let first = self.rank() - N;
        let mut widths = self.last_axes(&config.padding);
        for (width, overhang) in widths[first..].iter_mut().zip(config.overhang(&self.shape()[first..])) {
            width.1 += overhang;
        }
        widths
    }

    #[track_caller]
    fn mean_of_windows(&self, name: &str, windows: &[Window]) -> Tensor {
        match self.pooled(name, windows) {
            Ok((windows, places)) => windows.mean_over(places),
            Err(failed) => failed,
        }
    }

    /// What windows over the last axes see, and the axes of the places inside of them.
    #[track_caller]
    fn pooled(&self, name: &str, windows: &[Window]) -> Result<(Tensor, Axes), Tensor> {
        if self.error().is_some() {
            return Err(self.clone());
        }
        let first = self.rank() - windows.len();
        let view = match super::window::window_view(name, self.shape(), first, windows) {
            Ok(view) => view,
            Err(error) => return Err(Tensor::refused(error, &[self])),
        };
        let numbered = |place: &dyn Fn(usize) -> usize| {
            let places: Vec<isize> = (0..windows.len()).map(|number| place(number) as isize).collect();
            Axes::from(&places[..])
        };
        if side_by_side(windows) {
            return Ok((self.cut(windows), numbered(&|number| first + 2 * number + 1)));
        }
        // Positions along the last axis are contiguous: loops are long along them, and short along places.
        let (rank, last) = (self.rank(), self.rank() - 1);
        let order: Vec<usize> = (0..last).chain(rank..rank + windows.len()).chain([last]).collect();
        Ok((self.read(view.ordered(&order)), numbered(&|number| last + number)))
    }

    /// What windows see that are contiguous on the last axes: each becomes two, of positions and of places. No two of them
    /// see the same place, so that they are other axes of the same elements, and so is the way back.
    #[track_caller]
    fn cut(&self, windows: &[Window]) -> Tensor {
        let first = self.rank() - windows.len();
        let counts = || (first..).zip(windows).map(|(axis, window)| self.shape()[axis] / window.size);
        let seen = || counts().zip(windows).map(|(count, window)| (0, 1, count * window.size));
        let others: Vec<(isize, isize, usize)> = self.shape()[..first].iter().map(|size| (0, 1, *size)).collect();
        let view = View::strided(self.shape(), &others.into_iter().chain(seen()).collect::<Vec<_>>());
        let whole = if view.is_identity() { self.clone() } else { self.read(view) };
        let apart = counts().zip(windows).flat_map(|(count, window)| [count, window.size]);
        whole.reshape(self.shape()[..first].iter().copied().chain(apart).collect::<Vec<usize>>())
    }

    /// Why the last `count` axes cannot be pooled, if they cannot.
    #[track_caller]
    fn not_poolable(&self, name: &str, count: usize) -> Option<Tensor> {
        if self.error().is_some() {
            return Some(self.clone());
        }
        if self.rank() < count || !self.is_float() {
            let message = format!("it pools the last {count} axes of floating-point numbers");
            return Some(Tensor::refused(Error::new(name, message), &[self]));
        }
        None
    }

    /// Widths of padding for all axes, from those for the last ones.
    fn last_axes(&self, padding: &[usize]) -> Vec<(usize, usize)> {
        let others = std::iter::repeat_n((0, 0), self.rank() - padding.len());
        others.chain(padding.iter().map(|width| (*width, *width))).collect()
    }

    #[track_caller]
    fn adaptive_avg(&self, name: &str, counts: &[usize]) -> Tensor {
        if let Some(failed) = self.not_adaptive(name, counts) {
            return failed;
        }
        let first = self.rank() - counts.len();
        let mut pooled = self.clone();
        for (axis, count) in (first..).zip(counts) {
            // A mean over a rectangle is a mean of means: one matrix of weights for each axis.
            let size = self.shape()[axis];
            let mut weights = vec![0.0; count * size];
            for part in 0..*count {
                let (start, end) = part_of(part, *count, size);
                weights[part * size + start..part * size + end].fill(1.0 / (end - start) as f64);
            }
            let weights = Tensor::new(&weights, [*count, size]).cast(self.dtype());
            let labels: Vec<usize> = (0..self.rank()).collect();
            let mut output = labels.clone();
            output[axis] = self.rank();
            pooled = Tensor::einsum_labels(&[(&pooled, &labels), (&weights, &[self.rank(), axis])], &output);
        }
        pooled
    }

    #[track_caller]
    fn adaptive_max(&self, name: &str, counts: &[usize]) -> Tensor {
        if let Some(failed) = self.not_adaptive(name, counts) {
            return failed;
        }
        let first = self.rank() - counts.len();
        let mut seen = self.clone();
        let mut inside = Tensor::full(&self.shape()[first..], 1.0, self.dtype());
        for (number, count) in counts.iter().enumerate() {
            // Parts of uneven length are filled up with a place that then does not count. Axes that were
            // pooled before have become two.
            let size = self.shape()[first + number];
            let parts: Vec<(usize, usize)> = (0..*count).map(|part| part_of(part, *count, size)).collect();
            let longest = parts.iter().map(|(start, end)| end - start).max().unwrap_or(0);
            let place = |k: usize| parts[k / longest].0 + k % longest;
            let counted = |k: usize| place(k) < parts[k / longest].1;
            let shape = Shape::from([*count, longest]);
            let length = shape.elements();
            let places = Buffer::I64((0..length).map(|k| if counted(k) { place(k) as i64 } else { 0 }).collect());
            let mask = Buffer::Bool((0..length).map(counted).collect());
            let places = Tensor::leaf(Array::new(shape.clone(), places));
            let axis = 2 * number;
            seen = seen.take(&places, first + axis);
            let mut spread = vec![1; inside.rank() + 1];
            spread[axis..axis + 2].copy_from_slice(&shape);
            let mask = Tensor::leaf(Array::new(shape, mask)).cast(self.dtype()).reshape(spread);
            inside = inside.take(&places, axis) * mask;
        }
        let masked = inside.cast(DType::Bool).choose(&seen, &self.literal(f64::NEG_INFINITY));
        let axes: Vec<isize> = (0..counts.len()).map(|number| (first + 2 * number + 1) as isize).collect();
        masked.max_over(Axes::from(&axes[..]))
    }

    /// Why the last axes cannot be divided into these numbers of parts, if they cannot.
    #[track_caller]
    fn not_adaptive(&self, name: &str, counts: &[usize]) -> Option<Tensor> {
        if let Some(failed) = self.not_poolable(name, counts.len()) {
            return Some(failed);
        }
        let first = self.rank() - counts.len();
        if counts.contains(&0) || self.shape()[first..].contains(&0) {
            let message = format!("the last axes of {} are not divided into {counts:?} parts", self.shape());
            return Some(Tensor::refused(Error::new(name, message), &[self]));
        }
        let is_large =
            |(count, size): (&usize, &usize)| count.checked_mul(*size).is_none_or(|weights| weights > LARGEST_ADAPTIVE);
        if counts.iter().zip(&self.shape()[first..]).any(is_large) {
            let message =
                format!("the last axes of {} are too large to be divided into {counts:?} parts", self.shape());
            return Some(Tensor::refused(Error::new(name, message).help("ask for fewer parts"), &[self]));
        }
        None
    }
}

/// The most entries of the matrix of weights of one axis: 2 GiB in 64 bits.
const LARGEST_ADAPTIVE: usize = 1 << 28;

/// Whether windows are contiguous, without padding or gaps.
fn side_by_side(windows: &[Window]) -> bool {
    windows.iter().all(|window| window.stride == window.size && window.dilation == 1 && window.padding == (0, 0))
}

/// Where one of `count` parts of an axis begins and ends; neighbours overlap where they do not divide evenly.
fn part_of(part: usize, count: usize, size: usize) -> (usize, usize) {
    (part * size / count, ((part + 1) * size).div_ceil(count))
}
