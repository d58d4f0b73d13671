//! Control flow on values: branches and loops in the graph.
//!
//! Ordinary `if`, `for` and `while` of Rust build a graph for the values at hand, and are enough where values can be
//! read. These functions put the decision into the graph, so that it works inside `vmap`, `scan` and compiled functions.

use std::ops::Range;

use super::scan::scan;
use super::transforms::failed_like;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::Tensor;
use crate::tree::{Definition, Tree};

/// The result of one of two functions, by one truth value. Both are computed, which costs the sum of both, and the one
/// that is not taken contributes exactly zero to every derivative.
///
/// ```
/// use glassgrad::{Tensor, cond, grad, vmap};
/// let f = |x: &Tensor| cond(&x.gt(0.0), |x: &Tensor| x.ln(), |x: &Tensor| -x, x);
/// assert_eq!(vmap(f)(&Tensor::from([1.0, -3.0])).to_string(), "[0, 3]");
/// assert_eq!(grad(f)(&Tensor::from(-3.0)).item().unwrap(), -1.0);
/// ```
#[track_caller]
pub fn cond<X: Tree, Y: Tree>(
    predicate: &Tensor,
    taken: impl FnOnce(&X) -> Y,
    otherwise: impl FnOnce(&X) -> Y,
    x: &X,
) -> Y {
    let origin = std::panic::Location::caller();
    let (one, other) = (taken(x), otherwise(x));
    match chosen("cond", predicate, &one, &other) {
        Ok(result) => result,
        Err(error) => failed_like(&one, &error.at(origin)),
    }
}

/// Leaf by leaf the first tree where one truth value holds, and otherwise the second.
fn chosen<Y: Tree>(operation: &str, predicate: &Tensor, one: &Y, other: &Y) -> Result<Y, Error> {
    let (first, second) = (one.flatten(), other.flatten());
    if let Some(error) = std::iter::once(predicate).chain(&first).chain(&second).find_map(Tensor::error) {
        return Err(error.clone());
    }
    if predicate.dtype() != DType::Bool || predicate.rank() != 0 {
        let message = format!("the condition must be one truth value, not {}{}", predicate.dtype(), predicate.shape());
        let error = Error::new(operation, message).with_operands(vec![predicate.describe()]);
        return Err(error.help("compare numbers with .gt(0.0), or choose element by element with mask.choose(&a, &b)"));
    }
    if first.len() != second.len() || Definition::of(one).finish() != Definition::of(other).finish() {
        return Err(Error::new(operation, "both results must have the same structure")
            .help("return the same parts, variants, keys and static values from both"));
    }
    let unlike = |(a, b): &(&Tensor, &Tensor)| a.shape() != b.shape() || a.dtype() != b.dtype();
    if let Some((a, b)) = first.iter().zip(&second).find(unlike) {
        let error = Error::new(operation, "both results must have the same shapes and element types");
        return Err(error.with_operands(vec![a.describe(), b.describe()]));
    }
    Ok(one.with_leaves(first.iter().zip(&second).map(|(a, b)| predicate.choose(a, b)).collect()))
}

/// Carries a state through a function, once for each number of a range, which the function gets as an integer: `fori_loop`
/// of JAX. The body is in the graph once, and it has derivatives in both modes.
///
/// ```
/// use glassgrad::{Tensor, fori_loop, grad};
/// // x·1·2·3·4
/// let scaled = |x: &Tensor| fori_loop(1..5, |i: &Tensor, product: &Tensor| product * i, x);
/// assert_eq!(scaled(&Tensor::from(0.5)).item().unwrap(), 12.0);
/// assert_eq!(grad(scaled)(&Tensor::from(0.5)).item().unwrap(), 24.0);
/// ```
#[track_caller]
pub fn fori_loop<C: Tree>(range: Range<usize>, body: impl FnOnce(&Tensor, &C) -> C, start: &C) -> C {
    let count = range.end.saturating_sub(range.start);
    let numbers = Tensor::arange(count as i64) + range.start;
    scan(|state: &C, number: &Tensor| (body(number, state), ()), start, &numbers).0
}

