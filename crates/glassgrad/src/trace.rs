//! Step-by-step trace of a tape, in the user's names.
//!
//! A [`Trace`] reads a recorded tape and gives every node a label, its expression,
//! the formulas of its local partial derivatives, and the steps of both sweeps in the order in which
//! they happen. It computes nothing that the tape does not: its numbers are the sweeps' own.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::formula::{Symbol, Symbols};
use crate::lang::Expression;
use crate::ops::Operation;
use crate::scalar::tape::{Choice, Node, Operand};
use crate::scalar::{NodeId, Sweep, Tape, Var};
use crate::sorting::IndirectSort;

/// A labelled view of a tape.
///
/// ```
/// use glassgrad::scalar::Tape;
/// use glassgrad::trace::Trace;
///
/// let tape = Tape::new();
/// let (a, b) = (tape.input(2.0).named("a"), tape.input(3.0).named("b"));
/// let e = ((a * b) * (b + 1.0)).named("e");
///
/// let trace = Trace::new(&tape);
/// let forward: Vec<String> = trace.forward(a.into()).iter().map(|row| row.to_string()).collect();
/// assert_eq!(forward[4], "e = v1 * v2 = 24, tangent v̇1·v2 + v̇2·v1 = 12");
/// let reverse: Vec<String> = trace.reverse(e.into()).iter().map(|step| step.to_string()).collect();
/// assert_eq!(reverse[5], "b̄ = b̄ + v̄1·a = 14");
/// ```
#[derive(Debug)]
pub struct Trace<'t> {
    tape: &'t Tape<f64>,
    labels: Vec<String>,
    choices: Vec<Choice<f64>>,
}

/// One row of a forward trace.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardRow {
    /// The node.
    pub node: NodeId,
    /// Its label.
    pub label: String,
    /// Its expression, in labels; `input` for an input.
    pub expression: String,
    /// The same with numbers in place of labels.
    pub numbers: String,
    /// Its value.
    pub value: f64,
    /// The rule for its tangent, in labels.
    pub rule: String,
    /// The same with numbers in place of labels.
    pub rule_numbers: String,
    /// Its tangent.
    pub tangent: f64,
}

/// One step of a reverse trace: a contribution to an adjoint.
#[derive(Clone, Debug, PartialEq)]
pub struct ReverseStep {
    /// The node whose adjoint grows.
    pub node: NodeId,
    /// Its label.
    pub label: String,
    /// The node through which the contribution comes; none for the seed.
    pub through: Option<NodeId>,
    /// The rule, in labels; `seed` for the output itself.
    pub rule: String,
    /// The same with numbers in place of labels.
    pub numbers: String,
    /// The adjoint after this step.
    pub adjoint: f64,
}

impl std::fmt::Display for ForwardRow {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ForwardRow { label, expression, value, rule, tangent, .. } = self;
        write!(formatter, "{label} = {expression} = {}, tangent {rule} = {}", short(*value), short(*tangent))
    }
}

impl std::fmt::Display for ReverseStep {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} = {} = {}", marked(&self.label, MACRON), self.rule, short(self.adjoint))
    }
}

/// The combining dot of a tangent.
const DOT: char = '\u{307}';
/// The combining macron of an adjoint.
const MACRON: char = '\u{304}';

/// A label with a mark over its first letter: v̇1 is the tangent of v1, v̄1 its adjoint.
fn marked(label: &str, mark: char) -> String {
    let first = label.chars().next().map_or(0, char::len_utf8);
    format!("{}{mark}{}", &label[..first], &label[first..])
}

/// The adjoint of a label, v̄.
pub fn adjoint_of(label: &str) -> String {
    marked(label, MACRON)
}

/// The tangent of a label, v̇.
pub fn tangent_of(label: &str) -> String {
    marked(label, DOT)
}

