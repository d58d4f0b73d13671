//! Fused loops whose stores are element by element.

use super::{Kernel, THREADS, Writer, reach_of, type_of};
use crate::program::{Access, Loop, Memory};

/// From this many elements on each thread computes several, whose loads overlap.
const MANY: usize = 1 << 20;

/// The elements of a thread of a large loop.
const SEVERAL: usize = 4;

/// Loops with more loads than this compute fewer elements in a thread, so that registers suffice.
const MOST_LOADS: usize = 8;

/// From this many elements on each thread computes neighbouring ones, if some are stored in fewer than 32 bits: one such element is less than a
/// thread can move at a time.
pub(super) const VECTORS: usize = 1 << 14;

/// How an access moves the neighbouring elements of a thread.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Moved {
    /// As one vector.
    Vector,
    /// As one element, which is the same for all.
    Still,
    /// One by one, this far apart.
    Apart(isize),
}

impl Moved {
    /// How an access moves so many elements along an axis.
    pub(super) fn of(access: &Access, axis: usize, elements: usize) -> Moved {
        let is_multiple = |number: isize| number % elements as isize == 0;
        let others = access.strides.iter().enumerate().filter(|(other, _)| *other != axis);
        let is_aligned = others.map(|(_, stride)| *stride).chain([access.offset]).all(is_multiple);
        match access.strides[axis] {
            0 => Moved::Still,
            // Inputs may begin anywhere in the array of a leaf.
            1 if is_aligned && elements > 1 && !matches!(access.memory, Memory::Input(_)) => Moved::Vector,
            stride => Moved::Apart(stride),
        }
    }
}

/// The neighbouring elements along an axis that a thread moves at a time: 1 if nothing is stored in fewer than 32 bits.
pub(super) fn neighbours(fused: &Loop, axis: usize) -> usize {
    let accesses = || fused.loads.iter().chain(fused.stores.iter().map(|store| &store.access));
    let narrow = |access: &Access| access.dtype.bytes() < 4 && access.strides[axis] == 1;
    let widest = accesses().filter(|access| access.strides[axis] == 1).map(|access| access.dtype.bytes()).max();
    let elements = if widest <= Some(2) && accesses().count() <= MOST_LOADS { 8 } else { 4 };
    let fits = |elements: &usize| {
        fused.extents[axis].is_multiple_of(*elements)
            && accesses().any(|access| narrow(access) && Moved::of(access, axis, *elements) == Moved::Vector)
    };
    [elements, 4].into_iter().find(fits).unwrap_or(1)
}

impl Writer {
    /// Reads neighbouring elements of an access into an array, from an index on.
    pub(super) fn read(&mut self, access: &Access, axis: usize, elements: usize, to: &str, first: &str) {
        let (element, own) = (self.element(access), type_of(access.dtype));
        if elements == 1 {
            return self.line(format!("{to}[{first}] = {element};"));
        }
        match Moved::of(access, axis, elements) {
            Moved::Vector => self.line(format!(
                "{{ const GgVector<{own}, {elements}> w = *(const GgVector<{own}, {elements}> *)&{element}; _Pragma(\"unroll\") for (int k = \
                 0; k < {elements}; k++) {to}[{first} + k] = w.v[k]; }}"
            )),
            Moved::Still => self.line(format!(
                "{{ const {own} w = {element}; _Pragma(\"unroll\") for (int k = 0; k < {elements}; k++) {to}[{first} + k] = w; }}"
            )),
            Moved::Apart(stride) => self.line(format!(
                "{{ const {own} *w = &{element}; _Pragma(\"unroll\") for (int k = 0; k < {elements}; k++) {to}[{first} + k] = w[k * \
                 {stride}]; }}"
            )),
        }
    }

    /// Writes neighbouring elements of an array, from an index on.
    pub(super) fn write(&mut self, access: &Access, axis: usize, elements: usize, from: &str, first: &str) {
        let (element, own) = (self.element(access), type_of(access.dtype));
        if elements == 1 {
            return self.line(format!("{element} = {from}[{first}];"));
        }
        match Moved::of(access, axis, elements) {
            Moved::Vector => self.line(format!(
                "{{ GgVector<{own}, {elements}> w; _Pragma(\"unroll\") for (int k = 0; k < {elements}; k++) w.v[k] = {from}[{first} + k]; \
                 *(GgVector<{own}, {elements}> *)&{element} = w; }}"
            )),
            Moved::Still | Moved::Apart(_) => self.line(format!(
                "{{ {own} *w = &{element}; _Pragma(\"unroll\") for (int k = 0; k < {elements}; k++) w[k * {}] = {from}[{first} + k]; }}",
                access.strides[axis]
            )),
        }
    }
}

/// The kernel for the stores of a loop that reduce nothing, with the blocks of its grid.
pub(in crate::cuda) fn kernel(fused: &Loop) -> (Kernel, Vec<Memory>, usize) {
    let elements: usize = fused.extents.iter().product();
    let several = match elements {
        0..MANY => 1,
        _ if fused.loads.len() > MOST_LOADS => SEVERAL / 2,
        _ => SEVERAL,
    };
    let last = fused.extents.len().wrapping_sub(1);
    let neighbours = if elements >= VECTORS { neighbours(fused, last) } else { 1 };
    // As many elements in all as without vectors, or twice as many where vectors are short.
    let several = if neighbours > 1 { (2 * several / neighbours).max(1) } else { several };
    let own = several * neighbours;
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
        writer.line(format!("{} l{register}[{own}];", type_of(fused.dtype(*register))));
    }
    for register in &kept {
        writer.line(format!("{} s{register}[{own}];", type_of(fused.dtype(*register))));
    }
    let each = own * THREADS as usize;
    // All loads of a thread stand before its arithmetic, so that they overlap, and before its first store, since a loop may
    // overwrite what it reads.
    let is_whole = elements.is_multiple_of(each);
    let head = |writer: &mut Writer| {
        writer.line("#pragma unroll");
        writer.line(format!("for (int u = 0; u < {several}; u++) {{"));
        let first = format!("({index})blockIdx.x * {each} + (u * {THREADS} + threadIdx.x)");
        match neighbours {
            1 => writer.line(format!("const {index} i = {first};")),
            _ => writer.line(format!("const {index} i = {first} * {neighbours};")),
        }
        if !is_whole {
            writer.line(format!("if (i >= ({index}){elements}) break;"));
        }
        writer.indices("i", &axes, &fused.extents);
    };
    head(&mut writer);
    for register in &loads {
        writer.read(&fused.loads[*register], last, neighbours, &format!("l{register}"), &format!("u * {neighbours}"));
    }
    writer.line("}");
    writer.line("#pragma unroll");
    writer.line(format!("for (int u = 0; u < {own}; u++) {{"));
    writer.computed(fused, &needed, &|load| format!("l{load}[u]"));
    for register in &kept {
        writer.line(format!("s{register}[u] = r{register};"));
    }
    writer.line("}");
    head(&mut writer);
    for store in &stores {
        writer.write(&store.access, last, neighbours, &format!("s{}", store.register), &format!("u * {neighbours}"));
    }
    writer.line("}");
    let (kernel, memories) = writer.kernel(THREADS, false);
    (kernel, memories, elements.div_ceil(each))
}
