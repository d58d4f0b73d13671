//! ISA levels: the instruction sets, and thereby vector widths, that kernels are compiled for.
//!
//! A program runs at the best level of its machine. The kernels of the two upper levels do the same operations in the
//! same order, with multiply-adds that round once, and give the same bits; those of the lowest level on x86 round
//! twice, and differ from them within the bounds of [`accuracy`](super::accuracy). ARM has one level: NEON is its lowest, and
//! rounds once.

use std::cell::Cell;

/// An instruction-set architecture (ISA) level.
///
/// ```
/// use glassgrad::exec::Isa;
/// assert!(Isa::Baseline < Isa::Avx2 && Isa::Avx2 < Isa::Avx512);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What every machine of this architecture has: SSE2 on x86, NEON on ARM.
    Baseline,
    /// Vectors of 256 bits with fused multiply-adds, on x86.
    Avx2,
    /// Vectors of 512 bits, on x86.
    Avx512,
}

thread_local! {
    /// The level that a test asks for. It is empty otherwise.
    static FORCED: Cell<Option<Isa>> = const { Cell::new(None) };
}

impl Isa {
    /// Whether multiply-adds of the lowest level round once.
    pub(super) const BASELINE_FUSES: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

    /// The levels that this machine has, from the lowest to the best.
    ///
    /// ```
    /// use glassgrad::exec::Isa;
    /// assert_eq!(Isa::here()[0], Isa::Baseline);
    /// ```
    pub fn here() -> Vec<Isa> {
        let best = Isa::best();
        [Isa::Baseline, Isa::Avx2, Isa::Avx512].into_iter().filter(|level| *level <= best).collect()
    }

    fn best() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            // Asking is cheap: the standard library remembers the answers.
            let medium =
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
            if medium && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
                return Isa::Avx512;
            }
            if medium {
                return Isa::Avx2;
            }
        }
        Isa::Baseline
    }

    /// The level that programs started by this thread run at.
    pub(super) fn current() -> Isa {
        FORCED.get().unwrap_or_else(Isa::best)
    }
}

/// Calls a function whose programs run at most at some level, on this thread and on those that it hands loops to.
/// This is for tests: nothing else lowers the level, and no level is raised above what the machine has.
///
/// ```
/// use glassgrad::{Tensor, exec};
/// let half = exec::with_isa(exec::Isa::Baseline, || Tensor::from(0.0).sigmoid().item());
/// assert_eq!(half.unwrap(), 0.5);
/// ```
#[doc(hidden)]
pub fn with_isa<R>(level: Isa, function: impl FnOnce() -> R) -> R {
    /// Gives the former level back, also if the function panics.
    struct Restore(Option<Isa>);
    impl Drop for Restore {
        fn drop(&mut self) {
            FORCED.set(self.0);
        }
    }
    let _restore = Restore(FORCED.replace(Some(level.min(Isa::best()))));
    function()
}
