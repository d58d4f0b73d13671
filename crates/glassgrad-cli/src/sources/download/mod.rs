//! A file from the net: whole and right, or not at all.
//!
//! A partial download is kept in a `.part` file beside the target, and the next attempt requests the rest. Only what has the known length
//! and the known checksum gets the name of the file. Servers may stall, break off, send the wrong bytes or never stop: each of
//! them ends an attempt with a reason, and the next mirror is tried. The requests are made by the program `curl`.

mod answer;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use answer::{Answer, Trouble};
use glassgrad::error::Error;

/// The progress of a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The name of the file.
    pub(crate) file: String,
    /// The bytes that are there.
    pub(crate) bytes: u64,
    /// The bytes of the whole file.
    pub(crate) total: u64,
}

/// Timeouts and retries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For a connection, and for an answer to begin.
    pub(crate) answer: Duration,
    /// For the next bytes.
    pub(crate) bytes: Duration,
    /// For the whole answer: bytes that drip are no stall, but they end.
    pub(crate) whole: Duration,
    /// How often one mirror is asked for the rest when the transfer breaks off.
    pub(crate) attempts: usize,
}

impl Default for Patience {
    fn default() -> Patience {
        let seconds = Duration::from_secs;
        Patience { answer: seconds(20), bytes: seconds(20), whole: seconds(3600), attempts: 4 }
    }
}

/// A file, where it is published, and how it is recognised.
#[derive(Clone, Debug)]
pub(crate) struct Download {
    /// Mirrors, in order of preference.
    pub(crate) addresses: Vec<String>,
    /// Its length, which is also the most that is taken from a server.
    pub(crate) bytes: u64,
    /// Its checksum.
    pub(crate) md5: String,
    /// Timeouts.
    pub(crate) patience: Patience,
    /// The program that asks them: curl.
    pub(crate) program: &'static str,
}

impl Download {
    /// Downloads the file to its path and reports progress.
    pub(crate) fn fetch(&self, path: &Path, progress: &mut dyn FnMut(&Progress)) -> Result<(), Error> {
        let failed =
            |error: std::io::Error| Error::new("download", format!("cannot write {}: {error}", path.display()));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let part = beside(path);
        let mut reasons = Vec::new();
        for address in &self.addresses {
            match self.ask_one(address, path, &part, progress) {
                Ok(()) => return fs::rename(&part, path).map_err(failed),
                Err(Trouble::Disk(error)) => return Err(failed(error)),
                Err(trouble @ Trouble::NoCurl(_)) => {
                    let folder = path.parent().unwrap_or(path).display();
                    let help = format!("install curl, or fetch {address} by other means and put it into {folder}");
                    return Err(Error::new("download", trouble.to_string()).help(help));
                }
                Err(trouble) => reasons.push(format!("{address}: {trouble}")),
            }
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let error = Error::new("download", format!("{name} cannot be fetched\n  {}", reasons.join("\n  ")));
        Err(error.help(format!("fetch it by other means and put it into {}", path.parent().unwrap_or(path).display())))
    }

    /// Asks one address until the file is whole and right, as long as every answer brings it further.
    fn ask_one(
        &self,
        address: &str,
        path: &Path,
        part: &Path,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(), Trouble> {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut report = |bytes: u64| progress(&Progress { file: file.clone(), bytes, total: self.bytes });
        for attempt in 1.. {
            let before = length(part);
            let outcome = if before == self.bytes { Ok(()) } else { self.attempt(address, part, before, &mut report) };
            let outcome = outcome.and_then(|()| self.check(part));
            match outcome {
                // More may come from where the answer broke off.
                Err(Trouble::Broken { .. }) if attempt < self.patience.attempts && length(part) > before => {}
                // What was there before belonged to something else: once more from the beginning.
                Err(Trouble::Checksum(_)) if before > 0 && attempt < self.patience.attempts => {}
                outcome => return outcome,
            }
        }
        Ok(())
    }

    /// Asks for what is not there yet.
    fn attempt(&self, address: &str, part: &Path, have: u64, report: &mut dyn FnMut(u64)) -> Result<(), Trouble> {
        let answer = answer::ask(self.program, address, have, &self.patience)?;
        let (mut file, mut bytes) = match answer.start {
            0 => (File::create(part).map_err(Trouble::Disk)?, 0),
            start => (OpenOptions::new().append(true).open(part).map_err(Trouble::Disk)?, start),
        };
        let Answer { mut body, .. } = answer;
        let mut block = vec![0; 1 << 16];
        report(bytes);
        loop {
            let count = match body.read(&mut block) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                // Everything is here, whatever length the server has claimed.
                Err(_) if bytes == self.bytes => break,
                Err(error) => return Err(Trouble::broken(&error, bytes, self.bytes)),
            };
            bytes += count as u64;
            if bytes > self.bytes {
                drop(file);
                fs::remove_file(part).map_err(Trouble::Disk)?;
                return Err(Trouble::TooLong(self.bytes));
            }
            file.write_all(&block[..count]).map_err(Trouble::Disk)?;
            report(bytes);
        }
        file.sync_all().map_err(Trouble::Disk)?;
        match bytes < self.bytes {
            true => Err(Trouble::Broken { why: "the answer ended".to_owned(), bytes, total: self.bytes }),
            false => Ok(()),
        }
    }

    /// Compares the checksum; a file that has another is of no use and is removed.
    fn check(&self, part: &Path) -> Result<(), Trouble> {
        let found = checksum(part).map_err(Trouble::Disk)?;
        if found == self.md5 {
            return Ok(());
        }
        fs::remove_file(part).map_err(Trouble::Disk)?;
        Err(Trouble::Checksum(format!("its checksum is {found} and should be {}", self.md5)))
    }
}

/// The place for what has come so far.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |about| about.len())
}

/// The MD5 sum of a file, in hexadecimal digits.
fn checksum(path: &Path) -> std::io::Result<String> {
    let (mut file, mut sum) = (File::open(path)?, md5::Context::new());
    std::io::copy(&mut file, &mut sum)?;
    Ok(format!("{:x}", sum.finalize()))
}
