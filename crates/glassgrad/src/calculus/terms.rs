//! The normal form of a derivative: a sum of terms, each a product of held factors with a pattern of deltas and
//! broadcasts.
//!
//! Sums at the root are opened, and so are sums and contractions inside of a term that are larger than all they are
//! composed of. For each term, factors are multiplied where that makes it lighter, and if the whole core is lightest, that is
//! held. What a term weighs is what is kept plus what a product with a vector reads and multiplies: kept elements alone
//! would leave long chains of factors that every use multiplies anew.

use super::algebra::{Algebra, Id, Node, Product};
use super::construct::substituted;
use super::gather_groups::families;
use crate::einsum::{Einsum, Label};
use crate::opt::contract::Limits;
use crate::sorting::IndirectSort;

/// The most terms, and operands in a term, that opening may lead to.
const TERMS: usize = 16;
const OPERANDS: usize = 20;

/// A term whose operands are held as they are.
pub(super) type Term = Product;

/// The terms of a derivative whose first `rows` axes are rows.
pub(super) fn terms(algebra: &mut Algebra, root: Id, rows: usize) -> Vec<Term> {
    if algebra.is_zero(root) {
        return Vec::new();
    }
    let opened = opened(algebra, root);
    if algebra.ledger.is_some() {
        let whole = vec![algebra.as_product(root)];
        algebra.note_terms("it is a sum of terms", whole, opened.clone());
    }
    let mut found = Vec::new();
    for mut family in families(algebra, opened, rows) {
        let rows = family.rows;
        let terms = std::mem::take(&mut family.terms);
        let apart = terms.clone();
        let mut arranged: Vec<Term> = terms.into_iter().map(|term| lightest(algebra, term, rows)).collect();
        if algebra.ledger.is_some() {
            let before = arranged.clone();
            grouped(algebra, &mut arranged, rows);
            algebra.note_terms("terms with one pattern become one", before, arranged.clone());
        } else {
            grouped(algebra, &mut arranged, rows);
        }
        // What was multiplied can hold more than the dense array where its factors do not.
        let dense = elements(&apart);
        family.terms =
            if held(algebra, &arranged) > dense && held(algebra, &apart) <= dense { apart } else { arranged };
        found.extend(family.put_back(algebra));
    }
    found
}

/// The terms of a node: its sums are opened where that pays.
fn opened(algebra: &Algebra, root: Id) -> Vec<Term> {
    let mut open = vec![algebra.as_product(root)];
    let mut terms = Vec::new();
    while let Some(term) = open.pop() {
        let place = (0..term.nodes.len()).find(|place| {
            let alone = term.nodes.len() == 1;
            match algebra.node(term.nodes[*place]) {
                Node::Given(_) => false,
                Node::Sum(_) if alone => true,
                _ => {
                    let node = term.nodes[*place];
                    !term.einsum.is_strong()
                        && (is_larger_than_its_parts(algebra, node)
                            || algebra.hides_gather(node)
                            || hides_diagonal(algebra, node))
                }
            }
        });
        let Some(place) = place else {
            terms.push(term);
            continue;
        };
        let inner: Vec<Product> = match algebra.node(term.nodes[place]) {
            Node::Sum(inner) => inner.iter().map(|node| algebra.as_product(*node)).collect(),
            Node::Product(inner) => vec![inner.clone()],
            Node::Given(_) => Vec::new(),
        };
        let replaced = |with: &Product| {
            let inner: Vec<Option<Product>> =
                (0..term.nodes.len()).map(|other| (other == place).then(|| with.clone())).collect();
            substituted(&term, &inner)
        };
        let replaced: Vec<Term> = inner.iter().map(replaced).collect();
        if open.len() + terms.len() + replaced.len() > TERMS || replaced.iter().any(|term| term.nodes.len() > OPERANDS)
        {
            terms.push(term);
            terms.append(&mut open);
            return terms;
        }
        open.extend(replaced.into_iter().rev());
    }
    terms
}

/// Whether a node is a sum of a diagonal and something else. As one array it would hide how much of the diagonal the rest
/// cancels, by which `solve` distinguishes a singular system from a regular one.
fn hides_diagonal(algebra: &Algebra, id: Id) -> bool {
    let Node::Sum(terms) = algebra.node(id) else { return false };
    let has_delta = |term: &Id| {
        let output = algebra.as_product(*term).einsum.output;
        (1..output.len()).any(|slot| output[..slot].contains(&output[slot]))
    };
    terms.iter().any(has_delta) && !terms.iter().all(has_delta)
}

/// Whether a node has more elements than all its operands together.
fn is_larger_than_its_parts(algebra: &Algebra, id: Id) -> bool {
    let mut parts: Vec<Id> = match algebra.node(id) {
        Node::Given(_) => return false,
        Node::Product(product) => product.nodes.clone(),
        Node::Sum(terms) => terms.iter().flat_map(|term| algebra.as_product(*term).nodes).collect(),
    };
    parts.indirect_sort();
    parts.dedup();
    algebra.elements(id) > parts.iter().map(|part| algebra.elements(*part)).sum()
}

