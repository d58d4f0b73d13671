//! Transforms of functions: loops, batching, checkpoints, derivatives, compilation. Their functions are nested blocks, which
//! may use values from around them.

use glassgrad::diff::{Fallible, vmap_axes};
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::expr::s;
use glassgrad::{
    Tensor, Within, checkpoint, compile, grad, hvp, jacobian, jvp, linearize, no_grad, scan, value_and_grad, vjp,
};

use super::super::builder::{Builder, Draft, Entry};
use super::super::program::Block;
use super::{Application, Operation, draw};

/// Appends some random instructions to the current block.
pub fn fill(builder: &mut Builder, count: usize) {
    let (begin, mut attempts) = (builder.length(), 0);
    while builder.length() < begin + count && attempts < 8 * count {
        attempts += 1;
        let operation = draw(builder);
        if builder.excluded.contains(&operation.name) {
            continue;
        }
        if let Some(draft) = (operation.generate)(builder) {
            builder.emit(draft);
        }
    }
}

fn is_deep(builder: &Builder) -> bool {
    builder.depth >= 2
}

fn fill_block(builder: &mut Builder) {
    let count = if builder.depth > 1 { 1 + builder.random.below(3) } else { 2 + builder.random.below(7) };
    fill(builder, count);
}

/// Some operands, the first of which is a float with elements.
fn operands(builder: &mut Builder, most: usize, is_fit: impl Fn(&Entry) -> bool) -> Option<Vec<Entry>> {
    let mut list = vec![builder.pick(|entry| entry.is_float() && entry.count() < 200 && is_fit(entry))?];
    for _ in 0..builder.random.below(most) {
        list.extend(builder.pick(|entry| entry.count() < 200 && is_fit(entry)));
    }
    Some(list)
}

fn signature(entries: &[Entry]) -> Vec<(DType, Vec<usize>, f64)> {
    entries.iter().map(|entry| (entry.dtype, entry.shape.clone(), entry.bound)).collect()
}

/// A block that returns one float, of few elements if `is_small`.
fn function(builder: &mut Builder, arguments: &[Entry], is_small: bool) -> Option<(Block, Vec<Entry>)> {
    builder.nested(&signature(arguments), |builder, _| {
        fill_block(builder);
        let most = if is_small { 20 } else { 500 };
        Some(vec![builder.pick(|entry| entry.is_float() && entry.count() < most)?])
    })
}

/// A block that returns one value or two.
fn several(builder: &mut Builder, parameters: &[(DType, Vec<usize>, f64)]) -> Option<(Block, Vec<Entry>)> {
    builder.nested(parameters, |builder, _| {
        fill_block(builder);
        let first = builder.pick(|entry| entry.count() < 500)?;
        let second = builder.pick(|entry| entry.count() < 500)?;
        Some(if builder.random.chance(0.5) { vec![first] } else { vec![first, second] })
    })
}

/// An operation whose function takes the operands and returns values of which bounds are known.
fn wrapped(builder: &mut Builder, name: &str) -> Option<Draft> {
    if is_deep(builder) {
        return None;
    }
    let operands = operands(builder, 2, |_| true)?;
    let (block, results) = several(builder, &signature(&operands))?;
    let bound = results.iter().fold(0.0, |bound, entry| entry.bound.max(bound));
    Some(Draft::new(name, &operands.iter().collect::<Vec<_>>()).block(block).bound(bound))
}

/// A derivative in some directions: the operands are followed by as many tangents.
fn along(builder: &mut Builder, name: &str, is_second: bool) -> Option<Draft> {
    if is_deep(builder) {
        return None;
    }
    let mut operands = operands(builder, 1, Entry::is_float)?;
    let (block, _) = function(builder, &operands, is_second)?;
    for place in 0..operands.len() {
        let (dtype, shape) = (operands[place].dtype, operands[place].shape.clone());
        operands.push(builder.shaped(dtype, &shape)?);
    }
    Some(Draft::new(name, &operands.iter().collect::<Vec<_>>()).block(block).bound(f64::INFINITY))
}

fn gradient(builder: &mut Builder, name: &str) -> Option<Draft> {
    if is_deep(builder) {
        return None;
    }
    let operands = operands(builder, 2, |_| true)?;
    let (block, _) = function(builder, &operands, false)?;
    Some(Draft::new(name, &operands.iter().collect::<Vec<_>>()).block(block).bound(f64::INFINITY))
}

