//! `glassgrad-book FOLDER` writes the book of this repository into a folder; `glassgrad-book --check` checks the links of every Markdown file.

use std::path::Path;
use std::process::ExitCode;

use glassgrad_book::book::Book;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--check"] => {
            Book::problems_of_all(&root).map(|problems| (problems, String::from("all links lead somewhere")))
        }
        [folder] if !folder.starts_with('-') => Book::read(&root).and_then(|book| {
            let pages = if book.problems().is_empty() { book.write(Path::new(folder))? } else { 0 };
            Ok((book.problems().to_vec(), format!("{folder}: {pages} pages of the book")))
        }),
        _ => {
            eprintln!("usage: glassgrad-book FOLDER | --check");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok((problems, message)) if problems.is_empty() => {
            println!("{message}");
            ExitCode::SUCCESS
        }
        Ok((problems, _)) => {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("glassgrad-book: {error}");
            ExitCode::FAILURE
        }
    }
}
