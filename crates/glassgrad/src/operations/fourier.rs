//! Discrete Fourier transforms of complex tensors.
//!
//! Seen as a real linear map of real and imaginary parts, the transform without a factor is a symmetric complex matrix;
//! its transpose is its conjugate, which is the transform in the other direction. So one operation, in two directions,
//! is closed under differentiation.

use std::sync::{Mutex, PoisonError};

use super::Complex;
use crate::array::Array;
use crate::dtype::DType;
use crate::error::Error;
use crate::exec::cpu::thread_pool;
use crate::expr::{Axes, Axis, CustomOp, Elements, ElementsMut, Operand, Rule, Tensor, value_by_parts};
use crate::shape::Shape;

/// Where the factor 1/n of a transform and its inverse stands.
///
/// ```
/// use glassgrad::{Tensor, operations::{Complex, Norm}};
/// let x = Complex::real(&Tensor::from([3.0, 4.0]));
/// assert_eq!(x.fft_norm(0, Norm::Ortho).abs_square().sum().item().unwrap().round(), 25.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Norm {
    /// At the inverse.
    #[default]
    Backward,
    /// At both as 1/√n: lengths stay.
    Ortho,
    /// At the transform.
    Forward,
}

impl Complex {
    /// The discrete Fourier transform along an axis: Xₖ = Σⱼ xⱼ exp(-2πi jk/n).
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let x = Complex::real(&Tensor::from([1.0, 0.0, 0.0, 0.0]));
    /// assert_eq!(x.fft(0).to_string(), "[1+0i, 1+0i, 1+0i, 1+0i]");
    /// ```
    #[track_caller]
    pub fn fft(&self, axis: impl Into<Axis>) -> Complex {
        let Axis(axis) = axis.into();
        self.fft_norm(axis, Norm::Backward)
    }

    /// The inverse of [`Complex::fft`]: xⱼ = 1/n Σₖ Xₖ exp(2πi jk/n).
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let x = Complex::real(&Tensor::from([1.0, 2.0]));
    /// assert_eq!(x.fft(0).ifft(0).to_string(), "[1+0i, 2+0i]");
    /// ```
    #[track_caller]
    pub fn ifft(&self, axis: impl Into<Axis>) -> Complex {
        let Axis(axis) = axis.into();
        self.ifft_norm(axis, Norm::Backward)
    }

    /// [`Complex::fft`] with another place for the factor.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::{Complex, Norm}};
    /// let x = Complex::real(&Tensor::from([1.0, 3.0]));
    /// assert_eq!(x.fft_norm(0, Norm::Forward).to_string(), "[ 2+0i, -1+0i]");
    /// ```
    #[track_caller]
    pub fn fft_norm(&self, axis: impl Into<Axis>, norm: Norm) -> Complex {
        let Axis(axis) = axis.into();
        self.transform("fft", axis, false, norm)
    }

    /// [`Complex::ifft`] with another place for the factor.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::{Complex, Norm}};
    /// let x = Complex::real(&Tensor::from([1.0, 3.0]));
    /// assert_eq!(x.ifft_norm(0, Norm::Forward).to_string(), "[ 4+0i, -2+0i]");
    /// ```
    #[track_caller]
    pub fn ifft_norm(&self, axis: impl Into<Axis>, norm: Norm) -> Complex {
        let Axis(axis) = axis.into();
        self.transform("ifft", axis, true, norm)
    }

    /// The transform along the last two axes.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let x = Complex::real(&Tensor::from([[1.0, 2.0], [3.0, 4.0]]));
    /// assert_eq!(x.fft2().to_string(), "[[10+0i, -2+0i],\n [-4+0i,  0+0i]]");
    /// ```
    #[track_caller]
    pub fn fft2(&self) -> Complex {
        self.fft(-1).fft(-2)
    }

    /// The inverse of [`Complex::fft2`].
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let x = Complex::real(&Tensor::from([[1.0, 2.0], [3.0, 4.0]]));
    /// assert_eq!(x.fft2().ifft2().to_string(), "[[1+0i, 2+0i],\n [3+0i, 4+0i]]");
    /// ```
    #[track_caller]
    pub fn ifft2(&self) -> Complex {
        self.ifft(-1).ifft(-2)
    }

    /// The transform along several axes.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let x = Complex::real(&Tensor::ones([2, 2, 2]));
    /// assert_eq!(x.fftn(&[0, 1, 2]).re.sum().item().unwrap(), 8.0);
    /// ```
    #[track_caller]
    pub fn fftn(&self, axes: impl Into<Axes>) -> Complex {
        let mut transformed = self.clone();
        for axis in axes.into().iter() {
            transformed = transformed.fft(axis);
        }
        transformed
    }

