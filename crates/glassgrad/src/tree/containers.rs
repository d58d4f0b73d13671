//! The trees of the standard library: tensors, options, boxes, lists, maps and tuples.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use smallvec::SmallVec;

use super::Tree;
use super::definition::Definition;
use super::path::Branch;
use crate::expr::{Keys, Tensor};
use crate::sorting::IndirectSort;

impl Tree for Tensor {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        visitor(branch, self);
    }
    fn visit_mut(&mut self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {
        visitor(branch, self);
    }
    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
        leaf(branch, self)
    }
    fn define(&self, _: &mut Definition) {}
}

/// Keys are a leaf of integers.
impl Tree for Keys {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        visitor(branch, &self.0);
    }
    fn visit_mut(&mut self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {
        visitor(branch, &mut self.0);
    }
    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
        Keys(leaf(branch, &self.0))
    }
    fn define(&self, _: &mut Definition) {}
}

impl Tree for () {
    fn visit(&self, _: &Branch<'_>, _: &mut dyn FnMut(&Branch<'_>, &Tensor)) {}
    fn visit_mut(&mut self, _: &Branch<'_>, _: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {}
    fn rebuild(&self, _: &Branch<'_>, _: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {}
    fn define(&self, _: &mut Definition) {}
}

impl<T: Tree> Tree for Box<T> {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        (**self).visit(branch, visitor);
    }
    fn visit_mut(&mut self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {
        (**self).visit_mut(branch, visitor);
    }
    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
        Box::new((**self).rebuild(branch, leaf))
    }
    fn define(&self, definition: &mut Definition) {
        (**self).define(definition);
    }
}

impl<T: Tree> Tree for Option<T> {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        if let Some(tree) = self {
            tree.visit(branch, visitor);
        }
    }
    fn visit_mut(&mut self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {
        if let Some(tree) = self {
            tree.visit_mut(branch, visitor);
        }
    }
    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
        self.as_ref().map(|tree| tree.rebuild(branch, leaf))
    }
    fn define(&self, definition: &mut Definition) {
        definition.number(usize::from(self.is_some()));
        self.iter().for_each(|tree| tree.define(definition));
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        self.iter().enumerate().for_each(|(k, tree)| tree.visit(&branch.child(k), visitor));
    }
    fn visit_mut(&mut self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {
        self.iter_mut().enumerate().for_each(|(k, tree)| tree.visit_mut(&branch.child(k), visitor));
    }
    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
        self.iter().enumerate().map(|(k, tree)| tree.rebuild(&branch.child(k), leaf)).collect()
    }
    fn define(&self, definition: &mut Definition) {
        definition.number(self.len());
        self.iter().for_each(|tree| tree.define(definition));
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        self.iter().enumerate().for_each(|(k, tree)| tree.visit(&branch.child(k), visitor));
    }
    fn visit_mut(&mut self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {
        self.iter_mut().enumerate().for_each(|(k, tree)| tree.visit_mut(&branch.child(k), visitor));
    }
    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
        std::array::from_fn(|k| self[k].rebuild(&branch.child(k), leaf))
    }
    fn define(&self, definition: &mut Definition) {
        self.iter().for_each(|tree| tree.define(definition));
    }
}

impl<K: Ord + Clone + Hash + ToString, T: Tree> Tree for BTreeMap<K, T> {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        self.iter().for_each(|(key, tree)| tree.visit(&branch.entry(key), visitor));
    }
    fn visit_mut(&mut self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {
        self.iter_mut().for_each(|(key, tree)| tree.visit_mut(&branch.entry(key), visitor));
    }
    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
        self.iter().map(|(key, tree)| (key.clone(), tree.rebuild(&branch.entry(key), leaf))).collect()
    }
    fn define(&self, definition: &mut Definition) {
        define_entries(self.len(), self.iter(), definition);
    }
}

/// Adds the keys of a map and the definitions of its values.
fn define_entries<'k, K: Hash + 'k, T: Tree + 'k>(
    length: usize,
    entries: impl Iterator<Item = (&'k K, &'k T)>,
    definition: &mut Definition,
) {
    definition.number(length);
    entries.for_each(|(key, tree)| {
        definition.value(key);
        tree.define(definition);
    });
}

/// Entries in the order of their keys; few of them need no memory.
fn sorted<'k, K: Ord, T>(entries: impl Iterator<Item = (&'k K, T)>) -> SmallVec<[(&'k K, T); 16]> {
    let mut sorted: SmallVec<[(&K, T); 16]> = entries.collect();
    sorted.indirect_sort_by_key(|(key, _)| *key);
    sorted
}

/// The leaves of a hash map are in the order of their keys, whatever order the map has.
impl<K: Ord + Clone + Hash + ToString, T: Tree> Tree for HashMap<K, T> {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        sorted(self.iter()).into_iter().for_each(|(key, tree)| tree.visit(&branch.entry(key), visitor));
    }
    fn visit_mut(&mut self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {
        sorted(self.iter_mut()).into_iter().for_each(|(key, tree)| tree.visit_mut(&branch.entry(key), visitor));
    }
    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
        sorted(self.iter())
            .into_iter()
            .map(|(key, tree)| (key.clone(), tree.rebuild(&branch.entry(key), leaf)))
            .collect()
    }
    fn define(&self, definition: &mut Definition) {
        define_entries(self.len(), sorted(self.iter()).into_iter(), definition);
    }
}

macro_rules! tuples {
    ($(($($T:ident $number:tt),+))*) => {$(
        impl<$($T: Tree),+> Tree for ($($T,)+) {
            fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
                $(self.$number.visit(&branch.child($number), visitor);)+
            }
            fn visit_mut(&mut self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {
                $(self.$number.visit_mut(&branch.child($number), visitor);)+
            }
            fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
                ($(self.$number.rebuild(&branch.child($number), leaf),)+)
            }
            fn define(&self, definition: &mut Definition) {
                $(self.$number.define(definition);)+
            }
        }
    )*};
}
tuples! { (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4) (A 0, B 1, C 2, D 3, E 4, F 5) }
