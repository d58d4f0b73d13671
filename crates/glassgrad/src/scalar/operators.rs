//! Differential operators on plain functions.
//!
//! A function of several numbers is written `Fn(&[T]) -> T`, one with several results
//! `Fn(&[T], &mut [T])`. Reverse-mode operators hand it variables of a tape of their own, so a
//! generic function `f` is passed as `|x| f(x)`. All operators are generic in the number that they
//! differentiate, and can be used inside one another: each level has a type of its own, so nested
//! derivatives are never confused.

use crate::algebra::c;
use crate::ops::Real;
use crate::scalar::statement::StatementTape;
use crate::scalar::tape::Operand;
use crate::scalar::{Active, Dual, Matrix, NodeId, ReplayError, Sweep, Tape, Taylor, TaylorPool, Var};

/// How many tangents a Hessian carries at once.
const LANES: usize = 4;

/// How many tangents or adjoints a sweep over a tape computes at once: a cache line of `f64`.
const SWEEP_LANES: usize = 8;

/// The direction in which a Jacobian is accumulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// One sweep for each input.
    Forward,
    /// One sweep for each output.
    Reverse,
    /// Whichever needs fewer sweeps.
    #[default]
    Auto,
}

/// A function recorded at a point: values, derivatives in both modes, and replay at other points.
///
/// ```
/// use glassgrad::scalar::Recorded;
/// let mut f = Recorded::new(|x| x[0].ln() + x[0] * x[1] - x[1].sin(), &[2.0, 5.0]);
/// assert_eq!(f.gradient()[0], 5.5);
/// f.replay(&[1.0, 0.0]).unwrap();
/// assert_eq!((f.value(), f.gradient()), (0.0, vec![1.0, 0.0]));
/// ```
#[derive(Debug)]
pub struct Recorded<T = f64> {
    tape: Tape<T>,
    inputs: Vec<NodeId>,
    outputs: Vec<Operand<T>>,
}

