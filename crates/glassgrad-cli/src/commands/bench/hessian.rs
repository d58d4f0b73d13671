//! The dense Hessian of a function of one tensor.

use glassgrad::compile::Compiled;
use glassgrad::error::Error;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, grad, hessian};

use super::data::direction;
use super::gradient::{Function, check_gradient};
use super::workload::{Workload, agree};

/// The Hessian as a function of the point and the data.
type Derivative<D> = Box<dyn Fn(&(Tensor, D)) -> Tensor>;

/// The Hessian at one point, compiled once and computed anew in each run.
pub(super) struct Hessian<D> {
    function: Function<Tensor, D>,
    arguments: (Tensor, D),
    compiled: Compiled<Derivative<D>, Tensor>,
    last: Option<Tensor>,
}

impl<D: Tree + 'static> Hessian<D> {
    pub(super) fn new(function: Function<Tensor, D>, point: Tensor, data: D) -> Self {
        let derivative: Derivative<D> = Box::new(move |(point, data)| hessian(|x: &Tensor| function(x, data))(point));
        Hessian { function, arguments: (point, data), compiled: compile(derivative), last: None }
    }
}

impl<D: Tree + 'static> Workload for Hessian<D> {
    fn run(&mut self) -> Result<(), Error> {
        self.last = Some(self.compiled.call(&self.arguments)?);
        Ok(())
    }

    fn forward(&mut self) -> Result<(), Error> {
        (self.function)(&self.arguments.0, &self.arguments.1).eval().map(drop)
    }

    /// The second derivative along the direction.
    fn value(&self) -> f64 {
        let Some(Ok(last)) = self.last.as_ref().map(Tensor::eval) else { return f64::NAN };
        let steps: Vec<f64> = direction(self.arguments.0.shape().elements()).collect();
        let row = |i: usize| (0..steps.len()).map(|j| last.buffer().get(i * steps.len() + j) * steps[j]).sum::<f64>();
        (0..steps.len()).map(|i| steps[i] * row(i)).sum()
    }

    fn results(&self) -> Vec<Tensor> {
        vec![hessian(|x: &Tensor| (self.function)(x, &self.arguments.1))(&self.arguments.0)]
    }

    fn check(&self) -> Result<(), String> {
        const STEP: f64 = 1e-5;
        // The error of the differences: h² from curvature, and 10⁻¹⁶/h from rounding, in sums of many terms.
        const TOLERANCE: f64 = 1e-6;
        let (point, data) = &self.arguments;
        check_gradient(self.function, point, data)?;
        let steps: Vec<f64> = direction(point.shape().elements()).collect();
        let steps = Tensor::new(&steps, point.shape().clone());
        let slope_along =
            |step: f64| grad(|x: &Tensor| (self.function)(x, data))(&(point + &steps * step)).inner(&steps).item();
        let difference = || Ok((slope_along(STEP)? - slope_along(-STEP)?) / (2.0 * STEP));
        let difference = difference().map_err(|error: Error| error.to_string())?;
        agree("the Hessian", self.value(), difference, TOLERANCE * difference.abs())
    }
}
