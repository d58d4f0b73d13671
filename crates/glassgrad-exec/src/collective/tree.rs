//! The fixed binary tree over shards: the order in which sums over shards are evaluated, wherever the shards lie.

use std::ops::Range;

use crate::dtype::DType;

/// A subtree: `size` shards, a power of two, from `first` on, which is a multiple of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) first: usize,
    pub(super) size: usize,
}

impl Block {
    /// A single shard.
    pub(super) fn shard(shard: usize) -> Block {
        Block { first: shard, size: 1 }
    }

    /// The other child of the parent.
    pub(super) fn sibling(self) -> Block {
        Block { first: self.first ^ self.size, size: self.size }
    }

    pub(super) fn parent(self) -> Block {
        Block { first: self.first & !self.size, size: 2 * self.size }
    }

    /// Whether it is the first of the two children of its parent.
    pub(super) fn is_left(self) -> bool {
        self.first & self.size == 0
    }
}

/// The largest subtrees that a range of shards consists of, in order.
pub(super) fn cover(shards: Range<usize>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut first = shards.start;
    while first < shards.end {
        let mut size = 1;
        while first.is_multiple_of(2 * size) && first + 2 * size <= shards.end {
            size *= 2;
        }
        blocks.push(Block { first, size });
        first += size;
    }
    blocks
}

/// The shards of a rank: consecutive, and as many as others have, or one more.
pub(super) fn shards_of(rank: usize, ranks: usize, shards: usize) -> Range<usize> {
    rank * shards / ranks..(rank + 1) * shards / ranks
}

/// Adds the elements of the right child of a block to those of the left one, element by element.
pub(super) fn add(dtype: DType, left: &mut [u8], right: &[u8]) {
    fn each<const N: usize>(left: &mut [u8], right: &[u8], sum: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
        let words = left.as_chunks_mut::<N>().0.iter_mut().zip(right.as_chunks::<N>().0);
        words.for_each(|(left, right)| *left = sum(*left, *right));
    }
    debug_assert_eq!(left.len(), right.len());
    match dtype {
        DType::F32 => each(left, right, |a, b| (f32::from_ne_bytes(a) + f32::from_ne_bytes(b)).to_ne_bytes()),
        DType::F64 => each(left, right, |a, b| (f64::from_ne_bytes(a) + f64::from_ne_bytes(b)).to_ne_bytes()),
        DType::I64 => {
            each(left, right, |a, b| i64::from_ne_bytes(a).wrapping_add(i64::from_ne_bytes(b)).to_ne_bytes());
        }
        DType::Bool | DType::F16 | DType::BF16 | DType::I32 | DType::U8 => {
            unreachable!("sums over shards are of compute types, and truth values are refused: {dtype}")
        }
    }
}

/// Blocks in order, of which complete pairs of siblings are added as they come.
#[derive(Default)]
pub(super) struct Stack(Vec<(Block, Vec<u8>)>);

impl Stack {
    /// Adds the next block.
    pub(super) fn push(&mut self, dtype: DType, mut block: Block, mut bytes: Vec<u8>) {
        while let Some((left, sum)) = self.0.pop_if(|(left, _)| !block.is_left() && *left == block.sibling()) {
            let mut sum = sum;
            add(dtype, &mut sum, &bytes);
            (block, bytes) = (left.parent(), sum);
        }
        self.0.push((block, bytes));
    }

    /// The sum, when all shards were added.
    pub(super) fn whole(mut self) -> Vec<u8> {
        match (self.0.pop(), self.0.is_empty()) {
            (Some((_, bytes)), true) => bytes,
            (_, _) => unreachable!("blocks of all shards, in order, have one sum"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(number: f32) -> Vec<u8> {
        number.to_ne_bytes().to_vec()
    }

    #[test]
    fn a_range_consists_of_the_largest_subtrees() {
        let blocks = |range| cover(range).iter().map(|block| (block.first, block.size)).collect::<Vec<_>>();
        assert_eq!(blocks(0..8), [(0, 8)]);
        assert_eq!(blocks(3..6), [(3, 1), (4, 2)]);
        assert_eq!(blocks(1..8), [(1, 1), (2, 2), (4, 4)]);
        assert_eq!(blocks(2..2), []);
    }

    /// The sum by the definition of the tree.
    fn defined(numbers: &[f32]) -> f32 {
        match numbers {
            [one] => *one,
            several => {
                let (left, right) = several.split_at(several.len() / 2);
                defined(left) + defined(right)
            }
        }
    }

    #[test]
    fn any_division_among_ranks_gives_the_sum_of_the_tree() {
        let numbers: Vec<f32> = (0..16).map(|k| (k as f32 * 0.7).exp() * if k % 3 == 0 { -1.0 } else { 1.0 }).collect();
        let expected = defined(&numbers);
        // The order matters: these numbers have another sum from left to right.
        assert_ne!(expected, numbers.iter().sum::<f32>());
        for ranks in 1..=16 {
            let mut whole = Stack::default();
            for rank in 0..ranks {
                let own = shards_of(rank, ranks, 16);
                let mut local = Stack::default();
                own.clone().for_each(|shard| local.push(DType::F32, Block::shard(shard), bytes(numbers[shard])));
                let blocks: Vec<Block> = local.0.iter().map(|(block, _)| *block).collect();
                assert_eq!(blocks, cover(own));
                local.0.into_iter().for_each(|(block, sum)| whole.push(DType::F32, block, sum));
            }
            assert_eq!(whole.whole(), bytes(expected), "{ranks} ranks");
        }
    }
}
