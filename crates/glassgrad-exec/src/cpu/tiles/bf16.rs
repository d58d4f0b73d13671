//! Products of matrices of `bf16`, with sums of 32 bits.
//!
//! With AVX-512 BF16 terms are packed in pairs, and one instruction adds two products to each sum. It multiplies and adds the upper half of a
//! pair before the lower one, each rounded once, so that the first term of a pair is its upper half: sums are then those of the kernels for
//! 32 bits, to the last bit, but that numbers below 2⁻¹²⁶ are zero to it. Other levels pack the same terms as numbers of 32 bits.
#![allow(unsafe_code)]
// Loops over registers run by number: they must vanish even where adaptors of the standard library are not opened.
#![allow(clippy::needless_range_loop)]

use smallvec::SmallVec;

use super::super::contraction::Factor;
use super::super::interpreter::{Frame, elements_mut};
use super::super::isa::Isa;
use super::super::simd::Register;
use super::super::thread_pool;
use super::super::workspace::{Purpose, Workspace};
use super::panel::{Places, finish, packed_block};
use super::places::{count, each_place, each_run, place};
use super::{Composite, Cut, PARALLEL, Whole};
use crate::memory::aligned;

/// The most columns of a panel, and the most rows of a slab.
const MOST: [usize; 2] = [48, 8];

/// Addresses that threads share.
struct Shared<'p> {
    composite: &'p Composite,
    a: *const u16,
    b: *const u16,
    c: *mut f32,
}
// SAFETY: tiles read what nobody writes meanwhile, and write to places that no other tile has.
unsafe impl Sync for Shared<'_> {}

impl<'p> Shared<'p> {
    /// A tile of one product of the batch.
    fn tile(&self, batch: usize, rows: [usize; 2], columns: [usize; 2]) -> Tile<'p> {
        let start = place(&self.composite.batch, batch);
        Tile {
            composite: self.composite,
            a: self.a.wrapping_offset(start[0]),
            b: self.b.wrapping_offset(start[1]),
            c: self.c.wrapping_offset(start[2]),
            rows,
            columns,
        }
    }
}

/// The bytes of packed columns and rows and of tables of places, for a tile with this many rows.
fn bytes(rows: usize, depth: usize) -> usize {
    let words = depth * MOST[0] + (rows + MOST[1]) * depth;
    aligned(words * size_of::<u32>()) + (2 * rows + 2 * depth) * size_of::<isize>()
}

impl Composite {
    /// The bytes of working memory for each thread in [`Composite::run_bf16`].
    pub(in super::super) fn bf16_bytes(&self) -> usize {
        let cut = self.cut_tiles();
        bytes(cut.rows, cut.depth)
    }

    /// Runs the product of factors of `bf16`.
    pub(in super::super) unsafe fn run_bf16(
        &self,
        frame: &Frame<'_>,
        [a, b]: [*const u16; 2],
        c: *mut f32,
        coefficient: f32,
    ) {
        let [a, b] = if self.is_transposed { [b, a] } else { [a, b] };
        let (rows, columns, inner) = (count(&self.rows), count(&self.columns), count(&self.inner));
        let cut = self.cut_tiles();
        if inner == 0 {
            let null = std::ptr::null();
            let (isa, workspaces) = (frame.isa, frame.workspaces);
            return Whole { composite: self, a: null, b: null, c, coefficient, isa, workspaces, cut }.clear();
        }
        let batch = count(&self.batch);
        if rows == 0 || columns == 0 || batch == 0 {
            return;
        }
        let Cut { rows: tile_rows, columns: tile_columns, depth, .. } = cut;
        let (across, down) = (rows.div_ceil(tile_rows), columns.div_ceil(tile_columns));
        let shared = Shared { composite: self, a, b, c };
        let (shared, isa) = (&shared, frame.isa);
        let one = |memory: &mut Workspace, tile: usize| {
            let (batch, tile) = (tile / (across * down), tile % (across * down));
            let (row, column) = (tile / down * tile_rows, tile % down * tile_columns);
            let own_rows = [row, (row + tile_rows).min(rows)];
            let own_columns = [column, (column + tile_columns).min(columns)];
            shared.tile(batch, own_rows, own_columns).run(isa, coefficient, depth, memory);
        };
        let work = [batch, rows, columns, inner].into_iter().fold(1, usize::saturating_mul);
        let workspaces = frame.workspaces;
        if work >= PARALLEL {
            let start = || workspaces.take(Purpose::Panels);
            thread_pool::each_with(batch * across * down, start, |memory, tile| one(memory, tile));
        } else {
            let mut memory = workspaces.take(Purpose::Panels);
            (0..batch * across * down).for_each(|tile| one(&mut memory, tile));
        }
    }
}

