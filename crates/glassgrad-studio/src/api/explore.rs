//! An expression at a point, with everything that both sweeps do.

use std::collections::BTreeMap;

use glassgrad::formula::{mathml, number};
use glassgrad::lang::parse;
use glassgrad::picture;
use glassgrad::scalar::{NodeId, Tape};
use glassgrad::trace::{ForwardRow, ReverseStep, Trace, adjoint_of, json_number, short, tangent_of};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Refusal, short_enough, units};
use crate::problem::{Problem, number_of};

/// The largest graph that the page draws.
const MOST_NODES: usize = 300;
/// The highest order of derivative that the page shows.
const HIGHEST_ORDER: usize = 20;
/// The most variables for which second derivatives are shown.
const LARGEST_HESSIAN: usize = 24;

/// A question about an expression.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExploreRequest {
    expression: String,
    /// Values of variables; those that are not given are 1.
    #[serde(default)]
    at: BTreeMap<String, Given>,
    /// The result that is differentiated, counted from 1.
    #[serde(default = "first")]
    output: usize,
    /// The variable of the forward sweep and of higher derivatives.
    wrt: Option<String>,
    /// The highest order of derivative.
    #[serde(default = "first")]
    order: usize,
    /// The ranges of plots, by variable.
    #[serde(default)]
    pub(super) ranges: BTreeMap<String, [f64; 2]>,
}

fn first() -> usize {
    1
}

/// A value: a number, or an expression without variables.
#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Number(f64),
    Text(String),
}

impl ExploreRequest {
    /// The expression at its point.
    pub(super) fn problem(&self) -> Result<Problem, Refusal> {
        short_enough(&self.expression)?;
        let expression = parse(&self.expression)?;
        if expression.formula().nodes.len() > 2 * MOST_NODES {
            return Err(Refusal::new(format!("the expression has too many parts; the studio draws {MOST_NODES}")));
        }
        let mut point = Vec::new();
        for name in expression.variables() {
            let value = match self.at.get(name) {
                None => 1.0,
                Some(Given::Number(value)) => *value,
                Some(Given::Text(text)) => {
                    short_enough(text)?;
                    number_of(text).map_err(|reason| Refusal::new(format!("the value of {name}: {reason}")))?
                }
            };
            if value.is_nan() {
                return Err(Refusal::new(format!("the value of {name} is NaN, and so would be every result")));
            }
            point.push(value);
        }
        Ok(Problem { expression, point })
    }

    /// The chosen result, counted from 0.
    pub(super) fn index(&self, problem: &Problem) -> Result<usize, Refusal> {
        let count = problem.expression.outputs().len();
        self.output
            .checked_sub(1)
            .filter(|index| *index < count)
            .ok_or_else(|| Refusal::new(format!("there is no result {}; the expression has {count}", self.output)))
    }

    /// The highest order of derivative that is shown.
    pub(super) fn order(&self) -> Result<usize, Refusal> {
        match (1..=HIGHEST_ORDER).contains(&self.order) {
            true => Ok(self.order),
            false => Err(Refusal::new(format!("the studio shows derivatives of orders 1 to {HIGHEST_ORDER}"))),
        }
    }

    /// The range over which a variable is plotted.
    pub(super) fn range(&self, problem: &Problem, variable: usize) -> Result<(f64, f64), Refusal> {
        let (name, value) = (problem.name(variable), problem.point[variable]);
        let usual = if value.is_finite() { (2.0 * value.abs()).max(5.0) } else { 5.0 };
        let [low, high] = self.ranges.get(name).copied().unwrap_or([-usual, usual]);
        match low < high && (high - low).is_finite() {
            true => Ok((low, high)),
            false => Err(Refusal::new(format!(
                "the range of {name} goes from {low} to {high}; its first number is the lower one"
            ))),
        }
    }

    /// The chosen variable, or the first; none where there is none.
    pub(super) fn variable(&self, problem: &Problem) -> Result<Option<usize>, Refusal> {
        let names = problem.expression.variables();
        match &self.wrt {
            None => Ok((!names.is_empty()).then_some(0)),
            Some(wrt) => match names.iter().position(|name| name == wrt) {
                Some(found) => Ok(Some(found)),
                None => Err(Refusal::new(format!("'{wrt}' is not a variable of the expression"))),
            },
        }
    }
}

