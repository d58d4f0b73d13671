//! Stores of fused loops that reduce along axes: each block reduces a part in a fixed order, and where there are several
//! parts a second kernel reduces these, so that results are the same in every run.

use super::elementwise::{VECTORS, neighbours};
use super::instructions::{identity, reduced, scaled};
use super::{Kernel, THREADS, Writer, reach_of, type_of};
use crate::program::{Access, Loop, Memory, Reduction, Store};

/// The blocks that are enough for every GPU.
const BLOCKS: usize = 528;

/// The least elements that a thread reduces before parts are made.
const PER_THREAD: usize = 16;

/// The elements that a thread loads at a time: of 16 bits twice as many, since bytes under way hide the latency of memory.
const SEVERAL: usize = 4;

/// The most neighbouring results of a thread.
const NEIGHBOURS: usize = 4;

/// How a store that reduces is computed.
pub(in crate::cuda) struct Reducing {
    pub(in crate::cuda) kernel: Kernel,
    pub(in crate::cuda) memories: Vec<Memory>,
    pub(in crate::cuda) grid: [usize; 2],
    /// If there are several parts: the loop that reduces them from scratch memory, and the bytes that they take.
    pub(in crate::cuda) second: Option<(Loop, usize)>,
}

/// The kernel for one store of a loop. Parts go to scratch memory, from an element on.
pub(in crate::cuda) fn kernel(fused: &Loop, store: &Store, reduction: Reduction, scratch: usize) -> Reducing {
    // Results are rounded where they are stored; parts and sums are of the compute type.
    let dtype = store.access.dtype.compute_type();
    let (kept, summed): (Vec<usize>, Vec<usize>) =
        (0..fused.extents.len()).partition(|axis| store.access.strides[*axis] != 0);
    let size = |axes: &[usize]| axes.iter().map(|axis| fused.extents[*axis]).product::<usize>();
    let (outputs, inputs) = (size(&kept), size(&summed));
    let threads = THREADS as usize;
    let kept_inside = fused.extents.len().checked_sub(1).is_some_and(|last| kept.contains(&last));
    let last = fused.extents.len().saturating_sub(1);
    // A thread has several neighbouring results where elements are narrow.
    let own = match kept_inside && inputs.saturating_mul(outputs) >= VECTORS {
        true => neighbours(&Loop { stores: Vec::new(), ..fused.clone() }, last).min(NEIGHBOURS),
        false => 1,
    };
    // Neighbouring threads read neighbouring elements.
    let (across, along) = if kept_inside {
        let across = (outputs / own).next_power_of_two().min(32);
        (across, threads / across)
    } else {
        let along = inputs.next_power_of_two().min(threads);
        (threads / along, along)
    };
    let blocks = outputs.div_ceil(across * own);
    let parts = match blocks < BLOCKS / 2 && inputs > along * PER_THREAD {
        true => inputs.div_ceil(along * PER_THREAD).min(BLOCKS.div_ceil(blocks)),
        false => 1,
    };
    let mut writer = Writer::new(reach_of(fused).max(outputs.saturating_mul(parts)));
    let (index, element) = (writer.index, type_of(dtype));
    let (kx, rx) = if kept_inside {
        (format!("threadIdx.x % {across}"), format!("threadIdx.x / {across}"))
    } else {
        (format!("threadIdx.x / {along}"), format!("threadIdx.x % {along}"))
    };
    writer.shared(element, "shared", threads * own, dtype.bytes());
    writer.line(format!("const int kx = {kx}, rx = {rx};"));
    writer.line(format!("const {index} o = (({index})blockIdx.x * {across} + kx) * {own};"));
    writer.line(format!("{element} sum[{own}];"));
    writer.line(format!("for (int k = 0; k < {own}; k++) sum[k] = {};", identity(reduction, dtype)));
    writer.line(format!("if (o < ({index}){outputs}) {{"));
    writer.indices("o", &kept, &fused.extents);
    let step = along * parts;
    let needed = fused.needed(&[store.register]);
    let loads: Vec<usize> = (0..fused.loads.len()).filter(|load| needed[*load]).collect();
    let is_narrow = loads.iter().all(|load| fused.loads[*load].dtype.bytes() <= 2);
    let several = if is_narrow { 2 * SEVERAL } else { SEVERAL };
    // All loads stand before the arithmetic; the order of the sum stays that of the loop.
    let accumulate = |writer: &mut Writer, count: usize| {
        for load in &loads {
            writer.line(format!("{} l{load}[{}];", type_of(fused.dtype(*load)), count * own));
        }
        writer.line("#pragma unroll");
        writer.line(format!("for (int u = 0; u < {count}; u++) {{"));
        writer.line(format!("const {index} i = i0 + u * {step};"));
        writer.indices("i", &summed, &fused.extents);
        for load in &loads {
            writer.read(&fused.loads[*load], last, own, &format!("l{load}"), &format!("u * {own}"));
        }
        writer.line("}");
        writer.line("#pragma unroll");
        writer.line(format!("for (int u = 0; u < {}; u++) {{", count * own));
        writer.computed(fused, &needed, &|load| format!("l{load}[u]"));
        let so_far = format!("sum[u % {own}]");
        writer.line(format!("{so_far} = {};", reduced(reduction, &so_far, &format!("r{}", store.register))));
        writer.line("}");
    };
    writer.line(format!("{index} i0 = ({index})blockIdx.y * {along} + rx;"));
    if inputs >= several * step {
        writer.line(format!("for (; i0 + {} < ({index}){inputs}; i0 += {}) {{", (several - 1) * step, several * step));
        accumulate(&mut writer, several);
        writer.line("}");
    }
    writer.line(format!("for (; i0 < ({index}){inputs}; i0 += {step}) {{"));
    accumulate(&mut writer, 1);
    writer.line("}");
    writer.line("}");
    let place = |row: &str| format!("shared[({row} * {across} + kx) * {own} + k]");
    writer.line(format!("for (int k = 0; k < {own}; k++) {} = sum[k];", place("rx")));
    writer.line(format!("for (int s = {}; s > 0; s /= 2) {{", along / 2));
    writer.line("__syncthreads();");
    let (a, b) = (place("rx"), place("(rx + s)"));
    writer.line(format!("if (rx < s) for (int k = 0; k < {own}; k++) {a} = {};", reduced(reduction, &a, &b)));
    writer.line("}");
    writer.line(format!("if (rx == 0 && o < ({index}){outputs}) {{"));
    writer.indices("o", &kept, &fused.extents);
    let second = if parts == 1 {
        let (place, stored) = (writer.element(&store.access), type_of(store.access.dtype));
        let apart = if own > 1 { store.access.strides[last] } else { 0 };
        let total = scaled(dtype, &format!("shared[kx * {own} + k]"), store.scale);
        writer.line(format!("{stored} *const to = &{place};"));
        writer.line(format!("for (int k = 0; k < {own}; k++) to[k * {apart}] = {total};"));
        None
    } else {
        let argument = writer.argument(Memory::Tile);
        writer.line(format!(
            "{element} *const to = ({element} *)a{argument} + {scratch} + ({index})blockIdx.y * {outputs} + o;"
        ));
        writer.line(format!("for (int k = 0; k < {own}; k++) to[k] = shared[kx * {own} + k];"));
        // The parts as a loop: one more axis in front of those that are kept.
        let mut rows: Vec<isize> = Vec::new();
        let mut next = 1;
        for axis in kept.iter().rev() {
            rows.push(next);
            next *= fused.extents[*axis] as isize;
        }
        rows.push(outputs as isize);
        rows.reverse();
        let own = kept.iter().map(|axis| store.access.strides[*axis]);
        let strides = std::iter::once(0).chain(own).collect();
        let looped = Loop {
            extents: std::iter::once(parts).chain(kept.iter().map(|axis| fused.extents[*axis])).collect(),
            loads: vec![Access { memory: Memory::Tile, dtype, offset: scratch as isize, strides: rows }],
            code: Vec::new(),
            by_row: vec![false],
            along_rows: vec![false; kept.len() + 1],
            stores: vec![Store {
                register: 0,
                access: Access { strides, ..store.access.clone() },
                reduction: Some(reduction),
                scale: store.scale,
                clear: None,
            }],
        };
        Some((looped, parts * outputs * dtype.bytes()))
    };
    writer.line("}");
    let (kernel, memories) = writer.kernel(THREADS, true);
    Reducing { kernel, memories, grid: [blocks, parts], second }
}
