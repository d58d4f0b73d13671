//! Provenance of a NaN or an infinity: its origin, its path to the output, and a repair.

use std::fmt;
use std::panic::Location;

use serde_json::{Value, json};

use super::labels::Labels;
use super::repair::{Repair, repair};
use super::scope::Scope;
use super::search::{Search, first_not_finite};
use super::{index_text, place};
use crate::array::Array;
use crate::diff::{Outcome, pullback};
use crate::error::Error;
use crate::expr::Tensor;
use crate::trace::{json_number, short};
use crate::tree::Tree;

/// The order of the derivative that is checked for non-finite values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DerivativeOrder {
    /// The value of a function.
    Value,
    /// The gradient of the sum of its results.
    Gradient,
    /// The gradient of the sum of that gradient: the sums of the rows of the Hessian.
    SecondDerivative,
}

/// A node on the way of a number that is not finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Carrier {
    /// Its label.
    pub label: String,
    /// Its expression, in labels.
    pub expression: String,
    /// The operation in a word.
    pub operation: String,
    /// The line that created it; in a derivative, the line of the operation that was differentiated.
    pub origin: &'static Location<'static>,
    /// In a derivative, what was differentiated, if it is still there to be asked.
    pub derivative_of: Option<String>,
    /// The element that is not finite.
    pub index: Vec<usize>,
    /// Its value.
    pub value: f64,
    /// The steps of the loops around it, from the outermost in.
    pub steps: Vec<usize>,
}

/// The provenance of a non-finite number: its origin, and its path to the output.
#[derive(Clone, Debug, PartialEq)]
pub struct Provenance {
    /// The path from the origin to the output.
    pub path: Vec<Carrier>,
    /// The operands where it began, by their labels: the one element that was used, or all in a few numbers.
    pub operands: Vec<(String, String)>,
}

/// A value or a derivative of a function that is not finite, why, and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct NonFinite {
    /// What is not finite.
    pub order: DerivativeOrder,
    /// The place in the tree of results, or for a derivative in that of the arguments; empty if there is only one.
    pub leaf: String,
    /// Its provenance.
    pub provenance: Provenance,
    /// What to write instead, if something was found; it has been tried.
    pub repair: Option<Repair>,
}

