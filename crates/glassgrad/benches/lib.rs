//! Benchmarks of glassgrad: `cargo bench --bench scalar`, `planning`, `overhead` and `growth`.
