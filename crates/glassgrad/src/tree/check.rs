//! Implementations of `Tree` are code of the user: what they must guarantee is checked where a wrong one would mix up
//! tensors.

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
    mut function: impl FnMut(&Tensor) -> Tensor,
) -> Result<(T, Vec<Tensor>), Error> {
    let mut visited = Vec::new();
    tree.visit(&Branch::root(), &mut |_, leaf| visited.push(leaf.0.id));
    let (mut expected, mut wrong) = (visited.iter(), None);
    let mut replacements = Vec::with_capacity(visited.len());
    let rebuilt = tree.rebuild(&Branch::root(), &mut |branch, leaf| {
        if expected.next() != Some(&leaf.0.id) && wrong.is_none() {
            wrong = Some(branch.path().to_string());
        }
        let new = function(leaf);
        replacements.push(new.clone());
        new
    });
    let mut found = replacements.iter();
    rebuilt.visit(&Branch::root(), &mut |branch, leaf| {
        if found.next().map(|new| new.0.id) != Some(leaf.0.id) && wrong.is_none() {
            wrong = Some(branch.path().to_string());
        }
    });
    let missing = expected.next().is_some() || found.next().is_some();
    match wrong {
        Some(path) => Err(inconsistent::<T>(operation, &format!("disagree at the leaf {path:?}"))),
        None if missing => Err(inconsistent::<T>(operation, "do not have the same number of leaves")),
        None => Ok((rebuilt, replacements)),
    }
}

/// The error for an implementation of `Tree` that contradicts itself.
pub(crate) fn inconsistent<T>(operation: &str, what: &str) -> Error {
    let message = format!("`visit`, `visit_mut` and `rebuild` of the tree {} {what}", std::any::type_name::<T>());
    Error::new(operation, message)
        .help("show the same tensors in the same order in all of them, or use #[derive(Tree)]")
}
