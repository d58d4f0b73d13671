//! The last step of one weight: from its gradient over every link of the optimiser to its next value.
//!
//! ```text
//! { "name": "layers.0.weight[1, 2]", "path": text, "place": [index, …], "shape": [extent, …], "step": number,
//!   "before": number, "gradient": number, "rate": number,
//!   "links": [{ "name": text, "value": number, "shown": text, "memory": [{ "name": text, "before": number, "after": number }, …] }, …],
//!   "update": number, "change": number, "after": number, "rounding": number,
//!   "shown": { "before": text, "gradient": text, "rate": text, "update": text, "change": text, "after": text },
//!   "lines": [{ "link": text, "text": text, "math": MathML }, …],
//!   "graph": { "about": text, "plan": a plan } or null }
//! ```
//!
//! `update` is what the last link makes of the gradient, `change` is −rate · update, and `after` is `before` + `change` up to
//! `rounding`: the difference between `after`, which is bit for bit what training made, and the sum of the parts. A line is
//! there only if the numbers in it come out as the link computed them.

use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::formula::mathml;
use glassgrad::optim::{Adagrad, Adam, Optimiser, RmsProp, State};
use glassgrad::trace::{json_number, short};
use serde_json::{Value, json};

use crate::lab::settings::{Optimizer, Settings};
use crate::lab::study::Study;
use crate::lab::units::parameter;
use crate::lab::update::{LastStep, OneStep, memory_names};

/// The last step of the weight at a path of the network and a place of its tensor.
pub(in crate::studio) fn weight(
    study: &Study,
    optimiser: &Optimiser,
    last: &LastStep,
    path: &str,
    place: &[usize],
) -> Result<Value, Error> {
    let step = OneStep::of(study, optimiser, last, path, place)?;
    let numbers = Numbers::of(&step)?;
    let links: Vec<Value> = numbers.links.iter().map(Link::as_json).collect();
    let change = -step.rate * numbers.update;
    let shown = json!({
        "before": short(numbers.before), "gradient": short(numbers.gradient), "rate": short(step.rate),
        "update": short(numbers.update), "change": short(change), "after": short(numbers.after),
    });
    let graph = step.graph(study)?.and_then(|graph| graph.plan().ok());
    let about = "inputs on the left, the next weight on the right; a gradient says how much the next weight would change with each number";
    Ok(json!({
        "name": step.name,
        "path": path,
        "place": place,
        "shape": parameter(&last.parameters, path).map(|leaf| leaf.shape().to_vec()),
        "step": step.number,
        "before": json_number(numbers.before),
        "gradient": json_number(numbers.gradient),
        "rate": json_number(step.rate),
        "links": links,
        "update": json_number(numbers.update),
        "change": json_number(change),
        "after": json_number(numbers.after),
        "rounding": json_number(numbers.after - (numbers.before + change)),
        "shown": shown,
        "lines": lines(&study.settings, &step, &numbers),
        "graph": graph.map(|plan| json!({ "about": about, "plan": plan })),
    }))
}

