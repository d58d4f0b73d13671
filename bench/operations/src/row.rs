//! A row: an operation on some operands, or its gradient. It is compiled once, and computes all of its results anew in each run.

use glassgrad::compile::Compiled;
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::expr::{Keys, s};
use glassgrad::operations::Complex;
use glassgrad::rng::Key;
use glassgrad::{Tensor, compile, grad};
use serde_json::{Value, json};

use crate::data::{Source, direction};

/// How an operand lies in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    Contiguous,
    /// The last two axes are swapped.
    Transposed,
    /// Inner columns of a wider array.
    Sliced,
    /// Every second column of a wider array.
    Strided,
}

/// The columns that a sliced operand leaves out on both sides.
const MARGIN: usize = 8;

/// An operand: random numbers in a range, or indices below a bound.
#[derive(Clone)]
pub(crate) struct Operand {
    shape: Vec<usize>,
    range: (f64, f64),
    dtype: DType,
    layout: Layout,
}

impl Operand {
    pub(crate) fn new(shape: &[usize]) -> Operand {
        Operand { shape: shape.to_vec(), range: (-2.0, 2.0), dtype: DType::F32, layout: Layout::Contiguous }
    }

    /// 64-bit indices below a bound.
    pub(crate) fn indices(shape: &[usize], bound: usize) -> Operand {
        Operand { range: (0.0, bound as f64), dtype: DType::I64, ..Operand::new(shape) }
    }

    pub(crate) fn within(self, low: f64, high: f64) -> Operand {
        Operand { range: (low, high), ..self }
    }

    pub(crate) fn f64(self) -> Operand {
        Operand { dtype: DType::F64, ..self }
    }

    pub(crate) fn laid_out(self, layout: Layout) -> Operand {
        Operand { layout, ..self }
    }

    fn is_float(&self) -> bool {
        matches!(self.dtype, DType::F32 | DType::F64)
    }

    /// The shape of the array that holds it.
    fn stored(&self) -> Vec<usize> {
        let mut shape = self.shape.clone();
        let rank = shape.len();
        match (self.layout, shape.last_mut()) {
            (Layout::Transposed, _) => shape.swap(rank - 2, rank - 1),
            (Layout::Sliced, Some(last)) => *last += 2 * MARGIN,
            (Layout::Strided, Some(last)) => *last *= 2,
            (Layout::Contiguous, _) | (_, None) => {}
        }
        shape
    }

    fn draw(&self, source: &mut Source) -> Tensor {
        let stored = self.stored();
        match self.is_float() {
            true => source.uniform(stored, self.range.0, self.range.1, self.dtype),
            false => source.indices(stored.iter().product(), self.range.1 as usize).reshape(stored),
        }
    }

    /// The operand in the array that holds it.
    fn read(&self, stored: &Tensor) -> Tensor {
        let along_last = |index| {
            let mut indices = vec![s(..); self.shape.len()];
            indices.pop();
            indices.push(index);
            stored.slice(&indices)
        };
        match self.layout {
            Layout::Contiguous => stored.clone(),
            Layout::Transposed => stored.swap_axes(-1, -2),
            Layout::Sliced => along_last(s(MARGIN..stored.shape()[self.shape.len() - 1] - MARGIN)),
            Layout::Strided => along_last(s(..).step(2)),
        }
    }

    fn name(&self) -> String {
        let sizes: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        let layout = match self.layout {
            Layout::Contiguous => "",
            Layout::Transposed => "T",
            Layout::Sliced => "S",
            Layout::Strided => "::2",
        };
        sizes.join("x") + layout
    }
}

/// How results of engines are compared.
#[derive(Clone, Copy)]
pub(crate) enum Comparison {
    Elements,
    /// Factors whose signs are arbitrary.
    Magnitudes,
    /// Random numbers: mean and variance.
    Moments,
}

/// Operands to results; draws have a key.
pub(crate) type Function = fn(&[Tensor], &Keys) -> Vec<Tensor>;

/// An operation on some operands, or its gradient in all of them that are differentiable.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) operation: &'static str,
    pub(crate) operands: Vec<Operand>,
    pub(crate) gradient: bool,
    pub(crate) comparison: Comparison,
    pub(crate) function: Function,
}

impl Row {
    pub(crate) fn name(&self) -> String {
        let mut names: Vec<String> = self.operands.iter().map(Operand::name).collect();
        names.dedup();
        let dtype = if self.operands.iter().any(|operand| operand.dtype == DType::F64) { ":f64" } else { "" };
        let gradient = if self.gradient { ":gradient" } else { "" };
        format!("{}:{}{dtype}{gradient}", self.operation, names.join(","))
    }

    /// The row as other engines need it.
    pub(crate) fn describe(&self) -> Value {
        let layout = |layout| match layout {
            Layout::Contiguous => "contiguous",
            Layout::Transposed => "transposed",
            Layout::Sliced => "sliced",
            Layout::Strided => "strided",
        };
        let operand = |operand: &Operand| {
            json!({
                "shape": operand.shape, "stored": operand.stored(), "dtype": operand.dtype.to_string(),
                "low": operand.range.0, "high": operand.range.1, "layout": layout(operand.layout), "margin": MARGIN,
            })
        };
        let comparison = match self.comparison {
            Comparison::Elements => "elements",
            Comparison::Magnitudes => "magnitudes",
            Comparison::Moments => "moments",
        };
        json!({
            "name": self.name(), "operation": self.operation, "gradient": self.gradient, "comparison": comparison,
            "operands": self.operands.iter().map(operand).collect::<Vec<_>>(),
        })
    }
}

