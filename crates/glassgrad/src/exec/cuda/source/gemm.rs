//! Products of matrices with few rows or few terms, where calls of a library and the kernels behind them cost more than the product.
//!
//! Blocks stage tiles of both factors by asynchronous copies, several stages ahead. Where there are few tiles, a thread-block
//! cluster splits the terms (split-k): each block keeps its partial sums in shared memory, and the blocks of the cluster add them
//! up in a fixed order, each a share of the tile. The epilogue runs on these sums, so that nothing else touches the result.

use super::Writer;
use super::contraction::{Tiled, offset, reach_of_contraction};
use super::epilogue::Elements;
use crate::dtype::DType;
use crate::opt::program::{Contraction, ContractionAxis};

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

/// The multiprocessors of a large GPU.
const MULTIPROCESSORS: usize = 132;

/// The sides of tiles, with the instructions that a warp issues for each stage: the smaller the tile, the more copies for each
/// multiplication.
const SIDES: [([usize; 2], usize); 3] = [([64, 64], 370), ([64, 32], 410), ([32, 32], 450)];

/// The least cycles of a stage.
const LATENCY: usize = 450;

/// The cycles in which the blocks of a cluster exchange their sums: in all, and for each block.
const EXCHANGE: usize = 1500;
const EXCHANGE_OF_PART: usize = 100;

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
    let is_deep = clusters && terms >= MANY_TERMS && terms <= MOST_PARTS * MOST_TERMS && multiplications >= 1 << 16;
    if !is_plain || !sums.is_empty() || !(is_large || is_deep) {
        return None;
    }
    let most_parts = if clusters { (terms / LEAST_TERMS).clamp(1, MOST_PARTS) } else { 1 };
    let candidates =
        SIDES.into_iter().flat_map(|(sides, issued)| (1..=most_parts).map(move |parts| (sides, issued, parts)));
    let cycles = |([height, width], issued, parts): &([usize; 2], usize, usize)| {
        let blocks = m.div_ceil(*height) * n.div_ceil(*width) * batches * parts;
        let stages = terms.div_ceil(*parts).div_ceil(DEPTH);
        // Four warps issue at a time.
        let warps = height * width / (OWN * OWN * 32);
        let stage = (blocks.div_ceil(MULTIPROCESSORS) * warps * issued / 4).max(LATENCY);
        stages * stage + if *parts > 1 { EXCHANGE + EXCHANGE_OF_PART * parts } else { 0 }
    };
    let (sides, _, parts) = candidates.min_by_key(cycles)?;
    // Sums of many terms by few blocks are left to a library, or to parts in global memory.
    let is_slow = terms > parts * MOST_TERMS;
    (!is_slow).then_some(Tiling { sides, parts })
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
pub(in crate::exec::cuda) fn kernel(product: &Contraction, clusters: bool) -> Option<Tiled> {
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
    // Lines end with a vector of padding: banks of neighbouring lines differ.
    let lines = sides.map(|side| side + OWN);
    let result_line = width + OWN;
    let staged = (STAGES * DEPTH * (lines[0] + lines[1])).max(height * result_line);
    writer.cluster_shared("float", "staged", staged, 4);
    writer.line(format!("float (*as)[{0}] = (float (*)[{0}])staged;", lines[0]));
    writer.line(format!("float (*bs)[{0}] = (float (*)[{0}])(staged + {1});", lines[1], STAGES * DEPTH * lines[0]));
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
        for (operand, (shared, factor, origin, axis)) in
            [("as", "a", "row0", rows), ("bs", "b", "column0", columns)].into_iter().enumerate()
        {
            let side = sides[operand];
            let each = DEPTH * side / threads;
            // Neighbouring threads read neighbouring elements.
            let along_terms = inner.strides[operand].unsigned_abs() == 1 && axis.strides[operand].unsigned_abs() != 1;
            writer.line("#pragma unroll");
            writer.line(format!("for (int u = 0; u < {each}; u++) {{"));
            writer.line(format!("const int s = threadIdx.x + u * {threads};"));
            match along_terms {
                true => writer.line(format!("const int k = s % {DEPTH}, l = s / {DEPTH};")),
                false => writer.line(format!("const int k = s / {side}, l = s % {side};")),
            }
            writer.line(format!("const {index} term = {from} + k, place = {origin} + l;"));
            let inside = match axis.extent.is_multiple_of(side) {
                true => "term < last".to_owned(),
                false => format!("term < last && place < {}", axis.extent),
            };
            let [along, across] = [inner.strides[operand], axis.strides[operand]];
            writer.line(format!(
                "gg_copy_async(&{shared}[{buffer} * {DEPTH} + k][l], {factor} + term * ({index}){along} + place * ({index}){across}, \
                 {factor}, {inside});"
            ));
            writer.line("}");
        }
    };
    writer.line("#pragma unroll");
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
    writer.line(format!("for (int k = 0; k < {DEPTH}; k++) {{"));
    for (vector, shared, thread) in [("x", "as", "ty"), ("y", "bs", "tx")] {
        writer
            .line(format!("const GgFour {vector}4 = *(const GgFour *)&{shared}[now * {DEPTH} + k][{thread} * {OWN}];"));
        writer.line(format!("const float {vector}[{OWN}] = {{{0}.a, {0}.b, {0}.c, {0}.d}};", format!("{vector}4")));
    }
    writer.line("#pragma unroll");
    writer.line(format!("for (int u = 0; u < {OWN}; u++)"));
    writer.line("#pragma unroll");
    writer.line(format!("for (int v = 0; v < {OWN}; v++) sum[u][v] = fma(x[u], y[v], sum[u][v]);"));
    writer.line("}");
    writer.line("}");
    // The tile goes through shared memory, also without other parts: neighbouring threads then store neighbouring elements.
    writer.line("gg_copies_wait<0>();");
    writer.line("__syncthreads();");
    writer.line("#pragma unroll");
    writer.line(format!("for (int u = 0; u < {OWN}; u++) {{"));
    writer.line("const GgFour four = {sum[u][0], sum[u][1], sum[u][2], sum[u][3]};");
    writer.line(format!("*(GgFour *)&staged[(ty * {OWN} + u) * {result_line} + tx * {OWN}] = four;"));
    writer.line("}");
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
