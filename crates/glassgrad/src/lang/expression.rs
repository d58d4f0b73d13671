//! A program as data: a flat list of nodes in which operands stand before what uses them.

use crate::ops::{Algebra, Operation, Relation};

/// A range of bytes in the source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The smallest span that covers two.
    pub fn cover(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// One node of a program. Numbers refer to earlier nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Node {
    /// A literal number.
    Number(f64),
    /// An input, by its number.
    Variable(usize),
    /// An operation of one argument, with its parameter.
    Unary(Operation, usize, f64),
    /// An operation of two arguments.
    Binary(Operation, usize, usize),
    /// A choice by a comparison: left, relation, right, the node taken if it holds, the other one.
    Choose(usize, Relation, usize, usize, usize),
}

impl Node {
    /// The nodes that this one uses.
    pub fn operands(&self) -> impl Iterator<Item = usize> + use<> {
        let operands: [Option<usize>; 4] = match *self {
            Node::Number(_) | Node::Variable(_) => [None; 4],
            Node::Unary(_, argument, _) => [Some(argument), None, None, None],
            Node::Binary(_, first, second) => [Some(first), Some(second), None, None],
            Node::Choose(left, _, right, taken, otherwise) => [Some(left), Some(right), Some(taken), Some(otherwise)],
        };
        operands.into_iter().flatten()
    }

    /// The same node with its operands renumbered.
    pub(super) fn renumbered(self, number: impl Fn(usize) -> usize) -> Node {
        match self {
            Node::Number(_) | Node::Variable(_) => self,
            Node::Unary(operation, argument, parameter) => Node::Unary(operation, number(argument), parameter),
            Node::Binary(operation, first, second) => Node::Binary(operation, number(first), number(second)),
            Node::Choose(left, relation, right, taken, otherwise) => {
                Node::Choose(number(left), relation, number(right), number(taken), number(otherwise))
            }
        }
    }
}

/// A program read from text, ready to be evaluated in any [`Algebra`].
///
/// ```
/// use glassgrad::lang::parse;
/// use glassgrad::scalar::gradient;
/// let f = parse("ln(x1) + x1*x2 - sin(x2)").unwrap();
/// assert_eq!(f.variables(), ["x1", "x2"]);
/// assert_eq!(f.evaluate(&[1.0, 0.0])[0], 0.0);
/// assert_eq!(gradient(|x| f.evaluate(x)[0], &[2.0, 5.0])[0], 5.5);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    pub(super) source: String,
    pub(super) variables: Vec<String>,
    pub(super) nodes: Vec<Node>,
    pub(super) spans: Vec<Span>,
    pub(super) names: Vec<Option<String>>,
    pub(super) outputs: Vec<usize>,
}

impl Expression {
    /// The text that was read.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The names of the inputs, in the order of their first appearance.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// The nodes: operands before what uses them, and nodes of one height next to one another.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Where a node stands in the text.
    pub fn span(&self, node: usize) -> Span {
        self.spans[node]
    }

    /// The name that the program gives a node.
    pub fn name(&self, node: usize) -> Option<&str> {
        self.names[node].as_deref()
    }

    /// The nodes of the results.
    pub fn outputs(&self) -> &[usize] {
        &self.outputs
    }

    /// Evaluates all results. There must be one input for each variable.
    pub fn evaluate<T: Algebra>(&self, inputs: &[T]) -> Vec<T> {
        let numbers = self.evaluate_all(inputs);
        self.outputs.iter().map(|output| numbers[*output]).collect()
    }

    /// Evaluates every node. There must be one input for each variable.
    ///
    /// # Panics
    /// If there are fewer inputs than variables.
    pub fn evaluate_all<T: Algebra>(&self, inputs: &[T]) -> Vec<T> {
        assert!(inputs.len() >= self.variables.len(), "{} inputs for {} variables", inputs.len(), self.variables.len());
        let mut numbers: Vec<T> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let number = match *node {
                Node::Number(number) => T::literal(number),
                Node::Variable(variable) => inputs[variable],
                // The parser pairs operations with their number of arguments.
                Node::Unary(operation, argument, parameter) => {
                    operation.apply_unary(numbers[argument], parameter).unwrap_or(numbers[argument])
                }
                Node::Binary(operation, first, second) => {
                    operation.apply_binary(numbers[first], numbers[second]).unwrap_or(numbers[first])
                }
                Node::Choose(left, relation, right, taken, otherwise) => {
                    T::choose(numbers[left], relation, numbers[right], numbers[taken], numbers[otherwise])
                }
            };
            numbers.push(number);
        }
        numbers
    }

    /// A program without text, with one result.
    pub(super) fn from_nodes(nodes: Vec<Node>, variables: Vec<String>, output: usize) -> Expression {
        let count = nodes.len();
        Expression {
            source: String::new(),
            variables,
            nodes,
            spans: vec![Span { start: 0, end: 0 }; count],
            names: vec![None; count],
            outputs: vec![output],
        }
    }

    /// Orders the nodes by height, so that they are numbered as in a picture: first the inputs, then
    /// what is computed from inputs alone, and so on.
    pub(super) fn ordered_by_height(mut self) -> Expression {
        let mut heights: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            heights.push(node.operands().map(|operand| heights[operand] + 1).max().unwrap_or(0));
        }
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|node| heights[*node]);
        let mut place = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old] = new;
        }
        self.nodes = order.iter().map(|old| self.nodes[*old].renumbered(|operand| place[operand])).collect();
        self.spans = order.iter().map(|old| self.spans[*old]).collect();
        self.names = order.iter().map(|old| self.names[*old].take()).collect();
        self.outputs = self.outputs.iter().map(|old| place[*old]).collect();
        self
    }
}
