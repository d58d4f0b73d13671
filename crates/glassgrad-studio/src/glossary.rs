//! The glossary of the documentation, for the page and its tooltips.

use serde_json::{Value, json};

/// The page of the documentation: a heading for each term, one sentence, and a link to the source.
const PAGE: &str = include_str!("../../../docs/glossary.md");

/// The terms with their sentences and the files that compute them.
pub(crate) fn as_json() -> Value {
    let term = |section: &str| {
        let (term, text) = section.split_once('\n')?;
        let (text, link) = text.trim().rsplit_once(" [Source](../")?;
        Some(json!({ "term": term.trim(), "text": text, "source": link.trim_end_matches(')') }))
    };
    json!({ "terms": PAGE.split("\n## ").skip(1).filter_map(term).collect::<Vec<Value>>() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::experiment::settings;

    fn terms() -> Vec<(String, String, String)> {
        let list = as_json()["terms"].as_array().cloned().expect("terms");
        let text = |term: &Value, field: &str| term[field].as_str().expect("a text").to_owned();
        list.iter().map(|term| (text(term, "term"), text(term, "text"), text(term, "source"))).collect()
    }

    #[test]
    fn every_term_has_one_sentence_and_a_source_that_exists() {
        let terms = terms();
        assert_eq!(terms.len(), PAGE.matches("\n## ").count(), "a section cannot be read");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (term, text, source) in &terms {
            assert!(text.ends_with('.') && !text.trim_end_matches('.').contains(". "), "{term}: {text}");
            assert!(root.join(source).is_file(), "{term}: there is no {source}");
        }
        let sorted: BTreeSet<String> = terms.iter().map(|(term, ..)| term.to_lowercase()).collect();
        let names: Vec<String> = terms.iter().map(|(term, ..)| term.to_lowercase()).collect();
        assert_eq!(names, sorted.into_iter().collect::<Vec<String>>(), "terms are sorted and distinct");
    }

    /// The words in quotes behind a mark.
    fn marked<'t>(text: &'t str, mark: &'t str) -> impl Iterator<Item = &'t str> {
        text.split(mark).skip(1).filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn every_tooltip_of_the_page_has_a_term() {
        let known: BTreeSet<String> = terms().into_iter().map(|(term, ..)| term).collect();
        let page = include_str!("../page/index.html");
        let views = include_str!("../page/js/train/views.js");
        let inside = include_str!("../page/js/train/inside.js");
        let titles =
            views.split("export const VIEWS = {").nth(1).and_then(|text| text.split("};").next()).expect("views");
        let tabs = inside.split("const TABS = {").nth(1).and_then(|text| text.split("};").next()).expect("tabs");
        let tooltips: Vec<&str> = marked(page, "data-term=\"").chain(marked(titles, "[\"")).collect();
        assert!(tooltips.len() > 12, "{tooltips:?}");
        for term in &tooltips {
            assert!(known.contains(*term), "docs/glossary.md does not explain {term:?}");
        }
        for tab in marked(tabs, ": \"").filter(|tab| *tab != "Example") {
            assert!(known.contains(tab), "docs/glossary.md does not explain {tab:?}");
        }
        // Settings whose help says all there is to say.
        let plain = [
            "Examples",
            "Noise",
            "Function",
            "Target column",
            "Target type",
            "Dropped columns",
            "Missing values",
            "Delimiter",
            "Decimal mark",
            "Header",
        ];
        for field in settings::form().as_array().expect("fields") {
            let title = field["title"].as_str().expect("a title");
            assert!(known.contains(title) != plain.contains(&title), "docs/glossary.md does not explain {title:?}");
        }
    }
}
