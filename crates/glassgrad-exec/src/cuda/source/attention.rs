//! Attention and its pullback, without stored scores: templates on tensor cores in `attention.cuh`, instantiated for an element type and sizes.

use super::call::Called;
use super::{Writer, type_of};
use crate::dtype::DType;
use crate::program::AttentionKernel;
use crate::program::{Access, Call, Memory, Signature};

/// The threads of a block.
const THREADS: u32 = 128;

/// The sizes of attention.
#[derive(Clone, Copy)]
struct Sizes {
    dtype: DType,
    batch: usize,
    positions: usize,
    heads: usize,
    size: usize,
}

impl Sizes {
    /// The sizes of packed queries, keys and values.
    fn of((shape, dtype): &Signature) -> Option<Sizes> {
        let [batch, positions, 3, heads, size] = shape[..] else { return None };
        Some(Sizes { dtype: *dtype, batch, positions, heads, size })
    }

    /// Fragments of 16 rows for each of the four warps: as many as there are registers for.
    fn fragments(&self) -> usize {
        if self.size <= 64 { 2 } else { 1 }
    }

    /// The rows of a block.
    fn rows(&self) -> usize {
        64 * self.fragments()
    }

    /// The bytes of a line in shared memory.
    fn line(&self) -> usize {
        self.size * self.dtype.bytes() + 16
    }

    /// The lines of the other side that are copied at a time.
    fn columns(&self) -> usize {
        if self.line() <= 144 { 64 } else { 32 }
    }

    /// The bytes of shared memory of a kernel: its own tiles, and two stages of two tiles with the statistics of their rows.
    fn shared(&self, own: usize) -> usize {
        let stage = 2 * self.columns() * self.line() + 2 * self.columns() * 4;
        own * self.rows() * self.line() + 2 * stage + self.rows() * 4
    }

    /// The blocks of rows of each head.
    fn tiles(&self) -> usize {
        self.positions.div_ceil(self.rows())
    }
}

/// Whether a region runs as a kernel: products of these factors on tensor cores, with this much shared memory.
pub(in crate::cuda) fn is_supported(kernel: &AttentionKernel, inputs: &[Signature], tf32: bool, shared: usize) -> bool {
    let Some(sizes) = inputs.first().and_then(Sizes::of) else { return false };
    let has_type = match sizes.dtype {
        DType::F16 | DType::BF16 => true,
        DType::F32 => tf32,
        DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => false,
    };
    let is_tiled = sizes.size > 0 && sizes.size.is_multiple_of(16) && sizes.size <= 128;
    let is_indexed = sizes.positions < 1 << 30 && sizes.tiles() * sizes.batch * sizes.heads < 1 << 31;
    let has_elements = sizes.batch * sizes.positions * sizes.heads > 0;
    has_type && is_tiled && is_indexed && has_elements && kernel.scale > 0.0 && sizes.shared(2) <= shared
}

fn sizes_of(call: &Call) -> Sizes {
    let (access, shape) = &call.inputs[0];
    let sizes = Sizes::of(&(shape.clone(), access.dtype));
    sizes.unwrap_or_else(|| unreachable!("attention of the shape {shape}, which `is_supported` excludes"))
}

/// The bytes of scratch memory: for each query the sum of products of its output and the cotangent, which both kernels of the pullback read.
pub(super) fn scratch(call: &Call) -> usize {
    let Sizes { batch, positions, heads, .. } = sizes_of(call);
    batch * positions * heads * 4
}

/// The kernel of attention.
pub(super) fn forward(kernel: &AttentionKernel, call: &Call) -> Called {
    let sizes = sizes_of(call);
    let mut writer = begun(&sizes, sizes.shared(1), kernel.causal);
    packed(&mut writer, &sizes, &call.inputs[0].0);
    let out = by_position(&mut writer, &sizes, &call.outputs[0].0);
    let normalizers = by_head(&mut writer, &sizes, &call.outputs[1].0);
    finished(writer, &sizes, kernel, "", &format!("{out}, heads, {normalizers}"), sizes.shared(1))
}

