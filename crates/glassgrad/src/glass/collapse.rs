//! Several nodes as one: by the parts of their names, or by their source lines.

use std::collections::{HashMap, HashSet};

use super::graph::{Item, line_of};
use super::labels::Labels;
use super::scope::Scope;
use crate::expr::Op;

/// The grouping of nodes.
#[derive(Clone, Debug)]
pub(super) enum Fold {
    /// Nodes with a common name.
    Name(String),
    /// Nodes whose names share this many components.
    Depth(usize),
    /// Nodes created by one line of the source.
    Lines,
}

/// The items with groups in place of their members. A group is never behind itself: where something outside
/// stands between two parts of it, as in a line that runs once for each layer, each part is a group.
pub(super) fn grouped(items: Vec<Item>, level: &Scope, labels: &Labels, folds: &[Fold]) -> Vec<Item> {
    if folds.is_empty() {
        return items;
    }
    let keys = keys(&items, level, labels, folds);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut group_of: Vec<usize> = Vec::new();
    let mut behind: Vec<HashSet<usize>> = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let sources: HashSet<usize> = item.inputs.iter().map(|input| group_of[*input]).collect();
        // The newest group of this key that is not behind an input from outside of it.
        let fits = |group: &usize| {
            keys[groups[*group][0]] == keys[number]
                && sources.iter().all(|source| source == group || !reaches(&behind, *group, *source))
        };
        let joined = keys[number].as_ref().and_then(|_| (0..groups.len()).rev().find(fits));
        let group = joined.unwrap_or_else(|| {
            groups.push(Vec::new());
            behind.push(HashSet::new());
            groups.len() - 1
        });
        groups[group].push(number);
        behind[group].extend(sources.into_iter().filter(|source| *source != group));
        group_of.push(group);
    }
    assemble(items, &keys, &groups, &behind)
}

/// Whether a group stands behind another one.
fn reaches(behind: &[HashSet<usize>], ancestor: usize, group: usize) -> bool {
    let mut seen = HashSet::new();
    let mut stack = vec![group];
    while let Some(group) = stack.pop() {
        if group == ancestor {
            return true;
        }
        if seen.insert(group) {
            stack.extend(&behind[group]);
        }
    }
    false
}

/// The groups as items, each after those behind it.
fn assemble(items: Vec<Item>, keys: &[Option<String>], groups: &[Vec<usize>], behind: &[HashSet<usize>]) -> Vec<Item> {
    let mut order: Vec<usize> = Vec::new();
    let mut waiting: Vec<usize> = (0..groups.len()).collect();
    let mut place: HashMap<usize, usize> = HashMap::new();
    while !waiting.is_empty() {
        let ready = |group: &usize| behind[*group].iter().all(|other| place.contains_key(other));
        let next = waiting.iter().position(ready).unwrap_or(0);
        let group = waiting.remove(next);
        place.insert(group, order.len());
        order.push(group);
    }
    let mut items: Vec<Option<Item>> = items.into_iter().map(Some).collect();
    let mut assembled = Vec::new();
    for group in order {
        let mut inputs: Vec<usize> = behind[group].iter().filter_map(|other| place.get(other).copied()).collect();
        inputs.sort_unstable();
        let members: Vec<Item> = groups[group].iter().filter_map(|number| items[*number].take()).collect();
        let key = keys[groups[group][0]].clone();
        match (<[Item; 1]>::try_from(members), key) {
            (Ok([mut item]), _) => {
                item.inputs = inputs;
                assembled.push(item);
            }
            (Err(members), key) => {
                assembled.push(Item::group(key.unwrap_or_default(), &members.iter().collect::<Vec<_>>(), inputs));
            }
        }
    }
    assembled
}

/// The group that each item belongs to, by the first fold that has one for it.
fn keys(items: &[Item], level: &Scope, labels: &Labels, folds: &[Fold]) -> Vec<Option<String>> {
    let modules = modules(level, labels);
    let key = |item: &Item, fold: &Fold| {
        let module = modules.get(&item.id);
        match fold {
            Fold::Name(name) => {
                module.filter(|module| *module == name || module.starts_with(&format!("{name}."))).map(|_| name.clone())
            }
            Fold::Depth(depth) => module.map(|module| module.split('.').take(*depth).collect::<Vec<_>>().join(".")),
            Fold::Lines => (!item.inputs.is_empty()).then(|| line_of(item.origin)),
        }
    };
    items.iter().map(|item| folds.iter().find_map(|fold| key(item, fold))).collect()
}

/// The part of the model that each node belongs to: of `layers.0.weight` it is `layers.0`. An operation without a
/// name belongs where its parameter does, and without a parameter where its latest unnamed input does.
fn modules(level: &Scope, labels: &Labels) -> HashMap<u64, String> {
    let mut modules: HashMap<u64, String> = HashMap::new();
    for (node, inputs) in &level.nodes {
        let is_input = inputs.is_empty() || node.op == Op::Variable;
        let label = labels.text(node.id);
        let own = label.rsplit_once('.').map(|(module, _)| module.to_owned());
        let named = node.given_name().is_some() || (is_input && own.is_some());
        let inherited = || {
            let parameter = inputs.iter().rev().find(|input| is_parameter(level, input.id, &modules));
            let latest = || {
                let unnamed = inputs.iter().filter(|input| input.given_name().is_none());
                unnamed.filter(|input| modules.contains_key(&input.id)).max_by_key(|input| input.id)
            };
            parameter.or_else(latest).and_then(|input| modules.get(&input.id).cloned())
        };
        let hidden = labels.shown(node.id).filter(|shown| *shown != node.id);
        let module = match hidden {
            // An inlined node belongs to the group of its operands.
            Some(shown) => modules.get(&shown).cloned(),
            None if named => own.filter(|_| label.parse::<f64>().is_err()),
            None => inherited(),
        };
        if let (Some(multi), Some(module)) = (inputs.multi(), inherited()) {
            modules.insert(multi.id, module);
        }
        modules.extend(module.map(|module| (node.id, module)));
    }
    modules
}

/// Whether a node is an input that belongs to a module, perhaps stretched.
fn is_parameter(level: &Scope, id: u64, modules: &HashMap<u64, String>) -> bool {
    let mut node = level.get(id);
    while let Some((inner, inputs)) = node {
        match (&inner.op, &inputs[..]) {
            (_, []) | (Op::Variable, _) => return modules.contains_key(&inner.id),
            (Op::Einsum(einsum), [input]) if einsum.operands.len() == 1 => node = level.get(input.id),
            _ => return false,
        }
    }
    false
}
