//! Steps per second of a run.

use glassgrad::clock::Instant;

/// Steps a second, over the last second or so.
pub(super) struct Speed {
    since: Instant,
    step: u64,
    last: u64,
    a_second: f64,
}

impl Speed {
    pub(super) fn new() -> Speed {
        Speed { since: Instant::now(), step: 0, last: 0, a_second: 0.0 }
    }

    pub(super) fn record_step(&mut self, step: u64) {
        self.last = step;
        let passed = self.since.elapsed().as_secs_f64();
        if passed >= 0.5 {
            self.a_second = (step - self.step) as f64 / passed;
            (self.since, self.step) = (Instant::now(), step);
        }
    }

    pub(super) fn a_second(&self) -> f64 {
        if self.a_second > 0.0 {
            self.a_second
        } else {
            self.last as f64 / self.since.elapsed().as_secs_f64().max(1e-9)
        }
    }
}
