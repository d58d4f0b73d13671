//! Windows, convolution and pooling before their judges: the definition element by element, the adjoint
//! identity, finite differences, and batching against a loop.

#[path = "judges/cases.rs"]
mod cases;

use cases::random_cases;
use glassgrad::operations::{Convolution, Pooling};
use glassgrad::rng::Key;
use glassgrad::view::Window;
use glassgrad::{Tensor, grad, hvp, jvp, vjp, vmap};
use proptest::prelude::*;

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(seed), shape.to_vec()).cast(glassgrad::dtype::DType::F64)
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64_vec().unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn assert_close(actual: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len());
    let size = expected.iter().fold(1.0_f64, |size, number| size.max(number.abs()));
    for (a, b) in actual.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance * size, "{actual:?} is not {expected:?}");
    }
}

/// Everything that makes a convolution of two axes.
#[derive(Clone, Debug)]
struct Case {
    batch: usize,
    groups: usize,
    inputs: usize,
    outputs: usize,
    size: [usize; 2],
    kernel: [usize; 2],
    config: Convolution<2>,
}

impl Case {
    fn signal(&self) -> Tensor {
        normal(1, &[self.batch, self.groups * self.inputs, self.size[0], self.size[1]])
    }

    fn kernel(&self) -> Tensor {
        normal(2, &[self.groups * self.outputs, self.inputs, self.kernel[0], self.kernel[1]])
    }

    /// How many windows fit along an axis.
    fn count(&self, axis: usize) -> usize {
        let extent = (self.kernel[axis] - 1) * self.config.dilation[axis] + 1;
        (self.size[axis] + 2 * self.config.padding[axis].0 - extent) / self.config.stride[axis] + 1
    }

    /// The convolution by its definition: seven sums over plain numbers.
    fn by_definition(&self) -> Vec<f64> {
        let (x, k) = (numbers(&self.signal()), numbers(&self.kernel()));
        let channels = self.groups * self.inputs;
        let mut result = Vec::new();
        for b in 0..self.batch {
            for o in 0..self.groups * self.outputs {
                for i in 0..self.count(0) {
                    for j in 0..self.count(1) {
                        let mut sum = 0.0;
                        for c in 0..self.inputs {
                            for u in 0..self.kernel[0] {
                                for v in 0..self.kernel[1] {
                                    let place = |index: usize, inside: usize, axis: usize| {
                                        (index * self.config.stride[axis] + inside * self.config.dilation[axis])
                                            .checked_sub(self.config.padding[axis].0)
                                            .filter(|place| *place < self.size[axis])
                                    };
                                    let (Some(row), Some(column)) = (place(i, u, 0), place(j, v, 1)) else { continue };
                                    let channel = o / self.outputs * self.inputs + c;
                                    let at = ((b * channels + channel) * self.size[0] + row) * self.size[1] + column;
                                    let weight = ((o * self.inputs + c) * self.kernel[0] + u) * self.kernel[1] + v;
                                    sum += x[at] * k[weight];
                                }
                            }
                        }
                        result.push(sum);
                    }
                }
            }
        }
        result
    }
}

fn any_case() -> impl Strategy<Value = Case> {
    let counts = (0..3_usize, 1..3_usize, 1..3_usize, 1..3_usize);
    let pair = |range: std::ops::Range<usize>| [range.clone(), range];
    (counts, pair(1..6), pair(1..4), pair(1..3), pair(0..3), pair(1..3)).prop_map(
        |((batch, groups, inputs, outputs), size, kernel, stride, padding, dilation)| {
            // An axis that is too short grows until the kernel fits.
            let size = [0, 1].map(|k| size[k].max(((kernel[k] - 1) * dilation[k] + 1).saturating_sub(2 * padding[k])));
            let config = Convolution::default().stride(stride).padding(padding).dilation(dilation).groups(groups);
            Case { batch, groups, inputs, outputs, size: size.map(|size| size.max(1)), kernel, config }
        },
    )
}

