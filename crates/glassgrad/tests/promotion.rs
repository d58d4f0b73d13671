//! Type promotion: which type results have, what they are, and that cotangents keep the type of their primal.

use glassgrad::dtype::DType;
use glassgrad::expr::s;
use glassgrad::nn::{Layer, Linear};
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, grad, hvp, jvp, loss, value_and_grad, vmap};

const TYPES: [DType; 8] =
    [DType::Bool, DType::U8, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];

/// Ones and zeros in a type.
fn typed(dtype: DType) -> Tensor {
    Tensor::from([1.0, 0.0, 1.0]).cast(dtype)
}

/// The result types of PyTorch and JAX (with 64 bits enabled) for `+` of arrays of these types; bool with bool has none.
fn sum_type(a: DType, b: DType) -> Option<DType> {
    match (a, b) {
        (DType::Bool, DType::Bool) => None,
        (DType::F64, _) | (_, DType::F64) => Some(DType::F64),
        (DType::F32, _) | (_, DType::F32) => Some(DType::F32),
        (DType::F16, DType::BF16) | (DType::BF16, DType::F16) => Some(DType::F32),
        (DType::F16, _) | (_, DType::F16) => Some(DType::F16),
        (DType::BF16, _) | (_, DType::BF16) => Some(DType::BF16),
        (DType::I64, _) | (_, DType::I64) => Some(DType::I64),
        (DType::I32, _) | (_, DType::I32) => Some(DType::I32),
        (DType::U8, _) | (_, DType::U8) => Some(DType::U8),
    }
}

#[test]
fn every_pair_of_types_has_the_result_type_of_pytorch_and_jax() {
    for a in TYPES {
        for b in TYPES {
            let (x, y) = (typed(a), typed(b));
            let results = [&x + &y, &x - &y, &x * &y, x.outer(&y), x.inner(&y)];
            for (result, expected) in results.iter().zip([[2.0, 0.0, 2.0], [0.0; 3], [1.0, 0.0, 1.0]]) {
                match sum_type(a, b) {
                    Some(dtype) => {
                        assert_eq!(result.dtype(), dtype, "{a} with {b}");
                        assert_eq!(result.to_f64_vec().unwrap(), expected, "{a} with {b}");
                    }
                    None => assert!(result.eval().is_err(), "{a} with {b}"),
                }
            }
            // Division is of floating-point numbers, whatever is divided.
            let quotient = &x / (&y + 1);
            assert_eq!(quotient.dtype(), sum_type(a, b).unwrap_or(DType::Bool).to_float(), "{a} by {b}");
            assert_eq!(quotient.to_f64_vec().unwrap(), [0.5, 0.0, 0.5]);
            // Joining and choosing keep truth values.
            let common = sum_type(a, b).unwrap_or(DType::Bool);
            let joined = Tensor::concatenate([&x, &y], 0);
            assert_eq!((joined.dtype(), joined.to_f64_vec().unwrap()), (common, vec![1.0, 0.0, 1.0, 1.0, 0.0, 1.0]));
            let mask = Tensor::from([true, false, false]);
            assert_eq!(
                (mask.choose(&x, &y).dtype(), mask.choose(&x, &y).to_f64_vec().unwrap()),
                (common, vec![1.0, 0.0, 1.0])
            );
            assert_eq!(x.equal(&y).to_vec::<bool>().unwrap(), [true; 3]);
        }
    }
}

#[test]
fn numbers_of_rust_are_weak() {
    let (single, whole, truth) = (typed(DType::F32), typed(DType::I64), typed(DType::Bool));
    assert_eq!((&single * 2.0_f64).dtype(), DType::F32);
    assert_eq!((2.0 * &single).dtype(), DType::F32);
    assert_eq!((&single / 3_usize).dtype(), DType::F32);
    assert_eq!((&whole * 2).to_vec::<i64>().unwrap(), [2, 0, 2]);
    assert_eq!((&whole * 0.5).to_vec::<f32>().unwrap(), [0.5, 0.0, 0.5]);
    assert_eq!((&truth * 2).to_vec::<i64>().unwrap(), [2, 0, 2]);
    assert_eq!((&truth * 0.5).dtype(), DType::F32);
    assert_eq!((&single * true).dtype(), DType::F32);
    // A number that is put into a tensor takes its type, or is an error.
    let first = [&Tensor::from([0_i64])];
    assert_eq!(whole.with_at(&first, 7.0).to_vec::<i64>().unwrap(), [7, 0, 1]);
    assert!(whole.with_at(&first, 0.5).eval().is_err());
    assert_eq!(whole.masked_fill(&truth, 3.0).to_vec::<i64>().unwrap(), [3, 0, 3]);
}

