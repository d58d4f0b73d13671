//! Dense linear algebra: values against what defines them, derivatives against finite differences and against one
//! another, stacks against loops, and what is hostile.
#![cfg(feature = "linalg")]

#[path = "judges/closeness.rs"]
mod closeness;
#[path = "judges/differences.rs"]
mod differences;

use closeness::{agree, size_of_all};
use glassgrad::dtype::DType;
use glassgrad::expr::s;
use glassgrad::operations::linalg::Triangle;
use glassgrad::rng::Key;
use glassgrad::{Tensor, grad, hessian, hvp, jacobian, jvp, vjp, vmap};
use serde_json::Value;

/// How many roundings of numbers of the size of the results two ways to a number may differ by.
const ROUNDINGS: f64 = 512.0;

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64_vec().unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn assert_numbers(what: &str, actual: &[f64], expected: &[f64], roundings: f64) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    let finite: Vec<f64> = expected.iter().copied().filter(|number| number.is_finite()).collect();
    let size = size_of_all(&finite);
    let close = actual.iter().zip(expected).all(|(a, b)| agree(*a, *b, size, roundings));
    assert!(close, "{what}: {actual:?} is not {expected:?}");
}

#[track_caller]
fn assert_near(what: &str, actual: &Tensor, expected: &Tensor, roundings: f64) {
    let (a, b) = (numbers(actual), numbers(expected));
    assert_eq!(actual.shape(), expected.shape(), "{what}");
    assert_numbers(what, &a, &b, roundings);
}

#[track_caller]
fn assert_close(what: &str, actual: &Tensor, expected: &Tensor) {
    assert_near(what, actual, expected, ROUNDINGS);
}

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(seed), shape).cast(DType::F64)
}

fn eye(size: usize) -> Tensor {
    Tensor::eye(size).cast(DType::F64)
}

/// Random matrices far from singular ones: their leading columns, rows and pivots are of the order of 1.
fn steady(seed: u64, shape: &[usize]) -> Tensor {
    let rank = shape.len();
    let diagonal: Vec<f64> = (0..shape[rank - 2] * shape[rank - 1])
        .map(|k| if k / shape[rank - 1] == k % shape[rank - 1] { 3.0 + (k % shape[rank - 1]) as f64 } else { 0.0 })
        .collect();
    (normal(seed, shape) * 0.5 + Tensor::new(&diagonal, &shape[rank - 2..])).detach().unwrap()
}

// ---------------------------------------------------------------------------------------- every operation

/// An operation as a smooth function of the elements of one matrix of a shape.
struct Case {
    name: &'static str,
    shape: [usize; 2],
    function: Box<dyn Fn(&Tensor) -> Tensor>,
}

fn case(name: &'static str, shape: [usize; 2], function: impl Fn(&Tensor) -> Tensor + 'static) -> Case {
    Case { name, shape, function: Box::new(function) }
}

/// Parts of a result in one vector.
fn flat(parts: &[&Tensor]) -> Tensor {
    let flat: Vec<Tensor> = parts.iter().map(|part| part.reshape(part.shape().elements())).collect();
    Tensor::concatenate(flat.iter().collect::<Vec<_>>(), 0)
}

/// Functions of the singular vectors that do not depend on their signs.
fn singular_parts(a: &Tensor) -> Tensor {
    let (u, s, vt) = a.svd();
    flat(&[&s, &(&u * s.square().recip()).matmul(&vt), &u.square(), &vt.square()])
}

/// Functions of the eigenvectors of a general matrix that do not depend on their phases.
fn eigen_parts(a: &Tensor) -> Tensor {
    let (values, vectors) = a.eig();
    let first = vectors.slice(&[s(0)]).conj();
    let relative = &vectors * &first;
    flat(&[&values.re, &values.im, &vectors.abs_square(), &relative.re, &relative.im])
}

fn cases() -> Vec<Case> {
    let (a, b, vector) = (steady(1, &[3, 3]), normal(2, &[3, 2]), normal(3, &[3]));
    let right = |b: Tensor| move |a: &Tensor| a.solve(&b.cast(a.dtype()));
    let mut cases = vec![
        case("solve by matrix", [3, 3], right(b.clone())),
        case("solve by matrix, vector", [3, 3], right(vector.clone())),
        case("solve by right-hand side", [3, 2], move |b| a.cast(b.dtype()).solve(b)),
        case("inv", [3, 3], Tensor::inv),
        case("cholesky", [3, 3], Tensor::cholesky),
        case("det", [3, 3], Tensor::det),
        case("det of four rows", [4, 4], |a| a.det() / 50.0),
        case("det of two rows", [2, 2], Tensor::det),
        case("det of one row", [1, 1], Tensor::det),
        case("logdet", [3, 3], Tensor::logdet),
        case("slogdet", [3, 3], |a| a.slogdet().1),
        case("expm", [3, 3], |a| (a * 0.25).expm()),
        case("eigh", [3, 3], |a| {
            let (values, vectors) = a.eigh();
            flat(&[&values, &vectors.square(), &(&vectors * values.sin()).matmul(&vectors.transpose())])
        }),
        case("eig with real values", [3, 3], |a| eigen_parts(&(a * Tensor::from([1.0, 2.0, 4.0]).cast(a.dtype())))),
        case("eig with a pair", [3, 3], |a| {
            let turn = Tensor::from([[0.0, -6.0, 0.0], [6.0, 0.0, 0.0], [0.0, 0.0, 0.0]]);
            eigen_parts(&(a + turn.cast(a.dtype())))
        }),
        case("lstsq", [4, 2], |a| a.lstsq(&normal(4, &[4]).cast(a.dtype()))),
        case("lstsq by right-hand side", [4, 2], |b| steady(5, &[4, 3]).cast(b.dtype()).lstsq(b)),
        case("matrix_power", [3, 3], |a| (a * 0.25).matrix_power(5)),
        case("matrix_power of the inverse", [3, 3], |a| a.matrix_power(-3)),
        case("nuclear_norm", [3, 2], Tensor::nuclear_norm),
        case("spectral_norm", [3, 2], Tensor::spectral_norm),
    ];
    for shape in [[3, 3], [4, 2], [2, 4]] {
        cases.push(case("qr", shape, |a| {
            let (q, r) = a.qr();
            flat(&[&q, &r])
        }));
        cases.push(case("lu", shape, |a| {
            let (_, l, u) = a.lu();
            flat(&[&l, &u])
        }));
        cases.push(case("svd", shape, singular_parts));
        // The basis of a complement is free: what is differentiated depends on its space alone.
        let projection = |q: &Tensor, from: usize| {
            let complement = q.slice(&[s(..), s(from..)]);
            complement.matmul(&complement.transpose())
        };
        cases.push(case("qr_complete", shape, move |a| {
            let (q, r) = a.qr_complete();
            flat(&[&projection(&q, a.shape()[1].min(a.shape()[0])), &q.matmul(&r), &r])
        }));
        cases.push(case("svd_full", shape, move |a| {
            let (u, singular_values, vt) = a.svd_full();
            let count = singular_values.shape()[0];
            flat(&[&projection(&u, count), &projection(&vt.transpose(), count), &singular_values])
        }));
        cases.push(case("pinv", shape, Tensor::pinv));
    }
    for triangle in [Triangle::lower(), Triangle::upper()] {
        for triangle in [triangle, triangle.transposed(), triangle.unit(), triangle.unit().transposed()] {
            let (a, b) = (steady(6, &[3, 3]), b.clone());
            cases.push(case("solve_triangular by matrix", [3, 3], move |a| {
                a.solve_triangular(&b.cast(a.dtype()), triangle)
            }));
            cases.push(case("solve_triangular by right-hand side", [3, 2], move |b| {
                a.cast(b.dtype()).solve_triangular(b, triangle)
            }));
        }
    }
    cases
}

