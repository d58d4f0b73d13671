//! The evals: from the JSON of an input to a function that is timed, and from its result to JSON.

use crate::descent::Mode;
use crate::hand::Hand;
use crate::models::{self, Lstm, Mixture};
use glassgrad::scalar::{CompiledTape, Derivative, Dual, Recorded, Workspace, derivative};
use serde_json::{Value, json};

/// The modules of the suite that this tool has.
pub(crate) const MODULES: [&str; 12] =
    ["hello", "det", "llsq", "lse", "ode", "gmm", "lstm", "ba", "ht", "kmeans", "particle", "saddle"];

/// What is run and timed: everything but reading and writing JSON.
pub(crate) type Function = Box<dyn FnMut() -> Evaluation>;

/// The result of a run, written as JSON after the clock has stopped.
#[derive(Default)]
pub(crate) enum Evaluation {
    #[default]
    Nothing,
    Number(f64),
    Vector(Vec<f64>),
    /// A vector in rows of this length.
    Rows(Vec<f64>, usize),
    /// The gradient of a mixture, with its numbers of components and dimensions.
    Mixture(Vec<f64>, usize, usize),
    /// Residuals and errors of weights.
    Residuals(Vec<f64>, Vec<f64>),
    /// Elements of a sparse matrix that the suite compares: those of the first observation, and the last one.
    Sparse {
        starts: Vec<u32>,
        columns: Vec<u32>,
        values: Vec<f64>,
    },
}

impl Evaluation {
    pub(crate) fn to_json(&self) -> Value {
        let in_rows = |numbers: &[f64], width: usize| -> Value {
            numbers.chunks(width.max(1)).collect::<Vec<_>>().into_iter().map(|row| json!(row)).collect()
        };
        match self {
            Evaluation::Nothing => Value::Null,
            Evaluation::Number(number) => json!(number),
            Evaluation::Vector(numbers) => json!(numbers),
            Evaluation::Rows(numbers, width) => in_rows(numbers, *width),
            Evaluation::Mixture(gradient, k, d) => {
                let (alpha, rest) = gradient.split_at(*k);
                let (mu, rest) = rest.split_at(k * d);
                let (q, l) = rest.split_at(k * d);
                let lower = match d * (d - 1) / 2 {
                    0 => json!(vec![Vec::<f64>::new(); *k]),
                    width => in_rows(l, width),
                };
                json!({ "alpha": alpha, "mu": in_rows(mu, *d), "q": in_rows(q, *d), "l": lower })
            }
            Evaluation::Residuals(residuals, weights) => json!({
                "reproj_error": { "elements": &residuals[..2], "repeated": residuals.len() / 2 },
                "w_err": { "element": weights[0], "repeated": weights.len() },
            }),
            Evaluation::Sparse { starts, columns, values } => {
                json!({ "rows": starts, "cols": columns, "vals": values })
            }
        }
    }
}

/// A function of one result as a value or as a gradient, whose tape is used again from run to run.
macro_rules! primal_or_gradient {
    ($primal:expr, $x:expr, |$name:ident| $body:expr) => {{
        let x = $x;
        if $primal {
            Box::new(move || {
                let $name: &[f64] = &x;
                Evaluation::Number($body)
            }) as Function
        } else {
            let mut workspace = Workspace::new();
            Box::new(move || Evaluation::Vector(workspace.value_and_gradient(|$name| $body, &x).1.to_vec())) as Function
        }
    }};
}

