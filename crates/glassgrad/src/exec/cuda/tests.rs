//! Every row of the operation table as a kernel, compiled for the host.

use crate::dtype::DType;
use crate::exec::Target;
use crate::expr::Tensor;
use crate::ops::{Binary, Row, Unary, Visitor, visit};
use crate::runtime::Context;

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
    // SAFETY: looking for a library runs none of its code but initialisation, which NVRTC allows.
    #[allow(unsafe_code)]
    let is_there = unsafe { cudarc::nvrtc::sys::is_culib_present() };
    if !is_there {
        eprintln!("SKIPPED: libnvrtc is not found; tools/nvrtc installs it");
        return;
    }
    let mut planner = super::plan::Planner::new(&|_| false, false);
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
    for program in programs.into_iter().chain(stored) {
        planner.program(&program).expect("a plan");
    }
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
        let mut clustered = super::plan::Planner::new(&|_| false, false);
        let mut actions = clustered.program(&program).expect("a plan");
        super::chain::chain(&mut clustered, &program, &mut actions, (4, 16 << 10));
        let texts: Vec<String> = (0..clustered.module.len()).map(|number| clustered.module.cuda(number)).collect();
        assert!(texts.iter().any(|text| text.contains("const GgThread own")), "no chain");
        for text in texts {
            let code = super::gpu::compiled(&text, "--gpu-architecture=sm_90");
            assert!(code.is_ok(), "{code:?}\n{text}");
        }
    }
    for text in split_and_clustered() {
        let code = super::gpu::compiled(&text, "--gpu-architecture=sm_90");
        assert!(code.is_ok(), "{code:?}\n{text}");
    }
    let module = planner.module;
    assert!(module.len() > 100);
    for number in 0..module.len() {
        // In turns: that a kernel compiles for one and not for another is rare.
        let architecture = ARCHITECTURES[number % ARCHITECTURES.len()];
        let code = super::gpu::compiled(&module.cuda(number), &format!("--gpu-architecture={architecture}"));
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
    let texts = |program: &crate::opt::program::Program| {
        let mut planner = super::plan::Planner::new(&|_| false, true);
        let mut actions = planner.program(program).expect("a plan");
        super::chain::chain(&mut planner, program, &mut actions, (4, 100 << 10));
        (0..planner.module.len()).map(|number| planner.module.cuda(number)).collect::<Vec<_>>()
    };
    let [product, looped] = programs.map(|program| texts(&program));
    assert!(product.iter().any(|text| text.contains("__cluster_dims__")), "no cluster");
    assert!(looped.iter().any(|text| text.contains("gg_copy_by_block(arena")), "the loop is not split");
    product.into_iter().chain(looped).collect()
}

#[test]
fn loops_over_a_batch_are_split_over_blocks() {
    assert!(!split_and_clustered().is_empty());
}
