//! The functions of the suite, generic in the number: each is written once, for values and for every derivative.

use crate::descent::{Mode, Objective, argmin};
use glassgrad::ops::rule;
use glassgrad::{Real, c};

/// The product with a constant, which has no tangents to multiply: `x * c(k)` would make it a number with tangents that are zero.
pub(crate) fn scale<T: Real>(x: T, constant: f64) -> T {
    x.with_constant::<rule::Mul>(constant)
}

/// The difference constant - x.
pub(crate) fn less<T: Real>(constant: f64, x: T) -> T {
    x.after_constant::<rule::Sub>(constant)
}

/// The determinant by expansion by minors along the first row that is left.
pub(crate) fn determinant<T: Real>(matrix: &[T], size: usize) -> T {
    /// The columns that are left are a linked list, from which one is taken and put back without moving the others: `after[k]`
    /// is the column behind column `k`, and the last entry the first column.
    fn minor<T: Real>(rows: &[T], size: usize, after: &mut [usize]) -> T {
        let (row, below) = rows.split_at(size);
        let mut before = size;
        if below.is_empty() {
            return row[after[before]];
        }
        let mut sum = None;
        for place in 0..below.len() / size + 1 {
            let column = after[before];
            after[before] = after[column];
            let term = row[column] * minor(below, size, after);
            after[before] = column;
            before = column;
            sum = Some(match sum {
                None => term,
                Some(sum) if place % 2 == 0 => sum + term,
                Some(sum) => sum - term,
            });
        }
        sum.unwrap_or(c(1.0))
    }
    let mut after: Vec<usize> = (1..=size).chain([0]).collect();
    if size == 0 { c(1.0) } else { minor(matrix, size, &mut after) }
}

/// Half the sum of squares between the sign function and a polynomial, by Horner's rule.
pub(crate) fn least_squares<T: Real>(coefficients: &[T], count: usize) -> T {
    let term = |k: usize| {
        let t = -1.0 + k as f64 * 2.0 / (count - 1) as f64;
        let sign = if t == 0.0 { 0.0 } else { t.signum() };
        let polynomial = coefficients.iter().rev().copied().reduce(|sum, next| sum * c(t) + next);
        (polynomial.unwrap_or(c(0.0)) - c(sign)).square()
    };
    (0..count).map(term).sum::<T>() * c(0.5)
}

/// ln Σ exp(x). The shift by the largest number cancels from the derivative, so it is a constant.
pub(crate) fn log_sum_exp<T: Real>(x: &[T]) -> T {
    let shift = x.iter().map(|x| x.primal()).fold(f64::NEG_INFINITY, f64::max);
    x.iter().map(|x| (*x - c(shift)).exp()).sum::<T>().ln() + c(shift)
}

/// The solution at time 2 of y₀' = x₀, yₖ' = xₖ·yₖ₋₁ with y(0) = 0, by classical Runge-Kutta steps.
pub(crate) fn runge_kutta<T: Real>(x: &[T], steps: usize) -> Vec<T> {
    let h = 2.0 / steps as f64;
    let slope = |y: &[T], slope: &mut [T]| {
        slope[0] = x[0];
        for ((slope, x), y) in slope[1..].iter_mut().zip(&x[1..]).zip(y) {
            *slope = *x * *y;
        }
    };
    let shift = |y: &[T], step: f64, slope: &[T], shifted: &mut [T]| {
        for ((shifted, y), slope) in shifted.iter_mut().zip(y).zip(slope) {
            *shifted = *y + *slope * c(step);
        }
    };
    let mut y = vec![c::<T>(0.0); x.len()];
    let [mut first, mut second, mut third, mut fourth, mut shifted] = std::array::from_fn(|_| y.clone());
    for _ in 0..steps {
        slope(&y, &mut first);
        shift(&y, h / 2.0, &first, &mut shifted);
        slope(&shifted, &mut second);
        shift(&y, h / 2.0, &second, &mut shifted);
        slope(&shifted, &mut third);
        shift(&y, h, &third, &mut shifted);
        slope(&shifted, &mut fourth);
        let slopes = first.iter().zip(&second).zip(&third).zip(&fourth);
        for (y, (((first, second), third), fourth)) in y.iter_mut().zip(slopes) {
            *y += (*first + (*second + *third) * c(2.0) + *fourth) * c(h / 6.0);
        }
    }
    y
}

