//! A laid-out graph as data, for those who draw it themselves.

use serde_json::{Value, json};

use super::diagram::{Diagram, Role};
use super::svg::{Drawn, Placed};

impl Diagram {
    /// Boxes and paths, as JSON.
    pub(super) fn plan(&self) -> Value {
        let placed = Placed::new(self);
        let rounded = |length: f64| (10.0 * length).round() / 10.0;
        let nodes: Vec<Value> = placed
            .diagram
            .cards
            .iter()
            .zip(placed.layout.centres.iter().zip(&placed.sizes))
            .map(|(card, ((x, y), (width, height)))| {
                json!({ "left": rounded(x - width / 2.0), "top": rounded(y - height / 2.0), "width": rounded(*width),
                        "height": rounded(*height), "role": role(card.role) })
            })
            .collect();
        let edges: Vec<Value> = placed
            .diagram
            .edges
            .iter()
            .zip(&placed.layout.paths)
            .map(|(edge, path)| {
                let drawn = Drawn::new(path, (placed.sizes[edge.from].0 / 2.0, placed.sizes[edge.to].0 / 2.0));
                json!({ "from": edge.from, "to": edge.to, "path": drawn.line, "partial": edge.label,
                        "x": rounded(drawn.label.0), "y": rounded(drawn.label.1), "passes": edge.passes })
            })
            .collect();
        json!({ "width": rounded(placed.layout.width), "height": rounded(placed.layout.height),
                "nodes": nodes, "edges": edges })
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Input => "input",
        Role::Inner => "inner",
        Role::Output => "output",
        Role::Group => "group",
        Role::Unreached => "unreached",
    }
}
