//! Each factorisation against its definition, at sizes around those of blocks, and for matrices that are singular, graded,
//! repeated, huge or tiny. Bounds are multiples of n·ε, times the norm of the matrix.

use crate::*;

/// Numbers from -1 to 1 that repeat with the seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    fn matrix(&mut self, rows: usize, columns: usize) -> Matrix {
        Matrix::from_fn(rows, columns, |_, _| self.next())
    }

    fn symmetric(&mut self, n: usize) -> Matrix {
        let a = self.matrix(n, n);
        Matrix::from_fn(n, n, |i, j| 0.5 * (a[(i, j)] + a[(j, i)]))
    }
}

const SIZES: [usize; 14] = [0, 1, 2, 3, 5, 8, 17, 31, 32, 33, 64, 65, 100, 150];

/// The bound on errors for matrices whose larger side is n and whose norm is not above `norm`.
fn bound(n: usize, norm: f64) -> f64 {
    20.0 * n as f64 * f64::EPSILON * norm
}

/// The largest difference between two matrices, by the definition of the product.
fn distance(a: &Matrix, b: &Matrix) -> f64 {
    a.zip_with(b, |a, b| a - b).max_norm()
}

fn scaled(a: &Matrix, factor: f64) -> Matrix {
    Matrix::from_fn(a.rows(), a.columns(), |i, j| a[(i, j)] * factor)
}

fn assert_orthonormal(q: &Matrix) {
    let products = q.transposed().product(q);
    let error = distance(&products, &Matrix::identity(q.columns(), q.columns()));
    assert!(error <= bound(q.rows(), 1.0), "{error} at {} by {}", q.rows(), q.columns());
}

fn diagonal(values: &[f64]) -> Matrix {
    Matrix::from_fn(values.len(), values.len(), |i, j| if i == j { values[i] } else { 0.0 })
}

#[test]
fn products_follow_their_definition() {
    let mut numbers = Numbers(1);
    for (m, k, n) in [(0, 3, 2), (3, 0, 2), (1, 1, 1), (7, 5, 3), (33, 65, 40), (130, 20, 9)] {
        let (a, b) = (numbers.matrix(m, k), numbers.matrix(k, n));
        let expected = Matrix::from_fn(m, n, |i, j| (0..k).map(|p| a[(i, p)] * b[(p, j)]).sum());
        assert!(distance(&a.product(&b), &expected) <= bound(k.max(1), 1.0));
    }
}

/// p·a = l·u with |l| ≤ 1, for every shape.
fn check_lu(a: &Matrix) {
    let (m, n) = (a.rows(), a.columns());
    let lu = Lu::of(a);
    let k = m.min(n);
    let l = Matrix::from_fn(m, k, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Greater => lu.compact()[(i, j)],
        std::cmp::Ordering::Equal => 1.0,
        std::cmp::Ordering::Less => 0.0,
    });
    let u = Matrix::from_fn(k, n, |i, j| if i <= j { lu.compact()[(i, j)] } else { 0.0 });
    let permuted = Matrix::from_fn(m, n, |i, j| a[(lu.row_order()[i], j)]);
    assert!(l.max_norm() <= 1.0);
    let error = distance(&l.product(&u), &permuted);
    assert!(error <= bound(m.max(n), a.max_norm()), "{error} at {m} by {n}");
    // The order is as even or odd as the number of transpositions.
    let order = lu.row_order();
    let inversions = (0..m).flat_map(|i| (0..i).map(move |j| (i, j))).filter(|(i, j)| order[*j] > order[*i]).count();
    assert_eq!(inversions % 2, lu.transpositions() % 2);
}

#[test]
fn lu_multiplies_to_the_matrix() {
    let mut numbers = Numbers(2);
    for m in SIZES {
        for n in [m, m / 2, m + 20] {
            check_lu(&numbers.matrix(m, n));
        }
        // Singular: of low rank, and zero.
        check_lu(&numbers.matrix(m, 3).product(&numbers.matrix(3, m)));
        check_lu(&Matrix::zeros(m, m));
    }
    let zero = Lu::of(&Matrix::zeros(3, 3));
    assert!(zero.compact().elements().iter().all(|element| *element == 0.0));
}

#[test]
fn systems_are_solved() {
    let mut numbers = Numbers(3);
    for n in SIZES {
        for columns in [0, 1, 2, 40] {
            // A dominant diagonal keeps the condition number small.
            let a = Matrix::from_fn(n, n, |i, j| numbers.next() + if i == j { n as f64 } else { 0.0 });
            let x = numbers.matrix(n, columns);
            assert!(distance(&Lu::of(&a).solve(&a.product(&x)), &x) <= bound(n, 1.0));
        }
    }
}

