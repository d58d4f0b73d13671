//! Live views of a training run: a file and a row for each view.
//!
//! A view is constructed once for a run, with its compiled program and its examples, and then evaluated on one network after another. What
//! does not change is published once, by [`LiveView::fixed`]. The encoding of bytes is in [`super::encode`].

mod boundary;
mod confusion;
mod diagram;
mod errors;
mod fitted;
mod histograms;
mod images;
pub(crate) mod surface;
#[cfg(test)]
pub(crate) mod tests;
mod weights;

use glassgrad::compile;
use glassgrad::data::Dataset as _;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::nn::Layer as _;
use serde_json::{Value, json};

use crate::encode::list;
use crate::experiment::network::Network;
use crate::experiment::predictions::{Numbers, column};
use crate::experiment::settings::Loss;
use crate::experiment::study::Study;
use crate::experiment::task::Scale;

/// A view that is evaluated on networks.
pub(crate) trait LiveView {
    /// The part that does not change between evaluations.
    fn fixed(&self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    /// The view of a network.
    fn evaluate(&mut self, network: &Network) -> Result<Value, Error>;
}

/// Constructs a view of an experiment, or returns `None` if it does not apply.
type Make = for<'s> fn(&'s Study) -> Result<Option<Box<dyn LiveView + 's>>, Error>;

/// A view, by its name.
pub(crate) struct View {
    pub(crate) name: &'static str,
    pub(crate) make: Make,
}

/// All views, in the order in which a page shows them.
pub(crate) const VIEWS: &[View] = &[
    View { name: "boundary", make: boundary::make },
    View { name: "diagram", make: diagram::make },
    View { name: "fitted", make: fitted::make },
    View { name: "images", make: images::make },
    View { name: "errors", make: errors::make },
    View { name: "confusion", make: confusion::make },
    View { name: "weights", make: weights::make },
    View { name: "histograms", make: histograms::make },
];

/// The examples of an experiment before its first step: the constant parts of the views that show examples.
///
/// ```text
/// { "title": text, "training": count, "test": count, "views": { "boundary": fixed, … } }
/// ```
pub(crate) fn preview(study: &Study) -> Result<Value, Error> {
    let mut fixed = serde_json::Map::new();
    for view in VIEWS.iter().filter(|view| ["boundary", "fitted", "images"].contains(&view.name)) {
        if let Some(live) = (view.make)(study)? {
            fixed.insert(view.name.to_owned(), live.fixed()?);
        }
    }
    let task = &study.task;
    Ok(json!({ "title": task.about.title, "training": task.training.len(), "test": task.test.len(), "views": fixed }))
}

/// The forward pass on fixed inputs.
type Forward = Box<dyn Fn(&Network) -> Result<Tensor, Error>>;

/// The forward pass on these inputs, compiled once.
fn forward(inputs: Tensor) -> Forward {
    let program = compile(|(network, inputs): &(Network, Tensor)| network.apply(inputs));
    Box::new(move |network| program.call(&(network.clone(), inputs.clone())))
}

/// At most this many columns are shown.
const MOST_NUMBERS: usize = 4;

/// Named target columns, which the network predicts in scaled units.
struct Columns<'s> {
    loss: Loss,
    names: &'s [String],
    scale: &'s Scale,
}

impl<'s> Columns<'s> {
    /// The names of the columns that are shown.
    fn names(&self) -> &'s [String] {
        &self.names[..self.names.len().min(MOST_NUMBERS)]
    }

    /// The shown columns of a table, each as a list.
    fn lists(&self, table: &[f64]) -> Value {
        (0..self.names().len()).map(|place| list(&column(table, place, self.names.len()))).collect()
    }

    /// Predicted values in the units of the data.
    fn predicted(&self, outputs: &Tensor) -> Result<Value, Error> {
        let predicted = Numbers::of(self.loss, self.scale, outputs)?;
        let deviations = predicted.deviations.map(|deviations| self.lists(&deviations));
        Ok(json!({ "predicted": self.lists(&predicted.means), "deviation": deviations }))
    }
}
