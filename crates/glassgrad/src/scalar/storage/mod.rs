//! Storage of recordings: a list of blocks that never move, each an array of chunks.
//!
//! Blocks instead of one growing vector, because growing would copy everything recorded so far and
//! hold old and new at once. They grow geometrically from one chunk to [`LARGEST`] chunks: a tape of twenty
//! nodes allocates one kilobyte, and ten million nodes take ten million times the size of a node.
//! Memory is not initialised before a node is recorded in it.

mod block;

use block::Block;

/// Chunks in the largest blocks. Blocks have 1, 1, 2, 4, … chunks, so that block `k` starts at chunk 2ᵏ⁻¹.
const LARGEST: usize = 32;
/// The number of blocks before the first of the largest size.
const GROWING: usize = LARGEST.ilog2() as usize + 1;

/// What a chunk is made of.
///
/// # Safety
/// A chunk of uninitialised bytes is valid, as an array of `MaybeUninit` is.
#[allow(unsafe_code)]
pub(super) unsafe trait Chunk {
    /// Nodes in a chunk, a power of two.
    const SIZE: usize;
    /// The largest number of nodes that a recording may have.
    const MOST: usize;
}

/// The chunks of a recording of `length` nodes.
///
/// Invariant: every chunk in which one of the first `length` nodes lies is allocated; and unless `length` is a multiple of
/// `C::SIZE`, `open` points to the chunk in which node `length` lies. Blocks stay where they are until the chunks are
/// dropped, so `open` stays valid; references to their elements come from the same raw pointer.
#[derive(Debug)]
pub(super) struct Chunks<C> {
    length: usize,
    open: *mut C,
    blocks: Vec<Block<C>>,
}

// SAFETY: `open` points into `blocks`, which the chunks own; nothing else has it.
#[allow(unsafe_code)]
unsafe impl<C: Send> Send for Chunks<C> {}

/// The block of a chunk, and its place in that block.
#[inline(always)]
fn place_of(chunk: usize) -> (usize, usize) {
    match chunk.checked_ilog2() {
        None => (0, 0),
        Some(log) if chunk < LARGEST => (log as usize + 1, chunk - (1 << log)),
        Some(_) => (GROWING - 1 + chunk / LARGEST, chunk % LARGEST),
    }
}

impl<C: Chunk> Chunks<C> {
    pub(super) fn new() -> Self {
        Chunks { blocks: Vec::new(), open: std::ptr::null_mut(), length: 0 }
    }

    /// The number of nodes.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn bytes(&self) -> usize {
        let chunks: usize = self.blocks.iter().map(|block| block.as_slice().len()).sum();
        chunks * size_of::<C>() + self.blocks.capacity() * size_of::<Block<C>>()
    }

    /// Forgets the nodes and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Adds a node: its number, its chunk and its place in that chunk, where the caller writes it. The pointer is valid for
    /// writes until the chunks are borrowed again.
    #[inline(always)]
    pub(super) fn push(&mut self) -> (usize, *mut C, usize) {
        let index = self.length;
        let place = index % C::SIZE;
        if place == 0 {
            self.open_chunk();
        }
        self.length = index + 1;
        (index, self.open, place)
    }

    /// Points `open` to the chunk of the next node, which is the first of its chunk.
    #[cold]
    #[inline(never)]
    #[allow(unsafe_code)]
    fn open_chunk(&mut self) {
        let (block, place) = place_of(self.length / C::SIZE);
        if block == self.blocks.len() {
            assert!(
                self.length + LARGEST * C::SIZE < C::MOST,
                "a tape holds at most {} nodes; clear it or use more tapes",
                C::MOST
            );
            let chunks = 1 << block.saturating_sub(1).min(GROWING - 1);
            // SAFETY: a chunk needs no initialisation.
            self.blocks.push(unsafe { Block::new(chunks) });
        }
        self.open = self.blocks[block].as_mut_ptr().wrapping_add(place);
    }

    /// The chunk of this number.
    #[inline(always)]
    pub(super) fn chunk(&self, number: usize) -> &C {
        let (block, place) = place_of(number);
        &self.blocks[block].as_slice()[place]
    }

    #[inline(always)]
    pub(super) fn chunk_mut(&mut self, number: usize) -> &mut C {
        let (block, place) = place_of(number);
        &mut self.blocks[block].as_mut_slice()[place]
    }

    /// The chunks that hold nodes.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut C> {
        let chunks = self.length.div_ceil(C::SIZE);
        self.blocks.iter_mut().flat_map(Block::as_mut_slice).take(chunks)
    }
}
