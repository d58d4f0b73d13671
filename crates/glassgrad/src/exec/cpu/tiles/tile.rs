//! Some rows and columns of one product, from some of its sums: the work of one thread at a time.
#![allow(unsafe_code)]
// Loops over registers run by number: they must vanish even where adaptors of the standard library are not opened.
#![allow(clippy::needless_range_loop)]

use super::super::contraction::Factor;
use super::super::interpreter::elements_mut;
use super::super::isa::Isa;
use super::super::simd::Register;
use super::super::workspace::Workspace;
use super::panel::{Places, block, finish, pack};
use super::places::each_place;
use super::{Composite, DEPTH};
use crate::opt::memory::aligned;

/// Where the sums of a tile go instead of the result: elements row by row, for so many columns.
#[derive(Clone, Copy)]
pub(super) struct Part<E> {
    pub(super) at: *mut E,
    pub(super) columns: usize,
}

/// Some rows, columns and sums of one product.
pub(super) struct Tile<'p, E> {
    pub(super) composite: &'p Composite,
    pub(super) a: *const E,
    pub(super) b: *const E,
    pub(super) c: *mut E,
    pub(super) coefficient: E,
    pub(super) rows: [usize; 2],
    pub(super) columns: [usize; 2],
    pub(super) inner: [usize; 2],
    pub(super) part: Option<Part<E>>,
}

