//! Calls on whole arrays: data movement, indexing, sorting and random draws. One thread computes one element, or one line of
//! elements, of the result, so that sums have a fixed order.

use super::{Kernel, THREADS, Writer, type_of};
use crate::dtype::DType;
use crate::program::{Call, CallKind, Memory};
use crate::program::{Distribution, FusedKernel};
use crate::shape::Shape;
use crate::view::View;

/// Lines of at most this many elements are sorted by counting, for each element, those in front of it.
const SORTED_BY_COUNTING: usize = 1 << 13;

/// Whether there is a kernel for a call; the others run on the host.
pub(in crate::cuda) fn is_native(call: &Call) -> bool {
    match &call.kind {
        CallKind::Host(_) | CallKind::Collective(_) | CallKind::Draw(Distribution::Permutation) => false,
        CallKind::ArgSort { .. } => call.inputs[0].1.last().is_none_or(|size| *size <= SORTED_BY_COUNTING),
        CallKind::ReadView(_)
        | CallKind::ScatterView(_)
        | CallKind::Concatenate(_)
        | CallKind::Gather(_)
        | CallKind::ScatterAdd(_)
        | CallKind::OneHot(_)
        | CallKind::ArgMax(_)
        | CallKind::Fused(_)
        | CallKind::Draw(_) => true,
    }
}

/// One kernel of a call, with the threads that it needs.
pub(in crate::cuda) struct Called {
    pub(in crate::cuda) kernel: Kernel,
    pub(in crate::cuda) memories: Vec<Memory>,
    pub(in crate::cuda) blocks: usize,
    /// Whether its last argument is the place where it reports an index that is out of bounds.
    pub(in crate::cuda) reports: bool,
}

/// The threshold, outputs times indices, from which a scatter-add sorts its indices instead of scanning all of them for each output.
const SORTED: usize = 1 << 22;

/// Whether a scatter-add sorts its indices, so that each sum reads only its own segment.
fn sorts(call: &Call) -> bool {
    let picks = call.inputs[1].1.elements();
    picks > 1 && picks < 1 << 30 && picks.saturating_mul(call.output().1.elements()) >= SORTED
}

/// The bytes of scratch memory of a call: the sorted indices and the sorting permutation, or what one kernel leaves for the next.
pub(in crate::cuda) fn scratch(call: &Call) -> usize {
    match &call.kind {
        CallKind::ScatterAdd(_) if sorts(call) => 8 * call.inputs[1].1.elements(),
        CallKind::Fused(FusedKernel::AttentionPullback(_)) => super::attention::scratch(call),
        CallKind::Fused(FusedKernel::BatchNorm(_) | FusedKernel::BatchNormPullback(_)) => {
            super::batch_norm::scratch(call)
        }
        CallKind::ScatterAdd(_)
        | CallKind::Host(_)
        | CallKind::ArgSort { .. }
        | CallKind::ReadView(_)
        | CallKind::ScatterView(_)
        | CallKind::Concatenate(_)
        | CallKind::Gather(_)
        | CallKind::OneHot(_)
        | CallKind::ArgMax(_)
        | CallKind::Draw(_)
        | CallKind::Fused(
            FusedKernel::Attention(_)
            | FusedKernel::CrossEntropy(_)
            | FusedKernel::CrossEntropyPullback(_)
            | FusedKernel::Cumulative(_)
            | FusedKernel::CumulativePullback(_)
            | FusedKernel::TopK(_),
        )
        | CallKind::Collective(_) => 0,
    }
}

/// The threads that compute the rank of one index.
const COUNTING: usize = 16;

/// From this many elements on each thread computes several.
const MANY: usize = 1 << 22;
const SEVERAL: usize = 4;

struct Kernels {
    called: Vec<Called>,
    reach: usize,
}

