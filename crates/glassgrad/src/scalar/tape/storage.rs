//! Storage of nodes: a list of fixed blocks, each a structure of arrays.
//!
//! Blocks instead of one growing vector, because growing would copy everything recorded so far and
//! hold old and new at once; so ten million nodes take ten million times the size of a node and no
//! more. A position inside a block is an index below a power of two, which needs no bounds check.

use crate::algebra::c;
use crate::ops::{Operation, Real};

/// Nodes in a block.
const BLOCK: usize = 1024;

/// Marks an operand slot that holds no node. In that slot the partial derivative is free, and holds
/// the constant operand or the parameter of the operation instead.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Block<T> {
    pub(super) parents: [[u32; 2]; BLOCK],
    pub(super) partials: [[T; 2]; BLOCK],
    pub(super) values: [T; BLOCK],
    pub(super) operations: [Operation; BLOCK],
}

/// One node as stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<T> {
    pub(super) operation: Operation,
    pub(super) parents: [u32; 2],
    pub(super) partials: [T; 2],
    pub(super) value: T,
}

#[derive(Debug)]
pub(super) struct Nodes<T> {
    blocks: Vec<Box<Block<T>>>,
    length: usize,
}

impl<T> Stored<T> {
    /// The slots that hold nodes.
    pub(super) fn parents(&self) -> impl Iterator<Item = u32> + use<T> {
        self.parents.into_iter().filter(|parent| *parent != NONE)
    }
}

impl<T: Real> Nodes<T> {
    pub(super) fn new() -> Self {
        Nodes { blocks: Vec::new(), length: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<Block<T>>() + self.blocks.capacity() * size_of::<Box<Block<T>>>()
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    #[inline(always)]
    pub(super) fn push(&mut self, operation: Operation, parents: [u32; 2], partials: [T; 2], value: T) -> u32 {
        let index = self.length;
        let block = match self.blocks.get_mut(index / BLOCK) {
            Some(block) => block,
            None => self.grow(),
        };
        let place = index % BLOCK;
        block.parents[place] = parents;
        block.partials[place] = partials;
        block.values[place] = value;
        block.operations[place] = operation;
        self.length = index + 1;
        index as u32
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> &mut Block<T> {
        assert!(self.length + BLOCK < NONE as usize, "a tape holds at most {} nodes; clear it or use more tapes", NONE);
        self.blocks.push(Box::new(Block {
            parents: [[NONE; 2]; BLOCK],
            partials: [[c(0.0); 2]; BLOCK],
            values: [c(0.0); BLOCK],
            operations: [Operation::Input; BLOCK],
        }));
        self.blocks.last_mut().expect("just pushed")
    }

    #[inline]
    fn locate(&self, index: u32) -> (&Block<T>, usize) {
        assert!((index as usize) < self.length, "node {index} is not on this tape, which has {} nodes", self.length);
        (&self.blocks[index as usize / BLOCK], index as usize % BLOCK)
    }

    #[inline]
    pub(super) fn value(&self, index: u32) -> T {
        let (block, place) = self.locate(index);
        block.values[place]
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Stored<T> {
        let (block, place) = self.locate(index);
        Stored {
            operation: block.operations[place],
            parents: block.parents[place],
            partials: block.partials[place],
            value: block.values[place],
        }
    }

    pub(super) fn set_value(&mut self, index: u32, value: T) {
        self.blocks[index as usize / BLOCK].values[index as usize % BLOCK] = value;
    }

    /// The blocks that hold nodes, each with the number of nodes in it.
    pub(super) fn blocks_mut(&mut self) -> impl Iterator<Item = (usize, &mut Block<T>)> {
        let length = self.length;
        let count = length.div_ceil(BLOCK);
        self.blocks[..count]
            .iter_mut()
            .enumerate()
            .map(move |(number, block)| ((length - number * BLOCK).min(BLOCK), &mut **block))
    }

    /// The blocks that hold nodes below `end`, each with the index of its first node and the number
    /// of nodes in it.
    pub(super) fn blocks_below(&self, end: usize) -> impl DoubleEndedIterator<Item = (usize, usize, &Block<T>)> {
        let count = end.div_ceil(BLOCK);
        self.blocks[..count].iter().enumerate().map(move |(number, block)| {
            let start = number * BLOCK;
            (start, (end - start).min(BLOCK), &**block)
        })
    }
}