/// The elements that terms hold, each factor counted once.
pub(super) fn held<'a>(algebra: &Algebra, terms: impl IntoIterator<Item = &'a Term>) -> u128 {
    let mut nodes: Vec<Id> = terms.into_iter().flat_map(|term| term.nodes.iter().copied()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let indices = |node: Id| algebra.gathers.get(&node).copied();
    nodes.iter().map(|node| algebra.elements(indices(*node).unwrap_or(*node))).sum()
}

/// The cost of a term: its storage, and the FLOPs of one product with a vector.
fn weight(algebra: &Algebra, term: &Term, rows: usize) -> u128 {
    held(algebra, [term]).saturating_add(multiplication(algebra, &term.einsum, rows))
}

/// Half the FLOPs of multiplying a term with a vector.
fn multiplication(algebra: &Algebra, einsum: &Einsum, rows: usize) -> u128 {
    let (rows, columns) = einsum.output.split_at(rows);
    let operands = einsum.operands.iter().cloned().chain([columns.to_vec()]).collect();
    let product = Einsum::new(operands, rows.to_vec(), einsum.extents.clone());
    let limits = Limits { flops_per_byte: 0, ..Limits::default() };
    algebra.effort.borrow_mut().cost(&product, &limits).0 / 2
}

/// The same term with factors multiplied where that makes it lighter.
fn lightest(algebra: &mut Algebra, mut term: Term, rows: usize) -> Term {
    let whole = dense(algebra, &term);
    if term.einsum.is_strong() || term.nodes.len() < 2 {
        return if term.nodes.is_empty() { term } else { whole };
    }
    let mut best = weight(algebra, &term, rows);
    loop {
        let mut found: Option<Term> = None;
        for one in 0..term.nodes.len() {
            for other in one + 1..term.nodes.len() {
                if algebra.effort.borrow().is_exhausted() || !worth_a_try(&term, one, other) {
                    continue;
                }
                let merged = merged(algebra, &term, &[one, other]);
                let lighter = weight(algebra, &merged, rows);
                if lighter <= best {
                    best = lighter;
                    found = Some(merged);
                }
            }
        }
        match found {
            Some(merged) => term = merged,
            None => break,
        }
    }
    if weight(algebra, &whole, rows) <= best { whole } else { term }
}

/// Factors are tried together if one adds no label to the other, or if they share a label that nothing else has.
fn worth_a_try(term: &Term, one: usize, other: usize) -> bool {
    let Einsum { operands, output, .. } = &term.einsum;
    let within = |a: &[Label], b: &[Label]| a.iter().all(|label| b.contains(label));
    let (a, b) = (&operands[one], &operands[other]);
    let private = |label: &Label| {
        !output.contains(label)
            && (0..operands.len()).all(|k| k == one || k == other || !operands[k].contains(label))
            && b.contains(label)
    };
    within(a, b) || within(b, a) || a.iter().any(private)
}

/// The term with some of its factors multiplied into one.
fn merged(algebra: &mut Algebra, term: &Term, members: &[usize]) -> Term {
    let Einsum { coefficient, operands, strong, output, extents } = &term.einsum;
    let others = |place: &usize| !members.contains(place);
    let mut kept = output.clone();
    (0..operands.len()).filter(others).for_each(|place| kept.extend_from_slice(&operands[place]));
    let pick = |place: &usize| operands[*place].clone();
    let wins: Vec<bool> = members.iter().map(|place| strong[*place]).collect();
    let nodes = members.iter().map(|place| term.nodes[*place]).collect();
    let dtype = algebra.dtype(term.nodes[members[0]]);
    let is_strong = wins.contains(&true);
    let (core, labels) = algebra.sealed(members.iter().map(pick).collect(), wins, nodes, &kept, extents, dtype);
    let rest: Vec<usize> = (0..operands.len()).filter(others).collect();
    let einsum = Einsum {
        coefficient: *coefficient,
        operands: rest.iter().map(pick).chain([labels]).collect(),
        strong: rest.iter().map(|place| strong[*place]).chain([is_strong]).collect(),
        output: output.clone(),
        extents: extents.clone(),
    };
    Product { einsum, nodes: rest.iter().map(|place| term.nodes[*place]).chain([core]).collect(), sealed: false }
}

/// The term with its whole core as one factor.
fn dense(algebra: &mut Algebra, term: &Term) -> Term {
    if term.nodes.is_empty() {
        return term.clone();
    }
    let all: Vec<usize> = (0..term.nodes.len()).collect();
    merged(algebra, term, &all)
}

/// The pattern of a term: for each slot the first that has its label, and whether an operand has it.
fn pattern(term: &Term) -> Vec<(usize, bool)> {
    let Einsum { operands, output, .. } = &term.einsum;
    let first = |label: &Label| output.iter().position(|other| other == label).unwrap_or_default();
    output.iter().map(|label| (first(label), operands.iter().any(|own| own.contains(label)))).collect()
}

/// Adds the cores of terms with one pattern where the sum is lighter, and puts all into a term that is dense already.
fn grouped(algebra: &mut Algebra, terms: &mut Vec<Term>, rows: usize) {
    let mut place = 0;
    while place < terms.len() {
        let own = pattern(&terms[place]);
        let members: Vec<usize> = (0..terms.len()).filter(|other| pattern(&terms[*other]) == own).collect();
        if members[0] == place && members.len() > 1 {
            let slots: Vec<usize> = (0..own.len()).filter(|slot| own[*slot] == (*slot, true)).collect();
            let together: Vec<Term> = members.iter().map(|member| terms[*member].clone()).collect();
            let apart: u128 = together.iter().map(|term| multiplication(algebra, &term.einsum, rows)).sum();
            let apart = apart.saturating_add(held(algebra, &together));
            let classes: Vec<usize> = own.iter().map(|(first, _)| *first).collect();
            let sum = summed(algebra, &together, &slots, classes);
            if weight(algebra, &sum, rows) <= apart {
                terms[place] = sum;
                members[1..].iter().rev().for_each(|member| drop(terms.remove(*member)));
            }
        }
        place += 1;
    }
    let full =
        |term: &Term| term.nodes.len() == 1 && pattern(term).iter().enumerate().all(|(slot, own)| *own == (slot, true));
    if terms.len() > 1 && terms.iter().any(full) && !terms[0].einsum.output.is_empty() {
        let slots: Vec<usize> = (0..terms[0].einsum.output.len()).collect();
        *terms = vec![summed(algebra, terms, &slots, slots.clone())];
    }
}

/// The elements of the dense array of some terms.
fn elements(terms: &[Term]) -> u128 {
    let shape = terms.first().map(|term| term.einsum.output_shape().to_vec()).unwrap_or_default();
    shape.iter().fold(1_u128, |size, extent| size.saturating_mul(*extent as u128))
}

/// Holds blocks densely whose factors have more elements than the dense block, if all together hold more than the dense
/// derivative.
pub(super) fn densified(algebra: &mut Algebra, blocks: &mut [Vec<Vec<Term>>]) {
    let all = |algebra: &Algebra, blocks: &[Vec<Vec<Term>>]| held(algebra, blocks.iter().flatten().flatten());
    let before = all(algebra, blocks);
    let dense: u128 = blocks.iter().flatten().filter(|terms| !terms.is_empty()).map(|terms| elements(terms)).sum();
    if before <= dense {
        return;
    }
    let mut changed = blocks.to_vec();
    for terms in changed.iter_mut().flatten() {
        let gathers = terms.iter().flat_map(|term| &term.nodes).any(|node| algebra.gathers.contains_key(node));
        let slots: Vec<usize> = (0..terms.first().map_or(0, |term| term.einsum.output.len())).collect();
        if gathers || terms.is_empty() || held(algebra, &*terms) <= elements(terms) {
            continue;
        }
        *terms = match &slots[..] {
            [] => terms.iter().map(|term| self::dense(algebra, term)).collect(),
            _ => vec![summed(algebra, terms, &slots, slots.clone())],
        };
    }
    if all(algebra, &changed) < before {
        blocks.clone_from_slice(&changed);
    }
}

/// The sum of terms as one factor with an axis for each of some slots; the others are tied to these, as the classes of
/// slots say, or broadcast.
fn summed(algebra: &mut Algebra, terms: &[Term], slots: &[usize], classes: Vec<usize>) -> Term {
    let dtype = terms.iter().flat_map(|term| &term.nodes).map(|node| algebra.dtype(*node)).next();
    let mut cores = Vec::new();
    for term in terms {
        let output = slots.iter().map(|slot| term.einsum.output[*slot]).collect();
        let einsum = Einsum { output, ..term.einsum.clone() };
        cores.push(algebra.product(einsum, term.nodes.clone(), dtype.unwrap_or(crate::dtype::DType::F64)));
    }
    let core = algebra.sum(&cores);
    let einsum = Einsum::new(vec![slots.to_vec()], classes, terms[0].einsum.output_shape().to_vec());
    let term = Product { einsum, nodes: vec![core], sealed: false };
    // A number in front, a pattern or factors of the sum come out, and the rest is one factor again.
    let inner = algebra.as_product(core);
    let term = if inner.nodes == [core] { term } else { substituted(&term, &[Some(inner)]) };
    dense(algebra, &term)
}
