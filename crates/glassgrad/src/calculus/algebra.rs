//! The algebra of derivatives: tensors as given, products in Einstein notation, and sums.
//!
//! Nodes are interned: what is built twice is one node. There is no node for a unit tensor. A label that repeats in the
//! output of a product is a delta, and one that no operand has is a broadcast; together they are the *pattern* of the
//! product, and what is left is its *core*. A product is *sealed* if it is a core that is used as a whole: a contraction
//! whose parts are not to be multiplied apart. All others are open, and dissolve in the products that use them.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::effort::Effort;
use super::ledger::Ledger;
use crate::dtype::DType;
use crate::einsum::{Einsum, Label};
use crate::expr::{Op, Tensor};
use crate::hashing::{Fingerprint, Structure};
use crate::shape::Shape;
use crate::sorting::IndirectSort;

/// Up to this many elements, leaves are compared by value.
const SMALL: usize = 1 << 12;

/// The number of a node. Operands have smaller numbers than what they are used in.
pub(super) type Id = usize;

/// A product of nodes in Einstein notation.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub(super) einsum: Einsum,
    pub(super) nodes: Vec<Id>,
    pub(super) sealed: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A tensor that is computed anyway.
    Given(Tensor),
    Product(Product),
    /// A sum of nodes of one shape.
    Sum(Vec<Id>),
}

struct Entry {
    node: Node,
    shape: Shape,
    dtype: DType,
}

/// All nodes of one derivative.
pub(super) struct Algebra {
    entries: Vec<Entry>,
    known: HashMap<u128, Id>,
    /// Whether products dissolve in one another, so that their factors can be associated anew. Otherwise only deltas
    /// and broadcasts do, and products stay in the order of the sweep.
    pub(super) associative: bool,
    pub(super) ledger: Option<Ledger>,
    /// The nodes of tensors that were given before, by number.
    tensors_seen: HashMap<u64, Id>,
    /// Selection nodes: arrays of zeros and ones.
    pub(super) selections: HashSet<Id>,
    /// Nodes that are 1 where integers say and 0 elsewhere, each with the node of these integers.
    pub(super) gathers: HashMap<Id, Id>,
    /// What the search for the cheapest form has spent.
    pub(super) effort: RefCell<Effort>,
}

impl Algebra {
    pub(super) fn new(associative: bool) -> Algebra {
        Algebra {
            entries: Vec::new(),
            known: HashMap::new(),
            associative,
            ledger: None,
            tensors_seen: HashMap::new(),
            selections: HashSet::new(),
            gathers: HashMap::new(),
            effort: RefCell::default(),
        }
    }

    /// How many nodes there are.
    pub(super) fn size(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn node(&self, id: Id) -> &Node {
        &self.entries[id].node
    }

    /// All nodes, in order.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.entries.iter().map(|entry| &entry.node)
    }

    pub(super) fn shape(&self, id: Id) -> &Shape {
        &self.entries[id].shape
    }

    pub(super) fn dtype(&self, id: Id) -> DType {
        self.entries[id].dtype
    }

    pub(super) fn elements(&self, id: Id) -> u128 {
        self.shape(id).iter().fold(1, |product: u128, size| product.saturating_mul(*size as u128))
    }

    fn intern(&mut self, key: u128, node: Node, shape: Shape, dtype: DType) -> Id {
        let entries = &mut self.entries;
        *self.known.entry(key).or_insert_with(|| {
            entries.push(Entry { node, shape, dtype });
            entries.len() - 1
        })
    }

    /// A tensor as it is. Small leaves with the same elements are one node, and so are the same formulas, and operations of
    /// people's own that mean the same, of the same nodes.
    pub(super) fn given(&mut self, tensor: &Tensor) -> Id {
        if let Some(known) = self.tensors_seen.get(&tensor.0.id) {
            return *known;
        }
        let mut key = Fingerprint::default();
        let inputs = tensor.inputs();
        let of_inputs =
            |algebra: &mut Algebra| -> Vec<Id> { inputs.iter().map(|input| algebra.given(input)).collect() };
        match tensor.op() {
            Op::Leaf if tensor.shape().elements() <= SMALL && tensor.name().is_none() && tensor.error().is_none() => {
                key.word(4 | (tensor.dtype() as u64) << 8);
                key.words(tensor.shape());
                if let Ok(array) = tensor.eval() {
                    (0..array.buffer().len()).for_each(|place| key.word(array.buffer().get(place).to_bits()));
                }
            }
            Op::Custom(custom) if !inputs.is_empty() && custom.0.meaning().is_some() => {
                key.word(5);
                key.text(&custom.0.meaning().unwrap_or_default());
                key.words(&of_inputs(self));
            }
            Op::Map(formula) if !inputs.is_empty() => {
                key.word(6);
                key.shared(formula);
                key.words(&of_inputs(self));
            }
            Op::Variable if inputs.len() == 1 && tensor.name().is_none() => return self.given(&inputs[0]),
            _ => {
                key.word(1);
                key.word(tensor.0.id);
            }
        }
        let id = self.intern(key.finish(), Node::Given(tensor.clone()), tensor.shape().clone(), tensor.dtype());
        self.tensors_seen.insert(tensor.0.id, id);
        id
    }

