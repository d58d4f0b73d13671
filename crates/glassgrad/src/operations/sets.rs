//! Counting and finding values: histograms, sorted tables, distinct elements.

use crate::array::{Array, Buffer};
use crate::diff::Fallible;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{CustomOp, Rule, Tensor};
use crate::shape::Shape;

/// The most bins of a histogram.
const MOST_BINS: usize = 1 << 24;

impl Tensor {
    /// For each value, the place before which it is inserted into this ascending vector so that it stays sorted: of equal
    /// elements before the first, or, if `right` holds, behind the last. NaN stands behind all numbers.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let edges = Tensor::from([1.0, 3.0, 3.0, 5.0]);
    /// let values = Tensor::from([3.0, 0.0, 9.0]);
    /// assert_eq!(edges.searchsorted(&values, false).to_string(), "[1, 0, 4]");
    /// assert_eq!(edges.searchsorted(&values, true).to_string(), "[3, 0, 4]");
    /// ```
    #[track_caller]
    pub fn searchsorted(&self, values: &Tensor, right: bool) -> Tensor {
        let operands = [self, values];
        if let Some(failed) = operands.into_iter().find(|tensor| tensor.error().is_some()) {
            return failed.clone();
        }
        if self.rank() != 1 {
            let message = format!("the sorted elements are a vector, not of the shape {}", self.shape());
            return Tensor::refused(Error::new("searchsorted", message), &operands);
        }
        let promoted = Tensor::cast_all(&operands, Tensor::common_type(&operands));
        Tensor::custom(SearchSorted { right }, &[&promoted[1], &promoted[0]])
    }

    /// How many elements lie in each of `bins` intervals of equal width from `low` to `high`; those beyond are not
    /// counted, and the last interval includes `high`.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let counts = Tensor::from([0.0, 0.5, 0.75, 1.0, 7.0]).histogram(2, 0.0, 1.0);
    /// assert_eq!(counts.to_string(), "[1, 3]");
    /// ```
    #[track_caller]
    pub fn histogram(&self, bins: usize, low: f64, high: f64) -> Tensor {
        if let Some(failed) = Tensor::not_float("histogram", &[self]) {
            return failed;
        }
        let ordered = low.is_finite() && high.is_finite() && low < high;
        if bins == 0 || bins > MOST_BINS || !ordered {
            let message = format!(
                "it takes 1 to {MOST_BINS} bins from a lower to a higher bound, not {bins} from {low} to {high}"
            );
            return Tensor::refused(Error::new("histogram", message), &[self]);
        }
        let x = self.flatten().cast(DType::F64);
        let edges = Tensor::linspace(low, high, bins + 1);
        let behind = edges.searchsorted(&x, true);
        let bin = x.equal(high).choose(&behind.full_like(bins as i64), &behind) - 1;
        let inside = x.ge(low).and(&x.le(high));
        let place = inside.choose(&bin, &bin.zeros_like());
        inside.cast(DType::I64).scatter_add(&place, 0, bins).composed_as("histogram", &[self])
    }