/// A combination of all elements of a result.
fn weighed(f: &dyn Fn(&Tensor) -> Tensor, x: &Tensor) -> Tensor {
    let y = f(x);
    let weights = normal(77, y.shape());
    y.inner(&weights)
}

/// Roundings that a finite difference of numbers of order 1 may be off by.
fn difference_roundings() -> f64 {
    ROUNDINGS * f64::EPSILON.powf(-0.25)
}

#[test]
fn gradients_are_limits_of_differences() {
    for Case { name, shape, function } in cases() {
        let x = steady(11, &shape);
        let value = |x: &[f64]| numbers(&weighed(&*function, &Tensor::new(x, shape)))[0];
        let expected: Vec<f64> =
            (0..shape[0] * shape[1]).map(|k| differences::partial(value, &numbers(&x), k)).collect();
        let slope = grad(|x: &Tensor| weighed(&*function, x))(&x);
        assert_numbers(name, &numbers(&slope), &expected, difference_roundings());
        let pushed: Vec<f64> = (0..shape[0] * shape[1])
            .map(|k| {
                let unit: Vec<f64> = (0..shape[0] * shape[1]).map(|j| f64::from(u8::from(j == k))).collect();
                numbers(&jvp(|x: &Tensor| weighed(&*function, x), &x, &Tensor::new(&unit, shape)).1)[0]
            })
            .collect();
        assert_numbers(name, &pushed, &numbers(&slope), ROUNDINGS);
    }
}

#[test]
fn tangents_and_cotangents_are_adjoint() {
    for Case { name, shape, function } in cases() {
        let (x, v) = (steady(12, &shape), normal(13, &shape));
        let (y, tangent) = jvp(&*function, &x, &v);
        let w = normal(14, y.shape());
        let pulled = vjp(&*function, &x).1(&w);
        let (left, right) = (numbers(&w.inner(&tangent)), numbers(&pulled.inner(&v)));
        let size = size_of_all(&numbers(&(&w * &tangent)));
        assert!(agree(left[0], right[0], size, ROUNDINGS), "{name}: {left:?} is not {right:?}");
    }
}

#[test]
fn a_jacobian_is_all_pullbacks() {
    for Case { name, shape, function } in cases() {
        let x = steady(15, &shape);
        let (y, pull) = vjp(&*function, &x);
        let count = y.shape().elements();
        let rows: Vec<Tensor> = (0..count)
            .map(|k| {
                let unit: Vec<f64> = (0..count).map(|j| f64::from(u8::from(j == k))).collect();
                pull(&Tensor::new(&unit, y.shape()))
            })
            .collect();
        let stacked = Tensor::stack(rows.iter().collect::<Vec<_>>(), 0);
        assert_close(name, &jacobian(&*function)(&x), &stacked.reshape(y.shape().followed_by(&shape)));
    }
}

/// The second and the third derivative along a direction, each against differences of the order below.
#[test]
fn higher_orders_are_limits_of_differences() {
    for Case { name, shape, function } in cases() {
        let (x, v, w) = (steady(16, &shape), normal(17, &shape) * 0.5, normal(18, &shape));
        let f = |x: &Tensor| weighed(&*function, x);
        let along = |t: f64| &x + &v * t;
        let slope = |t: &[f64]| numbers(&grad(f)(&along(t[0])).inner(&w))[0];
        let curvature = |t: &[f64]| numbers(&hvp(f, &along(t[0]), &v).inner(&w))[0];
        let second = differences::partial(slope, &[0.0], 0);
        assert_numbers(name, &[curvature(&[0.0])], &[second], 4.0 * difference_roundings());
        let third = differences::partial(curvature, &[0.0], 0);
        let exact = jvp(|x: &Tensor| hvp(f, x, &v).inner(&w), &x, &v).1;
        assert_numbers(name, &numbers(&exact), &[third], 16.0 * difference_roundings());
        let reversed = hessian(f)(&x);
        let elements = shape[0] * shape[1];
        let along_v = reversed.reshape([elements, elements]).matmul(&v.reshape(elements)).reshape(shape);
        assert_near(name, &along_v, &hvp(f, &x, &v), 16.0 * ROUNDINGS);
    }
}

#[test]
fn many_examples_are_one_after_another() {
    for Case { name, shape, function } in cases() {
        let examples: Vec<Tensor> = (0..3).map(|k| steady(20 + k, &shape)).collect();
        let stack = Tensor::stack(examples.iter().collect::<Vec<_>>(), 0);
        let looped = |f: &dyn Fn(&Tensor) -> Tensor| {
            let results: Vec<Tensor> = examples.iter().map(f).collect();
            Tensor::stack(results.iter().collect::<Vec<_>>(), 0)
        };
        assert_close(name, &vmap(&*function)(&stack), &looped(&*function));
        let slope = grad(|x: &Tensor| weighed(&*function, x));
        assert_close(name, &vmap(&slope)(&stack), &looped(&slope));
        let curvature = |x: &Tensor| hvp(|x: &Tensor| weighed(&*function, x), x, &(x * 0.5));
        assert_near(name, &vmap(curvature)(&stack), &looped(&curvature), 4.0 * ROUNDINGS);
    }
}

