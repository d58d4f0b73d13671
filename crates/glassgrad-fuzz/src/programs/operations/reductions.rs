//! Reductions, scans along an axis, and orders.

use glassgrad::dtype::DType;
use glassgrad::expr::Axes;

use super::super::builder::{Builder, Draft, Entry};
use super::super::interpret::PERTURBATION;
use super::{Application, Operation};

/// Reductions over several axes: whether to keep them, then the axes.
fn draw(builder: &mut Builder, name: &str, is_fit: fn(&Entry) -> bool, grow: fn(f64, f64) -> f64) -> Option<Draft> {
    let x = builder.pick(is_fit)?;
    let axes: Vec<i64> = match x.rank() {
        0 => Vec::new(),
        rank => builder
            .axes(rank)
            .into_iter()
            .map(|axis| axis as i64 - if builder.random.chance(0.3) { rank as i64 } else { 0 })
            .collect(),
    };
    let keep = i64::from(builder.random.chance(0.3));
    let bound = grow(x.bound, x.count() as f64);
    Some(Draft::new(name, &[&x]).integers([keep].into_iter().chain(axes)).bound(bound))
}

/// The axes of an instruction.
fn axes(call: &Application<'_>) -> Axes {
    let axes: Vec<isize> = call.instruction.integers[1..].iter().map(|axis| *axis as isize).collect();
    let axes = Axes::from(&axes[..]);
    if call.integer(0) == 1 { axes.keep() } else { axes }
}

fn is_number(entry: &Entry) -> bool {
    entry.dtype != DType::Bool
}

fn is_filled(entry: &Entry) -> bool {
    entry.count() > 0 && is_number(entry)
}

fn is_filled_float(entry: &Entry) -> bool {
    entry.count() > 0 && entry.is_float()
}

fn is_bool(entry: &Entry) -> bool {
    entry.dtype == DType::Bool
}

