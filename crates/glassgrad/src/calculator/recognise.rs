//! Matrix notation: the terms of an expression with at most two free indices as products of matrices and vectors.
//!
//! A term is a graph: labels are its vertices, factors with two labels its edges, and factors with one label weights on a
//! vertex. A vertex that is summed over is eliminated: one edge and its weights are a matrix times a vector, two edges a
//! product of matrices with the weights as a diagonal in between, and a closed chain is a trace. What is left stands on the
//! free labels. Where more than two edges meet in a vertex that is summed over, there is no matrix notation.

use super::eliminate::{Edge, LabelGraph, Weight};
use super::indexed::{Expression, Factor, Names, Term, What};
use super::written::tidy;
use crate::einsum::Label;
use crate::lang::matrix::{Constant, Function, NodeId, Operator, Syntax, latex, text};
use crate::ops::Operation;

/// A matrix expression that was found, in the language in which expressions are typed.
pub(super) struct Recognised {
    parts: Vec<Syntax>,
    root: NodeId,
    /// Products that are numbers in front of other factors.
    numbers: Vec<NodeId>,
}

impl Recognised {
    pub(super) fn text(&self) -> String {
        text(&self.parts, self.root)
    }

    pub(super) fn latex(&self) -> String {
        latex(&self.parts, self.root, &self.numbers)
    }
}

/// The matrix notation of an expression, if it has one.
pub(super) fn matrix(expression: &Expression, names: &Names) -> Option<Recognised> {
    let mut builder = Builder { parts: Vec::new(), numbers: Vec::new(), names };
    let root = builder.sum(expression, true)?;
    Some(Recognised { parts: builder.parts, root, numbers: builder.numbers })
}

/// The parts of the result, under construction.
pub(super) struct Builder<'a> {
    parts: Vec<Syntax>,
    numbers: Vec<NodeId>,
    names: &'a Names,
}

