//! Random functions of trees: structured Hessians and Jacobians against dense ones by nested automatic differentiation.

pub mod dense;
pub mod function;

use glassgrad::calculus::{Hessian, Structure, Triplets, hessian, jacobian};
use glassgrad::tree::Tree;
use glassgrad::{Tensor, dtype::DType, hvp, jvp, rng::Key};

use crate::counters;
use crate::generator::{Failure, Generator, Selection};
use dense::{Matrix, exceeds, norm};
use function::Function;

/// The generator of structured derivatives.
#[derive(Debug)]
pub struct Structured {
    selection: Selection,
}

impl Structured {
    /// The generator, with a selection of its oracles.
    pub fn new(selection: Selection) -> Structured {
        Structured { selection }
    }
}

/// The oracles: the dense array, the list of its elements, products, the diagonal, solutions, determinants, claims about the structure, the bytes that
/// are held, and the work of planning.
const NAMES: &[&str] =
    &["dense", "triplets", "products", "diagonal", "solve", "logdet", "structure", "bytes", "planning", "jacobian"];
/// Systems of a smaller condition number must be solved.
const REGULAR: f64 = 1e7;
/// Larger numbers leave too few digits to compare.
const LARGEST: f64 = 1e8;

/// The elements of a tree in 64 bits.
fn numbers(tree: &impl Tree) -> Result<Vec<f64>, String> {
    let mut all = Vec::new();
    for leaf in tree.flatten() {
        all.extend(leaf.cast(DType::F64).to_vec::<f64>().map_err(|error| error.to_string())?);
    }
    Ok(all)
}

/// Trees like a point with a 1 at each place in turn.
fn units(point: &[Tensor]) -> Vec<Vec<Tensor>> {
    let mut found = Vec::new();
    for (leaf, tensor) in point.iter().enumerate() {
        for place in 0..tensor.shape().elements() {
            let mut unit: Vec<Tensor> = point.iter().map(Tensor::zeros_like).collect();
            let elements: Vec<f64> = (0..tensor.shape().elements()).map(|k| f64::from(u8::from(k == place))).collect();
            unit[leaf] = Tensor::new(&elements, tensor.shape().clone()).cast(tensor.dtype());
            found.push(unit);
        }
    }
    found
}

fn near(what: &str, found: &[f64], expected: &[f64], tolerance: f64) -> Result<(), String> {
    let largest = expected.iter().fold(1.0_f64, |largest, number| largest.max(number.abs()));
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= tolerance * largest;
    match found.len() == expected.len() && found.iter().zip(expected).all(close) {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} is not {expected:?}")),
    }
}

/// A list of elements as a dense matrix of this size. Positions ascend, so that none occurs twice.
fn from_triplets(triplets: &Triplets, size: [usize; 2]) -> Result<Vec<f64>, String> {
    let Triplets { rows, columns, entries } = triplets;
    if [*rows, *columns] != size || !entries.is_sorted_by_key(|(row, column, _)| (*row, *column)) {
        return Err(format!("triplets of {rows} × {columns} for {size:?}, or not in order"));
    }
    let mut dense = vec![0.0; rows * columns];
    for (row, column, value) in entries {
        dense[row * columns + column] += value;
    }
    Ok(dense)
}

impl Generator for Structured {
    fn name(&self) -> &'static str {
        "structured"
    }

    fn oracles(&self) -> &'static [&'static str] {
        NAMES
    }

    fn run(&self, seed: u64) -> Result<(), Failure> {
        let function = Function::new(seed);
        self.check(&function, seed).map_err(|(oracle, message)| Failure {
            seed,
            oracle: oracle.to_owned(),
            message,
            program: function.text(),
        })
    }
}

