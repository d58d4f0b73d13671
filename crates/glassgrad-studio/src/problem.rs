//! An expression at a point.

use glassgrad::lang::{Expression, Span, parse};
use glassgrad::scalar::{Matrix, NodeId, Tape, Var, derivatives, hessian};
use glassgrad::trace::{Trace, short};

use crate::failure::Failure;

/// An expression, and the values of its variables.
pub struct Problem {
    pub expression: Expression,
    pub point: Vec<f64>,
}

/// A number, or an expression without variables.
pub fn number_of(text: &str) -> Result<f64, String> {
    if let Ok(number) = text.trim().parse::<f64>() {
        return Ok(number);
    }
    let expression = parse(text).map_err(|error| error.to_string())?;
    match expression.variables() {
        [] => Ok(expression.evaluate::<f64>(&[])[0]),
        [name, ..] => Err(format!("the value must be a number, and '{name}' is none")),
    }
}

fn listed(expression: &Expression) -> String {
    match expression.variables() {
        [] => "it has no variables".to_owned(),
        [only] => format!("its only variable is {only}"),
        several => format!("its variables are {}", several.join(", ")),
    }
}

/// The error for a name that the expression does not have.
pub fn unknown_variable(name: &str, expression: &Expression) -> Failure {
    Failure::Input(format!("'{name}' is not a variable of the expression; {}", listed(expression)))
}

/// The text of an expression with a part of it underlined.
pub fn underlined(expression: &Expression, span: Span) -> String {
    glassgrad::lang::underline(expression.source(), span)
}

impl Problem {
    /// The numbers of the variables named in a list such as "x,y", or of all if there is none.
    pub fn variables(&self, wrt: Option<&str>) -> Result<Vec<usize>, Failure> {
        let Some(list) = wrt else {
            return Ok((0..self.point.len()).collect());
        };
        let number = |name: &str| self.expression.variables().iter().position(|variable| variable == name);
        list.split(',')
            .map(|name| number(name.trim()).ok_or_else(|| unknown_variable(name.trim(), &self.expression)))
            .collect()
    }

    pub fn name(&self, variable: usize) -> &str {
        &self.expression.variables()[variable]
    }

    /// Records the evaluation on a tape. A result that depends on no variable becomes a node too.
    pub fn record<'t>(&self, tape: &'t Tape<f64>) -> Vec<NodeId> {
        let results: Vec<Var<'t>> = self.expression.record(tape, &self.point);
        results.into_iter().map(|result| result.recorded_on(tape).into()).collect()
    }

    /// The derivatives of a result, counted from 0, in one variable, from order 0 to this order.
    pub fn derivatives(&self, result: usize, variable: usize, order: usize) -> Vec<f64> {
        derivatives(
            |x| {
                let mut inputs: Vec<_> = self.point.iter().map(|value| glassgrad::c(*value)).collect();
                inputs[variable] = x;
                self.expression.evaluate(&inputs)[result]
            },
            self.point[variable],
            order,
        )
    }

    /// The second derivatives of a result, counted from 0.
    pub fn hessian(&self, result: usize) -> Matrix<f64> {
        hessian(|x| self.expression.evaluate(x)[result], &self.point)
    }

    /// The point as text, such as "x1 = 2, x2 = 5".
    pub fn point_text(&self) -> String {
        let pairs = self.expression.variables().iter().zip(&self.point);
        pairs
            .map(|(name, value)| format!("{name} = {}", glassgrad::formula::number(*value)))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Why a result or its gradient is not finite, with the node where that began.
    pub fn not_finite(&self, trace: &Trace<'_>, output: NodeId) -> Option<Failure> {
        let tape = trace.tape();
        let adjoints = tape.reverse(output);
        let fine = |id: NodeId| adjoints.of(id).is_finite();
        if tape.value(output).is_finite() && tape.ids().take(self.point.len()).all(fine) {
            return None;
        }
        if let Some(node) = trace.first_not_finite(output) {
            let (label, value) = (trace.label(node), tape.value(node));
            let place = self.place(node);
            let inputs = trace.numbers(node);
            let began = match tape.node(node).operands.is_empty() {
                true => format!("the input {label} is {value}"),
                false => format!("it began at {label} = {} = {inputs}, which is {value}", trace.expression(node)),
            };
            return Some(Failure::Result(format!("the value is not finite: {began}{place}")));
        }
        let (node, step) = trace.first_adjoint_not_finite(output)?;
        let partials = tape.node(node).parents().map(|(_, partial)| short(partial)).collect::<Vec<_>>().join(" and ");
        let place = self.place(node);
        let (label, expression) = (trace.label(node), trace.expression(node));
        Some(Failure::Result(format!(
            "the gradient is not finite: the adjoint of {} becomes {} at {label} = {expression}, whose local partial is {partials}{place}",
            step.label, step.adjoint
        )))
    }

    /// The text from which a node was recorded, underlined.
    fn place(&self, node: NodeId) -> String {
        let found = self.spans().into_iter().find(|(recorded, _)| *recorded == node);
        found.map_or(String::new(), |(_, span)| format!("\n{}", underlined(&self.expression, span)))
    }

    /// The nodes of the tape with the text from which each was recorded.
    pub fn spans(&self) -> Vec<(NodeId, Span)> {
        // Recording once more maps nodes of the expression to nodes of the tape.
        let again = Tape::new();
        let variables: Vec<Var<'_>> = self.point.iter().map(|value| again.input(*value)).collect();
        let recorded = self.expression.formula().evaluate_all(&variables);
        let numbered = recorded.iter().enumerate();
        numbered.filter_map(|(node, number)| Some((number.id()?, self.expression.span(node)))).collect()
    }
}
