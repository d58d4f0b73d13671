//! The nodes of a tape in [chunks](crate::scalar::storage), each a structure of arrays.

use std::mem::MaybeUninit;

use crate::ops::{Operation, Real};
use crate::scalar::storage::{self, Chunks};

/// Nodes in a chunk.
const CHUNK: usize = 32;

/// Marks an operand slot that holds no node. In that slot the partial derivative is free, and holds
/// the constant operand or the parameter of the operation instead.
pub(super) const NONE: u32 = u32::MAX;

/// The arrays of a chunk. Nodes are initialised from the first on.
#[derive(Debug)]
struct Chunk<T> {
    parents: [MaybeUninit<[u32; 2]>; CHUNK],
    partials: [MaybeUninit<[T; 2]>; CHUNK],
    values: [MaybeUninit<T>; CHUNK],
    operations: [MaybeUninit<Operation>; CHUNK],
}

/// The nodes of a chunk that are recorded.
pub(super) struct Recorded<'c, T> {
    pub(super) parents: &'c [[u32; 2]],
    pub(super) partials: &'c [[T; 2]],
    values: &'c [T],
    operations: &'c [Operation],
}

/// The nodes of a chunk that are recorded, to be evaluated anew.
pub(super) struct RecordedMut<'c, T> {
    pub(super) parents: &'c mut [[u32; 2]],
    pub(super) partials: &'c mut [[T; 2]],
    pub(super) values: &'c mut [T],
    pub(super) operations: &'c [Operation],
}

/// One node as stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<T> {
    pub(super) operation: Operation,
    pub(super) parents: [u32; 2],
    pub(super) partials: [T; 2],
    pub(super) value: T,
}

// SAFETY: a chunk consists of arrays of `MaybeUninit`, which need no initialisation.
#[allow(unsafe_code)]
unsafe impl<T> storage::Chunk for Chunk<T> {
    const SIZE: usize = CHUNK;
    const MOST: usize = NONE as usize;
}

/// The nodes of a tape.
///
/// Invariant: all nodes of `chunks` are initialised.
#[derive(Debug)]
pub(super) struct Nodes<T> {
    chunks: Chunks<Chunk<T>>,
}

impl<T> Stored<T> {
    /// The slots that hold nodes.
    pub(super) fn parents(&self) -> impl Iterator<Item = u32> + use<T> {
        self.parents.into_iter().filter(|parent| *parent != NONE)
    }
}

impl<T: Copy> Chunk<T> {
    /// # Safety
    /// The first `count` nodes are recorded.
    #[inline(always)]
    #[allow(unsafe_code)]
    unsafe fn recorded(&self, count: usize) -> Recorded<'_, T> {
        // SAFETY: by the contract of this function; recording a node writes all four arrays.
        unsafe {
            Recorded {
                parents: self.parents[..count].assume_init_ref(),
                partials: self.partials[..count].assume_init_ref(),
                values: self.values[..count].assume_init_ref(),
                operations: self.operations[..count].assume_init_ref(),
            }
        }
    }

    /// # Safety
    /// The first `count` nodes are recorded.
    #[inline(always)]
    #[allow(unsafe_code)]
    unsafe fn recorded_mut(&mut self, count: usize) -> RecordedMut<'_, T> {
        // SAFETY: as above.
        unsafe {
            RecordedMut {
                parents: self.parents[..count].assume_init_mut(),
                partials: self.partials[..count].assume_init_mut(),
                values: self.values[..count].assume_init_mut(),
                operations: self.operations[..count].assume_init_ref(),
            }
        }
    }
}

impl<T: Real> Nodes<T> {
    pub(super) fn new() -> Self {
        Nodes { chunks: Chunks::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunks.bytes()
    }

    pub(super) fn clear(&mut self) {
        self.chunks.clear();
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    pub(super) fn push(&mut self, operation: Operation, parents: [u32; 2], partials: [T; 2], value: T) -> u32 {
        let (index, chunk, place) = self.chunks.push();
        // SAFETY: the chunk of the node that was just added is allocated, and no reference into the chunks is alive while
        // `self` is borrowed mutably. Every place of a chunk is below `CHUNK`.
        unsafe {
            (&raw mut (*chunk).parents[place]).write(MaybeUninit::new(parents));
            (&raw mut (*chunk).partials[place]).write(MaybeUninit::new(partials));
            (&raw mut (*chunk).values[place]).write(MaybeUninit::new(value));
            (&raw mut (*chunk).operations[place]).write(MaybeUninit::new(operation));
        }
        index as u32
    }

    #[inline]
    #[allow(unsafe_code)]
    fn locate(&self, index: u32) -> (Recorded<'_, T>, usize) {
        assert!((index as usize) < self.len(), "node {index} is not on this tape, which has {} nodes", self.len());
        let place = index as usize % CHUNK;
        // SAFETY: nodes below the length are recorded.
        (unsafe { self.chunks.chunk(index as usize / CHUNK).recorded(place + 1) }, place)
    }

    #[inline]
    pub(super) fn value(&self, index: u32) -> T {
        let (chunk, place) = self.locate(index);
        chunk.values[place]
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Stored<T> {
        let (chunk, place) = self.locate(index);
        Stored {
            operation: chunk.operations[place],
            parents: chunk.parents[place],
            partials: chunk.partials[place],
            value: chunk.values[place],
        }
    }

    pub(super) fn set_value(&mut self, index: u32, value: T) {
        assert!((index as usize) < self.len(), "node {index} is not on this tape, which has {} nodes", self.len());
        self.chunks.chunk_mut(index as usize / CHUNK).values[index as usize % CHUNK].write(value);
    }

    /// The chunks that hold nodes.
    #[allow(unsafe_code)]
    pub(super) fn chunks_mut(&mut self) -> impl Iterator<Item = RecordedMut<'_, T>> {
        let length = self.len();
        self.chunks.iter_mut().enumerate().map(move |(number, chunk)| {
            let count = (length - number * CHUNK).min(CHUNK);
            // SAFETY: nodes below the length are recorded.
            unsafe { chunk.recorded_mut(count) }
        })
    }

    /// The chunks that hold nodes below `end`, each with the index of its first node.
    #[allow(unsafe_code)]
    pub(super) fn chunks_below(&self, end: usize) -> impl DoubleEndedIterator<Item = (usize, Recorded<'_, T>)> {
        assert!(end <= self.len(), "node {end} is not on this tape, which has {} nodes", self.len());
        (0..end.div_ceil(CHUNK)).map(move |number| {
            let start = number * CHUNK;
            // SAFETY: nodes below the length are recorded.
            (start, unsafe { self.chunks.chunk(number).recorded((end - start).min(CHUNK)) })
        })
    }
}
