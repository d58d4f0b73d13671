//! Named tensors and notes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use safetensors::{Dtype, SafeTensors, View};

use super::checksum::{self, Content};
use super::elements::{dtype_of, from_bytes, to_bytes};
use crate::array::Array;
use crate::error::Error;
use crate::expr::Tensor;
use crate::shape::Shape;
use crate::sorting::IndirectSort;
use crate::tree::{self, Tree};

/// The contents of a file: tensors by their names, and notes.
///
/// ```
/// use glassgrad::{Tensor, save::File};
/// let mut file = File::of(&(Tensor::from([1.0, 2.0]), Tensor::from(true))).unwrap();
/// file.notes.insert("author".into(), "hand".into());
/// let read = File::from_bytes(&file.to_bytes().unwrap()).unwrap();
/// assert_eq!(read.tensors.keys().collect::<Vec<_>>(), ["0", "1"]);
/// assert_eq!(read.notes["author"], "hand");
/// ```
#[derive(Clone, Debug, Default)]
pub struct File {
    /// Tensors by their names.
    pub tensors: BTreeMap<String, Tensor>,
    /// Notes by their names, without the checksum.
    pub notes: BTreeMap<String, String>,
    /// Warnings about the file that was read, such as a missing checksum.
    pub warnings: Vec<String>,
}

/// A tree that was read from a file, and what the user should know about that file.
///
/// ```
/// use glassgrad::{Tensor, save};
/// # let path = std::env::temp_dir().join(format!("glassgrad-loaded-{}", std::process::id()));
/// save::save(&path, &Tensor::from([1.0]), &[]).unwrap();
/// let loaded = save::load(&path, &Tensor::from([0.0])).unwrap();
/// assert_eq!(loaded.tree.to_string(), "[1]");
/// assert!(loaded.warnings.is_empty());
/// # std::fs::remove_file(&path).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Loaded<X> {
    /// The tree.
    pub tree: X,
    /// The warnings of [`File::warnings`].
    pub warnings: Vec<String>,
}

/// Where a leaf is found in a file that another program has written.
///
/// ```
/// use glassgrad::{nn::Linear, rng::Key, save::{File, Source}, Tensor};
/// // As PyTorch saves a linear layer from two inputs to one output: matrices are the other way round.
/// let mut file = File::default();
/// file.tensors.insert("fc.weight".into(), Tensor::from([[1.0_f32, 2.0]]));
/// file.tensors.insert("fc.bias".into(), Tensor::from([3.0_f32]));
/// let layer = file.tree_from(&Linear::new(Key::new(1), 2, 1), |path| {
///     let source = Source::named(format!("fc.{path}"));
///     if path.to_string() == "weight" { source.transposed() } else { source }
/// });
/// assert_eq!(layer.unwrap().weight.to_string(), "[[1],\n [2]]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    name: String,
    transposed: bool,
}

impl Source {
    /// Under a name.
    ///
    /// ```
    /// use glassgrad::save::Source;
    /// assert_ne!(Source::named("a"), Source::named("a").transposed());
    /// ```
    pub fn named(name: impl Into<String>) -> Source {
        Source { name: name.into(), transposed: false }
    }

    /// With its two axes exchanged.
    ///
    /// ```
    /// use glassgrad::save::Source;
    /// assert_eq!(Source::named("a").transposed(), Source::named("a").transposed());
    /// ```
    pub fn transposed(self) -> Source {
        Source { transposed: true, ..self }
    }
}

impl File {
    /// The leaves of a tree under their paths. A single tensor is called `value`.
    ///
    /// ```
    /// use glassgrad::{Tensor, save::File};
    /// assert!(File::of(&Tensor::from([1.0])).unwrap().tensors.contains_key("value"));
    /// ```
    pub fn of<X: Tree>(tree: &X) -> Result<File, Error> {
        let leaves = tree.realise()?.leaves();
        Ok(File { tensors: leaves.into_iter().map(|(path, leaf)| (name_of(&path), leaf)).collect(), ..File::default() })
    }

    /// Reads a file.
    ///
    /// ```
    /// use glassgrad::save::File;
    /// assert!(File::read("no such file").is_err());
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Result<File, Error> {
        let path = path.as_ref();
        let about = || format!("cannot read {}", path.display());
        let bytes = whole(path).map_err(|reason| Error::new("load", format!("{}: {reason}", about())))?;
        let mut file = File::from_bytes(&bytes).map_err(|error| error.within(about()))?;
        file.warnings.iter_mut().for_each(|warning| *warning = format!("{}: {warning}", path.display()));
        Ok(file)
    }

