//! The CUDA executor beside the CPU: its kernels compiled for the host by the C++ compiler, and, with `--ignored`, on a GPU.

use glassgrad::dtype::DType;
use glassgrad::exec::{MatmulPrecision, Target};
use glassgrad::nn::{BatchNorm, Layer, Linear, MultiHeadAttention, Statistics};
use glassgrad::operations::{Convolution, Pooling};
use glassgrad::rng::Key;
use glassgrad::runtime::Context;
use glassgrad::{Tensor, compile, grad, loss, scan, value_and_grad};

/// A context, and how many times further from the CPU its results may be.
struct Device {
    context: Context,
    slack: f64,
}

fn emulated() -> Device {
    Device { context: Context::open(Target::EmulatedCuda).expect("a C++ compiler"), slack: 1.0 }
}

fn gpu() -> Device {
    // Another mathematics library, and sums in another order.
    Device { context: Context::open(Target::Cuda(0)).expect("a GPU"), slack: 100.0 }
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    let array = tensor.eval().expect("a value");
    (0..array.shape().elements()).map(|k| array.buffer().get(k)).collect()
}

#[track_caller]
fn assert_same(device: &Device, tolerance: f64, make: impl Fn() -> Tensor) {
    let (expected, found) = (numbers(&make()), device.context.run(|| numbers(&make())));
    assert_eq!(expected.len(), found.len());
    for (k, (a, b)) in expected.iter().zip(&found).enumerate() {
        let is_same =
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= device.slack * tolerance * a.abs().max(1.0);
        assert!(is_same, "element {k}: {b} instead of {a}");
    }
}

fn ramp(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::from((0..count).map(|k| (k as f64 * 0.37).sin() + 0.01 * k as f64).collect::<Vec<f64>>()).reshape(shape)
}

fn loops_reductions_and_rows(device: &Device) {
    assert_same(device, 1e-14, || ramp(&[5, 7]).exp() * 2.0 + 1.0);
    assert_same(device, 1e-14, || ramp(&[5, 7]).sum());
    assert_same(device, 1e-14, || ramp(&[33, 70]).sum_over([0]));
    assert_same(device, 1e-14, || ramp(&[33, 70]).sum_over([1]));
    assert_same(device, 1e-14, || ramp(&[300, 70]).max_over([1]));
    assert_same(device, 1e-14, || ramp(&[20_000]).sin().sum());
    assert_same(device, 1e-14, || ramp(&[6, 40]).softmax(1));
    assert_same(device, 1e-14, || ramp(&[6, 3000]).softmax(1));
    assert_same(device, 1e-14, || grad(|x: &Tensor| (x.softmax(1) * ramp(&[6, 40])).sum())(&ramp(&[6, 40])));
}

fn rows_along_an_outer_axis(device: &Device) {
    assert_same(device, 1e-14, || ramp(&[2, 2, 2]).tanh().softmax(0));
    assert_same(device, 1e-14, || ramp(&[20, 3, 5]).softmax(0));
    assert_same(device, 1e-14, || ramp(&[3, 20, 5]).softmax(1));
}

fn contractions(device: &Device) {
    assert_same(device, 1e-13, || ramp(&[5, 7]).matmul(&ramp(&[7, 3])));
    assert_same(device, 1e-12, || ramp(&[70, 90]).matmul(&ramp(&[90, 65])));
    assert_same(device, 1e-12, || ramp(&[4, 2000]).matmul(&ramp(&[2000, 5])));
    assert_same(device, 1e-12, || grad(|x: &Tensor| ramp(&[20, 30]).matmul(x).tanh().sum())(&ramp(&[30, 17])));
}

/// Numbers of 32 bits between -1 and 1.
fn wave(shape: &[usize]) -> Tensor {
    (ramp(shape) * 3.0).sin().cast(DType::F32).detach().expect("numbers")
}

fn products_with_epilogues(device: &Device) {
    // In order: few terms, one part; many, a cluster; the same by vectors; more than clusters split, parts in global memory; a
    // small result; a tiny one.
    for [rows, terms, columns] in
        [[130, 33, 270], [70, 301, 65], [64, 400, 128], [9, 17_001, 5], [64, 393, 10], [5, 7, 3]]
    {
        let roundings = 1e-6 * (terms as f64).sqrt();
        let layer = || wave(&[rows, terms]).matmul(&wave(&[terms, columns])) * 0.1;
        assert_same(device, roundings, layer);
        assert_same(device, roundings, || (layer() + wave(&[columns])).relu());
        assert_same(device, roundings, || (layer() + wave(&[rows, 1])).tanh() * wave(&[rows, columns]));
        assert_same(device, roundings, || {
            wave(&[terms, rows]).transpose().matmul(&wave(&[columns, terms]).transpose())
        });
        // The update of weights behind their gradient, into a transposed result too.
        assert_same(device, roundings, || {
            let weights = wave(&[columns, rows]);
            &weights * 0.9 - wave(&[rows, terms]).matmul(&wave(&[terms, columns])).transpose() * 0.01
        });
    }
}

