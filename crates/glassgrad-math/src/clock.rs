//! A monotonic clock for profiles: that of the standard library, and on WebAssembly without a system interface
//! (`wasm32-unknown-unknown`), where there is none, the one that the embedding program provides.

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub use provided::{Instant, provide};
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub use std::time::Instant;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod provided {
    use std::sync::OnceLock;
    use std::time::Duration;

    static CLOCK: OnceLock<fn() -> Duration> = OnceLock::new();

    /// Provides the clock, such as `performance.now()` of a browser. The first one stays.
    pub fn provide(clock: fn() -> Duration) {
        CLOCK.get_or_init(|| clock);
    }

    /// A moment of the provided clock.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Instant(Duration);

    impl Instant {
        /// This moment.
        ///
        /// # Panics
        /// If no clock was provided.
        pub fn now() -> Instant {
            let clock = CLOCK
                .get()
                .expect("this target has no clock: call glassgrad::clock::provide before times are measured");
            Instant(clock())
        }

        /// The time since this moment.
        pub fn elapsed(&self) -> Duration {
            Instant::now().duration_since(*self)
        }

        /// The time since an earlier moment; zero if it is later.
        pub fn duration_since(&self, earlier: Instant) -> Duration {
            self.0.saturating_sub(earlier.0)
        }
    }
}
