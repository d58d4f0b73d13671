//! The settings of an experiment, a row each: name, type, default, title, help, range, and where it applies.
//!
//! A row makes the field of [`Settings`] and of [`Options`], the flag of the command line, the JSON key, the field of the
//! studio's form, the range check and the part of the reproducing command line. Adding a setting is adding a row.

use glassgrad::data::files::Reading;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use super::choices::{
    Activation, Augment, Decimal, Delimiter, Engine, FunctionName, Header, Init, Loss, Missing, Model, Number,
    OptimizerName, Precision, Reduction, Schedule, Target, name_of,
};
use super::choices::{Kind, Typed, reading};
#[cfg(feature = "cli")]
use super::choices::{count_u64, count_usize, width};
use crate::failure::Failure;

/// The largest decay and noise: far beyond any use, and far below where their products overflow.
const LARGEST: f64 = 1e6;
/// The largest learning rate: any run diverges by it, and it is still a number in 32 bits.
pub const LARGEST_RATE: f64 = 1e30;
/// The largest count of anything but weights. Sums and products of a few of them fit into 64 bits.
const MOST: u64 = 1 << 31;
/// The widest layer, and the longest of anything else, in the studio.
const WIDEST: usize = 4096;

/// The section of the studio's form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Main,
    /// Among the advanced settings.
    More,
    /// The studio decides on it.
    Hidden,
}

/// The data sets and models that a setting applies to; an empty list is all of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Applies {
    pub data: &'static [&'static str],
    pub models: &'static [&'static str],
}

const ALL: Applies = Applies { data: &[], models: &[] };
const SYNTHETIC: Applies = Applies { data: &["moons", "circles", "spirals", "blobs", "function"], models: &[] };
const TABLES: Applies = Applies { data: &["csv"], models: &[] };
const FILES: Applies = Applies { data: &["csv", "npz"], models: &[] };

const fn models(models: &'static [&'static str]) -> Applies {
    Applies { data: &[], models }
}

/// A setting: its metadata besides the type.
pub struct Row {
    pub name: &'static str,
    pub title: &'static str,
    pub help: &'static str,
    pub form: Form,
    pub applies: Applies,
    pub kind: fn() -> Kind,
    /// The value as JSON.
    pub value: fn(&Settings) -> Value,
    /// The value as the command line takes it.
    pub shown: fn(&Settings) -> String,
    /// The range that a value must be in, if it is not.
    outside: fn(&Settings) -> Option<&'static str>,
    /// The same for the narrower range of the studio.
    outside_of_studio: fn(&Settings) -> Option<&'static str>,
}

impl Row {
    /// The flag of the command line.
    pub fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }
}

/// The range of a check that fails.
macro_rules! failed {
    ($settings:ident, $name:ident, $Type:ty) => {
        None
    };
    ($settings:ident, $name:ident, $Type:ty, $valid:expr, $range:literal) => {{
        let valid: fn(&$Type) -> bool = $valid;
        (!valid(&$settings.$name)).then_some($range)
    }};
}

