//! The functions whose Hessians are computed, each with a point and a right-hand side, in 64 bits.
//!
//! `peers_python/experiments.py` draws the same numbers in the same order.

use std::sync::Arc;

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::shape::Shape;

use super::super::data::Source;

/// A function of a tree, the point of its Hessian, and a right-hand side of the linear system.
pub(super) struct Problem<X> {
    pub(super) function: Arc<dyn Fn(&X) -> Tensor>,
    pub(super) point: X,
    pub(super) gradient: X,
}

/// The rank of a factorisation in one factor, and in both.
const RANK: usize = 10;
const JOINT_RANK: usize = 5;
/// How much the squares of both factors count beside those of the residuals: a minimum alone would have a whole family of
/// equals, UA and VA⁻ᵀ, and a singular Hessian.
const RIDGE: f64 = 5.0;
/// The layers, samples and classes of the network.
const LAYERS: usize = 10;
const SAMPLES: usize = 64;
const CLASSES: usize = 10;

fn symmetric(source: &mut Source, shape: impl Into<Shape>, bound: f64) -> Tensor {
    source.uniform(shape, -bound, bound, DType::F64)
}

/// Logistic regression with n weights and 2n samples.
pub(super) fn logistic(n: usize) -> Problem<Tensor> {
    let mut source = Source::default();
    let examples = symmetric(&mut source, [2 * n, n], 1.0);
    let sides = symmetric(&mut source, 2 * n, 1.0).sign();
    let sides = sides.detach().unwrap_or(sides);
    let (point, gradient) = (symmetric(&mut source, n, 0.1), symmetric(&mut source, n, 1.0));
    let function = move |w: &Tensor| (-(&sides * examples.matmul(w))).exp().log1p().sum();
    Problem { function: Arc::new(function), point, gradient }
}

/// ‖T - UVᵀ‖² in U: T is n×n, U and V have ten columns.
pub(super) fn factorization(n: usize) -> Problem<Tensor> {
    let mut source = Source::default();
    let mut draw = |columns: usize| symmetric(&mut source, [n, columns], 1.0);
    let (t, v, point, gradient) = (draw(n), draw(RANK), draw(RANK), draw(RANK));
    let function = move |u: &Tensor| (&t - u.matmul(&v.transpose())).square().sum();
    Problem { function: Arc::new(function), point, gradient }
}

/// ‖T - UVᵀ‖² + λ(‖U‖² + ‖V‖²) in U and V at once, of five columns each.
pub(super) fn joint(n: usize) -> Problem<(Tensor, Tensor)> {
    let mut source = Source::default();
    let mut draw = |columns: usize| symmetric(&mut source, [n, columns], 1.0);
    let t = draw(n);
    let point = (draw(JOINT_RANK), draw(JOINT_RANK));
    let gradient = (draw(JOINT_RANK), draw(JOINT_RANK));
    let function = move |(u, v): &(Tensor, Tensor)| {
        (&t - u.matmul(&v.transpose())).square().sum() + (u.square().sum() + v.square().sum()) * RIDGE
    };
    Problem { function: Arc::new(function), point, gradient }
}

/// Softmax cross-entropy behind ten layers with rectifiers, in the activations before the first: 64 samples of n units.
pub(super) fn network(n: usize) -> Problem<Tensor> {
    let mut source = Source::default();
    // The size that keeps activations as large from layer to layer.
    let bound = (6.0 / n as f64).sqrt();
    let weights: Vec<Tensor> = (0..LAYERS)
        .map(|layer| symmetric(&mut source, [n, if layer + 1 == LAYERS { CLASSES } else { n }], bound))
        .collect();
    let targets = source.targets(SAMPLES, CLASSES).cast(DType::F64);
    let targets = targets.detach().unwrap_or(targets);
    let point = source.uniform([SAMPLES, n], 0.0, 1.0, DType::F64);
    let gradient = symmetric(&mut source, [SAMPLES, n], 1.0);
    let function = move |activations: &Tensor| {
        let hidden =
            weights[..LAYERS - 1].iter().fold(activations.clone(), |hidden, weight| hidden.matmul(weight).relu());
        -(hidden.matmul(&weights[LAYERS - 1]).log_softmax(-1) * &targets).sum() / SAMPLES as f64
    };
    Problem { function: Arc::new(function), point, gradient }
}
