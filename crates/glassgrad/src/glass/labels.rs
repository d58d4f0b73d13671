//! The name of every node, and which nodes are worth showing.
//!
//! Names that the user gave stay; other inputs are x1, x2, … and all else v1, v2, …, as in the tables of the
//! scalar trace. A number, a number or a bias stretched to a shape, and a sign are written where they are used
//! instead of having a node of their own, as people write them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::scope::Scope;
use crate::expr::{Inputs, MultiNode, MultiOp, Node, Op, Product, Tensor};
use crate::trace::short;

/// The labels of a graph and of all bodies of loops in it.
#[derive(Clone, Default)]
pub(crate) struct Labels {
    texts: HashMap<u64, String>,
    /// What stands for a node that is not shown: another node, or none for a number.
    hidden: HashMap<u64, Option<u64>>,
    given: HashSet<String>,
    counts: HashMap<&'static str, usize>,
}

impl Labels {
    /// Labels for a graph in which some nodes have names from outside, and outputs are shown in any case.
    pub(crate) fn new(level: &Scope, names: &[(Tensor, String)], outputs: &[&Tensor]) -> Labels {
        let mut labels = Labels::default();
        labels.collect(level);
        for (tensor, name) in names {
            labels.given.insert(name.clone());
            labels.texts.insert(tensor.0.id, name.clone());
        }
        let shown: HashSet<u64> = outputs.iter().map(|output| output.0.id).collect();
        labels.assign(level, &shown);
        labels
    }

    /// Names that the user gave anywhere are not given to others.
    fn collect(&mut self, level: &Scope) {
        for (node, _) in &level.nodes {
            self.given.extend(node.given_name().map(str::to_owned));
        }
        for multi in level.multis() {
            self.collect(&Scope::of_body(multi.op.body()));
        }
    }

    fn fresh(&mut self, letter: &'static str) -> String {
        loop {
            let count = self.counts.entry(letter).or_insert(0);
            *count += 1;
            let label = format!("{letter}{count}");
            if !self.given.contains(&label) {
                return label;
            }
        }
    }

    fn assign(&mut self, level: &Scope, shown: &HashSet<u64>) {
        let wrapped = leaves_under_variables(level);
        for (node, inputs) in &level.nodes {
            if let Some(multi) = inputs.multi().filter(|multi| !self.texts.contains_key(&multi.id)) {
                self.assign_inside(multi);
            }
            if self.texts.contains_key(&node.id) {
                // The leaf under a variable with a name from outside goes by the same name.
                self.name_leaf_under(node, inputs, &wrapped);
                continue;
            }
            let label = match self.inlined(node, inputs, shown, &wrapped) {
                Some((text, stands_for)) => {
                    self.hidden.insert(node.id, stands_for);
                    text
                }
                None => {
                    let under = inputs.first().filter(|_| node.op == Op::Variable);
                    let name = node.given_name().or_else(|| under.and_then(|leaf| leaf.given_name()));
                    let letter = if inputs.is_empty() || node.op == Op::Variable { "x" } else { "v" };
                    name.map(str::to_owned).unwrap_or_else(|| self.fresh(letter))
                }
            };
            self.texts.insert(node.id, label);
            self.name_leaf_under(node, inputs, &wrapped);
        }
    }

    /// Labels of an operation with several outputs, and of its subgraph.
    fn assign_inside(&mut self, multi: &MultiNode) {
        let body = multi.op.body();
        for (number, parameter) in body.parameters.iter().enumerate() {
            // A label of another loop is kept: the reverse sweep reads what the forward sweep wrote.
            if self.texts.contains_key(&parameter.0.id) {
                continue;
            }
            let letter = match multi.op.scan() {
                None => "argument",
                Some(scan) if number < scan.carries => "carry",
                Some(_) => "entry",
            };
            let label = parameter.name().map_or_else(|| self.fresh(letter), str::to_owned);
            self.texts.insert(parameter.0.id, label);
        }
        self.assign(&Scope::of_body(body), &body.output_ids());
        let label = self.fresh("v");
        self.texts.insert(multi.id, label);
    }

    fn name_leaf_under(&mut self, node: &Node, inputs: &[Arc<Node>], wrapped: &HashSet<u64>) {
        if let (Op::Variable, [leaf]) = (&node.op, inputs)
            && wrapped.contains(&leaf.id)
        {
            let text = self.text(node.id);
            self.texts.insert(leaf.id, text);
            self.hidden.insert(leaf.id, Some(node.id));
        }
    }

