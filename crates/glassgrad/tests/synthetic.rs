//! Data that are made up: the geometry, the balance of the classes, and the seeds.

use glassgrad::Tensor;
use glassgrad::data::synthetic::{CURVES, Curve, blobs, circles, moons, spirals};
use glassgrad::lang::parse;
use glassgrad::rng::Key;

type Points = Vec<([f64; 2], usize)>;
type Set = fn(Key, usize, f64) -> (Tensor, Tensor);

fn listed((points, classes): (Tensor, Tensor)) -> Points {
    let numbers = points.to_f64_vec().unwrap();
    let classes = classes.to_vec::<i64>().unwrap();
    assert_eq!(numbers.len(), 2 * classes.len());
    numbers.as_chunks::<2>().0.iter().copied().zip(classes.into_iter().map(|class| class as usize)).collect()
}

fn sizes(points: &Points, classes: usize) -> Vec<usize> {
    (0..classes).map(|class| points.iter().filter(|(_, other)| *other == class).count()).collect()
}

/// All sets of points with two classes, by key, count and noise.
fn sets() -> [Set; 4] {
    [
        moons,
        |key, count, noise| circles(key, count, 0.5, noise),
        |key, count, noise| spirals(key, count, 2, noise),
        |key, count, noise| blobs(key, count, 2, noise),
    ]
}

#[test]
fn moons_are_two_half_circles() {
    for ([x, y], class) in listed(moons(Key::new(3), 201, 0.0)) {
        // The upper one is around the origin, the lower one around (1, 1/2).
        let (x, y, side) = if class == 0 { (x, y, y) } else { (x - 1.0, y - 0.5, 0.5 - y) };
        assert!((x.hypot(y) - 1.0).abs() < 1e-6 && side >= -1e-6, "{x} {y}");
    }
    // Scikit-learn's points, in its order before shuffling: the ends of both moons are among them.
    let points = listed(moons(Key::new(3), 5, 0.0));
    let expected = [[1.0, 0.0], [-1.0, 0.0], [0.0, 0.5], [1.0, -0.5], [2.0, 0.5]];
    for (place, end) in expected.into_iter().enumerate() {
        let class = usize::from(place >= 2);
        let near = |point: [f64; 2]| (point[0] - end[0]).hypot(point[1] - end[1]) < 1e-6;
        assert_eq!(points.iter().filter(|(point, other)| *other == class && near(*point)).count(), 1, "{end:?}");
    }
}

#[test]
fn circles_spirals_and_blobs_are_where_they_should_be() {
    for ([x, y], class) in listed(circles(Key::new(3), 100, 0.3, 0.0)) {
        assert!((x.hypot(y) - [1.0, 0.3][class]).abs() < 1e-6);
    }
    for ([x, y], class) in listed(spirals(Key::new(3), 99, 3, 0.0)) {
        let radius = x.hypot(y);
        let turns = y.atan2(x) / std::f64::consts::TAU - radius - class as f64 / 3.0;
        assert!(radius < 1.0 + 1e-6 && (turns - turns.round()).abs() < 1e-5, "{turns}");
    }
    // Clouds without width are their centres; with it, they have it.
    let centres = listed(blobs(Key::new(3), 3, 3, 0.0));
    let centre = |class: usize| centres.iter().find(|(_, other)| *other == class).unwrap().0;
    let points = listed(blobs(Key::new(3), 30_000, 3, 0.7));
    for class in 0..3 {
        let own: Vec<[f64; 2]> = points.iter().filter(|(_, other)| *other == class).map(|(point, _)| *point).collect();
        for axis in 0..2 {
            let centre = centre(class)[axis];
            assert!((-10.0..10.0).contains(&centre));
            let moment =
                |power: i32| own.iter().map(|p| (p[axis] - centre).powi(power)).sum::<f64>() / own.len() as f64;
            // Four standard errors of ten thousand draws.
            assert!(moment(1).abs() < 4.0 * 0.7 / 100.0, "{}", moment(1));
            assert!((moment(2) / 0.49 - 1.0).abs() < 4.0 * 2.0_f64.sqrt() / 100.0, "{}", moment(2));
        }
    }
}

#[test]
fn classes_are_balanced_and_seeds_decide() {
    for set in sets() {
        let points = listed(set(Key::new(1), 101, 0.1));
        let mut balance = sizes(&points, 2);
        balance.sort_unstable();
        assert_eq!(balance, [50, 51]);
        assert_eq!(points, listed(set(Key::new(1), 101, 0.1)));
        assert_ne!(points, listed(set(Key::new(2), 101, 0.1)));
        // They are in random order: no class comes first.
        let first: Points = points[..50].to_vec();
        assert!(sizes(&first, 2).iter().all(|count| *count > 10));
        assert!(listed(set(Key::new(1), 0, 0.1)).is_empty());
        assert_eq!(listed(set(Key::new(1), 1, 0.1)).len(), 1);
    }
    assert_eq!(sizes(&listed(spirals(Key::new(1), 11, 4, 0.0)), 4), [3, 3, 3, 2]);
    assert_eq!(sizes(&listed(blobs(Key::new(1), 11, 0, 0.0)), 1), [11]);
}

#[test]
fn noise_has_the_deviation_asked_for() {
    let key = Key::new(5);
    let (exact, noisy) = (listed(moons(key, 20_000, 0.0)), listed(moons(key, 20_000, 0.3)));
    let misses: Vec<f64> = exact.iter().zip(&noisy).flat_map(|((a, _), (b, _))| [b[0] - a[0], b[1] - a[1]]).collect();
    let square = misses.iter().map(|miss| miss * miss).sum::<f64>() / misses.len() as f64;
    assert!((square / 0.09 - 1.0).abs() < 4.0 * (2.0 / misses.len() as f64).sqrt(), "{square}");
}

#[test]
fn curves_are_their_formulas() {
    for curve in CURVES {
        let formula = parse(curve.formula).unwrap_or_else(|error| panic!("{}: {error}", curve.name));
        let (x, y) = curve.sample(Key::new(1), 200, 0.0);
        let (low, high) = curve.interval;
        for (x, y) in x.to_f64_vec().unwrap().into_iter().zip(y.to_f64_vec().unwrap()) {
            assert!((low - 1e-6..=high + 1e-6).contains(&x));
            let expected = formula.evaluate(&[x])[0];
            assert!(
                (y - expected).abs() <= 1e-6 * (1.0 + expected.abs()),
                "{}: {y} at {x}, not {expected}",
                curve.name
            );
        }
        let (x, y) = curve.grid(101);
        let (x, y) = (x.to_f64_vec().unwrap(), y.to_f64_vec().unwrap());
        assert!(
            ((x[100] - x[0]) / (high - low) - 1.0).abs() < 1e-6 && y.iter().all(|y| y.is_finite()),
            "{}",
            curve.name
        );
    }
    let names: std::collections::BTreeSet<&str> = CURVES.iter().map(|curve| curve.name).collect();
    assert_eq!(names.len(), CURVES.len());
    let sine = Curve::named("sine").unwrap();
    let targets = |seed: u64| sine.sample(Key::new(seed), 50, 0.1).1.to_vec::<f32>().unwrap();
    assert!(targets(1) == targets(1) && targets(1) != targets(2));
    assert_eq!(sine.sample(Key::new(1), 0, 0.1).0.shape().to_string(), "[0, 1]");
}
