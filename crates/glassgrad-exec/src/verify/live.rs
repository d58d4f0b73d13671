//! The values of the arena that are live at a step.

use std::collections::BTreeMap;

use super::Checked;
use super::accesses::Span;
use crate::memory::Held;
use crate::sorting::IndirectSort;

/// Values by the steps at which they begin and end, and those that are live now.
pub(super) struct Live<'p> {
    values: &'p [Held],
    /// Numbers of values, by their first step.
    by_first: Vec<usize>,
    next: usize,
    /// Live values by their places; two where one takes over the place of another.
    places: BTreeMap<usize, Vec<usize>>,
    /// Live values by their last steps.
    ending: BTreeMap<usize, Vec<usize>>,
    is_written: Vec<bool>,
    step: usize,
}

impl<'p> Live<'p> {
    pub(super) fn new(values: &'p [Held]) -> Live<'p> {
        let mut by_first: Vec<usize> = (0..values.len()).collect();
        by_first.indirect_sort_by_key(|number| values[*number].first);
        let is_written = vec![false; values.len()];
        Live { values, by_first, next: 0, places: BTreeMap::new(), ending: BTreeMap::new(), is_written, step: 0 }
    }

    /// The values that begin at a step become live. They lie in the arena, and over no other that is live.
    pub(super) fn enter(&mut self, step: usize, arena: usize) -> Checked {
        self.step = step;
        while let Some(number) =
            self.by_first.get(self.next).copied().filter(|number| self.values[*number].first <= step)
        {
            self.next += 1;
            let value = &self.values[number];
            if value.first > value.last || value.place.saturating_add(value.bytes) > arena {
                return Err(format!("the value {value:?} does not lie in the arena of {arena} bytes"));
            }
            if let Some(other) = self.overlapping(value).find(|other| !self.takes_over(value, other)) {
                return Err(format!("the live values {value:?} and {other:?} overlap"));
            }
            self.places.entry(value.place).or_default().push(number);
            self.ending.entry(value.last).or_default().push(number);
        }
        Ok(())
    }

    /// A value may begin where another ends that it takes over.
    fn takes_over(&self, value: &Held, other: &Held) -> bool {
        other.is_taken_over && other.last == value.first && other.place == value.place
    }

    fn overlapping<'s>(&'s self, value: &'s Held) -> impl Iterator<Item = &'p Held> + 's {
        let end = value.place + value.bytes;
        // Live values do not overlap, so of those before only the last can reach here.
        let before = self.places.range(..value.place).next_back();
        let inside = self.places.range(value.place..end);
        let all = before.into_iter().chain(inside).flat_map(|(_, numbers)| numbers);
        all.map(|number| &self.values[*number]).filter(move |other| other.place + other.bytes > value.place)
    }

    /// The values that end at a step are gone.
    pub(super) fn leave(&mut self, step: usize) {
        for number in self.ending.remove(&step).unwrap_or_default() {
            let place = self.values[number].place;
            if let Some(numbers) = self.places.get_mut(&place) {
                numbers.retain(|other| *other != number);
                if numbers.is_empty() {
                    self.places.remove(&place);
                }
            }
        }
    }

    /// The live values in which a range of bytes lies.
    fn around(&self, begin: usize, end: usize) -> impl Iterator<Item = usize> {
        let last = self.places.range(..=begin).next_back();
        let numbers = last.into_iter().flat_map(|(_, numbers)| numbers.iter().copied());
        numbers.filter(move |number| {
            let value = &self.values[*number];
            value.place <= begin && end <= value.place + value.bytes
        })
    }

    pub(super) fn read(&self, what: &str, span: &Span) -> Checked {
        let Span { begin, end, .. } = *span;
        let mut found = self.around(begin, end).peekable();
        if found.peek().is_none() {
            return Err(format!("{what} reads bytes {begin} to {end} of the arena, where no value is live"));
        }
        if !found.any(|number| self.is_written[number]) {
            return Err(format!("{what} reads bytes {begin} to {end} of the arena before they are written"));
        }
        Ok(())
    }

    pub(super) fn write(&mut self, what: &str, span: &Span) -> Checked {
        let Span { begin, end, .. } = *span;
        let step = self.step;
        let is_own = |number: &usize| !(self.values[*number].is_taken_over && self.values[*number].last == step);
        let Some(number) = self.around(begin, end).find(is_own) else {
            return Err(format!("{what} writes bytes {begin} to {end} of the arena, where no value is live"));
        };
        self.is_written[number] = true;
        Ok(())
    }

    /// Scratch memory of a step is a value of its own.
    pub(super) fn scratch(&self, place: usize, bytes: usize) -> Checked {
        match self.around(place, place + bytes).next() {
            Some(_) => Ok(()),
            None => Err(format!("{bytes} bytes of scratch memory at byte {place} are no live value")),
        }
    }
}
