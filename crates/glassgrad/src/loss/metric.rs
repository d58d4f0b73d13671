//! Losses of distances and of rankings: embeddings that belong together are to be near, and scores in order.

use super::unlike;
use crate::expr::Tensor;

/// What is added to each difference in a distance, as in PyTorch, so that equal vectors have a derivative.
const DISTANCE_EPSILON: f64 = 1e-6;

/// The triplet margin loss along the last axis: how much farther, up to a margin, an anchor is from a positive example than
/// from a negative one.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let (anchor, near, far) = (Tensor::from([[0.0, 0.0]]), Tensor::from([[3.0, 4.0]]), Tensor::from([[0.0, 4.5]]));
/// let wrong = loss::triplet_margin(&anchor, &near, &far, 1.0).item().unwrap();
/// assert!((wrong - 1.5).abs() < 1e-5);
/// ```
#[track_caller]
pub fn triplet_margin(anchors: &Tensor, positives: &Tensor, negatives: &Tensor, margin: f64) -> Tensor {
    let name = "triplet_margin";
    // One after the other: closures do not pass the caller's line on.
    if let Some(failed) = unlike(name, anchors, positives) {
        return failed;
    }
    if let Some(failed) = unlike(name, anchors, negatives) {
        return failed;
    }
    let near = (anchors - positives + DISTANCE_EPSILON).norm_over(-1);
    let far = (anchors - negatives + DISTANCE_EPSILON).norm_over(-1);
    (near - far + margin).relu().composed_as(name, &[anchors, positives, negatives])
}

/// The cosine embedding loss along the last axis: 1 - cosine where `sides` is 1, and where it is -1 how far the cosine is
/// above a margin.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let (a, b) = (Tensor::from([[1.0, 0.0], [1.0, 0.0]]), Tensor::from([[0.0, 1.0], [2.0, 0.0]]));
/// assert_eq!(loss::cosine_embedding(&a, &b, &Tensor::from([1.0, -1.0]), 0.25).to_string(), "[   1, 0.75]");
/// ```
#[track_caller]
pub fn cosine_embedding(first: &Tensor, second: &Tensor, sides: &Tensor, margin: f64) -> Tensor {
    if let Some(failed) = unlike("cosine_embedding", first, second) {
        return failed;
    }
    let cosine = first.cosine_similarity(second, -1);
    let result = sides.gt(0.0).choose(&(1.0 - &cosine), &(&cosine - margin).relu());
    result.composed_as("cosine_embedding", &[first, second, sides])
}

/// The margin ranking loss: how much, up to a margin, the score that should be larger is not. `sides` is 1 where the
/// first should be larger, and -1 where the second should.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let wrong = loss::margin_ranking(&Tensor::from([2.0]), &Tensor::from([1.5]), &Tensor::from([1.0]), 1.0);
/// assert_eq!(wrong.to_string(), "[0.5]");
/// ```
#[track_caller]
pub fn margin_ranking(first: &Tensor, second: &Tensor, sides: &Tensor, margin: f64) -> Tensor {
    let name = "margin_ranking";
    // One after the other: closures do not pass the caller's line on.
    if let Some(failed) = unlike(name, first, second) {
        return failed;
    }
    if let Some(failed) = unlike(name, first, sides) {
        return failed;
    }
    (margin - sides * (first - second)).relu().composed_as(name, &[first, second, sides])
}

/// The logistic loss ln(1 + exp(-side·score)) of sides 1 and -1.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let wrong = loss::soft_margin(&Tensor::from([0.0, -1000.0]), &Tensor::from([1.0, 1.0]));
/// assert_eq!(wrong.to_vec::<f64>().unwrap(), [2.0_f64.ln(), 1000.0]);
/// ```
#[track_caller]
pub fn soft_margin(scores: &Tensor, sides: &Tensor) -> Tensor {
    if let Some(failed) = unlike("soft_margin", scores, sides) {
        return failed;
    }
    (-(scores * sides)).softplus().composed_as("soft_margin", &[scores, sides])
}

/// The hinge embedding loss of distances: the distance where `sides` is 1, and where it is -1 how far it is below a
/// margin.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let wrong = loss::hinge_embedding(&Tensor::from([0.5, 0.25]), &Tensor::from([1.0, -1.0]), 1.0);
/// assert_eq!(wrong.to_string(), "[ 0.5, 0.75]");
/// ```
#[track_caller]
pub fn hinge_embedding(distances: &Tensor, sides: &Tensor, margin: f64) -> Tensor {
    if let Some(failed) = unlike("hinge_embedding", distances, sides) {
        return failed;
    }
    let result = sides.gt(0.0).choose(distances, &(margin - distances).relu());
    result.composed_as("hinge_embedding", &[distances, sides])
}
