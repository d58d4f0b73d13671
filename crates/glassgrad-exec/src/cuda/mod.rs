//! The CUDA executor: steps of a program become kernels in CUDA C++, compiled at run time.
//!
//! `source` writes the kernels, `plan` decides what is launched for each step, `run` launches it. A `Device` is a GPU
//! (`gpu`), or the host itself (`emulation`), which compiles the same text behind a shim: so all that is above the driver is
//! tested on machines without a GPU.

mod bytes;
mod chain;
mod convolution;
mod device;
mod emulation;
mod gpu;
mod lanes;
mod plan;
mod product;
mod run;
mod source;
mod split;
mod texts;

use std::any::Any;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::bytes::bytes_of_buffer;
use self::device::{Address, Allocation, Device, Loaded, Recording};
use self::plan::{Actions, Planner};
use self::run::{Machine, REPORT};
use super::{
    Executable, Executor, Input, MatmulPrecision, Output, Results, Target, Times, bind_result, check_bindings, host,
};
use crate::array::{Array, Buffer, DeviceMemory};
use crate::capabilities::{Capabilities, EpilogueLimits};
use crate::dtype::DType;
use crate::error::Error;
use crate::program::FusedKernel;
use crate::program::{Call, CallKind, Memory, Program, Signature, bytes_of};

pub use self::gpu::{Gpu, NcclCommunicator, gpus};
pub use self::texts::{TextOptions, compile, has_compiler, kernel_texts};

/// What programs for every device of this target may contain.
pub(crate) static CAPABILITIES: Capabilities = EVERY_DEVICE;

/// What programs for devices with tensor cores may contain besides: attention as a kernel and convolutions channels-last, for factors of 16
/// bits, and of 32 bits in TF32. Devices differ in shared memory.
static WITH_TENSOR_CORES: [[Capabilities; 2]; 2] = [
    [with_tensor_cores::<false, { SHARED_LIMITS[0] }>(), with_tensor_cores::<true, { SHARED_LIMITS[0] }>()],
    [with_tensor_cores::<false, { SHARED_LIMITS[1] }>(), with_tensor_cores::<true, { SHARED_LIMITS[1] }>()],
];

const fn with_tensor_cores<const TF32: bool, const SHARED: usize>() -> Capabilities {
    // Tensor cores read the channels of a place as vectors.
    let channels_last: &[DType] =
        if TF32 { &[DType::F16, DType::BF16, DType::F32] } else { &[DType::F16, DType::BF16] };
    Capabilities { fused: has_attention::<TF32, SHARED>, channels_last, ..EVERY_DEVICE }
}

/// The bytes of shared memory of a block on GPUs with tensor cores for these factors: the least, and on those of data centers.
const SHARED_LIMITS: [usize; 2] = [99 << 10, 160 << 10];

fn has_attention<const TF32: bool, const SHARED: usize>(kernel: &FusedKernel, inputs: &[Signature]) -> bool {
    match kernel {
        FusedKernel::Attention(kernel) | FusedKernel::AttentionPullback(kernel) => {
            source::attention::is_supported(kernel, inputs, TF32, SHARED)
        }
        other => has_kernel(other, inputs),
    }
}

/// Whether every device has a kernel for a region.
fn has_kernel(kernel: &FusedKernel, inputs: &[Signature]) -> bool {
    match kernel {
        FusedKernel::Attention(_) | FusedKernel::AttentionPullback(_) => false,
        FusedKernel::CrossEntropy(_) | FusedKernel::CrossEntropyPullback(_) => {
            source::cross_entropy::is_supported(inputs)
        }
        FusedKernel::BatchNorm(_) | FusedKernel::BatchNormPullback(_) => source::batch_norm::is_supported(inputs),
        FusedKernel::Cumulative(_) | FusedKernel::CumulativePullback(_) | FusedKernel::TopK(_) => false,
    }
}

