//! Matrix products by cuBLASLt, with algorithms that are tuned once per shape and stored on disk; symmetric ones by cuBLAS.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::cublas::sys as cublas;
use cudarc::cublaslt::sys as lt;
use cudarc::driver::{result as driver, sys};

use super::super::device::Address;
use super::super::product::{Matrix, Product};
use super::{Handle, cache};
use crate::dtype::DType;

/// Products of fewer multiplications are faster in kernels of our own: a call of the library costs more than they do.
const LEAST_MULTIPLICATIONS: usize = 1 << 19;

/// Products that take several calls of the library are left to it if each has this many multiplications.
const LEAST_OF_SEVERAL: usize = 1 << 24;

/// The workspace of each stream.
const WORKSPACE: usize = 32 << 20;

/// The alignment of operands that tuned algorithms rely on, in bytes.
const ALIGNMENT: u64 = 16;

/// The candidates that the heuristic of the library names.
const CANDIDATES: usize = 16;

/// The split-k factors that are tried with the first candidates.
const SPLITS: [i32; 6] = [2, 4, 6, 8, 16, 32];

/// The candidates that are tried with other split-k factors.
const SPLIT_CANDIDATES: usize = 4;

/// The multiplications of all repetitions in a measurement.
const MEASURED: usize = 1 << 33;

/// The library on one stream, with a workspace of its own, so that products on several streams give the same bits in every run.
pub(super) struct Products {
    stream: Handle,
    /// The handle of cuBLAS.
    cublas: Handle,
    /// The handle of cuBLASLt.
    lt: Handle,
    workspace: Address,
    /// The device and the library version, which the choice of an algorithm depends on beside the product.
    environment: String,
}

/// The prepared products of a device. Choices are made once for each shape, so that a program gives the same bits in every run.
pub(super) type Algorithms = Mutex<HashMap<Shape, Arc<Matmul>>>;

/// Everything that the choice of an algorithm depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    dtype: DType,
    sizes: [usize; 3],
    batch: usize,
    matrices: [Matrix; 3],
}

impl Shape {
    fn of(product: &Product) -> Shape {
        let Product { dtype, sizes, batch, x, y, result, .. } = product;
        Shape { dtype: *dtype, sizes: *sizes, batch: *batch, matrices: [*x, *y, *result] }
    }

    /// Rows and columns of a matrix as stored.
    fn stored(&self, operand: usize) -> [usize; 2] {
        let [n, m, k] = self.sizes;
        let [rows, columns] = [[n, k], [k, m], [n, m]][operand];
        if self.matrices[operand].transposed { [columns, rows] } else { [rows, columns] }
    }

    /// The bytes that an operand spans.
    fn bytes(&self, operand: usize) -> usize {
        let matrix = &self.matrices[operand];
        let last = (self.stored(operand)[1].max(1) - 1) * matrix.leading + self.stored(operand)[0];
        (last + matrix.apart.unsigned_abs() * (self.batch - 1)) * self.dtype.bytes()
    }
}

/// A product with its algorithm.
pub(super) struct Matmul {
    operation: lt::cublasLtMatmulDesc_t,
    layouts: [lt::cublasLtMatrixLayout_t; 3],
    algorithm: lt::cublasLtMatmulAlgo_t,
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
fn types(dtype: DType) -> (lt::cudaDataType, lt::cublasComputeType_t, lt::cudaDataType) {
    use lt::cublasComputeType_t::{CUBLAS_COMPUTE_32F as IN_32, CUBLAS_COMPUTE_64F as IN_64};
    use lt::cudaDataType::{CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F, CUDA_R_64F};
    match dtype {
        DType::F16 => (CUDA_R_16F, IN_32, CUDA_R_32F),
        DType::BF16 => (CUDA_R_16BF, IN_32, CUDA_R_32F),
        DType::F32 => (CUDA_R_32F, IN_32, CUDA_R_32F),
        DType::F64 => (CUDA_R_64F, IN_64, CUDA_R_64F),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
            unreachable!("products of {dtype} have kernels of their own")
        }
    }
}