/// The kernels of the pullback: that of queries, and that of keys and values, which reads what the first leaves.
pub(super) fn pullback(kernel: &AttentionKernel, call: &Call) -> Vec<Called> {
    let sizes = sizes_of(call);
    let [packed_operand, cotangent, out, normalizers] = [0, 1, 2, 3].map(|number| &call.inputs[number].0);
    let products = Access { memory: Memory::Tile, dtype: DType::F32, offset: 0, strides: Vec::new() };
    let one = |is_of_keys: bool| {
        // Blocks with the most work begin first: the last queries, and the first keys.
        let mut writer = begun(&sizes, sizes.shared(2), kernel.causal && !is_of_keys);
        packed(&mut writer, &sizes, packed_operand);
        let given = by_position(&mut writer, &sizes, cotangent);
        let normalizers = by_head(&mut writer, &sizes, normalizers);
        let products = by_head(&mut writer, &sizes, &products);
        let element = type_of(sizes.dtype);
        let to = writer.argument(call.outputs[0].0.memory);
        writer.line(format!("{element} *result = ({element} *)a{to} + {} + place;", call.outputs[0].0.offset));
        let arguments = match is_of_keys {
            true => format!("{given}, heads, {normalizers}, {products}, result + heads, result + 2 * heads"),
            false => {
                let out = by_position(&mut writer, &sizes, out);
                format!("{out}, {given}, heads, {normalizers}, {products}, result")
            }
        };
        let name = if is_of_keys { "_keys" } else { "_queries" };
        finished(writer, &sizes, kernel, name, &arguments, sizes.shared(2))
    };
    vec![one(false), one(true)]
}

/// Begins a kernel: which rows of which head its block has.
fn begun(sizes: &Sizes, shared: usize, is_reversed: bool) -> Writer {
    let Sizes { batch, positions, heads, size, .. } = *sizes;
    let mut writer = Writer::new(usize::MAX);
    writer.line(format!("GG_ARENA(shared, {shared});"));
    writer.line(format!("GG_EXCHANGE(exchange, {});", sizes.rows() * 64));
    let tile = format!("(int)(blockIdx.x / {}u)", batch * heads);
    let tile = if is_reversed { format!("{} - {tile}", sizes.tiles() - 1) } else { tile };
    writer.line(format!("const int first = ({tile}) * {};", sizes.rows()));
    writer.line(format!(
        "const i64 head = blockIdx.x % {}u % {heads}u, example = blockIdx.x % {0}u / {heads}u;",
        batch * heads
    ));
    // The distance between the heads of neighbouring positions, and between queries, keys and values of one position.
    writer.line(format!("const i64 heads = {};", heads * size));
    writer.line(format!("const i64 place = example * {positions} * 3 * heads + head * {size};"));
    writer
}

/// Declares the queries, keys and values of the head.
fn packed(writer: &mut Writer, sizes: &Sizes, access: &Access) {
    let (element, from) = (type_of(sizes.dtype), writer.argument(access.memory));
    writer.line(format!("const {element} *q = (const {element} *)a{from} + {} + place;", access.offset));
}

/// An array `[batch, positions, heads, size]` from the head's first element on.
fn by_position(writer: &mut Writer, sizes: &Sizes, access: &Access) -> String {
    let (element, from) = (type_of(access.dtype), writer.argument(access.memory));
    format!("({element} *)a{from} + {} + example * {} * heads + head * {}", access.offset, sizes.positions, sizes.size)
}

/// An array of numbers `[batch, heads, positions]` from the head's first on.
fn by_head(writer: &mut Writer, sizes: &Sizes, access: &Access) -> String {
    let from = writer.argument(access.memory);
    format!("(float *)a{from} + {} + (example * {} + head) * {}", access.offset, sizes.heads, sizes.positions)
}

fn finished(
    mut writer: Writer,
    sizes: &Sizes,
    kernel: &AttentionKernel,
    name: &str,
    arguments: &str,
    shared: usize,
) -> Called {
    let element = type_of(sizes.dtype);
    let (size, fragments, columns) = (sizes.size, sizes.fragments(), sizes.columns());
    writer.line(format!(
        "gg_attention{name}<{element}, {size}, {fragments}, {columns}, {}>(shared, q, q + heads, q + 2 * heads, 3 * heads, {arguments}, \
         {}, first, (float){:e}, exchange);",
        kernel.causal, sizes.positions, kernel.scale
    ));
    let (kernel, memories) = writer.kernel(THREADS, true);
    let kernel = kernel.launched_alone(1).resident(2).with_library(include_str!("attention.cuh"), shared);
    let blocks = sizes.tiles() * sizes.batch * sizes.heads;
    Called { kernel, memories, blocks, reports: false }
}
