//! One step of training, and what it does to one weight: from the gradient over every link of the optimiser to the next
//! value.

use glassgrad::error::Error;
use glassgrad::expr::{Keys, Tensor};
use glassgrad::glass::Graph;
use glassgrad::optim::{Optimiser, Remembered, State};
use glassgrad::train::Last;
use glassgrad::tree::Tree as _;
use glassgrad::{Within as _, compile, grad, value_and_grad};

use super::network::Network;
use super::recipe;
use super::settings::Settings;
use super::study::Study;

/// What the link is called that makes gradients shorter: it looks at all weights at once.
const CLIP: &str = "clip by norm";

/// A network with the state of its optimiser.
pub(crate) type Moment = (Network, State<Network>);
/// A batch with the keys of its noise.
pub(crate) type Given = ((Tensor, Tensor), Keys);

/// The moment before a step, and all that the step sees.
pub(crate) type LastStep = Last<Network, (Tensor, Tensor)>;

/// A step as training makes it: what comes after it, and the loss.
#[track_caller]
pub(crate) fn step(
    study: &Study,
    optimiser: &Optimiser,
    within: Option<usize>,
    (network, state): &Moment,
    (batch, noise): &Given,
) -> (Moment, Tensor) {
    let slope = value_and_grad(|network: &Network| study.objective.of_batch(network, batch, noise));
    let (loss, slope) = match within {
        Some(bytes) => slope.within(bytes)(network),
        None => slope(network),
    };
    (optimiser.update_knowing(network, &slope, Some(&loss), state), loss)
}

/// The moment before a step of so large a number, found again from the first weights.
pub(crate) fn replayed(study: &Study, number: u64) -> Result<LastStep, Error> {
    let failed = |told: String| Error::new("update", told);
    let training = study.training().map_err(|failure| failed(failure.to_string()))?;
    let mut session = training.session(&study.start, &study.task.training)?;
    for _ in 0..number {
        session.step().map_err(|trouble| failed(trouble.to_string()))?;
    }
    session.last()?.ok_or_else(|| failed("no step is made at all".to_owned()))
}

/// What comes after a step, bit for bit as training makes it.
pub(crate) fn made(study: &Study, optimiser: &Optimiser, last: &LastStep) -> Result<Moment, Error> {
    let stepped = compile(|(moment, given): &(Moment, Given)| step(study, optimiser, None, moment, given));
    let mut moment = (last.parameters.clone(), last.state.clone());
    stepped.update(&mut moment, &(last.batch.clone(), last.key.clone()))?;
    Ok(moment)
}

/// The gradient that a step goes along.
pub(crate) fn gradient(study: &Study, last: &LastStep) -> Result<Network, Error> {
    let loss = |network: &Network| study.objective.of_batch(network, &last.batch, &last.key);
    grad(loss)(&last.parameters).realise()
}

