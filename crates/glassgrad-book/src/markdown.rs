//! One page: Markdown to HTML, with its headings, its links and its figures.

use std::collections::HashMap;
use std::fmt::Write as _;

use pulldown_cmark::{Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// A heading, with the anchor by which links name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// 1 for the title of the page.
    pub level: u8,
    /// As text.
    pub text: String,
    /// The part of an address behind `#`.
    pub anchor: String,
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH)
}

/// The anchor of a heading as code hosts make it, so that links hold there too: lower case, without punctuation, hyphens for spaces; a number
/// where a heading is repeated.
fn anchor(text: &str, seen: &mut HashMap<String, u32>) -> String {
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    let own: String = kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect();
    let count = seen.entry(own.clone()).and_modify(|count| *count += 1).or_insert(0);
    if *count == 0 { own } else { format!("{own}-{count}") }
}

/// The headings of a page.
#[must_use]
pub fn headings(text: &str) -> Vec<Heading> {
    let (mut found, mut seen, mut open) = (Vec::new(), HashMap::new(), None);
    for event in parser(text) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => open = Some((level as u8, String::new())),
            Event::Text(part) | Event::Code(part) => {
                if let Some((_, text)) = &mut open {
                    text.push_str(&part);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                if let Some((level, text)) = open.take() {
                    found.push(Heading { level, anchor: anchor(&text, &mut seen), text });
                }
            }
            _ => {}
        }
    }
    found
}

/// The addresses of all links and pictures of a page, as they are written.
#[must_use]
pub fn links(text: &str) -> Vec<String> {
    let found = parser(text).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    });
    found.collect()
}

/// A figure: a view of the studio, with what it shows. It is a code block named `studio` whose first line is the hash of the studio's address, and
/// whose other lines are the caption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Such as `#/explore?e=x%5E2`.
    pub hash: String,
    /// One sentence.
    pub caption: String,
}

impl Figure {
    fn read(block: &str) -> Figure {
        let (hash, caption) = block.trim().split_once('\n').unwrap_or((block.trim(), ""));
        Figure { hash: hash.trim().into(), caption: caption.replace('\n', " ").trim().into() }
    }

    /// The page of the studio that it shows.
    #[must_use]
    pub fn page(&self) -> &str {
        self.hash.trim_start_matches("#/").split('?').next().unwrap_or_default()
    }

    /// The studio in a frame, which is loaded when it comes into sight, and a link to it for the whole window.
    fn html(&self) -> String {
        let (hash, caption) = (escaped(&self.hash), escaped(&self.caption));
        let joint = if self.hash.contains('?') { "&amp;" } else { "?" };
        format!(
            "<figure class=\"live\"><iframe loading=\"lazy\" title=\"{caption}\" src=\"../index.html{hash}{joint}embed=1\"></iframe>\
             <figcaption>{caption} <a href=\"../index.html{hash}\">Open in the studio</a></figcaption></figure>\n"
        )
    }
}

/// The figures of a page.
#[must_use]
pub fn figures(text: &str) -> Vec<Figure> {
    blocks(text).into_iter().filter(|(kind, _)| kind == "studio").map(|(_, body)| Figure::read(&body)).collect()
}

/// The fenced code blocks of a page: the information string, and the text.
#[must_use]
pub fn blocks(text: &str) -> Vec<(String, String)> {
    let (mut found, mut open) = (Vec::new(), None);
    for event in parser(text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) => open = Some((kind.to_string(), String::new())),
            Event::Text(part) => {
                if let Some((_, body)) = &mut open {
                    body.push_str(&part);
                }
            }
            Event::End(TagEnd::CodeBlock) => found.extend(open.take()),
            _ => {}
        }
    }
    found
}

/// Text as it stands in HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A snippet without the lines that documentation tests need and readers do not: those that begin with `#` and a space.
fn shown(kind: &str, body: &str) -> String {
    let is_rust = kind == "rust" || kind.starts_with("rust,");
    let kept = body.lines().filter(|line| !is_rust || !(line.trim_start().starts_with("# ") || line.trim() == "#"));
    kept.fold(String::new(), |mut all, line| {
        all.push_str(line);
        all.push('\n');
        all
    })
}

