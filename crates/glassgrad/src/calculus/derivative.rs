//! Functions whose structured derivative is found once for every combination of shapes, and then only computed.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::explain::Explanation;
use super::ledger::Step;
use super::plan::{Plan, PlanRequest, Traced};
use super::value::{Hessian, Jacobian};
use crate::compile::{Compiled, compile};
use crate::diff::{Outcome, pullback};
use crate::error::Error;
use crate::expr::{Pass, ProvenanceScope, Tensor};
use crate::interning::Lru;
use crate::tree::{Branch, Definition, Path, Tree};

/// The order of accumulation of partial derivatives.
///
/// ```
/// use glassgrad::{Tensor, calculus::{self, Mode}};
/// let f = |x: &Tensor| x.powi(3).sum();
/// let x = Tensor::from([1.0, 2.0]);
/// let forward = calculus::hessian(f).mode(Mode::Forward).at(&x).unwrap();
/// assert_eq!(forward.diag().unwrap().to_string(), "[ 6, 12]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// From the arguments to the results, in this order.
    Forward,
    /// From the results to the arguments, in this order.
    Reverse,
    /// Forward up to the narrowest cut through the graph, in reverse down to it, and joined there: the sum over the nodes
    /// v of the cut of ∂y/∂v times ∂v/∂x.
    Joined,
    /// In the order that costs least, over the whole graph.
    CrossCountry,
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Mode::Forward => "forward",
            Mode::Reverse => "reverse",
            Mode::Joined => "joined",
            Mode::CrossCountry => "cross-country",
        })
    }
}

/// The default memory limit of a materialised derivative: 1 GiB.
pub(super) const LIMIT: u128 = 1 << 30;

/// The plans by the definition of the arguments.
type Plans<X, Y> = Lru<Plan<X, Y>>;

/// A plan, and what was computed by it.
type Computed<X, Y> = (Arc<Plan<X, Y>>, Vec<Tensor>);
type Trace<'f, X, Y> = Arc<dyn Fn(&X) -> Result<Traced<X, Y>, Error> + 'f>;
type Selection<'f> = Arc<dyn Fn(&Path) -> bool + 'f>;
type CompiledBlocks<'f, X> = Compiled<Box<dyn Fn(&X) -> Vec<Tensor> + 'f>, Vec<Tensor>>;

/// A derivative as a function of the point: see [`hessian`] and [`jacobian`].
///
/// ```
/// use glassgrad::{Tensor, calculus};
/// let curvature = calculus::hessian(|x: &Tensor| x.exp().sum());
/// assert_eq!(curvature.at(&Tensor::from([0.0])).unwrap().diag().unwrap().to_string(), "[1]");
/// ```
pub struct Derivative<'f, X: Tree, Y: Tree, V> {
    trace: Trace<'f, X, Y>,
    symmetric: bool,
    mode: Option<Mode>,
    limit: u128,
    variables: Option<Selection<'f>>,
    plans: Arc<Mutex<Plans<X, Y>>>,
    program: CompiledBlocks<'f, X>,
    /// The same with value and gradient.
    whole: CompiledBlocks<'f, X>,
    value: PhantomData<V>,
}

