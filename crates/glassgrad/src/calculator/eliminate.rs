//! A term as a graph whose vertices are labels, and the elimination of those that are summed over.

use super::indexed::Term;
use super::recognise::Builder;
use crate::einsum::Label;
use crate::lang::matrix::{Constant, Function, NodeId, Operator, Syntax};

/// A column vector on a vertex, as a product, raised to a power element by element.
#[derive(Clone)]
pub(super) struct Weight {
    pub(super) chain: Vec<NodeId>,
    pub(super) exponent: i32,
}

/// A product of matrices whose rows have one label and whose columns another.
#[derive(Clone)]
pub(super) struct Edge {
    pub(super) from: Label,
    pub(super) to: Label,
    pub(super) chain: Vec<NodeId>,
}

/// A term as a graph.
#[derive(Default)]
pub(super) struct LabelGraph {
    pub(super) edges: Vec<Edge>,
    pub(super) weights: Vec<Vec<Weight>>,
    pub(super) scalars: Vec<(NodeId, i32)>,
}

impl LabelGraph {
    pub(super) fn degree(&self, label: Label) -> usize {
        self.edges.iter().filter(|edge| edge.from == label || edge.to == label).count()
    }

    fn has_loop(&self, label: Label) -> bool {
        self.edges.iter().any(|edge| edge.from == label && edge.to == label)
    }
}

