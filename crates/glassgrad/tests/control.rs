//! Branches and loops on values, and whole derivatives of trees.

use glassgrad::diff::{divergence, hessian_blocks, laplacian};
use glassgrad::dtype::DType;
use glassgrad::rng::Key;
use glassgrad::{
    Tensor, cond, fori_loop, grad, hessian, jacfwd, jacobian, jacrev, jit, jvp, scan_length, vmap, while_loop,
    while_loop_up_to,
};

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(seed), shape).cast(DType::F64)
}

fn assert_close(actual: &Tensor, expected: &Tensor) {
    assert_eq!(actual.shape(), expected.shape());
    let worst = (actual - expected).abs().reshape(-1);
    let size = 1.0 + expected.abs().to_f64_vec().unwrap().into_iter().fold(0.0, f64::max);
    assert!(worst.to_f64_vec().unwrap().iter().all(|gap| *gap <= 256.0 * f64::EPSILON * size), "{actual}\n{expected}");
}

#[test]
fn branches_contribute_only_if_they_are_taken() {
    let f = |x: &Tensor| cond(&x.gt(0.0), |x: &Tensor| x.sqrt(), |x: &Tensor| x.square(), x);
    for (x, value, slope) in [(4.0, 2.0, 0.25), (-3.0, 9.0, -6.0), (0.0, 0.0, 0.0)] {
        let x = Tensor::from(x);
        assert_eq!((f(&x).item().unwrap(), grad(f)(&x).item().unwrap()), (value, slope));
        assert_eq!(jvp(f, &x, &x.ones_like()).1.item().unwrap(), slope);
        assert_eq!(jit(grad(f))(&x).item().unwrap(), slope);
    }
    assert_eq!(vmap(grad(f))(&Tensor::from([4.0, -3.0])).to_string(), "[0.25,   -6]");
    // Trees, and what does not fit.
    let (a, b) = cond(
        &Tensor::from(true),
        |x: &Tensor| (x + 1.0, x * 2.0),
        |x: &Tensor| (x.clone(), x.clone()),
        &Tensor::from(3.0),
    );
    assert_eq!((a.item().unwrap(), b.item().unwrap()), (4.0, 6.0));
    let x = Tensor::from([1.0, 2.0]);
    let same = |x: &Tensor| x.clone();
    let refused = [
        (cond(&x.gt(0.0), same, same, &x), "cond: the condition must be one truth value, not bool[2]"),
        (cond(&Tensor::from(1.0), same, same, &x), "cond: the condition must be one truth value, not f64[]"),
        (cond(&Tensor::from(true), same, |x: &Tensor| x.sum(), &x), "cond: both results must have the same shapes"),
    ];
    for (tensor, message) in refused {
        let error = tensor.eval().unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
        assert!(error.origin().unwrap().file().ends_with("control.rs"), "{error}");
    }
}

