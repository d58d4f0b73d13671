//! Compiled tapes before every other mode: rows, random programs, guards, batches, poles.

use glassgrad::Real;
use glassgrad::ops::{Algebra, Binary, Operation, Relation, Row, Unary, Visitor, visit};
use glassgrad::scalar::compiled::GuardFailed;
use glassgrad::scalar::{Compiled, CompiledTape, Derivative, Dual, Mode, Recorded, Var, gradient, hvp, jacobian};

#[path = "judges/random.rs"]
mod random;
use random::Random;

const KINDS: [Derivative; 6] = [
    Derivative::Value,
    Derivative::Gradient,
    Derivative::Tangent,
    Derivative::Pullback,
    Derivative::HessianProduct,
    Derivative::Jacobian,
];

/// A function of every number, so that each mode can evaluate it.
trait Function {
    fn at<T: Real>(&self, x: &[T]) -> T;
}

/// What a kind of code computes, by the other modes.
fn expected(function: &impl Function, kind: Derivative, x: &[f64], extra: &[f64]) -> Vec<f64> {
    let value = vec![function.at(x)];
    let dual = |x: &[f64]| -> Vec<Dual<f64>> { x.iter().zip(extra).map(|(x, v)| Dual::new(*x, [*v])).collect() };
    let derivative = match kind {
        Derivative::Value => vec![],
        Derivative::Gradient | Derivative::Jacobian => gradient(|x| function.at(x), x),
        Derivative::Tangent => vec![function.at(&dual(x)).tangent()],
        Derivative::Pullback => Recorded::new(|x| function.at(x), x).vjp(extra),
        Derivative::HessianProduct => [gradient(|x| function.at(x), x), hvp(|x| function.at(x), x, extra)].concat(),
    };
    [value, derivative].concat()
}

fn agree(found: &[f64], expected: &[f64], scale: f64, context: &dyn std::fmt::Debug) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let equal = found == expected || found.is_nan() && expected.is_nan();
        let near = (found - expected).abs() <= 1e-12 * scale * (1.0 + expected.abs());
        assert!(equal || near, "{found} for {expected}: {context:?}");
    }
}

/// Compiles a function at one point and compares every kind of code at all points.
fn check(function: &impl Function, points: &[Vec<f64>], scale: f64, context: &dyn std::fmt::Debug) {
    for kind in KINDS {
        let recorded = Recorded::new(|x| function.at(x), &points[0]);
        let compiled = CompiledTape::new(&recorded, kind).unwrap();
        for x in points {
            let extra: Vec<f64> = (0..compiled.arguments() - x.len()).map(|k| 0.7 - 0.4 * k as f64).collect();
            let mut found = vec![f64::NAN; compiled.results()];
            compiled.evaluate(&[&x[..], &extra].concat(), &mut found).unwrap();
            agree(&found, &expected(function, kind, x, &extra), scale, &(context, kind, x));
        }
    }
}

struct UnaryRow<R>(std::marker::PhantomData<R>, f64);
struct BinaryRow<R>(std::marker::PhantomData<R>);

impl<R: Unary> Function for UnaryRow<R> {
    fn at<T: Real>(&self, x: &[T]) -> T {
        // With something before and behind, so that the rule meets tangents and adjoints other than one.
        let inner = x[0] * T::literal(1.0);
        inner.unary::<R>(self.1) * T::literal(3.0)
    }
}

impl<R: Binary> Function for BinaryRow<R> {
    fn at<T: Real>(&self, x: &[T]) -> T {
        x[0].binary::<R>(x[1]) * T::literal(3.0)
    }
}

struct Rows(usize);

