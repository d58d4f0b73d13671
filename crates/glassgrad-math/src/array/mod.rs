//! Arrays: elements in memory, row by row, that tensors evaluate to.

mod recycled;

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::dtype::{DType, Element, bf16, f16};
use crate::shape::Shape;
use recycled::Recycled;
#[doc(hidden)]
pub use recycled::{SMALLEST_BYTES, buffer};

/// The elements of an array, of one type.
///
/// ```
/// use glassgrad::array::Buffer;
/// let buffer = Buffer::F32(vec![0.5, 1.5]);
/// assert_eq!((buffer.len(), buffer.get(1)), (2, 1.5));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Buffer {
    /// 32-bit floating point.
    F32(Vec<f32>),
    /// 64-bit floating point.
    F64(Vec<f64>),
    /// 64-bit integers.
    I64(Vec<i64>),
    /// Truth values.
    Bool(Vec<bool>),
    /// 16-bit floating point of IEEE 754.
    F16(Vec<f16>),
    /// 16-bit floating point with the exponents of 32 bits.
    BF16(Vec<bf16>),
    /// 32-bit integers.
    I32(Vec<i32>),
    /// 8-bit unsigned integers.
    U8(Vec<u8>),
}

/// Runs a piece of code with the elements of a buffer as a slice of their own type.
#[doc(hidden)]
#[macro_export]
macro_rules! with_elements {
    ($buffer:expr, $elements:ident => $body:expr) => {
        match $buffer {
            $crate::array::Buffer::F32($elements) => $body,
            $crate::array::Buffer::F64($elements) => $body,
            $crate::array::Buffer::I64($elements) => $body,
            $crate::array::Buffer::Bool($elements) => $body,
            $crate::array::Buffer::F16($elements) => $body,
            $crate::array::Buffer::BF16($elements) => $body,
            $crate::array::Buffer::I32($elements) => $body,
            $crate::array::Buffer::U8($elements) => $body,
        }
    };
}
#[doc(hidden)]
pub use crate::with_elements;

impl Buffer {
    /// The type of the elements.
    ///
    /// ```
    /// use glassgrad::array::Buffer;
    /// use glassgrad::dtype::DType;
    /// assert_eq!(Buffer::I64(vec![1, 2]).dtype(), DType::I64);
    /// ```
    pub fn dtype(&self) -> DType {
        match self {
            Buffer::F32(_) => DType::F32,
            Buffer::F64(_) => DType::F64,
            Buffer::I64(_) => DType::I64,
            Buffer::Bool(_) => DType::Bool,
            Buffer::F16(_) => DType::F16,
            Buffer::BF16(_) => DType::BF16,
            Buffer::I32(_) => DType::I32,
            Buffer::U8(_) => DType::U8,
        }
    }

