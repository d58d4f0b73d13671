//! From graph to program: which nodes need no work, which run in one loop, and where everything lies.
//!
//! Every node is located: by a producer and strides into what it makes. Transposes, broadcasts, diagonals,
//! slices and reshapes are only other strides. Producers are put into groups, each of which becomes one step;
//! pointwise nodes join the loop that makes their operands, and sums join the loop over what they sum.
//!
//! - `strides` decides which reshapes and permutations need no copy;
//! - `groups` decides what runs in one step, and `row_reduction` along which axes a loop can reduce rows;
//! - `elements` emits the instructions of loops, `products` lowers einsum, and `calls` calls on whole arrays and scans;
//! - `windows` unrolls reductions of small windows that overlap;
//! - `padding` allocates zeros around what a view reads outside of, and `scatter_fusion` finds contractions that
//!   accumulate at the places of a view;
//! - `layout` chooses the axis order of what only contractions read, and stores convolutions channels-last where the target asks for it;
//! - `epilogue` fuses loops into the contractions that they read;
//! - `loops` collapses axes;
//! - `finish` plans memory and writes the steps.
//!
//! What the target can run is an input: the [`Capabilities`] of the executor.

mod calls;
mod elements;
mod epilogue;
mod finish;
mod groups;
mod layout;
mod loops;
mod padding;
mod products;
mod row_reduction;
mod scatter_fusion;
mod strides;
mod windows;

pub(super) use strides::is_rows;

use super::Capabilities;
use super::graph::Graph;
use super::passes::{early, expanded};
use super::program::{CallKind, Memory, Program, Reduction};
use crate::dtype::DType;
use crate::expr::Op;
use crate::hashing::NumberMap;
use crate::shape::InlineVec;
use groups::{Group, Register};
use layout::AxisOrder;
use strides::{reshaped, rows};

/// A node as strides into what a producer makes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Located {
    producer: usize,
    offset: isize,
    strides: InlineVec<isize>,
}

impl Located {
    /// All that a producer makes, row by row.
    fn whole(producer: usize, shape: &[usize]) -> Located {
        Located { producer, offset: 0, strides: rows(shape) }
    }
}

/// Something that is given or computed.
struct Producer {
    dtype: DType,
    elements: usize,
    /// Where a leaf lies.
    leaf: Option<Memory>,
    /// The group that computes it; [`NO_GROUP`] for leaves.
    group: usize,
    /// Its register, if instructions of the same group can go on with it.
    register: Option<Register>,
    /// Whether that register holds one number for each row of the loop, and the register that holds it for each element,
    /// once it is requested.
    by_row: bool,
    spread: Option<Register>,
    /// The number that all its elements are, which any loop can write down for itself.
    number: Option<f64>,
    /// Whether anybody reads it from memory.
    needed: bool,
    /// Whether it is stored channels-last, so that what is computed from it is too.
    channels_last: bool,
    /// Whether it is a product with an epilogue, computed tile by tile.
    in_pieces: bool,
    /// The result that it is.
    result: Option<usize>,
}

/// The group of what no group computes: no index, so that using it fails.
const NO_GROUP: usize = usize::MAX;

/// A graph on its way to a program.
struct Lowering<'g> {
    graph: &'g Graph,
    target: &'g Capabilities,
    producers: Vec<Producer>,
    located: Vec<Option<Located>>,
    /// The producers of the outputs of loops, by the number of the operation.
    outputs: NumberMap<usize, Vec<usize>>,
    groups: Vec<Group>,
    /// The nodes that only products of matrices read, which take them in any order of their axes.
    only_multiplied: Vec<bool>,
    /// Products that are only spread by a view, each with the node that does so.
    folds: NumberMap<usize, usize>,
    /// For producers of storage types, the producer of the same elements in the compute type, once it is requested.
    wide: NumberMap<usize, usize>,
    /// The last loop over each space.
    latest: NumberMap<InlineVec<usize>, usize>,
    /// Loops before this one accept no further instructions.
    barrier: usize,
    /// The source of the node that is being planned; inputs have none.
    source: Option<usize>,
    /// The groups that work was put into, each with the source of the node it is done for.
    worked: Vec<(usize, usize)>,
}

/// Lowers a graph to a program for a target.
pub fn lower(graph: &Graph, target: &Capabilities) -> Program {
    let graph = &*early(expanded(graph, target));
    let mut lowering = Lowering {
        graph,
        target,
        producers: Vec::with_capacity(graph.nodes.len()),
        located: vec![None; graph.nodes.len()],
        outputs: NumberMap::default(),
        groups: Vec::new(),
        only_multiplied: layout::only_multiplied(graph),
        folds: if target.accumulation { scatter_fusion::folds(graph) } else { NumberMap::default() },
        wide: NumberMap::default(),
        latest: NumberMap::default(),
        barrier: 0,
        source: None,
        worked: Vec::with_capacity(graph.nodes.len()),
    };
    for (number, node) in graph.inputs.iter().enumerate() {
        lowering.leaf(*node, Memory::Input(number));
    }
    for (number, (node, _)) in graph.constants.iter().enumerate() {
        lowering.leaf(*node, Memory::Constant(number));
    }
    for node in 0..graph.nodes.len() {
        if lowering.located[node].is_none() {
            lowering.source = Some(graph.nodes[node].source);
            let located = lowering.node(node);
            lowering.located[node] = Some(located);
        }
    }
    lowering.results();
    let program = lowering.finish();
    if cfg!(debug_assertions)
        && let Err(violation) = program.verify()
    {
        unreachable!("lowering produced an unsound program: {violation}\n{program}");
    }
    program
}

