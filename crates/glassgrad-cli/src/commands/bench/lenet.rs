//! A small convolutional network: two convolutions of 5×5 with pooling, two layers; a step of Adam, batch 64.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::operations::{Convolution, Pooling};

use super::data::Source;
use super::training::{Mode, Optimizer, Training, cross_entropy};

type Parameters = [Tensor; 8];
type Data = (Tensor, Tensor);

const BATCH: usize = 64;

pub(super) fn workload() -> Training<Parameters, Data> {
    let mut source = Source::default();
    let mut kernel = |outputs: usize, inputs: usize| {
        let bound = 1.0 / (inputs as f64 * 25.0).sqrt();
        let kernel = source.uniform([outputs, inputs, 5, 5], -bound, bound, DType::F32);
        (kernel, source.uniform([outputs], -bound, bound, DType::F32))
    };
    let ((k1, c1), (k2, c2)) = (kernel(8, 1), kernel(16, 8));
    let ((w1, b1), (w2, b2)) = (source.layer(256, 120), source.layer(120, 10));
    let images = source.uniform([BATCH, 1, 28, 28], 0.0, 1.0, DType::F32);
    let targets = source.targets(BATCH, 10);
    Training::new(
        loss,
        Optimizer::Adam { rate: 1e-3 },
        Mode::Compiled,
        [k1, c1, k2, c2, w1, b1, w2, b2],
        vec![(images, targets)],
    )
}

fn loss([k1, c1, k2, c2, w1, b1, w2, b2]: &Parameters, (images, targets): &Data) -> Tensor {
    let convolved = |x: &Tensor, kernel: &Tensor, bias: &Tensor| {
        let bias = bias.reshape([bias.shape()[0], 1, 1]);
        (x.conv2d(kernel, Convolution::default()) + bias).relu().max_pool2d(Pooling::new(2))
    };
    let maps = convolved(&convolved(images, k1, c1), k2, c2);
    let hidden = (maps.reshape([BATCH, 256]).matmul(w1) + b1).relu();
    cross_entropy(&(hidden.matmul(w2) + b2), targets)
}
