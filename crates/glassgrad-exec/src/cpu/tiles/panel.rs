//! Panels and slabs: as many columns as one or two registers hold, and as many rows as are computed together, packed side by
//! side.
#![allow(unsafe_code)]
// Loops over registers run by number: they must vanish even where adaptors of the standard library are not opened.
#![allow(clippy::needless_range_loop)]

use super::super::contraction::Factor;
use super::super::simd::Register;

/// The columns of the narrowest panel.
pub(super) const GROUP: usize = 8;

/// The places of the lines of a panel or slab: columns of the second factor or of the result, or rows of the first factor.
pub(super) struct Places<const W: usize> {
    places: [isize; W],
    width: usize,
    /// A bit for each line that is not next to the one before.
    breaks: u64,
    /// Which registers, and which groups of [`GROUP`] lines, are contiguous: what is written asks for each row.
    registers: [bool; 3],
    groups: [bool; 6],
}

impl<const W: usize> Places<W> {
    /// No lines.
    #[inline(always)]
    pub(super) fn new() -> Places<W> {
        const { assert!(W < 64, "the breaks of a panel are bits") };
        Places { places: [0; W], width: 0, breaks: 0, registers: [false; 3], groups: [false; 6] }
    }

    /// The same lines, with what is asked for where they are written from `N` registers.
    #[inline(always)]
    pub(super) fn with_contiguity<const N: usize>(mut self) -> Places<W> {
        for n in 0..N {
            self.registers[n] = self.are_contiguous(n * (W / N), W / N);
        }
        for group in 0..W / GROUP {
            self.groups[group] = self.are_contiguous(group * GROUP, GROUP);
        }
        self
    }

    /// Appends lines that have this stride.
    #[inline(always)]
    pub(super) fn extend(&mut self, place: isize, length: usize, stride: isize) {
        let first = self.width;
        for k in 0..length.min(W - first) {
            self.places[first + k] = place + k as isize * stride;
        }
        let follows = first > 0 && place == self.places[first - 1] + 1;
        let inside = if stride == 1 { 0 } else { (2_u64 << (length - 1)).wrapping_sub(2) };
        self.breaks |= (inside | u64::from(!follows)) << first;
        self.width = first + length;
    }

    /// Whether this many lines from one on are contiguous.
    #[inline(always)]
    fn are_contiguous(&self, line: usize, count: usize) -> bool {
        line + count <= self.width && (self.breaks >> line >> 1) & ((1 << (count - 1)) - 1) == 0
    }

    /// Whether there are `W` lines and all are contiguous.
    #[inline(always)]
    fn is_whole(&self) -> bool {
        self.are_contiguous(0, W)
    }

    /// Where the halves of each of `N` registers begin, seen from the first element of the factor, if there are `W` lines and those
    /// of each half are contiguous; and whether those of each register are.
    #[inline(always)]
    pub(super) fn halves<const N: usize>(&self) -> Option<([[isize; 2]; N], bool)> {
        let (lanes, mut whole) = (W / N, true);
        let mut halves = [[0; 2]; N];
        for n in 0..N {
            let first = n * lanes;
            if !self.are_contiguous(first, lanes) {
                whole = false;
                if lanes != 2 * GROUP
                    || !self.are_contiguous(first, GROUP)
                    || !self.are_contiguous(first + GROUP, GROUP)
                {
                    return None;
                }
            }
            halves[n] = [self.places[first], self.places[first + lanes / 2]];
        }
        Some((halves, whole))
    }

    /// Whether eight lines from one on have stride 2.
    #[inline(always)]
    fn are_even(&self, line: usize) -> bool {
        let mut all = line + 8 <= self.width;
        for next in 1..8 {
            all = all && self.places[line + next] == self.places[line + next - 1] + 2;
        }
        all
    }

    /// How many lines from one on are contiguous and can be moved at once: 16, 8, 4, 2 or 1.
    #[inline(always)]
    fn side_by_side(&self, line: usize) -> usize {
        let run = (self.breaks >> line >> 1).trailing_zeros() as usize + 1;
        // The largest power of 2 up to there.
        1 << run.min(self.width - line).min(16).ilog2()
    }
}

