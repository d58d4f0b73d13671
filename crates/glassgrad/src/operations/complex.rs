//! Complex tensors: two real ones, so that every rule of the core holds for them.
//!
//! The gradient of a real number L by a complex tensor is ∂L/∂re + i ∂L/∂im, the direction of steepest ascent. That
//! is PyTorch's convention; JAX returns its conjugate.

use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Sub};

use num_complex::Complex64;

use crate::array::{float_text, write_elements};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Axes, Index, IntoTensor, Tensor};
use crate::shape::Shape;

/// A tensor of complex numbers: real and imaginary parts of one shape, as a tree of two.
///
/// ```
/// use glassgrad::{Tensor, grad, operations::Complex};
/// let z = Complex::new(Tensor::from([3.0, 0.0]), Tensor::from([4.0, 1.0]));
/// assert_eq!((&z * &z).to_string(), "[-7+24i,  -1+0i]");
/// let slope = grad(|z: &Complex| z.abs_square().sum())(&z);
/// assert_eq!(slope.to_string(), "[6+8i, 0+2i]");
/// ```
#[derive(Clone, Debug, glassgrad_derive::Tree)]
pub struct Complex {
    /// The real parts.
    pub re: Tensor,
    /// The imaginary parts.
    pub im: Tensor,
}

/// What can stand beside a complex tensor: complex and real tensors and numbers.
///
/// ```
/// use glassgrad::{Tensor, operations::Complex};
/// let z = Complex::new(Tensor::from([1.0, 2.0]), Tensor::from([0.0, 1.0]));
/// assert_eq!((&z * 2.0).to_string(), "[2+0i, 4+2i]");
/// ```
pub trait IntoComplex {
    /// The real part, and the imaginary part unless it is zero by its type.
    fn parts(self, beside: &Complex) -> (Tensor, Option<Tensor>);
}

impl IntoComplex for &Complex {
    fn parts(self, _: &Complex) -> (Tensor, Option<Tensor>) {
        (self.re.clone(), Some(self.im.clone()))
    }
}

impl IntoComplex for Complex {
    fn parts(self, _: &Complex) -> (Tensor, Option<Tensor>) {
        (self.re, Some(self.im))
    }
}

impl IntoComplex for Complex64 {
    #[track_caller]
    fn parts(self, beside: &Complex) -> (Tensor, Option<Tensor>) {
        (self.re.into_tensor(&beside.re), Some(self.im.into_tensor(&beside.re)))
    }
}

impl<R: IntoTensor> IntoComplex for R {
    #[track_caller]
    fn parts(self, beside: &Complex) -> (Tensor, Option<Tensor>) {
        (self.into_tensor(&beside.re), None)
    }
}

/// Making and reading.
impl Complex {
    /// A complex tensor from its parts, which are broadcast together.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::new(Tensor::from([1.0, 2.0]), Tensor::from(3.0)).to_string(), "[1+3i, 2+3i]");
    /// ```
    #[track_caller]
    pub fn new(re: Tensor, im: Tensor) -> Complex {
        match Tensor::aligned("complex", &[&re, &im]) {
            Err(failed) => Complex { re: failed.clone(), im: failed },
            Ok(_) if re.dtype() != im.dtype() => {
                let dtype = re.dtype().promote(im.dtype());
                Complex::new(re.cast(dtype), im.cast(dtype))
            }
            Ok(mut aligned) => {
                let im = aligned.remove(1).into_owned();
                Complex { re: aligned.remove(0).into_owned(), im }
            }
        }
    }

    /// Real numbers as complex ones.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::real(&Tensor::from([1.0, 2.0])).to_string(), "[1+0i, 2+0i]");
    /// ```
    #[track_caller]
    pub fn real(re: &Tensor) -> Complex {
        Complex { re: re.clone(), im: re.zeros_like() }
    }

    /// The numbers of these absolute values and angles.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::from_polar(&Tensor::from(2.0), &Tensor::from(0.0)).to_string(), "2+0i");
    /// ```
    #[track_caller]
    pub fn from_polar(abs: &Tensor, arg: &Tensor) -> Complex {
        Complex::new(abs * arg.cos(), abs * arg.sin())
    }

    /// The sizes of the axes.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let z = Complex::new(Tensor::from([1.0, 2.0]), Tensor::from([0.0, 1.0]));
    /// assert_eq!(z.shape().to_vec(), [2]);
    /// ```
    pub fn shape(&self) -> &Shape {
        self.re.shape()
    }

