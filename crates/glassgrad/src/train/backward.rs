//! The backward pass of a training step: gradient accumulation, loss scaling, and the leaves that no gradient updates.

use crate::diff::{Within as _, scan, value_and_grad_aux};
use crate::error::Error;
use crate::expr::{Keys, Tensor};
use crate::optim::Optimizer;
use crate::tree::Tree;

/// The backward pass of a step.
pub(super) struct Backward<'b> {
    pub(super) optimizer: &'b Optimizer,
    /// The number of micro-batches whose gradients are accumulated.
    pub(super) parts: usize,
    /// The memory budget of a gradient.
    pub(super) budget: Option<usize>,
    /// The factor of the loss in the backward pass.
    pub(super) scale: Option<&'b Tensor>,
}

impl Backward<'_> {
    /// The loss of a batch and its gradient, as means over micro-batches, each of which draws with a key of its own; and the
    /// leaves that are not trained, after all of them, if the loss returns them.
    pub(super) fn run<X: Tree, B: Tree>(
        &self,
        loss: impl Fn(&X, &B, &Keys) -> (Tensor, Option<X>),
        parameters: &X,
        batch: &B,
        key: &Keys,
    ) -> (Tensor, X, Option<Vec<Tensor>>) {
        let whole = |parameters: &X, batch: &B, key: &Keys| {
            let scaled = |parameters: &X| {
                let (value, next) = loss(parameters, batch, key);
                let scaled = self.scale.map_or_else(|| value.clone(), |scale| &value * scale.cast(value.dtype()));
                (scaled, next.map(|next| untrained(self.optimizer, &next)))
            };
            let function = value_and_grad_aux(scaled);
            let (value, gradient, untrained) = match self.budget {
                Some(bytes) => function.within(bytes)(parameters),
                None => function(parameters),
            };
            // The factor is a power of two, so that nothing is rounded.
            let unscaled = |leaf: &Tensor| match self.scale {
                Some(scale) if leaf.is_float() => leaf / scale.cast(leaf.dtype()),
                _ => leaf.clone(),
            };
            (unscaled(&value), gradient.map(unscaled), untrained)
        };
        let parts = self.parts;
        let divides = |leaf: &Tensor| leaf.shape().first().is_some_and(|count| count.is_multiple_of(parts));
        if parts == 1 || !batch.flatten().iter().all(divides) {
            return whole(parameters, batch, key);
        }
        let divided = batch.map(|leaf| {
            let count = leaf.shape()[0] / parts;
            leaf.reshape([&[parts, count], &leaf.shape()[1..]].concat())
        });
        let one = |(sums, before): &(X, Vec<Tensor>), (part, key): &(B, Keys)| {
            let (value, gradient, next) = whole(&with_untrained(self.optimizer, parameters, before), part, key);
            ((sums.add(&gradient), next.unwrap_or_else(|| before.clone())), value)
        };
        let start = (Tree::zeros_like(parameters), untrained(self.optimizer, parameters));
        let ((sums, untrained), values) = scan(one, &start, &(divided, key.split(parts)));
        let share = |sum: &Tensor| if sum.is_float() { sum * (1.0 / parts as f64) } else { sum.clone() };
        (values.mean(), sums.map(share), Some(untrained).filter(|leaves| !leaves.is_empty()))
    }
}

/// The leaves that the optimizer does not update, in their order.
fn untrained<X: Tree>(optimizer: &Optimizer, tree: &X) -> Vec<Tensor> {
    let leaves = tree.leaves().into_iter();
    leaves.filter(|(path, leaf)| !optimizer.is_trained(path, leaf)).map(|(_, leaf)| leaf).collect()
}

/// A tree with other leaves in place of those that the optimizer does not update. A loss that returns parameters of another
/// structure is an error in those leaves.
pub(super) fn with_untrained<X: Tree>(optimizer: &Optimizer, tree: &X, leaves: &[Tensor]) -> X {
    let own = untrained(optimizer, tree);
    let refused = (own.len() != leaves.len()).then(|| {
        let (found, expected) = (leaves.len(), own.len());
        let message =
            format!("the loss returns {found} leaves that are not trained, and the parameters have {expected}");
        Tensor::refused(Error::new("train", message).help("return the parameters with the same structure"), &[])
    });
    let mut leaves = leaves.iter();
    tree.map_with_path(|path, leaf| match (&refused, optimizer.is_trained(path, leaf)) {
        (_, true) => leaf.clone(),
        (Some(refused), false) => refused.clone(),
        (None, false) => leaves.next().unwrap_or(leaf).clone(),
    })
}
