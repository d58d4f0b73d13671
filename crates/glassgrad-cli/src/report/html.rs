//! The parts that pages are made of.

use crate::chart::Plot;
use crate::chart::plot::shortened;
use crate::experiment::task::Description;

pub(super) use crate::chart::escaped;

/// What pages look like: by day, by night, on paper, from the width of a telephone on.
const STYLE: &str = include_str!("style.css");

/// Nothing may be fetched or run: a page is only what it holds.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// A part of a page with a heading.
pub(super) struct Section {
    /// By which it is linked to.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) body: String,
}

/// A whole page.
pub(super) fn document(title: &str, head: &str, sections: &[Section]) -> String {
    let links: String = sections
        .iter()
        .map(|section| format!("<li><a href=\"#{}\">{}</a></li>", section.id, escaped(section.title)))
        .collect();
    let sections: String = sections
        .iter()
        .map(|Section { id, title, body }| {
            format!("<section id=\"{id}\">\n<h2>{}</h2>\n{body}\n</section>\n", escaped(title))
        })
        .collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"glassgrad {}\">\n\
         <title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n{head}\
         <nav aria-label=\"Sections\"><ul>{links}</ul></nav>\n</header>\n<main>\n{sections}</main>\n\
         <footer><p>Made by glassgrad {0}. This page needs nothing but itself.</p></footer>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        escaped(&shortened(title, 120)),
    )
}

/// Names beside values.
pub(super) fn facts(pairs: &[(&str, String)]) -> String {
    let pair = |(name, value): &(&str, String)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), name_of(value, 120))
    };
    format!("<dl class=\"facts\">{}</dl>\n", pairs.iter().map(pair).collect::<String>())
}

/// What stands first on a page: what kind it is, what it is about, and what came out, which is HTML.
pub(super) fn opening(kind: &str, about: &Description, verdict: &str) -> String {
    format!(
        "<p class=\"brand\">glassgrad · {kind}</p>\n<h1>{}</h1>\n<p class=\"about\">{}</p>\n<p class=\"verdict\">{verdict}</p>\n",
        name_of(&about.name, 80),
        name_of(&about.title, 300)
    )
}

/// A chart with a title and what its colours mean.
pub(super) fn figure(title: &str, note: &str, plot: &Plot) -> String {
    format!("<figure>{}{}{}</figure>\n", caption(title, note), plot.legend(), plot.svg())
}

/// What stands over a figure; a note may be empty.
pub(super) fn caption(title: &str, note: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!("<small>{}</small>", escaped(note)) };
    format!("<figcaption>{}{note}</figcaption>", name_of(title, 120))
}

/// A paragraph in which something is told beside the main matter.
pub(super) fn note(text: &str) -> String {
    format!("<p class=\"note\">{}</p>\n", escaped(text))
}

/// A name of other people's making: cut where it is long, and whole where one points at it.
pub(super) fn name_of(name: &str, most: usize) -> String {
    let short = shortened(name, most);
    match short == name {
        true => escaped(name),
        false => format!("<span title=\"{}\">{}</span>", escaped(&shortened(name, 400)), escaped(&short)),
    }
}

/// Something wide that is moved sideways on its own, by hand and by keys.
pub(super) fn scroll(class: &str, label: &str, inside: &str) -> String {
    let class = if class.is_empty() { "scroll".to_owned() } else { format!("scroll {class}") };
    format!("<div class=\"{class}\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{inside}</div>\n", escaped(label))
}

/// A cell of a table.
pub(super) enum Cell {
    /// Words.
    Text(String),
    /// A place in a tree of parameters.
    Path(String),
    /// A number, as it is written.
    Number(String),
    /// What is HTML already, with a class.
    Html(&'static str, String),
}

/// A table with a heading for each column.
pub(super) fn table(label: &str, headings: &[&str], rows: &[Vec<Cell>]) -> String {
    let is_number = |column: usize| rows.first().is_some_and(|row| matches!(row.get(column), Some(Cell::Number(_))));
    let heading = |(column, name): (usize, &&str)| {
        let class = if is_number(column) { " class=\"n\"" } else { "" };
        format!("<th scope=\"col\"{class}>{}</th>", escaped(name))
    };
    let cell = |cell: &Cell| match cell {
        Cell::Text(text) => format!("<td>{}</td>", name_of(text, 200)),
        Cell::Path(text) => format!("<td class=\"path\">{}</td>", name_of(text, 80)),
        Cell::Number(text) => format!("<td class=\"n\">{}</td>", escaped(text)),
        Cell::Html(class, html) => format!("<td class=\"{class}\">{html}</td>"),
    };
    let row = |row: &Vec<Cell>| format!("<tr>{}</tr>\n", row.iter().map(cell).collect::<String>());
    let table = format!(
        "<table><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table>",
        headings.iter().enumerate().map(heading).collect::<String>(),
        rows.iter().map(row).collect::<String>()
    );
    scroll("", label, &table)
}

/// A drawn graph with the colours of the page: its own would tell every other picture of the page how to look.
///
/// All graphs draw the same arrow under the same name, so that it does not matter whose arrow is found.
pub(super) fn graph(svg: &str, label: &str) -> String {
    let without_style = match (svg.find("<style>"), svg.find("</style>")) {
        (Some(begin), Some(end)) if begin < end => format!("{}{}", &svg[..begin], &svg[end + "</style>".len()..]),
        _ => svg.to_owned(),
    };
    let themed = without_style.replacen("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>", "", 1).replacen(
        "aria-label=\"\"",
        &format!("aria-label=\"{}\"", escaped(label)),
        1,
    );
    // A graph shrinks to the page as long as its text stays readable; wider ones scroll.
    let width = themed.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse::<f64>().ok());
    let fitted = match width {
        Some(width) => themed.replacen("<svg ", &format!("<svg style=\"min-width:{:.0}px\" ", 0.62 * width), 1),
        None => themed,
    };
    scroll("graph", label, &fitted)
}
