//! A lazily started thread pool with eight task slots, in which the calling thread takes part.
//!
//! A loop of half a millisecond is worth a second thread, but not worth waiting for one. The caller therefore starts at once,
//! workers take the iterations that are left when they arrive, and only those that are still running are joined. Workers spin for a
//! while after a task: waking a blocked thread takes as long as many a loop, and longer on a virtual machine with an idle
//! processor. While they spin they yield to other threads.
//!
//! Results do not depend on the number of workers that join.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smallvec::SmallVec;

use crate::clock::Instant;

/// How long a worker spins for another task before it blocks.
const SPIN: Duration = Duration::from_millis(2);
/// How long of this it spins without yielding; also how long the caller does before it yields while it joins workers.
const SPIN_WITHOUT_YIELD: Duration = Duration::from_micros(50);
/// The largest number of workers.
const MAX_WORKERS: usize = 255;
/// The task slots. A caller that finds none free runs its task alone.
const MAX_TASKS: usize = 8;

/// The number of threads that programs started on this thread use: the available parallelism of the process, the
/// environment variable `GLASSGRAD_THREADS`, or the number given to [`with_threads`]. Results do not depend on it.
///
/// ```
/// assert!(glassgrad::exec::threads() >= 1);
/// ```
pub fn threads() -> usize {
    static ALL: LazyLock<usize> = LazyLock::new(|| {
        let requested = std::env::var("GLASSGRAD_THREADS").ok().and_then(|number| number.trim().parse().ok());
        requested
            .filter(|number| *number > 0)
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    });
    LIMIT.get().unwrap_or_else(|| *ALL)
}

thread_local! {
    static LIMIT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Calls a function whose programs use this many threads, of which this one is the first.
///
/// ```
/// use glassgrad::{Tensor, exec};
/// let alone = exec::with_threads(1, || Tensor::ones([1000, 1000]).sum().item());
/// assert_eq!(alone.unwrap(), 1e6);
/// ```
pub fn with_threads<R>(count: usize, function: impl FnOnce() -> R) -> R {
    /// Restores the previous number, also on a panic.
    struct Restore(Option<usize>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LIMIT.set(self.0);
        }
    }
    let _restore = Restore(LIMIT.replace(Some(count.max(1))));
    function()
}

/// Calls a function for every index below a count. Each thread has a range of indices of its own, and steals from others when it is done:
/// what lies side by side in memory is then streamed by one thread, which is much faster than in turns.
pub(crate) fn each(count: usize, one: impl Fn(usize) + Sync) {
    each_with(count, || (), |(), index| one(index));
}

/// [`each`] with a state, such as working memory, that each participating thread initialises once.
pub(crate) fn each_with<S>(count: usize, start: impl Fn() -> S + Sync, one: impl Fn(&mut S, usize) + Sync) {
    let helpers = threads().min(count).saturating_sub(1).min(MAX_WORKERS);
    if helpers == 0 || u32::try_from(count).is_err() {
        let mut state = start();
        return (0..count).for_each(|index| one(&mut state, index));
    }
    let participants = helpers + 1;
    let begin = |range: usize| range * count / participants;
    let ranges: SmallVec<[IndexRange; 16]> =
        (0..participants).map(|range| IndexRange::new(begin(range), begin(range + 1))).collect();
    let arrived = AtomicUsize::new(0);
    let take = || {
        let own = arrived.fetch_add(1, Ordering::Relaxed) % participants;
        let mut state = None;
        while let Some(index) = ranges[own].first() {
            one(state.get_or_insert_with(&start), index);
        }
        for other in (own + 1..participants).chain(0..own) {
            while let Some(index) = ranges[other].last() {
                one(state.get_or_insert_with(&start), index);
            }
        }
    };
    match SLOTS.iter().find(|slot| slot.claim()) {
        Some(slot) => slot.work(helpers, &take),
        None => take(),
    }
}

/// Indices that are not taken yet: the first and the one behind the last, of 32 bits each.
struct IndexRange(AtomicU64);

impl IndexRange {
    fn new(first: usize, end: usize) -> IndexRange {
        IndexRange(AtomicU64::new((first as u64) << 32 | end as u64))
    }

    /// Takes an index, if one is left.
    fn take(&self, of: impl Fn(u64, u64) -> (u64, u64, u64)) -> Option<usize> {
        let mut state = self.0.load(Ordering::Relaxed);
        loop {
            let (first, end) = (state >> 32, state & u64::from(u32::MAX));
            if first >= end {
                return None;
            }
            let (index, first, end) = of(first, end);
            match self.0.compare_exchange_weak(state, first << 32 | end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(index as usize),
                Err(changed) => state = changed,
            }
        }
    }

