//! An expression with indices as a list of statements over arrays, which every language writes in its own words.

use crate::calculator::indexed::{Expression, Names, Term, What};
use crate::calculator::question::Unanswered;
use crate::einsum::Label;
use crate::lang::matrix::{Function, Size};
use crate::ops::{Operation, Relation};

/// The origin of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Input,
    /// A size as a number.
    Size,
    Computed,
}

/// A dense array, row by row; without axes it is a number.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) name: String,
    pub(super) sizes: Vec<Size>,
    pub(super) origin: Origin,
}

/// The place of an array in the list of all.
pub(super) type ArrayId = usize;

/// An array with labels for its axes, raised to a power element by element.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub(super) array: ArrayId,
    pub(super) labels: Vec<Label>,
    pub(super) exponent: i32,
}

/// What an operation element by element is applied to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    Number(f64),
    Array(ArrayId),
}

#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A multiple of a product, summed over labels that the output does not have, and added to what is there.
    Product {
        coefficient: f64,
        operands: Vec<Operand>,
        output: Vec<Label>,
        sizes: Vec<Size>,
    },
    Elementwise(Operation, f64, Vec<Argument>),
    Choice(Relation, Vec<Argument>),
    OfMatrix(Function, ArrayId),
}

/// One statement: an array gets its elements.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) target: ArrayId,
    pub(super) work: Work,
    /// Whether the array has elements already, to which these are added.
    pub(super) adds: bool,
}

/// A function of arrays.
#[derive(Clone, Debug)]
pub(super) struct ArrayProgram {
    pub(super) arrays: Vec<Array>,
    pub(super) statements: Vec<Statement>,
    pub(super) result: ArrayId,
}

impl ArrayProgram {
    /// The program that computes an expression from inputs with these names and sizes.
    pub(super) fn new(
        inputs: &[(String, Vec<Size>)],
        expression: &Expression,
        names: &Names,
    ) -> Result<ArrayProgram, Unanswered> {
        let given = |(name, sizes): &(String, Vec<Size>)| Array {
            name: name.clone(),
            sizes: sizes.clone(),
            origin: Origin::Input,
        };
        let arrays = inputs.iter().map(given).collect();
        let mut builder = Builder { arrays, statements: Vec::new(), known: Vec::new(), names, unknown: None };
        let mut result = builder.expression(expression);
        if builder.arrays[result].origin != Origin::Computed {
            result = builder.copied(result);
        }
        if let Some(name) = builder.unknown {
            return Err(Unanswered::Question(format!("--emit: '{name}' is no argument of the code")));
        }
        Ok(ArrayProgram { arrays: builder.arrays, statements: builder.statements, result })
    }

    /// The names of all sizes that the statements mention.
    pub(super) fn sizes(&self) -> Vec<String> {
        let of_products = self.statements.iter().filter_map(|statement| match &statement.work {
            Work::Product { sizes, .. } => Some(sizes),
            _ => None,
        });
        let named = |size: &Size| match size {
            Size::Name(name) => Some(name.clone()),
            _ => None,
        };
        let numbers = self.arrays.iter().filter(|array| array.origin == Origin::Size).map(|array| array.name.clone());
        let all = self.arrays.iter().map(|array| &array.sizes).chain(of_products);
        all.flatten().filter_map(named).chain(numbers).collect()
    }

    pub(super) fn array(&self, place: ArrayId) -> &Array {
        &self.arrays[place]
    }
}

struct Builder<'a> {
    arrays: Vec<Array>,
    statements: Vec<Statement>,
    /// What was computed already.
    known: Vec<(Expression, ArrayId)>,
    names: &'a Names,
    /// A symbol that is no input.
    unknown: Option<String>,
}