const EVERY_DEVICE: Capabilities = Capabilities {
    dtypes: &[DType::F32, DType::F64, DType::I64, DType::Bool, DType::F16, DType::BF16, DType::I32, DType::U8],
    axes: usize::MAX,
    instructions: 96,
    streams: 24,
    joined_streams: 24,
    row_elements: source::rows::ROW_ELEMENTS,
    channels_last: &[],
    stored_scatters: true,
    tiles: false,
    unrolled_windows: 0,
    epilogue: Some(EpilogueLimits { bytes: 0, multiplications: 0, deep: true, separate_reductions: true }),
    accumulation: false,
    symmetric: true,
    products: &[DType::F16, DType::BF16],
    wide_products: false,
    stored_multiplications: 0,
    matrix_vector: false,
    fused: has_kernel,
    aligned_operands: true,
    native: |kind| !matches!(kind, CallKind::Host(_) | CallKind::Collective(_)),
};

/// The executor for one device.
pub(crate) struct Cuda {
    target: Target,
    device: Arc<dyn Device>,
}

impl Cuda {
    /// The executor for the GPU of this number.
    pub(crate) fn gpu(number: usize, precision: MatmulPrecision) -> Result<Cuda, Error> {
        Ok(Cuda { target: Target::Cuda(number), device: gpu::open(number, precision)? })
    }

    /// The executor that runs the kernels of a GPU on the host.
    pub(crate) fn emulated(precision: MatmulPrecision) -> Result<Cuda, Error> {
        Ok(Cuda { target: Target::EmulatedCuda, device: emulation::open(precision)? })
    }
}

/// Elements in the memory of a device.
#[derive(Debug)]
struct CudaMemory {
    dtype: DType,
    length: usize,
    allocation: Arc<Allocation>,
    /// The least and the largest of integers that came from the host.
    range: Option<[i64; 2]>,
}

/// The least and the largest of integers, if there are any.
fn range_of(buffer: &Buffer) -> Option<[i64; 2]> {
    match buffer {
        Buffer::I64(integers) => Some([*integers.iter().min()?, *integers.iter().max()?]),
        Buffer::F32(_)
        | Buffer::F64(_)
        | Buffer::Bool(_)
        | Buffer::F16(_)
        | Buffer::BF16(_)
        | Buffer::I32(_)
        | Buffer::U8(_) => None,
    }
}

impl DeviceMemory for CudaMemory {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn len(&self) -> usize {
        self.length
    }