/// Reads an input and returns the function to run.
pub(crate) fn prepare(module: &str, function: &str, input: &Value) -> Result<Function, String> {
    let unknown = || Err("there is no such function".to_string());
    match (module, function) {
        ("hello", "square") => {
            let x = number(input, "input")?;
            Ok(Box::new(move || Evaluation::Number(x * x)))
        }
        ("hello", "double") => {
            let x = number(input, "input")?;
            Ok(Box::new(move || Evaluation::Number(derivative(|x| x * x, x))))
        }
        ("det", "primal" | "gradient") => {
            let (matrix, size) = (vector(input, "A")?, integer(input, "ell")?);
            if matrix.len() != size * size {
                return Err(format!("A has {} elements, and ell is {size}", matrix.len()));
            }
            Ok(primal_or_gradient!(function == "primal", matrix, |x| models::determinant(x, size)))
        }
        ("llsq", "primal" | "gradient") => {
            let (x, count) = (vector(input, "x")?, integer(input, "n")?);
            Ok(primal_or_gradient!(function == "primal", x, |x| models::least_squares(x, count)))
        }
        ("lse", "primal" | "gradient") => {
            let x = vector(input, "x")?;
            Ok(primal_or_gradient!(function == "primal", x, |x| models::log_sum_exp(x)))
        }
        ("ode", "primal") => {
            let (x, steps) = (vector(input, "x")?, integer(input, "s")?);
            Ok(Box::new(move || Evaluation::Vector(models::runge_kutta(&x, steps))))
        }
        ("ode", "gradient") => {
            let (x, steps) = (vector(input, "x")?, integer(input, "s")?);
            let mut workspace = Workspace::new();
            Ok(Box::new(move || {
                let gradient =
                    workspace.value_and_gradient(|x| *models::runge_kutta(x, steps).last().expect("an equation"), &x).1;
                Evaluation::Vector(gradient.to_vec())
            }))
        }
        ("gmm", "objective" | "jacobian") => gmm(function, input),
        ("lstm", "objective" | "jacobian") => {
            let rows = |name: &str| input[name].as_array().map_or(0, Vec::len);
            let (main, extra) = (vector(input, "main_params")?, vector(input, "extra_params")?);
            let model = Lstm {
                layers: rows("main_params") / 2,
                width: extra.len() / 3,
                state: vector(input, "state")?,
                sequence: vector(input, "sequence")?,
            };
            let parameters = [main, extra].concat();
            Ok(primal_or_gradient!(function == "objective", parameters, |x| model.loss(x)))
        }
        ("ba", "objective" | "jacobian") => bundle_adjustment(function, input),
        ("ht", "objective" | "jacobian") => hand(function, input),
        ("kmeans", "cost" | "dir") => kmeans(function, input),
        ("particle" | "saddle", variant) => {
            let mode = |letter: Option<char>| match letter {
                Some('f') => Some(Mode::Forward),
                Some('r') => Some(Mode::Reverse),
                _ => None,
            };
            let mut letters = variant.chars();
            let (Some(outer), Some(inner), None) = (mode(letters.next()), mode(letters.next()), letters.next()) else {
                return unknown();
            };
            if module == "particle" {
                let start = number(&input["w"], "w")?;
                return Ok(Box::new(move || Evaluation::Number(models::control(start, outer, inner))));
            }
            let start: [f64; 2] = vector(input, "start")?.try_into().map_err(|_| "start is no point of the plane")?;
            Ok(Box::new(move || Evaluation::Vector(models::saddle(start, outer, inner))))
        }
        _ => unknown(),
    }
}

fn gmm(function: &str, input: &Value) -> Result<Function, String> {
    let (dimension, components) = (integer(input, "d")?, integer(input, "k")?);
    let mixture = Mixture {
        dimension,
        components,
        points: vector(input, "x")?,
        extra_freedom: number(&input["m"], "m")?,
        precision: number(&input["gamma"], "gamma")?,
    };
    let fields = ["alpha", "mu", "q", "l"].map(|name| vector(input, name));
    let parameters = fields.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    let expected = components * (1 + 2 * dimension + dimension * (dimension - 1) / 2);
    if parameters.len() != expected {
        return Err(format!("{} parameters, where {expected} belong to these d and k", parameters.len()));
    }
    if function == "objective" {
        return Ok(Box::new(move || Evaluation::Number(mixture.log_posterior(&parameters))));
    }
    let mut workspace = Workspace::new();
    Ok(Box::new(move || {
        let gradient = workspace.value_and_gradient(|x| mixture.log_posterior(x), &parameters).1.to_vec();
        Evaluation::Mixture(gradient, components, dimension)
    }))
}

