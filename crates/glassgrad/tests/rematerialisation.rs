//! Checkpoints and budgets of memory: the same values and derivatives from less memory and more work, as planned.

#[path = "judges/heap.rs"]
mod heap;

use glassgrad::exec::footprint;
use glassgrad::expr::Keys;
use glassgrad::opt::graph::Graph;
use glassgrad::opt::passes::{PASSES, optimise, verify};
use glassgrad::opt::program::{Program, ReverseScan, Step};
use glassgrad::opt::revolve::fewest_advances;
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, Within, checkpoint, compile, grad, hessian, hvp, jacobian, jvp, scan, value_and_grad, vmap};

#[global_allocator]
static HEAP: heap::CountingAllocator = heap::CountingAllocator;

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(seed), shape.to_vec()).cast(glassgrad::dtype::DType::F64).detach().expect("random numbers")
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64_vec().unwrap_or_else(|error| panic!("{error}"))
}

/// The same bits.
fn assert_same(a: &Tensor, b: &Tensor) {
    assert_eq!(a.shape(), b.shape());
    let bits = |tensor: &Tensor| numbers(tensor).into_iter().map(f64::to_bits).collect::<Vec<_>>();
    assert!(bits(a) == bits(b), "{a}\n{b}");
}

fn assert_close(a: &Tensor, b: &Tensor) {
    assert_eq!(a.shape(), b.shape());
    let (a, b) = (numbers(a), numbers(b));
    let scale = b.iter().fold(1.0_f64, |largest, x| largest.max(x.abs()));
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e3 * f64::EPSILON * scale), "{a:?}\n{b:?}");
}

/// A layer whose inside is four times as large as its outside.
fn layer((x, weight): &(Tensor, Tensor)) -> Tensor {
    let wide = x.matmul(weight).tanh();
    wide.sin().exp().matmul(&weight.transpose()).tanh()
}

fn deep(layers: usize, layer: impl Fn(&(Tensor, Tensor)) -> Tensor) -> impl Fn(&(Tensor, Tensor)) -> Tensor {
    move |(x, weight)| {
        let mut x = x.clone();
        for _ in 0..layers {
            x = layer(&(x, weight.clone()));
        }
        x.square().sum()
    }
}

fn deep_problem() -> (Tensor, Tensor) {
    (normal(1, &[16, 8]), normal(2, &[8, 32]) * 0.3)
}

#[test]
fn a_checkpoint_has_the_value_and_the_derivatives_of_its_function() {
    let problem = deep_problem();
    let (plain, anew) = (deep(3, layer), deep(3, checkpoint(layer)));
    assert_same(&anew(&problem), &plain(&problem));
    let (a, b) = (grad(&anew)(&problem), grad(&plain)(&problem));
    assert_same(&a.0, &b.0);
    // What is owed to a weight is summed layer by layer here, and use by use there.
    assert_close(&a.1, &b.1);
    let direction = (problem.0.cos(), problem.1.cos());
    assert_close(&jvp(&anew, &problem, &direction).1, &jvp(&plain, &problem, &direction).1);
    let (a, b) = (hvp(&anew, &problem, &direction), hvp(&plain, &problem, &direction));
    assert_close(&a.0, &b.0);
    assert_close(&a.1, &b.1);
}

#[test]
fn a_checkpoint_takes_less_memory_and_more_work() {
    let problem = deep_problem();
    let program = |loss: &dyn Fn(&(Tensor, Tensor)) -> Tensor| {
        compile(grad(|p: &(Tensor, Tensor)| loss(p))).program(&problem).expect("a program")
    };
    let plain = program(&deep(16, layer));
    let anew = program(&deep(16, checkpoint(layer)));
    // Every layer runs forwards once more: if common subexpressions undid it, the work would be the same.
    let forwards = compile(deep(1, layer)).program(&problem).expect("a program").flops();
    let more = (anew.flops() - plain.flops()) / forwards;
    assert!(more > 15.0 && more < 16.5, "{more} layers");
    assert!(anew.arena * 3 < plain.arena, "{} {}", anew.arena, plain.arena);
}

