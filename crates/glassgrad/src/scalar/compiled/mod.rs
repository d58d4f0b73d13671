//! Compiled tapes (feature `jit`): a recorded function as machine code for its value, gradient, tangent or Hessian product.
//!
//! A recording becomes a graph ([`graph`](self)), derivatives are graphs built by the rules of the table (`derivative`), rows are
//! lowered to machine instructions (`lower`), and Cranelift generates code (`codegen`). Comparisons on which the program
//! branched are guards, as in a [replay](crate::scalar::Tape::replay): where one comes out differently the code does not
//! hold, and [`Compiled`] records the function anew.
//!
//! Zero tangents and adjoints contribute nothing, also across an infinite partial. Testing for them would
//! cost more than the arithmetic, and matters only where a result is infinite or NaN; such points are evaluated again by the rules
//! themselves, so that compiled code agrees with the tape also there.

mod codegen;
mod derivative;
mod graph;
mod lower;

use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::scalar::{Dual, Mode, Recorded, Var};
use codegen::Code;
use graph::{Expr, Graph, Mask, Op};

/// What compiled code computes besides the results of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivative {
    /// Nothing: arguments x, results f(x).
    Value,
    /// The gradient of the first result: arguments x, results f(x) and ∇f₀(x).
    Gradient,
    /// A directional derivative: arguments x and v, results f(x) and J v.
    Tangent,
    /// The gradient of a weighted sum of the results: arguments x and w, results f(x) and Jᵀw.
    Pullback,
    /// The product of the first result's Hessian with a direction: arguments x and v, results f(x), ∇f₀(x) and H v.
    HessianProduct,
    /// The Jacobian: arguments x, results f(x) and J, row by row. Structural zeros cost nothing but a store;
    /// [`CompiledTape::compressed`] multiplies by constant directions, as the colors of a sparse Jacobian are.
    Jacobian,
}

/// Why a recording has no machine code: the processor is not supported, or the code is too large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    reason: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the recording cannot be compiled: {}; use Recorded::replay instead", self.reason)
    }
}

impl std::error::Error for CompileError {}

/// A comparison comes out differently at these arguments, so the program would take another branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardFailed {
    /// The number of the point in a batch, counted from 0.
    pub point: usize,
}

impl fmt::Display for GuardFailed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "a comparison comes out differently at point {} than when the tape was recorded; record it anew",
            self.point
        )
    }
}

impl std::error::Error for GuardFailed {}

/// A recording as machine code. It can be shared between threads.
///
/// ```
/// use glassgrad::scalar::{CompiledTape, Derivative, Recorded};
/// let recorded = Recorded::new(|x| x[0].ln() + x[0] * x[1] - x[1].sin(), &[2.0, 5.0]);
/// let compiled = CompiledTape::new(&recorded, Derivative::Gradient).unwrap();
/// let mut results = [0.0; 3];
/// compiled.evaluate(&[1.0, 0.0], &mut results).unwrap();
/// assert_eq!(results, [0.0, 1.0, 0.0]); // The value and the gradient.
/// ```
#[derive(Debug)]
pub struct CompiledTape {
    kind: Derivative,
    inputs: usize,
    outputs: usize,
    /// The constant directions that a Jacobian is multiplied by, if there are any.
    directions: Option<Vec<Vec<f64>>>,
    /// The nodes of the values, in which points with results that are not finite are interpreted.
    primal: Vec<Op>,
    primal_outputs: Vec<u32>,
    lowered: Vec<Op>,
    scalar: Code,
    vector: OnceLock<Option<Code>>,
    /// The lowered graph, from which the code of two points is generated on demand.
    plan: Plan,
    compile_time: Duration,
}

/// The roots of the lowered graph.
#[derive(Debug)]
struct Plan {
    roots: Vec<u32>,
    violated: u32,
}

impl CompiledTape {
    /// Compiles a recording. It may be replayed or dropped afterwards.
    ///
    /// # Errors
    /// If Cranelift does not support the processor, or cannot compile a function of this size.
    pub fn new(recorded: &Recorded<f64>, kind: Derivative) -> Result<Self, CompileError> {
        CompiledTape::compile(recorded, kind, None)
    }

