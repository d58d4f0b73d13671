//! Construction of products and sums: deltas are contracted, broadcasts summed and zeros dropped where they are met.

use super::algebra::{Algebra, Classes, Id, Node, Product, canonical};
use super::ledger::Step;
use super::print;
use crate::array::Array;
use crate::dtype::DType;
use crate::einsum::{Einsum, Label};
use crate::expr::Tensor;
use crate::opt::contract;

/// Up to this many operands a product stays unevaluated; above, operands with the same labels are multiplied.
const OPERANDS: usize = 14;

impl Algebra {
    /// The product of some nodes. Open products among them dissolve: labels of their outputs become those that they
    /// are used with, which contracts deltas, transposes and reads diagonals in one step.
    pub(super) fn product(&mut self, einsum: Einsum, nodes: Vec<Id>, dtype: DType) -> Id {
        let written = Product { einsum, nodes, sealed: false };
        let mut inner = Vec::new();
        for node in &written.nodes {
            inner.push(match self.node(*node) {
                Node::Product(inner) if !inner.sealed => {
                    let inner = inner.clone();
                    Some(self.separated(&inner, dtype))
                }
                _ => None,
            });
        }
        let dissolved = inner.iter().any(Option::is_some);
        let mut flat = substituted(&written, &inner);
        if flat.einsum.coefficient == 0.0 || flat.nodes.iter().any(|node| self.is_zero(*node)) {
            return self.zero(&written.einsum.output_shape(), dtype);
        }
        if flat.nodes.iter().filter(|node| self.selections.contains(node)).count() > 1 {
            self.join_selections(&mut flat);
            if flat.einsum.coefficient == 0.0 {
                return self.zero(&written.einsum.output_shape(), dtype);
            }
        }
        if flat.nodes.len() > OPERANDS {
            flat = self.gathered(flat, dtype);
        }
        let (flat, _) = canonical(&flat, false);
        let result = match &flat.einsum {
            einsum if einsum.is_identity() => flat.nodes[0],
            _ => self.intern_product(flat, dtype),
        };
        if dissolved {
            self.note(
                "contract a Kronecker delta",
                |algebra| (print::product(algebra, &written), vec![written]),
                result,
            );
        }
        result
    }

    /// Multiplies arrays of zeros and ones that are summed over a label which nothing else has. What comes of it is often
    /// zero: parts of an array that do not overlap.
    fn join_selections(&mut self, product: &mut Product) {
        loop {
            let Einsum { operands, output, .. } = &product.einsum;
            let is_selection = |place: &usize| self.selections.contains(&product.nodes[*place]);
            let places: Vec<usize> = (0..operands.len()).filter(is_selection).collect();
            let private = |label: &Label, one: usize, other: usize| {
                !output.contains(label)
                    && operands[other].contains(label)
                    && (0..operands.len()).all(|k| k == one || k == other || !operands[k].contains(label))
            };
            let pair = places.iter().enumerate().find_map(|(k, one)| {
                let mut others = places[k + 1..].iter();
                let meets = |other: &&usize| operands[*one].iter().any(|label| private(label, *one, **other));
                others.find(meets).map(|other| (*one, *other))
            });
            let Some((one, other)) = pair else { return };
            let mut kept: Vec<Label> = Vec::new();
            for label in operands[one].iter().chain(&operands[other]) {
                if !private(label, one, other) && !kept.contains(label) {
                    kept.push(*label);
                }
            }
            let pair = vec![operands[one].clone(), operands[other].clone()];
            let einsum = Einsum::new(pair, kept.clone(), product.einsum.extents.clone());
            let tensors = self.tensors(&[product.nodes[one], product.nodes[other]]);
            let Ok(array) = Tensor::contract(einsum, &tensors.iter().collect::<Vec<_>>()).eval() else { return };
            if (0..array.buffer().len()).all(|place| array.buffer().get(place) == 0.0) {
                product.einsum.coefficient = 0.0;
                return;
            }
            let joined = self.selection(&Tensor::leaf(array));
            for place in [other, one] {
                product.einsum.operands.remove(place);
                product.einsum.strong.remove(place);
                product.nodes.remove(place);
            }
            product.einsum.operands.push(kept);
            product.einsum.strong.push(false);
            product.nodes.push(joined);
        }
    }

