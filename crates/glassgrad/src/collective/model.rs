//! A model of the time of a data-parallel step: from the computation of a rank, measured without messages, and the latency and bandwidth
//! of a transport.

use super::shards::Timeline;

/// A transport between ranks, by its two numbers.
///
/// ```
/// use glassgrad::collective::Transport;
/// let transport = Transport { latency: 10e-6, bandwidth: 1e9 };
/// // A reduce-scatter and an all-gather: each rank sends and receives three quarters of the bytes twice, in six messages.
/// assert!((transport.all_reduce(4_000_000, 4, 1) - (6.0 * 10e-6 + 2.0 * 0.75 * 4e6 / 1e9)).abs() < 1e-12);
/// assert_eq!(transport.all_reduce(4_000_000, 1, 1), 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transport {
    /// Seconds that a message takes besides its bytes.
    pub latency: f64,
    /// Bytes in a second that a rank sends, while it receives as many.
    pub bandwidth: f64,
}

impl Transport {
    /// The seconds of a sum over ranks of this many bytes, of which each rank sends some partial sums: one, if the number of ranks is a
    /// power of two.
    pub fn all_reduce(&self, bytes: usize, ranks: usize, partial_sums: usize) -> f64 {
        let (bytes, others) = (bytes as f64, (ranks - 1) as f64);
        let messages = 2.0 * others * self.latency;
        messages + (partial_sums + 1) as f64 * others / ranks as f64 * bytes / self.bandwidth
    }
}

/// What a rank computes in a step, and when the buckets of its gradient are complete.
///
/// ```
/// use glassgrad::collective::{StepModel, Transport};
/// // The gradient takes a second; a bucket of 8 MB is complete after half of it, and another one at its end.
/// let model = StepModel { gradient: 1.0, ready: vec![(0.5, 8_000_000), (1.0, 8_000_000)], update: 0.25 };
/// let transport = Transport { latency: 0.0, bandwidth: 80e6 };
/// let two = model.predict(2, 1, &transport);
/// // Each sum takes 0.1 s; the second one is exposed.
/// assert!((two.communication - 0.2).abs() < 1e-12 && (two.exposed - 0.1).abs() < 1e-12);
/// assert!((two.step - 1.35).abs() < 1e-12);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StepModel {
    /// The seconds of the programs of its shards.
    pub gradient: f64,
    /// When each bucket is complete, in seconds from the beginning, with its bytes.
    pub ready: Vec<(f64, usize)>,
    /// The seconds of the rest: the update of the parameters, and the batch.
    pub update: f64,
}

/// A predicted step, in seconds.
///
/// ```
/// use glassgrad::collective::{StepModel, Transport};
/// let model = StepModel { gradient: 1.0, ready: Vec::new(), update: 0.0 };
/// let alone = model.predict(1, 1, &Transport { latency: 0.0, bandwidth: 1.0 });
/// assert_eq!((alone.step, alone.communication), (1.0, 0.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// The whole step.
    pub step: f64,
    /// All messages.
    pub communication: f64,
    /// The part of them behind which nothing is computed.
    pub exposed: f64,
}

impl StepModel {
    /// The model of steps that were measured: the seconds of a step, and the last run of its shards.
    pub fn measured(step: f64, timeline: &Timeline) -> StepModel {
        let ready = timeline.ready.iter().map(|(time, bytes)| (time.as_secs_f64(), *bytes)).collect();
        let gradient = timeline.end.as_secs_f64().min(step);
        StepModel { gradient, ready, update: step - gradient }
    }

    /// The model of a gradient of this many bytes that is computed in this many seconds, of which the first third is the forward pass; in the
    /// other two, buckets are completed at an even rate.
    pub fn even(seconds: f64, bytes: usize, bucket: usize) -> StepModel {
        let count = bytes.div_ceil(bucket.max(1)).max(1);
        let part = |number: usize| (number + 1) * bytes / count - number * bytes / count;
        let ready = |number: usize| seconds * (1.0 + 2.0 * (number + 1) as f64 / count as f64) / 3.0;
        let ready = (0..count).map(|number| (ready(number), part(number))).collect();
        StepModel { gradient: seconds, ready, update: 0.0 }
    }

