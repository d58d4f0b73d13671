//! The smallest program that needs Enzyme, with which `bench/run enzyme` finds out whether the compiler has it.

#![feature(autodiff)]

#[std::autodiff::autodiff_reverse(gradient, Active, Active)]
fn square(x: f64) -> f64 {
    x * x
}

fn main() {
    assert_eq!(gradient(3.0, 1.0), (9.0, 6.0));
}
