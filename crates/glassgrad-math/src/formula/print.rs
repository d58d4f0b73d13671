//! Writing formulas, in the language that people type.

use std::fmt::Write as _;

use super::Node;
use crate::ops::Operation;

/// How tightly a written piece binds; a piece that binds less needs parentheses.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Binding {
    Sum,
    Product,
    Sign,
    Power,
    Atom,
}

/// Writes node `root` of a list, with `name` giving the text of nodes that are not taken apart.
///
/// The text is built from the bottom up over the nodes that are needed, without recursion. `None` if
/// it would exceed `limit` bytes: a formula that shares much grows exponentially when written out.
pub(super) fn write_node(
    nodes: &[Node],
    root: usize,
    limit: usize,
    name: impl Fn(usize) -> Option<String>,
) -> Option<String> {
    let mut needed = vec![false; root + 1];
    needed[root] = true;
    for index in (0..=root).rev() {
        if needed[index] && (index == root || name(index).is_none()) {
            nodes[index].operands().for_each(|operand| needed[operand] = true);
        }
    }
    let mut written: Vec<Option<(String, Binding)>> = Vec::with_capacity(root + 1);
    for index in 0..=root {
        let given = if index == root { None } else { name(index).map(|name| (name, Binding::Atom)) };
        let piece = match given {
            _ if !needed[index] => None,
            Some(given) => Some(given),
            None => Some(write_piece(&nodes[index], &written, &name, index)),
        };
        if piece.as_ref().is_some_and(|(text, _)| text.len() > limit) {
            return None;
        }
        written.push(piece);
    }
    written.pop().flatten().map(|(text, _)| text)
}

fn write_piece(
    node: &Node,
    written: &[Option<(String, Binding)>],
    name: &impl Fn(usize) -> Option<String>,
    index: usize,
) -> (String, Binding) {
    let bound = |operand: usize, least: Binding| match &written[operand] {
        // A leading sign is bare only where nothing stands before it.
        Some((text, binding)) if *binding >= least && (least == Binding::Sum || !text.starts_with('-')) => text.clone(),
        Some((text, _)) => format!("({text})"),
        None => String::new(),
    };
    let plain = |operand: usize| bound(operand, Binding::Sum);
    match *node {
        Node::Number(value) => (number(value), if value < 0.0 { Binding::Sign } else { Binding::Atom }),
        Node::Variable(variable) => (name(index).unwrap_or_else(|| format!("x{}", variable + 1)), Binding::Atom),
        Node::Unary(Operation::Neg, x, _) => (format!("-{}", bound(x, Binding::Sign)), Binding::Sign),
        Node::Unary(Operation::Powi | Operation::Powf, x, exponent) => {
            let exponent = if exponent < 0.0 { format!("({})", number(exponent)) } else { number(exponent) };
            (format!("{}^{exponent}", bound(x, Binding::Atom)), Binding::Power)
        }
        Node::Unary(operation, x, parameter) => {
            let parameter = operation.parameter().map_or(String::new(), |_| format!(", {}", number(parameter)));
            (format!("{operation}({}{parameter})", plain(x)), Binding::Atom)
        }
        Node::Binary(operation, a, b) => {
            let infix = |symbol: &str, own: Binding, left: Binding, right: Binding| {
                (format!("{} {symbol} {}", bound(a, left), bound(b, right)), own)
            };
            match operation {
                Operation::Add => infix("+", Binding::Sum, Binding::Sum, Binding::Product),
                Operation::Sub => infix("-", Binding::Sum, Binding::Sum, Binding::Product),
                Operation::Mul => infix("*", Binding::Product, Binding::Product, Binding::Power),
                Operation::Div => infix("/", Binding::Product, Binding::Product, Binding::Power),
                Operation::Pow => (format!("{}^{}", bound(a, Binding::Atom), bound(b, Binding::Atom)), Binding::Power),
                operation => (format!("{operation}({}, {})", plain(a), plain(b)), Binding::Atom),
            }
        }
        Node::Choose(left, relation, right, taken, otherwise) => {
            let mut text = String::new();
            let _ = write!(text, "where({} {} {}, ", plain(left), relation.symbol(), plain(right));
            let _ = write!(text, "{}, {})", plain(taken), plain(otherwise));
            (text, Binding::Atom)
        }
    }
}

/// A number as the shortest text that reads back as the same number.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 || (1e-5..1e16).contains(&magnitude) || !value.is_finite() {
        format!("{value}")
    } else {
        format!("{value:e}")
    }
}