#[test]
fn single_precision_agrees_with_double() {
    for Case { name, shape, function } in cases() {
        let x = steady(30, &shape).cast(DType::F32);
        let narrow = function(&x);
        assert_eq!(narrow.dtype(), DType::F32, "{name}");
        let roundings = ROUNDINGS * f64::from(f32::EPSILON) / f64::EPSILON;
        assert_near(name, &narrow.cast(DType::F64), &function(&x.cast(DType::F64)), roundings);
        let weighed = |x: &Tensor| {
            let y = function(x);
            y.inner(&normal(77, y.shape()).cast(x.dtype()))
        };
        let (slope, exact) = (grad(weighed)(&x), grad(weighed)(&x.cast(DType::F64)));
        assert_near(name, &slope.cast(DType::F64), &exact, roundings);
    }
}

// ---------------------------------------------------------------------------------------- definitions

const SHAPES: [[usize; 4]; 4] = [[2, 3, 4, 4], [1, 2, 5, 3], [2, 1, 3, 5], [2, 2, 1, 1]];

#[test]
fn factors_multiply_to_what_they_are_of() {
    for shape in SHAPES {
        let a = normal(40, &shape);
        let [_, _, m, n] = shape;
        let k = m.min(n);
        let batch = |matrix: Tensor| matrix.broadcast_to([shape[0], shape[1], k, k]);
        let (q, r) = a.qr();
        assert_close("qr", &q.matmul(&r), &a);
        assert_close("orthonormal q", &q.transpose().matmul(&q), &batch(eye(k)));
        let below = |matrix: &Tensor| {
            let (rows, columns) = (matrix.shape()[2], matrix.shape()[3]);
            let all = numbers(matrix);
            (0..all.len()).filter(|p| p / columns % rows > p % columns).map(|p| all[p]).collect::<Vec<_>>()
        };
        assert!(below(&r).iter().all(|number| *number == 0.0));
        let (u, s, vt) = a.svd();
        assert_close("svd", &(&u * s.unsqueeze(2)).matmul(&vt), &a);
        assert_close("orthonormal u", &u.transpose().matmul(&u), &batch(eye(k)));
        assert_close("orthonormal v", &vt.matmul(&vt.transpose()), &batch(eye(k)));
        assert!(numbers(&s).chunks(k).all(|s| s.windows(2).all(|pair| pair[0] >= pair[1]) && s[k - 1] >= 0.0));
        let whole = |size: usize| eye(size).broadcast_to([shape[0], shape[1], size, size]);
        let (q, r) = a.qr_complete();
        assert_close("complete qr", &q.matmul(&r), &a);
        assert_close("orthogonal q", &q.transpose().matmul(&q), &whole(m));
        assert!(below(&r).iter().all(|number| *number == 0.0));
        let (u, s, vt) = a.svd_full();
        let middle = Tensor::zeros([shape[0], shape[1], m, n]).cast(DType::F64);
        let middle = middle
            + eye(m.max(n)).slice(&[glassgrad::expr::s(..m), glassgrad::expr::s(..n)]) * {
                let padding = Tensor::zeros([shape[0], shape[1], n - k]).cast(DType::F64);
                Tensor::concatenate([&s, &padding], -1).unsqueeze(2)
            };
        assert_close("full svd", &u.matmul(&middle).matmul(&vt), &a);
        assert_close("orthogonal u", &u.transpose().matmul(&u), &whole(m));
        assert_close("orthogonal v", &vt.matmul(&vt.transpose()), &whole(n));
        let (order, l, u) = a.lu();
        assert_eq!((order.dtype(), order.shape().to_vec()), (DType::I64, vec![shape[0], shape[1], m]));
        assert_close("lu", &l.matmul(&u), &order.one_hot(m, DType::F64).matmul(&a));
        assert!(below(&u).iter().chain(&below(&l.transpose())).all(|number| *number == 0.0));
        assert!(numbers(&l).iter().all(|number| number.abs() <= 1.0));
        let p = a.pinv();
        assert_close("a p a", &a.matmul(&p).matmul(&a), &a);
        assert_close("p a p", &p.matmul(&a).matmul(&p), &p);
        assert_close("a p is symmetric", &a.matmul(&p), &a.matmul(&p).transpose());
        assert_close("p a is symmetric", &p.matmul(&a), &p.matmul(&a).transpose());
    }
}

#[test]
fn a_real_schur_form_is_quasi_triangular_and_has_no_derivative() {
    for (seed, shape) in [(60, vec![5, 5]), (61, vec![2, 3, 4, 4]), (62, vec![1, 1]), (63, vec![0, 0])] {
        let a = normal(seed, &shape);
        let (t, z) = a.schur();
        let size = shape[shape.len() - 1];
        assert_close("z t zᵀ", &z.matmul(&t).matmul(&z.transpose()), &a);
        assert_close("orthogonal z", &z.transpose().matmul(&z), &eye(size).broadcast_to(shape.clone()));
        // Below the first subdiagonal there is nothing, and no two neighbours on it.
        assert!(numbers(&t.tril(-2)).iter().all(|number| *number == 0.0));
        let below = numbers(&t);
        for matrix in below.chunks(size.max(1) * size.max(1)) {
            let subdiagonal: Vec<f64> = (1..size).map(|k| matrix[k * size + k - 1]).collect();
            assert!(subdiagonal.windows(2).all(|pair| pair[0] == 0.0 || pair[1] == 0.0), "{subdiagonal:?}");
        }
    }
    let error = grad(|a: &Tensor| a.schur().0.sum())(&normal(64, &[3, 3])).eval().unwrap_err().to_string();
    assert!(error.contains("schur") && error.contains("not unique") && error.contains("linalg.rs"), "{error}");
    let error = normal(65, &[2, 3]).schur().0.eval().unwrap_err().to_string();
    assert!(error.contains("it needs square matrices, not 2 rows by 3 columns"), "{error}");
}

