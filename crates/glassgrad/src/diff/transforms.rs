//! Transforms: from functions of trees to functions of trees.
//!
//! A transform wraps its arguments in fresh variables (or placeholders), calls the function, and makes the
//! derivative as a graph. Fresh variables keep nested derivatives apart: a derivative by an inner variable
//! cannot see an outer one. Closures name the type of their argument: `grad(|x: &Tensor| x.sin().sum())`.
//! Failures travel inside the tensors, so transforms return trees and not results.

use std::collections::HashMap;
use std::panic::Location;

use super::batch::{batched, move_axis};
use super::budget::Problem;
use super::forward::pushforward;
use super::reverse::pullback;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Op, Pass, ProvenanceScope, Tensor};
use crate::runtime::{MemoryBudget, take_budget};
use crate::shape::Shape;
use crate::tree::{Path, Tree, checked_map};

/// What a function of tensors may return: a tree, or a result with one, so that `?` works inside.
///
/// ```
/// use glassgrad::{Tensor, error::Error, grad};
/// let halved = |x: &Tensor| -> Result<Tensor, Error> { Ok(x.square() / x.item()?.signum()) };
/// assert_eq!(grad(halved)(&Tensor::from(-3.0)).item().unwrap(), 6.0);
/// ```
#[diagnostic::on_unimplemented(
    message = "a function that is transformed cannot return `{Self}`",
    label = "neither a tree of tensors nor a `Result` with one",
    note = "return a `Tensor`, or tuples, arrays, vectors and structs of tensors, or a `Result` with one of them and a `glassgrad::error::Error`",
    note = "end the closure without a semicolon"
)]
pub trait Outcome {
    /// The tree.
    type Tree: Tree;
    /// The tree; an error becomes failed tensors in it.
    fn outcome(self) -> Self::Tree;
}

impl<T: Tree> Outcome for T {
    type Tree = T;
    fn outcome(self) -> T {
        self
    }
}

impl<T: Fallible> Outcome for Result<T, Error> {
    type Tree = T;
    fn outcome(self) -> T {
        self.unwrap_or_else(|error| T::failed(&error))
    }
}

/// A tree that can be built from an error alone, because its structure is known from its type.
///
/// ```
/// use glassgrad::{Tensor, diff::Fallible, error::Error};
/// let error = Error::new("load", "the file is gone");
/// let (weight, bias) = <(Tensor, Tensor)>::failed(&error);
/// assert_eq!((weight.error(), bias.error()), (Some(&error), Some(&error)));
/// ```
pub trait Fallible: Tree {
    /// The tree whose every leaf is a failed tensor.
    fn failed(error: &Error) -> Self;
}

impl Fallible for Tensor {
    fn failed(error: &Error) -> Tensor {
        let origin = error.origin().unwrap_or(std::panic::Location::caller());
        Tensor::make(Op::Failed(error.clone()), Default::default(), Shape::scalar(), DType::F32, None, origin)
    }
}

impl<A: Fallible, B: Fallible> Fallible for (A, B) {
    fn failed(error: &Error) -> Self {
        (A::failed(error), B::failed(error))
    }
}

impl<A: Fallible, B: Fallible, C: Fallible> Fallible for (A, B, C) {
    fn failed(error: &Error) -> Self {
        (A::failed(error), B::failed(error), C::failed(error))
    }
}

impl<T: Fallible, const N: usize> Fallible for [T; N] {
    fn failed(error: &Error) -> Self {
        std::array::from_fn(|_| T::failed(error))
    }
}

/// The line that a transform was called on; a function that a transform returns does not know where it is called.
type Origin = &'static Location<'static>;

/// A function's arguments as fresh variables, and its results.
pub(super) struct Traced<X, Y> {
    pub(super) variables: X,
    pub(super) result: Y,
}

pub(super) fn trace<X: Tree, R: Outcome>(function: impl FnOnce(&X) -> R, x: &X) -> Traced<X, R::Tree> {
    let variables = as_variables(x);
    let result = function(&variables).outcome();
    Traced { variables, result }
}

