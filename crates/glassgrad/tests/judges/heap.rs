//! A global allocator that counts, for tests that promise how much memory is used and when.

// Counting needs a global allocator, and that trait is unsafe. It forwards every call unchanged.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct CountingAllocator;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Tests of one binary run side by side, so calls are counted for each thread.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

fn count(added: usize, removed: usize) {
    // A thread that is being torn down has lost its counter and is of no interest.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    let live = LIVE.fetch_add(added, Ordering::Relaxed) + added;
    PEAK.fetch_max(live, Ordering::Relaxed);
    LIVE.fetch_sub(removed, Ordering::Relaxed);
}

// SAFETY: every method forwards its arguments to the system's allocator and returns its answer.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    // Old and new block are counted together, as both may be alive while the contents are copied.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// The number of allocations of this thread until now.
#[allow(dead_code)]
pub(crate) fn allocations_so_far() -> usize {
    CALLS.with(Cell::get)
}

/// The number of allocations that a piece of work makes on this thread.
#[allow(dead_code)]
pub(crate) fn allocations(work: impl FnOnce()) -> usize {
    let before = allocations_so_far();
    work();
    allocations_so_far() - before
}

/// The bytes that are alive now.
#[allow(dead_code)]
pub(crate) fn live_bytes() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// The most bytes that were alive at once during a piece of work, beyond those alive before it.
/// It is right only while no other thread allocates: keep it to a binary with a single test.
#[allow(dead_code)]
pub(crate) fn peak_bytes<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    (result, PEAK.load(Ordering::Relaxed) - before)
}