    /// The number of elements.
    ///
    /// ```
    /// use glassgrad::array::Buffer;
    /// assert_eq!(Buffer::Bool(vec![true, false]).len(), 2);
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        with_elements!(self, elements => elements.len())
    }

    /// Whether there are no elements.
    ///
    /// ```
    /// use glassgrad::array::Buffer;
    /// assert!(Buffer::F32(Vec::new()).is_empty());
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements computed one by one, as 64-bit numbers, in a type chosen at run time.
    ///
    /// ```
    /// use glassgrad::array::Buffer;
    /// use glassgrad::dtype::DType;
    /// assert_eq!(Buffer::from_fn(DType::I64, 3, |k| k as f64 * 2.5), Buffer::I64(vec![0, 2, 5]));
    /// ```
    pub fn from_fn(dtype: DType, length: usize, element: impl FnMut(usize) -> f64) -> Buffer {
        fn make<E: Element>(length: usize, mut element: impl FnMut(usize) -> f64) -> Vec<E> {
            (0..length).map(|k| E::from_f64(element(k))).collect()
        }
        match dtype {
            DType::F32 => Buffer::F32(make(length, element)),
            DType::F64 => Buffer::F64(make(length, element)),
            DType::I64 => Buffer::I64(make(length, element)),
            DType::Bool => Buffer::Bool(make(length, element)),
            DType::F16 => Buffer::F16(make(length, element)),
            DType::BF16 => Buffer::BF16(make(length, element)),
            DType::I32 => Buffer::I32(make(length, element)),
            DType::U8 => Buffer::U8(make(length, element)),
        }
    }

    /// [`Buffer::from_fn`], or an error if there is no memory for the elements.
    #[doc(hidden)]
    #[inline]
    pub fn try_from_fn(dtype: DType, length: usize, element: impl FnMut(usize) -> f64) -> Result<Buffer, OutOfMemory> {
        OutOfMemory::check(dtype, length)?;
        Ok(Buffer::from_fn(dtype, length, element))
    }

    /// Zeros, or an error if there is no memory for them.
    #[doc(hidden)]
    #[inline]
    pub fn try_zeros(dtype: DType, length: usize) -> Result<Buffer, OutOfMemory> {
        OutOfMemory::check(dtype, length)?;
        Ok(Buffer::zeros(dtype, length))
    }

    /// Zeros.
    #[doc(hidden)]
    pub fn zeros(dtype: DType, length: usize) -> Buffer {
        match dtype {
            DType::F32 => Buffer::F32(vec![0.0; length]),
            DType::F64 => Buffer::F64(vec![0.0; length]),
            DType::I64 => Buffer::I64(vec![0; length]),
            DType::Bool => Buffer::Bool(vec![false; length]),
            DType::F16 => Buffer::F16(vec![f16::ZERO; length]),
            DType::BF16 => Buffer::BF16(vec![bf16::ZERO; length]),
            DType::I32 => Buffer::I32(vec![0; length]),
            DType::U8 => Buffer::U8(vec![0; length]),
        }
    }

    /// The elements as bytes, in the order of the host.
    #[doc(hidden)]
    pub fn to_bytes(&self) -> Vec<u8> {
        /// Chunks of known length, which the compiler copies by vectors.
        fn bytes<const N: usize, T: Copy>(elements: &[T], of: impl Fn(T) -> [u8; N]) -> Vec<u8> {
            let mut bytes = vec![0; elements.len() * N];
            bytes.as_chunks_mut().0.iter_mut().zip(elements).for_each(|(word, element)| *word = of(*element));
            bytes
        }
        match self {
            Buffer::F32(elements) => bytes(elements, f32::to_ne_bytes),
            Buffer::F64(elements) => bytes(elements, f64::to_ne_bytes),
            Buffer::I64(elements) => bytes(elements, i64::to_ne_bytes),
            Buffer::Bool(elements) => bytes(elements, |x| [u8::from(x)]),
            Buffer::F16(elements) => bytes(elements, f16::to_ne_bytes),
            Buffer::BF16(elements) => bytes(elements, bf16::to_ne_bytes),
            Buffer::I32(elements) => bytes(elements, i32::to_ne_bytes),
            Buffer::U8(elements) => elements.clone(),
        }
    }

    /// Elements from bytes in the order of the host.
    #[doc(hidden)]
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Buffer {
        fn words<const N: usize, T>(bytes: &[u8], of: fn([u8; N]) -> T) -> Vec<T> {
            bytes.as_chunks::<N>().0.iter().map(|word| of(*word)).collect()
        }
        match dtype {
            DType::F32 => Buffer::F32(words(bytes, f32::from_ne_bytes)),
            DType::F64 => Buffer::F64(words(bytes, f64::from_ne_bytes)),
            DType::I64 => Buffer::I64(words(bytes, i64::from_ne_bytes)),
            DType::Bool => Buffer::Bool(bytes.iter().map(|byte| *byte != 0).collect()),
            DType::F16 => Buffer::F16(words(bytes, f16::from_ne_bytes)),
            DType::BF16 => Buffer::BF16(words(bytes, bf16::from_ne_bytes)),
            DType::I32 => Buffer::I32(words(bytes, i32::from_ne_bytes)),
            DType::U8 => Buffer::U8(bytes.to_vec()),
        }
    }

    /// The element at a place as a 64-bit number.
    ///
    /// ```
    /// use glassgrad::array::Buffer;
    /// assert_eq!(Buffer::F32(vec![0.5, 1.5]).get(1), 1.5);
    /// ```
    #[inline]
    pub fn get(&self, place: usize) -> f64 {
        with_elements!(self, elements => elements[place].to_f64())
    }

    /// Puts other elements of the same type behind these; elements of another type are left out.
    #[doc(hidden)]
    pub fn append(&mut self, other: Buffer) {
        match (self, other) {
            (Buffer::F32(own), Buffer::F32(mut other)) => own.append(&mut other),
            (Buffer::F64(own), Buffer::F64(mut other)) => own.append(&mut other),
            (Buffer::I64(own), Buffer::I64(mut other)) => own.append(&mut other),
            (Buffer::Bool(own), Buffer::Bool(mut other)) => own.append(&mut other),
            (Buffer::F16(own), Buffer::F16(mut other)) => own.append(&mut other),
            (Buffer::BF16(own), Buffer::BF16(mut other)) => own.append(&mut other),
            (Buffer::I32(own), Buffer::I32(mut other)) => own.append(&mut other),
            (Buffer::U8(own), Buffer::U8(mut other)) => own.append(&mut other),
            _ => {}
        }
    }

    /// The elements at some places, in their order; a place may occur often. `None` stands for zero.
    ///
    /// ```
    /// use glassgrad::array::Buffer;
    /// let picked = Buffer::I64(vec![10, 20]).pick([Some(1), None, Some(1)].into_iter());
    /// assert_eq!(picked, Buffer::I64(vec![20, 0, 20]));
    /// ```
    pub fn pick(&self, places: impl Iterator<Item = Option<usize>>) -> Buffer {
        fn pick<E: Element>(elements: &[E], places: impl Iterator<Item = Option<usize>>) -> Vec<E> {
            places.map(|place| place.map_or_else(|| E::from_f64(0.0), |place| elements[place])).collect()
        }
        match self {
            Buffer::F32(elements) => Buffer::F32(pick(elements, places)),
            Buffer::F64(elements) => Buffer::F64(pick(elements, places)),
            Buffer::I64(elements) => Buffer::I64(pick(elements, places)),
            Buffer::Bool(elements) => Buffer::Bool(pick(elements, places)),
            Buffer::F16(elements) => Buffer::F16(pick(elements, places)),
            Buffer::BF16(elements) => Buffer::BF16(pick(elements, places)),
            Buffer::I32(elements) => Buffer::I32(pick(elements, places)),
            Buffer::U8(elements) => Buffer::U8(pick(elements, places)),
        }
    }

    /// The same elements in another type, as a cast makes them: rounded to the nearest, ties to even, among floating-point
    /// types; truncated and saturated from these to integers; wrapped from integers to narrower ones; non-zero is true.
    ///
    /// ```
    /// use glassgrad::{array::Buffer, dtype::DType};
    /// assert_eq!(Buffer::I64(vec![-1, 258]).cast(DType::U8), Buffer::U8(vec![255, 2]));
    /// assert_eq!(Buffer::F32(vec![-1.0, 258.5]).cast(DType::U8), Buffer::U8(vec![0, 255]));
    /// ```
    pub fn cast(&self, dtype: DType) -> Buffer {
        fn integers<E: Copy>(elements: &[E], dtype: DType, of: impl Fn(E) -> i64) -> Option<Buffer> {
            let all = elements.iter().map(|element| of(*element));
            match dtype {
                DType::I64 => Some(Buffer::I64(all.collect())),
                DType::I32 => Some(Buffer::I32(all.map(|x| x as i32).collect())),
                DType::U8 => Some(Buffer::U8(all.map(|x| x as u8).collect())),
                DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::Bool => None,
            }
        }
        let as_integers = match self {
            Buffer::I64(elements) => integers(elements, dtype, |x| x),
            Buffer::I32(elements) => integers(elements, dtype, i64::from),
            Buffer::U8(elements) => integers(elements, dtype, i64::from),
            Buffer::F16(_) | Buffer::BF16(_) | Buffer::F32(_) | Buffer::F64(_) | Buffer::Bool(_) => None,
        };
        as_integers.unwrap_or_else(|| Buffer::from_fn(dtype, self.len(), |k| self.get(k)))
    }
}

