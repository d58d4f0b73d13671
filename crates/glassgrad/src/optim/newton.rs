//! Newton's method with the structured Hessian.

use super::search::{Minimum, Round, Stop, dot, length, lower, moved};
use crate::calculus::{self, Hessian, Spectrum};
use crate::compile::compile;
use crate::diff::Outcome;
use crate::error::Error;
use crate::expr::Tensor;
use crate::tree::Tree;

/// The globalisation of Newton's method.
///
/// ```
/// use glassgrad::{Tensor, optim::{Newton, Steps}};
/// let valley = |x: &Tensor| {
///     let (a, b) = (x.slice(&[0.into()]), x.slice(&[1.into()]));
///     (1.0 - &a).square() + (b - a.square()).square() * 100.0
/// };
/// for steps in [Steps::Line, Steps::Trust] {
///     let found = Newton::new().steps(steps).minimise(valley, &Tensor::from([-1.2, 1.0])).unwrap();
///     assert!(found.converged, "{found}");
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Along the direction to the minimum of the quadratic model, as far as the value falls. Where the model has no
    /// minimum, because the Hessian has a negative or vanishing eigenvalue, a multiple of the identity is added until it
    /// has one.
    Line,
    /// To the minimum of the quadratic model within a region in which it is trusted, by products with the Hessian.
    Trust,
}

/// Newton's method.
///
/// ```
/// use glassgrad::{Tensor, optim::Newton};
/// let found = Newton::new().minimise(|x: &Tensor| (x.exp() - x * 2.0).sum(), &Tensor::from([0.0, 5.0])).unwrap();
/// assert!(found.converged && found.rounds.len() < 15);
/// assert!((found.point.to_vec::<f64>().unwrap()[1] - 2.0_f64.ln()).abs() < 1e-12);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Newton {
    tolerance: f64,
    rounds: usize,
    steps: Steps,
}

impl Default for Newton {
    fn default() -> Newton {
        Newton { tolerance: 1e-10, rounds: 100, steps: Steps::Line }
    }
}

impl Newton {
    /// Newton's method with a search along the line, until the gradient is no longer than 10⁻¹⁰.
    ///
    /// ```
    /// use glassgrad::optim::Newton;
    /// assert_eq!(Newton::new(), Newton::default());
    /// ```
    pub fn new() -> Newton {
        Newton::default()
    }

    /// Until the gradient is no longer than this.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Newton};
    /// let rough = Newton::new().tolerance(1e-2).minimise(|x: &Tensor| x.powi(4).sum(), &Tensor::from([1.0])).unwrap();
    /// assert!(rough.converged && rough.gradient_norm > 1e-4);
    /// ```
    pub fn tolerance(self, tolerance: f64) -> Newton {
        Newton { tolerance, ..self }
    }

    /// The maximum number of iterations.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Newton};
    /// let found = Newton::new().rounds(2).minimise(|x: &Tensor| x.powi(4).sum(), &Tensor::from([1.0])).unwrap();
    /// assert!(!found.converged && found.rounds.len() == 2);
    /// ```
    pub fn rounds(self, rounds: usize) -> Newton {
        Newton { rounds, ..self }
    }

    /// With steps of this kind.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::{Newton, Steps}};
    /// let trusting = Newton::new().steps(Steps::Trust);
    /// assert!(trusting.minimise(|x: &Tensor| x.square().sum(), &Tensor::from([1.0])).unwrap().converged);
    /// ```
    pub fn steps(self, steps: Steps) -> Newton {
        Newton { steps, ..self }
    }

    /// Minimises a function from a point on. The function is traced once: a number that it reads from a captured `Cell` or
    /// the like stays what it was at the first call.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Newton};
    /// let f = |(a, b): &(Tensor, Tensor)| (a - 1.0).square().sum() + (b + a).powi(4).sum() + b.square().sum();
    /// let found = Newton::new().minimise(f, &(Tensor::from([3.0]), Tensor::from([2.0]))).unwrap();
    /// assert!(found.gradient_norm < 1e-10);
    /// ```
    pub fn minimise<X: Tree, R: Outcome<Tree = Tensor>>(
        &self,
        function: impl Fn(&X) -> R,
        start: &X,
    ) -> Result<Minimum<X>, Error> {
        let values = compile(&function);
        let curvature = calculus::hessian(&function);
        let value_of = |x: &X| -> Result<f64, Error> { values.call(x)?.item() };
        let mut point = start.realise()?;
        let mut rounds = Vec::new();
        let (mut radius, mut idle, mut least) = (1.0, 0, f64::INFINITY);
        loop {
            let (value, gradient, hessian) = curvature.with_gradient_at(&point)?;
            let (value, gradient_norm) = (value.item()?, length(&gradient)?);
            let stop = if !value.is_finite() || !gradient_norm.is_finite() {
                Some(Stop::NotFinite)
            } else if gradient_norm <= self.tolerance {
                Some(if is_saddle(&hessian)? { Stop::Saddle } else { Stop::Gradient })
            } else if idle > IDLE {
                Some(Stop::Rounding)
            } else {
                (rounds.len() >= self.rounds).then_some(Stop::Rounds)
            };
            if let Some(stop) = stop {
                return Ok(Minimum::new(point, value, gradient_norm, stop, rounds));
            }
            let step = match self.steps {
                Steps::Line => {
                    let direction = downhill(&hessian, &gradient, gradient_norm)?;
                    let directional = dot(&gradient, &direction)?;
                    let found = lower(value, directional, |part| value_of(&moved(&point, &direction, part)?))?;
                    found.map(|(part, _)| Ok::<_, Error>((part, moved(&point, &direction, part)?))).transpose()?
                }
                Steps::Trust => trusted(&hessian, &gradient, value, &point, &mut radius, &value_of)?,
            };
            let Some((part, next)) = step else {
                return Ok(Minimum::new(point, value, gradient_norm, Stop::Rounding, rounds));
            };
            // Close to a minimum the value cannot fall any more, but the gradient can.
            let lowered = rounds.last().is_none_or(|last: &Round| value < last.value) || gradient_norm < least;
            (idle, least) = (if lowered { 0 } else { idle + 1 }, least.min(gradient_norm));
            point = next;
            rounds.push(Round { value, gradient_norm, step: part });
        }
    }
}

