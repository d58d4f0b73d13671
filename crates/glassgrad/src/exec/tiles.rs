//! Products of matrices whose rows, columns or sums run over several axes, as those of convolutions do.
//!
//! The windows of a convolution overlap where they lie, so that the axes of their product do not become one. Nothing is
//! copied for that: an element of a factor lies at a place of its row plus a place of its sum, whatever axes these
//! are made of. Columns of the second factor are packed side by side, some sums at a time, and rows of the first run
//! over them. The result is cut into tiles, which several threads take. Where the cuts are depends on the product
//! alone, so that the result does not depend on the number of threads.
#![allow(unsafe_code)]

use std::cell::RefCell;

use rayon::prelude::*;
use smallvec::SmallVec;

use super::fused::MOST_AXES;
use super::level::Level;
use super::machine::{Workspace, elements_mut};
use super::product::Factor;
use super::register::{Portable, Register};
use crate::opt::memory::aligned;
use crate::opt::program::{Product, ProductAxis};

/// The sums that are packed at a time.
const DEPTH: usize = 512;
/// The rows of a tile.
const ROWS: usize = 256;
/// A tile has about as many multiplications as this, or more.
const TILE: usize = 1 << 17;
/// From this many multiplications on a product is worth several threads.
const PARALLEL: usize = 1 << 18;
/// Fewer tiles than this are too few; then long sums are cut into as many parts, if they are longer than [`DEPTH`].
const FEW: usize = 8;
/// Columns whose places follow one another are moved in groups of this many.
const GROUP: usize = 8;

type Axes = SmallVec<[ProductAxis; 8]>;

/// A product by what its axes are.
pub(super) struct Composite {
    batch: Axes,
    rows: Axes,
    columns: Axes,
    inner: Axes,
    /// Whether the second factor is the first of the product.
    is_transposed: bool,
    /// Whether places of the result meet: everything is added to what is there.
    meets: bool,
}

fn count(axes: &[ProductAxis]) -> usize {
    axes.iter().map(|axis| axis.extent).product()
}

fn transposed(axes: &Axes) -> Axes {
    axes.iter().map(|axis| axis.transposed()).collect()
}

impl Composite {
    /// The axes of a product, and which factor has the rows.
    pub(super) fn of(product: &Product) -> Composite {
        let (mut batch, mut rows, mut columns) = (Axes::new(), Axes::new(), Axes::new());
        for axis in &product.batch {
            // What moves one factor alone is one more axis of its matrix.
            match axis.strides {
                [_, 0, _] => rows.push(*axis),
                [0, _, _] => columns.push(*axis),
                _ => batch.push(*axis),
            }
        }
        rows.push(product.rows);
        columns.push(product.columns);
        let mut inner: Axes = product.sums.iter().copied().collect();
        inner.push(product.inner);
        // The smallest steps last: of what is written for rows and columns, of what is read for sums.
        rows.sort_by_key(|axis| std::cmp::Reverse(axis.strides[2].abs()));
        columns.sort_by_key(|axis| std::cmp::Reverse(axis.strides[2].abs()));
        inner.sort_by_key(|axis| std::cmp::Reverse(axis.strides[0].abs().max(axis.strides[1].abs())));
        let own = Composite { batch, rows, columns, inner, is_transposed: false, meets: product.meets };
        let other = Composite {
            batch: transposed(&own.batch),
            rows: transposed(&own.columns),
            columns: transposed(&own.rows),
            inner: transposed(&own.inner),
            is_transposed: true,
            meets: product.meets,
        };
        let mut better = if own.cost() <= other.cost() { own } else { other };
        if better.meets {
            better.set_apart();
        }
        better
    }