    /// Compiles the products of the Jacobian with constant directions: arguments x, results f(x), and for each result its
    /// derivatives along all directions.
    ///
    /// ```
    /// use glassgrad::scalar::{CompiledTape, Recorded};
    /// // The Jacobian is diagonal: one direction is enough for all of its elements.
    /// let recorded = Recorded::several(|x, y| (y[0], y[1]) = (x[0].square(), x[1].square()), &[1.0, 1.0], 2);
    /// let compiled = CompiledTape::compressed(&recorded, &[vec![1.0, 1.0]]).unwrap();
    /// let mut results = [0.0; 4];
    /// compiled.evaluate(&[3.0, 5.0], &mut results).unwrap();
    /// assert_eq!(results, [9.0, 25.0, 6.0, 10.0]);
    /// ```
    ///
    /// # Errors
    /// As [`CompiledTape::new`].
    ///
    /// # Panics
    /// If a direction has not a number for each input.
    pub fn compressed(recorded: &Recorded<f64>, directions: &[Vec<f64>]) -> Result<Self, CompileError> {
        for direction in directions {
            assert_eq!(direction.len(), recorded.inputs().len(), "CompiledTape::compressed: a number for each input");
        }
        CompiledTape::compile(recorded, Derivative::Jacobian, Some(directions.to_vec()))
    }

    fn compile(
        recorded: &Recorded<f64>,
        kind: Derivative,
        directions: Option<Vec<Vec<f64>>>,
    ) -> Result<Self, CompileError> {
        let start = Instant::now();
        let graph = Graph::default();
        let inputs = recorded.inputs().len();
        let primal = derivative::primal(&graph, recorded);
        let primal_outputs: Vec<u32> = primal.outputs.iter().map(|output| graph.node_of(*output)).collect();
        let primal_nodes = graph.ops();

        let extra = |count: usize| -> Vec<Expr<'_>> { (0..count).map(|k| graph.input(inputs + k)).collect() };
        let one = Expr::Constant(1.0);
        let derivatives = match kind {
            Derivative::Value => Vec::new(),
            Derivative::Gradient => derivative::reverse(&graph, &[(primal.outputs[0], one)], inputs),
            Derivative::Tangent => derivative::forward(&graph, &extra(inputs), &primal.outputs),
            Derivative::Pullback => {
                let weighted: Vec<_> = primal.outputs.iter().copied().zip(extra(primal.outputs.len())).collect();
                derivative::reverse(&graph, &weighted, inputs)
            }
            Derivative::HessianProduct => {
                let gradient = derivative::reverse(&graph, &[(primal.outputs[0], one)], inputs);
                let product = derivative::forward(&graph, &extra(inputs), &gradient);
                gradient.into_iter().chain(product).collect()
            }
            Derivative::Jacobian => derivative::jacobian(&graph, &primal.outputs, inputs, directions.as_deref()),
        };
        let violated = primal.violations.iter().fold(Mask::Known(false), |any, guard| any | *guard);
        let violated = graph.select(violated, one, Expr::Constant(0.0));
        // Derivatives first: each is computed with the values that it needs, instead of after all values.
        let order = derivatives.iter().chain(&primal.outputs).chain([&violated]);
        let roots: Vec<u32> = order.map(|root| graph.node_of(*root)).collect();

        let lowered = Graph::default();
        let found = lower::lower(&graph, &lowered, &roots);
        let mut roots: Vec<u32> = found.into_iter().map(|root| lowered.node_of(root)).collect();
        let violated = roots.pop().expect("the condition of the guards");
        roots.rotate_left(derivatives.len());
        let outputs = primal.outputs.len();
        let scalar = codegen::generate(&lowered.ops(), &roots, violated, kind.arguments(inputs, outputs), 1)?;
        Ok(CompiledTape {
            kind,
            inputs,
            outputs,
            directions,
            primal: primal_nodes,
            primal_outputs,
            lowered: lowered.ops(),
            scalar,
            vector: OnceLock::new(),
            plan: Plan { roots, violated },
            compile_time: start.elapsed(),
        })
    }

    /// The number of arguments: the inputs, and the direction or the weights.
    pub fn arguments(&self) -> usize {
        self.kind.arguments(self.inputs, self.outputs)
    }

