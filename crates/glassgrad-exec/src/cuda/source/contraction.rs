//! Contractions in tiles: blocks stage parts of both factors in shared memory, threads keep a tile of the result in registers.
//! Where there are few tiles and many terms, the terms are split into parts that a second kernel adds up in a fixed order.

use super::epilogue::Elements;
use super::{Kernel, THREADS, Writer, reach_of, type_of};
use crate::dtype::DType;
use crate::program::{Access, Contraction, ContractionAxis, Loop, Memory, Reduction, Store};

/// The terms that are staged at a time, for tiles in which a thread computes this many elements along each side: small tiles leave
/// room for more, and each stage waits for memory once.
fn depth(per_thread: usize, terms: usize, dtype: DType) -> usize {
    let most = match per_thread {
        1 if dtype.bytes() <= 4 => 64,
        1 | 2 => 32,
        _ => 16,
    };
    terms.next_multiple_of(4).clamp(4, most)
}

/// The threads along each side of a tile.
const SIDE: usize = 16;

/// The blocks that are enough for every GPU.
const BLOCKS: usize = 264;

/// With fewer blocks than this multiprocessors are idle.
const FEW_BLOCKS: usize = 128;

/// The least terms of a part.
const LEAST_TERMS: usize = 64;

/// How a contraction is computed.
pub(in crate::cuda) struct Tiled {
    pub(in crate::cuda) kernel: Kernel,
    pub(in crate::cuda) memories: Vec<Memory>,
    pub(in crate::cuda) grid: [usize; 2],
    /// If there are several parts: the loop that adds them up from scratch memory, and the bytes that they take.
    pub(in crate::cuda) second: Option<(Loop, usize)>,
}

pub(in crate::cuda) fn count(axes: &[ContractionAxis]) -> usize {
    axes.iter().map(|axis| axis.extent).product()
}

/// The elements that one thread computes along each side, for sides and a batch of these sizes: the most with which no
/// multiprocessor is idle. More elements need fewer accesses for each multiplication.
fn per_thread([rows, columns, batches, terms]: [usize; 4], dtype: DType) -> usize {
    let most = match rows.min(columns) {
        0..=16 => 1,
        17..=48 => 2,
        _ if !dtype.is_float() => 2,
        _ => 4,
    };
    let blocks = |own: usize| rows.div_ceil(SIDE * own) * columns.div_ceil(SIDE * own) * batches;
    let parts = (terms / (4 * LEAST_TERMS)).max(1);
    [4, 2].into_iter().find(|own| *own <= most && blocks(*own) * parts >= FEW_BLOCKS).unwrap_or(1)
}

/// The largest index or element offset of a contraction and its epilogue.
pub(super) fn reach_of_contraction(product: &Contraction) -> usize {
    let Contraction { batch, sums, rows, columns, inner, operands, epilogue, .. } = product;
    let all = [&batch[..], &sums[..], &[*rows, *columns, *inner]].concat();
    let reaches = (0..3).map(|operand| {
        let far = all.iter().map(|axis| axis.strides[operand].unsigned_abs().saturating_mul(axis.extent));
        far.fold(operands[operand].offset.unsigned_abs(), usize::saturating_add)
    });
    let terms = count(&[&sums[..], &[*inner]].concat());
    let outputs = count(batch).saturating_mul(rows.extent).saturating_mul(columns.extent);
    reaches.fold(outputs.max(terms), usize::max).max(epilogue.as_ref().map_or(0, |epilogue| reach_of(epilogue)))
}

/// Writes `offset`: how far some axes move an operand, for indices that a row-major linear one stands for.
pub(super) fn offset(writer: &mut Writer, name: &str, linear: &str, axes: &[ContractionAxis], operand: usize) {
    let index = writer.index;
    let mut inner = 1;
    let mut terms = Vec::new();
    for (place, axis) in axes.iter().enumerate().rev() {
        if axis.strides[operand] != 0 && axis.extent > 1 {
            let divided = if inner == 1 { linear.to_owned() } else { format!("{linear} / ({index}){inner}") };
            let reduced = if place == 0 { divided } else { format!("{divided} % ({index}){}", axis.extent) };
            terms.push(format!("({reduced}) * ({index}){}", axis.strides[operand]));
        }
        inner *= axis.extent.max(1);
    }
    let sum = if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") };
    writer.line(format!("const {index} {name} = {sum};"));
}

