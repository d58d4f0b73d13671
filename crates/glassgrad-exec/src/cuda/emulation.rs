//! The host in the place of a GPU: kernels are compiled by its C++ compiler behind a shim that turns blocks and threads into
//! loops. Slow, and the same text as on a GPU.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libloading::Library;

use super::convolution::{Convolution, Direction, Images};
use super::device::{Address, Device, Loaded, TensorCores};
use super::product::{Matrix, Product};
use super::source::Module;
use crate::MatmulPrecision;
use crate::dtype::{DType, Element, bf16, f16};
use crate::error::Error;

/// A function that runs a kernel: its arguments, the blocks of the grid, and the threads of a block.
type Run = unsafe extern "C" fn(*mut *mut c_void, *const u32, u32);

/// The emulated device.
#[derive(Debug)]
struct Emulation {
    compiler: String,
    folder: PathBuf,
    precision: MatmulPrecision,
    /// The memory that is reserved, in words so that every element is aligned.
    memory: Mutex<HashMap<Address, Box<[u128]>>>,
    libraries: Mutex<HashMap<u64, Arc<Kernels>>>,
}

/// A library of kernels. Its shim has one set of indices, so one kernel runs at a time.
#[derive(Debug)]
struct Kernels {
    library: Mutex<Library>,
}

/// The emulated device, if there is a C++ compiler.
pub(super) fn open(precision: MatmulPrecision) -> Result<Arc<dyn Device>, Error> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let missing = |reason: String| {
        Error::new("cuda", format!("the emulation needs a C++ compiler, and `{compiler}` does not run: {reason}"))
            .help("install one, such as g++, or name it in the environment variable CXX")
    };
    let tried = Command::new(&compiler).arg("--version").output().map_err(|error| missing(error.to_string()))?;
    if !tried.status.success() {
        return Err(missing(tried.status.to_string()));
    }
    let folder = tempfile_folder().map_err(|error| Error::new("cuda", format!("no temporary folder: {error}")))?;
    Ok(Arc::new(Emulation { compiler, folder, precision, memory: Mutex::default(), libraries: Mutex::default() }))
}

/// A new folder that no one else has, for libraries.
fn tempfile_folder() -> std::io::Result<PathBuf> {
    static COUNTER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("glassgrad-kernels-{}-{number}", std::process::id()));
    // An existing folder may be somebody else's.
    std::fs::create_dir(&folder)?;
    Ok(folder)
}

impl Drop for Emulation {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Emulation {
    fn memory(&self) -> MutexGuard<'_, HashMap<Address, Box<[u128]>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that bytes lie inside of what is reserved.
    fn checked(&self, at: Address, bytes: usize) -> Result<*mut u8, String> {
        let memory = self.memory();
        let end = at.checked_add(bytes as Address).ok_or("an address beyond all memory")?;
        let is_inside = |first: Address, words: &[u128]| first <= at && end <= first + size_of_val(words) as Address;
        match bytes == 0 || memory.iter().any(|(first, words)| is_inside(*first, words)) {
            true => Ok(at as *mut u8),
            false => Err(format!("{bytes} bytes at {at:#x} are not reserved")),
        }
    }

