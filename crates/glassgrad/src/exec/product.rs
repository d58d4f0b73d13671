//! Products of matrices with any strides.
//!
//! Small ones run here: columns of the second factor are packed side by side, and each row of the first runs over
//! them with as many sums as a few vector registers hold. Large ones go to `gemm`. Batches of them, and those whose rows,
//! columns or sums run over several axes, run in `tiles`.
#![allow(unsafe_code)]

use gemm_common::Parallelism;

use super::followed;
use super::level::Level;
use super::machine::{Frame, elements_mut};
use super::register::{Portable, Register};
use super::strong;
use super::symmetric::Symmetric;
use super::threads;
use super::tiles::{Composite, count, place};
use crate::dtype::DType;
use crate::opt::program::{Product, ProductAxis};

/// The columns that are computed together.
const WIDTH: usize = 16;
/// The rows that are computed together.
const HEIGHT: usize = 4;
/// Up to this many multiplications a product is small; fewer where Miri interprets them, which would take too long otherwise.
const SMALL: usize = if cfg!(miri) { 1 << 13 } else { 48 * 48 * 48 };
/// Below this many multiplications a product is done before a tile has begun.
const TINY: usize = 1 << 12;
/// From this many multiplications on each product of a batch or sum runs on its own.
const WOVEN: usize = 1 << 20;
/// From this many multiplications on a product is worth several threads.
const PARALLEL: usize = 128 * 128 * 128;
/// A side of a product is cut into so many pieces, or more.
pub(super) const PIECES: usize = 8;
/// So many rows or columns are computed together: along the axis of the result whose elements lie side by side, and along the
/// other.
const TOGETHER: [usize; 2] = [64, 12];

/// The bytes of scratch memory that a product needs for packed columns.
pub(super) fn scratch_bytes(product: &Product) -> usize {
    if is_small(product) { product.inner.extent * WIDTH * 8 } else { 0 }
}

/// The multiplications of one product of matrices.
fn multiplications(product: &Product) -> usize {
    product.rows.extent.saturating_mul(product.columns.extent).saturating_mul(product.inner.extent)
}

fn is_small(product: &Product) -> bool {
    multiplications(product) <= SMALL || !product.operands[2].dtype.is_float()
}

/// Whether a product runs in tiles: one whose rows, columns or sums run over several axes, but not one of a few large
/// matrices, and a batch of matrices that are small but not tiny.
fn is_woven(product: &Product) -> bool {
    let each = multiplications(product);
    let is_batch = |axis: &ProductAxis| axis.extent == 1 || (axis.strides[0] != 0 && axis.strides[1] != 0);
    let is_plain = product.sums.iter().all(|axis| axis.extent == 1) && product.batch.iter().all(is_batch);
    match is_plain {
        _ if product.meets => true,
        true => !product.batch.is_empty() && (TINY..=SMALL).contains(&each),
        false => each < WOVEN,
    }
}

/// Runs a batched product.
pub(super) fn run(product: &Product, frame: &Frame<'_>, scratch: *mut u8) {
    match product.operands[2].dtype {
        DType::F32 => typed::<f32>(product, frame, scratch),
        DType::F64 => typed::<f64>(product, frame, scratch),
        DType::I64 | DType::Bool => typed::<i64>(product, frame, scratch),
    }
}

/// What a product needs of an element type.
pub(super) trait Factor: Copy + Default + Send + Sync + 'static {
    /// Whether products are compiled for each level of instructions, and for large sizes; no level multiplies whole numbers
    /// faster, and all of their products are small.
    const LEVELS: bool;
    fn from_f64(number: f64) -> Self;
    fn times(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    /// self · factor + addend, rounded once.
    fn fused(self, factor: Self, addend: Self) -> Self;
    /// Whether it is neither infinite nor no number.
    fn is_finite(self) -> bool;
    fn is_zero(self) -> bool;
    /// Eight numbers in registers that every machine of this architecture has.
    type Eight: Register<Self>;
    /// Registers of 512 bits, and of 256.
    #[cfg(target_arch = "x86_64")]
    type Wide: Register<Self>;
    #[cfg(target_arch = "x86_64")]
    type Medium: Register<Self>;
    /// The kernel for large products, by the best instructions of this machine, if there is one.
    fn large() -> Option<LargeProduct<Self>> {
        None
    }
}

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

