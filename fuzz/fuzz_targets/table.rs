//! Any bytes are read as a table or refused, what was read is written, and what is written reads back.
#![no_main]

use glassgrad::data::files::{Reading, Table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let table = match Table::parse(bytes) {
        Ok(table) => table,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!(table.columns().iter().all(|column| column.len() == table.rows()));
    let _ = table.source("fuzz", None, None);
    let _ = table.with_means();
    let _ = table.without_missing();
    let again = Reading::default().separator(',').header(true).parse(table.to_csv()).expect("it was written here");
    assert_eq!((again.rows(), again.columns().len()), (table.rows(), table.columns().len()));
});
