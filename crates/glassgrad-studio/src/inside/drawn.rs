//! Prediction for a drawn image, and its saliency map.
//!
//! ```text
//! { "height": count, "width": count, "pixels": bytes, "names": [class, …], "predicted": index, "class": index,
//!   "shares": [number, …], "probabilities": bool, "gradients": signed bytes, "scale": number }
//! ```
//!
//! `pixels` are those that the network sees, 255 for full ink; `gradients` are for each of them how the share of `class` would
//! change with ink from none to full.

use glassgrad::data::Dataset as _;
use glassgrad::error::Error;
use glassgrad::expr::{Tensor, s};
use glassgrad::grad;
use glassgrad::nn::Layer as _;
use serde_json::{Value, json};

use crate::encode::{levels, list, signed};
use crate::experiment::network::Network;
use crate::experiment::objective::predicted_classes;
use crate::experiment::predictions::{are_probabilities, shares, unscaled};
use crate::experiment::settings::Loss;
use crate::experiment::study::Study;
use crate::experiment::task::{Kind, View};

/// Examples from which the value of full ink is computed.
const EXAMPLES: usize = 1000;

/// The least and the most ink of the images that are learnt.
pub(super) fn ink(study: &Study) -> Result<(f64, f64), Error> {
    let part = &study.task.training;
    let places: Vec<usize> = (0..part.len().min(EXAMPLES)).collect();
    let pixels = unscaled(&study.task.about, &part.batch(&places)?.0, places.len())?;
    let finite = || pixels.iter().copied().filter(|pixel| pixel.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    Ok(if low < high { (low, high) } else { (0.0, 1.0) })
}

/// The size of the images and the names of their classes, where images with classes are learnt.
pub(super) fn images(study: &Study) -> Result<([usize; 2], &[String]), Error> {
    match (study.task.about.view, &study.task.about.kind) {
        (View::Image { height, width }, Kind::Classes { names }) => Ok(([height, width], names)),
        _ => {
            let message = format!("{} is not about images with classes", study.task.about.name);
            Err(Error::new("drawn", message).help("train on digits, mnist or fashion to draw"))
        }
    }
}

/// Ink from 0 to 1 in every pixel, as large as the images that are learnt; gradients are those of a class, or of the predicted one.
pub(crate) fn drawn(study: &Study, network: &Network, pixels: &[f64], class: Option<usize>) -> Result<Value, Error> {
    let ([height, width], names) = images(study)?;
    if pixels.len() != height * width {
        let message = format!("{} pixels were drawn, and the network sees {height}×{width}", pixels.len());
        return Err(Error::new("drawn", message));
    }
    if let Some(place) = pixels.iter().position(|pixel| !(0.0..=1.0).contains(pixel)) {
        let message = format!("pixel {place} is {}; ink goes from 0 to 1", pixels[place]);
        return Err(Error::new("drawn", message));
    }
    if let Some(class) = class.filter(|class| *class >= names.len()) {
        return Err(Error::new("drawn", format!("there is no class {class}; there are {}", names.len())));
    }
    let (loss, (low, high)) = (study.settings.loss, ink(study)?);
    let outputs_of = |pixels: &Tensor| {
        let features = pixels * (high - low) + low;
        network.apply(&study.task.about.inputs(&features, &study.settings))
    };
    let image = Tensor::new(pixels, [1, pixels.len()]);
    let outputs = outputs_of(&image).to_f64_vec()?;
    let predicted = predicted_classes(&outputs, names.len()).next().unwrap_or(0) as usize;
    let class = class.unwrap_or(predicted);
    let share = |image: &Tensor| shares_of(loss, &outputs_of(image)).slice(&[s(0), s(class as isize)]);
    let (gradients, scale) = signed(&grad(share)(&image).to_f64_vec()?);
    Ok(json!({
        "height": height, "width": width, "pixels": levels(pixels, (0.0, 1.0)), "names": names, "predicted": predicted, "class": class,
        "shares": list(&shares(loss, &outputs)), "probabilities": are_probabilities(loss),
        "gradients": gradients, "scale": scale,
    }))
}

/// The shares of all classes as a function of the outputs, which can be differentiated; as numbers they are [`shares`].
fn shares_of(loss: Loss, outputs: &Tensor) -> Tensor {
    let parts = match loss {
        Loss::Binary => outputs.sigmoid(),
        Loss::Mse => outputs.clip(0.0, 1.0),
        _ => return outputs.softmax(-1),
    };
    let sum = parts.sum_over(-1).reshape([parts.shape()[0], 1]);
    parts / sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::tests::read;
    use crate::experiment::settings::{Model, Number};
    use crate::views::tests::{spoiled, suited};

    /// An image of the data, as ink.
    fn image(study: &Study, place: usize) -> Vec<f64> {
        let inputs = study.task.test.batch(&[place]).expect("an example").0;
        let pixels = unscaled(&study.task.about, &inputs, 1).expect("pixels");
        pixels.iter().map(|pixel| pixel.clamp(0.0, 1.0)).collect()
    }

    #[test]
    fn an_image_of_the_data_has_the_prediction_of_the_network() {
        for (dtype, loss) in [(Number::F32, Loss::CrossEntropy), (Number::F64, Loss::Binary), (Number::F64, Loss::Mse)]
        {
            let study = suited("digits", |settings| (settings.dtype, settings.loss) = (dtype, loss));
            let ends = ink(&study).expect("ink");
            assert!(ends.0.abs() < 1e-6 && (ends.1 - 1.0).abs() < 1e-6, "{ends:?}");
            let answer = drawn(&study, &study.start, &image(&study, 5), None).expect("a prediction");
            let inputs = study.task.test.batch(&[5]).expect("an example").0;
            let outputs = study.start.apply(&inputs).to_f64_vec().expect("outputs");
            for (class, expected) in shares(loss, &outputs).iter().enumerate() {
                let shown = answer["shares"][class].as_f64().expect("a share");
                assert!((shown - expected).abs() < 1e-5, "{loss:?}: {shown} and {expected}");
            }
            assert_eq!(answer["predicted"], answer["class"]);
        }
    }

    #[test]
    fn gradients_are_difference_quotients_of_the_share() {
        for loss in [Loss::CrossEntropy, Loss::Binary] {
            let study = suited("digits", |settings| (settings.dtype, settings.loss) = (Number::F64, loss));
            let pixels = image(&study, 2);
            let answer = drawn(&study, &study.start, &pixels, Some(3)).expect("a prediction");
            let (bytes, scale) = (read(&answer["gradients"]), answer["scale"].as_f64().expect("a scale"));
            let share = |place: usize, by: f64| {
                let mut moved = pixels.clone();
                moved[place] += by;
                let inputs = crate::experiment::predictions::inputs_of(&study, &moved).expect("inputs");
                shares(loss, &study.start.apply(&inputs).to_f64_vec().expect("outputs"))[3]
            };
            for place in [0, 19, 35, 63] {
                let quotient = (share(place, 1e-5) - share(place, -1e-5)) / 2e-5;
                let shown = (f64::from(bytes[place]) - 128.0) / 127.0 * scale;
                assert!((shown - quotient).abs() <= 0.51 / 127.0 * scale + 1e-9, "{shown} and {quotient}");
            }
        }
    }

    #[test]
    fn shares_are_the_same_as_tensors_and_as_numbers() {
        let outputs = [0.3, -2.0, 0.9, 1.7];
        for loss in [Loss::CrossEntropy, Loss::Binary, Loss::Mse, Loss::Hinge] {
            let tensor = shares_of(loss, &Tensor::new(&outputs, [1, 4])).to_f64_vec().expect("shares");
            for (one, other) in tensor.iter().zip(shares(loss, &outputs)) {
                assert!((one - other).abs() < 1e-12, "{loss:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_seen_is_refused() {
        let study = suited("digits", |settings| (settings.model, settings.layers) = (Model::Cnn, vec![3, 4]));
        let refused = |pixels: &[f64], class| drawn(&study, &study.start, pixels, class).unwrap_err().to_string();
        assert!(refused(&[], None).contains("8×8"));
        assert!(refused(&[0.0; 65], None).contains("65 pixels"));
        assert!(refused(&[f64::NAN; 64], None).contains("ink goes from 0 to 1"));
        assert!(refused(&[255.0; 64], None).contains("255"));
        assert!(refused(&[0.0; 64], Some(10)).contains("no class 10"));
        assert!(drawn(&study, &study.start, &[0.0; 64], Some(9)).is_ok());
        let answer = drawn(&study, &spoiled(&study.start), &[1.0; 64], None).expect("a prediction");
        assert_eq!((answer["predicted"].as_u64(), read(&answer["gradients"])), (Some(0), vec![0; 64]));
        let rows = suited("moons", |_| {});
        assert!(drawn(&rows, &rows.start, &[0.0, 0.0], None).unwrap_err().to_string().contains("images"));
    }
}