    /// Takes the first index: its own thread does.
    fn first(&self) -> Option<usize> {
        self.take(|first, end| (first, first + 1, end))
    }

    /// Takes the last index: thieves do.
    fn last(&self) -> Option<usize> {
        self.take(|first, end| (end - 1, first, end - 1))
    }
}

/// Calls a function with every chunk of `length` elements (the last may be shorter) and its number.
pub fn each_part<T: Send>(elements: &mut [T], length: usize, one: impl Fn(usize, &mut [T]) + Sync) {
    /// The address of the first element, which threads share.
    struct First<T>(*mut T);
    // SAFETY: each thread takes parts of its own.
    unsafe impl<T: Send> Sync for First<T> {}
    impl<T> First<T> {
        fn address(&self) -> *mut T {
            self.0
        }
    }
    let (count, length) = (elements.len(), length.max(1));
    let first = First(elements.as_mut_ptr());
    each(count.div_ceil(length), |number| {
        let begin = number * length;
        // SAFETY: the chunk lies inside of the elements, which are borrowed mutably, and every number comes once.
        let part = unsafe { std::slice::from_raw_parts_mut(first.address().add(begin), length.min(count - begin)) };
        one(number, part);
    });
}

/// A slot for a task that workers may join.
struct TaskSlot {
    /// Whether a caller has claimed it.
    claimed: AtomicBool,
    /// The number of workers running the task, and, in units of [`PERMIT`], how many more may join. Only running workers read the
    /// task.
    state: AtomicU32,
    task: UnsafeCell<Option<&'static (dyn Fn() + Sync)>>,
    /// The panic payload of a worker.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The permission for one more worker to join.
const PERMIT: u32 = 1 << 16;

// SAFETY: the task is written by the caller that claimed the slot, while there is neither a permit nor a running worker, and read by
// running workers.
unsafe impl Sync for TaskSlot {}

static SLOTS: [TaskSlot; MAX_TASKS] = [const {
    TaskSlot {
        claimed: AtomicBool::new(false),
        state: AtomicU32::new(0),
        task: UnsafeCell::new(None),
        panic: Mutex::new(None),
    }
}; MAX_TASKS];

impl TaskSlot {
    fn claim(&self) -> bool {
        !self.claimed.load(Ordering::Relaxed) && !self.claimed.swap(true, Ordering::Acquire)
    }