    /// The inverse of [`Complex::fftn`].
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let x = Complex::real(&Tensor::from([[1.0, 2.0], [3.0, 4.0]]));
    /// assert_eq!(x.fftn(&[0, 1]).ifftn(&[0, 1]).to_string(), "[[1+0i, 2+0i],\n [3+0i, 4+0i]]");
    /// ```
    #[track_caller]
    pub fn ifftn(&self, axes: impl Into<Axes>) -> Complex {
        let mut transformed = self.clone();
        for axis in axes.into().iter() {
            transformed = transformed.ifft(axis);
        }
        transformed
    }

    /// The inverse of [`Tensor::rfft`]: real numbers, `length` of them, from the first half of their transform.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0, 3.0]).rfft(0).irfft(3, 0).to_string(), "[1, 2, 3]");
    /// ```
    #[track_caller]
    pub fn irfft(&self, length: usize, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        let along = match self.re.resolved("irfft", &Axes::from(axis)) {
            Ok(resolved) => resolved[0],
            Err(failed) => return failed,
        };
        let size = self.shape()[along];
        if length == 0 || size != length / 2 + 1 {
            let message = match size {
                0 => format!("axis {axis} is empty"),
                _ => format!(
                    "{size} places are those of {} or {} real numbers, not of {length}",
                    2 * size - 2,
                    2 * size - 1
                ),
            };
            return Tensor::refused(Error::new("irfft", message), &[&self.re]);
        }
        // The other half is the conjugate of the first in reverse order.
        let rest = length - size;
        let mirrored = |part: &Tensor, sign: f64| {
            let other = part.part(along, 1, rest).flip([along]) * sign;
            Tensor::concatenate([part, &other], along)
        };
        Complex { re: mirrored(&self.re, 1.0), im: mirrored(&self.im, -1.0) }.ifft(axis).re
    }

    /// [`Tensor::fftshift`] of both parts.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::real(&Tensor::from([0.0, 1.0, 2.0])).fftshift(0).to_string(), "[2+0i, 0+0i, 1+0i]");
    /// ```
    #[track_caller]
    pub fn fftshift(&self, axis: impl Into<Axis>) -> Complex {
        let Axis(axis) = axis.into();
        Complex { re: self.re.fftshift(axis), im: self.im.fftshift(axis) }
    }

    /// [`Tensor::ifftshift`] of both parts.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::real(&Tensor::from([2.0, 0.0, 1.0])).ifftshift(0).to_string(), "[0+0i, 1+0i, 2+0i]");
    /// ```
    #[track_caller]
    pub fn ifftshift(&self, axis: impl Into<Axis>) -> Complex {
        let Axis(axis) = axis.into();
        Complex { re: self.re.ifftshift(axis), im: self.im.ifftshift(axis) }
    }

    #[track_caller]
    fn transform(&self, name: &'static str, axis: isize, inverse: bool, norm: Norm) -> Complex {
        let whole = Complex::new(self.re.clone(), self.im.clone());
        let along = match whole.re.resolved(name, &Axes::from(axis)) {
            Ok(resolved) => resolved[0],
            Err(failed) => return Complex { re: failed.clone(), im: failed },
        };
        let size = whole.shape()[along].max(1) as f64;
        let factor = match (norm, inverse) {
            (Norm::Ortho, _) => 1.0 / size.sqrt(),
            (Norm::Backward, true) | (Norm::Forward, false) => 1.0 / size,
            (Norm::Backward, false) | (Norm::Forward, true) => 1.0,
        };
        let parts = [whole.re.axis_to_last(along), whole.im.axis_to_last(along)];
        let result = Tensor::custom(Transform { name, inverse }, &[&parts[0], &parts[1]]);
        planes(&result.scaled(factor), along)
    }
}

/// Real and imaginary parts that stand one after another along the first axis, with the axis of the transform at the end.
#[track_caller]
fn planes(result: &Tensor, along: usize) -> Complex {
    if result.error().is_some() {
        return Complex { re: result.clone(), im: result.clone() };
    }
    let part = |number: usize| {
        let part = result.part(0, number, 1);
        part.reshape(&part.shape()[1..]).last_axis_to(along)
    };
    Complex { re: part(0), im: part(1) }
}

