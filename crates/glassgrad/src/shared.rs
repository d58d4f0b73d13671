//! What many nodes share, with a fingerprint by which it is told apart, and memories of what was made before.
//!
//! A training step makes the same operations again and again. What describes them (a formula, a product, a view) is
//! made once and found again by the fingerprint of what was asked for, so that building a graph that was built before
//! costs little more than its nodes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Words mixed into 128 bits. Two different structures of one process share a fingerprint by chance once in about
/// 2¹²⁸ pairs.
///
/// ```
/// use glassgrad::shared::Fingerprint;
/// let of = |words: &[usize]| {
///     let mut fingerprint = Fingerprint::default();
///     fingerprint.words(words);
///     fingerprint.finish()
/// };
/// assert_eq!(of(&[1, 2]), of(&[1, 2]));
/// assert_ne!(of(&[1, 2]), of(&[2, 1]));
/// ```
#[derive(Clone, Debug)]
pub struct Fingerprint {
    first: u64,
    second: u64,
}

impl Default for Fingerprint {
    fn default() -> Self {
        Fingerprint { first: 0x243F_6A88_85A3_08D3, second: 0x1319_8A2E_0370_7344 }
    }
}

impl Fingerprint {
    /// Mixes a word in.
    ///
    /// ```
    /// use glassgrad::shared::Fingerprint;
    /// let (mut one, mut other) = (Fingerprint::default(), Fingerprint::default());
    /// one.word(1);
    /// other.word(2);
    /// assert_ne!(one.finish(), other.finish());
    /// ```
    #[inline]
    pub fn word(&mut self, word: u64) {
        // Two multiplications whose upper halves fold back, with different odd factors.
        let mix = |state: u64, factor: u64| {
            let product = u128::from(state ^ word) * u128::from(factor);
            (product as u64) ^ ((product >> 64) as u64)
        };
        self.first = mix(self.first, 0x9E37_79B9_7F4A_7C15).rotate_left(23);
        self.second = mix(self.second.wrapping_add(word), 0xC2B2_AE3D_27D4_EB4F).rotate_left(41) ^ word;
    }

    /// Mixes some words and their number in.
    ///
    /// ```
    /// use glassgrad::shared::Fingerprint;
    /// let (mut one, mut other) = (Fingerprint::default(), Fingerprint::default());
    /// one.words(&[1, 2]);
    /// other.words(&[1]);
    /// other.words(&[2]);
    /// assert_ne!(one.finish(), other.finish());
    /// ```
    #[inline]
    pub fn words(&mut self, words: &[usize]) {
        self.word(words.len() as u64);
        words.iter().for_each(|word| self.word(*word as u64));
    }

    /// Mixes a text in.
    ///
    /// ```
    /// use glassgrad::shared::Fingerprint;
    /// let mut fingerprint = Fingerprint::default();
    /// fingerprint.text("tanh");
    /// assert_ne!(fingerprint.finish(), Fingerprint::default().finish());
    /// ```
    pub fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        text.bytes().for_each(|byte| self.word(u64::from(byte)));
    }

    /// Mixes in what has a fingerprint.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// use glassgrad::shared::{Fingerprint, Shared};
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
        self.word(shared.0.fingerprint as u64);
        self.word((shared.0.fingerprint >> 64) as u64);
    }

    /// The fingerprint of all words so far.
    ///
    /// ```
    /// use glassgrad::shared::Fingerprint;
    /// assert_eq!(Fingerprint::default().finish(), Fingerprint::default().finish());
    /// ```
    #[inline]
    pub fn finish(&self) -> u128 {
        let mut last = self.clone();
        last.word(0x5851_F42D_4C95_7F2D);
        last.word(last.first);
        (u128::from(last.first) << 64) | u128::from(last.second)
    }
}

/// What can be told apart by a fingerprint.
///
/// ```
/// use glassgrad::{einsum::Einsum, shared::{Fingerprint, Structure}};
/// let mut fingerprint = Fingerprint::default();
/// Einsum::unit(&[3]).mix_into(&mut fingerprint);
/// assert_ne!(fingerprint.finish(), Fingerprint::default().finish());
/// ```
pub trait Structure {
    /// Mixes everything in that tells this from others of its type.
    ///
    /// ```
    /// use glassgrad::{shape::Shape, shared::{Fingerprint, Structure}, view::View};
    /// let of = |start: isize| {
    ///     let mut fingerprint = Fingerprint::default();
    ///     View::strided(&Shape::from([4]), &[(start, 1, 2)]).mix_into(&mut fingerprint);
    ///     fingerprint.finish()
    /// };
    /// assert_ne!(of(0), of(1));
    /// ```
    fn mix_into(&self, fingerprint: &mut Fingerprint);
}

/// A description that nodes share, with its fingerprint.
///
/// ```
/// use glassgrad::{einsum::Einsum, shared::Shared};
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
    /// Shares a description.
    ///
    /// ```
    /// use glassgrad::{einsum::Einsum, shared::Shared};
    /// assert_eq!(Shared::new(Einsum::unit(&[2])).to_string(), "->ii");
    /// ```
    pub fn new(value: T) -> Shared<T> {
        let mut fingerprint = Fingerprint::default();
        value.mix_into(&mut fingerprint);
        Shared(Arc::new(Inner { fingerprint: fingerprint.finish(), value }))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
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

/// How many things a memory holds at most.
const CAPACITY: usize = 8192;

/// What was made before, by the fingerprint of what was asked for.
pub(crate) struct Memory<T> {
    known: NumberMap<u128, T>,
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Memory { known: HashMap::default() }
    }
}

