//! A tiny seeded generator of random numbers, so that every example repeats itself to the last bit.

#![allow(dead_code, reason = "every example includes this file and uses a part of it")]

/// The generator splitmix64 of Steele, Lea and Flood: a counter, scrambled.
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// A generator whose numbers depend on the seed alone.
    pub(crate) fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number between `low` and `high`, all equally likely.
    pub(crate) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        // The upper 53 bits are all that the mantissa of an f64 can hold.
        let fraction = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        low + fraction * (high - low)
    }

    /// A number of the standard normal distribution, by the transform of Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        // One minus the uniform number is never zero, so its logarithm is finite.
        let radius = (-2.0 * (1.0 - self.uniform(0.0, 1.0)).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform(0.0, 1.0)).cos()
    }

    /// The numbers from 0 to `count - 1` in random order.
    pub(crate) fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.uniform(0.0, last as f64 + 1.0) as usize);
        }
        order
    }
}
