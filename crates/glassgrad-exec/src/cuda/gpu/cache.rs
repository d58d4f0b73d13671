//! A cache on disk: entries by the hash of everything that determines them, each with a checksum.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) fn hash_of(text: &str) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, text).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

/// The file of an entry, if this user has a cache folder.
fn file_of(key: u128, extension: &str) -> Option<PathBuf> {
    let own = std::env::var_os("GLASSGRAD_CACHE").map(PathBuf::from);
    let cache = || Some(PathBuf::from(std::env::var_os("XDG_CACHE_HOME")?));
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let folder = own.or_else(|| Some(cache().or_else(home)?.join("glassgrad")))?;
    Some(folder.join("kernels").join(format!("{key:032x}.{extension}")))
}

/// The contents of an entry, if it is there and intact.
pub(super) fn load(key: u128, extension: &str) -> Option<Vec<u8>> {
    let bytes = std::fs::read(file_of(key, extension)?).ok()?;
    let (sum, contents) = bytes.split_at_checked(8)?;
    (checksum(contents).to_le_bytes() == sum).then(|| contents.to_vec())
}

/// Stores an entry atomically. A cache that cannot be written is no error: the next process computes the entry again.
pub(super) fn store(key: u128, extension: &str, contents: &[u8]) {
    if let Some(file) = file_of(key, extension) {
        let _ = write(&file, contents);
    }
}

fn write(file: &Path, contents: &[u8]) -> std::io::Result<()> {
    static COUNTER: AtomicUsize = AtomicUsize::new(0);
    let folder = file.parent().ok_or(std::io::ErrorKind::NotFound)?;
    std::fs::create_dir_all(folder)?;
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let part = file.with_extension(format!("{}-{number}.part", std::process::id()));
    let mut sealed = checksum(contents).to_le_bytes().to_vec();
    sealed.extend_from_slice(contents);
    std::fs::write(&part, sealed)?;
    std::fs::rename(&part, file)
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
