//! The command line that reproduces an experiment.

use super::datasets;
use super::settings::{ROWS, Settings};

/// The command line: the data, and all settings that are not what suits it anyway.
pub fn command(settings: &Settings) -> String {
    let mut words = vec!["glassgrad".to_owned(), "train".to_owned(), quoted(&settings.data)];
    let usual = datasets::suited(&settings.data, None).ok();
    let is_usual_model = usual.as_ref().is_some_and(|usual| usual.model == settings.model);
    let usual = if is_usual_model { usual } else { datasets::suited(&settings.data, Some(settings.model)).ok() };
    for row in ROWS {
        let value = (row.value)(settings);
        let is_usual = usual.as_ref().is_some_and(|usual| (row.value)(usual) == value);
        if !is_usual || (row.name == "model" && !is_usual_model) {
            words.extend([row.flag(), quoted(&(row.shown)(settings))]);
        }
    }
    words.join(" ")
}

/// A word that a shell takes for one.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "._,-+=/:@%".contains(character);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Model, OptimizerName};

    #[test]
    fn only_settings_that_were_given_are_printed() {
        let mut settings = datasets::suited("moons", None).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(command(&settings), "glassgrad train moons");
        settings.layers = vec![8, 4];
        settings.optimizer = OptimizerName::of("sgd");
        settings.lr = 0.5;
        settings.weight_decay = 1e-3;
        assert_eq!(
            command(&settings),
            "glassgrad train moons --layers 8,4 --optimizer sgd --lr 0.5 --weight-decay 0.001"
        );
        let other = datasets::suited("digits", Some(Model::Cnn)).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(command(&other), "glassgrad train digits --model cnn");
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(
            ["a.csv", "my file.csv", "it's", "", "$(x)"].map(quoted),
            ["a.csv", "'my file.csv'", r"'it'\''s'", "''", "'$(x)'"]
        );
    }
}
