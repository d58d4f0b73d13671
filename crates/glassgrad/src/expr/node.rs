//! A node of the expression graph, and the handle that people hold.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::custom::Custom;
use crate::array::Array;
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::error::Error;
use crate::formula::Formula;
use crate::ops::Relation;
use crate::shape::Shape;
use crate::view::View;

/// What a node does with its inputs. Shapes and types of results are decided where nodes are made.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A leaf whose value is given.
    Leaf,
    /// A leaf without a value: the argument of a function that is being transformed.
    Placeholder,
    /// A variable to differentiate by: its input, under an identity of its own.
    Variable,
    /// A table row, or a formula of rows, element by element over inputs of one shape.
    Map(Formula),
    /// A product in Einstein notation.
    Einsum(Einsum),
    /// The sum of inputs of one shape.
    Add,
    /// Another element type.
    Cast,
    /// The same elements in another shape.
    Reshape,
    /// Elements read where a view says: slices, reversals, padding, windows.
    Read(View),
    /// The transpose of reading: each element is added up where the view would read it.
    Spread(View),
    /// Inputs one after another along an axis.
    Concatenate(usize),
    /// Entries along an axis, by a tensor of indices: the first input is read, the second says where.
    Gather(usize),
    /// The transpose of a gather: the first input is added up at the places that the second names.
    ScatterAdd(usize),
    /// A comparison, element by element.
    Compare(Relation),
    /// Truth values combined element by element.
    Logic(Logic),
    /// The second input where the first holds, the third elsewhere.
    Select,
    /// The largest element along an axis.
    Largest(usize),
    /// The place of the first largest element along an axis.
    LargestPlace(usize),
    /// Along a new last axis, 1 at the place that an integer names and 0 elsewhere.
    OneHot,
    /// The value without its history.
    Stop,
    /// A loop along leading axes; its parts are the last carries and the stacked results.
    Scan(Arc<ScanBody>),
    /// One part of a loop.
    Part(usize),
    /// An operation of the user's own.
    Custom(Custom),
    /// An operation that could not be.
    Failed(Error),
}

impl Op {
    /// The operation in a few words.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.matmul(&x).op().describe(), "einsum ij,jk->ik");
    /// assert_eq!(x.tanh().op().describe(), "tanh(x)");
    /// ```
    pub fn describe(&self) -> String {
        match self {
            Op::Map(formula) => formula.to_string(),
            Op::Einsum(einsum) => format!("einsum {einsum}"),
            Op::Read(view) => format!("read {view}"),
            Op::Spread(view) => format!("spread {view}"),
            Op::Concatenate(axis) => format!("concatenate along {axis}"),
            Op::Gather(axis) => format!("gather along {axis}"),
            Op::ScatterAdd(axis) => format!("scatter_add along {axis}"),
            Op::Compare(relation) => format!("compare {}", relation.symbol()),
            Op::Largest(axis) => format!("max along {axis}"),
            Op::LargestPlace(axis) => format!("argmax along {axis}"),
            Op::Scan(body) => format!("scan of {} steps", body.length),
            Op::Part(number) => format!("part {number}"),
            Op::Custom(custom) => custom.0.name().to_owned(),
            Op::Failed(error) => format!("failed {error}"),
            other => format!("{other:?}").to_lowercase(),
        }
    }
}

/// The body of a loop: a graph from placeholders for the state and for one entry of the sequences to the next
/// state and to results.
#[derive(Clone)]
pub struct ScanBody {
    /// Placeholders of the state.
    pub carries: Vec<Tensor>,
    /// Placeholders of one entry of each sequence.
    pub entries: Vec<Tensor>,
    /// The next state.
    pub carried: Vec<Tensor>,
    /// What is stacked beside.
    pub results: Vec<Tensor>,
    /// How many entries there are.
    pub length: usize,
}

impl fmt::Debug for ScanBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} steps of {} carries and {} results", self.length, self.carries.len(), self.results.len())
    }
}

/// Bodies are the same if they are one and the same.
impl PartialEq for ScanBody {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// A combination of truth values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logic {
    /// Both hold.
    And,
    /// One holds.
    Or,
    /// It does not hold.
    Not,
}

/// A node: immutable but for what is known about it, its value, and for letting go of its inputs.
pub(crate) struct Node {
    /// Numbers ascend with creation, so sorting by them is a topological order.
    pub(crate) id: u64,
    pub(crate) op: Op,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    pub(crate) origin: &'static Location<'static>,
    name: OnceLock<String>,
    /// How many handles people hold. Nodes hold one another without a handle.
    handles: AtomicUsize,
    /// How many nodes stand unevaluated behind this one, and from when on to look whether to evaluate.
    pub(crate) pending: usize,
    patience: AtomicUsize,
    /// Whether a variable stood behind this node when it was made; it may have gone since.
    pub(crate) had_variable: bool,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) inputs: Vec<Arc<Node>>,
    pub(crate) value: Option<Array>,
}

