//! Functions compiled: the graph is built, differentiated and planned once, and then only run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::array::{Array, SMALLEST_BYTES};
use crate::diff::Outcome;
use crate::dtype::DType;
use crate::error::Error;
use crate::exec;
use crate::expr::Tensor;
use crate::opt::program::Program;
use crate::opt::{Extract, Leaf, in_place};
use crate::shape::Shape;
use crate::shared::{Fingerprint, NumberMap};
use crate::tree::{Branch, Tree};

/// A function whose graph is built once for every combination of shapes that its arguments have had.
///
/// What the function captures is read when it is built: tensors that change from call to call, random keys among
/// them, are arguments. Static fields of arguments are read then too, and count for all later arguments of the same
/// shapes. Reading a value inside it is an error, because there is none yet.
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

/// A compiled function, see [`compile`].
///
/// ```
/// use glassgrad::{Tensor, compile};
/// let double = compile(|x: &Tensor| x * 2.0);
/// assert_eq!(double.call(&Tensor::from([1.0, 2.0])).unwrap().to_string(), "[2, 4]");
/// ```
pub struct Compiled<F, R> {
    function: F,
    plans: Mutex<Plans<R>>,
}

/// Plans by the fingerprint of the shapes and types of arguments.
type Plans<R> = NumberMap<u128, Arc<Plan<R>>>;

/// What was planned for arguments of some shapes.
struct Plan<R> {
    program: Arc<Program>,
    inputs: Vec<Source>,
    /// The results in their structure, and for each leaf where it comes from.
    results: R,
    leaves: Vec<Result<usize, Array>>,
    origins: Vec<&'static Location<'static>>,
    /// What stands in the place of a state while it is written over.
    nothing: Tensor,
    /// For each result a small tensor of its kind from a call before. If nobody else holds it any more, it is written over.
    spare: Mutex<Spare>,
    /// The program that writes the first results over the first arguments, if it was asked for.
    over_arguments: OnceLock<OverArguments>,
}

type Spare = Vec<Option<Tensor>>;

/// A program that writes results over arguments.
struct OverArguments {
    program: Program,
    /// For each result the argument in which it lies, if it does.
    homes: Vec<Option<usize>>,
    /// For each input whether it is written over.
    written: Vec<bool>,
    /// How many arguments the state is, if the next state has leaves at the same places, so that they can take these.
    alike: Option<usize>,
}

/// Lists that a call fills and leaves empty. Each thread keeps its own, so that only the first call asks for memory for them.
#[derive(Default)]
struct Lists {
    arguments: Vec<Tensor>,
    inputs: Vec<*const u8>,
    results: exec::Results,
}

thread_local! {
    static LISTS: RefCell<Lists> = RefCell::default();
}

/// Does something with empty lists. A function that is called while another one is built finds none, and makes others.
#[track_caller]
fn with_lists<R>(work: impl FnOnce(&mut Lists) -> R) -> R {
    let mut lists = LISTS.with_borrow_mut(std::mem::take);
    let result = work(&mut lists);
    lists.arguments.clear();
    lists.inputs.clear();
    lists.results.clear();
    LISTS.with_borrow_mut(|place| *place = lists);
    result
}

fn push_leaves<X: Tree>(x: &X, leaves: &mut Vec<Tensor>) {
    x.visit(&Branch::root(), &mut |_, leaf| leaves.push(leaf.clone()));
}

