//! A graph of tensors as text, DOT, SVG and JSON.

use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;

use serde_json::{Value, json};

use super::collapse::{Fold, grouped};
use super::labels::Labels;
use super::scope::Scope;
use super::summary::Summary;
use crate::array::Array;
use crate::diff::{Outcome, cotangents};
use crate::error::Error;
use crate::expr::{MultiNode, Node, Op, Tensor};
use crate::picture::{Card, Diagram, Edge, Ink, Role, TooLarge, aligned};
use crate::runtime::ValueKey;
use crate::trace::adjoint_of;
use crate::tree::Tree;

/// What stands behind some tensors, with names, operations, shapes and source lines, and on request with the
/// value of every node and the gradient of the output with respect to it.
///
/// ```
/// use glassgrad::{Tensor, glass::Graph};
/// let graph = Graph::trace(|x: &Tensor| (x.square() + 1.0).sum().named("loss"), &Tensor::from([1.0, 2.0]).named("x"));
/// let text = graph.with_gradients().unwrap().text();
/// let rows: Vec<&str> = text.lines().collect();
/// assert!(rows[0].starts_with("x      input      f64[2]  1 … 2, mean 1.5  x̄ 2 … 4, mean 3"), "{text}");
/// assert!(rows[1].starts_with("v1     square(x)  f64[2]  1 … 4, mean 2.5  v̄1 all 1"));
/// assert!(rows[2].starts_with("v2     v1 + 1     f64[2]  2 … 5, mean 3.5  v̄2 all 1"));
/// assert!(rows[3].starts_with("loss   sum(v2)    f64[]   7                l̄oss 1"));
/// ```
#[derive(Clone)]
pub struct Graph {
    outputs: Vec<Tensor>,
    /// Handles that keep the variables alive, so that gradients can still be asked for.
    variables: Vec<Tensor>,
    level: Scope,
    labels: Labels,
    values: HashMap<ValueKey, Array>,
    gradients: HashMap<u64, Array>,
    folds: Vec<Fold>,
}

/// A node or a group of nodes of a graph, with all its numbers, see [`Graph::shown`].
///
/// ```
/// use glassgrad::{Tensor, glass::Graph};
/// let graph = Graph::of(&[&(Tensor::from(2.0).named("x") * 3.0)]).with_values().unwrap();
/// let product = &graph.shown()[1];
/// assert_eq!((product.is_input, product.value.as_ref().map(|value| value.buffer().get(0))), (false, Some(6.0)));
/// assert!(product.gradient.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its label.
    pub name: String,
    /// Whether nothing stands behind it.
    pub is_input: bool,
    /// Its value, if values were asked for.
    pub value: Option<Array>,
    /// The gradient of the output with respect to it, if gradients were asked for and one arrives here.
    pub gradient: Option<Array>,
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text())
    }
}

/// One thing that is shown: a node, or a group of nodes as one.
pub(super) struct Item {
    pub(super) id: u64,
    label: String,
    operation: String,
    expression: String,
    described: String,
    pub(super) origin: &'static Location<'static>,
    value: Option<Summary>,
    gradient: Option<Summary>,
    pub(super) inputs: Vec<usize>,
    role: Role,
    /// How many nodes a group stands for.
    members: Option<usize>,
    inside: Vec<Item>,
}

impl Graph {
    /// The graph behind some tensors. What was computed and has no variable behind it has released its inputs,
    /// and is shown as an input itself.
    ///
    /// ```
    /// use glassgrad::{Tensor, glass::Graph};
    /// let (a, b) = (Tensor::from(2.0).named("a"), Tensor::from(3.0).named("b"));
    /// let y = ((&a * &b).tanh() - &b).named("y");
    /// let text = Graph::of(&[&y]).text();
    /// let expressions: Vec<&str> = text.lines().map(|line| line[4..14].trim()).collect();
    /// assert_eq!(expressions, ["input", "input", "a * b", "tanh(v1)", "v2 - b"]);
    /// ```
    pub fn of(outputs: &[&Tensor]) -> Graph {
        Graph::named(outputs, &[])
    }

