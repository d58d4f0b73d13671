//! Datasets.

use std::sync::Arc;

use crate::array::{Array, Buffer};
use crate::error::Error;
use crate::expr::Tensor;
use crate::rng::Key;
use crate::shape::Shape;
use crate::tree::Tree;

/// Examples that can be stacked in batches. One that reads a file or makes its examples up is a custom type.
///
/// ```
/// use glassgrad::{Tensor, data::Dataset, error::Error};
///
/// /// The squares of numbers.
/// struct Squares(usize);
///
/// impl Dataset for Squares {
///     type Batch = (Tensor, Tensor);
///     fn len(&self) -> usize {
///         self.0
///     }
///     fn batch(&self, places: &[usize]) -> Result<(Tensor, Tensor), Error> {
///         let numbers: Vec<f32> = places.iter().map(|place| *place as f32).collect();
///         let squares: Vec<f32> = numbers.iter().map(|x| x * x).collect();
///         Ok((Tensor::from(numbers), Tensor::from(squares)))
///     }
/// }
///
/// assert_eq!(Squares(10).batch(&[3, 4]).unwrap().1.to_string(), "[ 9, 16]");
/// ```
pub trait Dataset: Send + Sync {
    /// Some examples together.
    type Batch: Tree + Send + 'static;

    /// How many examples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The examples at some places, in their order.
    fn batch(&self, places: &[usize]) -> Result<Self::Batch, Error>;
}

impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    type Batch = D::Batch;
    fn len(&self) -> usize {
        (**self).len()
    }
    fn batch(&self, places: &[usize]) -> Result<D::Batch, Error> {
        (**self).batch(places)
    }
}

/// Examples in tensors, along their first axis.
///
/// ```
/// use glassgrad::{Tensor, data::{Dataset, Examples}};
/// let features = Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
/// let examples = Examples::new((features, Tensor::from([0_i64, 1, 1]))).unwrap();
/// let (x, y) = examples.batch(&[2, 0]).unwrap();
/// assert_eq!((x.to_string(), y.to_string()), ("[[5, 6],\n [1, 2]]".into(), "[1, 0]".into()));
/// ```
#[derive(Clone, Debug)]
pub struct Examples<T> {
    tensors: T,
    arrays: Vec<Array>,
    count: usize,
}

impl<T: Tree> Examples<T> {
    /// Reads the tensors, which must have as many examples each.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Examples};
    /// let error = Examples::new((Tensor::zeros([3, 2]), Tensor::zeros([4]))).unwrap_err();
    /// assert!(error.to_string().contains("0 has 3 examples and 1 has 4"), "{error}");
    /// ```
    pub fn new(tensors: T) -> Result<Examples<T>, Error> {
        let tensors = tensors.realise()?;
        let leaves = tensors.leaves();
        let count_of = |leaf: &Tensor| leaf.shape().first().copied();
        let refuse = |message: String| Err(Error::new("examples", message));
        let Some((first, leaf)) = leaves.first() else { return refuse("there are no tensors".to_owned()) };
        let Some(count) = count_of(leaf) else { return refuse(format!("{first} has no axis of examples")) };
        if let Some((path, other)) = leaves.iter().find(|(_, leaf)| count_of(leaf) != Some(count)) {
            let other = count_of(other).map_or("none".to_owned(), |count| count.to_string());
            return refuse(format!("{first} has {count} examples and {path} has {other}"));
        }
        let arrays = leaves.iter().map(|(_, leaf)| leaf.eval()).collect::<Result<_, _>>()?;
        Ok(Examples { tensors, arrays, count })
    }

    /// All of them.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Examples};
    /// assert_eq!(Examples::new(Tensor::zeros([3, 2])).unwrap().tensors().shape()[0], 3);
    /// ```
    pub fn tensors(&self) -> &T {
        &self.tensors
    }
}

impl<T: Tree + Send + Sync + 'static> Dataset for Examples<T> {
    type Batch = T;

    fn len(&self) -> usize {
        self.count
    }

    fn batch(&self, places: &[usize]) -> Result<T, Error> {
        if let Some(wrong) = places.iter().find(|place| **place >= self.count) {
            let message = format!("there is no example {wrong}: there are {}", self.count);
            return Err(Error::new("batch", message));
        }
        let rows = self.arrays.iter().map(|array| Tensor::from(picked(array, places)));
        Ok(self.tensors.with_leaves(rows.collect()))
    }
}