    /// How often each integer below `size` occurs. Reading the counts of an integer that is not below it is an error.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1_i64, 3, 1]).bincount(4).to_string(), "[0, 2, 0, 1]");
    /// ```
    #[track_caller]
    pub fn bincount(&self, size: usize) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        if !self.dtype().is_integer() {
            let message = format!("it counts integers, not {}", self.dtype());
            return Tensor::refused(Error::new("bincount", message).help("cast first with .cast(DType::I64)"), &[self]);
        }
        let flat = self.cast(DType::I64).flatten();
        flat.ones_like().scatter_add(&flat, 0, size).composed_as("bincount", &[self])
    }

    /// The distinct elements in ascending order, NaN last; for each element the place of its value among them, in the
    /// shape of this tensor; and how often each occurs. The elements are read, so they must not depend on an argument
    /// of `vmap` or `scan`. The derivative of a value is that of the first element that has it.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (values, places, counts) = Tensor::from([3.0, 1.0, 3.0]).unique();
    /// assert_eq!(values.to_string(), "[1, 3]");
    /// assert_eq!((places.to_string(), counts.to_string()), ("[1, 0, 1]".into(), "[1, 2]".into()));
    /// ```
    #[track_caller]
    pub fn unique(&self) -> (Tensor, Tensor, Tensor) {
        if self.error().is_some() {
            return (self.clone(), self.clone(), self.clone());
        }
        let elements = match self.eval() {
            Ok(array) => array,
            Err(error) => {
                let failed = if error.operation() == "read" {
                    let message = "its size depends on values that are not known while a function is transformed";
                    Tensor::refused(Error::new("unique", message), &[self])
                } else {
                    Tensor::failed(&error)
                };
                return (failed.clone(), failed.clone(), failed);
            }
        };
        // Integers are compared as integers: not all of them are floating-point numbers.
        let compare = |a: usize, b: usize| match elements.buffer() {
            Buffer::I64(integers) => integers[a].cmp(&integers[b]),
            buffer => {
                let (a, b) = (buffer.get(a), buffer.get(b));
                a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
        };
        let count = self.shape().elements();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| compare(*a, *b));
        let (mut firsts, mut counts, mut places) = (Vec::new(), Vec::new(), vec![0_i64; count]);
        for (rank, element) in order.iter().enumerate() {
            if rank == 0 || compare(order[rank - 1], *element).is_ne() {
                firsts.push(*element as i64);
                counts.push(0_i64);
            }
            if let Some(last) = counts.last_mut() {
                *last += 1;
            }
            places[*element] = firsts.len() as i64 - 1;
        }
        let values = self.flatten().take(&Tensor::from(firsts), 0);
        (values, Tensor::new(&places, self.shape().clone()), Tensor::from(counts))
    }
}

/// For each value, how many elements of an ascending vector stand before it. The vector may have leading axes, which are
/// then also those of the values.
#[derive(Clone, Copy, Debug)]
struct SearchSorted {
    right: bool,
}

impl CustomOp for SearchSorted {
    fn key(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }

    fn name(&self) -> &str {
        "searchsorted"
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((inputs[0].shape().clone(), DType::I64))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let (values, sorted) = (&inputs[0], &inputs[1]);
        let size = sorted.shape()[sorted.shape().rank() - 1];
        let tables = sorted.shape()[..sorted.shape().rank() - 1].iter().product::<usize>().max(1);
        let less = |a: f64, b: f64| a < b || (b.is_nan() && !a.is_nan());
        for table in 0..tables {
            let at = |place: usize| sorted.buffer().get(table * size + place);
            if let Some(place) = (1..size).find(|place| less(at(*place), at(place - 1))) {
                return Err(format!("the elements must ascend: {} follows {}", at(place), at(place - 1)));
            }
        }
        let count = (values.shape().elements() / tables).max(1);
        let place = |k: usize| {
            let (table, value) = (k / count, values.buffer().get(k));
            let before = |place: usize| {
                let element = sorted.buffer().get(table * size + place);
                if self.right { !less(value, element) } else { less(element, value) }
            };
            let (mut low, mut high) = (0, size);
            while low < high {
                let middle = (low + high) / 2;
                if before(middle) { low = middle + 1 } else { high = middle }
            }
            low as i64
        };
        Ok(Array::new(values.shape().clone(), Buffer::I64((0..values.shape().elements()).map(place).collect())))
    }

    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|_| vec![None, None]))
    }

    fn batched(&self, inputs: &[Tensor], with_axis: &[bool]) -> Option<Tensor> {
        let (values, sorted) = (&inputs[0], &inputs[1]);
        // A vector that all examples share needs no axis, unless it has others before.
        if !with_axis[1] && sorted.rank() == 1 {
            return Some(Tensor::custom(*self, &[values, sorted]));
        }
        let size = if with_axis[0] { values.shape()[0] } else { sorted.shape()[0] };
        let batched = |tensor: &Tensor, has: bool| match has {
            true => tensor.clone(),
            false => tensor.broadcast_to(Shape::from(size).followed_by(tensor.shape())),
        };
        Some(Tensor::custom(*self, &[&batched(values, with_axis[0]), &batched(sorted, with_axis[1])]))
    }
}
