//! How many random cases a property is tried on, and which.

use proptest::test_runner::{Config, RngSeed};

/// The same cases in every run, for a test that fails must fail again.
/// With `PROPTEST_CASES` set there are as many as it says, and other ones each time.
pub(crate) fn random_cases(count: u32) -> Config {
    let own = Config { failure_persistence: None, ..Config::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => own,
        None => Config { cases: count, rng_seed: RngSeed::Fixed(1), ..own },
    }
}