    /// How a node is written where it is used, and the node that stands for it, if it has none of its own.
    fn inlined(
        &self,
        node: &Node,
        inputs: &[Arc<Node>],
        shown: &HashSet<u64>,
        wrapped: &HashSet<u64>,
    ) -> Option<(String, Option<u64>)> {
        if node.given_name().is_some() || shown.contains(&node.id) {
            return None;
        }
        let text = |input: &Arc<Node>| self.text(input.id);
        let is_number = |input: &Arc<Node>| self.hidden.get(&input.id) == Some(&None);
        match (&node.op, inputs) {
            (Op::Leaf, []) if wrapped.contains(&node.id) => Some((String::new(), None)),
            (Op::Leaf, []) if node.shape.rank() == 0 => node.value().map(|value| (short(value.buffer().get(0)), None)),
            (Op::Variable, [input]) if !wrapped.contains(&input.id) => Some((text(input), self.shown(input.id))),
            (Op::Einsum(einsum), inputs) => match (Product::of(einsum), inputs) {
                (Product::Elementwise, []) if !self.is_released(node) => Some((short(einsum.coefficient), None)),
                (Product::Broadcast, [input]) => Some((text(input), self.shown(input.id))),
                (Product::Scaled, [input]) => Some((node.op.written(&[text(input)]), self.shown(input.id))),
                _ => None,
            },
            (Op::Map(formula), [input]) if formula.nodes.len() == 1 => Some((text(input), self.shown(input.id))),
            // A number in another shape or type is the same number.
            (Op::Cast, [input]) if is_number(input) => Some((text(input), None)),
            (other, [input]) if is_number(input) && other.name() == "reshape" => Some((text(input), None)),
            _ => None,
        }
    }

    /// Whether a node was computed and has released its inputs, so that it looks like a leaf.
    fn is_released(&self, node: &Node) -> bool {
        matches!(&node.op, Op::Einsum(einsum) if !einsum.operands.is_empty())
    }

    /// The label of a node, or how it is written where it is used.
    pub(crate) fn text(&self, id: u64) -> String {
        self.texts.get(&id).cloned().unwrap_or_else(|| "?".to_owned())
    }

    /// The node that is shown for one: itself, or what it stands for; none for a number.
    pub(crate) fn shown(&self, id: u64) -> Option<u64> {
        self.hidden.get(&id).copied().unwrap_or(Some(id))
    }

    /// Whether a node is shown under its own label.
    pub(crate) fn is_shown(&self, id: u64) -> bool {
        !self.hidden.contains_key(&id)
    }

    /// The expression of a node, in labels.
    pub(crate) fn expression(&self, node: &Node, inputs: &Inputs) -> String {
        if let (Op::GetOutput(number), Some(multi)) = (&node.op, inputs.multi()) {
            let word = match &multi.op {
                MultiOp::Scan(scan) if *number < scan.carries => "last",
                MultiOp::Scan(_) => "every",
                MultiOp::Remat(_) => "result",
                MultiOp::Sweep(_) => return node.op.written(&[self.text(multi.id)]),
            };
            return format!("{word} {} of {}", self.text(multi.op.body().outputs[*number].0.id), self.text(multi.id));
        }
        match (&node.op, &inputs[..]) {
            (_, []) | (Op::Variable, _) => "input".to_owned(),
            (Op::Map(_), _) => {
                // A sign in front of a name must not be read as one in front of a power of it.
                let composed = |text: &String| text.starts_with('-') || text.contains(' ');
                let texts: Vec<String> = inputs.iter().map(|input| self.text(input.id)).collect();
                let enclosed = |text: &String| if composed(text) { format!("({text})") } else { text.clone() };
                let written = node.op.written(&texts.iter().map(enclosed).collect::<Vec<_>>());
                texts
                    .iter()
                    .filter(|text| composed(text))
                    .fold(written, |written, text| written.replace(&format!("(({text}))"), &format!("({text})")))
            }
            (op, _) => op.written(&inputs.iter().map(|input| self.text(input.id)).collect::<Vec<_>>()),
        }
    }
}

/// Leaves, and computed nodes that look like leaves, that are used by variables alone: the variable is the input.
fn leaves_under_variables(level: &Scope) -> HashSet<u64> {
    let mut wrapped = HashSet::new();
    let mut used = HashSet::new();
    for (node, inputs) in &level.nodes {
        for input in inputs {
            let is_bare = level.get(input.id).is_some_and(|(_, inputs)| inputs.is_empty());
            if node.op == Op::Variable && is_bare && input.op != Op::Placeholder {
                wrapped.insert(input.id);
            } else {
                used.insert(input.id);
            }
        }
    }
    wrapped.retain(|id| !used.contains(id));
    wrapped
}
