//! Solutions whose residual is checked.
//!
//! A structured factorisation can lose what a dense one keeps: where the base of a low-rank correction is nearly
//! singular, both are large and cancel. Every solution is therefore put into the equations. The componentwise
//! backward error max |b - A·x| / (M·|x| + |b|), where M adds up the magnitudes of all terms, says how far the
//! equations are from those that it solves exactly. If it is not small, the solution is refined with the same
//! factorisation; if that does not help, the system is factored as one matrix, or it is an error.

use std::sync::{Arc, OnceLock};

use super::block::{LeafSlot, array, numbers};
use super::condition::STABLE;
use super::solve::{Bounds, Singular};
use super::storage::Held;
use super::system::{System, dense_block, elements};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::Tensor;
use crate::opt::contract::metric;

/// The backward error that is not refined further.
const ENOUGH: f64 = 1e-14;
/// The largest backward error of a solution.
const TOLERANCE: f64 = 1e-10;
/// The most steps of iterative refinement.
const REFINEMENTS: usize = 4;

/// A derivative that was factored, with what is needed to check its solutions.
pub(super) struct Factorisation {
    system: System,
    /// What is held in 64 bits, whatever types the leaves have.
    exact: Held,
    bounds: Bounds,
    /// The same with the magnitudes of all factors.
    magnitudes: OnceLock<Held>,
    /// The whole as one dense matrix, materialized if the structured factorisation fails.
    dense: OnceLock<Result<System, Singular>>,
}

