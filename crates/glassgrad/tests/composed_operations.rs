//! Composed operations beside the numbers of `golden_operations.rs`: messages for bad arguments, extreme values,
//! conventions at kinks, integers under `vmap`, and samples with their derivatives.

use glassgrad::dist::{Beta, Dirichlet, Distribution, Gamma, Laplace, StudentT};
use glassgrad::dtype::DType;
use glassgrad::expr::{Axes, Keys, s};
use glassgrad::loss::{self, Classes};
use glassgrad::nn::{Bidirectional, GroupNorm, Gru, InstanceNorm, Layer, PRelu, Recurrent, RmsNorm};
use glassgrad::operations::{Convolution, Interpolation, Padding, Pooling, Quantile, Reduction};
use glassgrad::rng::Key;
use glassgrad::{Tensor, grad, hvp, vmap};

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64_vec().unwrap_or_else(|error| panic!("{error}"))
}

/// A tensor of a shape, with numbers from 0.
fn x(shape: &[usize]) -> Tensor {
    Tensor::arange(shape.iter().product::<usize>() as f64).reshape(shape)
}

fn i(elements: &[i64]) -> Tensor {
    Tensor::from(elements)
}

#[test]
fn errors_name_the_call_and_its_line() {
    let (a, b) = (x(&[2, 3]), x(&[4, 5]));
    let f32s = Tensor::ones([2, 3]).cast(DType::F32);
    let mut wrong: Vec<(&str, Tensor)> = Vec::new();
    // Each call has a line of its own, which the error must name.
    let mut lines: Vec<u32> = Vec::new();
    macro_rules! refuse {
        ($($name:literal $call:expr;)*) => {$(
            wrong.push(($name, $call));
            lines.push(line!());
        )*};
    }
    refuse! {
        "lerp" a.lerp(&b, 0.5);
        "logaddexp" a.logaddexp(&b);
        "xlogy" a.xlogy(&b);
        "xlog1py" a.xlog1py(&b);
        "copysign" a.copysign(&b);
        "remainder" a.remainder(&b);
        "floor_divide" a.floor_divide(&b);
        "floor_divide" i(&[1, 2]).floor_divide(&a);
        "masked_fill" i(&[1]).masked_fill(&Tensor::from([true]), 0.5);
        "bitwise_and" a.bitwise_and(&a);
        "bitwise_not" a.bitwise_not();
        "shift_left" Tensor::from([true]).shift_left(Tensor::from([true]));
        "clip_min" a.clip_min(&b);
        "masked_fill" a.masked_fill(&a, 0.0);
        "glu" x(&[3]).glu(0);
        "glu" x(&[4]).glu(1);
        "var_corrected" a.var_corrected(2, 1.0);
        "std_corrected" a.std_corrected(2, 1.0);
        "norm_p" a.norm_p(3.0, 2);
        "norm_p" a.norm_p(f64::NAN, 0);
        "normalize" a.normalize(5);
        "cosine_similarity" a.cosine_similarity(&b, 1);
        "cosine_similarity" a.cosine_similarity(&a, 7);
        "cdist" x(&[3]).cdist(&a);
        "cdist" a.cdist(&b);
        "logcumsumexp" i(&[1, 2]).logcumsumexp(0);
        "cummax" a.cummax(2);
        "argmax" a.argmax([0, 1]);
        "median" a.median_over([0, 1]);
        "quantile_by" a.quantile_by(1.5, 0, Quantile::Lower);
        "kth_value" a.kth_value(0, 1).0;
        "kth_value" a.kth_value(4, 1).1;
        "median_with_index" x(&[2, 0]).median_with_index(1).0;
        "sort_descending" a.sort_descending(2);
        "tensordot" a.tensordot(&b, [1], [0]);
        "tensordot" a.tensordot(&b, [1, 0], [0]);
        "bilinear" a.bilinear(&a, &b);
        "trace_over" a.trace_over(0, 1, 1);
        "diagonal_over" a.diagonal_over(0, 0, 2);
        "reshape" a.reshape([-1, 4]);
        "reshape" a.reshape([-1, -1]);
        "flatten_axes" a.flatten_axes(1, 0);
        "unflatten" a.unflatten(1, &[2, 2]);
        "move_axes" a.move_axes([0, 1], [0]);
        "segment_sum" a.segment_sum(&a, 2);
        "segment_max" a.segment_max(&i(&[0, 1, 2]), 3);
        "segment_mean" i(&[1, 2]).segment_mean(&i(&[0, 1]), 2);
        "scatter_reduce" a.scatter_reduce(&i(&[0]), &a, 1, Reduction::Max, true);
        "searchsorted" a.searchsorted(&a, false);
        "histogram" a.histogram(0, 0.0, 1.0);
        "histogram" a.histogram(3, 1.0, 1.0);
        "bincount" a.bincount(3);
        "pad_by" a.pad_by(&[(1, 1)], Padding::Reflect);
        "pad_by" x(&[0]).pad_by(&[(1, 1)], Padding::Circular);
        "pad_by" x(&[2]).pad_by(&[(-2, -1)], Padding::Zeros);
        "im2col" a.im2col(2, Convolution::default());
        "im2col" x(&[1, 2, 2]).im2col(3, Convolution::default());
        "col2im" a.col2im([3, 3], 2, Convolution::default());
        "max_pool_with_indices" a.max_pool_with_indices(Pooling::<2>::new(4)).0;
        "avg_pool2d" a.avg_pool2d(Pooling::new(2).divisor(0));
        "grid_sample" x(&[1, 2, 2]).grid_sample(&a, Padding::Zeros, true);
        "grid_sample" x(&[1, 2, 2]).grid_sample(&x(&[1, 1, 2]), Padding::Circular, true);
        "interpolate" x(&[0]).interpolate(&[2], Interpolation::Cubic { align_corners: true });
        "layer_norm" a.layer_norm(3, 1e-5);
        "group_norm" a.group_norm(2, 1e-5);
        "instance_norm" a.instance_norm(1e-5);
        "rotary_embedding" a.rotary_embedding(10.0, 0);
        "group_norm" GroupNorm::new(2, 3).apply(&a);
        "instance_norm" InstanceNorm::new(3).apply(&a);
        "RmsNorm" RmsNorm::new(2).apply(&f32s);
        "PRelu" PRelu::new(2).apply(&f32s);
        "mae" loss::mae(&a, &b);
        "smooth_l1" loss::smooth_l1(&a, &b, 1.0);
        "kl_div" loss::kl_div(&a, &b);
        "cross_entropy_with" loss::cross_entropy_with(&a, &b, &Classes::default()).0;
        "cross_entropy_with" loss::cross_entropy_with(&a, &i(&[0, 1]), &Classes::default().weight(&x(&[2]))).0;
        "nll_with" loss::nll_with(&a, &i(&[0, 1]), &Classes::default().label_smoothing(2.0)).0;
        "triplet_margin" loss::triplet_margin(&a, &a, &b, 1.0);
        "cosine_embedding" loss::cosine_embedding(&a, &b, &x(&[2]), 0.0);
        "ctc" loss::ctc(&a, &i(&[0]), &i(&[1]), &i(&[1]), 0);
        "log_gamma_sample" i(&[1]).log_gamma_sample(Key::new(1));
        "erfinv" i(&[1]).erfinv();
        "zeta" a.zeta(1.0);
        "gammainc" a.gammainc(0.0);
        "betainc" a.betainc(1.0, f64::NAN);
    }
    // The calls keep their own lines in the macro; `line!` inside of it is the line of the macro call before them.
    let complaint = |((name, tensor), line): (&(&str, Tensor), u32)| {
        let Err(error) = tensor.eval() else { return Some(format!("{name} has a value")) };
        let here = error.origin().is_some_and(|at| at.file().ends_with("composed_operations.rs") && at.line() > line);
        let reported = error.operation() == *name && error.to_string().contains("operands") && here;
        (!reported).then(|| format!("{name}: {error}"))
    };
    let complaints: Vec<String> = wrong.iter().zip(lines).filter_map(complaint).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn what_is_found_when_values_are_read_is_an_error_too() {
    let read = |tensor: Tensor| tensor.eval().expect_err("no value").to_string();
    assert!(read(i(&[1]).floor_divide(i(&[0]))).starts_with("floor_divide: an integer is divided by 0"));
    assert!(read(i(&[1]).shift_left(i(&[64]))).contains("by 0 to 63 places, not by 64"));
    assert!(read(x(&[2]).segment_max(&i(&[0, 5]), 2)).contains("5 is none of 2 segments"));
    assert!(read(Tensor::from([2.0, 1.0]).searchsorted(&x(&[1]), false)).contains("must ascend"));
    assert!(read(Tensor::from([0.0]).log_gamma_sample(Key::new(1))).contains("0 is not a concentration"));
    let mapped = vmap(|x: &Tensor| x.unique().0)(&x(&[2, 3]));
    assert!(read(mapped).starts_with("unique: its size depends on values"));
}

#[test]
fn extreme_values_are_handled() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let a = Tensor::from([-inf, -inf, inf, inf, nan, 0.0, 1e308, -1e308]);
    let b = Tensor::from([-inf, 0.0, -inf, inf, 0.0, nan, 1e308, 1.0]);
    let found = numbers(&a.logaddexp(&b));
    assert_eq!(found[..4], [-inf, 0.0, inf, inf]);
    assert!(found[4].is_nan() && found[5].is_nan());
    assert_eq!(found[6..], [1e308, 1.0]);
    // Derivatives are those of the softmax, also where both are equal, and to second order.
    let both = Tensor::from([2.0, 2.0]);
    let f = |x: &Tensor| x.slice(&[s(0)]).logaddexp(x.slice(&[s(1)]));
    assert_eq!(numbers(&grad(f)(&both)), [0.5, 0.5]);
    assert_eq!(numbers(&hvp(f, &both, &Tensor::from([1.0, 0.0]))), [0.25, -0.25]);
    assert_eq!(numbers(&Tensor::from([0.0, 0.0, 0.0]).xlogy(Tensor::from([0.0, inf, -1.0]))), [0.0; 3]);
    assert!(numbers(&Tensor::from([0.0]).xlogy(nan))[0].is_nan());
    let flat = grad(|x: &Tensor| x.xlogy(x).sum())(&Tensor::from([0.0, 1.0]));
    assert_eq!(numbers(&flat), [0.0, 1.0]);
    assert_eq!(numbers(&Tensor::from([1e200, -1e200]).norm_p(3.0, 0))[0], 2.0_f64.cbrt() * 1e200);
    let origin = Tensor::from([0.0, 0.0]);
    for p in [0.5, 1.0, 1.5, 2.0, 3.0, inf] {
        assert_eq!(numbers(&grad(|x: &Tensor| x.norm_p(p, 0))(&origin)), [0.0, 0.0], "{p}");
    }
    assert_eq!(numbers(&Tensor::from([-0.0, 5.5, -5.5]).remainder(Tensor::from([2.0, inf, inf])))[..2], [0.0, 5.5]);
    assert_eq!(numbers(&Tensor::from([1.0, -1.0]).floor_divide(0.0)), [inf, -inf]);
    assert!(numbers(&Tensor::from([nan]).relu6())[0].is_nan());
    let minimum = Tensor::from([i64::MIN]).floor_divide(-1);
    assert_eq!(minimum.to_vec::<i64>().unwrap(), [i64::MIN]);
}