macro_rules! float_factors {
    ($($Float:ty, $large:path, $Wide:ident, $Medium:ident, $Neon:ident);*) => {$(
        impl Factor for $Float {
            const LEVELS: bool = true;
            #[cfg(target_arch = "aarch64")]
            type Eight = super::register::neon::Eight<std::arch::aarch64::$Neon, { size_of::<$Float>() / 2 }>;
            #[cfg(not(target_arch = "aarch64"))]
            type Eight = Portable<$Float>;
            #[cfg(target_arch = "x86_64")]
            type Wide = std::arch::x86_64::$Wide;
            #[cfg(target_arch = "x86_64")]
            type Medium = std::arch::x86_64::$Medium;
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
            #[inline(always)]
            fn fused(self, factor: Self, addend: Self) -> Self {
                self.mul_add(factor, addend)
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                <$Float>::is_finite(self)
            }
            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0.0
            }
            #[inline(always)]
            fn large() -> Option<LargeProduct<Self>> {
                Some($large())
            }
        }
    )*};
}
float_factors!(
    f32, gemm_f32::gemm::f32::get_gemm_fn, __m512, __m256, float32x4_t;
    f64, gemm_f64::gemm::f64::get_gemm_fn, __m512d, __m256d, float64x2_t
);

impl Factor for i64 {
    const LEVELS: bool = false;
    type Eight = Portable<i64>;
    #[cfg(target_arch = "x86_64")]
    type Wide = Portable<i64>;
    #[cfg(target_arch = "x86_64")]
    type Medium = Portable<i64>;
    fn from_f64(number: f64) -> Self {
        number as i64
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn fused(self, factor: Self, addend: Self) -> Self {
        self.wrapping_mul(factor).wrapping_add(addend)
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        true
    }
    #[inline(always)]
    fn is_zero(self) -> bool {
        self == 0
    }
}

/// One product of matrices: addresses, and for rows, columns and the inner axis their size and strides.
#[derive(Clone, Copy)]
pub(super) struct Matrices<E> {
    pub(super) a: *const E,
    pub(super) b: *const E,
    pub(super) c: *mut E,
    pub(super) rows: ProductAxis,
    pub(super) columns: ProductAxis,
    pub(super) inner: ProductAxis,
    pub(super) coefficient: E,
    /// Whether the result is added to what is there.
    pub(super) add: bool,
}

fn typed<E: Factor>(product: &Product, frame: &Frame<'_>, scratch: *mut u8) {
    let [a, b, c] = &product.operands;
    if let Some(count) = product.clear {
        elements_mut::<E>(frame.at(c, -c.offset), count).fill(E::default());
    }
    if product.strong != [false; 2] && !strong::is_finite::<E>(product, frame) {
        return strong::run::<E>(product, frame);
    }
    if is_woven(product) {
        let factors = [frame.at(a, 0).cast::<E>().cast_const(), frame.at(b, 0).cast::<E>().cast_const()];
        let (result, coefficient) = (frame.at(c, 0).cast::<E>(), E::from_f64(product.coefficient));
        return Composite::of(product).run(frame.level, factors, result, coefficient);
    }
    let small = is_small(product);
    // Constant before anything is compiled: kernels of large products would be compiled for whole numbers too otherwise.
    if const { E::LEVELS }
        && let Some(kernel) = E::large().filter(|_| !small && product.sums.is_empty() && !product.symmetric)
    {
        return large_batch(kernel, product, frame);
    }
    every_index(&product.batch, |batch| {
        let mut add = false;
        every_index(&product.sums, |sum| {
            let [a_start, b_start, c_start] = [0, 1, 2].map(|k| batch[k] + sum[k]);
            let matrices = Matrices {
                a: frame.at(a, a_start).cast::<E>().cast_const(),
                b: frame.at(b, b_start).cast::<E>().cast_const(),
                c: frame.at(c, c_start).cast::<E>(),
                rows: product.rows,
                columns: product.columns,
                inner: product.inner,
                coefficient: E::from_f64(product.coefficient),
                add,
            };
            match E::large() {
                Some(_) if const { E::LEVELS } && !small && product.symmetric => symmetric(frame.level, matrices),
                Some(kernel) if const { E::LEVELS } && !small => in_pieces(kernel, matrices),
                _ => packed(frame.level, matrices, scratch),
            }
            add = true;
        });
    });
}

/// A large product that is its own transpose.
fn symmetric<E: Factor>(level: Level, matrices: Matrices<E>) {
    // Either way round it is the same; the elements of a row of the result lie side by side in one of them.
    let is_turned = matrices.columns.strides[2] != 1;
    let Matrices { a, b, c, rows, columns, inner, coefficient, .. } =
        if is_turned { matrices.transposed() } else { matrices };
    let size = rows.extent;
    let whole = Symmetric {
        size,
        sums: inner.extent,
        a,
        a_steps: [rows.strides[0], inner.strides[0]],
        b,
        b_steps: [columns.strides[1], inner.strides[1]],
        c,
        c_step: rows.strides[2],
        coefficient,
    };
    whole.run(level, size.saturating_mul(size).saturating_mul(inner.extent) >= PARALLEL);
}

impl<E> Matrices<E> {
    /// The same product with rows and columns exchanged: (AB)ᵀ = BᵀAᵀ.
    fn transposed(self) -> Matrices<E> {
        Matrices {
            a: self.b,
            b: self.a,
            rows: self.columns.transposed(),
            columns: self.rows.transposed(),
            inner: self.inner.transposed(),
            ..self
        }
    }