    fn compiled(&self, text: &str) -> Result<Library, String> {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let name = format!("k{:016x}", hasher.finish());
        let (source, library) = (self.folder.join(format!("{name}.cpp")), self.folder.join(format!("{name}.so")));
        std::fs::write(&source, text).map_err(|error| error.to_string())?;
        let made = Command::new(&self.compiler)
            .args(["-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-o"])
            .arg(&library)
            .arg(&source)
            .output()
            .map_err(|error| error.to_string())?;
        if !made.status.success() {
            let complaints = String::from_utf8_lossy(&made.stderr).into_owned();
            return Err(format!("a kernel does not compile:\n{complaints}\n{text}"));
        }
        // SAFETY: the library was just made from generated text, and has no initialisation but that of its own variables.
        unsafe { Library::new(&library) }.map_err(|error| error.to_string())
    }
}

impl Emulation {
    /// Products of matrices by their definition.
    fn multiplied<E: Element>(&self, product: &Product, places: [Address; 3]) -> Result<(), String> {
        let [n, m, k] = product.sizes;
        let at = |matrix: &Matrix, i: usize, j: usize, batch: usize| {
            let (i, j) = if matrix.transposed { (j, i) } else { (i, j) };
            matrix.apart * batch as isize + (i + j * matrix.leading) as isize
        };
        let place = |operand: usize, element: isize| {
            let byte = element * size_of::<E>() as isize;
            self.checked(places[operand].wrapping_add_signed(byte as i64), size_of::<E>()).map(<*mut u8>::cast::<E>)
        };
        // Tensor cores round factors to eleven significant bits.
        let is_rounded = product.dtype == DType::F32 && self.precision == MatmulPrecision::Tf32;
        let rounded = |number: f64| if is_rounded { tf32(number) } else { number };
        for (offsets, adds) in &product.calls {
            let all = (0..product.batch).flat_map(|b| (0..n).flat_map(move |i| (0..m).map(move |j| (b, i, j))));
            for (batch, i, j) in all.filter(|(_, i, j)| !product.is_triangle || i >= j) {
                let mut sum = 0.0;
                for term in 0..k {
                    let x = place(0, offsets[0] + at(&product.x, i, term, batch))?;
                    let y = place(1, offsets[1] + at(&product.y, term, j, batch))?;
                    // SAFETY: both lie in reserved memory, which was checked, and are aligned for their type.
                    sum += unsafe { rounded((*x).to_f64()) * rounded((*y).to_f64()) };
                }
                let result = place(2, offsets[2] + at(&product.result, i, j, batch))?;
                // SAFETY: as above.
                unsafe {
                    let before = if *adds { (*result).to_f64() } else { 0.0 };
                    *result = E::from_f64(before + product.coefficient * sum);
                }
            }
        }
        Ok(())
    }
}

impl Emulation {
    /// A convolution by its definition.
    fn convolved<E: Element>(&self, convolution: &Convolution, places: [Address; 3]) -> Result<(), String> {
        let Convolution { direction, images, outputs, kernel, stride, dilation, padding, coefficient, offsets, .. } =
            convolution;
        let reach = |images: &Images| {
            1 + images.sizes.iter().zip(images.strides).map(|(size, stride)| (size - 1) * stride).sum::<usize>()
        };
        let lengths = [reach(images), kernel.iter().product(), reach(outputs)];
        // The elements of an operand, in reserved memory.
        let elements = |operand: usize| -> Result<*mut E, String> {
            let byte = offsets[operand] * size_of::<E>() as isize;
            let first = places[operand].wrapping_add_signed(byte as i64);
            Ok(self.checked(first, lengths[operand] * size_of::<E>())?.cast::<E>())
        };
        let is_rounded = convolution.dtype == DType::F32;
        let rounded = |number: f64| if is_rounded { tf32(number) } else { number };
        let read = |operand: usize| -> Result<Vec<f64>, String> {
            let from = elements(operand)?;
            // SAFETY: all elements lie in reserved memory, which was checked, and are aligned for their type.
            Ok((0..lengths[operand]).map(|k| rounded(unsafe { (*from.add(k)).to_f64() })).collect())
        };
        let (result, [first, second]) = match direction {
            Direction::Images => (0, [1, 2]),
            Direction::Kernel => (1, [0, 2]),
            Direction::Outputs => (2, [0, 1]),
        };
        let (a, b) = (read(first)?, read(second)?);
        let mut sums = vec![0.0; lengths[result]];
        let at = |images: &Images, index: [usize; 4]| (0..4).map(|k| index[k] * images.strides[k]).sum::<usize>();
        let [batch, _, height, width] = outputs.sizes;
        let [filters, channels, taps_down, taps_across] = *kernel;
        for (image, y, x, ky) in indices([batch, height, width, taps_down]) {
            for (kx, o, c, _) in indices([taps_across, filters, channels, 1]) {
                let moved = |position: usize, tap: usize, k: usize| {
                    (position * stride[k] + tap * dilation[k]).checked_sub(padding[k][0])
                };
                let (Some(row), Some(column)) = (moved(y, ky, 0), moved(x, kx, 1)) else { continue };
                if row >= images.sizes[2] || column >= images.sizes[3] {
                    assert!(*padding != [[0; 2]; 2], "a window beyond {images:?}");
                    continue;
                }
                let tap = ((o * taps_down + ky) * taps_across + kx) * channels + c;
                let places = [at(images, [image, c, row, column]), tap, at(outputs, [image, o, y, x])];
                sums[places[result]] += a[places[first]] * b[places[second]];
            }
        }
        let to = elements(result)?;
        let write = |element: usize| {
            // SAFETY: as above.
            unsafe { *to.add(element) = E::from_f64(coefficient * sums[element]) };
        };
        // Elements between those of images that lie apart belong to others.
        match direction {
            Direction::Kernel => (0..lengths[1]).for_each(write),
            Direction::Images => indices(images.sizes).for_each(|(b, c, y, x)| write(at(images, [b, c, y, x]))),
            Direction::Outputs => indices(outputs.sizes).for_each(|(b, c, y, x)| write(at(outputs, [b, c, y, x]))),
        }
        Ok(())
    }
}

/// All indices of four axes.
fn indices([a, b, c, d]: [usize; 4]) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..a * b * c * d).map(move |k| (k / (b * c * d), k / (c * d) % b, k / d % c, k % d))
}

/// A number with eleven significant bits, to the nearest.
fn tf32(number: f64) -> f64 {
    let half = 1_u64 << 41;
    f64::from_bits(number.to_bits().wrapping_add(half) & !((1 << 42) - 1))
}

