//! Counts of what was checked: per generator, oracle and operation.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

type Counts = BTreeMap<(&'static str, String), u64>;

static COUNTS: Mutex<Counts> = Mutex::new(BTreeMap::new());

/// Adds to the count of a name within a kind, such as `("oracle", "reference")`.
pub fn add(kind: &'static str, name: impl Into<String>, amount: u64) {
    *COUNTS.lock().unwrap_or_else(PoisonError::into_inner).entry((kind, name.into())).or_default() += amount;
}

/// All counts as a table: a heading per kind, and the names of the kind with their counts.
pub fn table() -> String {
    let counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = String::new();
    let mut heading = "";
    for ((kind, name), count) in counts.iter() {
        if *kind != heading {
            heading = kind;
            text.push_str(&format!("{kind}:\n"));
        }
        text.push_str(&format!("  {count:>10}  {name}\n"));
    }
    text
}