/// A tree of fresh variables, or one that failed if `x` is not a sound tree.
pub(super) fn as_variables<X: Tree>(x: &X) -> X {
    match checked_map("differentiate", x, &mut Tensor::wrapped) {
        Ok((variables, _)) => variables,
        Err(error) => failed_like(x, &error),
    }
}

/// A tree like `x` in which every leaf carries an error.
pub(super) fn failed_like<X: Tree>(x: &X, error: &Error) -> X {
    x.map(|_| Tensor::failed(error))
}

/// Why a result has no gradient: it failed, or it is not one number.
fn no_number(result: &Tensor, operation: &str) -> Option<Error> {
    if let Some(error) = result.error() {
        return Some(error.clone());
    }
    if result.shape().elements() == 1 && result.is_float() {
        return None;
    }
    let message =
        format!("the function must return one floating-point number, not {}{}", result.dtype(), result.shape());
    let error = Error::new(operation, message).with_operands(vec![result.describe()]).at(result.origin());
    Some(error.help("sum the result, or ask for its jacobian"))
}

/// The gradient of a traced result with respect to every leaf; integers and truth values get zeros.
fn gradient_of(result: &Tensor, leaves: &[Tensor], operation: &str) -> Result<Vec<Tensor>, Error> {
    if let Some(error) = no_number(result, operation) {
        return Err(error);
    }
    let _provenance = ProvenanceScope::of(&result.0, Pass::Derivative);
    let differentiable: Vec<&Tensor> = leaves.iter().filter(|leaf| leaf.is_float()).collect();
    let mut found = pullback(&[(result, result.ones_like())], &differentiable, &[]).into_iter();
    let gradients = leaves.iter().map(|leaf| match leaf.is_float() {
        true => found.next().flatten().unwrap_or_else(|| leaf.zeros_like()),
        false => leaf.zeros_like(),
    });
    Ok(gradients.collect())
}

/// The value of a traced result and its gradient: within a budget of memory if there is one, which counts the value or not.
fn value_and_gradient(
    budget: Option<MemoryBudget>,
    result: &Tensor,
    leaves: Vec<Tensor>,
    x: &dyn Fn() -> Vec<Tensor>,
    counts_value: bool,
    operation: &str,
) -> (Tensor, Result<Vec<Tensor>, Error>) {
    let Some(budget) = budget else { return (result.clone(), gradient_of(result, &leaves, operation)) };
    let checked = match no_number(result, operation) {
        Some(error) => Err(error),
        None => Problem::new(result, leaves, x(), counts_value).within(&budget, operation),
    };
    match checked {
        Ok((value, gradient)) => (value, Ok(gradient)),
        Err(error) => (Tensor::failed(&error), Err(error)),
    }
}

/// A tree with these leaves, or with an error in each.
fn tree_of<X: Tree>(like: &X, leaves: Result<Vec<Tensor>, Error>) -> X {
    match leaves {
        Ok(leaves) => like.with_leaves(leaves),
        Err(error) => failed_like(like, &error),
    }
}

/// The gradient of a function, as a function.
///
/// ```
/// use glassgrad::{Tensor, grad};
/// let gradient = grad(|x: &Tensor| x.sin().sum());
/// assert_eq!(gradient(&Tensor::from([0.0])).to_string(), "[1]");
/// let curvature = grad(|x: &Tensor| grad(|x: &Tensor| x.sin().sum())(x).sum());
/// assert_eq!(curvature(&Tensor::from(0.5)).item().unwrap(), -0.5_f64.sin());
/// ```
pub fn grad<X: Tree, R: Outcome<Tree = Tensor>>(function: impl Fn(&X) -> R) -> impl Fn(&X) -> X {
    grad_as(function, "grad")
}

