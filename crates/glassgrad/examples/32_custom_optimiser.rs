//! An optimiser of one's own: Lion, whose steps are the signs of an average.
//!
//! A link is given the updates of all leaves, which begin as the gradient, and what it remembers; it returns other updates.
//! Links are chained with those that are there: here with weight decay, clipping and a schedule. Any step can be taken
//! apart into what each link did to it.
//!
//! Run it with `cargo run --release --example 32_custom_optimiser`.

use glassgrad::optim::{Link, Memory, Optimiser, Schedule, Step, WeightDecay};
use glassgrad::{Tensor, compile, grad};

/// The sign of a blend of the running mean and the update.
#[derive(Debug)]
struct Lion {
    blend: f64,
    factor: f64,
}

impl Link for Lion {
    fn name(&self) -> &'static str {
        "lion"
    }

    fn start(&self, parameters: &[Tensor]) -> Memory {
        Memory::zeros(1, parameters)
    }

    fn update(&self, _: &Step<'_>, updates: Vec<Tensor>, memory: &mut Memory) -> Vec<Tensor> {
        let mut steps = Vec::new();
        for (mean, update) in memory.leaves[0].iter_mut().zip(&updates) {
            steps.push((&*mean * self.blend + update * (1.0 - self.blend)).sign());
            *mean = &*mean * self.factor + update * (1.0 - self.factor);
        }
        steps
    }
}

fn main() {
    let valley = |x: &Tensor| {
        let (a, b) = (x.slice(&[0.into()]), x.slice(&[1.into()]));
        (1.0 - &a).square() + (b - a.square()).square() * 5.0
    };
    let optimiser = Optimiser::new(0.02)
        .link(Lion { blend: 0.9, factor: 0.99 })
        .link(WeightDecay(1e-6))
        .clip_norm(10.0)
        .schedule(Schedule::Exponential { factor: 0.5, every: 250 });
    let step = compile(|(x, state): &(Tensor, _)| optimiser.update(x, &grad(valley)(x), state));
    let start = Tensor::from([-0.5, 0.5]);
    let mut moment = (start.clone(), optimiser.start(&start));
    for number in 0..3000_u64 {
        if number % 500 == 0 {
            let value = valley(&moment.0).item().expect("a number");
            println!("step {number:4}  rate {:.1e}  value {value:.2e}", optimiser.rate_at(number + 1));
        }
        moment = step.call(&moment).expect("a step");
    }
    let (x, state) = moment;
    println!("one more step, taken apart:");
    for (name, update) in optimiser.take_apart(&x, &grad(valley)(&x), &state) {
        println!("  {name:<14} {update:.6}");
    }
    let found = x.to_vec::<f64>().expect("two numbers");
    assert!((found[0] - 1.0).abs() < 1e-3 && (found[1] - 1.0).abs() < 1e-3, "{found:?}");
}
