//! Points of the plane, in classes.

use std::f64::consts::{PI, TAU};

use crate::expr::Tensor;
use crate::rng::Key;

/// Two half circles that hold each other, as scikit-learn makes them: points `f32[count, 2]` in random order, and their
/// classes, `i64[count]`. The first half of the points is on the upper one; noise is normal.
///
/// ```
/// use glassgrad::{data::synthetic::moons, rng::Key};
/// let (points, classes) = moons(Key::new(1), 100, 0.1);
/// assert_eq!((points.shape().to_string(), classes.sum().item().unwrap()), ("[100, 2]".into(), 50.0));
/// ```
pub fn moons(key: Key, count: usize, noise: f64) -> (Tensor, Tensor) {
    let upper = count / 2;
    scattered(key, &[upper, count - upper], noise, |class, place, size| {
        let (sine, cosine) = (PI * along(place, size)).sin_cos();
        if class == 0 { [cosine, sine] } else { [1.0 - cosine, 0.5 - sine] }
    })
}

/// A circle of radius 1 and one of radius `factor` around the same centre. Points and classes are as those of [`moons`].
///
/// ```
/// use glassgrad::{data::synthetic::circles, rng::Key};
/// let (points, _) = circles(Key::new(1), 50, 0.5, 0.0);
/// let radii = points.square().sum_over(1).sqrt();
/// assert!((radii.sum().item().unwrap() - 25.0 * 1.5).abs() < 1e-4);
/// ```
pub fn circles(key: Key, count: usize, factor: f64, noise: f64) -> (Tensor, Tensor) {
    let outer = count / 2;
    scattered(key, &[outer, count - outer], noise, |class, place, size| {
        let (sine, cosine) = (TAU * place as f64 / size as f64).sin_cos();
        if class == 0 { [cosine, sine] } else { [factor * cosine, factor * sine] }
    })
}

/// Spirals of one turn from the centre to the radius 1, an arm for each class. Points and classes are as those of [`moons`].
///
/// ```
/// use glassgrad::{data::synthetic::spirals, rng::Key};
/// let (points, classes) = spirals(Key::new(1), 90, 3, 0.02);
/// assert_eq!((points.shape().to_string(), classes.max().item().unwrap()), ("[90, 2]".into(), 2.0));
/// ```
pub fn spirals(key: Key, count: usize, classes: usize, noise: f64) -> (Tensor, Tensor) {
    let sizes = shared_out(count, classes);
    scattered(key, &sizes, noise, |class, place, size| {
        // From just outside of the centre, where all arms meet, to the end.
        let radius = (place + 1) as f64 / size as f64;
        let (sine, cosine) = (TAU * (class as f64 / sizes.len() as f64 + radius)).sin_cos();
        [radius * cosine, radius * sine]
    })
}

/// Clouds of a standard deviation around centres that are drawn from the square between -10 and 10. Points and classes are as
/// those of [`moons`].
///
/// ```
/// use glassgrad::{data::synthetic::blobs, rng::Key};
/// let (points, classes) = blobs(Key::new(1), 90, 3, 1.0);
/// assert_eq!((points.shape().to_string(), classes.max().item().unwrap()), ("[90, 2]".into(), 2.0));
/// ```
pub fn blobs(key: Key, count: usize, classes: usize, deviation: f64) -> (Tensor, Tensor) {
    let (centres, points) = key.split();
    scattered(points, &shared_out(count, classes), deviation, |class, _, _| {
        [0, 1].map(|axis| 20.0 * centres.uniform(2 * class as u64 + axis) - 10.0)
    })
}

/// Where a place is from the first, 0, to the last, 1.
fn along(place: usize, size: usize) -> f64 {
    if size > 1 { place as f64 / (size - 1) as f64 } else { 0.0 }
}

/// As many for each class as for any other, and one more for the first where that does not come out even.
fn shared_out(count: usize, classes: usize) -> Vec<usize> {
    let classes = classes.max(1);
    (0..classes).map(|class| count / classes + usize::from(class < count % classes)).collect()
}

/// The points of all classes with normal noise, in random order. A point gets its class, its index in it, and how many
/// places there are.
fn scattered(
    key: Key,
    sizes: &[usize],
    noise: f64,
    point: impl Fn(usize, usize, usize) -> [f64; 2],
) -> (Tensor, Tensor) {
    let (order, noises) = key.split();
    let places = sizes.iter().enumerate().flat_map(|(class, size)| (0..*size).map(move |place| (class, place, *size)));
    let drawn: Vec<([f32; 2], i64)> = places
        .enumerate()
        .map(|(number, (class, place, size))| {
            let exact = point(class, place, size);
            let draw = |axis: usize| noises.normal(2 * number as u64 + axis as u64);
            ([0, 1].map(|axis| (exact[axis] + noise * draw(axis)) as f32), class as i64)
        })
        .collect();
    let (points, classes): (Vec<[f32; 2]>, Vec<i64>) =
        order.permutation(drawn.len()).into_iter().map(|place| drawn[place]).unzip();
    (Tensor::new(points.as_flattened(), [points.len(), 2]), Tensor::from(classes))
}
