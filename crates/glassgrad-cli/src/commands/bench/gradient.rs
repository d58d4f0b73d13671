//! The gradient of a function of a tree, and the judge of all gradients.

use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, grad};

use super::data::direction;
use super::workload::{Workload, agree};

/// A number computed from parameters and data.
pub(super) type Function<P, D> = fn(&P, &D) -> Tensor;

/// The gradient at one point, computed anew in each run.
pub(super) struct Gradient<P, D> {
    function: Function<P, D>,
    point: P,
    data: D,
    last: Vec<Tensor>,
}

impl<P: Tree, D: Tree> Gradient<P, D> {
    pub(super) fn new(function: Function<P, D>, point: P, data: D) -> Self {
        Gradient { function, point, data, last: Vec::new() }
    }
}

impl<P: Tree, D: Tree> Workload for Gradient<P, D> {
    fn run(&mut self) -> Result<(), Error> {
        self.last = grad(|point: &P| (self.function)(point, &self.data))(&self.point).realise()?.flatten();
        Ok(())
    }

    fn forward(&mut self) -> Result<(), Error> {
        (self.function)(&self.point, &self.data).eval().map(drop)
    }

    /// The derivative along the direction.
    fn value(&self) -> f64 {
        let Ok(numbers) = numbers(&self.last) else { return f64::NAN };
        numbers.iter().zip(direction(numbers.len())).map(|(slope, step)| slope * step).sum()
    }

    fn results(&self) -> Vec<Tensor> {
        grad(|point: &P| (self.function)(point, &self.data))(&self.point).flatten()
    }

    fn check(&self) -> Result<(), String> {
        check_gradient(self.function, &self.point, &self.data)
    }
}

/// Compares a gradient along a direction with central differences of the function in 64 bits.
pub(super) fn check_gradient<P: Tree, D: Tree>(function: Function<P, D>, point: &P, data: &D) -> Result<(), String> {
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
    // Short, because of the kinks: the more rectified neurons switch on the way, the less the differences tell. Rounding
    // leaves eight digits all the same.
    const STEP: f64 = 1e-8;
    // 32-bit gradients are sums of many terms. What is wrong by a thousandth of their norm is noticed.
    const TOLERANCE: f64 = 1e-3;
    let attempt = || -> Result<(f64, f64, f64), Error> {
        let slope = numbers(&grad(|point: &P| function(point, given_data))(given).realise()?.flatten())?;
        let norm = slope.iter().map(|slope| slope * slope).sum::<f64>().sqrt();
        let along = slope.iter().zip(direction(slope.len())).map(|(slope, step)| slope * step).sum();
        let data = in_f64(data).realise()?;
        let moved = |step: f64| {
            let mut direction = direction(slope.len());
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
