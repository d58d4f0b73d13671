//! Products of matrices whose rows, columns or sums run over several axes, as those of convolutions do.
//!
//! The windows of a convolution overlap where they lie, so that the axes of their product do not become one. Nothing is
//! copied for that: an element of a factor lies at a place of its row plus a place of its sum, whatever axes these
//! are made of. Columns of the second factor are packed side by side, some sums at a time, and rows of the first run
//! over them. The result is cut into tiles, which several threads take. Where the cuts are depends on the product
//! alone, so that the result does not depend on the number of threads.
#![allow(unsafe_code)]
mod panel;
mod places;
mod tile;

use smallvec::SmallVec;

use super::contraction::Factor;
use super::interpreter::{Frame, elements_mut};
use super::isa::Isa;
use super::thread_pool;
use super::workspace::{Lease, Purpose, Workspace, Workspaces};
use crate::opt::memory::aligned;
use crate::opt::program::{Contraction, ContractionAxis};
use panel::GROUP;
use places::each_place;
pub(super) use places::{count, place};
use tile::{Part, Tile};

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
        let own = Composite { batch, rows, columns, inner, is_transposed: false, accumulates: product.accumulates };
        let other = Composite {
            batch: transposed(&own.batch),
            rows: transposed(&own.columns),
            columns: transposed(&own.rows),
            inner: transposed(&own.inner),
            is_transposed: true,
            accumulates: product.accumulates,
        };
        let mut better = if own.cost() <= other.cost() { own } else { other };
        if better.accumulates {
            better.set_apart();
        }
        better
    }

    /// About how many steps the product takes: its vectors of multiplications, and what is packed and written.
    fn cost(&self) -> usize {
        let (rows, columns, inner) = (count(&self.rows), count(&self.columns), count(&self.inner));
        // Elements that lie side by side move together.
        let moved = |axis: Option<&ContractionAxis>, operand: usize| match axis {
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

    /// Into how many parts its sums are cut, if they are: where tiles are few and sums long.
    fn parts(&self) -> Option<usize> {
        let (rows, columns, inner) = (count(&self.rows), count(&self.columns), count(&self.inner));
        let batch = count(&self.batch);
        if self.accumulates || [batch, rows, columns, inner].contains(&0) {
            return None;
        }
        let work = [batch, rows, columns, inner].into_iter().fold(1, usize::saturating_mul);
        let [tile_rows, tile_columns] = tile_size(rows, columns, inner);
        let tiles = batch * rows.div_ceil(tile_rows) * columns.div_ceil(tile_columns);
        let parts = inner.div_ceil(DEPTH).min(FEW);
        let is_cut = tiles < FEW && parts > 1 && work >= 2 * PARALLEL && rows * columns <= ROWS * ROWS;
        is_cut.then_some(parts)
    }

    /// The bytes of partial sums, and of packed columns for each thread.
    pub(super) fn bytes(&self, element: usize) -> (usize, usize) {
        let (rows, columns) = (count(&self.rows), count(&self.columns));
        let parts = self.parts();
        let sums = parts.map_or(0, |parts| parts * count(&self.batch) * aligned(rows * columns * element));
        let tile_rows = if self.accumulates || parts.is_some() { rows } else { rows.min(ROWS) };
        (sums, tile::bytes(tile_rows))
    }

    /// Runs the product.
    pub(super) unsafe fn run<E: Factor>(&self, frame: &Frame<'_>, [a, b]: [*const E; 2], c: *mut E, coefficient: E) {
        let [a, b] = if self.is_transposed { [b, a] } else { [a, b] };
        let whole = Whole { composite: self, a, b, c, coefficient, isa: frame.isa, workspaces: frame.workspaces };
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
        let [tile_rows, tile_columns] = tile_size(rows, columns, inner);
        let (across, down) = (rows.div_ceil(tile_rows), columns.div_ceil(tile_columns));
        if let Some(parts) = self.parts() {
            return whole.in_parts(rows, columns, inner, parts, parallel);
        }
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

/// The rows and columns of a tile.
fn tile_size(rows: usize, columns: usize, inner: usize) -> [usize; 2] {
    let tile_rows = rows.min(ROWS);
    let panels = TILE.div_ceil(tile_rows * inner * 32).max(1);
    [tile_rows, columns.min(32 * panels)]
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
