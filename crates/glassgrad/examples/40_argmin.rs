//! Solvers of the crate `argmin` with exact derivatives: a function is written once, over any number.
//!
//! `ArgminProblem` gives argmin the cost, the gradient (one reverse sweep) and the Hessian (reverse sweeps over dual numbers) of
//! an [`Objective`]. The example minimises Rosenbrock's function by L-BFGS, which uses gradients, and by Newton's method, which uses
//! Hessians, and finds the equilibrium of charges on a line by steepest descent with a line search.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 40_argmin`.

use argmin::core::{CostFunction, Executor, Gradient, Hessian, State};
use argmin::solver::gradientdescent::SteepestDescent;
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use glassgrad::Real;
use glassgrad::scalar::adapters::{ArgminProblem, Objective};

/// Rosenbrock's valley in any number of dimensions.
struct Rosenbrock;

impl Objective for Rosenbrock {
    fn value<T: Real>(&self, x: &[T]) -> T {
        let term = |pair: &[T]| {
            let valley = pair[1] - pair[0].square();
            valley.square() * T::literal(100.0) + (T::literal(1.0) - pair[0]).square()
        };
        x.windows(2).map(term).sum()
    }
}

/// Equal charges on a line, held together by a parabola: the energy of their distances and places.
struct Charges;

impl Objective for Charges {
    fn value<T: Real>(&self, x: &[T]) -> T {
        let pairs = (0..x.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        let repulsion: T = pairs.map(|(a, b)| (x[a] - x[b]).abs().recip()).sum();
        repulsion + x.iter().map(|x| x.square() * T::literal(0.5)).sum()
    }
}

fn main() {
    lbfgs();
    newton();
    charges();
}

fn lbfgs() {
    let start = vec![-1.2; 10];
    let solver = LBFGS::new(MoreThuenteLineSearch::new(), 7).with_tolerance_grad(1e-10).expect("a tolerance");
    let run = Executor::new(ArgminProblem(Rosenbrock), solver)
        .configure(|state| state.param(start).max_iters(300))
        .run()
        .expect("the valley is smooth");
    let best = run.state().get_best_param().expect("a point").clone();
    println!("L-BFGS: {} iterations to {:.1e}", run.state().get_iter(), run.state().get_best_cost());
    assert!(best.iter().all(|x| (x - 1.0).abs() < 1e-6), "{best:?}");
}

/// Newton's method by hand, over what the problem hands to every solver.
fn newton() {
    let problem = ArgminProblem(Rosenbrock);
    let mut x = vec![-1.2, 1.0];
    let mut steps = 0;
    while problem.cost(&x).expect("a number") > 1e-25 {
        let (g, h) = (problem.gradient(&x).expect("a gradient"), problem.hessian(&x).expect("a Hessian"));
        let determinant = h[0][0] * h[1][1] - h[0][1] * h[1][0];
        x[0] -= (h[1][1] * g[0] - h[0][1] * g[1]) / determinant;
        x[1] -= (h[0][0] * g[1] - h[1][0] * g[0]) / determinant;
        steps += 1;
    }
    println!("Newton: {steps} steps to {:.1e}", problem.cost(&x).expect("a number"));
    assert!(steps < 20);
}

fn charges() {
    let solver = SteepestDescent::new(MoreThuenteLineSearch::new());
    let run = Executor::new(ArgminProblem(Charges), solver)
        .configure(|state| state.param(vec![-2.0, -0.3, 0.5, 1.0]).max_iters(400))
        .run()
        .expect("the charges do not meet");
    let places = run.state().get_best_param().expect("a point").clone();
    println!("charges at {places:.4?}, energy {:.6}", run.state().get_best_cost());
    // By symmetry the charges lie in pairs about the middle.
    assert!((places[0] + places[3]).abs() < 1e-3 && (places[1] + places[2]).abs() < 1e-3, "{places:?}");
    let slopes = ArgminProblem(Charges).gradient(&places).expect("a gradient");
    assert!(slopes.iter().all(|slope| slope.abs() < 1e-3), "{slopes:?}");
}
