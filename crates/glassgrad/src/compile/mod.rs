//! Functions compiled: the graph is built, differentiated and planned once, and then only run.

mod plan;
mod shards;
mod update;

use std::any::type_name;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use self::plan::{Plan, Source, sources, unknown};
use crate::array::Array;
use crate::collective::shard_count;
use crate::diff::{Fallible, Outcome, first_error};
use crate::error::Error;
use crate::exec::{self, Input, Output};
use crate::expr::Tensor;
use crate::interning::Lru;
use crate::opt::Capture;
use crate::opt::program::Program;
use crate::runtime;
use crate::shape::Shape;
use crate::tree::{Branch, Definition, Tree, checked_map, inconsistent};

/// A function whose graph is built once for every definition of its arguments: their structure (which parts there are,
/// which variants, which static values), and the shapes and element types of their leaves. The 64 plans used last are
/// kept.
///
/// What the function captures is read when it is built: tensors that change from call to call, random keys among
/// them, are arguments. Reading a value inside it is an error, because there is none yet.
///
/// Inside a transform, or where an argument or a captured tensor depends on a variable, a call is the function itself,
/// so that derivatives, [`vmap`](crate::vmap) and other compiled functions see through it.
///
/// ```
/// use glassgrad::{Tensor, compile, value_and_grad};
/// let (x, y) = (Tensor::from([1.0, 2.0, 3.0]), Tensor::from([3.0, 5.0, 7.0]));
/// let loss = |(w, b): &(Tensor, Tensor)| (&x * w + b - &y).square().mean();
/// let step = compile(|parameters: &(Tensor, Tensor)| {
///     let (value, (dw, db)) = value_and_grad(loss)(parameters);
///     (value, (&parameters.0 - dw * 0.1, &parameters.1 - db * 0.1))
/// });
/// let mut parameters = (Tensor::from(0.0), Tensor::from(0.0));
/// for _ in 0..1000 {
///     parameters = step.call(&parameters).unwrap().1;
/// }
/// assert_eq!(format!("{:.3} {:.3}", parameters.0, parameters.1), "2 1");
/// ```
pub fn compile<X: Tree, R: Outcome, F: Fn(&X) -> R>(function: F) -> Compiled<F, R::Tree> {
    Compiled { function, plans: Mutex::default() }
}

/// A compiled function that is called like any other, as `jit` of JAX. An error is in the tensors of the result, where
/// [`Compiled::call`] returns it.
///
/// ```
/// use glassgrad::{Tensor, grad, jit};
/// let gradient = jit(grad(|x: &Tensor| x.powi(3).sum()));
/// assert_eq!(gradient(&Tensor::from([1.0, 2.0])).to_string(), "[ 3, 12]");
/// ```
pub fn jit<X: Tree, R: Outcome>(function: impl Fn(&X) -> R) -> impl Fn(&X) -> R::Tree {
    let compiled = compile(function);
    move |x| match compiled.call(x) {
        Ok(result) => result,
        Err(error) => (compiled.function)(x).outcome().map(|_| Tensor::failed(&error)),
    }
}

/// A compiled function, see [`compile`].
///
/// ```
/// use glassgrad::{Tensor, compile};
/// let double = compile(|x: &Tensor| x * 2.0);
/// assert_eq!(double.call(&Tensor::from([1.0, 2.0])).unwrap().to_string(), "[2, 4]");
/// ```
pub struct Compiled<F, R> {
    function: F,
    plans: Mutex<Lru<Prepared<R>>>,
}

/// The plan for arguments of one definition, or inlining.
enum Prepared<R> {
    /// A planned program is run; its results have this structure.
    Planned(Box<Plan>, R),
    /// The function captures what depends on a variable: it is called as it is, so that derivatives pass.
    Inline,
}

/// Lists that a call fills and leaves empty. Each thread keeps its own, so that only the first call asks for memory for them.
#[derive(Default)]
struct Lists {
    arguments: Vec<Tensor>,
    /// Empty between calls, whose borrows they hold.
    inputs: Vec<Input<'static>>,
    outputs: Vec<Output<'static>>,
    overwritten: Vec<Option<&'static mut Tensor>>,
    results: exec::Results,
}

thread_local! {
    static LISTS: RefCell<Lists> = RefCell::default();
}

/// The memory of a list for one of elements with another lifetime.
fn recycled<A, B>(mut list: Vec<A>) -> Vec<B> {
    list.clear();
    // Collected in place, because both have the same layout.
    list.into_iter().map(|_| unreachable!("the list is empty")).collect()
}

/// The lists of this thread, empty, until the end of a call. A function that is called while another one is built finds none, and
/// makes others.
struct TakenLists(Lists);

impl TakenLists {
    fn new() -> TakenLists {
        TakenLists(LISTS.with_borrow_mut(std::mem::take))
    }
}

impl Deref for TakenLists {
    type Target = Lists;
    fn deref(&self) -> &Lists {
        &self.0
    }
}

impl DerefMut for TakenLists {
    fn deref_mut(&mut self) -> &mut Lists {
        &mut self.0
    }
}

