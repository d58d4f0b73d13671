//! Large products of matrices that are their own transposes, as XᵀX and XᵀDX.
//!
//! Both factors are packed, some sums at a time: rows of the first in groups and columns of the second in panels, as many as
//! registers hold sums for. The result is cut into square tiles; those up to the diagonal are computed, without what lies above
//! it, and mirrored at the end while they are near. Threads take tiles. Packing serves all tiles, which is why this is not
//! left to a kernel that would pack again for each of them.
#![allow(unsafe_code)]
// Loops over registers run by number: they must vanish even where adaptors of the standard library are not opened.
#![allow(clippy::needless_range_loop)]

use super::contraction::Factor;
use super::interpreter::Frame;
#[cfg(target_arch = "x86_64")]
use super::isa::Isa;
use super::simd::Register;
use super::thread_pool;
use super::tiles::packed_block;
use super::workspace::Purpose;
use crate::memory::aligned;

/// The sums that are packed at a time.
const DEPTH: usize = 256;
/// The rows and columns of a tile: a multiple of all groups and panels.
const EDGE: usize = 96;

/// The bytes of both packed factors of a product with `size` rows.
pub(super) fn bytes(size: usize, element: usize) -> usize {
    2 * aligned(size.next_multiple_of(EDGE) * DEPTH * element)
}

/// A product that is its own transpose: addresses, and the steps from row to row, column to column and sum to sum in them.
/// The columns of the result are contiguous.
pub(super) struct Symmetric<E> {
    pub(super) size: usize,
    pub(super) sums: usize,
    pub(super) a: *const E,
    pub(super) a_steps: [isize; 2],
    pub(super) b: *const E,
    pub(super) b_steps: [isize; 2],
    pub(super) c: *mut E,
    pub(super) c_step: isize,
    pub(super) coefficient: E,
}

// SAFETY: threads read factors that nobody writes meanwhile, and write to tiles of their own.
unsafe impl<E> Sync for Symmetric<E> {}

/// Some sums of the product, packed: groups of rows, and panels of columns.
struct Packed<'p, E> {
    whole: &'p Symmetric<E>,
    groups: *mut E,
    panels: *mut E,
    first: usize,
    depth: usize,
}
// SAFETY: threads pack places of their own, then read what nobody writes, and write to tiles of their own.
unsafe impl<E> Sync for Packed<'_, E> {}

/// The first row and the first column of a tile.
type Corner = [usize; 2];
type TileKernel<E> = unsafe fn(&Packed<'_, E>, Corner);

impl<E: Factor> Symmetric<E> {
    /// Computes the product, on several threads if they are worth it.
    pub(super) unsafe fn run(&self, frame: &Frame<'_>, parallel: bool) {
        let isa = frame.isa;
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx2,fma")]
            unsafe fn wide<E: Factor, const W: usize>(packed: &Packed<'_, E>, corner: Corner) {
                packed.tile::<E::Wide, 2, W, 8>(corner);
            }
            #[target_feature(enable = "avx2,fma")]
            unsafe fn medium<E: Factor, const W: usize>(packed: &Packed<'_, E>, corner: Corner) {
                packed.tile::<E::Medium, 2, W, 4>(corner);
            }
            // Constant before anything is compiled: tiles of the other type would be compiled too otherwise.
            if const { size_of::<E>() == 4 } {
                match isa {
                    Isa::Avx512 => return self.cut::<32, 8>(frame, wide::<E, 32>, parallel),
                    Isa::Avx2 => return self.cut::<16, 4>(frame, medium::<E, 16>, parallel),
                    Isa::Baseline => {}
                }
            } else {
                match isa {
                    Isa::Avx512 => return self.cut::<16, 8>(frame, wide::<E, 16>, parallel),
                    Isa::Avx2 => return self.cut::<8, 4>(frame, medium::<E, 8>, parallel),
                    Isa::Baseline => {}
                }
            }
        }
        let _ = isa;
        // Where there are 32 registers, four rows of 16 numbers of 32 bits fit beside what is multiplied.
        #[cfg(target_arch = "aarch64")]
        if const { size_of::<E>() == 4 } {
            return self.cut::<16, 4>(frame, |packed, corner| packed.tile::<E::Eight, 2, 16, 4>(corner), parallel);
        }
        self.cut::<8, 4>(frame, |packed, corner| packed.tile::<E::Eight, 1, 8, 4>(corner), parallel);
    }

    /// Packs and computes some sums after others; panels have `W` columns, groups `H` rows.
    unsafe fn cut<const W: usize, const H: usize>(&self, frame: &Frame<'_>, kernel: TileKernel<E>, parallel: bool) {
        let each = |count: usize, one: &(dyn Fn(usize) + Sync)| match parallel {
            true => thread_pool::each(count, one),
            false => (0..count).for_each(one),
        };
        let mut memory = frame.workspaces.take(Purpose::SymmetricFactors);
        let both = bytes(self.size, size_of::<E>());
        let (groups, bytes) = (memory.reserve(both), both / 2);
        let across = self.size.div_ceil(EDGE);
        for first in (0..self.sums).step_by(DEPTH) {
            let depth = DEPTH.min(self.sums - first);
            let panels = groups.wrapping_add(bytes).cast();
            let packed = Packed { whole: self, groups: groups.cast(), panels, first, depth };
            each(2 * across, &|number| {
                let packed = &packed;
                let place = number / 2 * EDGE;
                if number.is_multiple_of(2) {
                    packed.pack::<H>(self.a, self.a_steps, packed.groups, place);
                } else {
                    packed.pack::<W>(self.b, self.b_steps, packed.panels, place);
                }
            });
            each(across * (across + 1) / 2, &|number| {
                // Rows of tiles from the last, which is the longest, to the first.
                let (mut down, mut column) = (across - 1, number);
                while column > down {
                    column -= down + 1;
                    down -= 1;
                }
                let (packed, corner) = (&packed, [down * EDGE, column * EDGE]);
                // SAFETY: the machine has the instructions of the level at which its programs run.
                unsafe { kernel(packed, corner) };
                if first + depth == self.sums {
                    packed.mirror(corner);
                }
            });
        }
    }
}

