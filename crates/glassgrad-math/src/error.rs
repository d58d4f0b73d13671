//! Errors of tensors, in the user's names and source lines.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Why a tensor has no value: the operation, its operands, and the line of the user that asked for it.
///
/// ```text
/// matmul: 3 columns meet 4 rows
///   operands: x f32[2, 3], weight f32[4, 5]
///   at src/main.rs:12:20
/// ```
///
/// ```
/// use glassgrad::Tensor;
/// let error = (Tensor::zeros([2, 3]).matmul(&Tensor::ones([4, 5]))).eval().unwrap_err();
/// assert_eq!((error.operation(), error.message()), ("matmul", "3 columns meet 4 rows"));
/// ```
#[derive(Clone, PartialEq)]
pub struct Error(Arc<Details>);

#[derive(Clone, Debug, PartialEq)]
struct Details {
    operation: String,
    message: String,
    operands: Vec<String>,
    origin: Option<&'static Location<'static>>,
    help: Option<String>,
}

impl Error {
    /// An error of an operation.
    ///
    /// ```
    /// use glassgrad::error::Error;
    /// assert_eq!(Error::new("lookup", "no such word").to_string(), "lookup: no such word");
    /// ```
    pub fn new(operation: impl Into<String>, message: impl Into<String>) -> Error {
        let (operation, message) = (operation.into(), message.into());
        Error(Arc::new(Details { operation, message, operands: Vec::new(), origin: None, help: None }))
    }

    /// The same error with descriptions of the operands.
    ///
    /// ```
    /// use glassgrad::error::Error;
    /// let error = Error::new("lookup", "no such word").with_operands(vec!["i64[3]".to_owned()]);
    /// assert_eq!(error.to_string(), "lookup: no such word\n  operands: i64[3]");
    /// ```
    pub fn with_operands(mut self, operands: Vec<String>) -> Error {
        Arc::make_mut(&mut self.0).operands = operands;
        self
    }

    /// The same error with the place in the user's source.
    ///
    /// ```
    /// use glassgrad::error::Error;
    /// let here = std::panic::Location::caller();
    /// assert_eq!(Error::new("lookup", "no such word").at(here).origin(), Some(here));
    /// ```
    pub fn at(mut self, origin: &'static Location<'static>) -> Error {
        Arc::make_mut(&mut self.0).origin = Some(origin);
        self
    }

    /// The same error with advice.
    ///
    /// ```
    /// use glassgrad::error::Error;
    /// let error = Error::new("lookup", "no such word").help("add it first");
    /// assert!(error.to_string().ends_with("help: add it first"));
    /// ```
    pub fn help(mut self, help: impl Into<String>) -> Error {
        Arc::make_mut(&mut self.0).help = Some(help.into());
        self
    }

    /// The same error with the file, or the part of one, that it is about before the message.
    ///
    /// ```
    /// use glassgrad::error::Error;
    /// assert_eq!(Error::new("load", "byte 3 is damaged").within("run.npy").to_string(), "load: run.npy: byte 3 is damaged");
    /// ```
    pub fn within(mut self, place: impl fmt::Display) -> Error {
        let details = Arc::make_mut(&mut self.0);
        details.message = format!("{place}: {}", details.message);
        self
    }

    /// The same error under the name of the operation that the user called, of which the failed one is a part.
    #[doc(hidden)]
    pub fn renamed(mut self, operation: &str) -> Error {
        operation.clone_into(&mut Arc::make_mut(&mut self.0).operation);
        self
    }

    /// The operation that failed.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let error = Tensor::from([1.0, 2.0]).item().unwrap_err();
    /// assert_eq!(error.operation(), "item");
    /// ```
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// The message.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let error = Tensor::from([1.0, 2.0]).item().unwrap_err();
    /// assert_eq!(error.message(), "the tensor has 2 elements");
    /// ```
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The line that asked for the operation.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let error = Tensor::from([1.0, 2.0]).reshape([3]).item().unwrap_err();
    /// assert!(error.origin().is_some());
    /// ```
    pub fn origin(&self) -> Option<&'static Location<'static>> {
        self.0.origin
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { operation, message, operands, origin, help } = &*self.0;
        write!(formatter, "{operation}: {message}")?;
        if !operands.is_empty() {
            write!(formatter, "\n  operands: {}", operands.join(", "))?;
        }
        if let Some(origin) = origin {
            write!(formatter, "\n  at {}:{}:{}", origin.file(), origin.line(), origin.column())?;
        }
        if let Some(help) = help {
            write!(formatter, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// What `unwrap` prints: the same text as [`Display`](fmt::Display), on lines of its own.
///
/// ```
/// use glassgrad::error::Error;
/// let error = Error::new("lookup", "no such word");
/// assert_eq!(format!("{error:?}"), error.to_string());
/// ```
impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for Error {}
