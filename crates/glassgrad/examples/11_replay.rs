//! Record once, replay at many inputs, and know when a recording no longer holds.
//!
//! A tape can be evaluated at new inputs without running the program again: every value and local
//! partial is renewed, in the order of the list. That is right as long as the program would have
//! done the same operations, so the tape remembers each comparison that decided a branch. If one
//! comes out differently, replay refuses, names the comparison, and leaves the tape as it was.
//!
//! A choice between two numbers that both exist needs no branch. Written with `choose`, or with
//! `relu`, `abs`, `max` and `min`, it is a node like any other and is decided anew in each replay.
//!
//! The last part lets a chain of springs come to rest twice, replayed and recorded anew at each
//! step, arrives at the same place to the last bit, and prints what a step costs either way.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 11_replay`.

mod random;

use std::time::Instant;

use glassgrad::ops::Relation;
use glassgrad::scalar::tape::Operand;
use glassgrad::scalar::{Recorded, ReplayError, Sweep, Tape, gradient};
use glassgrad::{Real, c};
use random::Random;

/// The loss of Huber: a parabola near zero, a line further out, by a branch of the program.
fn huber_by_branch<T: Real>(error: T) -> T {
    if error.abs() <= c(1.0) { c::<T>(0.5) * error.square() } else { error.abs() - c(0.5) }
}

/// The same, by a choice that is recorded as a node.
fn huber_by_choice<T: Real>(error: T) -> T {
    let size = error.abs();
    T::choose(size, Relation::LessOrEqual, c(1.0), c::<T>(0.5) * error.square(), size - c(0.5))
}

/// The potential energy of a chain of springs of length 1, hung between two nails.
fn energy<T: Real>(positions: &[T]) -> T {
    let nails = [[c(0.0), c(0.0)], [c(12.0), c(0.0)]];
    let inner = positions.chunks(2).map(|point| [point[0], point[1]]);
    let points: Vec<[T; 2]> = [nails[0]].into_iter().chain(inner).chain([nails[1]]).collect();
    let weight: T = points.iter().map(|point| point[1]).sum();
    let stretch = points.windows(2).map(|pair| {
        let length = (pair[1][0] - pair[0][0]).hypot(pair[1][1] - pair[0][1]);
        c::<T>(50.0) * (length - c(1.0)).square()
    });
    stretch.sum::<T>() + weight
}

fn main() {
    a_branch_and_a_choice();
    many_inputs();
    a_hanging_chain();
}

fn a_branch_and_a_choice() {
    let mut by_branch = Recorded::new(|x| huber_by_branch(x[0]), &[0.4]);
    println!("huber at 0.4, by a branch: value {:.2}, derivative {}", by_branch.value(), by_branch.gradient()[0]);
    for guard in by_branch.tape().guards() {
        // A name makes the refusal below easier to read.
        let Operand::Node(compared) = guard.left else { continue };
        by_branch.tape().name(compared, "|error|");
        let (name, relation) = (by_branch.tape().name_of(compared), guard.relation.symbol());
        println!("  it relies on {name} {relation} 1, which was {}", guard.outcome);
    }
    // Another point of the same branch is fine; the line further out is another program.
    by_branch.replay(&[-0.8]).expect("the same branch");
    assert_eq!(by_branch.gradient(), [-0.8]);
    let refusal = by_branch.replay(&[3.0]).expect_err("another branch");
    println!("  at 3: {refusal}");
    assert!(matches!(refusal, ReplayError::BranchChanged { comparison: 0, recorded: true, .. }));
    assert_eq!(by_branch.gradient(), [-0.8], "after a refusal everything is as before");
    let anew = Recorded::new(|x| huber_by_branch(x[0]), &[3.0]);
    assert_eq!((anew.value(), anew.gradient()), (2.5, vec![1.0]));

    let mut by_choice = Recorded::new(|x| huber_by_choice(x[0]), &[0.4]);
    assert!(by_choice.tape().guards().is_empty());
    assert_eq!(by_choice.tape().choices().len(), 1);
    by_choice.replay(&[3.0]).expect("a choice is decided anew");
    assert_eq!((by_choice.value(), by_choice.gradient()), (2.5, vec![1.0]));
    println!("huber by a choice, recorded at 0.4 and replayed at 3: value {}", by_choice.value());

    let wrong = by_choice.replay(&[1.0, 2.0]).expect_err("too many inputs");
    println!("  with two inputs: {wrong}");
    assert_eq!(wrong, ReplayError::WrongInputs { expected: 1, given: 2 });
}

/// A replayed gradient is that of a fresh recording, to the last bit.
fn many_inputs() {
    let mut random = Random::new(11);
    let mut position = || -> Vec<f64> { (0..20).map(|_| random.uniform(-2.0, 2.0)).collect() };
    let mut recorded = Recorded::new(|x| energy(x), &position());
    for _ in 0..1000 {
        let positions = position();
        recorded.replay(&positions).expect("the energy has no branch");
        assert_eq!(recorded.gradient(), gradient(|x| energy(x), &positions));
    }
    println!("\n1000 replays of {} nodes agree with fresh recordings to the last bit", recorded.tape().len());
}

/// Descent to the rest position of the chain, with one recording for all steps.
fn a_hanging_chain() {
    let steps = 20_000;
    let start: Vec<f64> = (1..12).flat_map(|k| [f64::from(k), 0.0]).collect();
    let (mut sweep, mut g) = (Sweep::new(), Vec::new());
    let mut move_on = |positions: &mut [f64], recorded: &Recorded| {
        recorded.gradient_into(&mut sweep, &mut g);
        positions.iter_mut().zip(&g).for_each(|(position, g)| *position -= 0.004 * g);
    };

    let mut positions = start.clone();
    let started = Instant::now();
    let mut recorded = Recorded::new(|x| energy(x), &positions);
    for _ in 0..steps {
        move_on(&mut positions, &recorded);
        recorded.replay(&positions).expect("the energy has no branch");
    }
    let replaying = 1e6 * started.elapsed().as_secs_f64() / f64::from(steps);

    let mut anew = start;
    let mut tape = Tape::new();
    let started = Instant::now();
    for _ in 0..steps {
        let recorded = Recorded::on(tape, |x| energy(x), &anew);
        move_on(&mut anew, &recorded);
        tape = recorded.into_tape();
    }
    let recording = 1e6 * started.elapsed().as_secs_f64() / f64::from(steps);
    println!("at rest after {steps} steps, {replaying:.2} µs each if replayed, {recording:.2} µs if recorded anew");
    assert_eq!(positions, anew, "both come to rest at the same place");
    for point in positions.chunks(2) {
        println!("  {:>6.3} {:>7.3}", point[0], point[1]);
    }
    let rest = recorded.gradient().iter().fold(0.0_f64, |largest, g| largest.max(g.abs()));
    assert!(rest < 1e-6, "at rest no force is left: {rest:e}");
    assert!(
        (0..22).step_by(2).all(|k| (positions[k] + positions[20 - k] - 12.0).abs() < 1e-4),
        "the chain hangs symmetrically"
    );
}
