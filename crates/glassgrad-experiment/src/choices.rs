//! The types of settings: choices by name, numbers, lists and texts, each read from JSON with a message for people.

use std::str::FromStr;
use std::sync::LazyLock;

use glassgrad::data::files::{Reading, Table};
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::nn;
use glassgrad::optim::{self, OptimizerRow};
use glassgrad::train;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How a setting is entered in a form.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Number,
    Widths,
    Text,
    /// One of some names, each with a line about it.
    Choice(Vec<(String, String)>),
    /// A text, of which some are suggested.
    Suggested(Vec<&'static str>),
}

/// A type that a setting can have.
pub trait Typed: Serialize + Sized {
    fn kind() -> Kind;

    /// The value as the command line takes it.
    fn shown(&self) -> String {
        super::settings::plain(&json!(self))
    }

    /// Reads a value; an error says what is expected.
    fn read(value: &Value) -> Result<Self, String>;
}

impl Kind {
    pub fn to_json(&self) -> Value {
        match self {
            Kind::Number => json!("number"),
            Kind::Widths => json!("widths"),
            Kind::Text => json!("text"),
            Kind::Choice(choices) => json!(choices),
            Kind::Suggested(texts) => json!({ "suggested": texts }),
        }
    }
}

/// A value as a message quotes it.
fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

impl Typed for f64 {
    fn kind() -> Kind {
        Kind::Number
    }

    /// JSON has no infinities.
    fn shown(&self) -> String {
        self.to_string()
    }

    fn read(value: &Value) -> Result<f64, String> {
        value.as_f64().ok_or_else(|| format!("expected a number, not {}", quoted(value)))
    }
}

macro_rules! whole {
    ($($Type:ty),*) => {$(
        impl Typed for $Type {
            fn kind() -> Kind {
                Kind::Number
            }

            fn read(value: &Value) -> Result<$Type, String> {
                let number = value.as_u64().and_then(|number| number.try_into().ok());
                number.ok_or_else(|| format!("expected a whole number of at least 0, not {}", quoted(value)))
            }
        }
    )*};
}
whole!(usize, u64);

/// A whole number of the command line.
pub fn count_usize(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a whole number of at least 0".to_owned())
}

/// The same of 64 bits.
pub fn count_u64(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected a whole number of at least 0".to_owned())
}

/// One of the widths of the command line.
pub fn width(text: &str) -> Result<usize, String> {
    text.trim().parse().map_err(|_| "expected whole numbers separated by commas, as in 16,16".to_owned())
}

impl Typed for Vec<usize> {
    fn kind() -> Kind {
        Kind::Widths
    }

    fn read(value: &Value) -> Result<Vec<usize>, String> {
        let list = value.as_array().map(|list| list.iter().map(usize::read).collect::<Result<Vec<usize>, String>>());
        match list {
            Some(Ok(widths)) => Ok(widths),
            _ => Err(format!("expected whole numbers with commas between them, as in 16, 16, not {}", quoted(value))),
        }
    }
}

impl Typed for String {
    fn kind() -> Kind {
        Kind::Text
    }

    fn read(value: &Value) -> Result<String, String> {
        value.as_str().map(str::to_owned).ok_or_else(|| format!("expected text, not {}", quoted(value)))
    }
}

/// A type whose values are chosen by name: on the command line, in JSON and in forms.
pub trait Choice: Copy + Sized + 'static {
    /// All values, in the order in which they are offered.
    fn all() -> &'static [Self];

    /// The name that a person writes.
    fn name(self) -> String;

    /// A line about it, or nothing.
    fn about(self) -> &'static str;
}

/// The choice of a name among those of a type.
fn chosen<E: Choice>(value: &Value) -> Result<E, String> {
    let found = value.as_str().and_then(|name| E::all().iter().copied().find(|one| one.name() == name));
    found.ok_or_else(|| {
        let names: Vec<String> = offered::<E>().into_iter().map(|(name, _)| name).collect();
        format!("expected one of {}, not {}", names.join(", "), quoted(value))
    })
}