impl Factorisation {
    pub(super) fn of(held: &Held, operation: &str) -> Result<Factorisation, Error> {
        let exact = held.in_double();
        let single = held.factors.iter().any(|factor| factor.dtype() == DType::F32);
        let unit = if single { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let bounds = Bounds { limit: held.layout.limit, unit };
        match System::of(&exact.layout, &exact.factors, bounds) {
            Ok(system) => {
                Ok(Factorisation { system, exact, bounds, magnitudes: OnceLock::new(), dense: OnceLock::new() })
            }
            Err(Singular::NotFinite) => Err(not_finite(&exact, operation)),
            Err(singular) => Err(singular.into_error(operation, bounds.limit)),
        }
    }

    /// The solution for one right-hand side with numbers for each row.
    pub(super) fn solve(&self, right: &[Tensor], columns: &[LeafSlot]) -> Result<Vec<Tensor>, Error> {
        let arrays = Tensor::eval_all(&right.iter().collect::<Vec<_>>())?;
        let right: Vec<f64> = arrays.iter().flat_map(|array| numbers(array).into_owned()).collect();
        if let Some(place) = right.iter().position(|number| !number.is_finite()) {
            let rows = &self.exact.layout.rows;
            let message = format!("the right-hand side is not finite: {} is {}", entry(rows, place), right[place]);
            return Err(Error::new("solve", message));
        }
        let found = match self.checked(&self.system, &right) {
            Ok(found) => Ok(found),
            Err(Failure::Other(singular)) => Err(singular),
            Err(Failure::Residual(_)) if !matches!(self.system, System::Whole(_)) => self.solve_densely(&right),
            Err(Failure::Residual(error)) => Err(inaccurate(error, self.system.condition())),
        };
        let found = found.map_err(|singular| singular.into_error("solve", self.bounds.limit))?;
        let mut rest = &found[..];
        let leaf = |place: &LeafSlot| {
            let (own, after) = rest.split_at(elements(place));
            rest = after;
            Tensor::leaf(array(place.shape.clone(), place.dtype, own.to_vec()))
        };
        Ok(columns.iter().map(leaf).collect())
    }

    /// The system as one matrix, or, if that does not fit, by products with vectors.
    fn solve_densely(&self, right: &[f64]) -> Result<Vec<f64>, Singular> {
        let system = match self.dense() {
            Err(Singular::TooLarge(_)) if self.exact.layout.symmetric => &System::Products,
            dense => dense?,
        };
        self.checked(system, right).map_err(|failure| match failure {
            Failure::Other(singular) => singular,
            Failure::Residual(error) => inaccurate(error, system.condition()),
        })
    }

    fn dense(&self) -> Result<&System, Singular> {
        let whole = || System::whole(&self.exact.layout, &self.exact.factors, self.bounds);
        self.dense.get_or_init(whole).as_ref().map_err(Clone::clone)
    }

    /// The solution by a factorisation, refined until its backward error is small.
    fn checked(&self, system: &System, right: &[f64]) -> Result<Vec<f64>, Failure> {
        let layout = &self.exact.layout;
        let apply = |vector: &[f64]| self.exact.apply(vector);
        let solve = |right: &[f64]| -> Result<Vec<f64>, Singular> {
            let mut rest = right;
            let mut parts = Vec::new();
            for place in &layout.rows {
                let (own, after) = rest.split_at(elements(place));
                parts.push(own.to_vec());
                rest = after;
            }
            Ok(system.solve(layout, parts, &apply)?.concat())
        };
        let mut solution = solve(right)?;
        if system.needs_no_check() {
            return Ok(solution);
        }
        let (mut error, mut residual) = self.backward_error(&solution, right)?;
        for _ in 0..REFINEMENTS {
            if error <= ENOUGH || !error.is_finite() {
                break;
            }
            let step = solve(&residual)?;
            let refined: Vec<f64> = solution.iter().zip(&step).map(|(x, dx)| x + dx).collect();
            let (now, left) = self.backward_error(&refined, right)?;
            let slow = now > 0.5 * error || now.is_nan();
            if now < error {
                (error, residual, solution) = (now, left, refined);
            }
            if slow {
                break;
            }
        }
        if error <= TOLERANCE { Ok(solution) } else { Err(Failure::Residual(error)) }
    }

    /// The componentwise backward error of a solution, and its residual.
    fn backward_error(&self, solution: &[f64], right: &[f64]) -> Result<(f64, Vec<f64>), Error> {
        let product = self.exact.apply(solution)?;
        let residual: Vec<f64> = right.iter().zip(&product).map(|(b, ax)| b - ax).collect();
        let absolute: Vec<f64> = solution.iter().map(|number| number.abs()).collect();
        let sizes = self.magnitudes.get_or_init(|| self.exact.magnitudes()).apply(&absolute)?;
        let mut error = 0.0;
        for ((rest, size), b) in residual.iter().zip(&sizes).zip(right) {
            let own = if *rest == 0.0 { 0.0 } else { rest.abs() / (size + b.abs()) };
            error = super::condition::largest(error, own);
        }
        Ok((error, residual))
    }

    /// The logarithm of the determinant, NaN if it is negative.
    pub(super) fn log_determinant(&self) -> Result<f64, Error> {
        let accurate = !self.system.is_structured() || self.system.condition() <= STABLE;
        let system = if accurate {
            &self.system
        } else {
            self.dense().map_err(|singular| match singular {
                Singular::TooLarge(bytes) => {
                    let message = format!(
                        "the structured factorisation amplifies rounding errors by {:.1e}, and the dense one needs {}",
                        self.system.condition(),
                        metric(bytes, "B")
                    );
                    Error::new("logdet", message).help("raise the limit of memory with .limit(bytes)")
                }
                other => other.into_error("logdet", self.bounds.limit),
            })?
        };
        match system.determinant() {
            Some((sign, logarithm)) => Ok(if sign < 0.0 { f64::NAN } else { logarithm }),
            None => Err(Error::new("logdet", "the system is too large to be factored")
                .help("raise the limit of memory with .limit(bytes)")),
        }
    }

    pub(super) fn describe(&self) -> &'static str {
        self.system.describe()
    }
}

/// Why a factorisation gives no solution.
enum Failure {
    /// The backward error stays as large as this.
    Residual(f64),
    Other(Singular),
}

