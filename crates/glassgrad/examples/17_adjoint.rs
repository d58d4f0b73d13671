//! A differential equation, differentiated by its adjoint and through its steps.
//!
//! A pendulum swings: angle'' = -k·sin(angle). Where it is after a while depends on where it began and on k. One way to
//! the gradient is to differentiate every step of the integrator, which keeps all of them. The other solves the adjoint
//! equation backwards in time, λ' = -(∂f/∂y)ᵀλ, beside the motion itself run backwards, and keeps nothing but the
//! end. The first is the exact gradient of what was computed; the second approaches that of the true motion, so both
//! meet with the fourth power of the step.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 17_adjoint`.

use glassgrad::array::{Array, Buffer};
use glassgrad::dtype::DType;
use glassgrad::expr::{CustomOp, Rule, s};
use glassgrad::shape::Shape;
use glassgrad::{Tensor, grad, scan, vjp};

const TIME: f64 = 3.0;

/// The rate of (angle, velocity).
fn motion(state: &Tensor, k: &Tensor) -> Tensor {
    let (angle, velocity) = (state.slice(&[s(0)]), state.slice(&[s(1)]));
    Tensor::stack([&velocity, &-(k * angle.sin())], 0)
}

/// `steps` steps of Runge and Kutta's method of order 4, as one loop of the graph.
fn integrate(rate: impl Fn(&Tensor) -> Tensor, start: &Tensor, step: f64, steps: usize) -> Tensor {
    let advance = |y: &Tensor, _: &Tensor| {
        let first = rate(y);
        let second = rate(&(y + &first * (step / 2.0)));
        let third = rate(&(y + &second * (step / 2.0)));
        let fourth = rate(&(y + &third * step));
        (y + (first + 2.0 * second + 2.0 * third + fourth) * (step / 6.0), ())
    };
    scan(advance, start, &Tensor::zeros(steps)).0
}

/// The state after TIME, of the state at the beginning and k, by a solver that is not differentiated through.
#[derive(Debug)]
struct Flow {
    steps: usize,
}

impl CustomOp for Flow {
    fn name(&self) -> &str {
        "flow"
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((inputs[0].shape().clone(), inputs[0].dtype()))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let (start, k) = (inputs[0].buffer(), inputs[1].buffer().get(0));
        let rate = |y: [f64; 2]| [y[1], -k * y[0].sin()];
        let ahead = |y: [f64; 2], rate: [f64; 2], step: f64| [y[0] + step * rate[0], y[1] + step * rate[1]];
        let step = TIME / self.steps as f64;
        let end = (0..self.steps).fold([start.get(0), start.get(1)], |y, _| {
            let first = rate(y);
            let second = rate(ahead(y, first, step / 2.0));
            let third = rate(ahead(y, second, step / 2.0));
            let fourth = rate(ahead(y, third, step));
            [0, 1].map(|k| y[k] + step / 6.0 * (first[k] + 2.0 * second[k] + 2.0 * third[k] + fourth[k]))
        });
        Ok(Array::new(inputs[0].shape().clone(), Buffer::from_fn(start.dtype(), 2, |k| end[k])))
    }

    /// Backwards in time: the motion, λ that began as the cotangent, and what k gathers on the way.
    fn rule<'r>(&self, inputs: &'r [Tensor], end: &'r Tensor) -> Rule<'r> {
        let steps = self.steps;
        Rule::Pullback(Box::new(move |g| {
            let k = &inputs[1];
            let rate = |z: &Tensor| {
                let (state, adjoint) = (z.slice(&[s(0..2)]), z.slice(&[s(2..4)]));
                let (speed, pullback) = vjp(|(y, k): &(Tensor, Tensor)| motion(y, k), &(state, k.clone()));
                let (of_state, of_k) = pullback(&adjoint);
                Tensor::concatenate([&speed, &-of_state, &-of_k.reshape([1])], 0)
            };
            let last = Tensor::concatenate([end, g, &k.zeros_like().reshape([1])], 0);
            let first = integrate(rate, &last, -TIME / steps as f64, steps);
            vec![Some(first.slice(&[s(2..4)])), Some(first.slice(&[s(4)]))]
        }))
    }

    fn key(&self) -> Option<String> {
        Some(self.steps.to_string())
    }
}

fn main() {
    let at = (Tensor::from([1.2, 0.0]), Tensor::from(2.5));
    let angle = |state: Tensor| state.slice(&[s(0)]);
    let gaps = [50, 100].map(|steps| {
        let by_adjoint = grad(|(y, k): &(Tensor, Tensor)| angle(Tensor::custom(Flow { steps }, &[y, k])))(&at);
        let through_steps = grad(|(y, k): &(Tensor, Tensor)| {
            angle(integrate(|state| motion(state, k), y, TIME / steps as f64, steps))
        })(&at);
        println!("{steps:3} steps           ∂angle/∂start        ∂angle/∂k");
        println!("  by the adjoint    {}   {}", by_adjoint.0, by_adjoint.1);
        println!("  through the steps {}   {}", through_steps.0, through_steps.1);
        let gap = |a: &Tensor, b: &Tensor| (a - b).abs().max().item().expect("a number");
        f64::max(gap(&by_adjoint.0, &through_steps.0), gap(&by_adjoint.1, &through_steps.1))
    });
    println!("they differ by {:.1e}, and with half the step by {:.1e}", gaps[0], gaps[1]);
    assert!(gaps[0] < 1e-4 && gaps[1] < gaps[0] / 10.0, "the order of the method is 4");
}
