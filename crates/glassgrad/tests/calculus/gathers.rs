//! Derivatives that are sparse because arrays of integers pick what a result reads.

use glassgrad::Tensor;
use glassgrad::calculus::{self, Mode, Structure};
use glassgrad::expr::s;
use glassgrad::tree::Tree;

use crate::ROUNDINGS;
use crate::check::{agrees, agrees_as_jacobian, dense, flat, matrix, times};
use crate::tensors::{assert_near, numbers};

/// Numbers below `size` that jump about, the same for the same seed.
fn indices(seed: i64, count: usize, size: usize) -> Tensor {
    Tensor::from((0..count as i64).map(|k| (k * k + seed * k + 3 * seed) % size as i64).collect::<Vec<_>>())
}

/// Where cameras with a turn about one axis, a shift and a length see points: two numbers for each sight.
fn seen(cameras: &Tensor, points: &Tensor, of_camera: &Tensor, of_point: &Tensor) -> Tensor {
    let (camera, point) = (cameras.take(of_camera, 0), points.take(of_point, 0));
    let column = |table: &Tensor, k: isize| table.slice(&[s(..), s(k)]);
    let (x, y, z) = (column(&point, 0), column(&point, 1), column(&point, 2));
    let (cosine, sine) = (column(&camera, 0).cos(), column(&camera, 0).sin());
    let turned_x = &cosine * &x - &sine * &y + column(&camera, 1);
    let turned_y = &sine * &x + &cosine * &y + column(&camera, 2);
    let depth = (z + column(&camera, 3)).exp();
    Tensor::stack([&(turned_x / &depth), &(turned_y / &depth)], 1)
}

#[test]
fn jacobians_of_gathers_agree_with_dense_ones() {
    let (x, picked) = (matrix(1, 5, 3), indices(1, 9, 5));
    let weights = matrix(2, 3, 4);
    let j = agrees_as_jacobian("a gather", |x: &Tensor| x.take(&picked, 0), &x);
    assert_eq!(j.bytes(), 8 * 9, "{j}");
    let j = agrees_as_jacobian("a layer behind", |x: &Tensor| x.take(&picked, 0).matmul(&weights).tanh(), &x);
    assert!(j.bytes() <= 8 * (9 + 9 * 3 * 4), "{j}");
    agrees_as_jacobian("a function before", |x: &Tensor| x.exp().take(&picked, 0).sin(), &x);
    agrees_as_jacobian("along the last axis", |x: &Tensor| x.take(&indices(1, 4, 3), 1).square(), &x);
    let table = indices(2, 6, 5).reshape([2, 3]);
    agrees_as_jacobian("by a matrix of integers", |x: &Tensor| x.take(&table, 0).sum_over(1).square(), &x);
    let again = indices(3, 7, 9);
    agrees_as_jacobian("a gather of a gather", |x: &Tensor| x.take(&picked, 0).sin().take(&again, 0), &x);
    let (from, to) = (indices(1, 8, 5), indices(2, 8, 5));
    let edges = |x: &Tensor| (x.take(&from, 0) - x.take(&to, 0)).sin() * x.take(&to, 0);
    agrees_as_jacobian("two ends of edges", edges, &x);
    agrees_as_jacobian("a scatter", |x: &Tensor| x.square().scatter_add(&indices(1, 5, 4), 0, 4).sin(), &x);
    agrees_as_jacobian("square", |x: &Tensor| x.take(&indices(1, 5, 5), 0).sin(), &x);
    agrees_as_jacobian("sums over all", |x: &Tensor| x.take(&picked, 0).sum_over(0) * x.take(&picked, 0), &x);
}

#[test]
fn hessians_of_gathers_agree_with_dense_ones() {
    let (of_camera, of_point) = (indices(1, 17, 3), indices(2, 17, 6));
    let target = matrix(3, 17, 2);
    let half = |(cameras, points): &(Tensor, Tensor)| {
        (seen(cameras, points, &of_camera, &of_point) - &target).square().sum()
            + (cameras.square().sum() + points.square().sum()) * 10.0
    };
    let point = ((matrix(4, 3, 4) * 0.3).detach().unwrap(), (matrix(5, 6, 3) * 0.3).detach().unwrap());
    let h = agrees("bundle", half, &point);
    // Cameras meet points alone, so that both have a block for each.
    let Structure::Leaves(blocks) = h.structure() else { panic!("{h}") };
    assert_eq!(blocks[0][0], Structure::Blocks { count: 3, size: 4, copies: 1 });
    assert_eq!(blocks[1][1], Structure::Blocks { count: 6, size: 3, copies: 1 });
    let (from, to) = (indices(1, 8, 5), indices(2, 8, 5));
    let springs = |x: &Tensor| {
        ((x.take(&from, 0) - x.take(&to, 0)).square().sum_over(1) - 1.0).square().sum() + x.square().sum() * 9.0
    };
    let h = agrees("springs", springs, &matrix(6, 5, 2));
    assert!(matches!(h.structure(), Structure::Sparse { .. }), "{h}");
}

