//! Layers of a convolutional network as they are planned and run: padding in the loop that makes what is padded, windows of
//! pooling in the loop that makes what is pooled, gradients of images as convolutions; all before the reference, at every
//! instruction set.

use glassgrad::dtype::DType;
use glassgrad::exec::{Isa, Target, with_isa};
use glassgrad::operations::{Convolution, Pooling};
use glassgrad::opt::graph::Graph;
use glassgrad::opt::lower::lower;
use glassgrad::opt::passes::optimise;
use glassgrad::opt::program::{Program, Step};
use glassgrad::rng::Key;
use glassgrad::{Tensor, grad, hvp, jvp, vmap};

fn normal(seed: u64, shape: &[usize], dtype: DType) -> Tensor {
    Tensor::normal(Key::new(seed), shape).cast(dtype).detach().expect("numbers")
}

fn program(tensors: &[&Tensor]) -> Program {
    lower(&optimise(Graph::of(tensors).expect("a graph").0), Target::Cpu.capabilities())
}

/// Whether some step works on whole arrays.
fn has_calls(program: &Program) -> bool {
    program.steps.iter().any(|step| matches!(step, Step::Call(_)))
}

/// The value is what the reference finds, at every level; what is no number stands where it stands there.
#[track_caller]
fn assert_by_reference(what: &str, make: impl Fn() -> Tensor) {
    let exact = make().eval_by_reference().unwrap_or_else(|error| panic!("{what}: {error}"));
    let wanted: Vec<f64> = (0..exact.buffer().len()).map(|k| exact.buffer().get(k)).collect();
    let size = wanted.iter().filter(|number| number.is_finite()).fold(1.0, |size: f64, number| size.max(number.abs()));
    let tolerance = size * if exact.dtype() == DType::F32 { 1e-5 } else { 1e-13 };
    for isa in Isa::here() {
        let found = with_isa(isa, || make().to_f64_vec()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(found.len(), wanted.len());
        for (place, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            let is_same = found == wanted || (found.is_nan() && wanted.is_nan());
            let is_near = (found - wanted).abs() <= tolerance;
            assert!(is_same || is_near, "{what} at {isa:?}, place {place}: {found} is not {wanted}");
        }
    }
}

/// One layer: images, channels, outputs, the sides of images and kernels, how they slide, and how they are pooled.
type Layer = ([usize; 3], [usize; 2], [usize; 2], Convolution<2>, Pooling<2>);

fn layers() -> Vec<Layer> {
    let config = Convolution::<2>::default;
    vec![
        ([3, 2, 4], [8, 6], [3, 3], config().padding(1), Pooling::new(2)),
        // Long enough for threads, and for blocks that end between windows.
        ([40, 3, 10], [14, 14], [3, 3], config().padding(1), Pooling::new(2)),
        ([9, 1, 8], [28, 28], [3, 3], config().padding(1), Pooling::new([2, 4])),
        ([5, 4, 6], [11, 9], [3, 2], config().padding([1, 0]).dilation([1, 2]), Pooling::new([3, 2])),
        ([4, 6, 6], [9, 9], [3, 3], config().padding(1).groups(2), Pooling::new([1, 3])),
        ([4, 2, 6], [12, 12], [5, 5], config(), Pooling::new(2)),
        ([4, 2, 6], [13, 13], [3, 3], config().padding(2).stride(2), Pooling::new([2, 1])),
        // Windows of pooling that overlap, and reach over the ends.
        ([4, 2, 5], [10, 10], [3, 3], config().padding(1), Pooling::new(3).stride(2).padding(1)),
        ([4, 2, 5], [10, 10], [1, 1], config(), Pooling::new([2, 3]).stride(1)),
        // Rows that are contiguous, with places in front of positions; in the second they do not fit into a block.
        ([2, 2, 3], [20, 40], [1, 1], config(), Pooling::new(3).stride(2).padding(1)),
        ([1, 1, 2], [6, 300], [1, 1], config(), Pooling::new(3).stride(1)),
        ([0, 2, 4], [8, 8], [3, 3], config().padding(1), Pooling::new(2)),
        // Rows that lie among each other and do not fit into a block.
        ([1, 1, 2], [6, 600], [3, 3], config().padding(1), Pooling::new(2)),
    ]
}

#[test]
fn layers_and_their_gradients_are_those_of_the_reference() {
    for (number, ([images, channels, outputs], size, kernel, config, pool)) in layers().into_iter().enumerate() {
        for dtype in [DType::F32, DType::F64] {
            let x = normal(1, &[images, channels, size[0], size[1]], dtype);
            let k = normal(2, &[outputs, channels / config.groups, kernel[0], kernel[1]], dtype);
            let bias = normal(3, &[outputs, 1, 1], dtype);
            let before = |(x, k, bias): &(Tensor, Tensor, Tensor)| (x.conv2d(k, config) + bias).relu();
            let layer = |all: &(Tensor, Tensor, Tensor)| before(all).max_pool2d(pool) + before(all).avg_pool2d(pool);
            let all = (x, k, bias);
            let w = normal(4, layer(&all).shape(), dtype);
            let loss = |all: &(Tensor, Tensor, Tensor)| (layer(all) * &w).sum();
            assert_by_reference(&format!("layer {number} in {dtype}"), || layer(&all));
            for part in 0..3 {
                let slope = || {
                    let (x, k, bias) = grad(loss)(&all);
                    [x, k, bias][part].clone()
                };
                assert_by_reference(&format!("gradient {part} of layer {number} in {dtype}"), slope);
            }
        }
    }
}

/// Nothing of a step of such a network works on whole arrays, and nothing but the loops and products that it needs.
#[test]
fn convolutions_of_many_channels_and_their_gradients_are_those_of_the_reference() {
    let config = Convolution::<2>::default;
    // Several slabs and panels with a rest in each, strides of 2 of which eight lie in a row, and long sums in parts.
    let cases = [
        ([2, 70, 130], [7, 6], config().padding(1)),
        ([2, 36, 100], [16, 16], config().padding(1).stride(2)),
        ([24, 8, 12], [12, 12], config().padding(1)),
    ];
    for ([images, channels, outputs], [height, width], config) in cases {
        for dtype in [DType::F32, DType::F64] {
            let x = normal(1, &[images, channels, height, width], dtype);
            let kernel = normal(2, &[outputs, channels, 3, 3], dtype) * (1.0 / channels as f64);
            let kernel = kernel.detach().expect("numbers");
            let what = |part: &str| format!("{part} of {channels} to {outputs} channels in {dtype}");
            assert_by_reference(&what("convolution"), || x.conv2d(&kernel, config));
            let loss = |x: &Tensor, kernel: &Tensor| x.conv2d(kernel, config).square().mean();
            assert_by_reference(&what("gradient in the kernel"), || grad(|kernel: &Tensor| loss(&x, kernel))(&kernel));
            assert_by_reference(&what("gradient in the image"), || grad(|x: &Tensor| loss(x, &kernel))(&x));
        }
    }
}

#[test]
fn a_layer_and_its_gradients_are_products_and_a_loop_between_them() {
    let (x, k) = (normal(1, &[16, 8, 14, 14], DType::F32), normal(2, &[12, 8, 3, 3], DType::F32));
    let (bias, w) = (normal(3, &[12, 1, 1], DType::F32), normal(4, &[16, 12, 7, 7], DType::F32));
    let loss = |(x, k, bias): &(Tensor, Tensor, Tensor)| {
        let convolved = x.conv2d(k, Convolution::default().padding(1)) + bias;
        (convolved.relu().max_pool2d(Pooling::new(2)) * &w).sum()
    };
    let (of_x, of_k, of_bias) = grad(loss)(&(x, k, bias));
    let planned = program(&[&of_x, &of_k, &of_bias]);
    let kinds: Vec<&str> = planned
        .steps
        .iter()
        .map(|step| match step {
            Step::Loop(_) => "loop",
            Step::Contract(product) if product.accumulates => "folded",
            Step::Contract(_) => "product",
            _ => "other",
        })
        .collect();
    // Padding; the convolution; bias, activation, pooling and the way back through them; both gradients.
    assert_eq!(kinds, ["loop", "product", "loop", "product", "product"], "{planned}");
}

/// Where images are small beside kernels, or kernels move by more than one place, products are folded.
#[test]
fn gradients_of_images_are_folded_where_that_is_less_to_do() {
    let folds = |size: usize, config: Convolution<2>| {
        let (x, k) = (normal(1, &[4, 6, size, size], DType::F64), normal(2, &[5, 6, 5, 5], DType::F64));
        let slope = grad(|x: &Tensor| x.conv2d(&k, config).sin().sum())(&x);
        program(&[&slope]).steps.iter().any(|step| matches!(step, Step::Contract(product) if product.accumulates))
    };
    let config = Convolution::default;
    assert_eq!([folds(12, config()), folds(40, config()), folds(12, config().padding(2))], [true, false, false]);
    assert!(folds(13, config().padding(2).stride(2)));
}

#[test]
fn what_is_not_finite_passes_through_windows() {
    for dtype in [DType::F32, DType::F64] {
        let shape = [3, 2, 12, 10];
        let mut numbers = normal(5, &shape, dtype).to_f64_vec().expect("numbers");
        (numbers[3], numbers[41], numbers[42], numbers[300]) = (f64::NAN, f64::INFINITY, f64::INFINITY, -f64::INFINITY);
        numbers[120..240].fill(f64::NEG_INFINITY);
        let x = Tensor::new(&numbers, shape).cast(dtype).detach().expect("numbers");
        for pool in [Pooling::new(2), Pooling::new([3, 5]), Pooling::new(3).stride(2).padding(1)] {
            assert_by_reference("the largest", || x.max_pool2d(pool));
            assert_by_reference("its shares", || grad(|x: &Tensor| x.max_pool2d(pool).sum())(&x));
            assert_by_reference("the mean", || x.avg_pool2d(pool));
        }
        let k = normal(6, &[4, 2, 3, 3], dtype);
        assert_by_reference("a convolution", || x.conv2d(&k, Convolution::default().padding(1)));
    }
}

/// The derivative of a choice is exactly zero on the side that was not taken, through a convolution too, folded or not.
#[test]
fn zeros_win_in_gradients_of_convolutions() {
    for dtype in [DType::F32, DType::F64] {
        for config in [Convolution::default().padding(1), Convolution::default().stride(2)] {
            for spoiled in [None, Some(f64::INFINITY)] {
                let x = normal(1, &[3, 2, 9, 9], dtype);
                let mut weights = normal(2, &[4, 2, 3, 3], dtype).to_f64_vec().expect("numbers");
                // The second output is not taken.
                weights[20] = spoiled.unwrap_or(weights[20]);
                let k = Tensor::new(&weights, [4, 2, 3, 3]).cast(dtype).detach().expect("numbers");
                let slope = || {
                    grad(|x: &Tensor| {
                        let made = x.conv2d(&k, config);
                        let taken = Tensor::arange(4_i64).not_equal(1).reshape([4, 1, 1]).broadcast_to(made.shape());
                        taken.choose(&made.square(), &made.zeros_like()).sum()
                    })(&x)
                };
                assert!(!has_calls(&program(&[&slope()])), "it is added up where it goes");
                assert_by_reference("the gradient of a choice", slope);
                let found = slope().to_f64_vec().expect("numbers");
                assert!(found.iter().all(|number| number.is_finite()), "{spoiled:?}");
            }
        }
    }
}

/// The largest over several axes at once: equal elements of all of them share evenly, in every mode.
#[test]
fn the_largest_over_several_axes() {
    for axes in [vec![0, 2], vec![1, 3], vec![0, 1, 2, 3], vec![3, 2]] {
        let axes: Vec<isize> = axes;
        let x = (normal(7, &[3, 4, 5, 2], DType::F64) * 2.0).round().detach().expect("numbers");
        let largest = |x: &Tensor| x.max_over(&axes[..]);
        assert_by_reference("the value", || largest(&x));
        let w = normal(8, largest(&x).shape(), DType::F64);
        let slope = || grad(|x: &Tensor| (largest(x).square() * &w).sum())(&x);
        assert_by_reference("the gradient", slope);
        let v = normal(9, &[3, 4, 5, 2], DType::F64);
        assert_by_reference("the tangent", || jvp(largest, &x, &v).1);
        assert_by_reference("the curvature", || hvp(|x: &Tensor| (largest(x).square() * &w).sum(), &x, &v));
        // What each place is given, counted by hand.
        let (numbers, shares) = (x.to_f64_vec().expect("numbers"), grad(|x: &Tensor| largest(x).sum())(&x));
        let index = |place: usize| [place / 40, place / 10 % 4, place / 2 % 5, place % 2];
        let kept =
            |place: usize| (0..4).filter(|axis| !axes.contains(&(*axis as isize))).map(|a| index(place)[a]).collect();
        for (place, share) in shares.to_f64_vec().expect("numbers").into_iter().enumerate() {
            let own: Vec<usize> = kept(place);
            let others = (0..numbers.len()).filter(|other| kept(*other) == own).map(|other| numbers[other]);
            let best = others.clone().fold(f64::NEG_INFINITY, f64::max);
            let count = others.filter(|number| *number == best).count() as f64;
            let wanted = if numbers[place] == best { 1.0 / count } else { 0.0 };
            assert!((share - wanted).abs() < 1e-15, "{axes:?}, place {place}: {share} is not {wanted}");
        }
        let batch = Tensor::stack([&x, &-&x], 0);
        let both = vmap(largest)(&batch).to_f64_vec().expect("numbers");
        let apart = [largest(&x), largest(&-&x)].map(|one| one.to_f64_vec().expect("numbers")).concat();
        assert_eq!(both, apart);
    }
}

/// Zeros around, at any ends and of any type, also where nothing or nearly nothing is inside.
#[test]
fn padding_in_loops() {
    for dtype in [DType::F32, DType::F64, DType::I64, DType::Bool] {
        for (shape, widths) in [
            (vec![3, 4], vec![(1, 0), (2, 3)]),
            (vec![300, 70], vec![(0, 5), (1, 1)]),
            (vec![1, 5, 1], vec![(1, 1), (0, 0), (2, 0)]),
            (vec![0, 3], vec![(1, 1), (1, 1)]),
            (vec![4, 2, 7, 7], vec![(0, 0), (0, 0), (1, 1), (1, 1)]),
        ] {
            let x = (normal(1, &shape, DType::F64) * 3.0).round().cast(dtype).detach().expect("numbers");
            assert!(!has_calls(&program(&[&x.pad(&widths)])), "a loop writes it");
            assert_by_reference("padded", || x.pad(&widths));
            assert_by_reference("padded and turned", || x.pad(&widths).flip([0]));
        }
    }
}
