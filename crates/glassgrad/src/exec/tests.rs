//! Every row of the operation table as a kernel, compiled for the host.

use crate::dtype::DType;
use crate::exec::{MatmulPrecision, Target};
use crate::expr::Tensor;
use crate::operations::Convolution;
use crate::ops::{Binary, Row, Unary, Visitor, visit};
use crate::runtime::Context;
use glassgrad_exec::cuda::{TextOptions, compile, has_compiler, kernel_texts};

/// Arguments at which rows are compared besides their domains.
const EXTREME: [f64; 10] = [0.0, -0.0, 1.0, -1.0, 1000.0, -1000.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-300];

fn numbers(tensor: &Tensor) -> Vec<f64> {
    let array = tensor.eval().expect("a value");
    (0..array.shape().elements()).map(|k| array.buffer().get(k)).collect()
}

struct Rows {
    /// For each row and element type, the value at its arguments.
    made: Vec<(String, Tensor)>,
}

fn points(row: &Row, argument: usize) -> Vec<f64> {
    let range = &row.domain[argument];
    let inside = (0..40).map(|k| range.start + (range.end - range.start) * (k as f64 + 0.5) / 40.0);
    inside.chain(EXTREME).chain(row.special.iter().map(|special| special.at[argument])).collect()
}

impl Visitor for Rows {
    fn unary<R: Unary>(&mut self, row: &Row) {
        let parameter = row.parameter.map_or(0.0, |parameter| parameter.default);
        for dtype in [DType::F32, DType::F64] {
            let x = Tensor::from(points(row, 0)).cast(dtype);
            self.made.push((format!("{} {dtype}", row.operation), x.unary(R::OPERATION, parameter)));
        }
    }

    fn binary<R: Binary>(&mut self, row: &Row) {
        for dtype in [DType::F32, DType::F64] {
            let count = points(row, 0).len();
            let a = Tensor::from(points(row, 0)).cast(dtype).reshape([count, 1]);
            let b = Tensor::from(points(row, 1)).cast(dtype).reshape([1, count]);
            self.made.push((format!("{} {dtype}", row.operation), a.binary(R::OPERATION, &b)));
        }
    }
}

fn all_rows() -> Vec<(String, Tensor)> {
    let mut rows = Rows { made: Vec::new() };
    visit(&mut rows);
    rows.made
}

#[test]
fn every_row_of_the_table_has_the_value_of_the_reference() {
    let expected: Vec<(String, Vec<f64>)> = Context::new(Target::Reference)
        .run(|| all_rows().iter().map(|(name, value)| (name.clone(), numbers(value))).collect());
    let context = Context::open(Target::EmulatedCuda).expect("a C++ compiler");
    let found: Vec<(String, Vec<f64>)> = context.run(|| {
        let rows = all_rows();
        // One program, so that one library is compiled for all.
        let values: Vec<&Tensor> = rows.iter().map(|(_, value)| value).collect();
        Tensor::eval_all(&values).expect("values");
        rows.iter().map(|(name, value)| (name.clone(), numbers(value))).collect()
    });
    assert!(expected.len() > 100);
    for ((name, expected), (_, found)) in expected.iter().zip(&found) {
        // The same mathematics library computes both; integer powers and series may be ordered differently.
        let tolerance = if name.ends_with("f32") { 1e-6 } else { 1e-13 };
        for (k, (a, b)) in expected.iter().zip(found).enumerate() {
            let is_same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * a.abs();
            assert!(is_same, "{name}, element {k}: {b} instead of {a}");
        }
    }
}

/// Architectures that kernels are compiled for: Turing, Ampere, Hopper.
const ARCHITECTURES: [&str; 3] = ["sm_75", "sm_80", "sm_90"];

