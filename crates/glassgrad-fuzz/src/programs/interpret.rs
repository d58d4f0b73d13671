//! Runs programs as a user would: by calling the library, operation by operation.

use std::cell::Cell;
use std::collections::HashMap;

use glassgrad::Tensor;
use glassgrad::dtype::DType;

use super::operations::{Application, find};
use super::program::{Block, Program, Value};
use crate::random::Random;

/// How a program is interpreted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mode {
    /// 64-bit floating-point numbers in place of 32-bit ones, for finite differences.
    pub as_f64: bool,
    /// Relative perturbations of [`PERTURBATION`] roundings before and after every operation that rounds, from this seed.
    pub noise: Option<u64>,
    /// Transforms by their definition: loops unrolled, functions called in place, mapped ones called per example.
    pub expanded: bool,
    /// `compile` and `update` call their functions in place, so that the whole program is one graph.
    pub inlined: bool,
    /// Derivatives pass through `stop_gradient`, as finite differences do.
    pub ignores_stops: bool,
}

/// How many units in the last place operands and results are perturbed by in noisy runs. Real executors differ by a few:
/// what such perturbations do to a result bounds what rounding can do to it.
pub const PERTURBATION: f64 = 64.0;

/// How many units in the last place the nodes of a graph are perturbed by, where perturbed operands do not explain a difference. A node
/// is rounded once or a few times, so fewer units than for whole operations bound it.
pub const NODE_PERTURBATION: f64 = 8.0;

/// The values that are visible in a block.
pub type Environment = HashMap<Value, Tensor>;

/// Interprets programs in a mode.
#[derive(Debug)]
pub struct Interpreter {
    /// The mode.
    pub mode: Mode,
    perturbations: Cell<u64>,
}

impl Interpreter {
    /// An interpreter.
    pub fn new(mode: Mode) -> Interpreter {
        Interpreter { mode, perturbations: Cell::new(0) }
    }

    /// The inputs of a program as leaves.
    pub fn inputs(&self, program: &Program) -> Vec<Tensor> {
        program.inputs.iter().map(|data| data.tensor(self.mode.as_f64)).collect()
    }

    /// The outputs of a program at these inputs, not evaluated.
    pub fn outputs(&self, program: &Program, inputs: &[Tensor]) -> Vec<Tensor> {
        self.call(&program.block, &Environment::new(), inputs)
    }

    /// The results of a block.
    pub fn call(&self, block: &Block, around: &Environment, arguments: &[Tensor]) -> Vec<Tensor> {
        let mut environment = around.clone();
        environment.extend(block.parameters.iter().copied().zip(arguments.iter().cloned()));
        for instruction in &block.instructions {
            let operation = find(&instruction.operation);
            let mut operands: Vec<Tensor> =
                instruction.operands.iter().map(|value| environment[value].clone()).collect();
            if operation.rounds {
                operands.iter_mut().for_each(|operand| *operand = self.perturbed(operand));
            }
            let application =
                Application { instruction, operands: &operands, interpreter: self, environment: &environment };
            let mut results = (operation.apply)(&application);
            if operation.rounds {
                results.iter_mut().for_each(|result| *result = self.perturbed(result));
            }
            environment.extend(instruction.results.iter().copied().zip(results));
        }
        block.results.iter().map(|value| environment[value].clone()).collect()
    }

    /// A type, or the wider one that the mode asks for.
    pub fn dtype(&self, dtype: DType) -> DType {
        if self.mode.as_f64 && dtype == DType::F32 { DType::F64 } else { dtype }
    }

    fn perturbed(&self, tensor: &Tensor) -> Tensor {
        let Some(seed) = self.mode.noise else { return tensor.clone() };
        if tensor.error().is_some() || !tensor.is_float() {
            return tensor.clone();
        }
        let number = self.perturbations.replace(self.perturbations.get() + 1);
        let mut random = Random::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ number);
        let size = PERTURBATION * tensor.dtype().epsilon();
        let factors: Vec<f64> = (0..tensor.shape().elements())
            .map(|_| 1.0 + size * (0.5 + 0.5 * random.unit()) * if random.chance(0.5) { 1.0 } else { -1.0 })
            .collect();
        match tensor.dtype() {
            DType::F32 => {
                let factors: Vec<f32> = factors.into_iter().map(|factor| factor as f32).collect();
                tensor * Tensor::new(&factors, tensor.shape())
            }
            dtype => (tensor * Tensor::new(&factors, tensor.shape())).cast(dtype),
        }
    }
}