impl Drop for TakenLists {
    fn drop(&mut self) {
        let mut lists = std::mem::take(&mut self.0);
        lists.arguments.clear();
        lists.results.clear();
        LISTS.with_borrow_mut(|place| *place = lists);
    }
}

fn pushed(leaves: &mut Vec<Tensor>) -> impl FnMut(&Branch<'_>, &Tensor) {
    |_, leaf| leaves.push(leaf.clone())
}

/// Computes the values of arguments that are not known yet.
#[track_caller]
fn make_known(arguments: &[Tensor]) -> Result<(), Error> {
    if arguments.iter().any(|leaf| leaf.0.value().is_none()) {
        Tensor::eval_all(&arguments.iter().collect::<Vec<_>>())?;
    }
    Ok(())
}

/// The key of a plan: the definition of the arguments, and the shapes and types of their leaves.
fn plan_key(mut definition: Definition, arguments: &[Tensor]) -> u128 {
    definition.number(arguments.len());
    definition.number(runtime::target().number());
    // Collectives depend on the number of shards.
    definition.number(shard_count());
    for leaf in arguments {
        definition.shape(leaf.shape(), leaf.dtype());
    }
    definition.finish()
}

/// A function after it was called with placeholders in place of its arguments.
struct Traced {
    /// The numbers of the arguments, by node.
    arguments: HashMap<u64, usize>,
    /// The leaves of the results.
    roots: Vec<Tensor>,
}

impl Traced {
    /// Whether derivatives must pass through the results to something that is no argument.
    fn captures_variable(&self) -> bool {
        let foreign = |id: u64| !self.arguments.contains_key(&id);
        self.roots.iter().any(|root| runtime::reaches_variable(root, foreign))
    }

    fn extract(&self) -> Result<Capture, Error> {
        runtime::capture_function(&self.roots.iter().collect::<Vec<_>>())
    }

    fn plan(&self) -> Result<Plan, Error> {
        let extract = self.extract()?;
        let numbers: HashMap<u64, usize> =
            extract.results().enumerate().map(|(number, node)| (node.id, number)).collect();
        let leaves = self.roots.iter().map(|root| match numbers.get(&root.0.id) {
            Some(number) => Ok(Ok(*number)),
            None => root.0.value().cloned().map(Err).ok_or_else(unknown),
        });
        Plan::new(&extract, &self.arguments, leaves.collect::<Result<Vec<_>, Error>>()?)
    }

    /// What is to be computed, and what is given to it.
    fn given(&self, arguments: &[Array]) -> Result<(Capture, Vec<(Array, usize)>), Error> {
        let extract = self.extract()?;
        let given = sources(&extract, &self.arguments)?.into_iter().map(|source| match source {
            Source::Argument(number) => (arguments[number].clone(), 0),
            Source::Captured(array, start) => (array, start),
        });
        let given = given.collect();
        Ok((extract, given))
    }
}

/// Placeholders with the names of the leaves that they stand for.
fn placeholder_of(origin: &'static Location<'static>) -> impl FnMut(&Tensor) -> Tensor {
    move |leaf| {
        let placeholder = Tensor::placeholder_at(leaf.shape().clone(), leaf.dtype(), origin);
        match leaf.name() {
            Some(name) => placeholder.named(name),
            None => placeholder,
        }
    }
}

/// The numbers of placeholders, by node. The program reads its inputs where the leaves are: what was traced must be what is passed.
fn numbered(placeholders: &[Tensor], leaves: &[Tensor], tree: &str) -> Result<HashMap<u64, usize>, Error> {
    if placeholders.len() != leaves.len() || placeholders.iter().zip(leaves).any(|(one, other)| !is_alike(one, other)) {
        return Err(inconsistent(tree, "compile", "show other leaves each time"));
    }
    Ok(placeholders.iter().enumerate().map(|(number, leaf)| (leaf.0.id, number)).collect())
}

/// A leaf of which only the type stays, not the graph that it depends on.
fn without_graph(leaf: &Tensor) -> Tensor {
    Tensor::placeholder(Shape::scalar(), leaf.dtype())
}

impl<F, R: Tree> Compiled<F, R> {
    /// Calls the function, building it if arguments of this definition are new.
    ///
    /// ```
    /// use glassgrad::{Tensor, compile, grad};
    /// let gradient = compile(grad(|x: &Tensor| x.powi(3).sum()));
    /// assert_eq!(gradient.call(&Tensor::from([1.0, 2.0])).unwrap().to_string(), "[ 3, 12]");
    /// assert_eq!(gradient.call(&Tensor::from([3.0])).unwrap().to_string(), "[27]"); // another shape: built again
    ///
    /// // Derivatives pass through a compiled function.
    /// let triple = compile(|x: &Tensor| x * 3.0);
    /// assert_eq!(grad(|x: &Tensor| triple.call(x).unwrap().sum())(&Tensor::from([1.0])).to_string(), "[3]");
    /// ```
    #[track_caller]
    pub fn call<X: Tree, O: Outcome<Tree = R>>(&self, x: &X) -> Result<R, Error>
    where
        F: Fn(&X) -> O,
    {
        let origin = Location::caller();
        let mut lists = TakenLists::new();
        x.visit(&Branch::root(), &mut pushed(&mut lists.arguments));
        if lists.arguments.iter().any(Tensor::is_tracked) {
            return self.inline(x);
        }
        make_known(&lists.arguments)?;
        let arguments = &lists.arguments;
        let prepared = self.prepared(Definition::of(x), arguments, || self.build(x, arguments))?;
        let Prepared::Planned(plan, structure) = &*prepared else { return self.inline(x) };
        let spare = plan.launch(&mut lists, origin)?;
        let results = plan.result_leaves(&spare, origin).tree(structure)?;
        plan.give_spare(spare);
        Ok(results)
    }

