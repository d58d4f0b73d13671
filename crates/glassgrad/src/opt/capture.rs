//! Taking what tensors ask for out of the graph that they share: a walk that numbers nodes and leaves, a
//! fingerprint of their structure, and the graph as a list for the planner.

use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;

use super::graph::{Graph, GraphMulti, GraphNode};
use super::structural_hash::{Fingerprint, StructuralHash as _};
use crate::array::Array;
use crate::error::Error;
use crate::expr::{Inputs, MultiNode, MultiOp, Node, Op, Scan, Tensor};
use crate::hashing::NumberMap;
use crate::numbering::NodeIndices;
use crate::sorting::IndirectSort;
use crate::view::View;

/// A captured graph, with its leaves and the user's lines.
#[derive(Default)]
pub(crate) struct Capture {
    /// The scope outside of all loops, and those of the loops that are being walked.
    scopes: Vec<Scope>,
    /// Where each leaf comes from.
    pub(crate) leaves: Vec<Leaf>,
    /// The user's line of each entry, those inside of loops included.
    pub(crate) origins: Vec<&'static Location<'static>>,
    results: Vec<usize>,
    hash: Fingerprint,
    /// The loops that run in place of others: see [`wider_loops`].
    wider: NumberMap<u64, Arc<MultiNode>>,
    /// Whether a program for this structure may serve another graph.
    pub(crate) cacheable: bool,
}

/// The origin of a leaf.
#[derive(Clone, Debug)]
pub(crate) enum Leaf {
    /// It is known: its elements, and the place of the first.
    Known(Array, usize),
    /// It is the argument of a function, by the number of its node.
    Argument(u64),
}

struct Entry {
    node: Arc<Node>,
    inputs: SmallVec<[usize; 4]>,
    is_leaf: bool,
    source: usize,
    /// Of an output, the number of its operation.
    multi: Option<usize>,
}

/// An operation with several outputs, and one step of it.
struct MultiEntry {
    op: MultiOp,
    inputs: Vec<usize>,
    source: usize,
    body: Scope,
    results: Vec<usize>,
}

/// Nodes numbered as they are met: the whole graph, or one step of a loop, whose leaves are the inputs of the loop.
struct Scope {
    entries: Vec<Entry>,
    multis: Vec<MultiEntry>,
    /// The numbers of nodes among entries, and of operations with several outputs among those.
    numbers: NodeIndices,
    /// What a loop reads from outside without listing it, as numbers of the scope around.
    beside: Vec<usize>,
}

impl Scope {
    fn new() -> Scope {
        Scope { entries: Vec::new(), multis: Vec::new(), numbers: NodeIndices::new(), beside: Vec::new() }
    }

    fn push(&mut self, entry: Entry) -> usize {
        self.numbers.insert(entry.node.id, self.entries.len());
        self.entries.push(entry);
        self.entries.len() - 1
    }

    fn leaf(&mut self, node: &Arc<Node>) -> usize {
        self.push(Entry { node: Arc::clone(node), inputs: SmallVec::new(), is_leaf: true, source: 0, multi: None })
    }
}

impl Capture {
    /// Takes nodes, inputs before what uses them, of which some are results. `None` if another thread computed
    /// and released nodes in between: then there is less to do, and the caller retries.
    pub(crate) fn new(order: &[Arc<Node>], is_result: impl Fn(&Node) -> bool) -> Option<Capture> {
        let mut outermost = Scope::new();
        outermost.entries.reserve(2 * order.len());
        let wider = wider_loops(order);
        let mut extract = Capture { scopes: vec![outermost], cacheable: true, wider, ..Capture::default() };
        extract.origins.reserve(order.len());
        extract.leaves.reserve(order.len() / 2);
        for node in order {
            let behind = node.held_inputs();
            // Inputs are released after the value is known: if it is not known yet, they were all there.
            let number = match (node.value(), &node.op, behind.first()) {
                (Some(value), _, _) => {
                    extract.leaf(node, Leaf::Known(value.clone(), 0));
                    continue;
                }
                (None, Op::Placeholder, _) => extract.number_of(0, node)?,
                // A part of a leaf that lies row by row is a leaf: where it begins is no matter of structure.
                (None, Op::ReadView(view), Some(input)) => match (start_of_rows(view), input.value()) {
                    (Some(start), Some(value)) => extract.leaf(node, Leaf::Known(value.clone(), start)),
                    _ => extract.node(0, node, &behind)?,
                },
                _ => extract.node(0, node, &behind)?,
            };
            if is_result(node) {
                extract.results.push(number);
            }
        }
        for result in &extract.results {
            extract.hash.word(*result as u64);
        }
        Some(extract)
    }

