//! Formulas as an algebra.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

use super::node::{Formula, Node};
use super::print::write_node;
use crate::algebra::Literal;
use crate::ops::{Algebra, Binary, Operation, Relation, Unary, rule};

/// Formulas longer than this are not written out.
const LONGEST_FORMULA: usize = 100_000;

/// The list of nodes that symbols refer to. Equal formulas share a node.
#[derive(Debug, Default)]
pub struct Symbols {
    nodes: RefCell<Vec<Node>>,
    known: RefCell<HashMap<Key, usize>>,
    names: RefCell<Vec<String>>,
    conditions: RefCell<Vec<Condition>>,
}

/// A node with its numbers as bits, so that it can be looked up.
type Key = (u8, u8, [u64; 4]);

#[derive(Clone, Copy, Debug)]
enum Condition {
    Comparison(usize, Relation, usize),
    And(usize, usize),
    Or(usize, usize),
    Not(usize),
}

impl Symbols {
    /// An empty list.
    pub fn new() -> Self {
        Symbols::default()
    }

    /// A variable of this name.
    pub fn variable(&self, name: &str) -> Symbol<'_> {
        let mut names = self.names.borrow_mut();
        let variable = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        self.intern(Node::Variable(variable))
    }

    fn node(&self, index: usize) -> Node {
        self.nodes.borrow()[index]
    }

    fn intern(&self, node: Node) -> Symbol<'_> {
        let key: Key = match node {
            Node::Number(value) => (0, 0, [value.to_bits(), 0, 0, 0]),
            Node::Variable(variable) => (1, 0, [variable as u64, 0, 0, 0]),
            Node::Unary(operation, x, parameter) => (2, operation as u8, [x as u64, parameter.to_bits(), 0, 0]),
            Node::Binary(operation, a, b) => (3, operation as u8, [a as u64, b as u64, 0, 0]),
            Node::Choose(left, relation, right, taken, otherwise) => {
                (4, relation as u8, [left as u64, right as u64, taken as u64, otherwise as u64])
            }
        };
        let index = *self.known.borrow_mut().entry(key).or_insert_with(|| {
            self.nodes.borrow_mut().push(node);
            self.nodes.borrow().len() - 1
        });
        Symbol(Content::Node(self, index))
    }

    fn condition(&self, condition: Condition) -> Mask<'_> {
        self.conditions.borrow_mut().push(condition);
        Mask::Open(self, self.conditions.borrow().len() - 1)
    }

    fn choose(&self, condition: usize, taken: Symbol<'_>, otherwise: Symbol<'_>) -> Symbol<'_> {
        let found = self.conditions.borrow()[condition];
        match found {
            Condition::Comparison(left, relation, right) => {
                let node = Node::Choose(left, relation, right, taken.index_in(self), otherwise.index_in(self));
                self.intern(node)
            }
            Condition::And(first, second) => {
                let inner = self.choose(second, taken, otherwise);
                self.choose(first, inner, self.adopt(otherwise))
            }
            Condition::Or(first, second) => {
                let inner = self.choose(second, taken, otherwise);
                self.choose(first, self.adopt(taken), inner)
            }
            Condition::Not(condition) => self.choose(condition, otherwise, taken),
        }
    }

    fn adopt(&self, symbol: Symbol<'_>) -> Symbol<'_> {
        Symbol(Content::Node(self, symbol.index_in(self)))
    }
}

/// A formula: a number, or a node of a list of [`Symbols`].
///
/// Building one simplifies it a little (constants fold, neutral elements vanish), so that
/// derivatives stay readable.
///
/// ```
/// use glassgrad::Algebra;
/// use glassgrad::formula::Symbols;
/// let symbols = Symbols::new();
/// let x = symbols.variable("x");
/// assert_eq!((x * x.sin()).to_string(), "x * sin(x)");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Symbol<'s>(Content<'s>);

#[derive(Clone, Copy, Debug)]
enum Content<'s> {
    Number(f64),
    Node(&'s Symbols, usize),
}

/// A condition on formulas, open or already decided.
#[derive(Clone, Copy, Debug)]
pub enum Mask<'s> {
    /// Decided, because it compares numbers.
    Decided(bool),
    /// A condition of the list.
    Open(&'s Symbols, usize),
}