    /// Reads the bytes of a file and compares them with the checksum that [`File::to_bytes`] adds. A file without one is
    /// read with a warning.
    ///
    /// ```
    /// use glassgrad::{Tensor, save::File};
    /// // The header is said to have more bytes than there are.
    /// let error = File::from_bytes(&[255, 255, 255, 255, 0, 0, 0, 0]).unwrap_err();
    /// assert_eq!(error.operation(), "load");
    /// let mut bytes = File::of(&Tensor::from([1.0])).unwrap().to_bytes().unwrap();
    /// *bytes.last_mut().unwrap() ^= 1;
    /// assert!(File::from_bytes(&bytes).unwrap_err().message().starts_with("the file is damaged: its checksum is "));
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<File, Error> {
        let refuse = |reason: String| Error::new("load", format!("it is not a whole safetensors file: {reason}"));
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| refuse(error.to_string()))?;
        let stored = SafeTensors::deserialize(bytes).map_err(|error| refuse(error.to_string()))?;
        let mut file = File::default();
        file.notes.extend(header.metadata().iter().flatten().map(|(name, note)| (name.clone(), note.clone())));
        let mut views: Vec<_> = stored.iter().collect();
        views.indirect_sort_by_key(|(name, _)| *name);
        let contents: Vec<Content<'_>> = views
            .iter()
            .map(|(name, view)| Content {
                name,
                dtype: format!("{:?}", view.dtype()),
                shape: view.shape(),
                bytes: view.data(),
            })
            .collect();
        if !checksum::verify(&mut file.notes, &contents)? {
            file.warnings.push(NO_CHECKSUM.to_owned());
        }
        for (name, view) in views {
            // How many bytes there are was checked against shape and type, which may not overflow either.
            let Some(buffer) = from_bytes(view.dtype(), view.data()) else {
                let message = format!("{name} has elements of the type {:?}, which tensors do not have", view.dtype());
                return Err(Error::new("load", message));
            };
            let array = Array::new(Shape::from(view.shape()), buffer);
            file.tensors.insert(name.to_owned(), Tensor::from(array));
        }
        Ok(file)
    }

    /// The bytes of a file, with a checksum of names, types, shapes, notes and elements among the notes.
    ///
    /// ```
    /// use glassgrad::save::File;
    /// assert!(File::from_bytes(&File::default().to_bytes().unwrap()).unwrap().tensors.is_empty());
    /// ```
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut stored: Vec<(&String, Stored)> = Vec::new();
        for (name, tensor) in &self.tensors {
            let array = tensor.eval()?;
            let (shape, dtype) = (array.shape().to_vec(), dtype_of(array.buffer().dtype()));
            stored.push((name, Stored { shape, dtype, bytes: to_bytes(array.buffer()) }));
        }
        let contents: Vec<Content<'_>> = stored
            .iter()
            .map(|(name, Stored { shape, dtype, bytes })| Content { name, dtype: format!("{dtype:?}"), shape, bytes })
            .collect();
        let mut notes = self.notes.clone();
        checksum::add(&mut notes, &contents);
        let refuse = |reason: String| Error::new("save", reason);
        let bytes = safetensors::serialize(stored, None).map_err(|error| refuse(error.to_string()))?;
        with_notes(&bytes, &notes).ok_or_else(|| refuse("the header cannot be written".to_owned()))
    }

    /// The tensors as a tree like another, with names, types and shapes that fit. Elements of 16 bits fit leaves of `f32`, and
    /// `i32` and `u8` those of `i64`: they are cast, and nothing is lost.
    ///
    /// ```
    /// use glassgrad::{Tensor, save::File};
    /// let file = File::of(&(Tensor::from([1.0]), Tensor::from(2.0))).unwrap();
    /// let error = file.tree(&vec![Tensor::from([1.0]); 3]).unwrap_err().to_string();
    /// assert!(error.contains("1 is f64[1] here and f64[] in the file"), "{error}");
    /// assert!(error.contains("2 is not in the file"), "{error}");
    /// ```
    pub fn tree<X: Tree>(&self, like: &X) -> Result<X, Error> {
        self.tree_from(like, |path| Source::named(name_of(path)))
    }

    /// The same from a file with other names: a function says where each leaf is found.
    ///
    /// ```
    /// use glassgrad::{Tensor, save::{File, Source}};
    /// let file = File::of(&(Tensor::from([1.0]), Tensor::from([2.0]))).unwrap();
    /// let swapped = file.tree_from(&vec![Tensor::from([0.0]); 2], |path| match path.to_string().as_str() {
    ///     "0" => Source::named("1"),
    ///     _ => Source::named("0"),
    /// });
    /// assert_eq!(swapped.unwrap()[0].to_string(), "[2]");
    /// ```
    pub fn tree_from<X: Tree>(&self, like: &X, source: impl Fn(&tree::Path) -> Source) -> Result<X, Error> {
        let mut differences: Vec<String> = Vec::new();
        let mut used: Vec<String> = Vec::new();
        let tree = like.map_with_path(|path, leaf| {
            let Source { name, transposed } = source(path);
            let here = name_of(path);
            let Some(stored) = self.tensors.get(&name) else {
                let name = if name == here { String::new() } else { format!(" (as {name})") };
                differences.push(format!("{here} is not in the file{name}"));
                return leaf.clone();
            };
            used.push(name);
            let found = if transposed { stored.transpose() } else { stored.clone() };
            // A file of a storage type fits where its compute type is expected, which holds every element.
            let is_wider = found.error().is_none() && found.dtype().compute_type() == leaf.dtype();
            let found = if is_wider { found.cast(leaf.dtype()) } else { found };
            if found.error().is_some() || found.shape() != leaf.shape() || found.dtype() != leaf.dtype() {
                let described = |tensor: &Tensor| format!("{}{}", tensor.dtype(), tensor.shape());
                differences.push(format!("{here} is {} here and {} in the file", described(leaf), described(stored)));
            }
            found
        });
        let unused = self.tensors.iter().filter(|(name, _)| !used.contains(name));
        differences.extend(
            unused.map(|(name, tensor)| format!("{name} {}{} is not expected", tensor.dtype(), tensor.shape())),
        );
        if differences.is_empty() {
            return tree.realise();
        }
        let message = format!("the file does not fit:\n    {}", differences.join("\n    "));
        Err(Error::new("load", message))
    }
}