fn bundle_adjustment(function: &str, input: &Value) -> Result<Function, String> {
    let [n, m, p] = [integer(input, "n")?, integer(input, "m")?, integer(input, "p")?];
    let (camera, point, feature) = (vector(input, "cam")?, vector(input, "x")?, vector(input, "feat")?);
    if (camera.len(), point.len(), feature.len()) != (11, 3, 2) || p == 0 {
        return Err("a camera has 11 numbers, a point 3, a feature 2, and there is an observation".to_string());
    }
    let (cameras, points, features) = (camera.repeat(n), point.repeat(m), feature.repeat(p));
    let weights = vec![number(&input["w"], "w")?; p];
    let of = move |k: usize| (11 * (k % n), 3 * (k % m));
    if function == "objective" {
        return Ok(Box::new(move || {
            let residual = |k: usize| {
                let (camera, point) = of(k);
                models::reprojection(
                    &cameras[camera..][..11],
                    &points[point..][..3],
                    weights[k],
                    &features[2 * k..][..2],
                )
            };
            let residuals = (0..p).flat_map(residual).collect();
            Evaluation::Residuals(residuals, weights.iter().map(|weight| models::weight_error(*weight)).collect())
        }));
    }
    let observation = move |k: usize, weights: &[f64], numbers: &mut [f64]| {
        let (camera, point) = of(k);
        numbers[..11].copy_from_slice(&cameras[camera..][..11]);
        numbers[11..14].copy_from_slice(&points[point..][..3]);
        numbers[14] = weights[k];
        numbers[15..].copy_from_slice(&features[2 * k..][..2]);
    };
    let mut arguments = vec![0.0; BATCH * OBSERVATION];
    observation(0, &weights, &mut arguments[..OBSERVATION]);
    let residuals = Recorded::several(
        |x, y| y.copy_from_slice(&models::reprojection(&x[..11], &x[11..14], x[14], &x[15..])),
        &arguments[..OBSERVATION],
        2,
    );
    let compiled = CompiledTape::new(&residuals, Derivative::Jacobian).map_err(|error| error.to_string())?;
    let mut results = vec![0.0; BATCH * compiled.results()];
    // The matrix stays here from run to run, so that its memory is used again.
    let (mut starts, mut columns, mut values) = (Vec::new(), Vec::new(), Vec::new());
    Ok(Box::new(move || {
        starts.clear();
        columns.clear();
        values.clear();
        starts.push(0);
        for start in (0..p).step_by(BATCH) {
            let batch = start..p.min(start + BATCH);
            for (k, numbers) in batch.clone().zip(arguments.chunks_exact_mut(OBSERVATION)) {
                observation(k, &weights, numbers);
            }
            let arguments = &arguments[..batch.len() * OBSERVATION];
            let results = &mut results[..batch.len() * compiled.results()];
            if compiled.evaluate_batch(arguments, results, 1).is_err() {
                // Some camera is rotated by exactly nothing, which is another branch.
                let lines = arguments.chunks_exact(OBSERVATION).zip(results.chunks_exact_mut(compiled.results()));
                lines.for_each(|(numbers, results)| reprojection_jacobian(numbers, results));
            }
            for (k, results) in batch.zip(results.chunks_exact(compiled.results())) {
                let (camera, point) = of(k);
                let own: [u32; 15] = std::array::from_fn(|lane| match lane {
                    0..11 => camera + lane,
                    11..14 => 11 * n + point + lane - 11,
                    _ => 11 * n + 3 * m + k,
                } as u32);
                for row in results[2..].chunks_exact(OBSERVATION) {
                    columns.extend_from_slice(&own);
                    values.extend_from_slice(&row[..15]);
                    starts.push(columns.len() as u32);
                }
            }
        }
        for (k, weight) in weights.iter().enumerate() {
            columns.push((11 * n + 3 * m + k) as u32);
            values.push(derivative(models::weight_error, *weight));
            starts.push(columns.len() as u32);
        }
        Evaluation::Sparse { starts: compared(&starts), columns: compared(&columns), values: compared(&values) }
    }))
}

/// The first thirty elements of a list and the last one.
fn compared<T: Copy>(list: &[T]) -> Vec<T> {
    (0..30).chain([usize::MAX]).map(|place| list[place.min(list.len() - 1)]).collect()
}

/// Observations that compiled code evaluates in one call.
const BATCH: usize = 64;
/// The numbers of an observation: camera, point, weight, feature.
const OBSERVATION: usize = 17;

/// The residuals of an observation and their Jacobian with dual numbers: as many tangents at once as it has inputs, and one more to
/// fill vector registers.
fn reprojection_jacobian(numbers: &[f64], results: &mut [f64]) {
    let seeded: [Dual<f64, 16>; OBSERVATION] = std::array::from_fn(|lane| Dual::along(numbers[lane], lane));
    let found = models::reprojection(&seeded[..11], &seeded[11..14], seeded[14], &seeded[15..]);
    let (values, rows) = results.split_at_mut(2);
    for ((value, row), residual) in values.iter_mut().zip(rows.chunks_exact_mut(OBSERVATION)).zip(found) {
        *value = residual.value;
        row[..15].copy_from_slice(&residual.tangents[..15]);
    }
}

