//! On whose behalf nodes are made: what a pass makes for a node carries the line of that node.
//!
//! The rules of a derivative call ordinary operations, whose caller then is the library. A pass says for which
//! node it works while it does, so that every node of a derivative leads back to a line of the user. It is a
//! scope of the running thread and not an argument, because rules are written in ordinary operations; outside
//! of passes it costs one look at an empty cell.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::{Arc, Weak};

use super::node::Node;

/// What a pass makes of a node.
///
/// ```
/// use glassgrad::expr::Pass;
/// assert_ne!(Pass::Derivative, Pass::Batch);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A part of its derivative.
    Derivative,
    /// The same with a leading axis.
    Batch,
}

/// The node for which a pass made another one. It is not kept alive by that.
#[derive(Clone)]
pub(crate) struct Cause {
    pub(crate) node: Weak<Node>,
    pub(crate) pass: Pass,
    /// The line that what is made takes on; the user's own rules keep theirs.
    origin: Option<&'static Location<'static>>,
}

thread_local! {
    static CAUSE: RefCell<Option<Cause>> = const { RefCell::new(None) };
}

/// While this lives, nodes are made on behalf of another.
pub(crate) struct Behalf {
    before: Option<Cause>,
}

impl Behalf {
    /// Begins to work for a node.
    pub(crate) fn of(node: &Arc<Node>, pass: Pass) -> Behalf {
        Behalf::set(Some(Cause { node: Arc::downgrade(node), pass, origin: Some(node.origin) }))
    }

    /// Goes on working for the same node, in code of the user, whose lines are the right ones.
    pub(crate) fn with_own_lines() -> Behalf {
        let cause = CAUSE.with_borrow(Clone::clone);
        Behalf::set(cause.map(|cause| Cause { origin: None, ..cause }))
    }

    fn set(cause: Option<Cause>) -> Behalf {
        Behalf { before: CAUSE.replace(cause) }
    }
}

impl Drop for Behalf {
    fn drop(&mut self) {
        CAUSE.set(self.before.take());
    }
}

/// For whom a node is made that is being made now, and its line: that of the cause, or the caller's.
pub(super) fn current(caller: &'static Location<'static>) -> (Option<Cause>, &'static Location<'static>) {
    CAUSE.with_borrow(|cause| (cause.clone(), cause.as_ref().and_then(|cause| cause.origin).unwrap_or(caller)))
}
