//! Formulas: the rules of the table written down instead of evaluated.
//!
//! A [`Formula`] is a flat list of [`Node`]s in which operands stand before what uses them. It can be
//! evaluated in any algebra. [`Symbol`] is an algebra whose numbers are formulas, so applying a rule
//! to symbols writes it down, and differentiating in it is symbolic differentiation.

mod mathml;
mod node;
mod print;
mod symbol;

pub use mathml::mathml;
pub use node::{Formula, Node};
pub use print::number;
pub use symbol::{Mask, Symbol, Symbols};