fn data_movement_and_random_numbers(device: &Device) {
    let indices = || Tensor::from([2_i64, 0, -1, 2]);
    assert_same(device, 0.0, || ramp(&[5, 3]).take(&indices(), 0));
    assert_same(device, 1e-14, || grad(|x: &Tensor| x.take(&indices(), 0).square().sum())(&ramp(&[5, 3])));
    assert_same(device, 0.0, || ramp(&[4, 6]).argsort(1));
    assert_same(device, 0.0, || ramp(&[4, 6]).argmax(0));
    assert_same(device, 0.0, || Tensor::uniform(Key::new(7), [1000]));
    assert_same(device, 1e-6, || Tensor::normal(Key::new(7), [1000]));
    assert_same(device, 0.0, || Tensor::concatenate([&ramp(&[2, 3]), &ramp(&[2, 4])], 1));
}

fn loops_and_their_reverse_sweeps(device: &Device) {
    let run = |x: &Tensor| scan(|state: &Tensor, x: &Tensor| ((state * x).sin(), state + x), &ramp(&[4]), x);
    assert_same(device, 1e-13, || run(&ramp(&[9, 4])).1);
    assert_same(device, 1e-13, || grad(|x: &Tensor| run(x).0.sum())(&ramp(&[9, 4])));
}

/// A recurrent network: its state weights are used in every iteration, and each entry of the batch advances alone.
fn loops_over_independent_batch_entries(device: &Device) {
    let run = |x: &Tensor, weights: &Tensor| {
        let state = (Tensor::zeros([6, 5]).cast(x.dtype()), Tensor::zeros([6, 5]).cast(x.dtype()));
        let advance = |(output, cell): &(Tensor, Tensor), x: &Tensor| {
            let gates = output.matmul(weights) + x;
            let parts = gates.split(&[5; 4], 1);
            let gate = |k: usize| parts[k].sigmoid();
            let cell = gate(0) * cell + gate(1) * gate(3).tanh();
            let output = gate(2) * cell.tanh();
            ((output.clone(), cell), output)
        };
        let ((last, _), outputs) = scan(advance, &state, x);
        last.sum() + (outputs * 0.5).square().sum()
    };
    for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F32, 1e-5)] {
        for length in [7, 8] {
            let (x, weights) = (|| wave(&[length, 6, 20]).cast(dtype), || (wave(&[5, 20]) * 0.5).cast(dtype));
            assert_same(device, tolerance, || run(&x(), &weights()));
            assert_same(device, tolerance, || grad(|x: &Tensor| run(x, &weights()))(&x()));
            assert_same(device, tolerance, || grad(|weights: &Tensor| run(&x(), weights))(&weights()));
        }
    }
}

fn windows_and_their_transposes(device: &Device) {
    let image = || ramp(&[2, 3, 8, 7]);
    let kernel = || ramp(&[4, 3, 3, 3]);
    let convolved = |image: &Tensor, kernel: &Tensor| image.conv(kernel, Convolution::<2>::default().padding(1));
    assert_same(device, 1e-12, || convolved(&image(), &kernel()));
    assert_same(device, 1e-12, || grad(|x: &Tensor| convolved(x, &kernel()).sin().sum())(&image()));
    assert_same(device, 1e-12, || grad(|k: &Tensor| convolved(&image(), k).sin().sum())(&kernel()));
}

fn errors_are_those_of_the_cpu(device: &Device) {
    let bad = || Tensor::from([[0_i64, 1], [7, 2]]).one_hot(3, DType::F64).eval().unwrap_err().to_string();
    assert_eq!(device.context.run(bad), bad());
    let outside = || ramp(&[3]).take(&Tensor::from([0_i64, 5]), 0).eval().unwrap_err().to_string();
    assert_eq!(device.context.run(outside), outside());
}

