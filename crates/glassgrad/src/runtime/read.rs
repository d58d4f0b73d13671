//! Reads: evaluation of a tensor on demand.

use std::fmt;
use std::sync::Arc;

use super::{evaluate, evaluate_by_reference, known, program};
use crate::array::{Array, Stored};
use crate::error::Error;
use crate::expr::Tensor;
use crate::opt::program::Program;

impl Tensor {
    /// Computes the value.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let value = (Tensor::from([1.0, 2.0]) * 3.0).eval().unwrap();
    /// assert_eq!((value.buffer().get(1), value.to_string()), (6.0, "[3, 6]".into()));
    /// ```
    #[track_caller]
    pub fn eval(&self) -> Result<Array, Error> {
        let value = self.resident()?;
        value.download().map_err(|message| Error::new("read", message).at(std::panic::Location::caller()))?;
        Ok(value)
    }

    /// The value where it was computed, perhaps in the memory of a device.
    #[track_caller]
    fn resident(&self) -> Result<Array, Error> {
        match known(self) {
            Some(value) => Ok(value),
            None => Ok(evaluate(&[self])?.remove(0)),
        }
    }

    /// Computes the value by definition, one element at a time: the reference for every faster executor.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0]).tanh().sum();
    /// assert!((x.eval_by_reference().unwrap().buffer().get(0) - x.item().unwrap()).abs() < 1e-15);
    /// ```
    #[track_caller]
    pub fn eval_by_reference(&self) -> Result<Array, Error> {
        evaluate_by_reference(&[self]).map(|mut values| values.remove(0))
    }

    /// Computes several values as [`Tensor::eval_by_reference`] does; what they share is computed once.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0]).square();
    /// let values = Tensor::eval_all_by_reference(&[&x.sum(), &x.max()]).unwrap();
    /// assert_eq!((values[0].buffer().get(0), values[1].buffer().get(0)), (5.0, 4.0));
    /// ```
    #[track_caller]
    pub fn eval_all_by_reference(tensors: &[&Tensor]) -> Result<Vec<Array>, Error> {
        evaluate_by_reference(tensors)
    }

    /// The program that computes this tensor and nothing else.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let program = (x.matmul(&x) + 1.0).tanh().sum().program().unwrap();
    /// assert_eq!(program.steps.len(), 2); // a product of matrices, and one loop for all the rest
    /// ```
    #[track_caller]
    pub fn program(&self) -> Result<Arc<Program>, Error> {
        program(&[self])
    }

    /// Computes several values together; what they share is computed once.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0]).exp();
    /// let values = Tensor::eval_all(&[&x.sum(), &x.max()]).unwrap();
    /// assert_eq!(values[1].buffer().get(0), 2.0_f64.exp());
    /// ```
    #[track_caller]
    pub fn eval_all(tensors: &[&Tensor]) -> Result<Vec<Array>, Error> {
        evaluate(tensors)
    }

    /// The only element, as a 64-bit number.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.5, 2.5]).sum().item().unwrap(), 4.0);
    /// let error = Tensor::from([1.5, 2.5]).item().unwrap_err();
    /// assert!(error.to_string().starts_with("item: the tensor has 2 elements"));
    /// ```
    #[track_caller]
    pub fn item(&self) -> Result<f64, Error> {
        let value = self.eval()?;
        if value.shape().elements() != 1 {
            let error = Error::new("item", format!("the tensor has {} elements", value.shape().elements()));
            return Err(error.with_operands(vec![self.describe()]).at(std::panic::Location::caller()));
        }
        Ok(value.buffer().get(0))
    }

    /// All elements, row by row. They must be of this type.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.transpose().to_vec::<f32>().unwrap(), [1.0, 3.0, 2.0, 4.0]);
    /// assert!(x.to_vec::<f64>().is_err());
    /// ```
    #[track_caller]
    pub fn to_vec<E: Stored>(&self) -> Result<Vec<E>, Error> {
        let value = self.eval()?;
        let Some(elements) = E::open(value.buffer()) else {
            let error = Error::new("to_vec", format!("the elements are {}, not {}", self.dtype(), E::DTYPE));
            return Err(error.with_operands(vec![self.describe()]).at(std::panic::Location::caller()));
        };
        Ok(elements.to_vec())
    }

    /// All elements as 64-bit numbers, row by row, whatever their type.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([true, false]).to_f64_vec().unwrap(), [1.0, 0.0]);
    /// ```
    #[track_caller]
    pub fn to_f64_vec(&self) -> Result<Vec<f64>, Error> {
        let value = self.eval()?;
        Ok((0..value.buffer().len()).map(|k| value.buffer().get(k)).collect())
    }

    /// The same value as a leaf without history.
    ///
    /// ```
    /// use glassgrad::{Tensor, expr::Op};
    /// let x = Tensor::from(2.0).variable().square().detach().unwrap();
    /// assert_eq!((x.op(), x.item().unwrap()), (&Op::Leaf, 4.0));
    /// ```
    #[track_caller]
    pub fn detach(&self) -> Result<Tensor, Error> {
        self.resident().map(Tensor::leaf)
    }
}

/// The elements, or the error.
impl fmt::Display for Tensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.eval() {
            Ok(value) => value.fmt(formatter),
            Err(error) => write!(formatter, "error: {error}"),
        }
    }
}
