//! Products of matrices whose rows, columns or sums run over several axes, as those of convolutions do.
//!
//! The windows of a convolution overlap where they lie, so that the axes of their product do not become one. Nothing is
//! copied for that: an element of a factor lies at a place of its row plus a place of its sum, whatever axes these
//! are made of. Columns of the second factor are packed side by side, some sums at a time, and rows of the first, packed too if
//! several panels of columns read them, run over them. The result is cut into tiles, which several threads take. Where the cuts are depends on the product
//! alone, so that the result does not depend on the number of threads.
#![allow(unsafe_code)]
mod bf16;
mod panel;
mod places;
mod tile;

use smallvec::SmallVec;

use super::contraction::Factor;
use super::interpreter::{Frame, elements_mut};
use super::isa::Isa;
use super::thread_pool;
use super::workspace::{Lease, Purpose, Workspace, Workspaces};
use crate::memory::aligned;
use crate::program::{Contraction, ContractionAxis};
use panel::GROUP;
pub(super) use panel::packed_block;
use places::each_place;
pub(super) use places::{count, place};
use tile::{Part, Tile};

/// The sums that are packed at a time: panels stay in the second-level cache beside the rows of a tile. Twice as many if rows are
/// few, so that the result is written less often.
const DEPTH: usize = 384;
/// Up to this many rows are few.
const FEW_ROWS: usize = 128;
/// The most rows of a tile, which is packed into the second-level cache, and the fewest that are cut off.
const ROWS: [usize; 2] = [384, 96];
/// The most columns of a tile, and the fewest that are cut off.
const COLUMNS: [usize; 2] = [512, 64];
/// A tile has about as many multiplications as this, or more.
const TILE: usize = 1 << 17;
/// Partial sums have at most this many elements.
const PARTIAL: usize = 1 << 16;
/// From this many multiplications on a product is worth several threads.
const PARALLEL: usize = 1 << 18;
/// Fewer tiles than this are too few; then long sums are cut into as many parts, if they are longer than [`DEPTH`].
const FEW: usize = 8;

type Axes = SmallVec<[ContractionAxis; 8]>;

/// A product by what its axes are.
pub(super) struct Composite {
    batch: Axes,
    rows: Axes,
    columns: Axes,
    inner: Axes,
    /// Whether the second factor is the first of the product.
    is_transposed: bool,
    /// Whether places of the result meet: everything is added to what is there.
    accumulates: bool,
    /// Whether columns are overlapping windows: neighbours in the second factor are neighbours along columns and along sums.
    has_windows: bool,
}

fn transposed(axes: &Axes) -> Axes {
    axes.iter().map(|axis| axis.transposed()).collect()
}

impl Composite {
    /// The axes of a product, and which factor has the rows.
    pub(super) fn of(product: &Contraction) -> Composite {
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
        let accumulates = product.accumulates;
        let own = Composite { batch, rows, columns, inner, is_transposed: false, accumulates, has_windows: false };
        let other = Composite {
            batch: transposed(&own.batch),
            rows: transposed(&own.columns),
            columns: transposed(&own.rows),
            inner: transposed(&own.inner),
            is_transposed: true,
            accumulates,
            has_windows: false,
        };
        let mut better = if own.cost() <= other.cost() { own } else { other };
        if better.accumulates {
            better.set_apart();
        }
        let steps_by_one = |axes: &Axes| axes.last().is_some_and(|axis| axis.extent > 1 && axis.strides[1].abs() == 1);
        better.has_windows = steps_by_one(&better.columns) && steps_by_one(&better.inner);
        better
    }

    /// About how many steps the product takes: its vectors of multiplications, and what is packed and written.
    fn cost(&self) -> usize {
        let (rows, columns, inner) = (count(&self.rows), count(&self.columns), count(&self.inner));
        // Elements that are contiguous move together, and so do those that are transposed.
        let side_by_side = |axes: &Axes, operand: usize, least: usize| match axes.last() {
            Some(axis) if axis.strides[operand] == 1 => least + 16 / axis.extent.clamp(1, 16),
            _ => 16,
        };
        let moved =
            |lines: &Axes, operand: usize| side_by_side(lines, operand, 2).min(side_by_side(&self.inner, operand, 4));
        let product = |factors: [usize; 4]| factors.into_iter().fold(1, usize::saturating_mul);
        let blocks = inner.div_ceil(DEPTH);
        let packed_columns = product([inner, columns, moved(&self.columns, 1), rows.div_ceil(ROWS[0])]) / 8;
        let packed_rows = match columns > GROUP * 4 {
            true => product([inner, rows, moved(&self.rows, 0), columns.div_ceil(COLUMNS[0])]) / 8,
            false => 0,
        };
        let written = product([rows, columns, side_by_side(&self.columns, 2, 2), blocks]) / 8;
        let vectors = product([rows, inner, columns.div_ceil(GROUP), 1]) / 2;
        [vectors, packed_columns, packed_rows, written].into_iter().fold(0, usize::saturating_add)
    }

