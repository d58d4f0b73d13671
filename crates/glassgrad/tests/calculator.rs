//! The calculator on matrix expressions: derivatives as the literature tabulates them, and what it refuses.
#![cfg(all(feature = "glass", feature = "linalg"))]

#[path = "calculator/tables.rs"]
mod tables;

use glassgrad::calculator::{Question, derive, evaluate};
use glassgrad::lang::matrix::Declarations;
use glassgrad::{Tensor, calculus};
use tables::{FIRST, Row, SECOND};

/// The value of an element by a formula that both signs and no zero come out of, or a positive one.
fn leaf(name: &str, shape: &[usize], positive: bool) -> Tensor {
    let seed = name.bytes().map(f64::from).sum::<f64>();
    let count: usize = shape.iter().product();
    let value = |place: usize| {
        let wave = ((place as f64 + 1.0) * 12.9898 + seed * 78.233).sin();
        let diagonal = shape.len() == 2 && place % (shape[1] + 1) == 0;
        match positive {
            true => 0.9 + 0.4 * wave + if diagonal { 2.5 } else { 0.0 },
            false => 0.2 + wave + if diagonal { 1.5 } else { 0.0 },
        }
    };
    Tensor::new(&(0..count).map(value).collect::<Vec<f64>>(), shape)
}

/// The sizes that symbols of the tables have.
fn size(name: &str) -> usize {
    ["", "", "k", "n", "m", "p"].iter().position(|known| *known == name).unwrap_or(2)
}

fn values(declared: &str, positive: bool) -> Vec<(String, Tensor)> {
    let mut found = Vec::new();
    for item in declared.split(',') {
        let (name, sizes) = item.split_once(':').expect("a colon");
        let shape: Vec<usize> = sizes.split_whitespace().map(size).collect();
        found.push((name.trim().to_owned(), leaf(name.trim(), &shape, positive)));
    }
    found
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_vec::<f64>().unwrap_or_else(|error| panic!("{error}"))
}

fn assert_close(one: &[f64], other: &[f64], tolerance: f64, what: &str) {
    assert_eq!(one.len(), other.len(), "{what}");
    let largest = one.iter().chain(other).fold(1.0_f64, |largest, value| largest.max(value.abs()));
    for (a, b) in one.iter().zip(other) {
        assert!((a - b).abs() <= tolerance * largest, "{what}: {a} is not {b}\n{one:?}\n{other:?}");
    }
}

struct Case<'a> {
    row: &'a Row,
    declared: Declarations,
    values: Vec<(String, Tensor)>,
}