/// More memory was asked for than the system provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct OutOfMemory {
    bytes: u128,
}

impl OutOfMemory {
    /// What can be done about it.
    #[doc(hidden)]
    pub const REMEDY: &'static str = "use smaller shapes or batches, or a gradient within a budget of memory";

    /// Fewer bytes than this are not checked: a failure of so small a request ends the process anyway.
    const CHECKED: u128 = 1 << 28;

    /// Fails if the system does not provide memory for `length` elements.
    #[doc(hidden)]
    #[inline]
    pub fn check(dtype: DType, length: usize) -> Result<(), OutOfMemory> {
        OutOfMemory::check_bytes(length as u128 * dtype.bytes() as u128)
    }

    /// Fails if the system does not provide this number of bytes.
    #[doc(hidden)]
    #[inline]
    pub fn check_bytes(bytes: u128) -> Result<(), OutOfMemory> {
        if bytes < OutOfMemory::CHECKED {
            return Ok(());
        }
        // The allocation is made and freed untouched: two system calls, and no page.
        let available = usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
        if available { Ok(()) } else { Err(OutOfMemory { bytes }) }
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut size, mut unit) = (self.bytes as f64, "bytes");
        for larger in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
            if size < 1024.0 {
                break;
            }
            (size, unit) = (size / 1024.0, larger);
        }
        write!(formatter, "{size:.1} {unit} of memory are needed, more than the system provides")
    }
}

