//! Every link of every Markdown file of the repository leads to a file and a heading, and the book has what it promises.

use std::path::Path;

use glassgrad_book::book::Book;
use glassgrad_book::markdown::{blocks, headings};

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let problems = Book::problems_of_all(&root()).expect("the repository can be read");
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn the_book_is_written_without_problems() {
    let book = Book::read(&root()).expect("the book can be read");
    assert!(book.problems().is_empty(), "{:#?}", book.problems());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book");
    let pages = book.write(&folder).expect("the book can be written");
    assert!(pages > 40, "{pages} pages");
    let first = std::fs::read_to_string(folder.join("introduction.html")).expect("an introduction");
    assert!(first.contains("<h1 id=") && !first.contains("](") && first.contains("rel=\"next\""));
}

/// Every recipe has a snippet or a command.
#[test]
fn there_are_fifty_recipes() {
    let text = std::fs::read_to_string(root().join("book/recipes.md")).expect("recipes");
    let recipes = headings(&text).iter().filter(|heading| heading.level == 3).count();
    assert!(recipes >= 50, "{recipes} recipes");
    let mut parts = text.split("\n### ");
    parts.next();
    for recipe in parts {
        assert!(!blocks(recipe).is_empty(), "this recipe has no code: {}", recipe.lines().next().unwrap_or_default());
    }
}

/// Chapters with Rust in them are documentation tests of this crate.
#[test]
fn every_chapter_with_snippets_is_tested() {
    let library = std::fs::read_to_string(root().join("crates/glassgrad-book/src/lib.rs")).expect("the library");
    for entry in std::fs::read_dir(root().join("book")).expect("the folder of the book") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        if !name.ends_with(".md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a chapter");
        let has_code = blocks(&text).iter().any(|(kind, _)| kind.starts_with("rust"));
        assert!(!has_code || library.contains(&format!("\"{name}\"")), "the snippets of {name} are not run");
    }
}
