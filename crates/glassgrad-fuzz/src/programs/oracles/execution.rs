//! Oracles that compare ways to execute a program.

use std::sync::OnceLock;

use glassgrad::exec::{Isa, Target, with_isa, with_threads};
use glassgrad::opt::passes::{PASSES, without};
use glassgrad::runtime::Context;
use glassgrad::{Tensor, compile};

use super::super::compare::unequal;
use super::super::interpret::{Interpreter, Mode};
use super::super::operations;
use super::{Case, planned};
use crate::counters;
use crate::random::Random;

const INLINED: Mode = Mode { as_f64: false, noise: None, expanded: false, inlined: true, ignores_stops: false };

/// Planned programs against the reference executor.
pub(super) fn reference(case: &Case<'_>) -> Result<(), String> {
    let expected = case.expected();
    match expected {
        Ok(_) => counters::add("outcome", "value", 1),
        Err(_) => counters::add("outcome", "error", 1),
    }
    let results = case.results(Mode::default());
    count_nodes(&results);
    case.compare(&planned(&results))
}

/// Results read one by one in another order, while handles to intermediate values are held.
pub(super) fn order(case: &Case<'_>) -> Result<(), String> {
    let Ok(expected) = case.expected() else { return Ok(()) };
    let mut random = Random::new(case.seed ^ 0x0D3);
    let results = case.results(Mode::default());
    let held: Vec<Tensor> = results.iter().flat_map(Tensor::inputs).flat_map(|tensor| tensor.inputs()).collect();
    let mut places: Vec<usize> = (0..results.len()).collect();
    for place in (1..places.len()).rev() {
        places.swap(place, random.below(place + 1));
    }
    let mut values: Vec<_> = vec![None; expected.len()];
    for place in places {
        values[place] = Some(results[place].eval().map_err(|error| format!("result {place} read alone: {error}"))?);
    }
    drop(held);
    case.compare(&Ok(values.into_iter().flatten().collect()))
}

/// A compiled function and define-by-run run the same program. But bodies of loops and regions hold handles to what they
/// capture, which define-by-run keeps and a compiled function need not: then both may round differently.
pub(super) fn compiled(case: &Case<'_>) -> Result<(), String> {
    let interpreter = Interpreter::new(INLINED);
    let inputs = interpreter.inputs(case.program);
    let by_run = planned(&case.results(INLINED));
    let compiled = compile(|x: &Vec<Tensor>| case.results_at(&interpreter, x));
    for _ in 0..2 {
        let called = compiled.call(&inputs).and_then(|results| planned(&results));
        if has_blocks(case) {
            case.compare(&called)?;
        } else if let Some(message) = unequal(&called, &by_run) {
            return Err(message);
        }
    }
    Ok(())
}

/// The number of threads changes no bit.
pub(super) fn threads(case: &Case<'_>) -> Result<(), String> {
    let run = |count: usize| with_threads(count, || planned(&case.results(INLINED)));
    let alone = run(1);
    let several = run(3);
    unequal(&several, &alone).map_or(Ok(()), Err)
}

/// Without one of the passes, results change by rounding only.
pub(super) fn passes(case: &Case<'_>) -> Result<(), String> {
    let mut names: Vec<&'static str> = PASSES.iter().map(|pass| pass.name).collect();
    names.sort_unstable();
    names.dedup();
    // Two of them, and all at once: over many programs, each is disabled often.
    let mut random = Random::new(case.seed ^ 0x9A55);
    let chosen: Vec<Vec<&'static str>> =
        vec![vec![*random.choose(&names)], vec![*random.choose(&names)], names.clone()];
    for names in chosen {
        let actual = without(&names, || planned(&case.results(Mode::default())));
        counters::add("pass", if names.len() > 1 { "all" } else { names[0] }, 1);
        case.compare(&actual).map_err(|message| format!("without {names:?}: {message}"))?;
    }
    Ok(())
}

