//! A network for handwritten digits, 784-1568-392-10 with rectified neurons: a step of descent with weight decay.

use glassgrad::Tensor;
use glassgrad::dtype::DType;

use super::data::Source;
use super::training::{Mode, Optimizer, Training, cross_entropy};

type Parameters = [Tensor; 6];
type Data = (Tensor, Tensor);

pub(super) fn workload(batch: usize) -> Training<Parameters, Data> {
    let mut source = Source::default();
    let [(w1, b1), (w2, b2), (w3, b3)] =
        [(784, 1568), (1568, 392), (392, 10)].map(|(inputs, outputs)| source.layer(inputs, outputs));
    let images = source.uniform([batch, 784], 0.0, 1.0, DType::F32);
    let targets = source.targets(batch, 10);
    let optimizer = Optimizer::Descent { rate: 0.05, decay: 1e-4 };
    Training::new(loss, optimizer, Mode::Compiled, [w1, b1, w2, b2, w3, b3], vec![(images, targets)])
}

fn loss([w1, b1, w2, b2, w3, b3]: &Parameters, (images, targets): &Data) -> Tensor {
    let first = (images.matmul(w1) + b1).relu();
    let second = (first.matmul(w2) + b2).relu();
    cross_entropy(&(second.matmul(w3) + b3), targets)
}
