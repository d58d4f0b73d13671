//! `glassgrad grad`: value, gradient, Hessian, higher derivatives, and the tables behind them.

use clap::{Args, ValueEnum};
use glassgrad::formula::number;
use glassgrad::scalar::{Dual, Matrix, NodeId, Tape};
use glassgrad::trace::{Trace, adjoint_of, json_number, short, tangent_of};
use serde_json::{Map, Value, json};

use crate::failure::{Failure, print};
use crate::question::{Problem, Question};
use crate::table::Table;

/// The highest order of a derivative: beyond it the factorial is not a 64-bit number any more.
const HIGHEST_ORDER: usize = 170;

/// Compute the value and the derivatives of an expression
#[derive(Args)]
pub(crate) struct Grad {
    #[command(flatten)]
    question: Question,

    /// Mode of differentiation
    #[arg(long, value_enum, default_value_t = Mode::Reverse)]
    mode: Mode,

    /// Differentiate with respect to these variables only, for example x1,x2
    #[arg(long, value_name = "NAMES")]
    wrt: Option<String>,

    /// Compute all derivatives up to this order, with respect to one variable
    #[arg(long, value_name = "N")]
    order: Option<usize>,

    /// Compute the Hessian matrix
    #[arg(long)]
    hessian: bool,

    /// Show the evaluation traces of both sweeps, the nodes that they reach, and their orders
    #[arg(long)]
    table: bool,

    /// Show all fields of one node, for example v2
    #[arg(long, value_name = "NODE")]
    node: Option<String>,

    /// With several results, the one to differentiate, counted from 1
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    output: usize,

    /// One JSON object on standard output; what is not finite is written "NaN", "Infinity", "-Infinity"
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Mode {
    Forward,
    Reverse,
}

/// Everything that was computed.
struct Answer {
    value: f64,
    variables: Vec<usize>,
    gradient: Vec<f64>,
    hessian: Option<Matrix<f64>>,
    derivatives: Option<(usize, Vec<f64>)>,
}

/// A question with its answer, ready to be shown.
struct Work<'a> {
    problem: &'a Problem,
    trace: &'a Trace<'a>,
    outputs: &'a [NodeId],
    output: NodeId,
    answer: Answer,
    node: Option<NodeId>,
}

/// The node of a result, by its number.
pub(crate) fn chosen(outputs: &[NodeId], number: usize) -> Result<NodeId, Failure> {
    let chosen = number.checked_sub(1).and_then(|index| outputs.get(index));
    chosen
        .copied()
        .ok_or_else(|| Failure::Input(format!("there is no result {number}; the expression has {}", outputs.len())))
}