/// Computes the values of arguments that are not known yet.
#[track_caller]
fn make_known(arguments: &[Tensor]) -> Result<(), Error> {
    if arguments.iter().any(|leaf| leaf.0.value().is_none()) {
        Tensor::eval_all(&arguments.iter().collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Where an input of the program comes from: an argument, or what the function captured.
enum Source {
    Argument(usize),
    Captured(Array, usize),
}

/// A function after it was called with placeholders in place of its arguments.
struct Traced<R> {
    /// The numbers of the arguments, by node.
    arguments: HashMap<u64, usize>,
    results: R,
    roots: Vec<Tensor>,
    extract: Extract,
}

fn unknown() -> Error {
    Error::new("compile", "an argument of another function is not known here")
}

/// Where the inputs of a program come from.
fn sources(extract: &Extract, arguments: &HashMap<u64, usize>) -> Result<Vec<Source>, Error> {
    let source = |leaf: &Leaf| match leaf {
        Leaf::Known(array, start) => Ok(Source::Captured(array.clone(), *start)),
        Leaf::Argument(id) => arguments.get(id).map(|number| Source::Argument(*number)).ok_or_else(unknown),
    };
    extract.leaves.iter().map(source).collect()
}

impl<F, R: Tree> Compiled<F, R> {
    /// Calls the function, building it if arguments of these shapes are new.
    ///
    /// ```
    /// use glassgrad::{Tensor, compile, grad};
    /// let slope = compile(grad(|x: &Tensor| x.powi(3).sum()));
    /// assert_eq!(slope.call(&Tensor::from([1.0, 2.0])).unwrap().to_string(), "[ 3, 12]");
    /// assert_eq!(slope.call(&Tensor::from([3.0])).unwrap().to_string(), "[27]"); // another shape: built again
    /// ```
    #[track_caller]
    pub fn call<X: Tree, O: Outcome<Tree = R>>(&self, x: &X) -> Result<R, Error>
    where
        F: Fn(&X) -> O,
    {
        let origin = Location::caller();
        with_lists(|Lists { arguments, inputs, results }| {
            push_leaves(x, arguments);
            make_known(arguments)?;
            let plan = self.plan(arguments, || self.build(x))?;
            for source in &plan.inputs {
                inputs.push(source.address(arguments)?);
            }
            let mut spare = plan.take_spare();
            let place = |number: usize| spare[number].as_mut()?.renewed(origin).map(exec::address_mut);
            exec::run(&plan.program, inputs, place, results, &plan.origins)?;
            take_over(results, &mut spare, origin);
            let mut leaves = plan.leaves.iter().map(|leaf| plan.made(leaf, &spare, origin));
            let mut next = || leaves.next().unwrap_or_else(|| plan.nothing.clone());
            let made = plan.results.rebuild(&Branch::root(), &mut |_, _| next());
            plan.give_spare(spare);
            Ok(made)
        })
    }

    /// The program for arguments of these shapes.
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
        Ok(Arc::clone(&self.plan(&x.flatten(), || self.build(x))?.program))
    }

    /// The plan for arguments of these shapes: one from before, or a new one.
    fn plan(
        &self,
        arguments: &[Tensor],
        build: impl FnOnce() -> Result<Plan<R>, Error>,
    ) -> Result<Arc<Plan<R>>, Error> {
        let mut shapes = Fingerprint::default();
        for leaf in arguments {
            shapes.words(leaf.shape());
            shapes.word(leaf.dtype() as u64);
        }
        let plans = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans().get(&shapes.finish()) {
            return Ok(Arc::clone(plan));
        }
        let plan = Arc::new(build()?);
        plans().insert(shapes.finish(), Arc::clone(&plan));
        Ok(plan)
    }

    /// What is to be computed for these arguments, and what is given to it: arguments and what the function captured.
    #[track_caller]
    pub(crate) fn extracted<X: Tree, O: Outcome<Tree = R>>(
        &self,
        x: &X,
    ) -> Result<(Extract, Vec<(Array, usize)>), Error>
    where
        F: Fn(&X) -> O,
    {
        let values = Tensor::eval_all(&x.flatten().iter().collect::<Vec<_>>())?;
        let Traced { arguments, extract, .. } = self.traced(x)?;
        let given = sources(&extract, &arguments)?.into_iter().map(|source| match source {
            Source::Argument(number) => (values[number].clone(), 0),
            Source::Captured(array, start) => (array, start),
        });
        let given = given.collect();
        Ok((extract, given))
    }

    #[track_caller]
    fn traced<X: Tree, O: Outcome<Tree = R>>(&self, x: &X) -> Result<Traced<R>, Error>
    where
        F: Fn(&X) -> O,
    {
        let named = |placeholder: Tensor, leaf: &Tensor| match leaf.name() {
            Some(name) => placeholder.named(name),
            None => placeholder,
        };
        let placeholders = x.map(|leaf| named(Tensor::placeholder(leaf.shape().clone(), leaf.dtype()), leaf));
        let arguments: HashMap<u64, usize> =
            placeholders.flatten().iter().enumerate().map(|(number, leaf)| (leaf.0.id, number)).collect();
        let results = (self.function)(&placeholders).outcome();
        let roots = results.flatten();
        let extract = exec::function(&roots.iter().collect::<Vec<_>>())?;
        Ok(Traced { arguments, results, roots, extract })
    }

    #[track_caller]
    fn build<X: Tree, O: Outcome<Tree = R>>(&self, x: &X) -> Result<Plan<R>, Error>
    where
        F: Fn(&X) -> O,
    {
        let Traced { arguments, results, roots, extract } = self.traced(x)?;
        let numbers: HashMap<u64, usize> =
            extract.results().enumerate().map(|(number, node)| (node.id, number)).collect();
        let leaves = roots.iter().map(|root| match numbers.get(&root.0.id) {
            Some(number) => Ok(Ok(*number)),
            None => root.0.value().cloned().map(Err).ok_or_else(unknown),
        });
        let leaves = leaves.collect::<Result<Vec<_>, Error>>()?;
        let inputs = sources(&extract, &arguments)?;
        let program = exec::program_for(&extract);
        // Only the structure of the results stays, not the graph behind them.
        let results = results.map(|leaf| Tensor::placeholder(Shape::scalar(), leaf.dtype()));
        let nothing = Tensor::placeholder(Shape::scalar(), DType::F32);
        let over_arguments = OnceLock::new();
        let spare = Mutex::default();
        Ok(Plan { program, inputs, results, leaves, origins: extract.origins, nothing, spare, over_arguments })
    }
}

/// Functions that make a new state of an old one.
impl<F, S: Tree, R: Tree> Compiled<F, (S, R)> {
    /// Calls a function of a state and of data that returns the next state and something more, and puts the next state
    /// in the place of the old one. Its numbers are written over the old ones wherever the program allows it and nobody
    /// else holds them, so that a training step takes no memory for a second copy of parameters and moments, and a step after
    /// the first none at all, but for large results besides the state. Leaves change where they stand: static fields stay.
    /// If the function fails, the state stays as it was.
    ///
    /// ```
    /// use glassgrad::{Tensor, compile, value_and_grad};
    /// let loss = |(w, b): &(Tensor, Tensor), (x, y): &(Tensor, Tensor)| (x * w + b - y).square().mean();
    /// let step = compile(|(parameters, data): &((Tensor, Tensor), (Tensor, Tensor))| {
    ///     let (value, (dw, db)) = value_and_grad(|parameters: &_| loss(parameters, data))(parameters);
    ///     ((&parameters.0 - dw * 0.1, &parameters.1 - db * 0.1), value)
    /// });
    /// let data = (Tensor::from([1.0, 2.0, 3.0]), Tensor::from([3.0, 5.0, 7.0]));
    /// let mut parameters = (Tensor::from(0.0), Tensor::from(0.0));
    /// for _ in 0..1000 {
    ///     step.update(&mut parameters, &data).unwrap();
    /// }
    /// assert_eq!(format!("{:.3} {:.3}", parameters.0, parameters.1), "2 1");
    /// ```
    #[track_caller]
    pub fn update<D: Tree, O: Outcome<Tree = (S, R)>>(&self, state: &mut S, data: &D) -> Result<R, Error>
    where
        F: Fn(&(S, D)) -> O,
    {
        let origin = Location::caller();
        with_lists(|Lists { arguments, inputs, results }| {
            push_leaves(state, arguments);
            let count = arguments.len();
            push_leaves(data, arguments);
            make_known(arguments)?;
            let whole = || (state.map(Tensor::clone), data.map(Tensor::clone));
            let plan = self.plan(arguments, || self.build(&whole()))?;
            let over = plan.over_arguments.get_or_init(|| plan.over_arguments(state));
            let homes = &over.homes;
            // Nobody but the arguments may hold what is written to: the state lets go of its leaves meanwhile.
            state.visit_mut(&Branch::root(), &mut |_, leaf| *leaf = plan.nothing.clone());
            let mut spare = plan.take_spare();
            let place = |number: usize| match homes[number] {
                Some(_) => Some(std::ptr::null_mut()),
                None => spare[number].as_mut()?.renewed(origin).map(exec::address_mut),
            };
            let addresses = over.addresses(&plan.inputs, arguments, inputs);
            let done = addresses.and_then(|()| exec::run(&over.program, inputs, place, results, &plan.origins));
            if let Err(error) = done {
                let mut before = arguments.drain(..count);
                let mut next = || before.next().unwrap_or_else(|| plan.nothing.clone());
                state.visit_mut(&Branch::root(), &mut |_, leaf| *leaf = next());
                return Err(error);
            }
            take_over(results, &mut spare, origin);
            let leaf = |leaf: &Result<usize, Array>| match leaf.as_ref().ok().and_then(|result| homes[*result]) {
                Some(argument) => arguments[argument].clone(),
                None => plan.made(leaf, &spare, origin),
            };
            let mut leaves = plan.leaves.iter().map(leaf);
            let mut next = || leaves.next().unwrap_or_else(|| plan.nothing.clone());
            if over.alike == Some(count) {
                state.visit_mut(&Branch::root(), &mut |_, leaf| *leaf = next());
            } else {
                *state = plan.results.0.rebuild(&Branch::root(), &mut |_, _| next());
            }
            let rest = plan.results.1.rebuild(&Branch::root(), &mut |_, _| next());
            // What was read and could not be written over is there for the next time.
            for (argument, leaf) in arguments[..count].iter_mut().zip(&plan.leaves) {
                if let Ok(result) = leaf
                    && homes[*result].is_none()
                    && spare[*result].as_ref().is_some_and(|new| is_alike(new, argument))
                {
                    spare[*result] = Some(std::mem::replace(argument, plan.nothing.clone()));
                }
            }
            plan.give_spare(spare);
            Ok(rest)
        })
    }
}

/// Whether two tensors have the same shape and type.
fn is_alike(one: &Tensor, other: &Tensor) -> bool {
    one.shape() == other.shape() && one.dtype() == other.dtype()
}

/// Makes tensors of the arrays that a program made, and puts them where those would be that are used again.
fn take_over(results: &mut exec::Results, spare: &mut Spare, origin: &'static Location<'static>) {
    for (spare, array) in spare.iter_mut().zip(results.drain(..)) {
        if let Some(array) = array {
            *spare = Some(Tensor::leaf_at(array, origin));
        }
    }
}

impl OverArguments {
    /// Pushes where the inputs begin. Arguments that are written over are made their only holders.
    fn addresses(
        &self,
        sources: &[Source],
        arguments: &mut [Tensor],
        addresses: &mut Vec<*const u8>,
    ) -> Result<(), Error> {
        for (source, written) in sources.iter().zip(&self.written) {
            addresses.push(match source {
                Source::Argument(number) if *written => {
                    let elements = arguments[*number].elements_mut().ok_or_else(unknown)?;
                    exec::address_mut(elements).cast_const()
                }
                _ => source.address(arguments)?,
            });
        }
        Ok(())
    }
}

impl Source {
    /// Where the elements begin.
    fn address(&self, arguments: &[Tensor]) -> Result<*const u8, Error> {
        match self {
            Source::Argument(number) => {
                arguments[*number].0.value().map(|array| exec::part(array, 0)).ok_or_else(unknown)
            }
            Source::Captured(array, start) => Ok(exec::part(array, *start)),
        }
    }
}

impl<R> Plan<R> {
    /// The input of the program that an argument is, if the program reads it.
    fn input_of(&self, argument: usize) -> Option<usize> {
        self.inputs.iter().position(|source| matches!(source, Source::Argument(own) if *own == argument))
    }

    /// Tensors to be used again: nobody else finds them until they are given back.
    fn take_spare(&self) -> Spare {
        let mut spare = std::mem::take(&mut *self.spare.lock().unwrap_or_else(PoisonError::into_inner));
        spare.resize(self.program.results.len(), None);
        spare
    }

    /// Keeps small tensors for the next call; the memory of large ones goes where that of all arrays does.
    fn give_spare(&self, mut spare: Spare) {
        let is_large = |tensor: &Tensor| tensor.shape().elements() * tensor.dtype().bytes() >= SMALLEST_BYTES;
        spare.iter_mut().filter(|spare| spare.as_ref().is_some_and(is_large)).for_each(|spare| *spare = None);
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = spare;
    }

    /// A leaf of the results that was made, or captured.
    fn made(&self, leaf: &Result<usize, Array>, made: &Spare, origin: &'static Location<'static>) -> Tensor {
        match leaf {
            Ok(number) => made[*number].clone().unwrap_or_else(|| self.nothing.clone()),
            Err(captured) => Tensor::leaf_at(captured.clone(), origin),
        }
    }
}

impl<S: Tree, R> Plan<(S, R)> {
    /// The program that writes its first results over the leaves of a state, the first arguments, where it can.
    fn over_arguments(&self, state: &S) -> OverArguments {
        let paths = |tree: &S| tree.leaves().into_iter().map(|(path, _)| path).collect::<Vec<_>>();
        let own = paths(state);
        let (count, is_alike) = (own.len(), own == paths(&self.results.0));
        let pair = |(argument, leaf): (usize, &Result<usize, Array>)| {
            leaf.as_ref().ok().and_then(|result| Some((*result, self.input_of(argument)?)))
        };
        let wanted: Vec<_> = self.leaves.iter().take(count).enumerate().filter_map(pair).collect();
        let (program, donors) = in_place(&self.program, &wanted);
        let written = (0..self.inputs.len()).map(|input| donors.contains(&Some(input))).collect();
        let argument = |input: usize| match self.inputs[input] {
            Source::Argument(argument) => Some(argument),
            Source::Captured(..) => None,
        };
        let homes = donors.iter().map(|donor| donor.and_then(argument)).collect();
        OverArguments { program, homes, written, alike: is_alike.then_some(count) }
    }
}

impl<F, R> fmt::Debug for Compiled<F, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        write!(formatter, "a compiled function with {} plans", plans.len())
    }
}
