//! Numbers from outside: sixty-digit arithmetic, and what three other engines agree on.
//!
//! `tests/golden` holds the cases by name. A name that this file does not know fails the test, so a
//! case that is added there cannot be passed over; everything in the files is checked, nothing is
//! skipped.

#[path = "judges/golden.rs"]
mod golden;
#[path = "judges/modes.rs"]
mod modes;

use std::f64::consts::{E, PI};
use std::io::Write;

use glassgrad::Real;
use glassgrad::ops::{Algebra, Relation};
use glassgrad::scalar::{Dual, Matrix, derivatives};
use golden::{CONVENTIONS, assert_all_close, cases, convention, name, numbers};
use modes::{Function, hessians, jacobians, values};

/// Says what was checked also where the harness keeps quiet about tests that pass.
macro_rules! report {
    ($($text:tt)*) => { writeln!(std::io::stderr(), $($text)*).expect("standard error is open") };
}

// ------------------------------------------------------------------ functions of one number

#[inline(never)]
fn scalar_case<T: Real>(name: &str, x: T) -> T {
    let c = T::literal;
    match name {
        "neg" => -x,
        "exp" => x.exp(),
        "exp2" => x.exp2(),
        "expm1" => x.expm1(),
        "log" => x.ln(),
        "log2" => x.log2(),
        "log10" => x.log10(),
        "log1p" => x.log1p(),
        "sqrt" => x.sqrt(),
        "cbrt" => x.cbrt(),
        "rsqrt" => x.rsqrt(),
        "square" => x.square(),
        "pow3" => x.powi(3),
        "pow2.5" => x.powf(2.5),
        "pow-1.5" => x.powf(-1.5),
        "xpowx" => x.pow(x),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.tan(),
        "acos" => x.acos(),
        "atan" => x.atan(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "tanh" => x.tanh(),
        "asinh" => x.asinh(),
        "atanh" => x.atanh(),
        "erf" => x.erf(),
        "erfc" => x.erfc(),
        "lgamma" => x.lgamma(),
        "digamma" => x.digamma(),
        "sigmoid" => x.sigmoid(),
        "log_sigmoid" => x.log_sigmoid(),
        "softplus" => x.softplus(),
        "silu" => x.silu(),
        "gelu_erf" => x.gelu(),
        "gelu_tanh" => x.gelu_tanh(),
        "mish" => x.mish(),
        "elu_pos" => x.elu(1.0),
        "softsign" => x.softsign(),
        "difftests_num2num_2 2x+sqrt(x^3)" => c(2.0) * x + (x * x * x).sqrt(),
        "difftests_num2num_3 10.31^(x+x)-x" => c(10.31).pow(x + x) - x,
        "difftests_num2num_5 1/(1+exp(-x))" => c(1.0) / (c(1.0) + (-x).exp()),
        "tower exp(sin(exp(cos x)))" => x.cos().exp().sin().exp(),
        _ => panic!("no function is written for the case {name:?}"),
    }
}

#[test]
fn scalar_functions_match_sixty_digits_to_fourth_order() {
    let cases = cases(include_str!("golden/scalar.json"));
    for case in &cases {
        let (name, x) = (name(case), case["x"].as_f64().expect("a point"));
        let exact = numbers(&case["d_f64"]);
        let series = derivatives(|x| scalar_case(name, x), x, 4);
        let y = scalar_case(name, Dual::variable(Dual::variable(Dual::variable(Dual::variable(x)))));
        let (first, second) = (y.tangent(), y.tangent().tangent());
        let (third, fourth) = (second.tangent(), second.tangent().tangent());
        let nested = [y.value.value.value.value, first.value.value.value, second.value.value, third.value, fourth];
        for (mode, found) in [("series", &series[..]), ("nested duals", &nested[..])] {
            let what = format!("{name} at {x} by {mode}");
            assert_all_close(&what, &found[..=2], &exact[..=2], 1e-9);
            assert_all_close(&what, &found[3..], &exact[3..], 1e-7);
        }
    }
    report!("{} cases of one number, to fourth order, in two modes; none skipped", cases.len());
}

// ------------------------------------------------------------------ functions of several numbers

/// A matrix of three rows from nine numbers.
fn matrix<T: Real>(x: &[T]) -> Matrix<T> {
    Matrix::from_fn(3, 3, |i, j| x[3 * i + j])
}

/// Gauss-Jordan elimination without pivots, which the matrices of the cases do not need: the
/// solution X of A X = B, and the determinant of A.
fn eliminate<T: Real>(a: &Matrix<T>, b: &Matrix<T>) -> (Matrix<T>, T) {
    let (mut a, mut b, n) = (a.clone(), b.clone(), a.rows());
    let mut determinant = T::literal(1.0);
    for pivot in 0..n {
        let diagonal = a[(pivot, pivot)];
        determinant *= diagonal;
        for j in 0..n {
            a[(pivot, j)] /= diagonal;
            b[(pivot, j)] /= diagonal;
        }
        for i in (0..n).filter(|i| *i != pivot) {
            let factor = a[(i, pivot)];
            for j in 0..n {
                let (from_a, from_b) = (a[(pivot, j)], b[(pivot, j)]);
                a[(i, j)] -= factor * from_a;
                b[(i, j)] -= factor * from_b;
            }
        }
    }
    (b, determinant)
}

fn identity<T: Real>(n: usize) -> Matrix<T> {
    Matrix::from_fn(n, n, |i, j| T::literal(if i == j { 1.0 } else { 0.0 }))
}

/// The logarithm of the determinant of a positive definite matrix, by Cholesky's factor.
fn log_determinant<T: Real>(a: &Matrix<T>) -> T {
    let n = a.rows();
    let mut l = Matrix::zeros(n, n);
    for i in 0..n {
        for j in 0..=i {
            let rest = a[(i, j)] - (0..j).map(|k| l[(i, k)] * l[(j, k)]).sum::<T>();
            l[(i, j)] = if i == j { rest.sqrt() } else { rest / l[(j, j)] };
        }
    }
    (0..n).map(|i| T::literal(2.0) * l[(i, i)].ln()).sum()
}

fn variance<T: Real>(x: &[T]) -> T {
    let n = T::literal(x.len() as f64);
    let mean = x.iter().copied().sum::<T>() / n;
    x.iter().map(|x| (*x - mean).square()).sum::<T>() / n
}

fn ackley<T: Real>(x: &[T]) -> T {
    let c = T::literal;
    let n = c(x.len() as f64);
    let squares = x.iter().map(|x| x.square()).sum::<T>() / n;
    let waves = x.iter().map(|x| (c(2.0 * PI) * *x).cos()).sum::<T>() / n;
    c(-20.0) * (c(-0.2) * squares.sqrt()).exp() - waves.exp() + c(20.0) + c(E)
}

fn micrograd_sanity_check<T: Real>(x: T) -> T {
    let c = T::literal;
    let z = c(2.0) * x + c(2.0) + x;
    let q = z.relu() + z * x;
    let h = (z * z).relu();
    h + q + q * x
}

// `c += c + 1` is how micrograd's test is written: it must double c, and not merely step it.
#[allow(clippy::misrefactored_assign_op)]
fn micrograd_more_ops<T: Real>(a: T, b: T) -> T {
    let one = T::literal(1.0);
    let mut c = a + b;
    let mut d = a * b + b.powi(3);
    c += c + one;
    c += one + c + (-a);
    d += d * T::literal(2.0) + (b + a).relu();
    d += T::literal(3.0) * d + (b - a).relu();
    let e = c - d;
    let f = e.powi(2);
    let mut g = f / T::literal(2.0);
    g += T::literal(10.0) / f;
    g
}

fn log_sum_exp<T: Real>(x: &[T]) -> T {
    // The shift cancels, so it may be a constant; it keeps the exponentials in range.
    let shift = T::literal(x.iter().map(|x| x.primal()).fold(f64::NEG_INFINITY, f64::max));
    shift + x.iter().map(|x| (*x - shift).exp()).sum::<T>().ln()
}

/// The numbers in ascending order; equal ones keep theirs.
fn sorted<T: Real>(x: &[T]) -> Vec<T> {
    let mut sorted = x.to_vec();
    sorted.sort_by(|a, b| a.primal().total_cmp(&b.primal()));
    sorted
}

fn running_products<T: Real>(x: &[T]) -> Vec<T> {
    let mut product = T::literal(1.0);
    x.iter()
        .map(|x| {
            product *= *x;
            product
        })
        .collect()
}

fn brown_almost_linear<T: Real>(x: &[T]) -> Vec<T> {
    let n = x.len();
    let shifted = x.iter().copied().sum::<T>() - T::literal(n as f64 + 1.0);
    let row: T = x[..n - 1].iter().map(|x| *x + shifted).sum();
    let last = x.iter().copied().product::<T>() - T::literal(1.0);
    (0..n - 1).map(|_| row).chain([last]).collect()
}

/// A case of several numbers, with the constant matrix that one of them has.
struct Multivariate<'c> {
    name: &'c str,
    constant: Vec<f64>,
}

