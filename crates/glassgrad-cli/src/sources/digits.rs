//! Handwritten digits of 8 × 8 pixels, in the program.

use glassgrad::Tensor;
use glassgrad::data::files::expand;
use glassgrad::data::{Labelled, Source};
use glassgrad::error::Error;

/// 64 pixels from 0 to 16 and the digit in each line, as shipped with scikit-learn.
const DIGITS: &[u8] = include_bytes!("../../data/digits.csv.gz");
const SIDE: usize = 8;
const INK: f32 = 16.0;

/// 1797 digits that people have written, `f32[1797, 1, 8, 8]` with ink from 0 to 1.
pub(crate) fn digits() -> Result<Source, Error> {
    let bytes = expand(DIGITS, usize::MAX)?;
    let text = String::from_utf8_lossy(&bytes);
    let (mut pixels, mut digits) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let numbers: Vec<f32> = line.split(',').filter_map(|number| number.parse().ok()).collect();
        pixels.extend(numbers[..SIDE * SIDE].iter().map(|ink| ink / INK));
        digits.push(numbers[SIDE * SIDE] as i64);
    }
    let features = Tensor::new(&pixels, [digits.len(), 1, SIDE, SIDE]);
    let names = (0..10).map(|digit| digit.to_string()).collect();
    Ok(Source {
        name: "digits".to_owned(),
        title: "Handwritten digits, 8 × 8 pixels".to_owned(),
        feature_names: Vec::new(),
        examples: Labelled::classes(features, Tensor::from(digits), names)?,
        test: None,
    })
}
