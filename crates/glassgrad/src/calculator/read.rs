//! From graphs of tensors, and from the terms of derivatives, to expressions with indices.

use std::collections::HashMap;

use super::functions::function_of;
use super::indexed::{Expression, FACTORS, Names, What};
use super::lower::{EYE, ONES};
use crate::calculus::Part;
use crate::einsum::Einsum;
use crate::error::Error;
use crate::expr::{Op, Tensor};
use crate::formula::{Formula, Node};
use crate::ops::Operation;

/// Reads tensors, each of them once.
pub(super) struct Reader<'a> {
    names: &'a Names,
    /// The names of scalar leaves that are sizes.
    sizes: &'a [String],
    known: HashMap<u64, Expression>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(names: &'a Names, sizes: &'a [String]) -> Reader<'a> {
        Reader { names, sizes, known: HashMap::new() }
    }

    /// The expression that a tensor is.
    pub(super) fn tensor(&mut self, tensor: &Tensor) -> Result<Expression, Error> {
        for node in crate::expr::nodes_behind(&[tensor], 0) {
            if !self.known.contains_key(&node.id) {
                let read = self.node(&Tensor::onto(node.clone()))?;
                self.known.insert(node.id, short(read, tensor)?);
            }
        }
        let found = self.known.get(&tensor.0.id).cloned();
        found.ok_or_else(|| Error::new("derive", "a part of the derivative could not be read"))
    }

    fn node(&self, tensor: &Tensor) -> Result<Expression, Error> {
        let shape = tensor.shape().to_vec();
        let mut inputs: Vec<Expression> = Vec::new();
        for input in tensor.inputs() {
            inputs.push(self.known.get(&input.0.id).cloned().unwrap_or_else(|| Expression::number(input.shape(), 0.0)));
        }
        Ok(match tensor.op() {
            Op::Leaf | Op::Placeholder => match tensor.name() {
                Some(ONES) => Expression::number(&shape, 1.0),
                Some(EYE) => Expression::unit(shape[0]),
                Some(name) if self.sizes.iter().any(|size| size == name) => {
                    Expression::factor(What::Size(name.to_owned()), &shape)
                }
                Some(name) => Expression::factor(What::Symbol(name.to_owned()), &shape),
                None => self.constant(tensor)?,
            },
            Op::Variable | Op::StopGradient | Op::ControlDependency => inputs.swap_remove(0),
            Op::Einsum(einsum) => Expression::product(einsum, &inputs, self.names),
            Op::Add => Expression::sum(&shape, inputs),
            Op::Map(formula) => self.formula(formula, &inputs, &shape),
            Op::Custom(custom) => match function_of(&*custom.0) {
                Some(function) => Expression::factor(What::OfMatrix(function, inputs.swap_remove(0)), &shape),
                None => return Err(unwritten(tensor)),
            },
            Op::Cast
            | Op::Reshape
            | Op::ReadView(_)
            | Op::ScatterView(_)
            | Op::Concatenate(_)
            | Op::Gather(_)
            | Op::ScatterAdd(_)
            | Op::Compare(_)
            | Op::Logic(_)
            | Op::Select
            | Op::Collective(_)
            | Op::Max(_)
            | Op::ArgMax(_)
            | Op::OneHot(_)
            | Op::ArgSort { .. }
            | Op::Draw(_)
            | Op::GetOutput(_)
            | Op::Failed(_) => return Err(unwritten(tensor)),
        })
    }

    /// A constant leaf created by a rule.
    fn constant(&self, tensor: &Tensor) -> Result<Expression, Error> {
        let array = tensor.eval()?;
        let value = if array.buffer().is_empty() { 0.0 } else { array.buffer().get(0) };
        match (0..array.buffer().len()).all(|place| array.buffer().get(place) == value) {
            true => Ok(Expression::number(tensor.shape(), value)),
            false => Err(unwritten(tensor)),
        }
    }

    /// A formula of the table: sums, products, quotients and whole powers are taken apart.
    fn formula(&self, formula: &Formula, inputs: &[Expression], shape: &[usize]) -> Expression {
        let mut found: Vec<Expression> = Vec::new();
        for node in &formula.nodes {
            let factor = match *node {
                Node::Number(value) => Expression::number(shape, value),
                Node::Variable(variable) => inputs[variable].clone(),
                Node::Unary(operation, x, parameter) => self.unary(operation, parameter, &found[x], shape),
                Node::Binary(operation, a, b) => self.binary(operation, &found[a], &found[b], shape),
                Node::Choose(left, relation, right, taken, otherwise) => {
                    let inner = [left, right, taken, otherwise].map(|place| found[place].clone()).to_vec();
                    Expression::factor(What::Choice(relation, inner), shape)
                }
            };
            found.push(factor);
        }
        found.swap_remove(formula.outputs[0])
    }

    fn unary(&self, operation: Operation, parameter: f64, x: &Expression, shape: &[usize]) -> Expression {
        if let Some(value) = x.as_number().and_then(|value| operation.apply_unary(value, parameter))
            && value.is_finite()
        {
            return Expression::number(shape, value);
        }
        match operation {
            Operation::Neg => x.clone().scaled(-1.0),
            Operation::Recip => x.power(-1),
            Operation::Square => x.power(2),
            Operation::Powi => x.power(parameter as i32),
            _ => Expression::factor(What::Elementwise(operation, parameter, vec![x.clone()]), shape),
        }
    }

    fn binary(&self, operation: Operation, a: &Expression, b: &Expression, shape: &[usize]) -> Expression {
        let product = |one: &Expression, other: &Expression| match (one.as_number(), other.as_number()) {
            (Some(factor), _) => other.clone().scaled(factor),
            (_, Some(factor)) => one.clone().scaled(factor),
            _ => Expression::product(&Einsum::elementwise(shape, 2), &[one.clone(), other.clone()], self.names),
        };
        match operation {
            Operation::Add => Expression::sum(shape, [a.clone(), b.clone()]),
            Operation::Sub => Expression::sum(shape, [a.clone(), b.clone().scaled(-1.0)]),
            Operation::Mul => product(a, b),
            Operation::Div => product(a, &b.power(-1)),
            _ => Expression::factor(What::Elementwise(operation, 0.0, vec![a.clone(), b.clone()]), shape),
        }
    }

    /// The expressions of all pieces of a derivative.
    pub(super) fn parts(&mut self, parts: &[Part]) -> Result<Vec<Expression>, Error> {
        let mut found: Vec<Expression> = Vec::new();
        for part in parts {
            let read = match part {
                Part::Tensor(tensor) => self.tensor(tensor)?,
                Part::Product(einsum, operands) => {
                    let operands: Vec<Expression> = operands.iter().map(|operand| found[*operand].clone()).collect();
                    Expression::product(einsum, &operands, self.names)
                }
                Part::Sum(terms) => {
                    let shape = found[terms[0]].shape.clone();
                    Expression::sum(&shape, terms.iter().map(|term| found[*term].clone()))
                }
            };
            found.push(read);
        }
        Ok(found)
    }
}

fn short(expression: Expression, tensor: &Tensor) -> Result<Expression, Error> {
    let long = expression.terms.len() > FACTORS || expression.terms.iter().any(|term| term.factors.len() > FACTORS);
    if long || expression.length() > FACTORS * FACTORS {
        let message = format!("the expression has more than {FACTORS} factors or terms when it is written out");
        return Err(Error::new("derive", message).with_operands(vec![tensor.describe()]));
    }
    Ok(expression)
}

fn unwritten(tensor: &Tensor) -> Error {
    let message = format!("{} has no form in index notation", tensor.op().describe());
    Error::new("derive", message).with_operands(vec![tensor.describe()])
}
