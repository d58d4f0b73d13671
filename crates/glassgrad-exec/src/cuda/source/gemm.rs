//! Products of matrices with few rows or few terms, where calls of a library and the kernels behind them cost more than the product.
//!
//! Blocks stage tiles of both factors by asynchronous copies, several stages ahead. Where there are few tiles, a thread-block
//! cluster splits the terms (split-k): each block keeps its partial sums in shared memory, and the blocks of the cluster add them
//! up in a fixed order, each a share of the tile. The epilogue runs on these sums, so that nothing else touches the result.

use super::Writer;
use super::contraction::{Tiled, offset, reach_of_contraction};
use super::epilogue::Elements;
use crate::dtype::DType;
use crate::program::{Contraction, ContractionAxis, Memory};

/// The elements that a thread computes along each side of a tile: one vector of shared memory.
const OWN: usize = 4;

/// The terms of a stage.
const DEPTH: usize = 16;

/// The stages in shared memory.
const STAGES: usize = 4;

/// The most blocks of a cluster that every GPU with clusters can run.
const MOST_PARTS: usize = 8;

/// The least terms of a block of a cluster.
const LEAST_TERMS: usize = 3 * DEPTH;

/// With this many blocks each multiprocessor of a large GPU has two.
const BLOCKS: usize = 264;

/// Products of fewer multiplications are left to simpler kernels, unless there are many terms.
const LEAST_MULTIPLICATIONS: usize = 1 << 20;

/// From this many terms on also smaller products are split.
const MANY_TERMS: usize = 192;

/// The most terms of one block of a small product.
const MOST_TERMS: usize = 2048;

/// The elements of a thread that are loaded and stored at a time at the end.
const SEVERAL: usize = 4;

/// The sides of a tile, and the blocks that share its terms.
struct Tiling {
    sides: [usize; 2],
    parts: usize,
}

fn tiling(product: &Contraction, clusters: bool) -> Option<Tiling> {
    let Contraction { batch, sums, rows, columns, inner, operands, masked, .. } = product;
    let is_plain = operands.iter().all(|operand| operand.dtype == DType::F32) && *masked == [false, false];
    let (m, n, terms) = (rows.extent, columns.extent, inner.extent);
    let batches: usize = batch.iter().map(|axis| axis.extent).product();
    let multiplications = [m, n, terms].iter().fold(batches, |product, size| product.saturating_mul(*size));
    let is_large = multiplications >= LEAST_MULTIPLICATIONS;
    let is_deep = clusters && (MANY_TERMS..=MOST_PARTS * MOST_TERMS).contains(&terms) && multiplications >= 1 << 16;
    if !is_plain || !sums.is_empty() || !(is_large || is_deep) {
        return None;
    }
    let most_parts = if clusters { (terms / LEAST_TERMS).clamp(1, MOST_PARTS) } else { 1 };
    let tiles = |[height, width]: [usize; 2]| m.div_ceil(height) * n.div_ceil(width) * batches;
    // Small tiles and many blocks hide latencies better than large tiles save instructions.
    let sides = match (m, n) {
        (..=32, _) | (_, ..=16) => [32, 32],
        _ if tiles([64, 64]) >= 2 * BLOCKS => [64, 64],
        _ if tiles([64, 32]) * most_parts >= BLOCKS / 2 => [64, 32],
        _ => [32, 32],
    };
    let parts = (BLOCKS / tiles(sides)).clamp(1, most_parts);
    // Sums of many terms by few blocks are left to a library, or to parts in global memory.
    let is_slow = terms > parts * MOST_TERMS;
    (!is_slow).then_some(Tiling { sides, parts })
}

/// How one factor is staged: its lines are the rows of the first or the columns of the second factor.
struct Factor<'p> {
    shared: &'static str,
    name: &'static str,
    /// The first line of the block.
    origin: &'static str,
    /// The lines of a tile.
    side: usize,
    axis: &'p ContractionAxis,
    along: isize,
    /// Whether the terms of a line lie side by side in memory, and so in shared memory too; otherwise the lines of a term do.
    by_line: bool,
    /// Whether four neighbours are copied at a time; with a condition on the address, where that is known at launch alone.
    vectors: Option<String>,
}

