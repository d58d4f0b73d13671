//! Statement-level recording for gradients: a tape that stores partial derivatives alone.
//!
//! A gradient needs of a computation its edges, not its operations and values. So the handle [`Active`] carries the product of
//! partial derivatives since its last node (local preaccumulation), and an operation of one variable operand, such as
//! `(x - 3.0).square()`, multiplies that factor and records nothing. An operation of two variables is a node: two parents
//! and two partials, 24 bytes over `f64`. Nothing can be shown or replayed; for that there is
//! [`Tape`](crate::scalar::Tape), whose gradients are the same.
//!
//! **Zeros.** An operand whose partial derivative is exactly zero, with all derivatives that travel with it, is a constant to the
//! result: inactive units of a network and products with zero record nothing, and an infinite adjoint beyond them stays out, as in
//! forward mode. Behind a partial that is not finite the product of a zero with it is none, and such operands are kept.
//!
//! **Finite numbers.** A product of partials can be infinite or NaN where the two factors in turn would not be: 0·∞ when a zero
//! adjoint has to win, or an overflow. Then the factor becomes a node first, the operation is another, and the sweep skips
//! adjoints that are zero, as the sweep of a `Tape` does. The fast sweep runs where all partials are finite. Numbers that cannot tell
//! ([`Real::KNOWS_FINITENESS`]), such as those of an outer tape, record each operation.

mod active;

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use crate::algebra::c;
use crate::ops::Real;
use crate::scalar::storage::{self, Chunks};

pub use active::Active;

/// Nodes in a chunk.
const CHUNK: usize = 64;

/// Marks an operand slot that holds no node.
const NONE: u32 = u32::MAX;

/// The largest number of inputs, and of statements.
const MOST: usize = 1 << 31;

/// The statement of a node: the value is a function of its parents, of which only the partial derivatives are kept.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Statement<T> {
    partials: [T; 2],
    parents: [u32; 2],
}

#[derive(Debug)]
struct Chunk<T> {
    statements: [MaybeUninit<Statement<T>>; CHUNK],
}

// SAFETY: an array of `MaybeUninit` needs no initialisation.
#[allow(unsafe_code)]
unsafe impl<T> storage::Chunk for Chunk<T> {
    const SIZE: usize = CHUNK;
    const MOST: usize = MOST;
}

/// A recording of statements, and the adjoints of its nodes. The inputs are the first nodes, and have no statement.
///
/// Invariants: all statements of `chunks` are initialised; between sweeps all adjoints are zero.
#[derive(Debug)]
pub(super) struct StatementTape<T> {
    recording: UnsafeCell<Recording<T>>,
    adjoints: Vec<T>,
}

#[derive(Debug)]
struct Recording<T> {
    chunks: Chunks<Chunk<T>>,
    inputs: usize,
    /// Whether a parent is absent or a partial is not known to be finite, so that zero adjoints have to be skipped.
    strong: bool,
}

/// Where the derivatives of a number come from: a node, and the derivative with respect to it, which is finite.
#[derive(Clone, Copy, Debug)]
struct Edge<T> {
    node: u32,
    factor: T,
}

impl<T: Real> StatementTape<T> {
    pub(super) fn new() -> Self {
        let recording = Recording { chunks: Chunks::new(), inputs: 0, strong: false };
        StatementTape { recording: UnsafeCell::new(recording), adjoints: Vec::new() }
    }