    /// About how many steps the product takes: its vectors of multiplications, and what is packed and written.
    fn cost(&self) -> usize {
        let (rows, columns, inner) = (count(&self.rows), count(&self.columns), count(&self.inner));
        // Elements that lie side by side move together.
        let moved = |axis: Option<&ProductAxis>, operand: usize| match axis {
            Some(axis) if axis.strides[operand] == 1 => 2 + 16 / axis.extent.clamp(1, 16),
            _ => 16,
        };
        let last = self.columns.last();
        let product = |factors: [usize; 4]| factors.into_iter().fold(1, usize::saturating_mul);
        let packed = product([inner, columns, moved(last, 1), rows.div_ceil(ROWS)]) / 8;
        let written = product([rows, columns, moved(last, 2), 1]) / 8;
        let vectors = product([rows, inner, columns.div_ceil(GROUP), 1]) / 2;
        vectors.saturating_add(packed).saturating_add(written)
    }

    /// Where places meet, only the axis of the largest steps can be cut, if nothing else reaches so far: it becomes the
    /// one axis of the batch that comes first. Otherwise that axis has the size 1.
    fn set_apart(&mut self) {
        let all = || self.batch.iter().chain(&self.rows).chain(&self.columns);
        let step = |axis: &ProductAxis| axis.strides[2].unsigned_abs();
        let largest = all().map(step).max().unwrap_or(0);
        let reach: usize = all().map(|axis| (axis.extent - 1) * step(axis)).sum();
        let mut apart = ProductAxis { extent: 1, strides: [0; 3] };
        for axes in [&mut self.batch, &mut self.rows, &mut self.columns] {
            let place = axes.iter().position(|axis| step(axis) == largest);
            if let Some(place) = place.filter(|place| reach - (axes[*place].extent - 1) * largest < largest) {
                apart = axes.remove(place);
                break;
            }
        }
        self.batch.insert(0, apart);
    }

    /// Runs the product.
    pub(super) fn run<E: Factor>(&self, level: Level, [a, b]: [*const E; 2], c: *mut E, coefficient: E) {
        let [a, b] = if self.is_transposed { [b, a] } else { [a, b] };
        let whole = Whole { composite: self, a, b, c, coefficient, level };
        let (rows, columns, inner) = (count(&self.rows), count(&self.columns), count(&self.inner));
        if inner == 0 && !self.meets {
            return whole.clear();
        }
        if rows == 0 || columns == 0 || inner == 0 || count(&self.batch) == 0 {
            return;
        }
        let work = [count(&self.batch), rows, columns, inner].into_iter().fold(1, usize::saturating_mul);
        let parallel = work >= PARALLEL && rayon::current_num_threads() > 1;
        if self.meets {
            let each = count(&self.batch[1..]);
            let one = |place: usize| {
                for batch in place * each..(place + 1) * each {
                    whole.get().tile(batch, [0, rows], [0, columns], [0, inner], None);
                }
            };
            return all(self.batch[0].extent, parallel, &one);
        }
        let tile_rows = rows.min(ROWS);
        let panels = TILE.div_ceil(tile_rows * inner * 32).max(1);
        let tile_columns = columns.min(32 * panels);
        let (across, down) = (rows.div_ceil(tile_rows), columns.div_ceil(tile_columns));
        let tiles = count(&self.batch) * across * down;
        let parts = inner.div_ceil(DEPTH).min(FEW);
        if tiles < FEW && parts > 1 && work >= 2 * PARALLEL && rows * columns <= ROWS * ROWS {
            return whole.in_parts(rows, columns, inner, parts, parallel);
        }
        let one = |tile: usize| {
            let (batch, tile) = (tile / (across * down), tile % (across * down));
            let (row, column) = (tile / down * tile_rows, tile % down * tile_columns);
            let own_rows = [row, (row + tile_rows).min(rows)];
            whole.get().tile(batch, own_rows, [column, (column + tile_columns).min(columns)], [0, inner], None);
        };
        all(tiles, parallel, &one);
    }
}

/// Does something for every number below a count.
fn all(count: usize, parallel: bool, one: &(impl Fn(usize) + Sync)) {
    if parallel && count > 1 {
        (0..count).into_par_iter().for_each(one);
    } else {
        (0..count).for_each(one);
    }
}

