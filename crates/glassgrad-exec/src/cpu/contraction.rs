//! Products of matrices with any strides.
//!
//! Those of a matrix and a vector run in `gemv`, of a large matrix and a few vectors in `skinny`, small ones in `packed`, large ones in
//! `gemm`, those that are their own transposes in `symmetric`. Batches of small ones, those whose rows,
//! columns or sums run over several axes, and those that `gemm` packs slowly, run in `tiles`. This file decides.

use super::gemm::{LargeProduct, in_pieces, large_batch};
use super::gemv;
use super::interpreter::{Frame, elements_mut};
use super::masked;
use super::packed::{self, packed};
use super::plan::ContractionPlan;
use super::simd::{Portable, Register};
use super::skinny;
use super::symmetric::Symmetric;
use super::tiles::Composite;
use crate::dtype::DType;
use crate::program::{Contraction, ContractionAxis};

/// Up to this many multiplications a product is small; fewer where Miri interprets them, which would take too long otherwise.
pub(super) const SMALL: usize = if cfg!(miri) { 1 << 13 } else { 48 * 48 * 48 };
/// Below this many multiplications a product is done before a tile has begun.
const TINY: usize = 1 << 12;
/// From this many multiplications on a product is worth several threads.
pub(super) const PARALLEL: usize = 128 * 128 * 128;
/// The bytes of scratch memory that a product needs.
pub(super) fn scratch_bytes(product: &Contraction, plan: &ContractionPlan) -> usize {
    match plan.kernel {
        Kernel::Packed => packed::scratch_bytes(product.inner.extent),
        Kernel::Gemv | Kernel::Skinny | Kernel::Tiles(_) | Kernel::Bf16(_) | Kernel::Symmetric | Kernel::Gemm => 0,
    }
}

/// The multiplications of one product of matrices.
pub(super) fn multiplications(product: &Contraction) -> usize {
    product.rows.extent.saturating_mul(product.columns.extent).saturating_mul(product.inner.extent)
}

fn is_small(product: &Contraction) -> bool {
    multiplications(product) <= SMALL || !product.operands[2].dtype.is_float()
}

/// Whether a product runs in tiles: one whose rows, columns or sums run over several axes, and a batch of matrices that are
/// not tiny.
fn is_woven(product: &Contraction) -> bool {
    let each = multiplications(product);
    let is_batch = |axis: &ContractionAxis| axis.extent == 1 || (axis.strides[0] != 0 && axis.strides[1] != 0);
    let is_plain = product.sums.iter().all(|axis| axis.extent == 1) && product.batch.iter().all(is_batch);
    match is_plain {
        _ if product.accumulates => true,
        true => !product.batch.is_empty() && each >= TINY,
        false => true,
    }
}

/// From this many terms on `gemm` takes long to pack a factor whose terms are contiguous, if the result has at most half as many
/// rows or columns.
const DEEP: usize = 1024;

/// Whether a large product has a factor that `gemm` packs slowly; tiles transpose it by blocks.
fn is_deep(product: &Contraction) -> bool {
    // The factor of the axis along which the result is contiguous is packed as a whole block.
    let packed = if product.columns.strides[2].abs() < product.rows.strides[2].abs() { 1 } else { 0 };
    product.inner.extent >= DEEP
        && product.rows.extent.min(product.columns.extent) <= DEEP / 2
        && product.inner.strides[packed].abs() == 1
        && product.epilogue.is_none()
}

/// The kernel that computes a product; masked products whose factors are not finite are computed by definition instead.
pub(super) enum Kernel {
    /// A matrix and a vector.
    Gemv,
    /// A large matrix whose lines are contiguous, and a vector or a few.
    Skinny,
    /// Small matrices.
    Packed,
    /// Rows, columns or sums over several axes, and batches of small matrices.
    Tiles(Box<Composite>),
    /// Factors of `bf16`, with a result of 32 bits.
    Bf16(Box<Composite>),
    /// Half of a product that is its own transpose.
    Symmetric,
    /// `gemm`.
    Gemm,
}

impl Kernel {
    /// Selects the kernel of a product.
    pub(super) fn of(product: &Contraction) -> Kernel {
        if product.operands[0].dtype == DType::BF16 {
            Kernel::Bf16(Box::new(Composite::of(product)))
        } else if skinny::is_for(product) {
            Kernel::Skinny
        } else if gemv::is_for(product) {
            Kernel::Gemv
        } else if is_woven(product) {
            Kernel::Tiles(Box::new(Composite::of(product)))
        } else if is_small(product) {
            Kernel::Packed
        } else if product.symmetric {
            Kernel::Symmetric
        } else if is_deep(product) {
            Kernel::Tiles(Box::new(Composite::of(product)))
        } else {
            Kernel::Gemm
        }
    }
}

