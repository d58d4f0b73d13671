//! The choice of an algorithm: candidates are measured in a CUDA graph, as they run in recordings.

use cudarc::cublaslt::sys as lt;
use cudarc::driver::{result as driver, sys};

use super::super::super::device::Address;
use super::matmul::{Matmul, Shape};
use super::{Products, scalar};

/// The multiplications of all repetitions in a measurement.
const MEASURED: usize = 1 << 33;

impl Products {
    /// The fastest algorithm for a product.
    pub(super) fn tuned(&self, matmul: &Matmul, shape: &Shape) -> Result<lt::cublasLtMatmulAlgo_t, String> {
        let candidates = matmul.candidates(self);
        let first = candidates.first().copied().ok_or_else(|| format!("no algorithm for a product of {shape:?}"))?;
        let places = [0, 1, 2].map(|operand| {
            // SAFETY: memory is reserved, not touched.
            unsafe { driver::malloc_sync(shape.bytes(operand).max(1)) }
        });
        let mut best = (f32::INFINITY, first);
        // Operands that do not fit a second time are not measured: the heuristic decides.
        if let [Ok(x), Ok(y), Ok(out)] = places {
            for algorithm in candidates {
                let seconds = self.measure(matmul, shape, &algorithm, [x, y, out]).unwrap_or(f32::INFINITY);
                if seconds < best.0 {
                    best = (seconds, algorithm);
                }
            }
        }
        for place in places.into_iter().flatten() {
            // SAFETY: the memory was reserved above, and the stream is idle.
            let _ = unsafe { driver::free_sync(place) };
        }
        Ok(best.1)
    }

    /// The milliseconds of a product, repeated in a graph as in a recorded run.
    fn measure(
        &self,
        matmul: &Matmul,
        shape: &Shape,
        algorithm: &lt::cublasLtMatmulAlgo_t,
        places: [Address; 3],
    ) -> Result<f32, String> {
        let text = |error: driver::DriverError| error.to_string();
        let multiplications = shape.sizes.iter().fold(shape.batch, |product, size| product.saturating_mul(*size));
        let repetitions = (MEASURED / multiplications.max(1)).clamp(1, 20);
        let (alpha, beta) = (scalar(shape.dtype, 1.0), scalar(shape.dtype, 0.0));
        let stream: sys::CUstream = self.stream.0.cast();
        // SAFETY: the stream belongs to this thread's turn and lives as long as the process; graph, instance and events are
        // destroyed when the stream is idle.
        unsafe {
            matmul.start(self, algorithm, places, [&alpha, &beta])?;
            driver::stream::synchronize(stream).map_err(text)?;
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            driver::stream::begin_capture(stream, mode).map_err(text)?;
            let started = (0..repetitions).try_for_each(|_| matmul.start(self, algorithm, places, [&alpha, &beta]));
            let graph = driver::stream::end_capture(stream).map_err(text)?;
            started?;
            let instance = driver::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)).map_err(text)?;
            let event = || driver::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(text);
            let (begin, end) = (event()?, event()?);
            let run = || {
                driver::event::record(begin, stream)?;
                driver::graph::launch(instance, stream)?;
                driver::event::record(end, stream)?;
                driver::stream::synchronize(stream)?;
                driver::event::elapsed(begin, end)
            };
            let least = (0..4).map(|_| run()).try_fold(f32::INFINITY, |least, time| time.map(|time| least.min(time)));
            let _ = (driver::event::destroy(begin), driver::event::destroy(end));
            let _ = (driver::graph::exec_destroy(instance), driver::graph::destroy(graph));
            Ok(least.map_err(text)? / repetitions as f32)
        }
    }
}
