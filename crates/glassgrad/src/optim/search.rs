//! Shared by the minimisers: the record of iterations, and the line search.

use std::fmt;

use crate::error::Error;
use crate::expr::Tensor;
use crate::tree::Tree;

/// One round of a descent.
///
/// ```
/// use glassgrad::{Tensor, optim::Newton};
/// let found = Newton::new().minimise(|x: &Tensor| (x - 3.0).square().sum(), &Tensor::from([0.0])).unwrap();
/// assert_eq!((found.rounds[0].value, found.rounds[0].gradient_norm), (9.0, 6.0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// The value before the step.
    pub value: f64,
    /// The length of the gradient before the step.
    pub gradient_norm: f64,
    /// The step length, or the damping.
    pub step: f64,
}

/// Why a descent ended.
///
/// ```
/// use glassgrad::{Tensor, optim::{Newton, Stop}};
/// let saddle = |x: &Tensor| x.slice(&[0.into()]).square() - x.slice(&[1.into()]).square();
/// let found = Newton::new().minimise(saddle, &Tensor::from([0.0, 0.0])).unwrap();
/// assert_eq!((found.stop, found.converged), (Stop::Saddle, false));
/// assert_eq!(found.stop.to_string(), "saddle point");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The gradient is as small as was asked for.
    Gradient,
    /// The gradient is as small as was asked for, but the Hessian has a negative eigenvalue. Only [`Newton`](super::Newton)
    /// looks; the other methods do not compute the Hessian.
    Saddle,
    /// No step lowers the value by more than rounding errors. The point is as good as the precision of the value allows,
    /// or the gradient does not belong to the value.
    Rounding,
    /// The maximum number of iterations is reached.
    Rounds,
    /// The value or the gradient is NaN or infinite.
    NotFinite,
}

impl fmt::Display for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Stop::Gradient => "converged",
            Stop::Saddle => "saddle point",
            Stop::Rounding => "not converged: no step lowers the value by more than rounding errors",
            Stop::Rounds => "not converged: the limit of rounds was reached",
            Stop::NotFinite => "not converged: the value or the gradient is not finite",
        })
    }
}

/// The result of a minimisation.
///
/// ```
/// use glassgrad::{Tensor, optim::Newton};
/// let found = Newton::new().minimise(|x: &Tensor| (x - 3.0).square().sum(), &Tensor::from([0.0])).unwrap();
/// assert!(found.converged);
/// assert_eq!((found.point.to_string(), found.rounds.len()), ("[3]".into(), 1));
/// ```
#[derive(Clone, Debug)]
pub struct Minimum<X> {
    /// The point.
    pub point: X,
    /// The value there.
    pub value: f64,
    /// The length of the gradient there.
    pub gradient_norm: f64,
    /// Whether that is as small as was asked for, and the point no saddle: whether `stop` is [`Stop::Gradient`].
    pub converged: bool,
    /// Why the descent ended here.
    pub stop: Stop,
    /// The iterations.
    pub rounds: Vec<Round>,
}

/// One line for each round.
impl<X> fmt::Display for Minimum<X> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "round  value            gradient    step")?;
        for (number, round) in self.rounds.iter().enumerate() {
            let Round { value, gradient_norm, step } = round;
            writeln!(formatter, "{number:>5}  {value:<15.8e}  {gradient_norm:<10.2e}  {step:.2e}")?;
        }
        let Minimum { value, gradient_norm, stop, .. } = self;
        write!(formatter, "{:>5}  {value:<15.8e}  {gradient_norm:<10.2e}  {stop}", self.rounds.len())
    }
}

impl<X> Minimum<X> {
    pub(super) fn new(point: X, value: f64, gradient_norm: f64, stop: Stop, rounds: Vec<Round>) -> Minimum<X> {
        Minimum { point, value, gradient_norm, converged: stop == Stop::Gradient, stop, rounds }
    }
}

/// The length of a tree.
pub(super) fn length<X: Tree>(x: &X) -> Result<f64, Error> {
    Ok(dot(x, x)?.sqrt())
}

/// The inner product of two trees in 64 bits, whatever types their leaves have.
pub(super) fn dot<X: Tree>(a: &X, b: &X) -> Result<f64, Error> {
    let (a, b) = (a.flatten(), b.flatten());
    let arrays = Tensor::eval_all(&a.iter().chain(&b).collect::<Vec<_>>())?;
    let (a, b) = arrays.split_at(a.len());
    let one = |(a, b): (&crate::array::Array, &crate::array::Array)| -> f64 {
        (0..a.buffer().len().min(b.buffer().len())).map(|k| a.buffer().get(k) * b.buffer().get(k)).sum()
    };
    Ok(a.iter().zip(b).map(one).sum())
}

/// The elements of all leaves of real numbers, one after another, in 64 bits.
pub(super) fn numbers<X: Tree>(x: &X) -> Result<Vec<f64>, Error> {
    let leaves: Vec<Tensor> = x.flatten().into_iter().filter(Tensor::is_float).collect();
    let arrays = Tensor::eval_all(&leaves.iter().collect::<Vec<_>>())?;
    Ok(arrays.iter().flat_map(|array| (0..array.buffer().len()).map(|place| array.buffer().get(place))).collect())
}

/// The point at some part of a step.
pub(super) fn moved<X: Tree>(point: &X, step: &X, part: f64) -> Result<X, Error> {
    point.zip(step, |x, dx| if x.is_float() { x + dx * part } else { x.clone() }).realise()
}

/// The constant of the Armijo condition: the required decrease relative to the directional derivative.
const DECREASE: f64 = 1e-4;

/// A part of a step that lowers the value enough, and the value there; smaller and smaller parts are tried. Close to a
/// minimum values differ by rounding errors only, and so much is allowed.
pub(super) fn lower(
    value: f64,
    directional: f64,
    mut value_at: impl FnMut(f64) -> Result<f64, Error>,
) -> Result<Option<(f64, f64)>, Error> {
    let mut part = 1.0;
    let noise = 8.0 * f64::EPSILON * value.abs();
    for _ in 0..60 {
        let there = value_at(part)?;
        if there <= value + DECREASE * part * directional + noise {
            return Ok(Some((part, there)));
        }
        // The minimum of the parabola through what is known, within bounds.
        let guess = -directional * part * part / (2.0 * (there - value - directional * part));
        part = if guess.is_finite() { guess.clamp(0.1 * part, 0.5 * part) } else { 0.5 * part };
    }
    Ok(None)
}
