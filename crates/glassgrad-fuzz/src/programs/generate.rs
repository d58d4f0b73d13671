//! Random programs.

use glassgrad::dtype::DType;

use super::builder::Builder;
use super::operations::fill;
use super::program::{Block, Data, Elements, Program};
use crate::random::Random;

/// How many programs of a hundred have arrays that are large enough for several threads.
const LARGE: f64 = 0.02;

/// How many programs of a hundred have NaN, infinities and extreme integers.
const SPECIAL: f64 = 0.06;

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    let mut random = Random::new(seed);
    let (is_large, is_special) = (random.chance(LARGE), random.chance(SPECIAL));
    let mut builder = Builder::new(random, is_special, is_large);
    let mut inputs: Vec<Data> = Vec::new();
    let mut dtypes = vec![*builder.random.choose(&[DType::F32, DType::F64, DType::F64]), DType::F64];
    for _ in 0..builder.random.below(3) {
        dtypes.push(*builder.random.choose(&[DType::F32, DType::F64, DType::I64, DType::Bool]));
    }
    for (place, dtype) in dtypes.into_iter().enumerate() {
        let shape = match is_large && place == 0 {
            true => vec![builder.random.between(100, 400) as usize, builder.random.between(100, 300) as usize],
            false => builder.shape(),
        };
        let data = builder.data(dtype, &shape);
        let bound = match &data.elements {
            Elements::Drawn(_) => 1.0,
            _ if is_special => f64::INFINITY,
            _ if dtype == DType::I64 => 6.0,
            _ => 2.0,
        };
        builder.parameter(dtype, &data.shape, bound);
        inputs.push(data);
    }
    let parameters: Vec<usize> = builder.entries().iter().map(|entry| entry.value).collect();
    let count = if is_large { 12 } else { builder.random.between(30, 120) as usize };
    fill(&mut builder, count);
    let mut results = Vec::new();
    for number in 0..2 + builder.random.below(4) {
        let found = match number {
            0 => builder.float(),
            _ => builder.any(),
        };
        results.extend(found.map(|entry| entry.value));
    }
    results.dedup();
    let block = Block { parameters, instructions: builder.take_instructions(), results };
    Program { inputs, block }.without_dead_code()
}
