//! Terms as they are held: products of factors with labels for rows and columns, and what one einsum makes of them.

use super::gather::{self, Gather};
use crate::array::{Array, Buffer, Stored};
use crate::diff::Fallible;
use crate::dtype::DType;
use crate::einsum::{Einsum, Label};
use crate::error::Error;
use crate::expr::Tensor;
use crate::shape::Shape;
use crate::sorting::IndirectSort;

/// A leaf of the tree of rows or columns.
#[derive(Clone, Debug)]
pub(super) struct LeafSlot {
    /// Its number among all leaves of the tree.
    pub(super) leaf: usize,
    pub(super) path: String,
    pub(super) shape: Shape,
    pub(super) dtype: DType,
}

/// A product of held factors. A label that rows and columns share is a delta, one that no factor has is a broadcast.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) coefficient: f64,
    /// The places of the factors among all that are held, and the labels of their axes.
    pub(super) factors: Vec<(usize, Vec<Label>)>,
    /// Factors of zeros and ones that are held as integers.
    pub(super) gathers: Vec<Gather>,
    pub(super) rows: Vec<Label>,
    pub(super) columns: Vec<Label>,
    pub(super) extents: Vec<usize>,
    /// The term in Einstein notation.
    pub(super) text: String,
}

/// Where what is held belongs: the terms of every block over the leaves of two trees.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) rows: Vec<LeafSlot>,
    pub(super) columns: Vec<LeafSlot>,
    pub(super) blocks: Vec<Vec<Vec<Term>>>,
    pub(super) symmetric: bool,
    /// The most bytes that may be materialised.
    pub(super) limit: u128,
    /// How many factors there are.
    pub(super) factors: usize,
}

impl Layout {
    /// Whether something is picked by integers.
    pub(super) fn gathers(&self) -> bool {
        self.blocks.iter().flatten().flatten().any(|term| !term.gathers.is_empty())
    }

    pub(super) fn dense_bytes(&self) -> u128 {
        let elements =
            |places: &[LeafSlot]| -> u128 { places.iter().map(|place| place.shape.elements() as u128).sum() };
        let bytes = self.rows.iter().map(|place| place.dtype.bytes()).max().unwrap_or(8);
        elements(&self.rows).saturating_mul(elements(&self.columns)).saturating_mul(bytes as u128)
    }
}

impl Term {
    /// The term whose rows are columns.
    pub(super) fn transposed(&self) -> Term {
        Term { rows: self.columns.clone(), columns: self.rows.clone(), ..self.clone() }
    }

    /// The product of the transpose of this term with another one that has the same rows.
    pub(super) fn transposed_times(&self, other: &Term) -> Term {
        let mut classes = super::algebra::Classes::new(&self.extents);
        let first = classes.extend(&other.extents);
        let shifted = |labels: &[Label]| labels.iter().map(|label| first + label).collect::<Vec<_>>();
        for (own, label) in self.rows.iter().zip(shifted(&other.rows)) {
            classes.join(*own, label);
        }
        let mut gathers = relabelled(&self.gathers, &classes, 0);
        gathers.extend(relabelled(&other.gathers, &classes, first));
        let own = self.factors.iter().map(|(place, labels)| (*place, classes.of(labels)));
        let others = other.factors.iter().map(|(place, labels)| (*place, classes.of(&shifted(labels))));
        let (rows, columns) = (classes.of(&self.columns), classes.of(&shifted(&other.columns)));
        let mut term = Term {
            coefficient: self.coefficient * other.coefficient,
            factors: own.chain(others).collect(),
            gathers,
            rows,
            columns,
            text: format!("({})ᵀ({})", self.text, other.text),
            extents: classes.extents.clone(),
        };
        // What the rows are summed over and nothing depends on counts its values.
        let mut summed = classes.of(&self.rows);
        summed.sort_unstable();
        summed.dedup();
        for label in summed {
            if !term.rows.contains(&label) && !term.columns.contains(&label) && !term.binds(label) {
                term.coefficient *= term.extents[label] as f64;
            }
        }
        term.tied()
    }

