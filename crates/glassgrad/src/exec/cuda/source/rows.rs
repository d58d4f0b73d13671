//! Fused loops that reduce rows and go on with what they found: softmax, normalisation, pooling.

use super::instructions::{identity, reduced, scaled};
use super::{Kernel, THREADS, Writer, reach_of, type_of};
use crate::dtype::DType;
use crate::opt::program::{Instruction, Loop, Memory};

/// The most elements of a row.
pub(in crate::exec::cuda) const ROW_ELEMENTS: usize = 1 << 14;

/// The most threads of a row.
const MOST_THREADS: usize = 1024;

/// The branches of each level of the tree by which the threads of a row reduce it.
const BRANCHES: usize = 8;

/// Rows of at most this many elements have a thread each.
const SHORT: usize = 8;

/// The kernel for a loop with rows, none of whose stores reduces, with the blocks of its grid.
pub(in crate::exec::cuda) fn kernel(fused: &Loop) -> (Kernel, Vec<Memory>, usize) {
    let (along, across): (Vec<usize>, Vec<usize>) = (0..fused.extents.len()).partition(|axis| fused.along_rows[*axis]);
    let size = |axes: &[usize]| axes.iter().map(|axis| fused.extents[*axis]).product::<usize>();
    let (length, rows) = (size(&along), size(&across));
    let lanes = match length {
        0..=SHORT => 1,
        _ => length.div_ceil(4).next_power_of_two().clamp(32, MOST_THREADS),
    };
    let block = lanes.max(THREADS as usize);
    let together = block / lanes;
    let each = length.div_ceil(lanes);
    let mut writer = Writer::new(reach_of(fused));
    let index = writer.index;
    let has_reductions = fused.code.iter().any(|(code, _)| matches!(code, Instruction::RowReduce(..)));
    writer.line(format!("const int t = threadIdx.x % {lanes};"));
    writer.line(format!("const {index} wanted = ({index})blockIdx.x * {together} + threadIdx.x / {lanes};"));
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
        writer.line(format!("const {index} j = t + e * {lanes};"));
        writer.line(format!("if (j >= {length}) break;"));
        writer.indices("j", &along, &fused.extents);
    };
    let mut is_open = false;
    // Rows beyond the last one are computed like others, and neither loaded nor stored.
    let guarded = |value: String, dtype: DType| format!("inside ? ({}){value} : ({})0", type_of(dtype), type_of(dtype));
    for register in 0..fused.loads.len() + fused.code.len() {
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
                    writer.shared(element, "shared", block, dtype.bytes());
                    writer.line("__syncthreads();");
                    writer.line("shared[threadIdx.x] = sum;");
                    // A tree of eight branches: each level costs a barrier.
                    let mut left = lanes;
                    while left > 1 {
                        let next = left.div_ceil(BRANCHES);
                        writer.line("__syncthreads();");
                        writer.line(format!("if (t < {next}) {{"));
                        writer.line(format!("{element} branch = shared[threadIdx.x];"));
                        for k in 1..left / next {
                            let other = format!("shared[threadIdx.x + {}]", k * next);
                            writer.line(format!("branch = {};", reduced(reduction, "branch", &other)));
                        }
                        writer.line("shared[threadIdx.x] = branch;");
                        writer.line("}");
                        left = next;
                    }
                    writer.line("__syncthreads();");
                    writer.line("sum = shared[threadIdx.x - t];");
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
            each_element(&mut writer);
            let place = writer.element(&store.access);
            writer.line(format!("{place} = r{}[e];", store.register));
            writer.line("}");
        }
    }
    writer.line("}");
    let (kernel, memories) = writer.kernel(block as u32, lanes > 1 && has_reductions);
    (kernel, memories, rows.div_ceil(together))
}
