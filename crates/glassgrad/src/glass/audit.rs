//! For each parameter, whether a loss reaches it, and if not, why.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use serde_json::{Value, json};

use super::labels::Labels;
use super::scope::Scope;
use super::{place, summary::Summary};
use crate::array::Array;
use crate::diff::{Outcome, cotangents, dependent_nodes, pullback};
use crate::error::Error;
use crate::expr::{Inputs, Node, Op, Partial, Subgraph, Tensor, partial};
use crate::picture::aligned;
use crate::tree::{Path, Tree};

/// The gradient-path audit of a loss.
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// One finding for each leaf of the parameters, in their order.
    pub findings: Vec<Finding>,
}

/// The audit of one parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The place in the tree of parameters.
    pub name: String,
    /// The type and the shape.
    pub described: String,
    /// Whether a derivative arrives.
    pub verdict: Verdict,
    /// The gradient in a few numbers, if there is one.
    pub gradient: Option<Summary>,
}

/// Whether a derivative arrives at a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It does, and it is not zero everywhere.
    Reached,
    /// The loss uses the parameter, but these operations let no derivative pass.
    Cut(Vec<Cut>),
    /// The loss uses the parameter only through operations whose derivative is 0 everywhere, such as a sign.
    StructurallyZero(Vec<Cut>),
    /// The loss does not use the parameter. A detached value has no history, and counts as not used.
    Unused,
    /// A derivative arrives and is exactly zero in every element; these operations zeroed it.
    NumericallyZero(Vec<Cut>),
    /// The parameter is not differentiable: its elements are integers or booleans.
    NotDifferentiable,
}

/// An operation at which a derivative ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The operation in a word.
    pub operation: String,
    /// Its expression, in labels.
    pub expression: String,
    /// The line that created it.
    pub origin: &'static Location<'static>,
    /// Of how many elements the derivative is zero, and of how many in all, where it is zero by its value.
    pub zeros: Option<(usize, usize)>,
}

/// An output and an input that have nothing to do with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The place of the output in the tree of outputs; empty if there is only one.
    pub output: String,
    /// The place of the input in the tree of inputs; empty if there is only one.
    pub input: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named =
            |kind: &str, name: &str| if name.is_empty() { format!("the {kind}") } else { format!("{kind} {name}") };
        write!(formatter, "{} does not depend on {}", named("output", &self.output), named("input", &self.input))
    }
}

/// Reports for each parameter whether a derivative of the loss reaches it, and if not, which operations at which
/// lines are the reason. It evaluates the loss and its gradient.
///
/// ```
/// use glassgrad::{Tensor, glass::audit};
/// let parameters = (Tensor::from([1.0, 2.0]), Tensor::from(3.0), Tensor::from(4.0));
/// let loss = |p: &(Tensor, Tensor, Tensor)| (&p.0 * p.1.stop_gradient()).sum();
/// let report = audit(loss, &parameters).unwrap();
/// let table = report.to_string();
/// assert!(table.lines().next().unwrap().contains("reached"));
/// assert!(table.contains("cut by stop_gradient(1) at "));
/// assert!(table.contains("unused"));
/// assert!(!report.is_healthy());
/// ```
pub fn audit<X: Tree, R: Outcome<Tree = Tensor>>(loss: impl FnOnce(&X) -> R, parameters: &X) -> Result<Audit, Error> {
    let variables = parameters.map(Tensor::wrapped);
    let result = loss(&variables).outcome();
    if let Some(error) = result.error() {
        return Err(error.clone());
    }
    if result.shape().elements() != 1 || !result.is_float() {
        let message = format!("the loss must be one floating-point number, not {}", result.describe());
        return Err(Error::new("audit", message).at(result.origin()));
    }
    let level = Scope::of(&[&result]);
    let leaves = variables.leaves();
    let names: Vec<(Tensor, String)> = leaves.iter().map(|(path, leaf)| (leaf.clone(), name_of(path))).collect();
    let labels = Labels::new(&level, &names, &[&result]);
    let differentiable: Vec<&Tensor> = names.iter().map(|(leaf, _)| leaf).filter(|leaf| leaf.is_float()).collect();
    let found = cotangents(&[(&result, result.ones_like())], &differentiable, &[], true);
    let (ids, tensors): (Vec<u64>, Vec<&Tensor>) = found.iter().map(|(id, tensor)| (*id, tensor)).unzip();
    let gradients: HashMap<u64, Array> = ids.into_iter().zip(Tensor::eval_all(&tensors)?).collect();
    let inspection = Inspection { result: &result, level: &level, labels: &labels, gradients: &gradients };
    let findings = names.iter().map(|(leaf, name)| {
        let gradient = gradients.get(&leaf.0.id).map(Summary::of);
        Ok(Finding {
            name: name.clone(),
            described: format!("{}{}", leaf.dtype(), leaf.shape()),
            verdict: inspection.verdict(leaf, gradient.as_ref())?,
            gradient,
        })
    });
    Ok(Audit { findings: findings.collect::<Result<_, Error>>()? })
}