    /// The number of results: those of the function, and the derivative.
    pub fn results(&self) -> usize {
        self.plan.roots.len()
    }

    /// The operations that the code executes for one point, after common-subexpression elimination.
    pub fn operations(&self) -> usize {
        self.lowered.iter().filter(|op| !matches!(op, Op::Input(_) | Op::Constant(_))).count()
    }

    /// How long it took to compile.
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }

    /// Evaluates one point.
    ///
    /// # Errors
    /// If a guard fails; the results are then unspecified.
    ///
    /// # Panics
    /// If the slices have not as many numbers as [`CompiledTape::arguments`] and [`CompiledTape::results`] say.
    pub fn evaluate(&self, arguments: &[f64], results: &mut [f64]) -> Result<(), GuardFailed> {
        let given = (arguments.len(), results.len());
        assert_eq!(given, (self.arguments(), self.results()), "the numbers of arguments and results");
        with_scratch(self.scalar.scratch(), |scratch| self.evaluate_with(arguments, results, scratch))
    }

    fn evaluate_with(&self, arguments: &[f64], results: &mut [f64], scratch: &mut [f64]) -> Result<(), GuardFailed> {
        if self.scalar.run(arguments, results, scratch)[0] {
            return Err(GuardFailed { point: 0 });
        }
        self.repair(arguments, results);
        Ok(())
    }

    /// Evaluates many points, two at once in vector registers and in parallel on `threads` threads. Arguments and results of the
    /// points lie behind each other.
    ///
    /// ```
    /// use glassgrad::scalar::{CompiledTape, Derivative, Recorded};
    /// let recorded = Recorded::new(|x| x[0] * x[1], &[1.0, 1.0]);
    /// let compiled = CompiledTape::new(&recorded, Derivative::Gradient).unwrap();
    /// let mut results = [0.0; 9];
    /// compiled.evaluate_batch(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0], &mut results, 1).unwrap();
    /// assert_eq!(results, [6.0, 3.0, 2.0, 20.0, 5.0, 4.0, 42.0, 7.0, 6.0]);
    /// ```
    ///
    /// # Errors
    /// If a guard fails at some point; the first such point is named. The results of all others are valid.
    ///
    /// # Panics
    /// If the slices have not as many numbers for each point as [`CompiledTape::arguments`] and [`CompiledTape::results`] say.
    pub fn evaluate_batch(&self, arguments: &[f64], results: &mut [f64], threads: usize) -> Result<(), GuardFailed> {
        let (width, height) = (self.arguments(), self.results());
        let points = results.len() / height.max(1);
        assert_eq!((points * width, points * height), (arguments.len(), results.len()), "the numbers of all points");
        let share = points.div_ceil(threads.max(1)).next_multiple_of(2).max(2);
        if share >= points {
            return self.evaluate_share(arguments, results).map_or(Ok(()), |point| Err(GuardFailed { point }));
        }
        let failed = std::thread::scope(|scope| {
            let shares = arguments.chunks(share * width).zip(results.chunks_mut(share * height));
            let handles: Vec<_> =
                shares.map(|(arguments, results)| scope.spawn(|| self.evaluate_share(arguments, results))).collect();
            let found = handles.into_iter().enumerate().map(|(number, handle)| {
                handle.join().expect("compiled code does not panic").map(|point| number * share + point)
            });
            found.collect::<Vec<_>>().into_iter().flatten().next()
        });
        failed.map_or(Ok(()), |point| Err(GuardFailed { point }))
    }

    /// Evaluates points on this thread, and returns the first at which a guard fails.
    fn evaluate_share(&self, arguments: &[f64], results: &mut [f64]) -> Option<usize> {
        let (width, height) = (self.arguments(), self.results());
        let points = results.len() / height.max(1);
        let vector = if points > 1 { self.vector_code() } else { None };
        let scratch = self.scalar.scratch().max(vector.map_or(0, Code::scratch));
        let mut failed = None;
        with_scratch(scratch, |scratch| {
            let mut point = 0;
            while point < points {
                let lanes = if vector.is_some() && point + 1 < points { 2 } else { 1 };
                let arguments = &arguments[point * width..][..lanes * width];
                let results = &mut results[point * height..][..lanes * height];
                let code = vector.filter(|_| lanes == 2).unwrap_or(&self.scalar);
                let violated = code.run(arguments, results, scratch);
                let lines = arguments.chunks(width.max(1)).zip(results.chunks_mut(height.max(1)));
                for (lane, (arguments, results)) in lines.enumerate() {
                    if violated[lane] {
                        failed.get_or_insert(point + lane);
                    } else {
                        self.repair(arguments, results);
                    }
                }
                point += lanes;
            }
        });
        failed
    }

    /// The code for two points, generated when a batch is first evaluated; the scalar code serves where it cannot be.
    fn vector_code(&self) -> Option<&Code> {
        let generate =
            || codegen::generate(&self.lowered, &self.plan.roots, self.plan.violated, self.arguments(), 2).ok();
        self.vector.get_or_init(generate).as_ref()
    }

    /// Evaluates a point with results that are not finite once more, by the rules with strong zeros.
    fn repair(&self, arguments: &[f64], results: &mut [f64]) {
        // Without an early exit, so that the loop has no branches.
        if !results.iter().fold(true, |finite, result| finite & result.is_finite()) {
            self.interpret(arguments, results);
        }
    }

    /// The graph of the values, recorded on a tape.
    fn recorded_at(&self, x: &[f64]) -> Recorded<f64> {
        Recorded::several(
            |x, y| {
                let numbers = graph::interpret(&self.primal, x);
                y.iter_mut().zip(&self.primal_outputs).for_each(|(y, node)| *y = numbers[*node as usize]);
            },
            x,
            self.outputs,
        )
    }

    #[cold]
    fn interpret(&self, arguments: &[f64], results: &mut [f64]) {
        let (x, extra) = arguments.split_at(self.inputs);
        let (values, derivative) = results.split_at_mut(self.outputs);
        let number = graph::interpret(&self.primal, x);
        for (value, node) in values.iter_mut().zip(&self.primal_outputs) {
            *value = number[*node as usize];
        }
        match self.kind {
            Derivative::Value => {}
            Derivative::Gradient => derivative.copy_from_slice(&self.recorded_at(x).gradient()),
            Derivative::Pullback => derivative.copy_from_slice(&self.recorded_at(x).vjp(extra)),
            Derivative::Jacobian => match &self.directions {
                None => derivative.copy_from_slice(self.recorded_at(x).jacobian(Mode::Auto).elements()),
                Some(directions) => {
                    let products = self.recorded_at(x).jvps(directions);
                    for (place, derivative) in derivative.iter_mut().enumerate() {
                        *derivative = products[place % directions.len()][place / directions.len()];
                    }
                }
            },
            Derivative::Tangent => {
                let seeded: Vec<Dual<f64>> = x.iter().zip(extra).map(|(x, v)| Dual::new(*x, [*v])).collect();
                let numbers = graph::interpret(&self.primal, &seeded);
                for (tangent, node) in derivative.iter_mut().zip(&self.primal_outputs) {
                    *tangent = numbers[*node as usize].tangent();
                }
            }
            Derivative::HessianProduct => {
                let seeded: Vec<Dual<f64>> = x.iter().zip(extra).map(|(x, v)| Dual::new(*x, [*v])).collect();
                let output = self.primal_outputs[0] as usize;
                let moving = Recorded::new(|x| graph::interpret(&self.primal, x)[output], &seeded).gradient();
                let (gradient, product) = derivative.split_at_mut(self.inputs);
                // The gradient by itself: a zero adjoint that moves is no strong zero, and its product with an infinite
                // partial is NaN.
                gradient.copy_from_slice(&self.recorded_at(x).gradient());
                product.iter_mut().zip(moving).for_each(|(product, partial)| *product = partial.tangent());
            }
        }
    }
}

