//! Patterns, colorings and compressed matrices of functions of numbers and of tensors beside dense derivatives.

use glassgrad::dtype::DType;
use glassgrad::expr::s;
use glassgrad::scalar::sparse::{Coloring, Compression, Pattern};
use glassgrad::scalar::{
    Matrix, Mode, Recorded, SparseMatrix, Var, hessian, jacobian, sparse_hessian, sparse_jacobian,
};
use glassgrad::{Real, Tensor, c, calculus, hvp};

#[path = "judges/random.rs"]
mod random;
use random::Random;

/// Residuals as of a bundle adjustment: every observation depends on one camera of four numbers and one point of three.
fn observations<T: Real>(x: &[T], y: &mut [T], cameras: usize, points: usize) {
    for (number, y) in y.chunks_exact_mut(2).enumerate() {
        let camera = &x[4 * (number % cameras)..][..4];
        let point = &x[4 * cameras + 3 * ((number * 7) % points)..][..3];
        let depth = camera[3] + point[2].square() + c(2.0);
        y[0] = (camera[0] * point[0] + camera[1]).sin() / depth;
        y[1] = (camera[2] - point[1]).exp() * depth.recip();
    }
}

fn point_of(length: usize) -> Vec<f64> {
    let mut random = Random::new(7);
    (0..length).map(|_| random.within(&(0.1..0.9))).collect()
}

fn close(found: &Matrix<f64>, expected: &Matrix<f64>) {
    for (found, expected) in found.elements().iter().zip(expected.elements()) {
        assert!((found - expected).abs() <= 1e-12 * (1.0 + expected.abs()), "{found} for {expected}");
    }
}

#[test]
fn compressed_jacobians_are_the_dense_ones_in_both_modes_and_formats() {
    let (cameras, points, count) = (3, 11, 40);
    let x = point_of(4 * cameras + 3 * points);
    let dense = jacobian(|x, y| observations(x, y, cameras, points), &x, 2 * count, Mode::Reverse);
    let mut recorded = Recorded::several(|x, y| observations(x, y, cameras, points), &x, 2 * count);
    for mode in [Mode::Forward, Mode::Reverse, Mode::Auto] {
        let compression = Compression::jacobian(&recorded, mode);
        let sparse = compression.jacobian_of(&recorded);
        close(&sparse.to_dense(), &dense);
        assert_eq!(sparse.colors, compression.coloring().count());
        assert_eq!(sparse.pattern(), *compression.pattern());
        // The columns hold the same elements, rows ascending.
        let columns = sparse.to_columns();
        assert_eq!((columns.stored(), columns.columns(), columns.rows), (sparse.stored(), x.len(), 2 * count));
        for column in 0..columns.columns() {
            assert!(columns.column(column).map(|(row, _)| row).is_sorted());
            for (row, value) in columns.column(column) {
                assert_eq!(value, sparse.get(row, column));
            }
        }
    }
    // One compression serves another point.
    let compression = Compression::jacobian(&recorded, Mode::Auto);
    let other: Vec<f64> = x.iter().map(|x| 1.0 - x).collect();
    recorded.replay(&other).unwrap();
    let dense = jacobian(|x, y| observations(x, y, cameras, points), &other, 2 * count, Mode::Forward);
    close(&compression.jacobian_of(&recorded).to_dense(), &dense);
}

#[test]
fn colorings_keep_lines_of_one_color_apart() {
    let mut random = Random::new(3);
    for _ in 0..20 {
        let (rows, columns) = (30, 20);
        let row = |random: &mut Random| (0..columns).filter(|_| random.next().is_multiple_of(6)).collect::<Vec<_>>();
        let pattern = Pattern::from_rows(columns, (0..rows).map(|_| row(&mut random)));
        let [by_columns, by_rows, chosen] =
            [Mode::Forward, Mode::Reverse, Mode::Auto].map(|mode| Coloring::jacobian(&pattern, mode));
        for row in 0..rows {
            let mut colors: Vec<usize> = pattern.row(row).iter().map(|column| by_columns.color_of()[*column]).collect();
            colors.sort_unstable();
            colors.dedup();
            assert_eq!(colors.len(), pattern.row(row).len(), "two columns of one color meet in row {row}");
        }
        let transposed = pattern.transpose();
        assert_eq!(transposed.transpose(), pattern);
        for column in 0..columns {
            let mut colors: Vec<usize> = transposed.row(column).iter().map(|row| by_rows.color_of()[*row]).collect();
            colors.sort_unstable();
            colors.dedup();
            assert_eq!(colors.len(), transposed.row(column).len(), "two rows of one color meet in column {column}");
        }
        assert!(by_rows.is_by_rows() && !by_columns.is_by_rows());
        assert!(chosen.count() == by_columns.count() || chosen.count() == by_rows.count());
        // The choice is no worse than the one whose lower bound is smaller.
        let bound = |pattern: &Pattern| (0..pattern.rows()).map(|row| pattern.row(row).len()).max().unwrap();
        let first = if bound(&pattern) <= bound(&transposed) { by_columns.count() } else { by_rows.count() };
        assert!(chosen.count() <= first);
    }
}

