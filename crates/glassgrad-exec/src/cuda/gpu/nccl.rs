//! Messages between ranks with a GPU each, by NCCL.
//!
//! NCCL moves bytes between the memories of GPUs: by NVLink, PCIe, or the network between machines. It has no launcher of its own, so that
//! ranks find each other through another communicator, which sends them the identifier of the job.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{result as driver, sys};
use cudarc::nccl::{result as nccl, sys as nccl_sys};

use crate::collective::Communicator;
use crate::dtype::DType;
use crate::error::Error;

/// The bytes of the identifier of a job.
const IDENTIFIER: usize = 128;

/// The ranks of a job, each with a GPU, as a communicator: messages go from host memory to the GPU, between GPUs by NCCL, and back.
///
/// Every rank needs a GPU of its own. The library `libnccl` is loaded when the first one is made.
pub struct NcclCommunicator {
    /// What ranks found each other through.
    bootstrap: Arc<dyn Communicator>,
    state: Mutex<State>,
    gpu: usize,
    version: i32,
}

struct State {
    communicator: nccl_sys::ncclComm_t,
    context: sys::CUcontext,
    stream: sys::CUstream,
    /// Memory of the GPU for what is sent and what is received, with its size.
    staging: [(sys::CUdeviceptr, usize); 2],
}

// SAFETY: handles of the driver and of NCCL may be used by any thread, one at a time, which the mutex around this ensures; each call makes
// the context current first.
unsafe impl Send for State {}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::new("nccl", format!("{what}: {error}"))
}

fn by_driver(error: driver::DriverError) -> Error {
    failed("the CUDA driver", &error)
}

fn by_nccl(error: nccl::NcclError) -> Error {
    // SAFETY: the text of a result is a constant of the library.
    let text = unsafe { std::ffi::CStr::from_ptr(nccl_sys::ncclGetErrorString(error.0)) };
    failed("NCCL", &text.to_string_lossy()).help("set NCCL_DEBUG=INFO for what it did before")
}

impl NcclCommunicator {
    /// Joins the ranks of another communicator, of which this one has the GPU of this number. All ranks call it.
    pub fn new(bootstrap: Arc<dyn Communicator>, gpu: usize) -> Result<NcclCommunicator, Error> {
        // SAFETY: looking for libraries runs none of their code but initialisation, which both allow.
        let is_there = unsafe { sys::is_culib_present() && nccl_sys::is_culib_present() };
        let missing = || {
            Error::new("nccl", "the library libnccl is not found")
                .help("install NCCL and the driver of the GPU, and put libnccl.so.2 on the path of the loader; or exchange messages through host memory")
        };
        let ranks = bootstrap.size();
        // Where one rank has no library none waits for it.
        let mut all_have = vec![0; ranks];
        bootstrap.all_gather(&[u8::from(is_there)], &vec![1; ranks], &mut all_have)?;
        if !is_there {
            return Err(missing());
        }
        if let Some(rank) = all_have.iter().position(|has| *has == 0) {
            return Err(Error::new("nccl", format!("rank {rank} has no library libnccl")));
        }
        driver::init().map_err(by_driver)?;
        let device = driver::device::get(gpu as i32).map_err(by_driver)?;
        // SAFETY: the device exists. Its primary context is the one that programs run in.
        let context = unsafe { driver::primary_ctx::retain(device) }.map_err(by_driver)?;
        // SAFETY: the context was just retained, and never is released.
        unsafe { driver::ctx::set_current(context) }.map_err(by_driver)?;
        let stream = driver::stream::create(driver::stream::StreamKind::NonBlocking).map_err(by_driver)?;
        let own = match bootstrap.rank() {
            0 => nccl::get_uniqueid().map_err(by_nccl)?.internal.map(|byte| byte as u8).to_vec(),
            _ => Vec::new(),
        };
        let bytes = (&*bootstrap as &dyn Communicator).broadcast_first(own)?;
        let Ok(bytes) = <[u8; IDENTIFIER]>::try_from(bytes) else {
            return Err(Error::new("nccl", "rank 0 could not begin"));
        };
        let identifier = nccl_sys::ncclUniqueId { internal: bytes.map(|byte| byte as std::ffi::c_char) };
        let mut communicator = std::ptr::null_mut();
        // SAFETY: all ranks call it with the same identifier and number of ranks, and a rank of their own.
        unsafe { nccl::comm_init_rank(&raw mut communicator, ranks as i32, identifier, bootstrap.rank() as i32) }
            .map_err(by_nccl)?;
        let version = nccl::get_nccl_version().map_err(by_nccl)?;
        let state = State { communicator, context, stream, staging: [(0, 0); 2] };
        Ok(NcclCommunicator { bootstrap, state: Mutex::new(state), gpu, version })
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the context was retained when the communicator was made.
        unsafe { driver::ctx::set_current(state.context) }.map_err(by_driver)?;
        Ok(state)
    }
}

/// What a rank does with the message of another: offset and length in bytes.
type Part = (usize, usize);

fn parts(counts: &[usize]) -> impl Iterator<Item = Part> {
    counts.iter().scan(0, |end, count| {
        *end += count;
        Some((*end - count, *count))
    })
}

