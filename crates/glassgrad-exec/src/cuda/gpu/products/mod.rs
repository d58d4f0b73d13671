//! Matrix products by cuBLASLt: `matmul` (descriptors and candidate algorithms), `tuning` (the choice among them, once per shape,
//! stored on disk), `triangle` (symmetric products, by cuBLAS).

mod matmul;
mod triangle;
mod tuning;

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::cublas::sys as cublas;
use cudarc::cublaslt::sys as lt;
use cudarc::driver::{result as driver, sys};

use super::super::device::Address;
use super::super::product::{Matrix, Product};
use super::{Handle, cache};
use crate::MatmulPrecision;
use crate::dtype::DType;

use self::matmul::{ALIGNMENT, Matmul, Shape};

/// Products of fewer multiplications are faster in kernels of our own: a call of the library costs more than they do.
const LEAST_MULTIPLICATIONS: usize = 1 << 19;

/// Products that take several calls of the library are left to it if each has this many multiplications.
const LEAST_OF_SEVERAL: usize = 1 << 24;

/// The workspace of each stream.
const WORKSPACE: usize = 32 << 20;

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
    /// How products of 32-bit numbers are computed.
    precision: MatmulPrecision,
}

/// The prepared products of a device. Choices are made once for each shape, so that a program gives the same bits in every run.
pub(super) type Algorithms = Mutex<HashMap<Shape, Arc<Matmul>>>;

/// A host scalar as the library reads it.
fn scalar(dtype: DType, value: f64) -> [u64; 2] {
    if dtype.compute_type() == DType::F32 { [(value as f32).to_bits().into(), 0] } else { [value.to_bits(), 0] }
}

fn failure(status: impl std::fmt::Debug) -> String {
    format!("a product of matrices failed: {status:?}")
}

impl Products {
    /// Opens the library for a stream, if it is installed.
    pub(super) fn open(stream: sys::CUstream, device: &str, precision: MatmulPrecision) -> Option<Products> {
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
                precision,
            })
        }
    }

    /// Whether the library runs a product faster than a kernel of our own; if so, its algorithm is chosen.
    pub(super) fn prepare(&self, algorithms: &Algorithms, product: &Product) -> bool {
        let several = product.calls.len() > 1 && product.multiplications() / product.calls.len() < LEAST_OF_SEVERAL;
        if product.multiplications() < LEAST_MULTIPLICATIONS || several {
            return false;
        }
        product.is_triangle || self.matmul(algorithms, &Shape::of(product, self.precision)).is_ok()
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
        let matmul = self.matmul(algorithms, &Shape::of(product, self.precision))?;
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
            DType::F32 => {
                let compute = match self.precision {
                    MatmulPrecision::Full => cublas::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                    MatmulPrecision::Tf32 => cublas::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
                };
                (cublas::cudaDataType::CUDA_R_32F, compute)
            }
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
