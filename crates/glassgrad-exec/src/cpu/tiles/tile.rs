//! Some rows and columns of one product, from some of its sums: the work of one thread at a time.
#![allow(unsafe_code)]
// Loops over registers run by number: they must vanish even where adaptors of the standard library are not opened.
#![allow(clippy::needless_range_loop)]

use super::super::contraction::Factor;
use super::super::interpreter::elements_mut;
use super::super::isa::Isa;
use super::super::simd::Register;
use super::super::workspace::Workspace;
use super::Composite;
use super::panel::{Places, block, finish, pack, packed_block, window_block};
use super::places::{each_place, each_run};
use crate::memory::aligned;

/// Where the sums of a tile go instead of the result: elements row by row, for this many columns.
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
    /// Whether rows are packed too: they are if several panels read them.
    pub(super) packs_rows: bool,
    /// The most sums that are packed at a time.
    pub(super) depth: usize,
}

/// The places of rows and sums, and memory for packed columns and rows.
struct Tables<'t> {
    /// Of each row, in the first factor and in the result.
    rows: [&'t [isize]; 2],
    /// Of each sum, in both factors.
    inner: [&'t [isize]; 2],
    panel: *mut u8,
    /// Memory for slabs of packed rows, if rows are packed.
    slabs: Option<*mut u8>,
    /// Whether sums are added to what is there.
    add: bool,
}

/// The bytes of a panel of packed columns.
const fn panel_bytes(depth: usize) -> usize {
    aligned(depth * 48 * 4)
}

/// Rows are packed in slabs; there is room for this many more than there are, in the last slab.
const MOST_HEIGHT: usize = 8;

/// The bytes of slabs of packed rows.
fn slab_bytes(rows: usize, depth: usize, element: usize) -> usize {
    aligned((rows + MOST_HEIGHT) * depth * element)
}

/// The bytes of packed columns, of packed rows if they are packed, and of tables of places for a tile with `rows` rows and `depth` sums
/// at a time.
pub(super) fn bytes(rows: usize, depth: usize, element: usize, packs_rows: bool) -> usize {
    let slabs = if packs_rows { slab_bytes(rows, depth, element) } else { 0 };
    panel_bytes(depth) + slabs + (2 * rows + 2 * depth) * size_of::<isize>()
}

impl<E: Factor> Tile<'_, E> {
    /// Computes the tile, with memory for packed columns and rows and for the places of rows and sums.
    pub(super) unsafe fn run(&self, isa: Isa, memory: &mut Workspace) {
        let rows = self.rows[1] - self.rows[0];
        let most = self.depth;
        let panel = memory.reserve(bytes(rows, most, size_of::<E>(), self.packs_rows));
        let slabs = panel.wrapping_add(panel_bytes(most));
        let tables = if self.packs_rows { slabs.wrapping_add(slab_bytes(rows, most, size_of::<E>())) } else { slabs };
        let (row_tables, inner_tables) = elements_mut::<isize>(tables, 2 * rows + 2 * most).split_at_mut(2 * rows);
        let (row_a, row_c) = row_tables.split_at_mut(rows);
        let (inner_a, inner_b) = inner_tables.split_at_mut(most);
        let width = self.part.map(|part| part.columns as isize);
        each_place(&self.composite.rows, self.rows, |row, places| {
            row_a[row] = places[0];
            row_c[row] = width.map_or(places[2], |width| row as isize * width);
        });
        // As few blocks of sums as can be, all about as long as each other.
        let sums = self.inner[1] - self.inner[0];
        let depth = sums.div_ceil(sums.div_ceil(most).max(1)).next_multiple_of(8).min(most);
        let mut begin = self.inner[0];
        while begin < self.inner[1] {
            let end = (begin + depth).min(self.inner[1]);
            each_place(&self.composite.inner, [begin, end], |sum, places| {
                inner_a[sum] = places[0];
                inner_b[sum] = places[1];
            });
            let tables = Tables {
                rows: [row_a, row_c],
                inner: [&inner_a[..end - begin], &inner_b[..end - begin]],
                panel,
                slabs: self.packs_rows.then_some(slabs),
                add: begin > self.inner[0] || self.composite.accumulates,
            };
            self.with_isa(isa, &tables);
            begin = end;
        }
    }

    /// Runs over all columns by the instructions of a level that this machine has: as many columns at a time as two or three
    /// registers hold, and the last in as narrow a panel as they need. Where places meet, what falls on one place is added up
    /// panel by panel: panels are the same at both upper levels then.
    unsafe fn with_isa(&self, isa: Isa, tables: &Tables<'_>) {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx2,fma")]
            unsafe fn wide<E: Factor>(tile: &Tile<'_, E>, tables: &Tables<'_>) {
                // Constant before anything is compiled: panels of the other type would be compiled too otherwise.
                tile.pack_rows::<E::Wide, 8>(tables);
                if const { size_of::<E>() == 4 } {
                    tile.panels(if tile.composite.accumulates { 16 } else { 48 }, |first, width| match width {
                        0..=8 => tile.panel::<E::Medium, 1, 8, 8, 8, 4>(tables, first, width),
                        9..=16 => tile.panel::<E::Wide, 1, 16, 8, 8, 4>(tables, first, width),
                        17..=32 => tile.panel::<E::Wide, 2, 32, 8, 8, 4>(tables, first, width),
                        _ => tile.panel::<E::Wide, 3, 48, 8, 8, 4>(tables, first, width),
                    });
                } else {
                    tile.panels(if tile.composite.accumulates { 8 } else { 24 }, |first, width| match width {
                        0..=8 => tile.panel::<E::Wide, 1, 8, 8, 8, 4>(tables, first, width),
                        9..=16 => tile.panel::<E::Wide, 2, 16, 8, 8, 4>(tables, first, width),
                        _ => tile.panel::<E::Wide, 3, 24, 8, 8, 4>(tables, first, width),
                    });
                }
            }
            #[target_feature(enable = "avx2,fma")]
            unsafe fn medium<E: Factor>(tile: &Tile<'_, E>, tables: &Tables<'_>) {
                tile.pack_rows::<E::Medium, 6>(tables);
                if const { size_of::<E>() == 4 } {
                    tile.panels(16, |first, width| match width {
                        0..=8 => tile.panel::<E::Medium, 1, 8, 4, 6, 3>(tables, first, width),
                        _ => tile.panel::<E::Medium, 2, 16, 4, 6, 3>(tables, first, width),
                    });
                } else {
                    tile.panels(8, |first, width| tile.panel::<E::Medium, 2, 8, 4, 6, 3>(tables, first, width));
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
        self.pack_rows::<E::Eight, 4>(tables);
        // Where there are 32 registers, four rows of 16 numbers of 32 bits fit beside what is multiplied.
        #[cfg(target_arch = "aarch64")]
        if const { size_of::<E>() == 4 } {
            return self.panels(16, |first, width| match width {
                0..=8 => self.panel::<E::Eight, 1, 8, 4, 4, 2>(tables, first, width),
                _ => self.panel::<E::Eight, 2, 16, 4, 4, 2>(tables, first, width),
            });
        }
        let _ = isa;
        self.panels(8, |first, width| self.panel::<E::Eight, 1, 8, 4, 4, 2>(tables, first, width));
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

    /// Packs rows in slabs of `S`, if rows are packed.
    #[inline(always)]
    unsafe fn pack_rows<R: Register<E>, const S: usize>(&self, tables: &Tables<'_>) {
        let Some(slabs) = tables.slabs else { return };
        let ([rows, _], [inner, _]) = (tables.rows, tables.inner);
        for first in (0..rows.len()).step_by(S) {
            let mut places = Places::new();
            rows[first..(first + S).min(rows.len())].iter().for_each(|place| places.extend(*place, 1, 1));
            let slab = slabs.cast::<E>().wrapping_add(first * inner.len());
            pack::<E, R, S>(self.a, &places, inner, slab);
        }
    }

    /// Computes up to `W` columns, which are `N` registers: `H` rows at a time where they lie, or the packed rows of a slab of
    /// `S`, and the last `T` of them or fewer.
    #[inline(always)]
    unsafe fn panel<R: Register<E>, const N: usize, const W: usize, const H: usize, const S: usize, const T: usize>(
        &self,
        tables: &Tables<'_>,
        first: usize,
        width: usize,
    ) {
        let (mut in_b, mut in_c) = (Places::<W>::new(), Places::<W>::new());
        let [_, stride_b, stride_c] = self.composite.columns.last().map_or([0; 3], |last| last.strides);
        each_run(&self.composite.columns, [first, first + width], |number, length, places| {
            in_b.extend(places[1], length, stride_b);
            match self.part {
                Some(_) => in_c.extend((first + number) as isize, length, 1),
                None => in_c.extend(places[2], length, stride_c),
            }
        });
        let in_c = in_c.with_contiguity::<N>();
        let lines = tables.panel.cast::<E>();
        let [inner_a, inner_b] = tables.inner;
        let [row_a, row_c] = tables.rows;
        let c = self.part.map_or(self.c, |part| part.at);
        let coefficient = if self.part.is_some() { E::from_f64(1.0) } else { self.coefficient };
        let (rows, depth) = (row_a.len(), inner_a.len());
        // Overlapping windows are read where they lie.
        let windows = tables.slabs.filter(|_| self.composite.has_windows).and_then(|_| in_b.halves::<N>());
        if windows.is_none() {
            pack::<E, R, W>(self.b, &in_b, inner_b, lines);
        }
        let mut row = 0;
        // SAFETY: the level has the registers, rows and columns are packed for each sum, and the planner's strides stay inside.
        unsafe {
            // Loops over rows of sums have constant bounds: sums must stay in registers. Rows from `$end` on do not exist.
            macro_rules! write {
                ($count:expr, $end:expr, $sums:expr) => {
                    let (sums, end) = ($sums, $end);
                    for r in 0..$count {
                        if r < end {
                            let at = c.wrapping_offset(row_c[row + r]);
                            finish::<E, R, N, W>(at, &in_c, sums[r], coefficient, tables.add);
                        }
                    }
                };
            }
            if let Some(slabs) = tables.slabs {
                let slab = |row: usize| slabs.cast::<E>().wrapping_add(row * depth).cast_const();
                if let Some((halves, is_whole)) = windows {
                    let halves = halves.map(|halves| halves.map(|half| self.b.wrapping_offset(half)));
                    while row < rows {
                        // Only registers of sixteen are loaded in halves; that is constant before anything is compiled.
                        if is_whole || const { W / N != 16 } {
                            write!(S, rows - row, window_block::<E, R, N, S, false>(slab(row), halves, inner_b));
                        } else {
                            write!(S, rows - row, window_block::<E, R, N, S, true>(slab(row), halves, inner_b));
                        }
                        row += S;
                    }
                    return;
                }
                while row < rows {
                    if rows - row > T {
                        write!(S, rows - row, packed_block::<E, R, N, W, S, S>(slab(row), lines, depth));
                    } else {
                        write!(T, rows - row, packed_block::<E, R, N, W, T, S>(slab(row), lines, depth));
                    }
                    row += S;
                }
                return;
            }
            while row + H <= rows {
                let mut starts = [self.a; H];
                for r in 0..H {
                    starts[r] = self.a.wrapping_offset(row_a[row + r]);
                }
                write!(H, H, block::<E, R, N, W, H>(starts, inner_a, lines));
                row += H;
            }
            while row < rows {
                let starts = [self.a.wrapping_offset(row_a[row])];
                write!(1, 1, block::<E, R, N, W, 1>(starts, inner_a, lines));
                row += 1;
            }
        }
    }
}
