//! Tensor expressions with indices: sums of products whose factors carry labels.
//!
//! A label that repeats in the output of a term is a delta, one that no factor has is a broadcast, and one that the output
//! does not have is summed over. This is what every notation is written from.

use std::collections::HashMap;
use std::rc::Rc;

use crate::einsum::{Einsum, Label};
use crate::hashing::Fingerprint;
use crate::lang::matrix::{Function, Size};
use crate::ops::{Operation, Relation};
use crate::sorting::IndirectSort;

/// The most factors of one term: longer ones are not written out.
pub(super) const FACTORS: usize = 60;
/// The most terms of a sum over more than two axes that are multiplied by themselves.
const DISTRIBUTED: usize = 8;

/// What a factor is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    Symbol(String),
    /// A size as a number.
    Size(String),
    /// A row of the table, element by element, with its parameter.
    Elementwise(Operation, f64, Vec<Expression>),
    /// A choice by a comparison, element by element: left, right, taken, otherwise.
    Choice(Relation, Vec<Expression>),
    /// A function of one matrix.
    OfMatrix(Function, Expression),
    /// A sum, or a contraction that is raised to a power.
    Nested(Expression),
}

/// A factor of a term, raised to a power element by element.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Factor {
    pub(super) what: Rc<What>,
    pub(super) labels: Vec<Label>,
    pub(super) exponent: i32,
}

/// A product of factors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    pub(super) coefficient: f64,
    pub(super) factors: Vec<Factor>,
    pub(super) output: Vec<Label>,
    /// The size of each label.
    pub(super) extents: Vec<usize>,
}

/// A sum of terms of one shape; without terms it is zero.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expression {
    pub(super) shape: Vec<usize>,
    pub(super) terms: Vec<Term>,
}

/// The names of sizes: at the sizes at which expressions are built all are distinct.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(pub(super) HashMap<usize, Size>);

impl Names {
    pub(super) fn size(&self, extent: usize) -> Size {
        self.0.get(&extent).cloned().unwrap_or(Size::Number(extent))
    }
}

impl Factor {
    fn new(what: What, labels: Vec<Label>) -> Factor {
        Factor { what: Rc::new(what), labels, exponent: 1 }
    }
}

impl Term {
    /// Whether the output has a label of some factor summed over.
    pub(super) fn is_contraction(&self) -> bool {
        self.factors.iter().flat_map(|factor| &factor.labels).any(|label| !self.output.contains(label))
    }

    pub(super) fn binds(&self, label: Label) -> bool {
        self.factors.iter().any(|factor| factor.labels.contains(&label))
    }

    /// The number that a term is everywhere, if it has no factors and no deltas.
    fn number(&self) -> Option<f64> {
        let repeats = (1..self.output.len()).any(|slot| self.output[..slot].contains(&self.output[slot]));
        (self.factors.is_empty() && !repeats).then_some(self.coefficient)
    }
}

impl Expression {
    /// The same number everywhere.
    pub(super) fn number(shape: &[usize], value: f64) -> Expression {
        let labels: Vec<Label> = (0..shape.len()).collect();
        let term = Term { coefficient: value, factors: Vec::new(), output: labels, extents: shape.to_vec() };
        Expression { shape: shape.to_vec(), terms: if value == 0.0 { Vec::new() } else { vec![term] } }
    }

    /// The unit matrix.
    pub(super) fn unit(size: usize) -> Expression {
        let term = Term { coefficient: 1.0, factors: Vec::new(), output: vec![0, 0], extents: vec![size] };
        Expression { shape: vec![size; 2], terms: vec![term] }
    }

    /// One factor by itself.
    pub(super) fn factor(what: What, shape: &[usize]) -> Expression {
        let labels: Vec<Label> = (0..shape.len()).collect();
        let factors = vec![Factor::new(what, labels.clone())];
        let term = Term { coefficient: 1.0, factors, output: labels, extents: shape.to_vec() };
        Expression { shape: shape.to_vec(), terms: vec![term] }
    }

    /// The number that this is everywhere, if it is one.
    pub(super) fn as_number(&self) -> Option<f64> {
        match &self.terms[..] {
            [] => Some(0.0),
            [only] => only.number(),
            _ => None,
        }
    }

    pub(super) fn scaled(mut self, factor: f64) -> Expression {
        if factor == 0.0 {
            self.terms.clear();
        }
        self.terms.iter_mut().for_each(|term| term.coefficient *= factor);
        self
    }