type Check = Result<(), (&'static str, String)>;

impl Structured {
    fn check(&self, function: &Function, seed: u64) -> Check {
        let point = function.point.clone();
        let size: usize = point.iter().map(|leaf| leaf.shape().elements()).sum();
        if size > 40 {
            return Ok(());
        }
        let f = |x: &Vec<Tensor>| function.number(x);
        let fail = |oracle: &'static str| move |message: String| (oracle, message);
        let columns = units(&point).iter().map(|unit| numbers(&hvp(f, &point, unit))).collect::<Result<Vec<_>, _>>();
        let expected = Matrix::from_columns(size, columns.map_err(fail("dense"))?);
        if exceeds(expected.largest(), LARGEST) {
            counters::add("structured", "numbers too large to compare", 1);
            return Ok(());
        }
        let tolerance = if function.mixed { 1e-4 } else { 1e-10 };
        let derivative = hessian(f);
        let h = derivative.at(&point).map_err(|error| ("dense", error.to_string()))?;
        counters::add("structure", kind(&h.structure()), 1);
        let found = h.to_dense().map_err(|error| ("dense", error.to_string()))?;
        near("to_dense", &numbers(&found).map_err(fail("dense"))?, &expected.numbers, tolerance)
            .map_err(fail("dense"))?;
        if self.selection.has("triplets") {
            let triplets = h.triplets().map_err(|error| ("triplets", error.to_string()))?;
            let listed = from_triplets(&triplets, [size, size]).map_err(fail("triplets"))?;
            near("triplets", &listed, &expected.numbers, tolerance).map_err(fail("triplets"))?;
            counters::add("oracle", "triplets", 1);
        }
        let vector: Vec<Tensor> = point
            .iter()
            .enumerate()
            .map(|(place, leaf)| {
                Tensor::normal(Key::new(seed ^ (0x5000 + place as u64)), leaf.shape().clone()).cast(leaf.dtype())
            })
            .collect();
        let v = numbers(&vector).map_err(fail("products"))?;
        if self.selection.has("products") {
            for product in [h.matvec(&vector), h.rmatvec(&vector)] {
                let product = product.map_err(|error| ("products", error.to_string()))?;
                let product = numbers(&product).map_err(fail("products"))?;
                near("matvec", &product, &expected.times(&v), tolerance).map_err(fail("products"))?;
            }
            counters::add("oracle", "products", 1);
        }
        if self.selection.has("diagonal") {
            let diagonal = h.diag().map_err(|error| ("diagonal", error.to_string()))?;
            let diagonal = numbers(&diagonal).map_err(fail("diagonal"))?;
            near("diag", &diagonal, &expected.diagonal(), tolerance).map_err(fail("diagonal"))?;
            let trace = h.trace().map_err(|error| ("diagonal", error.to_string()))?;
            let sum = expected.diagonal().iter().sum();
            near("trace", &[trace], &[sum], tolerance).map_err(fail("diagonal"))?;
            counters::add("oracle", "diagonal", 1);
        }
        if self.selection.has("structure") {
            claims(&h.structure(), &expected, tolerance).map_err(fail("structure"))?;
            counters::add("oracle", "structure", 1);
        }
        if self.selection.has("bytes") && !function.mixed {
            let (held, dense) = (h.bytes() as u128, h.dense_bytes());
            if held > dense {
                return Err(("bytes", format!("{held} bytes are held, and the dense array takes {dense}:\n{h}")));
            }
            counters::add("oracle", "bytes", 1);
        }
        if self.selection.has("planning") {
            let explanation = derivative.explain(&point).map_err(|error| ("planning", error.to_string()))?;
            if explanation.joins_weighed > 3 * explanation.joins_budget {
                let message = format!("{} of {} joins", explanation.joins_weighed, explanation.joins_budget);
                return Err(("planning", message));
            }
            counters::add("oracle", "planning", 1);
        }
        if !function.mixed {
            self.solutions(&h, &expected, &vector, &v)?;
            self.jacobians(function, &vector)?;
        }
        Ok(())
    }

    /// Solutions are right within the condition number of the system, or an error; regular systems are solved.
    fn solutions(&self, h: &Hessian<Vec<Tensor>>, expected: &Matrix, right: &Vec<Tensor>, b: &[f64]) -> Check {
        let condition = expected.condition();
        if self.selection.has("solve") {
            match h.solve(right) {
                Ok(x) => {
                    let x = numbers(&x).map_err(|message| ("solve", message))?;
                    let product = expected.times(&x);
                    let rest: Vec<f64> = b.iter().zip(&product).map(|(b, ax)| b - ax).collect();
                    let size = norm(&expected.numbers) * norm(&x) + norm(b);
                    if exceeds(norm(&rest), 1e-9 * size) {
                        let message = format!(
                            "a residual of {:.1e} is left at a condition number of {condition:.1e}:\n{h}",
                            norm(&rest) / size
                        );
                        return Err(("solve", message));
                    }
                    counters::add("structured", "solved", 1);
                }
                Err(error) if condition < REGULAR => {
                    return Err(("solve", format!("{error}, but its condition number is {condition:.1e}:\n{h}")));
                }
                Err(_) => counters::add("structured", "singular", 1),
            }
            counters::add("oracle", "solve", 1);
        }
        if self.selection.has("logdet") && condition < REGULAR {
            let (sign, logarithm) = expected.log_determinant();
            let found = h.logdet().map_err(|error| ("logdet", format!("{error}, condition {condition:.1e}:\n{h}")))?;
            let wrong = match sign < 0.0 {
                true => !found.is_nan(),
                false => exceeds((found - logarithm).abs(), 1e-7 * logarithm.abs().max(1.0)),
            };
            if wrong {
                return Err(("logdet", format!("{found} is not {logarithm} with the sign {sign}:\n{h}")));
            }
            counters::add("oracle", "logdet", 1);
        }
        Ok(())
    }

    /// The Jacobian of the last tensor of the function.
    fn jacobians(&self, function: &Function, vector: &Vec<Tensor>) -> Check {
        if !self.selection.has("jacobian") {
            return Ok(());
        }
        let point = function.point.clone();
        let g = |x: &Vec<Tensor>| function.tensor(x);
        let says = |error: glassgrad::error::Error| ("jacobian", error.to_string());
        let of = |message: String| ("jacobian", message);
        let columns = units(&point)
            .iter()
            .map(|unit| numbers(&jvp(g, &point, unit).1))
            .collect::<Result<Vec<_>, _>>()
            .map_err(of)?;
        let rows = g(&point).shape().elements();
        let expected = Matrix::from_columns(rows, columns);
        if exceeds(expected.largest(), LARGEST) || rows > 60 {
            return Ok(());
        }
        let j = jacobian(g).at(&point).map_err(says)?;
        let dense = numbers(&j.to_dense().map_err(says)?).map_err(of)?;
        near("to_dense", &dense, &expected.numbers, 1e-10).map_err(of)?;
        let triplets = j.triplets().map_err(says)?;
        let columns = expected.numbers.len().checked_div(rows).unwrap_or_default();
        if rows > 0 {
            near("triplets", &from_triplets(&triplets, [rows, columns]).map_err(of)?, &expected.numbers, 1e-10)
                .map_err(of)?;
        }
        let product = numbers(&j.matvec(vector).map_err(says)?).map_err(of)?;
        near("matvec", &product, &expected.times(&numbers(vector).map_err(of)?), 1e-10).map_err(of)?;
        counters::add("oracle", "jacobian", 1);
        Ok(())
    }
}

fn kind(structure: &Structure) -> &'static str {
    match structure {
        Structure::Zero => "zero",
        Structure::Diagonal => "diagonal",
        Structure::Blocks { .. } => "blocks",
        Structure::Kronecker { .. } => "Kronecker product",
        Structure::Kroneckers { .. } => "sum of Kronecker products",
        Structure::LowRank { .. } => "low rank",
        Structure::Factored { .. } => "factored",
        Structure::Sparse { .. } => "sparse",
        Structure::Dense { .. } => "dense",
        Structure::Leaves(_) => "leaves",
        _ => "other",
    }
}

