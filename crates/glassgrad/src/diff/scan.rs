//! Loops whose body is in the graph once.
//!
//! A scan carries a tree through a function, once for each entry along the leading axis of another tree,
//! and stacks what the function returns beside. The body is traced once with placeholders; tensors from
//! outside that it uses become inputs of the scan. Its derivative in either mode, and its batched form,
//! are scans again: the forward one carries tangents along, the reverse one runs backwards over the carries
//! that the loop went through.

use std::collections::HashSet;
use std::panic::Location;
use std::sync::Arc;

use super::batch::batched;
use super::forward::pushforward;
use super::residuals::{Steps, SummedLater};
use super::reverse::{Parts, Seed, swept};
use crate::error::Error;
use crate::expr::{MultiOp, Scan, Subgraph, Sweep, Tensor};
use crate::shape::Shape;
use crate::tree::{Definition, Tree, checked_map};

/// Runs a function along the leading axis of `sequence`, carrying a state: from a state and one entry to the
/// next state and a result. Returns the last state and the stacked results.
///
/// ```
/// use glassgrad::{Tensor, grad, scan};
/// // Running sums: the state is the sum so far.
/// let sums = |x: &Tensor| scan(|sum: &Tensor, x: &Tensor| (sum + x, sum + x), &Tensor::from(0.0), x);
/// let x = Tensor::from([1.0, 2.0, 3.0]);
/// let (last, all) = sums(&x);
/// assert_eq!((last.to_string(), all.to_string()), ("6".into(), "[1, 3, 6]".into()));
/// assert_eq!(grad(|x: &Tensor| sums(x).1.sum())(&x).to_string(), "[3, 2, 1]");
/// ```
#[track_caller]
pub fn scan<C: Tree, X: Tree, Y: Tree>(function: impl FnOnce(&C, &X) -> (C, Y), start: &C, sequence: &X) -> (C, Y) {
    let (starts, sequences) = (start.flatten(), sequence.flatten());
    let origin = Location::caller();
    let (mut carry, mut entry) = (carry_of(origin), entry_of(origin));
    let (carries, entries) = match (checked_map("scan", start, &mut carry), checked_map("scan", sequence, &mut entry)) {
        (Ok((carries, _)), Ok((entries, _))) => (carries, entries),
        (Err(error), _) | (_, Err(error)) => {
            (start.map(|_| error_tensor(&error)), sequence.map(|_| error_tensor(&error)))
        }
    };
    let (carried, results) = function(&carries, &entries);
    let body = [[carries.flatten(), entries.flatten()], [carried.flatten(), results.flatten()]];
    let same_structure = Definition::of(start).finish() == Definition::of(&carried).finish();
    match looped(&starts, &sequences, body, same_structure) {
        Ok((last, stacked)) => (start.with_leaves(last), results.with_leaves(stacked)),
        Err(error) => (start.map(|_| error_tensor(&error)), results.map(|_| error_tensor(&error))),
    }
}

/// The placeholder of a carry.
fn carry_of(origin: &'static Location<'static>) -> impl FnMut(&Tensor) -> Tensor {
    move |leaf| Tensor::placeholder_at(leaf.shape().clone(), leaf.dtype(), origin)
}

/// The placeholder of one entry of a sequence.
fn entry_of(origin: &'static Location<'static>) -> impl FnMut(&Tensor) -> Tensor {
    move |leaf| {
        let shape = leaf.shape().get(1..).unwrap_or_default();
        Tensor::placeholder_at(Shape::from(shape), leaf.dtype(), origin)
    }
}

/// The outputs of a loop over a traced body: its carries and entries, and the next carries and results.
#[track_caller]
fn looped(
    starts: &[Tensor],
    sequences: &[Tensor],
    [[carries, entries], [carried, results]]: [[Vec<Tensor>; 2]; 2],
    same_structure: bool,
) -> Result<(Vec<Tensor>, Vec<Tensor>), Error> {
    let origin = Location::caller();
    let mut tensors = carries.iter().chain(&entries).chain(starts).chain(sequences).chain(&carried).chain(&results);
    if let Some(error) = tensors.find_map(Tensor::error) {
        return Err(error.clone());
    }
    if !same_structure || starts.len() != carried.len() {
        let error = Error::new("scan", "the state must keep its structure from one entry to the next")
            .help("return the state with the same parts, variants, keys and static values");
        return Err(error.at(origin));
    }
    let length = sequences.first().and_then(|leaf| leaf.shape().first().copied()).unwrap_or(0);
    if let Some(leaf) = sequences.iter().find(|leaf| leaf.shape().first() != Some(&length)) {
        let error = Error::new("scan", format!("every sequence must have {length} entries along its first axis"));
        return Err(error.with_operands(vec![leaf.describe()]).at(origin));
    }
    let changed = starts.iter().zip(&carried).find(|(a, b)| a.shape() != b.shape() || a.dtype() != b.dtype());
    if let Some((before, after)) = changed {
        let error = Error::new("scan", "the state must keep its shape and type from one entry to the next");
        return Err(error.with_operands(vec![before.describe(), after.describe()]).at(origin));
    }
    let body = Subgraph::new([carries, entries].concat(), [carried, results].concat());
    Ok(run(Scan { body, carries: starts.len(), length, reversed: false }, starts, sequences))
}

