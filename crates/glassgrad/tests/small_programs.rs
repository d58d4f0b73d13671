//! Every kind of step that a program can have, on a few numbers each, before the definition: small enough for an
//! interpreter that checks every access of memory (`tools/sanitise`).

use glassgrad::dtype::DType;
use glassgrad::exec::footprint;
use glassgrad::operations::{Convolution, Pooling};
use glassgrad::opt::program::Step;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, Within, checkpoint, compile, grad, hvp, scan};

fn numbers(shape: &[usize], phase: f64) -> Tensor {
    let count = shape.iter().product();
    let elements: Vec<f64> = (0..count).map(|k| (k as f64 * 0.618 + phase).sin()).collect();
    Tensor::new(&elements, shape)
}

fn whole(numbers: &[i64]) -> Tensor {
    Tensor::new(numbers, numbers.len())
}

/// What the program computes is what the definition says.
#[track_caller]
fn assert_defined(tensors: &[Tensor]) {
    for tensor in tensors {
        let expected = tensor.eval_by_reference().unwrap_or_else(|error| panic!("{error}"));
        let actual = tensor.eval().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(actual.shape(), expected.shape());
        let roundings = if tensor.dtype() == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let places = 0..expected.buffer().len();
        let size = places.clone().fold(1.0_f64, |size, place| size.max(expected.buffer().get(place).abs()));
        for place in places {
            let (a, b) = (actual.buffer().get(place), expected.buffer().get(place));
            assert!((a - b).abs() <= 64.0 * roundings * size, "{a} is not {b}");
        }
    }
}

#[test]
fn loops() {
    for dtype in [DType::F32, DType::F64] {
        let (x, y) = (numbers(&[3, 5], 0.1).cast(dtype), numbers(&[5], 0.2).cast(dtype));
        let z = (&x * &y).tanh() + x.exp() / (y.square() + 1.0);
        let chosen = x.gt(&y).choose(&z, &(&z * 2.0));
        assert_defined(&[z.clone(), z.sum(), z.sum_over(0), z.sum_over(1), z.max_over(0), z.max(), chosen]);
        assert_defined(&[z.transpose().sin() + 1.0, z.flip([0, 1]).erf(), x.softmax(-1), x.cast(DType::I64) * 3]);
    }
}

#[test]
fn products() {
    for dtype in [DType::F32, DType::F64, DType::I64] {
        let [a, b] = [(&[2, 5, 7][..], 0.1), (&[2, 7, 18], 0.2)]
            .map(|(shape, phase)| (numbers(shape, phase) * 9.0).cast(dtype).detach().expect("numbers"));
        let back = b.transpose().matmul(&a.transpose());
        assert_defined(&[a.matmul(&b), back, a.flip([1, 2]).matmul(&b), Tensor::einsum("bik,bkj->ij", [&a, &b])]);
    }
}

/// Whole numbers and truth values, which have kernels of their own.
#[test]
fn loops_of_other_types() {
    let (a, b) = (whole(&[3, -1, 4, 1, -5]), whole(&[2, 7, -1, 8, 2]));
    let (first, second) = (a.gt(&b), b.lt(whole(&[3, 3, 3, 3, 3])));
    let both = first.and(&second).or(&first.not());
    assert_defined(&[&a * &b - &a, -&a, both.choose(&a, &b), a.reshape([5, 1]) + &b, a.sum(), b.max()]);
    assert_defined(&[both.cast(DType::F64), both.cast(DType::I64), both.choose(&first, &second), a.not_equal(0)]);
    assert_defined(&[both.reshape([5, 1]).and(&second), a.cast(DType::F32).exp(), a.cast(DType::Bool)]);
}

/// Rows that are put together inside of a loop, of lengths that have kernels of their own and of others.
#[test]
fn rows_of_loops() {
    for length in [2, 3, 4, 5, 8, 9, 16, 19] {
        let x = numbers(&[3, length], 0.1);
        assert_defined(&[x.softmax(-1), x.cast(DType::F32).softmax(-1), &x - x.sum_over(1).reshape([3, 1]).tanh()]);
    }
}

