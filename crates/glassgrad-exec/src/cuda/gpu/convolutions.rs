//! Convolutions by cuDNN: an operation graph of one convolution, the engines that its heuristics name, and the choice among those whose results do
//! not depend on timing, made once per shape and stored on disk.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cudnn::sys as cudnn;
use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::driver::{result as driver, sys};

use super::super::convolution::{Convolution, Direction, Images};
use super::super::device::Address;
use super::{Handle, cache};
use crate::dtype::DType;

/// The workspace of each stream.
const WORKSPACE: usize = 64 << 20;

/// The engines that are measured.
const CANDIDATES: usize = 16;

/// The bytes that operands are aligned to.
const ALIGNMENT: i64 = 16;

/// The names of images, kernel and outputs in an operation graph.
const NAMES: [i64; 3] = [1, 2, 3];

/// The numerical notes of engines that are left out: results that depend on timing, sums in fewer bits than 32, and transforms of the operands
/// whose errors grow with their size.
const LEFT_OUT: [u32; 7] = [
    cudnn::cudnnBackendNumericalNote_t::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC as u32,
    cudnn::cudnnBackendNumericalNote_t::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION as u32,
    cudnn::cudnnBackendNumericalNote_t::CUDNN_NUMERICAL_NOTE_FFT as u32,
    cudnn::cudnnBackendNumericalNote_t::CUDNN_NUMERICAL_NOTE_WINOGRAD as u32,
    cudnn::cudnnBackendNumericalNote_t::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 as u32,
    cudnn::cudnnBackendNumericalNote_t::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 as u32,
    cudnn::cudnnBackendNumericalNote_t::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 as u32,
];

/// The library, with a workspace for each stream.
pub(super) struct Convolutions {
    handle: Handle,
    workspaces: Vec<Address>,
    /// The device and the library version, which the choice of an engine depends on beside the convolution.
    environment: String,
    /// The prepared convolutions, or none where there is no engine. Choices are made once for each, so that a program gives the same bits in every
    /// run.
    plans: Mutex<HashMap<String, Option<Arc<Plan>>>>,
}

fn failure(status: impl std::fmt::Debug) -> String {
    format!("a convolution failed: {status:?}")
}

/// A descriptor of the library, destroyed with this value.
struct Descriptor(cudnn::cudnnBackendDescriptor_t);

// SAFETY: descriptors are written only before they are shared; the library reads them from any thread.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor was created with this, and nothing uses it any more.
        let _ = unsafe { cudnn::cudnnBackendDestroyDescriptor(self.0) };
    }
}

impl Descriptor {
    fn new(kind: Kind) -> Result<Descriptor, String> {
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: the function writes one handle.
        unsafe { cudnn::cudnnBackendCreateDescriptor(kind, &raw mut descriptor) }.result().map_err(failure)?;
        Ok(Descriptor(descriptor))
    }

    /// Sets an attribute, of a type as large as the elements.
    fn set<T>(self, name: Name, kind: Type, elements: &[T]) -> Result<Descriptor, String> {
        // SAFETY: there are as many elements as are named, each as large as the type of the attribute.
        unsafe { cudnn::cudnnBackendSetAttribute(self.0, name, kind, elements.len() as i64, elements.as_ptr().cast()) }
            .result()
            .map_err(failure)?;
        Ok(self)
    }

    fn finished(self) -> Result<Descriptor, String> {
        // SAFETY: the descriptor exists.
        unsafe { cudnn::cudnnBackendFinalize(self.0) }.result().map_err(failure)?;
        Ok(self)
    }

    /// Reads an attribute into elements; returns how many there are.
    fn get<T>(&self, name: Name, kind: Type, elements: &mut [T]) -> Result<usize, String> {
        let mut count = 0;
        // SAFETY: the function writes at most as many elements as there are, each as large as the type of the attribute.
        unsafe {
            let (most, to) = (elements.len() as i64, elements.as_mut_ptr().cast());
            cudnn::cudnnBackendGetAttribute(self.0, name, kind, most, &raw mut count, to)
        }
        .result()
        .map_err(failure)?;
        Ok((count.max(0) as usize).min(elements.len()))
    }
}

