//! Examples with the answers, and where they come from.

use crate::error::Error;
use crate::expr::Tensor;

/// The targets of a dataset.
///
/// ```
/// use glassgrad::{Tensor, data::Targets};
/// let species = Targets::Classes { indices: Tensor::from([0_i64, 1, 0]), names: vec!["cat".into(), "dog".into()] };
/// assert_eq!((species.len(), species.width()), (3, 2));
/// ```
#[derive(Clone, Debug)]
pub enum Targets {
    /// The class of each example.
    Classes {
        /// The number of the class, `i64[examples]`.
        indices: Tensor,
        /// The names of the classes, in the order of their numbers.
        names: Vec<String>,
    },
    /// Numbers for each example.
    Numbers {
        /// The numbers, `[examples, columns]`.
        values: Tensor,
        /// The names of the columns.
        names: Vec<String>,
    },
}

impl Targets {
    /// The tensor: class numbers, or numbers.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Targets};
    /// let heights = Targets::Numbers { values: Tensor::from([[1.5], [2.5]]), names: vec!["height".into()] };
    /// assert_eq!(heights.tensor().shape().to_string(), "[2, 1]");
    /// ```
    pub fn tensor(&self) -> &Tensor {
        match self {
            Targets::Classes { indices, .. } => indices,
            Targets::Numbers { values, .. } => values,
        }
    }

    /// The names of the classes or of the columns.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Targets};
    /// let heights = Targets::Numbers { values: Tensor::from([[1.5], [2.5]]), names: vec!["height".into()] };
    /// assert_eq!(heights.names(), ["height"]);
    /// ```
    pub fn names(&self) -> &[String] {
        match self {
            Targets::Classes { names, .. } | Targets::Numbers { names, .. } => names,
        }
    }

    /// The number of outputs of a network: one for each class, or one for each column.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Targets};
    /// let heights = Targets::Numbers { values: Tensor::from([[1.5], [2.5]]), names: vec!["height".into()] };
    /// assert_eq!(heights.width(), 1);
    /// ```
    pub fn width(&self) -> usize {
        self.names().len()
    }

    /// How many examples they are of.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Targets};
    /// assert_eq!(Targets::Numbers { values: Tensor::zeros([5, 1]), names: vec!["y".into()] }.len(), 5);
    /// ```
    pub fn len(&self) -> usize {
        self.tensor().shape().first().copied().unwrap_or(0)
    }

    /// Whether there are none.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Targets};
    /// assert!(Targets::Numbers { values: Tensor::zeros([0, 1]), names: vec!["y".into()] }.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Examples and their targets, checked to belong together.
///
/// ```
/// use glassgrad::{Tensor, data::{Examples, Labelled}};
/// let part = Labelled::classes(Tensor::zeros([3, 4]), Tensor::from([0_i64, 1, 0]), vec!["no".into(), "yes".into()]).unwrap();
/// assert_eq!(part.len(), 3);
/// let examples = Examples::new((part.features.clone(), part.targets.tensor().clone())).unwrap();
/// # let _ = examples;
/// ```
#[derive(Clone, Debug)]
pub struct Labelled {
    /// The features, with examples along the first axis.
    pub features: Tensor,
    /// The targets.
    pub targets: Targets,
}

impl Labelled {
    /// Examples with the numbers of their classes, each of which must have a name.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Labelled};
    /// let error = Labelled::classes(Tensor::zeros([2, 4]), Tensor::from([0_i64, 7]), vec!["no".into(), "yes".into()]).unwrap_err();
    /// assert!(error.to_string().contains("example 1 is of the class 7, and there are 2 classes"), "{error}");
    /// ```
    pub fn classes(features: Tensor, indices: Tensor, names: Vec<String>) -> Result<Labelled, Error> {
        let numbers = indices.to_vec::<i64>()?;
        let is_known = |class: i64| usize::try_from(class).is_ok_and(|class| class < names.len());
        if let Some((example, class)) = numbers.iter().enumerate().find(|(_, class)| !is_known(**class)) {
            let message = format!("example {example} is of the class {class}, and there are {} classes", names.len());
            return Err(Error::new("labelled", message));
        }
        Labelled { features, targets: Targets::Classes { indices, names } }.checked()
    }

    /// Examples with numbers, `[examples, columns]`, a name for each column.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Labelled};
    /// let part = Labelled::numbers(Tensor::zeros([2, 4]), Tensor::zeros([2, 1]), vec!["price".into()]).unwrap();
    /// assert_eq!(part.targets.names(), ["price"]);
    /// ```
    pub fn numbers(features: Tensor, values: Tensor, names: Vec<String>) -> Result<Labelled, Error> {
        if values.shape().rank() != 2 || values.shape()[1] != names.len() {
            let message = format!("targets of the shape {} are not {} named columns", values.shape(), names.len());
            return Err(Error::new("labelled", message));
        }
        Labelled { features, targets: Targets::Numbers { values, names } }.checked()
    }

    fn checked(self) -> Result<Labelled, Error> {
        match self.features.shape().first() {
            Some(count) if *count == self.targets.len() => Ok(self),
            _ => {
                let (features, targets) = (self.features.shape(), self.targets.tensor().shape());
                let message = format!("features of the shape {features} and targets of the shape {targets}");
                Err(Error::new("labelled", message).help("both have the examples along their first axis"))
            }
        }
    }

    /// How many examples there are.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Labelled};
    /// let part = Labelled::numbers(Tensor::zeros([2, 4]), Tensor::zeros([2, 1]), vec!["price".into()]).unwrap();
    /// assert_eq!(part.len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are none.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Labelled};
    /// let part = Labelled::numbers(Tensor::zeros([0, 4]), Tensor::zeros([0, 1]), vec!["price".into()]).unwrap();
    /// assert!(part.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

/// A set of data with what people call it and its parts.
///
/// ```
/// use glassgrad::{Tensor, data::{Labelled, Source}};
/// let examples = Labelled::numbers(Tensor::zeros([2, 1]), Tensor::zeros([2, 1]), vec!["price".into()]).unwrap();
/// let source = Source { name: "flats".into(), title: "Flats and what they cost".into(), feature_names: vec!["area".into()], examples, test: None };
/// assert_eq!(source.examples.len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    /// A word, as in a command line.
    pub name: String,
    /// A line for people.
    pub title: String,
    /// The names of the features, in the order of the last axes; none for pixels.
    pub feature_names: Vec<String>,
    /// The training set: all examples, where there is no separate test set.
    pub examples: Labelled,
    /// The part that the makers of the set have put aside for tests.
    pub test: Option<Labelled>,
}