impl<T: Real> Recorded<T> {
    /// Records a function with one result.
    pub fn new(function: impl for<'t> FnOnce(&[Var<'t, T>]) -> Var<'t, T>, x: &[T]) -> Self {
        Recorded::on(Tape::new(), function, x)
    }

    /// Records a function with one result on a tape whose memory is used again.
    pub fn on(mut tape: Tape<T>, function: impl for<'t> FnOnce(&[Var<'t, T>]) -> Var<'t, T>, x: &[T]) -> Self {
        tape.clear();
        let variables = tape.inputs(x);
        let output = function(&variables);
        let outputs = vec![output.id().map_or(Operand::Constant(output.value()), Operand::Node)];
        let inputs = variables.into_iter().map(NodeId::from).collect();
        Recorded { tape, inputs, outputs }
    }

    /// Records a function that writes `results` results.
    pub fn several(function: impl for<'t> FnOnce(&[Var<'t, T>], &mut [Var<'t, T>]), x: &[T], results: usize) -> Self {
        let tape = Tape::new();
        let variables = tape.inputs(x);
        let mut outputs = vec![Var::constant(c(0.0)); results];
        function(&variables, &mut outputs);
        let outputs = outputs.into_iter().map(|y| y.id().map_or(Operand::Constant(y.value()), Operand::Node)).collect();
        let inputs = variables.into_iter().map(NodeId::from).collect();
        Recorded { tape, inputs, outputs }
    }

    /// The tape, with every node of the computation.
    pub fn tape(&self) -> &Tape<T> {
        &self.tape
    }

    /// Gives the tape back, so that its memory can serve another recording.
    pub fn into_tape(self) -> Tape<T> {
        self.tape
    }

    /// The nodes of the inputs.
    pub fn inputs(&self) -> &[NodeId] {
        &self.inputs
    }

    /// The node of the only result, or of the first; `None` if it depends on no input.
    pub fn output(&self) -> Option<NodeId> {
        match self.outputs[0] {
            Operand::Node(id) => Some(id),
            Operand::Constant(_) => None,
        }
    }

    /// The outputs: nodes, or constants where a result depends on no input.
    pub fn outputs(&self) -> &[Operand<T>] {
        &self.outputs
    }

    /// Evaluates the recording at other inputs; see [`Tape::replay`].
    pub fn replay(&mut self, x: &[T]) -> Result<(), ReplayError> {
        self.tape.replay(x)
    }

    /// The results.
    pub fn values(&self) -> Vec<T> {
        let value = |output: &Operand<T>| match output {
            Operand::Node(id) => self.tape.value(*id),
            Operand::Constant(value) => *value,
        };
        self.outputs.iter().map(value).collect()
    }

    /// The only result, or the first of several.
    pub fn value(&self) -> T {
        self.values()[0]
    }

    /// The gradient of the only result, or of the first of several.
    pub fn gradient(&self) -> Vec<T> {
        let mut gradient = Vec::with_capacity(self.inputs.len());
        self.gradient_into(&mut Sweep::new(), &mut gradient);
        gradient
    }

    /// The gradient into memory that is used again, for loops that replay.
    pub fn gradient_into(&self, sweep: &mut Sweep<T>, gradient: &mut Vec<T>) {
        gradient.clear();
        match self.output() {
            None => gradient.resize(self.inputs.len(), c(0.0)),
            Some(output) => {
                self.tape.reverse_into(&[(output, c(1.0))], sweep);
                gradient.extend(self.inputs.iter().map(|input| sweep.of(*input)));
            }
        }
    }

    /// The derivative along a direction, Jv.
    pub fn jvp(&self, direction: &[T]) -> Vec<T> {
        let mut sweep = Sweep::new();
        let seeds: Vec<_> = self.inputs.iter().copied().zip(direction.iter().copied()).collect();
        self.tape.forward_into(&seeds, &mut sweep);
        self.outputs.iter().map(|output| derivative_of(*output, &sweep)).collect()
    }

    /// The gradient of a weighted sum of the results, Jᵀw.
    pub fn vjp(&self, weights: &[T]) -> Vec<T> {
        let mut sweep = Sweep::new();
        let seeds: Vec<_> = self
            .outputs
            .iter()
            .zip(weights)
            .filter_map(|(output, weight)| match output {
                Operand::Node(id) => Some((*id, *weight)),
                Operand::Constant(_) => None,
            })
            .collect();
        self.tape.reverse_into(&seeds, &mut sweep);
        self.inputs.iter().map(|input| sweep.of(*input)).collect()
    }

    /// The derivatives along several directions: a sweep computes eight at a time.
    ///
    /// # Panics
    /// If a direction has not a number for each input.
    pub fn jvps(&self, directions: &[Vec<T>]) -> Vec<Vec<T>> {
        let mut products = Vec::with_capacity(directions.len());
        for group in directions.chunks(SWEEP_LANES) {
            let seeds = lanes_of(group, self.inputs.iter().copied().map(Some));
            let tangents = self.tape.forward_lanes(&seeds);
            products.extend((0..group.len()).map(|lane| {
                let tangent = |output: &Operand<T>| match output {
                    Operand::Node(id) => tangents[id.index()][lane],
                    Operand::Constant(_) => c(0.0),
                };
                self.outputs.iter().map(tangent).collect()
            }));
        }
        products
    }

    /// The gradients of several weighted sums of the results: a sweep computes eight at a time.
    ///
    /// ```
    /// use glassgrad::scalar::Recorded;
    /// let f = Recorded::several(|x, y| (y[0], y[1]) = (x[0] * x[1], x[0].square()), &[2.0, 3.0], 2);
    /// assert_eq!(f.vjps(&[vec![1.0, 0.0], vec![1.0, 10.0]]), [[3.0, 2.0], [43.0, 2.0]]);
    /// ```
    ///
    /// # Panics
    /// If there is not a weight for each result.
    pub fn vjps(&self, weights: &[Vec<T>]) -> Vec<Vec<T>> {
        let node = |output: &Operand<T>| match output {
            Operand::Node(id) => Some(*id),
            Operand::Constant(_) => None,
        };
        let mut products = Vec::with_capacity(weights.len());
        for group in weights.chunks(SWEEP_LANES) {
            let adjoints = self.tape.reverse_lanes(&lanes_of(group, self.outputs.iter().map(node)));
            let adjoint = |lane: usize| self.inputs.iter().map(|input| adjoints[input.index()][lane]).collect();
            products.extend((0..group.len()).map(adjoint));
        }
        products
    }

    /// The Jacobian, one row for each result.
    pub fn jacobian(&self, mode: Mode) -> Matrix<T> {
        let (rows, columns) = (self.outputs.len(), self.inputs.len());
        let forward = match mode {
            Mode::Forward => true,
            Mode::Reverse => false,
            Mode::Auto => columns <= rows,
        };
        let mut jacobian = Matrix::zeros(rows, columns);
        let unit = |length: usize, place: usize| -> Vec<T> {
            (0..length).map(|k| c(if k == place { 1.0 } else { 0.0 })).collect()
        };
        if forward {
            for start in (0..columns).step_by(SWEEP_LANES) {
                let units: Vec<_> = (start..columns.min(start + SWEEP_LANES)).map(|k| unit(columns, k)).collect();
                for (column, tangents) in (start..).zip(self.jvps(&units)) {
                    for (row, partial) in tangents.into_iter().enumerate() {
                        jacobian[(row, column)] = partial;
                    }
                }
            }
        } else {
            for start in (0..rows).step_by(SWEEP_LANES) {
                let units: Vec<_> = (start..rows.min(start + SWEEP_LANES)).map(|k| unit(rows, k)).collect();
                for (row, adjoints) in (start..).zip(self.vjps(&units)) {
                    for (column, partial) in adjoints.into_iter().enumerate() {
                        jacobian[(row, column)] = partial;
                    }
                }
            }
        }
        jacobian
    }
}

