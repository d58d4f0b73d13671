//! Trees in files: the safetensors format, with the paths of leaves as names.
//!
//! A file is written beside its place and then put there in one step, so that a reader finds the old one or the new
//! one, whatever happens in between. What is read is checked before it is believed: a file that is cut off, or lies about
//! itself, or holds other names, types or shapes than the tree expects, is refused with a list of all differences. A checksum of
//! everything that decides on the result is stored as one more note of the file; a file whose content does not have it is
//! refused, and one without any, as other programs write them, is read with a warning in [`File::warnings`].
//!
//! ```
//! use glassgrad::nn::{Activation, Mlp};
//! use glassgrad::{rng::Key, save, tree::Tree};
//! # let folder = std::env::temp_dir().join(format!("glassgrad-save-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! let path = folder.join("network.safetensors");
//! let network = Mlp::new(Key::new(1), &[4, 10, 3], Activation::Tanh);
//! save::save(&path, &network, &[("data", "irises")]).unwrap();
//! // A network of the same shape says what is expected.
//! let loaded = save::load(&path, &Mlp::new(Key::new(2), &[4, 10, 3], Activation::Tanh)).unwrap();
//! assert_eq!(loaded.tree.layers[0].weight.to_string(), network.layers[0].weight.to_string());
//! let error = save::load(&path, &Mlp::new(Key::new(2), &[4, 11, 3], Activation::Tanh)).unwrap_err();
//! assert!(error.to_string().contains("layers.0.weight is f32[4, 11] here and f32[4, 10] in the file"), "{error}");
//! # std::fs::remove_dir_all(&folder).unwrap();
//! ```

mod atomic;
mod checksum;
mod elements;
mod file;

pub use atomic::write_atomically;
pub use file::{File, Loaded, Source};

use std::path::Path;

use crate::error::Error;
use crate::tree::Tree;

/// Writes a tree to a file, with notes about it.
///
/// ```
/// use glassgrad::{Tensor, save};
/// let nowhere = std::path::Path::new("/there is no such folder/file.safetensors");
/// let error = save::save(nowhere, &Tensor::from([1.0]), &[]).unwrap_err();
/// assert!(error.to_string().contains("cannot write"));
/// ```
pub fn save<X: Tree>(path: impl AsRef<Path>, tree: &X, notes: &[(&str, &str)]) -> Result<(), Error> {
    let mut file = File::of(tree)?;
    file.notes.extend(notes.iter().map(|(name, note)| ((*name).to_owned(), (*note).to_owned())));
    write_atomically(path.as_ref(), &file.to_bytes()?)
}

/// Reads a tree from a file; another tree says what is expected. A damaged file is refused; whether damage could have been
/// noticed is in the warnings.
///
/// ```
/// use glassgrad::{Tensor, save};
/// assert!(save::load("no such file", &Tensor::from([1.0])).unwrap_err().to_string().contains("no such file"));
/// ```
pub fn load<X: Tree>(path: impl AsRef<Path>, like: &X) -> Result<Loaded<X>, Error> {
    let file = File::read(path)?;
    Ok(Loaded { tree: file.tree(like)?, warnings: file.warnings })
}
