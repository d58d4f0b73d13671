//! The intermediate representation: a hash-consed graph of rows of the table, comparisons and selections.
//!
//! [`Expr`] is an [`Algebra`], so the derivative formulas of the table build their own nodes. Equal nodes are one node
//! (common-subexpression elimination), operations on constants are evaluated (constant folding), and identities that hold
//! for every floating-point number are applied.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::algebra::Literal;
use crate::ops::{Algebra, Binary, Operation, Real, Relation, Unary};

/// A node. Operands are indices of earlier nodes; numbers are kept as bits, so that nodes can be hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
    /// A number of the argument vector.
    Input(u32),
    Constant(u64),
    /// A row of one argument with its parameter.
    Unary(Operation, u64, u32),
    Binary(Operation, u32, u32),
    /// A condition: the nodes from here to `Not` are booleans.
    Compare(Relation, u32, u32),
    And(u32, u32),
    Or(u32, u32),
    Not(u32),
    /// The second operand where the condition holds, the third where it does not.
    Select(u32, u32, u32),
}

impl Op {
    /// The operands in order.
    pub(super) fn operands(self) -> impl DoubleEndedIterator<Item = u32> {
        let slots = match self {
            Op::Input(_) | Op::Constant(_) => [None; 3],
            Op::Unary(_, _, a) | Op::Not(a) => [Some(a), None, None],
            Op::Binary(_, a, b) | Op::Compare(_, a, b) | Op::And(a, b) | Op::Or(a, b) => [Some(a), Some(b), None],
            Op::Select(mask, a, b) => [Some(mask), Some(a), Some(b)],
        };
        slots.into_iter().flatten()
    }
}

/// The nodes in topological order, and where each is found.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: RefCell<Vec<Op>>,
    interned: RefCell<HashMap<Op, u32>>,
}

/// A number: a constant, or a node of a graph.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expr<'g> {
    Constant(f64),
    Node(&'g Graph, u32),
}

/// A condition: known, or a node of a graph.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mask<'g> {
    Known(bool),
    Node(&'g Graph, u32),
}

impl Graph {
    pub(super) fn len(&self) -> usize {
        self.nodes.borrow().len()
    }

    pub(super) fn op(&self, node: u32) -> Op {
        self.nodes.borrow()[node as usize]
    }

    pub(super) fn ops(&self) -> Vec<Op> {
        self.nodes.borrow().clone()
    }