impl Visitor for Rows {
    fn unary<R: Unary>(&mut self, row: &Row) {
        self.0 += 1;
        let parameter = row.parameter.map_or(0.0, |parameter| parameter.default);
        let range = &row.domain[0];
        let mut points: Vec<Vec<f64>> =
            (0..9).map(|k| vec![range.start + (range.end - range.start) * (f64::from(k) + 0.37) / 9.0]).collect();
        points.extend(row.special.iter().map(|special| special.at.to_vec()));
        points.extend([vec![0.0], vec![f64::NAN]]);
        check(&UnaryRow::<R>(std::marker::PhantomData, parameter), &points, 1.0, &row.operation);
    }

    fn binary<R: Binary>(&mut self, row: &Row) {
        self.0 += 1;
        let at = |argument: usize, fraction: f64| {
            let range = &row.domain[argument];
            range.start + (range.end - range.start) * fraction
        };
        let mut points: Vec<Vec<f64>> = (0..9)
            .map(|k| vec![at(0, (f64::from(k) + 0.37) / 9.0), at(1, (f64::from(k * 4 % 9) + 0.21) / 9.0)])
            .collect();
        points.extend(row.special.iter().map(|special| special.at.to_vec()));
        check(&BinaryRow::<R>(std::marker::PhantomData), &points, 1.0, &row.operation);
    }
}

#[test]
fn every_row_agrees_with_the_other_modes_in_every_kind() {
    let mut rows = Rows(0);
    visit(&mut rows);
    assert_eq!(rows.0, Operation::ALL.len());
}

/// A random program over the rows that are smooth enough not to amplify rounding errors without bound.
struct Program(u64);

impl Function for Program {
    fn at<T: Real>(&self, x: &[T]) -> T {
        let mut random = Random::new(self.0);
        let mut pool = x.to_vec();
        for _ in 0..30 {
            let mut pick = || {
                let place = random.next() as usize % (pool.len() + 1);
                pool.get(place).copied().unwrap_or_else(|| T::literal(random.within(&(-2.0..2.0))))
            };
            let (a, b) = (pick(), pick());
            pool.push(match random.next() % 14 {
                0 | 1 => a + b,
                2 => a - b,
                3 | 4 => (a * b).tanh(),
                5 => a / (b.square() + T::literal(1.0)),
                6 => a.sin(),
                7 => a.relu(),
                8 => Algebra::max(a, b),
                9 => a.sigmoid(),
                10 => (a.square() + T::literal(0.5)).ln(),
                11 => (-a.square()).exp(),
                12 => a.tanh().powi(3),
                _ => Algebra::choose(a, Relation::Less, b, a, b * T::literal(0.5)),
            });
        }
        pool.into_iter().rev().take(4).sum()
    }
}

#[test]
fn random_programs_agree_with_the_other_modes_to_second_order() {
    let mut random = Random::new(5);
    for seed in 0..60 {
        let points: Vec<Vec<f64>> = (0..4).map(|_| (0..3).map(|_| random.within(&(-2.0..2.0))).collect()).collect();
        check(&Program(seed), &points, 100.0, &seed);
    }
}

#[test]
fn long_recordings_are_compiled_in_segments() {
    struct Long;
    impl Function for Long {
        fn at<T: Real>(&self, x: &[T]) -> T {
            let start = x[0] * x[1];
            let sum = (0..4000).fold(x[0], |sum, k| {
                let next = sum * T::literal(0.5) + (x[1] * T::literal(f64::from(k) * 1e-3)).sin();
                // A condition that is read in another segment than it is computed in.
                Algebra::choose(start, Relation::Greater, T::literal(0.5), next, next * T::literal(0.9))
            });
            sum * start
        }
    }
    check(&Long, &[vec![0.5, 1.5], vec![0.2, 0.3]], 10.0, &"a long chain");
}

