//! A question that was understood: the graph to differentiate, what will be held, and the indices of the derivative.

use super::points::{Kind, Leaves, Sizes};
use super::question::{Question, Unanswered};
use super::written::{Index, letter};
use crate::calculus;
use crate::diff::pullback;
use crate::expr::Tensor;
use crate::lang::SyntaxError;
use crate::lang::matrix::{MatrixExpression, Type, parse};
use crate::opt::contract::metric;

/// A question that was understood.
pub(super) struct Problem<'q> {
    pub(super) question: &'q Question,
    pub(super) expression: MatrixExpression,
    /// The type of the symbol to differentiate by.
    pub(super) variable: Type,
    pub(super) numbers: Vec<(String, usize)>,
    pub(super) sizes: Sizes,
    /// Small distinct sizes, from which extents are mapped back to names.
    pub(super) small: Sizes,
}

impl<'q> Problem<'q> {
    pub(super) fn understand(question: &'q Question) -> Result<Problem<'q>, Unanswered> {
        let Question { source, wrt, order, declared, limit } = question;
        let expression = parse(source, declared)?;
        let Some(variable) = declared.shape(wrt).map(Type::of) else {
            let names: Vec<&str> = declared.names().collect();
            let message = format!("--wrt {wrt}: there is no such symbol; declared are {}", names.join(", "));
            return Err(Unanswered::Question(message));
        };
        if !expression.symbols().contains(&wrt.as_str()) {
            let used = match &expression.symbols()[..] {
                [] => "it has no symbols".to_owned(),
                several => format!("its symbols are {}", several.join(", ")),
            };
            let message = format!("--wrt {wrt}: the expression does not depend on it; {used}");
            return Err(Unanswered::Question(message));
        }
        if !(1..=2).contains(order) {
            let message =
                format!("--order {order}: there are the first and the second derivative, --order 1 and --order 2");
            return Err(Unanswered::Question(message));
        }
        if *order == 2 && !expression.shape().is_number() {
            let message = format!("the second derivative needs a number, and this is a {}", expression.shape());
            let error = SyntaxError::new(source, expression.span(), message);
            return Err(error.help("sum it, or ask for its first derivative with --order 1").into());
        }
        let numbers = declared.sizes();
        let sizes = Sizes::new(&numbers);
        // Nothing is built before the input is validated.
        for (place, own) in expression.types.iter().enumerate() {
            let elements =
                own.sizes.iter().fold(8_u128, |total, size| total.saturating_mul(sizes.number(size) as u128));
            if elements > *limit {
                let message = format!("this {own} takes {}", metric(elements, "B"));
                let error = SyntaxError::new(source, expression.spans[place], message);
                let limit = metric(*limit, "B");
                return Err(error
                    .help(format!("the limit is {limit}; raise it with --limit, or give smaller --sizes"))
                    .into());
            }
        }
        let small = sizes.distinct(&expression, 0);
        Ok(Problem { question, expression, variable, numbers, sizes, small })
    }

    /// The variable, and what is differentiated by it to get what is asked for.
    pub(super) fn traced(&self, leaves: &mut Leaves) -> (Tensor, Tensor) {
        let shape: Vec<usize> = self.variable.sizes.iter().map(|size| leaves.sizes.number(size)).collect();
        let variable = leaves.symbol(&self.question.wrt, &shape).wrapped();
        leaves.replace(&self.question.wrt, variable.clone());
        let value = leaves.lower(&self.expression);
        if self.question.order == 1 {
            return (variable, value);
        }
        let gradient = pullback(&[(&value, Tensor::from(1.0))], &[&variable], &[]).remove(0);
        let gradient = gradient.unwrap_or_else(|| Tensor::full(variable.shape().clone(), 0.0, variable.dtype()));
        (variable, gradient)
    }

    /// What will be held, before anything is computed.
    pub(super) fn planned(&self) -> Result<calculus::Planned, Unanswered> {
        let Question { limit, order, source, .. } = self.question;
        let mut leaves = Leaves::new(self.sizes.clone(), Kind::Placeholders);
        let (variable, output) = self.traced(&mut leaves);
        if let Some(error) = output.error() {
            return Err(error.clone().into());
        }
        let planned = calculus::planned(&output, &variable, *order == 2, *limit)?;
        let held = planned.explanation.candidates.iter().find(|candidate| candidate.chosen).map_or(0, |c| c.held_bytes);
        if held > *limit {
            let message = format!("the derivative of this takes {} also when it is compressed", metric(held, "B"));
            let error = SyntaxError::new(source, self.expression.span(), message);
            let limit = metric(*limit, "B");
            return Err(error
                .help(format!("the limit is {limit}; raise it with --limit, or give smaller --sizes"))
                .into());
        }
        Ok(planned)
    }

    /// The ranks of what is differentiated and of what it is differentiated by.
    pub(super) fn ranks(&self) -> (usize, usize) {
        (self.expression.shape().sizes.len(), self.variable.sizes.len())
    }

    /// The indices of the derivative. Those of a vector stand above, the first of a matrix above and the second below;
    /// those of what is differentiated by change sides.
    pub(super) fn slots(&self) -> Vec<Index> {
        let (value, variable) = self.ranks();
        let mut slots: Vec<Index> = Vec::new();
        let mut add = |count: usize, turned: bool| {
            for axis in 0..count {
                slots.push(Index { letter: letter(slots.len()), upper: (axis == 0) != turned });
            }
        };
        if self.question.order == 1 {
            add(value, false);
            add(variable, true);
        } else {
            add(variable, true);
            add(variable, true);
        }
        slots
    }

    pub(super) fn heading(&self) -> String {
        let slots = self.slots();
        let wrt = &self.question.wrt;
        let indexed = |name: &str, slots: &[Index]| match slots {
            [] => name.to_owned(),
            _ => format!("{name}_{}", slots.iter().map(|slot| slot.letter.as_str()).collect::<String>()),
        };
        let (value, variable) = self.ranks();
        match self.question.order {
            1 => format!("∂{}/∂{}", indexed("f", &slots[..value]), indexed(wrt, &slots[value..])),
            _ => format!("∂²f/∂{}∂{}", indexed(wrt, &slots[..variable]), indexed(wrt, &slots[variable..])),
        }
    }
}
