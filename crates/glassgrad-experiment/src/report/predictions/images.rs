//! Images of the test set with their predicted classes, misclassified ones first.

use glassgrad::error::Error;

use super::test_predictions;
use crate::chart::{Bitmap, escaped};
use crate::predictions::{Prediction, are_probabilities, features};
use crate::report::Subject;
use crate::report::html::{name_of, note};

/// At most this many images are shown; of them at most `MOST_WRONG` misclassified ones, if there are enough correct ones.
const MOST_TILES: usize = 60;
const MOST_WRONG: usize = 40;

pub(super) fn part(subject: &Subject<'_>, names: &[String], [height, width]: [usize; 2]) -> Result<String, Error> {
    let predictions = test_predictions(subject, names.len())?;
    let pixels = features(&subject.study.task.about, &subject.study.task.test)?;
    let images: Vec<&[f64]> = pixels.chunks_exact(height * width).collect();
    // The most confident errors and the least confident correct predictions are the most informative.
    let mut wrong: Vec<usize> = (0..predictions.len()).filter(|place| !predictions[*place].is_right()).collect();
    wrong.sort_by(|a, b| predictions[*b].share.total_cmp(&predictions[*a].share));
    let mut right: Vec<usize> = (0..predictions.len()).filter(|place| predictions[*place].is_right()).collect();
    right.sort_by(|a, b| predictions[*a].share.total_cmp(&predictions[*b].share));
    let mistakes = wrong.len();
    wrong.truncate(MOST_WRONG.max(MOST_TILES.saturating_sub(right.len())));
    right.truncate(MOST_TILES - wrong.len());
    let shown: Vec<usize> = wrong.iter().chain(&right).copied().collect();
    let finite = || {
        shown
            .iter()
            .filter_map(|place| images.get(*place))
            .flat_map(|image| image.iter().copied())
            .filter(|pixel| pixel.is_finite())
    };
    let range = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let what = if are_probabilities(subject.study.settings.loss) {
        "with its probability"
    } else {
        "with its share of the scores"
    };
    let tiles: String = shown
        .iter()
        .filter_map(|place| Some(tile(images.get(*place)?, width, range, &predictions[*place], names)))
        .collect();
    let about = format!(
        "{mistakes} of {} test images are misclassified. The most confident errors come first, then the least confident correct predictions; \
         below each image is the predicted class, {what}.",
        predictions.len()
    );
    Ok(format!("{}<div class=\"tiles\" id=\"images\">\n{tiles}</div>", note(&about)))
}

fn tile(image: &[f64], width: usize, (low, high): (f64, f64), prediction: &Prediction, names: &[String]) -> String {
    let ink = |pixel: &f64| {
        let part = if high > low { (pixel - low) / (high - low) } else { 0.0 };
        // Dark on light, as on paper, whatever the page looks like.
        let level = 255 - (255.0 * part.clamp(0.0, 1.0)).round() as u8;
        [level, level, level, 255]
    };
    let picture = Bitmap::new(width, image.iter().map(ink).collect());
    let name = |class: usize| names.get(class).map_or("", String::as_str);
    let (actual, predicted) = (name(prediction.class), name(prediction.predicted));
    let (kind, words) = match prediction.is_right() {
        true => ("tile", format!("<b>{}</b>", name_of(predicted, 24))),
        false => ("tile wrong", format!("<b>{}</b>, not {}", name_of(predicted, 24), name_of(actual, 24))),
    };
    format!(
        "<figure class=\"{kind}\"><img alt=\"actual {}, predicted {}\" src=\"{}\"><figcaption>{words} <small>{:.1} %</small></figcaption></figure>\n",
        escaped(actual),
        escaped(predicted),
        picture.address(),
        100.0 * prediction.share
    )
}
