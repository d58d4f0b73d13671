//! Panics in every closure and every trait implementation that users give to the library: they reach the caller, and
//! afterwards everything works, on the same thread and on others. No lock stays poisoned or held, no budget, no behalf and
//! no half-built plan is left behind.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use glassgrad::array::Array;
use glassgrad::diff::vmap_axes;
use glassgrad::dtype::DType;
use glassgrad::expr::{CustomOp, Rule};
use glassgrad::shape::Shape;
use glassgrad::tree::{Branch, Definition, Tree};
use glassgrad::{
    Tensor, Within, checkpoint, compile, exec, grad, hessian, hvp, jacobian, jvp, linearize, no_grad, scan,
    value_and_grad, vjp, vmap,
};

fn ones(shape: impl Into<Shape>) -> Tensor {
    Tensor::full(shape, 1.0, DType::F64)
}

/// Gradients, loops, batches, checkpoints, budgets, compiled functions and loops on several threads give known numbers.
fn assert_works_here() {
    let cube = |x: &Tensor| x.powi(3).sum();
    let x = Tensor::from([1.0, 2.0]);
    assert_eq!(grad(cube)(&x).to_vec::<f64>().unwrap(), [3.0, 12.0]);
    assert_eq!(grad(cube).within(1 << 20)(&x).to_vec::<f64>().unwrap(), [3.0, 12.0]);
    assert_eq!(hvp(cube, &x, &ones(2)).to_vec::<f64>().unwrap(), [6.0, 12.0]);
    assert_eq!(vmap(grad(cube))(&ones([2, 2])).to_vec::<f64>().unwrap(), [3.0; 4]);
    assert_eq!(grad(|x: &Tensor| checkpoint(cube)(x))(&x).to_vec::<f64>().unwrap(), [3.0, 12.0]);
    let (last, _) = scan(|sum: &Tensor, x: &Tensor| (sum + x, ()), &Tensor::from(0.0), &x);
    assert_eq!(last.item().unwrap(), 3.0);
    assert_eq!(compile(cube).call(&x).unwrap().item().unwrap(), 9.0);
    let step = compile(|(state, x): &(Tensor, Tensor)| (state + x, state.sum()));
    let mut state = ones(3);
    assert_eq!(step.update(&mut state, &ones(3)).unwrap().item().unwrap(), 3.0);
    assert_eq!(state.to_vec::<f64>().unwrap(), [2.0; 3]);
    let large = exec::with_threads(3, || (ones([400, 500]).variable().sin().square() + 1.0).sum().item());
    let expected = 200_000.0 * (1.0 + 1.0_f64.sin().powi(2));
    assert!((large.unwrap() - expected).abs() < 1e-6);
}

/// The library works on this thread and on another one.
fn assert_works() {
    assert_works_here();
    std::thread::spawn(assert_works_here).join().expect("the other thread works");
}

/// A panic of the user reaches the caller, and the library works afterwards.
#[track_caller]
fn assert_survives(what: &str, panicking: impl FnOnce()) {
    let payload = catch_unwind(AssertUnwindSafe(panicking)).expect_err(what);
    let text = payload.downcast_ref::<&str>().copied().unwrap_or("another panic");
    assert_eq!(text, "by the user", "{what}");
    assert_works();
}

fn panic_by_user() -> Tensor {
    panic!("by the user")
}

// ------------------------------------------------------------------ functions under transforms

#[test]
fn functions_under_derivatives_may_panic() {
    let x = Tensor::from([1.0, 2.0]);
    // Part of the graph is there when the function panics.
    let f = |x: &Tensor| x.sin().sum() + panic_by_user();
    assert_survives("grad", || drop(grad(f)(&x)));
    assert_survives("value_and_grad", || drop(value_and_grad(f)(&x)));
    assert_survives("jvp", || drop(jvp(f, &x, &x)));
    assert_survives("vjp", || drop(vjp(f, &x)));
    assert_survives("linearize", || drop(linearize(f, &x)));
    assert_survives("hvp", || drop(hvp(f, &x, &x)));
    assert_survives("jacobian", || drop(jacobian(f)(&x)));
    assert_survives("hessian", || drop(hessian(f)(&x)));
    assert_survives("no_grad", || drop(no_grad(f)(&x)));
    let nested = |x: &Tensor| grad(|y: &Tensor| (y * x).sum() + grad(f)(y).sum())(x).sum();
    assert_survives("a gradient in a gradient in a gradient", || drop(grad(nested)(&x)));
}

