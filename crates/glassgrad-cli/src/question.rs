//! Arguments of the expression commands: an expression, and values of its variables.

use clap::Args;
use glassgrad::lang::{Expression, parse};
use glassgrad_studio::problem::{number_of, underlined, unknown_variable};

pub(crate) use glassgrad_studio::problem::Problem;

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

fn missing_value(expression: &Expression, variable: usize) -> Failure {
    let name = &expression.variables()[variable];
    let nodes = &expression.formula().nodes;
    let node = nodes.iter().position(|node| *node == glassgrad::formula::Node::Variable(variable)).unwrap_or(0);
    let place = underlined(expression, expression.span(node));
    Failure::Input(format!("there is no value for {name}\n{place}\n  = help: give it one with --at {name}=..."))
}
