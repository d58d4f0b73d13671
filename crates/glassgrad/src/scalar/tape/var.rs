//! The handle with which user code computes while the tape records.

use super::storage::NONE;
use super::{Choice, Guard, NodeId, Operand, Tape};
use crate::algebra::{Literal, c};
use crate::ops::{Algebra, Binary, Operation, Real, Relation, Unary};

/// A number on a tape, or a constant, which is on none. It is copied freely; the node stays.
///
/// Operations on constants alone record nothing. Comparisons look at the value, and are recorded as
/// guards of a later replay.
#[derive(Clone, Copy, Debug)]
pub struct Var<'t, T = f64> {
    tape: Option<&'t Tape<T>>,
    /// The place on the tape, or [`NONE`] for a constant, which then needs no look at `tape`.
    index: u32,
    value: T,
}

impl<'t, T: Real> Var<'t, T> {
    #[inline(always)]
    pub(super) fn on_tape(tape: &'t Tape<T>, index: u32, value: T) -> Self {
        Var { tape: Some(tape), index, value }
    }

    /// A number that depends on nothing.
    #[inline(always)]
    pub fn constant(value: T) -> Self {
        Var { tape: None, index: NONE, value }
    }

    /// The number.
    #[inline(always)]
    pub fn value(self) -> T {
        self.value
    }

    /// The node of this number; a constant has none.
    pub fn id(self) -> Option<NodeId> {
        self.tape.map(|_| NodeId(self.index))
    }

    /// The same number as a node of the tape: a constant becomes an input of its own.
    ///
    /// # Panics
    /// If the number is on another tape.
    pub fn recorded_on(self, tape: &'t Tape<T>) -> Self {
        same_tape(self.tape, Some(tape));
        if self.tape.is_some() { self } else { tape.input(self.value) }
    }

    /// Gives the node a name under which it is shown.
    pub fn named(self, name: &str) -> Self {
        if let Some(tape) = self.tape {
            tape.name(NodeId(self.index), name);
        }
        self
    }

    fn operand(self) -> Operand<T> {
        self.id().map_or(Operand::Constant(self.value), Operand::Node)
    }

    /// The tape of either number. Numbers of two tapes cannot meet.
    #[inline(always)]
    fn common_tape(self, other: Self) -> Option<&'t Tape<T>> {
        same_tape(self.tape, other.tape)
    }

    #[inline]
    fn guard(self, relation: Relation, other: Self) -> bool {
        let outcome = relation.holds(self.value, other.value);
        if let Some(tape) = self.common_tape(other) {
            let guard = Guard { left: self.operand(), relation, right: other.operand(), outcome };
            tape.recording.borrow_mut().guards.push(guard);
        }
        outcome
    }
}

#[inline(always)]
fn same_tape<'t, T>(mine: Option<&'t Tape<T>>, theirs: Option<&'t Tape<T>>) -> Option<&'t Tape<T>> {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) if !std::ptr::eq(mine, theirs) => two_tapes_meet(),
        (mine, theirs) => mine.or(theirs),
    }
}

#[cold]
#[inline(never)]
fn two_tapes_meet() -> ! {
    panic!(
        "two variables of different tapes meet in one operation; for nested derivatives lift the outer \
         variable into the inner tape's number, `Var::constant(outer)` on a `Tape<Var<_>>`"
    )
}

impl<T: Real> From<Var<'_, T>> for NodeId {
    /// The node of a variable.
    ///
    /// # Panics
    /// If the variable is a constant, which has no node; see [`Var::id`] and [`Var::recorded_on`].
    fn from(var: Var<'_, T>) -> NodeId {
        var.id().expect("a constant has no node on the tape; Var::recorded_on gives it one")
    }
}

impl<T: Real> Literal for Var<'_, T> {
    #[inline(always)]
    fn literal(value: f64) -> Self {
        Var::constant(c(value))
    }
}

impl<'t, T: Real> Algebra for Var<'t, T> {
    type Mask = bool;

    #[inline(always)]
    fn unary<R: Unary>(self, parameter: f64) -> Self {
        // As a replay will read it from the tape, where it is rounded to the number's precision.
        let parameter = c::<T>(parameter).primal();
        let value = self.value.unary::<R>(parameter);
        let Some(tape) = self.tape else {
            return Var::constant(value);
        };
        let derivative = R::derivative(self.value, value, parameter);
        Var::on_tape(tape, tape.push(R::OPERATION, [self.index, NONE], [derivative, c(parameter)], value), value)
    }