fn an_update_that_fails_keeps_its_state(device: &Device) {
    device.context.run(|| {
        let step = compile(|(state, index): &(Tensor, Tensor)| {
            let picked = state.take(&(index + 0), 0);
            (state * 2.0 + picked.sum(), picked)
        });
        let mut state = Tensor::from([1.0, 2.0]);
        step.update(&mut state, &Tensor::from([1_i64])).expect("an index in bounds");
        assert_eq!(state.to_string(), "[4, 6]");
        assert!(step.update(&mut state, &Tensor::from([9_i64])).is_err());
        assert_eq!(state.to_string(), "[4, 6]");
        step.update(&mut state, &Tensor::from([0_i64])).expect("an index in bounds");
        assert_eq!(state.to_string(), "[12, 16]");
    });
}

fn a_training_run_gives_the_losses_of_the_cpu(device: &Device) {
    let losses = || {
        let (x, y) = (ramp(&[20, 5]), ramp(&[20, 2]).sin());
        let step = compile(|((w, b), (x, y)): &((Tensor, Tensor), (Tensor, Tensor))| {
            let loss = |(w, b): &(Tensor, Tensor)| (x.matmul(w) + b - y).square().mean();
            let (value, (dw, db)) = value_and_grad(loss)(&(w.clone(), b.clone()));
            ((w - dw * 0.1, b - db * 0.1), value)
        });
        let mut state = (ramp(&[5, 2]), Tensor::from([0.0, 0.0]));
        (0..20).map(|_| step.update(&mut state, &(x.clone(), y.clone())).unwrap().item().unwrap()).collect::<Vec<f64>>()
    };
    let (expected, found) = (losses(), device.context.run(losses));
    assert!(
        expected.iter().zip(&found).all(|(a, b)| (a - b).abs() < device.slack * 1e-12 * a.abs()),
        "{expected:?} {found:?}"
    );
    assert!(found[19] < found[0]);
}

fn storage_types_are_converted_by_loads_and_stores(device: &Device) {
    for (dtype, rounding) in [(DType::F16, 2_f64.powi(-11)), (DType::BF16, 2_f64.powi(-8))] {
        // What is rounded on both sides from numbers that differ in the last of 32 bits may differ by one unit.
        let unit = 2.0 * rounding;
        let x = |shape: &[usize]| ramp(shape).cast(dtype);
        assert_same(device, 0.0, || x(&[5, 7]));
        assert_same(device, unit, || x(&[5, 7]).exp() * 2.0 + 1.0);
        assert_same(device, unit, || x(&[33, 70]).sum_over([0]) / 70.0);
        assert_same(device, unit, || x(&[33, 70]).mean_over([1]));
        assert_same(device, unit, || x(&[20_000]).sin().mean());
        assert_same(device, unit, || x(&[300, 70]).max_over([1]));
        assert_same(device, unit, || x(&[6, 40]).softmax(1));
        // By the library, which the emulation defines for even numbers of terms, and by a kernel of our own; in parts too.
        for terms in [8, 7, 90, 91, 1501] {
            assert_same(device, 2.0 * unit, || {
                (x(&[5, terms]).sin() / 4.0).matmul(&(x(&[terms, 3]).cos() / 4.0)) / (terms as f64).sqrt()
            });
        }
        assert_same(device, unit, || (x(&[3, 4, 6]) / 4.0).matmul(&(x(&[3, 6, 5]) / 4.0)) / 8.0);
        assert_same(device, unit, || {
            let x = (x(&[12, 10]) / 4.0).detach().expect("numbers");
            x.transpose().matmul(&x) / 8.0
        });
        assert_same(device, 0.0, || x(&[6, 4]).take(&Tensor::from([3, 0, 5]), 0));
        assert_same(device, 0.0, || Tensor::concatenate([&x(&[2, 3]), &x(&[4, 3])], 0).flip([0]));
        assert_same(device, 0.0, || x(&[2, 3]).pad(&[(1, 2), (0, 1)]));
        assert_same(device, 0.0, || ramp(&[40]).cast(DType::F64).cast(dtype).cast(DType::F32));
        assert_same(device, 0.0, || Tensor::from([1e30, 65520.0, -1e-8, f64::NAN, 3.0e-5]).cast(dtype));
        assert_same(device, 4.0 * unit, || {
            let (x, y) = (x(&[9, 6]).cast(DType::F32).sin(), ramp(&[9, 2]).cast(DType::F32).cos());
            let loss = |w: &(Tensor, Tensor)| {
                let hidden = x.cast(dtype).matmul(&w.0.cast(dtype)).tanh();
                (hidden.matmul(&w.1.cast(dtype)).cast(DType::F32) - &y).square().mean()
            };
            grad(loss)(&(ramp(&[6, 8]).cast(DType::F32).sin(), ramp(&[8, 2]).cast(DType::F32).cos())).0
        });
    }
    for dtype in [DType::I32, DType::U8] {
        let x = |shape: &[usize]| (ramp(shape) * 1e5).cast(DType::I64).cast(dtype);
        assert_same(device, 0.0, || x(&[40, 70]));
        assert_same(device, 0.0, || (x(&[40, 70]) * x(&[40, 70]) + 7) * 3 - x(&[40, 70]));
        assert_same(device, 0.0, || -x(&[40, 70]));
        assert_same(device, 0.0, || x(&[40, 70]).sum());
        assert_same(device, 0.0, || x(&[40, 70]).max_over([0]));
        assert_same(device, 0.0, || x(&[12, 9]).matmul(&x(&[9, 14])));
        assert_same(device, 0.0, || (ramp(&[50]) * 1e9).cast(dtype));
        assert_same(device, 0.0, || x(&[40]).cast(DType::F32));
        assert_same(device, 0.0, || x(&[40, 2]).flip([0, 1]).maximum(x(&[40, 2])));
    }
}