impl Factor<'_> {
    /// The elements of a line of shared memory, with a vector of padding: banks of neighbouring lines differ.
    fn line(&self) -> usize {
        if self.by_line { DEPTH + OWN } else { self.side + OWN }
    }

    /// The elements of a stage.
    fn stage(&self) -> usize {
        if self.by_line { self.side * self.line() } else { DEPTH * self.line() }
    }

    /// The line of a tile that element `u` of a thread is in.
    fn own(&self, thread: &str, u: &str) -> String {
        match self.by_line {
            true => format!("({thread} + {u} * {})", self.side / OWN),
            false => format!("({thread} * {OWN} + {u})"),
        }
    }

    /// Writes the copies of a stage.
    fn copies(&self, writer: &mut Writer, threads: usize, buffer: &str, from: &str) {
        match &self.vectors {
            Some(condition) if condition.is_empty() => self.copied(writer, threads, buffer, from, OWN),
            Some(condition) => {
                writer.line(format!("if ({condition}) {{"));
                self.copied(writer, threads, buffer, from, OWN);
                writer.line("} else {");
                self.copied(writer, threads, buffer, from, 1);
                writer.line("}");
            }
            None => self.copied(writer, threads, buffer, from, 1),
        }
    }

    fn copied(&self, writer: &mut Writer, threads: usize, buffer: &str, from: &str, width: usize) {
        let Factor { shared, name, origin, side, axis, along, by_line, .. } = self;
        let index = writer.index;
        let copies = DEPTH * side / width;
        writer.line("#pragma unroll");
        writer.line(format!("for (int u = 0; u < {}; u++) {{", copies.div_ceil(threads)));
        writer.line(format!("const int s = (threadIdx.x + u * {threads}) * {width};"));
        if !copies.is_multiple_of(threads) {
            writer.line(format!("if (s >= {}) break;", DEPTH * side));
        }
        // Neighbouring threads read neighbouring elements.
        match by_line {
            true => writer.line(format!("const int k = s % {DEPTH}, l = s / {DEPTH};")),
            false => writer.line(format!("const int k = s / {side}, l = s % {side};")),
        }
        writer.line(format!("const {index} term = {from} + k, place = {origin} + l;"));
        let inside = match axis.extent.is_multiple_of(*side) {
            true => "term < last".to_owned(),
            false => format!("term < last && place < {}", axis.extent),
        };
        let across = axis.strides[usize::from(*name == "b")];
        let cell = if *by_line { format!("l * {} + k", self.line()) } else { format!("k * {} + l", self.line()) };
        writer.line(format!(
            "gg_copy_async<{width}>({shared} + {buffer} * {} + {cell}, {name} + term * ({index}){along} + place * ({index}){across}, \
             {name}, {inside});",
            self.stage()
        ));
        writer.line("}");
    }

    /// Writes the loads of four terms, from `kk` on, of the elements of a thread: `x[element][term]`.
    fn loaded(&self, writer: &mut Writer, vector: &str, thread: &str) {
        let (shared, line, stage) = (self.shared, self.line(), self.stage());
        writer.line(format!("float {vector}[{OWN}][{OWN}];"));
        writer.line("#pragma unroll");
        writer.line(format!("for (int u = 0; u < {OWN}; u++) {{"));
        match self.by_line {
            true => {
                let own = self.own(thread, "u");
                writer.line(format!(
                    "const GgFour four = *(const GgFour *)({shared} + now * {stage} + {own} * {line} + kk);"
                ));
                writer.line(format!(
                    "{0}[u][0] = four.a; {0}[u][1] = four.b; {0}[u][2] = four.c; {0}[u][3] = four.d;",
                    vector
                ));
            }
            false => {
                writer.line(format!(
                    "const GgFour four = *(const GgFour *)({shared} + now * {stage} + (kk + u) * {line} + {thread} * {OWN});"
                ));
                writer.line(format!(
                    "{0}[0][u] = four.a; {0}[1][u] = four.b; {0}[2][u] = four.c; {0}[3][u] = four.d;",
                    vector
                ));
            }
        }
        writer.line("}");
    }
}