/// A loop: the number of carries, which are the first operands; sequences of equal length follow.
fn looped(builder: &mut Builder) -> Option<Draft> {
    if is_deep(builder) {
        return None;
    }
    let is_fit = |entry: &Entry| entry.count() < 60 && entry.dtype != DType::Bool;
    let mut list: Vec<Entry> = Vec::new();
    for _ in 0..1 + builder.random.below(2) {
        list.push(builder.pick(is_fit)?);
    }
    let carries = list.len();
    list.push(builder.pick(|entry| entry.rank() > 0 && entry.count() < 200 && entry.shape[0] <= 6)?);
    let length = list[carries].shape[0];
    if builder.random.chance(0.4) {
        list.extend(builder.pick(|entry| entry.rank() > 0 && entry.count() < 200 && entry.shape[0] == length));
    }
    loop_over(builder, list, carries)
}

/// The gradient of a long loop within a small budget, for which states are kept at some steps only.
fn long_loop_within(builder: &mut Builder) -> Option<Draft> {
    let x = builder.pick(|entry| entry.is_float() && entry.count() > 0 && entry.count() < 200)?;
    let (length, width) = (builder.random.between(8, 30), builder.random.between(1, 3));
    let (block, _) = builder.nested(&signature(std::slice::from_ref(&x)), |builder, x| {
        let state = builder.emit(Draft::new("resize", &[&x[0]]).integers([width]))?.pop()?;
        let sequence = builder.emit(Draft::new("resize", &[&x[0]]).integers([length, width]))?.pop()?;
        let draft = loop_over(builder, vec![state, sequence], 1)?;
        Some(vec![builder.emit(draft)?.swap_remove(0)])
    })?;
    Some(Draft::new("within", &[&x]).integers([16]).block(block).bound(f64::INFINITY))
}

/// A loop over some operands, of which the first are the state.
fn loop_over(builder: &mut Builder, list: Vec<Entry>, carries: usize) -> Option<Draft> {
    let mut parameters = signature(&list);
    for (place, parameter) in parameters.iter_mut().enumerate() {
        if place < carries {
            // The bound of a state must hold after every step.
            parameter.2 = if parameter.0.is_float() { parameter.2.max(1.0) } else { f64::INFINITY };
        } else {
            parameter.1.remove(0);
        }
    }
    let states: Vec<Entry> = list[..carries].to_vec();
    let (block, results) = builder.nested(&parameters, |builder, _| {
        fill_block(builder);
        let mut results = Vec::new();
        for state in &states {
            let next = builder.shaped(state.dtype, &state.shape)?;
            results.push(match state.is_float() {
                true => builder.emit(Draft::new("squash", &[&next]).reals([1.0]).bound(1.0))?.pop()?,
                false => next,
            });
        }
        for _ in 0..builder.random.below(3) {
            results.push(builder.pick(|entry| entry.count() < 200)?);
        }
        Some(results)
    })?;
    let bound =
        results.iter().chain(&list).filter(|entry| entry.is_float()).fold(1.0, |bound, one| one.bound.max(bound));
    let draft = Draft::new("scan", &list.iter().collect::<Vec<_>>());
    Some(draft.integers([carries as i64]).block(block).bound(bound))
}

/// A function that is mapped over an axis of its operands.
fn mapped(builder: &mut Builder) -> Option<Draft> {
    if is_deep(builder) {
        return None;
    }
    let first = builder.pick(|entry| entry.rank() > 0 && entry.count() < 300)?;
    let axis = builder.random.below(first.rank());
    let size = first.shape[axis];
    let mut list = vec![first];
    if builder.random.chance(0.5) {
        list.extend(builder.pick(|entry| entry.rank() > axis && entry.count() < 300 && entry.shape[axis] == size));
    }
    let mut parameters = signature(&list);
    parameters.iter_mut().for_each(|parameter| _ = parameter.1.remove(axis));
    let (block, results) = several(builder, &parameters)?;
    let rank = results.iter().map(Entry::rank).min()?;
    let out_axis = builder.random.below(rank + 1);
    let bound = results.iter().fold(0.0, |bound, entry| entry.bound.max(bound));
    let draft = Draft::new("vmap", &list.iter().collect::<Vec<_>>());
    Some(draft.integers([axis as i64, out_axis as i64]).block(block).bound(bound))
}

