//! Errors of training.

use std::fmt;
use std::path::PathBuf;

use crate::data::Position;
use crate::error::Error;
use crate::glass::NonFinite;

/// Why training ended before its time.
///
/// ```
/// use std::sync::Arc;
/// use glassgrad::{Tensor, data::Examples, expr::Keys, optim::Optimizer, train::{Training, TrainError}};
/// let examples = Arc::new(Examples::new(Tensor::from([1.0, 2.0])).unwrap());
/// let loss = |x: &Tensor, batch: &Tensor, _: &Keys| ((x - batch).square() + x.sqrt()).mean();
/// let trouble = Training::new(loss, Optimizer::sgd(0.9)).epochs(50).run(&Tensor::from([4.0]), &examples).unwrap_err();
/// let TrainError::NotFinite { step, last_good, explanation: Some(explanation), .. } = trouble else { panic!() };
/// assert!(step > 1 && last_good.item().unwrap().is_finite());
/// assert!(explanation.to_string().contains("sqrt"));
/// ```
#[derive(Debug)]
pub enum TrainError<X> {
    /// The loss is not a number, or infinite.
    NotFinite {
        /// The loss.
        loss: f64,
        /// The number of the step, from 1 on.
        step: u64,
        /// The batch that it saw.
        position: Position,
        /// In how many steps before this one the cause lies: 0 if the parameters were still good.
        steps_before: u64,
        /// Its provenance, and a repair.
        explanation: Option<Box<NonFinite>>,
        /// The last parameters with a finite loss.
        last_good: Box<X>,
        /// Where a run before it is saved.
        checkpoint: Option<PathBuf>,
    },
    /// Something could not be computed, read or written.
    Failed(Error),
}

impl<X> From<Error> for TrainError<X> {
    fn from(error: Error) -> TrainError<X> {
        TrainError::Failed(error)
    }
}

impl<X> fmt::Display for TrainError<X> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TrainError::NotFinite { loss, step, position, steps_before, explanation, checkpoint, .. } = self else {
            let TrainError::Failed(error) = self else { return Ok(()) };
            return write!(formatter, "{error}");
        };
        let Position { epoch, batch } = position;
        write!(formatter, "the loss is {loss} in step {step} (epoch {epoch}, batch {batch})")?;
        if *steps_before > 0 {
            write!(formatter, "\n  it comes from parameters that step {} made non-finite", step - steps_before)?;
        }
        match explanation {
            Some(explanation) => write!(formatter, "\n  {}", explanation.to_string().replace('\n', "\n  "))?,
            None => write!(formatter, "\n  every operation was given finite numbers: the step itself was too long")?,
        }
        write!(formatter, "\n  to try: a lower rate, gradients clipped with .clip_norm(1.0)")?;
        match checkpoint {
            Some(path) => write!(formatter, "\n  the last good run is saved in {}", path.display()),
            None => write!(formatter, "\n  the last good parameters are in .last_good"),
        }
    }
}

impl<X: fmt::Debug> std::error::Error for TrainError<X> {}
