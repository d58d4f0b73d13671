//! Products: Einstein notation, matrices, convolution; pooling and interpolation.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::operations::{Attention, Convolution, Interpolation, Pooling};

use super::super::builder::{Builder, Draft, Entry};
use super::Operation;

fn is_number(entry: &Entry) -> bool {
    entry.dtype != DType::Bool
}

/// Labels for the axes of some operands, and an output: contractions, diagonals, outer products, broadcasts.
fn einsum(builder: &mut Builder) -> Option<Draft> {
    let count = *builder.random.choose(&[1, 2, 2, 2, 3]);
    let first = builder.pick(|entry| is_number(entry) && entry.rank() <= 3)?;
    let mut operands = vec![first.clone()];
    for _ in 1..count {
        operands.push(builder.pick(|entry| entry.dtype == first.dtype && entry.rank() <= 3)?);
    }
    let (mut sizes, mut notation, mut bound): (Vec<usize>, Vec<String>, f64) = (Vec::new(), Vec::new(), 1.0);
    let letter = |label: usize| char::from(b'a' + label as u8);
    for operand in &operands {
        let mut word = String::new();
        for size in &operand.shape {
            let known: Vec<usize> = (0..sizes.len()).filter(|label| sizes[*label] == *size).collect();
            if !known.is_empty() && builder.random.chance(0.7) {
                word.push(letter(*builder.random.choose(&known)));
            } else {
                word.push(letter(sizes.len()));
                sizes.push(*size);
            }
        }
        notation.push(word);
        bound *= operand.bound;
    }
    let mut output: Vec<usize> = (0..sizes.len()).filter(|_| builder.random.chance(0.5)).collect();
    for place in (1..output.len()).rev() {
        output.swap(place, builder.random.below(place + 1));
    }
    let summed = (0..sizes.len()).filter(|label| !output.contains(label)).map(|label| sizes[label] as f64);
    bound *= summed.product::<f64>().max(1.0);
    let mut word: String = output.iter().map(|label| letter(*label)).collect();
    if !output.is_empty() && output.len() < 4 && builder.random.chance(0.08) {
        word.push(letter(*builder.random.choose(&output)));
    }
    if output.len() < 4 && builder.random.chance(0.08) {
        word.push_str(&format!("{}={}", letter(sizes.len()), builder.random.between(1, 3)));
    }
    let text = format!("{}->{word}", notation.join(","));
    Some(Draft::new("einsum", &operands.iter().collect::<Vec<_>>()).text(text).bound(bound))
}

/// A convolution: input [batch, channels, n…] and kernel [outputs, channels / groups, k…], with matching shapes.
fn convolution(builder: &mut Builder, name: &str, axes: usize, is_transposed: bool) -> Option<Draft> {
    let dtype = builder.float()?.dtype;
    let random = &mut builder.random;
    let (groups, inputs, outputs) = (random.between(1, 2), random.between(1, 2), random.between(1, 2));
    let (kernel, stride, dilation, padding) =
        (random.between(1, 3), random.between(1, 2), random.between(1, 2), random.between(0, 1));
    let mut shape = vec![random.between(1, 2) as usize, (groups * inputs) as usize];
    shape.extend((0..axes).map(|_| random.between(4, 7) as usize));
    let leading = if is_transposed { [groups * inputs, outputs] } else { [groups * outputs, inputs] };
    let mut weights: Vec<usize> = leading.iter().map(|size| *size as usize).collect();
    weights.extend((0..axes).map(|_| kernel as usize));
    let (x, w) = (builder.shaped(dtype, &shape)?, builder.shaped(dtype, &weights)?);
    let bound = x.bound * w.bound * (2 * kernel.pow(axes as u32)) as f64;
    Some(Draft::new(name, &[&x, &w]).integers([stride, padding, dilation, groups]).bound(bound))
}

fn config<const N: usize>(sizes: &[usize]) -> Convolution<N> {
    let config = Convolution::<N>::default().stride(sizes[0]).padding(sizes[1]);
    config.dilation(sizes[2]).groups(sizes[3])
}

/// A pooling over the last axes of a value.
fn pooling(builder: &mut Builder, name: &str, axes: usize) -> Option<Draft> {
    let x = builder.pick(|entry| entry.is_float() && entry.rank() >= axes && entry.count() > 0)?;
    let random = &mut builder.random;
    let integers = [random.between(1, 3), random.between(1, 3), random.between(0, 1), random.between(0, 3)];
    Some(Draft::new(name, &[&x]).integers(integers))
}

