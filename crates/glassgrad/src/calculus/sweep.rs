//! Sweeps: the derivative of outputs with respect to variables, as nodes of the algebra.
//!
//! A sweep makes the graph of a product of the Jacobian with a placeholder, by the rules that every derivative here is
//! derived from, and reads it with the unit tensor in place of the placeholder. In reverse one sweep gives the rows of one
//! output, forwards the columns of one variable, and where both are joined at a cut, the derivative is the sum over
//! the nodes v of the cut of ∂y/∂v times ∂v/∂x.

use std::collections::HashSet;
use std::sync::Arc;

use super::algebra::{Algebra, Id};
use super::read::read;
use crate::diff::{dependent_nodes, pullback, pushforward};
use crate::einsum::{Einsum, Label};
use crate::error::Error;
use crate::expr::{Node, Op, Partial, Pass, ProvenanceScope, Tensor, partial};

/// The direction in which the partial derivatives of a function are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Reverse,
    /// Forward up to the narrowest cut, and in reverse down to it.
    Joined,
}

/// The derivatives of each output by each variable, `None` where there is no dependence: the axes of the output, then
/// those of the variable.
pub(super) type Blocks = Vec<Vec<Option<Id>>>;

/// The derivatives of some outputs. With `symmetric` only blocks on and above the diagonal are asked for.
pub(super) fn sweep(
    algebra: &mut Algebra,
    outputs: &[Tensor],
    variables: &[Tensor],
    direction: Direction,
    symmetric: bool,
    limit: u128,
) -> Result<Blocks, Error> {
    let mut blocks: Blocks = vec![vec![None; variables.len()]; outputs.len()];
    let asked = |row: usize, column: usize| !symmetric || column >= row;
    match direction {
        Direction::Reverse => {
            for (row, output) in outputs.iter().enumerate() {
                let targets: Vec<&Tensor> = (0..variables.len())
                    .filter(|column| asked(row, *column))
                    .map(|column| &variables[column])
                    .collect();
                let found = pulled(algebra, output, &targets, limit)?;
                for (column, block) in (0..variables.len()).filter(|column| asked(row, *column)).zip(found) {
                    blocks[row][column] = block;
                }
            }
        }
        Direction::Forward => {
            for (column, variable) in variables.iter().enumerate() {
                let rows: Vec<usize> = (0..outputs.len()).filter(|row| asked(*row, column)).collect();
                let targets: Vec<&Tensor> = rows.iter().map(|row| &outputs[*row]).collect();
                for (row, block) in rows.iter().zip(pushed(algebra, &targets, variable, limit)?) {
                    let turned = block.map(|block| transposed(algebra, block, variable.rank()));
                    blocks[*row][column] = turned;
                }
            }
        }
        Direction::Joined => {
            for (row, output) in outputs.iter().enumerate() {
                for column in (0..variables.len()).filter(|column| asked(row, *column)) {
                    blocks[row][column] = joined(algebra, output, &variables[column], limit)?;
                }
            }
        }
    }
    Ok(blocks)
}

fn placeholder_like(tensor: &Tensor) -> Tensor {
    Tensor::placeholder(tensor.shape().clone(), tensor.dtype())
}

/// The derivatives of an output by some tensors behind it.
fn pulled(algebra: &mut Algebra, output: &Tensor, behind: &[&Tensor], limit: u128) -> Result<Vec<Option<Id>>, Error> {
    let _provenance = ProvenanceScope::of(&output.0, Pass::Derivative);
    let cotangent = placeholder_like(output);
    let found = pullback(&[(output, cotangent.clone())], behind, &[]);
    read(algebra, &cotangent, &found, limit)
}

/// The derivatives of some tensors by one behind them, whose axes come first.
fn pushed(
    algebra: &mut Algebra,
    outputs: &[&Tensor],
    variable: &Tensor,
    limit: u128,
) -> Result<Vec<Option<Id>>, Error> {
    let tangent = placeholder_like(variable);
    let found = pushforward(outputs, &[(variable, tangent.clone())], &[]);
    read(algebra, &tangent, &found, limit)
}