impl Derivative {
    fn arguments(self, inputs: usize, outputs: usize) -> usize {
        match self {
            Derivative::Value | Derivative::Gradient | Derivative::Jacobian => inputs,
            Derivative::Tangent | Derivative::HessianProduct => 2 * inputs,
            Derivative::Pullback => inputs + outputs,
        }
    }
}

/// Calls with scratch memory of this thread, which is kept from one call to the next.
fn with_scratch<R>(length: usize, work: impl FnOnce(&mut [f64]) -> R) -> R {
    thread_local! {
        static SCRATCH: Cell<Vec<f64>> = const { Cell::new(Vec::new()) };
    }
    let mut scratch = SCRATCH.take();
    if scratch.len() < length {
        scratch.resize(length, 0.0);
    }
    let result = work(&mut scratch[..length]);
    SCRATCH.set(scratch);
    result
}

/// How many recordings, one for each combination of branches, are kept.
const VARIANTS: usize = 16;

/// A function that is recorded and compiled when it is first evaluated, and anew where it takes other branches.
///
/// ```
/// use glassgrad::scalar::Compiled;
/// let mut f = Compiled::new(|x| if x[0] > 0.0 { x[0].square() } else { -x[0] });
/// let mut gradient = [0.0];
/// assert_eq!((f.gradient(&[3.0], &mut gradient).unwrap(), gradient), (9.0, [6.0]));
/// assert_eq!((f.gradient(&[-2.0], &mut gradient).unwrap(), gradient), (2.0, [-1.0]));
/// assert_eq!((f.gradient(&[5.0], &mut gradient).unwrap(), f.recordings()), (25.0, 2));
/// ```
#[derive(Debug)]
pub struct Compiled<F> {
    function: F,
    /// The recordings used last stand first.
    variants: Vec<CompiledTape>,
    recordings: usize,
    buffer: Vec<f64>,
}

