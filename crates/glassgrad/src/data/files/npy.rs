//! Arrays of NumPy, one in a file.
//!
//! Eight bytes of magic and version, the length of a header, the header, which is a dictionary of Python with the type of the
//! elements, their order and the shape, and the elements.

use std::path::Path;

use super::header_checks;
use super::whole::whole;
use crate::array::{Array, Buffer};
use crate::dtype::{DType, f16};
use crate::error::Error;
use crate::shape::Shape;

const MAGIC: &[u8] = b"\x93NUMPY";
/// More axes than NumPy has are taken for a damaged header.
const MOST_AXES: usize = 64;

/// Reads a file of NumPy: `float16`, `float32`, `float64`, `int32`, `int64`, `uint8` or `bool`, row by row or column by column.
/// Integers become 64-bit ones; [`read_npy_as_stored`] keeps their type.
///
/// ```
/// let error = glassgrad::data::files::read_npy("no/such.npy").unwrap_err();
/// assert!(error.to_string().starts_with("npy: cannot read no/such.npy: "), "{error}");
/// ```
pub fn read_npy(path: impl AsRef<Path>) -> Result<Array, Error> {
    let path = path.as_ref();
    npy_from_bytes(&whole("npy", path)?).map_err(|error| error.within(path.display()))
}

/// [`read_npy`] with the element type of the file: `int32` stays `i32`, and `uint8` stays `u8`, at a quarter and an eighth of the
/// memory.
///
/// ```
/// assert!(glassgrad::data::files::read_npy_as_stored("no/such.npy").is_err());
/// ```
pub fn read_npy_as_stored(path: impl AsRef<Path>) -> Result<Array, Error> {
    let path = path.as_ref();
    npy_from_bytes_as_stored(&whole("npy", path)?).map_err(|error| error.within(path.display()))
}

/// The array in the bytes of a file of NumPy. The data must match the header.
///
/// ```
/// use glassgrad::{Tensor, data::files::{npy_from_bytes, npy_to_bytes}};
/// let array = Tensor::from([[1.5, 2.5]]).eval().unwrap();
/// assert_eq!(npy_from_bytes(&npy_to_bytes(&array)).unwrap(), array);
/// assert!(npy_from_bytes(b"no array").is_err());
/// ```
pub fn npy_from_bytes(bytes: &[u8]) -> Result<Array, Error> {
    let array = npy_from_bytes_as_stored(bytes)?;
    Ok(match array.dtype() {
        DType::I32 | DType::U8 => Array::new(array.shape().clone(), array.buffer().cast(DType::I64)),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::I64 | DType::Bool => array,
    })
}

/// [`npy_from_bytes`] with the element type of the file.
///
/// ```
/// use glassgrad::{Tensor, data::files::{npy_from_bytes_as_stored, npy_to_bytes}, dtype::DType};
/// let bytes = Tensor::from_elements(vec![1_u8, 2], 2).eval().unwrap();
/// assert_eq!(npy_from_bytes_as_stored(&npy_to_bytes(&bytes)).unwrap().dtype(), DType::U8);
/// ```
pub fn npy_from_bytes_as_stored(bytes: &[u8]) -> Result<Array, Error> {
    let refuse = |message: String| Error::new("npy", message);
    let (Header { kind, is_by_column, shape }, elements) = header(bytes)?;
    let start = bytes.len() - elements.len();
    let declared = header_checks::elements(&shape).and_then(|count| count.checked_mul(kind.bytes()));
    if declared != Some(elements.len()) {
        let declared = declared.map_or("more than any file has".to_owned(), |bytes| format!("{bytes} bytes"));
        let (shape, there) = (Shape::from(shape), elements.len());
        return Err(refuse(format!(
            "the header declares {shape}, that is {declared}, and {there} follow behind byte {start}"
        )));
    }
    let buffer = kind.buffer(elements);
    let buffer = if is_by_column { by_row(&buffer, &shape) } else { buffer };
    Ok(Array::new(Shape::from(shape), buffer))
}