fn data_type(dtype: DType) -> cudnn::cudnnDataType_t {
    match dtype {
        DType::F16 => cudnn::cudnnDataType_t::CUDNN_DATA_HALF,
        DType::BF16 => cudnn::cudnnDataType_t::CUDNN_DATA_BFLOAT16,
        DType::F32 => cudnn::cudnnDataType_t::CUDNN_DATA_FLOAT,
        DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
            unreachable!("convolutions of {dtype} have kernels of their own")
        }
    }
}

/// An array of four axes.
fn tensor(name: i64, dtype: DType, sizes: [usize; 4], strides: [usize; 4]) -> Result<Descriptor, String> {
    let signed = |numbers: [usize; 4]| numbers.map(|number| number as i64);
    Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[data_type(dtype)])?
        .set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Type::CUDNN_TYPE_INT64, &signed(sizes))?
        .set(Name::CUDNN_ATTR_TENSOR_STRIDES, Type::CUDNN_TYPE_INT64, &signed(strides))?
        .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type::CUDNN_TYPE_INT64, &[name])?
        .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Type::CUDNN_TYPE_INT64, &[ALIGNMENT])?
        .finished()
}

/// A convolution with its engine.
struct Plan {
    plan: Descriptor,
    /// What the plan refers to: its configuration, and the operation graph that all candidates share.
    _config: Descriptor,
    _graph: Arc<Vec<Descriptor>>,
}

/// The operation graph of a convolution, and what it refers to; the graph is the last.
fn graph(handle: Handle, convolution: &Convolution) -> Result<Vec<Descriptor>, String> {
    let Convolution { direction, dtype, images, outputs, kernel, stride, dilation, padding, coefficient, .. } =
        convolution;
    let image = |name: i64, images: &Images| tensor(name, *dtype, images.sizes, images.strides);
    let [_, channels, height, width] = *kernel;
    let dense = [height * width * channels, 1, width * channels, channels];
    let arrays = [image(NAMES[0], images)?, tensor(NAMES[1], *dtype, *kernel, dense)?, image(NAMES[2], outputs)?];
    let signed = |numbers: [usize; 2]| numbers.map(|number| number as i64);
    let [before, after] = [0, 1].map(|side| signed(padding.map(|padding| padding[side])));
    let windows = Descriptor::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?
        .set(
            Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
            Type::CUDNN_TYPE_DATA_TYPE,
            &[cudnn::cudnnDataType_t::CUDNN_DATA_FLOAT],
        )?
        .set(
            Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE,
            Type::CUDNN_TYPE_CONVOLUTION_MODE,
            &[cudnn::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION],
        )?
        .set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Type::CUDNN_TYPE_INT64, &[2_i64])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Type::CUDNN_TYPE_INT64, &before)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Type::CUDNN_TYPE_INT64, &after)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, Type::CUDNN_TYPE_INT64, &signed(*dilation))?
        .set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Type::CUDNN_TYPE_INT64, &signed(*stride))?
        .finished()?;
    let (kind, [own, x, w, y, alpha, beta]) = match direction {
        Direction::Outputs => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            ],
        ),
        Direction::Kernel => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            ],
        ),
        Direction::Images => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            ],
        ),
    };
    let part = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
    let operation = Descriptor::new(kind)?
        .set(own, part, &[windows.0])?
        .set(x, part, &[arrays[0].0])?
        .set(w, part, &[arrays[1].0])?
        .set(y, part, &[arrays[2].0])?
        .set(alpha, Type::CUDNN_TYPE_FLOAT, &[*coefficient as f32])?
        .set(beta, Type::CUDNN_TYPE_FLOAT, &[0.0_f32])?
        .finished()?;
    let graph = Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, Type::CUDNN_TYPE_HANDLE, &[handle.0])?
        .set(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, part, &[operation.0])?
        .finished()?;
    Ok(arrays.into_iter().chain([windows, operation, graph]).collect())
}

/// Whether an engine configuration is none of those that are left out.
fn is_exact(config: &Descriptor) -> Result<bool, String> {
    let engine = Descriptor::new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
    let part = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
    config.get(Name::CUDNN_ATTR_ENGINECFG_ENGINE, part, &mut [engine.0])?;
    let mut notes = [u32::MAX; 32];
    let count = engine.get(Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, Type::CUDNN_TYPE_NUMERICAL_NOTE, &mut notes)?;
    Ok(!notes[..count].iter().any(|note| LEFT_OUT.contains(note)))
}