impl Builder<'_> {
    /// Eliminates one label that is summed over.
    pub(super) fn eliminate(&mut self, graph: &mut LabelGraph, left: &[Label], term: &Term) -> Option<()> {
        // Ends of chains first: a matrix times a vector is a vector.
        if let Some(label) = left.iter().find(|label| graph.degree(**label) == 1 && !graph.has_loop(**label)) {
            let place = graph.edges.iter().position(|edge| edge.from == *label || edge.to == *label)?;
            let edge = graph.edges.remove(place);
            let edge = if edge.to == *label { edge } else { self.turned(edge) };
            let weights = std::mem::take(&mut graph.weights[*label]);
            let vector = self.vector(weights, term.extents[*label]);
            let chain = [edge.chain, vector].concat();
            graph.weights[edge.from].push(Weight { chain, exponent: 1 });
            return Some(());
        }
        if let Some(label) = left.iter().find(|label| graph.degree(**label) == 0) {
            let weights = std::mem::take(&mut graph.weights[*label]);
            let number = self.inner_product(weights);
            graph.scalars.push((number, 1));
            return Some(());
        }
        // Two edges are a product of matrices. Two between the same labels close a chain, unless one label is free.
        let joins = |label: &&Label| {
            let others: Vec<Label> = (graph.edges.iter())
                .filter(|edge| edge.from == **label || edge.to == **label)
                .map(|edge| if edge.from == **label { edge.to } else { edge.from })
                .collect();
            let closed = others.len() == 2 && others[0] == others[1];
            let alone = |label: Label| {
                graph.degree(label) == 2 && graph.weights[label].is_empty() && !term.output.contains(&label)
            };
            graph.degree(**label) == 2 && !graph.has_loop(**label) && (!closed || alone(others[0]))
        };
        if let Some(label) = left.iter().find(joins).copied() {
            let place = graph.edges.iter().position(|edge| edge.from == label || edge.to == label)?;
            let first = graph.edges.remove(place);
            let place = graph.edges.iter().position(|edge| edge.from == label || edge.to == label)?;
            let second = graph.edges.remove(place);
            let first = if first.to == label { first } else { self.turned(first) };
            let second = if second.from == label { second } else { self.turned(second) };
            let weights = std::mem::take(&mut graph.weights[label]);
            let middle = if weights.is_empty() { Vec::new() } else { vec![self.diagonal(weights)] };
            let chain = [first.chain, middle, second.chain].concat();
            graph.edges.push(Edge { from: first.from, to: second.to, chain });
            return Some(());
        }
        if let Some(place) = graph.edges.iter().position(|edge| edge.from == edge.to) {
            let edge = graph.edges.remove(place);
            let alone = graph.degree(edge.from) == 0 && graph.weights[edge.from].is_empty();
            let whole = self.chained(edge.chain);
            match alone && left.contains(&edge.from) {
                true => {
                    let trace = self.push(Syntax::Function(Function::Trace, whole));
                    graph.scalars.push((trace, 1));
                }
                false => {
                    let diagonal = self.push(Syntax::Function(Function::Diagonal, whole));
                    graph.weights[edge.from].push(Weight { chain: vec![diagonal], exponent: 1 });
                }
            }
            return Some(());
        }
        // Edges between the same labels are multiplied element by element.
        let parallel = |one: &Edge, other: &Edge| {
            (one.from, one.to) == (other.from, other.to) || (one.from, one.to) == (other.to, other.from)
        };
        let count = graph.edges.len();
        let pair = (0..count)
            .flat_map(|one| (one + 1..count).map(move |other| (one, other)))
            .find(|(one, other)| parallel(&graph.edges[*one], &graph.edges[*other]))?;
        let second = graph.edges.remove(pair.1);
        let first = graph.edges.remove(pair.0);
        let second = if second.from == first.from { second } else { self.turned(second) };
        let (one, other) = (self.chained(first.chain), self.chained(second.chain));
        let chain = vec![self.binary(Operator::Times, one, other)];
        graph.edges.push(Edge { from: first.from, to: first.to, chain });
        Some(())
    }

    /// What stands on the labels of the output, as a product.
    pub(super) fn on_free_labels(&mut self, graph: &mut LabelGraph, term: &Term) -> Option<Vec<NodeId>> {
        for label in 0..term.extents.len() {
            while let Some(place) = graph.edges.iter().position(|edge| edge.from == label && edge.to == label) {
                let whole = graph.edges.remove(place).chain;
                let whole = self.chained(whole);
                let diagonal = self.push(Syntax::Function(Function::Diagonal, whole));
                graph.weights[label].push(Weight { chain: vec![diagonal], exponent: 1 });
            }
        }
        let mut weights = |label: Label| std::mem::take(&mut graph.weights[label]);
        match term.output[..] {
            [] => Some(Vec::new()),
            [label] => {
                let weights = weights(label);
                Some(self.vector(weights, term.extents[label]))
            }
            [row, column] if row == column => {
                let weights = weights(row);
                Some(vec![match weights.is_empty() {
                    true => {
                        let size = self.size(term.extents[row]);
                        self.push(Syntax::Constant(Constant::Eye, vec![size]))
                    }
                    false => self.diagonal(weights),
                }])
            }
            [row, column] => {
                let (rows, columns) = (weights(row), weights(column));
                let edges = std::mem::take(&mut graph.edges);
                if edges.is_empty() {
                    if rows.is_empty() && columns.is_empty() {
                        return Some(vec![self.constant(&[term.extents[row], term.extents[column]], 1.0)]);
                    }
                    let left = self.vector(rows, term.extents[row]);
                    let right = self.vector(columns, term.extents[column]);
                    return Some([left, self.on_its_side(right)].concat());
                }
                let mut oriented: Vec<Vec<NodeId>> = Vec::new();
                for edge in edges {
                    oriented.push(if edge.from == row { edge.chain } else { self.turned(edge).chain });
                }
                let middle = match oriented.len() {
                    1 => oriented.remove(0),
                    _ => {
                        let mut whole: Option<NodeId> = None;
                        for chain in oriented {
                            let own = self.chained(chain);
                            whole = Some(whole.map_or(own, |whole| self.binary(Operator::Times, whole, own)));
                        }
                        vec![whole?]
                    }
                };
                let left = if rows.is_empty() { Vec::new() } else { vec![self.diagonal(rows)] };
                let right = if columns.is_empty() { Vec::new() } else { vec![self.diagonal(columns)] };
                Some([left, middle, right].concat())
            }
            _ => None,
        }
    }
}