/// The same node with its first `count` axes behind the others.
fn transposed(algebra: &mut Algebra, node: Id, count: usize) -> Id {
    let shape = algebra.shape(node).clone();
    let order: Vec<usize> = (count..shape.rank()).chain(0..count).collect();
    let dtype = algebra.dtype(node);
    algebra.product(Einsum::permutation(&shape, &order), vec![node], dtype)
}

/// Σ over the nodes v of a cut of ∂y/∂v times ∂v/∂x.
fn joined(algebra: &mut Algebra, output: &Tensor, variable: &Tensor, limit: u128) -> Result<Option<Id>, Error> {
    let cut = narrowest_cut(output, variable);
    if cut.is_empty() {
        return Ok(None);
    }
    let targets: Vec<&Tensor> = cut.iter().collect();
    let above = pulled(algebra, output, &targets, limit)?;
    let below = pushed(algebra, &targets, variable, limit)?;
    let mut terms = Vec::new();
    for ((above, below), node) in above.into_iter().zip(below).zip(&cut) {
        let (Some(above), Some(below)) = (above, below) else { continue };
        let sizes = [output.shape().to_vec(), node.shape().to_vec(), variable.shape().to_vec()];
        let (rows, inner) = (output.rank(), node.rank());
        let labels = |from: usize, count: usize| (from..from + count).collect::<Vec<Label>>();
        let (y, v, x) = (labels(0, rows), labels(rows, inner), labels(rows + inner, variable.rank()));
        let einsum = Einsum::new(
            vec![[y.clone(), v.clone()].concat(), [x.clone(), v].concat()],
            [y, x].concat(),
            sizes.concat(),
        );
        terms.push(algebra.product(einsum, vec![above, below], output.dtype()));
    }
    Ok((!terms.is_empty()).then(|| algebra.sum(&terms)))
}

/// The nodes between a variable and an output through which a derivative passes. A formula whose derivative is zero everywhere, as
/// that of a rectifier's own derivative, lets none pass.
fn moving_nodes(output: &Tensor, variable: &Tensor) -> Vec<Arc<Node>> {
    let mut moving: HashSet<u64> = HashSet::from([variable.0.id]);
    let mut nodes = dependent_nodes(&[output], &[variable]);
    nodes.retain(|node| {
        let inputs = node.inputs();
        let passes = |(number, input): (usize, &Arc<Node>)| {
            let flat = match &node.op {
                Op::Map(formula) => matches!(*partial(formula, inputs.len(), number), Partial::Number(0.0)),
                _ => false,
            };
            !flat && moving.contains(&input.id)
        };
        let moves = node.id == variable.0.id || inputs.iter().enumerate().any(passes);
        if moves {
            moving.insert(node.id);
        }
        moves
    });
    nodes
}

/// Nodes through which every path from the variable to the output goes, with the fewest elements in all; of several such
/// cuts that in the middle.
fn narrowest_cut(output: &Tensor, variable: &Tensor) -> Vec<Tensor> {
    let nodes = moving_nodes(output, variable);
    let mut last_use: Vec<usize> = (0..nodes.len()).collect();
    for (place, node) in nodes.iter().enumerate() {
        for input in node.inputs() {
            if let Ok(used) = nodes.binary_search_by_key(&input.id, |node| node.id) {
                last_use[used] = last_use[used].max(place);
            }
        }
    }
    let cut_after = |place: usize| -> Vec<usize> {
        (0..=place).filter(|node| last_use[*node] > place || nodes[*node].id == output.0.id).collect()
    };
    let width =
        |place: &usize| -> u128 { cut_after(*place).iter().map(|node| nodes[*node].shape.elements() as u128).sum() };
    let middle = nodes.len() / 2;
    let best = (0..nodes.len()).min_by_key(|place| (width(place), place.abs_diff(middle)));
    best.map_or_else(Vec::new, |place| {
        cut_after(place).into_iter().map(|node| Tensor::onto(Arc::clone(&nodes[node]))).collect()
    })
}
