//! What can be watched while a network learns: a file and a row for each view.
//!
//! A view is made once for a run, with its program and its examples, and then looks at one network after another. What
//! does not change between looks is told once, by [`Look::fixed`]. How bytes are written stands in [`super::encode`].

mod boundary;
mod confusion;
mod errors;
mod fitted;
mod histograms;
mod images;
pub(in crate::studio) mod surface;
#[cfg(test)]
pub(in crate::studio) mod tests;
mod weights;

use glassgrad::compile;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::nn::Layer as _;
use serde_json::{Value, json};

use crate::experiment::network::Network;
use crate::experiment::predictions::{Numbers, column};
use crate::experiment::settings::Loss;
use crate::experiment::study::Study;
use crate::experiment::task::Scale;
use crate::studio::encode::list;

/// Someone who looks at networks.
pub(in crate::studio) trait Look {
    /// What is the same at every look.
    fn fixed(&self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    /// What a network shows.
    fn look(&mut self, network: &Network) -> Result<Value, Error>;
}

/// What makes a view of an experiment, or tells that it does not fit.
type Make = for<'s> fn(&'s Study) -> Result<Option<Box<dyn Look + 's>>, Error>;

/// A view, by its name.
pub(in crate::studio) struct View {
    pub(in crate::studio) name: &'static str,
    pub(in crate::studio) make: Make,
}

/// All views, in the order in which a page shows them.
pub(in crate::studio) const VIEWS: &[View] = &[
    View { name: "boundary", make: boundary::make },
    View { name: "fitted", make: fitted::make },
    View { name: "images", make: images::make },
    View { name: "errors", make: errors::make },
    View { name: "confusion", make: confusion::make },
    View { name: "weights", make: weights::make },
    View { name: "histograms", make: histograms::make },
];

/// What networks tell of inputs that stay the same.
type Forward = Box<dyn Fn(&Network) -> Result<Tensor, Error>>;

/// Asks networks about these inputs, by a program that is made once.
fn asked(inputs: Tensor) -> Forward {
    let program = compile(|(network, inputs): &(Network, Tensor)| network.apply(inputs));
    Box::new(move |network| program.call(&(network.clone(), inputs.clone())))
}

/// More columns of numbers than this are not shown.
const MOST_NUMBERS: usize = 4;

/// Numbers in columns with names, which a network tells in its own scale.
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

    /// What outputs tell, in the units of the data.
    fn told(&self, outputs: &Tensor) -> Result<Value, Error> {
        let told = Numbers::of(self.loss, self.scale, outputs)?;
        let deviations = told.deviations.map(|deviations| self.lists(&deviations));
        Ok(json!({ "predicted": self.lists(&told.means), "deviation": deviations }))
    }
}
