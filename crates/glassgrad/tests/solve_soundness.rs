//! `solve` and `logdet` of structured derivatives: right within the condition number of the system, or an error.

use glassgrad::calculus::{Hessian, hessian, jacobian};
use glassgrad::tree::Tree;
use glassgrad::{Tensor, dtype::DType, rng::Key};

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(seed), shape).cast(DType::F64)
}

fn numbers(x: &impl Tree) -> Vec<f64> {
    x.flatten().iter().flat_map(|leaf| leaf.cast(DType::F64).to_vec::<f64>().unwrap()).collect()
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// ‖b − H x‖ relative to ‖H‖‖x‖ + ‖b‖, with the dense matrix.
fn residual<X: Tree>(h: &Hessian<X>, x: &X, b: &X) -> f64 {
    let dense = numbers(&h.to_dense().unwrap());
    let (x, b) = (numbers(x), numbers(b));
    let rest: Vec<f64> = (0..b.len())
        .map(|row| b[row] - (0..x.len()).map(|column| dense[row * x.len() + column] * x[column]).sum::<f64>())
        .collect();
    norm(&rest) / (norm(&dense) * norm(&x) + norm(&b))
}

/// The logarithm of the determinant of a positive definite matrix, by Cholesky's method.
fn log_determinant(mut matrix: Vec<f64>, size: usize) -> f64 {
    let mut sum = 0.0;
    for k in 0..size {
        let pivot = matrix[k * size + k];
        sum += pivot.ln();
        for i in k + 1..size {
            let factor = matrix[i * size + k] / pivot;
            (k..size).for_each(|j| matrix[i * size + j] -= factor * matrix[k * size + j]);
        }
    }
    sum
}

#[test]
fn a_base_that_cancels_against_its_correction_is_solved_densely() {
    let w = Tensor::from([1e-18, 1.0, 1.0, 1.0]);
    let f = |x: &Tensor| (&w * x.square()).sum() * 0.5 + x.sum().square() * 0.5;
    let h = hessian(f).at(&Tensor::from([0.0, 0.0, 0.0, 0.0])).unwrap();
    let found = numbers(&h.solve(&Tensor::from([1.0, 2.0, 3.0, 4.0])).unwrap());
    for (found, expected) in found.iter().zip([-5.0, 1.0, 2.0, 3.0]) {
        assert!((found - expected).abs() < 1e-13, "{found} {expected}");
    }
    // The determinant is w₁w₂w₃w₄·(1 + Σ 1/wᵢ) = 1 + 4·10⁻¹⁸.
    assert!(h.logdet().unwrap().abs() < 1e-13);
}

#[test]
fn the_singular_hessian_of_logsumexp_is_an_error_at_every_size_and_spread() {
    let mut solved = Vec::new();
    for size in [1, 2, 3, 4, 5, 8, 13, 30, 77] {
        for (number, spread) in [0.0, 1e-3, 1.0, 3.0, 10.0, 30.0, 100.0].into_iter().enumerate() {
            for seed in 0..4 {
                let x = normal(100 * seed + number as u64, &[size]) * spread;
                let h = hessian(|x: &Tensor| x.logsumexp()).at(&x).unwrap();
                // The right-hand side is orthogonal to the null space, so that there are solutions, but no single one.
                let b = normal(seed + 7, &[size]);
                let b = &b - b.mean();
                for (name, right) in [("any", normal(seed, &[size])), ("consistent", b)] {
                    match h.solve(&right) {
                        Err(error) => assert!(error.to_string().contains("singular"), "{error}"),
                        Ok(_) => solved.push((size, spread, seed, name, h.structure().to_string())),
                    }
                }
                if let Ok(found) = h.logdet() {
                    solved.push((size, spread, seed, "logdet", format!("{found}")));
                }
            }
        }
    }
    assert!(solved.is_empty(), "{} were solved: {solved:#?}", solved.len());
}

#[test]
fn a_singular_block_in_a_regular_system_is_solved_with_a_small_residual() {
    let f = |(t, x): &(Tensor, Tensor)| t * x.logsumexp();
    for size in [2, 3, 5, 9, 20] {
        for spread in [1e-2, 1.0, 5.0, 12.0] {
            for seed in 0..6 {
                let x = normal(seed, &[size]) * spread;
                let point = (Tensor::from(1.5 + seed as f64), x);
                let h = hessian(f).at(&point).unwrap();
                let b = (normal(seed + 50, &[]), normal(seed + 60, &[size]));
                match h.solve(&b) {
                    Ok(x) => {
                        let left = residual(&h, &x, &b);
                        assert!(left < 1e-13, "size {size}, spread {spread}, seed {seed}: residual {left:.1e}");
                    }
                    // With large spreads probabilities are so small that the system is singular in double precision.
                    Err(error) => assert!(spread > 4.0, "size {size}, spread {spread}: {error}"),
                }
            }
        }
    }
}

#[test]
fn logdet_is_that_of_the_dense_matrix_or_an_error() {
    for seed in 0..20 {
        let (w, v) = (normal(seed, &[6]) * 8.0, normal(seed + 99, &[6, 2]));
        let f = |x: &Tensor| (w.exp() * x.square()).sum() * 0.5 + v.transpose().matmul(x).square().sum() * 0.5;
        let h = hessian(f).at(&Tensor::zeros(6).cast(DType::F64)).unwrap();
        let expected = log_determinant(numbers(&h.to_dense().unwrap()), 6);
        let found = h.logdet().unwrap();
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} {expected}");
    }
}