    /// The program for arguments of this definition.
    ///
    /// ```
    /// use glassgrad::{Tensor, compile};
    /// let length = compile(|x: &Tensor| x.square().sum().sqrt());
    /// let program = length.program(&Tensor::from([3.0, 4.0])).unwrap();
    /// assert_eq!((program.inputs.len(), program.results.len()), (1, 1));
    /// ```
    #[track_caller]
    pub fn program<X: Tree, O: Outcome<Tree = R>>(&self, x: &X) -> Result<Arc<Program>, Error>
    where
        F: Fn(&X) -> O,
    {
        let arguments = x.flatten();
        let prepared = self.prepared(Definition::of(x), &arguments, || self.build(x, &arguments))?;
        match &*prepared {
            Prepared::Planned(plan, _) => Ok(Arc::clone(plan.executable.program())),
            Prepared::Inline => {
                let plan = runtime::executable_for(&self.traced(x, &arguments)?.0.extract()?)?;
                Ok(Arc::clone(plan.program()))
            }
        }
    }

    /// Calls the function once more for what it does besides building a graph.
    pub(crate) fn trace_again<X: Tree, O: Outcome<Tree = R>>(&self, x: &X)
    where
        F: Fn(&X) -> O,
    {
        drop((self.function)(x).outcome());
    }

    /// The function itself, called with these arguments.
    fn inline<X: Tree, O: Outcome<Tree = R>>(&self, x: &X) -> Result<R, Error>
    where
        F: Fn(&X) -> O,
    {
        let result = (self.function)(x).outcome();
        first_error(&result.flatten())?;
        Ok(result)
    }

    /// What is done with arguments of this definition: as planned before, or a new plan.
    fn prepared(
        &self,
        definition: Definition,
        arguments: &[Tensor],
        build: impl FnOnce() -> Result<Prepared<R>, Error>,
    ) -> Result<Arc<Prepared<R>>, Error> {
        let key = plan_key(definition, arguments);
        let plans = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = plans().get(key) {
            return Ok(prepared);
        }
        // Not under the lock: the function may call itself.
        let prepared = Arc::new(build()?);
        plans().insert(key, &prepared);
        Ok(prepared)
    }

    /// What is to be computed for these arguments, and what is given to it: arguments and what the function captured.
    #[track_caller]
    pub(crate) fn extracted<X: Tree, O: Outcome<Tree = R>>(
        &self,
        x: &X,
    ) -> Result<(Capture, Vec<(Array, usize)>), Error>
    where
        F: Fn(&X) -> O,
    {
        let leaves = x.flatten();
        let values = Tensor::eval_all(&leaves.iter().collect::<Vec<_>>())?;
        self.traced(x, &leaves)?.0.given(&values)
    }

    /// What the function built, and its results.
    #[track_caller]
    fn traced<X: Tree, O: Outcome<Tree = R>>(&self, x: &X, leaves: &[Tensor]) -> Result<(Traced, R), Error>
    where
        F: Fn(&X) -> O,
    {
        let (x, placeholders) = checked_map("compile", x, &mut placeholder_of(Location::caller()))?;
        let arguments = numbered(&placeholders, leaves, type_name::<X>())?;
        let results = (self.function)(&x).outcome();
        let roots = results.flatten();
        Ok((Traced { arguments, roots }, results))
    }

    #[track_caller]
    fn build<X: Tree, O: Outcome<Tree = R>>(&self, x: &X, leaves: &[Tensor]) -> Result<Prepared<R>, Error>
    where
        F: Fn(&X) -> O,
    {
        let (traced, results) = self.traced(x, leaves)?;
        if traced.captures_variable() {
            return Ok(Prepared::Inline);
        }
        let plan = traced.plan()?;
        let (structure, _) = checked_map("compile", &results, &mut without_graph)?;
        Ok(Prepared::Planned(Box::new(plan), structure))
    }
}

/// Whether two tensors have the same shape and type.
fn is_alike(one: &Tensor, other: &Tensor) -> bool {
    one.shape() == other.shape() && one.dtype() == other.dtype()
}

impl<F, R> fmt::Debug for Compiled<F, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        write!(formatter, "a compiled function with {} plans", plans.len())
    }
}