impl Grad {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let problem = self.question.understand()?;
        let tape = Tape::new();
        let outputs = problem.record(&tape);
        let output = chosen(&outputs, self.output)?;
        let trace = Trace::new(&tape);
        let answer = self.answer(&problem, &tape, output)?;
        let node = match &self.node {
            None => None,
            Some(label) => Some(trace.find(label).ok_or_else(|| no_such_node(&trace, label))?),
        };
        let work = Work { problem: &problem, trace: &trace, outputs: &outputs, output, answer, node };
        let shown = if self.json { format!("{}\n", Value::Object(self.as_json(&work))) } else { self.as_text(&work) };
        print(&shown)?;
        problem.not_finite(&trace, output).or_else(|| work.answer.not_finite(&problem)).map_or(Ok(()), Err)
    }

    fn answer(&self, problem: &Problem, tape: &Tape<f64>, output: NodeId) -> Result<Answer, Failure> {
        let variables = problem.variables(self.wrt.as_deref())?;
        let index = self.output - 1;
        let gradient = match self.mode {
            Mode::Reverse => {
                let adjoints = tape.reverse(output);
                let inputs: Vec<NodeId> = tape.ids().take(problem.point.len()).collect();
                variables.iter().map(|variable| adjoints.of(inputs[*variable])).collect()
            }
            Mode::Forward => variables
                .iter()
                .map(|variable| {
                    let seeded: Vec<Dual<f64>> = (0..)
                        .zip(&problem.point)
                        .map(|(k, x)| if k == *variable { Dual::variable(*x) } else { Dual::constant(*x) })
                        .collect();
                    problem.expression.evaluate(&seeded)[index].tangent()
                })
                .collect(),
        };
        Ok(Answer {
            value: tape.value(output),
            gradient,
            hessian: self.hessian.then(|| {
                let whole = problem.hessian(index);
                Matrix::from_fn(variables.len(), variables.len(), |i, j| whole[(variables[i], variables[j])])
            }),
            derivatives: self.order.map(|order| self.derivatives(problem, order)).transpose()?,
            variables,
        })
    }

    fn derivatives(&self, problem: &Problem, order: usize) -> Result<(usize, Vec<f64>), Failure> {
        if order > HIGHEST_ORDER {
            return Err(Failure::Input(format!("--order {order}: derivatives go up to order {HIGHEST_ORDER}")));
        }
        let [variable] = problem.variables(self.wrt.as_deref())?[..] else {
            let names = problem.expression.variables().join(", ");
            let message = format!("--order {order}: choose one of the variables {names} with --wrt");
            return Err(Failure::Input(message));
        };
        Ok((variable, problem.derivatives(self.output - 1, variable, order)))
    }

    fn as_text(&self, work: &Work<'_>) -> String {
        let Work { problem, trace, outputs, output, answer, node } = work;
        let mut text = format!("f = {}\n", problem.expression.source());
        if !problem.point.is_empty() {
            text += &format!("at {}\n", problem.point_text());
        }
        if outputs.len() > 1 {
            let (number, count, label) = (self.output, outputs.len(), trace.label(*output));
            text += &format!("result {number} of {count}, {label} (choose another with --output)\n");
        }
        text += &format!("\nvalue     {}\n", number(answer.value));
        for (k, (variable, partial)) in answer.variables.iter().zip(&answer.gradient).enumerate() {
            let head = if k == 0 { "gradient" } else { "" };
            text += &format!("{head:<9} ∂f/∂{} = {}\n", problem.name(*variable), number(*partial));
        }
        if let Some((variable, series)) = &answer.derivatives {
            for (k, derivative) in series.iter().enumerate() {
                let head = if k == 0 { format!("in {}", problem.name(*variable)) } else { String::new() };
                text += &format!("{head:<9} order {k}: {}\n", number(*derivative));
            }
        }
        if let Some(hessian) = &answer.hessian {
            text += "\nHessian\n";
            text += &hessian_table(problem, answer, hessian).render();
        }
        if self.table {
            text += &self.traces(problem, trace, *output, &answer.variables);
        }
        if let Some(node) = node {
            text += &members(trace, *node, *output, self.mode, answer.variables.first().copied());
        }
        text
    }

    /// The forward trace from each chosen variable (the first, if none was chosen), the reverse trace,
    /// and the sets and orders of both.
    fn traces(&self, problem: &Problem, trace: &Trace<'_>, output: NodeId, variables: &[usize]) -> String {
        let tape = trace.tape();
        let inputs: Vec<NodeId> = tape.ids().take(problem.point.len()).collect();
        let shown = if self.wrt.is_some() || self.mode == Mode::Forward { variables.len() } else { 1 };
        let mut text = String::new();
        for variable in variables.iter().take(shown) {
            text += &forward_table(trace, inputs[*variable]);
        }
        text += &reverse_table(trace, output);
        text += "\nWhat the sweeps cover\n";
        let names = |nodes: &[NodeId]| nodes.iter().map(|node| trace.label(*node)).collect::<Vec<_>>().join(", ");
        let edges = |nodes: &[NodeId]| {
            let edges = trace.edges_within(nodes);
            edges.iter().map(|(parent, child)| format!("({parent}, {child})")).collect::<Vec<_>>().join(" ")
        };
        for variable in variables.iter().take(shown) {
            let (input, reachable) = (inputs[*variable], tape.reachable(inputs[*variable]));
            text += &format!("  reachable from {}: {}\n", trace.label(input), names(&reachable));
            text += &format!("    edges  {}\n", edges(&reachable));
            text +=
                &format!("    order  {}   (depth first, parents before children)\n", names(&tape.order_from(input)));
        }
        let ancestors = tape.ancestors(output);
        text += &format!("  ancestors of {}: {}\n", trace.label(output), names(&ancestors));
        text += &format!("    edges  {}\n", edges(&ancestors));
        text +=
            &format!("    order  {}   (depth first, children before parents)\n", names(&tape.order_towards(output)));
        text
    }

    fn as_json(&self, work: &Work<'_>) -> Map<String, Value> {
        let Work { problem, trace, outputs, output, answer, node } = work;
        let numbers = |values: &[f64]| Value::from(values.iter().map(|value| json_number(*value)).collect::<Vec<_>>());
        let names: Vec<&str> = answer.variables.iter().map(|variable| problem.name(*variable)).collect();
        let gradient: Map<String, Value> = names
            .iter()
            .zip(&answer.gradient)
            .map(|(name, partial)| ((*name).to_owned(), json_number(*partial)))
            .collect();
        let mut object = Map::new();
        object.insert("expression".into(), problem.expression.source().into());
        object.insert("value".into(), json_number(answer.value));
        object.insert("gradient".into(), gradient.into());
        if outputs.len() > 1 {
            let values: Vec<f64> = outputs.iter().map(|output| trace.tape().value(*output)).collect();
            object.insert("output".into(), self.output.into());
            object.insert("values".into(), numbers(&values));
        }
        if let Some((variable, series)) = &answer.derivatives {
            object.insert("variable".into(), problem.name(*variable).into());
            object.insert("derivatives".into(), numbers(series));
        }
        if let Some(hessian) = &answer.hessian {
            let rows: Vec<Value> = (0..hessian.rows()).map(|row| numbers(hessian.row(row))).collect();
            object.insert("hessian".into(), json!({ "variables": names, "dense": rows }));
        }
        if self.table {
            object.insert("forward".into(), self.forward_json(problem, trace, answer));
            object.insert("reverse".into(), reverse_json(trace, *output));
        }
        if let Some(node) = node {
            let graph = trace.to_json(Some(*output));
            object.insert("node".into(), graph["nodes"][node.index()].clone());
        }
        object
    }

    fn forward_json(&self, problem: &Problem, trace: &Trace<'_>, answer: &Answer) -> Value {
        let inputs: Vec<NodeId> = trace.tape().ids().take(problem.point.len()).collect();
        let rows = |variable: &usize| {
            let rows = trace.forward(inputs[*variable]).into_iter().map(|row| {
                json!({ "node": row.label, "expression": row.expression, "value": json_number(row.value),
                        "rule": row.rule, "tangent": json_number(row.tangent) })
            });
            (problem.name(*variable).to_owned(), Value::from(rows.collect::<Vec<_>>()))
        };
        Value::Object(answer.variables.iter().map(rows).collect())
    }
}

