//! All pages of the book: what belongs to it, where each page is in the site, and what is wrong with its links.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use crate::markdown::{self, escaped};
use crate::summary::{self, Entry};

/// The pages of the studio that figures can show.
pub const STUDIO_PAGES: [&str; 9] =
    ["explore", "matrix", "train", "paths", "compare", "draw", "tour", "gallery", "glossary"];

/// A file of the repository that is part of the book.
enum Page {
    Markdown(String),
    Source(String),
    Picture,
}

/// The book, read.
pub struct Book {
    root: PathBuf,
    contents: Vec<Entry>,
    /// By path in the repository.
    pages: BTreeMap<String, Page>,
    problems: Vec<String>,
}

/// A path without `.` and `..`, or `None` where it leads out of the repository.
fn normal(path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// A link from a page: the path in the repository, which is the page itself where a link has only an anchor, and the anchor.
fn target(from: &str, link: &str) -> Option<(String, Option<String>)> {
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (link, None),
    };
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    let path = if path.is_empty() { from.to_owned() } else { normal(&folder.join(path))? };
    Some((path, anchor))
}

fn is_external(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:")
}

/// The name of a page in the site: chapters by their own names, other files by their paths.
fn file_name(path: &str) -> String {
    let own = path.strip_prefix("book/").unwrap_or(path);
    match own.rsplit_once('.') {
        Some((stem, "md")) => format!("{}.html", stem.replace('/', "-").to_lowercase()),
        Some((_, "png" | "svg" | "jpg" | "webp")) => own.replace('/', "-"),
        _ => format!("{}.html", own.replace('/', "-")),
    }
}

impl Book {
    /// Reads the book of a repository, with everything that its pages link to.
    ///
    /// # Errors
    /// If the table of contents cannot be read; what is wrong with pages is in [`problems`](Book::problems).
    pub fn read(root: &Path) -> io::Result<Book> {
        let contents = summary::read(&fs::read_to_string(root.join("book/SUMMARY.md"))?);
        let mut book = Book { root: root.to_owned(), contents, pages: BTreeMap::new(), problems: Vec::new() };
        let chapters: Vec<String> = book
            .contents
            .iter()
            .filter_map(|entry| match entry {
                Entry::Chapter(_, path) => Some(path.clone()),
                Entry::Part(_) => None,
            })
            .collect();
        for path in chapters {
            match target("book/SUMMARY.md", &path) {
                Some((path, _)) => book.add(&path, "book/SUMMARY.md"),
                None => book.problems.push(format!("book/SUMMARY.md: {path} leads out of the repository")),
            }
        }
        book.check_anchors();
        book.check_figures();
        Ok(book)
    }

    /// Adds a file, and what it links to, unless it is there. Folders stay texts.
    fn add(&mut self, path: &str, from: &str) {
        let mut waiting = vec![(path.to_owned(), from.to_owned())];
        while let Some((path, from)) = waiting.pop() {
            if self.pages.contains_key(&path) || self.root.join(&path).is_dir() {
                continue;
            }
            let file = self.root.join(&path);
            let page = match path.rsplit('.').next() {
                Some("md") => fs::read_to_string(&file).map(Page::Markdown),
                Some("png" | "svg" | "jpg" | "webp") => fs::metadata(&file).map(|_| Page::Picture),
                _ => fs::read_to_string(&file).map(Page::Source),
            };
            match page {
                Err(error) => self.problems.push(format!("{from}: there is no {path} ({error})")),
                Ok(page) => {
                    if let Page::Markdown(text) = &page {
                        for link in markdown::links(text).into_iter().filter(|link| !is_external(link)) {
                            match target(&path, &link) {
                                Some((to, _)) => waiting.push((to, path.clone())),
                                None => self.problems.push(format!("{path}: {link} leads out of the repository")),
                            }
                        }
                    }
                    self.pages.insert(path, page);
                }
            }
        }
    }

    fn check_anchors(&mut self) {
        let anchors: BTreeMap<&String, Vec<String>> = self
            .pages
            .iter()
            .filter_map(|(path, page)| match page {
                Page::Markdown(text) => {
                    Some((path, markdown::headings(text).into_iter().map(|heading| heading.anchor).collect()))
                }
                Page::Source(_) | Page::Picture => None,
            })
            .collect();
        let mut problems = Vec::new();
        for (path, page) in &self.pages {
            let Page::Markdown(text) = page else { continue };
            for link in markdown::links(text).into_iter().filter(|link| !is_external(link)) {
                let Some((to, Some(anchor))) = target(path, &link) else { continue };
                if anchors.get(&to).is_some_and(|own| !own.contains(&anchor)) {
                    problems.push(format!("{path}: {to} has no heading #{anchor}"));
                }
            }
        }
        self.problems.extend(problems);
    }

