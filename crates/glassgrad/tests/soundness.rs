//! No undefined behaviour and no wrong number from safe code: attacks on construction, tracing and compiled functions.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use glassgrad::array::Array;
use glassgrad::dtype::DType;
use glassgrad::expr::{CustomOp, Op, Rule};
use glassgrad::optim::{Optimizer, State};
use glassgrad::shape::Shape;
use glassgrad::tree::{Branch, Definition, Tree};
use glassgrad::{Tensor, Tree, calculus, checkpoint, compile, grad, hvp, jvp, scan, value_and_grad, vjp, vmap};

// ------------------------------------------------------------------ construction never evaluates

/// A history of 2000 nodes that nobody has read.
fn chain(mut t: Tensor) -> Tensor {
    for _ in 0..1000 {
        t = (t + 0.0).abs();
    }
    t
}

fn ones(shape: impl Into<Shape>) -> Tensor {
    Tensor::full(shape, 1.0, DType::F64)
}

#[test]
fn scan_after_a_long_unevaluated_history_is_right() {
    let step = |c: &Tensor, e: &Tensor| (c + e, ());
    let (last, ()) = scan(step, &chain(ones(8)), &chain(ones([3, 8])));
    assert_eq!(last.to_vec::<f64>().unwrap(), [4.0; 8]);
    // Several times the threshold, with outputs beside the carry, and a derivative.
    let long = |t: Tensor| (0..5).fold(t, |t, _| chain(t));
    let both = |x: &Tensor| {
        let (last, all) = scan(|c: &Tensor, e: &Tensor| (c + e, c * e), &long(x.clone()), &long(ones([3, 8])));
        last.sum() + all.sum()
    };
    assert_eq!(both(&ones(8)).item().unwrap(), 8.0 * (4.0 + 1.0 + 2.0 + 3.0));
    assert_eq!(grad(both)(&ones(8)).to_vec::<f64>().unwrap(), [4.0; 8]);
}

#[test]
fn checkpoint_after_a_long_unevaluated_history_is_right() {
    let twice = checkpoint(|(a, b): &(Tensor, Tensor)| (a + b, a * b));
    let (sum, product) = twice(&(chain(ones(16)), chain(ones(16) * 3.0)));
    assert_eq!(sum.to_vec::<f64>().unwrap(), [4.0; 16]);
    assert_eq!(product.to_vec::<f64>().unwrap(), [3.0; 16]);
}

#[test]
fn building_a_graph_evaluates_nothing() {
    thread_local!(static CALLS: Cell<usize> = const { Cell::new(0) });
    #[derive(Debug)]
    struct Counted;
    impl CustomOp for Counted {
        fn name(&self) -> &str {
            "counted"
        }
        fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
            Ok((inputs[0].shape().clone(), inputs[0].dtype()))
        }
        fn value(&self, inputs: &[Array]) -> Result<Array, String> {
            CALLS.set(CALLS.get() + 1);
            Ok(inputs[0].clone())
        }
        fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
            Rule::Pullback(Box::new(|cotangent| vec![Some(cotangent.clone())]))
        }
    }
    let mut y = Tensor::custom(Counted, &[&ones(2)]);
    for _ in 0..100_000 {
        y += 1.0;
    }
    assert_eq!(CALLS.get(), 0);
    assert_eq!(y.to_vec::<f64>().unwrap(), [100_001.0; 2]);
    assert_eq!(CALLS.get(), 1);
}

