//! Products of matrices with any strides.

use super::machine::Frame;
use crate::dtype::DType;
use crate::opt::program::{Product, ProductAxis};

/// Runs a batched product.
pub(super) fn run(product: &Product, frame: &Frame<'_>) {
    match product.operands[2].dtype {
        DType::F32 => typed::<f32>(product, frame),
        DType::F64 => typed::<f64>(product, frame),
        DType::I64 | DType::Bool => typed::<i64>(product, frame),
    }
}

/// What a product needs of an element type.
trait Factor: Copy {
    const ZERO: Self;
    fn from_f64(number: f64) -> Self;
    fn times(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
}

macro_rules! float_factors {
    ($($Float:ty),*) => {$(
        impl Factor for $Float {
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn from_f64(number: f64) -> Self {
                number as $Float
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
        }
    )*};
}
float_factors!(f32, f64);

impl Factor for i64 {
    const ZERO: Self = 0;
    fn from_f64(number: f64) -> Self {
        number as i64
    }
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

fn typed<E: Factor>(product: &Product, frame: &Frame<'_>) {
    let [a, b, c] = &product.operands;
    if let Some(count) = product.clear {
        super::machine::elements_mut::<E>(frame.at(c, 0), count).fill(E::ZERO);
    }
    let coefficient = E::from_f64(product.coefficient);
    let (rows, columns, inner) = (product.rows, product.columns, product.inner);
    every_index(&product.batch, |batch| {
        let mut first = true;
        every_index(&product.sums, |sum| {
            let [a_start, b_start, c_start] = [0, 1, 2].map(|k| batch[k] + sum[k]);
            for i in 0..rows.extent as isize {
                let c_row = c_start + i * rows.strides[2];
                if first {
                    for j in 0..columns.extent as isize {
                        *frame.element_mut::<E>(c, c_row + j * columns.strides[2]) = E::ZERO;
                    }
                }
                for k in 0..inner.extent as isize {
                    let factor = *frame.element::<E>(a, a_start + i * rows.strides[0] + k * inner.strides[0]);
                    let factor = factor.times(coefficient);
                    let b_row = b_start + k * inner.strides[1];
                    for j in 0..columns.extent as isize {
                        let element = *frame.element::<E>(b, b_row + j * columns.strides[1]);
                        let sum = frame.element_mut::<E>(c, c_row + j * columns.strides[2]);
                        *sum = sum.plus(factor.times(element));
                    }
                }
            }
            first = false;
        });
    });
}

/// Calls a function with the offsets of every index of some axes, in each operand.
fn every_index(axes: &[ProductAxis], mut visit: impl FnMut([isize; 3])) {
    let total: usize = axes.iter().map(|axis| axis.extent).product();
    let mut index = [0_usize; super::fused::MOST_AXES];
    let mut offsets = [0_isize; 3];
    for _ in 0..total {
        visit(offsets);
        for (axis, own) in axes.iter().enumerate().rev() {
            index[axis] += 1;
            for (offset, stride) in offsets.iter_mut().zip(own.strides) {
                *offset += stride;
            }
            if index[axis] < own.extent {
                break;
            }
            index[axis] = 0;
            for (offset, stride) in offsets.iter_mut().zip(own.strides) {
                *offset -= own.extent as isize * stride;
            }
        }
    }
}
