//! Programs that once failed.

use std::path::Path;

use glassgrad_fuzz::programs::corpus::Entry;

#[test]
fn programs_that_once_failed_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut wrong = Vec::new();
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder).expect("the folder corpus").map(|file| file.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|ending| ending == "txt")) {
        let text = std::fs::read_to_string(path).expect("a text");
        let entry: Entry = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        match (entry.check(), &entry.known_failure) {
            (Err(message), None) => wrong.push(format!("{}: {message}", path.display())),
            (Ok(()), Some(reason)) => {
                wrong.push(format!("{}: this is fixed, remove the mark: {reason}", path.display()));
            }
            _ => {}
        }
    }
    assert!(!paths.is_empty(), "the corpus is not empty");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