impl Case<'_> {
    fn new(row: &Row) -> Case<'_> {
        let declared = Declarations::read(row.declared).unwrap_or_else(|error| panic!("{error}"));
        Case { row, declared, values: values(row.declared, row.positive) }
    }

    fn x(&self) -> Tensor {
        self.values.iter().find(|(name, _)| name == self.row.wrt).expect("the variable").1.clone()
    }

    /// The expression with another value for the variable.
    fn at(&self, source: &str, x: &Tensor) -> Tensor {
        let values: Vec<(&str, &Tensor)> =
            self.values.iter().map(|(name, own)| (name.as_str(), if name == self.row.wrt { x } else { own })).collect();
        evaluate(source, &self.declared, &values).unwrap_or_else(|error| panic!("{source}: {error}"))
    }

    /// Numbers, or the gradient's, by finite differences in every element of the variable: rows by columns.
    fn differences(&self, function: impl Fn(&Tensor) -> Vec<f64>) -> Vec<f64> {
        const STEP: f64 = 1e-3;
        let x = self.x();
        let (elements, shape) = (numbers(&x), x.shape().to_vec());
        let mut columns: Vec<Vec<f64>> = Vec::new();
        for place in 0..elements.len() {
            let moved = |distance: f64| {
                let mut moved = elements.clone();
                moved[place] += distance;
                function(&Tensor::new(&moved, &shape[..]))
            };
            let four = [moved(-2.0 * STEP), moved(-STEP), moved(STEP), moved(2.0 * STEP)];
            let slope = |k: usize| (four[0][k] - 8.0 * four[1][k] + 8.0 * four[2][k] - four[3][k]) / (12.0 * STEP);
            columns.push((0..four[0].len()).map(slope).collect());
        }
        let rows = columns.first().map_or(0, Vec::len);
        (0..rows).flat_map(|row| columns.iter().map(move |column| column[row]).collect::<Vec<f64>>()).collect()
    }

    /// A dense derivative applied to the direction that maps are tabulated for, where they are.
    fn applied(&self, dense: Vec<f64>) -> Vec<f64> {
        let Some((_, direction)) = self.values.iter().find(|(name, _)| *name == format!("d{}", self.row.wrt)) else {
            return dense;
        };
        let along = numbers(direction);
        dense.chunks(along.len()).map(|row| row.iter().zip(&along).map(|(a, b)| a * b).sum()).collect()
    }

    /// The derivative, what is tabulated, what is printed and finite differences are the same.
    fn check(&self, order: usize) -> String {
        let Row { source, wrt, declared, tabulated, .. } = self.row;
        let what = format!("order {order} of {source} by {wrt}");
        let x = self.x();
        let function = |x: &Tensor| self.at(source, x);
        let gradient = |x: &Tensor| numbers(&calculus::jacobian(function).at(x).unwrap().to_dense().unwrap());
        let (dense, differences) = match order {
            1 => (gradient(&x), self.differences(|x| numbers(&function(x)))),
            _ => {
                let dense = calculus::hessian(function).at(&x).unwrap().to_dense().unwrap();
                (numbers(&dense), self.differences(gradient))
            }
        };
        assert_close(&dense, &differences, 1e-8, &format!("{what}: finite differences"));
        let direct = self.applied(dense);
        let found = numbers(&self.at(tabulated, &x));
        assert_close(&direct, &found, 1e-12, &format!("{what}: the table says {tabulated}"));
        // The direction is no symbol of the question.
        let own: Vec<&str> = declared.split(',').filter(|item| !item.trim().starts_with(&format!("d{wrt}:"))).collect();
        let question = Question::new(source, wrt).declare(&own.join(",")).unwrap().order(order);
        let derived = derive(&question).unwrap_or_else(|error| panic!("{what}: {error}"));
        let Some(matrix) = &derived.matrix else { panic!("{what} has no matrix notation: {}", derived.einstein) };
        assert_close(&numbers(&self.at(matrix, &x)), &found, 1e-12, &format!("{what}: printed was {matrix}"));
        assert!(derived.agreement.finite_differences < 1e-7, "{what}: {:?}", derived.agreement);
        assert!(
            derived.agreement.nested < 1e-11 && derived.agreement.matrix < Some(1e-11),
            "{what}: {:?}",
            derived.agreement
        );
        let worst = derived.steps.iter().map(|step| step.deviation).fold(0.0, f64::max);
        assert!(worst < 1e-11, "{what}: a step deviates by {worst}: {:#?}", derived.steps);
        format!(
            "{source}\n  by {wrt}      {matrix}\n  Einstein  {}\n  Ricci     {}\n  LaTeX     {}\n",
            derived.einstein, derived.ricci, derived.latex
        )
    }
}

/// Checks all rows, and says of all that fail why.
fn check_all(rows: &[Row], order: usize) -> String {
    let found: Vec<_> = rows.iter().map(|row| std::panic::catch_unwind(|| Case::new(row).check(order))).collect();
    let failed = found.iter().filter(|found| found.is_err()).count();
    assert_eq!(failed, 0, "{failed} of {} rows fail; each says why above", rows.len());
    found.into_iter().flatten().collect::<Vec<String>>().join("\n")
}

#[test]
fn first_derivatives_are_those_of_the_tables() {
    assert!(FIRST.len() >= 40);
    insta::assert_snapshot!(check_all(FIRST, 1));
}

#[test]
fn second_derivatives_are_those_of_the_tables() {
    assert!(SECOND.len() >= 15);
    insta::assert_snapshot!(check_all(SECOND, 2));
}