macro_rules! on_devices {
    ($($name:ident),* $(,)?) => {
        mod emulation {
            $(
                #[test]
                fn $name() {
                    super::$name(&super::emulated());
                }
            )*
        }
        mod on_gpu {
            $(
                #[test]
                #[ignore = "needs a GPU"]
                fn $name() {
                    super::$name(&super::gpu());
                }
            )*
        }
    };
}

on_devices! {
    loops_reductions_and_rows,
    rows_along_an_outer_axis,
    contractions,
    products_with_epilogues,
    data_movement_and_random_numbers,
    loops_and_their_reverse_sweeps,
    loops_over_independent_batch_entries,
    explanations_name_what_runs_each_step,
    windows_and_their_transposes,
    errors_are_those_of_the_cpu,
    an_update_that_fails_keeps_its_state,
    a_training_run_gives_the_losses_of_the_cpu,
    storage_types_are_converted_by_loads_and_stores,
    kernels_of_whole_regions,
    convolutions_are_stored_channels_last,
}

/// Attention, cross-entropy and batch normalization with their gradients, each of which is a kernel for the whole region: beside the CPU in 32 bits,
/// and twice with the same bits.
fn kernels_of_whole_regions(device: &Device) {
    let is_gpu = device.slack > 1.0;
    for (dtype, precision, digits) in [
        (DType::BF16, MatmulPrecision::Full, 6),
        (DType::F16, MatmulPrecision::Full, 9),
        (DType::F32, MatmulPrecision::Tf32, 8),
    ] {
        let target = if is_gpu { Target::Cuda(0) } else { Target::EmulatedCuda };
        let context = Context::open_with(target, precision).expect("a device");
        // Numbers that the storage type has.
        let given =
            |key: u64, shape: &[usize]| Tensor::normal(Key::new(key), shape).cast(dtype).cast(DType::F32).detach();
        let positions = if is_gpu { [300, 4] } else { [40, 1] };
        let width = 64 * positions[1];
        let x = given(1, &[2, positions[0], width]).expect("numbers");
        let projections = (
            given(2, &[width, 3 * width]).expect("numbers") * 0.0625,
            given(3, &[width, width]).expect("numbers") * 0.0625,
        );
        let attended = |dtype: DType| {
            let linear = |weight: &Tensor| Linear { weight: weight.cast(dtype), bias: None };
            let attention = MultiHeadAttention {
                input: linear(&projections.0),
                output: linear(&projections.1),
                ..MultiHeadAttention::new(Key::new(1), width, positions[1])
            };
            let loss = |x: &Tensor| (attention.clone().causal().apply(x).cast(DType::F32)).square().sum();
            vec![loss(&x.cast(dtype)), grad(loss)(&x.cast(dtype))]
        };
        let logits = given(4, &[5, 2, 1504]).expect("numbers");
        let losses = |dtype: DType| {
            let classes = Tensor::arange(10_i64).reshape([5, 2]) * 150;
            let loss = |logits: &Tensor| loss::cross_entropy(logits, &classes).sum();
            vec![loss(&logits.cast(dtype)), grad(loss)(&logits.cast(dtype))]
        };
        let images = given(5, &[64, 6, 16, 16]).expect("numbers");
        let normalized = |dtype: DType| {
            // Rounding the result to few values is no small random error of a sum: results are compared one by one.
            let weights = wave(images.shape()).cast(dtype);
            let (y, statistics) = BatchNorm::new(6).normalize(&images.cast(dtype), &Statistics::new(6));
            let loss = |x: &Tensor| {
                let (y, _) = BatchNorm::new(6).normalize(x, &Statistics::new(6));
                (y * &weights).cast(DType::F32).sum()
            };
            vec![y, statistics.mean + statistics.variance, grad(loss)(&images.cast(dtype))]
        };
        let all = |dtype: DType| {
            [attended(dtype), losses(dtype), normalized(dtype)].concat().iter().map(numbers).collect::<Vec<_>>()
        };
        let (expected, found) = (all(DType::F32), context.run(|| all(dtype)));
        for (part, (expected, found)) in expected.iter().zip(&found).enumerate() {
            let largest = expected.iter().fold(1.0_f64, |largest, x| largest.max(x.abs()));
            for (k, (a, b)) in expected.iter().zip(found).enumerate() {
                assert!(
                    (a - b).abs() <= largest * 0.5_f64.powi(digits),
                    "{dtype} {part}, element {k}: {b} instead of {a}"
                );
            }
        }
        assert_eq!(found, context.run(|| all(dtype)), "{dtype}");
    }
}

