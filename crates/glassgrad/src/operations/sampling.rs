//! Random choices. All take a key, or keys of which `vmap` hands each example its own, and give the same result for the same key.

use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Axes, Axis, CustomOp, Distribution, Keys, Rule, Tensor};
use crate::ops::Algebra;
use crate::rng::Key;
use crate::shape::Shape;

/// Numbers between 0 and 1, both excluded, uniformly distributed, in 64 bits: most draws of this file begin here.
#[track_caller]
fn between_zero_and_one(key: impl Into<Keys>, shape: &Shape) -> Tensor {
    Tensor::draw(Distribution::OpenUniform, key, shape)
}

impl Tensor {
    /// Each element is dropped, that is multiplied by 0, with probability `rate`, and otherwise divided by 1 - `rate`, so
    /// that the expected value stays. Without a key there is no dropout: evaluation simply does not call it.
    ///
    /// ```
    /// use glassgrad::{Tensor, rng::Key};
    /// let dropped = Tensor::ones(1000).dropout(Key::new(1), 0.75);
    /// assert!((dropped.mean().item().unwrap() - 1.0).abs() < 0.2);
    /// assert_eq!(dropped.max().item().unwrap(), 4.0);
    /// assert!(Tensor::ones(3).dropout(Key::new(1), 1.5).item().is_err());
    /// ```
    #[track_caller]
    pub fn dropout(&self, key: impl Into<Keys>, rate: f64) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        if !(0.0..=1.0).contains(&rate) {
            let message = format!("the rate {rate} is not between 0 and 1");
            return Tensor::refused(Error::new("dropout", message), &[self]);
        }
        if !self.is_float() {
            return self.not_sampled("dropout");
        }
        if rate == 0.0 {
            return self.clone();
        }
        if rate == 1.0 {
            return self.zeros_like();
        }
        // A factor and no choice: the zeros of a choice win over what is not finite in all derivatives behind it, which
        // nobody asks of noise.
        let kept = between_zero_and_one(key, self.shape()).gt(rate);
        self * (kept.cast(self.dtype()) * (1.0 / (1.0 - rate)))
    }

    /// 1 with the probability that each element gives, else 0, in the type of the probabilities. It is flat: no
    /// derivative passes. [`Tensor::stochastic_unit`] has one.
    ///
    /// ```
    /// use glassgrad::{Tensor, rng::Key};
    /// let coins = Tensor::from([0.0, 1.0]).bernoulli(Key::new(1));
    /// assert_eq!(coins.to_string(), "[0, 1]");
    /// ```
    #[track_caller]
    pub fn bernoulli(&self, key: impl Into<Keys>) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        if !self.is_float() {
            return self.not_sampled("bernoulli");
        }
        between_zero_and_one(key, self.shape()).lt(self.cast(DType::F64)).cast(self.dtype())
    }

    /// A unit that fires with probability sigmoid(x): its value is 1 or 0. A sample has no derivative, so the unit is
    /// given that of its expected value, sigmoid'(x), to every order (the straight-through estimator); it is unbiased
    /// where what follows is linear in the unit.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad, rng::Key};
    /// let x = Tensor::from([0.0, 50.0, -50.0]);
    /// let y = x.stochastic_unit(Key::new(1));
    /// assert_eq!(y.to_vec::<f64>().unwrap()[1..], [1.0, 0.0]);
    /// let slope = grad(|x: &Tensor| x.stochastic_unit(Key::new(1)).sum())(&x);
    /// assert_eq!(slope.to_f64_vec().unwrap()[0], 0.25);
    /// ```
    #[track_caller]
    pub fn stochastic_unit(&self, key: impl Into<Keys>) -> Tensor {
        let probability = self.sigmoid();
        if probability.error().is_some() {
            return probability;
        }
        // The sum is exactly 0 or 1: p - p is 0, and p + (1 - p) rounds to 1 for every p between 0 and 1.
        &probability + (probability.bernoulli(key) - &probability).stop_gradient()
    }

    /// Along an axis, which disappears, a place drawn with probability softmax(self): the largest of the numbers with
    /// Gumbel noise added.
    ///
    /// ```
    /// use glassgrad::{Tensor, rng::Key};
    /// let logits = Tensor::from([[0.0, 100.0], [100.0, 0.0]]);
    /// assert_eq!(logits.categorical(Key::new(1), 1).to_string(), "[1, 0]");
    /// ```
    #[track_caller]
    pub fn categorical(&self, key: impl Into<Keys>, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        if let Err(failed) = self.resolved("categorical", &Axes::from(axis)) {
            return failed;
        }
        if !self.is_float() {
            return self.not_sampled("categorical");
        }
        let noise = -(-between_zero_and_one(key, self.shape()).ln()).ln();
        (self.stop_gradient().cast(DType::F64) + noise).argmax(axis)
    }

    /// Counts with the rates that the elements give, in the type of the rates. They are flat: no derivative passes.
    ///
    /// ```
    /// use glassgrad::{Tensor, rng::Key};
    /// let counts = Tensor::full([10_000], 3.0, glassgrad::dtype::DType::F64).poisson(Key::new(1));
    /// assert!((counts.mean().item().unwrap() - 3.0).abs() < 0.1 && (counts.var().item().unwrap() - 3.0).abs() < 0.2);
    /// assert!(Tensor::from([-1.0]).poisson(Key::new(1)).eval().is_err());
    /// ```
    #[track_caller]
    pub fn poisson(&self, key: impl Into<Keys>) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        if !self.is_float() {
            return self.not_sampled("poisson");
        }
        Tensor::custom(Poisson, &[&key.into().0, self])
    }

    /// The numbers below `count` in random order.
    ///
    /// ```
    /// use glassgrad::{Tensor, rng::Key};
    /// let order = Tensor::permutation(Key::new(1), 5);
    /// assert_eq!(order.sort(0).to_string(), "[0, 1, 2, 3, 4]");
    /// ```
    #[track_caller]
    pub fn permutation(key: impl Into<Keys>, count: usize) -> Tensor {
        Tensor::draw(Distribution::Permutation, key, count)
    }

    /// The entries along an axis in random order.
    ///
    /// ```
    /// use glassgrad::{Tensor, rng::Key};
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.shuffle(Key::new(1), 0).sum_over(0).to_string(), "[4, 6]");
    /// ```
    #[track_caller]
    pub fn shuffle(&self, key: impl Into<Keys>, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        match self.resolved("shuffle", &Axes::from(axis)) {
            Ok(resolved) => self.take(&Tensor::permutation(key, self.shape()[resolved[0]]), resolved[0]),
            Err(failed) => failed,
        }
    }

    #[track_caller]
    fn not_sampled(&self, operation: &str) -> Tensor {
        let message = format!("it is defined for floating-point numbers, not for {}", self.dtype());
        let error = Error::new(operation, message).help("cast first, for example with .cast(DType::F32)");
        Tensor::refused(error, &[self])
    }
}

