//! Denoising diffusion: a network that predicts the noise in an image, and the chain that removes it step by step.

use crate::Tree;
use crate::error::Error;
use crate::expr::{Keys, Tensor};
use crate::nn::{Activation, Layer as _, Linear};
use crate::rng::Key;

/// The noise schedule of a diffusion model: a variance βₜ for each of some steps. After step t an example is
/// √ᾱₜ·x + √(1 − ᾱₜ)·ε, with the product ᾱₜ of all 1 − β up to t.
///
/// ```
/// use glassgrad::models::Diffusion;
/// let chain = Diffusion::cosine(100);
/// assert!(chain.alpha_bar(0) > 0.99 && chain.alpha_bar(99) < 1e-3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Diffusion {
    /// ᾱₜ for each step.
    alpha_bar: Vec<f64>,
}

/// The largest variance of a step.
const MAX_VARIANCE: f64 = 0.999;

impl Diffusion {
    /// A schedule with these variances, each above 0 and below 1.
    ///
    /// ```
    /// use glassgrad::models::Diffusion;
    /// assert_eq!(Diffusion::new(&[0.5, 0.5]).unwrap().alpha_bar(1), 0.25);
    /// assert!(Diffusion::new(&[1.5]).is_err());
    /// ```
    pub fn new(variances: &[f64]) -> Result<Diffusion, Error> {
        if let Some(wrong) = variances.iter().find(|variance| !(**variance > 0.0 && **variance < 1.0)) {
            let message = format!("the variance of a step is above 0 and below 1, not {wrong}");
            return Err(Error::new("diffusion", message));
        }
        Ok(Diffusion::of(variances.iter().copied()))
    }

    /// The cumulative products of 1 − β.
    fn of(variances: impl Iterator<Item = f64>) -> Diffusion {
        let mut product = 1.0;
        let alpha_bar = variances.map(|variance| {
            product *= 1.0 - variance;
            product
        });
        Diffusion { alpha_bar: alpha_bar.collect() }
    }

    /// Variances that rise linearly from 10⁻⁴ to 0.02, as for a chain of 1000 steps; shorter chains have larger ones.
    ///
    /// ```
    /// use glassgrad::models::Diffusion;
    /// assert!(Diffusion::linear(1000).alpha_bar(999) < 1e-4);
    /// ```
    pub fn linear(steps: usize) -> Diffusion {
        let scale = 1000.0 / steps.max(1) as f64;
        let part = |step: usize| step as f64 / steps.saturating_sub(1).max(1) as f64;
        let variance = |step: usize| (scale * (1e-4 + (0.02 - 1e-4) * part(step))).min(MAX_VARIANCE);
        Diffusion::of((0..steps).map(variance))
    }

    /// The cosine schedule: ᾱ falls along a squared cosine, slowly at both ends.
    pub fn cosine(steps: usize) -> Diffusion {
        let curve = |step: usize| {
            let part = (step as f64 / steps.max(1) as f64 + 0.008) / 1.008;
            (part * std::f64::consts::FRAC_PI_2).cos().powi(2)
        };
        Diffusion::of((1..=steps).map(|step| (1.0 - curve(step) / curve(step - 1)).min(MAX_VARIANCE)))
    }

    /// The number of steps.
    ///
    /// ```
    /// use glassgrad::models::Diffusion;
    /// assert_eq!(Diffusion::cosine(50).steps(), 50);
    /// ```
    pub fn steps(&self) -> usize {
        self.alpha_bar.len()
    }

    /// ᾱₜ: the share of the variance that is still of the example after step t.
    pub fn alpha_bar(&self, step: usize) -> f64 {
        self.alpha_bar[step]
    }

