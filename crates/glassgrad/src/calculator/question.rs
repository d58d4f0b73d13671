//! Requests to the calculator, and their errors.

use std::fmt;

use crate::error::Error;
use crate::lang::SyntaxError;
use crate::lang::matrix::{Declarations, inferred};

/// The default memory limit of a derivation: 1 GB.
const LIMIT: u128 = 1_000_000_000;

/// A request: an expression, the symbol to differentiate with respect to, the order, and the declared symbols.
///
/// ```
/// use glassgrad::calculator::{Question, derive};
/// let question = Question::new("norm2(A*x - b)^2", "x").declare("A: m n, x: n, b: m").unwrap();
/// assert_eq!(derive(&question).unwrap().matrix.as_deref(), Some("2*A'*(A*x - b)"));
/// assert_eq!(derive(&question.order(2)).unwrap().matrix.as_deref(), Some("2*A'*A"));
/// ```
#[derive(Clone, Debug)]
pub struct Question {
    pub(super) source: String,
    pub(super) wrt: String,
    pub(super) order: usize,
    pub(super) declared: Declarations,
    pub(super) limit: u128,
}

impl Question {
    /// The gradient or Jacobian of an expression by a symbol.
    ///
    /// ```
    /// use glassgrad::calculator::{Question, derive};
    /// let question = Question::new("a'*x", "x").declare("a: n, x: n").unwrap();
    /// assert_eq!(derive(&question).unwrap().einstein, "a_i");
    /// ```
    pub fn new(source: &str, wrt: &str) -> Question {
        Question {
            source: source.to_owned(),
            wrt: wrt.to_owned(),
            order: 1,
            declared: Declarations::default(),
            limit: LIMIT,
        }
    }

    /// The same question with more declared symbols and sizes: see [`Declarations`].
    ///
    /// ```
    /// use glassgrad::calculator::Question;
    /// assert!(Question::new("a'*x", "x").declare("a: n, a: n").is_err());
    /// ```
    pub fn declare(mut self, text: &str) -> Result<Question, SyntaxError> {
        self.declared.extend(text)?;
        Ok(self)
    }

    /// The same question with one more declared symbol, as in `T=n,k`.
    ///
    /// ```
    /// use glassgrad::calculator::{Question, derive};
    /// let question = Question::new("tr(X)", "X").declare_shape("X=n,n").unwrap();
    /// assert_eq!(derive(&question).unwrap().einstein, "δ_ij");
    /// ```
    pub fn declare_shape(mut self, text: &str) -> Result<Question, SyntaxError> {
        self.declared.extend_shape(text)?;
        Ok(self)
    }

    /// The same question with a shape for every symbol: where none is declared, those that the expression determines. A symbol that begins with
    /// a capital letter is a matrix, any other a vector, or a number where only that fits.
    ///
    /// ```
    /// use glassgrad::calculator::Question;
    /// let question = Question::new("norm2(A*x - b)^2", "x").inferred().unwrap();
    /// assert_eq!(question.declarations().to_string(), "A: m n, x: n, b: m");
    /// ```
    pub fn inferred(&self) -> Result<Question, SyntaxError> {
        Ok(Question { declared: inferred(&self.source, &self.declared)?, ..self.clone() })
    }

    /// The declared symbols and sizes.
    ///
    /// ```
    /// use glassgrad::calculator::Question;
    /// assert_eq!(Question::new("x'*x", "x").declare("x: n").unwrap().declarations().to_string(), "x: n");
    /// ```
    pub fn declarations(&self) -> &Declarations {
        &self.declared
    }

    /// The same question for the derivative of this order: 1 or 2.
    ///
    /// ```
    /// use glassgrad::calculator::{Question, derive};
    /// let question = Question::new("x'*x", "x").declare("x: n").unwrap().order(2);
    /// assert_eq!(derive(&question).unwrap().einstein, "2·δ_ij");
    /// ```
    pub fn order(mut self, order: usize) -> Question {
        self.order = order;
        self
    }

    /// The same question with another limit, in bytes, on what may be materialised.
    ///
    /// ```
    /// use glassgrad::calculator::{Question, derive};
    /// let question = Question::new("x'*x", "x").declare("x: n, n=1000").unwrap().limit(100);
    /// assert!(derive(&question).unwrap_err().to_string().contains("8.0 kB"));
    /// ```
    pub fn limit(mut self, bytes: u128) -> Question {
        self.limit = bytes;
        self
    }
}

/// Why there is no answer.
///
/// ```
/// use glassgrad::calculator::{Question, derive};
/// let error = derive(&Question::new("a'*x", "x").declare("x: n").unwrap()).unwrap_err();
/// assert!(error.to_string().starts_with("'a' is not declared"));
/// ```
#[derive(Clone, Debug)]
pub enum Unanswered {
    /// Something is wrong with the expression, at a place.
    Expression(SyntaxError),
    /// Something is wrong with what is asked about it.
    Question(String),
    /// The derivative could not be derived or computed.
    Derivative(Error),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::Expression(error) => error.fmt(formatter),
            Unanswered::Question(message) => formatter.write_str(message),
            Unanswered::Derivative(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for Unanswered {}

impl From<SyntaxError> for Unanswered {
    fn from(error: SyntaxError) -> Unanswered {
        Unanswered::Expression(error)
    }
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Unanswered {
        Unanswered::Derivative(error)
    }
}
