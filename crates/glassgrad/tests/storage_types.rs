//! Storage types: `f16` and `bf16`, computed in `f32`, `i32` and `u8`, computed in `i64`.

#[allow(dead_code)]
#[path = "judges/random.rs"]
mod random;

use glassgrad::array::{Array, Buffer, Stored};
use glassgrad::dtype::{DType, Element, bf16, f16};
use glassgrad::exec::{Isa, with_isa, with_threads};
use glassgrad::expr::s;
use glassgrad::ops::{Operation, Relation};
use glassgrad::shape::Shape;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, grad, hvp, jvp, scan, value_and_grad, vmap};
use random::Random;

const HALVES: [DType; 2] = [DType::F16, DType::BF16];
const ALL: [DType; 8] =
    [DType::Bool, DType::U8, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];

/// Half a unit in the last place of 1.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::EPSILON.to_f64() / 2.0,
        DType::BF16 => bf16::EPSILON.to_f64() / 2.0,
        other => unreachable!("{other} is not of 16 bits"),
    }
}

/// Smooth numbers of both signs.
fn numbers(count: usize, phase: f64) -> Vec<f64> {
    (0..count).map(|k| (k as f64 * 0.731 + phase).sin() * (1.0 + (k % 7) as f64 * 0.25)).collect()
}

fn matrix(dtype: DType, rows: usize, columns: usize, phase: f64) -> Tensor {
    let array = Array::new(Shape::from([rows, columns]), Buffer::F64(numbers(rows * columns, phase)).cast(dtype));
    Tensor::from(array)
}

/// Bits, of which all NaN have the same.
fn bits(tensor: &Tensor) -> Vec<u64> {
    let numbers = tensor.to_f64_vec().unwrap();
    numbers.iter().map(|number| if number.is_nan() { u64::MAX } else { number.to_bits() }).collect()
}

// ------------------------------------------------------------------ conversions

/// Every value of a 16-bit type, widened and narrowed through `f32` and `f64`, at an ISA level.
macro_rules! assert_round_trip {
    ($Half:ty, $dtype:expr, $level:expr) => {
        let all: Vec<$Half> = (0..=u16::MAX).map(<$Half>::from_bits).collect();
        let x = Tensor::from(&all[..]);
        let wide = x.cast(DType::F32).to_vec::<f32>().unwrap();
        let back = x.cast(DType::F64).cast($dtype).to_vec::<$Half>().unwrap();
        let through = Tensor::from(wide.clone()).cast($dtype).to_vec::<$Half>().unwrap();
        for (k, own) in all.iter().enumerate() {
            if own.is_nan() {
                assert!(wide[k].is_nan() && back[k].is_nan() && through[k].is_nan(), "{k:#06x} at {:?}", $level);
            } else {
                let found = (wide[k].to_bits(), back[k].to_bits(), through[k].to_bits());
                assert_eq!(found, (own.to_f32().to_bits(), own.to_bits(), own.to_bits()), "{k:#06x} at {:?}", $level);
            }
        }
    };
}

#[test]
fn every_number_of_16_bits_converts_exactly_and_back_at_every_level() {
    for level in Isa::here() {
        with_isa(level, || {
            assert_round_trip!(f16, DType::F16, level);
            assert_round_trip!(bf16, DType::BF16, level);
        });
    }
}

#[test]
fn rounding_is_to_the_nearest_and_ties_go_to_even() {
    let mut random = Random::new(7);
    // Random bits, and ties between neighbours of either type.
    let mut x: Vec<f32> = (0..100_000).map(|_| f32::from_bits(random.next() as u32)).collect();
    x.extend((0..30_000_u32).map(|k| f32::from_bits(k << 17 | 0x1000)));
    x.extend((0..30_000_u32).map(|k| f32::from_bits(k << 17 | 0x8000)));
    x.extend([65519.996, 65520.0, f32::MAX, f32::MIN_POSITIVE, 1e-45, -0.0, f32::INFINITY, f32::NAN]);
    for level in Isa::here() {
        let (halves, brains) = with_isa(level, || {
            let tensor = Tensor::from(x.clone());
            (tensor.cast(DType::F16).to_vec::<f16>().unwrap(), tensor.cast(DType::BF16).to_vec::<bf16>().unwrap())
        });
        for (k, x) in x.iter().enumerate() {
            let (half, brain) = (f16::from_f32(*x), bf16::from_f32(*x));
            assert!(halves[k].to_bits() == half.to_bits() || half.is_nan() && halves[k].is_nan(), "{x:e}, {level:?}");
            assert!(brains[k].to_bits() == brain.to_bits() || brain.is_nan() && brains[k].is_nan(), "{x:e}, {level:?}");
        }
    }
}

#[test]
fn numbers_of_64_bits_are_rounded_once() {
    // Above a tie by less than 32 bits hold: rounding twice would go to even.
    let x = Tensor::from([1.0 + 2_f64.powi(-8) + 1e-12, 1.0 + 2_f64.powi(-11) + 1e-12]);
    assert_eq!(x.cast(DType::BF16).to_f64_vec().unwrap()[0], 1.0 + 2_f64.powi(-7));
    assert_eq!(x.cast(DType::F16).to_f64_vec().unwrap()[1], 1.0 + 2_f64.powi(-10));
    for dtype in HALVES {
        assert_eq!(bits(&x.cast(dtype)), bits(&Tensor::from(x.cast(dtype).eval_by_reference().unwrap())));
    }
}

