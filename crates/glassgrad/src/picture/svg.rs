//! Drawing a laid-out graph.

use std::fmt::{self, Write as _};

use super::diagram::{Card, Diagram, Edge, Role};
use super::layout::{Layout, LayoutGraph, Spacing, layered};
use super::visible_width;

/// The largest graph that is drawn; a larger one could not be read.
pub const LARGEST_PICTURE: usize = 1000;

const FONT: f64 = 13.0;
const CHARACTER: f64 = 7.6;
const LINE: f64 = 17.0;
/// Above and below the lines of a box, together, and between one box and the next.
const PADDING: f64 = 7.0;
const BETWEEN: f64 = 34.0;
const SPACING: Spacing = Spacing { row: 92.0, gap: 110.0, margin: 24.0 };
const UNLABELLED_GAP: f64 = 48.0;
const TITLE_HEIGHT: f64 = 30.0;
/// How far the baseline stands below the middle of a line; not all renderers can centre by themselves.
const BASELINE: f64 = 4.5;

/// Why a graph was not drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// How many nodes it has.
    pub nodes: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the graph has {} nodes, and a picture of more than {LARGEST_PICTURE} cannot be read; take text, DOT or JSON",
            self.nodes
        )
    }
}

impl std::error::Error for TooLarge {}

impl Diagram {
    /// The diagram as an SVG picture.
    pub(crate) fn svg(&self, title: &str) -> Result<String, TooLarge> {
        let nodes = self.size();
        if nodes > LARGEST_PICTURE {
            return Err(TooLarge { nodes });
        }
        let placed = Placed::new(self);
        let title_width = visible_width(title) as f64 * CHARACTER + 2.0 * SPACING.margin;
        let (width, height) = (placed.layout.width.max(title_width), placed.layout.height + TITLE_HEIGHT);
        let mut svg = header(width, height, title);
        placed.draw(&mut svg, (0.0, 0.0));
        svg += "</g>\n</svg>\n";
        Ok(svg)
    }
}

/// A diagram with places for its cards, and the diagrams inside of them with places for theirs.
pub(super) struct Placed<'d> {
    pub(super) diagram: &'d Diagram,
    inside: Vec<Option<Placed<'d>>>,
    pub(super) sizes: Vec<(f64, f64)>,
    pub(super) layout: Layout,
}

impl<'d> Placed<'d> {
    pub(super) fn new(diagram: &'d Diagram) -> Placed<'d> {
        let inside: Vec<Option<Placed<'d>>> =
            diagram.cards.iter().map(|card| card.inside.as_ref().map(Placed::new)).collect();
        let size = |(card, inside): (&Card, &Option<Placed<'_>>)| {
            let widest = card.lines.iter().map(|(_, line)| visible_width(line)).max().unwrap_or(0);
            let (width, height) =
                inside.as_ref().map_or((0.0, 0.0), |placed| (placed.layout.width, placed.layout.height));
            let text = (widest as f64 * CHARACTER + 24.0, card.lines.len() as f64 * LINE + PADDING);
            (text.0.max(width), text.1 + height)
        };
        let sizes: Vec<(f64, f64)> = diagram.cards.iter().zip(&inside).map(size).collect();
        let graph = LayoutGraph {
            widths: sizes.iter().map(|(width, _)| *width).collect(),
            rows: sizes.iter().map(|(_, height)| (height + BETWEEN) / SPACING.row).collect(),
            edges: diagram.edges.iter().map(|edge| (edge.from, edge.to)).collect(),
        };
        // Labels need room to stand in.
        let labelled = diagram.edges.iter().any(|edge| !edge.label.is_empty());
        let spacing = if labelled { SPACING } else { Spacing { gap: UNLABELLED_GAP, ..SPACING } };
        Placed { diagram, inside, sizes, layout: layered(&graph, &spacing) }
    }

    fn draw(&self, svg: &mut String, (x, y): (f64, f64)) {
        let moved = |(a, b): &(f64, f64)| (a + x, b + y);
        for (edge, path) in self.diagram.edges.iter().zip(&self.layout.paths) {
            let ends = (self.sizes[edge.from].0 / 2.0, self.sizes[edge.to].0 / 2.0);
            draw_edge(svg, &path.iter().map(moved).collect::<Vec<_>>(), ends, edge);
        }
        for (number, card) in self.diagram.cards.iter().enumerate() {
            let (centre, (width, height)) = (moved(&self.layout.centres[number]), self.sizes[number]);
            draw_card(svg, centre, (width, height), card);
            if let Some((inside, corner)) = self.inside_of(number) {
                inside.draw(svg, moved(&corner));
            }
        }
    }

    /// The diagram inside of a card, and the place of its upper left corner: at the bottom of the card.
    pub(super) fn inside_of(&self, number: usize) -> Option<(&Placed<'d>, (f64, f64))> {
        let inside = self.inside[number].as_ref()?;
        let ((x, y), (_, height)) = (self.layout.centres[number], self.sizes[number]);
        Some((inside, (x - inside.layout.width / 2.0, y + height / 2.0 - inside.layout.height)))
    }
}

fn header(width: f64, height: f64, title: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"{FONT}\" role=\"img\" aria-label=\"{title}\">\n\
         <style>\n\
         .box {{ fill: #ffffff; stroke: #475569; stroke-width: 1.4; }}\n\
         .input {{ fill: #e0f2fe; stroke: #0369a1; }}\n\
         .output {{ fill: #dcfce7; stroke: #15803d; }}\n\
         .group {{ fill: #fef9c3; stroke: #a16207; }}\n\
         .unreached {{ fill: #f8fafc; stroke: #cbd5e1; }}\n\
         .edge {{ fill: none; stroke: #64748b; stroke-width: 1.4; }}\n\
         .pale {{ stroke: #cbd5e1; stroke-dasharray: 5 4; }}\n\
         .name {{ fill: #0f172a; font-weight: 600; }}\n\
         .value {{ fill: #0f172a; }}\n\
         .adjoint {{ fill: #b91c1c; }}\n\
         .note {{ fill: #64748b; font-size: 11px; }}\n\
         .partial {{ fill: #6d28d9; font-size: 12px; paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }}\n\
         text {{ text-anchor: middle; }}\n\
         </style>\n\
         <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path d=\"M0 0 L8 4 L0 8 z\" fill=\"#64748b\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text class=\"name\" x=\"{:.1}\" y=\"22\">{title}</text>\n\
         <g transform=\"translate(0 {TITLE_HEIGHT})\">\n",
        width / 2.0
    )
}

