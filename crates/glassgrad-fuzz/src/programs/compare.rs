//! When results agree.
//!
//! Executors may differ by rounding. How far rounding can move a result is measured, not guessed: the program is run again by
//! the reference executor with every operand and result of a rounding operation perturbed by [`PERTURBATION`] units in the
//! last place, and the largest change of an element is its tolerance. So tolerances follow from the element type and the
//! condition of the program, and are not set per operation. A choice that flips under these perturbations, such as a
//! comparison of two numbers that are equal but for rounding, makes the tolerance of what depends on it as large as the jump.
//!
//! Perturbed operands do not reach what is rounded inside of an operation and of its derivative: terms of a sum that cancel, or
//! the output y of tanh in 1 - y². If they do not explain a difference, every node of the graph and every term of a sum is perturbed
//! instead, by [`NODE_PERTURBATION`] units.
//!
//! [`PERTURBATION`]: super::interpret::PERTURBATION
//! [`NODE_PERTURBATION`]: super::interpret::NODE_PERTURBATION

use glassgrad::array::{Array, Buffer};
use glassgrad::error::Error;

use crate::counters;

/// Values of several tensors, or why there are none.
pub type Evaluated = Result<Vec<Array>, Error>;

/// Differences below this many units in the last place of an element need no explanation.
const UNITS: f64 = 4.0;

/// The largest change of each element of each result under perturbations; infinite where it is not comparable.
#[derive(Clone, Debug, Default)]
pub struct Tolerances(Vec<Vec<f64>>);

/// From this many terms on the order of a sum matters more than random perturbations of its terms show.
const MANY_TERMS: usize = 4096;

impl Tolerances {
    /// The tolerances of values from values of perturbed runs.
    pub fn new(values: &[Array], perturbed: &[Evaluated]) -> Tolerances {
        let mut all = Vec::with_capacity(values.len());
        for (place, value) in values.iter().enumerate() {
            let mut changes = vec![0.0_f64; value.buffer().len()];
            for run in perturbed {
                let Some(other) = run.as_ref().ok().and_then(|values| values.get(place)) else {
                    // What fails under perturbations is not comparable.
                    changes.fill(f64::INFINITY);
                    continue;
                };
                for (k, change) in changes.iter_mut().enumerate() {
                    *change = change.max(difference(value.buffer(), other.buffer(), k));
                }
            }
            // An element that happens to be insensitive to these perturbations is rounded like its neighbours.
            let largest = changes.iter().copied().filter(|change| change.is_finite()).fold(0.0, f64::max);
            if value.dtype().is_float() {
                changes.iter_mut().for_each(|change| *change = change.max(largest / 64.0));
            }
            all.push(changes);
        }
        Tolerances(all)
    }

    /// The same for a program whose longest reduction has this many terms. Random perturbations of n terms grow like √n, the
    /// worst-case rounding error of a sum in another order like n. Short sums are left to the perturbations.
    pub fn for_sums(mut self, values: &[Array], terms: usize) -> Tolerances {
        if terms >= MANY_TERMS {
            for (value, tolerances) in values.iter().zip(&mut self.0).filter(|(value, _)| value.dtype().is_float()) {
                let rounding = value.dtype().epsilon();
                for (k, tolerance) in tolerances.iter_mut().enumerate() {
                    *tolerance = tolerance.max(terms as f64 * rounding * value.buffer().get(k).abs());
                }
            }
        }
        self
    }

    /// The tolerances of each result.
    pub fn lists(&self) -> &[Vec<f64>] {
        &self.0
    }
}

/// How far elements are apart: 0 for two NaN and equal infinities, infinite where one is finite and the other is not, and
/// for integers and booleans that differ.
fn difference(a: &Buffer, b: &Buffer, k: usize) -> f64 {
    match (a, b) {
        (Buffer::F16(_) | Buffer::BF16(_) | Buffer::F32(_) | Buffer::F64(_), _) => {
            let (a, b) = (a.get(k), b.get(k));
            if a == b || (a.is_nan() && b.is_nan()) {
                0.0
            } else if a.is_finite() && b.is_finite() {
                (a - b).abs()
            } else {
                f64::INFINITY
            }
        }
        (Buffer::I64(a), Buffer::I64(b)) if a[k] == b[k] => 0.0,
        (Buffer::I32(a), Buffer::I32(b)) if a[k] == b[k] => 0.0,
        (Buffer::U8(a), Buffer::U8(b)) if a[k] == b[k] => 0.0,
        (Buffer::Bool(a), Buffer::Bool(b)) if a[k] == b[k] => 0.0,
        _ => f64::INFINITY,
    }
}

