//! The format of MNIST: bytes with dimensions.
//!
//! Two zeros, the type of the elements (8 for bytes), the number of axes, their sizes as big-endian numbers of 32 bits, and the
//! elements row by row. `.idx.gz` is the same, compressed.

use std::path::Path;

use super::gz::{expand_start, is_compressed};
use super::header_checks;
use super::whole::whole;
use crate::array::{Array, Buffer};
use crate::error::Error;
use crate::shape::Shape;

/// The type of the elements that is read.
const BYTES: u8 = 8;
/// More axes than this are taken for a damaged header.
const MOST_AXES: usize = 8;
/// The maximum size of a decompressed file, in bytes.
const LARGEST_EXPANDED: usize = 1 << 31;

/// Bytes with dimensions, as images and labels are stored.
///
/// ```
/// use glassgrad::data::files::Idx;
/// let labels = Idx::from_bytes(&[0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 4]).unwrap();
/// assert_eq!((labels.shape.as_slice(), labels.elements.as_slice()), (&[3][..], &[5, 0, 4][..]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idx {
    /// The sizes of the axes.
    pub shape: Vec<usize>,
    /// The elements, row by row.
    pub elements: Vec<u8>,
}

impl Idx {
    /// Reads a file, which may be compressed by gzip.
    ///
    /// ```
    /// let error = glassgrad::data::files::Idx::read("no/such/file").unwrap_err();
    /// assert!(error.to_string().starts_with("idx: cannot read no/such/file: "), "{error}");
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Result<Idx, Error> {
        let path = path.as_ref();
        Idx::from_bytes(&whole("idx", path)?).map_err(|error| error.within(path.display()))
    }

    /// Reads bytes, which may be compressed by gzip. They are expanded up to the length that their header declares, and
    /// nothing is allocated by it.
    ///
    /// ```
    /// use glassgrad::data::files::Idx;
    /// let error = Idx::from_bytes(&[0, 0, 8, 1, 0, 0, 0, 9, 5, 0, 4]).unwrap_err();
    /// assert_eq!(error.message(), "the header declares [9], that is 9 elements, and 3 follow behind byte 8");
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<Idx, Error> {
        if !is_compressed(bytes) {
            let header = Header::read(bytes)?;
            header.check(bytes.len())?;
            return Ok(Idx { elements: bytes[header.length..].to_vec(), shape: header.shape });
        }
        let start = expand_start("idx", bytes, 4 + 4 * MOST_AXES)?;
        let header = Header::read(&start)?;
        if header.end() > LARGEST_EXPANDED {
            let message = format!(
                "the header declares {} bytes, which {} compressed ones are expanded to; the limit is {LARGEST_EXPANDED}",
                header.end(),
                bytes.len()
            );
            return Err(Error::new("idx", message).help("a larger file is read if it is not compressed"));
        }
        // One byte beyond the declared length detects excess data.
        let mut expanded = expand_start("idx", bytes, header.end().saturating_add(1))?;
        header.check(expanded.len())?;
        expanded.drain(..header.length);
        Ok(Idx { elements: expanded, shape: header.shape })
    }

    /// The elements as whole numbers, such as labels.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::files::Idx};
    /// let labels = Idx { shape: vec![3], elements: vec![5, 0, 4] };
    /// assert_eq!(Tensor::from(labels.integers()).to_string(), "[5, 0, 4]");
    /// ```
    pub fn integers(&self) -> Array {
        self.array(Buffer::I64(self.elements.iter().map(|byte| i64::from(*byte)).collect()))
    }

    /// The elements as 32-bit numbers from 0 to 1, such as the ink of pixels.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::files::Idx};
    /// let pixels = Idx { shape: vec![1, 3], elements: vec![0, 51, 255] };
    /// assert_eq!(Tensor::from(pixels.fractions()).to_string(), "[[  0, 0.2,   1]]");
    /// ```
    pub fn fractions(&self) -> Array {
        self.array(Buffer::F32(self.elements.iter().map(|byte| f32::from(*byte) / 255.0).collect()))
    }

    fn array(&self, buffer: Buffer) -> Array {
        Array::new(Shape::from(self.shape.as_slice()), buffer)
    }
}

/// The header.
struct Header {
    shape: Vec<usize>,
    /// Its own length in bytes.
    length: usize,
    elements: usize,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Header, Error> {
        let refuse = |message: String| Err(Error::new("idx", message));
        let [first, second, kind, axes, rest @ ..] = bytes else {
            return refuse(format!("{} bytes are too few for a header of 4", bytes.len()));
        };
        if (*first, *second) != (0, 0) {
            return refuse(format!(
                "it begins with the bytes {first} and {second}, and an idx file begins with two zeros"
            ));
        }
        if *kind != BYTES {
            let error = Error::new("idx", format!("byte 2 declares elements of the type {kind}"));
            return Err(error.help("only bytes (the type 8) are read, as MNIST has them"));
        }
        let axes = usize::from(*axes);
        if axes == 0 || axes > MOST_AXES {
            return refuse(format!("byte 3 declares {axes} axes; there may be 1 to {MOST_AXES}"));
        }
        let sizes: Vec<usize> =
            rest.as_chunks::<4>().0.iter().take(axes).map(|size| u32::from_be_bytes(*size) as usize).collect();
        if sizes.len() < axes {
            return refuse(format!("it ends at byte {}, within the sizes of its {axes} axes", bytes.len()));
        }
        let length = 4 + 4 * axes;
        match header_checks::elements(&sizes) {
            Some(elements) if elements < usize::MAX - length => Ok(Header { shape: sizes, length, elements }),
            _ => refuse(format!("the header declares more elements than any file has: {}", Shape::from(sizes))),
        }
    }

    /// The length of the whole file.
    fn end(&self) -> usize {
        self.length + self.elements
    }

    /// Compares the declared length with that of the file; a file that was expanded up to one byte too many is too long.
    fn check(&self, length: usize) -> Result<(), Error> {
        if length == self.end() {
            return Ok(());
        }
        let (shape, start) = (Shape::from(self.shape.as_slice()), self.length);
        let there = if length > self.end() { "more follow".to_owned() } else { format!("{} follow", length - start) };
        let message =
            format!("the header declares {shape}, that is {} elements, and {there} behind byte {start}", self.elements);
        Err(Error::new("idx", message))
    }
}
