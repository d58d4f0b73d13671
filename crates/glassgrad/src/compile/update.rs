//! Functions from a state to the next state, which is written over the old one.

use std::any::type_name;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::plan::{Plan, ResultLeaves, Source, Spare, output, publish, unknown};
use super::{Compiled, Lists, Prepared, TakenLists, is_alike, make_known, pushed, recycled};
use crate::array::Array;
use crate::diff::Outcome;
use crate::error::Error;
use crate::exec::{Executable, Input, Output};
use crate::expr::Tensor;
use crate::opt::in_place;
use crate::runtime;
use crate::tree::{Branch, Definition, Path, Tree, inconsistent};

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
    /// How many of the leaves of the results belong to the next state.
    state_leaves: usize,
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
        let mut lists = TakenLists::new();
        state.visit(&Branch::root(), &mut pushed(&mut lists.arguments));
        let count = lists.arguments.len();
        data.visit(&Branch::root(), &mut pushed(&mut lists.arguments));
        let whole = |state: &S| (state.map(Tensor::clone), data.map(Tensor::clone));
        let mut prepared = None;
        if !lists.arguments.iter().any(Tensor::is_tracked) {
            make_known(&lists.arguments)?;
            // As of the pair: its definition is that of its parts one after the other.
            let mut definition = Definition::of(state);
            data.define(&mut definition);
            let arguments = &lists.arguments;
            prepared = Some(self.prepared(definition, arguments, || self.build(&whole(state), arguments))?);
        }
        let Some(Prepared::Planned(plan, structure)) = prepared.as_deref() else {
            let (next, rest) = self.inline(&whole(state))?;
            *state = next;
            return Ok(rest);
        };
        let over = match plan.in_place.get() {
            Some(over) => over,
            None => {
                let planned = plan.in_place(&state.leaves(), &structure.0.leaves())?;
                plan.in_place.get_or_init(|| planned)
            }
        };
        let mut walk = |visitor: Visitor<'_>| state.visit_mut(&Branch::root(), visitor);
        let mut spare =
            plan.overwrite(over, &mut lists, count, Walk { tree: type_name::<S>(), visit_mut: &mut walk }, origin)?;
        if !over.same_structure {
            *state = plan.updated_leaves(over, &lists, &spare, origin, 0..over.state_leaves).tree(&structure.0)?;
        }
        let others = over.state_leaves..plan.leaves.len();
        let rest = plan.updated_leaves(over, &lists, &spare, origin, others).tree(&structure.1)?;
        plan.keep_unused(over, &mut lists.arguments[..count], &mut spare);
        plan.give_spare(spare);
        Ok(rest)
    }
}

/// A visitor of the leaves of a tree, to be replaced where they stand.
type Visitor<'v> = &'v mut dyn FnMut(&Branch<'_>, &mut Tensor);

/// A state whose type is erased: its name, and its walk over the leaves.
struct Walk<'s> {
    tree: &'static str,
    visit_mut: &'s mut dyn FnMut(Visitor<'_>),
}