macro_rules! settings {
    ($($group:literal { $(
        $name:ident: $Type:ty = $default:expr, $title:literal, $form:ident, $applies:expr, $help:literal
        $(, range($valid:expr, $range:literal))?
        $(, studio($studio:expr, $studio_range:literal))?
        $(, arg($($arg:tt)*))?;
    )* })*) => {
        /// All that has to be known to train the same network again.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        pub struct Settings {
            /// The name of a data set, or the path of a file.
            pub data: String,
            $($(#[doc = $help] pub $name: $Type,)*)*
        }

        /// The settings that a person asks for, on the command line or in the studio; the others are chosen to suit the data.
        #[derive(Clone, Debug, Default)]
        #[cfg_attr(feature = "cli", derive(clap::Args))]
        pub struct Options {
            $($(#[doc = $help]
            #[cfg_attr(feature = "cli", arg(long, help_heading = $group $(, $($arg)*)?))]
            pub $name: Option<$Type>,)*)*
        }

        /// The settings, a row each.
        pub const ROWS: &[Row] = &[$($(Row {
            name: stringify!($name),
            title: $title,
            help: $help,
            form: Form::$form,
            applies: $applies,
            kind: <$Type as Typed>::kind,
            value: |settings| json!(settings.$name),
            shown: |settings| settings.$name.shown(),
            outside: |_settings| failed!(_settings, $name, $Type $(, $valid, $range)?),
            outside_of_studio: |_settings| failed!(_settings, $name, $Type $(, $studio, $studio_range)?),
        },)*)*];

        impl Settings {
            /// The defaults, which suit most data sets.
            pub fn default_for(data: &str) -> Settings {
                Settings { data: data.to_owned(), $($($name: $default,)*)* }
            }
        }

        impl Options {
            /// Overrides the settings that were given.
            pub fn change(&self, settings: &mut Settings) {
                $($(if let Some(value) = &self.$name { settings.$name = value.clone(); })*)*
            }

            /// The settings that were given.
            pub fn given(&self) -> Vec<&'static Row> {
                let names: Vec<&str> = [$($(self.$name.as_ref().map(|_| stringify!($name)),)*)*].into_iter().flatten().collect();
                ROWS.iter().filter(|row| names.contains(&row.name)).collect()
            }

            /// Parses the given settings; the error is the title of the setting that is invalid.
            pub fn read(given: &Map<String, Value>) -> Result<Options, String> {
                let mut options = Options::default();
                for (name, value) in given {
                    match name.as_str() {
                        $($(stringify!($name) => {
                            let read = <$Type as Typed>::read(value).map_err(|error| format!("{}: {error}", $title))?;
                            options.$name = Some(read);
                        })*)*
                        _ => return Err(format!("there is no setting {name:?}")),
                    }
                }
                Ok(options)
            }
        }
    };
}

