//! Linear algebra: the likelihood of a normal distribution, and its gradient in mean and covariance.
//!
//! The covariance is factored once, Σ = L·Lᵀ; the determinant is that of L, and L⁻¹ whitens the data. Textbooks derive
//! the gradient by hand, ½·(Σ⁻¹·S·Σ⁻¹ - n·Σ⁻¹) with S the scatter of the data; here it is `grad`.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 19_gaussian`.

use glassgrad::certify::certify_tensors;
use glassgrad::dtype::DType;
use glassgrad::operations::linalg::Triangle;
use glassgrad::rng::Key;
use glassgrad::{Tensor, grad};

/// The logarithm of the likelihood of rows of data.
fn log_likelihood(data: &Tensor, mean: &Tensor, covariance: &Tensor) -> Tensor {
    let [count, width] = [0, 1].map(|axis| data.shape()[axis] as f64);
    let factor = covariance.cholesky();
    let white = factor.solve_triangular(&(data - mean).transpose(), Triangle::lower());
    let volume = factor.diagonal(0).ln().sum() * (2.0 * count) + count * width * std::f64::consts::TAU.ln();
    (white.square().sum() + volume) * -0.5
}

fn largest(x: &Tensor) -> f64 {
    x.abs().max().item().expect("a number")
}

fn main() {
    let mixing = Tensor::from([[1.0, 0.0, 0.0], [0.8, 0.5, 0.0], [-0.3, 0.4, 1.2]]);
    let data = Tensor::normal(Key::new(1), [200, 3]).cast(DType::F64).matmul(&mixing.transpose());
    let (mean, covariance) = (Tensor::from([0.1, -0.2, 0.3]), Tensor::eye(3).cast(DType::F64) * 1.5 + 0.2);

    let likelihood = |(mean, covariance): &(Tensor, Tensor)| log_likelihood(&data, mean, covariance);
    let at = (mean.clone(), covariance.clone());
    let (of_mean, of_covariance) = grad(likelihood)(&at);
    println!("log-likelihood {}", likelihood(&at));
    println!("∂/∂mean        {of_mean}\n∂/∂Σ\n{of_covariance}");

    // By hand.
    let inverse = covariance.inv();
    let centred = &data - &mean;
    let scatter = centred.transpose().matmul(&centred);
    let by_hand = (inverse.matmul(&scatter).matmul(&inverse) - &inverse * 200.0) * 0.5;
    let of_mean_by_hand = inverse.matmul(&centred.sum_over(0));
    let gaps = [largest(&(of_mean - of_mean_by_hand)), largest(&(of_covariance - by_hand))];
    println!("largest difference to the textbook: mean {:.1e}, covariance {:.1e}", gaps[0], gaps[1]);
    assert!(gaps.iter().all(|gap| *gap < 1e-11));

    // The most likely ones are the mean and the covariance of the data: the gradient vanishes there.
    let sample_mean = data.mean_over(0);
    let deviation = &data - &sample_mean;
    let best = (sample_mean, deviation.transpose().matmul(&deviation) / 200.0);
    let (of_mean, of_covariance) = grad(likelihood)(&best);
    let left = f64::max(largest(&of_mean), largest(&of_covariance));
    println!("largest gradient component at the estimate: {left:.1e}");
    assert!(left < 1e-9);

    let certificate = certify_tensors(likelihood, &at, Key::new(2)).expect("it can be evaluated");
    print!("{certificate}");
    assert!(certificate.holds());
}
