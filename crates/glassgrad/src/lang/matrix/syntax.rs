//! A matrix expression as data: a list of parts in which operands stand before what uses them.

use super::types::Type;
use crate::lang::Span;
use crate::ops::{Operation, Relation};

/// The tallest expression that is read: operations on top of operations.
pub const MAXIMUM_HEIGHT: usize = 300;

/// The deepest nesting of parentheses, signs and powers that is read.
pub const MAXIMUM_NESTING: usize = 64;

/// The place of a part in the list.
pub(crate) type NodeId = usize;

/// Operators between two expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Sub,
    /// The matrix product.
    Product,
    /// Division by a number.
    Divide,
    /// Element by element.
    Times,
    Over,
    Power,
    ElementPower,
}

impl Operator {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Operator::Add => "+",
            Operator::Sub => "-",
            Operator::Product => "*",
            Operator::Divide => "/",
            Operator::Times => ".*",
            Operator::Over => "./",
            Operator::Power => "^",
            Operator::ElementPower => ".^",
        }
    }
}

/// Functions of whole matrices and vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Sum,
    Trace,
    Norm1,
    Norm2,
    Inverse,
    Determinant,
    LogDeterminant,
    Diagonal,
    /// Of a vector.
    Softmax,
}

impl Function {
    pub(crate) const ALL: [Function; 9] = [
        Function::Sum,
        Function::Trace,
        Function::Norm1,
        Function::Norm2,
        Function::Inverse,
        Function::Determinant,
        Function::LogDeterminant,
        Function::Diagonal,
        Function::Softmax,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Function::Sum => "sum",
            Function::Trace => "tr",
            Function::Norm1 => "norm1",
            Function::Norm2 => "norm2",
            Function::Inverse => "inv",
            Function::Determinant => "det",
            Function::LogDeterminant => "logdet",
            Function::Diagonal => "diag",
            Function::Softmax => "softmax",
        }
    }
}

/// Arrays whose elements are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Constant {
    /// A vector of one number.
    Vector(f64),
    /// A matrix of one number.
    Matrix(f64),
    /// The unit matrix.
    Eye,
}

/// One part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Syntax {
    Number(f64),
    Symbol(String),
    /// A size used as a number.
    SizeOf(String),
    Negative(NodeId),
    Transpose(NodeId),
    Binary(Operator, NodeId, NodeId),
    /// A row of the table of operations, element by element, with its parameter.
    Elementwise(Operation, Vec<NodeId>, f64),
    Function(Function, NodeId),
    /// A choice element by element: left, right, what is taken if the relation holds, and what otherwise.
    Choice(Relation, [NodeId; 4]),
    /// With the names or numbers of its sizes, if they are given.
    Constant(Constant, Vec<String>),
    Einsum(String, Vec<NodeId>),
}

impl Syntax {
    pub(crate) fn operands(&self) -> Vec<NodeId> {
        match self {
            Syntax::Number(_) | Syntax::Symbol(_) | Syntax::SizeOf(_) | Syntax::Constant(..) => Vec::new(),
            Syntax::Negative(operand) | Syntax::Transpose(operand) | Syntax::Function(_, operand) => vec![*operand],
            Syntax::Binary(_, first, second) => vec![*first, *second],
            Syntax::Elementwise(_, operands, _) | Syntax::Einsum(_, operands) => operands.clone(),
            Syntax::Choice(_, operands) => operands.to_vec(),
        }
    }
}

/// A matrix expression that was read, with the shape of each of its parts.
///
/// ```
/// use glassgrad::lang::matrix::{Declarations, parse};
/// let declared = Declarations::read("A: m n, x: n").unwrap();
/// let expression = parse("A*x", &declared).unwrap();
/// assert_eq!(expression.shape().to_string(), "vector of m");
/// assert_eq!(expression.symbols(), ["A", "x"]);
/// ```
#[derive(Clone, Debug)]
pub struct MatrixExpression {
    pub(crate) source: String,
    pub(crate) parts: Vec<Syntax>,
    pub(crate) spans: Vec<Span>,
    pub(crate) types: Vec<Type>,
}

impl MatrixExpression {
    /// The text that was read.
    ///
    /// ```
    /// use glassgrad::lang::matrix::{Declarations, parse};
    /// let declared = Declarations::read("A: m n, x: n").unwrap();
    /// let expression = parse("A*x", &declared).unwrap();
    /// assert_eq!(expression.source(), "A*x");
    /// ```
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The symbols, in the order of their first appearance.
    ///
    /// ```
    /// use glassgrad::lang::matrix::{Declarations, parse};
    /// let declared = Declarations::read("A: m n, x: n").unwrap();
    /// let expression = parse("A*x", &declared).unwrap();
    /// assert_eq!(expression.symbols(), ["A", "x"]);
    /// ```
    pub fn symbols(&self) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        for part in &self.parts {
            if let Syntax::Symbol(name) = part
                && !found.contains(&name.as_str())
            {
                found.push(name);
            }
        }
        found
    }

    /// The shape of the whole, in symbolic sizes.
    ///
    /// ```
    /// use glassgrad::lang::matrix::{Declarations, parse};
    /// let declared = Declarations::read("A: m n, x: n").unwrap();
    /// let expression = parse("A*x", &declared).unwrap();
    /// assert_eq!(expression.shape().to_string(), "vector of m");
    /// ```
    pub fn shape(&self) -> &Type {
        &self.types[self.root()]
    }

    /// The place of the whole, which is the last part.
    pub(crate) fn root(&self) -> NodeId {
        self.parts.len() - 1
    }

    /// Where the whole stands in the text.
    ///
    /// ```
    /// use glassgrad::lang::matrix::{Declarations, parse};
    /// let declared = Declarations::read("A: m n, x: n").unwrap();
    /// let expression = parse("A*x", &declared).unwrap();
    /// assert_eq!((expression.span().start, expression.span().end), (0, 3));
    /// ```
    pub fn span(&self) -> Span {
        self.spans[self.root()]
    }
}
