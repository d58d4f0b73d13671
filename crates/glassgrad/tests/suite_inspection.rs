//! The language, the calculator, explanations, the glass box, and the layers of the library itself. One program, since each costs a linking.

// Files include the judges that they need, so that each can also be a program of its own.
#![allow(clippy::duplicate_mod)]

mod calculator;
mod calculator_emit;
mod explain;
mod glass;
mod lang;
mod layers;
mod notation;
