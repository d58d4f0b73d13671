//! From a matrix expression to a graph of tensors, at given sizes.
//!
//! Only products in Einstein notation, sums, formulas of the table and functions of one matrix are built, and no number is
//! spread but by multiplying it with a vector of ones: so no size gets lost in a number, and every derivative can be
//! written with symbolic sizes.

use super::functions::of_matrix;
use crate::einsum::{Einsum, Label};
use crate::expr::Tensor;
use crate::formula::{Formula, Node};
use crate::lang::matrix::{Constant, Function, MatrixExpression, NodeId, Operator, Syntax};
use crate::ops::Operation;

/// What a leaf of the graph stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Leaf<'a> {
    Symbol(&'a str),
    /// A size as a number.
    Size(&'a str),
    Ones,
    Eye,
}

/// The names under which arrays of ones and unit matrices stand in the graph. No symbol can have them.
pub(super) const ONES: &str = "vector";
pub(super) const EYE: &str = "eye";

/// A number that is written in the expression, or a tensor.
#[derive(Clone)]
enum Lowered {
    Number(f64),
    Tensor(Tensor),
}

/// The graph of an expression, with leaves of given shapes created by a function.
pub(super) fn lower(
    expression: &MatrixExpression,
    leaf: &mut dyn FnMut(Leaf<'_>, &[usize]) -> Tensor,
    number: &dyn Fn(&crate::lang::matrix::Size) -> usize,
) -> Tensor {
    let mut lowering = Lowering { expression, leaf, number, lowered: Vec::new(), known: Vec::new() };
    for place in 0..expression.parts.len() {
        let value = lowering.shared(place);
        lowering.lowered.push(value);
    }
    lowering.tensor(expression.root())
}

struct Lowering<'a, 'l> {
    expression: &'a MatrixExpression,
    leaf: &'l mut dyn FnMut(Leaf<'_>, &[usize]) -> Tensor,
    number: &'l dyn Fn(&crate::lang::matrix::Size) -> usize,
    lowered: Vec<Lowered>,
    /// Parts in terms of the first places at which their operands were written, so that what is written twice is one.
    known: Vec<(Syntax, NodeId)>,
}

impl Lowering<'_, '_> {
    fn shared(&mut self, place: NodeId) -> Lowered {
        let first = |place: &NodeId| self.known[*place].1;
        let mut part = self.expression.parts[place].clone();
        match &mut part {
            Syntax::Negative(operand) | Syntax::Transpose(operand) | Syntax::Function(_, operand) => {
                *operand = first(operand);
            }
            Syntax::Binary(_, one, other) => (*one, *other) = (first(one), first(other)),
            Syntax::Elementwise(_, operands, _) | Syntax::Einsum(_, operands) => {
                operands.iter_mut().for_each(|operand| *operand = first(operand));
            }
            Syntax::Choice(_, operands) => operands.iter_mut().for_each(|operand| *operand = first(operand)),
            _ => {}
        }
        let earlier = self.known.iter().position(|(known, _)| *known == part);
        // Constants without sizes may have different ones at different places.
        let earlier = earlier.filter(|earlier| self.expression.types[*earlier] == self.expression.types[place]);
        self.known.push((part, earlier.map_or(place, |earlier| self.known[earlier].1)));
        match earlier {
            Some(earlier) => self.lowered[earlier].clone(),
            None => self.part(place),
        }
    }

    fn sizes(&self, place: NodeId) -> Vec<usize> {
        self.expression.types[place].sizes.iter().map(self.number).collect()
    }

    fn rank(&self, place: NodeId) -> usize {
        self.expression.types[place].sizes.len()
    }

    /// A part as a tensor; numbers are leaves without axes.
    fn tensor(&self, place: NodeId) -> Tensor {
        match &self.lowered[place] {
            Lowered::Number(value) => Tensor::from(*value),
            Lowered::Tensor(tensor) => tensor.clone(),
        }
    }

    /// A part as a tensor of a shape: numbers are multiplied with ones.
    fn spread(&mut self, place: NodeId, shape: &[usize]) -> Tensor {
        let tensor = self.tensor(place);
        if tensor.rank() == shape.len() {
            return tensor;
        }
        let ones = (self.leaf)(Leaf::Ones, shape);
        match self.lowered[place] {
            Lowered::Number(value) => ones.scaled(value),
            Lowered::Tensor(_) => scaled_by(&tensor, &ones),
        }
    }

    fn part(&mut self, place: NodeId) -> Lowered {
        let part = &self.expression.parts[place];
        Lowered::Tensor(match part {
            Syntax::Number(value) => return Lowered::Number(*value),
            Syntax::Symbol(name) => {
                let shape = self.sizes(place);
                (self.leaf)(Leaf::Symbol(name), &shape)
            }
            Syntax::SizeOf(name) => (self.leaf)(Leaf::Size(name), &[]),
            Syntax::Negative(operand) => match &self.lowered[*operand] {
                Lowered::Number(value) => return Lowered::Number(-value),
                Lowered::Tensor(tensor) => tensor.scaled(-1.0),
            },
            Syntax::Transpose(operand) if self.rank(*operand) < 2 => return self.lowered[*operand].clone(),
            Syntax::Transpose(operand) => transposed(&self.tensor(*operand)),
            Syntax::Binary(operator, first, second) => return self.binary(place, *operator, *first, *second),
            Syntax::Elementwise(operation, operands, parameter) => {
                return self.elementwise(place, *operation, operands, *parameter);
            }
            Syntax::Choice(relation, operands) => {
                let node = Node::Choose(0, *relation, 1, 2, 3);
                return self.mapped("where", place, operands, node);
            }
            Syntax::Function(function, operand) => self.function(*function, *operand),
            Syntax::Constant(constant, _) => {
                let shape = self.sizes(place);
                match constant {
                    Constant::Vector(value) | Constant::Matrix(value) => (self.leaf)(Leaf::Ones, &shape).scaled(*value),
                    Constant::Eye => (self.leaf)(Leaf::Eye, &shape),
                }
            }
            Syntax::Einsum(notation, operands) => self.einsum(notation, operands),
        })
    }

    fn binary(&mut self, place: NodeId, operator: Operator, first: NodeId, second: NodeId) -> Lowered {
        let operation = match operator {
            Operator::Add => Operation::Add,
            Operator::Sub => Operation::Sub,
            Operator::Product | Operator::Times => Operation::Mul,
            Operator::Divide | Operator::Over => Operation::Div,
            Operator::Power | Operator::ElementPower => Operation::Pow,
        };
        if let (Lowered::Number(a), Lowered::Number(b)) = (&self.lowered[first], &self.lowered[second])
            && let Some(value) = operation.apply_binary(*a, *b)
        {
            return Lowered::Number(value);
        }
        let shape = self.sizes(place);
        let numbers = [first, second].map(|operand| match self.lowered[operand] {
            Lowered::Number(value) => Some(value),
            Lowered::Tensor(_) => None,
        });
        Lowered::Tensor(match (operation, numbers) {
            (Operation::Add | Operation::Sub, [None, None]) => {
                let one = self.spread(first, &shape);
                let other = self.spread(second, &shape);
                let other = if operation == Operation::Sub { other.scaled(-1.0) } else { other };
                Tensor::add_all("add", &[&one, &other])
            }
            (Operation::Mul, [Some(factor), None]) => self.tensor(second).scaled(factor),
            (Operation::Mul, [None, Some(factor)]) => self.tensor(first).scaled(factor),
            (Operation::Div, [None, Some(divisor)]) => self.tensor(first).scaled(1.0 / divisor),
            (Operation::Mul, _) if operator == Operator::Product => self.product(first, second),
            (Operation::Mul, _) => self.times(&self.tensor(first), &self.tensor(second)),
            (Operation::Div, [Some(value), _]) => self.tensor(second).unary(Operation::Recip, 0.0).scaled(value),
            (Operation::Div, _) => {
                let divisor = self.tensor(second).unary(Operation::Recip, 0.0);
                self.times(&self.tensor(first), &divisor)
            }
            (Operation::Pow, [_, Some(exponent)]) => self.power(operator, first, exponent),
            _ => return self.elementwise(place, operation, &[first, second], 0.0),
        })
    }

    /// Element by element, or a number with anything.
    fn times(&self, one: &Tensor, other: &Tensor) -> Tensor {
        match (one.rank(), other.rank()) {
            (0, _) => scaled_by(one, other),
            (_, 0) => scaled_by(other, one),
            _ => Tensor::contract(Einsum::elementwise(one.shape(), 2), &[one, other]),
        }
    }

    fn product(&self, first: NodeId, second: NodeId) -> Tensor {
        let (one, other) = (self.tensor(first), self.tensor(second));
        let (i, j, k) = (0, 1, 2);
        let row = self.expression.types[first].row;
        let (a, b, output): (Vec<Label>, Vec<Label>, Vec<Label>) = match (one.rank(), other.rank()) {
            (0, _) | (_, 0) => return self.times(&one, &other),
            (1, 1) if row => (vec![j], vec![j], vec![]),
            (1, 1) => (vec![i], vec![j], vec![i, j]),
            (2, 1) => (vec![i, j], vec![j], vec![i]),
            (1, 2) => (vec![j], vec![j, k], vec![k]),
            _ => (vec![i, j], vec![j, k], vec![i, k]),
        };
        contracted(vec![a, b], output, &[&one, &other])
    }

    fn power(&self, operator: Operator, base: NodeId, exponent: f64) -> Tensor {
        if operator == Operator::Power
            && exponent == 2.0
            && let Syntax::Function(Function::Norm2, inner) = self.expression.parts[base]
        {
            // The square of a norm has a derivative where the norm has none.
            return squares(&self.tensor(inner));
        }
        let tensor = self.tensor(base);
        if operator == Operator::Power && tensor.rank() == 2 {
            if exponent < 0.0 {
                return self.function(Function::Inverse, base);
            }
            let mut power = tensor.clone();
            for _ in 1..exponent as usize {
                power = contracted(vec![vec![0, 1], vec![1, 2]], vec![0, 2], &[&power, &tensor]);
            }
            return power;
        }
        match exponent {
            1.0 => tensor,
            2.0 => tensor.unary(Operation::Square, 0.0),
            -1.0 => tensor.unary(Operation::Recip, 0.0),
            whole if whole.fract() == 0.0 && whole.abs() <= f64::from(i32::MAX) => tensor.unary(Operation::Powi, whole),
            0.5 => tensor.unary(Operation::Sqrt, 0.0),
            other => tensor.unary(Operation::Powf, other),
        }
    }

    /// A row of the table: numbers become part of the formula, tensors without axes are spread.
    fn elementwise(&mut self, place: NodeId, operation: Operation, operands: &[NodeId], parameter: f64) -> Lowered {
        let numbers: Vec<Option<f64>> = operands
            .iter()
            .map(|operand| match self.lowered[*operand] {
                Lowered::Number(value) => Some(value),
                Lowered::Tensor(_) => None,
            })
            .collect();
        let folded = match numbers[..] {
            [Some(x)] => operation.apply_unary(x, parameter),
            [Some(a), Some(b)] => operation.apply_binary(a, b),
            _ => None,
        };
        if let Some(folded) = folded {
            return Lowered::Number(folded);
        }
        let node = match operands.len() {
            1 => Node::Unary(operation, 0, parameter),
            _ => Node::Binary(operation, 0, 1),
        };
        self.mapped(operation.name(), place, operands, node)
    }

    /// A formula of one operation over operands.
    fn mapped(&mut self, name: &str, place: NodeId, operands: &[NodeId], node: Node) -> Lowered {
        let shape = self.sizes(place);
        let mut formula = Formula::default();
        let mut inputs = Vec::new();
        for operand in operands {
            formula.nodes.push(match self.lowered[*operand] {
                Lowered::Number(value) => Node::Number(value),
                Lowered::Tensor(_) => {
                    inputs.push(self.spread(*operand, &shape));
                    Node::Variable(inputs.len() - 1)
                }
            });
        }
        formula.nodes.push(node);
        formula.outputs.push(formula.nodes.len() - 1);
        if inputs.is_empty() {
            return Lowered::Number(formula.evaluate::<f64>(&[])[0]);
        }
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        Lowered::Tensor(Tensor::map_formula(name, formula.into(), &inputs))
    }

    fn function(&self, function: Function, operand: NodeId) -> Tensor {
        let tensor = self.tensor(operand);
        let all: Vec<Label> = (0..tensor.rank()).collect();
        match function {
            Function::Sum => contracted(vec![all], vec![], &[&tensor]),
            Function::Norm1 => contracted(vec![all], vec![], &[&tensor.unary(Operation::Abs, 0.0)]),
            Function::Norm2 => squares(&tensor).unary(Operation::Sqrt, 0.0),
            Function::Softmax => {
                let exponentials = tensor.unary(Operation::Exp, 0.0);
                let total = contracted(vec![vec![0]], vec![], &[&exponentials]);
                contracted(vec![vec![0], vec![]], vec![0], &[&exponentials, &total.unary(Operation::Recip, 0.0)])
            }
            Function::Trace => contracted(vec![vec![0, 0]], vec![], &[&tensor]),
            Function::Diagonal if tensor.rank() == 1 => contracted(vec![vec![0]], vec![0, 0], &[&tensor]),
            Function::Diagonal => contracted(vec![vec![0, 0]], vec![0], &[&tensor]),
            Function::Inverse | Function::Determinant | Function::LogDeterminant => {
                // The function of a transpose is that of the matrix, transposed: so both are known to be one.
                match self.expression.parts[operand] {
                    Syntax::Transpose(inner) => {
                        let value = of_matrix(function, &self.tensor(inner));
                        if function == Function::Inverse { transposed(&value) } else { value }
                    }
                    _ => of_matrix(function, &tensor),
                }
            }
        }
    }

    fn einsum(&self, notation: &str, operands: &[NodeId]) -> Tensor {
        let (left, output) = notation.split_once("->").unwrap_or((notation, ""));
        let mut letters: Vec<char> = Vec::new();
        let mut labels = |list: &str| -> Vec<Label> {
            let mut label = |letter: char| {
                letters.iter().position(|known| *known == letter).unwrap_or_else(|| {
                    letters.push(letter);
                    letters.len() - 1
                })
            };
            list.trim().chars().map(&mut label).collect()
        };
        let lists: Vec<Vec<Label>> = left.split(',').map(&mut labels).collect();
        let output = labels(output);
        let tensors: Vec<Tensor> = operands.iter().map(|operand| self.tensor(*operand)).collect();
        contracted(lists, output, &tensors.iter().collect::<Vec<_>>())
    }
}

/// A product whose extents are those of its operands.
fn contracted(operands: Vec<Vec<Label>>, output: Vec<Label>, tensors: &[&Tensor]) -> Tensor {
    let count = operands.iter().flatten().max().map_or(0, |label| label + 1);
    let mut extents = vec![1; count];
    for (labels, tensor) in operands.iter().zip(tensors) {
        labels.iter().zip(tensor.shape().iter()).for_each(|(label, size)| extents[*label] = *size);
    }
    let einsum = Einsum::new(operands, output, extents);
    if einsum.is_identity() { tensors[0].clone() } else { Tensor::contract(einsum, tensors) }
}

fn transposed(matrix: &Tensor) -> Tensor {
    contracted(vec![vec![0, 1]], vec![1, 0], &[matrix])
}

fn scaled_by(number: &Tensor, tensor: &Tensor) -> Tensor {
    let all: Vec<Label> = (0..tensor.rank()).collect();
    contracted(vec![vec![], all.clone()], all, &[number, tensor])
}

fn squares(tensor: &Tensor) -> Tensor {
    let all: Vec<Label> = (0..tensor.rank()).collect();
    contracted(vec![all.clone(), all], vec![], &[tensor, tensor])
}
