//! Synthetic data sets by name.

use glassgrad::Tensor;
use glassgrad::data::synthetic::{CURVES, Curve, blobs, circles, moons, spirals};
use glassgrad::data::{Labelled, Source};
use glassgrad::error::Error;
use glassgrad::lang::{Expression, parse};
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

/// The interval from which examples of an expression are drawn.
const INTERVAL: (f64, f64) = (-3.0, 3.0);
/// The most draws for each example where the expression is not finite everywhere.
const MOST_DRAWS: usize = 50;

/// Examples of a function of one number: one of the named ones, or an expression in x, where it is finite.
pub fn function(text: &str, key: Key, count: usize, noise: f64) -> Result<Source, Error> {
    if function_names().contains(&text) {
        return synthetic(text, key, count, noise);
    }
    let expression = expression_in_x(text).map_err(|reason| Error::new("function", format!("{text}: {reason}")))?;
    let ((arguments, noises), (low, high)) = (key.split(), INTERVAL);
    let draws = (0..count.saturating_mul(MOST_DRAWS)).map(|place| {
        // The value is that of the rounded argument, with 32 bits.
        let x = (low + (high - low) * arguments.uniform(place as u64)) as f32;
        (x, expression.evaluate(&[f64::from(x)])[0] as f32)
    });
    let points: Vec<(f32, f32)> = draws.filter(|(_, y)| y.is_finite()).take(count).collect();
    if points.len() < count {
        let error =
            Error::new("function", format!("{text} is not finite on most of the interval from {low} to {high}"));
        return Err(error.help("choose a function that has values there, such as ln(x + 4)"));
    }
    let x: Vec<f32> = points.iter().map(|(x, _)| *x).collect();
    let noisy = |(place, (_, y)): (usize, &(f32, f32))| (f64::from(*y) + noise * noises.normal(place as u64)) as f32;
    let y: Vec<f32> = points.iter().enumerate().map(noisy).collect();
    let examples = Labelled::numbers(Tensor::new(&x, [count, 1]), Tensor::new(&y, [count, 1]), vec!["y".to_owned()])?;
    let title = format!("y = {} for x from {low} to {high}", expression.source().trim());
    Ok(source("function", title, &["x"], examples))
}

/// An expression with one result in the variable x, or what is wrong with it.
pub fn expression_in_x(text: &str) -> Result<Expression, String> {
    let expression = parse(text).map_err(|error| error.message)?;
    match (expression.variables(), expression.outputs().len()) {
        ([only], 1) if only == "x" => Ok(expression),
        (_, 1) => Err("x is the variable, and the only one".to_owned()),
        (_, several) => Err(format!("it has {several} results, and a function has one result")),
    }
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
