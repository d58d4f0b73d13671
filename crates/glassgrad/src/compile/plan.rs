//! The plan for arguments of one definition: a program, the sources of its inputs, and the destinations of its results.

use std::any::type_name;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Lists;
use super::recycled;
use super::update::InPlace;
use crate::array::{Array, SMALLEST_BYTES};
use crate::dtype::DType;
use crate::error::Error;
use crate::exec::{Executable, Input, Output, Results};
use crate::expr::Tensor;
use crate::opt::{Capture, Leaf};
use crate::runtime;
use crate::shape::Shape;
use crate::tree::{Branch, Tree, inconsistent};

/// The plan for arguments of one definition. It does not depend on the types of arguments and results, so that its methods are
/// compiled once, and not for every function.
pub(super) struct Plan {
    pub(super) executable: Arc<dyn Executable>,
    pub(super) inputs: Vec<Source>,
    /// For each leaf of the results where it comes from.
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

impl Plan {
    /// Plans what was extracted. `leaves` says where the leaves of the results come from.
    pub(super) fn new(
        extract: &Capture,
        arguments: &HashMap<u64, usize>,
        leaves: Vec<Result<usize, Array>>,
    ) -> Result<Plan, Error> {
        let inputs = sources(extract, arguments)?;
        let executable = runtime::executable_for(extract)?;
        let nothing = Tensor::placeholder(Shape::scalar(), DType::F32);
        Ok(Plan {
            executable,
            inputs,
            leaves,
            origins: extract.origins.as_slice().into(),
            nothing,
            spare: Mutex::default(),
            shard_spares: Mutex::default(),
            in_place: OnceLock::new(),
        })
    }

    /// Runs the program on the arguments in the lists, and returns its results.
    pub(super) fn launch(&self, lists: &mut Lists, origin: &'static Location<'static>) -> Result<Spare, Error> {
        let Lists { arguments, results, inputs: unused, outputs: unused_outputs, .. } = lists;
        let mut inputs: Vec<Input<'_>> = recycled(std::mem::take(unused));
        for source in &self.inputs {
            inputs.push(source.input(arguments)?);
        }
        let mut spare = self.take_spare();
        let mut outputs: Vec<Output<'_>> = recycled(std::mem::take(unused_outputs));
        outputs.extend(spare.iter_mut().map(|spare| output(spare, origin)));
        self.executable.launch(&mut inputs, &mut outputs, results, &self.origins)?;
        (*unused, *unused_outputs) = (recycled(inputs), recycled(outputs));
        publish(results, &mut spare, origin);
        Ok(spare)
    }

    /// All leaves of the results.
    pub(super) fn result_leaves<'a>(
        &'a self,
        computed: &'a Spare,
        origin: &'static Location<'static>,
    ) -> ResultLeaves<'a> {
        ResultLeaves { plan: self, computed, overwritten: &[], arguments: &[], origin, next: 0, end: self.leaves.len() }
    }

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
}

/// A range of the leaves of the results, in their order.
pub(super) struct ResultLeaves<'a> {
    pub(super) plan: &'a Plan,
    pub(super) computed: &'a Spare,
    /// For each result the argument that it was written over, if any was.
    pub(super) overwritten: &'a [Option<usize>],
    pub(super) arguments: &'a [Tensor],
    pub(super) origin: &'static Location<'static>,
    /// The next leaf. It passes the end where more leaves are asked for than there are.
    pub(super) next: usize,
    pub(super) end: usize,
}

impl ResultLeaves<'_> {
    /// The next leaf: computed, or captured.
    pub(super) fn next(&mut self) -> Option<Tensor> {
        let number = self.next;
        self.next += 1;
        if number >= self.end {
            return None;
        }
        Some(match &self.plan.leaves[number] {
            Ok(result) => match self.overwritten.get(*result).copied().flatten() {
                Some(argument) => self.arguments[argument].clone(),
                None => {
                    self.computed[*result].clone().unwrap_or_else(|| unreachable!("the program wrote every result"))
                }
            },
            Err(captured) => Tensor::leaf_at(captured.clone(), self.origin),
        })
    }

    fn leaf(&mut self) -> impl FnMut(&Branch<'_>, &Tensor) -> Tensor {
        |_, _| self.next().unwrap_or_else(|| self.plan.nothing.clone())
    }

    /// A tree of these leaves. `rebuild` is code of the user: it must ask for each of them.
    pub(super) fn tree<T: Tree>(mut self, structure: &T) -> Result<T, Error> {
        let tree = structure.rebuild(&Branch::root(), &mut self.leaf());
        self.check_count(type_name::<T>())?;
        Ok(tree)
    }

    fn check_count(&self, tree: &str) -> Result<(), Error> {
        match self.next == self.end {
            true => Ok(()),
            false => Err(inconsistent(tree, "compile", "do not have the same number of leaves")),
        }
    }
}
