//! Plans of contractions before their judges: the value by definition, all trees by brute force, and the paths
//! of another library.

#[path = "judges/cases.rs"]
mod cases;
#[path = "judges/expressions.rs"]
mod expressions;

use expressions::{EXPRESSIONS, sized};
use std::collections::BTreeSet;

use cases::random_cases;
use glassgrad::einsum::{Einsum, Label};
use glassgrad::opt::contract::{ContractionRequest, Limits, Plan, Step, elements_moved, flops, plan, plan_all};
use glassgrad::rng::Key;
use proptest::prelude::*;

/// An einsum by its definition: a sum over all values of all labels. Small whole numbers make it exact.
fn value(einsum: &Einsum, operands: &[&Vec<f64>]) -> Vec<f64> {
    let used = |label: &Label| einsum.operands.iter().flatten().chain(&einsum.output).any(|other| other == label);
    let labels: Vec<Label> = (0..einsum.extents.len()).filter(used).collect();
    let mut result = vec![0.0; einsum.output.iter().map(|label| einsum.extents[*label]).product()];
    let count: usize = labels.iter().map(|label| einsum.extents[*label]).product();
    for mut number in 0..count {
        let mut at = vec![0; einsum.extents.len()];
        for label in &labels {
            at[*label] = number % einsum.extents[*label];
            number /= einsum.extents[*label];
        }
        let offset = |axes: &[Label]| axes.iter().fold(0, |offset, label| offset * einsum.extents[*label] + at[*label]);
        let factors = einsum.operands.iter().zip(operands).map(|(axes, numbers)| numbers[offset(axes)]);
        result[offset(&einsum.output)] += einsum.coefficient * factors.product::<f64>();
    }
    result
}

/// Small whole numbers in the shape of an operand, other ones for each `seed`.
fn numbers(einsum: &Einsum, operand: usize, seed: usize) -> Vec<f64> {
    let count: usize = einsum.operands[operand].iter().map(|label| einsum.extents[*label]).product();
    (0..count).map(|k| ((k * 7 + seed * 5 + k * k) % 5) as f64 - 2.0).collect()
}

/// Runs steps one after the other and returns all numbers, inputs first.
fn run(steps: &[Step], inputs: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    steps.iter().fold(inputs, |mut values, step| {
        let operands: Vec<&Vec<f64>> = step.operands.iter().map(|number| &values[*number]).collect();
        let result = value(&step.einsum, &operands);
        values.push(result);
        values
    })
}

fn cost(limits: &Limits, flops: u128, bytes: u128) -> u128 {
    flops + limits.flops_per_byte * bytes
}

/// What a plan must be, whatever the einsum.
fn assert_sound(einsum: &Einsum, plan: &Plan, limits: &Limits) {
    let inputs: Vec<Vec<f64>> = (0..einsum.operands.len()).map(|k| numbers(einsum, k, k)).collect();
    let whole = value(einsum, &inputs.iter().collect::<Vec<_>>());
    assert_eq!(run(&plan.steps, inputs).last(), Some(&whole), "{einsum}\n{plan}");
    let (last, inner) = plan.steps.split_last().expect("a step");
    let mut largest = 0;
    for Step { einsum, operands, .. } in inner {
        let labels: BTreeSet<Label> = einsum.output.iter().copied().collect();
        let bound = |label: &Label| einsum.operands.iter().any(|axes| axes.contains(label));
        assert!(labels.len() == einsum.output.len() && labels.iter().all(bound), "a delta or broadcast in {einsum}");
        assert!(einsum.coefficient == 1.0 && (1..=2).contains(&operands.len()), "{plan}");
        largest = largest.max(labels.iter().map(|label| einsum.extents[*label] as u128).product());
    }
    assert!(last.operands.len() <= 2 && last.einsum.coefficient == einsum.coefficient);
    assert_eq!(plan.largest_intermediate, largest);
    assert!(limits.largest_intermediate.is_none_or(|limit| largest <= limit));
    assert_eq!(plan.flops, plan.steps.iter().map(|step| flops(&step.einsum)).sum::<u128>());
    let moved: u128 = plan.steps.iter().map(|step| elements_moved(&step.einsum)).sum();
    assert_eq!(plan.bytes, moved * limits.element_bytes);
}

