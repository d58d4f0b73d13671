//! L-BFGS: curvature from the last differences of points and gradients.

use std::collections::VecDeque;

use super::search::{Minimum, Round, Stop, dot, length, lower, moved};
use crate::compile::compile;
use crate::diff::{Outcome, value_and_grad};
use crate::error::Error;
use crate::expr::Tensor;
use crate::tree::Tree;

/// L-BFGS with a search along the line.
///
/// ```
/// use glassgrad::{Tensor, optim::Lbfgs};
/// let found = Lbfgs::new().minimise(|x: &Tensor| (x.exp() - x).sum(), &Tensor::from([1.0, -2.0])).unwrap();
/// assert!(found.converged);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Lbfgs {
    tolerance: f64,
    rounds: usize,
    memory: usize,
}

impl Default for Lbfgs {
    fn default() -> Lbfgs {
        Lbfgs { tolerance: 1e-8, rounds: 1000, memory: 10 }
    }
}

impl Lbfgs {
    /// With the last ten differences, until the gradient is no longer than 10⁻⁸.
    ///
    /// ```
    /// use glassgrad::optim::Lbfgs;
    /// assert_eq!(Lbfgs::new(), Lbfgs::default());
    /// ```
    pub fn new() -> Lbfgs {
        Lbfgs::default()
    }

    /// Until the gradient is no longer than this.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Lbfgs};
    /// let found = Lbfgs::new().tolerance(1e-3).minimise(|x: &Tensor| x.square().sum(), &Tensor::from([1.0]));
    /// assert!(found.unwrap().gradient_norm <= 1e-3);
    /// ```
    pub fn tolerance(self, tolerance: f64) -> Lbfgs {
        Lbfgs { tolerance, ..self }
    }

    /// The maximum number of iterations.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Lbfgs};
    /// let found = Lbfgs::new().rounds(3).minimise(|x: &Tensor| (x.exp() - x).sum(), &Tensor::from([3.0])).unwrap();
    /// assert_eq!(found.rounds.len(), 3);
    /// ```
    pub fn rounds(self, rounds: usize) -> Lbfgs {
        Lbfgs { rounds, ..self }
    }

    /// The history size: the number of stored differences.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Lbfgs};
    /// let forgetful = Lbfgs::new().memory(1);
    /// assert!(forgetful.minimise(|x: &Tensor| x.square().sum(), &Tensor::from([1.0])).unwrap().converged);
    /// ```
    pub fn memory(self, memory: usize) -> Lbfgs {
        Lbfgs { memory, ..self }
    }

    /// Minimises a function from a point on.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Lbfgs};
    /// let f = |(a, b): &(Tensor, Tensor)| (a - 1.0).square().sum() + (a * b - 2.0).square().sum();
    /// let found = Lbfgs::new().minimise(f, &(Tensor::from([0.5]), Tensor::from([0.5]))).unwrap();
    /// assert!(found.value < 1e-12);
    /// ```
    pub fn minimise<X: Tree, R: Outcome<Tree = Tensor>>(
        &self,
        function: impl Fn(&X) -> R,
        start: &X,
    ) -> Result<Minimum<X>, Error> {
        let both = compile(value_and_grad(&function));
        let mut point = start.realise()?;
        let (value, mut gradient) = both.call(&point)?;
        let mut value = value.item()?;
        let mut pairs: VecDeque<(X, X, f64)> = VecDeque::new();
        let mut rounds = Vec::new();
        loop {
            let gradient_norm = length(&gradient)?;
            let stop = if !value.is_finite() || !gradient_norm.is_finite() {
                Some(Stop::NotFinite)
            } else if gradient_norm <= self.tolerance {
                Some(Stop::Gradient)
            } else {
                (rounds.len() >= self.rounds).then_some(Stop::Rounds)
            };
            if let Some(stop) = stop {
                return Ok(Minimum::new(point, value, gradient_norm, stop, rounds));
            }
            let mut direction = along(&gradient, &pairs)?;
            let mut directional = dot(&gradient, &direction)?;
            if directional.is_nan() || directional >= 0.0 {
                pairs.clear();
                direction = gradient.scale(-1.0).realise()?;
                directional = -gradient_norm * gradient_norm;
            }
            // Without any memory the length of a step is unknown: the first is no longer than 1.
            let unit = if pairs.is_empty() { 1.0 / gradient_norm.max(1.0) } else { 1.0 };
            let mut last = None;
            let found = lower(value, directional * unit, |part| {
                let next = moved(&point, &direction, part * unit)?;
                let (value, gradient) = both.call(&next)?;
                let value = value.item()?;
                last = Some((next, gradient));
                Ok(value)
            })?;
            let (Some((part, value_there)), Some((next, gradient_there))) = (found, last) else {
                return Ok(Minimum::new(point, value, gradient_norm, Stop::Rounding, rounds));
            };
            let step = direction.scale(part * unit).realise()?;
            let change = moved(&gradient_there, &gradient, -1.0)?;
            let curvature = dot(&step, &change)?;
            if curvature > 1e-12 * length(&step)? * length(&change)? {
                pairs.push_back((step, change, curvature));
                if pairs.len() > self.memory {
                    pairs.pop_front();
                }
            }
            rounds.push(Round { value, gradient_norm, step: part * unit });
            (point, gradient, value) = (next, gradient_there, value_there);
        }
    }
}

/// The quasi-Newton direction by the two-loop recursion: from the newest difference to the oldest and back.
fn along<X: Tree>(gradient: &X, pairs: &VecDeque<(X, X, f64)>) -> Result<X, Error> {
    let mut direction = gradient.scale(-1.0).realise()?;
    let mut parts = Vec::new();
    for (step, change, curvature) in pairs.iter().rev() {
        let part = dot(step, &direction)? / curvature;
        direction = moved(&direction, change, -part)?;
        parts.push(part);
    }
    if let Some((_, change, curvature)) = pairs.back() {
        direction = direction.scale(curvature / dot(change, change)?).realise()?;
    }
    for ((step, change, curvature), part) in pairs.iter().zip(parts.iter().rev()) {
        let back = dot(change, &direction)? / curvature;
        direction = moved(&direction, step, part - back)?;
    }
    Ok(direction)
}