/// The kernel of a contraction. Parts go to scratch memory.
pub(in crate::cuda) fn kernel(product: &Contraction) -> Tiled {
    tiled(product, false)
}

/// The kernel behind the usual product of a contraction with strong zeros. A zero times what is not finite leaves a NaN in its sum, so
/// that tiles without a NaN are right as they are; the others are computed again by the definition.
pub(in crate::cuda) fn repair(product: &Contraction) -> (Kernel, Vec<Memory>, [usize; 2]) {
    let Tiled { kernel, memories, grid, second } = tiled(&Contraction { epilogue: None, ..product.clone() }, true);
    assert!(second.is_none(), "tiles are computed again as a whole");
    (kernel, memories, grid)
}

fn tiled(product: &Contraction, repairs: bool) -> Tiled {
    let Contraction { batch, sums, rows, columns, inner, operands, masked, .. } = product;
    // Factors are converted while they are staged, and results rounded where they are stored.
    let dtype = operands[2].dtype.compute_type();
    let (element, stored) = (type_of(dtype), type_of(operands[2].dtype));
    let summed = [&sums[..], &[*inner]].concat();
    let (m, n, terms, batches) = (rows.extent, columns.extent, count(&summed), count(batch));
    let own = if repairs { 4 } else { per_thread([m, n, batches, terms], dtype) };
    let depth = depth(own, terms, dtype);
    let tile = SIDE * own;
    let tiles = [m.div_ceil(tile), n.div_ceil(tile)];
    let blocks = tiles[0] * tiles[1] * batches;
    let parts = match blocks < BLOCKS && terms >= 2 * LEAST_TERMS && !repairs {
        true => BLOCKS.div_ceil(blocks).min(terms / LEAST_TERMS),
        false => 1,
    };
    // Sums of nothing are zero, and are written too.
    let per_part = terms.div_ceil(parts).next_multiple_of(depth).max(depth);
    let parts = terms.div_ceil(per_part).max(1);
    let outputs = batches * m * n;
    let mut writer = Writer::new(reach_of_contraction(product).max(outputs.saturating_mul(parts)));
    let index = writer.index;
    let arguments = [writer.argument(operands[0].memory), writer.argument(operands[1].memory)];
    let line = tile + 1;
    writer.shared(element, "staged", 2 * depth * line, dtype.bytes());
    writer.line(format!("{element} (*as)[{line}] = ({element} (*)[{line}])staged, (*bs)[{line}] = as + {depth};"));
    writer.line(format!("const int tx = threadIdx.x % {SIDE}, ty = threadIdx.x / {SIDE};"));
    writer.line(format!("const {index} block = blockIdx.x;"));
    writer.line(format!("const {index} column0 = block % {} * {tile};", tiles[1]));
    writer.line(format!("const {index} row0 = block / {} % {} * {tile};", tiles[1], tiles[0]));
    writer.line(format!("const {index} batch = block / {};", tiles[0] * tiles[1]));
    if repairs {
        return_unless_nan(&mut writer, product, tile);
    }
    offset(&mut writer, "a_batch", "batch", batch, 0);
    offset(&mut writer, "b_batch", "batch", batch, 1);
    let factor = |k: usize| format!("((const {stored} *)a{} + {})", arguments[k], operands[k].offset);
    writer.line(format!("const {stored} *a = {} + a_batch;", factor(0)));
    writer.line(format!("const {stored} *b = {} + b_batch;", factor(1)));
    writer.line(format!("{element} sum[{own}][{own}] = {{}};"));
    writer.line(format!("const {index} first = ({index})blockIdx.y * {per_part};"));
    writer.line(format!("const {index} last = first + {per_part} < {terms} ? first + {per_part} : ({index}){terms};"));
    // Elements of the next stage are loaded into registers before the current one is multiplied, so that both overlap.
    let staged = depth * tile;
    let each = staged.div_ceil(THREADS as usize);
    let factors = [("as", "a", "row0", rows), ("bs", "b", "column0", columns)];
    writer.line(format!("{element} next_a[{each}], next_b[{each}];"));
    let each_element = |writer: &mut Writer, operand: usize| {
        let axis = factors[operand].3;
        // Neighbouring threads read neighbouring elements.
        let along_terms = inner.strides[operand].unsigned_abs() == 1 && axis.strides[operand].unsigned_abs() != 1;
        writer.line("#pragma unroll");
        writer.line(format!("for (int u = 0; u < {each}; u++) {{"));
        writer.line(format!("const int s = threadIdx.x + u * {THREADS};"));
        match along_terms {
            true => writer.line(format!("const int k = s % {depth}, l = s / {depth};")),
            false => writer.line(format!("const int k = s / {tile}, l = s % {tile};")),
        }
        if each * THREADS as usize > staged {
            writer.line(format!("if (s >= {staged}) break;"));
        }
    };
    let load = |writer: &mut Writer, from: &str| {
        for (operand, (_, factor, line, axis)) in factors.into_iter().enumerate() {
            each_element(writer, operand);
            writer.line(format!("const {index} term = {from} + k, place = {line} + l;"));
            offset(writer, "moved", "term", &summed, operand);
            writer.line(format!(
                "next_{factor}[u] = term < last && place < {} ? ({element}){factor}[moved + place * ({index}){}] : ({element})0;",
                axis.extent, axis.strides[operand]
            ));
            writer.line("}");
        }
    };
    load(&mut writer, "first");
    writer.line(format!("for ({index} k0 = first; k0 < last; k0 += {depth}) {{"));
    for (operand, (shared, factor, ..)) in factors.into_iter().enumerate() {
        each_element(&mut writer, operand);
        writer.line(format!("{shared}[k][l] = next_{factor}[u];"));
        writer.line("}");
    }
    writer.line("__syncthreads();");
    if per_part > depth {
        writer.line(format!("if (k0 + {depth} < last) {{"));
        load(&mut writer, &format!("k0 + {depth}"));
        writer.line("}");
    }
    // Single elements need few instructions at a time, and a chain is bound by the fetch of instructions that run once.
    writer.line(if own == 1 { "#pragma unroll 8" } else { "#pragma unroll" });
    writer.line(format!("for (int k = 0; k < {depth}; k++) {{"));
    writer.line(format!("{element} x[{own}], y[{own}];"));
    writer.line("#pragma unroll");
    writer.line(format!(
        "for (int u = 0; u < {own}; u++) {{ x[u] = as[k][ty + u * {SIDE}]; y[u] = bs[k][tx + u * {SIDE}]; }}"
    ));
    writer.line("#pragma unroll");
    writer.line(format!("for (int u = 0; u < {own}; u++)"));
    writer.line("#pragma unroll");
    writer.line(format!("for (int v = 0; v < {own}; v++) {{"));
    let conditions: Vec<&str> =
        [(masked[0], "x[u] != 0"), (masked[1], "y[v] != 0")].iter().filter(|own| own.0).map(|own| own.1).collect();
    if !conditions.is_empty() {
        writer.line(format!("if ({})", conditions.join(" && ")));
    }
    match dtype {
        DType::F32 | DType::F64 => writer.line("sum[u][v] = fma(x[u], y[v], sum[u][v]);"),
        DType::I64 | DType::Bool => writer.line("sum[u][v] = gg_plus(sum[u][v], gg_times(x[u], y[v]));"),
        DType::F16 | DType::BF16 | DType::I32 | DType::U8 => unreachable!("no sum is taken in {dtype}"),
    }
    writer.line("}");
    writer.line("}");
    writer.line("__syncthreads();");
    writer.line("}");
    offset(&mut writer, "c_batch", "batch", batch, 2);
    writer.line(format!("for (int i = 0; i < {own}; i++) for (int j = 0; j < {own}; j++) {{"));
    let elements = Elements { count: 1 };
    elements.declare(&mut writer, element);
    writer.line(format!("row[0] = row0 + ty + i * {SIDE}; column[0] = column0 + tx + j * {SIDE};"));
    writer.line(format!("inside[0] = row[0] < {m} && column[0] < {n}; total[0] = sum[i][j];"));
    let second = if parts == 1 {
        elements.finish(&mut writer, product);
        None
    } else {
        let to = writer.argument(Memory::Tile);
        let first = first_part(product);
        writer.line(format!(
            "if (inside[0]) (({element} *)a{to})[{first} + (({index})blockIdx.y * {batches} + batch) * {} + row[0] * {n} + column[0]] = \
             total[0];",
            m * n
        ));
        Some((parts_added_up(product, parts), (first + parts * outputs) * dtype.bytes()))
    };
    writer.line("}");
    let (kernel, memories) = writer.kernel(THREADS, true);
    Tiled { kernel, memories, grid: [blocks, parts], second }
}

