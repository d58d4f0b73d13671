//! Image sets that are too large to embed, which the host of an experiment provides.

use glassgrad::data::Source;
use glassgrad::error::Error;

/// A set of 70,000 images of 28 × 28 pixels in ten classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageSet {
    /// Handwritten digits.
    Mnist,
    /// Articles of clothing.
    FashionMnist,
}

/// The host's image sets: files on a machine that has them; in a browser a subset, if the site was built with one.
pub trait ImageSets: Send + Sync {
    /// Whether a set is at hand without fetching anything.
    fn has(&self, set: ImageSet) -> bool;

    /// How many images a set has, test set included.
    fn count(&self, _: ImageSet) -> usize {
        70_000
    }

    /// The images, `f32[examples, 1, 28, 28]` with ink from 0 to 1, and a test set.
    fn load(&self, set: ImageSet) -> Result<Source, Error>;
}

/// A host without files: only embedded and synthetic data.
#[derive(Clone, Copy, Debug, Default)]
pub struct Embedded;

impl ImageSets for Embedded {
    fn has(&self, _: ImageSet) -> bool {
        false
    }

    fn load(&self, set: ImageSet) -> Result<Source, Error> {
        let name = match set {
            ImageSet::Mnist => "mnist",
            ImageSet::FashionMnist => "fashion-mnist",
        };
        Err(Error::new(name, "the files of this data set are not available here")
            .help("choose digits, which is embedded"))
    }
}