/// A number with six significant digits, as tables show it.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{}", value + 0.0); // -0 is shown as 0.
    }
    let exponent = value.abs().log10().floor() as i32;
    if !(-4..15).contains(&exponent) {
        let text = format!("{value:.5e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'));
    }
    let decimals = (5 - exponent).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A number in JSON, which has no way to write what is not finite: that becomes one of the strings
/// `"NaN"`, `"Infinity"` and `"-Infinity"`.
pub fn json_number(value: f64) -> Value {
    if value.is_finite() {
        json!(value)
    } else if value.is_nan() {
        json!("NaN")
    } else {
        json!(if value > 0.0 { "Infinity" } else { "-Infinity" })
    }
}

impl Expression {
    /// Records the evaluation at a point on an empty tape, every node under the name that the program
    /// gives it, and returns the results: nodes, or constants where a result depends on no input.
    pub fn record<'t>(&self, tape: &'t Tape<f64>, inputs: &[f64]) -> Vec<Var<'t>> {
        let variables: Vec<Var<'t>> =
            inputs.iter().zip(self.variables()).map(|(value, name)| tape.input(*value).named(name)).collect();
        let numbers = self.formula().evaluate_all(&variables);
        for (index, number) in numbers.iter().enumerate() {
            if let Some(name) = self.name(index) {
                number.named(name);
            }
        }
        self.outputs().iter().map(|output| numbers[*output]).collect()
    }
}

impl<'t> Trace<'t> {
    /// Labels the nodes of a tape: by the names they were given, otherwise inputs x1, x2, … and all
    /// others v1, v2, ….
    pub fn new(tape: &'t Tape<f64>) -> Self {
        let given: HashSet<String> = tape.ids().filter_map(|id| tape.given_name(id)).collect();
        let (mut inputs, mut others) = (0, 0);
        let labels = tape.ids().map(|id| {
            tape.given_name(id).unwrap_or_else(|| {
                let (letter, count) = match tape.node(id).operation {
                    Operation::Input => ("x", &mut inputs),
                    _ => ("v", &mut others),
                };
                *count += 1;
                // A number that the user gave as a name elsewhere is left out.
                while given.contains(&format!("{letter}{count}")) {
                    *count += 1;
                }
                format!("{letter}{count}")
            })
        });
        Trace { tape, labels: labels.collect(), choices: tape.choices() }
    }