impl Builder<'_> {
    pub(super) fn push(&mut self, part: Syntax) -> NodeId {
        self.parts.push(part);
        self.parts.len() - 1
    }

    pub(super) fn binary(&mut self, operator: Operator, first: NodeId, second: NodeId) -> NodeId {
        self.push(Syntax::Binary(operator, first, second))
    }

    pub(super) fn size(&self, extent: usize) -> String {
        self.names.size(extent).to_string()
    }

    /// A sum inside of another expression, in which a number stands for itself everywhere.
    fn expression(&mut self, expression: &Expression) -> Option<NodeId> {
        self.sum(expression, false)
    }

    /// The sum of all terms.
    fn sum(&mut self, expression: &Expression, outermost: bool) -> Option<NodeId> {
        let Expression { shape, terms } = expression;
        if shape.len() > 2 {
            return None;
        }
        if terms.is_empty() {
            return Some(self.constant(shape, 0.0));
        }
        let is_number =
            |term: &Term| Expression { shape: shape.clone(), terms: vec![term.clone()] }.as_number().is_some();
        let spread = outermost || terms.iter().all(is_number);
        let mut sum: Option<NodeId> = None;
        for term in terms {
            let positive = Term { coefficient: term.coefficient.abs(), ..term.clone() };
            let own = match is_number(term) {
                true if spread => self.constant(shape, term.coefficient.abs()),
                true => self.push(Syntax::Number(term.coefficient.abs())),
                false => self.term(&positive)?,
            };
            sum = Some(match (sum, term.coefficient < 0.0) {
                (None, false) => own,
                (None, true) => self.push(Syntax::Negative(own)),
                (Some(sum), false) => self.binary(Operator::Add, sum, own),
                (Some(sum), true) => self.binary(Operator::Sub, sum, own),
            });
        }
        sum
    }

    /// The same number everywhere.
    pub(super) fn constant(&mut self, shape: &[usize], value: f64) -> NodeId {
        let sizes = shape.iter().map(|extent| self.size(*extent)).collect();
        self.push(match shape.len() {
            0 => Syntax::Number(value),
            1 => Syntax::Constant(Constant::Vector(value), sizes),
            _ => Syntax::Constant(Constant::Matrix(value), sizes),
        })
    }

    /// What a factor is, without its power.
    fn factor(&mut self, factor: &Factor) -> Option<NodeId> {
        if factor.labels.len() > 2 {
            return None;
        }
        match &*factor.what {
            What::Symbol(name) => Some(self.push(Syntax::Symbol(name.clone()))),
            What::Size(name) => Some(self.push(Syntax::SizeOf(name.clone()))),
            What::Elementwise(Operation::Sqrt, _, inner) => {
                if let Some(norm) = self.norm(&inner[0]) {
                    return Some(norm);
                }
                let inner = self.argument(&inner[0])?;
                Some(self.push(Syntax::Elementwise(Operation::Sqrt, vec![inner], 0.0)))
            }
            What::Elementwise(operation, parameter, inner) => {
                let mut arguments = Vec::new();
                for expression in inner {
                    arguments.push(self.argument(expression)?);
                }
                Some(self.push(Syntax::Elementwise(*operation, arguments, *parameter)))
            }
            What::Choice(relation, inner) => {
                let mut operands = [0; 4];
                for (operand, expression) in operands.iter_mut().zip(inner) {
                    *operand = self.argument(expression)?;
                }
                Some(self.push(Syntax::Choice(*relation, operands)))
            }
            What::OfMatrix(function, inner) => {
                let inner = self.expression(inner)?;
                Some(self.push(Syntax::Function(*function, inner)))
            }
            What::Nested(inner) => self.expression(inner),
        }
    }

    /// An argument of a function element by element, for which a number stands for itself everywhere.
    fn argument(&mut self, expression: &Expression) -> Option<NodeId> {
        match expression.as_number() {
            Some(value) => Some(self.push(Syntax::Number(value))),
            None => self.expression(expression),
        }
    }

    /// What is squared and summed over, if a number is that of one factor.
    fn squared<'t>(&self, term: &'t Term) -> Option<&'t Factor> {
        let [factor] = &term.factors[..] else { return None };
        let distinct = (0..factor.labels.len()).all(|axis| !factor.labels[..axis].contains(&factor.labels[axis]));
        let fits = factor.exponent == 2 && term.output.is_empty() && !factor.labels.is_empty() && distinct;
        (fits && term.coefficient == 1.0).then_some(factor)
    }

    /// The norm whose square a number is.
    fn norm(&mut self, expression: &Expression) -> Option<NodeId> {
        let [term] = &expression.terms[..] else { return None };
        // A contraction inside of a root is a factor by itself.
        if let [Factor { what, labels, exponent: 1 }] = &term.factors[..]
            && labels.is_empty()
            && term.coefficient == 1.0
            && let What::Nested(inner) = &**what
        {
            return self.norm(inner);
        }
        let factor = self.squared(term)?;
        let inner = self.factor(factor)?;
        Some(self.push(Syntax::Function(Function::Norm2, inner)))
    }

    fn term(&mut self, term: &Term) -> Option<NodeId> {
        let plain = Term { coefficient: 1.0, ..term.clone() };
        if let Some(factor) = self.squared(&plain)
            && !(factor.labels.len() == 1 && matches!(*factor.what, What::Symbol(_)))
        {
            let inner = self.factor(factor)?;
            let norm = self.push(Syntax::Function(Function::Norm2, inner));
            let two = self.push(Syntax::Number(2.0));
            let square = self.binary(Operator::Power, norm, two);
            return Some(self.scaled(term.coefficient, Vec::new(), vec![square]));
        }
        let mut graph = LabelGraph { weights: vec![Vec::new(); term.extents.len()], ..LabelGraph::default() };
        for factor in &term.factors {
            let place = self.factor(factor)?;
            match factor.labels[..] {
                [] => graph.scalars.push((place, factor.exponent)),
                [label] => graph.weights[label].push(Weight { chain: vec![place], exponent: factor.exponent }),
                [from, to] => {
                    let chain = vec![self.raised(place, factor.exponent, Operator::ElementPower)];
                    graph.edges.push(Edge { from, to, chain });
                }
                _ => return None,
            }
        }
        let mut left: Vec<Label> = (0..term.extents.len()).filter(|label| !term.output.contains(label)).collect();
        while !left.is_empty() {
            left.retain(|label| graph.degree(*label) > 0 || !graph.weights[*label].is_empty());
            if !left.is_empty() {
                self.eliminate(&mut graph, &left, term)?;
            }
        }
        let main = self.on_free_labels(&mut graph, term)?;
        Some(self.scaled(term.coefficient, graph.scalars, main))
    }

    /// A number in front, factors without indices, and the rest.
    fn scaled(&mut self, coefficient: f64, scalars: Vec<(NodeId, i32)>, main: Vec<NodeId>) -> NodeId {
        let (mut chain, mut divisors) = (Vec::new(), Vec::new());
        // A fraction is written as one.
        let digits = tidy(coefficient);
        let (whole, divisor) = match digits.split_once('/').map(|(a, b)| (a.parse::<f64>(), b.parse::<f64>())) {
            Some((Ok(whole), Ok(divisor))) => (whole, Some(divisor)),
            _ => (coefficient, None),
        };
        if whole != 1.0 || (main.is_empty() && !scalars.iter().any(|(_, exponent)| *exponent > 0)) {
            chain.push(self.push(Syntax::Number(whole)));
        }
        divisors.extend(divisor.map(|divisor| self.push(Syntax::Number(divisor))));
        for (place, exponent) in scalars {
            let raised = self.raised(place, exponent.abs(), Operator::Power);
            if exponent > 0 { chain.push(raised) } else { divisors.push(raised) }
        }
        let leading = chain.first().copied().filter(|first| matches!(self.parts[*first], Syntax::Binary(..)));
        chain.extend(main);
        if chain.len() > 1 {
            self.numbers.extend(leading);
        }
        let mut whole = self.chained(chain);
        for divisor in divisors {
            whole = self.binary(Operator::Divide, whole, divisor);
        }
        whole
    }

    fn raised(&mut self, place: NodeId, exponent: i32, operator: Operator) -> NodeId {
        if exponent == 1 {
            return place;
        }
        let exponent = self.push(Syntax::Number(f64::from(exponent)));
        self.binary(operator, place, exponent)
    }

    /// A product of several; runs of one matrix are powers of it.
    pub(super) fn chained(&mut self, chain: Vec<NodeId>) -> NodeId {
        let mut chain = chain.into_iter().peekable();
        let mut product: Option<NodeId> = None;
        while let Some(first) = chain.next() {
            let mut count = 1;
            let is_matrix = match &self.parts[first] {
                Syntax::Symbol(_) => true,
                Syntax::Transpose(inner) => matches!(self.parts[*inner], Syntax::Symbol(_)),
                _ => false,
            };
            while is_matrix
                && let Some(next) = chain.peek()
                && text(&self.parts, first) == text(&self.parts, *next)
            {
                chain.next();
                count += 1;
            }
            let run = match count {
                1 => vec![first],
                2 => vec![first, first],
                _ => vec![self.raised(first, count, Operator::Power)],
            };
            for own in run {
                product = Some(product.map_or(own, |product| self.binary(Operator::Product, product, own)));
            }
        }
        product.unwrap_or_else(|| self.push(Syntax::Number(1.0)))
    }

    /// The transpose of a product of matrices.
    pub(super) fn transposed(&mut self, chain: Vec<NodeId>) -> Vec<NodeId> {
        let turn = |builder: &mut Self, place: NodeId| match builder.parts[place] {
            Syntax::Transpose(inner) => inner,
            // Among matrices a diagonal is one that was built from a vector.
            Syntax::Number(_) | Syntax::Constant(Constant::Eye, _) | Syntax::Function(Function::Diagonal, _) => place,
            _ => builder.push(Syntax::Transpose(place)),
        };
        chain.into_iter().rev().map(|place| turn(self, place)).collect()
    }

    /// The transpose of a product of matrices and, last, a vector.
    pub(super) fn on_its_side(&mut self, mut chain: Vec<NodeId>) -> Vec<NodeId> {
        let Some(vector) = chain.pop() else { return Vec::new() };
        let mut turned = vec![self.push(Syntax::Transpose(vector))];
        turned.extend(self.transposed(chain));
        turned
    }

    pub(super) fn turned(&mut self, edge: Edge) -> Edge {
        Edge { from: edge.to, to: edge.from, chain: self.transposed(edge.chain) }
    }

    /// The product of weights element by element, as a column: all ones if there are none.
    pub(super) fn vector(&mut self, mut weights: Vec<Weight>, extent: usize) -> Vec<NodeId> {
        match &weights[..] {
            [] => vec![self.constant(&[extent], 1.0)],
            [Weight { exponent: 1, .. }] => weights.remove(0).chain,
            _ => {
                let (above, below): (Vec<Weight>, Vec<Weight>) =
                    weights.into_iter().partition(|weight| weight.exponent > 0);
                let mut product: Option<NodeId> = None;
                for (weight, operator) in above
                    .into_iter()
                    .map(|w| (w, Operator::Times))
                    .chain(below.into_iter().map(|w| (w, Operator::Over)))
                {
                    let own = self.chained(weight.chain);
                    let own = self.raised(own, weight.exponent.abs(), Operator::ElementPower);
                    product = Some(match (product, operator) {
                        (None, Operator::Times) => own,
                        (None, _) => {
                            let one = self.push(Syntax::Number(1.0));
                            self.binary(Operator::Over, one, own)
                        }
                        (Some(product), operator) => self.binary(operator, product, own),
                    });
                }
                product.into_iter().collect()
            }
        }
    }

    pub(super) fn diagonal(&mut self, weights: Vec<Weight>) -> NodeId {
        let vector = self.vector(weights, 1);
        let vector = self.chained(vector);
        self.push(Syntax::Function(Function::Diagonal, vector))
    }

    /// The sum of the product of weights.
    pub(super) fn inner_product(&mut self, mut weights: Vec<Weight>) -> NodeId {
        if let [Weight { exponent: 2, chain }] = &weights[..]
            && let [only] = chain[..]
        {
            let turned = self.push(Syntax::Transpose(only));
            return self.binary(Operator::Product, turned, only);
        }
        if weights.len() > 1
            && let Some(short) = (0..weights.len())
                .filter(|place| weights[*place].exponent == 1)
                .min_by_key(|place| weights[*place].chain.len())
        {
            // The shortest stands in front on its side.
            let first = weights.remove(short).chain;
            let first = self.on_its_side(first);
            let rest = self.vector(weights, 1);
            return self.chained([first, rest].concat());
        }
        let vector = self.vector(weights, 1);
        let vector = self.chained(vector);
        self.push(Syntax::Function(Function::Sum, vector))
    }
}