    /// The sum of expressions of one shape; like terms become one.
    pub(super) fn sum(shape: &[usize], expressions: impl IntoIterator<Item = Expression>) -> Expression {
        let mut terms: Vec<Term> = Vec::new();
        for term in expressions.into_iter().flat_map(|expression| expression.terms) {
            let like = |other: &&mut Term| {
                other.output == term.output && other.factors == term.factors && other.extents == term.extents
            };
            match terms.iter_mut().find(like) {
                Some(other) => other.coefficient += term.coefficient,
                None => terms.push(term),
            }
        }
        terms.retain(|term| term.coefficient != 0.0);
        Expression { shape: shape.to_vec(), terms }
    }

    /// This as one term: a sum becomes a factor, and a number that all of it has comes out.
    fn as_term(&self) -> Term {
        match &self.terms[..] {
            [only] => only.clone(),
            terms => {
                // A sum starts without a sign.
                let first = terms.first().map_or(1.0, |term| term.coefficient);
                let all = terms.iter().all(|term| term.coefficient.abs() == first.abs());
                let common = if all { first } else { first.signum() };
                let labels: Vec<Label> = (0..self.shape.len()).collect();
                let inner = self.clone().scaled(1.0 / common);
                let factors = vec![Factor::new(What::Nested(inner), labels.clone())];
                Term { coefficient: common, factors, output: labels, extents: self.shape.clone() }
            }
        }
    }

    /// A product as it was put down: its operands stay apart.
    pub(super) fn unmultiplied(einsum: &Einsum, operands: &[Expression]) -> Expression {
        let factor = |(own, labels): (&Expression, &Vec<Label>)| match &own.terms[..] {
            [Term { coefficient: 1.0, factors, output, .. }]
                if factors.len() == 1 && factors[0].exponent == 1 && factors[0].labels.len() == output.len() =>
            {
                let at = |label: &Label| output.iter().position(|other| other == label).map(|slot| labels[slot]);
                match factors[0].labels.iter().map(at).collect::<Option<Vec<Label>>>() {
                    Some(labels) => Factor { labels, ..factors[0].clone() },
                    None => Factor::new(What::Nested(own.clone()), labels.clone()),
                }
            }
            _ => Factor::new(What::Nested(own.clone()), labels.clone()),
        };
        let factors = operands.iter().zip(&einsum.operands).map(factor).collect();
        let Einsum { coefficient, output, extents, .. } = einsum.clone();
        Expression {
            shape: einsum.output_shape().to_vec(),
            terms: vec![Term { coefficient, factors, output, extents }],
        }
    }

    /// A product in Einstein notation. A sum alone is distributed over; among others it is a factor.
    pub(super) fn product(einsum: &Einsum, operands: &[Expression], names: &Names) -> Expression {
        let shape = einsum.output_shape().to_vec();
        if operands.iter().any(|operand| operand.terms.is_empty()) || einsum.coefficient == 0.0 {
            return Expression { shape, terms: Vec::new() };
        }
        if let [only] = operands {
            let each = only.terms.iter().map(|term| Expression {
                shape: shape.clone(),
                terms: vec![normal(substituted(einsum, std::slice::from_ref(term), names), names)],
            });
            return Expression::sum(&shape, each);
        }
        // A sum over more than two axes is no matrix: each of its terms is multiplied by itself.
        let wide = |operand: &Expression| operand.shape.len() > 2 && (2..=DISTRIBUTED).contains(&operand.terms.len());
        if let Some(place) = operands.iter().position(wide) {
            let each = operands[place].terms.iter().map(|term| {
                let mut operands = operands.to_vec();
                operands[place].terms = vec![term.clone()];
                Expression::product(einsum, &operands, names)
            });
            return Expression::sum(&shape, each.collect::<Vec<_>>());
        }
        let terms: Vec<Term> = operands.iter().map(Expression::as_term).collect();
        let term = normal(substituted(einsum, &terms, names), names);
        Expression { shape, terms: vec![term] }.distributed(names)
    }

    /// A term that is a sum by itself, in any order of axes, becomes the terms of the sum.
    fn distributed(self, names: &Names) -> Expression {
        let [only] = &self.terms[..] else { return self };
        let [factor] = &only.factors[..] else { return self };
        let What::Nested(inner) = &*factor.what else { return self };
        if factor.exponent != 1 {
            return self;
        }
        let einsum = Einsum::new(vec![factor.labels.clone()], only.output.clone(), only.extents.clone());
        Expression::product(&einsum.scaled(only.coefficient), std::slice::from_ref(inner), names)
    }

