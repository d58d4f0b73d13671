//! Data from files: tables, arrays, images and labels; what is damaged is refused or read, and never believed.
#![cfg(feature = "files")]

#[path = "data_files/damage.rs"]
mod damage;
#[path = "data_files/idx.rs"]
mod idx;
#[path = "data_files/numpy.rs"]
mod numpy;
#[path = "data_files/table.rs"]
mod table;

use std::io::Write as _;
use std::path::PathBuf;

/// The same bytes, compressed.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// A file of the examples.
fn example(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/data").join(name)
}

/// A file that is written for one test.
fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("glassgrad-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}