/// A residual block, with strides, batch normalization, pooling and what reads images in other orders, in the types of tensor cores: convolutions are
/// stored channels-last there. Values and gradients beside the CPU in 32 bits, and twice with the same bits.
fn convolutions_are_stored_channels_last(device: &Device) {
    let is_gpu = device.slack > 1.0;
    for (dtype, precision, digits) in [
        (DType::BF16, MatmulPrecision::Full, 5),
        (DType::F16, MatmulPrecision::Full, 8),
        (DType::F32, MatmulPrecision::Tf32, 8),
    ] {
        let target = if is_gpu { Target::Cuda(0) } else { Target::EmulatedCuda };
        let context = Context::open_with(target, precision).expect("a device");
        let [batch, channels] = if is_gpu { [64, 32] } else { [4, 16] };
        let given = |key: u64, shape: &[usize]| {
            Tensor::normal(Key::new(key), shape).cast(dtype).cast(DType::F32).detach().expect("numbers")
        };
        let images = given(1, &[batch, 3, 18, 18]);
        let kernels = [
            [channels, 3, 3, 3],
            [channels, channels, 3, 3],
            [2 * channels, channels, 3, 3],
            [2 * channels, channels, 1, 1],
        ];
        let kernels: Vec<Tensor> = kernels
            .iter()
            .enumerate()
            .map(|(k, shape)| (given(2 + k as u64, shape) * 0.25).cast(dtype).cast(DType::F32))
            .collect();
        let apply = |kernels: &[Tensor], images: &Tensor, dtype: DType| {
            let (config, half) = (Convolution::<2>::default(), Convolution::<2>::default().stride(2));
            let [stem, kernel, down, short] = [0, 1, 2, 3].map(|k| kernels[k].cast(dtype));
            let normal =
                |x: &Tensor, channels: usize| BatchNorm::new(channels).normalize(x, &Statistics::new(channels)).0;
            let x = normal(&images.cast(dtype).conv2d(&stem, config), channels).tanh();
            let y = (normal(&x.conv2d(&kernel, config.padding(1)), channels) + &x).tanh();
            let z = normal(&y.conv2d(&down, half.padding(1)), 2 * channels) + y.conv2d(&short, half);
            let pooled = z.avg_pool2d(Pooling::new(2)).reshape([batch, 2 * channels * 16]);
            let turned = z.permute([0, 2, 1, 3]) * wave(&[batch, 8, 2 * channels, 8]).cast(dtype);
            let bias = z.sum_over([0, 2, 3]).cast(DType::F32);
            (
                (pooled.cast(DType::F32) * wave(&[batch, 32 * channels]).cast(DType::F32)).sum()
                    + turned.cast(DType::F32).mean()
                    + bias.square().mean().sqrt(),
                z,
            )
        };
        let all = |dtype: DType| {
            let (loss, z) = apply(&kernels, &images, dtype);
            let scaled = |inputs: &(Vec<Tensor>, Tensor)| apply(&inputs.0, &inputs.1, dtype).0;
            let (kernels, images) = grad(scaled)(&(kernels.clone(), images.clone()));
            [vec![loss, z.cast(DType::F32)], kernels, vec![images]].concat().iter().map(numbers).collect::<Vec<_>>()
        };
        let (expected, found) = (all(DType::F32), context.run(|| all(dtype)));
        for (part, (expected, found)) in expected.iter().zip(&found).enumerate() {
            let largest = expected.iter().fold(1e-3_f64, |largest, x| largest.max(x.abs()));
            let error = expected.iter().zip(found).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
            let norm = expected.iter().map(|a| a * a).sum::<f64>().sqrt();
            assert!(
                error <= norm * 0.5_f64.powi(digits),
                "{dtype} part {part}: {error:e} of {norm:e}, largest {largest:e}"
            );
        }
        assert_eq!(found, context.run(|| all(dtype)), "{dtype}");
    }
}

