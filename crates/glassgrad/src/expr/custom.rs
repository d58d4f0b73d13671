//! Operations of the user's own, whose derivative is a required item: one without does not compile.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::node::{Op, Tensor};
use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::shape::Shape;
use glassgrad_exec::host::{Elements, ElementsMut, HostCall, HostFunction, Operand};

/// A pullback: from the cotangent of the output to one for each input, or none where there is no derivative.
///
/// ```
/// use glassgrad::{Tensor, expr::PullbackFunction};
/// let doubling: PullbackFunction<'_> = Box::new(|g| vec![Some(g * 2.0)]);
/// assert_eq!(doubling(&Tensor::from(3.0))[0].as_ref().unwrap().item().unwrap(), 6.0);
/// ```
pub type PullbackFunction<'r> = Box<dyn Fn(&Tensor) -> Vec<Option<Tensor>> + 'r>;
/// A pushforward: from the tangents of the inputs, where they move, to that of the output. It is linear.
///
/// ```
/// use glassgrad::{Tensor, expr::PushforwardFunction};
/// let doubling: PushforwardFunction<'_> = Box::new(|moved| moved.iter().flatten().map(|v| v * 2.0).sum());
/// assert_eq!(doubling(&[Some(Tensor::from(3.0)), None]).item().unwrap(), 6.0);
/// ```
pub type PushforwardFunction<'r> = Box<dyn Fn(&[Option<Tensor>]) -> Tensor + 'r>;
/// A formula: the same function of the inputs, written in other operations.
///
/// ```
/// use glassgrad::{Tensor, expr::FormulaFunction};
/// let cube: FormulaFunction<'_> = Box::new(|inputs| inputs[0].powi(3));
/// assert_eq!(cube(&[Tensor::from(2.0)]).item().unwrap(), 8.0);
/// ```
pub type FormulaFunction<'r> = Box<dyn Fn(&[Tensor]) -> Tensor + 'r>;