#[test]
fn every_pair_of_types_casts_as_the_definition_says() {
    let special = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 127.0, 128.0, 255.0, 256.0, 300.7, -300.7, 65504.0, 70000.0, 1e10];
    let special = [&special[..], &[-1e10, 3e38, -3e38, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]].concat();
    for from in ALL {
        // More than a block, so that vectors and their rests are both there.
        let elements: Vec<f64> = special.iter().copied().cycle().take(1100).collect();
        let array = Array::new(Shape::from(elements.len()), Buffer::F64(elements).cast(from));
        for to in ALL {
            let expected = array.buffer().cast(to);
            for level in Isa::here() {
                let found = with_isa(level, || Tensor::from(array.clone()).cast(to).eval().unwrap());
                let same = (0..expected.len()).all(|k| {
                    let (a, b) = (expected.get(k), found.buffer().get(k));
                    a == b && a.is_sign_negative() == b.is_sign_negative() || a.is_nan() && b.is_nan()
                });
                assert!(same && found.dtype() == to, "{from} to {to} at {level:?}: {found}");
            }
            let reference = Tensor::from(array.clone()).cast(to).eval_by_reference().unwrap();
            assert!(
                (0..expected.len()).all(|k| reference.buffer().get(k) == expected.get(k) || expected.get(k).is_nan())
            );
        }
    }
    // Among integers a cast wraps, from floating point it saturates.
    let wrapped = Tensor::from([-1_i64, 256, 1 << 33]).cast(DType::U8);
    assert_eq!(wrapped.to_vec::<u8>().unwrap(), [255, 0, 0]);
    assert_eq!(Tensor::from([3e9, -3e9, f64::NAN]).cast(DType::I32).to_vec::<i32>().unwrap(), [i32::MAX, i32::MIN, 0]);
}

// ------------------------------------------------------------------ constructors, sizes, promotion

#[test]
fn elements_are_stored_in_their_own_size() {
    for (dtype, size) in [(DType::F16, 2), (DType::BF16, 2), (DType::I32, 4), (DType::U8, 1)] {
        assert_eq!(dtype.bytes(), size);
        let x = Tensor::ones([64, 64]).cast(dtype).detach().unwrap();
        // A result and a value in the arena, which two loops of different shape read.
        let y = (&x + 1).transpose().reshape([4096]).flip([0]);
        assert_eq!(y.program().unwrap().results[0].1, dtype);
        assert_eq!(y.program().unwrap().memory() % (4096 * size), 0);
        assert!(y.program().unwrap().memory() <= 3 * 4096 * size, "{}", y.program().unwrap());
        assert_eq!(y.to_f64_vec().unwrap(), vec![2.0; 4096]);
    }
}

#[test]
fn constructors_have_every_type() {
    let halves = [f16::from_f32(0.5), f16::from_f32(-2.0)];
    assert_eq!(Tensor::from(halves).to_vec::<f16>().unwrap(), halves);
    let brains = vec![bf16::from_f32(1.5), bf16::from_f32(-2.0)];
    assert_eq!(Tensor::from(brains.clone()).to_string(), "[1.5,  -2]");
    assert_eq!(Tensor::from(&[1_i32, -2][..]).to_vec::<i32>().unwrap(), [1, -2]);
    assert_eq!(Tensor::from(&[1_u8, 255][..]).to_string(), "[  1, 255]");
    assert_eq!(Tensor::from_elements(vec![1_u8, 2, 3, 4], [2, 2]).sum().to_vec::<i64>().unwrap(), [10]);
    assert!(Tensor::from_elements(vec![1_u8], [2, 2]).eval().is_err());
    for dtype in ALL.into_iter().filter(|dtype| *dtype != DType::Bool) {
        let x = Tensor::full([2, 3], 7.0, dtype);
        assert_eq!((x.dtype(), x.to_f64_vec().unwrap()), (dtype, vec![7.0; 6]));
        assert_eq!(x.zeros_like().dtype(), dtype);
        assert_eq!((x.ones_like() + 1).to_f64_vec().unwrap(), [2.0; 6]);
        assert!(x.to_vec::<bool>().is_err());
    }
    assert!(Tensor::full([2], 300.0, DType::U8).eval().is_err());
    assert!(Tensor::full([2], -1, DType::U8).eval().is_err());
    assert!(Tensor::full([2], 1_i64 << 31, DType::I32).eval().is_err());
    assert_eq!(Tensor::full([1], 0.1, DType::BF16).to_f64_vec().unwrap(), [bf16::from_f32(0.1).to_f64()]);
    // Integer literals stay of 64 bits.
    assert_eq!(Tensor::from([1, 2]).dtype(), DType::I64);
    assert_eq!(Tensor::arange(3).dtype(), DType::I64);
    assert_eq!(DType::BF16.to_string() + &DType::U8.to_string(), "bf16u8");
}