#[test]
fn the_inside_runs_anew_when_the_cotangent_arrives_and_not_before() {
    // Every layer has a space of its own, so the loop that ran last over it is the one on the way forwards. Without
    // an order, what is computed anew would join that loop, and live as long as what it replaces.
    let weight = |k: usize| (normal(k as u64, &[40 + k, 41 + k]) * 0.1).detach().expect("a weight");
    let weights: Vec<Tensor> = (0..10).map(weight).collect();
    let inside = |(x, weight): &(Tensor, Tensor)| x.sin().exp().cos().exp().matmul(weight);
    let anew = checkpoint(inside);
    let loss = |layer: &dyn Fn(&(Tensor, Tensor)) -> Tensor, x: &Tensor| {
        weights.iter().fold(x.clone(), |x, weight| layer(&(x, weight.clone()))).sum()
    };
    let x = normal(3, &[32, 40]);
    let [a, b] = [&inside as &dyn Fn(&(Tensor, Tensor)) -> Tensor, &anew].map(|layer| {
        let step = compile(grad(|x: &Tensor| loss(layer, x)));
        (step.call(&x).expect("a gradient"), step.program(&x).expect("a program").arena)
    });
    assert_close(&a.0, &b.0);
    assert!(3 * b.1 < 2 * a.1, "{} {}", a.1, b.1);
}

#[test]
fn checkpoints_nest() {
    let inner = checkpoint(|x: &Tensor| x.sin().exp());
    let outer = checkpoint(|x: &Tensor| inner(&inner(x)).tanh());
    let plain = |x: &Tensor| x.sin().exp().sin().exp().tanh();
    let x = normal(4, &[5]);
    assert_same(&outer(&x), &plain(&x));
    assert_same(&grad(|x: &Tensor| outer(x).sum())(&x), &grad(|x: &Tensor| plain(x).sum())(&x));
    assert_close(&jacobian(&outer)(&x), &jacobian(plain)(&x));
    assert_close(&hessian(|x: &Tensor| outer(x).sum())(&x), &hessian(|x: &Tensor| plain(x).sum())(&x));
    // Third order.
    let third = |f: &dyn Fn(&Tensor) -> Tensor| {
        let slope = |x: &Tensor| grad(|x: &Tensor| f(x).sum())(x).sum();
        grad(|x: &Tensor| grad(slope)(x).sum())(&x)
    };
    assert_close(&third(&outer), &third(&plain));
}

#[test]
fn checkpoints_inside_of_loops_and_loops_inside_of_checkpoints() {
    let (weight, start, sequence) = (normal(5, &[3, 3]), normal(6, &[3]), normal(7, &[4, 3]));
    type Problem = (Tensor, Tensor, Tensor);
    let step = |weight: &Tensor, state: &Tensor, x: &Tensor| (weight.matmul(state) + x).tanh();
    let plain = |(weight, start, sequence): &Problem| {
        let (last, all) = scan(
            |state: &Tensor, x: &Tensor| {
                let next = step(weight, state, x);
                (next.clone(), next.sum())
            },
            start,
            sequence,
        );
        last.square().sum() + all.square().sum()
    };
    let within = |(weight, start, sequence): &Problem| {
        let (last, all) = scan(
            |state: &Tensor, x: &Tensor| {
                let next =
                    checkpoint(|(state, x): &(Tensor, Tensor)| step(weight, state, x))(&(state.clone(), x.clone()));
                (next.clone(), next.sum())
            },
            start,
            sequence,
        );
        last.square().sum() + all.square().sum()
    };
    let around = checkpoint(plain);
    let problem = (weight, start, sequence);
    let direction = (problem.0.cos(), problem.1.cos(), problem.2.cos());
    for other in [&within as &dyn Fn(&Problem) -> Tensor, &around] {
        assert_same(&other(&problem), &plain(&problem));
        let (a, b) = (grad(other)(&problem), grad(plain)(&problem));
        assert_close(&a.0, &b.0);
        assert_close(&a.1, &b.1);
        assert_close(&a.2, &b.2);
        let (a, b) = (hvp(other, &problem, &direction), hvp(plain, &problem, &direction));
        assert_close(&a.0, &b.0);
        assert_close(&a.2, &b.2);
    }
}

#[test]
fn examples_of_a_batch_and_random_keys_go_through_checkpoints() {
    let noisy = |(x, keys): &(Tensor, Keys)| {
        let noise = Tensor::normal(keys, [3]).cast(x.dtype());
        (x * &noise).sin().exp()
    };
    let anew = checkpoint(noisy);
    let keys = Keys::from(Key::new(9)).split(4);
    let (x, key) = (normal(8, &[4, 3]), Keys::from(Key::new(9)));
    let one = (x.slice(&[0.into()]), key);
    let slope = |f: &dyn Fn(&(Tensor, Keys)) -> Tensor, at: &(Tensor, Keys)| {
        let keys = at.1.clone();
        grad(move |x: &Tensor| f(&(x.clone(), keys.clone())).sum())(&at.0)
    };
    // The numbers that are drawn anew are the numbers that were drawn.
    assert_same(&slope(&anew, &one), &slope(&noisy, &one));
    let batch = (x.clone(), keys.clone());
    assert_same(&vmap(&anew)(&batch), &vmap(noisy)(&batch));
    let [a, b] =
        [&anew as &dyn Fn(&(Tensor, Keys)) -> Tensor, &noisy].map(|f| vmap(|at: &(Tensor, Keys)| slope(f, at))(&batch));
    assert_same(&a, &b);
    // A weight that all examples share and the region captures, and one that only some of its arguments have.
    let weight = normal(10, &[3]);
    let scaled = |weight: &Tensor| {
        let row =
            |x: &Tensor| checkpoint(|(x, w): &(Tensor, Tensor)| (x * w * weight).sin())(&(x.clone(), weight.clone()));
        vmap(row)(&x).sum()
    };
    let plain = |weight: &Tensor| vmap(|x: &Tensor| (x * weight * weight).sin())(&x).sum();
    assert_close(&grad(scaled)(&weight), &grad(plain)(&weight));
}