#[test]
fn special_functions_at_the_ends_of_their_domains() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let at = |f: fn(&Tensor) -> Tensor, x: &[f64]| numbers(&f(&Tensor::from(x)));
    assert_eq!(at(Tensor::erfinv, &[-1.0, 0.0, 1.0]), [-inf, 0.0, inf]);
    assert!(at(Tensor::erfinv, &[1.5, nan]).iter().all(|y| y.is_nan()));
    // The tails keep their digits: erfc(erfinv(1 - ε)) = ε.
    let tail = at(|x| x.erfinv().erfc(), &[1.0 - f64::EPSILON])[0];
    assert!((tail / f64::EPSILON - 1.0).abs() < 1e-13, "{tail:e}");
    assert_eq!(at(|x| x.bessel_i(1), &[0.0, 1e9, -1e9]), [0.0, inf, -inf]);
    assert_eq!(at(|x| x.gammainc(2.0), &[0.0, inf]), [0.0, 1.0]);
    assert_eq!(at(|x| x.gammaincc(2.0), &[0.0, inf]), [1.0, 0.0]);
    assert_eq!(at(|x| x.betainc(2.0, 3.0), &[0.0, 1.0]), [0.0, 1.0]);
    assert!(at(|x| x.betainc(2.0, 3.0), &[-0.1, 1.1]).iter().all(|y| y.is_nan()));
}

