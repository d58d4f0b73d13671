//! The neutral intermediate representation: what an executor has to do, step by step, over planned memory.
//!
//! A step is a fused loop over strided accesses, a contraction with an optional epilogue, a call on whole arrays (data
//! movement, sorting, random draws, host code), a scan loop with a sub-program, or the reverse sweep over such a loop.
//! Nothing in a program refers to a tensor or to a machine: registers are numbers, not memory, and block sizes, packing
//! and kernels are chosen by the plan that an executor derives from it.

mod call;
mod contraction;
mod display;
mod draw;
mod fused_kernel;
mod loops;
mod scan;

use crate::array::Array;
use crate::dtype::DType;
use crate::shape::Shape;

pub use super::host::HostCall;
pub use super::memory::Held;
pub use call::{Call, CallKind};
pub use contraction::{Contraction, ContractionAxis};
pub use draw::Distribution;
pub use fused_kernel::{AttentionKernel, Cumulation, CumulativeKernel, FusedKernel};
pub use loops::{Instruction, Logic, Loop, Reduction, RowLayout, Store};
pub use scan::{ReverseScan, ScanLoop};

/// The buffer that an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// An input, by its number.
    Input(usize),
    /// A constant of the program, by its number.
    Constant(usize),
    /// A result, by its number.
    Result(usize),
    /// The arena, from this byte on.
    Arena(usize),
    /// The tile of a contraction that its epilogue reads.
    Tile,
}

/// A strided access: the element of an index is the offset plus the sum of indices times strides, in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The buffer.
    pub memory: Memory,
    /// The element type.
    pub dtype: DType,
    /// The element of index 0.
    pub offset: isize,
    /// For each axis of the loop, the distance from one index to the next.
    pub strides: Vec<isize>,
}

/// One step of a program.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "steps are built once and borrowed from then on")]
pub enum Step {
    /// A fused loop.
    Loop(Loop),
    /// A batched product of matrices.
    Contract(Contraction),
    /// An operation on whole arrays.
    Call(Call),
    /// A loop over leading axes, with a program as its body.
    Scan(ScanLoop),
    /// The reverse sweep over such a loop, by a schedule of snapshots.
    ReverseScan(ReverseScan),
}

/// The shape and element type of an input or a result.
pub type Signature = (Shape, DType);

/// The bytes of an array of this signature.
pub fn bytes_of((shape, dtype): &Signature) -> usize {
    shape.elements().saturating_mul(dtype.bytes())
}

/// A program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What is given at each launch.
    pub inputs: Vec<Signature>,
    /// Arrays that are part of the program.
    pub constants: Vec<Array>,
    /// What it computes.
    pub results: Vec<Signature>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The bytes of memory for values in between.
    pub arena: usize,
    /// These values with their lifetimes, in no particular order.
    pub values: Vec<Held>,
    /// Provenance: pairs of a step and a node of the graph that it was lowered from, as in
    /// `GraphNode::source`, in no particular order; some are there twice.
    pub sources: Vec<(usize, usize)>,
}

impl Program {
    /// The bytes of the arena and the results.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let program = Tensor::from([1.0, 2.0]).exp().program().unwrap();
    /// assert_eq!(program.memory(), program.arena + 2 * 8);
    /// ```
    pub fn memory(&self) -> usize {
        self.results.iter().map(bytes_of).fold(self.arena, usize::saturating_add)
    }

    /// Floating-point operations of all steps.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!((Tensor::from([1.0, 2.0]) * 3.0).program().unwrap().flops(), 2.0);
    /// ```
    pub fn flops(&self) -> f64 {
        self.steps.iter().map(Step::flops).sum()
    }

    /// Bytes that all steps read and write at least once.
    fn bytes(&self) -> f64 {
        self.steps.iter().map(Step::bytes).sum()
    }

    /// Whether a run may end in an error.
    pub fn can_fail(&self) -> bool {
        self.steps.iter().any(Step::can_fail)
    }
}

