//! Publishes the state of a run to its watchers.

use std::time::Duration;

use glassgrad::clock::Instant;
use glassgrad::data::Dataset as _;
use glassgrad::error::Error;
use glassgrad::trace::json_number;
use glassgrad::tree::Tree as _;
use serde_json::{Value, json};

use super::{Phase, Run, ScheduledView};
use crate::experiment::command::command;
use crate::views;

/// Between two messages about the curves, which are longer than those about the state.
const BETWEEN_CURVES: Duration = Duration::from_millis(120);

impl Run<'_> {
    /// The constant part is published first.
    pub(super) fn post_beginning(&mut self) -> Result<(), Error> {
        let about = &self.study.task.about;
        let parameters: Vec<Value> = self.study.start.leaves().iter().map(|(path, leaf)| {
            json!({ "path": path.to_string(), "shape": leaf.shape().to_vec(), "trained": leaf.is_float() })
        }).collect();
        let mut fixed = serde_json::Map::new();
        for view in views::VIEWS {
            if let Some(live) = (view.make)(self.study)? {
                fixed.insert(view.name.to_owned(), live.fixed()?);
                self.views.push(ScheduledView { name: view.name, view: live, step: None, at: Instant::now() });
            }
        }
        self.broadcast.post(
            "about",
            &json!({
                "settings": self.study.settings, "name": about.name, "title": about.title, "kind": about.kind,
                "view": about.view, "features": about.features,
                "examples": { "training": self.study.task.training.len(), "test": self.study.task.test.len() },
                "batches": self.study.batches(), "steps": self.study.batches() * self.study.settings.epochs,
                "links": self.optimizer.names(), "command": command(&self.study.settings),
                "numbers": self.study.start.element_count(), "parameters": parameters, "views": fixed,
            }),
        );
        Ok(())
    }

    /// Publishes the state of the run, and periodically its curves.
    pub(super) fn post_state(&mut self) {
        self.posted = Instant::now();
        self.broadcast.set_running(self.phase == Phase::Running);
        let position = self.session.position();
        let test = self.record.history.epochs.iter().rev().find_map(|seen| seen.test);
        let score = test.map(|score| {
            json!({ "loss": json_number(score.loss), "name": score.measure.name(), "number": json_number(score.measure.number()),
                    "shown": score.measure.to_string() })
        });
        self.broadcast.post("state", &json!({
            "phase": self.phase.name(), "step": self.session.steps(), "epoch": position.epoch, "batch": position.batch,
            "loss": json_number(self.record.loss), "rate": json_number(self.session.rate()), "speed": self.record.speed.a_second(),
            "pace": self.pace, "rate_changed": self.rate_changed, "test": score, "trouble": self.trouble,
        }));
        if self.phase != Phase::Running || self.drawn.elapsed() >= BETWEEN_CURVES {
            self.drawn = Instant::now();
            self.post_curves();
        }
    }

    fn post_curves(&self) {
        let tested = || self.record.history.epochs.iter().filter_map(|seen| Some((seen.epoch, seen.test?)));
        let batches = self.session.batches();
        let every = tested().count().div_ceil(400).max(1);
        let spread = || tested().enumerate().filter(|(place, _)| place % every == 0).map(|(_, seen)| seen);
        self.broadcast.post(
            "curves",
            &json!({
                "training": self.record.losses.as_json(),
                "test": { "at": spread().map(|(epoch, _)| epoch * batches).collect::<Vec<_>>(),
                          "loss": spread().map(|(_, score)| json_number(score.loss)).collect::<Vec<_>>(),
                          "measure": spread().map(|(_, score)| json_number(score.measure.number())).collect::<Vec<_>>(),
                          "name": tested().next().map(|(_, score)| score.measure.name()) },
            }),
        );
    }
}
