//! The expression language of the command line.
//!
//! ```text
//! program    = statement { ";" statement }
//! statement  = [ name "=" ] sum
//! sum        = product { ("+" | "-") product }
//! product    = unary { ("*" | "/" | "%" | implied) unary }     implied: behind a number, ")" or "|" a name or "(" follows, as in 2x
//! unary      = "-" unary | power
//! power      = atom [ ("^" | "**") unary ]                 right-associative, binds before the sign: -x^2 = -(x^2)
//! atom       = number | "pi" | "e" | name | function "(" arguments ")" | "(" sum ")" | "|" sum "|"
//!            | "where" "(" condition "," sum "," sum ")"
//! condition  = conjunction { "or" conjunction }
//! conjunction = negation { "and" negation }
//! negation   = "not" negation | sum relation sum | "(" condition ")"
//! relation   = "<" | "<=" | ">" | ">=" | "==" | "!="
//! ```
//!
//! The functions are those of the table of operations, and `log` for the natural logarithm. A name
//! that is given a value with `=` stands for it in the statements that follow; any other name is an
//! input. The results are the statements without a name, or the last one if all have names.
//!
//! - [`Expression`] is the program as a [`Formula`](crate::formula::Formula), with the text and the names;
//! - [`matrix`] is the language of matrix and tensor expressions with symbolic sizes;
//! - [`SyntaxError`] points at the place and says what to do.

mod expression;
mod lexer;
pub mod matrix;
mod parser;

pub use expression::{Expression, Span};
pub use lexer::{MAXIMUM_LENGTH, SyntaxError, underline};
pub use parser::{MAXIMUM_DEPTH, parse};
