//! The settings of an experiment as options of the command line.

use clap::Args;
use serde::Deserialize;

use super::datasets;
use super::settings::{
    Activation, Answers, Engine, Initial, Loss, Missing, Model, Number, Optimizer, Reduce, Schedule, Settings,
};
use super::task::{Description, Kind};
use crate::failure::Failure;

/// What a person asks for, on the command line or in the studio; what is left open is chosen to suit the data.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Options {
    /// The kind of network
    #[arg(long, value_enum, help_heading = "Network")]
    pub(crate) model: Option<Model>,

    /// Widths of the layers, as in 16,16; for cnn the channels of convolutions and then the width of a last layer
    #[arg(long, value_delimiter = ',', value_name = "WIDTHS", help_heading = "Network")]
    pub(crate) layers: Option<Vec<usize>>,

    /// What stands between layers
    #[arg(long, value_enum, help_heading = "Network")]
    pub(crate) activation: Option<Activation>,

    /// How first weights are drawn
    #[arg(long, value_enum, help_heading = "Network")]
    pub(crate) initial: Option<Initial>,

    /// The part of the units that is left out in each step of training
    #[arg(long, help_heading = "Network")]
    pub(crate) dropout: Option<f64>,

    /// How many heads the attention of a transformer has
    #[arg(long, help_heading = "Network")]
    pub(crate) heads: Option<usize>,

    /// How many wires a unit of a sparse layer has
    #[arg(long, help_heading = "Network")]
    pub(crate) wires: Option<usize>,

    /// How many characters are seen at once
    #[arg(long, help_heading = "Network")]
    pub(crate) context: Option<usize>,

    /// What is made small
    #[arg(long, value_enum, help_heading = "Training")]
    pub(crate) loss: Option<Loss>,

    /// Whether the loss of a batch is the mean or the sum of those of its examples
    #[arg(long, value_enum, help_heading = "Training")]
    pub(crate) reduce: Option<Reduce>,

    /// What makes a step of a gradient
    #[arg(long, value_enum, help_heading = "Training")]
    pub(crate) optimizer: Option<Optimizer>,

    /// The learning rate
    #[arg(long, allow_negative_numbers = true, help_heading = "Training")]
    pub(crate) lr: Option<f64>,

    /// The part of a step that the next one keeps
    #[arg(long, help_heading = "Training")]
    pub(crate) momentum: Option<f64>,

    /// The part of each weight that a step takes away, times the learning rate
    #[arg(long, help_heading = "Training")]
    pub(crate) weight_decay: Option<f64>,

    /// Gradients longer than this are made this long; 0 leaves them
    #[arg(long, help_heading = "Training")]
    pub(crate) clip: Option<f64>,

    /// How the learning rate changes
    #[arg(long, value_enum, help_heading = "Training")]
    pub(crate) schedule: Option<Schedule>,

    /// The part of the learning rate that a schedule ends with
    #[arg(long, help_heading = "Training")]
    pub(crate) lr_end: Option<f64>,

    /// Steps in which the learning rate rises from zero
    #[arg(long, help_heading = "Training")]
    pub(crate) warmup: Option<u64>,

    /// How often the whole training part is seen
    #[arg(long, help_heading = "Training")]
    pub(crate) epochs: Option<u64>,

    /// How many examples a step sees; 0 is all of them
    #[arg(long, help_heading = "Training")]
    pub(crate) batch: Option<usize>,

    /// What decides on everything that is drawn: the split, the first weights, the order of examples [default: 0]
    #[arg(long, help_heading = "Training")]
    pub(crate) seed: Option<u64>,

    /// The numbers that are computed with
    #[arg(long, value_enum, help_heading = "Training")]
    pub(crate) dtype: Option<Number>,

    /// What computes
    #[arg(long, value_enum, help_heading = "Training")]
    pub(crate) engine: Option<Engine>,

    /// The part of the examples that is kept for the test, where the data has no test part of its own
    #[arg(long, help_heading = "Data")]
    pub(crate) test: Option<f64>,

    /// How many points are made
    #[arg(long, help_heading = "Data")]
    pub(crate) points: Option<usize>,

    /// The noise of points that are made
    #[arg(long, help_heading = "Data")]
    pub(crate) noise: Option<f64>,

    /// The function to fit, for `function`
    #[arg(long, help_heading = "Data")]
    pub(crate) function: Option<String>,

    /// The column to predict, by name or number, for a table [default: the last]
    #[arg(long, help_heading = "Data")]
    pub(crate) target: Option<String>,

    /// What becomes of rows in which something is missing
    #[arg(long, value_enum, help_heading = "Data")]
    pub(crate) missing: Option<Missing>,

    /// Whether the target of a table is a class or a number
    #[arg(long, value_enum, help_heading = "Data")]
    pub(crate) answers: Option<Answers>,
}

/// Replaces the settings that were asked for.
macro_rules! replace {
    ($options:expr, $settings:expr, $($name:ident)*) => {
        $( if let Some(value) = &$options.$name { $settings.$name = value.clone(); } )*
    };
}

impl Options {
    /// The settings for some data.
    pub(crate) fn settings(&self, data: &str) -> Result<Settings, Failure> {
        let mut settings = datasets::suited(data, self.model)?;
        self.change(&mut settings);
        Ok(settings)
    }

    /// The loss that suits what turned out to be learnt, where none was asked for.
    pub(crate) fn fit(&self, settings: &mut Settings, about: &Description) {
        if self.loss.is_none() && matches!(about.kind, Kind::Numbers { .. }) && settings.loss == Loss::CrossEntropy {
            settings.loss = Loss::Mse;
            // Tables of numbers are noisier than those of classes.
            settings.weight_decay = self.weight_decay.unwrap_or(0.3);
            settings.lr = self.lr.unwrap_or(3e-3);
        }
    }

    /// Puts what was asked for into settings.
    pub(crate) fn change(&self, settings: &mut Settings) {
        replace!(self, settings, model layers activation initial dropout heads wires context loss reduce optimizer lr
            momentum weight_decay clip schedule lr_end warmup epochs batch seed dtype engine test points noise function missing answers);
        if self.target.is_some() {
            settings.target.clone_from(&self.target);
        }
    }
}
