//! 1,797 handwritten digits of 8×8 pixels, and images as text.

use glassgrad::Tensor;
use glassgrad::data::files::Table;
use glassgrad::dtype::DType;

const DIGITS: &[u8] = include_bytes!("../../../glassgrad-experiment/data/digits.csv.gz");

/// Images `[1797, 64]` with ink from 0 to 1, and their classes.
pub(crate) fn digits() -> (Tensor, Tensor) {
    let source = Table::parse(DIGITS).and_then(|table| table.source("digits", None, Some(true))).expect("the digits");
    let ink = (source.examples.features.cast(DType::F32) / 16.0).detach().expect("pixels");
    (ink, source.examples.targets.tensor().clone())
}

/// Images of 64 numbers side by side.
#[allow(dead_code)]
pub(crate) fn shown(images: &Tensor) -> String {
    let pixels = images.cast(DType::F64).to_vec::<f64>().expect("pixels");
    let shade = |ink: f64| [' ', '.', ':', 'o', 'O', '@'][(ink.clamp(0.0, 0.999) * 6.0) as usize];
    let row = |row: usize| {
        let one =
            |image: &[f64]| image[8 * row..8 * row + 8].iter().flat_map(|ink| [shade(*ink); 2]).collect::<String>();
        pixels.chunks(64).map(one).collect::<Vec<_>>().join(" ")
    };
    (0..8).map(|number| row(number) + "\n").collect()
}
