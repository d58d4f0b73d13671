//! Measured limits of the machine, and the time of a step by the roofline model.
//!
//! The model is simple. A step needs the time of its arithmetic or that of its memory, whichever is longer, and a fixed
//! time to begin. Arithmetic has three kinds, each with a rate of its own for 32 and for 64 bits: products of matrices,
//! loops of cheap operations, and loops of functions such as exp and tanh. Memory has two: a step that touches few
//! bytes finds them in a cache. All rates are those of all threads together, so a step that is too short for several
//! of them is expected to be slower. The access pattern is not modelled.

use std::fmt;
use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};

use super::text::seconds;
use crate::clock::Instant;
use crate::dtype::DType;
use crate::error::Error;
use crate::exec::cpu::thread_pool::each_part;
use crate::exec::{self, Input};
use crate::expr::Tensor;
use crate::ops::Operation;
use crate::opt::contract::metric;
use crate::opt::program::{Instruction, Loop, Program, Step};
use crate::runtime;

/// Each limit is the best of this many turns, each of about this long.
const TURNS: usize = 5;
const TURN: Duration = Duration::from_millis(6);
/// The rows and columns of the matrices that are multiplied.
const MATRIX: usize = 384;
/// The elements of the loops for each thread: enough to be shared by all, few enough for a cache.
const ELEMENTS: usize = 1 << 15;
/// How many operations such a loop does for each element.
const OPERATIONS: usize = 64;
const FUNCTIONS: usize = 16;
/// The bytes that are copied from memory, more than caches hold, and from the cache by each thread.
const FAR: usize = 1 << 25;
const NEAR: usize = 1 << 17;

/// The limits of this machine.
///
/// ```
/// use glassgrad::explain::Limits;
/// let limits = Limits::measured();
/// assert!(limits.product[0] > 0.0 && limits.cache >= limits.memory);
/// // A step of nothing takes the time that it takes to begin one.
/// assert!(limits.overhead > 0.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// How many threads there are.
    pub threads: usize,
    /// Multiplications and additions a second in products of matrices, of 32 and of 64 bits.
    pub product: [f64; 2],
    /// Cheap operations on elements a second in loops, of 32 and of 64 bits.
    pub arithmetic: [f64; 2],
    /// Functions of elements a second in loops: the mean of exp and tanh, of 32 and of 64 bits.
    pub transcendental: [f64; 2],
    /// Bytes read and written a second in memory.
    pub memory: f64,
    /// Bytes read and written a second in caches, never fewer.
    pub cache: f64,
    /// A step that touches at most this many bytes is expected to find them in a cache.
    pub cache_bytes: f64,
    /// The seconds that a step takes which computes one number.
    pub overhead: f64,
}

/// The bottleneck of a step.
///
/// ```
/// use glassgrad::{Tensor, explain::Bound};
/// let x = Tensor::new(&[0.5_f32; 4096], [64, 64]);
/// assert_eq!(x.matmul(&x).explain().unwrap().steps[0].bound, Bound::Product);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The arithmetic of a product of matrices.
    Product,
    /// Cheap operations on elements.
    Arithmetic,
    /// Functions of elements such as exp and tanh.
    Transcendental,
    /// LoadMode and writing.
    Memory,
    /// The steps inside of it.
    Inside,
}

impl Bound {
    /// The limit in a word.
    ///
    /// ```
    /// assert_eq!(glassgrad::explain::Bound::Transcendental.word(), "functions");
    /// ```
    pub fn word(self) -> &'static str {
        match self {
            Bound::Product => "product",
            Bound::Arithmetic => "arithmetic",
            Bound::Transcendental => "functions",
            Bound::Memory => "memory",
            Bound::Inside => "inside",
        }
    }
}

static MEASURED: LazyLock<Limits> = LazyLock::new(Limits::measure);

