//! Operations that move elements.

use glassgrad::Tensor;
use glassgrad::expr::Index;
use glassgrad::view::Window;

use super::super::builder::Draft;
use super::Operation;

/// A range with a step as three numbers, of which the outer two may be missing.
const MISSING: i64 = i64::MIN;

fn entry(kind: i64, start: i64, end: i64, step: i64) -> Index {
    let place = |number: i64| (number != MISSING).then_some(number as isize);
    match kind {
        0 => Index::At(start as isize),
        1 => Index::Range(place(start), place(end), step as isize),
        2 => Index::NewAxis,
        _ => Index::Rest,
    }
}

pub(super) const OPERATIONS: &[Operation] = &[
    // Repeats or cuts the elements to fill a shape.
    Operation {
        name: "resize",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.count() > 0)?;
            let shape = builder.shape();
            Some(Draft::new("resize", &[&x]).integers(shape.iter().map(|size| *size as i64)))
        },
        apply: |call| {
            let (shape, count) = (call.sizes(), call.x().shape().elements());
            let elements: usize = shape.iter().product();
            let flat = call.x().flatten();
            let repeated = if elements > count { flat.tile(&[elements.div_ceil(count.max(1))]) } else { flat };
            vec![repeated.slice(&[Index::Range(None, Some(elements as isize), 1)]).reshape(&shape[..])]
        },
    },
    Operation {
        name: "reshape",
        weight: 5,
        rounds: false,
        generate: |builder| {
            let x = builder.any()?;
            // Two neighbouring axes are joined, or one is split, or axes of size 1 come and go.
            let mut shape = x.shape.clone();
            if shape.len() > 1 && builder.random.chance(0.5) {
                let axis = builder.random.below(shape.len() - 1);
                shape[axis] *= shape.remove(axis + 1);
            } else if !shape.is_empty() && builder.random.chance(0.7) {
                let axis = builder.random.below(shape.len());
                let divisors: Vec<usize> =
                    (1..=shape[axis]).filter(|number| shape[axis].is_multiple_of(*number)).collect();
                if divisors.is_empty() {
                    return None;
                }
                let divisor = *builder.random.choose(&divisors);
                shape[axis] /= divisor;
                shape.insert(axis, divisor);
            } else {
                let axis = builder.random.below(shape.len() + 1);
                shape.insert(axis, 1);
            }
            Some(Draft::new("reshape", &[&x]).integers(shape.iter().map(|size| *size as i64)))
        },
        apply: |call| vec![call.x().reshape(&call.sizes()[..])],
    },
    Operation {
        name: "broadcast_to",
        weight: 4,
        rounds: false,
        generate: |builder| {
            let x = builder.any()?;
            let mut shape: Vec<usize> =
                x.shape.iter().map(|size| if *size == 1 { builder.size() } else { *size }).collect();
            if shape.len() < 4 && builder.random.chance(0.6) {
                let size = builder.size();
                shape.insert(0, size);
            }
            Some(Draft::new("broadcast_to", &[&x]).integers(shape.iter().map(|size| *size as i64)))
        },
        apply: |call| vec![call.x().broadcast_to(&call.sizes()[..])],
    },
    Operation {
        name: "permute",
        weight: 5,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 1)?;
            let mut order: Vec<i64> = (0..x.rank() as i64).collect();
            for place in (1..order.len()).rev() {
                order.swap(place, builder.random.below(place + 1));
            }
            Some(Draft::new("permute", &[&x]).integers(order))
        },
        apply: |call| vec![call.x().permute(call.sizes())],
    },
    Operation {
        name: "move_axis",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 1)?;
            let (from, to, kind) = (builder.axis(x.rank()), builder.axis(x.rank()), builder.random.between(0, 1));
            Some(Draft::new("move_axis", &[&x]).integers([kind, from, to]))
        },
        apply: |call| {
            let (from, to) = (call.integer(1) as isize, call.integer(2) as isize);
            vec![if call.integer(0) == 0 { call.x().move_axis(from, to) } else { call.x().swap_axes(from, to) }]
        },
    },
    Operation {
        name: "unsqueeze",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() < 4)?;
            let axis = builder.axis(x.rank() + 1);
            Some(Draft::new("unsqueeze", &[&x]).integers([axis]))
        },
        apply: |call| vec![call.x().unsqueeze(call.integer(0) as isize)],
    },
    Operation {
        name: "squeeze",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.shape.contains(&1))?;
            let axes: Vec<usize> = (0..x.rank()).filter(|axis| x.shape[*axis] == 1).collect();
            let axis = *builder.random.choose(&axes) as i64;
            Some(
                Draft::new("squeeze", &[&x])
                    .integers([axis - if builder.random.chance(0.3) { x.rank() as i64 } else { 0 }]),
            )
        },
        apply: |call| vec![call.x().squeeze(call.integer(0) as isize)],
    },
    Operation {
        name: "flip",
        weight: 3,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0)?;
            let axes = builder.axes(x.rank());
            Some(Draft::new("flip", &[&x]).integers(axes.iter().map(|axis| *axis as i64)))
        },
        apply: |call| vec![call.x().flip(call.sizes())],
    },
    Operation {
        name: "roll",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0)?;
            let (shift, axis) = (builder.random.between(-7, 7), builder.axis(x.rank()));
            Some(Draft::new("roll", &[&x]).integers([shift, axis]))
        },
        apply: |call| vec![call.x().roll(call.integer(0) as isize, call.integer(1) as isize)],
    },
    Operation {
        name: "tile",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0)?;
            let counts: Vec<i64> = x.shape.iter().map(|_| builder.random.between(1, 3)).collect();
            Some(Draft::new("tile", &[&x]).integers(counts))
        },
        apply: |call| vec![call.x().tile(&call.sizes())],
    },
    Operation {
        name: "repeat",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0)?;
            let (count, axis) = (builder.random.between(0, 3), builder.axis(x.rank()));
            Some(Draft::new("repeat", &[&x]).integers([count, axis]))
        },
        apply: |call| vec![call.x().repeat(call.size(0), call.integer(1) as isize)],
    },
    // Four numbers for each entry: its kind, start, end and step.
    Operation {
        name: "slice",
        weight: 10,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0)?;
            let mut integers = Vec::new();
            for size in &x.shape {
                let size = *size as i64;
                if builder.random.chance(0.1) {
                    integers.extend([2, 0, 0, 1]);
                }
                match builder.random.below(10) {
                    0..2 if size > 0 => integers.extend([0, builder.random.between(-size, size - 1), 0, 1]),
                    0..4 => integers.extend([1, MISSING, MISSING, 1]),
                    _ => {
                        let place = |builder: &mut super::Builder| match builder.random.chance(0.3) {
                            true => MISSING,
                            false => builder.random.between(-size - 1, size + 1),
                        };
                        let (start, end) = (place(builder), place(builder));
                        let step = *builder.random.choose(&[1, 1, 1, 2, 3, -1, -2]);
                        integers.extend([1, start, end, step]);
                    }
                }
            }
            Some(Draft::new("slice", &[&x]).integers(integers))
        },
        apply: |call| {
            let indices: Vec<Index> =
                call.instruction.integers.chunks_exact(4).map(|one| entry(one[0], one[1], one[2], one[3])).collect();
            vec![call.x().slice(&indices)]
        },
    },
    Operation {
        name: "pad",
        weight: 4,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0 && entry.dtype != glassgrad::dtype::DType::Bool)?;
            let widths: Vec<i64> = (0..2 * x.rank()).map(|_| *builder.random.choose(&[0, 0, 1, 2])).collect();
            let draft = Draft::new("pad", &[&x]).integers(widths);
            Some(if x.is_float() && builder.random.chance(0.5) { draft.reals([0.5]) } else { draft })
        },
        apply: |call| {
            let widths: Vec<(usize, usize)> = call.sizes().chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
            vec![match call.instruction.reals.first() {
                Some(number) => call.x().pad_with(&widths, *number),
                None => call.x().pad(&widths),
            }]
        },
    },
    // The axis, then size, stride, dilation and padding of each window.
    Operation {
        name: "windows",
        weight: 3,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0 && entry.rank() < 4)?;
            let axis = builder.random.below(x.rank());
            let mut integers = vec![axis as i64];
            for _ in 0..1 + builder.random.below((x.rank() - axis).min(2)) {
                let random = &mut builder.random;
                integers.extend([random.between(1, 3), random.between(1, 2), random.between(1, 2)]);
                integers.extend([random.between(0, 1), random.between(0, 1)]);
            }
            Some(Draft::new("windows", &[&x]).integers(integers))
        },
        apply: |call| vec![call.x().windows(call.integer(0) as isize, &windows(&call.sizes()[1..]))],
    },
    Operation {
        name: "fold",
        weight: 2,
        rounds: true,
        generate: |builder| {
            let random = &mut builder.random;
            let (size, stride, windows) = (random.between(1, 3), random.between(1, 3), random.between(1, 4));
            let length = (windows - 1) * stride + size;
            let x = builder.pick(|entry| entry.is_float() && entry.count() > 0)?;
            let x = builder.emit(Draft::new("resize", &[&x]).integers([2, windows, size]))?.pop()?;
            let bound = 3.0 * x.bound;
            Some(Draft::new("fold", &[&x]).integers([1, length, size, stride, 1, 0, 0]).bound(bound))
        },
        apply: |call| {
            let sizes = call.sizes();
            vec![call.x().fold(call.integer(0) as isize, &windows(&sizes[2..]), &sizes[1..2])]
        },
    },
    Operation {
        name: "concatenate",
        weight: 5,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0)?;
            let axis = builder.random.below(x.rank());
            let mut parts = vec![x.clone()];
            for _ in 0..1 + builder.random.below(3) {
                let mut shape = x.shape.clone();
                shape[axis] = builder.size();
                parts.push(builder.shaped(x.dtype, &shape)?);
            }
            Some(Draft::new("concatenate", &parts.iter().collect::<Vec<_>>()).integers([axis as i64]))
        },
        apply: |call| vec![Tensor::concatenate(call.operands.iter().collect::<Vec<_>>(), call.size(0))],
    },
    Operation {
        name: "stack",
        weight: 3,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() < 4)?;
            let y = builder.shaped(x.dtype, &x.shape)?;
            let axis = builder.random.below(x.rank() + 1) as i64;
            Some(Draft::new("stack", &[&x, &y, &x]).integers([axis]))
        },
        apply: |call| vec![Tensor::stack(call.operands.iter().collect::<Vec<_>>(), call.size(0))],
    },
    Operation {
        name: "split",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0)?;
            let axis = builder.axis(x.rank());
            let size = x.shape[axis.rem_euclid(x.rank() as i64) as usize] as i64;
            let first = builder.random.between(0, size);
            Some(Draft::new("split", &[&x]).integers([axis, first, size - first]))
        },
        apply: |call| call.x().split(&call.sizes()[1..], call.integer(0) as isize),
    },
    Operation {
        name: "triangle",
        weight: 2,
        rounds: false,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 1 && entry.dtype != glassgrad::dtype::DType::Bool)?;
            let (kind, offset) = (builder.random.between(0, 2), builder.random.between(-2, 2));
            Some(Draft::new("triangle", &[&x]).integers([kind, offset]))
        },
        apply: |call| {
            let offset = call.integer(1) as isize;
            vec![match call.integer(0) {
                0 => call.x().tril(offset),
                1 => call.x().triu(offset),
                _ => call.x().diagonal(offset),
            }]
        },
    },
    Operation {
        name: "diff",
        weight: 1,
        rounds: true,
        generate: |builder| {
            let x = builder.pick(|entry| entry.rank() > 0 && entry.dtype != glassgrad::dtype::DType::Bool)?;
            let axis = builder.axis(x.rank());
            let bound = 2.0 * x.bound;
            Some(Draft::new("diff", &[&x]).integers([axis]).bound(bound))
        },
        apply: |call| vec![call.x().diff(call.integer(0) as isize)],
    },
];

/// Windows from their sizes, strides, dilations and paddings.
fn windows(numbers: &[usize]) -> Vec<Window> {
    let window = |one: &[usize]| Window::new(one[0]).stride(one[1]).dilation(one[2]).padding(one[3], one[4]);
    numbers.chunks_exact(5).map(window).collect()
}