/// The places of rows and sums, and memory for packed columns.
struct Tables<'t> {
    /// Of each row, in the first factor and in the result.
    rows: [&'t [isize]; 2],
    /// Of each sum, in both factors.
    inner: [&'t [isize]; 2],
    packed: *mut u8,
    /// Whether sums are added to what is there.
    add: bool,
}

/// The bytes of packed columns.
const PACKED_BYTES: usize = aligned(DEPTH * 32 * 8);

/// The bytes of packed columns and of tables of places for a tile with `rows` rows.
pub(super) fn bytes(rows: usize) -> usize {
    PACKED_BYTES + (2 * rows + 2 * DEPTH) * size_of::<isize>()
}

impl<E: Factor> Tile<'_, E> {
    /// Computes the tile, with memory for packed columns and for the places of rows and sums.
    pub(super) unsafe fn run(&self, isa: Isa, memory: &mut Workspace) {
        let rows = self.rows[1] - self.rows[0];
        let packed = PACKED_BYTES;
        let scratch = memory.reserve(bytes(rows));
        let (row_tables, inner_tables) =
            elements_mut::<isize>(scratch.wrapping_add(packed), 2 * rows + 2 * DEPTH).split_at_mut(2 * rows);
        let (row_a, row_c) = row_tables.split_at_mut(rows);
        let (inner_a, inner_b) = inner_tables.split_at_mut(DEPTH);
        let width = self.part.map(|part| part.columns as isize);
        each_place(&self.composite.rows, self.rows, |row, places| {
            row_a[row] = places[0];
            row_c[row] = width.map_or(places[2], |width| row as isize * width);
        });
        let mut begin = self.inner[0];
        while begin < self.inner[1] {
            let end = (begin + DEPTH).min(self.inner[1]);
            each_place(&self.composite.inner, [begin, end], |sum, places| {
                inner_a[sum] = places[0];
                inner_b[sum] = places[1];
            });
            let tables = Tables {
                rows: [row_a, row_c],
                inner: [&inner_a[..end - begin], &inner_b[..end - begin]],
                packed: scratch,
                add: begin > self.inner[0] || self.composite.accumulates,
            };
            self.with_isa(isa, &tables);
            begin = end;
        }
    }

    /// Runs over all columns by the instructions of a level that this machine has: as many columns at a time as two
    /// registers hold, and the last in as narrow a panel as they need.
    unsafe fn with_isa(&self, isa: Isa, tables: &Tables<'_>) {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx2,fma")]
            unsafe fn wide<E: Factor>(tile: &Tile<'_, E>, tables: &Tables<'_>) {
                // Constant before anything is compiled: panels of the other type would be compiled too otherwise.
                if const { size_of::<E>() == 4 } {
                    tile.panels(32 / tile.narrower(), |first, width| match width {
                        0..=8 => tile.panel::<E::Medium, 1, 8, 8>(tables, first, width),
                        9..=16 => tile.panel::<E::Wide, 1, 16, 8>(tables, first, width),
                        _ => tile.panel::<E::Wide, 2, 32, 8>(tables, first, width),
                    });
                } else {
                    tile.panels(16 / tile.narrower(), |first, width| match width {
                        0..=8 => tile.panel::<E::Wide, 1, 8, 8>(tables, first, width),
                        _ => tile.panel::<E::Wide, 2, 16, 8>(tables, first, width),
                    });
                }
            }
            #[target_feature(enable = "avx2,fma")]
            unsafe fn medium<E: Factor>(tile: &Tile<'_, E>, tables: &Tables<'_>) {
                if const { size_of::<E>() == 4 } {
                    tile.panels(16, |first, width| match width {
                        0..=8 => tile.panel::<E::Medium, 1, 8, 4>(tables, first, width),
                        _ => tile.panel::<E::Medium, 2, 16, 4>(tables, first, width),
                    });
                } else {
                    tile.panels(8, |first, width| tile.panel::<E::Medium, 2, 8, 4>(tables, first, width));
                }
            }
            if const { E::LEVELS } {
                match isa {
                    // SAFETY: the machine has the instructions of the level at which its programs run.
                    Isa::Avx512 => return unsafe { wide(self, tables) },
                    // SAFETY: as above.
                    Isa::Avx2 => return unsafe { medium(self, tables) },
                    Isa::Baseline => {}
                }
            }
        }
        // Where there are 32 registers, four rows of 16 numbers of 32 bits fit beside what is multiplied.
        #[cfg(target_arch = "aarch64")]
        if const { size_of::<E>() == 4 } {
            return self.panels(16, |first, width| match width {
                0..=8 => self.panel::<E::Eight, 1, 8, 4>(tables, first, width),
                _ => self.panel::<E::Eight, 2, 16, 4>(tables, first, width),
            });
        }
        let _ = isa;
        self.panels(8, |first, width| self.panel::<E::Eight, 1, 8, 4>(tables, first, width));
    }

    /// How many times narrower panels are where places meet: what falls on one place is added up panel by panel, so that
    /// panels must be the same at both upper levels.
    #[inline(always)]
    fn narrower(&self) -> usize {
        if self.composite.accumulates { 2 } else { 1 }
    }

    /// Calls a function with the first column and the width of every panel.
    #[inline(always)]
    unsafe fn panels(&self, most: usize, mut panel: impl FnMut(usize, usize)) {
        let mut first = self.columns[0];
        while first < self.columns[1] {
            let width = (self.columns[1] - first).min(most);
            panel(first, width);
            first += width;
        }
    }

    /// Computes up to `W` columns, which are `N` registers, `H` rows at a time.
    #[inline(always)]
    unsafe fn panel<R: Register<E>, const N: usize, const W: usize, const H: usize>(
        &self,
        tables: &Tables<'_>,
        first: usize,
        width: usize,
    ) {
        let (mut in_b, mut in_c) = ([0_isize; W], [0_isize; W]);
        let own = self.part.map(|_| first as isize);
        each_place(&self.composite.columns, [first, first + width], |column, places| {
            in_b[column] = places[1];
            in_c[column] = own.map_or(places[2], |first| first + column as isize);
        });
        let (in_b, in_c) = (Places::new(in_b, width), Places::new(in_c, width));
        let lines = tables.packed.cast::<E>();
        pack(self.b, &in_b, tables.inner[1], lines.cast::<[E; W]>());
        let [row_a, row_c] = tables.rows;
        let c = self.part.map_or(self.c, |part| part.at);
        let coefficient = if self.part.is_some() { E::from_f64(1.0) } else { self.coefficient };
        let mut row = 0;
        // SAFETY: the level has the registers, there is a line for each sum, and the planner's strides stay inside.
        unsafe {
            while row + H <= row_a.len() {
                let mut starts = [self.a; H];
                for r in 0..H {
                    starts[r] = self.a.wrapping_offset(row_a[row + r]);
                }
                let sums = block::<E, R, N, W, H>(starts, tables.inner[0], lines);
                for r in 0..H {
                    finish::<E, R, N, W>(c.wrapping_offset(row_c[row + r]), &in_c, sums[r], coefficient, tables.add);
                }
                row += H;
            }
            while row < row_a.len() {
                let starts = [self.a.wrapping_offset(row_a[row])];
                let [sums] = block::<E, R, N, W, 1>(starts, tables.inner[0], lines);
                finish::<E, R, N, W>(c.wrapping_offset(row_c[row]), &in_c, sums, coefficient, tables.add);
                row += 1;
            }
        }
    }
}
