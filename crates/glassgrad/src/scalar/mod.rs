//! Scalar engines: numbers that carry derivatives, and the tape that records them.
//!
//! - [`Dual`] carries one or several tangents: forward mode.
//! - [`Taylor`] carries a power series of an order chosen at run time.
//! - [`Tape`] records a computation; [`Var`] is its copyable handle. One recording answers sweeps
//!   in both directions, shows every node, and can be replayed at new inputs.
//! - [`Active`] is the number of gradients: its statements are recorded with their partial derivatives alone.
//! - [`operators`] turns functions into derivatives: [`gradient`], [`jacobian`], [`hessian`] and the
//!   others; [`sparse`] does so for large sparse problems.
//! - [`compiled`](self) (feature `jit`) makes machine code of recordings.
//! - [`Matrix`] is a matrix whose every element is such a number.
//!
//! All of them are [`Real`](crate::Real), so they nest: a tape of duals, a tape of tapes.

/// The operators and conveniences that every number type shares, derived from its `binary` method.
macro_rules! number_operators {
    ([$($generics:tt)*] $Type:ty) => {
        $crate::scalar::number_operators!(@arithmetic [$($generics)*] $Type, Add add AddAssign add_assign);
        $crate::scalar::number_operators!(@arithmetic [$($generics)*] $Type, Sub sub SubAssign sub_assign);
        $crate::scalar::number_operators!(@arithmetic [$($generics)*] $Type, Mul mul MulAssign mul_assign);
        $crate::scalar::number_operators!(@arithmetic [$($generics)*] $Type, Div div DivAssign div_assign);
        $crate::scalar::number_operators!(@arithmetic [$($generics)*] $Type, Rem rem RemAssign rem_assign);

        impl<$($generics)*> std::ops::Neg for $Type {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                $crate::ops::Algebra::unary::<$crate::ops::rule::Neg>(self, 0.0)
            }
        }

        impl<$($generics)*> std::iter::Sum for $Type {
            fn sum<I: Iterator<Item = Self>>(numbers: I) -> Self {
                // Starting from the first number saves an addition of zero on the tape.
                numbers.reduce(|sum, number| sum + number).unwrap_or_else(|| $crate::c(0.0))
            }
        }

        impl<$($generics)*> std::iter::Product for $Type {
            fn product<I: Iterator<Item = Self>>(numbers: I) -> Self {
                numbers.reduce(|product, number| product * number).unwrap_or_else(|| $crate::c(1.0))
            }
        }

        $crate::ops::operations!(inherent_methods [$($generics)*] $Type);
    };
    (@arithmetic [$($generics:tt)*] $Type:ty, $Trait:ident $method:ident $Assign:ident $assign:ident) => {
        impl<$($generics)*> std::ops::$Trait for $Type {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                $crate::ops::Algebra::binary::<$crate::ops::rule::$Trait>(self, other)
            }
        }
        impl<$($generics)*> std::ops::$Trait<f64> for $Type {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: f64) -> Self {
                $crate::ops::Algebra::with_constant::<$crate::ops::rule::$Trait>(self, other)
            }
        }
        impl<$($generics)*> std::ops::$Trait<$Type> for f64 {
            type Output = $Type;
            #[inline(always)]
            fn $method(self, other: $Type) -> $Type {
                $crate::ops::Algebra::after_constant::<$crate::ops::rule::$Trait>(other, self)
            }
        }
        impl<$($generics)*> std::ops::$Assign for $Type {
            #[inline(always)]
            fn $assign(&mut self, other: Self) {
                *self = std::ops::$Trait::$method(*self, other);
            }
        }
    };
}

/// Methods for every row of the table on the type itself, so that `x.sin()` needs no import.
macro_rules! inherent_methods {
    ({ [$($generics:tt)*] $Type:ty }
     literal $c:ident
     unary { $(#[doc = $doc:literal] $Name:ident $method:ident($x:ident $(=> $y:ident)? $(; $p:ident: $P:ident = $default:literal)?) $row:tt)* }
     arithmetic $arithmetic:tt
     binary { $(#[doc = $bdoc:literal] $BName:ident $bmethod:ident($a:ident, $b:ident $(=> $by:ident)?) $brow:tt)* }
    ) => {
        #[allow(clippy::should_implement_trait)]
        impl<$($generics)*> $Type {
            $(#[doc = $doc]
            #[inline(always)]
            pub fn $method(self $(, $p: $P)?) -> Self {
                $crate::ops::Algebra::$method(self $(, $p)?)
            })*
            $(#[doc = $bdoc]
            #[inline(always)]
            pub fn $bmethod(self, $b: Self) -> Self {
                $crate::ops::Algebra::$bmethod(self, $b)
            })*
        }
    };
}

/// Order by value alone: a branch of a program looks at the number, not at its derivatives.
macro_rules! order_by_value {
    ([$($generics:tt)*] $Type:ty) => {
        impl<$($generics)*> PartialEq for $Type {
            #[inline(always)]
            fn eq(&self, other: &Self) -> bool {
                self.value == other.value
            }
        }
        impl<$($generics)*> PartialOrd for $Type {
            #[inline(always)]
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                self.value.partial_cmp(&other.value)
            }
        }
        impl<$($generics)*> PartialEq<f64> for $Type {
            #[inline(always)]
            fn eq(&self, other: &f64) -> bool {
                self.primal() == *other
            }
        }
        impl<$($generics)*> PartialOrd<f64> for $Type {
            #[inline(always)]
            fn partial_cmp(&self, other: &f64) -> Option<std::cmp::Ordering> {
                self.primal().partial_cmp(other)
            }
        }
    };
}

use number_operators;

#[cfg(any(feature = "argmin", feature = "levenberg-marquardt"))]
pub mod adapters;
#[cfg(feature = "jit")]
pub mod compiled;
mod dual;
mod matrix;
mod num_traits;
pub mod operators;
pub mod sparse;
mod statement;
mod storage;
pub mod tape;
mod taylor;

#[cfg(feature = "jit")]
pub use compiled::{Compiled, CompiledTape, Derivative};
pub use dual::Dual;
pub use matrix::Matrix;
pub use operators::{
    Mode, Recorded, Workspace, derivative, derivatives, gradient, hessian, hvp, jacobian, jacobian_forward, jvp,
    taylor, value_and_gradient, vjp,
};
pub use sparse::{SparseColumns, SparseMatrix, sparse_hessian, sparse_jacobian};
pub use statement::Active;
pub use tape::{Choice, Guard, Node, NodeId, Operand, ReplayError, Sweep, Tape, Var};
pub use taylor::{Taylor, TaylorPool};
