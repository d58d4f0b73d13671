//! GPUs by the CUDA driver: memory, copies, kernels compiled by NVRTC. The libraries are loaded at run time.
#![allow(unsafe_code)]

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use cudarc::cublas::sys as cublas;
use cudarc::driver::{result as driver, sys};
use cudarc::nvrtc::{result as nvrtc, sys as nvrtc_sys};

use super::device::{Address, Device, Loaded, Mark, Recording, Turn};
use super::product::{Matrix, Product};
use super::source::Module;
use crate::dtype::DType;
use crate::error::Error;

/// The groups of threads in a block of a chain: as many as a block can have.
const GROUPS: u32 = 4;

/// The threads that compile kernels at a time, at most.
const COMPILERS: usize = 8;

/// A GPU of this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its number, as in [`Target::Cuda`](crate::exec::Target::Cuda).
    pub number: usize,
    /// Its name.
    pub name: String,
    /// The bytes of its memory.
    pub memory: usize,
    /// The compute capability: major and minor version of its architecture.
    pub capability: (usize, usize),
}

impl fmt::Display for Gpu {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability;
        let gigabytes = self.memory as f64 / f64::from(1_u32 << 30);
        write!(formatter, "cuda:{} {} ({gigabytes:.0} GiB, compute capability {major}.{minor})", self.number, self.name)
    }
}

/// The GPUs of this machine; an error says why none can be used.
///
/// ```
/// use glassgrad::exec::gpus;
/// match gpus() {
///     Ok(gpus) => assert!(!gpus.is_empty()),
///     Err(error) => assert!(error.to_string().contains("cuda")),
/// }
/// ```
pub fn gpus() -> Result<Vec<Gpu>, Error> {
    // SAFETY: looking for libraries runs none of their code but initialisation, which the driver's allow.
    let has_driver = unsafe { sys::is_culib_present() };
    if !has_driver {
        return Err(Error::new("cuda", "the CUDA driver is not installed: the library libcuda is not found")
            .help("install the driver of an NVIDIA GPU, or compute on the CPU"));
    }
    driver::init().map_err(|error| Error::new("cuda", format!("the CUDA driver does not start: {error}")))?;
    let count = driver::device::get_count().map_err(|error| Error::new("cuda", format!("no GPU: {error}")))?;
    if count == 0 {
        return Err(Error::new("cuda", "this machine has the CUDA driver, and no GPU"));
    }
    (0..count).map(|number| describe(number as usize)).collect()
}

fn describe(number: usize) -> Result<Gpu, Error> {
    let failed = |error: driver::DriverError| Error::new("cuda", format!("GPU {number} cannot be asked: {error}"));
    let device = driver::device::get(number as i32).map_err(failed)?;
    use sys::CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    // SAFETY: the device is one that the driver has just named.
    let attribute = |which| unsafe { driver::device::get_attribute(device, which) }.map_err(failed);
    Ok(Gpu {
        number,
        name: driver::device::get_name(device).map_err(failed)?,
        // SAFETY: as above.
        memory: unsafe { driver::device::total_mem(device) }.map_err(failed)?,
        capability: (attribute(MAJOR)? as usize, attribute(MINOR)? as usize),
    })
}

/// Opens a GPU.
pub(super) fn open(number: usize) -> Result<Arc<dyn Device>, Error> {
    let gpus = gpus()?;
    let Some(gpu) = gpus.get(number).cloned() else {
        let there: Vec<String> = gpus.iter().map(Gpu::to_string).collect();
        return Err(Error::new("cuda", format!("there is no GPU {number}"))
            .help(format!("this machine has {}", there.join(", "))));
    };
    // SAFETY: looking for a library runs none of its code but initialisation, which NVRTC allows.
    if !unsafe { nvrtc_sys::is_culib_present() } {
        return Err(Error::new("cuda", "the run-time compiler is not installed: the library libnvrtc is not found")
            .help("install the CUDA toolkit, and put its library folder into LD_LIBRARY_PATH"));
    }
    let failed = |error: driver::DriverError| Error::new("cuda", format!("GPU {number} does not open: {error}"));
    let device = driver::device::get(number as i32).map_err(failed)?;
    // SAFETY: the device exists; its primary context is kept for as long as the process lives.
    let context = unsafe { driver::primary_ctx::retain(device) }.map_err(failed)?;
    // SAFETY: the context was just retained.
    unsafe { driver::ctx::set_current(context) }.map_err(failed)?;
    let mut lanes = Vec::with_capacity(LANES);
    for _ in 0..LANES {
        let stream = driver::stream::create(driver::stream::StreamKind::NonBlocking).map_err(failed)?;
        lanes.push(Lane { stream: Handle(stream.cast()), products: Products::open(stream) });
    }
    Ok(Arc::new(OpenGpu {
        gpu,
        context: Handle(context.cast()),
        lanes: lanes.into(),
        lane: Arc::default(),
        marks: Mutex::default(),
        free: Mutex::default(),
        kernels: Mutex::default(),
        turn: Mutex::default(),
        owner: Mutex::default(),
    }))
}