fn explanations_name_what_runs_each_step(device: &Device) {
    let placements = |make: fn() -> Tensor| {
        let explanation = device.context.run(|| make().explain().expect("a program"));
        assert!(explanation.steps.iter().all(|step| step.measured > 0.0));
        explanation.steps.iter().map(|step| step.placement.clone()).collect::<Vec<String>>().join("; ")
    };
    assert_eq!(placements(|| wave(&[300]).tanh()), "kernel");
    assert_eq!(placements(|| ramp(&[10_000]).argsort(0)), "host, with copies");
    // The emulation has no clock, and its library multiplies element by element.
    let product: fn() -> Tensor = match device.slack > 1.0 {
        true => || ramp(&[200, 200]).matmul(&ramp(&[200, 200])),
        false => || ramp(&[20, 20]).matmul(&ramp(&[20, 20])),
    };
    assert!(placements(product).contains("cuBLASLt"));
    let state = || Tensor::zeros([6, 5]).cast(DType::F32);
    let run = || scan(|state: &Tensor, x: &Tensor| ((state + x).tanh(), ()), &state(), &wave(&[9, 6, 5])).0;
    let explanation = device.context.run(|| run().explain().expect("a program"));
    assert!(explanation.to_string().contains("[one kernel of 6 blocks]"), "{explanation}");
}

/// Factors of eleven significant bits: further from the CPU than full precision is, and not by more than their rounding.
fn tf32_rounds_factors_alone(target: Target, [rows, terms, columns]: [usize; 3]) {
    let product = || wave(&[rows, terms]).matmul(&wave(&[terms, columns]));
    let expected = numbers(&product());
    let distance = |precision: MatmulPrecision| {
        let found = Context::open_with(target, precision).expect("a device").run(|| numbers(&product()));
        expected.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    let [full, reduced] = [MatmulPrecision::Full, MatmulPrecision::Tf32].map(distance);
    assert!(full < 1e-4 && reduced > 4.0 * full && reduced < terms as f64 * 2.0_f64.powi(-10), "{full} {reduced}");
}

#[test]
fn tf32_rounds_factors_alone_in_the_emulation() {
    tf32_rounds_factors_alone(Target::EmulatedCuda, [30, 40, 20]);
}

#[test]
#[ignore = "needs a GPU"]
fn tf32_rounds_factors_alone_on_a_gpu() {
    tf32_rounds_factors_alone(Target::Cuda(0), [300, 400, 200]);
}

#[test]
#[ignore = "needs a GPU"]
fn two_runs_on_a_gpu_give_the_same_bits() {
    let trained = || {
        let (x, y) = (ramp(&[200, 50]), ramp(&[200, 20]).sin());
        let step = compile(|(w, (x, y)): &(Tensor, (Tensor, Tensor))| {
            let (value, gradient) = value_and_grad(|w: &Tensor| (x.matmul(w).tanh() - y).square().mean())(w);
            (w - gradient * 0.1, value)
        });
        let mut w = ramp(&[50, 20]);
        for _ in 0..100 {
            step.update(&mut w, &(x.clone(), y.clone())).expect("a step");
        }
        numbers(&w).iter().map(|number| number.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(gpu().context.run(trained), gpu().context.run(trained));
}

#[test]
#[ignore = "needs a GPU"]
fn memory_that_a_gpu_does_not_have_is_an_error() {
    // Three results of 64 GiB each.
    let error = gpu().context.run(|| {
        let x = Tensor::ones([1 << 17, 1 << 17]) + 1.0;
        Tensor::eval_all(&[&x.sin(), &x.cos(), &x.exp()]).unwrap_err().to_string()
    });
    assert!(error.contains("out of memory") && error.contains("bytes are needed"), "{error}");
    println!("{error}");
}
