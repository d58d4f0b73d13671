//! Products of blocks of matrices, by the crate `gemm`.
#![allow(unsafe_code)]

use std::ops::Range;

use gemm_common::Parallelism;

/// A block of a row-major matrix, or the transpose of one.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    elements: &'a [f64],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

/// The elements of a slice from the first of a block on; an empty block has none.
fn offset(row_stride: usize, rows: &Range<usize>, columns: &Range<usize>) -> usize {
    if rows.is_empty() || columns.is_empty() { 0 } else { rows.start * row_stride + columns.start }
}

impl<'a> View<'a> {
    /// Rows and columns of a matrix whose rows are `row_stride` apart.
    pub(crate) fn new(elements: &'a [f64], row_stride: usize, rows: Range<usize>, columns: Range<usize>) -> View<'a> {
        let elements = &elements[offset(row_stride, &rows, &columns)..];
        View { elements, rows: rows.len(), columns: columns.len(), row_stride, column_stride: 1 }
    }

    pub(crate) fn transposed(self) -> View<'a> {
        View {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Whether every element of the block is an element of the slice.
    fn is_inside(&self) -> bool {
        self.rows == 0
            || self.columns == 0
            || (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride < self.elements.len()
    }
}

/// A block of a row-major matrix, to be changed.
pub(crate) struct ViewMut<'a> {
    elements: &'a mut [f64],
    rows: usize,
    columns: usize,
    row_stride: usize,
}

impl<'a> ViewMut<'a> {
    /// Rows and columns of a matrix whose rows are `row_stride` apart.
    pub(crate) fn new(
        elements: &'a mut [f64],
        row_stride: usize,
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> ViewMut<'a> {
        let elements = &mut elements[offset(row_stride, &rows, &columns)..];
        ViewMut { elements, rows: rows.len(), columns: columns.len(), row_stride }
    }
}

/// `c += coefficient · a · b`.
pub(crate) fn multiply_add(c: ViewMut<'_>, coefficient: f64, a: View<'_>, b: View<'_>) {
    assert!(c.rows == a.rows && c.columns == b.columns && a.columns == b.rows, "shapes of a product");
    if c.rows == 0 || c.columns == 0 || a.columns == 0 {
        return;
    }
    assert!(a.is_inside() && b.is_inside(), "a factor of a product lies outside of its matrix");
    assert!(c.columns <= c.row_stride && (c.rows - 1) * c.row_stride + c.columns <= c.elements.len());
    let kernel = gemm_f64::gemm::f64::get_gemm_fn();
    // The kernel is for column-major results, so it computes the transpose: cᵀ += bᵀ · aᵀ.
    // SAFETY: all elements that the sizes and strides reach are inside the slices, as asserted above, those of the
    // result are different from each other, and it is borrowed mutably, hence apart from the factors. Lengths of slices
    // are below isize::MAX, so the strides convert.
    unsafe {
        kernel(
            c.columns,
            c.rows,
            a.columns,
            c.elements.as_mut_ptr(),
            c.row_stride as isize,
            1,
            true,
            b.elements.as_ptr(),
            b.row_stride as isize,
            b.column_stride as isize,
            a.elements.as_ptr(),
            a.row_stride as isize,
            a.column_stride as isize,
            1.0,
            coefficient,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
