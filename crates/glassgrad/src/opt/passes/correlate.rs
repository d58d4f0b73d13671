//! Rewrites col2im of windows with stride 1 as a correlation.
//!
//! The input gradient of a convolution scatter-accumulates the products of cotangents and kernel. As a gather, each element is the
//! sum over the taps of the kernel of the cotangents of the windows that read it: a correlation of the padded cotangent with the
//! flipped kernel. Nothing is accumulated in memory, so that tiles are independent and sums stay in registers. The zeros of the
//! padding are multiplied too; for images so small that this dominates, the scatter stays.
//! The gradient of sums of windows, as of average pooling, is the same without a kernel.

use crate::einsum::{Einsum, Label};
use crate::expr::Op;
use crate::opt::graph::{Graph, GraphNode};
use crate::shape::Shape;
use crate::view::{AxisView, View};

/// The largest accepted ratio of multiplications.
const WORTH: f64 = 1.3;
/// The largest number of taps for which a correlation without a matrix product is faster than the scatter.
const SMALL: usize = 25;

/// One axis that windows slide along: the axes of positions and of taps in the scattered array.
struct Slid {
    position: usize,
    place: usize,
    dilation: isize,
}

/// If a node scatters a product of a cotangent and a kernel, the windows of the padded cotangent, and a function from their node number
/// to the product with the kernel.
pub(super) fn correlated(
    graph: &Graph,
    node: &GraphNode,
) -> Option<(GraphNode, impl FnOnce(usize) -> GraphNode + use<>)> {
    let Op::ScatterView(view) = &node.op else { return None };
    let folded = &graph.nodes[node.inputs[0]];
    let Op::Einsum(einsum) = &folded.op else { return None };
    if !matches!(einsum.operands.len(), 1 | 2) {
        return None;
    }
    let slid: Vec<Option<Slid>> = (0..view.axes.len()).map(|axis| slid(view, axis)).collect::<Option<_>>()?;
    let windows = || slid.iter().flatten();
    if slid.len() + windows().count() != view.output.rank() {
        return None;
    }
    let position = einsum.output[windows().next()?.position];
    let cotangent = einsum.operands.iter().position(|labels| labels.contains(&position))?;
    let (own, kernel) = (&einsum.operands[cotangent], einsum.operands.get(1 - cotangent));
    let once = |labels: &[Label], label: Label| labels.iter().filter(|own| **own == label).count() == 1;
    let is_apart = |slid: &Slid| {
        let [position, place] = [slid.position, slid.place].map(|axis| einsum.output[axis]);
        let is_in_cotangent = once(own, position) && !own.contains(&place);
        let is_multiplied = kernel.is_none_or(|kernel| once(kernel, place) && !kernel.contains(&position));
        is_in_cotangent && is_multiplied && once(&einsum.output, position) && once(&einsum.output, place)
    };
    // The padding must be a strong zero unless no factor has strong zeros.
    let is_weak = einsum.strong[cotangent] || !einsum.is_strong();
    // Without a free axis of the kernel there is no matrix product but a sum over taps, of which there must be few.
    let is_place = |label: &Label| windows().any(|slid| einsum.output[slid.place] == *label);
    let is_free = |label: &&Label| einsum.extents[**label] > 1 && einsum.output.contains(label) && !own.contains(label);
    let has_columns = kernel.into_iter().flatten().filter(is_free).any(|label| !is_place(label));
    let places: usize = windows().map(|slid| view.output[slid.place]).product();
    if !windows().all(is_apart)
        || !is_weak
        || !(has_columns || places <= SMALL)
        || einsum.extents.contains(&0)
        || view.input.contains(&0)
    {
        return None;
    }
    let size =
        |axis: usize| view.input[axis] as f64 / view.output[slid[axis].as_ref().map_or(0, |s| s.position)] as f64;
    let more: f64 = (0..slid.len()).filter(|axis| slid[*axis].is_some()).map(size).product();
    if more > WORTH {
        return None;
    }
    // The padded cotangent, indexed by the positions of the result and the taps of the kernel.
    let mut labels = own.clone();
    let mut product = Einsum::clone(einsum);
    let input = &graph.nodes[folded.inputs[cotangent]];
    let mut axes: Vec<AxisView> = (0..own.len()).map(|axis| AxisView { offset: 0, steps: vec![(axis, 1)] }).collect();
    let mut seen = input.shape.to_vec();
    for (axis, slid) in slid.iter().enumerate() {
        let Some(slid) = slid else { continue };
        let [position, place] = [slid.position, slid.place].map(|axis| einsum.output[axis]);
        let along = own.iter().position(|label| *label == position)?;
        seen[along] = view.input[axis];
        product.extents[position] = view.input[axis];
        axes[along] =
            AxisView { offset: -view.axes[axis].offset, steps: vec![(along, 1), (seen.len(), -slid.dilation)] };
        seen.push(einsum.extents[place]);
        labels.push(place);
    }
    product.operands[cotangent] = labels;
    product.output = view
        .axes
        .iter()
        .zip(&slid)
        .map(|(axis, slid)| match slid {
            Some(slid) => einsum.output[slid.position],
            None => einsum.output[axis.steps[0].0],
        })
        .collect();
    let output = Shape::from(&seen[..]);
    let read = View { input: input.shape.clone(), output: output.clone(), axes };
    let read = GraphNode {
        op: Op::ReadView(read.into()),
        inputs: vec![folded.inputs[cotangent]],
        shape: output,
        multi: None,
        ..input.clone()
    };
    let read = GraphNode { source: node.source, ..read };
    let (mut inputs, node) = (folded.inputs.clone(), node.clone());
    Some((read, move |windows| {
        inputs[cotangent] = windows;
        GraphNode { op: Op::Einsum(product.into()), inputs, ..node }
    }))
}

/// What windows do along an axis: nothing at all, or move by single places; `None` for everything else.
fn slid(view: &View, axis: usize) -> Option<Option<Slid>> {
    let own = &view.axes[axis];
    let is_alone =
        |along: usize| view.axes.iter().flat_map(|axis| &axis.steps).filter(|(other, _)| *other == along).count() == 1;
    match own.steps[..] {
        [(along, 1)] if own.offset == 0 && view.output[along] == view.input[axis] && is_alone(along) => Some(None),
        [(position, 1), (place, dilation)] if is_alone(position) && is_alone(place) => {
            Some(Some(Slid { position, place, dilation }))
        }
        _ => None,
    }
}