    /// An array of zeros and ones. Equal ones are one node, and a unit matrix is a delta.
    pub(super) fn selection(&mut self, tensor: &Tensor) -> Id {
        let (shape, value) = (tensor.shape().clone(), tensor.eval());
        let is_unit = |array: &Array| {
            shape.rank() == 2
                && shape[0] == shape[1]
                && (0..shape.elements()).all(|k| array.buffer().get(k) == f64::from(u8::from(k % (shape[0] + 1) == 0)))
        };
        if value.as_ref().is_ok_and(|array| (0..shape.elements()).all(|k| array.buffer().get(k) == 0.0)) {
            return self.zero(&shape, tensor.dtype());
        }
        if value.as_ref().is_ok_and(is_unit) {
            return self.product(Einsum::unit(&shape[..1]), Vec::new(), tensor.dtype());
        }
        let same = self.selections.iter().copied().find(|known| match self.node(*known) {
            Node::Given(other) => other.shape() == &shape && other.dtype() == tensor.dtype() && other.eval() == value,
            _ => false,
        });
        let node = same.unwrap_or_else(|| self.given(tensor));
        self.selections.insert(node);
        node
    }

    /// Zeros of a shape.
    pub(super) fn zero(&mut self, shape: &[usize], dtype: DType) -> Id {
        let einsum = Einsum::new(Vec::new(), (0..shape.len()).collect(), shape.to_vec()).scaled(0.0);
        self.intern_product(Product { einsum, nodes: Vec::new(), sealed: false }, dtype)
    }

