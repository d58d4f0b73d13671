//! Numbers with the mean 0 and the deviation 1.

use crate::Tree;
use crate::error::Error;
use crate::expr::Tensor;

/// The mean and the standard deviation of each column, measured on one part of the data and used for all.
///
/// ```
/// use glassgrad::{Tensor, data::Standard};
/// let train = Tensor::from([[1.0, 7.0], [3.0, 7.0]]);
/// let standard = Standard::of(&train).unwrap();
/// // A column that does not vary becomes zero.
/// assert_eq!(standard.apply(&train).to_string(), "[[-1,  0],\n [ 1,  0]]");
/// assert_eq!(standard.invert(&standard.apply(&train)).to_string(), train.to_string());
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Standard {
    /// The mean of each column.
    pub mean: Tensor,
    /// The standard deviation of each column, and 1 where there is none.
    pub deviation: Tensor,
}

impl Standard {
    /// Measures a table along its first axis.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Standard};
    /// assert!(Standard::of(&Tensor::zeros([0, 3])).is_err());
    /// ```
    pub fn of(table: &Tensor) -> Result<Standard, Error> {
        if table.shape().first().is_none_or(|count| *count == 0) {
            let message = format!("a table of the shape {} has no rows to measure", table.shape());
            return Err(Error::new("standard", message));
        }
        let deviation = table.std_over(0);
        let deviation = deviation.gt(0.0).choose(&deviation, &deviation.ones_like());
        Ok(Standard { mean: table.mean_over(0).detach()?, deviation: deviation.detach()? })
    }

    /// A table in the new numbers.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Standard};
    /// let standard = Standard::of(&Tensor::from([0.0, 2.0])).unwrap();
    /// assert_eq!(standard.apply(&Tensor::from([5.0])).to_string(), "[4]");
    /// ```
    #[track_caller]
    pub fn apply(&self, table: &Tensor) -> Tensor {
        (table - &self.mean) / &self.deviation
    }

    /// A table in the old numbers.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::Standard};
    /// let standard = Standard::of(&Tensor::from([0.0, 2.0])).unwrap();
    /// assert_eq!(standard.invert(&Tensor::from([4.0])).to_string(), "[5]");
    /// ```
    #[track_caller]
    pub fn invert(&self, table: &Tensor) -> Tensor {
        table * &self.deviation + &self.mean
    }
}
