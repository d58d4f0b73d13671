//! Value, gradient and product with the Hessian as code that stands by itself.
//!
//! - `program` is a list of statements over arrays, lowered from expressions with indices;
//! - `loops` writes it in Rust and C, `arrays` with NumPy and JAX, `spelling` the functions of the table in each;
//! - `matrices` holds the functions of one matrix in Rust and C.

mod arrays;
mod loops;
mod matrices;
mod names;
mod program;
mod spelling;

use program::ArrayProgram;

use super::derive::applied;
use super::indexed::Expression;
use super::points::{Kind, Leaves};
use super::problem::Problem;
use super::question::{Question, Unanswered};
use super::read::Reader;
use crate::calculus;
use crate::lang::matrix::Size;

/// The language of emitted code.
///
/// ```
/// use glassgrad::calculator::{Language, Question, emit};
/// let question = Question::new("x'*x", "x").declare("x: n").unwrap();
/// assert!(emit(&question, Language::Numpy).unwrap().contains("import numpy as np"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Rust without dependencies.
    Rust,
    /// C99 with the standard library.
    C,
    /// Python with NumPy.
    Numpy,
    /// Python with JAX.
    Jax,
}

/// A function of the code.
struct Routine {
    name: &'static str,
    about: String,
    /// The names and sizes of the arguments.
    inputs: Vec<(String, Vec<Size>)>,
    /// The names of sizes that no argument has, in order.
    sizes: Vec<String>,
    program: ArrayProgram,
}

/// Code for the value of an expression, its gradient, and the product of its Hessian with a direction; for what is not a
/// number, the product of its Jacobian with a direction instead of both. Sizes are arguments, or in Python those of the
/// arrays; a size that no array of the expression has, as `m` in `sum(x)/m`, is an argument in every language, and in Python
/// comes after the arrays.
///
/// ```
/// use glassgrad::calculator::{Language, Question, emit};
/// let question = Question::new("norm2(A*x - b)^2", "x").declare("A: m n, x: n, b: m").unwrap();
/// let code = emit(&question, Language::Rust).unwrap();
/// assert!(code.contains("pub fn gradient(m: usize, n: usize, A: &[f64], x: &[f64], b: &[f64]) -> Vec<f64>"));
/// ```
pub fn emit(question: &Question, language: Language) -> Result<String, Unanswered> {
    let question = &question.inferred()?;
    let first = Question { order: 1, ..question.clone() };
    let problem = Problem::understand(&first)?;
    let names = problem.small.names();
    let sizes = problem.small.symbols();
    let mut inputs: Vec<(String, Vec<Size>)> = Vec::new();
    for name in problem.expression.symbols() {
        inputs.push((name.to_owned(), question.declared.shape(name).unwrap_or_default().to_vec()));
    }
    let mut leaves = Leaves::new(problem.small.clone(), Kind::Placeholders);
    let (_, value) = problem.traced(&mut leaves);
    let value = Reader::new(&names, &sizes).tensor(&value)?;
    let direction = problem.direction_name();
    let along = [inputs.clone(), vec![(direction.clone(), problem.variable.sizes.clone())]].concat();
    let wrt = &question.wrt;
    let mut routines = vec![(("value", format!("The value of {}.", question.source)), inputs.clone(), value)];
    if problem.expression.shape().is_number() {
        let gradient = derivative(&problem)?;
        routines.push((("gradient", format!("Its gradient in {wrt}, of the shape of {wrt}.")), inputs, gradient));
        let second = Question { order: 2, ..question.clone() };
        let hessian = derivative(&Problem::understand(&second)?)?;
        let product = applied(&hessian, problem.variable.sizes.len(), &direction, &names);
        let about = format!("The product of its Hessian in {wrt} with the direction {direction}.");
        routines.push((("hessian_vector", about), along, product));
    } else {
        let rows = problem.expression.shape().sizes.len();
        let product = applied(&derivative(&problem)?, rows, &direction, &names);
        let about = format!("The product of its Jacobian in {wrt} with the direction {direction}.");
        routines.push((("jacobian_vector", about), along, product));
    }
    let mut written = Vec::new();
    for ((name, about), inputs, expression) in routines {
        let program = ArrayProgram::new(&inputs, &expression, &names)?;
        written.push(Routine { name, about, inputs, sizes: Vec::new(), program });
    }
    let mut routines: Vec<Routine> = written;
    // All routines take the same sizes.
    let mut missing: Vec<String> = Vec::new();
    for routine in &routines {
        let has = |name: &String| {
            routine.inputs.iter().flat_map(|(_, sizes)| sizes).any(|size| *size == Size::Name(name.clone()))
        };
        missing.extend(routine.program.sizes().into_iter().filter(|name| !has(name)));
    }
    missing.sort_unstable();
    missing.dedup();
    routines.iter_mut().for_each(|routine| routine.sizes.clone_from(&missing));
    let written = match language {
        Language::Rust | Language::C => loops::written(language, &routines),
        Language::Numpy | Language::Jax => arrays::written(language, &routines),
    };
    written.map_err(|function| {
        Unanswered::Question(format!("--emit: {function} has no counterpart in the standard library of this language"))
    })
}

/// The derivative that a problem asks for, as an expression.
fn derivative(problem: &Problem<'_>) -> Result<Expression, Unanswered> {
    let (names, sizes) = (problem.small.names(), problem.small.symbols());
    let mut leaves = Leaves::new(problem.small.clone(), Kind::Placeholders);
    let (variable, output) = problem.traced(&mut leaves);
    let symmetric = problem.question.order == 2;
    let opened = calculus::opened(&output, &variable, symmetric, problem.question.limit)?;
    let parts = Reader::new(&names, &sizes).parts(&opened.parts)?;
    let shape = problem.zero_shape();
    Ok(Expression::sum(&shape, opened.terms.iter().map(|term| parts[*term].clone())))
}
