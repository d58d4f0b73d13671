//! What a run of a program allocates besides its inputs.
//!
//! Results, arena and constants are the program's own. Beside them kernels have working memory, which each thread keeps
//! between runs: registers of fused loops, partial sums, packed factors, tiles of products with an epilogue. It is counted
//! by kind at its largest, and as if all threads took part.

use std::collections::HashMap;
use std::sync::Arc;

use super::call::is_native;
use super::contraction::Kernel;
use super::gemm::gemm_bytes;
use super::plan::{ContractionPlan, Plan, PlannedLoop, StepPlan};
use super::thread_pool::threads;
use super::workspace::{PURPOSES, Purpose};
use super::{epilogue, fused, symmetric};
use crate::program::{Access, Call, Contraction, Program, Step};
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
    of_plan(&Plan::new(Arc::new(program.clone())))
}

/// [`footprint`] of a plan.
pub(super) fn of_plan(plan: &Plan) -> usize {
    let working = Working::of(plan);
    // The arena and the results are the program's; scratch memory lies behind the arena.
    [plan.program.memory(), plan.scratch, working.constants, working.bytes(threads())]
        .into_iter()
        .fold(0, usize::saturating_add)
}

/// Working memory by kind, each at its largest.
#[derive(Default)]
pub(super) struct Working {
    constants: usize,
    /// What the executor keeps between launches, for each thread or once.
    kept: [usize; PURPOSES.len()],
    /// What `gemm` packs factors into, for each thread.
    gemm: usize,
    /// Arrays of operations on the host by their size in bytes, as many as one operation has of each: they are kept for the
    /// next operation that needs one of the size.
    host_arrays: HashMap<usize, usize>,
    /// What an operation on the host works in.
    host_scratch: usize,
}

impl Working {
    pub(super) fn of(plan: &Plan) -> Working {
        let mut working = Working::default();
        working.plan(plan);
        working
    }

    /// The bytes of each purpose but the arena, and for how many users at the same time.
    pub(super) fn kept(&self, threads: usize) -> impl Iterator<Item = (Purpose, usize, usize)> {
        PURPOSES.into_iter().zip(self.kept).map(move |(purpose, bytes)| {
            let users = if purpose.is_for_each_thread() { threads } else { 1 };
            (purpose, bytes, users)
        })
    }

    fn bytes(&self, threads: usize) -> usize {
        let kept = self.kept(threads).map(|(_, bytes, users)| bytes.saturating_mul(users));
        let host = self.host_arrays.iter().map(|(bytes, count)| bytes.saturating_mul(*count));
        [self.gemm.saturating_mul(threads), self.host_scratch]
            .into_iter()
            .chain(kept)
            .chain(host)
            .fold(0, usize::saturating_add)
    }

    fn keep(&mut self, purpose: Purpose, bytes: usize) {
        let kept = &mut self.kept[purpose as usize];
        *kept = bytes.max(*kept);
    }

    fn plan(&mut self, plan: &Plan) {
        for constant in &plan.program.constants {
            self.constants += constant.shape().elements() * constant.dtype().bytes();
        }
        plan.planned_steps().for_each(|(step, plan)| self.step(step, plan));
    }

    fn step(&mut self, step: &Step, plan: &StepPlan) {
        match (step, plan) {
            (Step::Loop(fused), StepPlan::Loop(plan)) => {
                let (sums, registers) = fused::chunk_bytes(PlannedLoop::new(fused, plan));
                self.keep(Purpose::PartialSums, sums);
                self.keep(Purpose::Registers, registers);
            }
            (Step::Contract(product), StepPlan::Contract(plan)) => self.contraction(product, plan),
            (Step::Call(call), StepPlan::Call) => self.call(call),
            (Step::Scan(_), StepPlan::Scan(body)) => self.plan(body),
            (Step::ReverseScan(_), StepPlan::ReverseScan { advance, reverse }) => {
                self.plan(advance);
                self.plan(reverse);
            }
            _ => unreachable!("the plan of another step"),
        }
    }

    fn contraction(&mut self, product: &Contraction, plan: &ContractionPlan) {
        let element = product.operands[2].dtype.bytes();
        match &plan.kernel {
            Kernel::Gemv | Kernel::Skinny | Kernel::Packed => {}
            Kernel::Tiles(composite) => {
                let (sums, panels) = composite.bytes(element);
                self.keep(Purpose::PartialSums, sums);
                self.keep(Purpose::Panels, panels);
            }
            Kernel::Bf16(composite) => self.keep(Purpose::Panels, composite.bf16_bytes()),
            Kernel::Symmetric => self.keep(Purpose::SymmetricFactors, symmetric::bytes(product.rows.extent, element)),
            Kernel::Gemm => {
                self.gemm = self.gemm.max(gemm_bytes(product));
                if let Some(epilogue) = plan.epilogue_of(product) {
                    self.keep(Purpose::Tile, epilogue::bytes(product, epilogue));
                }
            }
        }
    }

    /// The arrays that an operation on the host is called with, the one that it returns, and twice as much to work in:
    /// sorting takes that, and of operations of the user's own nothing is known.
    fn call(&mut self, call: &Call) {
        if is_native(&call.kind) {
            return;
        }
        let bytes = |(access, shape): &(Access, Shape)| shape.elements().saturating_mul(access.dtype.bytes());
        let mut counts: HashMap<usize, usize> = HashMap::new();
        call.inputs.iter().chain(&call.outputs).for_each(|array| *counts.entry(bytes(array)).or_default() += 1);
        for (bytes, count) in counts {
            let most = self.host_arrays.entry(bytes).or_default();
            *most = count.max(*most);
        }
        self.host_scratch = self.host_scratch.max(bytes(call.output()).saturating_mul(2));
    }
}
