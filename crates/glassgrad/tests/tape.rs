//! The structure and the life of a tape: what it shows, what it refuses, and what it does not allocate.

#[path = "judges/heap.rs"]
mod heap;
#[path = "judges/random.rs"]
mod random;

use glassgrad::Real;
use glassgrad::ops::{Algebra, Operation, Relation};
use glassgrad::scalar::{
    Active, Guard, Mode, Node, NodeId, Operand, Recorded, ReplayError, Sweep, Tape, Var, Workspace, gradient, hessian,
    jacobian, value_and_gradient, vjp,
};
use random::Random;

#[global_allocator]
static HEAP: heap::CountingAllocator = heap::CountingAllocator;

// ------------------------------------------------------------------ structure

#[test]
fn a_number_used_often_collects_from_every_use() {
    let tape = Tape::new();
    let x = tape.input(3.0);
    let uses: Vec<Var<'_>> = (1..=5).map(|k| x * f64::from(k)).collect();
    let y = uses.iter().copied().sum::<Var<'_>>() + x;
    assert_eq!(tape.reverse(y).of(x), 16.0);
    assert_eq!(tape.forward(x).of(y), 16.0);
    let children = tape.children(x);
    assert_eq!(children.len(), 6, "five products and the last sum");
    assert!(children.is_sorted());
}

#[test]
fn a_number_times_itself_is_two_uses_of_one_node() {
    let tape = Tape::new();
    let x = tape.input(3.0);
    let y = x * x;
    let id = NodeId::from(x);
    assert_eq!(tape.node(y).operands, [Operand::Node(id), Operand::Node(id)]);
    assert_eq!(tape.node(y).parents().collect::<Vec<_>>(), [(id, 3.0), (id, 3.0)]);
    assert_eq!(tape.children(x), [NodeId::from(y); 2]);
    assert_eq!((tape.reverse(y).of(x), tape.forward(x).of(y)), (6.0, 6.0));
    assert_eq!(tape.reachable(x), [id, y.into()], "a set names a node once");
    assert_eq!(tape.order_towards(y), [y.into(), id]);
}

#[test]
fn several_outputs_share_one_recording() {
    let tape = Tape::new();
    let x = tape.inputs(&[2.0, 3.0]);
    let product = x[0] * x[1];
    let outputs = [product.square(), product + x[0], x[1] * 4.0];
    let gradients: Vec<[f64; 2]> = outputs
        .iter()
        .map(|y| {
            let adjoints = tape.reverse(*y);
            [adjoints.of(x[0]), adjoints.of(x[1])]
        })
        .collect();
    assert_eq!(gradients, [[36.0, 24.0], [4.0, 2.0], [0.0, 4.0]]);

    // Weights on all outputs at once give the weighted sum; seeds on one node add up.
    let mut sweep = Sweep::new();
    let weights = [(outputs[0].into(), 1.0), (outputs[1].into(), 10.0), (outputs[2].into(), 50.0)];
    tape.reverse_into(&[weights[0], weights[1], weights[2], (outputs[2].into(), 50.0)], &mut sweep);
    assert_eq!([sweep.of(x[0]), sweep.of(x[1])], [36.0 + 40.0, 24.0 + 20.0 + 400.0]);
    // An output above another is an ancestor's child like any node.
    tape.reverse_into(&[(product.into(), 1.0)], &mut sweep);
    assert_eq!([sweep.of(x[0]), sweep.of(x[1]), sweep.of(outputs[0])], [3.0, 2.0, 0.0], "the old sweep is gone");
}

#[test]
fn tangents_can_start_and_adjoints_can_end_anywhere() {
    let tape = Tape::new();
    let x = tape.input(2.0);
    let inner = x.square();
    let y = inner * inner * x;
    assert_eq!(tape.forward(inner).of(y), 16.0, "the derivative by an intermediate number");
    assert_eq!(tape.reverse(y).of(inner), 16.0);
    assert_eq!(tape.forward(inner).of(x), 0.0);
    assert_eq!(tape.reverse(inner).of(y), 0.0);
    assert_eq!(tape.reverse(y)[y.into()], 1.0);
    assert_eq!(tape.forward(x).as_slice().len(), tape.len());
}

// ------------------------------------------------------------------ what a node shows

