//! Random functions of numbers: compiled tapes and recorded statements against the tape, dual numbers and plain evaluation.
//!
//! A function is recorded at one point and compiled for every kind of derivative. At other points, among them NaN, infinities,
//! zeros of both signs and kinks, the code must agree with the reference to 1e-12, and its guards with those of a replay. Where a
//! result differs by more, the reference is evaluated again with every operand perturbed by some units in the last place: what
//! rounding explains is no failure.

pub mod function;

use glassgrad::scalar::{Compiled, CompiledTape, Derivative, Dual, Mode, Recorded, Var, gradient, hvp, vjp};

use crate::counters;
use crate::generator::{Failure, Generator, Selection};
use crate::random::Random;
use function::{Function, OPERANDS, SPECIAL};

/// The generator of functions of numbers.
#[derive(Debug)]
pub struct Tapes {
    selection: Selection,
}

impl Tapes {
    /// The generator, with a selection of its oracles.
    pub fn new(selection: Selection) -> Tapes {
        Tapes { selection }
    }
}

/// The oracles: each kind of compiled code, its guards beside those of a replay, code for two points at once, recording anew
/// where a guard fails, and derivatives by statements.
const NAMES: &[&str] =
    &["value", "gradient", "tangent", "pullback", "hvp", "jacobian", "guards", "lanes", "variants", "statements"];
const KINDS: [(&str, Derivative); 6] = [
    ("value", Derivative::Value),
    ("gradient", Derivative::Gradient),
    ("tangent", Derivative::Tangent),
    ("pullback", Derivative::Pullback),
    ("hvp", Derivative::HessianProduct),
    ("jacobian", Derivative::Jacobian),
];
/// The relative difference that needs no explanation.
const TOLERANCE: f64 = 1e-12;
/// The largest relative perturbation of an operand that stands for rounding errors, and how often one is drawn.
const NOISE: (f64, usize) = (8.0 * f64::EPSILON, 12);
/// Differences up to this multiple of those that perturbed values cause are rounding errors.
const SAFETY: f64 = 32.0;

/// What is evaluated: arguments, and the directions or weights behind them.
struct Point {
    x: Vec<f64>,
    direction: Vec<f64>,
    weights: Vec<f64>,
}

type Check = Result<(), (&'static str, String)>;

impl Generator for Tapes {
    fn name(&self) -> &'static str {
        "tapes"
    }

    fn oracles(&self) -> &'static [&'static str] {
        NAMES
    }

    fn run(&self, seed: u64) -> Result<(), Failure> {
        let mut random = Random::new(seed);
        let function = Function::new(&mut random);
        let points: Vec<Point> = (0..5).map(|number| point(&mut random, &function, number)).collect();
        let Err((oracle, message)) = self.check(&function, &points) else { return Ok(()) };
        let fails = |candidate: &Function| self.check(candidate, &points).is_err_and(|(name, _)| name == oracle);
        let small = function.reduced(&fails);
        let message = self.check(&small, &points).err().map_or(message, |(_, message)| message);
        Err(Failure { seed, oracle: oracle.to_owned(), message, program: small.to_string() })
    }
}

/// The first point, at which functions are recorded, is a regular one mostly; later ones are special in some numbers.
fn point(random: &mut Random, function: &Function, number: usize) -> Point {
    let special = if number == 0 { 0.05 } else { 0.15 * number as f64 };
    let mut draw = |special: f64| match random.chance(special) {
        true => *random.choose(&SPECIAL),
        false => 6.0 * random.unit() - 3.0,
    };
    Point {
        x: (0..function.inputs).map(|_| draw(special)).collect(),
        direction: (0..function.inputs).map(|_| moderate(draw(0.3))).collect(),
        weights: (0..function.outputs.len()).map(|_| moderate(draw(0.3))).collect(),
    }
}

/// Directions and weights are zero or of moderate size: an infinite one only says that everything is, and a huge one absorbs the
/// others.
fn moderate(number: f64) -> f64 {
    if (1e-3..10.0).contains(&number.abs()) { number } else { 0.0 }
}

impl Point {
    /// Weights for the results of a function, which may have lost some in a reduction.
    fn weights(&self, function: &Function) -> &[f64] {
        &self.weights[..function.outputs.len()]
    }

    fn arguments(&self, function: &Function, kind: Derivative) -> Vec<f64> {
        match kind {
            Derivative::Value | Derivative::Gradient | Derivative::Jacobian => self.x.clone(),
            Derivative::Tangent | Derivative::HessianProduct => [&self.x[..], &self.direction].concat(),
            Derivative::Pullback => [&self.x[..], self.weights(function)].concat(),
        }
    }
}

