//! The graph of the loss with values and gradients, folded until it can be read.

use glassgrad::data::Dataset as _;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::glass::Graph;

use super::Subject;
use super::html::{graph, note};
use crate::lab::network::Network;

/// So many examples are in the loss.
const EXAMPLES: usize = 8;
/// A graph with more boxes is folded further.
const READABLE: usize = 36;
/// A picture with more characters is left out.
const LARGEST: usize = 600_000;

/// The ways of folding, from the finest on.
const FOLDS: [(&str, fn(Graph) -> Graph); 5] = [
    ("every operation is a box", |graph| graph),
    ("operations that belong to a layer are one box", |graph| graph.collapse_to_depth(2)),
    ("layers, and what one line of the program makes, are one box each", |graph| graph.collapse_to_depth(2).collapse_lines()),
    ("operations that belong to a part of the network are one box", |graph| graph.collapse_to_depth(1)),
    ("parts of the network, and what one line of the program makes, are one box each", |graph| graph.collapse_to_depth(1).collapse_lines()),
];

pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let study = subject.study;
    let places: Vec<usize> = (0..study.task.training.len().min(EXAMPLES)).collect();
    let (inputs, targets) = study.task.training.batch(&places)?;
    let batch: (Tensor, Tensor) = (inputs.named("inputs"), targets.named("targets"));
    let loss = |network: &Network| study.objective.of_batch_plainly(network, &batch).named("loss");
    let whole = Graph::trace(loss, &subject.outcome.network).with_gradients()?;
    let nodes = whole.labels().len();
    let count = places.len();
    for (about, fold) in FOLDS {
        let folded = fold(whole.clone());
        let boxes = folded.labels().len();
        if boxes > READABLE {
            continue;
        }
        let Some(svg) = folded.svg(&format!("the loss of {count} examples")).ok().filter(|svg| svg.len() <= LARGEST) else {
            continue;
        };
        let about = format!(
            "The loss of {count} examples of the training part, of {nodes} nodes; here {about}. Below each name stand the values, in \
             red the gradient of the loss with respect to it, and the line that made it."
        );
        return Ok(Some(note(&about) + &graph(&svg, "The graph of the loss, with gradients", 1)));
    }
    let boxes = FOLDS[FOLDS.len() - 1].1(whole).labels().len();
    Ok(Some(note(&format!(
        "The graph of the loss of {count} examples has {nodes} nodes, and {boxes} boxes when it is folded as far as it goes: a \
         picture of it could not be read."
    ))))
}
