//! The life of a tensor: what is computed and when, what is kept, and what goes.

#[path = "judges/heap.rs"]
mod heap;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard};

use glassgrad::array::Array;
use glassgrad::dtype::DType;
use glassgrad::expr::{CustomOp, Rule};
use glassgrad::shape::Shape;
use glassgrad::{Tensor, grad, hessian, value_and_grad, vmap};

#[global_allocator]
static HEAP: heap::CountingAllocator = heap::CountingAllocator;

/// Bytes are counted for the whole process, so the tests of this binary run one after another.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Whether the value of a tensor is known; asking computes nothing.
fn is_known(tensor: &Tensor) -> bool {
    format!("{tensor:?}").contains(" = ")
}

/// The size of this process in memory, in bytes.
fn resident_bytes() -> Option<usize> {
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    sizes.split_whitespace().nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
}

// ------------------------------------------------------------------ training holds constant memory

/// Runs steps and asserts that the later ones need no more memory than the first ones did.
fn holds_constant_memory(mut step: impl FnMut()) {
    let mut run = |count: usize| heap::peak_bytes(|| (0..count).for_each(|_| step())).1;
    let early = run(2_000);
    let resident = resident_bytes();
    let late = run(8_000);
    // Work that nobody reads waits for up to 4096 nodes: the two peaks differ by where that lies.
    assert!(late <= early + early / 2 + 100_000, "{early} bytes at first, {late} later");
    assert!(late < 16 << 20, "{late} bytes for a model of a few numbers");
    if let (Some(before), Some(after)) = (resident, resident_bytes()) {
        assert!(after <= before + (8 << 20), "resident: {before} bytes before, {after} after");
    }
}

fn data() -> (Tensor, Tensor) {
    let x = Tensor::from([[0.0, 1.0], [1.0, 0.5], [2.0, -1.0], [3.0, 0.25]]);
    let y = Tensor::from([1.0, 2.5, 3.0, 6.25]);
    (x, y)
}

fn loss(p: &(Tensor, Tensor), x: &Tensor, y: &Tensor) -> Tensor {
    (x.matmul(&p.0).tanh() + &p.1 - y).square().mean()
}

#[test]
fn training_that_reads_every_step_holds_constant_memory() {
    let _alone = alone();
    let (x, y) = data();
    let step = value_and_grad(|p: &(Tensor, Tensor)| loss(p, &x, &y));
    let mut p = (Tensor::from([0.1, -0.2]), Tensor::from(0.0));
    let mut last = f64::INFINITY;
    holds_constant_memory(|| {
        let (value, slope) = step(&p);
        last = value.item().expect("a loss");
        p = (&p.0 - slope.0 * 0.05, &p.1 - slope.1 * 0.05);
    });
    assert!(last < 3.0, "it learns: {last}");
}

#[test]
fn training_that_reads_the_loss_after_the_update_holds_constant_memory() {
    let _alone = alone();
    let (x, y) = data();
    let step = value_and_grad(|p: &(Tensor, Tensor)| loss(p, &x, &y));
    let mut p = (Tensor::from([0.1, -0.2]), Tensor::from(0.0));
    holds_constant_memory(|| {
        let (value, slope) = step(&p);
        p = (&p.0 - slope.0 * 0.05, &p.1 - slope.1 * 0.05);
        value.item().expect("a loss");
    });
}

#[test]
fn training_that_reads_parameters_every_step_holds_constant_memory() {
    let _alone = alone();
    let (x, y) = data();
    let slope = grad(|p: &(Tensor, Tensor)| loss(p, &x, &y));
    let mut p = (Tensor::from([0.1, -0.2]), Tensor::from(0.0));
    holds_constant_memory(|| {
        let slope = slope(&p);
        p = (&p.0 - slope.0 * 0.05, &p.1 - slope.1 * 0.05);
        Tensor::eval_all(&[&p.0, &p.1]).expect("values");
    });
}

#[test]
fn training_that_never_reads_holds_constant_memory() {
    let _alone = alone();
    let (x, y) = data();
    let slope = grad(|p: &(Tensor, Tensor)| loss(p, &x, &y));
    let mut p = (Tensor::from([0.1, -0.2]), Tensor::from(0.0));
    holds_constant_memory(|| {
        let slope = slope(&p);
        p = (&p.0 - slope.0 * 0.05, &p.1 - slope.1 * 0.05);
    });
    assert!(loss(&p, &x, &y).item().expect("a loss") < 3.0);
}

