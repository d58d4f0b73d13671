//! Collectives as operations of the graph: see [`collective`](crate::collective).

use std::panic::Location;

use super::node::{Op, Tensor};
use crate::collective::{Collective, CollectiveKind, shard_count};
use crate::error::Error;

impl Tensor {
    /// The sum of this tensor over all shards of the batch, for every shard (all-reduce).
    ///
    /// It is linear and its own transpose: where every shard contributes a part of the loss, gradients through it are those of the loss
    /// over all shards. In a function that does not run on [`Shards`](crate::collective::Shards), there is one shard, and this is the
    /// tensor itself.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::{Tensor, collective::{Shards, Solo}, compile, grad};
    /// let shards = Shards::new(Arc::new(Solo), 2).unwrap();
    /// // Each shard contributes s² / 2, where s is the sum over shards: the loss is s², and its gradient 2 s.
    /// let gradient = compile(grad(|x: &Tensor| x.all_reduce().square() * 0.5));
    /// let gradients = gradient.call_shards(&shards, &[Tensor::from(3.0), Tensor::from(4.0)]).unwrap();
    /// assert_eq!((gradients[0].item().unwrap(), gradients[1].item().unwrap()), (14.0, 14.0));
    /// assert_eq!(Tensor::from(3.0).all_reduce().item().unwrap(), 3.0);
    /// ```
    #[track_caller]
    pub fn all_reduce(&self) -> Tensor {
        self.collective(CollectiveKind::AllReduce)
    }

    /// The tensors of all shards one after another along an axis, for every shard. Its transpose is [`Tensor::reduce_scatter`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::{Tensor, collective::{Shards, Solo}, compile};
    /// let shards = Shards::new(Arc::new(Solo), 2).unwrap();
    /// let gathered = compile(|x: &Tensor| x.all_gather(0));
    /// let results = gathered.call_shards(&shards, &[Tensor::from([1.0]), Tensor::from([2.0])]).unwrap();
    /// assert_eq!(results[1].to_string(), "[1, 2]");
    /// ```
    #[track_caller]
    pub fn all_gather(&self, axis: usize) -> Tensor {
        self.collective(CollectiveKind::AllGather { axis })
    }

    /// The sum over all shards, of which each shard has its own block along an axis. Its transpose is [`Tensor::all_gather`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::{Tensor, collective::{Shards, Solo}, compile};
    /// let shards = Shards::new(Arc::new(Solo), 2).unwrap();
    /// let scattered = compile(|x: &Tensor| x.reduce_scatter(0));
    /// let results = scattered.call_shards(&shards, &[Tensor::from([1.0, 2.0]), Tensor::from([30.0, 40.0])]).unwrap();
    /// assert_eq!((results[0].to_string(), results[1].to_string()), ("[31]".into(), "[42]".into()));
    /// ```
    #[track_caller]
    pub fn reduce_scatter(&self, axis: usize) -> Tensor {
        self.collective(CollectiveKind::ReduceScatter { axis })
    }

    /// The tensor of one shard, for every shard.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::{Tensor, collective::{Shards, Solo}, compile};
    /// let shards = Shards::new(Arc::new(Solo), 2).unwrap();
    /// let first = compile(|x: &Tensor| x.broadcast_from(0));
    /// let results = first.call_shards(&shards, &[Tensor::from(1.0), Tensor::from(2.0)]).unwrap();
    /// assert_eq!(results[1].item().unwrap(), 1.0);
    /// ```
    #[track_caller]
    pub fn broadcast_from(&self, shard: usize) -> Tensor {
        self.collective(CollectiveKind::Broadcast { root: shard })
    }

    #[track_caller]
    fn collective(&self, kind: CollectiveKind) -> Tensor {
        self.collective_at(Collective { kind, shards: shard_count() }, Location::caller())
    }

    /// A collective for rules, which know the user's line and are not called from there.
    pub(crate) fn collective_at(&self, collective: Collective, origin: &'static Location<'static>) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        match collective.output(self.shape(), self.dtype()) {
            // Among one shard every collective is the identity.
            Ok(_) if collective.shards == 1 => self.clone(),
            Ok(shape) => Tensor::node_at(Op::Collective(collective), &[self], shape, self.dtype(), origin),
            Err(message) => Tensor::refused_at(Error::new(collective.kind.name(), message), &[self], origin),
        }
    }
}
