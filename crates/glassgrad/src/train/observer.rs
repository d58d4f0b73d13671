//! Observers of training: they see steps and epochs, and may stop it.

use std::cell::RefCell;
use std::rc::Rc;

use super::diagnostics::Diagnostic;
use crate::data::Position;
use crate::error::Error;

/// Whether training continues.
///
/// ```
/// use glassgrad::train::Flow;
/// assert_ne!(Flow::Continue, Flow::Stop);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Continue,
    /// It ends here.
    Stop,
}

/// A finished step.
///
/// ```
/// use glassgrad::{data::Position, train::Step};
/// let step = Step { position: Position::default(), batches: 10, number: 1, loss: 0.5, rate: 0.1 };
/// assert_eq!(step.number, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The batch that it saw.
    pub position: Position,
    /// Batches per epoch.
    pub batches: u64,
    /// Its number, from 1 on.
    pub number: u64,
    /// The loss before it.
    pub loss: f64,
    /// Its rate.
    pub rate: f64,
}

/// An epoch that is over.
pub struct Epoch<'e, X> {
    /// Its number, from 0 on.
    pub number: u64,
    /// The mean of the losses of its batches.
    pub loss: f64,
    /// The parameters after it.
    pub parameters: &'e X,
    /// The findings of an inspection, if there was one.
    pub diagnostics: &'e [Diagnostic],
}

/// An observer of the steps and epochs of training.
///
/// ```
/// use glassgrad::error::Error;
/// use glassgrad::train::{Epoch, Flow, Observer};
///
/// /// Ends training when the loss is small enough.
/// struct GoodEnough(f64);
///
/// impl<X> Observer<X> for GoodEnough {
///     fn epoch(&mut self, epoch: &Epoch<'_, X>) -> Result<Flow, Error> {
///         Ok(if epoch.loss < self.0 { Flow::Stop } else { Flow::Continue })
///     }
/// }
/// ```
pub trait Observer<X> {
    /// After each step.
    fn step(&mut self, step: &Step) -> Result<Flow, Error> {
        let _ = step;
        Ok(Flow::Continue)
    }

    /// After each epoch.
    fn epoch(&mut self, epoch: &Epoch<'_, X>) -> Result<Flow, Error> {
        let _ = epoch;
        Ok(Flow::Continue)
    }
}

/// No observer.
impl<X> Observer<X> for () {}

/// An observer that is read afterwards.
impl<X, W: Observer<X> + ?Sized> Observer<X> for &mut W {
    fn step(&mut self, step: &Step) -> Result<Flow, Error> {
        (**self).step(step)
    }

    fn epoch(&mut self, epoch: &Epoch<'_, X>) -> Result<Flow, Error> {
        (**self).epoch(epoch)
    }
}

/// Several observers, in their order; one of them suffices to stop.
impl<X> Observer<X> for Vec<Box<dyn Observer<X> + '_>> {
    fn step(&mut self, step: &Step) -> Result<Flow, Error> {
        let mut flow = Flow::Continue;
        for observer in self {
            if observer.step(step)? == Flow::Stop {
                flow = Flow::Stop;
            }
        }
        Ok(flow)
    }

    fn epoch(&mut self, epoch: &Epoch<'_, X>) -> Result<Flow, Error> {
        let mut flow = Flow::Continue;
        for observer in self {
            if observer.epoch(epoch)? == Flow::Stop {
                flow = Flow::Stop;
            }
        }
        Ok(flow)
    }
}

/// A shared observer.
impl<X, W: Observer<X>> Observer<X> for Rc<RefCell<W>> {
    fn step(&mut self, step: &Step) -> Result<Flow, Error> {
        self.borrow_mut().step(step)
    }

    fn epoch(&mut self, epoch: &Epoch<'_, X>) -> Result<Flow, Error> {
        self.borrow_mut().epoch(epoch)
    }
}

/// Early stopping: ends training when a metric has not improved for some epochs, and keeps the best parameters.
///
/// ```
/// use glassgrad::{Tensor, train::{EarlyStopping, Epoch, Flow, Observer}};
/// let mut stopping = EarlyStopping::new(1, |x: &Tensor| x.item());
/// let mut seen = |number: u64, x: f64| {
///     let parameters = Tensor::from(x);
///     stopping.epoch(&Epoch { number, loss: 0.0, parameters: &parameters, diagnostics: &[] }).unwrap()
/// };
/// assert_eq!([seen(0, 2.0), seen(1, 1.0), seen(2, 1.5)], [Flow::Continue; 3]);
/// assert_eq!(seen(3, 1.2), Flow::Stop);
/// assert_eq!(stopping.best().unwrap().1.item().unwrap(), 1.0);
/// ```
pub struct EarlyStopping<X, M> {
    measure: M,
    patience: u64,
    best: Option<(f64, X)>,
    waited: u64,
}

impl<X, M: FnMut(&X) -> Result<f64, Error>> EarlyStopping<X, M> {
    /// Tolerates this number of epochs without improvement.
    ///
    /// ```
    /// use glassgrad::{Tensor, train::EarlyStopping};
    /// assert!(EarlyStopping::new(3, |x: &Tensor| x.item()).best().is_none());
    /// ```
    pub fn new(patience: u64, measure: M) -> EarlyStopping<X, M> {
        EarlyStopping { measure, patience, best: None, waited: 0 }
    }

    /// The best value of the metric, and its parameters.
    ///
    /// ```
    /// use glassgrad::{Tensor, train::EarlyStopping};
    /// assert!(EarlyStopping::new(3, |x: &Tensor| x.item()).best().is_none());
    /// ```
    pub fn best(&self) -> Option<&(f64, X)> {
        self.best.as_ref()
    }
}

impl<X: Clone, M: FnMut(&X) -> Result<f64, Error>> Observer<X> for EarlyStopping<X, M> {
    fn epoch(&mut self, epoch: &Epoch<'_, X>) -> Result<Flow, Error> {
        let measured = (self.measure)(epoch.parameters)?;
        if self.best.as_ref().is_none_or(|(best, _)| measured < *best) {
            (self.best, self.waited) = (Some((measured, epoch.parameters.clone())), 0);
        } else {
            self.waited += 1;
        }
        Ok(if self.waited > self.patience { Flow::Stop } else { Flow::Continue })
    }
}