#[test]
fn a_node_shows_its_constants_and_its_parameter() {
    let tape = Tape::new();
    let x = tape.input(4.0);
    let id = NodeId::from(x);
    let show = |y: Var<'_>| {
        let Node { operation, parameter, operands, partials, .. } = tape.node(y);
        (operation, parameter, operands, partials)
    };
    let (node, constant) = (Operand::Node(id), Operand::Constant);
    assert_eq!(show(x), (Operation::Input, None, vec![], vec![]));
    assert_eq!(show(x - 1.0), (Operation::Sub, None, vec![node, constant(1.0)], vec![1.0]));
    assert_eq!(show(1.0 - x), (Operation::Sub, None, vec![constant(1.0), node], vec![-1.0]));
    assert_eq!(show(x / 8.0), (Operation::Div, None, vec![node, constant(8.0)], vec![0.125]));
    assert_eq!(show(8.0 / x), (Operation::Div, None, vec![constant(8.0), node], vec![-0.5]));
    assert_eq!(show(-x), (Operation::Neg, None, vec![node], vec![-1.0]));
    assert_eq!(show(x.powi(3)), (Operation::Powi, Some(3.0), vec![node], vec![48.0]));
    assert_eq!(show(x.powf(0.5)), (Operation::Powf, Some(0.5), vec![node], vec![0.25]));
    assert_eq!(show((-x).leaky_relu(0.2)).1, Some(0.2));
    assert_eq!(show(x.step(7.0)), (Operation::Step, Some(7.0), vec![node], vec![0.0]));
    assert_eq!(show(x.max(Var::constant(9.0))), (Operation::Max, None, vec![node, constant(9.0)], vec![0.0]));
    // A choice has only the chosen operand as a parent.
    let choose = |relation| Algebra::choose(x, relation, Var::constant(0.0), x, Var::constant(-1.0));
    assert_eq!(show(choose(Relation::Greater)), (Operation::Where, None, vec![node], vec![1.0]));
    assert_eq!(show(choose(Relation::Less)), (Operation::Where, None, vec![constant(-1.0)], vec![]));
    assert_eq!(tape.choices().len(), 2);
    assert_eq!((tape.choices()[0].taken, tape.choices()[0].otherwise), (node, constant(-1.0)));
    assert_eq!(
        tape.choices()[1].guard,
        Guard { left: node, relation: Relation::Less, right: constant(0.0), outcome: false }
    );
    assert!(tape.guards().is_empty(), "a choice is no branch of the program");
}

