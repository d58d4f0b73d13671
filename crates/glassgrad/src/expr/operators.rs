//! The operators of Rust, and every row of the table as a method.

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Rem, Sub, SubAssign};

use super::create::IntoTensor;
use super::node::{Logic, Tensor};
use crate::ops::{Operation, Relation, operations};

macro_rules! row_methods {
    ({}
     literal $c:ident
     unary { $(#[doc = $doc:literal] $Name:ident $method:ident($x:ident $(=> $y:ident)? $(; $p:ident: $P:ident = $default:literal)?) $row:tt)* }
     arithmetic $arithmetic:tt
     binary { $(#[doc = $bdoc:literal] $BName:ident $bmethod:ident($a:ident, $b:ident $(=> $by:ident)?) $brow:tt)* }
    ) => {
        /// Rows of the table, element by element.
        impl Tensor {
            $(row_methods!(@unary $doc $Name $method $($p: $P)?);)*
            $(row_methods!(@binary $bdoc $BName $bmethod);)*
        }
    };
    // Negation is a product with -1, and the largest and smallest have names that reductions take.
    (@unary $doc:literal Neg neg) => {};
    (@unary $doc:literal $Name:ident $method:ident $($p:ident: $P:ident)?) => {
        #[doc = $doc]
        #[track_caller]
        pub fn $method(&self $(, $p: $P)?) -> Tensor {
            self.unary(Operation::$Name, row_methods!(@parameter $($p)?))
        }
    };
    (@binary $doc:literal Max max) => { row_methods!(@binary $doc Max maximum); };
    (@binary $doc:literal Min min) => { row_methods!(@binary $doc Min minimum); };
    (@binary $doc:literal $Name:ident $method:ident) => {
        #[doc = $doc]
        #[track_caller]
        pub fn $method(&self, other: impl IntoTensor) -> Tensor {
            self.binary(Operation::$Name, &other.into_tensor(self))
        }
    };
    (@parameter) => { 0.0 };
    (@parameter $p:ident) => { f64::from($p) };
}
operations!(row_methods);

#[track_caller]
fn add(a: &Tensor, b: &Tensor) -> Tensor {
    Tensor::add_all("add", &[a, b])
}

#[track_caller]
fn sub(a: &Tensor, b: &Tensor) -> Tensor {
    Tensor::add_all("sub", &[a, &b.scaled(-1.0)])
}

#[track_caller]
fn mul(a: &Tensor, b: &Tensor) -> Tensor {
    a.multiply(b)
}

#[track_caller]
fn div(a: &Tensor, b: &Tensor) -> Tensor {
    a.binary(Operation::Div, b)
}

#[track_caller]
fn rem(a: &Tensor, b: &Tensor) -> Tensor {
    a.binary(Operation::Rem, b)
}

macro_rules! operator {
    ($($Trait:ident $method:ident),*) => {$(
        impl<B: IntoTensor> $Trait<B> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: B) -> Tensor {
                $method(self, &other.into_tensor(self))
            }
        }
        impl<B: IntoTensor> $Trait<B> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: B) -> Tensor {
                $method(&self, &other.into_tensor(&self))
            }
        }
        // One floating-point type and one integer type on the left: with a second, the compiler could not tell
        // which of them a literal is, and `(1.0 + x).ln()` would need a type.
        operator!(@number $Trait $method f64 i64);
    )*};
    (@number $Trait:ident $method:ident $($Number:ty)*) => {$(
        impl $Trait<&Tensor> for $Number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                $method(&self.into_tensor(other), other)
            }
        }
        impl $Trait<Tensor> for $Number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                $method(&self.into_tensor(&other), &other)
            }
        }
    )*};
}
operator!(Add add, Sub sub, Mul mul, Div div, Rem rem);

macro_rules! assignment {
    ($($Trait:ident $method:ident $operator:ident),*) => {$(
        impl<B: IntoTensor> $Trait<B> for Tensor {
            #[track_caller]
            fn $method(&mut self, other: B) {
                *self = $operator(self, &other.into_tensor(self));
            }
        }
    )*};
}
assignment!(AddAssign add_assign add, SubAssign sub_assign sub, MulAssign mul_assign mul, DivAssign div_assign div);

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        if self.error().is_some() { self.clone() } else { self.scaled(-1.0) }
    }
}

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        -&self
    }
}

impl std::iter::Sum for Tensor {
    fn sum<I: Iterator<Item = Tensor>>(tensors: I) -> Tensor {
        tensors.reduce(|sum, tensor| sum + tensor).unwrap_or_else(|| Tensor::zeros(()))
    }
}

macro_rules! comparisons {
    ($($method:ident $Relation:ident $sign:literal),*) => {
        /// Comparisons element by element, as truth values.
        impl Tensor {
            $(#[doc = concat!("Where `self ", $sign, " other`.")]
            #[track_caller]
            pub fn $method(&self, other: impl IntoTensor) -> Tensor {
                self.compare(Relation::$Relation, &other.into_tensor(self))
            })*
        }
    };
}
comparisons!(lt Less "<", le LessOrEqual "<=", gt Greater ">", ge GreaterOrEqual ">=", equal Equal "==", not_equal NotEqual "!=");

/// Truth values combined element by element.
impl Tensor {
    /// Where both hold.
    #[track_caller]
    pub fn and(&self, other: &Tensor) -> Tensor {
        Tensor::logic(Logic::And, "and", &[self, other])
    }

    /// Where at least one holds.
    #[track_caller]
    pub fn or(&self, other: &Tensor) -> Tensor {
        Tensor::logic(Logic::Or, "or", &[self, other])
    }

    /// Where it does not hold.
    #[track_caller]
    pub fn not(&self) -> Tensor {
        Tensor::logic(Logic::Not, "not", &[self])
    }
}
