//! Kernels of programs as text, and NVRTC, which compiles them without a GPU: for tests.

use std::sync::Arc;

use super::chain::chain;
use super::device::TensorCores;
use super::gpu;
use super::plan::Planner;
use crate::error::Error;
use crate::program::Program;

/// Which device kernels are generated for.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextOptions {
    /// Whether it has thread-block clusters.
    pub clusters: bool,
    /// Products of at least so many multiplications run on tensor cores, if it has some.
    pub tensor_cores: Option<usize>,
    /// Small launches in a row become one kernel, if its blocks have so many bytes of shared memory.
    pub chained: Option<usize>,
}

/// The kernels that programs launch, each as the text that is compiled.
pub fn kernel_texts(programs: &[Arc<Program>], options: TextOptions) -> Result<Vec<String>, Error> {
    let mut planner = Planner::new(&|_| false, options.clusters);
    planner.tensor_cores = options.tensor_cores.map(|least_multiplications| TensorCores {
        tf32: false,
        least_multiplications,
        shared_memory: 0,
    });
    for program in programs {
        let mut actions = planner.program(program)?;
        if let Some(shared_memory) = options.chained {
            chain(&mut planner, program, &mut actions, (4, shared_memory));
        }
    }
    Ok((0..planner.module.len()).map(|number| planner.module.cuda(number)).collect())
}

/// Whether NVRTC is there.
pub fn has_compiler() -> bool {
    // SAFETY: looking for a library runs none of its code but initialisation, which NVRTC allows.
    #[allow(unsafe_code)]
    unsafe {
        cudarc::nvrtc::sys::is_culib_present()
    }
}

/// Compiles a kernel for an architecture such as `sm_90`.
pub fn compile(text: &str, architecture: &str) -> Result<Vec<u8>, String> {
    gpu::compiled(text, &format!("--gpu-architecture={architecture}"))
}