    /// The same product with an axis from its last index to its first.
    fn turned(mut self, axis: fn(&mut Matrices<E>) -> &mut ProductAxis) -> Matrices<E> {
        let own = axis(&mut self);
        let last = own.extent.saturating_sub(1) as isize;
        let [a, b, c] = own.strides.map(|stride| last * stride);
        own.strides = own.strides.map(|stride| -stride);
        self.a = self.a.wrapping_offset(a);
        self.b = self.b.wrapping_offset(b);
        self.c = self.c.wrapping_offset(c);
        self
    }
}

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
fn large_batch<E: Factor>(kernel: LargeProduct<E>, product: &Product, frame: &Frame<'_>) {
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
    if let Some(then) = &product.then {
        return followed::run(kernel, first.0, then, frame);
    }
    let one = |number: usize| first.at(place(&product.batch, number));
    let (count, each) = (count(&product.batch), multiplications(product));
    if count > 1 && each < PARALLEL && each.saturating_mul(count) >= PARALLEL {
        threads::each(count, |number| large(kernel, one(number)));
    } else {
        (0..count).for_each(|number| in_pieces(kernel, one(number)));
    }
}

/// A side of a product in pieces, all about as long as each other, each of whole groups of rows or columns that kernels compute
/// together.
pub(super) struct Pieces {
    side: ProductAxis,
    /// The rows or columns of a group.
    together: usize,
    groups: usize,
    /// How many pieces there are.
    pub(super) count: usize,
}

impl Pieces {
    /// A side in at most so many pieces; `is_dense` tells whether the elements of the result lie side by side along it.
    pub(super) fn of(side: ProductAxis, is_dense: bool, count: usize) -> Pieces {
        let together = TOGETHER[usize::from(!is_dense)];
        let groups = side.extent.div_ceil(together);
        Pieces { side, together, groups, count: count.min(groups) }
    }

    /// The place in the side at which a piece begins.
    pub(super) fn begin(&self, number: usize) -> usize {
        (number * self.groups / self.count * self.together).min(self.side.extent)
    }