    /// The graph of a function at a point. Its inputs go by the names they were given, otherwise by their paths in
    /// the tree.
    ///
    /// ```
    /// use glassgrad::{Tensor, glass::Graph};
    /// let point = vec![Tensor::from(2.0), Tensor::from(3.0)];
    /// let graph = Graph::trace(|x: &Vec<Tensor>| &x[0] * x[1].sin(), &point);
    /// assert_eq!(graph.labels(), ["0", "1", "v1", "v2"]);
    /// ```
    pub fn trace<X: Tree, R: Outcome>(function: impl FnOnce(&X) -> R, x: &X) -> Graph {
        let variables = x.map(Tensor::wrapped);
        let outputs = function(&variables).outcome().flatten();
        let named = |(path, variable): (crate::tree::Path, Tensor)| {
            let given = variable.inputs().first().and_then(|leaf| leaf.name().map(str::to_owned));
            let path = path.to_string();
            let name = given.unwrap_or_else(|| if path.is_empty() { "x".to_owned() } else { path });
            (variable, name)
        };
        let names: Vec<(Tensor, String)> = variables.leaves().into_iter().map(named).collect();
        Graph::named(&outputs.iter().collect::<Vec<_>>(), &names)
    }

    fn named(outputs: &[&Tensor], names: &[(Tensor, String)]) -> Graph {
        let level = Scope::of(outputs);
        let labels = Labels::new(&level, names, outputs);
        let is_variable =
            |(node, _): &&(Arc<Node>, _)| node.op == Op::Variable && node.dtype.is_float() && labels.is_shown(node.id);
        let variables = level.nodes.iter().filter(is_variable).map(|(node, _)| Tensor::onto(node.clone())).collect();
        Graph {
            outputs: outputs.iter().map(|output| (*output).clone()).collect(),
            variables,
            level,
            labels,
            values: HashMap::new(),
            gradients: HashMap::new(),
            folds: Vec::new(),
        }
    }

    /// The same with the value of every node. Everything is computed anew for it, and nothing kept in the tensors.
    ///
    /// ```
    /// use glassgrad::{Tensor, glass::Graph};
    /// let graph = Graph::of(&[&(Tensor::from([1.0, 2.0]) * 3.0).sum()]).with_values().unwrap();
    /// assert_eq!(graph.to_json()["nodes"][2]["value"], 9.0);
    /// ```
    pub fn with_values(mut self) -> Result<Graph, Error> {
        self.values = self.level.values()?;
        Ok(self)
    }

    /// The same with all values, and with the gradient of the output with respect to every node between it and
    /// the variables. There must be one output, which is one number.
    pub fn with_gradients(self) -> Result<Graph, Error> {
        let mut graph = self.with_values()?;
        let [output] = &graph.outputs[..] else {
            let message = format!("a gradient belongs to one output, and there are {}", graph.outputs.len());
            return Err(Error::new("with_gradients", message));
        };
        if output.shape().elements() != 1 || !output.is_float() {
            let message = format!("the output must be one floating-point number, not {}", output.describe());
            return Err(Error::new("with_gradients", message).help("sum it, or draw the graph without gradients"));
        }
        if graph.variables.is_empty() {
            let error = Error::new("with_gradients", "the output depends on no variable");
            return Err(error.help("make the inputs variables with .variable(), or use Graph::trace"));
        }
        let variables: Vec<&Tensor> = graph.variables.iter().collect();
        let found = cotangents(&[(output, output.ones_like())], &variables, &[], true);
        let (ids, tensors): (Vec<u64>, Vec<&Tensor>) = found.iter().map(|(id, tensor)| (*id, tensor)).unzip();
        let values = Tensor::eval_all(&tensors)?;
        graph.gradients = ids.into_iter().zip(values).collect();
        Ok(graph)
    }

    /// The same with everything that belongs to a name such as `layers.0` shown as one: the inputs whose dotted
    /// names begin with it, and the unnamed operations that follow from them, up to those that use other inputs
    /// with names or that have a name themselves.
    ///
    /// ```
    /// use glassgrad::{Tensor, glass::Graph};
    /// let x = Tensor::from([1.0, 2.0]).named("x");
    /// let [w, b] = ["layer.weight", "layer.bias"].map(|name| Tensor::from([0.5, 0.25]).named(name));
    /// let y = (&x * &w + &b).tanh().named("layer.output").sum().named("loss");
    /// let text = Graph::of(&[&y]).collapse("layer").text();
    /// assert_eq!(text.lines().count(), 3);
    /// assert!(text.contains("layer   5 nodes"));
    /// ```
    pub fn collapse(mut self, name: &str) -> Graph {
        self.folds.push(Fold::Name(name.to_owned()));
        self
    }