#[test]
fn no_tensor_is_an_operation_with_several_outputs() {
    let make = || scan(|c: &Tensor, e: &Tensor| (c + e, c * e), &ones(8), &ones([3, 8]));
    let region = |x: &Tensor| checkpoint(|x: &Tensor| (x.exp(), x.sin()))(x);
    for (output, name, expected) in [(make().0, "scan", 4.0), (region(&ones(8)).1, "remat", 1.0_f64.sin())] {
        assert!(matches!(output.op(), Op::GetOutput(_)));
        assert_eq!(output.multi_op().unwrap().name(), name);
        // The inputs of an output are those of its operation: values with shapes and types of their own.
        let inputs = output.inputs();
        assert!(!inputs.is_empty() && inputs.iter().all(|input| input.shape().elements() >= 8));
        let read: Vec<f64> = inputs.iter().map(|input| input.to_vec::<f64>().unwrap()[0]).collect();
        assert!(read.iter().all(|number| *number == 1.0), "{read:?}");
        assert_eq!(output.to_vec::<f64>().unwrap(), [expected; 8]);
        assert!(output.multi_op().is_none() && output.inputs().is_empty(), "a value without variables has no history");
    }
}

#[test]
fn outputs_of_one_operation_are_independent_values() {
    let x = ones(4).variable();
    let (a, b) = checkpoint(|x: &Tensor| (x.exp(), x.sin()))(&x);
    assert_eq!(a.to_vec::<f64>().unwrap(), [1.0_f64.exp(); 4]);
    // The second is still to be computed, and both can still be differentiated.
    let both = (&a * &b).sum();
    let expected = 1.0_f64.exp() * (1.0_f64.sin() + 1.0_f64.cos());
    for slope in both.backward().of(&x).to_vec::<f64>().unwrap() {
        assert!((slope - expected).abs() < 1e-14);
    }
    drop(both);
    assert_eq!(b.to_vec::<f64>().unwrap(), [1.0_f64.sin(); 4]);
}

#[test]
fn integer_outputs_of_an_inner_loop_are_residuals() {
    // The gradient of the outer loop reads the integer that the inner loop counts, though no derivative passes through it.
    let inner = |x: &Tensor| {
        let step = |(sum, count): &(Tensor, Tensor), _: &Tensor| ((sum * x, count + x.gt(0.5).cast(DType::I64)), ());
        scan(step, &(x.clone(), Tensor::from(0_i64)), &ones(3)).0
    };
    let loss = |x: &Tensor| {
        let step = |sum: &Tensor, x: &Tensor| {
            let (power, count) = inner(x);
            (sum + power * count.cast(DType::F64) * x, ())
        };
        scan(step, &Tensor::from(0.0), x).0
    };
    let x = Tensor::from([0.25, 1.5, 2.0]);
    // Σ 3 x⁵ where x > 1/2, and nothing elsewhere.
    assert_eq!(loss(&x).item().unwrap(), 3.0 * (1.5_f64.powi(5) + 32.0));
    let slope = grad(loss)(&x).to_vec::<f64>().unwrap();
    for (slope, expected) in slope.iter().zip([0.0, 15.0 * 1.5_f64.powi(4), 240.0]) {
        assert!((slope - expected).abs() < 1e-12, "{slope} is not {expected}");
    }
}

#[test]
fn long_chains_of_loops_are_released_without_recursion() {
    let mut state = ones(1).variable();
    for _ in 0..20_000 {
        state = scan(|c: &Tensor, e: &Tensor| (c + e, ()), &state, &ones([1, 1])).0;
    }
    drop(state);
}

#[test]
fn a_scan_keeps_the_structure_of_its_state() {
    let x = ones([3]);
    let state = (Some(ones(2)), None::<Tensor>);
    let swapped =
        scan(|(a, b): &(Option<Tensor>, Option<Tensor>), _: &Tensor| ((b.clone(), a.clone()), ()), &state, &x);
    let error = swapped.0.0.unwrap().eval().unwrap_err().to_string();
    assert!(error.contains("structure"), "{error}");
    let grown = scan(|a: &Vec<Tensor>, _: &Tensor| ([a.clone(), a.clone()].concat(), ()), &vec![ones(2)], &x);
    assert!(grown.0[0].eval().unwrap_err().to_string().contains("structure"));
    let shrunk = scan(|_: &Vec<Tensor>, _: &Tensor| (Vec::new(), ()), &vec![ones(2), ones(2)], &x);
    assert!(shrunk.0[0].eval().is_err());
}