impl Kernels {
    /// Adds a kernel with a thread for each index `i` below a count.
    fn each(&mut self, count: usize, write: impl FnOnce(&mut Writer)) {
        let mut writer = Writer::new(self.reach.max(count));
        let index = writer.index;
        // The start of a block costs more than one element of each of its threads.
        let several = if count >= MANY { SEVERAL } else { 1 };
        writer.line("#pragma unroll");
        writer.line(format!("for (int u = 0; u < {several}; u++) {{"));
        writer.line(format!(
            "const {index} i = ({index})blockIdx.x * {} + u * {THREADS} + threadIdx.x;",
            several * THREADS as usize
        ));
        writer.line(format!("if (i >= ({index}){count}) return;"));
        // A function, so that an element can end early.
        writer.line("[&] {");
        write(&mut writer);
        writer.line("}();");
        writer.line("}");
        let (kernel, memories) = writer.kernel(THREADS, false);
        let blocks = count.div_ceil(several * THREADS as usize);
        self.called.push(Called { kernel, memories, blocks, reports: false });
    }

    /// Adds a kernel that sorts the indices of a scatter-add by a stable rank sort. Scratch memory receives the sorted indices and
    /// the permutation.
    fn ranked(&mut self, call: &Call, size: usize) {
        let picks = call.inputs[1].1.elements();
        let mut writer = Writer::new(self.reach.max(picks));
        let (indices, order) = (operand(&mut writer, call, 1), pointer(&mut writer, Memory::Tile, DType::I32, 0));
        writer.shared("int", "counts", THREADS as usize, 4);
        let own = THREADS as usize / COUNTING;
        writer.line(format!(
            "const int lane = threadIdx.x % {COUNTING}, p = blockIdx.x * {own} + threadIdx.x / {COUNTING};"
        ));
        writer.line(format!("i64 k = p < {picks} ? {indices}[p] : 0;"));
        writer.line(format!("if (k < 0) k += {size};"));
        writer.line("int before = 0;");
        writer.line("#pragma unroll 4");
        writer.line(format!("for (int q = lane; q < {picks}; q += {COUNTING}) {{"));
        writer.line(format!("i64 other = {indices}[q];"));
        writer.line(format!("if (other < 0) other += {size};"));
        writer.line("before += other < k || (other == k && q < p);");
        writer.line("}");
        writer.line("counts[threadIdx.x] = before;");
        writer.line("__syncthreads();");
        writer.line(format!("if (lane == 0 && p < {picks}) {{"));
        writer.line("int rank = 0;");
        writer.line(format!("for (int l = 0; l < {COUNTING}; l++) rank += counts[threadIdx.x + l];"));
        // What is out of bounds is reported; it belongs to no place.
        writer.line(format!("{order}[rank] = k < 0 || k >= {size} ? -1 : (int)k;"));
        writer.line(format!("{order}[{picks} + rank] = p;"));
        writer.line("}");
        let (kernel, memories) = writer.kernel(THREADS, true);
        self.called.push(Called { kernel, memories, blocks: picks.div_ceil(own), reports: false });
    }

    /// Adds a kernel of one block that reports the first of some integers that is not below a limit, nor, if it counts from
    /// the back, above its negative.
    fn checked(&mut self, call: &Call, operand: usize, limit: usize, from_back: bool) {
        let (access, shape) = &call.inputs[operand];
        let mut writer = Writer::new(self.reach);
        let from = writer.argument(access.memory);
        let report = writer.memories.len();
        let least = if from_back { -(limit as i64) } else { 0 };
        writer.shared("i64", "first", THREADS as usize, 8);
        writer.line(format!("const i64 *indices = (const i64 *)a{from} + {};", access.offset));
        writer.line(format!("i64 found = {};", i64::MAX));
        writer.line(format!("for (i64 k = threadIdx.x; k < {}; k += {THREADS})", shape.elements()));
        writer.line(format!("if ((indices[k] < {least} || indices[k] >= {limit}) && k < found) found = k;"));
        writer.line("first[threadIdx.x] = found;");
        writer.line(format!("for (int s = {}; s > 0; s /= 2) {{", THREADS / 2));
        writer.line("__syncthreads();");
        writer.line("if (threadIdx.x < s && first[threadIdx.x + s] < first[threadIdx.x]) first[threadIdx.x] = first[threadIdx.x + s];");
        writer.line("}");
        writer.line(format!("i64 *report = (i64 *)a{report};"));
        writer.line(format!("if (threadIdx.x == 0 && first[0] != {} && report[0] == 0) {{", i64::MAX));
        writer.line("report[0] = first[0] + 1;");
        writer.line("report[1] = indices[first[0]];");
        writer.line("}");
        let (mut kernel, memories) = writer.kernel(THREADS, true);
        kernel.arguments += 1;
        self.called.push(Called { kernel, memories, blocks: 1, reports: true });
    }
}

