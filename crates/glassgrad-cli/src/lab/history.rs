//! What was seen while a network learnt.

use glassgrad::error::Error;
use serde::{Deserialize, Serialize};

use super::objective::Score;

/// One epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Its number, from 1 on.
    pub(crate) epoch: u64,
    /// The mean loss of its batches, as it was trained on.
    pub(crate) loss: f64,
    /// The learning rate of its last step.
    pub(crate) rate: f64,
    /// How well the network did on the test part after it, where that was looked at.
    pub(crate) test: Option<Score>,
    /// For each parameter the typical size of its slopes and of its numbers, where that was looked at.
    pub(crate) sizes: Vec<Sizes>,
    /// How long it took, without looking.
    pub(crate) seconds: f64,
}

/// The typical size, the root of the mean square, of the slopes and the numbers of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sizes {
    pub(crate) slope: f64,
    pub(crate) number: f64,
}

/// All epochs so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct History {
    /// The paths of the parameters.
    pub(crate) parameters: Vec<String>,
    pub(crate) epochs: Vec<Seen>,
}

impl History {
    /// The time that all epochs took, without looking.
    pub(crate) fn seconds(&self) -> f64 {
        self.epochs.iter().map(|seen| seen.seconds).sum()
    }

    /// The points of a curve: what can be told of some epochs.
    pub(crate) fn curve(&self, of: impl Fn(&Seen) -> Option<f64>) -> Vec<(f64, f64)> {
        self.epochs.iter().filter_map(|seen| Some((seen.epoch as f64, of(seen)?))).collect()
    }

    /// A table with a line for each epoch.
    pub(crate) fn csv(&self) -> String {
        let measure = self.epochs.iter().find_map(|seen| Some(seen.test?.measure.name())).unwrap_or("measure");
        let mut text = format!("epoch,loss,learning_rate,seconds,test_loss,test_{}\n", measure.replace(' ', "_"));
        for seen in &self.epochs {
            let [loss, measure] = match seen.test {
                Some(score) => [score.loss.to_string(), score.measure.number().to_string()],
                None => [String::new(), String::new()],
            };
            text += &format!("{},{},{},{},{loss},{measure}\n", seen.epoch, seen.loss, seen.rate, seen.seconds);
        }
        text
    }

    /// The history as it is kept in a file.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(|error| Error::new("history", error.to_string()))
    }
}