#[test]
fn several_results_have_pullbacks_and_tangents() {
    let x = [0.4, 1.7, -0.6];
    let recorded =
        Recorded::several(|x, y| (y[0], y[1], y[2]) = (x[0] * x[1], (x[1] * x[2]).sin(), Var::constant(4.0)), &x, 3);
    let dense = jacobian(
        |x, y| (y[0], y[1], y[2]) = (x[0] * x[1], (x[1] * x[2]).sin(), Var::constant(4.0)),
        &x,
        3,
        Mode::Forward,
    );
    let tangent = CompiledTape::new(&recorded, Derivative::Tangent).unwrap();
    let pullback = CompiledTape::new(&recorded, Derivative::Pullback).unwrap();
    let mut results = [0.0; 6];
    for k in 0..3 {
        let unit: Vec<f64> = (0..3).map(|j| if j == k { 1.0 } else { 0.0 }).collect();
        tangent.evaluate(&[&x[..], &unit].concat(), &mut results).unwrap();
        agree(&results[3..], &[dense[(0, k)], dense[(1, k)], dense[(2, k)]], 1.0, &k);
        pullback.evaluate(&[&x[..], &unit].concat(), &mut results).unwrap();
        agree(&results[3..], &[dense[(k, 0)], dense[(k, 1)], dense[(k, 2)]], 1.0, &k);
        assert_eq!(results[2], 4.0);
    }
}

#[test]
fn jacobians_are_compiled_forwards_in_reverse_and_along_constant_directions() {
    fn write<T: Real>(x: &[T], y: &mut [T]) {
        for (k, y) in y.iter_mut().enumerate() {
            *y = (x[k % x.len()] * x[(k + 1) % x.len()]).sin() / (x[0].square() + T::literal(1.0));
        }
    }
    let x = [0.4, 1.7, -0.6, 2.2];
    for results in [1, 3, 4, 9] {
        let recorded = Recorded::several(|x, y| write(x, y), &[1.0; 4], results);
        let dense = jacobian(|x, y| write(x, y), &x, results, Mode::Reverse);
        let compiled = CompiledTape::new(&recorded, Derivative::Jacobian).unwrap();
        let mut found = vec![f64::NAN; compiled.results()];
        compiled.evaluate(&x, &mut found).unwrap();
        agree(&found[results..], dense.elements(), 1.0, &results);
        let directions = [vec![1.0, 0.0, 1.0, 0.0], vec![0.5, 2.0, 0.0, -1.0]];
        let compressed = CompiledTape::compressed(&recorded, &directions).unwrap();
        let mut found = vec![f64::NAN; compressed.results()];
        compressed.evaluate(&x, &mut found).unwrap();
        for row in 0..results {
            let product = |direction: &[f64]| (0..4).map(|k| dense[(row, k)] * direction[k]).sum::<f64>();
            agree(&found[results + 2 * row..][..2], &[product(&directions[0]), product(&directions[1])], 10.0, &row);
        }
        // At a pole the interpreter takes over; its Jacobian has strong zeros.
        let root = Recorded::several(|x, y| (y[0], y[1]) = (x[0].sqrt() + x[1], x[1] * 2.0), &[1.0, 1.0], 2);
        let compiled = CompiledTape::compressed(&root, &[vec![1.0, 0.0], vec![0.0, 1.0]]).unwrap();
        let mut found = [0.0; 6];
        compiled.evaluate(&[0.0, 3.0], &mut found).unwrap();
        assert_eq!(found, [3.0, 6.0, f64::INFINITY, 1.0, 0.0, 2.0]);
    }
}

// ------------------------------------------------------------------ guards

/// Newton's iteration with a number of steps that depends on the point, and branches on the way.
fn branching<'t>(x: &[Var<'t>]) -> Var<'t> {
    let mut root = x[0];
    if x[1] < 0.0 {
        return x[0] * x[1];
    }
    while (root.square() - x[1]).value().abs() > 1e-9 && root < 100.0 {
        root = (root + x[1] / root) * 0.5;
        if (root.square() - x[1]).abs() < 1e-9 {
            break;
        }
    }
    root
}