/// [`grad`] under the name of the transform that the user called.
pub(super) fn grad_as<X: Tree, R: Outcome<Tree = Tensor>>(
    function: impl Fn(&X) -> R,
    operation: &'static str,
) -> impl Fn(&X) -> X {
    move |x| {
        let budget = take_budget();
        let Traced { variables, result } = trace(&function, x);
        tree_of(
            &variables,
            value_and_gradient(budget, &result, variables.flatten(), &|| x.flatten(), false, operation).1,
        )
    }
}

/// The value and the gradient of a function.
///
/// ```
/// use glassgrad::{Tensor, value_and_grad};
/// let (value, gradient) = value_and_grad(|x: &Tensor| x.powi(3).sum())(&Tensor::from([1.0, 2.0]));
/// assert_eq!((value.item().unwrap(), gradient.to_string()), (9.0, "[ 3, 12]".into()));
/// ```
pub fn value_and_grad<X: Tree, R: Outcome<Tree = Tensor>>(function: impl Fn(&X) -> R) -> impl Fn(&X) -> (Tensor, X) {
    move |x| {
        let budget = take_budget();
        let Traced { variables, result } = trace(&function, x);
        let leaves = variables.flatten();
        let (value, gradient) = value_and_gradient(budget, &result, leaves, &|| x.flatten(), true, "value_and_grad");
        (value, tree_of(&variables, gradient))
    }
}

/// The value, the gradient, and auxiliary results of a function that returns a number and something more.
///
/// ```
/// use glassgrad::{Tensor, diff::value_and_grad_aux};
/// let model = |x: &Tensor| (x.square().sum(), x.max());
/// let (loss, gradient, largest) = value_and_grad_aux(model)(&Tensor::from([1.0, 3.0]));
/// assert_eq!((loss.item().unwrap(), gradient.to_string(), largest.item().unwrap()), (10.0, "[2, 6]".into(), 3.0));
/// ```
pub fn value_and_grad_aux<X: Tree, A>(function: impl Fn(&X) -> (Tensor, A)) -> impl Fn(&X) -> (Tensor, X, A) {
    move |x| {
        let budget = take_budget();
        let variables = as_variables(x);
        let (result, auxiliary) = function(&variables);
        let leaves = variables.flatten();
        let (value, gradient) =
            value_and_gradient(budget, &result, leaves, &|| x.flatten(), true, "value_and_grad_aux");
        (value, tree_of(&variables, gradient), auxiliary)
    }
}

/// The value of a function, and its pullback: from a cotangent of the result to one of the argument.
///
/// ```
/// use glassgrad::{Tensor, vjp};
/// let (y, pullback) = vjp(|x: &Tensor| x.square(), &Tensor::from([1.0, 2.0, 3.0]));
/// assert_eq!(y.to_string(), "[1, 4, 9]");
/// assert_eq!(pullback(&Tensor::from([1.0, 10.0, 100.0])).to_string(), "[  2,  40, 600]");
/// ```
#[track_caller]
pub fn vjp<X: Tree, R: Outcome, F: FnOnce(&X) -> R>(
    function: F,
    x: &X,
) -> (R::Tree, impl Fn(&R::Tree) -> X + use<X, R, F>)
where
    R::Tree: Clone,
{
    let origin = Location::caller();
    let traced = trace(function, x);
    let value = traced.result.clone();
    (value, move |cotangent: &R::Tree| pull_tree(&traced.variables, &traced.result, cotangent, origin))
}

fn pull_tree<X: Tree, Y: Tree>(variables: &X, result: &Y, cotangent: &Y, origin: Origin) -> X {
    tree_of(variables, pulled(&variables.flatten(), &result.leaves(), &cotangent.leaves(), origin))
}

/// The cotangents of variables from those of results.
fn pulled(
    variables: &[Tensor],
    results: &[(Path, Tensor)],
    cotangents: &[(Path, Tensor)],
    origin: Origin,
) -> Result<Vec<Tensor>, Error> {
    check_direction("vjp", "cotangent", results, cotangents, results, origin)?;
    let outputs = results.iter().zip(cotangents).map(|((_, y), (_, seed))| (y, seed.clone()));
    let outputs: Vec<(&Tensor, Tensor)> = outputs.filter(|(y, _)| y.is_float()).collect();
    let found = pullback(&outputs, &variables.iter().collect::<Vec<_>>(), &[]);
    Ok(variables.iter().zip(found).map(|(leaf, found)| found.unwrap_or_else(|| leaf.zeros_like())).collect())
}

