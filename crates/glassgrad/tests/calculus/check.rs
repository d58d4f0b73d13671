//! The judge: everything that a structured derivative can be asked, against the dense array by products along unit
//! directions, forward over reverse.

use glassgrad::calculus::{self, Hessian, Jacobian, Mode};
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, hvp, jacobian, jvp};

use crate::ROUNDINGS;
use crate::tensors::{assert_near, normal, numbers, vector};

/// The elements of all leaves, one after another.
pub(crate) fn flat<X: Tree>(x: &X) -> Vec<f64> {
    x.flatten().iter().flat_map(numbers).collect()
}

/// The tree with these elements.
pub(crate) fn unflat<X: Tree>(like: &X, elements: &[f64]) -> X {
    let mut start = 0;
    like.map(|leaf| {
        let count = leaf.shape().elements();
        start += count;
        Tensor::new(&elements[start - count..start], leaf.shape().clone())
    })
}

/// The dense Hessian, row by row, by one product for each direction.
pub(crate) fn dense<X: Tree>(f: &dyn Fn(&X) -> Tensor, x: &X) -> Vec<f64> {
    let count = x.element_count();
    let mut matrix = vec![0.0; count * count];
    for column in 0..count {
        let mut unit = vec![0.0; count];
        unit[column] = 1.0;
        let product = flat(&hvp(f, x, &unflat(x, &unit)));
        for (row, number) in product.iter().enumerate() {
            matrix[row * count + column] = *number;
        }
    }
    matrix
}

pub(crate) fn times(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(vector.len()).map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
}

/// The logarithm of the determinant's magnitude, and the condition by pivots, by elimination.
fn elimination(matrix: &[f64], count: usize) -> (f64, f64) {
    let mut rows: Vec<Vec<f64>> = matrix.chunks_exact(count).map(<[f64]>::to_vec).collect();
    let (mut logarithm, mut smallest, mut largest) = (0.0, f64::INFINITY, 0.0_f64);
    for k in 0..count {
        let pivot = (k..count).max_by(|a, b| rows[*a][k].abs().total_cmp(&rows[*b][k].abs())).unwrap();
        rows.swap(k, pivot);
        let head = rows[k].clone();
        logarithm += head[k].abs().ln();
        smallest = smallest.min(head[k].abs());
        largest = largest.max(head[k].abs());
        for row in rows.iter_mut().skip(k + 1) {
            let factor = row[k] / head[k];
            row.iter_mut().zip(&head).for_each(|(a, b)| *a -= factor * b);
        }
    }
    (logarithm, largest / smallest)
}

/// A Hessian that was compared with the dense one in everything.
pub(crate) fn agrees<X: Tree>(what: &str, f: impl Fn(&X) -> Tensor, x: &X) -> Hessian<X> {
    let matrix = dense(&f, x);
    let count = x.element_count();
    for mode in [Mode::Forward, Mode::Reverse, Mode::Joined] {
        let found = calculus::hessian(&f).mode(mode).at(x).unwrap_or_else(|error| panic!("{what}, {mode}: {error}"));
        assert_near(&format!("{what}, {mode}"), &numbers(&found.to_dense().unwrap()), &matrix, ROUNDINGS);
    }
    let h = calculus::hessian(&f).at(x).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_near(&format!("{what}, dense"), &numbers(&h.to_dense().unwrap()), &matrix, ROUNDINGS);
    let direction = x.random_like(Key::new(7));
    let product = times(&matrix, &flat(&direction));
    assert_near(&format!("{what}, matvec"), &flat(&h.matvec(&direction).unwrap()), &product, ROUNDINGS);
    assert_near(&format!("{what}, rmatvec"), &flat(&h.rmatvec(&direction).unwrap()), &product, ROUNDINGS);
    let diagonal: Vec<f64> = (0..count).map(|k| matrix[k * count + k]).collect();
    assert_near(&format!("{what}, diag"), &flat(&h.diag().unwrap()), &diagonal, ROUNDINGS);
    let trace: f64 = diagonal.iter().sum();
    assert_near(&format!("{what}, trace"), &[h.trace().unwrap()], &[trace], ROUNDINGS * count as f64);
    let (logarithm, condition) = elimination(&matrix, count);
    if condition < 1e6 {
        let solution = h.solve(&unflat(x, &product)).unwrap_or_else(|error| panic!("{what}, solve: {error}"));
        assert_near(&format!("{what}, solve"), &flat(&solution), &flat(&direction), ROUNDINGS * condition);
        let found = h.logdet().unwrap();
        assert!(
            found.is_nan() || (found - logarithm).abs() < 1e-9 * (1.0 + logarithm.abs()),
            "{what}: {found} {logarithm}"
        );
    } else {
        eprintln!("{what}: pivots differ by {condition:e}, not solved");
    }
    h
}

/// A Jacobian that was compared with the dense one by nested differentiation, in every mode, and with itself by the adjoint
/// identity.
pub(crate) fn agrees_as_jacobian(what: &str, f: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> Jacobian<Tensor, Tensor> {
    let expected = numbers(&jacobian(&f)(x));
    for mode in [Mode::Forward, Mode::Reverse, Mode::Joined, Mode::CrossCountry] {
        let j = calculus::jacobian(&f).mode(mode).at(x).unwrap_or_else(|error| panic!("{what}, {mode}: {error}"));
        assert_near(&format!("{what}, {mode}"), &numbers(&j.to_dense().unwrap()), &expected, ROUNDINGS);
    }
    let j = calculus::jacobian(&f).at(x).unwrap();
    let (v, w) = (x.random_like(Key::new(8)), f(x).random_like(Key::new(9)));
    let forward = j.matvec(&v).unwrap().inner(&w).item().unwrap();
    let reverse = j.rmatvec(&w).unwrap().inner(&v).item().unwrap();
    let size = expected.iter().fold(1.0, |size: f64, number| size.max(number.abs())) * expected.len() as f64;
    assert!((forward - reverse).abs() < ROUNDINGS * f64::EPSILON * size, "{what}: {forward} is not {reverse}");
    let (_, product) = jvp(&f, x, &v);
    assert_near(&format!("{what}, matvec"), &numbers(&j.matvec(&v).unwrap()), &numbers(&product), ROUNDINGS);
    j
}

pub(crate) fn matrix(seed: u64, rows: usize, columns: usize) -> Tensor {
    normal(seed, &[rows, columns])
}

#[cfg(feature = "linalg")]
pub(crate) fn positive(seed: u64, size: usize) -> Tensor {
    let root = matrix(seed, size, size);
    (root.matmul(&root.transpose()) / size as f64 + Tensor::eye(size).cast(root.dtype())).detach().unwrap()
}

pub(crate) fn signs(seed: u64, count: usize) -> Tensor {
    vector(&numbers(&normal(seed, &[count])).iter().map(|number| number.signum()).collect::<Vec<_>>())
}
