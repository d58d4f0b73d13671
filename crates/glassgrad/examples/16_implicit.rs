//! A root solver, differentiated implicitly.
//!
//! Kepler's equation E - e·sin E = M says where on its orbit a planet is. The solver iterates until the equation holds;
//! nobody differentiates the iterations. If F(E, M, e) = 0, then ∂E/∂M = -(∂F/∂M) / (∂F/∂E): the rule needs the
//! equation and its solution. The solution is the operation's own output, so the rule can be differentiated again.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 16_implicit`.

use glassgrad::array::{Array, Buffer};
use glassgrad::certify::certify_tensors;
use glassgrad::dtype::DType;
use glassgrad::expr::{CustomOp, Rule};
use glassgrad::rng::Key;
use glassgrad::shape::Shape;
use glassgrad::{Tensor, grad, vjp, vmap};

/// What is zero at the solution.
fn equation(anomaly: &Tensor, mean: &Tensor, eccentricity: &Tensor) -> Tensor {
    anomaly - eccentricity * anomaly.sin() - mean
}

/// The E with E - e·sin E = M, of M and e.
#[derive(Debug)]
struct Kepler;

impl CustomOp for Kepler {
    fn name(&self) -> &str {
        "kepler"
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        match inputs[0].shape() == inputs[1].shape() {
            true => Ok((inputs[0].shape().clone(), inputs[0].dtype())),
            false => Err("mean anomaly and eccentricity must have one shape".into()),
        }
    }

    /// Newton's method, element by element.
    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let [mean, eccentricity] = [0, 1].map(|k| inputs[k].buffer());
        let solve = |k: usize| {
            let (mean, e) = (mean.get(k), eccentricity.get(k));
            (0..50).fold(mean + e * mean.sin(), |x, _| x - (x - e * x.sin() - mean) / (1.0 - e * x.cos()))
        };
        Ok(Array::new(inputs[0].shape().clone(), Buffer::from_fn(mean.dtype(), mean.len(), solve)))
    }

    fn rule<'r>(&self, inputs: &'r [Tensor], anomaly: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(move |g| {
            let (mean, eccentricity) = (&inputs[0], &inputs[1]);
            let derivative = grad(|x: &Tensor| equation(x, mean, eccentricity).sum())(anomaly);
            let given = (mean.clone(), eccentricity.clone());
            let (_, pullback) = vjp(|(m, e): &(Tensor, Tensor)| equation(anomaly, m, e), &given);
            let (of_mean, of_eccentricity) = pullback(&(-g / derivative));
            vec![Some(of_mean), Some(of_eccentricity)]
        }))
    }

    fn key(&self) -> Option<String> {
        Some(String::new())
    }

    /// It works element by element, so a batch is nothing new once both have the axis.
    fn batched(&self, inputs: &[Tensor], with_axis: &[bool]) -> Option<Tensor> {
        let wide = inputs.iter().zip(with_axis).find(|(_, has)| **has)?.0.shape();
        Some(kepler(&inputs[0].broadcast_to(wide), &inputs[1].broadcast_to(wide)))
    }
}

fn kepler(mean: &Tensor, eccentricity: &Tensor) -> Tensor {
    Tensor::custom(Kepler, &[mean, eccentricity])
}

fn main() {
    let (mean, eccentricity) = (Tensor::linspace(0.2, 3.0, 5), Tensor::full(5, 0.6, DType::F64));
    let anomaly = kepler(&mean, &eccentricity);
    println!("E                   {anomaly}");
    println!("left of equation    {}", equation(&anomaly, &mean, &eccentricity));

    let derivative = grad(|m: &Tensor| kepler(m, &eccentricity).sum())(&mean);
    let exact = (1.0 - &eccentricity * anomaly.cos()).recip();
    println!("∂E/∂M               {derivative}");
    assert!((&derivative - exact).abs().max().item().expect("a number") < 1e-14);

    // The second derivative by differentiating the rule, -e·sin E / (1 - e·cos E)³, for each example by itself.
    let single = |m: &Tensor| kepler(m, &Tensor::from(0.6));
    let curvature = vmap(grad(|m: &Tensor| grad(single)(m)))(&mean);
    println!("∂²E/∂M²             {curvature}");
    let exact = -(&eccentricity * anomaly.sin()) * derivative.powi(3);
    assert!((curvature - exact).abs().max().item().expect("a number") < 1e-13);

    let f = |(m, e): &(Tensor, Tensor)| kepler(m, e);
    let certificate = certify_tensors(f, &(mean, eccentricity), Key::new(1)).expect("it can be evaluated");
    print!("{certificate}");
    assert!(certificate.holds());
}