#[test]
fn square_matrices_keep_their_definitions() {
    for (batch, n) in [(vec![], 4), (vec![3], 1), (vec![2, 2], 5)] {
        let shape = |last: &[usize]| [&batch[..], last].concat();
        let (a, b) = (steady(41, &shape(&[n, n])), normal(42, &shape(&[n, 2])));
        let unit = eye(n).broadcast_to(shape(&[n, n]));
        assert_close("solve", &a.matmul(&a.solve(&b)), &b);
        assert_close("inv", &a.matmul(&a.inv()), &unit);
        assert_close("power 0", &a.matrix_power(0), &unit);
        assert_close("power -2", &a.matrix_power(-2).matmul(&a).matmul(&a), &unit);
        let positive = a.matmul(&a.transpose());
        let l = positive.cholesky();
        assert_close("cholesky", &l.matmul(&l.transpose()), &positive);
        let (values, vectors) = positive.eigh();
        assert_close("eigh", &positive.matmul(&vectors), &(&vectors * values.unsqueeze(batch.len())));
        assert_close("orthonormal eigenvectors", &vectors.transpose().matmul(&vectors), &unit);
        assert!(numbers(&values).chunks(n).all(|values| values.windows(2).all(|pair| pair[0] <= pair[1])));
        assert_close("det is multiplicative", &positive.det(), &a.det().square());
        assert_close("logdet", &positive.logdet(), &positive.det().ln());
        let (sign, logarithm) = (-&a).slogdet();
        assert_close("slogdet", &(sign * logarithm.exp()), &(-&a).det());
        let small = &a * 0.3;
        assert_close("expm of the negative", &small.expm().matmul(&(-&small).expm()), &unit);
    }
}

/// Sizes on both sides of the blocks that the decompositions work in, with many values that are equal, and none.
#[test]
fn every_size_keeps_the_definitions() {
    for n in [2, 16, 17, 33, 65, 140] {
        let ones = Tensor::full([n, n], 1.0, DType::F64);
        let blocks: Vec<f64> = (0..n * n).map(|k| f64::from(u8::from(k / n / 3 == k % n / 3))).collect();
        for a in [normal(39, &[n, n]), eye(n), ones, Tensor::new(&blocks, [n, n])] {
            let symmetric = (&a + a.transpose()) * 0.5;
            let (u, s, vt) = a.svd();
            let (values, vectors) = symmetric.eigh();
            let (q, r) = a.qr();
            let roundings = ROUNDINGS * n as f64;
            assert_near("svd", &(&u * &s).matmul(&vt), &a, roundings);
            assert_near("orthonormal u", &u.transpose().matmul(&u), &eye(n), roundings);
            assert_near("eigh", &(&vectors * &values).matmul(&vectors.transpose()), &symmetric, roundings);
            assert_near("orthonormal vectors", &vectors.transpose().matmul(&vectors), &eye(n), roundings);
            assert_near("qr", &q.matmul(&r), &a, roundings);
            assert_near("orthonormal q", &q.transpose().matmul(&q), &eye(n), roundings);
            let positive = a.matmul(&a.transpose()) + eye(n);
            let l = positive.cholesky();
            assert_near("cholesky", &l.matmul(&l.transpose()), &positive, roundings);
            let (order, l, u) = positive.lu();
            assert_near("lu", &l.matmul(&u), &positive.take(&order, 0), roundings);
            assert_near("inv", &positive.matmul(&positive.inv()), &eye(n), n as f64 * roundings);
        }
    }
}

#[test]
fn the_exponential_agrees_with_eigenvalues_at_every_size() {
    for scale in [1e-9_f64, 0.1, 1.0, 10.0, 100.0] {
        let a = (normal(43, &[4, 4]) * scale).matmul(&eye(4));
        let symmetric = (&a + a.transpose()) * 0.5;
        let (values, vectors) = symmetric.eigh();
        let expected = (&vectors * values.exp()).matmul(&vectors.transpose());
        // An exponential multiplies the rounding of its argument.
        assert_near("expm", &symmetric.expm(), &expected, ROUNDINGS * scale.max(1.0));
    }
    let rotation = Tensor::from([[0.0, -1e3], [1e3, 0.0]]).expm();
    let (sine, cosine) = 1e3_f64.sin_cos();
    assert_near("rotation", &rotation, &Tensor::from([[cosine, -sine], [sine, cosine]]), 1e3 * ROUNDINGS);
    assert_eq!(numbers(&Tensor::from([[-1e6]]).expm()), [0.0]);
    assert_eq!(numbers(&Tensor::from([[1e300]]).expm()), [f64::INFINITY]);
}

#[test]
fn least_squares_leave_a_residual_at_right_angles() {
    let (a, b) = (normal(44, &[5, 3]), normal(45, &[5]));
    let x = a.lstsq(&b);
    assert_close("residual", &a.transpose().matmul(&(a.matmul(&x) - &b)), &Tensor::zeros(3).cast(DType::F64));
    // Of many solutions the shortest has no part that the matrix does not see.
    let (a, b) = (normal(46, &[2, 4]), normal(47, &[2, 3]));
    let x = a.lstsq(&b);
    assert_close("exact", &a.matmul(&x), &b);
    assert_close("shortest", &a.pinv().matmul(&a).matmul(&x), &x);
    // Rank 1.
    let flat = Tensor::from([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]);
    assert_close("rank 1", &flat.lstsq(&Tensor::from([5.0, 10.0, 15.0])), &Tensor::from([1.0, 2.0]));
}

#[test]
fn leading_axes_broadcast_and_vectors_are_single_columns() {
    let (a, b) = (steady(48, &[2, 1, 3, 3]), normal(49, &[4, 3, 2]));
    assert_eq!(a.solve(&b).shape().to_vec(), [2, 4, 3, 2]);
    assert_close("broadcast", &a.matmul(&a.solve(&b)), &b.broadcast_to([2, 4, 3, 2]));
    let vector = normal(50, &[3]);
    assert_close(
        "vector",
        &a.matmul(&a.solve(&vector).unsqueeze(3)).slice(&[s(..), s(..), s(..), s(0)]),
        &vector.broadcast_to([2, 1, 3]),
    );
    // One matrix and many right-hand sides are one system with more columns.
    let one = steady(51, &[3, 3]);
    let many = normal(52, &[5, 3]);
    let solved = vmap(|b: &Tensor| one.solve(b))(&many);
    assert_close("columns", &solved, &one.solve(&many.transpose()).transpose());
}