    /// Forgets the statements, keeps the memory, and makes the inputs.
    pub(super) fn start(&mut self, x: &[T]) -> Vec<Active<'_, T>> {
        assert!(x.len() < MOST, "a tape has at most {MOST} inputs");
        let recording = self.recording.get_mut();
        recording.chunks.clear();
        recording.inputs = x.len();
        recording.strong = !T::KNOWS_FINITENESS;
        let tape = &*self;
        (0..).zip(x).map(|(node, x)| Active::on_tape(tape, Edge { node, factor: c(1.0) }, *x)).collect()
    }

    /// The number of statements.
    pub(super) fn len(&mut self) -> usize {
        self.recording.get_mut().chunks.len()
    }

    /// The bytes of statements and adjoints.
    pub(super) fn bytes(&mut self) -> usize {
        self.recording.get_mut().chunks.bytes() + self.adjoints.capacity() * size_of::<T>()
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    fn record(&self, parents: [u32; 2], partials: [T; 2]) -> Edge<T> {
        // SAFETY: no reference to the recording is alive. The tape is not `Sync`, so only this thread is here; all other methods
        // borrow the tape mutably, which no handle outlives; and in this one no foreign code runs, since `T` is copied.
        let recording = unsafe { &mut *self.recording.get() };
        let (index, chunk, place) = recording.chunks.push();
        // SAFETY: the chunk of the statement that was just added is allocated, and its places are below `CHUNK`.
        unsafe { (&raw mut (*chunk).statements[place]).write(MaybeUninit::new(Statement { partials, parents })) };
        Edge { node: (index + recording.inputs) as u32, factor: c(1.0) }
    }

    /// Records an operation whose partials or their products with the factors of the operands are not known to be finite: the factors are
    /// statements of their own.
    #[cold]
    #[inline(never)]
    fn record_strongly(&self, operands: [Edge<T>; 2], partials: [T; 2]) -> Edge<T> {
        let nodes = std::array::from_fn(|slot| {
            let Edge { node, factor } = operands[slot];
            let is_node = node == NONE || (factor - c(1.0)).is_exactly_zero();
            if is_node { node } else { self.record([node, NONE], [factor, c(0.0)]).node }
        });
        self.expect_strong();
        self.record(nodes, partials)
    }

    /// Whether a partial on the tape is not known to be finite.
    #[inline(always)]
    #[allow(unsafe_code)]
    fn is_strong(&self) -> bool {
        // SAFETY: as in `record`.
        unsafe { (*self.recording.get()).strong }
    }

    #[allow(unsafe_code)]
    fn expect_strong(&self) {
        // SAFETY: as in `record`.
        unsafe { (*self.recording.get()).strong = true };
    }

    /// The gradient of a sum of results with weights, into memory that is used again.
    pub(super) fn pull_back(&mut self, results: impl IntoIterator<Item = (Output<T>, T)>, gradient: &mut Vec<T>) {
        let recording = self.recording.get_mut();
        let nodes = recording.inputs + recording.chunks.len();
        // Taken out, so that a panic in the arithmetic of `T` leaves no adjoints behind that are not zero.
        let mut memory = std::mem::take(&mut self.adjoints);
        if memory.len() < nodes {
            // Exactly, since doubling could take twice the memory.
            memory.reserve_exact(nodes - memory.len());
            memory.resize(nodes, c(0.0));
        }
        let adjoints = &mut memory[..nodes];
        for (output, weight) in results {
            if let Some(Edge { node, factor }) = output.edge {
                adjoints[node as usize] += if T::KNOWS_FINITENESS { weight * factor } else { weight };
            }
        }
        if recording.strong {
            recording.sweep_strongly(adjoints);
        } else {
            recording.sweep_plainly(adjoints);
        }
        gradient.clear();
        gradient.extend_from_slice(&adjoints[..recording.inputs]);
        adjoints[..recording.inputs].fill(c(0.0));
        self.adjoints = memory;
    }
}

/// A result without the borrow of its tape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output<T> {
    /// `None` for a constant.
    edge: Option<Edge<T>>,
}

impl<T: Real> Recording<T> {
    /// The statements from the last to the first, each with its node.
    #[inline(always)]
    #[allow(unsafe_code)]
    fn backwards(&self) -> impl Iterator<Item = (usize, &[Statement<T>])> {
        let length = self.chunks.len();
        (0..length.div_ceil(CHUNK)).rev().map(move |number| {
            let start = number * CHUNK;
            let count = (length - start).min(CHUNK);
            // SAFETY: statements below the length are initialised.
            let statements = unsafe { self.chunks.chunk(number).statements[..count].assume_init_ref() };
            (self.inputs + start, statements)
        })
    }

    /// The reverse sweep where all partials are finite and no parent is absent, so that zeros need no test. Adjoints of statements are zero
    /// again behind it.
    fn sweep_plainly(&self, adjoints: &mut [T]) {
        // What the node just before receives waits here, not in memory: in a chain the next adjoint would otherwise wait for
        // the store of this one.
        let mut ahead: T = c(0.0);
        for (start, statements) in self.backwards() {
            for (place, statement) in statements.iter().enumerate().rev() {
                let node = start + place;
                let adjoint = adjoints[node] + ahead;
                adjoints[node] = c(0.0);
                let shares = [adjoint * statement.partials[0], adjoint * statement.partials[1]];
                let [first, second] = statement.parents.map(|parent| parent as usize);
                if first + 1 == node {
                    ahead = shares[0];
                } else {
                    ahead = c(0.0);
                    adjoints[first] += shares[0];
                }
                if second + 1 == node {
                    ahead += shares[1];
                } else {
                    adjoints[second] += shares[1];
                }
            }
        }
        if let Some(last) = self.inputs.checked_sub(1) {
            adjoints[last] += ahead;
        }
    }

    /// The same where an adjoint that is exactly zero has to win over a partial that is not finite.
    fn sweep_strongly(&self, adjoints: &mut [T]) {
        let mut ahead: Option<T> = None;
        for (start, statements) in self.backwards() {
            for (place, statement) in statements.iter().enumerate().rev() {
                let node = start + place;
                let mut adjoint = std::mem::replace(&mut adjoints[node], c(0.0));
                if let Some(share) = ahead.take() {
                    adjoint += share;
                }
                if adjoint.is_exactly_zero() {
                    continue;
                }
                for (parent, partial) in statement.parents.into_iter().zip(statement.partials) {
                    if parent == NONE {
                        continue;
                    }
                    let share = adjoint * partial;
                    if parent as usize + 1 == node {
                        ahead = Some(ahead.map_or(share, |other| other + share));
                    } else {
                        adjoints[parent as usize] += share;
                    }
                }
            }
        }
        if let (Some(last), Some(share)) = (self.inputs.checked_sub(1), ahead) {
            adjoints[last] += share;
        }
    }
}
