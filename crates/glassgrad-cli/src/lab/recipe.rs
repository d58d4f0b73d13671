//! The optimiser that settings ask for.

use glassgrad::optim::{self, Optimiser};

use super::settings::{Optimizer, Schedule, Settings};
use crate::failure::Failure;

/// The optimiser, with its schedule told in steps: so many make an epoch.
pub(crate) fn optimiser(settings: &Settings, steps: u64) -> Result<Optimiser, Failure> {
    let Settings { lr, momentum, weight_decay, clip, lr_end, .. } = *settings;
    settings.check()?;
    let factor = if momentum > 0.0 { momentum } else { 0.9 };
    let optimiser = match settings.optimizer {
        Optimizer::Sgd if momentum > 0.0 => Optimiser::sgd(lr).momentum(momentum),
        Optimizer::Sgd => Optimiser::sgd(lr),
        Optimizer::Momentum => Optimiser::sgd(lr).momentum(factor),
        Optimizer::Nesterov => Optimiser::sgd(lr).nesterov(factor),
        Optimizer::Rmsprop => Optimiser::rmsprop(lr),
        Optimizer::Adagrad => Optimiser::adagrad(lr),
        Optimizer::Adam => Optimiser::adam(lr),
        Optimizer::Adamw => Optimiser::adamw(lr, if weight_decay > 0.0 { weight_decay } else { 0.01 }),
    };
    let optimiser = match settings.optimizer {
        Optimizer::Adamw => optimiser,
        _ if weight_decay > 0.0 => optimiser.weight_decay(weight_decay),
        _ => optimiser,
    };
    let optimiser = if clip > 0.0 { optimiser.clip_norm(clip) } else { optimiser };
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
    Ok(optimiser.schedule(match settings.warmup {
        0 => then,
        warmup => optim::Schedule::WarmUp { steps: warmup, then: Box::new(then) },
    }))
}
