//! Structured derivatives as lists of coordinates: what labels and gathers leave of a matrix, element by element.
//!
//! A label that rows and columns share is a delta, and a gather picks one entry of an axis for each of its places. So the elements
//! that can differ from zero are found by a walk over the labels of rows and columns, in which the axes of gathers are read from
//! their integers. Labels that only factors have are summed before, by one contraction.

use std::collections::BTreeMap;

use super::block::{Term, numbers};
use super::storage::Held;
use crate::dtype::DType;
use crate::einsum::Label;
use crate::error::Error;
use crate::expr::Tensor;
use crate::opt::contract::metric;
use crate::shape::Shape;

/// A sparse matrix as a list of coordinates (COO), sorted by rows, without duplicates. Elements are structural: one may be zero at this
/// point. Slices and other views are held as dense factors, and their zeros are elements too; `scalar::SparseMatrix::from` makes
/// compressed rows of the list, and `without_zeros` leaves them out.
///
/// ```
/// use glassgrad::{Tensor, calculus};
/// let j = calculus::jacobian(|x: &Tensor| x.square()).at(&Tensor::from([1.0, 0.0, 3.0])).unwrap();
/// assert_eq!(j.triplets().unwrap().entries, [(0, 0, 2.0), (1, 1, 0.0), (2, 2, 6.0)]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Triplets {
    /// The number of rows: the elements of all leaves of the result, one after the other.
    pub rows: usize,
    /// The number of columns: the elements of all leaves of the argument.
    pub columns: usize,
    /// Row, column and value of each structural element.
    pub entries: Vec<(usize, usize, f64)>,
}

impl Held {
    /// The structural elements of all blocks.
    pub(super) fn triplets(&self) -> Result<Triplets, Error> {
        let held = self.in_double();
        let (starts_of_rows, rows) = starts(held.layout.rows.iter().map(|place| place.shape.elements()));
        let (starts_of_columns, columns) = starts(held.layout.columns.iter().map(|place| place.shape.elements()));
        let mut entries = BTreeMap::new();
        for (row, blocks) in held.layout.blocks.iter().enumerate() {
            for (column, terms) in blocks.iter().enumerate() {
                let shapes = [&held.layout.rows[row].shape, &held.layout.columns[column].shape];
                let origin = [starts_of_rows[row], starts_of_columns[column]];
                for term in terms {
                    add_term(term, &held.factors, shapes, origin, held.layout.limit, &mut entries)?;
                }
            }
        }
        let entries = entries.into_iter().map(|((row, column), value)| (row, column, value)).collect();
        Ok(Triplets { rows, columns, entries })
    }
}

/// Where each of several lists begins when they follow each other, and where the last one ends.
fn starts(lengths: impl Iterator<Item = usize>) -> (Vec<usize>, usize) {
    let mut end = 0;
    let mut starts = Vec::new();
    for length in lengths {
        starts.push(end);
        end += length;
    }
    (starts, end)
}

/// The integers of a gather.
struct Picks<'t> {
    places: &'t [Label],
    axis: Label,
    shape: Shape,
    indices: Vec<f64>,
}

/// Adds the elements of a term.
fn add_term(
    term: &Term,
    factors: &[Tensor],
    [rows, columns]: [&Shape; 2],
    origin: [usize; 2],
    limit: u128,
    entries: &mut BTreeMap<(usize, usize), f64>,
) -> Result<(), Error> {
    let mut picks = Vec::new();
    for gather in &term.gathers {
        let array = factors[gather.place].eval()?;
        let (shape, indices) = (array.shape().clone(), numbers(&array).into_owned());
        picks.push(Picks { places: &gather.places, axis: gather.axis, shape, indices });
    }
    // What is walked over: labels of rows, columns and gathers. The axis of a gather is read, not walked.
    let mut walked: Vec<Label> = Vec::new();
    let positions = picks.iter().flat_map(|pick| pick.places.iter().chain([&pick.axis]));
    for label in term.rows.iter().chain(&term.columns).chain(positions) {
        if !walked.contains(label) {
            walked.push(*label);
        }
    }
    let values = term_values(term, factors, &walked)?;
    let free: Vec<Label> =
        walked.iter().copied().filter(|label| picks.iter().all(|pick| pick.axis != *label)).collect();
    let count: u128 = free.iter().map(|label| term.extents[*label] as u128).product();
    let bytes = count.saturating_mul(size_of::<(usize, usize, f64)>() as u128);
    if bytes > limit {
        let message = format!("the list of elements takes up to {}", metric(bytes, "B"));
        let help = format!("the limit is {}; raise it with .limit(bytes)", metric(limit, "B"));
        return Err(Error::new("triplets", message).help(help));
    }
    let offset = |shape: &Shape, labels: &[Label], index: &[usize]| -> usize {
        labels.iter().zip(shape.strides()).map(|(label, stride)| index[*label] * stride).sum()
    };
    let mut index = vec![0; term.extents.len()];
    for number in 0..count as usize {
        let mut rest = number;
        for label in free.iter().rev() {
            index[*label] = rest % term.extents[*label];
            rest /= term.extents[*label];
        }
        if !pick_axes(&picks, &free, &mut index) {
            continue;
        }
        let row = origin[0] + offset(rows, &term.rows, &index);
        let column = origin[1] + offset(columns, &term.columns, &index);
        *entries.entry((row, column)).or_insert(0.0) += values.at(&index);
    }
    Ok(())
}

/// Sets the axes of gathers to the entries that they pick; false if two of them disagree. A gather may pick by what another picks,
/// so they are read in as many rounds as there are of them.
fn pick_axes(picks: &[Picks<'_>], free: &[Label], index: &mut [usize]) -> bool {
    let mut known: Vec<Label> = free.to_vec();
    let mut pending: Vec<&Picks<'_>> = picks.iter().collect();
    while !pending.is_empty() {
        let before = pending.len();
        let mut agree = true;
        pending.retain(|pick| {
            if !pick.places.iter().all(|label| known.contains(label)) {
                return true;
            }
            let place: usize = pick.places.iter().zip(pick.shape.strides()).map(|(label, s)| index[*label] * s).sum();
            let picked = pick.indices[place] as usize;
            if known.contains(&pick.axis) {
                agree &= index[pick.axis] == picked;
            } else {
                index[pick.axis] = picked;
                known.push(pick.axis);
            }
            false
        });
        if !agree {
            return false;
        }
        assert!(pending.len() < before, "gathers do not pick by each other in a circle");
    }
    true
}

/// The product of the factors of a term, summed over labels that are not walked.
struct TermValues {
    labels: Vec<Label>,
    strides: Vec<usize>,
    numbers: Vec<f64>,
}

impl TermValues {
    fn at(&self, index: &[usize]) -> f64 {
        self.numbers[self.labels.iter().zip(&self.strides).map(|(label, stride)| index[*label] * stride).sum::<usize>()]
    }
}

fn term_values(term: &Term, factors: &[Tensor], walked: &[Label]) -> Result<TermValues, Error> {
    let plain = Term { gathers: Vec::new(), ..term.clone() };
    // A label that no factor has is a broadcast, of which one element is enough.
    let labels: Vec<Label> = walked.iter().copied().filter(|label| plain.binds(*label)).collect();
    if plain.factors.is_empty() {
        return Ok(TermValues { labels: Vec::new(), strides: Vec::new(), numbers: vec![term.coefficient] });
    }
    let array = plain.contracted(factors, &[], &labels, DType::F64).eval()?;
    let strides = array.shape().strides().to_vec();
    Ok(TermValues { labels, strides, numbers: numbers(&array).into_owned() })
}