#[test]
fn training_with_variables_holds_constant_memory() {
    let _alone = alone();
    let (x, y) = data();
    let mut p = (Tensor::from([0.1, -0.2]).variable(), Tensor::from(0.0).variable());
    holds_constant_memory(|| {
        let loss = loss(&p, &x, &y);
        let slopes = loss.backward();
        p = ((&p.0 - slopes.of(&p.0) * 0.05).variable(), (&p.1 - slopes.of(&p.1) * 0.05).variable());
        loss.item().expect("a loss");
    });
    assert!(loss(&p, &x, &y).item().expect("a loss") < 3.0);
}

#[test]
fn training_with_variables_that_never_reads_holds_constant_memory() {
    let _alone = alone();
    let (x, y) = data();
    let mut p = (Tensor::from([0.1, -0.2]).variable(), Tensor::from(0.0).variable());
    holds_constant_memory(|| {
        let slopes = loss(&p, &x, &y).backward();
        p = ((&p.0 - slopes.of(&p.0) * 0.05).variable(), (&p.1 - slopes.of(&p.1) * 0.05).variable());
    });
    assert!(loss(&p, &x, &y).item().expect("a loss") < 3.0);
}

#[test]
fn training_that_reads_new_variables_while_old_ones_are_held_holds_constant_memory() {
    let _alone = alone();
    let (x, y) = data();
    let mut p = (Tensor::from([0.1, -0.2]).variable(), Tensor::from(0.0).variable());
    holds_constant_memory(|| {
        let slopes = loss(&p, &x, &y).backward();
        let next = (&p.0 - slopes.of(&p.0) * 0.05, &p.1 - slopes.of(&p.1) * 0.05);
        // The history of these is needed while the old variables are held, and not any more afterwards.
        Tensor::eval_all(&[&next.0, &next.1]).expect("values");
        p = (next.0.variable(), next.1.variable());
    });
}

#[test]
fn all_styles_of_training_give_the_same_numbers() {
    let _alone = alone();
    let (x, y) = data();
    let start = || (Tensor::from([0.1, -0.2]), Tensor::from(0.0));
    let descend = |p: &(Tensor, Tensor), slope: (Tensor, Tensor)| (&p.0 - slope.0 * 0.05, &p.1 - slope.1 * 0.05);
    let (mut lazy, mut eager, mut taped) = (start(), start(), start());
    for _ in 0..500 {
        lazy = descend(&lazy, grad(|p: &(Tensor, Tensor)| loss(p, &x, &y))(&lazy));
        eager = descend(&eager, grad(|p: &(Tensor, Tensor)| loss(p, &x, &y))(&eager));
        Tensor::eval_all(&[&eager.0, &eager.1]).expect("values");
        taped = (taped.0.variable(), taped.1.variable());
        let slopes = loss(&taped, &x, &y).backward();
        taped = descend(&taped, (slopes.of(&taped.0), slopes.of(&taped.1)));
    }
    let numbers = |p: &(Tensor, Tensor)| [p.0.to_f64_vec().expect("numbers"), p.1.to_f64_vec().expect("a number")];
    assert_eq!(numbers(&lazy), numbers(&eager));
    assert_eq!(numbers(&taped), numbers(&eager));
}

// ------------------------------------------------------------------ long chains

/// Runs a piece of work where recursion over a long chain would overflow.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(work).expect("a thread");
    thread.join().expect("the work is done");
}

const LONG: usize = 1_000_000;

#[test]
fn a_chain_of_a_million_nodes_needs_no_stack() {
    let _alone = alone();
    on_a_small_stack(|| {
        let mut y = Tensor::from(0.0);
        for _ in 0..LONG {
            y += 1.0;
        }
        assert_eq!(y.item().expect("a value"), LONG as f64);
    });
}

#[test]
fn a_chain_of_a_million_nodes_with_a_variable_builds_evaluates_differentiates_and_drops() {
    let _alone = alone();
    on_a_small_stack(|| {
        let x = Tensor::from(0.5).variable();
        let one = Tensor::from(1.0);
        let mut y = x.clone();
        for _ in 0..LONG {
            y += &one;
        }
        assert_eq!(y.item().expect("a value"), LONG as f64 + 0.5);
        let slope = y.backward().of(&x);
        assert_eq!(slope.item().expect("a slope"), 1.0);
        drop((x, slope));
        drop(y);
    });
}

