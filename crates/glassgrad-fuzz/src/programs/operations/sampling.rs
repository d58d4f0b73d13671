//! Random draws by key.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::rng::Key;

use super::super::builder::Draft;
use super::Operation;

pub(super) const OPERATIONS: &[Operation] = &[
    // The kind of distribution, the element type, the key, and the shape.
    Operation {
        name: "random",
        weight: 3,
        rounds: false,
        generate: |builder| {
            let shape = builder.shape();
            let random = &mut builder.random;
            let head = [random.between(0, 1), random.between(0, 1), random.between(0, 1000)];
            let integers = head.into_iter().chain(shape.iter().map(|size| *size as i64));
            Some(Draft::new("random", &[]).integers(integers).bound(6.0))
        },
        apply: |call| {
            let (key, shape) = (Key::new(call.integer(2) as u64), &call.sizes()[3..]);
            let drawn = if call.integer(0) == 0 { Tensor::uniform(key, shape) } else { Tensor::normal(key, shape) };
            let dtype = [DType::F32, DType::F64][call.size(1).min(1)];
            vec![drawn.cast(call.interpreter.dtype(dtype))]
        },
    },
    Operation {
        name: "dropout",
        weight: 1,
        rounds: true,
        generate: |builder| {
            let x = builder.float()?;
            let key = builder.random.between(0, 1000);
            let bound = 2.0 * x.bound;
            Some(Draft::new("dropout", &[&x]).integers([key]).reals([0.5]).bound(bound))
        },
        apply: |call| vec![call.x().dropout(Key::new(call.integer(0) as u64), call.real(0))],
    },
    Operation {
        name: "bernoulli",
        weight: 1,
        rounds: false,
        generate: |builder| {
            let x = builder.float()?;
            let key = builder.random.between(0, 1000);
            Some(Draft::new("bernoulli", &[&x]).integers([key]).bound(1.0))
        },
        apply: |call| vec![call.x().bernoulli(Key::new(call.integer(0) as u64))],
    },
    Operation {
        name: "categorical",
        weight: 1,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.is_float() && entry.rank() > 0 && entry.count() > 0)?;
            let (key, axis) = (builder.random.between(0, 1000), builder.axis(x.rank()));
            Some(Draft::new("categorical", &[&x]).integers([key, axis]))
        },
        apply: |call| vec![call.x().categorical(Key::new(call.integer(0) as u64), call.integer(1) as isize)],
    },
    Operation {
        name: "shuffle",
        weight: 1,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0)?;
            let (key, axis) = (builder.random.between(0, 1000), builder.axis(x.rank()));
            Some(Draft::new("shuffle", &[&x]).integers([key, axis]))
        },
        apply: |call| vec![call.x().shuffle(Key::new(call.integer(0) as u64), call.integer(1) as isize)],
    },
];