    /// Examples `[batch, …]` with noise, at a step for each, and that noise has the shape of the examples.
    ///
    /// ```
    /// use glassgrad::{Tensor, models::Diffusion};
    /// let chain = Diffusion::new(&[0.64]).unwrap();
    /// let noisy = chain.add_noise(&Tensor::from([[1.0]]), &Tensor::from([[2.0]]), &Tensor::from([0_i64]));
    /// assert!((noisy.item().unwrap() - 2.2).abs() < 1e-12);
    /// ```
    #[track_caller]
    pub fn add_noise(&self, x: &Tensor, noise: &Tensor, steps: &Tensor) -> Tensor {
        let mut shape = vec![1; x.rank().max(1)];
        shape[0] = steps.shape().elements();
        let table = |of: &dyn Fn(f64) -> f64| {
            let numbers: Vec<f64> = self.alpha_bar.iter().map(|alpha_bar| of(*alpha_bar)).collect();
            Tensor::from(numbers).cast(x.dtype()).take(steps, 0).reshape(&shape[..])
        };
        x * table(&f64::sqrt) + noise * table(&|alpha_bar| (1.0 - alpha_bar).sqrt())
    }

    /// The mean squared error of the predicted noise, at a uniformly drawn step for each example.
    ///
    /// ```
    /// use glassgrad::{Tensor, models::{Denoiser, Diffusion}, rng::Key};
    /// let (chain, network) = (Diffusion::cosine(20), Denoiser::new(Key::new(1), 4, 16, 8));
    /// let loss = chain.loss(&network, &Tensor::ones([5, 4]), &Key::new(2).into());
    /// assert!(loss.item().unwrap() > 0.1);
    /// ```
    #[track_caller]
    pub fn loss(&self, network: &Denoiser, x: &Tensor, key: &Keys) -> Tensor {
        let batch = x.shape().first().copied().unwrap_or(0);
        let uniform = Tensor::uniform(key.fold(0), [batch]) * self.steps() as f64;
        let steps = uniform.floor().cast(crate::dtype::DType::I64).clip(0, self.steps() as i64 - 1);
        let noise = Tensor::normal(key.fold(1), x.shape()).cast(x.dtype());
        self.loss_with(network, x, &noise, &steps)
    }

    /// The same with given noise and steps.
    #[track_caller]
    pub fn loss_with(&self, network: &Denoiser, x: &Tensor, noise: &Tensor, steps: &Tensor) -> Tensor {
        let predicted = network.apply(&self.add_noise(x, noise, steps), steps);
        crate::loss::mse(&predicted, noise).mean()
    }

    /// Samples: standard normal noise `[count, inputs]`, from which the predicted noise is removed step by step (ancestral
    /// sampling). The example that a step predicts is clipped to the range of the data, from -1 to 1: at the first steps nearly
    /// nothing of it is left, and the prediction magnifies errors.
    ///
    /// ```
    /// use glassgrad::{models::{Denoiser, Diffusion}, rng::Key};
    /// let (chain, network) = (Diffusion::cosine(10), Denoiser::new(Key::new(1), 4, 16, 8));
    /// assert_eq!(chain.sample(&network, 3, Key::new(2)).unwrap().shape().to_string(), "[3, 4]");
    /// ```
    pub fn sample(&self, network: &Denoiser, count: usize, key: Key) -> Result<Tensor, Error> {
        let inputs = network.input.weight.shape().first().copied().unwrap_or(0);
        let one = crate::compile::compile(|(network, (x, noise, step), numbers): &StepArguments| {
            let number = |place: isize| numbers.slice(&[place.into()]);
            let predicted = network.apply(x, &step.broadcast_to([x.shape()[0]]));
            let example = ((x - predicted * number(0)) * number(1)).clip(-1.0, 1.0);
            example * number(2) + x * number(3) + noise * number(4)
        });
        let mut x = Tensor::normal(key.fold(0), [count, inputs]);
        for step in (0..self.steps()).rev() {
            let before = if step == 0 { 1.0 } else { self.alpha_bar[step - 1] };
            let (alpha_bar, alpha) = (self.alpha_bar[step], self.alpha_bar[step] / before);
            let deviation = ((1.0 - before) / (1.0 - alpha_bar) * (1.0 - alpha)).sqrt();
            let noise = Tensor::normal(key.fold(1 + step as u64), [count, inputs]);
            // The mean of the step before, given this one and the example.
            let weights = [before.sqrt() * (1.0 - alpha), alpha.sqrt() * (1.0 - before)].map(|w| w / (1.0 - alpha_bar));
            let numbers = [(1.0 - alpha_bar).sqrt(), 1.0 / alpha_bar.sqrt(), weights[0], weights[1], deviation];
            let numbers = Tensor::from(numbers.to_vec()).cast(x.dtype());
            x = one.call(&(network.clone(), (x, noise, Tensor::from(step as i64)), numbers))?;
        }
        Ok(x)
    }
}

