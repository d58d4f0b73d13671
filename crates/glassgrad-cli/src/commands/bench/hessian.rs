//! The dense Hessian of a function of one tensor.

use glassgrad::array::Array;
use glassgrad::error::Error;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, grad, hessian};

use super::data::direction;
use super::gradient::{Function, check_gradient};
use super::workload::{Workload, agree};

/// The Hessian at one point, computed anew in each run.
pub(super) struct Hessian<D> {
    function: Function<Tensor, D>,
    point: Tensor,
    data: D,
    last: Option<Array>,
}

impl<D: Tree> Hessian<D> {
    pub(super) fn new(function: Function<Tensor, D>, point: Tensor, data: D) -> Self {
        Hessian { function, point, data, last: None }
    }
}

impl<D: Tree> Workload for Hessian<D> {
    fn run(&mut self) -> Result<(), Error> {
        self.last = Some(hessian(|x: &Tensor| (self.function)(x, &self.data))(&self.point).eval()?);
        Ok(())
    }

    fn forward(&mut self) -> Result<(), Error> {
        (self.function)(&self.point, &self.data).eval().map(drop)
    }

    /// The second derivative along the direction.
    fn value(&self) -> f64 {
        let Some(last) = &self.last else { return f64::NAN };
        let steps: Vec<f64> = direction(self.point.shape().elements()).collect();
        let row = |i: usize| (0..steps.len()).map(|j| last.buffer().get(i * steps.len() + j) * steps[j]).sum::<f64>();
        (0..steps.len()).map(|i| steps[i] * row(i)).sum()
    }

    fn results(&self) -> Vec<Tensor> {
        vec![hessian(|x: &Tensor| (self.function)(x, &self.data))(&self.point)]
    }

    fn check(&self) -> Result<(), String> {
        const STEP: f64 = 1e-5;
        // The error of the differences: h² from curvature, and 10⁻¹⁶/h from rounding, in sums of many terms.
        const TOLERANCE: f64 = 1e-6;
        check_gradient(self.function, &self.point, &self.data)?;
        let steps: Vec<f64> = direction(self.point.shape().elements()).collect();
        let steps = Tensor::new(&steps, self.point.shape().clone());
        let slope_along = |step: f64| {
            grad(|x: &Tensor| (self.function)(x, &self.data))(&(&self.point + &steps * step)).inner(&steps).item()
        };
        let difference = || Ok((slope_along(STEP)? - slope_along(-STEP)?) / (2.0 * STEP));
        let difference = difference().map_err(|error: Error| error.to_string())?;
        agree("the Hessian", self.value(), difference, TOLERANCE * difference.abs())
    }
}
