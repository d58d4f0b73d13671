//! Contractions that a library of matrix products runs: which of them fit it, and how they are called.

use crate::dtype::DType;
use crate::program::{Contraction, ContractionAxis};

/// The most calls that one contraction is made of.
const MOST_CALLS: usize = 64;

/// One matrix as the library sees it, column by column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Matrix {
    /// Whether its transpose is what is stored.
    pub(super) transposed: bool,
    /// How far apart columns are.
    pub(super) leading: usize,
    /// How far apart the matrices of a batch are, in elements.
    pub(super) apart: isize,
}

/// A batch of products x·y with n rows, m columns and k terms, column by column: the transpose of a row-major result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Product {
    pub(super) dtype: DType,
    pub(super) sizes: [usize; 3],
    pub(super) batch: usize,
    pub(super) x: Matrix,
    pub(super) y: Matrix,
    pub(super) result: Matrix,
    pub(super) coefficient: f64,
    /// The calls: offsets of x, y and the result in elements, and whether the result is added to what is there.
    pub(super) calls: Vec<([isize; 3], bool)>,
    /// Which factor of the contraction x is; y is the other.
    pub(super) x_is: usize,
    /// Whether the result is its own transpose, and only its lower triangle is computed.
    pub(super) is_triangle: bool,
}

impl Product {
    /// The multiplications of all calls.
    pub(super) fn multiplications(&self) -> usize {
        self.sizes
            .iter()
            .fold(self.batch.saturating_mul(self.calls.len()), |product, size| product.saturating_mul(*size))
    }
}

/// A matrix whose element (i, j) lies at i·along + j·across, for the given ranges of i and j.
fn matrix(along: (usize, isize), across: (usize, isize)) -> Option<(bool, usize)> {
    let fits = |inner: (usize, isize), outer: (usize, isize)| {
        let unit = inner.1 == 1 || inner.0 == 1;
        let leading = if outer.0 == 1 { inner.0 as isize } else { outer.1 };
        (unit && leading >= inner.0 as isize).then_some(leading.max(1) as usize)
    };
    match fits(along, across) {
        Some(leading) => Some((false, leading)),
        None => fits(across, along).map(|leading| (true, leading)),
    }
}

/// The product that a contraction is, if the library has it.
pub(super) fn product(contraction: &Contraction) -> Option<Product> {
    let Contraction { batch, sums, rows, columns, inner, operands, coefficient, masked, .. } = contraction;
    let dtype = operands[2].dtype;
    if !dtype.is_float() || masked.contains(&true) {
        return None;
    }
    // The result column by column: its transpose if it is row-major.
    let (rows, columns, x_is) = match (rows.strides[2], columns.strides[2]) {
        (_, 1) => (*rows, *columns, 1),
        _ if columns.extent == 1 && rows.strides[2] != 1 => (*rows, *columns, 1),
        (1, _) => (columns.transposed(), rows.transposed(), 0),
        _ => return None,
    };
    // After an exchange of the factors the second one is still x.
    let inner = if x_is == 1 { *inner } else { inner.transposed() };
    let exchange = |axis: &ContractionAxis| if x_is == 1 { *axis } else { axis.transposed() };
    let batch: Vec<ContractionAxis> = batch.iter().map(exchange).collect();
    let sums: Vec<ContractionAxis> = sums.iter().map(exchange).collect();
    let of = |axis: &ContractionAxis, operand: usize| (axis.extent, axis.strides[operand]);
    let x = matrix(of(&columns, 1), of(&inner, 1))?;
    let y = matrix(of(&inner, 0), of(&rows, 0))?;
    let (result_transposed, result_leading) = matrix(of(&columns, 2), of(&rows, 2))?;
    if result_transposed {
        return None;
    }
    // The longest axis of the batch is that of the library; the others are calls of their own, and so are sums.
    let longest = (0..batch.len()).max_by_key(|axis| batch[*axis].extent);
    let own = longest.map(|axis| batch[axis]).unwrap_or(ContractionAxis { extent: 1, strides: [0; 3] });
    let looped: Vec<ContractionAxis> =
        batch.iter().enumerate().filter(|(axis, _)| Some(*axis) != longest).map(|(_, axis)| *axis).collect();
    let mut calls = vec![([0_isize; 3], false)];
    for (axis, is_sum) in looped.iter().map(|axis| (axis, false)).chain(sums.iter().map(|axis| (axis, true))) {
        if calls.len().saturating_mul(axis.extent) > MOST_CALLS {
            return None;
        }
        let moved = |(offsets, adds): &([isize; 3], bool), index: usize| {
            let place = |k: usize| offsets[k] + axis.strides[k] * index as isize;
            // A sum moves its factors alone.
            (std::array::from_fn(place), *adds || (is_sum && index > 0))
        };
        calls = calls.iter().flat_map(|call| (0..axis.extent).map(move |index| moved(call, index))).collect();
    }
    // Offsets of the operands themselves; x is the second factor after an exchange.
    let offsets = [operands[1 - x_is].offset, operands[x_is].offset, operands[2].offset];
    let calls = calls
        .into_iter()
        .map(|([first, second, result], adds)| ([second + offsets[1], first + offsets[0], result + offsets[2]], adds));
    let matrix = |(transposed, leading): (bool, usize), operand: usize| Matrix {
        transposed,
        leading,
        apart: own.strides[operand],
    };
    let fits = [columns.extent, rows.extent, inner.extent, own.extent].iter().all(|size| *size < i32::MAX as usize);
    let calls: Vec<([isize; 3], bool)> = calls.collect();
    // Sums over several calls would be rounded to a storage type after each of them.
    if dtype.is_storage_only() && calls.iter().any(|(_, adds)| *adds) {
        return None;
    }
    // Libraries have triangles of products whose factors are stored alike: both with their terms along columns, or both across.
    let is_triangle =
        contraction.symmetric && calls.len() == 1 && own.extent == 1 && x.0 != y.0 && !dtype.is_storage_only();
    fits.then(|| Product {
        dtype,
        sizes: [columns.extent, rows.extent, inner.extent],
        batch: own.extent,
        x: matrix(x, 1),
        y: matrix(y, 0),
        result: matrix((false, result_leading), 2),
        coefficient: *coefficient,
        calls,
        x_is,
        is_triangle,
    })
}
