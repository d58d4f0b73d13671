//! The images of the site: a subset of MNIST, if `tools/site --mnist DIR` built it with one.
//!
//! The file is `tools/mnist-subset.mjs`'s: two numbers of 32 bits, how many images are for training and how many for tests, then a byte for each
//! label, then 28 × 28 bytes of ink for each image.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glassgrad::Tensor;
use glassgrad::data::{Labelled, Source};
use glassgrad::error::Error;
use glassgrad_experiment::sources::{Embedded, ImageSet, ImageSets};

/// The pixels of an image.
const PIXELS: usize = 28 * 28;

/// What is known about the file.
#[derive(Debug, Default)]
enum State {
    /// The site has none.
    #[default]
    Missing,
    /// It is being fetched.
    Awaited,
    /// Its images.
    There(Subset),
}

/// Images with labels, those for training first.
#[derive(Debug)]
struct Subset {
    training: usize,
    labels: Vec<u8>,
    pixels: Vec<u8>,
}

/// The images that the page has fetched, or fetches.
#[derive(Clone, Debug, Default)]
pub struct Images(Arc<Mutex<State>>);

impl Images {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The site has a file, which is on its way.
    pub fn expect(&self) {
        *self.state() = State::Awaited;
    }

    /// The file itself. One that is not whole is an error, and changes nothing.
    pub fn provide(&self, bytes: &[u8]) -> Result<(), Error> {
        *self.state() = State::There(Subset::read(bytes)?);
        Ok(())
    }
}

fn refused(message: String) -> Error {
    Error::new("mnist", message)
}

impl Subset {
    fn read(bytes: &[u8]) -> Result<Subset, Error> {
        let Some((counts, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(refused(format!("the file of images has {} bytes", bytes.len())));
        };
        let [training, test] = [&counts[..4], &counts[4..]]
            .map(|count| count.iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte)));
        let count = training.saturating_add(test);
        // The length of the file is checked before anything is allocated.
        if count.checked_mul(PIXELS + 1) != Some(rest.len()) || training == 0 || test == 0 {
            return Err(refused(format!("the file of {training} and {test} images has {} bytes", bytes.len())));
        }
        let (labels, pixels) = rest.split_at(count);
        Ok(Subset { training, labels: labels.to_vec(), pixels: pixels.to_vec() })
    }

    fn part(&self, images: std::ops::Range<usize>) -> Result<Labelled, Error> {
        let pixels = &self.pixels[images.start * PIXELS..images.end * PIXELS];
        let ink: Vec<f32> = pixels.iter().map(|byte| f32::from(*byte) / 255.0).collect();
        let labels: Vec<i64> = self.labels[images.clone()].iter().map(|label| i64::from(*label)).collect();
        let names = (0..10).map(|digit| digit.to_string()).collect();
        Labelled::classes(Tensor::new(&ink, [images.len(), 1, 28, 28]), Tensor::from(labels), names)
    }
}

impl ImageSets for Images {
    fn has(&self, set: ImageSet) -> bool {
        set == ImageSet::Mnist && !matches!(*self.state(), State::Missing)
    }

    fn count(&self, set: ImageSet) -> usize {
        match (set, &*self.state()) {
            (ImageSet::Mnist, State::There(subset)) => subset.labels.len(),
            (ImageSet::Mnist | ImageSet::FashionMnist, State::Missing | State::Awaited | State::There(_)) => 0,
        }
    }

    fn load(&self, set: ImageSet) -> Result<Source, Error> {
        match (set, &*self.state()) {
            (ImageSet::Mnist, State::There(subset)) => Ok(Source {
                name: "mnist".to_owned(),
                title: format!("{} handwritten digits of MNIST, 28 × 28 pixels", subset.labels.len()),
                feature_names: Vec::new(),
                examples: subset.part(0..subset.training)?,
                test: Some(subset.part(subset.training..subset.labels.len())?),
            }),
            (ImageSet::Mnist, State::Awaited) => {
                Err(refused("the images are still being fetched".to_owned()).help("start again in a moment"))
            }
            (ImageSet::Mnist, State::Missing) | (ImageSet::FashionMnist, _) => Embedded.load(set),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(training: u32, test: u32) -> Vec<u8> {
        let count = (training + test) as usize;
        let labels = (0..count).map(|number| (number % 10) as u8);
        let pixels = (0..count * PIXELS).map(|number| (number % 256) as u8);
        [training.to_le_bytes(), test.to_le_bytes()].concat().into_iter().chain(labels).chain(pixels).collect()
    }

    #[test]
    fn a_whole_file_is_a_data_set() {
        let images = Images::default();
        assert!(!images.has(ImageSet::Mnist));
        images.expect();
        assert!(images.has(ImageSet::Mnist) && !images.has(ImageSet::FashionMnist));
        assert!(images.load(ImageSet::Mnist).unwrap_err().to_string().contains("still being fetched"));
        images.provide(&file(20, 10)).unwrap();
        let source = images.load(ImageSet::Mnist).unwrap();
        assert_eq!(source.examples.features.shape().to_string(), "[20, 1, 28, 28]");
        assert_eq!(source.test.unwrap().targets.tensor().to_vec::<i64>().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(source.examples.features.max().item().unwrap(), 1.0);
        assert_eq!(images.count(ImageSet::Mnist), 30);
        assert!(images.load(ImageSet::FashionMnist).is_err());
    }

    #[test]
    fn files_that_are_not_whole_are_refused() {
        let whole = file(2, 1);
        let images = Images::default();
        for length in 0..whole.len() {
            assert!(images.provide(&whole[..length]).is_err(), "{length}");
        }
        assert!(images.provide(&[&whole[..], &[0]].concat()).is_err());
        assert!(images.provide(&[0xff; 64]).is_err());
        assert!(!images.has(ImageSet::Mnist));
        let mut wrong = whole;
        wrong[8] = 10;
        images.provide(&wrong).unwrap();
        assert!(images.load(ImageSet::Mnist).unwrap_err().to_string().contains("class 10"));
    }
}
