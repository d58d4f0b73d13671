//! The problems of statistics and learning whose Hessians have structure.

use glassgrad::Tensor;
use glassgrad::calculus::{self, Structure};

#[cfg(feature = "linalg")]
use crate::check::positive;
use crate::check::{agrees, agrees_as_jacobian, matrix, signs};
use crate::tensors::{assert_close, assert_tensors, normal, numbers};

fn logistic<'a>(x: &'a Tensor, y: &'a Tensor, ridge: f64) -> impl Fn(&Tensor) -> Tensor + 'a {
    move |w: &Tensor| {
        let margins = x.matmul(w) * y;
        (-margins).softplus().sum() + w.square().sum() * ridge
    }
}

#[test]
fn logistic_regression() {
    let (x, y) = (matrix(1, 40, 6), signs(2, 40));
    let h = agrees("logistic", logistic(&x, &y, 0.0), &normal(3, &[6]));
    assert_eq!(h.structure(), Structure::Dense { size: 6 });
    assert_eq!(h.bytes(), 8 * 36);
}

#[test]
fn logistic_regression_with_more_features_than_samples_is_diagonal_and_low_rank() {
    let (x, y) = (matrix(1, 5, 40), signs(2, 5));
    let h = agrees("ridge", logistic(&x, &y, 0.5), &normal(3, &[40]));
    assert_eq!(h.structure(), Structure::LowRank { base: Box::new(Structure::Diagonal), rank: 5 });
    assert!(h.bytes() <= 8 * (5 * 40 * 2 + 40), "{h}");
}

#[test]
fn matrix_factorisation_in_one_factor_is_one_small_matrix() {
    let (t, u, v) = (matrix(1, 12, 10), matrix(2, 12, 3).named("U"), matrix(3, 10, 3).named("V"));
    let in_u = agrees("U", |u: &Tensor| (&t - u.matmul(&v.transpose())).square().sum(), &u);
    assert_eq!(in_u.expression(), "2·V_mj V_ml δ_ik");
    assert_eq!(in_u.structure(), Structure::Blocks { count: 1, size: 3, copies: 12 });
    assert_eq!(in_u.bytes(), 8 * 9);
    let in_v = agrees("V", |v: &Tensor| (&t - u.matmul(&v.transpose())).square().sum(), &v);
    assert_eq!(in_v.structure(), Structure::Blocks { count: 1, size: 3, copies: 10 });
    assert_eq!(in_v.bytes(), 8 * 9);
}

#[test]
fn matrix_factorisation_in_both_factors() {
    let t = matrix(1, 8, 7);
    let f = |(u, v): &(Tensor, Tensor)| (&t - u.matmul(&v.transpose())).square().sum();
    let h = agrees("joint", f, &(matrix(2, 8, 3), matrix(3, 7, 3)));
    // Two matrices of 3×3, the residual and the factors.
    assert!(h.bytes() <= 8 * (9 + 9 + 56 + 24 + 21), "{h}");
    assert_eq!(h.factor().unwrap().describe(), "one leaf eliminated, the others as one matrix");
}

#[test]
fn masked_matrix_factorisation_has_a_block_for_each_row() {
    let (t, v) = (matrix(1, 9, 8), matrix(3, 8, 2));
    let mask = matrix(5, 9, 8).gt(-0.5).cast(t.dtype());
    let f = |u: &Tensor| (&mask * (&t - u.matmul(&v.transpose()))).square().sum();
    let h = agrees("masked", f, &matrix(2, 9, 2));
    assert_eq!(h.structure(), Structure::Blocks { count: 9, size: 2, copies: 1 });
    assert_eq!(h.bytes(), 8 * 9 * 4);
}

#[test]
fn quadratic_forms_and_affine_maps() {
    let a = matrix(1, 7, 7).named("A");
    let h = agrees("x'Ax", |x: &Tensor| x.inner(&a.matmul(x)), &normal(2, &[7]));
    assert_eq!((h.structure(), h.bytes()), (Structure::Dense { size: 7 }, 8 * 49));
    let a = matrix(1, 9, 6);
    let h = agrees("sum g(h(Ax))", |x: &Tensor| a.matmul(x).tanh().exp().sum(), &normal(2, &[6]));
    assert_eq!((h.structure(), h.bytes()), (Structure::Dense { size: 6 }, 8 * 36));
    let b = normal(3, &[9]);
    let h = agrees("log-sum-exp", |x: &Tensor| (a.matmul(x) + &b).logsumexp(), &normal(2, &[6]));
    assert_eq!(h.bytes(), 8 * 36);
    let h = agrees("log-sum-exp itself", |z: &Tensor| z.logsumexp() + z.square().sum() * 0.1, &normal(2, &[30]));
    assert_eq!(h.structure(), Structure::LowRank { base: Box::new(Structure::Diagonal), rank: 1 });
}

