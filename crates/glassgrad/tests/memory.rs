//! What running takes besides arithmetic, counted by an allocator: memory at the highest point of a training step, and
//! requests for memory that do not grow with the number of operations.
//!
//! One test: the allocator counts for the whole process.
#[path = "judges/heap.rs"]
mod heap;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use glassgrad::data::Examples;
use glassgrad::error::Error;
use glassgrad::exec::with_threads;
use glassgrad::expr::{Keys, s};
use glassgrad::nn::{Activation, Conv2d, Layer, Linear, Lstm, Mlp, Recurrent};
use glassgrad::operations::Convolution;
use glassgrad::optim::{Optimizer, State};
use glassgrad::rng::Key;
use glassgrad::runtime::programs_planned;
use glassgrad::train::{Flow, Observer, Step, Training};
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, loss, value_and_grad};
use heap::{allocations, allocations_so_far, peak_bytes};

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
    let optimizer = Optimizer::adam(1e-5).clip_norm(1e3);
    let start = || -> Moment {
        let network = network(&sizes);
        (network.clone(), optimizer.init(&network).realise().unwrap())
    };
    let mut state = start();
    let pixels: Vec<f32> = (0..batch * 784).map(|k| (k as f32 * 0.3).cos()).collect();
    let classes: Vec<f32> = (0..batch * 10).map(|k| f32::from(u8::from(k % 11 == 0))).collect();
    let data = (Tensor::new(&pixels, [batch, 784]), Tensor::new(&classes, [batch, 10]));
    let count = state.0.element_count();
    let step = compile(|((network, state), data): &(Moment, Data)| {
        let (value, slope) = value_and_grad(|network: &Mlp| wrong(network, data))(network);
        (optimizer.update(network, &slope, state), value)
    });
    // The first step plans, and makes the memory that later ones find.
    let mut losses = vec![step.update(&mut state, &data).unwrap().item().unwrap()];
    // Working memory counts as planned: kernels also have buffers for each thread, as large as caches whatever the model. There
    // is one thread here, because another would make its buffers whenever it first finds something to do.
    let workspace = step.program(&(state.clone(), data.clone())).unwrap().arena;
    let ((), highest) = peak_bytes(|| {
        for _ in 0..5 {
            losses.push(step.update(&mut state, &data).unwrap().item().unwrap());
        }
    });
    // Released buffers are recycled, so that the memory of the state is counted by its leaves.
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

/// The requests for memory of one more step after a few, and the number of steps of its program.
fn requests_of_a_step<X: Tree + Clone>(
    network: X,
    data: Data,
    optimizer: &Optimizer,
    wrong: impl Fn(&X, &Data) -> Tensor,
) -> (usize, usize) {
    let mut state = (network.clone(), optimizer.init(&network).realise().unwrap());
    let data = data.realise().unwrap();
    let step = compile(|((network, state), data): &((X, State<X>), Data)| {
        let (value, slope) = value_and_grad(|network: &X| wrong(network, data))(network);
        (optimizer.update(network, &slope, state), value)
    });
    let mut losses = Vec::with_capacity(8);
    let mut make = || losses.push(step.update(&mut state, &data).unwrap().item().unwrap());
    (0..3).for_each(|_| make());
    let found = allocations(make);
    assert!(losses[3] < losses[0], "{losses:?}");
    (found, step.program(&(state, data)).unwrap().steps.len())
}

