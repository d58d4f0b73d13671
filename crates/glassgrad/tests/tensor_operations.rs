//! The operations on tensors before their judges.
//!
//! Rows of the table go through the graph and must say what the scalar engines say; linear operations and
//! products in Einstein notation obey the adjoint identity; the lemmas and theorems of the tensor calculus
//! hold under their names; composed operations keep their conventions at ties, zeros and extremes.

#[path = "judges/cases.rs"]
mod cases;
#[path = "judges/closeness.rs"]
mod closeness;
#[path = "judges/random.rs"]
mod random;
#[path = "judges/rows.rs"]
mod rows;
#[path = "judges/tensors.rs"]
mod tensors;

use cases::random_cases;
use closeness::{agree, size_of_all};
use glassgrad::dtype::DType;
use glassgrad::einsum::Einsum;
use glassgrad::expr::{Axes, Index, s};
use glassgrad::ops::{Operation, Row};
use glassgrad::rng::Key;
use glassgrad::scalar::Dual;
use glassgrad::tree::Tree;
use glassgrad::{Algebra, Tensor, grad, hessian, jacobian, jvp, vjp};
use proptest::prelude::*;
use random::Random;
use rows::table;
use tensors::{assert_close, assert_near, assert_tensors, normal, numbers, vector};

/// How far the vector kernels may be from the platform's functions, in roundings of the result.
const KERNEL: f64 = 4.0;
/// How many roundings of numbers of the size of the results two ways of computing may differ by.
const ROUNDINGS: f64 = 64.0;

// ------------------------------------------------------------------ rows of the table

/// What the scalar engines say about a row at a point: value, partials, second partials.
struct Scalar {
    value: f64,
    first: Vec<f64>,
    second: Vec<Vec<f64>>,
}

/// The row at a point, differentiated twice by dual numbers.
fn scalar(row: &Row, x: &[f64]) -> Scalar {
    let seeded: Vec<Dual<Dual<f64, 2>, 2>> =
        x.iter().enumerate().map(|(k, x)| Dual::along(Dual::along(*x, k), k)).collect();
    let y = by_table(row, &seeded);
    Scalar {
        value: y.value.value,
        first: y.tangents[..x.len()].iter().map(|tangent| tangent.value).collect(),
        second: y.tangents[..x.len()].iter().map(|tangent| tangent.tangents[..x.len()].to_vec()).collect(),
    }
}

/// The row in the number that a scalar engine works with.
fn by_table<T: Algebra>(row: &Row, x: &[T]) -> T {
    let y = match x {
        [x] => row.operation.apply_unary(*x, parameter(row)),
        [a, b] => row.operation.apply_binary(*a, *b),
        _ => None,
    };
    y.unwrap_or_else(|| panic!("{} takes {} arguments", row.operation, row.domain.len()))
}

/// The row as a node of the graph.
fn by_graph(row: &Row, x: &[Tensor]) -> Tensor {
    Tensor::apply(row.operation, parameter(row), &x.iter().collect::<Vec<_>>())
}

fn parameter(row: &Row) -> f64 {
    row.parameter.map_or(0.0, |parameter| parameter.default)
}

/// Shapes of the arguments of a row, and for each element of the result the elements that make it.
struct Layout {
    shapes: Vec<Vec<usize>>,
    pairs: Vec<Vec<usize>>,
}

fn layouts(arguments: usize) -> Vec<Layout> {
    let flat = |shape: &[usize]| Layout {
        shapes: vec![shape.to_vec(); arguments],
        pairs: (0..shape.iter().product()).map(|k| vec![k; arguments]).collect(),
    };
    let mut layouts = vec![flat(&[]), flat(&[2, 3]), flat(&[0]), flat(&[2, 0, 3])];
    if arguments == 2 {
        let product = |m: usize, n: usize| (0..m * n).map(|k| vec![k / n, k % n]).collect();
        layouts.push(Layout { shapes: vec![vec![2, 1], vec![3]], pairs: product(2, 3) });
        layouts.push(Layout { shapes: vec![vec![2, 1], vec![0]], pairs: Vec::new() });
        layouts.push(Layout { shapes: vec![vec![], vec![3]], pairs: product(1, 3) });
        layouts.push(Layout { shapes: vec![vec![3], vec![]], pairs: (0..3).map(|k| vec![k, 0]).collect() });
    }
    layouts
}

/// Random arguments of a layout, all pairs of which are away from kinks.
fn arguments(row: &Row, layout: &Layout) -> Vec<Vec<f64>> {
    let mut random =
        Random::new(row.operation.name().bytes().fold(7_u64, |seed, byte| seed.rotate_left(5) ^ u64::from(byte)));
    let clear = |x: &Vec<Vec<f64>>| {
        layout.pairs.iter().all(|places| {
            let place = if x.len() == 1 { x[0][places[0]] } else { x[0][places[0]] - x[1][places[1]] };
            row.kinks.iter().all(|kink| (place - kink).abs() > 0.05)
        })
    };
    std::iter::repeat_with(|| {
        let sizes = layout.shapes.iter().map(|shape| shape.iter().product::<usize>());
        sizes.zip(&row.domain).map(|(size, range)| (0..size).map(|_| random.within(range)).collect()).collect()
    })
    .find(clear)
    .expect("there are points away from kinks")
}

fn gathered(x: &[Vec<f64>], places: &[usize]) -> Vec<f64> {
    x.iter().zip(places).map(|(x, place)| x[*place]).collect()
}

#[test]
fn every_row_has_the_value_and_the_derivatives_of_the_scalar_rule() {
    for row in &table() {
        for layout in layouts(row.domain.len()) {
            let x = arguments(row, &layout);
            let what = |part: &str| format!("{part} of {} for {:?}", row.operation, layout.shapes);
            let tensors: Vec<Tensor> =
                x.iter().zip(&layout.shapes).map(|(x, shape)| Tensor::new(x, &shape[..])).collect();
            let scalars: Vec<Scalar> = layout.pairs.iter().map(|places| scalar(row, &gathered(&x, places))).collect();
            let f = |x: &Vec<Tensor>| by_graph(row, x);
            let total = |x: &Vec<Tensor>| f(x).sum();

            let y = f(&tensors);
            // The vector kernels are a few units in the last place away from the platform's functions.
            assert_near(&what("value"), &numbers(&y), &scalars.iter().map(|s| s.value).collect::<Vec<_>>(), KERNEL);

            // Sums of the elements' contributions to each argument.
            let collected = |contribution: &dyn Fn(&Scalar, &[usize], usize) -> f64| -> Vec<Vec<f64>> {
                let mut sums: Vec<Vec<f64>> = x.iter().map(|x| vec![0.0; x.len()]).collect();
                for (scalar, places) in scalars.iter().zip(&layout.pairs) {
                    for (argument, place) in places.iter().enumerate() {
                        sums[argument][*place] += contribution(scalar, places, argument);
                    }
                }
                sums
            };
            let check = |part: &str, actual: &[Tensor], expected: &[Vec<f64>]| {
                for ((actual, expected), x) in actual.iter().zip(expected).zip(&tensors) {
                    assert_eq!(actual.shape(), x.shape(), "{}", what(part));
                    assert_close(&what(part), &numbers(actual), expected);
                }
            };
            let slopes = grad(total)(&tensors);
            check("gradient", &slopes, &collected(&|s, _, k| s.first[k]));

            let v: Vec<Tensor> = tensors.random_like(Key::new(3));
            let direction: Vec<Vec<f64>> = v.iter().map(numbers).collect();
            let (_, tangent) = jvp(f, &tensors, &v);
            let along = |s: &Scalar, places: &[usize]| -> f64 {
                s.first.iter().zip(gathered(&direction, places)).map(|(slope, v)| slope * v).sum()
            };
            let expected: Vec<f64> = scalars.iter().zip(&layout.pairs).map(|(s, places)| along(s, places)).collect();
            assert_eq!(tangent.shape(), y.shape());
            assert_close(&what("tangent"), &numbers(&tangent), &expected);

            let second = grad(|x: &Vec<Tensor>| grad(total)(x).iter().map(Tensor::sum).sum::<Tensor>());
            // A sum of nothing but 32-bit zeros cannot arise: every gradient has the type of its argument.
            check("gradient of the gradient", &second(&tensors), &collected(&|s, _, k| s.second[k].iter().sum()));
            let (_, turned) = jvp(grad(total), &tensors, &v);
            let curved = collected(&|s, places, k| {
                s.second[k].iter().zip(gathered(&direction, places)).map(|(curvature, v)| curvature * v).sum()
            });
            check("tangent of the gradient", &turned, &curved);
            let (_, pull) = vjp(|x: &Vec<Tensor>| jvp(f, x, &v).1.sum(), &tensors);
            check("gradient of the tangent", &pull(&Tensor::from(1.0)), &curved);
        }
    }
}