/// The seeds of several sweeps at once, node by node; places without a node are left out.
fn lanes_of<T: Real>(
    group: &[Vec<T>],
    nodes: impl ExactSizeIterator<Item = Option<NodeId>>,
) -> Vec<(NodeId, [T; SWEEP_LANES])> {
    for seeds in group {
        assert_eq!(seeds.len(), nodes.len(), "a product needs as many numbers as the Jacobian has lines");
    }
    let lane = |place: usize, lane: usize| group.get(lane).map_or(c(0.0), |seeds| seeds[place]);
    let seeds = nodes.enumerate().filter_map(|(place, node)| Some((node?, std::array::from_fn(|k| lane(place, k)))));
    seeds.collect()
}

fn derivative_of<T: Real>(output: Operand<T>, sweep: &Sweep<T>) -> T {
    match output {
        Operand::Node(id) => sweep.of(id),
        Operand::Constant(_) => c(0.0),
    }
}

/// The gradient of a function, by one reverse sweep.
///
/// ```
/// use glassgrad::scalar::gradient;
/// assert_eq!(gradient(|x| (x[0] * x[1]) * (x[1] + 1.0), &[2.0, 3.0]), [12.0, 14.0]);
/// ```
pub fn gradient<T: Real>(function: impl for<'t> FnOnce(&[Active<'t, T>]) -> Active<'t, T>, x: &[T]) -> Vec<T> {
    value_and_gradient(function, x).1
}

/// The value and the gradient of a function.
pub fn value_and_gradient<T: Real>(
    function: impl for<'t> FnOnce(&[Active<'t, T>]) -> Active<'t, T>,
    x: &[T],
) -> (T, Vec<T>) {
    let mut workspace = Workspace::new();
    let value = workspace.value_and_gradient(function, x).0;
    (value, workspace.gradient)
}

/// Memory for gradients in a loop: tape, adjoints and result are used again, so that only the list of
/// variables that the function sees is allocated once the loop runs.
///
/// ```
/// use glassgrad::scalar::Workspace;
/// let mut workspace = Workspace::new();
/// let mut x = [3.0_f64, -2.0];
/// for _ in 0..100 {
///     let (_, gradient) = workspace.value_and_gradient(|x| x[0].square() + 2.0 * x[1].square(), &x);
///     x = [x[0] - 0.1 * gradient[0], x[1] - 0.1 * gradient[1]];
/// }
/// assert!(x[0].abs() < 1e-9 && x[1].abs() < 1e-9);
/// ```
#[derive(Debug)]
pub struct Workspace<T = f64> {
    tape: StatementTape<T>,
    gradient: Vec<T>,
}

impl<T: Real> Default for Workspace<T> {
    fn default() -> Self {
        Workspace::new()
    }
}

impl<T: Real> Workspace<T> {
    /// An empty workspace.
    pub fn new() -> Self {
        Workspace { tape: StatementTape::new(), gradient: Vec::new() }
    }