/// The pairs of an output and an input of a function of which the output does not depend on the input, so that
/// its derivative is zero whatever the numbers are. Nothing is evaluated, so it can stand beside any transform.
///
/// ```
/// use glassgrad::{Tensor, glass::independent};
/// let point = (Tensor::from(1.0), Tensor::from(2.0));
/// let warnings = independent(|(a, b): &(Tensor, Tensor)| (a * b, a.sin()), &point);
/// assert_eq!(warnings.len(), 1);
/// assert_eq!(warnings[0].to_string(), "output 1 does not depend on input 1");
/// ```
pub fn independent<X: Tree, R: Outcome>(function: impl FnOnce(&X) -> R, x: &X) -> Vec<Warning> {
    let variables = x.map(Tensor::wrapped);
    let outputs = function(&variables).outcome().leaves();
    let inputs: Vec<(Path, Tensor)> = variables.leaves().into_iter().filter(|(_, leaf)| leaf.is_float()).collect();
    let leaves: Vec<&Tensor> = inputs.iter().map(|(_, leaf)| leaf).collect();
    let mut warnings = Vec::new();
    for (output, tensor) in outputs.iter().filter(|(_, tensor)| tensor.is_float() && tensor.error().is_none()) {
        let found = pullback(&[(tensor, tensor.ones_like())], &leaves, &[]);
        for ((input, _), _) in inputs.iter().zip(found).filter(|(_, found)| found.is_none()) {
            warnings.push(Warning { output: output.to_string(), input: input.to_string() });
        }
    }
    warnings
}

fn name_of(path: &Path) -> String {
    let text = path.to_string();
    if text.is_empty() { "x".to_owned() } else { text }
}

/// The state of an audit: the loss, its graph and the adjoints.
struct Inspection<'i> {
    result: &'i Tensor,
    level: &'i Scope,
    labels: &'i Labels,
    gradients: &'i HashMap<u64, Array>,
}

