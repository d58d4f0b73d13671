//! Export of derivatives as expressions: the terms, their factors, and the steps of the derivation.

use super::algebra::{Algebra, Node, Product};
use super::derivative::Mode;
use super::explain::Explanation;
use super::plan::{PlanRequest, Traced};
use super::structure::{self, Structure};
use crate::einsum::Einsum;
use crate::error::Error;
use crate::expr::Tensor;

/// A piece of an expression. Numbers refer to earlier pieces.
pub(crate) enum Part {
    /// A tensor that is computed anyway.
    Tensor(Tensor),
    Product(Einsum, Vec<usize>),
    Sum(Vec<usize>),
}

/// One step of rewriting: sums of pieces before and after.
pub(crate) struct Rewrite {
    pub(crate) rule: &'static str,
    pub(crate) before: Vec<usize>,
    pub(crate) after: Vec<usize>,
}

/// A derivative taken apart.
pub(crate) struct Opened {
    pub(crate) parts: Vec<Part>,
    /// The pieces whose sum is the derivative.
    pub(crate) terms: Vec<usize>,
    pub(crate) steps: Vec<Rewrite>,
}

/// The predicted storage of a derivative.
pub(crate) struct Planned {
    pub(crate) explanation: Explanation,
    pub(crate) structure: Structure,
    /// The tensors that will be held.
    pub(crate) factors: Vec<Tensor>,
}

fn question<'q>(symmetric: bool, limit: u128, with_steps: bool) -> PlanRequest<'q> {
    PlanRequest { symmetric, mode: None, limit, variables: None, with_gradient: false, with_steps }
}

/// The derivative of a tensor by another behind it, in cross-country mode.
pub(crate) fn opened(output: &Tensor, variable: &Tensor, symmetric: bool, limit: u128) -> Result<Opened, Error> {
    let (algebra, terms) = question(symmetric, limit, true).expression(output, variable)?;
    let mut parts: Vec<Part> = algebra.nodes().map(part).collect();
    let mut add = |products: Vec<Product>| -> Vec<usize> {
        let first = parts.len();
        parts.extend(products.into_iter().map(|product| Part::Product(product.einsum, product.nodes)));
        (first..parts.len()).collect()
    };
    let terms = add(terms);
    let mut steps = Vec::new();
    if let Some(ledger) = algebra.ledger {
        for (step, [before, after]) in ledger.steps.into_iter().zip(ledger.sides) {
            steps.push(Rewrite { rule: step.rule, before: add(before), after: add(after) });
        }
    }
    Ok(Opened { parts, terms, steps })
}

fn part(node: &Node) -> Part {
    match node {
        Node::Given(tensor) => Part::Tensor(tensor.clone()),
        Node::Product(product) => Part::Product(product.einsum.clone(), product.nodes.clone()),
        Node::Sum(terms) => Part::Sum(terms.clone()),
    }
}

/// What is held of the derivative of a tensor by another behind it. Leaves may be placeholders: nothing is computed.
pub(crate) fn planned(output: &Tensor, variable: &Tensor, symmetric: bool, limit: u128) -> Result<Planned, Error> {
    let traced = Traced { variables: variable.clone(), outputs: output.clone(), beside: Vec::new() };
    let (plan, factors) = question(symmetric, limit, false).answer(traced)?;
    let layout = &plan.layout;
    let structure = structure::structure(&layout.blocks[0][0], &layout.rows[0].shape, &layout.columns[0].shape);
    Ok(Planned { explanation: plan.explanation, structure, factors })
}

impl PlanRequest<'_> {
    /// The expressions of one derivative, and its terms.
    fn expression(&self, output: &Tensor, variable: &Tensor) -> Result<(Algebra, Vec<Product>), Error> {
        let answer =
            self.candidate(Mode::CrossCountry, std::slice::from_ref(output), std::slice::from_ref(variable))?;
        let terms = answer.terms.into_iter().flatten().flatten().collect();
        Ok((answer.algebra, terms))
    }
}