/// Fails if a result or a direction has an error, or if the leaves of a direction differ from those of its tree in their paths, shapes or types.
fn check_direction(
    operation: &str,
    name: &str,
    leaves: &[(Path, Tensor)],
    directions: &[(Path, Tensor)],
    results: &[(Path, Tensor)],
    origin: Origin,
) -> Result<(), Error> {
    if let Some(error) = results.iter().chain(directions).find_map(|(_, leaf)| leaf.error()) {
        return Err(error.clone());
    }
    if leaves.len() != directions.len() {
        let message = format!("a {name} must have {} leaves, not {}", leaves.len(), directions.len());
        return Err(Error::new(operation, message).at(origin));
    }
    let differ = |((path, leaf), (other, direction)): &(&(Path, Tensor), &(Path, Tensor))| {
        path != other || leaf.shape() != direction.shape() || leaf.dtype() != direction.dtype()
    };
    let Some(((path, leaf), (other, direction))) = leaves.iter().zip(directions).find(differ) else { return Ok(()) };
    let message = if path == other {
        format!("a {name} of {} must be like it, not {}", leaf.describe(), direction.describe())
    } else {
        format!("a {name} must have a leaf {:?} where it has {:?}", path.to_string(), other.to_string())
    };
    Err(Error::new(operation, message).with_operands(vec![direction.describe()]).at(origin))
}

/// The value of a function and its derivative along a direction.
///
/// ```
/// use glassgrad::{Tensor, jvp};
/// let (y, dy) = jvp(|x: &Tensor| x.square(), &Tensor::from([1.0, 2.0]), &Tensor::from([1.0, 10.0]));
/// assert_eq!((y.to_string(), dy.to_string()), ("[1, 4]".into(), "[ 2, 40]".into()));
/// ```
#[track_caller]
pub fn jvp<X: Tree, R: Outcome>(function: impl FnOnce(&X) -> R, x: &X, direction: &X) -> (R::Tree, R::Tree) {
    let traced = trace(function, x);
    let tangent = push_tree(&traced.variables, &traced.result, direction, Location::caller());
    (traced.result, tangent)
}

fn push_tree<X: Tree, Y: Tree>(variables: &X, result: &Y, direction: &X, origin: Origin) -> Y {
    tree_of(result, pushed(&variables.leaves(), &result.leaves(), &direction.leaves(), origin))
}

/// The tangents of results from those of variables.
fn pushed(
    variables: &[(Path, Tensor)],
    results: &[(Path, Tensor)],
    tangents: &[(Path, Tensor)],
    origin: Origin,
) -> Result<Vec<Tensor>, Error> {
    check_direction("jvp", "tangent", variables, tangents, results, origin)?;
    let moved = variables.iter().zip(tangents).map(|((_, leaf), (_, tangent))| (leaf, tangent.clone()));
    let moved: Vec<(&Tensor, Tensor)> = moved.filter(|(leaf, _)| leaf.is_float()).collect();
    let found = pushforward(&results.iter().map(|(_, y)| y).collect::<Vec<_>>(), &moved, &[]);
    Ok(results.iter().zip(found).map(|((_, y), found)| found.unwrap_or_else(|| y.zeros_like())).collect())
}