impl<'s> Symbol<'s> {
    fn index_in(self, symbols: &Symbols) -> usize {
        match self.0 {
            Content::Number(value) => match symbols.intern(Node::Number(value)).0 {
                Content::Node(_, index) => index,
                Content::Number(_) => unreachable!("interning gives a node"),
            },
            Content::Node(_, index) => index,
        }
    }

    /// The number, if the formula is one.
    pub fn as_number(self) -> Option<f64> {
        match self.0 {
            Content::Number(value) => Some(value),
            Content::Node(..) => None,
        }
    }

    pub(super) fn is_number(self, value: f64) -> bool {
        self.as_number() == Some(value)
    }

    fn symbols(self, other: Self) -> Option<&'s Symbols> {
        match (self.0, other.0) {
            (Content::Node(symbols, _), _) | (_, Content::Node(symbols, _)) => Some(symbols),
            _ => None,
        }
    }

    /// How many operations the formula has when shared parts are counted once.
    pub fn operations_shared(self) -> usize {
        let Content::Node(symbols, root) = self.0 else { return 0 };
        let nodes = symbols.nodes.borrow();
        let mut needed = vec![false; root + 1];
        needed[root] = true;
        for index in (0..=root).rev().filter(|index| *index <= root) {
            if needed[index] {
                nodes[index].operands().for_each(|operand| needed[operand] = true);
            }
        }
        needed.iter().zip(nodes.iter()).filter(|(needed, node)| **needed && node.operands().next().is_some()).count()
    }

    /// How many operations the formula has when it is written out in full, as a formula on paper
    /// is. A float, because this grows exponentially.
    pub fn operations_written_out(self) -> f64 {
        let Content::Node(symbols, root) = self.0 else { return 0.0 };
        let nodes = symbols.nodes.borrow();
        let mut sizes = vec![0.0; root + 1];
        for index in 0..=root {
            let operands: f64 = nodes[index].operands().map(|operand| sizes[operand]).sum();
            sizes[index] = operands + f64::from(u8::from(nodes[index].operands().next().is_some()));
        }
        sizes[root]
    }

    /// The value of the formula at numbers for its variables, in their order of creation.
    pub fn evaluate(self, inputs: &[f64]) -> f64 {
        match self.0 {
            Content::Number(value) => value,
            Content::Node(..) => self.to_formula().map_or(f64::NAN, |formula| formula.evaluate(inputs)[0]),
        }
    }

    /// The formula as data, which can be evaluated and differentiated again; a number is none.
    pub fn to_formula(self) -> Option<Formula> {
        let Content::Node(symbols, root) = self.0 else { return None };
        Some(Formula { nodes: symbols.nodes.borrow()[..=root].to_vec(), outputs: vec![root] })
    }
}

/// The formula in the expression language, or its size if it is too long to be read.
impl std::fmt::Display for Symbol<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Content::Number(value) => formatter.write_str(&super::number(value)),
            Content::Node(symbols, root) => {
                let nodes = symbols.nodes.borrow();
                let name = |index: usize| match nodes[index] {
                    Node::Variable(variable) => Some(symbols.names.borrow()[variable].clone()),
                    _ => None,
                };
                match write_node(&nodes, root, LONGEST_FORMULA, name) {
                    Some(text) if matches!(nodes[root], Node::Variable(_)) => {
                        formatter.write_str(&name(root).unwrap_or(text))
                    }
                    Some(text) => formatter.write_str(&text),
                    None => write!(formatter, "(a formula of {:.3e} operations)", self.operations_written_out()),
                }
            }
        }
    }
}

impl Literal for Symbol<'_> {
    fn literal(value: f64) -> Self {
        Symbol(Content::Number(value))
    }
}

impl<'s> Algebra for Symbol<'s> {
    type Mask = Mask<'s>;