/// What an operation may return.
pub(crate) trait Results {
    fn list(self) -> Vec<Tensor>;
}

impl Results for Tensor {
    fn list(self) -> Vec<Tensor> {
        vec![self]
    }
}

impl Results for Complex {
    fn list(self) -> Vec<Tensor> {
        vec![self.re, self.im]
    }
}

impl Results for (Tensor, Tensor) {
    fn list(self) -> Vec<Tensor> {
        vec![self.0, self.1]
    }
}

impl Results for (Tensor, Tensor, Tensor) {
    fn list(self) -> Vec<Tensor> {
        vec![self.0, self.1, self.2]
    }
}

/// Operands with derivatives, without, cotangents of the results, and the key of draws.
type Arguments = (Vec<Tensor>, Vec<Tensor>, Vec<Tensor>, Keys);

type Compute = Box<dyn Fn(&Arguments) -> Vec<Tensor>>;

/// A row, compiled.
pub(crate) struct Operation {
    row: Row,
    arguments: Arguments,
    compiled: Compiled<Compute, Vec<Tensor>>,
    last: Vec<Tensor>,
}

impl Operation {
    pub(crate) fn new(row: Row) -> Operation {
        let mut source = Source::default();
        let drawn = row.operands.iter().map(|operand| (operand.is_float(), operand.draw(&mut source)));
        let (floats, others): (Vec<_>, Vec<_>) = drawn.partition(|(is_float, _)| *is_float);
        let tensors =
            |list: Vec<(bool, Tensor)>| list.into_iter().map(|(_, tensor)| tensor.detach().unwrap_or(tensor)).collect();
        let mut arguments: Arguments = (tensors(floats), tensors(others), Vec::new(), Keys::from(Key::new(1)));
        if row.gradient {
            arguments.2 = results(&row, &arguments.0, &arguments.1, &arguments.3).iter().map(cotangent).collect();
        }
        let own = row.clone();
        let compute: Compute = Box::new(move |(floats, others, cotangents, key)| match own.gradient {
            false => results(&own, floats, others, key),
            true => grad(|floats: &Vec<Tensor>| {
                let products =
                    results(&own, floats, others, key).into_iter().zip(cotangents).map(|(y, w)| (y * w).sum());
                products.reduce(|sum, product| sum + product).unwrap_or_else(|| Tensor::from(0.0_f32))
            })(floats),
        });
        Operation { row, arguments, compiled: compile(compute), last: Vec::new() }
    }
}

/// The results of a row; of a gradient those that are differentiable.
fn results(row: &Row, floats: &[Tensor], others: &[Tensor], key: &Keys) -> Vec<Tensor> {
    let (mut floats, mut others) = (floats.iter(), others.iter());
    let operands: Vec<Tensor> = row
        .operands
        .iter()
        .filter_map(|operand| {
            let stored = if operand.is_float() { floats.next() } else { others.next() };
            stored.map(|stored| operand.read(stored))
        })
        .collect();
    let mut results = (row.function)(&operands, key);
    if row.gradient {
        results.retain(Tensor::is_float);
    }
    results
}

/// The cotangent of a result: the direction of checks.
fn cotangent(result: &Tensor) -> Tensor {
    let numbers: Vec<f64> = direction(result.shape().elements()).collect();
    match result.dtype() {
        DType::F32 => {
            Tensor::new(&numbers.iter().map(|number| *number as f32).collect::<Vec<_>>(), result.shape().clone())
        }
        _ => Tensor::new(&numbers, result.shape().clone()),
    }
}

/// The elements of a result that other engines are compared by.
const SAMPLES: usize = 64;

/// A summary of a result: its norm, the product with the direction, and elements at equal distances.
fn digest(numbers: &[f64], comparison: Comparison) -> Value {
    let count = numbers.len().max(1) as f64;
    match comparison {
        Comparison::Moments => {
            let mean = numbers.iter().sum::<f64>() / count;
            let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / count;
            json!({ "count": numbers.len(), "norm": 1.0, "along": 0.0, "samples": [mean, variance] })
        }
        Comparison::Elements | Comparison::Magnitudes => {
            let read = |number: f64| if matches!(comparison, Comparison::Magnitudes) { number.abs() } else { number };
            let norm = numbers.iter().map(|number| number * number).sum::<f64>().sqrt();
            let along: f64 =
                numbers.iter().zip(direction(numbers.len())).map(|(number, step)| read(*number) * step).sum();
            let samples: Vec<f64> = (0..SAMPLES.min(numbers.len()))
                .map(|k| read(numbers[k * numbers.len() / SAMPLES.min(numbers.len())]))
                .collect();
            json!({ "count": numbers.len(), "norm": norm, "along": along, "samples": samples })
        }
    }
}

impl Operation {
    /// Computes all results once. The last ones are dropped before, so that their memory is used again.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        self.last.clear();
        self.last = self.compiled.call(&self.arguments)?;
        Ok(())
    }

    /// The digests of the last results.
    pub(crate) fn facts(&self) -> Result<Value, Error> {
        let numbers = self.last.iter().map(Tensor::to_f64_vec).collect::<Result<Vec<_>, _>>()?;
        let digests: Vec<Value> = numbers.iter().map(|numbers| digest(numbers, self.row.comparison)).collect();
        Ok(json!({ "digests": digests }))
    }
}