    /// The same with everything collapsed to names of `depth` parts: with 1, `layers.0.weight` is in `layers`.
    ///
    /// ```
    /// use glassgrad::{Tensor, glass::Graph};
    /// use std::collections::BTreeMap;
    /// let layer = |k: f64| BTreeMap::from([("weight", Tensor::from(k)), ("bias", Tensor::from(-k))]);
    /// let run = |layers: &Vec<BTreeMap<&'static str, Tensor>>| {
    ///     layers.iter().fold(Tensor::from(1.0).named("x"), |x, layer| (x * &layer["weight"] + &layer["bias"]).tanh())
    /// };
    /// let graph = Graph::trace(run, &vec![layer(0.5), layer(0.25)]);
    /// assert_eq!(graph.labels().len(), 11);
    /// assert_eq!(graph.collapse_to_depth(1).labels(), ["x", "0", "1"]);
    /// ```
    pub fn collapse_to_depth(mut self, depth: usize) -> Graph {
        self.folds.push(Fold::Depth(depth));
        self
    }

    /// The same with the operations of one line of the source shown as one. What the library composes, such
    /// as a softmax, is one line of the user.
    ///
    /// ```
    /// use glassgrad::{Tensor, glass::Graph};
    /// let graph = Graph::trace(|x: &Tensor| x.softmax(0), &Tensor::from([1.0, 2.0]));
    /// assert!(graph.labels().len() > 8);
    /// assert_eq!(graph.collapse_lines().labels().len(), 2);
    /// ```
    pub fn collapse_lines(mut self) -> Graph {
        self.folds.push(Fold::Lines);
        self
    }

    /// The labels of all nodes that are shown outside of loops, inputs before what uses them.
    pub fn labels(&self) -> Vec<String> {
        self.items().into_iter().map(|item| item.label).collect()
    }

    /// The graph as text: one line a node, with its expression, its type and shape, its value and gradient if they
    /// were asked for, and its source line. The bodies of loops stand indented below them.
    pub fn text(&self) -> String {
        fn add_rows(items: &[Item], indent: &str, rows: &mut Vec<[String; 6]>) {
            for item in items {
                rows.push([
                    format!("{indent}{}", item.label),
                    item.expression.clone(),
                    item.described.clone(),
                    item.value.as_ref().map(Summary::to_string).unwrap_or_default(),
                    item.gradient_text(),
                    line_of(item.origin),
                ]);
                add_rows(&item.inside, &format!("{indent}  "), rows);
            }
        }
        let mut rows = Vec::new();
        add_rows(&self.items(), "", &mut rows);
        aligned(&rows, 0)
    }

    /// The graph in the DOT language of Graphviz, the bodies of loops as clusters.
    ///
    /// ```
    /// use glassgrad::{Tensor, glass::Graph};
    /// let dot = Graph::trace(|x: &Tensor| x.sin(), &Tensor::from(1.0)).dot();
    /// assert!(dot.contains("n0 -> n1;"));
    /// ```
    pub fn dot(&self) -> String {
        diagram(&self.items()).dot()
    }

    /// The graph as an SVG picture, the bodies of loops as pictures inside.
    ///
    /// ```
    /// use glassgrad::{Tensor, glass::Graph};
    /// let svg = Graph::trace(|x: &Tensor| x.sin(), &Tensor::from(1.0)).svg("a sine").unwrap();
    /// assert!(svg.contains("v1 = sin(x)"));
    /// ```
    pub fn svg(&self, title: &str) -> Result<String, TooLarge> {
        diagram(&self.items()).svg(title)
    }

