//! Images: some test examples with what they are taken for.
//!
//! ```text
//! fixed: { "height": pixels, "width": pixels, "names": [class, …], "probabilities": whether shares are probabilities,
//!          "examples": [{ "index": place in the test set, "class": index, "pixels": bytes }, …] }
//! live:  { "predicted": [index for each example], "shares": [[number for each class] for each example] }
//! ```
//!
//! Pixels are row by row from the top left, 0 for the least ink of the shown images and 255 for the most. There are 20
//! examples, or as many as the test set has.

use glassgrad::data::Dataset as _;
use glassgrad::error::Error;
use glassgrad::tree::Tree as _;
use serde_json::{Value, json};

use super::{Forward, LiveView, forward};
use crate::encode::{levels, list};
use crate::experiment::network::Network;
use crate::experiment::objective::predicted_classes;
use crate::experiment::predictions::{are_probabilities, shares, spread, unscaled};
use crate::experiment::study::Study;
use crate::experiment::task::{Kind, View};

const EXAMPLES: usize = 20;

struct Images<'s> {
    study: &'s Study,
    names: &'s [String],
    size: [usize; 2],
    places: Vec<usize>,
    forward: Forward,
}

pub(super) fn make(study: &Study) -> Result<Option<Box<dyn LiveView + '_>>, Error> {
    let task = &study.task;
    let (View::Image { height, width }, Kind::Classes { names }) = (task.about.view, &task.about.kind) else {
        return Ok(None);
    };
    let mut places = spread(&(0..task.test.len()).collect::<Vec<usize>>(), EXAMPLES);
    places.truncate(EXAMPLES);
    let forward = forward(task.test.batch(&places)?.0.realise()?);
    Ok(Some(Box::new(Images { study, names, size: [height, width], places, forward })))
}

impl LiveView for Images<'_> {
    fn fixed(&self) -> Result<Value, Error> {
        let (inputs, classes) = self.study.task.test.batch(&self.places)?;
        let pixels = unscaled(&self.study.task.about, &inputs, self.places.len())?;
        let finite = || pixels.iter().copied().filter(|pixel| pixel.is_finite());
        let ends = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
        let [height, width] = self.size;
        let images = pixels.chunks_exact((height * width).max(1));
        let examples: Vec<Value> = images
            .zip(classes.to_vec::<i64>()?)
            .zip(&self.places)
            .map(|((image, class), place)| json!({ "index": place, "class": class, "pixels": levels(image, ends) }))
            .collect();
        Ok(json!({
            "height": height,
            "width": width,
            "names": self.names,
            "probabilities": are_probabilities(self.study.settings.loss),
            "examples": examples,
        }))
    }

    fn evaluate(&mut self, network: &Network) -> Result<Value, Error> {
        let outputs = (self.forward)(network)?.to_f64_vec()?;
        let classes = self.names.len().max(1);
        let shares = |outputs: &[f64]| list(&shares(self.study.settings.loss, outputs));
        Ok(json!({
            "predicted": predicted_classes(&outputs, classes).collect::<Vec<i64>>(),
            "shares": outputs.chunks(classes).map(shares).collect::<Vec<Value>>(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use glassgrad::data::Dataset as _;
    use glassgrad::nn::Layer as _;

    use crate::encode::tests::read;
    use crate::experiment::settings::Number;
    use crate::views::tests::{live_and_fixed, suited};

    #[test]
    fn examples_are_those_of_the_test_part_with_their_probabilities() {
        for dtype in [Number::F32, Number::F64] {
            let study = suited("digits", |settings| settings.dtype = dtype);
            let (fixed, live) = live_and_fixed("images", &study, &study.start);
            let examples = fixed["examples"].as_array().expect("examples");
            assert_eq!(
                (examples.len(), fixed["height"].as_u64(), fixed["probabilities"].as_bool()),
                (20, Some(8), Some(true))
            );
            for (number, example) in examples.iter().enumerate() {
                let place = example["index"].as_u64().expect("a place") as usize;
                let (inputs, class) = study.task.test.batch(&[place]).expect("an example");
                assert_eq!(example["class"].as_f64(), class.to_f64_vec().ok().map(|class| class[0]));
                let predicted = study.start.apply(&inputs).softmax(-1).to_f64_vec().expect("probabilities");
                for (class, expected) in predicted.iter().enumerate() {
                    let shown = live["shares"][number][class].as_f64().expect("a share");
                    assert!((shown - expected).abs() < 1e-5, "{shown} and {expected}");
                }
                let scale = &study.task.about.scale;
                let ink = inputs.to_f64_vec().expect("pixels");
                for (byte, pixel) in read(&example["pixels"]).iter().zip(ink) {
                    let pixel = pixel * scale.deviation[0] + scale.mean[0];
                    assert!((f64::from(*byte) / 255.0 - pixel).abs() < 0.003, "{byte} and {pixel}");
                }
            }
        }
    }
}
