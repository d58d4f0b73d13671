//! Loss surface around the trajectory of the optimizer, over a plane through it.
//!
//! ```text
//! { "across": [low, high], "up": [low, high], "places": 25, "losses": [[number for each column] for each row],
//!   "path": [{ "x": number, "y": number, "loss": number }, …], "off": number,
//!   "random": whether the second direction is a random one, "examples": count }
//! ```
//!
//! The first axis goes from the first network to the last one, the second along the first principal direction of the residual trajectory.
//! Coordinates are distances in the space of all weights; the first network is at (0, 0), the last one at (distance, 0).
//! Rows go from the top down, and the outermost columns and rows lie on the ends. `losses` are those of networks on the plane; the
//! losses of the path are those of the networks themselves, which lie beside the plane by at most `off`.

use glassgrad::compile;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::rng::Key;
use glassgrad::tree::Tree as _;
use serde_json::{Value, json};

use crate::encode::{list, rounded};
use crate::experiment::network::Network;
use crate::experiment::study::Study;

/// Grid points along each side.
const PLACES: usize = 25;
/// The margin around the trajectory on each side, as a fraction of its length.
const MARGIN: f64 = 0.3;
/// The smaller side of the plane has at least this part of the larger one.
const NARROWEST: f64 = 0.5;
/// At most this many points of the trajectory are sent.
const MOST_NETWORKS: usize = 200;
/// The second direction is computed from at most this many weights in all.
const MOST_WEIGHTS: usize = 1 << 24;
/// Iterations of the power method.
const ROUNDS: usize = 100;
/// Directions shorter than this fraction of the trajectory are rounding.
const NOTHING: f64 = 1e-6;

/// The loss over a plane through the trajectory from the first network to the last one.
pub(crate) fn surface(study: &Study, path: &[Network]) -> Result<Value, Error> {
    let plane = Directions::of(study, path)?;
    let loss = plane.loss(study)?;
    let shown = kept(path, MOST_NETWORKS);
    let mut coordinates = Vec::new();
    for network in &shown {
        coordinates.push(plane.coordinates(network)?);
    }
    let across = ends(coordinates.iter().map(|place| place[0]));
    let up = ends(coordinates.iter().map(|place| place[1]));
    let widest = (across.1 - across.0).max(up.1 - up.0);
    let side = |ends: (f64, f64)| with_margin(ends, if widest > 0.0 { widest } else { plane.unit });
    let (across, up) = (side(across), side(up));
    let at = |(low, high): (f64, f64), place: usize| low + (high - low) * place as f64 / (PLACES - 1) as f64;
    let mut losses = Vec::new();
    for row in (0..PLACES).rev() {
        let row: Result<Vec<f64>, Error> = (0..PLACES).map(|column| loss.at(at(across, column), at(up, row))).collect();
        losses.push(list(&row?));
    }
    let mut points = Vec::new();
    for (network, [x, y, _]) in shown.iter().zip(&coordinates) {
        points.push(json!({ "x": rounded(*x), "y": rounded(*y), "loss": rounded(loss.of(network)?) }));
    }
    Ok(json!({
        "across": list(&[across.0, across.1]),
        "up": list(&[up.0, up.1]),
        "places": PLACES,
        "losses": losses,
        "path": points,
        "off": rounded(coordinates.iter().map(|place| place[2]).fold(0.0, f64::max)),
        "random": plane.is_random,
        "examples": loss.sample.0.shape().first(),
    }))
}

/// At most `most` points of a trajectory, with its first and its last.
fn kept(path: &[Network], most: usize) -> Vec<&Network> {
    let (last, every) = (path.len().saturating_sub(1), path.len().div_ceil(most.max(2) - 1).max(1));
    path.iter()
        .enumerate()
        .filter(|(place, _)| place.is_multiple_of(every) || *place == last)
        .map(|(_, network)| network)
        .collect()
}

fn ends(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| (low.min(number), high.max(number)))
}

/// A side of the plane: what is seen with a margin, and wide enough beside the other side.
fn with_margin((low, high): (f64, f64), widest: f64) -> (f64, f64) {
    let half = (high - low).max(NARROWEST * widest) * (0.5 + MARGIN);
    let middle = 0.5 * (low + high);
    (middle - half, middle + half)
}

