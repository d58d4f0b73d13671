//! Contractions on tensor cores whose operands have any strides: convolutions as implicit GEMM, and what no library call fits.
//!
//! The axes of a contraction form the three axes of a matrix product: M are the rows and the batch axes along which the second factor does
//! not move, N the columns and those along which the first does not, K all summed axes. A block gathers tiles of both factors into shared memory
//! in rows of 64 bytes of terms, the next stage through registers while the current one is multiplied. Where there are few tiles
//! and many terms, parts of the terms go to scratch memory and are added up in a fixed order.

use super::contraction::{Tiled, count, first_part, offset, parts_added_up, reach_of_contraction};
use super::{THREADS, Writer, type_of};
use crate::dtype::DType;
use crate::memory::aligned;
use crate::program::{Access, Contraction, ContractionAxis, Loop, Memory, Store};

/// The bytes of terms that one row of a stage holds, and those of the row with its padding: eight rows lie in different banks.
const STAGE: usize = 64;
const LINE: usize = 80;

/// The bytes that a thread moves at a time.
const UNIT: usize = 16;

/// The warps of a block along M and along N.
const WARPS: [usize; 2] = [2, 4];

/// With this many blocks each multiprocessor of a large GPU has two.
const BLOCKS: usize = 264;

/// The least stages of a part.
const LEAST_STAGES: usize = 8;

/// A factor is packed into scratch memory, terms side by side, if it is at most this large and is read by several tiles.
const MOST_PACKED: usize = 1 << 24;
const LEAST_READERS: usize = 4;

/// One side of the product: the first factor with M, or the second with N.
struct Side {
    /// Which operand of the contraction it is.
    operand: usize,
    memory: Memory,
    offset: isize,
    /// Its axes, those with the smallest strides last.
    axes: Vec<ContractionAxis>,
    /// The lines of a tile.
    tile: usize,
}

/// How a unit of terms is loaded.
#[derive(Clone, Copy, PartialEq)]
enum Load {
    /// As one vector: terms are neighbours in memory, and units are aligned.
    Vector,
    /// One by one, neighbouring threads along the terms of a line.
    AlongTerms,
    /// One by one, neighbouring threads along lines.
    AlongLines,
}

/// The summed axes, cut such that a stage is a whole number of their entries: no term needs index arithmetic of its own.
struct Stages {
    /// What differs from stage to stage.
    outer: Vec<ContractionAxis>,
    /// What differs between the units of a stage, and between the terms of a unit.
    groups: Vec<ContractionAxis>,
    units: Vec<ContractionAxis>,
}

/// The contraction as a matrix product.
struct Shape {
    batch: Vec<ContractionAxis>,
    sides: [Side; 2],
    /// The summed axes.
    terms: Vec<ContractionAxis>,
    stages: Option<Stages>,
}

/// Axes cut in two, the inner ones with this many entries; none if it does not come out even.
fn cut(axes: &[ContractionAxis], entries: usize) -> Option<[Vec<ContractionAxis>; 2]> {
    let (mut outer, mut inner, mut left) = (Vec::new(), Vec::new(), entries);
    for axis in axes.iter().rev() {
        if left > 1 && axis.extent.is_multiple_of(left) {
            inner.push(ContractionAxis { extent: left, ..*axis });
            let strides = axis.strides.map(|stride| stride * left as isize);
            outer.push(ContractionAxis { extent: axis.extent / left, strides });
            left = 1;
        } else if left > 1 && left.is_multiple_of(axis.extent) {
            inner.push(*axis);
            left /= axis.extent;
        } else if left > 1 {
            return None;
        } else {
            outer.push(*axis);
        }
    }
    outer.reverse();
    inner.reverse();
    (left == 1).then_some([outer, inner])
}

impl Stages {
    fn new(terms: &[ContractionAxis], dtype: DType) -> Option<Stages> {
        let [outer, stage] = cut(terms, STAGE / dtype.bytes())?;
        let [groups, units] = cut(&stage, UNIT / dtype.bytes())?;
        Some(Stages { outer, groups, units })
    }

    /// How far each term of a unit lies behind its first.
    fn unit(&self, operand: usize) -> Vec<isize> {
        let place = |term: usize| {
            let mut left = term;
            let mut moved = 0;
            for axis in self.units.iter().rev() {
                moved += (left % axis.extent) as isize * axis.strides[operand];
                left /= axis.extent;
            }
            moved
        };
        (0..count(&self.units)).map(place).collect()
    }
}