    /// A power, element by element.
    pub(super) fn power(&self, exponent: i32) -> Expression {
        match (exponent, self.as_number()) {
            (0, _) => return Expression::number(&self.shape, 1.0),
            (1, _) => return self.clone(),
            (_, Some(value)) if value != 0.0 => return Expression::number(&self.shape, value.powi(exponent)),
            _ => {}
        }
        if let [only] = &self.terms[..]
            && !only.is_contraction()
            && (0..only.output.len()).all(|slot| !only.output[..slot].contains(&only.output[slot]))
        {
            let mut term = only.clone();
            term.coefficient = term.coefficient.powi(exponent);
            term.factors.iter_mut().for_each(|factor| factor.exponent *= exponent);
            return Expression { shape: self.shape.clone(), terms: vec![term] };
        }
        // The number in front of a contraction comes out of the power.
        let (coefficient, inner) = match &self.terms[..] {
            [only] => {
                let inner = Term { coefficient: 1.0, ..only.clone() };
                (only.coefficient.powi(exponent), Expression { shape: self.shape.clone(), terms: vec![inner] })
            }
            _ => (1.0, self.clone()),
        };
        let mut power = Expression::factor(What::Nested(inner), &self.shape);
        power.terms[0].factors[0].exponent = exponent;
        power.scaled(coefficient)
    }

    /// How long this is when it is written out, in factors.
    pub(super) fn length(&self) -> usize {
        let of = |factor: &Factor| match &*factor.what {
            What::Elementwise(_, _, inner) | What::Choice(_, inner) => {
                1 + inner.iter().map(Expression::length).sum::<usize>()
            }
            What::OfMatrix(_, inner) | What::Nested(inner) => 1 + inner.length(),
            _ => 1,
        };
        self.terms.iter().map(|term| 1 + term.factors.iter().map(of).sum::<usize>()).sum()
    }
}

/// The product of terms: the labels of their outputs become those that they are used with.
fn substituted(einsum: &Einsum, operands: &[Term], names: &Names) -> Term {
    let mut classes = Classes((0..einsum.extents.len()).collect());
    let mut extents = einsum.extents.clone();
    let mut coefficient = einsum.coefficient;
    let mut factors: Vec<Factor> = Vec::new();
    for (own, inner) in einsum.operands.iter().zip(operands) {
        let first = extents.len();
        classes.0.extend(first..first + inner.extents.len());
        extents.extend_from_slice(&inner.extents);
        coefficient *= inner.coefficient;
        for (slot, label) in inner.output.iter().enumerate() {
            classes.join(own[slot], first + label);
        }
        for factor in &inner.factors {
            let labels = factor.labels.iter().map(|label| first + label).collect();
            factors.push(Factor { labels, ..factor.clone() });
        }
    }
    for factor in &mut factors {
        factor.labels.iter_mut().for_each(|label| *label = classes.find(*label));
    }
    let output: Vec<Label> = einsum.output.iter().map(|label| classes.find(*label)).collect();
    // A label that was summed over and that nothing has any more counts its values.
    let mut summed: Vec<Label> = einsum.operands.iter().flatten().map(|label| classes.find(*label)).collect();
    summed.sort_unstable();
    summed.dedup();
    let mut term = Term { coefficient, factors, output, extents };
    for label in summed {
        if !term.output.contains(&label) && !term.binds(label) {
            count(&mut term, label, names);
        }
    }
    term
}

/// Multiplies a term with the number of values of a label.
fn count(term: &mut Term, label: Label, names: &Names) {
    match names.size(term.extents[label]) {
        Size::Name(name) => term.factors.push(Factor::new(What::Size(name), Vec::new())),
        _ => term.coefficient *= term.extents[label] as f64,
    }
}

struct Classes(Vec<usize>);

impl Classes {
    fn find(&self, mut label: usize) -> usize {
        while self.0[label] != label {
            label = self.0[label];
        }
        label
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        self.0[one.max(other)] = one.min(other);
    }
}

/// A term with equal factors as powers, in a canonical order.
fn normal(term: Term, names: &Names) -> Term {
    let labels: Vec<Label> = (0..term.extents.len()).filter(|label| term.binds(*label)).collect();
    let mut term = with_powers(term);
    // A label that was summed over a factor which cancels counts its values.
    for label in labels {
        if !term.output.contains(&label) && !term.binds(label) {
            count(&mut term, label, names);
        }
    }
    ordered(with_powers(term))
}

