//! Subgraphs, and the operations with several outputs that contain one: scan loops, rematerialised regions and reverse
//! sweeps of loops.
//!
//! An operation with several outputs is no tensor: a [`MultiNode`] has no shape, no element type and no value, and no
//! function that takes a tensor accepts it. Its outputs are tensors, nodes of [`Op::GetOutput`], which share it; the
//! inputs of an output are those of the operation.

use std::collections::HashSet;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::node::{Inputs, Node, Op, Tensor, next_number};
use super::provenance;
use super::walk::nodes_up_to;
use super::{AttentionKernel, CumulativeKernel, FusedKernel};
use crate::dtype::DType;
use crate::hashing::Fingerprint;
use crate::shape::Shape;

/// A part of a graph as a function: from placeholders of its parameters, and tensors from outside that it captures, to
/// its outputs.
#[derive(Clone)]
pub struct Subgraph {
    /// The placeholders of the parameters.
    pub parameters: Vec<Tensor>,
    /// The outputs.
    pub outputs: Vec<Tensor>,
    /// From which number on nodes belong to it though they depend on no parameter, if any do.
    pub since: Option<u64>,
}

impl Subgraph {
    /// What depends on some placeholders alone.
    pub(crate) fn new(parameters: Vec<Tensor>, outputs: Vec<Tensor>) -> Subgraph {
        Subgraph { parameters, outputs, since: None }
    }

    /// The nodes inside: what depends on the parameters or was made since it began, in the order of creation. Numbers that
    /// were made with them belong to it too: passes can do without them there, and outside they would have to be handed in.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        let mut dependent: HashSet<u64> = self.parameters.iter().map(|parameter| parameter.0.id).collect();
        let first = dependent.iter().min().copied().into_iter().chain(self.since).min().unwrap_or(u64::MAX);
        let mut numbers: HashSet<u64> = HashSet::new();
        let mut nodes = nodes_up_to(&self.outputs, first, dependent.clone());
        nodes.retain(|node| {
            let inputs = node.held_inputs();
            // A leaf is given; an operation without inputs, which has no value yet, is computed inside.
            let is_computed = !inputs.is_empty() || matches!(node.op, Op::Custom(_));
            let depends = inputs.iter().any(|input| dependent.contains(&input.id))
                || (is_computed && self.since.is_some_and(|since| node.id >= since));
            let is_number = match &node.op {
                Op::Einsum(einsum) if einsum.operands.is_empty() => true,
                op => op.properties().folds && !inputs.is_empty() && inputs.iter().all(|k| numbers.contains(&k.id)),
            };
            if depends {
                dependent.insert(node.id);
            }
            if is_number {
                numbers.insert(node.id);
            }
            depends || is_number
        });
        nodes
    }

    /// The tensors from outside that it uses: inputs of its nodes, and outputs, that are neither inside nor parameters.
    pub(crate) fn captured(&self) -> Vec<Tensor> {
        let nodes = self.nodes();
        let mut seen: HashSet<u64> = nodes.iter().map(|node| node.id).collect();
        seen.extend(self.parameters.iter().map(|parameter| parameter.0.id));
        let mut found: Vec<Arc<Node>> = Vec::new();
        for node in &nodes {
            let inputs = node.held_inputs();
            if inputs.multi().is_none_or(|multi| seen.insert(multi.id)) {
                found.extend(inputs.iter().filter(|input| seen.insert(input.id)).cloned());
            }
        }
        found.extend(self.outputs.iter().map(|output| &output.0).filter(|output| seen.insert(output.id)).cloned());
        found.into_iter().map(Tensor::onto).collect()
    }

    /// The numbers of the nodes of the outputs.
    pub(crate) fn output_ids(&self) -> HashSet<u64> {
        self.outputs.iter().map(|output| output.0.id).collect()
    }
}

impl fmt::Debug for Subgraph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "from {} parameters to {} outputs", self.parameters.len(), self.outputs.len())
    }
}

/// A loop along leading axes. The parameters of its body are the state and one entry of each sequence; its outputs are the
/// next state, and results, which are stacked.
///
/// ```
/// use glassgrad::{Tensor, expr::MultiOp, scan};
/// let step = |sum: &Tensor, x: &Tensor| (sum + x, sum.clone());
/// let (last, _) = scan(step, &Tensor::from(0.0), &Tensor::from([1.0, 2.0, 3.0]));
/// assert!(matches!(last.multi_op(), Some(MultiOp::Scan(scan)) if scan.length == 3));
/// ```
#[derive(Clone, Debug)]
pub struct Scan {
    /// One step.
    pub body: Subgraph,
    /// How many of the parameters, and of the outputs, are the state.
    pub carries: usize,
    /// How many entries there are.
    pub length: usize,
    /// Whether the loop goes from the last entry to the first. Results stand where their entries do.
    pub reversed: bool,
}

