//! Questions about the inside of a network, between two of its steps.

use glassgrad::error::Error;
use serde::Deserialize;
use serde_json::Value;

use super::runner::Snapshot;
use crate::inside;
use crate::views::surface;

/// The subject of an inspection.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, tag = "at", rename_all = "kebab-case")]
pub(crate) enum InspectRequest {
    /// The last update of one weight.
    Weight { path: String, place: Vec<usize> },
    /// One example on its way through the network, and its gradient on the way back.
    Sample { part: String, index: usize },
    /// The graph of the loss, folded.
    Graph { level: Option<usize> },
    /// The optimisation passes over a step.
    Passes,
    /// Which parameters the loss reaches.
    Audit,
    /// The loss around the way that training has taken.
    Surface,
    /// The prediction for a drawing, ink from 0 to 255, row-major.
    Drawn { ink: Vec<u8>, from: [usize; 2], class: Option<usize> },
}

pub(crate) fn answer(snapshot: &Snapshot<'_>, asked: &InspectRequest) -> Result<Value, Error> {
    let Snapshot { study, network, .. } = *snapshot;
    match asked {
        InspectRequest::Weight { path, place } => {
            let none = || Error::new("weight", "no step has been taken yet").help("resume or step the run first");
            let last = snapshot.session.last()?.ok_or_else(none)?;
            inside::weight::weight(study, snapshot.optimizer, &last, path, place)
        }
        InspectRequest::Sample { part, index } => inside::sample::sample(study, network, part, *index),
        InspectRequest::Graph { level } => inside::graph::graph(study, network, *level),
        InspectRequest::Passes => inside::passes::passes(study, network),
        InspectRequest::Audit => inside::audit::audit(study, network),
        InspectRequest::Surface => surface::surface(study, snapshot.trajectory),
        InspectRequest::Drawn { ink, from, class } => {
            let ink: Vec<f64> = ink.iter().map(|level| f64::from(*level) / 255.0).collect();
            inside::drawn::drawn(study, network, &inside::prepared::prepared(study, &ink, *from)?, *class)
        }
    }
}
