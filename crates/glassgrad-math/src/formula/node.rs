//! A formula as data.

use std::fmt;

use super::symbol::Symbol;
use crate::algebra::Literal;
use crate::hashing::{Fingerprint, Structure};
use crate::ops::{Algebra, Operation, Relation};

/// One node of a formula. Numbers refer to earlier nodes.
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
    pub fn renumbered(self, number: impl Fn(usize) -> usize) -> Node {
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

/// A formula of some inputs: a list of nodes, and which of them are its results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Formula {
    /// The nodes, operands before what uses them.
    pub nodes: Vec<Node>,
    /// The nodes of the results.
    pub outputs: Vec<usize>,
}

/// The first result as people would type it, with inputs x, y, z, x3, …
impl fmt::Display for Formula {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 200;
        let name = |node: usize| match self.nodes[node] {
            Node::Variable(variable) => {
                Some(["x", "y", "z"].get(variable).map_or_else(|| format!("x{variable}"), |name| (*name).to_owned()))
            }
            _ => None,
        };
        let written = self.outputs.first().and_then(|root| match name(*root) {
            Some(name) => Some(name),
            None => super::print::write_node(&self.nodes, *root, LONGEST, name),
        });
        match written {
            Some(text) => formatter.write_str(&text),
            None => write!(formatter, "a formula of {} nodes", self.nodes.len()),
        }
    }
}

impl Formula {
    /// Evaluates all results.
    pub fn evaluate<T: Algebra>(&self, inputs: &[T]) -> Vec<T> {
        let numbers = self.evaluate_all(inputs);
        self.outputs.iter().map(|output| numbers[*output]).collect()
    }

    /// Evaluates every node.
    ///
    /// # Panics
    /// If a variable has no input.
    pub fn evaluate_all<T: Algebra>(&self, inputs: &[T]) -> Vec<T> {
        let mut numbers: Vec<T> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let number = match *node {
                Node::Number(number) => T::literal(number),
                Node::Variable(variable) => inputs[variable],
                // The constructors of formulas pair operations with their arity.
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

    /// The results and their symbolic derivatives with respect to one input, as formulas of symbols.
    ///
    /// It applies the rules of the table to symbols, node by node: symbolic differentiation is forward
    /// mode in the algebra of symbols.
    pub fn derivative<'s>(&self, inputs: &[Symbol<'s>], input: usize) -> Vec<(Symbol<'s>, Symbol<'s>)> {
        let values = self.evaluate_all(inputs);
        let mut tangents: Vec<Symbol<'s>> = Vec::with_capacity(values.len());
        let zero = Symbol::literal(0.0);
        // A zero tangent contributes nothing, also where the derivative is NaN (strong zero).
        let strong = |derivative: Symbol<'s>, tangent: Symbol<'s>| {
            if tangent.is_number(0.0) { zero } else { derivative * tangent }
        };
        for (index, node) in self.nodes.iter().enumerate() {
            tangents.push(match *node {
                Node::Number(_) => zero,
                Node::Variable(variable) => Symbol::literal(if variable == input { 1.0 } else { 0.0 }),
                Node::Unary(operation, x, parameter) => {
                    let derivative = operation.derivative(values[x], values[index], parameter).unwrap_or(zero);
                    strong(derivative, tangents[x])
                }
                Node::Binary(operation, a, b) => {
                    let [first, second] = operation.partials(values[a], values[b], values[index]).unwrap_or([zero; 2]);
                    strong(first, tangents[a]) + strong(second, tangents[b])
                }
                Node::Choose(left, relation, right, taken, otherwise) => Symbol::select(
                    values[left].compare(relation, values[right]),
                    || tangents[taken],
                    || tangents[otherwise],
                ),
            });
        }
        self.outputs.iter().map(|output| (values[*output], tangents[*output])).collect()
    }

    /// The formula without nodes that no result needs.
    pub fn trimmed(&self) -> Formula {
        let mut needed = vec![false; self.nodes.len()];
        self.outputs.iter().for_each(|output| needed[*output] = true);
        for index in (0..self.nodes.len()).rev() {
            if needed[index] {
                self.nodes[index].operands().for_each(|operand| needed[operand] = true);
            }
        }
        let mut place = Vec::with_capacity(self.nodes.len());
        let mut nodes = Vec::new();
        for (node, needed) in self.nodes.iter().zip(&needed) {
            place.push(nodes.len());
            if *needed {
                nodes.push(node.renumbered(|operand| place[operand]));
            }
        }
        Formula { nodes, outputs: self.outputs.iter().map(|output| place[*output]).collect() }
    }
}

impl Structure for Formula {
    fn mix_into(&self, fingerprint: &mut Fingerprint) {
        fingerprint.word(self.nodes.len() as u64);
        for node in &self.nodes {
            match *node {
                Node::Number(number) => {
                    fingerprint.word(1);
                    fingerprint.word(number.to_bits());
                }
                Node::Variable(variable) => {
                    fingerprint.word(2);
                    fingerprint.word(variable as u64);
                }
                Node::Unary(operation, x, parameter) => {
                    fingerprint.word(3 | (operation as u64) << 8);
                    fingerprint.word(x as u64);
                    fingerprint.word(parameter.to_bits());
                }
                Node::Binary(operation, a, b) => {
                    fingerprint.word(4 | (operation as u64) << 8);
                    fingerprint.words(&[a, b]);
                }
                Node::Choose(left, relation, right, taken, otherwise) => {
                    fingerprint.word(5 | (relation as u64) << 8);
                    fingerprint.words(&[left, right, taken, otherwise]);
                }
            }
        }
        fingerprint.words(&self.outputs);
    }
}
