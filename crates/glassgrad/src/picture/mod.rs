//! Graphs as text, DOT and SVG, with values, adjoints and local partial derivatives on them.
//!
//! What is drawn is a [`diagram`](self), whatever its source: a tape here, tensors in
//! [`crate::glass`]. The SVG is laid out and drawn here, so that no other program is needed to see a graph:
//! `layout` puts nodes into layers by their height, orders each layer so that edges cross little, and
//! places them; `svg` draws boxes, edges and labels.

mod diagram;
mod layout;
mod plan;
mod svg;

use std::fmt::Write as _;

use crate::ops::Operation;
use crate::scalar::NodeId;
use crate::scalar::tape::Operand;
use crate::trace::{Trace, adjoint_of, short};

pub(crate) use diagram::{Card, Diagram, Edge, Ink, Role};
pub(crate) use svg::escaped;
pub use svg::{LARGEST_PICTURE, TooLarge};

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
    aligned(&rows, 10)
}

/// Rows of cells in columns, of which the first has at least this width.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]], least: usize) -> String {
    let width = |column: usize| rows.iter().map(|row| visible_width(&row[column])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(|column| width(column).max(if column == 0 { least } else { 0 })).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            line += cell;
            line += &" ".repeat(widths[column] - visible_width(cell) + if column == 0 { 3 } else { 2 });
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
    diagram(trace, output).dot()
}

/// The graph as an SVG picture: a box for each node with its expression, value and adjoint, and the
/// local partial derivative on each edge.
///
/// Nodes that are no ancestors of the output, which the reverse sweep leaves out, are pale; a branch
/// not taken hangs on a dashed edge.
pub fn svg(trace: &Trace<'_>, output: NodeId, title: &str) -> Result<String, TooLarge> {
    // The size is checked before anything is allocated.
    match trace.tape().ids().count() {
        nodes if nodes > LARGEST_PICTURE => Err(TooLarge { nodes }),
        _ => diagram(trace, output).svg(title),
    }
}

/// Where everything of the picture stands, for those who draw it themselves: boxes and paths, as JSON.
///
/// It depends on the names and the structure alone, not on any number, so that a picture whose numbers change stays where
/// it is. `nodes` are in the order of the tape, with `left`, `top`, `width`, `height` and `role`; `edges` go `from` one node
/// `to` another along a `path` in the language of SVG, with the local `partial` and a place for it.
///
/// ```
/// use glassgrad::{picture, scalar::Tape, trace::Trace};
/// let plan = |value: f64| {
///     let tape = Tape::new();
///     let x = tape.input(value).named("x");
///     let y = x.sin();
///     picture::plan(&Trace::new(&tape), y.into()).unwrap()
/// };
/// assert_eq!(plan(0.0)["nodes"], plan(-1.23456e-7)["nodes"]);
/// assert_eq!(plan(0.0)["edges"][0]["partial"], "1");
/// ```
pub fn plan(trace: &Trace<'_>, output: NodeId) -> Result<serde_json::Value, TooLarge> {
    let nodes = trace.tape().ids().count();
    if nodes > LARGEST_PICTURE {
        return Err(TooLarge { nodes });
    }
    let mut diagram = diagram(trace, output);
    for (card, id) in diagram.cards.iter_mut().zip(trace.tape().ids()) {
        let longest = format!("{} = {}", adjoint_of(trace.label(id)), "0".repeat(LONGEST_NUMBER));
        card.lines.truncate(1);
        card.lines.extend([(Ink::Value, "0".repeat(LONGEST_NUMBER)), (Ink::Adjoint, longest)]);
    }
    Ok(diagram.plan())
}

/// How many characters a number takes at most as `short` writes it.
const LONGEST_NUMBER: usize = "-1.23456e-308".len();

fn diagram(trace: &Trace<'_>, output: NodeId) -> Diagram {
    let adjoints = trace.tape().reverse(output);
    let ancestors = trace.tape().ancestors(output);
    let mut diagram = Diagram::default();
    for id in trace.tape().ids() {
        let node = trace.tape().node(id);
        let label = trace.label(id);
        let head = match node.operation {
            Operation::Input => label.to_owned(),
            _ => format!("{label} = {}", trace.expression(id)),
        };
        let lines = vec![
            (Ink::Name, head),
            (Ink::Value, short(node.value)),
            (Ink::Adjoint, format!("{} = {}", adjoint_of(label), short(adjoints.of(id)))),
        ];
        let role = match node.operation {
            _ if !ancestors.contains(&id) => Role::Unreached,
            Operation::Input => Role::Input,
            _ if id == output => Role::Output,
            _ => Role::Inner,
        };
        diagram.cards.push(Card { role, lines, inside: None });
        let edge =
            |from: NodeId, label: String, passes: bool| Edge { from: from.index(), to: id.index(), label, passes };
        let reached = role != Role::Unreached;
        diagram.edges.extend(node.parents().map(|(parent, partial)| edge(parent, short(partial), reached)));
        diagram.edges.extend(not_taken(trace, id).map(|unused| edge(unused, "not taken".to_owned(), false)));
    }
    diagram
}

/// The operand of a choice that is not its parent: the branch not taken.
fn not_taken(trace: &Trace<'_>, id: NodeId) -> Option<NodeId> {
    let choice = trace.choice(id)?;
    match if choice.guard.outcome { choice.otherwise } else { choice.taken } {
        Operand::Node(node) => Some(node),
        Operand::Constant(_) => None,
    }
}
