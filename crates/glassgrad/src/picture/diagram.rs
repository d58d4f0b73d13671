//! The diagram of a picture, independent of its source: cards with lines of text, edges between them, and cards with
//! a picture inside.

use std::fmt::Write as _;

/// A graph ready to be drawn. Cards stand after those from which edges come to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diagram {
    pub(crate) cards: Vec<Card>,
    pub(crate) edges: Vec<Edge>,
}

/// A box: one line below another, and perhaps a diagram inside.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    pub(crate) role: Role,
    pub(crate) lines: Vec<(Ink, String)>,
    pub(crate) inside: Option<Diagram>,
}

/// What a card stands for, which is seen by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Input,
    Inner,
    Output,
    /// Several nodes as one.
    Group,
    /// Not behind the output.
    Unreached,
}

/// The kind of a line of a card, shown by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Name,
    Value,
    Adjoint,
    Note,
}

impl Ink {
    /// What it is called in pictures and in plans.
    pub(super) fn word(self) -> &'static str {
        match self {
            Ink::Name => "name",
            Ink::Value => "value",
            Ink::Adjoint => "adjoint",
            Ink::Note => "note",
        }
    }
}

/// An arrow between cards, by their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) label: String,
    /// Whether a derivative passes.
    pub(crate) passes: bool,
}

impl Diagram {
    /// The cards, also those inside of others.
    pub(super) fn size(&self) -> usize {
        self.cards.iter().map(|card| 1 + card.inside.as_ref().map_or(0, Diagram::size)).sum()
    }

    /// The diagram in the DOT language of Graphviz; diagrams inside of cards are clusters.
    pub(crate) fn dot(&self) -> String {
        let mut dot = String::from(
            "digraph glassgrad {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n",
        );
        self.write_dot(&mut dot, "n", "  ");
        dot + "}\n"
    }

    fn write_dot(&self, dot: &mut String, prefix: &str, indent: &str) {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        for (number, card) in self.cards.iter().enumerate() {
            let lines: Vec<String> = card.lines.iter().map(|(_, line)| line.clone()).collect();
            // A line break of DOT is written with a backslash, which is no part of the text.
            let label = quoted(&lines.join("\n")).replace('\n', "\\n");
            let Some(inside) = &card.inside else {
                let _ = writeln!(dot, "{indent}{prefix}{number} [label={label}];");
                continue;
            };
            let _ = writeln!(dot, "{indent}subgraph cluster_{prefix}{number} {{");
            let _ = writeln!(dot, "{indent}  {prefix}{number} [label={label}, shape=plaintext];");
            inside.write_dot(dot, &format!("{prefix}{number}_"), &format!("{indent}  "));
            let _ = writeln!(dot, "{indent}}}");
        }
        for Edge { from, to, label, passes } in &self.edges {
            let labelled = (!label.is_empty()).then(|| format!("label={}", quoted(label)));
            let pale = if *passes { None } else { Some("style=dashed, color=gray".to_owned()) };
            let attributes: Vec<String> = pale.into_iter().chain(labelled).collect();
            let attributes =
                if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
            let _ = writeln!(dot, "{indent}{prefix}{from} -> {prefix}{to}{attributes};");
        }
    }
}