#[test]
fn loops_have_derivatives() {
    // xⁿ with n = 5, three ways.
    let power = |x: &Tensor| fori_loop(0..5, |_: &Tensor, product: &Tensor| product * x, &x.ones_like());
    let by_length = |x: &Tensor| scan_length(|product: &Tensor| (product * x, ()), &x.ones_like(), 5).0;
    let state = |x: &Tensor| (x.ones_like(), Tensor::from(0_i64));
    let few = |(_, n): &(Tensor, Tensor)| n.lt(5);
    let bounded = |x: &Tensor| while_loop_up_to(9, few, |(p, n): &(Tensor, Tensor)| (p * x, n + 1), &state(x)).0;
    let unbounded = |x: &Tensor| while_loop(few, |(p, n): &(Tensor, Tensor)| (p * x, n + 1), &state(x)).0;
    let x = Tensor::from(1.5);
    let all: [&dyn Fn(&Tensor) -> Tensor; 4] = [&power, &by_length, &bounded, &unbounded];
    for f in all {
        assert_close(&f(&x), &x.powi(5));
        assert_close(&grad(f)(&x), &(x.powi(4) * 5.0));
        assert_close(&hessian(f)(&x), &(x.powi(3) * 20.0));
        assert_close(&jvp(f, &x, &x.ones_like()).1, &(x.powi(4) * 5.0));
    }
    for f in &all[..3] {
        assert_close(&vmap(f)(&Tensor::from([1.0, 2.0])), &Tensor::from([1.0, 32.0]));
        assert_close(&jit(f)(&x), &x.powi(5));
    }
    // The numbers of a range, an empty one, and one that runs backwards.
    let sum = |range| fori_loop(range, |i: &Tensor, sum: &Tensor| sum + i, &Tensor::from(0_i64)).item().unwrap();
    assert_eq!((sum(3..6), sum(4..4)), (12.0, 0.0));
    #[expect(clippy::reversed_empty_ranges, reason = "what a computed range may be")]
    let backwards = sum(5..2);
    assert_eq!(backwards, 0.0);
    let inside =
        vmap(|x: &Tensor| while_loop(|x: &Tensor| x.gt(1.0), |x: &Tensor| x / 2.0, x))(&Tensor::from([1.0, 8.0]));
    let error = inside.eval().unwrap_err().to_string();
    assert!(
        error.starts_with("while_loop: its number of steps depends on values")
            && error.contains("while_loop_up_to(100"),
        "{error}"
    );
}

#[test]
fn jacobians_of_trees_agree_in_both_modes() {
    let x = (normal(1, &[3]), normal(2, &[2, 3]), Tensor::from([1_i64]));
    let f = |(v, m, _): &(Tensor, Tensor, Tensor)| m.matmul(&v.sin()) * v.sum();
    let (forward, reverse, default) = (jacfwd(f)(&x), jacrev(f)(&x), jacobian(f)(&x));
    assert_eq!((forward.0.shape().to_string(), forward.1.shape().to_string()), ("[2, 3]".into(), "[2, 2, 3]".into()));
    assert_close(&forward.0, &reverse.0);
    assert_close(&forward.1, &reverse.1);
    assert_close(&default.1, &reverse.1);
    assert_eq!(forward.2.to_f64_vec().unwrap(), [0.0, 0.0]);
    // A column by finite differences.
    let step = |h: f64| f(&(&x.0 + Tensor::from([0.0, h, 0.0]), x.1.clone(), x.2.clone()));
    let difference = (step(1e-6) - step(-1e-6)) / 2e-6;
    let column = forward.0.slice(&[(..).into(), 1.into()]);
    assert!((column - difference).abs().max().item().unwrap() < 1e-8);
}

#[test]
fn second_derivatives_of_trees_and_their_traces() {
    let f = |(a, b): &(Tensor, Tensor)| (a.sin() * b).sum() * b.square().sum();
    let x = (normal(1, &[2]), normal(2, &[2]));
    let blocks = hessian_blocks(f)(&x);
    let joined = |p: &Tensor| f(&(p.slice(&[(..2).into()]), p.slice(&[(2..).into()])));
    let whole = hessian(joined)(&Tensor::concatenate([&x.0, &x.1], 0));
    for (row, (path, (by_a, by_b))) in blocks.iter().enumerate() {
        assert_eq!(path.to_string(), row.to_string());
        let expected = whole.slice(&[(2 * row..2 * row + 2).into()]);
        assert_close(&Tensor::concatenate([by_a, by_b], 1), &expected);
    }
    let p = normal(3, &[4]);
    assert_close(&laplacian(joined)(&p), &hessian(joined)(&p).trace());
    assert_close(&divergence(grad(joined))(&p), &hessian(joined)(&p).trace());
    // It has derivatives itself, and the argument may have any shape.
    assert_close(&grad(laplacian(|x: &Tensor| x.powi(3).sum()))(&p), &p.full_like(6.0));
    assert_eq!(laplacian(|x: &Tensor| x.square().sum())(&normal(1, &[2, 3])).item().unwrap(), 12.0);
    let error = divergence(|x: &Tensor| x.sum())(&p).eval().unwrap_err().to_string();
    assert!(error.starts_with("divergence: the result must have the shape [4] of the argument, not []"), "{error}");
}