#[test]
fn every_row_computes_in_single_precision() {
    for row in &table() {
        for layout in layouts(row.domain.len()) {
            let x: Vec<Vec<f32>> =
                arguments(row, &layout).iter().map(|x| x.iter().map(|x| *x as f32).collect()).collect();
            let tensors: Vec<Tensor> =
                x.iter().zip(&layout.shapes).map(|(x, shape)| Tensor::new(x, &shape[..])).collect();
            let f = |x: &Vec<Tensor>| by_graph(row, x);
            let y = f(&tensors);
            assert_eq!(y.dtype(), DType::F32);
            let pair = |places: &[usize]| x.iter().zip(places).map(|(x, k)| x[*k]).collect::<Vec<f32>>();
            let expected: Vec<f32> = layout.pairs.iter().map(|places| by_table(row, &pair(places))).collect();
            let expected: Vec<f64> = expected.iter().map(|number| f64::from(*number)).collect();
            let single = KERNEL * f64::from(f32::EPSILON) / f64::EPSILON;
            assert_near(row.operation.name(), &numbers(&y), &expected, single);
            // The gradient in 64 bits, with 32-bit roundings.
            let total = |x: &Vec<Tensor>| f(x).sum();
            let wide = tensors.map(|x| x.cast(DType::F64));
            for (narrow, wide) in grad(total)(&tensors).iter().zip(grad(total)(&wide)) {
                assert_eq!(narrow.dtype(), DType::F32);
                let (narrow, wide) = (numbers(narrow), numbers(&wide));
                let tolerance = ROUNDINGS * f64::from(f32::EPSILON) * size_of_all(&wide);
                let near = narrow.iter().zip(&wide).all(|(a, b)| (a - b).abs() <= tolerance);
                assert!(near, "{}: {narrow:?} is not {wide:?}", row.operation);
            }
        }
    }
}

#[test]
fn every_row_keeps_its_conventions_at_special_points() {
    for row in &table() {
        for special in &row.special {
            let x: Vec<Tensor> = special.at.iter().map(|x| Tensor::from(*x)).collect();
            let f = |x: &Vec<Tensor>| by_graph(row, x);
            let what = format!("{} at {:?}", row.operation, special.at);
            // Some rows pin rounded literals; table.rs judges the values more sharply.
            let near =
                |actual: f64, stated: f64| actual == stated || (actual - stated).abs() <= 1e-14 * stated.abs().max(1.0);
            assert!(near(numbers(&f(&x))[0], special.value), "{what}");
            for (slope, stated) in grad(f)(&x).iter().zip(&special.partials) {
                assert!(near(numbers(slope)[0], *stated), "gradient of {what}: {slope} is not {stated}");
            }
            for (place, stated) in special.partials.iter().enumerate() {
                let unit = (0..x.len()).map(|k| Tensor::from(f64::from(u8::from(k == place)))).collect();
                let tangent = jvp(f, &x, &unit).1;
                // What does not move still meets its partial: only where that is finite it adds nothing.
                if special.partials.iter().all(|partial| partial.is_finite()) || x.len() == 1 {
                    assert!(near(numbers(&tangent)[0], *stated), "tangent of {what}: {tangent} is not {stated}");
                }
            }
        }
    }
}

#[test]
fn rows_are_applied_to_as_many_tensors_as_they_take() {
    let x = vector(&[1.0, 2.0]);
    for row in &table() {
        let arity = row.domain.len();
        for count in (0..4).filter(|count| *count != arity) {
            let error = Tensor::apply(row.operation, 0.0, &vec![&x; count]).eval().expect_err("a wrong number");
            let stated = format!("{}: it takes {arity} tensors, not {count}", row.operation.name());
            assert!(error.to_string().starts_with(&stated), "{error}");
        }
    }
    for other in [Operation::Input, Operation::Where] {
        assert!(Tensor::apply(other, 0.0, &[&x, &x]).eval().is_err());
    }
}

// ------------------------------------------------------------------ the adjoint identity

/// ⟨w, Jv⟩ = ⟨Jᵀw, v⟩ to rounding, for several random v and w.
#[track_caller]
fn assert_adjoint(what: &str, f: impl Fn(&Vec<Tensor>) -> Tensor, x: &Vec<Tensor>) {
    for seed in 0..3 {
        let wide = |tree: &Vec<Tensor>| tree.map(|leaf| leaf.cast(DType::F64));
        let v = x.random_like(Key::new(100 + seed));
        let (y, pull) = vjp(&f, x);
        let w = y.random_like(Key::new(200 + seed));
        let (_, pushed) = jvp(&f, x, &v);
        let pulled = pull(&w);
        assert_eq!(pushed.shape(), y.shape(), "{what}");
        assert_eq!(pushed.dtype(), y.dtype(), "{what}");
        for (pulled, x) in pulled.iter().zip(x) {
            assert_eq!((pulled.shape(), pulled.dtype()), (x.shape(), x.dtype()), "{what}");
        }
        let products = |a: &Vec<Tensor>, b: &Vec<Tensor>| -> Vec<f64> {
            let pairs = wide(a).into_iter().zip(wide(b));
            pairs.flat_map(|(a, b)| numbers(&(a * b))).collect()
        };
        let left = products(&vec![w], &vec![pushed]);
        let right = products(&pulled, &v);
        let size = left.iter().chain(&right).map(|term| term.abs()).sum::<f64>();
        // One 32-bit rounding for each step where a 32-bit number was made.
        let single = y.dtype() == DType::F32 || x.iter().any(|x| x.dtype() == DType::F32);
        let roundings = if single { 8.0 * f64::from(f32::EPSILON) / f64::EPSILON } else { 16.0 };
        let (left, right) = (left.iter().sum::<f64>(), right.iter().sum::<f64>());
        assert!(agree(left, right, size, roundings), "{what}: {left:e} is not {right:e}");
    }
}

/// A linear operation is its own derivative, and has no second one.
#[track_caller]
fn assert_linear(what: &str, f: impl Fn(&Vec<Tensor>) -> Tensor, shapes: &[&[usize]]) {
    let x: Vec<Tensor> = shapes.iter().zip(1..).map(|(shape, seed)| normal(seed, shape)).collect();
    assert_adjoint(what, &f, &x);
    let v = x.random_like(Key::new(9));
    assert_tensors(what, &jvp(&f, &x, &v).1, &f(&v));
    let curvature = grad(|x: &Vec<Tensor>| grad(|x: &Vec<Tensor>| f(x).sum())(x)[0].sum())(&x);
    curvature.iter().for_each(|part| assert!(numbers(part).iter().all(|number| *number == 0.0), "{what}"));
}