    fn download(&self) -> Result<Buffer, String> {
        Ok(Buffer::from_bytes(self.dtype, &self.allocation.download()?))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn failed(message: String) -> Error {
    Error::new("cuda", message)
}

fn on_device((shape, dtype): &Signature, allocation: Arc<Allocation>) -> Array {
    Array::on_device(
        shape.clone(),
        Box::new(CudaMemory { dtype: *dtype, length: shape.elements(), allocation, range: None }),
    )
}

/// The memory of an array on a device, its own or a copy, and the range of integers that came from the host.
fn resident(device: &Arc<dyn Device>, array: &Array) -> Result<(Arc<Allocation>, Option<[i64; 2]>), Error> {
    let own = array.device().and_then(|memory| memory.as_any().downcast_ref::<CudaMemory>());
    match own.filter(|memory| memory.allocation.is_on(device)) {
        Some(memory) => Ok((Arc::clone(&memory.allocation), memory.range)),
        None => {
            let buffer = array.download().map_err(failed)?;
            let allocation = Arc::new(Allocation::of(device, &bytes_of_buffer(buffer)).map_err(failed)?);
            let (dtype, length, range) = (array.dtype(), buffer.len(), range_of(buffer));
            array.remember(Box::new(CudaMemory { dtype, length, allocation: Arc::clone(&allocation), range }));
            Ok((allocation, range))
        }
    }
}

impl Executor for Cuda {
    fn target(&self) -> Target {
        self.target
    }

    fn capabilities(&self) -> &'static Capabilities {
        match self.device.tensor_cores() {
            Some(cores) => {
                &WITH_TENSOR_CORES[usize::from(cores.shared_memory >= SHARED_LIMITS[1])][usize::from(cores.tf32)]
            }
            None => &CAPABILITIES,
        }
    }

    fn prepare(&self, program: Arc<Program>) -> Result<Arc<dyn Executable>, Error> {
        let multiplies = |product: &product::Product| self.device.multiplies(product);
        let convolves = |convolution: &convolution::Convolution| self.device.convolves(convolution);
        let mut planner = Planner::new(&multiplies, self.device.clusters());
        planner.convolves = &convolves;
        planner.own_multiplications = self.device.own_multiplications();
        planner.tensor_cores = self.device.tensor_cores();
        let mut actions = planner.program(&program)?;
        let block = (self.device.groups(), self.device.shared_memory());
        chain::chain(&mut planner, &program, &mut actions, block);
        let Planner { module, scratch, unread, constants, reports, .. } = planner;
        let kernels = self.device.load(&module).map_err(failed)?;
        let constants = constants
            .iter()
            .map(|constant| Ok(resident(&self.device, constant)?.0))
            .collect::<Result<Vec<_>, Error>>()?;
        let device = Arc::clone(&self.device);
        let recordings = Mutex::default();
        Ok(Arc::new(Prepared { device, program, actions, kernels, constants, scratch, unread, reports, recordings }))
    }

    fn upload(&self, array: &Array) -> Result<Array, Error> {
        let own = array.device().and_then(|memory| memory.as_any().downcast_ref::<CudaMemory>());
        if own.is_some_and(|memory| memory.allocation.is_on(&self.device)) {
            return Ok(array.clone());
        }
        let bytes = bytes_of_buffer(array.download().map_err(failed)?);
        let allocation = Arc::new(Allocation::of(&self.device, &bytes).map_err(failed)?);
        Ok(on_device(&(array.shape().clone(), array.dtype()), allocation))
    }

    fn synchronise(&self) -> Result<(), Error> {
        self.device.synchronise().map_err(failed)
    }
}

/// A program with its kernels.
struct Prepared {
    device: Arc<dyn Device>,
    program: Arc<Program>,
    actions: Actions,
    kernels: Arc<dyn Loaded>,
    constants: Vec<Arc<Allocation>>,
    scratch: usize,
    unread: usize,
    /// The calls that may find an index out of bounds, and whether they are of the program itself.
    reports: Vec<(Call, bool)>,
    recordings: Mutex<Recordings>,
}

/// Recordings of whole runs by the addresses that they use: in a training loop memory is reused, so that the same ones come
/// again and again.
type Recordings = Vec<(Vec<Address>, Option<Arc<dyn Recording>>)>;

/// How many recordings a plan keeps.
const RECORDINGS: usize = 16;

impl Prepared {
    /// Runs the program with memory for its inputs and results.
    fn run(
        &self,
        inputs: &[Address],
        results: &[Address],
        origins: &[&'static Location<'static>],
        is_timed: bool,
        is_checked: bool,
    ) -> Result<Times, Error> {
        let allocate = |bytes: usize| Allocation::new(&self.device, bytes).map_err(failed);
        let (arena, scratch, unread) = (allocate(self.program.arena)?, allocate(self.scratch)?, allocate(self.unread)?);
        let reports = allocate(self.reports.len() * REPORT)?;
        let constants: Vec<Address> = self.constants.iter().map(|constant| constant.address).collect();
        let machine = Machine {
            device: &*self.device,
            kernels: &*self.kernels,
            constants: &constants,
            scratch: scratch.address,
            unread: unread.address,
            reports: reports.address,
            origins,
            is_timed,
            report_bytes: self.reports.len() * REPORT,
        };
        let own = [arena.address, scratch.address, unread.address, reports.address];
        let addresses = [inputs, results, &own].concat();
        let exclusive = self.device.exclusive();
        let times = match self.recording(&addresses).filter(|_| !is_timed) {
            Some(recording) => {
                recording.replay().map_err(failed)?;
                Times::new()
            }
            None => {
                let is_recorded =
                    !is_timed && self.comes_again(addresses.clone()) && self.device.record().map_err(failed)?;
                let memory = (inputs, results, arena.address);
                if is_recorded {
                    let started = machine.begin_on_lanes(&self.program, &self.actions, memory);
                    // A recording ends also if the run failed.
                    let recording = self.device.recorded().map_err(failed);
                    started?;
                    let recording = recording?;
                    recording.replay().map_err(failed)?;
                    self.keep(&addresses, recording);
                    Times::new()
                } else {
                    machine.begin(&self.program, &self.actions, memory)?
                }
            }
        };
        drop(exclusive);
        if is_checked {
            self.check(&reports, origins)?;
        }
        Ok(times)
    }