/// One weight in one step.
pub(crate) struct OneStep {
    pub(crate) number: u64,
    /// Its place in the network, and in its tensor.
    pub(crate) name: String,
    pub(crate) weight: Tensor,
    pub(crate) rate: f64,
    /// The gradient, what each link makes of it, and at last the next weight. What is computed together in training may be
    /// rounded otherwise here, in the last digits.
    pub(crate) parts: Vec<(&'static str, Tensor)>,
    /// The next weight as training makes it.
    pub(crate) next: Tensor,
    /// What the optimiser remembers of this weight before the step and after it.
    pub(crate) state: State<Tensor>,
    pub(crate) after: State<Tensor>,
}

impl OneStep {
    /// The step of the weight at a path and a place.
    pub(crate) fn of(
        study: &Study,
        optimiser: &Optimiser,
        last: &LastStep,
        path: &str,
        place: &[usize],
    ) -> Result<OneStep, Error> {
        let leaves = last.parameters.leaves();
        let Some(leaf) = leaves.iter().position(|(own, _)| own.to_string() == path) else {
            let paths: Vec<String> = leaves.iter().map(|(path, _)| path.to_string()).take(20).collect();
            let error = Error::new("update", format!("the network has no parameter {path:?}"));
            return Err(error.help(format!("it has {}", paths.join(", "))));
        };
        if !leaves[leaf].1.is_float() {
            return Err(Error::new("update", format!("{path} holds whole numbers, which no step changes")));
        }
        let flat = flat(leaves[leaf].1.shape(), place).ok_or_else(|| {
            Error::new("update", format!("{path} has the shape {} and no place {place:?}", leaves[leaf].1.shape()))
        })?;
        let pick = |network: &Network| element(&network.flatten()[leaf], flat);
        let picked = |state: &State<Network>| -> Result<State<Tensor>, Error> {
            let mut memories = Vec::new();
            for remembered in &state.memories {
                let leaves = remembered.leaves.iter().map(pick).collect::<Result<_, Error>>()?;
                memories.push(Remembered { leaves, numbers: remembered.numbers.clone() });
            }
            Ok(State { count: state.count.clone(), factor: state.factor.clone(), memories })
        };
        let taken = optimiser.take_apart(&last.parameters, &gradient(study, last)?, &last.state);
        let parts = taken.into_iter().map(|(name, tree)| Ok((name, pick(&tree)?))).collect::<Result<_, Error>>()?;
        let (network, after) = made(study, optimiser, last)?;
        Ok(OneStep {
            number: last.number,
            name: format!("{path}[{}]", place.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
            weight: pick(&last.parameters)?,
            rate: last.rate,
            parts,
            next: pick(&network)?,
            state: picked(&last.state)?,
            after: picked(&after)?,
        })
    }

    /// The graph of the next weight, after clipping, which looks at all weights; none where the optimiser is another one than
    /// the settings tell. A rate that someone has changed meanwhile is in the state.
    pub(crate) fn graph(&self, study: &Study) -> Result<Option<Graph>, Error> {
        let failed = |failure: crate::failure::Failure| Error::new("update", failure.to_string());
        let unclipped = Settings { clip: 0.0, ..study.settings.clone() };
        let optimiser: Optimiser = recipe::optimiser(&unclipped, study.batches()).map_err(failed)?;
        let is_clipped = self.parts.get(1).is_some_and(|(name, _)| *name == CLIP);
        let memories = &self.state.memories[usize::from(is_clipped).min(self.state.memories.len())..];
        if memories.len() != optimiser.names().len()
            || optimiser.rate_at(self.number) * self.state.factor.item()? != self.rate
        {
            return Ok(None);
        }
        let (begin, name) = if is_clipped { (1, "clipped gradient") } else { (0, "gradient") };
        let mut inputs = vec![self.weight.clone().named("weight"), self.parts[begin].1.clone().named(name)];
        for (link, remembered) in optimiser.names().iter().zip(memories) {
            for (leaf, name) in remembered.leaves.iter().zip(memory_names(link)) {
                inputs.push(leaf.clone().named(name));
            }
        }
        let count = Tensor::from(self.state.count.item()?).named("steps before");
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
                    &State { count: count.clone(), factor: self.state.factor.clone(), memories },
                )
                .0
                .named("next weight")
        };
        Graph::trace(update, &inputs).with_gradients().map(Some)
    }
}

