//! LoadMode and writing at indices.

use glassgrad::dtype::DType;

use super::super::builder::{Builder, Draft, Entry};
use super::Operation;

/// Some shape of indices.
fn index_shape(builder: &mut Builder) -> Vec<usize> {
    (0..builder.random.below(3)).map(|_| builder.size().min(5)).collect()
}

/// An operand, an axis of it, and indices for whole entries of that axis.
fn entries(builder: &mut Builder, may_be_negative: bool) -> Option<(Entry, usize, Entry)> {
    let x = builder.pick(|entry| entry.rank() > 0 && entry.dtype != DType::Bool)?;
    let axis = builder.random.below(x.rank());
    let shape = index_shape(builder);
    let indices = builder.indices(&shape, x.shape[axis], may_be_negative)?;
    Some((x, axis, indices))
}

/// An operand, an axis, and indices of as many axes: a line of its own for each line of the operand.
fn lines(builder: &mut Builder) -> Option<(Entry, i64, Entry)> {
    let x = builder.pick(|entry| entry.rank() > 0 && entry.dtype != DType::Bool)?;
    let axis = builder.axis(x.rank());
    let place = axis.rem_euclid(x.rank() as i64) as usize;
    let mut shape = x.shape.clone();
    shape[place] = builder.random.between(0, 3) as usize;
    let indices = builder.indices(&shape, x.shape[place], true)?;
    Some((x, axis, indices))
}

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "gather",
        weight: 4,
        rounds: false,
        generate: |builder| {
            let (x, axis, indices) = entries(builder, false)?;
            Some(Draft::new("gather", &[&x, &indices]).integers([axis as i64]))
        },
        apply: |call| vec![call.x().take(call.y(), call.size(0))],
    },
    Operation {
        name: "scatter_add",
        weight: 4,
        rounds: true,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0 && entry.dtype != DType::Bool)?;
            let axis = builder.random.below(x.rank());
            let count = 1 + builder.random.below((x.rank() - axis).min(2));
            let size = builder.random.between(1, 4);
            let indices = builder.indices(&x.shape[axis..axis + count], size as usize, false)?;
            let bound = x.bound * indices.count().max(1) as f64;
            Some(Draft::new("scatter_add", &[&x, &indices]).integers([axis as i64, size]).bound(bound))
        },
        apply: |call| vec![call.x().scatter_add(call.y(), call.size(0), call.size(1))],
    },
    // The last operands are the indices of the first axes.
    Operation {
        name: "index_at",
        weight: 3,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0 && entry.dtype != DType::Bool)?;
            let shape = index_shape(builder);
            let mut operands = vec![x.clone()];
            for axis in 0..1 + builder.random.below(x.rank().min(2)) {
                operands.push(builder.indices(&shape, x.shape[axis], true)?);
            }
            Some(Draft::new("index_at", &operands.iter().collect::<Vec<_>>()))
        },
        apply: |call| vec![call.x().index_at(&call.operands[1..].iter().collect::<Vec<_>>())],
    },
    Operation {
        name: "with_at",
        weight: 3,
        rounds: true,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0 && entry.dtype != DType::Bool)?;
            let shape = index_shape(builder);
            let indices = builder.indices(&shape, x.shape[0], true)?;
            let values: Vec<usize> = shape.iter().chain(&x.shape[1..]).copied().collect();
            let values = builder.shaped(x.dtype, &values)?;
            let (kind, bound) = (builder.random.between(0, 1), x.bound + values.bound * indices.count().max(1) as f64);
            Some(Draft::new("with_at", &[&x, &indices, &values]).integers([kind]).bound(bound))
        },
        apply: |call| {
            let (indices, values) = (&[call.y()], &call.operands[2]);
            vec![match call.integer(0) {
                0 => call.x().with_at(indices, values),
                _ => call.x().add_at(indices, values),
            }]
        },
    },
    Operation {
        name: "embedding",
        weight: 1,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() == 2 && entry.dtype != DType::Bool)?;
            let shape = index_shape(builder);
            let indices = builder.indices(&shape, x.shape[0], true)?;
            Some(Draft::new("embedding", &[&x, &indices]))
        },
        apply: |call| vec![call.x().embedding(call.y())],
    },
    Operation {
        name: "take_along",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let (x, axis, indices) = lines(builder)?;
            Some(Draft::new("take_along", &[&x, &indices]).integers([axis]))
        },
        apply: |call| vec![call.x().take_along(call.y(), call.integer(0) as isize)],
    },
    Operation {
        name: "put_along",
        weight: 2,
        rounds: true,
        generate: |builder| {
            let (x, axis, indices) = lines(builder)?;
            let values = builder.shaped(x.dtype, &indices.shape)?;
            let (kind, bound) = (builder.random.between(0, 1), x.bound + 3.0 * values.bound);
            Some(Draft::new("put_along", &[&x, &indices, &values]).integers([axis, kind]).bound(bound))
        },
        apply: |call| {
            let (axis, values) = (call.integer(0) as isize, &call.operands[2]);
            vec![match call.integer(1) {
                0 => call.x().put_along(call.y(), values, axis),
                _ => call.x().add_along(call.y(), values, axis),
            }]
        },
    },
    Operation {
        name: "one_hot",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let shape = index_shape(builder);
            let size = builder.random.between(1, 4);
            let indices = builder.indices(&shape, size as usize, false)?;
            let kind = builder.random.between(0, 2);
            Some(Draft::new("one_hot", &[&indices]).integers([size, kind]).bound(1.0))
        },
        apply: |call| {
            let dtype = [DType::F32, DType::F64, DType::I64][call.size(1).min(2)];
            vec![call.x().one_hot(call.size(0), call.interpreter.dtype(dtype))]
        },
    },
    // By places that the program computes: the largest element of each line is read at its place.
    Operation {
        name: "at_largest",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0 && entry.is_float() && entry.count() > 0)?;
            let axis = builder.axis(x.rank());
            Some(Draft::new("at_largest", &[&x]).integers([axis]))
        },
        apply: |call| {
            let axis = call.integer(0) as isize;
            let places = call.x().argmax(axis).unsqueeze(axis);
            vec![call.x().take_along(&places, axis)]
        },
    },
];
