//! The descriptors of a matrix product for cuBLASLt, and the algorithms that it can run with.

use std::ffi::c_void;

use cudarc::cublaslt::sys as lt;

use super::super::super::device::Address;
use super::super::super::product::{Matrix, Product};
use super::{Products, WORKSPACE, direction, failure};
use crate::MatmulPrecision;
use crate::dtype::DType;

/// The alignment of operands that tuned algorithms rely on, in bytes.
pub(super) const ALIGNMENT: u64 = 16;

/// The candidates that the heuristic of the library names.
const CANDIDATES: usize = 16;

/// The split-k factors that are tried with the first candidates.
const SPLITS: [i32; 6] = [2, 4, 6, 8, 16, 32];

/// The candidates that are tried with other split-k factors.
const SPLIT_CANDIDATES: usize = 4;

/// Everything that the choice of an algorithm depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct Shape {
    pub(super) dtype: DType,
    precision: MatmulPrecision,
    pub(super) sizes: [usize; 3],
    pub(super) batch: usize,
    matrices: [Matrix; 3],
}

impl Shape {
    pub(super) fn of(product: &Product, precision: MatmulPrecision) -> Shape {
        let Product { dtype, sizes, batch, x, y, result, .. } = product;
        Shape { dtype: *dtype, precision, sizes: *sizes, batch: *batch, matrices: [*x, *y, *result] }
    }

    /// Rows and columns of a matrix as stored.
    fn stored(&self, operand: usize) -> [usize; 2] {
        let [n, m, k] = self.sizes;
        let [rows, columns] = [[n, k], [k, m], [n, m]][operand];
        if self.matrices[operand].transposed { [columns, rows] } else { [rows, columns] }
    }

    /// The bytes that an operand spans.
    pub(super) fn bytes(&self, operand: usize) -> usize {
        let matrix = &self.matrices[operand];
        let last = (self.stored(operand)[1].max(1) - 1) * matrix.leading + self.stored(operand)[0];
        (last + matrix.apart.unsigned_abs() * (self.batch - 1)) * self.dtype.bytes()
    }
}

/// A product with its algorithm.
pub(in super::super) struct Matmul {
    operation: lt::cublasLtMatmulDesc_t,
    layouts: [lt::cublasLtMatrixLayout_t; 3],
    pub(super) algorithm: lt::cublasLtMatmulAlgo_t,
}

// SAFETY: descriptors are written only before they are shared; the library reads them from any thread.
unsafe impl Send for Matmul {}
// SAFETY: as above.
unsafe impl Sync for Matmul {}

impl Drop for Matmul {
    fn drop(&mut self) {
        // SAFETY: the descriptors were created with this, and nothing uses them any more.
        unsafe {
            let _ = lt::cublasLtMatmulDescDestroy(self.operation);
            for layout in self.layouts {
                let _ = lt::cublasLtMatrixLayoutDestroy(layout);
            }
        }
    }
}

/// The types of elements, of the computation, and of scalars.
fn types(dtype: DType, precision: MatmulPrecision) -> (lt::cudaDataType, lt::cublasComputeType_t, lt::cudaDataType) {
    use lt::cublasComputeType_t::{
        CUBLAS_COMPUTE_32F as IN_32, CUBLAS_COMPUTE_32F_FAST_TF32 as IN_TF32, CUBLAS_COMPUTE_64F as IN_64,
    };
    use lt::cudaDataType::{CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F, CUDA_R_64F};
    match dtype {
        DType::F16 => (CUDA_R_16F, IN_32, CUDA_R_32F),
        DType::BF16 => (CUDA_R_16BF, IN_32, CUDA_R_32F),
        DType::F32 => {
            let compute = match precision {
                MatmulPrecision::Full => IN_32,
                MatmulPrecision::Tf32 => IN_TF32,
            };
            (CUDA_R_32F, compute, CUDA_R_32F)
        }
        DType::F64 => (CUDA_R_64F, IN_64, CUDA_R_64F),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
            unreachable!("products of {dtype} have kernels of their own")
        }
    }
}

