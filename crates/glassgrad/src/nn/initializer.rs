//! Weight initialization.

use crate::expr::Tensor;
use crate::rng::Key;
use crate::shape::Shape;

/// The fan-in and fan-out of a weight.
///
/// ```
/// use glassgrad::nn::Fans;
/// // A convolution with 16 kernels of 3×3 over 8 channels.
/// assert_eq!(Fans::of_kernel(&[16, 8, 3, 3]), Fans { inputs: 72, outputs: 144 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fans {
    /// The fan-in: the number of terms of each output.
    pub inputs: usize,
    /// The fan-out: the number of outputs that each input contributes to.
    pub outputs: usize,
}

impl Fans {
    /// The fans of a matrix `[inputs, outputs]`.
    ///
    /// ```
    /// use glassgrad::nn::Fans;
    /// assert_eq!(Fans::of_matrix(4, 3).inputs, 4);
    /// ```
    pub fn of_matrix(inputs: usize, outputs: usize) -> Fans {
        Fans { inputs, outputs }
    }

    /// The fans of a convolution kernel `[outputs, inputs, spatial…]`.
    ///
    /// ```
    /// use glassgrad::nn::Fans;
    /// assert_eq!(Fans::of_kernel(&[2, 5]), Fans::of_matrix(5, 2));
    /// ```
    pub fn of_kernel(shape: &[usize]) -> Fans {
        let places: usize = shape.iter().skip(2).product();
        let channels = |axis: usize| shape.get(axis).copied().unwrap_or(1) * places;
        Fans { inputs: channels(1), outputs: channels(0) }
    }
}

/// A weight initialization scheme.
///
/// ```
/// use glassgrad::nn::{Initializer, Fans};
/// use glassgrad::rng::Key;
/// let weight = Initializer::He.draw(Key::new(1), [100, 50], Fans::of_matrix(100, 50));
/// // Uniform with the variance 2 / 100.
/// assert!((weight.var().item().unwrap() - 0.02).abs() < 0.002);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initializer {
    /// Constant.
    Constant(f64),
    /// Uniform in ± this bound.
    Uniform(f64),
    /// Normal with this standard deviation.
    Normal(f64),
    /// Uniform in ±1/√fan-in, PyTorch's default for most layers.
    FanIn,
    /// Glorot (Xavier) uniform: variance 2 / (fan-in + fan-out), for tanh and sigmoid.
    Xavier,
    /// Glorot (Xavier) normal: variance 2 / (fan-in + fan-out).
    XavierNormal,
    /// He (Kaiming) uniform: variance 2 / fan-in, for rectified units.
    He,
    /// He (Kaiming) normal: variance 2 / fan-in.
    HeNormal,
    /// Orthonormal rows or columns, whichever are fewer, times this gain; further axes count as columns.
    Orthogonal(f64),
}

impl Initializer {
    /// Draws an f32 weight.
    ///
    /// ```
    /// use glassgrad::nn::{Initializer, Fans};
    /// use glassgrad::rng::Key;
    /// let turned = Initializer::Orthogonal(1.0).draw(Key::new(1), [3, 8], Fans::of_matrix(3, 8));
    /// let products = turned.matmul(&turned.transpose());
    /// assert!(products.all_close(&glassgrad::Tensor::eye(3).cast(products.dtype()), 0.0, 1e-6).item().unwrap() == 1.0);
    /// ```
    pub fn draw(self, key: Key, shape: impl Into<Shape>, fans: Fans) -> Tensor {
        let shape = shape.into();
        let Fans { inputs, outputs } = fans;
        let uniform = |bound: f64| drawn(&shape, |k| bound * (2.0 * key.uniform(k) - 1.0));
        let normal = |deviation: f64| drawn(&shape, |k| deviation * key.normal(k));
        // The variance of a uniform number between ±b is b²/3.
        let bound_of = |variance: f64| (3.0 * variance).sqrt();
        let per = |count: usize| 1.0 / count.max(1) as f64;
        match self {
            Initializer::Constant(number) => drawn(&shape, |_| number),
            Initializer::Uniform(bound) => uniform(bound),
            Initializer::Normal(deviation) => normal(deviation),
            Initializer::FanIn => uniform(per(inputs).sqrt()),
            Initializer::Xavier => uniform(bound_of(2.0 * per(inputs + outputs))),
            Initializer::XavierNormal => normal((2.0 * per(inputs + outputs)).sqrt()),
            Initializer::He => uniform(bound_of(2.0 * per(inputs))),
            Initializer::HeNormal => normal((2.0 * per(inputs)).sqrt()),
            Initializer::Orthogonal(gain) => orthogonal(key, &shape, gain),
        }
    }
}

fn drawn(shape: &Shape, number: impl Fn(u64) -> f64) -> Tensor {
    let numbers: Vec<f32> = (0..shape.elements() as u64).map(|k| number(k) as f32).collect();
    Tensor::new(&numbers, shape.clone())
}

/// Gram-Schmidt orthogonalisation of normal vectors: the projection of a normal vector onto a subspace is normal there, so that the
/// result is uniform over orthogonal matrices (Haar measure).
fn orthogonal(key: Key, shape: &Shape, gain: f64) -> Tensor {
    let rows = shape.first().copied().unwrap_or(1);
    let columns = shape.iter().skip(1).product::<usize>();
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(count);
    for number in 0..count {
        let mut vector: Vec<f64> = (0..length).map(|k| key.normal((number * length + k) as u64)).collect();
        // Twice, because the first time leaves rounding errors that are large beside a short remainder.
        for _ in 0..2 {
            for other in &vectors {
                let along: f64 = vector.iter().zip(other).map(|(a, b)| a * b).sum();
                vector.iter_mut().zip(other).for_each(|(own, other)| *own -= along * other);
            }
        }
        let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        vector.iter_mut().for_each(|x| *x /= norm);
        vectors.push(vector);
    }
    let at = |row: usize, column: usize| if rows <= columns { vectors[row][column] } else { vectors[column][row] };
    drawn(shape, |k| gain * at(k as usize / columns.max(1), k as usize % columns.max(1)))
}
