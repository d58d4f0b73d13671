//! From what a person asks for to settings.

use super::datasets;
pub(crate) use super::settings::Options;
use super::settings::{Loss, Settings};
use super::task::{Description, Kind};
use crate::failure::Failure;

impl Options {
    /// The settings for some data.
    pub(crate) fn settings(&self, data: &str) -> Result<Settings, Failure> {
        let mut settings = datasets::suited(data, self.model)?;
        self.change(&mut settings);
        Ok(settings)
    }

    /// The loss that suits the task, where none was asked for.
    pub(crate) fn fit(&self, settings: &mut Settings, about: &Description) {
        if self.loss.is_none() && matches!(about.kind, Kind::Numbers { .. }) && settings.loss == Loss::CrossEntropy {
            settings.loss = Loss::Mse;
            // Tables of numbers are noisier than those of classes.
            settings.weight_decay = self.weight_decay.unwrap_or(0.3);
            settings.lr = self.lr.unwrap_or(3e-3);
        }
    }
}
