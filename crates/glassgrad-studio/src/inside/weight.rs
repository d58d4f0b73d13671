//! The last step of one weight: from its gradient over every link of the optimizer to its next value.
//!
//! ```text
//! { "name": "layers.0.weight[1, 2]", "path": text, "place": [index, …], "shape": [extent, …], "step": number,
//!   "before": number, "gradient": number, "rate": number,
//!   "links": [{ "name": text, "value": number, "shown": text, "slots": [{ "name": text, "before": number, "after": number }, …] }, …],
//!   "update": number, "change": number, "after": number, "rounding": number,
//!   "shown": { "before": text, "gradient": text, "rate": text, "update": text, "change": text, "after": text },
//!   "lines": [{ "link": text, "text": text, "math": MathML }, …],
//!   "graph": { "about": text, "plan": a plan } or null }
//! ```
//!
//! `update` is the update after the last link, `change` is −rate · update, and `after` is `before` + `change` up to
//! `rounding`: the difference between `after`, which is bit for bit what training computed, and the sum of the parts. The
//! lines come from the formulas that the links of the optimizer state.

use glassgrad::error::Error;
use glassgrad::formula::mathml;
use glassgrad::optim::{LinkStep, Optimizer, SlotStep};
use glassgrad::trace::{json_number, short};
use serde_json::{Value, json};

use crate::experiment::study::Study;
use crate::experiment::units::parameter;
use crate::experiment::update::{LastStep, OneStep};

