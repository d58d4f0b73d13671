//! Reading and replacing elements at places that tensors of integers name.
//!
//! Indices of several axes become places on one, checked; reading is then a gather and replacing is a gather
//! from old and new elements together, so that no product with zero is involved and NaN stays where it is.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::exec::cpu::thread_pool;
use crate::expr::{Axes, Axis, CustomOp, ElementsMut, IntoTensor, Operand, Rule, Tensor, value_by_parts};
use crate::shape::Shape;

impl Tensor {
    /// The elements at places that tensors of indices name, one tensor for each of the first axes: `x[i, j]` in
    /// NumPy. The indices are broadcast together and their axes stand first; negative ones count from the end.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// let (rows, columns) = (Tensor::from([0_i64, 1, 1]), Tensor::from([2_i64, 0, -1]));
    /// assert_eq!(x.index_at(&[&rows, &columns]).to_string(), "[3, 4, 6]");
    /// ```
    #[track_caller]
    pub fn index_at(&self, indices: &[&Tensor]) -> Tensor {
        match self.places("index_at", indices) {
            Ok(places) => self.lined_up(indices.len()).take(&places, 0),
            Err(failed) => failed,
        }
    }

    /// The same tensor with other elements at places that tensors of indices name, as in [`Tensor::index_at`]. Where
    /// a place is named often, the last value stays, and alone has a derivative.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0, 3.0]);
    /// assert_eq!(x.with_at(&[&Tensor::from([0_i64, -1])], &Tensor::from([7.0, 9.0])).to_string(), "[7, 2, 9]");
    /// assert_eq!(x.with_at(&[&Tensor::from(1_i64)], 0.0).to_string(), "[1, 0, 3]");
    /// ```
    #[track_caller]
    pub fn with_at(&self, indices: &[&Tensor], values: impl IntoTensor) -> Tensor {
        let (places, values) = match self.entries("with_at", indices, &values.into_values_of(self)) {
            Ok(entries) => entries,
            Err(failed) => return failed,
        };
        self.lined_up(indices.len()).replaced(&places, &values).reshape(self.shape())
    }

    /// The same tensor with values added at places that tensors of indices name, as in [`Tensor::index_at`]. Where a
    /// place is named often, all values are added.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let counts = Tensor::zeros(3).add_at(&[&Tensor::from([0_i64, 2, 2])], 1.0);
    /// assert_eq!(counts.to_string(), "[1, 0, 2]");
    /// ```
    #[track_caller]
    pub fn add_at(&self, indices: &[&Tensor], values: impl IntoTensor) -> Tensor {
        match self.entries("add_at", indices, &values.into_values_of(self)) {
            Ok((places, values)) => {
                let sums = values.scatter_add(&places, 0, self.lined_up(indices.len()).shape()[0]);
                self + sums.reshape(self.shape())
            }
            Err(failed) => failed,
        }
    }

    /// Entries of a table by integers: row `k` wherever the indices say `k`.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let table = Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    /// assert_eq!(table.embedding(&Tensor::from([2_i64, 0])).to_string(), "[[5, 6],\n [1, 2]]");
    /// ```
    #[track_caller]
    pub fn embedding(&self, indices: &Tensor) -> Tensor {
        let integers = indices.as_indices();
        if integers.dtype() == DType::I64 && self.rank() > 0 && self.error().is_none() {
            // A gather checks bounds itself, and runs wherever the table is.
            return self.take(&integers, 0);
        }
        match self.places("embedding", &[indices]) {
            Ok(places) => self.take(&places, 0),
            Err(failed) => failed,
        }
    }

    /// Along an axis, the elements that a tensor of as many axes names for each line of its own: `take_along_axis`
    /// in NumPy. The other axes are broadcast together.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// let columns = Tensor::from([[2_i64, 0], [1, 1]]);
    /// assert_eq!(x.take_along(&columns, 1).to_string(), "[[3, 1],\n [5, 5]]");
    /// ```
    #[track_caller]
    pub fn take_along(&self, indices: &Tensor, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        match self.lines("take_along", indices, axis) {
            Ok(lines) => lines.table.take(&lines.places, 0).reshape(lines.shape).last_axis_to(lines.axis),
            Err(failed) => failed,
        }
    }

    /// The counterpart of [`Tensor::take_along`]: the same tensor with values put at those places.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// let largest = x.argmax(1).unsqueeze(1);
    /// assert_eq!(x.put_along(&largest, 0.0, 1).to_string(), "[[1, 2, 0],\n [4, 5, 0]]");
    /// ```
    #[track_caller]
    pub fn put_along(&self, indices: &Tensor, values: impl IntoTensor, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        match self.lines_and_values("put_along", indices, &values.into_values_of(self), axis) {
            Ok((lines, values)) => lines.whole(&lines.table.replaced(&lines.places, &values), self),
            Err(failed) => failed,
        }
    }

