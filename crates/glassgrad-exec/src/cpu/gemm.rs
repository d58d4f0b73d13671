//! Large products of matrices, by `gemm`, in pieces that threads take.
#![allow(unsafe_code)]

use gemm_common::Parallelism;
use gemm_common::cache::{CACHE_INFO, kernel_params};

use super::contraction::{Factor, Matrices, PARALLEL, multiplications};
use super::epilogue;
use super::interpreter::Frame;
use super::plan::ContractionPlan;
use super::thread_pool;
use super::tiles::{count, place};
use crate::program::{Contraction, ContractionAxis};

/// A side of a product is cut into this many pieces, or more.
pub(super) const PIECES: usize = 8;
/// This many rows or columns are computed together: along the axis of the result whose elements are contiguous, and along the
/// other.
const TOGETHER: [usize; 2] = [64, 12];

/// Sizes; the result with the strides of its columns and rows, and whether it is added to; both factors with theirs; the
/// coefficients of what is there and of the product; conjugations; and threads, which are never its own.
pub(super) type LargeProduct<E> = unsafe fn(
    usize,
    usize,
    usize,
    *mut E,
    isize,
    isize,
    bool,
    *const E,
    isize,
    isize,
    *const E,
    isize,
    isize,
    E,
    E,
    bool,
    bool,
    bool,
    Parallelism,
);

/// Addresses that threads share.
struct Shared<E>(Matrices<E>);
// SAFETY: each product of a batch is written by one thread, and nobody writes to the factors meanwhile.
unsafe impl<E> Sync for Shared<E> {}

impl<E: Copy> Shared<E> {
    /// The product some places further.
    fn at(&self, [a, b, c]: [isize; 3]) -> Matrices<E> {
        let own = self.0;
        Matrices { a: own.a.wrapping_offset(a), b: own.b.wrapping_offset(b), c: own.c.wrapping_offset(c), ..own }
    }
}

/// Large products, by `gemm`: each on several threads, or several at a time.
pub(super) unsafe fn large_batch<E: Factor>(
    kernel: LargeProduct<E>,
    product: &Contraction,
    plan: &ContractionPlan,
    frame: &Frame<'_>,
) {
    let [a, b, c] = [0, 1, 2].map(|operand| frame.at(&product.operands[operand], 0).cast::<E>());
    let first = Shared(Matrices {
        a: a.cast_const(),
        b: b.cast_const(),
        c,
        rows: product.rows,
        columns: product.columns,
        inner: product.inner,
        coefficient: E::from_f64(product.coefficient),
        add: false,
    });
    if let Some(epilogue) = plan.epilogue_of(product) {
        return epilogue::run(kernel, first.0, epilogue, frame);
    }
    let one = |number: usize| first.at(place(&product.batch, number));
    let (count, each) = (count(&product.batch), multiplications(product));
    if count > 1 && each < PARALLEL && each.saturating_mul(count) >= PARALLEL {
        thread_pool::each(count, |number| large(kernel, one(number)));
    } else {
        (0..count).for_each(|number| in_pieces(kernel, one(number)));
    }
}

/// A side of a product in pieces, all about as long as each other, each of whole groups of rows or columns that kernels compute
/// together.
pub(super) struct Pieces {
    side: ContractionAxis,
    /// The rows or columns of a group.
    together: usize,
    groups: usize,
    /// How many pieces there are.
    pub(super) count: usize,
}

impl Pieces {
    /// A side in at most this many pieces; `is_dense` tells whether the elements of the result are contiguous along it.
    pub(super) fn of(side: ContractionAxis, is_dense: bool, count: usize) -> Pieces {
        let together = TOGETHER[usize::from(!is_dense)];
        let groups = side.extent.div_ceil(together);
        Pieces { side, together, groups, count: count.min(groups) }
    }

    /// The place in the side at which a piece begins.
    fn begin(&self, number: usize) -> usize {
        (number * self.groups / self.count * self.together).min(self.side.extent)
    }

    /// The place at which a piece begins, and the part of the side that it is.
    pub(super) fn axis(&self, number: usize) -> (usize, ContractionAxis) {
        let first = self.begin(number);
        (first, ContractionAxis { extent: self.begin(number + 1) - first, ..self.side })
    }
}

/// The bytes that `gemm` packs factors of a product into on one thread: a block of the first as large as the second-level
/// cache, and a block of the second.
pub(super) fn gemm_bytes(product: &Contraction) -> usize {
    let Contraction { rows, columns, inner, .. } = product;
    let element = product.operands[2].dtype.bytes();
    // Either factor may be the one that is packed as a whole block: the result may be computed transposed.
    let block = |rows: usize, columns: usize| {
        let params = kernel_params(rows, columns, inner.extent, TOGETHER[0], TOGETHER[1], element);
        params.kc.saturating_mul(params.nc.next_multiple_of(TOGETHER[0])).saturating_mul(element)
    };
    let block = block(rows.extent, columns.extent).max(block(columns.extent, rows.extent));
    CACHE_INFO[1].cache_bytes.saturating_add(block)
}

/// A large product on several threads, if it is worth them. The longer side of the result is cut into pieces, which threads
/// take.
pub(super) unsafe fn in_pieces<E: Factor>(kernel: LargeProduct<E>, matrices: Matrices<E>) {
    let Matrices { rows, columns, inner, .. } = matrices;
    if rows.extent.saturating_mul(columns.extent).saturating_mul(inner.extent) < PARALLEL {
        return large(kernel, matrices);
    }
    let is_wide = columns.extent >= rows.extent;
    let side = if is_wide { columns } else { rows };
    let [across, along] = if is_wide { [rows, columns] } else { [columns, rows] }.map(|axis| axis.strides[2].abs());
    let pieces = Pieces::of(side, along <= across, PIECES);
    let whole = Shared(matrices);
    thread_pool::each(pieces.count, |number| {
        let (first, piece) = pieces.axis(number);
        let own = whole.at(side.strides.map(|stride| first as isize * stride));
        let own = if is_wide { Matrices { columns: piece, ..own } } else { Matrices { rows: piece, ..own } };
        large(kernel, own);
    });
}

/// A large product, by `gemm`.
pub(super) unsafe fn large<E: Factor>(kernel: LargeProduct<E>, mut matrices: Matrices<E>) {
    // The kernel expects the elements of a column of the result close together, and forward strides.
    if matrices.columns.strides[2].abs() < matrices.rows.strides[2].abs() {
        matrices = matrices.transposed();
    }
    if matrices.rows.strides[2] < 0 {
        matrices = matrices.turned(|matrices| &mut matrices.rows);
    }
    if matrices.columns.strides[2] < 0 {
        matrices = matrices.turned(|matrices| &mut matrices.columns);
    }
    if matrices.inner.strides[0] < 0 {
        matrices = matrices.turned(|matrices| &mut matrices.inner);
    }
    let Matrices { a, b, c, rows, columns, inner, coefficient, add } = matrices;
    let (m, n, k) = (rows.extent, columns.extent, inner.extent);
    let one = E::from_f64(1.0);
    // SAFETY: the planner's strides stay inside the memory of each operand, and the result is apart from the factors.
    unsafe {
        kernel(
            m,
            n,
            k,
            c,
            columns.strides[2],
            rows.strides[2],
            add,
            a,
            inner.strides[0],
            rows.strides[0],
            b,
            columns.strides[1],
            inner.strides[1],
            one,
            coefficient,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
