//! One feature with numbers: the curve that was fitted, over the examples.

use glassgrad::data::Dataset as _;
use glassgrad::dtype::DType;
use glassgrad::error::Error;

use super::{answers, features, spread};
use crate::chart::{Axis, Dot, Plot};
use crate::lab::objective::normal;
use crate::lab::settings::Loss;
use crate::lab::task::Scale;
use crate::report::Subject;
use crate::report::html::{figure, note};

/// The curve is looked at in so many places.
const PLACES: usize = 300;
const MOST_DOTS: usize = 1500;
/// Of each example at most so many numbers are shown.
const MOST_NUMBERS: usize = 4;

pub(super) fn part(subject: &Subject<'_>, names: &[String], scale: &Scale) -> Result<String, Error> {
    let task = &subject.study.task;
    let mut parts = Vec::new();
    for part in [&task.training, &task.test] {
        let wanted = part.tensors().1.reshape([part.len(), names.len()]).cast(DType::F64);
        parts.push((features(subject, part)?, scale.invert(&wanted).to_vec::<f64>()?));
    }
    let name = task.about.features.first().map_or("", String::as_str);
    let across = Axis::linear(name, parts.iter().flat_map(|(xs, _)| xs.iter().copied()));
    let (low, high) = across.ends();
    let xs: Vec<f64> = (0..PLACES).map(|k| low + (high - low) * k as f64 / (PLACES - 1) as f64).collect();
    let told = Curves::of(subject, &xs, scale)?;
    let mut charts = String::new();
    for (column, name) in names.iter().enumerate().take(MOST_NUMBERS) {
        let every = |numbers: &[f64]| numbers.iter().skip(column).step_by(names.len()).copied().collect::<Vec<f64>>();
        let means = every(&told.means);
        let deviations = told.deviations.as_deref().map(every);
        let points = |place: usize| -> Vec<(f64, f64)> {
            let (xs, ys): &(Vec<f64>, Vec<f64>) = &parts[place];
            spread(&xs.iter().copied().zip(every(ys)).collect::<Vec<_>>(), MOST_DOTS)
        };
        let seen = (0..2).flat_map(points).map(|point| point.1);
        let up = Axis::linear(name, seen.chain(means.iter().copied()).collect::<Vec<_>>().into_iter());
        let mut plot = Plot::square("The fitted curve with the examples", across.clone(), up);
        if let Some(deviations) = &deviations {
            let ends = xs
                .iter()
                .zip(&means)
                .zip(deviations)
                .map(|((x, mean), deviation)| (*x, mean - 2.0 * deviation, mean + 2.0 * deviation));
            plot.band("± two deviations", "var(--c1)", &ends.collect::<Vec<_>>());
        }
        plot.dots("learnt", "var(--c0)", Dot::Faint, &points(0));
        plot.dots("test", "var(--c2)", Dot::Plain, &points(1));
        plot.line("told by the network", "var(--c1)", &xs.iter().copied().zip(means).collect::<Vec<_>>());
        charts += &figure("The fitted curve", "", &plot);
    }
    let about = match told.deviations {
        Some(_) => {
            "The network tells a mean and a deviation at each place; about 95 of 100 examples should lie in the band."
        }
        None => "What the network tells between and beside the examples it has seen.",
    };
    Ok(format!("{}<div class=\"charts\" id=\"fitted\">{charts}</div>", note(about)))
}

/// What the network tells along the axis, in the units of the data.
struct Curves {
    means: Vec<f64>,
    deviations: Option<Vec<f64>>,
}

impl Curves {
    fn of(subject: &Subject<'_>, xs: &[f64], scale: &Scale) -> Result<Curves, Error> {
        let outputs = answers(subject, xs)?;
        if subject.study.settings.loss != Loss::Normal {
            return Ok(Curves { means: scale.invert(&outputs).to_vec::<f64>()?, deviations: None });
        }
        let told = normal(&outputs);
        let deviations = told.log_deviation.exp().to_vec::<f64>()?;
        let units = scale.deviation.iter().copied().cycle();
        Ok(Curves {
            means: scale.invert(&told.mean).to_vec::<f64>()?,
            deviations: Some(deviations.into_iter().zip(units).map(|(deviation, unit)| deviation * unit).collect()),
        })
    }
}
