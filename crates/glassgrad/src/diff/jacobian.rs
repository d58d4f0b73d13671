//! Whole derivatives: Jacobians in both modes, Hessians, and their traces.
//!
//! Each is one sweep whose seed is a unit tensor, so its axes are leading axes of the (co)tangents.

use super::forward::pushforward;
use super::reverse::pullback;
use super::transforms::{Outcome, Traced, as_variables, failed_like, grad_as, trace};
use crate::einsum::Einsum;
use crate::error::Error;
use crate::expr::{Pass, ProvenanceScope, Tensor};
use crate::shape::Shape;
use crate::tree::{Path, Tree};

/// The Jacobian of a function of a tree: in place of each leaf the derivatives with respect to it, the axes of the result
/// followed by those of the leaf. In reverse, as [`jacrev`]; for more results than arguments [`jacfwd`] is cheaper.
///
/// ```
/// use glassgrad::{Tensor, jacobian};
/// let j = jacobian(|x: &Tensor| x.square())(&Tensor::from([1.0, 2.0]));
/// assert_eq!(j.to_string(), "[[2, 0],\n [0, 4]]");
/// let line = |(w, b): &(Tensor, Tensor)| w * Tensor::from([1.0, 2.0, 3.0]) + b;
/// let (by_slope, by_offset) = jacobian(line)(&(Tensor::from(5.0), Tensor::from(7.0)));
/// assert_eq!((by_slope.to_string(), by_offset.to_string()), ("[1, 2, 3]".into(), "[1, 1, 1]".into()));
/// ```
pub fn jacobian<X: Tree, R: Outcome<Tree = Tensor>>(function: impl Fn(&X) -> R) -> impl Fn(&X) -> X {
    reverse(function, "jacobian")
}

/// [`jacobian`] in reverse mode: one sweep with the unit tensor of the result as its cotangent.
///
/// ```
/// use glassgrad::{Tensor, jacrev};
/// let j = jacrev(|x: &Tensor| x.sum() * x)(&Tensor::from([1.0, 2.0]));
/// assert_eq!(j.to_string(), "[[4, 1],\n [2, 5]]");
/// ```
pub fn jacrev<X: Tree, R: Outcome<Tree = Tensor>>(function: impl Fn(&X) -> R) -> impl Fn(&X) -> X {
    reverse(function, "jacrev")
}

fn reverse<X: Tree, R: Outcome<Tree = Tensor>>(
    function: impl Fn(&X) -> R,
    operation: &'static str,
) -> impl Fn(&X) -> X {
    move |x| {
        let Traced { variables, result } = trace(&function, x);
        match no_jacobian(&result, operation) {
            Some(error) => failed_like(&variables, &error),
            None => rows(&result, &variables),
        }
    }
}

/// [`jacobian`] in forward mode: for each leaf one sweep with its unit tensor as the tangent.
///
/// ```
/// use glassgrad::{Tensor, jacfwd};
/// let j = jacfwd(|x: &Tensor| x.sum() * x)(&Tensor::from([1.0, 2.0]));
/// assert_eq!(j.to_string(), "[[4, 1],\n [2, 5]]");
/// ```
pub fn jacfwd<X: Tree, R: Outcome<Tree = Tensor>>(function: impl Fn(&X) -> R) -> impl Fn(&X) -> X {
    move |x| {
        let Traced { variables, result } = trace(&function, x);
        match no_jacobian(&result, "jacfwd") {
            Some(error) => failed_like(&variables, &error),
            None => variables.map(|leaf| columns(&result, leaf)),
        }
    }
}

/// The Hessian of a function of one tensor that returns one number: the axes of the argument, twice. For a tree see
/// [`hessian_blocks`].
///
/// ```
/// use glassgrad::{Tensor, hessian};
/// let h = hessian(|x: &Tensor| x.powi(3).sum())(&Tensor::from([1.0, 2.0]));
/// assert_eq!(h.to_string(), "[[ 6,  0],\n [ 0, 12]]");
/// ```
pub fn hessian<R: Outcome<Tree = Tensor>>(function: impl Fn(&Tensor) -> R) -> impl Fn(&Tensor) -> Tensor {
    reverse(grad_as(function, "hessian"), "hessian")
}

/// The Hessian of a function of a tree that returns one number, by blocks: for each leaf, under its path, a tree with the
/// derivatives of its gradient with respect to every leaf, the axes of the first followed by those of the second.
///
/// ```
/// use glassgrad::{Tensor, diff::hessian_blocks};
/// let f = |(a, b): &(Tensor, Tensor)| (a * a * b).sum();
/// let blocks = hessian_blocks(f)(&(Tensor::from([1.0, 2.0]), Tensor::from(5.0)));
/// let (path, (aa, ab)) = &blocks[0];
/// assert_eq!(path.to_string(), "0");
/// assert_eq!((aa.to_string(), ab.to_string()), ("[[10,  0],\n [ 0, 10]]".into(), "[2, 4]".into()));
/// ```
pub fn hessian_blocks<X: Tree, R: Outcome<Tree = Tensor>>(function: impl Fn(&X) -> R) -> impl Fn(&X) -> Vec<(Path, X)> {
    let gradient = grad_as(function, "hessian_blocks");
    move |x| {
        let variables = as_variables(x);
        let block = |leaf: &Tensor| match no_jacobian(leaf, "hessian_blocks") {
            Some(error) => failed_like(&variables, &error),
            None => rows(leaf, &variables),
        };
        gradient(&variables).leaves().iter().map(|(path, leaf)| (path.clone(), block(leaf))).collect()
    }
}

