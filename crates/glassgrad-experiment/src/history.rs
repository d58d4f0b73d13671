//! The history of a training run.

use glassgrad::error::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::objective::Score;

/// One epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Its number, from 1 on.
    pub epoch: u64,
    /// The mean loss of its batches, as it was trained on.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
    /// The learning rate of its last step.
    #[serde(deserialize_with = "number")]
    pub rate: f64,
    /// The evaluation on the test set after it, where one was made.
    pub test: Option<Score>,
    /// For each parameter the RMS of its gradient and of its elements, where they were recorded.
    pub sizes: Vec<Norms>,
    /// Its duration, without evaluation.
    pub seconds: f64,
}

/// The typical size, the root of the mean square, of the gradients and the numbers of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Norms {
    #[serde(deserialize_with = "number")]
    pub gradient: f64,
    #[serde(deserialize_with = "number")]
    pub number: f64,
}

/// A number that JSON may not have: what is not finite is written as null, and read as not a number.
pub(super) fn number<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// All epochs so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The paths of the parameters.
    pub parameters: Vec<String>,
    pub epochs: Vec<EpochRecord>,
}

impl History {
    /// Adds the losses of epochs that were over before a resumption and not recorded.
    pub(super) fn complete(&mut self, losses: &[f64]) {
        for (epoch, loss) in (1..).zip(losses) {
            if !self.epochs.iter().any(|seen| seen.epoch == epoch) {
                let unseen =
                    EpochRecord { epoch, loss: *loss, rate: f64::NAN, test: None, sizes: Vec::new(), seconds: 0.0 };
                self.epochs.push(unseen);
            }
        }
        self.epochs.sort_by_key(|seen| seen.epoch);
    }

    /// The time that all epochs took, without looking.
    pub fn seconds(&self) -> f64 {
        // The sum of no numbers is −0.
        self.epochs.iter().map(|seen| seen.seconds).sum::<f64>() + 0.0
    }

    /// The points of a curve, for the epochs that have a value.
    pub fn curve(&self, of: impl Fn(&EpochRecord) -> Option<f64>) -> Vec<(f64, f64)> {
        self.epochs.iter().filter_map(|seen| Some((seen.epoch as f64, of(seen)?))).collect()
    }

    /// A table with a line for each epoch.
    pub fn csv(&self) -> String {
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
    pub fn to_json(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(|error| Error::new("history", error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::objective::Measure;
    use super::*;

    #[test]
    fn what_is_not_finite_is_read_again_as_not_a_number() {
        let score = Score { loss: f64::INFINITY, measure: Measure::Error { rmse: f64::NAN, r2: 0.5 } };
        let sizes = vec![Norms { gradient: f64::NAN, number: 1.0 }];
        let seen = EpochRecord { epoch: 1, loss: 0.25, rate: f64::NAN, test: Some(score), sizes, seconds: 0.0 };
        let history = History { parameters: vec!["layers.0.weight".to_owned()], epochs: vec![seen] };
        let read: History = serde_json::from_slice(&history.to_json().unwrap()).unwrap();
        assert!(read.epochs[0].rate.is_nan() && read.epochs[0].test.unwrap().loss.is_nan());
        assert_eq!((read.epochs[0].loss, read.epochs[0].test.unwrap().measure.number().is_nan()), (0.25, true));
        assert_eq!(history.csv().lines().count(), 2);
    }
}
