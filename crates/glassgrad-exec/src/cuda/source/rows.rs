//! Fused loops that reduce rows and go on with what they found: softmax, normalisation, pooling.

use super::elementwise::{VECTORS, neighbours};
use super::instructions::{identity, reduced, scaled};
use super::{Kernel, THREADS, Writer, reach_of, type_of};
use crate::dtype::DType;
use crate::program::{Instruction, Loop, Memory, Reduction};

/// The most elements of a row.
pub(in crate::cuda) const ROW_ELEMENTS: usize = 1 << 14;

/// The most threads of a row.
const MOST_THREADS: usize = 1024;

/// The threads of a warp, which reduce numbers among themselves without a barrier.
const WARP: usize = 32;

/// Rows of at most this many elements have a thread each.
const SHORT: usize = 8;

/// The same for rows that lie among each other, as places do whose channels are side by side.
const SHORT_AMONG_OTHERS: usize = 16;

/// The most threads of a row whose elements are moved as vectors.
const VECTORS_OF_A_ROW: usize = 256;

/// The most blocks of a loop that reduces along columns: each block goes over several rows and stores one partial result.
const COLUMN_BLOCKS: usize = 1056;

/// A reduction of one register along all rows: for each place in a row, a partial result of each group of threads in scratch memory.
pub(in crate::cuda) struct Column {
    pub(in crate::cuda) register: usize,
    pub(in crate::cuda) reduction: Reduction,
    /// The first element of its partial results.
    pub(in crate::cuda) first: usize,
}

/// How the rows of a loop are distributed.
pub(in crate::cuda) struct Distribution {
    /// The elements of a row, and the rows.
    length: usize,
    rows: usize,
    /// The neighbouring elements that a thread moves at a time.
    neighbours: usize,
    /// The threads of a row, and the rows that a block has at a time.
    lanes: usize,
    together: usize,
    /// The groups of threads with rows of their own.
    pub(in crate::cuda) groups: usize,
}

impl Distribution {
    pub(in crate::cuda) fn new(fused: &Loop, has_columns: bool) -> Distribution {
        let size = |is_along: bool| -> usize {
            (0..fused.extents.len())
                .filter(|axis| fused.along_rows[*axis] == is_along)
                .map(|axis| fused.extents[axis])
                .product()
        };
        let (length, rows) = (size(true), size(false));
        let along = fused.along_rows.iter().rposition(|along| *along);
        let is_last = along.is_some_and(|axis| axis + 1 == fused.extents.len());
        let neighbours = match along {
            Some(axis) if is_last && length > SHORT && rows.saturating_mul(length) >= VECTORS => {
                neighbours(fused, axis)
            }
            _ => 1,
        };
        let lanes = match length {
            0..=SHORT => 1,
            // Rows that lie among each other have threads side by side.
            0..=SHORT_AMONG_OTHERS if !is_last => 1,
            _ if neighbours > 1 => {
                let vectors = length / neighbours;
                vectors.div_ceil(vectors.div_ceil(VECTORS_OF_A_ROW)).next_multiple_of(WARP)
            }
            _ => length.div_ceil(4).next_power_of_two().clamp(32, MOST_THREADS),
        };
        let together = lanes.max(THREADS as usize) / lanes;
        let blocks = rows.div_ceil(together);
        let blocks = if has_columns { blocks.min(COLUMN_BLOCKS) } else { blocks };
        Distribution { length, rows, neighbours, lanes, together, groups: blocks * together }
    }
}