/// A handle of the driver, which any thread may use.
#[derive(Clone, Copy, Debug)]
struct Handle(*mut c_void);

// SAFETY: handles of the driver are names that it looks up; its functions may be called from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// The streams of a GPU. What runs outside of recordings is on the first, in order.
const LANES: usize = 4;

/// A stream, with a handle of the library of matrix products if that is installed. Handles have working memory of their own, so
/// that products on several streams give the same bits in every run.
struct Lane {
    stream: Handle,
    products: Option<Products>,
}

/// A GPU with its context and its streams.
struct OpenGpu {
    gpu: Gpu,
    context: Handle,
    lanes: Arc<[Lane]>,
    /// The lane that work is started on.
    lane: Arc<AtomicUsize>,
    /// The events of the recording that is made.
    marks: Mutex<Vec<Handle>>,
    /// Memory that is given back and reserved from the driver, by size. The lowest address is taken first, so that a loop uses
    /// the same addresses again and its recordings fit.
    free: Mutex<HashMap<usize, BTreeSet<Address>>>,
    /// Kernels by the hash of their text.
    kernels: Mutex<HashMap<u128, Handle>>,
    /// Held while a program is started.
    turn: Mutex<()>,
    /// The thread that holds it.
    owner: Mutex<Option<ThreadId>>,
}

/// The library of matrix products.
struct Products {
    handle: Handle,
}

/// Products of fewer multiplications are faster in kernels of our own: a call of the library costs more than they do.
const LEAST_MULTIPLICATIONS: usize = 1 << 14;

/// Products that take several calls of the library are left to it if each has this many multiplications.
const LEAST_OF_SEVERAL: usize = 1 << 24;

/// The working memory of a handle of the library.
const WORKSPACE: usize = 32 << 20;

impl Products {
    fn open(stream: sys::CUstream) -> Option<Products> {
        // SAFETY: looking for the library runs none of its code but initialisation, which it allows. The handle, its stream
        // and its working memory are kept for as long as the process lives.
        unsafe {
            if !cublas::is_culib_present() {
                return None;
            }
            let mut handle = std::ptr::null_mut();
            cublas::cublasCreate_v2(&raw mut handle).result().ok()?;
            cublas::cublasSetStream_v2(handle, stream.cast()).result().ok()?;
            let workspace = driver::malloc_sync(WORKSPACE).ok()?;
            cublas::cublasSetWorkspace_v2(handle, workspace as *mut c_void, WORKSPACE).result().ok()?;
            Some(Products { handle: Handle(handle.cast()) })
        }
    }
}

/// The lower triangle of a product that is its own transpose.
fn triangle(products: &Products, product: &Product, places: [Address; 3], alpha: [u64; 2]) -> Result<(), String> {
    let [n, _, k] = product.sizes.map(|size| size as i32);
    let [(offsets, _)] = &product.calls[..] else { unreachable!("a triangle of several products") };
    let place = |k: usize| places[k].wrapping_add_signed((offsets[k] * product.dtype.bytes() as isize) as i64);
    let fill = cublas::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;
    let direction = match product.x.transposed {
        true => cublas::cublasOperation_t::CUBLAS_OP_T,
        false => cublas::cublasOperation_t::CUBLAS_OP_N,
    };
    let [x, y, result] = [&product.x, &product.y, &product.result].map(|matrix| matrix.leading as i32);
    let (handle, zero) = (products.handle.0.cast(), [0_u64; 2]);
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
            DType::I64 | DType::Bool | DType::F16 | DType::BF16 | DType::I32 | DType::U8 => {
                unreachable!("triangles of {} are products of whole matrices", product.dtype)
            }
        }
    };
    status.result().map_err(|error| format!("a symmetric product of matrices failed: {error:?}"))
}

/// A run of a program as a graph of the driver.
struct Graph {
    context: Handle,
    stream: Handle,
    graph: Handle,
    instance: Handle,
}