/// Some rows and columns of one product.
struct Tile<'p> {
    composite: &'p Composite,
    a: *const u16,
    b: *const u16,
    c: *mut f32,
    rows: [usize; 2],
    columns: [usize; 2],
}

/// The places of rows, in the first factor and in the result, and of sums, in both factors; memory for packed columns and rows.
struct Tables<'t> {
    rows: [&'t [isize]; 2],
    inner: [&'t [isize]; 2],
    panel: *mut u32,
    slabs: *mut u32,
    coefficient: f32,
    /// Whether sums are added to what is there.
    add: bool,
}

impl Tile<'_> {
    /// Computes the tile, with some sums packed at a time.
    unsafe fn run(&self, isa: Isa, coefficient: f32, depth: usize, memory: &mut Workspace) {
        let rows = self.rows[1] - self.rows[0];
        let panel = memory.reserve(bytes(rows, depth)).cast::<u32>();
        let slabs = panel.wrapping_add(depth * MOST[0]);
        let words = depth * MOST[0] + (rows + MOST[1]) * depth;
        let tables = panel.cast::<u8>().wrapping_add(aligned(words * size_of::<u32>()));
        let (row_tables, inner_tables) = elements_mut::<isize>(tables, 2 * rows + 2 * depth).split_at_mut(2 * rows);
        let (row_a, row_c) = row_tables.split_at_mut(rows);
        let (inner_a, inner_b) = inner_tables.split_at_mut(depth);
        each_place(&self.composite.rows, self.rows, |row, places| {
            row_a[row] = places[0];
            row_c[row] = places[2];
        });
        // As few blocks of sums as can be, all about as long as each other, as in the kernels for 32 bits.
        let sums = count(&self.composite.inner);
        let length = sums.div_ceil(sums.div_ceil(depth).max(1)).next_multiple_of(8).min(depth);
        for begin in (0..sums).step_by(length) {
            let end = (begin + length).min(sums);
            each_place(&self.composite.inner, [begin, end], |sum, places| {
                inner_a[sum] = places[0];
                inner_b[sum] = places[1];
            });
            let (rows, inner) = ([&*row_a, &*row_c], [&inner_a[..end - begin], &inner_b[..end - begin]]);
            let tables = Tables { rows, inner, panel, slabs, coefficient, add: begin > 0 };
            self.with_isa(isa, &tables);
        }
    }

    /// Runs over all columns by the instructions of a level that this machine has.
    unsafe fn with_isa(&self, isa: Isa, tables: &Tables<'_>) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{__m256, __m512};

            #[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx2,fma")]
            unsafe fn pairs(tile: &Tile<'_>, tables: &Tables<'_>) {
                tile.pack_rows::<__m256, 8, true>(tables);
                tile.panels(48, |first, width| match width {
                    0..=16 => tile.panel::<__m512, 1, 16, 8, true>(tables, first, width),
                    17..=32 => tile.panel::<__m512, 2, 32, 8, true>(tables, first, width),
                    _ => tile.panel::<__m512, 3, 48, 8, true>(tables, first, width),
                });
            }
            #[target_feature(enable = "avx512f,avx2,fma")]
            unsafe fn wide(tile: &Tile<'_>, tables: &Tables<'_>) {
                tile.pack_rows::<__m256, 8, false>(tables);
                tile.panels(48, |first, width| match width {
                    0..=16 => tile.panel::<__m512, 1, 16, 8, false>(tables, first, width),
                    _ => tile.panel::<__m512, 3, 48, 8, false>(tables, first, width),
                });
            }
            #[target_feature(enable = "avx2,fma")]
            unsafe fn medium(tile: &Tile<'_>, tables: &Tables<'_>) {
                tile.pack_rows::<__m256, 6, false>(tables);
                tile.panels(16, |first, width| tile.panel::<__m256, 2, 16, 6, false>(tables, first, width));
            }
            match isa {
                // SAFETY: the machine has the instructions of the level at which its programs run, and those that it was asked for.
                Isa::Avx512 if has_pairs() => return unsafe { pairs(self, tables) },
                // SAFETY: as above.
                Isa::Avx512 => return unsafe { wide(self, tables) },
                // SAFETY: as above.
                Isa::Avx2 => return unsafe { medium(self, tables) },
                Isa::Baseline => {}
            }
        }
        let _ = isa;
        self.pack_rows::<<f32 as Factor>::Eight, 4, false>(tables);
        self.panels(8, |first, width| {
            self.panel::<<f32 as Factor>::Eight, 1, 8, 4, false>(tables, first, width);
        });
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

    /// Packs rows in slabs of `S`.
    #[inline(always)]
    unsafe fn pack_rows<R: Register<f32>, const S: usize, const PAIRS: bool>(&self, tables: &Tables<'_>) {
        let ([rows, _], [inner, _]) = (tables.rows, tables.inner);
        let terms = terms::<PAIRS>(inner.len());
        for first in (0..rows.len()).step_by(S) {
            let lines = &rows[first..(first + S).min(rows.len())];
            pack::<R, S, PAIRS>(self.a, lines, inner, tables.slabs.wrapping_add(first * terms));
        }
    }

    /// Computes up to `W` columns, which are `N` registers, from packed rows in slabs of `S`.
    #[inline(always)]
    unsafe fn panel<R: Register<f32>, const N: usize, const W: usize, const S: usize, const PAIRS: bool>(
        &self,
        tables: &Tables<'_>,
        first: usize,
        width: usize,
    ) {
        let (mut in_b, mut in_c) = ([0_isize; W], Places::<W>::new());
        let [_, stride_b, stride_c] = self.composite.columns.last().map_or([0; 3], |last| last.strides);
        each_run(&self.composite.columns, [first, first + width], |number, length, places| {
            for k in 0..length {
                in_b[number + k] = places[1] + k as isize * stride_b;
            }
            in_c.extend(places[2], length, stride_c);
        });
        let in_c = in_c.with_contiguity::<N>();
        let [row_a, row_c] = tables.rows;
        let depth = tables.inner[0].len();
        let terms = terms::<PAIRS>(depth);
        pack::<R, W, PAIRS>(self.b, &in_b[..width], tables.inner[1], tables.panel);
        for row in (0..row_a.len()).step_by(S) {
            let slab = tables.slabs.wrapping_add(row * terms).cast_const();
            // SAFETY: the level has the registers, rows and columns are packed for each term, and the planner's strides stay inside of
            // the result.
            unsafe {
                let sums = if const { PAIRS } {
                    pair_block::<R, N, W, S>(slab, tables.panel, terms)
                } else {
                    packed_block::<f32, R, N, W, S, S>(slab.cast(), tables.panel.cast(), depth)
                };
                for r in 0..S {
                    if row + r < row_a.len() {
                        let at = self.c.wrapping_offset(row_c[row + r]);
                        finish::<f32, R, N, W>(at, &in_c, sums[r], tables.coefficient, tables.add);
                    }
                }
            }
        }
    }
}