#[test]
fn functions_under_other_transforms_may_panic() {
    let x = ones([2, 3]);
    let f = |x: &Tensor| x.exp() + panic_by_user();
    assert_survives("vmap", || drop(vmap(f)(&x)));
    assert_survives("vmap_axes", || drop(vmap_axes(f, 1, 0)(&x)));
    assert_survives("checkpoint", || drop(checkpoint(f)(&x)));
    assert_survives("scan", || {
        drop(scan(|sum: &Tensor, x: &Tensor| (sum + x + panic_by_user(), x.clone()), &ones(3), &x));
    });
    assert_survives("a loop in a map in a checkpoint in a gradient", || {
        let inner = |row: &Tensor| scan(|s: &Tensor, x: &Tensor| (s + f(x), ()), &Tensor::from(0.0), row).0;
        drop(grad(|x: &Tensor| checkpoint(vmap(inner))(x).sum())(&x));
    });
}

/// A budget that a panic interrupts does not reach the next gradient.
#[test]
fn functions_within_a_budget_may_panic() {
    let x = Tensor::from([1.0, 2.0]);
    assert_survives("within", || drop(grad(|x: &Tensor| x.sum() + panic_by_user()).within(10)(&x)));
    assert_survives("before the gradient begins", || {
        drop((|_: &Tensor| -> Tensor { panic_by_user() }).within(10)(&x));
    });
    assert!(grad(|x: &Tensor| x.sin().sum())(&x).eval().is_ok(), "no budget is left");
}

#[test]
fn compiled_functions_may_panic_and_are_built_again() {
    let panics = Cell::new(true);
    let function = compile(|x: &Tensor| if panics.get() { panic_by_user() } else { x * 2.0 });
    assert_survives("compile", || drop(function.call(&ones(2))));
    assert_survives("program", || drop(function.program(&ones(2))));
    panics.set(false);
    assert_eq!(function.call(&ones(2)).unwrap().to_vec::<f64>().unwrap(), [2.0, 2.0]);
    // A plan from before stays while a new one fails.
    panics.set(true);
    assert_survives("another shape", || drop(function.call(&ones(3))));
    assert_eq!(function.call(&ones(2)).unwrap().to_vec::<f64>().unwrap(), [2.0, 2.0]);
}

#[test]
fn updates_whose_function_panics_keep_the_state() {
    let panics = Cell::new(true);
    let step = compile(|(state, x): &((Tensor, Tensor), Tensor)| {
        let next = (&state.0 + x, if panics.get() { panic_by_user() } else { &state.1 * 2.0 });
        (next, x.sum())
    });
    let mut state = (ones(2), ones(3));
    assert_survives("update", || drop(step.update(&mut state, &ones(2))));
    assert_eq!(state.0.to_vec::<f64>().unwrap(), [1.0; 2]);
    assert_eq!(state.1.to_vec::<f64>().unwrap(), [1.0; 3]);
    panics.set(false);
    step.update(&mut state, &ones(2)).unwrap();
    assert_eq!(state.0.to_vec::<f64>().unwrap(), [2.0; 2]);
    assert_eq!(state.1.to_vec::<f64>().unwrap(), [2.0; 3]);
}

#[test]
fn functions_at_a_number_of_threads_or_a_level_may_panic() {
    let before = exec::threads();
    assert_survives("with_threads", || drop(exec::with_threads(before + 3, panic_by_user)));
    assert_eq!(exec::threads(), before, "the number of threads is that from before");
    assert_survives("with_isa", || drop(exec::with_isa(exec::Isa::Baseline, panic_by_user)));
}

// ------------------------------------------------------------------ custom operations

/// Which method of an operation panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Name,
    Output,
    Value,
    Rule,
    Pullback,
    Pushforward,
    Formula,
    Key,
    Batched,
}

/// Twice its input, but for the method that panics.
#[derive(Debug)]
struct Hostile(Method);

impl Hostile {
    fn panic_in(&self, method: Method) {
        if self.0 == method {
            panic_by_user();
        }
    }
}

impl CustomOp for Hostile {
    fn name(&self) -> &str {
        self.panic_in(Method::Name);
        "hostile"
    }
    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        self.panic_in(Method::Output);
        Ok((inputs[0].shape().clone(), inputs[0].dtype()))
    }
    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        self.panic_in(Method::Value);
        // Other tensors may be read inside an operation.
        (Tensor::new(&[2.0], 1).sum().item()).map_err(|error| error.to_string())?;
        Ok(inputs[0].clone())
    }
    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        self.panic_in(Method::Rule);
        let method = self.0;
        match method {
            Method::Pushforward => Rule::Pushforward(Box::new(|_| panic_by_user())),
            Method::Formula => Rule::Formula(Box::new(|_| panic_by_user())),
            Method::Pullback => Rule::Pullback(Box::new(|_| vec![Some(panic_by_user())])),
            _ => Rule::Pullback(Box::new(|cotangent| vec![Some(cotangent.clone())])),
        }
    }
    fn key(&self) -> Option<String> {
        self.panic_in(Method::Key);
        None
    }
    fn batched(&self, inputs: &[Tensor], _: &[bool]) -> Option<Tensor> {
        self.panic_in(Method::Batched);
        Some(inputs[0].clone())
    }
}