#[test]
fn what_is_not_finite_passes_through_and_zeros_that_win_win() {
    let anew = checkpoint(|x: &Tensor| x.ln());
    let x = Tensor::from([f64::NAN, 0.0, 1.0]);
    let slope = numbers(&grad(|x: &Tensor| anew(x).sum())(&x));
    assert!(slope[0].is_nan() && slope[1] == f64::INFINITY && slope[2] == 1.0, "{slope:?}");
    // A branch that is not taken contributes nothing, also where its derivative is infinite.
    let chosen = |x: &Tensor| x.gt(0.0).choose(&anew(x), &x.zeros_like()).sum();
    let x = Tensor::from([0.0, 2.0]);
    assert_eq!(numbers(&grad(chosen)(&x)), [0.0, 0.5]);
    assert_eq!(numbers(&grad(|x: &Tensor| grad(chosen)(x).sum())(&x)), [0.0, -0.25]);
}

#[test]
fn empty_axes_and_results_that_do_not_depend() {
    let anew = checkpoint(|(x, y): &(Tensor, Tensor)| (x.sin(), y.clone(), Tensor::ones([2])));
    let problem = (Tensor::zeros([0, 3]), Tensor::from([1.0_f32, 2.0]));
    let (a, b, c) = anew(&problem);
    assert_eq!((a.to_f64_vec().unwrap().len(), numbers(&b), numbers(&c)), (0, vec![1.0, 2.0], vec![1.0, 1.0]));
    let slopes = grad(|problem: &(Tensor, Tensor)| {
        let (a, b, c) = anew(problem);
        a.sum() + (b * c).sum()
    })(&problem);
    assert_eq!((slopes.0.shape().to_vec(), numbers(&slopes.1)), (vec![0, 3], vec![1.0, 1.0]));
    // Integers get zeros, and a function of nothing has results all the same.
    let gather = checkpoint(|(x, places): &(Tensor, Tensor)| x.take(places, 0));
    let slopes = grad(|p: &(Tensor, Tensor)| gather(p).sum())(&(Tensor::from([1.0, 2.0]), Tensor::from([1_i64, 1])));
    assert_eq!((numbers(&slopes.0), numbers(&slopes.1)), (vec![0.0, 2.0], vec![0.0, 0.0]));
}

#[test]
fn failures_inside_name_the_line() {
    let places = Tensor::from([5_i64]);
    let line = line!() + 1;
    let anew = checkpoint(|x: &Tensor| x.sin().take(&places, 0).exp());
    let x = Tensor::from([1.0, 2.0]);
    let slope = grad(|x: &Tensor| anew(x).sum())(&x);
    for error in [anew(&x).eval().unwrap_err(), slope.eval().unwrap_err()] {
        assert_eq!(error.origin().map(|origin| origin.line()), Some(line), "{error}");
        assert!(error.origin().is_some_and(|origin| origin.file().ends_with("rematerialisation.rs")));
    }
    let refused = checkpoint(|x: &Tensor| x.reshape([3]))(&x);
    assert_eq!(refused.error().map(|error| error.operation()), Some("reshape"));
    // Values can be read inside, as in any function that is differentiated.
    let sign =
        checkpoint(|x: &Tensor| -> Result<Tensor, glassgrad::error::Error> { Ok(x.square() * x.item()?.signum()) });
    assert_eq!(grad(|x: &Tensor| sign(x))(&Tensor::from(-3.0)).item(), Ok(6.0));
}

#[test]
fn the_reference_agrees() {
    let problem = deep_problem();
    let slopes = grad(deep(2, checkpoint(layer)))(&problem);
    for slope in [&slopes.0, &slopes.1] {
        let expected = slope.eval_by_reference().expect("a value");
        let expected: Vec<f64> = (0..expected.buffer().len()).map(|k| expected.buffer().get(k)).collect();
        assert_close(slope, &Tensor::new(&expected, slope.shape().clone()));
    }
}

type Weights = (Tensor, Tensor);

