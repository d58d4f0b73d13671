//! Indirect sorting: the algorithm is compiled once, for indices and a dynamic comparison, and each type adds a permutation.
//!
//! The standard library instantiates about ten kilobytes of machine code for each type of element and each closure, which were
//! seven percent of the library's. Planning and inspection sort short lists, where the indirection costs nothing that can be measured.
//! Data are sorted by the standard library.

use smallvec::SmallVec;
use std::cmp::Ordering;

/// Stable sorts of slices through a permutation of indices.
pub trait IndirectSort<T> {
    /// As [`slice::sort_by`].
    fn indirect_sort_by(&mut self, compare: impl Fn(&T, &T) -> Ordering);

    /// As [`slice::sort_by_key`].
    fn indirect_sort_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.indirect_sort_by(|one, other| key(one).cmp(&key(other)));
    }

    /// As [`slice::sort`].
    fn indirect_sort(&mut self)
    where
        T: Ord,
    {
        self.indirect_sort_by(T::cmp);
    }
}

impl<T> IndirectSort<T> for [T] {
    fn indirect_sort_by(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        if self.len() < 2 {
            return;
        }
        let mut target = targets(self.len(), &|one, other| compare(&self[one], &self[other]));
        for index in 0..target.len() {
            while target[index] != index {
                let there = target[index];
                self.swap(index, there);
                target.swap(index, there);
            }
        }
    }
}

/// For each index its position in the sorted order.
fn targets(length: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> SmallVec<[usize; 16]> {
    let mut order: SmallVec<[usize; 16]> = (0..length).collect();
    order.sort_by(|one, other| compare(*one, *other));
    let mut target = SmallVec::from_elem(0, length);
    for (position, index) in order.into_iter().enumerate() {
        target[index] = position;
    }
    target
}

#[cfg(test)]
mod tests {
    use super::IndirectSort;
    use crate::rng::Key;

    #[test]
    fn equals_the_stable_sort_of_the_standard_library() {
        for length in [0, 1, 2, 3, 17, 100, 1000] {
            let mut items: Vec<(u64, usize)> =
                (0..length).map(|index| (Key::new(length as u64).bits(index as u64) % 7, index)).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
            items.indirect_sort_by_key(|(key, _)| std::cmp::Reverse(*key));
            assert_eq!(items, expected);
            expected.sort();
            items.indirect_sort();
            assert_eq!(items, expected);
        }
    }
}
