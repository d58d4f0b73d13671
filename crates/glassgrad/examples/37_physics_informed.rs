//! A physics-informed network solves Poisson's equation Δu = f on the unit square, with u = 0 on the boundary. The Laplacian is a
//! second forward derivative inside of the loss, which is then differentiated in reverse mode.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 37_physics_informed`.

use std::f64::consts::PI;

use glassgrad::models::Pinn;
use glassgrad::optim::{Optimizer, Schedule, State};
use glassgrad::rng::Key;
use glassgrad::{Tensor, compile, expr::s, value_and_grad};

/// The solution sin πx · sin πy, whose Laplacian is -2π² times itself.
fn solution(points: &Tensor) -> Tensor {
    let wave = |axis: isize| (points.slice(&[s(..), s(axis)]) * PI).sin();
    wave(0) * wave(1)
}

fn main() {
    const STEPS: u64 = 400;
    let optimizer = Optimizer::adam(5e-3).schedule(Schedule::Cosine { steps: STEPS, least: 0.01 });
    let step = compile(|((network, state), (inside, boundary)): &((Pinn, State<Pinn>), (Tensor, Tensor))| {
        let right = solution(inside) * (-2.0 * PI * PI);
        let (value, gradient) = value_and_grad(|network: &Pinn| {
            let (_, laplacian) = network.value_and_laplacian(inside);
            (laplacian - &right).square().mean() + network.apply(boundary).square().mean() * 100.0
        })(network);
        (optimizer.update(network, &gradient, state), value)
    });
    let network = Pinn::new(Key::new(1), &[2, 32, 32, 1]);
    let mut state = (network.clone(), optimizer.init(&network));
    for number in 0..=STEPS {
        let key = Key::new(2).fold(number);
        let inside = Tensor::uniform(key.fold(0), [256, 2]);
        // Points on the four sides: one coordinate is 0 or 1.
        let (along, end) = (Tensor::uniform(key.fold(1), [128]), Tensor::uniform(key.fold(2), [128]).round());
        let sides = [Tensor::stack([&along, &end], 1), Tensor::stack([&end, &along], 1)];
        let data = (inside, Tensor::concatenate([&sides[0], &sides[1]], 0));
        let value = step.update(&mut state, &data).expect("a step");
        if number % 100 == 0 {
            println!("step {number:3}  loss {:.4}", value.item().expect("a number"));
        }
    }
    let points = Tensor::uniform(Key::new(3), [1000, 2]);
    let error = (state.0.apply(&points) - solution(&points)).square().mean().sqrt().item().expect("a number");
    println!("root mean square error of u, which is at most 1: {error:.4}");
    assert!(error < 0.05);
}