/// A recurrent chain of a batch: hidden states from inputs, and what the last of them misses.
fn recurrent(sequence: Tensor, target: Tensor) -> impl Fn(&Weights) -> Tensor {
    move |(inner, outer)| {
        let start = Tensor::zeros([sequence.shape()[1], inner.shape()[0]]).cast(inner.dtype());
        let step = |state: &Tensor, x: &Tensor| ((state.matmul(inner) + x.matmul(outer)).tanh(), ());
        let (last, ()) = scan(step, &start, &sequence);
        (last - &target).square().mean()
    }
}

fn weights(hidden: usize, inputs: usize) -> Weights {
    let scale = 1.0 / (hidden as f64).sqrt();
    let weight = |seed, shape: &[usize]| (normal(seed, shape) * scale).detach().expect("a weight");
    (weight(20, &[hidden, hidden]), weight(21, &[inputs, hidden]))
}

fn sweep_of(program: &Program) -> Option<&ReverseScan> {
    program.steps.iter().find_map(|step| match step {
        Step::ReverseScan(sweep) => Some(sweep),
        _ => None,
    })
}

/// The working memory of kernels of the program that takes least memory: what a budget covers besides what is planned.
fn working<X: Tree, Y: Tree, G: Fn(&X) -> Y>(frugal: impl Fn(usize) -> G, x: &X) -> usize {
    let least = least(frugal(1)(x).flatten()[0].eval().unwrap_err().message());
    let program = compile(frugal(least)).program(x).unwrap_or_else(|error| panic!("{error}"));
    assert!(footprint(&program) <= least, "{} {least}", footprint(&program));
    footprint(&program) - program.memory()
}

/// The least budget that an error names.
fn least(message: &str) -> usize {
    message.split(' ').nth(5).and_then(|least| least.parse().ok()).unwrap_or_else(|| panic!("{message}"))
}

#[test]
fn a_thousand_steps_train_in_a_tenth_of_the_memory() {
    let (length, batch, hidden, inputs) = (1000, 16, 64, 4);
    let loss = recurrent(normal(22, &[length, batch, inputs]), normal(23, &[batch, hidden]));
    let update = |step: &dyn Fn(&Weights) -> (Tensor, Weights), weights: &Weights| {
        let (value, (a, b)) = step(weights);
        (value, (&weights.0 - a * 0.05, &weights.1 - b * 0.05))
    };
    let start = weights(hidden, inputs);
    let plain = compile(|weights: &Weights| update(&value_and_grad(&loss), weights));
    let taken = footprint(&plain.program(&start).expect("a program"));
    // The update of the weights takes a little more.
    let budget = taken / 11;
    let frugal_step = value_and_grad(&loss).within(budget);
    let alone = compile(&frugal_step).program(&start).expect("a program");
    assert!(footprint(&alone) <= budget, "{} {budget}", footprint(&alone));
    let frugal = compile(|weights: &Weights| update(&frugal_step, weights));
    let program = frugal.program(&start).expect("a program");
    assert!(footprint(&program) <= taken / 10, "{} of {taken}", footprint(&program));
    let sweep = sweep_of(&program).expect("a sweep");
    let snapshots = sweep.schedule.snapshots;
    assert!(snapshots > 3 && snapshots < length / 2, "{snapshots}");
    assert_eq!(sweep.runs(), [fewest_advances(length, snapshots), length]);
    let (mut a, mut b) = (start.clone(), start);
    let mut losses = Vec::new();
    for _ in 0..4 {
        let (one, next) = plain.call(&a).expect("a step");
        let (other, frugal_next) = frugal.call(&b).expect("a step");
        let (one, other) = (one.item().expect("a loss"), other.item().expect("a loss"));
        assert!((one - other).abs() <= 1e3 * f64::EPSILON * one, "{one} {other}");
        losses.push(one);
        (a, b) = (next, frugal_next);
    }
    assert!(losses[3] < losses[0], "{losses:?}");
}