#[test]
fn grad_goes_through_a_chain_of_a_million_nodes() {
    let _alone = alone();
    on_a_small_stack(|| {
        let slope = grad(|x: &Tensor| (0..LONG).fold(x.clone(), |y, _| -y));
        assert_eq!(slope(&Tensor::from(2.0)).item().expect("a slope"), 1.0);
    });
}

#[test]
fn a_chain_that_was_never_read_drops_without_recursion() {
    let _alone = alone();
    on_a_small_stack(|| {
        let x = Tensor::from(0.5).variable();
        let y = (0..LONG).fold(x.clone(), |y, _| y.sin());
        drop(x);
        drop(y);
    });
}

#[test]
fn twenty_five_doublings_are_instant_and_exact() {
    let _alone = alone();
    let doubled = |x: &Tensor| (0..25).fold(x.clone(), |y, _| &y + &y);
    // A walk along every path would take 2²⁵ steps for each of these, and this test would not end.
    assert_eq!(doubled(&Tensor::from(3.0)).item().expect("a value"), 3.0 * 2.0_f64.powi(25));
    assert_eq!(grad(doubled)(&Tensor::from(3.0)).item().expect("a slope"), 2.0_f64.powi(25));
    let x = Tensor::from(3.0).variable();
    assert_eq!(doubled(&x).backward().of(&x).item().expect("a slope"), 2.0_f64.powi(25));
    let batch = vmap(doubled)(&Tensor::from([1.0, 2.0]));
    assert_eq!(batch.to_vec::<f64>().expect("values"), [2.0_f64.powi(25), 2.0_f64.powi(26)]);
    // x² doubled: the second derivative goes through the same graph once more.
    let curvature = hessian(|x: &Tensor| doubled(&x.square()))(&Tensor::from(3.0));
    assert_eq!(curvature.item().expect("a curvature"), 2.0_f64.powi(26));
}

#[test]
fn many_doublings_saturate_the_count_of_waiting_nodes() {
    let _alone = alone();
    let halved = |x: &Tensor| (0..1000).fold(x.clone(), |y, _| (&y + &y) * 0.5);
    assert_eq!(halved(&Tensor::from(3.0)).item().expect("a value"), 3.0);
    assert_eq!(grad(halved)(&Tensor::from(3.0)).item().expect("a slope"), 1.0);
}

#[test]
fn a_failure_behind_a_long_chain_stays_cheap() {
    let _alone = alone();
    // Trying again at every later node would take 5·10⁹ steps.
    let bad = Tensor::from([1.0, 2.0]).take(&Tensor::from([7_i64]), 0);
    let y = (0..100_000).fold(bad, |y, _| y + 1.0);
    let error = y.to_f64_vec().expect_err("an index out of range");
    assert_eq!(error.operation(), "gather");
}

// ------------------------------------------------------------------ what is kept

#[test]
fn backward_after_item_works() {
    let _alone = alone();
    let x = Tensor::from([1.0, 2.0]).variable();
    let hidden = x.exp();
    let loss = hidden.square().sum();
    let value = loss.item().expect("a value");
    assert!(is_known(&hidden) && is_known(&loss));
    let slope = loss.backward().of(&x).to_vec::<f64>().expect("a slope");
    for (slope, x) in slope.iter().zip([1.0_f64, 2.0]) {
        assert!((slope - 2.0 * (2.0 * x).exp()).abs() <= 1e-12 * slope, "{slope}");
    }
    assert_eq!(loss.item().expect("a value"), value, "reading again gives the same");
    // Twice is the same as once: nothing accumulates.
    assert_eq!(loss.backward().of(&x).to_vec::<f64>().expect("a slope"), slope);
}

#[test]
fn a_variable_that_a_loss_does_not_depend_on_has_a_zero_gradient() {
    let _alone = alone();
    let (x, z) = (Tensor::from([1.0, 2.0]).variable(), Tensor::from([[1.0_f32]]).variable());
    let slope = x.sum().backward().of(&z);
    assert_eq!((slope.dtype(), slope.to_string()), (DType::F32, "[[0]]".to_owned()));
}