proptest! {
    #![proptest_config(random_cases(96))]

    #[test]
    fn a_convolution_is_what_its_definition_says(case in any_case()) {
        let (x, k) = (case.signal(), case.kernel());
        let y = x.conv2d(&k, case.config);
        prop_assert_eq!(y.shape().to_vec(), [case.batch, case.groups * case.outputs, case.count(0), case.count(1)]);
        assert_close(&numbers(&y), &case.by_definition(), 1e-13);
        // Examples one at a time are the same as all at once.
        assert_close(&numbers(&vmap(|x: &Tensor| x.conv2d(&k, case.config))(&x)), &numbers(&y), 1e-13);
    }

    #[test]
    fn a_transposed_convolution_is_the_transpose(case in any_case()) {
        let (x, k) = (case.signal(), case.kernel());
        let y = x.conv2d(&k, case.config);
        // A stride forgets how many places there were behind the last window.
        let left = [0, 1].map(|axis| {
            let extent = (case.kernel[axis] - 1) * case.config.dilation[axis] + 1;
            (case.size[axis] + 2 * case.config.padding[axis].0 - extent) % case.config.stride[axis]
        });
        let w = normal(3, y.shape());
        let (_, pull) = vjp(|x: &Tensor| x.conv2d(&k, case.config), &x);
        let transposed = w.conv_transpose2d(&k, case.config.output_padding(left));
        prop_assert_eq!(transposed.shape(), x.shape());
        assert_close(&numbers(&transposed), &numbers(&pull(&w)), 1e-13);
    }

    #[test]
    fn derivatives_of_a_convolution_hold(case in any_case()) {
        let x = vec![case.signal(), case.kernel()];
        let f = |x: &Vec<Tensor>| x[0].conv2d(&x[1], case.config);
        let y = f(&x);
        let v = vec![normal(4, x[0].shape()), normal(5, x[1].shape())];
        let w = normal(6, y.shape());
        let (_, pull) = vjp(f, &x);
        let pulled = pull(&w);
        let left = jvp(f, &x, &v).1.inner(&w);
        let right = pulled[0].inner(&v[0]) + pulled[1].inner(&v[1]);
        assert_close(&numbers(&left), &numbers(&right), 1e-12);
        // It is bilinear: its second derivative along (v, v) is twice the convolution of the directions.
        let curved = hvp(|x: &Vec<Tensor>| f(x).inner(&w), &x, &v);
        let along = curved[0].inner(&v[0]) + curved[1].inner(&v[1]);
        let expected = v[0].conv2d(&v[1], case.config).inner(&w) * 2.0;
        assert_close(&numbers(&along), &numbers(&expected), 1e-12);
    }
}

/// Convolutions that are large enough to be cut for threads, along positions, channels and long sums.
fn large() -> Vec<Case> {
    let config = Convolution::default;
    let case = |batch, [groups, inputs, outputs]: [usize; 3], size, kernel, config| Case {
        batch,
        groups,
        inputs,
        outputs,
        size,
        kernel,
        config,
    };
    vec![
        case(5, [1, 1, 8], [28, 28], [5, 5], config()),
        case(3, [1, 8, 16], [12, 13], [5, 4], config()),
        case(2, [1, 3, 37], [17, 19], [3, 3], config().padding(1).stride(2)),
        case(2, [3, 4, 5], [15, 14], [2, 3], config().groups(3).dilation([2, 1]).padding([0, 2])),
        case(9, [1, 2, 1], [20, 20], [3, 3], config().stride([1, 3])),
        case(1, [1, 40, 40], [6, 6], [3, 3], config().padding(1)),
        case(4, [16, 1, 1], [18, 18], [3, 3], config().groups(16).padding(1)),
        case(1, [1, 20, 33], [1, 40], [1, 1], config()),
    ]
}

#[test]
fn large_convolutions_and_their_derivatives_are_those_of_the_reference() {
    use glassgrad::dtype::DType;
    for case in large() {
        for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 2e-4)] {
            let known = |tensor: Tensor| tensor.cast(dtype).detach().expect("numbers");
            let x = vec![known(case.signal()), known(case.kernel())];
            let f = |x: &Vec<Tensor>| x[0].conv2d(&x[1], Convolution { groups: case.groups, ..case.config });
            let y = f(&x);
            let w = known(normal(6, y.shape()));
            let v = vec![known(normal(4, x[0].shape())), known(normal(5, x[1].shape()))];
            let mut all = vec![y];
            all.extend(vjp(f, &x).1(&w));
            all.extend(hvp(|x: &Vec<Tensor>| (f(x).square() * &w).sum(), &x, &v));
            for tensor in all {
                let by_reference = tensor.eval_by_reference().expect("it is sound");
                let expected: Vec<f64> =
                    (0..by_reference.buffer().len()).map(|k| by_reference.buffer().get(k)).collect();
                assert_close(&numbers(&tensor), &expected, tolerance);
            }
        }
    }
}

