//! Any bytes are read as images or labels or refused.
#![no_main]

use glassgrad::data::files::Idx;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match Idx::from_bytes(bytes) {
    Ok(read) => {
        assert_eq!(read.elements.len(), read.shape.iter().product::<usize>());
        assert_eq!(read.integers().buffer().len(), read.elements.len());
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});
