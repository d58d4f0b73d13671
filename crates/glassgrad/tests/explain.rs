//! Explanations: what they tell is what runs, the picture of memory is that of the plan, and nothing is too small, too
//! large or too ill to be explained.

#[path = "judges/cases.rs"]
mod cases;
#[path = "judges/functions.rs"]
mod functions;
#[path = "judges/random.rs"]
mod random;

use cases::random_cases;
use functions::{Made, random_function};
use glassgrad::dtype::DType;
use glassgrad::exec::footprint;
use glassgrad::explain::{ArenaValue, Bound, ExplainedStep, Explanation, Kind, Limits, Reason};
use glassgrad::opt::memory::{ALIGNMENT, aligned};
use glassgrad::opt::program::{Held, Memory, Program, Step};
use glassgrad::rng::Key;
use glassgrad::{Tensor, Within, checkpoint, compile, grad, hvp, scan, value_and_grad};
use proptest::prelude::*;
use random::Random;

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(seed), shape).cast(DType::F64).detach().expect("random numbers")
}

#[track_caller]
fn explained(tensor: &Tensor) -> Explanation {
    tensor.explain().unwrap_or_else(|error| panic!("{error}"))
}

/// The text with round numbers in place of all that is measured, and lines counted from one of this file.
fn masked(mut explanation: Explanation, first: u32) -> String {
    fn mask(steps: &mut [ExplainedStep], seconds: f64) {
        for step in steps {
            (step.predicted, step.measured) = (2.0 * seconds, seconds);
            step.inside.iter_mut().for_each(|inside| mask(&mut inside.steps, seconds / 100.0));
        }
    }
    mask(&mut explanation.steps, 1e-6);
    (first..first + 20).fold(explanation.to_string(), |text, line| {
        text.replace(&format!("explain.rs:{line}"), &format!("explain.rs:+{}", line - first))
    })
}