#[test]
fn integers_stay_integers_where_they_can() {
    let x = Tensor::from([-3_i64, 0, 2]);
    assert_eq!(x.abs().to_vec::<i64>().unwrap(), [3, 0, 2]);
    assert_eq!(x.sign().to_vec::<i64>().unwrap(), [-1, 0, 1]);
    assert_eq!(x.square().to_vec::<i64>().unwrap(), [9, 0, 4]);
    assert_eq!(x.relu().to_vec::<i64>().unwrap(), [0, 0, 2]);
    assert_eq!(x.round().to_vec::<i64>().unwrap(), [-3, 0, 2]);
    assert_eq!(x.maximum(1).to_vec::<i64>().unwrap(), [1, 1, 2]);
    assert_eq!(x.minimum(Tensor::from([true])).to_vec::<i64>().unwrap(), [-3, 0, 1]);
    assert_eq!(x.clip(-1, 1).to_vec::<i64>().unwrap(), [-1, 0, 1]);
    // All other functions are of floating-point numbers, and sums of truth values are counts.
    assert_eq!(x.exp().dtype(), DType::F32);
    assert_eq!((x.mean().dtype(), x.mean().item().unwrap()), (DType::F32, f64::from(-1.0_f32 / 3.0)));
    let truth = x.gt(-1);
    assert_eq!(truth.sum().to_vec::<i64>().unwrap(), [2]);
    assert!((truth.mean().item().unwrap() - 2.0 / 3.0).abs() < 1e-7);
}

#[test]
fn comparisons_of_integers_with_floating_point_numbers_lose_nothing() {
    let large = Tensor::from([(1_i64 << 24) + 1]);
    assert_eq!(large.equal((1 << 24) as f64).to_vec::<bool>().unwrap(), [false]);
    assert_eq!(large.gt(Tensor::from([16_777_216.0_f32])).to_vec::<bool>().unwrap(), [true]);
}

#[test]
fn cotangents_keep_the_type_of_their_primal() {
    let key = Key::new(3);
    let w = Tensor::normal(key.fold(1), [3, 2]);
    let x = Tensor::normal(key.fold(2), [5, 3]).cast(DType::F64);
    let loss = |w: &Tensor| x.matmul(w).tanh().square().sum();
    let (value, gradient) = value_and_grad(loss)(&w);
    assert_eq!((value.dtype(), gradient.dtype()), (DType::F64, DType::F32));
    // The same in 64 bits throughout, rounded at the end.
    let exact = grad(loss)(&w.cast(DType::F64)).to_f64_vec().unwrap();
    for (found, exact) in gradient.to_f64_vec().unwrap().iter().zip(exact) {
        assert_eq!(*found, f64::from(exact as f32));
    }
    // Forwards the tangent of a result has its type; second derivatives keep that of the argument.
    let (y, dy) = jvp(loss, &w, &w);
    assert_eq!((y.dtype(), dy.dtype()), (DType::F64, DType::F64));
    assert_eq!(hvp(loss, &w, &w).dtype(), DType::F32);
    let per_example = vmap(grad(|row: &Tensor| (row * &w.slice(&[s(..), s(0)])).sum()))(&x);
    assert_eq!((per_example.dtype(), per_example.shape()), (DType::F64, x.shape()));
    // Through choice, joining, einsum and division.
    let mixed = |w: &Tensor| {
        let wide = Tensor::full([3, 2], 2.0, DType::F64);
        let chosen = w.gt(0.0).choose(w, &wide);
        let joined = Tensor::concatenate([&chosen, &wide], 0) / w.sum();
        Tensor::einsum("ij,ij->", [&joined.slice(&[s(..3)]), w])
    };
    assert_eq!(grad(mixed)(&w).dtype(), DType::F32);
    let step = |direction: &Tensor, h: f64| mixed(&(w.cast(DType::F64) + direction * h)).item().unwrap();
    let direction = Tensor::normal(key.fold(4), [3, 2]).cast(DType::F64);
    let difference = (step(&direction, 1e-6) - step(&direction, -1e-6)) / 2e-6;
    let slope = (grad(mixed)(&w) * &direction).sum().item().unwrap();
    assert!((slope - difference).abs() < 1e-5 * (1.0 + difference.abs()), "{slope} {difference}");
}

#[test]
fn layers_run_in_either_type() {
    let layer = Linear::new(Key::new(1), 3, 2);
    let data = Tensor::from([[1.0, 2.0, 3.0]]);
    assert_eq!(layer.apply(&data).dtype(), DType::F64);
    let fit = |layer: &Linear| loss::mse(&layer.apply(&data), &Tensor::from([[0.0, 1.0]])).mean();
    assert_eq!(grad(fit)(&layer).weight.dtype(), DType::F32);
    assert_eq!(grad(fit)(&layer.cast(DType::F64)).weight.dtype(), DType::F64);
    let error = layer.cast(DType::I64).weight.eval().unwrap_err().to_string();
    assert!(error.starts_with("cast: the leaves of a tree are floating-point numbers, not i64"), "{error}");
}
