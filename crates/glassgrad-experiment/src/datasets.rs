//! The table of named datasets, each with its default settings; and datasets from files.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use glassgrad::Tensor;
use glassgrad::data::files::{Features, Table, read_npz};
use glassgrad::data::{Labelled, Source};
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::rng::Key;

use super::choices::columns_of;
use super::limits::check_examples;
use super::settings::{Activation, Augment, Loss, Model, Number, OptimizerName, Schedule, Settings};
use super::task::{Scaling, Task, View};
use crate::counts::counted;
use crate::failure::Failure;
use crate::sources::{self, ImageSet, ImageSets};

/// A data set that has a name.
pub struct Row {
    pub name: &'static str,
    pub about: &'static str,
    /// Changes to the default settings.
    suit: fn(&mut Settings),
    /// Whether it is at hand without fetching anything.
    pub is_there: fn(&dyn ImageSets) -> bool,
    load: fn(&Settings, &dyn ImageSets) -> Result<Task, Failure>,
}

/// All that have a name.
pub const ROWS: &[Row] = &[
    Row {
        name: "iris",
        about: "150 flowers of three species, by four lengths (embedded)",
        suit: |settings| {
            settings.layers = vec![10];
            settings.activation = Activation::Tanh;
            settings.optimizer = OptimizerName::of("sgd");
            settings.lr = 1.0;
            settings.batch = 0;
            settings.epochs = 100;
            settings.dtype = Number::F64;
        },
        is_there: |_| true,
        load: |settings, _| {
            let view = View::Row { numbers: 4 };
            Task::of(sources::iris().map_err(Failure::result)?, view, Scaling::Columns, settings)
        },
    },
    points("moons", "two interleaving half-moons (synthetic)", |settings| halved(settings, 0.1)),
    points("circles", "two concentric circles (synthetic)", |settings| halved(settings, 0.05)),
    points("spirals", "three spirals (synthetic)", |settings| {
        halved(settings, 0.02);
        settings.layers = vec![32, 32];
        settings.epochs = 200;
    }),
    points("blobs", "three Gaussian blobs (synthetic)", |settings| halved(settings, 0.1)),
    Row {
        name: "digits",
        about: "1,797 handwritten digits of 8×8 pixels (embedded)",
        suit: |settings| {
            settings.layers = vec![256, 128];
            settings.activation = Activation::Relu;
            settings.dropout = 0.3;
            settings.lr = 2e-3;
            settings.schedule = Schedule::Cosine;
            settings.lr_end = 0.01;
            settings.epochs = 40;
        },
        is_there: |_| true,
        load: |settings, _| {
            let view = View::Image { height: 8, width: 8 };
            Task::of(sources::digits().map_err(Failure::result)?, view, Scaling::Whole, settings)
        },
    },
    Row {
        name: "mnist",
        about: "70,000 handwritten digits of 28×28 pixels",
        suit: large_images,
        is_there: |host| host.has(ImageSet::Mnist),
        load: |settings, host| images(settings, host, ImageSet::Mnist),
    },
    Row {
        name: "fashion",
        about: "70,000 pieces of clothing of 28×28 pixels",
        suit: large_images,
        is_there: |host| host.has(ImageSet::FashionMnist),
        load: |settings, host| images(settings, host, ImageSet::FashionMnist),
    },
    Row {
        name: "function",
        about: "a function of one variable with noise (synthetic)",
        suit: |settings| {
            settings.layers = vec![32, 32];
            settings.activation = Activation::Tanh;
            settings.loss = Loss::Mse;
            settings.points = 400;
            settings.noise = 0.05;
            settings.test = 0.25;
            settings.lr = 5e-3;
            settings.epochs = 400;
        },
        is_there: |_| true,
        load: |settings, _| {
            synthetic(settings, |key| sources::function(&settings.function.0, key, settings.points, settings.noise))
        },
    },
];

/// Synthetic points of the plane.
const fn points(name: &'static str, about: &'static str, suit: fn(&mut Settings)) -> Row {
    Row { name, about, suit, is_there: |_| true, load: plane }
}

/// As many points as one likes are there: half of them are for the test.
fn halved(settings: &mut Settings, noise: f64) {
    settings.test = 0.5;
    settings.noise = noise;
}

fn large_images(settings: &mut Settings) {
    settings.layers = vec![512, 128];
    settings.activation = Activation::Relu;
    settings.lr = 1e-3;
    settings.schedule = Schedule::Cosine;
    settings.lr_end = 0.01;
    settings.batch = 128;
    settings.epochs = 10;
}