#[test]
fn triangular_systems_read_only_their_triangle() {
    let mut numbers = Numbers(4);
    for n in SIZES {
        for (number, columns) in (0..8).flat_map(|number| [(number, 1), (number, 3), (number, 50)]) {
            let [upper, transposed, unit] = [1, 2, 4].map(|bit| number & bit != 0);
            let is_read = |i: usize, j: usize| if upper { i < j } else { j < i };
            let t = Matrix::from_fn(n, n, |i, j| match i == j {
                true if unit => f64::NAN,
                true => n as f64,
                false if is_read(i, j) => numbers.next() / (n as f64).sqrt(),
                false => f64::NAN,
            });
            let dense = Matrix::from_fn(n, n, |i, j| match i == j {
                true if unit => 1.0,
                false if !is_read(i, j) => 0.0,
                _ => t[(i, j)],
            });
            let dense = if transposed { dense.transposed() } else { dense };
            let b = numbers.matrix(n, columns);
            let mut x = b.clone();
            solve_triangular(&t, Triangle { upper, transposed, unit }, &mut x);
            let error = distance(&dense.product(&x), &b);
            assert!(error <= bound(n, x.max_norm() * (n as f64).max(1.0)), "{error} at {n}, {columns} columns");
        }
    }
}

#[test]
fn cholesky_multiplies_to_the_matrix() {
    let mut numbers = Numbers(5);
    for n in SIZES {
        let a = numbers.matrix(n, n);
        let products = a.product(&a.transposed());
        let positive = products.zip_with(&Matrix::identity(n, n), |a, one| a + one);
        // The upper triangle is not read.
        let l = cholesky(&Matrix::from_fn(n, n, |i, j| if j <= i { positive[(i, j)] } else { f64::NAN })).unwrap();
        assert!((0..n).all(|i| l.row(i)[i + 1..].iter().all(|above| *above == 0.0)));
        assert!(distance(&l.product(&l.transposed()), &positive) <= bound(n, n as f64));
        // The first pivot that is not positive is named, also behind the first block.
        for place in [0, n / 2, n.saturating_sub(1)].into_iter().filter(|place| *place < n) {
            let mut broken = positive.clone();
            broken[(place, place)] = -1.0;
            assert_eq!(cholesky(&broken), Err(place));
            broken[(place, place)] = f64::NAN;
            assert_eq!(cholesky(&broken), Err(place));
        }
    }
}

#[test]
fn orthonormal_columns_span_the_matrix() {
    let mut numbers = Numbers(6);
    for m in SIZES {
        for n in [m, m / 2, m / 7] {
            for scale in [1.0, 1e-300, 1e300] {
                let a = scaled(&numbers.matrix(m, n), scale);
                let q = orthonormal_columns(&a);
                assert_orthonormal(&q);
                let r = q.transposed().product(&scaled(&a, 1.0 / scale));
                assert!((0..n).all(|i| r[(i, i)] >= 0.0));
                assert!((0..n).all(|i| r.row(i)[..i].iter().all(|below| below.abs() <= bound(m, 1.0) * m as f64)));
                assert!(distance(&q.product(&r), &scaled(&a, 1.0 / scale)) <= bound(m, 2.0));
            }
        }
    }
    // Columns of any scale, dependent columns, and zeros.
    let a = Matrix::from_fn(6, 4, |i, j| numbers.next() * [1e-200, 1.0, 1e-20, 1e-3][j] * f64::from(i != 9));
    assert_orthonormal(&orthonormal_columns(&a));
    assert_orthonormal(&orthonormal_columns(&Matrix::full(40, 35, 1.0)));
    assert_orthonormal(&orthonormal_columns(&Matrix::zeros(40, 35)));
}

fn check_eigen(a: &Matrix) {
    let n = a.rows();
    let (values, vectors) = symmetric_eigen(a).unwrap();
    assert_orthonormal(&vectors);
    assert!(values.windows(2).all(|pair| pair[0] <= pair[1]));
    let (unit, size) = (a.max_norm().max(f64::MIN_POSITIVE), a.max_norm());
    let a = scaled(a, 1.0 / unit);
    let values: Vec<f64> = values.iter().map(|value| value / unit).collect();
    let error = distance(&a.product(&vectors), &vectors.product(&diagonal(&values)));
    assert!(error <= bound(n, (n as f64).sqrt()), "{error} at {n}, norm {size}");
}

