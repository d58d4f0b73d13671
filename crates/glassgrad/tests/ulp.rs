//! The worst error of every vectorised kernel, in units of the last place, at every instruction set of this
//! machine, against numbers of 105 bits. `cargo test --test ulp -- --nocapture` prints what was measured.

#[path = "judges/precise.rs"]
mod precise;
#[path = "judges/random.rs"]
mod random;

use glassgrad::Tensor;
use glassgrad::exec::{Isa, accuracy, with_isa};
use glassgrad::ops::Operation;
use precise::{Precise, precise};
use random::Random;

/// The exact value of a row of one argument, at its default parameter.
fn exact(operation: Operation, x: Precise) -> Precise {
    let one = precise(1.0);
    match operation {
        Operation::Neg => -x,
        Operation::Recip => one / x,
        Operation::Square => x * x,
        Operation::Sqrt => x.sqrt(),
        Operation::Rsqrt => one / x.sqrt(),
        Operation::Powi => x * x * x,
        Operation::Exp => x.exp(),
        Operation::Exp2 => x.exp2(),
        Operation::Expm1 => x.expm1(),
        Operation::Ln => x.ln(),
        Operation::Log2 => x.log2(),
        Operation::Log1p => x.log1p(),
        Operation::Sin => x.sin(),
        Operation::Cos => x.cos(),
        Operation::Atan => x.atan(),
        Operation::Tanh => x.tanh(),
        Operation::Sigmoid => x.sigmoid(),
        Operation::LogSigmoid => -(-x).softplus(),
        Operation::Softplus => x.softplus(),
        Operation::Softsign => x / (one + x.abs()),
        Operation::Relu => {
            if x.high > 0.0 {
                x
            } else {
                precise(0.0)
            }
        }
        Operation::LeakyRelu => {
            if x.high > 0.0 {
                x
            } else {
                precise(0.01) * x
            }
        }
        Operation::Elu => {
            if x.high > 0.0 {
                x
            } else {
                x.expm1()
            }
        }
        Operation::Silu => x * x.sigmoid(),
        Operation::Mish => x * x.softplus().tanh(),
        Operation::Gelu => x * x.normal(),
        Operation::GeluTanh => {
            let slope =
                precise(8.0_f64).sqrt() / Precise { high: std::f64::consts::PI, low: 1.2246467991473532e-16 }.sqrt();
            x * (slope * x * (one + precise(0.044715) * x * x)).sigmoid()
        }
        Operation::Erf => x.erf(),
        Operation::Erfc => x.erfc(),
        Operation::Abs => x.abs(),
        Operation::Sign => precise(if x.high > 0.0 {
            1.0
        } else if x.high < 0.0 {
            -1.0
        } else {
            x.high
        }),
        Operation::Step => precise(if x.high >= 0.0 { 1.0 } else { 0.0 }),
        other => panic!("state the exact value of {other} here: it has a kernel"),
    }
}

/// A machine number that kernels are measured in.
trait Measured: glassgrad::array::Stored + glassgrad::algebra::Float {
    const NAME: &str;
    /// Its place in the pair of bounds.
    const BOUND: usize;
    const EPSILON: f64;
    fn from_random_bits(bits: u64) -> Self;
    fn wide(self) -> f64;
    /// The distance between numbers of this size.
    fn unit(exact: f64) -> f64;
}

macro_rules! measured {
    ($($Float:ident $Bits:ident $bound:literal)*) => {$(
        impl Measured for $Float {
            const NAME: &str = stringify!($Float);
            const BOUND: usize = $bound;
            const EPSILON: f64 = $Float::EPSILON as f64;
            fn from_random_bits(bits: u64) -> Self {
                $Float::from_bits((bits >> (64 - $Bits::BITS)) as $Bits)
            }
            fn wide(self) -> f64 {
                f64::from(self)
            }
            fn unit(exact: f64) -> f64 {
                let bits = (exact as $Float).abs().to_bits();
                f64::from($Float::from_bits(bits + 1)) - f64::from($Float::from_bits(bits))
            }
        }
    )*};
}
measured!(f32 u32 0 f64 u64 1);

/// A number between about -width and width, of all its bits.
fn within(random: &mut Random, width: f64) -> f64 {
    random.within(&(-width..width)) * (1.0 + random.next() as f64 / 2.0_f64.powi(80))
}

/// Numbers of every sign and exponent, numbers where functions bend, and the edges.
fn points<F: Measured>(seed: u64, count: usize) -> Vec<F> {
    let mut random = Random::new(seed);
    let edges = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, -1.0, 5e-324, -5e-324, 1e-45, -1e-45];
    let ends = [f64::MAX, f64::MIN, f64::MIN_POSITIVE, f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE), 1.5e-310];
    let mut points: Vec<F> = edges.iter().chain(&ends).map(|x| F::from_f64(*x)).collect();
    points.extend((0..count).map(|_| F::from_random_bits(random.next())));
    for width in [1.0, 4.0, 12.0, 40.0, 110.0, 760.0] {
        points.extend((0..count / 4).map(|_| F::from_f64(within(&mut random, width))));
    }
    // Near 1, where logarithms vanish, and near multiples of π/2, where sines do.
    points.extend((0..count / 8).map(|_| F::from_f64(1.0 + 1e-3 * within(&mut random, 1.0))));
    points.extend((0..count / 8).map(|k| F::from_f64(k as f64 * std::f64::consts::FRAC_PI_2)));
    points
}

