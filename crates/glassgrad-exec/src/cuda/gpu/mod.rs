//! GPUs by the CUDA driver: memory, copies, streams; `compile` (NVRTC), `products` (cuBLASLt), `convolutions` (cuDNN), `graph` (recordings), `cache` (on
//! disk). The libraries are loaded at run time.
#![allow(unsafe_code)]

mod cache;
mod compile;
mod convolutions;
mod graph;
mod nccl;
mod products;

use std::collections::{BTreeSet, HashMap};
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use cudarc::driver::{result as driver, sys};
use cudarc::nvrtc::sys as nvrtc_sys;

use super::convolution::Convolution;
use super::device::{Address, Device, Loaded, Mark, Recording, TensorCores, Turn};
use super::product::Product;
use super::source::{self, Module};
use crate::MatmulPrecision;
use crate::error::Error;

pub(super) use self::compile::compiled;
use self::convolutions::Convolutions;
use self::graph::Graph;
pub use self::nccl::NcclCommunicator;
use self::products::{Algorithms, Products};

/// The groups of threads in a block of a chain: as many as a block can have.
const GROUPS: u32 = 4;

/// Smaller contractions do not fill the tiles of tensor cores.
const LEAST_ON_TENSOR_CORES: usize = 1 << 20;

/// Products of fewer multiplications are faster in kernels of our own where there are clusters: measured on an H200 with layers of a
/// network at batch 64.
const OWN_MULTIPLICATIONS: usize = 1 << 27;

/// The same where the library multiplies on tensor cores.
const OWN_MULTIPLICATIONS_BESIDE_TF32: usize = 1 << 22;

/// The threads that compile kernels at a time, at most.
const COMPILERS: usize = 8;