    /// The number of axes.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let z = Complex::new(Tensor::from([1.0, 2.0]), Tensor::from([0.0, 1.0]));
    /// assert_eq!(z.rank(), 1);
    /// ```
    pub fn rank(&self) -> usize {
        self.re.rank()
    }

    /// The type of the parts.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let z = Complex::new(Tensor::from([1.0, 2.0]), Tensor::from([0.0, 1.0]));
    /// assert_eq!(z.dtype(), glassgrad::dtype::DType::F64);
    /// ```
    pub fn dtype(&self) -> DType {
        self.re.dtype()
    }

    /// All elements, row by row.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let z = Complex::new(Tensor::from([1.0, 2.0]), Tensor::from([0.5, 0.0]));
    /// assert_eq!(z.to_vec().unwrap()[0].im, 0.5);
    /// ```
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<Complex64>, Error> {
        let parts = Tensor::eval_all(&[&self.re, &self.im])?;
        if parts[0].shape() != parts[1].shape() {
            let message = format!("the parts have the shapes {} and {}", parts[0].shape(), parts[1].shape());
            return Err(Error::new("complex", message).at(std::panic::Location::caller()));
        }
        let at = |k: usize| Complex64::new(parts[0].buffer().get(k), parts[1].buffer().get(k));
        Ok((0..parts[0].buffer().len()).map(at).collect())
    }
}

/// Complex numbers in the brackets of arrays, or the error.
impl fmt::Display for Complex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precision = formatter.precision().unwrap_or(4);
        match self.to_vec() {
            Ok(elements) => write_elements(formatter, self.shape(), |k| {
                // The sum turns a negative zero, which nobody wants to see, into a positive one.
                let text = |part: f64| float_text(part + 0.0, precision);
                let (re, im) = (text(elements[k].re), text(elements[k].im));
                // A negative part brings its own sign, and NaN has none.
                let sign = if im.starts_with('-') { "" } else { "+" };
                format!("{re}{sign}{im}i")
            }),
            Err(error) => write!(formatter, "error: {error}"),
        }
    }
}

/// Parts and angles.
impl Complex {
    /// The conjugate re - i im.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::new(Tensor::from(1.0), Tensor::from(2.0)).conj().to_string(), "1-2i");
    /// ```
    #[track_caller]
    pub fn conj(&self) -> Complex {
        Complex { re: self.re.clone(), im: -&self.im }
    }

    /// The absolute value; its derivative at 0 is 0.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::new(Tensor::from(3.0), Tensor::from(4.0)).abs().to_string(), "5");
    /// ```
    #[track_caller]
    pub fn abs(&self) -> Tensor {
        self.re.hypot(&self.im)
    }

    /// The square of the absolute value, smooth everywhere.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::new(Tensor::from(3.0), Tensor::from(4.0)).abs_square().to_string(), "25");
    /// ```
    #[track_caller]
    pub fn abs_square(&self) -> Tensor {
        self.re.square() + self.im.square()
    }

    /// The angle, from -π to π.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::new(Tensor::from(-1.0), Tensor::from(0.0)).arg().to_string(), "3.1416");
    /// ```
    #[track_caller]
    pub fn arg(&self) -> Tensor {
        self.im.atan2(&self.re)
    }
}

/// Functions, element by element.
impl Complex {
    /// The exponential function.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let z = Complex::new(Tensor::from(0.0), Tensor::from(std::f64::consts::PI));
    /// assert_eq!(z.exp().to_string(), "-1+1.2246e-16i");
    /// ```
    #[track_caller]
    pub fn exp(&self) -> Complex {
        Complex::from_polar(&self.re.exp(), &self.im)
    }

    /// The principal logarithm ln|z| + i arg z.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::new(Tensor::from(-1.0), Tensor::from(0.0)).ln().to_string(), "0+3.1416i");
    /// ```
    #[track_caller]
    pub fn ln(&self) -> Complex {
        Complex::new(self.abs().ln(), self.arg())
    }