    /// Where places meet, only the axis of the largest steps can be cut, if nothing else reaches so far: it becomes the
    /// one axis of the batch that comes first. Otherwise that axis has the size 1.
    fn set_apart(&mut self) {
        let all = || self.batch.iter().chain(&self.rows).chain(&self.columns);
        let step = |axis: &ContractionAxis| axis.strides[2].unsigned_abs();
        let largest = all().map(step).max().unwrap_or(0);
        let reach: usize = all().map(|axis| (axis.extent - 1) * step(axis)).sum();
        let mut apart = ContractionAxis { extent: 1, strides: [0; 3] };
        for axes in [&mut self.batch, &mut self.rows, &mut self.columns] {
            let place = axes.iter().position(|axis| step(axis) == largest);
            if let Some(place) = place.filter(|place| reach - (axes[*place].extent - 1) * largest < largest) {
                apart = axes.remove(place);
                break;
            }
        }
        self.batch.insert(0, apart);
    }

    /// How the product is cut.
    fn cut(&self) -> Cut {
        self.cut_by(FEW)
    }

    /// How the product is cut if no sum is computed in parts.
    fn cut_tiles(&self) -> Cut {
        self.cut_by(1)
    }

    /// How the product is cut, with long sums in at most so many parts.
    fn cut_by(&self, most_parts: usize) -> Cut {
        let (rows, columns, inner) = (count(&self.rows), count(&self.columns), count(&self.inner));
        let batch = count(&self.batch);
        let work = [batch, rows, columns, inner].into_iter().fold(1, usize::saturating_mul);
        if self.accumulates || work == 0 {
            return Cut { rows, columns, parts: None, packs_rows: false, depth: DEPTH };
        }
        let even = |size: usize, most: usize, unit: usize| {
            let count = size.div_ceil(most);
            size.div_ceil(count).next_multiple_of(unit).min(size)
        };
        let mut own = Cut {
            rows: even(rows, ROWS[0], 24),
            columns: even(columns, COLUMNS[0], 32),
            parts: None,
            packs_rows: false,
            depth: DEPTH,
        };
        let tiles = |own: &Cut| batch * rows.div_ceil(own.rows) * columns.div_ceil(own.columns);
        let parts = inner.div_ceil(DEPTH).min(most_parts);
        if tiles(&own) < FEW && parts > 1 && work >= 2 * PARALLEL && rows * columns <= PARTIAL {
            own = Cut { rows, columns, parts: Some(parts), ..own };
        } else if work >= PARALLEL {
            // Threads need several tiles each, as long as these are large.
            while tiles(&own) < FEW && own.rows * own.columns * inner >= 2 * TILE {
                if own.columns >= 2 * COLUMNS[1] && own.columns >= own.rows {
                    own.columns = own.columns.div_ceil(2).next_multiple_of(32);
                } else if own.rows >= 2 * ROWS[1] {
                    own.rows = own.rows.div_ceil(2).next_multiple_of(24);
                } else if own.columns >= 2 * COLUMNS[1] {
                    own.columns = own.columns.div_ceil(2).next_multiple_of(32);
                } else {
                    break;
                }
            }
        }
        // A panel has up to 32 columns.
        own.packs_rows = own.columns > 32 && own.rows <= 2 * ROWS[0];
        if own.rows <= FEW_ROWS && own.parts.is_none() {
            own.depth = 2 * DEPTH;
        }
        own
    }

    /// The bytes of partial sums, and of packed columns and rows for each thread.
    pub(super) fn bytes(&self, element: usize) -> (usize, usize) {
        let (rows, columns) = (count(&self.rows), count(&self.columns));
        let cut = self.cut();
        let sums = cut.parts.map_or(0, |parts| parts * count(&self.batch) * aligned(rows * columns * element));
        (sums, tile::bytes(cut.rows, cut.depth, element, cut.packs_rows))
    }

