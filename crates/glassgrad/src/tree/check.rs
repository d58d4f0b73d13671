//! Implementations of `Tree` are code of the user: what they must guarantee is checked where a wrong one would mix up
//! tensors.

use std::any::type_name;

use super::{Branch, Tree};
use crate::error::Error;
use crate::expr::Tensor;

/// The tree with every leaf replaced, and the new leaves in order.
///
/// Fails unless `visit` and `rebuild` agree on the leaves: the same tensors in the same order, and each replacement
/// where the tensor that it replaces was.
pub(crate) fn checked_map<T: Tree>(
    operation: &str,
    tree: &T,
    function: &mut dyn FnMut(&Tensor) -> Tensor,
) -> Result<(T, Vec<Tensor>), Error> {
    let mut check = MapCheck::default();
    tree.visit(&Branch::root(), &mut check.visit());
    let rebuilt = tree.rebuild(&Branch::root(), &mut check.replace(function));
    rebuilt.visit(&Branch::root(), &mut check.compare());
    let replacements = check.finish(operation, type_name::<T>())?;
    Ok((rebuilt, replacements))
}

/// The state of [`checked_map`]. Its visitors do not depend on the type of the tree, so they are compiled once.
#[derive(Default)]
struct MapCheck {
    visited: Vec<u64>,
    replacements: Vec<Tensor>,
    compared: usize,
    /// The path of the first leaf that the walks disagree on.
    wrong: Option<String>,
}

impl MapCheck {
    fn visit(&mut self) -> impl FnMut(&Branch<'_>, &Tensor) {
        |_, leaf| self.visited.push(leaf.0.id)
    }

    fn replace(&mut self, function: &mut dyn FnMut(&Tensor) -> Tensor) -> impl FnMut(&Branch<'_>, &Tensor) -> Tensor {
        |branch, leaf| {
            let expected = self.visited.get(self.replacements.len()).copied();
            self.expect(expected, branch, leaf);
            let new = function(leaf);
            self.replacements.push(new.clone());
            new
        }
    }

    fn compare(&mut self) -> impl FnMut(&Branch<'_>, &Tensor) {
        |branch, leaf| {
            let expected = self.replacements.get(self.compared).map(|new| new.0.id);
            self.expect(expected, branch, leaf);
            self.compared += 1;
        }
    }

    fn expect(&mut self, expected: Option<u64>, branch: &Branch<'_>, leaf: &Tensor) {
        if expected != Some(leaf.0.id) && self.wrong.is_none() {
            self.wrong = Some(branch.path().to_string());
        }
    }

    fn finish(self, operation: &str, tree: &str) -> Result<Vec<Tensor>, Error> {
        let count = self.replacements.len();
        match self.wrong {
            Some(path) => Err(inconsistent(tree, operation, &format!("disagree at the leaf {path:?}"))),
            None if self.visited.len() != count || self.compared != count => {
                Err(inconsistent(tree, operation, "do not have the same number of leaves"))
            }
            None => Ok(self.replacements),
        }
    }
}

/// The error for an implementation of `Tree` that contradicts itself.
pub(crate) fn inconsistent(tree: &str, operation: &str, what: &str) -> Error {
    Error::new(operation, format!("`visit`, `visit_mut` and `rebuild` of the tree {tree} {what}"))
        .help("show the same tensors in the same order in all of them, or use #[derive(Tree)]")
}