#[test]
fn methods_of_custom_operations_may_panic() {
    let apply = |method: Method| move |x: &Tensor| Tensor::custom(Hostile(method), &[x]);
    let x = Tensor::from([1.0, 2.0]);
    assert_survives("output", || drop(apply(Method::Output)(&x)));
    assert_survives("value", || drop(apply(Method::Value)(&x).eval()));
    assert_survives("value, by reference", || drop(apply(Method::Value)(&x).eval_by_reference()));
    assert_survives("key", || drop(apply(Method::Key)(&x).eval()));
    assert_survives("batched", || drop(vmap(apply(Method::Batched))(&ones([2, 3]))));
    for method in [Method::Rule, Method::Pullback, Method::Pushforward, Method::Formula] {
        let f = apply(method);
        assert_survives("grad", || drop(grad(|x: &Tensor| f(x).sum())(&x)));
        assert_survives("jvp", || drop(jvp(f, &x, &x)));
        assert_survives("scan", || {
            let step = |sum: &Tensor, x: &Tensor| (sum + f(x), ());
            drop(grad(|x: &Tensor| scan(step, &Tensor::from(0.0), x).0)(&x));
        });
        assert_survives("checkpoint", || drop(grad(|x: &Tensor| checkpoint(f)(x).sum())(&x)));
    }
}

/// Values are computed inside of loops, in compiled functions and on threads that helpers serve.
#[test]
fn values_of_custom_operations_may_panic_anywhere() {
    let f = |x: &Tensor| Tensor::custom(Hostile(Method::Value), &[x]);
    let x = ones([4, 3]);
    assert_survives("in a loop", || {
        drop(scan(|sum: &Tensor, row: &Tensor| (sum + f(row), ()), &ones(3), &x).0.eval());
    });
    assert_survives("in a region that is computed anew", || {
        drop(grad(|x: &Tensor| checkpoint(|x: &Tensor| f(x).square())(x).sum())(&x).eval());
    });
    assert_survives("in a compiled function", || drop(compile(f).call(&x)));
    assert_survives("beside loops on several threads", || {
        exec::with_threads(4, || {
            let wide = ones([300, 400]);
            drop((f(&wide).exp() + wide.sin().matmul(&wide.transpose()).sum()).eval());
        });
    });
    assert_survives("a name that errors ask for", || {
        drop(Tensor::custom(Hostile(Method::Name), &[&x]).op().name());
    });
}

/// Several threads panic and work at once.
#[test]
fn panics_on_some_threads_leave_the_others_alone() {
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                for _ in 0..20 {
                    if number % 2 == 0 {
                        let f = |x: &Tensor| Tensor::custom(Hostile(Method::Value), &[x]);
                        assert!(catch_unwind(|| f(&ones([200, 200])).eval()).is_err());
                    } else {
                        let sum = (ones([300, 300]) * 2.0).sin().sum().item().unwrap();
                        assert!((sum - 90_000.0 * 2.0_f64.sin()).abs() < 1e-6);
                    }
                }
            });
        }
    });
    assert_works();
}

// ------------------------------------------------------------------ trees

#[derive(Clone, Copy, PartialEq)]
enum Walk {
    Visit,
    Rebuild,
    Mutate,
    Define,
}

/// Two leaves; after the first, the method panics.
#[derive(Clone)]
struct Pair {
    first: Tensor,
    second: Tensor,
    panics: Option<Walk>,
}

impl Pair {
    fn new(panics: Option<Walk>) -> Pair {
        Pair { first: ones(2), second: ones(3), panics }
    }
    fn panic_in(&self, walk: Walk) {
        if self.panics == Some(walk) {
            panic_by_user();
        }
    }
}