/// The Hessian of a function of a tree that returns one number, kept compressed.
///
/// It is a value with the structure that the function gives it: a sum of products with deltas, never the dense array.
/// The structure is found at the first call for arguments of some shapes, by rewriting the derivative in Einstein
/// notation; later calls only compute what is held. The function is not called again for these shapes: what it reads from
/// a captured `Cell`, a counter or a clock stays what it was at the first call, and so does every branch that it took.
/// What changes between calls belongs into the argument, where
/// [`with_respect_to`](Derivative::with_respect_to) leaves it out of the derivative.
///
/// ```
/// use glassgrad::{Tensor, calculus, dtype::DType, rng::Key};
/// let normal = |key, shape: [usize; 2]| Tensor::normal(Key::new(key), shape).cast(DType::F64);
/// let (t, v) = (normal(1, [50, 50]), normal(2, [50, 3]).named("V"));
/// let loss = |u: &Tensor| (&t - u.matmul(&v.transpose())).square().sum();
/// let h = calculus::hessian(loss).at(&normal(3, [50, 3])).unwrap();
/// assert_eq!(h.expression(), "2·V_mj V_ml δ_ik");
/// assert_eq!((h.bytes(), h.dense_bytes()), (8 * 3 * 3, 8 * 150 * 150));
/// let direction = h.solve(&normal(4, [50, 3])).unwrap();
/// assert_eq!(direction.shape().to_vec(), [50, 3]);
/// ```
pub fn hessian<'f, X: Tree + 'f, R: Outcome<Tree = Tensor>>(
    function: impl Fn(&X) -> R + 'f,
) -> Derivative<'f, X, X, Hessian<X>> {
    let trace = move |x: &X| -> Result<Traced<X, X>, Error> {
        let variables = x.map(Tensor::wrapped);
        let value = function(&variables).outcome();
        if let Some(error) = value.error() {
            return Err(error.clone());
        }
        if value.shape().elements() != 1 || !value.is_float() {
            let message = format!("the function must return one floating-point number, not {}", value.describe());
            let error = Error::new("hessian", message).at(value.origin());
            return Err(error.help("sum the result, or ask for its jacobian"));
        }
        let _provenance = ProvenanceScope::of(&value.0, Pass::Derivative);
        let leaves = variables.flatten();
        let differentiable: Vec<&Tensor> = leaves.iter().filter(|leaf| leaf.is_float()).collect();
        let mut found = pullback(&[(&value, value.ones_like())], &differentiable, &[]).into_iter();
        let gradient = leaves.iter().map(|leaf| match leaf.is_float() {
            true => found.next().flatten().unwrap_or_else(|| leaf.zeros_like()),
            false => leaf.zeros_like(),
        });
        let outputs = variables.with_leaves(gradient.collect());
        Ok(Traced { variables, outputs, beside: vec![value.reshape(())] })
    };
    Derivative::new(Arc::new(trace), true, None, LIMIT, None)
}

/// The Jacobian of a function from trees to trees, kept compressed. As with [`hessian`], the function is traced at the
/// first call for arguments of some shapes, and state that it captures is frozen there.
///
/// ```
/// use glassgrad::{Tensor, calculus};
/// let a = Tensor::from([[1.0, 2.0], [3.0, 4.0]]).named("A");
/// let j = calculus::jacobian(|x: &Tensor| a.matmul(x)).at(&Tensor::from([[1.0], [1.0]])).unwrap();
/// assert_eq!(j.expression(), "A_ik δ_jl");
/// ```
pub fn jacobian<'f, X: Tree + 'f, R: Outcome>(
    function: impl Fn(&X) -> R + 'f,
) -> Derivative<'f, X, R::Tree, Jacobian<X, R::Tree>>
where
    R::Tree: 'f,
{
    let trace = move |x: &X| -> Result<Traced<X, R::Tree>, Error> {
        let variables = x.map(Tensor::wrapped);
        let outputs = function(&variables).outcome();
        for output in outputs.flatten() {
            if let Some(error) = output.error() {
                return Err(error.clone());
            }
            if !output.is_float() {
                let message = format!("the function must return floating-point numbers, not {}", output.describe());
                return Err(Error::new("jacobian", message).at(output.origin()));
            }
        }
        Ok(Traced { variables, outputs, beside: Vec::new() })
    };
    Derivative::new(Arc::new(trace), false, None, LIMIT, None)
}

impl<'f, X: Tree + 'f, Y: Tree + 'f, V> Derivative<'f, X, Y, V> {
    fn new(
        trace: Trace<'f, X, Y>,
        symmetric: bool,
        mode: Option<Mode>,
        limit: u128,
        variables: Option<Selection<'f>>,
    ) -> Self {
        let plans: Arc<Mutex<Plans<X, Y>>> = Arc::default();
        let program = |with_gradient: bool| -> CompiledBlocks<'f, X> {
            let (trace, plans, variables) = (Arc::clone(&trace), Arc::clone(&plans), variables.clone());
            let build = move |x: &X| -> Vec<Tensor> {
                let question = PlanRequest {
                    symmetric,
                    mode,
                    limit,
                    variables: variables.as_deref(),
                    with_gradient,
                    with_steps: false,
                };
                match trace(x).and_then(|traced| question.answer(traced)) {
                    Ok((plan, tensors)) => {
                        lock(&plans).insert(plan_key(x, with_gradient), &Arc::new(plan));
                        tensors
                    }
                    Err(error) => vec![failed(&error)],
                }
            };
            compile(Box::new(build) as Box<dyn Fn(&X) -> Vec<Tensor> + 'f>)
        };
        let (program, whole) = (program(false), program(true));
        Derivative { trace, symmetric, mode, limit, variables, plans, program, whole, value: PhantomData }
    }

    /// The same derivative in a mode that is not left to the prediction of costs.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus::{self, Mode}};
    /// let jacobian = calculus::jacobian(|x: &Tensor| x.sin()).mode(Mode::Reverse);
    /// assert!(jacobian.explain(&Tensor::from([0.0])).unwrap().to_string().contains("reverse"));
    /// ```
    pub fn mode(self, mode: Mode) -> Self {
        Derivative::new(self.trace, self.symmetric, Some(mode), self.limit, self.variables)
    }

