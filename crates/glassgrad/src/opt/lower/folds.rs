//! Products whose elements are added up at the places of a view: the way back through the windows of a convolution.
//!
//! The windows that the product would make are as many times larger than what they are folded to as a window has places.
//! So the product writes to the places themselves, where its elements meet.

use super::strides::rows;
use super::{Located, Lowering};
use crate::einsum::Einsum;
use crate::expr::Op;
use crate::few::Few;
use crate::opt::graph::Graph;
use crate::shape::Shape;
use crate::shared::NumberMap;
use crate::view::View;

/// Products that are only spread by a view, each with the node that does so.
pub(super) fn folds(graph: &Graph) -> NumberMap<usize, usize> {
    let mut folds = NumberMap::default();
    let mut uses: Option<Vec<usize>> = None;
    for (number, node) in graph.nodes.iter().enumerate() {
        let (Op::Spread(_), [product]) = (&node.op, &node.inputs[..]) else { continue };
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

/// Where the elements of a product go that a view spreads: an array with room for what falls outside.
pub(super) struct Fold {
    /// The shape of that array.
    pub(super) shape: Shape,
    /// The place of the first element of the product in it.
    pub(super) offset: isize,
    /// How far each axis of the product leads in it.
    pub(super) strides: Few<isize>,
    /// The place of the first element that is inside.
    inside: isize,
}

impl Fold {
    /// The places that a view leads to.
    fn of(view: &View) -> Fold {
        let reach = |steps: &[(usize, isize)], towards: fn(isize) -> isize| -> isize {
            steps.iter().map(|(along, step)| towards(step * (view.output[*along] as isize - 1))).sum()
        };
        let bounds = |(axis, size): (&crate::view::AxisView, &usize)| {
            let first = axis.offset + reach(&axis.steps, |step| step.min(0));
            let last = axis.offset + reach(&axis.steps, |step| step.max(0));
            [first.min(0), (last + 1).max(*size as isize)]
        };
        let bounds: Vec<[isize; 2]> = view.axes.iter().zip(view.input.iter()).map(bounds).collect();
        let shape: Shape = bounds.iter().map(|[first, behind]| (behind - first) as usize).collect();
        let own = rows(&shape);
        let mut fold = Fold { shape, offset: 0, strides: Few::repeated(0, view.output.rank()), inside: 0 };
        for ((axis, [first, _]), stride) in view.axes.iter().zip(bounds).zip(own.iter()) {
            fold.offset += (axis.offset - first) * stride;
            fold.inside -= first * stride;
            axis.steps.iter().for_each(|(along, step)| fold.strides[*along] += step * stride);
        }
        fold
    }
}

impl Lowering<'_> {
    /// Where the elements of a product go, if nobody but a view reads them.
    pub(super) fn fold_of(&self, number: usize, einsum: &Einsum) -> Option<Fold> {
        let spread = self.folds.get(&number)?;
        match &self.graph.nodes[*spread].op {
            Op::Spread(view) if !einsum.extents.contains(&0) && !view.input.contains(&0) => Some(Fold::of(view)),
            _ => None,
        }
    }

    /// Remembers where the node that spreads a product will find what it would make.
    pub(super) fn folded(&mut self, number: usize, fold: &Fold, producer: usize) {
        if let Some(spread) = self.folds.get(&number) {
            let strides = rows(&fold.shape);
            self.located[*spread] = Some(Located { producer, offset: fold.inside, strides });
        }
    }
}
