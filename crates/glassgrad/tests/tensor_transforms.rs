//! Transforms of functions of tensors, against one another and against judges from outside.
//!
//! What one mode says another must confirm: forward, reverse, Jacobians by a unit seed, nested in every
//! order, batched, and finite differences of values; at the places where conventions decide, the golden
//! files of the scalar engines hold for tensors too.

#[path = "judges/cases.rs"]
mod cases;
#[path = "judges/closeness.rs"]
mod closeness;
#[path = "judges/differences.rs"]
mod differences;
#[path = "judges/functions.rs"]
mod functions;
#[path = "judges/golden.rs"]
mod golden;
#[path = "judges/random.rs"]
mod random;
#[path = "judges/tensors.rs"]
mod tensors;

use std::f64::consts::{E, PI};

use cases::random_cases;
use closeness::{agree, size_of_all};
use functions::{Made, random_function};
use glassgrad::diff::{value_and_grad_aux, vmap_axes};
use glassgrad::dtype::DType;
use glassgrad::expr::{Keys, s};
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, grad, hessian, hvp, jacobian, jvp, linearize, no_grad, scan, value_and_grad, vjp, vmap};
use golden::assert_all_close;
use proptest::prelude::*;
use random::Random;
use serde_json::Value;
use tensors::{assert_close, assert_near, assert_tensors, normal, numbers, vector};

/// How many roundings of numbers of the size of the results two modes may differ by.
const ROUNDINGS: f64 = 256.0;

fn unit(size: usize, place: usize) -> Tensor {
    vector(&(0..size).map(|k| f64::from(u8::from(k == place))).collect::<Vec<_>>())
}

// ------------------------------------------------------------------ every mode and every pair of modes

/// A function of a vector with results of some shape.
type Function<'f> = &'f dyn Fn(&Tensor) -> Tensor;

/// The Jacobian of a function of a vector, row by row, in every mode.
fn jacobians(f: Function<'_>, x: &Tensor) -> Vec<(&'static str, Vec<f64>)> {
    let n = x.shape().elements();
    let (y, pull) = vjp(f, x);
    let m = y.shape().elements();
    let seed = |place: usize| unit(m, place).reshape(y.shape());
    let rows: Vec<f64> = (0..m).flat_map(|row| numbers(&pull(&seed(row)))).collect();
    let columns: Vec<Vec<f64>> = (0..n).map(|column| numbers(&jvp(f, x, &unit(n, column)).1)).collect();
    let (_, linear) = linearize(f, x);
    let lines: Vec<Vec<f64>> = (0..n).map(|column| numbers(&linear(&unit(n, column)))).collect();
    let transposed = |columns: &[Vec<f64>]| (0..m * n).map(|k| columns[k % n][k / n]).collect::<Vec<f64>>();
    let gradients: Vec<f64> =
        (0..m).flat_map(|row| numbers(&grad(|x: &Tensor| f(x).reshape([m]).slice(&[s(row as isize)]))(x))).collect();
    let batched =
        vmap(&pull)(&Tensor::eye(m).cast(DType::F64).reshape(glassgrad::shape::Shape::from(m).followed_by(y.shape())));
    vec![
        ("the unit seed", numbers(&jacobian(f)(x))),
        ("pullbacks", rows),
        ("pushforwards", transposed(&columns)),
        ("the linear function", transposed(&lines)),
        ("gradients", gradients),
        ("a batched pullback", numbers(&batched)),
    ]
}

/// The Hessian of a function of a vector to a number in every pair of modes.
fn hessians(f: Function<'_>, x: &Tensor) -> Vec<(&'static str, Vec<f64>)> {
    let n = x.shape().elements();
    let directions: Vec<Tensor> = (0..n).map(|place| unit(n, place)).collect();
    let along = |x: &Tensor, k: usize| jvp(f, x, &directions[k]).1;
    let each = |row: &dyn Fn(usize) -> Tensor| (0..n).flat_map(|k| numbers(&row(k))).collect::<Vec<f64>>();
    let pair = |i: usize, j: usize| jvp(|x: &Tensor| along(x, i), x, &directions[j]).1;
    vec![
        ("the Hessian", numbers(&hessian(f)(x))),
        ("products with directions", each(&|k| hvp(f, x, &directions[k]))),
        ("forward over reverse", each(&|k| jvp(grad(f), x, &directions[k]).1)),
        ("reverse over forward", each(&|k| grad(|x: &Tensor| along(x, k).reshape(()))(x))),
        ("reverse over reverse", each(&|k| grad(|x: &Tensor| grad(f)(x).slice(&[s(k as isize)]))(x))),
        ("forward over forward", (0..n * n).flat_map(|k| numbers(&pair(k / n, k % n))).collect()),
        ("the Jacobian of the Jacobian", numbers(&jacobian(jacobian(f))(x))),
        (
            "gradients of the Jacobian",
            each(&|k| grad(|x: &Tensor| jacobian(f)(x).reshape([n]).slice(&[s(k as isize)]))(x)),
        ),
        ("a batched product", numbers(&vmap(|v: &Tensor| hvp(f, x, v))(&Tensor::eye(n).cast(DType::F64)))),
    ]
}

fn value_at(f: Function<'_>, x: &[f64]) -> Vec<f64> {
    numbers(&f(&vector(x)))
}

/// All modes agree with each other and with differences of the values.
fn assert_modes_agree(what: &str, f: Function<'_>, x: &[f64]) {
    let point = vector(x);
    let m = value_at(f, x).len();
    let found = jacobians(f, &point);
    for (mode, jacobian) in &found {
        assert_close(&format!("the Jacobian of {what} by {mode}"), jacobian, &found[0].1);
    }
    let differences: Vec<f64> =
        (0..m * x.len()).map(|k| differences::partial(|x| value_at(f, x)[k / x.len()], x, k % x.len())).collect();
    let roundings = ROUNDINGS * f64::EPSILON.powf(-0.25);
    assert_near(&format!("the Jacobian of {what} by differences"), &found[0].1, &differences, roundings);
    let total = |x: &Tensor| f(x).square().sum();
    let found = hessians(&total, &point);
    for (mode, hessian) in &found {
        assert_close(&format!("the Hessian of {what} by {mode}"), hessian, &found[0].1);
    }
    let n = x.len();
    let value = |x: &[f64]| value_at(&total, x)[0];
    let differences: Vec<f64> = (0..n * n).map(|k| differences::second_partial(value, x, k / n, k % n)).collect();
    // Differences of order two lose a third of the digits, and more where higher derivatives are large.
    let roundings = 4.0 * ROUNDINGS * f64::EPSILON.powf(-1.0 / 3.0) * size_of_all(&value_at(&total, x));
    assert_near(&format!("the Hessian of {what} by differences"), &found[0].1, &differences, roundings);
    let transposed: Vec<f64> = (0..n * n).map(|k| found[0].1[k % n * n + k / n]).collect();
    assert_close(&format!("the Hessian of {what}, transposed"), &found[0].1, &transposed);
}

