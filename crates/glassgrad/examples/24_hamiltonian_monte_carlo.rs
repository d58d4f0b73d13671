//! Samples of a posterior by Hamiltonian dynamics, with and without the Hessian at its mode as the mass.
//!
//! cargo run --release -p glassgrad-examples --example 24_hamiltonian_monte_carlo
//!
//! A particle that slides over the negative logarithm of a density, kicked at random every now and then, spends its time where the
//! density is. With one mass for all directions, its steps must be as short as the narrowest direction asks for, and the
//! wide ones are crossed slowly. With the Hessian at the mode as the mass, all directions are alike.

mod picture;
mod random;

use glassgrad::error::Error;
use glassgrad::optim::Newton;
use glassgrad::{Tensor, calculus, compile, value_and_grad};

use picture::{Corner, Panel, linear, save};
use random::Random;

const WEIGHTS: usize = 8;
const SAMPLES: usize = 200;
const DRAWS: usize = 4000;
const STEPS: usize = 10;
/// The share of proposals that should be accepted; the step is adapted to it before anything is kept.
const ACCEPTED: f64 = 0.8;

/// A density by its negative logarithm with gradient.
type Potential<'f> = &'f dyn Fn(&[f64]) -> Result<(f64, Vec<f64>), Error>;

/// How momenta are drawn, and how they become velocities.
trait Mass {
    fn momentum(&self, random: &mut Random) -> Vec<f64>;
    fn velocity(&self, momentum: &[f64]) -> Result<Vec<f64>, Error>;
}

struct Unit;

impl Mass for Unit {
    fn momentum(&self, random: &mut Random) -> Vec<f64> {
        (0..WEIGHTS).map(|_| random.normal()).collect()
    }

    fn velocity(&self, momentum: &[f64]) -> Result<Vec<f64>, Error> {
        Ok(momentum.to_vec())
    }
}

/// The Hessian at the mode: momenta are l·z with l·lᵀ = H, velocities H⁻¹p by its structure.
struct Curvature<'h> {
    lower: Vec<f64>,
    factored: calculus::Factored<'h, Tensor>,
}

impl Mass for Curvature<'_> {
    fn momentum(&self, random: &mut Random) -> Vec<f64> {
        let kicks: Vec<f64> = (0..WEIGHTS).map(|_| random.normal()).collect();
        self.lower.chunks_exact(WEIGHTS).map(|row| inner(row, &kicks)).collect()
    }

    fn velocity(&self, momentum: &[f64]) -> Result<Vec<f64>, Error> {
        self.factored.solve(&Tensor::from(momentum.to_vec()))?.to_vec::<f64>()
    }
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// What a chain came to.
struct Chain {
    draws: Vec<Vec<f64>>,
    accepted: f64,
    step: f64,
}

/// A chain from a point on. A quarter as many rounds again come before what is kept, and find the step.
fn chain(potential: Potential, mass: &dyn Mass, start: &[f64], random: &mut Random) -> Result<Chain, Error> {
    let (mut place, (mut height, mut gradient)) = (start.to_vec(), potential(start)?);
    let (mut step, mut draws, mut accepted) = (0.1, Vec::new(), 0.0);
    for round in 0..DRAWS + DRAWS / 4 {
        let adapting = round < DRAWS / 4;
        let mut momentum = mass.momentum(random);
        let energy = height + 0.5 * inner(&momentum, &mass.velocity(&momentum)?);
        // Steps of different lengths, so that no orbit closes.
        let length = step * random.uniform(0.8, 1.2);
        let (mut there, mut height_there, mut gradient_there) = (place.clone(), height, gradient.clone());
        for _ in 0..STEPS {
            momentum.iter_mut().zip(&gradient_there).for_each(|(p, g)| *p -= 0.5 * length * g);
            let velocity = mass.velocity(&momentum)?;
            there.iter_mut().zip(&velocity).for_each(|(x, v)| *x += length * v);
            (height_there, gradient_there) = potential(&there)?;
            momentum.iter_mut().zip(&gradient_there).for_each(|(p, g)| *p -= 0.5 * length * g);
        }
        let energy_there = height_there + 0.5 * inner(&momentum, &mass.velocity(&momentum)?);
        let chance = (energy - energy_there).exp().min(1.0);
        // What is not a number was a step too far.
        let chance = if chance.is_nan() { 0.0 } else { chance };
        if random.uniform(0.0, 1.0) < chance {
            (place, height, gradient) = (there, height_there, gradient_there);
        }
        if adapting {
            step *= (0.05 * (chance - ACCEPTED)).exp();
        } else {
            accepted += chance / DRAWS as f64;
            draws.push(place.clone());
        }
    }
    Ok(Chain { draws, accepted, step })
}

