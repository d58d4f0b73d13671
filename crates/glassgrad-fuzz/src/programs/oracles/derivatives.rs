//! Oracles of derivatives, in 64 bits.

use glassgrad::dtype::DType;
use glassgrad::exec::with_rounding_noise;
use glassgrad::{Tensor, compile, grad, jvp, vjp};

use super::super::compare::Evaluated;
use super::super::interpret::{Interpreter, Mode, NODE_PERTURBATION, PERTURBATION};
use super::{Case, by_reference, direction, loss, planned};
use crate::counters;
use crate::random::Random;

/// Smooth mode: 64 bits everywhere, nothing stops derivatives.
const SMOOTH: Mode = Mode { as_f64: true, noise: None, expanded: false, inlined: true, ignores_stops: true };

/// Steps of finite differences are these negative powers of two.
const STEPS: [i32; 6] = [6, 9, 12, 15, 18, 21];

/// How often the runs for a tolerance are repeated.
const RUNS: u64 = 6;

/// A directional derivative by central differences, the gap of the one-sided differences, and the error estimate.
struct Estimate {
    derivative: f64,
    gap: f64,
    error: f64,
    /// What rounding of the function may do to the gap.
    rounding: f64,
}

/// The floating-point inputs, and all inputs again with others in their places.
struct Moved {
    all: Vec<Tensor>,
    places: Vec<usize>,
}

impl Moved {
    fn new(case: &Case<'_>, interpreter: &Interpreter) -> Moved {
        let all = interpreter.inputs(case.program);
        let is_moved = |place: &usize| all[*place].dtype() == DType::F64;
        let places = (0..all.len()).filter(is_moved).collect();
        Moved { all, places }
    }

    fn floats(&self) -> Vec<Tensor> {
        self.places.iter().map(|place| self.all[*place].clone()).collect()
    }

    fn with(&self, floats: &[Tensor]) -> Vec<Tensor> {
        let mut inputs = self.all.clone();
        for (place, tensor) in self.places.iter().zip(floats) {
            inputs[*place] = tensor.clone();
        }
        inputs
    }
}

fn numbers(tensors: &[Tensor]) -> Result<Vec<f64>, String> {
    elements(planned(tensors))
}

fn elements(values: Evaluated) -> Result<Vec<f64>, String> {
    let values = values.map_err(|error| error.to_string())?;
    Ok(values.iter().flat_map(|array| (0..array.buffer().len()).map(|k| array.buffer().get(k))).collect())
}

/// Forward and reverse mode are transposes of each other.
pub(super) fn adjoint(case: &Case<'_>) -> Result<(), String> {
    type Numbers<'n> = &'n dyn Fn(&[Tensor]) -> Result<Vec<f64>, String>;
    let products = |noise: Option<u64>, numbers: Numbers<'_>| -> Result<Option<([f64; 2], f64)>, String> {
        let interpreter = Interpreter::new(Mode { noise, ..SMOOTH });
        let moved = Moved::new(case, &interpreter);
        let x = moved.floats();
        let function = |x: &Vec<Tensor>| -> Vec<Tensor> {
            let outputs = interpreter.outputs(case.program, &moved.with(x));
            outputs.into_iter().filter(|output| output.is_float()).collect()
        };
        let mut random = Random::new(case.seed ^ 0xAD);
        let v: Vec<Tensor> = x.iter().map(|x| direction(&mut random, x.shape())).collect();
        let (value, pull) = vjp(function, &x);
        if x.is_empty() || value.is_empty() || value.iter().any(|value| value.error().is_some()) {
            return Ok(None);
        }
        let w: Vec<Tensor> = value.iter().map(|y| direction(&mut random, y.shape())).collect();
        // Perturbations are drawn anew for each pass; without noise both passes differentiate the same function.
        let (_, pushed) = jvp(function, &x, &v);
        let pulled = pull(&w);
        let (Ok(w), Ok(pushed), Ok(pulled), Ok(v)) = (numbers(&w), numbers(&pushed), numbers(&pulled), numbers(&v))
        else {
            return Ok(None);
        };
        let forward: Vec<f64> = w.iter().zip(&pushed).map(|(w, y)| w * y).collect();
        let reverse: Vec<f64> = pulled.iter().zip(&v).map(|(x, v)| x * v).collect();
        let size = forward.iter().chain(&reverse).map(|term| term.abs()).sum();
        Ok(Some(([forward.iter().sum(), reverse.iter().sum()], size)))
    };
    let Some(([forward, reverse], size)) = products(None, &numbers)? else { return Ok(()) };
    if !(forward.is_finite() && reverse.is_finite()) {
        counters::add("skipped", "adjoint: not finite", 1);
        return Ok(());
    }
    let rounding = 64.0 * f64::EPSILON * size;
    if (forward - reverse).abs() <= rounding {
        return Ok(());
    }
    let mut tolerance = rounding;
    for run in 0..2 * RUNS {
        // First operands are perturbed, then every node, as the tolerances of values are measured.
        let by_nodes =
            |tensors: &[Tensor]| with_rounding_noise(run, NODE_PERTURBATION, || elements(by_reference(tensors)));
        let perturbed = if run < RUNS { products(Some(run), &numbers)? } else { products(None, &by_nodes)? };
        if let Some(([one, other], _)) = perturbed {
            tolerance = tolerance.max((one - forward).abs()).max((other - reverse).abs());
        }
        if (forward - reverse).abs() <= tolerance || !tolerance.is_finite() {
            return Ok(());
        }
    }
    Err(format!("⟨w, Jv⟩ = {forward:e}, but ⟨Jᵀw, v⟩ = {reverse:e}, tolerance {tolerance:e}"))
}