#[test]
fn a_function_that_branches_is_recorded_once_for_each_branch() {
    let mut compiled = Compiled::new(branching);
    let mut found = [0.0; 2];
    let points = [[1.0, 2.0], [1.1, 2.0], [1.0, -3.0], [2.0, -5.0], [1.0, 2.01], [150.0, 3.0], [1.0, 2.0]];
    for x in points {
        let value = compiled.gradient(&x, &mut found).unwrap();
        let recorded = Recorded::new(branching, &x);
        let (expected, slopes) = (recorded.value(), recorded.gradient());
        agree(&[value], &[expected], 1.0, &x);
        agree(&found, &slopes, 1.0, &x);
    }
    let recordings = compiled.recordings();
    assert!((3..points.len()).contains(&recordings), "{recordings} recordings");
    for x in points {
        compiled.gradient(&x, &mut found).unwrap();
    }
    assert_eq!(compiled.recordings(), recordings, "every branch is known by now");
    // The other kinds of the same function have recordings of their own.
    let (value, tangent) = compiled.tangent(&[1.0, -3.0], &[1.0, 10.0]).unwrap();
    assert_eq!((value, tangent, compiled.value(&[2.0, -5.0]).unwrap()), (-3.0, 7.0, -10.0));
    compiled.hvp(&[1.0, -3.0], &[1.0, 10.0], &mut found).unwrap();
    assert_eq!(found, [10.0, 1.0]);
}