/// What a link of an optimiser calls what it remembers of each weight.
pub(crate) fn memory_names(link: &'static str) -> impl Iterator<Item = &'static str> {
    let known: &[&str] = match link {
        "momentum" | "Nesterov momentum" => &["velocity"],
        "adam" => &["mean", "mean square"],
        "RMSprop" => &["mean square"],
        "Adagrad" => &["sum of squares"],
        _ => &[],
    };
    known.iter().copied().chain(std::iter::repeat(link))
}

/// The number of a place among all places of a shape, row by row.
fn flat(shape: &[usize], place: &[usize]) -> Option<usize> {
    let inside = shape.len() == place.len() && place.iter().zip(shape).all(|(index, extent)| index < extent);
    inside.then(|| place.iter().zip(shape).fold(0, |flat, (index, extent)| flat * extent + index))
}

/// The largest slope of the first weights that have several axes: its path, and its place there.
pub(crate) fn steepest(gradient: &Network) -> Result<Option<(String, Vec<usize>)>, Error> {
    let leaves = gradient.leaves();
    let found = leaves.iter().find(|(_, leaf)| leaf.is_float() && leaf.shape().len() > 1);
    let Some((path, slopes)) = found else { return Ok(None) };
    let numbers = slopes.to_f64_vec()?;
    let largest = numbers.iter().enumerate().filter(|(_, slope)| slope.is_finite()).fold(
        None,
        |best: Option<(usize, f64)>, (place, slope)| match best {
            Some((_, most)) if most >= slope.abs() => best,
            _ => Some((place, slope.abs())),
        },
    );
    let Some((mut rest, _)) = largest else { return Ok(None) };
    let mut place: Vec<usize> = Vec::new();
    for extent in slopes.shape().iter().rev() {
        place.insert(0, rest % extent);
        rest /= extent;
    }
    Ok(Some((path.to_string(), place)))
}

/// One number of a tensor, as a tensor of the same type.
fn element(tensor: &Tensor, place: usize) -> Result<Tensor, Error> {
    let number = tensor.to_f64_vec()?[place];
    // Computed, it is a number and no longer the cast of one.
    Tensor::from(number).cast(tensor.dtype()).realise()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::settings::{Number, Optimizer, Schedule};
    use crate::lab::study::Conduct;
    use crate::lab::task::View;
    use crate::lab::units::parameter;
    use crate::report::tests::{self, classes};

    /// Sixty points of a plane, of which half are learnt, in one epoch.
    fn study(change: impl FnOnce(&mut Settings)) -> Study {
        tests::study(classes(60, 2, 3), View::Row { numbers: 2 }, |settings| {
            settings.epochs = 1;
            settings.batch = 10;
            change(settings);
        })
    }

    fn optimiser(study: &Study) -> Optimiser {
        recipe::optimiser(&study.settings, study.batches()).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// The third step, of the weight with the largest slope.
    fn third(study: &Study) -> OneStep {
        let optimiser = optimiser(study);
        let last = replayed(study, 3).expect("three steps");
        let (path, place) = steepest(&gradient(study, &last).expect("a gradient")).expect("slopes").expect("a weight");
        OneStep::of(study, &optimiser, &last, &path, &place).expect("a step")
    }

    #[test]
    fn the_graph_of_one_weight_computes_what_the_optimiser_does() {
        use Optimizer::{Adagrad, Adam, Adamw, Momentum, Nesterov, Rmsprop, Sgd};
        for optimizer in [Sgd, Momentum, Nesterov, Rmsprop, Adagrad, Adam, Adamw] {
            for clip in [0.0, 0.01] {
                let study = study(|settings| {
                    (settings.optimizer, settings.clip, settings.schedule) = (optimizer, clip, Schedule::Cosine);
                    settings.weight_decay = 0.01;
                });
                let step = third(&study);
                let (_, next) = step.parts.last().expect("the next weight");
                let graph = step.graph(&study).expect("a graph").expect("of one weight");
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
        for (dtype, optimizer) in [Number::F32, Number::F64].into_iter().flat_map(|dtype| {
            [Optimizer::Sgd, Optimizer::Adam, Optimizer::Nesterov].map(|optimizer| (dtype, optimizer))
        }) {
            let study = study(|settings| {
                (settings.dropout, settings.dtype, settings.optimizer) = (0.3, dtype, optimizer);
                settings.clip = 0.5;
            });
            let outcome = study.run(Conduct::default(), &mut ()).ok().expect("training");
            assert_eq!(outcome.steps, 3);
            let last = replayed(&study, 3).expect("three steps");
            for (path, leaf) in outcome.network.leaves() {
                let trained = leaf.to_f64_vec().expect("numbers");
                let again = made(&study, &optimiser(&study), &last).expect("a step").0;
                let again = parameter(&again, &path.to_string()).expect("the parameter").to_f64_vec().expect("numbers");
                let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<u64>>();
                assert_eq!(bits(&trained), bits(&again), "{path}, {optimizer:?}");
            }
            let step = third(&study);
            let [taken, made] = [&step.parts.last().expect("the next weight").1, &step.next]
                .map(|tensor| tensor.item().expect("a number"));
            let rounding = if dtype == Number::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
            assert!((taken - made).abs() <= 16.0 * rounding * made.abs(), "{taken} and {made}");
        }
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let study = study(|settings| settings.model = crate::lab::settings::Model::Sparse);
        let optimiser = optimiser(&study);
        let last = replayed(&study, 1).expect("a step");
        let refused = |path: &str, place: &[usize]| match OneStep::of(&study, &optimiser, &last, path, place) {
            Ok(step) => panic!("{} is there", step.name),
            Err(error) => error.to_string(),
        };
        assert!(refused("layers.9.weight", &[0, 0]).contains("no parameter"));
        assert!(refused("", &[]).contains("no parameter"));
        for place in [&[0][..], &[], &[0, 99], &[usize::MAX, 0], &[0, 0, 0]] {
            assert!(refused("output.weight", place).contains("no place"), "{place:?}");
        }
        let whole = study.start.leaves().into_iter().find(|(_, leaf)| !leaf.is_float()).expect("wires").0.to_string();
        assert!(refused(&whole, &[0, 0]).contains("whole numbers"));
    }
}
