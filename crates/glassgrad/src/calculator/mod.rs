//! The calculator: first and second derivatives of matrix expressions, written down and checked.
//!
//! An expression is read with symbolic sizes ([`lang::matrix`](crate::lang::matrix)), becomes a graph of tensors, and is
//! differentiated by [`calculus`](crate::calculus), which states no rule of its own. The terms that the calculus finds are
//! read as expressions with indices, and these are written in every notation.
//!
//! - `lower` makes the graph, `functions` the functions of one matrix, `points` sizes and leaves;
//! - `indexed` holds expressions with indices, `read` reads them from graphs and terms;
//! - `written` writes them with indices, `recognise` as products of matrices, by the graph of `eliminate`;
//! - `question` is what is asked, `problem` what was understood of it; `check` puts steps and results before numbers; `derive`
//!   does all of it: [`derive()`];
//! - `emit` writes value, gradient and product with the Hessian as code: [`emit()`].

mod check;
mod derive;
mod eliminate;
mod emit;
mod evaluate;
mod functions;
mod indexed;
mod lower;
mod points;
mod problem;
mod question;
mod read;
mod recognise;
mod written;

pub use check::Agreement;
pub use derive::{Derived, Step, derive};
pub use emit::{Language, emit};
pub use evaluate::evaluate;
pub use question::{Question, Unanswered};