impl Device for Emulation {
    fn allocate(&self, bytes: usize) -> Result<Address, String> {
        let words = bytes.div_ceil(size_of::<u128>()).max(1);
        let mut memory: Vec<u128> = Vec::new();
        memory.try_reserve_exact(words).map_err(|_| format!("{bytes} bytes of memory are not to be had"))?;
        // A pattern that shows in results if it is not overwritten.
        memory.resize(words, u128::MAX);
        let mut memory = memory.into_boxed_slice();
        let address = memory.as_mut_ptr() as Address;
        self.memory().insert(address, memory);
        Ok(address)
    }

    fn release(&self, address: Address, _: usize) {
        self.memory().remove(&address);
    }

    fn write(&self, to: Address, from: &[u8]) -> Result<(), String> {
        let to = self.checked(to, from.len())?;
        // SAFETY: the bytes are reserved, which was checked, and no kernel runs meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    fn read(&self, from: Address, to: &mut [u8]) -> Result<(), String> {
        let from = self.checked(from, to.len())?;
        // SAFETY: the bytes are reserved, which was checked, and no kernel runs meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), String> {
        let (to, from) = (self.checked(to, bytes)?, self.checked(from, bytes)?);
        // SAFETY: the bytes are reserved, which was checked, and no kernel runs meanwhile.
        unsafe { std::ptr::copy(from, to, bytes) };
        Ok(())
    }

    fn clear(&self, at: Address, bytes: usize) -> Result<(), String> {
        let at = self.checked(at, bytes)?;
        // SAFETY: the bytes are reserved, which was checked, and no kernel runs meanwhile.
        unsafe { std::ptr::write_bytes(at, 0, bytes) };
        Ok(())
    }

    fn synchronise(&self) -> Result<(), String> {
        Ok(())
    }

    fn multiplies(&self, product: &Product) -> bool {
        // Some of them, so that both ways are tested.
        product.sizes[2].is_multiple_of(2)
    }

    fn convolves(&self, convolution: &Convolution) -> bool {
        // One of both ways through the planner is tested with each kind of window.
        convolution.stride == [1, 1] || convolution.direction != Direction::Kernel
    }

    fn convolve(&self, convolution: &Convolution, places: [Address; 3]) -> Result<(), String> {
        match convolution.dtype {
            DType::F16 => self.convolved::<f16>(convolution, places),
            DType::BF16 => self.convolved::<bf16>(convolution, places),
            DType::F32 => self.convolved::<f32>(convolution, places),
            DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                unreachable!("convolutions of {} have kernels of their own", convolution.dtype)
            }
        }
    }

    fn multiply(&self, product: &Product, places: [Address; 3]) -> Result<(), String> {
        match product.dtype {
            DType::F32 => self.multiplied::<f32>(product, places),
            DType::F64 => self.multiplied::<f64>(product, places),
            DType::F16 => self.multiplied::<f16>(product, places),
            DType::BF16 => self.multiplied::<bf16>(product, places),
            DType::I64 | DType::Bool | DType::I32 | DType::U8 => {
                unreachable!("products of {} have kernels of their own", product.dtype)
            }
        }
    }

    fn own_multiplications(&self) -> usize {
        // Products that have a kernel of our own, and are not too slow here.
        1 << 22
    }

    fn tensor_cores(&self) -> Option<TensorCores> {
        let tf32 = self.precision == MatmulPrecision::Tf32;
        Some(TensorCores { tf32, least_multiplications: 1 << 12, shared_memory: 228 << 10 })
    }

    fn shared_memory(&self) -> usize {
        // Enough for small programs, so that both ways are tested.
        16 << 10
    }

    fn load(&self, module: &Module) -> Result<Arc<dyn Loaded>, String> {
        let text = module.host();
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let key = hasher.finish();
        let known = || self.libraries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernels) = known().get(&key) {
            return Ok(Arc::clone(kernels) as Arc<dyn Loaded>);
        }
        let kernels = Arc::new(Kernels { library: Mutex::new(self.compiled(&text)?) });
        known().insert(key, Arc::clone(&kernels));
        Ok(kernels)
    }
}

impl Loaded for Kernels {
    fn launch(&self, kernel: usize, grid: [u32; 3], threads: u32, arguments: &[Address]) -> Result<(), String> {
        let library = self.library.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("k{kernel}_host");
        let mut arguments: Vec<*mut c_void> = arguments.iter().map(|address| *address as *mut c_void).collect();
        // SAFETY: the function has this type, as the text that it was compiled from says.
        let run = unsafe { library.get::<Run>(name.as_bytes()) }.map_err(|error| error.to_string())?;
        // SAFETY: the plan passes addresses of memory that holds what the verified program accesses.
        unsafe { run(arguments.as_mut_ptr(), grid.as_ptr(), threads) };
        Ok(())
    }
}