/// Everything about an expression at a point.
pub(crate) fn answer(asked: &ExploreRequest) -> Result<Value, Refusal> {
    let problem = asked.problem()?;
    let index = asked.index(&problem)?;
    let variable = asked.variable(&problem)?;
    asked.order()?;
    let tape = Tape::new();
    let outputs = problem.record(&tape);
    if tape.len() > MOST_NODES {
        let message = format!("the graph has {} nodes, and the studio draws {MOST_NODES}", tape.len());
        return Err(Refusal::new(message));
    }
    let trace = Trace::new(&tape);
    let output = outputs[index];
    let inputs: Vec<NodeId> = tape.ids().take(problem.point.len()).collect();
    let adjoints = tape.reverse(output);
    let names = problem.expression.variables();
    let gradient: Vec<Value> = names
        .iter()
        .zip(&inputs)
        .map(|(name, input)| with_shown(adjoints.of(*input), json!({ "variable": name, "math": mathml(name) })))
        .collect();
    let variables: Vec<Value> = names
        .iter()
        .zip(&problem.point)
        .map(|(name, value)| json!({ "name": name, "math": mathml(name), "value": json_number(*value), "shown": number(*value) }))
        .collect();
    let results: Vec<Value> = outputs
        .iter()
        .map(|output| with_shown(tape.value(*output), json!({ "label": trace.label(*output), "node": output.index() })))
        .collect();
    let plan = picture::plan(&trace, output).map_err(|error| Refusal::new(error.to_string()))?;
    Ok(json!({
        "expression": problem.expression.source(),
        "statements": problem.expression.source().split(';').filter(|part| !part.trim().is_empty()).map(mathml).collect::<Vec<_>>(),
        "variables": variables,
        "outputs": results,
        "output": asked.output,
        "value": json_number(tape.value(output)),
        "shown": short(tape.value(output)),
        "gradient": gradient,
        "wrt": variable.map(|variable| problem.name(variable)),
        "order": asked.order,
        "derivatives": variable.map(|variable| derivatives(&problem, index, variable, asked.order)),
        "hessian": hessian(&problem, index, asked.order),
        "nodes": nodes(&problem, &trace, &tape),
        "plan": plan,
        "forward": variable.map(|variable| forward(&trace, inputs[variable])),
        "evaluation": tape.ids().map(|id| evaluated(&trace, id)).collect::<Vec<_>>(),
        "reverse": reverse(&trace, output),
        "covered": covered(&trace, variable.map(|variable| inputs[variable]), output),
        "warning": problem.not_finite(&trace, output).map(|failure| failure.to_string()),
    }))
}

/// A number for programs and the same for people, beside what else is said.
fn with_shown(value: f64, mut beside: Value) -> Value {
    beside["value"] = json_number(value);
    beside["shown"] = short(value).into();
    beside
}

/// The derivatives from order 0 on.
fn derivatives(problem: &Problem, index: usize, variable: usize, order: usize) -> Vec<Value> {
    let series = problem.derivatives(index, variable, order);
    series.into_iter().enumerate().map(|(order, value)| with_shown(value, json!({ "order": order }))).collect()
}

/// The second derivatives, where they are requested and small enough to show.
fn hessian(problem: &Problem, index: usize, order: usize) -> Option<Value> {
    if order < 2 || problem.point.is_empty() || problem.point.len() > LARGEST_HESSIAN {
        return None;
    }
    let whole = problem.hessian(index);
    let rows = |write: fn(f64) -> Value| -> Vec<Value> {
        (0..whole.rows()).map(|row| whole.row(row).iter().map(|element| write(*element)).collect()).collect()
    };
    Some(
        json!({ "variables": problem.expression.variables(), "dense": rows(json_number), "shown": rows(|x| short(x).into()) }),
    )
}