/// NVRTC needs no GPU. Where it is missing the test says so.
#[test]
fn kernels_compile_for_several_architectures() {
    if !has_compiler() {
        eprintln!("SKIPPED: libnvrtc is not found; tools/nvrtc installs it");
        return;
    }
    let programs = Context::new(Target::Reference).run(|| {
        let x = Tensor::ones([70, 300]);
        let others = [
            x.sum(),
            x.sum_over([0]),
            x.softmax(1),
            x.softmax(0),
            x.matmul(&x.transpose()),
            x.argmax(1),
            x.argsort(1),
            Tensor::normal(crate::rng::Key::new(1), [40]),
        ];
        let rows = all_rows();
        let all = rows.iter().map(|(_, value)| value).chain(&others);
        all.map(|value| value.program().expect("a program")).collect::<Vec<_>>()
    });
    // Storage types, with products of elements as they are stored.
    let stored = Context::open(Target::EmulatedCuda).expect("a C++ compiler").run(|| {
        let of_type = |dtype: DType| {
            let x = Tensor::new(&[0.5; 70 * 300], [70, 300]).cast(dtype).detach().expect("numbers");
            let indices = Tensor::from([2, 0, 69]);
            vec![
                Tensor::new(&[0.5; 40], 40).cast(dtype).cast(DType::F64),
                (&x + &x).cast(DType::F32),
                x.sum_over([0]),
                x.softmax(1).cast(dtype),
                x.matmul(&x.transpose()),
                x.part_of_axis(1, 0, 7).transpose().matmul(&x),
                x.take(&indices, 0),
                x.pad(&[(1, 0), (0, 2)]),
                x.gt(0).choose(&x, &x.flip([0])),
            ]
        };
        let types = [DType::F16, DType::BF16, DType::I32, DType::U8];
        let all: Vec<Tensor> = types.into_iter().flat_map(of_type).collect();
        all.iter().map(|value| value.program().expect("a program")).collect::<Vec<_>>()
    });
    let programs: Vec<_> = programs.into_iter().chain(stored).collect();
    // Small launches in a row, and a loop of them, as one block.
    let small = Context::new(Target::Reference).run(|| {
        let x = Tensor::linspace(0.0_f32, 1.0, 50 * 2000).reshape([50, 2000]);
        let y = Tensor::linspace(0.0_f32, 1.0, 64).reshape([8, 8]);
        let looped = crate::scan(
            |carry: &Tensor, entry: &Tensor| ((carry + entry).tanh(), carry.exp()),
            &Tensor::ones([2000]),
            &x,
        );
        [looped.1.program().expect("a program"), y.transpose().matmul(&y).exp().sum().program().expect("a program")]
    });
    for program in small {
        let options = TextOptions { chained: Some(16 << 10), ..TextOptions::default() };
        let texts = kernel_texts(&[program], options).expect("kernels");
        assert!(texts.iter().any(|text| text.contains("const GgThread own")), "no chain");
        for text in texts {
            let code = compile(&text, "sm_90");
            assert!(code.is_ok(), "{code:?}\n{text}");
        }
    }
    for text in split_and_clustered() {
        let code = compile(&text, "sm_90");
        assert!(code.is_ok(), "{code:?}\n{text}");
    }
    let texts = kernel_texts(&programs, TextOptions::default()).expect("kernels");
    assert!(texts.len() > 100);
    for (number, text) in texts.iter().enumerate() {
        // In turns: that a kernel compiles for one and not for another is rare.
        let architecture = ARCHITECTURES[number % ARCHITECTURES.len()];
        let code = compile(text, architecture);
        assert!(code.is_ok_and(|code| code.len() > 1000), "kernel {number} for {architecture}");
    }
}

/// The kernels of a product that a cluster splits, and of a recurrent network whose batch is split over blocks.
fn split_and_clustered() -> Vec<String> {
    let programs = Context::open(Target::EmulatedCuda).expect("a C++ compiler").run(|| {
        let ramp = |count: usize| Tensor::linspace(0.0_f32, 1.0, count);
        let product = ramp(64 * 784).reshape([64, 784]).matmul(&ramp(784 * 100).reshape([784, 100]));
        let weights = Tensor::linspace(0.0_f32, 1.0, 64).reshape([8, 8]);
        let x = Tensor::linspace(0.0_f32, 1.0, 50 * 32 * 8).reshape([50, 32, 8]);
        let advance = |carry: &Tensor, entry: &Tensor| ((carry.matmul(&weights) + entry).tanh(), carry.exp());
        let looped = crate::scan(advance, &Tensor::zeros([32, 8]).cast(DType::F32), &x);
        [(product + 1.0).relu().program().expect("a program"), looped.1.program().expect("a program")]
    });
    let options = TextOptions { clusters: true, tensor_cores: None, chained: Some(100 << 10) };
    let [product, looped] = programs.map(|program| kernel_texts(&[program], options).expect("kernels"));
    assert!(product.iter().any(|text| text.contains("__cluster_dims__")), "no cluster");
    assert!(looped.iter().any(|text| text.contains("gg_copy_by_block(arena")), "the loop is not split");
    product.into_iter().chain(looped).collect()
}

