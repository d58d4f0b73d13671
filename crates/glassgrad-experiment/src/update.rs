//! One step of training, and the update of one weight in it: from the gradient through every link of the optimizer to the
//! next value.

use glassgrad::error::Error;
use glassgrad::expr::{Keys, Tensor};
use glassgrad::glass::Graph;
use glassgrad::optim::{LinkStep, Optimizer, State, WeightInputs, WeightStep};
use glassgrad::trace::short;
use glassgrad::train::Last;
use glassgrad::tree::Tree as _;
use glassgrad::{Within as _, compile, value_and_grad};

use super::network::Network;
use super::study::Study;

/// A network with the state of its optimizer.
pub type Moment = (Network, State<Network>);
/// A batch with the keys of its noise.
pub type Given = ((Tensor, Tensor), Keys);

/// The moment before a step, and all that the step sees.
pub type LastStep = Last<Network, (Tensor, Tensor)>;

/// A step as training makes it: what comes after it, and the loss.
#[track_caller]
pub fn step(
    study: &Study,
    optimizer: &Optimizer,
    within: Option<usize>,
    (network, state): &Moment,
    (batch, noise): &Given,
) -> (Moment, Tensor) {
    let rounded = study.settings.precision.of_training();
    let loss = |network: &Network| study.objective.of_batch(&rounded.rounded(optimizer, network), batch, noise);
    let gradient = value_and_grad(loss);
    let (loss, gradient) = match within {
        Some(bytes) => gradient.within(bytes)(network),
        None => gradient(network),
    };
    (optimizer.update_with_loss(network, &gradient, Some(&loss), state), loss)
}

/// The moment before a step of so large a number, found again from the initial weights.
pub fn replayed(study: &Study, number: u64) -> Result<LastStep, Error> {
    let failed = |message: String| Error::new("update", message);
    let training = study.training().map_err(|failure| failed(failure.to_string()))?;
    let mut session = training.session(&study.start, &study.task.training)?;
    for _ in 0..number {
        session.step().map_err(|trouble| failed(trouble.to_string()))?;
    }
    session.last()?.ok_or_else(|| failed("training takes no step".to_owned()))
}

/// The state after a step, bit-identical to that of training.
pub fn after_step(study: &Study, optimizer: &Optimizer, last: &LastStep) -> Result<Moment, Error> {
    let stepped = compile(|(moment, given): &(Moment, Given)| step(study, optimizer, None, moment, given));
    let mut moment = (last.parameters.clone(), last.state.clone());
    stepped.update(&mut moment, &(last.batch.clone(), last.key.clone()))?;
    Ok(moment)
}

/// The loss of the batch of a step, and its gradient.
pub fn gradient(study: &Study, optimizer: &Optimizer, last: &LastStep) -> Result<(Tensor, Network), Error> {
    let rounded = study.settings.precision.of_training();
    let loss =
        |network: &Network| study.objective.of_batch(&rounded.rounded(optimizer, network), &last.batch, &last.key);
    value_and_grad(loss)(&last.parameters).realise()
}

/// One weight in one step.
pub struct OneStep {
    pub number: u64,
    /// Its path in the network, and its index in the tensor.
    pub name: String,
    pub before: f64,
    pub gradient: f64,
    pub rate: f64,
    /// The formulas of the links with the numbers of this weight. The compiled training step fuses operations, and may
    /// round the last digits differently.
    pub links: Vec<LinkStep>,
    /// The update after all links.
    pub update: f64,
    /// The weight after the step, bit for bit as training computes it.
    pub after: f64,
    step: WeightStep,
}

