//! Sizes at which derivatives are written and checked, and points at which expressions have values.

use std::collections::HashMap;

use super::indexed::Names;
use super::lower::{EYE, Leaf, ONES, lower};
use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::expr::Tensor;
use crate::lang::matrix::{MatrixExpression, Size};
use crate::rng::Key;
use crate::shape::Shape;
use crate::sorting::IndirectSort;

/// Up to this number, sizes are taken as they are given.
const SMALL: usize = 9;

/// Numbers for the sizes of an expression.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    numbers: HashMap<String, usize>,
}

impl Sizes {
    pub(super) fn new(numbers: &[(String, usize)]) -> Sizes {
        Sizes { numbers: numbers.iter().cloned().collect() }
    }

    pub(super) fn number(&self, size: &Size) -> usize {
        match size {
            Size::Name(name) => self.numbers.get(name).copied().unwrap_or(3),
            Size::Number(number) => *number,
            Size::Unknown(_) => 1,
        }
    }

    /// Small distinct sizes, in the order of these, so that an extent determines the name of its size.
    pub(super) fn distinct(&self, expression: &MatrixExpression, shift: usize) -> Sizes {
        let literal = |number: usize| {
            expression.types.iter().flat_map(|own| &own.sizes).any(|size| *size == Size::Number(number))
        };
        let mut names: Vec<(&String, usize)> = self.numbers.iter().map(|(name, number)| (name, *number)).collect();
        names.indirect_sort_by(|one, other| (one.1, one.0).cmp(&(other.1, other.0)));
        let distinct = names.windows(2).all(|pair| pair[0].1 != pair[1].1);
        let small = names.iter().all(|(_, number)| (2..=SMALL).contains(number) && !literal(*number));
        if distinct && small && shift == 0 {
            return self.clone();
        }
        let free = (3 + shift..).filter(|number| !literal(*number));
        Sizes { numbers: names.into_iter().map(|(name, _)| name.clone()).zip(free).collect() }
    }

    /// The names of extents.
    pub(super) fn names(&self) -> Names {
        Names(self.numbers.iter().map(|(name, number)| (*number, Size::Name(name.clone()))).collect())
    }

    pub(super) fn symbols(&self) -> Vec<String> {
        self.numbers.keys().cloned().collect()
    }

    pub(super) fn value(&self, name: &str) -> usize {
        self.numbers.get(name).copied().unwrap_or(1)
    }
}

/// The leaves of an expression at some sizes.
pub(super) struct Leaves {
    pub(super) sizes: Sizes,
    tensors: HashMap<(String, Vec<usize>), Tensor>,
    kind: Kind,
}

/// Where the elements of leaves come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// There are none: only shapes matter.
    Placeholders,
    /// Random numbers of both signs.
    Normal,
    /// Random numbers between a half and one and a half.
    Positive,
    /// The same, with square matrices whose determinant is positive.
    Dominant,
}

impl Leaves {
    pub(super) fn new(sizes: Sizes, kind: Kind) -> Leaves {
        Leaves { sizes, tensors: HashMap::new(), kind }
    }

    /// Puts a tensor in the place of a symbol.
    pub(super) fn replace(&mut self, name: &str, tensor: Tensor) {
        let shape = tensor.shape().to_vec();
        self.tensors.insert((name.to_owned(), shape), tensor);
    }

    /// The leaf of a symbol.
    pub(super) fn symbol(&mut self, name: &str, shape: &[usize]) -> Tensor {
        self.leaf(Leaf::Symbol(name), shape)
    }

    fn leaf(&mut self, leaf: Leaf<'_>, shape: &[usize]) -> Tensor {
        let name = match leaf {
            Leaf::Symbol(name) | Leaf::Size(name) => name,
            Leaf::Ones => ONES,
            Leaf::Eye => EYE,
        };
        let key = (name.to_owned(), shape.to_vec());
        if let Some(known) = self.tensors.get(&key) {
            return known.clone();
        }
        let tensor = match self.kind {
            Kind::Placeholders => Tensor::placeholder(Shape::from(shape), DType::F64).named(name),
            kind => {
                let value = |place: usize| match leaf {
                    Leaf::Ones => 1.0,
                    Leaf::Eye => f64::from(u8::from(place.is_multiple_of(shape[0] + 1))),
                    Leaf::Size(name) => self.sizes.value(name) as f64,
                    Leaf::Symbol(name) => element(name, shape, place, kind),
                };
                let elements: Vec<f64> = (0..shape.iter().product()).map(value).collect();
                Tensor::leaf(Array::new(Shape::from(shape), Buffer::F64(elements))).named(name)
            }
        };
        self.tensors.insert(key, tensor.clone());
        tensor
    }

    /// The graph of an expression over these leaves.
    pub(super) fn lower(&mut self, expression: &MatrixExpression) -> Tensor {
        let sizes = self.sizes.clone();
        lower(expression, &mut |leaf, shape| self.leaf(leaf, shape), &|size| sizes.number(size))
    }
}

/// One element of a random leaf.
fn element(name: &str, shape: &[usize], place: usize, kind: Kind) -> f64 {
    let stream = name.bytes().fold(17_u64, |stream, byte| stream.wrapping_mul(131).wrapping_add(u64::from(byte)));
    let (key, index) = (Key::new(stream), place as u64);
    match kind {
        Kind::Placeholders => 0.0,
        Kind::Normal => key.normal(index),
        Kind::Positive => 0.5 + key.uniform(index),
        Kind::Dominant => {
            let diagonal = shape.len() == 2 && shape[0] == shape[1] && place.is_multiple_of(shape[0] + 1);
            0.5 + key.uniform(index) + if diagonal { shape[0] as f64 * 1.5 } else { 0.0 }
        }
    }
}
