//! Files as a whole.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::Error;

/// No file is read beyond this many bytes, so that one that never ends, such as a device, is refused.
const LARGEST: u64 = 1 << 34;

/// All bytes of a file, at most 2³⁴.
pub(super) fn whole(operation: &str, path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| Error::new(operation, format!("cannot read {}: {error}", path.display())))?;
    match bytes.len() as u64 > LARGEST {
        true => Err(Error::new(operation, format!("{} has more than {LARGEST} bytes", path.display()))),
        false => Ok(bytes),
    }
}
