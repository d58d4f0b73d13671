//! The functions of one matrix in Rust and C, by elimination with pivots.

use super::Language;
use crate::lang::matrix::Function;

/// The name of a function in the code.
pub(super) fn name(function: Function) -> &'static str {
    match function {
        Function::Inverse => "inverse",
        Function::Determinant => "determinant",
        _ => "log_determinant",
    }
}

/// The functions that are used, each once.
pub(super) fn written(language: Language, used: &[Function]) -> String {
    let mut code = String::new();
    let logarithm = used.contains(&Function::LogDeterminant);
    for function in [Function::Inverse, Function::Determinant, Function::LogDeterminant] {
        // The logarithm is that of the determinant, which is computed with it.
        if used.contains(&function) {
            code += match (language, function) {
                (Language::C, Function::Inverse) => C_INVERSE,
                (Language::C, Function::Determinant) => C_DETERMINANT,
                (Language::C, _) => C_LOG_DETERMINANT,
                (_, Function::Inverse) => RUST_INVERSE,
                (_, Function::Determinant) => RUST_DETERMINANT,
                _ => RUST_LOG_DETERMINANT,
            };
        }
    }
    let needs_pivots = logarithm || used.contains(&Function::Determinant);
    match (needs_pivots, language) {
        (false, _) => code,
        (true, Language::C) => C_PIVOTS.to_owned() + &code,
        (true, _) => RUST_PIVOTS.to_owned() + &code,
    }
}

const RUST_INVERSE: &str = "
/// The inverse of an n by n matrix, by elimination with the largest pivot of each column.
fn inverse(n: usize, matrix: &[f64]) -> Vec<f64> {
    let mut left = matrix.to_vec();
    let mut right = vec![0.0; n * n];
    for i in 0..n {
        right[i * n + i] = 1.0;
    }
    for k in 0..n {
        let mut pivot = k;
        for i in k + 1..n {
            if left[i * n + k].abs() > left[pivot * n + k].abs() {
                pivot = i;
            }
        }
        for j in 0..n {
            left.swap(k * n + j, pivot * n + j);
            right.swap(k * n + j, pivot * n + j);
        }
        let scale = 1.0 / left[k * n + k];
        for j in 0..n {
            left[k * n + j] *= scale;
            right[k * n + j] *= scale;
        }
        for i in (0..n).filter(|i| *i != k) {
            let factor = left[i * n + k];
            for j in 0..n {
                left[i * n + j] -= factor * left[k * n + j];
                right[i * n + j] -= factor * right[k * n + j];
            }
        }
    }
    right
}
";

const RUST_PIVOTS: &str = "
/// The sign of the permutation and the pivots of an n by n matrix: its determinant is their product.
fn pivots(n: usize, matrix: &[f64]) -> (f64, Vec<f64>) {
    let mut left = matrix.to_vec();
    let mut sign = 1.0;
    for k in 0..n {
        let mut pivot = k;
        for i in k + 1..n {
            if left[i * n + k].abs() > left[pivot * n + k].abs() {
                pivot = i;
            }
        }
        if pivot != k {
            sign = -sign;
            for j in 0..n {
                left.swap(k * n + j, pivot * n + j);
            }
        }
        for i in k + 1..n {
            let factor = if left[k * n + k] == 0.0 { 0.0 } else { left[i * n + k] / left[k * n + k] };
            for j in k..n {
                left[i * n + j] -= factor * left[k * n + j];
            }
        }
    }
    (sign, (0..n).map(|k| left[k * n + k]).collect())
}
";

const RUST_DETERMINANT: &str = "
/// The determinant of an n by n matrix.
fn determinant(n: usize, matrix: &[f64]) -> f64 {
    let (sign, pivots) = pivots(n, matrix);
    sign * pivots.iter().product::<f64>()
}
";

