//! Operations that move elements, choices, loops, and input that is wrong.

use glassgrad::calculus;
use glassgrad::{Tensor, scan};

use crate::check::{agrees, matrix};
use crate::tensors::{normal, numbers};

#[test]
fn slices_joins_gathers_and_reshapes() {
    let x = matrix(1, 4, 3);
    agrees("slice", |x: &Tensor| x.slice(&[(1..3).into()]).powi(3).sum(), &x);
    agrees("flip", |x: &Tensor| (x.flip([0]) * x.square()).sum(), &x);
    agrees("reshape", |x: &Tensor| (x.reshape([2, 6]).exp().sum_over(1)).powi(2).sum(), &x);
    agrees("concatenate", |x: &Tensor| Tensor::concatenate([x, &x.square()], 0).powi(3).sum(), &x);
    let rows = Tensor::from([2_i64, 0, 2]);
    agrees("gather", |x: &Tensor| x.take(&rows, 0).powi(3).sum(), &x);
    agrees("largest", |x: &Tensor| (x.max_over(1) * x.sum_over(1)).powi(2).sum(), &x);
    agrees("difference", |x: &Tensor| (x.slice(&[(1..).into()]) - x.slice(&[(..-1).into()])).powi(4).sum(), &x);
    agrees("diagonal", |x: &Tensor| Tensor::einsum("ii->i", [x]).powi(3).sum(), &matrix(2, 3, 3));
    agrees("running sum", |x: &Tensor| x.cumsum(0).powi(3).sum(), &x);
}

#[test]
fn choices_keep_their_strong_zeros() {
    let x = Tensor::from([0.0, 2.0, -1.0, 3.0]);
    let f = |x: &Tensor| x.gt(0.0).choose(&(x.ln() * x), &x.zeros_like()).sum();
    let h = calculus::hessian(f).at(&x).unwrap();
    assert_eq!(numbers(&h.diag().unwrap()), [0.0, 0.5, 0.0, 1.0 / 3.0]);
    agrees("choice", |x: &Tensor| x.gt(0.0).choose(&x.powi(3), &x.powi(4)).sum(), &Tensor::from([1.0, -2.0]));
}

#[test]
fn loops_are_materialised() {
    let step = |state: &Tensor, x: &Tensor| {
        let next = (state * x).tanh() + x;
        (next.clone(), next)
    };
    let f = |x: &Tensor| scan(step, &Tensor::from(0.5), x).0.square().sum();
    agrees("loop", f, &normal(3, &[5]));
    let too_large = calculus::hessian(f).limit(10).at(&normal(3, &[5])).err().unwrap();
    assert!(too_large.to_string().contains("cannot stay compressed"), "{too_large}");
}

#[test]
fn single_precision_and_empty_arrays() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let h = calculus::hessian(|x: &Tensor| x.powi(3).sum()).at(&x).unwrap();
    assert_eq!(h.to_dense().unwrap().to_vec::<f32>().unwrap(), [6.0, 0.0, 0.0, 12.0]);
    assert_eq!(h.solve(&x).unwrap().to_vec::<f32>().unwrap(), [1.0_f32 / 6.0, 2.0 / 12.0]);
    let empty = Tensor::zeros([0, 3]);
    let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&empty).unwrap();
    assert_eq!(h.matvec(&empty).unwrap().shape().to_vec(), [0, 3]);
    assert_eq!(h.trace().unwrap(), 0.0);
}

#[test]
fn what_is_not_finite_and_what_is_singular_is_said() {
    let h = calculus::hessian(|x: &Tensor| x.ln().sum()).at(&Tensor::from([f64::NAN, 1.0])).unwrap();
    assert!(h.solve(&Tensor::from([1.0, 1.0])).unwrap_err().to_string().contains("not finite"));
    let flat = calculus::hessian(|x: &Tensor| x.sum()).at(&Tensor::from([1.0, 1.0])).unwrap();
    assert_eq!(flat.matvec(&Tensor::from([1.0, 1.0])).unwrap().to_string(), "[0, 0]");
    let error = flat.solve(&Tensor::from([1.0, 1.0])).unwrap_err().to_string();
    assert!(error.contains("singular") && error.contains("zero"), "{error}");
    let a = matrix(1, 2, 5);
    let deficient = calculus::hessian(|x: &Tensor| a.matmul(x).square().sum()).at(&normal(2, &[5])).unwrap();
    let error = deficient.solve(&normal(3, &[5])).unwrap_err().to_string();
    assert!(error.contains("singular"), "{error}");
    let softmax = calculus::hessian(|x: &Tensor| x.logsumexp()).at(&normal(2, &[5])).unwrap();
    assert!(softmax.solve(&normal(3, &[5])).unwrap_err().to_string().contains("singular"));
}