impl Node {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave inputs or value half written.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn inputs(&self) -> Vec<Arc<Node>> {
        self.state().inputs.clone()
    }

    pub(crate) fn value(&self) -> Option<Array> {
        self.state().value.clone()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0
    }

    pub(crate) fn patience(&self) -> usize {
        self.patience.load(Ordering::Relaxed)
    }

    pub(crate) fn set_patience(&self, patience: usize) {
        self.patience.store(patience, Ordering::Relaxed);
    }

    pub(crate) fn given_name(&self) -> Option<&str> {
        self.name.get().map(String::as_str)
    }
}

/// A chain of a million nodes must not recurse when it goes: inputs are let go of one by one.
impl Drop for Node {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut gone = std::mem::take(&mut state.inputs);
        while let Some(node) = gone.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                let state = node.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
                gone.append(&mut state.inputs);
            }
        }
    }
}

/// An n-dimensional array as an expression: a cheap handle onto a node of an immutable graph.
///
/// Operations build the graph and compute nothing; reading a value computes what it needs. Operations
/// never panic and never return `Result`: one that could not be makes a failed tensor, and the first
/// read returns the error with the operands' shapes and the source line.
///
/// ```
/// use glassgrad::Tensor;
/// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
/// let y = (&x * &x).sum() + 1.0;
/// assert_eq!(y.item().unwrap(), 31.0);
/// ```
pub struct Tensor(pub(crate) Arc<Node>);

impl Tensor {
    /// A handle onto an existing node.
    pub(crate) fn onto(node: Arc<Node>) -> Tensor {
        node.handles.fetch_add(1, Ordering::AcqRel);
        Tensor(node)
    }

    /// A new node, without any check.
    pub(crate) fn make(
        op: Op,
        inputs: Vec<Arc<Node>>,
        shape: Shape,
        dtype: DType,
        value: Option<Array>,
        origin: &'static Location<'static>,
    ) -> Tensor {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let pending = |node: &Arc<Node>| if node.state().value.is_some() { 0 } else { node.pending };
        let node = Node {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            pending: inputs.iter().map(pending).fold(1, usize::saturating_add),
            patience: AtomicUsize::new(
                inputs
                    .iter()
                    .map(|input| if input.state().value.is_some() { 0 } else { input.patience() })
                    .max()
                    .unwrap_or(0),
            ),
            had_variable: matches!(op, Op::Variable | Op::Placeholder)
                || (op != Op::Stop && inputs.iter().any(|input| input.had_variable)),
            op,
            shape,
            dtype,
            origin,
            name: OnceLock::new(),
            handles: AtomicUsize::new(0),
            state: Mutex::new(State { inputs, value }),
        };
        Tensor::onto(Arc::new(node))
    }

    /// The sizes of the axes.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.shape.rank()
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// What makes this tensor from its inputs.
    pub fn op(&self) -> &Op {
        &self.0.op
    }

    /// The tensors that this one is made from. A tensor that was computed and has no variable behind it
    /// has let go of them.
    pub fn inputs(&self) -> Vec<Tensor> {
        self.0.inputs().into_iter().map(Tensor::onto).collect()
    }

    /// The line of the user that made this tensor.
    pub fn origin(&self) -> &'static Location<'static> {
        self.0.origin
    }

    /// Gives the tensor a name under which errors and pictures show it. The first name stays.
    pub fn named(self, name: &str) -> Tensor {
        let _ = self.0.name.set(name.to_owned());
        self
    }

    /// The name that was given, if one was.
    pub fn name(&self) -> Option<&str> {
        self.0.given_name()
    }

    /// Why this tensor has no value, if it failed.
    pub fn error(&self) -> Option<&Error> {
        match &self.0.op {
            Op::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// The tensor in a word: name, type and shape, as errors list operands.
    pub fn describe(&self) -> String {
        let name = self.name().map(|name| format!("{name} ")).unwrap_or_default();
        format!("{name}{}{}", self.dtype(), self.shape())
    }
}

impl Clone for Tensor {
    fn clone(&self) -> Self {
        Tensor::onto(Arc::clone(&self.0))
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        self.0.handles.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Name, type, shape, operation and origin; the value only if it is known.
impl fmt::Debug for Tensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = format!("{:?}", self.0.op);
        let operation = operation.split(['(', ' ']).next().unwrap_or_default().to_owned();
        let origin = self.0.origin;
        write!(formatter, "Tensor({}, {operation}, {}:{})", self.describe(), origin.file(), origin.line())?;
        match self.0.value() {
            Some(value) => write!(formatter, " = {value}"),
            None => Ok(()),
        }
    }
}