/// [`scan`](crate::scan) by length, where a step needs nothing but the state: the last state and the stacked results.
///
/// ```
/// use glassgrad::{Tensor, scan_length};
/// let (last, all) = scan_length(|x: &Tensor| (x * 2.0, x.clone()), &Tensor::from(1.0), 4);
/// assert_eq!((last.item().unwrap(), all.to_string()), (16.0, "[1, 2, 4, 8]".into()));
/// ```
#[track_caller]
pub fn scan_length<C: Tree, Y: Tree>(function: impl FnOnce(&C) -> (C, Y), start: &C, length: usize) -> (C, Y) {
    scan(|state: &C, _: &Tensor| function(state), start, &Tensor::arange(length as i64))
}

/// Carries a state through a function while a condition holds. The condition is read before each step, so that it must
/// not depend on an argument of `vmap`, `scan` or a compiled function; there [`while_loop_up_to`] is the way. Every step
/// is in the graph, with derivatives in both modes.
///
/// ```
/// use glassgrad::{Tensor, grad, while_loop};
/// // Newton's method for a square root.
/// let root = |a: &Tensor| {
///     let far = |x: &Tensor| (x.square() - a).abs().gt(1e-12);
///     while_loop(far, |x: &Tensor| (x + a / x) * 0.5, a)
/// };
/// assert!((root(&Tensor::from(2.0)).item().unwrap() - 2.0_f64.sqrt()).abs() < 1e-12);
/// assert!((grad(root)(&Tensor::from(2.0)).item().unwrap() - 0.125_f64.sqrt()).abs() < 1e-6);
/// ```
#[track_caller]
pub fn while_loop<C: Tree + Clone>(condition: impl Fn(&C) -> Tensor, body: impl Fn(&C) -> C, start: &C) -> C {
    let origin = std::panic::Location::caller();
    let mut state = start.clone();
    loop {
        let holds = condition(&state);
        match holds.item() {
            Ok(0.0) => return state,
            Ok(_) => state = body(&state),
            Err(error) if error.operation() == "read" && holds.error().is_none() => {
                let message =
                    "its number of steps depends on values that are not known while a function is transformed";
                let error = Error::new("while_loop", message).at(origin);
                return failed_like(
                    &state,
                    &error.help("give a limit: while_loop_up_to(100, condition, body, &start)"),
                );
            }
            Err(error) => return failed_like(&state, &error),
        }
    }
}

/// Carries a state through a function while a condition holds, at most `limit` times. It costs as much as `limit` steps, and
/// works inside of every transform and compiled function, with derivatives in both modes.
///
/// ```
/// use glassgrad::{Tensor, vmap, while_loop_up_to};
/// // How often a number can be halved until it is at most 1.
/// let halvings = |x: &Tensor| {
///     let state = (x.clone(), Tensor::from(0_i64));
///     while_loop_up_to(10, |(x, _): &(Tensor, Tensor)| x.gt(1.0), |(x, n): &(Tensor, Tensor)| (x / 2, n + 1), &state).1
/// };
/// assert_eq!(vmap(halvings)(&Tensor::from([1.0, 8.0, 9.0])).to_string(), "[0, 3, 4]");
/// ```
#[track_caller]
pub fn while_loop_up_to<C: Tree + Clone>(
    limit: usize,
    condition: impl FnOnce(&C) -> Tensor,
    body: impl FnOnce(&C) -> C,
    start: &C,
) -> C {
    let origin = std::panic::Location::caller();
    let step = |state: &C| {
        let next = body(state);
        let next = match chosen("while_loop_up_to", &condition(state), &next, state) {
            Ok(next) => next,
            Err(error) => failed_like(state, &if error.origin().is_some() { error } else { error.at(origin) }),
        };
        (next, ())
    };
    scan_length(step, start, limit).0
}
