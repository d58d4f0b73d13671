//! What running takes besides arithmetic, counted by an allocator: memory at the highest point of a training step, and
//! requests for memory that do not grow with the number of operations.
//!
//! One test: the allocator counts for the whole process.
#[path = "judges/heap.rs"]
mod heap;

use glassgrad::exec::programs_planned;
use glassgrad::expr::s;
use glassgrad::nn::{Activation, Layer, Mlp};
use glassgrad::optim::{Optimiser, State};
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, loss, value_and_grad};
use heap::{allocations, peak_bytes};

#[global_allocator]
static ALLOCATOR: heap::CountingAllocator = heap::CountingAllocator;

type Moment = (Mlp, State<Mlp>);
type Data = (Tensor, Tensor);

fn network(sizes: &[usize]) -> Mlp {
    Mlp::new(Key::new(1), sizes, Activation::Relu)
}

fn wrong(network: &Mlp, (x, y): &Data) -> Tensor {
    loss::cross_entropy(&network.apply(x), y).mean()
}

/// The highest point of a step, against parameters, slopes, moments and what the layers make.
fn a_step_takes_little_more_than_what_it_must_hold() {
    let (sizes, batch) = ([784, 512, 256, 10], 128);
    let optimiser = Optimiser::adam(1e-5).clip_norm(1e3);
    let start = || -> Moment {
        let network = network(&sizes);
        (network.clone(), optimiser.start(&network).realise().unwrap())
    };
    let mut state = start();
    let pixels: Vec<f32> = (0..batch * 784).map(|k| (k as f32 * 0.3).cos()).collect();
    let classes: Vec<f32> = (0..batch * 10).map(|k| f32::from(u8::from(k % 11 == 0))).collect();
    let data = (Tensor::new(&pixels, [batch, 784]), Tensor::new(&classes, [batch, 10]));
    let count = state.0.element_count();
    let step = compile(|((network, state), data): &(Moment, Data)| {
        let (value, slope) = value_and_grad(|network: &Mlp| wrong(network, data))(network);
        (optimiser.update(network, &slope, state), value)
    });
    // The first step plans, and makes the memory that later ones find.
    let mut losses = vec![step.update(&mut state, &data).unwrap().item().unwrap()];
    // Working memory counts as planned: kernels also have buffers for each thread, as large as caches whatever the model.
    let workspace = step.program(&(state.clone(), data.clone())).unwrap().arena;
    let ((), highest) = peak_bytes(|| {
        for _ in 0..5 {
            losses.push(step.update(&mut state, &data).unwrap().item().unwrap());
        }
    });
    // Buffers that are let go of are kept for others, so what the state holds is counted by its leaves.
    let size = |leaf: &Tensor| leaf.shape().elements() * leaf.dtype().bytes();
    let held: usize = state.flatten().iter().map(size).sum();
    drop(state);
    // The same by calls that keep the old state, which take more memory and so come last.
    let mut other = start();
    for loss in &losses {
        let (next, value) = step.call(&(other, data.clone())).unwrap();
        assert_eq!(value.item().unwrap(), *loss);
        other = next;
    }
    assert!(losses[5] < losses[0], "{losses:?}");
    let activations: usize = sizes[1..].iter().map(|size| batch * size * 4).sum();
    let must = 4 * count * 4 + activations;
    let taken = held + workspace + highest;
    let ratio = taken as f64 / must as f64;
    println!("a training step: {taken} bytes at the highest point, {must} that it must hold, {ratio:.3}");
    assert!(ratio <= 1.2, "{ratio}");
}

/// After the first step nothing is asked for but the lists that the state is made of, however many layers there are.
fn requests_do_not_grow_with_the_number_of_layers() {
    let requests = |layers: usize| {
        let optimiser = Optimiser::adam(1e-5).clip_norm(1e3);
        let network = network(&vec![8; layers + 1]);
        let mut state = (network.clone(), optimiser.start(&network).realise().unwrap());
        let data = (Tensor::ones([4, 8]), Tensor::new(&[1_i64, 2, 3, 4], [4])).realise().unwrap();
        let step = compile(|((network, state), data): &(Moment, Data)| {
            let (value, slope) = value_and_grad(|network: &Mlp| wrong(network, data))(network);
            (optimiser.update(network, &slope, state), value)
        });
        (0..3).for_each(|_| drop(step.update(&mut state, &data).unwrap()));
        let steps = step.program(&(state.clone(), data.clone())).unwrap().steps.len();
        (allocations(|| drop(step.update(&mut state, &data).unwrap())), steps)
    };
    let ((few, few_steps), (many, many_steps)) = (requests(3), requests(30));
    println!("a training step: {few} requests for memory in {few_steps} steps, {many} in {many_steps}");
    // Lists of leaves grow by doubling.
    assert!(many_steps > 5 * few_steps && many <= few + 12, "{few} and {many}");
}

/// A chain of this many operations that do not all join one loop: products, sums, and functions in between.
fn chain(x: &Tensor, length: usize) -> Tensor {
    (0..length).fold(x.clone(), |x, k| match k % 4 {
        0 => x.matmul(&x) * 0.1,
        1 => (&x - x.mean_over(glassgrad::expr::Axes::from(1).keep())).tanh(),
        2 => x.transpose() + 1.0,
        _ => x.clone() / (x.square().sum() + 1.0),
    })
}

fn requests_do_not_grow_with_the_number_of_operations() {
    let x = Tensor::from([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]]);
    let requests = |length: usize| {
        let function = compile(move |x: &Tensor| value_and_grad(|x: &Tensor| chain(x, length).sum())(x));
        function.call(&x).unwrap();
        let steps = function.program(&x).unwrap().steps.len();
        (allocations(|| drop(function.call(&x).unwrap())), steps)
    };
    let ((few, few_steps), (many, many_steps)) = (requests(8), requests(400));
    println!("replay: {few} requests for memory in {few_steps} steps, {many} in {many_steps}");
    assert!(many_steps > 20 * few_steps);
    // A list of many arguments is the one thing that asks for memory once more.
    assert!(many <= few + 1, "{few} and {many}");
}

/// An epoch of batches that are slices, with a rate of their own for each step, plans nothing after the first step.
fn an_epoch_plans_once() {
    let x = Tensor::new(&(0..640).map(|k| (k as f32 * 0.1).sin()).collect::<Vec<_>>(), [160, 4]);
    let y = Tensor::new(&(0..320).map(|k| f32::from(u8::from(k % 3 == 0))).collect::<Vec<_>>(), [160, 2]);
    let mut parameters = network(&[4, 8, 2]);
    let mut before = None;
    for number in 0..20_isize {
        let part = s(8 * number..8 * (number + 1));
        let data = (x.slice(&[part]), y.slice(&[part]));
        let (value, slopes) = value_and_grad(|network: &Mlp| wrong(network, &data))(&parameters);
        let rate = 0.1 / (1.0 + number as f64);
        let next = parameters.zip(&slopes, |parameter, slope| parameter - slope * rate);
        let (moved, value) = (next, value).realise().unwrap();
        assert!(value.item().unwrap().is_finite());
        parameters = moved;
        let planned = programs_planned();
        if let Some(before) = before {
            assert_eq!(planned, before, "step {number} planned anew");
        }
        before = Some(planned);
    }
}

#[test]
fn memory_and_plans() {
    a_step_takes_little_more_than_what_it_must_hold();
    requests_do_not_grow_with_the_number_of_layers();
    requests_do_not_grow_with_the_number_of_operations();
    an_epoch_plans_once();
}
