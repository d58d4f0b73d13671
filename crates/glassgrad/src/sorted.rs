//! Sorting by keys, in one copy for all types and keys.
//!
//! The sorts of the standard library are written out for every type and every key, in some thousand instructions each; they
//! were a tenth of this library. Here the places of elements are sorted, by a comparison behind an address, and the
//! elements follow. Lists of axes are short, and are sorted where they lie, as the standard library does it too.

use std::cmp::Ordering;

/// Up to so many elements are sorted where they lie.
const SHORT: usize = 16;

/// Sorts elements by keys; those with the same key stay in their order.
pub(crate) fn sort_by_key<T, K: Ord>(elements: &mut [T], key: impl Fn(&T) -> K) {
    if elements.len() > SHORT {
        let places = sorted_places(elements.len(), &|a, b| key(&elements[a]).cmp(&key(&elements[b])));
        return rearrange(elements, places);
    }
    for end in 1..elements.len() {
        let mut place = end;
        while place > 0 && key(&elements[place]) < key(&elements[place - 1]) {
            elements.swap(place, place - 1);
            place -= 1;
        }
    }
}

/// The places of so many elements, in the order that a comparison of two places says.
fn sorted_places(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

/// Puts to each place the element that stands where `from` says, one cycle of them after another.
fn rearrange<T>(elements: &mut [T], mut from: Vec<usize>) {
    for start in 0..elements.len() {
        let mut place = start;
        loop {
            let next = std::mem::replace(&mut from[place], place);
            if next == start {
                break;
            }
            elements.swap(place, next);
            place = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_sorted_as_the_standard_library_sorts_them() {
        let mut state = 1_u64;
        let mut drawn = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for length in (0..40).chain([100, 1000]) {
            // Few keys, so that many are equal; what comes with them tells where they were.
            for keys in [1, 3, 10, 1 << 30] {
                let given: Vec<(u64, String)> = (0..length).map(|place| (drawn(keys), format!("{place}"))).collect();
                let (mut found, mut wanted) = (given.clone(), given);
                sort_by_key(&mut found, |(key, _)| *key);
                wanted.sort_by_key(|(key, _)| *key);
                assert_eq!(found, wanted);
            }
        }
    }
}