/// All floating-point weights of a network, one after another.
fn weights(network: &Network) -> Result<Vec<f64>, Error> {
    let mut weights = Vec::new();
    for leaf in network.flatten().iter().filter(|leaf| leaf.is_float()) {
        weights.extend(leaf.to_f64_vec()?);
    }
    match weights.iter().all(|weight| weight.is_finite()) {
        true => Ok(weights),
        false => Err(Error::new("surface", "a network of the trajectory has weights that are not finite")
            .help("inspect the trajectory before it diverged")),
    }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// Takes the part along a direction of length 1 away.
fn without(mut vector: Vec<f64>, direction: &[f64]) -> Vec<f64> {
    let along = product(&vector, direction);
    vector.iter_mut().zip(direction).for_each(|(number, direction)| *number -= along * direction);
    vector
}

/// The same direction with the length 1.
fn normalised(mut vector: Vec<f64>) -> Vec<f64> {
    let length = product(&vector, &vector).sqrt();
    vector.iter_mut().for_each(|number| *number /= length);
    vector
}

/// A plane in the space of all weights: a point of it, and two directions at right angles, of length 1.
struct Directions<'p> {
    like: &'p Network,
    first: Vec<f64>,
    axes: [Vec<f64>; 2],
    is_random: bool,
    /// A length in proportion to the weights, where the trajectory has none.
    unit: f64,
}

impl<'p> Directions<'p> {
    fn of(study: &Study, path: &'p [Network]) -> Result<Directions<'p>, Error> {
        let (Some(like), Some(last)) = (path.first(), path.last()) else {
            return Err(Error::new("surface", "the trajectory has no network"));
        };
        let first = weights(like)?;
        if first.is_empty() {
            return Err(Error::new("surface", "the network has no weights"));
        }
        let random = |number: u64| {
            Tensor::normal(Key::new(study.settings.seed).fold(11).fold(number), [first.len()]).to_f64_vec()
        };
        let direction = difference(&weights(last)?, &first);
        let length = product(&direction, &direction).sqrt();
        let across = normalised(if length > 0.0 { direction } else { random(0)? });
        let mut rest = Vec::new();
        for network in kept(path, (MOST_WEIGHTS / first.len()).clamp(2, MOST_NETWORKS)) {
            rest.push(without(difference(&weights(network)?, &first), &across));
        }
        let most = rest.iter().map(|vector| product(vector, vector)).fold(0.0, f64::max).sqrt();
        // With one weight there is no second direction: the plane is a line.
        let is_random = most <= NOTHING * length || most == 0.0;
        let up = match is_random {
            true if first.len() < 2 => vec![0.0; first.len()],
            true => normalised(without(random(1)?, &across)),
            false => normalised(without(largest(&rest), &across)),
        };
        let unit = 0.1 * product(&first, &first).sqrt().max(1.0);
        Ok(Directions { like, first, axes: [across, up], is_random, unit })
    }

    /// The projection of a network onto the plane, and its distance from it.
    fn coordinates(&self, network: &Network) -> Result<[f64; 3], Error> {
        let mut rest = difference(&weights(network)?, &self.first);
        let mut places = [0.0; 3];
        for (place, axis) in places.iter_mut().zip(&self.axes) {
            *place = product(&rest, axis);
            rest = without(rest, axis);
        }
        places[2] = product(&rest, &rest).sqrt();
        Ok(places)
    }

    /// A list of weights as a tree of the network's type; what is not a weight is zero.
    fn tree(&self, weights: &[f64]) -> Network {
        let mut rest = weights;
        let mut leaf = |leaf: &Tensor| {
            if !leaf.is_float() {
                return leaf.zeros_like();
            }
            let (own, others) = rest.split_at(leaf.shape().elements());
            rest = others;
            Tensor::new(own, leaf.shape().clone()).cast(leaf.dtype())
        };
        self.like.map(&mut leaf)
    }

    /// The loss over the plane, as a program.
    fn loss<'s>(&self, study: &'s Study) -> Result<PlaneLoss<'s>, Error> {
        let objective = &study.objective;
        let [across, up] = &self.axes;
        let axes = (self.tree(across).realise()?, self.tree(up).realise()?);
        let sample = study.sample()?.realise()?;
        let program = compile(move |(point, (network, axes), batch): &SurfaceArguments| {
            let along = |axis: &Network, by: &Tensor| {
                axis.map(|leaf| if leaf.is_float() { leaf * by.cast(leaf.dtype()) } else { leaf.clone() })
            };
            let moved = network.add(&along(&axes.0, &point.0)).add(&along(&axes.1, &point.1));
            objective.of_batch_plainly(&moved, batch)
        });
        let program = move |question: &SurfaceArguments| program.call(question)?.item();
        Ok(PlaneLoss { first: self.like.clone(), axes, sample, program: Box::new(program) })
    }
}