#[test]
fn eigenvectors_are_multiplied_by_eigenvalues() {
    let mut numbers = Numbers(7);
    for n in SIZES {
        for scale in [1.0, 1e-300, 1e300] {
            check_eigen(&scaled(&numbers.symmetric(n), scale));
        }
        check_eigen(&Matrix::identity(n, n));
        check_eigen(&Matrix::zeros(n, n));
        check_eigen(&Matrix::full(n, n, 1.0));
        // Graded both ways, and eigenvalues that come in clusters.
        for sign in [1.0, -1.0] {
            let grade = |k: usize| 10.0_f64.powf(sign * k as f64 * 12.0 / n as f64);
            let a = numbers.symmetric(n);
            check_eigen(&Matrix::from_fn(n, n, |i, j| a[(i, j)] * grade(i) * grade(j)));
        }
        let q = orthonormal_columns(&numbers.matrix(n, n));
        let clustered: Vec<f64> = (0..n).map(|k| (k % 3) as f64 + 1e-14 * k as f64).collect();
        let a = q.product(&diagonal(&clustered)).product(&q.transposed());
        check_eigen(&Matrix::from_fn(n, n, |i, j| 0.5 * (a[(i, j)] + a[(j, i)])));
    }
}

#[test]
fn known_eigenvalues_are_found() {
    // The second difference has 2 - 2·cos(k·π/(n + 1)); Wilkinson's matrix has pairs that agree to all digits.
    for n in [1, 2, 7, 64, 121] {
        let a = Matrix::from_fn(n, n, |i, j| match i.abs_diff(j) {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        });
        let (values, _) = symmetric_eigen(&a).unwrap();
        for (k, value) in values.iter().enumerate() {
            let expected = 2.0 - 2.0 * ((k + 1) as f64 * std::f64::consts::PI / (n + 1) as f64).cos();
            assert!((value - expected).abs() <= bound(n, 1.0), "{value}, not {expected}");
        }
    }
    let wilkinson = Matrix::from_fn(21, 21, |i, j| match i.abs_diff(j) {
        0 => (i as f64 - 10.0).abs(),
        1 => 1.0,
        _ => 0.0,
    });
    check_eigen(&wilkinson);
    let largest = symmetric_eigen(&wilkinson).unwrap().0[20];
    assert!((largest - 10.746_194_182_903_393).abs() < 1e-13, "{largest}");
}

fn check_svd(a: &Matrix) {
    let (m, n) = (a.rows(), a.columns());
    let Svd { u, s, v } = Svd::of(a).unwrap();
    assert_eq!((u.rows(), u.columns(), s.len(), v.rows(), v.columns()), (m, m.min(n), m.min(n), n, m.min(n)));
    assert_orthonormal(&u);
    assert_orthonormal(&v);
    assert!(s.windows(2).all(|pair| pair[0] >= pair[1]) && s.iter().all(|s| *s >= 0.0));
    let unit = a.max_norm().max(f64::MIN_POSITIVE);
    let s: Vec<f64> = s.iter().map(|s| s / unit).collect();
    let error = distance(&u.product(&diagonal(&s)).product(&v.transposed()), &scaled(a, 1.0 / unit));
    assert!(error <= bound(m.max(n), (m.max(n) as f64).sqrt()), "{error} at {m} by {n}");
}

#[test]
fn singular_vectors_and_values_multiply_to_the_matrix() {
    let mut numbers = Numbers(8);
    for m in SIZES {
        for n in [m, m / 2, m + 9] {
            for scale in [1.0, 1e-300, 1e300] {
                check_svd(&scaled(&numbers.matrix(m, n), scale));
            }
            check_svd(&Matrix::zeros(m, n));
            check_svd(&Matrix::full(m, n, -1.0));
            check_svd(&Matrix::identity(m, n));
            check_svd(&numbers.matrix(m, 3).product(&numbers.matrix(3, n)));
            for sign in [1.0, -1.0] {
                let grade = |k: usize| 10.0_f64.powf(sign * k as f64 * 12.0 / m.max(n) as f64);
                let a = numbers.matrix(m, n);
                check_svd(&Matrix::from_fn(m, n, |i, j| a[(i, j)] * grade(i) * grade(j)));
            }
        }
    }
}

#[test]
fn small_singular_values_of_bidiagonal_matrices_are_accurate() {
    // Kahan: the singular values of an upper bidiagonal matrix are determined to high relative accuracy. The determinant is
    // their product.
    let d = [1.0, 1e-5, 1e-9, 1e-4, 1e-12];
    let a = Matrix::from_fn(5, 5, |i, j| match j.wrapping_sub(i) {
        0 => d[i],
        1 => 0.5 * d[i],
        _ => 0.0,
    });
    let s = Svd::of(&a).unwrap().s;
    let (product, expected): (f64, f64) = (s.iter().product(), d.iter().product());
    assert!((product / expected - 1.0).abs() < 1e-13, "{product}, not {expected}: {s:?}");
}

