//! Products whose elements are added up at the places of a view: the way back through the windows of a convolution.
//!
//! The windows that the product would make are as many times larger than what they are folded to as a window has places.
//! So the product writes to the places themselves, where its elements meet.

use super::padding::PaddedView;
use super::strides::rows;
use super::{Located, Lowering};
use crate::einsum::Einsum;
use crate::expr::Op;
use crate::hashing::NumberMap;
use crate::opt::graph::Graph;

/// Products that are only spread by a view, each with the node that does so.
pub(super) fn folds(graph: &Graph) -> NumberMap<usize, usize> {
    let mut folds = NumberMap::default();
    let mut uses: Option<Vec<usize>> = None;
    for (number, node) in graph.nodes.iter().enumerate() {
        let (Op::ScatterView(_), [product]) = (&node.op, &node.inputs[..]) else { continue };
        let uses = uses.get_or_insert_with(|| {
            let mut uses = vec![0; graph.nodes.len()];
            let inputs = graph.nodes.iter().flat_map(|node| &node.inputs);
            inputs.chain(&graph.results).for_each(|input| uses[*input] += 1);
            uses
        });
        if uses[*product] == 1 && matches!(graph.nodes[*product].op, Op::Einsum(_)) {
            folds.insert(*product, number);
        }
    }
    folds
}

impl Lowering<'_> {
    /// The destination of the elements of a product, if a view is their only reader.
    pub(super) fn fold_of(&self, number: usize, einsum: &Einsum) -> Option<PaddedView> {
        let spread = self.folds.get(&number)?;
        match &self.graph.nodes[*spread].op {
            Op::ScatterView(view) if !einsum.extents.contains(&0) && !view.input.contains(&0) => {
                Some(PaddedView::of(view))
            }
            _ => None,
        }
    }

    /// Remembers where the node that spreads a product will find what it would make.
    pub(super) fn folded(&mut self, number: usize, fold: &PaddedView, producer: usize) {
        if let Some(spread) = self.folds.get(&number) {
            let strides = rows(&fold.shape);
            self.located[*spread] = Some(Located { producer, offset: fold.inside, strides });
        }
    }
}