#[test]
fn linear_operations_obey_the_adjoint_identity() {
    assert_linear("add", |x| &x[0] + &x[1], &[&[2, 3], &[2, 3]]);
    assert_linear("add, broadcast", |x| &x[0] + &x[1] - &x[2], &[&[2, 1], &[3], &[]]);
    assert_linear("the same twice", |x| &x[0] + &x[0], &[&[2, 3]]);
    assert_linear("neg", |x| -&x[0], &[&[2, 3]]);
    assert_linear("times a number", |x| 2.5 * &x[0], &[&[2, 3]]);
    assert_linear("reshape", |x| x[0].reshape([3, 2, 1]), &[&[2, 3]]);
    assert_linear("reshape to a number", |x| x[0].reshape(()), &[&[1, 1]]);
    assert_linear("slice", |x| x[0].slice(&[s(1..3), s(..)]), &[&[4, 3]]);
    assert_linear("slice by steps", |x| x[0].slice(&[s(..).step(2), s(1..).step(3)]), &[&[5, 8]]);
    assert_linear("slice by negative steps", |x| x[0].slice(&[s(..).step(-1), s(1..).step(-3)]), &[&[5, 8]]);
    assert_linear("slice at a place", |x| x[0].slice(&[s(-1), s(..2)]), &[&[4, 3]]);
    assert_linear("empty slice", |x| x[0].slice(&[s(2..2)]), &[&[4, 3]]);
    assert_linear("pad", |x| x[0].pad(&[(1, 2), (0, 3)]), &[&[2, 3]]);
    assert_linear("pad nothing", |x| x[0].pad(&[(1, 2), (0, 0)]), &[&[0, 3]]);
    for axis in 0..2 {
        let name = format!("concatenate along {axis}");
        assert_linear(&name, |x| Tensor::concatenate([&x[0], &x[1], &x[0]], axis), &[&[2, 3], &[2, 3]]);
        assert_linear(&format!("stack along {axis}"), |x| Tensor::stack([&x[0], &x[1]], axis), &[&[2, 3], &[2, 3]]);
    }
    assert_linear("concatenate unequal", |x| Tensor::concatenate([&x[0], &x[1], &x[2]], 0), &[&[2], &[0], &[3]]);
    let places = Tensor::new(&[2_i64, 0, 2, 1], [2, 2]);
    assert_linear("gather from the first axis", |x| x[0].take(&places, 0), &[&[3, 4]]);
    assert_linear("gather from the middle axis", |x| x[0].take(&places, 1), &[&[2, 3, 4]]);
    assert_linear("gather one", |x| x[0].take(&Tensor::from(1_i64), 1), &[&[2, 3]]);
    assert_linear("gather none", |x| x[0].take(&Tensor::new::<i64>(&[], 0), 0), &[&[2, 3]]);
    assert_linear("scatter_add", |x| x[0].scatter_add(&places, 0, 3), &[&[2, 2, 4]]);
    assert_linear("scatter_add behind an axis", |x| x[0].scatter_add(&places, 1, 5), &[&[3, 2, 2, 2]]);
    assert_linear("flip", |x| x[0].flip([0, 2]), &[&[2, 3, 4]]);
    assert_linear("permute", |x| x[0].permute([2, 0, 1]), &[&[2, 3, 4]]);
    assert_linear("transpose", |x| x[0].transpose(), &[&[2, 3, 4]]);
    assert_linear("broadcast_to", |x| x[0].broadcast_to([4, 2, 3]), &[&[2, 1]]);
    assert_linear("broadcast_to nothing", |x| x[0].broadcast_to([0, 2, 3]), &[&[2, 1]]);
    assert_linear("sum", |x| x[0].sum(), &[&[2, 3]]);
    assert_linear("sum over axes", |x| x[0].sum_over([0, -1]), &[&[2, 3, 4]]);
    assert_linear("sum that keeps axes", |x| x[0].sum_over(Axes::from(1).keep()), &[&[2, 3, 4]]);
    assert_linear("sum of nothing", |x| x[0].sum_over(1), &[&[2, 0]]);
    assert_linear("mean", |x| x[0].mean_over(-1), &[&[2, 3]]);
    assert_linear("diag of a vector", |x| x[0].diag(), &[&[3]]);
    assert_linear("diag of a matrix", |x| x[0].diag(), &[&[3, 3]]);
    assert_linear("trace", |x| x[0].trace(), &[&[3, 3]]);
    assert_linear("expand", |x| x[0].unsqueeze(1), &[&[2, 3]]);
    let mask = Tensor::new(&[true, false, true], 3);
    assert_linear("choose", |x| mask.choose(&x[0], &x[1]), &[&[2, 3], &[3]]);
}

#[test]
fn slices_read_the_places_that_they_name() {
    let x = Tensor::arange(10.0_f64);
    let read = |index| numbers(&x.slice(&[index]));
    assert_eq!(read(s(..).step(-1)), (0..10).rev().map(f64::from).collect::<Vec<_>>());
    assert_eq!(read(s(..).step(3)), [0.0, 3.0, 6.0, 9.0]);
    assert_eq!(read(s(2..8).step(-2)), [0.0; 0]);
    assert_eq!(read(Index::Range(Some(7), Some(1), -2)), [7.0, 5.0, 3.0]);
    assert_eq!(read(s(-3..)), [7.0, 8.0, 9.0]);
    assert_eq!(read(s(-3..=-1)), [7.0, 8.0, 9.0]);
    let (start, end) = (7, 3);
    assert_eq!(read(s(start..end)), [0.0; 0]);
    assert_eq!(read(s(8..20)), [8.0, 9.0]);
    assert!(x.slice(&[s(10)]).eval().is_err());
    assert!(x.slice(&[s(..).step(0)]).eval().is_err());
}

#[test]
fn truth_values_move_like_numbers() {
    let mask = Tensor::from([[1.0, -1.0, 2.0], [-3.0, 4.0, -5.0]]).gt(0.0);
    assert_eq!(mask.transpose().to_vec::<bool>().unwrap(), [true, false, false, true, true, false]);
    assert_eq!(mask.broadcast_to([2, 2, 3]).to_vec::<bool>().unwrap()[6..], mask.to_vec::<bool>().unwrap());
    assert_eq!(mask.slice(&[s(0)]).flip([0]).to_vec::<bool>().unwrap(), [true, false, true]);
}

#[test]
fn casts_obey_the_adjoint_identity() {
    let wide = normal(1, &[2, 3]);
    let narrow = Tensor::normal(Key::new(2), [2, 3]);
    assert_adjoint("f64 to f32", |x| x[0].cast(DType::F32), &vec![wide.clone()]);
    assert_adjoint("f32 to f64", |x| x[0].cast(DType::F64), &vec![narrow.clone()]);
    assert_adjoint("there and back", |x| x[0].cast(DType::F64).cast(DType::F32), &vec![narrow]);
    // Nothing passes through integers, in either direction.
    let floor = |x: &Tensor| x.cast(DType::I64).cast(DType::F64).sum();
    assert_eq!(numbers(&grad(floor)(&wide)), [0.0; 6]);
    assert_eq!(numbers(&jvp(floor, &wide, &wide).1), [0.0]);
}

// ------------------------------------------------------------------ Einstein notation