/// The gradient along a direction against central differences.
pub(super) fn differences(case: &Case<'_>) -> Result<(), String> {
    let interpreter = Interpreter::new(SMOOTH);
    let moved = Moved::new(case, &interpreter);
    let x = moved.floats();
    let function = |x: &Vec<Tensor>| loss(&interpreter.outputs(case.program, &moved.with(x)), case.seed);
    let mut random = Random::new(case.seed ^ 0xFD);
    let v: Vec<Tensor> = x.iter().map(|x| direction(&mut random, x.shape())).collect();
    let (Ok(gradient), Ok(v)) = (numbers(&grad(function)(&x)), numbers(&v)) else { return Ok(()) };
    let terms: Vec<f64> = gradient.iter().zip(&v).map(|(g, v)| g * v).collect();
    let derivative: f64 = terms.iter().sum();
    let compiled = compile(function);
    let at = |step: f64| -> Option<f64> {
        let mut rest = &v[..];
        let mut stepped = Vec::new();
        for x in &x {
            let (own, others) = rest.split_at(x.shape().elements());
            rest = others;
            stepped.push(x + Tensor::new(own, x.shape()) * step);
        }
        compiled.call(&stepped).ok()?.item().ok().filter(|value| value.is_finite())
    };
    let skip = |reason: &str| {
        counters::add("skipped", format!("differences: {reason}"), 1);
        Ok(())
    };
    let Some(value) = at(0.0).filter(|_| derivative.is_finite()) else { return skip("not finite") };
    // What rounding does to the function: measured as all tolerances are, but for a few units in the last place.
    let rounding = (0..RUNS / 2).fold(4.0 * f64::EPSILON * value.abs(), |rounding, run| {
        let perturbed = Interpreter::new(Mode { noise: Some(run), ..SMOOTH });
        let loss = loss(&perturbed.outputs(case.program, &moved.all), case.seed);
        loss.item().map_or(f64::INFINITY, |other| rounding.max((other - value).abs() * 4.0 / PERTURBATION))
    });
    let mut estimates: Vec<Estimate> = Vec::new();
    for step in STEPS {
        let step = 2.0_f64.powi(-step);
        let (Some(after), Some(before)) = (at(step), at(-step)) else { return skip("not finite") };
        let (right, left) = ((after - value) / step, (value - before) / step);
        let (derivative, gap) = (0.5 * (right + left), (right - left).abs());
        let error = estimates.last().map_or(f64::INFINITY, |last: &Estimate| (derivative - last.derivative).abs());
        estimates.push(Estimate { derivative, gap, error: error + rounding / step, rounding: 4.0 * rounding / step });
    }
    let places = 1..estimates.len();
    let Some(place) = places.min_by(|a, b| estimates[*a].error.total_cmp(&estimates[*b].error)) else {
        return skip("no estimate");
    };
    let (best, before) = (&estimates[place], &estimates[place - 1]);
    // At a kink or a jump the one-sided derivatives stay apart; where the function is smooth they come together with the step.
    let size = terms.iter().map(|term| term.abs()).sum::<f64>() + best.derivative.abs();
    let known = f64::EPSILON.powf(0.25) * size;
    // Kinks of several terms may nearly cancel, so that a small gap that does not shrink with the step indicates them too.
    let is_constant = best.gap > 0.5 * before.gap && best.gap > best.rounding;
    if best.gap > known || is_constant {
        return skip("one-sided derivatives differ");
    }
    if best.error > known {
        return skip("no convergence");
    }
    let tolerance = 8.0 * best.error + best.gap + f64::EPSILON.powf(0.5) * size;
    if (derivative - best.derivative).abs() <= tolerance {
        return Ok(());
    }
    Err(format!(
        "the gradient along a direction is {derivative:e}, but differences give {:e}, tolerance {tolerance:e}",
        best.derivative
    ))
}