impl Limits {
    /// The limits of this machine, measured when they are asked for the first time in a process; it takes some tenths of
    /// a second.
    ///
    /// ```
    /// use glassgrad::explain::Limits;
    /// assert_eq!(Limits::measured(), Limits::measured());
    /// ```
    pub fn measured() -> &'static Limits {
        &MEASURED
    }

    fn measure() -> Limits {
        let types = [DType::F32, DType::F64];
        let (memory, near) = (copied_from_memory(), copied_from_caches());
        Limits {
            threads: exec::threads(),
            product: types.map(|dtype| {
                let x = Tensor::full([MATRIX, MATRIX], 0.5, dtype).detach();
                rate(2.0 * (MATRIX as f64).powi(3), x.map(|x| x.matmul(&x)))
            }),
            arithmetic: types
                .map(|dtype| in_a_loop(OPERATIONS, dtype, |k, y, x| if k % 2 == 0 { y * x } else { y + x })),
            transcendental: types
                .map(|dtype| in_a_loop(FUNCTIONS, dtype, |k, y, _| if k % 2 == 0 { (-y).exp() } else { y.tanh() })),
            memory,
            cache: near.max(memory),
            cache_bytes: (NEAR * 2) as f64 * exec::threads() as f64,
            overhead: 1.0 / rate(1.0, Tensor::full([1], 0.5, DType::F32).detach().map(|x| &x + &x)),
        }
    }

    /// The time that a step needs at least, without the time to begin it, and what limits it.
    pub(super) fn least(&self, step: &Step) -> (f64, Bound) {
        let (computing, bound) = match step {
            Step::Loop(fused) => self.of_loop(fused),
            Step::Contract(product) => {
                let epilogue = product.epilogue.as_ref().map_or(0.0, |epilogue| self.of_loop(epilogue).0);
                (product.flops() / of_type(&self.product, product.operands[2].dtype) + epilogue, Bound::Product)
            }
            Step::Call(_) => (0.0, Bound::Memory),
            Step::Scan(repeat) => return (repeat.length as f64 * self.of_program(&repeat.body), Bound::Inside),
            Step::ReverseScan(sweep) => {
                let [forwards, back] = sweep.runs().map(|runs| runs as f64);
                let seconds = forwards * self.of_program(&sweep.advance) + back * self.of_program(&sweep.reverse);
                return (seconds, Bound::Inside);
            }
        };
        let bytes = step.bytes();
        let moving = bytes / if bytes <= self.cache_bytes { self.cache } else { self.memory };
        if moving >= computing { (moving, Bound::Memory) } else { (computing, bound) }
    }

    /// The time that a step is expected to take.
    pub(super) fn predicted(&self, step: &Step) -> f64 {
        self.least(step).0 + self.overhead
    }

    fn of_program(&self, program: &Program) -> f64 {
        program.steps.iter().map(|step| self.predicted(step)).sum()
    }

    fn of_loop(&self, fused: &Loop) -> (f64, Bound) {
        let elements: f64 = fused.extents.iter().map(|extent| *extent as f64).product();
        let mut seconds = [0.0; 2];
        for (place, (instruction, dtype)) in fused.code.iter().enumerate() {
            let runs = fused.runs(place);
            match instruction {
                Instruction::Constant(_) => {}
                code if is_transcendental(code) => seconds[1] += runs / of_type(&self.transcendental, *dtype),
                Instruction::Unary(..)
                | Instruction::Binary(..)
                | Instruction::MaskedMul(..)
                | Instruction::Compare(..)
                | Instruction::Logic(..)
                | Instruction::Select(..)
                | Instruction::Cast(_)
                | Instruction::Narrow(..)
                | Instruction::RowReduce(..)
                | Instruction::BroadcastRow(_) => seconds[0] += runs / of_type(&self.arithmetic, *dtype),
            }
        }
        for store in fused.stores.iter().filter(|store| store.reduction.is_some()) {
            seconds[0] += elements / of_type(&self.arithmetic, store.access.dtype);
        }
        let bound = if seconds[1] > seconds[0] { Bound::Transcendental } else { Bound::Arithmetic };
        (seconds[0] + seconds[1], bound)
    }

    /// The limits as JSON.
    ///
    /// ```
    /// let json = glassgrad::explain::Limits::measured().to_json();
    /// assert!(json["memory"].as_f64().unwrap() > 0.0);
    /// ```
    pub fn to_json(&self) -> Value {
        json!({
            "threads": self.threads, "product": self.product, "arithmetic": self.arithmetic,
            "transcendental": self.transcendental, "memory": self.memory, "cache": self.cache,
            "cache_bytes": self.cache_bytes, "overhead": self.overhead,
        })
    }
}

/// Whether an operation costs as much as an exponential function, rather than a product.
fn is_transcendental(instruction: &Instruction) -> bool {
    use Operation::{
        Abs, Add, Ceil, Div, Floor, LeakyRelu, Max, Min, Mul, Neg, Powi, Recip, Relu, Round, Rsqrt, Sign, Softsign,
        Sqrt, Square, Step, Sub,
    };
    let (Instruction::Unary(operation, ..) | Instruction::Binary(operation, ..)) = instruction else { return false };
    let is_cheap = matches!(
        operation,
        Add | Sub
            | Mul
            | Div
            | Neg
            | Recip
            | Square
            | Sqrt
            | Rsqrt
            | Powi
            | Softsign
            | Relu
            | LeakyRelu
            | Abs
            | Sign
            | Step
            | Floor
            | Ceil
            | Round
            | Max
            | Min
    );
    !is_cheap
}

/// The rate for a type of elements, by what they are computed in; integers count as 64 bits and truth values as 32.
fn of_type(rates: &[f64; 2], dtype: DType) -> f64 {
    rates[usize::from(matches!(dtype.compute_type(), DType::F64 | DType::I64))]
}

/// How much of some amount of work is done in a second by the program of a tensor.
fn rate(amount: f64, tensor: Result<Tensor, Error>) -> f64 {
    let time = || -> Result<f64, Error> {
        let capture = runtime::capture(&[&tensor?])?;
        let plan = runtime::executable_for(&capture)?;
        let leaves = capture.known_leaves()?;
        let turn = || {
            let mut inputs: Vec<Input<'_>> = leaves.iter().map(|(array, start)| Input::Read(array, *start)).collect();
            plan.profile(&mut inputs, &capture.origins, TURN)
        };
        let mut best = f64::INFINITY;
        for _ in 0..TURNS {
            best = best.min(turn()?.iter().map(|step| step.seconds).sum());
        }
        Ok(best)
    };
    // The clock may be too coarse for a step, and programs of known numbers do not fail.
    amount / time().unwrap_or(f64::INFINITY).max(1e-9)
}