/// After the first steps nothing is asked for, however many layers there are and of whatever kind.
fn a_step_asks_for_no_memory() {
    let adam = || Optimizer::adam(1e-5).clip_norm(1e3);
    let classes = || Tensor::new(&[1_i64, 2, 3, 4], [4]);
    let layers = |count: usize| {
        let data = (Tensor::ones([4, 8]), classes());
        requests_of_a_step(network(&vec![8; count + 1]), data, &adam(), wrong)
    };
    let ((few, few_steps), (many, many_steps)) = (layers(3), layers(30));
    println!("a training step: {few} requests for memory in {few_steps} steps, {many} in {many_steps}");
    assert!(many_steps > 5 * few_steps);
    assert_eq!((few, many), (0, 0));
    let descent = Optimizer::sgd(1e-4).momentum(0.9);
    let data = (Tensor::ones([4, 8]), classes());
    assert_eq!(requests_of_a_step(network(&[8, 8, 8]), data, &descent, wrong).0, 0, "without clipping");
    // Convolutions, and entries that have names.
    let (first, second) = Key::new(1).split();
    let layers = BTreeMap::from([
        ("kernel", (Some(Conv2d::new(first, 1, 3, 3, Convolution::default())), None)),
        ("weight", (None, Some(Linear::new(second, 48, 5)))),
    ]);
    type Named = BTreeMap<&'static str, (Option<Conv2d>, Option<Linear>)>;
    let seen = |layers: &Named, (x, y): &Data| {
        let x = layers["kernel"].0.as_ref().map_or_else(|| x.clone(), |layer| layer.apply(x)).relu();
        let x = x.reshape([4, 48]);
        loss::cross_entropy(&layers["weight"].1.as_ref().map_or_else(|| x.clone(), |layer| layer.apply(&x)), y).mean()
    };
    let picture = (0..4 * 36).map(|k| (k as f32 * 0.3).sin()).collect::<Vec<_>>();
    let data = (Tensor::new(&picture, [4, 1, 6, 6]), classes());
    assert_eq!(requests_of_a_step(layers, data, &adam(), seen).0, 0, "a convolution");
    // A loop over time.
    let recurrent = (Recurrent::new(Lstm::new(first, 8, 6)), Linear::new(second, 6, 5));
    let heard = |(cell, head): &(Recurrent<Lstm>, Linear), (x, y): &Data| {
        loss::cross_entropy(&head.apply(&cell.apply(x).mean_over(1)), y).mean()
    };
    let data = (Tensor::new(&picture[..128], [4, 4, 8]), classes());
    assert_eq!(requests_of_a_step(recurrent, data, &adam(), heard).0, 0, "a loop");
}

/// What is returned beside the state is a tensor of its own as long as anyone holds it, and no longer.
fn results_without_a_handle_are_overwritten() {
    let step = compile(|(x, ()): &(Tensor, ())| (x + 1.0, x.square()));
    let mut x = Tensor::from([1.0, 2.0]);
    let held = step.update(&mut x, &()).unwrap().named("held");
    let twice = &held * 2.0;
    let array = step.update(&mut x, &()).unwrap().eval().unwrap();
    for _ in 0..3 {
        assert_eq!(step.update(&mut x, &()).unwrap().name(), None);
    }
    assert_eq!(
        (held.to_string(), twice.to_string(), array.to_string()),
        ("[1, 4]".to_owned(), "[2, 8]".to_owned(), "[4, 9]".to_owned())
    );
    drop((held, twice, array));
    assert_eq!(allocations(|| drop(step.update(&mut x, &()).unwrap())), 0);
    assert_eq!(step.update(&mut x, &()).unwrap().to_string(), "[49, 64]");
}

/// A run asks for the memory of what is new in each step, the key of its random numbers, and nothing else; every 64 steps it
/// also remembers where it was.
fn training_asks_for_the_key_of_each_step() {
    struct Count(Arc<Mutex<Vec<usize>>>, usize);
    impl Observer<Mlp> for Count {
        fn step(&mut self, _: &Step) -> Result<Flow, Error> {
            let now = allocations_so_far();
            self.0.lock().unwrap().push(now - self.1);
            self.1 = allocations_so_far();
            Ok(Flow::Continue)
        }
    }
    let examples = (Tensor::ones([40, 8]), Tensor::new(&(0..40).map(|k| k % 8).collect::<Vec<i64>>(), [40]));
    let examples = Arc::new(Examples::new(examples).unwrap());
    let counts = Arc::new(Mutex::new(Vec::with_capacity(200)));
    Training::new(|network: &Mlp, batch: &Data, _: &Keys| wrong(network, batch), Optimizer::adam(1e-3))
        .epochs(20)
        .batch_size(8)
        .observe(Count(Arc::clone(&counts), 0))
        .run(&network(&[8, 8, 8]), &examples)
        .unwrap();
    let counts = counts.lock().unwrap();
    assert_eq!(counts.len(), 100);
    // A key is a tensor: its element, its array and its node. Steps 0 and 64 remember the state, at the end of an epoch the
    // list of losses may grow, and the first time that a batch is not ready the channel makes what it waits with.
    let (few, more): (Vec<usize>, Vec<usize>) = counts[1..].iter().partition(|count| **count == 3);
    assert!(few.len() >= 80 && !more.iter().any(|count| *count < 3), "{counts:?}");
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
    with_threads(1, a_step_takes_little_more_than_what_it_must_hold);
    a_step_asks_for_no_memory();
    results_without_a_handle_are_overwritten();
    training_asks_for_the_key_of_each_step();
    requests_do_not_grow_with_the_number_of_operations();
    an_epoch_plans_once();
}
