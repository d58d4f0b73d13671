//! A network for handwritten digits, 784-1568-392-10 with rectified neurons: a step of descent with weight decay.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::nn::{Activation, Layer as _, Mlp};
use glassgrad::optim::Optimizer;

use super::data::Source;
use super::training::{Mode, Training, cross_entropy};

type Data = (Tensor, Tensor);

pub(super) fn workload(batch: usize) -> Training<Mlp, Data> {
    let mut source = Source::default();
    let layers = [(784, 1568), (1568, 392), (392, 10)].map(|(inputs, outputs)| source.layer(inputs, outputs));
    let network = Mlp { layers: layers.into(), activation: Activation::Relu };
    let images = source.uniform([batch, 784], 0.0, 1.0, DType::F32);
    let targets = source.targets(batch, 10);
    let optimizer = Optimizer::sgd(0.05).weight_decay(1e-4);
    Training::new(loss, optimizer, Mode::Compiled, network, vec![(images, targets)])
}

fn loss(network: &Mlp, (images, targets): &Data) -> Tensor {
    cross_entropy(&network.apply(images), targets)
}
