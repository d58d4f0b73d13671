//! Functions of one number, to be learnt from samples.

use std::f64::consts::PI;

use crate::Algebra as _;
use crate::error::Error;
use crate::expr::Tensor;
use crate::rng::Key;

/// A function, and its domain.
///
/// ```
/// use glassgrad::{data::synthetic::Curve, rng::Key};
/// let sine = Curve::named("sine").unwrap();
/// let (x, y) = sine.sample(Key::new(1), 50, 0.1);
/// assert_eq!((x.shape().to_string(), y.shape().to_string()), ("[50, 1]".into(), "[50, 1]".into()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    /// Its name.
    pub name: &'static str,
    /// Its formula in x, as the expression language writes it.
    pub formula: &'static str,
    /// Its domain.
    pub interval: (f64, f64),
    /// The function.
    pub value: fn(f64) -> f64,
}

/// The functions there are.
///
/// ```
/// assert!(glassgrad::data::synthetic::CURVES.iter().any(|curve| curve.name == "chirp"));
/// ```
pub const CURVES: &[Curve] = &[
    curve("sine", "sin(x)", (-PI, PI), f64::sin),
    curve("polynomial", "x^3 - x", (-1.5, 1.5), |x| x * x * x - x),
    curve("abs", "abs(x)", (-1.0, 1.0), f64::abs),
    curve("step", "where(x > 0, 1, 0)", (-1.0, 1.0), |x| if x > 0.0 { 1.0 } else { 0.0 }),
    curve("sinc", "sinc(x)", (-4.0, 4.0), |x| x.sinc()),
    curve("bell", "exp(-x^2)", (-3.0, 3.0), |x| (-x * x).exp()),
    curve("runge", "1 / (1 + 25*x^2)", (-1.0, 1.0), |x| 1.0 / (1.0 + 25.0 * x * x)),
    curve("chirp", "sin(3*x^2)", (0.0, 3.0), |x| (3.0 * x * x).sin()),
    curve("wiggle", "x + 0.5*sin(6*x)", (-2.0, 2.0), |x| x + 0.5 * (6.0 * x).sin()),
    curve("root", "sqrt(x)", (0.0, 4.0), f64::sqrt),
];

const fn curve(name: &'static str, formula: &'static str, interval: (f64, f64), value: fn(f64) -> f64) -> Curve {
    Curve { name, formula, interval, value }
}

impl Curve {
    /// The function of a name.
    ///
    /// ```
    /// use glassgrad::data::synthetic::Curve;
    /// let error = Curve::named("cosine").unwrap_err();
    /// assert!(error.to_string().contains("help: there are sine, polynomial, abs,"), "{error}");
    /// ```
    pub fn named(name: &str) -> Result<&'static Curve, Error> {
        CURVES.iter().find(|curve| curve.name == name).ok_or_else(|| {
            let names: Vec<&str> = CURVES.iter().map(|curve| curve.name).collect();
            let error = Error::new("curve", format!("there is no function of the name {name:?}"));
            error.help(format!("there are {}", names.join(", ")))
        })
    }

    /// Arguments `f32[count, 1]` drawn from the interval, and their values with normal noise.
    ///
    /// ```
    /// use glassgrad::{data::synthetic::Curve, rng::Key};
    /// let (x, y) = Curve::named("abs").unwrap().sample(Key::new(1), 50, 0.0);
    /// assert_eq!((x.abs() - y).abs().max().item().unwrap(), 0.0);
    /// ```
    pub fn sample(&self, key: Key, count: usize, noise: f64) -> (Tensor, Tensor) {
        let ((arguments, noises), (low, high)) = (key.split(), self.interval);
        let x = |place: usize| low + (high - low) * arguments.uniform(place as u64);
        self.at(count, x, |place| noise * noises.normal(place as u64))
    }

    /// Arguments `f32[count, 1]` at equal distances over the interval, and their exact values.
    ///
    /// ```
    /// let (x, y) = glassgrad::data::synthetic::Curve::named("abs").unwrap().grid(3);
    /// assert_eq!((x.to_string(), y.to_string()), ("[[-1],\n [ 0],\n [ 1]]".into(), "[[1],\n [0],\n [1]]".into()));
    /// ```
    pub fn grid(&self, count: usize) -> (Tensor, Tensor) {
        let (low, high) = self.interval;
        let gaps = count.saturating_sub(1).max(1) as f64;
        self.at(count, |place| low + (high - low) * (place as f64 / gaps), |_| 0.0)
    }

    fn at(&self, count: usize, x: impl Fn(usize) -> f64, added: impl Fn(usize) -> f64) -> (Tensor, Tensor) {
        // The value is that of the rounded argument, with 32 bits.
        let arguments: Vec<f32> = (0..count).map(|place| x(place) as f32).collect();
        let value = |(place, x): (usize, &f32)| ((self.value)(f64::from(*x)) + added(place)) as f32;
        let values: Vec<f32> = arguments.iter().enumerate().map(value).collect();
        (Tensor::new(&arguments, [count, 1]), Tensor::new(&values, [count, 1]))
    }
}