fn draw_card(svg: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), card: &Card) {
    let class = match card.role {
        Role::Input => "box input",
        Role::Inner => "box",
        Role::Output => "box output",
        Role::Group => "box group",
        Role::Unreached => "box unreached",
    };
    let (left, top) = (x - width / 2.0, y - height / 2.0);
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height}\" rx=\"8\"/>"
    );
    for (number, (ink, line)) in card.lines.iter().enumerate() {
        let class = ink.word();
        let middle = top + PADDING / 2.0 + LINE * (number as f64 + 0.5);
        let _ = writeln!(
            svg,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            middle + BASELINE,
            escaped(line)
        );
    }
}

fn draw_edge(svg: &mut String, path: &[(f64, f64)], ends: (f64, f64), edge: &Edge) {
    let drawn = Drawn::new(path, ends);
    let line = &drawn.line;
    let class = if edge.passes { "edge" } else { "edge pale" };
    let _ = writeln!(svg, "<path class=\"{class}\" d=\"{line}\" marker-end=\"url(#arrow)\"/>");
    if edge.label.is_empty() {
        return;
    }
    let (x, y) = (drawn.label.0, drawn.label.1 + BASELINE);
    let _ = writeln!(svg, "<text class=\"partial\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(&edge.label));
}

/// The line of an edge in the language of SVG, and the middle of its label.
pub(super) struct Drawn {
    pub(super) line: String,
    pub(super) label: (f64, f64),
}

impl Drawn {
    /// The line along a path between two boxes of which the half widths are given.
    pub(super) fn new(path: &[(f64, f64)], ends: (f64, f64)) -> Drawn {
        let mut points = path.to_vec();
        let last = points.len() - 1;
        points[0].0 += ends.0;
        points[last].0 -= ends.1;
        let mut line = format!("M{:.1} {:.1}", points[0].0, points[0].1);
        for pair in points.windows(2) {
            let [(x1, y1), (x2, y2)] = [pair[0], pair[1]];
            let middle = (x1 + x2) / 2.0;
            let _ = write!(line, " C{middle:.1} {y1:.1} {middle:.1} {y2:.1} {x2:.1} {y2:.1}");
        }
        // In the middle of the last stretch, edges of one parent and edges of one child are apart.
        let ((x1, y1), (x2, y2)) = (points[last - 1], points[last]);
        Drawn { line, label: ((x1 + x2) / 2.0, (y1 + y2) / 2.0) }
    }
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
