//! The plan for arguments of one definition: a program, the sources of its inputs, and the destinations of its results.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::Location;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::update::InPlace;
use crate::array::{Array, SMALLEST_BYTES};
use crate::dtype::DType;
use crate::error::Error;
use crate::exec::{Executable, Input, Output, Results};
use crate::expr::Tensor;
use crate::opt::{Capture, Leaf};
use crate::runtime;
use crate::shape::Shape;
use crate::tree::{Branch, Tree, checked_map, inconsistent};

/// The plan for arguments of one definition.
pub(super) struct Plan<R> {
    pub(super) executable: Arc<dyn Executable>,
    pub(super) inputs: Vec<Source>,
    /// The results in their structure, and for each leaf where it comes from.
    pub(super) results: R,
    pub(super) leaves: Vec<Result<usize, Array>>,
    pub(super) origins: Arc<[&'static Location<'static>]>,
    /// What stands in the place of a state while it is written over.
    pub(super) nothing: Tensor,
    /// For each result a small tensor from an earlier call, whose memory is reused if no other handle to it is left.
    spare: Mutex<Spare>,
    /// The same for the shards of a batch, of any size.
    shard_spares: Mutex<Vec<Spare>>,
    /// The program that writes the first results over the first arguments, once an update has asked for it.
    pub(super) in_place: OnceLock<InPlace>,
}

pub(super) type Spare = Vec<Option<Tensor>>;

/// The source of an input of the program: an argument, or a captured tensor.
pub(super) enum Source {
    Argument(usize),
    Captured(Array, usize),
}

pub(super) fn unknown() -> Error {
    Error::new("compile", "an argument of another function is not known here")
}

/// The sources of the inputs of a program.
pub(super) fn sources(extract: &Capture, arguments: &HashMap<u64, usize>) -> Result<Vec<Source>, Error> {
    let source = |leaf: &Leaf| match leaf {
        Leaf::Known(array, start) => Ok(Source::Captured(array.clone(), *start)),
        Leaf::Argument(id) => arguments.get(id).map(|number| Source::Argument(*number)).ok_or_else(unknown),
    };
    extract.leaves.iter().map(source).collect()
}

/// Wraps the result arrays of a program as tensors, in the slots of those that are reused.
pub(super) fn publish(results: &mut Results, spare: &mut Spare, origin: &'static Location<'static>) {
    for (spare, array) in spare.iter_mut().zip(results.drain(..)) {
        if let Some(array) = array {
            *spare = Some(Tensor::leaf_at(array, origin));
        }
    }
}

/// A result reuses the memory of a tensor from an earlier call, if that has no other owner.
pub(super) fn output<'s>(spare: &'s mut Option<Tensor>, origin: &'static Location<'static>) -> Output<'s> {
    spare.as_mut().and_then(|spare| spare.renewed(origin)).map_or(Output::New, Output::Into)
}

impl Source {
    /// The input that it is.
    pub(super) fn input<'a>(&'a self, arguments: &'a [Tensor]) -> Result<Input<'a>, Error> {
        match self {
            Source::Argument(number) => {
                arguments[*number].0.value().map(|array| Input::Read(array, 0)).ok_or_else(unknown)
            }
            Source::Captured(array, start) => Ok(Input::Read(array, *start)),
        }
    }
}

impl<R: Tree> Plan<R> {
    /// Plans what was extracted. `leaves` says where the leaves of the results come from.
    pub(super) fn new(
        extract: &Capture,
        arguments: &HashMap<u64, usize>,
        results: &R,
        leaves: Vec<Result<usize, Array>>,
    ) -> Result<Plan<R>, Error> {
        let inputs = sources(extract, arguments)?;
        let executable = runtime::executable_for(extract)?;
        // Only the structure of the results stays, not the graph they depend on.
        let structure = |leaf: &Tensor| Tensor::placeholder(Shape::scalar(), leaf.dtype());
        let (results, _) = checked_map("compile", results, structure)?;
        let nothing = Tensor::placeholder(Shape::scalar(), DType::F32);
        Ok(Plan {
            executable,
            inputs,
            results,
            leaves,
            origins: extract.origins.as_slice().into(),
            nothing,
            spare: Mutex::default(),
            shard_spares: Mutex::default(),
            in_place: OnceLock::new(),
        })
    }
}

impl<R> Plan<R> {
    /// Tensors for reuse by the program of one shard.
    pub(super) fn take_shard_spare(&self) -> Spare {
        let spare = self.shard_spares.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| vec![None; self.executable.program().results.len()])
    }

    pub(super) fn give_shard_spare(&self, spare: Spare) {
        self.shard_spares.lock().unwrap_or_else(PoisonError::into_inner).push(spare);
    }

    /// Tensors for reuse: owned exclusively until they are returned.
    pub(super) fn take_spare(&self) -> Spare {
        let mut spare = std::mem::take(&mut *self.spare.lock().unwrap_or_else(PoisonError::into_inner));
        spare.resize(self.executable.program().results.len(), None);
        spare
    }

    /// Keeps small tensors for the next call; the memory of large ones goes where that of all arrays does.
    pub(super) fn give_spare(&self, mut spare: Spare) {
        let is_large = |tensor: &Tensor| tensor.shape().elements() * tensor.dtype().bytes() >= SMALLEST_BYTES;
        spare.iter_mut().filter(|spare| spare.as_ref().is_some_and(is_large)).for_each(|spare| *spare = None);
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = spare;
    }

    /// A leaf of the results: computed, or captured.
    pub(super) fn leaf(
        &self,
        leaf: &Result<usize, Array>,
        computed: &Spare,
        origin: &'static Location<'static>,
    ) -> Tensor {
        match leaf {
            Ok(number) => computed[*number].clone().unwrap_or_else(|| unreachable!("the program wrote every result")),
            Err(captured) => Tensor::leaf_at(captured.clone(), origin),
        }
    }

    /// A tree of results, from a range of all leaves. `rebuild` is code of the user: it must ask for each of them.
    pub(super) fn rebuilt<T: Tree>(
        &self,
        tree: &T,
        leaf: impl Fn(&Result<usize, Array>) -> Tensor,
        range: Range<usize>,
    ) -> Result<T, Error> {
        let mut leaves = self.leaves[range].iter();
        let mut missing = false;
        let rebuilt = tree.rebuild(&Branch::root(), &mut |_, _| match leaves.next() {
            Some(next) => leaf(next),
            None => {
                missing = true;
                self.nothing.clone()
            }
        });
        if missing || leaves.next().is_some() {
            return Err(inconsistent::<T>("compile", "do not have the same number of leaves"));
        }
        Ok(rebuilt)
    }
}
