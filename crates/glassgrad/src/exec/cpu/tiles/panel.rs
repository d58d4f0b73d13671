//! Panels: as many columns as one or two registers hold, packed side by side.
#![allow(unsafe_code)]
// Loops over registers run by number: they must vanish even where adaptors of the standard library are not opened.
#![allow(clippy::needless_range_loop)]

use super::super::contraction::Factor;
use super::super::simd::Register;

/// Columns whose places follow one another are moved in groups of this many.
pub(super) const GROUP: usize = 8;

/// The places of the columns of a panel.
pub(super) struct Places<const W: usize> {
    places: [isize; W],
    width: usize,
    /// Which groups of columns lie side by side.
    together: [bool; 4],
    /// Whether all do.
    whole: bool,
}

impl<const W: usize> Places<W> {
    #[inline(always)]
    pub(super) fn new(places: [isize; W], width: usize) -> Places<W> {
        let mut together = [false; 4];
        let mut whole = width == W;
        for group in 0..W / GROUP {
            let first = group * GROUP;
            together[group] = first + GROUP <= width;
            for column in 1..GROUP {
                together[group] &= places[first + column] == places[first] + column as isize;
            }
            whole &= together[group] && places[first] == places[0] + first as isize;
        }
        Places { places, width, together, whole }
    }

    /// How many columns from one on lie side by side and can be moved at once: 16, 8, 4, 2 or 1.
    #[inline(always)]
    fn side_by_side(&self, column: usize) -> usize {
        let is_next = |next: usize| self.places[column + next] == self.places[column] + next as isize;
        let mut length = 1;
        while length < 16 && column + length < self.width && is_next(length) {
            length += 1;
        }
        // The largest power of 2 up to there.
        1 << length.ilog2()
    }
}

/// Packs columns side by side, one line for each sum.
#[inline(always)]
pub(super) unsafe fn pack<E: Factor, const W: usize>(
    b: *const E,
    columns: &Places<W>,
    inner: &[isize],
    lines: *mut [E; W],
) {
    if columns.whole {
        for (k, step) in inner.iter().enumerate() {
            let from = b.wrapping_offset(*step + columns.places[0]).cast::<[E; W]>();
            // SAFETY: the planner's strides stay inside the factor, and there is a line for each sum.
            unsafe { *lines.wrapping_add(k) = from.read_unaligned() };
        }
        return;
    }
    let any = columns.together[..W / GROUP].contains(&true);
    if !any && inner.get(1).is_none_or(|second| *second != inner[0] + 1) {
        // Neither columns nor sums lie side by side: line by line, as they are written.
        for (k, step) in inner.iter().enumerate() {
            // SAFETY: there is a line for each sum, and nobody else has it.
            let (at, line) = (b.wrapping_offset(*step), unsafe { &mut *lines.wrapping_add(k) });
            for column in 0..W {
                line[column] = match column < columns.width {
                    // SAFETY: the planner's strides stay inside the factor.
                    true => unsafe { *at.wrapping_offset(columns.places[column]) },
                    false => E::default(),
                };
            }
        }
        return;
    }
    // As many columns at once as lie side by side, for all sums, then the next.
    let mut column = 0;
    while column < columns.width {
        let (from, to) = (b.wrapping_offset(columns.places[column]), lines.cast::<E>().wrapping_add(column));
        let count = columns.side_by_side(column);
        // SAFETY: so many columns lie side by side inside the factor, for every sum, and there is a line for each sum.
        unsafe {
            match count {
                16 => pack_some::<E, 16, W>(from, inner, to),
                8 => pack_some::<E, 8, W>(from, inner, to),
                4 => pack_some::<E, 4, W>(from, inner, to),
                2 => pack_some::<E, 2, W>(from, inner, to),
                _ => pack_some::<E, 1, W>(from, inner, to),
            }
        }
        column += count;
    }
    for column in columns.width..W {
        for k in 0..inner.len() {
            // SAFETY: there is a line for each sum.
            unsafe { (*lines.wrapping_add(k))[column] = E::default() };
        }
    }
}

/// Packs some columns that lie side by side.
///
/// # Safety
///
/// So many elements lie side by side at each of the places of sums, and there is a line for each sum.
#[inline(always)]
unsafe fn pack_some<E: Factor, const C: usize, const W: usize>(from: *const E, inner: &[isize], to: *mut E) {
    for (k, step) in inner.iter().enumerate() {
        // SAFETY: as whoever calls this says.
        unsafe {
            let some = from.wrapping_offset(*step).cast::<[E; C]>().read_unaligned();
            to.wrapping_add(k * W).cast::<[E; C]>().write_unaligned(some);
        }
    }
}

/// The sums of some rows over packed columns.
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
    // SAFETY: as whoever calls this says.
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
    // SAFETY: as whoever calls this says.
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
        let mut elements = [E::default(); W];
        for n in 0..N {
            sums[n].store(elements.as_mut_ptr().wrapping_add(n * (W / N)));
        }
        for group in 0..W / GROUP {
            let first = group * GROUP;
            if columns.together[group] {
                let at = c.wrapping_offset(columns.places[first]).cast::<[E; GROUP]>();
                let mut eight = elements.as_ptr().wrapping_add(first).cast::<[E; GROUP]>().read();
                if add {
                    let own = at.read_unaligned();
                    for k in 0..GROUP {
                        eight[k] = own[k].plus(eight[k]);
                    }
                }
                at.write_unaligned(eight);
                continue;
            }
            for column in first..(first + GROUP).min(columns.width) {
                let at = c.wrapping_offset(columns.places[column]);
                *at = if add { (*at).plus(elements[column]) } else { elements[column] };
            }
        }
    }
}
