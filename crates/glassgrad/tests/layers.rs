//! The layers of the library: a module uses only what stands above it. The lowest ones are a crate of their own, glassgrad-math, in which
//! the compiler knows nothing of the others; inside of both crates this test enforces the order.

use std::path::{Path, PathBuf};

/// The modules from the bottom of the library to its top.
const LAYERS: [&str; 42] = [
    "clock",
    "special",
    "algebra",
    "dtype",
    "hashing",
    "interning",
    "numbering",
    "shape",
    "view",
    "array",
    "einsum",
    "rng",
    "sorting",
    "ops",
    "formula",
    "error",
    "collective",
    "exec",
    "expr",
    "opt",
    "runtime",
    "tree",
    "diff",
    "compile",
    "operations",
    "calculus",
    "optim",
    "nn",
    "loss",
    "dist",
    "data",
    "save",
    "models",
    "scalar",
    "lang",
    "calculator",
    "trace",
    "picture",
    "explain",
    "glass",
    "certify",
    "train",
];

/// What the root re-exports: the vocabulary of the lowest layers, and the macro that derives trees.
const VOCABULARY: [&str; 6] = ["Literal", "c", "Algebra", "Operation", "Real", "Tree"];

/// Macros that glassgrad-math exports from its root, one of which has the name of a module above it.
const MACROS: [&str; 2] = ["operations", "with_elements"];

fn rank(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == module)
}

/// The sources of both crates, with the folder that modules are named from.
fn all_sources() -> Vec<(PathBuf, PathBuf)> {
    let library = Path::new(env!("CARGO_MANIFEST_DIR"));
    let roots = [library.join("src"), library.with_file_name("glassgrad-math").join("src")];
    roots.into_iter().flat_map(|root| sources(&root).into_iter().map(move |path| (root.clone(), path))).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The modules that a source text names after `crate::`, outside of comments.
fn used_modules(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines
        .flat_map(|(number, line)| {
            line.split("crate::").skip(1).map(move |rest| {
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                (number + 1, name)
            })
        })
        .collect()
}

#[test]
fn modules_use_only_what_stands_above_them() {
    let mut checked = 0;
    for (root, path) in all_sources() {
        let inside = path.strip_prefix(&root).expect("inside").with_extension("");
        let module = inside.components().next().expect("a name").as_os_str().to_str().expect("text").to_owned();
        // Tests beside the code may use everything.
        if module == "lib" || path.ends_with("tests.rs") {
            continue;
        }
        let own = rank(&module).unwrap_or_else(|| panic!("module {module} has no place in the layers"));
        let text = std::fs::read_to_string(&path).expect("readable");
        let is_macro =
            |used: &str| root.parent().is_some_and(|root| root.ends_with("glassgrad-math")) && MACROS.contains(&used);
        let is_module = |used: &str| !VOCABULARY.contains(&used) && !is_macro(used);
        for (line, used) in used_modules(&text).into_iter().filter(|(_, used)| is_module(used)) {
            let place = format!("{}:{line}", path.display());
            let other =
                rank(&used).unwrap_or_else(|| panic!("{place} names crate::{used}, which has no place in the layers"));
            assert!(other <= own, "{place}: {module} uses {used}, which stands below it");
            checked += 1;
        }
    }
    assert!(checked > 30, "only {checked} uses were found");
}

#[test]
fn derivative_formulas_stand_in_the_table_alone() {
    for (_, path) in all_sources().into_iter().filter(|(_, path)| !path.ends_with("ops.rs")) {
        let text = std::fs::read_to_string(&path).expect("readable");
        // Tests may plant wrong rules; everything before them may not state any.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        assert!(
            !code.contains("impl Unary for") && !code.contains("impl Binary for"),
            "{} states a rule",
            path.display()
        );
    }
}

/// Files of `tests` are not found by cargo: an unlisted file would never run.
#[test]
fn every_test_file_belongs_to_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("readable");
    let entries = std::fs::read_dir(root.join("tests")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|ending| ending == "rs")).collect();
    let name = |path: &PathBuf| path.file_stem().expect("a name").to_str().expect("text").to_owned();
    let (suites, modules): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| name(path).starts_with("suite_"));
    let listed: String = suites.iter().map(|path| std::fs::read_to_string(path).expect("readable")).collect();
    for suite in suites.iter().map(name) {
        assert!(manifest.contains(&format!("path = \"tests/{suite}.rs\"")), "Cargo.toml does not list {suite}.rs");
    }
    for module in modules.iter().map(name) {
        let is_program = manifest.contains(&format!("[[test]]\nname = \"{module}\"\n\n"));
        let is_module = listed.lines().any(|line| line == format!("mod {module};"));
        assert!(is_program || is_module, "no suite_*.rs has `mod {module};`, and Cargo.toml no program of that name");
    }
    assert!(suites.len() > 3 && modules.len() > 40);
}