#[test]
fn a_compression_of_a_hessian_serves_many_points() {
    fn function<T: Real>(x: &[T]) -> T {
        x.windows(3).map(|x| (x[0] * x[2]).sin() * x[1] + x[1].exp()).sum()
    }
    let x = point_of(12);
    let compression = Compression::hessian(&Recorded::new(|x| function(x), &x));
    for shift in [0.0, 0.3, -1.2] {
        let at: Vec<f64> = x.iter().map(|x| x + shift).collect();
        let sparse = compression.hessian_of(|x| function(x), &at);
        close(&sparse.to_dense(), &hessian(|x| function(x), &at));
        assert_eq!(sparse, sparse_hessian(|x| function(x), &at));
    }
}

#[test]
fn structural_zeros_are_stored_on_request_and_numerical_ones_are_dropped() {
    let sparse = sparse_jacobian(|x, y| (y[0], y[1]) = (x[0] * x[1], x[2].sin()), &[0.0, 2.0, 0.0], 2);
    assert_eq!((sparse.stored(), sparse.without_zeros().stored()), (3, 2), "d(x₀x₁)/dx₁ is zero at this point");
    assert_eq!(sparse.without_zeros().to_dense(), sparse.to_dense());
    let full = sparse.with_pattern(&sparse.pattern().union(&Pattern::from_rows(3, [vec![2], vec![0, 1, 1]])));
    assert_eq!((full.stored(), full.to_dense()), (6, sparse.to_dense()));
    assert_eq!(full.row(1).collect::<Vec<_>>(), [(0, 0.0), (1, 0.0), (2, 1.0)]);
    let lacking = std::panic::catch_unwind(|| sparse.with_pattern(&Pattern::from_rows(3, [vec![0], vec![2]])));
    assert!(lacking.is_err(), "a stored element has no place in the pattern");
    assert!(std::panic::catch_unwind(|| Pattern::from_rows(3, [vec![3]])).is_err());
}

#[test]
fn several_products_of_one_sweep_are_those_of_several_sweeps() {
    let x = point_of(4 * 2 + 3 * 5);
    let recorded = Recorded::several(|x, y| observations(x, y, 2, 5), &x, 24);
    let mut random = Random::new(11);
    let mut vectors = |length: usize| -> Vec<Vec<f64>> {
        (0..11).map(|_| (0..length).map(|_| random.within(&(-1.0..1.0))).collect()).collect()
    };
    let (directions, weights) = (vectors(x.len()), vectors(24));
    for (direction, product) in directions.iter().zip(recorded.jvps(&directions)) {
        let expected = recorded.jvp(direction);
        assert!(product.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-13 * (1.0 + b.abs())));
    }
    for (weights, product) in weights.iter().zip(recorded.vjps(&weights)) {
        let expected = recorded.vjp(weights);
        assert!(product.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-13 * (1.0 + b.abs())));
    }
    // Zeros stay silent across infinite partials, lane by lane.
    let pole = Recorded::several(|x, y| (y[0], y[1]) = (x[0].sqrt() + x[1], Var::constant(4.0)), &[0.0, 1.0], 2);
    assert_eq!(pole.jvps(&[vec![0.0, 1.0], vec![1.0, 0.0]]), [[1.0, 0.0], [f64::INFINITY, 0.0]]);
    assert_eq!(pole.vjps(&[vec![0.0, 5.0], vec![2.0, 5.0]]), [[0.0, 0.0], [f64::INFINITY, 2.0]]);
}