/// Points of the plane by the name of the data.
fn plane(settings: &Settings, _: &dyn ImageSets) -> Result<Task, Failure> {
    synthetic(settings, |key| sources::synthetic(&settings.data, key, settings.points, settings.noise))
}

/// Points of the plane, or of a function, drawn with the seed.
fn synthetic(settings: &Settings, draw: impl Fn(Key) -> Result<Source, Error>) -> Result<Task, Failure> {
    check_examples(settings.points, 3)?;
    let source = draw(Key::new(settings.seed).fold(9)).map_err(Failure::input)?;
    let numbers = source.feature_names.len();
    let scaling = if numbers == 1 { Scaling::Columns } else { Scaling::None };
    Task::of(source, View::Row { numbers }, scaling, settings)
}

fn images(settings: &Settings, host: &dyn ImageSets, set: ImageSet) -> Result<Task, Failure> {
    let source = host.load(set).map_err(Failure::input)?;
    Task::of(source, View::Image { height: 28, width: 28 }, Scaling::Whole, settings)
}

/// The kind of data that an argument names.
pub enum Data<'d> {
    Named(&'static Row),
    Table(&'d Path),
    Arrays(&'d Path),
    Text(&'d Path),
}

impl Data<'_> {
    /// The name by which settings say what they apply to: of the data set, or of the file type.
    pub fn family(&self) -> &'static str {
        match self {
            Data::Named(row) => row.name,
            Data::Table(_) => "csv",
            Data::Arrays(_) => "npz",
            Data::Text(_) => "txt",
        }
    }
}

/// An error of reading a table, with settings in place of the calls of the library.
pub fn reading_failure(error: Error) -> Failure {
    let message = error.to_string();
    let message = message.replace("state that commas are decimal (Reading::decimal_comma)", "use --decimal comma");
    Failure::Input(message.replace("say that there is no header", "use --header no"))
}

/// Finds a data set by its name, or takes the word for a file.
pub fn find(data: &str) -> Result<Data<'_>, Failure> {
    if let Some(row) = ROWS.iter().find(|row| row.name == data) {
        return Ok(Data::Named(row));
    }
    let path = Path::new(data);
    let lower = data.to_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| lower.ends_with(ending));
    match () {
        () if ends(&[".csv", ".csv.gz", ".tsv"]) => Ok(Data::Table(path)),
        () if ends(&[".npz"]) => Ok(Data::Arrays(path)),
        () if ends(&[".txt"]) => Ok(Data::Text(path)),
        () => {
            let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            let nearest = names.iter().min_by_key(|name| edit_distance(name, &lower));
            let meant = nearest.filter(|name| edit_distance(name, &lower) <= 2);
            let meant = meant.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default();
            let message = format!(
                "there is no data set named {data:?}{meant}: choose one of {}, or a file that ends in .csv, .csv.gz, .tsv, .npz \
                 or .txt",
                names.join(", ")
            );
            Err(Failure::Input(message))
        }
    }
}

/// Refuses a file of a type that cannot be read. Only the command line asks: a request to the studio must not learn which
/// files there are.
pub fn check_file(data: &str) -> Result<(), Failure> {
    match find(data) {
        Err(_) if Path::new(data).is_file() => Err(Failure::Input(format!(
            "{data}: unsupported file type; a data file ends in .csv, .csv.gz, .tsv, .npz or .txt"
        ))),
        _ => Ok(()),
    }
}

/// The number of insertions, deletions and substitutions between two words (Levenshtein distance).
fn edit_distance(first: &str, second: &str) -> usize {
    let second: Vec<char> = second.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=second.len()).collect();
    for (line, own) in first.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (place, other) in second.iter().enumerate() {
            let substituted = diagonal + usize::from(own != *other);
            diagonal = row[place + 1];
            row[place + 1] = substituted.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[second.len()]
}

/// The default settings of a dataset, for a model if one is given.
pub fn suited(data: &str, model: Option<Model>) -> Result<Settings, Failure> {
    let found = find(data)?;
    let mut settings = Settings::default_for(data);
    suit_data(&mut settings, &found);
    settings.model = model.unwrap_or(settings.model);
    suit_model(&mut settings, matches!(found, Data::Text(_)));
    Ok(settings)
}