    /// The same derivative with another limit, in bytes, on what may be materialised. Nothing is before it is checked.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let h = calculus::hessian(|x: &Tensor| x.square().sum()).limit(1000).at(&Tensor::zeros(100)).unwrap();
    /// assert!(h.to_dense().unwrap_err().to_string().contains("40 kB"));
    /// ```
    pub fn limit(self, bytes: usize) -> Self {
        Derivative::new(self.trace, self.symmetric, self.mode, bytes as u128, self.variables)
    }

    /// The same derivative with respect to some leaves alone. The others are arguments that stand still.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let f = |(a, x): &(Tensor, Tensor)| (a * x).square().sum();
    /// let h = calculus::hessian(f).with_respect_to(|path| path.starts_with("1"));
    /// let point = (Tensor::from([1.0, 2.0]), Tensor::from([3.0, 4.0]));
    /// assert_eq!(h.at(&point).unwrap().diag().unwrap().1.to_string(), "[2, 8]");
    /// ```
    pub fn with_respect_to(self, variables: impl Fn(&Path) -> bool + 'f) -> Self {
        Derivative::new(self.trace, self.symmetric, self.mode, self.limit, Some(Arc::new(variables)))
    }

    /// What is held at a point, and the plan behind it.
    #[track_caller]
    pub(super) fn computed(&self, x: &X) -> Result<Computed<X, Y>, Error> {
        Derivative::<X, Y, V>::run(&self.program, &self.plans, x, false)
    }

    /// [`Derivative::computed`] with the value and the gradient behind what is held.
    #[track_caller]
    pub(super) fn computed_with_gradient(&self, x: &X) -> Result<Computed<X, Y>, Error> {
        Derivative::<X, Y, V>::run(&self.whole, &self.plans, x, true)
    }

    /// Runs a program, which is traced and planned if it has to be, and finds the plan behind it.
    #[track_caller]
    fn run(
        program: &CompiledBlocks<'f, X>,
        plans: &Mutex<Plans<X, Y>>,
        x: &X,
        with_gradient: bool,
    ) -> Result<Computed<X, Y>, Error> {
        let key = plan_key(x, with_gradient);
        let tensors = program.call(x)?;
        let planned = || lock(plans).get(key);
        // Programs and plans are evicted apart from each other; tracing the function again plans it again.
        let plan = planned().or_else(|| {
            program.trace_again(x);
            planned()
        });
        let plan = plan.unwrap_or_else(|| unreachable!("a function that was traced has put its plan here"));
        Ok((plan, tensors))
    }

    /// The predicted cost of each mode, and the storage.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let a = Tensor::ones([20, 10]);
    /// let f = calculus::hessian(|x: &Tensor| a.matmul(x).exp().sum());
    /// let explanation = f.explain(&Tensor::zeros(10)).unwrap();
    /// assert_eq!(explanation.candidates.len(), 4);
    /// assert!(explanation.candidates.iter().any(|candidate| candidate.chosen));
    /// ```
    #[track_caller]
    pub fn explain(&self, x: &X) -> Result<Explanation, Error> {
        Ok(self.computed(x)?.0.explanation.clone())
    }

    /// The steps by which the derivative is rewritten, in order.
    ///
    /// ```
    /// use glassgrad::{Tensor, calculus};
    /// let steps = calculus::hessian(|x: &Tensor| x.square().sum()).derivation(&Tensor::zeros(3)).unwrap();
    /// assert!(!steps.is_empty());
    /// ```
    pub fn derivation(&self, x: &X) -> Result<Vec<Step>, Error> {
        let (symmetric, mode, limit) = (self.symmetric, self.mode, self.limit);
        let question = PlanRequest {
            symmetric,
            mode,
            limit,
            variables: self.variables.as_deref(),
            with_gradient: false,
            with_steps: true,
        };
        Ok(question.answer((self.trace)(x)?)?.0.steps)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(error: &Error) -> Tensor {
    <Tensor as crate::diff::Fallible>::failed(error)
}

/// The key of a plan: the definition of the arguments, the shapes and types of their leaves, and whether value and gradient
/// are planned with it.
fn plan_key<X: Tree>(x: &X, with_gradient: bool) -> u128 {
    let mut definition = Definition::of(x);
    definition.number(usize::from(with_gradient));
    x.visit(&Branch::root(), &mut |_, leaf| definition.shape(leaf.shape(), leaf.dtype()));
    definition.finish()
}