/// Whether this machine multiplies pairs.
#[cfg(target_arch = "x86_64")]
fn has_pairs() -> bool {
    // Asking is cheap: the standard library remembers the answers.
    is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512bw")
}

/// The words that are packed for each line: one for two terms, or one for each.
const fn terms<const PAIRS: bool>(depth: usize) -> usize {
    if PAIRS { depth.div_ceil(2) } else { depth }
}

/// The sums of `S` packed rows over packed columns, two terms at a time.
///
/// # Safety
/// The machine has the registers and their products of pairs, and rows and columns are packed for this many pairs.
#[inline(always)]
unsafe fn pair_block<R: Register<f32>, const N: usize, const W: usize, const S: usize>(
    mut rows: *const u32,
    mut lines: *const u32,
    pairs: usize,
) -> [[R; N]; S] {
    // SAFETY: by the contract of this function.
    unsafe {
        let zero = R::splat(0.0);
        let mut sums = [[zero; N]; S];
        for _ in 0..pairs {
            let mut columns = [zero; N];
            for n in 0..N {
                columns[n] = R::load(lines.wrapping_add(n * (W / N)).cast());
            }
            for r in 0..S {
                let pair = *rows.wrapping_add(r);
                for n in 0..N {
                    sums[r][n] = R::dot(pair, columns[n], sums[r][n]);
                }
            }
            rows = rows.wrapping_add(S);
            lines = lines.wrapping_add(W);
        }
        sums
    }
}

