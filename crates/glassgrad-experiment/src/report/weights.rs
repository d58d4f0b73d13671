//! Weights as images and histograms, and the norms of weights and gradients during training.

use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::tree::Tree as _;

use super::Subject;
use super::curves::chart_over;
use super::head::thousands;
use super::html::{Cell, figure, note, table};
use crate::chart::{Axis, Bitmap, Plot, colour, number};
use crate::history::{EpochRecord, History, Norms};
use crate::predictions::Histogram;
use crate::units::Units;

const MOST_UNITS: usize = 64;
const MOST_HISTOGRAMS: usize = 12;
const MOST_LAYERS: usize = 8;
const MOST_ROWS: usize = 60;
const BINS: usize = 40;

/// Weights of the first layer as images: orange is positive, blue is negative.
pub(super) fn units(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let view = subject.study.task.about.view;
    let Some(units) = Units::of(view, &subject.outcome.network, MOST_UNITS)? else { return Ok(None) };
    let tile = |(place, weights): (usize, &Vec<f64>)| {
        let largest =
            weights.iter().filter(|weight| weight.is_finite()).fold(0.0, |most: f64, weight| most.max(weight.abs()));
        let pixel =
            |weight: &f64| colour::diverging(if largest > 0.0 && weight.is_finite() { weight / largest } else { 0.0 });
        let address = Bitmap::new(units.width, weights.iter().map(pixel).collect()).address();
        format!("<figure class=\"tile\"><img alt=\"weights of number {}\" src=\"{address}\"></figure>\n", place + 1)
    };
    let tiles: String = units.tiles.iter().enumerate().map(tile).collect();
    let about = format!(
        "{} of {} {}: orange pixels have positive weights, blue ones negative; each tile has its own scale.",
        units.tiles.len(),
        units.all,
        units.what
    );
    Ok(Some(format!("{}<div class=\"tiles units\">\n{tiles}</div>", note(&about))))
}

/// Norms of weights and gradients by layer, and histograms of the weights.
pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let history = &subject.outcome.history;
    let leaves: Vec<(String, Tensor)> =
        subject.outcome.network.leaves().into_iter().map(|(path, leaf)| (path.to_string(), leaf)).collect();
    let floats: Vec<&(String, Tensor)> = leaves.iter().filter(|(_, leaf)| leaf.is_float()).collect();
    let recorded: Vec<&EpochRecord> = history.epochs.iter().filter(|seen| seen.sizes.len() == floats.len()).collect();
    let mut html = note("Norms are root mean squares; gradients are those of the loss of the first training examples.");
    html += &sizes(&floats, &recorded);
    let mut charts = String::new();
    if !recorded.is_empty() {
        charts += &gradients(history, &floats);
    }
    if !charts.is_empty() {
        html += &format!("<div class=\"charts\">{charts}</div>\n");
    }
    let matrices: Vec<&&(String, Tensor)> = floats.iter().filter(|(_, leaf)| leaf.shape().len() > 1).collect();
    let mut histograms = String::new();
    for (path, leaf) in matrices.iter().take(MOST_HISTOGRAMS) {
        histograms += &histogram(path, &leaf.cast(DType::F64).to_vec::<f64>()?);
    }
    let more = match matrices.len() > MOST_HISTOGRAMS {
        true => note(&format!("The first {MOST_HISTOGRAMS} of {} weights are shown.", matrices.len())),
        false => String::new(),
    };
    html += &format!("<h3>Weight histograms</h3>\n<div class=\"charts small\">{histograms}</div>{more}");
    Ok(Some(html))
}

/// A row for each parameter: its norms in the first and in the last recorded epoch.
fn sizes(leaves: &[&(String, Tensor)], recorded: &[&EpochRecord]) -> String {
    let text = |seen: Option<&&EpochRecord>, place: usize, of: fn(&Norms) -> f64| {
        seen.and_then(|seen| seen.sizes.get(place)).map_or("–".to_owned(), |sizes| number(of(sizes)))
    };
    let (first, last) = (recorded.first(), recorded.last());
    let row = |(place, (path, leaf)): (usize, &&(String, Tensor))| {
        let mut cells = vec![
            Cell::Path(path.clone()),
            Cell::Path(leaf.shape().to_string()),
            Cell::Number(thousands(leaf.shape().elements())),
        ];
        for of in [|sizes: &Norms| sizes.number, |sizes: &Norms| sizes.gradient] as [fn(&Norms) -> f64; 2] {
            cells.extend([first, last].map(|seen| Cell::Number(text(seen, place, of))));
        }
        cells
    };
    let rows: Vec<Vec<Cell>> = leaves.iter().enumerate().take(MOST_ROWS).map(row).collect();
    let epoch = |seen: Option<&&EpochRecord>| seen.map_or(0, |seen| seen.epoch);
    let [before, after] = [first, last].map(epoch);
    let headings = [
        "parameter".to_owned(),
        "shape".to_owned(),
        "numbers".to_owned(),
        format!("weights, epoch {before}"),
        format!("epoch {after}"),
        format!("gradients, epoch {before}"),
        format!("epoch {after}"),
    ];
    let more = match leaves.len() > MOST_ROWS {
        true => note(&format!("The first {MOST_ROWS} of {} parameters are shown.", leaves.len())),
        false => String::new(),
    };
    table("Weight and gradient norms", &headings.each_ref().map(String::as_str), &rows) + &more
}