fn pointer(writer: &mut Writer, memory: Memory, dtype: DType, offset: isize) -> String {
    let argument = writer.argument(memory);
    format!("(({} *)a{argument} + {offset})", type_of(dtype))
}

/// An operand of a call as a pointer.
fn operand(writer: &mut Writer, call: &Call, number: usize) -> String {
    let access = &call.inputs[number].0;
    pointer(writer, access.memory, access.dtype, access.offset)
}

fn output(writer: &mut Writer, call: &Call) -> String {
    let access = &call.output().0;
    pointer(writer, access.memory, access.dtype, access.offset)
}

fn around(shape: &Shape, axis: usize) -> [usize; 3] {
    [shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product()]
}

/// The kernels of a call, in order.
pub(in crate::cuda) fn kernels(call: &Call) -> Vec<Called> {
    let arrays = call.inputs.iter().chain(&call.outputs);
    let reach = arrays.map(|(access, shape)| access.offset.unsigned_abs() + shape.elements()).fold(0, usize::max);
    let mut kernels = Kernels { called: Vec::new(), reach };
    match &call.kind {
        CallKind::Fused(FusedKernel::Attention(kernel)) => return vec![super::attention::forward(kernel, call)],
        CallKind::Fused(FusedKernel::AttentionPullback(kernel)) => return super::attention::pullback(kernel, call),
        CallKind::Fused(FusedKernel::CrossEntropy(_)) => {
            kernels.checked(call, 1, super::cross_entropy::classes(call), false);
            kernels.called.push(super::cross_entropy::forward(call));
            return kernels.called;
        }
        CallKind::Fused(FusedKernel::CrossEntropyPullback(_)) => return vec![super::cross_entropy::pullback(call)],
        CallKind::Fused(FusedKernel::BatchNorm(epsilon)) => return super::batch_norm::forward(call, *epsilon),
        CallKind::Fused(FusedKernel::BatchNormPullback(epsilon)) => return super::batch_norm::pullback(call, *epsilon),
        CallKind::Fused(
            kernel @ (FusedKernel::Cumulative(_) | FusedKernel::CumulativePullback(_) | FusedKernel::TopK(_)),
        ) => unreachable!("the region of {} is opened for this target", kernel.describe()),
        _ => {}
    }
    let (access, shape) = call.output();
    let (count, element) = (shape.elements(), type_of(access.dtype));
    match &call.kind {
        CallKind::ReadView(view) => kernels.each(count, |writer| read(writer, call, view)),
        CallKind::ScatterView(view) => kernels.each(count, |writer| scatter(writer, call, view)),
        CallKind::Concatenate(axis) => {
            let [_, size, inner] = around(shape, *axis);
            let mut first = 0;
            for (number, (_, own)) in call.inputs.iter().enumerate() {
                let width = own[*axis] * inner;
                kernels.each(own.elements(), |writer| {
                    let (from, to) = (operand(writer, call, number), output(writer, call));
                    let at = format!("i / {w} * {} + {first} + i % {w}", size * inner, w = width.max(1));
                    writer.line(format!("{to}[{at}] = {from}[i];"));
                });
                first += width;
            }
        }
        CallKind::Gather(axis) => {
            let [_, size, inner] = around(&call.inputs[0].1, *axis);
            let picks = call.inputs[1].1.elements().max(1);
            kernels.checked(call, 1, size, true);
            kernels.each(count, |writer| {
                let (from, indices, to) = (operand(writer, call, 0), operand(writer, call, 1), output(writer, call));
                writer.line(format!("i64 k = {indices}[i / {inner} % {picks}];"));
                writer.line(format!("if (k < 0) k += {size};"));
                // What is out of bounds is reported; nothing is read there.
                writer.line(format!("if (k < 0 || k >= {size}) return;"));
                let block = picks * inner;
                writer.line(format!("{to}[i] = {from}[(i / {block} * {size} + k) * {inner} + i % {inner}];"));
            });
        }
        CallKind::ScatterAdd(axis) => {
            let [_, size, inner] = around(shape, *axis);
            let picks = call.inputs[1].1.elements();
            kernels.checked(call, 1, size, true);
            if sorts(call) {
                kernels.ranked(call, size);
                kernels.each(count, |writer| {
                    let to = output(writer, call);
                    writer.line(format!("{to}[i] = ({element})0;"));
                });
                let outer = count / (size * inner).max(1);
                kernels.each(outer * picks * inner, |writer| added_in_order(writer, call, [picks, size, inner]));
            } else {
                kernels.each(count, |writer| {
                    let (from, indices, to) =
                        (operand(writer, call, 0), operand(writer, call, 1), output(writer, call));
                    let index = writer.index;
                    writer.line(format!("const i64 own = i / {inner} % {size};"));
                    writer.line(format!("const {index} block = i / {};", size * inner));
                    writer.line(format!("{element} sum = 0;"));
                    writer.line(format!("for ({index} p = 0; p < {picks}; p++) {{"));
                    writer.line(format!("const i64 k = {indices}[p];"));
                    writer.line(format!("if (k == own || k + {size} == own)"));
                    writer.line(format!("sum = gg_plus(sum, {from}[(block * {picks} + p) * {inner} + i % {inner}]);"));
                    writer.line("}");
                    writer.line(format!("{to}[i] = sum;"));
                });
            }
        }
        CallKind::OneHot(_) => {
            let classes = shape.last().copied().unwrap_or(1);
            kernels.checked(call, 0, classes, false);
            kernels.each(count, |writer| {
                let (indices, to) = (operand(writer, call, 0), output(writer, call));
                writer.line(format!("{to}[i] = ({element})({indices}[i / {classes}] == i % {classes});"));
            });
        }
        CallKind::ArgMax(axis) => kernels.each(count, |writer| {
            let (from, to) = (operand(writer, call, 0), output(writer, call));
            let [_, size, inner] = around(&call.inputs[0].1, *axis);
            let own = type_of(call.inputs[0].0.dtype);
            writer.line(format!("const {own} *line = {from} + i / {inner} * {} + i % {inner};", size * inner));
            writer.line("i64 best = 0;");
            writer.line(format!("for (i64 k = 1; k < {size}; k++) {{"));
            writer.line(format!("const {own} x = line[k * {inner}], y = line[best * {inner}];"));
            writer.line("if (x > y || (x != x && y == y)) best = k;");
            writer.line("}");
            writer.line(format!("{to}[i] = best;"));
        }),
        CallKind::ArgSort { descending } => kernels.each(count, |writer| {
            let (from, to) = (operand(writer, call, 0), output(writer, call));
            let size = shape.last().copied().unwrap_or(1).max(1);
            let own = type_of(call.inputs[0].0.dtype);
            writer.line(format!("const i64 base = i / {size} * {size}, at = i % {size};"));
            writer.line(format!("const {own} *line = {from} + base;"));
            writer.line(format!("const {own} x = line[at];"));
            writer.line("i64 rank = 0;");
            writer.line(format!("for (i64 k = 0; k < {size}; k++) {{"));
            writer.line(format!("const {own} y = line[k];"));
            // NaN comes last in ascending order, and first in descending order.
            let (smaller, nan_first) =
                if *descending { ("y > x", "y != y && x == x") } else { ("y < x", "x != x && y == y") };
            writer.line(format!("const bool before = ({smaller}) || ({nan_first});"));
            writer.line("const bool same = x == y || (x != x && y != y);");
            writer.line("rank += before || (same && k < at);");
            writer.line("}");
            writer.line(format!("{to}[base + rank] = at;"));
        }),
        CallKind::Draw(distribution) => {
            let each = count / call.inputs[0].1.elements().max(1);
            kernels.each(count, |writer| {
                let (keys, to) = (operand(writer, call, 0), output(writer, call));
                writer.line(format!("const u64 key = (u64){keys}[i / {}], k = i % {};", each.max(1), each.max(1)));
                let drawn = match distribution {
                    Distribution::Uniform => "(float)gg_uniform(key, k)".to_owned(),
                    Distribution::OpenUniform => "gg_uniform(key, k) + 0x1p-54".to_owned(),
                    Distribution::Normal => "(float)gg_normal(key, k)".to_owned(),
                    Distribution::Keys(numbers) => {
                        let numbers: Vec<String> = numbers.iter().map(|number| format!("{number}ULL")).collect();
                        writer.line(format!("const u64 numbers[] = {{{}}};", numbers.join(", ")));
                        "(i64)gg_fold(key, numbers[k])".to_owned()
                    }
                    Distribution::Permutation => unreachable!("permutations are drawn on the host"),
                };
                writer.line(format!("{to}[i] = {drawn};"));
            });
        }
        CallKind::Host(_) | CallKind::Collective(_) => unreachable!("host code has no kernel"),
        CallKind::Fused(_) => unreachable!("has returned its kernels"),
    }
    kernels.called
}

