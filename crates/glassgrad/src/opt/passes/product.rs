//! The algebra of einsums that passes share: one put into another, labels named anew, numbers.

use crate::dtype::DType;
use crate::einsum::{Einsum, Label};
use crate::expr::Op;
use crate::opt::graph::GraphNode;
use crate::opt::structural_hash::Fingerprint;
use crate::shape::{InlineVec, Shape};

/// The product that a node is, if it is one.
pub(super) fn product(node: &GraphNode) -> Option<&Einsum> {
    match &node.op {
        Op::Einsum(einsum) => Some(einsum),
        _ => None,
    }
}

/// The number that a node holds everywhere, if it is a product of no operands.
pub(super) fn number(node: &GraphNode) -> Option<f64> {
    let einsum = product(node).filter(|einsum| einsum.operands.is_empty())?;
    let is_number = einsum.coefficient == 0.0 || all_differ(&einsum.output);
    is_number.then(|| rounded(einsum.coefficient, node.dtype))
}

/// The same node as a product of no operands: a number everywhere.
pub(super) fn number_node(node: &GraphNode, value: f64) -> GraphNode {
    let labels = (0..node.shape.rank()).collect();
    let einsum = Einsum::new(Vec::new(), labels, node.shape.to_vec()).scaled(value);
    GraphNode { op: Op::Einsum(einsum.into()), inputs: Vec::new(), multi: None, ..node.clone() }
}

/// A number as elements of a type hold it.
pub(super) fn rounded(value: f64, dtype: DType) -> f64 {
    dtype.stored(value)
}

pub(super) fn all_differ(labels: &[Label]) -> bool {
    labels.iter().enumerate().all(|(place, label)| !labels[..place].contains(label))
}

/// The labels that really are summed; a sum over one element is none.
pub(super) fn sums(einsum: &Einsum) -> Vec<Label> {
    einsum.summed().into_iter().filter(|label| einsum.extents[*label] != 1).collect()
}

/// Whether anything really is summed.
pub(super) fn has_sums(einsum: &Einsum) -> bool {
    let is_summed = |label: &Label| einsum.extents[*label] != 1 && !einsum.output.contains(label);
    einsum.operands.iter().flatten().any(is_summed)
}

/// Whether a sum has no terms, because the extent of a summed label is 0: then every element is 0, whatever the operands are.
///
/// Such a product is neither split nor put into another one: 0 · NaN of the parts would not be the empty sum of the whole.
pub(super) fn has_empty_sum(einsum: &Einsum) -> bool {
    let is_empty = |label: &Label| einsum.extents[*label] == 0 && !einsum.output.contains(label);
    einsum.operands.iter().flatten().any(is_empty)
}

/// Whether a product has so few operands and sums that a loop can read it in passing at no cost: a transpose, a
/// broadcast, a diagonal, a multiple, a number, a unit tensor.
pub(super) fn is_view(einsum: &Einsum) -> bool {
    einsum.operands.len() <= 1 && !einsum.is_strong() && !has_sums(einsum)
}

/// The same product with labels numbered as they appear, operands first; labels that do not appear are gone.
pub(super) fn renamed(einsum: &Einsum) -> Einsum {
    let mut names: Vec<Option<Label>> = vec![None; einsum.extents.len()];
    let mut extents = Vec::new();
    let mut rename = |labels: &Vec<Label>| -> Vec<Label> {
        let mut name = |label: &Label| {
            *names[*label].get_or_insert_with(|| {
                extents.push(einsum.extents[*label]);
                extents.len() - 1
            })
        };
        labels.iter().map(&mut name).collect()
    };
    let operands = einsum.operands.iter().map(&mut rename).collect();
    let output = rename(&einsum.output);
    Einsum { coefficient: einsum.coefficient, operands, strong: einsum.strong.clone(), output, extents }
}

/// Mixes a product into a fingerprint, with its operands in some order and under the names that labels get in the order
/// of appearance, as [`renamed`] gives them; `operand` adds what else distinguishes operands.
pub(super) fn mix_product(
    hash: &mut Fingerprint,
    einsum: &Einsum,
    order: &[usize],
    operand: impl Fn(&mut Fingerprint, usize),
) {
    hash.word(einsum.coefficient.to_bits());
    hash.word(order.len() as u64);
    let mut names: InlineVec<usize> = InlineVec::from_elem(usize::MAX, einsum.extents.len());
    let mut named = 0;
    let mut labels = |hash: &mut Fingerprint, labels: &[Label]| {
        hash.word(labels.len() as u64);
        for label in labels {
            if names[*label] == usize::MAX {
                names[*label] = named;
                named += 1;
                hash.word(einsum.extents[*label] as u64);
            }
            hash.word(names[*label] as u64);
        }
    };
    for place in order {
        operand(hash, *place);
        hash.word(u64::from(einsum.strong[*place]));
        labels(hash, &einsum.operands[*place]);
    }
    labels(hash, &einsum.output);
}

/// Labels of which some were found to be the same.
struct Names(Vec<Label>);

