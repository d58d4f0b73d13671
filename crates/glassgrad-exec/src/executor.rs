//! The boundary between the runtime and executors: a program becomes a plan, and a plan is launched.
//!
//! Nothing above this boundary knows a device, and nothing below it knows a derivative.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use crate::array::Array;
use crate::capabilities::Capabilities;
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::error::Error;
use crate::program::{Program, Signature};
use crate::{cpu, reference};

/// What programs are lowered and planned for; part of the key of every plan cache.
///
/// ```
/// use glassgrad::{Tensor, exec::Target, runtime::Context};
/// let sum = || Tensor::from([1.0, 2.0]).exp().sum().item().unwrap();
/// let reference = Context::new(Target::Reference);
/// assert!((sum() - reference.run(sum)).abs() < 1e-15);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The processors of this machine: vectorised kernels on several threads.
    Cpu,
    /// An interpreter in safe code, one element at a time in memory of its own: the judge of every other executor.
    Reference,
    /// The GPU of this number, by CUDA.
    #[cfg(feature = "cuda")]
    Cuda(usize),
    /// The kernels of a GPU, compiled for the host by its C++ compiler: what tests of the CUDA executor run on machines
    /// without a GPU.
    #[cfg(feature = "cuda")]
    EmulatedCuda,
}

/// How products of matrices of 32-bit numbers are computed. Sums are of 32 bits in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MatmulPrecision {
    /// Factors with all of their 24 significant bits.
    #[default]
    Full,
    /// Factors rounded to 11 significant bits, on the tensor cores of a GPU (TF32): several times faster, with relative errors of
    /// about 5e-4 for each term. Small products, which run in SIMT kernels, stay in full precision.
    Tf32,
}

impl Target {
    /// What programs for every device of it may contain.
    pub fn capabilities(self) -> &'static Capabilities {
        match self {
            Target::Cpu => &cpu::CAPABILITIES,
            Target::Reference => &reference::CAPABILITIES,
            #[cfg(feature = "cuda")]
            Target::Cuda(_) | Target::EmulatedCuda => &cuda::CAPABILITIES,
        }
    }

    /// A number that no other target has, for the keys of caches.
    pub fn number(self) -> usize {
        match self {
            Target::Cpu => 0,
            Target::Reference => 1,
            #[cfg(feature = "cuda")]
            Target::EmulatedCuda => 2,
            #[cfg(feature = "cuda")]
            Target::Cuda(number) => number.saturating_add(3),
        }
    }

    /// A new executor; an error if the device cannot be used.
    pub fn executor(self, precision: MatmulPrecision) -> Result<Arc<dyn Executor>, Error> {
        let has_full_alone = matches!(self, Target::Cpu | Target::Reference);
        if has_full_alone && precision != MatmulPrecision::Full {
            return Err(Error::new("open", format!("{self:?} multiplies 32-bit numbers in full precision alone"))
                .help("choose MatmulPrecision::Full, or a GPU"));
        }
        Ok(match self {
            Target::Cpu => Arc::new(cpu::Cpu::default()),
            Target::Reference => Arc::new(reference::Reference),
            #[cfg(feature = "cuda")]
            Target::Cuda(number) => Arc::new(cuda::Cuda::gpu(number, precision)?),
            #[cfg(feature = "cuda")]
            Target::EmulatedCuda => Arc::new(cuda::Cuda::emulated(precision)?),
        })
    }
}

/// What runs programs on one device.
pub trait Executor: Send + Sync {
    /// What it runs programs for.
    fn target(&self) -> Target;

    /// What programs for it may contain. A device may have more than every device of its target has.
    fn capabilities(&self) -> &'static Capabilities {
        self.target().capabilities()
    }

    /// Derives a plan from a program that was lowered for its capabilities.
    fn prepare(&self, program: Arc<Program>) -> Result<Arc<dyn Executable>, Error>;

    /// An array in its memory with the elements of another.
    fn upload(&self, array: &Array) -> Result<Array, Error>;

    /// Waits for everything that was launched. Executors that return from a launch when it is done have nothing to wait for.
    fn synchronise(&self) -> Result<(), Error>;
}