/// The mean and the variance of one weight.
fn moments(chain: &Chain, weight: usize) -> (f64, f64) {
    let numbers = || chain.draws.iter().map(|draw| draw[weight]);
    let mean = numbers().sum::<f64>() / DRAWS as f64;
    (mean, numbers().map(|number| (number - mean).powi(2)).sum::<f64>() / DRAWS as f64)
}

/// How many independent draws tell as much: autocorrelations are added up in pairs while these are positive (Geyer).
fn effective(chain: &Chain, weight: usize) -> f64 {
    let (mean, variance) = moments(chain, weight);
    let numbers: Vec<f64> = chain.draws.iter().map(|draw| draw[weight] - mean).collect();
    let correlation = |lag: usize| inner(&numbers[lag..], &numbers[..DRAWS - lag]) / (DRAWS as f64 * variance);
    let pairs = (0..DRAWS / 2).map(|pair| correlation(2 * pair) + correlation(2 * pair + 1));
    let total: f64 = pairs.take_while(|pair| *pair > 0.0).sum();
    (DRAWS as f64 / (2.0 * total - 1.0)).min(DRAWS as f64)
}

fn main() -> Result<(), Error> {
    let mut random = Random::new(3);
    // Features from 30 to 1/30 in size, each a little like the one before.
    let mut features = Vec::new();
    for _ in 0..SAMPLES {
        let mut before = 0.0;
        for k in 0..WEIGHTS {
            before = 0.6 * before + random.normal();
            features.push(before * 30.0_f64.powf(1.0 - 2.0 * k as f64 / (WEIGHTS - 1) as f64));
        }
    }
    let truth: Vec<f64> = (0..WEIGHTS).map(|k| 0.05 * 2.0_f64.powi(k as i32)).collect();
    let sides: Vec<f64> = features
        .chunks_exact(WEIGHTS)
        .map(|row| if random.uniform(0.0, 1.0) < 1.0 / (1.0 + (-inner(row, &truth)).exp()) { 1.0 } else { -1.0 })
        .collect();
    let (features, sides) = (Tensor::new(&features, [SAMPLES, WEIGHTS]), Tensor::from(sides));
    // The logistic likelihood, and a prior as wide as 10.
    let energy = |w: &Tensor| (-(features.matmul(w) * &sides)).softplus().sum() + w.square().sum() * 0.005;

    let mode = Newton::new().minimise(energy, &Tensor::new(&[0.0; WEIGHTS], WEIGHTS))?;
    assert!(mode.converged, "{mode}");
    let hessian = calculus::hessian(energy).at(&mode.point)?;
    println!("The mode is found in {} rounds; the Hessian there:\n{hessian}\n", mode.rounds.len());

    let compiled = compile(value_and_grad(energy));
    let potential = |place: &[f64]| -> Result<(f64, Vec<f64>), Error> {
        let (height, gradient) = compiled.call(&Tensor::from(place.to_vec()))?;
        Ok((height.item()?, gradient.to_vec::<f64>()?))
    };
    let lower = hessian.to_dense()?.cholesky().to_vec::<f64>()?;
    let curvature = Curvature { lower, factored: hessian.factor()? };
    let start = mode.point.to_vec::<f64>()?;
    let reference = reference(&potential, &curvature, &start, &mut random)?;

    let chains = [
        ("one mass for all", chain(&potential, &Unit, &start, &mut random)?),
        ("the Hessian as the mass", chain(&potential, &curvature, &start, &mut random)?),
    ];
    println!("{DRAWS} draws of {STEPS} steps      accepted   step     effective draws of each weight");
    let mut least = Vec::new();
    for (name, chain) in &chains {
        let each: Vec<f64> = (0..WEIGHTS).map(|weight| effective(chain, weight)).collect();
        let text: Vec<String> = each.iter().map(|count| format!("{count:5.0}")).collect();
        println!("{name:<25}  {:6.2}   {:6.3}   {}", chain.accepted, chain.step, text.join(" "));
        least.push(each.iter().copied().fold(f64::INFINITY, f64::min));
        assert!((chain.accepted - ACCEPTED).abs() < 0.12, "{name}: {}", chain.accepted);
    }
    println!("least: {:.0} against {:.0}\n", least[0], least[1]);
    assert!(least[1] > 5.0 * least[0] && least[1] > 0.2 * DRAWS as f64, "{least:?}");

    println!("          mean                                   standard deviation");
    println!("weight    reference   one mass   the Hessian    reference   one mass   the Hessian");
    for (weight, (mean, variance)) in reference.iter().enumerate() {
        let [(slow, slow_variance), (found, found_variance)] = [0, 1].map(|k| moments(&chains[k].1, weight));
        let [width, slow_width, found_width] = [*variance, slow_variance, found_variance].map(f64::sqrt);
        print!("{weight:>6} {mean:>12.4} {slow:>10.4} {found:>13.4}");
        println!(" {width:>12.4} {slow_width:>10.4} {found_width:>13.4}");
        // Five standard errors of the chain's own mean, and of its variance.
        let count = effective(&chains[1].1, weight);
        assert!((found - mean).abs() < 5.0 * (variance / count).sqrt(), "the mean of weight {weight}");
        // The draws of a square hang together longer than those themselves.
        assert!(
            (found_variance / variance - 1.0).abs() < 5.0 * (4.0 / count).sqrt(),
            "the variance of weight {weight}"
        );
    }
    draw(&chains, &reference);
    Ok(())
}

