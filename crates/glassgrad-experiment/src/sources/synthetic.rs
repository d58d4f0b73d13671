//! Synthetic data sets by name.

use glassgrad::Tensor;
use glassgrad::data::synthetic::{CURVES, Curve, blobs, circles, moons, spirals};
use glassgrad::data::{Labelled, Source};
use glassgrad::error::Error;
use glassgrad::rng::Key;

/// Points of the plane in classes: a name, a title, how many classes there are, and how they are drawn with some noise.
type Plane = (&'static str, &'static str, usize, fn(Key, usize, f64) -> (Tensor, Tensor));

const PLANES: [Plane; 4] = [
    ("moons", "Two interleaving half-moons", 2, moons),
    ("circles", "Two concentric circles", 2, |key, count, noise| circles(key, count, 0.5, noise)),
    ("spirals", "Three spirals from one centre", 3, |key, count, noise| spirals(key, count, 3, noise)),
    // The others are about as large as 1; the centres of clouds lie between -10 and 10.
    ("blobs", "Three Gaussian blobs", 3, |key, count, noise| blobs(key, count, 3, 10.0 * noise)),
];

/// Points in classes, or a function of one number, by name.
pub fn synthetic(name: &str, key: Key, count: usize, noise: f64) -> Result<Source, Error> {
    if let Some((name, title, classes, draw)) = PLANES.iter().find(|(known, ..)| *known == name) {
        let (points, indices) = draw(key, count, noise);
        let names = (0..*classes).map(|class| class.to_string()).collect();
        let examples = Labelled::classes(points, indices, names)?;
        return Ok(source(name, (*title).to_owned(), &["x", "y"], examples));
    }
    let curve = Curve::named(name).map_err(|_| {
        let error = Error::new("data", format!("there is no synthetic data set {name:?}"));
        error.help(format!("there are {}", names().collect::<Vec<_>>().join(", ")))
    })?;
    let (x, y) = curve.sample(key, count, noise);
    let (low, high) = curve.interval;
    let title = format!("y = {} for x from {low:.3} to {high:.3}", curve.formula);
    Ok(source(name, title, &["x"], Labelled::numbers(x, y, vec!["y".to_owned()])?))
}

/// The names of all synthetic data sets.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PLANES.iter().map(|(name, ..)| *name).chain(CURVES.iter().map(|curve| curve.name))
}

/// The functions of one number among it.
pub fn function_names() -> Vec<&'static str> {
    CURVES.iter().map(|curve| curve.name).collect()
}

fn source(name: &str, title: String, features: &[&str], examples: Labelled) -> Source {
    let feature_names = features.iter().map(|name| (*name).to_owned()).collect();
    Source { name: name.to_owned(), title, feature_names, examples, test: None }
}