fn hand(function: &str, input: &Value) -> Result<Function, String> {
    let (data, model) = (&input["data"], &input["data"]["model"]);
    let fixed = |value: &Value, name: &str, width: usize| -> Result<Vec<Vec<f64>>, String> {
        let numbers = vector(value, name)?;
        if numbers.len() % width == 0 {
            Ok(numbers.chunks(width).map(<[f64]>::to_vec).collect())
        } else {
            Err(format!("{name} has rows of {width}"))
        }
    };
    fn array<const N: usize>(row: Vec<f64>) -> [f64; N] {
        std::array::from_fn(|place| row[place])
    }
    let matrices = |name: &str| -> Result<Vec<[[f64; 4]; 4]>, String> {
        let matrix = |row: Vec<f64>| std::array::from_fn(|i| std::array::from_fn(|j| row[4 * i + j]));
        Ok(fixed(model, name, 16)?.into_iter().map(matrix).collect())
    };
    let bones = vector(model, "parents")?;
    let index = |rows: Vec<Vec<f64>>| -> Vec<[usize; 3]> {
        rows.into_iter().map(|row| array::<3>(row).map(|k| k as usize)).collect()
    };
    let hand = Hand {
        parents: bones.iter().map(|parent| (*parent >= 0.0).then_some(*parent as usize)).collect(),
        relatives: matrices("base_relatives")?,
        inverse_absolutes: matrices("inverse_base_absolutes")?,
        positions: fixed(model, "base_positions", 4)?.into_iter().map(array).collect(),
        weights: fixed(model, "weights", bones.len())?,
        triangles: index(fixed(model, "triangles", 3)?),
        mirrored: model["is_mirrored"].as_bool().unwrap_or(false),
        correspondences: vector(data, "correspondences")?.into_iter().map(|k| k as usize).collect(),
        points: fixed(data, "points", 3)?.into_iter().map(array).collect(),
    };
    let theta = vector(input, "theta")?;
    let coordinates: Vec<[f64; 2]> = fixed(input, "us", 2)?.into_iter().map(array).collect();
    if theta.len() != 26 || !coordinates.is_empty() && coordinates.len() != hand.points.len() {
        return Err("a pose has 26 parameters, and every point its coordinates or none".to_string());
    }
    if function == "objective" {
        return Ok(Box::new(move || Evaluation::Vector(hand.residuals(&theta, &coordinates))));
    }
    let Some((compiled, x)) = hand.compiled(&theta, &coordinates) else {
        return Ok(Box::new(move || {
            let (jacobian, columns) = hand.jacobian(&theta, &coordinates);
            Evaluation::Rows(jacobian, columns)
        }));
    };
    let residuals = 3 * hand.points.len();
    let columns = compiled.results() / residuals.max(1) - 1;
    let mut results = vec![0.0; compiled.results()];
    Ok(Box::new(move || {
        compiled.evaluate(&x, &mut results).expect("the pose at which it was recorded");
        Evaluation::Rows(results[residuals..].to_vec(), columns)
    }))
}

fn kmeans(function: &str, input: &Value) -> Result<Function, String> {
    let (points, centroids) = (vector(input, "points")?, vector(input, "centroids")?);
    let dimension = input["centroids"][0].as_array().map_or(0, Vec::len);
    if dimension == 0 {
        return Err("there is no centroid".to_string());
    }
    if function == "cost" {
        return Ok(Box::new(move || Evaluation::Number(models::clustering(&centroids, &points, dimension))));
    }
    // The Hessian is diagonal: its product with a vector of ones is the diagonal, computed with the gradient.
    let seeded: Vec<Dual<f64>> = centroids.iter().map(|x| Dual::variable(*x)).collect();
    let mut workspace = Workspace::new();
    Ok(Box::new(move || {
        let gradient = workspace.value_and_gradient(|x| models::clustering(x, &points, dimension), &seeded).1;
        let direction = gradient.iter().map(|partial| partial.value / partial.tangent());
        Evaluation::Rows(direction.collect(), dimension)
    }))
}

fn number(value: &Value, name: &str) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| format!("{name} is no number"))
}

fn integer(input: &Value, name: &str) -> Result<usize, String> {
    input[name].as_u64().map(|number| number as usize).ok_or_else(|| format!("{name} is no integer"))
}

/// All numbers of a field, row by row if it has rows.
fn vector(input: &Value, name: &str) -> Result<Vec<f64>, String> {
    fn flatten(value: &Value, into: &mut Vec<f64>) -> Option<()> {
        match value {
            Value::Array(values) => values.iter().try_for_each(|value| flatten(value, into)),
            value => value.as_f64().map(|number| into.push(number)),
        }
    }
    let mut numbers = Vec::new();
    let found = input.get(name).filter(|field| field.is_array()).and_then(|field| flatten(field, &mut numbers));
    found.map(|()| numbers).ok_or_else(|| format!("{name} is no list of numbers"))
}