#[test]
fn types_promote_by_the_lattice_of_jax() {
    // jnp.promote_types over bool_, uint8, int32, int64, float16, bfloat16, float32, float64, with 64 bits enabled.
    use DType::{BF16, Bool, F16, F32, F64, I32, I64, U8};
    let table = [
        [Bool, U8, I32, I64, F16, BF16, F32, F64],
        [U8, U8, I32, I64, F16, BF16, F32, F64],
        [I32, I32, I32, I64, F16, BF16, F32, F64],
        [I64, I64, I64, I64, F16, BF16, F32, F64],
        [F16, F16, F16, F16, F16, F32, F32, F64],
        [BF16, BF16, BF16, BF16, F32, BF16, F32, F64],
        [F32, F32, F32, F32, F32, F32, F32, F64],
        [F64, F64, F64, F64, F64, F64, F64, F64],
    ];
    for (row, a) in table.iter().zip(ALL) {
        for (expected, b) in row.iter().zip(ALL) {
            assert_eq!((a.promote(b), b.promote(a)), (*expected, *expected), "{a} with {b}");
        }
    }
    // Numbers of Rust take the type of the tensor beside them.
    for dtype in ALL.into_iter().filter(|dtype| dtype.is_float()) {
        let x = Tensor::ones([2]).cast(dtype);
        assert_eq!(
            ((&x * 2.0).dtype(), (&x + 1).dtype(), x.pow(2).dtype(), x.exp().dtype()),
            (dtype, dtype, dtype, dtype)
        );
        assert_eq!((x.sum().dtype(), x.mean().dtype(), x.softmax(0).dtype()), (dtype, dtype, dtype));
    }
    let bytes = Tensor::from(&[1_u8, 2][..]);
    assert_eq!(((&bytes + 1).dtype(), (&bytes * 0.5).dtype(), bytes.exp().dtype()), (U8, F32, F32));
    assert_eq!(
        (bytes.sum().dtype(), bytes.prod().dtype(), bytes.cumsum(0).dtype(), bytes.max().dtype()),
        (I64, I64, I64, U8)
    );
}

// ------------------------------------------------------------------ pointwise operations and reductions

#[test]
fn every_row_of_the_table_is_that_of_32_bits_rounded_once() {
    for dtype in HALVES {
        let x = (matrix(dtype, 30, 70, 0.3).cast(DType::F32).abs() * 0.3 + 0.25).cast(dtype).detach().unwrap();
        let y = (matrix(dtype, 30, 70, 0.4).cast(DType::F32).abs() * 0.2 + 1.1).cast(dtype).detach().unwrap();
        for operation in Operation::ALL {
            let parameter = operation.parameter().map_or(0.0, |parameter| parameter.default);
            let apply = |x: &Tensor, y: &Tensor| {
                let arguments = [x, y];
                Tensor::apply(*operation, parameter, &arguments[..operation.arity()])
            };
            let own = apply(&x, &y);
            let wide = apply(&x.cast(DType::F32), &y.cast(DType::F32));
            assert_eq!(own.dtype(), dtype);
            assert_eq!(bits(&own), bits(&wide.cast(dtype)), "{} of {dtype}", operation.name());
            // The reference rounds results of its own arithmetic of 32 bits: one unit at most.
            let reference = own.eval_by_reference().unwrap();
            for (k, found) in own.to_f64_vec().unwrap().into_iter().enumerate() {
                let expected = reference.buffer().get(k);
                let unit = 2.0 * rounding(dtype) * expected.abs().max(1e-4);
                let same = found == expected || found.is_nan() && expected.is_nan() || (found - expected).abs() <= unit;
                assert!(same, "{} of {dtype} at {k}: {found} instead of {expected}", operation.name());
            }
        }
    }
}

#[test]
fn a_loop_rounds_where_it_stores() {
    // 1 + 2⁻⁹ is no bf16: inside of one loop the sum is kept, so that the difference is right.
    let x = Tensor::from([bf16::from_f32(1.0)]);
    let small = Tensor::from([bf16::from_f32(2.0_f32.powi(-9))]);
    assert_eq!(((&x + &small) - &x).to_f64_vec().unwrap(), [2_f64.powi(-9)]);
    // By definition each operation rounds; a cast rounds everywhere.
    assert_eq!(((&x + &small) - &x).eval_by_reference().unwrap().buffer().get(0), 0.0);
    let wide = x.cast(DType::F32) + small.cast(DType::F32);
    assert_eq!((wide.cast(DType::BF16) - &x).to_f64_vec().unwrap(), [0.0]);
    assert_eq!((wide.cast(DType::BF16).cast(DType::F32) - 1.0).to_f64_vec().unwrap(), [0.0]);
}

/// Sums of 16-bit numbers are those of 32 bits, rounded once. Blocks of converted elements are shorter, so that sums of 32 bits are ordered
/// differently: they differ by errors of 32 bits, which terms that cancel make larger than the sum's own.
fn rounds_once(own: &Tensor, wide: &Tensor) {
    let (bound, own, wide) = (rounding(own.dtype()), own.to_f64_vec().unwrap(), wide.to_f64_vec().unwrap());
    let largest = wide.iter().fold(0.0_f64, |largest, number| largest.max(number.abs()));
    for (own, wide) in own.iter().zip(&wide) {
        let tolerance = bound * wide.abs() + 1e-5 * largest;
        assert!((own - wide).abs() <= tolerance, "{own} is not {wide} within {tolerance}");
    }
}