impl Application<'_> {
    fn function(&self) -> &Block {
        self.instruction.block.as_ref().expect("a transform has a block")
    }

    fn call(&self, arguments: &[Tensor]) -> Vec<Tensor> {
        self.interpreter.call(self.function(), self.environment, arguments)
    }

    /// The function as one number.
    fn loss(&self, arguments: &[Tensor]) -> Tensor {
        self.call(arguments)[0].sum()
    }

    fn list(&self) -> Vec<Tensor> {
        self.operands.to_vec()
    }

    /// Half of the operands, and the other half.
    fn halves(&self) -> (Vec<Tensor>, Vec<Tensor>) {
        let (x, v) = self.operands.split_at(self.operands.len() / 2);
        (x.to_vec(), v.to_vec())
    }

    fn failed(&self, error: &Error) -> Vec<Tensor> {
        self.instruction.results.iter().map(|_| Tensor::failed(error)).collect()
    }

    fn is_compiled(&self) -> bool {
        let mode = &self.interpreter.mode;
        !mode.inlined && !mode.expanded
    }

    /// A gradient within a budget. If there is none within it, the error says which budget suffices.
    fn within(&self, bytes: usize) -> Vec<Tensor> {
        let gradient = |bytes: usize| grad(|x: &Vec<Tensor>| self.loss(x)).within(bytes)(&self.list());
        let found = gradient(bytes);
        let needed = found.iter().find_map(Tensor::error).and_then(|error| {
            let rest = error.message().strip_prefix("the gradient takes at least ")?;
            rest.split(' ').next()?.parse().ok()
        });
        needed.map_or(found, gradient)
    }

    /// A loop by its definition.
    fn unrolled(&self) -> Vec<Tensor> {
        let carries = self.size(0);
        let (starts, sequences) = self.operands.split_at(carries);
        let length = sequences[0].shape()[0];
        let mut state = starts.to_vec();
        let mut stacks: Vec<Vec<Tensor>> = Vec::new();
        for step in 0..length {
            let entries = sequences.iter().map(|sequence| sequence.slice(&[s(step as isize)]));
            let arguments: Vec<Tensor> = state.iter().cloned().chain(entries).collect();
            let mut results = self.call(&arguments);
            let outputs = results.split_off(carries);
            state = results;
            stacks.push(outputs);
        }
        if length == 0 {
            let entries = sequences.iter().map(|x| Tensor::full(&x.shape()[1..], 0.0, x.dtype()));
            let arguments: Vec<Tensor> = state.iter().cloned().chain(entries).collect();
            let shapes = self.call(&arguments).split_off(carries);
            state.extend(shapes.iter().map(|one| Tensor::full(one.shape().to_vec(), 0.0, one.dtype())).map(no_entries));
            return state;
        }
        for place in 0..stacks[0].len() {
            state.push(Tensor::stack(stacks.iter().map(|outputs| &outputs[place]).collect::<Vec<_>>(), 0));
        }
        state
    }

    /// A mapped function by its definition.
    fn one_by_one(&self) -> Vec<Tensor> {
        let (axis, out_axis) = (self.size(0), self.size(1));
        let leading: Vec<Tensor> = self.operands.iter().map(|x| x.move_axis(axis as isize, 0)).collect();
        let size = leading[0].shape()[0];
        if size == 0 {
            let zeros: Vec<Tensor> = leading.iter().map(|x| Tensor::full(&x.shape()[1..], 0.0, x.dtype())).collect();
            let results = self.call(&zeros);
            return results.iter().map(|one| no_entries(one.clone()).move_axis(0, out_axis as isize)).collect();
        }
        let examples: Vec<Vec<Tensor>> = (0..size)
            .map(|place| self.call(&leading.iter().map(|x| x.slice(&[s(place as isize)])).collect::<Vec<_>>()))
            .collect();
        (0..examples[0].len())
            .map(|place| Tensor::stack(examples.iter().map(|results| &results[place]).collect::<Vec<_>>(), out_axis))
            .collect()
    }
}