/// The Laplacian of a function of one tensor that returns one number: the sum of its second derivatives, the trace of its
/// Hessian. By forward over reverse mode with all unit directions in one sweep.
///
/// ```
/// use glassgrad::{Tensor, diff::laplacian, vmap};
/// let f = |x: &Tensor| x.square().sum() * x.sum();
/// assert_eq!(laplacian(f)(&Tensor::from([1.0, 2.0])).item().unwrap(), 24.0);
/// // At many points: one value for each row.
/// assert_eq!(vmap(laplacian(f))(&Tensor::from([[1.0, 2.0], [0.0, 1.0]])).to_string(), "[24,  8]");
/// ```
pub fn laplacian<R: Outcome<Tree = Tensor>>(function: impl Fn(&Tensor) -> R) -> impl Fn(&Tensor) -> Tensor {
    trace_of_jacobian(grad_as(function, "laplacian"), "laplacian")
}

/// The divergence of a vector field, whose result has the shape of its argument: the trace of its Jacobian.
///
/// ```
/// use glassgrad::{Tensor, diff::divergence};
/// let field = |x: &Tensor| x.square() * x.sum();
/// assert_eq!(divergence(field)(&Tensor::from([1.0, 2.0])).item().unwrap(), 23.0);
/// ```
pub fn divergence<R: Outcome<Tree = Tensor>>(function: impl Fn(&Tensor) -> R) -> impl Fn(&Tensor) -> Tensor {
    trace_of_jacobian(function, "divergence")
}

fn trace_of_jacobian<R: Outcome<Tree = Tensor>>(
    field: impl Fn(&Tensor) -> R,
    operation: &'static str,
) -> impl Fn(&Tensor) -> Tensor {
    move |x| {
        let Traced { variables, result } = trace(&field, x);
        if let Some(error) = no_jacobian(&result, operation) {
            return Tensor::refused_at(error, &[&result], result.origin());
        }
        if result.shape() != x.shape() {
            let message =
                format!("the result must have the shape {} of the argument, not {}", x.shape(), result.shape());
            return Tensor::refused_at(Error::new(operation, message), &[x, &result], result.origin());
        }
        let count = x.shape().elements();
        columns(&result, &variables).reshape([count, count]).trace()
    }
}

/// Why a result has no Jacobian: it failed, or is not differentiable.
fn no_jacobian(result: &Tensor, operation: &str) -> Option<Error> {
    if let Some(error) = result.error() {
        return Some(error.clone());
    }
    if result.is_float() {
        return None;
    }
    let message = format!("the function must return floating-point numbers, not {}", result.dtype());
    Some(Error::new(operation, message).with_operands(vec![result.describe()]).at(result.origin()))
}

/// The derivatives of a result with respect to every leaf, in reverse.
fn rows<X: Tree>(result: &Tensor, variables: &X) -> X {
    let _provenance = ProvenanceScope::of(&result.0, Pass::Derivative);
    let leaves = variables.flatten();
    let differentiable: Vec<&Tensor> = leaves.iter().filter(|leaf| leaf.is_float()).collect();
    let lead = result.shape().to_vec();
    let seed = Tensor::unbound(Einsum::unit(&lead), result.dtype());
    let mut found = pullback(&[(result, seed)], &differentiable, &lead).into_iter();
    let derivatives = leaves.iter().map(|leaf| match leaf.is_float() {
        true => found.next().flatten().unwrap_or_else(|| no_derivative(result, leaf)),
        false => no_derivative(result, leaf),
    });
    variables.with_leaves(derivatives.collect())
}

/// The derivatives of a result with respect to one leaf, forwards.
fn columns(result: &Tensor, leaf: &Tensor) -> Tensor {
    if !leaf.is_float() {
        return no_derivative(result, leaf);
    }
    let _provenance = ProvenanceScope::of(&result.0, Pass::Derivative);
    let lead = leaf.shape().to_vec();
    let seed = Tensor::unbound(Einsum::unit(&lead), leaf.dtype());
    match pushforward(&[result], &[(leaf, seed)], &lead).remove(0) {
        // The directions stand in front, and belong behind the result.
        Some(pushed) => {
            let order: Vec<usize> = (lead.len()..pushed.rank()).chain(0..lead.len()).collect();
            pushed.permute(order)
        }
        None => no_derivative(result, leaf),
    }
}

fn no_derivative(result: &Tensor, leaf: &Tensor) -> Tensor {
    Tensor::full(Shape::followed_by(result.shape(), leaf.shape()), 0.0, leaf.dtype())
}
