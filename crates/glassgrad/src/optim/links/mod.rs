//! The links of the usual optimisers, a file for each.

mod adagrad;
mod adam;
mod clip;
mod decay;
mod momentum;
mod plateau;
mod rmsprop;

pub use adagrad::Adagrad;
pub use adam::Adam;
pub use clip::{ClipNorm, ClipValue};
pub use decay::{PullToZero, WeightDecay};
pub use momentum::{Average, Momentum};
pub use plateau::Plateau;
pub use rmsprop::RmsProp;