    /// The place at which a piece begins, and the part of the side that it is.
    pub(super) fn axis(&self, number: usize) -> (usize, ProductAxis) {
        let first = self.begin(number);
        (first, ProductAxis { extent: self.begin(number + 1) - first, ..self.side })
    }
}

/// A large product on several threads, if it is worth them. The longer side of the result is cut into pieces, which threads
/// take.
fn in_pieces<E: Factor>(kernel: LargeProduct<E>, matrices: Matrices<E>) {
    let Matrices { rows, columns, inner, .. } = matrices;
    if rows.extent.saturating_mul(columns.extent).saturating_mul(inner.extent) < PARALLEL {
        return large(kernel, matrices);
    }
    let is_wide = columns.extent >= rows.extent;
    let side = if is_wide { columns } else { rows };
    let pieces = Pieces::of(side, side.strides[2].abs() <= rows.strides[2].abs().min(columns.strides[2].abs()), PIECES);
    let whole = Shared(matrices);
    threads::each(pieces.count, |number| {
        let (first, piece) = pieces.axis(number);
        let own = whole.at(side.strides.map(|stride| first as isize * stride));
        let own = if is_wide { Matrices { columns: piece, ..own } } else { Matrices { rows: piece, ..own } };
        large(kernel, own);
    });
}

/// A large product, by `gemm`.
pub(super) fn large<E: Factor>(kernel: LargeProduct<E>, mut matrices: Matrices<E>) {
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

/// A small product, by the instructions of a level that this machine has.
fn packed<E: Factor>(level: Level, matrices: Matrices<E>, scratch: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx2,fma")]
        fn wide<E: Factor>(matrices: Matrices<E>, scratch: *mut u8) {
            columns_together::<E, true>(matrices, scratch);
        }
        #[target_feature(enable = "avx2,fma")]
        fn medium<E: Factor>(matrices: Matrices<E>, scratch: *mut u8) {
            columns_together::<E, true>(matrices, scratch);
        }
        if const { E::LEVELS } {
            match level {
                // SAFETY: the machine has the instructions of the level at which its programs run.
                Level::Avx512 => return unsafe { wide(matrices, scratch) },
                // SAFETY: as above.
                Level::Avx2 => return unsafe { medium(matrices, scratch) },
                Level::Baseline => {}
            }
        }
    }
    let _ = level;
    columns_together::<E, { Level::BASELINE_FUSES }>(matrices, scratch);
}

#[inline(always)]
fn columns_together<E: Factor, const FUSED: bool>(matrices: Matrices<E>, scratch: *mut u8) {
    let (columns, inner) = (matrices.columns, matrices.inner);
    let mut first = 0;
    while first < columns.extent {
        let width = (columns.extent - first).min(WIDTH);
        match width {
            0..=4 => rows_together::<E, 4, FUSED>(matrices, first, width, elements_mut(scratch, inner.extent * 4)),
            5..=8 => rows_together::<E, 8, FUSED>(matrices, first, width, elements_mut(scratch, inner.extent * 8)),
            _ => rows_together::<E, WIDTH, FUSED>(matrices, first, width, elements_mut(scratch, inner.extent * WIDTH)),
        }
        first += width;
    }
}

#[inline(always)]
fn rows_together<E: Factor, const W: usize, const FUSED: bool>(
    matrices: Matrices<E>,
    first: usize,
    width: usize,
    packed: &mut [E],
) {
    let Matrices { a, b, rows, columns, inner, .. } = matrices;
    let read = |at: *const E, place: isize| {
        // SAFETY: the planner's strides stay inside the memory of each operand.
        unsafe { *at.wrapping_offset(place) }
    };
    let (lines, _) = packed.as_chunks_mut::<W>();
    let is_side_by_side = columns.strides[1] == 1;
    for (k, line) in lines.iter_mut().enumerate() {
        if is_side_by_side {
            // SAFETY: as above: so many columns lie side by side from here on.
            let row = unsafe {
                std::slice::from_raw_parts(b.wrapping_offset(k as isize * inner.strides[1] + first as isize), width)
            };
            line[..width].copy_from_slice(row);
            line[width..].fill(E::default());
            continue;
        }
        for (j, element) in line.iter_mut().enumerate() {
            let column = (first + j) as isize;
            *element = if j < width {
                read(b, k as isize * inner.strides[1] + column * columns.strides[1])
            } else {
                E::default()
            };
        }
    }
    let accumulate = |sums: &mut [E; W], factor: E, line: &[E; W]| {
        for (sum, element) in sums.iter_mut().zip(line) {
            *sum = if FUSED { factor.fused(*element, *sum) } else { factor.times(*element).plus(*sum) };
        }
    };
    let mut row = 0;
    while row + HEIGHT <= rows.extent {
        let mut sums = [[E::default(); W]; HEIGHT];
        for (k, line) in lines.iter().enumerate() {
            for (r, sums) in sums.iter_mut().enumerate() {
                let factor = read(a, (row + r) as isize * rows.strides[0] + k as isize * inner.strides[0]);
                accumulate(sums, factor, line);
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            finish(&matrices, [first, width], row + r, sums);
        }
        row += HEIGHT;
    }
    while row < rows.extent {
        let mut sums = [E::default(); W];
        for (k, line) in lines.iter().enumerate() {
            accumulate(&mut sums, read(a, row as isize * rows.strides[0] + k as isize * inner.strides[0]), line);
        }
        finish(&matrices, [first, width], row, &sums);
        row += 1;
    }
}

/// Writes the sums of some columns of a row, from the first on.
#[inline(always)]
fn finish<E: Factor, const W: usize>(matrices: &Matrices<E>, [first, width]: [usize; 2], row: usize, sums: &[E; W]) {
    let Matrices { c, rows, columns, coefficient, add, .. } = *matrices;
    let start = c.wrapping_offset(row as isize * rows.strides[2] + first as isize * columns.strides[2]);
    let scaled = sums.map(|sum| sum.times(coefficient));
    if columns.strides[2] == 1 && !add {
        // SAFETY: the planner's strides stay inside the result, so many columns lie side by side, and nobody else
        // writes to them.
        let own = unsafe { std::slice::from_raw_parts_mut(start, width) };
        match <&mut [E; W]>::try_from(&mut *own) {
            Ok(whole) => *whole = scaled,
            Err(_) => own.iter_mut().zip(scaled).for_each(|(own, sum)| *own = sum),
        }
        return;
    }
    for (j, sum) in scaled.iter().enumerate().take(width) {
        let place = start.wrapping_offset(j as isize * columns.strides[2]);
        // SAFETY: as above.
        unsafe { *place = if add { sum.plus(*place) } else { *sum } };
    }
}

/// Calls a function with the offsets of every index of some axes, in each operand.
#[inline]
pub(super) fn every_index(axes: &[ProductAxis], mut visit: impl FnMut([isize; 3])) {
    if axes.is_empty() {
        return visit([0; 3]);
    }
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
