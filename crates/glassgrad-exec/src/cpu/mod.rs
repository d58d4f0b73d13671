//! The CPU executor: plans of register slots and kernels, an interpreter over them, kernels for each instruction set, and a
//! thread pool.
//!
//! # Safety
//! This folder addresses memory by pointer and stride. Every function that takes an address, or a `Frame` of them, is an
//! `unsafe fn` under one contract, *the planned access*: the addresses are those that a program, which the verifier accepts
//! (`verify`, after every lowering in debug builds and tests), names for arrays of its signatures, which
//! `check_bindings` compares on every launch. Hence every access is in bounds and aligned, nothing is written while
//! another step or thread reads it, and what a step writes it does not read, but for the same elements at the same places.
#![allow(unsafe_code)]
// The contract is that of the whole folder.
#![allow(unsafe_op_in_unsafe_fn)]

mod call;
mod contraction;
mod cumulative;
mod epilogue;
mod footprint;
mod fused;
mod gemm;
mod gemv;
mod interpreter;
mod isa;
mod masked;
mod packed;
mod plan;
mod profile;
mod reverse_scan;
mod simd;
mod skinny;
mod symmetric;
pub mod thread_pool;
mod tiles;
mod top_k;
mod vector;
mod workspace;

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use self::footprint::Working;
use self::plan::Plan;
use self::workspace::{Purpose, Workspaces};
use super::{Executable, Executor, Input, Output, Results, Target, Times, check_bindings};
use crate::array::{Array, buffer};
use crate::capabilities::{Capabilities, EpilogueLimits};
use crate::dtype::DType;
use crate::error::Error;
use crate::program::Program;

pub use self::footprint::footprint;
pub use self::fused::WORTH;
pub use self::isa::{Isa, with_isa};
pub use self::thread_pool::{threads, with_threads};
pub use self::vector::accuracy;

/// What the CPU can run.
pub(crate) static CAPABILITIES: Capabilities = Capabilities {
    dtypes: &[DType::F32, DType::F64, DType::I64, DType::Bool, DType::F16, DType::BF16, DType::I32, DType::U8],
    axes: fused::MOST_AXES,
    // More registers than this do not stay in the first-level cache.
    instructions: 96,
    streams: 64,
    joined_streams: 8,
    row_elements: fused::BLOCK,
    channels_last: &[],
    stored_scatters: false,
    tiles: true,
    unrolled_windows: 25,
    epilogue: Some(EpilogueLimits {
        bytes: 1 << 18,
        multiplications: 1 << 21,
        deep: false,
        separate_reductions: false,
    }),
    accumulation: true,
    symmetric: true,
    products: &[DType::BF16],
    wide_products: true,
    stored_multiplications: 1 << 15,
    matrix_vector: true,
    fused: call::has_kernel,
    aligned_operands: false,
    native: call::is_native,
};

// An epilogue runs behind `gemm`, which takes no smaller product.
const _: () = assert!(1 << 21 > contraction::SMALL);

/// The CPU executor: the working memory of its launches.
#[derive(Default)]
pub(super) struct Cpu {
    workspaces: Arc<Workspaces>,
}

impl Executor for Cpu {
    fn target(&self) -> Target {
        Target::Cpu
    }

    fn prepare(&self, program: Arc<Program>) -> Result<Arc<dyn Executable>, Error> {
        let (plan, workspaces) = (Plan::new(program), Arc::clone(&self.workspaces));
        Ok(Arc::new(Prepared { plan, workspaces, provided: AtomicUsize::new(0) }))
    }

    fn upload(&self, array: &Array) -> Result<Array, Error> {
        Ok(array.clone())
    }

    fn synchronise(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// A plan, and the working memory for it.
struct Prepared {
    plan: Plan,
    workspaces: Arc<Workspaces>,
    /// For how many threads working memory was provided.
    provided: AtomicUsize,
}

impl Prepared {
    /// Provides working memory for all threads before the first launch.
    fn provide(&self) {
        let threads = threads();
        if self.provided.fetch_max(threads, Ordering::Relaxed) < threads {
            for (purpose, bytes, users) in Working::of(&self.plan).kept(threads) {
                self.workspaces.provide(purpose, bytes, users);
            }
        }
    }
}

/// The address of an input.
fn address(input: &mut Input<'_>) -> *const u8 {
    match input {
        Input::Read(array, start) => interpreter::address(array.buffer()).wrapping_add(*start * array.dtype().bytes()),
        Input::Overwrite(array) => interpreter::address_mut(array.buffer_mut()).cast_const(),
    }
}

impl Executable for Prepared {
    fn program(&self) -> &Arc<Program> {
        &self.plan.program
    }

    fn footprint(&self) -> usize {
        footprint::of_plan(&self.plan)
    }

    fn launch(
        &self,
        inputs: &mut [Input<'_>],
        outputs: &mut [Output<'_>],
        results: &mut Results,
        origins: &[&'static Location<'static>],
    ) -> Result<(), Error> {
        let program = &self.plan.program;
        check_bindings(program, inputs, outputs)?;
        self.provide();
        // Host code may read other tensors meanwhile, which take other working memory.
        let mut workspace = self.workspaces.take(Purpose::Arena);
        workspace.inputs.clear();
        workspace.results.clear();
        for (output, (shape, dtype)) in outputs.iter_mut().zip(&program.results) {
            let (target, made) = match output {
                Output::New => {
                    let made = buffer(*dtype, shape.elements()).map_err(interpreter::out_of_memory)?;
                    let mut made = Array::new(shape.clone(), made);
                    (interpreter::address_mut(made.buffer_mut()), Some(made))
                }
                Output::Into(array) => (interpreter::address_mut(array.buffer_mut()), None),
                // The program has no access to this result: it accesses the input instead.
                Output::AliasInput(_) => (std::ptr::null_mut(), None),
            };
            workspace.results.push(target);
            results.push(made);
        }
        workspace.inputs.extend(inputs.iter_mut().map(address));
        // SAFETY: inputs and results have the signatures of the program, which was checked, and are borrowed until this
        // returns; those that are written to are borrowed alone.
        unsafe { interpreter::launch(&self.plan, &mut workspace, &self.workspaces, &|source| origins[source]) }
    }

    fn profile(
        &self,
        inputs: &mut [Input<'_>],
        origins: &[&'static Location<'static>],
        duration: Duration,
    ) -> Result<Times, Error> {
        let outputs: Vec<Output<'_>> = self.plan.program.results.iter().map(|_| Output::New).collect();
        check_bindings(&self.plan.program, inputs, &outputs)?;
        let inputs: Vec<*const u8> = inputs.iter_mut().map(address).collect();
        // SAFETY: as above; results are arrays of its own.
        unsafe { profile::profile(&self.plan, &inputs, &self.workspaces, &|source| origins[source], duration) }
    }
}