impl Step {
    /// What the step reads.
    pub fn reads(&self) -> impl Iterator<Item = &Access> {
        let (plain, epilogue, with_shapes): (&[Access], &[Access], &[(Access, Shape)]) = match self {
            Step::Loop(fused) => (&fused.loads, &[], &[]),
            Step::Contract(product) => {
                (&product.operands[..2], product.epilogue.as_ref().map_or(&[], |epilogue| &epilogue.loads), &[])
            }
            Step::Call(call) => (&[], &[], &call.inputs),
            Step::Scan(scan) => (&scan.inputs, &[], &[]),
            Step::ReverseScan(sweep) => (&sweep.inputs, &[], &[]),
        };
        let epilogue = epilogue.iter().filter(|access| access.memory != Memory::Tile);
        plain.iter().chain(epilogue).chain(with_shapes.iter().map(|(access, _)| access))
    }

    /// What the step writes.
    pub fn writes(&self) -> impl Iterator<Item = &Access> {
        type Writes<'s> = (&'s [Store], Option<&'s Access>, &'s [(Access, Shape)], &'s [Option<Access>]);
        let (stores, one, with_shapes, outputs): Writes<'_> = match self {
            Step::Loop(fused) => (&fused.stores, None, &[], &[]),
            Step::Contract(Contraction { epilogue: Some(epilogue), .. }) => (&epilogue.stores, None, &[], &[]),
            Step::Contract(product) => (&[], Some(&product.operands[2]), &[], &[]),
            Step::Call(call) => (&[], None, &call.outputs, &[]),
            Step::Scan(scan) => (&[], None, &[], &scan.outputs),
            Step::ReverseScan(sweep) => (&[], None, &[], &sweep.outputs),
        };
        let with_shapes = with_shapes.iter().map(|(access, _)| access);
        stores.iter().map(|store| &store.access).chain(one).chain(with_shapes).chain(outputs.iter().flatten())
    }

    /// Calls a function with every access of the step.
    pub fn accesses_mut(&mut self, visit: &mut impl FnMut(&mut Access)) {
        fn of_loop(fused: &mut Loop, visit: &mut impl FnMut(&mut Access)) {
            fused.loads.iter_mut().for_each(&mut *visit);
            fused.stores.iter_mut().for_each(|store| visit(&mut store.access));
        }
        match self {
            Step::Loop(fused) => of_loop(fused, visit),
            Step::Contract(product) => {
                product.operands.iter_mut().for_each(&mut *visit);
                product.epilogue.iter_mut().for_each(|epilogue| of_loop(epilogue, visit));
            }
            Step::Call(call) => {
                call.inputs.iter_mut().for_each(|(access, _)| visit(access));
                call.outputs.iter_mut().for_each(|(access, _)| visit(access));
            }
            Step::Scan(ScanLoop { inputs, outputs, .. }) | Step::ReverseScan(ReverseScan { inputs, outputs, .. }) => {
                inputs.iter_mut().for_each(&mut *visit);
                outputs.iter_mut().flatten().for_each(visit);
            }
        }
    }

    /// Floating-point operations.
    pub fn flops(&self) -> f64 {
        match self {
            Step::Loop(fused) => fused.flops(),
            Step::Contract(product) => {
                product.flops() + product.epilogue.as_ref().map_or(0.0, |epilogue| epilogue.flops())
            }
            Step::Call(_) => 0.0,
            Step::Scan(scan) => scan.length as f64 * scan.body.flops(),
            Step::ReverseScan(sweep) => {
                let [advances, reversals] = sweep.runs();
                advances as f64 * sweep.advance.flops() + reversals as f64 * sweep.reverse.flops()
            }
        }
    }

    /// Bytes that the step reads and writes at least once.
    pub fn bytes(&self) -> f64 {
        match self {
            Step::Loop(fused) => fused.bytes(),
            Step::Contract(product) => {
                product.bytes() + product.epilogue.as_ref().map_or(0.0, |epilogue| epilogue.bytes())
            }
            Step::Call(call) => call.bytes(),
            Step::Scan(scan) => scan.length as f64 * scan.body.bytes(),
            Step::ReverseScan(sweep) => {
                let [advances, reversals] = sweep.runs();
                advances as f64 * sweep.advance.bytes() + reversals as f64 * sweep.reverse.bytes()
            }
        }
    }

    /// Whether the step may end in an error.
    pub fn can_fail(&self) -> bool {
        match self {
            Step::Loop(_) | Step::Contract(_) => false,
            Step::Call(call) => call.kind.can_fail(),
            Step::Scan(scan) => scan.body.can_fail(),
            Step::ReverseScan(sweep) => sweep.advance.can_fail() || sweep.reverse.can_fail(),
        }
    }
}