thread_local! {
    /// Memory of this thread for packed columns, and for the places of rows and sums.
    static PACKED: RefCell<Workspace> = RefCell::default();
    /// Memory for the parts of long sums.
    static PARTS: RefCell<Workspace> = RefCell::default();
}

/// A product with its addresses.
struct Whole<'p, E> {
    composite: &'p Composite,
    a: *const E,
    b: *const E,
    c: *mut E,
    coefficient: E,
    level: Level,
}
// SAFETY: tiles read what nobody writes meanwhile, and write to places that no other tile has.
unsafe impl<E> Sync for Whole<'_, E> {}

/// Where the sums of a tile go instead of the result: elements row by row, for so many columns.
#[derive(Clone, Copy)]
struct Part<E> {
    at: *mut E,
    columns: usize,
}

impl<E: Factor> Whole<'_, E> {
    /// All of it; a closure that asks for it takes it as a whole.
    fn get(&self) -> &Self {
        self
    }

    /// Writes the sum of nothing everywhere.
    fn clear(&self) {
        let Composite { batch, rows, columns, .. } = self.composite;
        each_place(batch, [0, count(batch)], |_, start| {
            each_place(rows, [0, count(rows)], |_, row| {
                each_place(columns, [0, count(columns)], |_, column| {
                    // SAFETY: the planner's strides stay inside the result, which nobody else writes to.
                    unsafe { *self.c.wrapping_offset(start[2] + row[2] + column[2]) = E::default() };
                });
            });
        });
    }

    /// Computes a long sum in parts, and adds them up in their order.
    fn in_parts(&self, rows: usize, columns: usize, inner: usize, parts: usize, parallel: bool) {
        let size = aligned(rows * columns * size_of::<E>());
        let batch = count(&self.composite.batch);
        let mut memory = PARTS.with_borrow_mut(std::mem::take);
        let sums = Sums(memory.reserve(parts * batch * size));
        let length = inner.div_ceil(parts).next_multiple_of(DEPTH);
        let bounds = |part: usize| [(part * length).min(inner), ((part + 1) * length).min(inner)];
        let one = |number: usize| {
            let (batch, own) = (number / parts, bounds(number % parts));
            let at = sums.at(number * size).cast::<E>();
            elements_mut::<E>(at.cast(), rows * columns).fill(E::default());
            self.get().tile(batch, [0, rows], [0, columns], own, Some(Part { at, columns }));
        };
        all(batch * parts, parallel, &one);
        let zero = E::default();
        for batch in 0..batch {
            let start = place(&self.composite.batch, batch);
            for row in 0..rows {
                let row_place = start[2] + place(&self.composite.rows, row)[2];
                each_place(&self.composite.columns, [0, columns], |column, places| {
                    let part = |part: usize| {
                        let at = sums.at((batch * parts + part) * size).cast::<E>();
                        elements_mut::<E>(at.cast(), rows * columns)[row * columns + column]
                    };
                    let sum = (0..parts).fold(zero, |sum, number| sum.plus(part(number)));
                    // SAFETY: the planner's strides stay inside the result, which nobody else writes to.
                    unsafe { *self.c.wrapping_offset(row_place + places[2]) = sum.times(self.coefficient) };
                });
            }
        }
        PARTS.with_borrow_mut(|own| *own = memory);
    }

    /// Computes some rows and columns of one product of the batch, from some sums.
    fn tile(&self, batch: usize, rows: [usize; 2], columns: [usize; 2], inner: [usize; 2], part: Option<Part<E>>) {
        let start = place(&self.composite.batch, batch);
        let tile = Tile {
            composite: self.composite,
            a: self.a.wrapping_offset(start[0]),
            b: self.b.wrapping_offset(start[1]),
            c: self.c.wrapping_offset(start[2]),
            coefficient: self.coefficient,
            rows,
            columns,
            inner,
            part,
        };
        tile.run(self.level);
    }
}

