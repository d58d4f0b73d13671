//! One function in every mode: what one engine says about it, another must confirm.

use glassgrad::Real;
use glassgrad::scalar::{Dual, Matrix, Mode, Recorded, Tape, Var, hessian, jacobian_forward, jvp, vjp};

/// A function that is written once and evaluated in every number.
pub(crate) trait Function {
    /// The results at a point.
    fn at<T: Real>(&self, x: &[T]) -> Vec<T>;
}

/// The results in plain numbers.
pub(crate) fn values(f: &impl Function, x: &[f64]) -> Vec<f64> {
    f.at(x)
}

/// A recording of the function.
pub(crate) fn recorded(f: &impl Function, x: &[f64]) -> Recorded {
    Recorded::several(|x, y| y.copy_from_slice(&f.at(x)), x, values(f, x).len())
}

/// The Jacobian, one row for each result, in every mode.
pub(crate) fn jacobians(f: &impl Function, x: &[f64]) -> Vec<(&'static str, Matrix<f64>)> {
    let results = values(f, x).len();
    let tape = recorded(f, x);
    let mut one_lane = Matrix::zeros(results, x.len());
    for column in 0..x.len() {
        let unit: Vec<f64> = (0..x.len()).map(|k| if k == column { 1.0 } else { 0.0 }).collect();
        let (_, slopes) = jvp(|x, y| y.copy_from_slice(&f.at(x)), x, &unit, results);
        slopes.into_iter().enumerate().for_each(|(row, slope)| one_lane[(row, column)] = slope);
    }
    let mut one_row = Matrix::zeros(results, x.len());
    for row in 0..results {
        let unit: Vec<f64> = (0..results).map(|k| if k == row { 1.0 } else { 0.0 }).collect();
        let (_, slopes) = vjp(|x, y| y.copy_from_slice(&f.at(x)), x, &unit);
        slopes.into_iter().enumerate().for_each(|(column, slope)| one_row[(row, column)] = slope);
    }
    vec![
        ("reverse sweeps", tape.jacobian(Mode::Reverse)),
        ("forward sweeps", tape.jacobian(Mode::Forward)),
        ("whichever needs fewer sweeps", tape.jacobian(Mode::Auto)),
        ("pullbacks", one_row),
        ("dual numbers", one_lane),
        ("three lanes", jacobian_forward::<_, 3>(|x, y| y.copy_from_slice(&f.at(x)), x, results)),
    ]
}

/// The Hessian of the first result in every pair of modes.
pub(crate) fn hessians(f: &impl Function, x: &[f64]) -> Vec<(&'static str, Matrix<f64>)> {
    vec![
        ("reverse over forward", hessian(|x| f.at(x)[0], x)),
        ("forward over forward", forward_over_forward(f, x)),
        ("forward over reverse", forward_over_reverse(f, x)),
        ("reverse over reverse", reverse_over_reverse(f, x)),
    ]
}

fn forward_over_forward(f: &impl Function, x: &[f64]) -> Matrix<f64> {
    let one_at = |place: usize, index: usize| if place == index { 1.0 } else { 0.0 };
    Matrix::from_fn(x.len(), x.len(), |i, j| {
        let seed = |(k, x): (usize, &f64)| Dual::new(Dual::new(*x, [one_at(k, j)]), [Dual::constant(one_at(k, i))]);
        let seeded: Vec<Dual<Dual<f64>>> = x.iter().enumerate().map(seed).collect();
        f.at(&seeded)[0].tangent().tangent()
    })
}

/// The rows of a Hessian from slopes that are numbers of the tape; a constant slope has no curvature.
fn rows(tape: &Tape<f64>, slopes: &[Var<'_, f64>], inputs: &[Var<'_, f64>]) -> Matrix<f64> {
    let sweeps: Vec<_> = slopes.iter().map(|slope| slope.id().map(|node| tape.reverse(node))).collect();
    Matrix::from_fn(inputs.len(), inputs.len(), |i, j| sweeps[i].as_ref().map_or(0.0, |sweep| sweep.of(inputs[j])))
}

fn forward_over_reverse(f: &impl Function, x: &[f64]) -> Matrix<f64> {
    let tape = Tape::new();
    let inputs = tape.inputs(x);
    let slope = |i: usize| {
        let seeded: Vec<Dual<Var<'_, f64>>> = inputs
            .iter()
            .enumerate()
            .map(|(k, x)| if k == i { Dual::variable(*x) } else { Dual::constant(*x) })
            .collect();
        f.at(&seeded)[0].tangent()
    };
    let slopes: Vec<Var<'_, f64>> = (0..x.len()).map(slope).collect();
    rows(&tape, &slopes, &inputs)
}

fn reverse_over_reverse(f: &impl Function, x: &[f64]) -> Matrix<f64> {
    let outer = Tape::new();
    let outer_inputs = outer.inputs(x);
    let inner = Tape::new();
    let inner_inputs = inner.inputs(&outer_inputs);
    let y = f.at(&inner_inputs)[0];
    let slopes: Vec<Var<'_, f64>> = match y.id() {
        Some(node) => {
            let adjoints = inner.reverse(node);
            inner_inputs.iter().map(|x| adjoints.of(*x)).collect()
        }
        None => vec![Var::constant(0.0); x.len()],
    };
    rows(&outer, &slopes, &outer_inputs)
}