fn offered<E: Choice>() -> Vec<(String, String)> {
    E::all().iter().map(|one| (one.name(), one.about().to_owned())).collect()
}

/// The name that a person writes.
pub fn name_of<E: Choice>(value: E) -> String {
    value.name()
}

/// The name of a variant as it is written: `LeakyRelu` is `leaky-relu`, as in JSON.
fn kebab_case(variant: &str) -> String {
    let mut name = String::new();
    for letter in variant.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// A choice as the command line offers it.
#[cfg(feature = "cli")]
fn possible_value<E: Choice>(value: E) -> clap::builder::PossibleValue {
    let possible = clap::builder::PossibleValue::new(value.name());
    if value.about().is_empty() { possible } else { possible.help(value.about()) }
}

/// Choices are values of the command line.
macro_rules! values_of_the_command_line {
    ($($Name:ident)*) => {$(
        #[cfg(feature = "cli")]
        impl clap::ValueEnum for $Name {
            fn value_variants<'v>() -> &'v [$Name] {
                $Name::all()
            }

            fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
                Some(possible_value(*self))
            }
        }
    )*};
}

/// Enums whose values are chosen by name.
macro_rules! choices {
    ($($(#[$doc:meta])* $Name:ident { $($(#[doc = $about:literal])* $Variant:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $Name { $($(#[doc = $about])* $Variant,)* }

        impl Choice for $Name {
            fn all() -> &'static [$Name] {
                &[$($Name::$Variant,)*]
            }

            fn name(self) -> String {
                match self {
                    $($Name::$Variant => kebab_case(stringify!($Variant)),)*
                }
            }

            fn about(self) -> &'static str {
                match self {
                    $($Name::$Variant => concat!($($about,)*).trim(),)*
                }
            }
        }

        values_of_the_command_line!($Name);

        impl Typed for $Name {
            fn kind() -> Kind {
                Kind::Choice(offered::<$Name>())
            }

            fn read(value: &Value) -> Result<$Name, String> {
                chosen(value)
            }
        }
    )*};
}

