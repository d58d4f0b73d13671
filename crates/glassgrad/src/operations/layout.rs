//! The same elements in another arrangement: axes, parts, repetitions, triangles, grids.

use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::error::Error;
use crate::expr::{Axes, Axis, Number, Tensor};
use crate::shape::Shape;

/// The most parts that a tensor is divided into, so that a slip of the pen is an error and not a crash.
const MOST_PARTS: usize = 1 << 20;

/// Axes.
impl Tensor {
    /// All elements along one axis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 2.0], [3.0, 4.0]]).flatten().to_string(), "[1, 2, 3, 4]");
    /// ```
    #[track_caller]
    pub fn flatten(&self) -> Tensor {
        self.reshape(self.shape().elements())
    }

    /// Without an axis, whose size must be 1.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::zeros([2, 1, 3]).squeeze(1).shape().to_string(), "[2, 3]");
    /// ```
    #[track_caller]
    pub fn squeeze(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        match self.resolved("squeeze", &Axes::from(axis)) {
            Ok(resolved) if self.shape()[resolved[0]] != 1 => {
                let message = format!("axis {axis} has size {}, not 1", self.shape()[resolved[0]]);
                Tensor::refused(Error::new("squeeze", message), &[self])
            }
            Ok(resolved) => {
                let mut shape = self.shape().to_vec();
                shape.remove(resolved[0]);
                self.reshape(shape)
            }
            Err(failed) => failed,
        }
    }

    /// Two axes exchanged.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3, 4]).swap_axes(0, -1).shape().to_string(), "[4, 3, 2]");
    /// ```
    #[track_caller]
    pub fn swap_axes(&self, first: impl Into<Axis>, second: impl Into<Axis>) -> Tensor {
        let (Axis(first), Axis(second)) = (first.into(), second.into());
        match self.both_axes("swap_axes", first, second) {
            Ok((first, second)) => {
                let mut order: Vec<usize> = (0..self.rank()).collect();
                order.swap(first, second);
                self.permute(&order)
            }
            Err(failed) => failed,
        }
    }

    /// One axis moved to another place, the others in their order.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3, 4]).move_axis(0, -1).shape().to_string(), "[3, 4, 2]");
    /// ```
    #[track_caller]
    pub fn move_axis(&self, from: impl Into<Axis>, to: impl Into<Axis>) -> Tensor {
        let (Axis(from), Axis(to)) = (from.into(), to.into());
        match self.both_axes("move_axis", from, to) {
            Ok((from, to)) => {
                let mut order: Vec<usize> = (0..self.rank()).filter(|axis| *axis != from).collect();
                order.insert(to, from);
                self.permute(&order)
            }
            Err(failed) => failed,
        }
    }

    #[track_caller]
    fn both_axes(&self, name: &str, first: isize, second: isize) -> Result<(usize, usize), Tensor> {
        Ok((self.resolved(name, &Axes::from(first))?[0], self.resolved(name, &Axes::from(second))?[0]))
    }
}

/// Parts.
impl Tensor {
    /// Parts of these sizes along an axis, which together must be the whole.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let parts = Tensor::arange(5.0).split(&[2, 3], 0);
    /// assert_eq!((parts[0].to_string(), parts[1].to_string()), ("[0, 1]".into(), "[2, 3, 4]".into()));
    /// ```
    #[track_caller]
    pub fn split(&self, sizes: &[usize], axis: impl Into<Axis>) -> Vec<Tensor> {
        let Axis(axis) = axis.into();
        let axis = match self.resolved("split", &Axes::from(axis)) {
            Ok(resolved) => resolved[0],
            Err(failed) => return vec![failed; sizes.len()],
        };
        let total = sizes.iter().fold(0_usize, |total, size| total.saturating_add(*size));
        if total != self.shape()[axis] {
            let message = format!("parts of the sizes {sizes:?} do not make up {} places", self.shape()[axis]);
            return vec![Tensor::refused(Error::new("split", message), &[self]); sizes.len()];
        }
        let mut parts = Vec::new();
        let mut start = 0;
        for size in sizes {
            parts.push(self.part(axis, start, *size));
            start += size;
        }
        parts
    }

    /// `count` parts along an axis, whose sizes differ by at most one, the larger ones first: `array_split` in NumPy and JAX,
    /// `tensor_split` in PyTorch.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let parts = Tensor::arange(5.0).array_split(3, 0);
    /// let texts: Vec<String> = parts.iter().map(Tensor::to_string).collect();
    /// assert_eq!(texts, ["[0, 1]", "[2, 3]", "[4]"]);
    /// ```
    #[track_caller]
    pub fn array_split(&self, count: usize, axis: impl Into<Axis>) -> Vec<Tensor> {
        let axis = match self.divided("array_split", count, axis.into()) {
            Ok(axis) => axis,
            Err(failed) => return failed,
        };
        let size = self.shape()[axis];
        let sizes: Vec<usize> = (0..count).map(|k| size / count + usize::from(k < size % count)).collect();
        self.split(&sizes, axis)
    }

