//! The CPU's plan of a program: register slots, kernels, and the sizes of working memory.

mod registers;

use std::sync::Arc;

use super::contraction::{self, Kernel};
use super::{fused, interpreter};
use crate::memory::aligned;
use crate::program::{CallKind, Contraction, Memory, Program, Step};
pub(super) use registers::{LoadMode, LoopPlan, PlannedLoop};

/// A program with all that the CPU decides on.
pub(crate) struct Plan {
    pub(super) program: Arc<Program>,
    pub(super) steps: Vec<StepPlan>,
    /// The bytes of scratch memory that steps need beside the arena.
    pub(super) scratch: usize,
    /// The collectives among the steps, in order, each with the first step that reads its result, or the number of steps.
    pub(super) collectives: Vec<(usize, usize)>,
}

/// The plan of one step.
pub(super) enum StepPlan {
    Loop(LoopPlan),
    Contract(ContractionPlan),
    Call,
    /// The plan of the body.
    Scan(Box<Plan>),
    ReverseScan {
        advance: Box<Plan>,
        reverse: Box<Plan>,
    },
}

/// The plan of a contraction.
pub(super) struct ContractionPlan {
    pub(super) kernel: Kernel,
    pub(super) epilogue: Option<LoopPlan>,
}

impl Plan {
    pub(super) fn new(program: Arc<Program>) -> Plan {
        let steps: Vec<StepPlan> = program.steps.iter().map(StepPlan::new).collect();
        let scratch = program.steps.iter().zip(&steps).map(|(step, plan)| plan.scratch(step)).max().unwrap_or(0);
        let collectives = collectives(&program);
        Plan { program, steps, scratch, collectives }
    }

    /// The steps with their plans.
    pub(super) fn planned_steps(&self) -> impl Iterator<Item = (&Step, &StepPlan)> {
        self.program.steps.iter().zip(&self.steps)
    }

    /// The bytes of the arena and of scratch memory.
    pub(super) fn working_bytes(&self) -> usize {
        aligned(self.program.arena).saturating_add(self.scratch)
    }
}

/// The collectives among the steps of a program, each with the first step that reads its result. Nothing else is written there while
/// the result is live, so that it may be written as late as that.
fn collectives(program: &Program) -> Vec<(usize, usize)> {
    let count = program.steps.len();
    let is_collective = |step: &Step| match step {
        Step::Call(call) if matches!(call.kind, CallKind::Collective(_)) => Some(call.output().0.memory),
        Step::Loop(_) | Step::Contract(_) | Step::Call(_) | Step::Scan(_) | Step::ReverseScan(_) => None,
    };
    let first_use = |begun: usize, memory: Memory| {
        let reads = |step: &Step| step.reads().any(|access| access.memory == memory);
        program.steps[begun + 1..].iter().position(reads).map_or(count, |place| begun + 1 + place)
    };
    let steps = program.steps.iter().enumerate();
    steps.filter_map(|(number, step)| is_collective(step).map(|memory| (number, first_use(number, memory)))).collect()
}

impl StepPlan {
    fn new(step: &Step) -> StepPlan {
        let planned = |program: &Arc<Program>| Box::new(Plan::new(Arc::clone(program)));
        match step {
            Step::Loop(fused) => StepPlan::Loop(LoopPlan::new(fused)),
            Step::Contract(product) => StepPlan::Contract(ContractionPlan::new(product)),
            Step::Call(_) => StepPlan::Call,
            Step::Scan(scan) => StepPlan::Scan(planned(&scan.body)),
            Step::ReverseScan(sweep) => {
                StepPlan::ReverseScan { advance: planned(&sweep.advance), reverse: planned(&sweep.reverse) }
            }
        }
    }

    /// The bytes of scratch memory.
    fn scratch(&self, step: &Step) -> usize {
        match (step, self) {
            (Step::Loop(fused), StepPlan::Loop(plan)) => fused::scratch_bytes(PlannedLoop::new(fused, plan)),
            (Step::Contract(product), StepPlan::Contract(plan)) => contraction::scratch_bytes(product, plan),
            (Step::Call(_), StepPlan::Call) => 0,
            (Step::Scan(scan), StepPlan::Scan(body)) => interpreter::scan_bytes(scan) + body.scratch,
            (Step::ReverseScan(_), StepPlan::ReverseScan { advance, reverse }) => advance.scratch.max(reverse.scratch),
            _ => unreachable!("the plan of another step"),
        }
    }
}

impl ContractionPlan {
    /// The epilogue of the contraction that this is the plan of.
    pub(super) fn epilogue_of<'p>(&'p self, product: &'p Contraction) -> Option<PlannedLoop<'p>> {
        Some(PlannedLoop::new(product.epilogue.as_deref()?, self.epilogue.as_ref()?))
    }

    fn new(product: &Contraction) -> ContractionPlan {
        let kernel = Kernel::of(product);
        let epilogue = product.epilogue.as_deref().map(LoopPlan::new);
        // Lowering fuses epilogues within the limits that the capabilities state; only this kernel runs them.
        if epilogue.is_some() && !matches!(kernel, Kernel::Gemm) {
            unreachable!("a contraction with an epilogue is not computed by gemm: {product:?}");
        }
        ContractionPlan { kernel, epilogue }
    }
}