#[test]
fn directions_of_another_structure_are_refused() {
    type Pair = (Option<Tensor>, Option<Tensor>);
    let x: Pair = (Some(ones(2)), None);
    let v: Pair = (None, Some(ones(2)));
    let f = |x: &Pair| x.0.as_ref().map_or(Tensor::from(0.0), |x| x.square().sum());
    assert!(jvp(f, &x, &v).1.eval().is_err());
    assert!(hvp(f, &x, &v).0.unwrap().eval().is_err());
    let (_, pull) = vjp(|x: &Pair| x.clone(), &x);
    assert!(pull(&v).0.unwrap().eval().is_err());
}

// ------------------------------------------------------------------ plans of compiled functions

#[test]
fn another_structure_of_the_arguments_is_another_plan() {
    type Options = (Option<Tensor>, Option<Tensor>);
    let part = |t: &Option<Tensor>, by: f64| t.as_ref().map_or(Tensor::from(0.0), |t| t * by);
    let f = compile(move |(a, b): &Options| part(a, 2.0) + part(b, 10.0));
    let x = || Some(Tensor::from(1.0));
    assert_eq!(f.call(&(x(), None)).unwrap().item().unwrap(), 2.0);
    assert_eq!(f.call(&(None, x())).unwrap().item().unwrap(), 10.0);
    assert_eq!(f.call(&(x(), None)).unwrap().item().unwrap(), 2.0);

    let sum = |list: &[Tensor]| list.iter().fold(Tensor::from(0.0), |sum, x| sum + x);
    let g = compile(move |(a, b): &(Vec<Tensor>, Vec<Tensor>)| sum(a) - sum(b));
    let list = |numbers: &[f64]| numbers.iter().map(|x| Tensor::from(*x)).collect::<Vec<_>>();
    assert_eq!(g.call(&(list(&[1.0]), list(&[2.0, 3.0]))).unwrap().item().unwrap(), -4.0);
    assert_eq!(g.call(&(list(&[1.0, 2.0]), list(&[3.0]))).unwrap().item().unwrap(), 0.0);

    let h = compile(|map: &BTreeMap<String, Tensor>| {
        map.iter().fold(Tensor::from(0.0), |sum, (key, x)| sum + x * key.len() as f64)
    });
    let map = |key: &str| BTreeMap::from([(key.to_owned(), Tensor::from(1.0))]);
    assert_eq!(h.call(&map("a")).unwrap().item().unwrap(), 1.0);
    assert_eq!(h.call(&map("abc")).unwrap().item().unwrap(), 3.0);

    #[derive(Clone, Tree)]
    struct Scaled {
        x: Tensor,
        #[tree(static)]
        factor: f64,
    }
    let s = compile(|scaled: &Scaled| &scaled.x * scaled.factor);
    for factor in [2.0, 3.0, 2.0, -0.5] {
        assert_eq!(s.call(&Scaled { x: Tensor::from(4.0), factor }).unwrap().item().unwrap(), 4.0 * factor);
    }

    #[derive(Clone, Tree)]
    enum Sign {
        Plus(Tensor),
        Minus(Tensor),
    }
    let e = compile(|sign: &Sign| match sign {
        Sign::Plus(x) => x.clone() * 1.0,
        Sign::Minus(x) => -x,
    });
    assert_eq!(e.call(&Sign::Plus(Tensor::from(1.0))).unwrap().item().unwrap(), 1.0);
    assert_eq!(e.call(&Sign::Minus(Tensor::from(1.0))).unwrap().item().unwrap(), -1.0);
}