    /// The same tensor with values added at the places of [`Tensor::take_along`].
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let votes = Tensor::from([[0_i64, 0, 2], [1, 1, 1]]);
    /// let counts = Tensor::zeros([2, 3]).add_along(&votes, 1.0, 1);
    /// assert_eq!(counts.to_string(), "[[2, 0, 1],\n [0, 3, 0]]");
    /// ```
    #[track_caller]
    pub fn add_along(&self, indices: &Tensor, values: impl IntoTensor, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        match self.lines_and_values("add_along", indices, &values.into_values_of(self), axis) {
            Ok((lines, values)) => {
                let sums = values.scatter_add(&lines.places, 0, lines.table.shape()[0]);
                self + lines.whole(&sums, self)
            }
            Err(failed) => failed,
        }
    }

    /// The first axes as one.
    #[track_caller]
    fn lined_up(&self, axes: usize) -> Tensor {
        self.reshape(Shape::from(Shape::from(&self.shape()[..axes]).elements()).followed_by(&self.shape()[axes..]))
    }

    /// Entries along the first axis replaced by new ones at some places.
    #[track_caller]
    fn replaced(&self, places: &Tensor, values: &Tensor) -> Tensor {
        let count = places.shape().elements();
        let new = values.reshape(Shape::from(count).followed_by(&self.shape()[1..]));
        let sources = Tensor::custom(Sources { size: self.shape()[0] }, &[&places.reshape(count)]);
        Tensor::concatenate([&new, self], 0).take(&sources, 0)
    }

    /// The places on the first axes taken as one, from indices of each, or the failure.
    #[track_caller]
    fn places(&self, name: &'static str, indices: &[&Tensor]) -> Result<Tensor, Tensor> {
        if self.error().is_some() {
            return Err(self.clone());
        }
        if indices.is_empty() || indices.len() > self.rank() {
            let message = format!("{} tensors of indices for the axes of the shape {}", indices.len(), self.shape());
            return Err(Tensor::refused(Error::new(name, message), &[self]));
        }
        // A loop and no closure, which would not pass the caller's line on.
        let mut integers = Vec::new();
        for own in indices {
            integers.push(own.as_indices());
        }
        let aligned = Tensor::aligned(name, &integers.iter().map(|own| &**own).collect::<Vec<_>>())?;
        let sizes = self.shape()[..indices.len()].to_vec();
        let places =
            Tensor::custom(Places { name, sizes }, &aligned.iter().map(|tensor| &**tensor).collect::<Vec<_>>());
        if places.error().is_some() { Err(places) } else { Ok(places) }
    }

    /// The places, and the values stretched to what stands there, or the failure.
    #[track_caller]
    fn entries(&self, name: &'static str, indices: &[&Tensor], values: &Tensor) -> Result<(Tensor, Tensor), Tensor> {
        let places = self.places(name, indices)?;
        let values = values.fitted(name, self)?;
        let values = values.broadcast_to(places.shape().followed_by(&self.shape()[indices.len()..]));
        if values.error().is_some() { Err(values) } else { Ok((places, values)) }
    }

    /// The lines along an axis one after another, and the places that indices name in each.
    #[track_caller]
    fn lines(&self, name: &'static str, indices: &Tensor, axis: isize) -> Result<Lines, Tensor> {
        let axis = self.resolved(name, &Axes::from(axis))?[0];
        if indices.error().is_some() {
            return Err(indices.clone());
        }
        let indices = &*indices.as_indices();
        if indices.rank() != self.rank() {
            let message =
                format!("indices of the shape {} must have as many axes as {}", indices.shape(), self.shape());
            return Err(Tensor::refused(Error::new(name, message), &[self, indices]));
        }
        let (own, theirs) = (self.axis_to_last(axis), indices.axis_to_last(axis));
        let last = self.rank() - 1;
        let Some(lead) = Shape::from(&own.shape()[..last]).broadcast(&Shape::from(&theirs.shape()[..last])) else {
            let message = format!("beside axis {axis}, {} and {} do not broadcast", self.shape(), indices.shape());
            return Err(Tensor::refused(Error::new(name, message), &[self, indices]));
        };
        let (size, shape) = (own.shape()[last], lead.followed_by(&[theirs.shape()[last]]));
        let whole = lead.followed_by(&[size]);
        let operation = LinePlaces { name, axis, size, rank: shape.rank() };
        let places = Tensor::custom(operation, &[&theirs.broadcast_to(&shape)]);
        if places.error().is_some() {
            return Err(places);
        }
        Ok(Lines { table: own.broadcast_to(&whole).reshape(whole.elements()), places, shape, axis })
    }

