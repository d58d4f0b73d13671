//! The same network trained with several optimizers, side by side.

use std::cell::RefCell;

use serde_json::json;

use super::{Train, diverged};
use crate::experiment::datasets;
use crate::experiment::history::History;
use crate::experiment::objective::Score;
use crate::experiment::settings::{OptimizerName, Settings, name_of};
use crate::experiment::study::{RunOptions, Study};
use crate::failure::{Failure, print};
use crate::folder::Folder;
use crate::plot::{Curve, is_coloured, plot};
use crate::progress::Progress;
use crate::report::{self, Contestant};
use crate::sources::DataLocation;
use crate::table::Table;
use crate::terminal::print_around;

pub(super) fn run(train: &Train, optimizers: &[OptimizerName], places: &DataLocation) -> Result<(), Failure> {
    let mut settings = train.options.settings(&train.data)?;
    let folder = train.out.as_deref().map(Folder::create).transpose()?;
    let task = datasets::load(&settings, places)?;
    train.options.fit(&mut settings, &task.about);
    let mut contestants: Vec<Contestant> = Vec::new();
    for optimizer in optimizers {
        let usual = if *optimizer == settings.optimizer { settings.lr } else { optimizer.0.rate };
        let lr = train.options.lr.unwrap_or(usual);
        let study = Study::new(Settings { optimizer: *optimizer, lr, ..settings.clone() }, task.clone())?;
        let steps = study.settings.epochs * study.batches();
        let history = RefCell::default();
        let mut progress = Progress::new(&name_of(*optimizer), steps, !train.json, &history, None);
        let outcome = study.run(RunOptions { within: train.within, ..RunOptions::default() }, &history, &mut progress);
        drop(progress);
        let name = name_of(*optimizer);
        let (history, test, trouble) = match outcome {
            Ok(outcome) => (outcome.history, Some(outcome.test), None),
            Err(mishap) => (History::default(), None, Some(diverged(mishap, &study, None).to_string())),
        };
        contestants.push(Contestant { name, settings: study.settings, history, test, trouble });
        if crate::interrupt::is_asked() {
            break;
        }
    }
    if let Some(folder) = &folder {
        folder.write_settings(&settings)?;
        folder.write("comparison.html", report::comparison(&task.about, &contestants).as_bytes())?;
    }
    if train.json {
        let rows: Vec<_> = contestants
            .iter()
            .map(|one| {
                json!({
                    "optimizer": one.name, "lr": one.settings.lr, "test": one.test, "trouble": one.trouble,
                    "seconds": one.history.seconds(),
                    "losses": one.history.epochs.iter().map(|seen| seen.loss).collect::<Vec<_>>(),
                })
            })
            .collect();
        return print(&format!("{}\n", json!({ "dataset": task.about.name, "compared": rows })));
    }
    let curves: Vec<Curve> = contestants
        .iter()
        .map(|one| Curve { name: one.name.clone(), points: one.history.curve(|seen| Some(seen.loss)) })
        .collect();
    let colour = is_coloured(&std::io::stdout());
    let mut table = Table::new(["optimizer", "lr", "last loss", "test", "seconds"]);
    for one in &contestants {
        let loss = one.history.epochs.last().map_or("–".to_owned(), |seen| format!("{:.4}", seen.loss));
        let metric = |score: &Score| score.measure.to_string();
        let test = one.test.as_ref().map_or_else(|| "failed".to_owned(), metric);
        table.row([one.name.clone(), one.settings.lr.to_string(), loss, test, format!("{:.3}", one.history.seconds())]);
    }
    let before = format!("{}: {}\n\n", task.about.name, task.about.title);
    let drawn = plot("training loss by epoch", &curves, colour);
    let mut text = format!("\n{}", table.render());
    for trouble in contestants.iter().filter_map(|one| Some((&one.name, one.trouble.as_ref()?))) {
        text += &format!("\n{}: {}\n", trouble.0, trouble.1);
    }
    if let Some(folder) = &folder {
        text += &format!("\nwritten to {}: comparison.html\n", folder.path().display());
    }
    print_around(&before, &drawn, &text)
}