impl<E: Factor> Packed<'_, E> {
    /// Packs rows or columns of a factor from a place on, `L` of them side by side for one sum after another.
    unsafe fn pack<const L: usize>(&self, from: *const E, [step, along]: [isize; 2], to: *mut E, place: usize) {
        let Packed { whole, first, depth, .. } = self;
        for place in (place..(place + EDGE).min(whole.size)).step_by(L) {
            let count = L.min(whole.size - place);
            let from = from.wrapping_offset(place as isize * step + *first as isize * along);
            let lines = to.wrapping_add(place * DEPTH).cast::<[E; L]>();
            for k in 0..*depth {
                let at = from.wrapping_offset(k as isize * along);
                let line = if step == 1 && count == L {
                    // SAFETY: the planner's strides stay inside the factor, and this many elements are contiguous.
                    unsafe { at.cast::<[E; L]>().read_unaligned() }
                } else {
                    let mut line = [E::default(); L];
                    for (number, element) in line[..count].iter_mut().enumerate() {
                        // SAFETY: the planner's strides stay inside the factor.
                        *element = unsafe { *at.wrapping_offset(number as isize * step) };
                    }
                    line
                };
                // SAFETY: there is a line for each sum, which nobody else writes to.
                unsafe { lines.wrapping_add(k).write(line) };
            }
        }
    }

    /// Adds the packed sums to a tile, up to the diagonal.
    #[inline(always)]
    unsafe fn tile<R: Register<E>, const N: usize, const W: usize, const H: usize>(
        &self,
        [first_row, first_column]: Corner,
    ) {
        let Symmetric { size, c, c_step, coefficient, .. } = *self.whole;
        for row in (first_row..(first_row + EDGE).min(size)).step_by(H) {
            for column in (first_column..(first_column + EDGE).min(size)).step_by(W) {
                if row + H <= column {
                    break;
                }
                // SAFETY: the level has the registers; groups, panels and the tile are as large as they are asked for, and
                // nobody else writes to the tile.
                unsafe {
                    let sums = self.sums::<R, N, W, H>(row, column);
                    let scale = R::splat(coefficient);
                    for r in 0..H.min(size - row) {
                        let at = c.wrapping_offset((row + r) as isize * c_step + column as isize);
                        let mut edge = [E::default(); W];
                        let is_whole = column + W <= size;
                        let to = if is_whole { at } else { edge.as_mut_ptr() };
                        if !is_whole && self.first > 0 {
                            std::ptr::copy_nonoverlapping(at, to, size - column);
                        }
                        for n in 0..N {
                            let own = to.wrapping_add(n * (W / N));
                            let sum = sums[r][n].times(scale);
                            let sum = if self.first > 0 { R::load(own).plus(sum) } else { sum };
                            sum.store(own);
                        }
                        if !is_whole {
                            std::ptr::copy_nonoverlapping(to.cast_const(), at, size - column);
                        }
                    }
                }
            }
        }
    }

    /// The sums of a group of rows and a panel of columns.
    ///
    /// # Safety
    ///
    /// The machine has the registers, and the group and the panel are packed.
    #[inline(always)]
    unsafe fn sums<R: Register<E>, const N: usize, const W: usize, const H: usize>(
        &self,
        row: usize,
        column: usize,
    ) -> [[R; N]; H] {
        let (group, panel) = (self.groups.wrapping_add(row * DEPTH), self.panels.wrapping_add(column * DEPTH));
        // SAFETY: by the contract of this function.
        unsafe { packed_block::<E, R, N, W, H, H>(group, panel, self.depth) }
    }

    /// Writes what lies below the diagonal to where it lies above.
    unsafe fn mirror(&self, [first_row, first_column]: Corner) {
        let Symmetric { size, c, c_step, .. } = *self.whole;
        let at = |row: usize, column: usize| c.wrapping_offset(row as isize * c_step + column as isize);
        for column in first_column..(first_column + EDGE).min(size) {
            for row in first_row.max(column + 1)..(first_row + EDGE).min(size) {
                // SAFETY: both places lie inside of the result: in this tile, and in the one across the diagonal, which no
                // other thread has.
                unsafe { *at(column, row) = *at(row, column) };
            }
        }
    }
}
