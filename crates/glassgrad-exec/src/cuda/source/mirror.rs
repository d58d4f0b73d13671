//! Mirrors the lower triangle of a square matrix, column by column as libraries of matrix products see it, into the upper one.

use super::{Kernel, THREADS, Writer, type_of};
use crate::program::{Access, Memory};

/// The rows and columns of a tile, which is transposed in shared memory so that reads and writes are of neighbouring elements.
const SIDE: usize = 32;

/// The kernel for a matrix of this size whose columns are `leading` elements apart, with the blocks of its grid.
pub(in crate::cuda) fn kernel(matrix: &Access, size: usize, leading: usize) -> (Kernel, Vec<Memory>, usize) {
    let tiles = size.div_ceil(SIDE);
    let mut writer = Writer::new(size.saturating_mul(leading).saturating_add(matrix.offset.unsigned_abs()));
    let (index, element) = (writer.index, type_of(matrix.dtype));
    let argument = writer.argument(matrix.memory);
    let line = SIDE + 1;
    writer.line(format!("const int below = blockIdx.x % {tiles}, across = blockIdx.x / {tiles};"));
    writer.line("if (below < across) return;");
    writer.shared(element, "tile", SIDE * line, matrix.dtype.bytes());
    writer.line(format!("{element} *matrix = ({element} *)a{argument} + {};", matrix.offset));
    writer.line(format!("for (int s = threadIdx.x; s < {}; s += {THREADS}) {{", SIDE * SIDE));
    writer.line(format!("const {index} i = below * {SIDE} + s % {SIDE}, j = across * {SIDE} + s / {SIDE};"));
    writer.line(format!(
        "if (i < {size} && j < {size}) tile[s / {SIDE} * {line} + s % {SIDE}] = matrix[i + j * {leading}];"
    ));
    writer.line("}");
    writer.line("__syncthreads();");
    writer.line(format!("for (int s = threadIdx.x; s < {}; s += {THREADS}) {{", SIDE * SIDE));
    writer.line(format!("const {index} i = across * {SIDE} + s % {SIDE}, j = below * {SIDE} + s / {SIDE};"));
    writer
        .line(format!("if (i < j && j < {size}) matrix[i + j * {leading}] = tile[s % {SIDE} * {line} + s / {SIDE}];"));
    writer.line("}");
    let (kernel, memories) = writer.kernel(THREADS, true);
    (kernel, memories, tiles * tiles)
}
