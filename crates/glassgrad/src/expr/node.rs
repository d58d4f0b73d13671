//! A node of the expression graph, and the handle that people hold.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use smallvec::SmallVec;

use super::custom::Custom;
use super::provenance::{self, Cause};
use super::subgraph::MultiNode;
use super::{Distribution, Logic};
use crate::array::Array;
use crate::collective::Collective;
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::error::Error;
use crate::formula::Formula;
use crate::interning::Shared;
use crate::ops::Relation;
use crate::shape::Shape;
use crate::view::View;

/// What a node does with its inputs. Shapes and types of results are decided where nodes are made.
///
/// ```
/// use glassgrad::{Tensor, expr::Op};
/// let x = Tensor::from([1.0, 2.0]);
/// assert!(matches!((&x * &x).op(), Op::Einsum(product) if product.to_string() == "i,i->i"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A leaf whose value is given.
    Leaf,
    /// A leaf without a value: the argument of a function that is being transformed.
    Placeholder,
    /// A variable to differentiate by: its input, under an identity of its own.
    Variable,
    /// A table row, or a formula of rows, element by element over inputs of one shape.
    Map(Shared<Formula>),
    /// A product in Einstein notation.
    Einsum(Shared<Einsum>),
    /// The sum of inputs of one shape.
    Add,
    /// Another element type.
    Cast,
    /// The same elements in another shape.
    Reshape,
    /// Elements read where a view says: slices, reversals, padding, windows.
    ReadView(Shared<View>),
    /// The transpose of reading: each element is added up where the view would read it.
    ScatterView(Shared<View>),
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
    /// The largest element along some axes, which are in ascending order.
    Max(Vec<usize>),
    /// The place of the first largest element along an axis.
    ArgMax(usize),
    /// Along a new last axis, 1 at the class that an integer names and 0 elsewhere; with the operation that the user
    /// called, which an integer that is no class is reported for.
    OneHot(&'static str),
    /// The stable permutation that sorts along the last axis; NaN comes last in ascending order.
    ArgSort {
        /// Whether the largest element comes first.
        descending: bool,
    },
    /// Random numbers by the counter-based generator, from the keys that the input holds: for each the same shape.
    Draw(Distribution),
    /// The value without its history.
    StopGradient,
    /// The first input, which must not be used before the others are known.
    ControlDependency,
    /// One output of an operation with several: see [`Tensor::multi_op`].
    GetOutput(usize),
    /// Communication among the shards of a batch.
    Collective(Collective),
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
            Op::ReadView(view) => format!("read {view}"),
            Op::ScatterView(view) => format!("spread {view}"),
            Op::Concatenate(axis) => format!("concatenate along {axis}"),
            Op::Gather(axis) => format!("gather along {axis}"),
            Op::ScatterAdd(axis) => format!("scatter_add along {axis}"),
            Op::Compare(relation) => format!("compare {}", relation.symbol()),
            Op::Max(axes) => {
                let axes: Vec<String> = axes.iter().map(usize::to_string).collect();
                format!("max along {}", axes.join(", "))
            }
            Op::ArgMax(axis) => format!("argmax along {axis}"),
            Op::OneHot(_) => "onehot".to_owned(),
            Op::ArgSort { descending: false } => "argsort".to_owned(),
            Op::ArgSort { descending: true } => "argsort descending".to_owned(),
            Op::Draw(distribution) => distribution.to_string(),
            Op::GetOutput(number) => format!("output {number}"),
            Op::StopGradient => "stop_gradient".to_owned(),
            Op::ControlDependency => "control_dependency".to_owned(),
            Op::Collective(collective) => collective.to_string(),
            Op::Custom(custom) => custom.0.name().to_owned(),
            Op::Failed(error) => format!("failed {error}"),
            Op::Leaf
            | Op::Placeholder
            | Op::Variable
            | Op::Add
            | Op::Cast
            | Op::Reshape
            | Op::Logic(_)
            | Op::Select => format!("{self:?}").to_lowercase(),
        }
    }
}