fn error_tensor(error: &Error) -> Tensor {
    <Tensor as super::Fallible>::failed(error)
}

/// The outputs of a loop: the last carries, and the stacked results.
#[track_caller]
fn run(scan: Scan, starts: &[Tensor], sequences: &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>) {
    run_as(MultiOp::Scan(Arc::new(scan)), starts, sequences)
}

/// The outputs of a loop or a sweep: what it carries, and what it stacks.
#[track_caller]
fn run_as(op: MultiOp, starts: &[Tensor], sequences: &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>) {
    let mut outputs = op.outputs(&[starts, sequences].concat(), Location::caller());
    let stacked = outputs.split_off(starts.len());
    (outputs, stacked)
}

/// The inputs of a loop, sorted: starts, sequences, captured tensors.
fn split<'i>(scan: &Scan, inputs: &'i [Tensor]) -> (&'i [Tensor], &'i [Tensor], &'i [Tensor]) {
    let (starts, rest) = inputs.split_at(scan.carries);
    let (sequences, captured) = rest.split_at(scan.entries().len());
    (starts, sequences, captured)
}

/// The tensors without repetitions, in their order.
fn once_each<'t>(tensors: impl Iterator<Item = &'t Tensor>) -> Vec<Tensor> {
    let mut seen = HashSet::new();
    tensors.filter(|tensor| seen.insert(tensor.0.id)).cloned().collect()
}

fn fresh(like: &Tensor) -> Tensor {
    Tensor::placeholder(like.shape().clone(), like.dtype())
}

/// The tangents of all outputs from those of the inputs, without leading axes.
pub(super) fn push(scan: &Scan, inputs: &[Tensor], moved: &[Option<Tensor>]) -> Vec<Tensor> {
    let tangent = |k: usize| moved[k].clone().unwrap_or_else(|| inputs[k].zeros_like());
    let Subgraph { parameters, outputs, .. } = &scan.body;
    let (carries, given) = (scan.carries, parameters.len());
    let tangents: Vec<Tensor> = parameters.iter().map(fresh).collect();
    let captured = (given..inputs.len()).filter_map(|k| moved[k].clone().map(|tangent| (&inputs[k], tangent)));
    let variables: Vec<(&Tensor, Tensor)> = (parameters.iter().zip(tangents.iter().cloned()))
        .chain(captured)
        .filter(|(variable, _)| variable.is_float())
        .collect();
    let pushed: Vec<Tensor> = pushforward(&outputs.iter().collect::<Vec<_>>(), &variables, &[])
        .into_iter()
        .zip(outputs)
        .map(|(found, output)| found.unwrap_or_else(|| output.zeros_like()))
        .collect();
    // States and their tangents, then entries and theirs; and the same of what a step makes.
    let both = |own: &[Tensor], moved: &[Tensor]| {
        [&own[..carries], &moved[..carries], &own[carries..], &moved[carries..]].concat()
    };
    let body = Subgraph::new(both(parameters, &tangents), both(outputs, &pushed));
    let given: Vec<Tensor> = both(&inputs[..given], &(0..given).map(tangent).collect::<Vec<_>>());
    let (starts, sequences) = given.split_at(2 * carries);
    let (last, stacked) = run(scan.with_body(body, 2 * carries), starts, sequences);
    [&last[carries..], &stacked[scan.results().len()..]].concat()
}

