//! The two tables on which the examples learn; `README.md` says where they come from.

#![allow(dead_code, reason = "every example includes this file and uses a part of it")]

const MOONS: &str = include_str!("moons_micrograd_seed1337_n100_noise0.1.csv");
const IRIS: &str = include_str!("iris.csv");

/// The features and the class of one row of a table.
type Sample<const N: usize> = ([f64; N], usize);

/// Two interleaved half-moons: 100 points of the plane in two classes.
pub(crate) fn moons() -> Vec<Sample<2>> {
    samples(MOONS)
}

/// Fisher's irises: 150 flowers with four lengths in centimetres, of three species.
pub(crate) fn iris() -> Vec<Sample<4>> {
    samples(IRIS)
}

fn samples<const N: usize>(table: &str) -> Vec<Sample<N>> {
    // The first line is a header, and the last column is the class.
    let sample = |line: &str| {
        let numbers: Vec<f64> = line.split(',').map(|number| number.parse().expect("a number")).collect();
        (std::array::from_fn(|column| numbers[column]), numbers[N] as usize)
    };
    table.lines().skip(1).map(sample).collect()
}
