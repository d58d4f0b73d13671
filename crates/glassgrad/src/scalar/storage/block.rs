//! Memory of the blocks of a tape: allocated without initialisation, and recycled within its thread.
//!
//! A gradient inside of a gradient makes and drops a tape for each evaluation. The allocator of the system returns such memory to
//! the operating system and has it mapped anew, which costs more than recording into it; so a dropped tape leaves its blocks
//! to the next one of the thread, up to [`RETAINED`] bytes.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// The unit of allocation, which determines the alignment.
type Word = MaybeUninit<u128>;

/// Bytes of dropped tapes that a thread keeps.
const RETAINED: usize = 1 << 20;

thread_local! {
    static RETIRED: RefCell<Retired> = const { RefCell::new(Retired { blocks: Vec::new(), bytes: 0 }) };
}

#[derive(Debug)]
struct Retired {
    blocks: Vec<Box<[Word]>>,
    bytes: usize,
}

/// Uninitialised memory for elements of type `C`, which is a type that needs no initialisation.
#[derive(Debug)]
pub(super) struct Block<C> {
    /// An allocation that only this block refers to, as a pointer: moving a `Box` would invalidate other pointers into it.
    words: *mut [Word],
    length: usize,
    elements: PhantomData<C>,
}

// SAFETY: a block owns its memory.
#[allow(unsafe_code)]
unsafe impl<C: Send> Send for Block<C> {}

impl<C> Block<C> {
    /// # Safety
    /// A `C` of uninitialised bytes is valid, as an array of `MaybeUninit` is.
    #[allow(unsafe_code)]
    pub(super) unsafe fn new(length: usize) -> Self {
        const { assert!(align_of::<C>() <= align_of::<Word>(), "the elements of a block are aligned like its words") };
        let words = (length * size_of::<C>()).div_ceil(size_of::<Word>());
        let recycled = RETIRED.try_with(|retired| {
            let mut retired = retired.borrow_mut();
            let place = retired.blocks.iter().rposition(|block| block.len() == words)?;
            retired.bytes -= words * size_of::<Word>();
            Some(retired.blocks.swap_remove(place))
        });
        // SAFETY: words need no initialisation.
        let fresh = || unsafe { Box::<[Word]>::new_uninit_slice(words).assume_init() };
        let memory = recycled.ok().flatten().unwrap_or_else(fresh);
        Block { words: Box::into_raw(memory), length, elements: PhantomData }
    }

    /// The first element. The pointer stays valid as long as the block, also when it is moved.
    pub(super) fn as_mut_ptr(&mut self) -> *mut C {
        self.words.cast()
    }

    #[allow(unsafe_code)]
    pub(super) fn as_slice(&self) -> &[C] {
        // SAFETY: the words cover `length` elements, aligned, of a type that needs no initialisation.
        unsafe { std::slice::from_raw_parts(self.words.cast(), self.length) }
    }

    #[allow(unsafe_code)]
    pub(super) fn as_mut_slice(&mut self) -> &mut [C] {
        // SAFETY: as above, and the block is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.words.cast(), self.length) }
    }
}

impl<C> Drop for Block<C> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the pointer comes from `Box::into_raw`, and nobody else frees it.
        let memory = unsafe { Box::from_raw(self.words) };
        let bytes = size_of_val(&*memory);
        // A thread that ends has no list any more; then the memory is freed here.
        let _ = RETIRED.try_with(|retired| {
            let mut retired = retired.borrow_mut();
            if retired.bytes + bytes <= RETAINED {
                retired.bytes += bytes;
                retired.blocks.push(memory);
            }
        });
    }
}