impl Tensor {
    /// The transform of real numbers along an axis, of which the first n/2 + 1 places are kept; the others are their
    /// conjugates.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0, 3.0, 4.0]).rfft(0).to_string(), "[10+0i, -2+2i, -2+0i]");
    /// ```
    #[track_caller]
    pub fn rfft(&self, axis: impl Into<Axis>) -> Complex {
        let Axis(axis) = axis.into();
        let along = match self.resolved("rfft", &Axes::from(axis)) {
            Ok(resolved) => resolved[0],
            Err(failed) => return Complex { re: failed.clone(), im: failed },
        };
        let size = self.shape()[along];
        if size == 0 {
            let failed = Tensor::refused(Error::new("rfft", format!("axis {axis} is empty")), &[self]);
            return Complex { re: failed.clone(), im: failed };
        }
        if size.is_multiple_of(2) && self.is_float() {
            return planes(&Tensor::custom(RealTransform, &[&self.axis_to_last(along)]), along);
        }
        self.half_of_transform(along)
    }

    /// [`Tensor::rfft`] by the transform of complex numbers, of which the first half is kept.
    #[track_caller]
    fn half_of_transform(&self, along: usize) -> Complex {
        let count = self.shape()[along] / 2 + 1;
        let whole = Complex::real(self).transform("rfft", along as isize, false, Norm::Backward);
        Complex { re: whole.re.part(along, 0, count), im: whole.im.part(along, 0, count) }
    }

    /// An axis of frequencies with 0 moved from the front to the middle.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([0.0, 1.0, 2.0, -2.0, -1.0]).fftshift(0).to_string(), "[-2, -1,  0,  1,  2]");
    /// ```
    #[track_caller]
    pub fn fftshift(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        match self.resolved("fftshift", &Axes::from(axis)) {
            Ok(resolved) => self.roll((self.shape()[resolved[0]] / 2) as isize, axis),
            Err(failed) => failed,
        }
    }

    /// The inverse of [`Tensor::fftshift`].
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([-2.0, -1.0, 0.0, 1.0, 2.0]).ifftshift(0).to_string(), "[ 0,  1,  2, -2, -1]");
    /// ```
    #[track_caller]
    pub fn ifftshift(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        match self.resolved("ifftshift", &Axes::from(axis)) {
            Ok(resolved) => self.roll(-((self.shape()[resolved[0]] / 2) as isize), axis),
            Err(failed) => failed,
        }
    }
}

/// The elements of all transforms that a thread computes at a time.
const PART: usize = 1 << 14;

/// Calls a function with some runs of elements, `size` each, and the same runs of both halves of a result, in which they have `made` elements.
fn each_runs<E: Copy + Send + Sync>(
    (size, made): (usize, usize),
    to: &mut [E],
    run: impl Fn(std::ops::Range<usize>, [&mut [E]; 2]) + Sync,
) {
    if size == 0 || made == 0 {
        return;
    }
    let (re, im) = to.split_at_mut(to.len() / 2);
    let together = PART.div_ceil(size);
    let imaginary: Vec<Mutex<&mut [E]>> = im.chunks_mut(together * made).map(Mutex::new).collect();
    thread_pool::each_part(re, together * made, |part, re| {
        let mut im = imaginary[part].lock().unwrap_or_else(PoisonError::into_inner);
        let first = part * together * size;
        run(first..first + re.len() / made * size, [re, &mut im]);
    });
}

/// The transform without a factor along the last axis, from real and imaginary parts to both, one after another along a new first axis.
#[derive(Clone, Debug)]
struct Transform {
    name: &'static str,
    inverse: bool,
}

/// What transforms say about other elements.
fn check_floats(input: &Tensor) -> Result<(), String> {
    match input.is_float() {
        true => Ok(()),
        false => Err(format!("it is defined for floating-point numbers, not for {}; cast first", input.dtype())),
    }
}

/// Transforms of 16 bits are computed in 32 and rounded once.
fn value_in_compute_type(
    operation: &dyn CustomOp,
    inputs: &[Array],
    (shape, dtype): (Shape, DType),
) -> Result<Array, String> {
    let compute = dtype.compute_type();
    let wide: Vec<Array> =
        inputs.iter().map(|input| Array::new(input.shape().clone(), input.buffer().cast(compute))).collect();
    let value = value_by_parts(operation, &wide, (shape.clone(), compute))?;
    Ok(if dtype.is_storage_only() { Array::new(shape, value.buffer().cast(dtype)) } else { value })
}

impl CustomOp for Transform {
    fn key(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }

    fn name(&self) -> &str {
        self.name
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        check_floats(inputs[0])?;
        Ok((Shape::from(2).followed_by(inputs[0].shape()), inputs[0].dtype()))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let shape = Shape::from(2).followed_by(inputs[0].shape());
        value_in_compute_type(self, inputs, (shape, inputs[0].dtype()))
    }

    fn value_into(&self, inputs: &[Operand<'_>], output: ElementsMut<'_>) -> Option<Result<(), String>> {
        let size = inputs[0].shape.last().copied().unwrap_or(1);
        if inputs[0].shape.elements() == 0 {
            // Nothing is planned for arrays without elements, whatever size their lines claim.
            return Some(Ok(()));
        }
        match (inputs[0].elements, inputs[1].elements, output) {
            (Elements::F32(re), Elements::F32(im), ElementsMut::F32(to)) => {
                let plan = glassgrad_fft::plan_f32(size, self.inverse);
                each_runs((size, size), to, |own, to| plan.transform([&re[own.clone()], &im[own]], to));
            }
            (Elements::F64(re), Elements::F64(im), ElementsMut::F64(to)) => {
                let plan = glassgrad_fft::plan_f64(size, self.inverse);
                each_runs((size, size), to, |own, to| plan.transform([&re[own.clone()], &im[own]], to));
            }
            _ => return None,
        }
        Some(Ok(()))
    }

    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        let transposed = Transform { name: self.name, inverse: !self.inverse };
        Rule::Pullback(Box::new(move |g| {
            let last = g.rank().saturating_sub(2);
            let given = planes(g, last);
            let pulled = planes(&Tensor::custom(transposed.clone(), &[&given.re, &given.im]), last);
            vec![Some(pulled.re), Some(pulled.im)]
        }))
    }

    fn batched(&self, inputs: &[Tensor], with_axis: &[bool]) -> Option<Tensor> {
        let led = inputs.iter().zip(with_axis).find(|(_, has)| **has)?.0.shape();
        let all: Vec<Tensor> = inputs.iter().map(|input| input.broadcast_to(led)).collect();
        Some(Tensor::custom(self.clone(), &[&all[0], &all[1]]).swap_axes(0, 1))
    }
}

/// The first half of the transform of real numbers along the last axis, whose size is even; derivatives are those of the whole transform.
#[derive(Clone, Debug)]
struct RealTransform;

impl CustomOp for RealTransform {
    fn key(&self) -> Option<String> {
        Some(String::new())
    }

    fn name(&self) -> &str {
        "rfft"
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        check_floats(inputs[0])?;
        Ok((real_shape(inputs[0].shape()), inputs[0].dtype()))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        value_in_compute_type(self, inputs, (real_shape(inputs[0].shape()), inputs[0].dtype()))
    }

    fn value_into(&self, inputs: &[Operand<'_>], output: ElementsMut<'_>) -> Option<Result<(), String>> {
        let size = inputs[0].shape.last().copied().unwrap_or(0);
        if inputs[0].shape.elements() == 0 {
            // Nothing is planned for arrays without elements, whatever size their lines claim; sums of nothing are zero.
            match output {
                ElementsMut::F32(to) => to.fill(0.0),
                ElementsMut::F64(to) => to.fill(0.0),
                ElementsMut::I64(_) | ElementsMut::Other => return None,
            }
            return Some(Ok(()));
        }
        match (inputs[0].elements, output) {
            (Elements::F32(from), ElementsMut::F32(to)) => {
                let plan = glassgrad_fft::plan_f32(size / 2, false);
                each_runs((size, size / 2 + 1), to, |own, to| plan.transform_real(&from[own], to));
            }
            (Elements::F64(from), ElementsMut::F64(to)) => {
                let plan = glassgrad_fft::plan_f64(size / 2, false);
                each_runs((size, size / 2 + 1), to, |own, to| plan.transform_real(&from[own], to));
            }
            _ => return None,
        }
        Some(Ok(()))
    }

    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Formula(Box::new(|inputs| {
            let half = inputs[0].half_of_transform(inputs[0].rank() - 1);
            Tensor::stack([&half.re, &half.im], 0)
        }))
    }

    fn batched(&self, inputs: &[Tensor], _: &[bool]) -> Option<Tensor> {
        Some(Tensor::custom(self.clone(), &[&inputs[0]]).swap_axes(0, 1))
    }
}

/// The shape of both parts of the first half of a transform along the last axis.
fn real_shape(shape: &Shape) -> Shape {
    let (lead, size) = (&shape[..shape.rank() - 1], shape[shape.rank() - 1]);
    Shape::from(2).followed_by(lead).followed_by(&[size / 2 + 1])
}