impl From<Singular> for Failure {
    fn from(singular: Singular) -> Failure {
        Failure::Other(singular)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(Singular::Failed(error))
    }
}

fn inaccurate(error: f64, condition: f64) -> Singular {
    Singular::Yes(format!("a backward error of {error:.1e} is left at a condition number of about {condition:.1e}"))
}

/// A number among those of some leaves, as people write it.
fn entry(places: &[LeafSlot], mut number: usize) -> String {
    for place in places {
        if number < elements(place) {
            let mut index = vec![0; place.shape.rank()];
            for (axis, extent) in place.shape.iter().enumerate().rev() {
                index[axis] = number % extent;
                number /= extent;
            }
            let index = index.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return match place.path.as_str() {
                "" => format!("[{index}]"),
                path => format!("{path}[{index}]"),
            };
        }
        number -= elements(place);
    }
    format!("element {number}")
}

/// The error of a system with a NaN or an infinity, with its index if the matrix is available.
fn not_finite(held: &Held, operation: &str) -> Error {
    let layout = &held.layout;
    let help = "a NaN or an infinity comes from the function or its derivatives at this point, not from solving";
    for (row, place) in layout.rows.iter().enumerate() {
        for (column, other) in layout.columns.iter().enumerate() {
            let bytes = (8 * elements(place) as u128).saturating_mul(elements(other) as u128);
            if layout.blocks[row][column].is_empty() || bytes > layout.limit {
                continue;
            }
            let Ok(block) = dense_block(layout, &held.factors, row, column) else { continue };
            if let Some(at) = block.iter().position(|number| !number.is_finite()) {
                let width = elements(other).max(1);
                let message = format!(
                    "the matrix is not finite: in row {} and column {} it is {}",
                    entry(std::slice::from_ref(place), at / width),
                    entry(std::slice::from_ref(other), at % width),
                    block[at]
                );
                return Error::new(operation, message).help(help);
            }
        }
    }
    Error::new(operation, "the matrix is not finite").help(help)
}

impl Held {
    /// The same in 64 bits.
    pub(super) fn in_double(&self) -> Held {
        let double = |place: &LeafSlot| LeafSlot { dtype: DType::F64, ..place.clone() };
        let cast = |factor: &Tensor| match factor.is_float() && factor.dtype() != DType::F64 {
            true => factor.cast(DType::F64),
            false => factor.clone(),
        };
        let mut layout = (*self.layout).clone();
        layout.rows = layout.rows.iter().map(double).collect();
        layout.columns = layout.columns.iter().map(double).collect();
        Held { layout: Arc::new(layout), factors: self.factors.iter().map(cast).collect() }
    }

    /// The sum of the magnitudes of all terms, as a matrix of the same layout.
    pub(super) fn magnitudes(&self) -> Held {
        let mut layout = (*self.layout).clone();
        for term in layout.blocks.iter_mut().flatten().flatten() {
            term.coefficient = term.coefficient.abs();
        }
        let factors = self.factors.iter().map(|factor| if factor.is_float() { factor.abs() } else { factor.clone() });
        Held { layout: Arc::new(layout), factors: factors.collect() }
    }

    /// The product with a vector of numbers, one for each element of the columns.
    pub(super) fn apply(&self, vector: &[f64]) -> Result<Vec<f64>, Error> {
        let mut rest = vector;
        let mut leaves = Vec::new();
        for place in &self.layout.columns {
            let (own, after) = rest.split_at(elements(place));
            leaves.push(Tensor::leaf(array(place.shape.clone(), place.dtype, own.to_vec())));
            rest = after;
        }
        let product = self.product(&leaves, false);
        let arrays = Tensor::eval_all(&product.iter().collect::<Vec<_>>())?;
        Ok(arrays.iter().flat_map(|array| numbers(array).into_owned()).collect())
    }
}
