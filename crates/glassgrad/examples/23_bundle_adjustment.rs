//! Cameras and points from what the cameras see: a derivative that is sparse because integers pick what a residual reads.
//!
//! cargo run --release -p glassgrad-examples --example 23_bundle_adjustment

mod picture;
mod random;

use glassgrad::calculus;
use glassgrad::error::Error;
use glassgrad::expr::s;
use glassgrad::optim::LevenbergMarquardt;
use glassgrad::{Tensor, Tree};

use picture::{Corner, Panel, linear, logarithmic, save};
use random::Random;

const CAMERAS: usize = 20;
const POINTS: usize = 300;
/// How many cameras see each point.
const SEEN_BY: usize = 6;
/// The error of what is seen, where the picture of a camera is about one wide.
const NOISE: f64 = 1e-3;

/// Cameras turn by their first three numbers and shift by the others.
#[derive(Clone, Tree)]
struct Scene {
    cameras: Tensor,
    points: Tensor,
}

/// What is known: which camera sees which point, and where.
struct Sights {
    camera: Tensor,
    point: Tensor,
    seen: Tensor,
}

fn columns<const N: usize>(table: &Tensor, first: isize) -> [Tensor; N] {
    std::array::from_fn(|k| table.slice(&[s(..), s(first + k as isize)]))
}

fn cross([a, b, c]: &[Tensor; 3], [x, y, z]: &[Tensor; 3]) -> [Tensor; 3] {
    [b * z - c * y, c * x - a * z, a * y - b * x]
}

/// Where points appear in the pictures of their cameras, one row for each sight.
///
/// A turn is p + 2(a×p + a×(a×p))/(1 + a·a), where a is its axis times the tangent of half its angle: no sine, no root.
fn seen(scene: &Scene, camera: &Tensor, point: &Tensor) -> Tensor {
    let (pose, place) = (scene.cameras.take(camera, 0), scene.points.take(point, 0));
    let (axis, shift, place) = (columns::<3>(&pose, 0), columns::<3>(&pose, 3), columns::<3>(&place, 0));
    let once = cross(&axis, &place);
    let twice = cross(&axis, &once);
    let length = axis[0].square() + axis[1].square() + axis[2].square() + 1.0;
    let [x, y, z]: [Tensor; 3] =
        std::array::from_fn(|k| &place[k] + (&once[k] + &twice[k]) * 2.0 / &length + &shift[k]);
    Tensor::stack([&(x / &z), &(y / &z)], 1)
}

/// What is seen too far to one side, and how far the first two cameras are from where they are known to stand: without
/// these, the whole scene could be moved, turned and scaled.
fn residuals(scene: &Scene, sights: &Sights, known: &Tensor) -> (Tensor, Tensor) {
    let errors = (seen(scene, &sights.camera, &sights.point) - &sights.seen) / NOISE;
    (errors, (scene.cameras.slice(&[s(..2)]) - known) / NOISE)
}

/// A scene in front of cameras that stand on an arc and look at its middle.
fn scene(random: &mut Random) -> Scene {
    let mut cameras = Vec::new();
    for k in 0..CAMERAS {
        let angle = 1.2 * (k as f64 / (CAMERAS - 1) as f64 - 0.5);
        // Turned about the vertical axis, five away.
        cameras.extend([random.normal() * 0.02, (0.5 * angle).tan(), random.normal() * 0.02]);
        cameras.extend([random.normal() * 0.1, random.normal() * 0.1, 5.0]);
    }
    let points: Vec<f64> = (0..3 * POINTS).map(|_| random.uniform(-1.0, 1.0)).collect();
    Scene { cameras: Tensor::new(&cameras, [CAMERAS, 6]), points: Tensor::new(&points, [POINTS, 3]) }
}

fn moved(tensor: &Tensor, by: f64, random: &mut Random) -> Result<Tensor, Error> {
    let numbers: Vec<f64> = tensor.to_vec::<f64>()?.iter().map(|number| number + by * random.normal()).collect();
    Ok(Tensor::new(&numbers, tensor.shape().clone()))
}