    /// Where everything of the picture stands and what is written in it, for those who draw it themselves.
    ///
    /// `nodes` are in the order of [`Graph::labels`], with `left`, `top`, `width`, `height` and `role` (`input`, `inner`,
    /// `output` or `group`), with `lines` of a `kind` (`name`, `value`, `adjoint` or `note`) and a `text`, and with the
    /// body of a loop `inside`, a plan of the same kind with its `left` and `top`; `edges` go `from` one node `to` another
    /// along a `path` in the language of SVG.
    ///
    /// ```
    /// use glassgrad::{Tensor, glass::Graph};
    /// let plan = Graph::trace(|x: &Tensor| x.sin(), &Tensor::from(1.0)).plan().unwrap();
    /// assert_eq!(plan["nodes"][1]["lines"][0]["text"], "v1 = sin(x)");
    /// assert_eq!((&plan["edges"][0]["from"], &plan["edges"][0]["to"]), (&0.into(), &1.into()));
    /// ```
    pub fn plan(&self) -> Result<Value, TooLarge> {
        diagram(&self.items()).plan_with_lines()
    }

    /// Everything that is shown, in the order of [`Graph::labels`], with all numbers of its value and its gradient.
    /// A group has those of its last node, which is what it hands on.
    ///
    /// ```
    /// use glassgrad::{Tensor, glass::Graph};
    /// let graph = Graph::trace(|x: &Tensor| x.square().sum(), &Tensor::from([1.0, 2.0])).with_gradients().unwrap();
    /// let shown = graph.shown();
    /// let gradient = shown[0].gradient.clone().map(Tensor::from).unwrap();
    /// assert_eq!((shown[0].name.as_str(), gradient.to_string()), ("x", "[2, 4]".into()));
    /// ```
    pub fn shown(&self) -> Vec<Shown> {
        let shown = |item: Item| Shown {
            value: self.values.get(&(Vec::new(), item.id)).cloned(),
            gradient: self.gradients.get(&item.id).cloned(),
            is_input: item.role == Role::Input,
            name: item.label,
        };
        self.items().into_iter().map(shown).collect()
    }

    /// The graph as JSON: the nodes with names, operations, types, lines, values, gradients, inputs and bodies.
    ///
    /// ```
    /// use glassgrad::{Tensor, glass::Graph};
    /// let json = Graph::trace(|x: &Tensor| x.sin(), &Tensor::from(1.0)).to_json();
    /// assert_eq!(json["nodes"][1]["operation"], "sin");
    /// assert_eq!(json["nodes"][1]["inputs"][0], "x");
    /// ```
    pub fn to_json(&self) -> Value {
        let outputs: Vec<String> = self.outputs.iter().map(|output| self.labels.text(output.0.id)).collect();
        json!({ "nodes": json_items(&self.items()), "outputs": outputs })
    }

    fn items(&self) -> Vec<Item> {
        let outputs: HashSet<u64> = self.outputs.iter().map(|output| output.0.id).collect();
        let items = self.level_items(&self.level, &outputs, &[]);
        grouped(items, &self.level, &self.labels, &self.folds)
    }

    fn level_items(&self, level: &Scope, outputs: &HashSet<u64>, steps: &[usize]) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        let mut numbers: HashMap<u64, usize> = HashMap::new();
        for (node, inputs) in level.nodes.iter().filter(|(node, _)| self.labels.is_shown(node.id)) {
            let sources = |numbers: &HashMap<u64, usize>, inputs: &[Arc<Node>]| -> Vec<usize> {
                let shown = inputs.iter().filter_map(|input| self.labels.shown(input.id));
                let mut sources: Vec<usize> = shown.filter_map(|id| numbers.get(&id).copied()).collect();
                sources.dedup();
                sources
            };
            let behind = match inputs.multi() {
                // An operation with several outputs is shown before the first of them.
                Some(multi) => {
                    let known = numbers.get(&multi.id).copied();
                    vec![known.unwrap_or_else(|| {
                        let behind = sources(&numbers, &multi.inputs);
                        numbers.insert(multi.id, items.len());
                        items.push(self.multi_item(multi, behind, steps));
                        items.len() - 1
                    })]
                }
                None if node.op == Op::Variable => Vec::new(),
                None => sources(&numbers, inputs),
            };
            numbers.insert(node.id, items.len());
            let is_input = inputs.is_empty() || node.op == Op::Variable;
            items.push(Item {
                id: node.id,
                label: self.labels.text(node.id),
                operation: if is_input { "input".to_owned() } else { node.op.name() },
                expression: self.labels.expression(node, inputs),
                described: format!("{}{}", node.dtype, node.shape),
                origin: node.origin,
                value: self.values.get(&(steps.to_vec(), node.id)).map(Summary::of),
                gradient: self.gradients.get(&node.id).filter(|_| steps.is_empty()).map(Summary::of),
                inputs: behind,
                role: match () {
                    () if outputs.contains(&node.id) => Role::Output,
                    () if is_input => Role::Input,
                    () => Role::Inner,
                },
                members: None,
                inside: Vec::new(),
            });
        }
        items
    }

    /// An operation with several outputs, which read these items, and its subgraph inside.
    fn multi_item(&self, multi: &MultiNode, inputs: Vec<usize>, steps: &[usize]) -> Item {
        // Inside of a loop the values are those of its first step.
        let body = multi.op.body();
        Item {
            id: multi.id,
            label: self.labels.text(multi.id),
            operation: multi.op.name().to_owned(),
            expression: multi.op.describe(),
            described: String::new(),
            origin: multi.origin,
            value: None,
            gradient: None,
            inputs,
            role: Role::Inner,
            members: None,
            inside: self.level_items(&Scope::of_body(body), &body.output_ids(), &[steps, &[0]].concat()),
        }
    }
}