#[test]
fn axes_of_extent_one_and_none_are_solved() {
    for [a, i, j] in [[1, 2, 2], [2, 1, 2], [2, 2, 1], [1, 1, 1], [4, 1, 4], [4, 4, 1], [4, 2, 2], [1, 4, 1], [5, 2, 2]]
    {
        let w = normal(3, &[a, i, j]);
        let f = |x: &Tensor| Tensor::einsum("aij,ij->a", [&w, &x.reshape([i, j])]).square().sum() + x.square().sum();
        let x = normal(5, &[i * j]);
        let h = hessian(f).at(&x).unwrap();
        let b = normal(6, &[i * j]);
        let found = h.solve(&b).unwrap();
        assert!(residual(&h, &found, &b) < 1e-13, "{a} {i} {j}");
        let direct = |x: &Tensor| Tensor::einsum("aij,ij->a", [&w, x]).square().sum();
        let h = hessian(direct).at(&normal(5, &[i, j])).unwrap();
        let b = normal(6, &[i, j]);
        match h.solve(&b) {
            Ok(found) => assert!(a >= i * j && residual(&h, &found, &b) < 1e-12, "{a} {i} {j}"),
            Err(error) => assert!(a < i * j && error.to_string().contains("singular"), "{a} {i} {j}: {error}"),
        }
    }
}

#[test]
fn the_shapes_of_a_sum_of_squares_with_extents_of_one() {
    for a in [1, 2, 3, 4] {
        for [i, j] in [[2, 2], [1, 4], [4, 1]] {
            let w = normal(3, &[a, i, j]);
            let f = |x: &Tensor| Tensor::einsum("aij,ij->a", [&w, &x.reshape([i, j])]).square().sum();
            let (x, b) = (normal(5, &[4]), normal(6, &[4]));
            let h = hessian(f).at(&x).unwrap();
            match h.solve(&b) {
                Ok(found) => assert!(a == 4 && residual(&h, &found, &b) < 1e-12, "{a} {i} {j}"),
                Err(error) => assert!(a < 4 && error.to_string().contains("singular"), "{a} {i} {j}: {error}"),
            }
            let h = hessian(f).at(&normal(5, &[2, 1, 2])).unwrap();
            assert_eq!(h.solve(&normal(6, &[2, 1, 2])).is_ok(), a == 4);
        }
    }
}

