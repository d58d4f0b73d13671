//! Numbering of nodes during a traversal of a graph.

use std::cell::RefCell;

/// Dense indices of nodes by their numbers, for one traversal of a graph: an open-addressing hash table whose storage is
/// reused by the next traversal.
#[derive(Debug)]
pub struct NodeIndices {
    /// A power of two of them, with a load factor of at most one half.
    slots: Vec<Slot>,
    /// Slots of earlier rounds count as empty.
    round: u32,
    count: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    number: u64,
    round: u32,
    index: u32,
}

/// Larger tables are freed after a traversal.
const MOST_KEPT: usize = 1 << 16;

thread_local! {
    /// The slots of finished traversals, with their last round.
    static UNUSED: RefCell<Vec<(Vec<Slot>, u32)>> = const { RefCell::new(Vec::new()) };
}

impl Default for NodeIndices {
    fn default() -> Self {
        NodeIndices::new()
    }
}

impl NodeIndices {
    /// An empty table.
    #[inline]
    pub fn new() -> NodeIndices {
        let unused = UNUSED.with_borrow_mut(Vec::pop);
        let (mut slots, mut round) = unused.unwrap_or_else(|| (vec![Slot::default(); 256], 0));
        if round == u32::MAX {
            slots.fill(Slot::default());
            round = 0;
        }
        NodeIndices { slots, round: round + 1, count: 0 }
    }

    /// The slot of a number, or the empty one where probing ends.
    #[inline]
    fn slot(&self, number: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & mask;
        while self.slots[at].round == self.round && self.slots[at].number != number {
            at = (at + 1) & mask;
        }
        at
    }

    /// Assigns an index to a number, unless it has one. Returns whether it had none.
    #[inline]
    pub fn insert(&mut self, number: u64, index: usize) -> bool {
        let at = self.slot(number);
        if self.slots[at].round == self.round {
            return false;
        }
        self.slots[at] = Slot { number, round: self.round, index: index as u32 };
        self.count += 1;
        if 2 * self.count > self.slots.len() {
            self.grow();
        }
        true
    }

    /// The index of a number, if it has one.
    #[inline]
    pub fn get(&self, number: u64) -> Option<usize> {
        let slot = self.slots[self.slot(number)];
        (slot.round == self.round).then_some(slot.index as usize)
    }

    fn grow(&mut self) {
        let doubled = vec![Slot::default(); 2 * self.slots.len()];
        for slot in std::mem::replace(&mut self.slots, doubled) {
            if slot.round == self.round {
                let at = self.slot(slot.number);
                self.slots[at] = slot;
            }
        }
    }
}

impl Drop for NodeIndices {
    fn drop(&mut self) {
        if self.slots.len() <= MOST_KEPT && !self.slots.is_empty() {
            let kept = (std::mem::take(&mut self.slots), self.round);
            // During thread teardown the thread-local is gone.
            let _ = UNUSED.try_with(|unused| unused.borrow_mut().push(kept));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn indices_are_those_of_a_map() {
        for round in 0..3_u64 {
            let mut indices = NodeIndices::new();
            let mut map: HashMap<u64, usize> = HashMap::new();
            for k in 0..3000_u64 {
                // Numbers that repeat, are contiguous, or far apart.
                let number = [k / 2, k << 32, k * 1024, k * k + round][k as usize % 4];
                assert_eq!(indices.insert(number, k as usize), !map.contains_key(&number));
                map.entry(number).or_insert(k as usize);
                assert_eq!(indices.get(number), map.get(&number).copied());
                assert_eq!(indices.get(number ^ (1 << 60)), None);
            }
            assert!(map.iter().all(|(number, index)| indices.get(*number) == Some(*index)));
        }
    }
}