#[test]
fn loops_over_a_batch_are_split_over_blocks() {
    assert!(!split_and_clustered().is_empty());
}

/// The numbers of some tensors by definition, and by the kernels of a GPU run on the host.
fn both_ways(precision: MatmulPrecision, make: impl Fn() -> Vec<Tensor>) -> Vec<(Vec<f64>, Vec<f64>)> {
    let all = || make().iter().map(numbers).collect::<Vec<_>>();
    let expected = Context::new(Target::Reference).run(all);
    let emulated = Context::open_with(Target::EmulatedCuda, precision).expect("a C++ compiler");
    let found = emulated.run(all);
    expected.into_iter().zip(found).collect()
}

/// Convolutions with their gradients: 32 channels, whose stages need no index arithmetic for each term, and 3, strides and padding.
fn convolutions(dtype: DType) -> Vec<Tensor> {
    let mut all = Vec::new();
    for (inputs, outputs, stride) in [(32, 40, 1), (3, 70, 1), (16, 16, 2)] {
        let key = crate::rng::Key::new(inputs as u64);
        let x = Tensor::normal(key.fold(0), [3, inputs, 9, 8]).cast(dtype);
        let kernel = Tensor::normal(key.fold(1), [outputs, inputs, 3, 3]).cast(dtype);
        let convolved =
            |(x, kernel): &(Tensor, Tensor)| x.conv2d(kernel, Convolution::default().stride(stride).padding(1));
        let loss = |operands: &(Tensor, Tensor)| convolved(operands).cast(DType::F32).square().sum();
        let operands = (x.detach().expect("numbers"), kernel.detach().expect("numbers"));
        let gradient = crate::grad(loss)(&operands);
        all.extend([convolved(&operands), gradient.0, gradient.1]);
    }
    all
}

#[test]
fn convolutions_on_tensor_cores_have_the_values_of_the_reference() {
    for (dtype, precision, digits) in [
        (DType::BF16, MatmulPrecision::Full, 8),
        (DType::F16, MatmulPrecision::Full, 11),
        (DType::F32, MatmulPrecision::Tf32, 10),
    ] {
        for (number, (expected, found)) in both_ways(precision, || convolutions(dtype)).iter().enumerate() {
            // The gradient multiplies results that were rounded already, and sums have both signs: errors are relative to the largest.
            let largest = expected.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
            let tolerance = 4.0 * largest * 0.5_f64.powi(digits);
            for (k, (a, b)) in expected.iter().zip(found).enumerate() {
                assert!(
                    (a - b).abs() <= tolerance,
                    "{dtype} {number}, element {k}: {b} instead of {a} within {tolerance}"
                );
            }
        }
    }
}

#[test]
fn convolutions_of_16_bits_run_on_tensor_cores() {
    let programs = Context::open(Target::EmulatedCuda)
        .expect("a C++ compiler")
        .run(|| convolutions(DType::BF16).iter().map(|value| value.program().expect("a program")).collect::<Vec<_>>());
    let options = TextOptions { clusters: true, tensor_cores: Some(1 << 12), chained: None };
    let texts = kernel_texts(&programs, options).expect("kernels");
    let on_tensor_cores = texts.iter().filter(|text| text.contains("gg_multiply_stage<gg_bf16")).count();
    assert!(on_tensor_cores >= 6, "{on_tensor_cores} kernels");
    if !has_compiler() {
        eprintln!("SKIPPED: libnvrtc is not found; tools/nvrtc installs it");
        return;
    }
    for (number, text) in texts.iter().filter(|text| text.contains("gg_multiply_stage<gg_bf16")).enumerate() {
        let architecture = ARCHITECTURES[number % ARCHITECTURES.len()];
        let code = compile(text, architecture);
        assert!(code.is_ok(), "{code:?} for {architecture}\n{text}");
    }
}

/// Packed queries, keys and values, of numbers that storage types have.
fn packed(dtype: DType, [positions, heads, size]: [usize; 3]) -> Tensor {
    let key = crate::rng::Key::new((positions * size) as u64);
    let batch = if positions > 100 { 1 } else { 2 };
    Tensor::normal(key, [batch, positions, 3, heads, size]).cast(dtype).detach().expect("numbers")
}

