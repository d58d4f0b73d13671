//! Work for several threads, in which whoever has it takes part.
//!
//! A loop of half a millisecond is worth a second thread, but not worth waiting for one. So who has the work begins at
//! once, helpers take what is left when they come, and only those that are still at it are waited for. Helpers stay awake for a
//! while after work: to wake a thread that sleeps takes as long as many a loop, and on a virtual machine with an idle
//! processor longer. Awake they let everyone else have the processor first.
//!
//! What is done never depends on how many come.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a helper looks for more work before it sleeps.
const AWAKE: Duration = Duration::from_millis(2);
/// How long of this it keeps its processor, and how long one waits for helpers before others may have it.
const EAGER: Duration = Duration::from_micros(50);
/// The most helpers that there ever are.
const MOST_HELPERS: usize = 255;
/// The most that have work for helpers at the same time; whoever comes then works alone.
const MOST_OFFERS: usize = 8;

/// How many threads a program that is started here uses: as many as this process has processors, the number in the
/// environment variable `GLASSGRAD_THREADS`, or what [`with_threads`] says. Results do not depend on it.
///
/// ```
/// assert!(glassgrad::exec::threads() >= 1);
/// ```
pub fn threads() -> usize {
    static ALL: LazyLock<usize> = LazyLock::new(|| {
        let asked = std::env::var("GLASSGRAD_THREADS").ok().and_then(|number| number.trim().parse().ok());
        asked
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
    /// Gives the former number back, also if the function panics.
    struct Restore(Option<usize>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LIMIT.set(self.0);
        }
    }
    let _restore = Restore(LIMIT.replace(Some(count.max(1))));
    function()
}

/// Calls a function for every index below a count; indices are scheduled dynamically.
pub(crate) fn each(count: usize, one: impl Fn(usize) + Sync) {
    each_with(count, || (), |(), index| one(index));
}

/// [`each`] with a state, such as working memory, that each participating thread initialises once.
pub(crate) fn each_with<S>(count: usize, start: impl Fn() -> S + Sync, one: impl Fn(&mut S, usize) + Sync) {
    let helpers = threads().min(count).saturating_sub(1).min(MOST_HELPERS);
    if helpers == 0 {
        let mut state = start();
        return (0..count).for_each(|index| one(&mut state, index));
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut state = None;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            one(state.get_or_insert_with(&start), index);
        }
    };
    match OFFERS.iter().find(|offer| offer.claim()) {
        Some(offer) => offer.work(helpers, &take),
        None => take(),
    }
}

/// Does something with every part of some elements, each of this many but the last, and with its number.
pub(crate) fn each_part<T: Send>(elements: &mut [T], length: usize, one: impl Fn(usize, &mut [T]) + Sync) {
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
        // SAFETY: this part lies inside of the elements, which nobody else has meanwhile, and every number comes once.
        let part = unsafe { std::slice::from_raw_parts_mut(first.address().add(begin), length.min(count - begin)) };
        one(number, part);
    });
}

/// A task that helpers may join.
struct Offer {
    /// Whether it belongs to someone.
    claimed: AtomicBool,
    /// How many helpers are inside, and, above [`SEAT`], how many more may come. Those inside may look at the task.
    state: AtomicU32,
    task: UnsafeCell<Option<&'static (dyn Fn() + Sync)>>,
    /// What a helper panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A place in an offer for one more helper.
const SEAT: u32 = 1 << 16;

// SAFETY: the task is written by whoever claimed the offer while there is neither a seat nor anyone inside, and read by those
// inside.
unsafe impl Sync for Offer {}

static OFFERS: [Offer; MOST_OFFERS] = [const {
    Offer {
        claimed: AtomicBool::new(false),
        state: AtomicU32::new(0),
        task: UnsafeCell::new(None),
        panic: Mutex::new(None),
    }
}; MOST_OFFERS];

impl Offer {
    fn claim(&self) -> bool {
        !self.claimed.load(Ordering::Relaxed) && !self.claimed.swap(true, Ordering::Acquire)
    }

