//! Data-parallel steps: the program of a shard, whose gradients are summed over all shards, and the update, once on every rank.

use std::sync::Arc;

use super::backward::{Backward, with_untrained};
use super::precision::{LossScale, Precision};
use super::session::{Loss, TrainState, unless_scaled_down, updated};
use crate::array::{Array, Buffer};
use crate::collective::Shards;
use crate::compile::compile;
use crate::error::Error;
use crate::exec::Isa;
use crate::expr::{Keys, Tensor};
use crate::hashing::Fingerprint;
use crate::optim::{Optimizer, Partition, Slots, State};
use crate::runtime::Context;
use crate::tree::Tree;

/// Gradients are summed in buckets of about this many bytes unless [`Training::bucket`](super::Training::bucket) says otherwise: smaller
/// ones cost a message each, and larger ones are complete later.
pub(super) const BUCKET: usize = 1 << 20;

/// What a step sees of a batch, or of one shard of it.
pub(super) struct Seen<B> {
    /// The examples, and what their loss draws with.
    pub(super) data: (B, Keys),
    /// The share of the batch, which its mean loss is weighted with.
    pub(super) share: f64,
}

/// What the steps of shards differ from those of whole batches in.
pub(super) struct ShardedStep<'s> {
    pub(super) shards: Arc<Shards>,
    pub(super) optimizer: &'s Optimizer,
    pub(super) parts: usize,
    /// The bytes of a bucket of the gradient.
    pub(super) bucket: usize,
    pub(super) budget: Option<usize>,
    pub(super) precision: Precision,
    /// The part of the trained leaves of which the state of the optimizer is here, if not of all.
    pub(super) part: Option<Partition>,
}

/// The arguments of the program of a shard: the parameters, the factor of loss scaling, and what it sees, with its share.
type ShardArguments<X, B> = (X, Option<Tensor>, (B, Keys, Tensor));

impl<'s> ShardedStep<'s> {
    /// A step: updates the training state in place, and returns the loss before it. The loss of the batch is the mean over its
    /// examples: each shard contributes the mean over its own, weighted with its share.
    pub(super) fn compiled<X, B>(
        self,
        loss: std::rc::Rc<Loss<'s, X, B>>,
    ) -> impl Fn(&mut TrainState<X>, &[Seen<B>]) -> Result<Tensor, Error> + 's
    where
        X: Tree + Clone + 's,
        B: Tree + 's,
    {
        let ShardedStep { shards, optimizer, parts, bucket, budget, precision, part } = self;
        let gradient = compile(move |(parameters, scale, (batch, key, share)): &ShardArguments<X, B>| {
            let weighted = |parameters: &X, batch: &B, key: &Keys| {
                let (value, next) = loss(parameters, batch, key, precision);
                (&value * share.cast(value.dtype()), next)
            };
            let backward = Backward { optimizer, parts, budget, scale: scale.as_ref() };
            let (value, gradient, untrained) = backward.run(weighted, parameters, batch, key);
            let shared = untrained.map(|leaves| leaves.iter().map(|leaf| leaf.broadcast_from(0)).collect::<Vec<_>>());
            (value.all_reduce(), summed(optimizer, &gradient, bucket), shared)
        });
        type Reduced<X> = (Tensor, X, Option<Vec<Tensor>>);
        let update =
            compile(move |((parameters, state, scale), (value, gradient, untrained)): &(TrainState<X>, Reduced<X>)| {
                (updated(optimizer, (parameters, state, scale), gradient, value, untrained.as_deref()), value.clone())
            });
        // With a part of the state the parameters are no part of what is overwritten: their next parts come from all ranks.
        type PartState<X> = (State<X>, Option<LossScale>);
        let update_part = compile(move |((state, scale), (parameters, reduced)): &(PartState<X>, (X, Reduced<X>))| {
            let Some(part) = part else { unreachable!("the state of a part is updated where there is one") };
            let (value, gradient, _) = reduced;
            let (next, next_state) = optimizer.update_part(part, parameters, gradient, Some(value), state);
            let before = optimizer.part_of(parameters, part);
            let (next, state, scale) = unless_scaled_down(gradient, (next, next_state), (&before, state), scale);
            ((state, scale), (next, value.clone()))
        });
        move |state: &mut TrainState<X>, seen: &[Seen<B>]| {
            let scale = state.2.as_ref().map(|scale| scale.factor.clone());
            let arguments: Vec<ShardArguments<X, B>> = seen
                .iter()
                .map(|Seen { data: (batch, key), share }| {
                    let own = (batch.map(Tensor::clone), key.clone(), Tensor::from(*share));
                    (state.0.clone(), scale.clone(), own)
                })
                .collect();
            // All shards have the same sums.
            let first = gradient.call_shards(&shards, &arguments)?.into_iter().next();
            let Some(reduced) = first else { unreachable!("a rank has at least one shard") };
            drop(arguments);
            if part.is_none() {
                return update.update(state, &reduced);
            }
            let (parameters, slots, scale) = state;
            let data = (parameters.clone(), reduced);
            // The state is moved, so that its memory has one owner and is overwritten.
            let nothing = State { count: slots.count.clone(), factor: slots.factor.clone(), slots: Vec::new() };
            let mut own = (std::mem::replace(slots, nothing), scale.take());
            let updated = update_part.update(&mut own, &data);
            (*slots, *scale) = own;
            let (next, value) = updated?;
            let (_, (_, _, untrained)) = &data;
            let next = gathered(&shards, optimizer, parameters, &next)?;
            *parameters = match untrained {
                Some(leaves) => with_untrained(optimizer, &next, leaves),
                None => next,
            };
            Ok(value)
        }
    }
}