/// Packs lines side by side, `W` elements for each sum; lines that do not exist are zero.
#[inline(always)]
pub(super) unsafe fn pack<E: Factor, R: Register<E>, const W: usize>(
    from: *const E,
    lines: &Places<W>,
    inner: &[isize],
    to: *mut E,
) {
    if lines.is_whole() {
        for (k, step) in inner.iter().enumerate() {
            let at = from.wrapping_offset(*step + lines.places[0]).cast::<[E; W]>();
            // SAFETY: the planner's strides stay inside the factor, and there is room for `W` elements of each sum.
            unsafe { to.wrapping_add(k * W).cast::<[E; W]>().write_unaligned(at.read_unaligned()) };
        }
        return;
    }
    // As many lines at once as their places allow, for all sums, then the next.
    let mut line = 0;
    while line < lines.width {
        let (at, own) = (from.wrapping_offset(lines.places[line]), to.wrapping_add(line));
        let count = lines.side_by_side(line);
        // SAFETY: this many lines are contiguous, or have stride 2, inside the factor, for every sum, and there is room for
        // them.
        unsafe {
            match count {
                16 => pack_some::<E, 16, W>(at, inner, own),
                8 => pack_some::<E, 8, W>(at, inner, own),
                4 => pack_some::<E, 4, W>(at, inner, own),
                _ if lines.are_even(line) => {
                    for (k, step) in inner.iter().enumerate() {
                        R::copy_even(at.wrapping_offset(*step), own.wrapping_add(k * W));
                    }
                    line += 8;
                    continue;
                }
                _ if line + 8 <= lines.width => {
                    let mut starts = [from; 8];
                    for k in 0..8 {
                        starts[k] = from.wrapping_offset(lines.places[line + k]);
                    }
                    pack_eight::<E, R, W>(starts, inner, own);
                    line += 8;
                    continue;
                }
                2 => pack_some::<E, 2, W>(at, inner, own),
                _ => pack_some::<E, 1, W>(at, inner, own),
            }
        }
        line += count;
    }
    for line in lines.width..W {
        for k in 0..inner.len() {
            // SAFETY: there is room for `W` elements of each sum.
            unsafe { *to.wrapping_add(k * W + line) = E::default() };
        }
    }
}

/// Packs eight lines at any places: transposed where the elements of eight sums are contiguous.
///
/// # Safety
///
/// The machine has the registers, all elements are inside the factor, and there is room for `W` elements of each sum.
#[inline(always)]
unsafe fn pack_eight<E: Factor, R: Register<E>, const W: usize>(starts: [*const E; 8], inner: &[isize], to: *mut E) {
    let mut k = 0;
    while k < inner.len() {
        let mut together = k + 8 <= inner.len();
        for next in 1..8 {
            together = together && inner[k + next] == inner[k] + next as isize;
        }
        // SAFETY: by the contract of this function.
        unsafe {
            if together {
                let mut rows = starts;
                for r in 0..8 {
                    rows[r] = starts[r].wrapping_offset(inner[k]);
                }
                R::transpose(rows, to.wrapping_add(k * W), W);
                k += 8;
            } else {
                let mut line = [E::default(); 8];
                for r in 0..8 {
                    line[r] = *starts[r].wrapping_offset(inner[k]);
                }
                to.wrapping_add(k * W).cast::<[E; 8]>().write_unaligned(line);
                k += 1;
            }
        }
    }
}

/// Packs some columns that are contiguous.
///
/// # Safety
///
/// This many elements are contiguous at each of the places of sums, and there is a line for each sum.
#[inline(always)]
unsafe fn pack_some<E: Factor, const C: usize, const W: usize>(from: *const E, inner: &[isize], to: *mut E) {
    for (k, step) in inner.iter().enumerate() {
        // SAFETY: by the contract of this function.
        unsafe {
            let some = from.wrapping_offset(*step).cast::<[E; C]>().read_unaligned();
            to.wrapping_add(k * W).cast::<[E; C]>().write_unaligned(some);
        }
    }
}

/// The sums of some packed rows, of which `S` are contiguous for each sum, over packed columns.
///
/// # Safety
///
/// The machine has the registers, and rows and columns are packed for this many terms.
#[inline(always)]
pub(in super::super) unsafe fn packed_block<
    E: Factor,
    R: Register<E>,
    const N: usize,
    const W: usize,
    const H: usize,
    const S: usize,
>(
    mut rows: *const E,
    mut lines: *const E,
    depth: usize,
) -> [[R; N]; H] {
    // SAFETY: by the contract of this function.
    unsafe {
        let zero = R::splat(E::default());
        let mut sums = [[zero; N]; H];
        for _ in 0..depth {
            let mut columns = [zero; N];
            for n in 0..N {
                columns[n] = R::load(lines.wrapping_add(n * (W / N)));
            }
            for r in 0..H {
                let factor = R::splat(*rows.wrapping_add(r));
                for n in 0..N {
                    sums[r][n] = factor.fused(columns[n], sums[r][n]);
                }
            }
            rows = rows.wrapping_add(S);
            lines = lines.wrapping_add(W);
        }
        sums
    }
}

