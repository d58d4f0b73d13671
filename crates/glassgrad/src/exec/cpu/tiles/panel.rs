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
    /// Whether there are `W` lines and all are contiguous.
    whole: bool,
    /// Which of up to three registers hold lines that are contiguous.
    registers: [bool; 3],
    /// Which groups of [`GROUP`] lines are contiguous.
    groups: [bool; 6],
}

impl<const W: usize> Places<W> {
    /// The places of the first `width` of `W` lines, which go into `registers` registers.
    #[inline(always)]
    pub(super) fn new(places: [isize; W], width: usize, registers: usize) -> Places<W> {
        let mut own = Places { places, width, whole: width == W, registers: [false; 3], groups: [false; 6] };
        for line in 1..W {
            own.whole &= places[line] == places[line - 1] + 1;
        }
        for register in 0..registers {
            own.registers[register] = own.are_apart(register * (W / registers), W / registers, 1);
        }
        for group in 0..W / GROUP {
            own.groups[group] = own.are_apart(group * GROUP, GROUP, 1);
        }
        own
    }

    /// Whether this many lines from one on have offsets that are `apart` from the one before.
    #[inline(always)]
    fn are_apart(&self, line: usize, count: usize, apart: isize) -> bool {
        let mut all = line + count <= self.width;
        for next in 1..count {
            all = all && self.places[line + next] == self.places[line + next - 1] + apart;
        }
        all
    }

    /// How many lines from one on are contiguous and can be moved at once: 16, 8, 4, 2 or 1.
    #[inline(always)]
    fn side_by_side(&self, line: usize) -> usize {
        let is_next = |next: usize| self.places[line + next] == self.places[line] + next as isize;
        let mut length = 1;
        while length < 16 && line + length < self.width && is_next(length) {
            length += 1;
        }
        // The largest power of 2 up to there.
        1 << length.ilog2()
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
    if lines.whole {
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
                _ if lines.are_apart(line, 8, 2) => {
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
        if columns.whole {
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
