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
        let mut choices = self.choices.iter_mut();
        // The values once more, in one piece: operands are found without looking for their chunk.
        self.values.resize(self.nodes.len(), c(0.0));
        let values = &mut self.values[..];
        let mut index = 0;
        let mut previous = c(0.0);
        for chunk in self.nodes.chunks_mut() {
            let nodes = chunk.parents.iter_mut().zip(chunk.partials).zip(chunk.values).zip(chunk.operations);
            for (((parents, partials), own), operation) in nodes {
                let operand = |slot: usize| match parents[slot] {
                    NONE => partials[slot],
                    parent if parent as usize + 1 == index => previous,
                    parent => values[parent as usize],
                };
                let (a, b) = (operand(0), operand(1));
                if let Some((y, [first, second])) = operation.renew(a, b) {
                    *partials =
                        [if parents[0] == NONE { a } else { first }, if parents[1] == NONE { b } else { second }];
                    *own = y;
                } else if *operation == Operation::Where {
                    let choice = choices.next().expect("every choice is a node");
                    let value = |operand: Operand<T>| match operand {
                        Operand::Node(NodeId(index)) => values[index as usize],
                        Operand::Constant(value) => value,
                    };
                    choice.guard.outcome =
                        choice.guard.relation.holds(value(choice.guard.left), value(choice.guard.right));
                    let chosen = if choice.guard.outcome { choice.taken } else { choice.otherwise };
                    *own = value(chosen);
                    (*parents, *partials) = match chosen {
                        Operand::Node(NodeId(parent)) => ([parent, NONE], [c(1.0), c(0.0)]),
                        Operand::Constant(value) => ([NONE; 2], [value, c(0.0)]),
                    };
                }
                previous = *own;
                values[index] = previous;
                index += 1;
            }
        }
    }

    fn operand_value(&self, operand: Operand<T>) -> T {
        match operand {
            Operand::Node(NodeId(index)) => self.nodes.value(index),
            Operand::Constant(value) => value,
        }
    }
}
