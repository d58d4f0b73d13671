//! Networks that learn in the studio.
//!
//! - `asked` turns a question into an experiment, within limits;
//! - `runner` is the thread of one run: it makes steps, obeys orders, and looks at the network as often as time allows;
//! - `board` holds what there is to see of a run, the latest of each kind, for whoever is watching;
//! - `registry` knows all runs, and frees those that nobody cares for;
//! - `curve` keeps a curve of any length in a few hundred points;
//! - `handlers` and `stream` answer requests.

mod broadcast;
mod curve;
mod handlers;
mod inspect;
mod registry;
mod request;
mod runner;
mod stream;

pub(super) use handlers::routes;
pub(super) use registry::Registry;