/// What code of a kind computes, by the other engines.
fn reference(function: &Function, kind: Derivative, point: &Point, noise: &[f64]) -> Vec<f64> {
    let none = &mut Vec::new();
    let mut results = function.evaluate(&point.x, noise, none);
    let slopes = |x: &[f64]| record(function, x, noise).gradient();
    results.extend(match kind {
        Derivative::Value => Vec::new(),
        Derivative::Gradient => slopes(&point.x),
        Derivative::Tangent => {
            let moving: Vec<Dual<f64>> =
                point.x.iter().zip(&point.direction).map(|(x, v)| Dual::new(*x, [*v])).collect();
            function.evaluate(&moving, noise, none).into_iter().map(Dual::tangent).collect()
        }
        Derivative::Pullback => record(function, &point.x, noise).vjp(point.weights(function)),
        Derivative::Jacobian => record(function, &point.x, noise).jacobian(Mode::Auto).elements().to_vec(),
        Derivative::HessianProduct => {
            let moving: Vec<Dual<f64>> =
                point.x.iter().zip(&point.direction).map(|(x, v)| Dual::new(*x, [*v])).collect();
            let recorded = Recorded::new(|x| function.evaluate(x, noise, &mut Vec::new())[0], &moving);
            let product = recorded.gradient().into_iter().map(Dual::tangent).collect();
            [slopes(&point.x), product].concat()
        }
    });
    results
}

fn record(function: &Function, x: &[f64], noise: &[f64]) -> Recorded<f64> {
    Recorded::several(|x, y| write_results(function, x, y, noise), x, function.outputs.len())
}

fn write_results<'t>(function: &Function, x: &[Var<'t>], y: &mut [Var<'t>], noise: &[f64]) {
    y.copy_from_slice(&function.evaluate(x, noise, &mut Vec::new()));
}

fn same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

/// Results of other orders of evaluation, which may differ where something is not finite: equal steps merged, so that adjoints
/// cancel before they meet an infinite partial; steps with a derivative of zero as constants; and the other direction, in
/// which other zeros are strong.
fn alternatives(function: &Function, kind: Derivative, point: &Point) -> Vec<Vec<f64>> {
    let (merged, flat) = (function.merged(), function.with_flat_steps());
    let both = merged.with_flat_steps();
    let mut found: Vec<Vec<f64>> =
        [&merged, &flat, &both].into_iter().map(|function| reference(function, kind, point, &[])).collect();
    for function in [function, &merged, &flat, &both] {
        let recorded = record(function, &point.x, &[]);
        let values = function.evaluate(&point.x, &[], &mut Vec::new());
        let product = |row: Vec<f64>| -> f64 {
            row.iter().zip(&point.direction).filter(|(_, v)| **v != 0.0).map(|(partial, v)| partial * v).sum()
        };
        let unit = |count: usize, place: usize| (0..count).map(|k| f64::from(u8::from(k == place))).collect::<Vec<_>>();
        let row = |place: usize| recorded.vjp(&unit(function.outputs.len(), place));
        let derivative: Vec<f64> = match kind {
            Derivative::Tangent => (0..function.outputs.len()).map(|place| product(row(place))).collect(),
            Derivative::Jacobian => recorded.jacobian(Mode::Reverse).elements().to_vec(),
            Derivative::Gradient => (0..function.inputs).map(|k| recorded.jvp(&unit(function.inputs, k))[0]).collect(),
            Derivative::Pullback => {
                let weighted = |column: Vec<f64>| -> f64 {
                    let weights = point.weights(function).iter().zip(column).filter(|(weight, _)| **weight != 0.0);
                    weights.map(|(weight, partial)| weight * partial).sum()
                };
                (0..function.inputs).map(|k| weighted(recorded.jvp(&unit(function.inputs, k)))).collect()
            }
            Derivative::HessianProduct => {
                let slopes = (0..function.inputs).map(|k| recorded.jvp(&unit(function.inputs, k))[0]);
                slopes.chain(forward_over_forward(function, point)).collect()
            }
            Derivative::Value => continue,
        };
        found.push([values, derivative].concat());
    }
    if kind == Derivative::Jacobian {
        let values = function.evaluate(&point.x, &[], &mut Vec::new());
        found.push([&values[..], record(&both, &point.x, &[]).jacobian(Mode::Forward).elements()].concat());
    }
    found
}

