//! Derivatives from values alone: central differences with Richardson's extrapolation.

/// The largest step. It is below every margin that the tests keep from kinks and poles.
pub(crate) const LARGEST_STEP: f64 = 1.0 / 32.0;
/// How often the step is halved: truncation and rounding meet within this range for every row.
const HALVINGS: i32 = 8;

/// The limit of a difference quotient at step 0, if its error is a series in the squared step.
///
/// Neville's scheme removes one power after the other. Of all estimates in the triangle the one with
/// the smallest error is taken: what the last improvement changed, and what rounding numbers of this
/// size contributes to a quotient of this order.
fn extrapolated(order: i32, size: f64, quotient: impl Fn(f64) -> f64) -> f64 {
    let mut previous: Vec<f64> = Vec::new();
    let (mut best, mut smallest) = (f64::NAN, f64::INFINITY);
    for level in 0..HALVINGS {
        let step = LARGEST_STEP / 2f64.powi(level);
        let rounding = f64::EPSILON * size / step.powi(order);
        let mut row = vec![quotient(step)];
        for (column, coarse) in previous.iter().enumerate() {
            let factor = 4f64.powi(column as i32 + 1);
            let fine = row[column];
            let improved = fine + (fine - coarse) / (factor - 1.0);
            let error = (improved - fine).abs() + rounding;
            if error <= smallest {
                (best, smallest) = (improved, error);
            }
            row.push(improved);
        }
        previous = row;
    }
    best
}

fn moved(x: &[f64], steps: &[(usize, f64)]) -> Vec<f64> {
    let mut moved = x.to_vec();
    for (place, step) in steps {
        moved[*place] += step;
    }
    moved
}

/// The partial derivative in one argument.
pub(crate) fn partial(f: impl Fn(&[f64]) -> f64, x: &[f64], i: usize) -> f64 {
    extrapolated(1, f(x).abs().max(1.0), |h| (f(&moved(x, &[(i, h)])) - f(&moved(x, &[(i, -h)]))) / (2.0 * h))
}

/// The second partial derivative in two arguments, which may be one.
pub(crate) fn second_partial(f: impl Fn(&[f64]) -> f64, x: &[f64], i: usize, j: usize) -> f64 {
    extrapolated(2, f(x).abs().max(1.0), |h| {
        if i == j {
            return ((f(&moved(x, &[(i, h)])) - f(x)) - (f(x) - f(&moved(x, &[(i, -h)])))) / (h * h);
        }
        let corner = |a: f64, b: f64| f(&moved(x, &[(i, a * h), (j, b * h)]));
        ((corner(1.0, 1.0) - corner(1.0, -1.0)) - (corner(-1.0, 1.0) - corner(-1.0, -1.0))) / (4.0 * h * h)
    })
}