#[test]
fn reductions_accumulate_in_32_bits() {
    for dtype in HALVES {
        // In 16 bits a sum of ones would stop at 2048 or 256.
        let ones = Tensor::ones([5000]).cast(dtype).detach().unwrap();
        assert_eq!(ones.sum().to_f64_vec().unwrap(), [Buffer::F64(vec![5000.0]).cast(dtype).get(0)]);
        assert_eq!(ones.mean().to_f64_vec().unwrap(), [1.0]);
        let table = Tensor::ones([300, 400]).cast(dtype).detach().unwrap();
        for axis in [0, 1] {
            let size = [300.0, 400.0][axis];
            let expected = Buffer::F64(vec![size]).cast(dtype).get(0);
            assert!(table.sum_over(axis).to_f64_vec().unwrap().iter().all(|sum| *sum == expected), "axis {axis}");
        }
        for (rows, columns) in [(3, 5), (40, 700), (700, 40), (1000, 3000)] {
            let x = matrix(dtype, rows, columns, 0.1);
            let wide = x.cast(DType::F32);
            for axis in [0, 1] {
                rounds_once(&x.sum_over(axis), &wide.sum_over(axis));
                assert_eq!(bits(&x.max_over(axis)), bits(&wide.max_over(axis).cast(dtype)));
                rounds_once(&x.mean_over(axis), &wide.mean_over(axis));
                assert_eq!(x.argmax(axis).to_vec::<i64>().unwrap(), wide.argmax(axis).to_vec::<i64>().unwrap());
            }
            rounds_once(&x.sum(), &wide.sum());
            // Exponentials and sums of rows that do not fit into a block are stored in between: three roundings.
            let (own, wide_softmax) = (x.softmax(1).to_f64_vec().unwrap(), wide.softmax(1).to_f64_vec().unwrap());
            let bound = |expected: f64| 3.02 * rounding(dtype) * expected + f64::from(f32::MIN_POSITIVE);
            let smallest = if dtype == DType::F16 { 2_f64.powi(-24) } else { 0.0 };
            assert!(own.iter().zip(&wide_softmax).all(|(own, wide)| (own - wide).abs() <= bound(*wide) + smallest));
            assert_eq!(bits(&x.cumsum(1)), bits(&wide.cumsum(1).cast(dtype)));
        }
    }
}

