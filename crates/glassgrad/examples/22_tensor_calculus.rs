//! Jacobians and Hessians that know their structure: what is held, how it is used, and what each mode would cost.
//!
//! cargo run --release -p glassgrad-examples --example 22_tensor_calculus

use std::time::Instant;

use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::optim::Newton;
use glassgrad::rng::Key;
use glassgrad::{Tensor, calculus};

fn normal(key: u64, shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(key), shape).cast(DType::F64)
}

/// The shortest of many runs, in microseconds.
fn microseconds(mut work: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(best)
}

fn main() -> Result<(), Error> {
    println!("Matrix factorisation: ‖T - UVᵀ‖² in U, n = 1000, k = 10\n");
    let (n, k) = (1000, 10);
    let (t, v) = (normal(1, &[n, n]).detach()?, normal(2, &[n, k]).detach()?.named("V"));
    let loss = |u: &Tensor| (&t - u.matmul(&v.transpose())).square().sum();
    let curvature = calculus::hessian(loss);
    let (u, gradient) = (normal(3, &[n, k]).detach()?, normal(4, &[n, k]).detach()?);
    let h = curvature.at(&u)?;
    println!("{h}\n");
    println!("{}\n", curvature.explain(&u)?);
    println!("the Hessian          {:7.1} µs", microseconds(|| curvature.at(&u).map(drop))?);
    println!("its factorisation    {:7.1} µs", microseconds(|| h.factor().map(drop))?);
    let factored = h.factor()?;
    println!("a Newton direction   {:7.1} µs\n", microseconds(|| factored.solve(&gradient).map(drop))?);

    println!("Both factors at once, n = 200, k = 5\n");
    let small = normal(5, &[200, 200]).detach()?;
    let joint = |(u, v): &(Tensor, Tensor)| (&small - u.matmul(&v.transpose())).square().sum();
    let point = (normal(6, &[200, 5]).detach()?.named("U"), normal(7, &[200, 5]).detach()?.named("V"));
    let h = calculus::hessian(joint).at(&point)?;
    let start = Instant::now();
    let factored = h.factor()?;
    let step = factored.solve(&point)?;
    println!("{h}\nsolved {} in {:.0} ms", factored.describe(), start.elapsed().as_secs_f64() * 1e3);
    let (back, _) = h.matvec(&step)?;
    println!("largest residual in U: {:.1e}\n", (back - &point.0).abs().max().item()?);

    println!("Ten layers in the activations before the first: a matrix for each sample\n");
    let weights: Vec<Tensor> = (0..10)
        .map(|layer| (normal(10 + layer, &[64, if layer == 9 { 10 } else { 64 }]) / 6.0).detach())
        .collect::<Result<_, _>>()?;
    let labels = Tensor::from((0..64_i64).map(|k| k % 10).collect::<Vec<_>>()).one_hot(10, DType::F64);
    let network = |h: &Tensor| {
        let last = weights[..9].iter().fold(h.clone(), |h, w| h.matmul(w).relu());
        -(last.matmul(&weights[9]).log_softmax(-1) * &labels).sum()
    };
    let activations = normal(20, &[64, 64]).abs().detach()?;
    let curvature = calculus::hessian(network);
    println!("{}\n{}", curvature.at(&activations)?.structure(), curvature.explain(&activations)?);
    println!("the Hessian          {:7.1} µs\n", microseconds(|| curvature.at(&activations).map(drop))?);

    println!("Newton on a logistic regression with more features than samples: diagonal plus low rank\n");
    let (x, y) = (normal(30, &[20, 200]).detach()?, normal(31, &[20]).sign().detach()?);
    let regression = |w: &Tensor| (-(x.matmul(w) * &y)).softplus().sum() + w.square().sum() * 0.5;
    let start = Tensor::zeros(200).cast(DType::F64);
    println!("{}", calculus::hessian(regression).at(&start)?.structure());
    println!("{}", Newton::new().minimise(regression, &start)?);
    Ok(())
}
