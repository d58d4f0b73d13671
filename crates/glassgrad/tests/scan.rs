//! A scan is the loop that it stands for, in every derivative.

use glassgrad::rng::Key;
use glassgrad::{Tensor, grad, hessian, jacobian, jvp, scan, vmap};

/// A recurrent step with weights from outside: the next state and a result.
fn step(weight: &Tensor, state: &Tensor, x: &Tensor) -> (Tensor, Tensor) {
    let next = (weight.matmul(state) + x).tanh();
    (next.clone(), next.square().sum())
}

fn scanned(weight: &Tensor, start: &Tensor, sequence: &Tensor) -> Tensor {
    let (last, results) = scan(|state: &Tensor, x: &Tensor| step(weight, state, x), start, sequence);
    results.sum() + last.sum()
}

fn unrolled(weight: &Tensor, start: &Tensor, sequence: &Tensor) -> Tensor {
    let mut state = start.clone();
    let mut total = Tensor::full((), 0.0, start.dtype());
    for k in 0..sequence.shape()[0] {
        let (next, result) = step(weight, &state, &sequence.slice(&[(k as isize).into()]));
        state = next;
        total += result;
    }
    total + state.sum()
}

type Problem = (Tensor, Tensor, Tensor);

fn problem(length: usize) -> Problem {
    let random = |k: u64, shape: &[usize]| {
        Tensor::normal(Key::new(5).fold(k), shape.to_vec()).cast(glassgrad::dtype::DType::F64) * 0.7
    };
    (random(0, &[3, 3]), random(1, &[3]), random(2, &[length, 3]))
}

fn assert_same(a: &Tensor, b: &Tensor) {
    assert_eq!(a.shape(), b.shape());
    let (a, b) = (a.to_f64_vec().unwrap(), b.to_f64_vec().unwrap());
    let scale = b.iter().fold(1.0_f64, |largest, x| largest.max(x.abs()));
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e3 * f64::EPSILON * scale), "{a:?}\n{b:?}");
}

#[test]
fn values_and_gradients_are_those_of_the_unrolled_loop() {
    for length in [0, 1, 5] {
        let p = problem(length);
        assert_same(&scanned(&p.0, &p.1, &p.2), &unrolled(&p.0, &p.1, &p.2));
        let [a, b] = [scanned, unrolled].map(|f| grad(move |p: &Problem| f(&p.0, &p.1, &p.2))(&p));
        assert_same(&a.0, &b.0);
        assert_same(&a.1, &b.1);
        assert_same(&a.2, &b.2);
    }
}

#[test]
fn forward_mode_and_second_order_are_those_of_the_unrolled_loop() {
    let p = problem(4);
    let direction = (p.0.cos(), p.1.cos(), p.2.cos());
    let [a, b] = [scanned, unrolled].map(|f| jvp(move |p: &Problem| f(&p.0, &p.1, &p.2), &p, &direction).1);
    assert_same(&a, &b);
    let along = |f: fn(&Tensor, &Tensor, &Tensor) -> Tensor| {
        let p = p.clone();
        hessian(move |start: &Tensor| f(&p.0, start, &p.2))(&problem(4).1)
    };
    assert_same(&along(scanned), &along(unrolled));
    let [a, b] = [scanned, unrolled].map(|f| {
        let p = p.clone();
        jvp(grad(move |weight: &Tensor| f(weight, &p.1, &p.2)), &problem(4).0, &direction.0).1
    });
    assert_same(&a, &b);
}

#[test]
fn jacobians_of_stacked_results_and_batches_are_those_of_the_loop() {
    let p = problem(3);
    let stacked = |start: &Tensor| scan(|state: &Tensor, x: &Tensor| step(&p.0, state, x), start, &p.2).1;
    let rows = jacobian(stacked)(&p.1);
    for k in 0..3 {
        let row = grad(|start: &Tensor| stacked(start).slice(&[(k as isize).into()]))(&p.1);
        assert_same(&rows.slice(&[(k as isize).into()]), &row);
    }
    let starts = Tensor::stack([&p.1, &p.1.sin(), &p.1.exp()], 0);
    let batch = vmap(|start: &Tensor| scanned(&p.0, start, &p.2))(&starts);
    let slopes = vmap(grad(|start: &Tensor| scanned(&p.0, start, &p.2)))(&starts);
    for k in 0..3 {
        let start = starts.slice(&[(k as isize).into()]);
        assert_same(&batch.slice(&[(k as isize).into()]), &unrolled(&p.0, &start, &p.2));
        let slope = grad(|start: &Tensor| unrolled(&p.0, start, &p.2))(&start);
        assert_same(&slopes.slice(&[(k as isize).into()]), &slope);
    }
    // Different weights for each example: an outer tensor of the body has the batch axis.
    let weights = Tensor::stack([&p.0, &p.0.sin()], 0);
    let batch = vmap(grad(|weight: &Tensor| scanned(weight, &p.1, &p.2)))(&weights);
    for k in 0..2 {
        let slope = grad(|weight: &Tensor| unrolled(weight, &p.1, &p.2))(&weights.slice(&[(k as isize).into()]));
        assert_same(&batch.slice(&[(k as isize).into()]), &slope);
    }
}

#[test]
fn a_scan_inside_a_scan() {
    let p = problem(3);
    let nested = |x: &Tensor| {
        let outer = |state: &Tensor, row: &Tensor| {
            let (inner, _) = scan(|sum: &Tensor, x: &Tensor| ((sum * 0.5 + x).sin(), x.clone()), &state.sum(), row);
            (state * inner.cos(), inner)
        };
        let (last, results) = scan(outer, &p.1, x);
        last.sum() + results.sum()
    };
    let slope = grad(nested)(&p.2).to_f64_vec().unwrap();
    let values = p.2.to_f64_vec().unwrap();
    for k in 0..values.len() {
        let moved = |step: f64| {
            let mut values = values.clone();
            values[k] += step;
            nested(&Tensor::new(&values, [3, 3])).item().unwrap()
        };
        let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        assert!((slope[k] - difference).abs() < 1e-8, "{k}: {} {difference}", slope[k]);
    }
}

#[test]
fn wrong_loops_say_what_is_wrong() {
    let x = Tensor::from([1.0, 2.0]);
    let (last, _) = scan(|_: &Tensor, x: &Tensor| (Tensor::stack([x, x], 0), x.clone()), &Tensor::from(0.0), &x);
    assert!(last.item().unwrap_err().to_string().contains("the state must keep its shape and type"));
    let uneven = (x.clone(), Tensor::from([1.0, 2.0, 3.0]));
    let (last, _) = scan(|s: &Tensor, x: &(Tensor, Tensor)| (s + &x.0 + &x.1, s.clone()), &Tensor::from(0.0), &uneven);
    assert!(last.item().unwrap_err().to_string().contains("every sequence must have 2 entries"));
}

#[test]
fn a_loop_that_is_not_chosen_contributes_nothing() {
    let chosen = |x: &Tensor| {
        let start = x.sum_over(0).zeros_like();
        let (last, logs) = scan(|s: &Tensor, x: &Tensor| (s + x.ln(), x.ln()), &start, x);
        let is_positive = x.sum_over(0).gt(0.0);
        (is_positive.choose(&last, &start) + is_positive.choose(&logs.sum_over(0), &start)).sum()
    };
    let x = Tensor::from([[0.0, 2.0], [0.0, 4.0]]);
    assert_eq!(grad(chosen)(&x).to_f64_vec().unwrap(), [0.0, 1.0, 0.0, 0.5]);
}
