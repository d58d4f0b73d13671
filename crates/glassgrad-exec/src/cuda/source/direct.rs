//! Contractions of few multiplications: a thread, or several that share the terms, for each element of the result. Factors are read
//! where they lie, without stages in shared memory, so that nothing waits but for the partial sums.

use super::contraction::{Tiled, offset, reach_of_contraction};
use super::epilogue::Elements;
use super::{THREADS, Writer, type_of};
use crate::dtype::DType;
use crate::program::{Contraction, ContractionAxis};

/// The most multiplications.
const MOST_MULTIPLICATIONS: usize = 1 << 16;

/// The threads that are enough for a contraction.
const ENOUGH: usize = 1024;

/// The least terms of a thread.
const LEAST_TERMS: usize = 4;

/// The kernel of a contraction, if it is small enough.
pub(in crate::cuda) fn kernel(product: &Contraction) -> Option<Tiled> {
    let Contraction { batch, sums, rows, columns, inner, operands, masked, .. } = product;
    let summed = [&sums[..], &[*inner]].concat();
    let count = |axes: &[ContractionAxis]| axes.iter().map(|axis| axis.extent).product::<usize>();
    let (m, n, terms) = (rows.extent, columns.extent, count(&summed));
    let outputs = count(batch) * m * n;
    if outputs.saturating_mul(terms) > MOST_MULTIPLICATIONS {
        return None;
    }
    let dtype = operands[2].dtype.compute_type();
    let (element, stored) = (type_of(dtype), type_of(operands[0].dtype));
    let threads = THREADS as usize;
    // Powers of two, so that the threads of a block are used up.
    let wanted = (ENOUGH / outputs.next_power_of_two().min(ENOUGH)).min((terms / LEAST_TERMS).max(1));
    let lanes = (1 << wanted.ilog2()).min(32);
    let each = terms.div_ceil(lanes);
    let across = threads / lanes;
    let mut writer = Writer::new(reach_of_contraction(product).max(outputs + threads));
    let index = writer.index;
    let arguments = [writer.argument(operands[0].memory), writer.argument(operands[1].memory)];
    writer.line(format!("const int lane = threadIdx.x / {across};"));
    writer.line(format!("const {index} o = ({index})blockIdx.x * {across} + threadIdx.x % {across};"));
    let elements = Elements { count: 1 };
    elements.declare(&mut writer, element);
    writer.line(format!("inside[0] = o < {outputs};"));
    writer.line(format!("column[0] = o % {n}; row[0] = o / {n} % {m}; total[0] = 0;"));
    writer.line(format!("const {index} batch = inside[0] ? o / {} : 0;", m * n));
    offset(&mut writer, "a_batch", "batch", batch, 0);
    offset(&mut writer, "b_batch", "batch", batch, 1);
    offset(&mut writer, "c_batch", "batch", batch, 2);
    writer.line("(void)c_batch; (void)lane;");
    for (k, (name, place, axis)) in [("a", "row[0]", rows), ("b", "column[0]", columns)].into_iter().enumerate() {
        let (argument, offset, stride) = (arguments[k], operands[k].offset, axis.strides[k]);
        writer.line(format!(
            "const {stored} *{name} = (const {stored} *)a{argument} + {offset} + {name}_batch + {place} * ({index}){stride};"
        ));
    }
    if lanes == 1 {
        writer.line("if (inside[0])");
    } else {
        writer.line(format!("{element} sum = 0;"));
        writer.line("if (inside[0])");
    }
    let sum = if lanes == 1 { "total[0]" } else { "sum" };
    writer.line("#pragma unroll 8");
    writer.line(format!("for (int j = 0; j < {each}; j++) {{"));
    writer.line(format!("const {index} term = lane * {each} + j;"));
    if each * lanes != terms {
        writer.line(format!("if (term >= {terms}) break;"));
    }
    offset(&mut writer, "a_term", "term", &summed, 0);
    offset(&mut writer, "b_term", "term", &summed, 1);
    writer.line(format!("const {element} x = a[a_term], y = b[b_term];"));
    let conditions: Vec<&str> =
        [(masked[0], "x != 0"), (masked[1], "y != 0")].iter().filter(|own| own.0).map(|own| own.1).collect();
    if !conditions.is_empty() {
        writer.line(format!("if ({})", conditions.join(" && ")));
    }
    match dtype {
        DType::F32 | DType::F64 => writer.line(format!("{sum} = fma(x, y, {sum});")),
        DType::I64 | DType::Bool => writer.line(format!("{sum} = gg_plus({sum}, gg_times(x, y));")),
        DType::F16 | DType::BF16 | DType::I32 | DType::U8 => unreachable!("no sum is taken in {dtype}"),
    }
    writer.line("}");
    if lanes > 1 {
        writer.shared(element, "parts", threads, dtype.bytes());
        writer.line("parts[threadIdx.x] = sum;");
        writer.line("__syncthreads();");
        // The first threads add up the parts in a fixed order.
        writer.line("if (lane == 0) {");
        writer.line("#pragma unroll");
        writer.line(format!(
            "for (int p = 0; p < {lanes}; p++) total[0] = gg_plus(total[0], parts[p * {across} + threadIdx.x]);"
        ));
        writer.line("} else inside[0] = false;");
    }
    elements.finish(&mut writer, product);
    let (kernel, memories) = writer.kernel(THREADS, lanes > 1);
    Some(Tiled { kernel, memories, grid: [outputs.div_ceil(across), 1], second: None })
}