/// The factors of a product.
fn factors(product: &Contraction, sides: [usize; 2], arguments: [usize; 2]) -> [Factor<'_>; 2] {
    let Contraction { batch, rows, columns, inner, operands, .. } = product;
    let names = [("as", "a", "row0", rows), ("bs", "b", "column0", columns)];
    [0, 1].map(|operand| {
        let (shared, name, origin, axis) = names[operand];
        let [along, across] = [inner.strides[operand], axis.strides[operand]];
        let by_line = along == 1 && across != 1;
        // Vectors begin at multiples of four elements, and end within their line.
        let (contiguous, others) = if by_line { (inner, across) } else { (axis, along) };
        let is_vector = contiguous.strides[operand] == 1 && contiguous.extent.is_multiple_of(OWN);
        let far = batch.iter().map(|axis| axis.strides[operand]).chain([others, operands[operand].offset]);
        let is_aligned = far.into_iter().all(|stride| stride % OWN as isize == 0);
        let condition = match operands[operand].memory {
            Memory::Input(_) => format!("(u64)a{} % 16 == 0", arguments[operand]),
            Memory::Constant(_) | Memory::Result(_) | Memory::Arena(_) | Memory::Tile => String::new(),
        };
        let vectors = (is_vector && is_aligned).then_some(condition);
        Factor { shared, name, origin, side: sides[operand], axis, along, by_line, vectors }
    })
}

/// The same product with its factors exchanged, so that columns of the result are neighbours in memory.
fn exchanged(product: &Contraction) -> Contraction {
    let Contraction { batch, rows, columns, inner, operands: [a, b, c], .. } = product;
    Contraction {
        batch: batch.iter().map(ContractionAxis::transposed).collect(),
        rows: columns.transposed(),
        columns: rows.transposed(),
        inner: inner.transposed(),
        operands: [b.clone(), a.clone(), c.clone()],
        ..product.clone()
    }
}