choices! {
    /// The architecture of a network.
    Model {
        /// Multilayer perceptron: linear layers with activations
        Mlp,
        /// Multilayer perceptron with sparse random connectivity (--fan-in)
        Sparse,
        /// Convolutions with pooling, then a linear layer
        Cnn,
        /// Recurrent network that reads an example row by row
        Rnn,
        /// Long short-term memory
        Lstm,
        /// Gated recurrent unit
        Gru,
        /// Transformer: blocks of self-attention
        Transformer,
        /// GPT: a decoder-only Transformer with tied embeddings, for texts
        Gpt,
        /// Residual network with batch normalization, for images
        Resnet,
    }

    /// The precision of the forward and backward pass.
    Precision {
        /// That of the element type
        Full,
        /// Mixed precision: bf16 passes, master weights in the element type
        Bf16,
        /// Mixed precision: f16 passes with dynamic loss scaling
        F16,
    }

    /// The augmentation of training images.
    Augment {
        None,
        /// Random crops of the padded image
        Crop,
        /// Random crops and horizontal flips
        CropFlip,
    }

    /// The activation function.
    Activation {
        Identity,
        Sigmoid,
        Tanh,
        Relu,
        LeakyRelu,
        Elu,
        Gelu,
        Silu,
        Softplus,
    }

    /// The initialization of weights.
    Init {
        /// Uniform in ±1/√fan-in, weights and biases
        Uniform,
        Xavier,
        He,
        Orthogonal,
        /// All zero: the symmetry is never broken, and the report shows it
        Zero,
    }

    /// The loss function.
    Loss {
        /// Cross-entropy of the softmax (classification)
        CrossEntropy,
        /// Binary cross-entropy per class (classification)
        Binary,
        /// Multi-class hinge loss (classification)
        Hinge,
        /// Mean squared error
        Mse,
        /// Huber loss: quadratic for small errors, linear for large ones (regression)
        Huber,
        /// Gaussian negative log-likelihood with a predicted variance (regression)
        Normal,
    }

    /// The reduction of the losses of a batch.
    Reduction {
        Mean,
        Sum,
    }

    /// The learning rate schedule.
    Schedule {
        Constant,
        /// Linear decay per epoch, down to the fraction --lr-end
        Linear,
        /// Cosine annealing
        Cosine,
        /// Exponential decay per epoch
        Exponential,
    }

    /// The element type.
    Number {
        F32,
        F64,
    }

    /// The treatment of missing values in a table.
    Missing {
        /// An error that names the line
        Error,
        /// Drop rows with missing values
        Drop,
        /// Replace missing numbers by the mean of their column, and drop rows without a target
        Mean,
    }

    /// The character between the cells of a table.
    Delimiter {
        /// Comma, semicolon or tab, whichever the first lines agree on
        Auto,
        Comma,
        Semicolon,
        Tab,
        Space,
        /// The character |
        Pipe,
    }

    /// The decimal mark of the numbers of a table.
    Decimal {
        /// A point, or a comma where cells are not separated by commas
        Auto,
        /// 1.5
        Point,
        /// 1,5
        Comma,
    }

    /// Whether the first line of a table holds column names.
    Header {
        /// Names if they stand above numbers
        Auto,
        /// The first line holds names
        Yes,
        /// The first line holds values
        No,
    }

    /// What the target of a table is.
    Target {
        /// Words and few distinct integers are classes
        Auto,
        Classification,
        Regression,
    }

    /// The engine that computes gradients.
    Engine {
        /// Compiled tensor programs
        Tensor,
        /// A tape with a node for every scalar: slow, for comparison
        Scalar,
    }
}

/// The optimizer: a row of the table of the library, by its name.
#[derive(Clone, Copy, Debug)]
pub struct OptimizerName(pub &'static OptimizerRow);

impl OptimizerName {
    fn find(name: &str) -> Option<OptimizerName> {
        optim::OPTIMIZERS.iter().find(|row| row.name == name).map(OptimizerName)
    }

    /// The row of a name that this program itself states.
    pub fn of(name: &'static str) -> OptimizerName {
        OptimizerName::find(name).unwrap_or_else(|| unreachable!("the library has no optimizer {name}"))
    }
}

impl PartialEq for OptimizerName {
    fn eq(&self, other: &OptimizerName) -> bool {
        self.0.name == other.0.name
    }
}

impl Choice for OptimizerName {
    fn all() -> &'static [OptimizerName] {
        static ALL: LazyLock<Vec<OptimizerName>> =
            LazyLock::new(|| optim::OPTIMIZERS.iter().map(OptimizerName).collect());
        &ALL
    }

    fn name(self) -> String {
        self.0.name.to_owned()
    }

    fn about(self) -> &'static str {
        self.0.about
    }
}

values_of_the_command_line!(OptimizerName);

impl Typed for OptimizerName {
    fn kind() -> Kind {
        Kind::Choice(offered::<OptimizerName>())
    }

    fn read(value: &Value) -> Result<OptimizerName, String> {
        chosen(value)
    }
}

