//! Tensor calculus: Jacobians and Hessians of tensor expressions as compressed values.
//!
//! A derivative is written as one expression in Einstein notation, with the unit tensor as the seed of the sweep, and
//! rewritten until the unit tensor has gone or stands outside as a delta. What is left is a sum of products, which the
//! planner associates by cost over the whole graph (cross-country mode), and which is held as it is: ‖T - UVᵀ‖² has the
//! Hessian 2·VᵀV ⊗ I in U, and what is held is VᵀV.
//!
//! - `algebra` holds the expressions, `construct` makes them, and does most of the rewriting in passing; `ledger` keeps the
//!   steps if they are asked for, `print` writes expressions down;
//! - `sweep` goes forward, in reverse, or both ways to a cut, `read` turns tensor graphs into expressions;
//! - `terms` is the normal form, `flatten` joins contractions for the planner, `plan` finds it in every mode and takes the cheapest, `explain` compares them (`effort` bounds the search, `order`
//!   beside the rule of lowest order first), `derivative`
//!   does so once for every combination of shapes;
//! - `families` and `gather` keep what is picked by arrays of integers as these, so that a derivative that is sparse because of
//!   them stays so;
//! - `open` hands the expressions and the steps to those who write them in other notations;
//! - `block` is a term with numbers, `structure` says what it is, `solve`, `kroneckers` and `system` use that, over `dense` systems and
//!   products alone (`krylov`), or both (`reduced`); `condition` estimates condition numbers, `verify` checks residuals, and
//!   `eigen` finds the ends of the spectrum; `held` does all that for lists of leaves, `value` for trees: [`Hessian`] and
//!   [`Jacobian`]; `triplets` lists the elements of sparse ones.

mod algebra;
mod block;
mod condition;
mod construct;
mod dense;
mod derivative;
mod effort;
mod eigen;
mod explain;
mod export;
mod flatten;
mod gather;
mod gather_groups;
mod kroneckers;
mod krylov;
mod ledger;
mod order;
mod plan;
mod print;
mod read;
mod schur;
mod solve;
mod storage;
mod structure;
mod sweep;
mod system;
mod terms;
mod triplets;
mod value;
mod verify;

pub use derivative::{Derivative, Mode, hessian, jacobian};
pub(crate) use eigen::Spectrum;
pub use explain::{Candidate, Explanation};
pub(crate) use export::{Opened, Part, Planned, opened, planned};
pub use ledger::Step;
pub use structure::Structure;
pub use triplets::Triplets;
pub use value::{Factored, Hessian, Jacobian};