impl Scan {
    /// The placeholders of the state.
    pub fn carry_in(&self) -> &[Tensor] {
        &self.body.parameters[..self.carries]
    }

    /// The placeholders of one entry of each sequence.
    pub fn entries(&self) -> &[Tensor] {
        &self.body.parameters[self.carries..]
    }

    /// The next state.
    pub fn carry_out(&self) -> &[Tensor] {
        &self.body.outputs[..self.carries]
    }

    /// The results of one step, which are stacked.
    pub fn results(&self) -> &[Tensor] {
        &self.body.outputs[self.carries..]
    }

    /// The entry of a step, and the step of an entry.
    pub(crate) fn entry_of(&self, step: usize) -> usize {
        if self.reversed { self.length - 1 - step } else { step }
    }

    /// The same loop with another body.
    pub(crate) fn with_body(&self, body: Subgraph, carries: usize) -> Scan {
        Scan { body, carries, length: self.length, reversed: self.reversed }
    }
}

/// What a region is a unit for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RegionKind {
    /// For memory: its intermediate values are not kept, and computed anew where they are needed again. It is opened after all passes.
    Remat,
    /// For nothing but differentiation: it is opened before all passes, which then see common subexpressions of it and its surroundings.
    Inline,
    /// For a kernel: targets that have the kernel run it, with the body as its definition; for others it is `Inline`.
    Fused(FusedKernel),
}

impl RegionKind {
    fn hash(&self, hash: &mut Fingerprint) {
        let attention = |hash: &mut Fingerprint, number: usize, kernel: &AttentionKernel| {
            hash.words(&[number, usize::from(kernel.causal)]);
            hash.word(kernel.scale.to_bits());
        };
        match self {
            RegionKind::Remat => hash.words(&[0]),
            RegionKind::Inline => hash.words(&[1]),
            RegionKind::Fused(FusedKernel::Attention(kernel)) => attention(hash, 2, kernel),
            RegionKind::Fused(FusedKernel::AttentionPullback(kernel)) => attention(hash, 3, kernel),
            RegionKind::Fused(FusedKernel::CrossEntropy(operation)) => {
                hash.words(&[4]);
                hash.text(operation);
            }
            RegionKind::Fused(FusedKernel::CrossEntropyPullback(operation)) => {
                hash.words(&[5]);
                hash.text(operation);
            }
            RegionKind::Fused(FusedKernel::BatchNorm(epsilon)) => {
                hash.words(&[6]);
                hash.word(epsilon.to_bits());
            }
            RegionKind::Fused(FusedKernel::BatchNormPullback(epsilon)) => {
                hash.words(&[7]);
                hash.word(epsilon.to_bits());
            }
            RegionKind::Fused(FusedKernel::Cumulative(CumulativeKernel { of, axis, reversed })) => {
                hash.words(&[8, *of as usize, *axis, usize::from(*reversed)]);
            }
            RegionKind::Fused(FusedKernel::CumulativePullback(CumulativeKernel { of, axis, reversed })) => {
                hash.words(&[9, *of as usize, *axis, usize::from(*reversed)]);
            }
            RegionKind::Fused(FusedKernel::TopK(count)) => hash.words(&[10, *count]),
        }
    }
}

/// A part of a graph that differentiation takes as a unit.
///
/// ```
/// use glassgrad::{Tensor, checkpoint, expr::MultiOp};
/// let y = checkpoint(|x: &Tensor| x.sin().exp())(&Tensor::from(1.0));
/// assert!(matches!(y.multi_op(), Some(MultiOp::Remat(region)) if region.body.outputs.len() == 1));
/// ```
#[derive(Clone, Debug)]
pub struct Region {
    /// From arguments to results.
    pub body: Subgraph,
    /// The inputs that must be known before anything inside is computed: cotangents, in a derivative.
    pub awaited: Vec<usize>,
    /// What it is a unit for.
    pub kind: RegionKind,
}

