//! The tape: a Wengert list that records a computation node by node.
//!
//! A node holds its value, its operation, its parents, and the local partial derivatives with
//! respect to them. These do not depend on a mode, so one recording answers both sweeps: tangents
//! from an input over everything that is reachable from it, adjoints from an output over its
//! ancestors. Both sweeps are loops over the list; nothing recurses.
//!
//! - `storage` keeps the nodes in chunks that never move, 33 bytes each over `f64`;
//! - [`Var`] is the copyable handle that user code computes with;
//! - `sweep` runs forwards and in reverse;
//! - `replay` evaluates a recording at new inputs.

mod replay;
mod storage;
mod sweep;
mod var;

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::ops::{Operation, Real, Relation};
use storage::{NONE, Nodes};

pub use replay::ReplayError;
pub use sweep::Sweep;
pub use var::Var;

/// The place of a node on its tape. It stays valid, unlike a [`Var`], when the tape is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The position on the tape, counted from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An operand: an earlier node, or a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand<T> {
    /// An earlier node.
    Node(NodeId),
    /// A constant.
    Constant(T),
}

/// A comparison whose outcome the recording relies on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guard<T> {
    /// The left side.
    pub left: Operand<T>,
    /// The relation that was tested.
    pub relation: Relation,
    /// The right side.
    pub right: Operand<T>,
    /// The result.
    pub outcome: bool,
}

/// A choice between two numbers, recorded as a node of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice<T> {
    /// The node of the choice.
    pub node: NodeId,
    /// The comparison that decides.
    pub guard: Guard<T>,
    /// The number chosen when the comparison holds.
    pub taken: Operand<T>,
    /// The number chosen when it does not.
    pub otherwise: Operand<T>,
}

/// The record of one node, created on demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<T> {
    /// Its place.
    pub id: NodeId,
    /// Its value.
    pub value: T,
    /// Its operation.
    pub operation: Operation,
    /// The parameter of that operation, if it has one.
    pub parameter: Option<f64>,
    /// The operands in order, constants included. A choice has only the chosen one.
    pub operands: Vec<Operand<T>>,
    /// The partial derivatives with respect to the operands that are nodes, in the same order.
    pub partials: Vec<T>,
}

impl<T: Copy> Node<T> {
    /// The nodes that this one was computed from, each with the local partial derivative.
    pub fn parents(&self) -> impl Iterator<Item = (NodeId, T)> + '_ {
        let nodes = self.operands.iter().filter_map(|operand| match operand {
            Operand::Node(id) => Some(*id),
            Operand::Constant(_) => None,
        });
        nodes.zip(self.partials.iter().copied())
    }
}

/// A recording of a computation.
///
/// ```
/// use glassgrad::scalar::Tape;
///
/// let tape = Tape::new();
/// let (a, b) = (tape.input(2.0), tape.input(3.0));
/// let e = (a * b) * (b + 1.0);
///
/// let adjoints = tape.reverse(e);
/// assert_eq!((e.value(), adjoints.of(a), adjoints.of(b)), (24.0, 12.0, 14.0));
///
/// let tangents = tape.forward(b);
/// assert_eq!(tangents.of(e), 14.0);
/// ```
#[derive(Debug)]
pub struct Tape<T = f64> {
    recording: RefCell<Recording<T>>,
}

#[derive(Debug)]
struct Recording<T> {
    nodes: Nodes<T>,
    values: Vec<T>,
    inputs: Vec<u32>,
    guards: Vec<Guard<T>>,
    choices: Vec<Choice<T>>,
    names: BTreeMap<u32, String>,
}

impl<T: Real> Default for Tape<T> {
    fn default() -> Self {
        Tape::new()
    }
}

impl<T: Real> Tape<T> {
    /// An empty tape. It allocates with the first node.
    pub fn new() -> Self {
        let recording = Recording {
            nodes: Nodes::new(),
            values: Vec::new(),
            inputs: Vec::new(),
            guards: Vec::new(),
            choices: Vec::new(),
            names: BTreeMap::new(),
        };
        Tape { recording: RefCell::new(recording) }
    }