/// A tensor of no entries like this one.
fn no_entries(entry: Tensor) -> Tensor {
    entry.unsqueeze(0).slice(&[s(..0_isize)])
}

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "scan",
        weight: 6,
        rounds: false,
        generate: looped,
        apply: |call| {
            if call.interpreter.mode.expanded {
                return call.unrolled();
            }
            let carries = call.size(0);
            let (starts, sequences) = (call.operands[..carries].to_vec(), call.operands[carries..].to_vec());
            let step = |state: &Vec<Tensor>, entry: &Vec<Tensor>| {
                let mut results = call.call(&[&state[..], &entry[..]].concat());
                let outputs = results.split_off(carries);
                (results, outputs)
            };
            let (last, stacked) = scan(step, &starts, &sequences);
            [last, stacked].concat()
        },
    },
    Operation {
        name: "vmap",
        weight: 6,
        rounds: false,
        generate: mapped,
        apply: |call| match call.interpreter.mode.expanded {
            true => call.one_by_one(),
            false => vmap_axes(|x: &Vec<Tensor>| call.call(x), call.size(0), call.size(1))(&call.list()),
        },
    },
    Operation {
        name: "checkpoint",
        weight: 4,
        rounds: false,
        generate: |builder| wrapped(builder, "checkpoint"),
        apply: |call| match call.interpreter.mode.expanded {
            true => call.call(call.operands),
            false => checkpoint(|x: &Vec<Tensor>| call.call(x))(&call.list()),
        },
    },
    Operation {
        name: "compile",
        weight: 3,
        rounds: false,
        generate: |builder| wrapped(builder, "compile"),
        apply: |call| {
            if !call.is_compiled() {
                return call.call(call.operands);
            }
            let compiled = compile(|x: &Vec<Tensor>| call.call(x));
            // The second call runs what the first one planned, and reuses its memory.
            let twice = compiled.call(&call.list()).and_then(|_| compiled.call(&call.list()));
            twice.unwrap_or_else(|error| call.failed(&error))
        },
    },
    // The number of operands that are the state, and of steps.
    Operation {
        name: "update",
        weight: 2,
        rounds: false,
        generate: |builder| {
            if is_deep(builder) {
                return None;
            }
            let list = operands(builder, 2, |_| true)?;
            let states = 1 + builder.random.below(list.len());
            let (kept, steps) = (list[..states].to_vec(), builder.random.between(1, 3));
            let mut parameters = signature(&list);
            parameters.iter_mut().for_each(|parameter| parameter.2 = parameter.2.max(1.0));
            let (block, _) = builder.nested(&parameters, |builder, _| {
                fill_block(builder);
                let mut results = Vec::new();
                for state in &kept {
                    let next = builder.shaped(state.dtype, &state.shape)?;
                    results.push(match state.is_float() {
                        true => builder.emit(Draft::new("squash", &[&next]).reals([1.0]).bound(1.0))?.pop()?,
                        false => next,
                    });
                }
                results.push(builder.any()?);
                Some(results)
            })?;
            let draft = Draft::new("update", &list.iter().collect::<Vec<_>>());
            Some(draft.integers([states as i64, steps]).block(block).bound(f64::INFINITY))
        },
        apply: |call| {
            let (states, steps) = (call.size(0), call.size(1).max(1));
            let (mut state, data) = (call.operands[..states].to_vec(), call.operands[states..].to_vec());
            let mut rest = Vec::new();
            if !call.is_compiled() {
                for _ in 0..steps {
                    let mut results = call.call(&[&state[..], &data[..]].concat());
                    rest = results.split_off(states);
                    state = results;
                }
                return [state, rest].concat();
            }
            let step = compile(|(state, data): &(Vec<Tensor>, Vec<Tensor>)| {
                let mut results = call.call(&[&state[..], &data[..]].concat());
                let rest = results.split_off(states);
                (results, rest)
            });
            for _ in 0..steps {
                match step.update(&mut state, &data) {
                    Ok(results) => rest = results,
                    Err(error) => return call.failed(&error),
                }
            }
            [state, rest].concat()
        },
    },
    Operation {
        name: "grad",
        weight: 5,
        rounds: false,
        generate: |builder| gradient(builder, "grad"),
        apply: |call| grad(|x: &Vec<Tensor>| call.loss(x))(&call.list()),
    },
    Operation {
        name: "value_and_grad",
        weight: 2,
        rounds: false,
        generate: |builder| gradient(builder, "value_and_grad"),
        apply: |call| {
            let (value, gradient) = value_and_grad(|x: &Vec<Tensor>| call.loss(x))(&call.list());
            [vec![value], gradient].concat()
        },
    },
    // The bytes that are allowed.
    Operation {
        name: "within",
        weight: 2,
        rounds: false,
        generate: |builder| {
            if builder.depth == 0 && builder.random.chance(0.5) {
                return long_loop_within(builder);
            }
            let draft = gradient(builder, "within")?;
            let bytes = 1 << builder.random.between(4, 14);
            Some(draft.integers([bytes]))
        },
        apply: |call| match call.interpreter.mode.expanded {
            true => grad(|x: &Vec<Tensor>| call.loss(x))(&call.list()),
            false => call.within(call.size(0)),
        },
    },
    Operation {
        name: "jvp",
        weight: 3,
        rounds: false,
        generate: |builder| along(builder, "jvp", false),
        apply: |call| {
            let (x, v) = call.halves();
            let (value, tangent) = jvp(|x: &Vec<Tensor>| call.call(x).swap_remove(0), &x, &v);
            vec![value, tangent]
        },
    },
    Operation {
        name: "linearize",
        weight: 1,
        rounds: false,
        generate: |builder| along(builder, "linearize", false),
        apply: |call| {
            let (x, v) = call.halves();
            let (value, push) = linearize(|x: &Vec<Tensor>| call.call(x).swap_remove(0), &x);
            vec![value, push(&v)]
        },
    },
    Operation {
        name: "hvp",
        weight: 3,
        rounds: false,
        generate: |builder| along(builder, "hvp", true),
        apply: |call| {
            let (x, v) = call.halves();
            hvp(|x: &Vec<Tensor>| call.loss(x), &x, &v)
        },
    },
    // The last operand is the cotangent.
    Operation {
        name: "vjp",
        weight: 3,
        rounds: false,
        generate: |builder| {
            if is_deep(builder) {
                return None;
            }
            let mut list = operands(builder, 1, Entry::is_float)?;
            let (block, results) = function(builder, &list, false)?;
            list.push(builder.shaped(results[0].dtype, &results[0].shape)?);
            Some(Draft::new("vjp", &list.iter().collect::<Vec<_>>()).block(block).bound(f64::INFINITY))
        },
        apply: |call| {
            let (cotangent, x) = call.operands.split_last().expect("a cotangent");
            let (value, pull) = vjp(|x: &Vec<Tensor>| call.call(x).swap_remove(0), &x.to_vec());
            [vec![value], pull(cotangent)].concat()
        },
    },
    Operation {
        name: "jacobian",
        weight: 1,
        rounds: false,
        generate: |builder| {
            if is_deep(builder) {
                return None;
            }
            let x = builder.pick(|entry| entry.is_float() && entry.count() < 12)?;
            let (block, _) = function(builder, std::slice::from_ref(&x), true)?;
            Some(Draft::new("jacobian", &[&x]).block(block).bound(f64::INFINITY))
        },
        apply: |call| vec![jacobian(|x: &Tensor| call.call(std::slice::from_ref(x)).swap_remove(0))(call.x())],
    },
    Operation {
        name: "no_grad",
        weight: 1,
        rounds: false,
        generate: |builder| wrapped(builder, "no_grad"),
        apply: |call| match call.interpreter.mode.ignores_stops {
            true => call.call(call.operands),
            false => no_grad(|x: &Vec<Tensor>| call.call(x))(&call.list()),
        },
    },
    // A long chain of cheap nodes, not evaluated.
    Operation {
        name: "history",
        weight: 0,
        rounds: true,
        generate: |builder| {
            let x = builder.float()?;
            let count = *builder.random.choose(&[100, 500, 1500]);
            let bound = x.bound + 1.0;
            Some(Draft::new("history", &[&x]).integers([count]).bound(bound))
        },
        apply: |call| {
            let mut x = call.x().clone();
            for _ in 0..call.size(0) {
                x = x * 0.5 + 0.25;
            }
            vec![x]
        },
    },
];
