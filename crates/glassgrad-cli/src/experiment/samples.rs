//! Text that a network writes: one character after another, each drawn by the probabilities that it tells.

use glassgrad::compile;
use glassgrad::error::Error;
use glassgrad::expr::{Tensor, s};
use glassgrad::nn::Layer as _;
use glassgrad::rng::Key;

use super::network::Network;
use super::ngram;
use super::study::Study;
use super::task::Kind;

/// What a network that has learnt a text writes by itself, and what counting letters makes of the same text.
pub(crate) struct Sample {
    /// The first characters of the text that was held out.
    pub(crate) begin: String,
    /// How the network goes on.
    pub(crate) written: String,
    pub(crate) counted: ngram::Best,
}

/// So many characters are written, at a temperature at which words hold together.
const LENGTH: usize = 600;
pub(crate) const TEMPERATURE: f64 = 0.7;

impl Sample {
    /// How a network goes on with the text that was held out from it, if it was trained on one.
    pub(crate) fn of(study: &Study, network: &Network) -> Result<Option<Sample>, Error> {
        let (Kind::Text { alphabet }, Some(text)) = (&study.task.about.kind, &study.task.text) else { return Ok(None) };
        let [learnt, held_out] = &**text;
        let (context, key) = (study.settings.context, Key::new(study.settings.seed).fold(7));
        let begin: String = held_out.iter().take(context / 2).map(|symbol| alphabet[*symbol as usize]).collect();
        let how = Sampling { context, length: LENGTH, temperature: TEMPERATURE, key };
        let written = write(network, alphabet, &begin, how)?;
        let counted = ngram::best(learnt, held_out, context - context / 2 + 1, alphabet.len());
        Ok(Some(Sample { begin, written, counted }))
    }
}

/// How a text is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    /// How many characters the network sees at once.
    pub(crate) context: usize,
    /// How many characters are written.
    pub(crate) length: usize,
    /// Below 1, what is likely becomes likelier; 0 writes what is likeliest.
    pub(crate) temperature: f64,
    pub(crate) key: Key,
}

/// What the network writes after a beginning, which has at least one character of the alphabet.
pub(crate) fn write(network: &Network, alphabet: &[char], begin: &str, how: Sampling) -> Result<String, Error> {
    let place = |character: char| alphabet.binary_search(&character).ok().map(|place| place as i64);
    let mut symbols: Vec<i64> = begin.chars().filter_map(place).collect();
    if symbols.is_empty() {
        return Err(Error::new("write", "no character of the prompt occurs in the training text"));
    }
    let next = compile(|(network, window): &(Network, Tensor)| network.apply(window).slice(&[s(0)]));
    let given = symbols.len();
    for number in 0..how.length {
        let seen = &symbols[symbols.len().saturating_sub(how.context)..];
        // A network that reads forward does not see what stands behind the last character.
        let mut window = seen.to_vec();
        window.resize(how.context, 0);
        let logits = next.call(&(network.clone(), Tensor::new(&window, [1, how.context])))?.to_f64_vec()?;
        let row = &logits[(seen.len() - 1) * alphabet.len()..][..alphabet.len()];
        symbols.push(drawn(row, how.temperature, how.key.uniform(number as u64)) as i64);
    }
    Ok(symbols[given..].iter().map(|symbol| alphabet[*symbol as usize]).collect())
}

/// The place at which a number between 0 and 1 falls among the probabilities that logits tell.
fn drawn(logits: &[f64], temperature: f64, number: f64) -> usize {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if temperature <= 0.0 {
        return logits.iter().position(|logit| *logit == largest).unwrap_or(0);
    }
    let weights: Vec<f64> = logits.iter().map(|logit| ((logit - largest) / temperature).exp()).collect();
    let mut left = number * weights.iter().sum::<f64>();
    for (place, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return place;
        }
    }
    weights.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_drawn_as_often_as_they_are_likely() {
        let logits = [0.0, 3.0_f64.ln(), f64::NEG_INFINITY];
        let counts = (0..1000).fold([0; 3], |mut counts, k| {
            counts[drawn(&logits, 1.0, f64::from(k) / 1000.0)] += 1;
            counts
        });
        assert_eq!(counts, [250, 750, 0]);
        assert_eq!(drawn(&logits, 0.0, 0.01), 1);
    }
}