#[test]
fn operations_on_constants_record_nothing() {
    let tape = Tape::new();
    let x = tape.input(2.0);
    let constant = (Var::constant(3.0).sin() + 1.0).max(Var::constant(0.5)) * 2.0;
    assert_eq!((constant.id(), tape.len()), (None, 1));
    assert!(Var::constant(1.0) < Var::constant(2.0));
    assert!(tape.guards().is_empty());
    let none: [Var<'_>; 0] = [];
    assert_eq!(none.into_iter().sum::<Var<'_>>().id(), None);
    assert_eq!(none.into_iter().product::<Var<'_>>().value(), 1.0);
    assert_eq!([x].into_iter().sum::<Var<'_>>().id(), x.id(), "the sum of one number is that number");
    let recorded = constant.recorded_on(&tape);
    assert_eq!((tape.len(), tape.node(recorded).operation), (2, Operation::Input));
    assert_eq!(x.recorded_on(&tape).id(), x.id());
}

#[test]
fn nodes_have_the_names_that_they_were_given() {
    let mut tape = Tape::new();
    let x = tape.input(1.0).named("speed");
    let y = x.exp();
    assert_eq!((tape.name_of(x), tape.name_of(y)), ("speed".into(), "v1".into()));
    assert_eq!((tape.given_name(x), tape.given_name(y)), (Some("speed".into()), None));
    tape.name(y, "growth");
    tape.name(x, "pace");
    assert_eq!((tape.name_of(x), tape.name_of(y)), ("pace".into(), "growth".into()));
    assert_eq!(Var::<f64>::constant(2.0).named("nobody").id(), None, "a constant is on no tape and has no name");
    tape.clear();
    let z = NodeId::from(tape.input(1.0));
    assert_eq!(tape.name_of(z), "v0", "a name does not outlive its node");
}

#[test]
fn an_empty_tape_is_empty() {
    let mut tape = Tape::<f64>::default();
    assert!(tape.is_empty() && tape.bytes() == 0);
    assert_eq!((tape.ids().len(), tape.guards().len(), tape.choices().len()), (0, 0, 0));
    assert_eq!(tape.replay(&[]), Ok(()));
    let mut sweep = Sweep::new();
    tape.reverse_into(&[], &mut sweep);
    tape.forward_into(&[], &mut sweep);
    assert!(sweep.as_slice().is_empty());
}

// ------------------------------------------------------------------ guards and replay

#[test]
fn every_comparison_of_the_program_is_guarded() {
    let tape = Tape::new();
    let (x, y) = (tape.input(1.0), tape.input(2.0));
    let _ = (x < y, x <= y, x > y, x >= y, x == y, x.partial_cmp(&y), x < 5.0, x == 1.0, x.partial_cmp(&0.5));
    let (x, y) = (Operand::Node(x.into()), Operand::Node(y.into()));
    let guard = |relation, right, outcome| Guard { left: x, relation, right, outcome };
    use Relation::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
    let expected = [
        guard(Less, y, true),
        guard(LessOrEqual, y, true),
        guard(Greater, y, false),
        guard(GreaterOrEqual, y, false),
        guard(Equal, y, false),
        guard(Less, y, true),
        guard(Less, Operand::Constant(5.0), true),
        guard(Equal, Operand::Constant(1.0), true),
        guard(Greater, Operand::Constant(0.5), true),
    ];
    assert_eq!(tape.guards(), expected);
}

/// Replays and returns the message of the error.
fn refusal(tape: &mut Tape, inputs: &[f64]) -> String {
    tape.replay(inputs).expect_err("the recording does not hold here").to_string()
}

#[test]
fn a_replay_that_would_branch_says_where_in_the_names_of_the_tape() {
    let ending = "the program would take another branch; record it anew";
    let mut tape = Tape::new();
    let (speed, limit) = (tape.input(1.0).named("speed"), tape.input(2.0));
    assert!(speed > 0.0 && speed <= limit);
    let drag = speed.square();
    assert!(drag != 4.0);
    let drag = NodeId::from(drag);

    assert_eq!(
        refusal(&mut tape, &[-3.0, 2.0]),
        format!(
            "comparison 0, speed > 0 with speed = -3, was true when recorded and is false at these inputs: {ending}"
        )
    );
    assert_eq!(
        refusal(&mut tape, &[3.0, 2.5]),
        format!(
            "comparison 1, speed <= v1 with speed = 3 and v1 = 2.5, was true when recorded and is false at these \
             inputs: {ending}"
        )
    );
    assert_eq!(
        refusal(&mut tape, &[2.0, 9.0]),
        format!("comparison 2, v2 == 4 with v2 = 4, was false when recorded and is true at these inputs: {ending}")
    );
    assert_eq!(tape.value(drag), 1.0, "a refused replay leaves the tape as it was");
    assert_eq!(tape.node(drag).partials, [2.0]);
    assert_eq!(tape.replay(&[1.5, 2.0]), Ok(()));
    assert_eq!((tape.value(drag), tape.node(drag).partials[0]), (2.25, 3.0));

    assert_eq!(
        tape.replay(&[0.0, 1.0]),
        Err(ReplayError::BranchChanged {
            comparison: 0,
            description: "speed > 0 with speed = 0".into(),
            recorded: true
        })
    );
}

#[test]
fn a_comparison_with_a_constant_on_the_left_reads_that_way_round() {
    let mut tape = Tape::new();
    let large = Var::constant(1.0) >= tape.input(4.0);
    assert!(!large);
    assert!(refusal(&mut tape, &[0.25]).starts_with("comparison 0, 1 >= v0 with v0 = 0.25, was false when recorded"));
}

#[test]
fn the_wrong_number_of_inputs_is_refused() {
    let mut tape = Tape::new();
    let y = NodeId::from(tape.input(1.0).exp());
    assert_eq!(refusal(&mut tape, &[]), "the recording has 1 input, but 0 were given");
    assert_eq!(refusal(&mut tape, &[1.0, 2.0]), "the recording has 1 input, but 2 were given");
    let _ = tape.input(5.0);
    assert_eq!(refusal(&mut tape, &[1.0]), "the recording has 2 inputs, but 1 was given");
    assert_eq!(tape.replay(&[1.0]), Err(ReplayError::WrongInputs { expected: 2, given: 1 }));
    assert_eq!(tape.replay(&[0.0, 0.0]), Ok(()));
    assert_eq!(tape.value(y), 1.0);
}

#[test]
fn a_number_that_could_not_be_ordered_is_guarded_too() {
    // With NaN no order holds. A replay at numbers that have one would take another branch.
    let mut tape = Tape::new();
    assert_eq!(tape.input(f64::NAN).partial_cmp(&1.0), None);
    assert_eq!(tape.replay(&[f64::NAN]), Ok(()));
    for x in [0.0, 1.0, 2.0] {
        assert!(tape.replay(&[x]).is_err(), "NaN was recorded, and {x} is not NaN");
    }
}

#[test]
fn a_refused_replay_restores_choices_and_branches() {
    let mut tape = Tape::new();
    let x = tape.input(2.0);
    let chosen = Algebra::choose(x, Relation::Greater, Var::constant(1.0), x.square(), -x);
    assert!(x > -5.0);
    let (x, chosen) = (NodeId::from(x), NodeId::from(chosen));
    assert!(tape.replay(&[-9.0]).is_err());
    assert_eq!((tape.value(chosen), tape.reverse(chosen).of(x)), (4.0, 4.0));
    assert!(tape.choices()[0].guard.outcome);
    assert_eq!(tape.replay(&[-1.0]), Ok(()));
    assert_eq!((tape.value(chosen), tape.reverse(chosen).of(x)), (1.0, -1.0));
    assert!(!tape.choices()[0].guard.outcome);
}

#[test]
fn inputs_recorded_late_are_replayed_in_their_order() {
    let mut tape = Tape::new();
    let a = tape.input(2.0);
    let b = a * a;
    let late = tape.input(10.0);
    let y = NodeId::from(b * late + Var::constant(3.0).recorded_on(&tape));
    assert_eq!(tape.value(y), 43.0);
    tape.replay(&[3.0, 100.0, 7.0]).unwrap();
    assert_eq!(tape.value(y), 907.0);
}

// ------------------------------------------------------------------ replay of random programs

/// Runs a random program over the whole table, kinks, flat rows and poles included.
fn random_program<'t>(seed: u64, inputs: &[Var<'t>]) -> Var<'t> {
    let mut random = Random::new(seed);
    let mut pool = inputs.to_vec();
    for _ in 0..40 {
        let operation = Operation::ALL[random.next() as usize % Operation::ALL.len()];
        let mut pick = || {
            let place = random.next() as usize % (pool.len() + 1);
            // Past the end stands a constant.
            pool.get(place).copied().unwrap_or_else(|| Var::constant(random.within(&(-2.0..2.0))))
        };
        let (a, b) = (pick(), pick());
        let parameter = operation.parameter().map_or(0.0, |parameter| parameter.default);
        let applied = operation.apply_unary(a, parameter).or_else(|| operation.apply_binary(a, b));
        pool.push(applied.expect("every row takes one argument or two"));
        if random.next().is_multiple_of(8) {
            pool.push(Algebra::choose(a, Relation::Less, b, a, b));
        }
    }
    pool.into_iter().rev().find(|y| y.id().is_some()).expect("the inputs are on the tape")
}

/// A number as its bits, so that NaN equals itself; the sign of NaN is left open by the standard.
fn bits_of(number: f64) -> u64 {
    if number.is_nan() { f64::NAN.to_bits() } else { number.to_bits() }
}

/// A node with its numbers as bits.
fn bits(node: Node<f64>) -> (Operation, Option<u64>, u64, Vec<Option<NodeId>>, Vec<u64>) {
    let parents = node.operands.iter().map(|operand| match operand {
        Operand::Node(id) => Some(*id),
        Operand::Constant(_) => None,
    });
    let parameter = node.parameter.map(bits_of);
    let partials = node.partials.iter().copied().map(bits_of).collect();
    (node.operation, parameter, bits_of(node.value), parents.collect(), partials)
}

#[test]
fn replay_equals_a_fresh_recording_on_random_programs() {
    let mut random = Random::new(1);
    for seed in 0..if cfg!(miri) { 3 } else { 200 } {
        let mut point = || -> Vec<f64> { (0..3).map(|_| random.within(&(-2.0..2.0))).collect() };
        let mut tape = Tape::new();
        let y = NodeId::from(random_program(seed, &tape.inputs(&point())));
        for _ in 0..3 {
            let x = point();
            tape.replay(&x).expect("a program without branches");
            let fresh = Tape::new();
            let fresh_y = NodeId::from(random_program(seed, &fresh.inputs(&x)));
            assert_eq!((y, tape.len()), (fresh_y, fresh.len()));
            for id in tape.ids() {
                assert_eq!(bits(tape.node(id)), bits(fresh.node(id)), "program {seed} at {x:?}");
            }
            let adjoints = |sweep: Sweep| sweep.as_slice().iter().copied().map(bits_of).collect::<Vec<u64>>();
            assert_eq!(adjoints(tape.reverse(y)), adjoints(fresh.reverse(y)));
        }
    }
}

// ------------------------------------------------------------------ memory

/// Longer than the largest block; an interpreter crosses the boundaries of the small ones.
const ROUNDS: i32 = if cfg!(miri) { 50 } else { 3000 };

fn long_computation<T: Real>(x: T, y: T) -> T {
    (0..ROUNDS).fold(x, |sum, k| sum * T::literal(0.5) + (y * T::literal(f64::from(k))).sin())
}

#[test]
fn a_cleared_tape_records_and_sweeps_without_allocating() {
    let mut tape = Tape::new();
    let (mut adjoints, mut tangents) = (Sweep::new(), Sweep::new());
    let mut slopes = [0.0; 2];
    let mut step = |at: f64, slopes: &mut [f64; 2]| {
        tape.clear();
        let (x, y) = (tape.input(at), tape.input(2.0 * at));
        assert!(x < y, "a guard, whose memory is used again too");
        let z = long_computation(Algebra::choose(x, Relation::Less, y, x, y), y);
        tape.reverse_into(&[(z.into(), 1.0)], &mut adjoints);
        tape.forward_into(&[(y.into(), 1.0)], &mut tangents);
        *slopes = [adjoints.of(y), tangents.of(z)];
    };
    assert!(heap::allocations(|| step(0.5, &mut slopes)) > 0, "the first recording allocates");
    for k in 1..5 {
        assert_eq!(heap::allocations(|| step(0.5 + 0.25 * f64::from(k), &mut slopes)), 0, "recording {k}");
        let tolerance = 1e4 * f64::EPSILON * slopes[0].abs();
        assert!((slopes[0] - slopes[1]).abs() <= tolerance, "both sweeps tell {slopes:?}");
    }
}

#[test]
fn a_second_replay_without_branches_does_not_allocate() {
    let mut f = Recorded::new(|x| long_computation(x[0], x[1]), &[0.5, 1.5]);
    let (mut sweep, mut slopes) = (Sweep::new(), Vec::new());
    // The first replay makes the scratch list of values that all others use again.
    f.replay(&[0.5, 1.0]).unwrap();
    f.gradient_into(&mut sweep, &mut slopes);
    for k in 1..5 {
        let allocations = heap::allocations(|| {
            f.replay(&[0.5, f64::from(k)]).unwrap();
            f.gradient_into(&mut sweep, &mut slopes);
        });
        assert_eq!(allocations, 0, "replay {k}");
        assert_eq!(slopes, gradient(|x| long_computation(x[0], x[1]), &[0.5, f64::from(k)]));
    }
}

#[test]
fn a_workspace_allocates_only_the_list_of_its_variables() {
    let mut workspace = Workspace::new();
    let x = [0.5, 1.5];
    let mut work = || workspace.value_and_gradient(|x| long_computation(x[0], x[1]), &x).1[1];
    let first = work();
    for _ in 0..3 {
        let mut again = 0.0;
        assert_eq!(heap::allocations(|| again = work()), 1, "the list of variables");
        assert_eq!(again, first);
    }
}

#[test]
fn blocks_grow_from_a_kilobyte_and_keep_every_node() {
    let tape = Tape::new();
    let mut x = tape.input(0.0);
    assert!(tape.bytes() <= 2048, "a small tape occupies {} bytes", tape.bytes());
    // Past every boundary of the growing blocks and of several of the largest.
    let count = if cfg!(miri) { 250 } else { 5000 };
    for k in 1..count {
        x = x + f64::from(k);
        if k == 20 {
            assert!(tape.bytes() <= 2048, "a tape of twenty nodes occupies {} bytes", tape.bytes());
        }
    }
    for (k, id) in tape.ids().enumerate() {
        let node = tape.node(id);
        assert_eq!(node.value, (k * (k + 1) / 2) as f64);
        if k > 0 {
            let previous = tape.ids().nth(k - 1).unwrap();
            assert_eq!(node.operands, [Operand::Node(previous), Operand::Constant(k as f64)]);
        }
    }
    assert!(tape.reverse(x).as_slice().iter().all(|adjoint| *adjoint == 1.0));
    assert!(tape.bytes() <= count as usize * 33 + 40 * 1024, "{} bytes", tape.bytes());
}

#[test]
fn a_dropped_tape_leaves_its_blocks_to_the_next_one_of_any_number() {
    let fresh = || gradient(|x| long_computation(x[0], x[1]), &[0.5, 1.5]);
    let first = fresh();
    let mut again = Vec::new();
    // The list of blocks grows to some ten elements, and inputs, variables, adjoints and the result are allocated.
    let allocations = heap::allocations(|| again = fresh());
    assert!(allocations <= 12, "{allocations} allocations");
    assert_eq!(again, first);
    // Memory of one type of number serves another: uninitialised memory is never read.
    let curvature = |at: f64| gradient(|x| gradient(|y| long_computation(y[0], y[1]), x)[1], &[0.5, at])[1];
    let step = 1e-5;
    let slope = |at: f64| gradient(|x| long_computation(x[0], x[1]), &[0.5, at])[1];
    let difference = (slope(1e-4 + step) - slope(1e-4 - step)) / (2.0 * step);
    assert!((curvature(1e-4) - difference).abs() <= 1e-3 * difference.abs(), "{} {difference}", curvature(1e-4));
    assert_eq!(fresh(), first);
}

#[test]
fn a_tape_moves_to_another_thread() {
    let mut f = Recorded::new(|x| long_computation(x[0], x[1]), &[0.5, 1.5]);
    let expected = f.gradient();
    let handle = std::thread::spawn(move || {
        f.replay(&[0.5, 1.5]).unwrap();
        f.gradient()
    });
    assert_eq!(handle.join().unwrap(), expected);
}

// ------------------------------------------------------------------ what is refused

/// The message with which a piece of work panics.
fn panic_message(work: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let payload = std::panic::catch_unwind(work).expect_err("this must panic");
    payload.downcast_ref::<String>().cloned().or(payload.downcast_ref::<&str>().map(ToString::to_string)).unwrap()
}

#[test]
fn numbers_of_two_tapes_cannot_meet() {
    let message = "two variables of different tapes meet in one operation; for nested derivatives lift the outer \
                   variable into the inner tape's number, `Var::constant(outer)` on a `Tape<Var<_>>`";
    let meetings: [fn(Var<'_>, Var<'_>); 8] = [
        |a, b| _ = a + b,
        |a, b| _ = a.hypot(b),
        |a, b| _ = a < b,
        |a, b| _ = a == b,
        |a, b| _ = [a, b].into_iter().sum::<Var<'_>>(),
        |a, b| _ = Algebra::choose(a, Relation::Less, b, a, a),
        |a, b| _ = Algebra::choose(a, Relation::Less, a, a, b),
        // The comparison is of one tape, what it chooses between of the other.
        |a, b| _ = Algebra::choose(a, Relation::Less, Var::constant(0.0), b, Var::constant(0.0)),
    ];
    for (number, meeting) in meetings.into_iter().enumerate() {
        let found = panic_message(move || {
            let (first, second) = (Tape::new(), Tape::new());
            meeting(first.input(1.0), second.input(2.0));
        });
        assert_eq!(found, message, "meeting {number}");
    }
    let found = panic_message(|| {
        let (first, second) = (Tape::new(), Tape::new());
        let x = first.input(1.0);
        let _ = x.recorded_on(&second);
    });
    assert_eq!(found, message, "a number of one tape is no node of another");
}

#[test]
fn a_constant_has_no_node() {
    let found = panic_message(|| {
        let _ = Tape::<f64>::new().reverse(Var::<f64>::constant(1.0));
    });
    assert_eq!(found, "a constant has no node on the tape; Var::recorded_on gives it one");
}

#[test]
fn a_node_of_a_longer_tape_is_refused() {
    let found = panic_message(|| {
        let longer = Tape::new();
        let last = NodeId::from(longer.inputs(&[1.0, 2.0, 3.0])[2]);
        let shorter = Tape::new();
        let _ = shorter.input(1.0);
        let _ = shorter.value(last);
    });
    assert_eq!(found, "node 2 is not on this tape, which has 1 nodes");
}

// ------------------------------------------------------------------ numbers that are not, and edges

#[test]
fn nan_travels_and_spoils_only_what_depends_on_it() {
    let tape = Tape::new();
    let (x, bad) = (tape.input(2.0), tape.input(f64::NAN));
    let (good, spoilt) = (x.square(), x * bad);
    let y = good + 1.0;
    assert!(spoilt.value().is_nan());
    assert_eq!((tape.reverse(y).of(x), tape.reverse(y).of(bad)), (4.0, 0.0));
    assert!(tape.reverse(spoilt).of(x).is_nan());
    assert_eq!(tape.reverse(spoilt).of(bad), 2.0);
    assert_eq!(tape.forward(x).of(y), 4.0);
    assert!(tape.forward(x).of(spoilt).is_nan());
    // What does not move contributes nothing, also across an infinite slope.
    let still = tape.input(0.0);
    let root = still.sqrt() + x;
    assert_eq!(tape.forward(x).of(root), 1.0);
    assert_eq!(tape.forward(still).of(root), f64::INFINITY);
}

#[test]
fn functions_of_nothing_and_of_everything_at_the_edge() {
    // No inputs at all.
    assert_eq!(value_and_gradient(|_| Active::constant(7.0), &[]), (7.0, vec![]));
    assert_eq!(hessian(|_| Active::constant(glassgrad::c(7.0)), &[] as &[f64]).elements(), [0.0; 0]);
    let nothing = jacobian(|_, _| {}, &[1.0, 2.0], 0, Mode::Auto);
    assert_eq!((nothing.rows(), nothing.columns()), (0, 2));
    // An output that is an input.
    assert_eq!(value_and_gradient(|x| x[1], &[3.0, 4.0]), (4.0, vec![0.0, 1.0]));
    assert_eq!(hessian(|x| x[1], &[3.0, 4.0]).elements(), [0.0; 4]);
    // An output that is a constant, alone and among others.
    assert_eq!(value_and_gradient(|_| Active::constant(5.0), &[3.0, 4.0]), (5.0, vec![0.0, 0.0]));
    assert_eq!(hessian(|_| Active::constant(glassgrad::c(5.0)), &[3.0, 4.0]).elements(), [0.0; 4]);
    for mode in [Mode::Forward, Mode::Reverse, Mode::Auto] {
        let j = jacobian(|x, y| (y[0], y[2]) = (x[0] * x[0], x[1]), &[3.0, 4.0], 3, mode);
        assert_eq!(j.elements(), [6.0, 0.0, 0.0, 0.0, 0.0, 1.0], "the middle result was never written");
    }
    assert_eq!(
        vjp(|x, y| (y[0], y[1]) = (Active::constant(1.0), x[0]), &[3.0], &[10.0, 2.0]),
        (vec![1.0, 3.0], vec![2.0])
    );
    // The same number as two outputs.
    let j = jacobian(|x, y| (y[0], y[1]) = (x[0], x[0]), &[3.0], 2, Mode::Reverse);
    assert_eq!(j.elements(), [1.0, 1.0]);
}

#[test]
fn a_recording_answers_again_and_again() {
    let mut f = Recorded::several(|x, y| (y[0], y[1]) = (x[0] * x[1], Var::constant(9.0)), &[2.0, 3.0], 2);
    assert_eq!((f.values(), f.value(), f.gradient()), (vec![6.0, 9.0], 6.0, vec![3.0, 2.0]));
    assert_eq!((f.jvp(&[1.0, 10.0]), f.vjp(&[1.0, 50.0])), (vec![23.0, 0.0], vec![3.0, 2.0]));
    f.replay(&[5.0, 7.0]).unwrap();
    assert_eq!((f.values(), f.gradient(), f.inputs().len()), (vec![35.0, 9.0], vec![7.0, 5.0], 2));
    assert_eq!(f.tape().len(), 3);
    let g = Recorded::on(f.into_tape(), |x| x[0].square(), &[4.0]);
    assert_eq!((g.tape().len(), g.gradient()), (2, vec![8.0]), "the old recording is forgotten");
}

#[test]
fn single_precision_tapes_keep_their_parameters() {
    let mut tape = Tape::<f32>::new();
    let y = NodeId::from(tape.input(2.0).powf(2.1));
    let fresh = |x: f32| {
        let tape = Tape::<f32>::new();
        let y = tape.input(x).powf(2.1);
        (y.value(), tape.node(y).partials)
    };
    for x in [0.5, 2.0, 3.25] {
        tape.replay(&[x]).unwrap();
        assert_eq!((tape.value(y), tape.node(y).partials), fresh(x), "replayed at {x}");
    }
}

// ------------------------------------------------------------------ statements

/// Gradients by statements and by a tape, with the number of statements.
macro_rules! both_gradients {
    (|$x:ident| $body:expr, $at:expr) => {{
        let mut workspace = Workspace::<f64>::new();
        let (value, by_statements) = workspace.value_and_gradient(|$x| $body, &$at);
        let by_statements = by_statements.to_vec();
        let recorded = Recorded::new(|$x| $body, &$at);
        assert!(
            value == recorded.value() || value.is_nan() && recorded.value().is_nan(),
            "values are equal to the bit"
        );
        (by_statements, recorded.gradient(), workspace.statements())
    }};
}

#[test]
fn operations_of_one_variable_record_no_statement() {
    let (found, expected, statements) = both_gradients!(|x| ((x[0] - 3.0) * 2.0).square().exp().ln(), [3.5]);
    assert!((found[0] - expected[0]).abs() <= 1e-15 * expected[0].abs(), "{found:?} {expected:?}");
    assert_eq!(statements, 0);
    let (found, expected, statements) = both_gradients!(|x| x[0] * x[0] - 3.0 * x[0], [2.5]);
    assert_eq!((found, statements), (expected, 0), "operands with the same node are one");
    let (found, expected, statements) = both_gradients!(|x| x[0].sin() * x[1].cos() + x[2], [0.5, 0.25, 3.0]);
    assert_eq!((found, statements), (expected, 2), "a product and a sum");
}

#[test]
fn what_has_no_derivative_records_nothing() {
    // An inactive unit, a product with zero, and a difference with itself.
    let (found, expected, statements) = both_gradients!(|x| x[0].relu() * x[1] + (x[1] * 0.0) * x[0], [-1.0, 2.0]);
    assert_eq!((found, statements), (expected, 0));
    let (found, _, statements) = both_gradients!(|x| (x[0] - x[0]) * x[1], [3.0, 4.0]);
    assert_eq!((found, statements), (vec![0.0, 0.0], 0));
    // As in forward mode, what does not move stays at rest behind an infinite derivative.
    assert_eq!(gradient(|x| x[0].relu().sqrt(), &[-1.0]), [0.0]);
    assert_eq!(glassgrad::scalar::derivative(|x| x.relu().sqrt(), -1.0), 0.0);
}

#[test]
fn factors_that_are_not_finite_become_nodes() {
    // A zero adjoint wins over the infinite derivative of the root, whichever is recorded first.
    let (found, expected, _) = both_gradients!(|x| x[0].sqrt() * x[1], [0.0, 0.0]);
    assert_eq!((found[1], expected[1]), (0.0, 0.0));
    let (found, expected, _) = both_gradients!(|x| x[0].sqrt().square() + x[1], [0.0, 3.0]);
    assert_eq!(found, [0.0, 1.0]);
    assert!(expected[0] == 0.0 || expected[0].is_nan());
    // Products that overflow where the sweep would not: 1e200 · 1e200 · 1e-300.
    let scaled = |x: &[f64]| both_gradients!(|x| ((x[0] * 1e200) * 1e200 + x[1]) * 1e-300, [x[0], x[1]]);
    let (found, expected, _) = scaled(&[1e-200, 1.0]);
    assert_eq!(found, expected);
    assert!((found[0] - 1e100).abs() < 1e86, "{found:?}");
    // Poles and domains.
    for at in [[0.0, 1.0], [-1.0, 0.0], [f64::INFINITY, 1.0], [f64::NAN, 2.0], [1.0, f64::INFINITY]] {
        let (found, expected, _) = both_gradients!(|x| x[0].ln() * x[1] + x[0].recip() - x[1].sqrt(), at);
        for (a, b) in found.iter().zip(&expected) {
            assert!(
                a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-12 * b.abs(),
                "{at:?}: {found:?} {expected:?}"
            );
        }
    }
}

#[test]
fn a_workspace_is_clean_after_every_sweep() {
    let mut workspace = Workspace::new();
    let mut random = Random::new(5);
    for round in 0..40 {
        let x: Vec<f64> = (0..1 + round % 7).map(|_| random.within(&(-1.0..1.0))).collect();
        // Some rounds have infinite derivatives, some end before the last statement, and lengths vary.
        let f = |x: &[f64]| x.iter().fold(1.0, |sum, x| sum * x.sin() + x);
        let (value, found) = workspace.value_and_gradient(
            |x| {
                let unused = x.iter().fold(x[0], |sum, x| sum * *x + x.abs().sqrt());
                let sum = x.iter().fold(Active::constant(1.0), |sum, x| sum * x.sin() + *x);
                let _ = unused * sum + if round % 3 == 0 { (x[0] - x[0].value()).sqrt() } else { x[0] };
                sum
            },
            &x,
        );
        assert_eq!(value, f(&x));
        let expected = Recorded::new(|x| x.iter().fold(Var::constant(1.0), |sum, x| sum * x.sin() + *x), &x).gradient();
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() <= 1e-14 * (1.0 + b.abs()), "{round}: {found:?} {expected:?}");
        }
    }
}

#[test]
fn many_statements_cross_chunks_and_blocks() {
    for count in [1, 63, 64, 65, 127, 128, 1000, 5000] {
        let x: Vec<f64> = (0..count).map(|k| 0.5 + 0.4 * f64::from(k).sin()).collect();
        let (found, expected, statements) = both_gradients!(|x| x.windows(2).map(|w| w[0] * w[1]).sum(), x);
        assert_eq!((found, statements), (expected, (2 * (count as usize - 1)).saturating_sub(1)));
    }
}

#[test]
fn weighted_results_are_pulled_back_at_once() {
    let (values, pullback) = vjp(
        |x, y| (y[0], y[1], y[2]) = (x[0] * x[1], x[0].square(), Active::constant(7.0)),
        &[2.0, 3.0],
        &[1.0, 10.0, 5.0],
    );
    assert_eq!((values, pullback), (vec![6.0, 4.0, 7.0], vec![43.0, 2.0]));
}