    /// An open product ready to dissolve: factors without a summed label are as they were, and what hangs together by
    /// summed labels is one contraction.
    fn separated(&mut self, product: &Product, dtype: DType) -> Product {
        let Einsum { coefficient, operands, strong, output, extents } = &product.einsum;
        let together = !self.associative || product.einsum.is_strong();
        let mut classes = Classes::new(&vec![0; operands.len()]);
        for (one, labels) in operands.iter().enumerate() {
            for (other, others) in operands.iter().enumerate().skip(one + 1) {
                let apart = |operand: usize| {
                    // What picks entries is a pattern, like a delta, and stays outside where it can.
                    self.gathers.contains_key(&product.nodes[operand])
                        && operands[operand].iter().all(|label| output.contains(label))
                };
                let together = together && !apart(one) && !apart(other);
                if together || labels.iter().any(|label| !output.contains(label) && others.contains(label)) {
                    classes.join(one, other);
                }
            }
        }
        let (mut labels, mut wins, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
        for root in 0..operands.len() {
            let members: Vec<usize> = (0..operands.len()).filter(|operand| classes.find(*operand) == root).collect();
            if members.is_empty() {
                continue;
            }
            let free = |operand: usize| operands[operand].iter().all(|label| output.contains(label));
            let own_wins: Vec<bool> = members.iter().map(|operand| strong[*operand]).collect();
            wins.push(own_wins.contains(&true));
            if let [only] = members[..]
                && free(only)
            {
                labels.push(operands[only].clone());
                nodes.push(product.nodes[only]);
                continue;
            }
            let own: Vec<Vec<Label>> = members.iter().map(|operand| operands[*operand].clone()).collect();
            let own_nodes = members.iter().map(|operand| product.nodes[*operand]).collect();
            let (core, core_labels) = self.sealed(own, own_wins, own_nodes, output, extents, dtype);
            labels.push(core_labels);
            nodes.push(core);
        }
        let (coefficient, output, extents) = (*coefficient, output.clone(), extents.clone());
        Product {
            einsum: Einsum { coefficient, operands: labels, strong: wins, output, extents },
            nodes,
            sealed: false,
        }
    }

    /// The core of some factors as one node: summed over labels that are not among those kept. Returns its labels too.
    pub(super) fn sealed(
        &mut self,
        operands: Vec<Vec<Label>>,
        strong: Vec<bool>,
        nodes: Vec<Id>,
        kept: &[Label],
        extents: &[usize],
        dtype: DType,
    ) -> (Id, Vec<Label>) {
        let mut output: Vec<Label> = Vec::new();
        for label in operands.iter().flatten() {
            if kept.contains(label) && !output.contains(label) {
                output.push(*label);
            }
        }
        let einsum = Einsum { coefficient: 1.0, operands, strong, output, extents: extents.to_vec() };
        if nodes.iter().all(|node| self.selections.contains(node)) {
            let (labels, tensors) = (einsum.output.clone(), self.tensors(&nodes));
            let joined = Tensor::contract(einsum.clone(), &tensors.iter().collect::<Vec<_>>()).eval();
            if let Ok(array) = joined {
                let node = self.selection(&Tensor::leaf(array));
                // A unit matrix is no node of its own: it stays as it was, for here nothing dissolves.
                if self.selections.contains(&node) || self.is_zero(node) {
                    return (node, labels);
                }
            }
        }
        let (product, labels) = canonical(&Product { einsum, nodes, sealed: true }, true);
        if product.einsum.is_identity() {
            return (product.nodes[0], labels);
        }
        (self.intern_product(product, dtype), labels)
    }

    /// The same product in which operands with the same labels are multiplied first.
    fn gathered(&mut self, product: Product, dtype: DType) -> Product {
        let Einsum { coefficient, operands, strong, output, extents } = product.einsum;
        let mut groups: Vec<(Vec<Label>, Vec<usize>)> = Vec::new();
        for (operand, labels) in operands.iter().enumerate() {
            let mut set = labels.clone();
            set.sort_unstable();
            set.dedup();
            match groups.iter_mut().find(|(known, _)| *known == set) {
                Some((_, members)) => members.push(operand),
                None => groups.push((set, vec![operand])),
            }
        }
        let (mut gathered, mut wins, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
        for (set, members) in groups {
            let own: Vec<Vec<Label>> = members.iter().map(|operand| operands[*operand].clone()).collect();
            let own_wins: Vec<bool> = members.iter().map(|operand| strong[*operand]).collect();
            let own_nodes = members.iter().map(|operand| product.nodes[*operand]).collect();
            wins.push(own_wins.contains(&true));
            let (node, labels) = match members[..] {
                [only] => (product.nodes[only], own[0].clone()),
                _ => self.sealed(own, own_wins, own_nodes, &set, &extents, dtype),
            };
            gathered.push(labels);
            nodes.push(node);
        }
        let einsum = Einsum { coefficient, operands: gathered, strong: wins, output, extents };
        Product { einsum, nodes, sealed: false }
    }

    /// The sum of nodes of one shape: zeros go, like terms become one, and the pattern that all terms have in common is
    /// put outside.
    pub(super) fn sum(&mut self, nodes: &[Id]) -> Id {
        let (shape, dtype) = (self.shape(nodes[0]).clone(), self.dtype(nodes[0]));
        let mut open: Vec<Id> = nodes.iter().rev().copied().collect();
        let mut terms: Vec<Product> = Vec::new();
        let mut merged = false;
        while let Some(node) = open.pop() {
            if let Node::Sum(inner) = self.node(node) {
                open.extend(inner.iter().rev());
                continue;
            }
            let term = self.as_product(node);
            let like = |other: &&mut Product| {
                let same = Einsum { coefficient: other.einsum.coefficient, ..term.einsum.clone() };
                other.nodes == term.nodes && other.einsum == same
            };
            match terms.iter_mut().find(like) {
                Some(other) => {
                    other.einsum.coefficient += term.einsum.coefficient;
                    merged = true;
                }
                None => terms.push(term),
            }
        }
        terms.retain(|term| term.einsum.coefficient != 0.0);
        if terms.is_empty() {
            return self.zero(&shape, dtype);
        }
        let mut taken_out = false;
        let shared = if self.associative { common_factors(&mut terms) } else { Vec::new() };
        let result = match (&terms[..], common_pattern(&terms)) {
            ([only], _) if shared.is_empty() => self.product(only.einsum.clone(), only.nodes.clone(), dtype),
            _ if !shared.is_empty() => {
                let mut rest = Vec::new();
                for term in &terms {
                    rest.push(self.product(term.einsum.clone(), term.nodes.clone(), dtype));
                }
                let rest = self.sum(&rest);
                taken_out = true;
                let slots: Vec<Label> = (0..shape.rank()).collect();
                let (nodes, mut labels): (Vec<Id>, Vec<Vec<Label>>) = shared.into_iter().unzip();
                labels.push(slots.clone());
                let nodes = nodes.into_iter().chain([rest]).collect();
                self.product(Einsum::new(labels, slots, shape.to_vec()), nodes, dtype)
            }
            (_, Some(pattern)) => {
                let mut cores = Vec::new();
                for term in &terms {
                    let output = pattern.slots.iter().map(|slot| term.einsum.output[*slot]).collect();
                    let einsum = Einsum { output, ..term.einsum.clone() };
                    cores.push(self.product(einsum, term.nodes.clone(), dtype));
                }
                let core = self.sum(&cores);
                let labels = pattern.slots.iter().map(|slot| pattern.classes[*slot]).collect();
                self.product(Einsum::new(vec![labels], pattern.classes, shape.to_vec()), vec![core], dtype)
            }
            (_, None) => {
                let terms: Vec<Id> = terms
                    .into_iter()
                    .map(|term| match term.einsum.is_identity() {
                        true => term.nodes[0],
                        false => self.product(term.einsum, term.nodes, dtype),
                    })
                    .collect();
                self.intern_sum(terms)
            }
        };
        if merged || taken_out {
            let rule = if merged { "like terms become one" } else { "a common factor is taken out" };
            let before = |algebra: &Algebra| {
                (print::sum(algebra, nodes), nodes.iter().map(|node| algebra.as_product(*node)).collect())
            };
            self.note(rule, before, result);
        }
        result
    }

    /// Writes a step that costs nothing into the ledger if there is one.
    pub(super) fn note_terms(&mut self, rule: &'static str, before: Vec<Product>, after: Vec<Product>) {
        let text =
            |terms: &[Product]| print::joined(&terms.iter().map(|term| print::product(self, term)).collect::<Vec<_>>());
        let texts = [text(&before), text(&after)];
        if let Some(ledger) = &mut self.ledger
            && texts[0] != texts[1]
        {
            let [was, is] = texts;
            ledger.steps.push(Step { rule, before: was, after: is, flops_before: 0, flops_after: 0 });
            ledger.sides.push([before, after]);
        }
    }

    /// Writes a step into the ledger if there is one. What was before is written out only then.
    pub(super) fn note(
        &mut self,
        rule: &'static str,
        before: impl FnOnce(&Algebra) -> (String, Vec<Product>),
        result: Id,
    ) {
        let Some(mut ledger) = self.ledger.take() else { return };
        let (before, products) = before(self);
        let after = print::node(self, result);
        if before != after {
            let flops_after = match self.node(result) {
                Node::Product(product) => contract::flops(&product.einsum),
                _ => 0,
            };
            let flops_before = match &products[..] {
                [only] => contract::flops(&only.einsum),
                _ => flops_after,
            };
            ledger.steps.push(Step { rule, before, after, flops_before, flops_after });
            ledger.sides.push([products, vec![self.as_product(result)]]);
        }
        self.ledger = Some(ledger);
    }
}

/// A product in which some operands are replaced by products of the same shape: the labels of their outputs become
/// those that they are used with.
pub(super) fn substituted(written: &Product, inner: &[Option<Product>]) -> Product {
    let Einsum { operands, strong, output, extents, .. } = &written.einsum;
    let mut coefficient = written.einsum.coefficient;
    let mut classes = Classes::new(extents);
    let (mut labels, mut wins, mut nodes): (Vec<Vec<Label>>, Vec<bool>, Vec<Id>) = Default::default();
    for (operand, own) in operands.iter().enumerate() {
        let Some(inner) = &inner[operand] else {
            labels.push(own.clone());
            wins.push(strong[operand]);
            nodes.push(written.nodes[operand]);
            continue;
        };
        coefficient *= inner.einsum.coefficient;
        let first = classes.extend(&inner.einsum.extents);
        for (slot, label) in inner.einsum.output.iter().enumerate() {
            classes.join(own[slot], first + label);
        }
        labels.extend(inner.einsum.operands.iter().map(|own| own.iter().map(|label| first + label).collect()));
        wins.extend(inner.einsum.strong.iter().map(|wins| *wins || strong[operand]));
        nodes.extend(&inner.nodes);
    }
    let kept = classes.of(output);
    let labels: Vec<Vec<Label>> = labels.iter().map(|own| classes.of(own)).collect();
    // A label that was summed and that nothing depends on any more counts its values. Only labels that were in an
    // operand are summed: an extent alone is no sum.
    let mut summed: Vec<Label> = operands.iter().flatten().map(|label| classes.find(*label)).collect();
    summed.sort_unstable();
    summed.dedup();
    for label in summed {
        if !kept.contains(&label) && !labels.iter().any(|own| own.contains(&label)) {
            coefficient *= classes.extents[label] as f64;
        }
    }
    let einsum = Einsum { coefficient, operands: labels, strong: wins, output: kept, extents: classes.extents };
    Product { einsum, nodes, sealed: false }
}

/// Takes factors that all terms of a sum have, over the same slots, out of the terms: each with the slots of its axes.
fn common_factors(terms: &mut [Product]) -> Vec<(Id, Vec<usize>)> {
    let mut shared = Vec::new();
    let at = |term: &Product, node: Id, slots: &[usize]| {
        let labels: Vec<Label> = slots.iter().map(|slot| term.einsum.output[*slot]).collect();
        (0..term.nodes.len()).find(|place| term.nodes[*place] == node && term.einsum.operands[*place] == labels)
    };
    if terms.len() < 2 || terms.iter().any(|term| term.einsum.is_strong()) {
        return shared;
    }
    let candidates: Vec<(Id, Vec<Label>)> =
        terms[0].nodes.iter().copied().zip(terms[0].einsum.operands.iter().cloned()).collect();
    for (node, labels) in candidates {
        let slot = |label: &Label| terms[0].einsum.output.iter().position(|other| other == label);
        let Some(slots) = labels.iter().map(slot).collect::<Option<Vec<usize>>>() else { continue };
        let places: Option<Vec<usize>> = terms.iter().map(|term| at(term, node, &slots)).collect();
        let Some(places) = places else { continue };
        for (term, place) in terms.iter_mut().zip(places) {
            term.nodes.remove(place);
            term.einsum.operands.remove(place);
            term.einsum.strong.remove(place);
        }
        shared.push((node, slots));
    }
    shared
}

/// What the outputs of all terms of a sum have in common.
struct Pattern {
    /// For each slot the first slot that is tied to it in every term.
    classes: Vec<usize>,
    /// One slot for each class on which some term depends.
    slots: Vec<usize>,
}

fn common_pattern(terms: &[Product]) -> Option<Pattern> {
    let rank = terms[0].einsum.output.len();
    let tied = |one: usize, other: usize| terms.iter().all(|term| term.einsum.output[one] == term.einsum.output[other]);
    let classes: Vec<usize> =
        (0..rank).map(|slot| (0..slot).find(|earlier| tied(*earlier, slot)).unwrap_or(slot)).collect();
    let bound = |slot: usize| {
        terms.iter().any(|term| {
            // A label that other slots share in one term, and not in all, must stay visible inside.
            let label = term.einsum.output[slot];
            let elsewhere =
                (0..rank).any(|other| classes[other] != classes[slot] && term.einsum.output[other] == label);
            elsewhere || term.einsum.operands.iter().any(|labels| labels.contains(&label))
        })
    };
    let slots: Vec<usize> = (0..rank).filter(|slot| classes[*slot] == *slot && bound(*slot)).collect();
    (slots.len() < rank).then_some(Pattern { classes, slots })
}
