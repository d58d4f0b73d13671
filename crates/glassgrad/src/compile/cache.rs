//! The plans of a compiled function, of which the least recently used is evicted.

use std::sync::Arc;

use super::Prepared;
use crate::shared::NumberMap;

/// How many plans a compiled function keeps.
const CAPACITY: usize = 64;

/// Plans by the definition of their arguments, with the time of their last use.
pub(super) struct PlanCache<R> {
    plans: NumberMap<u128, (Arc<Prepared<R>>, u64)>,
    clock: u64,
}

impl<R> Default for PlanCache<R> {
    fn default() -> Self {
        PlanCache { plans: NumberMap::default(), clock: 0 }
    }
}

impl<R> PlanCache<R> {
    pub(super) fn get(&mut self, key: u128) -> Option<Arc<Prepared<R>>> {
        self.clock += 1;
        let (plan, used) = self.plans.get_mut(&key)?;
        *used = self.clock;
        Some(Arc::clone(plan))
    }

    pub(super) fn insert(&mut self, key: u128, plan: &Arc<Prepared<R>>) {
        if self.plans.len() >= CAPACITY
            && let Some(oldest) = self.plans.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key)
        {
            self.plans.remove(&oldest);
        }
        self.clock += 1;
        self.plans.insert(key, (Arc::clone(plan), self.clock));
    }

    pub(super) fn len(&self) -> usize {
        self.plans.len()
    }
}
