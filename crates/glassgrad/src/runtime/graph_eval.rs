//! Graphs captured from tensors, and evaluated: for tests, tools and inspection.

use std::collections::HashMap;
use std::panic::Location;

use super::context::Context;
use super::schedule::capture;
use crate::array::Array;
use crate::error::Error;
use crate::exec::{Input, Output, Results};
use crate::expr::{Op, Tensor};
use crate::opt::graph::{Graph, GraphNode};
use crate::opt::passes::verify;

impl Graph {
    /// The graph of some tensors before any pass, and the values of its inputs. Results
    /// are in the order of the tensors.
    ///
    /// ```
    /// use glassgrad::{Tensor, opt::graph::Graph};
    /// let x = Tensor::from([1.0, 2.0]);
    /// let (graph, inputs) = Graph::of(&[&x.exp().sum()]).unwrap();
    /// assert_eq!(graph.to_string(), "%0 = leaf() : f64[2]\n%1 = exp(x)(%0) : f64[2]\n%2 = einsum i->(%1) : f64[]  result\n");
    /// assert_eq!(inputs[0].to_string(), "[1, 2]");
    /// ```
    #[track_caller]
    pub fn of(tensors: &[&Tensor]) -> Result<(Graph, Vec<Array>), Error> {
        let extract = capture(tensors)?;
        let mut graph = extract.graph();
        let part = |(node, (array, start)): (&usize, (&Array, usize))| {
            let shape = graph.nodes[*node].shape.clone();
            let places = (start..start + shape.elements()).map(Some);
            Array::new(shape, array.buffer().pick(places))
        };
        let mut values: Vec<Array> = graph.inputs.iter().zip(extract.known_leaves()?).map(part).collect();
        let mut places: HashMap<u64, usize> =
            extract.results().map(|node| node.id).zip(graph.results.iter().copied()).collect();
        graph.results.clear();
        for tensor in tensors {
            // What has a value already is an input, and nothing is to be done for it.
            if let (None, Some(value)) = (places.get(&tensor.0.id), tensor.0.value()) {
                let (shape, dtype) = (tensor.shape().clone(), tensor.dtype());
                let node = GraphNode { op: Op::Leaf, inputs: Vec::new(), shape, dtype, source: 0, multi: None };
                let number = graph.push(node);
                graph.inputs.push(number);
                values.push(value.clone());
                places.insert(tensor.0.id, number);
            }
            let missing = || Error::new("graph", "a tensor was released while its graph was captured");
            graph.results.push(*places.get(&tensor.0.id).ok_or_else(missing)?);
        }
        Ok((graph, values))
    }

    /// The results of this graph as it is, without any pass, at some values of its inputs. A graph that is not
    /// legal and inputs that do not fit are errors.
    ///
    /// ```
    /// use glassgrad::{Tensor, opt::graph::Graph, opt::passes::optimise};
    /// let (graph, inputs) = Graph::of(&[&(Tensor::from([1.0, 2.0]) * 3.0).sum()]).unwrap();
    /// assert_eq!(graph.run(&inputs).unwrap()[0].to_string(), "9");
    /// assert_eq!(optimise(graph).run(&inputs).unwrap()[0].to_string(), "9");
    /// ```
    #[track_caller]
    pub fn run(&self, inputs: &[Array]) -> Result<Vec<Array>, Error> {
        let here = Location::caller();
        verify(self).map_err(|illegal| Error::new("run", illegal.to_string()).at(here))?;
        let signature = |node: &usize| (self.nodes[*node].shape.clone(), self.nodes[*node].dtype);
        let given = inputs.iter().map(|input| (input.shape().clone(), input.dtype()));
        if !self.inputs.iter().map(signature).eq(given) {
            return Err(Error::new("run", "the inputs do not have the shapes and types of the graph's").at(here));
        }
        let plan = Context::current().prepare(self)?;
        let mut inputs: Vec<Input<'_>> = inputs.iter().map(|input| Input::Read(input, 0)).collect();
        let mut outputs: Vec<Output<'_>> = self.results.iter().map(|_| Output::New).collect();
        let mut results = Results::new();
        let sources = self.nodes.iter().map(|node| node.source).max().map_or(0, |last| last + 1);
        plan.launch(&mut inputs, &mut outputs, &mut results, &vec![here; sources])?;
        Ok(results.into_iter().flatten().collect())
    }
}