    /// The lines, and the values stretched to the shape of the indices with the axis at the end, or the failure.
    #[track_caller]
    pub(super) fn lines_and_values(
        &self,
        name: &'static str,
        indices: &Tensor,
        values: &Tensor,
        axis: isize,
    ) -> Result<(Lines, Tensor), Tensor> {
        let lines = self.lines(name, indices, axis)?;
        if lines.table.shape()[0] != self.shape().elements() {
            let message = format!("the indices {} name places beside the shape {}", indices.shape(), self.shape());
            return Err(Tensor::refused(Error::new(name, message), &[self, indices]));
        }
        let values = values.fitted(name, self)?;
        let mut shape = lines.shape.to_vec();
        let count = shape.pop().unwrap_or(1);
        shape.insert(lines.axis, count);
        let values = values.broadcast_to(shape);
        if values.error().is_some() {
            return Err(values);
        }
        let values = values.axis_to_last(lines.axis);
        Ok((lines, values))
    }

    /// One axis moved to the end.
    #[track_caller]
    pub(super) fn axis_to_last(&self, axis: usize) -> Tensor {
        let order: Vec<usize> = (0..self.rank()).filter(|other| *other != axis).chain([axis]).collect();
        self.permute(&order)
    }

    /// The last axis moved to another place.
    #[track_caller]
    pub(super) fn last_axis_to(&self, axis: usize) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let last = self.rank() - 1;
        let order: Vec<usize> = (0..axis).chain([last]).chain(axis..last).collect();
        self.permute(&order)
    }
}

/// The lines of a tensor along an axis, one after another.
pub(super) struct Lines {
    pub(super) table: Tensor,
    pub(super) places: Tensor,
    /// The shape of the indices with the axis at the end.
    shape: Shape,
    axis: usize,
}

impl Lines {
    /// Such lines as a tensor again, of the shape of the one that they were made of.
    #[track_caller]
    pub(super) fn whole(&self, table: &Tensor, like: &Tensor) -> Tensor {
        let mut shape = like.shape().to_vec();
        let size = shape.remove(self.axis);
        shape.push(size);
        table.reshape(shape).last_axis_to(self.axis)
    }
}

/// What is said about the first index that is not on an axis, if there is one.
fn first_outside(indices: &[i64], axis: usize, size: usize) -> Option<String> {
    let outside = indices.iter().find(|index| !(-(size as i64)..size as i64).contains(index))?;
    Some(format!("index {outside} is not on axis {axis}, which has size {size}"))
}

/// The indices that a thread takes at a time.
const PART: usize = 1 << 15;

/// The type that indices must have.
fn check_integers(inputs: &[&Tensor]) -> Result<(), String> {
    match inputs.iter().find(|input| input.dtype() != DType::I64) {
        Some(other) => Err(format!("indices must be i64, not {}", other.dtype())),
        None => Ok(()),
    }
}

/// From indices of some axes to places on all of them taken as one.
#[derive(Clone, Debug)]
struct Places {
    name: &'static str,
    sizes: Vec<usize>,
}

impl CustomOp for Places {
    fn key(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }

    fn name(&self) -> &str {
        self.name
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        check_integers(inputs)?;
        Ok((inputs[0].shape().clone(), DType::I64))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        value_by_parts(self, inputs, (inputs[0].shape().clone(), DType::I64))
    }

    fn value_into(&self, inputs: &[Operand<'_>], output: ElementsMut<'_>) -> Option<Result<(), String>> {
        let ElementsMut::I64(places) = output else { return None };
        let axes: Vec<(&[i64], usize)> =
            inputs.iter().zip(&self.sizes).map(|(input, size)| (input.elements.integers(), *size)).collect();
        let all_inside = AtomicBool::new(true);
        thread_pool::each_part(places, PART, |part, places| {
            places.fill(0);
            let mut inside = true;
            for (indices, size) in &axes {
                let (indices, size) = (&indices[part * PART..][..places.len()], *size as i64);
                for (place, index) in places.iter_mut().zip(indices) {
                    let from_front = index.wrapping_add(if *index < 0 { size } else { 0 });
                    inside &= (from_front as u64) < size as u64;
                    *place = place.wrapping_mul(size).wrapping_add(from_front);
                }
            }
            all_inside.fetch_and(inside, Ordering::Relaxed);
        });
        // The first axis that an index is not on, and the first such index, are named.
        let outside = |all: &[(&[i64], usize)]| {
            all.iter().enumerate().find_map(|(axis, (indices, size))| first_outside(indices, axis, *size))
        };
        Some(if all_inside.into_inner() { Ok(()) } else { outside(&axes).map_or(Ok(()), Err) })
    }

    fn rule<'r>(&self, inputs: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|_| vec![None; inputs.len()]))
    }