    pub(super) fn input(&self, number: usize) -> Expr<'_> {
        Expr::Node(self, self.intern(Op::Input(number as u32)))
    }

    fn intern(&self, op: Op) -> u32 {
        *self.interned.borrow_mut().entry(op).or_insert_with(|| {
            let mut nodes = self.nodes.borrow_mut();
            nodes.push(op);
            u32::try_from(nodes.len() - 1).expect("a graph holds at most 2³² nodes")
        })
    }

    pub(super) fn node_of(&self, expr: Expr<'_>) -> u32 {
        match expr {
            Expr::Constant(value) => self.intern(Op::Constant(value.to_bits())),
            Expr::Node(_, node) => node,
        }
    }

    /// The number of a node, with constants seen as such.
    pub(super) fn expr(&self, node: u32) -> Expr<'_> {
        match self.op(node) {
            Op::Constant(bits) => Expr::Constant(f64::from_bits(bits)),
            _ => Expr::Node(self, node),
        }
    }

    pub(super) fn mask(&self, node: u32) -> Mask<'_> {
        Mask::Node(self, node)
    }

    pub(super) fn unary<'g>(&'g self, operation: Operation, parameter: f64, x: Expr<'g>) -> Expr<'g> {
        if let Expr::Constant(x) = x {
            return Expr::Constant(operation.apply_unary(x, parameter).expect("a row of one argument"));
        }
        let x = self.node_of(x);
        if operation == Operation::Neg
            && let Op::Unary(Operation::Neg, _, inner) = self.op(x)
        {
            return self.expr(inner);
        }
        Expr::Node(self, self.intern(Op::Unary(operation, parameter.to_bits(), x)))
    }

    pub(super) fn binary<'g>(&'g self, operation: Operation, a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
        use Operation::{Add, Div, Mul, Neg, Sub};
        match (operation, a, b) {
            (_, Expr::Constant(a), Expr::Constant(b)) => {
                return Expr::Constant(operation.apply_binary(a, b).expect("a row of two arguments"));
            }
            // Exact for every number, infinities and signed zeros included.
            (Mul, Expr::Constant(1.0), x) | (Mul | Div, x, Expr::Constant(1.0)) => return x,
            (Mul, Expr::Constant(-1.0), x) | (Mul | Div, x, Expr::Constant(-1.0)) => return self.unary(Neg, 0.0, x),
            (Mul, Expr::Constant(2.0), x) | (Mul, x, Expr::Constant(2.0)) => return self.binary(Add, x, x),
            (Div, x, Expr::Constant(divisor)) if is_power_of_two(divisor) => {
                return self.binary(Mul, x, Expr::Constant(1.0 / divisor));
            }
            (Sub, x, Expr::Constant(zero)) if zero.to_bits() == 0.0_f64.to_bits() => return x,
            (Add, x, Expr::Constant(zero)) | (Add, Expr::Constant(zero), x)
                if zero.to_bits() == (-0.0_f64).to_bits() =>
            {
                return x;
            }
            _ => {}
        }
        let (mut a, mut b) = (self.node_of(a), self.node_of(b));
        match (operation, self.op(a), self.op(b)) {
            // Signs move outwards: a product of negated factors is a negated product.
            (Mul | Div, Op::Unary(Neg, _, x), Op::Unary(Neg, _, y)) => {
                return self.binary(operation, self.expr(x), self.expr(y));
            }
            (Mul | Div, Op::Unary(Neg, _, x), _) => {
                return self.unary(Neg, 0.0, self.binary(operation, self.expr(x), self.expr(b)));
            }
            (Mul | Div, _, Op::Unary(Neg, _, y)) => {
                return self.unary(Neg, 0.0, self.binary(operation, self.expr(a), self.expr(y)));
            }
            (Add, _, Op::Unary(Neg, _, y)) => return self.binary(Sub, self.expr(a), self.expr(y)),
            (Add, Op::Unary(Neg, _, x), _) => return self.binary(Sub, self.expr(b), self.expr(x)),
            (Sub, _, Op::Unary(Neg, _, y)) => return self.binary(Add, self.expr(a), self.expr(y)),
            _ => {}
        }
        if matches!(operation, Add | Mul) && a > b {
            (a, b) = (b, a); // Commutative operations have one order, so that equal ones are found.
        }
        Expr::Node(self, self.intern(Op::Binary(operation, a, b)))
    }

    pub(super) fn compare<'g>(&'g self, relation: Relation, a: Expr<'g>, b: Expr<'g>) -> Mask<'g> {
        match (a, b) {
            (Expr::Constant(a), Expr::Constant(b)) => Mask::Known(relation.holds(a, b)),
            _ => Mask::Node(self, self.intern(Op::Compare(relation, self.node_of(a), self.node_of(b)))),
        }
    }

    pub(super) fn select<'g>(&'g self, mask: Mask<'g>, taken: Expr<'g>, otherwise: Expr<'g>) -> Expr<'g> {
        let Mask::Node(_, mask) = mask else {
            return if matches!(mask, Mask::Known(true)) { taken } else { otherwise };
        };
        let (taken, otherwise) = (self.node_of(taken), self.node_of(otherwise));
        if taken == otherwise {
            return self.expr(taken);
        }
        Expr::Node(self, self.intern(Op::Select(mask, taken, otherwise)))
    }

    fn mask_pair<'g>(&'g self, a: u32, b: u32, op: impl Fn(u32, u32) -> Op) -> Mask<'g> {
        if a == b { Mask::Node(self, a) } else { Mask::Node(self, self.intern(op(a.min(b), a.max(b)))) }
    }
}

/// Whether the reciprocal is exact.
fn is_power_of_two(number: f64) -> bool {
    let mantissa = number.to_bits() & ((1 << 52) - 1);
    mantissa == 0 && number.is_normal() && (1.0 / number).is_normal()
}

impl Literal for Expr<'_> {
    fn literal(value: f64) -> Self {
        Expr::Constant(value)
    }
}