#[test]
fn the_pseudoinverse_leaves_out_what_vanishes() {
    let mut numbers = Numbers(9);
    for (m, n, rank) in [(7, 5, 3), (5, 7, 5), (40, 40, 11), (3, 3, 0)] {
        let a = numbers.matrix(m, rank).product(&numbers.matrix(rank, n));
        let p = Svd::of(&a).unwrap().pseudoinverse(f64::EPSILON * m.max(n) as f64 * 4.0);
        let norm = p.max_norm().max(1.0) * rank.max(1) as f64;
        assert!(distance(&a.product(&p).product(&a), &a) <= bound(40, norm * norm));
        assert!(distance(&p.product(&a).product(&p), &p) <= bound(40, norm * norm));
    }
}

#[test]
fn what_is_not_finite_ends() {
    let mut a = Numbers(10).symmetric(20);
    a[(3, 5)] = f64::NAN;
    a[(5, 3)] = f64::NAN;
    assert_eq!(symmetric_eigen(&a).err(), Some(NoConvergence));
    assert_eq!(Svd::of(&a).err(), Some(NoConvergence));
}

/// The factors of the real Schur form, and a·v = v·λ for the vectors.
fn assert_general_eigen(a: &Matrix, conditioned: f64) {
    let n = a.rows();
    let norm = a.max_norm() * (n as f64).sqrt().max(1.0);
    let form = Schur::of(a).expect("it converges");
    assert_orthonormal(&form.z);
    let product = form.z.product(&form.t).product(&form.z.transposed());
    assert!(distance(&product, a) <= bound(n, norm), "{} {}", distance(&product, a), bound(n, norm));
    for i in 0..n {
        for j in 0..i {
            let is_beside = j + 1 == i && (j == 0 || form.t[(j, j - 1)] == 0.0);
            assert!(form.t[(i, j)] == 0.0 || is_beside, "row {i} and column {j} of {n}");
        }
    }
    let GeneralEigen { values, re, im } = general_eigen(a).expect("it converges");
    for (k, (value_re, value_im)) in values.iter().enumerate() {
        let (re, im): (Vec<f64>, Vec<f64>) = (re.column(k).collect(), im.column(k).collect());
        let length: f64 = re.iter().zip(&im).map(|(re, im)| re * re + im * im).sum();
        assert!((length - 1.0).abs() < bound(n, 1.0));
        for i in 0..n {
            let row = |v: &[f64]| -> f64 { (0..n).map(|j| a[(i, j)] * v[j]).sum() };
            let error =
                (row(&re) - value_re * re[i] + value_im * im[i]).hypot(row(&im) - value_re * im[i] - value_im * re[i]);
            assert!(error <= conditioned * bound(n, norm), "{error} of {} in value {k} of {n}", bound(n, norm));
        }
    }
    assert!(values.is_sorted_by(|a, b| a.0 <= b.0));
}

#[test]
fn general_eigenvalues_and_vectors_meet_their_definition() {
    let mut numbers = Numbers(11);
    for n in SIZES {
        let a = numbers.matrix(n, n);
        assert_general_eigen(&a, 1.0);
        assert_general_eigen(&scaled(&a, 1e150), 1.0);
        assert_general_eigen(&scaled(&a, 1e-150), 1.0);
        assert_general_eigen(&numbers.symmetric(n), 1.0);
    }
    // Permutations, whose values lie on a circle, nilpotent and triangular matrices, and repeated pairs.
    assert_general_eigen(&Matrix::from_fn(7, 7, |i, j| f64::from(u8::from((i + 1) % 7 == j))), 1.0);
    assert_general_eigen(&Matrix::from_fn(5, 5, |i, j| f64::from(u8::from(i + 1 == j))), 1.0);
    assert_general_eigen(&Matrix::from_fn(6, 6, |i, j| if j >= i { (i + 2 * j) as f64 } else { 0.0 }), 1.0);
    assert_general_eigen(&Matrix::zeros(4, 4), 1.0);
    let turn = [[0.0, -1.0], [1.0, 0.0]];
    assert_general_eigen(&Matrix::from_fn(4, 4, |i, j| if i / 2 == j / 2 { turn[i % 2][j % 2] } else { 0.0 }), 1.0);
    assert_eq!(general_eigen(&Matrix::full(2, 2, f64::NAN)).unwrap_err(), NoConvergence);
    // A pair is conjugate to the bit.
    let GeneralEigen { values, re, im } = general_eigen(&numbers.matrix(9, 9)).expect("it converges");
    for k in 0..8 {
        if values[k].1 > 0.0 {
            assert_eq!(values[k + 1], (values[k].0, -values[k].1));
            assert!(re.column(k).eq(re.column(k + 1)) && im.column(k).eq(im.column(k + 1).map(|im| -im)));
        }
    }
}
