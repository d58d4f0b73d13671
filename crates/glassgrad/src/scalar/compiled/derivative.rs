//! From a tape to the graph of its values, and from a graph to the graphs of its derivatives.

use super::graph::{Expr, Graph, Mask, Op};
use crate::ops::Operation;
use crate::scalar::tape::{Choice, Guard, Operand};
use crate::scalar::{Recorded, Tape};

/// The values of a recording as nodes of a graph.
pub(super) struct Primal<'g> {
    pub(super) outputs: Vec<Expr<'g>>,
    /// For each guard, the condition under which the recording does not hold.
    pub(super) violations: Vec<Mask<'g>>,
}

/// Builds the nodes of a recording. Inputs become the first numbers of the argument vector.
pub(super) fn primal<'g>(graph: &'g Graph, recorded: &Recorded<f64>) -> Primal<'g> {
    let tape: &Tape<f64> = recorded.tape();
    let mut values: Vec<Expr<'g>> = Vec::with_capacity(tape.len());
    let mut choices = tape.choices().into_iter();
    let mut inputs = 0;
    for id in tape.ids() {
        let node = tape.node(id);
        let of = |operand: Operand<f64>| match operand {
            Operand::Node(id) => values[id.index()],
            Operand::Constant(value) => Expr::Constant(value),
        };
        let value = match (node.operation, node.operands.as_slice()) {
            (Operation::Input, _) => {
                inputs += 1;
                graph.input(inputs - 1)
            }
            (Operation::Where, _) => {
                let Choice { guard, taken, otherwise, .. } = choices.next().expect("every choice is a node");
                graph.select(graph.compare(guard.relation, of(guard.left), of(guard.right)), of(taken), of(otherwise))
            }
            (operation, [x]) => graph.unary(operation, node.parameter.unwrap_or(0.0), of(*x)),
            (operation, [a, b]) => graph.binary(operation, of(*a), of(*b)),
            (operation, operands) => unreachable!("{operation} with {} operands", operands.len()),
        };
        values.push(value);
    }
    let of = |operand: Operand<f64>| match operand {
        Operand::Node(id) => values[id.index()],
        Operand::Constant(value) => Expr::Constant(value),
    };
    let violation = |guard: &Guard<f64>| {
        let holds = graph.compare(guard.relation, of(guard.left), of(guard.right));
        if guard.outcome { !holds } else { holds }
    };
    let violations = tape.guards().iter().map(violation).collect();
    Primal { outputs: recorded.outputs().iter().map(|output| of(*output)).collect(), violations }
}

/// The gradient of the sum of `outputs` times `weights` with respect to the inputs below `inputs`.
///
/// Reverse accumulation over the graph: the rows of the table return the partials as nodes. What lies behind a selection
/// is active only under its condition, and products there are selected by it, since the branch not taken may have an
/// infinite partial. A test for zero adjoints instead would lose second derivatives.
pub(super) fn reverse<'g>(graph: &'g Graph, outputs: &[(Expr<'g>, Expr<'g>)], inputs: usize) -> Vec<Expr<'g>> {
    let ops = graph.ops();
    let mut adjoints: Vec<Option<Expr<'g>>> = vec![None; ops.len()];
    // Under which condition a node with an adjoint contributes to the outputs.
    let mut active = vec![Mask::Known(false); ops.len()];
    for (output, weight) in outputs {
        if let Expr::Node(_, node) = output {
            accumulate(&mut adjoints[*node as usize], *weight);
            active[*node as usize] = Mask::Known(true);
        }
    }
    let mut gradient = vec![Expr::Constant(0.0); inputs];
    for (index, op) in ops.iter().enumerate().rev() {
        let Some(adjoint) = adjoints[index] else { continue };
        if let Op::Input(number) = op {
            if let Some(slot) = gradient.get_mut(*number as usize) {
                *slot = adjoint;
            }
            continue;
        }
        if let Op::Select(mask, taken, otherwise) = *op {
            for (parent, condition) in [(taken, graph.mask(mask)), (otherwise, !graph.mask(mask))] {
                if !matches!(ops[parent as usize], Op::Constant(_)) {
                    let share = graph.select(condition, adjoint, Expr::Constant(0.0));
                    accumulate(&mut adjoints[parent as usize], share);
                    active[parent as usize] = active[parent as usize] | (active[index] & condition);
                }
            }
            continue;
        }
        for (parent, partial) in partials(graph, index as u32, *op) {
            if let Some(share) = product(graph, partial, adjoint, active[index]) {
                accumulate(&mut adjoints[parent as usize], share);
                active[parent as usize] = active[parent as usize] | active[index];
            }
        }
    }
    gradient
}

