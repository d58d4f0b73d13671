//! Drawing a laid-out graph.

use std::fmt::{self, Write as _};

use super::layout::{Graph, Spacing, layered};
use super::{not_taken, visible_width};
use crate::ops::Operation;
use crate::scalar::NodeId;
use crate::trace::{Trace, adjoint_of, short};

/// The largest graph that is drawn; a larger one could not be read.
pub const LARGEST_PICTURE: usize = 1000;

const FONT: f64 = 13.0;
const CHARACTER: f64 = 7.6;
const BOX_HEIGHT: f64 = 58.0;
const SPACING: Spacing = Spacing { row: 92.0, gap: 110.0, margin: 24.0 };
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

/// The graph as an SVG picture: a box for each node with its expression, value and adjoint, and the
/// local partial derivative on each edge.
///
/// Nodes that are no ancestors of the output, which the reverse sweep leaves out, are pale; a branch
/// not taken hangs on a dashed edge.
pub fn svg(trace: &Trace<'_>, output: NodeId, title: &str) -> Result<String, TooLarge> {
    let nodes: Vec<NodeId> = trace.tape().ids().collect();
    if nodes.len() > LARGEST_PICTURE {
        return Err(TooLarge { nodes: nodes.len() });
    }
    let texts: Vec<[String; 3]> = box_texts(trace, output, &nodes);
    let widest = |lines: &[String; 3]| lines.iter().map(|line| visible_width(line)).max().unwrap_or(0);
    let mut edges = Vec::new();
    for id in &nodes {
        let node = trace.tape().node(*id);
        edges.extend(node.parents().map(|(parent, partial)| (parent.index(), id.index(), Some(partial))));
        edges.extend(not_taken(trace, *id).into_iter().map(|unused| (unused.index(), id.index(), None)));
    }
    let widths: Vec<f64> = texts.iter().map(|lines| widest(lines) as f64 * CHARACTER + 24.0).collect();
    let graph = Graph { widths, edges: edges.iter().map(|(parent, child, _)| (*parent, *child)).collect() };
    let layout = layered(&graph, &SPACING);
    let ancestors = trace.tape().ancestors(output);
    let title_width = visible_width(title) as f64 * CHARACTER + 2.0 * SPACING.margin;
    let (width, height) = (layout.width.max(title_width), layout.height + TITLE_HEIGHT);
    let mut svg = header(width, height, title);
    for ((parent, child, partial), path) in edges.iter().zip(&layout.paths) {
        let reached = ancestors.contains(&nodes[*child]) && partial.is_some();
        let ends = (graph.widths[*parent] / 2.0, graph.widths[*child] / 2.0);
        draw_edge(&mut svg, path, ends, reached, partial.map_or("not taken".to_owned(), short));
    }
    for (index, id) in nodes.iter().enumerate() {
        let class = match trace.tape().node(*id).operation {
            _ if !ancestors.contains(id) => "box unreached",
            Operation::Input => "box input",
            _ if *id == output => "box output",
            _ => "box",
        };
        draw_box(&mut svg, layout.centres[index], graph.widths[index], class, &texts[index]);
    }
    svg += "</g>\n</svg>\n";
    Ok(svg)
}

fn box_texts(trace: &Trace<'_>, output: NodeId, nodes: &[NodeId]) -> Vec<[String; 3]> {
    let adjoints = trace.tape().reverse(output);
    let text = |id: &NodeId| {
        let node = trace.tape().node(*id);
        let label = trace.label(*id);
        let head = match node.operation {
            Operation::Input => label.to_owned(),
            _ => format!("{label} = {}", trace.expression(*id)),
        };
        [head, short(node.value), format!("{} = {}", adjoint_of(label), short(adjoints.of(*id)))]
    };
    nodes.iter().map(text).collect()
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
         .unreached {{ fill: #f8fafc; stroke: #cbd5e1; }}\n\
         .edge {{ fill: none; stroke: #64748b; stroke-width: 1.4; }}\n\
         .pale {{ stroke: #cbd5e1; stroke-dasharray: 5 4; }}\n\
         .name {{ fill: #0f172a; font-weight: 600; }}\n\
         .value {{ fill: #0f172a; }}\n\
         .adjoint {{ fill: #b91c1c; }}\n\
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

fn draw_box(svg: &mut String, (x, y): (f64, f64), width: f64, class: &str, lines: &[String; 3]) {
    let (left, top) = (x - width / 2.0, y - BOX_HEIGHT / 2.0);
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BOX_HEIGHT}\" rx=\"8\"/>"
    );
    for (line, (class, offset)) in lines.iter().zip([("name", -17.0), ("value", 0.0), ("adjoint", 17.0)]) {
        let _ = writeln!(
            svg,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            y + offset + BASELINE,
            escaped(line)
        );
    }
}

fn draw_edge(svg: &mut String, path: &[(f64, f64)], ends: (f64, f64), reached: bool, label: String) {
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
    let class = if reached { "edge" } else { "edge pale" };
    let _ = writeln!(svg, "<path class=\"{class}\" d=\"{line}\" marker-end=\"url(#arrow)\"/>");
    // In the middle of the last stretch, edges of one parent and edges of one child are apart.
    let ((x1, y1), (x2, y2)) = (points[last - 1], points[last]);
    let (x, y) = ((x1 + x2) / 2.0, (y1 + y2) / 2.0 + BASELINE);
    let _ = writeln!(svg, "<text class=\"partial\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(&label));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