#[test]
fn kinks_follow_the_conventions() {
    let slope = |f: fn(&Tensor) -> Tensor, at: f64| numbers(&grad(|x: &Tensor| f(x).sum())(&Tensor::from([at])))[0];
    assert_eq!((slope(Tensor::relu6, 0.0), slope(Tensor::relu6, 6.0)), (0.0, 0.0));
    assert_eq!((slope(Tensor::hardswish, -3.0), slope(Tensor::hardswish, 3.0)), (0.0, 1.0));
    assert_eq!(slope(|x| x.clip_min(1.0), 1.0), 0.5);
    // The derivative of PRelu at 0 is the slope, and one slope adds no axis.
    let unit = PRelu { slope: Tensor::from([0.25]) };
    assert_eq!(numbers(&grad(|x: &Tensor| unit.apply(x).sum())(&Tensor::from([0.0]))), [0.25]);
    assert_eq!(unit.apply(&Tensor::from(-2.0)).shape().rank(), 0);
    assert_eq!(unit.apply(&x(&[2, 3, 4])).shape(), x(&[2, 3, 4]).shape());
}

#[test]
fn integers_are_batched() {
    let (a, b) = (Tensor::from([[7_i64, -7, 12], [3, 0, -5]]), i(&[2, -3, 5]));
    let operations: [fn(&Tensor, &Tensor) -> Tensor; 3] =
        [|a, b| a.floor_divide(b), |a, b| a.remainder(b), |a, b| a.bitwise_xor(b)];
    for operation in operations {
        let whole = vmap(|row: &Tensor| operation(row, &b))(&a);
        let rows: Vec<Tensor> = (0..2).map(|k| operation(&a.slice(&[s(k)]), &b)).collect();
        let expected = Tensor::stack(rows.iter().collect::<Vec<_>>(), 0);
        assert_eq!(whole.to_vec::<i64>(), expected.to_vec::<i64>());
    }
    let counts = vmap(|row: &Tensor| row.remainder(4).bincount(4))(&a);
    assert_eq!(counts.to_string(), "[[1, 1, 0, 1],\n [1, 0, 0, 2]]");
    let histograms = vmap(|row: &Tensor| row.histogram(2, 0.0, 2.0))(&x(&[2, 2]));
    assert_eq!(histograms.to_string(), "[[1, 1],\n [0, 1]]");
    let edges = Tensor::from([[1.0, 2.0, 3.0], [0.0, 5.0, 6.0]]);
    let places = vmap(|edges: &Tensor| edges.searchsorted(&Tensor::from([2.5, 0.0]), true))(&edges);
    assert_eq!(places.to_string(), "[[2, 0],\n [1, 1]]");
}