/// The parsed header, and the bytes behind it.
fn header(bytes: &[u8]) -> Result<(Header, &[u8]), Error> {
    let refuse = |message: String| Error::new("npy", message);
    let rest =
        bytes.strip_prefix(MAGIC).ok_or_else(|| refuse("it does not begin as a file of NumPy does".to_owned()))?;
    let cut = || refuse(format!("it ends at byte {}, within its header", bytes.len()));
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (length, rest) = match version[0] {
        1 => rest.split_first_chunk::<2>().map(|(length, rest)| (u64::from(u16::from_le_bytes(*length)), rest)),
        2 | 3 => rest.split_first_chunk::<4>().map(|(length, rest)| (u64::from(u32::from_le_bytes(*length)), rest)),
        other => return Err(refuse(format!("byte 6 declares version {other}; 1 to 3 are read"))),
    }
    .ok_or_else(cut)?;
    let length = usize::try_from(length).ok().filter(|length| *length <= rest.len()).ok_or_else(cut)?;
    let (header, elements) = rest.split_at(length);
    let header = std::str::from_utf8(header).map_err(|_| refuse("its header is not text".to_owned()))?;
    Ok((Header::read(header)?, elements))
}

/// The memory that the array takes whose bytes begin so, if its header is there.
pub(super) fn held_bytes(beginning: &[u8]) -> Option<usize> {
    let (header, _) = header(beginning).ok()?;
    let size = match header.kind {
        Kind::F32 => 4,
        Kind::Bool => 1,
        Kind::F16 => 2,
        Kind::F64 | Kind::I32 | Kind::I64 | Kind::U8 => 8,
    };
    Some(header_checks::elements(&header.shape)?.saturating_mul(size))
}