/// Counts from a key and rates.
#[derive(Clone, Debug)]
struct Poisson;

impl CustomOp for Poisson {
    fn name(&self) -> &str {
        "poisson"
    }
    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        match inputs[0].rank() {
            0 => Ok((inputs[1].shape().clone(), inputs[1].dtype())),
            _ => Err("it takes one key".to_owned()),
        }
    }
    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let Buffer::I64(bits) = inputs[0].buffer() else { return Err("keys are i64".to_owned()) };
        let key = Key(bits[0] as u64);
        let rates = inputs[1].buffer();
        let is_rate = |rate: f64| (0.0..1e15).contains(&rate);
        if let Some(wrong) = (0..rates.len()).map(|k| rates.get(k)).find(|rate| !is_rate(*rate)) {
            return Err(format!("{wrong} is not a rate: it must be a number from 0 on, and below 10¹⁵"));
        }
        let draw = |k: usize| count_at_rate(key.fold(k as u64), rates.get(k));
        Ok(Array::new(inputs[1].shape().clone(), Buffer::from_fn(inputs[1].dtype(), rates.len(), draw)))
    }
    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|_| vec![None, None]))
    }
    fn key(&self) -> Option<String> {
        Some(String::new())
    }
}

/// From this rate on counts are drawn by rejection; below, one after another, which takes as many steps as the count.
const LARGE_RATE: f64 = 10.0;

/// A count that belongs to a key.
fn count_at_rate(key: Key, rate: f64) -> f64 {
    if rate < LARGE_RATE {
        // The first count up to which the probabilities add up to more than a number between 0 and 1.
        let (level, mut count) = (key.uniform(0), 0.0);
        let mut probability = (-rate).exp();
        let mut sum = probability;
        while sum <= level && probability > 0.0 {
            count += 1.0;
            probability *= rate / count;
            sum += probability;
        }
        return count;
    }
    // Hörmann's transformed rejection with a squeeze: a heavy-tailed density that is easy to draw from lies above.
    let width = 0.931 + 2.53 * rate.sqrt();
    let slope = -0.059 + 0.02483 * width;
    let accepted = 0.9277 - 3.6224 / (width - 2.0);
    let scale = 1.1239 + 1.1328 / (width - 3.4);
    let log_rate = rate.ln();
    for round in 0.. {
        let (u, v) = (key.uniform(2 * round) - 0.5, key.uniform(2 * round + 1));
        let distance = 0.5 - u.abs();
        let count = ((2.0 * slope / distance + width) * u + rate + 0.43).floor();
        if distance >= 0.07 && v <= accepted {
            return count;
        }
        if count < 0.0 || (distance < 0.013 && v > distance) {
            continue;
        }
        let level = (v * scale / (slope / (distance * distance) + width)).ln();
        if level <= count * log_rate - rate - (count + 1.0).lgamma() {
            return count;
        }
    }
    rate
}
