//! Normalization by mean and variance or by the root mean square, and rotary positions: the functions behind layers.

use crate::error::Error;
use crate::expr::{Axes, Tensor};

impl Tensor {
    /// Layer normalization: mean 0 and variance 1 over some axes, with `epsilon` added to the variance.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 3.0], [10.0, 30.0]]).layer_norm(1, 0.0).to_string(), "[[-1,  1],\n [-1,  1]]");
    /// ```
    #[track_caller]
    pub fn layer_norm(&self, axes: impl Into<Axes>, epsilon: f64) -> Tensor {
        let axes = axes.into().keep();
        let centred = self - self.mean_over(axes.clone());
        let variance = centred.square().mean_over(axes);
        (centred / (variance + epsilon).sqrt()).composed_as("layer_norm", &[self])
    }

    /// Root-mean-square normalization over some axes, with `epsilon` added to the mean of squares.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([3.0, -3.0]).rms_norm(0, 0.0).to_string(), "[ 1, -1]");
    /// ```
    #[track_caller]
    pub fn rms_norm(&self, axes: impl Into<Axes>, epsilon: f64) -> Tensor {
        let squares = self.square().mean_over(axes.into().keep());
        (self / (squares + epsilon).sqrt()).composed_as("rms_norm", &[self])
    }

    /// Group normalization of `[batch, channels, …]`: mean 0 and variance 1 over each of this many groups of neighbouring
    /// channels of an example, with `epsilon` added to the variance.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 3.0, 10.0, 30.0]]);
    /// assert_eq!(x.group_norm(2, 0.0).to_string(), "[[-1,  1, -1,  1]]");
    /// ```
    #[track_caller]
    pub fn group_norm(&self, groups: usize, epsilon: f64) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let [batch, channels, ..] = self.shape()[..] else {
            let message = format!("it takes [batch, channels, …], not the shape {}", self.shape());
            return Tensor::refused(Error::new("group_norm", message), &[self]);
        };
        if groups == 0 || channels % groups != 0 {
            let message = format!("{channels} channels are not divided evenly into {groups} groups");
            return Tensor::refused(Error::new("group_norm", message), &[self]);
        }
        let members = self.shape()[1..].iter().product::<usize>() / groups;
        let normal = self.reshape([batch, groups, members]).layer_norm(-1, epsilon);
        normal.reshape(self.shape()).composed_as("group_norm", &[self])
    }

    /// Instance normalization of `[batch, channels, …]`: mean 0 and variance 1 over the places of each channel of an
    /// example, with `epsilon` added to the variance.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([[[1.0, 3.0], [7.0, 5.0]]]).instance_norm(0.0).to_string(), "[[[-1,  1],\n  [ 1, -1]]]");
    /// ```
    #[track_caller]
    pub fn instance_norm(&self, epsilon: f64) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        if self.rank() < 3 {
            let message = format!("it takes [batch, channels, places…], not the shape {}", self.shape());
            return Tensor::refused(Error::new("instance_norm", message), &[self]);
        }
        let places: Vec<isize> = (2..self.rank() as isize).collect();
        self.layer_norm(&places[..], epsilon).composed_as("instance_norm", &[self])
    }

    /// Rotary position embedding of `[.., places, width]`: the pair of element k of the first half and of the second is
    /// rotated by the angle (start + place)·base^(-2k/width). Products of rotated queries and keys then depend on
    /// the distance of their places alone. `start` is the place of the first row, for sequences that go on.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 0.0], [1.0, 0.0]]).rotary_embedding(10_000.0, 0);
    /// assert_eq!(x.to_vec::<f64>().unwrap(), [1.0, 0.0, 1.0_f64.cos(), 1.0_f64.sin()]);
    /// ```
    #[track_caller]
    pub fn rotary_embedding(&self, base: f64, start: usize) -> Tensor {
        if let Some(failed) = Tensor::not_float("rotary_embedding", &[self]) {
            return failed;
        }
        let [.., places, width] = self.shape()[..] else {
            let message = format!("it takes [.., places, width], not the shape {}", self.shape());
            return Tensor::refused(Error::new("rotary_embedding", message), &[self]);
        };
        if width % 2 == 1 || base.is_nan() || base <= 0.0 {
            let message = format!("the width must be even and the base positive, not {width} and {base}");
            return Tensor::refused(Error::new("rotary_embedding", message), &[self]);
        }
        let half = width / 2;
        let angle = |k: usize| (start + k / half) as f64 * base.powf(-2.0 * (k % half) as f64 / width as f64);
        let angles: Vec<f64> = (0..places * half).map(angle).collect();
        let table = |of: fn(f64) -> f64| {
            let numbers: Vec<f64> = angles.iter().map(|angle| of(*angle)).collect();
            Tensor::new(&numbers, [places, half]).cast(self.dtype())
        };
        let (cosine, sine) = (table(f64::cos), table(f64::sin));
        let last = self.rank() - 1;
        let (first, second) = (self.part(last, 0, half), self.part(last, half, half));
        let rotated = [&first * &cosine - &second * &sine, first * sine + second * cosine];
        Tensor::concatenate([&rotated[0], &rotated[1]], last)
    }
}