    /// The same with consecutive buckets brought together until each has this many bytes.
    pub fn with_buckets(&self, bytes: usize) -> StepModel {
        let mut ready: Vec<(f64, usize)> = Vec::new();
        for &(time, own) in &self.ready {
            match ready.last_mut() {
                Some(last) if last.1 < bytes => *last = (time, last.1 + own),
                _ => ready.push((time, own)),
            }
        }
        StepModel { ready, ..self.clone() }
    }

    /// The step of a rank among others: the communication thread sums the buckets one after another, each when it is complete.
    pub fn predict(&self, ranks: usize, partial_sums: usize, transport: &Transport) -> Predicted {
        let (mut now, mut communication) = (0.0_f64, 0.0);
        for &(ready, bytes) in &self.ready {
            let seconds = transport.all_reduce(bytes, ranks, partial_sums);
            now = now.max(ready) + seconds;
            communication += seconds;
        }
        let exposed = if ranks == 1 { 0.0 } else { (now - self.gradient).max(0.0) };
        Predicted { step: self.gradient + exposed + self.update, communication, exposed }
    }

    /// The number of bytes of a bucket with which the step is shortest, among powers of two from 1 to 64 MiB.
    pub fn best_bucket(&self, ranks: usize, partial_sums: usize, transport: &Transport) -> usize {
        let step = |bytes: usize| self.with_buckets(bytes).predict(ranks, partial_sums, transport).step;
        let sizes = (20..=26).map(|power| 1_usize << power);
        // Of equal ones the smallest: it is complete first.
        sizes.min_by(|one, other| step(*one).total_cmp(&step(*other))).unwrap_or(1 << 20)
    }
}

/// The largest number of partial sums that a rank sends in a sum over these shards.
///
/// ```
/// use glassgrad::collective::partial_sums;
/// assert_eq!((partial_sums(8, 4), partial_sums(8, 3)), (1, 2));
/// ```
pub fn partial_sums(shards: usize, ranks: usize) -> usize {
    let blocks = |rank: usize| super::tree::cover(super::tree::shards_of(rank, ranks, shards)).len();
    (0..ranks).map(blocks).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_brought_together_in_order() {
        let model = StepModel { gradient: 4.0, ready: vec![(1.0, 3), (2.0, 3), (3.0, 9), (4.0, 1)], update: 0.0 };
        assert_eq!(model.with_buckets(6).ready, [(2.0, 6), (3.0, 9), (4.0, 1)]);
        assert_eq!(model.with_buckets(1).ready, model.ready);
    }

    #[test]
    fn an_even_gradient_is_complete_at_its_end() {
        let model = StepModel::even(3.0, 10, 4);
        assert_eq!(model.ready.iter().map(|(_, bytes)| bytes).sum::<usize>(), 10);
        assert_eq!((model.ready.len(), model.ready[2].0), (3, 3.0));
        assert!(model.ready[0].0 > 1.0);
    }

    #[test]
    fn latency_asks_for_larger_buckets_and_bandwidth_for_smaller_ones() {
        let model = StepModel::even(0.1, 64 << 20, 1 << 20);
        let slow_messages = Transport { latency: 1e-3, bandwidth: 1e12 };
        let slow_bytes = Transport { latency: 1e-9, bandwidth: 1.2e9 };
        assert!(model.best_bucket(16, 1, &slow_messages) > model.best_bucket(16, 1, &slow_bytes));
    }

    #[test]
    fn more_ranks_never_shorten_the_messages() {
        let (model, transport) = (StepModel::even(0.1, 8 << 20, 1 << 20), Transport { latency: 2e-5, bandwidth: 1e9 });
        let steps: Vec<f64> = (0..11).map(|power| model.predict(1 << power, 1, &transport).step).collect();
        assert!(steps.is_sorted(), "{steps:?}");
    }
}
