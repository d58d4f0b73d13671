//! Operations in words, as pictures and explanations show them.

use super::Logic;
use super::node::Op;
use crate::einsum::{Einsum, Label};
use crate::formula::{Formula, Node as FormulaNode, Symbol, Symbols, number};
use crate::ops::Operation;

/// The longest formula that is written out.
const LONGEST: usize = 60;

impl Op {
    /// The operation in a word, or in its notation: `tanh`, `x * sin(y)`, `einsum ij,jk->ik`.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.tanh().op().name(), "tanh");
    /// assert_eq!((&x / 2.0).op().name(), "x / y");
    /// assert_eq!(x.matmul(&x).op().name(), "einsum ij,jk->ik");
    /// assert_eq!(x.sum().op().name(), "sum");
    /// ```
    pub fn name(&self) -> String {
        match self {
            Op::Map(formula) => match formula.nodes[..] {
                [FormulaNode::Variable(_), FormulaNode::Unary(operation, 0, _)] => operation.name().to_owned(),
                _ => written_formula(formula, &letters(formula)),
            },
            Op::Einsum(einsum) => match Product::of(einsum) {
                Product::Elementwise if einsum.operands.is_empty() => "constant".to_owned(),
                Product::Elementwise => "multiply".to_owned(),
                Product::Scaled => "scale".to_owned(),
                Product::Broadcast => "broadcast".to_owned(),
                Product::Permutation => "permute".to_owned(),
                Product::Sum(_) => "sum".to_owned(),
                Product::Mean(_) => "mean".to_owned(),
                Product::General => format!("einsum {einsum}"),
            },
            Op::Logic(Logic::And) => "and".to_owned(),
            Op::Logic(Logic::Or) => "or".to_owned(),
            Op::Logic(Logic::Not) => "not".to_owned(),
            Op::Compare(relation) => format!("x {} y", relation.symbol()),
            Op::Select => "choose".to_owned(),
            Op::Max(_) => "max".to_owned(),
            Op::ArgMax(_) => "argmax".to_owned(),
            Op::OneHot(operation) => (*operation).to_owned(),
            Op::ScatterAdd(_) => "scatter_add".to_owned(),
            Op::StopGradient => "stop_gradient".to_owned(),
            Op::ControlDependency => "control_dependency".to_owned(),
            Op::GetOutput(number) => format!("output {number}"),
            Op::ReadView(_) => "view".to_owned(),
            Op::ScatterView(_) => "scatter_view".to_owned(),
            Op::Collective(collective) => collective.kind.name().to_owned(),
            Op::Custom(custom) => custom.0.name().to_owned(),
            // All others are called as their variant is; the kind that several share is left out.
            other @ (Op::Leaf
            | Op::Placeholder
            | Op::Variable
            | Op::Add
            | Op::Cast
            | Op::Reshape
            | Op::Concatenate(_)
            | Op::Gather(_)
            | Op::ArgSort { .. }
            | Op::Draw(_)
            | Op::Failed(_)) => {
                let variant = format!("{other:?}");
                let mut words = variant.split(|character: char| !character.is_alphanumeric());
                let word = words.find(|word| !word.is_empty() && *word != "Linear").unwrap_or_default();
                word.to_lowercase()
            }
        }
    }

    /// The operation applied to operands with these names: `tanh(v1)`, `a * b`, `einsum ij,jk->ik (a, b)`.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0]);
    /// assert_eq!((&x + &x).op().written(&["a".to_owned(), "b".to_owned()]), "a + b");
    /// ```
    pub fn written(&self, operands: &[String]) -> String {
        let called = |name: &str| format!("{name}({})", operands.join(", "));
        let infix = |symbol: &str| operands.join(&format!(" {symbol} "));
        match self {
            Op::Map(formula) => written_formula(formula, operands),
            Op::Add => operands.iter().skip(1).fold(operands.first().cloned().unwrap_or_default(), |sum, term| {
                match term.strip_prefix('-') {
                    Some(positive) => format!("{sum} - {positive}"),
                    None => format!("{sum} + {term}"),
                }
            }),
            Op::Einsum(einsum) => match Product::of(einsum) {
                Product::Elementwise | Product::Scaled => scaled(einsum.coefficient, operands),
                Product::Sum(axes) | Product::Mean(axes) if axes.len() == einsum.operands[0].len() => {
                    called(&self.name())
                }
                Product::Sum(axes) | Product::Mean(axes) => {
                    format!("{} over {}", called(&self.name()), list(&axes))
                }
                Product::Permutation if einsum.output.len() == 2 => called("transpose"),
                Product::Permutation => format!("{} to {}", called("permute"), list(&einsum.output)),
                Product::Broadcast => called("broadcast"),
                Product::General => format!("einsum {einsum} ({})", operands.join(", ")),
            },
            Op::Compare(relation) => infix(relation.symbol()),
            Op::Logic(Logic::And) => infix("and"),
            Op::Logic(Logic::Or) => infix("or"),
            Op::GetOutput(number) => format!("output {number} of {}", operands.join(", ")),
            other => called(&other.name()),
        }
    }
}

