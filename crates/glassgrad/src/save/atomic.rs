//! Files that are there as a whole or not at all.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

/// Writes a file beside its place, waits until it is on the disk, and puts it in its place.
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
    let beside = beside(path);
    let written = write_through(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is left of an attempt is of no use to anyone.
        let _ = fs::remove_file(&beside);
    }
    written.map_err(failed)?;
    // The new name is on the disk when its folder is. Not every system can wait for a folder; the file is whole anyway.
    if let Some(Ok(folder)) = path.parent().map(|folder| fs::File::open(non_empty(folder))) {
        let _ = folder.sync_all();
    }
    Ok(())
}

fn write_through(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A name in the same folder that no other process or thread uses.
fn beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{}.part", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

fn non_empty(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}
