//! Systems of equations by products with vectors alone.

use crate::error::Error;

/// A product of the system with a vector.
pub(super) type Apply<'a> = &'a dyn Fn(&[f64]) -> Result<Vec<f64>, Error>;

/// How small the residual must become, relative to the right-hand side.
const TOLERANCE: f64 = 1e-12;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// What an iteration came to: the solution, the residual relative to the right-hand side, and the number of products.
pub(super) struct Outcome {
    pub(super) solution: Vec<f64>,
    pub(super) residual: f64,
    pub(super) iterations: usize,
}

/// The method of minimal residuals for a symmetric system, definite or not, begun anew while that helps.
pub(super) fn minimal_residuals(apply: Apply, right: &[f64], most: usize) -> Result<Outcome, Error> {
    let size = norm(right);
    let mut solution = vec![0.0; right.len()];
    let (mut residual, mut iterations) = (right.to_vec(), 0);
    let mut relative = if size == 0.0 { 0.0 } else { 1.0 };
    for _ in 0..4 {
        if relative <= TOLERANCE || iterations >= most {
            break;
        }
        let (step, count) = one_run(apply, &residual, most - iterations, TOLERANCE * size)?;
        iterations += count;
        solution.iter_mut().zip(&step).for_each(|(x, dx)| *x += dx);
        let product = apply(&solution)?;
        residual = right.iter().zip(&product).map(|(b, ax)| b - ax).collect();
        let now = norm(&residual) / size;
        // What is not finite, or does not get smaller, will not.
        if now.is_nan() || now > 0.5 * relative {
            relative = now;
            break;
        }
        relative = now;
    }
    Ok(Outcome { solution, residual: relative, iterations })
}

/// The method of conjugate gradients for a symmetric positive definite system, with a solver of a system near to it. It ends
/// where the system turns out not to be definite.
pub(super) fn conjugate_gradients(
    apply: Apply,
    near: &dyn Fn(&mut Vec<f64>),
    right: &[f64],
    most: usize,
) -> Result<Outcome, Error> {
    let size = norm(right);
    let (mut solution, mut residual) = (vec![0.0; right.len()], right.to_vec());
    let solved = |residual: &[f64]| {
        let mut direction = residual.to_vec();
        near(&mut direction);
        direction
    };
    let mut preconditioned = solved(&residual);
    let (mut direction, mut residual_product) = (preconditioned.clone(), dot(&residual, &preconditioned));
    let mut iterations = 0;
    while norm(&residual) > TOLERANCE * size && iterations < most {
        let product = apply(&direction)?;
        iterations += 1;
        let curvature = dot(&direction, &product);
        if curvature <= 0.0 || !curvature.is_finite() {
            break;
        }
        let step = residual_product / curvature;
        solution.iter_mut().zip(&direction).for_each(|(x, d)| *x += step * d);
        residual.iter_mut().zip(&product).for_each(|(r, p)| *r -= step * p);
        preconditioned = solved(&residual);
        let next = dot(&residual, &preconditioned);
        let turn = next / residual_product;
        direction.iter_mut().zip(&preconditioned).for_each(|(d, z)| *d = z + turn * *d);
        residual_product = next;
    }
    // The recurrence loses the residual in rounding: it is measured.
    let product = apply(&solution)?;
    residual = right.iter().zip(&product).map(|(b, ax)| b - ax).collect();
    let residual = if size == 0.0 { 0.0 } else { norm(&residual) / size };
    Ok(Outcome { solution, residual, iterations })
}

/// One run of the recurrences, from zero.
fn one_run(apply: Apply, right: &[f64], most: usize, target: f64) -> Result<(Vec<f64>, usize), Error> {
    let count = right.len();
    let mut beta = norm(right);
    let mut solution = vec![0.0; count];
    if beta == 0.0 {
        return Ok((solution, 0));
    }
    let mut v: Vec<f64> = right.iter().map(|number| number / beta).collect();
    let mut v_before = vec![0.0; count];
    let (mut w, mut w_before) = (vec![0.0; count], vec![0.0; count]);
    let ((mut cosine, mut cosine_before), (mut sine, mut sine_before)) = ((1.0, 1.0), (0.0, 0.0));
    let mut eta = beta;
    beta = 0.0;
    for iteration in 1..=most {
        let mut next = apply(&v)?;
        let alpha = dot(&v, &next);
        for k in 0..count {
            next[k] -= alpha * v[k] + beta * v_before[k];
        }
        let beta_next = norm(&next);
        let delta = cosine * alpha - cosine_before * sine * beta;
        let rho = delta.hypot(beta_next);
        let (second, third) = (sine * alpha + cosine_before * cosine * beta, sine_before * beta);
        if rho == 0.0 || !rho.is_finite() {
            return Ok((solution, iteration));
        }
        (cosine_before, sine_before) = (cosine, sine);
        (cosine, sine) = (delta / rho, beta_next / rho);
        for k in 0..count {
            let direction = (v[k] - third * w_before[k] - second * w[k]) / rho;
            w_before[k] = w[k];
            w[k] = direction;
            solution[k] += cosine * eta * direction;
        }
        eta *= -sine;
        if eta.abs() <= target || beta_next == 0.0 {
            return Ok((solution, iteration));
        }
        next.iter_mut().for_each(|number| *number /= beta_next);
        v_before = std::mem::replace(&mut v, next);
        beta = beta_next;
    }
    Ok((solution, most))
}
