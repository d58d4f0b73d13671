//! Recordings as graphs of the driver.

use cudarc::driver::result as driver;

use super::super::device::Recording;
use super::Handle;

/// A run of a program as a graph of the driver.
pub(super) struct Graph {
    pub(super) context: Handle,
    pub(super) stream: Handle,
    pub(super) graph: Handle,
    pub(super) instance: Handle,
}

impl Recording for Graph {
    fn replay(&self) -> Result<(), String> {
        // SAFETY: the graph lives as long as this; the addresses that it uses are reserved, since it is replayed with these.
        unsafe {
            driver::ctx::set_current(self.context.0.cast()).map_err(|error| error.to_string())?;
            driver::graph::launch(self.instance.0.cast(), self.stream.0.cast()).map_err(|error| error.to_string())
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: nothing uses the graph any more; the driver keeps what still runs.
        unsafe {
            let _ = driver::graph::exec_destroy(self.instance.0.cast());
            let _ = driver::graph::destroy(self.graph.0.cast());
        }
    }
}