/// A program with all that its executor decides on.
pub trait Executable: Send + Sync {
    /// The program.
    fn program(&self) -> &Arc<Program>;

    /// The bytes that a launch allocates besides its inputs.
    fn footprint(&self) -> usize;

    /// What runs a step of the program, in a few words, where that is more than one thing can be: kernels, a library, the host.
    fn placement(&self, _step: usize) -> Option<String> {
        None
    }

    /// Runs the program. Pushes an array for each result that is [`Output::New`], and `None` for the others. Inputs and
    /// outputs that do not fit the program are refused.
    fn launch(
        &self,
        inputs: &mut [Input<'_>],
        outputs: &mut [Output<'_>],
        results: &mut Results,
        origins: &[&'static Location<'static>],
    ) -> Result<(), Error>;

    /// Runs the program again and again for about this long, at least once, and returns the median time of each step.
    fn profile(
        &self,
        inputs: &mut [Input<'_>],
        origins: &[&'static Location<'static>],
        duration: Duration,
    ) -> Result<Times, Error>;
}

/// An input of a launch.
pub enum Input<'a> {
    /// Elements of an array, from this one on.
    Read(&'a Array, usize),
    /// A whole array without another owner, which a result overwrites.
    Overwrite(&'a mut Array),
}

/// Where a result goes.
pub enum Output<'a> {
    /// Into a new array.
    New,
    /// Into an existing array without another owner.
    Into(&'a mut Array),
    /// Over the input of this number, which is [`Input::Overwrite`].
    AliasInput(usize),
}

/// The new arrays of a launch; `None` where a result went elsewhere.
pub type Results = Vec<Option<Array>>;

/// How long each step took, in seconds.
pub type Times = Vec<Timed>;

/// How long a step took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timed {
    /// In all.
    pub seconds: f64,
    /// For each program inside of it, how long its steps took in one run.
    pub inside: Vec<Times>,
}

/// Checks what a launch is given against the signatures of a program: executors address memory by them.
pub fn check_bindings(program: &Program, inputs: &[Input<'_>], outputs: &[Output<'_>]) -> Result<(), Error> {
    let fits = |array: &Array, start: usize, (shape, dtype): &Signature, whole: bool| {
        let end = start.saturating_add(shape.elements());
        let length = array.shape().elements();
        array.dtype() == *dtype && if whole { end == length } else { end <= length }
    };
    let input = |(input, signature): (&Input<'_>, &Signature)| match input {
        Input::Read(array, start) => fits(array, *start, signature, false),
        Input::Overwrite(array) => fits(array, 0, signature, true),
    };
    let output = |(output, signature): (&Output<'_>, &Signature)| match output {
        Output::New => true,
        Output::Into(array) => fits(array, 0, signature, true),
        Output::AliasInput(number) => {
            matches!(inputs.get(*number), Some(Input::Overwrite(_))) && program.inputs.get(*number) == Some(signature)
        }
    };
    let fit = inputs.len() == program.inputs.len()
        && outputs.len() == program.results.len()
        && inputs.iter().zip(&program.inputs).all(input)
        && outputs.iter().zip(&program.results).all(output);
    match fit {
        true => Ok(()),
        false => {
            Err(Error::new("launch", "the arrays do not have the shapes and types that the program was planned for"))
        }
    }
}

/// Binds an array to an output of a launch that [`check_bindings`] accepted: a new result is returned, others replace the array of the
/// output or of the overwritten input.
pub fn bind_result(array: Array, output: &mut Output<'_>, inputs: &mut [Input<'_>]) -> Option<Array> {
    match output {
        Output::New => Some(array),
        Output::Into(target) => {
            **target = array;
            None
        }
        Output::AliasInput(input) => {
            let Input::Overwrite(target) = &mut inputs[*input] else {
                unreachable!("an output that aliases an input which is not overwritten");
            };
            **target = array;
            None
        }
    }
}