/// Windows side by side are cut out of the axes, others are read: both pool the same, equal elements included.
#[test]
fn windows_side_by_side_pool_as_all_windows_do() {
    for (shape, size) in
        [([2, 6, 8], [2, 2]), ([3, 7, 5], [2, 2]), ([1, 9, 10], [3, 5]), ([2, 2, 3], [1, 3]), ([0, 4, 4], [2, 2])]
    {
        let x = (normal(7, &shape) * 2.0).round().detach().expect("numbers");
        let windows = size.map(|size| Window::new(size).stride(size));
        let read = |x: &Tensor| {
            let seen = x.windows(1, &windows);
            let positions = seen.shape()[..3].to_vec();
            seen.reshape([&positions[..], &[size[0] * size[1]]].concat())
        };
        type Pool<'p> = &'p dyn Fn(&Tensor) -> Tensor;
        let largest: [Pool<'_>; 2] = [&|x| x.max_pool2d(Pooling::new(size)), &|x| read(x).max_over(-1)];
        let mean: [Pool<'_>; 2] = [&|x| x.avg_pool2d(Pooling::new(size)), &|x| read(x).mean_over(-1)];
        for [found, expected] in [largest, mean] {
            assert_close(&numbers(&found(&x)), &numbers(&expected(&x)), 1e-15);
            let w = normal(8, expected(&x).shape());
            let slope = |pool: Pool<'_>| grad(|x: &Tensor| (pool(x).square() * &w).sum())(&x);
            assert_close(&numbers(&slope(found)), &numbers(&slope(expected)), 1e-14);
            let v = normal(9, &shape);
            let curved = |pool: Pool<'_>| hvp(|x: &Tensor| (pool(x).square() * &w).sum(), &x, &v);
            assert_close(&numbers(&curved(found)), &numbers(&curved(expected)), 1e-14);
        }
    }
}

#[test]
fn one_axis_is_two_axes_of_which_one_is_flat() {
    let (x, k) = (normal(1, &[2, 3, 9]), normal(2, &[4, 3, 3]));
    let config = Convolution::<1>::default().stride(2).padding(1).dilation(2);
    let wide = Convolution::<2>::default().stride([1, 2]).padding([0, 1]).dilation([1, 2]);
    let y = x.conv1d(&k, config);
    let flat = x.reshape([2, 3, 1, 9]).conv2d(&k.reshape([4, 3, 1, 3]), wide);
    assert_close(&numbers(&y), &numbers(&flat), 1e-14);
    let back = y.conv_transpose1d(&k, config);
    let wide_back = flat.conv_transpose2d(&k.reshape([4, 3, 1, 3]), wide);
    assert_close(&numbers(&back), &numbers(&wide_back), 1e-14);
}

#[test]
fn convolutions_that_cannot_be_say_why() {
    let (x, k) = (normal(1, &[3, 5, 5]), normal(2, &[4, 3, 3, 3]));
    let message = |tensor: Tensor| tensor.eval().expect_err("it cannot be").to_string();
    let default = Convolution::<2>::default;
    assert!(
        message(x.conv2d(&normal(2, &[4, 2, 3, 3]), default()))
            .starts_with("conv2d: a kernel of the shape [4, 2, 3, 3] in 1 groups does not fit 3 channels")
    );
    assert!(
        message(x.conv2d(&k, default().dilation(3)))
            .starts_with("conv2d: a window over 7 places does not fit on axis 2, which has size 5 and padding (0, 0)")
    );
    assert!(message(x.conv2d(&k, default().stride(0))).contains("at least 1"));
    assert!(message(x.conv2d(&k, default().groups(0))).contains("in 0 groups"));
    assert!(message(x.conv2d(&x, default())).contains("[…, channels, height, width]"));
    assert!(message(x.conv_transpose2d(&normal(2, &[3, 1, 2, 2]), default().output_padding(1))).contains("stride"));
    assert!(message(x.max_pool2d(Pooling::new(2).padding(2))).contains("less than the size"));
    assert!(message(x.adaptive_avg_pool2d(0)).contains("not divided"));
    assert!(message(x.windows(1, &[Window::new(6)])).contains("does not fit"));
    assert!(message(normal(1, &[]).conv1d(&k, Convolution::default())).contains("[…, channels, n]"));
}

#[test]
fn pooling_is_the_largest_or_the_mean_of_windows() {
    let x = normal(1, &[2, 5, 6]);
    let values = numbers(&x);
    let config = Pooling::<2>::new([3, 2]).stride([2, 3]).padding(1);
    let (mut largest, mut mean, mut inside_mean) = (Vec::new(), Vec::new(), Vec::new());
    for b in 0..2 {
        for i in 0..3_usize {
            for j in 0..3_usize {
                let mut seen = Vec::new();
                for u in 0..3 {
                    for v in 0..2 {
                        let (row, column) = ((2 * i + u).wrapping_sub(1), (3 * j + v).wrapping_sub(1));
                        if row < 5 && column < 6 {
                            seen.push(values[(b * 5 + row) * 6 + column]);
                        }
                    }
                }
                largest.push(seen.iter().copied().fold(f64::NEG_INFINITY, f64::max));
                mean.push(seen.iter().sum::<f64>() / 6.0);
                inside_mean.push(seen.iter().sum::<f64>() / seen.len() as f64);
            }
        }
    }
    assert_close(&numbers(&x.max_pool2d(config)), &largest, 0.0);
    assert_close(&numbers(&x.avg_pool2d(config)), &mean, 1e-15);
    assert_close(&numbers(&x.avg_pool2d(config.ignore_padding())), &inside_mean, 1e-15);
    // The gradient of a sum of means is the number of windows that see a place, by the size of a window.
    let slope = grad(|x: &Tensor| x.avg_pool2d(Pooling::new(2)).sum())(&x);
    let seen = |k: usize| if k / 6 % 5 < 4 { 0.25 } else { 0.0 };
    assert_close(&numbers(&slope), &(0..60).map(seen).collect::<Vec<_>>(), 1e-15);
}

#[test]
fn equal_elements_of_a_window_share_the_derivative() {
    let x = Tensor::from([[1.0, 1.0], [0.0, 1.0]]);
    let shared = grad(|x: &Tensor| x.max_pool2d(Pooling::new(2)).sum())(&x);
    assert_close(&numbers(&shared), &[1.0 / 3.0, 1.0 / 3.0, 0.0, 1.0 / 3.0], 1e-15);
    assert_eq!(numbers(&grad(|x: &Tensor| x.adaptive_max_pool2d(1).sum())(&x)), numbers(&shared));
}

#[test]
fn parts_of_an_axis_are_as_even_as_they_can_be() {
    let x = normal(1, &[3, 7, 5]);
    let values = numbers(&x);
    let parts = |count: usize, size: usize| -> Vec<(usize, usize)> {
        (0..count).map(|k| (k * size / count, ((k + 1) * size).div_ceil(count))).collect()
    };
    let (mut means, mut largest) = (Vec::new(), Vec::new());
    for b in 0..3 {
        for (top, bottom) in parts(3, 7) {
            for (left, right) in parts(2, 5) {
                let seen: Vec<f64> = (top..bottom)
                    .flat_map(|i| (left..right).map(move |j| (i, j)))
                    .map(|(i, j)| values[(b * 7 + i) * 5 + j])
                    .collect();
                means.push(seen.iter().sum::<f64>() / seen.len() as f64);
                largest.push(seen.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            }
        }
    }
    assert_close(&numbers(&x.adaptive_avg_pool2d([3, 2])), &means, 1e-14);
    assert_close(&numbers(&x.adaptive_max_pool2d([3, 2])), &largest, 0.0);
}

#[test]
fn running_sums_are_sums() {
    let x = normal(1, &[3, 7, 2]);
    let values = numbers(&x);
    for axis in 0..3 {
        let stride = [14, 2, 1][axis];
        let size = [3, 7, 2][axis];
        let expected: Vec<f64> =
            (0..42).map(|k| (0..=k / stride % size).map(|back| values[k - back * stride]).sum()).collect();
        assert_close(&numbers(&x.cumsum(axis as isize)), &expected, 1e-14);
    }
    assert_eq!(x.slice(&[glassgrad::expr::s(..0)]).cumsum(0).shape().to_vec(), [0, 7, 2]);
    assert_eq!(Tensor::from([1_i64, 2, 3]).cumsum(-1).to_string(), "[1, 3, 6]");
    // The transpose is the running sum from the other end.
    let (_, pull) = vjp(|x: &Tensor| x.cumsum(1), &x);
    assert_close(&numbers(&pull(&x)), &numbers(&x.flip([1]).cumsum(1).flip([1])), 1e-14);
}
