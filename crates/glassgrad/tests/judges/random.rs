//! Seeded random numbers: a test that fails must fail again.

use std::ops::Range;

/// SplitMix64: every seed is a good one, and it is short enough to be seen to be right.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number of the interval that is a multiple of 2⁻²⁰, so that it is exact in `f32` near 1 and
    /// stays exact when a finite difference adds a step that is a power of two.
    pub(crate) fn within(&mut self, range: &Range<f64>) -> f64 {
        let fraction = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let grid = (1u64 << 20) as f64;
        ((range.start + fraction * (range.end - range.start)) * grid).round() / grid
    }
}