/// What passes ask of every operation.
#[derive(Clone, Copy, Default)]
pub(crate) struct Properties {
    /// No derivative passes through it.
    pub(crate) is_flat: bool,
    /// It only moves, repeats or converts elements: computing it again is cheaper than keeping it.
    pub(crate) only_moves: bool,
    /// It folds to a number when it is made of numbers.
    pub(crate) folds: bool,
}

impl Op {
    pub(crate) fn properties(&self) -> Properties {
        let none = Properties::default();
        match self {
            Op::Compare(_) | Op::Logic(_) | Op::ArgMax(_) | Op::OneHot(_) | Op::ArgSort { .. } | Op::Draw(_) => {
                Properties { is_flat: true, ..none }
            }
            Op::StopGradient => Properties { is_flat: true, only_moves: true, ..none },
            Op::Variable | Op::ReadView(_) => Properties { only_moves: true, ..none },
            Op::Cast | Op::Reshape => Properties { only_moves: true, folds: true, ..none },
            Op::Map(_) | Op::Add => Properties { folds: true, ..none },
            Op::Einsum(product) => {
                let only_moves = product.operands.len() <= 1 && product.extents.len() == product.output.len();
                Properties { only_moves, folds: true, ..none }
            }
            Op::Leaf
            | Op::Placeholder
            | Op::ScatterView(_)
            | Op::Concatenate(_)
            | Op::Gather(_)
            | Op::ScatterAdd(_)
            | Op::Select
            | Op::Max(_)
            | Op::ControlDependency
            | Op::GetOutput(_)
            | Op::Collective(_)
            | Op::Custom(_)
            | Op::Failed(_) => none,
        }
    }
}

/// A node: immutable but for what is known about it, its value, and for letting go of its inputs.
pub(crate) struct Node {
    /// Numbers ascend with creation, so sorting by them is a topological order.
    pub(crate) id: u64,
    pub(crate) op: Op,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    pub(crate) origin: &'static Location<'static>,
    /// The node for which a pass made this one.
    pub(crate) cause: Option<Cause>,
    name: OnceLock<Box<str>>,
    /// How many handles people hold. Nodes hold one another without a handle.
    handles: AtomicUsize,
    /// How many unevaluated nodes this one depended on when it was made, counted once per path.
    pub(crate) pending: usize,
    /// Whether a variable stood behind this node when it was made; it may have gone since.
    pub(crate) had_variable: bool,
    /// Whether the value depends on an argument of a function that is being transformed, also where no derivative passes.
    pub(crate) has_placeholder: bool,
    value: OnceLock<Array>,
    /// The inputs, until they are released, which happens only after the value is known.
    inputs: Mutex<Inputs>,
}

/// The number of a new node.
pub(super) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The nodes that a node reads: most read one or two.
pub(crate) type Nodes = SmallVec<[Arc<Node>; 2]>;

/// The inputs of a node: the nodes that it reads or, of an output, the operation with several outputs that it belongs to,
/// whose inputs they then are.
#[derive(Clone)]
pub(crate) enum Inputs {
    Nodes(Nodes),
    Multi(Arc<MultiNode>),
}

impl Inputs {
    /// The operation with several outputs, of one of which these are the inputs.
    pub(crate) fn multi(&self) -> Option<&Arc<MultiNode>> {
        match self {
            Inputs::Nodes(_) => None,
            Inputs::Multi(multi) => Some(multi),
        }
    }

    /// Moves the inputs to a list; those of an operation that another output holds stay.
    fn release_to(&mut self, gone: &mut Nodes) {
        match self {
            Inputs::Nodes(nodes) => {
                while let Some(node) = nodes.pop() {
                    gone.push(node);
                }
            }
            Inputs::Multi(_) => {
                if let Inputs::Multi(multi) = std::mem::take(self)
                    && let Some(multi) = Arc::into_inner(multi)
                {
                    gone.extend(multi.inputs);
                }
            }
        }
    }
}

impl Default for Inputs {
    fn default() -> Inputs {
        Inputs::Nodes(Nodes::new())
    }
}

impl std::ops::Deref for Inputs {
    type Target = [Arc<Node>];

    #[inline]
    fn deref(&self) -> &[Arc<Node>] {
        match self {
            Inputs::Nodes(nodes) => nodes,
            Inputs::Multi(multi) => &multi.inputs,
        }
    }
}

