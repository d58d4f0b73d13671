//! A convolutional network classifies bars: lying, standing, and along either diagonal, in noise.
//!
//! Convolution, batch normalisation, pooling, a linear layer. The statistics of the normalisation are no parameters: a step
//! of training returns them beside the loss, and they travel with the state.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 27_convolutional_network`.

use glassgrad::dtype::DType;
use glassgrad::nn::{BatchNorm, Conv2d, Flatten, Layer, Linear, MaxPool, Statistics};
use glassgrad::operations::Convolution;
use glassgrad::optim::{Optimizer, State};
use glassgrad::rng::Key;
use glassgrad::{Tensor, Tree, compile, diff::value_and_grad_aux, loss};

const SIZE: usize = 12;

#[derive(Clone, Tree)]
struct Network {
    convolution: Conv2d,
    norm: BatchNorm,
    pool: MaxPool<2>,
    output: (Flatten, Linear),
}

impl Network {
    fn new(key: Key) -> Network {
        Network {
            convolution: Conv2d::new(key.fold(0), 1, 8, 3, Convolution::default().padding(1)),
            norm: BatchNorm::new(8),
            pool: MaxPool::new(2),
            output: (Flatten(3), Linear::new(key.fold(1), 8 * (SIZE / 2) * (SIZE / 2), 4)),
        }
    }

    /// Logits, by the statistics of the batch; and the statistics after it.
    fn train(&self, images: &Tensor, statistics: &Statistics) -> (Tensor, Statistics) {
        let (normal, statistics) = self.norm.normalize(&self.convolution.apply(images), statistics);
        (self.output.apply(&self.pool.apply(&normal.relu())), statistics)
    }

    /// Logits, by the statistics of all batches before.
    fn predict(&self, images: &Tensor, statistics: &Statistics) -> Tensor {
        let normal = self.norm.predict(&self.convolution.apply(images), statistics);
        self.output.apply(&self.pool.apply(&normal.relu()))
    }
}

/// Images with a bar at a random place, and which of the four it is.
fn bars(key: Key, count: usize) -> (Tensor, Tensor) {
    let (mut pixels, mut classes) = (Vec::new(), Vec::new());
    for image in 0..count as u64 {
        let key = key.fold(image);
        let draw = |number: u64, below: usize| (key.uniform(number) * below as f64) as usize;
        let (class, row, column) = (draw(0, 4), 3 + draw(1, SIZE - 6), 3 + draw(2, SIZE - 6));
        classes.push(class as i64);
        for place in 0..SIZE * SIZE {
            let (down, right) = ((place / SIZE) as isize - row as isize, (place % SIZE) as isize - column as isize);
            let is_bar =
                down.abs().max(right.abs()) <= 2 && [down == 0, right == 0, down == right, down == -right][class];
            pixels.push(f32::from(u8::from(is_bar)) + 0.2 * key.normal(place as u64) as f32);
        }
    }
    (Tensor::new(&pixels, [count, 1, SIZE, SIZE]), Tensor::from(classes))
}

type Moment = ((Network, Statistics), State<Network>);

fn main() {
    let optimizer = Optimizer::adam(5e-3).weight_decay(1e-3);
    let step = compile(|(((network, statistics), state), (images, classes)): &(Moment, (Tensor, Tensor))| {
        let wrong = |network: &Network| {
            let (logits, statistics) = network.train(images, statistics);
            (loss::cross_entropy(&logits, classes).mean(), statistics)
        };
        let (value, gradient, statistics) = value_and_grad_aux(wrong)(network);
        let (network, state) = optimizer.update(network, &gradient, state);
        (((network, statistics), state), value)
    });
    let network = Network::new(Key::new(1));
    let mut moment = ((network.clone(), Statistics::new(8)), optimizer.init(&network));
    for number in 0..=600 {
        let value = step.update(&mut moment, &bars(Key::new(2).fold(number), 64)).expect("a step");
        if number % 200 == 0 {
            println!("step {number:3}  loss {:.3}", value.item().expect("a number"));
        }
    }
    let ((network, statistics), _) = moment;
    let (images, classes) = bars(Key::new(3), 500);
    let right = network.predict(&images, &statistics).argmax(-1).equal(&classes).cast(DType::F64).mean();
    let right = right.item().expect("a number");
    println!("{:.1} % of 500 new images are classified correctly", 100.0 * right);
    assert!(right > 0.95);
}
