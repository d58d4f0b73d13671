//! Epilogues: a loop that alone reads a large contraction runs on each tile of it, while the tile is in a cache.
//!
//! The gradient of a weight matrix is a product that only the optimizer update reads. Fused, it is never materialised.

use std::collections::BTreeSet;

use super::groups::{Group, LoopGroup, PendingContraction, PendingStore, Register};
use super::strides::{is_rows, rows};
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
        if self.target.epilogue.is_some_and(|limits| limits.separate_reductions) {
            self.separate_reductions();
        }
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

    /// Where a loop stores what it reduces, and reads a product, the reductions become a loop behind it: the gradient of a bias is
    /// a sum of what the gradient of the weights reads.
    fn separate_reductions(&mut self) {
        let groups = std::mem::take(&mut self.groups);
        let mut numbers = Vec::with_capacity(groups.len());
        let mut separated = Vec::new();
        let reads_product: Vec<bool> = groups.iter().map(|group| self.reads_product(group, &groups)).collect();
        for (group, reads_product) in groups.into_iter().zip(reads_product) {
            let number = self.groups.len();
            numbers.push(Some(number));
            let Group::Loop(mut fused) = group else {
                self.groups.push(group);
                continue;
            };
            let reductions = if reads_product { split_off(&mut fused) } else { Vec::new() };
            self.groups.push(Group::Loop(fused));
            for reduction in reductions {
                separated.push((number, self.groups.len(), reduction.stores[0].producer));
                self.groups.push(Group::Loop(reduction));
            }
        }
        self.renumber(&numbers);
        for (from, to, producer) in separated {
            self.producers[producer].group = to;
            let sources: Vec<usize> =
                self.worked.iter().filter(|(group, _)| *group == from).map(|(_, source)| *source).collect();
            self.worked.extend(sources.into_iter().map(|source| (to, source)));
        }
    }

    /// Whether a group is a loop that reads a product, element by element.
    fn reads_product(&self, group: &Group, groups: &[Group]) -> bool {
        let Group::Loop(fused) = group else { return false };
        fused.loads.iter().any(|(at, _)| {
            let producer = &self.producers[at.producer];
            let is_product = matches!(groups.get(producer.group), Some(Group::Contract(_))) && producer.leaf.is_none();
            is_product && at.offset == 0 && is_rows(&fused.extents, &at.strides)
        })
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
        // A result in the compute type of factors that are stored in another is computed by a kernel of its own.
        let is_mixed = product.factors.iter().any(|factor| self.producers[factor.producer].dtype != producer.dtype);
        producer.dtype.is_float()
            && !is_mixed
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

/// Takes the reductions out of a loop, if each is of a register that the loop also stores: a loop for each.
fn split_off(fused: &mut LoopGroup) -> Vec<LoopGroup> {
    let is_stored = |store: &PendingStore| {
        store.reduction.is_none() && !store.clear && store.offset == 0 && is_rows(&fused.extents, &store.strides)
    };
    let source = |reduced: &PendingStore| {
        fused
            .stores
            .iter()
            .find(|store| is_stored(store) && store.register == reduced.register)
            .map(|store| store.producer)
    };
    let sources: Vec<Option<usize>> =
        fused.stores.iter().filter(|store| store.reduction.is_some()).map(source).collect();
    if fused.along_rows.is_some() || sources.contains(&None) {
        return Vec::new();
    }
    let (reduced, kept): (Vec<PendingStore>, Vec<PendingStore>) =
        std::mem::take(&mut fused.stores).into_iter().partition(|store| store.reduction.is_some());
    fused.stores = kept;
    let alone = |(store, producer): (PendingStore, usize)| LoopGroup {
        extents: fused.extents.clone(),
        along_rows: None,
        loads: vec![(Located { producer, offset: 0, strides: rows(&fused.extents) }, false)],
        code: Vec::new(),
        stores: vec![PendingStore { register: Register::load(0), ..store }],
    };
    reduced.into_iter().zip(sources.into_iter().flatten()).map(alone).collect()
}

/// Whether a loop can run over any part of its elements: it puts nothing together and writes one element after another.
fn is_plain(epilogue: &LoopGroup) -> bool {
    let in_order = |store: &PendingStore| {
        store.reduction.is_none() && !store.clear && store.offset == 0 && is_rows(&epilogue.extents, &store.strides)
    };
    epilogue.along_rows.is_none() && epilogue.stores.iter().all(in_order)
}
