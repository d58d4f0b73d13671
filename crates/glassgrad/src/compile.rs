//! Functions compiled: the graph is built, differentiated and planned once, and then only run.

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use crate::array::Array;
use crate::diff::Outcome;
use crate::error::Error;
use crate::exec;
use crate::expr::Tensor;
use crate::opt::Leaf;
use crate::opt::program::{Program, Signature};
use crate::shape::Shape;
use crate::tree::Tree;

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

type Plans<R> = HashMap<Vec<Signature>, Arc<Plan<R>>>;

/// What was planned for arguments of some shapes.
struct Plan<R> {
    program: Arc<Program>,
    inputs: Vec<Source>,
    /// The results in their structure, and for each leaf where it comes from.
    results: R,
    leaves: Vec<Result<usize, Array>>,
    origins: Vec<&'static Location<'static>>,
}

/// Where an input of the program comes from: an argument, or what the function captured.
enum Source {
    Argument(usize),
    Captured(Array, usize),
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
        let arguments = x.flatten();
        let values = Tensor::eval_all(&arguments.iter().collect::<Vec<_>>())?;
        let plan = self.plan(x, &arguments)?;
        let inputs: Vec<(&Array, usize)> = plan
            .inputs
            .iter()
            .map(|source| match source {
                Source::Argument(number) => (&values[*number], 0),
                Source::Captured(array, start) => (array, *start),
            })
            .collect();
        let results = exec::run(&plan.program, &inputs, &plan.origins)?;
        let leaf = |source: &Result<usize, Array>| match source {
            Ok(number) => Tensor::leaf(results[*number].clone()),
            Err(captured) => Tensor::leaf(captured.clone()),
        };
        Ok(plan.results.with_leaves(plan.leaves.iter().map(leaf).collect()))
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
        Ok(Arc::clone(&self.plan(x, &x.flatten())?.program))
    }

    #[track_caller]
    fn plan<X: Tree, O: Outcome<Tree = R>>(&self, x: &X, arguments: &[Tensor]) -> Result<Arc<Plan<R>>, Error>
    where
        F: Fn(&X) -> O,
    {
        let shapes: Vec<Signature> = arguments.iter().map(|leaf| (leaf.shape().clone(), leaf.dtype())).collect();
        let plans = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans().get(&shapes) {
            return Ok(Arc::clone(plan));
        }
        let plan = Arc::new(self.build(x)?);
        plans().insert(shapes, Arc::clone(&plan));
        Ok(plan)
    }

    #[track_caller]
    fn build<X: Tree, O: Outcome<Tree = R>>(&self, x: &X) -> Result<Plan<R>, Error>
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
        let numbers: HashMap<u64, usize> =
            extract.results().enumerate().map(|(number, node)| (node.id, number)).collect();
        let unknown = || Error::new("compile", "an argument of another function is not known here");
        let leaves = roots.iter().map(|root| match numbers.get(&root.0.id) {
            Some(number) => Ok(Ok(*number)),
            None => root.0.value().cloned().map(Err).ok_or_else(unknown),
        });
        let leaves = leaves.collect::<Result<Vec<_>, Error>>()?;
        let inputs = extract.leaves.iter().map(|leaf| match leaf {
            Leaf::Known(array, start) => Ok(Source::Captured(array.clone(), *start)),
            Leaf::Argument(id) => arguments.get(id).map(|number| Source::Argument(*number)).ok_or_else(unknown),
        });
        let inputs = inputs.collect::<Result<Vec<_>, Error>>()?;
        let program = exec::program_for(&extract);
        // Only the structure of the results stays, not the graph behind them.
        let results = results.map(|leaf| Tensor::placeholder(Shape::scalar(), leaf.dtype()));
        Ok(Plan { program, inputs, results, leaves, origins: extract.origins })
    }
}

impl<F, R> fmt::Debug for Compiled<F, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        write!(formatter, "a compiled function with {} plans", plans.len())
    }
}
