//! A text as characters with numbers, in windows.

use glassgrad::Tensor;

/// The largest alphabet: a network has a number for each of its characters.
const LARGEST_ALPHABET: usize = 1024;

/// A text, character by character.
pub(crate) struct Text {
    /// The characters that occur, sorted.
    pub(crate) alphabet: Vec<char>,
    /// The place of each character in the alphabet.
    pub(crate) symbols: Vec<i64>,
}

/// The target of a character whose prediction does not count.
pub(crate) const NOT_COUNTED: i64 = -1;

impl Text {
    pub(crate) fn new(characters: &str) -> Result<Text, String> {
        let mut alphabet: Vec<char> = characters.chars().collect();
        alphabet.sort_unstable();
        alphabet.dedup();
        if alphabet.len() < 2 || alphabet.len() > LARGEST_ALPHABET {
            let count = alphabet.len();
            return Err(format!("a text of {count} distinct characters; 2 to {LARGEST_ALPHABET} are supported"));
        }
        let place = |character: char| alphabet.binary_search(&character).map_or(0, |place| place as i64);
        Ok(Text { symbols: characters.chars().map(place).collect(), alphabet })
    }

    /// The length of the training text.
    pub(crate) fn learnt(&self, test: f64) -> usize {
        ((1.0 - test) * self.symbols.len() as f64).round() as usize
    }

    /// Windows of the beginning, and of the end, which is held out: characters and those that follow them.
    ///
    /// Windows of the beginning lie a quarter of their length apart, so that a character is met at several places. Windows of
    /// the end lie half their length apart, and only what has at least that much in front of it counts: every character of
    /// the held-out part but those of the first half window is predicted once.
    pub(crate) fn parts(&self, context: usize, test: f64) -> Result<[(Tensor, Tensor); 2], String> {
        let (training, held_out) = self.symbols.split_at(self.learnt(test));
        let least = context.saturating_mul(2).saturating_add(1);
        if context < 2 || training.len() < least || held_out.len() < least {
            return Err(format!(
                "--context {context}: windows of at least 2 characters, at most half of the {} for training and of the {} that are held out",
                training.len(),
                held_out.len()
            ));
        }
        let windows = |symbols: &[i64], stride: usize, counted_from: usize| {
            let starts = (0..).map(|window| window * stride).take_while(|start| start + context < symbols.len());
            let (mut seen, mut next, mut count) = (Vec::new(), Vec::new(), 0);
            for start in starts {
                count += 1;
                seen.extend_from_slice(&symbols[start..start + context]);
                let counts = |place: usize| if place < counted_from { NOT_COUNTED } else { symbols[start + place + 1] };
                next.extend((0..context).map(counts));
            }
            (Tensor::new(&seen, [count, context]), Tensor::new(&next, [count, context]))
        };
        Ok([windows(training, (context / 4).max(1), 0), windows(held_out, context / 2, context - context / 2)])
    }
}