#[test]
fn the_jacobian_of_a_chain_multiplies_vectors_first() {
    let (a, b) = (matrix(1, 9, 6).named("A"), matrix(2, 5, 9).named("B"));
    let f = |x: &Tensor| b.matmul(&a.matmul(x).tanh().exp());
    let x = normal(3, &[6]);
    let derivative = calculus::jacobian(f);
    agrees_as_jacobian("B g(h(Ax))", f, &x);
    let explanation = derivative.explain(&x).unwrap();
    let flops: Vec<u128> = explanation.candidates.iter().map(|candidate| candidate.flops).collect();
    assert!(flops[..3].iter().all(|other| flops[3] <= *other), "{explanation}");
}

#[test]
fn jacobians_with_structure() {
    let (a, x) = (matrix(1, 4, 5).named("A"), matrix(2, 5, 3));
    let j = agrees_as_jacobian("AX", |x: &Tensor| a.matmul(x), &x);
    assert_eq!((j.expression(), j.bytes()), ("A_ik δ_jl".to_owned(), 8 * 20));
    let j = agrees_as_jacobian("pointwise", |x: &Tensor| x.sin(), &x);
    assert_eq!((j.structure(), j.bytes()), (Structure::Diagonal, 8 * 15));
    let j = agrees_as_jacobian("softmax of rows", |x: &Tensor| x.softmax(1), &x);
    assert_eq!(j.structure(), Structure::Blocks { count: 5, size: 3, copies: 1 });
    let j = agrees_as_jacobian("transpose", |x: &Tensor| x.transpose(), &x);
    assert_eq!((j.expression(), j.bytes()), ("δ_il δ_jk".to_owned(), 0));
    agrees_as_jacobian("mean", |x: &Tensor| x.mean_over(0), &x);
    agrees_as_jacobian("outer", |x: &Tensor| x.matmul(&x.transpose()), &x);
    agrees_as_jacobian("stack", |x: &Tensor| Tensor::concatenate([&x.square(), &x.exp()], 1), &x);
}

#[test]
fn second_differences_agree() {
    let (x, y) = (matrix(1, 12, 4), signs(2, 12));
    let f = logistic(&x, &y, 0.3);
    let w = normal(3, &[4]);
    let h = calculus::hessian(&f).at(&w).unwrap();
    let (v, step) = (normal(4, &[4]), 1e-4);
    let at = |part: f64| f(&(&w + &v * part)).item().unwrap();
    let difference = (at(step) - 2.0 * at(0.0) + at(-step)) / (step * step);
    let product = v.inner(&h.matvec(&v).unwrap()).item().unwrap();
    assert!((difference - product).abs() < 1e-6 * product.abs(), "{difference} is not {product}");
}

#[test]
fn quadratic_with_a_penalty_on_each_element_is_low_rank_and_diagonal() {
    let a = matrix(1, 4, 30);
    let f = |x: &Tensor| a.matmul(x).square().sum() + (x.square() + 0.1).sqrt().sum();
    let h = agrees("penalty", f, &normal(2, &[30]));
    assert_eq!(h.structure(), Structure::LowRank { base: Box::new(Structure::Diagonal), rank: 4 });
    assert_eq!(h.bytes(), 8 * (4 * 30 + 30));
}

#[test]
fn a_base_that_is_singular_does_not_make_the_whole_singular() {
    let (a, weights) = (matrix(1, 2, 9), Tensor::from([1.0, 0.0, 2.0, 3.0, 1.5, 1.0, 0.0, 4.0, 1.0]));
    let f = |x: &Tensor| a.matmul(x).square().sum() + (&weights * x.square()).sum();
    let h = agrees("singular base", f, &normal(2, &[9]));
    assert_eq!(h.structure(), Structure::LowRank { base: Box::new(Structure::Diagonal), rank: 2 });
}

#[cfg(feature = "linalg")]
#[test]
fn gaussian_likelihood_in_precision_is_a_kronecker_product() {
    let s = positive(1, 4);
    let f = |p: &Tensor| (p.matmul(&s)).trace() * 0.5 - p.logdet() * 0.5;
    let h = agrees("precision", f, &positive(2, 4));
    assert_eq!(h.structure(), Structure::Kronecker { sizes: vec![4, 4] });
    assert!(h.bytes() <= 8 * 32, "{h}");
}