/// The product by its definition: a loop over all labels.
fn by_definition(einsum: &Einsum, operands: &[Vec<f64>]) -> Vec<f64> {
    let place = |labels: &[usize], at: &[usize]| {
        labels.iter().fold(0, |place, label| place * einsum.extents[*label] + at[*label])
    };
    let mut result = vec![0.0; einsum.output_shape().elements()];
    let count: usize = einsum.extents.iter().product();
    for number in 0..count {
        let mut rest = number;
        let mut at = vec![0; einsum.extents.len()];
        for (index, extent) in at.iter_mut().zip(&einsum.extents).rev() {
            (*index, rest) = (rest % extent, rest / extent);
        }
        let factors = einsum.operands.iter().zip(operands).map(|(labels, operand)| operand[place(labels, &at)]);
        result[place(&einsum.output, &at)] += factors.product::<f64>();
    }
    result
}

fn assert_einsum(notation: &str, shapes: &[Vec<usize>]) {
    let borrowed: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let einsum = Einsum::parse(notation, &borrowed).unwrap_or_else(|error| panic!("{error}"));
    let x: Vec<Tensor> = shapes.iter().zip(1..).map(|(shape, seed)| normal(seed, shape)).collect();
    let what = format!("{notation} of {shapes:?}");
    let f = |x: &Vec<Tensor>| Tensor::einsum(notation, x.iter().collect::<Vec<_>>());
    let y = f(&x);
    assert_eq!(y.shape(), &einsum.output_shape(), "{what}");
    let operands: Vec<Vec<f64>> = x.iter().map(numbers).collect();
    assert_close(&what, &numbers(&y), &by_definition(&einsum, &operands));
    if x.is_empty() {
        return;
    }
    assert_adjoint(&what, f, &x);
    // Also for its derivatives: to every operand the gradient of a weighted sum is an einsum again.
    let weights = y.random_like(Key::new(5));
    assert_adjoint(&what, |x| grad(|x: &Vec<Tensor>| f(x).inner(&weights))(x)[0].clone(), &x);
    assert_adjoint(&what, |x| jvp(f, x, &x.random_like(Key::new(6))).1, &x);
    for (number, operand) in x.iter().enumerate() {
        // The whole Jacobian in one sweep: the product with a unit tensor in the operand's place.
        let with = |operand: &Tensor| {
            let mut x = x.clone();
            x[number] = operand.clone();
            f(&x)
        };
        let found = jacobian(with)(operand);
        assert_eq!(found.shape(), &y.shape().followed_by(operand.shape()), "{what}");
        let v = operand.random_like(Key::new(7));
        let (n, m) = (y.shape().elements(), operand.shape().elements());
        let product = found.reshape([n, m]).matmul(&v.reshape([m])).reshape(y.shape());
        assert_tensors(&what, &product, &with(&v));
    }
}

#[test]
fn products_in_einstein_notation_are_what_they_say() {
    let sizes = |letters: &str| -> Vec<usize> {
        let size = |letter: char| match letter {
            'i' => 3,
            'j' => 2,
            'k' => 4,
            'l' => 2,
            'm' => 3,
            _ => 2,
        };
        letters.chars().map(size).collect()
    };
    let forms = [
        "ii->",
        "i->ij=3",
        "i->ii",
        "ii->i",
        "ij,jk->ik",
        "ij,ij->",
        "ij->ji",
        "i,j->ij",
        "bij,bjk->bik",
        "ijk,kl,jm->ilm",
        "ij,i->j",
        "i->",
        "i->i",
        "->",
        ",->",
        ",i->i",
        ",,ij->ji",
        "i->k=4",
        "i,i,i->i",
        "i,i,i->ii",
        "ij,kl->ikjl",
        "iij->jj",
        "iii->i",
        "i->iii",
        "ij,jk,kl->il",
        "ij,j,i->",
        "ij->ijk=2",
        "ij->ijij",
        "ii,i->ii",
        "i,j,k->kji",
        "->m=3m",
        "ij,ij->ji",
        "ij,ji->ij",
    ];
    for form in forms {
        let inputs = form.split("->").next().unwrap_or_default();
        assert_einsum(form, &inputs.split(',').map(sizes).collect::<Vec<_>>());
    }
    assert_einsum("->i=3i", &[]);
    assert_einsum("->", &[]);
    assert_einsum("->i=2j=3ij", &[]);
    // Empty labels: a sum of nothing is zero, a product of nothing has no elements.
    assert_einsum("ij,jk->ik", &[vec![2, 0], vec![0, 3]]);
    assert_einsum("ij->i", &[vec![0, 3]]);
    assert_einsum("i->ij=0", &[vec![3]]);
}

#[test]
fn unit_tensors_are_einsums_without_operands() {
    for shape in [vec![], vec![3], vec![2, 3], vec![2, 0]] {
        let unit = Einsum::unit(&shape);
        assert_eq!(unit.output_shape().to_vec(), [&shape[..], &shape[..]].concat());
        let count: usize = shape.iter().product();
        let expected: Vec<f64> = (0..count * count).map(|k| f64::from(u8::from(k / count == k % count))).collect();
        assert_eq!(by_definition(&unit, &[]), expected);
        // The Jacobian of the identity is the unit tensor.
        let found = jacobian(|x: &Tensor| x.clone())(&normal(1, &shape));
        assert_eq!(numbers(&found), expected);
    }
    assert_eq!(numbers(&Tensor::einsum("->i=3i", Vec::<Tensor>::new())), numbers(&Tensor::eye(3)));
}

#[test]
fn notations_that_mean_nothing_are_refused() {
    let (matrix, vector) = (normal(1, &[2, 3]), normal(2, &[2]));
    for (notation, operands) in [
        ("i", vec![&matrix]),
        ("...->", vec![&matrix]),
        ("...,...", vec![&matrix, &normal(3, &[2, 2])]),
        ("i......j->ij", vec![&matrix]),
        ("i->i", vec![&matrix]),
        ("ij,jk->ik", vec![&matrix]),
        ("ii->", vec![&matrix]),
        ("ij,j->i", vec![&matrix, &vector]),
        ("ij->ik", vec![&matrix]),
        ("ij->i3", vec![&matrix]),
    ] {
        assert!(Tensor::einsum(notation, &operands).eval().is_err(), "{notation}");
    }
    let truth = Tensor::from([true, false]);
    assert!(Tensor::einsum("i,i->i", [&truth, &truth]).eval().is_err());
}

/// A generated product: for each operand its labels, and those of the output.
fn any_product() -> impl Strategy<Value = (Vec<Vec<usize>>, Vec<usize>, Vec<usize>)> {
    let operands = prop::collection::vec(prop::collection::vec(0_usize..4, 0..4), 1..4);
    (operands, prop::collection::vec(0_usize..4, 0..4), prop::collection::vec(1_usize..4, 4))
}

fn notation_of(operands: &[Vec<usize>], output: &[usize], sizes: &[usize]) -> (String, Vec<Vec<usize>>) {
    let letter = |label: &usize| char::from(b'i' + *label as u8);
    let inputs: Vec<String> = operands.iter().map(|labels| labels.iter().map(letter).collect()).collect();
    let output: String = output.iter().map(|label| format!("{}={}", letter(label), sizes[*label])).collect();
    let shapes = operands.iter().map(|labels| labels.iter().map(|label| sizes[*label]).collect()).collect();
    (format!("{}->{output}", inputs.join(",")), shapes)
}

proptest! {
    #![proptest_config(random_cases(64))]

    #[test]
    fn generated_products_are_what_they_say((operands, output, sizes) in any_product()) {
        let (notation, shapes) = notation_of(&operands, &output, &sizes);
        assert_einsum(&notation, &shapes);
    }
}