    /// Runs the product.
    pub(super) unsafe fn run<E: Factor>(&self, frame: &Frame<'_>, [a, b]: [*const E; 2], c: *mut E, coefficient: E) {
        let [a, b] = if self.is_transposed { [b, a] } else { [a, b] };
        let whole = Whole {
            composite: self,
            a,
            b,
            c,
            coefficient,
            isa: frame.isa,
            workspaces: frame.workspaces,
            cut: self.cut(),
        };
        let (rows, columns, inner) = (count(&self.rows), count(&self.columns), count(&self.inner));
        if inner == 0 && !self.accumulates {
            return whole.clear();
        }
        if rows == 0 || columns == 0 || inner == 0 || count(&self.batch) == 0 {
            return;
        }
        let work = [count(&self.batch), rows, columns, inner].into_iter().fold(1, usize::saturating_mul);
        let parallel = work >= PARALLEL;
        if self.accumulates {
            let each = count(&self.batch[1..]);
            let one = |panels: &mut Lease<'_>, place: usize| {
                for batch in place * each..(place + 1) * each {
                    whole.get().tile(panels, batch, [0, rows], [0, columns], [0, inner], None);
                }
            };
            return whole.all(self.batch[0].extent, parallel, one);
        }
        let Cut { rows: tile_rows, columns: tile_columns, parts, .. } = whole.cut;
        if let Some(parts) = parts {
            return whole.in_parts(rows, columns, inner, parts, parallel);
        }
        let (across, down) = (rows.div_ceil(tile_rows), columns.div_ceil(tile_columns));
        let tiles = count(&self.batch) * across * down;
        let one = |panels: &mut Lease<'_>, tile: usize| {
            let (batch, tile) = (tile / (across * down), tile % (across * down));
            let (row, column) = (tile / down * tile_rows, tile % down * tile_columns);
            let own_rows = [row, (row + tile_rows).min(rows)];
            let own_columns = [column, (column + tile_columns).min(columns)];
            whole.get().tile(panels, batch, own_rows, own_columns, [0, inner], None);
        };
        whole.all(tiles, parallel, one);
    }
}

/// How a product is cut: the rows and columns of a tile, the parts of its sums where tiles are few and sums long, whether
/// rows are packed, and the most sums that are packed at a time. All of it follows from the product.
struct Cut {
    rows: usize,
    columns: usize,
    parts: Option<usize>,
    packs_rows: bool,
    depth: usize,
}

/// A product with its addresses.
struct Whole<'p, E> {
    composite: &'p Composite,
    a: *const E,
    b: *const E,
    c: *mut E,
    coefficient: E,
    isa: Isa,
    workspaces: &'p Workspaces,
    cut: Cut,
}
// SAFETY: tiles read what nobody writes meanwhile, and write to places that no other tile has.
unsafe impl<E> Sync for Whole<'_, E> {}

impl<E: Factor> Whole<'_, E> {
    /// All of it; a closure that asks for it takes it as a whole.
    fn get(&self) -> &Self {
        self
    }

    /// Calls a function for every index below a count, with memory for packed panels.
    fn all(&self, count: usize, parallel: bool, one: impl Fn(&mut Lease<'_>, usize) + Sync) {
        let panels = || self.get().workspaces.take(Purpose::Panels);
        if parallel {
            thread_pool::each_with(count, panels, one);
        } else {
            let mut panels = panels();
            (0..count).for_each(|index| one(&mut panels, index));
        }
    }

    /// Writes the sum of nothing everywhere.
    unsafe fn clear(&self) {
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
    unsafe fn in_parts(&self, rows: usize, columns: usize, inner: usize, parts: usize, parallel: bool) {
        let size = aligned(rows * columns * size_of::<E>());
        let batch = count(&self.composite.batch);
        let mut memory = self.workspaces.take(Purpose::PartialSums);
        let sums = Sums(memory.reserve(parts * batch * size));
        let length = inner.div_ceil(parts).next_multiple_of(DEPTH);
        let bounds = |part: usize| [(part * length).min(inner), ((part + 1) * length).min(inner)];
        let one = |panels: &mut Lease<'_>, number: usize| {
            let (batch, own) = (number / parts, bounds(number % parts));
            let at = sums.at(number * size).cast::<E>();
            elements_mut::<E>(at.cast(), rows * columns).fill(E::default());
            self.get().tile(panels, batch, [0, rows], [0, columns], own, Some(Part { at, columns }));
        };
        self.all(batch * parts, parallel, one);
        let sum_row = |batch: usize, row: usize| {
            let part = |number: usize| {
                let at = sums.at((batch * parts + number) * size).cast::<E>().wrapping_add(row * columns);
                elements_mut::<E>(at.cast(), columns)
            };
            let total = part(0);
            for number in 1..parts {
                total.iter_mut().zip(&*part(number)).for_each(|(sum, own)| *sum = sum.plus(*own));
            }
            let own = self.get();
            let start = place(&own.composite.batch, batch)[2] + place(&own.composite.rows, row)[2];
            each_place(&own.composite.columns, [0, columns], |column, places| {
                // SAFETY: the planner's strides stay inside the result, and no other row has this place.
                unsafe { *own.c.wrapping_offset(start + places[2]) = total[column].times(own.coefficient) };
            });
        };
        if batch * rows * columns * parts < PARTIAL {
            (0..batch * rows).for_each(|number| sum_row(number / rows, number % rows));
        } else {
            thread_pool::each(batch * rows, |number| sum_row(number / rows, number % rows));
        }
    }

    /// Computes some rows and columns of one product of the batch, from some sums.
    unsafe fn tile(
        &self,
        panels: &mut Workspace,
        batch: usize,
        rows: [usize; 2],
        columns: [usize; 2],
        inner: [usize; 2],
        part: Option<Part<E>>,
    ) {
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
            packs_rows: self.cut.packs_rows,
            depth: self.cut.depth,
        };
        tile.run(self.isa, panels);
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
