//! Linear algebra, on matrices that are well conditioned: the identity times the size, plus what is bounded by 1/2.

use glassgrad::Tensor;

use super::super::builder::{Builder, Draft, Entry};
use super::Operation;

/// A square matrix built from a value.
fn matrix(builder: &mut Builder) -> Option<Entry> {
    let dtype = builder.float()?.dtype;
    let size = builder.random.between(1, 4) as usize;
    let shape = if builder.random.chance(0.3) { vec![2, size, size] } else { vec![size, size] };
    builder.shaped(dtype, &shape)
}

fn conditioned(x: &Tensor) -> Tensor {
    let size = x.shape().last().copied().unwrap_or(1);
    x.tanh() * 0.5 + Tensor::eye(size).cast(x.dtype()) * (size.max(1) as f64)
}

fn symmetric(x: &Tensor) -> Tensor {
    let matrix = conditioned(x);
    (&matrix + matrix.transpose()) * 0.5
}

/// An operation on one matrix.
fn one(builder: &mut Builder, name: &str) -> Option<Draft> {
    let x = matrix(builder)?;
    Some(Draft::new(name, &[&x]).bound(f64::INFINITY))
}

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "solve",
        weight: 1,
        rounds: true,
        generate: |builder| {
            let a = matrix(builder)?;
            let mut shape = a.shape.clone();
            *shape.last_mut()? = builder.random.between(1, 2) as usize;
            let b = builder.shaped(a.dtype, &shape)?;
            Some(Draft::new("solve", &[&a, &b]).bound(f64::INFINITY))
        },
        apply: |call| vec![conditioned(call.x()).solve(call.y())],
    },
    Operation {
        name: "inv",
        weight: 1,
        rounds: true,
        generate: |builder| one(builder, "inv"),
        apply: |call| vec![conditioned(call.x()).inv()],
    },
    Operation {
        name: "det",
        weight: 1,
        rounds: true,
        generate: |builder| one(builder, "det"),
        apply: |call| vec![conditioned(call.x()).det()],
    },
    Operation {
        name: "slogdet",
        weight: 1,
        rounds: true,
        generate: |builder| one(builder, "slogdet"),
        apply: |call| {
            let (sign, logarithm) = conditioned(call.x()).slogdet();
            vec![sign, logarithm]
        },
    },
    Operation {
        name: "cholesky",
        weight: 1,
        rounds: true,
        generate: |builder| one(builder, "cholesky"),
        apply: |call| vec![symmetric(call.x()).cholesky()],
    },
    Operation {
        name: "expm",
        weight: 1,
        rounds: true,
        generate: |builder| one(builder, "expm"),
        apply: |call| vec![(call.x().tanh() * 0.5).expm()],
    },
    Operation {
        name: "fft",
        weight: 1,
        rounds: true,
        generate: |builder| {
            let x = builder.pick(|entry| entry.is_float() && entry.rank() > 0 && entry.count() > 0)?;
            let (axis, kind) = (builder.axis(x.rank()), builder.random.between(0, 1));
            let bound = 17.0 * x.bound;
            Some(Draft::new("fft", &[&x]).integers([axis, kind]).bound(bound))
        },
        apply: |call| {
            let axis = call.integer(0) as isize;
            let transformed = call.x().rfft(axis);
            match call.integer(1) {
                0 => vec![transformed.re, transformed.im],
                _ => {
                    vec![transformed.irfft(call.x().shape()[axis.rem_euclid(call.x().rank() as isize) as usize], axis)]
                }
            }
        },
    },
];