    /// The square root with a real part that is not negative. At 0 there is no derivative, and it is given as 0.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let z = Complex::new(Tensor::from([-4.0, 3.0, 0.0]), Tensor::from([0.0, 4.0, 0.0]));
    /// assert_eq!(z.sqrt().to_string(), "[0+2i, 2+1i, 0+0i]");
    /// ```
    #[track_caller]
    pub fn sqrt(&self) -> Complex {
        // The larger part is a root without cancellation; the other follows from 2·re·im = im z.
        let abs = self.abs();
        let larger = ((&abs + self.re.abs()) * 0.5).sqrt();
        let signed = self.im.lt(0.0).choose(&-&larger, &larger);
        let smaller = &self.im / (&signed * 2.0);
        let (right, zero) = (self.re.ge(0.0), abs.zeros_like());
        let origin = abs.equal(0.0);
        let re = right.choose(&larger, &smaller);
        let im = right.choose(&(&self.im / (&larger * 2.0)), &signed);
        Complex::new(origin.choose(&zero, &re), origin.choose(&zero, &im))
    }

    /// An integer power, by squaring; z⁰ is 1.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let z = Complex::new(Tensor::from(1.0), Tensor::from(1.0));
    /// assert_eq!((z.powi(2).to_string(), z.powi(-1).to_string()), ("0+2i".into(), "0.5-0.5i".into()));
    /// ```
    #[track_caller]
    pub fn powi(&self, n: i32) -> Complex {
        let mut power: Option<Complex> = None;
        let mut square = self.clone();
        let mut left = n.unsigned_abs();
        while left > 0 {
            if left % 2 == 1 {
                power = Some(power.map_or_else(|| square.clone(), |power| power * &square));
            }
            left /= 2;
            if left > 0 {
                square = &square * &square;
            }
        }
        match power {
            None => Complex::real(&self.re.ones_like()),
            Some(power) if n < 0 => 1.0 / power,
            Some(power) => power,
        }
    }

    /// Sine.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::new(Tensor::from(0.0), Tensor::from(1.0)).sin().to_string(), "0+1.1752i");
    /// ```
    #[track_caller]
    pub fn sin(&self) -> Complex {
        Complex::new(self.re.sin() * self.im.cosh(), self.re.cos() * self.im.sinh())
    }

    /// Cosine.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::new(Tensor::from(1.0), Tensor::from(1.0)).cos().to_string(), "0.8337-0.9889i");
    /// ```
    #[track_caller]
    pub fn cos(&self) -> Complex {
        Complex::new(self.re.cos() * self.im.cosh(), -(self.re.sin() * self.im.sinh()))
    }
}

/// Sums, products of matrices, and the arrangement of elements.
impl Complex {
    /// The sum of all elements.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::new(Tensor::from([1.0, 2.0]), Tensor::from([3.0, 4.0])).sum().to_string(), "3+7i");
    /// ```
    #[track_caller]
    pub fn sum(&self) -> Complex {
        Complex { re: self.re.sum(), im: self.im.sum() }
    }

    /// The sum over some axes.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::real(&Tensor::from([[1.0, 2.0], [3.0, 4.0]])).sum_over(0).to_string(), "[4+0i, 6+0i]");
    /// ```
    #[track_caller]
    pub fn sum_over(&self, axes: impl Into<Axes>) -> Complex {
        let axes = axes.into();
        Complex { re: self.re.sum_over(axes.clone()), im: self.im.sum_over(axes) }
    }

    /// The mean of all elements.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::new(Tensor::from([1.0, 3.0]), Tensor::from([0.0, 4.0])).mean().to_string(), "2+2i");
    /// ```
    #[track_caller]
    pub fn mean(&self) -> Complex {
        Complex { re: self.re.mean(), im: self.im.mean() }
    }

    /// The product of matrices, of vectors, or of stacks of matrices, without conjugation.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let z = Complex::new(Tensor::from([1.0, 2.0]), Tensor::from([1.0, 0.0]));
    /// assert_eq!(z.matmul(&z).to_string(), "4+2i");
    /// ```
    #[track_caller]
    pub fn matmul(&self, other: &Complex) -> Complex {
        Complex {
            re: self.re.matmul(&other.re) - self.im.matmul(&other.im),
            im: self.re.matmul(&other.im) + self.im.matmul(&other.re),
        }
    }

    /// The same elements in another shape.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::real(&Tensor::zeros(6)).reshape([2, 3]).shape().to_string(), "[2, 3]");
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Complex {
        let shape = shape.into();
        Complex { re: self.re.reshape(&shape), im: self.im.reshape(shape) }
    }

    /// A part of the tensor, as [`Tensor::slice`] takes it.
    ///
    /// ```
    /// use glassgrad::{Tensor, expr::s, operations::Complex};
    /// assert_eq!(Complex::real(&Tensor::from([1.0, 2.0, 3.0])).slice(&[s(1..)]).to_string(), "[2+0i, 3+0i]");
    /// ```
    #[track_caller]
    pub fn slice(&self, indices: &[Index]) -> Complex {
        Complex { re: self.re.slice(indices), im: self.im.slice(indices) }
    }