/// The data of a Gaussian mixture with a Wishart prior.
pub(crate) struct Mixture {
    pub(crate) dimension: usize,
    pub(crate) components: usize,
    pub(crate) points: Vec<f64>,
    pub(crate) extra_freedom: f64,
    pub(crate) precision: f64,
}

impl Mixture {
    /// The logarithm of the posterior density. Parameters are the log-weights, the means, the logarithms of the diagonals, and
    /// the strict lower triangles column by column.
    pub(crate) fn log_posterior<T: Real>(&self, parameters: &[T]) -> T {
        let (d, k) = (self.dimension, self.components);
        let triangle = d * (d - 1) / 2;
        let (alpha, rest) = parameters.split_at(k);
        let (means, rest) = rest.split_at(k * d);
        let (logs, lower) = rest.split_at(k * d);
        let diagonals: Vec<T> = logs.iter().map(|q| q.exp()).collect();
        let sums: Vec<T> = logs.chunks_exact(d).map(|logs| logs.iter().copied().sum()).collect();

        let mut terms = vec![c::<T>(0.0); k];
        let mut scaled = vec![c::<T>(0.0); d];
        let likelihood: T = self
            .points
            .chunks_exact(d)
            .map(|point| {
                for component in 0..k {
                    let mean = &means[component * d..][..d];
                    let centred: Vec<T> = point.iter().zip(mean).map(|(x, mean)| c::<T>(*x) - *mean).collect();
                    for (row, scaled) in scaled.iter_mut().enumerate() {
                        *scaled = diagonals[component * d + row] * centred[row];
                    }
                    let mut entries = lower[component * triangle..][..triangle].iter();
                    for (column, centred) in centred.iter().enumerate() {
                        for (row, entry) in (column + 1..d).zip(&mut entries) {
                            scaled[row] += *entry * *centred;
                        }
                    }
                    let squares: T = scaled.iter().map(|x| *x * *x).sum();
                    terms[component] = alpha[component] + sums[component] - squares * c(0.5);
                }
                log_sum_exp(&terms)
            })
            .sum();
        let count = (self.points.len() / d) as f64;
        let normal = c::<T>(-0.5 * count * d as f64 * std::f64::consts::TAU.ln()) - log_sum_exp(alpha) * c(count);

        let squares: T = diagonals.iter().chain(lower).map(|x| *x * *x).sum();
        let total: T = sums.iter().copied().sum();
        let prior = total * c(self.extra_freedom) - squares * c(0.5 * self.precision * self.precision);
        likelihood + normal + prior + c(k as f64 * self.wishart_constant())
    }

    fn wishart_constant(&self) -> f64 {
        let d = self.dimension as f64;
        let n = d + self.extra_freedom + 1.0;
        let gamma = 0.25 * d * (d - 1.0) * std::f64::consts::PI.ln()
            + (0..self.dimension).map(|j| glassgrad::Algebra::lgamma(0.5 * (n - j as f64))).sum::<f64>();
        n * d * (self.precision.ln() - 0.5 * std::f64::consts::LN_2) - gamma
    }
}

/// The data of a recurrent network with diagonal weight matrices.
pub(crate) struct Lstm {
    pub(crate) layers: usize,
    pub(crate) width: usize,
    pub(crate) state: Vec<f64>,
    pub(crate) sequence: Vec<f64>,
}

