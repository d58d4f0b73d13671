//! From what a person asks for to settings.

use super::datasets;
pub use super::settings::Options;
use super::settings::{Applies, Loss, Settings, name_of};
use super::task::{Description, Kind};
use crate::failure::Failure;

impl Options {
    /// The settings for some data.
    pub fn settings(&self, data: &str) -> Result<Settings, Failure> {
        let mut settings = datasets::suited(data, self.model)?;
        self.change(&mut settings);
        Ok(settings)
    }

    /// Refuses settings that would be ignored: they belong to other data or to another model.
    pub fn check_applies(&self, settings: &Settings) -> Result<(), Failure> {
        let data = datasets::find(&settings.data)?.family();
        let model = name_of(settings.model);
        for row in self.given() {
            let Applies { data: families, models } = row.applies;
            if !families.is_empty() && !families.contains(&data) {
                let message = format!(
                    "{}: this setting applies to {}, not to {}",
                    row.flag(),
                    families.join(", "),
                    settings.data
                );
                return Err(Failure::Input(message));
            }
            if !models.is_empty() && !models.contains(&&*model) {
                let message =
                    format!("{}: this setting applies to --model {}, not {model}", row.flag(), models.join(", "));
                return Err(Failure::Input(message));
            }
        }
        Ok(())
    }

    /// The default loss of the task, where none was given.
    pub fn fit(&self, settings: &mut Settings, about: &Description) {
        self.fit_target(settings, matches!(about.kind, Kind::Numbers { .. }));
    }

    /// The same for a target of which only the type is known.
    pub fn fit_target(&self, settings: &mut Settings, is_regression: bool) {
        if self.loss.is_none() && is_regression && settings.loss == Loss::CrossEntropy {
            settings.loss = Loss::Mse;
            // Tables of numbers are noisier than those of classes.
            settings.weight_decay = self.weight_decay.unwrap_or(0.3);
            settings.lr = self.lr.unwrap_or(3e-3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Activation, Model};

    #[test]
    fn settings_that_would_be_ignored_are_refused() {
        let check = |options: &Options, data: &str| {
            let settings = options.settings(data).unwrap_or_else(|failure| panic!("{failure}"));
            options.check_applies(&settings).map_err(|failure| failure.to_string())
        };
        let points = Options { points: Some(50), ..Options::default() };
        assert_eq!(check(&points, "moons"), Ok(()));
        let expected = "--points: this setting applies to moons, circles, spirals, blobs, function, not to iris";
        assert_eq!(check(&points, "iris"), Err(expected.to_owned()));
        let drop = Options { drop: Some("id".to_owned()), ..Options::default() };
        assert_eq!(check(&drop, "table.csv"), Ok(()));
        assert!(check(&drop, "digits").is_err());
        let heads = Options { heads: Some(2), model: Some(Model::Transformer), ..Options::default() };
        assert_eq!(check(&heads, "digits"), Ok(()));
        let expected = "--heads: this setting applies to --model transformer, gpt, not mlp";
        assert_eq!(check(&Options { model: None, ..heads }, "digits"), Err(expected.to_owned()));
        let activation = Options { activation: Some(Activation::Relu), ..Options::default() };
        assert_eq!(check(&activation, "iris"), Ok(()));
    }
}