// ---------------------------------------------------------------------------------------- golden numbers

fn all_numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(all_numbers).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

#[test]
fn golden_cases_of_matrices_hold() {
    let file: Value = serde_json::from_str(include_str!("golden/multivar.json")).expect("the golden file is JSON");
    let mut seen = 0;
    for case in file["cases"].as_array().expect("a list of cases") {
        let name = case["f"].as_str().expect("the name of a function");
        let matrix = |value: &Value| Tensor::new(&all_numbers(value), [3, 3]);
        let function: Box<dyn Fn(&Tensor) -> Tensor> = match name {
            "DiffTests det" => Box::new(Tensor::det),
            "DiffTests mat2num_1 det(x11*inv(x*x)+x)" => {
                Box::new(|x| (x.slice(&[s(0), s(0)]) * x.matmul(x).inv() + x).det())
            }
            "DiffTests logdet_chol(A A^T)" => Box::new(|x| x.matmul(&x.transpose()).cholesky().diag().ln().sum() * 2.0),
            "array inv" => Box::new(Tensor::inv),
            "array solve(A,B) wrt A" => {
                let b = matrix(&case["B"]);
                Box::new(move |a| a.solve(&b))
            }
            _ => continue,
        };
        seen += 1;
        let x = matrix(&case["x"]);
        assert_numbers(name, &numbers(&function(&x)), &all_numbers(&case["value"]), ROUNDINGS);
        let stated = if case["jac"].is_null() { &case["grad"] } else { &case["jac"] };
        assert_numbers(name, &numbers(&jacobian(&*function)(&x)), &all_numbers(stated), ROUNDINGS);
        if !case["hess"].is_null() {
            assert_numbers(name, &numbers(&hessian(&*function)(&x)), &all_numbers(&case["hess"]), ROUNDINGS);
        }
    }
    assert_eq!(seen, 5);
}

// ---------------------------------------------------------------------------------------- singular determinants

/// The determinant as the sum over all orders of the rows, which divides by nothing.
fn leibniz(x: &[f64], n: usize) -> f64 {
    if n == 0 {
        return 1.0;
    }
    (0..n)
        .map(|column| {
            let minor: Vec<f64> =
                (1..n).flat_map(|i| (0..n).filter(move |j| *j != column).map(move |j| x[i * n + j])).collect();
            let sign = if column % 2 == 0 { 1.0 } else { -1.0 };
            sign * x[column] * leibniz(&minor, n - 1)
        })
        .sum()
}

#[test]
fn determinants_of_singular_matrices_have_right_derivatives() {
    for n in 1..=5 {
        for rank in 0..=n {
            let a = normal(60 + n as u64, &[n, rank]).matmul(&normal(70 + n as u64, &[rank, n])).detach().unwrap();
            let x = numbers(&a);
            let size = size_of_all(&x).powi(n as i32);
            let near = |what: &str, actual: &Tensor, expected: &[f64]| {
                let close =
                    numbers(actual).iter().zip(expected).all(|(a, b)| agree(*a, *b, size, difference_roundings()));
                assert!(close, "{what} of {n} rows and rank {rank}: {actual} is not {expected:?}");
            };
            near("value", &a.det(), &[leibniz(&x, n)]);
            let slope: Vec<f64> = (0..n * n).map(|k| differences::partial(|x| leibniz(x, n), &x, k)).collect();
            near("gradient", &grad(Tensor::det)(&a), &slope);
            let direction = normal(80, &[n, n]);
            let along = |t: f64, k: usize| {
                let moved = numbers(&(&a + &direction * t));
                differences::partial(|x| leibniz(x, n), &moved, k)
            };
            let curvature: Vec<f64> = (0..n * n).map(|k| differences::partial(|t| along(t[0], k), &[0.0], 0)).collect();
            near("second derivative", &hvp(Tensor::det, &a, &direction), &curvature);
            if rank + 2 >= n {
                // det(a + t·v) is a polynomial in t, whose third derivative differences of the second give.
                let second = |t: f64| {
                    let (a, v) = (&a, &direction);
                    differences::second_partial(|t| leibniz(&numbers(&(a + v * t[0])), n), &[t], 0, 0)
                };
                let third = (second(0.5) - second(-0.5))
                    - ((second(1.0) - second(-1.0)) - 2.0 * (second(0.5) - second(-0.5))) / 6.0;
                let f = |x: &Tensor| hvp(Tensor::det, x, &direction).inner(&direction);
                let exact = numbers(&jvp(f, &a, &direction).1)[0];
                let size = size * size_of_all(&numbers(&direction)).powi(3);
                assert!(
                    agree(exact, third, size, 1e3 * difference_roundings()),
                    "third derivative of {n} rows and rank {rank}: {exact} is not {third}"
                );
            }
        }
    }
}

// ---------------------------------------------------------------------------------------- equal values

#[test]
fn symmetric_functions_of_equal_eigenvalues_have_right_gradients() {
    let turn = steady(90, &[4, 4]).qr().0;
    let a = (&turn * Tensor::from([2.0, 2.0, 2.0, -1.0])).matmul(&turn.transpose()).detach().unwrap();
    let sum = |a: &Tensor| a.eigh().0.sum();
    assert_close("trace", &grad(sum)(&a), &eye(4));
    assert_close("trace is linear", &hvp(sum, &a, &normal(91, &[4, 4])), &Tensor::zeros([4, 4]).cast(DType::F64));
    let exponentials = |a: &Tensor| a.eigh().0.exp().sum();
    assert_close("trace of the exponential", &grad(exponentials)(&a), &a.expm());
    let squares = grad(|a: &Tensor| a.svd().1.square().sum());
    assert_close("sum of squares", &squares(&a), &(&a * 2.0));
    assert_close(
        "of zeros",
        &squares(&Tensor::zeros([4, 4])).cast(DType::F64),
        &Tensor::zeros([4, 4]).cast(DType::F64),
    );
    for gradient in [grad(|a: &Tensor| a.eigh().1.square().sum())(&eye(3)), grad(|a: &Tensor| a.svd().0.sum())(&eye(3))]
    {
        assert!(numbers(&gradient).iter().all(|number| number.is_finite()));
    }
}

