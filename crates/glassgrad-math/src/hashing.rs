//! Structural hashing: 128-bit fingerprints, and hash maps by integer keys.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A 128-bit hash of a sequence of words. Two different structures of one process collide with a probability of about
/// 2⁻¹²⁸.
///
/// ```
/// use glassgrad::hashing::Fingerprint;
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
    /// use glassgrad::hashing::Fingerprint;
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

    /// Mixes a slice in, with its length.
    ///
    /// ```
    /// use glassgrad::hashing::Fingerprint;
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
    /// use glassgrad::hashing::Fingerprint;
    /// let mut fingerprint = Fingerprint::default();
    /// fingerprint.text("tanh");
    /// assert_ne!(fingerprint.finish(), Fingerprint::default().finish());
    /// ```
    #[inline]
    pub fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        text.bytes().for_each(|byte| self.word(u64::from(byte)));
    }

    /// The fingerprint of all words so far.
    ///
    /// ```
    /// use glassgrad::hashing::Fingerprint;
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

/// A type whose values are identified by a fingerprint.
///
/// ```
/// use glassgrad::{einsum::Einsum, hashing::{Fingerprint, Structure}};
/// let mut fingerprint = Fingerprint::default();
/// Einsum::unit(&[3]).mix_into(&mut fingerprint);
/// assert_ne!(fingerprint.finish(), Fingerprint::default().finish());
/// ```
pub trait Structure {
    /// Mixes in everything that distinguishes this value from others of its type.
    ///
    /// ```
    /// use glassgrad::{hashing::{Fingerprint, Structure}, shape::Shape, view::View};
    /// let of = |start: isize| {
    ///     let mut fingerprint = Fingerprint::default();
    ///     View::strided(&Shape::from([4]), &[(start, 1, 2)]).mix_into(&mut fingerprint);
    ///     fingerprint.finish()
    /// };
    /// assert_ne!(of(0), of(1));
    /// ```
    fn mix_into(&self, fingerprint: &mut Fingerprint);
}

/// Maps by integer keys.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;
/// Maps by node number.
pub type Numbered<T> = NumberMap<u64, T>;
/// Sets of node numbers.
pub type Numbers = std::collections::HashSet<u64, BuildHasherDefault<NumberHasher>>;

/// A fast hasher for trusted integers: consecutive node numbers, and fingerprints.
#[derive(Clone, Copy, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
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
