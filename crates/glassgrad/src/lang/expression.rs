//! A program as data: a formula, the text that it was read from, and the names that it gives.

use crate::formula::{Formula, Symbol, Symbols};
use crate::ops::Algebra;
use crate::sorting::IndirectSort;

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
    pub(super) formula: Formula,
    pub(super) spans: Vec<Span>,
    pub(super) names: Vec<Option<String>>,
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

    /// The program as a formula: operands before what uses them, nodes of one height side by side.
    pub fn formula(&self) -> &Formula {
        &self.formula
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
        &self.formula.outputs
    }

    /// The program with only one of its results, counted from 0, if it has that many.
    ///
    /// ```
    /// use glassgrad::lang::parse;
    /// let both = parse("x + 1; x^2").unwrap();
    /// assert_eq!(both.result(1).map(|square| square.evaluate(&[3.0])), Some(vec![9.0]));
    /// assert!(both.result(2).is_none());
    /// ```
    pub fn result(&self, number: usize) -> Option<Expression> {
        let output = *self.formula.outputs.get(number)?;
        let formula = Formula { outputs: vec![output], ..self.formula.clone() };
        Some(Expression { formula, ..self.clone() })
    }

    /// Evaluates all results. There must be one input for each variable.
    pub fn evaluate<T: Algebra>(&self, inputs: &[T]) -> Vec<T> {
        self.formula.evaluate(inputs)
    }

    /// The first result and its symbolic derivative with respect to one variable, as formulas.
    ///
    /// ```
    /// use glassgrad::formula::Symbols;
    /// use glassgrad::lang::parse;
    /// let symbols = Symbols::new();
    /// let (_, derivative) = parse("ln(x) + x*y").unwrap().derivative(0, &symbols);
    /// assert_eq!(derivative.to_string(), "1 / x + y");
    /// ```
    pub fn derivative<'s>(&self, variable: usize, symbols: &'s Symbols) -> (Symbol<'s>, Symbol<'s>) {
        let inputs: Vec<Symbol<'s>> = self.variables.iter().map(|name| symbols.variable(name)).collect();
        self.formula.derivative(&inputs, variable)[0]
    }

    /// Orders the nodes by height, so that they are numbered as in a picture: first the inputs, then
    /// what is computed from inputs alone, and so on.
    pub(super) fn ordered_by_height(mut self) -> Expression {
        let mut heights: Vec<usize> = Vec::with_capacity(self.formula.nodes.len());
        for node in &self.formula.nodes {
            heights.push(node.operands().map(|operand| heights[operand] + 1).max().unwrap_or(0));
        }
        let mut order: Vec<usize> = (0..self.formula.nodes.len()).collect();
        order.indirect_sort_by_key(|node| heights[*node]);
        let mut place = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old] = new;
        }
        self.formula.nodes =
            order.iter().map(|old| self.formula.nodes[*old].renumbered(|operand| place[operand])).collect();
        self.spans = order.iter().map(|old| self.spans[*old]).collect();
        self.names = order.iter().map(|old| self.names[*old].take()).collect();
        self.formula.outputs = self.formula.outputs.iter().map(|old| place[*old]).collect();
        self
    }
}