fn list(axes: &[usize]) -> String {
    axes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// A product as it is written by hand; what is itself a sum gets parentheses.
fn scaled(coefficient: f64, operands: &[String]) -> String {
    let enclosed = |operand: &String| if operand.contains(' ') { format!("({operand})") } else { operand.clone() };
    let product = operands.iter().map(enclosed).collect::<Vec<_>>().join(" * ");
    match coefficient {
        _ if operands.is_empty() => number(coefficient),
        1.0 => product,
        -1.0 => format!("-{product}"),
        factor => format!("{} * {product}", number(factor)),
    }
}

/// The names x, y, z, … of a formula's inputs.
fn letters(formula: &Formula) -> Vec<String> {
    let count = formula.nodes.iter().filter_map(|node| match node {
        FormulaNode::Variable(variable) => Some(variable + 1),
        _ => None,
    });
    let letter = |k: usize| ["x", "y", "z"].get(k).map_or_else(|| format!("x{}", k + 1), ToString::to_string);
    (0..count.max().unwrap_or(0)).map(letter).collect()
}

fn written_formula(formula: &Formula, operands: &[String]) -> String {
    let symbols = Symbols::new();
    let inputs: Vec<Symbol<'_>> = operands.iter().map(|name| symbols.variable(name)).collect();
    let text = formula.evaluate(&inputs)[0].to_string();
    if text.len() <= LONGEST {
        return text;
    }
    let operations = formula.nodes.iter().filter(|node| node.operands().next().is_some()).count();
    format!("formula of {operations} operations ({})", operands.join(", "))
}

/// What an einsum is called when it is one of the common ones.
pub(crate) enum Product {
    /// The product element by element, perhaps with stretched operands; of no operands a constant.
    Elementwise,
    /// One operand times a number.
    Scaled,
    /// One operand repeated along new axes.
    Broadcast,
    /// Axes in another order.
    Permutation,
    /// The sum over some axes.
    Sum(Vec<usize>),
    /// The mean over some axes.
    Mean(Vec<usize>),
    /// Any other.
    General,
}

impl Product {
    pub(crate) fn of(einsum: &Einsum) -> Product {
        let Einsum { coefficient, operands, output, extents, .. } = einsum;
        let distinct = |labels: &[Label]| labels.iter().enumerate().all(|(k, label)| !labels[..k].contains(label));
        if !distinct(output) || operands.iter().any(|labels| !distinct(labels)) {
            return Product::General;
        }
        // A label of size 1 that the output lacks is an axis that is stretched: it is summed in name only.
        let real = |labels: &[Label]| -> Vec<Label> {
            labels.iter().copied().filter(|label| output.contains(label) || extents[*label] != 1).collect()
        };
        let places = |labels: &[Label]| -> Option<Vec<usize>> {
            labels.iter().map(|label| output.iter().position(|other| other == label)).collect()
        };
        let in_order = |labels: &[Label]| places(&real(labels)).is_some_and(|places| places.is_sorted());
        match &operands[..] {
            [only] if *coefficient != 1.0 && only == output => Product::Scaled,
            [only] if *coefficient == 1.0 && in_order(only) => Product::Broadcast,
            [only] if *coefficient == 1.0 && only.len() == output.len() && places(only).is_some() => {
                Product::Permutation
            }
            [only] => {
                let kept: Vec<Label> = only.iter().copied().filter(|label| output.contains(label)).collect();
                let axes: Vec<usize> = (0..only.len()).filter(|axis| !output.contains(&only[*axis])).collect();
                let count: usize = axes.iter().map(|axis| extents[only[*axis]]).product();
                match *coefficient {
                    _ if kept != *output || axes.is_empty() => Product::General,
                    1.0 => Product::Sum(axes),
                    factor if factor == 1.0 / count as f64 => Product::Mean(axes),
                    _ => Product::General,
                }
            }
            several if several.iter().all(|labels| in_order(labels)) => {
                // Where no operand has a label of the output, the product is stretched beyond its operands.
                let covered = output.iter().all(|label| several.iter().any(|labels| labels.contains(label)));
                if covered || several.is_empty() { Product::Elementwise } else { Product::General }
            }
            _ => Product::General,
        }
    }
}

/// The row of a formula that is a single row applied to its inputs in order.
pub(crate) fn single_row(formula: &Formula) -> Option<Operation> {
    match formula.nodes[..] {
        [FormulaNode::Variable(0), FormulaNode::Unary(operation, 0, _)] => Some(operation),
        [FormulaNode::Variable(0), FormulaNode::Variable(1), FormulaNode::Binary(operation, 0, 1)] => Some(operation),
        _ => None,
    }
}