    /// At most `count` parts along an axis, all of the same size but for the last, as in PyTorch: 5 places in 4 parts are
    /// parts of 2, 2 and 1.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let parts = Tensor::arange(5.0).chunk(4, 0);
    /// let texts: Vec<String> = parts.iter().map(Tensor::to_string).collect();
    /// assert_eq!(texts, ["[0, 1]", "[2, 3]", "[4]"]);
    /// ```
    #[track_caller]
    pub fn chunk(&self, count: usize, axis: impl Into<Axis>) -> Vec<Tensor> {
        let axis = match self.divided("chunk", count, axis.into()) {
            Ok(axis) => axis,
            Err(failed) => return failed,
        };
        let total = self.shape()[axis];
        let size = total.div_ceil(count).max(1);
        let sizes: Vec<usize> = (0..total.div_ceil(size).max(1)).map(|k| size.min(total - k * size)).collect();
        self.split(&sizes, axis)
    }

    /// The axis that is divided into parts, or as many failures.
    #[track_caller]
    fn divided(&self, name: &str, count: usize, axis: Axis) -> Result<usize, Vec<Tensor>> {
        if count == 0 || count > MOST_PARTS {
            let message = format!("there is no dividing into {count} parts, only into 1 to {MOST_PARTS}");
            return Err(vec![Tensor::refused(Error::new(name, message), &[self])]);
        }
        match self.axis_from_front(name, axis) {
            Ok(axis) => Ok(axis),
            Err(failed) => Err(vec![failed; count]),
        }
    }

    /// The diagonals of the last two axes, `offset` places above the main one, or below if it is negative.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// assert_eq!(x.diagonal(0).to_string(), "[1, 5]");
    /// assert_eq!(x.diagonal(1).to_string(), "[2, 6]");
    /// assert_eq!(x.diagonal(-1).to_string(), "[4]");
    /// ```
    #[track_caller]
    pub fn diagonal(&self, offset: isize) -> Tensor {
        let (rows, columns) = match self.rows_and_columns("diagonal") {
            Ok(sizes) => sizes,
            Err(failed) => return failed,
        };
        if self.dtype() == DType::Bool {
            return self.cast(DType::I64).diagonal(offset).cast(DType::Bool);
        }
        let (below, above) = if offset < 0 { (offset.unsigned_abs(), 0) } else { (0, offset.unsigned_abs()) };
        let (top, left) = (below.min(rows), above.min(columns));
        let length = (rows - top).min(columns - left);
        let lead = self.rank() - 2;
        let square = self.part(lead, top, length).part(lead + 1, left, length);
        let labels: Vec<usize> = (0..=lead).collect();
        let extents = square.shape()[..=lead].to_vec();
        Tensor::contract(Einsum::new(vec![[&labels[..], &[lead]].concat()], labels, extents), &[&square])
    }

    /// The lower triangle of the last two axes, and zeros above the diagonal that is `offset` above the main one.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// assert_eq!(x.tril(0).to_string(), "[[1, 0, 0],\n [4, 5, 0]]");
    /// ```
    #[track_caller]
    pub fn tril(&self, offset: isize) -> Tensor {
        match self.distances("tril") {
            Ok(distances) => distances.le(offset as i64).choose(self, &self.zeros_like()),
            Err(failed) => failed,
        }
    }

    /// The upper triangle of the last two axes, and zeros below the diagonal that is `offset` above the main one.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// assert_eq!(x.triu(1).to_string(), "[[0, 2, 3],\n [0, 0, 6]]");
    /// ```
    #[track_caller]
    pub fn triu(&self, offset: isize) -> Tensor {
        match self.distances("triu") {
            Ok(distances) => distances.ge(offset as i64).choose(self, &self.zeros_like()),
            Err(failed) => failed,
        }
    }

    /// Column index minus row index over the last two axes: the number of the diagonal. Two index vectors are broadcast inside
    /// the loop that reads them, so no matrix of indices is materialised.
    #[track_caller]
    fn distances(&self, name: &str) -> Result<Tensor, Tensor> {
        let (rows, columns) = self.rows_and_columns(name)?;
        Ok(Tensor::arange(columns as i64) - Tensor::arange(rows as i64).unsqueeze(1))
    }

    #[track_caller]
    fn rows_and_columns(&self, name: &str) -> Result<(usize, usize), Tensor> {
        if self.error().is_some() {
            return Err(self.clone());
        }
        match &self.shape()[..] {
            [.., rows, columns] => Ok((*rows, *columns)),
            _ => {
                let message = format!("it takes a matrix or a stack of matrices, not the shape {}", self.shape());
                Err(Tensor::refused(Error::new(name, message), &[self]))
            }
        }
    }
}