/// The cotangents of all inputs from those of the outputs, without leading axes: by a loop back over all states, or by
/// a sweep that keeps some of them.
pub(super) fn pull(
    scan: &Scan,
    inputs: &[Tensor],
    cotangents: &[Tensor],
    masked: bool,
    snapshots: Option<usize>,
) -> Vec<Option<Tensor>> {
    let (_, sequences, outer) = split(scan, inputs);
    let carry_cotangents: Vec<Tensor> = scan.carry_out().iter().map(fresh).collect();
    let entry_cotangents: Vec<Tensor> = scan.results().iter().map(fresh).collect();
    let moves = |tensor: &Tensor| tensor.is_float() && tensor.0.had_variable;
    let requested: Vec<usize> = (0..outer.len()).filter(|k| moves(&outer[*k])).collect();
    let requested_entries: Vec<usize> = (0..sequences.len()).filter(|k| moves(&sequences[*k])).collect();
    let seeds: Vec<Seed> = (scan.body.outputs.iter())
        .zip(carry_cotangents.iter().chain(&entry_cotangents))
        .filter(|(output, _)| output.is_float())
        .map(|(output, cotangent)| (output.clone(), cotangent.clone(), masked))
        .collect();
    let variables: Vec<&Tensor> = (scan.carry_in().iter())
        .chain(requested_entries.iter().map(|k| &scan.entries()[*k]))
        .chain(requested.iter().map(|k| &outer[*k]))
        .collect();
    let found = swept(&seeds, &variables, &[], false, snapshots);
    let pulled: Vec<Tensor> = variables
        .iter()
        .map(|variable| found.get(&variable.0.id).map_or_else(|| variable.zeros_like(), |(found, _)| found.clone()))
        .collect();
    let (carry_part, rest) = pulled.split_at(scan.carries);
    let (entry_part, constant_part) = rest.split_at(requested_entries.len());
    let back = Back { carry_part, entry_part, constant_part, carry_cotangents, entry_cotangents };
    let (first_cotangents, entries, constants) = match snapshots {
        None => back.over_all_states(scan, inputs, cotangents),
        Some(snapshots) => {
            let sums = requested.iter().map(|k| &outer[*k]).collect::<Vec<_>>();
            back.by_sweep(scan, inputs, cotangents, &sums, snapshots)
        }
    };
    let mut found: Vec<Option<Tensor>> = first_cotangents.into_iter().map(Some).collect();
    let place = |requested: &[usize], k: usize| requested.iter().position(|requested| *requested == k);
    found.extend((0..sequences.len()).map(|k| place(&requested_entries, k).map(|place| entries[place].clone())));
    found.extend((0..outer.len()).map(|k| place(&requested, k).map(|place| constants[place].clone())));
    found
}

/// One step back over a loop: what it computes, and what stands for the cotangents that it is given.
struct Back<'b> {
    carry_part: &'b [Tensor],
    entry_part: &'b [Tensor],
    constant_part: &'b [Tensor],
    carry_cotangents: Vec<Tensor>,
    entry_cotangents: Vec<Tensor>,
}

/// The cotangents of the first state, of the entries, and of tensors from outside.
type Pulled = (Vec<Tensor>, Vec<Tensor>, Vec<Tensor>);