/// Looks for a NaN or an infinity in the value of a function, then in its gradient, then in its second derivative,
/// and explains the first.
///
/// ```
/// use glassgrad::{Tensor, glass::{DerivativeOrder, explain_non_finite}};
/// let f = |x: &Tensor| x.sqrt().sum();
/// assert_eq!(explain_non_finite(f, &Tensor::from([1.0, 4.0])).unwrap(), None);
/// let found = explain_non_finite(f, &Tensor::from([1.0, 0.0])).unwrap().unwrap();
/// assert_eq!(found.order, DerivativeOrder::Gradient);
/// assert_eq!(found.provenance.path[0].derivative_of.as_deref(), Some("v1 = sqrt(x)"));
/// assert_eq!(found.provenance.path[0].index, [1]);
/// assert!(found.repair.unwrap().advice.contains("1e-12"));
/// ```
pub fn explain_non_finite<X: Tree, R: Outcome>(
    function: impl FnOnce(&X) -> R,
    x: &X,
) -> Result<Option<NonFinite>, Error> {
    let traced = Traced::new(function, x);
    for order in [DerivativeOrder::Value, DerivativeOrder::Gradient, DerivativeOrder::SecondDerivative] {
        if let Some(found) = traced.explain(order)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Explains a NaN or an infinity in the value of a function, or in a derivative of it.
///
/// ```
/// use glassgrad::{Tensor, glass::{DerivativeOrder, non_finite_in}};
/// let f = |x: &Tensor| x.powf(1.5).sum();
/// let zero = Tensor::from([0.0]);
/// assert!(non_finite_in(DerivativeOrder::Gradient, f, &zero).unwrap().is_none());
/// assert!(non_finite_in(DerivativeOrder::SecondDerivative, f, &zero).unwrap().is_some());
/// ```
pub fn non_finite_in<X: Tree, R: Outcome>(
    order: DerivativeOrder,
    function: impl FnOnce(&X) -> R,
    x: &X,
) -> Result<Option<NonFinite>, Error> {
    Traced::new(function, x).explain(order)
}

impl Tensor {
    /// Where a NaN or an infinity in this tensor began; none if every element is finite. What was computed
    /// before and has released its inputs is as far back as the search can go.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 0.0]).named("x");
    /// let found = (x.ln() * 2.0).sum().provenance().unwrap().unwrap();
    /// assert_eq!(found.path[0].expression, "ln(x)");
    /// assert_eq!(found.path[0].index, [1]);
    /// assert_eq!(found.operands, [("x".to_owned(), "0".to_owned())]);
    /// assert_eq!(found.path.len(), 3);
    /// ```
    pub fn provenance(&self) -> Result<Option<Provenance>, Error> {
        let level = Scope::of(&[self]);
        let labels = Labels::new(&level, &[], &[self]);
        let values = level.values()?;
        Ok(Search { level: &level, labels: &labels, values: &values }.trace(self))
    }

    /// Computes the value, and fails if an element is NaN or infinite, with the operation and the line where that
    /// began and the way it took. As long as all is well it costs a look at the graph before and at the result
    /// after; only then is every value computed again and checked.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, -4.0]).named("x");
    /// assert_eq!(x.square().eval_checked().unwrap().to_string(), "[ 1, 16]");
    /// let error = x.sqrt().sum().eval_checked().unwrap_err();
    /// assert!(error.to_string().starts_with("sqrt: it produced NaN at [1], where x is -4"));
    /// ```
    pub fn eval_checked(&self) -> Result<Array, Error> {
        Tensor::eval_all_checked(&[self]).map(|mut values| values.remove(0))
    }

    /// [`Tensor::eval_checked`] of several tensors together, such as a loss and its gradient.
    ///
    /// ```
    /// use glassgrad::{Tensor, value_and_grad};
    /// let (value, gradient) = value_and_grad(|x: &Tensor| x.sqrt().sum())(&Tensor::from([1.0, 0.0]));
    /// assert_eq!(value.eval_checked().unwrap().to_string(), "1");
    /// let error = Tensor::eval_all_checked(&[&value, &gradient]).unwrap_err();
    /// assert!(error.to_string().starts_with("0.5 / v1, in the derivative of v1 = sqrt(x1): it produced inf at [1]"));
    /// ```
    pub fn eval_all_checked(tensors: &[&Tensor]) -> Result<Vec<Array>, Error> {
        // Reading lets go of history, which is needed if something turns out to be wrong.
        let level = Scope::of(tensors);
        let arrays = Tensor::eval_all(tensors)?;
        let Some(number) = arrays.iter().position(|array| first_not_finite(array).is_some()) else {
            return Ok(arrays);
        };
        let labels = Labels::new(&level, &[], tensors);
        let values = level.values()?;
        let found = Search { level: &level, labels: &labels, values: &values }.trace(tensors[number]);
        Err(found.map_or_else(|| Error::new("eval_checked", "the value is not finite"), |found| found.to_error()))
    }
}

/// A function's graph, and its arguments by name.
pub(super) struct Traced {
    pub(super) variables: Vec<Tensor>,
    names: Vec<(Tensor, String)>,
    pub(super) results: Vec<Tensor>,
    result_paths: Vec<String>,
}

impl Traced {
    fn new<X: Tree, R: Outcome>(function: impl FnOnce(&X) -> R, x: &X) -> Traced {
        let variables = x.map(Tensor::wrapped);
        let leaves = variables.leaves();
        let results = function(&variables).outcome().leaves();
        let name = |path: String, leaf: &Tensor| match leaf.inputs().first().and_then(|input| input.name()) {
            Some(name) => name.to_owned(),
            None if path.is_empty() => "x".to_owned(),
            None => path,
        };
        let names = leaves.iter().map(|(path, leaf)| (leaf.clone(), name(path.to_string(), leaf)));
        Traced {
            variables: leaves.iter().map(|(_, leaf)| leaf.clone()).filter(Tensor::is_float).collect(),
            names: names.collect(),
            result_paths: results.iter().map(|(path, _)| path.to_string()).collect(),
            results: results.into_iter().map(|(_, result)| result).collect(),
        }
    }

    /// The derivatives of an order of some results, which may be these or others of the same variables.
    pub(super) fn outputs(&self, order: DerivativeOrder, results: &[Tensor]) -> Vec<Tensor> {
        self.all_outputs(order, results).pop().unwrap_or_default()
    }

    /// The same behind everything that it is a derivative of.
    fn all_outputs(&self, order: DerivativeOrder, results: &[Tensor]) -> Vec<Vec<Tensor>> {
        let variables: Vec<&Tensor> = self.variables.iter().collect();
        let gradient = |of: &[Tensor]| -> Vec<Tensor> {
            let seeds: Vec<(&Tensor, Tensor)> =
                of.iter().filter(|tensor| tensor.is_float()).map(|tensor| (tensor, tensor.ones_like())).collect();
            let found = pullback(&seeds, &variables, &[]);
            found.into_iter().zip(&variables).map(|(found, x)| found.unwrap_or_else(|| x.zeros_like())).collect()
        };
        let mut outputs = vec![results.to_vec()];
        while outputs.len() <= order as usize {
            outputs.push(gradient(&outputs[outputs.len() - 1]));
        }
        outputs
    }

    fn explain(&self, order: DerivativeOrder) -> Result<Option<NonFinite>, Error> {
        if let Some(error) = self.results.iter().find_map(Tensor::error) {
            return Err(error.clone());
        }
        // Derivatives in between are held, so that they can be asked what they are derivatives of.
        let mut between = self.all_outputs(order, &self.results);
        let outputs = between.pop().unwrap_or_default();
        let roots: Vec<&Tensor> = outputs.iter().chain(&self.results).collect();
        let level = Scope::of(&roots);
        let arrays = Tensor::eval_all(&outputs.iter().collect::<Vec<_>>())?;
        let Some(number) = arrays.iter().position(|array| first_not_finite(array).is_some()) else {
            return Ok(None);
        };
        let labels = Labels::new(&level, &self.names, &roots);
        let values = level.values()?;
        let search = Search { level: &level, labels: &labels, values: &values };
        let Some(provenance) = search.trace(&outputs[number]) else { return Ok(None) };
        let leaf = match order {
            DerivativeOrder::Value => self.result_paths[number].clone(),
            _ => {
                let id = self.variables[number].0.id;
                self.names.iter().find(|(leaf, _)| leaf.0.id == id).map(|(_, name)| name.clone()).unwrap_or_default()
            }
        };
        let culprit = search.culprit(&outputs[number], order);
        let repair = culprit.and_then(|culprit| repair(self, &level, &labels, &values, &culprit, order));
        Ok(Some(NonFinite { order, leaf, provenance, repair }))
    }
}

impl Provenance {
    fn beginning(&self) -> String {
        let Some(first) = self.path.first() else { return String::new() };
        let at = if first.index.is_empty() { String::new() } else { format!(" at {}", index_text(&first.index)) };
        let step =
            if first.steps.is_empty() { String::new() } else { format!(" in step {}", index_text(&first.steps)) };
        let operands: Vec<String> = self.operands.iter().map(|(label, value)| format!("{label} is {value}")).collect();
        let given = if operands.is_empty() { String::new() } else { format!(", where {}", operands.join(" and ")) };
        format!("{}{at}{step}{given}", short(first.value))
    }

    /// The provenance as an error, with the operation and the line where it began.
    fn to_error(&self) -> Error {
        let Some(first) = self.path.first() else { return Error::new("eval_checked", "the value is not finite") };
        let through: Vec<String> =
            self.path[1..].iter().map(|carrier| format!("{} ({})", carrier.label, place(carrier.origin))).collect();
        let operation = match &first.derivative_of {
            Some(of) => format!("{}, in the derivative of {of}", first.expression),
            None => first.operation.clone(),
        };
        let error = Error::new(operation, format!("it produced {}", self.beginning())).at(first.origin);
        let error = error.with_operands(self.operands.iter().map(|(label, _)| label.clone()).collect());
        if through.is_empty() { error } else { error.help(format!("it went on through {}", through.join(", "))) }
    }

    /// The provenance as JSON.
    pub fn to_json(&self) -> Value {
        let carrier = |carrier: &Carrier| {
            json!({
                "name": carrier.label,
                "operation": carrier.operation,
                "expression": carrier.expression,
                "derivative_of": carrier.derivative_of,
                "file": carrier.origin.file(),
                "line": carrier.origin.line(),
                "column": carrier.origin.column(),
                "index": carrier.index,
                "steps": carrier.steps,
                "value": json_number(carrier.value),
            })
        };
        let operands: Vec<Value> =
            self.operands.iter().map(|(label, value)| json!({ "name": label, "value": value })).collect();
        json!({ "path": self.path.iter().map(carrier).collect::<Vec<_>>(), "operands": operands })
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Carrier { label, expression, derivative_of, origin, .. } = self;
        match (expression.as_str(), derivative_of) {
            ("input", None) if self.steps.is_empty() => write!(formatter, "the input {label}")?,
            ("input", None) => write!(formatter, "{label} of step {}", index_text(&self.steps))?,
            (_, None) => write!(formatter, "{label} = {expression}")?,
            (_, Some(of)) => write!(formatter, "{label} = {expression}, in the derivative of {of}")?,
        }
        write!(formatter, " at {}", place(origin))
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.path.first() else { return Ok(()) };
        write!(formatter, "began at {first}\n    with {}", self.beginning())?;
        self.path[1..].iter().try_for_each(|carrier| write!(formatter, "\n  went on to {carrier}"))
    }
}

impl fmt::Display for NonFinite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.order {
            DerivativeOrder::Value if self.leaf.is_empty() => "the value".to_owned(),
            DerivativeOrder::Value => format!("the value {}", self.leaf),
            DerivativeOrder::Gradient => format!("the gradient with respect to {}", self.leaf),
            DerivativeOrder::SecondDerivative => format!("the second derivative with respect to {}", self.leaf),
        };
        write!(formatter, "{what} is not finite\n  {}", self.provenance)?;
        match &self.repair {
            Some(repair) => write!(formatter, "\n  repair: {repair}"),
            None => Ok(()),
        }
    }
}
