//! Files that are there as a whole or not at all.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Error;

/// What the names of temporary files end with.
const ENDING: &str = ".part";
/// How often a temporary file that vanishes before it is renamed is written again.
const ATTEMPTS: u32 = 3;

/// Writes a file beside its place, waits until it is on the disk, and puts it in its place.
///
/// Temporary files that a killed process has left beside the same place are removed; those of a process that is still
/// writing are locked, and stay.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("glassgrad-atomic-{}", std::process::id()));
/// glassgrad::save::write_atomically(&path, b"old").unwrap();
/// glassgrad::save::write_atomically(&path, b"new").unwrap();
/// assert_eq!(std::fs::read(&path).unwrap(), b"new");
/// # std::fs::remove_file(&path).unwrap();
/// ```
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::new("save", format!("cannot write {}: {error}", path.display()));
    if is_first_write(path) {
        remove_stale(path);
    }
    let mut attempt = 1;
    loop {
        match write_beside_and_rename(path, bytes) {
            // Another process took the temporary file for a stale one in the moment between its creation and its lock.
            Err(error) if error.kind() == ErrorKind::NotFound && attempt < ATTEMPTS && folder_of(path).is_dir() => {
                attempt += 1;
            }
            written => break written.map_err(failed)?,
        }
    }
    // The new name is on the disk when its folder is. Not every system can wait for a folder; the file is whole anyway.
    if let Ok(folder) = File::open(folder_of(path)) {
        let _ = folder.sync_all();
    }
    Ok(())
}

fn write_beside_and_rename(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let (beside, mut file) = create_beside(path)?;
    // The lock marks the file as not stale. On a file system without locks no file counts as stale.
    let _ = file.lock();
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is left of an attempt is of no use to anyone.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A new file in the same folder, under a name that no other process or thread uses.
fn create_beside(path: &Path) -> std::io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let mut name = prefix_of(path);
        name.push(format!("{}.{}{ENDING}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        let beside = path.with_file_name(name);
        match File::options().write(true).create_new(true).open(&beside) {
            // Left by a killed process that had the same number: the next name is free.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (beside, file)),
        }
    }
}

/// What the names of temporary files of a place begin with.
fn prefix_of(path: &Path) -> OsString {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name
}

/// Whether this process has not written to a place before: stale files are looked for once.
fn is_first_write(path: &Path) -> bool {
    /// How many paths are remembered before the memo is cleared.
    const MOST: usize = 1024;
    static WRITTEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    if written.len() >= MOST {
        written.clear();
    }
    written.insert(path.to_owned())
}

/// Removes the temporary files of a place that no process holds locked. What cannot be removed does no harm.
fn remove_stale(path: &Path) {
    let Ok(entries) = fs::read_dir(folder_of(path)) else { return };
    let prefix = prefix_of(path);
    for entry in entries.flatten() {
        if is_temporary(entry.file_name().as_encoded_bytes(), prefix.as_encoded_bytes())
            && let Ok(file) = File::options().write(true).open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether a name is the prefix of a place, the numbers of a process and of a file, and the ending.
fn is_temporary(name: &[u8], prefix: &[u8]) -> bool {
    let numbers = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(ENDING.as_bytes()));
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    numbers.is_some_and(|numbers| {
        let mut parts = numbers.split(|byte| *byte == b'.');
        parts.by_ref().take(2).filter(|part| is_number(part)).count() == 2 && parts.next().is_none()
    })
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_temporary_files_are_recognised() {
        for (name, expected) in [
            ("run.safetensors.123.0.part", true),
            ("run.safetensors.1.22.part", true),
            ("run.safetensors.part", false),
            ("run.safetensors.x.0.part", false),
            ("run.safetensors.1.2.3.part", false),
            ("run.safetensors.1..part", false),
            ("other.safetensors.1.2.part", false),
            ("run.safetensors.1.2", false),
        ] {
            assert_eq!(is_temporary(name.as_bytes(), b"run.safetensors."), expected, "{name}");
        }
    }

    #[test]
    fn stale_files_are_removed_and_those_of_live_writers_stay() {
        let folder = std::env::temp_dir().join(format!("glassgrad-stale-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [stale, live, foreign] =
            ["model.4000000000.0.part", "model.4000000001.0.part", "notes.1.0.part"].map(|name| folder.join(name));
        [&stale, &live, &foreign].iter().for_each(|path| fs::write(path, b"half").unwrap());
        let writer = File::options().write(true).open(&live).unwrap();
        writer.lock().unwrap();
        write_atomically(&folder.join("model"), b"whole").unwrap();
        assert_eq!([&stale, &live, &foreign].map(|path| path.exists()), [false, true, true]);
        assert_eq!(fs::read(folder.join("model")).unwrap(), b"whole");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn many_writers_of_one_place_leave_a_whole_file_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("glassgrad-writers-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("model");
        std::thread::scope(|scope| {
            for writer in 0..4_u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..20 {
                        remove_stale(path);
                        write_atomically(path, &[writer; 1000]).unwrap();
                    }
                });
            }
        });
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.len() == 1000 && bytes.iter().all(|byte| *byte == bytes[0]));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
