//! Random matrix expressions: the code that `emit` writes for them, executed, against the engine.
//!
//! A language whose compiler or interpreter is missing is skipped, which the counts show. C is compiled with `CC`, Rust with
//! `RUSTC`, and NumPy and JAX run in `PYTHON`.

pub mod execute;
pub mod generate;

use glassgrad::calculator::{Language, Question, derive, emit, evaluate};
use glassgrad::lang::matrix::{Declarations, parse};
use glassgrad::{Tensor, grad, hvp, jvp};

use crate::counters;
use crate::generator::{Failure, Generator, Selection};
use crate::random::Random;
use crate::structured::dense::exceeds;
use execute::{Executed, Job, execute};
use generate::{DECLARED, Kind, expression};

/// The generator of random matrix expressions.
#[derive(Debug)]
pub struct Emitted {
    selection: Selection,
}

impl Emitted {
    /// The generator, with a selection of its oracles.
    pub fn new(selection: Selection) -> Emitted {
        Emitted { selection }
    }
}

/// The oracles: the checks of `derive` itself, and code in each language.
const NAMES: &[&str] = &["derive", "rust", "c", "numpy", "jax"];
const LANGUAGES: [(&str, Language); 4] =
    [("rust", Language::Rust), ("c", Language::C), ("numpy", Language::Numpy), ("jax", Language::Jax)];
/// The part of the largest number by which two ways to compute the same may differ.
const TOLERANCE: f64 = 1e-9;
/// Larger numbers leave too few digits to compare.
const LARGEST: f64 = 1e6;
/// Numbers for the sizes m, n and k.
const SIZES: [[usize; 3]; 3] = [[5, 4, 2], [3, 3, 6], [1, 2, 1]];

impl Generator for Emitted {
    fn name(&self) -> &'static str {
        "emitted"
    }

    fn oracles(&self) -> &'static [&'static str] {
        NAMES
    }

    fn run(&self, seed: u64) -> Result<(), Failure> {
        let mut random = Random::new(seed);
        let kind = *random.choose(&[Kind::Number, Kind::Number, Kind::Vector, Kind::Square]);
        let depth = 1 + random.below(3);
        let source = expression(kind, depth, &mut |count| random.below(count));
        let [m, n, k] = *random.choose(&SIZES);
        let declarations = format!("{DECLARED}, m={m}, n={n}, k={k}");
        let failure = |oracle: &str, message: String| Failure {
            seed,
            oracle: oracle.to_owned(),
            message,
            program: format!("{source}\n{declarations}"),
        };
        let declared = Declarations::read(&declarations).map_err(|error| failure("derive", error.to_string()))?;
        let parsed = parse(&source, &declared).map_err(|error| failure("derive", error.to_string()))?;
        let symbols: Vec<String> = parsed.symbols().into_iter().map(str::to_owned).collect();
        if symbols.is_empty() {
            return Ok(());
        }
        let wrt = random.choose(&symbols).clone();
        let shape = |name: &str| -> Vec<usize> {
            match name {
                "A" => vec![m, n],
                "B" | "X" => vec![n, n],
                "C" => vec![k, n],
                "y" => vec![m],
                "c" => Vec::new(),
                _ => vec![n],
            }
        };
        let mut values = |name: &str| -> (String, Vec<usize>, Vec<f64>) {
            let shape = shape(name);
            let elements = (0..shape.iter().product::<usize>()).map(|_| 2.0 * random.unit() - 0.8).collect();
            (name.to_owned(), shape, elements)
        };
        let inputs: Vec<(String, Vec<usize>, Vec<f64>)> = symbols.iter().map(|name| values(name)).collect();
        let direction = values(&wrt);
        let question = Question::new(&source, &wrt)
            .declare(&declarations)
            .map_err(|error| failure("derive", error.to_string()))?;
        if self.selection.has("derive") {
            let question = if kind == Kind::Number && seed.is_multiple_of(2) {
                question.clone().order(2)
            } else {
                question.clone()
            };
            if let Ok(derived) = derive(&question) {
                counters::add("emitted", "derived", 1);
                let agreement = derived.agreement;
                let worst = agreement.nested.max(agreement.matrix.unwrap_or(0.0));
                let step = derived.steps.iter().map(|step| step.deviation).fold(0.0, f64::max);
                if worst > TOLERANCE || step > TOLERANCE {
                    let message = format!("by {wrt}: {agreement:?}, steps {step:.1e}, matrix {:?}", derived.matrix);
                    return Err(failure("derive", message));
                }
            }
        }
        let tensors: Vec<(String, Tensor)> =
            inputs.iter().map(|(name, shape, elements)| (name.clone(), Tensor::new(elements, &shape[..]))).collect();
        let function = |x: &Tensor| -> Tensor {
            let values: Vec<(&str, &Tensor)> =
                tensors.iter().map(|(name, own)| (name.as_str(), if *name == wrt { x } else { own })).collect();
            evaluate(&source, &declared, &values).unwrap_or_else(|error| panic!("{error}"))
        };
        let Some((_, x)) = tensors.iter().find(|(name, _)| *name == wrt) else { return Ok(()) };
        let along = Tensor::new(&direction.2, &direction.1[..]);
        let numbers = |tensor: &Tensor| tensor.to_vec::<f64>().map_err(|error| failure("derive", error.to_string()));
        let mut expected = vec![numbers(&function(x))?];
        if kind == Kind::Number {
            expected.push(numbers(&grad(function)(x))?);
            expected.push(numbers(&hvp(function, x, &along))?);
        } else {
            expected.push(numbers(&jvp(function, x, &along).1)?);
        }
        let largest = expected.iter().flatten().fold(1.0_f64, |largest, number| largest.max(number.abs()));
        if expected.iter().flatten().any(|number| exceeds(number.abs(), LARGEST)) {
            counters::add("emitted", "numbers too large to compare", 1);
            return Ok(());
        }
        for (name, language) in LANGUAGES.iter().filter(|(name, _)| self.selection.has(name)) {
            let Ok(code) = emit(&question, *language) else {
                counters::add("emitted", format!("{name}: no code"), 1);
                continue;
            };
            let job = Job {
                code: &code,
                inputs: &inputs,
                direction: &direction,
                sizes: &[("m", m), ("n", n), ("k", k)],
                expected: &expected,
                seed,
            };
            match execute(*language, &job) {
                Executed::Skipped => {
                    counters::add("emitted", format!("{name}: skipped, no interpreter or compiler"), 1)
                }
                Executed::Failed(message) => return Err(failure(name, format!("by {wrt}: {message}\n{code}"))),
                Executed::Numbers(found) => {
                    counters::add("oracle", *name, 1);
                    let all: Vec<f64> = expected.concat();
                    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= TOLERANCE * largest;
                    if found.len() != all.len() || !found.iter().zip(&all).all(close) {
                        let message = format!("by {wrt}: {found:?} is not {all:?}\n{code}");
                        return Err(failure(name, message));
                    }
                }
            }
        }
        Ok(())
    }
}
