//! One step of one weight: from the gradient over every link of the optimiser to the next value.

use glassgrad::data::{Batches, Position};
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::expr::{Keys, Tensor};
use glassgrad::glass::Graph;
use glassgrad::grad;
use glassgrad::optim::{Optimiser, Remembered, State};
use glassgrad::rng::Key;
use glassgrad::tree::Tree as _;

use super::Subject;
use super::html::{escaped, note};
use super::inside::folded;
use crate::chart::number;
use crate::lab::network::Network;
use crate::lab::recipe;
use crate::lab::settings::Settings;
use crate::lab::study::Study;

/// The step that is taken apart: late enough that the optimiser remembers something.
const STEP: u64 = 3;

/// What the link is called that makes gradients shorter: it looks at all weights at once.
const CLIP: &str = "clip by norm";

pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let Some(step) = OneStep::of(subject.study)? else { return Ok(None) };
    let about = format!(
        "Step {} of the training, made again from the first weights, for the weight {} that had the largest gradient of its layer.",
        step.number, step.name
    );
    let mut html = note(&about) + &chain(&step);
    if let Some(graph) = graph_of(subject.study, &step)? {
        html += &note(
            "The same step as the graph that is computed: inputs on the left, the next weight on the right. In red stands how \
             much the next weight would change with each number.",
        );
        html += &folded(&graph, &format!("step {} of {}", step.number, step.name));
    }
    Ok(Some(html))
}