/// Some entries along the first axis.
fn picked(array: &Array, places: &[usize]) -> Array {
    fn rows<E: Copy>(elements: &[E], size: usize, places: &[usize]) -> Vec<E> {
        let mut picked = Vec::with_capacity(places.len() * size);
        places.iter().for_each(|place| picked.extend_from_slice(&elements[place * size..(place + 1) * size]));
        picked
    }
    let shape: Vec<usize> = std::iter::once(places.len()).chain(array.shape().iter().skip(1).copied()).collect();
    let size = shape[1..].iter().product();
    let buffer = match array.buffer() {
        Buffer::F32(elements) => Buffer::F32(rows(elements, size, places)),
        Buffer::F64(elements) => Buffer::F64(rows(elements, size, places)),
        Buffer::I64(elements) => Buffer::I64(rows(elements, size, places)),
        Buffer::Bool(elements) => Buffer::Bool(rows(elements, size, places)),
        Buffer::F16(elements) => Buffer::F16(rows(elements, size, places)),
        Buffer::BF16(elements) => Buffer::BF16(rows(elements, size, places)),
        Buffer::I32(elements) => Buffer::I32(rows(elements, size, places)),
        Buffer::U8(elements) => Buffer::U8(rows(elements, size, places)),
    };
    Array::new(Shape::from(shape), buffer)
}

/// Some examples of a dataset, as one of their own.
///
/// ```
/// use glassgrad::{Tensor, data::{Dataset, Examples, Subset}};
/// let examples = std::sync::Arc::new(Examples::new(Tensor::from([10.0, 20.0, 30.0])).unwrap());
/// let ends = Subset::new(&examples, vec![0, 2]);
/// assert_eq!(ends.batch(&[1]).unwrap().to_string(), "[30]");
/// ```
#[derive(Clone, Debug)]
pub struct Subset<D> {
    dataset: Arc<D>,
    places: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    /// The examples at some places.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::{Dataset, Examples, Subset}};
    /// let examples = std::sync::Arc::new(Examples::new(Tensor::zeros([3])).unwrap());
    /// assert_eq!(Subset::new(&examples, vec![1]).len(), 1);
    /// ```
    pub fn new(dataset: &Arc<D>, places: Vec<usize>) -> Subset<D> {
        Subset { dataset: Arc::clone(dataset), places }
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    type Batch = D::Batch;

    fn len(&self) -> usize {
        self.places.len()
    }

    fn batch(&self, places: &[usize]) -> Result<D::Batch, Error> {
        let place = |place: &usize| {
            let message = || format!("there is no example {place}: there are {}", self.places.len());
            self.places.get(*place).copied().ok_or_else(|| Error::new("batch", message()))
        };
        self.dataset.batch(&places.iter().map(place).collect::<Result<Vec<_>, Error>>()?)
    }
}

/// Divides a dataset in random order: a part for each of some shares, which are scaled to add up to 1. Every example is in
/// one part.
///
/// ```
/// use glassgrad::{Tensor, data::{Dataset, Examples, split}, rng::Key};
/// let examples = std::sync::Arc::new(Examples::new(Tensor::arange(150.0)).unwrap());
/// let parts = split(&examples, &[0.8, 0.2], Key::new(1));
/// assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [120, 30]);
/// ```
pub fn split<D: Dataset>(dataset: &Arc<D>, shares: &[f64], key: Key) -> Vec<Subset<D>> {
    let order = key.permutation(dataset.len());
    let whole: f64 = shares.iter().sum();
    let (mut begin, mut sum) = (0, 0.0);
    let part = |share: &f64| {
        sum += share;
        let end = ((sum / whole * order.len() as f64).round() as usize).clamp(begin, order.len());
        let places = order[begin..end].to_vec();
        begin = end;
        Subset { dataset: Arc::clone(dataset), places }
    };
    shares.iter().map(part).collect()
}
