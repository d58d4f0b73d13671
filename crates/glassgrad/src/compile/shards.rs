//! Compiled functions on the shards of a batch.

use std::panic::Location;
use std::sync::Arc;

use super::plan::{Plan, Source, Spare, output, publish, unknown};
use super::{Compiled, Prepared, make_known};
use crate::array::Array;
use crate::collective::Shards;
use crate::diff::Outcome;
use crate::error::Error;
use crate::exec::{Input, Output, Results};
use crate::expr::Tensor;
use crate::opt::program::Program;
use crate::tree::{Definition, Tree};

impl<F, R: Tree> Compiled<F, R> {
    /// Calls the function on the shards of this rank, each with its own arguments, and returns their results in the same order. The
    /// programs run beside each other; collectives in the function are among all shards of all ranks, which must call it too.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::{Tensor, collective::{Shards, Solo}, compile};
    /// let shards = Shards::new(Arc::new(Solo), 2).unwrap();
    /// let centred = compile(|x: &Tensor| x - x.mean().all_reduce() / 2.0);
    /// let results = centred.call_shards(&shards, &[Tensor::from([1.0, 2.0]), Tensor::from([3.0, 6.0])]).unwrap();
    /// assert_eq!(results[1].to_string(), "[0, 3]");
    /// ```
    #[track_caller]
    pub fn call_shards<X: Tree, O: Outcome<Tree = R>>(&self, shards: &Shards, arguments: &[X]) -> Result<Vec<R>, Error>
    where
        F: Fn(&X) -> O,
    {
        let origin = Location::caller();
        let (given, expected) = (arguments.len(), shards.local().len());
        if given != expected {
            let message = format!("arguments for {given} shards, and rank {} has {expected}", shards.rank());
            return Err(Error::new("call_shards", message));
        }
        let mut plans = Vec::with_capacity(expected);
        let mut programs = Vec::with_capacity(expected);
        for x in arguments {
            let leaves = x.flatten();
            make_known(&leaves)?;
            let prepared = shards.trace(|| self.prepared(Definition::of(x), &leaves, || self.build(x, &leaves)))?;
            let Prepared::Planned(plan, _) = &*prepared else {
                let message = "the function captures a tensor that is being differentiated";
                return Err(Error::new("call_shards", message).help("differentiate inside of the function"));
            };
            programs.push(plan.shard(&leaves, origin)?);
            plans.push(prepared);
        }
        let results = shards.run(programs)?;
        let rebuilt = plans.iter().zip(results).map(|(prepared, spare)| {
            let Prepared::Planned(plan, structure) = &**prepared else { unreachable!("every shard has a plan") };
            let result = plan.result_leaves(&spare, origin).tree(structure);
            plan.give_shard_spare(spare);
            result
        });
        rebuilt.collect()
    }

    /// The program of a shard with arguments of this definition.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::{Tensor, collective::{Shards, Solo}, compile};
    /// let shards = Shards::new(Arc::new(Solo), 2).unwrap();
    /// let program = compile(|x: &Tensor| x.all_reduce()).program_for(&shards, &Tensor::ones([3])).unwrap();
    /// assert!(program.to_string().contains("all_reduce over 2 shards"));
    /// ```
    #[track_caller]
    pub fn program_for<X: Tree, O: Outcome<Tree = R>>(&self, shards: &Shards, x: &X) -> Result<Arc<Program>, Error>
    where
        F: Fn(&X) -> O,
    {
        shards.trace(|| self.program(x))
    }
}

impl Plan {
    /// The run of the program on the arguments of one shard.
    fn shard(
        &self,
        arguments: &[Tensor],
        origin: &'static Location<'static>,
    ) -> Result<impl FnOnce() -> Result<Spare, Error> + Send + use<>, Error> {
        let input = |source: &Source| match source {
            Source::Argument(number) => {
                arguments[*number].0.value().map(|array| (array.clone(), 0)).ok_or_else(unknown)
            }
            Source::Captured(array, start) => Ok((array.clone(), *start)),
        };
        let inputs = self.inputs.iter().map(input).collect::<Result<Vec<(Array, usize)>, Error>>()?;
        let (executable, origins) = (Arc::clone(&self.executable), Arc::clone(&self.origins));
        let mut spare = self.take_shard_spare();
        Ok(move || {
            let mut results = Results::with_capacity(spare.len());
            let mut inputs: Vec<Input<'_>> = inputs.iter().map(|(array, start)| Input::Read(array, *start)).collect();
            let mut outputs: Vec<Output<'_>> = spare.iter_mut().map(|spare| output(spare, origin)).collect();
            executable.launch(&mut inputs, &mut outputs, &mut results, &origins)?;
            drop(outputs);
            publish(&mut results, &mut spare, origin);
            Ok(spare)
        })
    }
}