/// Runs a batched product.
pub(super) unsafe fn run(product: &Contraction, plan: &ContractionPlan, frame: &Frame<'_>, scratch: *mut u8) {
    if let Kernel::Bf16(composite) = &plan.kernel {
        let [a, b, c] = &product.operands;
        let factors = [a, b].map(|factor| frame.at(factor, 0).cast::<u16>().cast_const());
        return composite.run_bf16(frame, factors, frame.at(c, 0).cast(), product.coefficient as f32);
    }
    match product.operands[2].dtype {
        DType::F32 => typed::<f32>(product, plan, frame, scratch),
        DType::F64 => typed::<f64>(product, plan, frame, scratch),
        DType::I64 | DType::Bool => typed::<i64>(product, plan, frame, scratch),
        dtype @ (DType::F16 | DType::BF16 | DType::I32 | DType::U8) => {
            unreachable!("operands of {dtype} are converted before a product")
        }
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

macro_rules! float_factors {
    ($($Float:ty, $large:path, $Wide:ident, $Medium:ident, $Neon:ident);*) => {$(
        impl Factor for $Float {
            const LEVELS: bool = true;
            #[cfg(target_arch = "aarch64")]
            type Eight = super::simd::neon::Eight<std::arch::aarch64::$Neon, { size_of::<$Float>() / 2 }>;
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
    pub(super) rows: ContractionAxis,
    pub(super) columns: ContractionAxis,
    pub(super) inner: ContractionAxis,
    pub(super) coefficient: E,
    /// Whether the result is added to what is there.
    pub(super) add: bool,
}

unsafe fn typed<E: Factor>(product: &Contraction, plan: &ContractionPlan, frame: &Frame<'_>, scratch: *mut u8) {
    let c = &product.operands[2];
    if let Some(count) = product.clear {
        elements_mut::<E>(frame.at(c, -c.offset), count).fill(E::default());
    }
    usual::<E>(product, plan, frame, scratch);
    if product.masked != [false; 2] && !masked::is_usual::<E>(product, frame) {
        masked::run::<E>(product, frame);
    }
}

/// The product without regard to strong zeros.
unsafe fn usual<E: Factor>(product: &Contraction, plan: &ContractionPlan, frame: &Frame<'_>, scratch: *mut u8) {
    let [a, b, c] = &product.operands;
    if const { E::LEVELS } && matches!(plan.kernel, Kernel::Gemv) {
        return gemv::run::<E>(product, frame);
    }
    if const { E::LEVELS } && matches!(plan.kernel, Kernel::Skinny) {
        return skinny::run::<E>(product, frame);
    }
    if let Kernel::Tiles(composite) = &plan.kernel {
        let factors = [frame.at(a, 0).cast::<E>().cast_const(), frame.at(b, 0).cast::<E>().cast_const()];
        let (result, coefficient) = (frame.at(c, 0).cast::<E>(), E::from_f64(product.coefficient));
        return composite.run(frame, factors, result, coefficient);
    }
    // Constant before anything is compiled: kernels of large products would be compiled for whole numbers too otherwise.
    if const { E::LEVELS }
        && let (Some(gemm), Kernel::Gemm, []) = (E::large(), &plan.kernel, &product.sums[..])
    {
        return large_batch(gemm, product, plan, frame);
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
            match (&plan.kernel, E::large()) {
                (Kernel::Packed, _) => packed(frame.isa, matrices, scratch),
                (Kernel::Symmetric, _) if const { E::LEVELS } => symmetric(frame, matrices),
                (Kernel::Gemm, Some(gemm)) if const { E::LEVELS } => in_pieces(gemm, matrices),
                (Kernel::Gemv | Kernel::Skinny | Kernel::Tiles(_) | Kernel::Bf16(_), _) => {
                    unreachable!("vectors and tiles were computed above")
                }
                (Kernel::Symmetric | Kernel::Gemm, _) => unreachable!("all products of integers are packed"),
            }
            add = true;
        });
    });
}

/// A large product that is its own transpose.
unsafe fn symmetric<E: Factor>(frame: &Frame<'_>, matrices: Matrices<E>) {
    // Either way round it is the same; the elements of a row of the result are contiguous in one of them.
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
    whole.run(frame, size.saturating_mul(size).saturating_mul(inner.extent) >= PARALLEL);
}

impl<E> Matrices<E> {
    /// The same product with rows and columns exchanged: (AB)ᵀ = BᵀAᵀ.
    pub(super) fn transposed(self) -> Matrices<E> {
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
    pub(super) fn turned(mut self, axis: fn(&mut Matrices<E>) -> &mut ContractionAxis) -> Matrices<E> {
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

/// Calls a function with the offsets of every index of some axes, in each operand.
#[inline]
pub(super) fn every_index(axes: &[ContractionAxis], mut visit: impl FnMut([isize; 3])) {
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