impl Walk<'_> {
    /// Takes the leaves out of the state: they must be these, in this order. Otherwise, and if walking over the state panics, the
    /// state stays as it was.
    fn detach(&mut self, leaves: &[Tensor], nothing: &Tensor) -> Result<(), Error> {
        let (mut visited, mut wrong) = (0, false);
        let walk = catch_unwind(AssertUnwindSafe(|| {
            (self.visit_mut)(&mut |_, leaf| {
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
            (self.visit_mut)(&mut |_, leaf| {
                if leaf.0.id == nothing.0.id
                    && let Some(before) = taken.next()
                {
                    *leaf = before.clone();
                }
            });
        }));
        walk.and(restored).unwrap_or_else(|payload| resume_unwind(payload));
        Err(inconsistent(self.tree, "update", "do not show the same leaves"))
    }

    /// Puts leaves in the place of those of the state.
    fn attach(&mut self, next: &mut dyn FnMut() -> Option<Tensor>) {
        (self.visit_mut)(&mut |_, leaf| {
            if let Some(next) = next() {
                *leaf = next;
            }
        });
    }
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

impl Plan {
    /// Runs the program that writes over the state, the first `count` arguments, and puts the next state in its place if it has the same
    /// structure. If that fails the state stays as it was.
    fn overwrite(
        &self,
        over: &InPlace,
        lists: &mut Lists,
        count: usize,
        mut state: Walk<'_>,
        origin: &'static Location<'static>,
    ) -> Result<Spare, Error> {
        // Overwritten buffers must be uniquely owned by the arguments: the state releases its leaves meanwhile.
        state.detach(&lists.arguments[..count], &self.nothing)?;
        let mut spare = self.take_spare();
        // Steps that can fail, operations of the user's own among them, precede those that overwrite the state.
        let done = catch_unwind(AssertUnwindSafe(|| self.launch_over(over, lists, &mut spare, origin)));
        if !matches!(done, Ok(Ok(()))) {
            let mut before = lists.arguments[..count].iter().cloned();
            state.attach(&mut || before.next());
        }
        done.unwrap_or_else(|payload| resume_unwind(payload))?;
        publish(&mut lists.results, &mut spare, origin);
        if over.same_structure {
            let mut next = self.updated_leaves(over, lists, &spare, origin, 0..over.state_leaves);
            state.attach(&mut || next.next());
        }
        Ok(spare)
    }

    fn launch_over(
        &self,
        over: &InPlace,
        lists: &mut Lists,
        spare: &mut Spare,
        origin: &'static Location<'static>,
    ) -> Result<(), Error> {
        let Lists { arguments, results, inputs: unused, outputs: unused_outputs, overwritten } = lists;
        let mut inputs: Vec<Input<'_>> = recycled(std::mem::take(unused));
        let mut given: Vec<Option<&mut Tensor>> = recycled(std::mem::take(overwritten));
        given.extend(arguments.iter_mut().map(Some));
        over.inputs(&self.inputs, &mut given, &mut inputs)?;
        let target = |(spare, donor)| match donor {
            &Some(input) => Output::AliasInput(input),
            None => output(spare, origin),
        };
        let mut outputs: Vec<Output<'_>> = recycled(std::mem::take(unused_outputs));
        outputs.extend(spare.iter_mut().zip(&over.donors).map(target));
        let done = over.executable.launch(&mut inputs, &mut outputs, results, &self.origins);
        (*unused, *unused_outputs) = (recycled(inputs), recycled(outputs));
        *overwritten = recycled(given);
        done
    }

    /// Leaves of the results after a launch that wrote over arguments.
    fn updated_leaves<'a>(
        &'a self,
        over: &'a InPlace,
        lists: &'a Lists,
        computed: &'a Spare,
        origin: &'static Location<'static>,
        range: Range<usize>,
    ) -> ResultLeaves<'a> {
        let (overwritten, arguments) = (&over.homes[..], &lists.arguments[..]);
        ResultLeaves { plan: self, computed, overwritten, arguments, origin, next: range.start, end: range.end }
    }

    /// Keeps arguments that were read and could not be overwritten, for the next call.
    fn keep_unused(&self, over: &InPlace, arguments: &mut [Tensor], spare: &mut Spare) {
        for (argument, leaf) in arguments.iter_mut().zip(&self.leaves) {
            if let Ok(result) = leaf
                && over.homes[*result].is_none()
                && spare[*result].as_ref().is_some_and(|new| is_alike(new, argument))
            {
                spare[*result] = Some(std::mem::replace(argument, self.nothing.clone()));
            }
        }
    }

    /// The input of the program that an argument is, if the program reads it.
    fn input_of(&self, argument: usize) -> Option<usize> {
        self.inputs.iter().position(|source| matches!(source, Source::Argument(own) if *own == argument))
    }

    /// The program that writes its first results over the leaves of a state, the first arguments, where it can.
    fn in_place(&self, state: &[(Path, Tensor)], next: &[(Path, Tensor)]) -> Result<InPlace, Error> {
        let same_structure = state.iter().map(|(path, _)| path).eq(next.iter().map(|(path, _)| path));
        let pair = |(argument, leaf): (usize, &Result<usize, Array>)| {
            leaf.as_ref().ok().and_then(|result| Some((*result, self.input_of(argument)?)))
        };
        let aliases: Vec<_> = self.leaves.iter().take(state.len()).enumerate().filter_map(pair).collect();
        let (program, donors) = in_place(self.executable.program(), &aliases);
        let overwritten = (0..self.inputs.len()).map(|input| donors.contains(&Some(input))).collect();
        let argument = |input: usize| match self.inputs[input] {
            Source::Argument(argument) => Some(argument),
            Source::Captured(..) => None,
        };
        let homes = donors.iter().map(|donor| donor.and_then(argument)).collect();
        let (executable, state_leaves) = (runtime::prepare(program)?, next.len());
        Ok(InPlace { executable, donors, homes, overwritten, same_structure, state_leaves })
    }
}