#[test]
fn a_budget_that_cannot_be_kept_is_refused_with_what_can_be() {
    let (length, batch, hidden, inputs) = (60, 4, 8, 3);
    let loss = recurrent(normal(24, &[length, batch, inputs]), normal(25, &[batch, hidden]));
    let start = weights(hidden, inputs);
    let line = line!() + 1;
    let refused = grad(&loss).within(100)(&start);
    let error = refused.0.eval().unwrap_err();
    assert_eq!((error.operation(), error.origin().map(|origin| origin.line())), ("grad", Some(line)));
    let words: Vec<&str> = error.message().split(' ').collect();
    assert_eq!((&words[..5].join(" ")[..], words[10]), ("the gradient takes at least", "100"), "{error}");
    let least: usize = words[5].parse().expect("a number");
    // Exactly that is enough, and one byte less is not.
    let enough = compile(grad(&loss).within(least));
    let program = enough.program(&start).expect("a program");
    assert!(footprint(&program) <= least, "{} {least}", footprint(&program));
    assert_eq!(sweep_of(&program).expect("a sweep").runs(), [length * (length - 1) / 2, length]);
    assert!(grad(&loss).within(least - 1)(&start).0.eval().is_err());
    let (a, b) = (enough.call(&start).expect("a gradient"), grad(&loss)(&start));
    assert_close(&a.0, &b.0);
    assert_close(&a.1, &b.1);
    // What makes no gradient has nothing to keep within a budget.
    let error = (|x: &Tensor| x * 2.0).within(1000)(&start.0).eval().unwrap_err();
    assert_eq!(error.message(), "the function makes no gradient");
    // A function that has no gradient says so as ever.
    let error = grad(|x: &Tensor| x * 2.0).within(1000)(&start.0).eval().unwrap_err();
    assert!(error.message().starts_with("the function must return one floating-point number"));
}

#[test]
fn a_generous_budget_computes_nothing_anew() {
    let loss = recurrent(normal(26, &[30, 4, 3]), normal(27, &[4, 8]));
    let start = weights(8, 3);
    let plain = compile(value_and_grad(&loss)).program(&start).expect("a program");
    let generous = compile(value_and_grad(&loss).within(footprint(&plain))).program(&start).expect("a program");
    assert_eq!(generous.to_string(), plain.to_string());
    let problem = deep_problem();
    let plain = compile(grad(deep(6, layer))).program(&problem).expect("a program");
    let generous = compile(grad(deep(6, layer)).within(footprint(&plain))).program(&problem).expect("a program");
    assert_eq!(generous.to_string(), plain.to_string());
}

#[test]
fn budgets_are_kept_with_the_fewest_steps_forwards() {
    let (length, batch, hidden, inputs) = (100, 4, 16, 3);
    let loss = recurrent(normal(28, &[length, batch, inputs]), normal(29, &[batch, hidden]));
    let start = weights(hidden, inputs);
    let plain = compile(grad(&loss)).program(&start).expect("a program");
    let expected = grad(&loss)(&start);
    let mut before = 0;
    let working = working(|bytes| grad(&loss).within(bytes), &start);
    for budget in [16_500, 18_000, 24_000, 40_000, 60_000].map(|bytes| bytes + working) {
        let frugal = compile(grad(&loss).within(budget));
        let program = frugal.program(&start).unwrap_or_else(|error| panic!("{error}"));
        assert!(footprint(&program) <= budget && budget < footprint(&plain));
        let sweep = sweep_of(&program).expect("a sweep");
        let snapshots = sweep.schedule.snapshots;
        assert_eq!(sweep.schedule.advances(), fewest_advances(length, snapshots));
        // One state more would not fit.
        assert!(footprint(&program) + batch * hidden * 8 > budget || snapshots == length - 1);
        assert!(snapshots > before, "{snapshots} {before}");
        before = snapshots;
        let slopes = frugal.call(&start).expect("a gradient");
        assert_close(&slopes.0, &expected.0);
        assert_close(&slopes.1, &expected.1);
    }
}

#[test]
fn the_steps_that_run_are_those_of_the_schedule() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    #[derive(Clone, Debug)]
    struct Counted(Arc<AtomicUsize>);
    impl glassgrad::expr::CustomOp for Counted {
        fn name(&self) -> &str {
            "counted"
        }
        fn output(&self, inputs: &[&Tensor]) -> Result<(glassgrad::shape::Shape, glassgrad::dtype::DType), String> {
            Ok((inputs[0].shape().clone(), inputs[0].dtype()))
        }
        fn value(&self, inputs: &[glassgrad::array::Array]) -> Result<glassgrad::array::Array, String> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(inputs[0].clone())
        }
        fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> glassgrad::expr::Rule<'r> {
            glassgrad::expr::Rule::Pullback(Box::new(|g| vec![Some(g.clone())]))
        }
    }
    let runs = Arc::new(AtomicUsize::new(0));
    let loss = |x: &Tensor| {
        let step = |s: &Tensor, x: &Tensor| (Tensor::custom(Counted(Arc::clone(&runs)), &[&(s * x).sin()]).exp(), ());
        scan(step, &Tensor::ones([100]).cast(x.dtype()), x).0.sum()
    };
    let x = normal(30, &[50, 100]);
    let expected = grad(loss)(&x);
    numbers(&expected);
    let frugal = compile(grad(loss).within(60_000 + working(|bytes| grad(loss).within(bytes), &x)));
    let program = frugal.program(&x).unwrap_or_else(|error| panic!("{error}"));
    let sweep = sweep_of(&program).expect("a sweep");
    let [forwards, back] = sweep.runs();
    runs.store(0, Ordering::SeqCst);
    assert_close(&frugal.call(&x).expect("a gradient"), &expected);
    // Every step back computes its inside, and so its operation, once.
    assert_eq!(runs.load(Ordering::SeqCst), forwards + back);
    assert_eq!(forwards, fewest_advances(50, sweep.schedule.snapshots));
}