impl Matmul {
    /// The descriptors of a product, with no algorithm yet.
    pub(super) fn new(shape: &Shape) -> Result<Matmul, String> {
        use lt::cublasLtMatmulDescAttributes_t::{CUBLASLT_MATMUL_DESC_TRANSA as X, CUBLASLT_MATMUL_DESC_TRANSB as Y};
        use lt::cublasLtMatrixLayoutAttribute_t::{
            CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT as COUNT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET as OFFSET,
        };
        let (kind, compute, scalars) = types(shape.dtype, shape.precision);
        let null = std::ptr::null_mut();
        let mut made = Matmul {
            operation: null,
            layouts: [std::ptr::null_mut(); 3],
            algorithm: lt::cublasLtMatmulAlgo_t { data: [0; 8] },
        };
        // SAFETY: each function writes one handle, or reads an attribute of the size that is named.
        unsafe {
            lt::cublasLtMatmulDescCreate(&raw mut made.operation, compute, scalars).result().map_err(failure)?;
            for (attribute, matrix) in [(X, &shape.matrices[0]), (Y, &shape.matrices[1])] {
                let direction = direction(matrix) as i32;
                lt::cublasLtMatmulDescSetAttribute(made.operation, attribute, (&raw const direction).cast(), 4)
                    .result()
                    .map_err(failure)?;
            }
            for (operand, layout) in made.layouts.iter_mut().enumerate() {
                let ([rows, columns], matrix) = (shape.stored(operand), &shape.matrices[operand]);
                lt::cublasLtMatrixLayoutCreate(
                    &raw mut *layout,
                    kind,
                    rows as u64,
                    columns as u64,
                    matrix.leading as i64,
                )
                .result()
                .map_err(failure)?;
                let (count, apart) = (shape.batch as i32, matrix.apart as i64);
                lt::cublasLtMatrixLayoutSetAttribute(*layout, COUNT, (&raw const count).cast(), 4)
                    .result()
                    .map_err(failure)?;
                lt::cublasLtMatrixLayoutSetAttribute(*layout, OFFSET, (&raw const apart).cast(), 8)
                    .result()
                    .map_err(failure)?;
            }
        }
        Ok(made)
    }

    /// Whether the library can run an algorithm on this product within the workspace.
    pub(super) fn accepts(&self, library: &Products, algorithm: &lt::cublasLtMatmulAlgo_t) -> bool {
        // SAFETY: an all-zero result is a valid one, which the function overwrites.
        let mut result: lt::cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
        let [x, y, out] = self.layouts;
        let handle = library.lt.0.cast();
        // SAFETY: the descriptors are complete.
        let status =
            unsafe { lt::cublasLtMatmulAlgoCheck(handle, self.operation, x, y, out, out, algorithm, &raw mut result) };
        status.result().is_ok() && result.workspaceSize <= WORKSPACE
    }

