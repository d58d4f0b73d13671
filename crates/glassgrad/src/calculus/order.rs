//! The rule that explains cross-country mode: tensors of lowest order first.

use super::algebra::{Algebra, Id, Node};
use crate::einsum::{Einsum, Label};
use crate::opt::contract::flops;
use crate::sorting::IndirectSort;

/// The FLOPs of computing some nodes if every product multiplies vectors before matrices, and matrices before tensors of
/// higher order. On chains of matrices and diagonals this is the cheapest order; with a batch axis it often is not.
pub(super) fn lowest_order_first(algebra: &Algebra, roots: &[Id]) -> u128 {
    let mut total = 0_u128;
    for id in algebra.behind(roots) {
        total = total.saturating_add(match algebra.node(id) {
            Node::Given(_) => 0,
            Node::Product(product) => by_order(&product.einsum),
            Node::Sum(terms) => algebra.elements(id).saturating_mul(terms.len() as u128 - 1),
        });
    }
    total
}

/// The FLOPs of one product when the two operands of lowest order are multiplied again and again.
fn by_order(einsum: &Einsum) -> u128 {
    let mut operands = einsum.operands.clone();
    let mut total = 0_u128;
    while operands.len() > 1 {
        // Of operands of one order, those that share labels come first: others only make more labels.
        operands.indirect_sort_by_key(Vec::len);
        let first = operands.remove(0);
        let order = operands[0].len();
        let shared = |own: &Vec<Label>| own.len() == order && own.iter().any(|label| first.contains(label));
        let second = operands.remove(operands.iter().position(shared).unwrap_or(0));
        let mut kept: Vec<Label> = Vec::new();
        for label in first.iter().chain(&second) {
            let needed = einsum.output.contains(label) || operands.iter().any(|own| own.contains(label));
            if needed && !kept.contains(label) {
                kept.push(*label);
            }
        }
        total = total.saturating_add(flops(&Einsum::new(vec![first, second], kept.clone(), einsum.extents.clone())));
        operands.push(kept);
    }
    total
}