impl Convolutions {
    /// Opens the library, if it is installed.
    pub(super) fn open(streams: usize, device: &str) -> Option<Convolutions> {
        // SAFETY: looking for the library runs none of its code but initialisation, which it allows. The handle and the workspaces are kept for as
        // long as the process lives.
        unsafe {
            if !cudnn::is_culib_present() {
                return None;
            }
            let mut handle = std::ptr::null_mut();
            cudnn::cudnnCreate(&raw mut handle).result().ok()?;
            let workspaces = (0..streams).map(|_| driver::malloc_sync(WORKSPACE).ok()).collect::<Option<Vec<_>>>()?;
            Some(Convolutions {
                handle: Handle(handle.cast()),
                workspaces,
                environment: format!("{device}, cuDNN {}", cudnn::cudnnGetVersion()),
                plans: Mutex::default(),
            })
        }
    }

    /// Everything that the choice of an engine depends on.
    fn key(&self, convolution: &Convolution) -> String {
        let Convolution { direction, dtype, images, outputs, kernel, stride, dilation, padding, coefficient, .. } =
            convolution;
        let own = format!(
            "{direction:?} {dtype} {images:?} {outputs:?} {kernel:?} {stride:?} {dilation:?} {padding:?} {coefficient}"
        );
        format!("{} {own}", self.environment)
    }

    /// Whether the library has an engine for a convolution; if so, it is chosen, by measurements on this stream.
    pub(super) fn prepare(&self, convolution: &Convolution, stream: Handle) -> bool {
        self.plan(convolution, stream).is_some()
    }

    fn plan(&self, convolution: &Convolution, stream: Handle) -> Option<Arc<Plan>> {
        let key = self.key(convolution);
        let plans = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = plans().get(&key) {
            return known.clone();
        }
        let chosen = self.chosen(convolution, &key, stream).ok().flatten().map(Arc::new);
        plans().entry(key).or_insert(chosen).clone()
    }