/// How far axes move an operand, with those that do not move it counted as far.
fn distance(axis: &ContractionAxis, operand: usize) -> usize {
    match axis.strides[operand].unsigned_abs() {
        0 => usize::MAX,
        stride => stride,
    }
}

impl Shape {
    fn new(product: &Contraction) -> Shape {
        let Contraction { batch, sums, rows, columns, inner, operands, .. } = product;
        let dtype = operands[2].dtype;
        let (mut both, mut m, mut n) = (Vec::new(), vec![*rows], vec![*columns]);
        for axis in batch.iter().filter(|axis| axis.extent != 1) {
            match axis.strides {
                [_, 0, _] => m.push(*axis),
                [0, ..] => n.push(*axis),
                _ => both.push(*axis),
            }
        }
        let side = |operand: usize, mut axes: Vec<ContractionAxis>| {
            axes.retain(|axis| axis.extent != 1);
            axes.sort_by_key(|axis| std::cmp::Reverse(distance(axis, operand)));
            let Access { memory, offset, .. } = operands[operand];
            let tile = if count(&axes) > 64 { 128 } else { 64 };
            Side { operand, memory, offset, axes, tile }
        };
        let mut sides = [side(0, m), side(1, n)];
        // Neighbouring threads store along N.
        let nearest = |side: &Side| side.axes.iter().map(|axis| axis.strides[2].unsigned_abs()).min();
        if nearest(&sides[0]).unwrap_or(usize::MAX) < nearest(&sides[1]).unwrap_or(usize::MAX) {
            sides.reverse();
        }
        let mut shape = Shape { batch: both, sides, terms: Vec::new(), stages: None };
        let mut summed: Vec<ContractionAxis> =
            sums.iter().chain([inner]).filter(|axis| axis.extent != 1).copied().collect();
        let far = |axis: &ContractionAxis| distance(axis, 0).saturating_add(distance(axis, 1));
        summed.sort_by_key(|axis| std::cmp::Reverse(far(axis)));
        // The last axis is the one that lets stages come out even, with the most contiguous loads.
        let moved_last = |last: usize| {
            let others = summed.iter().enumerate().filter(|(place, _)| *place != last).map(|(_, axis)| *axis);
            others.chain(summed.get(last).copied()).collect::<Vec<_>>()
        };
        let rank = |last: &usize| {
            let contiguous = summed[*last].strides[..2].iter().filter(|stride| **stride == 1).count();
            (Stages::new(&moved_last(*last), dtype).is_none(), 2 - contiguous, far(&summed[*last]))
        };
        shape.terms = moved_last((0..summed.len()).min_by_key(rank).unwrap_or(0));
        shape.stages = Stages::new(&shape.terms, dtype);
        shape
    }

    /// How a side loads its units.
    fn load(&self, side: &Side, dtype: DType) -> Load {
        let unit = UNIT / dtype.bytes();
        let along_terms = self.terms.last().map_or(usize::MAX, |axis| distance(axis, side.operand));
        let along_lines = side.axes.last().map_or(usize::MAX, |axis| distance(axis, side.operand));
        if let Some(stages) = &self.stages {
            let others = [&stages.outer[..], &stages.groups, &side.axes, &self.batch].concat();
            let mut far = others.iter().map(|axis| axis.strides[side.operand]).chain([side.offset]);
            let is_aligned = far.all(|stride| stride % unit as isize == 0);
            let is_contiguous = stages.unit(side.operand).iter().enumerate().all(|(term, at)| term as isize == *at);
            // Inputs may begin anywhere in the array of a leaf.
            if is_contiguous && is_aligned && !matches!(side.memory, Memory::Input(_)) {
                return Load::Vector;
            }
        }
        if along_terms < along_lines { Load::AlongTerms } else { Load::AlongLines }
    }

    /// Packs a side into scratch memory, from this element on: lines one after another, with their terms side by side. Returns the loop that
    /// copies it.
    fn pack(&mut self, number: usize, dtype: DType, at: usize) -> Loop {
        let Shape { batch, sides, terms, .. } = self;
        let side = &mut sides[number];
        let operand = side.operand;
        let mut axes: Vec<&mut ContractionAxis> =
            batch.iter_mut().chain(&mut side.axes).chain(terms.iter_mut()).collect();
        let extents: Vec<usize> = axes.iter().map(|axis| axis.extent).collect();
        let from = axes.iter().map(|axis| axis.strides[operand]).collect();
        let mut next = 1;
        for axis in axes.iter_mut().rev() {
            axis.strides[operand] = next;
            next *= axis.extent as isize;
        }
        let to = axes.iter().map(|axis| axis.strides[operand]).collect();
        let load = Access { memory: side.memory, dtype, offset: side.offset, strides: from };
        let access = Access { memory: Memory::Tile, dtype, offset: at as isize, strides: to };
        (side.memory, side.offset) = (Memory::Tile, at as isize);
        self.stages = Stages::new(&self.terms, dtype);
        Loop {
            along_rows: vec![false; extents.len()],
            extents,
            loads: vec![load],
            code: Vec::new(),
            by_row: vec![false],
            stores: vec![Store { register: 0, access, reduction: None, scale: 1.0, clear: None }],
        }
    }
}