fn near(a: f64, b: f64) -> bool {
    // Sums of whole numbers, in another order.
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

/// An explanation tells what the program does: as many steps, the same operations and bytes, the same memory.
#[track_caller]
fn assert_explains(what: &str, explanation: &Explanation, program: &Program) {
    assert_eq!(explanation.steps.len(), program.steps.len(), "{what}");
    assert!(near(explanation.flops(), program.flops()), "{what}: {} operations", explanation.flops());
    let bytes: f64 = program.steps.iter().map(|step| step.bytes()).sum();
    assert!(near(explanation.bytes(), bytes), "{what}: {} bytes", explanation.bytes());
    for step in &explanation.steps {
        assert_step(what, step);
    }
    assert_eq!(explanation.arena.bytes, program.arena, "{what}");
    let held: Vec<Held> = explanation.arena.values.iter().map(|value| value.held).collect();
    let mut planned = program.values.clone();
    planned.sort_by_key(|held| (held.first, held.place));
    assert_eq!(held, planned, "{what}");
    for pair in explanation.passes.windows(2) {
        assert_eq!(pair[0].nodes[1], pair[1].nodes[0], "{what}: a pass begins where the last one ended");
    }
}

/// Times are there, and what a loop over time does is the sum of what it does inside.
#[track_caller]
fn assert_step(what: &str, step: &ExplainedStep) {
    assert!(step.predicted > 0.0 && step.predicted.is_finite() && step.least >= 0.0, "{what}: {step:?}");
    assert!(step.measured >= 0.0 && step.measured.is_finite(), "{what}: {step:?}");
    assert!(step.what.len() > 3 && !step.origins.is_empty(), "{what}: {step:?}");
    let in_time = matches!(step.kind, Kind::Scan | Kind::Sweep);
    assert_eq!((in_time, step.bound == Bound::Inside), (!step.inside.is_empty(), in_time), "{what}: {step:?}");
    if in_time {
        let total = |of: fn(&ExplainedStep) -> f64| -> f64 {
            let runs =
                |inside: &glassgrad::explain::Inside| inside.steps.iter().map(of).sum::<f64>() * inside.runs as f64;
            step.inside.iter().map(runs).sum()
        };
        assert!(near(total(|step| step.flops), step.flops) && near(total(|step| step.bytes), step.bytes), "{what}");
        step.inside.iter().flat_map(|inside| &inside.steps).for_each(|step| assert_step(what, step));
    }
}

/// No two values share a byte in the same step, all lie inside the arena, and whatever a step reads or writes there is a
/// value that is there in that step.
#[track_caller]
fn assert_memory(what: &str, program: &Program) {
    let ends = |held: &Held| held.place + held.bytes;
    for (number, one) in program.values.iter().enumerate() {
        assert!(one.bytes > 0 && one.place % ALIGNMENT == 0 && ends(one) <= program.arena, "{what}: {one:?}");
        assert!(one.first <= one.last && one.last < program.steps.len(), "{what}: {one:?}");
        for other in &program.values[..number] {
            let in_time = one.steps().start < other.steps().end && other.steps().start < one.steps().end;
            let in_space = one.place < ends(other) && other.place < ends(one);
            assert!(!(in_time && in_space), "{what}: {one:?} and {other:?}");
        }
    }
    for (number, step) in program.steps.iter().enumerate() {
        if is_empty(step) {
            continue;
        }
        for (access, is_written) in
            step.reads().map(|read| (read, false)).chain(step.writes().map(|write| (write, true)))
        {
            let Memory::Arena(place) = access.memory else { continue };
            let is_there = |held: &Held| {
                held.place == place
                    && if is_written { held.first == number } else { held.first < number && number <= held.last }
            };
            assert!(program.values.iter().any(is_there), "{what}: step {number} at {place} of\n{program}");
        }
    }
}

/// Whether a step reads or writes arrays without elements, which have no place.
fn is_empty(step: &Step) -> bool {
    match step {
        Step::Loop(fused) => fused.extents.contains(&0),
        Step::Contract(product) => {
            let axes = [&product.batch[..], &product.sums, &[product.rows, product.columns, product.inner]].concat();
            axes.iter().any(|axis| axis.extent == 0)
        }
        Step::Call(call) => call.inputs.iter().chain(&call.outputs).any(|(_, shape)| shape.elements() == 0),
        Step::Scan(repeat) => repeat.length == 0,
        Step::ReverseScan(sweep) => sweep.schedule.steps == 0,
    }
}

#[track_caller]
fn assert_explained(what: &str, tensor: &Tensor) -> Explanation {
    let (program, explanation) = (tensor.program().expect("a program"), explained(tensor));
    assert_explains(what, &explanation, &program);
    assert_memory(what, &program);
    let (text, json) = (explanation.to_string(), explanation.to_json());
    assert!(text.contains("in all") && text.lines().all(|line| line.chars().count() < 180), "{what}:\n{text}");
    let read: serde_json::Value = serde_json::from_str(&json.to_string()).expect("JSON");
    assert_eq!(read["steps"].as_array().map(Vec::len), Some(program.steps.len()), "{what}");
    assert_well_formed(what, &explanation.arena_svg("a <title> & \"more\""), explanation.arena.values.len());
    explanation
}

/// Every element of the picture is closed, and there is a rectangle for each value.
#[track_caller]
fn assert_well_formed(what: &str, svg: &str, values: usize) {
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"),
        "{what}"
    );
    let mut open: Vec<&str> = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("{what}: <{tag}"));
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{what}"),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split_whitespace().next().unwrap_or_default()),
        }
    }
    assert!(open.is_empty(), "{what}: {open:?}");
    assert_eq!(svg.matches("<rect class=\"value ").count(), values, "{what}");
}

// ------------------------------------------------------------------ snapshots

#[test]
fn layers_are_explained() {
    let first = line!();
    let (x, y) = (normal(1, &[20, 4]), normal(2, &[20, 3]));
    let weights = (normal(3, &[4, 10]), normal(4, &[10, 3]));
    let step = compile(|weights: &(Tensor, Tensor)| {
        let (loss, slope) = value_and_grad(|(first, second): &(Tensor, Tensor)| {
            let hidden = x.matmul(first).tanh();
            (hidden.matmul(second).log_softmax(-1) - &y).square().mean()
        })(weights);
        (loss, &weights.0 - slope.0 * 0.1, &weights.1 - slope.1 * 0.1)
    });
    let explanation = step.explain(&weights).expect("an explanation");
    assert_explains("layers", &explanation, &step.program(&weights).expect("a program"));
    insta::assert_snapshot!("layers", masked(explanation, first));
}

const RECURRENT: u32 = line!();
fn recurrent(inner: &Tensor) -> Tensor {
    let step = |state: &Tensor, x: &Tensor| {
        let next = (inner.matmul(state) + x).tanh();
        (next.clone(), next.sum())
    };
    let (last, sums) = scan(step, &Tensor::from([0.1, 0.2, 0.3]), &normal(6, &[30, 3]));
    last.square().sum() + sums.mean()
}

