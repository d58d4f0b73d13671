//! Functions of a state that is written over: the same numbers as without, nothing changed that others hold, and
//! nothing lost when a step fails.

use glassgrad::tree::Tree;
use glassgrad::{Tensor, Tree, compile, value_and_grad};

type Parameters = Vec<(Tensor, Tensor)>;
/// Parameters, and running means of slopes and of their squares.
type State = (Parameters, Parameters, Parameters);
type Data = (Tensor, Tensor);

fn numbers(shape: [usize; 2], phase: f64) -> Tensor {
    let elements: Vec<f64> = (0..shape[0] * shape[1]).map(|k| (k as f64 * 0.37 + phase).sin()).collect();
    Tensor::new(&elements, shape)
}

fn start() -> (State, Data) {
    let layer =
        |rows: usize, columns: usize, phase| (numbers([rows, columns], phase), numbers([1, columns], phase + 1.0));
    let parameters: Parameters = vec![layer(3, 5, 0.1), layer(5, 4, 0.2), layer(4, 2, 0.3)];
    let zeros = || Tree::zeros_like(&parameters).realise().unwrap();
    let state = (parameters.clone(), zeros(), zeros());
    (state, (numbers([6, 3], 0.4), numbers([6, 2], 0.5)))
}

fn loss(parameters: &Parameters, (x, y): &Data) -> Tensor {
    let last = parameters.len() - 1;
    let output = parameters.iter().enumerate().fold(x.clone(), |x, (k, (weight, bias))| {
        let y = x.matmul(weight) + bias;
        if k == last { y } else { y.tanh() }
    });
    (output - y).square().mean()
}

fn adam((state, data): &(State, Data)) -> (State, Tensor) {
    let (parameters, means, squares) = state;
    let (value, slopes) = value_and_grad(|parameters: &Parameters| loss(parameters, data))(parameters);
    let means = means.zip(&slopes, |mean, slope| mean * 0.9 + slope * 0.1);
    let squares = squares.zip(&slopes, |square, slope| square * 0.999 + slope.square() * 0.001);
    let moved = means.zip(&squares, |mean, square| mean / (square.sqrt() + 1e-8) * 0.01);
    (((parameters.zip(&moved, |parameter, moved| parameter - moved)), means, squares), value)
}

fn all_numbers(tree: &impl Tree) -> Vec<Vec<f64>> {
    tree.flatten().iter().map(|leaf| leaf.to_vec().unwrap()).collect()
}

#[test]
fn an_update_computes_what_a_call_computes_to_the_last_bit() {
    let ((mut updated, data), step) = (start(), compile(adam));
    let mut called = start().0;
    let mut losses = Vec::new();
    for _ in 0..30 {
        let (next, value) = step.call(&(called, data.clone())).unwrap();
        called = next;
        let same = step.update(&mut updated, &data).unwrap();
        assert_eq!(same.item().unwrap().to_bits(), value.item().unwrap().to_bits());
        assert_eq!(all_numbers(&updated), all_numbers(&called));
        losses.push(value.item().unwrap());
    }
    assert!(losses[29] < 0.8 * losses[0], "{losses:?}");
}

#[test]
fn a_state_that_others_hold_stays_as_it_is_for_them() {
    let ((mut state, data), step) = (start(), compile(adam));
    let held = state.clone();
    let before = all_numbers(&held);
    step.update(&mut state, &data).unwrap();
    assert_eq!(all_numbers(&held), before);
    assert_ne!(all_numbers(&state), before);
    // The same tensor at two places of a state.
    let twice = numbers([2, 2], 0.7);
    let expected: Vec<f64> = twice.to_vec::<f64>().unwrap().iter().map(|x| x + 1.0).collect();
    let both = compile(|((a, b), c): &((Tensor, Tensor), Tensor)| ((a + 1.0, b + c), ()));
    let mut pair = (twice.clone(), twice.clone());
    both.update(&mut pair, &Tensor::from(1.0)).unwrap();
    assert_eq!(all_numbers(&pair), [expected.clone(), expected]);
    assert_eq!(twice.to_vec::<f64>().unwrap(), numbers([2, 2], 0.7).to_vec::<f64>().unwrap());
}