#[test]
fn distinct_elements_of_integers_that_are_no_floating_point_numbers() {
    let large = (1_i64 << 53) + 1;
    let (values, places, counts) = i(&[large, large - 1, large]).unique();
    assert_eq!(values.to_vec::<i64>().unwrap(), [large - 1, large]);
    assert_eq!((places.to_string(), counts.to_string()), ("[1, 0, 1]".into(), "[1, 2]".into()));
    let slope = grad(|x: &Tensor| (x.unique().0 * Tensor::from([1.0, 10.0])).sum())(&Tensor::from([3.0, 1.0, 3.0]));
    assert_eq!(numbers(&slope), [10.0, 1.0, 0.0]);
}

#[test]
fn axes_of_reductions_are_kept() {
    let a = x(&[2, 3]);
    for reduced in [
        a.argmax(Axes::from(1).keep()),
        a.argmin(Axes::from(-1).keep()),
        a.median_over(Axes::from(1).keep()),
        a.quantile(0.3, Axes::from(1).keep()),
        a.var_corrected(Axes::from(1).keep(), 1.0),
        a.norm_p(3.0, Axes::from(1).keep()),
    ] {
        assert_eq!(reduced.shape().to_string(), "[2, 1]");
        assert_eq!(numbers(&reduced).len(), 2);
    }
}

