//! Graphs as text, DOT and SVG, with values, adjoints and local partial derivatives on them.
//!
//! The SVG is laid out and drawn here, so that no other program is needed to see a graph:
//! [`layout`](self) puts nodes into layers by their height, orders each layer so that edges cross
//! little, and places them; `svg` draws boxes, edges and labels.

mod layout;
mod svg;

use std::fmt::Write as _;

use crate::ops::Operation;
use crate::scalar::NodeId;
use crate::scalar::tape::Operand;
use crate::trace::{Trace, adjoint_of, short};

pub use svg::{LARGEST_PICTURE, TooLarge, svg};

/// The graph as text: one line a node, with value, adjoint, and local partials.
///
/// ```
/// use glassgrad::{picture, scalar::Tape, trace::Trace};
/// let tape = Tape::new();
/// let x = tape.input(3.0).named("x");
/// let y = x * x;
/// let text = picture::text(&Trace::new(&tape), y.into());
/// assert_eq!(text, "x   = 3      x̄ = 6   input\nv1  = 9      v̄1 = 1  x * x  ∂v1/∂x = 3, ∂v1/∂x = 3\n");
/// ```
pub fn text(trace: &Trace<'_>, output: NodeId) -> String {
    let adjoints = trace.tape().reverse(output);
    let rows: Vec<[String; 4]> = trace
        .tape()
        .ids()
        .map(|id| {
            let node = trace.tape().node(id);
            let label = trace.label(id);
            let partials = node
                .parents()
                .map(|(parent, partial)| format!("∂{label}/∂{} = {}", trace.label(parent), short(partial)));
            [
                format!("{label:<3} = {}", short(node.value)),
                format!("{} = {}", adjoint_of(label), short(adjoints.of(id))),
                trace.expression(id),
                partials.collect::<Vec<_>>().join(", "),
            ]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| visible_width(&row[column])).max().unwrap_or(0);
    let widths = [width(0).max(10), width(1), width(2)];
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            line += cell;
            if column < 3 {
                line += &" ".repeat(widths[column] - visible_width(cell) + if column == 0 { 3 } else { 2 });
            }
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The columns that a text takes up: combining marks take none.
pub fn visible_width(text: &str) -> usize {
    text.chars().filter(|character| !('\u{300}'..'\u{370}').contains(character)).count()
}

/// The graph in the DOT language of Graphviz.
pub fn dot(trace: &Trace<'_>, output: NodeId) -> String {
    let adjoints = trace.tape().reverse(output);
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut dot = String::from(
        "digraph glassgrad {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n",
    );
    for id in trace.tape().ids() {
        let node = trace.tape().node(id);
        let label = trace.label(id);
        let head = if node.operation == Operation::Input {
            label.to_owned()
        } else {
            format!("{label} = {}", trace.expression(id))
        };
        let body = format!("{head}\\nvalue {}\\nadjoint {}", short(node.value), short(adjoints.of(id)));
        let _ = writeln!(dot, "  n{} [label={}];", id.index(), quoted(&body).replace("\\\\n", "\\n"));
        for (parent, partial) in node.parents() {
            let _ = writeln!(dot, "  n{} -> n{} [label={}];", parent.index(), id.index(), quoted(&short(partial)));
        }
        for unused in not_taken(trace, id) {
            let _ = writeln!(
                dot,
                "  n{} -> n{} [style=dashed, color=gray, label=\"not taken\"];",
                unused.index(),
                id.index()
            );
        }
    }
    dot + "}\n"
}

/// The operands of a choice that are not its parents: the branch not taken and what was compared.
fn not_taken(trace: &Trace<'_>, id: NodeId) -> Vec<NodeId> {
    let Some(choice) = trace.choice(id) else { return Vec::new() };
    let branch = if choice.guard.outcome { choice.otherwise } else { choice.taken };
    match branch {
        Operand::Node(node) => vec![node],
        Operand::Constant(_) => Vec::new(),
    }
}
