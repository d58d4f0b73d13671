//! The handle with which functions compute while statements are recorded.

use super::{Edge, NONE, Output, StatementTape};
use crate::algebra::{Literal, c};
use crate::ops::{Algebra, Binary, Operation, Real, Relation, Unary};

/// A number whose derivatives are recorded as statements, or a constant. It is copied freely.
///
/// [`gradient`](crate::scalar::gradient) and the other operators in reverse hand such numbers to the function. In nested
/// derivatives [`Active::constant`] lifts a number of the outer level.
#[derive(Clone, Copy, Debug)]
pub struct Active<'t, T = f64> {
    tape: Option<&'t StatementTape<T>>,
    edge: Edge<T>,
    value: T,
}

impl<'t, T: Real> Active<'t, T> {
    #[inline(always)]
    pub(super) fn on_tape(tape: &'t StatementTape<T>, edge: Edge<T>, value: T) -> Self {
        Active { tape: Some(tape), edge, value }
    }

    /// A number that depends on nothing.
    #[inline(always)]
    pub fn constant(value: T) -> Self {
        Active { tape: None, edge: Edge { node: NONE, factor: c(0.0) }, value }
    }

    /// The number.
    #[inline(always)]
    pub fn value(self) -> T {
        self.value
    }

    pub(in crate::scalar) fn output(self) -> Output<T> {
        Output { edge: self.tape.map(|_| self.edge) }
    }

    /// A number that depends on the node of this one alone. One whose derivative is exactly zero is a constant: what does not move
    /// contributes nothing, and records nothing. Where a partial was not finite that is not known.
    #[inline(always)]
    fn depending(self, factor: T, value: T) -> Self {
        if factor.is_exactly_zero() && self.tape.is_some_and(|tape| !tape.is_strong()) {
            Active::constant(value)
        } else {
            Active { tape: self.tape, edge: Edge { node: self.edge.node, factor }, value }
        }
    }

    /// The result of an operation whose only variable operand is this number. The factor is a product, unless it would not be finite.
    #[inline(always)]
    fn scaled(self, operation: Operation, value: T, partial: T) -> Self {
        let Some(tape) = self.tape else { return Active::constant(value) };
        let edge = if T::KNOWS_FINITENESS {
            let factor = partial * self.edge.factor;
            if is_exact(operation) {
                Edge { node: self.edge.node, factor }
            } else if factor.is_entirely_finite() && !underflows(factor, partial, self.edge.factor) {
                return self.depending(factor, value);
            } else {
                tape.record_strongly([self.edge, Edge { node: NONE, factor: c(0.0) }], [partial, c(0.0)])
            }
        } else {
            tape.record([self.edge.node, NONE], [partial, c(0.0)])
        };
        Active { tape: Some(tape), edge, value }
    }
}

/// Whether the partials of a row are 1 or -1, so that products with factors are neither zero nor infinite.
#[inline(always)]
fn is_exact(operation: Operation) -> bool {
    matches!(operation, Operation::Add | Operation::Sub | Operation::Neg)
}

/// Whether a product is zero and its factors are not: the sweep, which multiplies them with an adjoint in turn, may be able to tell it from zero.
#[inline(always)]
fn underflows<T: Real>(product: T, partial: T, factor: T) -> bool {
    product.is_exactly_zero() && !partial.is_exactly_zero() && !factor.is_exactly_zero()
}

#[cold]
#[inline(never)]
fn two_tapes_meet() -> ! {
    panic!(
        "numbers of two gradients meet in one operation; for nested derivatives lift the outer number into the inner one's \
         type, `Active::constant(outer)`"
    )
}

impl<T: Real> Literal for Active<'_, T> {
    #[inline(always)]
    fn literal(value: f64) -> Self {
        Active::constant(c(value))
    }
}

