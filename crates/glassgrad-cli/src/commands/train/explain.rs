//! One step of training, explained: what is computed, in which order, how long each part takes and what it keeps.

use glassgrad::compile;
use glassgrad::data::Dataset as _;
use glassgrad::expr::Keys;
use glassgrad::rng::Key;
use glassgrad::save::write_atomically;

use super::Train;
use crate::experiment::recipe;
use crate::experiment::settings::Engine;
use crate::experiment::study::Study;
use crate::experiment::update::{Given, Moment, step};
use crate::failure::{Failure, print};

pub(super) fn run(train: &Train, study: &Study) -> Result<(), Failure> {
    if study.settings.engine == Engine::Scalar {
        return Err(Failure::Input("--explain: only the tensor engine runs a program".to_owned()));
    }
    let optimizer = recipe::optimizer(&study.settings, study.batches())?;
    let places: Vec<usize> = (0..study.batch()).collect();
    let batch = study.task.training.batch(&places).map_err(Failure::result)?;
    let stepped = compile(|(moment, given): &(Moment, Given)| step(study, &optimizer, train.within, moment, given));
    let moment = (study.start.clone(), optimizer.init(&study.start));
    let key = Keys::from(Key::new(study.settings.seed));
    let explanation = stepped.explain(&(moment, (batch, key))).map_err(Failure::result)?;
    let title = format!("a training step of the {} network", study.task.about.name);
    if let Some(path) = &train.explain_svg {
        write_atomically(path, explanation.arena_svg(&title).as_bytes()).map_err(Failure::input)?;
    }
    match train.json {
        true => print(&format!("{}\n", explanation.to_json())),
        false => print(&format!("{title}\n\n{explanation}")),
    }
}
