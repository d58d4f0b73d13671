//! The definition of a tree: everything but its tensors, as a hash.
//!
//! Two trees of one type with equal definitions have the same leaves at the same paths, the same variants and the
//! same static values, so that a program traced for one of them is valid for the other.

use std::hash::{Hash, Hasher};

use super::Tree;
use crate::dtype::DType;
use crate::hashing::Fingerprint;
use crate::shape::Shape;

/// A hash of the structure of a tree: lengths, keys, variants and static values, without its tensors.
///
/// ```
/// use glassgrad::{Tensor, tree::Definition};
/// let x = Tensor::from(1.0);
/// let (first, second) = ((Some(x.clone()), None::<Tensor>), (None::<Tensor>, Some(x)));
/// assert_ne!(Definition::of(&first).finish(), Definition::of(&second).finish());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Definition(Fingerprint);

impl Definition {
    /// The definition of a tree.
    ///
    /// ```
    /// use glassgrad::{Tensor, tree::Definition};
    /// let lists = |n| vec![Tensor::from(1.0); n];
    /// assert_eq!(Definition::of(&lists(2)).finish(), Definition::of(&lists(2)).finish());
    /// assert_ne!(Definition::of(&lists(2)).finish(), Definition::of(&lists(3)).finish());
    /// ```
    pub fn of(tree: &impl Tree) -> Definition {
        let mut definition = Definition::default();
        tree.define(&mut definition);
        definition
    }

    /// Adds the number of a variant, or the length of a list.
    ///
    /// ```
    /// use glassgrad::tree::Definition;
    /// let mut definition = Definition::default();
    /// definition.number(3);
    /// assert_ne!(definition.finish(), Definition::default().finish());
    /// ```
    #[inline]
    pub fn number(&mut self, number: usize) {
        self.0.word(number as u64);
    }

    /// Adds a static value.
    ///
    /// ```
    /// use glassgrad::tree::Definition;
    /// let of = |name: &str| {
    ///     let mut definition = Definition::default();
    ///     definition.value(name);
    ///     definition.finish()
    /// };
    /// assert_ne!(of("relu"), of("tanh"));
    /// ```
    #[inline]
    pub fn value<T: Hash + ?Sized>(&mut self, value: &T) {
        value.hash(&mut WordHasher(&mut self.0));
    }

    /// Adds a floating-point number by its bits: −0 differs from 0, and a NaN equals itself.
    ///
    /// ```
    /// use glassgrad::tree::Definition;
    /// let mut definition = Definition::default();
    /// definition.float(0.9);
    /// assert_ne!(definition.finish(), Definition::default().finish());
    /// ```
    #[inline]
    pub fn float(&mut self, value: impl Into<f64>) {
        self.0.word(value.into().to_bits());
    }

    /// Adds the shape and the element type of a leaf, for plans that hold for these alone.
    #[inline]
    pub(crate) fn shape(&mut self, shape: &Shape, dtype: DType) {
        self.0.words(shape);
        self.0.word(dtype as u64);
    }

    /// The hash of everything that was added.
    ///
    /// ```
    /// use glassgrad::tree::Definition;
    /// assert_eq!(Definition::default().finish(), Definition::default().finish());
    /// ```
    pub fn finish(&self) -> u128 {
        self.0.finish()
    }
}

/// Feeds what the standard trait `Hash` writes into a fingerprint.
struct WordHasher<'f>(&'f mut Fingerprint);

impl Hasher for WordHasher<'_> {
    fn finish(&self) -> u64 {
        self.0.finish() as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0.word(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0.word(number);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.0.word(number as u64);
    }
}