    /// Ones at the places along an axis of some size that integers name. The same integers make the same node.
    pub(super) fn gather(&mut self, indices: Id, size: usize, dtype: DType) -> Id {
        let mut key = Fingerprint::default();
        key.words(&[7, indices, size, dtype as usize]);
        let ones = self.tensors(&[indices])[0].one_hot(size, dtype);
        let node = self.intern(key.finish(), Node::Given(ones.clone()), ones.shape().clone(), dtype);
        self.gathers.insert(node, indices);
        node
    }

    /// Whether a node depends on a one-hot array at integer indices.
    pub(super) fn hides_gather(&self, id: Id) -> bool {
        !self.gathers.is_empty()
            && !self.gathers.contains_key(&id)
            && self.behind(&[id]).iter().any(|node| self.gathers.contains_key(node))
    }

    /// A product in its canonical form.
    pub(super) fn intern_product(&mut self, product: Product, dtype: DType) -> Id {
        let mut key = Fingerprint::default();
        key.word(2 | (dtype as u64) << 8 | u64::from(product.sealed) << 16);
        product.einsum.mix_into(&mut key);
        key.words(&product.nodes);
        let shape = product.einsum.output_shape();
        self.intern(key.finish(), Node::Product(product), shape, dtype)
    }

    /// A sum of two nodes or more, in the order of their numbers.
    pub(super) fn intern_sum(&mut self, mut terms: Vec<Id>) -> Id {
        terms.indirect_sort();
        let mut key = Fingerprint::default();
        key.word(3);
        key.words(&terms);
        let (shape, dtype) = (self.shape(terms[0]).clone(), self.dtype(terms[0]));
        self.intern(key.finish(), Node::Sum(terms), shape, dtype)
    }

    /// Any node as a product: what is none is the product of itself alone.
    pub(super) fn as_product(&self, id: Id) -> Product {
        match self.node(id) {
            Node::Product(product) if !product.sealed => product.clone(),
            _ => {
                let labels: Vec<Label> = (0..self.shape(id).rank()).collect();
                let einsum = Einsum::new(vec![labels.clone()], labels, self.shape(id).to_vec());
                Product { einsum, nodes: vec![id], sealed: false }
            }
        }
    }

    /// Whether a node is zero by its structure.
    pub(super) fn is_zero(&self, id: Id) -> bool {
        matches!(self.node(id), Node::Product(product) if product.einsum.coefficient == 0.0)
    }

    /// The nodes that some nodes depend on, themselves included, in topological order.
    pub(super) fn behind(&self, roots: &[Id]) -> Vec<Id> {
        let mut needed = vec![false; self.entries.len()];
        roots.iter().for_each(|root| needed[*root] = true);
        for id in (0..self.entries.len()).rev() {
            if needed[id] {
                match self.node(id) {
                    Node::Given(_) => {}
                    Node::Product(product) => product.nodes.iter().for_each(|operand| needed[*operand] = true),
                    Node::Sum(terms) => terms.iter().for_each(|term| needed[*term] = true),
                }
            }
        }
        (0..self.entries.len()).filter(|id| needed[*id]).collect()
    }

    /// The tensors that some nodes stand for: ordinary graphs, which the planner associates by cost.
    pub(super) fn tensors(&self, roots: &[Id]) -> Vec<Tensor> {
        let mut tensors: HashMap<Id, Tensor> = HashMap::new();
        for id in self.behind(roots) {
            let tensor = match self.node(id) {
                Node::Given(tensor) => tensor.clone(),
                Node::Sum(terms) => {
                    Tensor::add_all("add", &terms.iter().map(|term| &tensors[term]).collect::<Vec<_>>())
                }
                Node::Product(product) if product.nodes.is_empty() => {
                    Tensor::unbound(product.einsum.clone(), self.dtype(id))
                }
                Node::Product(product) => {
                    let operands: Vec<&Tensor> = product.nodes.iter().map(|operand| &tensors[operand]).collect();
                    Tensor::contract(product.einsum.clone(), &operands)
                }
            };
            tensors.insert(id, tensor);
        }
        roots.iter().map(|root| tensors[root].clone()).collect()
    }
}

