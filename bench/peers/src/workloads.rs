//! The functions whose gradients are compared, each written once for every number.

use crate::number::Number;

/// A function of several numbers, with the point at which its gradient is taken.
pub(crate) trait Workload {
    /// The name under which it is reported.
    fn name(&self) -> String;
    /// The point.
    fn point(&self) -> Vec<f64>;
    /// The function.
    fn evaluate<T: Number>(&self, x: &[T]) -> T;
}

/// The valley of Rosenbrock in `n` dimensions, Σ 100 (xᵢ₊₁ - xᵢ²)² + (1 - xᵢ)².
pub(crate) struct Rosenbrock {
    /// The number of inputs.
    pub(crate) n: usize,
}

impl Workload for Rosenbrock {
    fn name(&self) -> String {
        format!("Rosenbrock, n = {}", self.n)
    }

    fn point(&self) -> Vec<f64> {
        (0..self.n).map(|k| 0.5 + 0.3 * (k as f64).sin()).collect()
    }

    #[inline]
    fn evaluate<T: Number>(&self, x: &[T]) -> T {
        sum(x.windows(2).map(|pair| {
            let valley = pair[1] - pair[0] * pair[0];
            let distance = pair[0].subtracted_from(1.0);
            (valley * valley).times(100.0) + distance * distance
        }))
    }
}

/// ln Σ exp(xᵢ), shifted by the largest input.
pub(crate) struct LogSumExp {
    /// The number of inputs.
    pub(crate) n: usize,
}

impl Workload for LogSumExp {
    fn name(&self) -> String {
        format!("log-sum-exp, n = {}", self.n)
    }

    fn point(&self) -> Vec<f64> {
        (0..self.n).map(|k| 3.0 * (0.7 * k as f64).sin()).collect()
    }

    #[inline]
    fn evaluate<T: Number>(&self, x: &[T]) -> T {
        log_sum_exp(x)
    }
}

/// The log-likelihood of a mixture of Gaussians with diagonal covariances.
///
/// Parameters: one log-weight for each component (a softmax makes them weights), then all means,
/// then the logarithms of all standard deviations.
pub(crate) struct GaussianMixture {
    dimension: usize,
    components: usize,
    points: Vec<f64>,
}

impl GaussianMixture {
    /// A mixture of `components` Gaussians and `points` points scattered about as many centres.
    pub(crate) fn new(points: usize, dimension: usize, components: usize) -> Self {
        let mut random = Random(1);
        let centres: Vec<f64> = (0..components * dimension).map(|_| 4.0 * random.centred()).collect();
        let points = (0..points)
            .flat_map(|point| (0..dimension).map(move |axis| (point % components) * dimension + axis))
            .map(|place| centres[place] + random.centred() + random.centred() + random.centred())
            .collect();
        GaussianMixture { dimension, components, points }
    }
}

impl Workload for GaussianMixture {
    fn name(&self) -> String {
        let (d, k) = (self.dimension, self.components);
        format!("Gaussian mixture, {} points, d = {d}, {k} components", self.points.len() / d)
    }

    fn point(&self) -> Vec<f64> {
        let mut random = Random(2);
        let each = self.components * self.dimension;
        let weights = (0..self.components).map(|k| 0.1 * k as f64);
        let means: Vec<f64> = (0..each).map(|_| 4.0 * random.centred()).collect();
        let deviations: Vec<f64> = (0..each).map(|_| 0.5 * random.centred()).collect();
        weights.chain(means).chain(deviations).collect()
    }

    #[inline]
    fn evaluate<T: Number>(&self, x: &[T]) -> T {
        let (log_weights, rest) = x.split_at(self.components);
        let (means, log_deviations) = rest.split_at(self.components * self.dimension);
        let precisions: Vec<T> = log_deviations.iter().map(|s| s.times(-1.0).exp()).collect();
        let constants: Vec<T> = log_weights
            .iter()
            .zip(log_deviations.chunks_exact(self.dimension))
            .map(|(weight, deviations)| *weight - sum(deviations.iter().copied()))
            .collect();
        let mut terms = constants.clone();
        let count = self.points.len() / self.dimension;
        let total = sum(self.points.chunks_exact(self.dimension).map(|point| {
            for (k, term) in terms.iter_mut().enumerate() {
                let start = k * self.dimension;
                let distance = sum(point.iter().enumerate().map(|(axis, coordinate)| {
                    let scaled = means[start + axis].subtracted_from(*coordinate) * precisions[start + axis];
                    scaled * scaled
                }));
                *term = constants[k] - distance.times(0.5);
            }
            log_sum_exp(&terms)
        }));
        let scale = -0.5 * self.points.len() as f64 * std::f64::consts::TAU.ln();
        (total - log_sum_exp(log_weights).times(count as f64)).plus(scale)
    }
}

/// The shift depends on the values alone: as a constant it changes no derivative.
#[inline]
fn log_sum_exp<T: Number>(x: &[T]) -> T {
    let shift = x.iter().map(|x| x.value()).fold(f64::NEG_INFINITY, f64::max);
    sum(x.iter().map(|x| x.plus(-shift).exp())).ln().plus(shift)
}

/// A sum that starts from the first number, so that nothing records an addition of zero.
#[inline]
fn sum<T: Number>(numbers: impl Iterator<Item = T>) -> T {
    numbers.reduce(|sum, number| sum + number).expect("every workload sums at least one number")
}

/// Knuth's linear congruential generator: the same numbers on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number between -1 and 1.
    pub(crate) fn centred(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}