impl<'g> Algebra for Expr<'g> {
    type Mask = Mask<'g>;

    fn unary<R: Unary>(self, parameter: f64) -> Self {
        match self {
            Expr::Constant(x) => Expr::Constant(R::value(x, parameter)),
            Expr::Node(graph, _) => graph.unary(R::OPERATION, parameter, self),
        }
    }

    fn binary<R: Binary>(self, other: Self) -> Self {
        match (self, other) {
            (Expr::Constant(a), Expr::Constant(b)) => Expr::Constant(R::value(a, b)),
            (Expr::Node(graph, _), _) | (_, Expr::Node(graph, _)) => graph.binary(R::OPERATION, self, other),
        }
    }

    fn compare(self, relation: Relation, other: Self) -> Mask<'g> {
        match (self, other) {
            (Expr::Constant(a), Expr::Constant(b)) => Mask::Known(relation.holds(a, b)),
            (Expr::Node(graph, _), _) | (_, Expr::Node(graph, _)) => graph.compare(relation, self, other),
        }
    }

    fn select(mask: Mask<'g>, taken: impl FnOnce() -> Self, otherwise: impl FnOnce() -> Self) -> Self {
        match mask {
            Mask::Known(true) => taken(),
            Mask::Known(false) => otherwise(),
            Mask::Node(graph, _) => graph.select(mask, taken(), otherwise()),
        }
    }
}

/// The operators and methods that every number has, of which the formulas here use some.
#[allow(dead_code, unreachable_pub)]
mod operators {
    use super::Expr;
    crate::scalar::number_operators!(['g] Expr<'g>);
}

impl std::ops::BitAnd for Mask<'_> {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        match (self, other) {
            (Mask::Known(true), mask) | (mask, Mask::Known(true)) => mask,
            (Mask::Known(false), _) | (_, Mask::Known(false)) => Mask::Known(false),
            (Mask::Node(graph, a), Mask::Node(_, b)) => graph.mask_pair(a, b, Op::And),
        }
    }
}

impl std::ops::BitOr for Mask<'_> {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        match (self, other) {
            (Mask::Known(false), mask) | (mask, Mask::Known(false)) => mask,
            (Mask::Known(true), _) | (_, Mask::Known(true)) => Mask::Known(true),
            (Mask::Node(graph, a), Mask::Node(_, b)) => graph.mask_pair(a, b, Op::Or),
        }
    }
}

impl std::ops::Not for Mask<'_> {
    type Output = Self;
    fn not(self) -> Self {
        match self {
            Mask::Known(value) => Mask::Known(!value),
            Mask::Node(graph, node) => Mask::Node(graph, graph.intern(Op::Not(node))),
        }
    }
}

/// Evaluates nodes in any number, by the rows of the table: the definition that compiled code has to agree with.
pub(super) fn interpret<T: Real>(ops: &[Op], inputs: &[T]) -> Vec<T> {
    let mut values: Vec<T> = Vec::with_capacity(ops.len());
    let mut masks: HashMap<u32, bool> = HashMap::new();
    for (index, op) in ops.iter().enumerate() {
        let of = |node: u32| values[node as usize];
        let value = match *op {
            Op::Input(number) => inputs[number as usize],
            Op::Constant(bits) => T::literal(f64::from_bits(bits)),
            Op::Unary(operation, parameter, x) => {
                operation.apply_unary(of(x), f64::from_bits(parameter)).expect("a row of one argument")
            }
            Op::Binary(operation, a, b) => operation.apply_binary(of(a), of(b)).expect("a row of two arguments"),
            Op::Select(mask, a, b) => {
                if masks[&mask] {
                    of(a)
                } else {
                    of(b)
                }
            }
            condition => {
                let holds = match condition {
                    Op::Compare(relation, a, b) => relation.holds(of(a).primal(), of(b).primal()),
                    Op::And(a, b) => masks[&a] && masks[&b],
                    Op::Or(a, b) => masks[&a] || masks[&b],
                    Op::Not(a) => !masks[&a],
                    _ => unreachable!("numbers are matched above"),
                };
                masks.insert(index as u32, holds);
                T::literal(0.0)
            }
        };
        values.push(value);
    }
    values
}