/// The kernel of a contraction, if this is the kind that it suits.
pub(in crate::cuda) fn kernel(product: &Contraction, clusters: bool) -> Option<Tiled> {
    let product = &match product.rows.strides[2] == 1 && product.columns.strides[2] != 1 {
        true => exchanged(product),
        false => product.clone(),
    };
    let Tiling { sides, parts } = tiling(product, clusters)?;
    let Contraction { batch, rows, columns, inner, operands, .. } = product;
    let (m, n, terms) = (rows.extent, columns.extent, inner.extent);
    let [height, width] = sides;
    let threads = height * width / (OWN * OWN);
    let per_part = terms.div_ceil(parts).next_multiple_of(DEPTH);
    let parts = terms.div_ceil(per_part).max(1);
    let tiles = [m.div_ceil(height), n.div_ceil(width)];
    let batches: usize = batch.iter().map(|axis| axis.extent).product();
    let mut writer = Writer::new(reach_of_contraction(product));
    let index = writer.index;
    let arguments = [writer.argument(operands[0].memory), writer.argument(operands[1].memory)];
    let factors = factors(product, sides, arguments);
    let result_line = width + OWN;
    let stages = factors.each_ref().map(|factor| STAGES * factor.stage());
    writer.cluster_shared("float", "staged", (stages[0] + stages[1]).max(height * result_line), 4);
    writer.line(format!("float *as = staged, *bs = staged + {};", stages[0]));
    writer.line(format!("const int tx = threadIdx.x % {0}, ty = threadIdx.x / {0};", width / OWN));
    writer.line(format!("const {index} block = blockIdx.x;"));
    writer.line(format!("const {index} column0 = block % {} * {width};", tiles[1]));
    writer.line(format!("const {index} row0 = block / {} % {} * {height};", tiles[1], tiles[0]));
    writer.line(format!("const {index} batch = block / {};", tiles[0] * tiles[1]));
    offset(&mut writer, "a_batch", "batch", batch, 0);
    offset(&mut writer, "b_batch", "batch", batch, 1);
    offset(&mut writer, "c_batch", "batch", batch, 2);
    writer.line("(void)c_batch;");
    for (k, name) in ["a", "b"].into_iter().enumerate() {
        let (argument, offset) = (arguments[k], operands[k].offset);
        writer.line(format!("const float *{name} = (const float *)a{argument} + {offset} + {name}_batch;"));
    }
    writer.line(format!("const {index} first = ({index})blockIdx.y * {per_part};"));
    let last = if parts * per_part == terms {
        format!("first + {per_part}")
    } else {
        format!("first + {per_part} < {terms} ? first + {per_part} : ({index}){terms}")
    };
    writer.line(format!("const {index} last = {last};"));
    writer.line(format!("float sum[{OWN}][{OWN}] = {{}};"));
    let stage = |writer: &mut Writer, buffer: &str, from: &str| {
        factors.iter().for_each(|factor| factor.copies(writer, threads, buffer, from));
    };
    writer.line("#pragma unroll 1");
    writer.line(format!("for (int n = 0; n < {}; n++) {{", STAGES - 1));
    writer.line(format!("const {index} k0 = first + n * {DEPTH};"));
    writer.line("if (k0 < last) {");
    stage(&mut writer, "n", "k0");
    writer.line("}");
    writer.line("gg_copies_end_group();");
    writer.line("}");
    writer.line("int n = 0;");
    writer.line(format!("for ({index} k0 = first; k0 < last; k0 += {DEPTH}, n++) {{"));
    writer.line(format!("gg_copies_wait<{}>();", STAGES - 2));
    writer.line("__syncthreads();");
    // The buffer of the stage before this one: all threads have passed the barrier, and none reads it any more.
    writer.line(format!("const {index} k1 = k0 + {};", (STAGES - 1) * DEPTH));
    writer.line(format!("const int next = (n + {}) % {STAGES}, now = n % {STAGES};", STAGES - 1));
    writer.line("if (k1 < last) {");
    stage(&mut writer, "next", "k1");
    writer.line("}");
    writer.line("gg_copies_end_group();");
    writer.line("#pragma unroll");
    writer.line(format!("for (int kk = 0; kk < {DEPTH}; kk += {OWN}) {{"));
    factors[0].loaded(&mut writer, "x", "ty");
    factors[1].loaded(&mut writer, "y", "tx");
    for name in ["k", "u", "v"] {
        writer.line("#pragma unroll");
        writer.line(format!("for (int {name} = 0; {name} < {OWN}; {name}++)"));
    }
    writer.line("sum[u][v] = fma(x[u][k], y[v][k], sum[u][v]);");
    writer.line("}");
    writer.line("}");
    // The tile goes through shared memory, also without other parts: neighbouring threads then store neighbouring elements.
    writer.line("gg_copies_wait<0>();");
    writer.line("__syncthreads();");
    for name in ["u", "v"] {
        writer.line("#pragma unroll");
        writer.line(format!("for (int {name} = 0; {name} < {OWN}; {name}++)"));
    }
    let [row, column] = [factors[0].own("ty", "u"), factors[1].own("tx", "v")];
    writer.line(format!("staged[{row} * {result_line} + {column}] = sum[u][v];"));
    writer.line(if parts > 1 { "gg_cluster_barrier();" } else { "__syncthreads();" });
    let (own, step) = match parts {
        1 => ("threadIdx.x".to_owned(), threads),
        _ => (format!("blockIdx.y * {threads} + threadIdx.x"), threads * parts),
    };
    let elements = Elements { count: SEVERAL.min((height * width).div_ceil(step)) };
    writer.line(format!("for (int e = {own}; e < {}; e += {}) {{", height * width, step * elements.count));
    elements.declare(&mut writer, "float");
    writer.line("#pragma unroll");
    writer.line(format!("for (int u = 0; u < {}; u++) {{", elements.count));
    writer.line(format!("const int at = e + u * {step};"));
    writer.line(format!("row[u] = row0 + at / {width}; column[u] = column0 + at % {width};"));
    let beyond = match (height * width).is_multiple_of(step * elements.count) {
        true => String::new(),
        false => format!("at < {} && ", height * width),
    };
    writer.line(format!("inside[u] = {beyond}row[u] < {m} && column[u] < {n};"));
    writer.line(format!("const int cell = inside[u] ? at / {width} * {result_line} + at % {width} : 0;"));
    if parts == 1 {
        writer.line("total[u] = staged[cell];");
    } else {
        writer.line(format!("float part[{parts}];"));
        writer.line("#pragma unroll");
        writer.line(format!("for (int p = 0; p < {parts}; p++) part[p] = GG_REMOTE(staged, p, cell);"));
        writer.line("total[u] = part[0];");
        writer.line("#pragma unroll");
        writer.line(format!("for (int p = 1; p < {parts}; p++) total[u] += part[p];"));
    }
    writer.line("}");
    elements.finish(&mut writer, product);
    writer.line("}");
    if parts > 1 {
        // A block whose shared memory is read by others stays until they are done.
        writer.line("gg_cluster_barrier();");
    }
    let (kernel, memories) = writer.kernel(threads as u32, true);
    let kernel = kernel.launched_alone(parts as u32);
    Some(Tiled { kernel, memories, grid: [tiles[0] * tiles[1] * batches, parts], second: None })
}