impl<'g> Lowering<'g> {
    fn leaf(&mut self, node: usize, memory: Memory) {
        let (shape, dtype) = (&self.graph.nodes[node].shape, self.graph.nodes[node].dtype);
        let producer = self.produce(dtype, shape.elements());
        self.producers[producer].leaf = Some(memory);
        self.located[node] = Some(Located::whole(producer, shape));
    }

    fn produce(&mut self, dtype: DType, elements: usize) -> usize {
        self.producers.push(Producer {
            dtype,
            elements,
            leaf: None,
            group: NO_GROUP,
            register: None,
            by_row: false,
            spread: None,
            number: None,
            needed: false,
            channels_last: false,
            in_pieces: false,
            result: None,
        });
        self.producers.len() - 1
    }

    /// Remembers for whom a group works.
    fn works(&mut self, group: usize) {
        self.worked.extend(self.source.map(|source| (group, source)));
    }

    /// The order in which a node is computed element by element.
    fn order_of_node(&self, number: usize) -> AxisOrder {
        if self.only_multiplied[number] { AxisOrder::Any } else { AxisOrder::Followed }
    }

    fn at(&self, node: usize) -> Located {
        self.located[node].clone().unwrap_or_else(|| unreachable!("node {node} is used before it is defined"))
    }

    /// Locates a node, computing it if it must be.
    fn node(&mut self, number: usize) -> Located {
        let graph: &'g Graph = self.graph;
        let node = &graph.nodes[number];
        let input = |k: usize| node.inputs[k];
        match &node.op {
            Op::Variable | Op::StopGradient => self.at(input(0)),
            Op::ControlDependency => {
                // Earlier loops accept no further instructions.
                self.latest.clear();
                self.barrier = self.groups.len();
                self.at(input(0))
            }
            Op::Reshape => {
                let shape = &graph.nodes[input(0)].shape;
                let at = self.at(input(0));
                match reshaped(shape, &at.strides, &node.shape) {
                    Some(strides) => Located { strides, ..at },
                    None => Located { strides: rows(&node.shape), ..self.copied(&at, shape) },
                }
            }
            Op::ReadView(view) if view.stays_inside() => {
                let at = self.at(input(0));
                let mut strides = InlineVec::from_elem(0, view.output.rank());
                let mut offset = at.offset;
                for (axis, stride) in view.axes.iter().zip(at.strides.iter()) {
                    offset += axis.offset * stride;
                    axis.steps.iter().for_each(|(along, step)| strides[*along] += step * stride);
                }
                Located { producer: at.producer, offset, strides }
            }
            Op::ReadView(view) => {
                let at = self.at(input(0));
                let padded = self.read_padded(view, &at);
                padded.unwrap_or_else(|| self.call(number, CallKind::ReadView(view.clone())))
            }
            Op::Einsum(einsum) => self.einsum(number, node, einsum),
            Op::Map(_) | Op::Add | Op::Compare(_) | Op::Logic(_) | Op::Select | Op::Cast => {
                let operands = node.inputs.iter().map(|input| self.at(*input)).collect();
                self.pointwise(node, &node.shape, operands, self.order_of_node(number))
            }
            Op::Max(axes) => {
                let shape = &graph.nodes[input(0)].shape;
                let own = rows(&node.shape);
                let mut own = own.iter().copied();
                let along = |axis| if axes.contains(&axis) { 0 } else { own.next().unwrap_or(0) };
                let strides: InlineVec<isize> = (0..shape.rank()).map(along).collect();
                let operand = self.at(input(0));
                self.combined(node, shape, vec![operand], &strides, Reduction::Max, None)
            }
            Op::GetOutput(output) => {
                let producer = self.outputs_of(node)[*output];
                match self.producers[producer].channels_last {
                    true => Located { producer, offset: 0, strides: layout::images_channels_last(&node.shape) },
                    false => Located::whole(producer, &node.shape),
                }
            }
            Op::ScatterView(view) => match self.scattered_channels_last(number, view) {
                Some(scattered) => scattered,
                None => self.call(number, CallKind::ScatterView(view.clone())),
            },
            Op::Concatenate(axis) => self.call(number, CallKind::Concatenate(*axis)),
            Op::Gather(axis) => self.call(number, CallKind::Gather(*axis)),
            Op::ScatterAdd(axis) => self.call(number, CallKind::ScatterAdd(*axis)),
            Op::ArgMax(axis) => self.call(number, CallKind::ArgMax(*axis)),
            Op::OneHot(operation) => self.call(number, CallKind::OneHot(operation)),
            Op::ArgSort { descending } => self.call(number, CallKind::ArgSort { descending: *descending }),
            Op::Draw(distribution) => self.call(number, CallKind::Draw(distribution.clone())),
            Op::Collective(collective) => self.call(number, CallKind::Collective(*collective)),
            Op::Custom(custom) => self.call(number, CallKind::Host(custom.host_call())),
            Op::Leaf | Op::Placeholder => unreachable!("leaf {number} is no input of its graph"),
            Op::Failed(error) => unreachable!("node {number} has failed: {error}"),
        }
    }
}
