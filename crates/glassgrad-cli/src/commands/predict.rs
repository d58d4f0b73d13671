//! `glassgrad predict`: a network that was trained is used.

use std::path::{Path, PathBuf};

use clap::Args;
use glassgrad::data::files::{Column, Features, Idx, Table, read_npy};
use glassgrad::error::Error;
use glassgrad::nn::Layer as _;
use glassgrad::rng::Key;
use glassgrad::save::write_atomically;
use glassgrad::tree::Tree as _;
use glassgrad::{Tensor, compile};
use serde_json::{Map, Value, json};

use crate::device::DeviceChoice;
use crate::experiment::choices::{columns_of, reading};
use crate::experiment::datasets::reading_failure;
use crate::experiment::model::{self, Model};
use crate::experiment::network::Network;
use crate::experiment::objective::predicted_classes;
use crate::experiment::predictions::Numbers;
use crate::experiment::samples::{self, Sampling};
use crate::experiment::settings::{Decimal, Delimiter, Header, Loss, Missing};
use crate::experiment::task::{Kind, View};
use crate::failure::{Failure, print};
use crate::folder::MODEL;
use crate::terminal::{counted, print_data, warn};

/// Predict with a trained network: classes with probabilities or numbers for rows, or generated text
#[derive(Args)]
#[command(after_help = "\
Examples:
  glassgrad predict runs/iris flowers.csv
  glassgrad predict runs/iris flowers.csv --out predictions.csv
  glassgrad predict runs/mnist t10k-images-idx3-ubyte.gz --json
  glassgrad predict runs/sonnets --prompt 'Shall I compare'")]
pub(crate) struct Predict {
    /// Directory of an experiment, or model file
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Input: a table (.csv, .csv.gz, .tsv) with the columns of the training data, or an array (.npy, idx)
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Write the table with its predictions to a file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    table: TableOptions,

    /// Prompt of the generated text
    #[arg(long, help_heading = "Text")]
    prompt: Option<String>,

    /// Number of characters to generate
    #[arg(long, default_value_t = 400, help_heading = "Text")]
    length: usize,

    /// Sampling temperature; 0 always takes the most likely character
    #[arg(long, default_value_t = 0.7, help_heading = "Text")]
    temperature: f64,

    /// Random seed of the sampling
    #[arg(long, default_value_t = 0, help_heading = "Text")]
    seed: u64,

    /// One JSON object on standard output
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    device: DeviceChoice,
}

/// How the input table is read; what is not given is as in training.
#[derive(Args)]
struct TableOptions {
    /// Treatment of rows with missing values [default: as in training]
    #[arg(long, value_enum, help_heading = "Table")]
    missing: Option<Missing>,

    /// Columns to leave out of the output, by name or number, separated by commas
    #[arg(long, value_name = "COLUMNS", help_heading = "Table")]
    drop: Option<String>,

    /// Character between the cells [default: as in training]
    #[arg(long, value_enum, help_heading = "Table")]
    delimiter: Option<Delimiter>,

    /// Decimal mark of the numbers [default: as in training]
    #[arg(long, value_enum, help_heading = "Table")]
    decimal: Option<Decimal>,

    /// Whether the first line holds column names [default: as in training]
    #[arg(long, value_enum, help_heading = "Table")]
    header: Option<Header>,
}

impl TableOptions {
    /// Reads a table, drops columns and treats missing values. The features of a row are filled with their means in training.
    ///
    /// Returns the table as it is shown, with its gaps, and as the network sees it.
    fn read(&self, path: &Path, model: &Model) -> Result<(Table, Table), Failure> {
        let Model { settings, task, .. } = model;
        let reading = reading(
            self.delimiter.unwrap_or(settings.delimiter),
            self.decimal.unwrap_or(settings.decimal),
            self.header.unwrap_or(settings.header),
        );
        let table = reading.read(path).map_err(reading_failure)?;
        let used = |name: &str| task.columns.iter().any(|(used, _)| used == name);
        let dropped = columns_of(self.drop.as_deref().unwrap_or_default());
        for column in &dropped {
            let place = table.place(column).map_err(|error| Failure::Input(format!("--drop {column}: {error}")))?;
            if used(&table.names()[place]) {
                let message = format!("--drop {column}: the network needs this column; it was trained on it");
                return Err(Failure::Input(message));
            }
        }
        let table = table.without_columns(&dropped).map_err(Failure::input)?;
        if task.columns.is_empty() {
            return Ok((table.clone(), table));
        }
        if let Some((name, _)) = task.columns.iter().find(|(name, _)| !table.names().contains(name)) {
            let needed: Vec<&str> = task.columns.iter().map(|(name, _)| name.as_str()).collect();
            let message = format!(
                "{}: there is no column {name:?}\n  help: {} was trained on the columns {}; the file has {}",
                path.display(),
                task.name,
                needed.join(", "),
                table.names().join(", ")
            );
            return Err(Failure::Input(message));
        }
        let needed: Vec<&str> = task.columns.iter().map(|(name, _)| name.as_str()).collect();
        match self.missing.unwrap_or(settings.missing) {
            Missing::Error => Ok((table.clone(), table)),
            Missing::Drop => {
                let table = table.without_missing_in(&needed).map_err(Failure::input)?;
                Ok((table.clone(), table))
            }
            Missing::Mean => {
                let mut filled = table.clone();
                let mut feature = 0;
                for (name, words) in &task.columns {
                    if let (None, Some(mean)) = (words, task.scale.mean.get(feature)) {
                        filled = filled.filled(name, *mean).map_err(Failure::input)?;
                    }
                    feature += words.as_ref().map_or(1, Vec::len);
                }
                Ok((table, filled))
            }
        }
    }
}

