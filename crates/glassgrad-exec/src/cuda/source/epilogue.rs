//! The end of a contraction: its elements are stored, or go through its epilogue.

use super::instructions::scaled;
use super::{Writer, merged, type_of};
use crate::program::{Contraction, Loop, Memory};

/// What is known about the elements of a thread: for `u` below `count`, `row[u]`, `column[u]`, whether they are `inside[u]` of the
/// result, and the sum of their terms, `total[u]`.
pub(super) struct Elements {
    pub(super) count: usize,
}

impl Elements {
    /// Declares the arrays.
    pub(super) fn declare(&self, writer: &mut Writer, element: &str) {
        let (count, index) = (self.count, writer.index);
        writer.line(format!("{index} row[{count}], column[{count}]; bool inside[{count}]; {element} total[{count}];"));
    }

    fn each(&self, writer: &mut Writer, body: impl FnOnce(&mut Writer)) {
        writer.line("#pragma unroll");
        writer.line(format!("for (int u = 0; u < {}; u++) {{", self.count));
        body(writer);
        writer.line("}");
    }

    /// Stores the elements of a contraction, whose batch is at `c_batch`, or runs its epilogue on them. All loads stand before the
    /// first store, so that they overlap.
    pub(super) fn finish(&self, writer: &mut Writer, product: &Contraction) {
        let dtype = product.operands[2].dtype.compute_type();
        let total = scaled(dtype, "total[u]", product.coefficient);
        let Some(epilogue) = &product.epilogue else {
            let (to, stored) = (writer.argument(product.operands[2].memory), type_of(product.operands[2].dtype));
            let [along, across] = [product.rows.strides[2], product.columns.strides[2]];
            self.each(writer, |writer| {
                let (index, offset) = (writer.index, product.operands[2].offset);
                let place = format!("c_batch + row[u] * ({index}){along} + column[u] * ({index}){across} + {offset}");
                writer.line(format!("if (inside[u]) (({stored} *)a{to})[{place}] = {total};"));
            });
            return;
        };
        let epilogue = merged(epilogue);
        let mut kept: Vec<usize> = epilogue.stores.iter().map(|store| store.register).collect();
        kept.sort_unstable();
        kept.dedup();
        let needed = epilogue.needed(&kept);
        let loads: Vec<usize> =
            (0..epilogue.loads.len()).filter(|load| needed[*load] && !is_tile(&epilogue, *load)).collect();
        for (prefix, registers) in [("l", &loads), ("s", &kept)] {
            for register in registers {
                let element = type_of(epilogue.dtype(*register));
                writer.line(format!("{element} {prefix}{register}[{}];", self.count));
            }
        }
        if !loads.is_empty() {
            self.each(writer, |writer| {
                writer.line("if (inside[u]) {");
                indices(writer, product, &epilogue);
                for register in &loads {
                    let value = writer.element(&epilogue.loads[*register]);
                    writer.line(format!("l{register}[u] = {value};"));
                }
                writer.line("}");
            });
        }
        self.each(writer, |writer| {
            let load = |load: usize| if is_tile(&epilogue, load) { total.clone() } else { format!("l{load}[u]") };
            writer.computed(&epilogue, &needed, &load);
            for register in &kept {
                writer.line(format!("s{register}[u] = r{register};"));
            }
        });
        self.each(writer, |writer| {
            writer.line("if (inside[u]) {");
            indices(writer, product, &epilogue);
            for store in &epilogue.stores {
                let place = writer.element(&store.access);
                writer.line(format!("{place} = s{}[u];", store.register));
            }
            writer.line("}");
        });
    }
}

/// Whether a load of an epilogue is the product itself.
fn is_tile(epilogue: &Loop, load: usize) -> bool {
    epilogue.loads[load].memory == Memory::Tile
}

/// Defines the indices of an epilogue at row and column `u`. The result is dense, so that the epilogue runs over it in order.
fn indices(writer: &mut Writer, product: &Contraction, epilogue: &Loop) {
    let index = writer.index;
    let (rows, columns) = (product.rows, product.columns);
    if columns.strides[2] == 1 && epilogue.extents == [rows.extent, columns.extent] {
        writer.line(format!("const {index} x0 = row[u], x1 = column[u];"));
        return;
    }
    if rows.strides[2] == 1 && epilogue.extents == [columns.extent, rows.extent] {
        writer.line(format!("const {index} x0 = column[u], x1 = row[u];"));
        return;
    }
    let [along, across] = [rows.strides[2], columns.strides[2]];
    writer.line(format!("const {index} i = row[u] * ({index}){along} + column[u] * ({index}){across};"));
    let axes: Vec<usize> = (0..epilogue.extents.len()).collect();
    writer.indices("i", &axes, &epilogue.extents);
}