/// The arguments of one step of sampling: the network, the noisy examples with new noise and the step, and the coefficients.
type StepArguments = (Denoiser, (Tensor, Tensor, Tensor), Tensor);

/// A network that predicts the noise in flat examples `[batch, inputs]` at a step: residual layers, each of which adds a
/// projection of the sinusoidal embedding of the step.
///
/// ```
/// use glassgrad::{Tensor, models::Denoiser, rng::Key};
/// let network = Denoiser::new(Key::new(1), 64, 128, 32);
/// assert_eq!(network.apply(&Tensor::ones([5, 64]), &Tensor::from([0_i64; 5])).shape().to_string(), "[5, 64]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Denoiser {
    /// From the example to the hidden width.
    pub input: Linear,
    /// Residual layers: the projection of the step, and a two-layer network.
    pub blocks: Vec<(Linear, (Linear, Activation, Linear))>,
    /// From the hidden width to the noise.
    pub output: Linear,
    /// The number of sines and cosines of the step.
    #[tree(static)]
    pub frequencies: usize,
}

/// The number of residual layers of a denoiser.
const BLOCKS: usize = 3;

impl Denoiser {
    /// A network with this hidden width and an embedding of the step by this many numbers, half sines and half cosines.
    pub fn new(key: Key, inputs: usize, width: usize, frequencies: usize) -> Denoiser {
        let linear = |key: Key, inputs: usize, outputs: usize| Linear::new(key, inputs, outputs);
        let block = |number: u64| {
            let key = key.fold(2 + number);
            let inner = (linear(key.fold(1), width, width), Activation::Silu, linear(key.fold(2), width, width));
            (linear(key.fold(0), 2 * (frequencies / 2), width), inner)
        };
        Denoiser {
            input: linear(key.fold(0), inputs, width),
            blocks: (0..BLOCKS as u64).map(block).collect(),
            output: linear(key.fold(1), width, inputs),
            frequencies,
        }
    }

    /// The predicted noise in examples at these steps, one for each.
    #[track_caller]
    pub fn apply(&self, x: &Tensor, steps: &Tensor) -> Tensor {
        let embedded = self.embedded(steps, x);
        let mut features = self.input.apply(x);
        for (time, inner) in &self.blocks {
            features = &features + inner.apply(&(&features + time.apply(&embedded)).silu());
        }
        self.output.apply(&features.silu())
    }

    /// Sines and cosines of the step, at frequencies from 1 down to 10⁻⁴.
    #[track_caller]
    fn embedded(&self, steps: &Tensor, like: &Tensor) -> Tensor {
        let half = self.frequencies / 2;
        let frequency = |k: usize| 10_000_f64.powf(-(k as f64) / half.max(1) as f64);
        let frequencies = Tensor::from((0..half).map(frequency).collect::<Vec<f64>>()).cast(like.dtype());
        let angles = steps.cast(like.dtype()).unsqueeze(-1) * frequencies;
        Tensor::concatenate([&angles.sin(), &angles.cos()], -1)
    }
}