#[test]
fn a_chain_that_is_no_loop_is_cut_where_little_is_alive() {
    let problem = deep_problem();
    let loss = deep(24, layer);
    let plain = compile(value_and_grad(&loss)).program(&problem).expect("a program");
    let expected = value_and_grad(&loss)(&problem);
    let mut before = plain.flops();
    let working = working(|bytes| value_and_grad(&loss).within(bytes), &problem);
    for part in [2, 5, 6, 8] {
        let budget = plain.memory() / part + working;
        let frugal = compile(value_and_grad(&loss).within(budget));
        let program = frugal.program(&problem).unwrap_or_else(|error| panic!("{error}"));
        assert!(footprint(&program) <= budget, "{} {budget}", footprint(&program));
        let (value, slopes) = frugal.call(&problem).expect("a gradient");
        assert_close(&value, &expected.0);
        assert_close(&slopes.0, &expected.1.0);
        assert_close(&slopes.1, &expected.1.1);
        // The less memory, the more work.
        assert!(program.flops() > before, "{part}");
        before = program.flops();
    }
}

#[test]
fn gradients_within_a_budget_are_differentiated_and_batched() {
    let sequence = normal(31, &[20, 2, 3]);
    let loss = recurrent(sequence.clone(), normal(32, &[2, 4]));
    let start = weights(4, 3);
    let budget = compile(grad(&loss)).program(&start).expect("a program").memory() / 2
        + working(|bytes| grad(&loss).within(bytes), &start);
    let direction = (start.0.cos(), start.1.cos());
    let frugal = grad(&loss).within(budget);
    assert!(sweep_of(&compile(&frugal).program(&start).expect("a program")).is_some());
    let squares = |slopes: Weights| slopes.0.square().sum() + slopes.1.square().sum();
    let (a, b) = (grad(|w: &Weights| squares(frugal(w)))(&start), grad(|w: &Weights| squares(grad(&loss)(w)))(&start));
    assert_close(&a.0, &b.0);
    assert_close(&a.1, &b.1);
    let (a, b) = (jvp(&frugal, &start, &direction).1, hvp(&loss, &start, &direction));
    assert_close(&a.0, &b.0);
    assert_close(&a.1, &b.1);
    let batch = (Tensor::stack([&start.0, &start.0.sin()], 0), Tensor::stack([&start.1, &start.1.sin()], 0));
    let batched = compile(vmap(&frugal));
    assert!(sweep_of(&batched.program(&batch).expect("a program")).is_some());
    let (a, b) = (batched.call(&batch).expect("gradients"), vmap(grad(&loss))(&batch));
    assert_close(&a.0, &b.0);
    assert_close(&a.1, &b.1);
    // One example after another, inside of a loop.
    let step = |_: &Tensor, at: &Weights| (frugal(at).0.sum(), frugal(at).0);
    let (_, looped) = scan(step, &Tensor::from(0.0), &batch);
    assert_close(&looped, &b.0);
    // The chain, likewise.
    let problem = deep_problem();
    let loss = deep(8, layer);
    let budget = compile(grad(&loss)).program(&problem).expect("a program").memory() / 2
        + working(|bytes| grad(&loss).within(bytes), &problem);
    let frugal = grad(&loss).within(budget);
    let direction = (problem.0.cos(), problem.1.cos());
    let (a, b) = (jvp(&frugal, &problem, &direction).1, hvp(&loss, &problem, &direction));
    assert_close(&a.0, &b.0);
    assert_close(&a.1, &b.1);
    let batch = (Tensor::stack([&problem.0, &problem.0.sin()], 0), Tensor::stack([&problem.1, &problem.1.sin()], 0));
    let (a, b) = (vmap(&frugal)(&batch), vmap(grad(&loss))(&batch));
    assert_close(&a.0, &b.0);
    assert_close(&a.1, &b.1);
}

