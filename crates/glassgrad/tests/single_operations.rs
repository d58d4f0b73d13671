//! Kernels of single operations at the sizes from which on they are used: before the reference, with the same bits for any
//! number of threads and at both upper instruction sets, and their edges.

use glassgrad::dtype::DType;
use glassgrad::exec::{Isa, Target, with_isa, with_threads};
use glassgrad::expr::s;
use glassgrad::operations::{Convolution, Pooling};
use glassgrad::opt::graph::Graph;
use glassgrad::opt::lower::lower;
use glassgrad::opt::passes::optimise;
use glassgrad::opt::program::Step;
use glassgrad::rng::Key;
use glassgrad::{Tensor, grad};

fn leaf(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(seed), shape).detach().expect("numbers")
}

fn indices(count: usize, bound: i64) -> Tensor {
    Tensor::from(
        (0..count as i64).map(|k| (k * 7919 + 13) % bound - if k % 5 == 0 { bound } else { 0 }).collect::<Vec<_>>(),
    )
}

/// Operations whose kernels depend on layout and size, in sizes that are no multiples of tiles, blocks and parts too.
fn operations() -> Vec<(&'static str, Tensor)> {
    let (x, y, odd) = (leaf(1, &[160, 192]), leaf(2, &[192, 160]), leaf(3, &[131, 257]));
    let images = leaf(4, &[2, 5, 27, 30]);
    let depthwise = |x: &Tensor, k: &Tensor| x.conv2d(k, Convolution::default().padding(1).groups(5));
    let kernel = leaf(5, &[5, 1, 3, 3]);
    let overlapping = Pooling::new(3).stride(2).padding(1);
    let neighbours = Pooling::new(3).stride(1).padding(1);
    let long = leaf(6, &[3, 1000]);
    let near_one = (leaf(7, &[40, 77]) * 0.1 + 1.0).detach().expect("numbers");
    // Rows of images as wide as registers, as half of them, as both, and as neither; accumulated rows of eight columns.
    let padded = |x: &Tensor, k: &Tensor| x.conv2d(k, Convolution::default().padding(1));
    let valid = |x: &Tensor, k: &Tensor| x.conv2d(k, Convolution::default());
    let stem = |size: usize| leaf(22, &[2, 5, size, size]);
    let weights = leaf(23, &[19, 5, 3, 3]);
    let (small, tall) = (leaf(24, &[3, 8, 12, 12]), leaf(25, &[16, 8, 5, 5]));
    let wide = leaf(26, &[9, 2064]);
    vec![
        ("convolution of 32 columns", padded(&stem(32), &weights)),
        ("convolution of 8 columns", padded(&stem(8), &weights)),
        ("convolution of 24 columns", padded(&stem(24), &weights)),
        ("convolution of 13 columns", padded(&stem(13), &weights)),
        ("convolution with many sums", padded(&leaf(27, &[2, 90, 16, 16]), &leaf(28, &[24, 90, 3, 3]))),
        ("its gradient in the image", grad(|x: &Tensor| padded(x, &weights).square().sum())(&stem(32))),
        ("its gradient in the kernel", grad(|k: &Tensor| padded(&stem(16), k).square().sum())(&weights)),
        (
            "its second derivative",
            grad(|x: &Tensor| grad(|x: &Tensor| padded(x, &weights).square().sum())(x).square().sum())(&stem(16))
                * 0.01,
        ),
        ("the gradient of eight columns", grad(|x: &Tensor| valid(x, &tall).square().sum())(&small)),
        ("a product with many terms", leaf(29, &[70, 1100]).matmul(&leaf(30, &[90, 1100]).transpose())),
        ("a row beside each row", (&wide + &leaf(31, &[2064])).exp()),
        ("columns of a wider array", wide.slice(&[s(..), s(8..2056)]) + &leaf(32, &[9, 2048])),
        ("max along rows", leaf(33, &[50, 300]).max_over(1)),
        ("a transposed operand", &x.transpose() + &y),
        ("a transposed operand of odd sizes", odd.transpose().exp()),
        ("axes in another order", leaf(8, &[6, 48, 64]).permute([0, 2, 1]) * 2.0),
        ("every second column", x.slice(&[s(..), s(..).step(2)]).exp()),
        ("reversed columns", x.flip(1) + &x),
        ("depthwise convolution", depthwise(&images, &kernel)),
        ("its gradient in the image", grad(|x: &Tensor| depthwise(x, &kernel).square().sum())(&images)),
        ("its gradient in the kernel", grad(|k: &Tensor| depthwise(&images, k).square().sum())(&kernel)),
        ("max pooling", images.max_pool2d(overlapping)),
        ("its gradient", grad(|x: &Tensor| x.max_pool2d(overlapping).square().sum())(&images)),
        ("average pooling", images.avg_pool2d(neighbours)),
        ("its gradient", grad(|x: &Tensor| x.avg_pool2d(neighbours).square().sum())(&images)),
        ("cumsum", long.cumsum(1)),
        ("cumsum along the first axis", long.transpose().cumsum(0)),
        ("the gradient of cumsum", grad(|x: &Tensor| x.cumsum(1).square().sum())(&long)),
        ("prod", near_one.prod_over(1)),
        ("prod over the first axis", near_one.prod_over(0)),
        ("the gradient of prod", grad(|x: &Tensor| x.prod_over(1).sum())(&near_one)),
        ("max over the first axis", leaf(9, &[300, 70]).max_over(0)),
        ("argmax along rows", leaf(10, &[700, 130]).argmax(1)),
        ("argmax along columns", leaf(10, &[700, 130]).argmax(0)),
        ("take", leaf(11, &[90, 33]).take(&indices(4000, 90), 0)),
        ("take of columns", leaf(11, &[900, 90]).take(&indices(100, 90), 1)),
        ("scatter_add of wide entries", leaf(12, &[1500, 70]).scatter_add(&indices(1500, 40), 0, 40)),
        ("scatter_add in blocks", leaf(13, &[50, 60, 3]).scatter_add(&indices(60, 7), 1, 7)),
        ("stack along the last axis", Tensor::stack([&leaf(34, &[70_001]), &leaf(35, &[70_001])], 1)),
        (
            "concatenate narrow rows",
            Tensor::concatenate([&leaf(36, &[9001, 3]), &leaf(37, &[9001, 1]), &leaf(38, &[9001, 4])], 1),
        ),
        ("a triangle", leaf(39, &[130, 170]).tril(3)),
        ("concatenate", Tensor::concatenate([&leaf(14, &[300, 130]), &leaf(15, &[300, 201])], 1)),
        ("one-hot", indices(900, 90).remainder(90).one_hot(90, DType::F32)),
        ("a few vectors and a matrix", leaf(16, &[5, 83]).matmul(&leaf(17, &[83, 1031]))),
        ("a matrix and a few vectors", leaf(18, &[1031, 83]).matmul(&leaf(19, &[83, 3]))),
        ("few vectors and columns side by side", leaf(20, &[83, 1031]).transpose().matmul(&leaf(21, &[83, 8]))),
    ]
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64_vec().expect("numbers")
}