/// Memory that threads share: each writes to a part of its own.
#[derive(Clone, Copy)]
struct Sums(*mut u8);
// SAFETY: every part has one thread that writes to it, and is read when all are done.
unsafe impl Sync for Sums {}

impl Sums {
    fn at(&self, bytes: usize) -> *mut u8 {
        self.0.wrapping_add(bytes)
    }
}

/// The places in each operand that an index of some axes leads to.
fn place(axes: &[ProductAxis], mut index: usize) -> [isize; 3] {
    let mut places = [0; 3];
    for axis in axes.iter().rev() {
        let own = (index % axis.extent) as isize;
        index /= axis.extent;
        places.iter_mut().zip(axis.strides).for_each(|(place, stride)| *place += own * stride);
    }
    places
}

/// Calls a function with each index of some axes from one to another, counted from the first, and its places.
#[inline(always)]
fn each_place(axes: &[ProductAxis], [begin, end]: [usize; 2], mut visit: impl FnMut(usize, [isize; 3])) {
    if begin == end {
        return;
    }
    let mut index = [0_usize; MOST_AXES];
    let mut rest = begin;
    for (axis, own) in axes.iter().enumerate().rev() {
        index[axis] = rest % own.extent;
        rest /= own.extent;
    }
    let mut places = place(axes, begin);
    for number in 0..end - begin {
        visit(number, places);
        for (axis, own) in axes.iter().enumerate().rev() {
            index[axis] += 1;
            (0..3).for_each(|operand| places[operand] += own.strides[operand]);
            if index[axis] < own.extent {
                break;
            }
            index[axis] = 0;
            (0..3).for_each(|operand| places[operand] -= own.extent as isize * own.strides[operand]);
        }
    }
}

/// Some rows, columns and sums of one product.
struct Tile<'p, E> {
    composite: &'p Composite,
    a: *const E,
    b: *const E,
    c: *mut E,
    coefficient: E,
    rows: [usize; 2],
    columns: [usize; 2],
    inner: [usize; 2],
    part: Option<Part<E>>,
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