#[test]
fn sweeps_of_nothing_of_what_is_empty_and_of_what_is_not_finite() {
    let stepped = |length: usize, width: usize, number: f64| {
        let x = Tensor::full([length, width], number, glassgrad::dtype::DType::F64);
        let loss = |x: &Tensor| {
            let start = Tensor::ones([width]).cast(x.dtype());
            let (last, all) = scan(|s: &Tensor, x: &Tensor| ((s * x).ln(), s.sum()), &start, x);
            last.sum() + all.sum()
        };
        let expected = grad(loss)(&x);
        let program = compile(grad(loss)).program(&x).expect("a program");
        let mut last = grad(loss).within(footprint(&program))(&x);
        for budget in (0..footprint(&program)).rev().step_by(64) {
            let slope = grad(loss).within(budget)(&x);
            if slope.error().is_some() {
                break;
            }
            last = slope;
        }
        assert_eq!(last.shape(), expected.shape());
        let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-12 * b.abs();
        let (a, b) = (numbers(&last), numbers(&expected));
        assert!(a.iter().zip(&b).all(same), "{a:?} {b:?}");
        b
    };
    assert!(stepped(0, 3, 2.0).is_empty());
    assert!(stepped(3, 0, 2.0).is_empty());
    assert_eq!(stepped(1, 3, 2.0).len(), 3);
    assert!(stepped(6, 3, f64::NAN).iter().all(|slope| slope.is_nan()));
    assert!(stepped(9, 2, 20.0).iter().any(|slope| slope.is_finite()));
}

#[test]
fn failures_inside_of_a_sweep_name_the_line() {
    let length = 40;
    let sequence = (normal(33, &[length, 2]), Tensor::new(&vec![0_i64; length], length));
    let line = line!() + 3;
    let loss = |weight: &Tensor, first: i64| {
        let step =
            |s: &Tensor, (x, k): &(Tensor, Tensor)| ((s * weight + x).sin() + s.take(&(k.reshape([1]) + first), 0), ());
        scan(step, &Tensor::zeros([2]).cast(weight.dtype()), &sequence).0.sum()
    };
    let weight = normal(34, &[2]);
    let plain = compile(grad(|weight: &Tensor| loss(weight, 1)));
    let budget = plain.program(&weight).expect("a program").memory() / 2
        + working(|bytes| grad(|weight: &Tensor| loss(weight, 1)).within(bytes), &weight);
    let frugal = |first: i64| grad(move |weight: &Tensor| loss(weight, first)).within(budget)(&weight);
    assert_close(&frugal(1), &plain.call(&weight).expect("a gradient"));
    // There is no third place.
    let error = frugal(2).eval().unwrap_err();
    assert_eq!((error.operation(), error.origin().map(|origin| origin.line())), ("gather", Some(line)), "{error}");
}

#[test]
fn a_program_prints_its_schedule() {
    let x = normal(35, &[8, 64]);
    let loss = |x: &Tensor| scan(|s: &Tensor, x: &Tensor| ((s * x).sin(), ()), &x.sum_over(0), x).0.sum();
    let budget = compile(grad(loss)).program(&x).expect("a program").memory() * 2 / 3
        + working(|bytes| grad(loss).within(bytes), &x);
    let program = compile(grad(loss).within(budget)).program(&x).unwrap_or_else(|error| panic!("{error}"));
    let text = program.to_string();
    let sweep = sweep_of(&program).expect("a sweep");
    let snapshots = sweep.schedule.snapshots;
    let [forwards, back] = sweep.runs();
    let expected =
        format!("reverse sweep of 8 steps with {snapshots} snapshots: {forwards} steps forwards, {back} back");
    assert!(text.contains(&expected), "{text}");
    assert!(text.contains("keep the state in slot 0") && text.contains("reverse step 7"), "{text}");
    assert!(text.contains("one step forwards:") && text.contains("one step back:"), "{text}");
}

#[test]
fn passes_work_inside_of_regions_and_never_through_them() {
    let problem = (normal(40, &[4, 3]), normal(41, &[3, 5]));
    let slopes = grad(deep(3, checkpoint(layer)))(&problem);
    let (graph, inputs) = Graph::of(&[&slopes.0, &slopes.1]).expect("a graph");
    let regions = |graph: &Graph| graph.to_string().matches("remat with").count();
    assert_eq!((verify(&graph), regions(&graph)), (Ok(()), 6));
    let expected = [slopes.0, slopes.1].map(|slope| slope.eval_by_reference().expect("a value"));
    let alone = PASSES.iter().map(|pass| (pass.name, pass.applied(graph.clone())));
    for (name, changed) in alone.chain([("none", graph.clone()), ("all", optimise(graph.clone()))]) {
        assert_eq!(verify(&changed), Ok(()), "{name}");
        // The last layer forwards is needed by nobody: the cotangent of a sum of squares is all that reads it.
        assert!(regions(&changed) >= 5, "{name}");
        for (actual, expected) in changed.run(&inputs).expect("values").iter().zip(&expected) {
            let tensor = |array: &glassgrad::array::Array| {
                let elements: Vec<f64> = (0..array.buffer().len()).map(|k| array.buffer().get(k)).collect();
                Tensor::new(&elements, array.shape().clone())
            };
            assert_close(&tensor(actual), &tensor(expected));
        }
    }
    // Work is done once more for each layer that stands inside.
    assert!(
        optimise(graph).flops() > 1.2 * optimise(Graph::of(&[&grad(deep(3, layer))(&problem).0]).unwrap().0).flops()
    );
}

