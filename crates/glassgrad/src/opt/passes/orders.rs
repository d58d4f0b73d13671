//! The orders of factors that were searched for, so that equal products are planned once.

use super::product::{has_sums, renamed, sums};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::opt::contract::{Limits, Plan, elements_moved, flops, plan};
use crate::opt::fingerprint::Fingerprint;
use crate::opt::hashing::NumberMap;

#[derive(Default)]
pub(super) struct Orders {
    plans: NumberMap<u128, Option<Plan>>,
}

impl Orders {
    /// The cheapest order of the factors of a product, if there is something to choose.
    pub(super) fn plan(&mut self, einsum: &Einsum, dtype: DType) -> Option<&Plan> {
        if !has_choice(einsum) {
            return None;
        }
        let (einsum, limits) = (renamed(einsum), limits(dtype));
        let mut hash = Fingerprint::default();
        hash.word(dtype as u64);
        hash.einsum(&einsum);
        self.plans.entry(hash.finish()).or_insert_with(|| plan(&einsum, &limits).ok()).as_ref()
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