/// What a structure claims about the matrix.
fn claims(structure: &Structure, matrix: &Matrix, tolerance: f64) -> Result<(), String> {
    let noise = tolerance * matrix.largest().max(1.0);
    let off_diagonal =
        || (0..matrix.rows).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| matrix.at(i, j).abs());
    match structure {
        Structure::Zero if matrix.largest() > noise => Err("it is not zero".to_owned()),
        Structure::Diagonal if off_diagonal().any(|number| number > noise) => Err("it is not diagonal".to_owned()),
        Structure::LowRank { base, rank } if **base == Structure::Diagonal && matrix.rows > 2 * rank + 1 => {
            // Off the diagonal, a square of rank + 1 rows and other columns is singular.
            let half = rank + 1;
            let minor = Matrix::from_columns(
                half,
                (0..half).map(|j| (0..half).map(|i| matrix.at(i, matrix.rows - 1 - j)).collect()).collect(),
            );
            let (disjoint, determinant) = (matrix.rows >= 2 * half, minor.determinant().abs());
            let scale = minor.largest().powi(half as i32).max(f64::MIN_POSITIVE);
            match disjoint && determinant > 1e-6 * scale {
                true => Err(format!("its rank beside the diagonal is above {rank}: a minor is {determinant:.1e}")),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}
