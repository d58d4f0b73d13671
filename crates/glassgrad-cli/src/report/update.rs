//! One step of one weight: from the gradient over every link of the optimiser to the next value.

use glassgrad::error::Error;
use glassgrad::expr::Tensor;

use super::Subject;
use super::html::{escaped, note};
use super::inside::folded;
use crate::chart::number;
use crate::lab::recipe;
use crate::lab::study::Study;
use crate::lab::update::{OneStep, gradient, replayed, steepest};

/// The step that is taken apart: late enough that the optimiser remembers something.
const STEP: u64 = 3;

pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let Some(step) = one_step(subject.study)? else { return Ok(None) };
    let about = format!(
        "Step {} of the training, made again from the first weights, for the weight {} that had the largest gradient of its layer.",
        step.number, step.name
    );
    let mut html = note(&about) + &chain(&step);
    if let Some(graph) = step.graph(subject.study)? {
        html += &note(
            "The same step as the graph that is computed: inputs on the left, the next weight on the right. In red stands how \
             much the next weight would change with each number.",
        );
        html += &folded(&graph, &format!("step {} of {}", step.number, step.name));
    }
    Ok(Some(html))
}

/// An early step made again, for the weight of the first layer that has the largest slope.
fn one_step(study: &Study) -> Result<Option<OneStep>, Error> {
    let failed = |failure: crate::failure::Failure| Error::new("update", failure.to_string());
    let optimiser = recipe::optimiser(&study.settings, study.batches()).map_err(failed)?;
    let number = (study.settings.epochs * study.batches()).clamp(1, STEP);
    let last = replayed(study, number)?;
    let Some((path, place)) = steepest(&gradient(study, &last)?)? else { return Ok(None) };
    OneStep::of(study, &optimiser, &last, &path, &place).map(Some)
}

/// The numbers in their order, each with what made it.
fn chain(step: &OneStep) -> String {
    let item = |kind: &str, name: &str, number: &str| {
        format!("<li class=\"{kind}\"><div><span>{}</span><b>{}</b></div></li>", escaped(name), escaped(number))
    };
    let told = |tensor: &Tensor| tensor.item().map_or_else(|error| error.to_string(), exact);
    let mut items = Vec::new();
    for (place, (name, tensor)) in step.parts.iter().enumerate() {
        let kind = if place == 0 { "first" } else { "" };
        if place + 1 < step.parts.len() {
            items.push(item(kind, if place == 0 { "gradient" } else { name }, &told(tensor)));
        }
    }
    if let [.., (_, update), _] = &step.parts[..] {
        let product = update.item().map_or(f64::NAN, |update| step.rate * update);
        items.push(item("", &format!("× rate {}", number(step.rate)), &exact(product)));
        items.push(item("", "taken from the weight", &told(&step.weight)));
        items.push(item("last", "next weight", &told(&step.next)));
    }
    format!("<ol class=\"chain\">{}</ol>\n", items.concat())
}

/// A number with the digits that a step changes.
fn exact(value: f64) -> String {
    match value.abs() {
        size if size != 0.0 && !(1e-3..1e5).contains(&size) => number(value),
        _ => format!("{value:.6}").replace('-', "−"),
    }
}