/// Rows of several functions, whose values vanish on one side: there the errors of the inner functions are magnified.
/// Their unit is not taken smaller than that of the machine precision.
const WITH_TAILS: [Operation; 4] = [Operation::Gelu, Operation::GeluTanh, Operation::Silu, Operation::Mish];

/// How far a number is from the exact one; nothing if it is as infinite, or as little a number, as the platform's.
fn distance<F: Measured>(operation: Operation, found: F, exact: Precise, platform: F) -> f64 {
    let (found, platform, rounded) = (found.wide(), platform.wide(), F::from_f64(exact.high).wide());
    let same = found == platform || (found.is_nan() && platform.is_nan());
    if bound::<F>(operation) == BEST {
        // The platform's arithmetic is rounded as the standard says.
        return if same { BEST } else { f64::INFINITY };
    }
    if !platform.is_finite() || !rounded.is_finite() {
        // Beside the largest number the platform may round to it.
        return if same || (found == rounded && found.is_infinite()) { 0.0 } else { f64::INFINITY };
    }
    if found == 0.0 && platform == 0.0 && found.is_sign_negative() != platform.is_sign_negative() {
        return f64::INFINITY;
    }
    let smallest = if WITH_TAILS.contains(&operation) { F::unit(F::EPSILON) } else { 0.0 };
    ((found - exact.high) - exact.low).abs() / F::unit(exact.high).max(smallest)
}

/// The error of a result that is the exact one, rounded.
const BEST: f64 = 0.5;

fn bound<F: Measured>(operation: Operation) -> f64 {
    accuracy(operation).expect("a kernel")[F::BOUND]
}

/// Prints what was measured, and says what is worse than stated.
fn report<F: Measured>(operation: Operation, worst: &[(Isa, f64, F)]) -> Vec<String> {
    let bound = bound::<F>(operation);
    let measured: Vec<String> =
        worst.iter().map(|(isa, worst, at)| format!("{isa:?} {worst:.3} at {:e}", at.wide())).collect();
    let line = format!("{:12} {}: stated {bound}; {}", operation.name(), F::NAME, measured.join("; "));
    println!("{line}");
    if worst.iter().any(|(_, worst, _)| *worst > bound) { vec![line] } else { Vec::new() }
}

fn measure<F: Measured>(count: usize) {
    let mut failures = Vec::new();
    for operation in Operation::ALL.iter().copied().filter(|operation| accuracy(*operation).is_some()) {
        let parameter = operation.parameter().map_or(0.0, |parameter| parameter.default);
        let arity = operation.arity();
        let mut x: [Vec<F>; 2] = [points(7, count), points(8, count)];
        if matches!(operation, Operation::Sin | Operation::Cos) {
            // Larger angles are the platform's.
            x[0].retain(|x| x.wide().abs() <= 1e6);
        }
        let expected: Vec<(Precise, F)> = x[0]
            .iter()
            .zip(&x[1])
            .map(|(a, b)| {
                let mut platform = [*a];
                let arguments = [a.wide(), b.wide()];
                match arity {
                    1 => operation.run_unary(parameter, &[*a], &mut platform),
                    _ => operation.run_binary(&[*a], &[*b], &mut platform),
                }
                // What is not finite is the platform's to say.
                let exact = match arguments {
                    _ if arity == 2 || !arguments[0].is_finite() => precise(platform[0].wide()),
                    [x, _] => exact(operation, precise(x)),
                };
                (exact, platform[0])
            })
            .collect();
        let tensors = x.map(|x| Tensor::from(&x[..]));
        let worst: Vec<(Isa, f64, F)> = Isa::here()
            .into_iter()
            .map(|isa| {
                let arguments: Vec<&Tensor> = tensors.iter().take(arity).collect();
                let found: Vec<F> =
                    with_isa(isa, || Tensor::apply(operation, parameter, &arguments).to_vec()).expect("numbers");
                let distances = found
                    .iter()
                    .zip(&expected)
                    .map(|(found, (exact, platform))| distance(operation, *found, *exact, *platform));
                let (place, worst) =
                    distances.enumerate().fold((0, 0.0), |worst, own| if own.1 > worst.1 { own } else { worst });
                let at: Vec<F> = tensors[0].to_vec().expect("numbers");
                (isa, worst, at[place])
            })
            .collect();
        failures.extend(report(operation, &worst));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn worst_errors_in_32_bits_are_as_stated() {
    measure::<f32>(100_000);
}

#[test]
fn worst_errors_in_64_bits_are_as_stated() {
    measure::<f64>(60_000);
}

#[test]
fn the_page_states_every_bound() {
    let page = include_str!("../../../docs/accuracy.md");
    for operation in Operation::ALL {
        let line = accuracy(*operation).map(|[single, double]| format!("| {operation} | {single} | {double} |"));
        match line {
            Some(line) => assert!(page.contains(&line), "docs/accuracy.md lacks this line: {line}"),
            None => assert!(!page.contains(&format!("| {operation} |")), "docs/accuracy.md lists {operation}"),
        }
    }
}

/// Otherwise tests at a level would test something else.
#[test]
fn a_level_is_felt() {
    let x: Vec<f32> = points(3, 1000);
    let bits = |isa| {
        let values: Vec<f32> = with_isa(isa, || Tensor::new(&x, x.len()).exp().to_vec()).expect("numbers");
        values.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    if cfg!(target_arch = "x86_64") && Isa::here().contains(&Isa::Avx2) {
        assert_ne!(bits(Isa::Baseline), bits(Isa::Avx2));
    }
    assert!(with_isa(Isa::Avx512, Isa::here).starts_with(&[Isa::Baseline]), "no instruction set is made up");
}
