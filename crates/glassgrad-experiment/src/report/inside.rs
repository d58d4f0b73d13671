//! The graph of the loss with values and gradients, collapsed until it is readable.

use glassgrad::data::Dataset as _;
use glassgrad::error::Error;
use glassgrad::glass::Graph;

use super::Subject;
use super::html::{graph, note};
use crate::counts::counted;
use crate::graph::{FOLDS, READABLE, of_loss};

/// Examples in the loss.
const EXAMPLES: usize = 8;
/// A graph with more boxes is not drawn whole.
const DRAWABLE: usize = 120;
/// A picture with more characters is left out.
const LARGEST: usize = 600_000;

pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let study = subject.study;
    let examples = study.task.training.len().min(EXAMPLES);
    let whole = of_loss(study, &subject.outcome.network, examples)?;
    let about = format!(
        "The loss of {} of the training set. Below each name stand the values, in red the gradient of the loss with \
         respect to it, and the line that created it.",
        counted(examples, "example")
    );
    Ok(Some(note(&about) + &folded(&whole, &format!("the loss of {}", counted(examples, "example")))))
}

/// A graph collapsed until it is readable, followed by the whole graph in a `<details>` element.
pub(super) fn folded(whole: &Graph, title: &str) -> String {
    let nodes = whole.labels().len();
    let drawn = |graph: &Graph| graph.svg("").ok().filter(|svg| svg.len() <= LARGEST);
    let mut fewest = nodes;
    for (about, fold) in FOLDS {
        let folded = fold(whole.clone());
        let boxes = folded.labels().len();
        fewest = fewest.min(boxes);
        let Some(svg) = drawn(&folded).filter(|_| boxes <= READABLE) else { continue };
        let mut html = note(&format!("{}; {nodes} nodes in all.", capitalised(about))) + &graph(&svg, title);
        if boxes < nodes
            && nodes <= DRAWABLE
            && let Some(svg) = drawn(whole)
        {
            let whole = graph(&svg, title);
            html += &format!("<details><summary>The whole graph: {nodes} nodes</summary>\n{whole}</details>\n");
        }
        return html;
    }
    note(&format!("It has {nodes} nodes, and {fewest} when it is collapsed as far as possible: too many to draw."))
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