impl Inspection<'_> {
    fn verdict(&self, leaf: &Tensor, gradient: Option<&Summary>) -> Result<Verdict, Error> {
        if !leaf.is_float() {
            return Ok(Verdict::NotDifferentiable);
        }
        match gradient {
            _ if self.level.get(leaf.0.id).is_none() => Ok(Verdict::Unused),
            None => Ok(self.ends(leaf)),
            Some(gradient) if gradient.zeros == gradient.elements => self.zeroed_by(leaf),
            Some(_) => Ok(Verdict::Reached),
        }
    }

    fn cut(&self, node: &Node, inputs: &Inputs, zeros: Option<(usize, usize)>) -> Cut {
        Cut { operation: node.op.name(), expression: self.labels.expression(node, inputs), origin: node.origin, zeros }
    }

    /// Where the derivative ends of a parameter that is used: the first operations on the way that let none pass.
    fn ends(&self, leaf: &Tensor) -> Verdict {
        let (cut, flat) = self.ends_from(self.level, &[leaf.0.id]);
        match (cut.is_empty(), flat.is_empty()) {
            (true, false) => Verdict::StructurallyZero(flat),
            (true, true) => Verdict::Unused,
            (false, _) => Verdict::Cut(cut.into_iter().chain(flat).collect()),
        }
    }

    /// The operations through which some nodes of a level are used and that let no derivative pass, and those whose
    /// derivative is 0 everywhere.
    fn ends_from(&self, level: &Scope, nodes: &[u64]) -> (Vec<Cut>, Vec<Cut>) {
        let mut alive: HashSet<u64> = nodes.iter().copied().collect();
        let (mut cut, mut flat) = (Vec::new(), Vec::new());
        for (node, inputs) in &level.nodes {
            let uses = |input: &Arc<Node>| alive.contains(&input.id);
            if !inputs.iter().any(uses) {
                continue;
            }
            let is_cut = node.op.properties().is_flat || !node.dtype.is_float();
            let has_slope = |number: usize| match &node.op {
                Op::Map(formula) => !matches!(*partial(formula, inputs.len(), number), Partial::Number(0.0)),
                // The condition of a choice and the places of a gather have integers behind them already.
                _ => true,
            };
            if is_cut {
                cut.push(self.cut(node, inputs, None));
            } else if inputs.iter().enumerate().any(|(number, input)| uses(input) && has_slope(number)) {
                alive.insert(node.id);
            } else {
                flat.push(self.cut(node, inputs, None));
            }
        }
        (cut, flat)
    }

    /// A parameter whose derivative arrives as zero: the operations that zeroed it are those where one arrives
    /// that is not, and none of those that leave towards the parameter is.
    fn zeroed_by(&self, leaf: &Tensor) -> Result<Verdict, Error> {
        let on_the_way: HashSet<u64> = dependent_nodes(&[self.result], &[leaf]).iter().map(|node| node.id).collect();
        let all_zero = |array: &Array| Summary::of(array).zeros == array.buffer().len();
        // A loop has no derivative of its own, its outputs have.
        let mut zero: HashMap<u64, bool> = HashMap::new();
        for (node, inputs) in &self.level.nodes {
            let is_zero = self.gradients.get(&node.id).is_none_or(all_zero);
            zero.insert(node.id, is_zero);
            if let Some(multi) = inputs.multi() {
                zero.entry(multi.id).and_modify(|all| *all &= is_zero).or_insert(is_zero);
            }
        }
        let is_zero = |id: u64| zero.get(&id).copied().unwrap_or(true);
        let (mut cuts, mut inside) = (Vec::new(), Vec::new());
        let values = self.level.values()?;
        let mut seen = HashSet::new();
        for (node, inputs) in &self.level.nodes {
            let leads = |input: &&Arc<Node>| on_the_way.contains(&input.id);
            // The outputs of an operation are taken together.
            let (id, is_on_the_way) = match inputs.multi() {
                Some(multi) => (multi.id, inputs.iter().any(|input| leads(&input))),
                None => (node.id, on_the_way.contains(&node.id)),
            };
            let arrives = is_on_the_way && !is_zero(id) && node.id != leaf.0.id;
            if !seen.insert(id) || !arrives || !inputs.iter().filter(leads).all(|input| is_zero(input.id)) {
                continue;
            }
            let zeros = inputs.iter().find(leads).map(|input| {
                let elements = input.shape.elements();
                (derivative_zeros(node, inputs, input.id, &values).unwrap_or(elements), elements)
            });
            cuts.push(match inputs.multi() {
                Some(multi) => {
                    inside.extend(self.ends_inside(multi.op.body(), inputs, &on_the_way));
                    let (operation, expression) = (multi.op.name().to_owned(), multi.op.describe());
                    Cut { operation, expression, origin: multi.origin, zeros }
                }
                None => self.cut(node, inputs, zeros),
            });
        }
        // A loop hands on a zero for what it cuts inside; the cut is what people look for.
        Ok(if inside.is_empty() { Verdict::NumericallyZero(cuts) } else { Verdict::Cut(inside) })
    }

    /// Where derivatives end inside of a loop, of those of its inputs that lead to a parameter.
    fn ends_inside(&self, body: &Subgraph, inputs: &[Arc<Node>], on_the_way: &HashSet<u64>) -> Vec<Cut> {
        let inner = |(number, input): (usize, &Arc<Node>)| body.parameters.get(number).map_or(input.id, |k| k.0.id);
        let leading = inputs.iter().enumerate().filter(|(_, input)| on_the_way.contains(&input.id));
        let (cut, flat) = self.ends_from(&Scope::of_body(body), &leading.map(inner).collect::<Vec<_>>());
        cut.into_iter().chain(flat).collect()
    }
}

