//! Random tensors, and keys that are tensors themselves, so that every example of a batch can have its own.

use std::panic::Location;

use super::Distribution;
use super::node::{Op, Tensor};
use crate::dtype::DType;
use crate::error::Error;
use crate::rng::Key;
use crate::shape::Shape;

/// Keys of random numbers in a tensor: one, or one for each example of a batch.
///
/// Keys are a tree, so they are arguments like others: `vmap` hands each example its own. A key that a function
/// captures is shared, and gives every example the same numbers.
///
/// ```
/// use glassgrad::expr::Keys;
/// use glassgrad::rng::Key;
/// use glassgrad::{Tensor, vmap};
/// let noisy = |(x, key): &(Tensor, Keys)| x + Tensor::normal(key, [2]);
/// let (x, keys) = (Tensor::zeros([3, 2]), Keys::from(Key::new(7)).split(3));
/// let batch = vmap(noisy)(&(x, keys));
/// // The first example has the numbers of the first key.
/// let first = Tensor::normal(Key::new(7).fold(0), [2]).to_vec::<f32>().unwrap();
/// assert_eq!(batch.to_vec::<f32>().unwrap()[..2], first);
/// ```
#[derive(Clone, Debug)]
pub struct Keys(pub(crate) Tensor);

impl Keys {
    /// For each key, as many keys along a new last axis; they share nothing with it or with each other.
    ///
    /// ```
    /// use glassgrad::{expr::Keys, rng::Key};
    /// let keys = Keys::from(Key::new(1)).split(4);
    /// assert_eq!(keys.split(2).shape().to_string(), "[4, 2]");
    /// ```
    #[track_caller]
    pub fn split(&self, count: usize) -> Keys {
        Keys(Tensor::draw(Distribution::Keys((0..count as u64).collect()), self, count))
    }

    /// For each key, the key that belongs to a number, such as a step.
    ///
    /// ```
    /// use glassgrad::{Tensor, expr::Keys, rng::Key};
    /// let folded = Tensor::uniform(Keys::from(Key::new(1)).fold(9), ());
    /// assert_eq!(folded.item(), Tensor::uniform(Key::new(1).fold(9), ()).item());
    /// ```
    #[track_caller]
    pub fn fold(&self, number: u64) -> Keys {
        Keys(Tensor::draw(Distribution::Keys([number].into()), self, ()))
    }

    /// The sizes of the axes along which the keys stand.
    ///
    /// ```
    /// use glassgrad::{expr::Keys, rng::Key};
    /// assert_eq!(Keys::from(Key::new(1)).shape().rank(), 0);
    /// ```
    pub fn shape(&self) -> &Shape {
        self.0.shape()
    }
}

/// A single key.
impl From<Key> for Keys {
    #[track_caller]
    fn from(key: Key) -> Keys {
        // The bits of a key are kept; as an integer it may be negative.
        Keys(Tensor::from(key.0 as i64))
    }
}

impl From<&Keys> for Keys {
    fn from(keys: &Keys) -> Keys {
        keys.clone()
    }
}

impl Tensor {
    /// Random numbers from 0 up to but not including 1, 32-bit; of several keys, for each a tensor of this shape.
    ///
    /// ```
    /// use glassgrad::{Tensor, rng::Key};
    /// let x = Tensor::uniform(Key::new(3), [2, 5]);
    /// assert!(x.to_vec::<f32>().unwrap().iter().all(|x| (0.0..1.0).contains(x)));
    /// ```
    #[track_caller]
    pub fn uniform(key: impl Into<Keys>, shape: impl Into<Shape>) -> Tensor {
        Tensor::draw(Distribution::Uniform, key, shape)
    }

    /// Random numbers with the standard normal distribution, 32-bit; of several keys, for each a tensor of this
    /// shape.
    ///
    /// ```
    /// use glassgrad::{Tensor, rng::Key};
    /// let x = Tensor::normal(Key::new(3), [10_000]);
    /// assert!(x.mean().item().unwrap().abs() < 0.05 && (x.std().item().unwrap() - 1.0).abs() < 0.05);
    /// ```
    #[track_caller]
    pub fn normal(key: impl Into<Keys>, shape: impl Into<Shape>) -> Tensor {
        Tensor::draw(Distribution::Normal, key, shape)
    }

    /// Random numbers of a distribution; of several keys, for each a tensor of this shape.
    #[track_caller]
    pub(crate) fn draw(distribution: Distribution, key: impl Into<Keys>, shape: impl Into<Shape>) -> Tensor {
        Tensor::draw_at(distribution, &key.into().0, &shape.into(), Location::caller())
    }

    /// [`Tensor::draw`] for passes, which know the user's line.
    pub(crate) fn draw_at(
        distribution: Distribution,
        keys: &Tensor,
        shape: &Shape,
        origin: &'static Location<'static>,
    ) -> Tensor {
        if keys.error().is_some() {
            return keys.clone();
        }
        if keys.dtype() != DType::I64 {
            let error = Error::new(distribution.name(), format!("keys are i64, not {}", keys.dtype()));
            return Tensor::refused_at(error, &[keys], origin);
        }
        // Keys in front, what belongs to each behind: so a leading axis of the keys is one of the result.
        let (shape, dtype) = (keys.shape().followed_by(shape), distribution.dtype());
        Tensor::node_at(Op::Draw(distribution), &[keys], shape, dtype, origin)
    }
}