impl State {
    /// Memory of the GPU for this many bytes.
    fn stage(&mut self, which: usize, bytes: usize) -> Result<sys::CUdeviceptr, Error> {
        let (address, size) = &mut self.staging[which];
        if *size < bytes {
            // SAFETY: the memory is of this communicator alone, and every call waits for its messages.
            unsafe {
                if *size > 0 {
                    driver::free_sync(*address).map_err(by_driver)?;
                    *size = 0;
                }
                let rounded = bytes.next_power_of_two().max(1 << 16);
                *address = driver::malloc_sync(rounded).map_err(by_driver)?;
                *size = rounded;
            }
        }
        Ok(*address)
    }

    /// Copies bytes to the GPU.
    fn upload(&mut self, which: usize, bytes: &[u8]) -> Result<sys::CUdeviceptr, Error> {
        let address = self.stage(which, bytes.len())?;
        // SAFETY: the staging memory has at least as many bytes, and the slice lives until the stream is synchronised.
        unsafe { driver::memcpy_htod_async(address, bytes, self.stream) }.map_err(by_driver)?;
        Ok(address)
    }

    /// Copies bytes from the GPU, when everything before is done.
    fn download(&mut self, from: sys::CUdeviceptr, bytes: &mut [u8]) -> Result<(), Error> {
        // SAFETY: the caller received as many bytes there, and the copy is awaited.
        unsafe {
            driver::memcpy_dtoh_async(bytes, from, self.stream).map_err(by_driver)?;
            driver::stream::synchronize(self.stream).map_err(by_driver)
        }
    }

    /// Sends a part of one buffer to each rank, and receives a part of another from each.
    fn exchange(
        &mut self,
        send: &[u8],
        sent: impl Iterator<Item = Part>,
        receive: &mut [u8],
        received: impl Iterator<Item = Part>,
    ) -> Result<(), Error> {
        let from = self.upload(0, send)?;
        let to = self.stage(1, receive.len())?;
        let (kind, stream) = (nccl_sys::ncclDataType_t::ncclUint8, self.stream.cast());
        nccl::group_start().map_err(by_nccl)?;
        // Parts of no bytes are no messages, on both sides.
        for (peer, (offset, count)) in sent.enumerate().filter(|(_, (_, count))| *count > 0) {
            let address = (from + offset as u64) as *const c_void;
            // SAFETY: the part lies inside of the staging memory of what is sent.
            unsafe { nccl::send(address, count, kind, peer as i32, self.communicator, stream) }.map_err(by_nccl)?;
        }
        for (peer, (offset, count)) in received.enumerate().filter(|(_, (_, count))| *count > 0) {
            let address = (to + offset as u64) as *mut c_void;
            // SAFETY: the part lies inside of the staging memory of what is received.
            unsafe { nccl::recv(address, count, kind, peer as i32, self.communicator, stream) }.map_err(by_nccl)?;
        }
        nccl::group_end().map_err(by_nccl)?;
        self.download(to, receive)
    }
}

impl Communicator for NcclCommunicator {
    fn rank(&self) -> usize {
        self.bootstrap.rank()
    }

    fn size(&self) -> usize {
        self.bootstrap.size()
    }

    fn all_gather(&self, send: &[u8], counts: &[usize], receive: &mut [u8]) -> Result<(), Error> {
        let whole = (0, send.len());
        self.state()?.exchange(send, std::iter::repeat_n(whole, self.size()), receive, parts(counts))
    }

    fn all_to_all(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<(), Error> {
        self.state()?.exchange(send, parts(send_counts), receive, parts(receive_counts))
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut state = self.state()?;
        let address = state.upload(0, bytes)?;
        let (kind, stream) = (nccl_sys::ncclDataType_t::ncclUint8, state.stream.cast());
        let memory = address as *mut c_void;
        // SAFETY: the staging memory has as many bytes, on every rank.
        unsafe { nccl::broadcast(memory, memory, bytes.len(), kind, root as i32, state.communicator, stream) }
            .map_err(by_nccl)?;
        state.download(address, bytes)
    }

    fn sum(&self, dtype: DType, bytes: &mut [u8]) -> Result<bool, Error> {
        let kind = match dtype {
            DType::F32 => nccl_sys::ncclDataType_t::ncclFloat32,
            DType::F64 => nccl_sys::ncclDataType_t::ncclFloat64,
            DType::I64 => nccl_sys::ncclDataType_t::ncclInt64,
            DType::Bool | DType::F16 | DType::BF16 | DType::I32 | DType::U8 => {
                unreachable!("sums over shards are of compute types, and booleans are refused: {dtype}")
            }
        };
        if bytes.is_empty() {
            return Ok(true);
        }
        let mut state = self.state()?;
        let address = state.upload(0, bytes)?;
        let (count, stream, memory) = (bytes.len() / dtype.bytes(), state.stream.cast(), address as *mut c_void);
        // SAFETY: the staging memory has as many elements of the type, on every rank.
        unsafe {
            nccl::all_reduce(memory, memory, count, kind, nccl_sys::ncclRedOp_t::ncclSum, state.communicator, stream)
        }
        .map_err(by_nccl)?;
        state.download(address, bytes)?;
        Ok(true)
    }

    fn abort(&self, message: &str) {
        if let Ok(state) = self.state.try_lock() {
            // SAFETY: nothing uses the communicator afterwards: the job ends.
            let _ = unsafe { nccl::comm_abort(state.communicator) };
        }
        self.bootstrap.abort(message);
    }

    fn describe(&self) -> String {
        let (major, minor, patch) = (self.version / 10_000, self.version / 100 % 100, self.version % 100);
        format!(
            "NCCL {major}.{minor}.{patch} on GPU {} of each rank, started by {}",
            self.gpu,
            self.bootstrap.describe()
        )
    }
}