/// A link of the optimiser: what came to it, what it made of that, and what it remembers.
struct Link {
    name: &'static str,
    given: f64,
    made: f64,
    /// What it remembers of the weight, before the step and after it.
    memory: Vec<(&'static str, f64, f64)>,
}

impl Link {
    fn as_json(&self) -> Value {
        let memory = |(name, before, after): &(&str, f64, f64)| json!({ "name": name, "before": json_number(*before), "after": json_number(*after) });
        json!({ "name": self.name, "value": json_number(self.made), "shown": short(self.made),
                "memory": self.memory.iter().map(memory).collect::<Vec<Value>>() })
    }
}

/// A step of one weight, as numbers.
struct Numbers {
    before: f64,
    gradient: f64,
    links: Vec<Link>,
    update: f64,
    after: f64,
}

impl Numbers {
    fn of(step: &OneStep) -> Result<Numbers, Error> {
        let [(_, gradient), between @ .., _] = &step.parts[..] else {
            return Err(Error::new("update", "the optimiser told nothing of its step"));
        };
        let gradient = gradient.item()?;
        let (mut links, mut given) = (Vec::new(), gradient);
        for (number, (name, made)) in between.iter().enumerate() {
            let remembered = |state: &State<Tensor>| -> Result<Vec<f64>, Error> {
                let leaves = state.memories.get(number).map(|remembered| &remembered.leaves[..]).unwrap_or_default();
                leaves.iter().map(Tensor::item).collect()
            };
            let (before, after) = (remembered(&step.state)?, remembered(&step.after)?);
            let memory = memory_names(name).zip(before).zip(after).map(|((name, before), after)| (name, before, after));
            let made = made.item()?;
            links.push(Link { name, given, made, memory: memory.collect() });
            given = made;
        }
        Ok(Numbers { before: step.weight.item()?, gradient, links, update: given, after: step.next.item()? })
    }
}

/// A line of mathematics, with what stands on its right as a number.
struct Line {
    text: String,
    value: f64,
}

/// A number as it stands in a product.
fn factor(number: f64) -> String {
    if number < 0.0 { format!("({})", short(number)) } else { short(number) }
}

fn line(formula: &str, numbers: &str, value: f64) -> Line {
    Line { text: format!("{formula} = {numbers} = {}", short(value)), value }
}

/// The step as lines of mathematics: w the weight, g its gradient, u what the links have made of it so far.
fn lines(settings: &Settings, step: &OneStep, numbers: &Numbers) -> Vec<Value> {
    let written = |link: &str, line: &Line| json!({ "link": link, "text": line.text, "math": mathml(&line.text) });
    let gradient = Line { text: format!("g = ∂L / ∂w = {}", short(numbers.gradient)), value: numbers.gradient };
    let mut lines = vec![written("gradient", &gradient)];
    for (number, link) in numbers.links.iter().enumerate() {
        let name = if number == 0 { "g" } else { "u" };
        let own = of_link(settings, step.number, numbers.before, link, name);
        // In single precision there are about seven digits; a line that is further off would be another rule.
        let is_right = own.last().is_some_and(|last| {
            last.value == link.made || (last.value - link.made).abs() <= 1e-4 * last.value.abs().max(link.made.abs())
        });
        if is_right {
            lines.extend(own.iter().map(|line| written(link.name, line)));
        }
    }
    let last = if numbers.links.is_empty() { "g" } else { "u" };
    let next = line(
        &format!("w_t = w - η·{last}"),
        &format!("{} - {}·{}", short(numbers.before), factor(step.rate), factor(numbers.update)),
        numbers.after,
    );
    lines.push(written("parameters", &next));
    lines
}

/// What a link does, where it is known; the last line is what it makes.
fn of_link(settings: &Settings, step: u64, weight: f64, link: &Link, name: &str) -> Vec<Line> {
    let u = link.given;
    let memory = |place: usize| link.memory.get(place).map_or(f64::NAN, |(_, before, _)| *before);
    let mean_of = |letter: &str, part: f64, before: f64, what: &str, new: f64| {
        line(
            &format!("{letter}_t = {}·{letter} + {}·{what}", short(part), short(1.0 - part)),
            &format!("{}·{} + {}·{}", short(part), factor(before), short(1.0 - part), factor(new)),
            part * before + (1.0 - part) * new,
        )
    };
    let divided = |letter: &str, root: f64, epsilon: f64| {
        let formula = format!("u = {name} / (sqrt({letter}_t) + {})", short(epsilon));
        line(&formula, &format!("{} / ({} + {})", short(u), short(root), short(epsilon)), u / (root + epsilon))
    };
    match link.name {
        "clip by norm" if u != 0.0 => {
            let part = link.made / u;
            vec![line(&format!("u = {}·{name}", short(part)), &format!("{}·{}", short(part), factor(u)), part * u)]
        }
        "momentum" | "Nesterov momentum" => {
            let part = if settings.momentum > 0.0 { settings.momentum } else { 0.9 };
            let sum = part * memory(0) + u;
            let velocity = line(
                &format!("v_t = {}·v + {name}", short(part)),
                &format!("{}·{} + {}", short(part), factor(memory(0)), factor(u)),
                sum,
            );
            match link.name {
                "momentum" => vec![velocity],
                _ => {
                    let formula = format!("u = {name} + {}·v_t", short(part));
                    let ahead =
                        line(&formula, &format!("{} + {}·{}", short(u), short(part), factor(sum)), u + part * sum);
                    vec![velocity, ahead]
                }
            }
        }
        "RMSprop" => {
            let RmsProp { factor: part, epsilon } = RmsProp::default();
            let square = mean_of("s", part, memory(0), &format!("{name}^2"), u * u);
            let root = square.value.sqrt();
            vec![square, divided("s", root, epsilon)]
        }
        "Adagrad" => {
            let sum = memory(0) + u * u;
            let squares = line(&format!("s_t = s + {name}^2"), &format!("{} + {}^2", short(memory(0)), factor(u)), sum);
            vec![squares, divided("s", sum.sqrt(), Adagrad::default().epsilon)]
        }
        "adam" => {
            let Adam { mean_factor, square_factor, epsilon } = Adam::default();
            let mean = mean_of("m", mean_factor, memory(0), name, u);
            let square = mean_of("s", square_factor, memory(1), &format!("{name}^2"), u * u);
            let share = |part: f64| 1.0 - part.powf(step as f64);
            let (top, root) = (mean.value / share(mean_factor), (square.value / share(square_factor)).sqrt());
            let [mean_share, square_share] =
                [mean_factor, square_factor].map(|part| format!("(1 - {}^{step})", short(part)));
            let formula = format!("u = (m_t / {mean_share}) / (sqrt(s_t / {square_share}) + {})", short(epsilon));
            let ratio = line(
                &formula,
                &format!("{} / ({} + {})", short(top), short(root), short(epsilon)),
                top / (root + epsilon),
            );
            vec![mean, square, ratio]
        }
        "weight decay" => {
            let part = match settings.optimizer {
                Optimizer::Adamw if settings.weight_decay <= 0.0 => 0.01,
                _ => settings.weight_decay,
            };
            let formula = format!("u_t = {name} + {}·w", short(part));
            vec![line(&formula, &format!("{} + {}·{}", short(u), short(part), factor(weight)), u + part * weight)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use glassgrad::tree::Tree as _;

    use super::*;
    use crate::lab::recipe;
    use crate::lab::settings::{Number, Optimizer};
    use crate::lab::study::Conduct;
    use crate::lab::update::replayed;
    use crate::studio::views::tests::{moved, spoiled, suited};

    fn optimiser(study: &Study) -> Optimiser {
        recipe::optimiser(&study.settings, study.batches()).unwrap_or_else(|failure| panic!("{failure}"))
    }

    fn number(value: &Value) -> f64 {
        value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
    }

    #[test]
    fn the_parts_make_up_what_training_does() {
        use Optimizer::{Adagrad, Adam, Adamw, Momentum, Nesterov, Rmsprop, Sgd};
        for optimizer in [Sgd, Momentum, Nesterov, Rmsprop, Adagrad, Adam, Adamw] {
            for dtype in [Number::F32, Number::F64] {
                // Four batches in one epoch, so that the last step is the fourth one.
                let study = suited("moons", |settings| {
                    (settings.optimizer, settings.dtype, settings.epochs) = (optimizer, dtype, 1);
                    (settings.points, settings.batch, settings.lr) = (80, 10, 0.01);
                    (settings.weight_decay, settings.clip) = (0.02, 0.1);
                });
                let trained = study.run(Conduct::default(), &mut ()).ok().expect("training").network;
                let last = replayed(&study, 4).expect("the fourth step");
                let answer = weight(&study, &optimiser(&study), &last, "layers.1.weight", &[3, 5]).expect("a step");
                let after = parameter(&trained, "layers.1.weight").expect("weights").to_f64_vec().expect("numbers")[53];
                assert_eq!(number(&answer["after"]).to_bits(), after.to_bits(), "{optimizer:?}");
                let whole = number(&answer["before"]) - number(&answer["rate"]) * number(&answer["update"]);
                let rounding = number(&answer["rounding"]);
                let most = if dtype == Number::F32 { 1e-6 } else { 1e-14 };
                assert!((whole + rounding - after).abs() < 1e-15 && rounding.abs() < most, "{rounding}");
                // Every link is written as mathematics, and the memory after the step is what the lines say.
                let links: Vec<&str> = answer["links"]
                    .as_array()
                    .expect("links")
                    .iter()
                    .filter_map(|link| link["name"].as_str())
                    .collect();
                assert_eq!(links, optimiser(&study).names());
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
        let answer = weight(&study, &optimiser(&study), &last, "layers.0.weight", &[2, 7]).expect("a step");
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
    fn spoiled_and_missing_weights_are_told() {
        let study = suited("moons", |settings| settings.layers = Vec::new());
        let mut last = replayed(&study, 1).expect("a step");
        assert!(weight(&study, &optimiser(&study), &last, "layers.0.weight", &[2, 0]).is_err());
        assert!(weight(&study, &optimiser(&study), &last, "nothing", &[]).is_err());
        last.parameters = spoiled(&last.parameters);
        last.state = optimiser(&study).start(&last.parameters).realise().expect("a state");
        let answer = weight(&study, &optimiser(&study), &last, "layers.0.bias", &[1]).expect("a step");
        assert_eq!((&answer["before"], &answer["after"]), (&"NaN".into(), &"NaN".into()));
    }

    #[test]
    fn another_rate_than_that_of_the_settings_has_no_graph() {
        let study = suited("moons", |_| {});
        let faster = Optimiser::adam(0.5);
        let last = LastStep { rate: 0.5, ..replayed(&study, 2).expect("a step") };
        let answer = weight(&study, &faster, &last, "layers.0.weight", &[0, 0]).expect("a step");
        assert!(answer["graph"].is_null());
        assert_eq!(number(&answer["rate"]), 0.5);
    }
}