impl Answer {
    /// Derivatives beyond the gradient that are not finite although value and gradient are.
    fn not_finite(&self, problem: &Problem) -> Option<Failure> {
        if let Some((variable, series)) = &self.derivatives
            && let Some(order) = series.iter().position(|derivative| !derivative.is_finite())
        {
            let (name, value) = (problem.name(*variable), series[order]);
            return Some(Failure::Result(format!(
                "the derivative of order {order} in {name} is not finite: it is {value}"
            )));
        }
        let hessian = self.hessian.as_ref()?;
        let wrong = hessian.elements().iter().position(|element| !element.is_finite())?;
        let pair = [wrong / hessian.columns(), wrong % hessian.columns()].map(|k| problem.name(self.variables[k]));
        let value = hessian.elements()[wrong];
        Some(Failure::Result(format!(
            "the second derivative in {} and {} is not finite: it is {value}",
            pair[0], pair[1]
        )))
    }
}

fn no_such_node(trace: &Trace<'_>, label: &str) -> Failure {
    let labels: Vec<&str> = trace.tape().ids().take(40).map(|id| trace.label(id)).collect();
    Failure::Input(format!("--node {label}: there is no such node; the nodes are {}", labels.join(", ")))
}

fn hessian_table(problem: &Problem, answer: &Answer, hessian: &Matrix<f64>) -> Table {
    // Wide matrices are shown as a list of pairs, which needs no more columns than a screen has.
    let mut table = Table::new(["in", "and", "second derivative"]);
    for (i, first) in answer.variables.iter().enumerate() {
        for (j, second) in answer.variables.iter().enumerate() {
            table.row([problem.name(*first).into(), problem.name(*second).into(), number(hessian[(i, j)])]);
        }
    }
    table
}

