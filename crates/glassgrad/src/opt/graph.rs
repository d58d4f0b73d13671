//! A graph as a list, for passes and planning: what is to be computed, apart from any tensor that asked for it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::array::Array;
use crate::dtype::DType;
use crate::expr::{MultiOp, Op};
use crate::shape::Shape;

/// One node: an operation on earlier nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphNode {
    /// What it does. A leaf is an input or a constant of the graph.
    pub op: Op,
    /// The nodes it reads, all earlier in the list; of an output, those that its operation reads.
    pub inputs: Vec<usize>,
    /// The sizes of its axes.
    pub shape: Shape,
    /// The type of its elements.
    pub dtype: DType,
    /// The number of the node that it was created for, in the order of capture: the one to name if it
    /// fails.
    pub source: usize,
    /// The operation that this is one output of, if its `op` is [`Op::GetOutput`].
    pub multi: Option<Arc<GraphMulti>>,
}

/// An operation with several outputs: a loop, a rematerialised region, or the reverse sweep of a loop. It stands in no
/// list; the nodes of its outputs share it.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphMulti {
    /// What it does.
    pub op: MultiOp,
    /// Its subgraph, whose inputs are those of its outputs.
    pub body: Graph,
    /// Its number in the order of capture, which identifies it in its graph.
    pub source: usize,
}

/// Nodes, operands before what uses them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The nodes.
    pub nodes: Vec<GraphNode>,
    /// The leaves whose values are given anew at each run, in order.
    pub inputs: Vec<usize>,
    /// The leaves whose values are part of the graph.
    pub constants: Vec<(usize, Array)>,
    /// The nodes that are asked for.
    pub results: Vec<usize>,
}

impl Graph {
    /// Appends a node and returns its number.
    pub fn push(&mut self, node: GraphNode) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// All nodes but further outputs of an operation whose first output stands before them.
    pub(super) fn operations(&self) -> impl Iterator<Item = &GraphNode> {
        let mut seen = HashSet::new();
        self.nodes.iter().filter(move |node| node.multi.as_ref().is_none_or(|multi| seen.insert(multi.source)))
    }

    /// The operations with several outputs.
    pub fn multis(&self) -> impl Iterator<Item = &Arc<GraphMulti>> {
        self.operations().filter_map(|node| node.multi.as_ref())
    }

    /// How often each node is read, results counted. An operation reads its inputs once, however many outputs it has.
    pub fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.nodes.len()];
        self.operations().flat_map(|node| &node.inputs).for_each(|input| uses[*input] += 1);
        self.results.iter().for_each(|result| uses[*result] += 1);
        uses
    }

    /// The graph rebuilt, node by node: `rewrite` gets each node that is no leaf, with its inputs renumbered, and
    /// the graph so far, and returns the node that replaces it.
    pub fn rewritten(self, mut rewrite: impl FnMut(&mut Graph, GraphNode) -> usize) -> Graph {
        self.renumbered(|graph, _, node| rewrite(graph, node))
    }

    /// As [`Graph::rewritten`]; `rewrite` also gets the new numbers of all nodes before.
    pub(super) fn renumbered(self, mut rewrite: impl FnMut(&mut Graph, &[usize], GraphNode) -> usize) -> Graph {
        let mut graph = Graph { nodes: Vec::with_capacity(self.nodes.len()), ..Graph::default() };
        let mut number: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for mut node in self.nodes {
            node.renumber(graph.nodes.last(), |input| number[input]);
            let new = if node.op == Op::Leaf { graph.push(node) } else { rewrite(&mut graph, &number, node) };
            number.push(new);
        }
        graph.inputs = self.inputs.into_iter().map(|input| number[input]).collect();
        graph.constants = self.constants.into_iter().map(|(node, array)| (number[node], array)).collect();
        graph.results = self.results.into_iter().map(|result| number[result]).collect();
        graph
    }

    /// Multiplications and additions, as everyone counts them: two for each step of a contraction, one for each
    /// element of a pointwise operation and for each element that is summed.
    pub fn flops(&self) -> f64 {
        let inside = self.multis().map(|multi| multi.op.length() as f64 * multi.body.flops());
        self.nodes.iter().map(|node| node.flops(self)).chain(inside).sum()
    }

    /// The bytes of all values that are computed, those in every step of a loop included.
    pub fn bytes(&self) -> f64 {
        let bytes = |node: &GraphNode| match &node.op {
            Op::Leaf | Op::ControlDependency => 0.0,
            _ => node.shape.elements() as f64 * node.dtype.bytes() as f64,
        };
        let inside = self.multis().map(|multi| multi.op.length() as f64 * multi.body.bytes());
        self.nodes.iter().map(bytes).chain(inside).sum()
    }
}

