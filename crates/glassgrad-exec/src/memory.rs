//! Memory planning: values that are not needed at the same time share places of one arena.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Places begin at multiples of this, so that no cache line belongs to two values.
pub const ALIGNMENT: usize = 64;

/// The next multiple of the alignment.
pub const fn aligned(bytes: usize) -> usize {
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

/// A value in the arena, from the step that writes it to the last that reads it.
///
/// ```
/// use glassgrad::Tensor;
/// let x = Tensor::new(&[0.5_f32; 100], [10, 10]);
/// let program = x.matmul(&x.matmul(&x).tanh()).program().unwrap();
/// // Both the product and its tanh are written over one another.
/// let held: Vec<_> = program.values.iter().map(|value| (value.place, value.bytes, value.steps())).collect();
/// assert_eq!(held, [(0, 400, 0..1), (0, 400, 1..3)]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The byte of the arena with which it begins.
    pub place: usize,
    /// Its size.
    pub bytes: usize,
    /// The step that writes it.
    pub first: usize,
    /// The last step that reads it.
    pub last: usize,
    /// Whether that step writes another value over it, element by element while it is read.
    pub is_taken_over: bool,
}

impl Held {
    /// The steps in which the place is its own: not the one in which another value takes it over.
    pub fn steps(&self) -> Range<usize> {
        self.first..if self.is_taken_over { self.last } else { self.last + 1 }
    }
}

/// The values that lie in the arena, with their places.
pub fn held(lifetimes: &[Lifetime], places: &[usize]) -> Vec<Held> {
    let present = || lifetimes.iter().zip(places).enumerate().filter(|(_, (lifetime, _))| lifetime.bytes > 0);
    let mut is_taken_over = vec![false; lifetimes.len()];
    lifetimes.iter().filter_map(|lifetime| lifetime.instead_of).for_each(|earlier| is_taken_over[earlier] = true);
    let mut values: Vec<Held> = Vec::with_capacity(present().count());
    values.extend(present().map(|(number, (lifetime, place))| {
        let Lifetime { bytes, first, last, .. } = *lifetime;
        Held { place: *place, bytes, first, last, is_taken_over: is_taken_over[number] }
    }));
    values
}

/// The place of each value, and the size of the arena: step by step, best fit into what has become free.
pub fn plan(lifetimes: &[Lifetime], steps: usize) -> (Vec<usize>, usize) {
    let mut places = vec![0; lifetimes.len()];
    let begin = ByStep::new(lifetimes, steps, |lifetime| lifetime.first);
    let end = ByStep::new(lifetimes, steps, |lifetime| lifetime.last);
    // The last owner of a reused block frees it; its first owner does not.
    let mut is_taken_over = vec![false; lifetimes.len()];
    lifetimes.iter().filter_map(|lifetime| lifetime.instead_of).for_each(|earlier| is_taken_over[earlier] = true);
    let mut free = Free::default();
    for step in 0..steps {
        for value in begin.at(step) {
            places[*value] = match lifetimes[*value].instead_of {
                Some(earlier) => places[earlier],
                None => free.take(aligned(lifetimes[*value].bytes)),
            };
        }
        for value in end.at(step).iter().filter(|value| !is_taken_over[**value]) {
            free.give(places[*value], aligned(lifetimes[*value].bytes));
        }
    }
    (places, free.end)
}

/// Values sorted by a step of theirs: one list, and where each step begins in it.
struct ByStep {
    values: Vec<usize>,
    starts: Vec<usize>,
}

impl ByStep {
    fn new(lifetimes: &[Lifetime], steps: usize, step: impl Fn(&Lifetime) -> usize) -> ByStep {
        let present = || lifetimes.iter().enumerate().filter(|(_, lifetime)| lifetime.bytes > 0);
        let mut starts = vec![0; steps + 1];
        present().for_each(|(_, lifetime)| starts[step(lifetime) + 1] += 1);
        for step in 0..steps {
            starts[step + 1] += starts[step];
        }
        let mut next = starts.clone();
        let mut values = vec![0; starts[steps]];
        for (value, lifetime) in present() {
            values[next[step(lifetime)]] = value;
            next[step(lifetime)] += 1;
        }
        ByStep { values, starts }
    }

    fn at(&self, step: usize) -> &[usize] {
        &self.values[self.starts[step]..self.starts[step + 1]]
    }
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
