//! Fitting y = a x² + b x + c: blind perturbation against gradient descent.
//!
//! Both start from the same guess and minimise the mean squared error. Brute force perturbs the
//! parameters at random and keeps what is better. Gradient descent asks the tape which way is down.
//! The cost is counted in evaluations of the loss; a gradient by one reverse sweep is charged as
//! four, the bound of Griewank's cheap-gradient principle, whatever the number of parameters. With
//! three of them the blind search still gets somewhere; the second table shows how it falls behind
//! when there are more.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 03_fit_a_parabola`; it writes a picture into
//! `target/pictures`, or into the folder given as an argument.

mod picture;
mod random;

use glassgrad::scalar::gradient;
use glassgrad::{Real, c};
use picture::{Corner, Panel, Point, linear, logarithmic, save};
use random::Random;

/// What a gradient costs in evaluations of the function.
const GRADIENT_COST: usize = 4;
const TRUTH: [f64; 3] = [1.5, -2.0, 0.5];

fn parabola<T: Real>(parameters: &[T], x: f64) -> T {
    parameters[0] * c(x * x) + parameters[1] * c(x) + parameters[2]
}

fn mean_squared_error<T: Real>(parameters: &[T], data: &[Point]) -> T {
    let errors = data.iter().map(|(x, y)| (parabola(parameters, *x) - c(*y)).square());
    errors.sum::<T>() / c(data.len() as f64)
}

/// Perturbs all parameters at once and keeps the better guess. Returns the loss after each evaluation.
fn brute_force(loss: impl Fn(&[f64]) -> f64, guess: &mut Vec<f64>, budget: usize, random: &mut Random) -> Vec<Point> {
    let mut least = loss(guess);
    let mut history = vec![(1.0, least)];
    for evaluation in 2..=budget {
        let candidate: Vec<f64> = guess.iter().map(|parameter| parameter + random.uniform(-0.2, 0.2)).collect();
        let loss = loss(&candidate);
        if loss < least {
            (*guess, least) = (candidate, loss);
        }
        history.push((evaluation as f64, least));
    }
    history
}

fn main() {
    let mut random = Random::new(3);
    let data: Vec<Point> =
        (0..40).map(|k| -2.0 + 0.1 * f64::from(k)).map(|x| (x, parabola(&TRUTH, x) + 0.2 * random.normal())).collect();
    let start = [-1.0, 1.0, 3.0];
    let budget = 4000;

    let mut blind = start.to_vec();
    let blind_history = brute_force(|guess| mean_squared_error(guess, &data), &mut blind, budget, &mut random);

    let mut parameters = start.to_vec();
    let mut history = vec![(1.0, mean_squared_error(&parameters, &data))];
    for step in 1..=budget / GRADIENT_COST {
        let g = gradient(|p| mean_squared_error(p, &data), &parameters);
        for (parameter, g) in parameters.iter_mut().zip(&g) {
            *parameter -= 0.1 * g;
        }
        history.push(((step * GRADIENT_COST) as f64, mean_squared_error(&parameters, &data)));
    }

    println!("{} points on {TRUTH:?} with noise of deviation 0.2", data.len());
    for (name, fit, history) in [("brute force", &blind, &blind_history), ("gradient descent", &parameters, &history)] {
        println!(
            "  {name:<17} loss {:.6} after {budget} evaluations, parameters {fit:.4?}",
            history[history.len() - 1].1
        );
    }
    let flat = gradient(|p| mean_squared_error(p, &data), &parameters);
    assert!(flat.iter().all(|g| g.abs() < 1e-12), "gradient descent stands at the minimum: {flat:?}");
    assert!(parameters.iter().zip(TRUTH).all(|(fit, truth)| (fit - truth).abs() < 0.15));
    assert!(blind_history[budget - 1].1 > history[history.len() - 1].1, "no perturbation is better than the minimum");

    more_parameters(&mut random);

    let curve = |fit: &[f64]| -> Vec<Point> {
        (0..=80).map(|k| -2.0 + 0.05 * f64::from(k)).map(|x| (x, parabola(fit, x))).collect()
    };
    let fits = Panel::new("The fit", linear("x", -2.0..2.0), linear("y", -6.0..14.0))
        .line("after gradient descent", curve(&parameters))
        .line("first guess", curve(&start))
        .dots("data", data);
    // The noise leaves a loss that no parabola can go below; what lies above it shows the progress.
    let least = history[history.len() - 1].1;
    let excess =
        |history: Vec<Point>| history.into_iter().map(|(cost, loss)| (cost, (loss - least).max(1e-14))).collect();
    let losses = Panel::new(
        "Loss above the best, against cost",
        logarithmic("evaluations of the loss", 1.0..1e4),
        logarithmic("mean squared error above the least", 1e-14..1e2),
    )
    .legend_at(Corner::LowerLeft)
    .line("gradient descent", excess(history))
    .line("brute force", excess(blind_history));
    save("03_fit_a_parabola", &[fits, losses]);
}

/// How many evaluations it takes to shrink a round bowl Σ p² to a tenth, by its dimension.
fn more_parameters(random: &mut Random) {
    println!("\n  parameters   brute force   gradient descent   (evaluations until the loss is a tenth)");
    let mut last = 0;
    for dimension in [3, 10, 30, 100] {
        let bowl = |p: &[f64]| p.iter().map(|p| p * p).sum::<f64>();
        let start = vec![1.0; dimension];
        let target = bowl(&start) / 10.0;
        let history = brute_force(bowl, &mut start.clone(), 20_000, random);
        let blind = 1 + history.iter().position(|point| point.1 < target).expect("even a blind search gets there");
        let mut guess = start;
        let mut evaluations = 0;
        while bowl(&guess) > target {
            let g = gradient(|p| p.iter().map(|p| p.square()).sum(), &guess);
            guess.iter_mut().zip(&g).for_each(|(parameter, g)| *parameter -= 0.1 * g);
            evaluations += GRADIENT_COST;
        }
        println!("  {dimension:<12} {blind:<13} {evaluations}");
        assert!(blind > last, "every parameter more makes the blind search longer");
        assert_eq!(evaluations, 6 * GRADIENT_COST);
        last = blind;
    }
}