/// The gradient summed over all shards, in buckets. Cotangents of the last layers are known first, so that buckets are filled from the
/// end. Of leaves that are not trained the gradient is zero.
fn summed<X: Tree>(optimizer: &Optimizer, gradient: &X, most: usize) -> X {
    let leaves = gradient.leaves();
    let mut sums: Vec<Tensor> = leaves.iter().map(|(_, leaf)| leaf.zeros_like()).collect();
    let bytes = |place: usize| leaves[place].1.shape().elements() * leaves[place].1.dtype().bytes();
    let mut bucket: Vec<usize> = Vec::new();
    let mut flush = |bucket: &mut Vec<usize>| {
        let flat = bucket.iter().map(|place| leaves[*place].1.flatten());
        match bucket[..] {
            [] => {}
            [place] => sums[place] = leaves[place].1.all_reduce(),
            _ => {
                let whole = Tensor::concatenate(flat.collect::<Vec<_>>(), 0).all_reduce();
                let mut start = 0;
                for place in bucket.iter().copied() {
                    let shape = leaves[place].1.shape();
                    sums[place] = whole.part_of_axis(0, start, shape.elements()).reshape(shape);
                    start += shape.elements();
                }
            }
        }
        bucket.clear();
    };
    for place in (0..leaves.len()).rev().filter(|place| optimizer.is_trained(&leaves[*place].0, &leaves[*place].1)) {
        let is_other = bucket.last().is_some_and(|last| leaves[*last].1.dtype() != leaves[place].1.dtype());
        if is_other || bytes(place) >= most {
            flush(&mut bucket);
        }
        bucket.push(place);
        if bucket.iter().map(|place| bytes(*place)).sum::<usize>() >= most {
            flush(&mut bucket);
        }
    }
    flush(&mut bucket);
    let mut sums = sums.into_iter();
    gradient.map(|leaf| sums.next().unwrap_or_else(|| leaf.clone()))
}

/// A tree with the whole trained leaves, of which each rank has a part; `like` has their shapes.
fn gathered<X: Tree>(shards: &Shards, optimizer: &Optimizer, like: &X, parts: &X) -> Result<X, Error> {
    let (places, like, mut all) = (optimizer.trained_places(like), like.flatten(), parts.flatten());
    let (whole, own): (Vec<&Tensor>, Vec<&Tensor>) = places.iter().map(|place| (&like[*place], &all[*place])).unzip();
    let found = gathered_leaves(shards, &whole, &own)?;
    places.iter().zip(found).for_each(|(place, leaf)| all[*place] = leaf);
    Ok(parts.with_leaves(all))
}

