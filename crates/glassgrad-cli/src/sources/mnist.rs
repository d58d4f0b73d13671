//! MNIST and Fashion-MNIST: four files of images and labels, in a folder or from the net.

use std::path::{Path, PathBuf};

use glassgrad::Tensor;
use glassgrad::data::files::Idx;
use glassgrad::data::{Labelled, Source};
use glassgrad::error::Error;
use glassgrad_experiment::sources::{ImageSet, ImageSets};

use super::cache;
use super::download::{Download, Patience, Progress};

/// The location of data files, and whether missing ones are downloaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct DataLocation {
    /// The folder; the cache of the program if there is none.
    pub(crate) folder: Option<PathBuf>,
    /// Whether files may be fetched from the net into the folder.
    pub(crate) download: bool,
    /// The address of a folder with the four compressed files, in place of the known ones.
    pub(crate) mirror: Option<String>,
}

/// A set of the format: its names, where it is published, and its four files.
struct Set {
    name: &'static str,
    title: &'static str,
    classes: [&'static str; 10],
    mirrors: &'static [&'static str],
    files: [File; 4],
}

/// A file: its name when it is not compressed, and the length and checksum of what is published.
struct File {
    name: &'static str,
    bytes: u64,
    md5: &'static str,
}

const NAMES: [&str; 4] =
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];

const fn file(place: usize, bytes: u64, md5: &'static str) -> File {
    File { name: NAMES[place], bytes, md5 }
}

