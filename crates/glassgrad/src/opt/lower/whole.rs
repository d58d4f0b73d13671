//! What works on whole arrays: single operations, and loops over time with a program as their body.

use std::sync::Arc;

use super::groups::{Group, SweptBack};
use super::{Located, Lowering, lower};
use crate::expr::Op;
use crate::few::Few;
use crate::opt::graph::{Graph, GraphNode};
use crate::opt::passes::dead;

impl<'g> Lowering<'g> {
    /// An operation on whole arrays.
    pub(super) fn call(&mut self, number: usize) -> Located {
        let graph: &'g Graph = self.graph;
        let node = &graph.nodes[number];
        let mut inputs = Vec::new();
        for input in &node.inputs {
            let shape = &graph.nodes[*input].shape;
            let at = self.at(*input);
            inputs.push((self.in_rows(&at, shape), shape.clone()));
        }
        let producer = self.produce(node.dtype, node.shape.elements());
        self.group_of(producer, Group::Call { node: number, inputs, producer });
        Located::whole(producer, &node.shape)
    }

    pub(super) fn repeat(&mut self, number: usize) -> Located {
        let graph: &'g Graph = self.graph;
        let node = &graph.nodes[number];
        let (Some(scan), Some(body)) = (node.op.body(), &node.body) else { return self.call(number) };
        let mut inputs = Vec::new();
        for input in &node.inputs {
            let at = self.at(*input);
            inputs.push(self.in_rows(&at, &graph.nodes[*input].shape));
        }
        // A sweep has a program for each direction.
        let (body_program, sweep) = match &node.op {
            Op::Sweep(sweep) => {
                let part = |results: &[usize]| lower(&dead(Graph { results: results.to_vec(), ..Graph::clone(body) }));
                let (forwards, back) = body.results.split_at(sweep.states);
                let reverse = Arc::new(part(back));
                (part(forwards), Some(SweptBack { reverse, states: sweep.states, snapshots: sweep.snapshots }))
            }
            _ => (lower(body), None),
        };
        let producers: Vec<usize> = body
            .results
            .iter()
            .enumerate()
            .map(|(part, result)| {
                let GraphNode { shape, dtype, .. } = &body.nodes[*result];
                let stacked = if part < scan.carried.len() { 1 } else { scan.length };
                self.produce(*dtype, shape.elements().saturating_mul(stacked))
            })
            .collect();
        for (part, producer) in producers.iter().enumerate() {
            self.producers[*producer].group = self.groups.len();
            // A sweep has no other place for what it stacks.
            self.producers[*producer].needed = sweep.is_some() && part >= scan.carried.len();
        }
        self.works(self.groups.len());
        self.groups.push(Group::Repeat {
            node: number,
            length: scan.length,
            carried: scan.carried.iter().map(|carry| (carry.shape().clone(), carry.dtype())).collect(),
            sequences: scan.entries.len(),
            body: Arc::new(body_program),
            sweep,
            inputs,
            producers: producers.clone(),
        });
        self.parts.insert(number, producers);
        Located { producer: 0, offset: 0, strides: Few::new() }
    }
}