/// Leaves of the shapes and types of others, from the parts of all ranks.
fn gathered_leaves(shards: &Shards, like: &[&Tensor], parts: &[&Tensor]) -> Result<Vec<Tensor>, Error> {
    let values = Tensor::eval_all(parts)?;
    let mut own = Vec::new();
    for value in &values {
        own.extend(value.download().map_err(|reason| Error::new("read", reason))?.to_bytes());
    }
    let bytes = |leaf: &Tensor, part: usize| {
        let part = Partition { part, parts: shards.ranks() };
        part.range(leaf.shape().elements()).len() * leaf.dtype().bytes()
    };
    let lists = shards.all_gather_lists(&own)?;
    let mut rests: Vec<&[u8]> = lists.iter().map(Vec::as_slice).collect();
    let mut leaves = Vec::with_capacity(like.len());
    for leaf in like {
        let mut whole = Vec::with_capacity(leaf.shape().elements() * leaf.dtype().bytes());
        for (rank, rest) in rests.iter_mut().enumerate() {
            let Some(part) = rest.split_off(..bytes(leaf, rank)) else {
                return Err(Error::new("train", format!("rank {rank} has sent too few parameters")));
            };
            whole.extend(part);
        }
        leaves.push(Tensor::leaf(Array::new(leaf.shape().clone(), Buffer::from_bytes(leaf.dtype(), &whole))));
    }
    Ok(leaves)
}

/// The whole state of the optimizer, from the parts of all ranks.
pub(super) fn whole_state<X: Tree>(
    shards: &Shards,
    optimizer: &Optimizer,
    parameters: &X,
    state: &State<X>,
) -> Result<State<X>, Error> {
    // Trees of slots have the shapes of the parameters.
    let tree = |parts: &X| gathered(shards, optimizer, parameters, parts);
    let slots = |slots: &Slots<X>| -> Result<Slots<X>, Error> {
        let leaves = slots.leaves.iter().map(tree).collect::<Result<Vec<X>, Error>>()?;
        Ok(Slots { leaves, scalars: slots.scalars.clone() })
    };
    let slots = state.slots.iter().map(slots).collect::<Result<Vec<_>, Error>>()?;
    Ok(State { count: state.count.clone(), factor: state.factor.clone(), slots })
}

/// The part of a whole state.
pub(super) fn part_of_state<X: Tree>(
    optimizer: &Optimizer,
    state: &State<X>,
    part: Partition,
) -> Result<State<X>, Error> {
    let slots = state.slots.iter().map(|slots| Slots {
        leaves: slots.leaves.iter().map(|tree| optimizer.part_of(tree, part)).collect(),
        scalars: slots.scalars.clone(),
    });
    State { count: state.count.clone(), factor: state.factor.clone(), slots: slots.collect() }.realise()
}

/// What all ranks must have in common besides the notes of a run: the version, the device and its instruction set, the numbers of the
/// run, and the parameters.
pub(super) fn facts<X: Tree>(start: &X, numbers: &[(&'static str, u64)]) -> Result<Vec<(&'static str, String)>, Error> {
    let mut hash = Fingerprint::default();
    for (path, leaf) in start.leaves() {
        hash.text(&path.to_string());
        hash.words(leaf.shape());
        let bytes = leaf.eval()?.download().map_err(|reason| Error::new("read", reason))?.to_bytes();
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| hash.word(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| hash.word(u64::from(*byte)));
    }
    let isa = Isa::here().last().map_or_else(String::new, |isa| format!(", {isa:?}"));
    let device = format!("{:?}{isa}", Context::current().target());
    let mut facts = vec![("version", env!("CARGO_PKG_VERSION").to_owned()), ("device", device)];
    facts.extend(numbers.iter().map(|(name, number)| (*name, number.to_string())));
    facts.push(("initial parameters", format!("{:032x}", hash.finish())));
    Ok(facts)
}
