//! The course of glassgrad: `cargo run --release -p glassgrad-examples --example 07_moons`, and so on for each file with a number.
