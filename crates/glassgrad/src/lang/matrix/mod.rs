//! The language of matrix and tensor expressions, with symbolic sizes.
//!
//! ```text
//! sum        = product { ("+" | "-") product }
//! product    = unary { ("*" | "/" | ".*" | "./") unary }
//! unary      = "-" unary | power
//! power      = postfix [ ("^" | ".^") unary ]              binds before the sign: -x.^2 = -(x.^2)
//! postfix    = atom { "'" | "^" "T" }                   ^T where no symbol is named T
//! atom       = number | "pi" | "e" | name | function "(" arguments ")" | "(" sum ")"
//!            | "vector" "(" number [ "," size ] ")" | "matrix" "(" number [ "," size "," size ] ")"
//!            | "eye" [ "(" size ")" ] | "einsum" "(" text { "," sum } ")"
//!            | "where" "(" sum relation sum "," sum "," sum ")"
//! ```
//!
//! Vectors are columns, and `x'*A*x` is a number. `*` is the matrix product, `.*`, `./` and `.^` work element by
//! element, and a number goes with anything. Functions of the table of operations work element by element;
//! `sum`, `tr`, `norm1`, `norm2`, `inv`, `det`, `logdet` and `diag` take matrices and vectors, `softmax` vectors.
//!
//! - [`Declarations`] say which symbols there are: `A: m n, x: n, m=5`;
//! - `infer` finds shapes where no symbol is declared;
//! - [`MatrixExpression`] is what was read, with a [`Type`] for every part;
//! - `print` writes it as text that reads back as the same, and as LaTeX.

mod declare;
mod infer;
mod parser;
mod print;
mod syntax;
mod types;

pub use declare::{Declarations, Size};
pub(crate) use infer::inferred;
pub use parser::parse;
pub(crate) use print::{latex, latex_name, text};
pub(crate) use syntax::{Constant, Function, NodeId, Operator, Syntax};
pub use syntax::{MAXIMUM_HEIGHT, MAXIMUM_NESTING, MatrixExpression};
pub use types::Type;
