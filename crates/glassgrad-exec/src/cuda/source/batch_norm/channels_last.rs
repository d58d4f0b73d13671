//! Batch normalization of images that are stored channels-last: a thread has the same few channels of many places.

use super::super::call::Called;
use super::super::{THREADS, Writer};
use super::{Sizes, begun, finished, of_channel, pointer, scratch_at};
use crate::program::Call;

/// About this many blocks compute partial results: two for each multiprocessor of a large GPU.
const BLOCKS: usize = 264;

/// The places that a thread loads at a time, and those that it stores in all where it stores any.
const TOGETHER: usize = 4;
const STORED: usize = 8;

/// How the threads of a block are distributed.
pub(super) struct Blocks {
    /// The threads along the channels of a place, and the blocks that the channels take.
    lanes: usize,
    chunks: usize,
    /// The places that a block has at a time.
    together: usize,
    /// The places of all images.
    places: usize,
}

impl Blocks {
    pub(super) fn of(sizes: &Sizes) -> Blocks {
        let units = sizes.channels / sizes.unit;
        let chunks = units.div_ceil(THREADS as usize);
        let lanes = units.div_ceil(chunks);
        Blocks { lanes, chunks, together: THREADS as usize / lanes, places: sizes.batch * sizes.places }
    }

    /// The blocks along places that compute partial results.
    pub(super) fn parts(&self) -> usize {
        (BLOCKS / self.chunks).clamp(1, self.places.div_ceil(self.together * TOGETHER).max(1))
    }

    /// Declares the unit of channels of a thread, its first channel, and its first place in the block.
    fn declare(&self, writer: &mut Writer, sizes: &Sizes, per_chunk: usize) {
        let units = sizes.channels / sizes.unit;
        writer.line(format!("const int chunk = blockIdx.x / {per_chunk}u, part = blockIdx.x % {per_chunk}u;"));
        writer.line(format!("const int lane = threadIdx.x % {0}u, along = threadIdx.x / {0}u;", self.lanes));
        writer.line(format!("const int unit = chunk * {} + lane;", self.lanes));
        writer.line(format!("const bool takes_part = along < {} && unit < {units};", self.together));
        writer.line(format!("const int channel = takes_part ? unit * {} : 0;", sizes.unit));
    }
}

/// Opens a loop of a thread over the places of its part, `TOGETHER` at a time: `count` of them from `at` on, `apart` units from one to the next.
fn each_places(writer: &mut Writer, sizes: &Sizes, blocks: &Blocks) {
    let parts = blocks.parts();
    let (units, per_part) = (sizes.channels / sizes.unit, blocks.places.div_ceil(parts));
    let apart = blocks.together * units;
    writer.line(format!("const i64 begin = (i64)part * {per_part};"));
    writer.line(format!("const i64 end = begin + {per_part} < {0} ? begin + {per_part} : {0};", blocks.places));
    let step = blocks.together * TOGETHER;
    writer.line(format!("for (i64 place = begin + along; takes_part && place < end; place += {step}) {{"));
    let together = blocks.together;
    writer
        .line(format!("const i64 at = place * {units} + unit, left = (end - place + {}) / {together};", together - 1));
    writer.line(format!("const int count = left < {TOGETHER} ? (int)left : {TOGETHER}, apart = {apart};"));
}

/// Loads the units of an array at the places of a thread.
fn load(writer: &mut Writer, sizes: &Sizes, name: &str, from: &str) {
    let unit = sizes.unit();
    writer.line(format!("{unit} {name}[{TOGETHER}];"));
    writer.line("#pragma unroll");
    writer
        .line(format!("for (int q = 0; q < {TOGETHER}; q++) if (q < count) {name}[q] = {from}[at + (i64)q * apart];"));
}

