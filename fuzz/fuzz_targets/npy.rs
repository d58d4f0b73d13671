//! Any bytes are read as an array of NumPy or refused, and what was read, written again, reads the same.
#![no_main]

use glassgrad::data::files::{npy_from_bytes, npy_to_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match npy_from_bytes(bytes) {
    Ok(array) => {
        assert!(array.buffer().len() <= bytes.len());
        let written = npy_to_bytes(&array);
        // By their bytes: what is not a number is not equal to itself.
        assert_eq!(npy_to_bytes(&npy_from_bytes(&written).expect("it was written here")), written);
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});