/// The reverse sweep of a loop: from the last step to the first, with the state before each of them computed anew
/// from snapshots.
///
/// One step of it is one step forwards and one step back. The carries are the state and its cotangent, followed by sums
/// of what is owed to tensors from outside; the entries are those of the loop and the cotangents of its results.
///
/// ```
/// use glassgrad::{Tensor, Within, expr::MultiOp, grad, scan};
/// let start = Tensor::full(1000, 1.0, glassgrad::dtype::DType::F64);
/// let last = |x: &Tensor| scan(|s: &Tensor, x: &Tensor| ((s * x).sin(), ()), &start, x).0.sum();
/// let x = Tensor::full([100, 1000], 0.5, glassgrad::dtype::DType::F64);
/// let slope = grad(last).within(1_200_000)(&x);
/// let Some(MultiOp::Sweep(sweep)) = slope.multi_op() else { panic!("{slope:?} is no output of a sweep") };
/// assert!(sweep.snapshots > 0 && sweep.snapshots < 99);
/// ```
#[derive(Clone, Debug)]
pub struct Sweep {
    /// One step forwards and one step back.
    pub scan: Scan,
    /// How many of the carries are the state.
    pub states: usize,
    /// How many of the entries are those of the loop.
    pub sequences: usize,
    /// How many states may be kept at a time, besides the first.
    pub snapshots: usize,
}

impl Sweep {
    /// The loop itself, with the state before each step as its results.
    pub(crate) fn history(&self) -> Scan {
        let states = &self.scan.carry_in()[..self.states];
        let parameters = [states, &self.scan.entries()[..self.sequences]].concat();
        let outputs = [&self.scan.carry_out()[..self.states], states].concat();
        Scan { reversed: false, ..self.scan.with_body(Subgraph::new(parameters, outputs), self.states) }
    }

    /// The loop back, whose sequences are those of the loop, the states, and the cotangents of results.
    pub(crate) fn backwards(&self) -> Scan {
        let (states, cotangents) = self.scan.carry_in().split_at(self.states);
        let (own, seeds) = self.scan.entries().split_at(self.sequences);
        let outputs = self.scan.body.outputs[self.states..].to_vec();
        let body = Subgraph::new([cotangents, own, states, seeds].concat(), outputs);
        Scan { reversed: true, ..self.scan.with_body(body, cotangents.len()) }
    }
}

/// An operation with several outputs.
///
/// ```
/// use glassgrad::{Tensor, scan};
/// let (last, _) = scan(|sum: &Tensor, x: &Tensor| (sum + x, ()), &Tensor::from(0.0), &Tensor::from([1.0, 2.0]));
/// assert_eq!(last.multi_op().unwrap().describe(), "scan of 2 steps");
/// ```
#[derive(Clone)]
pub enum MultiOp {
    /// A loop along leading axes; its outputs are the last carries and the stacked results.
    Scan(Arc<Scan>),
    /// A part of the graph that is a unit under differentiation.
    Remat(Arc<Region>),
    /// The reverse sweep of a loop that keeps few of its states; its outputs are cotangents.
    Sweep(Arc<Sweep>),
}

impl MultiOp {
    /// The subgraph: one step of a loop or a sweep, or all of a region.
    pub fn body(&self) -> &Subgraph {
        match self {
            MultiOp::Scan(scan) => &scan.body,
            MultiOp::Remat(region) => &region.body,
            MultiOp::Sweep(sweep) => &sweep.scan.body,
        }
    }

    /// The loop that this is, with the steps of a sweep forwards and back as one.
    pub(crate) fn scan(&self) -> Option<&Scan> {
        match self {
            MultiOp::Scan(scan) => Some(scan),
            MultiOp::Remat(_) => None,
            MultiOp::Sweep(sweep) => Some(&sweep.scan),
        }
    }

    /// How often the subgraph runs.
    pub fn length(&self) -> usize {
        self.scan().map_or(1, |scan| scan.length)
    }

    /// The leading axis that an input has and the parameter of its number has not: it is a sequence.
    pub(crate) fn input_lead(&self, input: usize) -> Shape {
        self.lead(input, self.body().parameters.len())
    }

    /// The leading axis that an output has and the output of the subgraph has not: it is stacked.
    pub(crate) fn output_lead(&self, output: usize) -> Shape {
        self.lead(output, self.body().outputs.len())
    }

    fn lead(&self, number: usize, count: usize) -> Shape {
        match self.scan() {
            Some(scan) if (scan.carries..count).contains(&number) => Shape::from(scan.length),
            _ => Shape::scalar(),
        }
    }

    /// The shape and the type of each output.
    pub(crate) fn signature(&self) -> Vec<(Shape, DType)> {
        let outputs = self.body().outputs.iter().enumerate();
        outputs.map(|(k, output)| (self.output_lead(k).followed_by(output.shape()), output.dtype())).collect()
    }