/// Why values are not those expected, but for rounding; `tolerances` are computed only if they are needed. Products may be
/// re-associated, so that zero times infinity may or may not be met: what is expected not to be finite is then not compared.
pub fn disagreement<'t>(
    actual: &Evaluated,
    expected: &Evaluated,
    has_products: bool,
    tolerances: &mut dyn FnMut() -> &'t Tolerances,
) -> Option<String> {
    let (actual, expected) = match (actual, expected) {
        (Ok(actual), Ok(expected)) => (actual, expected),
        (Err(_), Err(_)) => return None,
        // Passes remove what cannot matter, so that an index in it that does not exist is no error either.
        (Ok(_), Err(error)) if error.operation() == "gather" => {
            counters::add("outcome", "error of a part that a pass removed", 1);
            return None;
        }
        (Ok(_), Err(error)) => return Some(format!("a value, but an error is expected: {error}")),
        (Err(error), Ok(_)) => return Some(format!("an error, but a value is expected: {error}")),
    };
    if let Some(message) = different_kinds(actual, expected) {
        return Some(message);
    }
    for (place, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        for k in 0..expected.buffer().len() {
            let difference = difference(actual.buffer(), expected.buffer(), k);
            let (a, b) = (actual.buffer().get(k), expected.buffer().get(k));
            let rounding = if b.is_finite() { UNITS * expected.dtype().epsilon() * b.abs() } else { 0.0 };
            if difference == 0.0 || (difference.is_finite() && difference <= rounding) {
                continue;
            }
            if has_products && expected.dtype().is_float() && !b.is_finite() {
                counters::add("skipped", "not finite behind products", 1);
                continue;
            }
            let tolerance = tolerances().0[place][k];
            if difference > tolerance + rounding {
                return Some(format!(
                    "result {place}, {}{}, element {k}: {a:e} instead of {b:e}, tolerance {tolerance:e}",
                    expected.dtype(),
                    expected.shape()
                ));
            }
        }
    }
    None
}

/// Why values are not the same bits. All NaN are the same.
pub fn unequal(actual: &Evaluated, expected: &Evaluated) -> Option<String> {
    let (actual, expected) = match (actual, expected) {
        (Ok(actual), Ok(expected)) => (actual, expected),
        (Err(_), Err(_)) => return None,
        (Ok(_), Err(error)) => return Some(format!("a value, but an error is expected: {error}")),
        (Err(error), Ok(_)) => return Some(format!("an error, but a value is expected: {error}")),
    };
    if let Some(message) = different_kinds(actual, expected) {
        return Some(message);
    }
    for (place, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        for k in 0..expected.buffer().len() {
            let (a, b) = (actual.buffer().get(k), expected.buffer().get(k));
            let is_equal = match (actual.buffer(), expected.buffer()) {
                (Buffer::I64(a), Buffer::I64(b)) => a[k] == b[k],
                _ => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
            };
            if !is_equal {
                let kind = format!("{}{}", expected.dtype(), expected.shape());
                return Some(format!("result {place}, {kind}, element {k}: {a:e} and {b:e} are not the same bits"));
            }
        }
    }
    None
}

fn different_kinds(actual: &[Array], expected: &[Array]) -> Option<String> {
    if actual.len() != expected.len() {
        return Some(format!("{} results instead of {}", actual.len(), expected.len()));
    }
    let kind = |array: &Array| format!("{}{}", array.dtype(), array.shape());
    let (actual, expected) = actual.iter().zip(expected).find(|(a, b)| kind(a) != kind(b))?;
    Some(format!("{} instead of {}", kind(actual), kind(expected)))
}
