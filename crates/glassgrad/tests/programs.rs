//! Every row of the table in programs before the slow executor, which computes by definition, at every instruction set
//! instructions of this machine: value, gradient and Hessian product, in 32 and 64 bits, for shapes that fill a block of a loop, overflow it, or hold nothing, for
//! factors that lie otherwise in memory, and at infinities and NaN.

#[path = "judges/closeness.rs"]
mod closeness;
#[path = "judges/random.rs"]
mod random;
#[path = "judges/rows.rs"]
mod rows;

use std::ops::Range;

use closeness::{agree, size_of_all};
use glassgrad::array::Array;
use glassgrad::dtype::DType;
use glassgrad::exec::{Isa, with_isa};
use glassgrad::ops::Row;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, grad, hvp};
use random::Random;
use rows::table;

/// How many roundings of the largest number of a result both executors may be apart: their functions differ by a few,
/// and formulas and sums multiply that.
const ROUNDINGS: f64 = 256.0;

fn applied(row: &Row, x: &[Tensor]) -> Tensor {
    let parameter = row.parameter.map_or(0.0, |parameter| parameter.default);
    Tensor::apply(row.operation, parameter, &x.iter().collect::<Vec<_>>())
}

fn elements(array: &Array) -> Vec<f64> {
    (0..array.buffer().len()).map(|place| array.buffer().get(place)).collect()
}

/// The program of each tensor computes what the definition says.
fn assert_by_definition(what: &str, tensors: &[Tensor]) {
    for (place, tensor) in tensors.iter().enumerate() {
        // By definition first: what has a value already is not computed again.
        let expected = tensor.eval_by_reference().unwrap_or_else(|error| panic!("{what}: {error}"));
        let actual = tensor.eval().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((actual.shape(), actual.dtype()), (expected.shape(), expected.dtype()), "{what}, tensor {place}");
        let roundings =
            if tensor.dtype() == DType::F32 { ROUNDINGS * f64::from(f32::EPSILON) / f64::EPSILON } else { ROUNDINGS };
        let (actual, expected) = (elements(&actual), elements(&expected));
        let size = size_of_all(&expected.iter().copied().filter(|number| number.is_finite()).collect::<Vec<_>>());
        for (a, b) in actual.iter().zip(&expected) {
            assert!(agree(*a, *b, size, roundings), "{what}, tensor {place}: {a:e} is not {b:e}");
        }
    }
}

/// Value, gradient and Hessian product of the sum of a row.
fn assert_row(what: &str, row: &Row, x: &Vec<Tensor>, laid_out: fn(&Tensor) -> Tensor) {
    let value = |x: &Vec<Tensor>| applied(row, &x.iter().map(laid_out).collect::<Vec<_>>());
    let total = |x: &Vec<Tensor>| value(x).sum();
    let direction: Vec<Tensor> = x.iter().map(|x| (x.zeros_like() + 0.75).cast(x.dtype())).collect();
    for isa in Isa::here() {
        // Made anew for each level: what has a value already is not computed again.
        let mut tensors = vec![value(x), total(x)];
        tensors.extend(grad(total)(x).flatten());
        tensors.extend(hvp(total, x, &direction).flatten());
        with_isa(isa, || assert_by_definition(&format!("{what}, {isa:?}"), &tensors));
    }
}

fn drawn(random: &mut Random, range: &Range<f64>, shape: &[usize], dtype: DType) -> Tensor {
    let numbers: Vec<f64> = (0..shape.iter().product()).map(|_| random.within(range)).collect();
    Tensor::new(&numbers, shape).cast(dtype).detach().expect("numbers")
}

#[test]
fn every_row_runs_as_it_is_defined() {
    for row in &table() {
        let mut random =
            Random::new(row.operation.name().bytes().fold(3, |seed: u64, byte| seed.rotate_left(5) ^ u64::from(byte)));
        for dtype in [DType::F32, DType::F64] {
            // More elements than one block of a loop holds, and a rest that fills no vector.
            for shape in [&[][..], &[1], &[0], &[2, 0, 3], &[7], &[5, 211]] {
                let x: Vec<Tensor> = row.domain.iter().map(|range| drawn(&mut random, range, shape, dtype)).collect();
                assert_row(&format!("{} of {dtype}{shape:?}", row.operation), row, &x, Tensor::clone);
            }
            let x: Vec<Tensor> = row.domain.iter().map(|range| drawn(&mut random, range, &[6, 9], dtype)).collect();
            assert_row(&format!("{} transposed, {dtype}", row.operation), row, &x, Tensor::transpose);
            assert_row(&format!("{} backwards, {dtype}", row.operation), row, &x, |x| x.flip([0, 1]));
            if let [first, second] = &row.domain[..] {
                let shapes: [[&[usize]; 2]; 3] = [[&[4, 1], &[3]], [&[], &[5]], [&[2, 1], &[0]]];
                for [one, other] in shapes {
                    let x = vec![drawn(&mut random, first, one, dtype), drawn(&mut random, second, other, dtype)];
                    assert_row(&format!("{} of {one:?} and {other:?}", row.operation), row, &x, Tensor::clone);
                }
            }
        }
    }
}

/// Where conventions decide and where nothing is finite, programs say what the definition says, element by element.
#[test]
fn every_row_runs_as_it_is_defined_at_the_edges() {
    let edges = [0.0, -0.0, 1.0, -1.0, 0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MIN_POSITIVE, -3.5, 2.0];
    for row in &table() {
        let points: Vec<f64> = edges.iter().chain(&row.kinks).copied().collect();
        let pairs: Vec<Vec<f64>> = match row.domain.len() {
            1 => points.iter().map(|x| vec![*x]).collect(),
            _ => points.iter().flat_map(|a| points.iter().map(|b| vec![*a, *b])).collect(),
        };
        for dtype in [DType::F32, DType::F64] {
            for pair in &pairs {
                let x: Vec<Tensor> =
                    pair.iter().map(|x| Tensor::from(*x).cast(dtype).detach().expect("a number")).collect();
                assert_row(&format!("{} at {pair:?} in {dtype}", row.operation), row, &x, Tensor::clone);
            }
        }
    }
}
