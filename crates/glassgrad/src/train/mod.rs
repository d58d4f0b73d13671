//! Training as a value: what is trained, how, on what, and who watches.
//!
//! [`Training`] makes compiled steps of an [`Optimiser`](crate::optim::Optimiser) on batches that are made ahead, saves whole
//! runs, and goes on from them with the same bits as if nothing had happened. When the loss is not a number any more it finds
//! the operation and the line where that began, and returns the last parameters that were good. [`inspect`] looks at a step
//! for what does not show in the loss: slopes that vanish or explode, units that never fire, parameters that nothing reaches.
//! A [`Session`] is training that makes a step when it is told to.
//!
//! ```
//! use std::sync::Arc;
//! use glassgrad::data::Examples;
//! use glassgrad::nn::{Activation, Layer, Mlp};
//! use glassgrad::optim::Optimiser;
//! use glassgrad::train::Training;
//! use glassgrad::{Tensor, expr::Keys, loss, rng::Key};
//!
//! let x = Tensor::linspace(-1.0_f32, 1.0, 64).reshape([64, 1]);
//! let examples = Arc::new(Examples::new((x.clone(), x.square())).unwrap());
//! let wrong = |network: &Mlp, (x, y): &(Tensor, Tensor), _: &Keys| loss::mse(&network.apply(x), y).mean();
//! let start = Mlp::new(Key::new(1), &[1, 16, 1], Activation::Tanh);
//! let trained = Training::new(wrong, Optimiser::adam(1e-2)).epochs(60).batch_size(16).run(&start, &examples).unwrap();
//! assert!(trained.losses.last().unwrap() < &(0.1 * trained.losses[0]));
//! ```

mod concerns;
mod run;
mod session;
mod trouble;
mod watch;

pub use concerns::{Concern, inspect};
pub use run::{Run, Trained, Training};
pub use session::{Last, Session};
pub use trouble::Trouble;
pub use watch::{EarlyStopping, Epoch, Flow, Step, Watch};