    fn batched(&self, inputs: &[Tensor], with_axis: &[bool]) -> Option<Tensor> {
        let led = inputs.iter().zip(with_axis).find(|(_, has)| **has)?.0.shape();
        let all: Vec<Tensor> = inputs.iter().map(|input| input.broadcast_to(led)).collect();
        Some(Tensor::custom(self.clone(), &all.iter().collect::<Vec<_>>()))
    }
}

/// From indices along the last of `rank` axes to places on all lines one after another.
#[derive(Clone, Debug)]
struct LinePlaces {
    name: &'static str,
    axis: usize,
    size: usize,
    rank: usize,
}

impl CustomOp for LinePlaces {
    fn key(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }

    fn name(&self) -> &str {
        self.name
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        check_integers(inputs)?;
        Ok((inputs[0].shape().clone(), DType::I64))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        value_by_parts(self, inputs, (inputs[0].shape().clone(), DType::I64))
    }

    fn value_into(&self, inputs: &[Operand<'_>], output: ElementsMut<'_>) -> Option<Result<(), String>> {
        let ElementsMut::I64(places) = output else { return None };
        let (shape, indices) = (inputs[0].shape, inputs[0].elements.integers());
        let count = shape[shape.rank() - 1].max(1);
        // Examples stand in front, and each has its own lines.
        let lines = shape[shape.rank() - self.rank..shape.rank() - 1].iter().product::<usize>().max(1);
        let (together, size) = (PART.div_ceil(count), self.size as i64);
        let all_inside = AtomicBool::new(true);
        thread_pool::each_part(places, together * count, |part, places| {
            let indices = &indices[part * together * count..][..places.len()];
            let mut inside = true;
            for (line, (places, indices)) in places.chunks_mut(count).zip(indices.chunks(count)).enumerate() {
                let first = ((part * together + line) % lines * self.size) as i64;
                for (place, index) in places.iter_mut().zip(indices) {
                    let from_front = index.wrapping_add(if *index < 0 { size } else { 0 });
                    inside &= (from_front as u64) < size as u64;
                    *place = first.wrapping_add(from_front);
                }
            }
            all_inside.fetch_and(inside, Ordering::Relaxed);
        });
        Some(match all_inside.into_inner() {
            true => Ok(()),
            false => first_outside(indices, self.axis, self.size).map_or(Ok(()), Err),
        })
    }

    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|_| vec![None]))
    }

    fn batched(&self, inputs: &[Tensor], _: &[bool]) -> Option<Tensor> {
        Some(Tensor::custom(self.clone(), &[&inputs[0]]))
    }
}

/// From the places that new entries take, along the last axis, to where each of `size` entries comes from: the last
/// new entry for its place, or the old one, which stand behind all new ones.
#[derive(Clone, Debug)]
struct Sources {
    size: usize,
}

impl CustomOp for Sources {
    fn key(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }

    fn name(&self) -> &str {
        "with_at"
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        let lead = &inputs[0].shape()[..inputs[0].rank() - 1];
        Ok((Shape::from(lead).followed_by(&[self.size]), DType::I64))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let shape = inputs[0].shape();
        let (lead, count) = (Shape::from(&shape[..shape.rank() - 1]), shape[shape.rank() - 1]);
        let mut sources: Vec<i64> = Vec::with_capacity(lead.elements() * self.size);
        for line in 0..lead.elements() {
            let start = sources.len();
            sources.extend((0..self.size).map(|k| (count + k) as i64));
            for (entry, place) in integers(&inputs[0])[line * count..(line + 1) * count].iter().enumerate() {
                sources[start + *place as usize] = entry as i64;
            }
        }
        Ok(Array::new(lead.followed_by(&[self.size]), Buffer::I64(sources)))
    }

    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|_| vec![None]))
    }

    fn batched(&self, inputs: &[Tensor], _: &[bool]) -> Option<Tensor> {
        Some(Tensor::custom(self.clone(), &[&inputs[0]]))
    }
}

/// The elements of an array of integers.
pub(super) fn integers(array: &Array) -> &[i64] {
    match array.buffer() {
        Buffer::I64(elements) => elements,
        _ => &[],
    }
}
