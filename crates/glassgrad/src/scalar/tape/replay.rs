//! Evaluating a recording at new inputs, without running the user's function again.

use std::fmt;

use super::{Guard, NodeId, Operand, Recording, Tape};
use crate::algebra::c;
use crate::ops::{Operation, Real};

/// Why a recording does not hold at new inputs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ReplayError {
    /// The number of inputs is not that of the recording.
    WrongInputs {
        /// How many inputs were recorded.
        expected: usize,
        /// How many were given.
        given: usize,
    },
    /// A comparison comes out differently, so the program would take another branch.
    BranchChanged {
        /// The number of the comparison, counted from 0.
        comparison: usize,
        /// The comparison in the names of the tape, with the values at the new inputs.
        description: String,
        /// Its outcome when it was recorded.
        recorded: bool,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::WrongInputs { expected, given } => {
                write!(formatter, "the recording has {expected} inputs, but {given} were given")
            }
            ReplayError::BranchChanged { comparison, description, recorded } => write!(
                formatter,
                "comparison {comparison}, {description}, was {recorded} when recorded and is {} at these inputs: \
                 the program would take another branch; record it anew",
                !recorded
            ),
        }
    }
}

impl std::error::Error for ReplayError {}

impl<T: Real> Tape<T> {
    /// Evaluates the recording at new inputs: every value and local partial derivative is renewed.
    ///
    /// A choice recorded as a node is decided anew. A comparison on which the program branched is
    /// checked, and if it comes out differently the tape stays as it was and the error says where.
    ///
    /// ```
    /// use glassgrad::scalar::{NodeId, Tape};
    /// let mut tape = Tape::new();
    /// let x = tape.input(3.0);
    /// let y = NodeId::from(if x > 0.0 { x.sqrt() } else { -x });
    ///
    /// tape.replay(&[16.0]).unwrap();
    /// assert_eq!(tape.value(y), 4.0);
    /// let error = tape.replay(&[-1.0]).unwrap_err();
    /// assert!(error.to_string().starts_with("comparison 0, v0 > 0 with v0 = -1"));
    /// assert_eq!(tape.value(y), 4.0);
    /// ```
    pub fn replay(&mut self, inputs: &[T]) -> Result<(), ReplayError> {
        let previous: Vec<T> = self.recorded_inputs();
        if previous.len() != inputs.len() {
            return Err(ReplayError::WrongInputs { expected: previous.len(), given: inputs.len() });
        }
        self.evaluate(inputs);
        if let Err(error) = self.check_guards() {
            self.evaluate(&previous);
            return Err(error);
        }
        Ok(())
    }

    fn recorded_inputs(&self) -> Vec<T> {
        let recording = self.recording.borrow();
        let nodes = (0..recording.nodes.len() as u32).map(|index| recording.nodes.get(index));
        nodes.filter(|node| node.operation == Operation::Input).map(|node| node.value).collect()
    }

    fn evaluate(&mut self, inputs: &[T]) {
        let recording = self.recording.get_mut();
        let mut inputs = inputs.iter();
        let mut choices = 0;
        for index in 0..recording.nodes.len() as u32 {
            let node = recording.nodes.get(index);
            let operand = |slot: usize| match node.parents[slot] {
                Some(parent) => recording.nodes.value(parent),
                None => node.partials[slot],
            };
            let (parents, partials, value) = match node.operation {
                Operation::Input => (node.parents, node.partials, inputs.next().copied().unwrap_or(node.value)),
                Operation::Where => {
                    choices += 1;
                    recording.choose_again(choices - 1)
                }
                operation if operation.arity() == 1 => {
                    let (x, parameter) = (operand(0), node.partials[1].primal());
                    let y = operation.apply_unary(x, parameter).unwrap_or(node.value);
                    let slope = operation.derivative(x, y, parameter).unwrap_or(node.partials[0]);
                    (node.parents, [slope, node.partials[1]], y)
                }
                operation => {
                    let (a, b) = (operand(0), operand(1));
                    let y = operation.apply_binary(a, b).unwrap_or(node.value);
                    let [first, second] = operation.partials(a, b, y).unwrap_or(node.partials);
                    let keep = |slot: usize, partial: T| {
                        if node.parents[slot].is_some() { partial } else { node.partials[slot] }
                    };
                    (node.parents, [keep(0, first), keep(1, second)], y)
                }
            };
            recording.nodes.set(index, parents, partials, value);
        }
    }

    fn check_guards(&self) -> Result<(), ReplayError> {
        let recording = self.recording.borrow();
        for (comparison, guard) in recording.guards.iter().enumerate() {
            let (left, right) = (recording.operand_value(guard.left), recording.operand_value(guard.right));
            if guard.relation.holds(left, right) != guard.outcome {
                return Err(ReplayError::BranchChanged {
                    comparison,
                    description: self.describe(&recording, guard),
                    recorded: guard.outcome,
                });
            }
        }
        Ok(())
    }

    fn describe(&self, recording: &Recording<T>, guard: &Guard<T>) -> String {
        let name = |operand: Operand<T>| match operand {
            Operand::Node(id) => self.name_of(id),
            Operand::Constant(value) => value.primal().to_string(),
        };
        let values: Vec<String> = [guard.left, guard.right]
            .into_iter()
            .filter(|operand| matches!(operand, Operand::Node(_)))
            .map(|operand| format!("{} = {}", name(operand), recording.operand_value(operand).primal()))
            .collect();
        let relation = guard.relation.symbol();
        format!("{} {relation} {} with {}", name(guard.left), name(guard.right), values.join(" and "))
    }
}

impl<T: Real> Recording<T> {
    fn operand_value(&self, operand: Operand<T>) -> T {
        match operand {
            Operand::Node(NodeId(index)) => self.nodes.value(index),
            Operand::Constant(value) => value,
        }
    }

    /// Decides a choice at the present values, and returns its parents, partials and value.
    fn choose_again(&mut self, number: usize) -> ([Option<u32>; 2], [T; 2], T) {
        let mut choice = self.choices[number];
        let (left, right) = (self.operand_value(choice.guard.left), self.operand_value(choice.guard.right));
        choice.guard.outcome = choice.guard.relation.holds(left, right);
        self.choices[number] = choice;
        let chosen = if choice.guard.outcome { choice.taken } else { choice.otherwise };
        let value = self.operand_value(chosen);
        match chosen {
            Operand::Node(NodeId(parent)) => ([Some(parent), None], [c(1.0), c(0.0)], value),
            Operand::Constant(_) => ([None, None], [value, c(0.0)], value),
        }
    }
}