/// Batch size of the prediction.
const AT_ONCE: usize = 1024;

/// No more characters are written at a time.
const LONGEST: usize = 1 << 20;

impl Predict {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.device.clone().run(|| self.run_there())
    }

    fn run_there(self) -> Result<(), Failure> {
        let path = if self.model.is_dir() { self.model.join(MODEL) } else { self.model.clone() };
        let model = model::read(&path)?;
        model.warnings.iter().for_each(|warning| warn(warning));
        if let Kind::Text { alphabet } = &model.task.kind {
            return self.write_text(&model, alphabet);
        }
        let Some(file) = &self.file else {
            return Err(Failure::Input(format!(
                "FILE is missing: a table (.csv) or array (.npy) with the inputs of {}",
                model.task.name
            )));
        };
        if self.prompt.is_some() {
            return Err(Failure::Input(format!("--prompt: {} was not trained on text", model.task.name)));
        }
        let (features, table) = self.read(file, &model)?;
        let predictions = predictions(&model, &features).map_err(Failure::result)?;
        if self.json {
            return print(&format!("{}\n", json!({ "model": model.task.name, "predictions": predictions.rows() })));
        }
        let columns = table.names().iter().cloned().zip(table.columns().iter().cloned());
        let table = Table::new(columns.chain(predictions.columns)).map_err(Failure::result)?;
        match &self.out {
            Some(out) => {
                let written = write_atomically(out, table.to_csv().as_bytes());
                written.map_err(Failure::input)?;
                print(&format!("{} written to {}\n", counted(table.rows(), "row"), out.display()))
            }
            None => print_data(&table.to_csv()),
        }
    }

    /// The features in a file as the network saw them in training, and a table to put predictions beside.
    fn read(&self, path: &Path, model: &Model) -> Result<(Tensor, Table), Failure> {
        let name = path.to_string_lossy().to_lowercase();
        let is_image = matches!(model.task.view, View::Image { .. });
        let (features, table) = match () {
            () if name.ends_with(".npy") => (Tensor::from(read_npy(path).map_err(Failure::input)?), None),
            () if name.contains("idx") => (Tensor::from(Idx::read(path).map_err(Failure::input)?.fractions()), None),
            () => {
                let (table, filled) = self.table.read(path, model)?;
                let features = match model.task.columns.is_empty() {
                    true => pixels(&filled),
                    false => Features { columns: model.task.columns.clone() }.apply(&filled),
                };
                let has_gaps = filled.missing().iter().any(|(_, count)| *count > 0);
                let help = if has_gaps {
                    "\n  see --missing: drop leaves out rows, mean fills in the means of the training data"
                } else {
                    ""
                };
                let features = features.map_err(|error| Failure::Input(format!("{error}{help}")))?;
                (features, (!is_image).then_some(table))
            }
        };
        let (count, numbers) = match features.shape()[..] {
            [count, ref rest @ ..] => (count, rest.iter().product::<usize>()),
            [] => (0, 0),
        };
        if numbers != model.task.view.numbers() {
            let message = format!(
                "{} has {numbers} numbers for each example, and {} was trained on {}",
                path.display(),
                model.task.name,
                model.task.view.numbers()
            );
            return Err(Failure::Input(message));
        }
        let rows = (1..=count).map(|row| row as f64).collect();
        let table = table.map_or_else(|| Table::new([("row", Column::Numbers(rows))]), Ok).map_err(Failure::result)?;
        Ok((features, table))
    }

    fn write_text(&self, model: &Model, alphabet: &[char]) -> Result<(), Failure> {
        let Some(prompt) = &self.prompt else {
            return Err(Failure::Input("--prompt is missing: text generation begins with a prompt".to_owned()));
        };
        if self.length > LONGEST {
            return Err(Failure::Input(format!(
                "--length {}: at most {LONGEST} characters are generated",
                self.length
            )));
        }
        if let Some(unknown) = prompt.chars().find(|character| alphabet.binary_search(character).is_err()) {
            let message = format!("--prompt: {unknown:?} does not occur in the training text");
            return Err(Failure::Input(message));
        }
        let config = Sampling {
            context: model.settings.context,
            length: self.length,
            temperature: self.temperature,
            key: Key::new(self.seed),
        };
        let text = samples::write(&model.network, alphabet, prompt, config).map_err(Failure::input)?;
        match self.json {
            true => print(&format!("{}\n", json!({ "model": model.task.name, "prompt": prompt, "text": text }))),
            false => print(&format!("{prompt}{text}\n")),
        }
    }
}