#[test]
fn both_directions_are_those_of_single_layers() {
    let (forward, backward) = (Gru::new(Key::new(1), 3, 4), Gru::new(Key::new(2), 3, 4));
    let sequences = Tensor::normal(Key::new(3), [5, 2, 3]);
    let (outputs, (last, first)) = Bidirectional::new(forward.clone(), backward.clone()).run(&sequences);
    let (one, one_last) = Recurrent::new(forward).run(&sequences);
    let (other, other_last) = Recurrent::new(backward).run(&sequences.flip([0]));
    assert_eq!(numbers(&outputs.slice(&[s(..), s(..), s(..4)])), numbers(&one));
    assert_eq!(numbers(&outputs.slice(&[s(..), s(..), s(4..)])), numbers(&other.flip([0])));
    assert_eq!((numbers(&last), numbers(&first)), (numbers(&one_last), numbers(&other_last)));
    let refused = Bidirectional::new(Gru::new(Key::new(1), 3, 4), Gru::new(Key::new(2), 3, 4)).apply(&x(&[3]));
    assert_eq!(refused.eval().unwrap_err().operation(), "Recurrent");
}

/// Whether the mean and the variance of many samples are those that the distribution states.
fn sampled<D: Distribution>(name: &str, distribution: &D) {
    let samples = distribution.sample(&Keys::from(Key::new(5)));
    let (mean, variance) = (distribution.mean(), distribution.variance());
    let count = samples.shape()[0] as f64;
    let found = samples.mean_over(0);
    let error = numbers(&((found - mean.mean_over(0)) / (variance.mean_over(0) / count).sqrt()));
    assert!(error.iter().all(|error| error.abs() < 4.0), "{name}: {error:?} standard errors");
    let ratio = numbers(&(samples.var_over(0) / variance.mean_over(0)));
    assert!(ratio.iter().all(|ratio| (ratio - 1.0).abs() < 0.1), "{name}: variances by {ratio:?}");
}

#[test]
fn samples_have_the_moments_of_their_distributions() {
    let full = |number: f64| Tensor::full([20_000], number, DType::F64);
    for concentration in [0.3, 1.0, 4.0, 300.0] {
        sampled("gamma", &Gamma { concentration: full(concentration), rate: full(2.0) });
        sampled("beta", &Beta { alpha: full(concentration), beta: full(2.0) });
    }
    sampled("laplace", &Laplace { mean: full(1.0), log_scale: full(0.5) });
    sampled("student", &StudentT { freedom: full(8.0), mean: full(1.0), log_scale: full(0.5) });
    let concentration = Tensor::from([0.5, 2.0, 7.0]).broadcast_to([20_000, 3]);
    sampled("dirichlet", &Dirichlet { concentration });
    // Variates of a tiny concentration underflow, their logarithms and shares do not.
    let tiny = Dirichlet { concentration: Tensor::from([1e-4, 1e-4]) }.sample(&Keys::from(Key::new(1)));
    assert_eq!(numbers(&tiny.sum()), [1.0]);
}

#[test]
fn samples_have_the_derivatives_of_their_means() {
    // d E[z]/dα = 1 for a gamma variate of rate 1, and d E[z²]/dα = 2α + 1.
    let alpha = 2.5;
    let moment = |power: i32| {
        let of = move |alpha: &Tensor| {
            let concentration = alpha.broadcast_to([40_000]);
            concentration.log_gamma_sample(Key::new(3)).exp().powi(power).mean()
        };
        numbers(&grad(of)(&Tensor::from(alpha)))[0]
    };
    assert!((moment(1) - 1.0).abs() < 0.02, "{}", moment(1));
    assert!((moment(2) - (2.0 * alpha + 1.0)).abs() < 0.2, "{}", moment(2));
    let share = |alpha: &Tensor| {
        let (alpha, beta) = (alpha.broadcast_to([40_000]), Tensor::full([40_000], 1.5, DType::F64));
        Beta { alpha, beta }.sample(&Keys::from(Key::new(4))).mean()
    };
    // d/dα α/(α + β) = β/(α + β)²
    let slope = numbers(&grad(share)(&Tensor::from(alpha)))[0];
    assert!((slope - 1.5 / 16.0).abs() < 0.005, "{slope}");
    let second = hvp(
        |alpha: &Tensor| alpha.log_gamma_sample(Key::new(3)).exp().sum(),
        &Tensor::from([2.5]),
        &Tensor::from([1.0]),
    );
    let message = second.eval().unwrap_err().to_string();
    assert!(message.starts_with("log_gamma_sample: samples have first derivatives"), "{message}");
}
