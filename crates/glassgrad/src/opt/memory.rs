//! Memory planning: values that are not needed at the same time share places of one arena.

use std::collections::{BTreeMap, BTreeSet};

/// Places begin at multiples of this, so that no cache line belongs to two values.
pub const ALIGNMENT: usize = 64;

/// The next multiple of the alignment.
pub fn aligned(bytes: usize) -> usize {
    bytes.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT)
}

/// When a value is needed, and how much of it there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Its size; 0 if it lies elsewhere.
    pub bytes: usize,
    /// The step that writes it.
    pub first: usize,
    /// The last step that reads it.
    pub last: usize,
    /// Another value whose place it takes over while that is read for the last time.
    pub instead_of: Option<usize>,
}

/// The place of each value, and the size of the arena: step by step, best fit into what has become free.
pub fn plan(lifetimes: &[Lifetime], steps: usize) -> (Vec<usize>, usize) {
    let mut places = vec![0; lifetimes.len()];
    let (mut begin, mut end) = (vec![Vec::new(); steps], vec![Vec::new(); steps]);
    for (value, lifetime) in lifetimes.iter().enumerate().filter(|(_, lifetime)| lifetime.bytes > 0) {
        begin[lifetime.first].push(value);
        end[lifetime.last].push(value);
    }
    // Whoever takes a place over gives it back; its first owner does not.
    let taken_over: BTreeSet<usize> = lifetimes.iter().filter_map(|lifetime| lifetime.instead_of).collect();
    let mut free = Free::default();
    for step in 0..steps {
        for value in &begin[step] {
            places[*value] = match lifetimes[*value].instead_of {
                Some(earlier) => places[earlier],
                None => free.take(aligned(lifetimes[*value].bytes)),
            };
        }
        for value in end[step].iter().filter(|value| !taken_over.contains(value)) {
            free.give(places[*value], aligned(lifetimes[*value].bytes));
        }
    }
    (places, free.end)
}

/// Free parts of the arena, by place and by size.
#[derive(Default)]
struct Free {
    by_place: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
    end: usize,
}

impl Free {
    fn take(&mut self, bytes: usize) -> usize {
        if let Some((size, place)) = self.by_size.range((bytes, 0)..).next().copied() {
            self.by_size.remove(&(size, place));
            self.by_place.remove(&place);
            if size > bytes {
                self.insert(place + bytes, size - bytes);
            }
            return place;
        }
        // The last free part grows if it touches the end.
        let last = self.by_place.last_key_value().map(|(place, size)| (*place, *size));
        if let Some((place, size)) = last.filter(|(place, size)| place + size == self.end) {
            self.by_size.remove(&(size, place));
            self.by_place.remove(&place);
            self.end = place + bytes;
            return place;
        }
        let place = self.end;
        self.end = self.end.saturating_add(bytes);
        place
    }

    fn give(&mut self, place: usize, bytes: usize) {
        let (mut place, mut bytes) = (place, bytes);
        let before = self.by_place.range(..place).next_back().map(|(start, size)| (*start, *size));
        if let Some((start, size)) = before.filter(|(start, size)| start + size == place) {
            self.by_size.remove(&(size, start));
            self.by_place.remove(&start);
            place = start;
            bytes += size;
        }
        if let Some(size) = self.by_place.remove(&(place + bytes)) {
            self.by_size.remove(&(size, place + bytes));
            bytes += size;
        }
        self.insert(place, bytes);
    }

    fn insert(&mut self, place: usize, bytes: usize) {
        self.by_place.insert(place, bytes);
        self.by_size.insert((bytes, place));
    }
}