impl<T: Clone> Memory<T> {
    /// What was made for a fingerprint, if it is remembered.
    #[inline]
    pub(crate) fn get(&self, asked: u128) -> Option<T> {
        self.known.get(&asked).cloned()
    }

    /// Remembers what was made for a fingerprint. A full memory begins anew.
    pub(crate) fn insert(&mut self, asked: u128, made: T) {
        if self.known.len() >= CAPACITY {
            self.known.clear();
        }
        self.known.insert(asked, made);
    }
}

/// How many values a cache keeps.
const LRU_CAPACITY: usize = 64;

/// A cache by 128-bit keys, from which the least recently used value is evicted.
pub(crate) struct Lru<T> {
    values: NumberMap<u128, (Arc<T>, u64)>,
    clock: u64,
}

impl<T> Default for Lru<T> {
    fn default() -> Self {
        Lru { values: HashMap::default(), clock: 0 }
    }
}

impl<T> Lru<T> {
    pub(crate) fn get(&mut self, key: u128) -> Option<Arc<T>> {
        self.clock += 1;
        let (value, used) = self.values.get_mut(&key)?;
        *used = self.clock;
        Some(Arc::clone(value))
    }

    pub(crate) fn insert(&mut self, key: u128, value: &Arc<T>) {
        if self.values.len() >= LRU_CAPACITY
            && let Some(oldest) = self.values.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key)
        {
            self.values.remove(&oldest);
        }
        self.clock += 1;
        self.values.insert(key, (Arc::clone(value), self.clock));
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

/// Maps with keys made of numbers.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;
/// Maps by the numbers of nodes.
pub(crate) type Numbered<T> = NumberMap<u64, T>;
/// Sets of numbers of nodes.
pub(crate) type Numbers = std::collections::HashSet<u64, BuildHasherDefault<NumberHasher>>;

/// Hashes numbers that no adversary chose: those that are counted up, and fingerprints.
#[derive(Clone, Copy, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9E37_79B9_7F4A_7C15;
        self.0 = ((product as u64) ^ ((product >> 64) as u64)).rotate_left(29);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        // Fingerprints are mixed already.
        self.0 ^= number as u64;
    }
}

/// Places of nodes by their numbers, for one walk over a graph. The memory is kept for the next walk.
#[derive(Debug)]
pub(crate) struct Places {
    /// A power of two of them, of which at most half are in use.
    slots: Vec<Slot>,
    /// Slots of earlier rounds are free.
    round: u32,
    count: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    number: u64,
    round: u32,
    place: u32,
}

/// More slots than this are given back after a walk.
const MOST_KEPT: usize = 1 << 16;

thread_local! {
    /// The slots of walks that are over, with their last round.
    static UNUSED: RefCell<Vec<(Vec<Slot>, u32)>> = const { RefCell::new(Vec::new()) };
}

impl Places {
    /// No places yet.
    pub(crate) fn new() -> Places {
        let unused = UNUSED.with_borrow_mut(Vec::pop);
        let (mut slots, mut round) = unused.unwrap_or_else(|| (vec![Slot::default(); 256], 0));
        if round == u32::MAX {
            slots.fill(Slot::default());
            round = 0;
        }
        Places { slots, round: round + 1, count: 0 }
    }

    /// The slot of a number, or the free one where it belongs.
    #[inline]
    fn slot(&self, number: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & mask;
        while self.slots[at].round == self.round && self.slots[at].number != number {
            at = (at + 1) & mask;
        }
        at
    }

    /// Gives a number a place, unless it has one. Whether it had none.
    #[inline]
    pub(crate) fn insert(&mut self, number: u64, place: usize) -> bool {
        let at = self.slot(number);
        if self.slots[at].round == self.round {
            return false;
        }
        self.slots[at] = Slot { number, round: self.round, place: place as u32 };
        self.count += 1;
        if 2 * self.count > self.slots.len() {
            self.grow();
        }
        true
    }

    /// The place of a number, if it has one.
    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<usize> {
        let slot = self.slots[self.slot(number)];
        (slot.round == self.round).then_some(slot.place as usize)
    }

    fn grow(&mut self) {
        let doubled = vec![Slot::default(); 2 * self.slots.len()];
        for slot in std::mem::replace(&mut self.slots, doubled) {
            if slot.round == self.round {
                let at = self.slot(slot.number);
                self.slots[at] = slot;
            }
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        if self.slots.len() <= MOST_KEPT && !self.slots.is_empty() {
            let kept = (std::mem::take(&mut self.slots), self.round);
            // While a thread ends there is nowhere to keep anything.
            let _ = UNUSED.try_with(|unused| unused.borrow_mut().push(kept));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_a_map() {
        for round in 0..3_u64 {
            let mut places = Places::new();
            let mut map: HashMap<u64, usize> = HashMap::new();
            for k in 0..3000_u64 {
                // Numbers that repeat, lie side by side, or far apart.
                let number = [k / 2, k << 32, k * 1024, k * k + round][k as usize % 4];
                assert_eq!(places.insert(number, k as usize), !map.contains_key(&number));
                map.entry(number).or_insert(k as usize);
                assert_eq!(places.get(number), map.get(&number).copied());
                assert_eq!(places.get(number ^ (1 << 60)), None);
            }
            assert!(map.iter().all(|(number, place)| places.get(*number) == Some(*place)));
        }
    }
}