#[test]
fn scans_are_explained_with_their_bodies() {
    let inner = normal(5, &[3, 3]);
    let explanation = assert_explained("a loop", &grad(recurrent)(&inner));
    insta::assert_snapshot!("loop", masked(explanation, RECURRENT));
    // With few states kept, a sweep: two programs inside.
    let wide = |x: &Tensor| scan(|s: &Tensor, x: &Tensor| ((s * x).sin(), ()), &x.sum_over(0), x).0.sum();
    let x = normal(7, &[40, 2000]);
    let whole = footprint(&grad(wide)(&x).program().expect("a program"));
    let frugal = assert_explained("a sweep", &grad(wide).within(whole * 2 / 3)(&x));
    let sweep = frugal.steps.iter().find(|step| step.kind == Kind::Sweep).expect("a sweep");
    let runs: Vec<(&str, bool)> = sweep.inside.iter().map(|inside| (inside.what, inside.runs >= 30)).collect();
    assert_eq!(runs, [("one step forwards", true), ("one step back", true)]);
    assert!(frugal.arena.bytes < explained(&grad(wide)(&x)).arena.bytes);
}

#[test]
fn checkpoints_and_nested_loops_are_explained() {
    let layer = checkpoint(|x: &Tensor| x.matmul(&x.tanh()).sin());
    let deep = |x: &Tensor| (0..4).fold(x.clone(), |x, _| layer(&x)).square().sum();
    let explanation = assert_explained("checkpoints", &grad(deep)(&normal(7, &[5, 5])));
    // What is computed anew is seen, and works for the same line.
    let plain = |x: &Tensor| (0..4).fold(x.clone(), |x, _| x.matmul(&x.tanh()).sin()).square().sum();
    let tanhs = |explanation: &Explanation| explanation.steps.iter().filter(|step| step.what.contains("tanh")).count();
    assert!(tanhs(&explanation) > tanhs(&explained(&grad(plain)(&normal(7, &[5, 5])))), "{explanation}");

    let outer = |sum: &Tensor, rows: &Tensor| {
        let (last, ()) = scan(|x: &Tensor, row: &Tensor| ((x * row).sin(), ()), sum, rows);
        (last, ())
    };
    let (last, ()) = scan(outer, &Tensor::from([0.5, 0.25]), &normal(8, &[3, 4, 2]));
    let explanation = assert_explained("loops of loops", &last);
    let inner = &explanation.steps[0].inside[0].steps.iter().find(|step| step.kind == Kind::Scan).expect("a loop");
    assert_eq!((inner.what.as_str(), inner.inside[0].runs), ("repeat 4 times", 4));
    assert!(inner.inside[0].steps.iter().all(|step| step.measured > 0.0), "{explanation}");
}

// ------------------------------------------------------------------ random graphs

proptest! {
    #![proptest_config(random_cases(12))]

    #[test]
    fn the_explanation_is_that_of_the_program_that_runs(seed in 0_u64..1_000_000, length in 1_usize..9) {
        let f = random_function(seed, length, DType::F64, Made::OfEverything);
        let mut random = Random::new(seed ^ 0x55);
        let x = Tensor::from([(); 3].map(|()| random.within(&(-1.0..1.0))));
        assert_explained(&format!("random graph {seed} of {length} steps"), &grad(|x: &Tensor| f(x).square().sum())(&x));
    }
}

proptest! {
    #![proptest_config(random_cases(160))]

    #[test]
    fn no_two_values_share_a_place(seed in 0_u64..1_000_000, length in 1_usize..12) {
        let f = random_function(seed, length, DType::F64, Made::OfEverything);
        let total = |x: &Tensor| f(x).square().sum();
        let x = normal(seed ^ 0x55, &[3]);
        for (order, tensor) in [f(&x), grad(total)(&x), hvp(total, &x, &x.cos())].iter().enumerate() {
            let what = format!("random graph {seed} of {length} steps, order {order}");
            assert_memory(&what, &tensor.program().expect("a program"));
        }
    }
}

// ------------------------------------------------------------------ hostile cases