impl Back<'_> {
    /// By a loop back over what the loop forwards has stacked.
    fn over_all_states(&self, scan: &Scan, inputs: &[Tensor], cotangents: &[Tensor]) -> Pulled {
        let (starts, sequences, _) = split(scan, inputs);
        let (last_cotangents, result_cotangents) = cotangents.split_at(scan.carries);
        let all = self.carry_part.iter().chain(self.entry_part).chain(self.constant_part).collect::<Vec<_>>();
        let seeds: Vec<&Tensor> = self.carry_cotangents.iter().chain(&self.entry_cotangents).collect();
        let steps = Steps::of(&scan.body, &seeds, &all);
        let within: Vec<&Tensor> = self.carry_part.iter().chain(self.entry_part).collect();
        let stacked_anyway: Vec<Tensor> = steps.read_by(&all);
        let later = steps.summed_later(self.constant_part, &stacked_anyway.iter().collect::<Vec<_>>());
        // What is summed step by step, in the loop.
        let in_loop = self.constant_part.iter().zip(&later).filter(|(_, later)| later.is_none());
        let terms: Vec<&Tensor> = in_loop.map(|(term, _)| term).collect();
        let sums: Vec<Tensor> = terms.iter().map(|term| fresh(term)).collect();
        // What is summed later: factors from the way forwards are stacked there, the others on the way back.
        let factors = || later.iter().flatten().flat_map(|later| &later.factors);
        let own = once_each(factors().filter(|factor| !steps.is_forwards(&factor.0)));
        let computed: Vec<&Tensor> = within.into_iter().chain(terms.iter().copied()).chain(&own).collect();
        let read = steps.read_by(&computed);
        let is_entry = |tensor: &Tensor| scan.entries().iter().position(|entry| entry.0.id == tensor.0.id);
        let forwards = factors().filter(|factor| steps.is_forwards(&factor.0));
        let kept = once_each(read.iter().chain(forwards).filter(|tensor| is_entry(tensor).is_none()));
        // Once more forwards, with the same results first: it is the loop itself, with more that is stacked.
        let forwards = Subgraph::new(scan.body.parameters.clone(), [&scan.body.outputs[..], &kept].concat());
        let history = run(scan.with_body(forwards, scan.carries), starts, sequences).1.split_off(scan.results().len());
        let stack_of = |tensor: &Tensor| match is_entry(tensor) {
            Some(entry) => sequences[entry].clone(),
            None => kept
                .iter()
                .position(|known| known.0.id == tensor.0.id)
                .map_or_else(|| tensor.clone(), |place| history[place].clone()),
        };
        let grown: Vec<Tensor> = sums.iter().zip(&terms).map(|(sum, term)| sum + *term).collect();
        let body = Subgraph::new(
            [&self.carry_cotangents[..], &sums, &read, &self.entry_cotangents].concat(),
            [self.carry_part, &grown, self.entry_part, &own].concat(),
        );
        let carries = scan.carries + sums.len();
        let backwards = Scan { reversed: !scan.reversed, ..scan.with_body(body, carries) };
        let starts: Vec<Tensor> = last_cotangents.iter().cloned().chain(sums.iter().map(Tensor::zeros_like)).collect();
        let sequences: Vec<Tensor> = read.iter().map(stack_of).chain(result_cotangents.iter().cloned()).collect();
        let (mut last, mut stacked) = run(backwards, &starts, &sequences);
        let own_stacks = stacked.split_off(self.entry_part.len());
        let mut summed = last.split_off(self.carry_part.len()).into_iter();
        let stacks = |factor: &Tensor| match own.iter().position(|known| known.0.id == factor.0.id) {
            Some(place) => own_stacks[place].clone(),
            None => stack_of(factor),
        };
        let constants = later.iter().zip(self.constant_part).map(|(later, part)| match later {
            Some(SummedLater { product, factors }) => {
                let factors: Vec<Tensor> = factors.iter().map(stacks).collect();
                // The steps are summed in the product itself.
                let mut product = product.batched(scan.length, &vec![true; factors.len()]);
                product.output.remove(0);
                Tensor::contract(product, &factors.iter().collect::<Vec<_>>())
            }
            None => summed.next().unwrap_or_else(|| part.zeros_like()),
        });
        let constants = constants.collect();
        (last, stacked, constants)
    }

    /// By a sweep that keeps this many states, and recomputes the others. `like` are the tensors from outside.
    fn by_sweep(
        &self,
        scan: &Scan,
        inputs: &[Tensor],
        cotangents: &[Tensor],
        like: &[&Tensor],
        snapshots: usize,
    ) -> Pulled {
        let (starts, sequences, _) = split(scan, inputs);
        let (last_cotangents, result_cotangents) = cotangents.split_at(scan.carries);
        let sums: Vec<Tensor> = like.iter().map(|outer| fresh(outer)).collect();
        let grown: Vec<Tensor> = sums.iter().zip(self.constant_part).map(|(sum, part)| sum + part).collect();
        let body = Subgraph::new(
            [scan.carry_in(), &self.carry_cotangents, &sums, scan.entries(), &self.entry_cotangents].concat(),
            [scan.carry_out(), self.carry_part, &grown, self.entry_part].concat(),
        );
        let sweep = Sweep {
            scan: Scan { reversed: false, ..scan.with_body(body, 2 * scan.carries + sums.len()) },
            states: scan.carries,
            sequences: scan.entries().len(),
            snapshots: snapshots.min(scan.length.saturating_sub(1)),
        };
        let zeros = like.iter().map(|outer| outer.zeros_like());
        let starts: Vec<Tensor> = starts.iter().chain(last_cotangents).cloned().chain(zeros).collect();
        // A sweep goes back over a loop that goes forwards.
        let turned = |tensor: &Tensor| if scan.reversed { tensor.flip([0]) } else { tensor.clone() };
        let sequences: Vec<Tensor> = sequences.iter().chain(result_cotangents).map(turned).collect();
        let (last, stacked) = run_as(MultiOp::Sweep(Arc::new(sweep)), &starts, &sequences);
        let stacked: Vec<Tensor> = stacked.iter().map(turned).collect();
        let (first, sums) = last[scan.carries..].split_at(scan.carries);
        (first.to_vec(), stacked, sums.to_vec())
    }
}