#[test]
fn normal_equations_have_blocks() {
    let (of_camera, of_point) = (indices(1, 17, 3), indices(2, 17, 6));
    let residuals = |(cameras, points): &(Tensor, Tensor)| seen(cameras, points, &of_camera, &of_point);
    let point = ((matrix(4, 3, 4) * 0.3).detach().unwrap(), (matrix(5, 6, 3) * 0.3).detach().unwrap());
    for mode in [Mode::Forward, Mode::Reverse, Mode::Joined, Mode::CrossCountry] {
        let j = calculus::jacobian(residuals).mode(mode).at(&point).unwrap();
        let (gram, dense) = (j.gram(), numbers(&j.to_dense().unwrap()));
        let columns = point.element_count();
        let expected: Vec<f64> = (0..columns * columns)
            .map(|k| {
                (0..dense.len() / columns)
                    .map(|row| dense[row * columns + k / columns] * dense[row * columns + k % columns])
                    .sum()
            })
            .collect();
        assert_near("gram", &numbers(&gram.to_dense().unwrap()), &expected, ROUNDINGS);
        let diagonal: Vec<f64> = (0..columns).map(|k| expected[k * columns + k]).collect();
        assert_near("diagonal", &flat(&gram.diag().unwrap()), &diagonal, ROUNDINGS);
        assert_near("trace", &[gram.trace().unwrap()], &[diagonal.iter().sum()], ROUNDINGS * columns as f64);
        assert_near("product", &flat(&gram.matvec(&point).unwrap()), &times(&expected, &flat(&point)), ROUNDINGS);
        let Structure::Leaves(blocks) = gram.shifted(1.0).structure() else { panic!("{gram}") };
        assert_eq!(blocks[1][1], Structure::Blocks { count: 6, size: 3, copies: 1 }, "{mode}");
    }
}

/// A problem with as many sights as there are points, eight times.
fn large(cameras: usize, points: usize) -> (Tensor, Tensor, (Tensor, Tensor)) {
    let sights = 8 * points;
    let of_point = Tensor::from((0..sights).map(|k| (k / 8) as i64).collect::<Vec<_>>());
    let of_camera = Tensor::from((0..sights).map(|k| ((k * 7 + k / 8) % cameras) as i64).collect::<Vec<_>>());
    let point = ((matrix(4, cameras, 4) * 0.3).detach().unwrap(), (matrix(5, points, 3) * 0.3).detach().unwrap());
    (of_camera, of_point, point)
}

#[test]
fn what_is_held_grows_with_the_residuals() {
    let held = |points: usize| {
        let (of_camera, of_point, point) = large(40, points);
        let residuals = |(cameras, points): &(Tensor, Tensor)| seen(cameras, points, &of_camera, &of_point);
        let j = calculus::jacobian(residuals).at(&point).unwrap();
        // Two rows for each sight, by four numbers of a camera and three of a point, and two integers.
        assert!(j.bytes() <= 8 * 8 * points * (2 * (4 + 3) + 2), "{j}");
        j.bytes()
    };
    assert_eq!(held(2000), 2 * held(1000));
}

#[test]
fn damped_steps_of_large_problems_are_solved_without_a_matrix() {
    let (of_camera, of_point, point) = large(200, 2000);
    // Some cameras are known, which ties them in another way than what they see.
    let residuals = |(cameras, points): &(Tensor, Tensor)| {
        (seen(cameras, points, &of_camera, &of_point), cameras.slice(&[s(..2)]) * 10.0)
    };
    let normal = calculus::jacobian(residuals).at(&point).unwrap().gram().shifted(1e-2);
    let factored = normal.factor().unwrap();
    assert_eq!(factored.describe(), "one leaf eliminated block by block, the others by products with vectors");
    let right = (matrix(6, 200, 4), matrix(7, 2000, 3));
    let back = flat(&normal.matvec(&factored.solve(&right).unwrap()).unwrap());
    let size = flat(&right).iter().map(|b| b * b).sum::<f64>().sqrt();
    let left = back.iter().zip(flat(&right)).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    assert!(left < 1e-9 * size, "{left} of {size}");
}

#[test]
fn dense_hessians_are_the_oracle_of_colliding_indices() {
    // One table read by two arrays of integers that share entries, inside of one product.
    let (from, to) = (indices(4, 6, 4), indices(5, 6, 4));
    let f = |x: &Tensor| (x.take(&from, 0) * x.take(&to, 0)).sum_over(1).powi(3).sum();
    let x = matrix(8, 4, 2);
    let h = calculus::hessian(f).at(&x).unwrap();
    assert_near("dense", &numbers(&h.to_dense().unwrap()), &dense(&f, &x), ROUNDINGS);
}
