//! Files as a whole.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::Error;

/// No file is read beyond this many bytes.
const LARGEST: u64 = 1 << 34;
/// A pipe or a device has no length and may never end: it is read up to this many bytes.
const LARGEST_STREAM: u64 = 1 << 30;

/// All bytes of a file, at most 2³⁴, or of a pipe, at most 2³⁰. Memory that is not there is an error.
pub(super) fn whole(operation: &str, path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |error: std::io::Error| Error::new(operation, format!("cannot read {}: {error}", path.display()));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let limit = if file.metadata().map_err(failed)?.is_file() { LARGEST } else { LARGEST_STREAM };
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > limit {
        true => Err(Error::new(operation, format!("{} has more than {limit} bytes", path.display()))),
        false => Ok(bytes),
    }
}
