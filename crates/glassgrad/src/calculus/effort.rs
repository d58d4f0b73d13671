//! The budget of the search for the cheapest form of a derivative.
//!
//! To compare forms of a derivative, the products that they consist of are planned, and an exact plan of a dozen factors
//! weighs a quarter of a million joins. The joins are counted. One sweep may spend [`BASE`] joins, and [`PER_NODE`] more
//! for every node of the swept graph; a dense derivative has to visit each of these nodes too, so that planning takes at
//! most a fixed multiple of the steps of the dense route, beside a constant. Within the budget plans are exact, up to twice
//! the budget greedy, and beyond it nothing is planned any more: products stay as the sweep built them.

use std::collections::HashMap;

use crate::einsum::Einsum;
use crate::opt::contract::{Limits, Plan, plan, plan_greedily};

/// The joins that every sweep may weigh.
const BASE: u64 = 20_000;
/// The joins that it may weigh for every node of the graph.
const PER_NODE: u64 = 50;
/// Up to how many operands plans are exact, and how many joins are expected of larger ones.
const EXACT: (usize, u64) = (12, 200_000);

/// FLOPs and bytes of a product.
pub(super) type Cost = (u128, u128);

/// The budget and the memo of the search.
#[derive(Clone, Debug, Default)]
pub(super) struct Effort {
    /// The joins that were weighed.
    pub(super) spent: u64,
    pub(super) budget: u64,
    known: HashMap<(String, Vec<usize>, u128, u128), Cost>,
}

impl Effort {
    /// The budget of a graph with this number of nodes.
    pub(super) fn begin(&mut self, nodes: usize) {
        self.budget = BASE.saturating_add(PER_NODE.saturating_mul(nodes as u64));
    }

    /// Whether nothing more is to be tried.
    pub(super) fn is_exhausted(&self) -> bool {
        self.spent >= self.budget.saturating_mul(2)
    }

    /// The FLOPs and bytes of a product.
    pub(super) fn cost(&mut self, einsum: &Einsum, limits: &Limits) -> Cost {
        let key = (einsum.to_string(), einsum.extents.clone(), limits.element_bytes, limits.flops_per_byte);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let count = einsum.operands.len();
        let expected = if count <= EXACT.0 { 3_u64.pow(count as u32) / 2 } else { EXACT.1 };
        let found: Result<Plan, _> = match self.spent.saturating_add(expected) <= self.budget {
            true => plan(einsum, limits),
            false => plan_greedily(einsum, limits),
        };
        let cost = match found {
            Ok(plan) => {
                self.spent = self.spent.saturating_add(plan.considered);
                (plan.flops, plan.bytes)
            }
            Err(_) => (u128::MAX, u128::MAX),
        };
        self.known.insert(key, cost);
        cost
    }
}