#[test]
fn norms_have_the_smallest_subgradients_at_their_kinks() {
    let zeros = Tensor::zeros([3, 2]).cast(DType::F64);
    assert_eq!(numbers(&grad(Tensor::nuclear_norm)(&zeros)), [0.0; 6]);
    assert_eq!(numbers(&grad(Tensor::spectral_norm)(&zeros)), [0.0; 6]);
    let rank_one = Tensor::from([[3.0, 0.0], [0.0, 0.0]]);
    assert_eq!(numbers(&grad(Tensor::nuclear_norm)(&rank_one)), [1.0, 0.0, 0.0, 0.0]);
    assert_close("shared", &grad(Tensor::spectral_norm)(&eye(2)), &(eye(2) * 0.5));
    assert_close(
        "deficient",
        &grad(|a: &Tensor| a.svd().1.sum())(&Tensor::from([[3.0, 0.0], [4.0, 0.0]])).slice(&[s(..), s(0)]),
        &Tensor::from([0.6, 0.8]),
    );
}

// ---------------------------------------------------------------------------------------- hostile

#[track_caller]
fn assert_error(tensor: &Tensor, expected: &str) {
    let error = tensor.eval().expect_err("it must fail").to_string();
    assert!(error.starts_with(expected), "{error}");
    assert!(error.contains(file!()), "the line of the user is missing: {error}");
}

#[test]
fn singular_matrices_are_errors_where_regular_ones_are_needed() {
    let flat = Tensor::from([[1.0, 2.0], [2.0, 4.0]]);
    // No pivot of this is exactly zero in floating point.
    let rounded = Tensor::from([[0.1, 0.2], [0.3, 0.6]]);
    let hidden = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]);
    for matrix in [&flat, &rounded] {
        assert_error(&matrix.inv(), "inv: the matrix is singular: pivot 1 vanishes");
        assert_error(&matrix.lu().1, "lu: the matrix is singular: pivot 1 vanishes");
        assert_error(&matrix.logdet(), "logdet: the matrix is singular: pivot 1 vanishes");
        assert_error(&matrix.matrix_power(-2), "matrix_power: the matrix is singular: pivot 1 vanishes");
        assert_error(&matrix.cast(DType::F32).inv(), "inv: the matrix is singular: pivot 1 vanishes");
    }
    assert_error(&hidden.solve(&normal(1, &[3])), "solve: the matrix is singular: pivot 2 vanishes");
    let stack = Tensor::stack([&eye(2), &flat], 0).unsqueeze(1);
    assert_error(&stack.inv(), "inv: matrix [1, 0] of the batch [2, 1] is singular: pivot 1 vanishes");
    assert_error(&vmap(|a: &Tensor| a.inv())(&stack), "inv: matrix [1, 0] of the batch [2, 1] is singular");
    assert_error(&Tensor::zeros([2, 2]).inv(), "inv: the matrix is singular: pivot 0 vanishes");
    let triangle = Tensor::from([[1.0, 5.0], [0.0, 0.0]]);
    let b = Tensor::from([1.0, 1.0]);
    assert_error(
        &triangle.solve_triangular(&b, Triangle::upper()),
        "solve_triangular: the matrix is singular: its diagonal is zero at place 1",
    );
    assert_eq!(numbers(&triangle.solve_triangular(&b, Triangle::upper().unit())), [-4.0, 1.0]);
    // Also where only the derivative needs one.
    assert_error(&grad(|b: &Tensor| flat.solve(b).sum())(&b), "solve: the matrix is singular");
    assert_error(&grad(|a: &Tensor| a.slogdet().1)(&flat), "slogdet: the matrix is singular");
    let tall = Tensor::from([[1.0, 2.0], [1.0, 2.0], [3.0, 6.0]]);
    assert_close("qr of dependent columns", &tall.qr().0.matmul(&tall.qr().1), &tall);
    assert_error(
        &grad(|a: &Tensor| a.qr().0.square().sum())(&tall),
        "qr: the matrix is singular: its diagonal is zero at place 1",
    );
}

#[test]
fn scale_alone_makes_no_matrix_singular() {
    for scales in [[1.0, 1e-150], [1e-100, 1e100], [1e-30, 1.0]] {
        let scaled = Tensor::from([[2.0, 1.0], [1.0, 3.0]]) * Tensor::from(scales);
        let inverse = numbers(&scaled.inv());
        let expected: Vec<f64> = [0.6, -0.2, -0.2, 0.4].iter().enumerate().map(|(k, x)| x / scales[k / 2]).collect();
        let close = inverse.iter().zip(&expected).all(|(a, b)| agree(a / b, 1.0, 1.0, ROUNDINGS));
        assert!(close, "{inverse:?} is not {expected:?}");
    }
}

/// Random matrices of a rank too low are noticed however large they are.
#[test]
fn products_of_low_rank_are_singular() {
    let mut missed = 0;
    for n in [3, 10, 30] {
        for seed in 0..20 {
            let a = normal(100 + seed, &[n, n - 1]).matmul(&normal(200 + seed, &[n - 1, n]));
            missed += usize::from(a.inv().eval().is_ok());
        }
        for seed in 0..20 {
            normal(300 + seed, &[n, n]).inv().eval().unwrap_or_else(|error| panic!("a regular matrix: {error}"));
        }
    }
    assert_eq!(missed, 0);
}

#[test]
fn matrices_that_are_not_positive_definite_name_the_pivot() {
    let saddle = Tensor::from([[1.0, 2.0], [2.0, 1.0]]);
    assert_error(&saddle.cholesky(), "cholesky: the matrix is not positive definite: pivot 1 is not a positive number");
    let stack = Tensor::stack([&eye(3), &-eye(3)], 0);
    assert_error(&stack.cholesky(), "cholesky: matrix [1] of the batch [2] is not positive definite: pivot 0");
    assert_error(&Tensor::zeros([2, 2]).cholesky(), "cholesky: the matrix is not positive definite: pivot 0");
}