/// An array as the bytes of a file of NumPy, row by row. NumPy has no `bf16`, whose elements are written as `float32`.
///
/// ```
/// use glassgrad::{Tensor, data::files::npy_to_bytes};
/// let bytes = npy_to_bytes(&Tensor::from([1_i64, 2]).eval().unwrap());
/// assert!(bytes.starts_with(b"\x93NUMPY\x01\x00") && bytes.ends_with(&[2, 0, 0, 0, 0, 0, 0, 0]));
/// ```
pub fn npy_to_bytes(array: &Array) -> Vec<u8> {
    let (kind, mut elements): (&str, Vec<u8>) = match array.buffer() {
        Buffer::F32(elements) => ("<f4", elements.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Buffer::F64(elements) => ("<f8", elements.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Buffer::I64(elements) => ("<i8", elements.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Buffer::Bool(elements) => ("|b1", elements.iter().map(|x| u8::from(*x)).collect()),
        Buffer::F16(elements) => ("<f2", elements.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Buffer::BF16(elements) => ("<f4", elements.iter().flat_map(|x| x.to_f32().to_le_bytes()).collect()),
        Buffer::I32(elements) => ("<i4", elements.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Buffer::U8(elements) => ("|u1", elements.clone()),
    };
    // A tuple of one has a comma behind it.
    let sizes: String = array.shape().iter().map(|size| format!("{size},")).collect::<Vec<_>>().join(" ");
    let sizes = if array.shape().rank() > 1 { sizes.trim_end_matches(',') } else { &sizes };
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // Elements begin at a multiple of 64 bytes, behind the end of a line.
    let padding = 63 - (MAGIC.len() + 4 + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    // A header of 64 axes at most is shorter than 65536 bytes.
    let length = u16::try_from(header.len()).unwrap_or(u16::MAX).to_le_bytes();
    let mut bytes = [MAGIC, &[1, 0], &length, header.as_bytes()].concat();
    bytes.append(&mut elements);
    bytes
}

/// The types of elements that are read.
#[derive(Clone, Copy)]
enum Kind {
    F16,
    F32,
    F64,
    I32,
    I64,
    U8,
    Bool,
}

impl Kind {
    fn named(name: &str) -> Result<Kind, Error> {
        Ok(match name {
            "<f2" => Kind::F16,
            "<f4" => Kind::F32,
            "<f8" => Kind::F64,
            "<i4" => Kind::I32,
            "<i8" => Kind::I64,
            "|u1" | "<u1" => Kind::U8,
            "|b1" | "<b1" => Kind::Bool,
            other => {
                let error = Error::new("npy", format!("elements of the type {other:?} are not read"));
                let help =
                    "save them as float16, float32, float64, int32, int64, uint8 or bool, in little-endian order";
                return Err(error.help(help));
            }
        })
    }

    fn bytes(self) -> usize {
        match self {
            Kind::F16 => 2,
            Kind::F32 | Kind::I32 => 4,
            Kind::F64 | Kind::I64 => 8,
            Kind::U8 | Kind::Bool => 1,
        }
    }

    fn buffer(self, bytes: &[u8]) -> Buffer {
        fn each<const N: usize, E>(bytes: &[u8], element: impl Fn([u8; N]) -> E) -> Vec<E> {
            bytes.as_chunks::<N>().0.iter().map(|bytes| element(*bytes)).collect()
        }
        match self {
            Kind::F16 => Buffer::F16(each(bytes, f16::from_le_bytes)),
            Kind::F32 => Buffer::F32(each(bytes, f32::from_le_bytes)),
            Kind::F64 => Buffer::F64(each(bytes, f64::from_le_bytes)),
            Kind::I32 => Buffer::I32(each(bytes, i32::from_le_bytes)),
            Kind::I64 => Buffer::I64(each(bytes, i64::from_le_bytes)),
            Kind::U8 => Buffer::U8(bytes.to_vec()),
            Kind::Bool => Buffer::Bool(bytes.iter().map(|byte| *byte != 0).collect()),
        }
    }
}

/// Elements row by row, from elements column by column: those of the reversed shape, read with reversed strides.
fn by_row(buffer: &Buffer, shape: &[usize]) -> Buffer {
    let strides: Vec<usize> =
        shape.iter().scan(1, |stride, size| Some(std::mem::replace(stride, *stride * size))).collect();
    let mut index = vec![0; shape.len()];
    let places = (0..buffer.len()).map(|_| {
        let place = index.iter().zip(&strides).map(|(index, stride)| index * stride).sum();
        for (index, size) in index.iter_mut().zip(shape).rev() {
            *index += 1;
            if *index < *size {
                break;
            }
            *index = 0;
        }
        Some(place)
    });
    buffer.pick(places)
}

/// The entries of the dictionary.
struct Header {
    kind: Kind,
    is_by_column: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Reads `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`, whose entries may be in any order.
    fn read(text: &str) -> Result<Header, Error> {
        let refuse = |what: &str| Error::new("npy", format!("its header has no {what}: {:?}", shortened(text)));
        let inside = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let inside = inside.ok_or_else(|| refuse("braces"))?;
        let value = |name: &str| {
            let quoted = [format!("'{name}'"), format!("\"{name}\"")];
            let behind =
                quoted.iter().find_map(|name| inside.split_once(name.as_str())).map(|(_, rest)| rest.trim_start());
            behind.and_then(|rest| rest.strip_prefix(':')).map(str::trim_start).ok_or_else(|| refuse(name))
        };
        let descr = value("descr")?;
        let quote = descr.chars().next().filter(|first| matches!(first, '\'' | '"'));
        let kind = quote.and_then(|quote| descr[1..].split(quote).next());
        let order = value("fortran_order")?;
        let is_by_column = match (order.starts_with("True"), order.starts_with("False")) {
            (false, false) => return Err(refuse("order of elements")),
            (is_by_column, _) => is_by_column,
        };
        let shape = value("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')')).map(|(shape, _)| shape);
        let shape = shape.ok_or_else(|| refuse("shape in parentheses"))?;
        let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
        let shape: Vec<usize> =
            sizes.map(|size| size.parse().map_err(|_| refuse("shape of whole numbers"))).collect::<Result<_, _>>()?;
        if shape.len() > MOST_AXES {
            return Err(Error::new("npy", format!("it has {} axes; there may be up to {MOST_AXES}", shape.len())));
        }
        Ok(Header { kind: Kind::named(kind.ok_or_else(|| refuse("type of elements"))?)?, is_by_column, shape })
    }
}

/// The first characters of a text.
fn shortened(text: &str) -> String {
    text.trim().chars().take(100).collect()
}
