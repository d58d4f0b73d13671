//! Kernels of the CPU for regions, products of `bf16` and host calls in place, beside the definitions.

use glassgrad::dtype::DType;
use glassgrad::exec::{Isa, with_isa, with_threads};
use glassgrad::expr::s;
#[cfg(feature = "fft")]
use glassgrad::operations::Complex;
use glassgrad::operations::Convolution;
use glassgrad::{Tensor, grad, hvp, vmap};

/// Numbers near one, of both signs, with zeros, infinities and what is none.
fn numbers(count: usize, special: bool) -> Vec<f64> {
    let number = |k: usize| match k % 61 {
        7 if special => 0.0,
        19 if special => -0.0,
        23 if special && k % 3 == 0 => f64::INFINITY,
        41 if special && k % 5 == 0 => f64::NAN,
        _ => (1.0 + 0.2 * (k as f64 * 0.731).sin()) * if k % 11 == 3 { -1.0 } else { 1.0 },
    };
    (0..count).map(number).collect()
}

fn tensor(shape: &[usize], dtype: DType, special: bool) -> Tensor {
    let numbers = numbers(shape.iter().product(), special);
    match dtype {
        DType::I64 => Tensor::new(&numbers.iter().map(|x| (x * 3.0).round() as i64).collect::<Vec<_>>(), shape),
        DType::F32 => Tensor::new(&numbers.iter().map(|x| *x as f32).collect::<Vec<_>>(), shape),
        _ => Tensor::new(&numbers, shape).cast(dtype),
    }
}

fn by_definition(x: &Tensor) -> Vec<f64> {
    Tensor::from(x.eval_by_reference().expect("a value")).to_f64_vec().expect("numbers")
}

/// Bits, of which all NaN have the same.
fn bits(x: &Tensor) -> Vec<u64> {
    let numbers = x.to_f64_vec().expect("numbers");
    numbers.iter().map(|number| if number.is_nan() { u64::MAX } else { number.to_bits() }).collect()
}

fn assert_near(name: &str, actual: &Tensor, bound: f64) {
    let (actual, expected) = (actual.to_f64_vec().expect("numbers"), by_definition(actual));
    assert_eq!(actual.len(), expected.len(), "{name}");
    let scale = expected.iter().filter(|x| x.is_finite()).fold(1.0_f64, |largest, x| largest.max(x.abs()));
    for (k, (a, b)) in actual.iter().zip(&expected).enumerate() {
        let is_same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= bound * scale;
        assert!(is_same, "{name}: element {k} is {a}, by definition {b}");
    }
}