impl Multivariate<'_> {
    #[inline(never)]
    fn results<T: Real>(&self, x: &[T]) -> Option<Vec<T>> {
        let c = T::literal;
        let sum_of = |f: fn(T) -> T| x.iter().map(|x| f(*x)).sum::<T>();
        let single = match self.name {
            "micrograd test_sanity_check" => micrograd_sanity_check(x[0]),
            "micrograd test_more_ops" => micrograd_more_ops(x[0], x[1]),
            "Baydin 2018 Table 2/3 ln(x1)+x1*x2-sin(x2)" => x[0].ln() + x[0] * x[1] - x[1].sin(),
            "micrograd lecture neuron tanh(x1*w1+x2*w2+b)" => (x[0] * x[2] + x[1] * x[3] + x[4]).tanh(),
            "DiffTests vec2num_2 x1*x2+sin(x1)" => x[0] * x[1] + x[0].sin(),
            "DiffTests vec2num_5 sum((-x)^3)" => sum_of(|x| (-x).powi(3)),
            "DiffTests vec2num_6 sum(relu)" => sum_of(Algebra::relu),
            "DiffTests vec2num_7 sum(x1*x)" => x.iter().map(|each| x[0] * *each).sum(),
            "DiffTests ackley" => ackley(x),
            "DiffTests nested_array_mul x1*(x2+x3)" => x[0] * (x[1] + x[2]),
            "DiffTests var" => variance(x),
            "DiffTests std" => variance(x).sqrt(),
            "DiffTests di arr_to_num sum_ij x_i^4 x_j^6" => sum_of(|x| x.powi(4)) * sum_of(|x| x.powi(6)),
            "DiffTests helmholtz-like speelpenning prod" => x.iter().map(|x| x.sin()).product(),
            "DiffTests det" => eliminate(&matrix(x), &identity(3)).1,
            "DiffTests mat2num_1 det(x11*inv(x*x)+x)" => {
                let (a, one) = (matrix(x), identity(3));
                let inverse = eliminate(&a.matmul(&a), &one).0;
                eliminate(&(&inverse.map(|element| x[0] * element) + &a), &one).1
            }
            "DiffTests mat2num_3 sum(sqrt(|n|+n^2)*0.5)" => {
                x.iter().map(|n| (n.abs() + n.square()).sqrt() * c(0.5)).sum()
            }
            "DiffTests mat2num_4 mean(sum(sin(x)*x,dims=2))" => {
                matrix(x).map(Algebra::sin).matmul(&matrix(x)).sum() / c(3.0)
            }
            "DiffTests logdet_chol(A A^T)" => log_determinant(&matrix(x).matmul(&matrix(x).transpose())),
            "DiffTests frobenius(A@A@A)" => {
                let a = matrix(x);
                a.matmul(&a).matmul(&a).map(Algebra::square).sum()
            }
            _ => return self.several_results(x),
        };
        Some(vec![single])
    }

    fn several_results<T: Real>(&self, x: &[T]) -> Option<Vec<T>> {
        Some(match self.name {
            "array brown_almost_linear" => brown_almost_linear(x),
            "array inv" => eliminate(&matrix(x), &identity(3)).0.elements().to_vec(),
            "array cumprod" => running_products(x),
            "array log_softmax" => {
                let norm = log_sum_exp(x);
                x.iter().map(|x| *x - norm).collect()
            }
            "array sort" => sorted(x),
            "array solve(A,B) wrt A" => {
                let b = Matrix::from_fn(3, 3, |i, j| T::literal(self.constant[3 * i + j]));
                eliminate(&matrix(x), &b).0.elements().to_vec()
            }
            _ => return None,
        })
    }
}

