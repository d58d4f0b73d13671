//! Text baseline: interpolated n-grams with Kneser-Ney discounting.
//!
//! The probability of a character after a context is what was counted, less a discount, and the discounts together are shared
//! out by the model of one character less. All but the longest contexts count in how many different contexts a character was
//! seen, and not how often.

use std::collections::{HashMap, HashSet};

/// The longest contexts, and the discounts, that are tried.
const ORDERS: std::ops::RangeInclusive<usize> = 2..=8;
const DISCOUNTS: [f64; 5] = [0.6, 0.7, 0.8, 0.875, 0.95];

/// The best of the models that are tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// The order of the n-grams.
    pub order: usize,
    pub discount: f64,
    /// Bits per held-out character.
    pub bits: f64,
}

/// Counts of the characters that followed a context.
#[derive(Default)]
struct Followers {
    counts: HashMap<i64, f64>,
    sum: f64,
}

/// An n-gram model: for each length of contexts, what followed them.
struct Grams<'t> {
    levels: Vec<HashMap<&'t [i64], Followers>>,
    symbols: usize,
}

impl<'t> Grams<'t> {
    fn count(text: &'t [i64], order: usize, symbols: usize) -> Grams<'t> {
        let level = |length: usize| {
            let mut level: HashMap<&[i64], Followers> = HashMap::new();
            let mut add = |gram: &'t [i64]| {
                let Some((last, context)) = gram.split_last() else { return };
                let followers = level.entry(context).or_default();
                *followers.counts.entry(*last).or_default() += 1.0;
                followers.sum += 1.0;
            };
            if length + 1 == order {
                text.windows(order).for_each(&mut add);
            } else {
                let longer: HashSet<&[i64]> = text.windows(length + 2).collect();
                longer.into_iter().for_each(|gram| add(&gram[1..]));
            }
            level
        };
        Grams { levels: (0..order).map(level).collect(), symbols }
    }

    fn probability(&self, context: &[i64], symbol: i64, discount: f64) -> f64 {
        let mut probability = 1.0 / self.symbols as f64;
        for (length, level) in self.levels.iter().enumerate() {
            let Some(begin) = context.len().checked_sub(length) else { break };
            let Some(followers) = level.get(&context[begin..]) else { break };
            let counted = followers.counts.get(&symbol).map_or(0.0, |count| (count - discount).max(0.0));
            let shared = discount * followers.counts.len() as f64;
            probability = (counted + shared * probability) / followers.sum;
        }
        probability
    }
}

/// The best model for the characters of the held-out part from some place on. It is chosen by that very part, so that it is
/// given every advantage.
pub fn best(training: &[i64], held_out: &[i64], from: usize, symbols: usize) -> Best {
    let mut best = Best { order: 1, discount: 0.0, bits: f64::INFINITY };
    for order in ORDERS {
        let grams = Grams::count(training, order, symbols);
        for discount in DISCOUNTS {
            let cost = |place: usize| {
                let context = &held_out[place.saturating_sub(order - 1)..place];
                -grams.probability(context, held_out[place], discount).log2()
            };
            let bits = (from..held_out.len()).map(cost).sum::<f64>() / (held_out.len() - from).max(1) as f64;
            if bits < best.bits {
                best = Best { order, discount, bits };
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_after_any_context_sum_to_one() {
        let text: Vec<i64> = (0..400_u32).map(|k| i64::from((k * k + k / 3) % 5)).collect();
        let grams = Grams::count(&text, 4, 6);
        for context in [&[][..], &[0], &[1, 2], &[4, 4, 4], &[5, 5, 5]] {
            let sum: f64 = (0..6).map(|symbol| grams.probability(context, symbol, 0.75)).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{context:?}: {sum}");
        }
    }

    #[test]
    fn a_pattern_is_found_and_noise_is_not() {
        let pattern: Vec<i64> = (0..3000).map(|k| [0, 1, 1, 0, 2][k % 5]).collect();
        assert!(best(&pattern[..2000], &pattern[2000..], 8, 3).bits < 0.02);
        let key = glassgrad::rng::Key::new(1);
        let noise: Vec<i64> = (0..6000).map(|k| (4.0 * key.uniform(k)) as i64).collect();
        let found = best(&noise[..4000], &noise[4000..], 8, 4);
        assert!((1.98..2.1).contains(&found.bits), "{found:?}");
    }
}
