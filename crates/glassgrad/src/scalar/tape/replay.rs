//! Evaluating a recording at new inputs, without running the user's function again.

use std::fmt;

use super::storage::NONE;
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
                let inputs = if *expected == 1 { "input" } else { "inputs" };
                let were = if *given == 1 { "was" } else { "were" };
                write!(formatter, "the recording has {expected} {inputs}, but {given} {were} given")
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
        let recording = self.recording.get_mut();
        if recording.inputs.len() != inputs.len() {
            return Err(ReplayError::WrongInputs { expected: recording.inputs.len(), given: inputs.len() });
        }
        // Without guards nothing can go wrong, and the old inputs need not be kept.
        let previous: Vec<T> = match recording.guards.is_empty() {
            true => Vec::new(),
            false => recording.inputs.iter().map(|index| recording.nodes.value(*index)).collect(),
        };
        recording.evaluate(inputs);
        if let Err(error) = self.check_guards() {
            self.recording.get_mut().evaluate(&previous);
            return Err(error);
        }
        Ok(())
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
    /// Renews every value and every partial derivative, in the order of recording.
    fn evaluate(&mut self, inputs: &[T]) {
        for (index, input) in self.inputs.iter().zip(inputs) {
            self.nodes.set_value(*index, *input);
        }
        let mut choices = 0;
        for index in 0..self.nodes.len() as u32 {
            let node = self.nodes.get(index);
            // An operand that is no node left its number in the slot of the partial derivative.
            let operand = |slot: usize| match node.parents[slot] {
                NONE => node.partials[slot],
                parent => self.nodes.value(parent),
            };
            match node.operation {
                Operation::Input => {}
                Operation::Where => {
                    let (parent, partial, value) = self.choose_again(choices);
                    choices += 1;
                    self.nodes.set(index, [parent, NONE], [partial, c(0.0)], value);
                }
                operation if node.parents[1] == NONE && operation.arity() == 1 => {
                    if let Some((y, slope)) = operation.unary_with_derivative(operand(0), node.partials[1].primal()) {
                        self.nodes.set(index, node.parents, [slope, node.partials[1]], y);
                    }
                }
                operation => {
                    if let Some((y, [first, second])) = operation.binary_with_partials(operand(0), operand(1)) {
                        let first = if node.parents[0] == NONE { node.partials[0] } else { first };
                        let second = if node.parents[1] == NONE { node.partials[1] } else { second };
                        self.nodes.set(index, node.parents, [first, second], y);
                    }
                }
            }
        }
    }

    fn operand_value(&self, operand: Operand<T>) -> T {
        match operand {
            Operand::Node(NodeId(index)) => self.nodes.value(index),
            Operand::Constant(value) => value,
        }
    }

    /// Decides a choice at the present values, and returns its parent, its partial and its value.
    fn choose_again(&mut self, number: usize) -> (u32, T, T) {
        let mut choice = self.choices[number];
        let (left, right) = (self.operand_value(choice.guard.left), self.operand_value(choice.guard.right));
        choice.guard.outcome = choice.guard.relation.holds(left, right);
        self.choices[number] = choice;
        let chosen = if choice.guard.outcome { choice.taken } else { choice.otherwise };
        let value = self.operand_value(chosen);
        match chosen {
            Operand::Node(NodeId(parent)) => (parent, c(1.0), value),
            Operand::Constant(_) => (NONE, value, value),
        }
    }
}
