//! What graphs are made of again and again, made once: rows of the table as formulas, their partial derivatives,
//! and products in Einstein notation, each found by the fingerprint of what was asked for.

use std::cell::RefCell;
use std::sync::Arc;

use crate::einsum::Einsum;
use crate::formula::{Formula, Node as FormulaNode, Symbols};
use crate::hashing::Fingerprint;
use crate::interning::{InternTable, Shared};
use crate::ops::Operation;

thread_local! {
    static FORMULAS: RefCell<InternTable<Shared<Formula>>> = RefCell::default();
    static PARTIALS: RefCell<InternTable<Arc<Partial>>> = RefCell::default();
    static EINSUMS: RefCell<InternTable<Shared<Einsum>>> = RefCell::default();
}

/// What was made for a fingerprint before, or what is made now. Making may ask for other things.
macro_rules! recalled {
    ($memory:ident, $asked:expr, $make:expr) => {{
        let asked: u128 = $asked;
        match $memory.with_borrow(|memory| memory.get(asked)) {
            Some(made) => made,
            None => {
                let made = $make;
                $memory.with_borrow_mut(|memory| memory.insert(asked, Clone::clone(&made)));
                made
            }
        }
    }};
}

/// A row of the table as a formula of its arguments.
pub(super) fn row(operation: Operation, parameter: f64) -> Shared<Formula> {
    let mut asked = Fingerprint::default();
    asked.word(operation as u64);
    asked.word(parameter.to_bits());
    recalled!(FORMULAS, asked.finish(), {
        let (nodes, output) = match operation.arity() {
            2 => {
                let row = FormulaNode::Binary(operation, 0, 1);
                (vec![FormulaNode::Variable(0), FormulaNode::Variable(1), row], 2)
            }
            _ => (vec![FormulaNode::Variable(0), FormulaNode::Unary(operation, 0, parameter)], 1),
        };
        Shared::new(Formula { nodes, outputs: vec![output] })
    })
}

/// The ways in which products are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    Broadcast,
    Sum,
    /// By a factor.
    Scale(f64),
    Multiply,
    MatrixProduct,
    Permute,
    /// With a number.
    Fill(f64),
    Pullback,
    Pushforward,
    WithFactor,
}

impl Request {
    /// Mixes the request in, with all bits of its number: a `usize` has 32 of them on some targets.
    fn hash(self, asked: &mut Fingerprint) {
        let (tag, number): (u64, f64) = match self {
            Request::Broadcast => (0, 0.0),
            Request::Sum => (1, 0.0),
            Request::Scale(factor) => (2, factor),
            Request::Multiply => (3, 0.0),
            Request::MatrixProduct => (4, 0.0),
            Request::Permute => (5, 0.0),
            Request::Fill(value) => (6, value),
            Request::Pullback => (7, 0.0),
            Request::Pushforward => (8, 0.0),
            Request::WithFactor => (9, 0.0),
        };
        asked.word(tag);
        asked.word(number.to_bits());
    }
}

/// The product that a request for some sizes and numbers leads to.
pub(crate) fn product(request: Request, numbers: &[&[usize]], make: impl FnOnce() -> Einsum) -> Shared<Einsum> {
    let mut asked = Fingerprint::default();
    request.hash(&mut asked);
    numbers.iter().for_each(|words| asked.words(words));
    recalled!(EINSUMS, asked.finish(), Shared::new(make()))
}

/// The product that a request leads to which begins with another product.
pub(crate) fn product_from(
    request: Request,
    einsum: &Shared<Einsum>,
    numbers: &[&[usize]],
    make: impl FnOnce() -> Einsum,
) -> Shared<Einsum> {
    let mut asked = Fingerprint::default();
    request.hash(&mut asked);
    asked.shared(einsum);
    numbers.iter().for_each(|words| asked.words(words));
    recalled!(EINSUMS, asked.finish(), Shared::new(make()))
}

/// A partial derivative of a formula.
pub(crate) enum Partial {
    /// It is the same everywhere.
    Number(f64),
    /// A formula of some of the inputs, by their numbers; the number behind the last is the output.
    Formula { formula: Shared<Formula>, inputs: Vec<usize> },
}

/// The partial derivative of a formula in one input, as a formula or a number.
///
/// If the formula is a single row of the table, the derivative reuses its output, which then is an
/// input of its own behind the others.
pub(crate) fn partial(formula: &Shared<Formula>, arity: usize, input: usize) -> Arc<Partial> {
    let mut asked = Fingerprint::default();
    asked.shared(formula);
    asked.words(&[arity, input]);
    recalled!(PARTIALS, asked.finish(), Arc::new(derived(formula, arity, input)))
}

fn derived(formula: &Formula, arity: usize, input: usize) -> Partial {
    let symbols = Symbols::new();
    let inputs: Vec<_> = (0..=arity).map(|k| symbols.variable(&format!("x{k}"))).collect();
    let output = inputs[arity];
    let root = formula.outputs[0];
    let is_variable = |node: usize| matches!(formula.nodes[node], FormulaNode::Variable(_));
    let symbol = |node: usize| match formula.nodes[node] {
        FormulaNode::Variable(variable) => inputs[variable],
        _ => crate::algebra::Literal::literal(0.0),
    };
    let slope = match formula.nodes[root] {
        FormulaNode::Unary(operation, x, parameter) if is_variable(x) => {
            operation.derivative(symbol(x), output, parameter)
        }
        FormulaNode::Binary(operation, a, b) if is_variable(a) && is_variable(b) && a != b => {
            let partials = operation.partials(symbol(a), symbol(b), output);
            let slot = usize::from(formula.nodes[b] == FormulaNode::Variable(input));
            partials.map(|partials| partials[slot])
        }
        _ => None,
    };
    let slope = slope.unwrap_or_else(|| formula.derivative(&inputs[..arity], input)[0].1);
    match slope.to_formula() {
        None => Partial::Number(slope.as_number().unwrap_or(0.0)),
        Some(formula) => {
            let mut formula = formula.trimmed();
            let inputs: Vec<usize> =
                (0..=arity).filter(|k| formula.nodes.contains(&FormulaNode::Variable(*k))).collect();
            for node in &mut formula.nodes {
                if let FormulaNode::Variable(variable) = node {
                    *variable = inputs.iter().position(|input| input == variable).unwrap_or(0);
                }
            }
            Partial::Formula { formula: Shared::new(formula), inputs }
        }
    }
}