/// The default settings of the data, with its default model.
fn suit_data(settings: &mut Settings, data: &Data<'_>) {
    match data {
        Data::Named(row) => (row.suit)(settings),
        Data::Table(_) | Data::Arrays(_) => {
            settings.layers = vec![16];
            settings.lr = 5e-3;
            settings.weight_decay = 1e-3;
            settings.dropout = 0.1;
        }
        Data::Text(_) => {
            settings.model = Model::Lstm;
            settings.test = 0.1;
            settings.dropout = 0.2;
            settings.lr = 3e-3;
            settings.clip = 1.0;
            settings.epochs = 10;
            settings.schedule = Schedule::Cosine;
            settings.lr_end = 0.05;
        }
    }
}

/// The default settings of a model; the layers of an MLP are those of the data.
fn suit_model(settings: &mut Settings, is_text: bool) {
    match settings.model {
        Model::Mlp => {}
        Model::Sparse => settings.layers = vec![64, 64],
        Model::Cnn => {
            settings.layers = vec![32, 64, 128];
            settings.dropout = 0.4;
            settings.activation = Activation::Relu;
            settings.epochs = settings.epochs.min(30);
        }
        Model::Rnn | Model::Lstm | Model::Gru => {
            settings.clip = 1.0;
            match is_text {
                true => settings.layers = vec![192],
                false => (settings.layers, settings.dropout) = (vec![64], 0.0),
            }
        }
        Model::Transformer => {
            settings.layers = if is_text { vec![128; 3] } else { vec![32; 2] };
            settings.optimizer = OptimizerName::of("adamw");
            settings.lr = 2e-3;
            settings.clip = 1.0;
            settings.warmup = 50;
        }
        Model::Gpt => {
            settings.layers = vec![128; 3];
            settings.optimizer = OptimizerName::of("adamw");
            settings.weight_decay = 0.1;
            settings.dropout = 0.2;
            settings.lr = 3e-3;
            settings.clip = 1.0;
            settings.warmup = 100;
            settings.batch = 64;
            settings.epochs = 14;
        }
        Model::Resnet => {
            settings.layers = vec![16, 32];
            settings.dropout = 0.0;
            settings.augment = Augment::Crop;
            settings.optimizer = OptimizerName::of("adamw");
            settings.weight_decay = 0.05;
            settings.lr = 3e-3;
            settings.warmup = 50;
            settings.schedule = Schedule::Cosine;
            settings.lr_end = 0.01;
            settings.batch = settings.batch.max(64);
            settings.epochs = settings.epochs.min(20);
        }
    }
}

/// Reads or makes what the settings ask for.
pub fn load(settings: &Settings, host: &dyn ImageSets) -> Result<Task, Failure> {
    settings.check()?;
    match find(&settings.data)? {
        Data::Named(row) => (row.load)(settings, host),
        Data::Table(path) => {
            let table = settings.reading().read(path).map_err(reading_failure)?;
            let (table, target) = prepared(table, settings)?;
            of_table(&table, &target, settings)
        }
        Data::Arrays(path) => {
            let (source, view) = arrays(path, settings).map_err(Failure::input)?;
            let scaling = if matches!(view, View::Image { .. }) { Scaling::Whole } else { Scaling::Columns };
            Task::of(source, view, scaling, settings)
        }
        Data::Text(path) => {
            let text = text(path)?;
            Task::of_text(&stem(path), &text, settings)
        }
    }
}

/// The table without dropped columns and without missing values, and its target column.
pub fn prepared(table: Table, settings: &Settings) -> Result<(Table, String), Failure> {
    let target = settings.target().map(|target| table.place(target)).transpose().map_err(Failure::input)?;
    let dropped = columns_of(&settings.drop);
    let mut places = dropped.iter().map(|name| table.place(name)).collect::<Result<Vec<_>, _>>().map_err(|error| {
        Failure::Input(format!(
            "--drop {}: {error}\n  a column whose name has a comma is dropped by its number",
            settings.drop
        ))
    })?;
    places.sort_unstable();
    places.dedup();
    if let Some(place) = target.filter(|place| places.contains(place)) {
        let name = &table.names()[place];
        return Err(Failure::Input(format!("--drop {}: the column {name:?} is the target", settings.drop)));
    }
    let names = table.names().to_vec();
    let table = table.without_columns(&dropped).map_err(Failure::input)?;
    let target = match target {
        None => "-1".to_owned(),
        // By name where it has one of its own, else by its number among the columns that are left.
        Some(place) if names.iter().filter(|name| **name == names[place]).count() == 1 => names[place].clone(),
        Some(place) => (place - places.iter().filter(|dropped| **dropped < place).count()).to_string(),
    };
    let treated = settings.missing.treated(table, &target).map_err(missing_help)?;
    Ok((treated, target))
}

