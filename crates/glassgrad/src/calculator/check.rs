//! Derivatives before numbers: steps at a random point, results beside other ways to get them.

use super::points::{Kind, Leaves, Sizes};
use crate::array::Array;
use crate::calculus::{self, Part};
use crate::diff::{grad, hvp, jvp};
use crate::einsum::Einsum;
use crate::error::Error;
use crate::expr::Tensor;
use crate::lang::matrix::MatrixExpression;
use crate::shape::Shape;

/// How far a derivative is from other ways to compute it, relative to its largest element, in a random direction.
///
/// ```
/// use glassgrad::calculator::{Question, derive};
/// let question = Question::new("x'*A*x", "x").declare("A: n n, x: n").unwrap();
/// let agreement = derive(&question).unwrap().agreement;
/// assert!(agreement.finite_differences < 1e-8 && agreement.nested < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// From finite differences of the value, or of the gradient for second derivatives.
    pub finite_differences: f64,
    /// From forward mode, or forward over reverse for second derivatives.
    pub nested: f64,
    /// From the matrix notation, read back and evaluated, where there is one.
    pub matrix: Option<f64>,
}

/// The kinds of random points, in the order in which they are tried until all is finite.
pub(super) const KINDS: [Kind; 3] = [Kind::Normal, Kind::Positive, Kind::Dominant];

/// The tensors of all pieces of a derivative.
pub(super) fn tensors(parts: &[Part]) -> Vec<Tensor> {
    let mut values: Vec<Tensor> = Vec::new();
    for part in parts {
        let tensor = match part {
            Part::Tensor(tensor) => tensor.clone(),
            Part::Product(einsum, operands) if operands.is_empty() => {
                Tensor::unbound(einsum.clone(), crate::dtype::DType::F64)
            }
            Part::Product(einsum, operands) => {
                Tensor::contract(einsum.clone(), &operands.iter().map(|operand| &values[*operand]).collect::<Vec<_>>())
            }
            Part::Sum(terms) => Tensor::add_all("add", &terms.iter().map(|term| &values[*term]).collect::<Vec<_>>()),
        };
        values.push(tensor);
    }
    values
}

/// The same pieces with the magnitudes of all numbers in place of the numbers: what bounds the rounding errors of each.
pub(super) fn magnitudes(parts: &[Part]) -> Vec<Tensor> {
    let absolute: Vec<Part> = parts
        .iter()
        .map(|part| match part {
            Part::Tensor(tensor) => Part::Tensor(tensor.unary(crate::ops::Operation::Abs, 0.0)),
            Part::Product(einsum, operands) => {
                let coefficient = einsum.coefficient.abs();
                Part::Product(Einsum { coefficient, ..einsum.clone() }, operands.clone())
            }
            Part::Sum(terms) => Part::Sum(terms.clone()),
        })
        .collect();
    tensors(&absolute)
}

/// The sum of some tensors as numbers.
pub(super) fn summed(values: &[Tensor], terms: &[usize]) -> Result<Vec<f64>, Error> {
    let terms: Vec<&Tensor> = terms.iter().map(|term| &values[*term]).collect();
    numbers(&Tensor::add_all("add", &terms))
}

pub(super) fn numbers(tensor: &Tensor) -> Result<Vec<f64>, Error> {
    let array = tensor.eval()?;
    Ok(elements(&array))
}

fn elements(array: &Array) -> Vec<f64> {
    (0..array.buffer().len()).map(|place| array.buffer().get(place)).collect()
}

/// The largest difference, relative to the largest element of either, or to a scale if that is larger: what is exactly zero differs from its rounding errors by no more than
/// these are, which is little beside the numbers that were added up.
pub(super) fn deviation_beside(one: &[f64], other: &[f64], scale: f64) -> f64 {
    let largest = one.iter().chain(other).fold(scale, |largest, value| largest.max(value.abs()));
    let difference = one.iter().zip(other).map(|(a, b)| (a - b).abs());
    // A difference that is not a number is the largest of all.
    let worst = difference.fold(0.0_f64, |worst, own| if own.is_nan() { f64::INFINITY } else { worst.max(own) });
    if one.len() != other.len() {
        return f64::INFINITY;
    }
    if worst == 0.0 { 0.0 } else { worst / largest.max(f64::MIN_POSITIVE) }
}