    /// Runs the task of a claimed slot on this thread and on up to `helpers` workers, and joins them.
    fn work(&self, helpers: usize, task: &(dyn Fn() + Sync)) {
        // SAFETY: the lifetime is erased. Only running workers read the task, and all of them are joined below, after the permits are
        // revoked, even if the task panics. No worker is running yet, so that nothing reads during the write.
        unsafe { *self.task.get() = Some(std::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(task)) };
        self.state.store(helpers as u32 * PERMIT, Ordering::Release);
        publish(helpers);
        let own = catch_unwind(AssertUnwindSafe(task));
        self.state.fetch_and(PERMIT - 1, Ordering::Relaxed);
        wait_until(Duration::MAX, || self.state.load(Ordering::Acquire) == 0);
        let panic = locked(&self.panic).take().or(own.err());
        self.claimed.store(false, Ordering::Release);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Joins the task if there is a permit; returns whether there was one.
    fn join(&self) -> bool {
        let joined = |state: u32| state.checked_sub(PERMIT).map(|state| state + 1);
        if self.state.load(Ordering::Relaxed) < PERMIT
            || self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, joined).is_err()
        {
            return false;
        }
        // SAFETY: this worker is counted as running.
        if let Some(task) = unsafe { *self.task.get() }
            && let Err(panic) = catch_unwind(AssertUnwindSafe(task))
        {
            *locked(&self.panic) = Some(panic);
        }
        self.state.fetch_sub(1, Ordering::Release);
        true
    }
}

/// The generation: incremented for every task, so that workers look for it.
static GENERATION: AtomicUsize = AtomicUsize::new(0);
/// The number of workers, and how many of them block on the condition variable.
static WORKERS: AtomicUsize = AtomicUsize::new(0);
static BLOCKED: AtomicUsize = AtomicUsize::new(0);
/// Held to spawn workers, and to block and notify.
static LOCK: Mutex<()> = Mutex::new(());
static TASKS: Condvar = Condvar::new();

/// Publishes a task: spawns missing workers, and notifies as many as are needed.
fn publish(helpers: usize) {
    GENERATION.fetch_add(1, Ordering::SeqCst);
    if WORKERS.load(Ordering::Relaxed) < helpers {
        spawn_workers(helpers);
    }
    // A worker counts itself as blocked before it reads `GENERATION` for the last time, so that one of the two is seen.
    let blocked = BLOCKED.load(Ordering::SeqCst);
    let awake = WORKERS.load(Ordering::Relaxed).saturating_sub(blocked);
    if blocked > 0 && awake < helpers {
        let _lock = locked(&LOCK);
        (awake..helpers).for_each(|_| TASKS.notify_one());
    }
}

fn spawn_workers(helpers: usize) {
    let _lock = locked(&LOCK);
    for number in WORKERS.load(Ordering::Relaxed)..helpers {
        let thread = std::thread::Builder::new().name(format!("glassgrad {}", number + 1));
        // Where no more threads can be spawned, there are fewer workers.
        if thread.spawn(worker).is_err() {
            break;
        }
        WORKERS.fetch_add(1, Ordering::Relaxed);
    }
}

/// The loop of a worker.
fn worker() {
    // Nested parallelism is sequential.
    LIMIT.set(Some(1));
    loop {
        let known = GENERATION.load(Ordering::SeqCst);
        let joined = SLOTS.iter().filter(|slot| slot.join()).count() > 0;
        let is_new = || GENERATION.load(Ordering::SeqCst) != known;
        if joined || wait_until(SPIN, is_new) {
            continue;
        }
        let mut lock = locked(&LOCK);
        BLOCKED.fetch_add(1, Ordering::SeqCst);
        while !is_new() {
            lock = TASKS.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
        BLOCKED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Spins until a condition holds, for at most `limit`; returns whether it holds.
fn wait_until(limit: Duration, condition: impl Fn() -> bool) -> bool {
    const SPINS: usize = 32;
    let mut begin = None;
    loop {
        for _ in 0..SPINS {
            if condition() {
                return true;
            }
            std::hint::spin_loop();
        }
        let waited = begin.get_or_insert_with(Instant::now).elapsed();
        if waited > limit {
            return false;
        }
        if waited > SPIN_WITHOUT_YIELD {
            std::thread::yield_now();
        }
    }
}

/// Nothing here is left half done by a panic, so a lock is as good after one.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once_by_any_number_of_threads() {
        for count in [0, 1, 2, 7, 1000] {
            for number in [1, 2, 3, 9] {
                let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                with_threads(number, || each(count, |k| _ = done[k].fetch_add(1, Ordering::Relaxed)));
                assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{count} on {number}");
            }
        }
    }

    #[test]
    fn parts_cover_all_elements_in_order() {
        let mut numbers = vec![0; 1003];
        with_threads(4, || each_part(&mut numbers, 10, |part, own| own.iter_mut().for_each(|own| *own = part)));
        assert!(numbers.iter().enumerate().all(|(place, part)| place / 10 == *part));
    }

    /// More threads have work than there are offers, some of it has work inside, and helpers fall asleep now and then.
    #[test]
    fn many_have_work_at_the_same_time() {
        std::thread::scope(|scope| {
            for worker in 0..2 * MAX_TASKS {
                scope.spawn(move || {
                    for round in 0..60 {
                        let sum = AtomicUsize::new(0);
                        with_threads(3, || {
                            each(20, |k| each(3, |j| _ = sum.fetch_add(k * 3 + j, Ordering::Relaxed)));
                        });
                        assert_eq!(sum.into_inner(), 59 * 60 / 2);
                        if (round + worker) % 20 == 0 {
                            std::thread::sleep(2 * SPIN);
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_whoever_has_the_work_and_spoils_nothing() {
        for _ in 0..20 {
            let refused = catch_unwind(|| with_threads(2, || each(64, |k| assert!(k != 40, "forty"))));
            assert_eq!(refused.unwrap_err().downcast_ref::<&str>(), Some(&"forty"));
        }
        everything_is_done_once_by_any_number_of_threads();
    }

    #[test]
    fn helpers_sleep_when_there_is_nothing_to_do_and_come_again() {
        let both = || {
            let seen = Mutex::new(std::collections::HashSet::new());
            let deadline = Instant::now() + Duration::from_secs(20);
            // Two must meet here, so a helper comes.
            with_threads(2, || {
                each(2, |_| {
                    locked(&seen).insert(std::thread::current().id());
                    wait_until(Duration::from_secs(20), || locked(&seen).len() == 2 || Instant::now() > deadline);
                });
            });
            locked(&seen).len()
        };
        assert_eq!(both(), 2);
        std::thread::sleep(5 * SPIN);
        assert_eq!(both(), 2);
    }
}