impl Item {
    /// The gradient with its name, or nothing.
    fn gradient_text(&self) -> String {
        let name = if self.members.is_some() { "gradient".to_owned() } else { adjoint_of(&self.label) };
        self.gradient.as_ref().map(|gradient| format!("{name} {gradient}")).unwrap_or_default()
    }

    /// One item for several, which use these items.
    pub(super) fn group(label: String, members: &[&Item], inputs: Vec<usize>) -> Item {
        let role = if members.iter().any(|item| item.role == Role::Output) { Role::Output } else { Role::Group };
        let last = members.last().map_or(0, |item| item.id);
        Item {
            id: last,
            label,
            operation: "group".to_owned(),
            expression: format!("{} nodes", members.len()),
            described: members.last().map(|item| item.described.clone()).unwrap_or_default(),
            origin: members.last().map_or(Location::caller(), |item| item.origin),
            value: members.last().and_then(|item| item.value.clone()),
            gradient: members.last().and_then(|item| item.gradient.clone()),
            inputs,
            role,
            members: Some(members.len()),
            inside: Vec::new(),
        }
    }
}

/// The file without its folders, and the line.
pub(super) fn line_of(origin: &Location<'_>) -> String {
    let file = origin.file().rsplit(['/', '\\']).next().unwrap_or_default();
    format!("{file}:{}", origin.line())
}

fn diagram(items: &[Item]) -> Diagram {
    let mut diagram = Diagram::default();
    for (number, item) in items.iter().enumerate() {
        let head = match item.role {
            Role::Input => item.label.clone(),
            _ if item.members.is_some() => format!("{}: {}", item.label, item.expression),
            _ => format!("{} = {}", item.label, item.expression),
        };
        let value = item.value.as_ref().map(Summary::to_string).unwrap_or_default();
        let lines = [
            (Ink::Name, head),
            (Ink::Value, item.described.clone()),
            (Ink::Value, value),
            (Ink::Adjoint, item.gradient_text()),
            (Ink::Note, line_of(item.origin)),
        ];
        let inside = (!item.inside.is_empty()).then(|| self::diagram(&item.inside));
        let lines = lines.into_iter().filter(|(_, line)| !line.is_empty()).collect();
        diagram.cards.push(Card { role: item.role, lines, inside });
        let edge = |from: &usize| Edge { from: *from, to: number, label: String::new(), passes: true };
        diagram.edges.extend(item.inputs.iter().map(edge));
    }
    diagram
}

fn json_items(items: &[Item]) -> Vec<Value> {
    let value = |item: &Item| {
        json!({
            "name": item.label,
            "operation": item.operation,
            "expression": item.expression,
            "type": item.described,
            "file": item.origin.file(),
            "line": item.origin.line(),
            "column": item.origin.column(),
            "value": item.value.as_ref().map(Summary::to_json),
            "gradient": item.gradient.as_ref().map(Summary::to_json),
            "inputs": item.inputs.iter().map(|input| items[*input].label.clone()).collect::<Vec<_>>(),
            "nodes": item.members,
            "body": json_items(&item.inside),
        })
    };
    items.iter().map(value).collect()
}