// ------------------------------------------------------------------ functions of tensors

/// The list of elements is the dense array. Views are factors of zeros and ones, whose zeros are stored until they are left out.
fn check_triplets(f: impl Fn(&Tensor) -> Tensor, x: &Tensor, stored: usize) {
    let j = calculus::jacobian(&f).at(x).unwrap();
    let sparse = SparseMatrix::from(&j.triplets().unwrap()).without_zeros();
    let dense: Vec<f64> = j.to_dense().unwrap().to_vec().unwrap();
    assert_eq!(sparse.to_dense().elements(), dense);
    assert_eq!(sparse.stored(), stored);
    let columns = sparse.to_columns();
    assert_eq!((columns.columns(), columns.stored()), (x.shape().elements(), stored));
}

#[test]
fn jacobians_of_tensors_are_read_without_their_zeros() {
    let x = Tensor::linspace(0.5, 3.0, 6).cast(DType::F64);
    check_triplets(|x| x.sin(), &x, 6);
    check_triplets(|x| x.slice(&[s(1..6)]) * x.slice(&[s(0..5)]), &x, 10);
    check_triplets(|x| x.reshape([2, 3]).sum_over([1]), &x, 6);
    check_triplets(|x| x * x.sum(), &x, 36);
    let indices = Tensor::from([4_i64, 0, 4]);
    check_triplets(|x| x.take(&indices, 0).square(), &x, 3);
    check_triplets(|x| x.take(&indices, 0) * x.slice(&[s(0..3)]), &x, 6);
}

#[test]
fn hessians_of_tensors_have_patterns_and_colorings() {
    let x = Tensor::linspace(0.5, 3.0, 50).cast(DType::F64);
    let chain = |x: &Tensor| (x.slice(&[s(1..50)]) - x.slice(&[s(0..49)]).square()).square().sum();
    let h = calculus::hessian(chain).at(&x).unwrap();
    let sparse = SparseMatrix::from(&h.triplets().unwrap()).without_zeros();
    assert_eq!(sparse.stored(), 50 + 2 * 49, "tridiagonal");
    assert_eq!(sparse.to_dense().elements(), h.to_dense().unwrap().to_vec::<f64>().unwrap());
    let pattern = sparse.pattern();
    let compression = Compression::new(pattern.clone(), Coloring::star(&pattern));
    assert!(compression.coloring().count() <= 3);
    let product = |seed: &Vec<f64>| hvp(chain, &x, &Tensor::new(seed, 50)).to_vec().unwrap();
    let found = compression.decompress::<f64>(&compression.seeds().iter().map(product).collect::<Vec<_>>());
    for (a, b) in found.values.iter().zip(&sparse.values) {
        assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{a} {b}");
    }
    let shifted = sparse.with_pattern(&Pattern::from_rows(50, (0..50).map(|_| (0..50).collect())));
    assert_eq!((shifted.stored(), shifted.without_zeros().stored()), (2500, sparse.without_zeros().stored()));
}

#[test]
fn derivatives_of_trees_are_one_sparse_matrix() {
    let f = |x: &Vec<Tensor>| vec![&x[0] * 2.0, &x[1] * &x[0].sum()];
    let point = vec![Tensor::from([1.0, 2.0]).cast(DType::F64), Tensor::from([3.0, 4.0, 5.0]).cast(DType::F64)];
    let sparse = SparseMatrix::from(&calculus::jacobian(f).at(&point).unwrap().triplets().unwrap());
    // 2·I in the first leaf; for the second a dense block and a diagonal.
    assert_eq!((sparse.rows(), sparse.columns, sparse.stored()), (5, 5, 2 + 6 + 3));
    assert_eq!((sparse.get(0, 0), sparse.get(2, 1), sparse.get(4, 4)), (2.0, 3.0, 3.0));
}

#[test]
fn a_list_beyond_the_limit_of_memory_is_an_error() {
    let x = Tensor::linspace(0.5, 3.0, 300).cast(DType::F64);
    let j = calculus::jacobian(|x: &Tensor| x * x.sum()).limit(100_000).at(&x).unwrap();
    let error = j.triplets().unwrap_err().to_string();
    assert!(error.contains("the list of elements takes") && error.contains(".limit(bytes)"), "{error}");
}