settings! {
    "Network" {
        model: Model = Model::Mlp, "Model", Main, ALL, "Network architecture";
        layers: Vec<usize> = vec![16, 16], "Layers", Main, ALL,
            "Hidden layer widths, as in 16,16; for cnn, convolution channels and then the width of the last hidden layer",
            studio(|layers| layers.len() <= 12 && layers.iter().all(|width| *width <= WIDEST), "at most 12 layers, each at most 4096 wide"),
            arg(value_delimiter = ',', value_name = "WIDTHS", value_parser = width);
        activation: Activation = Activation::Tanh, "Activation", Main, models(&["mlp", "sparse", "cnn"]), "Activation function";
        init: Init = Init::Uniform, "Initialization", More, ALL, "Weight initialization";
        dropout: f64 = 0.0, "Dropout", More, models(&["mlp", "cnn", "rnn", "lstm", "gru", "transformer", "gpt"]), "Dropout probability",
            range(|p| (0.0..1.0).contains(p), "from 0 to below 1"), arg(allow_negative_numbers = true);
        heads: usize = 4, "Attention heads", More, models(&["transformer", "gpt"]), "Number of attention heads of a transformer",
            range(|heads| *heads as u64 <= MOST, "at most 2147483648"),
            studio(|heads| *heads <= WIDEST, "at most 4096"), arg(value_parser = count_usize, allow_negative_numbers = true);
        fan_in: usize = 8, "Fan-in", More, models(&["sparse"]), "Number of inputs of each unit of a sparse layer",
            range(|count| *count as u64 <= MOST, "at most 2147483648"),
            studio(|count| *count <= WIDEST, "at most 4096"), arg(value_parser = count_usize, allow_negative_numbers = true);
        context: usize = 64, "Context length", Hidden, ALL, "Context length in characters, for texts",
            range(|length| *length as u64 <= MOST, "at most 2147483648"),
            studio(|length| *length <= WIDEST, "at most 4096"), arg(value_parser = count_usize, allow_negative_numbers = true);
    }
    "Training" {
        loss: Loss = Loss::CrossEntropy, "Loss function", More, ALL, "Loss function";
        reduction: Reduction = Reduction::Mean, "Reduction", More, ALL, "Whether the loss of a batch is the mean or the sum over its examples";
        optimizer: OptimizerName = OptimizerName::of("adam"), "Optimizer", Main, ALL, "Optimizer";
        lr: f64 = 1e-2, "Learning rate", Main, ALL, "Learning rate",
            range(|rate| *rate > 0.0 && *rate <= LARGEST_RATE, "the learning rate must be a positive number up to 1e30"),
            arg(allow_negative_numbers = true);
        momentum: f64 = 0.0, "Momentum", More, ALL, "Momentum",
            range(|momentum| (0.0..1.0).contains(momentum), "from 0 to below 1"), arg(allow_negative_numbers = true);
        weight_decay: f64 = 0.0, "Weight decay", More, ALL, "Decoupled weight decay",
            range(|decay| (0.0..=LARGEST).contains(decay), "from 0 to 1000000"), arg(allow_negative_numbers = true);
        clip: f64 = 0.0, "Gradient clipping", More, ALL, "Clip gradients to this norm; 0 disables clipping",
            range(|norm| norm.is_finite() && *norm >= 0.0, "0 or a positive number"), arg(allow_negative_numbers = true);
        schedule: Schedule = Schedule::Constant, "Schedule", More, ALL, "Learning rate schedule";
        lr_end: f64 = 0.1, "Final rate factor", More, ALL, "Final learning rate of a schedule, as a fraction of --lr",
            range(|factor| *factor > 0.0 && *factor <= 1.0, "a fraction of the learning rate, above 0 and up to 1"), arg(allow_negative_numbers = true);
        warmup: u64 = 0, "Warm-up steps", More, ALL, "Number of warm-up steps, in which the learning rate rises linearly from zero",
            range(|steps| *steps <= MOST, "at most 2147483648"), arg(value_parser = count_u64, allow_negative_numbers = true);
        epochs: u64 = 100, "Epochs", Main, ALL, "Number of passes over the training set",
            range(|epochs| *epochs <= MOST, "at most 2147483648"),
            studio(|epochs| (1..=100_000).contains(epochs), "from 1 to 100000"), arg(value_parser = count_u64, allow_negative_numbers = true);
        batch: usize = 32, "Batch size", Main, ALL, "Batch size; 0 is the whole training set", arg(value_parser = count_usize, allow_negative_numbers = true);
        shards: usize = 1, "Shards", Hidden, ALL,
            "Number of shards that each batch is split into, a power of two: results depend on it, and not on the number of ranks [default: 1; with several ranks 8, or one for each]",
            range(|shards| shards.is_power_of_two() && *shards <= 65536, "a power of two up to 65536"),
            studio(|shards| *shards == 1, "1: the studio trains on whole batches"),
            arg(value_parser = count_usize, allow_negative_numbers = true);
        seed: u64 = 0, "Random seed", More, ALL, "Random seed of the split, the initialization and the order of examples", arg(value_parser = count_u64, allow_negative_numbers = true);
        dtype: Number = Number::F32, "Element type", More, ALL, "Floating-point type of the parameters";
        precision: Precision = Precision::Full, "Precision", More, ALL, "Precision of the forward and backward pass";
        augment: Augment = Augment::None, "Augmentation", More, models(&["resnet"]), "Augmentation of training images";
        engine: Engine = Engine::Tensor, "Engine", Hidden, ALL, "Automatic-differentiation engine";
    }
    "Data" {
        test: f64 = 0.2, "Test fraction", More, ALL, "Fraction of the examples held out as test set, where the data set has none of its own",
            range(|fraction| (0.0..1.0).contains(fraction), "a fraction from 0 to below 1 is held out as test set"), arg(allow_negative_numbers = true);
        points: usize = 1000, "Examples", Main, SYNTHETIC, "Number of examples of a synthetic data set",
            range(|count| *count as u64 <= MOST, "at most 2147483648"),
            studio(|count| (2..=20_000).contains(count), "from 2 to 20000"), arg(value_parser = count_usize, allow_negative_numbers = true);
        noise: f64 = 0.1, "Noise", Main, SYNTHETIC, "Standard deviation of the noise of a synthetic data set",
            range(|noise| (0.0..=LARGEST).contains(noise), "from 0 to 1000000"), arg(allow_negative_numbers = true);
        function: FunctionName = FunctionName("sine".to_owned()), "Function", Main, Applies { data: &["function"], models: &[] },
            "Function to fit: a name, or an expression in x such as 'sin(3*x)'", arg(value_name = "FUNCTION", allow_hyphen_values = true);
        target: String = String::new(), "Target column", Main, TABLES,
            "Target column of a table, by name or number [default: the last]";
        target_type: Target = Target::Auto, "Target type", More, FILES, "Whether the target of a table is a class or a number";
        drop: String = String::new(), "Dropped columns", Main, TABLES,
            "Columns of a table to leave out, by name or number, separated by commas", arg(value_name = "COLUMNS");
        missing: Missing = Missing::Error, "Missing values", Main, TABLES, "Treatment of rows with missing values";
        delimiter: Delimiter = Delimiter::Auto, "Delimiter", More, TABLES, "Character between the cells of a table";
        decimal: Decimal = Decimal::Auto, "Decimal mark", More, TABLES, "Decimal mark of the numbers of a table";
        header: Header = Header::Auto, "Header", More, TABLES, "Whether the first line of a table holds column names";
    }
}

