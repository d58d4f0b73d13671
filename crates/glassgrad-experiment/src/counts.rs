//! Counts in sentences.

/// A count with its noun: "1 step", "2 steps".
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", plural(count))
}

/// The ending of a noun after a count.
pub fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
