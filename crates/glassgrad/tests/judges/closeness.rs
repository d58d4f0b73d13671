//! What it means that two numbers agree. Every tolerance is a count of roundings times the machine
//! epsilon times the size of the numbers that were rounded; no operation has one of its own.

/// Whether two numbers agree but for `roundings` roundings of numbers of this size. Numbers that are
/// not finite agree only with themselves.
pub(crate) fn agree(actual: f64, expected: f64, size: f64, roundings: f64) -> bool {
    if actual.is_finite() && expected.is_finite() {
        (actual - expected).abs() <= roundings * f64::EPSILON * size
    } else {
        actual == expected || (actual.is_nan() && expected.is_nan())
    }
}

/// The largest magnitude among some numbers, and at least 1: an operation whose result is small may
/// have rounded numbers of order 1 on the way.
pub(crate) fn size_of_all<'a>(numbers: impl IntoIterator<Item = &'a f64>) -> f64 {
    numbers.into_iter().fold(1.0, |size: f64, number| size.max(number.abs()))
}