/// The point at which an expression and its derivative are finite, if there is one of these kinds.
pub(super) struct Point<'a> {
    expression: &'a MatrixExpression,
    sizes: &'a Sizes,
    wrt: &'a str,
    shape: Vec<usize>,
    kind: Kind,
}

impl<'a> Point<'a> {
    pub(super) fn new(
        expression: &'a MatrixExpression,
        sizes: &'a Sizes,
        wrt: &'a str,
        shape: Vec<usize>,
        kind: Kind,
    ) -> Point<'a> {
        Point { expression, sizes, wrt, shape, kind }
    }

    fn x(&self) -> Tensor {
        Leaves::new(self.sizes.clone(), self.kind).symbol(self.wrt, &self.shape)
    }

    /// A random direction.
    fn direction(&self) -> Tensor {
        let key = crate::rng::Key::new(91);
        let elements: Vec<f64> =
            (0..self.shape.iter().product()).map(|place: usize| key.normal(place as u64)).collect();
        Tensor::leaf(Array::new(Shape::from(&self.shape[..]), crate::array::Buffer::F64(elements)))
    }

    fn value(&self, x: &Tensor) -> Tensor {
        let mut leaves = Leaves::new(self.sizes.clone(), self.kind);
        leaves.replace(self.wrt, x.clone());
        leaves.lower(self.expression)
    }

    /// The function at a distance along the direction, or its gradient.
    fn along(&self, distance: f64, order: usize) -> Result<Vec<f64>, Error> {
        let x = Tensor::add_all("add", &[&self.x(), &self.direction().scaled(distance)]).eval()?;
        let x = Tensor::leaf(x);
        match order {
            1 => numbers(&self.value(&x)),
            _ => numbers(&grad(|x: &Tensor| self.value(x))(&x)),
        }
    }

    /// Finite differences with an error of the fourth power of the step, and the largest number that they are taken of.
    fn finite_differences(&self, order: usize) -> Result<(Vec<f64>, f64), Error> {
        const STEP: f64 = 1e-3;
        let (mut total, mut scale) = (None, 0.0_f64);
        for (distance, weight) in [(-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)] {
            let own = self.along(distance * STEP, order)?;
            scale = own.iter().fold(scale, |scale, value| scale.max(value.abs()));
            let sum: &mut Vec<f64> = total.get_or_insert_with(|| vec![0.0; own.len()]);
            sum.iter_mut().zip(&own).for_each(|(sum, own)| *sum += weight * own / (12.0 * STEP));
        }
        Ok((total.unwrap_or_default(), scale))
    }

    /// What structured derivative, nested modes and finite differences say along one direction.
    pub(super) fn agreement(&self, order: usize, limit: usize) -> Result<Agreement, Error> {
        let (x, direction) = (self.x(), self.direction());
        let function = |x: &Tensor| self.value(x);
        let (structured, nested, size) = match order {
            1 => {
                let jacobian = calculus::jacobian(function).limit(limit).at(&x)?;
                let (_, tangent) = jvp(function, &x, &direction);
                (numbers(&jacobian.matvec(&direction)?)?, numbers(&tangent)?, jacobian.magnitude(&direction)?)
            }
            _ => {
                let hessian = calculus::hessian(function).limit(limit).at(&x)?;
                let nested = numbers(&hvp(function, &x, &direction))?;
                (numbers(&hessian.matvec(&direction)?)?, nested, hessian.magnitude(&direction)?)
            }
        };
        let (differences, scale) = self.finite_differences(order)?;
        // Beside a derivative that is exactly zero, the others are rounding errors of what they are computed from.
        let floor = match structured.iter().all(|number| *number == 0.0) {
            true => numbers(&x)?.into_iter().chain(numbers(&direction)?).fold(0.0_f64, |most, own| most.max(own.abs())),
            false => 0.0,
        };
        let (size, scale) = (size.max(floor), scale.max(floor));
        Ok(Agreement {
            finite_differences: deviation_beside(&structured, &differences, scale),
            nested: deviation_beside(&structured, &nested, size),
            matrix: None,
        })
    }
}