/// How an operation is differentiated. Any one of these is enough: the engine derives the others.
///
/// ```
/// use glassgrad::expr::Rule;
/// // A step has no derivative: nothing is handed back.
/// let flat: Rule<'_> = Rule::Pullback(Box::new(|_| vec![None]));
/// assert!(matches!(flat, Rule::Pullback(_)));
/// ```
pub enum Rule<'r> {
    /// In reverse.
    Pullback(PullbackFunction<'r>),
    /// Forwards.
    Pushforward(PushforwardFunction<'r>),
    /// By differentiating a formula of it.
    Formula(FormulaFunction<'r>),
}

/// An operation of the user's own. Every item is required but batching, which is by a loop otherwise.
///
/// ```
/// use glassgrad::array::{Array, Buffer};
/// use glassgrad::dtype::DType;
/// use glassgrad::expr::{CustomOp, Rule};
/// use glassgrad::shape::Shape;
/// use glassgrad::{Tensor, grad};
///
/// /// ln Σ exp x, with the largest number taken out first, and its gradient exp(x - y).
/// #[derive(Debug)]
/// struct LogSumExp;
///
/// impl CustomOp for LogSumExp {
///     fn name(&self) -> &str {
///         "my_logsumexp"
///     }
///     fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
///         Ok((Shape::scalar(), inputs[0].dtype()))
///     }
///     fn value(&self, inputs: &[Array]) -> Result<Array, String> {
///         let x = |k| inputs[0].buffer().get(k);
///         let count = inputs[0].buffer().len();
///         let largest = (0..count).map(x).fold(f64::NEG_INFINITY, f64::max);
///         let sum: f64 = (0..count).map(|k| (x(k) - largest).exp()).sum();
///         Ok(Array::new(Shape::scalar(), Buffer::from_fn(inputs[0].dtype(), 1, |_| largest + sum.ln())))
///     }
///     fn rule<'r>(&self, inputs: &'r [Tensor], output: &'r Tensor) -> Rule<'r> {
///         Rule::Pullback(Box::new(move |g| vec![Some(g * (&inputs[0] - output).exp())]))
///     }
/// }
///
/// let f = |x: &Tensor| Tensor::custom(LogSumExp, &[x]);
/// let x = Tensor::from([1000.0, 1000.0, 0.0]);
/// assert_eq!(grad(f)(&x).to_string(), "[0.5, 0.5,   0]");
/// ```
pub trait CustomOp: fmt::Debug + Send + Sync {
    /// The name under which errors and pictures show it.
    fn name(&self) -> &str;
    /// The shape and the type of the output, or why there is none.
    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String>;
    /// The value, or why there is none.
    fn value(&self, inputs: &[Array]) -> Result<Array, String>;
    /// How it is differentiated, at these inputs and this output.
    fn rule<'r>(&self, inputs: &'r [Tensor], output: &'r Tensor) -> Rule<'r>;
    /// What tells this operation from others of its type and name. Graphs that differ only in operations with equal
    /// keys run the same program, planned once; without a key, a graph with this operation is planned anew at each
    /// read. An operation without fields returns an empty key.
    fn key(&self) -> Option<String> {
        None
    }
    /// What it computes, without what only errors and pictures tell: two operations that mean the same have the same value
    /// for the same inputs. By default its key.
    fn meaning(&self) -> Option<String> {
        self.key().map(|key| format!("{} {key}", self.name()))
    }
    /// The output written as a product of one input with tensors that do not depend on it, if it is one: then structure
    /// passes through it where whole Jacobians and Hessians are made.
    fn as_product(&self, _inputs: &[Tensor], _input: usize) -> Option<Tensor> {
        None
    }
    /// The value of operands where they lie, written to where the result lies: for operations of the library whose arrays are large. Nothing
    /// is written if there is no such way, and [`CustomOp::value`] is called instead.
    #[doc(hidden)]
    fn value_into(&self, _inputs: &[Operand<'_>], _output: ElementsMut<'_>) -> Option<Result<(), String>> {
        None
    }
    /// The output for many examples at once: inputs marked in `with_axis` have a leading axis. By default one
    /// example at a time.
    fn batched(&self, _inputs: &[Tensor], _with_axis: &[bool]) -> Option<Tensor> {
        None
    }
}

/// The value of an operation that is stated by [`CustomOp::value_into`].
pub(crate) fn value_by_parts(
    operation: &dyn CustomOp,
    inputs: &[Array],
    (shape, dtype): (Shape, DType),
) -> Result<Array, String> {
    let operands: Vec<Operand<'_>> =
        inputs.iter().map(|input| Operand { shape: input.shape(), elements: Elements::of(input.buffer()) }).collect();
    let mut buffer = Buffer::zeros(dtype, shape.elements());
    match operation.value_into(&operands, ElementsMut::of(&mut buffer)) {
        Some(done) => done.map(|()| Array::new(shape, buffer)),
        None => Err(format!("it is not defined for {dtype}")),
    }
}

/// A shared operation of the user's own, the same as another only if it is one and the same.
///
/// ```
/// use glassgrad::{Tensor, expr::Op, rng::Key};
/// // A Poisson sample is rejected and drawn again in host code.
/// let counts = Tensor::from([1.0, 4.0]).poisson(Key::new(1));
/// assert!(matches!(counts.op(), Op::Custom(_)));
/// ```
#[derive(Clone, Debug)]
pub struct Custom(pub(crate) Arc<dyn CustomOp>);

impl HostFunction for Custom {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        self.0.value(inputs)
    }

    fn value_into(&self, inputs: &[Operand<'_>], output: ElementsMut<'_>) -> Option<Result<(), String>> {
        self.0.value_into(inputs, output)
    }
}

impl Custom {
    /// The call of this operation in a program.
    pub(crate) fn host_call(&self) -> HostCall {
        HostCall::new(Arc::new(self.clone()), Arc::as_ptr(&self.0).cast::<()>() as usize)
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Tensor {
    /// Applies an operation of the user's own.
    ///
    /// ```
    /// use glassgrad::array::Array;
    /// use glassgrad::dtype::DType;
    /// use glassgrad::expr::{CustomOp, Rule};
    /// use glassgrad::{Tensor, grad, shape::Shape};
    ///
    /// /// The identity, which turns the derivative around.
    /// #[derive(Debug)]
    /// struct Reversal;
    ///
    /// impl CustomOp for Reversal {
    ///     fn name(&self) -> &str {
    ///         "reversal"
    ///     }
    ///     fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
    ///         Ok((inputs[0].shape().clone(), inputs[0].dtype()))
    ///     }
    ///     fn value(&self, inputs: &[Array]) -> Result<Array, String> {
    ///         Ok(inputs[0].clone())
    ///     }
    ///     fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
    ///         Rule::Pullback(Box::new(|g| vec![Some(-g)]))
    ///     }
    /// }
    ///
    /// let slope = grad(|x: &Tensor| Tensor::custom(Reversal, &[x]).square().sum())(&Tensor::from([3.0]));
    /// assert_eq!(slope.to_string(), "[-6]");
    /// ```
    #[track_caller]
    pub fn custom(operation: impl CustomOp + 'static, inputs: &[&Tensor]) -> Tensor {
        Tensor::custom_node(Custom(Arc::new(operation)), inputs)
    }

    #[track_caller]
    pub(crate) fn custom_node(custom: Custom, inputs: &[&Tensor]) -> Tensor {
        Tensor::custom_node_at(custom, inputs, Location::caller())
    }

    /// [`Tensor::custom_node`] for rules, which know the user's line and are not called from there.
    pub(crate) fn custom_node_at(custom: Custom, inputs: &[&Tensor], origin: &'static Location<'static>) -> Tensor {
        if let Some(failed) = inputs.iter().find(|input| input.error().is_some()) {
            return (*failed).clone();
        }
        match custom.0.output(inputs) {
            Ok((shape, dtype)) => Tensor::node_at(Op::Custom(custom), inputs, shape, dtype, origin),
            Err(message) => Tensor::refused_at(Error::new(custom.0.name(), message), inputs, origin),
        }
    }
}