#[test]
fn one_variable_may_depend_on_another() {
    let _alone = alone();
    let x = Tensor::from(3.0).variable();
    let y = x.square().variable();
    let slopes = (&y * &x).backward();
    assert_eq!(slopes.of(&y).item().expect("a slope"), 3.0);
    assert_eq!(slopes.of(&x).item().expect("a slope"), 27.0);
}

#[test]
fn nothing_that_is_held_is_computed_twice() {
    let _alone = alone();
    let x = Tensor::from([1.0, 2.0]);
    let held = x.exp();
    assert!(!is_known(&held), "making computes nothing");
    let first = held.sum();
    first.item().expect("a value");
    assert!(is_known(&held), "it was needed, and someone holds it");
    let once = held.eval().expect("values");
    let second = (&held * 2.0).sum();
    second.item().expect("a value");
    let again = held.eval().expect("values");
    assert!(std::ptr::eq(once.buffer(), again.buffer()), "the elements are the very same");
}

#[test]
fn locals_that_are_gone_are_not_kept() {
    let _alone = alone();
    let x = Tensor::from([1.0, 2.0]).variable();
    let y = x.exp().sin().sum();
    y.item().expect("a value");
    let sine = y.inputs().remove(0);
    assert!(!is_known(&sine), "nobody held it when the value was read");
    assert!(!is_known(&sine.inputs()[0]));
    // The history itself is there as long as the variable is.
    assert_eq!(sine.inputs()[0].inputs().len(), 1);
}

#[test]
fn what_has_no_variable_lets_go_of_its_inputs() {
    let _alone = alone();
    let y = Tensor::from([1.0, 2.0]).exp().sum();
    assert_eq!(y.inputs().len(), 1);
    y.item().expect("a value");
    assert!(y.inputs().is_empty());
    let x = Tensor::from([1.0, 2.0]).variable();
    let z = x.exp().sum();
    z.item().expect("a value");
    assert_eq!(z.inputs().len(), 1, "the variable is live");
    drop(x);
    let later = &z + 1.0;
    later.item().expect("a value");
    assert!(later.inputs().is_empty(), "the variable is gone");
}

#[test]
fn large_values_go_when_their_handles_do() {
    let _alone = alone();
    let size = 1 << 16;
    let ((), bytes) = heap::peak_bytes(|| {
        let mut y = Tensor::full(size, 0.5, DType::F64);
        for _ in 0..50 {
            y = y.sin();
        }
        assert!(y.sum().item().expect("a value") > 0.0);
    });
    assert!(bytes < 5 * 8 * size, "{bytes} bytes for fifty arrays of {}, one after another", 8 * size);
}

/// The identity, which counts how often it is computed.
#[derive(Clone, Debug, Default)]
struct Counted(Arc<AtomicUsize>);

impl CustomOp for Counted {
    fn name(&self) -> &str {
        "counted"
    }
    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((inputs[0].shape().clone(), inputs[0].dtype()))
    }
    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(inputs[0].clone())
    }
    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Formula(Box::new(|inputs| inputs[0].clone()))
    }
}

#[test]
fn reading_several_values_together_shares_work() {
    let _alone = alone();
    let make = || {
        let counter = Counted::default();
        let shared = Tensor::custom(counter.clone(), &[&Tensor::from([1.0, 2.0])]);
        (counter, shared.sum(), shared.square().sum())
    };
    let (counter, a, b) = make();
    assert_eq!(Tensor::eval_all(&[&a, &b]).expect("values").len(), 2);
    assert_eq!(counter.0.load(Ordering::Relaxed), 1, "together, once");
    // Nobody holds the shared part, so reading one after another computes it twice.
    let (counter, a, b) = make();
    assert_eq!((a.item().expect("a value"), b.item().expect("a value")), (3.0, 5.0));
    assert_eq!(counter.0.load(Ordering::Relaxed), 2, "apart, twice");
}

#[test]
fn a_tensor_may_be_asked_for_twice_in_one_reading() {
    let _alone = alone();
    let y = Tensor::from(2.0).square();
    let values = Tensor::eval_all(&[&y, &y]).expect("values");
    assert_eq!(values[0], values[1]);
    assert!(Tensor::eval_all(&[]).expect("nothing").is_empty());
}

// ------------------------------------------------------------------ threads

#[test]
fn tensors_cross_threads() {
    let _alone = alone();
    fn crosses<T: Send + Sync>() {}
    crosses::<Tensor>();
    crosses::<glassgrad::array::Array>();
    crosses::<glassgrad::error::Error>();
    crosses::<glassgrad::diff::Gradients>();
}

