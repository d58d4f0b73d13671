//! The oracles: independent ways to compute the same thing, which must agree.

mod derivatives;
mod execution;

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use glassgrad::array::Array;
use glassgrad::dtype::DType;
use glassgrad::exec::with_rounding_noise;
use glassgrad::{Tensor, grad};

use super::compare::{Evaluated, Tolerances, disagreement};
use super::interpret::{Interpreter, Mode, NODE_PERTURBATION};
use super::program::{Data, Program};
use crate::counters;
use crate::random::Random;
use crate::runner::panic_message;

/// The perturbed runs that tolerances come from: at first, and if these do not explain a difference.
const RUNS: [Perturbed; 3] = [Perturbed::Operands(4), Perturbed::Operands(24), Perturbed::Nodes(24)];

/// What is perturbed, and in how many runs.
#[derive(Clone, Copy)]
enum Perturbed {
    /// The operands and results of the program's instructions.
    Operands(u64),
    /// Every node of the graph, and every term of a sum.
    Nodes(u64),
}

/// Separates the random numbers of the loss from others of the same seed.
const LOSS: u64 = 0x5EED;

/// An oracle: nothing if all agree, and what differs otherwise.
pub struct Oracle {
    /// Its name.
    pub name: &'static str,
    /// What it checks, in a line.
    pub summary: &'static str,
    /// It runs on one program in this many, or on none, but on every one if it is named.
    pub every: u64,
    check: fn(&Case<'_>) -> Result<(), String>,
}

/// All oracles.
pub const ORACLES: &[Oracle] = &[
    Oracle {
        name: "reference",
        summary: "planned programs against the reference executor",
        every: 1,
        check: execution::reference,
    },
    Oracle {
        name: "order",
        summary: "results read one by one, with intermediate values held",
        every: 1,
        check: execution::order,
    },
    Oracle {
        name: "compile",
        summary: "compiled against define-by-run, bit-equal without transforms",
        every: 1,
        check: execution::compiled,
    },
    Oracle { name: "threads", summary: "one thread against several, bit-equal", every: 1, check: execution::threads },
    Oracle { name: "passes", summary: "each optimisation pass disabled", every: 1, check: execution::passes },
    Oracle { name: "isa", summary: "every instruction set of this machine", every: 1, check: execution::isa },
    Oracle {
        name: "interpreter",
        summary: "programs lowered for the reference executor, every access checked",
        every: 1,
        check: execution::interpreter,
    },
    Oracle {
        name: "kernels",
        summary: "the kernels of the CUDA executor, compiled for the host; one program of sixteen",
        every: 16,
        check: execution::kernels,
    },
    Oracle { name: "gpu", summary: "the first GPU; only if it is named", every: 0, check: execution::gpu },
    Oracle {
        name: "structure",
        summary: "loops, maps and checkpoints against their definition",
        every: 1,
        check: execution::structure,
    },
    Oracle {
        name: "adjoint",
        summary: "⟨w, Jv⟩ = ⟨Jᵀw, v⟩ between jvp and vjp",
        every: 1,
        check: derivatives::adjoint,
    },
    Oracle {
        name: "differences",
        summary: "gradients against finite differences",
        every: 1,
        check: derivatives::differences,
    },
];

/// The names of all oracles.
pub const NAMES: &[&str] = &[
    "reference",
    "order",
    "compile",
    "threads",
    "passes",
    "isa",
    "interpreter",
    "kernels",
    "gpu",
    "structure",
    "adjoint",
    "differences",
];

/// A program before the oracles.
pub struct Case<'p> {
    /// The program.
    pub program: &'p Program,
    /// What random choices of oracles come from.
    pub seed: u64,
    /// Whether gradients of all floating-point inputs are results too.
    pub with_gradient: bool,
    expected: OnceCell<Evaluated>,
    tolerances: [OnceCell<Tolerances>; RUNS.len()],
}

