//! The reference executor: slow and right, the judge of every faster one.
//!
//! `definitions` evaluates calls by the definition of their operations, one element at a time; `interpreter` runs
//! programs in safe code, where every access is checked, in memory of its own.

mod definitions;
mod interpreter;
mod noise;

use std::any::Any;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

pub use self::definitions::{Task, argsort, from_fn_typed, in_compute_types, integer, largest_along, perform};
use self::interpreter::Bytes;
#[cfg(feature = "cuda")]
pub(crate) use self::interpreter::perform_call;
pub use self::noise::{is_on as is_noisy, perturbed, perturbed_array, with_rounding_noise};
use super::{Executable, Executor, Input, Output, Results, Target, Times, bind_result, check_bindings};
use crate::array::{Array, Buffer, DeviceMemory};
use crate::capabilities::Capabilities;
use crate::dtype::DType;
use crate::error::Error;
use crate::program::{CallKind, Program, Signature, bytes_of};

/// What the reference executor can run: programs without epilogues, with other row limits than those of the CPU.
pub(crate) static CAPABILITIES: Capabilities = Capabilities {
    dtypes: &[DType::F32, DType::F64, DType::I64, DType::Bool, DType::F16, DType::BF16, DType::I32, DType::U8],
    axes: usize::MAX,
    instructions: 256,
    streams: 64,
    joined_streams: 64,
    row_elements: 1 << 16,
    channels_last: &[],
    stored_scatters: false,
    tiles: false,
    unrolled_windows: 0,
    epilogue: None,
    accumulation: false,
    symmetric: false,
    products: &[],
    wide_products: false,
    stored_multiplications: 0,
    matrix_vector: false,
    fused: |_, _| false,
    aligned_operands: false,
    native: |kind| !matches!(kind, CallKind::Host(_)),
};

/// The reference executor.
pub(crate) struct Reference;

/// Memory of the reference executor, apart from that of the host, as that of a device is.
#[derive(Debug)]
struct ReferenceMemory {
    dtype: DType,
    length: usize,
    bytes: Bytes,
}

impl DeviceMemory for ReferenceMemory {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn len(&self) -> usize {
        self.length
    }

    fn download(&self) -> Result<Buffer, String> {
        Ok(self.bytes.decode(self.dtype, self.length))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn on_device((shape, dtype): &Signature, bytes: Bytes) -> Array {
    Array::on_device(shape.clone(), Box::new(ReferenceMemory { dtype: *dtype, length: shape.elements(), bytes }))
}

/// The elements of an array from one on, as bytes.
fn bytes_from(array: &Array, start: usize, signature: &Signature) -> Bytes {
    let (first, count) = (start * signature.1.bytes(), bytes_of(signature));
    match array.device().and_then(|memory| memory.as_any().downcast_ref::<ReferenceMemory>()) {
        Some(memory) => memory.bytes.part(first, count),
        None => Bytes::encode(array.buffer()).part(first, count),
    }
}

impl Executor for Reference {
    fn target(&self) -> Target {
        Target::Reference
    }

    fn prepare(&self, program: Arc<Program>) -> Result<Arc<dyn Executable>, Error> {
        Ok(Arc::new(Prepared(program)))
    }

    fn upload(&self, array: &Array) -> Result<Array, Error> {
        let signature = (array.shape().clone(), array.dtype());
        Ok(on_device(&signature, bytes_from(array, 0, &signature)))
    }

    fn synchronise(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The program itself: nothing is planned.
struct Prepared(Arc<Program>);

impl Prepared {
    fn given(&self, inputs: &[Input<'_>]) -> Vec<Bytes> {
        let bytes = |(input, signature): (&Input<'_>, &Signature)| match input {
            Input::Read(array, start) => bytes_from(array, *start, signature),
            Input::Overwrite(array) => bytes_from(array, 0, signature),
        };
        inputs.iter().zip(&self.0.inputs).map(bytes).collect()
    }
}

impl Executable for Prepared {
    fn program(&self) -> &Arc<Program> {
        &self.0
    }

    fn footprint(&self) -> usize {
        self.0.memory()
    }

    fn launch(
        &self,
        inputs: &mut [Input<'_>],
        outputs: &mut [Output<'_>],
        results: &mut Results,
        origins: &[&'static Location<'static>],
    ) -> Result<(), Error> {
        check_bindings(&self.0, inputs, outputs)?;
        let ran = interpreter::run(&self.0, self.given(inputs), &|source| origins[source])?;
        let (mut made, mut given) = (ran.results, ran.inputs);
        for (number, (output, signature)) in outputs.iter_mut().zip(&self.0.results).enumerate() {
            let array = match output {
                Output::New | Output::Into(_) => on_device(signature, std::mem::take(&mut made[number])),
                Output::AliasInput(input) => on_device(signature, std::mem::take(&mut given[*input])),
            };
            results.push(bind_result(array, output, inputs));
        }
        Ok(())
    }

    fn profile(
        &self,
        inputs: &mut [Input<'_>],
        origins: &[&'static Location<'static>],
        _: Duration,
    ) -> Result<Times, Error> {
        let outputs: Vec<Output<'_>> = self.0.results.iter().map(|_| Output::New).collect();
        check_bindings(&self.0, inputs, &outputs)?;
        Ok(interpreter::run(&self.0, self.given(inputs), &|source| origins[source])?.times)
    }
}