#[test]
fn an_update_with_another_structure_is_another_plan() {
    type State = (Option<Tensor>, Option<Tensor>);
    let step = compile(|((a, b), x): &(State, Tensor)| {
        let next: State = (a.as_ref().map(|a| a + x), b.as_ref().map(|b| b - x));
        (next, ())
    });
    let x = Tensor::from(1.0);
    let mut first: State = (Some(Tensor::from(10.0)), None);
    let mut second: State = (None, Some(Tensor::from(10.0)));
    step.update(&mut first, &x).unwrap();
    step.update(&mut second, &x).unwrap();
    assert_eq!(first.0.unwrap().item().unwrap(), 11.0);
    assert_eq!(second.1.unwrap().item().unwrap(), 9.0);
}

#[test]
fn plans_are_evicted() {
    let f = compile(|x: &Tensor| x * 2.0);
    for size in 1..300 {
        assert_eq!(f.call(&ones(size)).unwrap().shape().to_vec(), [size]);
    }
    assert_eq!(format!("{f:?}"), "a compiled function with 64 plans");
    assert_eq!(f.call(&ones(1)).unwrap().item().unwrap(), 2.0);
}

// ------------------------------------------------------------------ transforms see through compiled functions

#[test]
fn derivatives_pass_through_compiled_functions() {
    let x = Tensor::from([1.0, 2.0]);
    let triple = compile(|x: &Tensor| x * 3.0);
    let cube = compile(|x: &Tensor| x.powi(3));
    assert_eq!(grad(|x: &Tensor| triple.call(x).unwrap().sum())(&x).to_string(), "[3, 3]");
    assert_eq!(grad(|x: &Tensor| cube.call(x).unwrap().sum())(&x).to_string(), "[ 3, 12]");
    assert_eq!(jvp(|x: &Tensor| cube.call(x).unwrap(), &x, &ones(2)).1.to_string(), "[ 3, 12]");
    assert_eq!(hvp(|x: &Tensor| cube.call(x).unwrap().sum(), &x, &ones(2)).to_string(), "[ 6, 12]");
    assert_eq!(vmap(|x: &Tensor| cube.call(x).unwrap())(&x).to_string(), "[1, 8]");
    let nested = compile(|x: &Tensor| cube.call(&triple.call(x).unwrap()).unwrap().sum());
    assert_eq!(nested.call(&x).unwrap().item().unwrap(), 27.0 + 216.0);
    assert_eq!(grad(|x: &Tensor| nested.call(x).unwrap())(&x).to_string(), "[ 81, 324]");
    let compiled_gradient = compile(grad(|x: &Tensor| cube.call(x).unwrap().sum()));
    assert_eq!(compiled_gradient.call(&x).unwrap().to_string(), "[ 3, 12]");
    let inside = scan(|c: &Tensor, e: &Tensor| (triple.call(&(c + e)).unwrap(), ()), &Tensor::from(0.0), &x);
    assert_eq!(inside.0.item().unwrap(), 15.0);
    assert_eq!(checkpoint(|x: &Tensor| cube.call(x).unwrap())(&x).to_string(), "[1, 8]");

    let v = x.clone().variable();
    assert_eq!(cube.call(&v).unwrap().sum().backward().of(&v).to_string(), "[ 3, 12]");
}

#[test]
fn derivatives_pass_through_what_a_compiled_function_captures() {
    let x = Tensor::from([1.0, 2.0]);
    let product = |w: &Tensor| compile(|x: &Tensor| x * w).call(&x).unwrap().sum();
    assert_eq!(grad(product)(&Tensor::from(5.0)).item().unwrap(), 3.0);
    assert_eq!(vmap(product)(&Tensor::from([1.0, 2.0])).to_string(), "[3, 6]");
    assert_eq!(compile(product).call(&Tensor::from(2.0)).unwrap().item().unwrap(), 6.0);
    let w = Tensor::from(4.0).variable();
    let f = compile(|x: &Tensor| x * &w);
    for _ in 0..2 {
        let y = f.call(&x).unwrap().sum();
        assert_eq!((y.item().unwrap(), y.backward().of(&w).item().unwrap()), (12.0, 3.0));
    }
}