#[test]
fn what_is_no_matrix_is_refused() {
    let (vector, wide) = (Tensor::from([1.0, 2.0]), Tensor::zeros([2, 3]));
    assert_error(&vector.det(), "det: it needs a matrix or a stack of them, not the shape [2]\n  operands: f64[2]");
    for failed in [
        wide.det(),
        wide.slogdet().0,
        wide.logdet(),
        wide.inv(),
        wide.cholesky(),
        wide.eigh().1,
        wide.expm(),
        wide.matrix_power(2),
        wide.solve(&vector.cast(DType::F32)),
    ] {
        let error = failed.eval().expect_err("it must fail").to_string();
        assert!(error.contains("it needs square matrices, not 2 rows by 3 columns"), "{error}");
        assert!(error.contains(file!()), "{error}");
    }
    for failed in [
        vector.qr().1,
        vector.lu().2,
        vector.svd().1,
        vector.pinv(),
        vector.lstsq(&vector),
        vector.nuclear_norm(),
        vector.eigh().0,
    ] {
        let error = failed.eval().expect_err("it must fail").to_string();
        assert!(error.contains("it needs a matrix or a stack of them, not the shape [2]"), "{error}");
    }
    assert_error(&eye(3).solve(&vector), "solve: 3 equations meet a right-hand side of 2 rows");
    assert_error(&eye(3).lstsq(&vector), "lstsq: 3 equations meet a right-hand side of 2 rows");
    let stacks = (normal(1, &[2, 3, 3]), normal(1, &[4, 3, 3]));
    assert_error(&stacks.0.solve(&stacks.1), "solve: the leading axes [2] and [4] do not broadcast together");
    // A failure stays the first one.
    let failed = wide.inv();
    for later in
        [failed.det(), failed.qr().0, failed.svd().2, failed.solve(&vector), eye(2).solve(&failed), failed.eigh().0]
    {
        assert!(later.eval().expect_err("it must fail").to_string().starts_with("inv: "));
    }
}

#[test]
fn general_eigenvalues_meet_their_definition() {
    let a = normal(1, &[2, 6, 6]);
    let (values, vectors) = a.eig();
    let left = (a.matmul(&vectors.re), a.matmul(&vectors.im));
    let right = &vectors * glassgrad::operations::Complex::new(values.re.unsqueeze(-2), values.im.unsqueeze(-2));
    assert_close("real parts", &left.0, &right.re);
    assert_close("imaginary parts", &left.1, &right.im);
    assert_close("trace", &values.re.sum_over(-1), &Tensor::einsum("bii->b", [&a]));
    assert_error(&normal(1, &[2, 3]).eigvals().re, "eig: it needs square matrices, not 2 rows by 3 columns");
    // Without a basis of eigenvectors there are values, and no derivative.
    let shear = Tensor::from([[1.0, 1.0], [0.0, 1.0]]);
    assert_eq!(numbers(&shear.eigvals().re), [1.0, 1.0]);
    let slope = numbers(&grad(|a: &Tensor| a.eigvals().re.square().sum())(&shear));
    assert!(slope.iter().all(|number| number.is_nan()), "{slope:?}");
}

#[test]
fn what_is_not_finite_stays_in_its_matrix() {
    for hostile in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let bad = Tensor::from([[1.0, 0.5, 0.0], [0.5, hostile, 0.0], [0.0, 0.0, 3.0]]);
        let stack = Tensor::stack([&bad, &eye(3)], 0);
        let b = normal(1, &[3, 2]);
        let (q, r) = stack.qr();
        let (order, l, u) = stack.lu();
        let (left, singular, right) = stack.svd();
        let (values, vectors) = stack.eigh();
        let (sign, logarithm) = stack.slogdet();
        let all = [
            q,
            r,
            l,
            u,
            left,
            singular,
            right,
            values,
            vectors,
            sign,
            logarithm,
            stack.inv(),
            stack.cholesky(),
            stack.det(),
            stack.logdet(),
            stack.expm(),
            stack.pinv(),
            stack.solve(&b),
            stack.lstsq(&b),
            stack.matrix_power(-1),
            stack.nuclear_norm(),
            stack.spectral_norm(),
        ];
        for (k, result) in all.iter().enumerate() {
            let result = numbers(result);
            let (first, second) = result.split_at(result.len() / 2);
            assert!(first.iter().any(|number| number.is_nan()), "result {k}: {first:?}");
            assert!(second.iter().all(|number| number.is_finite()), "result {k}: {second:?}");
        }
        assert_eq!(order.eval().unwrap().shape().to_vec(), [2, 3]);
        let slopes = [
            grad(|a: &Tensor| a.det().sum())(&stack),
            grad(|a: &Tensor| a.svd().1.sum())(&stack),
            grad(|a: &Tensor| a.eigh().1.sum())(&stack),
            grad(|a: &Tensor| a.expm().sum())(&stack),
            grad(|a: &Tensor| a.qr().1.sum())(&stack),
            grad(|a: &Tensor| a.pinv().sum())(&stack),
        ];
        for slope in slopes {
            assert!(numbers(&slope)[..9].iter().any(|number| number.is_nan()));
        }
        // A right-hand side goes its own way, column by column.
        let b = Tensor::from([[1.0, hostile], [1.0, 1.0], [1.0, 1.0]]);
        assert_eq!(numbers(&eye(3).solve(&b).slice(&[s(..), s(0)])), [1.0; 3]);
    }
    assert!(numbers(&Tensor::from([[-1.0]]).logdet())[0].is_nan());
    let (sign, logarithm) = Tensor::from([[1.0, 2.0], [2.0, 4.0]]).slogdet();
    assert_eq!((numbers(&sign)[0], numbers(&logarithm)[0]), (0.0, f64::NEG_INFINITY));
}