/// The page as HTML; `place` says where a link or a picture leads in the site, or that it leads nowhere.
pub fn render(text: &str, place: impl Fn(&str) -> Option<String>) -> String {
    let mut anchors = headings(text).into_iter().map(|heading| heading.anchor);
    let mut events: Vec<Event<'_>> = Vec::new();
    let mut block: Option<(String, String)> = None;
    // Links that lead nowhere are their texts.
    let mut dropped = Vec::new();
    for event in parser(text) {
        if let Some((_, body)) = &mut block
            && let Event::Text(part) = &event
        {
            body.push_str(part);
            continue;
        }
        match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let id = anchors.next().map(CowStr::from);
                events.push(Event::Start(Tag::Heading { level, id, classes, attrs }));
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let kind = match kind {
                    CodeBlockKind::Fenced(kind) => kind.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                block = Some((kind, String::new()));
            }
            Event::End(TagEnd::CodeBlock) => {
                let (kind, body) = block.take().expect("a code block that ends has begun");
                let html = match kind.as_str() {
                    "studio" => Figure::read(&body).html(),
                    _ => format!(
                        "<pre tabindex=\"0\"><code class=\"{}\">{}</code></pre>\n",
                        escaped(kind.split(',').next().unwrap_or_default()),
                        escaped(&shown(&kind, &body))
                    ),
                };
                events.push(Event::Html(html.into()));
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => match place(&dest_url) {
                Some(own) => {
                    dropped.push(false);
                    events.push(Event::Start(Tag::Link { link_type, dest_url: own.into(), title, id }));
                }
                None => dropped.push(true),
            },
            Event::End(TagEnd::Link) => {
                if dropped.pop() == Some(false) {
                    events.push(Event::End(TagEnd::Link));
                }
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let own = place(&dest_url).unwrap_or_else(|| dest_url.to_string());
                events.push(Event::Start(Tag::Image { link_type, dest_url: own.into(), title, id }));
            }
            // Tables scroll on narrow screens. Alignments would be inline styles, which the policy of the pages forbids.
            Event::Start(Tag::Table(alignments)) => {
                events.push(Event::Html("<div class=\"scroll\" tabindex=\"0\">".into()));
                events.push(Event::Start(Tag::Table(vec![Alignment::None; alignments.len()])));
            }
            Event::End(TagEnd::Table) => {
                events.push(Event::End(TagEnd::Table));
                events.push(Event::Html("</div>".into()));
            }
            other => events.push(other),
        }
    }
    let mut out = String::new();
    html::push_html(&mut out, events.into_iter());
    out
}

/// A source file as a page of its own.
#[must_use]
pub fn source(path: &str, text: &str) -> String {
    let mut out = format!("<h1>{}</h1>\n<pre tabindex=\"0\"><code>", escaped(path));
    let _ = writeln!(out, "{}</code></pre>", escaped(text));
    out
}

/// The title of a page.
#[must_use]
pub fn title(text: &str) -> Option<String> {
    headings(text).into_iter().find(|heading| heading.level == HeadingLevel::H1 as u8).map(|heading| heading.text)
}

#[cfg(test)]
mod tests {
    use super::{Figure, figures, headings, links, render};

    #[test]
    fn anchors_are_those_of_code_hosts() {
        let found = headings("# Who may ask?\n\n## `2x`, and |x|\n\n## Steps\n\n## Steps\n");
        let anchors: Vec<&str> = found.iter().map(|heading| heading.anchor.as_str()).collect();
        assert_eq!(anchors, ["who-may-ask", "2x-and-x", "steps", "steps-1"]);
    }

    #[test]
    fn links_lead_where_they_are_placed_or_are_their_texts() {
        let text = "See [one](a.md#b) and [two](c.md).\n\n![p](p.png)\n";
        assert_eq!(links(text), ["a.md#b", "c.md", "p.png"]);
        let page = render(text, |link| (link != "c.md").then(|| format!("there/{link}")));
        assert!(page.contains("<a href=\"there/a.md#b\">one</a> and two."), "{page}");
        assert!(page.contains("src=\"there/p.png\""), "{page}");
    }

    #[test]
    fn tables_have_no_inline_styles() {
        let page = render("| a | b |\n|---:|:---|\n| 1 | 2 |\n", |link| Some(link.into()));
        assert!(page.contains("<td>1</td>") && !page.contains("style"), "{page}");
    }

    #[test]
    fn figures_are_frames_and_hidden_lines_are_hidden() {
        let text = "```studio\n#/explore?e=x\nA line,\nin two.\n```\n\n```rust\n# use a::b;\nlet x = \"<\";\n```\n";
        assert_eq!(figures(text), [Figure { hash: "#/explore?e=x".into(), caption: "A line, in two.".into() }]);
        let page = render(text, |link| Some(link.into()));
        assert!(page.contains("src=\"../index.html#/explore?e=x&amp;embed=1\""), "{page}");
        assert!(page.contains("let x = &quot;&lt;&quot;;") && !page.contains("use a::b"), "{page}");
    }
}