/// Attention with its gradient, in the type of the operand or in another.
fn attention(packed: &Tensor, causal: bool) -> [Tensor; 2] {
    let attended = |packed: &Tensor| crate::operations::attention::self_attention(packed, causal);
    let weights = Tensor::normal(crate::rng::Key::new(7), attended(packed).shape()).cast(packed.dtype());
    let loss = |packed: &Tensor| (attended(packed) * &weights).cast(DType::F32).sum();
    [attended(packed), crate::grad(loss)(packed)]
}

fn fused_calls(tensor: &Tensor) -> usize {
    use crate::opt::program::{Call, CallKind, Step};
    let program = tensor.program().expect("a program");
    program.steps.iter().filter(|step| matches!(step, Step::Call(Call { kind: CallKind::Fused(_), .. }))).count()
}

#[test]
fn attention_as_a_kernel_has_the_values_of_the_reference() {
    let cases =
        [([130, 1, 64], true), ([70, 1, 64], false), ([33, 3, 16], true), ([70, 1, 128], true), ([520, 1, 16], true)];
    let types = [
        (DType::BF16, MatmulPrecision::Full, 8),
        (DType::F16, MatmulPrecision::Full, 11),
        (DType::F32, MatmulPrecision::Tf32, 11),
    ];
    for (number, (sizes, causal)) in cases.into_iter().enumerate() {
        // Every type with the first sizes, and in turns with the others.
        for (dtype, precision, digits) in
            types.into_iter().enumerate().filter(|(k, _)| number == 0 || number % 3 == *k).map(|(_, case)| case)
        {
            // Products and sums of the kernel are of 32 bits, so that the judge computes in 32 bits too.
            let wide = packed(dtype, sizes).cast(DType::F32).detach().expect("numbers");
            let expected =
                Context::new(Target::Reference).run(|| attention(&wide, causal).map(|value| numbers(&value)));
            let emulated = Context::open_with(Target::EmulatedCuda, precision).expect("a C++ compiler");
            let (found, calls) = emulated.run(|| {
                let made = attention(&packed(dtype, sizes), causal);
                let calls = made.each_ref().map(fused_calls);
                (made.map(|value| numbers(&value)), calls)
            });
            assert_eq!(calls, [1, 2], "{dtype}");
            for (part, (expected, found)) in expected.iter().zip(&found).enumerate() {
                let largest = expected.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
                let tolerance = 4.0 * largest * 0.5_f64.powi(digits);
                for (k, (a, b)) in expected.iter().zip(found).enumerate() {
                    let place = format!("{dtype} {sizes:?}, part {part}, element {k}");
                    assert!((a - b).abs() <= tolerance, "{place}: {b} instead of {a} within {tolerance}");
                }
            }
        }
    }
}

#[test]
fn attention_in_full_precision_is_no_kernel() {
    Context::open(Target::EmulatedCuda).expect("a C++ compiler").run(|| {
        let made = attention(&packed(DType::F32, [40, 1, 16]), true);
        assert_eq!(made.each_ref().map(fused_calls), [0, 0]);
    });
}

/// Second derivatives are those of the definition, and so is attention inside of a rematerialised region.
#[test]
fn attention_as_a_kernel_has_second_derivatives() {
    let make = || {
        let x = packed(DType::F32, [20, 1, 16]);
        let loss = |x: &Tensor| crate::operations::attention::self_attention(x, true).square().sum();
        let again = |x: &Tensor| crate::checkpoint(loss)(x);
        let weights = Tensor::normal(crate::rng::Key::new(3), x.shape());
        let curvature = crate::grad(|x: &Tensor| (crate::grad(loss)(x) * &weights).sum())(&x);
        vec![curvature, crate::grad(again)(&x), crate::grad(loss)(&x)]
    };
    for (expected, found) in both_ways(MatmulPrecision::Tf32, make) {
        let largest = expected.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
        for (a, b) in expected.iter().zip(&found) {
            assert!((a - b).abs() <= largest * 4e-3, "{b} instead of {a}");
        }
    }
}

