//! Entries picked by arrays of integers: the matrix with one 1 in each row that a gather is, held as its integers.
//!
//! Residuals of bundle adjustment read the camera and the point that two arrays name. The derivative of residual k by camera
//! c is a block if the array has c at k, and zero otherwise. What is held is one block for each residual and the
//! arrays; products read entries and add them up where the arrays say, and the one-hot matrix is never materialized.

use super::algebra::Classes;
use super::block::Term;
use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::einsum::{Einsum, Label};
use crate::error::Error;
use crate::expr::Tensor;
use crate::shape::Shape;

/// A factor that is 1 where an array of integers says, and 0 elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gather {
    /// The place of the integers among all that is held.
    pub(super) place: usize,
    /// The labels of the axes of the integers.
    pub(super) places: Vec<Label>,
    /// The label of the axis along which they pick.
    pub(super) axis: Label,
}

impl Gather {
    /// How many entries are picked.
    pub(super) fn places(&self, term: &Term) -> usize {
        self.places.iter().map(|label| term.extents[*label]).product()
    }

    /// The same with labels that became one.
    pub(super) fn relabelled(&self, classes: &Classes, shift: usize) -> Gather {
        let places = self.places.iter().map(|label| classes.find(label + shift)).collect();
        Gather { place: self.place, places, axis: classes.find(self.axis + shift) }
    }
}

/// Joins the axes of gathers that read the same integers at the same places: two entries that one place picks are one, which
/// makes the product of a block with itself lie on the diagonal.
pub(super) fn join_equal(gathers: &[Gather], classes: &mut Classes) {
    for (number, one) in gathers.iter().enumerate() {
        for other in &gathers[number + 1..] {
            if one.place == other.place && classes.of(&one.places) == classes.of(&other.places) {
                classes.join(one.axis, other.axis);
            }
        }
    }
}

/// Integers with labels of their axes, and the axis along which they pick.
struct Picked {
    indices: Tensor,
    places: Vec<Label>,
    axis: Label,
}

/// An array with labels of its axes.
struct Operand {
    tensor: Tensor,
    labels: Vec<Label>,
}

/// The factors of a term that gathers, with more operands, as an array with these labels.
pub(super) fn contracted(
    term: &Term,
    factors: &[Tensor],
    more: &[(&Tensor, &[Label])],
    output: &[Label],
    dtype: DType,
) -> Result<Tensor, Error> {
    let own = term.factors.iter().map(|(place, labels)| (&factors[*place], &labels[..]));
    let mut operands: Vec<Operand> = own
        .chain(more.iter().copied())
        .map(|(tensor, labels)| Operand { tensor: tensor.clone(), labels: labels.to_vec() })
        .collect();
    let mut plain: Vec<Picked> = Vec::new();
    for picked in composed(term, factors) {
        let Picked { indices, places, axis } = &picked;
        let meets = |other: &Picked| {
            let overlaps = other.places != *places && other.places.iter().any(|own| places.contains(own));
            other.axis == *axis || places.contains(&other.axis) || output.contains(axis) && overlaps
        };
        if places.contains(axis) || plain.iter().any(meets) {
            // Rare patterns, for which the matrix itself is materialized.
            let tensor = indices.one_hot(term.extents[*axis], dtype);
            operands.push(Operand { tensor, labels: places.iter().chain([axis]).copied().collect() });
        } else {
            plain.push(picked);
        }
    }
    for Picked { indices, places, axis } in &plain {
        for operand in &mut operands {
            while let Some(place) = operand.labels.iter().position(|label| label == axis) {
                operand.tensor = operand.tensor.take(indices, place);
                operand.labels.splice(place..=place, places.iter().copied());
            }
        }
    }
    for Picked { indices, places, axis } in &plain {
        let bound = |label: &Label| operands.iter().any(|operand| operand.labels.contains(label));
        if !output.contains(axis) && !places.iter().all(bound) {
            // Every place picks one entry, and counts.
            let tensor = Tensor::full(indices.shape().clone(), 1.0, dtype);
            operands.push(Operand { tensor, labels: places.clone() });
        }
    }
    let written: Vec<Picked> = plain.into_iter().filter(|picked| output.contains(&picked.axis)).collect();
    spread(term, operands, &written, output, dtype)
}