#[test]
fn every_mode_agrees_on_functions_of_linear_algebra() {
    let x = [0.3, 1.7, 0.9, -1.2];
    let constant = normal(1, &[4, 4]);
    let matrix = |x: &Tensor| x.reshape([2, 2]);
    let functions: &[(&str, Function<'_>)] = &[
        ("a linear map", &|x| constant.matmul(x)),
        ("a quadratic form", &|x| x.matmul(&constant).matmul(x).reshape([1])),
        ("a layer", &|x| constant.matmul(x).tanh()),
        ("softmax", &|x| x.softmax(0)),
        ("log_softmax", &|x| x.log_softmax(0)),
        ("a cube of a matrix", &|x| matrix(x).matmul(&matrix(x)).matmul(&matrix(x))),
        ("kron", &|x| matrix(x).kron(&matrix(x).transpose())),
        ("outer", &|x| x.outer(&x.sin())),
        ("moments", &|x| Tensor::stack([&x.mean(), &x.var(), &x.std(), &x.norm(), &x.logsumexp()], 0)),
        ("the largest", &|x| x.max() * x.min() * x),
        ("pieces", &|x| Tensor::concatenate([&x.slice(&[s(..).step(-2)]), &x.exp(), &x.pad(&[(1, 0)])], 0)),
        ("gathers", &|x| x.take(&Tensor::new(&[3_i64, 0, 0, 1], [2, 2]), 0) * matrix(x)),
        ("scatters", &|x| x.square().scatter_add(&Tensor::from([1_i64, 0, 1, 1]), 0, 3)),
        ("a choice", &|x| x.gt(0.5).choose(&x.powi(3), &x.cos())),
        ("diagonals", &|x| x.diag().matmul(&constant).diag() * matrix(x).trace()),
        ("no dependence", &|_| constant.slice(&[s(0)])),
        ("a constant part", &|x| Tensor::concatenate([&constant.slice(&[s(0)]), x], 0)),
        ("a flat factor", &|x| x.floor() * x),
        ("the same argument twice", &|x| x.square().pow(x.square()) + x / (x + 3.0).hypot(x)),
        ("a function of one number", &|x| x.slice(&[s(1)]).lgamma()),
        ("a tensor of results", &|x| x.sin().outer(&x.slice(&[s(..2)])).outer(&x.slice(&[s(2..)]))),
    ];
    for (name, f) in functions {
        assert_modes_agree(name, *f, &x);
    }
}

// ------------------------------------------------------------------ nesting

#[test]
fn perturbations_are_not_confused() {
    // d/dx (x · d/dy (x + y)) = 1, in every pair of modes.
    let one = Tensor::from(1.0);
    type OfTwo<'f> = &'f dyn Fn(&Tensor, &Tensor) -> Tensor;
    let inner: [OfTwo<'_>; 2] =
        [&|x, y| grad(|y: &Tensor| x + y)(y), &|x, y| jvp(|y: &Tensor| x + y, y, &Tensor::from(1.0)).1];
    for inner in inner {
        let f = |x: &Tensor| x * inner(x, &Tensor::from(2.0));
        assert_eq!(numbers(&grad(f)(&Tensor::from(3.0))), [1.0]);
        assert_eq!(numbers(&jvp(f, &Tensor::from(3.0), &one).1), [1.0]);
        // The inner function is differentiated at the outer variable itself.
        let same = |x: &Tensor| x * inner(x, x);
        assert_eq!(numbers(&grad(same)(&Tensor::from(3.0))), [1.0]);
        assert_eq!(numbers(&jvp(same, &Tensor::from(3.0), &one).1), [1.0]);
    }
    // d/dx (x · d/dy (x·y²)) at y = x: the inner derivative is 2x·y = 2x², so x·2x² has slope 6x².
    let cubic = |x: &Tensor| x * grad(|y: &Tensor| x * y.square())(x);
    assert_eq!(numbers(&grad(cubic)(&Tensor::from(2.0))), [24.0]);
    let cubic = |x: &Tensor| x * jvp(|y: &Tensor| x * y.square(), x, &Tensor::from(1.0)).1;
    assert_eq!(numbers(&jvp(cubic, &Tensor::from(2.0), &one).1), [24.0]);
    // A curried function: the tangent of the outer variable must not leak into the inner one.
    let curried = jvp(|x: &Tensor| jvp(|y: &Tensor| x * y, &Tensor::from(5.0), &Tensor::from(1.0)).1, &one, &one).1;
    assert_eq!(numbers(&curried), [1.0]);
}

#[test]
fn closures_over_outer_tensors_are_differentiated_by_them() {
    // f(w) = |∇ₓ (sin(w·x))|², a gradient penalty.
    let x = vector(&[0.5, -0.3]);
    let penalty = |w: &Tensor| grad(|x: &Tensor| w.inner(x).sin())(&x).square().sum();
    let w = vector(&[1.2, 0.7]);
    // |w|² cos²(w·x).
    let direct = |w: &Tensor| w.square().sum() * w.inner(&x).cos().square();
    assert_tensors("value", &penalty(&w), &direct(&w));
    assert_tensors("gradient", &grad(penalty)(&w), &grad(direct)(&w));
    assert_tensors("tangent", &jvp(penalty, &w, &x).1, &jvp(direct, &w, &x).1);
    assert_tensors("Hessian", &hessian(penalty)(&w), &hessian(direct)(&w));
    // An inner transform that does not use the outer variable is a constant to it.
    let constant = |w: &Tensor| grad(|x: &Tensor| x.sin().sum())(&x).sum() + 0.0 * w.sum();
    assert_eq!(numbers(&grad(constant)(&w)), [0.0, 0.0]);
}

#[test]
fn derivatives_nest_to_high_order() {
    let x = Tensor::from(0.7_f64);
    let sine = |x: &Tensor| x.sin();
    let first = |x: &Tensor| grad(sine)(x);
    let second = |x: &Tensor| grad(first)(x);
    let third = |x: &Tensor| grad(second)(x);
    let fourth = |x: &Tensor| grad(third)(x);
    let y = 0.7_f64;
    assert_close("first", &numbers(&first(&x)), &[y.cos()]);
    assert_close("second", &numbers(&second(&x)), &[-y.sin()]);
    assert_close("third", &numbers(&third(&x)), &[-y.cos()]);
    assert_close("fourth", &numbers(&fourth(&x)), &[y.sin()]);
    let one = Tensor::from(1.0);
    let forward = |x: &Tensor| jvp(sine, x, &one).1;
    let forward = |x: &Tensor| jvp(forward, x, &one).1;
    let forward = |x: &Tensor| jvp(forward, x, &one).1;
    assert_close("third, forwards", &numbers(&forward(&x)), &[-y.cos()]);
    assert_close("fourth, mixed", &numbers(&grad(forward)(&x)), &[y.sin()]);
    // Third derivatives of a function of a vector: Σ xᵢ⁴ has 24x on the diagonal and nothing else.
    let point = vector(&[1.0, -2.0]);
    let tensor = jacobian(hessian(|x: &Tensor| x.powi(4).sum()))(&point);
    assert_eq!(tensor.shape().to_vec(), [2, 2, 2]);
    assert_eq!(numbers(&tensor), [24.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -48.0]);
    // Those of x·x·y: mixed ones are symmetric in all places.
    let mixed = jacobian(hessian(|x: &Tensor| x.slice(&[s(0)]).square() * x.slice(&[s(1)])))(&point);
    assert_eq!(numbers(&mixed), [0.0, 2.0, 2.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
}

#[test]
fn products_with_the_hessian_need_no_hessian() {
    let constant = normal(1, &[3, 3]);
    let f = |x: &Tensor| constant.matmul(x).tanh().square().sum() * x.exp().mean();
    let (x, v) = (normal(2, &[3]), normal(3, &[3]));
    let expected = hessian(f)(&x).matmul(&v);
    assert_tensors("hvp", &hvp(f, &x, &v), &expected);
    assert_tensors("jvp of grad", &jvp(grad(f), &x, &v).1, &expected);
    assert_tensors("grad of jvp", &grad(|x: &Tensor| jvp(f, x, &v).1)(&x), &expected);
    assert_tensors("vjp of grad", &vjp(grad(f), &x).1(&v), &expected);
    assert_tensors("grad of a product", &grad(|x: &Tensor| grad(f)(x).inner(&v))(&x), &expected);
    // Of a tree.
    let pair = (normal(4, &[2]), vec![normal(5, &[3])]);
    let direction = pair.random_like(Key::new(6));
    let g = |p: &(Tensor, Vec<Tensor>)| (p.0.outer(&p.1[0]).sin()).sum() * p.0.norm();
    let one = hvp(g, &pair, &direction);
    let other = grad(|p: &(Tensor, Vec<Tensor>)| grad(g)(p).inner_product(&direction))(&pair);
    assert_tensors("first leaf", &one.0, &other.0);
    assert_tensors("second leaf", &one.1[0], &other.1[0]);
}

#[test]
fn a_gradient_passes_through_a_gradient_step() {
    // The step p' = p − r·∇L of L = ½ p·A·p is (1 − rA)p, and |p' − t|² is what is learnt to learn.
    let half = normal(1, &[3, 3]);
    let a = &half + half.transpose();
    let (p, target, rate) = (normal(2, &[3]), normal(3, &[3]), Tensor::from(0.3));
    let inner = |p: &Tensor| 0.5 * p.inner(&a.matmul(p));
    let stepped = |p: &Tensor, rate: &Tensor| p - rate * grad(inner)(p);
    let outer = |(p, rate): &(Tensor, Tensor)| (stepped(p, rate) - &target).square().sum();
    let distance = stepped(&p, &rate) - &target;
    let (by_start, by_rate) = grad(outer)(&(p.clone(), rate.clone()));
    assert_tensors("start", &by_start, &(2.0 * (&distance - &rate * a.matmul(&distance))));
    assert_tensors("rate", &by_rate, &(-2.0 * a.matmul(&p).inner(&distance)));
    let map = Tensor::eye(3).cast(DType::F64) - &rate * &a;
    let curvature = hessian(|p: &Tensor| outer(&(p.clone(), rate.clone())))(&p);
    assert_tensors("curvature", &curvature, &(2.0 * map.matmul(&map)));
    // Five steps, by a loop in the graph.
    let trained = |p: &Tensor| {
        let step = |p: &Tensor, _: &Tensor| (stepped(p, &rate), p.clone());
        (scan(step, p, &Tensor::zeros([5])).0 - &target).square().sum()
    };
    let power = (0..4).fold(map.clone(), |power, _| power.matmul(&map));
    let direct = |p: &Tensor| (power.matmul(p) - &target).square().sum();
    assert_tensors("five steps", &grad(trained)(&p), &grad(direct)(&p));
    // To first order only: the gradient counts as a constant.
    let first_order = |p: &Tensor| (p - &rate * no_grad(grad(inner))(p) - &target).square().sum();
    assert_tensors("first order", &grad(first_order)(&p), &(2.0 * &distance));
}

#[test]
fn penalties_on_the_gradients_of_examples() {
    // (|∇ₓ tanh(w·x)| − 1)², and the length of the gradient is (1 − tanh²)·|w|.
    let (w, x) = (normal(1, &[3]), normal(2, &[5, 3]));
    let penalty = |w: &Tensor| {
        let critic = |x: &Tensor| w.inner(x).tanh();
        (vmap(grad(critic))(&x).norm_over(1) - 1.0).square().mean()
    };
    let direct = |w: &Tensor| ((1.0 - x.matmul(w).tanh().square()) * w.norm() - 1.0).square().mean();
    assert_tensors("value", &penalty(&w), &direct(&w));
    assert_tensors("gradient", &grad(penalty)(&w), &grad(direct)(&w));
    assert_tensors("Hessian", &hessian(penalty)(&w), &hessian(direct)(&w));
}

// ------------------------------------------------------------------ branches not taken

#[test]
fn a_branch_not_taken_contributes_nothing_in_any_mode_or_order() {
    let logarithm = |x: &Tensor| x.gt(0.0).choose(&x.ln(), &x.zeros_like());
    let root = |x: &Tensor| x.gt(0.0).choose(&x.sqrt(), &x.zeros_like());
    let turned = |x: &Tensor| x.le(0.0).choose(&x.zeros_like(), &(x.ln() * x.sqrt()));
    let nested = |x: &Tensor| (logarithm(&(x * 2.0)) * 3.0).sin();
    let quotient = |x: &Tensor| x.equal(0.0).choose(&x.zeros_like(), &(x / x.abs().sqrt()));
    let functions: [(&str, Function<'_>); 5] =
        [("ln", &logarithm), ("sqrt", &root), ("ln·sqrt", &turned), ("nested", &nested), ("quotient", &quotient)];
    let x = vector(&[0.0, 0.0]);
    for (name, f) in functions {
        assert_eq!(numbers(&f(&x)), [0.0, 0.0], "{name}");
        for (mode, found) in jacobians(f, &x) {
            assert!(found.iter().all(|slope| *slope == 0.0), "Jacobian of {name} by {mode}: {found:?}");
        }
        for (mode, found) in hessians(&|x| f(x).sum(), &x) {
            assert!(found.iter().all(|slope| *slope == 0.0), "Hessian of {name} by {mode}: {found:?}");
        }
        for (mode, found) in hessians(&|x| f(x).square().sum() + f(x).sum().exp(), &x) {
            assert!(found.iter().all(|slope| *slope == 0.0), "Hessian around {name} by {mode}: {found:?}");
        }
        let third = jacobian(hessian(|x: &Tensor| f(x).sum()))(&x);
        assert!(numbers(&third).iter().all(|slope| *slope == 0.0), "third order of {name}: {third}");
        let third =
            grad(|x: &Tensor| grad(|x: &Tensor| jvp(|x: &Tensor| f(x).sum(), x, &vector(&[1.0, 2.0])).1)(x).sum())(&x);
        assert!(numbers(&third).iter().all(|slope| *slope == 0.0), "third order of {name}: {third}");
        let batched = vmap(grad(|x: &Tensor| f(x).sum()))(&x);
        assert!(numbers(&batched).iter().all(|slope| *slope == 0.0), "batched gradient of {name}: {batched}");
        let batched = vmap(hessian(|x: &Tensor| f(x).sum()))(&x);
        assert!(numbers(&batched).iter().all(|slope| *slope == 0.0), "batched Hessian of {name}: {batched}");
    }
    // Where the branch is taken, it counts.
    let x = vector(&[2.0, 0.0]);
    for (mode, found) in hessians(&|x| logarithm(x).sum(), &x) {
        assert_eq!(found, [-0.25, 0.0, 0.0, 0.0], "{mode}");
    }
}

#[test]
fn zeros_that_move_are_kept() {
    // a·sin x at a = 0: the derivative in x is zero, the mixed second derivative is cos x.
    let f = |z: &Tensor| z.slice(&[s(0)]) * z.slice(&[s(1)]).sin();
    let x = vector(&[0.0, 0.7]);
    for (mode, found) in hessians(&f, &x) {
        assert_close(mode, &found, &[0.0, 0.7_f64.cos(), 0.7_f64.cos(), 0.0]);
    }
    // The same behind a choice that takes it.
    let chosen = |z: &Tensor| z.slice(&[s(1)]).gt(0.0).choose(&f(z), &z.sum().ln());
    for (mode, found) in hessians(&chosen, &x) {
        assert_close(&format!("behind a choice: {mode}"), &found, &[0.0, 0.7_f64.cos(), 0.7_f64.cos(), 0.0]);
    }
}

// ------------------------------------------------------------------ batches

/// The function of each example, one after another.
fn looped(f: &dyn Fn(&Tensor) -> Tensor, x: &Tensor, in_axis: usize, out_axis: usize) -> Tensor {
    let example = |k: usize| {
        let mut indices = vec![s(..); x.rank()];
        indices[in_axis] = s(k as isize);
        f(&x.slice(&indices))
    };
    let results: Vec<Tensor> = (0..x.shape()[in_axis]).map(example).collect();
    Tensor::stack(results.iter().collect::<Vec<_>>(), out_axis)
}

/// The batched function is the loop over examples, along every axis, nested, and in its derivatives.
fn assert_batched(name: &str, f: Function<'_>) {
    let batch = normal(2, &[4, 3]);
    let turned = batch.transpose();
    let expected = looped(f, &batch, 0, 0);
    assert_tensors(name, &vmap(f)(&batch), &expected);
    assert_tensors(&format!("{name}, another axis in"), &vmap_axes(f, 1, 0)(&turned), &expected);
    let last = f(&batch.slice(&[s(0)])).rank();
    for axis in 0..=last {
        let found = vmap_axes(f, 0, axis)(&batch);
        assert_tensors(&format!("{name}, axis {axis} out"), &found, &looped(f, &batch, 0, axis));
    }
    let stacked = normal(3, &[2, 4, 3]);
    let twice = vmap(vmap(f))(&stacked);
    let expected = looped(&|x| looped(f, x, 0, 0), &stacked, 0, 0);
    assert_tensors(&format!("{name}, twice"), &twice, &expected);
    // Derivatives of the batched function are those of the loop.
    let slope = grad(|x: &Tensor| vmap(f)(x).square().sum())(&batch);
    let expected = grad(|x: &Tensor| looped(f, x, 0, 0).square().sum())(&batch);
    assert_tensors(&format!("gradient of batched {name}"), &slope, &expected);
    let v = normal(4, &[4, 3]);
    let (pushed, expected) = (jvp(vmap(f), &batch, &v).1, jvp(|x: &Tensor| looped(f, x, 0, 0), &batch, &v).1);
    assert_tensors(&format!("tangent of batched {name}"), &pushed, &expected);
}

#[test]
fn a_batch_is_a_loop() {
    let constant = normal(1, &[3, 3]);
    let indices = Tensor::from([2_i64, 0, 2]);
    let functions: &[(&str, Function<'_>)] = &[
        ("a layer", &|x| constant.matmul(x).tanh()),
        ("matrix times column", &|x| x.outer(x).matmul(&constant)),
        ("softmax", &|x| x.softmax(0)),
        ("norm", &|x| x.norm().reshape([1])),
        ("largest", &|x| x.max() + x.argmax(0).cast(DType::F64) * x),
        ("one_hot", &|x| x.argmax(0).one_hot(3, DType::F64) * x),
        ("gather", &|x| x.take(&indices, 0)),
        ("gather by its own places", &|x| constant.take(&x.argmax(0), 0)),
        ("gather from itself by its own places", &|x| {
            x.outer(x).take(&Tensor::stack([&x.argmax(0), &(-x).argmax(0)], 0), 1)
        }),
        ("scatter", &|x| x.scatter_add(&indices, 0, 4)),
        ("scatter by its own places", &|x| {
            x.outer(x).slice(&[s(..), s(..2)]).scatter_add(&Tensor::stack([&x.argmax(0), &(-x).argmax(0)], 0), 1, 3)
        }),
        ("scatter a constant by its own places", &|x| {
            constant.slice(&[s(0)]).scatter_add(&Tensor::stack([&x.argmax(0), &(-x).argmax(0), &x.argmax(0)], 0), 0, 3)
        }),
        ("slice and pad", &|x| x.slice(&[s(..).step(-2)]).pad(&[(1, 2)])),
        ("concatenate", &|x| Tensor::concatenate([x, &constant.slice(&[s(1)]), &x.square()], 0)),
        ("a choice", &|x| x.gt(0.0).choose(&x.sqrt(), &constant.slice(&[s(1)]))),
        ("a mask and logic", &|x| x.gt(0.0).and(&x.lt(1.0)).not().or(&x.equal(0.5)).cast(DType::F64) * x),
        ("flip", &|x| x.flip([0])),
        ("diag", &|x| x.diag()),
        ("no dependence", &|_| constant.clone()),
        ("cast", &|x| x.cast(DType::F32).cast(DType::F64)),
        ("stop_gradient", &|x| x.stop_gradient() * x),
        ("gradient", &|x| grad(|x: &Tensor| constant.matmul(x).sin().sum())(x)),
        ("Jacobian", &|x| jacobian(|x: &Tensor| constant.matmul(x).sin())(x)),
        ("Hessian", &|x| hessian(|x: &Tensor| constant.matmul(x).sin().sum())(x)),
        ("tangent", &|x| jvp(|x: &Tensor| constant.matmul(x).sin(), x, x).1),
        ("gradient of the largest", &|x| grad(Tensor::max)(x)),
        ("gradient through a gather", &|x| grad(|x: &Tensor| x.take(&x.argmax(0), 0).square())(x)),
    ];
    functions.iter().for_each(|(name, f)| assert_batched(name, *f));
}

#[test]
fn a_batch_of_every_transform_is_a_loop() {
    let (constant, v) = (normal(5, &[3, 3]), normal(6, &[3]));
    let number = |x: &Tensor| constant.matmul(x).tanh().square().sum() * x.exp().mean();
    let several = |x: &Tensor| constant.matmul(x).sin() * x;
    let both = |(value, slope): (Tensor, Tensor)| Tensor::concatenate([&value.reshape([1]), &slope], 0);
    let recurrent = |x: &Tensor| {
        let step = |state: &Tensor, row: &Tensor| ((state + row * x).tanh(), state.square().sum());
        let (last, results) = scan(step, x, &constant);
        Tensor::concatenate([&last, &results], 0)
    };
    let functions: &[(&str, Function<'_>)] = &[
        ("grad", &|x| grad(number)(x)),
        ("value_and_grad", &|x| both(value_and_grad(number)(x))),
        ("vjp along a constant", &|x| vjp(several, x).1(&v)),
        ("vjp along the example", &|x| vjp(several, x).1(&x.square())),
        ("jvp along a constant", &|x| jvp(several, x, &v).1),
        ("jvp along the example", &|x| jvp(several, x, x).1),
        ("jacobian", &|x| jacobian(several)(x)),
        ("hessian", &|x| hessian(number)(x)),
        ("hvp", &|x| hvp(number, x, &v)),
        ("linearize", &|x| linearize(several, x).1(&v)),
        ("linearize at a constant", &|x| linearize(several, &v).1(x)),
        ("scan", &recurrent),
        ("gradient of a scan", &|x| grad(|x: &Tensor| recurrent(x).square().sum())(x)),
        ("tangent of a scan", &|x| jvp(recurrent, x, &v).1),
        ("jvp of grad", &|x| jvp(grad(number), x, x).1),
        ("grad of jvp", &|x| grad(|x: &Tensor| jvp(number, x, &v).1)(x)),
        ("third derivatives", &|x| jacobian(hessian(number))(x)),
        ("a gradient step", &|x| number(&(x - 0.1 * grad(number)(x)))),
        ("no_grad", &|x| no_grad(several)(x) * x),
        ("a batch", &|x| vmap(|row: &Tensor| several(&(row * x)))(&constant)),
    ];
    functions.iter().for_each(|(name, f)| assert_batched(name, *f));
}

#[test]
fn every_example_of_a_batch_can_have_its_own_key() {
    let key = Key::new(11);
    let bits = |tensor: &Tensor| tensor.to_vec::<f32>().expect("32-bit numbers").iter().map(|x| x.to_bits()).collect();
    let same = |what: &str, batched: &Tensor, each: &[Tensor]| {
        let stacked = Tensor::stack(each.iter().collect::<Vec<_>>(), 0);
        let [a, b]: [Vec<u32>; 2] = [bits(batched), bits(&stacked)];
        assert_eq!((batched.shape(), a), (stacked.shape(), b), "{what}");
    };
    let x = Tensor::normal(Key::new(1), [4, 3]);
    let row = |k: u64| x.slice(&[s(k as isize)]);
    // A function that draws twice from its key, and its gradient.
    let noisy = |(x, key): &(Tensor, Keys)| {
        let kept = Tensor::uniform(key.fold(0), [3]).lt(0.5).cast(DType::F32);
        (x * kept + Tensor::normal(key.fold(1), [3])).tanh()
    };
    let slope = |x: &(Tensor, Keys)| grad(|x: &(Tensor, Keys)| noisy(x).square().sum())(x).0;
    for (what, f) in [("value", &noisy as &dyn Fn(&(Tensor, Keys)) -> Tensor), ("gradient", &slope)] {
        let batched = vmap(f)(&(x.clone(), Keys::from(key).split(4)));
        let each: Vec<Tensor> = (0..4).map(|k| f(&(row(k), Keys::from(key.fold(k))))).collect();
        same(what, &batched, &each);
    }
    // Keys of keys, in a batch of batches.
    let pairs = Keys::from(key).split(2).split(3);
    let nested = vmap(vmap(|key: &Keys| Tensor::normal(key, [2])))(&pairs);
    let one = |k: u64| Tensor::normal(key.fold(k / 3).fold(k % 3), [2]);
    same("nested", &nested.reshape([6, 2]), &(0..6).map(one).collect::<Vec<_>>());
    let split_inside = vmap(|key: &Keys| Tensor::uniform(key.split(3), [2]))(&Keys::from(key).split(2));
    let one = |k: u64| Tensor::uniform(key.fold(k / 3).fold(k % 3), [2]);
    same("split inside", &split_inside.reshape([6, 2]), &(0..6).map(one).collect::<Vec<_>>());
    // One key for each step of a loop, and a key that is captured, which all examples share.
    let walk = |sum: &Tensor, key: &Keys| (sum + Tensor::normal(key, [2]), sum + Tensor::normal(key, [2]));
    let (last, _) = scan(walk, &Tensor::zeros([2]), &Keys::from(key).split(3));
    let by_hand: Tensor = (0..3).map(|k| Tensor::normal(key.fold(k), [2])).sum();
    same("scan", &last.unsqueeze(0), &[by_hand]);
    let shared = vmap(|x: &Tensor| x + Tensor::normal(key, [3]))(&x);
    same("shared", &shared, &(0..4).map(|k| row(k) + Tensor::normal(key, [3])).collect::<Vec<_>>());
    // No keys at all.
    let none = vmap(|key: &Keys| Tensor::normal(key, [2]))(&Keys::from(key).split(0));
    assert_eq!((none.shape().to_vec(), none.to_vec::<f32>()), (vec![0, 2], Ok(Vec::new())));
}

#[test]
fn batches_of_trees_and_of_closures() {
    // Table and places both have the axis.
    let (table, places) = (normal(1, &[4, 3, 2]), Tensor::new(&[0_i64, 2, 1, 1, 2, 2, 0, 1], [4, 2]));
    let read = |x: &(Tensor, Tensor)| x.0.take(&x.1, 0);
    let found = vmap(read)(&(table.clone(), places.clone()));
    let each: Vec<Tensor> = (0..4).map(|k| table.slice(&[s(k)]).take(&places.slice(&[s(k)]), 0)).collect();
    assert_tensors("gather", &found, &Tensor::stack(each.iter().collect::<Vec<_>>(), 0));
    let slope = grad(|table: &Tensor| vmap(read)(&(table.clone(), places.clone())).square().sum())(&table);
    let by_hand = |table: &Tensor| {
        (0..4).map(|k| table.slice(&[s(k)]).take(&places.slice(&[s(k)]), 0).square().sum()).sum::<Tensor>()
    };
    assert_tensors("gradient through a batched gather", &slope, &grad(by_hand)(&table));
    // A batched function closes over a variable that an outer transform differentiates by.
    let (w, x) = (normal(2, &[3]), normal(3, &[5, 3]));
    let loss = |w: &Tensor| vmap(|row: &Tensor| w.inner(row).tanh())(&x).sum();
    assert_tensors("closure", &grad(loss)(&w), &grad(|w: &Tensor| x.matmul(w).tanh().sum())(&w));
    // Per-example gradients by an argument that is shared.
    let per_example = vmap(|row: &Tensor| grad(|w: &Tensor| w.inner(row).tanh())(&w))(&x);
    assert_tensors("per example", &per_example, &jacobian(|w: &Tensor| x.matmul(w).tanh())(&w));
    // An inner batch that uses the outer batch's example.
    let grid = vmap(|a: &Tensor| vmap(|b: &Tensor| a.inner(b))(&x))(&x);
    assert_tensors("nested closures", &grid, &x.matmul(&x.transpose()));
    // An index from the end is that of the example's own table, and one beyond it reads no other's.
    let pairs = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    let one = |x: &(Tensor, Tensor)| x.0.take(&x.1, 0);
    assert_eq!(numbers(&vmap(one)(&(pairs.clone(), Tensor::from([0_i64, -1])))), [1.0, 4.0]);
    assert!(vmap(one)(&(pairs.clone(), Tensor::from([2_i64, 0]))).eval().is_err());
    assert!(vmap(one)(&(pairs.clone(), Tensor::from([0_i64, -3]))).eval().is_err());
    let add = |x: &(Tensor, Tensor)| x.0.scatter_add(&x.1, 0, 2);
    let places = Tensor::from([[0_i64, -1], [-2, -2]]);
    assert_eq!(numbers(&vmap(add)(&(pairs.clone(), places))), [1.0, 2.0, 7.0, 0.0]);
    assert!(vmap(add)(&(pairs.clone(), Tensor::from([[0_i64, 2], [0, 0]]))).eval().is_err());
    // Truth values have axes too, and there is no third axis to put the examples.
    let positive = vmap_axes(|x: &Tensor| x.gt(1.5), 1, 1)(&pairs);
    assert_eq!(positive.to_vec::<bool>().unwrap(), [false, true, true, true]);
    assert!(vmap_axes(Tensor::sin, 0, 2)(&pairs).eval().is_err());
    // No examples at all.
    let none = vmap(|x: &Tensor| x.sin().sum())(&Tensor::new::<f64>(&[], [0, 3]));
    assert_eq!((none.shape().to_vec(), numbers(&none)), (vec![0], Vec::new()));
    // Uneven arguments are refused.
    assert!(vmap(|x: &(Tensor, Tensor)| &x.0 + &x.1)(&(normal(1, &[2]), normal(1, &[3]))).eval().is_err());
    assert!(vmap(Tensor::sin)(&Tensor::from(1.0)).eval().is_err());
}

// ------------------------------------------------------------------ what no derivative passes through

#[test]
fn nothing_passes_through_a_stop() {
    let f = |x: &Tensor| (x.stop_gradient() * x).sum();
    let x = vector(&[2.0, 3.0]);
    assert_eq!(numbers(&grad(f)(&x)), [2.0, 3.0]);
    assert_eq!(numbers(&jvp(f, &x, &x).1), [13.0]);
    assert_eq!(numbers(&hessian(f)(&x)), [0.0; 4]);
    assert_eq!(numbers(&grad(|x: &Tensor| x.stop_gradient().sum())(&x)), [0.0, 0.0]);
    assert_eq!(numbers(&jvp(|x: &Tensor| x.stop_gradient(), &x, &x).1), [0.0, 0.0]);
    let frozen = |p: &(Tensor, Tensor)| {
        let p = p.freeze_except(|path| path.starts_with("1"));
        (&p.0 * &p.1).sum()
    };
    let slopes = grad(frozen)(&(x.clone(), x.square()));
    assert_eq!((numbers(&slopes.0), numbers(&slopes.1)), (vec![0.0, 0.0], vec![2.0, 3.0]));
}

#[test]
fn no_derivative_passes_out_of_a_function_that_has_none() {
    let x = vector(&[2.0, 3.0]);
    let quiet = no_grad(|p: &(Tensor, Tensor)| vec![&p.0 * &p.1, p.0.sin()]);
    let pair = (x.clone(), x.square());
    assert_eq!(numbers(&quiet(&pair)[0]), [8.0, 27.0]);
    let f = |x: &Tensor| (x * &quiet(&(x.clone(), x.square()))[0]).sum();
    assert_eq!(numbers(&grad(f)(&x)), [8.0, 27.0]);
    assert_eq!(numbers(&jvp(f, &x, &x).1), [97.0]);
    assert_eq!(numbers(&hessian(f)(&x)), [0.0; 4]);
    assert_eq!(numbers(&vmap(grad(f))(&x.reshape([2, 1]))), [8.0, 27.0]);
    // Inside, derivatives are what they are everywhere; live variables see none of it.
    let inner = no_grad(|x: &Tensor| grad(|x: &Tensor| x.powi(3).sum())(x));
    assert_eq!(numbers(&inner(&x)), [12.0, 27.0]);
    let variable = x.variable();
    assert_eq!(numbers(&(inner(&variable) * &variable).sum().backward().of(&variable)), [12.0, 27.0]);
    // A failure stays one.
    assert!(no_grad(|x: &Tensor| x.reshape([7]))(&x).eval().is_err());
}

#[test]
fn integers_and_truth_values_get_zeros() {
    let arguments = (vector(&[1.0, 2.0, 3.0]), (Tensor::from([2_i64, 0]), Tensor::from([true, false, true])));
    type Arguments = (Tensor, (Tensor, Tensor));
    let f = |x: &Arguments| {
        let taken = x.0.take(&x.1.0, 0) * x.1.0.cast(DType::F64);
        taken.square().sum() + x.1.1.choose(&x.0, &x.0.zeros_like()).sum() + x.1.1.cast(DType::F64).sum()
    };
    let slopes = grad(f)(&arguments);
    assert_eq!(numbers(&slopes.0), [1.0, 0.0, 25.0]);
    assert_eq!((slopes.1.0.dtype(), numbers(&slopes.1.0)), (DType::I64, vec![0.0, 0.0]));
    assert_eq!((slopes.1.1.dtype(), numbers(&slopes.1.1)), (DType::Bool, vec![0.0; 3]));
    let (_, pull) = vjp(f, &arguments);
    let pulled = pull(&Tensor::from(1.0));
    assert_eq!(numbers(&pulled.0), [1.0, 0.0, 25.0]);
    assert_eq!((pulled.1.0.dtype(), numbers(&pulled.1.0)), (DType::I64, vec![0.0, 0.0]));
    assert_eq!((pulled.1.1.dtype(), numbers(&pulled.1.1)), (DType::Bool, vec![0.0; 3]));
    let direction = (vector(&[1.0, 1.0, 1.0]), (Tensor::from([1_i64, 1]), Tensor::from([true, true, true])));
    assert_eq!(numbers(&jvp(f, &arguments, &direction).1), [26.0]);
    // A result that is an integer has a zero tangent.
    let place = jvp(|x: &Tensor| x.argmax(0), &arguments.0, &direction.0).1;
    assert_eq!((place.dtype(), numbers(&place)), (DType::I64, vec![0.0]));
    // And no gradient.
    assert!(grad(|x: &Tensor| x.argmax(0))(&arguments.0).eval().is_err());
    assert!(grad(|x: &Tensor| x.sin())(&arguments.0).eval().is_err());
}

// ------------------------------------------------------------------ the other faces of a gradient

#[test]
fn gradients_have_several_faces() {
    let x = vector(&[0.3, -0.8, 1.1]);
    let f = |x: &Tensor| (x.sin() * x.exp()).sum();
    let expected = grad(f)(&x);
    let (value, slope) = value_and_grad(f)(&x);
    assert_tensors("value", &value, &f(&x));
    assert_tensors("value_and_grad", &slope, &expected);
    let (value, slope, auxiliary) = value_and_grad_aux(|x: &Tensor| (f(x), ("note", x.square())))(&x);
    assert_tensors("value", &value, &f(&x));
    assert_tensors("value_and_grad_aux", &slope, &expected);
    assert_eq!(auxiliary.0, "note");
    assert_tensors("auxiliary result", &auxiliary.1, &x.square());
    // A result in which `?` was used.
    let fallible = |x: &Tensor| -> Result<Tensor, glassgrad::error::Error> {
        let scale = x.stop_gradient().sum().item().unwrap_or(1.0);
        Ok(f(x) * scale)
    };
    assert_tensors("a fallible function", &grad(fallible)(&x), &(&expected * x.sum()));
    // By live variables.
    let variable = x.variable();
    let loss = f(&variable);
    assert_tensors("backward", &loss.backward().of(&variable), &expected);
    let value = loss.item().unwrap();
    assert_eq!(value, numbers(&f(&x))[0]);
    assert_tensors("backward after reading", &loss.backward().of(&variable), &expected);
    let other = vector(&[1.0]).variable();
    assert_eq!(numbers(&loss.backward().of(&other)), [0.0]);
    // A gradient by live variables can be differentiated again.
    let curvature = loss.backward().of(&variable).sum().backward().of(&variable);
    assert_tensors("backward twice", &curvature, &grad(|x: &Tensor| grad(f)(x).sum())(&x));
    // One variable that depends on another.
    let a = Tensor::from(3.0).variable();
    let inner = (&a * 2.0).variable();
    let y = inner.square() + &a;
    let gradients = y.backward();
    assert_eq!(numbers(&gradients.of(&inner)), [12.0]);
    assert_eq!(numbers(&gradients.of(&a)), [25.0]);
}

#[test]
fn steps_of_descent_do_not_need_the_old_graph() {
    let target = vector(&[1.0, -2.0]);
    let mut p = vector(&[0.0, 0.0]);
    for _ in 0..200 {
        let slope = grad(|p: &Tensor| (p - &target).square().sum())(&p);
        p -= 0.1 * slope;
    }
    assert_close("descent", &numbers(&p), &[1.0, -2.0]);
}

#[test]
fn a_linear_function_is_that_of_the_point() {
    let constant = normal(1, &[3, 3]);
    let f = |x: &Tensor| constant.matmul(x).sin();
    let x = normal(2, &[3]);
    let (y, linear) = linearize(f, &x);
    assert_tensors("value", &y, &f(&x));
    for seed in 3..6 {
        let v = normal(seed, &[3]);
        assert_tensors("direction", &linear(&v), &jvp(f, &x, &v).1);
        assert_tensors("linearity", &linear(&(2.0 * &v + &x)), &(2.0 * linear(&v) + linear(&x)));
    }
}

// ------------------------------------------------------------------ random graphs

proptest! {
    #![proptest_config(random_cases(48))]

    #[test]
    fn random_graphs_agree_in_every_mode(seed in 0_u64..1_000_000, length in 1_usize..9) {
        let f = random_function(seed, length, DType::F64, Made::Smoothly);
        let mut random = Random::new(seed ^ 0x55);
        let point: Vec<f64> = (0..3).map(|_| random.within(&(-1.0..1.0))).collect();
        assert_modes_agree(&format!("random graph {seed} of {length} steps"), &f, &point);
    }

    #[test]
    fn random_graphs_batched_are_loops(seed in 0_u64..1_000_000, length in 1_usize..9) {
        let f = random_function(seed, length, DType::F64, Made::Smoothly);
        let what = format!("random graph {seed} of {length} steps");
        let batch = normal(seed ^ 0x77, &[4, 3]);
        assert_tensors(&what, &vmap(&f)(&batch), &looped(&f, &batch, 0, 0));
        assert_tensors(&what, &vmap_axes(&f, 1, 1)(&batch.transpose()), &looped(&f, &batch, 0, 1));
        let slope = grad(|x: &Tensor| f(x).square().sum());
        assert_tensors(&what, &vmap(&slope)(&batch), &looped(&slope, &batch, 0, 0));
        // Examples do not touch one another, so the gradient of the whole batch is that of each.
        assert_tensors(&what, &grad(|x: &Tensor| vmap(&f)(x).square().sum())(&batch), &looped(&slope, &batch, 0, 0));
        let h = hessian(|x: &Tensor| f(x).sum());
        assert_tensors(&what, &vmap(&h)(&batch), &looped(&h, &batch, 0, 0));
        let stacked = normal(seed ^ 0x99, &[2, 2, 3]);
        let expected = looped(&|x| looped(&f, x, 0, 0), &stacked, 0, 0);
        assert_tensors(&what, &vmap(vmap(&f))(&stacked), &expected);
    }

    #[test]
    fn random_graphs_obey_the_adjoint_identity(seed in 0_u64..1_000_000, length in 1_usize..15) {
        let f = random_function(seed, length, DType::F64, Made::Smoothly);
        let (x, v, w) = (normal(seed, &[3]), normal(seed ^ 1, &[3]), normal(seed ^ 2, &[3]));
        let left = numbers(&w.inner(&jvp(&f, &x, &v).1))[0];
        let right = numbers(&vjp(&f, &x).1(&w).inner(&v))[0];
        let size = size_of_all(&numbers(&jacobian(&f)(&x))) * size_of_all(&numbers(&v)) * size_of_all(&numbers(&w));
        prop_assert!(agree(left, right, size, ROUNDINGS), "{left:e} is not {right:e}");
    }
}

// ------------------------------------------------------------------ numbers from outside

/// The product of all elements, one after another.
fn product(x: &Tensor) -> Tensor {
    running_products(x).pop().expect("a vector has elements")
}

fn running_products(x: &Tensor) -> Vec<Tensor> {
    let at = |k: usize| x.slice(&[s(k as isize)]);
    let mut products = vec![at(0)];
    for k in 1..x.shape()[0] {
        products.push(&products[k - 1] * at(k));
    }
    products
}

/// Numbers in ascending order; equal ones keep theirs. Each goes to the place that it has if it waits for all
/// that are smaller, and for those equal ones that stand before it.
fn sorted(x: &Tensor) -> Tensor {
    let places = Tensor::arange(x.shape()[0] as i64);
    let earlier = x.unsqueeze(1).equal(x.unsqueeze(0)).and(&places.unsqueeze(1).gt(places.unsqueeze(0)));
    let waits = x.unsqueeze(1).gt(x.unsqueeze(0)).or(&earlier);
    x.scatter_add(&waits.cast(DType::I64).sum_over(1), 0, x.shape()[0])
}

/// The sign of each order of three things, and 0 where one stands twice.
fn signs() -> Tensor {
    let sign = |k: usize| {
        let (a, b, c) = (k as i32 / 9, k as i32 / 3 % 3, k as i32 % 3);
        f64::from((b - a) * (c - b) * (c - a)) / 2.0
    };
    Tensor::new(&(0..27).map(sign).collect::<Vec<_>>(), [3, 3, 3])
}

/// The determinant of a matrix of three rows, by its definition.
fn determinant(a: &Tensor) -> Tensor {
    let row = |k: isize| a.slice(&[s(k)]);
    Tensor::einsum("ijk,i,j,k->", [&signs(), &row(0), &row(1), &row(2)])
}

/// The inverse of a matrix of three rows: its minors over its determinant.
fn inverse(a: &Tensor) -> Tensor {
    let minors = Tensor::einsum("imn,jpq,mp,nq->ji", [&signs(), &signs(), a, a]);
    minors * 0.5 / determinant(a)
}

fn multivariate(case: &Value, x: &Tensor) -> Tensor {
    let at = |k: isize| x.slice(&[s(k)]);
    let matrix = || x.reshape([3, 3]);
    match golden::name(case) {
        "micrograd test_sanity_check" => {
            let x = at(0);
            let z = &x * 2.0 + 2.0 + &x;
            let q = z.relu() + &z * &x;
            let h = (&z * &z).relu();
            h + &q + &q * x
        }
        "micrograd test_more_ops" => {
            let (a, b) = (at(0), at(1));
            let mut c = &a + &b;
            let mut d = &a * &b + b.powi(3);
            c += c.clone() + 1.0;
            c += 1.0 + &c + (-&a);
            d += &d * 2.0 + (&b + &a).relu();
            d += 3.0 * &d + (&b - &a).relu();
            let f = (c - d).powi(2);
            let mut g = &f / 2.0;
            g += 10.0 / f;
            g
        }
        "Baydin 2018 Table 2/3 ln(x1)+x1*x2-sin(x2)" => at(0).ln() + at(0) * at(1) - at(1).sin(),
        "micrograd lecture neuron tanh(x1*w1+x2*w2+b)" => (at(0) * at(2) + at(1) * at(3) + at(4)).tanh(),
        "DiffTests vec2num_2 x1*x2+sin(x1)" => at(0) * at(1) + at(0).sin(),
        "DiffTests vec2num_5 sum((-x)^3)" => (-x).powi(3).sum(),
        "DiffTests vec2num_6 sum(relu)" => x.relu().sum(),
        "DiffTests vec2num_7 sum(x1*x)" => (at(0) * x).sum(),
        "DiffTests ackley" => {
            let (squares, waves) = (x.square().mean(), (x * (2.0 * PI)).cos().mean());
            -20.0 * (squares.sqrt() * -0.2).exp() - waves.exp() + 20.0 + E
        }
        "DiffTests nested_array_mul x1*(x2+x3)" => at(0) * (at(1) + at(2)),
        "DiffTests var" => x.var(),
        "DiffTests std" => x.std(),
        "DiffTests di arr_to_num sum_ij x_i^4 x_j^6" => x.powi(4).outer(&x.powi(6)).sum(),
        "DiffTests helmholtz-like speelpenning prod" => product(&x.sin()),
        "DiffTests mat2num_3 sum(sqrt(|n|+n^2)*0.5)" => ((x.abs() + x.square()).sqrt() * 0.5).sum(),
        "DiffTests mat2num_4 mean(sum(sin(x)*x,dims=2))" => matrix().sin().matmul(&matrix()).sum_over(1).mean(),
        "DiffTests frobenius(A@A@A)" => matrix().matmul(&matrix()).matmul(&matrix()).square().sum(),
        "array brown_almost_linear" => {
            let n = x.shape()[0];
            let row = (x + (x.sum() - (n as f64 + 1.0))).slice(&[s(..-1)]).sum();
            Tensor::concatenate([&row.broadcast_to([n - 1]), &(product(x) - 1.0).reshape([1])], 0)
        }
        "array cumprod" => Tensor::stack(running_products(x).iter().collect::<Vec<_>>(), 0),
        "array log_softmax" => x.log_softmax(0),
        "array sort" => sorted(x),
        "DiffTests det" => determinant(&matrix()),
        "DiffTests mat2num_1 det(x11*inv(x*x)+x)" => {
            determinant(&(at(0) * inverse(&matrix().matmul(&matrix())) + matrix()))
        }
        "DiffTests logdet_chol(A A^T)" => determinant(&matrix().matmul(&matrix().transpose())).ln(),
        "array inv" => inverse(&matrix()),
        "array solve(A,B) wrt A" => inverse(&matrix()).matmul(&vector(&golden::numbers(&case["B"])).reshape([3, 3])),
        name => panic!("no function is written for the case {name:?}"),
    }
}

#[test]
fn functions_of_several_numbers_match_three_other_engines() {
    for case in &golden::cases(include_str!("golden/multivar.json")) {
        let name = golden::name(case);
        let x = vector(&golden::numbers(&case["x"]));
        let f = |x: &Tensor| multivariate(case, x);
        assert_all_close(name, &numbers(&f(&x)), &golden::numbers(&case["value"]), 1e-9);
        let stated = golden::numbers(if case["jac"].is_null() { &case["grad"] } else { &case["jac"] });
        for (mode, found) in jacobians(&f, &x) {
            assert_all_close(&format!("the gradient of {name} by {mode}"), &found, &stated, 1e-9);
        }
        if !case["hess"].is_null() {
            let stated = golden::numbers(&case["hess"]);
            for (mode, found) in hessians(&f, &x) {
                assert_all_close(&format!("the Hessian of {name} by {mode}"), &found, &stated, 1e-9);
            }
        }
    }
}

/// A convention as a function of tensors.
fn convention(name: &str, x: &Tensor) -> Tensor {
    let clip = |low: f64, high: f64| x.maximum(low).minimum(high).sum();
    let chosen = |taken: &Tensor| x.gt(0.0).choose(taken, &x.zeros_like()).sum();
    match name {
        "relu" => x.relu().sum(),
        "maximum(x,0)" => x.maximum(0.0).sum(),
        "abs" => x.abs().sum(),
        "sqrt" => x.sqrt().sum(),
        "x**0.5" => x.pow(0.5).sum(),
        "x**2" => x.pow(2.0).sum(),
        "x**0" => x.pow(0.0).sum(),
        "x**1" => x.pow(1.0).sum(),
        "0**y" => x.zeros_like().pow(x).sum(),
        "sign" => x.sign().sum(),
        "floor" => x.floor().sum(),
        "clip(x,-1,1)" | "hard_tanh" => clip(-1.0, 1.0),
        "relu6" => clip(0.0, 6.0),
        "max(vector) ties" | "amax ties" => x.max(),
        "min ties" => x.min(),
        "prod with one zero" | "prod with two zeros" => product(x),
        "cumprod with zero" => running_products(x).into_iter().sum(),
        "norm2 at 0" | "norm2" => x.norm(),
        "where(x>0,log x,0) (NaN trap)" => chosen(&x.ln()),
        "where(x>0,sqrt x,0)" => chosen(&x.sqrt()),
        "logsumexp big" | "logsumexp -inf,-inf" => x.logsumexp(),
        "softplus extremes" => x.softplus().sum(),
        "log(softmax(x))[0] naive" => (x.slice(&[s(0)]).exp() / x.exp().sum()).ln(),
        "log_softmax[1]" => x.log_softmax(0).slice(&[s(1)]),
        "sigmoid extremes" => x.sigmoid().sum(),
        "tanh extremes" => x.tanh().sum(),
        "sinc" => x.sinc().sum(),
        "atan2(y,0) wrt y" => x.atan2(0.0).sum(),
        "mod(x,2)" => x.rem(2.0).sum(),
        "mod(7.5,y) wrt y" => (7.5_f64 % x).sum(),
        "leaky_relu(0.01)" => x.leaky_relu(0.01).sum(),
        "elu" => x.elu(1.0).sum(),
        "median even" => (sorted(x).slice(&[s(1)]) + sorted(x).slice(&[s(2)])) / 2.0,
        "sort().head(2) ties" => sorted(x).slice(&[s(..2)]).sum(),
        _ => panic!("no function is written for the convention {name:?}"),
    }
}

#[test]
fn the_conventions_hold_for_tensors_in_every_mode() {
    let cases = golden::cases(include_str!("golden/conventions.json"));
    assert_eq!(cases.len(), golden::CONVENTIONS.len(), "one convention for every case");
    let tolerance = 4.0 * f64::EPSILON;
    for case in &cases {
        let name = golden::name(case);
        let x = vector(&golden::numbers(&case["x"]));
        let (gradient, curvature) = golden::convention(name);
        let f = |x: &Tensor| convention(name, x);
        // A column of a Jacobian by a unit direction multiplies zeros with whatever stands beside them, so
        // modes that do so are asked only where all partials are numbers.
        if gradient.iter().all(|slope| slope.is_finite()) || gradient.len() == 1 {
            for (mode, found) in jacobians(&f, &x) {
                assert_all_close(&format!("the gradient of {name} by {mode}"), &found, gradient, tolerance);
            }
        }
        assert_all_close(&format!("the gradient of {name}"), &numbers(&grad(f)(&x)), gradient, tolerance);
        for (mode, found) in hessians(&f, &x) {
            let what = format!("the Hessian of {name} by {mode}");
            match curvature.hessian(gradient.len()) {
                Some(stated) => assert_all_close(&what, &found, &stated, tolerance),
                None => assert!(found.iter().any(|element| !element.is_finite()), "{what}: {found:?}"),
            }
        }
    }
}