impl Serialize for OptimizerName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'d> Deserialize<'d> for OptimizerName {
    fn deserialize<D: serde::Deserializer<'d>>(deserializer: D) -> Result<OptimizerName, D::Error> {
        OptimizerName::read(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// A function of one variable that is fitted: its name, or an expression in x.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionName(pub String);

impl FromStr for FunctionName {
    type Err = String;

    fn from_str(name: &str) -> Result<FunctionName, String> {
        FunctionName::read(&Value::from(name))
    }
}

impl Typed for FunctionName {
    fn kind() -> Kind {
        Kind::Suggested(crate::sources::function_names())
    }

    fn read(value: &Value) -> Result<FunctionName, String> {
        let names = crate::sources::function_names();
        let expected = |why: &str| {
            format!(
                "expected one of {}, or an expression in x such as sin(3*x), not {}{why}",
                names.join(", "),
                quoted(value)
            )
        };
        match value.as_str() {
            Some(name) if names.contains(&name) => Ok(FunctionName(name.to_owned())),
            Some(text) => match crate::sources::expression_in_x(text) {
                Ok(_) => Ok(FunctionName(text.trim().to_owned())),
                Err(reason) => Err(expected(&format!(": {reason}"))),
            },
            None => Err(expected("")),
        }
    }
}

impl<'d> Deserialize<'d> for FunctionName {
    fn deserialize<D: serde::Deserializer<'d>>(deserializer: D) -> Result<FunctionName, D::Error> {
        FunctionName::read(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl Activation {
    pub fn layer(self) -> nn::Activation {
        match self {
            Activation::Identity => nn::Activation::Identity,
            Activation::Sigmoid => nn::Activation::Sigmoid,
            Activation::Tanh => nn::Activation::Tanh,
            Activation::Relu => nn::Activation::Relu,
            Activation::LeakyRelu => nn::Activation::LeakyRelu(0.01),
            Activation::Elu => nn::Activation::Elu(1.0),
            Activation::Gelu => nn::Activation::Gelu,
            Activation::Silu => nn::Activation::Silu,
            Activation::Softplus => nn::Activation::Softplus,
        }
    }
}

impl Init {
    pub fn initializer(self) -> nn::Initializer {
        match self {
            Init::Uniform => nn::Initializer::FanIn,
            Init::Xavier => nn::Initializer::Xavier,
            Init::He => nn::Initializer::He,
            Init::Orthogonal => nn::Initializer::Orthogonal(1.0),
            Init::Zero => nn::Initializer::Constant(0.0),
        }
    }
}

impl Missing {
    /// The table without missing values. A missing target is never filled in: its row is dropped.
    pub fn treated(self, table: Table, target: &str) -> Result<Table, Error> {
        match self {
            Missing::Error => Ok(table),
            Missing::Drop => table.without_missing(),
            Missing::Mean => table.without_missing_in(&[target])?.with_means(),
        }
    }
}

/// How a table is to be read.
pub fn reading(delimiter: Delimiter, decimal: Decimal, header: Header) -> Reading {
    let reading = Reading::default();
    let reading = match delimiter {
        Delimiter::Auto => reading,
        Delimiter::Comma => reading.separator(','),
        Delimiter::Semicolon => reading.separator(';'),
        Delimiter::Tab => reading.separator('\t'),
        Delimiter::Space => reading.separator(' '),
        Delimiter::Pipe => reading.separator('|'),
    };
    let reading = match decimal {
        Decimal::Auto => reading,
        Decimal::Point => reading.decimal_comma(false),
        Decimal::Comma => reading.decimal_comma(true),
    };
    match header {
        Header::Auto => reading,
        Header::Yes => reading.header(true),
        Header::No => reading.header(false),
    }
}

/// The column names of a comma-separated list.
pub fn columns_of(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

impl Target {
    /// Whether the target is a class, where that is decided.
    pub fn is_classes(self) -> Option<bool> {
        match self {
            Target::Auto => None,
            Target::Classification => Some(true),
            Target::Regression => Some(false),
        }
    }
}

impl Precision {
    pub fn of_training(self) -> train::Precision {
        match self {
            Precision::Full => train::Precision::Full,
            Precision::Bf16 => train::Precision::Bf16,
            Precision::F16 => train::Precision::F16,
        }
    }
}

impl Number {
    pub fn dtype(self) -> DType {
        match self {
            Number::F32 => DType::F32,
            Number::F64 => DType::F64,
        }
    }
}