/// The gathers of a term, those that pick by what others pick composed with them.
fn composed(term: &Term, factors: &[Tensor]) -> Vec<Picked> {
    let mut unique: Vec<&Gather> = Vec::new();
    for gather in &term.gathers {
        if !unique.contains(&gather) {
            unique.push(gather);
        }
    }
    let mut found: Vec<Picked> = unique
        .iter()
        .map(|gather| Picked {
            indices: factors[gather.place].clone(),
            places: gather.places.clone(),
            axis: gather.axis,
        })
        .collect();
    // A chain is no longer than the list; what would go round in a circle stays as it is.
    for _ in 0..found.len() {
        for one in 0..found.len() {
            let (indices, places, axis) = (found[one].indices.clone(), found[one].places.clone(), found[one].axis);
            for other in (0..found.len()).filter(|other| *other != one) {
                if places.contains(&axis) {
                    continue;
                }
                if let Some(place) = found[other].places.iter().position(|label| *label == axis) {
                    found[other].indices = found[other].indices.take(&indices, place);
                    found[other].places.splice(place..=place, places.iter().copied());
                }
            }
        }
    }
    found
}

/// The product of operands, added up along the axes that gathers write to.
fn spread(
    term: &Term,
    mut operands: Vec<Operand>,
    written: &[Picked],
    output: &[Label],
    dtype: DType,
) -> Result<Tensor, Error> {
    let mut requested: Vec<Label> = Vec::new();
    for label in output {
        if !requested.contains(label) {
            requested.push(*label);
        }
    }
    // Gathers over the same places write together, each pair of entries at its own place.
    let mut groups: Vec<(Vec<Label>, Vec<&Picked>)> = Vec::new();
    for picked in written {
        match groups.iter_mut().find(|(places, _)| *places == picked.places) {
            Some((_, members)) => members.push(picked),
            None => groups.push((picked.places.clone(), vec![picked])),
        }
    }
    let placed = |label: &Label| {
        written.iter().any(|picked| picked.axis == *label) || groups.iter().any(|(places, _)| places.contains(label))
    };
    let rest: Vec<Label> = requested.iter().copied().filter(|label| !placed(label)).collect();
    let mut labels: Vec<Label> = groups.iter().flat_map(|(places, _)| places).chain(&rest).copied().collect();
    if operands.is_empty() {
        operands.push(Operand { tensor: Tensor::full(Shape::scalar(), 1.0, dtype), labels: Vec::new() });
    }
    let einsum = Einsum::new(
        operands.iter().map(|operand| operand.labels.clone()).collect(),
        labels.clone(),
        term.extents.clone(),
    );
    let tensors: Vec<&Tensor> = operands.iter().map(|operand| &operand.tensor).collect();
    let mut tensor = Tensor::contract(einsum.scaled(term.coefficient), &tensors);
    let mut start = 0;
    for (places, members) in &groups {
        // Indices that are requested themselves select themselves.
        let kept: Vec<usize> = (0..places.len()).filter(|axis| requested.contains(&places[*axis])).collect();
        let axes: Vec<Label> =
            kept.iter().map(|axis| places[*axis]).chain(members.iter().map(|member| member.axis)).collect();
        let sizes: Vec<usize> = axes.iter().map(|label| term.extents[*label]).collect();
        let size: usize = sizes.iter().product();
        let indices = match (&kept[..], &members[..]) {
            ([], [only]) => only.indices.clone(),
            _ => {
                together(&places.iter().map(|label| term.extents[*label]).collect::<Vec<_>>(), &kept, members, &sizes)?
            }
        };
        tensor = tensor.scatter_add(&indices, start, size);
        labels.splice(start..start + places.len(), axes.iter().copied());
        let shape: Vec<usize> = labels.iter().map(|label| term.extents[*label]).collect();
        tensor = tensor.reshape(shape);
        start += axes.len();
    }
    if labels == output {
        return Ok(tensor);
    }
    Ok(Tensor::contract(Einsum::new(vec![labels], output.to_vec(), term.extents.clone()), &[&tensor]))
}

/// Where each place writes, over several axes as one: some axes of the places themselves, and then what gathers pick.
fn together(shape: &[usize], kept: &[usize], members: &[&Picked], sizes: &[usize]) -> Result<Tensor, Error> {
    let picked = members.iter().map(|member| member.indices.to_vec::<i64>()).collect::<Result<Vec<_>, _>>()?;
    let strides = Shape::from(shape).strides();
    let place = |flat: usize| {
        let own = kept.iter().map(|axis| (flat / strides[*axis] % shape[*axis]) as i64);
        let all = own.chain(picked.iter().map(|indices| indices[flat]));
        all.zip(sizes).fold(0, |place, (index, size)| place * *size as i64 + index)
    };
    let places: Vec<i64> = (0..shape.iter().product()).map(place).collect();
    Ok(Tensor::leaf(Array::new(Shape::from(shape), Buffer::I64(places))))
}
