//! The directory of an experiment: its settings, the run so far, the model, what was measured, the report.

use std::fs::{self, File, TryLockError};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use glassgrad::save::write_atomically;

use crate::experiment::history::History;
use crate::experiment::settings::Settings;
use crate::failure::Failure;

/// A directory that this process alone writes to.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Whether the directory was created for this run.
    is_new: bool,
    /// Held locked until the process ends, however it ends.
    _lock: File,
}

/// File names.
pub(crate) const SETTINGS: &str = "settings.json";
pub(crate) const RUN: &str = "run.safetensors";
pub(crate) const MODEL: &str = "model.safetensors";
pub(crate) const HISTORY: &str = "metrics.json";
pub(crate) const METRICS: &str = "metrics.csv";
pub(crate) const REPORT: &str = "report.html";
const LOCK: &str = ".lock";

/// No settings or histories are larger.
const LARGEST: u64 = 64 << 20;

impl Drop for Folder {
    /// Removes a directory that was created for an experiment that never began.
    fn drop(&mut self) {
        if self.is_new && !self.file(SETTINGS).exists() {
            let _ = fs::remove_file(self.file(LOCK));
            // Only an empty one is removed.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

impl Folder {
    /// Makes a directory for a new experiment.
    pub(crate) fn create(path: &Path) -> Result<Folder, Failure> {
        let folder = Folder::locked(path)?;
        if folder.file(SETTINGS).exists() {
            let shown = path.display();
            let message =
                format!("{shown} holds an experiment already: continue it with --resume, or choose another --out");
            return Err(Failure::Input(message));
        }
        Ok(folder)
    }

    /// Opens the directory of an experiment that was begun.
    pub(crate) fn open(path: &Path) -> Result<(Folder, Settings), Failure> {
        if !path.join(SETTINGS).exists() {
            let message = format!("{} holds no experiment to resume: there is no {SETTINGS}", path.display());
            return Err(Failure::Input(message));
        }
        let folder = Folder::locked(path)?;
        let settings = folder.read(SETTINGS)?;
        Ok((folder, settings))
    }

    fn locked(path: &Path) -> Result<Folder, Failure> {
        let failed = |error: std::io::Error| Failure::Input(format!("cannot write to {}: {error}", path.display()));
        let is_new = !path.exists();
        fs::create_dir_all(path).map_err(failed)?;
        let lock = File::options().create(true).write(true).truncate(false).open(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path: path.to_owned(), is_new, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                let message = format!("{} is being written to by another run; choose another --out", path.display());
                Err(Failure::Input(message))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Puts a file there as a whole, or leaves the one that was there.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        write_atomically(&self.file(name), bytes).map_err(Failure::result)
    }

    pub(crate) fn write_settings(&self, settings: &Settings) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(settings).map_err(Failure::result)?;
        self.write(SETTINGS, format!("{text}\n").as_bytes())
    }

    /// The recorded history, if a run was started here.
    pub(crate) fn history(&self) -> Result<History, Failure> {
        if self.file(HISTORY).exists() { self.read(HISTORY) } else { Ok(History::default()) }
    }

    fn read<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, Failure> {
        let path = self.file(name);
        let failed = |message: String| Failure::Input(format!("cannot read {}: {message}", path.display()));
        let size = fs::metadata(&path).map_err(|error| failed(error.to_string()))?.len();
        if size > LARGEST {
            return Err(failed(format!("it has {size} bytes, and at most {LARGEST} are expected")));
        }
        let mut text = String::new();
        File::open(&path)
            .and_then(|file| file.take(LARGEST).read_to_string(&mut text))
            .map_err(|error| failed(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
    }
}