/// The moments without a chain: draws of the normal distribution that the mode and the Hessian describe, each counted by how
/// much likelier it is than there.
fn reference(
    potential: Potential,
    curvature: &Curvature,
    mode: &[f64],
    random: &mut Random,
) -> Result<Vec<(f64, f64)>, Error> {
    const COUNT: usize = 100_000;
    let (lowest, _) = potential(mode)?;
    let (mut total, mut first, mut second) = (0.0, [0.0; WEIGHTS], [0.0; WEIGHTS]);
    for _ in 0..COUNT {
        // H⁻¹·p has the covariance H⁻¹ if p has H.
        let momentum = curvature.momentum(random);
        let away = curvature.velocity(&momentum)?;
        let place: Vec<f64> = mode.iter().zip(&away).map(|(mode, away)| mode + away).collect();
        let weight = (0.5 * inner(&momentum, &away) + lowest - potential(&place)?.0).exp();
        total += weight;
        for k in 0..WEIGHTS {
            first[k] += weight * place[k];
            second[k] += weight * place[k] * place[k];
        }
    }
    let moments = |k: usize| (first[k] / total, second[k] / total - (first[k] / total).powi(2));
    Ok((0..WEIGHTS).map(moments).collect())
}

fn draw(chains: &[(&str, Chain); 2], reference: &[(f64, f64)]) {
    // The weight of the smallest feature is the widest.
    let widest = WEIGHTS - 1;
    let (mean, spread) = (reference[widest].0, reference[widest].1.sqrt());
    let range = mean - 4.0 * spread..mean + 6.0 * spread;
    let path = |chain: &Chain| -> Vec<(f64, f64)> {
        chain.draws.iter().take(300).enumerate().map(|(k, draw)| (k as f64, draw[widest])).collect()
    };
    let walks = Panel::new("the widest weight, 300 draws", linear("draw", 0.0..300.0), linear("weight", range.clone()))
        .line(chains[1].0, path(&chains[1].1))
        .line(chains[0].0, path(&chains[0].1))
        .legend_at(Corner::UpperRight);
    // Means of the draws so far: where they settle, and how soon.
    let so_far = |chain: &Chain| -> Vec<(f64, f64)> {
        let mut sum = 0.0;
        let mean = |(k, draw): (usize, &Vec<f64>)| {
            sum += draw[widest];
            (k as f64, sum / (k + 1) as f64)
        };
        chain.draws.iter().enumerate().map(mean).step_by(10).collect()
    };
    let settled = vec![(0.0, mean), (DRAWS as f64, mean)];
    let means = Panel::new(
        "its mean so far",
        linear("draws", 0.0..DRAWS as f64),
        linear("mean", mean - 0.6 * spread..mean + 0.8 * spread),
    )
    .line(chains[1].0, so_far(&chains[1].1))
    .line(chains[0].0, so_far(&chains[0].1))
    .line("reference", settled)
    .legend_at(Corner::UpperRight);
    save("hamiltonian_monte_carlo", &[walks, means]);
}