/// Every instruction set computes the same but for rounding, and the two upper ones the same bits.
pub(super) fn isa(case: &Case<'_>) -> Result<(), String> {
    let mut fused = None;
    for isa in Isa::here() {
        let actual = with_isa(isa, || planned(&case.results(INLINED)));
        case.compare(&actual).map_err(|message| format!("{isa:?}: {message}"))?;
        if isa > Isa::Baseline {
            if let Some(message) = fused.as_ref().and_then(|fused| unequal(&actual, fused)) {
                return Err(format!("{isa:?}: {message}"));
            }
            fused = Some(actual);
        }
    }
    Ok(())
}

/// The same graphs lowered for the reference executor, whose interpreter checks every access, define-by-run and compiled.
pub(super) fn interpreter(case: &Case<'_>) -> Result<(), String> {
    Context::new(Target::Reference).run(|| {
        case.compare(&planned(&case.results(INLINED)))?;
        let interpreter = Interpreter::new(INLINED);
        let compiled = compile(|x: &Vec<Tensor>| case.results_at(&interpreter, x));
        let inputs = interpreter.inputs(case.program);
        case.compare(&compiled.call(&inputs).and_then(|results| planned(&results)))
    })
}

/// The kernels of the CUDA executor, compiled for the host, define-by-run.
pub(super) fn kernels(case: &Case<'_>) -> Result<(), String> {
    let context = Context::open(Target::EmulatedCuda).map_err(|error| error.to_string())?;
    context.run(|| case.compare(&planned(&case.results(INLINED))))
}

/// The first GPU: define-by-run, and compiled and run several times, so that recordings are replayed.
pub(super) fn gpu(case: &Case<'_>) -> Result<(), String> {
    static GPU: OnceLock<Result<Context, String>> = OnceLock::new();
    let context = GPU.get_or_init(|| Context::open(Target::Cuda(0)).map_err(|error| error.to_string())).clone()?;
    context.run(|| {
        case.compare(&planned(&case.results(INLINED)))?;
        let interpreter = Interpreter::new(INLINED);
        let compiled = compile(|x: &Vec<Tensor>| case.results_at(&interpreter, x));
        let inputs = interpreter.inputs(case.program);
        for _ in 0..4 {
            case.compare(&compiled.call(&inputs).and_then(|results| planned(&results)))?;
        }
        Ok(())
    })
}

/// Loops, maps, checkpoints, compiled functions and budgets against their definition.
pub(super) fn structure(case: &Case<'_>) -> Result<(), String> {
    if !has_blocks(case) {
        return Ok(());
    }
    case.compare(&planned(&case.results(Mode { expanded: true, ..Mode::default() })))
}

/// Whether a program has transforms.
fn has_blocks(case: &Case<'_>) -> bool {
    let mut found = false;
    case.program.each(&mut |instruction| found |= instruction.block.is_some());
    found
}

/// Counts the kinds of nodes of a graph, those in the bodies of loops and regions too.
fn count_nodes(results: &[Tensor]) {
    let mut stack: Vec<Tensor> = results.to_vec();
    let mut seen = std::collections::HashSet::new();
    let mut kinds = std::collections::BTreeMap::new();
    while let Some(tensor) = stack.pop() {
        // The operation of a node lives as long as the node, so its address identifies the node.
        if !seen.insert(std::ptr::from_ref(tensor.op()) as usize) {
            continue;
        }
        *kinds.entry(operations::node_kind(tensor.op())).or_insert(0) += 1;
        stack.extend(tensor.inputs());
        if let Some(multi) = tensor.multi_op()
            && seen.insert(std::ptr::from_ref(multi.body()) as usize)
        {
            *kinds.entry(operations::multi_kind(&multi)).or_insert(0) += 1;
            stack.extend(multi.body().outputs.iter().cloned());
        }
    }
    for (kind, count) in kinds {
        counters::add("node", kind, count);
    }
}
