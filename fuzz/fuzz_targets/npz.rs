//! Any bytes are read as an archive of arrays or refused, and no array is larger than its bytes can be expanded to.
#![no_main]

use glassgrad::data::files::npz_from_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match npz_from_bytes(bytes) {
    Ok(arrays) => {
        let elements: usize = arrays.values().map(|array| array.buffer().len()).sum();
        assert!(elements <= 1032 * bytes.len());
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});