/// The last step of the weight at a path of the network and an index of its tensor.
pub(crate) fn weight(
    study: &Study,
    optimizer: &Optimizer,
    last: &LastStep,
    path: &str,
    place: &[usize],
) -> Result<Value, Error> {
    let step = OneStep::of(study, optimizer, last, path, place)?;
    let change = -step.rate * step.update;
    let shown = json!({
        "before": short(step.before), "gradient": short(step.gradient), "rate": short(step.rate),
        "update": short(step.update), "change": short(change), "after": short(step.after),
    });
    let slot = |slot: &SlotStep| json!({ "name": slot.slot.name, "before": json_number(slot.before), "after": json_number(slot.after) });
    let link = |link: &LinkStep| {
        json!({ "name": link.name, "value": json_number(link.update), "shown": short(link.update),
                "slots": link.slots.iter().map(slot).collect::<Vec<Value>>() })
    };
    let line = |(link, text): (&str, String)| json!({ "link": link, "math": mathml(&text), "text": text });
    let graph = step.graph()?.plan().ok();
    let about = "Inputs on the left, the next weight on the right; a gradient is the derivative of the next weight with respect to that number.";
    Ok(json!({
        "name": step.name,
        "path": path,
        "place": place,
        "shape": parameter(&last.parameters, path).map(|leaf| leaf.shape().to_vec()),
        "step": step.number,
        "before": json_number(step.before),
        "gradient": json_number(step.gradient),
        "rate": json_number(step.rate),
        "links": step.links.iter().map(link).collect::<Vec<Value>>(),
        "update": json_number(step.update),
        "change": json_number(change),
        "after": json_number(step.after),
        "rounding": json_number(step.after - (step.before + change)),
        "shown": shown,
        "lines": step.equations().into_iter().map(line).collect::<Vec<Value>>(),
        "graph": graph.map(|plan| json!({ "about": about, "plan": plan })),
    }))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use glassgrad::optim::OPTIMIZERS;
    use glassgrad::tree::Tree as _;

    use super::*;
    use crate::experiment::recipe;
    use crate::experiment::settings::{Number, OptimizerName};
    use crate::experiment::study::RunOptions;
    use crate::experiment::update::replayed;
    use crate::views::tests::{moved, spoiled, suited};

    fn optimizer(study: &Study) -> Optimizer {
        recipe::optimizer(&study.settings, study.batches()).unwrap_or_else(|failure| panic!("{failure}"))
    }

    fn number(value: &Value) -> f64 {
        value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
    }

    #[test]
    fn the_parts_make_up_what_training_does() {
        for row in &OPTIMIZERS {
            for dtype in [Number::F32, Number::F64] {
                // Four batches in one epoch, so that the last step is the fourth one.
                let study = suited("moons", |settings| {
                    (settings.optimizer, settings.dtype, settings.epochs) = (OptimizerName(row), dtype, 1);
                    (settings.points, settings.batch, settings.lr) = (80, 10, 0.01);
                    (settings.weight_decay, settings.clip) = (0.02, 0.1);
                });
                let trained =
                    study.run(RunOptions::default(), &RefCell::default(), &mut ()).ok().expect("training").network;
                let last = replayed(&study, 4).expect("the fourth step");
                let answer = weight(&study, &optimizer(&study), &last, "layers.1.weight", &[3, 5]).expect("a step");
                let after = parameter(&trained, "layers.1.weight").expect("weights").to_f64_vec().expect("numbers")[53];
                assert_eq!(number(&answer["after"]).to_bits(), after.to_bits(), "{}", row.name);
                let whole = number(&answer["before"]) - number(&answer["rate"]) * number(&answer["update"]);
                let rounding = number(&answer["rounding"]);
                let most = if dtype == Number::F32 { 1e-6 } else { 1e-14 };
                assert!((whole + rounding - after).abs() < 1e-15 && rounding.abs() < most, "{rounding}");
                // Every link has its formula.
                let links: Vec<&str> = answer["links"]
                    .as_array()
                    .expect("links")
                    .iter()
                    .filter_map(|link| link["name"].as_str())
                    .collect();
                assert_eq!(links, optimizer(&study).names());
                for link in links {
                    assert!(
                        answer["lines"].as_array().expect("lines").iter().any(|line| line["link"] == link),
                        "{link}: {}",
                        answer["lines"]
                    );
                }
                for line in answer["lines"].as_array().expect("lines") {
                    assert!(!line["math"].as_str().expect("MathML").contains("<mtext>"), "{line}");
                }
                assert!(answer["graph"]["plan"]["nodes"].as_array().is_some_and(|nodes| nodes.len() > 3));
            }
        }
    }

    #[test]
    fn the_gradient_is_a_difference_quotient() {
        let study = suited("iris", |_| {});
        let last = replayed(&study, 5).expect("a step");
        let answer = weight(&study, &optimizer(&study), &last, "layers.0.weight", &[2, 7]).expect("a step");
        let loss = |by: f64| {
            let network = moved(&last.parameters, "layers.0.weight", 27, by);
            study.objective.of_batch(&network, &last.batch, &last.key).item().expect("a loss")
        };
        let quotient = (loss(1e-5) - loss(-1e-5)) / 2e-5;
        assert!((number(&answer["gradient"]) - quotient).abs() < 1e-8, "{quotient}");
        assert_eq!(
            (number(&answer["update"]), answer["links"].as_array().map(Vec::len)),
            (number(&answer["gradient"]), Some(0))
        );
        assert_eq!(answer["lines"].as_array().map(Vec::len), Some(2));
        assert_eq!(number(&answer["step"]), 5.0);
    }

    #[test]
    fn non_finite_and_missing_weights_are_reported() {
        let study = suited("moons", |settings| settings.layers = Vec::new());
        let mut last = replayed(&study, 1).expect("a step");
        assert!(weight(&study, &optimizer(&study), &last, "layers.0.weight", &[2, 0]).is_err());
        assert!(weight(&study, &optimizer(&study), &last, "nothing", &[]).is_err());
        last.parameters = spoiled(&last.parameters);
        last.state = optimizer(&study).init(&last.parameters).realise().expect("a state");
        let answer = weight(&study, &optimizer(&study), &last, "layers.0.bias", &[1]).expect("a step");
        assert_eq!((&answer["before"], &answer["after"]), (&"NaN".into(), &"NaN".into()));
    }

    #[test]
    fn an_optimizer_that_the_settings_do_not_name_is_explained_too() {
        let study = suited("moons", |_| {});
        let other = Optimizer::adam(0.5).ema(0.5);
        let mut last = LastStep { rate: 0.5, ..replayed(&study, 2).expect("a step") };
        last.state = other.init(&last.parameters).realise().expect("a state");
        let answer = weight(&study, &other, &last, "layers.0.weight", &[0, 0]).expect("a step");
        assert!(answer["graph"]["plan"]["nodes"].as_array().is_some_and(|nodes| nodes.len() > 3));
        let lines = answer["lines"].as_array().expect("lines");
        assert!(
            lines.iter().any(|line| line["link"] == "EMA" && line["text"].as_str().expect("text").contains("β * m"))
        );
        assert_eq!(number(&answer["rate"]), 0.5);
    }
}
