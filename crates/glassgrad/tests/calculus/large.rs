//! Systems that are large when they are dense.

use glassgrad::Tensor;
use glassgrad::calculus::{self, Structure};
use glassgrad::tree::Tree;

use crate::check::{flat, matrix};
use crate::tensors::normal;

/// How far a solution is from solving, relative to the right-hand side.
fn residual<X: Tree>(h: &calculus::Hessian<X>, solution: &X, right: &X) -> f64 {
    let (found, right) = (flat(&h.matvec(solution).unwrap()), flat(right));
    let norm = |numbers: &[f64]| numbers.iter().map(|number| number * number).sum::<f64>().sqrt();
    let difference: Vec<f64> = found.iter().zip(&right).map(|(a, b)| a - b).collect();
    norm(&difference) / norm(&right)
}

fn factorisation(t: &Tensor) -> impl Fn(&(Tensor, Tensor)) -> Tensor + '_ {
    move |(u, v): &(Tensor, Tensor)| (t - u.matmul(&v.transpose())).square().sum()
}

#[test]
fn ten_thousand_unknowns_are_one_small_matrix() {
    let (n, k) = (1000, 10);
    let (t, v) = (matrix(1, n, n), matrix(2, n, k));
    let f = |u: &Tensor| (&t - u.matmul(&v.transpose())).square().sum();
    let h = calculus::hessian(f).at(&matrix(3, n, k)).unwrap();
    assert_eq!((h.bytes(), h.dense_bytes()), (800, 800_000_000));
    assert_eq!(h.structure(), Structure::Blocks { count: 1, size: k, copies: n });
    let gradient = matrix(4, n, k);
    assert!(residual(&h, &h.solve(&gradient).unwrap(), &gradient) < 1e-13);
}

#[test]
fn joint_systems_are_solved_by_eliminating_a_leaf() {
    let (n, k) = (120, 4);
    let clean = matrix(1, n, k).matmul(&matrix(2, k, n));
    let t = (clean + matrix(3, n, n) * 0.1).detach().unwrap();
    let h = calculus::hessian(factorisation(&t)).at(&(matrix(4, n, k), matrix(5, n, k))).unwrap();
    assert!(h.bytes() < 8 * (n * n + 4 * n * k));
    let right = (matrix(6, n, k), matrix(7, n, k));
    let factored = h.factor().unwrap();
    assert_eq!(factored.describe(), "one leaf eliminated, the others as one matrix");
    assert!(residual(&h, &factored.solve(&right).unwrap(), &right) < 1e-9);
}

#[test]
fn what_does_not_fit_is_solved_by_products() {
    let t = matrix(1, 20, 20);
    let f = factorisation(&t);
    let ridge = |x: &(Tensor, Tensor)| f(x) + (x.0.square().sum() + x.1.square().sum()) * 5.0;
    let h = calculus::hessian(ridge).limit(4000).at(&(matrix(2, 20, 2), matrix(3, 20, 2))).unwrap();
    let right = (matrix(4, 20, 2), matrix(5, 20, 2));
    let factored = h.factor().unwrap();
    assert_eq!(factored.describe(), "by products with vectors");
    assert!(residual(&h, &factored.solve(&right).unwrap(), &right) < 1e-9);
    assert!(h.logdet().unwrap_err().to_string().contains("limit"));
}

#[test]
fn shifts_and_gram_matrices_keep_structure() {
    let a = matrix(1, 6, 80);
    let j = calculus::jacobian(|x: &Tensor| a.matmul(x).tanh()).at(&(normal(2, &[80]) * 0.1)).unwrap();
    let damped = j.gram().shifted(0.5);
    assert_eq!(damped.structure(), Structure::LowRank { base: Box::new(Structure::Diagonal), rank: 6 });
    let right = normal(3, &[80]);
    assert!(residual(&damped, &damped.solve(&right).unwrap(), &right) < 1e-12);
}
