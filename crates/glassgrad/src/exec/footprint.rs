//! What a run of a program allocates besides its inputs.
//!
//! Results, arena and constants are the program's own. Beside them kernels have working memory, which each thread keeps
//! between runs: registers of fused loops, partial sums, packed factors, tiles of products with an epilogue. It is counted
//! by kind at its largest, and as if all threads took part.

use std::collections::HashMap;

use super::large::gemm_bytes;
use super::machine::scratch_bytes;
use super::product::{self, Kernel};
use super::threads::threads;
use super::tiles::Composite;
use super::{followed, fused, symmetric, whole};
use crate::opt::program::{Access, Call, Product, Program, Step};
use crate::shape::Shape;

/// The bytes that a run of a program allocates besides its inputs, on all threads: results, arena, constants, scratch and
/// packing buffers. Operations of the user's own count as if they needed two arrays like their output to work in.
///
/// ```
/// use glassgrad::{Tensor, exec::footprint};
/// let program = Tensor::from([1.0, 2.0]).exp().program().unwrap();
/// assert!(footprint(&program) >= program.memory());
/// ```
pub fn footprint(program: &Program) -> usize {
    let mut working = Working { threads: threads(), ..Working::default() };
    working.program(program);
    [program.memory(), scratch_bytes(program), working.constants, working.bytes()]
        .into_iter()
        .fold(0, usize::saturating_add)
}

/// Working memory by kind, each at its largest.
#[derive(Default)]
struct Working {
    threads: usize,
    constants: usize,
    partial_sums: usize,
    registers: usize,
    packed: usize,
    symmetric: usize,
    epilogue: usize,
    gemm: usize,
    /// Arrays of operations on the host by their size in bytes, as many as one operation has of each: they are kept for the
    /// next operation that needs one of the size.
    host_arrays: HashMap<usize, usize>,
    /// What an operation on the host works in.
    host_scratch: usize,
}

impl Working {
    fn bytes(&self) -> usize {
        let Working { partial_sums, registers, packed, symmetric, epilogue, gemm, host_scratch, .. } = *self;
        let host = self.host_arrays.iter().map(|(bytes, count)| bytes.saturating_mul(*count));
        [partial_sums, registers, packed, symmetric, epilogue, gemm, host_scratch]
            .into_iter()
            .chain(host)
            .fold(0, usize::saturating_add)
    }

    fn program(&mut self, program: &Program) {
        for constant in &program.constants {
            self.constants += constant.shape().elements() * constant.dtype().bytes();
        }
        program.steps.iter().for_each(|step| self.step(step));
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Loop(fused) => {
                let (sums, registers) = fused::chunk_bytes(fused);
                self.partial_sums = self.partial_sums.max(sums);
                self.registers = self.registers.max(registers.saturating_mul(self.threads));
            }
            Step::Product(product) => self.product(product),
            Step::Call(call) => self.host_call(call),
            Step::Repeat(repeat) => self.program(&repeat.body),
            Step::Sweep(sweep) => {
                self.program(&sweep.advance);
                self.program(&sweep.reverse);
            }
        }
    }

    fn product(&mut self, product: &Product) {
        let element = product.operands[2].dtype.bytes();
        match product::kernel(product) {
            Kernel::Packed => {}
            Kernel::Tiles => {
                let (sums, packed) = Composite::of(product).bytes(element);
                self.partial_sums = self.partial_sums.max(sums);
                self.packed = self.packed.max(packed.saturating_mul(self.threads));
            }
            Kernel::Symmetric => {
                self.symmetric = self.symmetric.max(symmetric::bytes(product.rows.extent, element));
            }
            Kernel::Large => {
                self.gemm = self.gemm.max(gemm_bytes(product).saturating_mul(self.threads));
                if let Some(epilogue) = &product.then {
                    let tile = followed::bytes(product, epilogue);
                    self.epilogue = self.epilogue.max(tile.saturating_mul(self.threads));
                }
            }
        }
    }

    /// The arrays that an operation on the host is called with, the one that it returns, and twice as much to work in:
    /// sorting takes that, and of operations of the user's own nothing is known.
    fn host_call(&mut self, call: &Call) {
        if whole::moves(call) {
            return;
        }
        let bytes = |(access, shape): &(Access, Shape)| shape.elements().saturating_mul(access.dtype.bytes());
        let mut counts: HashMap<usize, usize> = HashMap::new();
        call.inputs.iter().chain([&call.output]).for_each(|array| *counts.entry(bytes(array)).or_default() += 1);
        for (bytes, count) in counts {
            let most = self.host_arrays.entry(bytes).or_default();
            *most = count.max(*most);
        }
        self.host_scratch = self.host_scratch.max(bytes(&call.output).saturating_mul(2));
    }
}