// ------------------------------------------------------------------ the tensor calculus

/// Index sets of the calculus: `s1`, `s2`, `s3 ⊆ s1 ∪ s2`, and one apart from them, with sizes.
#[derive(Clone, Debug)]
struct Sets {
    s1: Vec<usize>,
    s2: Vec<usize>,
    s3: Vec<usize>,
    s4: Vec<usize>,
    sizes: Vec<usize>,
}

/// Labels 0 to 2 for the first three sets, and 3 and 4 for the last.
fn any_sets() -> impl Strategy<Value = Sets> {
    let subset = |labels: &[usize]| prop::sample::subsequence(labels.to_vec(), 0..=labels.len()).prop_shuffle();
    let sizes = prop::collection::vec(1_usize..4, 5);
    (subset(&[0, 1, 2]), subset(&[0, 1, 2]), subset(&[0, 1, 2]), subset(&[3, 4]), sizes).prop_map(
        |(s1, s2, s3, s4, sizes)| {
            let s3 = s3.into_iter().filter(|label| s1.contains(label) || s2.contains(label)).collect();
            Sets { s1, s2, s3, s4, sizes }
        },
    )
}

impl Sets {
    fn tensor(&self, seed: u64, labels: &[usize]) -> Tensor {
        normal(seed, &labels.iter().map(|label| self.sizes[*label]).collect::<Vec<_>>())
    }
}

fn joined(a: &[usize], b: &[usize]) -> Vec<usize> {
    [a, b].concat()
}

/// A *(s1, s2, s3) B.
fn times(a: &Tensor, s1: &[usize], b: &Tensor, s2: &[usize], s3: &[usize]) -> Tensor {
    Tensor::einsum_labels(&[(a, s1), (b, s2)], s3)
}

proptest! {
    #![proptest_config(random_cases(64))]

    #[test]
    fn lemma_2_1_associativity(sets in any_sets()) {
        let Sets { s1, s2, s3, s4, .. } = &sets;
        let (s24, s34) = (joined(s2, s4), joined(s3, s4));
        let (a, b, c) = (sets.tensor(1, s1), sets.tensor(2, &s24), sets.tensor(3, s4));
        let left = times(&times(&a, s1, &b, &s24, &s34), &s34, &c, s4, s3);
        let right = times(&a, s1, &times(&b, &s24, &c, s4, s2), s2, s3);
        assert_tensors("associativity", &left, &right);
    }

    #[test]
    fn lemma_2_2_commutativity(sets in any_sets()) {
        let Sets { s1, s2, s3, .. } = &sets;
        let (a, b) = (sets.tensor(1, s1), sets.tensor(2, s2));
        assert_tensors("commutativity", &times(&a, s1, &b, s2, s3), &times(&b, s2, &a, s1, s3));
    }

    #[test]
    fn lemma_2_3_distributivity(sets in any_sets()) {
        let Sets { s1, s2, s3, .. } = &sets;
        let (a, b, c) = (sets.tensor(1, s1), sets.tensor(2, s2), sets.tensor(3, s2));
        let left = times(&a, s1, &b, s2, s3) + times(&a, s1, &c, s2, s3);
        assert_tensors("distributivity", &left, &times(&a, s1, &(b + c), s2, s3));
    }

    /// Ċ = B *(s2, s1s4, s3s4) Ȧ + A *(s1, s2s4, s3s4) Ḃ.
    #[test]
    fn theorem_3_2_pushforward_of_a_product(sets in any_sets()) {
        let Sets { s1, s2, s3, s4, .. } = &sets;
        let (s14, s24, s34) = (joined(s1, s4), joined(s2, s4), joined(s3, s4));
        let (p, q, x) = (sets.tensor(1, &s14), sets.tensor(2, &s24), sets.tensor(3, s4));
        let a = |x: &Tensor| times(&p, &s14, &x.sin(), s4, s1);
        let b = |x: &Tensor| times(&q, &s24, &x.cos(), s4, s2);
        let whole = jacobian(|x: &Tensor| times(&a(x), s1, &b(x), s2, s3))(&x);
        let parts = times(&b(&x), s2, &jacobian(a)(&x), &s14, &s34) + times(&a(&x), s1, &jacobian(b)(&x), &s24, &s34);
        assert_tensors("theorem 3.2", &whole, &parts);
        // The same by forward mode, along a direction.
        let v = sets.tensor(4, s4);
        let pushed = jvp(|x: &Tensor| times(&a(x), s1, &b(x), s2, s3), &x, &v).1;
        assert_tensors("theorem 3.2", &pushed, &times(&parts, &s34, &v, s4, s3));
    }

    /// Ċ = f'(A) *(s2s1, s1s3, s2s3) Ȧ, for f from s1 = {0, 1, 2}-subsets to s2 = {5} and x in s4.
    #[test]
    fn theorem_3_3_pushforward_of_a_general_function(sets in any_sets()) {
        let Sets { s1, s4, .. } = &sets;
        let sets = Sets { sizes: joined(&sets.sizes, &[3]), ..sets.clone() };
        let s2 = [5];
        let (s21, s14, s24) = (joined(&s2, s1), joined(s1, s4), joined(&s2, s4));
        let (m, p, x) = (sets.tensor(1, &s21), sets.tensor(2, &s14), sets.tensor(3, s4));
        let f = |a: &Tensor| times(&m, &s21, &a.tanh(), s1, &s2).softmax(0);
        let a = |x: &Tensor| times(&p, &s14, &x.sin(), s4, s1);
        let product = times(&jacobian(f)(&a(&x)), &s21, &jacobian(a)(&x), &s14, &s24);
        assert_tensors("theorem 3.3", &jacobian(|x: &Tensor| f(&a(x)))(&x), &product);
        let v = sets.tensor(4, s4);
        let pushed = jvp(|x: &Tensor| f(&a(x)), &x, &v).1;
        assert_tensors("theorem 3.3", &pushed, &times(&product, &s24, &v, s4, &s2));
    }

    /// Ċ = f'(A) *(s1, s1s2, s1s2) Ȧ.
    #[test]
    fn theorem_3_4_pushforward_of_an_elementwise_function(sets in any_sets()) {
        let Sets { s1, s4, .. } = &sets;
        let s14 = joined(s1, s4);
        let (p, x) = (sets.tensor(2, &s14), sets.tensor(3, s4));
        let a = |x: &Tensor| times(&p, &s14, &x.sin(), s4, s1);
        let whole = jacobian(|x: &Tensor| a(x).tanh())(&x);
        let slope = 1.0 - a(&x).tanh().square();
        let product = times(&slope, s1, &jacobian(a)(&x), &s14, &s14);
        assert_tensors("theorem 3.4", &whole, &product);
        let v = sets.tensor(4, s4);
        let pushed = jvp(|x: &Tensor| a(x).tanh(), &x, &v).1;
        assert_tensors("theorem 3.4", &pushed, &times(&product, &s14, &v, s4, s1));
    }

    /// B̄ = C̄ *(s4s3, s1, s4s2) A and Ā = C̄ *(s4s3, s2, s4s1) B. A label of an argument that the output and
    /// the other argument do not have needs a factor of ones, which the engine's einsum spreads by itself.
    #[test]
    fn theorem_3_5_pullback_of_a_product(sets in any_sets()) {
        let Sets { s1, s2, s3, s4, sizes } = &sets;
        let (s43, s41, s42) = (joined(s4, s3), joined(s4, s1), joined(s4, s2));
        let (a, b, q) = (sets.tensor(1, s1), sets.tensor(2, s2), sets.tensor(3, &s43));
        let y = |c: &Tensor| times(&q, &s43, &c.sin(), s3, s4);
        let c = |a: &Tensor, b: &Tensor| times(a, s1, b, s2, s3);
        let above = jacobian(y)(&c(&a, &b));
        let spread = |above: &Tensor, other: &Tensor, own: &[usize], labels: &[usize], output: &[usize]| {
            let ones = Tensor::full(own.iter().map(|l| sizes[*l]).collect::<Vec<_>>(), 1.0, DType::F64);
            Tensor::einsum_labels(&[(above, &s43), (other, labels), (&ones, own)], output)
        };
        let to_b = jacobian(|b: &Tensor| y(&c(&a, b)))(&b);
        assert_tensors("theorem 3.5 to B", &to_b, &spread(&above, &a, s2, s1, &s42));
        let to_a = jacobian(|a: &Tensor| y(&c(a, &b)))(&a);
        assert_tensors("theorem 3.5 to A", &to_a, &spread(&above, &b, s1, s2, &s41));
    }

    /// Ā = f̄ *(s3s2, s2s1, s3s1) f'(A), for f from s1 to s2 = {5} and Y in s4.
    #[test]
    fn theorem_3_6_pullback_of_a_general_function(sets in any_sets()) {
        let Sets { s1, s4, .. } = &sets;
        let sets = Sets { sizes: joined(&sets.sizes, &[3]), ..sets.clone() };
        let s2 = [5];
        let (s21, s41, s42) = (joined(&s2, s1), joined(s4, s1), joined(s4, &s2));
        let (m, q, a) = (sets.tensor(1, &s21), sets.tensor(2, &s42), sets.tensor(3, s1));
        let f = |a: &Tensor| times(&m, &s21, &a.tanh(), s1, &s2).softmax(0);
        let y = |c: &Tensor| times(&q, &s42, &c.sin(), &s2, s4);
        let product = times(&jacobian(y)(&f(&a)), &s42, &jacobian(f)(&a), &s21, &s41);
        assert_tensors("theorem 3.6", &jacobian(|a: &Tensor| y(&f(a)))(&a), &product);
    }

    /// Ā = f̄ *(s2s1, s1, s2s1) f'(A).
    #[test]
    fn theorem_3_7_pullback_of_an_elementwise_function(sets in any_sets()) {
        let Sets { s1, s4, .. } = &sets;
        let s41 = joined(s4, s1);
        let (q, a) = (sets.tensor(2, &s41), sets.tensor(3, s1));
        let y = |c: &Tensor| times(&q, &s41, &c.sin(), s1, s4);
        let slope = 1.0 - a.tanh().square();
        let product = times(&jacobian(y)(&a.tanh()), &s41, &slope, s1, &s41);
        assert_tensors("theorem 3.7", &jacobian(|a: &Tensor| y(&a.tanh()))(&a), &product);
    }
}

