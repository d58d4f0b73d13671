//! What works on whole arrays: single operations, and loops over time with a program as their body.

use std::sync::Arc;

use super::groups::Group;
use super::{Located, Lowering, lower};
use crate::expr::Op;
use crate::opt::few::Few;
use crate::opt::graph::Graph;

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
        let (Op::Scan(scan), Some(body)) = (&node.op, &node.body) else { return self.call(number) };
        let mut inputs = Vec::new();
        for input in &node.inputs {
            let at = self.at(*input);
            inputs.push(self.in_rows(&at, &graph.nodes[*input].shape));
        }
        let body_program = lower(body);
        let producers: Vec<usize> = body_program
            .results
            .iter()
            .enumerate()
            .map(|(part, (shape, dtype))| {
                let stacked = if part < scan.carries.len() { 1 } else { scan.length };
                self.produce(*dtype, shape.elements().saturating_mul(stacked))
            })
            .collect();
        for producer in &producers {
            self.producers[*producer].group = self.groups.len();
        }
        self.groups.push(Group::Repeat {
            node: number,
            length: scan.length,
            carries: scan.carries.len(),
            sequences: scan.entries.len(),
            body: Arc::new(body_program),
            inputs,
            producers: producers.clone(),
        });
        self.parts.insert(number, producers);
        Located { producer: 0, offset: 0, strides: Few::new() }
    }
}
