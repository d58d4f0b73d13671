//! Taylor numbers: truncated power series of an order chosen at run time.

use std::cell::{Cell, RefCell};

use crate::algebra::{Literal, c};
use crate::ops::{Algebra, Binary, Operation, Real, Relation, Unary};

/// The memory of a computation with Taylor numbers, and the order at which they are cut.
#[derive(Debug)]
pub struct TaylorPool<T = f64> {
    order: usize,
    /// Rules are evaluated at a lower order on the way; see [`Taylor::solve`].
    active: Cell<usize>,
    coefficients: RefCell<Vec<T>>,
}

impl<T: Real> TaylorPool<T> {
    /// Memory for series up to `order`.
    pub fn new(order: usize) -> Self {
        TaylorPool { order, active: Cell::new(order), coefficients: RefCell::new(Vec::new()) }
    }

    /// The order of the series.
    pub fn order(&self) -> usize {
        self.order
    }

    /// The series x + t: the variable to expand in.
    pub fn variable(&self, x: T) -> Taylor<'_, T> {
        self.series(&[x, c(1.0)])
    }

    /// The series with these lowest coefficients; the others are zero.
    pub fn series(&self, coefficients: &[T]) -> Taylor<'_, T> {
        self.push(|k| coefficients.get(k).copied().unwrap_or_else(|| c(0.0)))
    }

    /// Appends a series whose coefficients are given one by one, up to the active order.
    fn push(&self, mut coefficient: impl FnMut(usize) -> T) -> Taylor<'_, T> {
        let active = self.active.get();
        let start = self.coefficients.borrow().len();
        for k in 0..=active {
            let next = coefficient(k);
            self.coefficients.borrow_mut().push(next);
        }
        let value = self.coefficients.borrow()[start];
        Taylor { pool: Some(self), start, value }
    }
}

/// A copyable handle onto a truncated power series Σ aₖ tᵏ.
///
/// The k-th derivative of a function is k! times the k-th coefficient:
///
/// ```
/// use glassgrad::scalar::TaylorPool;
/// let pool = TaylorPool::new(3);
/// let y = pool.variable(0.0).exp();
/// assert_eq!(y.coefficients(), [1.0, 1.0, 0.5, 1.0 / 6.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Taylor<'p, T = f64> {
    pool: Option<&'p TaylorPool<T>>,
    start: usize,
    value: T,
}

impl<'p, T: Real> Taylor<'p, T> {
    /// The coefficients from order 0 upwards; a constant has only the first.
    pub fn coefficients(self) -> Vec<T> {
        match self.pool {
            None => vec![self.value],
            Some(pool) => pool.coefficients.borrow()[self.start..=self.start + pool.order].to_vec(),
        }
    }

    #[inline]
    fn coefficient(self, k: usize) -> T {
        match self.pool {
            Some(pool) if k > 0 => pool.coefficients.borrow()[self.start + k],
            _ if k == 0 => self.value,
            _ => c(0.0),
        }
    }

    /// The series y with y(0) = `value` and y' = Σ `derivatives`·x', for a derivative and an argument each.
    ///
    /// The coefficient of order k+1 of y needs the derivatives only up to order k. A derivative that mentions
    /// y itself is therefore evaluated again for each order, on the coefficients of y so far; one that
    /// does not is evaluated once.
    fn solve<const N: usize>(
        pool: &'p TaylorPool<T>,
        value: T,
        arguments: [Self; N],
        uses_output: bool,
        derivatives: impl Fn(Self) -> [Self; N],
    ) -> Self {
        let order = pool.active.get();
        let y = pool.push(|k| if k == 0 { value } else { c(0.0) });
        let mark = pool.coefficients.borrow().len();
        let mut known: Option<[Self; N]> = None;
        for k in 0..order {
            let partials = known.unwrap_or_else(|| {
                pool.active.set(if uses_output { k } else { order - 1 });
                derivatives(y)
            });
            let mut sum = c::<T>(0.0);
            for (derivative, argument) in partials.iter().zip(arguments) {
                for j in 0..=k {
                    // A coefficient that is exactly zero wins over a derivative that is not finite.
                    let moved = argument.coefficient(k + 1 - j);
                    if !moved.is_exactly_zero() {
                        sum += derivative.coefficient(j) * moved * c((k + 1 - j) as f64);
                    }
                }
            }
            pool.coefficients.borrow_mut()[y.start + k + 1] = sum / c((k + 1) as f64);
            if uses_output {
                pool.coefficients.borrow_mut().truncate(mark);
            } else {
                known = Some(partials);
            }
        }
        pool.coefficients.borrow_mut().truncate(mark);
        pool.active.set(order);
        y
    }
}