/// The terms of a sum that are loaded at a time.
const TOGETHER: usize = 8;

/// Segmented sum over the sorted indices: the first entry of each segment adds up the segment in the order of the input.
fn added_in_order(writer: &mut Writer, call: &Call, [picks, size, inner]: [usize; 3]) {
    let (from, to) = (operand(writer, call, 0), output(writer, call));
    let order = pointer(writer, Memory::Tile, DType::I32, 0);
    let (index, element) = (writer.index, type_of(call.output().0.dtype));
    writer
        .line(format!("const {index} p = i / {inner} % {picks}, block = i / {}, column = i % {inner};", picks * inner));
    writer.line(format!("const int own = {order}[p];"));
    writer.line(format!("if (own < 0 || (p > 0 && {order}[p - 1] == own)) return;"));
    writer.line(format!("{element} sum = 0;"));
    writer.line("bool goes_on = true;");
    writer.line(format!("for ({index} q = p; goes_on; q += {TOGETHER}) {{"));
    writer.line(format!("{element} terms[{TOGETHER}]; bool belongs[{TOGETHER}];"));
    writer.line("#pragma unroll");
    writer.line(format!("for (int l = 0; l < {TOGETHER}; l++) {{"));
    writer.line(format!("belongs[l] = q + l < {picks} && {order}[q + l] == own;"));
    writer.line(format!(
        "terms[l] = belongs[l] ? {from}[(block * {picks} + {order}[{picks} + q + l]) * {inner} + column] : ({element})0;"
    ));
    writer.line("}");
    writer.line("#pragma unroll");
    writer.line(format!("for (int l = 0; l < {TOGETHER}; l++) {{"));
    writer.line("goes_on = goes_on && belongs[l];");
    writer.line("if (goes_on) sum = gg_plus(sum, terms[l]);");
    writer.line("}");
    writer.line("}");
    writer.line(format!("{to}[(block * {size} + own) * {inner} + column] = sum;"));
}

