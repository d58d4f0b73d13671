//! Collectives: communication among the shards of a batch, on one machine or many.
//!
//! Data-parallel training is SPMD (single program, multiple data). A batch is split into a fixed number of *shards*, a power of two.
//! Every shard runs the same program on its part of the batch; collectives, which are operations of the graph
//! (`Op::Collective`), combine the values of all shards. A *rank* is a process with a [`Communicator`],
//! and runs the consecutive shards that belong to it, each on a thread of its own ([`Shards`]).
//!
//! **The number of ranks does not change a bit.** The program of a shard is the same on any number of ranks, and a sum over shards is
//! evaluated by one fixed binary tree: ranks exchange partial sums of whole subtrees, and each addition is made once, in the order of
//! the tree, wherever the shards lie. Random keys belong to shards, not to ranks.
//!
//! - `kind` states what collectives compute, with shapes and transposes;
//! - `communicator` is the trait that transports implement, and [`Solo`], a job of one rank; `threads` has ranks that are threads of one
//!   process, for tests;
//! - `tree` is the fixed binary tree; `exchange` the messages that evaluate it among ranks;
//! - `model` predicts the time of a step on other numbers of ranks;
//! - `shards` runs the programs of the local shards and brings their requests together; `scope` is what a thread knows about its shard.

mod communicator;
mod exchange;
mod kind;
mod model;
mod scope;
mod shards;
mod threads;
mod tree;

pub use communicator::{Communicator, Echo, Solo};
pub use kind::{Collective, CollectiveKind};
pub use model::{Awaited, Predicted, StepModel, Transport, partial_sums};
pub use scope::shard_count;
pub use scope::{Ticket, perform, post};
pub use shards::{Milestones, Shards, Timeline, Traffic};
pub use threads::ThreadRank;