/// In how many elements the partial derivative of a pointwise node is zero.
fn derivative_zeros(
    node: &Arc<Node>,
    inputs: &[Arc<Node>],
    input: u64,
    values: &HashMap<crate::runtime::ValueKey, Array>,
) -> Option<usize> {
    let Op::Map(formula) = &node.op else { return None };
    let number = inputs.iter().position(|other| other.id == input)?;
    let partial = partial(formula, inputs.len(), number);
    let Partial::Formula { formula, inputs: used } = &*partial else { return None };
    let value = |id: u64| values.get(&(Vec::new(), id));
    let operands: Vec<&Array> =
        used.iter().map(|k| value(inputs.get(*k).map_or(node.id, |input| input.id))).collect::<Option<_>>()?;
    let derivative = |place: usize| {
        let numbers: Vec<f64> = operands.iter().map(|operand| operand.buffer().get(place)).collect();
        formula.evaluate(&numbers)[0]
    };
    Some((0..node.shape.elements()).filter(|place| derivative(*place) == 0.0).count())
}

impl Audit {
    /// Whether every parameter that has neighbours is reached by a derivative that is not zero.
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| matches!(finding.verdict, Verdict::Reached | Verdict::NotDifferentiable))
    }

    /// The finding of a parameter.
    pub fn of(&self, name: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.name == name)
    }

    /// The audit as JSON.
    pub fn to_json(&self) -> Value {
        let cut = |cut: &Cut| {
            json!({
                "operation": cut.operation,
                "expression": cut.expression,
                "file": cut.origin.file(),
                "line": cut.origin.line(),
                "column": cut.origin.column(),
                "zeros": cut.zeros.map(|(zeros, _)| zeros),
                "elements": cut.zeros.map(|(_, elements)| elements),
            })
        };
        let finding = |finding: &Finding| {
            json!({
                "name": finding.name,
                "type": finding.described,
                "verdict": finding.verdict.word(),
                "by": finding.verdict.cuts().iter().map(cut).collect::<Vec<_>>(),
                "gradient": finding.gradient.as_ref().map(Summary::to_json),
            })
        };
        json!({ "healthy": self.is_healthy(), "parameters": self.findings.iter().map(finding).collect::<Vec<_>>() })
    }
}

impl Verdict {
    /// The verdict in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Reached => "reached",
            Verdict::Cut(_) => "cut",
            Verdict::StructurallyZero(_) => "structurally zero",
            Verdict::Unused => "unused",
            Verdict::NumericallyZero(_) => "numerically zero",
            Verdict::NotDifferentiable => "not differentiable",
        }
    }

    /// The operations that are the reason.
    pub fn cuts(&self) -> &[Cut] {
        match self {
            Verdict::Cut(cuts) | Verdict::StructurallyZero(cuts) | Verdict::NumericallyZero(cuts) => cuts,
            _ => &[],
        }
    }
}

/// One line a parameter: its name, its type, the verdict, and the gradient or the reason.
impl fmt::Display for Audit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = |finding: &Finding| {
            let by = |cut: &Cut| {
                let share =
                    cut.zeros.map(|(zeros, all)| format!(", whose derivative is 0 in {zeros} of {all} elements"));
                format!("{} at {}{}", cut.expression, place(cut.origin), share.unwrap_or_default())
            };
            let cuts: Vec<String> = finding.verdict.cuts().iter().map(by).collect();
            match (&finding.verdict, &finding.gradient) {
                (Verdict::Cut(_), _) => format!("cut by {}", cuts.join("; ")),
                (Verdict::StructurallyZero(_), _) => format!("flat everywhere: {}", cuts.join("; ")),
                (Verdict::NumericallyZero(_), _) => format!("made zero by {}", cuts.join("; ")),
                (Verdict::Unused, _) => "the loss does not use it, or only detached".to_owned(),
                (Verdict::NotDifferentiable, _) => "integers and truth values have no derivative".to_owned(),
                (Verdict::Reached, Some(gradient)) if gradient.zeros > 0 => {
                    format!("gradient {gradient}; 0 in {} of {} elements", gradient.zeros, gradient.elements)
                }
                (Verdict::Reached, gradient) => {
                    format!("gradient {}", gradient.as_ref().map(Summary::to_string).unwrap_or_default())
                }
            }
        };
        let rows: Vec<[String; 4]> = self
            .findings
            .iter()
            .map(|finding| {
                let Finding { name, described, verdict, .. } = finding;
                [name.clone(), described.clone(), verdict.word().to_owned(), reason(finding)]
            })
            .collect();
        formatter.write_str(&aligned(&rows, 0))
    }
}