/// How many rounds in a row may lower neither the value nor the gradient.
const IDLE: usize = 4;
/// How many products with the Hessian look for negative curvature in each round, and at the end.
const PRODUCTS: (usize, usize) = (12, 64);
/// The part of the largest eigenvalue below which a negative one may be a rounding error.
const NEGATIVE: f64 = 1e-8;

/// Whether the Hessian has a negative eigenvalue that is no rounding error.
fn is_saddle<X: Tree>(hessian: &Hessian<X>) -> Result<bool, Error> {
    let Spectrum { lowest, largest } = hessian.spectrum(PRODUCTS.1)?;
    Ok(lowest < -NEGATIVE * largest)
}

/// The direction to the minimum of the quadratic model, with the Hessian shifted if the model has none.
fn downhill<X: Tree>(hessian: &Hessian<X>, gradient: &X, norm: f64) -> Result<X, Error> {
    let uphill = gradient.scale(-1.0).realise()?;
    let falls = |direction: &X| -> Result<bool, Error> {
        let directional = dot(gradient, direction)?;
        Ok(directional.is_finite() && directional < -1e-12 * norm * length(direction)?)
    };
    let Spectrum { lowest, largest } = hessian.spectrum(PRODUCTS.0)?;
    if lowest > 0.0
        && let Ok(direction) = hessian.solve(&uphill)
        && falls(&direction)?
    {
        return Ok(direction);
    }
    // The lowest eigenvalue becomes half of its magnitude, or at least so large that the system can be solved.
    let mut shift = (1.5 * -lowest).max(NEGATIVE * largest).max(f64::MIN_POSITIVE);
    for _ in 0..30 {
        if let Ok(direction) = hessian.shifted(shift).solve(&uphill)
            && falls(&direction)?
        {
            return Ok(direction);
        }
        shift *= 4.0;
    }
    Ok(uphill)
}

/// A step to the minimum of the model within a radius, by conjugate gradients that end at its border or where the curvature
/// is negative; the radius follows the ratio of actual to predicted reduction.
fn trusted<X: Tree>(
    hessian: &Hessian<X>,
    gradient: &X,
    value: f64,
    point: &X,
    radius: &mut f64,
    value_of: &dyn Fn(&X) -> Result<f64, Error>,
) -> Result<Option<(f64, X)>, Error> {
    for _ in 0..60 {
        let step = within(hessian, gradient, *radius)?;
        let promised = dot(gradient, &step)? + 0.5 * dot(&step, &hessian.matvec(&step)?)?;
        let next = moved(point, &step, 1.0)?;
        let there = value_of(&next)?;
        let noise = 8.0 * f64::EPSILON * value.abs();
        let ratio = (there - value - noise) / (promised - noise);
        let used = length(&step)?;
        if ratio > 0.75 && used > 0.9 * *radius {
            *radius *= 2.0;
        }
        if ratio > 0.1 {
            return Ok(Some((used, next)));
        }
        *radius = 0.25 * used.min(*radius);
        if *radius == 0.0 {
            break;
        }
    }
    Ok(None)
}

fn within<X: Tree>(hessian: &Hessian<X>, gradient: &X, radius: f64) -> Result<X, Error> {
    let mut step = Tree::zeros_like(gradient);
    let mut residual = gradient.scale(-1.0).realise()?;
    let mut direction = residual.map(Tensor::clone);
    let mut squared = dot(&residual, &residual)?;
    let target = squared * (1e-2_f64).min(squared.sqrt());
    // The part of the direction that leads to the border.
    let border = |step: &X, direction: &X| -> Result<f64, Error> {
        let (a, b, c) = (dot(direction, direction)?, dot(step, direction)?, dot(step, step)? - radius * radius);
        Ok((-b + (b * b - a * c).max(0.0).sqrt()) / a)
    };
    for _ in 0..2 * gradient.element_count() + 1 {
        let product = hessian.matvec(&direction)?;
        let curvature = dot(&direction, &product)?;
        if curvature <= 0.0 {
            return moved(&step, &direction, border(&step, &direction)?);
        }
        let part = squared / curvature;
        let next = moved(&step, &direction, part)?;
        if length(&next)? >= radius {
            return moved(&step, &direction, border(&step, &direction)?);
        }
        step = next;
        residual = moved(&residual, &product, -part)?;
        let after = dot(&residual, &residual)?;
        if after <= target {
            break;
        }
        direction = moved(&residual, &direction, after / squared)?;
        squared = after;
    }
    Ok(step)
}