impl<F> Compiled<F>
where
    F: for<'t> Fn(&[Var<'t>]) -> Var<'t>,
{
    /// A function that has not been recorded yet.
    pub fn new(function: F) -> Self {
        Compiled { function, variants: Vec::new(), recordings: 0, buffer: Vec::new() }
    }

    /// How often the function was recorded and compiled.
    pub fn recordings(&self) -> usize {
        self.recordings
    }

    /// The value.
    ///
    /// # Errors
    /// If a recording cannot be compiled.
    pub fn value(&mut self, x: &[f64]) -> Result<f64, CompileError> {
        self.run(Derivative::Value, x, x)?;
        Ok(self.buffer[0])
    }

    /// The value, and the gradient into a slice.
    ///
    /// # Errors
    /// If a recording cannot be compiled.
    ///
    /// # Panics
    /// If the slice has another length than the point.
    pub fn gradient(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, CompileError> {
        self.run(Derivative::Gradient, x, x)?;
        gradient.copy_from_slice(&self.buffer[1..]);
        Ok(self.buffer[0])
    }

    /// The value and the derivative along a direction.
    ///
    /// # Errors
    /// If a recording cannot be compiled.
    pub fn tangent(&mut self, x: &[f64], direction: &[f64]) -> Result<(f64, f64), CompileError> {
        self.run(Derivative::Tangent, x, &[x, direction].concat())?;
        Ok((self.buffer[0], self.buffer[1]))
    }

    /// The value, and the product of the Hessian with a direction into a slice.
    ///
    /// # Errors
    /// If a recording cannot be compiled.
    ///
    /// # Panics
    /// If the slice has another length than the point.
    pub fn hvp(&mut self, x: &[f64], direction: &[f64], product: &mut [f64]) -> Result<f64, CompileError> {
        self.run(Derivative::HessianProduct, x, &[x, direction].concat())?;
        product.copy_from_slice(&self.buffer[1 + x.len()..]);
        Ok(self.buffer[0])
    }

    /// Evaluates a variant whose guards hold, or records a new one.
    fn run(&mut self, kind: Derivative, x: &[f64], arguments: &[f64]) -> Result<(), CompileError> {
        for (place, variant) in self.variants.iter().enumerate() {
            if variant.kind != kind || variant.inputs != x.len() {
                continue;
            }
            self.buffer.resize(variant.results(), 0.0);
            if variant.evaluate(arguments, &mut self.buffer).is_ok() {
                self.variants[..=place].rotate_right(1);
                return Ok(());
            }
        }
        let recorded = Recorded::new(&self.function, x);
        let variant = CompiledTape::new(&recorded, kind)?;
        self.recordings += 1;
        self.buffer.resize(variant.results(), 0.0);
        variant.evaluate(arguments, &mut self.buffer).expect("the guards hold where they were recorded");
        self.variants.truncate(VARIANTS - 1);
        self.variants.insert(0, variant);
        Ok(())
    }
}
