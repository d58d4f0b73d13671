//! What a thread knows about its shard.

use std::cell::RefCell;
use std::sync::Arc;

use super::exchange::Request;
use super::kind::Collective;
use super::shards::Group;
use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::shape::Shape;

/// What a thread has entered: functions are traced for all shards, and programs run for one of them.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) shards: usize,
    /// The group, and the place of the shard among those of this rank.
    pub(super) replica: Option<(Arc<Group>, usize)>,
}

thread_local! {
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// Calls a function within a scope.
pub(super) fn within<R>(scope: Scope, function: impl FnOnce() -> R) -> R {
    /// Restores the former scope, also if the function panics.
    struct Restore(Option<Scope>);
    impl Drop for Restore {
        fn drop(&mut self) {
            SCOPE.replace(self.0.take());
        }
    }
    let _restore = Restore(SCOPE.replace(Some(scope)));
    function()
}

/// The number of shards that the function which is being traced, or the program which runs, belongs to; 1 outside of
/// [`Shards`](super::Shards).
///
/// ```
/// assert_eq!(glassgrad::collective::shard_count(), 1);
/// ```
pub fn shard_count() -> usize {
    SCOPE.with_borrow(|scope| scope.as_ref().map_or(1, |scope| scope.shards))
}

/// A collective that has begun.
pub struct Ticket {
    group: Arc<Group>,
    place: usize,
    number: u64,
}

impl Ticket {
    /// Waits for the collective, and writes its result.
    pub fn wait(self, output: &mut [u8]) -> Result<(), Error> {
        self.group.wait(self.number, self.place, output)
    }
}

/// Begins a collective with the operand of the shard that this thread runs.
pub fn post(collective: Collective, dtype: DType, shape: &Shape, operand: &[u8]) -> Result<Ticket, Error> {
    let replica = SCOPE.with_borrow(|scope| scope.as_ref().and_then(|scope| scope.replica.clone()));
    let refuse = |message: String| {
        Error::new(collective.kind.name(), message)
            .help("run the function by Compiled::call_shards, or train with Training::shards")
    };
    let Some((group, place)) = replica else {
        return Err(refuse(format!("it was built for {} shards, and no shard runs here", collective.shards)));
    };
    if group.count() != collective.shards {
        let (own, built) = (group.count(), collective.shards);
        return Err(refuse(format!("it was built for {built} shards, and runs among {own}")));
    }
    let request = Request { collective, dtype, bytes: operand.len(), outer: collective.outer(shape) };
    let number = group.post(place, request, operand)?;
    Ok(Ticket { group, place, number })
}

/// A whole collective on an array.
pub fn perform(collective: Collective, operand: &Array, shape: &Shape) -> Result<Array, Error> {
    let ticket = post(collective, operand.dtype(), operand.shape(), &operand.buffer().to_bytes())?;
    let mut bytes = vec![0; shape.elements() * operand.dtype().bytes()];
    ticket.wait(&mut bytes)?;
    Ok(Array::new(shape.clone(), Buffer::from_bytes(operand.dtype(), &bytes)))
}
