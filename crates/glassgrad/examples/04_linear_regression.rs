//! Linear regression three ways: the closed form, gradient descent, and one step of Newton's method.
//!
//! The mean squared error of a line is a quadratic function of intercept and slope. Its Hessian is
//! therefore the same everywhere, and if it is positive definite the loss is a bowl with a single
//! minimum: gradient descent cannot fail. The eigenvalues of the Hessian even say how it converges.
//! With the best learning rate 2/(λ₁ + λ₂) every step shrinks the error at least by the factor
//! (κ - 1)/(κ + 1), where κ = λ₂/λ₁; the program measures that factor.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 04_linear_regression`; it writes a picture into
//! `target/pictures`, or into the folder given as an argument.

mod picture;
mod random;

use glassgrad::scalar::{gradient, hessian};
use glassgrad::{Real, c};
use picture::{Corner, Panel, Point, linear, save};
use random::Random;

fn mean_squared_error<T: Real>(line: &[T], data: &[Point]) -> T {
    let errors = data.iter().map(|(x, y)| (line[0] + line[1] * c(*x) - c(*y)).square());
    errors.sum::<T>() / c(data.len() as f64)
}

/// Intercept and slope of least squares, as textbooks give them.
fn closed_form(data: &[Point]) -> [f64; 2] {
    let count = data.len() as f64;
    let (mean_x, mean_y) =
        (data.iter().map(|p| p.0).sum::<f64>() / count, data.iter().map(|p| p.1).sum::<f64>() / count);
    let covariance: f64 = data.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = data.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = covariance / variance;
    [mean_y - slope * mean_x, slope]
}

fn main() {
    let mut random = Random::new(4);
    let abscissae: Vec<f64> = (0..50).map(|_| random.uniform(0.0, 3.0)).collect();
    let data: Vec<Point> = abscissae.iter().map(|x| (*x, 1.0 + 2.0 * x + 0.5 * random.normal())).collect();
    let loss = |line: &[f64]| mean_squared_error(line, &data);
    let best = closed_form(&data);
    println!("closed form         y = {:.6} + {:.6} x, loss {:.6}", best[0], best[1], loss(&best));

    // The Hessian of a quadratic function is a constant matrix.
    let start = [4.0, -1.0];
    let curvature = hessian(|line| mean_squared_error(line, &data), &start);
    for _ in 0..10 {
        let elsewhere = [random.uniform(-9.0, 9.0), random.uniform(-9.0, 9.0)];
        let other = hessian(|line| mean_squared_error(line, &data), &elsewhere);
        assert!(curvature.elements().iter().zip(other.elements()).all(|(a, b)| (a - b).abs() < 1e-12));
        // Convexity without derivatives: the loss lies below each of its chords.
        let middle = [0, 1].map(|k| 0.5 * (elsewhere[k] + start[k]));
        assert!(loss(&middle) <= 0.5 * (loss(&elsewhere) + loss(&start)));
    }
    let (trace, determinant) = (
        curvature[(0, 0)] + curvature[(1, 1)],
        curvature[(0, 0)] * curvature[(1, 1)] - curvature[(0, 1)] * curvature[(1, 0)],
    );
    let spread = (0.25 * trace * trace - determinant).sqrt();
    let (flattest, steepest) = (0.5 * trace - spread, 0.5 * trace + spread);
    println!(
        "Hessian everywhere  [{:.4?}, {:.4?}], eigenvalues {flattest:.4} and {steepest:.4}",
        curvature.row(0),
        curvature.row(1)
    );
    assert!(flattest > 0.0, "the Hessian is positive definite, so the loss is a bowl");

    let rate = 2.0 / (flattest + steepest);
    let factor = (steepest - flattest) / (steepest + flattest);
    let distance = |line: &[f64]| (line[0] - best[0]).hypot(line[1] - best[1]);
    let mut line = start.to_vec();
    let mut path = vec![line.clone()];
    while distance(&line) > 1e-10 {
        let g = gradient(|line| mean_squared_error(line, &data), &line);
        let before = distance(&line);
        line.iter_mut().zip(&g).for_each(|(parameter, g)| *parameter -= rate * g);
        assert!(
            distance(&line) <= before * (factor + 1e-4),
            "every step shrinks the error as the eigenvalues foretell"
        );
        path.push(line.clone());
    }
    let measured = (distance(&line) / distance(&start)).powf(1.0 / (path.len() - 1) as f64);
    println!("gradient descent    y = {:.6} + {:.6} x after {} steps", line[0], line[1], path.len() - 1);
    println!("                    rate {rate:.4}, error factor per step {measured:.4}, foretold {factor:.4}");

    // Newton's method solves a quadratic problem in one step from anywhere: start - H⁻¹ ∇.
    let g = gradient(|line| mean_squared_error(line, &data), &start);
    let newton = [
        start[0] - (curvature[(1, 1)] * g[0] - curvature[(0, 1)] * g[1]) / determinant,
        start[1] - (curvature[(0, 0)] * g[1] - curvature[(1, 0)] * g[0]) / determinant,
    ];
    println!("one Newton step     y = {:.6} + {:.6} x", newton[0], newton[1]);
    assert!(distance(&newton) < 1e-12);

    let across = |line: &[f64]| vec![(0.0, line[0]), (3.0, line[0] + 3.0 * line[1])];
    let fits = Panel::new("The line on its way", linear("x", 0.0..3.0), linear("y", -1.0..11.0))
        .legend_at(Corner::UpperLeft)
        .line("least squares", across(&best))
        .line("start", across(&start))
        .line("after 2 steps", across(&path[2]))
        .line("after 10 steps", across(&path[10]))
        .dots("data", data.clone());
    let levels: Vec<f64> = (0..16).map(|k| loss(&best) + 0.05 * 1.6_f64.powi(k)).collect();
    let steps = path.iter().map(|line| (line[0], line[1])).collect();
    let bowl = Panel::new("The loss is a bowl", linear("intercept", -1.0..5.0), linear("slope", -2.0..4.0))
        .contours(&levels, |intercept, slope| loss(&[intercept, slope]))
        .path("gradient descent", steps)
        .path("Newton, one step", vec![(start[0], start[1]), (newton[0], newton[1])]);
    save("04_linear_regression", &[fits, bowl]);
}