fn pool<const N: usize>(x: &Tensor, sizes: &[usize]) -> Tensor {
    let config = Pooling::<N>::new(sizes[0]).stride(sizes[1]).padding(sizes[2]);
    match sizes[3] {
        0 | 1 => x.max_pool(config),
        2 => x.avg_pool(config),
        _ => x.avg_pool(config.ignore_padding()),
    }
}

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "einsum",
        weight: 10,
        rounds: true,
        generate: einsum,
        apply: |call| vec![Tensor::einsum(&call.instruction.text, call.operands.iter().collect::<Vec<_>>())],
    },
    Operation {
        name: "matmul",
        weight: 6,
        rounds: true,
        generate: |builder| {
            let a = builder.pick(|entry| is_number(entry) && entry.rank() > 0)?;
            let inner = *a.shape.last()?;
            let is_fit = |entry: &Entry| {
                entry.dtype == a.dtype && entry.rank() > 0 && entry.shape[entry.rank().saturating_sub(2)] == inner
            };
            let b = match builder.random.chance(0.5) {
                true => builder.pick(is_fit)?,
                false => {
                    let columns = builder.size();
                    builder.shaped(a.dtype, &[inner, columns])?
                }
            };
            let bound = a.bound * b.bound * inner.max(1) as f64;
            Some(Draft::new("matmul", &[&a, &b]).bound(bound))
        },
        apply: |call| vec![call.x().matmul(call.y())],
    },
    Operation {
        name: "outer",
        weight: 1,
        rounds: true,
        generate: |builder| {
            let a = builder.pick(|entry| entry.is_float() && entry.rank() <= 2)?;
            let b = builder.pick(|entry| entry.dtype == a.dtype && entry.rank() <= 2)?;
            let (bound, kind) = (a.bound * b.bound, i64::from(a.rank() == b.rank() && builder.random.chance(0.5)));
            Some(Draft::new("outer", &[&a, &b]).integers([kind]).bound(bound))
        },
        apply: |call| vec![if call.integer(0) == 0 { call.x().outer(call.y()) } else { call.x().kron(call.y()) }],
    },
    Operation {
        name: "promoted",
        weight: 2,
        rounds: true,
        generate: |builder| {
            let a = builder.pick(is_number)?;
            let b = builder.pick(|entry| entry.dtype != a.dtype && entry.shape == a.shape)?;
            let (bound, kind) = (a.bound * b.bound + a.bound + b.bound, builder.random.between(0, 2));
            Some(Draft::new("promoted", &[&a, &b]).integers([kind]).bound(bound))
        },
        apply: |call| {
            vec![match call.integer(0) {
                0 => call.x() + call.y(),
                1 => call.x() - call.y(),
                _ => call.x() * call.y(),
            }]
        },
    },
    Operation {
        name: "attention",
        weight: 2,
        rounds: true,
        generate: |builder| {
            let dtype = builder.float()?.dtype;
            let random = &mut builder.random;
            let [heads, queries, keys, width] = [2, 5, 5, 3].map(|most| random.between(1, most) as usize);
            let kind = random.between(0, 1);
            let q = builder.shaped(dtype, &[heads, queries, width])?;
            let (k, v) = (builder.shaped(dtype, &[heads, keys, width])?, builder.shaped(dtype, &[heads, keys, width])?);
            let bound = v.bound;
            Some(Draft::new("attention", &[&q, &k, &v]).integers([kind]).bound(bound))
        },
        apply: |call| {
            let config = if call.integer(0) == 1 { Attention::default().causal() } else { Attention::default() };
            vec![call.x().scaled_dot_product_attention(call.y(), &call.operands[2], &config)]
        },
    },
    Operation {
        name: "conv1d",
        weight: 3,
        rounds: true,
        generate: |builder| convolution(builder, "conv1d", 1, false),
        apply: |call| vec![call.x().conv1d(call.y(), config(&call.sizes()))],
    },
    Operation {
        name: "conv2d",
        weight: 3,
        rounds: true,
        generate: |builder| convolution(builder, "conv2d", 2, false),
        apply: |call| vec![call.x().conv2d(call.y(), config(&call.sizes()))],
    },
    Operation {
        name: "conv_transpose1d",
        weight: 1,
        rounds: true,
        generate: |builder| convolution(builder, "conv_transpose1d", 1, true),
        apply: |call| vec![call.x().conv_transpose1d(call.y(), config(&call.sizes()))],
    },
    Operation {
        name: "conv_transpose2d",
        weight: 1,
        rounds: true,
        generate: |builder| convolution(builder, "conv_transpose2d", 2, true),
        apply: |call| vec![call.x().conv_transpose2d(call.y(), config(&call.sizes()))],
    },
    Operation {
        name: "pool1d",
        weight: 2,
        rounds: true,
        generate: |builder| pooling(builder, "pool1d", 1),
        apply: |call| vec![pool::<1>(call.x(), &call.sizes())],
    },
    Operation {
        name: "pool2d",
        weight: 2,
        rounds: true,
        generate: |builder| pooling(builder, "pool2d", 2),
        apply: |call| vec![pool::<2>(call.x(), &call.sizes())],
    },
    Operation {
        name: "adaptive_pool1d",
        weight: 1,
        rounds: true,
        generate: |builder| {
            let x = builder.pick(|entry| entry.is_float() && entry.rank() >= 1 && entry.count() > 0)?;
            let (count, kind) = (builder.random.between(1, 4), builder.random.between(0, 1));
            Some(Draft::new("adaptive_pool1d", &[&x]).integers([count, kind]))
        },
        apply: |call| {
            let count = call.size(0);
            vec![match call.integer(1) {
                0 => call.x().adaptive_avg_pool1d(count),
                _ => call.x().adaptive_max_pool1d(count),
            }]
        },
    },
    Operation {
        name: "interpolate",
        weight: 1,
        rounds: true,
        generate: |builder| {
            let x = builder.pick(|entry| entry.is_float() && entry.rank() >= 1 && entry.count() > 0)?;
            let (kind, size) = (builder.random.between(0, 2), builder.random.between(1, 6));
            Some(Draft::new("interpolate", &[&x]).integers([kind, size]))
        },
        apply: |call| {
            let method = match call.integer(0) {
                0 => Interpolation::Nearest,
                kind => Interpolation::Linear { align_corners: kind == 1 },
            };
            vec![call.x().interpolate(&call.sizes()[1..], method)]
        },
    },
];