const MNIST: Set = Set {
    name: "mnist",
    title: "MNIST: handwritten digits, 28 × 28 pixels",
    classes: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
    mirrors: &["https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist"],
    files: [
        file(0, 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        file(1, 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
        file(2, 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
        file(3, 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
    ],
};

const FASHION: Set = Set {
    name: "fashion-mnist",
    title: "Fashion-MNIST: articles of clothing, 28 × 28 pixels",
    classes: ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"],
    mirrors: &[
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
    ],
    files: [
        file(0, 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        file(1, 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
        file(2, 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
        file(3, 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
    ],
};

impl ImageSets for DataLocation {
    fn has(&self, set: ImageSet) -> bool {
        Set::of(set).is_in(self)
    }

    /// Reads the files; those that are missing are downloaded, with a progress bar, if that is allowed.
    fn load(&self, set: ImageSet) -> Result<Source, Error> {
        let mut bar = crate::progress::Fetching::new();
        Set::of(set).source(self, &mut |progress| bar.show(progress))
    }
}

impl Set {
    fn of(set: ImageSet) -> &'static Set {
        match set {
            ImageSet::Mnist => &MNIST,
            ImageSet::FashionMnist => &FASHION,
        }
    }

    fn folder(&self, place: &DataLocation) -> Result<PathBuf, Error> {
        place.folder.clone().map_or_else(|| cache::folder(self.name), Ok)
    }

    fn is_in(&self, place: &DataLocation) -> bool {
        self.folder(place).is_ok_and(|folder| self.files.iter().all(|file| found(&folder, file.name).is_some()))
    }

    fn source(&self, place: &DataLocation, progress: &mut dyn FnMut(&Progress)) -> Result<Source, Error> {
        let folder = self.folder(place)?;
        let mut paths = Vec::new();
        for file in &self.files {
            paths.push(match found(&folder, file.name) {
                Some(path) => path,
                None if place.download => self.fetch(file, &folder, place.mirror.as_deref(), progress)?,
                None => {
                    let message = format!("there is no {} or {}.gz in {}", file.name, file.name, folder.display());
                    return Err(Error::new(self.name, message).help(
                        "name the folder that has the four files by --data DIR, or let them be fetched by --download",
                    ));
                }
            });
        }
        let part = |images: usize| self.part(&paths[images], &paths[images + 1]);
        Ok(Source {
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            feature_names: Vec::new(),
            examples: part(0)?,
            test: Some(part(2)?),
        })
    }

    fn fetch(
        &self,
        file: &File,
        folder: &Path,
        mirror: Option<&str>,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<PathBuf, Error> {
        let mirrors = mirror.map_or_else(|| self.mirrors.to_vec(), |mirror| vec![mirror]);
        let address = |mirror: &str| format!("{}/{}.gz", mirror.trim_end_matches('/'), file.name);
        let path = folder.join(format!("{}.gz", file.name));
        let download = Download {
            addresses: mirrors.into_iter().map(address).collect(),
            bytes: file.bytes,
            md5: file.md5.to_owned(),
            patience: Patience::default(),
            program: "curl",
        };
        download.fetch(&path, progress)?;
        Ok(path)
    }

    /// Images with a channel of their own, and the labels that belong to them.
    fn part(&self, images: &Path, labels: &Path) -> Result<Labelled, Error> {
        let (pictures, classes) = (Idx::read(images)?, Idx::read(labels)?);
        let [count, height, width] = pictures.shape[..] else {
            let message = format!("{} has {} axes, and images have 3", images.display(), pictures.shape.len());
            return Err(Error::new(self.name, message));
        };
        let features = Tensor::from(pictures.fractions().reshaped([count, 1, height, width].into()));
        let names = self.classes.map(str::to_owned).to_vec();
        Labelled::classes(features, Tensor::from(classes.integers()), names)
            .map_err(|error| error.within(format!("{} and {}", images.display(), labels.display())))
    }
}

/// A file by its name, plain or compressed, with the dash of the original or the dot that some unpackers make of it.
fn found(folder: &Path, name: &str) -> Option<PathBuf> {
    let dotted = name.replacen("-idx", ".idx", 1);
    let names = [name.to_owned(), format!("{name}.gz"), format!("{dotted}.gz"), dotted];
    names.into_iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("glassgrad-mnist-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn place(folder: &Path) -> DataLocation {
        DataLocation { folder: Some(folder.to_owned()), ..DataLocation::default() }
    }

    /// Two images of 2 × 2 pixels for training and one for tests.
    fn write_small(folder: &Path, labels: [u8; 2]) {
        let images = |count: u8| {
            [&[0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 2, 0, 0, 0, 2][..], &vec![255; 4 * usize::from(count)]].concat()
        };
        std::fs::write(folder.join("train-images-idx3-ubyte"), images(2)).unwrap();
        std::fs::write(folder.join("train-labels.idx1-ubyte"), [&[0, 0, 8, 1, 0, 0, 0, 2][..], &labels].concat())
            .unwrap();
        std::fs::write(folder.join("t10k-images-idx3-ubyte"), images(1)).unwrap();
        std::fs::write(folder.join("t10k-labels-idx1-ubyte"), [0, 0, 8, 1, 0, 0, 0, 1, 7]).unwrap();
    }

    #[test]
    fn four_files_are_a_source() {
        let folder = folder("small");
        write_small(&folder, [3, 9]);
        let source = place(&folder).load(ImageSet::Mnist).unwrap();
        assert_eq!(source.examples.features.to_vec::<f32>().unwrap(), [1.0; 8]);
        assert_eq!(source.examples.features.shape().to_string(), "[2, 1, 2, 2]");
        assert_eq!(source.test.unwrap().targets.tensor().to_string(), "[7]");
        write_small(&folder, [3, 10]);
        let message = place(&folder).load(ImageSet::FashionMnist).unwrap_err().to_string();
        assert!(
            message.contains("train-labels.idx1-ubyte: example 1 is of the class 10, and there are 10 classes"),
            "{message}"
        );
        std::fs::remove_file(folder.join("t10k-labels-idx1-ubyte")).unwrap();
        let message = place(&folder).load(ImageSet::Mnist).unwrap_err().to_string();
        assert!(message.contains("there is no t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz in"), "{message}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_real_files_are_read() {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/mnist");
        let folder = std::env::var_os("GLASSGRAD_MNIST").map_or(root, PathBuf::from);
        if !folder.join("train-images-idx3-ubyte.gz").exists() {
            eprintln!("skipped: no MNIST in {} (GLASSGRAD_MNIST names the folder)", folder.display());
            return;
        }
        let source = place(&folder).load(ImageSet::Mnist).unwrap();
        assert_eq!(source.examples.features.shape().to_string(), "[60000, 1, 28, 28]");
        let test = source.test.unwrap();
        assert_eq!(test.features.shape().to_string(), "[10000, 1, 28, 28]");
        // The mean that is published with the set.
        assert!((source.examples.features.mean().item().unwrap() - 0.1307).abs() < 1e-4);
    }
}
