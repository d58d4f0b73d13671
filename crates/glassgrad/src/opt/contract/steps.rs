//! A tree of joins written down as a list of einsums.

use super::greedy::{SCORES, greedy};
use super::network::{LabelSet, Network};
use super::search::{Exists, Source, Tree, cheapest};
use super::{Limits, Plan, Step, TooLarge, elements, elements_moved, flops};
use crate::einsum::{Einsum, Label};

/// A tensor at hand, by its number, with the labels of its axes.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) number: usize,
    pub(super) labels: Vec<Label>,
}

/// A tensor at hand that is the part of these operands.
pub(super) type Known = (Vec<usize>, Value);

/// The steps so far.
#[derive(Clone)]
pub(super) struct Steps<'a> {
    limits: &'a Limits,
    inputs: usize,
    pub(super) steps: Vec<Step>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(inputs: usize, limits: &'a Limits) -> Steps<'a> {
        Steps { limits, inputs, steps: Vec::new() }
    }

    fn push(&mut self, einsum: Einsum, operands: Vec<usize>) -> usize {
        let bytes = elements_moved(&einsum).saturating_mul(self.limits.element_bytes);
        self.steps.push(Step { flops: flops(&einsum), bytes, einsum, operands });
        self.inputs + self.steps.len() - 1
    }

    /// Adds the steps of an einsum of the inputs with the numbers `operands`. Parts that are there `before`
    /// are not computed again. Returns the number of the result, and the parts that are computed.
    pub(super) fn extend(
        &mut self,
        einsum: &Einsum,
        operands: &[usize],
        before: &dyn Fn(&[usize]) -> Option<Value>,
        considered: &mut u64,
    ) -> Result<(usize, Vec<Known>), TooLarge> {
        if einsum.is_strong() || operands.is_empty() {
            return Ok((self.push(einsum.clone(), operands.to_vec()), Vec::new()));
        }
        let tree = self.tree(einsum, &|members| before(members).is_some(), considered)?;
        Ok(self.write(einsum, operands, &tree, before))
    }

    /// As [`Steps::extend`] in the order that is best for the einsum alone: what is there before is used where it is
    /// met, and not sought.
    pub(super) fn extend_as_if_alone(
        &mut self,
        einsum: &Einsum,
        operands: &[usize],
        before: &dyn Fn(&[usize]) -> Option<Value>,
    ) -> Result<(usize, Vec<Known>), TooLarge> {
        if einsum.is_strong() || operands.is_empty() {
            return Ok((self.push(einsum.clone(), operands.to_vec()), Vec::new()));
        }
        let mut nodes = self.tree(einsum, &|_| false, &mut 0)?.nodes;
        for node in nodes.iter_mut().filter(|node| matches!(node.source, Source::Joined { .. })) {
            if before(&node.members).is_some() {
                node.source = Source::Reused;
            }
        }
        Ok(self.write(einsum, operands, &Tree::new(nodes), before))
    }

    /// Adds the steps of an einsum in the cheapest of a few greedy orders, and returns the number of the result.
    pub(super) fn extend_greedily(
        &mut self,
        einsum: &Einsum,
        operands: &[usize],
        considered: &mut u64,
    ) -> Result<usize, TooLarge> {
        if einsum.is_strong() || operands.is_empty() {
            return Ok(self.push(einsum.clone(), operands.to_vec()));
        }
        let network = Network::new(einsum, self.limits);
        let trees = (0..SCORES).filter_map(|restart| greedy(&network, &|_| false, restart, true, considered));
        let Some(tree) = trees.min_by_key(Tree::cost) else {
            let limit = self.limits.largest_intermediate.unwrap_or(u128::MAX);
            return Err(TooLarge { einsum: einsum.to_string(), limit, smallest: u128::MAX });
        };
        Ok(self.write(einsum, operands, &tree, &|_| None).0)
    }

    fn tree(&self, einsum: &Einsum, exists: Exists, considered: &mut u64) -> Result<Tree, TooLarge> {
        let network = Network::new(einsum, self.limits);
        cheapest(&network, exists, considered).map_err(|smallest| TooLarge {
            einsum: einsum.to_string(),
            limit: self.limits.largest_intermediate.unwrap_or(u128::MAX),
            smallest,
        })
    }

    fn write(
        &mut self,
        einsum: &Einsum,
        operands: &[usize],
        tree: &Tree,
        before: &dyn Fn(&[usize]) -> Option<Value>,
    ) -> (usize, Vec<Known>) {
        let step = |values: &[Value], output: Vec<Label>| {
            Einsum::new(values.iter().map(|value| value.labels.clone()).collect(), output, einsum.extents.clone())
        };
        let root = tree.nodes.len() - 1;
        let (mut values, mut computed): (Vec<Value>, Vec<Known>) = (Vec::new(), Vec::new());
        for (number, node) in tree.nodes.iter().enumerate() {
            let given = |operand: usize| Value { number: operands[operand], labels: einsum.operands[operand].clone() };
            let read: Vec<Value> = match &node.source {
                Source::Operand => vec![given(node.members[0])],
                Source::Reused => before(&node.members).into_iter().collect(),
                Source::Joined { nodes, readings } => {
                    let mut read = Vec::new();
                    for (side, reading) in nodes.iter().zip(readings) {
                        let labels = &tree.nodes[*side].part.0[*reading].labels;
                        let summed = kept(&values[*side..=*side], labels);
                        let single = matches!(tree.nodes[*side].source, Source::Operand);
                        if !single || has_all(&values[*side].labels, labels) {
                            read.push(values[*side].clone());
                        } else if let Some(value) = before(&tree.nodes[*side].members) {
                            read.push(value);
                        } else {
                            let sum = step(&values[*side..=*side], summed.clone());
                            let value = Value { number: self.push(sum, vec![values[*side].number]), labels: summed };
                            computed.push((tree.nodes[*side].members.clone(), value.clone()));
                            read.push(value);
                        }
                    }
                    read
                }
            };
            let numbers = || read.iter().map(|value| value.number).collect::<Vec<_>>();
            if number == root {
                let last = step(&read, einsum.output.clone()).scaled(einsum.coefficient);
                // What was there before may be the result as it is.
                let result = match &node.source {
                    Source::Reused if last.is_identity() => read[0].number,
                    _ => self.push(last, numbers()),
                };
                if is_part(einsum) {
                    computed.push((node.members.clone(), Value { number: result, labels: einsum.output.clone() }));
                }
                return (result, computed);
            }
            values.push(match &node.source {
                Source::Operand | Source::Reused => read[0].clone(),
                Source::Joined { .. } => {
                    let labels = kept(&read, node.part.labels());
                    let value = Value { number: self.push(step(&read, labels.clone()), numbers()), labels };
                    computed.push((node.members.clone(), value.clone()));
                    value
                }
            });
        }
        unreachable!("a tree has a root")
    }

    /// The plan of these steps, of which some are `results`.
    pub(super) fn plan(self, results: &[usize], considered: u64) -> Plan {
        let total = |count: fn(&Step) -> u128| self.steps.iter().map(count).fold(0, u128::saturating_add);
        let (flops, bytes) = (total(|step| step.flops), total(|step| step.bytes));
        let inner = self.steps.iter().enumerate().filter(|(k, _)| !results.contains(&(self.inputs + k)));
        let sizes = inner.map(|(_, step)| elements(&step.einsum, &step.einsum.output));
        let largest_intermediate = sizes.max().unwrap_or_default();
        Plan { inputs: self.inputs, flops, bytes, largest_intermediate, considered, steps: self.steps }
    }
}

/// The labels of some tensors that are in a set, each once, in the order in which they stand.
fn kept(values: &[Value], set: &LabelSet) -> Vec<Label> {
    let mut kept = Vec::new();
    for label in values.iter().flat_map(|value| &value.labels) {
        if set.contains(*label) && !kept.contains(label) {
            kept.push(*label);
        }
    }
    kept
}

fn has_all(labels: &[Label], set: &LabelSet) -> bool {
    labels.iter().all(|label| set.contains(*label))
}

/// Whether the output of an einsum is a plain product and sum, without coefficient, delta and broadcast.
fn is_part(einsum: &Einsum) -> bool {
    let once = |label| einsum.output.iter().filter(|other| *other == label).count() == 1;
    let bound = |label| einsum.operands.iter().any(|labels| labels.contains(label));
    einsum.coefficient == 1.0 && einsum.output.iter().all(|label| once(label) && bound(label))
}