impl Recording for Graph {
    fn replay(&self) -> Result<(), String> {
        // SAFETY: the graph lives as long as this; the addresses that it uses are reserved, since it is replayed with these.
        unsafe {
            driver::ctx::set_current(self.context.0.cast()).map_err(|error| error.to_string())?;
            driver::graph::launch(self.instance.0.cast(), self.stream.0.cast()).map_err(|error| error.to_string())
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: nothing uses the graph any more; the driver keeps what still runs.
        unsafe {
            let _ = driver::graph::exec_destroy(self.instance.0.cast());
            let _ = driver::graph::destroy(self.graph.0.cast());
        }
    }
}

impl fmt::Debug for OpenGpu {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.gpu)
    }
}

/// The size class of an allocation: few classes, so that memory is reused.
fn size_class(bytes: usize) -> usize {
    match bytes {
        0..=512 => 512,
        513..=0x10_0000 => bytes.next_power_of_two(),
        _ => bytes.next_multiple_of(0x20_0000),
    }
}

fn hash_of(text: &str) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, text).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

impl OpenGpu {
    fn enter(&self) -> Result<(), String> {
        // SAFETY: the context is kept for as long as the process lives.
        unsafe { driver::ctx::set_current(self.context.0.cast()) }.map_err(|error| error.to_string())
    }

    /// For a copy: waits until no other thread starts a program, whose recording would take the copy in.
    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        let is_own = *self.owner.lock().unwrap_or_else(PoisonError::into_inner) == Some(std::thread::current().id());
        (!is_own).then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn stream(&self) -> sys::CUstream {
        self.lanes[self.lane.load(Ordering::Relaxed)].stream.0.cast()
    }

    fn free(&self) -> MutexGuard<'_, HashMap<usize, BTreeSet<Address>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the current lane.
    fn finish(&self) -> Result<(), String> {
        // SAFETY: the stream lives as long as the process.
        unsafe { driver::stream::synchronize(self.stream()) }.map_err(|error| error.to_string())
    }

    /// A kernel as machine code: from the cache on disk, or compiled.
    fn machine_code(&self, text: &str) -> Result<Vec<u8>, String> {
        let (major, minor) = self.gpu.capability;
        let (mut first, mut second) = (0, 0);
        // SAFETY: both numbers are written by the function.
        unsafe { nvrtc_sys::nvrtcVersion(&raw mut first, &raw mut second) };
        let key = hash_of(&format!("{major}.{minor} {first}.{second}\n{text}"));
        let file = cache_folder().map(|folder| folder.join(format!("{key:032x}.cubin")));
        if let Some(code) = file.as_ref().and_then(|file| std::fs::read(file).ok()).and_then(|bytes| unsealed(&bytes)) {
            return Ok(code);
        }
        let code = compiled(text, &format!("--gpu-architecture=sm_{major}{minor}"))?;
        if let Some(file) = file {
            // A cache that cannot be written is no error: the next run compiles again.
            let _ = store(&file, &code);
        }
        Ok(code)
    }

    fn function(&self, text: &str) -> Result<Handle, String> {
        let key = hash_of(text);
        let known = || self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = known().get(&key) {
            return Ok(*function);
        }
        let code = self.machine_code(text)?;
        self.enter()?;
        // SAFETY: the code is a whole cubin, as NVRTC made it or as its checksum says. Modules live as long as the process.
        let module = unsafe { driver::module::load_data(code.as_ptr().cast()) }.map_err(|error| error.to_string())?;
        // SAFETY: the module was just loaded, and has a function of this name.
        let function = unsafe { driver::module::get_function(module, c"kernel".to_owned()) };
        let function = Handle(function.map_err(|error| error.to_string())?.cast());
        known().insert(key, function);
        Ok(function)
    }
}

/// The folder in which machine code is kept between runs.
fn cache_folder() -> Option<PathBuf> {
    let own = std::env::var_os("GLASSGRAD_CACHE").map(PathBuf::from);
    let cache = || Some(PathBuf::from(std::env::var_os("XDG_CACHE_HOME")?));
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    own.or_else(|| Some(cache().or_else(home)?.join("glassgrad"))).map(|folder| folder.join("kernels"))
}

