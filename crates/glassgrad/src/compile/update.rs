//! Functions from a state to the next state, which is written over the old one.

use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::plan::{Plan, Source, output, publish, unknown};
use super::{Compiled, Lists, Prepared, is_alike, make_known, push_leaves, recycled, with_lists};
use crate::array::Array;
use crate::diff::Outcome;
use crate::error::Error;
use crate::exec::{Executable, Input, Output};
use crate::expr::Tensor;
use crate::opt::in_place;
use crate::runtime;
use crate::tree::{Branch, Definition, Tree, inconsistent};

/// A program that writes results over arguments.
pub(super) struct InPlace {
    executable: Arc<dyn Executable>,
    /// For each result the input that it overwrites, if it does.
    donors: Vec<Option<usize>>,
    /// For each result the argument that it overwrites, if it does.
    homes: Vec<Option<usize>>,
    /// For each input whether it is overwritten.
    overwritten: Vec<bool>,
    /// Whether the next state has its leaves at the same paths, so that it can take the place of the old one leaf by leaf.
    same_structure: bool,
}

impl<F, S: Tree, R: Tree> Compiled<F, (S, R)> {
    /// Calls a function of a state and of data that returns the next state and further results, and replaces the state
    /// by the next one. Buffers are overwritten in place wherever the program allows it and the state is their only
    /// owner, so that a training step takes no memory for a second copy of parameters and moments, and a step after
    /// the first none at all, but for large results besides the state. Leaves change where they stand: static fields stay.
    /// If the function fails or an operation of the user's own panics, the state stays as it was.
    ///
    /// ```
    /// use glassgrad::{Tensor, compile, value_and_grad};
    /// let loss = |(w, b): &(Tensor, Tensor), (x, y): &(Tensor, Tensor)| (x * w + b - y).square().mean();
    /// let step = compile(|(parameters, data): &((Tensor, Tensor), (Tensor, Tensor))| {
    ///     let (value, (dw, db)) = value_and_grad(|parameters: &_| loss(parameters, data))(parameters);
    ///     ((&parameters.0 - dw * 0.1, &parameters.1 - db * 0.1), value)
    /// });
    /// let data = (Tensor::from([1.0, 2.0, 3.0]), Tensor::from([3.0, 5.0, 7.0]));
    /// let mut parameters = (Tensor::from(0.0), Tensor::from(0.0));
    /// for _ in 0..1000 {
    ///     step.update(&mut parameters, &data).unwrap();
    /// }
    /// assert_eq!(format!("{:.3} {:.3}", parameters.0, parameters.1), "2 1");
    /// ```
    #[track_caller]
    pub fn update<D: Tree, O: Outcome<Tree = (S, R)>>(&self, state: &mut S, data: &D) -> Result<R, Error>
    where
        F: Fn(&(S, D)) -> O,
    {
        let origin = Location::caller();
        with_lists(|Lists { arguments, results, inputs: unused, outputs: unused_outputs, overwritten }| {
            push_leaves(state, arguments);
            let count = arguments.len();
            push_leaves(data, arguments);
            let whole = || (state.map(Tensor::clone), data.map(Tensor::clone));
            if arguments.iter().any(Tensor::is_tracked) {
                let (next, rest) = self.inline(&whole())?;
                *state = next;
                return Ok(rest);
            }
            make_known(arguments)?;
            // As of the pair: its definition is that of its parts one after the other.
            let mut definition = Definition::of(state);
            data.define(&mut definition);
            let prepared = self.prepared(definition, arguments, || self.build(&whole(), arguments))?;
            let Prepared::Planned(plan) = &*prepared else {
                let (next, rest) = self.inline(&whole())?;
                *state = next;
                return Ok(rest);
            };
            let over = match plan.in_place.get() {
                Some(over) => over,
                None => {
                    let planned = plan.in_place(state)?;
                    plan.in_place.get_or_init(|| planned)
                }
            };
            let homes = &over.homes;
            // Overwritten buffers must be uniquely owned by the arguments: the state releases its leaves meanwhile.
            detach(state, &arguments[..count], &plan.nothing)?;
            let mut spare = plan.take_spare();
            // Steps that can fail, operations of the user's own among them, precede those that overwrite the state.
            let run = || {
                let mut inputs: Vec<Input<'_>> = recycled(std::mem::take(unused));
                let mut given: Vec<Option<&mut Tensor>> = recycled(std::mem::take(overwritten));
                given.extend(arguments.iter_mut().map(Some));
                over.inputs(&plan.inputs, &mut given, &mut inputs)?;
                let target = |(spare, donor)| match donor {
                    &Some(input) => Output::AliasInput(input),
                    None => output(spare, origin),
                };
                let mut outputs: Vec<Output<'_>> = recycled(std::mem::take(unused_outputs));
                outputs.extend(spare.iter_mut().zip(&over.donors).map(target));
                let done = over.executable.launch(&mut inputs, &mut outputs, results, &plan.origins);
                (*unused, *unused_outputs) = (recycled(inputs), recycled(outputs));
                *overwritten = recycled(given);
                done
            };
            let done = catch_unwind(AssertUnwindSafe(run));
            if !matches!(done, Ok(Ok(()))) {
                attach(state, arguments[..count].iter().cloned());
            }
            done.unwrap_or_else(|payload| resume_unwind(payload))?;
            publish(results, &mut spare, origin);
            let leaf = |leaf: &Result<usize, Array>| match leaf.as_ref().ok().and_then(|result| homes[*result]) {
                Some(argument) => arguments[argument].clone(),
                None => plan.leaf(leaf, &spare, origin),
            };
            let (next, others) = (plan.state_leaves(), plan.leaves.len());
            if over.same_structure {
                attach(state, plan.leaves[..next].iter().map(leaf));
            } else {
                *state = plan.rebuilt(&plan.results.0, leaf, 0..next)?;
            }
            let rest = plan.rebuilt(&plan.results.1, leaf, next..others)?;
            // What was read and could not be overwritten is there for the next time.
            for (argument, leaf) in arguments[..count].iter_mut().zip(&plan.leaves) {
                if let Ok(result) = leaf
                    && homes[*result].is_none()
                    && spare[*result].as_ref().is_some_and(|new| is_alike(new, argument))
                {
                    spare[*result] = Some(std::mem::replace(argument, plan.nothing.clone()));
                }
            }
            plan.give_spare(spare);
            Ok(rest)
        })
    }
}

