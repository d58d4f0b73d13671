//! Contractions that are used once become part of the product that uses them, where that is cheaper.
//!
//! Sweeps nest contractions in the order in which they meet them. A product of many factors can be associated from either end
//! or from the middle, and the planner does so by cost over real sizes; a contraction that several products use stays a node
//! of its own and is computed once.

use std::collections::{HashMap, HashSet};

use super::algebra::{Algebra, Id, Node, Product, canonical};
use super::construct::substituted;
use crate::einsum::Einsum;
use crate::opt::contract::Limits;

/// The most factors of one product.
const FACTORS: usize = 40;

/// The same nodes, with contractions inside of them dissolved.
pub(super) fn flattened(algebra: &mut Algebra, roots: &[Id]) -> Vec<Id> {
    let behind = algebra.behind(roots);
    let mut uses: HashMap<Id, usize> = HashMap::new();
    roots.iter().for_each(|root| *uses.entry(*root).or_default() += 2);
    for id in &behind {
        match algebra.node(*id) {
            Node::Given(_) => {}
            Node::Product(product) => product.nodes.iter().for_each(|node| *uses.entry(*node).or_default() += 1),
            // A sum is no product: what it uses is computed for itself.
            Node::Sum(terms) => terms.iter().for_each(|term| *uses.entry(*term).or_default() += 2),
        }
    }
    // From the top: what is used once dissolves in what uses it, as far as the number of factors allows.
    let mut whole: HashMap<Id, Product> = HashMap::new();
    let mut inside: HashSet<Id> = HashSet::new();
    for id in behind.iter().rev().filter(|id| matches!(algebra.node(**id), Node::Product(_))) {
        if !inside.contains(id)
            && let Some((product, dissolved)) = dissolved(algebra, *id, &uses)
        {
            whole.insert(*id, product);
            inside.extend(dissolved);
        }
    }
    let mut flattened: HashMap<Id, Id> = HashMap::new();
    for id in behind {
        let dtype = algebra.dtype(id);
        let new = match algebra.node(id) {
            Node::Given(_) => id,
            _ if inside.contains(&id) => continue,
            Node::Sum(terms) => {
                let terms = terms.iter().map(|term| flattened[term]).collect();
                algebra.intern_sum(terms)
            }
            Node::Product(product) => {
                let product = whole.remove(&id).unwrap_or_else(|| product.clone());
                let nodes = product.nodes.iter().map(|node| flattened[node]).collect();
                algebra.intern_product(canonical(&Product { nodes, ..product }, false).0, dtype)
            }
        };
        flattened.insert(id, new);
    }
    roots.iter().map(|root| flattened[root]).collect()
}

/// A product with everything dissolved that only it uses, and what that was, if it is cheaper so.
fn dissolved(algebra: &Algebra, id: Id, uses: &HashMap<Id, usize>) -> Option<(Product, Vec<Id>)> {
    let Node::Product(product) = algebra.node(id) else { return None };
    let (mut product, mut gone) = (product.clone(), Vec::new());
    let mut apart = 0_u128;
    if product.einsum.is_strong() {
        return None;
    }
    if algebra.effort.borrow().is_exhausted() {
        return None;
    }
    apart = apart.saturating_add(cost(algebra, &product.einsum));
    loop {
        let inner = |node: &Id| match algebra.node(*node) {
            Node::Product(inner) if uses[node] == 1 && !inner.einsum.is_strong() => Some(inner.clone()),
            _ => None,
        };
        let fits = |inner: &Product| product.nodes.len() - 1 + inner.nodes.len() <= FACTORS;
        let found = product.nodes.iter().position(|node| inner(node).as_ref().is_some_and(fits));
        let Some(place) = found else { break };
        let node = product.nodes[place];
        let with: Vec<Option<Product>> =
            (0..product.nodes.len()).map(|other| if other == place { inner(&node) } else { None }).collect();
        apart = apart.saturating_add(with[place].as_ref().map_or(0, |inner| cost(algebra, &inner.einsum)));
        product = Product { sealed: product.sealed, ..substituted(&product, &with) };
        gone.push(node);
    }
    (!gone.is_empty() && cost(algebra, &product.einsum) < apart).then_some((product, gone))
}

fn cost(algebra: &Algebra, einsum: &Einsum) -> u128 {
    let limits = Limits { element_bytes: 8, ..Limits::default() };
    let (flops, bytes) = algebra.effort.borrow_mut().cost(einsum, &limits);
    flops.saturating_add(bytes.saturating_mul(4))
}