#[test]
fn wrong_input_is_refused_before_anything_is_computed() {
    let x = Tensor::zeros([30_000]).cast(glassgrad::dtype::DType::F64);
    let square = calculus::hessian(|x: &Tensor| x.sum().square()).limit(1 << 20);
    let error = square.at(&x).unwrap().to_dense().unwrap_err().to_string();
    assert!(error.contains("7.2 GB") && error.contains("1.0 MB"), "{error}");
    let not_a_number = calculus::hessian(|x: &Tensor| x.square()).at(&Tensor::from([1.0, 2.0])).err().unwrap();
    assert!(not_a_number.to_string().contains("one floating-point number"), "{not_a_number}");
    let h = calculus::hessian(|x: &Tensor| x.square().sum()).at(&Tensor::from([1.0, 2.0])).unwrap();
    let error = h.matvec(&Tensor::from([1.0])).unwrap_err().to_string();
    assert!(error.contains("must be f64[2], not f64[1]"), "{error}");
    let failing = calculus::hessian(|x: &Tensor| x.matmul(x).sum()).at(&Tensor::zeros([2, 3])).err().unwrap();
    assert!(failing.to_string().starts_with("matmul"), "{failing}");
}

#[test]
fn planning_stays_within_its_budget() {
    for count in [6, 12, 24] {
        let forms: Vec<Tensor> = (0..count).map(|k| normal(k, &[5])).collect();
        let f = |x: &Tensor| forms.iter().fold(Tensor::from(1.0), |product, a| product * (a * x).sum());
        let found = calculus::hessian(f).explain(&normal(99, &[5])).unwrap();
        assert!(found.joins_budget < 1_000_000, "{}", found.joins_budget);
        assert!(found.joins_weighed <= 2 * found.joins_budget, "{} of {}", found.joins_weighed, found.joins_budget);
        agrees("product of linear forms", f, &normal(99, &[5]));
    }
    let (rows, places) = (normal(3, &[4, 2]), Tensor::from([1_i64, 3, 1, 0]));
    let f = |x: &Tensor| {
        let y = x.take(&places, 0).unsqueeze(1) * &rows;
        (y.transpose().matmul(&y) + Tensor::from([[1.0, 0.0], [0.0, 1.0]])).square().sum().ln()
    };
    let found = calculus::hessian(f).explain(&normal(5, &[4])).unwrap();
    assert!(found.joins_weighed <= 2 * found.joins_budget, "{} of {}", found.joins_weighed, found.joins_budget);
}

#[test]
fn the_rank_of_terms_that_share_a_side_is_counted_once() {
    let (a, b) = (normal(1, &[9]), normal(2, &[9]));
    let one = |x: &Tensor| {
        let sum = (&a * x).sum();
        x.exp().sum() + sum.square() + sum.powi(3) + sum.sin()
    };
    let h = agrees("one direction", one, &normal(3, &[9]));
    assert_eq!(h.structure().to_string(), "diagonal + rank 1");
    let two = |x: &Tensor| x.exp().sum() + (&a * x).sum().square() * (&b * x).sum().square();
    let h = agrees("two directions", two, &normal(3, &[9]));
    assert_eq!(h.structure().to_string(), "diagonal + rank 2");
}

#[test]
fn no_more_is_held_than_the_dense_array_takes() {
    let w = normal(1, &[3, 2]);
    for f in [
        (|x: &Tensor| (x.sum().square() * x.square().sum()).sin()) as fn(&Tensor) -> Tensor,
        |x| x.logsumexp().square() + x.prod(),
        |x| (x.exp().sum() * x.sin().sum()) * x.square().sum(),
    ] {
        for size in 1..5 {
            let h = agrees("small", f, &normal(size as u64, &[size]));
            assert!(h.bytes() as u128 <= h.dense_bytes(), "{h}");
        }
    }
    let h = agrees("layer", |x: &Tensor| w.matmul(x).tanh().square().sum(), &normal(2, &[2]));
    assert!(h.bytes() as u128 <= h.dense_bytes(), "{h}");
}