    /// The structure: the same for graphs that differ only in the values of their leaves.
    pub(crate) fn structural_hash(&self) -> u128 {
        self.hash.finish()
    }

    /// The leaves, all of which must be known.
    pub(crate) fn known_leaves(&self) -> Result<Vec<(&Array, usize)>, Error> {
        let known = |leaf| match leaf {
            &Leaf::Known(ref array, start) => Ok((array, start)),
            Leaf::Argument(_) => Err(Error::new("read", "the value of an argument is not known")),
        };
        self.leaves.iter().map(known).collect()
    }

    /// The nodes of the results, in order.
    pub(crate) fn results(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.results.iter().map(|entry| &self.scopes[0].entries[*entry].node)
    }

    /// A leaf of the whole graph.
    fn leaf(&mut self, node: &Arc<Node>, leaf: Leaf) -> usize {
        self.hash.leaf(node);
        self.leaves.push(leaf);
        self.scopes[0].leaf(node)
    }

    /// The number of a node in a scope. What is not there is a leaf, or comes in from the scope around.
    fn number_of(&mut self, depth: usize, node: &Arc<Node>) -> Option<usize> {
        if let Some(number) = self.scopes[depth].numbers.get(node.id) {
            return Some(number);
        }
        let Some(around) = depth.checked_sub(1) else {
            let leaf = match node.op {
                Op::Placeholder => Leaf::Argument(node.id),
                _ => Leaf::Known(node.value()?.clone(), 0),
            };
            return Some(self.leaf(node, leaf));
        };
        let outside = self.number_of(around, node)?;
        self.hash.leaf(node);
        self.scopes[depth].beside.push(outside);
        Some(self.scopes[depth].leaf(node))
    }

    /// Takes a node into a scope.
    fn node(&mut self, depth: usize, node: &Arc<Node>, behind: &Inputs) -> Option<usize> {
        let mut inputs = SmallVec::new();
        let multi = match behind {
            Inputs::Nodes(nodes) => {
                for input in nodes {
                    inputs.push(self.number_of(depth, input)?);
                }
                None
            }
            Inputs::Multi(multi) => Some(self.multi(depth, multi)?),
        };
        let source = self.origins.len();
        self.origins.push(node.origin);
        self.cacheable &= self.hash.node(node, multi.as_ref().map_or(&inputs[..], std::slice::from_ref));
        Some(self.scopes[depth].push(Entry { node: Arc::clone(node), inputs, is_leaf: false, source, multi }))
    }

    /// Takes an operation with several outputs into a scope, if it is not there, with its subgraph as a scope of its own.
    fn multi(&mut self, depth: usize, multi: &Arc<MultiNode>) -> Option<usize> {
        let multi = self.wider.get(&multi.id).filter(|_| depth == 0).cloned().unwrap_or_else(|| Arc::clone(multi));
        if let Some(number) = self.scopes[depth].numbers.get(multi.id) {
            return Some(number);
        }
        let mut inputs = Vec::with_capacity(multi.inputs.len());
        for input in &multi.inputs {
            inputs.push(self.number_of(depth, input)?);
        }
        let source = self.origins.len();
        self.origins.push(multi.origin);
        self.scopes.push(Scope::new());
        let body = multi.op.body();
        let parameters = body.parameters.iter().map(|parameter| &parameter.0);
        for leaf in parameters.chain(&multi.inputs[body.parameters.len()..]) {
            self.hash.leaf(leaf);
            self.scopes[depth + 1].leaf(leaf);
        }
        for inner in body.nodes() {
            let behind = inner.inputs();
            self.node(depth + 1, &inner, &behind)?;
        }
        let mut results = Vec::new();
        for output in &body.outputs {
            let number = self.number_of(depth + 1, &output.0)?;
            self.hash.word(number as u64);
            results.push(number);
        }
        let body = self.scopes.pop()?;
        inputs.extend_from_slice(&body.beside);
        self.hash.multi(&multi.op, &inputs);
        let scope = &mut self.scopes[depth];
        scope.numbers.insert(multi.id, scope.multis.len());
        scope.multis.push(MultiEntry { op: multi.op.clone(), inputs, source, body, results });
        Some(scope.multis.len() - 1)
    }

    /// The graph as a list, for the planner.
    pub(crate) fn graph(&self) -> Graph {
        listed(&self.scopes[0], &self.results)
    }
}