#[test]
fn a_tensor_can_be_read_from_several_threads_at_once() {
    let _alone = alone();
    for round in 0..200 {
        let x = Tensor::from([0.5 + f64::from(round), 1.5]);
        let shared = (0..30).fold(x.clone(), |y, _| (y.sin() + &x) * 0.5);
        let roots: Vec<Tensor> = (0..4).map(|k| (&shared * f64::from(k)).sum() + shared.sum()).collect();
        let barrier = Barrier::new(8);
        let values: Vec<f64> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..8)
                .map(|k| {
                    let (root, shared, barrier) = (&roots[k % 4], &shared, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        let sum = shared.sum().item().expect("a value");
                        root.item().expect("a value") / sum
                    })
                })
                .collect();
            readers.into_iter().map(|reader| reader.join().expect("no panic")).collect()
        });
        for (k, ratio) in values.into_iter().enumerate() {
            assert!((ratio - (1.0 + (k % 4) as f64)).abs() < 1e-12, "round {round}, thread {k}: {ratio}");
        }
    }
}

#[test]
fn one_root_read_by_many_threads_is_right_for_each() {
    let _alone = alone();
    for round in 0..500 {
        let y = (0..20).fold(Tensor::from(f64::from(round)), |y, _| (y + 1.0) * 1.0);
        let barrier = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    barrier.wait();
                    assert_eq!(y.item().expect("a value"), f64::from(round) + 20.0);
                });
            }
        });
    }
}

#[test]
fn one_graph_is_differentiated_from_several_threads() {
    let _alone = alone();
    let x = Tensor::from([0.25, 0.5]).variable();
    let y = x.sin().square().sum();
    let expected: Vec<f64> = [0.25_f64, 0.5].iter().map(|x| (2.0 * x).sin()).collect();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let slope = y.backward().of(&x).to_vec::<f64>().expect("a slope");
                assert!(slope.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-14), "{slope:?}");
            });
        }
    });
}

// ------------------------------------------------------------------ reading inside transforms

#[test]
fn reading_inside_grad_works() {
    let _alone = alone();
    // Control flow by value: the branch that is taken is the one that is differentiated.
    let leaky =
        |x: &Tensor| -> Result<Tensor, glassgrad::error::Error> { Ok(if x.item()? > 0.0 { x * 3.0 } else { x * 0.5 }) };
    assert_eq!(grad(leaky)(&Tensor::from(2.0)).item().expect("a slope"), 3.0);
    assert_eq!(grad(leaky)(&Tensor::from(-2.0)).item().expect("a slope"), 0.5);
    // An intermediate value, and a loop that ends by value.
    let halved = |x: &Tensor| {
        let mut y = x.square();
        while y.item().expect("a value") > 1.0 {
            y *= 0.5;
        }
        y
    };
    // 9/16 after four halvings: the slope is 2·3/16.
    assert_eq!(grad(halved)(&Tensor::from(3.0)).item().expect("a slope"), 0.375);
    // The second derivative sees through both readings.
    assert_eq!(hessian(halved)(&Tensor::from(3.0)).item().expect("a curvature"), 0.125);
}

#[test]
fn reading_inside_vmap_is_an_error_that_says_so() {
    let _alone = alone();
    let line = std::cell::Cell::new(0);
    let read = |x: &Tensor| -> Result<Tensor, glassgrad::error::Error> {
        line.set(line!() + 1);
        let value = (x + 1.0).item()?;
        Ok(x * value)
    };
    let error = vmap(read)(&Tensor::from([1.0, 2.0])).to_f64_vec().expect_err("there is no single value");
    assert_eq!(error.operation(), "read");
    assert!(error.message().contains("not known while its function is transformed"), "{error}");
    let origin = error.origin().expect("a place");
    assert_eq!((origin.file(), origin.line()), (file!(), line.get()), "{error}");
}

#[test]
fn a_value_that_does_not_depend_on_the_argument_is_read_inside_vmap() {
    let _alone = alone();
    let factor = Tensor::from(3.0);
    let scaled = |x: &Tensor| x * (&factor * 2.0).item().expect("a value");
    assert_eq!(vmap(scaled)(&Tensor::from([1.0, 2.0])).to_string(), "[ 6, 12]");
}