fn read(writer: &mut Writer, call: &Call, view: &View) {
    let (from, to) = (operand(writer, call, 0), output(writer, call));
    let axes: Vec<usize> = (0..view.output.rank()).collect();
    writer.indices("i", &axes, &view.output);
    let strides = view.input.strides();
    let (index, element) = (writer.index, type_of(call.output().0.dtype));
    writer.line("bool inside = true;");
    writer.line(format!("{index} place = 0;"));
    for (number, axis) in view.axes.iter().enumerate() {
        let steps: String = axis.steps.iter().map(|(along, step)| format!(" + x{along} * ({index}){step}")).collect();
        writer.line(format!("const {index} p{number} = {}{steps};", axis.offset));
        writer.line(format!("inside &= p{number} >= 0 && p{number} < ({index}){};", view.input[number]));
        writer.line(format!("place += p{number} * ({index}){};", strides[number]));
    }
    writer.line(format!("{to}[i] = inside ? {from}[place] : ({element})0;"));
}

/// Each element of the result collects what the view would read there: indices of the operand are looped over, but for one
/// of each axis, which follows from the place.
fn scatter(writer: &mut Writer, call: &Call, view: &View) {
    let (from, to) = (operand(writer, call, 0), output(writer, call));
    let (index, element) = (writer.index, type_of(call.output().0.dtype));
    let strides = view.input.strides();
    for (number, (stride, size)) in strides.iter().zip(view.input.iter()).enumerate() {
        writer.line(format!("const {index} p{number} = i / ({index}){stride} % ({index}){};", (*size).max(1)));
    }
    let (solved, order) = solved_axes(view);
    let is_solved = |along: usize| solved.iter().flatten().any(|(own, _)| *own == along);
    let own = type_of(call.output().0.dtype.compute_type());
    writer.line(format!("{own} sum = 0;"));
    let looped: Vec<usize> = (0..view.output.rank()).filter(|along| !is_solved(*along)).collect();
    for along in &looped {
        writer.line(format!("for ({index} x{along} = 0; x{along} < {}; x{along}++) {{", view.output[*along]));
    }
    writer.line("do {");
    for number in order {
        let own = solved[number].map(|(along, _)| along);
        let others = view.axes[number].steps.iter().filter(|(along, _)| Some(*along) != own);
        let moved: String = others.map(|(along, step)| format!(" - x{along} * ({index}){step}")).collect();
        writer.line(format!("const {index} q{number} = p{number} - ({index}){}{moved};", view.axes[number].offset));
        match solved[number] {
            Some((along, step)) => {
                writer.line(format!("if (q{number} % ({index}){step} != 0) break;"));
                writer.line(format!("const {index} x{along} = q{number} / ({index}){step};"));
                writer.line(format!("if (x{along} < 0 || x{along} >= {}) break;", view.output[along]));
            }
            None => writer.line(format!("if (q{number} != 0) break;")),
        }
    }
    let output_strides = view.output.strides();
    let place: Vec<String> =
        (0..view.output.rank()).map(|along| format!("x{along} * ({index}){}", output_strides[along])).collect();
    let place = if place.is_empty() { "0".to_owned() } else { place.join(" + ") };
    writer.line(format!("sum = gg_plus(sum, ({own}){from}[{place}]);"));
    writer.line("} while (false);");
    looped.iter().for_each(|_| writer.line("}"));
    writer.line(format!("{to}[i] = ({element})sum;"));
}