#[test]
fn derivatives_pass_through_updates() {
    let step = compile(|(w, x): &(Tensor, Tensor)| (w - x * 0.5, w * x));
    let loss = |x: &Tensor| {
        let mut w = Tensor::from(2.0);
        let first = step.update(&mut w, x).unwrap();
        let second = step.update(&mut w, x).unwrap();
        first + second + w
    };
    // 2x + (2 - x/2) x + 2 - x, of slope 3 - x.
    let (value, slope) = value_and_grad(loss)(&Tensor::from(1.0));
    assert_eq!((value.item().unwrap(), slope.item().unwrap()), (2.0 + 1.5 + 1.0, 2.0));
}

// ------------------------------------------------------------------ trees that lie

/// What a lying tree does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Hash)]
enum Lie {
    None,
    VisitsLarger,
    VisitsFewer,
    RebuildsReversed,
    RebuildsFewer,
    RebuildsMore,
    RebuildsOthers,
    MutatesReversed,
    MutatesFewer,
    MutatesMore,
}

#[derive(Clone)]
struct Liar {
    first: Tensor,
    second: Tensor,
    lie: Lie,
}

impl Tree for Liar {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        match self.lie {
            Lie::VisitsLarger => visitor(&branch.child(0), &Tensor::full(100_000, 1.0, DType::F64)),
            _ => visitor(&branch.child(0), &self.first),
        }
        if self.lie != Lie::VisitsFewer {
            visitor(&branch.child(1), &self.second);
        }
    }
    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
        let (first, second) = match self.lie {
            Lie::RebuildsReversed => {
                let second = leaf(&branch.child(1), &self.second);
                (leaf(&branch.child(0), &self.first), second)
            }
            Lie::RebuildsFewer => (leaf(&branch.child(0), &self.first), self.second.clone()),
            Lie::RebuildsOthers => {
                (leaf(&branch.child(0), &Tensor::full(50_000, 1.0, DType::F64)), leaf(&branch.child(1), &self.second))
            }
            _ => (leaf(&branch.child(0), &self.first), leaf(&branch.child(1), &self.second)),
        };
        if self.lie == Lie::RebuildsMore {
            leaf(&branch.child(2), &self.second);
        }
        Liar { first, second, lie: self.lie }
    }
    fn visit_mut(&mut self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &mut Tensor)) {
        match self.lie {
            Lie::MutatesReversed => {
                visitor(&branch.child(1), &mut self.second);
                visitor(&branch.child(0), &mut self.first);
            }
            Lie::MutatesFewer => visitor(&branch.child(0), &mut self.first),
            _ => {
                visitor(&branch.child(0), &mut self.first);
                visitor(&branch.child(1), &mut self.second);
            }
        }
        if self.lie == Lie::MutatesMore {
            visitor(&branch.child(2), &mut Tensor::from(1.0));
        }
    }
    fn define(&self, _: &mut Definition) {}
}

fn liar(lie: Lie) -> Liar {
    Liar { first: ones(4), second: ones(1000), lie }
}

const LIES: [Lie; 9] = [
    Lie::VisitsLarger,
    Lie::VisitsFewer,
    Lie::RebuildsReversed,
    Lie::RebuildsFewer,
    Lie::RebuildsMore,
    Lie::RebuildsOthers,
    Lie::MutatesReversed,
    Lie::MutatesFewer,
    Lie::MutatesMore,
];