impl Function for Multivariate<'_> {
    fn at<T: Real>(&self, x: &[T]) -> Vec<T> {
        self.results(x).unwrap_or_else(|| panic!("no function is written for the case {:?}", self.name))
    }
}

#[test]
fn functions_of_several_numbers_match_three_other_engines() {
    let cases = cases(include_str!("golden/multivar.json"));
    for case in &cases {
        let f = Multivariate { name: name(case), constant: numbers(&case["B"]) };
        let x = numbers(&case["x"]);
        assert_all_close(f.name, &values(&f, &x), &numbers(&case["value"]), 1e-9);
        // A gradient is a Jacobian with one row.
        let jacobian = if case["jac"].is_null() { &case["grad"] } else { &case["jac"] };
        for (mode, found) in jacobians(&f, &x) {
            let what = format!("the gradient of {} by {mode}", f.name);
            assert_all_close(&what, found.elements(), &numbers(jacobian), 1e-9);
        }
        if !case["hess"].is_null() {
            for (mode, found) in hessians(&f, &x) {
                let what = format!("the Hessian of {} by {mode}", f.name);
                assert_all_close(&what, found.elements(), &numbers(&case["hess"]), 1e-9);
            }
        }
    }
    report!("{} cases of several numbers, Jacobians in six modes, Hessians in four; none skipped", cases.len());
}