/// A GPU of this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its number, as in [`Target::Cuda`](crate::Target::Cuda).
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
pub(super) fn open(number: usize, precision: MatmulPrecision) -> Result<Arc<dyn Device>, Error> {
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
    // SAFETY: the device is one that the driver has just named.
    let optional = unsafe {
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        driver::device::get_attribute(device, attribute)
    };
    let optional = optional.map_err(failed)?.max(0) as usize;
    let convolutions = Convolutions::open(LANES, &gpu.to_string());
    let mut lanes = Vec::with_capacity(LANES);
    for _ in 0..LANES {
        let stream = driver::stream::create(driver::stream::StreamKind::NonBlocking).map_err(failed)?;
        lanes.push(Lane {
            stream: Handle(stream.cast()),
            products: Products::open(stream, &gpu.to_string(), precision),
        });
    }
    Ok(Arc::new(OpenGpu {
        gpu,
        precision,
        context: Handle(context.cast()),
        lanes: lanes.into(),
        convolutions,
        shared_memory: optional.saturating_sub(source::SHARED),
        lane: Arc::default(),
        algorithms: Mutex::default(),
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
    precision: MatmulPrecision,
    context: Handle,
    lanes: Arc<[Lane]>,
    /// The library of convolutions, if it is installed.
    convolutions: Option<Convolutions>,
    /// The dynamic shared memory of a block, in bytes.
    shared_memory: usize,
    /// The lane that work is started on.
    lane: Arc<AtomicUsize>,
    /// The prepared matrix products.
    algorithms: Algorithms,
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

    /// A kernel with this much dynamic shared memory, loaded once.
    fn function(&self, text: &str, arena: usize) -> Result<Handle, String> {
        let key = cache::hash_of(text);
        let known = || self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = known().get(&key) {
            return Ok(*function);
        }
        let code = compile::machine_code(text, self.gpu.capability)?;
        self.enter()?;
        // SAFETY: the code is a whole cubin, as NVRTC made it or as its checksum says. Modules live as long as the process.
        let module = unsafe { driver::module::load_data(code.as_ptr().cast()) }.map_err(|error| error.to_string())?;
        // SAFETY: the module was just loaded, and has a function of this name.
        let function = unsafe { driver::module::get_function(module, c"kernel".to_owned()) };
        let function = function.map_err(|error| error.to_string())?;
        if arena > 0 {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function was just loaded; the device allows a block this much.
            unsafe { driver::function::set_function_attribute(function, attribute, arena as i32) }
                .map_err(|error| error.to_string())?;
        }
        let function = Handle(function.cast());
        known().insert(key, function);
        Ok(function)
    }
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
            format!("out of memory on {}: {size} bytes are needed, and {left} are free ({error})", self.gpu)
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
        let _turn = self.exclusive();
        self.enter().is_ok()
            && self.lanes[0].products.as_ref().is_some_and(|library| library.prepare(&self.algorithms, product))
    }

    fn multiply(&self, product: &Product, places: [Address; 3]) -> Result<(), String> {
        let Some(library) = &self.lanes[self.lane.load(Ordering::Relaxed)].products else {
            unreachable!("a product without a library")
        };
        self.enter()?;
        library.multiply(&self.algorithms, product, places)
    }

    fn convolves(&self, convolution: &Convolution) -> bool {
        // Products of 32-bit numbers in full precision have kernels of our own.
        let has_type = convolution.dtype.is_storage_only() || self.precision == MatmulPrecision::Tf32;
        let _turn = self.exclusive();
        let library = self.convolutions.as_ref().filter(|_| has_type && self.enter().is_ok());
        library.is_some_and(|library| library.prepare(convolution, self.lanes[0].stream))
    }

    fn convolve(&self, convolution: &Convolution, places: [Address; 3]) -> Result<(), String> {
        let Some(library) = &self.convolutions else { unreachable!("a convolution without a library") };
        self.enter()?;
        let lane = self.lane.load(Ordering::Relaxed);
        library.convolve(convolution, places, (self.lanes[lane].stream, lane))
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

    fn time(&self) -> Result<Option<Mark>, String> {
        self.enter()?;
        let text = |error: driver::DriverError| error.to_string();
        let event = driver::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(text)?;
        // SAFETY: the event was just created; the stream lives as long as the process.
        unsafe { driver::event::record(event, self.stream()) }.map_err(text)?;
        Ok(Some(Mark(event as u64)))
    }

    fn seconds_between(&self, begin: Mark, end: Mark) -> Result<f64, String> {
        self.finish()?;
        let [begin, end] = [begin, end].map(|mark| mark.0 as sys::CUevent);
        // SAFETY: both events were created by `time`, are complete, and nothing else holds them.
        unsafe {
            let milliseconds = driver::event::elapsed(begin, end);
            let _ = (driver::event::destroy(begin), driver::event::destroy(end));
            milliseconds.map(|milliseconds| f64::from(milliseconds) * 1e-3).map_err(|error| error.to_string())
        }
    }

    fn groups(&self) -> u32 {
        GROUPS
    }

    fn clusters(&self) -> bool {
        self.gpu.capability.0 >= 9
    }

    fn own_multiplications(&self) -> usize {
        match self.precision {
            _ if !self.clusters() => 0,
            MatmulPrecision::Full => OWN_MULTIPLICATIONS,
            MatmulPrecision::Tf32 => OWN_MULTIPLICATIONS_BESIDE_TF32,
        }
    }

    fn tensor_cores(&self) -> Option<TensorCores> {
        let tf32 = self.precision == MatmulPrecision::Tf32;
        let shared_memory = self.shared_memory + source::SHARED;
        let cores = TensorCores { tf32, least_multiplications: LEAST_ON_TENSOR_CORES, shared_memory };
        (self.gpu.capability.0 >= 8).then_some(cores)
    }

    fn shared_memory(&self) -> usize {
        self.shared_memory
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
        let functions: Mutex<Vec<Result<(Handle, u32), String>>> = Mutex::new(vec![Err(String::new()); texts.len()]);
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(text) = texts.get(number) else { return };
                let arena = module.kernel(number).arena;
                let function = self.function(text, arena).map(|function| (function, arena as u32));
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
    /// Each with the bytes of its dynamic shared memory.
    functions: Vec<(Handle, u32)>,
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
            let (function, arena) = self.functions[kernel];
            driver::launch_kernel(function.0.cast(), (x, y, z), (threads, 1, 1), arena, stream, &mut pointers)
        }
        .map_err(|error| error.to_string())
    }
}
