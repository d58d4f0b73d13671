//! The orders of factors that were searched for, so that equal products are planned once.

use std::sync::Arc;

use super::product::{has_sums, mix_product, renamed, sums};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::hashing::NumberMap;
use crate::opt::contract::{ContractionRequest, JointPlan, Limits, Plan, elements_moved, flops, plan, plan_all};
use crate::opt::structural_hash::Fingerprint;
use crate::shape::InlineVec;

/// How many joins of two parts may be weighed for any graph, and how many more for each of its nodes.
const PATIENCE: [u64; 2] = [200_000, 40];

pub(super) struct Orders {
    plans: NumberMap<u128, Option<Plan>>,
    joint: NumberMap<u128, Option<Arc<Chosen>>>,
    /// How many joins may still be weighed.
    patience: u64,
}

/// A plan for several products, and which of the tensors that it is asked for exist in it.
pub(super) struct Chosen {
    pub(super) plan: JointPlan,
    /// Whether products were put into those that read them, so that some need not be computed.
    pub(super) is_expanded: bool,
}

impl Orders {
    /// The search budget for a graph with this many nodes.
    pub(super) fn for_nodes(nodes: usize) -> Orders {
        let patience = PATIENCE[0] + PATIENCE[1] * nodes as u64;
        Orders { plans: NumberMap::default(), joint: NumberMap::default(), patience }
    }

    /// Whether much was searched for already: then only small products are searched.
    pub(super) fn is_tired(&self) -> bool {
        self.patience == 0
    }

    /// The cheapest order of the factors of a product, if there is something to choose.
    pub(super) fn plan(&mut self, einsum: &Einsum, dtype: DType) -> Option<&Plan> {
        if !has_choice(einsum) {
            return None;
        }
        let mut hash = Fingerprint::default();
        hash.word(dtype as u64);
        mix_product(&mut hash, einsum, &(0..einsum.operands.len()).collect::<InlineVec<usize>>(), |_, _| ());
        let patience = &mut self.patience;
        let found = self.plans.entry(hash.finish()).or_insert_with(|| {
            let plan = plan(&renamed(einsum), &limits(dtype)).ok();
            *patience = patience.saturating_sub(plan.as_ref().map_or(0, |plan| plan.considered));
            plan
        });
        found.as_ref()
    }

    /// The cheapest plan for several products, as they are or with some of them put into others, if it is cheaper than
    /// planning them one by one and sharing what happens to be equal. It takes no more FLOPs than that, and no
    /// intermediate result is larger than the largest of the operands, the results and the intermediates of that.
    pub(super) fn joint(
        &mut self,
        asked: &[ContractionRequest],
        expanded: Option<&[ContractionRequest]>,
        dtype: DType,
    ) -> Option<Arc<Chosen>> {
        if self.is_tired() {
            return None;
        }
        let mut hash = Fingerprint::default();
        hash.word(dtype as u64);
        for one in asked.iter().chain(expanded.into_iter().flatten()) {
            let order: InlineVec<usize> = (0..one.operands.len()).collect();
            mix_product(&mut hash, &one.einsum, &order, |hash, place| hash.word(one.operands[place] as u64));
        }
        let key = hash.finish();
        if let Some(known) = self.joint.get(&key) {
            return known.clone();
        }
        let chosen = self.chosen(asked, expanded, dtype).map(Arc::new);
        self.joint.insert(key, chosen.clone());
        chosen
    }

    fn chosen(
        &mut self,
        asked: &[ContractionRequest],
        expanded: Option<&[ContractionRequest]>,
        dtype: DType,
    ) -> Option<Chosen> {
        let mut limits = limits(dtype);
        let sizes = |one: &ContractionRequest| {
            let operands = (0..one.operands.len()).map(|operand| one.einsum.operand_shape(operand).elements());
            operands.chain([one.einsum.output_shape().elements()]).max().unwrap_or(0) as u128
        };
        let largest = asked.iter().map(sizes).max().unwrap_or(0);
        let alone = asked.iter().filter_map(|one| Some(self.plan(&one.einsum, dtype)?.largest_intermediate)).max();
        limits.largest_intermediate = Some(largest.max(alone.unwrap_or(0)));
        let as_it_is = plan_all(asked, &limits).ok()?;
        let met = limits.cost(as_it_is.met_flops, as_it_is.met_bytes);
        let other = expanded.and_then(|expanded| plan_all(expanded, &limits).ok());
        let searched = [Some(&as_it_is), other.as_ref()].into_iter().flatten().map(|plan| plan.plan.considered);
        self.patience = self.patience.saturating_sub(searched.sum());
        let met_flops = as_it_is.met_flops;
        let candidates = [(Some(as_it_is), false), (other, true)];
        let candidates =
            candidates.into_iter().filter_map(|(plan, is_expanded)| Some(Chosen { plan: plan?, is_expanded }));
        let cost = |chosen: &Chosen| limits.cost(chosen.plan.plan.flops, chosen.plan.plan.bytes);
        let gains = |chosen: &Chosen| cost(chosen) < met && chosen.plan.plan.flops <= met_flops;
        candidates.filter(gains).min_by_key(cost)
    }

    /// What a product costs in its cheapest order.
    pub(super) fn cost(&mut self, einsum: &Einsum, dtype: DType) -> u128 {
        let limits = limits(dtype);
        match self.plan(einsum, dtype) {
            Some(plan) => limits.cost(plan.flops, plan.bytes),
            None => limits.cost(flops(einsum), elements_moved(einsum).saturating_mul(limits.element_bytes)),
        }
    }
}

fn limits(dtype: DType) -> Limits {
    Limits { element_bytes: dtype.bytes() as u128, ..Limits::default() }
}

/// Whether factors can be multiplied in several orders, or summed before they are.
fn has_choice(einsum: &Einsum) -> bool {
    let alone = |label| einsum.operands.iter().filter(|labels| labels.contains(label)).count() == 1;
    match einsum.operands.len() {
        _ if einsum.is_strong() => false,
        0 | 1 => false,
        2 => sums(einsum).iter().any(alone),
        _ => has_sums(einsum),
    }
}
