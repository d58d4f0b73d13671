//! Epilogues: a loop that alone reads a large contraction runs on each tile of it, while the tile is in a cache.
//!
//! The gradient of a weight matrix is a product that only the optimizer update reads. Fused, it is never materialised.

use std::collections::BTreeSet;

use super::groups::{Group, LoopGroup, PendingContraction, PendingStore};
use super::strides::is_rows;
use super::{Located, Lowering, Producer};
use crate::opt::EpilogueLimits;
use crate::opt::program::{ContractionAxis, Memory};

/// The most elements of a loop, such as learning rates and step counts, that may be computed before a contraction so that its
/// epilogue can read them.
const SHORT: usize = 1024;

/// A loop that can go on with a product, and the groups that must come before both for that.
struct Follower {
    group: usize,
    before: BTreeSet<usize>,
}

impl Lowering<'_> {
    /// Fuses loops that alone read a large contraction into it.
    pub(super) fn fuse_epilogues(&mut self) {
        let mut followers = self.followers();
        if followers.iter().all(Option::is_none) {
            return;
        }
        let mut groups: Vec<Option<Group>> = self.groups.drain(..).map(Some).collect();
        let mut numbers = vec![None; groups.len()];
        for number in 0..groups.len() {
            let follower = followers[number].take();
            for number in follower.iter().flat_map(|follower| &follower.before).copied().chain([number]) {
                if let Some(group) = groups[number].take() {
                    numbers[number] = Some(self.groups.len());
                    self.groups.push(group);
                }
            }
            if let Some(Follower { group, .. }) = follower
                && let (Some(Group::Loop(epilogue)), Some(Group::Contract(product))) =
                    (groups[group].take(), self.groups.last_mut())
            {
                let producer = &mut self.producers[product.producer];
                (producer.in_pieces, producer.needed) = (true, false);
                product.epilogue = Some(Box::new(epilogue));
                numbers[group] = numbers[number];
            }
        }
        self.renumber(&numbers);
    }

    /// For each group its follower, if it is a product that has one.
    fn followers(&self) -> Vec<Option<Follower>> {
        let mut followers: Vec<Option<Follower>> = self.groups.iter().map(|_| None).collect();
        let Some(limits) = self.target.epilogue else { return followers };
        let large = |group: &Group| matches!(group, Group::Contract(product) if self.is_cut(product, limits));
        if !self.groups.iter().any(large) {
            return followers;
        }
        let mut times_read = vec![0_u32; self.producers.len()];
        self.groups.iter().for_each(|group| group.reads(|at| times_read[at.producer] += 1));
        for (number, group) in self.groups.iter().enumerate() {
            let Group::Loop(epilogue) = group else { continue };
            let product_of = |at: &Located| {
                let producer = &self.producers[at.producer];
                let is_alone = producer.leaf.is_none() && producer.result.is_none() && times_read[at.producer] == 1;
                match self.groups.get(producer.group).filter(|_| is_alone)? {
                    Group::Contract(product) if self.is_cut(product, limits) => Some(producer.group),
                    _ => None,
                }
            };
            let is_whole = |at: &Located| at.offset == 0 && is_rows(&epilogue.extents, &at.strides);
            // The last of several: the others are there by then.
            let last = epilogue.loads.iter().filter(|(at, _)| is_whole(at)).filter_map(|(at, _)| product_of(at)).max();
            if let Some(product) = last.filter(|_| is_plain(epilogue))
                && let Some(before) = self.before(product, number, epilogue)
            {
                followers[product] = Some(Follower { group: number, before });
            }
        }
        followers
    }

    /// Whether a product is one large matrix of which pieces lie one behind another.
    fn is_cut(&self, product: &PendingContraction, limits: EpilogueLimits) -> bool {
        let PendingContraction {
            axes, clear: false, symmetric: false, accumulates: false, masked: [false, false], ..
        } = product
        else {
            return false;
        };
        let producer = &self.producers[product.producer];
        // Every piece copies a factor, of as many rows as are summed; that must not be more than what is saved.
        let lies = |inner: ContractionAxis, outer: ContractionAxis| {
            let is_dense = inner.strides[2] == 1 && usize::try_from(outer.strides[2]) == Ok(inner.extent);
            is_dense && (limits.deep || axes.inner.extent <= outer.extent)
        };
        producer.dtype.is_float()
            && axes.batch.is_empty()
            && axes.sums.is_empty()
            && (lies(axes.rows, axes.columns) || lies(axes.columns, axes.rows))
            && producer.elements.saturating_mul(producer.dtype.bytes()) >= limits.bytes
            && producer.elements.saturating_mul(axes.inner.extent) >= limits.multiplications
    }

    /// What must be computed before a product so that a loop can stand right behind it: rates and counts. Nothing if it cannot,
    /// because something in between is larger, reads what the loop may want to write over, or can fail.
    fn before(&self, product: usize, number: usize, epilogue: &LoopGroup) -> Option<BTreeSet<usize>> {
        let is_short = |group: usize| match &self.groups[group] {
            Group::Loop(own) => own.extents.iter().fold(1_usize, |all, extent| all.saturating_mul(*extent)) <= SHORT,
            _ => false,
        };
        let mut before = BTreeSet::new();
        let mut open = vec![number];
        while let Some(group) = open.pop() {
            let mut is_refused = false;
            self.groups[group].reads(|at| {
                let producer = &self.producers[at.producer];
                if producer.leaf.is_none() && producer.group > product && before.insert(producer.group) {
                    open.push(producer.group);
                    is_refused |= !is_short(producer.group);
                }
            });
            if is_refused {
                return None;
            }
        }
        // State is overwritten after its last read, and after every step that can fail.
        let is_state = |producer: usize| {
            let Producer { leaf, elements, .. } = &self.producers[producer];
            matches!(leaf, Some(Memory::Input(_))) && *elements > SHORT
        };
        let own: Vec<usize> = epilogue.loads.iter().map(|(at, _)| at.producer).filter(|own| is_state(*own)).collect();
        let forbids = |group: &Group| {
            let mut reads = false;
            group.reads(|at| reads |= own.contains(&at.producer));
            reads || can_fail(group)
        };
        (!self.groups[product + 1..number].iter().any(forbids)).then_some(before)
    }
}

fn can_fail(group: &Group) -> bool {
    match group {
        Group::Call { kind, .. } => kind.can_fail(),
        Group::Scan { body, sweep, .. } => {
            body.can_fail() || sweep.as_ref().is_some_and(|sweep| sweep.reverse.can_fail())
        }
        Group::Loop(_) | Group::Contract(_) => false,
    }
}

/// Whether a loop can run over any part of its elements: it puts nothing together and writes one element after another.
fn is_plain(epilogue: &LoopGroup) -> bool {
    let in_order = |store: &PendingStore| {
        store.reduction.is_none() && !store.clear && store.offset == 0 && is_rows(&epilogue.extents, &store.strides)
    };
    epilogue.along_rows.is_none() && epilogue.stores.iter().all(in_order)
}