impl Lstm {
    /// The loss of predicting each element of the sequence from those before it.
    pub(crate) fn loss<T: Real>(&self, parameters: &[T]) -> T {
        let (width, layers) = (self.width, self.layers);
        let (main, extra) = parameters.split_at(8 * width * layers);
        let [input_weight, output_weight, output_bias] = std::array::from_fn(|k| &extra[k * width..][..width]);
        let mut state: Vec<T> = self.state.iter().map(|x| c(*x)).collect();
        let symbols: Vec<&[f64]> = self.sequence.chunks_exact(width).collect();
        let mut signal = vec![c::<T>(0.0); width];
        let mut total: Option<T> = None;
        for pair in symbols.windows(2) {
            for (place, signal) in signal.iter_mut().enumerate() {
                *signal = input_weight[place] * c(pair[0][place]);
            }
            for (layer, state) in state.chunks_exact_mut(2 * width).enumerate() {
                let (weights, biases) = main[8 * width * layer..][..8 * width].split_at(4 * width);
                let (hidden, cell) = state.split_at_mut(width);
                for k in 0..width {
                    let gate = |number: usize, x: T| x * weights[number * width + k] + biases[number * width + k];
                    let forget = gate(0, signal[k]).sigmoid();
                    let ingate = gate(1, hidden[k]).sigmoid();
                    let outgate = gate(2, signal[k]).sigmoid();
                    let change = gate(3, hidden[k]).tanh();
                    cell[k] = cell[k] * forget + ingate * change;
                    hidden[k] = outgate * cell[k].tanh();
                    signal[k] = hidden[k];
                }
            }
            let scores: Vec<T> = (0..width).map(|k| signal[k] * output_weight[k] + output_bias[k]).collect();
            // The suite's normalisation, which has a 2 in the sum.
            let normal = (scores.iter().map(|x| x.exp()).sum::<T>() + c(2.0)).ln();
            for (score, actual) in scores.iter().zip(pair[1]).filter(|(_, actual)| **actual != 0.0) {
                let term = (*score - normal) * c(*actual);
                total = Some(total.map_or(term, |total| total + term));
            }
        }
        let count = (symbols.len() - 1) * width;
        total.unwrap_or(c(0.0)) * c(-1.0 / count as f64)
    }
}

/// The weighted residuals of one observation of a point by a camera.
pub(crate) fn reprojection<T: Real>(camera: &[T], point: &[T], weight: T, feature: &[T]) -> [T; 2] {
    let centred = std::array::from_fn(|k| point[k] - camera[3 + k]);
    let rotated = rotate([camera[0], camera[1], camera[2]], centred);
    let plane = [rotated[0] / rotated[2], rotated[1] / rotated[2]];
    let square = plane[0] * plane[0] + plane[1] * plane[1];
    let distortion = (camera[9] * square + camera[10] * square * square).with_constant::<rule::Add>(1.0);
    std::array::from_fn(|k| {
        let projected = plane[k] * distortion * camera[6] + camera[7 + k];
        weight * (projected - feature[k])
    })
}

/// Rodrigues' formula: the rotation about an axis by its length.
fn rotate<T: Real>(axis: [T; 3], x: [T; 3]) -> [T; 3] {
    let cross = |a: [T; 3]| std::array::from_fn(|k| a[(k + 1) % 3] * x[(k + 2) % 3] - a[(k + 2) % 3] * x[(k + 1) % 3]);
    let square = axis[0] * axis[0] + axis[1] * axis[1] + axis[2] * axis[2];
    // A comparison of numbers, not of their values, so that a recording has it as a guard.
    if square == c(0.0) {
        let turned: [T; 3] = cross(axis);
        return std::array::from_fn(|k| x[k] + turned[k]);
    }
    let angle = square.sqrt();
    let (sine, cosine, inverse) = (angle.sin(), angle.cos(), angle.recip());
    let unit = axis.map(|a| a * inverse);
    let turned: [T; 3] = cross(unit);
    let along = (unit[0] * x[0] + unit[1] * x[1] + unit[2] * x[2]) * less(1.0, cosine);
    std::array::from_fn(|k| x[k] * cosine + turned[k] * sine + unit[k] * along)
}

pub(crate) fn weight_error<T: Real>(weight: T) -> T {
    less(1.0, weight * weight)
}