fn forward_table(trace: &Trace<'_>, input: NodeId) -> String {
    let tangent = tangent_of("v");
    let mut table =
        Table::new(["node", "expression", "numbers", "value", &format!("tangent {tangent}"), "numbers", "result"]);
    for row in trace.forward(input) {
        let [value, tangent] = [row.value, row.tangent].map(short);
        table.row([row.label, row.expression, row.numbers, value, row.rule, row.rule_numbers, tangent]);
    }
    format!("\nForward trace, {tangent} = ∂v/∂{}\n{}", trace.label(input), table.render())
}

fn reverse_table(trace: &Trace<'_>, output: NodeId) -> String {
    let mut table = Table::new(["step", "adjoint", "rule", "numbers", "result"]);
    for (number, step) in trace.reverse(output).into_iter().enumerate() {
        table.row([(number + 1).to_string(), adjoint_of(&step.label), step.rule, step.numbers, short(step.adjoint)]);
    }
    let adjoint = adjoint_of("v");
    format!("\nReverse trace, {adjoint} = ∂{}/∂v, in the order of the sweep\n{}", trace.label(output), table.render())
}

fn reverse_json(trace: &Trace<'_>, output: NodeId) -> Value {
    let steps = trace.reverse(output).into_iter().map(|step| {
        json!({ "node": step.label, "rule": step.rule, "numbers": step.numbers, "adjoint": json_number(step.adjoint) })
    });
    Value::from(steps.collect::<Vec<_>>())
}

/// The members of one node, as a table of names and contents.
fn members(trace: &Trace<'_>, id: NodeId, output: NodeId, mode: Mode, variable: Option<usize>) -> String {
    let tape = trace.tape();
    let node = tape.node(id);
    let listed = |nodes: Vec<NodeId>| nodes.iter().map(|node| trace.label(*node)).collect::<Vec<_>>().join(", ");
    let formulas = trace.partial_formulas(id);
    let partials = node
        .parents()
        .zip(&formulas)
        .map(|((parent, partial), formula)| format!("∂/∂{} = {formula} = {}", trace.label(parent), short(partial)));
    let derivative = match (mode, variable.and_then(|variable| tape.ids().nth(variable))) {
        (Mode::Forward, Some(input)) => {
            format!(
                "{} = ∂{}/∂{} = {}",
                tangent_of(trace.label(id)),
                trace.label(id),
                trace.label(input),
                short(tape.forward(input).of(id))
            )
        }
        _ => format!(
            "{} = ∂{}/∂{} = {}",
            adjoint_of(trace.label(id)),
            trace.label(output),
            trace.label(id),
            short(tape.reverse(output).of(id))
        ),
    };
    let mut table = Table::new(["member", "content"]);
    table.row(["numerical value".into(), number(node.value)]);
    table.row(["operator".into(), node.operation.name().into()]);
    table.row(["expression".into(), trace.expression(id)]);
    table.row(["parent nodes".into(), listed(node.parents().map(|(parent, _)| parent).collect())]);
    table.row(["child nodes".into(), listed(tape.children(id))]);
    table.row(["gradient w.r.t. parents".into(), partials.collect::<Vec<_>>().join(", ")]);
    table.row(["partial derivative".into(), derivative]);
    format!("\nNode {}\n{}", trace.label(id), table.render())
}
