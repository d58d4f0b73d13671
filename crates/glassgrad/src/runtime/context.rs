//! Execution contexts: an executor and its compiled plans; and what a thread has entered.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use smallvec::SmallVec;

use super::budget::MemoryBudget;
use crate::array::Array;
use crate::error::Error;
use crate::exec::{Executable, Executor, Input, MatmulPrecision, Output, Results, Target};
use crate::opt::graph::Graph;
use crate::opt::lower::lower;
use crate::opt::passes::{all_enabled, optimise, unfused};
use crate::opt::program::Program;
use crate::opt::{Capabilities, Capture};

/// The capacity of the plan cache.
const CAPACITY: usize = 512;

/// Plans by structural hash, with the time of their last use.
#[derive(Default)]
struct PlanCache {
    plans: HashMap<u128, (Arc<dyn Executable>, u64)>,
    clock: u64,
}

impl PlanCache {
    fn get(&mut self, hash: u128) -> Option<Arc<dyn Executable>> {
        self.clock += 1;
        let (plan, used) = self.plans.get_mut(&hash)?;
        *used = self.clock;
        Some(Arc::clone(plan))
    }

    fn insert(&mut self, hash: u128, plan: &Arc<dyn Executable>) {
        if self.plans.len() >= CAPACITY {
            // The older half is evicted at once, so that looking for the oldest costs little on average.
            let mut times: Vec<u64> = self.plans.values().map(|(_, used)| *used).collect();
            times.sort_unstable();
            let middle = times[times.len() / 2];
            self.plans.retain(|_, (_, used)| *used > middle);
        }
        self.plans.insert(hash, (Arc::clone(plan), self.clock));
    }
}

/// An execution context: an executor with its working memory and its compiled plans. Without one, programs run
/// in a context of the process for [`Target::Cpu`].
///
/// ```
/// use glassgrad::{Tensor, exec::Target, grad, runtime::Context};
/// let gradient = || grad(|x: &Tensor| x.sin().sum())(&Tensor::from([0.0, 1.0])).to_string();
/// assert_eq!(Context::new(Target::Reference).run(gradient), gradient());
/// ```
#[derive(Clone)]
pub struct Context(Arc<Shared>);

struct Shared {
    executor: Arc<dyn Executor>,
    plans: Mutex<PlanCache>,
}

/// The context of the process.
static DEFAULT: LazyLock<Context> = LazyLock::new(|| Context::new(Target::Cpu));

/// What a thread has entered.
struct Scope {
    /// The context, if it is not that of the process.
    context: Option<Context>,
    /// The memory budget of the next gradient.
    budget: Option<MemoryBudget>,
}

thread_local! {
    static SCOPE: RefCell<Scope> = const { RefCell::new(Scope { context: None, budget: None }) };
}

/// Calls a function whose first gradient has a memory budget. The second result is whether no gradient took it.
pub(crate) fn with_budget<R>(budget: MemoryBudget, function: impl FnOnce() -> R) -> (R, bool) {
    /// Restores the former budget, also if the function panics.
    struct Restore(Option<MemoryBudget>);
    impl Drop for Restore {
        fn drop(&mut self) {
            SCOPE.with_borrow_mut(|scope| scope.budget = self.0.take());
        }
    }
    let _restore = Restore(SCOPE.with_borrow_mut(|scope| scope.budget.replace(budget)));
    let result = function();
    (result, take_budget().is_some())
}

/// The memory budget of a gradient that begins now. Gradients inside of it have none.
pub(crate) fn take_budget() -> Option<MemoryBudget> {
    SCOPE.with_borrow_mut(|scope| scope.budget.take())
}