/// One weight in one step.
struct OneStep {
    number: u64,
    /// Its place in the network, and in its tensor.
    name: String,
    weight: Tensor,
    rate: f64,
    /// The gradient, what each link makes of it, and at last the next weight.
    parts: Vec<(&'static str, Tensor)>,
    /// What the optimiser remembers of this weight before the step.
    state: State<Tensor>,
}

impl OneStep {
    /// The first steps made again, with the batches and the noise that training had.
    fn of(study: &Study) -> Result<Option<OneStep>, Error> {
        let failed = |failure: crate::failure::Failure| Error::new("update", failure.to_string());
        let optimiser = recipe::optimiser(&study.settings, study.batches()).map_err(failed)?;
        let key = Key::new(study.settings.seed);
        let batches = Batches::new(study.batch(), key.fold(0));
        let (mut network, mut state) = (study.start.clone(), optimiser.start(&study.start));
        let mut position = Position::default();
        let gradient_at = |network: &Network, position: Position| -> Result<Network, Error> {
            let batch = batches.at(&study.task.training, position)?;
            let noise = Keys::from(key.fold(1).fold(position.epoch).fold(position.batch));
            grad(|network: &Network| study.objective.of_batch(network, &batch, &noise))(network).realise()
        };
        let number = (study.settings.epochs * study.batches()).clamp(1, STEP);
        for _ in 1..number {
            let gradient = gradient_at(&network, position)?;
            let (next, after) = optimiser.update(&network, &gradient, &state);
            (network, state) = (next.realise()?, after.realise()?);
            position = batches.after(&study.task.training, position);
        }
        let gradient = gradient_at(&network, position)?;
        let Some((leaf, place, name)) = steepest(&gradient)? else { return Ok(None) };
        let pick = |network: &Network| element(&network.flatten()[leaf], place);
        let taken = optimiser.take_apart(&network, &gradient, &state);
        let parts = taken.into_iter().map(|(name, tree)| Ok((name, pick(&tree)?))).collect::<Result<_, Error>>()?;
        let mut memories = Vec::new();
        for remembered in &state.memories {
            let leaves = remembered.leaves.iter().map(pick).collect::<Result<_, Error>>()?;
            memories.push(Remembered { leaves, numbers: remembered.numbers.clone() });
        }
        let state = State { count: state.count.clone(), factor: state.factor.clone(), memories };
        Ok(Some(OneStep { number, name, weight: pick(&network)?, rate: optimiser.rate_at(number), parts, state }))
    }
}

/// The largest slope of the first weights that have several axes: its leaf, its place there, and its name.
fn steepest(gradient: &Network) -> Result<Option<(usize, usize, String)>, Error> {
    let leaves = gradient.leaves();
    let found = leaves.iter().position(|(_, leaf)| leaf.is_float() && leaf.shape().len() > 1);
    let Some((leaf, (path, slopes))) = found.map(|leaf| (leaf, &leaves[leaf])) else { return Ok(None) };
    let numbers = slopes.cast(DType::F64).to_vec::<f64>()?;
    let largest = numbers.iter().enumerate().filter(|(_, slope)| slope.is_finite()).fold(
        None,
        |best: Option<(usize, f64)>, (place, slope)| match best {
            Some((_, most)) if most >= slope.abs() => best,
            _ => Some((place, slope.abs())),
        },
    );
    let Some((place, _)) = largest else { return Ok(None) };
    let mut rest = place;
    let mut indices: Vec<String> = Vec::new();
    for extent in slopes.shape().iter().rev() {
        indices.insert(0, (rest % extent).to_string());
        rest /= extent;
    }
    Ok(Some((leaf, place, format!("{path}[{}]", indices.join(", ")))))
}

/// One number of a tensor, as a tensor of the same type.
fn element(tensor: &Tensor, place: usize) -> Result<Tensor, Error> {
    let number = tensor.cast(DType::F64).to_vec::<f64>()?[place];
    // Computed, it is a number and no longer the cast of one.
    Tensor::from(number).cast(tensor.dtype()).realise()
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
    if let [.., (_, update), (_, next)] = &step.parts[..] {
        let product = update.item().map_or(f64::NAN, |update| step.rate * update);
        items.push(item("", &format!("× rate {}", number(step.rate)), &exact(product)));
        items.push(item("", "taken from the weight", &told(&step.weight)));
        items.push(item("last", "next weight", &told(next)));
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

/// The graph of the next weight, after clipping, which looks at all weights.
fn graph_of(study: &Study, step: &OneStep) -> Result<Option<Graph>, Error> {
    let failed = |failure: crate::failure::Failure| Error::new("update", failure.to_string());
    let unclipped = Settings { clip: 0.0, ..study.settings.clone() };
    let optimiser: Optimiser = recipe::optimiser(&unclipped, study.batches()).map_err(failed)?;
    let is_clipped = step.parts.get(1).is_some_and(|(name, _)| *name == CLIP);
    let memories = &step.state.memories[usize::from(is_clipped)..];
    if memories.len() != optimiser.names().len() {
        return Ok(None);
    }
    let (begin, name) = if is_clipped { (1, "clipped gradient") } else { (0, "gradient") };
    let mut inputs = vec![step.weight.clone().named("weight"), step.parts[begin].1.clone().named(name)];
    for (link, remembered) in optimiser.names().iter().zip(memories) {
        let names: &[&str] = match *link {
            "momentum" | "Nesterov momentum" => &["velocity"],
            "adam" => &["mean", "mean square"],
            "RMSprop" => &["mean square"],
            "Adagrad" => &["sum of squares"],
            _ => &[],
        };
        for (place, leaf) in remembered.leaves.iter().enumerate() {
            inputs.push(leaf.clone().named(names.get(place).copied().unwrap_or(link)));
        }
    }
    let count = Tensor::from(step.state.count.item()?).named("steps before");
    let update = |inputs: &Vec<Tensor>| {
        let mut rest = inputs[2..].iter().cloned();
        let memories = memories
            .iter()
            .map(|one| Remembered {
                leaves: rest.by_ref().take(one.leaves.len()).collect(),
                numbers: one.numbers.clone(),
            })
            .collect();
        optimiser
            .update(
                &inputs[0],
                &inputs[1],
                &State { count: count.clone(), factor: step.state.factor.clone(), memories },
            )
            .0
            .named("next weight")
    };
    Graph::trace(update, &inputs).with_gradients().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::settings::{Optimizer, Schedule};
    use crate::lab::study::Conduct;
    use crate::lab::task::View;
    use crate::report::tests::{self, classes};

    /// Sixty points of a plane, of which half are learnt, in one epoch.
    fn study(change: impl FnOnce(&mut Settings)) -> Study {
        tests::study(classes(60, 2, 3), View::Row { numbers: 2 }, |settings| {
            settings.epochs = 1;
            change(settings);
        })
    }

    #[test]
    fn the_graph_of_one_weight_computes_what_the_optimiser_does() {
        use Optimizer::{Adagrad, Adam, Adamw, Momentum, Nesterov, Rmsprop, Sgd};
        for optimizer in [Sgd, Momentum, Nesterov, Rmsprop, Adagrad, Adam, Adamw] {
            for clip in [0.0, 0.01] {
                let study = study(|settings| {
                    (settings.optimizer, settings.clip, settings.schedule, settings.batch) =
                        (optimizer, clip, Schedule::Cosine, 10);
                    settings.weight_decay = 0.01;
                });
                let step = OneStep::of(&study).expect("three steps").expect("a weight");
                let (_, next) = step.parts.last().expect("the next weight");
                let graph = graph_of(&study, &step).expect("a graph").expect("of one weight");
                let json = graph.to_json();
                let drawn =
                    json["nodes"].as_array().and_then(|nodes| nodes.last()?["value"].as_f64()).expect("a number");
                let next = next.item().expect("a number");
                assert_eq!(
                    (drawn as f32).to_bits(),
                    (next as f32).to_bits(),
                    "{optimizer:?}, clip {clip}: {drawn} and {next}"
                );
                assert_ne!(next, step.weight.item().expect("a number"));
            }
        }
    }

    #[test]
    fn the_step_is_the_one_that_training_makes() {
        // One epoch of three batches: the weights after the third step are those that training ends with.
        let study = study(|settings| (settings.batch, settings.dropout) = (10, 0.3));
        let step = OneStep::of(&study).expect("three steps").expect("a weight");
        let outcome = study.run(Conduct::default(), &mut ()).ok().expect("training");
        assert_eq!((step.number, outcome.steps), (3, 3));
        let name = step.name.split('[').next().expect("a path");
        let leaf =
            outcome.network.leaves().into_iter().find(|(path, _)| path.to_string() == name).expect("the weight").1;
        let next = step.parts.last().expect("the next weight").1.item().expect("a number");
        let all = leaf.cast(DType::F64).to_vec::<f64>().expect("numbers");
        assert!(all.iter().any(|number| (number - next).abs() <= 1e-6 * next.abs()), "{next} is not in {all:?}");
    }
}