impl FromIterator<Arc<Node>> for Inputs {
    fn from_iter<I: IntoIterator<Item = Arc<Node>>>(nodes: I) -> Inputs {
        Inputs::Nodes(nodes.into_iter().collect())
    }
}

impl<'i> IntoIterator for &'i Inputs {
    type Item = &'i Arc<Node>;
    type IntoIter = std::slice::Iter<'i, Arc<Node>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Inputs {
    type Item = Arc<Node>;
    type IntoIter = smallvec::IntoIter<[Arc<Node>; 2]>;

    fn into_iter(self) -> Self::IntoIter {
        match self {
            Inputs::Nodes(nodes) => nodes.into_iter(),
            Inputs::Multi(multi) => multi.inputs.iter().cloned().collect::<Nodes>().into_iter(),
        }
    }
}

impl Node {
    /// The inputs while nobody lets go of them.
    #[inline]
    pub(crate) fn held_inputs(&self) -> MutexGuard<'_, Inputs> {
        // A panic elsewhere cannot leave inputs half written.
        self.inputs.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn inputs(&self) -> Inputs {
        self.held_inputs().clone()
    }

    #[inline]
    pub(crate) fn value(&self) -> Option<&Array> {
        self.value.get()
    }

    /// Keeps the value. Whoever computes it computes the same.
    pub(crate) fn keep_value(&self, value: Array) {
        let _ = self.value.set(value);
    }

    /// Lets go of the inputs of a node whose value is known.
    pub(crate) fn release_inputs(&self) {
        let inputs = std::mem::take(&mut *self.held_inputs());
        drop(inputs);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0
    }

    pub(crate) fn given_name(&self) -> Option<&str> {
        self.name.get().map(|name| &**name)
    }
}

