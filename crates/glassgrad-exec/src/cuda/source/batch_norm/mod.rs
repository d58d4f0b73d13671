//! Batch normalization and its pullback: the statistics of a channel by several blocks, in one pass over the elements as they are stored; their partial
//! results by one block for each channel; and a pass that stores what they determine. Images have their channels apart, or side by side (`channels_last`).

mod channels_last;

use super::call::Called;
use super::{THREADS, Writer, type_of};
use crate::dtype::DType;
use crate::program::{Access, Call, Memory, Signature};

/// Fewer elements are left to loops.
const LEAST_ELEMENTS: usize = 1 << 14;

/// About this many blocks compute partial results.
const BLOCKS: usize = 2112;

/// Whether batch normalization of these operands is a kernel.
pub(in crate::cuda) fn is_supported(inputs: &[Signature]) -> bool {
    let [(shape, dtype), (scale, scale_type), (shift, shift_type), ..] = inputs else { return false };
    let is_large = shape.rank() >= 2 && shape.elements() >= LEAST_ELEMENTS && shape.elements() < 1 << 40;
    let is_float = |dtype: &DType| match dtype {
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => true,
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => false,
    };
    let has_types = is_float(dtype) && is_float(scale_type) && is_float(shift_type);
    has_types && is_large && shape[1] < 1 << 20 && scale[..] == shape[1..2] && shift[..] == shape[1..2]
}

/// The sizes of the operand: examples, channels, and the places of a channel of an example.
struct Sizes {
    dtype: DType,
    batch: usize,
    channels: usize,
    places: usize,
    /// The elements that a thread moves at a time: 16 bytes, or one element.
    unit: usize,
    /// The blocks of a channel that compute partial results.
    parts: usize,
    /// Whether the channels of a place are side by side.
    channels_last: bool,
}

impl Sizes {
    fn of(call: &Call) -> Sizes {
        let (access, shape) = &call.inputs[0];
        let (batch, channels, places) = (shape[0], shape[1], shape[2..].iter().product::<usize>());
        let channels_last = places > 1 && channels > 1 && access.strides.get(1) == Some(&1);
        let unit = 16 / access.dtype.bytes();
        let offsets = call.inputs.iter().chain(&call.outputs).map(|(access, _)| access.offset);
        let inner = if channels_last { channels } else { places };
        let is_aligned = inner.is_multiple_of(unit) && offsets.clone().all(|offset| offset % unit as isize == 0);
        let unit = if is_aligned { unit } else { 1 };
        let parts = BLOCKS.div_ceil(channels).clamp(1, batch.max(1));
        let mut sizes = Sizes { dtype: access.dtype, batch, channels, places, unit, parts, channels_last };
        if channels_last {
            sizes.parts = channels_last::Blocks::of(&sizes).parts();
        }
        sizes
    }

    fn wide(&self) -> &'static str {
        type_of(self.dtype.compute_type())
    }

    fn unit(&self) -> String {
        match self.unit {
            1 => format!("GgOne<{}>", type_of(self.dtype)),
            _ => format!("GgUnit<{}>", type_of(self.dtype)),
        }
    }

    /// The elements of a channel.
    fn elements(&self) -> usize {
        self.batch * self.places
    }
}

/// The bytes of scratch memory: up to three numbers of each part and two of each channel.
pub(super) fn scratch(call: &Call) -> usize {
    let sizes = Sizes::of(call);
    (3 * sizes.parts + 2) * sizes.channels * sizes.dtype.compute_type().bytes()
}

/// The kernels of the result, the means and the variances.
pub(super) fn forward(call: &Call, epsilon: f64) -> Vec<Called> {
    let sizes = Sizes::of(call);
    if sizes.channels_last {
        let normalized = channels_last::normalized(call, &sizes, epsilon);
        return vec![channels_last::moments(call, &sizes), statistics(call, &sizes), normalized];
    }
    vec![moments(call, &sizes), statistics(call, &sizes), normalized(call, &sizes, epsilon)]
}

