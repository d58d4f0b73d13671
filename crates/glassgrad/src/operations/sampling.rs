//! Random choices. All take a [`Key`] and give the same result for the same key.

use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Axes, CustomOp, Rule, Tensor};
use crate::rng::Key;
use crate::shape::Shape;

/// Numbers between 0 and 1, both excluded, uniformly distributed, in 64 bits: all draws of this file begin here.
#[track_caller]
fn between_zero_and_one(key: Key, shape: &Shape) -> Tensor {
    Tensor::custom(Draw { key, shape: shape.clone(), numbers: uniform }, &[])
}

fn uniform(key: Key, shape: &Shape) -> Buffer {
    // Half a step above a number that may be 0 and is never 1.
    let draw = |k: usize| key.uniform(k as u64) + 0.5 / (1_u64 << 53) as f64;
    Buffer::from_fn(DType::F64, shape.elements(), draw)
}

fn permutation(key: Key, shape: &Shape) -> Buffer {
    Buffer::I64(key.permutation(shape.elements()).into_iter().map(|place| place as i64).collect())
}

/// Random numbers that a key stands for. They take no memory until they are read.
#[derive(Clone, Debug)]
struct Draw {
    key: Key,
    shape: Shape,
    numbers: fn(Key, &Shape) -> Buffer,
}

impl CustomOp for Draw {
    fn name(&self) -> &str {
        "draw"
    }

    fn output(&self, _: &[&Tensor]) -> Result<(Shape, DType), String> {
        // What is drawn of nothing tells the type.
        Ok((self.shape.clone(), (self.numbers)(self.key, &Shape::from(0)).dtype()))
    }

    fn value(&self, _: &[Array]) -> Result<Array, String> {
        Ok(Array::new(self.shape.clone(), (self.numbers)(self.key, &self.shape)))
    }

    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|_| Vec::new()))
    }
}

impl Tensor {
    /// Each element is dropped, that is replaced by 0, with probability `rate`, and otherwise divided by 1 - `rate`, so
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
    pub fn dropout(&self, key: Key, rate: f64) -> Tensor {
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
        let kept = between_zero_and_one(key, self.shape()).gt(rate);
        kept.choose(&(self * (1.0 / (1.0 - rate))), &self.zeros_like())
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
    pub fn bernoulli(&self, key: Key) -> Tensor {
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
    pub fn stochastic_unit(&self, key: Key) -> Tensor {
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
    pub fn categorical(&self, key: Key, axis: isize) -> Tensor {
        if let Err(failed) = self.resolved("categorical", &Axes::from(axis)) {
            return failed;
        }
        if !self.is_float() {
            return self.not_sampled("categorical");
        }
        let noise = -(-between_zero_and_one(key, self.shape()).ln()).ln();
        (self.stop_gradient().cast(DType::F64) + noise).argmax(axis)
    }

    /// The numbers below `count` in random order.
    ///
    /// ```
    /// use glassgrad::{Tensor, rng::Key};
    /// let order = Tensor::permutation(Key::new(1), 5);
    /// assert_eq!(order.sort(0).to_string(), "[0, 1, 2, 3, 4]");
    /// ```
    #[track_caller]
    pub fn permutation(key: Key, count: usize) -> Tensor {
        Tensor::custom(Draw { key, shape: Shape::from(count), numbers: permutation }, &[])
    }

    /// The entries along an axis in random order.
    ///
    /// ```
    /// use glassgrad::{Tensor, rng::Key};
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.shuffle(Key::new(1), 0).sum_over(0).to_string(), "[4, 6]");
    /// ```
    #[track_caller]
    pub fn shuffle(&self, key: Key, axis: isize) -> Tensor {
        match self.resolved("shuffle", &Axes::from(axis)) {
            Ok(resolved) => self.gather(&Tensor::permutation(key, self.shape()[resolved[0]]), resolved[0]),
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