    /// The tape.
    pub fn tape(&self) -> &'t Tape<f64> {
        self.tape
    }

    /// The label of a node.
    pub fn label(&self, node: NodeId) -> &str {
        &self.labels[node.index()]
    }

    /// The node with a label.
    pub fn find(&self, label: &str) -> Option<NodeId> {
        self.tape.ids().find(|id| self.label(*id) == label)
    }

    /// The selection that a node is the result of, if any.
    pub fn choice(&self, node: NodeId) -> Option<&Choice<f64>> {
        // Choices were recorded in the order of their nodes.
        self.choices.binary_search_by_key(&node, |choice| choice.node).ok().map(|place| &self.choices[place])
    }

    /// The expression of a node, in labels.
    pub fn expression(&self, node: NodeId) -> String {
        self.write(node, |id| self.label(id).to_owned())
    }

    /// The expression of a node, with the values of its operands.
    pub fn numbers(&self, node: NodeId) -> String {
        self.write(node, |id| short(self.tape.value(id)))
    }

    fn write(&self, id: NodeId, name: impl Fn(NodeId) -> String) -> String {
        let node = self.tape.node(id);
        if node.operation == Operation::Input {
            return "input".to_owned();
        }
        let symbols = Symbols::new();
        let operand = |operand: Operand<f64>| match operand {
            Operand::Node(id) => symbols.variable(&name(id)),
            Operand::Constant(value) => symbols.variable(&short(value)),
        };
        if let Some(choice) = self.choice(id) {
            let Choice { guard, taken, otherwise, .. } = *choice;
            let [left, right, taken, otherwise] = [guard.left, guard.right, taken, otherwise].map(operand);
            return format!("where({left} {} {right}, {taken}, {otherwise})", guard.relation.symbol());
        }
        let operands: Vec<Symbol<'_>> = node.operands.iter().copied().map(operand).collect();
        let written = match operands[..] {
            [x] => node.operation.apply_unary(x, node.parameter.unwrap_or(0.0)),
            [a, b] => node.operation.apply_binary(a, b),
            _ => None,
        };
        written.map_or_else(|| node.operation.name().to_owned(), |symbol| symbol.to_string())
    }

    /// The formulas of the local partial derivatives with respect to the parents, in labels.
    pub fn partial_formulas(&self, id: NodeId) -> Vec<String> {
        let node = self.tape.node(id);
        let symbols = Symbols::new();
        let symbol = |operand: &Operand<f64>| match operand {
            Operand::Node(id) => symbols.variable(self.label(*id)),
            Operand::Constant(value) => crate::c(*value),
        };
        let operands: Vec<Symbol<'_>> = node.operands.iter().map(symbol).collect();
        let output = symbols.variable(self.label(id));
        let formulas: Vec<Symbol<'_>> = match operands[..] {
            [_] if node.operation == Operation::Where => vec![crate::c(1.0)],
            [x] => node.operation.derivative(x, output, node.parameter.unwrap_or(0.0)).into_iter().collect(),
            [a, b] => node.operation.partials(a, b, output).into_iter().flatten().collect(),
            _ => Vec::new(),
        };
        let is_node = |operand: &&Operand<f64>| matches!(operand, Operand::Node(_));
        let kept = node.operands.iter().zip(formulas).filter(|(operand, _)| is_node(operand));
        kept.map(|(_, formula)| formula.to_string()).collect()
    }

    /// The forward trace from an input: every node with its value, its tangent, and the rule.
    pub fn forward(&self, input: NodeId) -> Vec<ForwardRow> {
        let tangents = self.tape.forward(input);
        self.tape.ids().map(|id| self.forward_row(id, input, &tangents)).collect()
    }

    fn forward_row(&self, id: NodeId, input: NodeId, tangents: &Sweep<f64>) -> ForwardRow {
        let node = self.tape.node(id);
        let formulas = self.partial_formulas(id);
        let terms = node.parents().zip(&formulas);
        let rule = sum_of(terms.map(|((parent, _), formula)| product(&tangent_of(self.label(parent)), formula)));
        let terms = node.parents();
        let rule_numbers = sum_of(terms.map(|(parent, partial)| product(&short(tangents.of(parent)), &short(partial))));
        let (rule, rule_numbers) = match node.operation {
            Operation::Input if id == input => ("seed".to_owned(), String::new()),
            Operation::Input => ("independent".to_owned(), String::new()),
            _ => (rule, rule_numbers),
        };
        ForwardRow {
            node: id,
            label: self.label(id).to_owned(),
            expression: self.expression(id),
            numbers: if node.operation == Operation::Input { String::new() } else { self.numbers(id) },
            value: node.value,
            rule,
            rule_numbers,
            tangent: tangents.of(id),
        }
    }

    /// The reverse trace from an output: every contribution to an adjoint, in the order in which the
    /// sweep makes them. Nodes that are no ancestors of the output do not occur.
    pub fn reverse(&self, output: NodeId) -> Vec<ReverseStep> {
        let mut adjoints: Vec<Option<f64>> = vec![None; self.tape.len()];
        adjoints[output.index()] = Some(1.0);
        let seed = "seed".to_owned();
        let mut steps = vec![ReverseStep {
            node: output,
            label: self.label(output).to_owned(),
            through: None,
            rule: seed,
            numbers: String::new(),
            adjoint: 1.0,
        }];
        for id in self.tape.ids().take(output.index() + 1).rev() {
            // As in the sweep itself, an adjoint that is exactly zero contributes nothing.
            let Some(adjoint) = adjoints[id.index()].filter(|adjoint| *adjoint != 0.0) else { continue };
            let node = self.tape.node(id);
            for ((parent, partial), formula) in node.parents().zip(self.partial_formulas(id)) {
                let earlier = adjoints[parent.index()];
                let total = earlier.unwrap_or(0.0) + adjoint * partial;
                adjoints[parent.index()] = Some(total);
                let contribution = product(&adjoint_of(self.label(id)), &formula);
                let contribution_numbers = product(&short(adjoint), &short(partial));
                let own = adjoint_of(self.label(parent));
                steps.push(ReverseStep {
                    node: parent,
                    label: self.label(parent).to_owned(),
                    through: Some(id),
                    rule: sum_of(earlier.map(|_| own).into_iter().chain([contribution])),
                    numbers: sum_of(earlier.map(short).into_iter().chain([contribution_numbers])),
                    adjoint: total,
                });
            }
        }
        steps
    }

    /// The edges between the given nodes, as pairs of labels, in the order of the tape.
    pub fn edges_within(&self, nodes: &[NodeId]) -> Vec<(String, String)> {
        let inside: HashSet<NodeId> = nodes.iter().copied().collect();
        let parents = |child: &NodeId| self.tape.node(*child).parents().map(|(parent, _)| parent).collect::<Vec<_>>();
        let mut edges: Vec<(NodeId, NodeId)> = nodes
            .iter()
            .flat_map(|child| parents(child).into_iter().map(|parent| (parent, *child)))
            .filter(|(parent, _)| inside.contains(parent))
            .collect();
        edges.indirect_sort();
        edges.iter().map(|(parent, child)| (self.label(*parent).to_owned(), self.label(*child).to_owned())).collect()
    }

    /// The node at which a value that is not finite began, among the ancestors of an output.
    pub fn first_not_finite(&self, output: NodeId) -> Option<NodeId> {
        self.tape.ancestors(output).into_iter().find(|id| !self.tape.value(*id).is_finite())
    }

    /// The node whose local partial derivative first gives a non-finite adjoint, and that adjoint's step.
    pub fn first_adjoint_not_finite(&self, output: NodeId) -> Option<(NodeId, ReverseStep)> {
        let position = self.reverse(output).into_iter().find(|step| !step.adjoint.is_finite())?;
        let children = self.tape.children(position.node);
        let culprit = children.into_iter().find(|child| {
            let node = self.tape.node(*child);
            node.parents().any(|(parent, partial)| parent == position.node && !partial.is_finite())
        });
        Some((culprit.unwrap_or(position.node), position))
    }

    /// The graph with values, local partial derivatives, and adjoints of an output, as JSON.
    pub fn to_json(&self, output: Option<NodeId>) -> Value {
        let adjoints = output.map(|output| self.tape.reverse(output));
        let nodes: Vec<Value> =
            self.tape.ids().map(|id| self.node_json(&self.tape.node(id), adjoints.as_ref())).collect();
        json!({ "nodes": nodes, "output": output.map(|output| self.label(output)) })
    }

    fn node_json(&self, node: &Node<f64>, adjoints: Option<&Sweep<f64>>) -> Value {
        let parents: Vec<Value> = node
            .parents()
            .zip(self.partial_formulas(node.id))
            .map(|((parent, partial), formula)| {
                json!({ "name": self.label(parent), "partial": json_number(partial), "formula": formula })
            })
            .collect();
        json!({
            "name": self.label(node.id),
            "operation": node.operation.name(),
            "expression": self.expression(node.id),
            "value": json_number(node.value),
            "adjoint": adjoints.map(|adjoints| json_number(adjoints.of(node.id))),
            "parents": parents,
        })
    }
}

