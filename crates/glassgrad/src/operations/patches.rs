//! Patches of images as columns of a matrix, and sampling of images at given points.

use super::{Convolution, Padding, PerAxis};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::Tensor;

impl Tensor {
    /// The patches that a kernel of a size sees, as columns: from `[.., channels, height, width]` to
    /// `[.., channels·k·l, positions]`. It is `unfold` in PyTorch.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Convolution};
    /// let image = Tensor::arange(9.0).reshape([1, 3, 3]);
    /// let columns = image.im2col(2, Convolution::default());
    /// assert_eq!(columns.to_string(), "[[0, 1, 3, 4],\n [1, 2, 4, 5],\n [3, 4, 6, 7],\n [4, 5, 7, 8]]");
    /// ```
    #[track_caller]
    pub fn im2col(&self, size: impl PerAxis<2>, config: Convolution<2>) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        if self.rank() < 3 {
            let message = format!("it takes [.., channels, height, width], not the shape {}", self.shape());
            return Tensor::refused(Error::new("im2col", message), &[self]);
        }
        let seen = self.windows(-2, &config.windows(&size.per_axis()));
        if seen.error().is_some() {
            return seen.composed_as("im2col", &[self]);
        }
        let lead = self.rank() - 3;
        let order: Vec<usize> = (0..=lead).chain([lead + 3, lead + 4, lead + 1, lead + 2]).collect();
        let sizes = seen.permute(&order);
        let (rows, positions) = (&sizes.shape()[lead..lead + 3], &sizes.shape()[lead + 3..]);
        let joined = [rows.iter().product::<usize>(), positions.iter().product()];
        sizes.reshape([&self.shape()[..lead], &joined].concat())
    }

    /// The transpose of [`Tensor::im2col`]: columns added up in an image of `[.., channels, height, width]`, whose
    /// height and width are given. It is `fold` in PyTorch.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Convolution};
    /// let image = Tensor::ones([4, 4]).col2im([3, 3], 2, Convolution::default());
    /// assert_eq!(image.to_string(), "[[[1, 2, 1],\n  [2, 4, 2],\n  [1, 2, 1]]]");
    /// ```
    #[track_caller]
    pub fn col2im(&self, image: [usize; 2], size: impl PerAxis<2>, config: Convolution<2>) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let size = size.per_axis();
        let windows = config.windows(&size);
        let counts = [windows[0].count(image[0]), windows[1].count(image[1])];
        let inside = size[0].saturating_mul(size[1]);
        let (Some(rows), Some(columns), [lead @ .., height, width]) = (counts[0], counts[1], &self.shape()[..]) else {
            let message =
                format!("windows of {size:?} onto an image of {image:?} do not fit the shape {}", self.shape());
            return Tensor::refused(Error::new("col2im", message), &[self]);
        };
        if inside == 0 || height % inside != 0 || rows.checked_mul(columns) != Some(*width) {
            let message = format!("{rows} × {columns} windows of {size:?} are not the columns of {}", self.shape());
            return Tensor::refused(Error::new("col2im", message), &[self]);
        }
        let apart = [lead, &[height / inside, size[0], size[1], rows, columns]].concat();
        let first = lead.len();
        let order: Vec<usize> = (0..=first).chain([first + 3, first + 4, first + 1, first + 2]).collect();
        let windowed = self.reshape(apart).permute(&order);
        windowed.fold(first as isize + 1, &windows, &image).composed_as("col2im", &[self])
    }

    /// An image `[channels, height, width]` at the points of a grid `[h, w, 2]` by bilinear interpolation. A point is (x, y)
    /// with (-1, -1) at the upper left and (1, 1) at the lower right: at the centres of the corner pixels if
    /// `align_corners` holds, else at their outer edges. What lies outside is zero, or with [`Padding::Replicate`] the
    /// nearest pixel of the edge. It has derivatives in the image and in the grid.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Padding};
    /// let image = Tensor::from([[[0.0, 1.0], [2.0, 3.0]]]);
    /// let grid = Tensor::from([[[0.0, 0.0], [1.0, -1.0]]]);
    /// assert_eq!(image.grid_sample(&grid, Padding::Zeros, true).to_string(), "[[[1.5,   1]]]");
    /// ```
    #[track_caller]
    pub fn grid_sample(&self, grid: &Tensor, padding: Padding, align_corners: bool) -> Tensor {
        let name = "grid_sample";
        if let Some(failed) = Tensor::not_float(name, &[self, grid]) {
            return failed;
        }
        if !matches!(padding, Padding::Zeros | Padding::Replicate) {
            let error = Error::new(name, format!("outside of the image there are zeros or its edge, not {padding:?}"));
            return Tensor::refused(error.help("use Padding::Zeros or Padding::Replicate"), &[self, grid]);
        }
        let (&[channels, height, width], &[rows, columns, 2]) = (&self.shape()[..], &grid.shape()[..]) else {
            let message = format!(
                "it takes an image [channels, height, width] and a grid [h, w, 2], not {} and {}",
                self.shape(),
                grid.shape()
            );
            return Tensor::refused(Error::new(name, message).help("for a batch of images, use vmap"), &[self, grid]);
        };
        if height == 0 || width == 0 {
            return Tensor::refused(Error::new(name, "the image is empty"), &[self, grid]);
        }
        let pixels = self.reshape([channels, height * width]);
        let mut sum: Option<Tensor> = None;
        let (x, y) =
            (sampled(grid, 0, width, padding, align_corners), sampled(grid, 1, height, padding, align_corners));
        for (row, row_weight) in &y {
            for (column, column_weight) in &x {
                let values = pixels.take(&(row * width as i64 + column), 1);
                let term = values * (row_weight * column_weight);
                sum = Some(sum.map_or(term.clone(), |sum| sum + term));
            }
        }
        let sampled = sum.unwrap_or_else(|| Tensor::full([channels, rows, columns], 0.0, self.dtype()));
        sampled.composed_as(name, &[self, grid])
    }
}

/// Along one axis of an image, the two places beside each point, and their weights, which are 0 outside.
#[track_caller]
fn sampled(grid: &Tensor, axis: usize, size: usize, padding: Padding, align_corners: bool) -> [(Tensor, Tensor); 2] {
    let point = grid.part(2, axis, 1).squeeze(2);
    let last = (size - 1) as f64;
    let place = match align_corners {
        true => (point + 1.0) * (last / 2.0),
        false => ((point + 1.0) * size as f64 - 1.0) / 2.0,
    };
    let place = if padding == Padding::Replicate { place.clip(0.0, last) } else { place };
    let below = place.floor();
    let share = &place - &below;
    [(below.clone(), 1.0 - &share), (below + 1.0, share)].map(|(at, weight)| {
        let inside = at.ge(0.0).and(&at.le(last));
        let index = inside.choose(&at, &at.zeros_like()).cast(DType::I64);
        (index, inside.choose(&weight, &weight.zeros_like()))
    })
}