#[test]
fn whatever_can_be_computed_can_be_explained() {
    let nan = Tensor::from([f64::NAN, 1.0, f64::INFINITY]);
    let nothing = Tensor::new(&[0.0_f64; 0], [0, 3]);
    let cases = [
        ("NaN", (nan.exp() * &nan).sum()),
        ("nothing", (&nothing * 2.0).tanh()),
        ("the sum of nothing", nothing.sum()),
        ("a product of nothing", nothing.transpose().matmul(&nothing)),
        ("a product without rows", nothing.matmul(&normal(1, &[3, 3])).matmul(&normal(2, &[3, 0]))),
        ("one number", Tensor::from(2.0).square()),
        ("truth values", nan.gt(0.5).not()),
        ("integers", Tensor::from([1_i64, 2, 3]) + Tensor::from([3_i64, 2, 1])),
        ("what works on whole arrays", normal(3, &[9]).take(&Tensor::from([1_i64, 8, 8]), 0).sin()),
        ("many axes", normal(4, &[2, 1, 2, 1, 2, 1, 2]).permute([6, 5, 4, 3, 2, 1, 0]).sum_over([0, 2])),
    ];
    for (what, tensor) in cases {
        assert_explained(what, &tensor);
    }
    // A loop of no steps has nothing to read.
    let (last, all) = scan(
        |x: &Tensor, y: &Tensor| ((x + y).sin(), x.exp()),
        &Tensor::from([1.0, 2.0]),
        &Tensor::new(&[0.0; 0], [0, 2]),
    );
    let explanation = assert_explained("a loop of no steps", &(last.sum() + all.sum()));
    assert!(explanation.to_string().contains("repeat 0 times"), "{explanation}");
}

#[test]
fn what_is_known_needs_no_steps() {
    let x = Tensor::from([1.0, 2.0]);
    let explanation = explained(&x);
    assert_eq!((explanation.steps.len(), explanation.flops(), explanation.arena.text()), (0, 0.0, String::new()));
    assert!(explanation.to_string().contains("memory between steps: none"));
    assert!(!explanation.to_string().contains("-0"), "{explanation}");
    assert_well_formed("nothing", &explanation.arena_svg("nothing"), 0);
    // An argument that is the result is copied, for no line.
    let same = compile(|x: &Tensor| x.clone()).explain(&x).expect("an explanation");
    assert_eq!((same.steps.len(), same.steps[0].what.as_str(), same.steps[0].origins.len()), (1, "loop 2: copy", 0));
}

#[test]
fn looking_changes_nothing() {
    let (x, y) = (normal(1, &[8, 8]), normal(2, &[8, 8]));
    let step = compile(|(x, y): &(Tensor, Tensor)| (x.matmul(y).tanh(), (x + y).sum()));
    let before = step.call(&(x.clone(), y.clone())).expect("values");
    let numbers = (x.to_string(), y.to_string());
    step.explain(&(x.clone(), y.clone())).expect("an explanation");
    let after = step.call(&(x.clone(), y.clone())).expect("values");
    assert_eq!((before.0.to_string(), before.1.to_string()), (after.0.to_string(), after.1.to_string()));
    assert_eq!((x.to_string(), y.to_string()), numbers);
}

#[test]
fn what_cannot_be_computed_says_so() {
    let failed = Tensor::from([1.0, 2.0]) + Tensor::from([1.0, 2.0, 3.0]);
    assert_eq!(failed.explain().map(|_| ()).unwrap_err().to_string(), failed.eval().unwrap_err().to_string());
    // An index out of bounds is found when steps run, and reported with the user's line.
    let outside = Tensor::from([1.0, 2.0]).take(&Tensor::from([5_i64]), 0);
    let error = outside.explain().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("explain.rs"), "{error}");
}

// ------------------------------------------------------------------ large programs

/// Layers without loops: about eight steps each, with gradients.
fn deep(layers: usize) -> Explanation {
    let weight = normal(1, &[6, 6]);
    let net = |x: &Tensor| (0..layers).fold(x.clone(), |x, _| x.matmul(&weight).sin()).square().sum();
    explained(&grad(net)(&normal(2, &[6, 6])))
}

#[test]
fn explanations_of_long_programs_are_abridged() {
    let explanation = deep(700);
    assert!(explanation.steps.len() > 2000, "{}", explanation.steps.len());
    let text = explanation.to_string();
    assert!(text.lines().count() < 110, "{} lines", text.lines().count());
    assert!(text.contains(&format!("and {} steps that took less time", explanation.steps.len() - 60)), "{text}");
    assert!(text.contains('█') && text.contains('·'), "{text}");
    assert_well_formed("700 layers", &explanation.arena_svg("700 layers"), explanation.arena.values.len());
}

