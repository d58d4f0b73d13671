//! Programs with their results, for engines outside of this repository: `bench/run fuzz` puts them before PyTorch.

use serde_json::{Value as Json, json};

use super::compare::Tolerances;
use super::generate;
use super::interpret::Mode;
use super::oracles::{Case, by_reference, planned};
use super::program::Program;

/// How many perturbed runs tolerances come from.
const RUNS: u64 = 8;

/// Operations that PyTorch has no counterpart for: draws by key, and conventions of our own.
const OWN: &[&str] =
    &["random", "dropout", "bernoulli", "categorical", "shuffle", "interpolate", "adaptive_pool1d", "history"];

/// The program of a seed for other engines.
pub fn program(seed: u64) -> Program {
    generate::program_of(seed, &|name| !OWN.contains(&name))
}

/// A program in 64 bits with its outputs and the gradients of their weighted sum by all floating-point inputs, and how far
/// rounding can move each number. Nothing if it fails.
pub fn case(seed: u64) -> Option<Json> {
    let program = program(seed);
    let mut case = Case::new(&program, seed);
    case.with_gradient = true;
    let mode = Mode { as_f64: true, inlined: true, ..Mode::default() };
    let values = planned(&case.results(mode)).ok()?;
    let perturbed: Vec<_> =
        (0..RUNS).map(|run| by_reference(&case.results(Mode { noise: Some(run), ..mode }))).collect();
    let tolerances = Tolerances::new(&values, &perturbed);
    let outputs = program.block.results.len();
    // JSON has no NaN and no infinities: numbers are written as text.
    let results: Vec<Json> = values
        .iter()
        .zip(tolerances.lists())
        .map(|(value, tolerance)| {
            let numbers: Vec<String> = (0..value.buffer().len()).map(|k| value.buffer().get(k).to_string()).collect();
            let tolerance: Vec<String> = tolerance.iter().map(f64::to_string).collect();
            json!({ "shape": value.shape().to_vec(), "numbers": numbers, "tolerance": tolerance })
        })
        .collect();
    let weights: Vec<Vec<f64>> = case.weights(&values[..outputs]);
    Some(
        json!({ "seed": seed, "program": program.to_string(), "outputs": outputs, "results": results, "weights": weights }),
    )
}