/// The sums of some packed rows, of which `H` are contiguous for each sum, over columns where they lie: `N` registers in halves that
/// begin at some addresses for the first sum. Overlapping windows are read so, which packing would repeat.
///
/// # Safety
///
/// The machine has the registers, rows are packed for each sum, and the places of columns and sums are inside the factor; so are
/// whole registers from the first half on, unless they are `APART`.
#[inline(always)]
pub(super) unsafe fn window_block<E: Factor, R: Register<E>, const N: usize, const H: usize, const APART: bool>(
    mut rows: *const E,
    halves: [[*const E; 2]; N],
    inner: &[isize],
) -> [[R; N]; H] {
    // SAFETY: by the contract of this function.
    unsafe {
        let zero = R::splat(E::default());
        let mut sums = [[zero; N]; H];
        for step in inner {
            let mut columns = [zero; N];
            for n in 0..N {
                let [low, high] = halves[n].map(|half| half.wrapping_offset(*step));
                columns[n] = if APART { R::load_halves(low, high) } else { R::load(low) };
            }
            for r in 0..H {
                let factor = R::splat(*rows.wrapping_add(r));
                for n in 0..N {
                    sums[r][n] = factor.fused(columns[n], sums[r][n]);
                }
            }
            rows = rows.wrapping_add(H);
        }
        sums
    }
}

/// The sums of some rows, where they lie, over packed columns.
///
/// # Safety
///
/// The machine has the registers, there is a line for each sum, and the places of rows and sums are inside the factor.
#[inline(always)]
pub(super) unsafe fn block<E: Factor, R: Register<E>, const N: usize, const W: usize, const H: usize>(
    starts: [*const E; H],
    inner: &[isize],
    lines: *const E,
) -> [[R; N]; H] {
    // SAFETY: by the contract of this function.
    unsafe {
        let zero = R::splat(E::default());
        let mut sums = [[zero; N]; H];
        let mut line = lines;
        for step in inner {
            let mut columns = [zero; N];
            for n in 0..N {
                columns[n] = R::load(line.wrapping_add(n * (W / N)));
            }
            for r in 0..H {
                let factor = R::splat(*starts[r].wrapping_offset(*step));
                for n in 0..N {
                    sums[r][n] = factor.fused(columns[n], sums[r][n]);
                }
            }
            line = line.wrapping_add(W);
        }
        sums
    }
}

/// Writes the sums of a row.
///
/// # Safety
///
/// The machine has the registers, and the places of columns are inside the result, where no other tile has them.
#[inline(always)]
pub(super) unsafe fn finish<E: Factor, R: Register<E>, const N: usize, const W: usize>(
    c: *mut E,
    columns: &Places<W>,
    mut sums: [R; N],
    coefficient: E,
    add: bool,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        let scale = R::splat(coefficient);
        for n in 0..N {
            sums[n] = sums[n].times(scale);
        }
        if columns.is_whole() {
            let at = c.wrapping_offset(columns.places[0]);
            for n in 0..N {
                let own = at.wrapping_add(n * (W / N));
                let sum = if add { R::load(own).plus(sums[n]) } else { sums[n] };
                sum.store(own);
            }
            return;
        }
        // Register by register where its columns are contiguous, otherwise in groups, as rows of short images are, and one by one.
        for n in 0..N {
            let width = W / N;
            let first = n * width;
            if columns.registers[n] {
                let own = c.wrapping_offset(columns.places[first]);
                let sum = if add { R::load(own).plus(sums[n]) } else { sums[n] };
                sum.store(own);
                continue;
            }
            let mut elements = [E::default(); 16];
            sums[n].store(elements.as_mut_ptr());
            for group in (first..first + width).step_by(GROUP) {
                if columns.groups[group / GROUP] {
                    let at = c.wrapping_offset(columns.places[group]).cast::<[E; GROUP]>();
                    let mut eight = elements.as_ptr().wrapping_add(group - first).cast::<[E; GROUP]>().read();
                    if add {
                        let own = at.read_unaligned();
                        for k in 0..GROUP {
                            eight[k] = own[k].plus(eight[k]);
                        }
                    }
                    at.write_unaligned(eight);
                    continue;
                }
                for column in group..(group + GROUP).min(columns.width) {
                    let (at, element) = (c.wrapping_offset(columns.places[column]), elements[column - first]);
                    *at = if add { (*at).plus(element) } else { element };
                }
            }
        }
    }
}
