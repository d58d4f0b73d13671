//! Arguments of the expression commands: an expression, and values of its variables.

use clap::Args;
use glassgrad::lang::{Expression, Span, parse};
use glassgrad::scalar::{Matrix, NodeId, Tape, Var, derivatives, hessian};
use glassgrad::trace::{Trace, short};

use crate::failure::Failure;

/// The expression and the point.
#[derive(Args)]
pub(crate) struct Question {
    /// The expression, for example "ln(x1) + x1*x2 - sin(x2)".
    ///
    /// Subexpressions can be named, and there can be several results: "a = x*y; a + 1; a^2".
    #[arg(allow_hyphen_values = true)]
    expression: String,

    /// Values of the variables, for example x1=2,x2=5. A value can be an expression, such as pi/2.
    #[arg(long, value_name = "NAME=VALUE,...", allow_hyphen_values = true)]
    at: Vec<String>,
}

/// A question that was understood.
pub(crate) struct Problem {
    pub(crate) expression: Expression,
    pub(crate) point: Vec<f64>,
}

impl Question {
    pub(crate) fn understand(&self) -> Result<Problem, Failure> {
        let expression = parse(&self.expression).map_err(Failure::input)?;
        let given = self.given_values()?;
        for (name, _) in &given {
            if !expression.variables().contains(name) {
                return Err(unknown_variable(name, &expression));
            }
        }
        let mut point = Vec::new();
        for (variable, name) in expression.variables().iter().enumerate() {
            let value = given.iter().find(|(given, _)| given == name).map(|(_, value)| *value);
            point.push(value.ok_or_else(|| missing_value(&expression, variable))?);
        }
        Ok(Problem { expression, point })
    }

    /// The pairs of `--at`, in order.
    fn given_values(&self) -> Result<Vec<(String, f64)>, Failure> {
        let mut values: Vec<(String, f64)> = Vec::new();
        for pair in self.at.iter().flat_map(|list| list.split(',')).filter(|pair| !pair.trim().is_empty()) {
            let (name, text) = pair
                .split_once('=')
                .ok_or_else(|| Failure::Input(format!("--at {pair}: a name and a value are needed, as in x=2")))?;
            let (name, value) = (
                name.trim(),
                number_of(text).map_err(|reason| {
                    // Two pairs without a comma between them: "x=1 y=2".
                    let help =
                        if text.contains('=') { "\n  = help: separate pairs by commas, as in x=1,y=2" } else { "" };
                    let reason =
                        if help.is_empty() { reason } else { "a value is expected, not another pair".to_owned() };
                    Failure::Input(format!("--at {pair}: {reason}{help}"))
                })?,
            );
            if matches!(name, "e" | "pi") {
                return Err(Failure::Input(format!(
                    "--at {pair}: {name} is a constant; give the variable another name"
                )));
            }
            if value.is_nan() {
                return Err(Failure::Input(format!(
                    "--at {pair}: the value of {name} is NaN, and so would be every result"
                )));
            }
            if values.iter().any(|(earlier, _)| earlier == name) {
                return Err(Failure::Input(format!("--at {pair}: {name} already has a value")));
            }
            values.push((name.to_owned(), value));
        }
        Ok(values)
    }
}

/// A number, or an expression without variables.
pub(crate) fn number_of(text: &str) -> Result<f64, String> {
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

fn unknown_variable(name: &str, expression: &Expression) -> Failure {
    Failure::Input(format!("'{name}' is not a variable of the expression; {}", listed(expression)))
}

fn missing_value(expression: &Expression, variable: usize) -> Failure {
    let name = &expression.variables()[variable];
    let nodes = &expression.formula().nodes;
    let node = nodes.iter().position(|node| *node == glassgrad::formula::Node::Variable(variable)).unwrap_or(0);
    let place = underlined(expression, expression.span(node));
    Failure::Input(format!("there is no value for {name}\n{place}\n  = help: give it one with --at {name}=..."))
}

fn underlined(expression: &Expression, span: Span) -> String {
    glassgrad::lang::underline(expression.source(), span)
}

impl Problem {
    /// The numbers of the variables named in a list such as "x,y", or of all if there is none.
    pub(crate) fn variables(&self, wrt: Option<&str>) -> Result<Vec<usize>, Failure> {
        let Some(list) = wrt else {
            return Ok((0..self.point.len()).collect());
        };
        let number = |name: &str| self.expression.variables().iter().position(|variable| variable == name);
        list.split(',')
            .map(|name| number(name.trim()).ok_or_else(|| unknown_variable(name.trim(), &self.expression)))
            .collect()
    }

    pub(crate) fn name(&self, variable: usize) -> &str {
        &self.expression.variables()[variable]
    }

    /// Records the evaluation on a tape. A result that depends on no variable becomes a node too.
    pub(crate) fn record<'t>(&self, tape: &'t Tape<f64>) -> Vec<NodeId> {
        let results: Vec<Var<'t>> = self.expression.record(tape, &self.point);
        results.into_iter().map(|result| result.recorded_on(tape).into()).collect()
    }

    /// The derivatives of a result, counted from 0, in one variable, from order 0 to this order.
    pub(crate) fn derivatives(&self, result: usize, variable: usize, order: usize) -> Vec<f64> {
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
    pub(crate) fn hessian(&self, result: usize) -> Matrix<f64> {
        hessian(|x| self.expression.evaluate(x)[result], &self.point)
    }

    /// The point as text, such as "x1 = 2, x2 = 5".
    pub(crate) fn point_text(&self) -> String {
        let pairs = self.expression.variables().iter().zip(&self.point);
        pairs
            .map(|(name, value)| format!("{name} = {}", glassgrad::formula::number(*value)))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Why a result or its gradient is not finite, with the node where that began.
    pub(crate) fn not_finite(&self, trace: &Trace<'_>, output: NodeId) -> Option<Failure> {
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
    pub(crate) fn spans(&self) -> Vec<(NodeId, Span)> {
        // Recording once more maps nodes of the expression to nodes of the tape.
        let again = Tape::new();
        let variables: Vec<Var<'_>> = self.point.iter().map(|value| again.input(*value)).collect();
        let recorded = self.expression.formula().evaluate_all(&variables);
        let numbered = recorded.iter().enumerate();
        numbered.filter_map(|(node, number)| Some((number.id()?, self.expression.span(node)))).collect()
    }
}