/// Merges the numbers of the threads with the same channels by a statement on the numbers `a` of one and `b` of the next, and stores those of the
/// part in scratch memory.
fn stored(writer: &mut Writer, sizes: &Sizes, blocks: &Blocks, names: &[&str], statement: &str) {
    let (count, unit) = (names.len(), sizes.unit);
    let width = blocks.lanes * unit;
    writer.shared("T", "parts", count * unit * THREADS as usize, sizes.dtype.compute_type().bytes());
    writer.line("if (takes_part) {");
    writer.line("#pragma unroll");
    writer.line(format!("for (int e = 0; e < {unit}; e++) {{"));
    for (k, name) in names.iter().enumerate() {
        writer.line(format!("parts[((along * {width}) + lane * {unit} + e) * {count} + {k}] = {name};"));
    }
    writer.line("}");
    writer.line("}");
    writer.line("__syncthreads();");
    let to = scratch_at(writer, 0);
    writer.line(format!("for (int own = threadIdx.x; own < {width}; own += {THREADS}) {{"));
    writer.line(format!("const int c = chunk * {width} + own;"));
    writer.line(format!("if (c >= {}) break;", sizes.channels));
    writer.line(format!("T *const a = parts + own * {count};"));
    writer.line(format!("for (int l = 1; l < {}; l++) {{", blocks.together));
    writer.line(format!("const T *const b = a + l * {};", width * count));
    writer.line(statement);
    writer.line("}");
    writer
        .line(format!("for (int k = 0; k < {count}; k++) {to}[(c * {} + part) * {count} + k] = a[k];", blocks.parts()));
    writer.line("}");
}

/// The moments of each part of each channel: count, mean, and the sum of squared deviations from it. A few places are reduced by themselves and then
/// merged, so that no large sums cancel.
pub(super) fn moments(call: &Call, sizes: &Sizes) -> Called {
    let blocks = Blocks::of(sizes);
    let mut writer = begun(sizes);
    let from = pointer(&mut writer, &call.inputs[0].0, &sizes.unit());
    let unit = sizes.unit;
    blocks.declare(&mut writer, sizes, blocks.parts());
    writer.line(format!("T n = (T)0, mean[{unit}] = {{}}, squares[{unit}] = {{}};"));
    each_places(&mut writer, sizes, &blocks);
    load(&mut writer, sizes, "x", &from);
    writer.line("const T own = (T)count, inverse = (T)1 / own, all = n + own, share = own / all;");
    writer.line("#pragma unroll");
    writer.line(format!("for (int e = 0; e < {unit}; e++) {{"));
    writer.line("T sum = (T)0, deviations = (T)0;");
    writer.line("#pragma unroll");
    writer.line(format!("for (int q = 0; q < {TOGETHER}; q++) if (q < count) sum += (T)x[q].v[e];"));
    writer.line("const T center = sum * inverse;");
    writer.line("#pragma unroll");
    writer.line(format!(
        "for (int q = 0; q < {TOGETHER}; q++) if (q < count) {{ const T d = (T)x[q].v[e] - center; deviations += d * d; }}"
    ));
    writer.line("const T delta = center - mean[e];");
    writer.line("mean[e] += delta * share; squares[e] += deviations + delta * delta * (n * share);");
    writer.line("}");
    writer.line("n = all;");
    writer.line("}");
    stored(&mut writer, sizes, &blocks, &["n", "mean[e]", "squares[e]"], super::MERGED);
    finished(writer, true, blocks.chunks * blocks.parts())
}

/// For each part of each channel the sum of cotangents, and that of their products with the normalized elements.
pub(super) fn sums(call: &Call, sizes: &Sizes, epsilon: f64) -> Called {
    let blocks = Blocks::of(sizes);
    let mut writer = begun(sizes);
    let [from, cotangent] = [0, 3].map(|input| pointer(&mut writer, &call.inputs[input].0, &sizes.unit()));
    let [means, variances] = [5, 6].map(|input| of_channel(&mut writer, &call.inputs[input].0));
    let unit = sizes.unit;
    blocks.declare(&mut writer, sizes, blocks.parts());
    writer.line(format!("T sum[{unit}] = {{}}, product[{unit}] = {{}}, mean[{unit}], inverse[{unit}];"));
    of_channels(
        &mut writer,
        sizes,
        &format!("mean[e] = {means}; inverse[e] = (T)1 / sqrt({variances} + (T){epsilon:e});"),
    );
    each_places(&mut writer, sizes, &blocks);
    load(&mut writer, sizes, "x", &from);
    load(&mut writer, sizes, "g", &cotangent);
    writer.line("#pragma unroll");
    writer.line(format!("for (int q = 0; q < {TOGETHER}; q++) if (q < count) {{"));
    writer.line("#pragma unroll");
    writer.line(format!("for (int e = 0; e < {unit}; e++) {{"));
    writer.line("sum[e] += (T)g[q].v[e]; product[e] += (T)g[q].v[e] * (((T)x[q].v[e] - mean[e]) * inverse[e]);");
    writer.line("}");
    writer.line("}");
    writer.line("}");
    stored(&mut writer, sizes, &blocks, &["sum[e]", "product[e]"], super::ADDED);
    finished(writer, true, blocks.chunks * blocks.parts())
}

