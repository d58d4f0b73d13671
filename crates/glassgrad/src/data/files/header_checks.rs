//! Checks of header sizes before any allocation.

/// The number of elements of a shape. Sizes whose product no machine can count are `None`, also where a zero beside them makes it
/// nothing: strides are products of them too.
pub(super) fn elements(shape: &[usize]) -> Option<usize> {
    let product = shape.iter().filter(|size| **size > 0).try_fold(1_usize, |count, size| count.checked_mul(*size))?;
    Some(if shape.contains(&0) { 0 } else { product })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_counted_or_not() {
        assert_eq!(elements(&[]), Some(1));
        assert_eq!(elements(&[3, 4]), Some(12));
        assert_eq!(elements(&[3, 0, 4]), Some(0));
        assert_eq!(elements(&[0, usize::MAX, 2]), None);
    }
}
