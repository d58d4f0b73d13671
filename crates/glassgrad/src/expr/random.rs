//! Random tensors, and keys that are tensors themselves, so that every example of a batch can have its own.

use super::custom::{CustomOp, Rule};
use super::node::Tensor;
use crate::array::{Array, Buffer};
use crate::dtype::DType;
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
        Keys(Tensor::custom(Derive { numbers: (0..count as u64).collect(), shape: Shape::from(count) }, &[&self.0]))
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
        Keys(Tensor::custom(Derive { numbers: vec![number], shape: Shape::scalar() }, &[&self.0]))
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
        Tensor::draw("uniform", |key, count| single(count, |k| key.uniform(k)), key, shape)
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
        Tensor::draw("normal", |key, count| single(count, |k| key.normal(k)), key, shape)
    }

    /// What a key stands for, as many numbers as a shape has; of several keys, for each a tensor of this shape. The
    /// name tells the distribution, and belongs to one function only.
    #[track_caller]
    pub(crate) fn draw(
        name: &'static str,
        numbers: fn(Key, usize) -> Buffer,
        key: impl Into<Keys>,
        shape: impl Into<Shape>,
    ) -> Tensor {
        Tensor::custom(Draw { name, numbers, shape: shape.into() }, &[&key.into().0])
    }
}

/// 32-bit numbers by their place.
fn single(count: usize, number: impl Fn(u64) -> f64) -> Buffer {
    Buffer::from_fn(DType::F32, count, |k| number(k as u64))
}

/// Numbers of a distribution, a function of the key. They take no memory until they are read.
#[derive(Clone, Debug)]
struct Draw {
    name: &'static str,
    numbers: fn(Key, usize) -> Buffer,
    shape: Shape,
}

/// Keys from keys, one for each of these numbers.
#[derive(Clone, Debug)]
struct Derive {
    numbers: Vec<u64>,
    shape: Shape,
}

/// The keys of an array.
fn keys_of(array: &Array) -> Vec<Key> {
    match array.buffer() {
        Buffer::I64(bits) => bits.iter().map(|bits| Key(*bits as u64)).collect(),
        _ => Vec::new(),
    }
}

/// Keys in front, what belongs to each behind: so a leading axis of the keys is one of the result.
fn behind(keys: &[&Tensor], shape: &Shape, dtype: DType) -> Result<(Shape, DType), String> {
    match keys[0].dtype() {
        DType::I64 => Ok((keys[0].shape().followed_by(shape), dtype)),
        other => Err(format!("keys are i64, not {other}")),
    }
}

impl CustomOp for Draw {
    fn name(&self) -> &str {
        self.name
    }
    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        // What is drawn of nothing tells the type.
        behind(inputs, &self.shape, (self.numbers)(Key::new(0), 0).dtype())
    }
    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let (keys, count) = (keys_of(&inputs[0]), self.shape.elements());
        let mut drawn = (self.numbers)(Key::new(0), 0);
        for key in keys {
            drawn.append((self.numbers)(key, count));
        }
        Ok(Array::new(inputs[0].shape().followed_by(&self.shape), drawn))
    }
    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|_| vec![None]))
    }
    // The name tells the distribution.
    fn key(&self) -> Option<String> {
        Some(self.shape.to_string())
    }
    fn batched(&self, inputs: &[Tensor], _: &[bool]) -> Option<Tensor> {
        Some(Tensor::custom(self.clone(), &[&inputs[0]]))
    }
}

impl CustomOp for Derive {
    fn name(&self) -> &str {
        "keys"
    }
    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        behind(inputs, &self.shape, DType::I64)
    }
    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let keys = keys_of(&inputs[0]);
        let derived = keys.iter().flat_map(|key| self.numbers.iter().map(|number| key.fold(*number).0 as i64));
        Ok(Array::new(inputs[0].shape().followed_by(&self.shape), Buffer::I64(derived.collect())))
    }
    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|_| vec![None]))
    }
    fn key(&self) -> Option<String> {
        Some(format!("{} {:?}", self.shape, self.numbers))
    }
    fn batched(&self, inputs: &[Tensor], _: &[bool]) -> Option<Tensor> {
        Some(Tensor::custom(self.clone(), &[&inputs[0]]))
    }
}
