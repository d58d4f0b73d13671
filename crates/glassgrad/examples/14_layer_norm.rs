//! A custom fused operation: layer normalisation with its pullback, against the composed one.
//!
//! The composed form is a dozen nodes. The fused one computes each row in two passes over plain memory, and states in its
//! rule what the derivative simplifies to. The rule is written in tensors, so second derivatives need no second rule.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 14_layer_norm`.

use glassgrad::array::{Array, Buffer};
use glassgrad::certify::certify_tensors;
use glassgrad::dtype::DType;
use glassgrad::expr::{Axes, CustomOp, Rule};
use glassgrad::rng::Key;
use glassgrad::shape::Shape;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, grad, hvp};

const EPSILON: f64 = 1e-5;

/// (x - mean) / √(variance + ε) · gain + bias along the last axis.
fn composed(x: &Tensor, gain: &Tensor, bias: &Tensor) -> Tensor {
    let last = || Axes::from(-1).keep();
    (x - x.mean_over(last())) * (x.var_over(last()) + EPSILON).rsqrt() * gain + bias
}

/// The same as one operation.
#[derive(Debug)]
struct LayerNorm;

impl CustomOp for LayerNorm {
    fn name(&self) -> &str {
        "layer_norm"
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        let [x, gain, bias] = inputs else { return Err("it takes x, gain and bias".into()) };
        let width = x.shape().last().copied().ok_or("x needs an axis")?;
        match [gain, bias].iter().all(|row| **row.shape() == [width]) {
            true => Ok((x.shape().clone(), x.dtype())),
            false => Err(format!("gain and bias must have the shape [{width}]")),
        }
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let [x, gain, bias] = [0, 1, 2].map(|k| inputs[k].buffer());
        let (count, width) = (x.len(), gain.len());
        let rows = (0..count / width.max(1)).map(|row| {
            let row = (row * width..(row + 1) * width).map(|k| x.get(k));
            let mean = row.clone().sum::<f64>() / width as f64;
            let variance = row.map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
            (mean, 1.0 / (variance + EPSILON).sqrt())
        });
        let rows: Vec<(f64, f64)> = rows.collect();
        let element = |k: usize| {
            let (mean, scale) = rows[k / width];
            (x.get(k) - mean) * scale * gain.get(k % width) + bias.get(k % width)
        };
        Ok(Array::new(inputs[0].shape().clone(), Buffer::from_fn(x.dtype(), count, element)))
    }

    /// With n the normalised rows and h = g·gain: x̄ = (h - mean h - n·mean(h·n)) / √(variance + ε).
    fn rule<'r>(&self, inputs: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(move |g| {
            let (x, gain) = (&inputs[0], &inputs[1]);
            let last = || Axes::from(-1).keep();
            let scale = (x.var_over(last()) + EPSILON).rsqrt();
            let normal = (x - x.mean_over(last())) * &scale;
            let h = g * gain;
            let of_x = scale * (&h - h.mean_over(last()) - &normal * (&h * &normal).mean_over(last()));
            let rows: Vec<isize> = (0..x.rank() as isize - 1).collect();
            vec![Some(of_x), Some((g * normal).sum_over(&rows[..])), Some(g.sum_over(&rows[..]))]
        }))
    }

    /// It has no fields: all graphs with it share their program.
    fn key(&self) -> Option<String> {
        Some(String::new())
    }
}

type Arguments = (Tensor, Tensor, Tensor);

fn fused((x, gain, bias): &Arguments) -> Tensor {
    Tensor::custom(LayerNorm, &[x, gain, bias])
}

/// The largest difference between trees.
fn distance<T: Tree>(a: &T, b: &T) -> f64 {
    let pairs = a.flatten().into_iter().zip(b.flatten());
    pairs.map(|(a, b)| (a - b).abs().max().item().expect("a number")).fold(0.0, f64::max)
}

fn main() {
    let draw = |number: u64, shape: &[usize]| Tensor::normal(Key::new(number), shape).cast(DType::F64);
    let at = (draw(1, &[4, 8]), draw(2, &[8]), draw(3, &[8]));
    let plain = |(x, gain, bias): &Arguments| composed(x, gain, bias);
    let (loss, plain_loss) = (|at: &Arguments| fused(at).sin().sum(), |at: &Arguments| plain(at).sin().sum());

    let value = distance(&fused(&at), &plain(&at));
    let first = distance(&grad(loss)(&at), &grad(plain_loss)(&at));
    let second = distance(&hvp(loss, &at, &at), &hvp(plain_loss, &at, &at));
    println!("largest difference to the composed one: value {value:.1e}, gradient {first:.1e}, Hessian·v {second:.1e}");
    assert!(value < 1e-13 && first < 1e-13 && second < 1e-12);

    let certificate = certify_tensors(fused, &at, Key::new(4)).expect("it can be evaluated");
    print!("{certificate}");
    assert!(certificate.holds());
}
