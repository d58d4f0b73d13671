//! What the plan needs of a device: memory, copies, kernels. A GPU is one, and the host behind the emulation another.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use super::convolution::Convolution;
use super::product::Product;

/// An address in the memory of a device.
pub(super) type Address = u64;

/// The kernels of a module, ready to be launched.
pub(super) trait Loaded: Send + Sync {
    /// Starts a kernel on a grid of blocks, after everything that was started before.
    fn launch(&self, kernel: usize, grid: [u32; 3], threads: u32, arguments: &[Address]) -> Result<(), String>;
}

/// A point in the work of a lane that others can wait for.
#[derive(Debug)]
pub(super) struct Mark(pub(super) u64);

/// What was recorded, to be run again and again.
pub(super) trait Recording: Send + Sync {
    /// Runs it, after everything that was started before.
    fn replay(&self) -> Result<(), String>;
}

/// A device. Whatever is started runs in the order in which it was started.
pub(super) trait Device: Send + Sync + fmt::Debug {
    /// Reserves memory.
    fn allocate(&self, bytes: usize) -> Result<Address, String>;

    /// Gives memory back, after everything that was started.
    fn release(&self, address: Address, bytes: usize);

    /// Copies from the host.
    fn write(&self, to: Address, from: &[u8]) -> Result<(), String>;

    /// Copies to the host, and waits for it.
    fn read(&self, from: Address, to: &mut [u8]) -> Result<(), String>;

    /// Copies within the device.
    fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), String>;

    /// Sets bytes to zero.
    fn clear(&self, at: Address, bytes: usize) -> Result<(), String>;

    /// Waits for everything that was started.
    fn synchronise(&self) -> Result<(), String>;

    /// Whether a product of matrices is faster by [`Device::multiply`] than by a kernel of our own.
    fn multiplies(&self, product: &Product) -> bool;

    /// Multiplies matrices by a library: the addresses of both factors and of the result.
    fn multiply(&self, product: &Product, places: [Address; 3]) -> Result<(), String>;

    /// Whether a convolution runs by [`Device::convolve`].
    fn convolves(&self, convolution: &Convolution) -> bool;

    /// Convolves by a library: the addresses of the images, of the kernel, and of the outputs or their cotangents.
    fn convolve(&self, convolution: &Convolution, places: [Address; 3]) -> Result<(), String>;

    /// How many lanes work can be recorded on: queues that run side by side.
    fn lanes(&self) -> usize {
        1
    }

    /// Whatever is started from now on is started on this lane. Lane 0 is the one for everything outside of recordings.
    fn enter_lane(&self, lane: usize) -> Result<(), String> {
        unreachable!("lane {lane} of a device that has one")
    }

    /// Marks what was started on the current lane so far.
    fn mark(&self) -> Result<Mark, String> {
        unreachable!("a mark on a device with one lane")
    }

    /// What is started on the current lane from now on waits for a mark.
    fn wait_for(&self, mark: &Mark) -> Result<(), String> {
        unreachable!("a wait for {mark:?} on a device with one lane")
    }

    /// A point in time of the device, if it has a clock of its own.
    fn time(&self) -> Result<Option<Mark>, String> {
        Ok(None)
    }

    /// The seconds between two points in time, which are then forgotten; waits for the second.
    fn seconds_between(&self, begin: Mark, end: Mark) -> Result<f64, String> {
        unreachable!("the time from {begin:?} to {end:?} on a device without a clock")
    }

    /// The groups of threads in a block that can stand in for the blocks of small kernels.
    fn groups(&self) -> u32 {
        1
    }

    /// Whether it has thread-block clusters.
    fn clusters(&self) -> bool {
        true
    }

    /// Products of fewer multiplications are faster in a kernel of our own that splits their terms and runs their epilogue.
    fn own_multiplications(&self) -> usize {
        0
    }

    /// What its tensor cores multiply, if it has them.
    fn tensor_cores(&self) -> Option<TensorCores> {
        None
    }

    /// The bytes of dynamic shared memory that a block of a chain can have.
    fn shared_memory(&self) -> usize;

    /// Records what is started from now on instead of running it; false if the device cannot.
    fn record(&self) -> Result<bool, String> {
        Ok(false)
    }

    /// Ends a recording.
    fn recorded(&self) -> Result<Arc<dyn Recording>, String> {
        unreachable!("a device without recordings")
    }

    /// Keeps other threads from starting anything meanwhile: a recording would take it in.
    fn exclusive(&self) -> Option<Turn<'_>> {
        None
    }

    /// Compiles the kernels of a module.
    fn load(&self, module: &super::source::Module) -> Result<Arc<dyn Loaded>, String>;
}

/// What tensor cores multiply besides 16-bit numbers, and from how many multiplications on they are worth their tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct TensorCores {
    /// Whether factors of 32 bits are rounded to TF32.
    pub(super) tf32: bool,
    pub(super) least_multiplications: usize,
    /// The most bytes of shared memory of a block.
    pub(super) shared_memory: usize,
}

/// The right of a thread to start work, until it is dropped.
pub(super) struct Turn<'t> {
    pub(super) owner: &'t Mutex<Option<ThreadId>>,
    pub(super) _guard: MutexGuard<'t, ()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Memory of a device, given back when nothing uses it any more.
#[derive(Debug)]
pub(super) struct Allocation {
    device: Arc<dyn Device>,
    pub(super) address: Address,
    pub(super) bytes: usize,
}

impl Allocation {
    pub(super) fn new(device: &Arc<dyn Device>, bytes: usize) -> Result<Allocation, String> {
        // Nothing has an address too, so that kernels without elements need no special case.
        let address = device.allocate(bytes.max(1))?;
        Ok(Allocation { device: Arc::clone(device), address, bytes })
    }

    pub(super) fn of(device: &Arc<dyn Device>, from: &[u8]) -> Result<Allocation, String> {
        let allocation = Allocation::new(device, from.len())?;
        device.write(allocation.address, from)?;
        Ok(allocation)
    }

    pub(super) fn download(&self) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; self.bytes];
        self.device.read(self.address, &mut bytes)?;
        Ok(bytes)
    }

    /// Other memory with the same bytes.
    pub(super) fn duplicate(&self) -> Result<Allocation, String> {
        let copy = Allocation::new(&self.device, self.bytes)?;
        self.device.copy(copy.address, self.address, self.bytes)?;
        Ok(copy)
    }

    /// Whether the memory belongs to a device.
    pub(super) fn is_on(&self, device: &Arc<dyn Device>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.device.release(self.address, self.bytes.max(1));
    }
}
