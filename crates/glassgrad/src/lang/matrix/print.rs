//! Matrix expressions as text that reads back as the same, and as LaTeX.

use super::syntax::{Constant, NodeId, Operator, Syntax};
use crate::formula::number;
use crate::ops::Operation;

/// How tightly a written piece binds; a piece that binds less needs parentheses.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Binding {
    Sum,
    Product,
    Sign,
    Power,
    Postfix,
}

/// A way of writing.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Text,
    Latex,
}

/// The text of a part.
pub(crate) fn text(parts: &[Syntax], root: NodeId) -> String {
    written(parts, root, Style::Text, &[])
}

/// The same in LaTeX. Some products are numbers, which stand in parentheses before other factors: without a sign between
/// factors, `x^\top x x` would not say what is multiplied first.
pub(crate) fn latex(parts: &[Syntax], root: NodeId, numbers: &[NodeId]) -> String {
    written(parts, root, Style::Latex, numbers)
}

fn written(parts: &[Syntax], root: NodeId, style: Style, loose: &[NodeId]) -> String {
    let mut pieces: Vec<(String, Binding)> = Vec::with_capacity(root + 1);
    for (place, part) in parts[..=root].iter().enumerate() {
        let (text, binding) = piece(part, &pieces, style);
        pieces.push((text, if loose.contains(&place) { Binding::Sum } else { binding }));
    }
    pieces.pop().map(|(text, _)| text).unwrap_or_default()
}

fn piece(part: &Syntax, pieces: &[(String, Binding)], style: Style) -> (String, Binding) {
    let bound = |operand: NodeId, least: Binding| {
        let (text, binding) = &pieces[operand];
        // A leading sign is bare only where nothing stands before it.
        match *binding >= least && (least == Binding::Sum || !text.starts_with('-')) {
            true => text.clone(),
            false if style == Style::Latex => format!("\\left({text}\\right)"),
            false => format!("({text})"),
        }
    };
    let plain = |operand: &NodeId| pieces[*operand].0.clone();
    let listed = |operands: &[NodeId]| operands.iter().map(plain).collect::<Vec<_>>().join(", ");
    let called = |name: &str, arguments: String| match style {
        Style::Text => (format!("{name}({arguments})"), Binding::Postfix),
        Style::Latex => {
            (format!("\\operatorname{{{}}}\\left({arguments}\\right)", name.replace('_', "\\_")), Binding::Postfix)
        }
    };
    match part {
        Syntax::Number(value) => (number(*value), if *value < 0.0 { Binding::Sign } else { Binding::Postfix }),
        Syntax::Symbol(name) | Syntax::SizeOf(name) => {
            (if style == Style::Latex { latex_name(name) } else { name.clone() }, Binding::Postfix)
        }
        Syntax::Negative(operand) => (format!("-{}", bound(*operand, Binding::Product)), Binding::Product),
        Syntax::Transpose(operand) => match style {
            Style::Text => (format!("{}'", bound(*operand, Binding::Postfix)), Binding::Postfix),
            Style::Latex => (format!("{}^\\top", bound(*operand, Binding::Postfix)), Binding::Power),
        },
        Syntax::Binary(operator, first, second) => binary(*operator, *first, *second, &bound, &plain, style),
        Syntax::Elementwise(operation, operands, parameter) => {
            let mut arguments = listed(operands);
            if operation.parameter().is_some() {
                arguments += &format!(", {}", number(*parameter));
            }
            match (operation, style) {
                (Operation::Ln, Style::Text) => called("log", arguments),
                (Operation::Exp | Operation::Sin | Operation::Cos | Operation::Tan, Style::Latex) => {
                    (format!("\\{operation}\\left({arguments}\\right)"), Binding::Postfix)
                }
                (Operation::Ln, Style::Latex) => (format!("\\log\\left({arguments}\\right)"), Binding::Postfix),
                (Operation::Sqrt, Style::Latex) => (format!("\\sqrt{{{arguments}}}"), Binding::Postfix),
                _ => called(operation.name(), arguments),
            }
        }
        Syntax::Choice(relation, operands) => {
            let [left, right, taken, otherwise] = operands.map(|operand| plain(&operand));
            let symbol = match (relation.symbol(), style) {
                ("<=", Style::Latex) => "\\le",
                (">=", Style::Latex) => "\\ge",
                ("==", Style::Latex) => "=",
                ("!=", Style::Latex) => "\\ne",
                (symbol, _) => symbol,
            };
            called("where", format!("{left} {symbol} {right}, {taken}, {otherwise}"))
        }
        Syntax::Function(function, operand) => match (function.name(), style) {
            ("inv", Style::Latex) => (format!("{}^{{-1}}", bound(*operand, Binding::Postfix)), Binding::Power),
            ("norm2", Style::Latex) => (format!("\\left\\|{}\\right\\|", plain(operand)), Binding::Postfix),
            ("norm1", Style::Latex) => (format!("\\left\\|{}\\right\\|_1", plain(operand)), Binding::Postfix),
            ("logdet", Style::Latex) => (format!("\\log\\det\\left({}\\right)", plain(operand)), Binding::Postfix),
            ("det", Style::Latex) => (format!("\\det\\left({}\\right)", plain(operand)), Binding::Postfix),
            (name, _) => called(name, plain(operand)),
        },
        Syntax::Constant(constant, sizes) => {
            let arguments = |value: f64| [vec![number(value)], sizes.clone()].concat().join(", ");
            match (constant, style) {
                (Constant::Vector(value), Style::Text) => called("vector", arguments(*value)),
                (Constant::Matrix(value), Style::Text) => called("matrix", arguments(*value)),
                (Constant::Eye, Style::Text) if sizes.is_empty() => ("eye".to_owned(), Binding::Postfix),
                (Constant::Eye, Style::Text) => called("eye", sizes.join(", ")),
                (Constant::Vector(value), Style::Latex) => constant_latex(*value, "\\mathbf{1}", sizes),
                (Constant::Matrix(value), Style::Latex) => constant_latex(*value, "\\mathbf{1}", sizes),
                (Constant::Eye, Style::Latex) => constant_latex(1.0, "I", sizes),
            }
        }
        Syntax::Einsum(notation, operands) => {
            let mut arguments = vec![match style {
                Style::Text => format!("\"{notation}\""),
                Style::Latex => format!("\\text{{{}}}", notation.replace("->", "$\\to$")),
            }];
            arguments.extend(operands.iter().map(plain));
            called("einsum", arguments.join(", "))
        }
    }
}

