//! Work for several threads, in which whoever asks for it takes part.
//!
//! A loop of half a millisecond is worth a second thread, but not worth waiting for one: threads that have slept for a while
//! come late. So the caller begins at once, others take what is left when they come, and the caller waits only for those
//! that are still at it. Handing everything to the threads of the pool and sleeping meanwhile, as parallel iterators do, takes
//! two wake-ups before anything is done, and one more than there are processors for; after a pause such a loop was slower than
//! on one thread.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Does something for every number below a count; which thread does what is left to chance.
pub(super) fn each(count: usize, one: impl Fn(usize) + Sync) {
    let helpers = rayon::current_num_threads().min(count).saturating_sub(1);
    if helpers == 0 {
        return (0..count).for_each(one);
    }
    let next = AtomicUsize::new(0);
    let take = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            one(number);
        }
    };
    let take = &take;
    rayon::in_place_scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(move |_| take());
        }
        take();
    });
}