/// Early exit of a block whose tile of the result holds no NaN.
fn return_unless_nan(writer: &mut Writer, product: &Contraction, tile: usize) {
    let Contraction { batch, rows, columns, operands, .. } = product;
    let (index, stored, to) = (writer.index, type_of(operands[2].dtype), writer.argument(operands[2].memory));
    writer.line("{");
    offset(writer, "c_batch", "batch", batch, 2);
    writer.line(format!("const {stored} *c = (const {stored} *)a{to} + {} + c_batch;", operands[2].offset));
    writer.line("volatile int *found = (volatile int *)staged;");
    writer.line("if (threadIdx.x == 0) *found = 0;");
    writer.line("__syncthreads();");
    writer.line("bool is_nan = false;");
    // Neighbouring threads read neighbouring elements.
    let (row, column) = match columns.strides[2].unsigned_abs() <= rows.strides[2].unsigned_abs() {
        true => (format!("s / {tile}"), format!("s % {tile}")),
        false => (format!("s % {tile}"), format!("s / {tile}")),
    };
    writer.line("#pragma unroll 4");
    writer.line(format!("for (int s = threadIdx.x; s < {}; s += {THREADS}) {{", tile * tile));
    writer.line(format!("const {index} row = row0 + {row}, column = column0 + {column};"));
    writer.line(format!("if (row < {} && column < {}) {{", rows.extent, columns.extent));
    writer.line(format!(
        "const float x = (float)c[row * ({index}){} + column * ({index}){}];",
        rows.strides[2], columns.strides[2]
    ));
    writer.line("is_nan |= x != x;");
    writer.line("}");
    writer.line("}");
    writer.line("if (is_nan) *found = 1;");
    writer.line("__syncthreads();");
    writer.line("const bool is_usual = *found == 0;");
    writer.line("__syncthreads();");
    writer.line("if (is_usual) return;");
    writer.line("}");
}

