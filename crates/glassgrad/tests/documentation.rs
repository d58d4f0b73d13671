//! Every public function and type of the tensor half shows how it is used, in an example that runs.

use std::path::{Path, PathBuf};

/// The modules of tensors, as folders or files of `src`.
const TENSORS: [&str; 18] = [
    "shared",
    "dtype",
    "shape",
    "view",
    "array",
    "einsum",
    "rng",
    "error",
    "expr",
    "exec",
    "tree",
    "diff",
    "operations",
    "calculus",
    "calculator",
    "lang/matrix",
    "explain",
    "optim",
];

fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = std::fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| sources(&path)).collect()
}

/// The public functions and types of a source text whose documentation has no example, by line.
fn without_example(text: &str) -> Vec<(usize, &str)> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut has_example = false;
    for (number, line) in code.lines().enumerate() {
        let is_type = ["struct", "enum", "trait", "type"].iter().any(|kind| line.starts_with(&format!("pub {kind} ")));
        let line = line.trim();
        if (is_type || line.starts_with("pub fn ")) && !has_example {
            found.push((number + 1, line));
        }
        // Documentation ends with the item that it stands before, or with an empty line.
        let ends = line.is_empty() || is_type || (line.contains("fn ") && !line.starts_with("//"));
        has_example = !ends && (has_example || (line.contains("```") && !line.contains("```text")));
    }
    found
}

#[test]
fn every_public_function_and_type_of_tensors_has_an_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut missing = Vec::new();
    let mut seen = 0;
    for module in TENSORS {
        let folder = root.join(module);
        for path in sources(&if folder.is_dir() { folder } else { root.join(module).with_extension("rs") }) {
            let text = std::fs::read_to_string(&path).expect("readable");
            seen += text.matches("pub fn ").count();
            for (line, item) in without_example(&text) {
                missing.push(format!("{}:{line}: {item}", path.display()));
            }
        }
    }
    assert!(seen > 100, "only {seen} functions were found");
    assert!(missing.is_empty(), "no example:\n{}", missing.join("\n"));
}

#[test]
fn what_has_no_example_is_found() {
    let text =
        "/// One.\n///\n/// ```\n/// one();\n/// ```\n#[track_caller]\npub fn one() {}\n\n/// Two.\npub fn two() {}\n";
    assert_eq!(without_example(text), [(10, "pub fn two() {}")]);
    let text = "/// ```\n/// fine();\n/// ```\nfn fine() {}\n/// Not.\npub fn not_fine() {}\n";
    assert_eq!(without_example(text), [(6, "pub fn not_fine() {}")]);
}
