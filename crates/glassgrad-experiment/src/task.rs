//! A learning task: training set, test set, and the meaning of the targets.

use std::sync::Arc;

use glassgrad::Tensor;
use glassgrad::data::{Examples, Labelled, Source, Standard, Targets, split};
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::rng::Key;
use serde::{Deserialize, Serialize};

use super::limits::check_examples;
use super::network::IoSpec;
use super::settings::{Loss, Settings};
use super::text::Text;
use crate::counts::counted;
use crate::failure::Failure;

/// Inputs and targets, scaled, in the numbers of the network.
pub type Part = Arc<Examples<(Tensor, Tensor)>>;

/// The layout of the features of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// A row of numbers in no particular order.
    Row { numbers: usize },
    /// The pixels of an image, row by row.
    Image { height: usize, width: usize },
    /// Characters, as numbers below `symbols`.
    Text { symbols: usize },
}

impl View {
    /// How many numbers an example has; the characters of a text count as one.
    pub fn numbers(self) -> usize {
        match self {
            View::Row { numbers } => numbers,
            View::Image { height, width } => height * width,
            View::Text { .. } => 1,
        }
    }
}

/// The kind of the targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One of some classes.
    Classes { names: Vec<String> },
    /// Numbers, which a network sees with the mean 0 and the deviation 1.
    Numbers { names: Vec<String>, scale: Scale },
    /// The next character.
    Text { alphabet: Vec<char> },
}

/// The mean and the deviation of each column, as they are written beside a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    pub mean: Vec<f64>,
    pub deviation: Vec<f64>,
}

impl Scale {
    fn of(standard: &Standard) -> Result<Scale, Error> {
        let read = |tensor: &Tensor| tensor.cast(DType::F64).reshape([tensor.shape().elements()]).to_vec::<f64>();
        Ok(Scale { mean: read(&standard.mean)?, deviation: read(&standard.deviation)? })
    }

    pub fn apply(&self, table: &Tensor) -> Tensor {
        let column = |numbers: &[f64]| Tensor::from(numbers.to_vec()).cast(table.dtype());
        (table - column(&self.mean)) / column(&self.deviation)
    }

    pub fn invert(&self, table: &Tensor) -> Tensor {
        let column = |numbers: &[f64]| Tensor::from(numbers.to_vec()).cast(table.dtype());
        table * column(&self.deviation) + column(&self.mean)
    }
}

/// Metadata of a task without its examples: enough to apply a trained network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    pub name: String,
    pub title: String,
    pub view: View,
    pub kind: Kind,
    pub features: Vec<String>,
    /// For a table, its columns, with all words that they may hold.
    pub columns: Vec<(String, Option<Vec<String>>)>,
    /// The scaling of the features: one factor for all of them, or one for each.
    pub scale: Scale,
}

impl Description {
    pub fn ends(&self, settings: &Settings) -> IoSpec {
        let outputs = match &self.kind {
            Kind::Classes { names } => names.len(),
            // A mean, and the logarithm of a deviation.
            Kind::Numbers { names, .. } if settings.loss == Loss::Normal => 2 * names.len(),
            Kind::Numbers { names, .. } => names.len(),
            Kind::Text { alphabet } => alphabet.len(),
        };
        IoSpec { view: self.view, outputs }
    }
}

/// A task with its examples.
#[derive(Clone, Debug)]
pub struct Task {
    pub about: Description,
    pub training: Part,
    pub test: Part,
    /// For a text, what is learnt and what is held out, as numbers of characters.
    pub text: Option<Arc<[Vec<i64>; 2]>>,
}