    fn recordings(&self) -> MutexGuard<'_, Recordings> {
        self.recordings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recording for some addresses.
    fn recording(&self, addresses: &[Address]) -> Option<Arc<dyn Recording>> {
        self.recordings().iter().find(|(own, _)| own == addresses).and_then(|(_, recording)| recording.clone())
    }

    /// Whether a run with these addresses was there before and can be recorded.
    fn comes_again(&self, addresses: Vec<Address>) -> bool {
        if !self.actions.are_on_device() {
            return false;
        }
        let mut recordings = self.recordings();
        let is_known = recordings.iter().any(|(own, _)| *own == addresses);
        if !is_known {
            if recordings.len() >= RECORDINGS {
                recordings.remove(0);
            }
            recordings.push((addresses, None));
        }
        is_known
    }

    fn keep(&self, addresses: &[Address], recording: Arc<dyn Recording>) {
        if let Some((_, place)) = self.recordings().iter_mut().find(|(own, _)| own == addresses) {
            *place = Some(recording);
        }
    }

    /// Looks whether a call has found an index out of bounds.
    fn check(&self, reports: &Allocation, origins: &[&'static Location<'static>]) -> Result<(), Error> {
        if self.reports.is_empty() {
            return Ok(());
        }
        let bytes = reports.download().map_err(failed)?;
        for ((call, _), report) in self.reports.iter().zip(bytes.chunks_exact(REPORT)) {
            let Buffer::I64(words) = Buffer::from_bytes(DType::I64, report) else {
                unreachable!("a report is two integers");
            };
            if words[0] != 0 {
                return Err(out_of_bounds(call, words[0] as usize - 1, words[1]).at(origins[call.source]));
            }
        }
        Ok(())
    }
}

/// The operand that holds the indices of a call, the least that is allowed, and how many places there are.
fn bounds_of(call: &Call) -> (usize, i64, usize) {
    match &call.kind {
        CallKind::Gather(axis) => (1, -(call.inputs[0].1[*axis] as i64), call.inputs[0].1[*axis]),
        CallKind::ScatterAdd(axis) => (1, -(call.output().1[*axis] as i64), call.output().1[*axis]),
        CallKind::OneHot(_) => (0, 0, call.output().1.last().copied().unwrap_or(1)),
        CallKind::Fused(FusedKernel::CrossEntropy(_)) => (1, 0, call.inputs[0].1.last().copied().unwrap_or(1)),
        other => unreachable!("{} has no indices", other.describe()),
    }
}

/// Whether all indices of a call of the whole program come from an input whose range is known and in bounds.
fn is_in_bounds(call: &(Call, bool), ranges: &[Option<[i64; 2]>]) -> bool {
    let ((call, is_outermost), (operand, least, places)) = (call, bounds_of(&call.0));
    match call.inputs[operand].0.memory {
        Memory::Input(number) if *is_outermost => {
            ranges[number].is_some_and(|[first, last]| first >= least && last < places as i64)
        }
        _ => false,
    }
}

/// The error for an index, or a class, that is out of bounds.
fn out_of_bounds(call: &Call, place: usize, index: i64) -> Error {
    let beyond = |name: &str, axis: usize, size: usize| {
        Error::new(name, format!("index {index} is not on axis {axis}, which has size {size}"))
    };
    match &call.kind {
        CallKind::Gather(axis) => beyond("gather", *axis, call.inputs[0].1[*axis]),
        CallKind::ScatterAdd(axis) => beyond("scatter_add", *axis, call.output().1[*axis]),
        CallKind::OneHot(operation) => {
            host::no_class(operation, index, place, &call.inputs[0].1, call.output().1.last().copied().unwrap_or(1))
        }
        CallKind::Fused(FusedKernel::CrossEntropy(operation)) => {
            let classes = call.inputs[0].1.last().copied().unwrap_or(1);
            host::no_class(operation, index, place, &call.inputs[1].1, classes)
        }
        other => unreachable!("{} reports no indices", other.describe()),
    }
}

impl Executable for Prepared {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn placement(&self, step: usize) -> Option<String> {
        Some(self.actions.described(step))
    }