    /// The operation in a word.
    pub fn name(&self) -> &'static str {
        match self {
            MultiOp::Scan(_) => "scan",
            MultiOp::Remat(region) => match region.kind {
                RegionKind::Remat => "remat",
                RegionKind::Inline => "region",
                RegionKind::Fused(_) => "fused",
            },
            MultiOp::Sweep(_) => "sweep",
        }
    }

    /// The operation in a few words.
    pub fn describe(&self) -> String {
        match self {
            MultiOp::Scan(scan) if scan.reversed => format!("scan of {} steps backwards", scan.length),
            MultiOp::Scan(scan) => format!("scan of {} steps", scan.length),
            MultiOp::Remat(region) => match (region.kind, region.body.outputs.len()) {
                (RegionKind::Fused(kernel), _) => kernel.describe(),
                (_, 1) => format!("{} with 1 output", self.name()),
                (_, several) => format!("{} with {several} outputs", self.name()),
            },
            MultiOp::Sweep(sweep) => {
                format!("reverse sweep of {} steps, {} snapshots", sweep.scan.length, sweep.snapshots)
            }
        }
    }

    /// All but the subgraph, whose nodes are hashed one by one.
    pub(crate) fn hash(&self, hash: &mut Fingerprint) {
        let body = self.body();
        hash.text(self.name());
        hash.words(&[body.parameters.len(), body.outputs.len()]);
        if let Some(scan) = self.scan() {
            hash.words(&[scan.carries, scan.length, usize::from(scan.reversed)]);
        }
        match self {
            MultiOp::Scan(_) => {}
            MultiOp::Remat(region) => {
                hash.words(&region.awaited);
                region.kind.hash(hash);
            }
            MultiOp::Sweep(sweep) => hash.words(&[sweep.states, sweep.sequences, sweep.snapshots]),
        }
    }

    /// The outputs of a new node of this operation on some inputs, and on what its subgraph captures.
    pub(crate) fn outputs(self, inputs: &[Tensor], origin: &'static Location<'static>) -> Vec<Tensor> {
        let captured = self.body().captured();
        if let Some(failed) = inputs.iter().chain(&captured).find(|input| input.error().is_some()) {
            return vec![failed.clone(); self.body().outputs.len()];
        }
        let inputs = inputs.iter().chain(&captured).map(|input| Arc::clone(&input.0)).collect();
        MultiNode::outputs(self, inputs, origin)
    }
}

impl fmt::Debug for MultiOp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.describe())
    }
}

/// Operations with a subgraph are the same if they are one and the same.
impl PartialEq for MultiOp {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.body(), other.body())
    }
}

/// An operation with several outputs on its inputs: those of its parameters, then what it captures.
pub(crate) struct MultiNode {
    /// A number of the same count as those of nodes.
    pub(crate) id: u64,
    pub(crate) op: MultiOp,
    pub(crate) inputs: Vec<Arc<Node>>,
    pub(crate) origin: &'static Location<'static>,
}

impl MultiNode {
    /// The outputs of a new one, without any check.
    pub(crate) fn outputs(op: MultiOp, inputs: Vec<Arc<Node>>, origin: &'static Location<'static>) -> Vec<Tensor> {
        let origin = provenance::current(origin).1;
        MultiNode::all_outputs(&Arc::new(MultiNode { id: next_number(), op, inputs, origin }))
    }

    /// Further nodes of all outputs of an operation.
    pub(crate) fn all_outputs(multi: &Arc<MultiNode>) -> Vec<Tensor> {
        let output = |(k, (shape, dtype))| {
            Tensor::make(Op::GetOutput(k), Inputs::Multi(Arc::clone(multi)), shape, dtype, None, multi.origin)
        };
        multi.op.signature().into_iter().enumerate().map(output).collect()
    }
}

impl Tensor {
    /// The operation that this tensor is an output of, if it has several outputs. A tensor that was computed and has
    /// depends on no variable has released it.
    ///
    /// ```
    /// use glassgrad::{Tensor, checkpoint};
    /// let x = Tensor::from(1.0);
    /// assert_eq!(checkpoint(|x: &Tensor| x.sin())(&x).multi_op().unwrap().name(), "remat");
    /// assert!(x.sin().multi_op().is_none());
    /// ```
    pub fn multi_op(&self) -> Option<MultiOp> {
        self.0.held_inputs().multi().map(|multi| multi.op.clone())
    }
}