/// Machine code behind its checksum.
fn store(file: &std::path::Path, code: &[u8]) -> std::io::Result<()> {
    static COUNTER: AtomicUsize = AtomicUsize::new(0);
    let folder = file.parent().ok_or(std::io::ErrorKind::NotFound)?;
    std::fs::create_dir_all(folder)?;
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let part = file.with_extension(format!("{}-{number}.part", std::process::id()));
    let mut sealed = checksum(code).to_le_bytes().to_vec();
    sealed.extend_from_slice(code);
    std::fs::write(&part, sealed)?;
    std::fs::rename(&part, file)
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The machine code of a file, if it is whole.
fn unsealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let (sum, code) = bytes.split_at_checked(8)?;
    (checksum(code).to_le_bytes() == sum).then(|| code.to_vec())
}

/// Compiles a kernel.
pub(super) fn compiled(text: &str, architecture: &str) -> Result<Vec<u8>, String> {
    let source = CString::new(text).map_err(|error| error.to_string())?;
    let program = nvrtc::create_program(&source, Some(c"glassgrad.cu")).map_err(|error| error.to_string())?;
    let options = ["--std=c++17", "--fmad=false", architecture];
    // SAFETY: the program was just created, and its text outlives it.
    let done = unsafe { nvrtc::compile_program(program, &options) };
    let code = match done {
        Ok(()) => {
            let mut size = 0;
            // SAFETY: the program was compiled for an architecture, so that there is machine code; the second call writes
            // as many bytes as the first one names.
            unsafe {
                nvrtc_sys::nvrtcGetCUBINSize(program, &raw mut size).result().map_err(|error| error.to_string())?;
                let mut code = vec![0_u8; size];
                nvrtc_sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast())
                    .result()
                    .map_err(|error| error.to_string())?;
                Ok(code)
            }
        }
        Err(error) => {
            // SAFETY: the program was created; the log ends with a zero.
            let log = unsafe { nvrtc::get_program_log(program) }.unwrap_or_default();
            let log: Vec<u8> = log.iter().map(|byte| *byte as u8).collect();
            let log = CStr::from_bytes_until_nul(&log).map_or_else(|_| "no log".into(), CStr::to_string_lossy);
            Err(format!("a kernel does not compile ({error}):\n{log}"))
        }
    };
    // SAFETY: nothing uses the program any more.
    let _ = unsafe { nvrtc::destroy_program(program) };
    code
}

impl Device for OpenGpu {
    fn allocate(&self, bytes: usize) -> Result<Address, String> {
        let size = size_class(bytes);
        if let Some(address) = self.free().get_mut(&size).and_then(BTreeSet::pop_first) {
            return Ok(address);
        }
        self.enter()?;
        // SAFETY: memory is reserved, not touched.
        let reserve = || unsafe { driver::malloc_sync(size) };
        if let Ok(address) = reserve() {
            return Ok(address);
        }
        // What was given back by size may be enough for another size.
        self.synchronise()?;
        let unused: Vec<Address> = self.free().drain().flat_map(|(_, addresses)| addresses).collect();
        for address in unused {
            // SAFETY: the address was reserved, and everything that used it is done.
            let _ = unsafe { driver::free_sync(address) };
        }
        reserve().map_err(|error| {
            let left = driver::mem_get_info().map_or(0, |(free, _)| free);
            format!("{size} bytes of memory are not to be had on {}, which has {left} left ({error})", self.gpu)
        })
    }

    fn release(&self, address: Address, bytes: usize) {
        // The next owner uses it in stream order, after everything that was started.
        self.free().entry(size_class(bytes)).or_default().insert(address);
    }

    fn write(&self, to: Address, from: &[u8]) -> Result<(), String> {
        let _turn = self.turn();
        self.enter()?;
        // SAFETY: the plan reserved the bytes. From pageable memory the driver has copied the source when it returns.
        unsafe { driver::memcpy_htod_async(to, from, self.stream()) }.map_err(|error| error.to_string())
    }

    fn read(&self, from: Address, to: &mut [u8]) -> Result<(), String> {
        let _turn = self.turn();
        self.enter()?;
        // SAFETY: the plan reserved the bytes, and the stream is waited for before anyone reads the target.
        unsafe { driver::memcpy_dtoh_async(to, from, self.stream()) }.map_err(|error| error.to_string())?;
        self.finish()
    }

    fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), String> {
        let _turn = self.turn();
        self.enter()?;
        // SAFETY: the plan reserved the bytes of both.
        unsafe { driver::memcpy_dtod_async(to, from, bytes, self.stream()) }.map_err(|error| error.to_string())
    }

    fn clear(&self, at: Address, bytes: usize) -> Result<(), String> {
        if bytes == 0 {
            return Ok(());
        }
        self.enter()?;
        // SAFETY: the plan reserved the bytes.
        unsafe { driver::memset_d8_async(at, 0, bytes, self.stream()) }.map_err(|error| error.to_string())
    }

    fn synchronise(&self) -> Result<(), String> {
        let _turn = self.turn();
        self.enter()?;
        self.finish()
    }

    fn multiplies(&self, product: &Product) -> bool {
        let several = product.calls.len() > 1 && product.multiplications() / product.calls.len() < LEAST_OF_SEVERAL;
        self.lanes[0].products.is_some() && product.multiplications() >= LEAST_MULTIPLICATIONS && !several
    }

    fn multiply(&self, product: &Product, places: [Address; 3]) -> Result<(), String> {
        let lane = &self.lanes[self.lane.load(Ordering::Relaxed)];
        let Some(products) = &lane.products else { unreachable!("a product without a library") };
        self.enter()?;
        let (kind, compute) = match product.dtype {
            DType::F32 => (cublas::cudaDataType::CUDA_R_32F, cublas::cublasComputeType_t::CUBLAS_COMPUTE_32F),
            DType::F64 => (cublas::cudaDataType::CUDA_R_64F, cublas::cublasComputeType_t::CUBLAS_COMPUTE_64F),
            DType::F16 => (cublas::cudaDataType::CUDA_R_16F, cublas::cublasComputeType_t::CUBLAS_COMPUTE_32F),
            DType::BF16 => (cublas::cudaDataType::CUDA_R_16BF, cublas::cublasComputeType_t::CUBLAS_COMPUTE_32F),
            DType::I64 | DType::Bool | DType::I32 | DType::U8 => {
                unreachable!("products of {} have kernels of their own", product.dtype)
            }
        };
        let direction = |matrix: &Matrix| match matrix.transposed {
            true => cublas::cublasOperation_t::CUBLAS_OP_T,
            false => cublas::cublasOperation_t::CUBLAS_OP_N,
        };
        let number = |value: f64| {
            // Scalars are of the compute type.
            if product.dtype.compute_type() == DType::F32 {
                [(value as f32).to_bits().into(), 0]
            } else {
                [value.to_bits(), 0]
            }
        };
        let [n, m, k] = product.sizes.map(|size| size as i32);
        let alpha = number(product.coefficient);
        if product.is_triangle {
            return triangle(products, product, places, alpha);
        }
        for (offsets, adds) in product.calls.iter().filter(|_| product.batch == 1) {
            let beta = number(if *adds { 1.0 } else { 0.0 });
            let place = |k: usize| places[k].wrapping_add_signed((offsets[k] * product.dtype.bytes() as isize) as i64);
            // SAFETY: the plan's addresses hold what the verified program accesses; both scalars are host numbers of the type.
            let status = unsafe {
                cublas::cublasGemmEx(
                    products.handle.0.cast(),
                    direction(&product.x),
                    direction(&product.y),
                    n,
                    m,
                    k,
                    alpha.as_ptr().cast(),
                    place(0) as *const c_void,
                    kind,
                    product.x.leading as i32,
                    place(1) as *const c_void,
                    kind,
                    product.y.leading as i32,
                    beta.as_ptr().cast(),
                    place(2) as *mut c_void,
                    kind,
                    product.result.leading as i32,
                    compute,
                    cublas::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
                )
            };
            status.result().map_err(|error| format!("a product of matrices failed: {error:?}"))?;
        }
        for (offsets, adds) in product.calls.iter().filter(|_| product.batch != 1) {
            let beta = number(if *adds { 1.0 } else { 0.0 });
            let place = |k: usize| places[k].wrapping_add_signed((offsets[k] * product.dtype.bytes() as isize) as i64);
            // SAFETY: the plan's addresses hold what the verified program accesses; both scalars are host numbers of the type.
            let status = unsafe {
                cublas::cublasGemmStridedBatchedEx(
                    products.handle.0.cast(),
                    direction(&product.x),
                    direction(&product.y),
                    n,
                    m,
                    k,
                    alpha.as_ptr().cast(),
                    place(0) as *const c_void,
                    kind,
                    product.x.leading as i32,
                    product.x.apart as i64,
                    place(1) as *const c_void,
                    kind,
                    product.y.leading as i32,
                    product.y.apart as i64,
                    beta.as_ptr().cast(),
                    place(2) as *mut c_void,
                    kind,
                    product.result.leading as i32,
                    product.result.apart as i64,
                    product.batch as i32,
                    compute,
                    cublas::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
                )
            };
            status.result().map_err(|error| format!("a product of matrices failed: {error:?}"))?;
        }
        Ok(())
    }

    fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn enter_lane(&self, lane: usize) -> Result<(), String> {
        assert!(lane < self.lanes.len(), "lane {lane} of {}", self.lanes.len());
        self.lane.store(lane, Ordering::Relaxed);
        Ok(())
    }

    fn mark(&self) -> Result<Mark, String> {
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        let event = driver::event::create(flags).map_err(|error| error.to_string())?;
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).push(Handle(event.cast()));
        // SAFETY: the event was just created, and is destroyed when the recording has ended; the stream lives as long as the
        // process.
        unsafe { driver::event::record(event, self.stream()) }.map_err(|error| error.to_string())?;
        Ok(Mark(event as u64))
    }

    fn wait_for(&self, mark: &Mark) -> Result<(), String> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: events live until the recording has ended, and marks are made and used within one.
        unsafe { driver::stream::wait_event(self.stream(), mark.0 as sys::CUevent, flags) }
            .map_err(|error| error.to_string())
    }

    fn groups(&self) -> u32 {
        GROUPS
    }

    fn record(&self) -> Result<bool, String> {
        self.enter()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives as long as the process, and it is this thread's turn.
        unsafe { driver::stream::begin_capture(self.stream(), mode) }.map_err(|error| error.to_string())?;
        Ok(true)
    }

    fn recorded(&self) -> Result<Arc<dyn Recording>, String> {
        // SAFETY: a recording was begun on this stream.
        let graph = unsafe { driver::stream::end_capture(self.stream()) }.map_err(|error| error.to_string());
        for event in self.marks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: the event was created for this recording, which has ended.
            let _ = unsafe { driver::event::destroy(event.0.cast()) };
        }
        let graph = graph?;
        // SAFETY: the graph was just recorded.
        let instance = unsafe { driver::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) };
        let instance = instance.map_err(|error| error.to_string())?;
        let (graph, instance) = (Handle(graph.cast()), Handle(instance.cast()));
        Ok(Arc::new(Graph { context: self.context, stream: self.lanes[0].stream, graph, instance }))
    }

    fn exclusive(&self) -> Option<Turn<'_>> {
        let guard = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current().id());
        Some(Turn { owner: &self.owner, _guard: guard })
    }

    fn load(&self, module: &Module) -> Result<Arc<dyn Loaded>, String> {
        let texts: Vec<String> = (0..module.len()).map(|number| module.cuda(number)).collect();
        let functions: Mutex<Vec<Result<Handle, String>>> = Mutex::new(vec![Err(String::new()); texts.len()]);
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(text) = texts.get(number) else { return };
                let function = self.function(text);
                functions.lock().unwrap_or_else(PoisonError::into_inner)[number] = function;
            }
        };
        let threads = texts.len().min(COMPILERS).min(std::thread::available_parallelism().map_or(1, usize::from));
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let functions = functions.into_inner().unwrap_or_else(PoisonError::into_inner);
        let functions = functions.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(Functions {
            context: self.context,
            lanes: Arc::clone(&self.lanes),
            lane: Arc::clone(&self.lane),
            functions,
        }))
    }
}

/// The kernels of a program.
struct Functions {
    context: Handle,
    lanes: Arc<[Lane]>,
    lane: Arc<AtomicUsize>,
    functions: Vec<Handle>,
}

impl Loaded for Functions {
    fn launch(&self, kernel: usize, [x, y, z]: [u32; 3], threads: u32, arguments: &[Address]) -> Result<(), String> {
        let mut pointers: smallvec::SmallVec<[*mut c_void; 16]> =
            arguments.iter().map(|address| std::ptr::from_ref(address).cast_mut().cast()).collect();
        // SAFETY: the context is kept for as long as the process lives; the kernel takes as many addresses as there are, of
        // memory that holds what the verified program accesses.
        unsafe {
            driver::ctx::set_current(self.context.0.cast()).map_err(|error| error.to_string())?;
            let stream = self.lanes[self.lane.load(Ordering::Relaxed)].stream.0.cast();
            let function = self.functions[kernel].0.cast();
            driver::launch_kernel(function, (x, y, z), (threads, 1, 1), 0, stream, &mut pointers)
        }
        .map_err(|error| error.to_string())
    }
}