#[test]
fn every_relation_is_guarded_with_both_outcomes_and_with_nan() {
    for relation in Relation::ALL {
        for at in [1.0, 2.0, 3.0, f64::NAN] {
            let compare = |x: &[Var<'_>]| Algebra::compare(x[0], relation, Var::constant(2.0));
            let mut recorded = Recorded::new(
                |x| {
                    compare(x);
                    x[0] * 2.0
                },
                &[at],
            );
            let compiled = CompiledTape::new(&recorded, Derivative::Gradient).unwrap();
            let mut results = [0.0; 2];
            for other in [1.0, 2.0, 3.0, f64::NAN] {
                let replayed = recorded.replay(&[other]).is_ok();
                assert_eq!(compiled.evaluate(&[other], &mut results).is_ok(), replayed, "{relation:?} {at} {other}");
            }
        }
    }
}

#[test]
fn batches_name_the_first_point_at_which_a_guard_fails() {
    let recorded = Recorded::new(|x| if x[0] > 0.0 { x[0].sqrt() * x[1] } else { x[0] }, &[1.0, 1.0]);
    let compiled = CompiledTape::new(&recorded, Derivative::Gradient).unwrap();
    for failing in 0..7 {
        for threads in [1, 2, 3] {
            let mut points: Vec<f64> = (0..14).map(|k| 1.0 + f64::from(k)).collect();
            points[2 * failing] = -1.0;
            let mut results = vec![0.0; 21];
            let failed = compiled.evaluate_batch(&points, &mut results, threads);
            assert_eq!(failed, Err(GuardFailed { point: failing }));
            for (k, (point, results)) in
                points.chunks(2).zip(results.chunks(3)).enumerate().filter(|(k, _)| *k != failing)
            {
                let expected = [point[0].sqrt() * point[1], 0.5 / point[0].sqrt() * point[1], point[0].sqrt()];
                agree(results, &expected, 1.0, &k);
            }
        }
    }
}

#[test]
fn batches_are_the_points_one_by_one() {
    let mut random = Random::new(9);
    for seed in 0..10 {
        for kind in KINDS {
            let recorded = Recorded::new(|x| Program(seed).at(x), &[0.1, 0.2, 0.3]);
            let compiled = CompiledTape::new(&recorded, kind).unwrap();
            for (count, threads) in [(0, 2), (1, 2), (2, 1), (7, 1), (7, 3), (64, 2)] {
                let arguments: Vec<f64> =
                    (0..count * compiled.arguments()).map(|_| random.within(&(-2.0..2.0))).collect();
                let mut results = vec![f64::NAN; count * compiled.results()];
                compiled.evaluate_batch(&arguments, &mut results, threads).unwrap();
                for point in 0..count {
                    let mut single = vec![f64::NAN; compiled.results()];
                    let arguments = &arguments[point * compiled.arguments()..][..compiled.arguments()];
                    compiled.evaluate(arguments, &mut single).unwrap();
                    let batch = &results[point * compiled.results()..][..compiled.results()];
                    assert_eq!(batch, single, "lanes and single points run the same operations");
                }
            }
        }
    }
}

// ------------------------------------------------------------------ edges

#[test]
fn strong_zeros_hold_across_poles() {
    struct Pole;
    impl Function for Pole {
        fn at<T: Real>(&self, x: &[T]) -> T {
            // The first term has an infinite partial that a zero adjoint meets, the choice one in the branch not taken.
            let chosen = Algebra::choose(x[0], Relation::Greater, T::literal(0.0), x[0].sqrt(), x[1]);
            chosen * x[1] + (x[0].abs().sqrt() * T::literal(0.0)) + x[1].square()
        }
    }
    check(&Pole, &[vec![1.0, 2.0], vec![0.0, 2.0], vec![-1.0, 2.0], vec![4.0, 0.0]], 1.0, &"poles");
}

#[test]
fn constants_and_inputs_are_results_too() {
    for kind in KINDS {
        let constant = CompiledTape::new(&Recorded::new(|_| Var::constant(7.0), &[1.0, 2.0]), kind).unwrap();
        let arguments = vec![0.5; constant.arguments()];
        let mut results = vec![f64::NAN; constant.results()];
        constant.evaluate(&arguments, &mut results).unwrap();
        assert_eq!(results[0], 7.0);
        assert!(results[1..].iter().all(|derivative| *derivative == 0.0), "{kind:?} {results:?}");
    }
    let input = CompiledTape::new(&Recorded::new(|x| x[1], &[1.0, 2.0]), Derivative::Gradient).unwrap();
    let mut results = [0.0; 3];
    input.evaluate(&[3.0, 4.0], &mut results).unwrap();
    assert_eq!(results, [4.0, 0.0, 1.0]);
    let nothing = CompiledTape::new(&Recorded::new(|_| Var::constant(1.0), &[]), Derivative::Gradient).unwrap();
    nothing.evaluate(&[], &mut results[..1]).unwrap();
    assert_eq!(results[0], 1.0);
}

#[test]
fn common_subexpressions_are_computed_once() {
    let repeated =
        Recorded::new(|x| (x[0] * x[1]).sin() + (x[1] * x[0]).sin() + 0.0 * (x[0] * x[1]).sin(), &[1.0, 2.0]);
    let once = CompiledTape::new(&repeated, Derivative::Value).unwrap();
    // A product, a sine, a doubling, a product with zero, and their sum.
    assert_eq!((repeated.tape().len() - 2, once.operations()), (9, 5));
    let folded = Recorded::new(|x| (x[0] * 1.0 / 4.0 - 0.0) * -1.0, &[1.0]);
    assert_eq!(CompiledTape::new(&folded, Derivative::Value).unwrap().operations(), 2, "a product and a sign");
}

#[test]
fn code_is_shared_between_threads_and_outlives_the_recording() {
    let compiled = CompiledTape::new(&Recorded::new(|x| x[0].exp() * x[1], &[1.0, 1.0]), Derivative::Gradient).unwrap();
    std::thread::scope(|scope| {
        for k in 0..4 {
            let compiled = &compiled;
            scope.spawn(move || {
                let x = [0.1 * f64::from(k), 2.0];
                let mut results = [0.0; 3];
                for _ in 0..100 {
                    compiled.evaluate(&x, &mut results).unwrap();
                    assert_eq!(results, [x[0].exp() * 2.0, x[0].exp() * 2.0, x[0].exp()]);
                }
            });
        }
    });
}