/// An error about missing values, with the settings that treat them.
fn missing_help(error: Error) -> Failure {
    Failure::Input(format!(
        "{error}\n  see --missing: drop leaves out rows, mean fills in numbers; --drop leaves out columns"
    ))
}

/// The task of a table that [`prepared`] returned; its name is that of the data in the settings.
pub fn of_table(table: &Table, target: &str, settings: &Settings) -> Result<Task, Failure> {
    // The width is known from the words of the table, before any vector is allocated.
    let features = Features::of(table, target).map_err(Failure::input)?;
    check_examples(table.rows(), features.width())?;
    let name = Path::new(&settings.data).file_name();
    let name = name.map_or_else(|| settings.data.clone(), |name| name.to_string_lossy().into_owned());
    let classes = settings.target_type.is_classes();
    let has_gaps = table.missing().iter().any(|(_, count)| *count > 0);
    let source = table.source(name.split('.').next().unwrap_or(&name), Some(target), classes);
    let source = source.map_err(|error| if has_gaps { missing_help(error) } else { Failure::input(error) })?;
    let numbers = source.feature_names.len();
    let mut task = Task::of(source, View::Row { numbers }, Scaling::Columns, settings)?;
    task.about.columns = features.columns;
    Ok(task)
}

/// Whether the target of a table is a number rather than a class.
pub fn is_regression(table: &Table, target: &str, settings: &Settings) -> Result<bool, Failure> {
    let column = table.column(target).map_err(Failure::input)?;
    Ok(!settings.target_type.is_classes().unwrap_or_else(|| column.is_categorical()))
}

/// The name of a file without its ending.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Larger texts would take longer than anyone waits for.
const LARGEST_TEXT: u64 = 64 << 20;

fn text(path: &Path) -> Result<String, Failure> {
    let failed = |message: String| Failure::Input(format!("cannot read {}: {message}", path.display()));
    let mut bytes = Vec::new();
    // A pipe or a device has no length to ask for, and may never end.
    std::fs::File::open(path)
        .and_then(|file| file.take(LARGEST_TEXT + 1).read_to_end(&mut bytes))
        .map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > LARGEST_TEXT {
        return Err(failed(format!("it has more than {LARGEST_TEXT} bytes, the maximum")));
    }
    String::from_utf8(bytes)
        .map_err(|error| failed(format!("byte {} is no UTF-8 character", error.utf8_error().valid_up_to())))
}

/// The names of the arrays in an NPZ file: features, and targets.
const FEATURES: [&str; 4] = ["x", "X", "features", "images"];
const TARGETS: [&str; 4] = ["y", "Y", "targets", "labels"];

/// Features and targets of a file of NumPy's: whole numbers are classes, others are numbers; three axes are images.
fn arrays(path: &Path, settings: &Settings) -> Result<(Source, View), Error> {
    let arrays = read_npz(path)?;
    let find = |names: [&str; 4]| {
        let found = names.iter().find_map(|name| arrays.get(*name));
        found.cloned().map(Tensor::from).ok_or_else(|| {
            let held: Vec<&str> = arrays.keys().map(String::as_str).collect();
            let message =
                format!("{} has none of the arrays {}; it has {}", path.display(), names.join(", "), held.join(", "));
            Error::new("data", message)
        })
    };
    let (features, targets) = (find(FEATURES)?, find(TARGETS)?);
    let view = match features.shape()[..] {
        [_, numbers] => View::Row { numbers },
        [_, height, width] | [_, 1, height, width] => View::Image { height, width },
        _ => {
            let message = format!(
                "features of the shape {}; rows are [examples, numbers], images [examples, height, width]",
                features.shape()
            );
            return Err(Error::new("data", message));
        }
    };
    let features = if features.is_float() { features } else { features.cast(DType::F32) };
    let is_classes = settings.target_type.is_classes().unwrap_or(!targets.is_float() && targets.rank() == 1);
    let examples = match is_classes {
        true => {
            let indices = targets.cast(DType::I64);
            let classes: BTreeSet<i64> = indices.to_vec::<i64>()?.into_iter().collect();
            let (distinct, rows) = (classes.len(), indices.shape().elements());
            if distinct > FEW_CLASSES && distinct.saturating_mul(2) > rows {
                let message = format!(
                    "{}: the targets are {distinct} classes in {rows} examples, fewer than two of each",
                    path.display()
                );
                return Err(
                    Error::new("data", message).help("if they are measurements, ask for --target-type regression")
                );
            }
            let count = classes.last().map_or(0, |largest| largest.saturating_add(1));
            let names = (0..count.clamp(0, MOST_CLASSES)).map(|class| class.to_string()).collect();
            Labelled::classes(features, indices, names)?
        }
        false => {
            let (rows, columns) = match targets.shape()[..] {
                [rows] => (rows, 1),
                [rows, columns] => (rows, columns),
                _ => return Err(Error::new("data", format!("targets of the shape {}", targets.shape()))),
            };
            let names = (0..columns).map(|column| format!("y{column}")).collect();
            Labelled::numbers(features, targets.cast(DType::F64).reshape([rows, columns]), names)?
        }
    };
    let feature_names = match view {
        View::Row { numbers } => (0..numbers).map(|number| format!("x{number}")).collect(),
        _ => Vec::new(),
    };
    let title = format!("{} from {}", counted(examples.len(), "example"), path.display());
    Ok((Source { name: stem(path), title, feature_names, examples, test: None }, view))
}