/// Dropping a chain of a million nodes must not recurse: inputs are released in a loop.
impl Drop for Node {
    fn drop(&mut self) {
        fn owned(node: &mut Node) -> &mut Inputs {
            node.inputs.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
        let mut gone = match std::mem::take(owned(self)) {
            Inputs::Nodes(nodes) => nodes,
            mut multi @ Inputs::Multi(_) => {
                let mut gone = Nodes::new();
                multi.release_to(&mut gone);
                gone
            }
        };
        while let Some(mut node) = gone.pop() {
            // The last reference empties the node where it is: moving it out would copy all of it. Where weak references
            // remain, as those of derived nodes to the node that they come from, it has to be moved out.
            if let Some(node) = Arc::get_mut(&mut node) {
                owned(node).release_to(&mut gone);
            } else if let Some(mut node) = Arc::into_inner(node) {
                owned(&mut node).release_to(&mut gone);
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

/// Lists of tensors are anything that iterates over tensors or references to them.
///
/// ```
/// use glassgrad::Tensor;
/// let rows: Vec<Tensor> = (0..3).map(|k| Tensor::from([f64::from(k)])).collect();
/// assert_eq!(Tensor::concatenate(&rows, 0).to_string(), Tensor::concatenate([&rows[0], &rows[1], &rows[2]], 0).to_string());
/// ```
impl AsRef<Tensor> for Tensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}

impl Tensor {
    /// A handle onto an existing node.
    pub(crate) fn onto(node: Arc<Node>) -> Tensor {
        node.handles.fetch_add(1, Ordering::AcqRel);
        Tensor(node)
    }

    /// A new node, without any check.
    pub(crate) fn make(
        op: Op,
        inputs: Inputs,
        shape: Shape,
        dtype: DType,
        value: Option<Array>,
        origin: &'static Location<'static>,
    ) -> Tensor {
        let (cause, origin) = provenance::current(origin);
        let (mut pending, mut had_variable, mut has_placeholder) = (1_usize, false, op == Op::Placeholder);
        for input in &inputs {
            had_variable |= input.had_variable;
            has_placeholder |= input.has_placeholder;
            if input.value().is_none() {
                pending = pending.saturating_add(input.pending);
            }
        }
        if matches!(op, Op::Variable | Op::Placeholder) {
            had_variable = true;
        } else if op == Op::StopGradient {
            had_variable = false;
        }
        let node = Node {
            id: next_number(),
            pending,
            had_variable,
            has_placeholder,
            op,
            shape,
            dtype,
            origin,
            cause,
            name: OnceLock::new(),
            handles: AtomicUsize::new(1),
            value: value.map_or_else(OnceLock::new, OnceLock::from),
            inputs: Mutex::new(inputs),
        };
        Tensor(Arc::new(node))
    }

    /// The value of a leaf, to be overwritten (copy on write: a leaf with other owners is copied first).
    pub(crate) fn value_mut(&mut self) -> Option<&mut Array> {
        if !matches!(self.0.op, Op::Leaf) || Arc::get_mut(&mut self.0).is_none() {
            let (value, name) = (self.0.value()?.clone(), self.0.name.clone());
            *self = Tensor::leaf_at(value, self.0.origin);
            Arc::get_mut(&mut self.0)?.name = name;
        }
        let value = Arc::get_mut(&mut self.0)?.value.get_mut()?;
        value.make_own();
        Some(value)
    }

    /// A leaf without other owners as a new one, and its value to be overwritten.
    pub(crate) fn renewed(&mut self, origin: &'static Location<'static>) -> Option<&mut Array> {
        let node = Arc::get_mut(&mut self.0).filter(|node| matches!(node.op, Op::Leaf))?;
        let value = node.value.get_mut()?;
        if !value.is_writable() {
            return None;
        }
        (node.cause, node.origin) = provenance::current(origin);
        (node.id, node.name) = (next_number(), OnceLock::new());
        Some(value)
    }

    /// The sizes of the axes.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3]).sum_over(0).shape().to_vec(), [3]);
    /// ```
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// The number of axes.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!((Tensor::from(1.0).rank(), Tensor::zeros([2, 3]).rank()), (0, 2));
    /// ```
    pub fn rank(&self) -> usize {
        self.0.shape.rank()
    }

    /// The type of the elements.
    ///
    /// ```
    /// use glassgrad::{Tensor, dtype::DType};
    /// assert_eq!(Tensor::from([1.0]).lt(2.0).dtype(), DType::Bool);
    /// ```
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// What makes this tensor from its inputs.
    ///
    /// ```
    /// use glassgrad::{Tensor, expr::Op};
    /// let x = Tensor::from([1.0, 2.0]);
    /// assert_eq!((x.op(), (&x + &x).op()), (&Op::Leaf, &Op::Add));
    /// ```
    pub fn op(&self) -> &Op {
        &self.0.op
    }

    /// The tensors that this one is made from; for an output of an operation with several, the inputs of that operation. A
    /// tensor that was evaluated and depends on no variable has released them.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (a, b) = (Tensor::from(1.0), Tensor::from(2.0));
    /// let sum = &a + &b;
    /// assert_eq!(sum.inputs().len(), 2);
    /// sum.item().unwrap();
    /// assert!(sum.inputs().is_empty());
    /// ```
    pub fn inputs(&self) -> Vec<Tensor> {
        self.0.inputs().into_iter().map(Tensor::onto).collect()
    }

    /// The line of the user that made this tensor.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let line = line!() + 1;
    /// let x = Tensor::from(1.0);
    /// assert_eq!(x.origin().line(), line);
    /// ```
    pub fn origin(&self) -> &'static Location<'static> {
        self.0.origin
    }

    /// Gives the tensor a name under which errors and pictures show it. The first name stays.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0]).named("x").matmul(&Tensor::from([1.0_f32, 2.0]).named("y"));
    /// assert!(x.eval().unwrap_err().to_string().contains("operands: x f64[1], y f32[2]"));
    /// ```
    pub fn named(self, name: &str) -> Tensor {
        let _ = self.0.name.set(name.into());
        self
    }

    /// The name that was given, if one was.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from(1.0).named("rate").name(), Some("rate"));
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.0.given_name()
    }

    /// Why this tensor has no value, if it failed.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let wrong = Tensor::from([1.0, 2.0]).reshape([3]).exp();
    /// assert_eq!(wrong.error().unwrap().operation(), "reshape");
    /// ```
    pub fn error(&self) -> Option<&Error> {
        match &self.0.op {
            Op::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// The tensor in a word: name, type and shape, as errors list operands.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3]).named("weight").describe(), "weight f32[2, 3]");
    /// ```
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