/// Einsums with labels repeated everywhere, unbound ones in the output, and extents of `sizes`.
fn einsums(
    operands: std::ops::RangeInclusive<usize>,
    sizes: std::ops::RangeInclusive<usize>,
) -> impl Strategy<Value = Einsum> {
    let axes = |most| prop::collection::vec(0..7_usize, 0..=most);
    let factors = prop::collection::vec(axes(3), operands);
    (factors, axes(3), prop::collection::vec(sizes, 7), prop::sample::select(vec![1.0, -2.0, 3.0]))
        .prop_map(|(factors, output, extents, factor)| Einsum::new(factors, output, extents).scaled(factor))
}

fn limits() -> impl Strategy<Value = Limits> {
    let weight = prop::sample::select(vec![0_u128, 1, 4, 50]);
    weight.prop_map(|flops_per_byte| Limits { flops_per_byte, ..Limits::default() })
}

proptest! {
    #![proptest_config(random_cases(500))]

    #[test]
    fn plans_have_the_value_of_the_einsum(einsum in einsums(0..=7, 0..=3), limits in limits()) {
        assert_sound(&einsum, &plan(&einsum, &limits).unwrap(), &limits);
    }

    #[test]
    fn strong_einsums_are_one_step(einsum in einsums(1..=5, 0..=3), limits in limits()) {
        let strong = einsum.strong_in(0, true);
        let plan = plan(&strong, &limits).unwrap();
        prop_assert_eq!(plan.steps.len(), 1);
        prop_assert_eq!(&plan.steps[0].einsum, &strong);
        prop_assert_eq!(&plan.steps[0].operands, &(0..strong.operands.len()).collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(random_cases(20))]

    #[test]
    fn greedy_plans_have_the_value_of_the_einsum(einsum in einsums(13..=20, 0..=3), limits in limits()) {
        assert_sound(&einsum, &plan(&einsum, &limits).unwrap(), &limits);
    }
}

proptest! {
    #![proptest_config(random_cases(60))]

    #[test]
    fn no_tree_is_cheaper(einsum in einsums(2..=6, 0..=4), limits in limits(), most in 0..30_u128) {
        let spent = |plan: &Plan| cost(&limits, plan.flops, plan.bytes);
        let all = every_plan(&einsum, &limits);
        let best = all.iter().map(|(cost, _)| *cost).min().unwrap();
        prop_assert_eq!(spent(&plan(&einsum, &limits).unwrap()), best);
        // The same under a limit, or the least limit under which there is one.
        let limited = Limits { largest_intermediate: Some(most), ..limits.clone() };
        let best = all.iter().filter(|(_, largest)| *largest <= most).map(|(cost, _)| *cost).min();
        match (plan(&einsum, &limited), best) {
            (Ok(plan), Some(best)) => {
                assert_sound(&einsum, &plan, &limited);
                prop_assert_eq!(spent(&plan), best);
            }
            (Err(error), None) => {
                prop_assert_eq!(error.smallest, all.iter().map(|(_, largest)| *largest).min().unwrap());
            }
            (plan, best) => prop_assert!(false, "{plan:?} against {best:?}"),
        }
    }

    #[test]
    fn the_order_of_operands_does_not_change_the_cost(einsum in einsums(2..=9, 1..=9), turn in 0..9_usize) {
        let limits = Limits::default();
        let mut turned = einsum.clone();
        turned.operands.rotate_left(turn % einsum.operands.len());
        let (plan, other) = (plan(&einsum, &limits).unwrap(), plan(&turned, &limits).unwrap());
        prop_assert_eq!(cost(&limits, plan.flops, plan.bytes), cost(&limits, other.flops, other.bytes));
        prop_assert_eq!(&glassgrad::opt::contract::plan(&einsum, &limits).unwrap(), &plan);
    }
}

/// Cost and largest intermediate of every binary tree, with labels of one operand summed before or not.
fn every_plan(einsum: &Einsum, limits: &Limits) -> Vec<(u128, u128)> {
    let distinct = |axes: &Vec<Label>| axes.iter().copied().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
    let leaves: Vec<Vec<Label>> = einsum.operands.iter().map(distinct).collect();
    let mut plans = Vec::new();
    for choice in 0..1_usize << leaves.len() {
        let (mut parts, mut spent, mut largest, mut idle) = (leaves.clone(), 0, 0, false);
        for k in (0..leaves.len()).filter(|k| choice >> k & 1 == 1) {
            let others = leaves.iter().enumerate().filter(|(other, _)| *other != k);
            let needed: BTreeSet<Label> =
                others.flat_map(|(_, axes)| axes.clone()).chain(einsum.output.iter().copied()).collect();
            let kept: Vec<Label> = leaves[k].iter().copied().filter(|label| needed.contains(label)).collect();
            idle |= kept == leaves[k];
            let step = Einsum::new(vec![leaves[k].clone()], kept.clone(), einsum.extents.clone());
            spent += step_cost(&step, limits);
            largest = largest.max(size(&step));
            parts[k] = kept;
        }
        if !idle {
            every_join(einsum, limits, parts, spent, largest, &mut plans);
        }
    }
    plans
}

fn every_join(
    einsum: &Einsum,
    limits: &Limits,
    parts: Vec<Vec<Label>>,
    spent: u128,
    largest: u128,
    plans: &mut Vec<(u128, u128)>,
) {
    for right in 1..parts.len() {
        for left in 0..right {
            let mut rest = parts.clone();
            let other = rest.remove(right);
            let one = rest.remove(left);
            let last = rest.is_empty();
            let output = if last { einsum.output.clone() } else { kept(&[&one, &other], &rest, &einsum.output) };
            let step = Einsum::new(vec![one, other], output.clone(), einsum.extents.clone());
            let spent = spent + step_cost(&step, limits);
            if last {
                plans.push((spent, largest));
            } else {
                rest.push(output);
                every_join(einsum, limits, rest, spent, largest.max(size(&step)), plans);
            }
        }
    }
}

/// The labels of some factors that the others or the output need.
fn kept(factors: &[&Vec<Label>], others: &[Vec<Label>], output: &[Label]) -> Vec<Label> {
    let needed = |label: &Label| output.contains(label) || others.iter().any(|axes| axes.contains(label));
    let labels: BTreeSet<Label> = factors.iter().flat_map(|axes| axes.iter()).copied().collect();
    labels.into_iter().filter(needed).collect()
}

fn step_cost(step: &Einsum, limits: &Limits) -> u128 {
    cost(limits, flops(step), elements_moved(step) * limits.element_bytes)
}

fn size(step: &Einsum) -> u128 {
    step.output.iter().map(|label| step.extents[*label] as u128).product()
}

/// The FLOPs of a path of the other library, counted as ours: it names places in a shrinking list.
fn path_costs(einsum: &Einsum, path: &[Vec<usize>], limits: &Limits) -> [u128; 2] {
    let mut rest = einsum.operands.clone();
    let mut costs = [0, 0];
    for places in path {
        let mut places = places.clone();
        places.sort_unstable();
        let factors: Vec<Vec<Label>> = places.iter().rev().map(|place| rest.remove(*place)).collect();
        let output = if rest.is_empty() {
            einsum.output.clone()
        } else {
            kept(&factors.iter().collect::<Vec<_>>(), &rest, &einsum.output)
        };
        let step = Einsum::new(factors, output.clone(), einsum.extents.clone());
        costs[0] += flops(&step);
        costs[1] += step_cost(&step, limits);
        rest.push(output);
    }
    assert_eq!(rest.len(), 1, "the path leaves {rest:?}");
    costs
}

/// FLOPs are those of [`flops`] for both: per combination of labels one multiplication for each factor but the
/// first, and one addition where something is summed.
#[test]
fn paths_of_opt_einsum_are_never_cheaper() {
    let mut as_cheap = 0;
    for (notation, sizes) in EXPRESSIONS {
        let einsum = sized(notation, sizes);
        let shapes: Vec<Vec<usize>> = (0..einsum.operands.len()).map(|k| einsum.operand_shape(k).to_vec()).collect();
        let exhaustive = if shapes.len() <= 6 { "optimal" } else { "branch-2" };
        let (alone, both) = (Limits { flops_per_byte: 0, ..Limits::default() }, Limits::default());
        let (ours, weighed) = (plan(&einsum, &alone).unwrap(), plan(&einsum, &both).unwrap());
        let mut found = Vec::new();
        for kind in ["auto-hq", "dp", "greedy", "branch-1", exhaustive] {
            // The dynamic programming of that library finds no path for some of them.
            let Ok((path, _)) = opt_einsum_path::contract_path(notation, &shapes, kind, None) else { continue };
            let [theirs, theirs_weighed] = path_costs(&einsum, &path, &both);
            assert!(ours.flops <= theirs, "{notation} by {kind}: {theirs} FLOPs, but here\n{ours}");
            let spent = cost(&both, weighed.flops, weighed.bytes);
            assert!(spent <= theirs_weighed, "{notation} by {kind}: cost {theirs_weighed}, but here\n{weighed}");
            found.push(theirs);
        }
        assert!(found.len() >= 3, "{notation}: {} paths to compare with", found.len());
        as_cheap += usize::from(found.contains(&ours.flops));
    }
    // That both usually find the same number shows that both count the same.
    assert!(as_cheap >= 25, "only {as_cheap} are equal");
}

/// Above twelve operands the search is not exact, but that of the other library is, if it needs no outer product.
#[test]
fn greedy_plans_are_nearly_as_cheap_as_exact_ones() {
    let limits = Limits { flops_per_byte: 0, ..Limits::default() };
    let mut as_cheap = 0;
    for (count, seed) in (0..24).map(|k| ([13, 16, 19][k % 3], k as u64)) {
        let draw = |k: usize, below: usize| (Key::new(seed).bits(k as u64) % below as u64) as usize;
        let chain: Vec<Vec<Label>> = (0..count).map(|k| vec![k, k + 1]).collect();
        // Edges between random factors, such that each factor has about three.
        let mut graph: Vec<Vec<Label>> = vec![Vec::new(); count];
        for label in 0..count * 3 / 2 {
            let one = label % count;
            let other = (one + 1 + draw(label, count - 1)) % count;
            graph[one].push(label);
            graph[other].push(label);
        }
        for (factors, output) in [(chain, vec![0, count]), (graph, vec![])] {
            let extents = (0..count * 3 / 2).map(|label| 2 + draw(1000 + label, 8)).collect();
            let einsum = Einsum::new(factors, output, extents);
            let name = |label: &Label| char::from(if *label < 26 { b'a' } else { b'A' - 26 } + *label as u8);
            let names = |axes: &Vec<Label>| axes.iter().map(name).collect::<String>();
            let inputs: Vec<String> = einsum.operands.iter().map(names).collect();
            let notation = format!("{}->{}", inputs.join(","), names(&einsum.output));
            let shapes: Vec<Vec<usize>> = (0..count).map(|k| einsum.operand_shape(k).to_vec()).collect();
            let (path, _) = opt_einsum_path::contract_path(&notation, &shapes, "dp", None).unwrap();
            let [theirs, _] = path_costs(&einsum, &path, &limits);
            let ours = plan(&einsum, &limits).unwrap().flops;
            assert!(8 * ours <= 9 * theirs, "{notation}: {ours} FLOPs against {theirs}");
            as_cheap += usize::from(500 * ours <= 501 * theirs);
        }
    }
    assert!(as_cheap >= 43, "only {as_cheap} of 48 are nearly as cheap");
}

#[test]
fn the_search_grows_as_it_should() {
    let letter = |k: usize| char::from(b'a' + k as u8);
    let considered = |notation: &str| {
        let names: BTreeSet<char> = notation.chars().filter(|name| name.is_alphabetic()).collect();
        let sizes: Vec<String> =
            names.iter().enumerate().map(|(k, name)| format!("{name}{}", 7 + k * 5 % 11)).collect();
        plan(&sized(notation, &sizes.join(" ")), &Limits::default()).unwrap().considered
    };
    // A chain of matrices has n²/2 connected parts: outer products are ruled out by the bound.
    let chain = |n: usize| {
        let factors: Vec<String> = (0..n).map(|k| [letter(k), letter(k + 1)].iter().collect()).collect();
        considered(&format!("{}->a{}", factors.join(","), letter(n)))
    };
    let chains: Vec<u64> = (4..=12).map(chain).collect();
    assert!(chains.windows(2).all(|pair| pair[1] <= 3 * pair[0]), "{chains:?}");
    // If all factors share a label, every pair of disjoint subsets may have to be weighed: 3ⁿ/2.
    for n in [4, 8, 12] {
        let factors: Vec<String> = (0..n).map(|k| ['z', letter(k)].iter().collect()).collect();
        let count = considered(&format!("{}->z", factors.join(",")));
        assert!(count <= 3_u64.pow(n as u32) / 2 + 20 * (n * n) as u64, "{count} for {n}");
    }
    // The greedy search above twelve is a polynomial of the number of factors.
    let ring = |n: usize| {
        let einsum = Einsum::new((0..n).map(|k| vec![k, (k + 1) % n]).collect(), vec![], vec![3; n]);
        plan(&einsum, &Limits::default()).unwrap()
    };
    let (small, large) = (ring(20), ring(80));
    assert!(large.considered <= 16 * small.considered, "{} and {}", small.considered, large.considered);
    // And it finds the best order of a ring: one matrix product less than factors, and a trace.
    assert_eq!(large.flops, 78 * 2 * 27 + 2 * 9);
}

#[test]
fn greedy_plans_keep_to_the_limit_or_say_what_was_found() {
    let grid = |side: usize| {
        let label = |row: usize, column: usize, down: bool| (row * side + column) * 2 + usize::from(down);
        let cell = |row: usize, column: usize| {
            let mut axes = Vec::new();
            axes.extend((column > 0).then(|| label(row, column - 1, false)));
            axes.extend((row > 0).then(|| label(row - 1, column, true)));
            axes.extend((column + 1 < side).then(|| label(row, column, false)));
            axes.extend((row + 1 < side).then(|| label(row, column, true)));
            axes
        };
        let cells = (0..side * side).map(|k| cell(k / side, k % side)).collect();
        Einsum::new(cells, vec![], vec![4; 2 * side * side])
    };
    let einsum = grid(5);
    let none = plan(&einsum, &Limits::default()).unwrap();
    let limits = Limits { largest_intermediate: Some(3), ..Limits::default() };
    let error = plan(&einsum, &limits).unwrap_err();
    // A grid of five by five cannot be cut by fewer than a few labels of extent 4.
    assert!(error.smallest >= 256 && error.smallest <= none.largest_intermediate, "{error}");
    let limits = Limits { largest_intermediate: Some(error.smallest), ..Limits::default() };
    assert!(plan(&einsum, &limits).unwrap().largest_intermediate <= error.smallest);
}

#[test]
fn corners() {
    let limits = Limits::default();
    let unit = Einsum::unit(&[2, 3]);
    assert_sound(&unit, &plan(&unit, &limits).unwrap(), &limits);
    assert_eq!(
        plan(&unit, &limits).unwrap().to_string(),
        "0 = ->ijij  0 FLOP, 144 B\nin all 0 FLOP, 144 B; largest intermediate 0 elements"
    );
    let product = Einsum::parse(",,->", &[&[], &[], &[]]).unwrap().scaled(3.0);
    assert_sound(&product, &plan(&product, &limits).unwrap(), &limits);
    assert_eq!(plan(&product, &limits).unwrap().flops, 2);
    let empty = sized("ij,jk,k->i", "i3 j0 k4");
    assert_sound(&empty, &plan(&empty, &limits).unwrap(), &limits);
    // Extents whose product no machine number holds: counts stay at the largest, and nothing overflows.
    let huge = usize::MAX;
    let einsum = Einsum::parse("ij,jk,kl->il", &[&[huge, huge], &[huge, huge], &[huge, huge]]).unwrap();
    let plan = plan(&einsum, &limits).unwrap();
    assert_eq!((plan.steps.len(), plan.flops), (2, u128::MAX));
    assert!(plan.to_string().ends_with(
        "in all over 3e38 FLOP, over 3e38 B; largest intermediate 340282366920938463426481119284349108225 elements"
    ));
}

#[test]
fn plans_are_as_shown() {
    let shown = |notation: &str, sizes: &str| {
        let einsum = sized(notation, sizes);
        let plan = plan(&einsum, &Limits::default()).unwrap();
        let shapes: Vec<String> = (0..einsum.operands.len()).map(|k| einsum.operand_shape(k).to_string()).collect();
        format!("{einsum} of {}\n{plan}", shapes.join(", "))
    };
    insta::assert_snapshot!("matrix_chain", shown("ij,jk,kl,l->i", "i1000 j1000 k1000 l1000"));
    insta::assert_snapshot!("lone_labels_are_summed_first", shown("ij,kl,k->ik", "i100 j200 k300 l400"));
    insta::assert_snapshot!("attention", shown("bqhd,bkhd,bkhe->bqhe", "b8 q128 k128 h12 d64 e64"));
    insta::assert_snapshot!("four_index_transformation", shown(EXPRESSIONS[9].0, EXPRESSIONS[9].1));
    insta::assert_snapshot!("deltas_come_last", shown("ki,kj,li,mm->iijjn=5", "i30 j30 k40 l50 m60"));
    insta::assert_snapshot!("twelve_factors", shown(EXPRESSIONS[29].0, EXPRESSIONS[29].1));
}

/// Einsums over a pool of tensors: all of shape 3×3, so that any tensor can stand anywhere.
fn questions() -> impl Strategy<Value = Vec<ContractionRequest>> {
    let factor = (0..3_usize, 0..5_usize, 0..5_usize);
    let one = (prop::collection::vec(factor, 0..=5), prop::collection::vec(0..6_usize, 0..=3), prop::bool::ANY);
    prop::collection::vec(one, 1..=4).prop_map(|questions| {
        let asked = questions.into_iter().map(|(factors, output, twice)| {
            let labels = factors.iter().map(|(_, row, column)| vec![*row, *column]).collect();
            let einsum = Einsum::new(labels, output, vec![3; 6]).scaled(if twice { 2.0 } else { 1.0 });
            ContractionRequest { einsum, operands: factors.iter().map(|(tensor, ..)| *tensor).collect() }
        });
        asked.collect()
    })
}

/// Runs a joint plan and holds each of its results against the definition.
fn assert_answers(asked: &[ContractionRequest], limits: &Limits) -> glassgrad::opt::contract::JointPlan {
    let joint = plan_all(asked, limits).unwrap();
    let mut pool = vec![Vec::new(); joint.plan.inputs];
    for one in asked {
        for (place, tensor) in one.operands.iter().enumerate() {
            pool[*tensor] = numbers(&one.einsum, place, *tensor);
        }
    }
    let values = run(&joint.plan.steps, pool.clone());
    for (one, result) in asked.iter().zip(&joint.results) {
        let operands: Vec<&Vec<f64>> = one.operands.iter().map(|tensor| &pool[*tensor]).collect();
        assert_eq!(values[*result], value(&one.einsum, &operands), "{}\n{joint}", one.einsum);
    }
    let separate = cost(limits, joint.separate_flops, joint.separate_bytes);
    assert!(cost(limits, joint.plan.flops, joint.plan.bytes) <= separate, "{joint}");
    joint
}

proptest! {
    #![proptest_config(random_cases(400))]

    #[test]
    fn joint_plans_answer_every_question(asked in questions(), limits in limits()) {
        assert_answers(&asked, &limits);
    }
}

fn ask(notation: &str, sizes: &str, operands: &[usize]) -> ContractionRequest {
    ContractionRequest { einsum: sized(notation, sizes), operands: operands.to_vec() }
}

#[test]
fn common_parts_are_found_whatever_they_are_called() {
    // A B by two names, and A A with its factors in either order: each is computed once.
    let (first, second) =
        (ask("ij,jk,kl->il", "i20 j20 k20 l2", &[0, 1, 2]), ask("pq,r,qr->p", "p20 q20 r20", &[0, 3, 1]));
    let joint = assert_answers(&[first.clone(), first.clone()], &Limits::default());
    assert_eq!(2 * joint.plan.flops, joint.separate_flops);
    let squares = [ask("ij,jk->ik", "i9 j9 k9", &[0, 0]), ask("jk,ij->ik", "i9 j9 k9", &[0, 0])];
    assert_eq!(assert_answers(&squares, &Limits::default()).plan.steps.len(), 1);
    // The transposed product is the same tensor with its axes swapped; a product with a transposed factor is not.
    let swapped = [ask("ij,jk->ik", "i9 j9 k9", &[0, 1]), ask("ij,jk->ki", "i9 j9 k9", &[0, 1])];
    assert_eq!(assert_answers(&swapped, &Limits::default()).plan.flops, 2 * 729);
    let other = [ask("ij,jk->ik", "i9 j9 k9", &[0, 1]), ask("ij,kj->ik", "i9 j9 k9", &[0, 1])];
    assert_eq!(assert_answers(&other, &Limits::default()).plan.flops, 4 * 729);
    // Alone, each takes its own way; nothing is shared where that would cost more.
    let joint = assert_answers(&[first, second], &Limits::default());
    assert!(joint.plan.flops <= joint.separate_flops);
}

#[test]
fn value_gradient_and_hessian_share() {
    // Σ_n w_n (X θ)_n² with its derivatives: 0 is X, 1 is θ, 2 is w.
    let sizes = "n200 i30 j30";
    let asked = [
        ask("ni,i,nj,j,n->", sizes, &[0, 1, 0, 1, 2]),
        ask("ni,nj,j,n->i", sizes, &[0, 0, 1, 2]),
        ask("ni,nj,n->ij", sizes, &[0, 0, 2]),
    ];
    let joint = assert_answers(&asked, &Limits::default());
    // The gradient is the Hessian times θ, and the value the gradient times θ: the Hessian is nearly all.
    assert_eq!(joint.plan.flops, 2 * 200 * 30 * 30 + 200 * 30 + 2 * 30 * 30 + 2 * 30);
    insta::assert_snapshot!("value_gradient_hessian", joint.to_string());
}
