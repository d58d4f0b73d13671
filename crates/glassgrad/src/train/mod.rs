//! Training as a value: the parameters, the loss, the optimizer, the data, and the observers.
//!
//! [`Training`] runs compiled steps of an [`Optimizer`](crate::optim::Optimizer) on prefetched batches, saves checkpoints of whole
//! runs, and resumes from them bit-identically. When the loss is not a number any more it finds
//! the operation and the line where that began, and returns the last parameters that were good. [`inspect`] looks at a step
//! for what does not show in the loss: vanishing and exploding gradients, dead units, parameters that the loss does not reach.
//! [`Training::precision`] computes both passes in 16 bits with master weights in full precision, and [`inspect_precision`] reports what
//! that overflows or loses. [`Training::shards`] distributes every batch over the ranks of a job, on many machines if need
//! be, with the same bits for any number of ranks. A [`Session`] makes one step at a time; [`Training::run`] is a loop over [`Session::advance`], and an [`Observer`] sees its
//! steps and epochs.
//!
//! ```
//! use std::sync::Arc;
//! use glassgrad::data::Examples;
//! use glassgrad::nn::{Activation, Layer, Mlp};
//! use glassgrad::optim::Optimizer;
//! use glassgrad::train::Training;
//! use glassgrad::{Tensor, expr::Keys, loss, rng::Key};
//!
//! let x = Tensor::linspace(-1.0_f32, 1.0, 64).reshape([64, 1]);
//! let examples = Arc::new(Examples::new((x.clone(), x.square())).unwrap());
//! let wrong = |network: &Mlp, (x, y): &(Tensor, Tensor), _: &Keys| loss::mse(&network.apply(x), y).mean();
//! let start = Mlp::new(Key::new(1), &[1, 16, 1], Activation::Tanh);
//! let trained = Training::new(wrong, Optimizer::adam(1e-2)).epochs(60).batch_size(16).run(&start, &examples).unwrap();
//! assert!(trained.losses.last().unwrap() < &(0.1 * trained.losses[0]));
//! ```

mod backward;
mod diagnostics;
mod distributed;
mod error;
mod observer;
mod precision;
mod run;
mod session;

pub use diagnostics::{Diagnostic, inspect, inspect_precision};
pub use error::TrainError;
pub use observer::{EarlyStopping, Epoch, Flow, Observer, Step};
pub use precision::{LossScale, Precision};
pub use run::{LossOutput, Run, Trained, Training};
pub use session::{Last, Session};