impl GraphNode {
    /// Gives the inputs other numbers. `before` is the node that stands before this one in the new list: if it is an output of
    /// the same operation, it has the same inputs already.
    pub(super) fn renumber(&mut self, before: Option<&GraphNode>, number: impl Fn(usize) -> usize) {
        let source = |node: &GraphNode| node.multi.as_ref().map(|multi| multi.source);
        match before.filter(|before| self.multi.is_some() && source(before) == source(self)) {
            Some(before) => self.inputs.clone_from(&before.inputs),
            None => self.inputs.iter_mut().for_each(|input| *input = number(*input)),
        }
    }

    /// The arithmetic operations that computing this node takes; an output takes none beside those of its operation.
    pub fn flops(&self, graph: &Graph) -> f64 {
        let elements = self.shape.elements() as f64;
        match &self.op {
            Op::Einsum(einsum) => {
                let mut labels: Vec<usize> = einsum.operands.iter().flatten().copied().collect();
                labels.sort_unstable();
                labels.dedup();
                let steps: f64 = labels.iter().map(|label| einsum.extents[*label] as f64).product();
                let sums = !einsum.summed().is_empty();
                let products = einsum.operands.len().saturating_sub(1) + usize::from(einsum.coefficient != 1.0);
                steps * (products + usize::from(sums)) as f64
            }
            Op::Map(formula) => {
                use crate::formula::Node;
                let free = |node: &&Node| !matches!(node, Node::Number(_) | Node::Variable(_));
                elements * formula.nodes.iter().filter(free).count() as f64
            }
            Op::Add => elements * self.inputs.len().saturating_sub(1) as f64,
            Op::Compare(_) | Op::Logic(_) | Op::Select => elements,
            Op::ScatterView(_) | Op::ScatterAdd(_) | Op::Max(_) | Op::ArgMax(_) => {
                self.inputs.first().map_or(0.0, |input| graph.nodes[*input].shape.elements() as f64)
            }
            Op::Leaf
            | Op::Placeholder
            | Op::Variable
            | Op::Cast
            | Op::Reshape
            | Op::ReadView(_)
            | Op::Concatenate(_)
            | Op::Gather(_)
            | Op::OneHot(_)
            | Op::ArgSort { .. }
            | Op::Draw(_)
            | Op::StopGradient
            | Op::ControlDependency
            | Op::GetOutput(_)
            | Op::Collective(_)
            | Op::Custom(_)
            | Op::Failed(_) => 0.0,
        }
    }
}

/// One line a node, and one for each operation with several outputs before the first of them.
impl fmt::Display for Graph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen = HashSet::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let inputs: Vec<String> = node.inputs.iter().map(|input| format!("%{input}")).collect();
            let mut inputs = inputs.join(", ");
            if let Some(GraphMulti { op, source, .. }) = node.multi.as_deref() {
                if seen.insert(*source) {
                    writeln!(formatter, "#{source} = {}({inputs})", op.describe())?;
                }
                inputs = format!("#{source}");
            }
            let mark = if self.results.contains(&number) { "  result" } else { "" };
            let operation = node.op.describe();
            writeln!(formatter, "%{number} = {operation}({inputs}) : {}{}{mark}", node.dtype, node.shape)?;
        }
        Ok(())
    }
}
