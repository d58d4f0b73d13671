//! Fused loops whose stores are element by element.

use super::{Kernel, THREADS, Writer, reach_of, type_of};
use crate::opt::program::{Loop, Memory};

/// From this many elements on each thread computes several, whose loads overlap.
const MANY: usize = 1 << 20;

/// The elements of a thread of a large loop.
const SEVERAL: usize = 4;

/// Loops with more loads than this compute fewer elements in a thread, so that registers suffice.
const MOST_LOADS: usize = 8;

/// The kernel for the stores of a loop that reduce nothing, with the blocks of its grid.
pub(in crate::cuda) fn kernel(fused: &Loop) -> (Kernel, Vec<Memory>, usize) {
    let elements: usize = fused.extents.iter().product();
    let several = match elements {
        0..MANY => 1,
        _ if fused.loads.len() > MOST_LOADS => SEVERAL / 2,
        _ => SEVERAL,
    };
    let mut writer = Writer::new(reach_of(fused));
    let axes: Vec<usize> = (0..fused.extents.len()).collect();
    let index = writer.index;
    let stores: Vec<_> = fused.stores.iter().filter(|store| store.reduction.is_none()).collect();
    let mut kept: Vec<usize> = stores.iter().map(|store| store.register).collect();
    kept.sort_unstable();
    kept.dedup();
    let needed = fused.needed(&kept);
    let loads: Vec<usize> = (0..fused.loads.len()).filter(|load| needed[*load]).collect();
    for register in &loads {
        writer.line(format!("{} l{register}[{several}];", type_of(fused.dtype(*register))));
    }
    for register in &kept {
        writer.line(format!("{} s{register}[{several}];", type_of(fused.dtype(*register))));
    }
    let each = several * THREADS as usize;
    // All loads of a thread stand before its arithmetic, so that they overlap, and before its first store, since a loop may
    // overwrite what it reads.
    let is_whole = elements.is_multiple_of(each);
    let head = |writer: &mut Writer| {
        writer.line("#pragma unroll");
        writer.line(format!("for (int u = 0; u < {several}; u++) {{"));
        writer.line(format!("const {index} i = ({index})blockIdx.x * {each} + u * {THREADS} + threadIdx.x;"));
        if !is_whole {
            writer.line(format!("if (i >= ({index}){elements}) break;"));
        }
        writer.indices("i", &axes, &fused.extents);
    };
    head(&mut writer);
    for register in &loads {
        let element = writer.element(&fused.loads[*register]);
        writer.line(format!("l{register}[u] = {element};"));
    }
    writer.line("}");
    writer.line("#pragma unroll");
    writer.line(format!("for (int u = 0; u < {several}; u++) {{"));
    writer.computed(fused, &needed, &|load| format!("l{load}[u]"));
    for register in &kept {
        writer.line(format!("s{register}[u] = r{register};"));
    }
    writer.line("}");
    head(&mut writer);
    for store in &stores {
        let place = writer.element(&store.access);
        writer.line(format!("{place} = s{}[u];", store.register));
    }
    writer.line("}");
    let (kernel, memories) = writer.kernel(THREADS, false);
    (kernel, memories, elements.div_ceil(each))
}
