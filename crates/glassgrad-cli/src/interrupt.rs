//! Ctrl-C: the first asks a run to end in good order, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on the first Ctrl-C is only written down.
pub(crate) fn listen() {
    // A second call finds the handler installed already.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// Whether Ctrl-C was pressed.
pub(crate) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
