//! Files that were compressed by gzip.

use std::io::Read as _;

use crate::error::Error;

/// The first bytes of every such file.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Decompresses a gzip file, up to a maximum length.
///
/// ```
/// use glassgrad::data::files::expand;
/// let error = expand(b"not compressed", 100).unwrap_err();
/// assert_eq!(error.message(), "the bytes are not those of a gzip file");
/// ```
pub fn expand(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    if !is_compressed(bytes) {
        return Err(Error::new("expand", "the bytes are not those of a gzip file"));
    }
    // One byte beyond the limit detects excess data.
    let expanded = expand_start("expand", bytes, limit.saturating_add(1))?;
    match expanded.len() > limit {
        true => Err(Error::new("expand", format!("it expands to more than {limit} bytes"))),
        false => Ok(expanded),
    }
}

/// The first bytes behind a gzip file, or all where there are fewer.
pub(super) fn expand_start(operation: &str, bytes: &[u8], count: usize) -> Result<Vec<u8>, Error> {
    let mut expanded = Vec::new();
    let mut reader = flate2::read::MultiGzDecoder::new(bytes).take(count as u64);
    match reader.read_to_end(&mut expanded) {
        Ok(_) => Ok(expanded),
        Err(error) => {
            let message = format!("the compressed bytes are damaged behind {} expanded ones: {error}", expanded.len());
            Err(Error::new(operation, message).help("the file may not be whole: fetch or compress it again"))
        }
    }
}

/// Whether bytes begin as a gzip file does.
pub(super) fn is_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_is_expanded_is_limited() {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        writer.write_all(&vec![7; 1_000_000]).unwrap();
        let packed = writer.finish().unwrap();
        assert!(packed.len() < 2_000);
        assert_eq!(expand(&packed, 1_000_000).unwrap(), vec![7; 1_000_000]);
        let message = expand(&packed, 999_999).unwrap_err().to_string();
        assert!(message.contains("more than 999999 bytes"), "{message}");
        for end in 0..packed.len() {
            assert!(expand(&packed[..end], 1_000_000).is_err(), "{end}");
        }
    }
}