// ------------------------------------------------------------------ the picture as text

#[test]
fn the_text_picture_shows_every_value_where_it_is() {
    let explanation = explained(&grad(|x: &Tensor| x.matmul(x).tanh().matmul(x).sin().sum())(&normal(1, &[16, 16])));
    let arena = &explanation.arena;
    let text = arena.text();
    let rows: Vec<Vec<char>> = text.lines().take(12).map(|line| line.chars().skip(3).collect()).collect();
    let mut checked = 0;
    for (row, cells) in rows.iter().rev().enumerate() {
        let [bottom, top] = [row, row + 1].map(|row| row as f64 * arena.bytes as f64 / 12.0);
        for (step, cell) in cells.iter().take(arena.steps).enumerate() {
            let live = |value: &&ArenaValue| value.held.steps().contains(&step);
            let place =
                |value: &ArenaValue| [value.held.place, value.held.place + value.held.bytes].map(|end| end as f64);
            let touching: Vec<&ArenaValue> = arena
                .values
                .iter()
                .filter(live)
                .filter(|value| place(value)[0] < top && place(value)[1] > bottom)
                .collect();
            // Where a value has only a part of a cell, another one may have more of it.
            let letter = match touching[..] {
                [] => '·',
                [one] => {
                    (b'a' + arena.values.iter().position(|value| value == one).expect("it is there") as u8) as char
                }
                _ => continue,
            };
            assert_eq!(*cell, letter, "step {step}, row {row} of\n{text}");
            checked += 1;
        }
    }
    assert!(checked > 60, "{checked} cells of\n{text}");
    let sizes: usize = arena.values.iter().map(|value| aligned(value.held.bytes)).sum();
    assert_eq!(arena.unshared, sizes);
    assert!(arena.highest <= arena.bytes && arena.bytes < arena.unshared);
}

// ------------------------------------------------------------------ limits

#[test]
fn limits_are_positive_and_reasons_follow_from_times() {
    let limits = Limits::measured();
    let rates = [limits.product, limits.arithmetic, limits.transcendental].concat();
    assert!(
        rates.iter().chain(&[limits.memory, limits.cache, limits.overhead]).all(|rate| *rate > 0.0 && rate.is_finite())
    );
    let limits = Limits { threads: 4, overhead: 1e-7, ..limits.clone() };
    let step = ExplainedStep {
        kind: Kind::Loop,
        what: "loop".to_owned(),
        origins: Vec::new(),
        flops: 1e6,
        bytes: 1e6,
        least: 1e-3,
        bound: Bound::Memory,
        predicted: 1e-3 + 1e-7,
        measured: 1.5e-3,
        work: 1e8,
        placement: String::new(),
        inside: Vec::new(),
    };
    let reason = |step: ExplainedStep| step.reason(&limits);
    assert_eq!(reason(step.clone()), None);
    let slow = ExplainedStep { measured: 4e-3, ..step };
    assert_eq!(slow.reached(), 0.25);
    assert_eq!(reason(slow.clone()), Some(Reason::Memory));
    assert_eq!(reason(ExplainedStep { bound: Bound::Transcendental, ..slow.clone() }), Some(Reason::Functions));
    assert_eq!(
        reason(ExplainedStep { bound: Bound::Product, kind: Kind::Product, ..slow.clone() }),
        Some(Reason::Arithmetic)
    );
    assert_eq!(reason(ExplainedStep { work: 1e5, ..slow.clone() }), Some(Reason::SingleThread));
    assert_eq!(reason(ExplainedStep { work: 1e5, measured: 9e-3, ..slow.clone() }), Some(Reason::SingleThread));
    assert_eq!(reason(ExplainedStep { work: 1e4, measured: 9e-3, ..slow.clone() }), Some(Reason::Small));
    assert_eq!(reason(ExplainedStep { kind: Kind::Call, ..slow.clone() }), Some(Reason::Whole));
    assert_eq!(reason(ExplainedStep { kind: Kind::Scan, ..slow.clone() }), Some(Reason::Inside));
    let tiny = ExplainedStep { least: 1e-9, predicted: 1.01e-7, measured: 1.2e-7, ..slow };
    assert_eq!(reason(tiny), Some(Reason::Small));
}
