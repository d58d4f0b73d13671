//! Loops that go on with a large product piece by piece, while it is near.
//!
//! The gradient of a matrix of weights is a product that only the update of these weights reads. As a whole it would
//! travel to memory and back. Behind each piece of the product the loop finds it in a cache, and the whole is never there.

use std::collections::BTreeSet;

use super::groups::{Group, LoopGroup, PendingProduct, PendingStore};
use super::strides::is_rows;
use super::{Located, Lowering, Producer};
use crate::opt::in_place;
use crate::opt::program::{BLOCK, Memory, ProductAxis};

/// The least bytes of a result for which it is worth it: less stays near by itself.
const WORTH: usize = 1 << 18;
/// The least multiplications of a product that is computed in pieces.
const LARGE: usize = 1 << 21;

/// A loop that can go on with a product, and the groups that must come before both for that.
struct Follower {
    group: usize,
    before: BTreeSet<usize>,
}

impl Lowering<'_> {
    /// Puts loops that alone read a large product behind it.
    pub(super) fn follow(&mut self) {
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
                && let (Some(Group::Loop(then)), Some(Group::Product(product))) =
                    (groups[group].take(), self.groups.last_mut())
            {
                let made = &mut self.producers[product.producer];
                (made.in_pieces, made.needed) = (true, false);
                product.then = Some(Box::new(then));
                numbers[group] = numbers[number];
            }
        }
        self.renumber(&numbers);
    }

    /// For each group its follower, if it is a product that has one.
    fn followers(&self) -> Vec<Option<Follower>> {
        let mut followers: Vec<Option<Follower>> = self.groups.iter().map(|_| None).collect();
        let large = |group: &Group| matches!(group, Group::Product(product) if self.is_cut(product));
        if !self.groups.iter().any(large) {
            return followers;
        }
        let mut times_read = vec![0_u32; self.producers.len()];
        self.groups.iter().for_each(|group| group.reads(|at| times_read[at.producer] += 1));
        for (number, group) in self.groups.iter().enumerate() {
            let Group::Loop(then) = group else { continue };
            let product_of = |at: &Located| {
                let made = &self.producers[at.producer];
                let is_alone = made.leaf.is_none() && made.result.is_none() && times_read[at.producer] == 1;
                match &self.groups[made.group] {
                    Group::Product(product) if is_alone && self.is_cut(product) => Some(made.group),
                    _ => None,
                }
            };
            let is_whole = |at: &Located| at.offset == 0 && is_rows(&then.extents, &at.strides);
            // The last of several: the others are there by then.
            let last = then.loads.iter().filter(|(at, _)| is_whole(at)).filter_map(|(at, _)| product_of(at)).max();
            if let Some(product) = last.filter(|_| is_plain(then))
                && let Some(before) = self.before(product, number, then)
            {
                followers[product] = Some(Follower { group: number, before });
            }
        }
        followers
    }

    /// Whether a product is one large matrix of which pieces lie one behind another.
    fn is_cut(&self, product: &PendingProduct) -> bool {
        let PendingProduct { axes, clear: false, symmetric: false, meets: false, strong: [false, false], .. } = product
        else {
            return false;
        };
        let made = &self.producers[product.producer];
        // Every piece copies a factor, of as many rows as are summed; that must not be more than what is saved.
        let lies = |inner: ProductAxis, outer: ProductAxis| {
            let is_dense = inner.strides[2] == 1 && usize::try_from(outer.strides[2]) == Ok(inner.extent);
            is_dense && axes.inner.extent <= outer.extent
        };
        made.dtype.is_float()
            && axes.batch.is_empty()
            && axes.sums.is_empty()
            && (lies(axes.rows, axes.columns) || lies(axes.columns, axes.rows))
            && made.elements.saturating_mul(made.dtype.bytes()) >= WORTH
            && made.elements.saturating_mul(axes.inner.extent) >= LARGE
    }

    /// What must be computed before a product so that a loop can stand right behind it: rates and counts. Nothing if it cannot,
    /// because something in between is larger, reads what the loop may want to write over, or can fail.
    fn before(&self, product: usize, number: usize, then: &LoopGroup) -> Option<BTreeSet<usize>> {
        let is_short = |group: usize| match &self.groups[group] {
            Group::Loop(own) => own.extents.iter().fold(1_usize, |all, extent| all.saturating_mul(*extent)) <= BLOCK,
            _ => false,
        };
        let mut before = BTreeSet::new();
        let mut open = vec![number];
        while let Some(group) = open.pop() {
            let mut is_refused = false;
            self.groups[group].reads(|at| {
                let made = &self.producers[at.producer];
                if made.leaf.is_none() && made.group > product && before.insert(made.group) {
                    open.push(made.group);
                    is_refused |= !is_short(made.group);
                }
            });
            if is_refused {
                return None;
            }
        }
        // State is written over when nobody reads it any more, and nothing can fail any more.
        let is_state = |producer: usize| {
            let Producer { leaf, elements, .. } = &self.producers[producer];
            matches!(leaf, Some(Memory::Input(_))) && *elements > BLOCK
        };
        let own: Vec<usize> = then.loads.iter().map(|(at, _)| at.producer).filter(|own| is_state(*own)).collect();
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
        Group::Call { .. } => true,
        Group::Repeat { body, sweep, .. } => {
            let back = sweep.iter().flat_map(|sweep| &sweep.reverse.steps);
            body.steps.iter().chain(back).any(in_place::can_fail)
        }
        Group::Loop(_) | Group::Product(_) => false,
    }
}

/// Whether a loop can run over any part of its elements: it puts nothing together and writes one element after another.
fn is_plain(then: &LoopGroup) -> bool {
    let in_order = |store: &PendingStore| {
        store.combine.is_none() && !store.clear && store.offset == 0 && is_rows(&then.extents, &store.strides)
    };
    then.along_rows.is_none() && then.stores.iter().all(in_order)
}