/// Batches, and rows, columns and sums over several axes: what is contiguous, what does not, and what is folded back.
#[test]
fn tiles() {
    // An interpreter takes minutes for each type.
    let types: &[DType] = if cfg!(miri) { &[DType::F32] } else { &[DType::F32, DType::F64, DType::I64] };
    for dtype in types.iter().copied() {
        let [a, b] = [(&[2, 15, 17][..], 0.1), (&[2, 17, 18], 0.2)]
            .map(|(shape, phase)| (numbers(shape, phase) * 9.0).cast(dtype).detach().expect("numbers"));
        let turned = b.transpose().matmul(&a.transpose());
        assert_defined(&[a.matmul(&b), turned, a.flip([1, 2]).matmul(&b.flip([2]))]);
    }
    for dtype in types.iter().copied().filter(|dtype| dtype.is_float()) {
        let images = numbers(&[2, 2, 6, 5], 0.3).cast(dtype).detach().expect("numbers");
        for config in [Convolution::default(), Convolution::default().padding(1).stride(2)] {
            let kernel = numbers(&[9, 2, 3, 3], 0.4).cast(dtype).detach().expect("numbers");
            let loss = |(x, k): &(Tensor, Tensor)| x.conv2d(k, config).square().sum();
            assert_defined(&[images.conv2d(&kernel, config)]);
            assert_defined(&grad(loss)(&(images.clone(), kernel)).flatten());
        }
    }
}

#[test]
fn windows_of_pooling() {
    let (images, kernel) = (numbers(&[2, 2, 6, 5], 0.3), numbers(&[3, 2, 3, 3], 0.4));
    for pool in [Pooling::new(2), Pooling::new(3).stride(2).padding(1)] {
        let layer = |x: &Tensor| {
            let made = (x.conv2d(&kernel, Convolution::default().padding(1)) + 0.1).relu();
            made.max_pool2d(pool) + made.avg_pool2d(pool)
        };
        assert_defined(&[layer(&images), grad(|x: &Tensor| layer(x).square().sum())(&images)]);
    }
}

/// A product of matrices just large enough for the kernel of those that are their own transpose, beyond one tile of it. The
/// definition is written out here, since the reference would take an interpreter too long.
#[test]
fn a_product_that_is_its_own_transpose() {
    let (sums, size) = (if cfg!(miri) { 2 } else { 12 }, 97);
    let x = numbers(&[sums, size], 0.1).to_f64_vec().expect("numbers");
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F64, 1e-14)] {
        let given = Tensor::new(&x, [sums, size]).cast(dtype).detach().expect("numbers");
        let square = given.transpose().matmul(&given);
        let is_symmetric = |step: &Step| matches!(step, Step::Contract(product) if product.symmetric);
        assert!(square.program().expect("a program").steps.iter().any(is_symmetric));
        let found = square.to_f64_vec().expect("numbers");
        for (place, found) in found.iter().enumerate() {
            let (row, column) = (place / size, place % size);
            let wanted: f64 = (0..sums).map(|sum| x[sum * size + row] * x[sum * size + column]).sum();
            assert!((found - wanted).abs() <= tolerance * sums as f64, "{found} is not {wanted}");
        }
    }
}

/// What is not finite, in a product in which zeros win.
#[test]
fn zeros_that_win() {
    let mut weights = numbers(&[4, 5], 0.2).to_f64_vec().expect("numbers");
    weights[6] = f64::INFINITY;
    let (x, weight) = (numbers(&[3, 4], 0.1), Tensor::new(&weights, [4, 5]));
    let taken = Tensor::arange(5).not_equal(1);
    let loss = |(x, weight): &(Tensor, Tensor)| {
        let made = x.matmul(weight);
        taken.broadcast_to(made.shape()).choose(&made.square(), &made.zeros_like()).sum()
    };
    assert_defined(&grad(loss)(&(x, weight)).flatten());
}