    /// The same term in which what the same integers pick at the same places has one label.
    pub(super) fn tied(self) -> Term {
        if self.gathers.len() < 2 {
            return self;
        }
        let mut classes = super::algebra::Classes::new(&self.extents);
        gather::join_equal(&self.gathers, &mut classes);
        let mut gathers: Vec<Gather> = Vec::new();
        for gather in relabelled(&self.gathers, &classes, 0) {
            if !gathers.contains(&gather) {
                gathers.push(gather);
            }
        }
        let factors = self.factors.iter().map(|(place, labels)| (*place, classes.of(labels))).collect();
        let (rows, columns) = (classes.of(&self.rows), classes.of(&self.columns));
        Term { factors, gathers, rows, columns, ..self }
    }

    /// The same term without rows and columns of extent 1, of a block whose rows and columns have one shape.
    pub(super) fn squeezed(&self, shape: &Shape) -> Term {
        let kept = |labels: &[Label]| -> Vec<Label> {
            labels.iter().zip(shape.iter()).filter(|(_, extent)| **extent != 1).map(|(label, _)| *label).collect()
        };
        Term { rows: kept(&self.rows), columns: kept(&self.columns), ..self.clone() }
    }

    /// A multiple of the unit tensor.
    pub(super) fn unit(shape: &Shape, factor: f64) -> Term {
        let labels: Vec<Label> = (0..shape.rank()).collect();
        let text = format!("{}·1", crate::formula::number(factor));
        Term {
            coefficient: factor,
            factors: Vec::new(),
            gathers: Vec::new(),
            rows: labels.clone(),
            columns: labels,
            extents: shape.to_vec(),
            text,
        }
    }

    pub(super) fn binds(&self, label: Label) -> bool {
        let picks = |gather: &Gather| gather.axis == label || gather.places.contains(&label);
        self.factors.iter().any(|(_, labels)| labels.contains(&label)) || self.gathers.iter().any(picks)
    }

    /// The factors, with more operands, as an array with these labels.
    pub(super) fn contracted(
        &self,
        factors: &[Tensor],
        more: &[(&Tensor, &[Label])],
        output: &[Label],
        dtype: DType,
    ) -> Tensor {
        if !self.gathers.is_empty() {
            return gather::contracted(self, factors, more, output, dtype)
                .unwrap_or_else(|error| <Tensor as Fallible>::failed(&error));
        }
        let own = self.factors.iter().map(|(place, labels)| (&factors[*place], &labels[..]));
        let (tensors, labels): (Vec<&Tensor>, Vec<Vec<Label>>) =
            own.chain(more.iter().copied()).map(|(tensor, labels)| (tensor, labels.to_vec())).unzip();
        let einsum = Einsum::new(labels, output.to_vec(), self.extents.clone()).scaled(self.coefficient);
        if tensors.is_empty() { Tensor::unbound(einsum, dtype) } else { Tensor::contract(einsum, &tensors) }
    }

    /// The term of the diagonal: labels of rows and columns at the same place become one. Its rows are the diagonal, and
    /// it has no columns.
    pub(super) fn diagonal(&self) -> Term {
        let mut classes = super::algebra::Classes::new(&self.extents);
        for (row, column) in self.rows.iter().zip(&self.columns) {
            classes.join(*row, *column);
        }
        let factors = self.factors.iter().map(|(place, labels)| (*place, classes.of(labels))).collect();
        let gathers = relabelled(&self.gathers, &classes, 0);
        Term { factors, gathers, rows: classes.of(&self.rows), columns: Vec::new(), ..self.clone() }
    }

    /// The sum of the diagonal, as a term without rows and columns.
    pub(super) fn traced(&self) -> Term {
        let mut term = self.diagonal();
        let mut free: Vec<Label> = term.rows.iter().copied().filter(|label| !term.binds(*label)).collect();
        free.sort_unstable();
        free.dedup();
        term.coefficient *= free.iter().map(|label| term.extents[*label] as f64).product::<f64>();
        term.rows.clear();
        term
    }
}

fn relabelled(gathers: &[Gather], classes: &super::algebra::Classes, shift: usize) -> Vec<Gather> {
    gathers.iter().map(|gather| gather.relabelled(classes, shift)).collect()
}