#[test]
fn single_operations_are_those_of_the_reference() {
    let count = operations().len();
    for number in 0..count {
        let (what, tensor) = operations().swap_remove(number);
        let exact = numbers(&Tensor::from(tensor.eval_by_reference().expect("a value")));
        let size = exact.iter().fold(1.0, |size: f64, number| size.max(number.abs()));
        let at =
            |isa, threads| with_isa(isa, || with_threads(threads, || numbers(&operations().swap_remove(number).1)));
        let mut upper: Option<Vec<f64>> = None;
        for isa in Isa::here() {
            let found = at(isa, 1);
            let is_near = found.iter().zip(&exact).all(|(a, b)| (a - b).abs() <= 2e-5 * size);
            assert!(is_near && found.len() == exact.len(), "{what} at {isa:?}");
            assert!(at(isa, 3) == found, "{what} depends on the number of threads at {isa:?}");
            if isa != Isa::Baseline {
                assert!(upper.get_or_insert_with(|| found.clone()) == &found, "{what} differs at {isa:?}");
            }
        }
    }
}

#[test]
fn no_sum_contains_what_stands_behind_it() {
    let mut elements = vec![1.0_f32; 500];
    (elements[100], elements[300]) = (f32::INFINITY, f32::NAN);
    let sums = numbers(&Tensor::from(elements).cumsum(0));
    assert!(sums[..100].iter().enumerate().all(|(k, sum)| *sum == (k + 1) as f64));
    assert!(sums[100..300].iter().all(|sum| *sum == f64::INFINITY) && sums[300..].iter().all(|sum| sum.is_nan()));
}

#[test]
fn argmax_finds_the_first_of_equal_elements_and_of_nans() {
    let mut elements = vec![0.0_f32; 3 * 200];
    (elements[7], elements[90], elements[200 + 5], elements[200 + 50], elements[200 + 60]) =
        (2.0, 2.0, 9.0, f32::NAN, f32::NAN);
    let rows = Tensor::new(&elements, [3, 200]);
    assert_eq!(rows.argmax(1).to_vec::<i64>().unwrap(), [7, 50, 0]);
    assert_eq!(rows.transpose().argmax(0).to_vec::<i64>().unwrap(), [7, 50, 0]);
}

#[test]
fn errors_name_the_index_that_is_not_there() {
    let x = leaf(1, &[4, 3]);
    let error = x.take(&Tensor::from([0_i64, 4]), 0).eval().expect_err("index 4 of 4").to_string();
    assert!(error.contains("index 4 is not on axis 0, which has size 4"), "{error}");
    assert!(x.take(&Tensor::from([-5_i64]), 0).eval().is_err() && x.take(&Tensor::from([-4_i64]), 0).eval().is_ok());
    assert!(Tensor::from([0_i64, 3]).one_hot(3, DType::F32).eval().is_err());
}

#[test]
fn windows_that_overlap_run_in_loops_over_windows() {
    let images = leaf(1, &[2, 8, 32, 32]);
    let pooled = images.max_pool2d(Pooling::new(3).stride(1));
    let program = lower(&optimise(Graph::of(&[&pooled]).expect("a graph").0), Target::Cpu.capabilities());
    let elements = |step: &Step| match step {
        Step::Loop(fused) => fused.extents.iter().product(),
        _ => usize::MAX,
    };
    assert!(program.steps.iter().all(|step| elements(step) <= 2 * 8 * 32 * 32), "{program}");
}
