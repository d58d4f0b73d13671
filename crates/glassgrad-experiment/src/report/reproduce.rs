//! The command and the settings that reproduce an experiment.

use glassgrad::error::Error;

use super::Subject;
use super::html::{escaped, note};
use crate::command;
use crate::settings::Settings;

pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    Ok(Some(command(&subject.study.settings)))
}

/// The command and all settings.
pub(super) fn command(settings: &Settings) -> String {
    let json = serde_json::to_string_pretty(settings).unwrap_or_else(|error| error.to_string());
    let about = "All randomness follows from the seed: on a machine of the same kind the results are identical.";
    format!(
        "{}<pre id=\"command\">{}</pre>\n<details><summary>All settings, as in settings.json</summary>\n<pre id=\"settings\">{}</pre></details>",
        note(about),
        escaped(&command::command(settings)),
        escaped(&json)
    )
}