const RUST_LOG_DETERMINANT: &str = "
/// The logarithm of the determinant of an n by n matrix, NaN if that is negative.
fn log_determinant(n: usize, matrix: &[f64]) -> f64 {
    let (sign, pivots) = pivots(n, matrix);
    let sign = pivots.iter().fold(sign, |sign, pivot| sign * pivot.signum());
    sign.ln() + pivots.iter().map(|pivot| pivot.abs().ln()).sum::<f64>()
}
";

const C_INVERSE: &str = "
/* The inverse of an n by n matrix, by elimination with the largest pivot of each column. */
static void inverse(size_t n, const double *matrix, double *right) {
    double *left = malloc(n * n * sizeof(double));
    for (size_t i = 0; i < n * n; ++i) {
        left[i] = matrix[i];
        right[i] = i % (n + 1) == 0 ? 1.0 : 0.0;
    }
    for (size_t k = 0; k < n; ++k) {
        size_t pivot = k;
        for (size_t i = k + 1; i < n; ++i) {
            if (fabs(left[i * n + k]) > fabs(left[pivot * n + k])) pivot = i;
        }
        for (size_t j = 0; j < n; ++j) {
            double one = left[k * n + j], other = right[k * n + j];
            left[k * n + j] = left[pivot * n + j];
            left[pivot * n + j] = one;
            right[k * n + j] = right[pivot * n + j];
            right[pivot * n + j] = other;
        }
        double scale = 1.0 / left[k * n + k];
        for (size_t j = 0; j < n; ++j) {
            left[k * n + j] *= scale;
            right[k * n + j] *= scale;
        }
        for (size_t i = 0; i < n; ++i) {
            if (i == k) continue;
            double factor = left[i * n + k];
            for (size_t j = 0; j < n; ++j) {
                left[i * n + j] -= factor * left[k * n + j];
                right[i * n + j] -= factor * right[k * n + j];
            }
        }
    }
    free(left);
}
";

const C_PIVOTS: &str = "
/* Leaves the pivots of an n by n matrix on its diagonal, and returns the sign of the permutation. */
static double pivots(size_t n, double *left) {
    double sign = 1.0;
    for (size_t k = 0; k < n; ++k) {
        size_t pivot = k;
        for (size_t i = k + 1; i < n; ++i) {
            if (fabs(left[i * n + k]) > fabs(left[pivot * n + k])) pivot = i;
        }
        if (pivot != k) {
            sign = -sign;
            for (size_t j = 0; j < n; ++j) {
                double one = left[k * n + j];
                left[k * n + j] = left[pivot * n + j];
                left[pivot * n + j] = one;
            }
        }
        for (size_t i = k + 1; i < n; ++i) {
            double factor = left[k * n + k] == 0.0 ? 0.0 : left[i * n + k] / left[k * n + k];
            for (size_t j = k; j < n; ++j) left[i * n + j] -= factor * left[k * n + j];
        }
    }
    return sign;
}
";

const C_DETERMINANT: &str = "
/* The determinant of an n by n matrix. */
static double determinant(size_t n, const double *matrix) {
    double *left = malloc(n * n * sizeof(double));
    for (size_t i = 0; i < n * n; ++i) left[i] = matrix[i];
    double product = pivots(n, left);
    for (size_t k = 0; k < n; ++k) product *= left[k * n + k];
    free(left);
    return product;
}
";

const C_LOG_DETERMINANT: &str = "
/* The logarithm of the determinant of an n by n matrix, NaN if that is negative. */
static double log_determinant(size_t n, const double *matrix) {
    double *left = malloc(n * n * sizeof(double));
    for (size_t i = 0; i < n * n; ++i) left[i] = matrix[i];
    double sign = pivots(n, left), sum = 0.0;
    for (size_t k = 0; k < n; ++k) {
        if (left[k * n + k] < 0.0) sign = -sign;
        sum += log(fabs(left[k * n + k]));
    }
    free(left);
    return log(sign) + sum;
}
";