#[test]
fn trees_that_lie_are_refused_by_compiled_functions() {
    let sum = |x: &Liar| x.first.sum() + x.second.sum();
    for lie in LIES {
        let mutates = matches!(lie, Lie::MutatesReversed | Lie::MutatesFewer | Lie::MutatesMore);
        let called = compile(sum).call(&liar(lie));
        match called {
            Ok(value) => assert!(mutates && value.item() == Ok(1004.0), "{lie:?}"),
            Err(error) => assert!(!mutates && error.to_string().contains("Liar"), "{lie:?}: {error}"),
        }
        // As a state: it stays as it was.
        let step = compile(|(x, by): &(Liar, Tensor)| {
            (Liar { first: &x.first + by, second: &x.second + by, lie: x.lie }, by.clone())
        });
        let mut state = liar(lie);
        let error = step.update(&mut state, &Tensor::from(1.0)).unwrap_err();
        assert!(error.to_string().contains("Liar"), "{lie:?}: {error}");
        assert_eq!(state.first.to_vec::<f64>().unwrap(), [1.0; 4], "{lie:?}");
        assert_eq!(state.second.to_vec::<f64>().unwrap(), [1.0; 1000], "{lie:?}");
        // As a result.
        let result = compile(|x: &Tensor| Liar { first: x * 2.0, second: x * 3.0, lie: Lie::None });
        assert!(result.call(&ones(4)).is_ok());
        if !mutates {
            let result = compile(move |x: &Tensor| Liar { first: x * 2.0, second: x * 3.0, lie });
            assert!(result.call(&ones(4)).is_err(), "{lie:?}");
        }
    }
    let mut state = liar(Lie::None);
    let step = compile(|(x, by): &(Liar, Tensor)| {
        (Liar { first: &x.first + by, second: &x.second + by, lie: x.lie }, by.clone())
    });
    step.update(&mut state, &Tensor::from(1.0)).unwrap();
    assert_eq!((state.first.sum().item(), state.second.sum().item()), (Ok(8.0), Ok(2000.0)));
}

#[test]
fn trees_that_lie_are_refused_by_transforms() {
    let sum = |x: &Liar| (&x.first * 2.0).sum() + (&x.second * 3.0).sum();
    for lie in LIES {
        if matches!(lie, Lie::MutatesReversed | Lie::MutatesFewer | Lie::MutatesMore) {
            continue;
        }
        let slope = grad(sum)(&liar(lie));
        assert!(slope.first.eval().unwrap_err().to_string().contains("Liar"), "{lie:?}");
        assert!(jvp(sum, &liar(lie), &liar(lie)).1.eval().is_err(), "{lie:?}");
        assert!(vmap(sum)(&Liar { second: ones(4), ..liar(lie) }).eval().is_err(), "{lie:?}");
        let (last, ()) = scan(|x: &Liar, _: &Tensor| (x.clone(), ()), &liar(lie), &ones(3));
        assert!(last.first.eval().is_err(), "{lie:?}");
    }
}

/// A tree whose leaves change between calls of `visit`.
struct Moody(RefCell<usize>);

impl Tree for Moody {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        *self.0.borrow_mut() += 1;
        visitor(branch, &ones(*self.0.borrow() * 1000));
    }
    fn rebuild(&self, _: &Branch<'_>, _: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
        Moody(RefCell::new(0))
    }
    fn define(&self, _: &mut Definition) {}
}

#[test]
fn a_tree_whose_leaves_change_is_refused() {
    let f = compile(|_: &Moody| ones(3));
    assert!(f.call(&Moody(RefCell::new(0))).unwrap_err().to_string().contains("Moody"));
}

// ------------------------------------------------------------------ panics

#[derive(Debug)]
struct Panics;

impl CustomOp for Panics {
    fn name(&self) -> &str {
        "panics"
    }
    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((inputs[0].shape().clone(), inputs[0].dtype()))
    }
    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        assert!(inputs[0].buffer().get(0) < 2.5, "a panic in an operation of the user's own");
        Ok(inputs[0].clone())
    }
    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|cotangent| vec![Some(cotangent.clone())]))
    }
}