    /// The value and the gradient of a function.
    pub fn value_and_gradient(
        &mut self,
        function: impl for<'t> FnOnce(&[Active<'t, T>]) -> Active<'t, T>,
        x: &[T],
    ) -> (T, &[T]) {
        let output = function(&self.tape.start(x));
        let (value, output) = (output.value(), output.output());
        self.tape.pull_back([(output, c(1.0))], &mut self.gradient);
        (value, &self.gradient)
    }

    /// The results and the gradient of their sum with weights, (f(x), Jᵀw).
    pub fn vjp(
        &mut self,
        function: impl for<'t> FnOnce(&[Active<'t, T>], &mut [Active<'t, T>]),
        x: &[T],
        weights: &[T],
    ) -> (Vec<T>, &[T]) {
        let mut results = vec![Active::constant(c(0.0)); weights.len()];
        function(&self.tape.start(x), &mut results);
        let (values, outputs): (Vec<T>, Vec<_>) = results.iter().map(|y| (y.value(), y.output())).unzip();
        drop(results);
        self.tape.pull_back(outputs.into_iter().zip(weights.iter().copied()), &mut self.gradient);
        (values, &self.gradient)
    }

    /// The number of statements that the last function recorded: operations with two variable operands.
    pub fn statements(&mut self) -> usize {
        self.tape.len()
    }

    /// The bytes of the recording and its adjoints.
    pub fn bytes(&mut self) -> usize {
        self.tape.bytes()
    }
}

/// The derivative of a function of one number, forwards.
///
/// ```
/// use glassgrad::scalar::{Dual, derivative};
/// assert_eq!(derivative(|x| x * x * x, 2.0), 12.0);
/// // d/dx (x · d/dy (x + y)) = 1: the inner derivative sees x as a constant.
/// assert_eq!(derivative(|x| x * derivative(|y| Dual::constant(x) + y, x), 3.0), 1.0);
/// ```
pub fn derivative<T: Real>(function: impl FnOnce(Dual<T>) -> Dual<T>, x: T) -> T {
    function(Dual::variable(x)).tangent()
}

/// The value and all derivatives up to `order` of a function of one number.
///
/// ```
/// use glassgrad::scalar::derivatives;
/// assert_eq!(derivatives(|x| x * x * x, 2.0, 4), [8.0, 12.0, 12.0, 6.0, 0.0]);
/// ```
pub fn derivatives<T: Real>(
    function: impl for<'p> FnOnce(Taylor<'p, T>) -> Taylor<'p, T>,
    x: T,
    order: usize,
) -> Vec<T> {
    let mut factorial = 1.0;
    let coefficients = taylor(function, x, order);
    let scaled = coefficients.into_iter().enumerate().map(|(k, coefficient)| {
        factorial *= k.max(1) as f64;
        coefficient * c(factorial)
    });
    scaled.collect()
}

/// The coefficients of the Taylor series at a point, up to `order`.
///
/// ```
/// use glassgrad::scalar::taylor;
/// assert_eq!(taylor(|x| (1.0 - x).recip(), 0.0, 3), [1.0, 1.0, 1.0, 1.0]);
/// ```
pub fn taylor<T: Real>(function: impl for<'p> FnOnce(Taylor<'p, T>) -> Taylor<'p, T>, x: T, order: usize) -> Vec<T> {
    let pool = TaylorPool::new(order);
    let mut coefficients = function(pool.variable(x)).coefficients();
    coefficients.resize(order + 1, c(0.0));
    coefficients
}

/// The Jacobian of a function with `results` results, from one recording.
///
/// ```
/// use glassgrad::scalar::{Matrix, Mode, jacobian};
/// let j = jacobian(|x, y| (y[0], y[1]) = (2.0 * x[0], x[0] * x[1]), &[3.0, 4.0], 2, Mode::Auto);
/// assert_eq!(j, Matrix::from_rows([[2.0, 0.0], [4.0, 3.0]]));
/// ```
pub fn jacobian<T: Real>(
    function: impl for<'t> FnOnce(&[Var<'t, T>], &mut [Var<'t, T>]),
    x: &[T],
    results: usize,
    mode: Mode,
) -> Matrix<T> {
    Recorded::several(function, x, results).jacobian(mode)
}