/// A product as the tables write it: factors of 1 vanish, a reciprocal becomes a quotient, and what
/// is itself composed gets parentheses.
fn product(first: &str, second: &str) -> String {
    let composed = |factor: &str| {
        let mut depth = 0;
        factor.starts_with('-')
            || factor.chars().any(|character| {
                depth += i32::from(character == '(') - i32::from(character == ')');
                character == ' ' && depth == 0
            })
    };
    let enclosed = |factor: &str| if composed(factor) { format!("({factor})") } else { factor.to_owned() };
    let is_symbol = first.parse::<f64>().is_err();
    match (second, second.strip_prefix("1 / ")) {
        ("1", _) if is_symbol => first.to_owned(),
        ("-1", _) if is_symbol => format!("-{first}"),
        (_, Some(divisor)) if is_symbol => format!("{first} / {divisor}"),
        _ => format!("{}·{}", enclosed(first), enclosed(second)),
    }
}

fn sum_of(terms: impl Iterator<Item = String>) -> String {
    let mut sum = String::new();
    for term in terms {
        match term.strip_prefix('-') {
            Some(positive) if !sum.is_empty() => sum += &format!(" - {positive}"),
            _ if !sum.is_empty() => sum += &format!(" + {term}"),
            _ => sum = term,
        }
    }
    sum
}