impl OneStep {
    /// The step of the weight at a path and an index.
    pub fn of(
        study: &Study,
        optimizer: &Optimizer,
        last: &LastStep,
        path: &str,
        index: &[usize],
    ) -> Result<OneStep, Error> {
        let (loss, gradient) = gradient(study, optimizer, last)?;
        let step = optimizer.weight_step(&last.parameters, &gradient, Some(&loss), &last.state, path, index)?;
        let links = step.explain(short)?;
        let (network, _) = after_step(study, optimizer, last)?;
        let leaves = network.leaves();
        let leaf = leaves.iter().find(|(own, _)| own.to_string() == path).map(|(_, leaf)| leaf);
        let leaf = leaf.ok_or_else(|| Error::new("update", format!("the network has no parameter {path:?}")))?;
        let flat = index.iter().zip(leaf.shape().iter()).fold(0, |flat, (place, extent)| flat * extent + place);
        let gradient = step.inputs.gradient.item()?;
        Ok(OneStep {
            number: last.number,
            name: format!("{path}[{}]", index.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
            before: step.inputs.weight.item()?,
            gradient,
            rate: last.rate,
            update: links.last().map_or(gradient, |link| link.update),
            links,
            after: leaf.to_f64_vec()?[flat],
            step,
        })
    }

    /// The graph of the next weight, as a function of all that its update reads.
    pub fn graph(&self) -> Result<Graph, Error> {
        let next = |inputs: &WeightInputs| self.step.next(inputs).named("next weight");
        Graph::trace(next, &self.step.named_inputs()).with_gradients()
    }

    /// The step as equations, each with the name of its link: w is the weight, g its gradient.
    pub fn equations(&self) -> Vec<(&'static str, String)> {
        let mut equations = vec![("gradient", format!("g = ∂L / ∂w = {}", short(self.gradient)))];
        for link in &self.links {
            equations.extend(link.lines.iter().map(|line| (link.name, line.to_string())));
        }
        let update = if self.links.is_empty() { "g".to_owned() } else { format!("u{}", self.links.len()) };
        let factor = |number: f64| if number < 0.0 { format!("({})", short(number)) } else { short(number) };
        let [before, rate, product, after] =
            [short(self.before), factor(self.rate), factor(self.update), short(self.after)];
        equations.push(("parameters", format!("w_t = w - η * {update} = {before} - {rate} * {product} = {after}")));
        equations
    }
}

/// The largest gradient of the initial weights that have several axes: its path, and its place there.
pub fn steepest(gradient: &Network) -> Result<Option<(String, Vec<usize>)>, Error> {
    let leaves = gradient.leaves();
    let found = leaves.iter().find(|(_, leaf)| leaf.is_float() && leaf.shape().len() > 1);
    let Some((path, gradients)) = found else { return Ok(None) };
    let numbers = gradients.to_f64_vec()?;
    let largest = numbers.iter().enumerate().filter(|(_, gradient)| gradient.is_finite()).fold(
        None,
        |best: Option<(usize, f64)>, (place, gradient)| match best {
            Some((_, most)) if most >= gradient.abs() => best,
            _ => Some((place, gradient.abs())),
        },
    );
    let Some((mut rest, _)) = largest else { return Ok(None) };
    let mut place: Vec<usize> = Vec::new();
    for extent in gradients.shape().iter().rev() {
        place.insert(0, rest % extent);
        rest /= extent;
    }
    Ok(Some((path.to_string(), place)))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use glassgrad::optim::OPTIMIZERS;

    use super::*;
    use crate::recipe;
    use crate::report::tests::{self, classes};
    use crate::settings::{Number, OptimizerName, Schedule, Settings};
    use crate::study::RunOptions;
    use crate::task::View;
    use crate::units::parameter;

    /// Sixty points of a plane, of which half are learnt, in one epoch.
    fn study(change: impl FnOnce(&mut Settings)) -> Study {
        tests::study(classes(60, 2, 3), View::Row { numbers: 2 }, |settings| {
            settings.epochs = 1;
            settings.batch = 10;
            change(settings);
        })
    }

    fn optimizer(study: &Study) -> Optimizer {
        recipe::optimizer(&study.settings, study.batches()).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// The third step, of the weight with the largest gradient.
    fn third(study: &Study) -> OneStep {
        let optimizer = optimizer(study);
        let last = replayed(study, 3).expect("three steps");
        let (_, gradient) = gradient(study, &optimizer, &last).expect("a gradient");
        let (path, place) = steepest(&gradient).expect("gradients").expect("a weight");
        OneStep::of(study, &optimizer, &last, &path, &place).expect("a step")
    }

    #[test]
    fn the_graph_of_one_weight_computes_what_the_optimizer_does() {
        for row in &OPTIMIZERS {
            for clip in [0.0, 0.01] {
                let study = study(|settings| {
                    settings.optimizer = OptimizerName(row);
                    (settings.clip, settings.schedule) = (clip, Schedule::Cosine);
                    settings.weight_decay = 0.01;
                });
                let step = third(&study);
                let next = step.step.next(&step.step.inputs).item().expect("a number");
                let json = step.graph().expect("a graph").to_json();
                let drawn =
                    json["nodes"].as_array().and_then(|nodes| nodes.last()?["value"].as_f64()).expect("a number");
                assert_eq!((drawn as f32).to_bits(), (next as f32).to_bits(), "{}: {drawn} and {next}", row.name);
                assert_ne!(next, step.before);
            }
        }
    }

    #[test]
    fn the_step_is_the_one_that_training_makes() {
        // One epoch of three batches: the weights after the third step are those that training ends with.
        for (dtype, name) in [Number::F32, Number::F64]
            .into_iter()
            .flat_map(|dtype| ["sgd", "adam", "nesterov"].map(|name| (dtype, OptimizerName::of(name))))
        {
            let study = study(|settings| {
                (settings.dropout, settings.dtype, settings.optimizer) = (0.3, dtype, name);
                settings.clip = 0.5;
            });
            let outcome = study.run(RunOptions::default(), &RefCell::default(), &mut ()).ok().expect("training");
            assert_eq!(outcome.steps, 3);
            let last = replayed(&study, 3).expect("three steps");
            for (path, leaf) in outcome.network.leaves() {
                let trained = leaf.to_f64_vec().expect("numbers");
                let again = after_step(&study, &optimizer(&study), &last).expect("a step").0;
                let again = parameter(&again, &path.to_string()).expect("the parameter").to_f64_vec().expect("numbers");
                let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<u64>>();
                assert_eq!(bits(&trained), bits(&again), "{path}, {name:?}");
            }
            let step = third(&study);
            let (taken, trained) = (step.step.next(&step.step.inputs).item().expect("a number"), step.after);
            let rounding = if dtype == Number::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
            assert!((taken - trained).abs() <= 16.0 * rounding * trained.abs(), "{taken} and {trained}");
        }
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let study = study(|settings| settings.model = crate::settings::Model::Sparse);
        let optimizer = optimizer(&study);
        let last = replayed(&study, 1).expect("a step");
        let refused = |path: &str, place: &[usize]| match OneStep::of(&study, &optimizer, &last, path, place) {
            Ok(step) => panic!("{} is there", step.name),
            Err(error) => error.to_string(),
        };
        assert!(refused("layers.9.weight", &[0, 0]).contains("no parameter"));
        assert!(refused("", &[]).contains("no parameter"));
        for place in [&[0][..], &[], &[0, 99], &[usize::MAX, 0], &[0, 0, 0]] {
            assert!(refused("output.weight", place).contains("no element"), "{place:?}");
        }
        let whole = study.start.leaves().into_iter().find(|(_, leaf)| !leaf.is_float()).expect("indices").0.to_string();
        assert!(refused(&whole, &[0, 0]).contains("trains no parameter"));
    }
}