/// Losses of many classes with their gradient: rows of whole units, and rows that begin anywhere.
#[test]
fn cross_entropy_as_a_kernel_has_the_values_of_the_reference() {
    for (dtype, digits) in [(DType::F64, 45), (DType::F32, 18), (DType::BF16, 8), (DType::F16, 10)] {
        for classes in [1032_usize, 1027] {
            let make = || {
                let logits = (Tensor::normal(crate::rng::Key::new(5), [2, 3, classes]) * 3.0)
                    .cast(dtype)
                    .detach()
                    .expect("numbers");
                let indices = Tensor::from([[0_i64, 7, classes as i64 - 1], [500, 1, 2]]);
                let weights = Tensor::from([[1.0, 0.5, -2.0], [0.25, 3.0, 1.5]]).cast(dtype.compute_type());
                let losses = |logits: &Tensor| crate::loss::cross_entropy(logits, &indices);
                vec![losses(&logits), crate::grad(|logits: &Tensor| (losses(logits) * &weights).sum())(&logits)]
            };
            let calls = Context::open(Target::EmulatedCuda)
                .expect("a C++ compiler")
                .run(|| make().iter().map(fused_calls).collect::<Vec<_>>());
            assert_eq!(calls, [1, 2]);
            for (expected, found) in both_ways(MatmulPrecision::Full, make) {
                let largest = expected.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
                for (k, (a, b)) in expected.iter().zip(&found).enumerate() {
                    assert!(
                        (a - b).abs() <= largest * 0.5_f64.powi(digits),
                        "{dtype} {classes}, element {k}: {b} instead of {a}"
                    );
                }
            }
        }
    }
}

#[test]
fn cross_entropy_as_a_kernel_names_a_class_out_of_range_and_keeps_infinities() {
    Context::open(Target::EmulatedCuda).expect("a C++ compiler").run(|| {
        let logits = Tensor::normal(crate::rng::Key::new(5), [2, 2000]);
        let error = crate::loss::cross_entropy(&logits, &Tensor::from([3_i64, 2000])).eval().expect_err("no class");
        assert!(error.to_string().contains("2000") && error.to_string().contains("cross_entropy"), "{error}");
        let infinite = Tensor::arange(2000_i64).equal(5).choose(&Tensor::from(f32::INFINITY), &logits);
        let losses = numbers(&crate::loss::cross_entropy(&infinite, &Tensor::from([3_i64, 5])));
        assert!(losses[0] == f64::INFINITY && losses[1].is_nan(), "{losses:?}");
    });
}

/// Places of a channel that are whole units, and places that are not.
#[test]
fn batch_normalization_as_a_kernel_has_the_values_of_the_reference() {
    for (dtype, digits) in [(DType::F64, 40), (DType::F32, 17), (DType::BF16, 7)] {
        for places in [[16, 16], [17, 15]] {
            let make = || {
                let x = (Tensor::normal(crate::rng::Key::new(9), [24, 3, places[0], places[1]]) * 2.0 + 5.0)
                    .cast(dtype)
                    .detach()
                    .expect("numbers");
                let weights = Tensor::normal(crate::rng::Key::new(8), x.shape()).cast(dtype).detach().expect("numbers");
                let norm = crate::nn::BatchNorm {
                    scale: Tensor::from([1.0, -0.5, 2.0]).cast(dtype.compute_type()),
                    shift: Tensor::from([0.0, 1.0, 3.0]).cast(dtype.compute_type()),
                    ..crate::nn::BatchNorm::new(3)
                };
                let statistics = crate::nn::Statistics::new(3);
                let loss = |(x, norm): &(Tensor, crate::nn::BatchNorm)| {
                    (norm.normalize(x, &statistics).0 * &weights).cast(dtype.compute_type()).sum()
                };
                let (gradient, norms) = crate::grad(loss)(&(x.clone(), norm.clone()));
                let (y, moved) = norm.normalize(&x, &statistics);
                vec![y, moved.mean, moved.variance, gradient, norms.scale, norms.shift]
            };
            let calls = Context::open(Target::EmulatedCuda)
                .expect("a C++ compiler")
                .run(|| make().iter().map(fused_calls).collect::<Vec<_>>());
            assert_eq!(calls, [1, 1, 1, 2, 2, 2]);
            for (part, (expected, found)) in both_ways(MatmulPrecision::Full, make).iter().enumerate() {
                let largest = expected.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
                for (k, (a, b)) in expected.iter().zip(found).enumerate() {
                    let place = format!("{dtype} {places:?}, part {part}, element {k}");
                    assert!((a - b).abs() <= largest * 0.5_f64.powi(digits), "{place}: {b} instead of {a}");
                }
            }
        }
    }
}