/// The kernels of the cotangents.
pub(super) fn pullback(call: &Call, epsilon: f64) -> Vec<Called> {
    let sizes = Sizes::of(call);
    if sizes.channels_last {
        let cotangents = channels_last::cotangents(call, &sizes, epsilon);
        return vec![channels_last::sums(call, &sizes, epsilon), totals(call, &sizes), cotangents];
    }
    vec![sums(call, &sizes, epsilon), totals(call, &sizes), cotangents(call, &sizes, epsilon)]
}

/// A kernel of blocks with the type of sums declared.
fn begun(sizes: &Sizes) -> Writer {
    let mut writer = Writer::new(usize::MAX);
    writer.line(format!("typedef {} T;", sizes.wide()));
    writer
}

fn finished(writer: Writer, barriers: bool, blocks: usize) -> Called {
    let (kernel, memories) = writer.kernel(THREADS, barriers);
    Called { kernel: kernel.launched_alone(1).resident(4), memories, blocks, reports: false }
}

/// The first element of an array as a pointer.
fn pointer(writer: &mut Writer, access: &Access, element: &str) -> String {
    let argument = writer.argument(access.memory);
    format!("(({element} *)a{argument} + {})", access.offset)
}

/// The number of an array for the channel `c`.
fn of_channel(writer: &mut Writer, access: &Access) -> String {
    format!("{}[c]", pointer(writer, access, type_of(access.dtype)))
}

/// Scratch memory, from a number of the compute type on.
fn scratch_at(writer: &mut Writer, first: usize) -> String {
    format!("((T *)a{} + {first})", writer.argument(Memory::Tile))
}

/// Opens a loop of a block over the units of its part of a channel; `at` is the place of a unit in the operand, in units.
fn each_unit(writer: &mut Writer, sizes: &Sizes) {
    let Sizes { batch, channels, places, unit, parts, .. } = *sizes;
    let (per_example, per_part) = (places / unit, batch.div_ceil(parts));
    writer.line(format!("const int c = blockIdx.x / {parts}u, part = blockIdx.x % {parts}u;"));
    writer.line(format!("const int first = part * {per_part}, left = {batch} - first;"));
    writer.line(format!("const int examples = left < 0 ? 0 : (left < {per_part} ? left : {per_part});"));
    writer.line("#pragma unroll 4");
    writer.line(format!("for (int u = threadIdx.x; u < examples * {per_example}; u += {THREADS}) {{"));
    writer.line(format!(
        "const i64 at = ((i64)(first + u / {per_example}) * {channels} + c) * {per_example} + u % {per_example};"
    ));
}

/// Puts the numbers of all threads of a block together as a tree, by a statement on the numbers of two threads, `a` and `b`.
fn tree(writer: &mut Writer, sizes: &Sizes, numbers: &[&str], statement: &str) {
    let count = numbers.len();
    writer.shared("T", "parts", count * THREADS as usize, sizes.dtype.compute_type().bytes());
    writer.line(format!("T *own = parts + threadIdx.x * {count};"));
    for (k, number) in numbers.iter().enumerate() {
        writer.line(format!("own[{k}] = {number};"));
    }
    writer.line(format!("for (int s = {}; s > 0; s /= 2) {{", THREADS / 2));
    writer.line("__syncthreads();");
    writer.line(format!("if (threadIdx.x < s) {{ T *const a = own, *const b = own + s * {count}; {statement} }}"));
    writer.line("}");
    writer.line("__syncthreads();");
}

/// The statement that merges counts, means and sums of squared deviations `b` into `a`.
const MERGED: &str = "const T n = a[0] + b[0]; if (n > (T)0) { const T delta = b[1] - a[1], share = b[0] / n; a[1] += delta * share; \
                      a[2] += b[2] + delta * delta * (a[0] * share); a[0] = n; }";

/// The statement that adds two sums `b` to `a`.
const ADDED: &str = "a[0] += b[0]; a[1] += b[1];";

