//! Divides the time of a run between its steps, the views and the evaluation.

use std::time::Duration;

/// The share of the time of steps that evaluation of the test set and views take together.
const SHARE: f64 = 0.03;

/// The time spent on steps, on evaluation of the test set, on views, and on waiting for the next step at a limited speed.
#[derive(Default)]
pub(super) struct Budget {
    pub(super) trained: Duration,
    pub(super) evaluated: Duration,
    pub(super) viewed: Duration,
    pub(super) rested: Duration,
}

impl Budget {
    /// Evaluation and views have half of the budget each: views are due after every step and would leave nothing for the test set,
    /// which is evaluated once in an epoch. Half of the idle time may be used too.
    fn half(&self) -> f64 {
        0.5 * (SHARE * self.trained.as_secs_f64() + 0.5 * self.rested.as_secs_f64())
    }

    pub(super) fn allows_view(&self) -> bool {
        self.viewed.as_secs_f64() < self.half()
    }

    pub(super) fn allows_evaluation(&self) -> bool {
        self.evaluated.as_secs_f64() < self.half()
    }

    /// The time spent on views and evaluation.
    pub(super) fn observation_time(&self) -> Duration {
        self.evaluated + self.viewed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_leave_time_for_the_test_set() {
        let second = Duration::from_secs(1);
        let mut budget = Budget { trained: 10 * second, ..Budget::default() };
        assert!(budget.allows_view() && budget.allows_evaluation());
        // Views that have used up their half, and more.
        budget.viewed = second;
        assert!(!budget.allows_view() && budget.allows_evaluation());
        budget.evaluated = second;
        assert!(!budget.allows_evaluation());
        // Idle time counts for both.
        budget.rested = 5 * second;
        assert!(budget.allows_view() && budget.allows_evaluation());
        assert_eq!(budget.observation_time(), 2 * second);
    }
}
