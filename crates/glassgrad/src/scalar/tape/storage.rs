//! Storage of nodes: a list of blocks that never move, each an array of chunks, each chunk a structure of arrays.
//!
//! Blocks instead of one growing vector, because growing would copy everything recorded so far and
//! hold old and new at once. They grow geometrically from one chunk to [`LARGEST`] chunks: a tape of twenty
//! nodes allocates one kilobyte, and ten million nodes take ten million times the size of a node.
//! Memory is not initialised before a node is recorded in it.

use std::mem::MaybeUninit;

use super::block::Block;
use crate::ops::{Operation, Real};

/// Nodes in a chunk.
const CHUNK: usize = 32;
/// Chunks in the largest blocks. Blocks have 1, 1, 2, 4, … chunks, so that block `k` starts at chunk 2ᵏ⁻¹.
const LARGEST: usize = 32;
/// The number of blocks before the first of the largest size.
const GROWING: usize = LARGEST.ilog2() as usize + 1;

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

/// The nodes of a tape.
///
/// Invariant: the first `length` nodes, counted through all blocks, are initialised; and unless `length` is a multiple of
/// `CHUNK`, `open` points to the chunk in which node `length` lies. Blocks stay where they are until the nodes are
/// dropped, so `open` stays valid; references to their elements come from the same raw pointer.
#[derive(Debug)]
pub(super) struct Nodes<T> {
    blocks: Vec<Block<Chunk<T>>>,
    open: *mut Chunk<T>,
    length: usize,
}

// SAFETY: `open` points into `blocks`, which the nodes own; nothing else has it.
#[allow(unsafe_code)]
unsafe impl<T: Send> Send for Nodes<T> {}

impl<T> Stored<T> {
    /// The slots that hold nodes.
    pub(super) fn parents(&self) -> impl Iterator<Item = u32> + use<T> {
        self.parents.into_iter().filter(|parent| *parent != NONE)
    }
}

/// The block of a chunk, and its place in that block.
#[inline(always)]
fn place_of(chunk: usize) -> (usize, usize) {
    match chunk.checked_ilog2() {
        None => (0, 0),
        Some(log) if chunk < LARGEST => (log as usize + 1, chunk - (1 << log)),
        Some(_) => (GROWING - 1 + chunk / LARGEST, chunk % LARGEST),
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
        Nodes { blocks: Vec::new(), open: std::ptr::null_mut(), length: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn bytes(&self) -> usize {
        let chunks: usize = self.blocks.iter().map(|block| block.as_slice().len()).sum();
        chunks * size_of::<Chunk<T>>() + self.blocks.capacity() * size_of::<Block<Chunk<T>>>()
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    pub(super) fn push(&mut self, operation: Operation, parents: [u32; 2], partials: [T; 2], value: T) -> u32 {
        let index = self.length;
        let place = index % CHUNK;
        if place == 0 {
            self.open_chunk();
        }
        // SAFETY: `open` points to the chunk of this node, by the invariant or because it was just opened, and no
        // reference into the blocks is alive while `self` is borrowed mutably. Every place of a chunk is below `CHUNK`.
        unsafe {
            let chunk = self.open;
            (&raw mut (*chunk).parents[place]).write(MaybeUninit::new(parents));
            (&raw mut (*chunk).partials[place]).write(MaybeUninit::new(partials));
            (&raw mut (*chunk).values[place]).write(MaybeUninit::new(value));
            (&raw mut (*chunk).operations[place]).write(MaybeUninit::new(operation));
        }
        self.length = index + 1;
        index as u32
    }

    /// Points `open` to the chunk of the next node, which is the first of its chunk.
    #[cold]
    #[inline(never)]
    #[allow(unsafe_code)]
    fn open_chunk(&mut self) {
        let (block, place) = place_of(self.length / CHUNK);
        if block == self.blocks.len() {
            assert!(
                self.length + LARGEST * CHUNK < NONE as usize,
                "a tape holds at most {NONE} nodes; clear it or use more tapes"
            );
            let chunks = 1 << block.saturating_sub(1).min(GROWING - 1);
            // SAFETY: a chunk consists of arrays of `MaybeUninit`, which need no initialisation.
            self.blocks.push(unsafe { Block::new(chunks) });
        }
        self.open = self.blocks[block].as_mut_ptr().wrapping_add(place);
    }

    #[inline]
    #[allow(unsafe_code)]
    fn locate(&self, index: u32) -> (Recorded<'_, T>, usize) {
        assert!((index as usize) < self.length, "node {index} is not on this tape, which has {} nodes", self.length);
        let (block, chunk) = place_of(index as usize / CHUNK);
        let place = index as usize % CHUNK;
        // SAFETY: nodes below `length` are recorded.
        (unsafe { self.blocks[block].as_slice()[chunk].recorded(place + 1) }, place)
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
        assert!((index as usize) < self.length, "node {index} is not on this tape, which has {} nodes", self.length);
        let (block, chunk) = place_of(index as usize / CHUNK);
        self.blocks[block].as_mut_slice()[chunk].values[index as usize % CHUNK].write(value);
    }

    /// The chunks that hold nodes.
    #[allow(unsafe_code)]
    pub(super) fn chunks_mut(&mut self) -> impl Iterator<Item = RecordedMut<'_, T>> {
        let length = self.length;
        let chunks = self.blocks.iter_mut().flat_map(Block::as_mut_slice).take(length.div_ceil(CHUNK)).enumerate();
        chunks.map(move |(number, chunk)| {
            let count = (length - number * CHUNK).min(CHUNK);
            // SAFETY: nodes below `length` are recorded.
            unsafe { chunk.recorded_mut(count) }
        })
    }

    /// The chunks that hold nodes below `end`, each with the index of its first node.
    #[allow(unsafe_code)]
    pub(super) fn chunks_below(&self, end: usize) -> impl DoubleEndedIterator<Item = (usize, Recorded<'_, T>)> {
        assert!(end <= self.length, "node {end} is not on this tape, which has {} nodes", self.length);
        (0..end.div_ceil(CHUNK)).map(move |number| {
            let (block, chunk) = place_of(number);
            let start = number * CHUNK;
            // SAFETY: nodes below `length` are recorded.
            (start, unsafe { self.blocks[block].as_slice()[chunk].recorded((end - start).min(CHUNK)) })
        })
    }
}
