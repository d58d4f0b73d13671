//! Learning-rate schedules.

use crate::expr::Tensor;

/// The factor of the learning rate in each step. Steps are counted from 1.
///
/// A schedule is a formula of the number of the step, which is part of the state: a program that trains need not be planned
/// again when the rate changes, and a resumed run continues at its learning rate.
///
/// ```
/// use glassgrad::optim::{Optimizer, Schedule};
/// let warm = Schedule::WarmUp { steps: 10, then: Box::new(Schedule::Cosine { steps: 100, least: 0.0 }) };
/// let optimizer = Optimizer::sgd(1.0).schedule(warm);
/// assert_eq!((optimizer.rate_at(5), optimizer.rate_at(11)), (0.5, 1.0));
/// assert!((optimizer.rate_at(61) - 0.5).abs() < 1e-12 && optimizer.rate_at(111) < 1e-12);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Always 1.
    Constant,
    /// Linear interpolation from one factor to another, then constant; one step of it `every` steps.
    Linear {
        /// The factor of the first step.
        from: f64,
        /// The last factor.
        to: f64,
        /// After how many changes it is reached.
        changes: u64,
        /// How many steps there are from one change to the next: those of an epoch.
        every: u64,
    },
    /// Times a factor, again and again.
    Exponential {
        /// The factor.
        factor: f64,
        /// After how many steps.
        every: u64,
    },
    /// Along half a wave of the cosine, from 1 to the least.
    Cosine {
        /// After how many steps the least is reached.
        steps: u64,
        /// The least factor.
        least: f64,
    },
    /// Up from nothing in equal steps, and then another schedule from its beginning.
    WarmUp {
        /// After how many steps it is 1.
        steps: u64,
        /// The schedule after that.
        then: Box<Schedule>,
    },
}

impl Schedule {
    /// The factor in the step of a number.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Schedule};
    /// let falling = Schedule::Linear { from: 1.0, to: 0.75, changes: 5, every: 1 };
    /// let factors = falling.factor(&Tensor::from([1.0, 2.0, 6.0, 100.0]));
    /// assert_eq!(factors.to_string(), "[   1, 0.95, 0.75, 0.75]");
    /// ```
    #[track_caller]
    pub fn factor(&self, count: &Tensor) -> Tensor {
        // How many whole periods lie behind.
        let periods = |every: u64| ((count - 1.0) / every.max(1) as f64).floor();
        match self {
            Schedule::Constant => count.ones_like(),
            Schedule::Linear { from, to, changes, every } => {
                let part = (periods(*every) / (*changes).max(1) as f64).clip(0.0, 1.0);
                part * (to - from) + *from
            }
            Schedule::Exponential { factor, every } => (periods(*every) * factor.ln()).exp(),
            Schedule::Cosine { steps, least } => {
                let part = ((count - 1.0) / (*steps).max(1) as f64).clip(0.0, 1.0);
                ((part * std::f64::consts::PI).cos() + 1.0) * (0.5 * (1.0 - least)) + *least
            }
            Schedule::WarmUp { steps, then } => {
                let later = count - *steps as f64;
                later.gt(0.0).choose(&then.factor(&later), &(count / (*steps).max(1) as f64))
            }
        }
    }
}