/// Gradient norms by layer, epoch by epoch.
fn gradients(history: &History, leaves: &[&(String, Tensor)]) -> String {
    let layer_of = |path: &str| path.rsplit_once('.').map_or(path, |(layer, _)| layer).to_owned();
    let mut layers: Vec<String> = Vec::new();
    for (path, _) in leaves {
        let layer = layer_of(path);
        if !layers.contains(&layer) {
            layers.push(layer);
        }
    }
    let shown: Vec<&String> = layers.iter().step_by(layers.len().div_ceil(MOST_LAYERS).max(1)).collect();
    let size = |seen: &EpochRecord, layer: &str| {
        let members = leaves.iter().zip(&seen.sizes).filter(|((path, _), _)| layer_of(path) == layer);
        joined(members.map(|((_, leaf), sizes)| (leaf.shape().elements() as f64, sizes.gradient)))
    };
    let curve = |layer: &String| history.curve(|seen| (seen.sizes.len() == leaves.len()).then(|| size(seen, layer)));
    let curves: Vec<(&str, Vec<(f64, f64)>)> = shown.iter().map(|layer| (layer.as_str(), curve(layer))).collect();
    let about = match shown.len() < layers.len() {
        true => format!(
            "every {}th of {} layers; a curve far below the others is a vanishing gradient",
            layers.len().div_ceil(MOST_LAYERS),
            layers.len()
        ),
        false => "a curve far below the others is a vanishing gradient".to_owned(),
    };
    // Layers differ by factors, and so do epochs.
    let all = curves.iter().flat_map(|(_, points)| points).map(|point| point.1);
    chart_over("Gradient norms by layer", &about, Axis::logarithmic("RMS", all), &curves)
}

/// The RMS of several tensors together, from the element count and the RMS of each.
fn joined(tensors: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (squares, count) = tensors
        .fold((0.0, 0.0), |(squares, count), (numbers, size)| (squares + numbers * size * size, count + numbers));
    (squares / count).sqrt()
}

fn histogram(path: &str, weights: &[f64]) -> String {
    let across = Axis::linear("", weights.iter().copied().filter(|weight| weight.is_finite()));
    let (low, high) = across.ends();
    let edge = |place: usize| low + (high - low) * place as f64 / BINS as f64;
    let counted = Histogram::between(weights, BINS, low, high);
    let counts: Vec<f64> = counted.counts.iter().map(|count| *count as f64).collect();
    let up = Axis::between("", 0.0, 1.05 * counts.iter().copied().fold(1.0, f64::max));
    let mut plot = Plot::flat(&format!("Histogram of {path}"), across, up);
    plot.bars("var(--c0)", &(0..=BINS).map(edge).collect::<Vec<_>>(), &counts);
    let lost = counted.lost;
    let about = if lost > 0 { format!("{lost} of {} are not finite", weights.len()) } else { String::new() };
    figure(path, &about, &plot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_weights_have_a_histogram() {
        for weights in [&[][..], &[0.0; 5], &[f64::NAN, 1.0], &[f64::MAX, f64::MIN], &[1.0, 2.0, 3.0]] {
            let html = histogram("layers.0.weight", weights);
            assert!(html.contains("<svg") && !html.contains("NaN") && !html.contains("inf"), "{html}");
        }
    }

    #[test]
    fn layers_join_their_parameters() {
        // √((3·2² + 1·0²)/4)
        assert_eq!(joined([(3.0, 2.0), (1.0, 0.0)].into_iter()), 3.0_f64.sqrt());
        let leaves = ["a.weight", "a.bias", "b.weight"].map(|name| (name.to_owned(), Tensor::ones([3])));
        let sizes = vec![Norms { gradient: 2.0, number: 0.0 }; 3];
        let seen = |epoch| EpochRecord { epoch, loss: 1.0, rate: 1.0, test: None, sizes: sizes.clone(), seconds: 0.0 };
        let history = History { parameters: Vec::new(), epochs: vec![seen(1), seen(2)] };
        let html = gradients(&history, &leaves.iter().collect::<Vec<_>>());
        assert_eq!(html.matches("<polyline").count(), 2, "{html}");
        assert!(html.contains("data-name=\"a\"") && html.contains("data-name=\"b\""));
    }
}