#[test]
fn data_movement_keeps_bits() {
    for dtype in [DType::F16, DType::BF16, DType::I32, DType::U8] {
        let x = (matrix(DType::F64, 6, 40, 0.2) * 50.0 + 120.0).cast(dtype).detach().unwrap();
        let wide = x.cast(DType::F64);
        let indices = Tensor::from([3_i64, 0, 5, 3]);
        type Move = fn(&Tensor, &Tensor) -> Tensor;
        let moves: Vec<(&str, Move)> = vec![
            ("transpose", |x, _| x.transpose()),
            ("flip", |x, _| x.flip([0, 1])),
            ("take", |x, indices| x.take(indices, 0)),
            ("concatenate", |x, _| Tensor::concatenate([x, &x.flip([0])], 1)),
            ("slice", |x, _| x.slice(&[s(1..5), s(..).step(3)])),
            ("broadcast", |x, _| x.unsqueeze(1).broadcast_to([6, 3, 40])),
            ("pad", |x, _| x.pad(&[(1, 2), (3, 0)])),
            ("sort", |x, _| x.sort(1)),
            ("maximum", |x, _| x.maximum(x.flip([0]))),
            ("choose", |x, _| x.gt(100).choose(x, &x.flip([1]))),
            ("diagonal", |x, _| x.slice(&[s(..), s(..6)]).diagonal(0)),
            ("one_hot", |x, indices| indices.one_hot(6, x.dtype()).matmul(x)),
        ];
        for (name, moved) in moves {
            let (own, expected) = (moved(&x, &indices), moved(&wide, &indices));
            assert_eq!(own.dtype(), dtype, "{name}");
            assert_eq!(own.to_f64_vec().unwrap(), expected.to_f64_vec().unwrap(), "{name} of {dtype}");
            assert_eq!(own.eval_by_reference().unwrap(), own.eval().unwrap(), "{name} of {dtype}");
        }
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    for dtype in [DType::F16, DType::BF16, DType::I32] {
        let cases = || {
            let x = (matrix(DType::F64, 400, 900, 0.2) * 3.0).cast(dtype).detach().unwrap();
            let y = (matrix(DType::F64, 900, 130, 0.7) * 3.0).cast(dtype).detach().unwrap();
            [(&x * &x + &x).sum_over(0), (&x * 2 + 1), x.matmul(&y), x.transpose().matmul(&x)].map(|case| bits(&case))
        };
        let one = with_threads(1, cases);
        for threads in [2, 3] {
            assert_eq!(one, with_threads(threads, cases), "{dtype} on {threads} threads");
        }
    }
}

// ------------------------------------------------------------------ integers

fn integers<E: Stored>(count: usize, of: impl Fn(u64) -> E) -> Vec<E> {
    let mut random = Random::new(11);
    (0..count).map(|_| of(random.next())).collect()
}

macro_rules! wrapping_arithmetic {
    ($name:ident, $Integer:ty) => {
        #[test]
        fn $name() {
            let count = 3000;
            let mut a: Vec<$Integer> = integers(count, |bits| bits as $Integer);
            let mut b: Vec<$Integer> = integers(2 * count, |bits| (bits >> 20) as $Integer).split_off(count);
            for (k, x) in [<$Integer>::MIN, <$Integer>::MAX, 0, 1].into_iter().enumerate() {
                for (j, y) in [<$Integer>::MIN, <$Integer>::MAX, 0, 1].into_iter().enumerate() {
                    (a[4 * k + j], b[4 * k + j]) = (x, y);
                }
            }
            let (x, y) = (Tensor::from(&a[..]), Tensor::from(&b[..]));
            let check = |name: &str, found: Tensor, expected: &dyn Fn($Integer, $Integer) -> $Integer| {
                let expected: Vec<$Integer> = a.iter().zip(&b).map(|(a, b)| expected(*a, *b)).collect();
                assert_eq!(found.to_vec::<$Integer>().unwrap(), expected, "{name}");
                let reference = found.eval_by_reference().unwrap();
                assert_eq!(<$Integer>::open(reference.buffer()), Some(&expected[..]), "{name} by reference");
            };
            check("add", &x + &y, &|a, b| a.wrapping_add(b));
            check("sub", &x - &y, &|a, b| a.wrapping_sub(b));
            check("mul", &x * &y, &|a, b| a.wrapping_mul(b));
            check("neg", -&x, &|a, _| a.wrapping_neg());
            check("square", x.square(), &|a, _| a.wrapping_mul(a));
            check("several", (&x * &y + &x) * 3 - &y, &|a, b| {
                a.wrapping_mul(b).wrapping_add(a).wrapping_mul(3).wrapping_sub(b)
            });
            check("max", x.maximum(&y), &|a, b| a.max(b));
            check("min", x.minimum(&y), &|a, b| a.min(b));
            check("choose", (&x + &y).gt(&x).choose(&x, &y), &|a, b| if a.wrapping_add(b) > a { a } else { b });
            check("and", x.bitwise_and(&y), &|a, b| a & b);
            check("xor", x.bitwise_xor(&y), &|a, b| a ^ b);
            check("not", x.bitwise_not(), &|a, _| !a);
            check("relu", x.relu(), &|a, _| a.max(0));
            check("sign", x.sign(), &|a, _| ((a > 0) as $Integer).wrapping_sub(((a as i64) < 0) as $Integer));
            check("remainder", x.remainder(7), &|a, _| (a as i64).rem_euclid(7) as $Integer);
            check("floor_divide", x.floor_divide(7), &|a, _| (a as i64).div_euclid(7) as $Integer);
            let less: Vec<bool> = a.iter().zip(&b).map(|(a, b)| a < b).collect();
            assert_eq!(x.compare(Relation::Less, &y).to_vec::<bool>().unwrap(), less);
            // Sums are of 64 bits, products of matrices wrap.
            let sum: i64 = a.iter().map(|a| i64::from(*a)).sum();
            assert_eq!(x.sum().to_vec::<i64>().unwrap(), [sum]);
            assert_eq!(x.max().to_vec::<$Integer>().unwrap(), [*a.iter().max().unwrap()]);
            assert_eq!(x.min().to_vec::<$Integer>().unwrap(), [*a.iter().min().unwrap()]);
            let (left, right) = (x.reshape([50, 60]), y.reshape([60, 50]));
            let product = left.matmul(&right);
            let mut expected = vec![0 as $Integer; 2500];
            for i in 0..50 {
                for j in 0..50 {
                    for k in 0..60 {
                        let term = a[60 * i + k].wrapping_mul(b[50 * k + j]);
                        expected[50 * i + j] = expected[50 * i + j].wrapping_add(term);
                    }
                }
            }
            assert_eq!((product.dtype(), product.to_vec::<$Integer>().unwrap()), (<$Integer>::DTYPE, expected));
        }
    };
}
wrapping_arithmetic!(integers_of_32_bits_wrap, i32);
wrapping_arithmetic!(bytes_wrap, u8);

#[test]
fn narrow_integers_are_indices_and_not_differentiable() {
    let table = Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let indices = Tensor::from(&[2_i32, -1, 0][..]);
    assert_eq!(table.take(&indices, 0).to_string(), "[[5, 6],\n [5, 6],\n [1, 2]]");
    assert_eq!(Tensor::from(&[1_u8, 0][..]).one_hot(2, DType::BF16).to_string(), "[[0, 1],\n [1, 0]]");
    let counts = Tensor::ones([3]).scatter_add(&Tensor::from(&[2_u8, 0, 2][..]), 0, 3);
    assert_eq!(counts.to_string(), "[1, 0, 2]");
    let along = table.take_along(&Tensor::from(&[1_u8, 0, 1][..]).unsqueeze(1), 1);
    assert_eq!(along.to_string(), "[[2],\n [3],\n [6]]");
    // Pixels of a byte become numbers where they meet weights.
    let pixels = Tensor::from(&[0_u8, 51, 255][..]);
    let gradient = grad(|w: &Tensor| (w * &pixels).sum())(&Tensor::ones(3));
    assert_eq!((gradient.dtype(), gradient.to_f64_vec().unwrap()), (DType::F32, vec![0.0, 51.0, 255.0]));
    let flat = grad(|x: &Tensor| x.cast(DType::I32).cast(DType::F32).sum())(&Tensor::ones(3));
    assert_eq!(flat.to_f64_vec().unwrap(), [0.0; 3]);
}

// ------------------------------------------------------------------ products

#[test]
fn products_accumulate_in_32_bits_and_round_once() {
    for dtype in HALVES {
        for [m, k, n] in [[1, 7, 1], [3, 5, 4], [17, 33, 9], [64, 64, 64], [130, 300, 70], [1, 400, 300], [200, 300, 1]]
        {
            let (x, y) = (matrix(dtype, m, k, 0.1), matrix(dtype, k, n, 0.5));
            let found = x.matmul(&y);
            assert_eq!(found.dtype(), dtype);
            let exact = x.cast(DType::F64).matmul(&y.cast(DType::F64)).to_f64_vec().unwrap();
            let sizes = x.cast(DType::F64).abs().matmul(&y.cast(DType::F64).abs()).to_f64_vec().unwrap();
            let reference = found.eval_by_reference().unwrap();
            for (place, found) in found.to_f64_vec().unwrap().into_iter().enumerate() {
                // One rounding to 16 bits, and k of 32 bits.
                let bound = rounding(dtype) * exact[place].abs() * 1.001 + k as f64 * 6e-8 * sizes[place] + 1e-7;
                let error = (found - exact[place]).abs();
                assert!(error <= bound, "{dtype} {m}×{k}×{n} at {place}: {error:e} above {bound:e}");
                let apart = (found - reference.buffer().get(place)).abs();
                assert!(apart <= 2.0 * bound, "{dtype} {m}×{k}×{n} at {place}: {apart:e} from the reference");
            }
        }
        // Batches, transposes and a bias behind the product.
        let x = matrix(dtype, 60, 40, 0.3).reshape([5, 12, 40]);
        let y = matrix(dtype, 200, 11, 0.9).reshape([5, 40, 11]);
        let bias = matrix(dtype, 1, 11, 0.2).reshape([11]);
        let own = (x.matmul(&y) + &bias).relu();
        let wide = (x.cast(DType::F32).matmul(&y.cast(DType::F32)) + bias.cast(DType::F32)).relu();
        let both = own.to_f64_vec().unwrap().into_iter().zip(wide.to_f64_vec().unwrap());
        both.for_each(|(own, wide)| assert!((own - wide).abs() <= 3.0 * rounding(dtype) * wide.abs().max(4.0)));
    }
}

// ------------------------------------------------------------------ derivatives

fn network(x: &Tensor, (w, v): &(Tensor, Tensor)) -> Tensor {
    (x.matmul(w).tanh().matmul(v)).square().mean()
}

#[test]
fn gradients_have_the_type_of_their_primal_and_agree_with_32_bits() {
    for dtype in HALVES {
        let x = matrix(dtype, 20, 12, 0.1);
        let weights = (matrix(dtype, 12, 16, 0.4), matrix(dtype, 16, 3, 0.8));
        let wide = weights.cast(DType::F32);
        let (value, own) = value_and_grad(|w: &(Tensor, Tensor)| network(&x, w))(&weights);
        let (wide_value, other) = value_and_grad(|w: &(Tensor, Tensor)| network(&x.cast(DType::F32), w))(&wide);
        assert_eq!((value.dtype(), own.0.dtype(), own.1.dtype()), (dtype, dtype, dtype));
        let close = |own: &Tensor, other: &Tensor, factor: f64| {
            let (own, other) = (own.to_f64_vec().unwrap(), other.to_f64_vec().unwrap());
            let size = other.iter().fold(0.0_f64, |size, x| size.max(x.abs()));
            own.iter().zip(&other).for_each(|(own, other)| {
                assert!(
                    (own - other).abs() <= factor * rounding(dtype) * size,
                    "{own} and {other} of {size} in {dtype}"
                );
            });
        };
        close(&value, &wide_value, 8.0);
        close(&own.0, &other.0, 16.0);
        close(&own.1, &other.1, 16.0);
        // Forward mode, and second order: the product of the Hessian with a direction.
        let direction = (matrix(dtype, 12, 16, 1.4), matrix(dtype, 16, 3, 1.8));
        let (_, tangent) = jvp(|w: &(Tensor, Tensor)| network(&x, w), &weights, &direction);
        let wide_direction = direction.cast(DType::F32);
        let (_, expected) = jvp(|w: &(Tensor, Tensor)| network(&x.cast(DType::F32), w), &wide, &wide_direction);
        assert_eq!(tangent.dtype(), dtype);
        close(&tangent, &expected, 32.0);
        let second = hvp(|w: &(Tensor, Tensor)| network(&x, w), &weights, &direction);
        let expected = hvp(|w: &(Tensor, Tensor)| network(&x.cast(DType::F32), w), &wide, &wide_direction);
        assert_eq!(second.0.dtype(), dtype);
        close(&second.0, &expected.0, 64.0);
        close(&second.1, &expected.1, 64.0);
    }
}

#[test]
fn a_cast_is_linear_and_its_transpose_casts_back() {
    let x = Tensor::from([1.0_f32, 2.0, 3.0]);
    let gradient = grad(|x: &Tensor| x.cast(DType::BF16).square().cast(DType::F32).sum())(&x);
    assert_eq!((gradient.dtype(), gradient.to_f64_vec().unwrap()), (DType::F32, vec![2.0, 4.0, 6.0]));
    // The adjoint identity ⟨w, Jv⟩ = ⟨Jᵀw, v⟩ in numbers that both types have.
    let map = |x: &Tensor| x.cast(DType::F16).take(&Tensor::from([2, 0, 2]), 0).cast(DType::F32);
    let (v, w) = (Tensor::from([0.5_f32, -1.0, 2.0]), Tensor::from([3.0_f32, 0.25, -1.0]));
    let (_, forwards) = jvp(map, &x, &v);
    let back = grad(|x: &Tensor| (map(x) * &w).sum())(&x);
    assert_eq!((forwards * &w).sum().item().unwrap(), (back * &v).sum().item().unwrap());
    // Cotangents of several uses are added up in 32 bits: 1 + 2⁻⁹ + 2⁻⁹ is 1 + 2⁻⁸, and a tie in bf16 otherwise.
    let x = Tensor::from([bf16::ONE]);
    let small = Tensor::from([bf16::from_f32(2.0_f32.powi(-8))]);
    let gradient = grad(|x: &Tensor| (x + x * &small + x * &small).sum())(&x);
    assert_eq!(gradient.to_f64_vec().unwrap(), [1.0 + 2_f64.powi(-7)]);
}

#[test]
fn loops_batches_and_compiled_functions_have_storage_types() {
    for dtype in HALVES {
        let w = (matrix(dtype, 8, 8, 0.3) * 0.3).detach().unwrap();
        let steps = matrix(dtype, 5, 8, 0.6);
        let run = |w: &Tensor| {
            let (last, all) = scan(
                |h: &Tensor, x: &Tensor| {
                    let next = (h.unsqueeze(0).matmul(w).reshape([8]) + x).tanh();
                    (next.clone(), next)
                },
                &Tensor::zeros(8).cast(dtype),
                &steps,
            );
            last.sum() + all.sum()
        };
        let (value, gradient) = value_and_grad(run)(&w);
        assert_eq!((value.dtype(), gradient.dtype()), (dtype, dtype));
        let reference = gradient.eval_by_reference().unwrap();
        for (k, found) in gradient.to_f64_vec().unwrap().into_iter().enumerate() {
            assert!((found - reference.buffer().get(k)).abs() <= 60.0 * rounding(dtype), "{dtype} at {k}: {found}");
        }
        let compiled = compile(|x: &Tensor| (x.exp() + 1.0).ln());
        assert_eq!(bits(&compiled.call(&steps).unwrap()), bits(&(steps.exp() + 1.0).ln()));
        let mapped = vmap(|x: &Tensor| x.softmax(0) * 2.0)(&steps);
        assert_eq!(bits(&mapped), bits(&(steps.softmax(1) * 2.0)));
    }
}

/// Mixed precision: weights of 32 bits are cast to `bf16` in the forward pass, and so is the data.
fn mixed(x: &Tensor, y: &Tensor, (w, b, v): &(Tensor, Tensor, Tensor)) -> Tensor {
    let narrow = |tensor: &Tensor| tensor.cast(DType::BF16);
    let hidden = (narrow(x).matmul(&narrow(w)) + narrow(b)).tanh();
    (hidden.matmul(&narrow(v)).cast(DType::F32) - y).square().mean()
}

#[test]
fn training_in_mixed_precision_follows_pytorch() {
    let (n, d, h, o) = (32, 6, 16, 2);
    let x = matrix(DType::F32, n, d, 0.1);
    let y = (matrix(DType::F32, n, o, 0.9) * 0.5).detach().unwrap();
    let scaled = |rows, columns, phase| (matrix(DType::F32, rows, columns, phase) * 0.3).detach().unwrap();
    let mut weights = (scaled(d, h, 0.4), Tensor::zeros(h), scaled(h, o, 0.8));
    let step = compile(|w: &(Tensor, Tensor, Tensor)| {
        let (loss, gradient) = value_and_grad(|w: &(Tensor, Tensor, Tensor)| mixed(&x, &y, w))(w);
        (loss, w.add(&gradient.scale(-0.1)))
    });
    let mut losses = Vec::new();
    for _ in 0..40 {
        let (loss, next) = step.call(&weights).unwrap();
        assert_eq!((loss.dtype(), next.0.dtype(), next.1.dtype()), (DType::F32, DType::F32, DType::F32));
        losses.push(loss.item().unwrap());
        weights = next;
    }
    // PyTorch 2.15, the same network with .bfloat16() at the same places; with 32 bits throughout the first loss is 0.710596.
    for (step, expected) in [(0, 0.709_946_3), (9, 0.393_429_6), (19, 0.375_250_0), (39, 0.347_360_8)] {
        let error = (losses[step] - expected).abs() / expected;
        assert!(error < 2e-3, "step {step}: {} where PyTorch has {expected}", losses[step]);
    }
    let expected = [0.220_532_15, 0.394_602_7, 0.382_774_35, 0.056_758_82, -0.244_041_67, -0.633_640_77];
    let found = weights.2.to_f64_vec().unwrap();
    found
        .iter()
        .zip(expected)
        .for_each(|(found, expected)| assert!((found - expected).abs() < 2e-3, "{found} {expected}"));
    // Second order through casts: the Hessian-vector product of 32-bit weights, beside that of 32 bits throughout.
    let direction = (scaled(d, h, 1.4), Tensor::ones(h), scaled(h, o, 1.8));
    let own = hvp(|w: &(Tensor, Tensor, Tensor)| mixed(&x, &y, w), &weights, &direction);
    let wide = |(w, b, v): &(Tensor, Tensor, Tensor)| ((x.matmul(w) + b).tanh().matmul(v) - &y).square().mean();
    let expected = hvp(wide, &weights, &direction);
    assert_eq!(own.0.dtype(), DType::F32);
    for (own, expected) in [(&own.0, &expected.0), (&own.1, &expected.1), (&own.2, &expected.2)] {
        let (own, expected) = (own.to_f64_vec().unwrap(), expected.to_f64_vec().unwrap());
        let size = expected.iter().fold(0.0_f64, |size, x| size.max(x.abs()));
        let far = own.iter().zip(&expected).fold(0.0_f64, |far, (a, b)| far.max((a - b).abs()));
        assert!(far <= 0.03 * size, "{far} of {size}");
    }
}

#[cfg(feature = "save")]
#[test]
fn files_keep_storage_types() {
    use glassgrad::save::File;
    let tree = vec![
        matrix(DType::F16, 3, 4, 0.1),
        matrix(DType::BF16, 2, 5, 0.2),
        Tensor::from(&[i32::MIN, 7][..]),
        Tensor::from(&[0_u8, 255][..]),
    ];
    let bytes = File::of(&tree).unwrap().to_bytes().unwrap();
    let file = File::from_bytes(&bytes).unwrap();
    let read = file.tree(&tree).unwrap();
    for (own, read) in tree.iter().zip(&read) {
        assert_eq!((own.dtype(), own.eval().unwrap()), (read.dtype(), read.eval().unwrap()));
    }
    // A model of compute types takes the same file, as one of PyTorch in 16 bits.
    let wide: Vec<Tensor> = tree.iter().map(|leaf| leaf.cast(leaf.dtype().compute_type())).collect();
    let read = file.tree(&wide).unwrap();
    for (own, read) in tree.iter().zip(&read) {
        assert_eq!((own.dtype().compute_type(), own.to_f64_vec().unwrap()), (read.dtype(), read.to_f64_vec().unwrap()));
    }
    let narrow = vec![tree[0].cast(DType::BF16), tree[1].clone(), tree[2].clone(), tree[3].clone()];
    assert!(file.tree(&narrow).unwrap_err().to_string().contains("0 is bf16[3, 4] here and f16[3, 4] in the file"));
}

/// How far two trees are apart, of the largest element.
fn apart(own: &impl Tree, other: &impl Tree) -> f64 {
    let numbers = |tree: &dyn Fn() -> Vec<Tensor>| -> Vec<f64> {
        tree().iter().flat_map(|leaf| leaf.to_f64_vec().unwrap()).collect()
    };
    let (own, other) = (numbers(&|| own.flatten()), numbers(&|| other.flatten()));
    let size = other.iter().fold(0.0_f64, |size, x| size.max(x.abs()));
    own.iter().zip(&other).fold(0.0_f64, |far, (a, b)| far.max((a - b).abs())) / size
}

#[test]
fn large_products_take_factors_as_stored_and_round_once() {
    let (x, g) = (matrix(DType::BF16, 40, 500, 0.1), matrix(DType::BF16, 40, 700, 0.7));
    let w = matrix(DType::BF16, 500, 700, 0.4);
    let update = |x: &Tensor, g: &Tensor, w: &Tensor| w - x.transpose().matmul(g) * 0.01;
    let own = update(&x, &g, &w);
    // The product of the factors as they are stored, and one loop that computes and rounds.
    let program = own.program().unwrap();
    assert!(program.steps.len() == 2 && program.to_string().contains("input 0 · input 1"), "{program}");
    let wide = update(&x.cast(DType::F32), &g.cast(DType::F32), &w.cast(DType::F32));
    assert!(apart(&own, &wide) <= 1.01 * rounding(DType::BF16), "{}", apart(&own, &wide));
}

#[test]
fn convolutions_and_pooling_have_storage_types() {
    use glassgrad::operations::{Convolution, Pooling};
    for dtype in HALVES {
        let image = matrix(dtype, 24, 100, 0.1).reshape([2, 12, 10, 10]);
        let kernel = (matrix(dtype, 6, 108, 0.5) * 0.1).reshape([6, 12, 3, 3]).detach().unwrap();
        let loss = |(image, kernel): &(Tensor, Tensor)| {
            let convolved = image.conv(kernel, Convolution::<2>::default().padding(1)).relu();
            convolved.max_pool2d(Pooling::new(2)).square().mean()
        };
        let point = (image, kernel);
        let (value, own) = value_and_grad(loss)(&point);
        let (wide_value, wide) = value_and_grad(loss)(&point.cast(DType::F32));
        assert_eq!((value.dtype(), own.0.dtype(), own.1.dtype()), (dtype, dtype, dtype));
        assert!(apart(&value, &wide_value) < 4.0 * rounding(dtype), "{}", apart(&value, &wide_value));
        assert!(apart(&own.1, &wide.1) < 16.0 * rounding(dtype), "{}", apart(&own.1, &wide.1));
        // Where two elements of a window are equal after rounding, the other one may win.
        assert!(apart(&own.0, &wide.0) < 1.0);
    }
}

#[test]
fn layers_and_optimizers_run_in_16_bits() {
    use glassgrad::nn::{Layer, TransformerBlock};
    use glassgrad::optim::Optimizer;
    use glassgrad::rng::Key;
    let block = TransformerBlock::new(Key::new(3), 16, 4);
    let x = matrix(DType::F32, 20, 16, 0.3).reshape([2, 10, 16]);
    let loss = |block: &TransformerBlock, x: &Tensor| block.apply(x).square().mean();
    let (wide_value, wide) = value_and_grad(|block: &TransformerBlock| loss(block, &x))(&block);
    let (narrow, input) = (block.cast(DType::BF16), x.cast(DType::BF16));
    let (value, own) = value_and_grad(|block: &TransformerBlock| loss(block, &input))(&narrow);
    assert_eq!((value.dtype(), own.flatten()[0].dtype()), (DType::BF16, DType::BF16));
    assert!(apart(&value, &wide_value) < 8.0 * rounding(DType::BF16), "{}", apart(&value, &wide_value));
    assert!(apart(&own, &wide) < 32.0 * rounding(DType::BF16), "{}", apart(&own, &wide));
    // Weights keep their type in a step, and follow that of 32 bits.
    let optimizer = Optimizer::adam(1e-2);
    let (next, _) = optimizer.update(&narrow, &own, &optimizer.init(&narrow));
    let (expected, _) = optimizer.update(&block, &wide, &optimizer.init(&block));
    assert!(next.flatten().iter().all(|leaf| leaf.dtype() == DType::BF16));
    assert!(apart(&next, &expected) < 0.1, "{}", apart(&next, &expected));
}

#[cfg(feature = "files")]
#[test]
fn files_of_numpy_keep_16_bits_and_narrow_integers_on_request() {
    use glassgrad::data::files::{npy_from_bytes, npy_from_bytes_as_stored, npy_to_bytes};
    for (dtype, read, stored) in [
        (DType::F16, DType::F16, DType::F16),
        (DType::BF16, DType::F32, DType::F32),
        (DType::I32, DType::I64, DType::I32),
        (DType::U8, DType::I64, DType::U8),
    ] {
        let array = (matrix(DType::F64, 3, 4, 0.3) * 20.0 + 40.0).cast(dtype).eval().unwrap();
        let bytes = npy_to_bytes(&array);
        let found = [npy_from_bytes(&bytes).unwrap(), npy_from_bytes_as_stored(&bytes).unwrap()];
        assert_eq!(found.each_ref().map(Array::dtype), [read, stored]);
        found.iter().for_each(|found| assert!((0..12).all(|k| found.buffer().get(k) == array.buffer().get(k))));
    }
}
