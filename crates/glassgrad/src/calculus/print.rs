//! Expressions in Einstein notation: `2·V_mj V_ml δ_ik`.

use super::algebra::{Algebra, Id, Node, Product};
use super::construct::substituted;
use crate::einsum::{Einsum, Label};
use crate::expr::{Op, Tensor};
use crate::formula::number;
use crate::sorting::IndirectSort;

/// Sums with more terms, and expressions nested deeper, are shortened.
const TERMS: usize = 4;
const DEPTH: usize = 2;
/// The most factors of a product that is written out.
const FACTORS: usize = 6;

/// The letters of labels, from i on, as people write them.
pub(super) fn letter(label: Label) -> String {
    let alphabet: Vec<char> = ('i'..='z').chain('a'..='h').chain('A'..='Z').chain('α'..='ω').collect();
    alphabet.get(label).map_or_else(|| format!("({label})"), char::to_string)
}

/// The name of a tensor, or what makes it in a few words.
pub(super) fn name(tensor: &Tensor) -> String {
    if let Some(name) = tensor.name() {
        return name.to_owned();
    }
    let behind = tensor.inputs();
    match tensor.op() {
        Op::Leaf if tensor.rank() == 0 => tensor.item().map_or_else(|_| "c".to_owned(), number),
        Op::Leaf => "A".to_owned(),
        Op::Placeholder => "x".to_owned(),
        Op::Variable if behind.len() == 1 => name(&behind[0]),
        Op::Map(_) if behind.iter().all(|input| input.name().is_some()) => {
            let names: Vec<String> = behind.iter().map(name).collect();
            format!("[{}]", tensor.op().written(&names))
        }
        op => {
            let name = op.name();
            let short: String = name.chars().take_while(|character| *character != ' ').collect();
            format!("[{short}]")
        }
    }
}

pub(super) fn node(algebra: &Algebra, id: Id) -> String {
    product(algebra, &algebra.as_product(id))
}

pub(super) fn product(algebra: &Algebra, product: &Product) -> String {
    let slots: Vec<String> = (0..product.einsum.output.len()).map(letter).collect();
    written(algebra, product, &slots, &slots, DEPTH)
}

pub(super) fn sum(algebra: &Algebra, terms: &[Id]) -> String {
    let texts: Vec<String> = terms.iter().map(|term| node(algebra, *term)).collect();
    joined(&texts)
}

/// Terms with their signs.
pub(super) fn joined(texts: &[String]) -> String {
    let mut result = String::new();
    for (place, text) in texts.iter().take(TERMS).enumerate() {
        match (place, text.strip_prefix('-')) {
            (0, _) => result.push_str(text),
            (_, Some(positive)) => result.push_str(&format!(" - {positive}")),
            (_, None) => result.push_str(&format!(" + {text}")),
        }
    }
    if texts.len() > TERMS {
        result.push_str(&format!(" + {} more", texts.len() - TERMS));
    }
    result
}

/// The product with contractions inside of it written out, while it stays short.
fn written_out(algebra: &Algebra, product: &Product) -> Product {
    let mut product = product.clone();
    loop {
        let inner: Vec<Option<Product>> = (product.nodes.iter())
            .map(|node| match algebra.node(*node) {
                Node::Product(inner) if inner.sealed && !product.einsum.is_strong() && !inner.einsum.is_strong() => {
                    Some(inner.clone())
                }
                _ => None,
            })
            .collect();
        let count: usize = inner.iter().map(|inner| inner.as_ref().map_or(1, |inner| inner.nodes.len())).sum();
        if count > FACTORS || inner.iter().all(Option::is_none) {
            return product;
        }
        product = substituted(&product, &inner);
    }
}

/// A product whose output slots have these letters, where some letters are taken.
fn written(algebra: &Algebra, product: &Product, slots: &[String], taken: &[String], depth: usize) -> String {
    let product = written_out(algebra, product);
    let Einsum { coefficient, operands, output, extents, .. } = &product.einsum;
    // A label has the letter of its first slot; summed labels take letters that are free.
    let mut letters: Vec<Option<String>> = vec![None; extents.len()];
    for (slot, label) in output.iter().enumerate() {
        letters[*label].get_or_insert_with(|| slots[slot].clone());
    }
    let mut taken = taken.to_vec();
    for label in operands.iter().flatten() {
        letters[*label].get_or_insert_with(|| {
            let free = (0..).map(letter).find(|letter| !taken.contains(letter)).unwrap_or_default();
            taken.push(free.clone());
            free
        });
    }
    let letters: Vec<String> = letters.into_iter().map(Option::unwrap_or_default).collect();
    let mut factors: Vec<String> = Vec::new();
    for (node, labels) in product.nodes.iter().zip(operands) {
        let own: Vec<String> = labels.iter().map(|label| letters[*label].clone()).collect();
        factors.push(factor(algebra, *node, &own, &taken, depth));
    }
    factors.indirect_sort();
    let tied = output.iter().enumerate().filter(|(slot, label)| letters[**label] != slots[*slot]);
    let mut deltas: Vec<String> = tied.map(|(slot, label)| format!("δ_{}{}", letters[*label], slots[slot])).collect();
    deltas.indirect_sort();
    factors.append(&mut deltas);
    let factors = factors.join(" ");
    match *coefficient {
        value if factors.is_empty() => number(value),
        1.0 => factors,
        -1.0 => format!("-{factors}"),
        value => format!("{}·{factors}", number(value)),
    }
}

fn factor(algebra: &Algebra, id: Id, letters: &[String], taken: &[String], depth: usize) -> String {
    match algebra.node(id) {
        Node::Given(tensor) if letters.is_empty() => name(tensor),
        Node::Given(tensor) => format!("{}_{}", name(tensor), letters.concat()),
        _ if depth == 0 => format!("(…)_{}", letters.concat()),
        Node::Product(product) => format!("({})", written(algebra, product, letters, taken, depth - 1)),
        Node::Sum(terms) => {
            let own = |term: &Id| written(algebra, &algebra.as_product(*term), letters, taken, depth - 1);
            format!("({})", joined(&terms.iter().map(own).collect::<Vec<_>>()))
        }
    }
}
