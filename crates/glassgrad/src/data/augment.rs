//! Augmentation of images: random crops and flips, as functions of keys.

use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Keys, Tensor};

/// Each image of `[batch, channels, height, width]` padded by zeros on all sides and cropped to its size at a random place.
///
/// ```
/// use glassgrad::{Tensor, data::random_crop, rng::Key};
/// let image = Tensor::arange(9.0_f32).reshape([1, 1, 3, 3]);
/// let cropped = random_crop(&image.repeat(50, 0), 1, &Key::new(1).into());
/// assert_eq!(cropped.shape().to_string(), "[50, 1, 3, 3]");
/// // The centre moves to each of nine places; the image itself is one of them.
/// let sums = cropped.sum_over(&[1, 2, 3][..]).to_vec::<f32>().unwrap();
/// assert!(sums.contains(&36.0) && sums.iter().any(|sum| *sum < 36.0));
/// ```
#[track_caller]
pub fn random_crop(images: &Tensor, padding: usize, key: &Keys) -> Tensor {
    let [batch, _, height, width] = images.shape()[..] else { return not_images("random_crop", images) };
    if images.error().is_some() {
        return images.clone();
    }
    let places = (2 * padding + 1) as f64;
    let offset = |number: u64| {
        let drawn = (Tensor::uniform(key.fold(number), [batch, 1, 1]) * places).floor().cast(DType::I64);
        drawn.clip(0, 2 * padding as i64)
    };
    let padded = images.pad(&[(0, 0), (0, 0), (padding, padding), (padding, padding)]).permute([0, 2, 3, 1]);
    let example = Tensor::arange(batch as i64).reshape([batch, 1, 1]);
    let rows = Tensor::arange(height as i64).reshape([1, height, 1]) + offset(0);
    let columns = Tensor::arange(width as i64).reshape([1, 1, width]) + offset(1);
    padded.index_at(&[&example, &rows, &columns]).permute([0, 3, 1, 2]).composed_as("random_crop", &[images])
}

/// Each image of `[batch, channels, height, width]` mirrored left to right with the probability ½.
///
/// ```
/// use glassgrad::{Tensor, data::random_flip, rng::Key};
/// let image = Tensor::from([[[1.0_f32, 2.0]]]).reshape([1, 1, 1, 2]).repeat(50, 0);
/// let first = random_flip(&image, &Key::new(1).into()).to_vec::<f32>().unwrap();
/// let flipped = first.chunks(2).filter(|pixels| **pixels == [2.0, 1.0]).count();
/// assert!((10..40).contains(&flipped));
/// ```
#[track_caller]
pub fn random_flip(images: &Tensor, key: &Keys) -> Tensor {
    let [batch, _, _, _] = images.shape()[..] else { return not_images("random_flip", images) };
    if images.error().is_some() {
        return images.clone();
    }
    let is_flipped = Tensor::uniform(key, [batch, 1, 1, 1]).lt(0.5).broadcast_to(images.shape());
    is_flipped.choose(&images.flip([-1]), images)
}

#[track_caller]
fn not_images(operation: &str, images: &Tensor) -> Tensor {
    if images.error().is_some() {
        return images.clone();
    }
    let message = format!("images are [batch, channels, height, width], not {}", images.describe());
    Tensor::refused(Error::new(operation, message), &[images])
}
