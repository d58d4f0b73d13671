//! Provenance: the primal node that each derived node came from, whose source line it takes over.
//!
//! Derivative rules call ordinary operations, whose caller then is the library. A pass opens a scope for the node that it works
//! on, so that every derived node leads back to a line of the user. The scope is one of the running thread and not an argument,
//! because rules are written in ordinary operations; outside of passes it costs one look at an empty cell.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::{Arc, Weak};

use super::node::Node;

/// How a node was derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A part of its derivative.
    Derivative,
    /// The same with a leading axis.
    Batch,
}

/// The primal node of a derived one, which does not keep it alive.
#[derive(Clone)]
pub(crate) struct Cause {
    pub(crate) node: Weak<Node>,
    pub(crate) pass: Pass,
    /// The source line that derived nodes take over; the user's own rules keep theirs.
    origin: Option<&'static Location<'static>>,
}

thread_local! {
    static CAUSE: RefCell<Option<Cause>> = const { RefCell::new(None) };
}

/// While this lives, new nodes are derived from another.
pub(crate) struct ProvenanceScope {
    before: Option<Cause>,
}

impl ProvenanceScope {
    /// The scope of a primal node.
    pub(crate) fn of(node: &Arc<Node>, pass: Pass) -> ProvenanceScope {
        ProvenanceScope::set(Some(Cause { node: Arc::downgrade(node), pass, origin: Some(node.origin) }))
    }

    /// The scope of the same node in code of the user, whose own source lines are recorded.
    pub(crate) fn with_own_lines() -> ProvenanceScope {
        let cause = CAUSE.with_borrow(Clone::clone);
        ProvenanceScope::set(cause.map(|cause| Cause { origin: None, ..cause }))
    }

    fn set(cause: Option<Cause>) -> ProvenanceScope {
        ProvenanceScope { before: CAUSE.replace(cause) }
    }
}

impl Drop for ProvenanceScope {
    fn drop(&mut self) {
        CAUSE.set(self.before.take());
    }
}

/// The provenance of a node that is built now, and its source line: that of the primal node, or the caller's.
pub(super) fn current(caller: &'static Location<'static>) -> (Option<Cause>, &'static Location<'static>) {
    CAUSE.with_borrow(|cause| (cause.clone(), cause.as_ref().and_then(|cause| cause.origin).unwrap_or(caller)))
}
