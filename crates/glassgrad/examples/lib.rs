//! The course of glassgrad: `cargo run --release --example 07_moons`, and so on for each file with a number.
