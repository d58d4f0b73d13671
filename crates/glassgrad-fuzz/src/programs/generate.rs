//! Random programs.

use glassgrad::dtype::DType;

use super::builder::{Builder, Draft};
use super::operations::{all, fill, find};
use super::program::{Block, Data, Elements, Program};
use crate::random::Random;

/// The probability that a program has arrays that are large enough for several threads.
const LARGE: f64 = 0.02;

/// The probability that a program has NaN, infinities and extreme integers.
const SPECIAL: f64 = 0.06;

/// The probability that a program begins with a long chain of nodes that are not evaluated.
const HISTORY: f64 = 0.02;

/// The probability that a program reads an index that does not exist, which is an error everywhere.
const FAILING: f64 = 0.01;

/// Reads an entry behind the last one.
fn fail(builder: &mut Builder) -> Option<()> {
    let x = builder.pick(|entry| entry.is_float() && entry.rank() > 0)?;
    let elements = Elements::Integers(vec![0, x.shape[0] as i64]);
    let indices = Draft::new("constant", &[]).data(Data { dtype: DType::I64, shape: vec![2], elements });
    let indices = builder.emit(indices)?.pop()?;
    builder.emit(Draft::new("gather", &[&x, &indices]).integers([0])).map(|_| ())
}

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    program_of(seed, &|_| true)
}

/// The program of a seed, of operations that `is_allowed` knows by name.
pub fn program_of(seed: u64, is_allowed: &dyn Fn(&str) -> bool) -> Program {
    let mut random = Random::new(seed);
    let (is_large, is_special) = (random.chance(LARGE), random.chance(SPECIAL));
    let is_large = is_large && is_allowed("history");
    let mut builder = Builder::new(random, is_special, is_large);
    builder.excluded = all().map(|operation| operation.name).filter(|name| !is_allowed(name)).collect();
    let mut inputs: Vec<Data> = Vec::new();
    let mut dtypes = vec![*builder.random.choose(&[DType::F32, DType::F64, DType::F64]), DType::F64];
    for _ in 0..builder.random.below(3) {
        let types = [DType::F32, DType::F64, DType::I64, DType::I32, DType::U8, DType::Bool];
        dtypes.push(*builder.random.choose(&types));
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
            _ if dtype == DType::U8 => 255.0,
            _ if dtype.is_integer() => 6.0,
            _ => 2.0,
        };
        builder.parameter(dtype, &data.shape, bound);
        inputs.push(data);
    }
    let parameters: Vec<usize> = builder.entries().iter().map(|entry| entry.value).collect();
    let count = if is_large { 12 } else { builder.random.between(30, 120) as usize };
    if builder.random.chance(HISTORY) && is_allowed("history") {
        let history = find("history");
        let draft = (history.generate)(&mut builder);
        draft.and_then(|draft| builder.emit(draft));
    }
    fill(&mut builder, count);
    if builder.random.chance(FAILING) {
        fail(&mut builder);
    }
    let mut results = Vec::new();
    for number in 0..4 + builder.random.below(5) {
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