    /// The fastest engine, or the one that is stored.
    fn chosen(&self, convolution: &Convolution, key: &str, stream: Handle) -> Result<Option<Plan>, String> {
        let hash = cache::hash_of(key);
        let mut plans = self.candidates(convolution)?;
        let stored = cache::load(hash, "engine").and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)));
        if let Some(place) = stored.filter(|place| (*place as usize) < plans.len()) {
            return Ok(Some(plans.swap_remove(place as usize)));
        }
        let bytes = |images: &Images| {
            let reach: usize = images.sizes.iter().zip(images.strides).map(|(size, stride)| (size - 1) * stride).sum();
            (reach + 1) * convolution.dtype.bytes()
        };
        let kernel = convolution.kernel.iter().product::<usize>() * convolution.dtype.bytes();
        let places = [bytes(&convolution.images), kernel, bytes(&convolution.outputs)].map(|bytes| {
            // SAFETY: memory is reserved, not touched.
            unsafe { driver::malloc_sync(bytes) }
        });
        let mut best = (f32::INFINITY, 0);
        // Operands that do not fit a second time are not measured: the heuristic decides.
        if let [Ok(images), Ok(kernel), Ok(outputs)] = places {
            for (place, plan) in plans.iter().enumerate() {
                let time = self.measured(plan, [images, kernel, outputs], stream).unwrap_or(f32::INFINITY);
                if time < best.0 {
                    best = (time, place);
                }
            }
        }
        for place in places.into_iter().flatten() {
            // SAFETY: the memory was reserved above, and the stream is idle.
            let _ = unsafe { driver::free_sync(place) };
        }
        if plans.is_empty() || best.0 == f32::INFINITY {
            return Ok(None);
        }
        cache::store(hash, "engine", &(best.1 as u32).to_le_bytes());
        Ok(Some(plans.swap_remove(best.1)))
    }

    /// The plans of the engines that the heuristics name, the best first, that are not left out and whose workspace fits.
    fn candidates(&self, convolution: &Convolution) -> Result<Vec<Plan>, String> {
        let mut plans = Vec::new();
        for mode in
            [cudnn::cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_A, cudnn::cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_FALLBACK]
        {
            let parts = Arc::new(graph(self.handle, convolution)?);
            let Some(operation) = parts.last() else { unreachable!("a graph is its last part") };
            let part = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
            let heuristic = Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
                .set(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, part, &[operation.0])?
                .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, &[mode])?
                .finished();
            let Ok(heuristic) = heuristic else { continue };
            let configs = (0..CANDIDATES)
                .map(|_| Descriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR))
                .collect::<Result<Vec<_>, _>>()?;
            let mut raw: Vec<_> = configs.iter().map(|config| config.0).collect();
            let count = heuristic.get(Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, part, &mut raw).unwrap_or(0);
            for config in configs.into_iter().take(count) {
                if is_exact(&config).unwrap_or(false)
                    && let Ok(plan) = self.planned(&config)
                {
                    plans.push(Plan { plan, _config: config, _graph: Arc::clone(&parts) });
                }
            }
            if !plans.is_empty() {
                break;
            }
        }
        Ok(plans)
    }

    fn planned(&self, config: &Descriptor) -> Result<Descriptor, String> {
        let plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE, &[self.handle.0])?
            .set(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &[config.0])?
            .finished()?;
        let mut bytes = [0_i64];
        plan.get(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, Type::CUDNN_TYPE_INT64, &mut bytes)?;
        match usize::try_from(bytes[0]) {
            Ok(bytes) if bytes <= WORKSPACE => Ok(plan),
            _ => Err(format!("a convolution needs {} bytes of workspace", bytes[0])),
        }
    }

    /// The milliseconds of a plan.
    fn measured(&self, plan: &Plan, places: [Address; 3], stream: Handle) -> Result<f32, String> {
        let text = |error: driver::DriverError| error.to_string();
        let raw: sys::CUstream = stream.0.cast();
        self.start(plan, places, stream, 0)?;
        // SAFETY: the stream belongs to this thread's turn and lives as long as the process; events are destroyed when it is idle.
        unsafe {
            let event = || driver::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(text);
            let (begin, end) = (event()?, event()?);
            let run = || -> Result<f32, String> {
                driver::event::record(begin, raw).map_err(text)?;
                (0..REPETITIONS).try_for_each(|_| self.start(plan, places, stream, 0))?;
                driver::event::record(end, raw).map_err(text)?;
                driver::stream::synchronize(raw).map_err(text)?;
                driver::event::elapsed(begin, end).map_err(text)
            };
            let least = (0..3).map(|_| run()).try_fold(f32::INFINITY, |least, time| time.map(|time| least.min(time)));
            let _ = driver::stream::synchronize(raw);
            let _ = (driver::event::destroy(begin), driver::event::destroy(end));
            least
        }
    }

    /// Starts a convolution on a stream, whose workspace has this number.
    pub(super) fn convolve(
        &self,
        convolution: &Convolution,
        places: [Address; 3],
        (stream, lane): (Handle, usize),
    ) -> Result<(), String> {
        let Some(plan) = self.plan(convolution, stream) else { unreachable!("a convolution without an engine") };
        let bytes = convolution.dtype.bytes() as isize;
        let own = std::array::from_fn(|k| places[k].wrapping_add_signed((convolution.offsets[k] * bytes) as i64));
        self.start(&plan, own, stream, lane)
    }

    fn start(&self, plan: &Plan, places: [Address; 3], stream: Handle, lane: usize) -> Result<(), String> {
        let pointers = places.map(|place| place as *mut c_void);
        let pack = Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Type::CUDNN_TYPE_INT64, &NAMES)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR, &pointers)?
            .set(
                Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                Type::CUDNN_TYPE_VOID_PTR,
                &[self.workspaces[lane] as *mut c_void],
            )?
            .finished()?;
        // SAFETY: the addresses hold what the descriptors of the plan describe; the workspace is that of the stream, and it is this thread's turn.
        unsafe {
            cudnn::cudnnSetStream(self.handle.0.cast(), stream.0.cast()).result().map_err(failure)?;
            cudnn::cudnnBackendExecute(self.handle.0.cast(), plan.plan.0, pack.0).result().map_err(failure)
        }
    }
}

/// How often a convolution runs in a measurement.
const REPETITIONS: usize = 4;
