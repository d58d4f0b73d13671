//! Dual numbers: a value and its tangents, for forward mode.

use crate::algebra::{Literal, c};
use crate::ops::{Algebra, Binary, Operation, Real, Relation, Unary};

/// A number with `N` tangents: its directional derivatives along `N` chosen directions.
///
/// Dual numbers nest: in `Dual<Dual<f64>>` the tangent of the tangent is a second derivative.
/// Levels cannot be confused, because each has a type of its own.
///
/// ```
/// use glassgrad::scalar::Dual;
///
/// // d/dx (x · d/dy (x + y)) = 1, where x is a constant to the inner derivative.
/// let x = Dual::variable(3.0);
/// let y = Dual::variable(Dual::constant(4.0));
/// let inner = (Dual::constant(x) + y).tangent(); // d/dy (x + y) = 1
/// assert_eq!((x * inner).tangent(), 1.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dual<T, const N: usize = 1> {
    /// The number.
    pub value: T,
    /// Its derivatives along each direction.
    pub tangents: [T; N],
}

impl<T: Real, const N: usize> Dual<T, N> {
    /// A number with the given tangents.
    #[inline(always)]
    pub fn new(value: T, tangents: [T; N]) -> Self {
        Dual { value, tangents }
    }

    /// A number that does not move in any direction.
    #[inline(always)]
    pub fn constant(value: T) -> Self {
        Dual { value, tangents: [c(0.0); N] }
    }

    /// A number that moves with unit speed in one of the directions.
    #[inline(always)]
    pub fn along(value: T, direction: usize) -> Self {
        Dual { value, tangents: std::array::from_fn(|lane| c(if lane == direction { 1.0 } else { 0.0 })) }
    }
}

impl<T: Real> Dual<T> {
    /// A number that moves with unit speed: the variable to differentiate by.
    #[inline(always)]
    pub fn variable(value: T) -> Self {
        Dual { value, tangents: [c(1.0)] }
    }

    /// The derivative.
    #[inline(always)]
    pub fn tangent(self) -> T {
        self.tangents[0]
    }
}

impl<T: Real, const N: usize> Literal for Dual<T, N> {
    #[inline(always)]
    fn literal(value: f64) -> Self {
        Dual::constant(c(value))
    }
}

/// The product of a partial derivative with a tangent, in which a tangent that is exactly zero wins
/// over a partial that is infinite or NaN: what does not move contributes nothing.
#[inline(always)]
pub(crate) fn strong_product<T: Real>(partial: T, tangent: T) -> T {
    let product = partial * tangent;
    if tangent.is_exactly_zero() { tangent } else { product }
}

/// Whether products of the partials of a row with zero tangents are zero by themselves. One test for all lanes, since it looks at
/// the partials; those of sums are constants.
#[inline(always)]
fn is_plain<T: Real>(operation: Operation, partials: &[T]) -> bool {
    matches!(operation, Operation::Add | Operation::Sub) || partials.iter().all(|partial| partial.is_entirely_finite())
}

impl<T: Real, const N: usize> Dual<T, N> {
    /// The result of an operation with this value and local derivative. A loop over the lanes, because the closures
    /// of `array::map` are not always inlined for many lanes.
    #[inline(always)]
    fn moved(self, operation: Operation, value: T, derivative: T) -> Self {
        let mut tangents = self.tangents;
        if is_plain(operation, &[derivative]) {
            for tangent in &mut tangents {
                *tangent = derivative * *tangent;
            }
        } else {
            scale_strongly(&mut tangents, &derivative);
        }
        Dual { value, tangents }
    }
}

/// Multiplies tangents by a partial with strong zeros. Never inlined: in nested numbers the code of every level would contain
/// this of all levels below, and its stack frame.
#[cold]
#[inline(never)]
fn scale_strongly<T: Real>(tangents: &mut [T], partial: &T) {
    for tangent in tangents {
        *tangent = strong_product(*partial, *tangent);
    }
}

/// The sum of two such products for each lane.
#[cold]
#[inline(never)]
fn combine_strongly<T: Real>(tangents: &mut [T], others: &[T], partials: &[T; 2]) {
    for (tangent, other) in tangents.iter_mut().zip(others) {
        *tangent = strong_product(partials[0], *tangent) + strong_product(partials[1], *other);
    }
}

impl<T: Real, const N: usize> Algebra for Dual<T, N> {
    type Mask = bool;