/// What is accumulated: a name, the function, and whether it is exact.
type Cumulative = (&'static str, fn(&Tensor, isize) -> Tensor, bool);

const CUMULATIVE: [Cumulative; 4] = [
    ("cumsum", |x, axis| x.cumsum(axis), false),
    ("cumprod", |x, axis| x.cumprod(axis), false),
    ("cummax", |x, axis| x.cummax(axis), true),
    ("cummin", |x, axis| x.cummin(axis), true),
];

#[test]
fn cumulative_operations_are_those_of_the_definition() {
    // Short and long axes, lines that do not fill a group, segments of a long line, columns with a rest, and empty arrays.
    let shapes: [&[usize]; 9] =
        [&[33], &[4099], &[3, 40], &[17, 65], &[2, 64, 3], &[2, 35, 70], &[1, 9001], &[0, 40], &[5, 31]];
    for (name, apply, is_exact) in CUMULATIVE {
        for shape in shapes {
            for dtype in [DType::F32, DType::F64, DType::I64] {
                for special in [false, true].into_iter().filter(|special| !special || (dtype != DType::I64 && is_exact))
                {
                    let x = tensor(shape, dtype, special);
                    for axis in 0..shape.len() as isize {
                        let y = apply(&x, axis);
                        let case = format!("{name} of {dtype}{shape:?} along {axis}");
                        let bound = if is_exact || dtype == DType::I64 { 0.0 } else { 1e-5 };
                        assert_near(&case, &y, bound);
                        let again = with_threads(1, || bits(&apply(&x, axis)));
                        assert_eq!(with_threads(5, || bits(&apply(&x, axis))), again, "{case} on threads");
                    }
                }
            }
        }
    }
}

#[test]
fn no_cumulative_sum_contains_what_stands_behind_it() {
    let x = tensor(&[3, 70], DType::F32, true);
    let (sums, x) = (x.cumsum(1).to_f64_vec().expect("sums"), x.to_f64_vec().expect("numbers"));
    for (sums, x) in sums.chunks(70).zip(x.chunks(70)) {
        let first = x.iter().position(|x| !x.is_finite()).unwrap_or(70);
        assert!(sums[..first].iter().all(|sum| sum.is_finite()) && sums[first..].iter().all(|sum| !sum.is_finite()));
    }
}

#[test]
fn cumulative_operations_have_derivatives_of_every_order() {
    for (name, apply, _) in CUMULATIVE {
        for (shape, axis) in [(&[3, 40][..], 1), (&[40, 9][..], 0), (&[2, 34, 2][..], 1)] {
            let mut x = tensor(shape, DType::F32, false);
            if name == "cumprod" {
                // Derivatives are right at zeros too, also at several of a line.
                let zeros = [5_usize, 11, 12];
                let mut elements = x.to_vec::<f32>().expect("numbers");
                zeros.iter().for_each(|k| elements[*k] = 0.0);
                x = Tensor::new(&elements, shape);
            }
            let weights = tensor(shape, DType::F32, false).sin();
            let f = |x: &Tensor| (apply(x, axis) * &weights).sum() + apply(x, axis).square().mean();
            assert_near(&format!("the gradient of {name}"), &grad(f)(&x), 1e-5);
            let direction = weights.cos();
            assert_near(&format!("the second derivative of {name}"), &hvp(f, &x, &direction), 1e-4);
            // In 64 bits sums and products are those of the definition, without a kernel.
            let wide = x.cast(DType::F64);
            let wide_weights = weights.cast(DType::F64);
            let g = |x: &Tensor| (apply(x, axis) * &wide_weights).sum() + apply(x, axis).square().mean();
            let (own, other) = (grad(f)(&x).to_f64_vec().expect("own"), grad(g)(&wide).to_f64_vec().expect("wide"));
            for (own, other) in own.iter().zip(&other) {
                assert!((own - other).abs() <= 1e-4 * (1.0 + other.abs()), "{name}: {own} and {other}");
            }
        }
    }
    let x = tensor(&[4, 3, 40], DType::F32, false);
    let each = vmap(|x: &Tensor| x.cumsum(1))(&x);
    assert_eq!(bits(&each).len(), bits(&x.cumsum(2)).len());
    assert_near("a batch of cumulative sums", &(each - x.cumsum(2)).abs(), 1e-5);
}

#[test]
fn top_k_is_the_beginning_of_a_sort() {
    for shape in [&[1][..], &[200], &[7, 130], &[3, 65, 4], &[2, 1000]] {
        for dtype in [DType::F32, DType::F64, DType::I64] {
            // Many equal elements, zeros of both signs, infinities and what is no number.
            let x = tensor(shape, dtype, dtype != DType::I64);
            let x = if dtype == DType::I64 { x } else { (x * 8.0).round() / 8.0 };
            for axis in 0..shape.len() {
                let size = shape[axis];
                for k in [0, 1, 3, 64, size / 2, size].into_iter().filter(|k| *k <= size) {
                    let (values, places) = x.top_k(k, axis as isize);
                    let order = x.argsort_descending(axis as isize);
                    let mut index = vec![s(..); shape.len()];
                    index[axis] = s(..k);
                    assert_eq!(bits(&places), bits(&order.slice(&index)), "{k} of {dtype}{shape:?} along {axis}");
                    assert_near("values of top_k", &values, 0.0);
                }
            }
        }
    }
    let x = tensor(&[3, 90], DType::F32, false);
    let f = |x: &Tensor| x.top_k(5, 1).0.square().sum();
    assert_near("the gradient of top_k", &grad(f)(&x), 1e-6);
}

#[cfg(feature = "fft")]
#[test]
fn transforms_of_every_size_are_those_of_the_definition() {
    for size in [1, 2, 3, 4, 5, 6, 8, 12, 15, 16, 30, 64, 100] {
        let x = tensor(&[3, size], DType::F64, false);
        let angle = |j: usize, k: usize| -2.0 * std::f64::consts::PI * (j * k % size) as f64 / size as f64;
        let half = x.rfft(1);
        let whole = Complex::real(&x).fft(1);
        let (re, im) = (half.re.to_f64_vec().expect("re"), half.im.to_f64_vec().expect("im"));
        let all = (whole.re.to_f64_vec().expect("re"), whole.im.to_f64_vec().expect("im"));
        let x = x.to_f64_vec().expect("numbers");
        let places = size / 2 + 1;
        for row in 0..3 {
            for k in 0..size {
                let sum = |part: fn(f64) -> f64| (0..size).map(|j| x[row * size + j] * part(angle(j, k))).sum::<f64>();
                let (cosine, sine) = (sum(f64::cos), sum(f64::sin));
                let bound = 1e-13 * size as f64 * 2.0;
                assert!((all.0[row * size + k] - cosine).abs() < bound && (all.1[row * size + k] - sine).abs() < bound);
                if k < places {
                    let (re, im) = (re[row * places + k], im[row * places + k]);
                    assert!(
                        (re - cosine).abs() < bound && (im - sine).abs() < bound,
                        "{size}: {re} {im}, {cosine} {sine}"
                    );
                }
            }
        }
    }
    let x = tensor(&[4, 10], DType::F32, false);
    let f = |x: &Tensor| x.rfft(-1).abs_square().sum() + x.rfft(0).re.sin().sum();
    assert_near("the gradient of rfft", &grad(f)(&x), 1e-5);
    assert_near("a batch of transforms", &vmap(|x: &Tensor| x.rfft(0).im)(&x), 1e-5);
}

/// Rows, columns and terms with remainders of every kind of panel, slab and pair.
const SIZES: [[usize; 3]; 8] = [
    [33, 40, 31],
    [64, 48, 64],
    [50, 97, 129],
    [7, 300, 801],
    [300, 9, 65],
    [129, 130, 17],
    [8, 16, 513],
    [100, 100, 2],
];

#[test]
fn products_of_bf16_are_those_of_32_bits_at_every_level() {
    for [m, n, k] in SIZES {
        let (a, b) = (tensor(&[m, k], DType::BF16, false), tensor(&[k, n], DType::BF16, false));
        let (a_turned, b_turned) = (tensor(&[k, m], DType::BF16, false), tensor(&[n, k], DType::BF16, false));
        let products = [
            ("plain", &a, &b, a.matmul(&b)),
            ("first transposed", &a_turned.transpose(), &b, a_turned.transpose().matmul(&b)),
            ("second transposed", &a, &b_turned.transpose(), a.matmul(&b_turned.transpose())),
        ];
        for (name, a, b, product) in products {
            let wide = a.cast(DType::F32).matmul(&b.cast(DType::F32));
            let scale = wide.abs().max().item().expect("a number");
            let apart = (product.cast(DType::F32) - &wide).abs().max().item().expect("a number");
            // Rounded once: half a unit of the last of eight binary digits, and what the order of sums leaves of 32 bits.
            assert!(apart <= scale / 256.0, "{name} {m}x{n}x{k}: {apart} of {scale}");
            let levels = Isa::here().into_iter().filter(|level| *level > Isa::Baseline);
            let found: Vec<Vec<u64>> = levels
                .map(|level| with_isa(level, || bits(&a.matmul(b))))
                .chain([with_threads(1, || bits(&a.matmul(b))), with_threads(4, || bits(&a.matmul(b)))])
                .collect();
            assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{name} {m}x{n}x{k} at every level");
            let lowest =
                with_isa(Isa::Baseline, || a.matmul(b).cast(DType::F32).eval().map(Tensor::from)).expect("a value");
            let apart = (lowest - &wide).abs().max().item().expect("a number");
            assert!(apart <= scale / 256.0, "{name} {m}x{n}x{k} at the lowest level: {apart} of {scale}");
        }
    }
}

#[test]
fn what_is_not_finite_stays_so_in_products_of_bf16() {
    let mut a = numbers(64 * 64, false);
    (a[3], a[64 * 5 + 2], a[64 * 9]) = (f64::INFINITY, f64::NAN, f64::NEG_INFINITY);
    let a = Tensor::new(&a, [64, 64]).cast(DType::BF16);
    let b = tensor(&[64, 64], DType::BF16, false);
    let (own, wide) = (a.matmul(&b).to_f64_vec().expect("own"), a.cast(DType::F32).matmul(&b.cast(DType::F32)));
    for (own, wide) in own.iter().zip(wide.to_f64_vec().expect("wide")) {
        assert!(own.is_nan() == wide.is_nan() && own.is_infinite() == wide.is_infinite(), "{own} and {wide}");
    }
    assert_eq!(
        Tensor::zeros([64, 0]).cast(DType::BF16).matmul(&Tensor::zeros([0, 64]).cast(DType::BF16)).sum().item().ok(),
        Some(0.0)
    );
}

#[test]
fn batches_and_convolutions_of_bf16_are_those_of_32_bits() {
    let close = |name: &str, own: &Tensor, wide: &Tensor| {
        let scale = wide.abs().max().item().expect("a number");
        let apart = (own.cast(DType::F32) - wide).abs().max().item().expect("a number");
        assert!(apart <= scale / 128.0, "{name}: {apart} of {scale}");
    };
    let (a, b) = (tensor(&[6, 50, 33], DType::BF16, false), tensor(&[6, 33, 41], DType::BF16, false));
    close("a batch", &a.matmul(&b), &a.cast(DType::F32).matmul(&b.cast(DType::F32)));
    let scores = |x: &Tensor, y: &Tensor| Tensor::einsum("bqhd,bkhd->bhqk", [x, y]);
    let (q, k) = (tensor(&[2, 20, 3, 16], DType::BF16, false), tensor(&[2, 25, 3, 16], DType::BF16, false));
    close("scores", &scores(&q, &k), &scores(&q.cast(DType::F32), &k.cast(DType::F32)));
    for (stride, padding, width) in [(1, 1, 17), (2, 1, 17), (2, 0, 12), (1, 0, 9)] {
        let images = tensor(&[3, 5, width, width], DType::BF16, false);
        let kernels = tensor(&[20, 5, 3, 3], DType::BF16, false);
        let apply = |x: &Tensor, w: &Tensor| x.conv2d(w, Convolution::default().stride(stride).padding(padding));
        let (x, w) = (images.cast(DType::F32), kernels.cast(DType::F32));
        close("a convolution", &apply(&images, &kernels), &apply(&x, &w));
        let loss = |(x, w): &(Tensor, Tensor)| apply(x, w).cast(DType::F32).sin().sum();
        let (own, wide) = (grad(loss)(&(images, kernels)), grad(loss)(&(x, w)));
        // Cotangents are rounded too, and sums of several hundred of them taken.
        for (own, wide) in [(own.0, wide.0), (own.1, wide.1)] {
            let scale = wide.abs().max().item().expect("a number");
            let apart = (own.cast(DType::F32) - wide).abs().max().item().expect("a number");
            assert!(apart <= scale / 24.0, "a gradient of a convolution: {apart} of {scale}");
        }
    }
}