/// Takes the leaves out of a state: they must be these, in this order. Otherwise, and if walking over the state panics, the
/// state stays as it was.
fn detach<S: Tree>(state: &mut S, leaves: &[Tensor], nothing: &Tensor) -> Result<(), Error> {
    let (mut visited, mut wrong) = (0, false);
    let walk = catch_unwind(AssertUnwindSafe(|| {
        state.visit_mut(&Branch::root(), &mut |_, leaf| {
            match leaves.get(visited) {
                Some(expected) if !wrong && expected.0.id == leaf.0.id => *leaf = nothing.clone(),
                _ => wrong = true,
            }
            visited += 1;
        });
    }));
    if walk.is_ok() && !wrong && visited == leaves.len() {
        return Ok(());
    }
    // A walk that panics has visited what it took out, and visits it again before it panics again.
    let mut taken = leaves.iter();
    let restored = catch_unwind(AssertUnwindSafe(|| {
        state.visit_mut(&Branch::root(), &mut |_, leaf| {
            if leaf.0.id == nothing.0.id
                && let Some(before) = taken.next()
            {
                *leaf = before.clone();
            }
        });
    }));
    walk.and(restored).unwrap_or_else(|payload| resume_unwind(payload));
    Err(inconsistent::<S>("update", "do not show the same leaves"))
}

/// Puts leaves in the place of those of a state.
fn attach<S: Tree>(state: &mut S, mut leaves: impl Iterator<Item = Tensor>) {
    state.visit_mut(&Branch::root(), &mut |_, leaf| {
        if let Some(next) = leaves.next() {
            *leaf = next;
        }
    });
}

impl InPlace {
    /// Lists the inputs of a launch. Arguments that are overwritten become the only holders of their elements; each argument
    /// is one input at most.
    fn inputs<'a>(
        &self,
        sources: &'a [Source],
        arguments: &mut [Option<&'a mut Tensor>],
        inputs: &mut Vec<Input<'a>>,
    ) -> Result<(), Error> {
        let mut input = |(source, overwritten): (&'a Source, &bool)| match source {
            Source::Captured(array, start) => Ok(Input::Read(array, *start)),
            Source::Argument(number) => {
                let argument = arguments[*number].take().ok_or_else(unknown)?;
                match overwritten {
                    true => argument.value_mut().map(Input::Overwrite).ok_or_else(unknown),
                    false => argument.0.value().map(|array| Input::Read(array, 0)).ok_or_else(unknown),
                }
            }
        };
        for source in sources.iter().zip(&self.overwritten) {
            inputs.push(input(source)?);
        }
        Ok(())
    }
}

impl<S: Tree, R> Plan<(S, R)> {
    /// How many of the leaves of the results belong to the next state.
    fn state_leaves(&self) -> usize {
        let mut count = 0;
        self.results.0.visit(&Branch::root(), &mut |_, _| count += 1);
        count
    }

    /// The input of the program that an argument is, if the program reads it.
    fn input_of(&self, argument: usize) -> Option<usize> {
        self.inputs.iter().position(|source| matches!(source, Source::Argument(own) if *own == argument))
    }

    /// The program that writes its first results over the leaves of a state, the first arguments, where it can.
    fn in_place(&self, state: &S) -> Result<InPlace, Error> {
        let paths = |tree: &S| tree.leaves().into_iter().map(|(path, _)| path).collect::<Vec<_>>();
        let own = paths(state);
        let (count, same_structure) = (own.len(), own == paths(&self.results.0));
        let pair = |(argument, leaf): (usize, &Result<usize, Array>)| {
            leaf.as_ref().ok().and_then(|result| Some((*result, self.input_of(argument)?)))
        };
        let aliases: Vec<_> = self.leaves.iter().take(count).enumerate().filter_map(pair).collect();
        let (program, donors) = in_place(self.executable.program(), &aliases);
        let overwritten = (0..self.inputs.len()).map(|input| donors.contains(&Some(input))).collect();
        let argument = |input: usize| match self.inputs[input] {
            Source::Argument(argument) => Some(argument),
            Source::Captured(..) => None,
        };
        let homes = donors.iter().map(|donor| donor.and_then(argument)).collect();
        Ok(InPlace { executable: runtime::prepare(program)?, donors, homes, overwritten, same_structure })
    }
}