/// Operations a second in a loop with this many of them for each element.
fn in_a_loop(count: usize, dtype: DType, operation: impl Fn(usize, Tensor, &Tensor) -> Tensor) -> f64 {
    let elements = ELEMENTS * exec::threads();
    let x = Tensor::full([elements], 0.75, dtype).detach();
    let chain = |x: Tensor| (0..count).fold(x.clone(), |y, k| operation(k, y, &x));
    rate((count * elements) as f64, x.map(chain))
}

/// The best rate at which some bytes are moved.
fn moved(bytes: usize, mut turn: impl FnMut()) -> f64 {
    turn();
    let mut best = f64::INFINITY;
    for _ in 0..TURNS {
        let started = Instant::now();
        turn();
        best = best.min(started.elapsed().as_secs_f64());
    }
    bytes as f64 / best.max(1e-9)
}

/// Bytes a second, read and written, when all threads copy what no cache holds.
fn copied_from_memory() -> f64 {
    let (from, mut to) = (vec![1_u8; FAR], vec![0_u8; FAR]);
    let part = FAR.div_ceil(exec::threads());
    moved(2 * FAR, || {
        each_part(&mut to, part, |number, to| to.copy_from_slice(black_box(&from[number * part..][..to.len()])));
    })
}

/// The same when each thread copies again and again what it has near.
fn copied_from_caches() -> f64 {
    const TIMES: usize = 64;
    let threads = exec::threads();
    let mut pairs = vec![(vec![1_u8; NEAR], vec![0_u8; NEAR]); threads];
    moved(2 * NEAR * TIMES * threads, || {
        each_part(&mut pairs, 1, |_, pair| {
            let [(from, to)] = pair else { return };
            for _ in 0..TIMES {
                black_box(&mut *to).copy_from_slice(black_box(from));
            }
        });
    })
}

/// The limits in a few lines.
impl fmt::Display for Limits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let both = |rates: &[f64; 2], unit: &str| {
            let [single, double] = rates.map(|rate| metric(rate as u128, unit));
            format!("{single} in 32 bits, {double} in 64")
        };
        writeln!(formatter, "limits of this machine with {} threads", self.threads)?;
        writeln!(formatter, "  products    {}", both(&self.product, "FLOP/s"))?;
        writeln!(formatter, "  arithmetic  {}", both(&self.arithmetic, "operations/s"))?;
        writeln!(formatter, "  functions   {}", both(&self.transcendental, "operations/s"))?;
        let [memory, cache, near] = [self.memory, self.cache, self.cache_bytes].map(|rate| metric(rate as u128, "B"));
        writeln!(formatter, "  memory      {memory}/s; {cache}/s up to {near}, which caches hold")?;
        writeln!(formatter, "  a step      {}", seconds(self.overhead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(tensor: &Tensor) -> Vec<Step> {
        tensor.program().expect("a program").steps.clone()
    }

    #[test]
    fn larger_steps_are_expected_to_take_longer() {
        let limits = Limits::measured();
        let sizes = [1, 3, 30, 100, 300, 1000];
        let of_size = |make: &dyn Fn(usize) -> Tensor| -> Vec<f64> {
            sizes.iter().map(|size| steps(&make(*size)).iter().map(|step| limits.predicted(step)).sum()).collect()
        };
        let square = |size: usize, dtype| Tensor::full([size, size], 0.5, dtype).detach().expect("numbers");
        for dtype in [DType::F32, DType::F64] {
            let times = [
                of_size(&|size| square(size, dtype).tanh()),
                of_size(&|size| square(size, dtype) + 1.0),
                of_size(&|size| square(size, dtype).sum_over(0)),
                of_size(&|size| square(size.min(300), dtype).matmul(&square(size.min(300), dtype))),
                of_size(&|size| square(size, dtype).take(&Tensor::from([0_i64, 0]), 0)),
            ];
            for times in times {
                assert!(times.iter().all(|time| *time > 0.0 && time.is_finite()), "{times:?}");
                assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
            }
        }
    }

    #[test]
    fn functions_cost_more_than_products() {
        let limits = Limits::measured();
        let x = Tensor::ones([1000]).detach().expect("numbers");
        let least = |tensor: &Tensor| limits.least(&steps(tensor)[0]);
        // Many operations, so that memory is no limit.
        let many = |f: &dyn Fn(Tensor) -> Tensor| (0..20).fold(x.clone(), |y, _| f(y));
        let (cheap, dear) = (least(&many(&|y| y.square())), least(&many(&|y| y.sin())));
        assert_eq!((cheap.1, dear.1), (Bound::Arithmetic, Bound::Transcendental));
        assert!(cheap.0 > 0.0 && dear.0 > cheap.0);
        assert_eq!(least(&x.take(&Tensor::from([1_i64, 2]), 0)).1, Bound::Memory);
    }
}