/// An element type whose buffer can be opened.
///
/// ```
/// use glassgrad::array::{Buffer, Stored};
/// let buffer = i64::wrap(vec![1, 2]);
/// assert_eq!((i64::open(&buffer), f64::open(&buffer)), (Some(&[1, 2][..]), None));
/// ```
pub trait Stored: Element {
    /// Wraps elements.
    fn wrap(elements: Vec<Self>) -> Buffer;
    /// The elements, if they are of this type.
    fn open(buffer: &Buffer) -> Option<&[Self]>;
}

macro_rules! stored {
    ($($Type:ty => $Variant:ident),*) => {$(
        impl Stored for $Type {
            fn wrap(elements: Vec<Self>) -> Buffer {
                Buffer::$Variant(elements)
            }
            fn open(buffer: &Buffer) -> Option<&[Self]> {
                match buffer {
                    Buffer::$Variant(elements) => Some(elements),
                    _ => None,
                }
            }
        }
    )*};
}
stored!(f32 => F32, f64 => F64, i64 => I64, bool => Bool, f16 => F16, bf16 => BF16, i32 => I32, u8 => U8);

/// The storage of elements.
#[derive(Debug)]
enum Storage {
    Host(HostStorage),
    Device(DeviceStorage),
}

/// Elements in the memory of the host, and in that of a device once a program there has read them.
#[derive(Debug)]
struct HostStorage {
    buffer: Recycled,
    copy: OnceLock<Box<dyn DeviceMemory>>,
}

impl HostStorage {
    fn new(buffer: Buffer) -> HostStorage {
        HostStorage { buffer: Recycled(buffer), copy: OnceLock::new() }
    }

    /// The elements, about to be changed: a copy would not follow.
    fn buffer_mut(&mut self) -> &mut Buffer {
        self.copy.take();
        &mut self.buffer.0
    }
}

/// Elements in the memory of a device, and in that of the host once they were read there.
#[derive(Debug)]
struct DeviceStorage {
    memory: Box<dyn DeviceMemory>,
    host: OnceLock<Buffer>,
}

/// Memory of a device that holds elements of one type.
#[doc(hidden)]
pub trait DeviceMemory: fmt::Debug + Send + Sync {
    /// The element type.
    fn dtype(&self) -> DType;
    /// The number of elements.
    fn len(&self) -> usize;
    /// Whether there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A copy in host memory, after everything that writes to it is done.
    fn download(&self) -> Result<Buffer, String>;
    /// For downcasting by its executor.
    fn as_any(&self) -> &dyn Any;
}

/// Arrays are equal if their shapes and elements are.
impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.buffer() == other.buffer()
    }
}

/// A shape and its elements, shared until changed.
///
/// ```
/// use glassgrad::Tensor;
/// let array = Tensor::linspace(0.0, 1.0, 3).eval().unwrap();
/// assert_eq!((array.shape().to_vec(), array.buffer().get(1)), (vec![3], 0.5));
/// ```
#[derive(Clone, Debug)]
pub struct Array {
    shape: Shape,
    storage: Arc<Storage>,
}

impl Array {
    /// An array of a shape; the number of elements must be that of the shape.
    ///
    /// ```
    /// use glassgrad::array::{Array, Buffer};
    /// use glassgrad::shape::Shape;
    /// let matrix = Array::new(Shape::from([2, 2]), Buffer::F64(vec![1.0, 2.0, 3.0, 4.0]));
    /// assert_eq!(matrix.to_string(), "[[1, 2],\n [3, 4]]");
    /// ```
    ///
    /// # Panics
    /// If it is not.
    #[inline]
    pub fn new(shape: Shape, buffer: Buffer) -> Array {
        assert!(buffer.len() == shape.elements(), "{} elements for the shape {shape}", buffer.len());
        Array { shape, storage: Arc::new(Storage::Host(HostStorage::new(buffer))) }
    }

