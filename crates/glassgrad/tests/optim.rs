//! Methods of descent on problems with known minima.

#[path = "judges/closeness.rs"]
mod closeness;
#[path = "judges/tensors.rs"]
#[allow(dead_code)]
mod tensors;

use glassgrad::calculus;
use glassgrad::optim::{Lbfgs, LevenbergMarquardt, Newton, Steps, Stop};
use glassgrad::{Tensor, grad};
use tensors::{normal, numbers, vector};

const ROUNDINGS: f64 = 1024.0;

fn norm(tensor: &Tensor) -> f64 {
    numbers(tensor).iter().map(|number| number * number).sum::<f64>().sqrt()
}

#[test]
fn newton_fits_a_ridge_logistic_regression_in_few_rounds() {
    let (samples, features) = (1000, 500);
    let x = normal(1, &[samples, features]);
    let truth = normal(2, &[features]);
    let y =
        vector(&numbers(&(x.matmul(&truth) + normal(3, &[samples]))).iter().map(|z| z.signum()).collect::<Vec<_>>());
    let f = |w: &Tensor| (-(x.matmul(w) * &y)).softplus().sum() + w.square().sum() * 0.5;
    let found = Newton::new().minimise(f, &Tensor::zeros(features).cast(x.dtype())).unwrap();
    assert!(found.converged && found.rounds.len() < 15, "{found}");
    assert!(norm(&grad(f)(&found.point)) < 1e-10);
}

#[test]
fn alternating_newton_factorises_a_noisy_matrix() {
    let (n, k) = (1000, 10);
    let clean = normal(1, &[n, k]).matmul(&normal(2, &[k, n]));
    let t = (clean + normal(3, &[n, n]) * 0.01).detach().unwrap();
    let f = |(u, v): &(Tensor, Tensor)| (&t - u.matmul(&v.transpose())).square().sum();
    let in_u = calculus::hessian(f).with_respect_to(|path| path.starts_with("0"));
    let in_v = calculus::hessian(f).with_respect_to(|path| path.starts_with("1"));
    let mut point = (normal(4, &[n, k]), normal(5, &[n, k]));
    let size = |point: &(Tensor, Tensor)| {
        let (u, v) = grad(f)(point);
        norm(&u).hypot(norm(&v))
    };
    let first = size(&point);
    let mut rounds = 0;
    while size(&point) > 1e-8 * first && rounds < 15 {
        let (_, gradient, h) = in_u.with_gradient_at(&point).unwrap();
        point.0 = (&point.0 - &h.solve(&gradient).unwrap().0).detach().unwrap();
        let (_, gradient, h) = in_v.with_gradient_at(&point).unwrap();
        point.1 = (&point.1 - &h.solve(&gradient).unwrap().1).detach().unwrap();
        rounds += 1;
    }
    assert!(rounds < 15, "{rounds} rounds: {:e} of {first:e}", size(&point));
}

/// Rosenbrock's valley.
fn valley(x: &Tensor) -> Tensor {
    let (a, b) = (x.slice(&[(..-1).into()]), x.slice(&[(1..).into()]));
    ((1.0 - &a).square() + (b - a.square()).square() * 100.0).sum()
}

#[test]
fn every_method_walks_down_the_valley() {
    let start = Tensor::from([-1.2, 1.0]);
    let check = |what: &str, point: &Tensor| {
        assert!(numbers(point).iter().all(|number| (number - 1.0).abs() < 1e-6), "{what}: {point}");
    };
    for steps in [Steps::Line, Steps::Trust] {
        let found = Newton::new().steps(steps).minimise(valley, &start).unwrap();
        assert!(found.converged, "{steps:?}\n{found}");
        check("newton", &found.point);
    }
    let found = Lbfgs::new().minimise(valley, &start).unwrap();
    assert!(found.converged, "{found}");
    check("l-bfgs", &found.point);
    let residuals = |x: &Tensor| {
        let (a, b) = (x.slice(&[(..-1).into()]), x.slice(&[(1..).into()]));
        (1.0 - &a, (b - a.square()) * 10.0)
    };
    let found = LevenbergMarquardt::new().minimise(residuals, &start).unwrap();
    assert!(found.converged, "{found}");
    check("levenberg-marquardt", &found.point);
}

#[test]
fn saddles_and_flat_directions_do_not_stop_newton() {
    let saddle = |x: &Tensor| (x.powi(4) - x.square() * 2.0).sum();
    let found = Newton::new().minimise(saddle, &Tensor::from([0.1, -0.2])).unwrap();
    assert!(found.converged, "{found}");
    assert!((found.value + 2.0).abs() < 1e-12);
    let flat = |x: &Tensor| (x.sum() - 3.0).square();
    let found = Newton::new().minimise(flat, &Tensor::from([0.0, 0.0, 0.0])).unwrap();
    assert!(found.converged && found.value < 1e-18, "{found}");
}

#[test]
fn errors_are_errors() {
    let error = Newton::new().minimise(|x: &Tensor| x.square(), &Tensor::from([1.0, 2.0])).err().unwrap();
    assert!(error.to_string().contains("one floating-point number"), "{error}");
    let _ = ROUNDINGS;
}

#[test]
fn newton_factorises_matrices_instead_of_ending_at_saddle_points() {
    for seed in 0..20 {
        let t = normal(seed, &[5, 2]).matmul(&normal(seed + 100, &[2, 4])).detach().unwrap();
        let f = |(u, v): &(Tensor, Tensor)| (&t - u.matmul(v)).square().sum();
        for steps in [Steps::Line, Steps::Trust] {
            let start = (normal(seed + 200, &[5, 2]) * 0.1, normal(seed + 300, &[2, 4]) * 0.1);
            let found = Newton::new().steps(steps).rounds(200).minimise(f, &start).unwrap();
            assert!(found.value < 1e-16, "{steps:?}, seed {seed}:\n{found}");
        }
    }
}

#[test]
fn the_reason_for_stopping_is_reported() {
    let saddle = |x: &Tensor| x.slice(&[0.into()]).square() - x.slice(&[1.into()]).square() + x.powi(4).sum();
    let well = |x: &Tensor| (x - 1.0).square().sum();
    for steps in [Steps::Line, Steps::Trust] {
        let newton = Newton::new().steps(steps);
        let found = newton.minimise(saddle, &Tensor::from([0.0, 0.0])).unwrap();
        assert_eq!((found.stop, found.converged), (Stop::Saddle, false), "{found}");
        // Beside the saddle the descent leaves it.
        let found = newton.minimise(saddle, &Tensor::from([1.0, 1e-6])).unwrap();
        assert!(found.converged && (found.value + 0.25).abs() < 1e-12, "{found}");
        let found = newton.minimise(well, &Tensor::from([f64::NAN, 0.0])).unwrap();
        assert_eq!((found.stop, found.converged, found.rounds.len()), (Stop::NotFinite, false, 0));
        assert!(found.to_string().contains("not finite"), "{found}");
        assert_eq!(newton.minimise(well, &Tensor::from([5.0, 0.0])).unwrap().stop, Stop::Gradient);
    }
    let found = Lbfgs::new().minimise(well, &Tensor::from([f64::NAN, 0.0])).unwrap();
    assert_eq!(found.stop, Stop::NotFinite);
    let found = LevenbergMarquardt::new().minimise(|x: &Tensor| x - 1.0, &Tensor::from([f64::NAN])).unwrap();
    assert_eq!(found.stop, Stop::NotFinite);
    let found = Lbfgs::new().rounds(1).minimise(valley, &Tensor::from([-1.2, 1.0])).unwrap();
    assert_eq!(found.stop, Stop::Rounds);
}