    /// Does a claimed task here, and on as many helpers as come, up to a number.
    fn work(&self, helpers: usize, task: &(dyn Fn() + Sync)) {
        // SAFETY: the longer life is a pretence. Only helpers inside look at the task, and below all of them are waited for, after
        // nobody can come any more, even if the task panics. Nobody is inside yet, so nobody reads while this is written.
        unsafe { *self.task.get() = Some(std::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(task)) };
        self.state.store(helpers as u32 * SEAT, Ordering::Release);
        call(helpers);
        let own = catch_unwind(AssertUnwindSafe(task));
        self.state.fetch_and(SEAT - 1, Ordering::Relaxed);
        wait_until(Duration::MAX, || self.state.load(Ordering::Acquire) == 0);
        let panic = locked(&self.panic).take().or(own.err());
        self.claimed.store(false, Ordering::Release);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Joins the task if there is a seat, and tells whether there was one.
    fn join(&self) -> bool {
        let seated = |state: u32| state.checked_sub(SEAT).map(|state| state + 1);
        if self.state.load(Ordering::Relaxed) < SEAT
            || self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, seated).is_err()
        {
            return false;
        }
        // SAFETY: this helper is inside.
        if let Some(task) = unsafe { *self.task.get() }
            && let Err(panic) = catch_unwind(AssertUnwindSafe(task))
        {
            *locked(&self.panic) = Some(panic);
        }
        self.state.fetch_sub(1, Ordering::Release);
        true
    }
}

/// Grows with every offer: helpers look again when it does.
static OFFERED: AtomicUsize = AtomicUsize::new(0);
/// How many helpers there are, and how many of them sleep.
static HIRED: AtomicUsize = AtomicUsize::new(0);
static SLEEPING: AtomicUsize = AtomicUsize::new(0);
/// Held to hire, to fall asleep and to wake up.
static DOOR: Mutex<()> = Mutex::new(());
static BELL: Condvar = Condvar::new();

/// Tells helpers that there is an offer, hires those that are not there yet, and wakes as many as are needed.
fn call(helpers: usize) {
    OFFERED.fetch_add(1, Ordering::SeqCst);
    if HIRED.load(Ordering::Relaxed) < helpers {
        hire(helpers);
    }
    // A helper counts itself as sleeping before it looks at `OFFERED` for the last time, so that one of the two is seen.
    let sleeping = SLEEPING.load(Ordering::SeqCst);
    let awake = HIRED.load(Ordering::Relaxed).saturating_sub(sleeping);
    if sleeping > 0 && awake < helpers {
        let _door = locked(&DOOR);
        (awake..helpers).for_each(|_| BELL.notify_one());
    }
}

fn hire(helpers: usize) {
    let _door = locked(&DOOR);
    for number in HIRED.load(Ordering::Relaxed)..helpers {
        let helper = std::thread::Builder::new().name(format!("glassgrad {}", number + 1));
        // A system without threads, or with too many already, has fewer helpers.
        if helper.spawn(help).is_err() {
            break;
        }
        HIRED.fetch_add(1, Ordering::Relaxed);
    }
}

/// The life of a helper.
fn help() {
    // What a task does on several threads is done by this one alone.
    LIMIT.set(Some(1));
    loop {
        let known = OFFERED.load(Ordering::SeqCst);
        let joined = OFFERS.iter().filter(|offer| offer.join()).count() > 0;
        let is_new = || OFFERED.load(Ordering::SeqCst) != known;
        if joined || wait_until(AWAKE, is_new) {
            continue;
        }
        let mut door = locked(&DOOR);
        SLEEPING.fetch_add(1, Ordering::SeqCst);
        while !is_new() {
            door = BELL.wait(door).unwrap_or_else(PoisonError::into_inner);
        }
        SLEEPING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until something is so, awake, for at most some time; tells whether it came to be.
fn wait_until(limit: Duration, is_so: impl Fn() -> bool) -> bool {
    const LOOKS: usize = 32;
    let mut begin = None;
    loop {
        for _ in 0..LOOKS {
            if is_so() {
                return true;
            }
            std::hint::spin_loop();
        }
        let waited = begin.get_or_insert_with(Instant::now).elapsed();
        if waited > limit {
            return false;
        }
        if waited > EAGER {
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
            for worker in 0..2 * MOST_OFFERS {
                scope.spawn(move || {
                    for round in 0..60 {
                        let sum = AtomicUsize::new(0);
                        with_threads(3, || {
                            each(20, |k| each(3, |j| _ = sum.fetch_add(k * 3 + j, Ordering::Relaxed)));
                        });
                        assert_eq!(sum.into_inner(), 59 * 60 / 2);
                        if (round + worker) % 20 == 0 {
                            std::thread::sleep(2 * AWAKE);
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
        std::thread::sleep(5 * AWAKE);
        assert_eq!(both(), 2);
    }
}