/// A host scalar as the library reads it.
fn scalar(dtype: DType, value: f64) -> [u64; 2] {
    if dtype.compute_type() == DType::F32 { [(value as f32).to_bits().into(), 0] } else { [value.to_bits(), 0] }
}

fn failure(status: impl std::fmt::Debug) -> String {
    format!("a product of matrices failed: {status:?}")
}

impl Matmul {
    /// The descriptors of a product, with no algorithm yet.
    fn new(shape: &Shape) -> Result<Matmul, String> {
        use lt::cublasLtMatmulDescAttributes_t::{CUBLASLT_MATMUL_DESC_TRANSA as X, CUBLASLT_MATMUL_DESC_TRANSB as Y};
        use lt::cublasLtMatrixLayoutAttribute_t::{
            CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT as COUNT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET as OFFSET,
        };
        let (kind, compute, scalars) = types(shape.dtype);
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
    fn accepts(&self, library: &Products, algorithm: &lt::cublasLtMatmulAlgo_t) -> bool {
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
    fn candidates(&self, library: &Products) -> Vec<lt::cublasLtMatmulAlgo_t> {
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
    fn start(
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

impl Products {
    /// Opens the library for a stream, if it is installed.
    pub(super) fn open(stream: sys::CUstream, device: &str) -> Option<Products> {
        // SAFETY: looking for the libraries runs none of their code but initialisation, which they allow. The handles, the stream
        // and the workspace are kept for as long as the process lives.
        unsafe {
            if !cublas::is_culib_present() || !lt::is_culib_present() {
                return None;
            }
            let (mut handle, mut lt_handle) = (std::ptr::null_mut(), std::ptr::null_mut());
            cublas::cublasCreate_v2(&raw mut handle).result().ok()?;
            cublas::cublasSetStream_v2(handle, stream.cast()).result().ok()?;
            lt::cublasLtCreate(&raw mut lt_handle).result().ok()?;
            let workspace = driver::malloc_sync(WORKSPACE).ok()?;
            cublas::cublasSetWorkspace_v2(handle, workspace as *mut c_void, WORKSPACE).result().ok()?;
            Some(Products {
                stream: Handle(stream.cast()),
                cublas: Handle(handle.cast()),
                lt: Handle(lt_handle.cast()),
                workspace,
                environment: format!("{device}, cuBLASLt {}", lt::cublasLtGetVersion()),
            })
        }
    }

    /// Whether the library runs a product faster than a kernel of our own; if so, its algorithm is chosen.
    pub(super) fn prepare(&self, algorithms: &Algorithms, product: &Product) -> bool {
        let several = product.calls.len() > 1 && product.multiplications() / product.calls.len() < LEAST_OF_SEVERAL;
        if product.multiplications() < LEAST_MULTIPLICATIONS || several {
            return false;
        }
        product.is_triangle || self.matmul(algorithms, &Shape::of(product)).is_ok()
    }

    /// A product with its algorithm, which is chosen at the first call.
    fn matmul(&self, algorithms: &Algorithms, shape: &Shape) -> Result<Arc<Matmul>, String> {
        if let Some(known) = lock(algorithms).get(shape) {
            return Ok(Arc::clone(known));
        }
        let mut matmul = Matmul::new(shape)?;
        let key = cache::hash_of(&format!("{} {shape:?}", self.environment));
        let stored = |bytes: Vec<u8>| {
            let bytes: [u8; 64] = bytes.try_into().ok()?;
            let data = std::array::from_fn(|k| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * k + byte])));
            Some(lt::cublasLtMatmulAlgo_t { data }).filter(|algorithm| matmul.accepts(self, algorithm))
        };
        matmul.algorithm = match cache::load(key, "algorithm").and_then(stored) {
            Some(algorithm) => algorithm,
            None => {
                let chosen = self.tuned(&matmul, shape)?;
                cache::store(key, "algorithm", &chosen.data.map(u64::to_le_bytes).concat());
                chosen
            }
        };
        let matmul = Arc::new(matmul);
        Ok(Arc::clone(lock(algorithms).entry(shape.clone()).or_insert(matmul)))
    }

    /// The fastest algorithm for a product.
    fn tuned(&self, matmul: &Matmul, shape: &Shape) -> Result<lt::cublasLtMatmulAlgo_t, String> {
        let candidates = matmul.candidates(self);
        let first = candidates.first().copied().ok_or_else(|| format!("no algorithm for a product of {shape:?}"))?;
        let places = [0, 1, 2].map(|operand| {
            // SAFETY: memory is reserved, not touched.
            unsafe { driver::malloc_sync(shape.bytes(operand).max(1)) }
        });
        let mut best = (f32::INFINITY, first);
        // Operands that do not fit a second time are not measured: the heuristic decides.
        if let [Ok(x), Ok(y), Ok(out)] = places {
            for algorithm in candidates {
                let seconds = self.measure(matmul, shape, &algorithm, [x, y, out]).unwrap_or(f32::INFINITY);
                if seconds < best.0 {
                    best = (seconds, algorithm);
                }
            }
        }
        for place in places.into_iter().flatten() {
            // SAFETY: the memory was reserved above, and the stream is idle.
            let _ = unsafe { driver::free_sync(place) };
        }
        Ok(best.1)
    }

    /// The milliseconds of a product, repeated in a graph as in a recorded run.
    fn measure(
        &self,
        matmul: &Matmul,
        shape: &Shape,
        algorithm: &lt::cublasLtMatmulAlgo_t,
        places: [Address; 3],
    ) -> Result<f32, String> {
        let text = |error: driver::DriverError| error.to_string();
        let multiplications = shape.sizes.iter().fold(shape.batch, |product, size| product.saturating_mul(*size));
        let repetitions = (MEASURED / multiplications.max(1)).clamp(1, 20);
        let (alpha, beta) = (scalar(shape.dtype, 1.0), scalar(shape.dtype, 0.0));
        let stream: sys::CUstream = self.stream.0.cast();
        // SAFETY: the stream belongs to this thread's turn and lives as long as the process; graph, instance and events are
        // destroyed when the stream is idle.
        unsafe {
            matmul.start(self, algorithm, places, [&alpha, &beta])?;
            driver::stream::synchronize(stream).map_err(text)?;
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            driver::stream::begin_capture(stream, mode).map_err(text)?;
            let started = (0..repetitions).try_for_each(|_| matmul.start(self, algorithm, places, [&alpha, &beta]));
            let graph = driver::stream::end_capture(stream).map_err(text)?;
            started?;
            let instance = driver::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)).map_err(text)?;
            let event = || driver::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(text);
            let (begin, end) = (event()?, event()?);
            let run = || {
                driver::event::record(begin, stream)?;
                driver::graph::launch(instance, stream)?;
                driver::event::record(end, stream)?;
                driver::stream::synchronize(stream)?;
                driver::event::elapsed(begin, end)
            };
            let least = (0..4).map(|_| run()).try_fold(f32::INFINITY, |least, time| time.map(|time| least.min(time)));
            let _ = (driver::event::destroy(begin), driver::event::destroy(end));
            let _ = (driver::graph::exec_destroy(instance), driver::graph::destroy(graph));
            Ok(least.map_err(text)? / repetitions as f32)
        }
    }

