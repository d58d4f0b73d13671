//! Some seconds of fuzzing with fixed seeds: 5, or what the environment variable `FUZZ_SECONDS` says; and tests of the
//! fuzzer itself.

use std::time::Duration;

use glassgrad::Tensor;
use glassgrad::array::Array;
use glassgrad_fuzz::generator::{Selection, generators};
use glassgrad_fuzz::programs::compare::{Tolerances, disagreement, unequal};
use glassgrad_fuzz::programs::generate;
use glassgrad_fuzz::programs::interpret::{Interpreter, Mode};
use glassgrad_fuzz::programs::operations::rows;
use glassgrad_fuzz::programs::program::Program;
use glassgrad_fuzz::programs::reduce::{reduce, validate};
use glassgrad_fuzz::runner::{Plan, run};

#[test]
fn random_programs_pass_all_oracles() {
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let plan = Plan { seed: 0, count: u64::MAX, time: Duration::from_secs(seconds), threads: 2, failures: 3 };
    let outcome = run(&generators(&Selection::default()), &plan, &|_, _| {});
    let failures: Vec<String> = outcome.failures.iter().map(|(name, failure)| format!("{name}: {failure}")).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(outcome.cases > 0);
    println!("{} cases in {:.0} s", outcome.cases, outcome.seconds);
}

#[test]
fn programs_are_functions_of_their_seeds_and_can_be_parsed_back() {
    for seed in 0..60 {
        let program = generate::program(seed);
        assert_eq!(program.to_string(), generate::program(seed).to_string());
        validate(&program).expect("a valid program");
        let parsed: Program = program.to_string().parse().expect("what is printed can be parsed");
        // NaN is not equal to itself, so texts are compared.
        assert_eq!(parsed.to_string(), program.to_string(), "seed {seed}");
    }
}

#[test]
fn every_row_of_the_table_is_drawn() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..600 {
        generate::program(seed).each(&mut |instruction| {
            if instruction.operation == "row" {
                seen.insert(instruction.text.clone());
            }
        });
    }
    let missing: Vec<_> = rows().iter().map(|row| row.operation.name()).filter(|name| !seen.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A program that fails because of one instruction is reduced to that instruction.
#[test]
fn reduction_finds_the_instruction_that_matters() {
    let has = |program: &Program, name: &str| {
        let mut found = false;
        program.each(&mut |instruction| found |= instruction.operation == name);
        found
    };
    let mut reduced = 0;
    for seed in 0..40 {
        let program = generate::program(seed);
        for name in ["matmul", "softmax", "scatter_add"] {
            if has(&program, name) {
                let small = reduce(&program, &|candidate: &Program| {
                    let interpreter = Interpreter::new(Mode { inlined: true, ..Mode::default() });
                    let outputs = interpreter.outputs(candidate, &interpreter.inputs(candidate));
                    has(candidate, name) && outputs.iter().all(|output| output.error().is_none())
                });
                assert!(small.length() <= 3, "seed {seed}, {name}: {small}");
                reduced += 1;
            }
        }
        if reduced > 6 {
            return;
        }
    }
    panic!("no program had such an instruction");
}

fn array(numbers: &[f64]) -> Array {
    Tensor::new(numbers, numbers.len()).eval().expect("numbers")
}

/// Comparisons notice what they should, and no more.
#[test]
fn comparisons_notice_differences_beyond_rounding() {
    let expected = Ok(vec![array(&[1.0, 1e-3, f64::NAN, f64::INFINITY])]);
    let perturbed = [Ok(vec![array(&[1.0 + 1e-13, 1e-3, f64::NAN, f64::INFINITY])])];
    let tolerances = Tolerances::new(expected.as_ref().expect("values"), &perturbed);
    let differs = |numbers: &[f64]| disagreement(&Ok(vec![array(numbers)]), &expected, &mut || &tolerances).is_some();
    assert!(!differs(&[1.0 - 0.9e-13, 1e-3, f64::NAN, f64::INFINITY]));
    assert!(differs(&[1.0 + 1e-12, 1e-3, f64::NAN, f64::INFINITY]));
    assert!(differs(&[1.0, 1.0001e-3, f64::NAN, f64::INFINITY]));
    assert!(differs(&[1.0, 1e-3, 0.0, f64::INFINITY]));
    assert!(differs(&[1.0, 1e-3, f64::NAN, f64::NEG_INFINITY]));
    assert!(unequal(&Ok(vec![array(&[0.0])]), &Ok(vec![array(&[-0.0])])).is_some());
    assert!(unequal(&Ok(vec![array(&[f64::NAN])]), &Ok(vec![array(&[f64::NAN])])).is_none());
}
