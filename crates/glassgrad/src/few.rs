//! Short lists of numbers without memory of their own: sizes and strides, which are copied with every node and made in
//! numbers by planning.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// How many numbers need no memory of their own. Tensors rarely have more axes.
const INLINE: usize = 5;

/// A list of numbers, usually a short one.
#[derive(Clone)]
pub(crate) enum Few<T> {
    Short([T; INLINE], u8),
    Long(Vec<T>),
}

impl<T: Copy + Default> Few<T> {
    pub(crate) fn new() -> Few<T> {
        Few::Short([T::default(); INLINE], 0)
    }

    /// The same number again and again.
    pub(crate) fn repeated(number: T, count: usize) -> Few<T> {
        if count <= INLINE { Few::Short([number; INLINE], count as u8) } else { Few::Long(vec![number; count]) }
    }

    pub(crate) fn push(&mut self, number: T) {
        match self {
            Few::Short(numbers, count) if usize::from(*count) < INLINE => {
                numbers[usize::from(*count)] = number;
                *count += 1;
            }
            Few::Short(numbers, _) => {
                let mut numbers = numbers.to_vec();
                numbers.push(number);
                *self = Few::Long(numbers);
            }
            Few::Long(numbers) => numbers.push(number),
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Few::Short(numbers, count) => &numbers[..usize::from(*count)],
            Few::Long(numbers) => numbers,
        }
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Few::Short(numbers, count) => &mut numbers[..usize::from(*count)],
            Few::Long(numbers) => numbers,
        }
    }
}

impl<T: Copy + Default> From<&[T]> for Few<T> {
    #[inline]
    fn from(numbers: &[T]) -> Few<T> {
        if numbers.len() > INLINE {
            return Few::Long(numbers.to_vec());
        }
        let mut short = [T::default(); INLINE];
        short[..numbers.len()].copy_from_slice(numbers);
        Few::Short(short, numbers.len() as u8)
    }
}

impl<T: Copy + Default> Default for Few<T> {
    fn default() -> Few<T> {
        Few::new()
    }
}

/// As of the list that it is.
impl<T: fmt::Debug> fmt::Debug for Few<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: Copy + Default> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(numbers: I) -> Few<T> {
        let mut few = Few::new();
        numbers.into_iter().for_each(|number| few.push(number));
        few
    }
}

impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Few<T>) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Few<T> {}

impl<T: Hash> Hash for Few<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: Hash> std::borrow::Borrow<[T]> for Few<T> {
    fn borrow(&self) -> &[T] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::Few;

    #[test]
    fn long_and_short_lists_are_the_same_to_whoever_reads_them() {
        for count in 0..20_usize {
            let few: Few<usize> = (0..count).collect();
            assert_eq!(few.to_vec(), (0..count).collect::<Vec<_>>());
            let mut other = Few::repeated(7, count);
            assert!(other.iter().all(|number| *number == 7) && other.len() == count);
            other.iter_mut().zip(0..).for_each(|(number, place)| *number = place);
            assert_eq!(few, other);
        }
    }
}