/// A statement for each channel `c` of a thread, the `e`-th of its unit.
fn of_channels(writer: &mut Writer, sizes: &Sizes, statement: &str) {
    writer.line("#pragma unroll");
    writer.line(format!("for (int e = 0; e < {}; e++) {{ const int c = channel + e; {statement} }}", sizes.unit));
}

/// Opens a kernel of threads with the same channels at several places; `place` is a place and `at` its unit. Channels are prepared by a statement.
fn of_places(writer: &mut Writer, sizes: &Sizes, blocks: &Blocks, prepared: impl FnOnce(&mut Writer)) -> usize {
    let (units, per_block) = (sizes.channels / sizes.unit, blocks.together * STORED);
    let per_chunk = blocks.places.div_ceil(per_block);
    blocks.declare(writer, sizes, per_chunk);
    writer.line("if (!takes_part) return;");
    prepared(writer);
    writer.line("#pragma unroll 4");
    writer.line(format!("for (int q = 0; q < {STORED}; q++) {{"));
    writer.line(format!("const i64 place = (i64)part * {per_block} + q * {} + along;", blocks.together));
    writer.line(format!("if (place >= {}) break;", blocks.places));
    writer.line(format!("const i64 at = place * {units} + unit;"));
    blocks.chunks * per_chunk
}

pub(super) fn normalized(call: &Call, sizes: &Sizes, epsilon: f64) -> Called {
    let (blocks, unit) = (Blocks::of(sizes), sizes.unit);
    let mut writer = begun(sizes);
    let from = pointer(&mut writer, &call.inputs[0].0, &sizes.unit());
    let to = pointer(&mut writer, &call.outputs[0].0, &sizes.unit());
    let [scales, shifts] = [1, 2].map(|input| of_channel(&mut writer, &call.inputs[input].0));
    let [means, variances] = [1, 2].map(|output| of_channel(&mut writer, &call.outputs[output].0));
    let count = of_places(&mut writer, sizes, &blocks, |writer| {
        writer.line(format!("T mean[{unit}], factor[{unit}], shift[{unit}];"));
        let factor = format!("(T){scales} / sqrt({variances} + (T){epsilon:e})");
        of_channels(writer, sizes, &format!("mean[e] = {means}; factor[e] = {factor}; shift[e] = (T){shifts};"));
    });
    writer.line(format!("const {} x = {from}[at]; {0} y;", sizes.unit()));
    writer.line("#pragma unroll");
    writer.line(format!("for (int e = 0; e < {unit}; e++) y.v[e] = ((T)x.v[e] - mean[e]) * factor[e] + shift[e];"));
    writer.line(format!("{to}[at] = y;"));
    writer.line("}");
    finished(writer, false, count)
}

/// The cotangent of the operand: that of the result less its mean and its projection onto the normalized elements.
pub(super) fn cotangents(call: &Call, sizes: &Sizes, epsilon: f64) -> Called {
    let (blocks, unit) = (Blocks::of(sizes), sizes.unit);
    let mut writer = begun(sizes);
    let [from, cotangent] = [0, 3].map(|input| pointer(&mut writer, &call.inputs[input].0, &sizes.unit()));
    let to = pointer(&mut writer, &call.outputs[0].0, &sizes.unit());
    let [scales, means, variances] = [1, 5, 6].map(|input| of_channel(&mut writer, &call.inputs[input].0));
    let totals = scratch_at(&mut writer, 3 * sizes.parts * sizes.channels);
    let elements = sizes.elements();
    let count = of_places(&mut writer, sizes, &blocks, |writer| {
        writer.line(format!("T mean[{unit}], inverse[{unit}], factor[{unit}], sum[{unit}], product[{unit}];"));
        of_channels(
            writer,
            sizes,
            &format!(
                "mean[e] = {means}; inverse[e] = (T)1 / sqrt({variances} + (T){epsilon:e}); factor[e] = (T){scales} * inverse[e]; \
                 sum[e] = {totals}[2 * c] / (T){elements}; product[e] = {totals}[2 * c + 1] / (T){elements};"
            ),
        );
    });
    writer.line(format!("const {} x = {from}[at], g = {cotangent}[at]; {0} y;", sizes.unit()));
    writer.line("#pragma unroll");
    writer.line(format!(
        "for (int e = 0; e < {unit}; e++) y.v[e] = factor[e] * ((T)g.v[e] - sum[e] - ((T)x.v[e] - mean[e]) * inverse[e] * product[e]);"
    ));
    writer.line(format!("{to}[at] = y;"));
    writer.line("}");
    finished(writer, false, count)
}