impl<T: Real> Literal for Taylor<'_, T> {
    #[inline(always)]
    fn literal(value: f64) -> Self {
        Taylor { pool: None, start: 0, value: c(value) }
    }
}

impl<T: Real> Algebra for Taylor<'_, T> {
    type Mask = bool;

    fn unary<R: Unary>(self, parameter: f64) -> Self {
        let value = self.value.unary::<R>(parameter);
        let Some(pool) = self.pool else {
            return Taylor { value, ..self };
        };
        Taylor::solve(pool, value, [self], R::USES_OUTPUT, |y| [R::derivative(self, y, parameter)])
    }

    fn binary<R: Binary>(self, other: Self) -> Self {
        let value = self.value.binary::<R>(other.value);
        let Some(pool) = self.pool.or(other.pool) else {
            return Taylor { value, ..self };
        };
        // Power series form a ring; its products and quotients need no rule.
        match R::OPERATION {
            Operation::Add => pool.push(|k| self.coefficient(k) + other.coefficient(k)),
            Operation::Sub => pool.push(|k| self.coefficient(k) - other.coefficient(k)),
            // A constant has no higher coefficients, which as zeros would meet infinite ones.
            Operation::Mul if other.pool.is_none() => pool.push(|k| self.coefficient(k) * other.value),
            Operation::Mul if self.pool.is_none() => pool.push(|k| self.value * other.coefficient(k)),
            Operation::Div if other.pool.is_none() => pool.push(|k| self.coefficient(k) / other.value),
            Operation::Mul => pool.push(|k| (0..=k).map(|j| self.coefficient(j) * other.coefficient(k - j)).sum()),
            Operation::Div => {
                let start = pool.coefficients.borrow().len();
                pool.push(|k| {
                    let earlier = |j: usize| pool.coefficients.borrow()[start + j];
                    let known: T = (0..k).map(|j| earlier(j) * other.coefficient(k - j)).sum();
                    (self.coefficient(k) - known) / other.value
                })
            }
            _ => Taylor::solve(pool, value, [self, other], R::USES_OUTPUT, |y| {
                [R::first(self, other, y), R::second(self, other, y)]
            }),
        }
    }

    /// With both arguments variable the rule of `pow` calls itself twice at every order, which would
    /// cost 2ᵏ; the exponential of the logarithm costs k³.
    fn pow(self, exponent: Self) -> Self {
        if exponent.pool.is_some() && self.value.primal() > 0.0 {
            Algebra::exp(exponent * Algebra::ln(self))
        // A fixed exponent, fixed also in what T differentiates by, has a rule that is a chain.
        } else if exponent.pool.is_none() && (exponent.value - c(exponent.value.primal())).is_exactly_zero() {
            Algebra::powf(self, exponent.value.primal())
        } else {
            self.binary::<crate::ops::rule::Pow>(exponent)
        }
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

impl<T: Real> Real for Taylor<'_, T> {
    #[inline(always)]
    fn primal(self) -> f64 {
        self.value.primal()
    }

    fn is_exactly_zero(self) -> bool {
        match self.pool {
            None => self.value.is_exactly_zero(),
            Some(pool) => (0..=pool.active.get()).all(|k| self.coefficient(k).is_exactly_zero()),
        }
    }
}

number_operators!(['p, T: Real] Taylor<'p, T>);
order_by_value!(['p, T: Real] Taylor<'p, T>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_orders_are_exact_for_known_series() {
        let pool = TaylorPool::new(20);
        let t = pool.variable(0.0);
        // 1/(1-t) = Σ tᵏ
        assert!((1.0 - t).recip().coefficients().iter().all(|a| *a == 1.0));
        // ln(1+t) = Σ (-1)ᵏ⁺¹ tᵏ/k
        for (k, a) in (t + 1.0).ln().coefficients().iter().enumerate().skip(1) {
            let exact = if k % 2 == 1 { 1.0 } else { -1.0 } / k as f64;
            assert!((a - exact).abs() < 1e-15, "order {k}: {a}");
        }
        // tan t has the coefficient 2/15 at order 5 and 62/2835 at order 9.
        let tangent = t.tan().coefficients();
        assert!((tangent[5] - 2.0 / 15.0).abs() < 1e-16);
        assert!((tangent[9] - 62.0 / 2835.0).abs() < 1e-16);
    }

    #[test]
    fn a_power_with_variable_base_and_exponent_is_cheap_at_high_order() {
        let pool = TaylorPool::new(30);
        let x = pool.variable(1.0);
        let y = x.pow(x).coefficients();
        let factorial = [1.0, 1.0, 2.0, 6.0, 24.0];
        for (k, exact) in [1.0, 1.0, 2.0, 3.0, 8.0].into_iter().enumerate() {
            assert!((y[k] * factorial[k] - exact).abs() < 1e-13, "order {k}");
        }
    }
}