impl Side {
    /// The units of a stage for one thread.
    fn units(&self) -> usize {
        self.tile * STAGE / UNIT / THREADS as usize
    }

    fn name(&self) -> &'static str {
        ["a", "b"][self.operand]
    }

    /// Declares where the units of a thread lie: in shared memory, and the offset of their line and of their first term.
    fn declare(&self, writer: &mut Writer, shape: &Shape, dtype: DType, first: &str) {
        let (name, index, units) = (self.name(), writer.index, self.units());
        let (per_line, unit) = (STAGE / UNIT, UNIT / dtype.bytes());
        writer.line(format!("{index} {name}_at[{units}]; int {name}_cell[{units}], {name}_term[{units}];"));
        writer.line("#pragma unroll");
        writer.line(format!("for (int u = 0; u < {units}; u++) {{"));
        writer.line(format!("const int s = threadIdx.x + u * {THREADS};"));
        match shape.load(self, dtype) {
            Load::Vector | Load::AlongTerms => {
                writer.line(format!("const int group = s % {per_line}, l = s / {per_line};"));
            }
            Load::AlongLines => writer.line(format!("const int group = s / {0}, l = s % {0};", self.tile)),
        }
        // Lines beyond the last are computed like the first, and not stored.
        writer.line(format!("const {index} line = {first} + l < {0} ? {first} + l : 0;", count(&self.axes)));
        offset(writer, "moved", "line", &self.axes, self.operand);
        offset(writer, "grouped", "group", shape.stages.as_ref().map_or(&[], |stages| &stages.groups), self.operand);
        writer.line(format!("{name}_at[u] = moved + grouped;"));
        writer.line(format!("{name}_cell[u] = l * {LINE} + group * {UNIT}; {name}_term[u] = group * {unit};"));
        writer.line("}");
        writer.line(format!("(void){name}_term;"));
    }

    /// Loads the units of a stage into registers.
    fn load(&self, writer: &mut Writer, shape: &Shape, dtype: DType) {
        let (name, index, units) = (self.name(), writer.index, self.units());
        let (element, unit) = (type_of(dtype), UNIT / dtype.bytes());
        writer.line("{");
        if let Some(stages) = &shape.stages {
            offset(writer, "moved", "stage", &stages.outer, self.operand);
        }
        writer.line("#pragma unroll");
        writer.line(format!("for (int u = 0; u < {units}; u++) {{"));
        match (&shape.stages, shape.load(self, dtype)) {
            (Some(_), Load::Vector) => {
                writer.line(format!("next_{name}[u] = *(const GgUnit<{element}> *)({name} + {name}_at[u] + moved);"));
            }
            (Some(stages), Load::AlongTerms | Load::AlongLines) => {
                writer.line(format!("const {element} *unit = {name} + {name}_at[u] + moved;"));
                for (term, at) in stages.unit(self.operand).iter().enumerate() {
                    writer.line(format!("next_{name}[u].v[{term}] = unit[{at}];"));
                }
            }
            (None, _) => {
                let terms = count(&shape.terms);
                writer.line("#pragma unroll");
                writer.line(format!("for (int e = 0; e < {unit}; e++) {{"));
                writer.line(format!(
                    "const {index} wanted = stage * ({index}){} + {name}_term[u] + e;",
                    STAGE / dtype.bytes()
                ));
                writer.line(format!("const {index} own = wanted < {terms} ? wanted : 0;"));
                offset(writer, "moved", "own", &shape.terms, self.operand);
                writer.line(format!("next_{name}[u].v[e] = {name}[{name}_at[u] + moved];"));
                writer.line(format!("if (wanted >= {terms}) next_{name}[u].v[e] = ({element})0.0f;"));
                writer.line("}");
            }
        }
        writer.line("}");
        writer.line("}");
    }

    /// Stores the units in registers to shared memory.
    fn store(&self, writer: &mut Writer, to: &str) {
        let (name, units) = (self.name(), self.units());
        writer.line("#pragma unroll");
        writer.line(format!("for (int u = 0; u < {units}; u++) gg_store_unit({to} + {name}_cell[u], next_{name}[u]);"));
    }
}