impl Tree for Pair {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        visitor(&branch.child(0), &self.first);
        self.panic_in(Walk::Visit);
        visitor(&branch.child(1), &self.second);
    }
    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
        let first = leaf(&branch.child(0), &self.first);
        self.panic_in(Walk::Rebuild);
        Pair { first, second: leaf(&branch.child(1), &self.second), panics: self.panics }
    }
    fn visit_mut(&mut self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {
        visitor(&branch.child(0), &mut self.first);
        self.panic_in(Walk::Mutate);
        visitor(&branch.child(1), &mut self.second);
    }
    fn define(&self, _: &mut Definition) {
        self.panic_in(Walk::Define);
    }
}

#[test]
fn walks_over_trees_may_panic() {
    let sum = |pair: &Pair| pair.first.sum() + pair.second.square().sum();
    for walk in [Walk::Visit, Walk::Rebuild] {
        let pair = Pair::new(Some(walk));
        assert_survives("grad", || drop(grad(sum)(&pair)));
        assert_survives("jvp", || drop(jvp(sum, &pair, &pair)));
        assert_survives("vmap", || drop(vmap(sum)(&pair)));
        assert_survives("checkpoint", || drop(checkpoint(sum)(&pair)));
        assert_survives("compile", || drop(compile(sum).call(&pair)));
        assert_survives("scan", || drop(scan(|pair: &Pair, _: &Tensor| (pair.clone(), ()), &pair, &ones(2))));
    }
    assert_survives("compile", || drop(compile(sum).call(&Pair::new(Some(Walk::Define)))));
}

/// Whichever walk panics in an update, no leaf of the state is lost or half written.
#[test]
fn updates_keep_the_state_when_a_walk_over_it_panics() {
    for walk in [Walk::Visit, Walk::Rebuild, Walk::Mutate, Walk::Define] {
        let step = compile(|(pair, x): &(Pair, Tensor)| {
            let next = Pair { first: &pair.first + x, second: &pair.second * 3.0, panics: pair.panics };
            (next, ())
        });
        let mut state = Pair::new(None);
        step.update(&mut state, &ones(2)).unwrap();
        state.panics = Some(walk);
        if catch_unwind(AssertUnwindSafe(|| step.update(&mut state, &ones(2)))).is_err() {
            assert_eq!(state.first.to_vec::<f64>().unwrap(), [2.0; 2], "the first leaf stays");
            assert_eq!(state.second.to_vec::<f64>().unwrap(), [3.0; 3], "the second leaf stays");
        }
        assert_works();
        state.panics = None;
        let before = (state.first.to_vec::<f64>().unwrap(), state.second.to_vec::<f64>().unwrap());
        step.update(&mut state, &ones(2)).unwrap();
        assert_eq!(state.first.to_vec::<f64>().unwrap()[0], before.0[0] + 1.0);
        assert_eq!(state.second.to_vec::<f64>().unwrap()[0], before.1[0] * 3.0);
    }
}

// ------------------------------------------------------------------ compiled functions in compiled functions

/// Behind `stop_gradient` no derivative passes, but the value of an argument is unknown all the same: a compiled function
/// that is called with it, or captures it, while another one is built must not try to read it.
#[test]
fn compiled_functions_take_and_capture_arguments_behind_stop_gradient() {
    let double = compile(|x: &Tensor| x * 2.0);
    let outer = compile(|x: &Tensor| double.call(&x.stop_gradient()).unwrap() + x);
    assert_eq!(outer.call(&ones(2)).unwrap().to_vec::<f64>().unwrap(), [3.0; 2]);
    let capturing = compile(|x: &Tensor| {
        let stopped = x.stop_gradient();
        compile(|y: &Tensor| y * &stopped).call(&ones(2)).unwrap() + x
    });
    assert_eq!(capturing.call(&(ones(2) * 3.0)).unwrap().to_vec::<f64>().unwrap(), [6.0; 2]);
    let step = compile(|(state, x): &(Tensor, Tensor)| (state + x, ()));
    let updating = compile(|x: &Tensor| {
        let mut state = x.stop_gradient();
        step.update(&mut state, &ones(2)).unwrap();
        state
    });
    assert_eq!(updating.call(&ones(2)).unwrap().to_vec::<f64>().unwrap(), [2.0; 2]);
    let mapped = vmap(|x: &Tensor| double.call(&x.argmax(0).cast(DType::F64)).unwrap());
    assert_eq!(mapped(&Tensor::from([[1.0, 2.0], [2.0, 1.0]])).to_vec::<f64>().unwrap(), [2.0, 0.0]);
    // A derivative is not taken through it.
    let slope = grad(|x: &Tensor| (double.call(&x.stop_gradient()).unwrap() * x).sum())(&ones(2));
    assert_eq!(slope.to_vec::<f64>().unwrap(), [2.0; 2]);
}