    fn unary<R: Unary>(self, parameter: f64) -> Self {
        match self.0 {
            Content::Number(value) => Symbol(Content::Number(R::value(value, parameter))),
            Content::Node(symbols, index) => match (R::OPERATION, parameter) {
                (Operation::Powi | Operation::Powf, 0.0) => Symbol::literal(1.0),
                (Operation::Powi | Operation::Powf, 1.0) => self,
                (Operation::Neg, _) => match symbols.node(index) {
                    Node::Unary(Operation::Neg, inner, _) => Symbol(Content::Node(symbols, inner)),
                    _ => symbols.intern(Node::Unary(Operation::Neg, index, 0.0)),
                },
                (operation, _) => symbols.intern(Node::Unary(operation, index, parameter)),
            },
        }
    }

    fn binary<R: Binary>(self, other: Self) -> Self {
        let Some(symbols) = self.symbols(other) else {
            let (a, b) = (self.as_number().unwrap_or(f64::NAN), other.as_number().unwrap_or(f64::NAN));
            return Symbol(Content::Number(R::value(a, b)));
        };
        match R::OPERATION {
            Operation::Add if self.is_number(0.0) => other,
            Operation::Add | Operation::Sub if other.is_number(0.0) => self,
            Operation::Sub if self.is_number(0.0) => -other,
            Operation::Mul if self.is_number(0.0) || other.is_number(0.0) => Symbol::literal(0.0),
            Operation::Mul if self.is_number(1.0) => other,
            Operation::Mul if self.is_number(-1.0) => -other,
            Operation::Mul if other.is_number(-1.0) => -self,
            Operation::Mul | Operation::Div | Operation::Pow if other.is_number(1.0) => self,
            Operation::Div if self.is_number(0.0) => Symbol::literal(0.0),
            operation => symbols.intern(Node::Binary(operation, self.index_in(symbols), other.index_in(symbols))),
        }
    }

    fn compare(self, relation: Relation, other: Self) -> Mask<'s> {
        match self.symbols(other) {
            Some(symbols) => {
                symbols.condition(Condition::Comparison(self.index_in(symbols), relation, other.index_in(symbols)))
            }
            None => Mask::Decided(relation.holds(self.as_number(), other.as_number())),
        }
    }

    fn select(mask: Mask<'s>, taken: impl FnOnce() -> Self, otherwise: impl FnOnce() -> Self) -> Self {
        match mask {
            Mask::Decided(true) => taken(),
            Mask::Decided(false) => otherwise(),
            Mask::Open(symbols, condition) => {
                let (taken, otherwise) = (taken(), otherwise());
                if taken.as_number().is_some() && taken.as_number() == otherwise.as_number() {
                    return taken;
                }
                let chosen = symbols.choose(condition, taken, otherwise).index_in(symbols);
                Symbol(Content::Node(symbols, chosen))
            }
        }
    }
}

macro_rules! symbol_operators {
    ($($Trait:ident $method:ident),*) => {$(
        impl $Trait for Symbol<'_> {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                self.binary::<rule::$Trait>(other)
            }
        }
    )*};
}
symbol_operators!(Add add, Sub sub, Mul mul, Div div);

impl Neg for Symbol<'_> {
    type Output = Self;
    fn neg(self) -> Self {
        self.unary::<rule::Neg>(0.0)
    }
}

impl<'s> Mask<'s> {
    fn combine(
        self,
        other: Self,
        decide: impl Fn(bool, bool) -> bool,
        condition: impl Fn(usize, usize) -> Condition,
        neutral: bool,
    ) -> Self {
        match (self, other) {
            (Mask::Decided(a), Mask::Decided(b)) => Mask::Decided(decide(a, b)),
            (Mask::Decided(a), open) | (open, Mask::Decided(a)) => {
                if a == neutral {
                    open
                } else {
                    Mask::Decided(a)
                }
            }
            (Mask::Open(symbols, a), Mask::Open(_, b)) => symbols.condition(condition(a, b)),
        }
    }
}

impl BitAnd for Mask<'_> {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        self.combine(other, |a, b| a & b, Condition::And, true)
    }
}

impl BitOr for Mask<'_> {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.combine(other, |a, b| a | b, Condition::Or, false)
    }
}

impl Not for Mask<'_> {
    type Output = Self;
    fn not(self) -> Self {
        match self {
            Mask::Decided(outcome) => Mask::Decided(!outcome),
            Mask::Open(symbols, condition) => symbols.condition(Condition::Not(condition)),
        }
    }
}
