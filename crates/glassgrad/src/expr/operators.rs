//! The operators of Rust, and every row of the table as a method.

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Rem, Sub, SubAssign};

use super::Logic;
use super::create::IntoTensor;
use super::node::Tensor;
use crate::error::Error;
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
            $(row_methods!(@unary $doc $Name $method $($p: $P = $default)?);)*
            $(row_methods!(@binary $bdoc $BName $bmethod);)*
        }
    };
    // Negation is a product with -1, and the largest and smallest have names that reductions take.
    (@unary $doc:literal Neg neg) => {};
    (@unary $doc:literal $Name:ident $method:ident $($p:ident: $P:ident = $default:literal)?) => {
        #[doc = $doc]
        #[doc = concat!(
            "\n```\nuse glassgrad::{Algebra, Tensor};\nlet y = Tensor::from([1.0]).", stringify!($method), "(",
            $(stringify!($default),)? ").to_vec::<f64>().unwrap()[0];\nlet exact = Algebra::", stringify!($method),
            "(1.0_f64", $(", ", stringify!($default),)? ");\nassert!(y == exact || (y - exact).abs() <= 1e-15 * exact.abs());\n```"
        )]
        #[track_caller]
        pub fn $method(&self $(, $p: $P)?) -> Tensor {
            self.unary(Operation::$Name, row_methods!(@parameter $($p)?))
        }
    };
    (@binary $doc:literal Max max) => { row_methods!(@binary $doc Max max as maximum); };
    (@binary $doc:literal Min min) => { row_methods!(@binary $doc Min min as minimum); };
    (@binary $doc:literal $Name:ident $method:ident) => { row_methods!(@binary $doc $Name $method as $method); };
    (@binary $doc:literal $Name:ident $row:ident as $method:ident) => {
        #[doc = $doc]
        #[doc = concat!(
            "\n```\nuse glassgrad::{Algebra, Tensor};\nlet y = Tensor::from([2.0]).", stringify!($method),
            "(0.5);\nassert_eq!(y.to_vec::<f64>().unwrap(), [Algebra::", stringify!($row), "(2.0_f64, 0.5)]);\n```"
        )]
        #[track_caller]
        pub fn $method(&self, other: impl IntoTensor) -> Tensor {
            self.binary(Operation::$Name, &other.into_tensor(self))
        }
    };
    (@parameter) => { 0.0 };
    (@parameter $p:ident) => { f64::from($p) };
}
operations!(row_methods);

impl Tensor {
    /// Any row of the table, chosen at run time; `parameter` is the number of rows that have one, such as
    /// the slope of `leaky_relu`, and is ignored by the others.
    ///
    /// ```
    /// use glassgrad::{Operation, Tensor};
    /// let x = Tensor::from([-2.0, 3.0]);
    /// assert_eq!(Tensor::apply(Operation::LeakyRelu, 0.5, &[&x]).to_string(), "[-1,  3]");
    /// assert_eq!(Tensor::apply(Operation::Mul, 0.0, &[&x, &x]).to_string(), "[4, 9]");
    /// ```
    #[track_caller]
    pub fn apply(operation: Operation, parameter: f64, operands: &[&Tensor]) -> Tensor {
        if let Some(failed) = operands.iter().find(|operand| operand.error().is_some()) {
            return (*failed).clone();
        }
        match (operation, operands) {
            (Operation::Input | Operation::Where, _) => {
                let error = Error::new(operation.name(), "it is no row of the table");
                Tensor::refused(error.help("a choice between tensors is .choose(..)"), operands)
            }
            // The core adds and multiplies by itself.
            (Operation::Neg, [x]) => -*x,
            (Operation::Add, [a, b]) => add(a, b),
            (Operation::Sub, [a, b]) => sub(a, b),
            (Operation::Mul, [a, b]) => mul(a, b),
            (_, [x]) if operation.arity() == 1 => x.unary(operation, parameter),
            (_, [a, b]) if operation.arity() == 2 => a.binary(operation, b),
            _ => {
                let message = format!("it takes {} tensors, not {}", operation.arity(), operands.len());
                Tensor::refused(Error::new(operation.name(), message), operands)
            }
        }
    }
}

#[track_caller]
fn add(a: &Tensor, b: &Tensor) -> Tensor {
    Tensor::add_all("add", &[a, b])
}

#[track_caller]
fn sub(a: &Tensor, b: &Tensor) -> Tensor {
    match Tensor::promoted(&[a, b]) {
        Ok(promoted) => Tensor::add_all("sub", &[&promoted[0], &promoted[1].scaled(-1.0)]).reported_as("sub", &[a, b]),
        Err(failed) => failed,
    }
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
        let add = |sum: Tensor, tensor: Tensor| {
            let total = &sum + &tensor;
            match total.error() {
                // An iterator does not pass the caller's line on; that of the summand which does not fit is known.
                Some(error) if sum.error().is_none() && tensor.error().is_none() => {
                    Tensor::refused_at(error.clone(), &[&sum, &tensor], tensor.origin())
                }
                _ => total,
            }
        };
        tensors.reduce(add).unwrap_or_else(|| Tensor::zeros(()))
    }
}

macro_rules! comparisons {
    ($($method:ident $Relation:ident $sign:literal),*) => {
        /// Comparisons element by element, as truth values.
        impl Tensor {
            $(#[doc = concat!(
                "Where `self ", $sign, " other`.\n\n```\nuse glassgrad::Tensor;\nlet x = Tensor::from([1.0, 2.0, 3.0]);\n",
                "let expected = [1.0 ", $sign, " 2.0, 2.0 ", $sign, " 2.0, 3.0 ", $sign, " 2.0];\n",
                "assert_eq!(x.", stringify!($method), "(2.0).to_vec::<bool>().unwrap(), expected);\n```"
            )]
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
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0, 3.0]);
    /// assert_eq!(x.gt(1.0).and(&x.lt(3.0)).to_string(), "[false,  true, false]");
    /// ```
    #[track_caller]
    pub fn and(&self, other: &Tensor) -> Tensor {
        Tensor::logic(Logic::And, "and", &[self, other])
    }

    /// Where at least one holds.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0, 3.0]);
    /// assert_eq!(x.lt(2.0).or(&x.gt(2.0)).to_string(), "[ true, false,  true]");
    /// ```
    #[track_caller]
    pub fn or(&self, other: &Tensor) -> Tensor {
        Tensor::logic(Logic::Or, "or", &[self, other])
    }

    /// Where it does not hold.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([true, false]).not().to_string(), "[false,  true]");
    /// ```
    #[track_caller]
    pub fn not(&self) -> Tensor {
        Tensor::logic(Logic::Not, "not", &[self])
    }
}