/// The sum of squared distances from each point to the nearest centroid.
pub(crate) fn clustering<T: Real>(centroids: &[T], points: &[f64], dimension: usize) -> T {
    let nearest = |point: &[f64]| {
        // Which centroid it is depends on values alone, so only one distance is differentiated.
        let distance = |centroid: &[T]| -> f64 {
            centroid.iter().zip(point).map(|(a, b)| (a.primal() - b) * (a.primal() - b)).sum()
        };
        let chosen = centroids.chunks_exact(dimension).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        chosen.into_iter().flatten().zip(point).map(|(a, b)| (*a - c(*b)).square()).sum::<T>()
    };
    points.chunks_exact(dimension).map(nearest).sum()
}

/// The potential of two charges at the position of a particle.
struct Potential<T> {
    charges: [[T; 2]; 2],
}

impl<T: Real> Objective<T> for Potential<T> {
    fn at<U: Real>(&self, x: &[U], lift: impl Fn(T) -> U + Copy) -> U {
        let inverse = |charge: [T; 2]| {
            let way = [x[0] - lift(charge[0]), x[1] - lift(charge[1])];
            (way[0] * way[0] + way[1] * way[1]).sqrt().recip()
        };
        inverse(self.charges[0]) + inverse(self.charges[1])
    }
}

/// How far from the origin a particle crosses the axis, squared, by the control of a charge.
pub(crate) struct Trajectory(pub(crate) Mode);

impl Objective<f64> for Trajectory {
    fn at<U: Real>(&self, x: &[U], _: impl Fn(f64) -> U + Copy) -> U {
        let potential = Potential { charges: [[c(10.0), c::<U>(10.0) - x[0]], [c(10.0), c(0.0)]] };
        let step: U = c(0.1);
        let (mut position, mut velocity) = ([c::<U>(0.0), c(8.0)], [c::<U>(0.75), c(0.0)]);
        loop {
            let slope = potential.gradient(&position, self.0);
            position = std::array::from_fn(|k| position[k] + velocity[k] * step);
            if position[1].primal() <= 0.0 {
                let rest = -position[1] / velocity[1];
                return (position[0] + rest * velocity[0]).square();
            }
            velocity = std::array::from_fn(|k| velocity[k] - slope[k] * step);
        }
    }
}

/// The control with which the particle passes the origin.
pub(crate) fn control(start: f64, outer: Mode, inner: Mode) -> f64 {
    argmin(&Trajectory(inner), &[start], outer)[0]
}

#[cfg(test)]
pub(crate) fn squared_miss(control: f64) -> f64 {
    Trajectory(Mode::Forward).at(&[control], |x| x)
}

/// (x₀² + x₁²) - (y₀² + y₁²), negated, as a function of y: its minimum is the maximum over y.
struct NegatedOverY<T> {
    x: [T; 2],
}

impl<T: Real> Objective<T> for NegatedOverY<T> {
    fn at<U: Real>(&self, y: &[U], lift: impl Fn(T) -> U + Copy) -> U {
        let x = self.x.map(lift);
        y[0] * y[0] + y[1] * y[1] - (x[0] * x[0] + x[1] * x[1])
    }
}

/// The maximum over y as a function of x.
struct MaximumOverY {
    start: [f64; 2],
    mode: Mode,
}

impl Objective<f64> for MaximumOverY {
    fn at<U: Real>(&self, x: &[U], lift: impl Fn(f64) -> U + Copy) -> U {
        let inner = NegatedOverY { x: [x[0], x[1]] };
        let y = argmin(&inner, &self.start.map(lift), self.mode);
        -inner.at(&y, |constant| constant)
    }
}

/// The saddle point: x that minimises the maximum over y, and then y.
pub(crate) fn saddle(start: [f64; 2], outer: Mode, inner: Mode) -> Vec<f64> {
    let x = argmin(&MaximumOverY { start, mode: inner }, &start, outer);
    let y = argmin(&NegatedOverY { x: [x[0], x[1]] }, &start, outer);
    [x, y].concat()
}
