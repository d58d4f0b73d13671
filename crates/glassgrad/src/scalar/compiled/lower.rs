//! Lowering: rows of the table become machine instructions, as far as there are any, and calls of the row's value otherwise.
//!
//! It runs after differentiation, so that a row is differentiated by its own rule and never through its expansion, and by
//! the same hash-consing: expansions that have a part in common compute it once.

use super::graph::{Expr, Graph, Op};
use crate::algebra::c;
use crate::ops::{Algebra, Operation};

/// The nodes of `graph` on which `roots` depend, in the order in which they are computed, as nodes of `lowered`.
///
/// The order is that of a depth-first search from the roots, so that a value is computed shortly before its first use.
pub(super) fn lower<'l>(graph: &Graph, lowered: &'l Graph, roots: &[u32]) -> Vec<Expr<'l>> {
    let mut found: Vec<Option<Lowered<'l>>> = vec![None; graph.len()];
    let mut stack: Vec<u32> = Vec::new();
    for root in roots {
        stack.push(*root);
        while let Some(node) = stack.last().copied() {
            if found[node as usize].is_some() {
                stack.pop();
                continue;
            }
            let op = graph.op(node);
            let missing = op.operands().rev().filter(|operand| found[*operand as usize].is_none());
            let before = stack.len();
            stack.extend(missing);
            if stack.len() == before {
                found[node as usize] =
                    Some(lower_node(lowered, op, |operand| found[operand as usize].expect("computed")));
                stack.pop();
            }
        }
    }
    roots.iter().map(|root| found[*root as usize].expect("computed").number()).collect()
}

#[derive(Clone, Copy)]
enum Lowered<'l> {
    Number(Expr<'l>),
    Condition(super::graph::Mask<'l>),
}

impl<'l> Lowered<'l> {
    fn number(self) -> Expr<'l> {
        match self {
            Lowered::Number(number) => number,
            Lowered::Condition(_) => unreachable!("a condition is no number"),
        }
    }

    fn condition(self) -> super::graph::Mask<'l> {
        match self {
            Lowered::Condition(condition) => condition,
            Lowered::Number(_) => unreachable!("a number is no condition"),
        }
    }
}

fn lower_node<'l>(graph: &'l Graph, op: Op, of: impl Fn(u32) -> Lowered<'l>) -> Lowered<'l> {
    let number = |node: u32| of(node).number();
    match op {
        Op::Input(place) => Lowered::Number(graph.input(place as usize)),
        Op::Constant(bits) => Lowered::Number(Expr::Constant(f64::from_bits(bits))),
        Op::Unary(operation, parameter, x) => {
            Lowered::Number(unary(graph, operation, f64::from_bits(parameter), number(x)))
        }
        Op::Binary(operation, a, b) => Lowered::Number(binary(graph, operation, number(a), number(b))),
        Op::Select(mask, a, b) => Lowered::Number(graph.select(of(mask).condition(), number(a), number(b))),
        Op::Compare(relation, a, b) => Lowered::Condition(number(a).compare(relation, number(b))),
        Op::And(a, b) => Lowered::Condition(of(a).condition() & of(b).condition()),
        Op::Or(a, b) => Lowered::Condition(of(a).condition() | of(b).condition()),
        Op::Not(a) => Lowered::Condition(!of(a).condition()),
    }
}

/// Integer powers up to this exponent are products.
const LARGEST_POWER: i32 = 8;

/// The value of a row of one argument, by the formula of the table where that consists of machine instructions.
fn unary<'l>(graph: &'l Graph, operation: Operation, parameter: f64, x: Expr<'l>) -> Expr<'l> {
    let one = Expr::Constant(1.0);
    let zero = Expr::Constant(0.0);
    match operation {
        Operation::Square => x * x,
        Operation::Recip => one / x,
        Operation::Rsqrt => one / x.sqrt(),
        Operation::Powi if (parameter as i32).abs() <= LARGEST_POWER => power(x, parameter as i32),
        Operation::Relu => larger(x, zero),
        Operation::LeakyRelu => Algebra::select(x.greater(zero), || x, || c::<Expr<'_>>(parameter) * x),
        Operation::Elu => Algebra::select(x.greater(zero), || x, || c::<Expr<'_>>(parameter) * x.expm1()),
        Operation::Softsign => x / (one + x.abs()),
        Operation::Sigmoid => sigmoid(x),
        Operation::Silu => x * sigmoid(x),
        Operation::Softplus => larger(x, zero) + (-x.abs()).exp().log1p(),
        Operation::LogSigmoid => -(larger(-x, zero) + (-x.abs()).exp().log1p()),
        Operation::Sign => Algebra::select(x.greater(zero), || one, || Algebra::select(x.less(zero), || -one, || x)),
        _ => graph.unary(operation, parameter, x),
    }
}

fn binary<'l>(graph: &'l Graph, operation: Operation, a: Expr<'l>, b: Expr<'l>) -> Expr<'l> {
    match operation {
        Operation::Max => larger(a, b),
        Operation::Min => -larger(-a, -b),
        _ => graph.binary(operation, a, b),
    }
}

fn sigmoid(x: Expr<'_>) -> Expr<'_> {
    let (one, e) = (Expr::Constant(1.0), (-x.abs()).exp());
    let below = x.less(Expr::Constant(0.0));
    // NaN takes either side, since the denominator is NaN.
    Algebra::select(below, || e, || one) / (one + e)
}

fn larger<'l>(a: Expr<'l>, b: Expr<'l>) -> Expr<'l> {
    Algebra::select(a.greater(b), || a, || Algebra::select(b.less(a) | a.less(b) | a.equals(b), || b, || a + b))
}

/// A power by repeated squaring.
fn power(x: Expr<'_>, exponent: i32) -> Expr<'_> {
    let mut result: Option<Expr<'_>> = None;
    let (mut base, mut rest) = (x, exponent.unsigned_abs());
    while rest > 0 {
        if rest & 1 == 1 {
            result = Some(result.map_or(base, |result| result * base));
        }
        rest >>= 1;
        if rest > 0 {
            base = base * base;
        }
    }
    let power = result.unwrap_or(Expr::Constant(1.0));
    if exponent < 0 { Expr::Constant(1.0) / power } else { power }
}
