//! Stored factors of a derivative: products, solutions and printing, over lists of leaves.

use std::fmt;
use std::sync::Arc;

use super::block::{Layout, LeafSlot, Term, array};
use super::structure::{self, Structure};
use super::system::dense_block;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::Tensor;
use crate::opt::contract::metric;
use crate::shape::Shape;
use crate::tree::Tree;

/// The stored factors and their blocks. Leaves of trees are lists here.
pub(super) struct Held {
    pub(super) layout: Arc<Layout>,
    pub(super) factors: Vec<Tensor>,
}

impl Held {
    /// The leaves of a tree that take part, which must have the shapes and types of the places.
    pub(super) fn leaves<T: Tree>(operation: &str, tree: &T, places: &[LeafSlot]) -> Result<Vec<Tensor>, Error> {
        let leaves = tree.flatten();
        let mut found = Vec::new();
        for place in places {
            let Some(leaf) = leaves.get(place.leaf) else {
                let message = format!("there is no leaf {:?} in what it is applied to", place.path);
                return Err(Error::new(operation, message));
            };
            if let Some(error) = leaf.error() {
                return Err(error.clone());
            }
            if leaf.shape() != &place.shape || leaf.dtype() != place.dtype {
                let message =
                    format!("leaf {:?} must be {}{}, not {}", place.path, place.dtype, place.shape, leaf.describe());
                return Err(Error::new(operation, message).at(leaf.origin()));
            }
            found.push(leaf.clone());
        }
        Ok(found)
    }

    /// A tree of some shape with these leaves at their places and zeros elsewhere.
    pub(super) fn tree<T: Tree>(model: &T, places: &[LeafSlot], tensors: Vec<Tensor>) -> T {
        let mut leaves: Vec<Tensor> =
            model.flatten().iter().map(|leaf| Tensor::full(leaf.shape().clone(), 0.0, leaf.dtype())).collect();
        places.iter().zip(tensors).for_each(|(place, tensor)| leaves[place.leaf] = tensor);
        model.with_leaves(leaves)
    }

    /// The product with vectors, one for each column.
    pub(super) fn product(&self, vectors: &[Tensor], transposed: bool) -> Vec<Tensor> {
        let Layout { rows, columns, blocks, .. } = &*self.layout;
        let (results, operands) = if transposed { (columns, rows) } else { (rows, columns) };
        if self.is_mixed() {
            let vectors: Vec<Tensor> = vectors.iter().map(|vector| vector.cast(DType::F64)).collect();
            let found = self.in_double().product(&vectors, transposed);
            return found.iter().zip(results).map(|(found, place)| found.cast(place.dtype)).collect();
        }
        let one = |(result, place): (usize, &LeafSlot)| {
            let mut parts = Vec::new();
            for (operand, vector) in vectors.iter().enumerate().take(operands.len()) {
                let (row, column) = if transposed { (operand, result) } else { (result, operand) };
                for term in &blocks[row][column] {
                    let (output, labels) =
                        if transposed { (&term.columns, &term.rows) } else { (&term.rows, &term.columns) };
                    parts.push(term.contracted(&self.factors, &[(vector, labels)], output, place.dtype));
                }
            }
            match &parts[..] {
                [] => Tensor::full(place.shape.clone(), 0.0, place.dtype),
                parts => Tensor::add_all("add", &parts.iter().collect::<Vec<_>>()),
            }
        };
        results.iter().enumerate().map(one).collect()
    }

    /// Whether leaves or factors of several types of real numbers meet. Products are then computed in 64 bits.
    fn is_mixed(&self) -> bool {
        let Layout { rows, columns, .. } = &*self.layout;
        let factors = self.factors.iter().filter(|factor| factor.is_float()).map(Tensor::dtype);
        let mut all = rows.iter().chain(columns).map(|place| place.dtype).chain(factors);
        all.next().is_some_and(|first| all.any(|other| other != first))
    }