/// The bytes of a file without notes, with notes in the order of their names: the same content makes the same bytes, which
/// the hash map that `safetensors` takes notes in does not.
fn with_notes(bytes: &[u8], notes: &BTreeMap<String, String>) -> Option<Vec<u8>> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (header, elements) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let tensors = std::str::from_utf8(header).ok()?.trim_end().strip_prefix('{')?;
    let notes: Vec<String> = notes.iter().map(|(name, note)| format!("{}:{}", quoted(name), quoted(note))).collect();
    let comma = if tensors == "}" { "" } else { "," };
    let mut header = format!("{{\"__metadata__\":{{{}}}{comma}{tensors}", notes.join(","));
    // Elements begin at a multiple of eight bytes.
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    Some([&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), elements].concat())
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\0'..'\u{20}' => quoted += &format!("\\u{:04x}", u32::from(character)),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// The warning about a file without a checksum.
const NO_CHECKSUM: &str =
    "the file has no checksum, so damage to it cannot be detected; a file that glassgrad writes has one";

/// All bytes of a regular file. Its length is known before memory is asked for, and memory that is not there is an error.
fn whole(path: &Path) -> Result<Vec<u8>, String> {
    let mut file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let about = file.metadata().map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let length = about.len();
    let is_there = usize::try_from(length).is_ok_and(|length| bytes.try_reserve_exact(length).is_ok());
    if !is_there {
        return Err(format!("there is not enough memory for its {length} bytes"));
    }
    // A file that grows while it is read is cut off here, and refused for its length.
    file.by_ref().take(length).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// A tensor on its way into a file.
struct Stored {
    shape: Vec<usize>,
    dtype: Dtype,
    bytes: Vec<u8>,
}

impl View for Stored {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// The name of a leaf; that of a tensor alone, which has none, is `value`.
fn name_of(path: &tree::Path) -> String {
    let name = path.to_string();
    if name.is_empty() { "value".to_owned() } else { name }
}
