//! Memory budgets of gradients: how many bytes one may take, and which rematerialisation strategy was chosen for it.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

/// A rematerialisation strategy of a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Every value that the reverse sweep reads is stored.
    StoreAll,
    /// Reverse sweeps of loops store at most this many states.
    Sweeps(usize),
    /// At most this many states of the chain are stored, and the same for loops in it.
    Chain(usize, Option<usize>),
}

impl Strategy {
    /// The same strategy with another number of stored states.
    pub(crate) fn storing(self, states: usize) -> Strategy {
        match self {
            Strategy::StoreAll => Strategy::StoreAll,
            Strategy::Sweeps(_) => Strategy::Sweeps(states),
            Strategy::Chain(_, sweeps) => Strategy::Chain(states, sweeps),
        }
    }
}

/// The memory budget of a gradient.
#[derive(Clone)]
pub(crate) struct MemoryBudget {
    pub(crate) bytes: usize,
    /// The line that set it.
    pub(crate) origin: &'static Location<'static>,
    /// The strategies of functions seen before, by structural hash.
    strategies: Arc<Mutex<HashMap<u128, Strategy>>>,
}

impl MemoryBudget {
    pub(crate) fn new(bytes: usize, origin: &'static Location<'static>) -> MemoryBudget {
        MemoryBudget { bytes, origin, strategies: Arc::default() }
    }

    pub(crate) fn strategy(&self, structure: u128) -> Option<Strategy> {
        self.strategies.lock().unwrap_or_else(PoisonError::into_inner).get(&structure).copied()
    }

    pub(crate) fn remember(&self, structure: u128, strategy: Strategy) {
        self.strategies.lock().unwrap_or_else(PoisonError::into_inner).insert(structure, strategy);
    }
}
