//! The table of contents.

use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};

/// A line of the table of contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The title of a part.
    Part(String),
    /// A chapter: its title, and its path as the table of contents writes it.
    Chapter(String, String),
}

/// The entries, in their order. The first heading is the title of the table itself.
#[must_use]
pub fn read(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let (mut title, mut path, mut is_part) = (String::new(), None, false);
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                is_part = level == HeadingLevel::H2;
                title.clear();
            }
            Event::End(TagEnd::Heading(_)) if is_part => entries.push(Entry::Part(title.clone())),
            Event::Start(Tag::Link { dest_url, .. }) => {
                title.clear();
                path = Some(dest_url.to_string());
            }
            Event::End(TagEnd::Link) => {
                if let Some(path) = path.take() {
                    entries.push(Entry::Chapter(title.clone(), path));
                }
            }
            Event::Text(text) | Event::Code(text) => title.push_str(&text),
            _ => {}
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::{Entry, read};

    #[test]
    fn parts_and_chapters_in_their_order() {
        let entries = read("# Summary\n\n- [First](a.md)\n\n## Part `one`\n\n- [Second, of *two*](../docs/b.md)\n");
        let chapter = |title: &str, path: &str| Entry::Chapter(title.into(), path.into());
        assert_eq!(
            entries,
            [chapter("First", "a.md"), Entry::Part("Part one".into()), chapter("Second, of two", "../docs/b.md")]
        );
    }
}
