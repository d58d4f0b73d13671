//! Variational autoencoders.

use crate::Tree;
use crate::expr::{Keys, Tensor};
use crate::loss;
use crate::nn::{Activation, Layer as _, Linear};
use crate::rng::Key;

/// A variational autoencoder with one hidden layer on both sides: the encoder predicts a normal distribution of the latent
/// variables, the decoder Bernoulli logits of the inputs.
///
/// ```
/// use glassgrad::{Tensor, models::Vae, rng::Key, tree::Tree};
/// let network = Vae::new(Key::new(1), 784, 400, 20);
/// assert_eq!(network.element_count(), 652_824);
/// let images = Tensor::uniform(Key::new(2), [5, 784]);
/// assert_eq!(network.loss(&images, &Key::new(3).into()).shape().to_string(), "[5]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Vae {
    /// From the inputs to the hidden layer of the encoder.
    pub encoder: Linear,
    /// To the means of the latent variables.
    pub mean: Linear,
    /// To the logarithms of their variances.
    pub log_variance: Linear,
    /// From the latent variables to the hidden layer and to the logits of the inputs.
    pub decoder: (Linear, Activation, Linear),
}

/// The approximate posterior of the latent variables: a normal distribution with a diagonal covariance.
#[derive(Clone, Debug, Tree)]
pub struct Latent {
    /// The means, `[batch, latent]`.
    pub mean: Tensor,
    /// The logarithms of the variances.
    pub log_variance: Tensor,
}

impl Latent {
    /// A sample by the reparametrization trick: mean + σ·ε with standard normal ε, so that gradients reach both.
    ///
    /// ```
    /// use glassgrad::{Tensor, models::Latent};
    /// let latent = Latent { mean: Tensor::from([1.0]), log_variance: Tensor::from([0.0]) };
    /// assert_eq!(latent.sample_with(&Tensor::from([0.5])).to_string(), "[1.5]");
    /// ```
    #[track_caller]
    pub fn sample_with(&self, noise: &Tensor) -> Tensor {
        &self.mean + (&self.log_variance * 0.5).exp() * noise
    }

    /// The Kullback-Leibler divergence from the standard normal distribution, for each example.
    ///
    /// ```
    /// use glassgrad::{Tensor, models::Latent};
    /// let latent = Latent { mean: Tensor::from([[2.0, 0.0]]), log_variance: Tensor::from([[0.0, 0.0]]) };
    /// assert_eq!(latent.divergence().to_string(), "[2]");
    /// ```
    #[track_caller]
    pub fn divergence(&self) -> Tensor {
        let terms = self.mean.square() + self.log_variance.exp() - &self.log_variance - 1.0;
        terms.sum_over(-1) * 0.5
    }
}

impl Vae {
    /// An autoencoder of `inputs` numbers from 0 to 1, with hidden layers of this width and `latent` latent variables.
    pub fn new(key: Key, inputs: usize, hidden: usize, latent: usize) -> Vae {
        let linear = |number: u64, inputs: usize, outputs: usize| Linear::new(key.fold(number), inputs, outputs);
        Vae {
            encoder: linear(0, inputs, hidden),
            mean: linear(1, hidden, latent),
            log_variance: linear(2, hidden, latent),
            decoder: (linear(3, latent, hidden), Activation::Relu, linear(4, hidden, inputs)),
        }
    }

    /// The approximate posterior of the latent variables.
    ///
    /// ```
    /// use glassgrad::{Tensor, models::Vae, rng::Key};
    /// let latent = Vae::new(Key::new(1), 6, 4, 2).encode(&Tensor::ones([3, 6]));
    /// assert_eq!(latent.mean.shape().to_string(), "[3, 2]");
    /// ```
    #[track_caller]
    pub fn encode(&self, x: &Tensor) -> Latent {
        let hidden = self.encoder.apply(x).relu();
        Latent { mean: self.mean.apply(&hidden), log_variance: self.log_variance.apply(&hidden) }
    }

    /// The logits of the inputs, from latent variables.
    ///
    /// ```
    /// use glassgrad::{Tensor, models::Vae, rng::Key};
    /// let network = Vae::new(Key::new(1), 6, 4, 2);
    /// let images = network.decode(&Tensor::normal(Key::new(2), [3, 2])).sigmoid();
    /// assert_eq!(images.shape().to_string(), "[3, 6]");
    /// ```
    #[track_caller]
    pub fn decode(&self, latent: &Tensor) -> Tensor {
        self.decoder.apply(latent)
    }

    /// The negative evidence lower bound of each example: binary cross-entropy of the reconstruction, and the divergence of
    /// the posterior from the prior.
    #[track_caller]
    pub fn loss(&self, x: &Tensor, key: &Keys) -> Tensor {
        let latent = self.encode(x);
        let noise = Tensor::normal(key, latent.mean.shape()).cast(latent.mean.dtype());
        self.loss_with(x, &latent, &noise)
    }

    /// The same with given noise.
    ///
    /// ```
    /// use glassgrad::{Tensor, models::Vae, rng::Key};
    /// let (network, x) = (Vae::new(Key::new(1), 6, 4, 2), Tensor::full([3, 6], 0.5, glassgrad::dtype::DType::F32));
    /// let loss = network.loss_with(&x, &network.encode(&x), &Tensor::zeros([3, 2]));
    /// assert!(loss.min().item().unwrap() > 0.0);
    /// ```
    #[track_caller]
    pub fn loss_with(&self, x: &Tensor, latent: &Latent, noise: &Tensor) -> Tensor {
        let logits = self.decode(&latent.sample_with(noise));
        loss::binary_cross_entropy(&logits, x).sum_over(-1) + latent.divergence()
    }
}