// ------------------------------------------------------------------ composed operations

#[test]
fn sums_of_exponentials_do_not_overflow() {
    for shift in [0.0, 1000.0, -1000.0] {
        let x = vector(&[shift, shift + 1.0, shift - 2.0]);
        let weights: Vec<f64> = [0.0_f64, 1.0, -2.0].iter().map(|x| x.exp()).collect();
        let total: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        assert_close("logsumexp", &numbers(&x.logsumexp()), &[shift + total.ln()]);
        assert_close("softmax", &numbers(&x.softmax(0)), &shares);
        let logs: Vec<f64> = shares.iter().map(|share| share.ln()).collect();
        assert_close("log_softmax", &numbers(&x.log_softmax(-1)), &logs);
        assert_close("gradient of logsumexp", &numbers(&grad(Tensor::logsumexp)(&x)), &shares);
        let square = |i: usize, j: usize| f64::from(u8::from(i == j)) * shares[i] - shares[i] * shares[j];
        let expected: Vec<f64> = (0..9).map(|k| square(k / 3, k % 3)).collect();
        assert_close("Hessian of logsumexp", &numbers(&hessian(Tensor::logsumexp)(&x)), &expected);
        assert_close("Jacobian of softmax", &numbers(&jacobian(|x: &Tensor| x.softmax(0))(&x)), &expected);
        let slopes: Vec<f64> = (0..9).map(|k| f64::from(u8::from(k / 3 == k % 3)) - shares[k % 3]).collect();
        assert_close("Jacobian of log_softmax", &numbers(&jacobian(|x: &Tensor| x.log_softmax(0))(&x)), &slopes);
    }
    let far = vector(&[1000.0, -1000.0]);
    assert_eq!(numbers(&far.softmax(0)), [1.0, 0.0]);
    assert_eq!(numbers(&far.log_softmax(0)), [0.0, -2000.0]);
    assert_eq!(numbers(&jacobian(|x: &Tensor| x.log_softmax(0))(&far)), [0.0, 0.0, -1.0, 1.0]);
    assert_eq!(numbers(&vector(&[f64::NEG_INFINITY; 2]).logsumexp()), [f64::NEG_INFINITY]);
    assert_eq!(numbers(&vector(&[f64::INFINITY, 0.0]).logsumexp()), [f64::INFINITY]);
    assert_eq!(numbers(&vector(&[f64::NEG_INFINITY, 0.0]).softmax(0)), [0.0, 1.0]);
    assert!(numbers(&vector(&[f64::NAN, 0.0]).logsumexp())[0].is_nan());
    assert!(numbers(&vector(&[f64::NAN, 0.0]).softmax(0)).iter().all(|share| share.is_nan()));
    let matrix = normal(1, &[3, 4]);
    let columns = matrix.logsumexp_over(Axes::from(0).keep());
    assert_tensors("logsumexp over an axis", &columns, &matrix.exp().sum_over(0).ln().reshape([1, 4]));
    assert_tensors("logsumexp over both", &matrix.logsumexp_over([0, 1]), &matrix.exp().sum().ln());
    assert_close("rows of softmax", &numbers(&matrix.softmax(1).sum_over(1)), &[1.0; 3]);
}

#[test]
fn lengths_have_derivative_zero_at_the_origin() {
    let x = vector(&[3.0, 4.0]);
    assert_eq!(numbers(&x.norm()), [5.0]);
    assert_close("norm", &numbers(&grad(Tensor::norm)(&x)), &[0.6, 0.8]);
    assert_close("norm", &numbers(&hessian(Tensor::norm)(&x)), &[0.128, -0.096, -0.096, 0.072]);
    let origin = vector(&[0.0, 0.0]);
    assert_eq!(numbers(&grad(Tensor::norm)(&origin)), [0.0, 0.0]);
    assert_eq!(numbers(&jvp(Tensor::norm, &origin, &x).1), [0.0]);
    assert_eq!(numbers(&jacobian(Tensor::norm)(&origin)), [0.0, 0.0]);
    assert_eq!(numbers(&hessian(Tensor::norm)(&origin)), [0.0; 4]);
    assert_eq!(numbers(&jvp(grad(Tensor::norm), &origin, &x).1), [0.0, 0.0]);
    assert_eq!(numbers(&Tensor::new::<f64>(&[], 0).norm()), [0.0]);
    let rows = Tensor::from([[3.0, 4.0], [0.0, 0.0]]);
    assert_eq!(numbers(&rows.norm_over(1)), [5.0, 0.0]);
    assert_close("rows", &numbers(&grad(|x: &Tensor| x.norm_over(1).sum())(&rows)), &[0.6, 0.8, 0.0, 0.0]);
}