#[test]
fn a_sweep_allocates_nothing_from_step_to_step() {
    let allocated = |length: usize| {
        let loss = recurrent(normal(42, &[length, 4, 3]), normal(43, &[4, 8]));
        let start = weights(8, 3);
        let budget = compile(grad(&loss)).program(&start).expect("a program").memory() / 2
            + working(|bytes| grad(&loss).within(bytes), &start);
        let frugal = compile(grad(&loss).within(budget));
        assert!(sweep_of(&frugal.program(&start).expect("a program")).is_some());
        frugal.call(&start).expect("a gradient");
        let count = heap::allocations(|| drop(frugal.call(&start).expect("a gradient")));
        let snapshots = sweep_of(&frugal.program(&start).expect("a program")).map(|sweep| sweep.schedule.snapshots);
        // Each slot is a list of places.
        count - snapshots.expect("a sweep")
    };
    assert_eq!(allocated(40), allocated(400));
}

#[test]
fn integers_are_carried_loops_stand_in_loops_and_results_are_stacked() {
    type Carried = (Tensor, Tensor);
    let loss = |(weight, x): &(Tensor, Tensor)| {
        let step = |(state, count): &Carried, x: &Tensor| {
            let inner = |sum: &Tensor, x: &Tensor| ((sum * 0.5 + x * weight).sin(), ());
            let (sum, ()) = scan(inner, &state.mean(), x);
            let next = (state * &sum + count.cast(state.dtype()) * 0.01).tanh();
            ((next.clone(), count + 1), (next.mean(), next))
        };
        let start = (Tensor::ones([2000]).cast(x.dtype()), Tensor::from(0_i64));
        let ((last, count), (sums, all)) = scan(step, &start, x);
        last.mean() + sums.square().sum() + all.sin().mean() + count.cast(x.dtype())
    };
    let problem = (Tensor::from(0.7), normal(44, &[30, 6]));
    let expected = grad(loss)(&problem);
    let plain = compile(grad(loss)).program(&problem).expect("a program").memory();
    let mut swept = 0;
    let working = working(|bytes| grad(loss).within(bytes), &problem);
    for part in [1.0, 0.8, 0.6, 0.5, 0.45, 0.4] {
        let budget = (plain as f64 * part) as usize + working;
        let frugal = compile(grad(loss).within(budget));
        let Ok(program) = frugal.program(&problem) else { continue };
        swept += usize::from(sweep_of(&program).is_some());
        let slopes = frugal.call(&problem).expect("a gradient");
        assert_close(&slopes.0, &expected.0);
        assert_close(&slopes.1, &expected.1);
        let by_reference = grad(loss).within(budget)(&problem).1.eval_by_reference().unwrap();
        let elements: Vec<f64> = (0..by_reference.buffer().len()).map(|k| by_reference.buffer().get(k)).collect();
        assert_close(&slopes.1, &Tensor::new(&elements, slopes.1.shape().clone()));
    }
    assert!(swept > 1, "{swept}");
}

#[test]
fn the_glass_box_looks_into_regions() {
    let line = line!() + 1;
    let loss = |x: &Tensor| checkpoint(|x: &Tensor| (x - 1.0).ln().exp())(x).sum();
    let x = Tensor::from([2.0, 0.5]);
    let text = glassgrad::glass::Graph::trace(loss, &x).with_values().expect("values").text();
    assert!(text.contains("remat with 1 output ") && text.contains("exp"), "{text}");
    let found = glassgrad::glass::explain_non_finite(loss, &x).expect("an answer").expect("a NaN");
    let first = &found.provenance.path[0];
    assert_eq!((first.origin.line(), first.operation.as_str(), &first.index[..]), (line, "ln", &[1][..]));
    // In the derivative, where the value is finite: the way leads into the region that computes it.
    let steep = |x: &Tensor| checkpoint(|x: &Tensor| x.sqrt())(x).sum();
    let found =
        glassgrad::glass::explain_non_finite(steep, &Tensor::from([1.0, 0.0])).expect("an answer").expect("one");
    assert!(found.provenance.path[0].derivative_of.as_deref().is_some_and(|of| of.contains("sqrt")), "{found:?}");
    let certificate =
        glassgrad::certify::certify_tensors(loss, &Tensor::from([2.0, 3.0]), Key::new(1)).expect("a certificate");
    assert!(certificate.holds(), "{certificate}");
}
