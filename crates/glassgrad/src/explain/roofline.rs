//! Roofline analysis of a step: attained against attainable performance, and the bottleneck.

use std::fmt;

use super::limits::{Bound, Limits};
use super::steps::{ExplainedStep, Kind};
use crate::exec;

/// A step that reaches this part of its limit needs no reason.
pub(super) const ENOUGH: f64 = 0.6;
/// Loops of less work than this (elements times registers) run on one thread, and so do products of so few operations.
const SINGLE: f64 = exec::cpu::WORTH as f64;
/// Steps of less work than this spend their time on beginning: addresses, blocks, the first and last elements of rows.
const SMALL: f64 = (1 << 15) as f64;

/// Why a step is slower than the limits of the machine.
///
/// ```
/// use glassgrad::explain::Reason;
/// assert_eq!(Reason::Whole.to_string(), "whole arrays, one thread");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is over almost before it has begun.
    Small,
    /// It works on whole arrays, on one thread, and a few of its kind one element at a time.
    Whole,
    /// It is too short for several threads.
    SingleThread,
    /// Its functions cost more than exp and tanh do on average.
    Functions,
    /// It reads and writes more slowly than memory is copied: elements do not lie one after another, or meet in sums.
    Memory,
    /// Its arithmetic is slower: sums, conversions, axes that are too short for blocks.
    Arithmetic,
    /// Reported by the steps inside of it.
    Inside,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Reason::Small => "small: fixed overhead",
            Reason::Whole => "whole arrays, one thread",
            Reason::SingleThread => "single-threaded",
            Reason::Functions => "transcendental",
            Reason::Memory => "memory-bound",
            Reason::Arithmetic => "short axes or sums",
            Reason::Inside => "see inside",
        })
    }
}

impl ExplainedStep {
    /// Which part of the speed that the limits of the machine allow the step reached: 1 is all of it.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::new(&[0.5_f32; 4096], [64, 64]);
    /// let explanation = x.matmul(&x).explain().unwrap();
    /// assert!(explanation.steps[0].reached() > 0.0);
    /// ```
    pub fn reached(&self) -> f64 {
        if self.measured > 0.0 { self.least / self.measured } else { 0.0 }
    }

    /// What most likely keeps the step from its limit, if it reached less than 60 % of it.
    ///
    /// ```
    /// use glassgrad::{Tensor, explain::Reason};
    /// let explanation = (Tensor::from([1.0, 2.0]) * 3.0).explain().unwrap();
    /// assert_eq!(explanation.steps[0].reason(&explanation.limits), Some(Reason::Small));
    /// ```
    pub fn reason(&self, limits: &Limits) -> Option<Reason> {
        if self.reached() >= ENOUGH {
            return None;
        }
        let explains = |seconds: f64| seconds >= ENOUGH * self.measured;
        Some(match self.kind {
            Kind::Scan | Kind::Sweep => Reason::Inside,
            Kind::Call => Reason::Whole,
            Kind::Loop | Kind::Product if explains(self.predicted) => Reason::Small,
            Kind::Loop | Kind::Product if self.work < SINGLE => {
                if limits.threads > 1 && self.work >= SMALL {
                    Reason::SingleThread
                } else {
                    Reason::Small
                }
            }
            Kind::Loop | Kind::Product => match self.bound {
                Bound::Transcendental => Reason::Functions,
                Bound::Memory => Reason::Memory,
                Bound::Product | Bound::Arithmetic | Bound::Inside => Reason::Arithmetic,
            },
        })
    }
}
