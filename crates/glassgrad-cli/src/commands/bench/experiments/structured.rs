//! A question to the structured Hessian of a problem, asked again and again.

use std::hint::black_box;
use std::sync::Arc;

use glassgrad::array::Array;
use glassgrad::calculus::{self, Derivative, Hessian, Mode};
use glassgrad::error::Error;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, hvp};
use serde_json::{Value, json};

use super::super::data::direction;
use super::super::workload::{Workload, agree};
use super::problems::Problem;

/// The task of one run.
#[derive(Clone, Copy)]
pub(super) enum Task {
    /// Computes the stored factors of the Hessian, in the cheapest mode or in a given one.
    Held(Option<Mode>),
    /// The Hessian as a dense array.
    Dense,
    /// The Hessian, which is there already, is factored.
    Factor,
    /// The direction for a gradient: the Hessian, which is there already, is factored and solved.
    Solve,
    /// The Hessian is computed, factored and solved.
    Step,
}

/// The most bytes that a derivative may take at once.
const LIMIT: usize = 8_000_000_000;

/// The Hessian of a problem, and what was done with it last.
pub(super) struct Structured<X: Tree + 'static> {
    problem: Problem<X>,
    derivative: Derivative<'static, X, X, Hessian<X>>,
    question: Task,
    hessian: Option<Hessian<X>>,
    dense: Option<Array>,
    solution: Option<X>,
    /// The solver that was used.
    solved: Option<&'static str>,
}

impl<X: Tree + 'static> Structured<X> {
    pub(super) fn new(problem: Problem<X>, question: Task) -> Self {
        let function = Arc::clone(&problem.function);
        let derivative = calculus::hessian(move |x: &X| function(x)).limit(LIMIT);
        let derivative = match question {
            Task::Held(Some(mode)) => derivative.mode(mode),
            _ => derivative,
        };
        Structured { problem, derivative, question, hessian: None, dense: None, solution: None, solved: None }
    }

    /// The direction of Hessian-vector products, for checks and checksums, as a tree.
    fn direction(&self) -> X {
        let mut numbers = direction(self.problem.point.element_count());
        self.problem.point.map(|leaf| {
            let own: Vec<f64> = numbers.by_ref().take(leaf.shape().elements()).collect();
            Tensor::new(&own, leaf.shape().clone())
        })
    }

    fn checksum(&self) -> Result<f64, Error> {
        let along = self.direction();
        let missing = || Error::new("bench", "nothing was computed yet");
        let hessian = self.hessian.as_ref();
        match self.question {
            Task::Held(_) => inner(&hessian.ok_or_else(missing)?.matvec(&along)?, &along),
            Task::Dense => {
                let dense = self.dense.as_ref().ok_or_else(missing)?;
                let steps: Vec<f64> = direction(along.element_count()).collect();
                let row = |i: usize| -> f64 {
                    steps.iter().enumerate().map(|(j, step)| dense.buffer().get(i * steps.len() + j) * step).sum()
                };
                Ok(steps.iter().enumerate().map(|(i, step)| step * row(i)).sum())
            }
            Task::Factor => hessian.ok_or_else(missing)?.logdet(),
            Task::Solve | Task::Step => inner(self.solution.as_ref().ok_or_else(missing)?, &along),
        }
    }

    /// The Hessian along the direction against a product by forward over reverse mode, and a solution put back.
    fn checked(&self) -> Result<Result<(), String>, Error> {
        // What sums of millions of terms leave of sixteen digits.
        const TOLERANCE: f64 = 1e-9;
        let along = self.direction();
        let function = |x: &X| (self.problem.function)(x);
        let curvature = inner(&hvp(function, &self.problem.point, &along), &along)?;
        let found = match (&self.hessian, self.question) {
            (Some(hessian), _) => inner(&hessian.matvec(&along)?, &along)?,
            (None, _) => self.checksum()?,
        };
        if let Err(reason) = agree("the Hessian", found, curvature, TOLERANCE * curvature.abs()) {
            return Ok(Err(reason));
        }
        let (Some(hessian), Task::Factor | Task::Solve | Task::Step) = (&self.hessian, self.question) else {
            return Ok(Ok(()));
        };
        let gradient = &self.problem.gradient;
        let back = match &self.solution {
            Some(solution) => hessian.matvec(solution)?,
            None => hessian.matvec(&hessian.solve(gradient)?)?,
        };
        let left = back.add(&gradient.scale(-1.0));
        let (left, size) = (inner(&left, &left)?.sqrt(), inner(gradient, gradient)?.sqrt());
        Ok(agree("what the solution leaves of the gradient", left / size, 0.0, TOLERANCE))
    }
}

/// The sum of the products of all elements.
fn inner<X: Tree>(a: &X, b: &X) -> Result<f64, Error> {
    a.inner_product(b).item()
}

impl<X: Tree + 'static> Workload for Structured<X> {
    fn run(&mut self) -> Result<(), Error> {
        let Problem { point, gradient, .. } = &self.problem;
        // Factoring and solving begin with a Hessian that is there.
        if let (None, Task::Factor | Task::Solve) = (&self.hessian, self.question) {
            self.hessian = Some(self.derivative.at(point)?);
        }
        match (self.question, &self.hessian) {
            (Task::Dense, _) => {
                self.dense = None;
                self.dense = Some(self.derivative.at(point)?.to_dense()?.eval()?);
            }
            (Task::Factor, Some(hessian)) => self.solved = Some(black_box(hessian.factor()?).describe()),
            (Task::Solve, Some(hessian)) => {
                let factored = hessian.factor()?;
                (self.solution, self.solved) = (Some(factored.solve(gradient)?), Some(factored.describe()));
            }
            (Task::Step, _) => {
                let hessian = self.derivative.at(point)?;
                let factored = hessian.factor()?;
                (self.solution, self.solved) = (Some(factored.solve(gradient)?), Some(factored.describe()));
                self.hessian = Some(hessian);
            }
            _ => self.hessian = Some(self.derivative.at(point)?),
        }
        Ok(())
    }

    fn forward(&mut self) -> Result<(), Error> {
        (self.problem.function)(&self.problem.point).eval().map(drop)
    }

    fn value(&self) -> f64 {
        self.checksum().unwrap_or(f64::NAN)
    }

    fn results(&self) -> Vec<Tensor> {
        vec![(self.problem.function)(&self.problem.point)]
    }

    fn check(&self) -> Result<(), String> {
        self.checked().unwrap_or_else(|error| Err(error.to_string()))
    }

    /// The stored factors, and their predicted cost.
    fn facts(&self) -> Value {
        let Some(hessian) = &self.hessian else { return Value::Null };
        let explanation = self.derivative.explain(&self.problem.point).ok();
        let chosen =
            explanation.and_then(|explanation| explanation.candidates.into_iter().find(|candidate| candidate.chosen));
        json!({
            "structure": hessian.structure().to_string(),
            "held_bytes": hessian.bytes(),
            "dense_bytes": hessian.dense_bytes() as f64,
            "solved": self.solved,
            "mode": chosen.as_ref().map(|chosen| chosen.mode.to_string()),
            "flops": chosen.as_ref().map(|chosen| chosen.flops as f64),
            "moved_bytes": chosen.as_ref().map(|chosen| chosen.bytes as f64),
        })
    }
}