/// The value of a function, and its derivative at that point as a linear function of directions.
///
/// ```
/// use glassgrad::{Tensor, linearize};
/// let (y, pushforward) = linearize(|x: &Tensor| x.square(), &Tensor::from([1.0, 3.0]));
/// assert_eq!((y.to_string(), pushforward(&Tensor::from([10.0, 1.0])).to_string()), ("[1, 9]".into(), "[20,  6]".into()));
/// ```
#[track_caller]
pub fn linearize<X: Tree, Y: Tree + Clone, F: FnOnce(&X) -> Y>(
    function: F,
    x: &X,
) -> (Y, impl Fn(&X) -> Y + use<X, Y, F>) {
    let variables = as_variables(x);
    let result = function(&variables);
    let value = result.clone();
    let origin = Location::caller();
    (value, move |direction| push_tree(&variables, &result, direction, origin))
}

/// The product of the Hessian with a direction, without the Hessian.
///
/// ```
/// use glassgrad::{Tensor, hvp};
/// // The second derivative of x³ is 6x.
/// let product = hvp(|x: &Tensor| x.powi(3).sum(), &Tensor::from([1.0, 2.0]), &Tensor::from([1.0, 10.0]));
/// assert_eq!(product.to_string(), "[  6, 120]");
/// ```
#[track_caller]
pub fn hvp<X: Tree, R: Outcome<Tree = Tensor>>(function: impl Fn(&X) -> R, x: &X, direction: &X) -> X {
    jvp(grad(function), x, direction).1
}

/// A function of one example, as a function of many: arguments and results have a leading axis more.
///
/// ```
/// use glassgrad::{Tensor, grad, vmap};
/// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
/// let per_example = vmap(grad(|row: &Tensor| row.square().sum()));
/// assert_eq!(per_example(&x).to_string(), "[[2, 4],\n [6, 8]]");
/// ```
#[track_caller]
pub fn vmap<X: Tree, R: Outcome>(function: impl Fn(&X) -> R) -> impl Fn(&X) -> R::Tree {
    vmap_axes(function, 0, 0)
}

/// [`vmap`] over another axis of the arguments, and with another axis in the results. What all examples share is
/// not an argument: the function captures it.
///
/// ```
/// use glassgrad::{Tensor, diff::vmap_axes};
/// let columns = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(vmap_axes(|x: &Tensor| x.sum(), 1, 0)(&columns).to_string(), "[4, 6]");
/// ```
#[track_caller]
pub fn vmap_axes<X: Tree, R: Outcome>(
    function: impl Fn(&X) -> R,
    axis: usize,
    out_axis: usize,
) -> impl Fn(&X) -> R::Tree {
    let origin = Location::caller();
    move |x| {
        let leaves = x.flatten();
        let (size, even) = batch_size(&leaves, axis, origin);
        let examples = match checked_map("vmap", x, &mut example_of(axis, even.is_ok())) {
            Ok((examples, _)) => examples,
            Err(error) => failed_like(x, &error),
        };
        let result = function(&examples).outcome();
        let results = result.flatten();
        let whole = first_error(&leaves).and(even).and_then(|()| {
            first_error(&results)?;
            let placeholders = examples.flatten();
            let replaced: Vec<(&Tensor, Tensor)> =
                placeholders.iter().zip(&leaves).map(|(example, leaf)| (example, move_axis(leaf, axis, 0))).collect();
            let whole = batched(&results.iter().collect::<Vec<_>>(), &replaced, size);
            Ok(whole.iter().map(|tensor| move_axis(tensor, 0, out_axis)).collect())
        });
        tree_of(&result, whole)
    }
}

/// The number of examples along an axis, and whether it is the same in every argument.
fn batch_size(leaves: &[Tensor], axis: usize, origin: Origin) -> (usize, Result<(), Error>) {
    let size = leaves.iter().find(|leaf| leaf.rank() > axis).map_or(0, |leaf| leaf.shape()[axis]);
    let even = match leaves.iter().find(|leaf| leaf.rank() <= axis || leaf.shape()[axis] != size) {
        None => Ok(()),
        Some(leaf) => {
            let message = format!("axis {axis} must have the same size in every argument; one has {size}");
            Err(Error::new("vmap", message).with_operands(vec![leaf.describe()]).at(origin))
        }
    };
    (size, even)
}