fn listed(scope: &Scope, results: &[usize]) -> Graph {
    let mut graph = Graph { results: results.to_vec(), ..Graph::default() };
    let multi = |entry: &MultiEntry| {
        let body = listed(&entry.body, &entry.results);
        Arc::new(GraphMulti { op: entry.op.clone(), body, source: entry.source })
    };
    let multis: Vec<Arc<GraphMulti>> = scope.multis.iter().map(multi).collect();
    for entry in &scope.entries {
        let inputs = entry.multi.map_or(&entry.inputs[..], |multi| &scope.multis[multi].inputs);
        let number = graph.push(GraphNode {
            op: if entry.is_leaf { Op::Leaf } else { entry.node.op.clone() },
            inputs: inputs.to_vec(),
            shape: entry.node.shape.clone(),
            dtype: entry.node.dtype,
            source: entry.source,
            multi: entry.multi.map(|multi| Arc::clone(&multis[multi])),
        });
        if entry.is_leaf {
            graph.inputs.push(number);
        }
    }
    graph
}

/// For loops that some other loop does as well and with the same results first, that other loop: the way forwards of a
/// derivative stacks more of what the function's own loop computes, and both can run as one.
fn wider_loops(order: &[Arc<Node>]) -> NumberMap<u64, Arc<MultiNode>> {
    let outputs = order.iter().filter(|node| matches!(node.op, Op::GetOutput(_)) && node.value().is_none());
    let mut loops: Vec<Arc<MultiNode>> = outputs.filter_map(|node| node.held_inputs().multi().cloned()).collect();
    loops.indirect_sort_by_key(|multi| multi.id);
    loops.dedup_by_key(|multi| multi.id);
    let loops: Vec<(&Arc<MultiNode>, &Scan)> = loops
        .iter()
        .filter_map(|multi| match &multi.op {
            MultiOp::Scan(scan) => Some((multi, &**scan)),
            MultiOp::Remat(_) | MultiOp::Sweep(_) => None,
        })
        .collect();
    let same = |one: &[Tensor], other: &[Tensor]| one.iter().map(|k| k.0.id).eq(other.iter().map(|k| k.0.id));
    let covers = |(wide, wide_scan): (&MultiNode, &Scan), (narrow, scan): (&MultiNode, &Scan)| {
        let (count, given) = (scan.body.outputs.len(), scan.body.parameters.len());
        let inputs = |multi: &MultiNode| multi.inputs.iter().take(given).map(|input| input.id).collect::<Vec<_>>();
        wide_scan.body.outputs.len() > count
            && (wide_scan.carries, wide_scan.length, wide_scan.reversed) == (scan.carries, scan.length, scan.reversed)
            && same(&wide_scan.body.parameters, &scan.body.parameters)
            && same(&wide_scan.body.outputs[..count], &scan.body.outputs)
            && inputs(wide) == inputs(narrow)
            // It runs in the place of the other, where all that it needs must be known.
            && wide.inputs.iter().all(|input| input.id < narrow.id)
    };
    let mut wider = NumberMap::default();
    for (multi, scan) in &loops {
        let candidates = loops.iter().filter(|(wide, wide_scan)| covers((wide, wide_scan), (multi, scan)));
        let most = |(wide, scan): &&(&Arc<MultiNode>, &Scan)| (scan.body.outputs.len(), std::cmp::Reverse(wide.id));
        if let Some((wide, _)) = candidates.max_by_key(most) {
            wider.insert(multi.id, Arc::clone(wide));
        }
    }
    wider
}

/// Where a view begins that reads neighbouring elements one after another, if it does.
fn start_of_rows(view: &View) -> Option<usize> {
    let strides = view.input.strides();
    let mut expected = 1;
    let mut start = 0;
    // From the last axis to the first: whole axes, then a part of one, then single places.
    let mut whole = true;
    for axis in (0..view.input.rank()).rev() {
        let own = &view.axes[axis];
        let [(along, step)] = own.steps[..] else { return None };
        let (length, size) = (view.output[axis], view.input[axis]);
        let offset = usize::try_from(own.offset).ok()?;
        if along != axis || offset + length > size || (length > 1 && step != 1) || (!whole && length != 1) {
            return None;
        }
        whole &= length == size;
        start += offset * strides[axis];
        expected *= length;
    }
    // Of nothing it is no matter where it begins, which may be beyond the end.
    let start = if expected == 0 { 0 } else { start };
    (view.output.rank() == view.input.rank() && expected == view.output.elements()).then_some(start)
}
