//! Contractions: batched products of matrices with any strides, with an optional epilogue.

use super::{Access, Loop};

/// One axis of a product of matrices: its size, and the strides in both factors and in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractionAxis {
    /// The size.
    pub extent: usize,
    /// Strides in the first factor, the second and the result.
    pub strides: [isize; 3],
}

impl ContractionAxis {
    /// The same axis of the product with its factors exchanged.
    pub fn transposed(&self) -> ContractionAxis {
        let [first, second, result] = self.strides;
        ContractionAxis { strides: [second, first, result], ..*self }
    }
}

/// A product of matrices for each index of the batch axes, summed over the outer inner axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Contraction {
    /// Axes of the result over which products are independent.
    pub batch: Vec<ContractionAxis>,
    /// Axes over which whole products are added up.
    pub sums: Vec<ContractionAxis>,
    /// The rows of the first factor.
    pub rows: ContractionAxis,
    /// The columns of the second factor.
    pub columns: ContractionAxis,
    /// The axis that is summed.
    pub inner: ContractionAxis,
    /// The factors and the result: memory, type and offset.
    pub operands: [Access; 3],
    /// A factor of everything.
    pub coefficient: f64,
    /// How many elements to set to zero first, if not every place is written.
    pub clear: Option<usize>,
    /// Whether the result is its own transpose, so that half of it is to be computed.
    pub symmetric: bool,
    /// Whether several products go to one place of the result (col2im), so that all accumulate into what is there.
    pub accumulates: bool,
    /// For each factor, whether its zeros are strong: 0·∞ = 0·NaN = 0.
    pub masked: [bool; 2],
    /// A loop over the result, tile by tile while it is in a cache: it reads [`Memory::Tile`](super::Memory::Tile), and the
    /// result is never materialised.
    pub epilogue: Option<Box<Loop>>,
}

impl Contraction {
    /// Multiplications and additions, without those of what follows.
    pub fn flops(&self) -> f64 {
        let whole: f64 = self.batch.iter().chain(&self.sums).map(|axis| axis.extent as f64).product();
        let [rows, columns, inner] = [self.rows, self.columns, self.inner].map(|axis| axis.extent as f64);
        let computed = if self.symmetric { (columns + 1.0) / 2.0 } else { columns };
        2.0 * whole * rows * computed * inner
    }

    /// Bytes of the factors, and of the result if it is kept.
    pub(super) fn bytes(&self) -> f64 {
        let axes = [&self.batch[..], &self.sums, &[self.rows, self.columns, self.inner]].concat();
        let operands = if self.epilogue.is_some() { 0..2 } else { 0..3 };
        let bytes = operands.map(|operand| {
            let moved = axes.iter().filter(|axis| axis.strides[operand] != 0);
            let elements = match self.clear.filter(|_| self.accumulates && operand == 2) {
                Some(places) => places as f64,
                None => moved.map(|axis| axis.extent as f64).product(),
            };
            elements * self.operands[operand].dtype.bytes() as f64
        });
        bytes.sum()
    }
}