/// Placeholders for one example.
fn example_of(axis: usize, has_axis: bool) -> impl FnMut(&Tensor) -> Tensor {
    move |leaf| {
        let mut shape = leaf.shape().to_vec();
        if has_axis {
            shape.remove(axis);
        }
        Tensor::placeholder(shape.into(), leaf.dtype())
    }
}

/// Fails with the first error in a list of tensors.
pub(crate) fn first_error(leaves: &[Tensor]) -> Result<(), Error> {
    leaves.iter().find_map(Tensor::error).map_or(Ok(()), |error| Err(error.clone()))
}

/// The same function, through whose result no derivative passes, in any mode.
///
/// ```
/// use glassgrad::{Tensor, grad, no_grad};
/// // A residual divided by its own size, where the size counts as a constant.
/// let size = no_grad(|x: &Tensor| x.norm());
/// let loss = |x: &Tensor| (x / size(x)).sum();
/// let gradient = grad(loss)(&Tensor::from([3.0, 4.0]));
/// assert_eq!(gradient.to_string(), "[0.2, 0.2]");
/// ```
pub fn no_grad<X: Tree, R: Outcome>(function: impl Fn(&X) -> R) -> impl Fn(&X) -> R::Tree {
    move |x| function(x).outcome().map(Tensor::stop_gradient)
}

/// The gradients of one number with respect to every live variable behind it, asked by tensor.
///
/// ```
/// use glassgrad::Tensor;
/// let (w, b) = (Tensor::from([1.0, 2.0]).variable(), Tensor::from(0.5).variable());
/// let gradients = (w.square().sum() + 3.0 * &b).backward();
/// assert_eq!((gradients.of(&w).to_string(), gradients.of(&b).to_string()), ("[2, 4]".into(), "3".into()));
/// ```
#[derive(Debug)]
pub struct Gradients {
    found: HashMap<u64, Tensor>,
    failed: Option<Error>,
}

impl Gradients {
    /// The gradient with respect to a variable; zeros if the number does not depend on it.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (a, b) = (Tensor::from(2.0).variable(), Tensor::from(5.0).variable());
    /// let gradients = (&a * &b).backward();
    /// assert_eq!((gradients.of(&a).item(), gradients.of(&b).item()), (Ok(5.0), Ok(2.0)));
    /// ```
    #[track_caller]
    pub fn of(&self, variable: &Tensor) -> Tensor {
        if let Some(error) = &self.failed {
            return Tensor::failed(error);
        }
        self.found.get(&variable.0.id).cloned().unwrap_or_else(|| variable.zeros_like())
    }
}

impl Tensor {
    /// The gradients of this number with respect to the variables behind it.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0]).variable();
    /// let loss = x.square().sum();
    /// assert_eq!(loss.item().unwrap(), 5.0);
    /// assert_eq!(loss.backward().of(&x).to_string(), "[2, 4]");
    /// ```
    #[track_caller]
    pub fn backward(&self) -> Gradients {
        if let Some(error) = no_number(self, "backward") {
            return Gradients { found: HashMap::new(), failed: Some(error) };
        }
        let mut stack = vec![std::sync::Arc::clone(&self.0)];
        let mut seen = std::collections::HashSet::new();
        let mut variables = Vec::new();
        while let Some(node) = stack.pop() {
            if node.had_variable && seen.insert(node.id) {
                stack.extend(node.inputs());
                // A variable without a live handle cannot be differentiated with respect to.
                if node.op == Op::Variable && node.dtype.is_float() && node.is_held() {
                    variables.push(Tensor::onto(node));
                }
            }
        }
        let _provenance = ProvenanceScope::of(&self.0, Pass::Derivative);
        // One sweep for each variable that stands behind no other, so that one may depend on another.
        let mut found = HashMap::new();
        for variable in &variables {
            let one = pullback(&[(self, self.ones_like())], &[variable], &[]).remove(0);
            found.extend(one.map(|gradient| (variable.0.id, gradient)));
        }
        Gradients { found, failed: None }
    }
}