/// The number of classes up to which they may be nearly all different: a file of few examples is a test.
const FEW_CLASSES: usize = 10;

/// More classes than this are a mistake.
const MOST_CLASSES: i64 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Missing, Target};

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest_one() {
        let refused = |name: &str| find(name).err().map(|failure| failure.to_string()).expect("refused");
        assert!(refused("irirs").contains("did you mean iris?"));
        assert!(refused("Moon").contains("did you mean moons?"));
        assert!(!refused("weather").contains("did you mean"));
        assert_eq!((edit_distance("kitten", "sitting"), edit_distance("", "abc"), edit_distance("a", "a")), (3, 3, 0));
        // A file that is there is no misspelt name.
        let unsupported = check_file("Cargo.toml").expect_err("refused").to_string();
        assert!(unsupported.contains("unsupported file type"), "{unsupported}");
        assert!(check_file("irirs").is_ok());
    }

    #[test]
    fn missing_values_name_the_setting() {
        let settings = Settings::default_for("gaps.csv");
        let table = Table::parse("a,b\n1,2\n,3\n4,5\n").expect("a table");
        let (table, target) = prepared(table, &settings).expect("nothing is treated");
        let refused = of_table(&table, &target, &settings).err().map(|failure| failure.to_string()).expect("refused");
        assert!(refused.contains("--missing"), "{refused}");
    }

    #[test]
    fn columns_are_dropped_by_name_or_number_and_the_target_stays() {
        let table = Table::parse("id,size,y,note\n1,2,3,a\n2,4,5,b\n3,,7,c\n4,8,,d\n").expect("a table");
        let change = |drop: &str, target: &str, missing| Settings {
            drop: drop.to_owned(),
            target: target.to_owned(),
            missing,
            ..Settings::default_for("t.csv")
        };
        let names = |settings: &Settings| {
            let (table, target) = prepared(table.clone(), settings).unwrap_or_else(|failure| panic!("{failure}"));
            (table.names().join(" "), table.names()[table.place(&target).expect("the target")].clone(), table.rows())
        };
        let expected = |names: &str, target: &str, rows| (names.to_owned(), target.to_owned(), rows);
        assert_eq!(names(&change("id, note", "", Missing::Drop)), expected("size y", "y", 2));
        assert_eq!(names(&change("0,3", "2", Missing::Drop)), expected("size y", "y", 2));
        // A missing target is not filled with the mean of the others.
        assert_eq!(names(&change("note", "y", Missing::Mean)), expected("id size y", "y", 3));
        assert_eq!(names(&change("", "size", Missing::Error)), expected("id size y note", "size", 4));
        for (settings, expected) in [
            (change("y", "y", Missing::Error), "--drop y: the column \"y\" is the target"),
            (change("colour", "", Missing::Error), "--drop colour: table: there is no column \"colour\""),
        ] {
            let message = prepared(table.clone(), &settings).expect_err("refused").to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }

    #[test]
    fn numeric_targets_get_their_defaults_before_a_run_begins() {
        let table = Table::parse("x,y\n1,1.5\n2,2.5\n3,3.5\n").expect("a table");
        assert!(is_regression(&table, "y", &Settings::default_for("t.csv")).expect("a column"));
        let settings = Settings { target_type: Target::Classification, ..Settings::default_for("t.csv") };
        assert!(!is_regression(&table, "y", &settings).expect("a column"));
    }
}
