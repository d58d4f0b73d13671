//! Handwritten digits of 8 × 8 pixels, in the program.

use glassgrad::data::files::Table;
use glassgrad::data::{Labelled, Source};
use glassgrad::error::Error;

/// 64 pixels from 0 to 16 and the digit in each line, as shipped with scikit-learn.
const DIGITS: &[u8] = include_bytes!("../../data/digits.csv.gz");
const SIDE: usize = 8;
const INK: f64 = 16.0;

/// 1797 digits that people have written, `f64[1797, 1, 8, 8]` with ink from 0 to 1.
pub fn digits() -> Result<Source, Error> {
    let table = Table::parse(DIGITS)?.source("digits", None, Some(true))?;
    let Labelled { features, targets } = table.examples;
    let features = (features / INK).reshape([targets.len(), 1, SIDE, SIDE]).detach()?;
    Ok(Source {
        title: "Handwritten digits, 8 × 8 pixels".to_owned(),
        feature_names: Vec::new(),
        examples: Labelled { features, targets },
        ..table
    })
}