fn binary(
    operator: Operator,
    first: NodeId,
    second: NodeId,
    bound: &dyn Fn(NodeId, Binding) -> String,
    plain: &dyn Fn(&NodeId) -> String,
    style: Style,
) -> (String, Binding) {
    let sum = |symbol: &str| {
        let text = format!("{} {symbol} {}", bound(first, Binding::Sum), bound(second, Binding::Product));
        (text, Binding::Sum)
    };
    let product = |symbol: &str| {
        let text = format!("{}{symbol}{}", bound(first, Binding::Product), bound(second, Binding::Power));
        (text, Binding::Product)
    };
    match (operator, style) {
        (Operator::Add, _) => sum("+"),
        (Operator::Sub, _) => sum("-"),
        (Operator::Product, Style::Latex) => product(" "),
        (Operator::Times, Style::Latex) => product(" \\odot "),
        (Operator::Divide, Style::Latex) => {
            (format!("\\frac{{{}}}{{{}}}", plain(&first), plain(&second)), Binding::Product)
        }
        (Operator::Over, Style::Latex) => product(" \\oslash "),
        (Operator::Power, Style::Latex) => {
            (format!("{}^{{{}}}", bound(first, Binding::Postfix), plain(&second)), Binding::Power)
        }
        (Operator::ElementPower, Style::Latex) => {
            (format!("{}^{{\\odot {}}}", bound(first, Binding::Postfix), plain(&second)), Binding::Power)
        }
        (Operator::Power | Operator::ElementPower, Style::Text) => {
            let (symbol, exponent) = (operator.symbol(), bound(second, Binding::Postfix));
            (format!("{}{symbol}{exponent}", bound(first, Binding::Postfix)), Binding::Power)
        }
        (_, Style::Text) => product(operator.symbol()),
    }
}

/// A name in LaTeX: one letter with what follows as its index, and words upright.
pub(crate) fn latex_name(name: &str) -> String {
    let mut characters = name.chars();
    let first = characters.next().unwrap_or('x');
    let rest: String = characters.collect();
    match rest.as_str() {
        "" => name.to_owned(),
        digits if digits.chars().all(|c| c.is_ascii_digit()) => format!("{first}_{{{digits}}}"),
        _ => format!("\\mathrm{{{}}}", name.replace('_', "\\_")),
    }
}

fn constant_latex(value: f64, symbol: &str, sizes: &[String]) -> (String, Binding) {
    let index = if sizes.is_empty() { String::new() } else { format!("_{{{}}}", sizes.join("\\times ")) };
    match value {
        0.0 => ("0".to_owned(), Binding::Postfix),
        1.0 => (format!("{symbol}{index}"), Binding::Power),
        value => (format!("{}\\,{symbol}{index}", number(value)), Binding::Product),
    }
}