/// Equal factors over the same labels become powers, and cancel where these add up to none.
fn with_powers(mut term: Term) -> Term {
    let mut factors: Vec<Factor> = Vec::new();
    for factor in term.factors {
        let same = |other: &&mut Factor| other.what == factor.what && other.labels == factor.labels;
        match factors.iter_mut().find(same) {
            Some(other) => other.exponent += factor.exponent,
            None => factors.push(factor),
        }
    }
    factors.retain(|factor| factor.exponent != 0);
    term.factors = factors;
    term
}

/// Factors in order of what they are, labels numbered by appearance in the output and then in the factors.
fn ordered(term: Term) -> Term {
    // Symbols stand before functions, and these before sums, as people write them.
    let place = |factor: &Factor| match *factor.what {
        What::Size(_) => 0,
        What::Symbol(_) => 1,
        What::OfMatrix(..) => 2,
        What::Elementwise(..) | What::Choice(..) => 3,
        What::Nested(_) => 4,
    };
    let key = |factor: &Factor| format!("{}{:?}{}", place(factor), factor.what, factor.exponent);
    let keys: Vec<String> = term.factors.iter().map(key).collect();
    let shades = shades(&term, &keys);
    let mut numbers: Vec<Option<Label>> = vec![None; term.extents.len()];
    let mut extents = Vec::new();
    let number = |label: Label, numbers: &mut Vec<Option<Label>>, extents: &mut Vec<usize>| {
        *numbers[label].get_or_insert_with(|| {
            extents.push(term.extents[label]);
            extents.len() - 1
        })
    };
    let output: Vec<Label> = term.output.iter().map(|label| number(*label, &mut numbers, &mut extents)).collect();
    let mut left: Vec<usize> = (0..term.factors.len()).collect();
    let mut factors = Vec::new();
    while !left.is_empty() {
        let rank = |place: &usize| {
            let labels: Vec<Label> =
                term.factors[*place].labels.iter().map(|label| numbers[*label].unwrap_or(Label::MAX)).collect();
            (keys[*place].clone(), labels, shades[*place])
        };
        let next = (0..left.len()).min_by_key(|k| rank(&left[*k])).unwrap_or(0);
        let factor = &term.factors[left.remove(next)];
        let labels = factor.labels.iter().map(|label| number(*label, &mut numbers, &mut extents)).collect();
        factors.push(Factor { labels, ..factor.clone() });
    }
    Term { coefficient: term.coefficient, factors, output, extents }
}

/// A colour for each factor that distinguishes it from others of its kind by its connections, independent of the numbering:
/// labels are coloured by their places in the output, then by the factors that have them, and so on (colour refinement).
fn shades(term: &Term, keys: &[String]) -> Vec<u64> {
    let mix = |words: &[u64]| {
        let mut hash = Fingerprint::default();
        words.iter().for_each(|word| hash.word(*word));
        hash.finish() as u64
    };
    let own: Vec<u64> = keys
        .iter()
        .map(|key| {
            let mut hash = Fingerprint::default();
            hash.text(key);
            hash.finish() as u64
        })
        .collect();
    let places = |label: Label| (0..term.output.len()).filter(move |slot| term.output[*slot] == label);
    let first = |label: Label| mix(&places(label).map(|slot| slot as u64).chain([u64::MAX]).collect::<Vec<u64>>());
    let mut colours: Vec<u64> = (0..term.extents.len()).map(first).collect();
    let shade = |colours: &[u64], factor: usize| {
        let labels = term.factors[factor].labels.iter().map(|label| colours[*label]);
        mix(&[own[factor]].into_iter().chain(labels).collect::<Vec<u64>>())
    };
    for _ in 0..term.factors.len() {
        let current: Vec<u64> = (0..term.factors.len()).map(|factor| shade(&colours, factor)).collect();
        let next = |label: Label| {
            let mut words: Vec<u64> = Vec::new();
            for (factor, shade) in term.factors.iter().zip(&current) {
                let axes = (0..factor.labels.len()).filter(|axis| factor.labels[*axis] == label);
                words.extend(axes.map(|axis| mix(&[*shade, axis as u64])));
            }
            words.indirect_sort();
            words.push(colours[label]);
            mix(&words)
        };
        colours = (0..term.extents.len()).map(next).collect();
    }
    (0..term.factors.len()).map(|factor| shade(&colours, factor)).collect()
}