    /// The shape.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3]).eval().unwrap().shape().to_string(), "[2, 3]");
    /// ```
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The type of the elements.
    ///
    /// ```
    /// use glassgrad::{Tensor, dtype::DType};
    /// assert_eq!(Tensor::from([1_i64]).eval().unwrap().dtype(), DType::I64);
    /// ```
    #[inline]
    pub fn dtype(&self) -> DType {
        match &*self.storage {
            Storage::Host(storage) => storage.buffer.0.dtype(),
            Storage::Device(storage) => storage.memory.dtype(),
        }
    }

    /// An array in the memory of a device.
    #[doc(hidden)]
    #[inline]
    pub fn on_device(shape: Shape, memory: Box<dyn DeviceMemory>) -> Array {
        assert!(memory.len() == shape.elements(), "{} elements for the shape {shape}", memory.len());
        Array { shape, storage: Arc::new(Storage::Device(DeviceStorage { memory, host: OnceLock::new() })) }
    }

    /// The memory of a device that holds the elements, or a copy of them, if one does.
    #[doc(hidden)]
    #[inline]
    pub fn device(&self) -> Option<&dyn DeviceMemory> {
        match &*self.storage {
            Storage::Host(storage) => storage.copy.get().map(|copy| &**copy),
            Storage::Device(storage) => Some(&*storage.memory),
        }
    }

    /// Remembers a copy of elements of the host in the memory of a device, unless there is one.
    #[cfg(feature = "cuda")]
    #[doc(hidden)]
    #[inline]
    pub fn remember(&self, copy: Box<dyn DeviceMemory>) {
        if let Storage::Host(storage) = &*self.storage {
            let _ = storage.copy.set(copy);
        }
    }

    /// The elements.
    ///
    /// ```
    /// use glassgrad::{Tensor, array::Buffer};
    /// assert_eq!(*Tensor::from([1.5]).eval().unwrap().buffer(), Buffer::F64(vec![1.5]));
    /// ```
    #[inline]
    pub fn buffer(&self) -> &Buffer {
        self.download().unwrap_or_else(|message| panic!("reading the memory of a device failed: {message}"))
    }

    /// The elements in host memory; those of a device are downloaded once.
    #[doc(hidden)]
    pub fn download(&self) -> Result<&Buffer, String> {
        match &*self.storage {
            Storage::Host(storage) => Ok(&storage.buffer.0),
            Storage::Device(storage) => match storage.host.get() {
                Some(buffer) => Ok(buffer),
                None => {
                    let downloaded = storage.memory.download()?;
                    Ok(storage.host.get_or_init(|| downloaded))
                }
            },
        }
    }

    /// The elements in host memory for themselves alone: those that others hold too, and those of a device, are copied.
    #[doc(hidden)]
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut Buffer {
        let is_own = matches!(Arc::get_mut(&mut self.storage), Some(Storage::Host(_)));
        if !is_own {
            self.storage = Arc::new(Storage::Host(HostStorage::new(self.buffer().clone())));
        }
        match Arc::get_mut(&mut self.storage) {
            Some(Storage::Host(storage)) => storage.buffer_mut(),
            _ => unreachable!("the storage is uniquely owned"),
        }
    }

    /// Copies elements that others hold too.
    #[doc(hidden)]
    #[inline]
    pub fn make_own(&mut self) {
        if Arc::get_mut(&mut self.storage).is_none() {
            self.buffer_mut();
        }
    }

    /// Whether the elements have no other owner. In debug builds, elements in host memory are filled with NaN: the caller
    /// is about to overwrite all of them.
    #[doc(hidden)]
    pub fn is_writable(&mut self) -> bool {
        match Arc::get_mut(&mut self.storage) {
            Some(Storage::Host(storage)) => {
                let buffer = storage.buffer_mut();
                if cfg!(debug_assertions) {
                    recycled::spoil(buffer);
                }
                true
            }
            Some(_) => true,
            None => false,
        }
    }

    /// The same elements in another shape.
    ///
    /// ```
    /// use glassgrad::array::{Array, Buffer};
    /// use glassgrad::shape::Shape;
    /// let row = Array::new(Shape::from(2), Buffer::I64(vec![1, 2]));
    /// assert_eq!(row.reshaped(Shape::from([2, 1])).to_string(), "[[1],\n [2]]");
    /// ```
    #[inline]
    pub fn reshaped(&self, shape: Shape) -> Array {
        assert!(self.shape.elements() == shape.elements(), "{} cannot take the shape {shape}", self.shape);
        Array { shape, storage: Arc::clone(&self.storage) }
    }
}

