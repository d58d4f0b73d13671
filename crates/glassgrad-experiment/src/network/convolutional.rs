//! Convolutions with pooling over images, then a linear layer, then the answer.

use glassgrad::expr::Keys;
use glassgrad::nn::{Activation, Conv2d, Dropout, Flatten, Layer, Linear, MaxPool};
use glassgrad::operations::Convolution;
use glassgrad::rng::Key;
use glassgrad::{Tensor, Tree};

use super::{Family, IoSpec, noisy};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::task::View;

#[derive(Clone, Debug, Tree)]
pub struct Convolutional {
    convolutions: Vec<Conv2d>,
    hidden: Linear,
    output: Linear,
    activation: Activation,
    pool: MaxPool<2>,
    dropout: Dropout,
    #[tree(static)]
    size: [usize; 2],
}

impl Family for Convolutional {
    fn build(key: Key, settings: &Settings, ends: &IoSpec) -> Result<Convolutional, Failure> {
        let View::Image { height, width } = ends.view else {
            return Err(Failure::Input(
                "--model cnn: a convolutional network needs images (digits, mnist, fashion, or an .npz file of images)"
                    .to_owned(),
            ));
        };
        let Some((hidden, channels)) = settings.layers.split_last().filter(|(_, channels)| !channels.is_empty()) else {
            let message = "--layers: a cnn has the channels of one or more convolutions and the width of a last layer, as in 16,32,128";
            return Err(Failure::Input(message.to_owned()));
        };
        let [mut rows, mut columns] = [height, width];
        let mut before = 1;
        let mut convolutions = Vec::new();
        for (number, outputs) in channels.iter().enumerate() {
            if rows < 2 || columns < 2 {
                let message = format!(
                    "--layers: images of {height}×{width} can be halved {number} times; ask for at most {number} convolutions"
                );
                return Err(Failure::Input(message));
            }
            // As large as before: a kernel of three, and one zero around the image.
            let config = Convolution::default().padding(1);
            convolutions.push(Conv2d::with_init(
                key.fold(number as u64),
                before,
                *outputs,
                3,
                config,
                settings.init.initializer(),
            ));
            (before, rows, columns) = (*outputs, rows / 2, columns / 2);
        }
        let linear = |number: u64, inputs: usize, outputs: usize| {
            Linear::with_init(key.fold(100 + number), inputs, outputs, settings.init.initializer())
        };
        Ok(Convolutional {
            convolutions,
            hidden: linear(0, before * rows * columns, *hidden),
            output: linear(1, *hidden, ends.outputs),
            activation: settings.activation.layer(),
            pool: MaxPool::new(2),
            dropout: Dropout::new(settings.dropout),
            size: [height, width],
        })
    }

    #[track_caller]
    fn run(&self, x: &Tensor, key: Option<&Keys>) -> Tensor {
        let mut x = x.reshape([x.shape()[0], 1, self.size[0], self.size[1]]);
        for convolution in &self.convolutions {
            x = self.pool.apply(&self.activation.apply(&convolution.apply(&x)));
        }
        // By its name the last convolution ends here for those who look inside.
        x = noisy(&self.dropout, Flatten(3).apply(&x).named("flattened"), key, 0);
        x = noisy(&self.dropout, self.activation.apply(&self.hidden.apply(&x)), key, 1);
        self.output.apply(&x)
    }
}