/// The moments of each part of each channel: count, mean, and the sum of squared deviations from it. A unit is reduced by itself and then merged, so that no
/// large sums cancel.
fn moments(call: &Call, sizes: &Sizes) -> Called {
    let mut writer = begun(sizes);
    let from = pointer(&mut writer, &call.inputs[0].0, &sizes.unit());
    writer.line("T moments[3] = {(T)0, (T)0, (T)0};");
    each_unit(&mut writer, sizes);
    let unit = sizes.unit;
    writer.line(format!("const {} x = {from}[at];", sizes.unit()));
    writer.line(format!("T sum = (T)0; for (int e = 0; e < {unit}; e++) sum += (T)x.v[e];"));
    writer.line(format!("T b[3] = {{(T){unit}, sum / (T){unit}, (T)0}};"));
    writer.line("#pragma unroll");
    writer.line(format!("for (int e = 0; e < {unit}; e++) {{ const T d = (T)x.v[e] - b[1]; b[2] += d * d; }}"));
    writer.line(format!("{{ T *const a = moments; {MERGED} }}"));
    writer.line("}");
    tree(&mut writer, sizes, &["moments[0]", "moments[1]", "moments[2]"], MERGED);
    let to = scratch_at(&mut writer, 0);
    writer.line(format!(
        "if (threadIdx.x < 3) {to}[(c * {} + part) * 3 + threadIdx.x] = parts[threadIdx.x];",
        sizes.parts
    ));
    finished(writer, true, sizes.channels * sizes.parts)
}

/// Means and variances from the moments of the parts.
fn statistics(call: &Call, sizes: &Sizes) -> Called {
    let mut writer = merged(sizes, 3, MERGED);
    let [mean, variance] = [1, 2].map(|output| of_channel(&mut writer, &call.outputs[output].0));
    writer.line(format!(
        "if (threadIdx.x == 0) {{ {mean} = parts[1]; {variance} = parts[2] / (T){}; }}",
        sizes.elements()
    ));
    finished(writer, true, sizes.channels)
}

/// Opens a kernel of a block for each channel, whose threads merge some of its parts each, and then their numbers as a tree.
fn merged(sizes: &Sizes, count: usize, statement: &str) -> Writer {
    let parts = sizes.parts;
    let mut writer = begun(sizes);
    let from = scratch_at(&mut writer, 0);
    writer.line("const int c = blockIdx.x;");
    writer.line(format!("T merged[{count}] = {{}};"));
    writer.line(format!("for (int part = threadIdx.x; part < {parts}; part += {THREADS}) {{"));
    writer.line(format!("T *const a = merged; const T *const b = {from} + (c * {parts} + part) * {count};"));
    writer.line(statement);
    writer.line("}");
    let names: Vec<String> = (0..count).map(|k| format!("merged[{k}]")).collect();
    tree(&mut writer, sizes, &names.iter().map(String::as_str).collect::<Vec<_>>(), statement);
    writer
}

/// Opens a kernel of a thread for each unit of the operand; `c` is its channel.
fn of_units(sizes: &Sizes) -> (Writer, usize) {
    let units = sizes.batch * sizes.channels * (sizes.places / sizes.unit);
    let mut writer = begun(sizes);
    writer.line(format!("const i64 at = (i64)blockIdx.x * {THREADS} + threadIdx.x;"));
    writer.line(format!("if (at >= {units}LL) return;"));
    writer.line(format!("const int c = (int)(at / {} % {});", sizes.places / sizes.unit, sizes.channels));
    (writer, units.div_ceil(THREADS as usize))
}

fn normalized(call: &Call, sizes: &Sizes, epsilon: f64) -> Called {
    let (mut writer, blocks) = of_units(sizes);
    let from = pointer(&mut writer, &call.inputs[0].0, &sizes.unit());
    let to = pointer(&mut writer, &call.outputs[0].0, &sizes.unit());
    let [scale, shift] = [1, 2].map(|input| of_channel(&mut writer, &call.inputs[input].0));
    let [mean, variance] = [1, 2].map(|output| of_channel(&mut writer, &call.outputs[output].0));
    writer.line(format!(
        "const T mean = {mean}, factor = (T){scale} / sqrt({variance} + (T){epsilon:e}), shift = (T){shift};"
    ));
    writer.line(format!("const {} x = {from}[at]; {0} y;", sizes.unit()));
    writer.line("#pragma unroll");
    writer.line(format!("for (int e = 0; e < {}; e++) y.v[e] = ((T)x.v[e] - mean) * factor + shift;", sizes.unit));
    writer.line(format!("{to}[at] = y;"));
    finished(writer, false, blocks)
}