#[test]
fn an_update_keeps_its_state_when_an_operation_panics() {
    let step = compile(|((a, b), x): &((Tensor, Tensor), Tensor)| {
        let next = (a + x, b * 2.0 + Tensor::custom(Panics, &[a]));
        (next, ())
    });
    let mut state = (ones(3), ones(3));
    let x = ones(3);
    for expected in [[2.0, 3.0], [3.0, 8.0]] {
        step.update(&mut state, &x).unwrap();
        assert_eq!([state.0.max().item().unwrap(), state.1.max().item().unwrap()], expected);
    }
    for _ in 0..2 {
        assert!(catch_unwind(AssertUnwindSafe(|| step.update(&mut state, &x))).is_err());
        assert_eq!(state.0.to_vec::<f64>().unwrap(), [3.0; 3]);
        assert_eq!(state.1.to_vec::<f64>().unwrap(), [8.0; 3]);
    }
    // The function still works, here and elsewhere.
    let mut other = (ones(3), ones(3));
    step.update(&mut other, &x).unwrap();
    assert_eq!(other.0.to_vec::<f64>().unwrap(), [2.0; 3]);
}

// ------------------------------------------------------------------ optimizers and structured derivatives

#[test]
fn gradients_and_states_that_do_not_belong_to_the_parameters_are_refused() {
    type Pair = (Option<Tensor>, Option<Tensor>);
    let parameters: Pair = (Some(ones(3)), None);
    let optimizer = Optimizer::adam(0.1);
    let state = optimizer.init(&parameters);
    let check = |gradient: Pair, state: &State<Pair>, expected: &str| {
        let (moved, _) = optimizer.update(&parameters, &gradient, state);
        let error = moved.0.unwrap().eval().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("soundness.rs"), "{error}");
    };
    check((None, Some(ones(3))), &state, "no leaf \"0\"");
    check((None, None), &state, "no leaf \"0\"");
    check((Some(ones(1)), None), &state, "f64[1]");
    check((Some(ones(3).cast(DType::F32)), None), &state, "f32[3]");
    check((Some(ones(3)), None), &optimizer.init(&(None, Some(ones(3)))), "the state has no leaf");
    check((Some(ones(3)), None), &Optimizer::new(0.1).init(&parameters), "links");
    let (moved, _) = optimizer.update(&parameters, &(Some(ones(3)), None), &state);
    assert!(moved.0.unwrap().eval().is_ok());
}

#[test]
fn structured_derivatives_are_planned_for_each_structure() {
    #[derive(Clone, Tree)]
    struct Scaled {
        x: Tensor,
        #[tree(static)]
        factor: f64,
    }
    let curvature = calculus::hessian(|s: &Scaled| (&s.x * s.factor).square().sum());
    for factor in [1.0, 3.0, 1.0] {
        let point = Scaled { x: ones(2), factor };
        let diagonal = curvature.at(&point).unwrap().diag().unwrap().x;
        assert_eq!(diagonal.to_vec::<f64>().unwrap(), [2.0 * factor * factor; 2]);
    }
    type Pair = (Option<Tensor>, Option<Tensor>);
    let part = |x: &Option<Tensor>, by: f64| x.as_ref().map_or(Tensor::from(0.0), |x| (x * by).square().sum());
    let curvature = calculus::hessian(move |(a, b): &Pair| part(a, 1.0) + part(b, 2.0));
    let diagonal = |point: &Pair| curvature.at(point).unwrap().diag().unwrap();
    assert_eq!(diagonal(&(Some(ones(1)), None)).0.unwrap().item().unwrap(), 2.0);
    assert_eq!(diagonal(&(None, Some(ones(1)))).1.unwrap().item().unwrap(), 8.0);
    // More shapes than plans are kept.
    let many = calculus::hessian(|x: &Tensor| x.exp().sum());
    for size in (1..80).chain(1..80) {
        assert_eq!(many.at(&ones(size)).unwrap().diag().unwrap().shape().to_vec(), [size]);
    }
}