    /// The diagonal, leaf by leaf.
    pub(super) fn diagonal(&self, operation: &str) -> Result<Vec<Tensor>, Error> {
        self.square(operation)?;
        if self.is_mixed() {
            let found = self.in_double().diagonal(operation)?;
            return Ok(found.iter().zip(&self.layout.rows).map(|(own, place)| own.cast(place.dtype)).collect());
        }
        let one = |(leaf, place): (usize, &LeafSlot)| {
            let terms = self.layout.blocks[leaf][leaf].iter().map(Term::diagonal);
            let parts: Vec<Tensor> =
                terms.map(|term| term.contracted(&self.factors, &[], &term.rows, place.dtype)).collect();
            match &parts[..] {
                [] => Tensor::full(place.shape.clone(), 0.0, place.dtype),
                parts => Tensor::add_all("add", &parts.iter().collect::<Vec<_>>()),
            }
        };
        Ok(self.layout.rows.iter().enumerate().map(one).collect())
    }

    fn square(&self, operation: &str) -> Result<(), Error> {
        let Layout { rows, columns, .. } = &*self.layout;
        if rows.len() == columns.len() && rows.iter().zip(columns).all(|(row, column)| row.shape == column.shape) {
            return Ok(());
        }
        let shapes =
            |places: &[LeafSlot]| places.iter().map(|place| place.shape.to_string()).collect::<Vec<_>>().join(", ");
        let message = format!("rows of the shapes {} are not columns of the shapes {}", shapes(rows), shapes(columns));
        Err(Error::new(operation, message))
    }

    pub(super) fn trace(&self) -> Result<f64, Error> {
        self.square("trace")?;
        if self.is_mixed() {
            return self.in_double().trace();
        }
        let mut total = 0.0;
        for leaf in 0..self.layout.rows.len() {
            for term in self.layout.blocks[leaf][leaf].iter().map(Term::traced) {
                total += term.contracted(&self.factors, &[], &[], self.layout.rows[leaf].dtype).item()?;
            }
        }
        Ok(total)
    }

    pub(super) fn bytes(&self) -> usize {
        self.factors.iter().map(|factor| factor.shape().elements() * factor.dtype().bytes()).sum()
    }

    pub(super) fn dense(&self) -> Result<Tensor, Error> {
        let Layout { rows, columns, limit, .. } = &*self.layout;
        let bytes = self.layout.dense_bytes();
        if bytes > *limit {
            let message = format!("the dense array takes {}", metric(bytes, "B"));
            return Err(Error::new("to_dense", message)
                .help(format!("the limit is {}; raise it with .limit(bytes)", metric(*limit, "B"))));
        }
        if self.is_mixed() {
            return self.in_double().dense();
        }
        let dtype = rows.first().map_or(DType::F64, |place| place.dtype);
        if let ([row], [column]) = (&rows[..], &columns[..]) {
            let block = dense_block(&self.layout, &self.factors, 0, 0)?;
            return Ok(Tensor::leaf(array(row.shape.followed_by(&column.shape), dtype, block)));
        }
        let width: usize = columns.iter().map(|place| place.shape.elements()).sum();
        let mut matrix: Vec<f64> = Vec::new();
        for (row, place) in rows.iter().enumerate() {
            let height = place.shape.elements();
            let blocks = (0..columns.len()).map(|column| dense_block(&self.layout, &self.factors, row, column));
            let blocks = blocks.collect::<Result<Vec<_>, Error>>()?;
            for line in 0..height {
                for (block, column) in blocks.iter().zip(columns) {
                    let count = column.shape.elements();
                    matrix.extend_from_slice(&block[line * count..(line + 1) * count]);
                }
            }
        }
        let height = matrix.len().checked_div(width).unwrap_or_default();
        Ok(Tensor::leaf(array(Shape::from([height, width]), dtype, matrix)))
    }

    pub(super) fn structure(&self) -> Structure {
        let Layout { rows, columns, blocks, .. } = &*self.layout;
        let of = |row: usize, column: usize| {
            structure::structure(&blocks[row][column], &rows[row].shape, &columns[column].shape)
        };
        match (rows.len(), columns.len()) {
            (1, 1) => of(0, 0),
            (height, width) => {
                Structure::Leaves((0..height).map(|row| (0..width).map(|column| of(row, column)).collect()).collect())
            }
        }
    }

    pub(super) fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (held, dense) = (metric(self.bytes() as u128, "B"), metric(self.layout.dense_bytes(), "B"));
        write!(formatter, "{}\n{}; dense {dense}, held {held}", structure::expression(&self.layout), self.structure())
    }
}