    /// Starts a product.
    pub(super) fn multiply(
        &self,
        algorithms: &Algorithms,
        product: &Product,
        places: [Address; 3],
    ) -> Result<(), String> {
        let alpha = scalar(product.dtype, product.coefficient);
        if product.is_triangle {
            return self.triangle(product, places, alpha);
        }
        let matmul = self.matmul(algorithms, &Shape::of(product))?;
        for (offsets, adds) in &product.calls {
            let beta = scalar(product.dtype, if *adds { 1.0 } else { 0.0 });
            let own = std::array::from_fn(|k| at(places[k], offsets[k], product.dtype));
            if own.iter().all(|address| address % ALIGNMENT == 0) {
                matmul.start(self, &matmul.algorithm, own, [&alpha, &beta])?;
            } else {
                self.unaligned(product, own, [&alpha, &beta])?;
            }
        }
        Ok(())
    }

    /// A product whose operands are not aligned as tuned algorithms need it: the library chooses by their addresses.
    fn unaligned(&self, product: &Product, places: [Address; 3], [alpha, beta]: [&[u64; 2]; 2]) -> Result<(), String> {
        let (kind, compute) = match product.dtype {
            DType::F32 => (cublas::cudaDataType::CUDA_R_32F, cublas::cublasComputeType_t::CUBLAS_COMPUTE_32F),
            DType::F64 => (cublas::cudaDataType::CUDA_R_64F, cublas::cublasComputeType_t::CUBLAS_COMPUTE_64F),
            DType::F16 => (cublas::cudaDataType::CUDA_R_16F, cublas::cublasComputeType_t::CUBLAS_COMPUTE_32F),
            DType::BF16 => (cublas::cudaDataType::CUDA_R_16BF, cublas::cublasComputeType_t::CUBLAS_COMPUTE_32F),
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                unreachable!("products of {} have kernels of their own", product.dtype)
            }
        };
        let [n, m, k] = product.sizes.map(|size| size as i32);
        // SAFETY: the plan's addresses hold what the verified program accesses; both scalars are host numbers of the type.
        let status = unsafe {
            cublas::cublasGemmStridedBatchedEx(
                self.cublas.0.cast(),
                direction(&product.x),
                direction(&product.y),
                n,
                m,
                k,
                alpha.as_ptr().cast(),
                places[0] as *const c_void,
                kind,
                product.x.leading as i32,
                product.x.apart as i64,
                places[1] as *const c_void,
                kind,
                product.y.leading as i32,
                product.y.apart as i64,
                beta.as_ptr().cast(),
                places[2] as *mut c_void,
                kind,
                product.result.leading as i32,
                product.result.apart as i64,
                product.batch as i32,
                compute,
                cublas::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        status.result().map_err(failure)
    }

    /// The lower triangle of a product that is its own transpose.
    fn triangle(&self, product: &Product, places: [Address; 3], alpha: [u64; 2]) -> Result<(), String> {
        let [n, _, k] = product.sizes.map(|size| size as i32);
        let [(offsets, _)] = &product.calls[..] else { unreachable!("a triangle of several products") };
        let place = |k: usize| at(places[k], offsets[k], product.dtype);
        let fill = cublas::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;
        let direction = direction(&product.x);
        let [x, y, result] = [&product.x, &product.y, &product.result].map(|matrix| matrix.leading as i32);
        let (handle, zero) = (self.cublas.0.cast(), [0_u64; 2]);
        // SAFETY: the plan's addresses hold what the verified program accesses; both scalars are host numbers of the type, of which
        // zero is all bits zero.
        let status = unsafe {
            match product.dtype {
                DType::F32 => cublas::cublasSsyrkx(
                    handle,
                    fill,
                    direction,
                    n,
                    k,
                    alpha.as_ptr().cast(),
                    place(0) as *const f32,
                    x,
                    place(1) as *const f32,
                    y,
                    zero.as_ptr().cast(),
                    place(2) as *mut f32,
                    result,
                ),
                DType::F64 => cublas::cublasDsyrkx(
                    handle,
                    fill,
                    direction,
                    n,
                    k,
                    alpha.as_ptr().cast(),
                    place(0) as *const f64,
                    x,
                    place(1) as *const f64,
                    y,
                    zero.as_ptr().cast(),
                    place(2) as *mut f64,
                    result,
                ),
                DType::F16 | DType::BF16 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                    unreachable!("triangles of {} are products of whole matrices", product.dtype)
                }
            }
        };
        status.result().map_err(failure)
    }
}

/// The address of an element of an operand.
fn at(place: Address, offset: isize, dtype: DType) -> Address {
    place.wrapping_add_signed((offset * dtype.bytes() as isize) as i64)
}

fn direction(matrix: &Matrix) -> cublas::cublasOperation_t {
    match matrix.transposed {
        true => cublas::cublasOperation_t::CUBLAS_OP_T,
        false => cublas::cublasOperation_t::CUBLAS_OP_N,
    }
}

fn lock(algorithms: &Algorithms) -> MutexGuard<'_, HashMap<Shape, Arc<Matmul>>> {
    algorithms.lock().unwrap_or_else(PoisonError::into_inner)
}