/// The nodes with their operations, and their spans in the source.
fn nodes(problem: &Problem, trace: &Trace<'_>, tape: &Tape<f64>) -> Vec<Value> {
    let spans = problem.spans();
    tape.ids()
        .map(|id| {
            let place = spans.iter().find(|(node, _)| *node == id).map(|(_, span)| {
                let (start, end) = units(problem.expression.source(), span.start, span.end);
                json!([start, end])
            });
            let parents: Vec<Value> = tape
                .node(id)
                .parents()
                .zip(trace.partial_formulas(id))
                .map(|((parent, partial), formula)| {
                    let line = format!("∂{} / ∂{} = {formula} = {}", trace.label(id), trace.label(parent), short(partial));
                    with_shown(partial, json!({ "node": parent.index(), "formula": formula, "math": mathml(&line) }))
                })
                .collect();
            with_shown(
                tape.value(id),
                json!({ "label": trace.label(id), "expression": trace.expression(id), "place": place, "parents": parents,
                        "operation": tape.node(id).operation.name() }),
            )
        })
        .collect()
}

/// A line of equal things; what is empty or says the same as the one before is left out.
fn equation(parts: &[&str]) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        if kept.last() != Some(part) {
            kept.push(part);
        }
    }
    mathml(&kept.join(" = "))
}

fn evaluated(trace: &Trace<'_>, id: NodeId) -> Value {
    let (label, value) = (trace.label(id), short(trace.tape().value(id)));
    let is_input = trace.tape().node(id).operands.is_empty();
    let [expression, numbers] =
        if is_input { [String::new(), String::new()] } else { [trace.expression(id), trace.numbers(id)] };
    json!({
        "node": id.index(),
        "label": mathml(label),
        "expression": if is_input { "<math><mtext>input</mtext></math>".to_owned() } else { mathml(&expression) },
        "numbers": numbers,
        "shown": value,
        "math": equation(&[label, &expression, &numbers, &value]),
    })
}

/// The rows of the forward sweep from a variable.
fn forward(trace: &Trace<'_>, input: NodeId) -> Value {
    let row = |row: ForwardRow| {
        let tangent = short(row.tangent);
        let own = tangent_of(&row.label);
        let is_input = row.rule_numbers.is_empty();
        let rule = if is_input { "" } else { row.rule.as_str() };
        json!({
            "node": row.node.index(),
            "label": mathml(&own),
            "rule": if is_input { format!("<math><mtext>{}</mtext></math>", row.rule) } else { mathml(rule) },
            "numbers": row.rule_numbers,
            "tangent": json_number(row.tangent),
            "shown": tangent,
            "math": equation(&[&own, rule, &row.rule_numbers, &tangent]),
        })
    };
    json!({ "variable": trace.label(input), "rows": trace.forward(input).into_iter().map(row).collect::<Vec<_>>() })
}

/// The steps of the reverse sweep from an output.
fn reverse(trace: &Trace<'_>, output: NodeId) -> Value {
    let step = |step: ReverseStep| {
        let adjoint = short(step.adjoint);
        let own = adjoint_of(&step.label);
        let rule = if step.through.is_none() { "" } else { step.rule.as_str() };
        json!({
            "node": step.node.index(),
            "through": step.through.map(NodeId::index),
            "label": mathml(&own),
            "rule": if rule.is_empty() { format!("<math><mtext>{}</mtext></math>", step.rule) } else { mathml(rule) },
            "numbers": step.numbers,
            "adjoint": json_number(step.adjoint),
            "shown": adjoint,
            "math": equation(&[&own, rule, &step.numbers, &adjoint]),
        })
    };
    json!({ "output": trace.label(output), "steps": trace.reverse(output).into_iter().map(step).collect::<Vec<_>>() })
}

/// The nodes that each sweep reaches, and the orders in which it may go.
fn covered(trace: &Trace<'_>, input: Option<NodeId>, output: NodeId) -> Value {
    let tape = trace.tape();
    let names = |nodes: Vec<NodeId>| nodes.iter().map(|node| trace.label(*node)).collect::<Vec<_>>().join(", ");
    json!({
        "reachable": input.map(|input| names(tape.reachable(input))),
        "forward_order": input.map(|input| names(tape.order_from(input))),
        "ancestors": names(tape.ancestors(output)),
        "reverse_order": names(tape.order_towards(output)),
    })
}
