//! Functions compiled: the graph is built, differentiated and planned once, and then only run.

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use smallvec::SmallVec;

use crate::array::Array;
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
    /// The program that writes the first results over the first arguments, if it was asked for.
    over_arguments: OnceLock<OverArguments>,
}

/// A program that writes results over arguments.
struct OverArguments {
    program: Program,
    /// For each result the argument in which it lies, if it does.
    homes: Vec<Option<usize>>,
    /// For each input whether it is written over.
    written: Vec<bool>,
}

/// The leaves of arguments: of most functions, a few.
type Leaves = SmallVec<[Tensor; 16]>;

fn push_leaves<X: Tree>(x: &X, leaves: &mut Leaves) {
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
        let mut arguments = Leaves::new();
        push_leaves(x, &mut arguments);
        make_known(&arguments)?;
        let plan = self.plan(&arguments, || self.build(x))?;
        let mut inputs = exec::Addresses::with_capacity(plan.inputs.len());
        for source in &plan.inputs {
            inputs.push(source.address(&arguments)?);
        }
        let results = exec::run(&plan.program, &inputs, |_| false, &plan.origins)?;
        let origin = Location::caller();
        let mut leaves = plan.leaves.iter().map(|source| match source {
            Ok(number) => results[*number].clone(),
            Err(captured) => Some(captured.clone()),
        });
        let leaf =
            |array: Option<Array>| array.map_or_else(|| plan.nothing.clone(), |array| Tensor::leaf_at(array, origin));
        Ok(plan.results.rebuild(&Branch::root(), &mut |_, _| leaf(leaves.next().flatten())))
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
        Ok(Plan { program, inputs, results, leaves, origins: extract.origins, nothing, over_arguments })
    }
}

/// Functions that make a new state of an old one.
impl<F, S: Tree, R: Tree> Compiled<F, (S, R)> {
    /// Calls a function of a state and of data that returns the next state and something more, and puts the next state
    /// in the place of the old one. Its numbers are written over the old ones wherever the program allows it and nobody
    /// else holds them, so that a training step takes no memory for a second copy of parameters and moments. If the
    /// function fails, the state stays as it was.
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
        let mut arguments = Leaves::new();
        push_leaves(state, &mut arguments);
        let count = arguments.len();
        push_leaves(data, &mut arguments);
        make_known(&arguments)?;
        let whole = || (state.map(Tensor::clone), data.map(Tensor::clone));
        let plan = self.plan(&arguments, || self.build(&whole()))?;
        let OverArguments { program, homes, written } = plan.over_arguments.get_or_init(|| plan.over_arguments(count));
        // Nobody but the arguments may hold what is written to: the state lets go of its leaves meanwhile.
        *state = state.map(|_| plan.nothing.clone());
        let mut address = |source: &Source, written: bool| match source {
            Source::Argument(number) if written => {
                let elements = arguments[*number].elements_mut().ok_or_else(unknown)?;
                Ok(exec::address_mut(elements).cast_const())
            }
            _ => source.address(&arguments),
        };
        let mut inputs = exec::Addresses::with_capacity(plan.inputs.len());
        let addresses = plan.inputs.iter().zip(written).try_for_each(|(source, written)| {
            inputs.push(address(source, *written)?);
            Ok(())
        });
        let lies_in_an_argument = |result: usize| homes[result].is_some();
        let run = |()| exec::run(program, &inputs, lies_in_an_argument, &plan.origins);
        let results = addresses.and_then(run);
        let results = match results {
            Ok(results) => results,
            Err(error) => {
                let mut before = arguments.drain(..count);
                *state = state.map(|leaf| before.next().unwrap_or_else(|| leaf.clone()));
                return Err(error);
            }
        };
        let origin = Location::caller();
        let mut leaves = plan.leaves.iter().map(|leaf| match leaf {
            Ok(number) => match homes[*number] {
                Some(argument) => arguments[argument].clone(),
                None => results[*number]
                    .clone()
                    .map_or_else(|| plan.nothing.clone(), |array| Tensor::leaf_at(array, origin)),
            },
            Err(captured) => Tensor::leaf_at(captured.clone(), origin),
        });
        let next = |leaf: Option<Tensor>| leaf.unwrap_or_else(|| plan.nothing.clone());
        let (state_after, rest) = plan.results.rebuild(&Branch::root(), &mut |_, _| next(leaves.next()));
        *state = state_after;
        Ok(rest)
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

    /// The program that writes its first results over the first arguments where it can.
    fn over_arguments(&self, count: usize) -> OverArguments {
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
        OverArguments { program, homes, written }
    }
}

impl<F, R> fmt::Debug for Compiled<F, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        write!(formatter, "a compiled function with {} plans", plans.len())
    }
}
