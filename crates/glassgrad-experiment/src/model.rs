//! A model in a file: the weights, and all that has to be known to use them.

use std::path::Path;

use glassgrad::save::{self, File};
use serde::{Deserialize, Serialize};

use super::network::Network;
use super::settings::Settings;
use super::study::Study;
use super::task::Description;
use crate::failure::Failure;

/// The metadata of a model file.
#[derive(Serialize, Deserialize)]
struct Note {
    settings: Settings,
    task: Description,
}

/// The name of the note.
const NOTE: &str = "glassgrad";

/// A network that can be used.
pub struct Model {
    pub settings: Settings,
    pub task: Description,
    pub network: Network,
    /// Warnings about the file.
    pub warnings: Vec<String>,
}

/// The note of a network.
fn note(study: &Study) -> Result<String, Failure> {
    let note = Note { settings: study.settings.clone(), task: study.task.about.clone() };
    serde_json::to_string(&note).map_err(Failure::result)
}

/// Writes a network, whole or not at all.
pub fn write(path: &Path, study: &Study, network: &Network) -> Result<(), Failure> {
    save::save(path, network, &[(NOTE, &note(study)?)]).map_err(Failure::result)
}

/// The bytes of the file that [`write()`] writes.
pub fn to_bytes(study: &Study, network: &Network) -> Result<Vec<u8>, Failure> {
    let mut file = File::of(network).map_err(Failure::result)?;
    file.notes.insert(NOTE.to_owned(), note(study)?);
    file.to_bytes().map_err(Failure::result)
}

/// Reads a network.
pub fn read(path: &Path) -> Result<Model, Failure> {
    let file = File::read(path).map_err(Failure::input)?;
    of_file(&file, &path.display().to_string())
}

/// Reads a network from the bytes of a file that is called by a name.
pub fn from_bytes(bytes: &[u8], name: &str) -> Result<Model, Failure> {
    of_file(&File::from_bytes(bytes).map_err(Failure::input)?, name)
}

fn of_file(file: &File, shown: &str) -> Result<Model, Failure> {
    let failed = |message: String| Failure::Input(message);
    let Some(note) = file.notes.get(NOTE) else {
        return Err(failed(format!(
            "{shown} was not written by glassgrad train: it does not say what network it holds"
        )));
    };
    let note: Note = serde_json::from_str(note)
        .map_err(|error| failed(format!("{shown}: what it says of its network cannot be read: {error}")))?;
    note.settings.check().map_err(|failure| failed(format!("{shown}: {failure}")))?;
    // A network of the same shape gives the expected leaves; false metadata is refused before a large allocation.
    let expected: usize = file.tensors.values().map(|tensor| tensor.shape().elements()).sum();
    note.settings.check_size(&note.task, expected).map_err(|error| failed(format!("{shown}: {error}")))?;
    let like = Network::build(&note.settings, &note.task.ends(&note.settings))?;
    let network = file.tree(&like).map_err(|error| failed(format!("{shown}: {error}")))?;
    Ok(Model { settings: note.settings, task: note.task, network, warnings: file.warnings.clone() })
}