    #[inline(always)]
    fn binary<R: Binary>(self, other: Self) -> Self {
        let value = self.value.binary::<R>(other.value);
        let (a, b) = (self.value, other.value);
        let (tape, partials) = match (self.tape, other.tape) {
            (Some(tape), Some(theirs)) => {
                if !std::ptr::eq(tape, theirs) {
                    two_tapes_meet()
                }
                (tape, [R::first(a, b, value), R::second(a, b, value)])
            }
            (Some(tape), None) => (tape, [R::first(a, b, value), b]),
            (None, Some(tape)) => (tape, [a, R::second(a, b, value)]),
            (None, None) => return Var::constant(value),
        };
        Var::on_tape(tape, tape.push(R::OPERATION, [self.index, other.index], partials, value), value)
    }

    #[inline]
    fn compare(self, relation: Relation, other: Self) -> bool {
        self.guard(relation, other)
    }

    #[inline(always)]
    fn select(mask: bool, taken: impl FnOnce() -> Self, otherwise: impl FnOnce() -> Self) -> Self {
        if mask { taken() } else { otherwise() }
    }

    fn choose(left: Self, relation: Relation, right: Self, taken: Self, otherwise: Self) -> Self {
        let outcome = relation.holds(left.value, right.value);
        let chosen = if outcome { taken } else { otherwise };
        let Some(tape) = same_tape(left.common_tape(right), taken.common_tape(otherwise)) else {
            return chosen;
        };
        let derivative = if chosen.tape.is_some() { c(1.0) } else { chosen.value };
        let index = tape.push(Operation::Where, [chosen.index, NONE], [derivative, c(0.0)], chosen.value);
        let guard = Guard { left: left.operand(), relation, right: right.operand(), outcome };
        tape.recording.borrow_mut().choices.push(Choice {
            node: NodeId(index),
            guard,
            taken: taken.operand(),
            otherwise: otherwise.operand(),
        });
        Var::on_tape(tape, index, chosen.value)
    }
}

impl<T: Real> Real for Var<'_, T> {
    #[inline(always)]
    fn primal(self) -> f64 {
        self.value.primal()
    }

    /// A variable on a tape is never exactly zero: its derivatives are not known yet.
    #[inline(always)]
    fn is_exactly_zero(self) -> bool {
        self.tape.is_none() && self.value.is_exactly_zero()
    }
}

impl<T: Real> PartialEq for Var<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.guard(Relation::Equal, *other)
    }
}

impl<T: Real> PartialOrd for Var<'_, T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        // Which of the three outcomes it was is pinned by the relations that hold.
        let order = self.value.partial_cmp(&other.value);
        let relation = match order {
            Some(std::cmp::Ordering::Less) => Relation::Less,
            Some(std::cmp::Ordering::Greater) => Relation::Greater,
            Some(std::cmp::Ordering::Equal) => Relation::Equal,
            // No order holds, which is so only with NaN.
            None => {
                self.guard(Relation::Less, *other);
                self.guard(Relation::GreaterOrEqual, *other);
                return None;
            }
        };
        self.guard(relation, *other);
        order
    }
    fn lt(&self, other: &Self) -> bool {
        self.guard(Relation::Less, *other)
    }
    fn le(&self, other: &Self) -> bool {
        self.guard(Relation::LessOrEqual, *other)
    }
    fn gt(&self, other: &Self) -> bool {
        self.guard(Relation::Greater, *other)
    }
    fn ge(&self, other: &Self) -> bool {
        self.guard(Relation::GreaterOrEqual, *other)
    }
}

impl<T: Real> PartialEq<f64> for Var<'_, T> {
    fn eq(&self, other: &f64) -> bool {
        *self == Var::literal(*other)
    }
}

impl<T: Real> PartialOrd<f64> for Var<'_, T> {
    fn partial_cmp(&self, other: &f64) -> Option<std::cmp::Ordering> {
        self.partial_cmp(&Var::literal(*other))
    }
    fn lt(&self, other: &f64) -> bool {
        *self < Var::literal(*other)
    }
    fn le(&self, other: &f64) -> bool {
        *self <= Var::literal(*other)
    }
    fn gt(&self, other: &f64) -> bool {
        *self > Var::literal(*other)
    }
    fn ge(&self, other: &f64) -> bool {
        *self >= Var::literal(*other)
    }
}

number_operators!(['t, T: Real] Var<'t, T>);