/// Repetitions.
impl Tensor {
    /// The whole repeated along each axis. Counts and axes are aligned at the end; what is missing is 1.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0]).tile(&[2, 2]).to_string(), "[[1, 2, 1, 2],\n [1, 2, 1, 2]]");
    /// ```
    #[track_caller]
    pub fn tile(&self, counts: &[usize]) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let rank = self.rank().max(counts.len());
        let padded = |sizes: &[usize]| [&vec![1; rank - sizes.len()], sizes].concat();
        let (counts, sizes) = (padded(counts), padded(self.shape()));
        let pairs = || counts.iter().zip(&sizes);
        let narrow: Vec<usize> = sizes.iter().flat_map(|size| [1, *size]).collect();
        let wide: Vec<usize> = pairs().flat_map(|(count, size)| [*count, *size]).collect();
        let whole: Vec<usize> = pairs().map(|(count, size)| count.saturating_mul(*size)).collect();
        self.reshape(narrow).broadcast_to(wide).reshape(whole)
    }

    /// Each element repeated along an axis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0]).repeat(3, 0).to_string(), "[1, 1, 1, 2, 2, 2]");
    /// ```
    #[track_caller]
    pub fn repeat(&self, count: usize, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        match self.resolved("repeat", &Axes::from(axis)) {
            Ok(resolved) => {
                let mut wide = self.shape().to_vec();
                wide.insert(resolved[0] + 1, count);
                let mut whole = self.shape().to_vec();
                whole[resolved[0]] = whole[resolved[0]].saturating_mul(count);
                self.unsqueeze(resolved[0] + 1).broadcast_to(wide).reshape(whole)
            }
            Err(failed) => failed,
        }
    }

    /// The elements moved along an axis; those that leave at one end come in at the other.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0, 3.0, 4.0]).roll(1, 0).to_string(), "[4, 1, 2, 3]");
    /// ```
    #[track_caller]
    pub fn roll(&self, shift: isize, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        let axis = match self.resolved("roll", &Axes::from(axis)) {
            Ok(resolved) => resolved[0],
            Err(failed) => return failed,
        };
        let size = self.shape()[axis];
        let moved = if size == 0 { 0 } else { shift.rem_euclid(size as isize) as usize };
        if moved == 0 {
            return self.clone();
        }
        let (front, back) = (self.part(axis, 0, size - moved), self.part(axis, size - moved, moved));
        Tensor::concatenate([&back, &front], axis)
    }

    /// The differences of neighbours along an axis, which is one shorter.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 4.0, 9.0, 16.0]).diff(0).to_string(), "[3, 5, 7]");
    /// ```
    #[track_caller]
    pub fn diff(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        match self.resolved("diff", &Axes::from(axis)) {
            Ok(resolved) => {
                let less = self.shape()[resolved[0]].saturating_sub(1);
                let start = self.shape()[resolved[0]] - less;
                self.part(resolved[0], start, less) - self.part(resolved[0], 0, less)
            }
            Err(failed) => failed,
        }
    }
}

/// Grids.
impl Tensor {
    /// One tensor for each vector, all of the shape of the grid that they span: element `[i, j, …]` of the first is
    /// element `i` of the first vector, and so on (`indexing="ij"` in NumPy).
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let grid = Tensor::meshgrid(&[&Tensor::from([1.0, 2.0]), &Tensor::from([3.0, 4.0, 5.0])]);
    /// assert_eq!(grid[0].to_string(), "[[1, 1, 1],\n [2, 2, 2]]");
    /// assert_eq!(grid[1].to_string(), "[[3, 4, 5],\n [3, 4, 5]]");
    /// ```
    #[track_caller]
    pub fn meshgrid(vectors: impl IntoIterator<Item = impl AsRef<Tensor>>) -> Vec<Tensor> {
        let list: Vec<_> = vectors.into_iter().collect();
        let vectors: Vec<&Tensor> = list.iter().map(AsRef::as_ref).collect();
        let failed = vectors.iter().find(|vector| vector.error().is_some()).map(|failed| (*failed).clone());
        if let Some(failed) = failed {
            return vec![failed; vectors.len()];
        }
        if let Some(other) = vectors.iter().find(|vector| vector.rank() != 1) {
            let message = format!("it takes vectors, not the shape {}", other.shape());
            return vec![Tensor::refused(Error::new("meshgrid", message), &vectors); vectors.len()];
        }
        let shape = Shape::from(vectors.iter().map(|vector| vector.shape()[0]).collect::<Vec<_>>());
        let mut grid = Vec::new();
        for (axis, vector) in vectors.iter().enumerate() {
            let mut narrow = vec![1; shape.rank()];
            narrow[axis] = shape[axis];
            grid.push(vector.reshape(narrow).broadcast_to(&shape));
        }
        grid
    }

    /// One number everywhere, in the shape and type of another tensor.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::zeros(2).full_like(7.0).to_string(), "[7, 7]");
    /// ```
    #[track_caller]
    pub fn full_like(&self, value: impl Number) -> Tensor {
        if self.error().is_some() { self.clone() } else { Tensor::full(self.shape(), value, self.dtype()) }
    }

    /// `count` powers of ten, whose exponents go from `start` to `end` at equal distances.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::logspace(0.0, 3.0, 4).to_string(), "[   1,   10,  100, 1000]");
    /// ```
    #[track_caller]
    pub fn logspace<E: crate::expr::LiteralElement>(start: E, end: E, count: usize) -> Tensor {
        let exponents = Tensor::linspace(start, end, count);
        exponents.full_like(10.0).pow(exponents)
    }
}
