//! Randomness as a function: a key gives the same numbers always, and keys split.
//!
//! The generator is counter-based (Philox 4×32 with ten rounds): element k of a draw depends on the key and
//! on k alone, so draws need no state, have no order, and are the same for any number of threads.

/// Half the distance of two numbers that [`Key::uniform`] gives.
#[doc(hidden)]
pub const HALF_STEP: f64 = 0.5 / (1_u64 << 53) as f64;

/// A key of random numbers.
///
/// ```
/// use glassgrad::rng::Key;
/// let key = Key::new(7);
/// let (weights, noise) = key.split();
/// assert_ne!(weights.uniform(0), noise.uniform(0));
/// assert_eq!(weights.uniform(3), Key::new(7).split().0.uniform(3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(#[doc(hidden)] pub u64);

impl Key {
    /// The key of a seed.
    ///
    /// ```
    /// use glassgrad::rng::Key;
    /// assert_eq!(Key::new(5).uniform(0), Key::new(5).uniform(0));
    /// ```
    #[inline]
    pub fn new(seed: u64) -> Key {
        Key(seed)
    }

    /// Two keys that share nothing with this one or with each other.
    ///
    /// ```
    /// use glassgrad::rng::Key;
    /// let (first, second) = Key::new(5).split();
    /// assert!(first != second && first != Key::new(5));
    /// ```
    #[inline]
    pub fn split(self) -> (Key, Key) {
        (self.fold(0), self.fold(1))
    }

    /// The key that belongs to a number, such as a step or an example.
    ///
    /// ```
    /// use glassgrad::rng::Key;
    /// let steps: Vec<f64> = (0..3).map(|step| Key::new(5).fold(step).normal(0)).collect();
    /// assert!(steps[0] != steps[1] && steps[1] != steps[2]);
    /// ```
    #[inline]
    pub fn fold(self, number: u64) -> Key {
        // Counters with the high bit set are used for keys, all others for draws.
        let [a, b, _, _] = philox(self.0, [number as u32, (number >> 32) as u32, 0, 0x8000_0000]);
        Key(u64::from(a) | u64::from(b) << 32)
    }

    /// 64 random bits.
    ///
    /// ```
    /// use glassgrad::rng::Key;
    /// assert_ne!(Key::new(5).bits(0), Key::new(5).bits(1));
    /// ```
    #[inline]
    pub fn bits(self, index: u64) -> u64 {
        let [a, b, _, _] = philox(self.0, [index as u32, (index >> 32) as u32, 0, 0]);
        u64::from(a) | u64::from(b) << 32
    }

    /// A number from 0 up to but not including 1, uniformly distributed.
    ///
    /// ```
    /// use glassgrad::rng::Key;
    /// assert!((0..100).all(|k| (0.0..1.0).contains(&Key::new(5).uniform(k))));
    /// ```
    #[inline]
    pub fn uniform(self, index: u64) -> f64 {
        unit(self.bits(index))
    }

    /// As many numbers as [`Key::uniform`] gives from an index on.
    ///
    /// ```
    /// use glassgrad::rng::Key;
    /// let mut numbers = [0.0; 20];
    /// Key::new(5).uniforms(7, &mut numbers);
    /// assert!((7..).zip(numbers).all(|(k, number)| number == Key::new(5).uniform(k)));
    /// ```
    pub fn uniforms(self, first: u64, numbers: &mut [f64]) {
        // Some at a time, so that the rounds of all of them are vector instructions.
        const TOGETHER: usize = 8;
        let (parts, rest) = numbers.as_chunks_mut::<TOGETHER>();
        let mut index = first;
        for part in parts {
            let indices: [u64; TOGETHER] = std::array::from_fn(|k| index + k as u64);
            let counters = [indices.map(|own| own as u32), indices.map(|own| (own >> 32) as u32)];
            let [low, high, _, _] = philox_together(self.0, [counters[0], counters[1], [0; TOGETHER], [0; TOGETHER]]);
            for (k, number) in part.iter_mut().enumerate() {
                *number = unit(u64::from(low[k]) | u64::from(high[k]) << 32);
            }
            index += TOGETHER as u64;
        }
        rest.iter_mut().zip(index..).for_each(|(number, index)| *number = self.uniform(index));
    }

