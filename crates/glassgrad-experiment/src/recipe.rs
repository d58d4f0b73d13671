//! The optimizer that settings ask for.

use glassgrad::optim::{self, Optimizer};

use super::network::STATE;
use super::settings::{Model, Schedule, Settings};
use crate::failure::Failure;

/// The optimizer, with its schedule in steps, for this number of steps per epoch.
pub fn optimizer(settings: &Settings, steps: u64) -> Result<Optimizer, Failure> {
    let Settings { lr, momentum, weight_decay, clip, lr_end, .. } = *settings;
    settings.check()?;
    let row = settings.optimizer.0;
    let mut optimizer = (row.build)(lr, (momentum > 0.0).then_some(momentum));
    let decay = if weight_decay > 0.0 { weight_decay } else { row.weight_decay };
    if decay > 0.0 {
        optimizer = match settings.model {
            // Batch and layer normalization need no decay, and neither do biases.
            Model::Gpt | Model::Resnet => optimizer.matrix_decay(decay),
            Model::Mlp | Model::Sparse | Model::Cnn | Model::Rnn | Model::Lstm | Model::Gru | Model::Transformer => {
                optimizer.weight_decay(decay)
            }
        };
    }
    if settings.model == Model::Resnet {
        optimizer = optimizer.freeze(STATE);
    }
    if clip > 0.0 {
        optimizer = optimizer.clip_norm(clip);
    }
    let (steps, epochs) = (steps.max(1), settings.epochs.max(1));
    let all = steps.saturating_mul(epochs).saturating_sub(settings.warmup).max(1);
    let then = match settings.schedule {
        Schedule::Constant => optim::Schedule::Constant,
        Schedule::Linear => optim::Schedule::Linear { from: 1.0, to: lr_end, changes: epochs, every: steps },
        Schedule::Cosine => optim::Schedule::Cosine { steps: all, least: lr_end },
        Schedule::Exponential => {
            optim::Schedule::Exponential { factor: lr_end.powf(1.0 / epochs as f64), every: steps }
        }
    };
    Ok(optimizer.schedule(match settings.warmup {
        0 => then,
        warmup => optim::Schedule::WarmUp { steps: warmup, then: Box::new(then) },
    }))
}
