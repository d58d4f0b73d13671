//! What a run allocates, counted by an allocator, against what its program says.
//!
//! One test: the allocator counts for the whole process.
#[path = "judges/heap.rs"]
mod heap;

use glassgrad::dtype::DType;
use glassgrad::exec::{Target, footprint, threads, with_threads};
use glassgrad::nn::{Activation, Conv2d, Layer, Lstm, Mlp, Recurrent};
use glassgrad::operations::Convolution;
use glassgrad::rng::Key;
use glassgrad::runtime::Context;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, Within, compile, grad};
use heap::peak_bytes;

#[global_allocator]
static ALLOCATOR: heap::CountingAllocator = heap::CountingAllocator;

/// What may be allocated besides: lists of addresses, shapes and nodes, and the stacks of helpers.
const BOOKKEEPING: usize = 1 << 17;

/// Runs a function in a new context, which has no working memory yet, on a thread that keeps no buffers yet, and compares its
/// peak with the footprint of its program.
fn check<X: Tree + Send + Sync>(name: &str, x: &X, function: impl Fn(&X) -> X + Send + Sync) {
    // The number of threads is a setting of the calling thread.
    let threads = threads();
    let measure = || {
        Context::new(Target::Cpu).run(|| {
            let compiled = compile(function);
            let program = compiled.program(x).expect("a program");
            let predicted = footprint(&program);
            let (result, highest) = peak_bytes(|| compiled.call(x).expect("values"));
            drop(result);
            println!(
                "{name}: {highest} bytes at the highest point, {predicted} predicted, {} planned",
                program.memory()
            );
            assert!(highest <= predicted + BOOKKEEPING, "{name}: {highest} bytes, {predicted} predicted");
            // Packing buffers are as large as caches, and not every thread takes part.
            assert!(predicted <= 2 * highest + (16 << 20), "{name}: {highest} bytes, {predicted} predicted");
        });
    };
    std::thread::scope(|scope| _ = scope.spawn(|| with_threads(threads, measure)));
}

fn ones(shape: &[usize]) -> Tensor {
    Tensor::full(shape.to_vec(), 0.5, DType::F32).detach().expect("ones")
}

#[test]
fn a_run_allocates_no_more_than_its_footprint() {
    let key = Key::new(1);
    for threads in [1, 2] {
        with_threads(threads, || {
            check("elementwise", &ones(&[300, 1000]), |x: &Tensor| (x.tanh() * x).exp() / (x.square() + 1.0));
            check("sums", &ones(&[1000, 300]), grad(|x: &Tensor| x.exp().sum_over(0).square().sum()));
            check("small product", &ones(&[20, 20]), |x: &Tensor| x.matmul(x));
            check("large product", &ones(&[700, 700]), |x: &Tensor| x.matmul(x));
            check("symmetric product", &ones(&[600, 600]), |x: &Tensor| x.transpose().matmul(x));
            check("tril", &ones(&[1000, 1000]), |x: &Tensor| x.tril(0).matmul(&x.triu(1)));
            check("softmax", &ones(&[500, 500]), grad(|x: &Tensor| x.log_softmax(-1).square().sum()));
            check("sort", &ones(&[100, 1000]), |x: &Tensor| x.sin().sort(1).cumsum(1));
            let mlp = Mlp::new(key, &[784, 512, 256, 10], Activation::Relu).realise().expect("weights");
            let pixels = ones(&[128, 784]);
            check("network", &mlp, grad(|mlp: &Mlp| mlp.apply(&pixels).square().sum()));
            // The update is fused into the epilogue of the gradient's product.
            check("training step", &mlp, |mlp: &Mlp| {
                let slope = grad(|mlp: &Mlp| mlp.apply(&pixels).square().sum())(mlp);
                mlp.add(&slope.scale(-0.1))
            });
            let layer = Conv2d::new(key, 8, 16, 3, Convolution::default().padding(1)).realise().expect("weights");
            let images = ones(&[4, 8, 20, 20]);
            check("convolution", &layer, grad(|layer: &Conv2d| layer.apply(&images).square().sum()));
            let cell = Recurrent::new(Lstm::new(key, 8, 32)).realise().expect("weights");
            let sequences = ones(&[50, 16, 8]);
            check("loop", &cell, grad(|cell: &Recurrent<Lstm>| cell.apply(&sequences).square().sum()));
        });
    }
    // Operations without inputs count: their values are constants of the program.
    let triangles = |x: &Tensor| (x.tril(0).exp() * x.triu(1).sin()).sum();
    let x = ones(&[1000, 1000]);
    for budget in [4_000_000, 16_000_000, 32_000_000, 64_000_000] {
        let frugal = compile(grad(triangles).within(budget));
        match frugal.program(&x) {
            Ok(program) => assert!(footprint(&program) <= budget, "{} {budget}", footprint(&program)),
            Err(error) => assert!(error.message().starts_with("the gradient takes at least"), "{error}"),
        }
    }
    // The programs that a search tries are not kept.
    let held = || {
        let deep = |x: &Tensor| (0..200).fold(x.clone(), |x, _| (x.sin() * 1.5).tanh()).sum();
        let x = ones(&[10_000]);
        let plain = footprint(&compile(grad(deep)).program(&x).expect("a program"));
        let frugal = compile(grad(deep).within(plain / 2));
        frugal.call(&x).expect("a gradient");
    };
    held();
    let before = heap::live_bytes();
    (0..3).for_each(|_| held());
    let kept = heap::live_bytes().saturating_sub(before);
    assert!(kept < 1 << 20, "{kept} bytes are kept");
}