/// Elements in brackets, as people expect of arrays: aligned columns, long axes shortened in the middle.
impl fmt::Display for Array {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precision = formatter.precision().unwrap_or(4);
        let text = |place: usize| match self.buffer() {
            Buffer::F32(elements) => float_text(f64::from(elements[place]), precision),
            Buffer::F64(elements) => float_text(elements[place], precision),
            Buffer::I64(elements) => elements[place].to_string(),
            Buffer::Bool(elements) => elements[place].to_string(),
            Buffer::F16(elements) => float_text(elements[place].to_f64(), precision),
            Buffer::BF16(elements) => float_text(elements[place].to_f64(), precision),
            Buffer::I32(elements) => elements[place].to_string(),
            Buffer::U8(elements) => elements[place].to_string(),
        };
        write_elements(formatter, &self.shape, text)
    }
}

/// Elements of a shape in brackets, each by its text.
#[doc(hidden)]
pub fn write_elements(
    formatter: &mut fmt::Formatter<'_>,
    shape: &Shape,
    text: impl Fn(usize) -> String,
) -> fmt::Result {
    let mut shown = Vec::new();
    visible_places(shape, 0, 0, &shape.strides(), &mut shown);
    let width = shown.iter().map(|place| text(*place).len()).max().unwrap_or(0);
    let mut places = shown.into_iter();
    write_axis(formatter, shape, 0, &mut |formatter| {
        places.next().map_or(Ok(()), |place| write!(formatter, "{:>width$}", text(place)))
    })
}

/// How many elements of a long axis are shown at each end.
const EDGE: usize = 4;

fn shown_indices(size: usize) -> Vec<Option<usize>> {
    if size <= 2 * EDGE + 2 {
        return (0..size).map(Some).collect();
    }
    (0..EDGE).map(Some).chain([None]).chain((size - EDGE..size).map(Some)).collect()
}

fn visible_places(shape: &[usize], axis: usize, place: usize, strides: &[usize], shown: &mut Vec<usize>) {
    if axis == shape.len() {
        shown.push(place);
        return;
    }
    for index in shown_indices(shape[axis]).into_iter().flatten() {
        visible_places(shape, axis + 1, place + index * strides[axis], strides, shown);
    }
}

fn write_axis(
    formatter: &mut fmt::Formatter<'_>,
    shape: &[usize],
    axis: usize,
    element: &mut impl FnMut(&mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    if axis == shape.len() {
        return element(formatter);
    }
    let inner = shape.len() - axis - 1;
    let separator =
        if inner == 0 { ", ".to_owned() } else { format!(",{}{}", "\n".repeat(inner), " ".repeat(axis + 1)) };
    formatter.write_str("[")?;
    for (number, index) in shown_indices(shape[axis]).into_iter().enumerate() {
        if number > 0 {
            formatter.write_str(&separator)?;
        }
        match index {
            Some(_) => write_axis(formatter, shape, axis + 1, element)?,
            None => formatter.write_str("…")?,
        }
    }
    formatter.write_str("]")
}

/// A number as people read it.
#[doc(hidden)]
#[inline]
pub fn float_text(value: f64, precision: usize) -> String {
    let magnitude = value.abs();
    if value != 0.0 && value.is_finite() && !(1e-4..1e7).contains(&magnitude) {
        return format!("{value:.precision$e}");
    }
    let text = format!("{value:.precision$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_written_as_people_expect() {
        let matrix = Array::new(Shape::from([2, 3]), Buffer::F64(vec![1.0, -2.5, 3.0, 4.0, 50.25, 6.0]));
        assert_eq!(matrix.to_string(), "[[    1,  -2.5,     3],\n [    4, 50.25,     6]]");
        let number = Array::new(Shape::scalar(), Buffer::I64(vec![7]));
        assert_eq!(number.to_string(), "7");
        let empty = Array::new(Shape::from([0, 3]), Buffer::F32(Vec::new()));
        assert_eq!(empty.to_string(), "[]");
        let long = Array::new(Shape::from(100), Buffer::from_fn(DType::I64, 100, |k| k as f64));
        assert_eq!(long.to_string(), "[ 0,  1,  2,  3, …, 96, 97, 98, 99]");
    }
}