impl Names {
    fn of(&self, mut label: Label) -> Label {
        while self.0[label] != label {
            label = self.0[label];
        }
        label
    }

    fn unite(&mut self, one: Label, other: Label) {
        let (one, other) = (self.of(one), self.of(other));
        self.0[one.max(other)] = one.min(other);
    }
}

/// One product with another in the place of an operand: the operands of the inner one stand where that was. The
/// axes of the operand are those of the inner output, so their labels are the same. `None` where zeros win over
/// the operand or inside of it, and where the coefficients do not go into one.
pub(super) fn substituted(outer: &Einsum, place: usize, inner: &Einsum, dtype: DType) -> Option<Einsum> {
    if outer.strong[place] || inner.is_strong() {
        return None;
    }
    let shift = outer.extents.len();
    let mut names = Names((0..shift + inner.extents.len()).collect());
    for (own, other) in outer.operands[place].iter().zip(&inner.output) {
        names.unite(*own, shift + other);
    }
    let outer_labels = |labels: &Vec<Label>| labels.iter().map(|label| names.of(*label)).collect::<Vec<_>>();
    let inner_labels = |labels: &Vec<Label>| labels.iter().map(|label| names.of(shift + label)).collect::<Vec<_>>();
    let mut operands: Vec<Vec<Label>> = outer.operands.iter().map(outer_labels).collect();
    let replaced = operands[place].clone();
    operands.splice(place..=place, inner.operands.iter().map(inner_labels));
    let mut strong = outer.strong.clone();
    strong.splice(place..=place, inner.strong.iter().copied());
    let output = outer_labels(&outer.output);
    let extents: Vec<usize> = outer.extents.iter().chain(&inner.extents).copied().collect();
    // What was summed and does not depend on the label any more is a multiple.
    let is_lost = |label: &Label| !output.contains(label) && !operands.iter().any(|labels| labels.contains(label));
    let first = |(number, label): &(usize, &Label)| !replaced[..*number].contains(label);
    let lost = replaced.iter().enumerate().filter(first).map(|(_, label)| label).filter(|label| is_lost(label));
    let multiple: f64 = lost.map(|label| extents[*label] as f64).product();
    let coefficient = coefficient(outer.coefficient, inner.coefficient * multiple, dtype)?;
    Some(renamed(&Einsum { coefficient, operands, strong, output, extents }))
}

/// As [`substituted`], in place and without new names. What could not be put in leaves the outer product as it was.
pub(super) fn put_in(outer: &mut Einsum, place: usize, inner: &Einsum, dtype: DType) -> Option<()> {
    let is_bound = |label: &Label| inner.operands.iter().any(|labels| labels.contains(label));
    if outer.strong[place] || !all_differ(&inner.output) || !inner.output.iter().all(is_bound) {
        *outer = substituted(outer, place, inner, dtype)?;
        return Some(());
    }
    if inner.is_strong() {
        return None;
    }
    outer.coefficient = coefficient(outer.coefficient, inner.coefficient, dtype)?;
    // Each axis of the inner output is one label of the outer product; the other labels are new ones.
    let mut names: InlineVec<Label> = InlineVec::from_elem(Label::MAX, inner.extents.len());
    for (own, other) in outer.operands[place].iter().zip(&inner.output) {
        names[*other] = *own;
    }
    for label in inner.operands.iter().flatten() {
        if names[*label] == Label::MAX {
            names[*label] = outer.extents.len();
            outer.extents.push(inner.extents[*label]);
        }
    }
    let operands = inner.operands.iter().map(|labels| labels.iter().map(|label| names[*label]).collect());
    outer.operands.splice(place..=place, operands);
    outer.strong.splice(place..=place, inner.strong.iter().copied());
    Some(())
}

/// Two coefficients as one. Zeros and what is not finite stay apart: they may meet what they should not, and a
/// product that leaves the range of the type may have stayed inside with the operands between.
pub(super) fn coefficient(outer: f64, inner: f64, dtype: DType) -> Option<f64> {
    if inner == 1.0 {
        return Some(outer);
    }
    let product = outer * inner;
    let is_usable = |number: f64| match dtype {
        DType::F16 | DType::BF16 | DType::F32 => (number as f32).is_normal(),
        DType::F64 => number.is_normal(),
        DType::U8 | DType::I32 | DType::I64 => {
            number.fract() == 0.0 && number != 0.0 && number.abs() < (1_u64 << 53) as f64
        }
        DType::Bool => false,
    };
    [outer, inner, product].into_iter().all(is_usable).then_some(product)
}

/// A node that computes a product from nodes that stand before it.
pub(super) fn product_node(einsum: &Einsum, inputs: Vec<usize>, like: &GraphNode) -> GraphNode {
    let shape: Shape = einsum.output_shape();
    GraphNode {
        op: Op::Einsum(renamed(einsum).into()),
        inputs,
        shape,
        dtype: like.dtype,
        source: like.source,
        multi: None,
    }
}