#[test]
fn states_may_change_places_and_be_read_after_they_were_written() {
    // Fibonacci: each of the two becomes something else, and one is read by both.
    let step = compile(|((a, b), ()): &((Tensor, Tensor), ())| ((b.clone(), a + b), a * 1.0));
    let mut state = (Tensor::from([0.0, 1.0]), Tensor::from([1.0, 3.0]));
    for _ in 0..10 {
        let before = state.0.to_vec::<f64>().unwrap();
        assert_eq!(step.update(&mut state, &()).unwrap().to_vec::<f64>().unwrap(), before);
    }
    assert_eq!(all_numbers(&state), [[55.0, 199.0], [89.0, 322.0]]);
    // A product reads rows that a loop writes: the old matrix must be there to the end.
    let power = compile(|(a, ()): &(Tensor, ())| (a.matmul(a) * 0.5 + a.transpose(), a.sum()));
    let mut matrix = numbers([3, 3], 0.2);
    let mut expected = numbers([3, 3], 0.2);
    for _ in 0..4 {
        expected = (expected.matmul(&expected) * 0.5 + expected.transpose()).realise().unwrap();
        power.update(&mut matrix, &()).unwrap();
    }
    assert_eq!(all_numbers(&matrix), all_numbers(&expected));
    // Neighbours: an element reads another one's old value.
    let shift = compile(|(x, ()): &(Tensor, ())| (x + x.flip([0]) * 10.0, ()));
    let mut row = Tensor::from([1.0, 2.0, 3.0]);
    shift.update(&mut row, &()).unwrap();
    assert_eq!(row.to_vec::<f64>().unwrap(), [31.0, 22.0, 13.0]);
}

#[test]
fn a_step_that_fails_leaves_the_state_as_it_was() {
    let step = compile(|((table, count), place): &((Tensor, Tensor), Tensor)| {
        let row = table.take(place, 0).sum();
        ((table - &row, count + 1.0), row)
    });
    let mut state = (numbers([4, 2], 0.3).named("table"), Tensor::from(0.0).named("count"));
    let before = all_numbers(&state);
    step.update(&mut state, &Tensor::from([1_i64])).unwrap();
    let after = all_numbers(&state);
    assert_ne!(after, before);
    state = (state.0.named("table"), state.1.named("count"));
    let error = step.update(&mut state, &Tensor::from([9_i64])).unwrap_err();
    assert!(error.to_string().contains('9'), "{error}");
    assert_eq!(all_numbers(&state), after);
    assert_eq!((state.0.name(), state.1.name()), (Some("table"), Some("count")));
    // And it goes on.
    step.update(&mut state, &Tensor::from([0_i64])).unwrap();
    assert_eq!(state.1.item().unwrap(), 2.0);
}

#[test]
fn a_state_may_grow_and_its_static_fields_stay() {
    let grown = compile(|(list, ()): &(Vec<Tensor>, ())| {
        let next: Vec<Tensor> = list.iter().chain(list.last()).map(|x| x + 1.0).collect();
        (next, ())
    });
    let mut list = vec![Tensor::from(1.0)];
    for _ in 0..3 {
        grown.update(&mut list, &()).unwrap();
    }
    assert_eq!(all_numbers(&list), [[4.0], [4.0], [4.0], [4.0]]);
    #[derive(Tree)]
    struct Named {
        #[tree(static)]
        name: &'static str,
        x: Tensor,
    }
    let step = compile(|(named, ()): &(Named, ())| (named.map(|x| x * 2.0), ()));
    for name in ["one", "other"] {
        let mut named = Named { name, x: Tensor::from(3.0) };
        step.update(&mut named, &()).unwrap();
        assert_eq!((named.name, named.x.item()), (name, Ok(6.0)));
    }
}

#[test]
fn other_shapes_are_planned_anew_and_empty_ones_are_fine() {
    let step = compile(|(x, ()): &(Tensor, ())| (x * 2.0, x.sum()));
    for count in [3, 0, 3, 1] {
        let mut x = Tensor::ones([count]);
        assert_eq!(step.update(&mut x, &()).unwrap().item().unwrap(), count as f64);
        assert_eq!(x.to_vec::<f32>().unwrap(), vec![2.0; count]);
    }
}
