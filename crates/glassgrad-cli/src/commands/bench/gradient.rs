//! The gradient of a function of a tree, and the finite-difference check of all gradients.

use glassgrad::compile::Compiled;
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, grad};

use super::data::direction;
use super::workload::{Workload, agree};

/// A number computed from parameters and data.
pub(super) type Function<P, D> = fn(&P, &D) -> Tensor;

/// A function of a point and data, and one of both at once.
type Derivative<P, D> = Box<dyn Fn(&(P, D)) -> P>;

/// The gradient at one point, compiled once and computed anew in each run.
pub(super) struct Gradient<P, D> {
    function: Function<P, D>,
    arguments: (P, D),
    compiled: Compiled<Derivative<P, D>, P>,
    last: Vec<Tensor>,
}

impl<P: Tree + 'static, D: Tree + 'static> Gradient<P, D> {
    pub(super) fn new(function: Function<P, D>, point: P, data: D) -> Self {
        let derivative: Derivative<P, D> =
            Box::new(move |(point, data)| grad(|point: &P| function(point, data))(point));
        Gradient { function, arguments: (point, data), compiled: compile(derivative), last: Vec::new() }
    }
}

impl<P: Tree + 'static, D: Tree + 'static> Workload for Gradient<P, D> {
    fn run(&mut self) -> Result<(), Error> {
        self.last = self.compiled.call(&self.arguments)?.flatten();
        Ok(())
    }

    fn forward(&mut self) -> Result<(), Error> {
        (self.function)(&self.arguments.0, &self.arguments.1).eval().map(drop)
    }

    /// The derivative along the direction.
    fn value(&self) -> f64 {
        let Ok(numbers) = numbers(&self.last) else { return f64::NAN };
        // Of many numbers the first will do.
        numbers.iter().zip(direction(numbers.len().min(MOST_CHECKED))).map(|(partial, step)| partial * step).sum()
    }

    fn results(&self) -> Vec<Tensor> {
        let (point, data) = &self.arguments;
        grad(|point: &P| (self.function)(point, data))(point).flatten()
    }

    fn check(&self) -> Result<(), String> {
        check_gradient(self.function, &self.arguments.0, &self.arguments.1)
    }
}

/// The most numbers that are compared along a direction: more take longer than what is measured.
const MOST_CHECKED: usize = 1 << 22;

/// Compares a gradient along a direction with central differences of the function in 64 bits. Of larger functions the first
/// losses are compared with those of other engines, by `bench/run gpu`.
pub(super) fn check_gradient<P: Tree, D: Tree>(function: Function<P, D>, point: &P, data: &D) -> Result<(), String> {
    if point.flatten().iter().map(|leaf| leaf.shape().elements()).sum::<usize>() > MOST_CHECKED {
        return Ok(());
    }
    check(function, point, point, data, data)
}

/// [`check_gradient`] with the gradient in 64 bits too. In a deep network rounding to 32 bits decides on the side of some
/// rectified neurons, which then differ from those in 64 bits by the whole of their derivative; the losses of other engines
/// judge the gradient in 32 bits.
pub(super) fn check_gradient_in_f64<P: Tree, D: Tree>(
    function: Function<P, D>,
    point: &P,
    data: &D,
) -> Result<(), String> {
    let attempt = || -> Result<(P, D), Error> { Ok((in_f64(point).realise()?, in_f64(data).realise()?)) };
    let (wide, wide_data) = attempt().map_err(|error| error.to_string())?;
    check(function, point, &wide, data, &wide_data)
}

/// Compares the gradient at `given` with central differences at the same point in 64 bits.
fn check<P: Tree, D: Tree>(
    function: Function<P, D>,
    point: &P,
    given: &P,
    data: &D,
    given_data: &D,
) -> Result<(), String> {
    // Short, because of the kinks: the more rectified neurons switch on the way, the less accurate the differences are. Rounding
    // leaves eight digits all the same.
    const STEP: f64 = 1e-8;
    // 32-bit gradients are sums of many terms. What is wrong by a thousandth of their norm is noticed.
    const TOLERANCE: f64 = 1e-3;
    let attempt = || -> Result<(f64, f64, f64), Error> {
        let gradient = numbers(&grad(|point: &P| function(point, given_data))(given).realise()?.flatten())?;
        let norm = gradient.iter().map(|partial| partial * partial).sum::<f64>().sqrt();
        let along = gradient.iter().zip(direction(gradient.len())).map(|(partial, step)| partial * step).sum();
        let data = in_f64(data).realise()?;
        let moved = |step: f64| {
            let mut direction = direction(gradient.len());
            in_f64(point).map(|leaf| {
                let steps: Vec<f64> = direction.by_ref().take(leaf.shape().elements()).map(|d| step * d).collect();
                leaf + Tensor::new(&steps, leaf.shape().clone())
            })
        };
        let value = |step: f64| function(&moved(step), &data).item();
        Ok((along, (value(STEP)? - value(-STEP)?) / (2.0 * STEP), norm))
    };
    let (along, difference, norm) = attempt().map_err(|error| error.to_string())?;
    agree("the gradient", along, difference, TOLERANCE * norm)
}

fn in_f64<T: Tree>(tree: &T) -> T {
    tree.map(|leaf| if leaf.is_float() { leaf.cast(DType::F64) } else { leaf.clone() })
}

/// The elements of all leaves, one after the other.
fn numbers(leaves: &[Tensor]) -> Result<Vec<f64>, Error> {
    let lists: Vec<Vec<f64>> = leaves.iter().map(Tensor::to_f64_vec).collect::<Result<_, _>>()?;
    Ok(lists.concat())
}