/// The tangents of `roots` when the inputs move with the tangents of `seeds`.
pub(super) fn forward<'g>(graph: &'g Graph, seeds: &[Expr<'g>], roots: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let ops = graph.ops();
    let mut tangents: Vec<Option<Expr<'g>>> = vec![None; ops.len()];
    // Only what the roots need: the derivative of everything would be a larger graph.
    let mut needed = vec![false; ops.len()];
    for root in roots {
        if let Expr::Node(_, node) = root {
            needed[*node as usize] = true;
        }
    }
    for (index, op) in ops.iter().enumerate().rev() {
        if needed[index] {
            op.operands().for_each(|operand| needed[operand as usize] = true);
        }
    }
    for (index, op) in ops.iter().enumerate().filter(|(index, _)| needed[*index]) {
        tangents[index] = match *op {
            Op::Input(number) => seeds.get(number as usize).copied(),
            Op::Select(mask, a, b) => match (tangents[a as usize], tangents[b as usize]) {
                (None, None) => None,
                (a, b) => {
                    let zero = Expr::Constant(0.0);
                    Some(graph.select(graph.mask(mask), a.unwrap_or(zero), b.unwrap_or(zero)))
                }
            },
            op => {
                let mut tangent = None;
                for (parent, partial) in partials(graph, index as u32, op) {
                    if let Some(moved) = tangents[parent as usize]
                        && let Some(share) = product(graph, partial, moved, Mask::Known(true))
                    {
                        accumulate(&mut tangent, share);
                    }
                }
                tangent
            }
        };
    }
    let tangent = |root: &Expr<'g>| match root {
        Expr::Constant(_) => Expr::Constant(0.0),
        Expr::Node(_, node) => tangents[*node as usize].unwrap_or(Expr::Constant(0.0)),
    };
    roots.iter().map(tangent).collect()
}

/// The Jacobian of `outputs` row by row, or its product with constant directions: forwards, unless there are fewer outputs than
/// inputs. Elements that are structurally zero are constants, and no operation is spent on them.
pub(super) fn jacobian<'g>(
    graph: &'g Graph,
    outputs: &[Expr<'g>],
    inputs: usize,
    directions: Option<&[Vec<f64>]>,
) -> Vec<Expr<'g>> {
    if directions.is_none() && outputs.len() < inputs {
        let row = |output: &Expr<'g>| reverse(graph, &[(*output, Expr::Constant(1.0))], inputs);
        return outputs.iter().flat_map(row).collect();
    }
    let column = |seeds: Vec<Expr<'g>>| forward(graph, &seeds, outputs);
    let columns: Vec<Vec<Expr<'g>>> = match directions {
        None => (0..inputs)
            .map(|place| column((0..inputs).map(|k| Expr::Constant(if k == place { 1.0 } else { 0.0 })).collect()))
            .collect(),
        Some(directions) => {
            directions.iter().map(|direction| column(direction.iter().copied().map(Expr::Constant).collect())).collect()
        }
    };
    (0..outputs.len()).flat_map(|row| columns.iter().map(move |column| column[row])).collect()
}

/// The operands of a row that are no constants, with the partial derivatives.
fn partials<'g>(graph: &'g Graph, node: u32, op: Op) -> Vec<(u32, Expr<'g>)> {
    let (of, y) = (|node: u32| graph.expr(node), graph.expr(node));
    let mut found = match op {
        Op::Unary(operation, parameter, x) => {
            vec![(x, operation.derivative(of(x), y, f64::from_bits(parameter)).expect("a row of one argument"))]
        }
        Op::Binary(operation, a, b) => {
            let [first, second] = operation.partials(of(a), of(b), y).expect("a row of two arguments");
            vec![(a, first), (b, second)]
        }
        _ => Vec::new(),
    };
    found.retain(|(parent, _)| !matches!(graph.op(*parent), Op::Constant(_)));
    found
}

/// The product of a partial with a tangent or an adjoint, and zero where it is not active; `None` if one of them is
/// identically zero.
fn product<'g>(graph: &'g Graph, partial: Expr<'g>, factor: Expr<'g>, active: Mask<'g>) -> Option<Expr<'g>> {
    let zero = |expr: Expr<'_>| matches!(expr, Expr::Constant(0.0));
    if zero(partial) || zero(factor) {
        return None;
    }
    if let Expr::Node(_, node) = partial
        && let Op::Select(mask, a, b) = graph.op(node)
        && (zero(graph.expr(a)) || zero(graph.expr(b)))
    {
        // A partial that is zero on one side, as that of a rectifier: the factor is selected instead of multiplied.
        let side = |partial: Expr<'g>| product(graph, partial, factor, active).unwrap_or(Expr::Constant(0.0));
        return Some(graph.select(graph.mask(mask), side(graph.expr(a)), side(graph.expr(b))));
    }
    let finite = matches!(partial, Expr::Constant(value) if value.is_finite());
    let product = partial * factor;
    Some(if finite { product } else { graph.select(active, product, Expr::Constant(0.0)) })
}

fn accumulate<'g>(sum: &mut Option<Expr<'g>>, share: Expr<'g>) {
    *sum = Some(sum.map_or(share, |sum| sum + share));
}
