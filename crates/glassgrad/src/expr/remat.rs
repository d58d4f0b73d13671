//! Parts of a graph that are one node to the graph around them, because they may be computed more than once.

use std::fmt;
use std::sync::Arc;

use super::node::{Op, ScanBody, Tensor};

/// A part of a graph that differentiation takes as a unit: what is made inside is not kept, and computed anew where
/// it is needed again.
///
/// It is a loop of one step: the arguments stand where the state does, and the results where the next state does.
///
/// ```
/// use glassgrad::{Tensor, checkpoint, expr::Op};
/// let y = checkpoint(|x: &Tensor| x.sin().exp())(&Tensor::from(1.0));
/// assert!(matches!(y.inputs()[0].op(), Op::Remat(region) if region.body.carried.len() == 1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// From arguments to results.
    pub body: Arc<ScanBody>,
    /// The inputs that must be known before anything inside is computed: cotangents, in a derivative.
    pub awaited: Vec<usize>,
}

impl Region {
    /// A body from arguments to results, to which nodes belong that were made since a number.
    pub(crate) fn body(arguments: Vec<Tensor>, results: Vec<Tensor>, since: Option<u64>) -> ScanBody {
        let (carries, carried) = (arguments, results);
        ScanBody { carries, entries: Vec::new(), carried, results: Vec::new(), length: 1, reversed: false, since }
    }
}

/// The reverse sweep of a loop: from the last step to the first, with the state before each of them computed anew
/// from snapshots.
///
/// Its body is one step forwards and one step back. The carries are the state and its cotangent, followed by sums
/// of what is owed to tensors from outside; the entries are those of the loop and the cotangents of its results.
///
/// ```
/// use glassgrad::{Tensor, Within, expr::Op, grad, scan};
/// let start = Tensor::full(1000, 1.0, glassgrad::dtype::DType::F64);
/// let last = |x: &Tensor| scan(|s: &Tensor, x: &Tensor| ((s * x).sin(), ()), &start, x).0.sum();
/// let x = Tensor::full([100, 1000], 0.5, glassgrad::dtype::DType::F64);
/// let slope = grad(last).within(1_200_000)(&x);
/// assert!(matches!(slope.inputs()[0].op(), Op::Sweep(sweep) if sweep.snapshots > 0 && sweep.snapshots < 99));
/// ```
#[derive(Clone, PartialEq)]
pub struct Sweep {
    /// One step forwards and one step back.
    pub body: ScanBody,
    /// How many of the carries are the state.
    pub states: usize,
    /// How many of the entries are those of the loop.
    pub sequences: usize,
    /// How many states may be kept at a time, besides the first.
    pub snapshots: usize,
}

impl Sweep {
    /// The loop itself, with the state before each step as its results.
    pub(crate) fn history(&self) -> ScanBody {
        let carries = self.body.carries[..self.states].to_vec();
        ScanBody {
            entries: self.body.entries[..self.sequences].to_vec(),
            carried: self.body.carried[..self.states].to_vec(),
            results: carries.clone(),
            carries,
            length: self.body.length,
            reversed: false,
            since: None,
        }
    }

    /// The loop back, whose sequences are those of the loop, the states, and the cotangents of results.
    pub(crate) fn backwards(&self) -> ScanBody {
        let ScanBody { carries, entries, carried, results, length, .. } = &self.body;
        let (states, cotangents) = carries.split_at(self.states);
        let (own, seeds) = entries.split_at(self.sequences);
        ScanBody {
            carries: cotangents.to_vec(),
            entries: own.iter().chain(states).chain(seeds).cloned().collect(),
            carried: carried[self.states..].to_vec(),
            results: results.clone(),
            length: *length,
            reversed: true,
            since: None,
        }
    }
}

impl fmt::Debug for Sweep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "reverse sweep of {:?} with {} snapshots", self.body, self.snapshots)
    }
}

impl Op {
    /// What stands inside: the body of a loop, a region or a sweep.
    pub(crate) fn body(&self) -> Option<&ScanBody> {
        match self {
            Op::Scan(body) => Some(body),
            Op::Remat(region) => Some(&region.body),
            Op::Sweep(sweep) => Some(&sweep.body),
            _ => None,
        }
    }
}