/// The Jacobian without a tape: the function runs once for every `N` inputs, with `N` tangents at once.
///
/// ```
/// use glassgrad::scalar::{Matrix, jacobian_forward};
/// let j = jacobian_forward::<_, 2>(|x, y| y[0] = x[0] * x[1], &[3.0, 4.0], 1);
/// assert_eq!(j, Matrix::from_rows([[4.0, 3.0]]));
/// ```
pub fn jacobian_forward<T: Real, const N: usize>(
    function: impl Fn(&[Dual<T, N>], &mut [Dual<T, N>]),
    x: &[T],
    results: usize,
) -> Matrix<T> {
    let mut jacobian = Matrix::zeros(results, x.len());
    let mut y = vec![Dual::constant(c(0.0)); results];
    for start in (0..x.len()).step_by(N) {
        y.fill(Dual::constant(c(0.0))); // A function may add up its results in place.
        let seeded: Vec<Dual<T, N>> =
            x.iter().enumerate().map(|(k, x)| Dual::along(*x, k.wrapping_sub(start))).collect();
        function(&seeded, &mut y);
        for (row, y) in y.iter().enumerate() {
            for (lane, tangent) in y.tangents.iter().enumerate().take(x.len() - start) {
                jacobian[(row, start + lane)] = *tangent;
            }
        }
    }
    jacobian
}

/// The value and the derivative along a direction, (f(x), J v), forwards.
pub fn jvp<T: Real>(
    function: impl FnOnce(&[Dual<T>], &mut [Dual<T>]),
    x: &[T],
    direction: &[T],
    results: usize,
) -> (Vec<T>, Vec<T>) {
    let seeded: Vec<Dual<T>> = x.iter().zip(direction).map(|(x, v)| Dual::new(*x, [*v])).collect();
    let mut y = vec![Dual::constant(c(0.0)); results];
    function(&seeded, &mut y);
    y.into_iter().map(|y| (y.value, y.tangent())).unzip()
}

/// The value and the gradient of a weighted sum of the results, (f(x), Jᵀw), in reverse.
pub fn vjp<T: Real>(
    function: impl for<'t> FnOnce(&[Active<'t, T>], &mut [Active<'t, T>]),
    x: &[T],
    weights: &[T],
) -> (Vec<T>, Vec<T>) {
    let mut workspace = Workspace::new();
    let values = workspace.vjp(function, x, weights).0;
    (values, workspace.gradient)
}

/// The Hessian of a function, by reverse sweeps over a tape of dual numbers.
///
/// ```
/// use glassgrad::scalar::{Matrix, hessian};
/// let h = hessian(|x| x[0] * x[0] * x[1], &[2.0, 3.0]);
/// assert_eq!(h, Matrix::from_rows([[6.0, 4.0], [4.0, 0.0]]));
/// ```
pub fn hessian<T: Real>(
    function: impl for<'t> Fn(&[Active<'t, Dual<T, LANES>>]) -> Active<'t, Dual<T, LANES>>,
    x: &[T],
) -> Matrix<T> {
    let mut hessian = Matrix::zeros(x.len(), x.len());
    let mut workspace = Workspace::new();
    for start in (0..x.len()).step_by(LANES) {
        let seeded: Vec<_> = x.iter().enumerate().map(|(k, x)| Dual::along(*x, k.wrapping_sub(start))).collect();
        for (row, partial) in workspace.value_and_gradient(&function, &seeded).1.iter().enumerate() {
            for (lane, curvature) in partial.tangents.iter().enumerate().take(x.len() - start) {
                hessian[(row, start + lane)] = *curvature;
            }
        }
    }
    hessian
}

/// The product of the Hessian with a direction, H v, at the cost of a few gradients.
///
/// ```
/// use glassgrad::scalar::hvp;
/// assert_eq!(hvp(|x| x[0] * x[0] * x[1], &[2.0, 3.0], &[1.0, 10.0]), [46.0, 4.0]);
/// ```
pub fn hvp<T: Real>(
    function: impl for<'t> FnOnce(&[Active<'t, Dual<T>>]) -> Active<'t, Dual<T>>,
    x: &[T],
    direction: &[T],
) -> Vec<T> {
    let seeded: Vec<Dual<T>> = x.iter().zip(direction).map(|(x, v)| Dual::new(*x, [*v])).collect();
    gradient(function, &seeded).into_iter().map(Dual::tangent).collect()
}