#[test]
fn lengths_do_not_leave_the_range_of_numbers() {
    for scale in [1e200, 1e-200] {
        let x = vector(&[3.0 * scale, 4.0 * scale]);
        assert_close("norm", &numbers(&(x.norm() / scale)), &[5.0]);
        assert_close("gradient", &numbers(&grad(Tensor::norm)(&x)), &[0.6, 0.8]);
        assert_close("tangent", &numbers(&jvp(Tensor::norm, &x, &vector(&[1.0, 2.0])).1), &[2.2]);
        let curvature = numbers(&(hessian(Tensor::norm)(&x) * scale));
        assert_close("Hessian", &curvature, &[0.128, -0.096, -0.096, 0.072]);
        assert_close("std", &numbers(&(x.std() / scale)), &[0.5]);
    }
    let narrow = Tensor::from([3e30_f32, 4e30]);
    assert_eq!(narrow.norm().to_vec::<f32>().unwrap(), [5e30]);
    // Every line has its own unit.
    let rows = Tensor::from([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0], [f64::INFINITY, 1.0]]);
    let lengths = numbers(&rows.norm_over(1));
    assert_close("rows", &[lengths[0] / 1e200, lengths[1] * 1e200, lengths[2]], &[5.0, 5.0, 0.0]);
    assert_eq!(lengths[3], f64::INFINITY);
    let slopes = numbers(&grad(|x: &Tensor| x.norm_over(1).sum())(&rows));
    assert_close("rows", &slopes[..6], &[0.6, 0.8, 0.6, 0.8, 0.0, 0.0]);
    assert_eq!(rows.norm_over(Axes::from(1).keep()).shape().to_vec(), [4, 1]);
    assert_eq!(numbers(&Tensor::new::<f64>(&[], [2, 0]).norm_over(1)), [0.0, 0.0]);
}

#[test]
fn the_deviation_of_equal_numbers_has_derivative_zero() {
    let x = vector(&[2.0, 2.0, 2.0]);
    assert_eq!(numbers(&x.std()), [0.0]);
    assert_eq!(numbers(&grad(Tensor::std)(&x)), [0.0; 3]);
    assert_eq!(numbers(&jvp(Tensor::std, &x, &vector(&[1.0, 2.0, 3.0])).1), [0.0]);
    assert_eq!(numbers(&hessian(Tensor::std)(&x)), [0.0; 9]);
    assert!(numbers(&Tensor::new::<f64>(&[], 0).std())[0].is_nan());
}

#[test]
fn lengths_of_vectors_with_nan_are_nan() {
    assert!(numbers(&vector(&[f64::NAN, 1.0]).norm())[0].is_nan());
    assert!(numbers(&grad(Tensor::norm)(&vector(&[f64::NAN, 1.0]))).iter().all(|slope| slope.is_nan()));
}

#[test]
fn moments_are_those_of_the_elements() {
    let x = vector(&[1.0, 2.0, 4.0, 9.0]);
    assert_close("mean", &numbers(&x.mean()), &[4.0]);
    assert_close("var", &numbers(&x.var()), &[9.5]);
    assert_close("std", &numbers(&x.std()), &[9.5_f64.sqrt()]);
    let centred = [-3.0, -2.0, 0.0, 5.0];
    assert_close("var", &numbers(&grad(Tensor::var)(&x)), &centred.map(|d| d / 2.0));
    assert_close("std", &numbers(&grad(Tensor::std)(&x)), &centred.map(|d| d / 4.0 / 9.5_f64.sqrt()));
    let h = numbers(&hessian(Tensor::var)(&x));
    assert_close("var", &h, &(0..16).map(|k| if k / 4 == k % 4 { 0.375 } else { -0.125 }).collect::<Vec<_>>());
    let m = normal(1, &[3, 4]);
    assert_tensors("var over an axis", &m.var_over(0), &((&m * &m).mean_over(0) - m.mean_over(0).square()));
    assert_tensors("std over an axis", &m.std_over(-1), &m.var_over(1).sqrt());
    assert_eq!(m.var_over(Axes::from(1).keep()).shape().to_vec(), [3, 1]);
    assert_eq!(numbers(&Tensor::new::<f64>(&[], [0, 2]).sum_over(0)), [0.0, 0.0]);
}