impl Task {
    /// Splits a source where it has no test set, and scales it by what its training set is like.
    pub fn of(source: Source, view: View, scaling: Scaling, settings: &Settings) -> Result<Task, Failure> {
        check_examples(source.examples.len(), view.numbers())?;
        let is_synthetic = settings.is_synthetic();
        let (training, test) = match source.test {
            Some(test) => (source.examples, test),
            None => divided(&source.examples, settings)?,
        };
        if training.is_empty() || test.is_empty() {
            let message = format!(
                "{}: {} in the training set and {} in the test set; each needs at least one (see --test{})",
                source.name,
                counted(training.len(), "example"),
                test.len(),
                if is_synthetic { " and --points" } else { "" },
            );
            return Err(Failure::Input(message));
        }
        let scale = match scaling {
            Scaling::None => Scale { mean: vec![0.0], deviation: vec![1.0] },
            Scaling::Columns => Scale::of(&Standard::of(&training.features.cast(DType::F64)).map_err(Failure::input)?)
                .map_err(Failure::input)?,
            Scaling::Whole => {
                let all = training.features.reshape([training.features.shape().elements()]);
                Scale::of(&Standard::of(&all).map_err(Failure::input)?).map_err(Failure::input)?
            }
        };
        let kind = match &training.targets {
            Targets::Classes { names, .. } => Kind::Classes { names: names.clone() },
            Targets::Numbers { values, names } => {
                let scale = Scale::of(&Standard::of(&values.cast(DType::F64)).map_err(Failure::input)?)
                    .map_err(Failure::input)?;
                Kind::Numbers { names: names.clone(), scale }
            }
        };
        // Columns of numbers, until a table says otherwise.
        let columns = source.feature_names.iter().map(|name| (name.clone(), None)).collect();
        let about = Description {
            name: source.name,
            title: source.title,
            view,
            kind,
            features: source.feature_names,
            columns,
            scale,
        };
        let part = |part: &Labelled| -> Result<Part, Error> {
            let inputs = about.inputs(&part.features, settings);
            let targets = match (&about.kind, &part.targets) {
                (Kind::Numbers { scale, .. }, Targets::Numbers { values, .. }) => {
                    scale.apply(&values.cast(DType::F64)).cast(settings.dtype.dtype())
                }
                (_, targets) => targets.tensor().clone(),
            };
            Ok(Arc::new(Examples::new((inputs, targets))?))
        };
        let (training, test) = (part(&training).map_err(Failure::input)?, part(&test).map_err(Failure::input)?);
        Ok(Task { about, training, test, text: None })
    }

    /// The characters of a text: its beginning is learnt, its end is held out.
    pub fn of_text(name: &str, characters: &str, settings: &Settings) -> Result<Task, Failure> {
        let text = Text::new(characters).map_err(Failure::Input)?;
        // Windows lie over each other: a character is in four of them, each with the one that follows it.
        check_examples(text.symbols.len(), 4)?;
        let [training, test] = text.parts(settings.context, settings.test).map_err(Failure::Input)?;
        let (learnt, held_out) = text.symbols.split_at(text.learnt(settings.test));
        let whole = Arc::new([learnt.to_vec(), held_out.to_vec()]);
        let about = Description {
            name: name.to_owned(),
            title: format!("{} characters, {} different", text.symbols.len(), text.alphabet.len()),
            view: View::Text { symbols: text.alphabet.len() },
            kind: Kind::Text { alphabet: text.alphabet },
            features: Vec::new(),
            columns: Vec::new(),
            scale: Scale { mean: vec![0.0], deviation: vec![1.0] },
        };
        let part = |part| Examples::new(part).map(Arc::new).map_err(Failure::input);
        Ok(Task { about, training: part(training)?, test: part(test)?, text: Some(whole) })
    }
}

impl Description {
    /// Features as a network sees them.
    pub fn inputs(&self, features: &Tensor, settings: &Settings) -> Tensor {
        let count = features.shape().first().copied().unwrap_or(0);
        let dtype = settings.dtype.dtype();
        // Tables are scaled in 64 bits; images are many, and whole numbers.
        let flat = features.reshape([count, self.view.numbers()]);
        match self.view {
            View::Row { .. } => self.scale.apply(&flat.cast(DType::F64)).cast(dtype),
            _ => self.scale.apply(&flat.cast(dtype)),
        }
    }
}

/// Scaling of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// Nothing.
    None,
    /// Each column gets the mean 0 and the deviation 1.
    Columns,
    /// All numbers together do, as pixels.
    Whole,
}

/// A training set and a test set, in random order.
fn divided(all: &Labelled, settings: &Settings) -> Result<(Labelled, Labelled), Failure> {
    if !(0.0..1.0).contains(&settings.test) {
        return Err(Failure::Input(format!(
            "--test {}: a fraction from 0 to below 1 is held out as test set",
            settings.test
        )));
    }
    let examples = Examples::new((all.features.clone(), all.targets.tensor().clone())).map_err(Failure::input)?;
    let shares = [1.0 - settings.test, settings.test];
    let parts = split(&Arc::new(examples), &shares, Key::new(settings.seed).fold(0));
    let mut parts = parts.iter().map(|part| {
        use glassgrad::data::Dataset as _;
        let (features, tensor) = part.batch(&(0..part.len()).collect::<Vec<_>>()).map_err(Failure::input)?;
        let targets = match &all.targets {
            Targets::Classes { names, .. } => Targets::Classes { indices: tensor, names: names.clone() },
            Targets::Numbers { names, .. } => Targets::Numbers { values: tensor, names: names.clone() },
        };
        Ok(Labelled { features, targets })
    });
    match (parts.next(), parts.next()) {
        (Some(training), Some(test)) => Ok((training?, test?)),
        _ => Err(Failure::Input("a split has two parts".to_owned())),
    }
}