    #[inline(always)]
    fn unary<R: Unary>(self, parameter: f64) -> Self {
        let value = self.value.unary::<R>(parameter);
        let derivative = R::derivative(self.value, value, parameter);
        self.moved(R::OPERATION, value, derivative)
    }

    #[inline(always)]
    fn binary<R: Binary>(self, other: Self) -> Self {
        let value = self.value.binary::<R>(other.value);
        let first = R::first(self.value, other.value, value);
        let second = R::second(self.value, other.value, value);
        let mut tangents = self.tangents;
        if is_plain(R::OPERATION, &[first, second]) {
            for (tangent, other) in tangents.iter_mut().zip(&other.tangents) {
                *tangent = first * *tangent + second * *other;
            }
        } else {
            combine_strongly(&mut tangents, &other.tangents, &[first, second]);
        }
        Dual { value, tangents }
    }

    /// A constant has no tangents to multiply.
    #[inline(always)]
    fn with_constant<R: Binary>(self, constant: f64) -> Self {
        let constant = c(constant);
        let value = self.value.binary::<R>(constant);
        self.moved(R::OPERATION, value, R::first(self.value, constant, value))
    }

    #[inline(always)]
    fn after_constant<R: Binary>(self, constant: f64) -> Self {
        let constant: T = c(constant);
        let value = constant.binary::<R>(self.value);
        self.moved(R::OPERATION, value, R::second(constant, self.value, value))
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

impl<T: Real, const N: usize> Real for Dual<T, N> {
    const KNOWS_FINITENESS: bool = T::KNOWS_FINITENESS;

    #[inline(always)]
    fn primal(self) -> f64 {
        self.value.primal()
    }

    #[inline(always)]
    fn is_exactly_zero(self) -> bool {
        self.value.is_exactly_zero() && self.tangents.iter().all(|tangent| tangent.is_exactly_zero())
    }

    #[inline(always)]
    fn is_entirely_finite(self) -> bool {
        // Without an early exit, so that lanes are tested together.
        self.tangents.iter().fold(self.value.is_entirely_finite(), |all, tangent| all & tangent.is_entirely_finite())
    }
}

number_operators!([T: Real, const N: usize] Dual<T, N>);
order_by_value!([T: Real, const N: usize] Dual<T, N>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_tangents_travel_together() {
        let x = Dual::<f64, 2>::along(2.0, 0);
        let y = Dual::<f64, 2>::along(5.0, 1);
        let f = x.ln() + x * y - y.sin();
        assert_eq!(f.tangents[0], 5.5);
        assert!((f.tangents[1] - 1.716_337_814_536_773_8).abs() < 1e-15);
    }

    #[test]
    fn a_constant_at_a_singular_point_stays_silent() {
        let x = Dual::variable(2.0);
        let f = x + Dual::constant(0.0).sqrt() + Dual::constant(-2.0).pow(Dual::constant(3.0));
        assert_eq!(f.tangent(), 1.0);
    }

    #[test]
    fn at_a_pole_forward_and_reverse_agree() {
        use crate::scalar::{derivatives, gradient};
        // Written with lifted literals, whose zero tangents meet infinite partials.
        fn half_logarithm<T: Real>(x: T) -> T {
            T::literal(0.5) * x.ln()
        }
        fn reciprocal<T: Real>(x: T) -> T {
            T::literal(1.0) / x
        }
        let forward = [half_logarithm(Dual::variable(0.0)).tangent(), reciprocal(Dual::variable(0.0)).tangent()];
        assert_eq!(forward, [f64::INFINITY, f64::NEG_INFINITY]);
        assert_eq!(gradient(|x| half_logarithm(x[0]), &[0.0]), [forward[0]]);
        assert_eq!(gradient(|x| reciprocal(x[0]), &[0.0]), [forward[1]]);
        assert_eq!(derivatives(|x| half_logarithm(x), 0.0, 1)[1], forward[0]);
    }

    #[test]
    fn strong_zeros_do_not_hide_a_second_derivative() {
        // a·sin(x) at a = 0: the mixed derivative is cos(x) although the first in x vanishes.
        let a = Dual::new(Dual::constant(0.0), [Dual::constant(1.0)]);
        let x = Dual::new(Dual::variable(0.7), [Dual::constant(0.0)]);
        assert_eq!((a * x.sin()).tangent().tangent(), 0.7_f64.cos());
    }
}