#[cfg(feature = "linalg")]
#[test]
fn gaussian_likelihood_in_covariance() {
    let s = positive(1, 4);
    let f = |c: &Tensor| c.inv().matmul(&s).trace() * 0.5 + c.logdet() * 0.5;
    let h = agrees("covariance", f, &positive(2, 4));
    assert_eq!(h.structure(), Structure::Kroneckers { count: 3, size: 16 });
    assert_eq!(h.factor().unwrap().describe(), "by the eigenvalues of two Kronecker products");
    assert!(h.bytes() <= 8 * 16 * 4, "{h}");
}

#[cfg(feature = "linalg")]
#[test]
fn gaussian_process_marginal_likelihood() {
    let points = normal(1, &[12]);
    let y = points.sin().detach().unwrap();
    let distance = (points.unsqueeze(1) - points.unsqueeze(0)).square().detach().unwrap();
    let f = |(length, scale, noise): &(Tensor, Tensor, Tensor)| {
        let k = (&distance / (length * -2.0).exp()).scaled_exp(scale) + Tensor::eye(12).cast(y.dtype()) * noise.exp();
        y.inner(&k.solve(&y)) * 0.5 + k.logdet() * 0.5
    };
    agrees("process", f, &(Tensor::from(0.1), Tensor::from(0.2), Tensor::from(-1.0)));
}

#[cfg(feature = "linalg")]
trait ScaledExp {
    fn scaled_exp(&self, scale: &Tensor) -> Tensor;
}

#[cfg(feature = "linalg")]
impl ScaledExp for Tensor {
    fn scaled_exp(&self, scale: &Tensor) -> Tensor {
        (self * -0.5).exp() * scale.exp()
    }
}

#[test]
fn two_kronecker_products_are_solved_by_their_eigenvalues() {
    let [a, b, c, d] = [matrix(1, 8, 6), matrix(2, 7, 9), matrix(3, 8, 6), matrix(4, 7, 9)];
    let f = |x: &Tensor| a.matmul(x).matmul(&b).square().sum() + c.matmul(x).matmul(&d).square().sum() * 0.5;
    let h = agrees("two products", f, &matrix(5, 6, 7));
    assert_eq!(h.structure(), Structure::Kroneckers { count: 2, size: 42 });
    assert_eq!(h.bytes(), 8 * 2 * (36 + 49));
    assert_eq!(h.factor().unwrap().describe(), "by the eigenvalues of two Kronecker products");
}

#[test]
fn leaves_that_stand_still_and_leaves_that_do_not_meet() {
    let f = |(a, b): &(Tensor, Tensor)| a.exp().sum() + b.powi(4).sum();
    let x = (normal(1, &[3]), normal(2, &[2, 2]));
    let h = agrees("apart", f, &x);
    assert_eq!(h.factor().unwrap().describe(), "leaf by leaf");
    let still = calculus::hessian(f).with_respect_to(|path| path.starts_with("0"));
    let diagonal = still.at(&x).unwrap().diag().unwrap();
    assert_close("moves", &numbers(&diagonal.0), &numbers(&x.0.exp()));
    assert_close("stands still", &numbers(&diagonal.1), &[0.0; 4]);
}

#[test]
fn value_and_gradient_come_with_the_hessian() {
    let (x, y) = (matrix(1, 40, 6), signs(2, 40));
    let f = logistic(&x, &y, 0.1);
    let w = normal(3, &[6]);
    let (value, gradient, _) = calculus::hessian(&f).with_gradient_at(&w).unwrap();
    assert_close("value", &[value.item().unwrap()], &[f(&w).item().unwrap()]);
    assert_tensors("gradient", &gradient, &glassgrad::grad(&f)(&w));
}

#[test]
fn the_derivation_is_reported_step_by_step_on_request() {
    let (t, v) = (matrix(1, 4, 4).named("T"), matrix(2, 4, 2).named("V"));
    let f = |u: &Tensor| (&t - u.matmul(&v.transpose())).square().sum();
    let steps = calculus::hessian(f).derivation(&matrix(3, 4, 2)).unwrap();
    let last = steps.iter().rfind(|step| step.rule == "contract a Kronecker delta").unwrap();
    assert!(last.after.ends_with("2·V_mj V_ml δ_ik"), "{last}");
    assert!(steps.iter().all(|step| step.before != step.after));
    assert!(steps.iter().any(|step| step.flops_after < step.flops_before), "{}", steps[0]);
}