/// All columns of a table of pixels.
fn pixels(table: &Table) -> Result<Tensor, Error> {
    let columns: Vec<Vec<f64>> = table.names().iter().map(|name| table.numbers(name)).collect::<Result<_, _>>()?;
    let numbers: Vec<f64> = (0..table.rows()).flat_map(|row| columns.iter().map(move |column| column[row])).collect();
    Ok(Tensor::new(&numbers, [table.rows(), columns.len()]))
}

/// The predictions of a network, as columns of a table.
struct Predictions {
    columns: Vec<(String, Column)>,
}

impl Predictions {
    /// An object for each row.
    fn rows(&self) -> Vec<Value> {
        let count = self.columns.first().map_or(0, |(_, column)| column.len());
        let row = |row: usize| {
            let cell = |(name, column): &(String, Column)| {
                let value = match column {
                    Column::Numbers(numbers) => json!(numbers[row]),
                    Column::Words { indices, words } => json!(indices[row].map(|word| &words[word as usize])),
                };
                (name.clone(), value)
            };
            Value::Object(self.columns.iter().map(cell).collect::<Map<_, _>>())
        };
        (0..count).map(row).collect()
    }
}

fn predictions(model: &Model, features: &Tensor) -> Result<Predictions, Error> {
    let look = compile(|(network, inputs): &(Network, Tensor)| network.apply(inputs));
    let inputs = model.task.inputs(features, &model.settings).realise()?;
    let count = inputs.shape()[0];
    let mut outputs: Vec<f64> = Vec::new();
    for begin in (0..count).step_by(AT_ONCE) {
        let end = count.min(begin + AT_ONCE) as isize;
        let part = inputs.slice(&[(begin as isize..end).into()]).detach()?;
        outputs.extend(look.call(&(model.network.clone(), part))?.to_f64_vec()?);
    }
    let mut columns = Vec::new();
    match &model.task.kind {
        Kind::Classes { names } => {
            let classes = predicted_classes(&outputs, names.len()).map(|class| names[class as usize].clone());
            columns.push(("predicted".to_owned(), Column::of_words(classes)));
            let table = Tensor::new(&outputs, [count, names.len()]);
            // A loss that asks yes or no of each class makes probabilities of their own.
            let likely = if model.settings.loss == Loss::Binary { table.sigmoid() } else { table.softmax(-1) };
            let likely = likely.to_f64_vec()?;
            for (class, name) in names.iter().enumerate() {
                let column = likely.iter().skip(class).step_by(names.len()).copied().collect();
                columns.push((format!("p({name})"), Column::Numbers(column)));
            }
        }
        Kind::Numbers { names, scale } => {
            let width = outputs.len() / count.max(1);
            let table = Tensor::new(&outputs, [count, width]);
            let Numbers { means, deviations } = Numbers::of(model.settings.loss, scale, &table)?;
            let column = |numbers: &[f64], place: usize| {
                Column::Numbers(numbers.iter().skip(place).step_by(names.len()).copied().collect())
            };
            for (place, name) in names.iter().enumerate() {
                columns.push((format!("predicted {name}"), column(&means, place)));
                if let Some(deviations) = &deviations {
                    columns.push((format!("deviation of {name}"), column(deviations, place)));
                }
            }
        }
        Kind::Text { .. } => {}
    }
    Ok(Predictions { columns })
}
