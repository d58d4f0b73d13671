//! Gradients within a budget of memory.
//!
//! `grad(f).within(bytes)` is `grad(f)` whose program takes no more than `bytes` bytes. A closure cannot have methods
//! and still be called like one, so the budget reaches the gradient through the scope of the running thread, beside the execution
//! context: it is set while the function runs, and the first gradient that begins takes it out. It changes what is stored and what is
//! rematerialised, never what is computed.

use std::panic::Location;

use super::transforms::failed_like;
use crate::error::Error;
use crate::runtime::{MemoryBudget, with_budget};
use crate::tree::Tree;

/// Functions that compute a gradient, within a memory budget: [`grad`](crate::grad),
/// [`value_and_grad`](crate::value_and_grad), and what calls them.
///
/// ```
/// use glassgrad::{Tensor, Within, compile, exec::footprint, grad, scan};
/// let step = |state: &Tensor, x: &Tensor| ((state * x).sin(), ());
/// let loss = |x: &Tensor| scan(step, &Tensor::ones([64]).cast(x.dtype()), x).0.sum();
/// let x = Tensor::full([200, 64], 0.9, glassgrad::dtype::DType::F64);
/// let (plain, frugal) = (compile(grad(loss)), compile(grad(loss).within(230_000)));
/// assert_eq!(frugal.call(&x).unwrap().to_string(), plain.call(&x).unwrap().to_string());
/// assert!(footprint(&plain.program(&x).unwrap()) > 300_000);
/// assert!(footprint(&frugal.program(&x).unwrap()) <= 230_000);
/// ```
pub trait Within<X, Y>: Fn(&X) -> Y + Sized {
    /// The same function, whose gradient takes at most `bytes` bytes of memory besides its arguments: the
    /// [`footprint`](crate::exec::footprint) of the program that computes all of its results together, that is the
    /// results, everything in between, constants, and the working memory of kernels on all threads.
    ///
    /// If that is enough, nothing is computed anew. If not, the states of loops and of chains of operations are kept
    /// at some places only, those at which the fewest steps run again. A budget that cannot be kept is an error that
    /// states what is possible.
    ///
    /// Tensors that the function captures count as given. Under [`vmap`](crate::vmap) the budget is that of one
    /// example, and what is differentiated again keeps what it needs.
    ///
    /// ```
    /// use glassgrad::{Tensor, Within, grad};
    /// let gradient = grad(|x: &Tensor| x.sin().sum()).within(10)(&Tensor::from([1.0, 2.0]));
    /// let error = gradient.eval().unwrap_err();
    /// assert!(error.message().ends_with("bytes of memory, and 10 were given"));
    /// ```
    #[track_caller]
    fn within(self, bytes: usize) -> impl Fn(&X) -> Y;
}

impl<X: Tree, Y: Tree, F: Fn(&X) -> Y> Within<X, Y> for F {
    #[track_caller]
    fn within(self, bytes: usize) -> impl Fn(&X) -> Y {
        let budget = MemoryBudget::new(bytes, Location::caller());
        move |x| {
            let (result, is_left) = with_budget(budget.clone(), || self(x));
            if is_left {
                let error = Error::new("within", "the function makes no gradient").at(budget.origin);
                return failed_like(
                    &result,
                    &error.help("ask for grad(…).within(bytes) or value_and_grad(…).within(bytes)"),
                );
            }
            result
        }
    }
}
