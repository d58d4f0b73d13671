//! Cross-entropy of many classes, and its pullback: a block for each example, which reads its logits once as they are stored, and stores no probabilities.

use super::call::Called;
use super::{THREADS, Writer, type_of};
use crate::dtype::DType;
use crate::program::{Access, Call, Signature};

/// Fewer classes are left to loops with row reductions, which fuse what is before and behind.
const LEAST_CLASSES: usize = 1 << 10;

/// The classes of a call.
pub(super) fn classes(call: &Call) -> usize {
    call.inputs[0].1.last().copied().unwrap_or(1)
}

/// Whether cross-entropy of these operands is a kernel.
pub(in crate::cuda) fn is_supported(inputs: &[Signature]) -> bool {
    let [(logits, dtype), (examples, indices), ..] = inputs else { return false };
    let has_type = match dtype {
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => *indices == DType::I64,
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => false,
    };
    has_type
        && logits.last().is_some_and(|classes| *classes >= LEAST_CLASSES)
        && examples.elements() > 0
        && examples.elements() < 1 << 31
}

/// Writes a loop over the units of a row: 16 bytes at a time if rows are aligned, otherwise single elements. The body sees the elements
/// `x` of a unit, the number of `units` in it, and the place of its first.
struct Units {
    element: &'static str,
    /// The elements of a unit.
    length: usize,
    classes: usize,
}

impl Units {
    fn new(call: &Call) -> Units {
        let (Access { dtype, offset, .. }, classes) = (&call.inputs[0].0, classes(call));
        let length = 16 / dtype.bytes();
        let is_aligned = classes.is_multiple_of(length) && *offset % length as isize == 0;
        Units { element: type_of(*dtype), length: if is_aligned { length } else { 1 }, classes }
    }

    /// The unit of a row as a structure.
    fn unit(&self) -> String {
        match self.length {
            1 => format!("GgOne<{}>", self.element),
            _ => format!("GgUnit<{}>", self.element),
        }
    }

    fn begin(&self, writer: &mut Writer) {
        let Units { length, classes, .. } = self;
        writer.line("#pragma unroll 4");
        writer.line(format!("for (int u = threadIdx.x; u < {}; u += {THREADS}) {{", classes / length));
        writer.line(format!("const {0} x = ((const {0} *)row)[u];", self.unit()));
    }
}

/// Begins a kernel for an example: declares its logits and the number type of sums.
fn begun(call: &Call, units: &Units) -> (Writer, &'static str) {
    let access = &call.inputs[0].0;
    let mut writer = Writer::new(usize::MAX);
    let wide = type_of(access.dtype.compute_type());
    let from = writer.argument(access.memory);
    writer.line("const i64 example = blockIdx.x;");
    writer.line(format!(
        "const {0} *row = (const {0} *)a{from} + {1} + example * {2};",
        units.element, access.offset, units.classes
    ));
    (writer, wide)
}

/// The number that an array has for the example.
fn of_example(writer: &mut Writer, access: &Access) -> String {
    let argument = writer.argument(access.memory);
    format!("(({} *)a{argument})[{} + example]", type_of(access.dtype), access.offset)
}

fn finished(writer: Writer, call: &Call) -> Called {
    let (kernel, memories) = writer.kernel(THREADS, true);
    let kernel = kernel.launched_alone(1).resident(4);
    Called { kernel, memories, blocks: call.inputs[1].1.elements(), reports: false }
}

/// The kernel of the losses and the logarithms of the normalizers. Each thread adds up its units relative to the largest logit so far; threads are put
/// together as a tree.
pub(super) fn forward(call: &Call) -> Called {
    let units = Units::new(call);
    let (mut writer, wide) = begun(call, &units);
    let least = "(T)-GG_INFINITY";
    writer.line(format!("typedef {wide} T;"));
    writer.shared(wide, "parts", 2 * THREADS as usize, call.outputs[0].0.dtype.bytes());
    writer.line(format!("T most = {least}, sum = (T)0;"));
    units.begin(&mut writer);
    writer.line("T own = most;");
    writer.line("#pragma unroll");
    writer.line(format!("for (int e = 0; e < {}; e++) own = (T)x.v[e] > own ? (T)x.v[e] : own;", units.length));
    // Equal numbers differ by nothing, also if both are infinite.
    writer.line("if (own != most) sum *= exp(most - own);");
    writer.line("most = own;");
    writer.line("#pragma unroll");
    writer.line(format!(
        "for (int e = 0; e < {}; e++) sum += (T)x.v[e] == most ? (T)1 : exp((T)x.v[e] - most);",
        units.length
    ));
    writer.line("}");
    writer.line("parts[threadIdx.x] = most;");
    writer.line(format!("parts[{THREADS} + threadIdx.x] = sum;"));
    writer.line(format!("for (int s = {}; s > 0; s /= 2) {{", THREADS / 2));
    writer.line("__syncthreads();");
    writer.line("if (threadIdx.x < s) {");
    writer.line("const T a = parts[threadIdx.x], b = parts[threadIdx.x + s], larger = b > a ? b : a;");
    let (left, right) = (format!("parts[{THREADS} + threadIdx.x]"), format!("parts[{THREADS} + threadIdx.x + s]"));
    writer.line(format!("{left} = (a == larger ? {left} : {left} * exp(a - larger)) + (b == larger ? {right} : {right} * exp(b - larger));"));
    writer.line("parts[threadIdx.x] = larger;");
    writer.line("}");
    writer.line("}");
    let class = of_example(&mut writer, &call.inputs[1].0);
    let [loss, normalizer] = [0, 1].map(|output| of_example(&mut writer, &call.outputs[output].0));
    writer.line("if (threadIdx.x == 0) {");
    writer.line(format!("const i64 index = {class};"));
    writer.line(format!("const T logarithm = log(parts[{THREADS}]);"));
    // An index out of range was reported; it must not be read.
    writer.line(format!("const T own = index >= 0 && index < {} ? (T)row[index] : (T)GG_NAN;", units.classes));
    writer.line(format!("{loss} = logarithm + (parts[0] - own);"));
    writer.line(format!("{normalizer} = logarithm + parts[0];"));
    writer.line("}");
    finished(writer, call)
}

/// The kernel of the cotangents of the logits: probabilities less the unit vector of the class, times the cotangent of the loss.
pub(super) fn pullback(call: &Call) -> Called {
    let units = Units::new(call);
    let (mut writer, wide) = begun(call, &units);
    let [class, cotangent, normalizer] = [1, 2, 4].map(|input| of_example(&mut writer, &call.inputs[input].0));
    let to = &call.outputs[0].0;
    let result = writer.argument(to.memory);
    writer.line(format!("typedef {wide} T;"));
    writer.line(format!("const i64 index = {class};"));
    writer.line(format!("const T cotangent = {cotangent}, normalizer = {normalizer};"));
    writer.line(format!("{0} *to = ({0} *)a{result} + {1} + example * {2};", units.element, to.offset, units.classes));
    units.begin(&mut writer);
    writer.line(format!("{} y;", units.unit()));
    writer.line("#pragma unroll");
    writer.line(format!("for (int e = 0; e < {0}; e++) y.v[e] = cotangent * (exp((T)x.v[e] - normalizer) - (u * {0} + e == index ? (T)1 : (T)0));", units.length));
    writer.line(format!("(({} *)to)[u] = y;", units.unit()));
    writer.line("}");
    finished(writer, call)
}
