//! A laid-out graph as data, for those who draw it themselves.

use serde_json::{Value, json};

use super::diagram::{Card, Diagram, Ink, Role};
use super::svg::{Drawn, LARGEST_PICTURE, Placed, TooLarge};

impl Diagram {
    /// Boxes and paths, as JSON.
    pub(super) fn plan(&self) -> Value {
        Placed::new(self).plan()
    }

    /// The same with what is written in the boxes, and with the diagrams inside of them.
    pub(crate) fn plan_with_lines(&self) -> Result<Value, TooLarge> {
        match self.size() {
            nodes if nodes > LARGEST_PICTURE => Err(TooLarge { nodes }),
            _ => Ok(Placed::new(self).plan_with_lines()),
        }
    }
}

fn rounded(length: f64) -> f64 {
    (10.0 * length).round() / 10.0
}

impl Placed<'_> {
    fn plan_with_lines(&self) -> Value {
        let mut plan = self.plan();
        let line = |(ink, text): &(Ink, String)| json!({ "kind": ink.word(), "text": text });
        let lines = |card: &Card| card.lines.iter().map(line).collect::<Value>();
        for (number, card) in self.diagram.cards.iter().enumerate() {
            let node = &mut plan["nodes"][number];
            node["lines"] = lines(card);
            node["inside"] = self.inside_of(number).map_or(Value::Null, |(inside, (left, top))| {
                let mut plan = inside.plan_with_lines();
                (plan["left"], plan["top"]) = (rounded(left).into(), rounded(top).into());
                plan
            });
        }
        plan
    }

    fn plan(&self) -> Value {
        let nodes: Vec<Value> = self
            .diagram
            .cards
            .iter()
            .zip(self.layout.centres.iter().zip(&self.sizes))
            .map(|(card, ((x, y), (width, height)))| {
                json!({ "left": rounded(x - width / 2.0), "top": rounded(y - height / 2.0), "width": rounded(*width),
                        "height": rounded(*height), "role": role(card.role) })
            })
            .collect();
        let edges: Vec<Value> = self
            .diagram
            .edges
            .iter()
            .zip(&self.layout.paths)
            .map(|(edge, path)| {
                let drawn = Drawn::new(path, (self.sizes[edge.from].0 / 2.0, self.sizes[edge.to].0 / 2.0));
                json!({ "from": edge.from, "to": edge.to, "path": drawn.line, "partial": edge.label,
                        "x": rounded(drawn.label.0), "y": rounded(drawn.label.1), "passes": edge.passes })
            })
            .collect();
        json!({ "width": rounded(self.layout.width), "height": rounded(self.layout.height),
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