/// For each part of each channel the sum of cotangents, and that of their products with the normalized elements.
fn sums(call: &Call, sizes: &Sizes, epsilon: f64) -> Called {
    let mut writer = begun(sizes);
    let [from, cotangent] = [0, 3].map(|input| pointer(&mut writer, &call.inputs[input].0, &sizes.unit()));
    let [mean, variance] = [5, 6].map(|input| of_channel(&mut writer, &call.inputs[input].0));
    writer.line("T sum = (T)0, product = (T)0;");
    writer.line(format!("const int channel = blockIdx.x / {}u;", sizes.parts));
    let [mean, variance] = [mean, variance].map(|number| number.replace("[c]", "[channel]"));
    writer.line(format!("const T mean = {mean}, inverse = (T)1 / sqrt({variance} + (T){epsilon:e});"));
    each_unit(&mut writer, sizes);
    writer.line(format!("const {} x = {from}[at], g = {cotangent}[at];", sizes.unit()));
    writer.line("#pragma unroll");
    writer.line(format!(
        "for (int e = 0; e < {}; e++) {{ sum += (T)g.v[e]; product += (T)g.v[e] * (((T)x.v[e] - mean) * inverse); }}",
        sizes.unit
    ));
    writer.line("}");
    tree(&mut writer, sizes, &["sum", "product"], ADDED);
    let to = scratch_at(&mut writer, 0);
    writer.line(format!(
        "if (threadIdx.x < 2) {to}[(c * {} + part) * 2 + threadIdx.x] = parts[threadIdx.x];",
        sizes.parts
    ));
    finished(writer, true, sizes.channels * sizes.parts)
}

/// The cotangents of scale and shift, and both sums of each channel in the compute type.
fn totals(call: &Call, sizes: &Sizes) -> Called {
    let mut writer = merged(sizes, 2, ADDED);
    let to = scratch_at(&mut writer, 3 * sizes.parts * sizes.channels);
    let [scale, shift] = [1, 2].map(|output| of_channel(&mut writer, &call.outputs[output].0));
    writer.line(format!(
        "if (threadIdx.x == 0) {{ {to}[2 * c] = parts[0]; {to}[2 * c + 1] = parts[1]; {scale} = parts[1]; {shift} = parts[0]; }}"
    ));
    finished(writer, true, sizes.channels)
}

/// The cotangent of the operand: that of the result less its mean and its projection onto the normalized elements.
fn cotangents(call: &Call, sizes: &Sizes, epsilon: f64) -> Called {
    let (mut writer, blocks) = of_units(sizes);
    let [from, cotangent] = [0, 3].map(|input| pointer(&mut writer, &call.inputs[input].0, &sizes.unit()));
    let to = pointer(&mut writer, &call.outputs[0].0, &sizes.unit());
    let [scale, mean, variance] = [1, 5, 6].map(|input| of_channel(&mut writer, &call.inputs[input].0));
    let totals = scratch_at(&mut writer, 3 * sizes.parts * sizes.channels);
    writer.line(format!(
        "const T mean = {mean}, inverse = (T)1 / sqrt({variance} + (T){epsilon:e}), factor = (T){scale} * inverse;"
    ));
    let elements = sizes.elements();
    writer
        .line(format!("const T sum = {totals}[2 * c] / (T){elements}, product = {totals}[2 * c + 1] / (T){elements};"));
    writer.line(format!("const {} x = {from}[at], g = {cotangent}[at]; {0} y;", sizes.unit()));
    writer.line("#pragma unroll");
    writer.line(format!(
        "for (int e = 0; e < {}; e++) y.v[e] = factor * ((T)g.v[e] - sum - ((T)x.v[e] - mean) * inverse * product);",
        sizes.unit
    ));
    writer.line(format!("{to}[at] = y;"));
    finished(writer, false, blocks)
}
