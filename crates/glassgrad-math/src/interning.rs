//! Interning: immutable descriptions shared by nodes, and caches by fingerprint.
//!
//! A training step builds the same operations again and again. Their descriptions (a formula, a product, a view) are
//! constructed once and found again by fingerprint, so that rebuilding a graph costs little more than its nodes.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::hashing::{Fingerprint, NumberMap, Structure};

/// An immutable description that nodes share by reference, with its fingerprint.
///
/// ```
/// use glassgrad::{einsum::Einsum, interning::Shared};
/// let product = Shared::new(Einsum::elementwise(&[2, 3], 2));
/// assert_eq!(product, Shared::new(Einsum::elementwise(&[2, 3], 2)));
/// assert_eq!(product.operands.len(), 2);
/// ```
pub struct Shared<T>(Arc<Inner<T>>);

struct Inner<T> {
    fingerprint: u128,
    value: T,
}

impl<T: Structure> Shared<T> {
    /// Wraps a description and computes its fingerprint.
    ///
    /// ```
    /// use glassgrad::{einsum::Einsum, interning::Shared};
    /// assert_eq!(Shared::new(Einsum::unit(&[2])).to_string(), "->ii");
    /// ```
    #[inline]
    pub fn new(value: T) -> Shared<T> {
        let mut fingerprint = Fingerprint::default();
        value.mix_into(&mut fingerprint);
        Shared(Arc::new(Inner { fingerprint: fingerprint.finish(), value }))
    }
}

impl<T> Shared<T> {
    /// Computed once, at construction.
    #[inline]
    pub fn fingerprint(&self) -> u128 {
        self.0.fingerprint
    }
}

impl Fingerprint {
    /// Mixes in the fingerprint of an interned value.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// use glassgrad::hashing::Fingerprint;
    /// use glassgrad::interning::Shared;
    /// let of = |sizes: &[usize]| {
    ///     let mut fingerprint = Fingerprint::default();
    ///     fingerprint.shared(&Shared::new(Einsum::unit(sizes)));
    ///     fingerprint.finish()
    /// };
    /// assert_eq!(of(&[2]), of(&[2]));
    /// assert_ne!(of(&[2]), of(&[3]));
    /// ```
    #[inline]
    pub fn shared<T>(&mut self, shared: &Shared<T>) {
        self.word(shared.fingerprint() as u64);
        self.word((shared.fingerprint() >> 64) as u64);
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Structure> From<T> for Shared<T> {
    fn from(value: T) -> Shared<T> {
        Shared::new(value)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.fingerprint == other.0.fingerprint && **self == **other)
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: fmt::Display> fmt::Display for Shared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

/// The capacity of an interning table.
const CAPACITY: usize = 8192;

/// An interning table: values by the fingerprint of their construction.
pub struct InternTable<T> {
    values: NumberMap<u128, T>,
}

impl<T> Default for InternTable<T> {
    fn default() -> Self {
        InternTable { values: HashMap::default() }
    }
}

impl<T: Clone> InternTable<T> {
    /// The value of a fingerprint, if it is interned.
    #[inline]
    pub fn get(&self, key: u128) -> Option<T> {
        self.values.get(&key).cloned()
    }

    /// Interns a value. A full table is cleared.
    #[inline]
    pub fn insert(&mut self, key: u128, value: T) {
        if self.values.len() >= CAPACITY {
            self.values.clear();
        }
        self.values.insert(key, value);
    }
}

/// The capacity of a cache.
const LRU_CAPACITY: usize = 64;

/// A cache by 128-bit keys, from which the least recently used value is evicted.
pub struct Lru<T> {
    values: NumberMap<u128, (Arc<T>, u64)>,
    clock: u64,
}

impl<T> Default for Lru<T> {
    fn default() -> Self {
        Lru { values: HashMap::default(), clock: 0 }
    }
}

impl<T> Lru<T> {
    #[inline]
    pub fn get(&mut self, key: u128) -> Option<Arc<T>> {
        self.clock += 1;
        let (value, used) = self.values.get_mut(&key)?;
        *used = self.clock;
        Some(Arc::clone(value))
    }

    #[inline]
    pub fn insert(&mut self, key: u128, value: &Arc<T>) {
        if self.values.len() >= LRU_CAPACITY
            && let Some(oldest) = self.values.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key)
        {
            self.values.remove(&oldest);
        }
        self.clock += 1;
        self.values.insert(key, (Arc::clone(value), self.clock));
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}