    /// Records an input and returns its handle.
    pub fn input(&self, value: T) -> Var<'_, T> {
        let index = self.push(Operation::Input, [NONE; 2], [crate::c(0.0); 2], value);
        self.recording.borrow_mut().inputs.push(index);
        Var::on_tape(self, index, value)
    }

    /// Records several inputs.
    pub fn inputs(&self, values: &[T]) -> Vec<Var<'_, T>> {
        let mut recording = self.recording.borrow_mut();
        let start = recording.nodes.len() as u32;
        for value in values {
            recording.nodes.push(Operation::Input, [NONE; 2], [crate::c(0.0); 2], *value);
        }
        recording.inputs.extend(start..start + values.len() as u32);
        (start..).zip(values).map(|(index, value)| Var::on_tape(self, index, *value)).collect()
    }

    /// Gives a node a name under which it is shown.
    pub fn name(&self, node: impl Into<NodeId>, name: impl Into<String>) {
        self.recording.borrow_mut().names.insert(node.into().0, name.into());
    }

    /// The name of a node: the one it was given, or `v` and its place.
    pub fn name_of(&self, node: impl Into<NodeId>) -> String {
        let id = node.into();
        self.given_name(id).unwrap_or_else(|| format!("v{}", id.0))
    }

    /// The name that a node was given, if it was.
    pub fn given_name(&self, node: impl Into<NodeId>) -> Option<String> {
        self.recording.borrow().names.get(&node.into().0).cloned()
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.recording.borrow().nodes.len()
    }

    /// Whether nothing was recorded yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that the nodes occupy.
    pub fn bytes(&self) -> usize {
        self.recording.borrow().nodes.bytes()
    }

    /// Forgets all nodes and keeps the memory, so that recording again allocates nothing.
    ///
    /// No handle can outlive this: it needs the tape for itself.
    pub fn clear(&mut self) {
        let recording = self.recording.get_mut();
        recording.nodes.clear();
        recording.inputs.clear();
        recording.guards.clear();
        recording.choices.clear();
        recording.names.clear();
    }

    /// The value of a node.
    pub fn value(&self, node: impl Into<NodeId>) -> T {
        self.recording.borrow().nodes.value(node.into().0)
    }

    /// The places of all nodes in the order of recording, which is a topological order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<T> {
        (0..self.len() as u32).map(NodeId)
    }

    /// Everything about one node.
    pub fn node(&self, node: impl Into<NodeId>) -> Node<T> {
        let id = node.into();
        let recording = self.recording.borrow();
        let stored = recording.nodes.get(id.0);
        let arity = match stored.operation {
            Operation::Where => 1,
            operation => operation.arity(),
        };
        // An operand that is not a node left its number in the slot of the partial derivative.
        let operands = (0..arity).map(|slot| match stored.parents[slot] {
            NONE => Operand::Constant(stored.partials[slot]),
            parent => Operand::Node(NodeId(parent)),
        });
        let partials = (0..arity).filter(|slot| stored.parents[*slot] != NONE).map(|slot| stored.partials[slot]);
        Node {
            id,
            value: stored.value,
            operation: stored.operation,
            parameter: stored.operation.parameter().map(|_| stored.partials[1].primal()),
            operands: operands.collect(),
            partials: partials.collect(),
        }
    }

    /// The operation of a node.
    pub(crate) fn operation_of(&self, node: NodeId) -> Operation {
        self.recording.borrow().nodes.get(node.0).operation
    }

    /// The nodes that a node was computed from, one for each slot that holds one.
    pub(crate) fn parents_of(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<T> {
        self.recording.borrow().nodes.get(node.0).parents().map(NodeId)
    }

    /// The nodes that were computed from a node directly, once for each time it was used.
    pub fn children(&self, node: impl Into<NodeId>) -> Vec<NodeId> {
        let id = node.into();
        let recording = self.recording.borrow();
        let uses = |child: &NodeId| recording.nodes.get(child.0).parents().filter(|parent| *parent == id.0).count();
        (id.0 + 1..recording.nodes.len() as u32)
            .map(NodeId)
            .flat_map(|child| std::iter::repeat_n(child, uses(&child)))
            .collect()
    }

    /// The comparisons that decided a branch while recording.
    pub fn guards(&self) -> Vec<Guard<T>> {
        self.recording.borrow().guards.clone()
    }

    /// The choices that were recorded as nodes.
    pub fn choices(&self) -> Vec<Choice<T>> {
        self.recording.borrow().choices.clone()
    }

    #[inline(always)]
    fn push(&self, operation: Operation, parents: [u32; 2], partials: [T; 2], value: T) -> u32 {
        debug_assert!(self.recording.try_borrow_mut().is_ok(), "the tape records while it is read");
        // SAFETY: No borrow of the recording is alive. The tape is not `Sync`, so only this thread is here.
        // Methods that borrow it return before the user's code runs again; the only foreign code that runs
        // under a borrow is the arithmetic of `T`, and `T` cannot hold a handle of a `Tape<T>`: its type would
        // contain itself. Copying `T` into the node runs no code. The check that this replaces is an eighth
        // of the cost of recording.
        #[allow(unsafe_code)]
        let recording = unsafe { &mut *self.recording.as_ptr() };
        recording.nodes.push(operation, parents, partials, value)
    }
}