#[test]
fn equal_extremes_share_the_derivative_evenly() {
    let x = vector(&[1.0, 3.0, 3.0, 0.0, 3.0]);
    let third = 1.0 / 3.0;
    assert_eq!(numbers(&x.max()), [3.0]);
    assert_close("max", &numbers(&grad(Tensor::max)(&x)), &[0.0, third, third, 0.0, third]);
    assert_close("max", &numbers(&jvp(Tensor::max, &x, &vector(&[9.0, 1.0, 2.0, 9.0, 6.0])).1), &[3.0]);
    assert_eq!(numbers(&hessian(Tensor::max)(&x)), [0.0; 25]);
    assert_eq!(numbers(&x.min()), [0.0]);
    assert_eq!(numbers(&grad(Tensor::min)(&vector(&[0.0, 2.0, 0.0]))), [0.5, 0.0, 0.5]);
    assert_eq!(numbers(&x.argmax(0)), [1.0]);
    assert_eq!(x.argmax(0).dtype(), DType::I64);
    let m = Tensor::from([[1.0, 5.0, 5.0], [7.0, 2.0, 3.0]]);
    assert_eq!(numbers(&m.max_over(1)), [5.0, 7.0]);
    assert_eq!(numbers(&m.max_over(0)), [7.0, 5.0, 5.0]);
    assert_eq!(numbers(&m.min_over(Axes::from(0).keep())), [1.0, 2.0, 3.0]);
    assert_eq!(numbers(&m.max_over([0, 1])), [7.0]);
    assert_eq!(numbers(&m.argmax(-1)), [1.0, 0.0]);
    let square = Tensor::from([[5.0, 5.0], [5.0, 1.0]]);
    assert_close(
        "over two axes",
        &numbers(&grad(|m: &Tensor| m.max_over([0, 1]))(&square)),
        &[third, third, third, 0.0],
    );
    let cube = normal(1, &[2, 3, 4]);
    assert_tensors("over two of three", &cube.max_over([0, 2]), &cube.max_over(2).max_over(0));
    assert_eq!(cube.max_over(Axes::from([0, 2]).keep()).shape().to_vec(), [1, 3, 1]);
    assert_eq!(numbers(&grad(|m: &Tensor| m.max_over(1).sum())(&m)), [0.0, 0.5, 0.5, 1.0, 0.0, 0.0]);
    let j = jacobian(|m: &Tensor| m.max_over(1))(&m);
    assert_eq!(numbers(&j), [0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    assert_eq!(numbers(&Tensor::from([3_i64, 5, 4]).max()), [5.0]);
}

#[test]
fn extremes_propagate_nan_and_refuse_nothing() {
    let x = vector(&[1.0, f64::NAN, 3.0]);
    assert!(numbers(&x.max())[0].is_nan());
    assert!(numbers(&x.min())[0].is_nan());
    assert!(numbers(&x.maximum(2.0))[1].is_nan());
    let empty = Tensor::new::<f64>(&[], [0, 2]);
    assert!(empty.max().eval().is_err());
    assert!(empty.max_over(0).eval().is_err());
    assert!(empty.argmax(0).eval().is_err());
    assert_eq!(numbers(&empty.max_over(1)), [0.0; 0]);
    assert_eq!(numbers(&empty.argmax(1)), [0.0; 0]);
    assert_eq!(numbers(&empty.softmax(1)), [0.0; 0]);
    assert_eq!(numbers(&empty.logsumexp_over(1)), [0.0; 0]);
    // The exponentials of nothing add up to 0.
    assert_eq!(numbers(&empty.logsumexp_over(0)), [f64::NEG_INFINITY; 2]);
    assert_eq!(numbers(&empty.logsumexp_over(Axes::from(0).keep())), [f64::NEG_INFINITY; 2]);
    assert_eq!(numbers(&Tensor::new::<f64>(&[], 0).logsumexp()), [f64::NEG_INFINITY]);
}

#[test]
fn rules_by_cases_take_the_last_case_at_nan() {
    let x = vector(&[f64::NAN, 1.0]);
    let check = |f: &dyn Fn(&Tensor) -> Tensor, slopes: [f64; 2]| {
        assert!(numbers(&f(&x))[0].is_nan());
        assert_eq!(numbers(&grad(|x: &Tensor| f(x).sum())(&x)), slopes);
        assert_eq!(numbers(&jvp(f, &x, &x.ones_like()).1), slopes);
    };
    check(&|x| x.relu(), [0.0, 1.0]);
    check(&|x| x.leaky_relu(0.01), [0.01, 1.0]);
    check(&|x| x.maximum(0.0), [0.5, 1.0]);
}

#[test]
fn integers_are_exact() {
    // The first integer that is no 64-bit floating-point number.
    let odd = (1_i64 << 53) + 1;
    let (a, b) = (Tensor::from([odd, odd - 1, i64::MAX]), Tensor::from([odd - 1, odd, i64::MAX - 1]));
    assert_eq!(a.gt(&b).to_vec::<bool>().unwrap(), [true, false, true]);
    assert_eq!(a.le(&b).to_vec::<bool>().unwrap(), [false, true, false]);
    assert_eq!(a.equal(&b).to_vec::<bool>().unwrap(), [false; 3]);
    let places = Tensor::from([1_i64, 1, 0]);
    assert_eq!(a.scatter_add(&places, 0, 2).to_vec::<i64>().unwrap(), [i64::MAX, 2 * odd - 1]);
    let close = Tensor::from([odd - 1, odd]);
    assert_eq!(close.argmax(0).to_vec::<i64>().unwrap(), [1]);
    assert_eq!(close.max().to_vec::<i64>().unwrap(), [odd]);
    assert_eq!(close.min().to_vec::<i64>().unwrap(), [odd - 1]);
    assert_eq!((&a + &a - &a).to_vec::<i64>().unwrap(), a.to_vec::<i64>().unwrap());
}

#[test]
fn labels_may_be_any_numbers() {
    let (a, b) = (normal(1, &[2, 3]), normal(2, &[3, 4]));
    let product = Tensor::einsum_labels(&[(&a, &[7, usize::MAX]), (&b, &[usize::MAX, 0])], &[7, 0]);
    assert_tensors("matmul by labels", &product, &a.matmul(&b));
}

#[test]
fn a_literal_on_the_left_needs_no_type() {
    let x = vector(&[1.0, 3.0]);
    assert_eq!(numbers(&(1.0 + x.square()).ln()), [2.0_f64.ln(), 10.0_f64.ln()]);
    assert_eq!(numbers(&(2 - &x).abs()), [1.0, 1.0]);
    assert_eq!(numbers(&(6.0 / &x).sum().sqrt()), [8.0_f64.sqrt()]);
}

#[test]
fn places_become_unit_vectors() {
    let places = Tensor::from([2_i64, 0]);
    assert_eq!(numbers(&places.one_hot(3, DType::F64)), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(places.one_hot(3, DType::F32).dtype(), DType::F32);
    assert_eq!(numbers(&Tensor::from(1_i64).one_hot(2, DType::F64)), [0.0, 1.0]);
    assert!(Tensor::from(1.0).one_hot(2, DType::F64).eval().is_err());
    assert!(vector(&[1.0, 2.0]).take(&Tensor::from([2_i64]), 0).eval().is_err());
    assert!(vector(&[1.0, 2.0]).take(&Tensor::from([-3_i64]), 0).eval().is_err());
}

#[test]
fn matrix_products_are_sums_of_products() {
    let check = |a: &[usize], b: &[usize], notation: &str| {
        let (a, b) = (normal(1, a), normal(2, b));
        let what = format!("matmul as {notation}");
        assert_tensors(&what, &a.matmul(&b), &Tensor::einsum(notation, [&a, &b]));
        assert_adjoint(&what, |x| x[0].matmul(&x[1]), &vec![a, b]);
    };
    check(&[3], &[3], "i,i->");
    check(&[2, 3], &[3], "ij,j->i");
    check(&[3], &[3, 2], "j,jk->k");
    check(&[2, 3], &[3, 4], "ij,jk->ik");
    check(&[5, 2, 3], &[5, 3, 4], "bij,bjk->bik");
    check(&[5, 2, 3], &[3, 4], "bij,jk->bik");
    check(&[2, 3], &[5, 3, 4], "ij,bjk->bik");
    check(&[5, 2, 3], &[3], "bij,j->bi");
    check(&[3], &[5, 3, 4], "j,bjk->bk");
    check(&[2, 0], &[0, 3], "ij,jk->ik");
    let (a, b) = (normal(1, &[5, 1, 2, 3]), normal(2, &[6, 3, 4]));
    let expected = Tensor::einsum("aij,bjk->abik", [&a.reshape([5, 2, 3]), &b]);
    assert_tensors("matmul, stretched", &a.matmul(&b), &expected);
    assert_adjoint("matmul, stretched", |x| x[0].matmul(&x[1]), &vec![a.clone(), b]);
    assert!(a.matmul(&normal(1, &[4, 2])).eval().is_err());
    assert!(a.matmul(&Tensor::from(1.0)).eval().is_err());
}

#[test]
fn other_products_are_those_of_their_definitions() {
    let (a, b) = (Tensor::from([[1.0, 2.0], [3.0, 4.0]]), Tensor::from([[0.0, 5.0, 6.0]]));
    let kron = [0.0, 5.0, 6.0, 0.0, 10.0, 12.0, 0.0, 15.0, 18.0, 0.0, 20.0, 24.0];
    assert_eq!(a.kron(&b).shape().to_vec(), [2, 6]);
    assert_eq!(numbers(&a.kron(&b)), kron);
    assert_eq!(numbers(&a.inner(&a)), [30.0]);
    assert_eq!(a.outer(&b).shape().to_vec(), [2, 2, 1, 3]);
    assert_eq!(numbers(&a.outer(&b)), kron[..6].iter().chain(&kron[6..]).copied().collect::<Vec<_>>());
    assert_eq!(numbers(&a.trace()), [5.0]);
    assert_eq!(numbers(&a.diag()), [1.0, 4.0]);
    assert_eq!(numbers(&a.diag().diag()), [1.0, 0.0, 0.0, 4.0]);
    let x = vec![a, b];
    assert_adjoint("kron", |x| x[0].kron(&x[1]), &x);
    assert_adjoint("outer", |x| x[0].outer(&x[1]), &x);
    assert_adjoint("inner", |x| x[0].inner(&x[0]), &x);
}

#[test]
fn the_mean_of_nothing_is_no_number_and_a_fraction_does_not_become_an_integer() {
    assert!(Tensor::from(Vec::<f64>::new()).mean().item().unwrap().is_nan());
    let error = Tensor::from([1_i64, 2]).full_like(0.5).eval().unwrap_err();
    assert!(error.to_string().starts_with("full: the number 0.5 is no element of the type i64"), "{error}");
    assert_eq!((Tensor::from([1_i64, 2]) * 3).to_vec::<i64>().unwrap(), [3, 6]);
}
