//! The matrix exponential as a custom operation, whose derivative is itself.
//!
//! The derivative of exp at a along e is the upper right block of exp [[a, e], [0, a]], and its adjoint is the same at
//! aᵀ. So the rule is the operation on a matrix of twice the size, and that of the rule again: every order is there. The
//! library's own `expm` (feature `linalg`) uses the same fact with a better approximation.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 15_matrix_exponential`.

use glassgrad::array::{Array, Buffer};
use glassgrad::certify::certify_tensors;
use glassgrad::dtype::DType;
use glassgrad::expr::{CustomOp, Rule, s};
use glassgrad::rng::Key;
use glassgrad::shape::Shape;
use glassgrad::{Tensor, grad, hessian, jvp};

/// exp a of one matrix; of two, the derivative at the first along the second.
#[derive(Debug)]
struct Exponential;

impl CustomOp for Exponential {
    fn name(&self) -> &str {
        "exponential"
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        match **inputs[0].shape() {
            [rows, columns] if rows == columns => Ok((inputs[0].shape().clone(), inputs[0].dtype())),
            _ => Err("a square matrix is needed".into()),
        }
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let (shape, a) = (inputs[0].shape(), inputs[0].buffer());
        let n = shape[0];
        let result = match inputs.get(1).map(Array::buffer) {
            None => series(n, |i, j| a.get(i * n + j)),
            Some(e) => {
                let whole = series(2 * n, |i, j| match (i < n, j < n) {
                    (true, false) => e.get(i * n + j - n),
                    (false, true) => 0.0,
                    _ => a.get(i % n * n + j % n),
                });
                (0..n * n).map(|place| whole[place / n * 2 * n + n + place % n]).collect()
            }
        };
        Ok(Array::new(shape.clone(), Buffer::from_fn(a.dtype(), n * n, |k| result[k])))
    }

    /// What is linear in a tangent is told to be: in e the derivative of the derivative is the derivative again. In a, it
    /// is that of the block matrix, of whose exponential the output is one block.
    fn rule<'r>(&self, inputs: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        let a = &inputs[0];
        let Some(e) = inputs.get(1) else {
            return Rule::Pullback(Box::new(move |g| vec![Some(derivative(&a.transpose(), g))]));
        };
        Rule::Pullback(Box::new(move |g| {
            let (n, zero) = (a.shape()[0], a.zeros_like());
            let block = |diagonal: &Tensor, corner: &Tensor| {
                let above = Tensor::concatenate([diagonal, corner], 1);
                Tensor::concatenate([&above, &Tensor::concatenate([&zero, diagonal], 1)], 0)
            };
            let whole = derivative(&block(a, e).transpose(), &block(&zero, g));
            let of_a = whole.slice(&[s(..n), s(..n)]) + whole.slice(&[s(n..), s(n..)]);
            vec![Some(of_a), Some(derivative(&a.transpose(), g))]
        }))
    }

    fn key(&self) -> Option<String> {
        Some(String::new())
    }
}

/// The power series of a/2ᵏ, which converges at once, squared k times; row by row.
fn series(n: usize, a: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let a: Vec<f64> = (0..n * n).map(|place| a(place / n, place % n)).collect();
    let size = a.iter().fold(0.0, |size: f64, x| size.max(x.abs())) * n as f64;
    let squarings = (size.max(1.0).log2().ceil() as i32 + 1).min(60);
    let small: Vec<f64> = a.iter().map(|x| x / 2.0_f64.powi(squarings)).collect();
    let product = |a: &[f64], b: &[f64]| -> Vec<f64> {
        (0..n * n).map(|place| (0..n).map(|k| a[place / n * n + k] * b[k * n + place % n]).sum()).collect()
    };
    let mut term: Vec<f64> = (0..n * n).map(|place| f64::from(u8::from(place / n == place % n))).collect();
    let mut sum = term.clone();
    for k in 1..20 {
        term = product(&term, &small).iter().map(|x| x / f64::from(k)).collect();
        sum.iter_mut().zip(&term).for_each(|(sum, term)| *sum += term);
    }
    (0..squarings).fold(sum, |root, _| product(&root, &root))
}

fn exponential(a: &Tensor) -> Tensor {
    Tensor::custom(Exponential, &[a])
}

fn derivative(a: &Tensor, e: &Tensor) -> Tensor {
    Tensor::custom(Exponential, &[a, e])
}

fn main() {
    // A turn: the exponential of [[0, -t], [t, 0]] is the rotation by t.
    let turn = |t: &Tensor| exponential(&(t * &Tensor::from([[0.0, -1.0], [1.0, 0.0]])));
    let (rotation, speed) = jvp(turn, &Tensor::from(0.5), &Tensor::from(1.0));
    println!("rotation by 1/2\n{rotation}\nits derivative in the angle\n{speed}");
    let error = (speed.slice(&[s(1), s(0)]).item().expect("a number") - 0.5_f64.cos()).abs();
    assert!(error < 1e-14, "the derivative of sin is cos, but for {error:e}");

    // The trace of exp a has the gradient exp aᵀ.
    let a = Tensor::from([[0.3, -1.2, 0.5], [0.7, 0.1, -0.4], [1.1, 0.2, -0.6]]);
    let gap = (grad(|a: &Tensor| exponential(a).trace())(&a) - exponential(&a).transpose()).abs().max();
    println!("∇ trace(exp a) - exp aᵀ: {:.1e}", gap.item().expect("a number"));
    assert!(gap.item().expect("a number") < 1e-14);

    let curved = hessian(|a: &Tensor| exponential(a).square().sum())(&a).reshape([9, 9]);
    let asymmetry = (&curved - curved.transpose()).abs().max().item().expect("a number");
    println!("asymmetry of the Hessian of Σ(exp a)²: {asymmetry:.1e}");
    let certificate = certify_tensors(exponential, &a, Key::new(1)).expect("it can be evaluated");
    print!("{certificate}");
    assert!(certificate.holds() && asymmetry < 1e-10);
}