    /// A number between 0 and 1, both excluded: half a step above [`Key::uniform`], which may be 0 and is never 1.
    #[doc(hidden)]
    #[inline]
    pub fn open_uniform(self, index: u64) -> f64 {
        self.uniform(index) + HALF_STEP
    }

    /// A number with the standard normal distribution.
    ///
    /// ```
    /// use glassgrad::rng::Key;
    /// let mean: f64 = (0..10_000).map(|k| Key::new(5).normal(k)).sum::<f64>() / 10_000.0;
    /// assert!(mean.abs() < 0.05);
    /// ```
    #[inline]
    pub fn normal(self, index: u64) -> f64 {
        let [a, b, c, d] = philox(self.0, [index as u32, (index >> 32) as u32, 1, 0]);
        let unit = |low: u32, high: u32| ((u64::from(low) | u64::from(high) << 32) >> 11) as f64 / (1_u64 << 53) as f64;
        // Box and Muller: 1 - u is never zero, so the logarithm is finite.
        let radius = (-2.0 * (1.0 - unit(a, b)).ln()).sqrt();
        radius * (std::f64::consts::TAU * unit(c, d)).cos()
    }

    /// A permutation of the numbers below `count`.
    ///
    /// ```
    /// use glassgrad::rng::Key;
    /// let mut order = Key::new(5).permutation(8);
    /// order.sort_unstable();
    /// assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7]);
    /// ```
    #[inline]
    pub fn permutation(self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            // The multiply-shift maps 64 random bits to 0..=last with a bias below 2⁻⁴⁰ for any real count.
            let chosen = (u128::from(self.bits(last as u64)) * (last as u128 + 1)) >> 64;
            order.swap(last, chosen as usize);
        }
        order
    }
}

/// The number from 0 up to but not including 1 that the upper 53 of some bits are.
#[inline(always)]
#[doc(hidden)]
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// Ten rounds of Philox 4×32.
fn philox(key: u64, counter: [u32; 4]) -> [u32; 4] {
    philox_together(key, counter.map(|word| [word])).map(|[word]| word)
}

/// Ten rounds of Philox 4×32 for several counters, word by word.
#[inline(always)]
#[doc(hidden)]
pub fn philox_together<const N: usize>(key: u64, mut counters: [[u32; N]; 4]) -> [[u32; N]; 4] {
    let mut key = [key as u32, (key >> 32) as u32];
    for _ in 0..10 {
        // By number: all of it must vanish into vectors.
        #[allow(clippy::needless_range_loop)]
        for k in 0..N {
            let first = u64::from(counters[0][k]) * 0xd251_1f53;
            let second = u64::from(counters[2][k]) * 0xcd9e_8d57;
            counters[0][k] = (second >> 32) as u32 ^ counters[1][k] ^ key[0];
            counters[1][k] = second as u32;
            counters[2][k] = (first >> 32) as u32 ^ counters[3][k] ^ key[1];
            counters[3][k] = first as u32;
        }
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_numbers() {
        // The known-answer test of the generator's authors, for zeros and for ones.
        assert_eq!(philox(0, [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox(u64::MAX, [u32::MAX; 4]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let (key, count) = (Key::new(1), 100_000);
        let moment = |draw: &dyn Fn(u64) -> f64| (0..count).map(draw).sum::<f64>() / count as f64;
        assert!((moment(&|k| key.uniform(k)) - 0.5).abs() < 0.004);
        assert!(moment(&|k| key.normal(k)).abs() < 0.012);
        assert!((moment(&|k| key.normal(k).powi(2)) - 1.0).abs() < 0.02);
        let mut order = key.permutation(1000);
        assert_ne!(order[..10], (0..10).collect::<Vec<_>>());
        order.sort_unstable();
        assert!(order.into_iter().eq(0..1000));
    }
}