impl Builder<'_> {
    fn sizes(&self, shape: &[usize]) -> Vec<Size> {
        shape.iter().map(|extent| self.names.size(*extent)).collect()
    }

    /// A new array with a name that no other has.
    fn array(&mut self, sizes: Vec<Size>) -> ArrayId {
        let free = |name: &String| !self.arrays.iter().any(|array| array.name == *name);
        let name = (1..).map(|number| format!("t{number}")).find(free).unwrap_or_default();
        self.arrays.push(Array { name, sizes, origin: Origin::Computed });
        self.arrays.len() - 1
    }

    fn copied(&mut self, place: ArrayId) -> ArrayId {
        let sizes = self.arrays[place].sizes.clone();
        let labels: Vec<Label> = (0..sizes.len()).collect();
        let target = self.array(sizes.clone());
        let operands = vec![Operand { array: place, labels: labels.clone(), exponent: 1 }];
        let work = Work::Product { coefficient: 1.0, operands, output: labels, sizes };
        self.statements.push(Statement { target, work, adds: false });
        target
    }

    /// The array of an expression.
    fn expression(&mut self, expression: &Expression) -> ArrayId {
        if let Some((_, place)) = self.known.iter().find(|(known, _)| known == expression) {
            return *place;
        }
        let place = match &expression.terms[..] {
            [Term { coefficient: 1.0, factors, output, .. }]
                if factors.len() == 1
                    && factors[0].exponent == 1
                    && factors[0].labels == *output
                    // A label that repeats is a delta: `aa->aa` keeps the diagonal alone.
                    && (1..output.len()).all(|slot| !output[..slot].contains(&output[slot])) =>
            {
                self.factor(&factors[0].what, &expression.shape)
            }
            [] => {
                let sizes = self.sizes(&expression.shape);
                let target = self.array(sizes.clone());
                let output = (0..sizes.len()).collect();
                let work = Work::Product { coefficient: 0.0, operands: Vec::new(), output, sizes };
                self.statements.push(Statement { target, work, adds: false });
                target
            }
            terms => {
                let products: Vec<Work> = terms.iter().map(|term| self.product(term)).collect();
                let sizes = self.sizes(&expression.shape);
                let target = self.array(sizes);
                for (number, work) in products.into_iter().enumerate() {
                    self.statements.push(Statement { target, work, adds: number > 0 });
                }
                target
            }
        };
        self.known.push((expression.clone(), place));
        place
    }

    /// The array of a factor without its power.
    fn factor(&mut self, what: &What, shape: &[usize]) -> ArrayId {
        let whole = Expression::factor(what.clone(), shape);
        if let Some((_, place)) = self.known.iter().find(|(known, _)| *known == whole) {
            return *place;
        }
        let place = match what {
            What::Symbol(name) => {
                let input = |array: &Array| array.name == *name && array.origin == Origin::Input;
                match self.arrays.iter().position(input) {
                    Some(place) => place,
                    None => {
                        self.unknown = Some(name.clone());
                        let sizes = self.sizes(shape);
                        self.array(sizes)
                    }
                }
            }
            What::Size(name) => {
                self.arrays.push(Array { name: name.clone(), sizes: Vec::new(), origin: Origin::Size });
                self.arrays.len() - 1
            }
            What::Nested(inner) => self.expression(inner),
            What::Elementwise(operation, parameter, inner) => {
                let arguments = inner.iter().map(|own| self.argument(own)).collect();
                self.computed(shape, Work::Elementwise(*operation, *parameter, arguments))
            }
            What::Choice(relation, inner) => {
                let arguments = inner.iter().map(|own| self.argument(own)).collect();
                self.computed(shape, Work::Choice(*relation, arguments))
            }
            What::OfMatrix(function, inner) => {
                let argument = self.expression(inner);
                self.computed(shape, Work::OfMatrix(*function, argument))
            }
        };
        self.known.push((whole, place));
        place
    }

    fn argument(&mut self, expression: &Expression) -> Argument {
        match expression.as_number() {
            Some(value) => Argument::Number(value),
            None => Argument::Array(self.expression(expression)),
        }
    }

    fn computed(&mut self, shape: &[usize], work: Work) -> ArrayId {
        let sizes = self.sizes(shape);
        let target = self.array(sizes);
        self.statements.push(Statement { target, work, adds: false });
        target
    }

    /// A term as a product of at most two operands that share summed labels; others are multiplied before, the cheapest pair
    /// first.
    fn product(&mut self, term: &Term) -> Work {
        let mut operands: Vec<Operand> = Vec::new();
        for factor in &term.factors {
            let shape: Vec<usize> = factor.labels.iter().map(|label| term.extents[*label]).collect();
            let array = self.factor(&factor.what, &shape);
            operands.push(Operand { array, labels: factor.labels.clone(), exponent: factor.exponent });
        }
        while operands.iter().filter(|operand| !operand.labels.is_empty()).count() > 2 {
            let Some((one, other, kept)) = cheapest_pair(&operands, term) else { break };
            let second = operands.remove(other);
            let first = operands.remove(one);
            let shape: Vec<usize> = kept.iter().map(|label| term.extents[*label]).collect();
            let sizes = self.sizes(&term.extents);
            let work = Work::Product { coefficient: 1.0, operands: vec![first, second], output: kept.clone(), sizes };
            let array = self.computed(&shape, work);
            operands.push(Operand { array, labels: kept, exponent: 1 });
        }
        let sizes = self.sizes(&term.extents);
        Work::Product { coefficient: term.coefficient, operands, output: term.output.clone(), sizes }
    }
}

/// Two operands, and the labels that their product keeps.
type Pair = (usize, usize, Vec<Label>);

/// The pair of operands whose product costs least among those that sum over a label which no other has, and the labels
/// that are left.
fn cheapest_pair(operands: &[Operand], term: &Term) -> Option<Pair> {
    let mut best: Option<(usize, Pair)> = None;
    for one in 0..operands.len() {
        for other in one + 1..operands.len() {
            let mut labels: Vec<Label> = [&operands[one].labels[..], &operands[other].labels[..]].concat();
            labels.sort_unstable();
            labels.dedup();
            let needed = |label: &Label| {
                let elsewhere =
                    (0..operands.len()).any(|k| k != one && k != other && operands[k].labels.contains(label));
                term.output.contains(label) || elsewhere
            };
            let kept: Vec<Label> = labels.iter().copied().filter(needed).collect();
            if kept.len() == labels.len() {
                continue;
            }
            let cost: usize = labels.iter().map(|label| term.extents[*label]).product();
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, (one, other, kept)));
            }
        }
    }
    best.map(|(_, pair)| pair)
}
