//! Passes: from a graph to one of the same value that is cheaper to run.
//!
//! Each is a small file and can run on its own; [`PASSES`] lists them in the order in which they run, and each returns
//! what it did in a [`Report`]. Between them `verify` checks that the graph is legal, always in tests and debug
//! builds. Values change by rounding at most, but for what the conventions leave open: products may be
//! re-associated, so NaN from zero times infinity may or may not appear where no choice stands between, and a part
//! that cannot matter is not computed, so it cannot fail either.
//!
//! All passes are linear in the size of the graph, and decide nothing by the order of a hash map: the same graph
//! gives the same plan.

mod common;
mod contraction_order;
mod correlate;
mod dead;
mod early;
mod expand;
mod flatten;
mod fold;
mod joint_contraction;
mod product;
mod simplify;
mod split;
mod verify;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use super::contract::metric;
use super::graph::{Graph, GraphMulti};
use crate::hashing::NumberMap;

pub(super) use dead::dead;
pub(super) use early::early;
pub(super) use expand::expanded;
pub use expand::unfused;
pub use verify::{Illegal, verify};

/// A pass: its name, and what it does to one graph, without the subgraphs in it.
///
/// ```
/// use glassgrad::opt::passes::PASSES;
/// assert_eq!(PASSES[0].name, "fold");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The name.
    pub name: &'static str,
    function: fn(Graph) -> Graph,
}

/// All passes, in the order in which they run.
pub const PASSES: &[Pass] = &[
    Pass { name: "fold", function: fold::fold },
    Pass { name: "simplify", function: simplify::simplify },
    Pass { name: "common", function: common::common },
    Pass { name: "dead", function: dead::dead },
    Pass { name: "flatten", function: flatten::flatten },
    Pass { name: "split", function: split::split },
    // The steps of several products can be the same.
    Pass { name: "common", function: common::common },
    Pass { name: "dead", function: dead::dead },
];

/// The pass `split` without planning products together, to see what that gains.
///
/// ```
/// use glassgrad::{Tensor, opt::graph::Graph, opt::passes::{APART, PASSES}};
/// let new = |shape: &[usize]| Tensor::new(&vec![0.5_f32; shape.iter().product()], shape);
/// // AB is read twice, so that it seems worth computing; but (AB)v and (AB)w are best A(Bv) and A(Bw).
/// let product = new(&[60, 60]).matmul(&new(&[60, 60]));
/// let (graph, _) = Graph::of(&[&product.matmul(&new(&[60])), &product.matmul(&new(&[60]))]).unwrap();
/// let flops = |split| {
///     let chosen = PASSES.iter().map(|pass| if pass.name == "split" { split } else { *pass });
///     chosen.fold(graph.clone(), |graph, pass| pass.applied(graph)).flops()
/// };
/// assert_eq!((flops(APART), flops(PASSES[5])), (446_400.0, 28_800.0));
/// ```
pub const APART: Pass = Pass { name: "split", function: split::apart };

impl Pass {
    /// The graph after this pass alone, in loops too.
    ///
    /// ```
    /// use glassgrad::{Tensor, opt::graph::Graph, opt::passes::PASSES};
    /// let x = Tensor::from([1.0, 2.0]);
    /// let (graph, _) = Graph::of(&[&-(-x)]).unwrap();
    /// let simplify = PASSES.iter().find(|pass| pass.name == "simplify").unwrap();
    /// assert_eq!(simplify.applied(graph).results, [0]); // the input itself
    /// ```
    pub fn applied(&self, mut graph: Graph) -> Graph {
        let mut inside: NumberMap<usize, Arc<GraphMulti>> = NumberMap::default();
        for multi in graph.nodes.iter_mut().filter_map(|node| node.multi.as_mut()) {
            let changed = inside.entry(multi.source).or_insert_with(|| {
                let GraphMulti { op, body, source } = GraphMulti::clone(multi);
                Arc::new(GraphMulti { op, body: self.applied(body), source })
            });
            *multi = Arc::clone(changed);
        }
        let graph = (self.function)(graph);
        if cfg!(debug_assertions)
            && let Err(illegal) = verify(&graph)
        {
            panic!("after the pass {}: {illegal}\n{graph}", self.name);
        }
        graph
    }
}