#[test]
fn empty_leaves_take_no_part() {
    let f = |(x, y): &(Tensor, Tensor)| x.exp().sum() + y.square().sum() + x.sum().square();
    let point = (Tensor::from([0.0, 1.0]), Tensor::zeros(0).cast(DType::F64));
    let h = hessian(f).at(&point).unwrap();
    let b = (Tensor::from([1.0, 2.0]), Tensor::zeros(0).cast(DType::F64));
    let found = h.solve(&b).unwrap();
    assert!(residual(&h, &found, &b) < 1e-14);
    assert!(h.logdet().unwrap().is_finite());
    let unused = hessian(|(x, _): &(Tensor, Tensor)| x.exp().sum()).at(&point).unwrap();
    let found = unused.solve(&b).unwrap();
    assert!(residual(&unused, &found, &b) < 1e-14);
    let nothing = hessian(|x: &Tensor| x.square().sum()).at(&Tensor::zeros([0, 3])).unwrap();
    assert_eq!(nothing.logdet().unwrap(), 0.0);
    assert_eq!(nothing.solve(&Tensor::zeros([0, 3])).unwrap().shape().to_vec(), [0, 3]);
    assert_eq!(nothing.to_dense().unwrap().shape().to_vec(), [0, 3, 0, 3]);
    let square = jacobian(|x: &Tensor| x.square()).at(&Tensor::zeros([2, 0])).unwrap();
    assert_eq!(square.solve(&Tensor::zeros([2, 0])).unwrap().shape().to_vec(), [2, 0]);
}

#[test]
fn a_matrix_that_is_not_finite_is_no_singular_one() {
    let f = |(a, x): &(Tensor, Tensor)| a.square().sum() + (x.square() * x).sum();
    let point = (Tensor::from([1.0]), Tensor::from([1.0, f64::NAN, 2.0]));
    let h = hessian(f).at(&point).unwrap();
    for error in [h.solve(&point).unwrap_err(), h.logdet().unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("row 1[1] and column 1[1] it is NaN") && !text.contains("singular"), "{text}");
    }
    let regular = hessian(|x: &Tensor| x.square().sum()).at(&Tensor::from([1.0, 2.0])).unwrap();
    let text = regular.solve(&Tensor::from([1.0, f64::INFINITY])).unwrap_err().to_string();
    assert!(text.contains("the right-hand side is not finite: [1] is inf"), "{text}");
}

#[test]
fn trees_of_several_types_multiply_as_their_dense_matrix_does() {
    let f = |(a, x): &(Tensor, Tensor)| {
        (a.cast(DType::F64) * x).sum().exp() + x.powi(3).sum() + a.square().sum().cast(DType::F64)
    };
    let point = (normal(1, &[3]).cast(DType::F32), normal(2, &[3]));
    let h = hessian(f).at(&point).unwrap();
    let v = (normal(3, &[3]).cast(DType::F32), normal(4, &[3]));
    let dense = numbers(&h.to_dense().unwrap());
    let expected: Vec<f64> =
        (0..6).map(|row| numbers(&v).iter().enumerate().map(|(k, v)| dense[row * 6 + k] * v).sum()).collect();
    for found in [h.matvec(&v).unwrap(), h.rmatvec(&v).unwrap()] {
        assert_eq!((found.0.dtype(), found.1.dtype()), (DType::F32, DType::F64));
        for (a, b) in numbers(&found).iter().zip(&expected) {
            assert!((a - b).abs() < 1e-5 * (1.0 + b.abs()), "{a} {b}");
        }
    }
    assert!((h.trace().unwrap() - (0..6).map(|k| dense[7 * k]).sum::<f64>()).abs() < 1e-5);
    let diagonal = numbers(&h.diag().unwrap());
    assert!((0..6).all(|k| (diagonal[k] - dense[7 * k]).abs() < 1e-5 * (1.0 + dense[7 * k].abs())));
    assert!(residual(&h, &h.solve(&v).unwrap(), &v) < 1e-6);
}