impl Settings {
    /// Refuses values out of their ranges, with the flag to change.
    pub fn check(&self) -> Result<(), Failure> {
        self.within(|row| (row.outside)(self))
    }

    /// The same for the narrower ranges of the studio.
    pub fn check_for_studio(&self) -> Result<(), Failure> {
        self.check()?;
        self.within(|row| (row.outside_of_studio)(self))
    }

    fn within(&self, outside: impl Fn(&Row) -> Option<&'static str>) -> Result<(), Failure> {
        match ROWS.iter().find_map(|row| outside(row).map(|range| (row, range))) {
            Some((row, range)) => Err(Failure::Input(format!("{} {}: {range}", row.flag(), (row.shown)(self)))),
            None => Ok(()),
        }
    }

    /// Whether the number of examples is a setting.
    pub fn is_synthetic(&self) -> bool {
        SYNTHETIC.data.contains(&self.data.as_str())
    }

    /// How a table is to be read.
    pub fn reading(&self) -> Reading {
        reading(self.delimiter, self.decimal, self.header)
    }

    /// The column to predict, if it is not the last one.
    pub fn target(&self) -> Option<&str> {
        (!self.target.is_empty()).then_some(self.target.as_str())
    }

    /// A line about the network: its architecture and its widths.
    pub fn network(&self, inputs: usize, outputs: usize) -> String {
        let widths: Vec<String> =
            [&[inputs], &self.layers[..], &[outputs]].concat().iter().map(usize::to_string).collect();
        let between = match self.model {
            Model::Mlp | Model::Sparse | Model::Cnn => format!(" {}", name_of(self.activation)),
            Model::Rnn | Model::Lstm | Model::Gru | Model::Transformer | Model::Gpt | Model::Resnet => String::new(),
        };
        format!("{} {}{between}", name_of(self.model), widths.join("-"))
    }
}

/// Settings that a file does not state, as one of an earlier version, are the defaults.
impl<'d> Deserialize<'d> for Settings {
    fn deserialize<D: serde::Deserializer<'d>>(deserializer: D) -> Result<Settings, D::Error> {
        let mut given = Map::deserialize(deserializer)?;
        let Some(Value::String(data)) = given.remove("data") else {
            return Err(serde::de::Error::custom("the settings name no data"));
        };
        let options = Options::read(&given).map_err(serde::de::Error::custom)?;
        let mut settings = Settings::default_for(&data);
        options.change(&mut settings);
        Ok(settings)
    }
}