impl<'p> Case<'p> {
    /// A case.
    pub fn new(program: &'p Program, seed: u64) -> Case<'p> {
        let with_gradient = Random::new(seed ^ 0xA5A5).chance(0.6);
        Case { program, seed, with_gradient, expected: OnceCell::new(), tolerances: Default::default() }
    }

    /// Calls an oracle. A panic is a disagreement.
    pub fn check(&self, oracle: &Oracle) -> Result<(), String> {
        counters::add("oracle", oracle.name, 1);
        let begin = Instant::now();
        let checked = catch_unwind(AssertUnwindSafe(|| (oracle.check)(self)));
        counters::add("microseconds", oracle.name, begin.elapsed().as_micros() as u64);
        checked.unwrap_or_else(|payload| Err(panic_message(&*payload)))
    }

    /// The results in a mode, not evaluated: the outputs, and gradients.
    pub fn results(&self, mode: Mode) -> Vec<Tensor> {
        let interpreter = Interpreter::new(mode);
        self.results_at(&interpreter, &interpreter.inputs(self.program))
    }

    /// The results at some inputs.
    pub fn results_at(&self, interpreter: &Interpreter, inputs: &[Tensor]) -> Vec<Tensor> {
        let mut results = interpreter.outputs(self.program, inputs);
        if self.with_gradient && results.iter().any(|result| result.is_float()) {
            let loss = |x: &Vec<Tensor>| loss(&interpreter.outputs(self.program, x), self.seed);
            let gradients = grad(loss)(&inputs.to_vec());
            results.extend(gradients.into_iter().filter(|gradient| gradient.is_float()));
        }
        results
    }

    /// The results of the reference executor.
    pub fn expected(&self) -> &Evaluated {
        self.expected.get_or_init(|| by_reference(&self.results(Mode::default())))
    }

    /// Compares results with those of the reference executor.
    pub fn compare(&self, actual: &Evaluated) -> Result<(), String> {
        let mut message = String::new();
        for (runs, known) in RUNS.into_iter().zip(&self.tolerances) {
            match disagreement(actual, self.expected(), self.has_products(), &mut || {
                known.get_or_init(|| self.measured(runs))
            }) {
                None => return Ok(()),
                Some(found) => message = found,
            }
        }
        Err(message)
    }

    /// Whether something is multiplied with something else, as in every derivative.
    fn has_products(&self) -> bool {
        const WITHOUT: &[&str] = &[
            "constant",
            "full",
            "row",
            "squash",
            "add",
            "sub",
            "affine",
            "neg",
            "compare",
            "logic",
            "choose",
            "cast",
            "is",
            "clip",
            "stop_gradient",
            "resize",
            "reshape",
            "broadcast_to",
            "permute",
            "move_axis",
            "unsqueeze",
            "squeeze",
            "flip",
            "roll",
            "tile",
            "repeat",
            "slice",
            "pad",
            "windows",
            "fold",
            "concatenate",
            "stack",
            "split",
            "diff",
            "sum",
            "mean",
            "max",
            "min",
            "all_any",
            "argmax",
            "sort",
            "argsort",
            "top_k",
            "gather",
            "index_at",
            "with_at",
            "embedding",
            "take_along",
            "put_along",
            "at_largest",
            "scan",
            "vmap",
            "checkpoint",
            "compile",
            "update",
        ];
        let mut found = self.with_gradient;
        self.program.each(&mut |instruction| {
            let is_zero = instruction.operation == "affine" && instruction.reals.first() == Some(&0.0);
            found |= is_zero || instruction.text == "mul" || !WITHOUT.contains(&instruction.operation.as_str());
        });
        found
    }

    /// The weights that the loss gives the elements of outputs; none for those that are not floating-point numbers.
    pub fn weights(&self, outputs: &[Array]) -> Vec<Vec<f64>> {
        let mut random = Random::new(self.seed ^ LOSS);
        let weights = |output: &Array| match output.dtype().is_float() {
            true => weights(&mut random, output.buffer().len()),
            false => Vec::new(),
        };
        outputs.iter().map(weights).collect()
    }

    fn measured(&self, runs: Perturbed) -> Tolerances {
        let inlined = Mode { inlined: true, ..Mode::default() };
        let perturbed: Vec<Evaluated> = match runs {
            Perturbed::Operands(runs) => {
                (0..runs).map(|run| by_reference(&self.results(Mode { noise: Some(run), ..inlined }))).collect()
            }
            Perturbed::Nodes(runs) => (0..runs)
                .map(|run| with_rounding_noise(run, NODE_PERTURBATION, || by_reference(&self.results(inlined))))
                .collect(),
        };
        counters::add("tolerances", "programs whose tolerances were measured", 1);
        let size = |data: &Data| data.shape.iter().product::<usize>();
        let mut terms = self.program.inputs.iter().map(size).max().unwrap_or(0);
        self.program.each(&mut |instruction| terms = terms.max(instruction.data.as_ref().map_or(0, size)));
        let tolerances = |values: &Vec<Array>| Tolerances::new(values, &perturbed).for_sums(values, terms);
        self.expected().as_ref().map_or_else(|_| Tolerances::default(), tolerances)
    }
}

/// The values of tensors by the planned program.
pub fn planned(tensors: &[Tensor]) -> Evaluated {
    Tensor::eval_all(&tensors.iter().collect::<Vec<_>>())
}

/// The values of tensors by the reference executor.
pub fn by_reference(tensors: &[Tensor]) -> Evaluated {
    Tensor::eval_all_by_reference(&tensors.iter().collect::<Vec<_>>())
}

/// One number from all floating-point outputs: their sum with random weights.
pub fn loss(outputs: &[Tensor], seed: u64) -> Tensor {
    let mut random = Random::new(seed ^ LOSS);
    let mut total = Tensor::from(0.0);
    for output in outputs {
        if let Some(error) = output.error() {
            return glassgrad::diff::Fallible::failed(error);
        }
        if output.is_float() {
            let weights = direction(&mut random, output.shape());
            total += (output.cast(DType::F64) * weights).sum();
        }
    }
    total
}

/// Random 64-bit numbers of magnitude 1/2 to 1, in multiples of 1/64.
pub fn direction(random: &mut Random, shape: &[usize]) -> Tensor {
    Tensor::new(&weights(random, shape.iter().product()), shape)
}

fn weights(random: &mut Random, count: usize) -> Vec<f64> {
    let sign = |random: &mut Random| if random.chance(0.5) { 1.0 } else { -1.0 };
    (0..count).map(|_| random.between(32, 64) as f64 / 64.0 * sign(random)).collect()
}