/// For each axis of what a view reads, the axis of its result whose index follows from the place, with its step, if any; and an
/// order in which they can be solved. The longest axes are solved, all others are looped over.
fn solved_axes(view: &View) -> (Vec<Option<(usize, isize)>>, Vec<usize>) {
    let mut solved: Vec<Option<(usize, isize)>> = Vec::new();
    for axis in &view.axes {
        let is_free = |along: usize| !solved.iter().flatten().any(|(own, _)| *own == along);
        let candidates = axis.steps.iter().filter(|(along, step)| *step != 0 && is_free(*along));
        solved.push(candidates.max_by_key(|(along, _)| view.output[*along]).copied());
    }
    loop {
        let own = |number: usize| solved[number].map(|(along, _)| along);
        let mut order: Vec<usize> = Vec::new();
        let mut open: Vec<usize> = (0..view.axes.len()).collect();
        loop {
            // An axis can be solved once all of its other indices are known.
            let is_unknown = |along: usize| open.iter().any(|other| own(*other) == Some(along));
            let is_ready = |number: &usize| {
                let others = view.axes[*number].steps.iter().map(|(along, _)| *along);
                others.filter(|along| Some(*along) != own(*number)).all(|along| !is_unknown(along))
            };
            match open.iter().position(is_ready) {
                Some(ready) => order.push(open.remove(ready)),
                None => break,
            }
        }
        match open.first() {
            None => return (solved, order),
            // Axes that wait for each other in a circle: one of them is looped over.
            Some(waiting) => solved[*waiting] = None,
        }
    }
}