    fn check_figures(&mut self) {
        let mut problems = Vec::new();
        for (path, page) in &self.pages {
            let Page::Markdown(text) = page else { continue };
            for figure in markdown::figures(text) {
                if !figure.hash.starts_with("#/") || !STUDIO_PAGES.contains(&figure.page()) {
                    problems.push(format!("{path}: the studio has no page {}", figure.hash));
                }
                if figure.caption.is_empty() {
                    problems.push(format!("{path}: the figure {} has no caption", figure.hash));
                }
            }
        }
        self.problems.extend(problems);
    }

    /// What is wrong: files and headings that are not there, figures of unknown pages.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Adds every Markdown file of the repository outside of folders of build outputs to what is checked; they do not become pages.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn problems_of_all(root: &Path) -> io::Result<Vec<String>> {
        let mut book = Book::read(root)?;
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root.join(&folder))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = folder.join(&name);
                if entry.file_type()?.is_dir() {
                    if !name.starts_with('.') && !["target", "node_modules"].contains(&name.as_str()) {
                        folders.push(path);
                    }
                } else if name.ends_with(".md")
                    && let Some(path) = normal(&path)
                {
                    book.add(&path, "the repository");
                }
            }
        }
        book.problems.clear();
        let pages: Vec<String> = book.pages.keys().cloned().collect();
        for path in pages {
            let Some(Page::Markdown(text)) = book.pages.get(&path) else { continue };
            for link in markdown::links(text).into_iter().filter(|link| !is_external(link)) {
                let exists = target(&path, &link).is_some_and(|(to, _)| root.join(to).exists());
                if !exists {
                    book.problems.push(format!("{path}: {link} leads to no file"));
                }
            }
        }
        book.check_anchors();
        book.check_figures();
        Ok(book.problems)
    }

    /// The figures of all chapters, for tests in a browser.
    #[must_use]
    pub fn figures(&self) -> Vec<(String, markdown::Figure)> {
        let figures = self.pages.iter().flat_map(|(path, page)| match page {
            Page::Markdown(text) => markdown::figures(text).into_iter().map(|own| (path.clone(), own)).collect(),
            Page::Source(_) | Page::Picture => Vec::new(),
        });
        figures.collect()
    }

    /// The chapters: title and path, in their order.
    fn chapters(&self) -> Vec<(&str, String)> {
        let own = self.contents.iter().filter_map(|entry| match entry {
            Entry::Chapter(title, path) => Some((title.as_str(), target("book/SUMMARY.md", path)?.0)),
            Entry::Part(_) => None,
        });
        own.collect()
    }

    /// Where a link of a page leads in the site.
    fn place(&self, from: &str, link: &str) -> Option<String> {
        if is_external(link) {
            return Some(link.to_owned());
        }
        let (path, anchor) = target(from, link)?;
        self.pages.get(&path)?;
        let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
        Some(format!("{}{anchor}", file_name(&path)))
    }

    fn navigation(&self, now: &str) -> String {
        let mut out = String::from("<nav class=\"contents\" aria-label=\"Chapters\">\n<ol>\n");
        let mut number = 0;
        for entry in &self.contents {
            match entry {
                Entry::Part(title) => {
                    let _ = writeln!(out, "<li class=\"part\">{}</li>", escaped(title));
                }
                Entry::Chapter(title, path) => {
                    number += 1;
                    let Some((path, _)) = target("book/SUMMARY.md", path) else { continue };
                    let current = if path == now { " aria-current=\"page\"" } else { "" };
                    let _ = writeln!(
                        out,
                        "<li><a href=\"{}\"{current}><span>{number}</span> {}</a></li>",
                        file_name(&path),
                        escaped(title)
                    );
                }
            }
        }
        out.push_str("</ol>\n</nav>\n");
        out
    }

    /// The sections of a page, where it has several.
    fn sections(text: &str) -> String {
        let own: Vec<markdown::Heading> = markdown::headings(text).into_iter().filter(|own| own.level == 2).collect();
        if own.len() < 3 {
            return String::new();
        }
        let items: String =
            own.iter().map(|own| format!("<li><a href=\"#{}\">{}</a></li>", own.anchor, escaped(&own.text))).collect();
        format!("<details class=\"sections\"><summary>On this page</summary><ul>{items}</ul></details>\n")
    }

    fn page(&self, path: &str, title: &str, content: &str, text: Option<&str>) -> String {
        let chapters = self.chapters();
        let at = chapters.iter().position(|(_, own)| own == path);
        let turn = |to: Option<usize>, name: &str, mark: &str| {
            let Some((title, path)) = to.and_then(|to| chapters.get(to)) else { return String::from("<span></span>") };
            let rel = name.to_lowercase();
            format!("<a rel=\"{rel}\" href=\"{}\">{mark} {name}: {}</a>", file_name(path), escaped(title))
        };
        let next = at.map_or_else(
            || String::from("<a href=\"introduction.html\">To the book</a>"),
            |at| format!("{}{}", turn(at.checked_sub(1), "Previous", "‹"), turn(Some(at + 1), "Next", "›")),
        );
        let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'";
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{} · The Glassgrad book</title>\n<link rel=\"icon\" href=\"../icon.svg\" type=\"image/svg+xml\">\n\
             <link rel=\"stylesheet\" href=\"../css/studio.css\">\n<link rel=\"stylesheet\" href=\"book.css\">\n<script src=\"../js/theme.js\"></script>\n</head>\n<body class=\"book\">\n\
             <a class=\"skip\" href=\"#main\">Skip to the page</a>\n<header class=\"bar\">\n<a class=\"brand\" href=\"introduction.html\"><img src=\"../icon.svg\" alt=\"\" width=\"26\" height=\"26\"><span>Glassgrad <b>book</b></span></a>\n\
             <nav aria-label=\"Site\"><a href=\"../index.html\">Studio</a></nav>\n<button id=\"theme\" type=\"button\" class=\"quiet\">Theme: system</button>\n</header>\n\
             <div class=\"spread\">\n<details class=\"drawer\"><summary>Chapters</summary>\n{}</details>\n<aside class=\"beside\">\n{}</aside>\n\
             <main id=\"main\" tabindex=\"-1\">\n<article>\n{}{content}</article>\n<div class=\"turn\">{next}</div>\n</main>\n</div>\n</body>\n</html>\n",
            escaped(title),
            self.navigation(path),
            self.navigation(path),
            text.map(Book::sections).unwrap_or_default(),
        )
    }

    /// Writes the book into a folder: a file for each page, pictures, and the style.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn write(&self, folder: &Path) -> io::Result<usize> {
        fs::create_dir_all(folder)?;
        let titles: BTreeMap<String, &str> = self.chapters().into_iter().map(|(title, path)| (path, title)).collect();
        for (path, page) in &self.pages {
            let file = folder.join(file_name(path));
            match page {
                Page::Picture => {
                    fs::copy(self.root.join(path), file)?;
                }
                Page::Source(text) => fs::write(file, self.page(path, path, &markdown::source(path, text), None))?,
                Page::Markdown(text) => {
                    let content = markdown::render(text, |link| self.place(path, link));
                    let own = markdown::title(text);
                    let title = titles.get(path).copied().or(own.as_deref()).unwrap_or(path);
                    fs::write(file, self.page(path, title, &content, Some(text)))?;
                }
            }
        }
        fs::copy(self.root.join("book/book.css"), folder.join("book.css"))?;
        Ok(self.pages.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{file_name, target};

    #[test]
    fn links_are_relative_to_their_page() {
        assert_eq!(target("docs/a.md", "../book/b.md#c"), Some(("book/b.md".into(), Some("c".into()))));
        assert_eq!(target("docs/a.md", "#c"), Some(("docs/a.md".into(), Some("c".into()))));
        assert_eq!(target("docs/a.md", "../../b.md"), None);
    }

    #[test]
    fn names_in_the_site() {
        assert_eq!(file_name("book/chain-rule.md"), "chain-rule.html");
        assert_eq!(file_name("docs/decisions/0001-rows.md"), "docs-decisions-0001-rows.html");
        assert_eq!(file_name("docs/studio.png"), "docs-studio.png");
        assert_eq!(file_name("crates/x/examples/31_a.rs"), "crates-x-examples-31_a.rs.html");
        assert_eq!(file_name("README.md"), "readme.html");
    }
}