/// Labels that become one as products dissolve in one another.
pub(super) struct Classes {
    parents: Vec<usize>,
    pub(super) extents: Vec<usize>,
}

impl Classes {
    pub(super) fn new(extents: &[usize]) -> Classes {
        Classes { parents: (0..extents.len()).collect(), extents: extents.to_vec() }
    }

    /// Adds labels of these extents and returns the number of the first.
    pub(super) fn extend(&mut self, extents: &[usize]) -> usize {
        let first = self.parents.len();
        self.parents.extend(first..first + extents.len());
        self.extents.extend_from_slice(extents);
        first
    }

    pub(super) fn find(&self, mut label: usize) -> usize {
        while self.parents[label] != label {
            label = self.parents[label];
        }
        label
    }

    pub(super) fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        // The smaller number stays, so that what was there first keeps its name.
        self.parents[one.max(other)] = one.min(other);
    }

    pub(super) fn of(&self, labels: &[Label]) -> Vec<Label> {
        labels.iter().map(|label| self.find(*label)).collect()
    }
}

/// A product in canonical form: operands in an order that does not depend on how it was written, labels numbered by
/// appearance in the output and then in the operands, and no label that nothing has.
///
/// Labels are distinguished by colour refinement: at first by their extents and their places in the output, then by the operands
/// that they lead to, and so on. With `free_output` the order of the output is chosen here too, by the same marks, so that
/// a matrix and its transpose are one core; the labels of the output in their new order are returned.
pub(super) fn canonical(product: &Product, free_output: bool) -> (Product, Vec<Label>) {
    let Einsum { coefficient, operands, strong, output, extents } = &product.einsum;
    let mix = |words: &[u64]| {
        let mut hash = Fingerprint::default();
        words.iter().for_each(|word| hash.word(*word));
        hash.finish() as u64
    };
    let mut colours: Vec<u64> = (0..extents.len())
        .map(|label| {
            let mut words = vec![extents[label] as u64];
            match free_output {
                true => words.push(u64::from(output.contains(&label))),
                false => words.extend((0..output.len()).filter(|slot| output[*slot] == label).map(|slot| slot as u64)),
            }
            mix(&words)
        })
        .collect();
    let shade = |colours: &[u64], operand: usize| {
        let mut words = vec![product.nodes[operand] as u64, u64::from(strong[operand])];
        words.extend(operands[operand].iter().map(|label| colours[*label]));
        mix(&words)
    };
    for _ in 0..operands.len().min(4) + 1 {
        let shades: Vec<u64> = (0..operands.len()).map(|operand| shade(&colours, operand)).collect();
        colours = (0..extents.len())
            .map(|label| {
                let places = operands.iter().zip(&shades).flat_map(|(labels, shade)| {
                    let axes = labels.iter().enumerate().filter(|(_, own)| **own == label);
                    axes.map(|(axis, _)| mix(&[*shade, axis as u64])).collect::<Vec<_>>()
                });
                let mut words: Vec<u64> = places.collect();
                words.indirect_sort();
                words.push(colours[label]);
                mix(&words)
            })
            .collect();
    }
    let mut order: Vec<usize> = (0..operands.len()).collect();
    order.indirect_sort_by_key(|operand| (product.nodes[*operand], shade(&colours, *operand)));
    let mut kept: Vec<Label> = output.clone();
    if free_output {
        let appearance = |label: &Label| order.iter().position(|operand| operands[*operand].contains(label));
        kept.indirect_sort_by_key(|label| (appearance(label), colours[*label]));
    }
    let mut numbers: Vec<Option<Label>> = vec![None; extents.len()];
    let mut sizes = Vec::new();
    let mut number = |label: Label| {
        *numbers[label].get_or_insert_with(|| {
            sizes.push(extents[label]);
            sizes.len() - 1
        })
    };
    let output: Vec<Label> = kept.iter().map(|label| number(*label)).collect();
    let labels: Vec<Vec<Label>> =
        order.iter().map(|operand| operands[*operand].iter().map(|label| number(*label)).collect()).collect();
    let einsum = Einsum {
        coefficient: *coefficient,
        operands: labels,
        strong: order.iter().map(|operand| strong[*operand]).collect(),
        output,
        extents: sizes,
    };
    let nodes = order.iter().map(|operand| product.nodes[*operand]).collect();
    (Product { einsum, nodes, sealed: product.sealed }, kept)
}