/// The root of the mean of squares.
fn spread(tensor: &Tensor) -> Result<f64, Error> {
    Ok((tensor.square().sum().item()? / tensor.shape().elements() as f64).sqrt())
}

fn main() -> Result<(), Error> {
    let mut random = Random::new(7);
    let truth = scene(&mut random);
    let (mut camera, mut point) = (Vec::new(), Vec::new());
    for number in 0..POINTS {
        for other in random.permutation(CAMERAS).into_iter().take(SEEN_BY) {
            camera.push(other as i64);
            point.push(number as i64);
        }
    }
    let (camera, point) = (Tensor::from(camera), Tensor::from(point));
    let exact = seen(&truth, &camera, &point).detach()?;
    let sights = Sights { seen: moved(&exact, NOISE, &mut random)?, camera, point };
    let known = truth.cameras.slice(&[s(..2)]).detach()?;
    let start =
        Scene { cameras: moved(&truth.cameras, 0.02, &mut random)?, points: moved(&truth.points, 0.1, &mut random)? };

    let function = |scene: &Scene| residuals(scene, &sights, &known);
    let jacobian = calculus::jacobian(function).at(&start)?;
    let count = POINTS * SEEN_BY;
    println!("{CAMERAS} cameras, {POINTS} points, {count} sights\n");
    println!("The Jacobian has a block for each sight, and the integers that say where it belongs:");
    println!("held {} kB, dense {} kB", jacobian.bytes() / 1000, jacobian.dense_bytes() / 1000);
    // Two rows for each sight, by six numbers of a camera and three of a point, and two integers.
    assert!(jacobian.bytes() < 8 * (count * (2 * 9 + 2) + 1000), "{}", jacobian.bytes());
    let normal = jacobian.gram().shifted(1.0);
    println!("JᵀJ with a shift: {}", normal.structure());
    println!("solved {}\n", normal.factor()?.describe());

    let found = LevenbergMarquardt::new().tolerance(1e-6).minimise(function, &start)?;
    println!("{found}\n");
    assert!(found.converged && found.rounds.len() < 30, "{found}");

    let (left, _) = function(&found.point);
    let freedom = 1.0 - (6 * CAMERAS + 3 * POINTS) as f64 / (2 * count + 12) as f64;
    let (expected, left) = (freedom.sqrt(), spread(&left)?);
    println!("what is left of the sights: {left:.3} times the noise; {expected:.3} is expected");
    assert!((left - expected).abs() < 0.05, "{left}");
    let away = |scene: &Scene| spread(&(&scene.points - &truth.points));
    let (before, after) = (away(&start)?, away(&found.point)?);
    println!("points are off by {before:.4} before and {after:.4} after");
    assert!(after < 0.1 * before);

    draw(&truth, &start, &found.point, &found.rounds.iter().map(|round| round.gradient_norm).collect::<Vec<_>>())
}

fn draw(truth: &Scene, start: &Scene, end: &Scene, gradient_norms: &[f64]) -> Result<(), Error> {
    let from_above = |scene: &Scene| -> Result<Vec<(f64, f64)>, Error> {
        let numbers = scene.points.to_vec::<f64>()?;
        Ok(numbers.chunks_exact(3).take(60).map(|point| (point[0], point[2])).collect())
    };
    let plane = |title: &str| Panel::new(title, linear("x", -1.4..1.4), linear("z", -1.4..1.8));
    let before = plane("sixty points before").dots("", from_above(truth)?).dots("", from_above(start)?);
    let after = plane("after")
        .dots("where they are", from_above(truth)?)
        .dots("where they are found", from_above(end)?)
        .legend_at(Corner::UpperRight);
    let gradient_norms: Vec<(f64, f64)> =
        gradient_norms.iter().enumerate().map(|(round, norm)| (round as f64, *norm)).collect();
    let (low, high) =
        gradient_norms.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), (_, y)| (low.min(*y), high.max(*y)));
    let descent = Panel::new(
        "length of the gradient",
        linear("round", 0.0..gradient_norms.len() as f64),
        logarithmic("‖Jᵀr‖", low / 3.0..high * 3.0),
    )
    .path("", gradient_norms);
    save("bundle_adjustment", &[before, after, descent]);
    Ok(())
}