/// What a pass did: everything before and after it, with the bodies of loops.
///
/// Operations are counted as the graph states them: a product of three factors multiplies everything with
/// everything, so putting products together costs, and choosing an order for them gains more.
///
/// ```
/// use glassgrad::{Tensor, opt::graph::Graph, opt::passes::optimised};
/// let (a, v) = (Tensor::new(&[0.5_f32; 10_000], [100, 100]), Tensor::new(&[0.5_f32; 100], 100));
/// let (graph, _) = Graph::of(&[&a.matmul(&a).matmul(&v)]).unwrap();
/// let (_, reports) = optimised(graph);
/// let lines: Vec<String> = reports.iter().map(|report| report.to_string()).collect();
/// assert_eq!(lines[4], "flatten: 4 to 3 nodes, 2.0 MFLOP to 3.0 MFLOP, 40 kB to 400 B");
/// assert_eq!(lines[5], "split: 3 to 4 nodes, 3.0 MFLOP to 40 kFLOP, 400 B to 800 B");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The name of the pass.
    pub pass: &'static str,
    /// How many nodes there were, and are.
    pub nodes: [usize; 2],
    /// Multiplications and additions, as [`Graph::flops`] counts them.
    pub flops: [f64; 2],
    /// The bytes of everything that is computed, as [`Graph::bytes`] counts them.
    pub bytes: [f64; 2],
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amounts = |amounts: [f64; 2], unit| amounts.map(|amount| metric(amount as u128, unit)).join(" to ");
        let [before, after] = self.nodes;
        let (flops, bytes) = (amounts(self.flops, "FLOP"), amounts(self.bytes, "B"));
        write!(formatter, "{}: {before} to {after} nodes, {flops}, {bytes}", self.pass)
    }
}

/// The graph after all passes.
///
/// ```
/// use glassgrad::{Tensor, opt::graph::Graph, opt::passes::optimise};
/// let x = Tensor::from([1.0, 2.0]);
/// let (graph, _) = Graph::of(&[&(x.exp() * x.exp())]).unwrap();
/// assert_eq!((graph.nodes.len(), optimise(graph).nodes.len()), (4, 3));
/// ```
pub fn optimise(graph: Graph) -> Graph {
    let is_enabled = |pass: &&Pass| !DISABLED.with_borrow(|disabled| disabled.contains(&pass.name));
    PASSES.iter().filter(is_enabled).fold(graph, |graph, pass| pass.applied(graph))
}

thread_local! {
    /// The passes that a test disables. It is empty otherwise.
    static DISABLED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Calls a function on whose thread programs are planned without the passes of these names, and are not cached. This is
/// for tests: a pass may change results by rounding only, so that programs without it must agree.
///
/// ```
/// use glassgrad::{Tensor, opt::passes::without};
/// let sum = without(&["simplify", "common"], || (Tensor::from([1.0, 2.0]) * 1.0).sum().item());
/// assert_eq!(sum.unwrap(), 3.0);
/// ```
#[doc(hidden)]
pub fn without<R>(names: &[&'static str], function: impl FnOnce() -> R) -> R {
    /// Restores the former list, also if the function panics.
    struct Restore(Vec<&'static str>);
    impl Drop for Restore {
        fn drop(&mut self) {
            DISABLED.replace(std::mem::take(&mut self.0));
        }
    }
    let _restore = Restore(DISABLED.replace(names.to_vec()));
    function()
}

/// Whether all passes run on this thread, so that what they make may be cached.
pub(crate) fn all_enabled() -> bool {
    DISABLED.with_borrow(Vec::is_empty)
}

/// The graph after all passes, and what each of them did.
///
/// ```
/// use glassgrad::{Tensor, opt::graph::Graph, opt::passes::{PASSES, optimised}};
/// let (graph, _) = Graph::of(&[&Tensor::ones([3]).sum()]).unwrap();
/// let (graph, reports) = optimised(graph);
/// assert_eq!((graph.to_string().as_str(), reports.len()), ("%0 = einsum 3 ->() : f32[]  result\n", PASSES.len()));
/// ```
pub fn optimised(mut graph: Graph) -> (Graph, Vec<Report>) {
    let mut reports = Vec::with_capacity(PASSES.len());
    let mut before = (nodes_in_all(&graph), graph.flops(), graph.bytes());
    for pass in PASSES {
        graph = pass.applied(graph);
        let after = (nodes_in_all(&graph), graph.flops(), graph.bytes());
        let (nodes, flops, bytes) = ([before.0, after.0], [before.1, after.1], [before.2, after.2]);
        reports.push(Report { pass: pass.name, nodes, flops, bytes });
        before = after;
    }
    (graph, reports)
}

fn nodes_in_all(graph: &Graph) -> usize {
    // An operation with several outputs counts as a node beside them.
    graph.nodes.len() + graph.multis().map(|multi| 1 + nodes_in_all(&multi.body)).sum::<usize>()
}