/// A sweep as a loop back over all states: the cotangents of the first state with the sums, and those of the entries.
fn unwound(sweep: &Sweep, history: &[Tensor], starts: &[Tensor], sequences: &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>) {
    let (own, seeds) = sequences.split_at(sweep.sequences);
    let sequences: Vec<Tensor> = own.iter().chain(history).chain(seeds).cloned().collect();
    run(sweep.backwards(), &starts[sweep.states..], &sequences)
}

/// The outputs of a sweep as those of the reverse loop that it stands for. The first of them, the states, are unused.
fn unwound_parts(sweep: &Sweep, inputs: &[Tensor]) -> Vec<Option<Tensor>> {
    let (starts, sequences, _) = split(&sweep.scan, inputs);
    let (_, history) = run(sweep.history(), &starts[..sweep.states], &sequences[..sweep.sequences]);
    let (last, stacked) = unwound(sweep, &history, starts, sequences);
    std::iter::repeat_n(None, sweep.states).chain(last.into_iter().chain(stacked).map(Some)).collect()
}

/// The cotangents of a sweep's inputs, through the loop that it stands for: a derivative of a derivative keeps states.
pub(super) fn pull_sweep(
    sweep: &Sweep,
    inputs: &[Tensor],
    requested: &[bool],
    parts: &Parts,
    lead: &[usize],
) -> Vec<Option<(Tensor, bool)>> {
    let outputs = unwound_parts(sweep, inputs);
    let mut numbers: Vec<usize> = parts.keys().copied().collect();
    numbers.sort_unstable();
    let seed = |number: &usize| {
        let (cotangent, masked) = &parts[number];
        outputs[*number].clone().map(|output| (output, cotangent.clone(), *masked))
    };
    let seeds: Vec<Seed> = numbers.iter().filter_map(seed).collect();
    let variables: Vec<&Tensor> =
        inputs.iter().zip(requested).filter(|(_, requested)| **requested).map(|(k, _)| k).collect();
    let found = swept(&seeds, &variables, lead, false, None);
    inputs.iter().map(|input| found.get(&input.0.id).cloned()).collect()
}

/// The tangents of a sweep's parts, likewise.
pub(super) fn push_sweep(
    sweep: &Sweep,
    inputs: &[Tensor],
    moved: &[Option<Tensor>],
    lead: &[usize],
) -> Vec<Option<Tensor>> {
    let outputs = unwound_parts(sweep, inputs);
    let variables: Vec<(&Tensor, Tensor)> =
        inputs.iter().zip(moved).filter_map(|(input, moved)| Some((input, moved.clone()?))).collect();
    let present: Vec<&Tensor> = outputs.iter().flatten().collect();
    let mut pushed = pushforward(&present, &variables, lead).into_iter();
    outputs.iter().map(|output| output.as_ref().and_then(|_| pushed.next().flatten())).collect()
}

/// All outputs with a leading axis, when some inputs of a loop or a sweep have one.
pub(super) fn batch(
    scan: &Scan,
    as_operation: impl FnOnce(Scan) -> MultiOp,
    originals: &[Tensor],
    inputs: &[Tensor],
    with_axis: &[bool],
    size: usize,
) -> Vec<Tensor> {
    let Subgraph { parameters, outputs, .. } = &scan.body;
    let widened = |like: &Tensor| Tensor::placeholder(Shape::from(size).followed_by(like.shape()), like.dtype());
    let wide: Vec<Tensor> = parameters.iter().map(widened).collect();
    let captured = (parameters.len()..inputs.len()).filter(|k| with_axis[*k]);
    let replaced: Vec<(&Tensor, Tensor)> = (parameters.iter().zip(wide.iter().cloned()))
        .chain(captured.map(|k| (&originals[k], inputs[k].clone())))
        .collect();
    let outputs = batched(&outputs.iter().collect::<Vec<_>>(), &replaced, size);
    let spread = |k: usize| {
        let input = &inputs[k];
        if with_axis[k] { input.clone() } else { input.broadcast_to(Shape::from(size).followed_by(input.shape())) }
    };
    let starts: Vec<Tensor> = (0..scan.carries).map(spread).collect();
    // The examples stand in front of the entries; inside the loop the entries come first.
    let sequences: Vec<Tensor> =
        (scan.carries..parameters.len()).map(|k| super::batch::move_axis(&spread(k), 1, 0)).collect();
    let wide = scan.with_body(Subgraph::new(wide, outputs), scan.carries);
    let (last, stacked) = run_as(as_operation(wide), &starts, &sequences);
    last.into_iter().chain(stacked.iter().map(|tensor| super::batch::move_axis(tensor, 1, 0))).collect()
}
