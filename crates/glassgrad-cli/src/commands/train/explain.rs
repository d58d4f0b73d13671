//! One step of training, explained: what is computed, in which order, how long each part takes and what it keeps.

use glassgrad::data::Dataset as _;
use glassgrad::expr::{Keys, Tensor};
use glassgrad::optim::State;
use glassgrad::rng::Key;
use glassgrad::{Within as _, compile, value_and_grad};

use super::Train;
use crate::failure::{Failure, print};
use crate::lab::network::Network;
use crate::lab::recipe;
use crate::lab::settings::Engine;
use crate::lab::study::Study;

type Moment = (Network, State<Network>);

pub(super) fn run(train: &Train, study: &Study) -> Result<(), Failure> {
    if study.settings.engine == Engine::Scalar {
        return Err(Failure::Input("--explain: only the tensor engine runs a program".to_owned()));
    }
    let failed = |error: glassgrad::error::Error| Failure::Result(error.to_string());
    let optimiser = recipe::optimiser(&study.settings, study.batches())?;
    let places: Vec<usize> = (0..study.batch()).collect();
    let batch = study.task.training.batch(&places).map_err(failed)?;
    let step = compile(|((network, state), (batch, key)): &(Moment, ((Tensor, Tensor), Keys))| {
        let slope = value_and_grad(|network: &Network| study.objective.of_batch(network, batch, key));
        let (loss, slope) = match train.within {
            Some(bytes) => slope.within(bytes)(network),
            None => slope(network),
        };
        (optimiser.update_knowing(network, &slope, Some(&loss), state), loss)
    });
    let moment = (study.start.clone(), optimiser.start(&study.start));
    let key = Keys::from(Key::new(study.settings.seed));
    let explanation = step.explain(&(moment, (batch, key))).map_err(failed)?;
    let title = format!("a training step of the {} network", study.task.about.name);
    if let Some(path) = &train.explain_svg {
        std::fs::write(path, explanation.arena_svg(&title))
            .map_err(|error| Failure::Input(format!("cannot write {}: {error}", path.display())))?;
    }
    match train.json {
        true => print(&format!("{}\n", explanation.to_json())),
        false => print(&format!("{title}\n\n{explanation}")),
    }
}
