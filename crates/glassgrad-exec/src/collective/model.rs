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

/// A sum over ranks in the computation of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Awaited {
    /// When its operand is complete, in seconds from the beginning.
    pub ready: f64,
    /// When its result is needed: the computation waits for it there.
    pub needed: f64,
    /// The bytes of the operand.
    pub bytes: usize,
}

/// What a rank computes in a step, and its sums over ranks: buckets of the gradient, and those inside of the forward pass.
///
/// ```
/// use glassgrad::collective::{Awaited, StepModel, Transport};
/// // The gradient takes a second; a bucket of 8 MB is complete after half of it, and another one at its end.
/// let bucket = |ready: f64| Awaited { ready, needed: 1.0, bytes: 8_000_000 };
/// let model = StepModel { gradient: 1.0, sums: vec![bucket(0.5), bucket(1.0)], update: 0.25 };
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
    /// Its sums over ranks, in the order of their messages.
    pub sums: Vec<Awaited>,
    /// The seconds of the rest: the update of the parameters, and the batch.
    pub update: f64,
}

/// A predicted step, in seconds.
///
/// ```
/// use glassgrad::collective::{StepModel, Transport};
/// let model = StepModel { gradient: 1.0, sums: Vec::new(), update: 0.0 };
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
        let gradient = timeline.end.as_secs_f64().min(step);
        let seconds = |time: std::time::Duration| time.as_secs_f64().min(gradient);
        let sums = timeline.collectives.iter();
        let sums = sums.map(|sum| Awaited { ready: seconds(sum.ready), needed: seconds(sum.needed), bytes: sum.bytes });
        StepModel { gradient, sums: sums.collect(), update: step - gradient }
    }

    /// The model of a gradient of this many bytes that is computed in this many seconds, of which the first third is the forward pass; in the
    /// other two, buckets are completed at an even rate.
    pub fn even(seconds: f64, bytes: usize, bucket: usize) -> StepModel {
        let count = bytes.div_ceil(bucket.max(1)).max(1);
        let part = |number: usize| (number + 1) * bytes / count - number * bytes / count;
        let ready = |number: usize| seconds * (1.0 + 2.0 * (number + 1) as f64 / count as f64) / 3.0;
        // The last one is complete at the end, but for rounding.
        let sum = |number: usize| Awaited { ready: ready(number).min(seconds), needed: seconds, bytes: part(number) };
        StepModel { gradient: seconds, sums: (0..count).map(sum).collect(), update: 0.0 }
    }

    /// The same with consecutive buckets brought together until each has this many bytes. A sum whose result is needed before the next one is
    /// complete stays apart.
    pub fn with_buckets(&self, bytes: usize) -> StepModel {
        let mut sums: Vec<Awaited> = Vec::new();
        for &own in &self.sums {
            match sums.last_mut() {
                Some(last) if last.bytes < bytes && own.ready <= last.needed => {
                    *last = Awaited {
                        ready: last.ready.max(own.ready),
                        needed: last.needed.min(own.needed),
                        bytes: last.bytes + own.bytes,
                    };
                }
                _ => sums.push(own),
            }
        }
        StepModel { sums, ..self.clone() }
    }

    /// The step of a rank among others: the communication thread sums one after another, each when it is complete, and the computation
    /// waits where it needs a result.
    pub fn predict(&self, ranks: usize, partial_sums: usize, transport: &Transport) -> Predicted {
        if ranks == 1 {
            return Predicted { step: self.gradient + self.update, communication: 0.0, exposed: 0.0 };
        }
        // When the messages so far are over; for how long the computation has waited.
        let (mut now, mut exposed, mut communication) = (0.0_f64, 0.0_f64, 0.0);
        // Sums that were sent and are not needed yet: when they are needed, and when they are over.
        let mut under_way: Vec<(f64, f64)> = Vec::new();
        for sum in &self.sums {
            wait_until(sum.ready, &mut under_way, &mut exposed);
            let seconds = transport.all_reduce(sum.bytes, ranks, partial_sums);
            now = now.max(sum.ready + exposed) + seconds;
            communication += seconds;
            under_way.push((sum.needed, now));
        }
        wait_until(self.gradient, &mut under_way, &mut exposed);
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

/// Lets the computation proceed to a time of its own: it waits for every sum that it needs until then.
fn wait_until(time: f64, under_way: &mut Vec<(f64, f64)>, exposed: &mut f64) {
    under_way.retain(|(needed, over)| {
        let is_needed = *needed <= time;
        if is_needed {
            *exposed = exposed.max(over - needed);
        }
        !is_needed
    });
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
        let bucket = |ready: f64, bytes: usize| Awaited { ready, needed: 4.0, bytes };
        let sums = vec![bucket(1.0, 3), bucket(2.0, 3), bucket(3.0, 9), bucket(4.0, 1)];
        let model = StepModel { gradient: 4.0, sums, update: 0.0 };
        assert_eq!(model.with_buckets(6).sums, [bucket(2.0, 6), bucket(3.0, 9), bucket(4.0, 1)]);
        assert_eq!(model.with_buckets(1), model);
    }

    #[test]
    fn a_sum_that_is_needed_at_once_delays_everything_behind_it() {
        let transport = Transport { latency: 0.0, bandwidth: 1.0 };
        // On two ranks a sum takes as many seconds as it has bytes.
        let forward = Awaited { ready: 1.0, needed: 1.0, bytes: 2 };
        let bucket = |ready: f64| Awaited { ready, needed: 4.0, bytes: 1 };
        let model = StepModel { gradient: 4.0, sums: vec![forward, bucket(2.0), bucket(4.0)], update: 0.5 };
        let predicted = model.predict(2, 1, &transport);
        assert_eq!((predicted.communication, predicted.exposed, predicted.step), (4.0, 3.0, 7.5));
        assert_eq!(model.with_buckets(8).sums, [forward, Awaited { ready: 4.0, needed: 4.0, bytes: 2 }]);
    }

    #[test]
    fn an_even_gradient_is_complete_at_its_end() {
        let model = StepModel::even(3.0, 10, 4);
        assert_eq!(model.sums.iter().map(|sum| sum.bytes).sum::<usize>(), 10);
        assert_eq!((model.sums.len(), model.sums[2].ready), (3, 3.0));
        assert!(model.sums[0].ready > 1.0);
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