// ------------------------------------------------------------------ conventions

struct Convention<'c>(&'c str);

impl Convention<'_> {
    /// The cases that apply a function to each number and add up.
    fn of_each<T: Real>(&self, x: T) -> Option<T> {
        let c = T::literal;
        Some(match self.0 {
            "relu" => x.relu(),
            "maximum(x,0)" => Algebra::max(x, c(0.0)),
            "abs" => x.abs(),
            "sqrt" => x.sqrt(),
            "x**0.5" => x.pow(c(0.5)),
            "x**2" => x.pow(c(2.0)),
            "x**0" => x.pow(c(0.0)),
            "x**1" => x.pow(c(1.0)),
            "0**y" => c(0.0).pow(x),
            "sign" => x.sign(),
            "floor" => x.floor(),
            "clip(x,-1,1)" | "hard_tanh" => x.clip(-1.0, 1.0),
            "relu6" => x.clip(0.0, 6.0),
            "where(x>0,log x,0) (NaN trap)" => T::choose(x, Relation::Greater, c(0.0), x.ln(), c(0.0)),
            "where(x>0,sqrt x,0)" => T::choose(x, Relation::Greater, c(0.0), x.sqrt(), c(0.0)),
            "softplus extremes" => x.softplus(),
            "sigmoid extremes" => x.sigmoid(),
            "tanh extremes" => x.tanh(),
            "sinc" => x.sinc(),
            "atan2(y,0) wrt y" => x.atan2(c(0.0)),
            "mod(x,2)" => Algebra::rem(x, c(2.0)),
            "mod(7.5,y) wrt y" => Algebra::rem(c(7.5), x),
            "leaky_relu(0.01)" => x.leaky_relu(0.01),
            "elu" => x.elu(1.0),
            _ => return None,
        })
    }

    fn of_all<T: Real>(&self, x: &[T]) -> Option<T> {
        Some(match self.0 {
            "max(vector) ties" | "amax ties" => x.iter().copied().reduce(Algebra::max)?,
            "min ties" => x.iter().copied().reduce(Algebra::min)?,
            "median even" => {
                let sorted = sorted(x);
                (sorted[x.len() / 2 - 1] + sorted[x.len() / 2]) / T::literal(2.0)
            }
            "sort().head(2) ties" => sorted(x)[..2].iter().copied().sum(),
            "prod with one zero" | "prod with two zeros" => x.iter().copied().product(),
            "cumprod with zero" => running_products(x).into_iter().sum(),
            "norm2 at 0" | "norm2" => x[0].hypot(x[1]),
            "logsumexp big" | "logsumexp -inf,-inf" => log_sum_exp(x),
            "log(softmax(x))[0] naive" => (x[0].exp() / x.iter().map(|x| x.exp()).sum::<T>()).ln(),
            "log_softmax[1]" => x[1] - log_sum_exp(x),
            _ => return None,
        })
    }
}

impl Function for Convention<'_> {
    #[inline(never)]
    fn at<T: Real>(&self, x: &[T]) -> Vec<T> {
        let each = || x.iter().map(|x| self.of_each(*x)).sum::<Option<T>>();
        let y = self.of_all(x).or_else(each);
        vec![y.unwrap_or_else(|| panic!("no function is written for the convention {:?}", self.0))]
    }
}

#[test]
fn the_conventions_are_those_of_the_design_in_every_mode() {
    let cases = cases(include_str!("golden/conventions.json"));
    assert_eq!(cases.len(), CONVENTIONS.len(), "one convention for every case");
    // Some results are roundings of the literal; a convention is otherwise met exactly.
    let tolerance = 4.0 * f64::EPSILON;
    for case in &cases {
        let (f, x) = (Convention(name(case)), numbers(&case["x"]));
        let (gradient, curvature) = convention(f.0);
        for (mode, found) in jacobians(&f, &x) {
            assert_all_close(&format!("{} at {x:?} by {mode}", f.0), found.elements(), gradient, tolerance);
        }
        for (mode, found) in hessians(&f, &x) {
            let what = format!("the Hessian of {} at {x:?} by {mode}", f.0);
            match curvature.hessian(x.len()) {
                Some(stated) => assert_all_close(&what, found.elements(), &stated, tolerance),
                None => assert!(found.elements().iter().all(|element| !element.is_finite()), "{what}: {found}"),
            }
        }
    }
    report!("{} conventions, gradients in six modes, Hessians in four; none skipped", cases.len());
}