/// The kernel for a loop with rows, none of whose stores reduces, with the blocks of its grid. Reductions along columns are stored as partial results.
pub(in crate::cuda) fn kernel(fused: &Loop, columns: &[Column]) -> (Kernel, Vec<Memory>, usize) {
    let (along, across): (Vec<usize>, Vec<usize>) = (0..fused.extents.len()).partition(|axis| fused.along_rows[*axis]);
    let Distribution { length, rows, neighbours, lanes, together, groups } =
        Distribution::new(fused, !columns.is_empty());
    let block = lanes * together;
    let vectors = length.div_ceil(neighbours).div_ceil(lanes);
    let each = vectors * neighbours;
    let inner = along.last().copied().unwrap_or(0);
    let place_of = |element: &str| match neighbours {
        1 => format!("t + {element} * {lanes}"),
        _ => format!("(t + {element} / {neighbours} * {lanes}) * {neighbours} + {element} % {neighbours}"),
    };
    let last = columns.iter().map(|column| column.first + groups * length).max().unwrap_or(0);
    let mut writer = Writer::new(reach_of(fused).max(last));
    let index = writer.index;
    let has_reductions = fused.code.iter().any(|(code, _)| matches!(code, Instruction::RowReduce(..)));
    writer.line(format!("const int t = threadIdx.x % {lanes};"));
    writer.line(format!("const {index} group = ({index})blockIdx.x * {together} + threadIdx.x / {lanes};"));
    for Column { register, reduction, .. } in columns {
        let dtype = fused.dtype(*register);
        writer.line(format!("{} column{register}[{each}];", type_of(dtype)));
        writer.line("#pragma unroll");
        writer.line(format!("for (int e = 0; e < {each}; e++) column{register}[e] = {};", identity(*reduction, dtype)));
    }
    writer.line(format!("for ({index} turn = 0; turn < {}; turn++) {{", rows.div_ceil(groups)));
    if rows > groups && has_reductions && lanes > WARP {
        // What the last row left in shared memory was read by all.
        writer.line("__syncthreads();");
    }
    writer.line(format!("const {index} wanted = group + turn * ({index}){groups};"));
    writer.line(format!("const bool inside = wanted < ({index}){rows};"));
    writer.line(format!("const {index} row = inside ? wanted : 0;"));
    writer.indices("row", &across, &fused.extents);
    for register in 0..fused.loads.len() + fused.code.len() {
        let element = type_of(fused.dtype(register));
        let size = if fused.by_row[register] { String::new() } else { format!("[{each}]") };
        writer.line(format!("{element} r{register}{size};"));
    }
    let name = |register: usize| format!("r{register}{}", if fused.by_row[register] { "" } else { "[e]" });
    let each_element = |writer: &mut Writer| {
        writer.line("#pragma unroll");
        writer.line(format!("for (int e = 0; e < {each}; e++) {{"));
        writer.line(format!("const {index} j = {};", place_of("e")));
        writer.line(format!("if (j >= {length}) break;"));
        writer.indices("j", &along, &fused.extents);
    };
    // Vectors of neighbouring elements, the `v`-th of a thread.
    let each_vector = |writer: &mut Writer| {
        writer.line("#pragma unroll");
        writer.line(format!("for (int v = 0; v < {vectors}; v++) {{"));
        writer.line(format!("const {index} j = (t + v * {lanes}) * {neighbours};"));
        writer.line(format!("if (j >= {length}) break;"));
        writer.indices("j", &along, &fused.extents);
    };
    let first = format!("v * {neighbours}");
    let mut is_open = false;
    let mut reductions = 0;
    // Rows beyond the last one are computed like others, and neither loaded nor stored.
    let guarded = |value: String, dtype: DType| format!("inside ? ({}){value} : ({})0", type_of(dtype), type_of(dtype));
    if neighbours > 1 {
        writer.line("if (inside) {");
        each_vector(&mut writer);
        for (register, load) in fused.loads.iter().enumerate().filter(|(register, _)| !fused.by_row[*register]) {
            writer.read(load, inner, neighbours, &format!("r{register}"), &first);
        }
        writer.line("}");
        writer.line("} else {");
        for register in (0..fused.loads.len()).filter(|register| !fused.by_row[*register]) {
            let zero = type_of(fused.dtype(register));
            writer.line(format!("for (int e = 0; e < {each}; e++) r{register}[e] = ({zero})0;"));
        }
        writer.line("}");
    }
    for register in 0..fused.loads.len() + fused.code.len() {
        if neighbours > 1 && register < fused.loads.len() && !fused.by_row[register] {
            continue;
        }
        if !fused.by_row[register] {
            if !is_open {
                each_element(&mut writer);
                is_open = true;
            }
            let value = match register.checked_sub(fused.loads.len()) {
                None => guarded(writer.element(&fused.loads[register]), fused.dtype(register)),
                Some(place) => writer.instruction(fused, place, &name),
            };
            writer.line(format!("r{register}[e] = {value};"));
            continue;
        }
        if is_open {
            writer.line("}");
            is_open = false;
        }
        let reduction = register.checked_sub(fused.loads.len()).map(|place| (place, fused.code[place]));
        match reduction {
            None => {
                // What is loaded for a row does not move along it.
                let mut load = fused.loads[register].clone();
                along.iter().for_each(|axis| load.strides[*axis] = 0);
                let value = guarded(writer.element(&load), fused.dtype(register));
                writer.line(format!("r{register} = {value};"));
            }
            Some((_, (Instruction::RowReduce(reduction, a, scale), dtype))) => {
                let element = type_of(dtype);
                writer.line("{");
                writer.line(format!("{element} sum = {};", identity(reduction, dtype)));
                each_element(&mut writer);
                writer.line(format!("sum = {};", reduced(reduction, "sum", &name(a))));
                writer.line("}");
                if lanes > 1 {
                    // The warps of a block leave their results in one of two places by turns, so that one barrier is enough. Reductions of
                    // several types share the memory: places are apart for the widest of them.
                    let apart = block / WARP * 8 / dtype.bytes();
                    writer.shared(element, "shared", 2 * apart + block, dtype.bytes());
                    let is_max = reduction == Reduction::Max;
                    writer.line(format!("sum = gg_warp_reduce<{is_max}>(sum, shared + {}, threadIdx.x);", 2 * apart));
                    if lanes > WARP {
                        let place = reductions % 2 * apart;
                        writer.line(format!(
                            "if (threadIdx.x % {WARP} == 0) shared[{place} + threadIdx.x / {WARP}] = sum;"
                        ));
                        writer.line("__syncthreads();");
                        let of_warp = |k: usize| format!("shared[{} + (threadIdx.x - t) / {WARP}]", place + k);
                        writer.line(format!("sum = {};", of_warp(0)));
                        for k in 1..lanes / WARP {
                            writer.line(format!("sum = {};", reduced(reduction, "sum", &of_warp(k))));
                        }
                    }
                    reductions += 1;
                }
                writer.line(format!("r{register} = {};", scaled(dtype, "sum", scale)));
                writer.line("}");
            }
            Some((place, _)) => {
                let value = writer.instruction(fused, place, &name);
                writer.line(format!("r{register} = {value};"));
            }
        }
    }
    if is_open {
        writer.line("}");
    }
    // Every load of a row stands before its first store: a loop may overwrite what it reads.
    writer.line("if (inside) {");
    for store in fused.stores.iter().filter(|store| store.reduction.is_none()) {
        if fused.by_row[store.register] {
            let mut access = store.access.clone();
            along.iter().for_each(|axis| access.strides[*axis] = 0);
            let place = writer.element(&access);
            writer.line(format!("if (t == 0) {place} = r{};", store.register));
        } else {
            each_vector(&mut writer);
            writer.write(&store.access, inner, neighbours, &format!("r{}", store.register), &first);
            writer.line("}");
        }
    }
    for Column { register, reduction, .. } in columns {
        each_element(&mut writer);
        let (so_far, next) = (format!("column{register}[e]"), format!("r{register}[e]"));
        writer.line(format!("{so_far} = {};", reduced(*reduction, &so_far, &next)));
        writer.line("}");
    }
    writer.line("}");
    writer.line("}");
    for Column { register, first, .. } in columns {
        let argument = writer.argument(Memory::Tile);
        let element = type_of(fused.dtype(*register));
        writer.line("#pragma unroll");
        writer.line(format!("for (int e = 0; e < {each}; e++) {{"));
        writer.line(format!("const {index} j = {};", place_of("e")));
        writer.line(format!("if (j < {length}) (({element} *)a{argument})[{first} + group * ({index}){length} + j] = column{register}[e];"));
        writer.line("}");
    }
    let (kernel, memories) = writer.kernel(block as u32, lanes > 1 && has_reductions);
    (kernel, memories, groups / together)
}