/// Packs lines side by side, `W` words for each term, or for each two: the first is the upper half of the word. Lines that do not exist are
/// zero, and so is the second term of the last pair if there is none.
#[inline(always)]
unsafe fn pack<R: Register<f32>, const W: usize, const PAIRS: bool>(
    from: *const u16,
    lines: &[isize],
    inner: &[isize],
    to: *mut u32,
) {
    let is_whole = lines.len() == W && lines.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let step = if PAIRS { 2 } else { 1 };
    if lines.len() < W {
        elements_mut::<u32>(to.cast(), W * terms::<PAIRS>(inner.len())).fill(0);
    }
    if PAIRS && !is_whole && inner.len().is_multiple_of(2) && inner.chunks_exact(2).all(|pair| pair[1] == pair[0] + 1) {
        return pack_rows_of_pairs::<R, W>(from, lines, inner, to);
    }
    let runs = if is_whole { SmallVec::new() } else { runs_of(lines) };
    for (number, sums) in inner.chunks(step).enumerate() {
        let own = to.wrapping_add(number * W);
        if is_whole {
            words::<W>(from, lines[0], (sums[0], sums.get(1).copied()), own);
            continue;
        }
        let (first, second) = (sums[0], sums.get(1).copied());
        for [line, length] in &runs {
            let (own, place) = (own.wrapping_add(*line), lines[*line]);
            match length {
                8 => words::<8>(from, place, (first, second), own),
                4 => words::<4>(from, place, (first, second), own),
                _ => words::<1>(from, place, (first, second), own),
            }
        }
    }
}

/// Packs one term, or a pair, of some contiguous lines.
///
/// # Safety
/// The lines are inside of the factor for both terms, and there is room for their words.
#[inline(always)]
unsafe fn words<const L: usize>(from: *const u16, place: isize, (first, second): (isize, Option<isize>), to: *mut u32) {
    let read = |sum: isize| {
        // SAFETY: by the contract of this function.
        unsafe { from.wrapping_offset(place + sum).cast::<[u16; L]>().read_unaligned() }
    };
    let (first, second) = (read(first), second.map_or([0; L], read));
    let mut words = [0_u32; L];
    for k in 0..L {
        words[k] = u32::from(first[k]) << 16 | u32::from(second[k]);
    }
    // SAFETY: by the contract of this function.
    unsafe { to.cast::<[u32; L]>().write_unaligned(words) };
}

/// Lines in runs of 8, 4 or 1 that are contiguous: the first line of each, and its length.
fn runs_of(lines: &[isize]) -> SmallVec<[[usize; 2]; 64]> {
    let mut runs = SmallVec::new();
    let mut line = 0;
    while line < lines.len() {
        let are_contiguous = |count: usize| {
            let own = lines.get(line..line + count);
            own.is_some_and(|own| own.windows(2).all(|pair| pair[1] == pair[0] + 1))
        };
        let length = [8, 4].into_iter().find(|count| are_contiguous(*count)).unwrap_or(1);
        runs.push([line, length]);
        line += length;
    }
    runs
}

/// [`pack`] of lines whose pairs of terms are contiguous: words are transposed, and their halves exchanged.
#[inline(always)]
unsafe fn pack_rows_of_pairs<R: Register<f32>, const W: usize>(
    from: *const u16,
    lines: &[isize],
    inner: &[isize],
    to: *mut u32,
) {
    let pairs = inner.len() / 2;
    let word = |line: isize, pair: usize| -> *const u32 { from.wrapping_offset(line + inner[2 * pair]).cast() };
    let are_contiguous = |pair: usize| {
        let follows = |next: usize| inner[2 * (pair + next)] == inner[2 * pair] + 2 * next as isize;
        pair + 8 <= pairs && (1..8).all(follows)
    };
    let mut line = 0;
    while line < lines.len() {
        let together = if line + 8 <= lines.len() { 8 } else { 1 };
        let mut pair = 0;
        while pair < pairs {
            // SAFETY: both terms of each pair are contiguous inside of the factor, for eight pairs if they are contiguous too, and there is
            // room for a word of each line.
            unsafe {
                if together == 8 && are_contiguous(pair) {
                    let mut rows = [std::ptr::null(); 8];
                    for r in 0..8 {
                        rows[r] = word(lines[line + r], pair).cast::<f32>();
                    }
                    R::transpose(rows, to.wrapping_add(pair * W + line).cast(), W);
                    pair += 8;
                } else {
                    for r in 0..together {
                        *to.wrapping_add(pair * W + line + r) = word(lines[line + r], pair).read_unaligned();
                    }
                    pair += 1;
                }
            }
        }
        line += together;
    }
    // SAFETY: all words are written: those of lines that do not exist are zero.
    let words = unsafe { std::slice::from_raw_parts_mut(to, pairs * W) };
    words.iter_mut().for_each(|word| *word = word.rotate_left(16));
}
