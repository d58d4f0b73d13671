//! One step of one weight: from the gradient over every link of the optimizer to the next value.

use glassgrad::error::Error;
use glassgrad::formula::mathml;

use super::Subject;
use super::html::{escaped, note};
use super::inside::folded;
use crate::chart::number;
use crate::recipe;
use crate::study::Study;
use crate::update::{OneStep, gradient, replayed, steepest};

/// The step that is shown: late enough that the slots of the optimizer are not zero.
const STEP: u64 = 3;

pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let Some(step) = one_step(subject.study)? else { return Ok(None) };
    let about = format!(
        "Step {} of training, replayed from the initial weights, for the weight {}, which has the largest gradient of its layer.",
        step.number, step.name
    );
    let mut html = note(&about) + &chain(&step);
    let equations = step.equations();
    let equations = equations.iter().map(|(_, line)| format!("<div class=\"scroll\">{}</div>", mathml(line)));
    html += &format!("<div class=\"formulas\">{}</div>\n", equations.collect::<String>());
    html += &note(
        "The same step as a computation graph: inputs on the left, the next weight on the right. The derivative of the next \
         weight with respect to each number is in red.",
    );
    html += &folded(&step.graph()?, &format!("step {} of {}", step.number, step.name));
    Ok(Some(html))
}

/// An early step replayed, for the weight of the first layer that has the largest gradient.
fn one_step(study: &Study) -> Result<Option<OneStep>, Error> {
    let failed = |failure: crate::failure::Failure| Error::new("update", failure.to_string());
    let optimizer = recipe::optimizer(&study.settings, study.batches()).map_err(failed)?;
    let number = (study.settings.epochs * study.batches()).clamp(1, STEP);
    let last = replayed(study, number)?;
    let Some((path, place)) = steepest(&gradient(study, &optimizer, &last)?.1)? else { return Ok(None) };
    OneStep::of(study, &optimizer, &last, &path, &place).map(Some)
}

/// The numbers in their order, each with the link that computed it.
fn chain(step: &OneStep) -> String {
    let item = |kind: &str, name: &str, number: &str| {
        format!("<li class=\"{kind}\"><div><span>{}</span><b>{}</b></div></li>", escaped(name), escaped(number))
    };
    let mut items = vec![item("first", "gradient", &exact(step.gradient))];
    items.extend(step.links.iter().map(|link| item("", link.name, &exact(link.update))));
    items.push(item("", &format!("× learning rate {}", number(step.rate)), &exact(step.rate * step.update)));
    items.push(item("", "subtracted from the weight", &exact(step.before)));
    items.push(item("last", "next weight", &exact(step.after)));
    format!("<ol class=\"chain\">{}</ol>\n", items.concat())
}

/// A number with the digits that a step changes.
fn exact(value: f64) -> String {
    match value.abs() {
        size if size != 0.0 && !(1e-3..1e5).contains(&size) => number(value),
        _ => format!("{value:.6}").replace('-', "−"),
    }
}