/// How a contraction runs on tensor cores.
pub(in crate::cuda) struct OnTensorCores {
    /// Factors that are packed into scratch memory first.
    pub(in crate::cuda) packing: Vec<Loop>,
    pub(in crate::cuda) tiled: Tiled,
    /// The bytes of scratch memory.
    pub(in crate::cuda) scratch: usize,
}

/// The kernel of a contraction. Its epilogue, if it has one, is left to a kernel behind it.
pub(in crate::cuda) fn kernel(product: &Contraction) -> OnTensorCores {
    let mut shape = Shape::new(product);
    let dtype = product.operands[2].dtype;
    let per_stage = STAGE / dtype.bytes();
    let stages = count(&shape.terms).div_ceil(per_stage).max(1);
    let tiles = shape.sides.each_ref().map(|side| count(&side.axes).div_ceil(side.tile));
    let batches = count(&shape.batch);
    let blocks = tiles[0] * tiles[1] * batches;
    let wanted = if blocks < BLOCKS { BLOCKS / blocks } else { 1 };
    let per_part = stages.div_ceil(wanted.clamp(1, (stages / LEAST_STAGES).max(1)));
    let parts = stages.div_ceil(per_part);
    // Parts are whole row-major results of the contraction.
    let outputs = [&product.batch[..], &[product.rows, product.columns]].concat();
    let mut scratch = first_part(product) * 4 + if parts > 1 { parts * count(&outputs) * 4 } else { 0 };
    let mut packing = Vec::new();
    for number in [0, 1] {
        let elements = [&shape.batch[..], &shape.sides[number].axes, &shape.terms].concat();
        let is_small = count(&elements) <= MOST_PACKED && tiles[1 - number] >= LEAST_READERS;
        if is_small && shape.stages.is_some() && shape.load(&shape.sides[number], dtype) != Load::Vector {
            let at = aligned(scratch);
            packing.push(shape.pack(number, dtype, at / dtype.bytes()));
            scratch = at + count(&elements) * dtype.bytes();
        }
    }
    let Shape { batch, sides: [m, n], terms, .. } = &shape;
    let reach = reach_of_contraction(product).max(count(&outputs).saturating_mul(parts)).max(scratch) + 2 * per_stage;
    let mut writer = Writer::new(reach.max(count(terms) + per_stage));
    let index = writer.index;
    let [height, width] = [m.tile / WARPS[0], n.tile / WARPS[1]];
    let stage_bytes = (m.tile + n.tile) * LINE;
    let slice = 16 * (width + 4);
    writer.shared("float", "staged", (2 * stage_bytes / 4).max(WARPS[0] * WARPS[1] * slice), 4);
    writer.line("char *shared = (char *)staged;");
    writer.line("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
    writer.line(format!("const int warp_m = warp / {0}, warp_n = warp % {0};", WARPS[1]));
    writer.line(format!("const {index} block = blockIdx.x;"));
    writer.line(format!("const {index} n0 = block % {} * {};", tiles[1], n.tile));
    writer.line(format!("const {index} m0 = block / {} % {} * {};", tiles[1], tiles[0], m.tile));
    writer.line(format!("const {index} batch = block / {};", tiles[0] * tiles[1]));
    let element = type_of(dtype);
    for side in [m, n] {
        let (name, argument) = (side.name(), writer.argument(side.memory));
        offset(&mut writer, &format!("{name}_batch"), "batch", batch, side.operand);
        writer.line(format!(
            "const {element} *{name} = (const {element} *)a{argument} + {} + {name}_batch;",
            side.offset
        ));
    }
    for (side, first) in [(m, "m0"), (n, "n0")] {
        side.declare(&mut writer, &shape, dtype, first);
        writer.line(format!("GgUnit<{element}> next_{}[{}];", side.name(), side.units()));
    }
    writer.line(format!("float sum[{}][{}][4] = {{}};", height / 16, width / 8));
    writer.line(format!("const int first = blockIdx.y * {per_part};"));
    writer.line(format!("const int last = first + {per_part} < {stages} ? first + {per_part} : {stages};"));
    let load = |writer: &mut Writer, stage: &str| {
        writer.line(format!("{{ const {index} stage = {stage};"));
        [m, n].iter().for_each(|side| side.load(writer, &shape, dtype));
        writer.line("}");
    };
    let store = |writer: &mut Writer, buffer: &str| {
        m.store(writer, &format!("shared + {buffer} * {stage_bytes}"));
        n.store(writer, &format!("shared + {buffer} * {stage_bytes} + {}", m.tile * LINE));
    };
    load(&mut writer, "first");
    store(&mut writer, "0");
    writer.line("__syncthreads();");
    writer.line("for (int k = first; k < last; k++) {");
    writer.line("const int now = (k - first) % 2;");
    writer.line("if (k + 1 < last)");
    load(&mut writer, "k + 1");
    writer.line(format!(
        "gg_multiply_stage<{element}, {height}, {width}>(sum, shared + now * {stage_bytes} + warp_m * {}, shared + now * {stage_bytes} + {} \
         + warp_n * {}, lane);",
        height * LINE,
        m.tile * LINE,
        width * LINE
    ));
    writer.line("if (k + 1 < last) {");
    store(&mut writer, "(1 - now)");
    writer.line("}");
    writer.line("__syncthreads();");
    writer.line("}");
    // Sixteen rows of each warp at a time go through shared memory, so that neighbouring threads store neighbouring columns.
    let dense = |axes: &[ContractionAxis]| -> Vec<ContractionAxis> {
        let stride = |axis: &ContractionAxis| {
            let is_same = |own: &ContractionAxis| own.extent == axis.extent && own.strides[2] == axis.strides[2];
            let place = outputs.iter().position(is_same).unwrap_or_else(|| unreachable!("an axis of the result"));
            outputs[place + 1..].iter().map(|own| own.extent as isize).product()
        };
        axes.iter().map(|axis| ContractionAxis { strides: [0, 0, stride(axis)], ..*axis }).collect()
    };
    let placed = |axes: &[ContractionAxis]| if parts > 1 { dense(axes) } else { axes.to_vec() };
    let (to, stored, first, total) = match parts {
        1 => {
            let to = writer.argument(product.operands[2].memory);
            let total = super::instructions::scaled(DType::F32, "total", product.coefficient);
            (to, element, format!("{}", product.operands[2].offset), total)
        }
        _ => {
            let first = format!("{} + ({index})blockIdx.y * {}", first_part(product), count(&outputs));
            (writer.argument(Memory::Tile), "float", first, "total".to_owned())
        }
    };
    offset(&mut writer, "c_batch", "batch", &placed(batch), 2);
    writer.line(format!("const int own = threadIdx.x % {0};", n.tile));
    writer.line(format!("const {index} column = n0 + own;"));
    offset(&mut writer, "c_column", "column", &placed(&n.axes), 2);
    writer.line(format!("{stored} *c = ({stored} *)a{to} + {first} + c_batch + c_column;"));
    writer.line("#pragma unroll");
    writer.line(format!("for (int i = 0; i < {}; i++) {{", height / 16));
    writer.line(format!("float *slice = staged + warp * {slice};"));
    writer.line("#pragma unroll");
    writer.line(format!("for (int j = 0; j < {}; j++)", width / 8));
    writer.line("#pragma unroll");
    writer.line("for (int q = 0; q < 4; q++)");
    writer
        .line(format!("slice[(lane / 4 + q / 2 * 8) * {} + j * 8 + lane % 4 * 2 + q % 2] = sum[i][j][q];", width + 4));
    writer.line("__syncthreads();");
    let rows = THREADS as usize / n.tile;
    writer.line(format!("for (int r = threadIdx.x / {}; r < {}; r += {rows}) {{", n.tile, WARPS[0] * 16));
    writer.line(format!("const {index} row = m0 + r / 16 * {height} + i * 16 + r % 16;"));
    writer.line(format!("if (row < {} && column < {}) {{", count(&m.axes), count(&n.axes)));
    writer.line(format!(
        "const float total = staged[(r / 16 * {} + own / {width}) * {slice} + r % 16 * {} + own % {width}];",
        WARPS[1],
        width + 4
    ));
    offset(&mut writer, "c_row", "row", &placed(&m.axes), 2);
    writer.line(format!("c[c_row] = {total};"));
    writer.line("}");
    writer.line("}");
    writer.line("__syncthreads();");
    writer.line("}");
    let second = (parts > 1).then(|| (parts_added_up(product, parts), scratch));
    let (kernel, memories) = writer.kernel(THREADS, true);
    let tiled = Tiled { kernel: kernel.launched_alone(1).resident(2), memories, grid: [blocks, parts], second };
    OnTensorCores { packing, tiled, scratch }
}