/// The sum of terms as an array, each with an output of its own labels; all outputs have one shape.
pub(super) fn summed(
    terms: &[Term],
    factors: &[Tensor],
    shape: &Shape,
    output: impl Fn(&Term) -> Vec<Label>,
) -> Result<Vec<f64>, Error> {
    if terms.iter().all(|term| term.factors.len() < 2 && term.gathers.is_empty()) {
        let mut result = vec![0.0; shape.elements()];
        for term in terms {
            match term.factors.first() {
                Some((place, labels)) => {
                    let array = factors[*place].eval()?;
                    add_strided(term, labels, array.shape(), &numbers(&array), &output(term), shape, &mut result);
                }
                None => add_strided(term, &[], &Shape::scalar(), &[1.0], &output(term), shape, &mut result),
            }
        }
        return Ok(result);
    }
    let dtype = factors.iter().find(|factor| factor.is_float()).map_or(DType::F64, Tensor::dtype);
    let arrays: Vec<Tensor> = terms.iter().map(|term| term.contracted(factors, &[], &output(term), dtype)).collect();
    let array = Tensor::add_all("add", &arrays.iter().collect::<Vec<_>>()).eval()?;
    Ok(numbers(&array).into_owned())
}

/// [`summed`], and the sum of the magnitudes of the terms if there are several.
pub(super) fn summed_with_magnitudes(
    terms: &[Term],
    factors: &[Tensor],
    shape: &Shape,
    output: impl Fn(&Term) -> Vec<Label>,
) -> Result<(Vec<f64>, Option<Vec<f64>>), Error> {
    let [first, rest @ ..] = terms else { return Ok((vec![0.0; shape.elements()], None)) };
    let mut sum = summed(std::slice::from_ref(first), factors, shape, &output)?;
    if rest.is_empty() {
        return Ok((sum, None));
    }
    let mut magnitudes: Vec<f64> = sum.iter().map(|number| number.abs()).collect();
    for term in rest {
        let part = summed(std::slice::from_ref(term), factors, shape, &output)?;
        sum.iter_mut().zip(&part).for_each(|(sum, number)| *sum += number);
        magnitudes.iter_mut().zip(&part).for_each(|(sum, number)| *sum += number.abs());
    }
    Ok((sum, Some(magnitudes)))
}

/// The elements as 64-bit numbers, borrowed if they are.
pub(super) fn numbers(array: &Array) -> std::borrow::Cow<'_, [f64]> {
    match f64::open(array.buffer()) {
        Some(elements) => elements.into(),
        None => (0..array.buffer().len()).map(|place| array.buffer().get(place)).collect::<Vec<_>>().into(),
    }
}

/// An array of a type from 64-bit numbers.
pub(super) fn array(shape: Shape, dtype: DType, elements: Vec<f64>) -> Array {
    let buffer = match dtype {
        DType::F64 => Buffer::F64(elements),
        other => Buffer::from_fn(other, elements.len(), |place| elements[place]),
    };
    Array::new(shape, buffer)
}

/// Adds a term of one factor to an array: a walk over all labels, with a stride for each on either side.
fn add_strided(
    term: &Term,
    labels: &[Label],
    from: &Shape,
    factor: &[f64],
    output: &[Label],
    to: &Shape,
    result: &mut [f64],
) {
    let strides = |shape: &Shape, own: &[Label], label: Label| -> usize {
        let all = shape.strides();
        own.iter().zip(&all).filter(|(other, _)| **other == label).map(|(_, stride)| *stride).sum()
    };
    let mut walked: Vec<(usize, usize, usize)> = (0..term.extents.len())
        .filter(|label| labels.contains(label) || output.contains(label))
        .map(|label| (term.extents[label], strides(from, labels, label), strides(to, output, label)))
        .collect();
    if walked.iter().any(|(extent, ..)| *extent == 0) {
        return;
    }
    walked.indirect_sort_by_key(|(_, _, written)| std::cmp::Reverse(*written));
    let (length, read_step, write_step) = walked.pop().unwrap_or((1, 0, 0));
    let mut index = vec![0; walked.len()];
    let (mut read, mut written) = (0, 0);
    loop {
        for k in 0..length {
            result[written + k * write_step] += term.coefficient * factor[read + k * read_step];
        }
        let Some(axis) = (0..walked.len()).rev().find(|axis| index[*axis] + 1 < walked[*axis].0) else { return };
        for inner in axis + 1..walked.len() {
            read -= index[inner] * walked[inner].1;
            written -= index[inner] * walked[inner].2;
            index[inner] = 0;
        }
        index[axis] += 1;
        read += walked[axis].1;
        written += walked[axis].2;
    }
}