/// A point of the plane, the plane, and the examples.
type SurfaceArguments = ((Tensor, Tensor), Plane, (Tensor, Tensor));
/// A network, and two directions from it.
type Plane = (Network, (Network, Network));

/// From a question to the loss.
type CompiledLoss<'s> = dyn Fn(&SurfaceArguments) -> Result<f64, Error> + 's;

/// The loss of networks that lie on a plane.
struct PlaneLoss<'s> {
    first: Network,
    axes: (Network, Network),
    sample: (Tensor, Tensor),
    program: Box<CompiledLoss<'s>>,
}

impl PlaneLoss<'_> {
    /// The loss at a point of the plane.
    fn at(&self, x: f64, y: f64) -> Result<f64, Error> {
        self.asked(&self.first, x, y)
    }

    /// The loss of a network itself.
    fn of(&self, network: &Network) -> Result<f64, Error> {
        self.asked(network, 0.0, 0.0)
    }

    fn asked(&self, network: &Network, x: f64, y: f64) -> Result<f64, Error> {
        let point = (Tensor::from(x), Tensor::from(y));
        (self.program)(&(point, (network.clone(), self.axes.clone()), self.sample.clone()))
    }
}

/// The direction in which some vectors are longest together, by the power method on their Gram matrix: the matrix of all
/// products has as many rows as there are vectors, however long these are.
fn largest(vectors: &[Vec<f64>]) -> Vec<f64> {
    let gram: Vec<Vec<f64>> =
        vectors.iter().map(|one| vectors.iter().map(|other| product(one, other)).collect()).collect();
    // The longest vector is no worse a beginning than any, and never at right angles to the answer for want of length.
    let longest = (0..vectors.len()).max_by(|a, b| gram[*a][*a].total_cmp(&gram[*b][*b])).unwrap_or(0);
    let mut shares: Vec<f64> = gram.get(longest).cloned().unwrap_or_default();
    for _ in 0..ROUNDS {
        shares = normalised(gram.iter().map(|row| product(row, &shares)).collect());
    }
    let mut direction = vec![0.0; vectors.first().map_or(0, Vec::len)];
    for (vector, share) in vectors.iter().zip(&shares) {
        direction.iter_mut().zip(vector).for_each(|(number, own)| *number += share * own);
    }
    direction
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::settings::{Model, Number};
    use crate::views::tests::{moved, of_text, spoiled, suited};

    /// A curved trajectory: a few steps of gradient descent from the initial weights.
    fn trajectory(study: &Study, steps: usize) -> Vec<Network> {
        let sample = study.sample().expect("examples");
        let mut path = vec![study.start.clone()];
        for _ in 0..steps {
            let network = &path[path.len() - 1];
            let gradient =
                glassgrad::grad(|network: &Network| study.objective.of_batch_plainly(network, &sample))(network);
            let step = gradient.map(|leaf| if leaf.is_float() { leaf * -2.0 } else { leaf.clone() });
            path.push(network.add(&step).realise().expect("weights"));
        }
        path
    }

    fn number(value: &Value) -> f64 {
        value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
    }

    #[test]
    fn the_plane_goes_through_the_first_and_the_last_network() {
        for (dtype, tolerance) in [(Number::F64, 1e-10), (Number::F32, 1e-5)] {
            let study = suited("moons", |settings| settings.dtype = dtype);
            let path = trajectory(&study, 12);
            let plane = Directions::of(&study, &path).expect("a plane");
            let loss = plane.loss(&study).expect("a program");
            let sample = study.sample().expect("examples");
            for network in [&path[0], &path[12]] {
                let [x, y, off] = plane.coordinates(network).expect("a place");
                let expected = study.objective.of_batch_plainly(network, &sample).item().expect("a loss");
                let on_the_plane = loss.at(x, y).expect("a loss");
                assert!((on_the_plane - expected).abs() <= tolerance * expected, "{on_the_plane} and {expected}");
                assert!((loss.of(network).expect("a loss") - expected).abs() <= tolerance * expected);
                assert!(off <= 1e-6 && y.abs() <= 1e-6, "{off}, {y}");
            }
            assert!(!plane.is_random);
            let [across, up] = &plane.axes;
            assert!((product(across, across) - 1.0).abs() < 1e-12 && (product(up, up) - 1.0).abs() < 1e-12);
            assert!(product(across, up).abs() < 1e-12);
        }
    }

    #[test]
    fn no_other_direction_holds_more_of_the_way() {
        let study = suited("iris", |_| {});
        let path = trajectory(&study, 10);
        let plane = Directions::of(&study, &path).expect("a plane");
        let rest: Vec<Vec<f64>> = path
            .iter()
            .map(|network| without(difference(&weights(network).expect("weights"), &plane.first), &plane.axes[0]))
            .collect();
        let held = |direction: &[f64]| rest.iter().map(|vector| product(vector, direction).powi(2)).sum::<f64>();
        let best = held(&plane.axes[1]);
        let all: f64 = rest.iter().map(|vector| product(vector, vector)).sum();
        assert!(best > 0.5 * all, "{best} of {all}");
        for vector in rest.iter().filter(|vector| product(vector, vector) > 0.0) {
            assert!(held(&normalised(vector.clone())) <= best * (1.0 + 1e-9));
        }
    }

    #[test]
    fn the_answer_holds_the_grid_and_the_way() {
        let study = suited("moons", |settings| settings.layers = vec![4]);
        let path = trajectory(&study, 6);
        let answer = surface(&study, &path).expect("a surface");
        let rows = answer["losses"].as_array().expect("rows");
        assert!(rows.len() == 25 && rows.iter().all(|row| row.as_array().map(Vec::len) == Some(25)));
        assert_eq!(answer["path"].as_array().map(Vec::len), Some(7));
        for point in answer["path"].as_array().expect("a trajectory") {
            for (place, side) in [("x", "across"), ("y", "up")] {
                let inside = number(&answer[side][0])..=number(&answer[side][1]);
                assert!(inside.contains(&number(&point[place])));
            }
        }
        // The corner at the top on the left.
        let plane = Directions::of(&study, &path).expect("a plane");
        let corner = plane.loss(&study).expect("a program").at(number(&answer["across"][0]), number(&answer["up"][1]));
        let shown = number(&rows[0][0]);
        assert!((shown - corner.expect("a loss")).abs() < 1e-4 * shown);
        assert!(number(&answer["path"][6]["loss"]) < number(&answer["path"][0]["loss"]));
    }

    #[test]
    fn ways_that_go_nowhere_or_straight_on_have_a_random_direction() {
        let study = suited("function", |settings| settings.layers = Vec::new());
        let ahead = moved(&study.start, "layers.0.weight", 0, 0.5);
        for path in [vec![study.start.clone()], vec![study.start.clone(); 3], vec![study.start.clone(), ahead]] {
            let answer = surface(&study, &path).expect("a surface");
            assert_eq!(answer["random"], true);
            assert!(answer["losses"].as_array().expect("rows").iter().all(|row| row[3].is_number()));
        }
    }

    #[test]
    fn every_family_has_a_surface_and_hostile_ways_are_refused() {
        for study in
            [suited("moons", |settings| (settings.model, settings.layers) = (Model::Sparse, vec![4])), of_text(|_| {})]
        {
            assert!(surface(&study, &trajectory(&study, 2)).is_ok());
            assert!(surface(&study, &[]).unwrap_err().to_string().contains("no network"));
            let error = surface(&study, &[study.start.clone(), spoiled(&study.start)]).unwrap_err();
            assert!(error.to_string().contains("not finite"), "{error}");
        }
    }

    #[test]
    fn long_ways_are_thinned_and_keep_their_ends() {
        let study = suited("function", |settings| settings.layers = Vec::new());
        let long: Vec<Network> = (0..1001).map(|k| moved(&study.start, "layers.0.bias", 0, f64::from(k))).collect();
        let thin = kept(&long, 200);
        assert!(thin.len() <= 201);
        let bias = |network: &Network| weights(network).expect("weights")[1];
        let ends = [thin[0], thin[thin.len() - 1]].map(bias);
        assert!((ends[1] - ends[0] - 1000.0).abs() < 1e-3);
        assert_eq!(kept(&long[..1], 2).len(), 1);
    }
}