impl<'d> Deserialize<'d> for Options {
    fn deserialize<D: serde::Deserializer<'d>>(deserializer: D) -> Result<Options, D::Error> {
        Options::read(&Map::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// A value of JSON as the command line takes it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// The fields of the studio's form.
pub fn form() -> Value {
    let field = |row: &Row| {
        let kind = match (row.kind)() {
            Kind::Choice(choices) => {
                Kind::Choice(choices.into_iter().map(|(name, about)| (name, in_form(&about))).collect())
            }
            kind => kind,
        };
        json!({
            "name": row.name, "title": row.title, "help": in_form(row.help), "kind": kind.to_json(),
            "more": row.form == Form::More, "data": row.applies.data, "models": row.applies.models,
        })
    };
    ROWS.iter().filter(|row| row.form != Form::Hidden).map(field).collect()
}

/// A message of the library with flags in place of its calls.
pub fn in_flags(message: &str) -> String {
    const CALLS: &[(&str, &str)] = &[
        ("gradients clipped with .clip_norm(1.0)", "gradient clipping with --clip 1"),
        (".clip_norm(1.0)", "--clip 1"),
        ("a lower rate", "a lower --lr"),
        ("a lower learning rate", "a lower --lr"),
        ("another initializer (Initializer::He, Initializer::Xavier)", "--init he or --init xavier"),
        ("Activation::LeakyRelu, Initializer::He", "--activation leaky-relu, --init he"),
        ("Precision::Bf16, or Precision::Full", "--precision bf16 or --precision full"),
        ("Precision::Bf16", "--precision bf16"),
        ("Precision::Full", "--precision full"),
        ("\n  the last good parameters are in .last_good", ""),
    ];
    CALLS.iter().fold(message.to_owned(), |message, (call, flag)| message.replace(call, flag))
}

/// A message of the command line with the titles of the form in place of flags.
pub fn in_form(message: &str) -> String {
    let mut rows: Vec<&Row> = ROWS.iter().collect();
    // The longest first, as --lr is the beginning of --lr-end.
    rows.sort_by_key(|row| std::cmp::Reverse(row.name.len()));
    rows.iter().fold(message.to_owned(), |message, row| message.replace(&row.flag(), row.title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datasets;

    /// A value of a setting that is not its default.
    #[cfg(feature = "cli")]
    fn other(row: &Row, settings: &Settings) -> Value {
        let usual = (row.value)(settings);
        match (row.kind)() {
            Kind::Number if usual.is_f64() => json!(0.375),
            Kind::Number => json!(3),
            Kind::Widths => json!([8, 4]),
            Kind::Text => json!("a column"),
            Kind::Suggested(_) => json!("sin(3*x) +1"),
            Kind::Choice(choices) => {
                let other = choices.iter().map(|(name, _)| json!(name)).find(|name| *name != usual);
                other.unwrap_or_else(|| panic!("{} has one choice", row.name))
            }
        }
    }

    #[cfg(feature = "cli")]
    #[test]
    fn a_row_is_a_flag_and_a_key_and_a_field_and_a_word_of_the_command_line() {
        use crate::command::command;
        use clap::{Args as _, FromArgMatches as _};
        let usual = datasets::suited("function", None).unwrap_or_else(|failure| panic!("{failure}"));
        let parser = || Options::augment_args(clap::Command::new("train").no_binary_name(true));
        let fields = form();
        for row in ROWS {
            // A flag with the help of the row.
            let command_of_row = parser();
            let flag = command_of_row.get_arguments().find(|argument| argument.get_id() == row.name);
            let flag = flag.unwrap_or_else(|| panic!("no flag {}", row.name));
            assert_eq!(flag.get_long().map(|long| format!("--{long}")), Some(row.flag()));
            assert_eq!(flag.get_help().map(ToString::to_string).as_deref(), Some(row.help));
            // A key of JSON, which keeps its value.
            let value = other(row, &usual);
            let given: Map<String, Value> = [(row.name.to_owned(), value.clone())].into_iter().collect();
            let options = Options::read(&given).unwrap_or_else(|error| panic!("{error}"));
            let mut settings = usual.clone();
            options.change(&mut settings);
            assert_ne!(settings, usual, "{}", row.name);
            assert_eq!((row.value)(&settings), value);
            let text = serde_json::to_string(&settings).expect("JSON");
            assert_eq!(serde_json::from_str::<Settings>(&text).expect("settings"), settings);
            // A field of the form.
            let field = fields.as_array().expect("fields").iter().find(|field| field["name"] == row.name);
            assert_eq!(field.is_some(), row.form != Form::Hidden, "{}", row.name);
            // A word of the command line, which asks for the same.
            let line = command(&settings);
            let words = line.strip_prefix("glassgrad train function ").unwrap_or_else(|| panic!("{line}"));
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let words = match words.as_slice() {
                // The quotes that a shell takes away.
                [flag, first, second] => vec![flag.clone(), format!("{first} {second}").replace('\'', "")],
                other => other.to_vec(),
            };
            let matches = parser().try_get_matches_from(words).unwrap_or_else(|error| panic!("{error}"));
            let again = Options::from_arg_matches(&matches).expect("options");
            let mut read = datasets::suited("function", again.model).unwrap_or_else(|failure| panic!("{failure}"));
            again.change(&mut read);
            assert_eq!(read, settings, "{line}");
        }
    }

    #[test]
    fn settings_of_an_earlier_version_are_read_with_defaults() {
        let settings: Settings = serde_json::from_str(r#"{"data": "moons", "lr": 0.5}"#).expect("settings");
        assert_eq!(settings, Settings { lr: 0.5, ..Settings::default_for("moons") });
        let refused = serde_json::from_str::<Settings>(r#"{"lr": 0.5}"#).expect_err("refused").to_string();
        assert!(refused.contains("name no data"), "{refused}");
    }

    #[test]
    fn wrong_values_are_refused_with_the_title_of_the_setting() {
        for (name, value, expected) in [
            (
                "layers",
                json!("abc"),
                "Layers: expected whole numbers with commas between them, as in 16, 16, not \"abc\"",
            ),
            ("batch", json!("many"), "Batch size: expected a whole number of at least 0, not \"many\""),
            ("batch", json!(-1), "Batch size: expected a whole number of at least 0, not -1"),
            ("lr", json!(null), "Learning rate: expected a number, not null"),
            (
                "model",
                json!("tree"),
                "Model: expected one of mlp, sparse, cnn, rnn, lstm, gru, transformer, gpt, resnet, not \"tree\"",
            ),
            ("nothing", json!(1), "there is no setting \"nothing\""),
        ] {
            let given: Map<String, Value> = [(name.to_owned(), value)].into_iter().collect();
            assert_eq!(Options::read(&given).expect_err("refused"), expected);
        }
        assert!(Options::read(&[("function".to_owned(), json!("moons"))].into_iter().collect()).is_err());
        assert_eq!(in_form("--lr-end 3: use --lr"), "Final rate factor 3: use Learning rate");
        assert_eq!(in_form("--dropout, --drop id"), "Dropout, Dropped columns id");
    }

    #[test]
    fn the_form_names_no_flags() {
        assert!(!form().to_string().contains("--"), "{}", form());
        assert!(datasets::ROWS.iter().all(|row| !row.about.contains("--")));
    }

    #[test]
    fn advice_names_settings_and_no_calls() {
        use glassgrad::dtype::DType;
        use glassgrad::train::Diagnostic;
        let parameter = || "layers.0.weight".to_owned();
        for diagnostic in [
            Diagnostic::Vanishing { parameter: parameter(), gradient: 1e-9, largest: 1.0 },
            Diagnostic::Exploding { parameter: parameter(), gradient: 1e9, size: 1.0 },
            Diagnostic::DeadUnits { dead: 3, units: 4, line: "a.rs:1".to_owned() },
            Diagnostic::Overflow { parameter: parameter(), dtype: DType::F16, share: 0.5 },
            Diagnostic::Underflow { parameter: parameter(), dtype: DType::F16, share: 0.5 },
            Diagnostic::Imprecise { parameter: parameter(), dtype: DType::BF16, error: 0.5 },
        ] {
            let (flags, form) = (in_flags(&diagnostic.to_string()), in_form(&in_flags(&diagnostic.to_string())));
            assert!(flags.contains("--") && !flags.contains("::") && !flags.contains("clip_norm"), "{flags}");
            assert!(!form.contains("--"), "{form}");
        }
    }

    #[test]
    fn every_number_has_a_range() {
        let usual = datasets::suited("moons", None).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(usual.check().is_ok() && usual.check_for_studio().is_ok());
        type Change = fn(&mut Settings, f64);
        let changes: [(&str, Change); 8] = [
            ("--lr ", |settings, value| settings.lr = value),
            ("--momentum ", |settings, value| settings.momentum = value),
            ("--weight-decay ", |settings, value| settings.weight_decay = value),
            ("--clip ", |settings, value| settings.clip = value),
            ("--dropout ", |settings, value| settings.dropout = value),
            ("--lr-end ", |settings, value| settings.lr_end = value),
            ("--test ", |settings, value| settings.test = value),
            ("--noise ", |settings, value| settings.noise = value),
        ];
        for (option, change) in changes {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e308] {
                let mut settings = usual.clone();
                change(&mut settings, value);
                let message = settings.check().expect_err(option).to_string();
                assert!(message.starts_with(option), "{message}");
            }
            let mut settings = usual.clone();
            change(&mut settings, 1e308);
            assert_eq!(settings.check().is_ok(), option == "--clip ", "{option}");
        }
        for change in [
            |settings: &mut Settings| settings.epochs = u64::MAX,
            |settings: &mut Settings| settings.warmup = u64::MAX,
            |settings: &mut Settings| settings.points = usize::MAX,
            |settings: &mut Settings| settings.heads = usize::MAX,
            |settings: &mut Settings| settings.fan_in = usize::MAX,
            |settings: &mut Settings| settings.context = usize::MAX,
        ] {
            let mut settings = usual.clone();
            change(&mut settings);
            assert!(settings.check().is_err());
        }
    }
}