#[test]
fn numbers_at_the_ends_of_their_range_do_no_harm() {
    for scale in [1e300, 1e-300, f64::MAX / 8.0] {
        let a = Tensor::from([[1.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 4.0]]) * scale;
        let (u, s, vt) = a.svd();
        let (values, vectors) = a.eigh();
        assert_near("svd", &(u * (&s / scale)).matmul(&vt), &(&a / scale), ROUNDINGS);
        assert_near("eigh", &(&vectors * (values / scale)).matmul(&vectors.transpose()), &(&a / scale), ROUNDINGS);
        let (q, r) = a.qr();
        assert_near("qr", &q.matmul(&(r / scale)), &(&a / scale), ROUNDINGS);
        // Whatever these say, they come back.
        for result in [a.det(), a.inv(), a.cholesky(), a.pinv(), a.expm(), a.lu().1, a.logdet()] {
            let _ = result.eval();
        }
    }
    let least = Tensor::full([3, 3], 5e-324, DType::F64) + eye(3) * 1e-320;
    for result in [least.svd().0, least.eigh().1, least.qr().0, least.inv(), least.det(), least.pinv(), least.expm()] {
        let _ = result.eval();
    }
    let zeros = Tensor::zeros([4, 3]);
    assert_eq!(numbers(&zeros.svd().1), [0.0; 3]);
    assert_eq!(numbers(&zeros.pinv()), [0.0; 12]);
    assert_eq!(numbers(&zeros.qr().1), [0.0; 9]);
}

#[test]
fn empty_matrices_and_batches_are_like_any_others() {
    let none = Tensor::zeros([0, 0]);
    assert_eq!(numbers(&none.det()), [1.0]);
    assert_eq!(numbers(&none.logdet()), [0.0]);
    assert!(numbers(&grad(Tensor::det)(&none)).is_empty());
    assert_eq!(numbers(&Tensor::zeros([2, 0, 0]).det()), [1.0, 1.0]);
    for shape in [vec![0, 0], vec![3, 0, 0], vec![0, 2, 2], vec![0, 3, 0, 0]] {
        let a = Tensor::zeros(shape.clone());
        for result in [
            a.inv(),
            a.cholesky(),
            a.expm(),
            a.matrix_power(3),
            a.matrix_power(0),
            a.eigh().1,
            a.solve(&a),
            a.solve_triangular(&a, Triangle::lower()),
        ] {
            assert_eq!(result.eval().unwrap().shape().to_vec(), shape);
        }
        for slope in [
            grad(|a: &Tensor| a.inv().sum())(&a),
            grad(|a: &Tensor| a.cholesky().sum())(&a),
            grad(|a: &Tensor| a.expm().sum())(&a),
            grad(|a: &Tensor| a.eigh().0.sum())(&a),
            grad(|a: &Tensor| a.svd().0.sum())(&a),
            grad(|a: &Tensor| a.det().sum())(&a),
            grad(|a: &Tensor| a.qr().0.sum())(&a),
            grad(|a: &Tensor| a.lu().1.sum())(&a),
            grad(|a: &Tensor| a.pinv().sum())(&a),
            grad(|a: &Tensor| a.nuclear_norm().sum())(&a),
        ] {
            assert_eq!(slope.eval().unwrap().shape().to_vec(), shape);
        }
    }
    for (m, n) in [(3, 0), (0, 3), (0, 0)] {
        let a = Tensor::zeros([m, n]);
        let shapes = |tensors: &[&Tensor]| -> Vec<Vec<usize>> {
            tensors.iter().map(|tensor| tensor.eval().unwrap().shape().to_vec()).collect()
        };
        let ((q, r), (order, l, u), (left, values, right)) = (a.qr(), a.lu(), a.svd());
        assert_eq!(shapes(&[&q, &r]), [[m, 0], [0, n]]);
        assert_eq!(shapes(&[&order, &l, &u]), [vec![m], vec![m, 0], vec![0, n]]);
        assert_eq!(shapes(&[&left, &values, &right]), [vec![m, 0], vec![0], vec![0, n]]);
        assert_eq!(shapes(&[&a.pinv(), &a.lstsq(&Tensor::zeros([m, 2]))]), [[n, m], [n, 2]]);
        assert_eq!(numbers(&a.nuclear_norm()), [0.0]);
        assert_eq!(numbers(&a.spectral_norm()), [0.0]);
    }
}

#[test]
fn triangles_are_read_alone() {
    let full = Tensor::from([[2.0, 3.0], [5.0, 4.0]]);
    let b = Tensor::from([[4.0], [22.0]]);
    let solved = |triangle: Triangle| numbers(&full.solve_triangular(&b, triangle));
    assert_eq!(solved(Triangle::lower()), [2.0, 3.0]);
    assert_eq!(solved(Triangle::upper()), [-6.25, 5.5]);
    assert_eq!(solved(Triangle::upper().transposed()), [2.0, 4.0]);
    assert_eq!(solved(Triangle::lower().unit()), [4.0, 2.0]);
    assert_eq!(solved(Triangle::upper().unit().transposed().transposed()), [-62.0, 22.0]);
}

/// The rows of the table in `docs/conventions.md`.
#[test]
fn the_page_of_conventions_holds() {
    let slope = |f: fn(&Tensor) -> Tensor, at: &Tensor| numbers(&grad(f)(at));
    let singular = Tensor::from([[1.0, 2.0], [2.0, 4.0]]);
    let negative = Tensor::from([[-1.0, 0.0], [0.0, 2.0]]);
    let equal = eye(2) * 2.0;
    let zero = equal.zeros_like();
    assert_eq!(slope(|a| a.det(), &singular), [4.0, -2.0, -2.0, 1.0]);
    let (sign, logarithm) = singular.slogdet();
    assert_eq!((sign.item().unwrap(), logarithm.item().unwrap()), (0.0, f64::NEG_INFINITY));
    assert!(grad(|a: &Tensor| a.slogdet().1)(&singular).eval().is_err());
    assert!(singular.logdet().eval().is_err());
    assert!(negative.logdet().item().unwrap().is_nan());
    assert_eq!(slope(|a| a.logdet(), &negative), [-1.0, 0.0, 0.0, 0.5]);
    assert_eq!(slope(|a| a.eigh().0.square().sum(), &equal), [4.0, 0.0, 0.0, 4.0]);
    assert_eq!(slope(|a| a.eigh().0.max(), &equal), [0.5, 0.0, 0.0, 0.5]);
    assert_eq!(slope(|a| a.eigh().1.abs().sum(), &equal), [0.0; 4]);
    assert_eq!(slope(|a| a.norm(), &zero), [0.0; 4]);
    assert_eq!(slope(|a| a.nuclear_norm(), &zero), [0.0; 4]);
    assert_eq!(slope(|a| a.spectral_norm(), &zero), [0.0; 4]);
    assert_eq!(slope(|a| a.spectral_norm(), &equal), [0.5, 0.0, 0.0, 0.5]);
}