/// The Hessian product of the first result by nested dual numbers.
fn forward_over_forward(function: &Function, point: &Point) -> Vec<f64> {
    let along = |place: usize| -> Dual<Dual<f64>> {
        let number = |k: usize| {
            let moving = Dual::new(point.x[k], [point.direction[k]]);
            Dual::new(moving, [Dual::constant(f64::from(u8::from(k == place)))])
        };
        let seeded: Vec<_> = (0..function.inputs).map(number).collect();
        function.evaluate(&seeded, &[], &mut Vec::new())[0]
    };
    (0..function.inputs).map(|place| along(place).tangent().tangent()).collect()
}

/// The first result that differs by more than rounding errors explain.
fn disagreement(function: &Function, kind: Derivative, point: &Point, found: &[f64]) -> Option<String> {
    let expected = reference(function, kind, point, &[]);
    let near = |a: f64, b: f64| same(a, b) || (a - b).abs() <= TOLERANCE * (1.0 + b.abs());
    let exact = function.outputs.len() * usize::from(!function.has_integer_powers());
    let differs = |place: usize| {
        let (a, b) = (found[place], expected[place]);
        if place < exact { a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan()) } else { !near(a, b) }
    };
    let place = (0..expected.len()).find(|place| differs(*place))?;
    let message = format!("{kind:?}, result {place}: {:e} for {:e} at {:?}", found[place], expected[place], point.x);
    if place < exact {
        return Some(format!("{message}, where values are equal to the bit"));
    }
    let is_finite = |numbers: &[f64]| numbers.iter().all(|number| number.is_finite());
    if !is_finite(&expected) {
        let others = alternatives(function, kind, point);
        let explained = |place: usize| {
            let beyond = function.has_flat_rules() && expected[place].is_nan();
            beyond || others.iter().any(|other| near(found[place], other[place]))
        };
        if (0..expected.len()).filter(|place| differs(*place)).all(explained) {
            counters::add("tapes", "results that are not finite in every order of evaluation", 1);
            return None;
        }
    }
    let mut random = Random::new(7);
    let mut spread = vec![0.0_f64; expected.len()];
    for _ in 0..NOISE.1 {
        let noise = noise_for(function, &mut random);
        for (spread, (noisy, expected)) in
            spread.iter_mut().zip(reference(function, kind, point, &noise).into_iter().zip(&expected))
        {
            let difference = if same(noisy, *expected) { 0.0 } else { (noisy - expected).abs() };
            // A perturbed number that is not finite where the other is explains every difference.
            *spread = spread.max(if difference.is_nan() { f64::INFINITY } else { difference });
        }
    }
    counters::add("tapes", "results compared by perturbation", 1);
    let unexplained = |place: usize| {
        let explained = (found[place] - expected[place]).abs() <= SAFETY * spread[place] || spread[place].is_infinite();
        differs(place) && !explained
    };
    (0..expected.len()).any(unexplained).then_some(message)
}

/// A perturbation for each operand of each step.
fn noise_for(function: &Function, random: &mut Random) -> Vec<f64> {
    (0..function.steps.len() * OPERANDS).map(|_| NOISE.0 * (2.0 * random.unit() - 1.0)).collect()
}

/// Whether the outcome of a comparison depends on rounding errors.
fn is_undecided(function: &Function, x: &[f64]) -> bool {
    let outcomes = |noise: &[f64]| {
        let mut outcomes = Vec::new();
        function.evaluate(x, noise, &mut outcomes);
        outcomes
    };
    let expected = outcomes(&[]);
    let mut random = Random::new(11);
    (0..NOISE.1).any(|_| {
        let noise = noise_for(function, &mut random);
        outcomes(&noise) != expected
    })
}

