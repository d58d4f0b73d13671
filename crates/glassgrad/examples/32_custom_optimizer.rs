//! A custom optimizer: Lion, whose steps are the signs of a blend of the momentum and the gradient.
//!
//! A link states its slots and its formula once, over symbols. The update of tensors is derived from it, and so are the
//! typeset formula and the numbers of any single weight. Links are chained with those of the library: here with weight
//! decay, clipping and a schedule.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 32_custom_optimizer`.

use glassgrad::formula::Symbol;
use glassgrad::optim::{Link, Optimizer, Rule, Schedule, Slot, WeightDecay};
use glassgrad::{Algebra as _, Tensor, compile, grad};

/// Lion: evolved sign momentum.
#[derive(Debug)]
struct Lion {
    beta1: f64,
    beta2: f64,
}

impl Link for Lion {
    fn name(&self) -> &'static str {
        "Lion"
    }

    fn slots(&self) -> Vec<Slot> {
        vec![Slot::per_weight("momentum", "m")]
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        let (m, g, one) = (rule.slot("m"), rule.update(), rule.number(1.0));
        let [beta1, beta2] = [rule.constant("β1", self.beta1), rule.constant("β2", self.beta2)];
        rule.set("m", beta2 * m + (one - beta2) * g);
        (beta1 * m + (one - beta1) * g).sign()
    }
}

fn main() {
    let valley = |x: &Tensor| {
        let (a, b) = (x.slice(&[0.into()]), x.slice(&[1.into()]));
        (1.0 - &a).square() + (b - a.square()).square() * 5.0
    };
    let optimizer = Optimizer::new(0.02)
        .link(Lion { beta1: 0.9, beta2: 0.99 })
        .link(WeightDecay(1e-6))
        .clip_norm(10.0)
        .schedule(Schedule::Exponential { factor: 0.5, every: 250 });
    let step = compile(|(x, state): &(Tensor, _)| optimizer.update(x, &grad(valley)(x), state));
    let start = Tensor::from([-0.5, 0.5]);
    let mut moment = (start.clone(), optimizer.init(&start));
    for number in 0..3000_u64 {
        if number % 500 == 0 {
            let value = valley(&moment.0).item().expect("a number");
            println!("step {number:4}  rate {:.1e}  value {value:.2e}", optimizer.rate_at(number + 1));
        }
        moment = step.call(&moment).expect("a step");
    }
    let (x, state) = moment;
    println!("one more step of the first weight:");
    let step = optimizer.weight_step(&x, &grad(valley)(&x), None, &state, "", &[0]).expect("a step");
    for link in step.explain(|number| format!("{number:.6}")).expect("numbers") {
        for line in link.lines {
            println!("  {:<14} {line}", link.name);
        }
    }
    let found = x.to_vec::<f64>().expect("two numbers");
    assert!((found[0] - 1.0).abs() < 1e-3 && (found[1] - 1.0).abs() < 1e-3, "{found:?}");
}