    fn footprint(&self) -> usize {
        self.program.memory() + self.scratch + self.unread
    }

    fn launch(
        &self,
        inputs: &mut [Input<'_>],
        outputs: &mut [Output<'_>],
        results: &mut Results,
        origins: &[&'static Location<'static>],
    ) -> Result<(), Error> {
        check_bindings(&self.program, inputs, outputs)?;
        let mut given = Vec::with_capacity(inputs.len());
        let mut ranges = Vec::with_capacity(inputs.len());
        for input in inputs.iter() {
            let (memory, range) = match input {
                Input::Read(array, _) => resident(&self.device, array)?,
                Input::Overwrite(array) => resident(&self.device, array)?,
            };
            given.push(memory);
            ranges.push(range);
        }
        // What the host knows to be in bounds need not be waited for.
        let is_checked = !self.reports.iter().all(|call| is_in_bounds(call, &ranges));
        if is_checked || !self.actions.are_on_device() {
            // A run that fails must not have overwritten anything.
            for (memory, input) in given.iter_mut().zip(inputs.iter()) {
                if let Input::Overwrite(_) = input {
                    *memory = Arc::new(memory.duplicate().map_err(failed)?);
                }
            }
        }
        let starts = inputs.iter().map(|input| match input {
            Input::Read(_, start) => *start,
            Input::Overwrite(_) => 0,
        });
        let placed = given.iter().zip(starts).zip(&self.program.inputs);
        let addresses: Vec<Address> =
            placed.map(|((memory, start), (_, dtype))| memory.address + (start * dtype.bytes()) as Address).collect();
        let mut made = Vec::with_capacity(outputs.len());
        for (output, signature) in outputs.iter().zip(&self.program.results) {
            made.push(match output {
                Output::New | Output::Into(_) => {
                    Arc::new(Allocation::new(&self.device, bytes_of(signature)).map_err(failed)?)
                }
                Output::AliasInput(input) => Arc::clone(&given[*input]),
            });
        }
        let places: Vec<Address> = made.iter().map(|memory| memory.address).collect();
        self.run(&addresses, &places, origins, false, is_checked)?;
        for ((output, signature), memory) in outputs.iter_mut().zip(&self.program.results).zip(made) {
            results.push(bind_result(on_device(signature, memory), output, inputs));
        }
        Ok(())
    }

    fn profile(
        &self,
        inputs: &mut [Input<'_>],
        origins: &[&'static Location<'static>],
        duration: Duration,
    ) -> Result<Times, Error> {
        let outputs: Vec<Output<'_>> = self.program.results.iter().map(|_| Output::New).collect();
        check_bindings(&self.program, inputs, &outputs)?;
        let mut given = Vec::new();
        let mut addresses = Vec::new();
        for (input, (_, dtype)) in inputs.iter().zip(&self.program.inputs) {
            let (array, start): (&Array, usize) = match input {
                Input::Read(array, start) => (array, *start),
                Input::Overwrite(array) => (array, 0),
            };
            let (memory, _) = resident(&self.device, array)?;
            addresses.push(memory.address + (start * dtype.bytes()) as Address);
            given.push(memory);
        }
        let made = self.program.results.iter().map(|result| Allocation::new(&self.device, bytes_of(result)));
        let made = made.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let places: Vec<Address> = made.iter().map(|memory| memory.address).collect();
        let started = Instant::now();
        let mut best = self.run(&addresses, &places, origins, true, true)?;
        while started.elapsed() < duration {
            let next = self.run(&addresses, &places, origins, true, true)?;
            for (best, next) in best.iter_mut().zip(next) {
                if next.seconds < best.seconds {
                    *best = next;
                }
            }
        }
        Ok(best)
    }
}