    /// The algorithms that the heuristic of the library names, the best first, without those whose sums depend on timing.
    fn heuristic(&self, library: &Products) -> Vec<lt::cublasLtMatmulAlgo_t> {
        use lt::cublasLtMatmulPreferenceAttributes_t::{
            CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES as BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES as A,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES as B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES as C,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES as D, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK as SCHEMES,
        };
        let mut preference = std::ptr::null_mut();
        let (workspace, schemes, alignment) = (WORKSPACE, DETERMINISTIC, ALIGNMENT as u32);
        let [x, y, out] = self.layouts;
        // SAFETY: an all-zero result is a valid one; the function writes at most as many as there are, and names their number.
        let mut found: Vec<lt::cublasLtMatmulHeuristicResult_t> = vec![unsafe { std::mem::zeroed() }; CANDIDATES];
        let mut count = 0;
        // SAFETY: attributes are of the size that is named; the preference is destroyed after its use.
        let done = unsafe {
            let created = lt::cublasLtMatmulPreferenceCreate(&raw mut preference).result();
            let set = |attribute, value: *const c_void, bytes| {
                lt::cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes).result()
            };
            let done = created
                .and_then(|()| set(BYTES, (&raw const workspace).cast(), size_of::<usize>()))
                .and_then(|()| set(SCHEMES, (&raw const schemes).cast(), 4))
                .and_then(|()| {
                    [A, B, C, D].into_iter().try_for_each(|operand| set(operand, (&raw const alignment).cast(), 4))
                })
                .and_then(|()| {
                    lt::cublasLtMatmulAlgoGetHeuristic(
                        library.lt.0.cast(),
                        self.operation,
                        x,
                        y,
                        out,
                        out,
                        preference,
                        CANDIDATES as i32,
                        found.as_mut_ptr(),
                        &raw mut count,
                    )
                    .result()
                });
            if !preference.is_null() {
                let _ = lt::cublasLtMatmulPreferenceDestroy(preference);
            }
            done
        };
        if done.is_err() {
            return Vec::new();
        }
        found.truncate(count as usize);
        found.retain(|result| result.state == lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        found.iter().map(|result| result.algo).collect()
    }

    /// The candidates for tuning: those of the heuristic, and the first of them with other split-k factors.
    pub(super) fn candidates(&self, library: &Products) -> Vec<lt::cublasLtMatmulAlgo_t> {
        use lt::cublasLtMatmulAlgoConfigAttributes_t::{
            CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME as SCHEME, CUBLASLT_ALGO_CONFIG_SPLITK_NUM as SPLIT,
        };
        let mut all = self.heuristic(library);
        let first: Vec<_> = all.iter().take(SPLIT_CANDIDATES).copied().collect();
        for (algorithm, split) in first.iter().flat_map(|algorithm| SPLITS.map(|split| (algorithm, split))) {
            let (mut algorithm, scheme) = (*algorithm, IN_COMPUTE_TYPE);
            // SAFETY: both attributes are of four bytes.
            let is_set = unsafe {
                lt::cublasLtMatmulAlgoConfigSetAttribute(&raw mut algorithm, SPLIT, (&raw const split).cast(), 4)
                    .result()
                    .is_ok()
                    && lt::cublasLtMatmulAlgoConfigSetAttribute(
                        &raw mut algorithm,
                        SCHEME,
                        (&raw const scheme).cast(),
                        4,
                    )
                    .result()
                    .is_ok()
            };
            if is_set && !all.contains(&algorithm) && self.accepts(library, &algorithm) {
                all.push(algorithm);
            }
        }
        all
    }

    /// Starts the product with an algorithm.
    pub(super) fn start(
        &self,
        library: &Products,
        algorithm: &lt::cublasLtMatmulAlgo_t,
        places: [Address; 3],
        [alpha, beta]: [&[u64; 2]; 2],
    ) -> Result<(), String> {
        let [x, y, out] = self.layouts;
        // SAFETY: the addresses hold what the layouts describe; both scalars are host numbers of the type; the workspace is that
        // of the stream.
        let status = unsafe {
            lt::cublasLtMatmul(
                library.lt.0.cast(),
                self.operation,
                alpha.as_ptr().cast(),
                places[0] as *const c_void,
                x,
                places[1] as *const c_void,
                y,
                beta.as_ptr().cast(),
                places[2] as *const c_void,
                out,
                places[2] as *mut c_void,
                out,
                algorithm,
                library.workspace as *mut c_void,
                WORKSPACE,
                library.stream.0.cast(),
            )
        };
        status.result().map_err(failure)
    }
}

/// The reduction schemes of split-k products whose order of additions is fixed: all but the atomic one.
const DETERMINISTIC: u32 =
    IN_COMPUTE_TYPE | lt::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE as u32;

/// Partial sums of split-k products in the type of the computation.
const IN_COMPUTE_TYPE: u32 = lt::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