impl<T: Real> Algebra for Active<'_, T> {
    type Mask = bool;

    #[inline(always)]
    fn unary<R: Unary>(self, parameter: f64) -> Self {
        // Rounded to the number's precision, as on a `Tape`.
        let parameter = c::<T>(parameter).primal();
        let value = self.value.unary::<R>(parameter);
        if self.tape.is_none() {
            return Active::constant(value);
        }
        self.scaled(R::OPERATION, value, R::derivative(self.value, value, parameter))
    }

    #[inline(always)]
    fn binary<R: Binary>(self, other: Self) -> Self {
        let (a, b) = (self.value, other.value);
        let value = a.binary::<R>(b);
        let address = |tape: Option<&StatementTape<T>>| tape.map_or(std::ptr::null(), std::ptr::from_ref);
        if !std::ptr::eq(address(self.tape), address(other.tape)) {
            if other.tape.is_none() {
                return self.scaled(R::OPERATION, value, R::first(a, b, value));
            }
            if self.tape.is_none() {
                return other.scaled(R::OPERATION, value, R::second(a, b, value));
            }
            two_tapes_meet()
        }
        let Some(tape) = self.tape else { return Active::constant(value) };
        let partials = [R::first(a, b, value), R::second(a, b, value)];
        let nodes = [self.edge.node, other.edge.node];
        let edge = if T::KNOWS_FINITENESS {
            let products = [partials[0] * self.edge.factor, partials[1] * other.edge.factor];
            // A sum is finite only if its terms are.
            let sum = products[0] + products[1];
            if nodes[0] == nodes[1] && sum.is_entirely_finite() && (is_exact(R::OPERATION) || !sum.is_exactly_zero()) {
                return self.depending(sum, value);
            }
            if is_exact(R::OPERATION) {
                tape.record(nodes, products)
            } else if !sum.is_entirely_finite()
                || underflows(products[0], partials[0], self.edge.factor)
                || underflows(products[1], partials[1], other.edge.factor)
            {
                tape.record_strongly([self.edge, other.edge], partials)
            } else if products[0].is_exactly_zero() {
                return other.depending(products[1], value);
            } else if products[1].is_exactly_zero() {
                return self.depending(products[0], value);
            } else {
                tape.record(nodes, products)
            }
        } else {
            tape.record(nodes, partials)
        };
        Active { tape: Some(tape), edge, value }
    }

    #[inline(always)]
    fn compare(self, relation: Relation, other: Self) -> bool {
        self.value.compare(relation, other.value)
    }

    #[inline(always)]
    fn select(mask: bool, taken: impl FnOnce() -> Self, otherwise: impl FnOnce() -> Self) -> Self {
        if mask { taken() } else { otherwise() }
    }
}

impl<T: Real> Real for Active<'_, T> {
    #[inline(always)]
    fn primal(self) -> f64 {
        self.value.primal()
    }

    /// A variable is never exactly zero: its derivatives are not known yet.
    #[inline(always)]
    fn is_exactly_zero(self) -> bool {
        self.tape.is_none() && self.value.is_exactly_zero()
    }
}

number_operators!(['t, T: Real] Active<'t, T>);
order_by_value!(['t, T: Real] Active<'t, T>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_partials_that_underflow_are_not_zero() {
        use crate::scalar::gradient;
        fn chain<T: Real>(x: T) -> T {
            x * c(1e-200) * c(1e-200) * c(1e300)
        }
        assert_eq!(gradient(|x| chain(x[0]), &[1.0]), [1e-200 * (1e-200 * 1e300)]);
        assert_eq!(gradient(|x| chain(x[0]) + chain(x[1]) * x[0], &[1.0, 2.0])[1], 1e-200 * (1e-200 * 1e300));
        let product = gradient(|x| (x[0] * 1e-200) * (x[1] * 1e-200) * 1e300, &[1.0, 1.0]);
        assert!(product.iter().all(|own| *own > 0.0), "{product:?}");
        assert_eq!(gradient(|x| (x[0] * 0.0) * 1e300, &[1.0]), [0.0]);
    }

    #[test]
    #[should_panic(expected = "numbers of two gradients meet")]
    fn numbers_of_two_tapes_do_not_meet() {
        let (mut first, mut second) = (StatementTape::new(), StatementTape::new());
        let _ = first.start(&[1.0])[0] * second.start(&[2.0])[0];
    }
}
