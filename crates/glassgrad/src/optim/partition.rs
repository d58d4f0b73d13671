//! Partitions of parameters among ranks: the optimizer with the state of one part (ZeRO stage 1).

use std::ops::Range;

use super::link::Quantity;
use super::optimizer::{Optimizer, Trained};
use super::rule::Value;
use crate::expr::Tensor;
use crate::tree::Tree;

/// One of several consecutive parts of the elements of every trained leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) part: usize,
    pub(crate) parts: usize,
}

impl Partition {
    /// The elements of the part among this many.
    pub(crate) fn range(self, elements: usize) -> Range<usize> {
        let bound = |part: usize| elements * part / self.parts;
        bound(self.part)..bound(self.part + 1)
    }

    /// The part of a leaf, as a vector.
    #[track_caller]
    pub(super) fn of(self, leaf: &Tensor) -> Tensor {
        let range = self.range(leaf.shape().elements());
        leaf.flatten().part_of_axis(0, range.start, range.len())
    }

    /// The part of a quantity of a link: of numbers for each weight. One number for a leaf, or for all, stays.
    #[track_caller]
    pub(super) fn of_quantity(self, quantity: Quantity, leaves: &[Tensor]) -> Quantity {
        let Value::Leaves(values) = &quantity.value else { return quantity };
        let mut parts = Vec::with_capacity(values.len());
        for (value, leaf) in values.iter().zip(leaves) {
            parts.push(if value.rank() > 0 && value.shape() == leaf.shape() { self.of(value) } else { value.clone() });
        }
        Quantity { value: Value::Leaves(parts), ..quantity }
    }
}

impl Optimizer {
    /// A tree whose trained leaves are their parts.
    #[track_caller]
    pub(crate) fn part_of<X: Tree>(&self, tree: &X, part: Partition) -> X {
        let trained = Trained::of(self, tree.leaves());
        tree.with_leaves(trained.replaced(tree.flatten(), trained.part(part).leaves))
    }

    /// The places of the trained leaves among all leaves of the parameters.
    pub(crate) fn trained_places<X: Tree>(&self, parameters: &X) -> Vec<usize> {
        Trained::of(self, parameters.leaves()).places
    }
}