impl Tapes {
    fn check(&self, function: &Function, points: &[Point]) -> Check {
        for (oracle, kind) in KINDS.into_iter().filter(|(oracle, _)| self.selection.has(oracle)) {
            let mut recorded = record(function, &points[0].x, &[]);
            let compiled = CompiledTape::new(&recorded, kind).map_err(|error| (oracle, error.to_string()))?;
            let mut valid = Vec::new();
            for point in points {
                let mut found = vec![f64::NAN; compiled.results()];
                let holds = compiled.evaluate(&point.arguments(function, kind), &mut found).is_ok();
                if self.selection.has("guards") {
                    let replayed = recorded.replay(&point.x).is_ok();
                    if replayed != holds && !is_undecided(function, &point.x) {
                        let message = format!("{kind:?}: {holds}, in a replay {replayed}, at {:?}", point.x);
                        return Err(("guards", message));
                    }
                    counters::add("oracle", if holds { "guards that hold" } else { "guards that fail" }, 1);
                }
                if holds {
                    if let Some(message) = disagreement(function, kind, point, &found) {
                        return Err((oracle, message));
                    }
                    counters::add("oracle", oracle, 1);
                    valid.push((point, found));
                }
            }
            if self.selection.has("lanes") {
                check_lanes(function, &compiled, kind, &valid)?;
            }
        }
        if self.selection.has("variants") {
            check_variants(function, points)?;
        }
        if self.selection.has("statements") { check_statements(function, points) } else { Ok(()) }
    }
}

/// Gradients, pullbacks and Hessian products by statements are those of the tape.
fn check_statements(function: &Function, points: &[Point]) -> Check {
    for point in points {
        let values = function.evaluate(&point.x, &[], &mut Vec::new());
        let slopes = gradient(|x| function.evaluate(x, &[], &mut Vec::new())[0], &point.x);
        let product = hvp(|x| function.evaluate(x, &[], &mut Vec::new())[0], &point.x, &point.direction);
        let (_, pullback) = vjp(
            |x, y| y.copy_from_slice(&function.evaluate(x, &[], &mut Vec::new())),
            &point.x,
            point.weights(function),
        );
        let kinds = [
            (Derivative::Gradient, [&values[..], &slopes].concat()),
            (Derivative::Pullback, [&values[..], &pullback].concat()),
            (Derivative::HessianProduct, [&values[..], &slopes, &product].concat()),
        ];
        for (kind, found) in kinds {
            if let Some(message) = disagreement(function, kind, point, &found) {
                return Err(("statements", message));
            }
        }
        counters::add("oracle", "statements", 1);
    }
    Ok(())
}

/// A batch has the results of its points.
fn check_lanes(function: &Function, compiled: &CompiledTape, kind: Derivative, valid: &[(&Point, Vec<f64>)]) -> Check {
    let arguments: Vec<f64> = valid.iter().flat_map(|(point, _)| point.arguments(function, kind)).collect();
    let mut results = vec![f64::NAN; valid.len() * compiled.results()];
    let outcome = compiled.evaluate_batch(&arguments, &mut results, 1);
    outcome.map_err(|error| ("lanes", format!("{kind:?}: {error}, alone every guard holds")))?;
    for ((point, single), batch) in valid.iter().zip(results.chunks(compiled.results())) {
        if !single.iter().zip(batch).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()) {
            return Err(("lanes", format!("{kind:?} at {:?}: {batch:?}, alone {single:?}", point.x)));
        }
    }
    counters::add("oracle", "lanes", 1);
    Ok(())
}

/// A function that is recorded anew where a guard fails is right everywhere.
fn check_variants(function: &Function, points: &[Point]) -> Check {
    let says = |error: glassgrad::scalar::compiled::CompileError| ("variants", error.to_string());
    let first = Function { outputs: function.outputs[..1].to_vec(), ..function.clone() };
    let mut compiled = Compiled::new(|x| first_result(&first, x));
    for point in points.iter().chain(points) {
        let count = point.x.len();
        let mut slopes = vec![f64::NAN; count];
        let value = compiled.gradient(&point.x, &mut slopes).map_err(says)?;
        let found = [vec![value], slopes].concat();
        if let Some(message) = disagreement(&first, Derivative::Gradient, point, &found)
            && !is_undecided(&first, &point.x)
        {
            return Err(("variants", message));
        }
    }
    let combinations = points.iter().map(|point| {
        let mut outcomes = Vec::new();
        first.evaluate(&point.x, &[], &mut outcomes);
        outcomes
    });
    let combinations: std::collections::BTreeSet<Vec<bool>> = combinations.collect();
    // Choices are nodes, and add no recording; integer powers may decide a tie otherwise.
    if compiled.recordings() > combinations.len() && !points.iter().any(|point| is_undecided(&first, &point.x)) {
        let message = format!("{} recordings for {} combinations", compiled.recordings(), combinations.len());
        return Err(("variants", message));
    }
    counters::add("oracle", "variants", 1);
    Ok(())
}

fn first_result<'t>(function: &Function, x: &[Var<'t>]) -> Var<'t> {
    function.evaluate(x, &[], &mut Vec::new())[0]
}
