//! Benchmarks of glassgrad: `cargo bench -p glassgrad-benches --bench scalar`, `planning`, `overhead` and `growth`.