#[test]
fn moves() {
    let x = numbers(&[4, 6], 0.3);
    let places = whole(&[3, 0, 3]);
    let gathered = x.take(&places, 0);
    let spread = gathered.scatter_add(&places, 0, 4);
    assert_defined(&[gathered, spread, x.pad(&[(1, 0), (0, 2)]), x.sort(1), x.cumsum(0)]);
    assert_defined(&[grad(|x: &Tensor| x.sort(1).take(&whole(&[1, 1]), 0).square().sum())(&x)]);
}

#[test]
fn loops_over_time_and_their_way_back() {
    let total = |(weight, start, sequence): &(Tensor, Tensor, Tensor)| {
        let step = |state: &Tensor, x: &Tensor| {
            let next = (weight.matmul(state) + x).tanh();
            (next.clone(), next.square().sum())
        };
        let (last, results) = scan(step, start, sequence);
        results.sum() + last.sum()
    };
    let problem = (numbers(&[3, 3], 0.1), numbers(&[3], 0.2), numbers(&[4, 3], 0.3));
    assert_defined(&[total(&problem)]);
    assert_defined(&grad(total)(&problem).flatten());
    // Swept back with some of its states kept.
    let wide = |x: &Tensor| scan(|s: &Tensor, x: &Tensor| ((s * x).sin(), ()), &x.sum_over(0), x).0.sum();
    let x = numbers(&[8, 900], 0.4);
    let whole = footprint(&compile(grad(wide)).program(&x).expect("a program"));
    let frugal = grad(wide).within(whole * 3 / 4);
    let program = compile(&frugal).program(&x).unwrap_or_else(|error| panic!("{error}"));
    assert!(program.steps.iter().any(|step| matches!(step, Step::ReverseScan(_))), "{program}");
    assert_defined(&[frugal(&x)]);
}

#[test]
fn what_is_computed_anew_and_curvature() {
    let layer = |x: &Tensor| x.sin().exp().tanh();
    let f = |x: &Tensor| checkpoint(layer)(&checkpoint(layer)(x)).square().sum();
    let x = numbers(&[7], 0.1);
    assert_defined(&[grad(f)(&x), hvp(f, &x, &numbers(&[7], 0.4))]);
}

#[test]
fn a_state_that_is_written_over() {
    let step = compile(|(state, data): &(Tensor, Tensor)| {
        let slope = grad(|state: &Tensor| (state * data).tanh().square().sum())(state);
        (state - slope * 0.1, data.sum())
    });
    let data = numbers(&[6], 0.5);
    let (mut updated, mut called) = (numbers(&[6], 0.6), numbers(&[6], 0.6));
    for _ in 0..3 {
        step.update(&mut updated, &data).unwrap();
        called = step.call(&(called, data.clone())).unwrap().0;
        assert_eq!(updated.to_f64_vec().unwrap(), called.to_f64_vec().unwrap());
    }
}

/// A loop that is just long enough to be cut for threads, with sums of each kind.
#[test]
#[cfg_attr(miri, ignore = "half a million operations take the interpreter too long")]
fn chunks() {
    let x = numbers(&[40, 450], 0.1);
    let mut y = x.clone();
    for k in 0..30 {
        y = (&y * 0.5 + &x) * (1.0 + f64::from(k) / 100.0);
    }
    assert_defined(&[y.clone(), y.sum(), y.sum_over(0)]);
}

#[test]
fn a_tape() {
    use glassgrad::Real;
    fn f<T: Real>(x: &[T]) -> T {
        x.iter().fold(T::literal(0.0), |sum, x| sum + *x * *x)
    }
    let x: Vec<f64> = (0..600).map(|k| f64::from(k) * 0.5).collect();
    let slope = glassgrad::scalar::gradient(|x| f(x), &x);
    assert!(slope.iter().zip(&x).all(|(slope, x)| *slope == 2.0 * x));
}