/// Where partial sums begin in scratch memory, in elements: behind the product if that is there too, for its epilogue.
pub(super) fn first_part(product: &Contraction) -> usize {
    match product.operands[2].memory {
        Memory::Tile => count(&[&product.batch[..], &[product.rows, product.columns]].concat()).next_multiple_of(64),
        Memory::Input(_) | Memory::Constant(_) | Memory::Result(_) | Memory::Arena(_) => 0,
    }
}

/// The loop that adds up parts, each of which is a whole row-major result.
pub(super) fn parts_added_up(product: &Contraction, parts: usize) -> Loop {
    let Contraction { batch, rows, columns, operands, coefficient, .. } = product;
    let kept = [&batch[..], &[*rows, *columns]].concat();
    let extents: Vec<usize> = std::iter::once(parts).chain(kept.iter().map(|axis| axis.extent)).collect();
    let mut from = vec![1; extents.len()];
    for axis in (0..extents.len() - 1).rev() {
        from[axis] = from[axis + 1] * extents[axis + 1] as isize;
    }
    let dtype = operands[2].dtype.compute_type();
    let to = std::iter::once(0).chain(kept.iter().map(|axis| axis.strides[2])).collect();
    Loop {
        by_row: vec![false],
        along_rows: vec![false; extents.len()],
        extents,
        loads: vec![Access { memory: Memory::Tile, dtype, offset: first_part(product) as isize, strides: from }],
        code: Vec::new(),
        stores: vec![Store {
            register: 0,
            access: Access { strides: to, ..operands[2].clone() },
            reduction: Some(Reduction::Sum),
            scale: *coefficient,
            clear: None,
        }],
    }
}