impl<E: Factor> Tile<'_, E> {
    fn run(&self, level: Level) {
        let rows = self.rows[1] - self.rows[0];
        let mut memory = PACKED.with_borrow_mut(std::mem::take);
        let packed = aligned(DEPTH * 32 * 8);
        let scratch = memory.reserve(packed + (2 * rows + 2 * DEPTH) * size_of::<isize>());
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
                add: begin > self.inner[0] || self.composite.meets,
            };
            self.at_level(level, &tables);
            begin = end;
        }
        PACKED.with_borrow_mut(|own| *own = memory);
    }

    /// Runs over all columns by the instructions of a level that this machine has: as many columns at a time as two
    /// registers hold, and the last in as narrow a panel as they need.
    fn at_level(&self, level: Level, tables: &Tables<'_>) {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx2,fma")]
            fn wide<E: Factor>(tile: &Tile<'_, E>, tables: &Tables<'_>) {
                let is_single = size_of::<E>() == 4;
                tile.panels(if is_single { 32 } else { 16 } / tile.narrower(), |first, width| {
                    match (is_single, width) {
                        (true, 0..=8) => tile.panel::<E::Medium, 1, 8, 8>(tables, first, width),
                        (true, 9..=16) => tile.panel::<E::Wide, 1, 16, 8>(tables, first, width),
                        (true, _) => tile.panel::<E::Wide, 2, 32, 8>(tables, first, width),
                        (false, 0..=8) => tile.panel::<E::Wide, 1, 8, 8>(tables, first, width),
                        (false, _) => tile.panel::<E::Wide, 2, 16, 8>(tables, first, width),
                    }
                });
            }
            #[target_feature(enable = "avx2,fma")]
            fn medium<E: Factor>(tile: &Tile<'_, E>, tables: &Tables<'_>) {
                let is_single = size_of::<E>() == 4;
                tile.panels(if is_single { 16 } else { 8 }, |first, width| match (is_single, width) {
                    (true, 0..=8) => tile.panel::<E::Medium, 1, 8, 4>(tables, first, width),
                    (true, _) => tile.panel::<E::Medium, 2, 16, 4>(tables, first, width),
                    (false, _) => tile.panel::<E::Medium, 2, 8, 4>(tables, first, width),
                });
            }
            if E::LEVELS {
                match level {
                    // SAFETY: the machine has the instructions of the level at which its programs run.
                    Level::Avx512 => return unsafe { wide(self, tables) },
                    // SAFETY: as above.
                    Level::Avx2 => return unsafe { medium(self, tables) },
                    Level::Baseline => {}
                }
            }
        }
        self.panels(8, |first, width| self.panel::<Portable<E>, 1, 8, 4>(tables, first, width));
    }

    /// How many times narrower panels are where places meet: what falls on one place is added up panel by panel, so that
    /// panels must be the same at both upper levels.
    #[inline(always)]
    fn narrower(&self) -> usize {
        if self.composite.meets { 2 } else { 1 }
    }

    /// Calls a function with the first column and the width of every panel.
    #[inline(always)]
    fn panels(&self, most: usize, mut panel: impl FnMut(usize, usize)) {
        let mut first = self.columns[0];
        while first < self.columns[1] {
            let width = (self.columns[1] - first).min(most);
            panel(first, width);
            first += width;
        }
    }

    /// Computes up to `W` columns, which are `N` registers, `H` rows at a time.
    #[inline(always)]
    fn panel<R: Register<E>, const N: usize, const W: usize, const H: usize>(
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

/// The places of the columns of a panel.
struct Places<const W: usize> {
    places: [isize; W],
    width: usize,
    /// Which groups of columns lie side by side.
    together: [bool; 4],
    /// Whether all do.
    whole: bool,
}

impl<const W: usize> Places<W> {
    #[inline(always)]
    fn new(places: [isize; W], width: usize) -> Places<W> {
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
}

/// Packs columns side by side, one line for each sum.
#[inline(always)]
fn pack<E: Factor, const W: usize>(b: *const E, columns: &Places<W>, inner: &[isize], lines: *mut [E; W]) {
    // SAFETY, for all of this: the planner's strides stay inside the factor, and there is a line for each sum.
    let any = columns.together[..W / GROUP].contains(&true);
    if !any && inner.len() > 1 && inner[1] == inner[0] + 1 {
        // Sums lie side by side: one column after another.
        for column in 0..W {
            let at = b.wrapping_offset(columns.places[column]);
            for (k, step) in inner.iter().enumerate() {
                let element = if column < columns.width { unsafe { *at.wrapping_offset(*step) } } else { E::default() };
                unsafe { (*lines.wrapping_add(k))[column] = element };
            }
        }
        return;
    }
    for (k, step) in inner.iter().enumerate() {
        let at = b.wrapping_offset(*step);
        let line = unsafe { &mut *lines.wrapping_add(k) };
        if columns.whole {
            *line = unsafe { at.wrapping_offset(columns.places[0]).cast::<[E; W]>().read_unaligned() };
            continue;
        }
        for group in 0..W / GROUP {
            let first = group * GROUP;
            if columns.together[group] {
                let eight = unsafe { at.wrapping_offset(columns.places[first]).cast::<[E; GROUP]>().read_unaligned() };
                line[first..first + GROUP].copy_from_slice(&eight);
                continue;
            }
            for column in first..first + GROUP {
                line[column] = match column < columns.width {
                    true => unsafe { *at.wrapping_offset(columns.places[column]) },
                    false => E::default(),
                };
            }
        }
    }
}

/// The sums of some rows over packed columns.
///
/// # Safety
///
/// The machine has the registers, there is a line for each sum, and the places of rows and sums are inside the factor.
#[inline(always)]
unsafe fn block<E: Factor, R: Register<E>, const N: usize, const W: usize, const H: usize>(
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
unsafe fn finish<E: Factor, R: Register<E>, const N: usize, const W: usize>(
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