    /// The axes in another order.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// assert_eq!(Complex::real(&Tensor::zeros([2, 3])).permute(&[1, 0]).shape().to_string(), "[3, 2]");
    /// ```
    #[track_caller]
    pub fn permute(&self, order: &[usize]) -> Complex {
        Complex { re: self.re.permute(order), im: self.im.permute(order) }
    }

    /// The conjugate of the transpose of the last two axes.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Complex};
    /// let z = Complex::new(Tensor::from([[1.0, 2.0]]), Tensor::from([[3.0, 4.0]]));
    /// assert_eq!(z.adjoint().to_string(), "[[1-3i],\n [2-4i]]");
    /// ```
    #[track_caller]
    pub fn adjoint(&self) -> Complex {
        Complex { re: self.re.transpose(), im: -self.im.transpose() }
    }
}

#[track_caller]
fn add(a: &Complex, (re, im): (Tensor, Option<Tensor>)) -> Complex {
    let im = im.map_or_else(|| a.im.clone(), |im| &a.im + im);
    Complex::new(&a.re + re, im)
}

#[track_caller]
fn sub(a: &Complex, (re, im): (Tensor, Option<Tensor>)) -> Complex {
    let im = im.map_or_else(|| a.im.clone(), |im| &a.im - im);
    Complex::new(&a.re - re, im)
}

#[track_caller]
fn mul(a: &Complex, (re, im): (Tensor, Option<Tensor>)) -> Complex {
    match im {
        None => Complex { re: &a.re * &re, im: &a.im * &re },
        Some(im) => Complex { re: &a.re * &re - &a.im * &im, im: &a.re * &im + &a.im * &re },
    }
}

#[track_caller]
fn div(a: &Complex, (re, im): (Tensor, Option<Tensor>)) -> Complex {
    let Some(im) = im else { return Complex { re: &a.re / &re, im: &a.im / &re } };
    // The quotient does not change when both are divided by the size of the divisor, whose square could overflow. So
    // that size counts as a constant.
    let size = re.stop_gradient().abs().maximum(im.stop_gradient().abs());
    let usable = size.gt(0.0).and(&size.lt(f64::INFINITY));
    let size = usable.choose(&size, &size.ones_like());
    let (re, im) = (&re / &size, &im / &size);
    let square = re.square() + im.square();
    let scaled = Complex { re: &a.re / &size, im: &a.im / &size };
    let product = mul(&scaled, (re, Some(-im)));
    Complex { re: product.re / &square, im: product.im / square }
}

macro_rules! operator {
    ($($Trait:ident $method:ident),*) => {$(
        impl<B: IntoComplex> $Trait<B> for &Complex {
            type Output = Complex;
            #[track_caller]
            fn $method(self, other: B) -> Complex {
                $method(self, other.parts(self))
            }
        }
        impl<B: IntoComplex> $Trait<B> for Complex {
            type Output = Complex;
            #[track_caller]
            fn $method(self, other: B) -> Complex {
                $method(&self, other.parts(&self))
            }
        }
        operator!(@left $Trait $method &Tensor, Tensor, f64, f32, Complex64);
    )*};
    (@left $Trait:ident $method:ident $($Left:ty),*) => {$(
        impl $Trait<&Complex> for $Left {
            type Output = Complex;
            #[track_caller]
            fn $method(self, other: &Complex) -> Complex {
                let (re, im) = self.parts(other);
                let zero = re.zeros_like();
                $method(&Complex { re, im: im.unwrap_or(zero) }, other.parts(other))
            }
        }
        impl $Trait<Complex> for $Left {
            type Output = Complex;
            #[track_caller]
            fn $method(self, other: Complex) -> Complex {
                $Trait::$method(self, &other)
            }
        }
    )*};
}
operator!(Add add, Sub sub, Mul mul, Div div);

impl Neg for &Complex {
    type Output = Complex;
    #[track_caller]
    fn neg(self) -> Complex {
        Complex { re: -&self.re, im: -&self.im }
    }
}

impl Neg for Complex {
    type Output = Complex;
    #[track_caller]
    fn neg(self) -> Complex {
        -&self
    }
}

impl crate::diff::Fallible for Complex {
    fn failed(error: &Error) -> Self {
        Complex { re: Tensor::failed(error), im: Tensor::failed(error) }
    }
}