/// An operation along one axis of a fitting operand.
fn along(builder: &mut Builder, name: &str, is_fit: fn(&Entry) -> bool) -> Option<Draft> {
    let x = builder.pick(|entry| entry.rank() > 0 && is_fit(entry))?;
    let axis = builder.axis(x.rank());
    Some(Draft::new(name, &[&x]).integers([axis]))
}

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "sum",
        weight: 8,
        rounds: true,
        generate: |builder| draw(builder, "sum", is_number, |bound, count| bound * count),
        apply: |call| vec![call.x().sum_over(axes(call))],
    },
    Operation {
        name: "mean",
        weight: 4,
        rounds: true,
        generate: |builder| draw(builder, "mean", is_filled_float, |bound, _| bound),
        apply: |call| vec![call.x().mean_over(axes(call))],
    },
    Operation {
        name: "var",
        weight: 2,
        rounds: true,
        generate: |builder| draw(builder, "var", is_filled_float, |bound, _| bound * bound),
        apply: |call| {
            let variance = call.x().var_over(axes(call));
            // Perturbations of the operand only ever add to a variance of equal numbers, but rounding may go both ways.
            vec![match call.interpreter.mode.noise {
                Some(run) if variance.error().is_none() => {
                    let size = PERTURBATION * variance.dtype().epsilon() * if run % 4 < 2 { -1.0 } else { 1.0 };
                    variance + call.x().stop_gradient().square().mean_over(axes(call)) * size
                }
                _ => variance,
            }]
        },
    },
    Operation {
        name: "norm",
        weight: 1,
        rounds: true,
        generate: |builder| draw(builder, "norm", is_filled_float, |bound, count| bound * count.sqrt()),
        apply: |call| vec![call.x().norm_over(axes(call))],
    },
    Operation {
        name: "max",
        weight: 5,
        rounds: false,
        generate: |builder| draw(builder, "max", is_filled, |bound, _| bound),
        apply: |call| vec![call.x().max_over(axes(call))],
    },
    Operation {
        name: "min",
        weight: 4,
        rounds: false,
        generate: |builder| draw(builder, "min", is_filled, |bound, _| bound),
        apply: |call| vec![call.x().min_over(axes(call))],
    },
    Operation {
        name: "prod",
        weight: 2,
        rounds: true,
        generate: |builder| draw(builder, "prod", |entry| entry.is_float() && entry.count() < 50, |_, _| f64::INFINITY),
        apply: |call| vec![call.x().prod_over(axes(call))],
    },
    Operation {
        name: "logsumexp",
        weight: 2,
        rounds: true,
        generate: |builder| draw(builder, "logsumexp", is_filled_float, |bound, count| bound + count.ln()),
        apply: |call| vec![call.x().logsumexp_over(axes(call))],
    },
    Operation {
        name: "all_any",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let draft = draw(builder, "all_any", is_bool, |bound, _| bound)?;
            let kind = builder.random.unit();
            Some(draft.reals([(3.0 * kind).floor()]))
        },
        apply: |call| {
            vec![match call.real(0) as i64 {
                0 => call.x().all_over(axes(call)),
                1 => call.x().any_over(axes(call)),
                _ => call.x().count_nonzero_over(axes(call)),
            }]
        },
    },
    Operation {
        name: "argmax",
        weight: 4,
        rounds: false,
        generate: |builder| {
            let draft = along(builder, "argmax", is_filled)?;
            let kind = builder.random.between(0, 1);
            let axis = draft.instruction.integers[0];
            Some(draft.integers([axis, kind]))
        },
        apply: |call| {
            let axis = call.integer(0) as isize;
            vec![if call.integer(1) == 0 { call.x().argmax(axis) } else { call.x().argmin(axis) }]
        },
    },
    Operation {
        name: "softmax",
        weight: 4,
        rounds: true,
        generate: |builder| {
            let draft = along(builder, "softmax", is_filled_float)?;
            let (axis, kind) = (draft.instruction.integers[0], builder.random.between(0, 1));
            let bound = if kind == 0 { 1.0 } else { 2.0 * draft.bound + 8.0 };
            Some(draft.integers([axis, kind]).bound(bound))
        },
        apply: |call| {
            let axis = call.integer(0) as isize;
            vec![if call.integer(1) == 0 { call.x().softmax(axis) } else { call.x().log_softmax(axis) }]
        },
    },
    Operation {
        name: "cumsum",
        weight: 3,
        rounds: true,
        generate: |builder| {
            let draft = along(builder, "cumsum", is_number)?;
            let bound = 17.0 * draft.bound;
            Some(draft.bound(bound))
        },
        apply: |call| vec![call.x().cumsum(call.integer(0) as isize)],
    },
    Operation {
        name: "cumprod",
        weight: 2,
        rounds: true,
        generate: |builder| Some(along(builder, "cumprod", Entry::is_float)?.bound(f64::INFINITY)),
        apply: |call| vec![call.x().cumprod(call.integer(0) as isize)],
    },
    Operation {
        name: "sort",
        weight: 3,
        rounds: false,
        generate: |builder| along(builder, "sort", is_number),
        apply: |call| vec![call.x().sort(call.integer(0) as isize)],
    },
    Operation {
        name: "argsort",
        weight: 2,
        rounds: false,
        generate: |builder| along(builder, "argsort", is_number),
        apply: |call| vec![call.x().argsort(call.integer(0) as isize)],
    },
    Operation {
        name: "top_k",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let draft = along(builder, "top_k", is_filled)?;
            let (axis, k) = (draft.instruction.integers[0], builder.random.between(0, 3));
            Some(draft.integers([axis, k]))
        },
        apply: |call| {
            let (values, places) = call.x().top_k(call.size(1), call.integer(0) as isize);
            vec![values, places]
        },
    },
    Operation {
        name: "quantile",
        weight: 1,
        rounds: true,
        generate: |builder| {
            let q = *builder.random.choose(&[0.0, 0.25, 0.5, 0.9, 1.0]);
            Some(along(builder, "quantile", is_filled_float)?.reals([q]))
        },
        apply: |call| vec![call.x().quantile(call.real(0), call.integer(0) as isize)],
    },
];