impl Context {
    /// A new context, with working memory and plans of its own.
    ///
    /// # Panics
    /// If the device cannot be used; [`Context::open`] returns an error instead.
    pub fn new(target: Target) -> Context {
        Context::open(target).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A new context for a device that may be missing.
    ///
    /// ```
    /// use glassgrad::{exec::Target, runtime::Context};
    /// assert!(Context::open(Target::Cpu).is_ok());
    /// ```
    pub fn open(target: Target) -> Result<Context, Error> {
        Context::open_with(target, MatmulPrecision::Full)
    }

    /// A new context with a precision for products of 32-bit matrices; an error if the target does not have it.
    ///
    /// ```
    /// use glassgrad::{exec::{MatmulPrecision, Target}, runtime::Context};
    /// let error = Context::open_with(Target::Cpu, MatmulPrecision::Tf32).err().unwrap();
    /// assert!(error.to_string().contains("full precision"));
    /// ```
    pub fn open_with(target: Target, precision: MatmulPrecision) -> Result<Context, Error> {
        Ok(Context(Arc::new(Shared { executor: target.executor(precision)?, plans: Mutex::default() })))
    }

    /// The target of its programs.
    pub fn target(&self) -> Target {
        self.0.executor.target()
    }

    /// Calls a function; what this thread evaluates meanwhile runs in this context.
    pub fn run<R>(&self, function: impl FnOnce() -> R) -> R {
        /// Restores the former context, also if the function panics.
        struct Restore(Option<Context>);
        impl Drop for Restore {
            fn drop(&mut self) {
                SCOPE.with_borrow_mut(|scope| scope.context = self.0.take());
            }
        }
        let _restore = Restore(SCOPE.with_borrow_mut(|scope| scope.context.replace(self.clone())));
        function()
    }

    /// Moves an array into the memory of the executor, and waits until it is there.
    ///
    /// ```
    /// use glassgrad::{Tensor, exec::Target, runtime::Context};
    /// let array = Tensor::from([1.0, 2.0]).eval().unwrap();
    /// let moved = Context::new(Target::Reference).upload(&array).unwrap();
    /// assert_eq!(moved, array);
    /// ```
    pub fn upload(&self, array: &Array) -> Result<Array, Error> {
        let moved = self.0.executor.upload(array)?;
        self.0.executor.synchronise()?;
        Ok(moved)
    }

    /// Synchronizes: waits for all submitted work, because a GPU computes asynchronously.
    ///
    /// ```
    /// use glassgrad::runtime::Context;
    /// assert!(Context::current().synchronise().is_ok());
    /// ```
    pub fn synchronise(&self) -> Result<(), Error> {
        self.0.executor.synchronise()
    }

    /// A plan for a graph as it is, without any pass.
    pub(super) fn prepare(&self, graph: &Graph) -> Result<Arc<dyn Executable>, Error> {
        self.0.executor.prepare(Arc::new(lower(graph, self.capabilities())))
    }

    /// What programs that run in it may contain.
    ///
    /// ```
    /// use glassgrad::{exec::Target, runtime::Context};
    /// assert!(std::ptr::eq(Context::new(Target::Reference).capabilities(), Target::Reference.capabilities()));
    /// ```
    pub fn capabilities(&self) -> &'static Capabilities {
        self.0.executor.capabilities()
    }

    /// The context that this thread has entered, or that of the process.
    pub fn current() -> Context {
        SCOPE.with_borrow(|scope| scope.context.clone()).unwrap_or_else(|| DEFAULT.clone())
    }
}

/// The target of programs that this thread starts.
pub(crate) fn target() -> Target {
    SCOPE.with_borrow(|scope| scope.context.as_ref().map_or(Target::Cpu, Context::target))
}

/// The number of programs planned in this process.
static PLANNED: AtomicU64 = AtomicU64::new(0);

/// How many programs this process has planned so far. While nothing new is computed, it stays as it is: graphs of the same
/// structure run the same plan.
///
/// ```
/// use glassgrad::{Tensor, runtime::programs_planned};
/// let squares = |x: f64| (Tensor::from([x, 1.0]) * x).sum().item().unwrap();
/// squares(2.0);
/// let before = programs_planned();
/// assert_eq!((squares(3.0), squares(4.0)), (12.0, 20.0));
/// assert_eq!(programs_planned(), before);
/// ```
pub fn programs_planned() -> u64 {
    PLANNED.load(Ordering::Relaxed)
}

/// A new plan for what was captured, which is not cached.
pub(crate) fn planned(capture: &Capture) -> Result<Arc<dyn Executable>, Error> {
    PLANNED.fetch_add(1, Ordering::Relaxed);
    let context = Context::current();
    context.prepare(&optimise(unfused(capture.graph(), context.capabilities())))
}

/// A plan for a program that was lowered for the current target.
pub(crate) fn prepare(program: Program) -> Result<Arc<dyn Executable>, Error> {
    Context::current().0.executor.prepare(Arc::new(program))
}

/// The plan for what was captured: a cached one, or a new one.
pub(crate) fn executable_for(capture: &Capture) -> Result<Arc<dyn Executable>, Error> {
    if !capture.cacheable || !all_enabled() {
        return planned(capture);
    }
    let context = Context::current();
    let plans = || context.0.plans.lock().unwrap_or_else(PoisonError::into_inner);
    let hash = capture.structural_hash();
    if let Some(plan) = plans().get(hash) {
        return Ok(plan);
    }
    let plan = planned(capture)?;
    plans().insert(hash, &plan);
    Ok(plan)
}

/// Computes what was captured.
pub(super) fn compute(capture: &Capture) -> Result<Vec<Array>, Error> {
    let plan = executable_for(capture)?;
    let leaves = capture.known_leaves()?;
    let mut inputs: SmallVec<[Input<'_>; 16]> =
        leaves.iter().map(|(array, start)| Input::Read(array, *start)).collect();
    let count = plan.program().results.len();
    let mut outputs: SmallVec<[Output<'_>; 16]> = (0..count).map(|_| Output::New).collect();
    let mut results = Results::with_capacity(count);
    plan.launch(&mut inputs, &mut outputs, &mut results, &capture.origins)?;
    Ok(results.into_iter().flatten().collect())
}