/// Sums along the columns of a loop with rows: more rows than there are groups of threads.
#[test]
fn gradients_of_layer_normalization_have_the_values_of_the_reference() {
    let make = || {
        let x = Tensor::normal(crate::rng::Key::new(2), [4500, 20]);
        let weights = Tensor::normal(crate::rng::Key::new(3), x.shape());
        let scale = Tensor::linspace(0.5_f32, 2.0, 20);
        let loss = |(x, scale): &(Tensor, Tensor)| (x.layer_norm(1, 1e-5) * scale * &weights).sum();
        let (x, scale) = crate::grad(loss)(&(x, scale));
        vec![x, scale]
    };
    for (expected, found) in both_ways(MatmulPrecision::Full, make) {
        let largest = expected.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
        assert!(expected.iter().zip(&found).all(|(a, b)| (a - b).abs() <= largest * 1e-5));
    }
}

#[test]
fn kernels_of_attention_compile_for_several_architectures() {
    if !has_compiler() {
        eprintln!("SKIPPED: libnvrtc is not found; tools/nvrtc installs it");
        return;
    }
    let mut programs = Vec::new();
    for (dtype, precision) in
        [(DType::BF16, MatmulPrecision::Full), (DType::F16, MatmulPrecision::Full), (DType::F32, MatmulPrecision::Tf32)]
    {
        Context::open_with(Target::EmulatedCuda, precision).expect("a C++ compiler").run(|| {
            for size in [64, 128] {
                let [_, gradient] = attention(&packed(dtype, [140, 1, size]), true);
                programs.push(gradient.program().expect("a program"));
            }
        });
    }
    let texts = kernel_texts(&programs, TextOptions { clusters: true, ..TextOptions::default() }).expect("kernels");
    let attending: Vec<&String> = texts.iter().filter(|text| text.contains("    gg_attention")).collect();
    assert_eq!(attending.len(), 18);
    for text in attending {
        for architecture in ARCHITECTURES {
            let code = compile(text, architecture);
            assert!(code.is_ok(), "{code:?} for {architecture}\n{text}");
        }
    }
}

#[test]
fn scatters_of_many_indices_have_the_values_of_the_reference() {
    let make = || {
        let count = 700;
        let indices = Tensor::from((0..count).map(|k: i64| (k * k + 3 * k) % 90 - 40).collect::<Vec<_>>());
        let table = Tensor::linspace(-1.0_f32, 1.0, 2 * 90 * 40).reshape([2, 90, 40]);
        // Whole numbers, whose sums are exact in any order.
        let weights = (0..2 * 700 * 40).map(|k: i64| (k * k % 37 - 18) as f32).collect::<Vec<_>>();
        let weights = Tensor::new(&weights, [2, 700, 40]);
        vec![crate::grad(|table: &Tensor| (table.take(&indices, 1) * &weights).sum())(&table)]
    };
    for (expected, found) in both_ways(MatmulPrecision::Full, make) {
        assert!(expected.contains(&0.0) && expected.iter().any(|x| *x != 0.0));
        assert_eq!(expected, found);
    }
}

#[test]
fn a_zero_of_a_branch_not_taken_wins_over_infinities_in_large_products() {
    let make = || {
        let ramp = |count: usize| Tensor::linspace(-1.0_f32, 1.0, count);
        let (x, weights) = (ramp(150 * 90).reshape([150, 90]), ramp(90 * 130).reshape([90, 130]));
        // The last column is infinite, and no row chooses it.
        let column = Tensor::arange(130_i64);
        let infinite = column.equal(129).choose(&Tensor::from(f32::INFINITY), &weights).detach().expect("numbers");
        let loss = |x: &Tensor| {
            let y = x.matmul(&infinite);
            column.lt(129).choose(&y, &y.zeros_like()).square().sum()
        };
        vec![crate::grad(loss)(&x)]
    };
    for (expected, found) in both_ways(MatmulPrecision::Full, make) {
        assert!(expected.iter().all(|x| x.is_finite()) && expected.iter().any(|x| *x != 0.0));
        for (a, b) in expected.iter().zip(&found) {
            assert!((a - b).abs() <= 1e-3 * a.abs().max(1.0), "{b} instead of {a}");
        }
    }
}
