//! The table of operations before its judges.
//!
//! No operation is named by the judges: every row is visited, and its rule is tried on random points
//! of its own domain against finite differences of its value, against the identity of forward and
//! reverse mode, and against every other mode, to second order. The judges are judged in turn: a rule
//! that is wrong by a thousandth must fail.

#[path = "judges/closeness.rs"]
mod closeness;
#[path = "judges/differences.rs"]
mod differences;
#[path = "judges/random.rs"]
mod random;

use std::cell::Cell;
use std::marker::PhantomData;

use closeness::{agree, size_of_all};
use glassgrad::algebra::Float;
use glassgrad::c;
use glassgrad::ops::{Algebra, Binary, Operation, Real, Row, Unary, Visitor, rule, visit};
use glassgrad::scalar::{Dual, NodeId, Sweep, Tape, TaylorPool, Var};
use random::Random;

/// How many random points each row is tried at.
const POINTS: usize = 24;
/// How many roundings of numbers of the size of the results two modes may differ by. They evaluate
/// the same formula in different orders; the longest formula of the table has some thirty operations.
const ROUNDINGS: f64 = 32.0;

// ------------------------------------------------------------------ rules with one face for both arities

/// A rule of one or two arguments, so that every judge is written once. It is never inlined: one copy
/// for each number is enough, and the engines inline all that a rule is made of.
trait Rule {
    const ARGUMENTS: usize;
    fn apply<T: Real>(x: &[T], parameter: f64) -> T;
}

struct One<R>(PhantomData<R>);
struct Two<R>(PhantomData<R>);

impl<R: Unary> Rule for One<R> {
    const ARGUMENTS: usize = 1;
    #[inline(never)]
    fn apply<T: Real>(x: &[T], parameter: f64) -> T {
        x[0].unary::<R>(parameter)
    }
}

impl<R: Binary> Rule for Two<R> {
    const ARGUMENTS: usize = 2;
    #[inline(never)]
    fn apply<T: Real>(x: &[T], _: f64) -> T {
        x[0].binary::<R>(x[1])
    }
}

thread_local! {
    /// Which partial derivative [`Perturbed`] spoils, and whether it is flat. Choosing at run time
    /// compiles every wrong rule once instead of four times.
    static SPOILED: Cell<(usize, bool)> = const { Cell::new((0, false)) };
}

/// A rule with one partial derivative a thousandth too large, or, where it is zero everywhere, a
/// thousandth above zero.
struct Perturbed<R>(PhantomData<R>);

fn spoil<T: Algebra>(partial: usize, right: T) -> T {
    match SPOILED.get() {
        (spoiled, _) if spoiled != partial => right,
        (_, false) => right * c(1.001),
        (_, true) => right + c(0.001),
    }
}

impl<R: Unary> Unary for Perturbed<R> {
    const OPERATION: Operation = R::OPERATION;
    const USES_OUTPUT: bool = R::USES_OUTPUT;
    fn value<F: Float>(x: F, parameter: f64) -> F {
        R::value(x, parameter)
    }
    fn derivative<T: Algebra>(x: T, y: T, parameter: f64) -> T {
        spoil(0, R::derivative(x, y, parameter))
    }
}

impl<R: Binary> Binary for Perturbed<R> {
    const OPERATION: Operation = R::OPERATION;
    const USES_OUTPUT: bool = R::USES_OUTPUT;
    const ARITHMETIC: bool = R::ARITHMETIC;
    fn value<F: Float>(a: F, b: F) -> F {
        R::value(a, b)
    }
    fn first<T: Algebra>(a: T, b: T, y: T) -> T {
        spoil(0, R::first(a, b, y))
    }
    fn second<T: Algebra>(a: T, b: T, y: T) -> T {
        spoil(1, R::second(a, b, y))
    }
}

// ------------------------------------------------------------------ derivatives in every mode

/// Value, gradient and Hessian at a point as one mode computes them.
#[derive(Debug)]
struct Derivatives {
    value: f64,
    gradient: Vec<f64>,
    hessian: Vec<Vec<f64>>,
}

impl Derivatives {
    fn numbers(&self) -> Vec<f64> {
        [self.value].iter().chain(&self.gradient).chain(self.hessian.iter().flatten()).copied().collect()
    }
}

fn one_at(place: usize, index: usize) -> f64 {
    if place == index { 1.0 } else { 0.0 }
}

/// Two tangents of two tangents: everything in one evaluation.
fn by_duals_of_duals<R: Rule>(x: &[f64], parameter: f64) -> Derivatives {
    let seeded: Vec<Dual<Dual<f64, 2>, 2>> =
        x.iter().enumerate().map(|(k, x)| Dual::along(Dual::along(*x, k), k)).collect();
    let y = R::apply(&seeded, parameter);
    let rows = || y.tangents.iter().take(R::ARGUMENTS);
    Derivatives {
        value: y.value.value,
        gradient: rows().map(|tangent| tangent.value).collect(),
        hessian: rows().map(|tangent| tangent.tangents[..R::ARGUMENTS].to_vec()).collect(),
    }
}

/// One tangent of one tangent: one evaluation for each pair of arguments.
fn by_one_pair_at_a_time<R: Rule>(x: &[f64], parameter: f64) -> Derivatives {
    let along = |i: usize, j: usize| {
        let seed = |(k, x): (usize, &f64)| Dual::new(Dual::new(*x, [one_at(k, j)]), [Dual::constant(one_at(k, i))]);
        R::apply(&x.iter().enumerate().map(seed).collect::<Vec<Dual<Dual<f64>>>>(), parameter)
    };
    let all = 0..R::ARGUMENTS;
    Derivatives {
        value: along(0, 0).value.value,
        gradient: all.clone().map(|i| along(i, 0).tangent().value).collect(),
        hessian: all.clone().map(|i| all.clone().map(|j| along(i, j).tangent().tangent()).collect()).collect(),
    }
}

/// Reverse over forward: a tape that records dual numbers.
fn by_tape_of_duals<R: Rule>(x: &[f64], parameter: f64) -> Derivatives {
    let tape = Tape::new();
    let inputs: Vec<Var<'_, Dual<f64, 2>>> =
        x.iter().enumerate().map(|(k, x)| tape.input(Dual::along(*x, k))).collect();
    let y = R::apply(&inputs, parameter);
    let adjoints = tape.reverse(y);
    Derivatives {
        value: y.value().value,
        gradient: inputs.iter().map(|x| adjoints.of(*x).value).collect(),
        hessian: inputs.iter().map(|x| adjoints.of(*x).tangents[..R::ARGUMENTS].to_vec()).collect(),
    }
}

/// The gradient of a number of the tape; a constant has gradient zero.
fn gradient_of(tape: &Tape<f64>, y: Var<'_, f64>, inputs: &[Var<'_, f64>]) -> Vec<f64> {
    match y.id() {
        Some(node) => {
            let adjoints = tape.reverse(node);
            inputs.iter().map(|x| adjoints.of(*x)).collect()
        }
        None => vec![0.0; inputs.len()],
    }
}

/// Forward over reverse: dual numbers of variables of a tape.
fn by_duals_of_variables<R: Rule>(x: &[f64], parameter: f64) -> Derivatives {
    let tape = Tape::new();
    let inputs = tape.inputs(x);
    let seeded: Vec<Dual<Var<'_, f64>, 2>> = inputs.iter().enumerate().map(|(k, x)| Dual::along(*x, k)).collect();
    let y = R::apply(&seeded, parameter);
    let slopes = &y.tangents[..R::ARGUMENTS];
    Derivatives {
        value: y.value.value(),
        gradient: slopes.iter().map(|slope| slope.value()).collect(),
        hessian: slopes.iter().map(|slope| gradient_of(&tape, *slope, &inputs)).collect(),
    }
}

/// Reverse over reverse: a tape that records variables of another tape.
fn by_tape_of_tapes<R: Rule>(x: &[f64], parameter: f64) -> Derivatives {
    let outer = Tape::new();
    let outer_inputs = outer.inputs(x);
    let inner = Tape::new();
    let inner_inputs = inner.inputs(&outer_inputs);
    let y = R::apply(&inner_inputs, parameter);
    let adjoints = inner.reverse(y);
    let slopes: Vec<Var<'_, f64>> = inner_inputs.iter().map(|x| adjoints.of(*x)).collect();
    Derivatives {
        value: y.value().value(),
        gradient: slopes.iter().map(|slope| slope.value()).collect(),
        hessian: slopes.iter().map(|slope| gradient_of(&outer, *slope, &outer_inputs)).collect(),
    }
}

/// The coefficients of the series along a line through the point.
fn series<R: Rule>(x: &[f64], direction: &[f64], order: usize, parameter: f64) -> Vec<f64> {
    let pool = TaylorPool::new(order);
    let lines: Vec<_> = x.iter().zip(direction).map(|(x, v)| pool.series(&[*x, *v])).collect();
    R::apply(&lines, parameter).coefficients()
}

/// Taylor numbers: mixed derivatives from the coefficients along sums of directions.
fn by_taylor<R: Rule>(x: &[f64], parameter: f64) -> Derivatives {
    let n = R::ARGUMENTS;
    let along = |i: usize, j: usize| {
        let direction: Vec<f64> = (0..n).map(|k| f64::max(one_at(k, i), one_at(k, j))).collect();
        series::<R>(x, &direction, 2, parameter)
    };
    let second = |i: usize, j: usize| {
        if i == j { 2.0 * along(i, i)[2] } else { along(i, j)[2] - along(i, i)[2] - along(j, j)[2] }
    };
    Derivatives {
        value: along(0, 0)[0],
        gradient: (0..n).map(|i| along(i, i)[1]).collect(),
        hessian: (0..n).map(|i| (0..n).map(|j| second(i, j)).collect()).collect(),
    }
}

/// The first derivatives that the engines without a second order compute.
fn first_order<R: Rule>(x: &[f64], parameter: f64) -> Vec<Named> {
    let tape = Tape::new();
    let inputs = tape.inputs(x);
    let y = R::apply(&inputs, parameter);
    let forward = inputs.iter().map(|x| tape.forward(*x).of(y)).collect();
    let reverse = gradient_of(&tape, y, &inputs);
    let lanes: Vec<Dual<f64, 3>> = x.iter().enumerate().map(|(k, x)| Dual::along(*x, 2 - k)).collect();
    let lanes = R::apply(&lanes, parameter).tangents.iter().rev().take(x.len()).copied().collect();
    let single = |i: usize| x.iter().enumerate().map(|(k, x)| Dual::new(*x, [one_at(k, i)])).collect::<Vec<_>>();
    let single = (0..x.len()).map(|i| R::apply(&single(i), parameter).tangent()).collect();
    vec![("the forward sweep", forward), ("the reverse sweep", reverse), ("three lanes", lanes), ("one lane", single)]
}

/// A tower of four dual numbers along a line through the point: derivatives of order 0 to 4.
fn by_nested_duals<R: Rule>(x: &[f64], direction: &[f64], parameter: f64) -> [f64; 5] {
    fn tower<T: Real>(x: T, v: T) -> Dual<T> {
        Dual::new(x, [v])
    }
    let lift = |(x, v): (&f64, &f64)| {
        let first = tower(*x, *v);
        let second = tower(first, Dual::constant(*v));
        let third = tower(second, Dual::constant(Dual::constant(*v)));
        tower(third, Dual::constant(Dual::constant(Dual::constant(*v))))
    };
    let y = R::apply(&x.iter().zip(direction).map(lift).collect::<Vec<_>>(), parameter);
    let (first, second) = (y.tangent(), y.tangent().tangent());
    let (third, fourth) = (second.tangent(), second.tangent().tangent());
    [y.value.value.value.value, first.value.value.value, second.value.value, third.value, fourth]
}

/// Value and gradient in single precision, forwards and in reverse.
fn in_single_precision<R: Rule>(x: &[f32], parameter: f64) -> [Vec<f32>; 2] {
    let lanes: Vec<Dual<f32, 2>> = x.iter().enumerate().map(|(k, x)| Dual::along(*x, k)).collect();
    let lanes = R::apply(&lanes, parameter);
    let tape = Tape::new();
    let inputs = tape.inputs(x);
    let y = R::apply(&inputs, parameter);
    let adjoints = tape.reverse(y);
    let forward = [lanes.value].into_iter().chain(lanes.tangents.into_iter().take(x.len()));
    let reverse = [y.value()].into_iter().chain(inputs.iter().map(|x| adjoints.of(*x)));
    [forward.collect(), reverse.collect()]
}

/// ⟨w, Jv⟩ by the tape and by dual numbers, and the terms of ⟨Jᵀw, v⟩.
fn pushed_and_pulled<R: Rule>(x: &[f64], parameter: f64, v: &[f64], w: f64) -> Products {
    let tape = Tape::new();
    let inputs = tape.inputs(x);
    let y = R::apply(&inputs, parameter);
    let (mut tangents, mut adjoints) = (Sweep::new(), Sweep::new());
    let seeds: Vec<(NodeId, f64)> = inputs.iter().zip(v).map(|(x, v)| (NodeId::from(*x), *v)).collect();
    tape.forward_into(&seeds, &mut tangents);
    tape.reverse_into(&[(y.into(), w)], &mut adjoints);
    let dual: Vec<Dual<f64>> = x.iter().zip(v).map(|(x, v)| Dual::new(*x, [*v])).collect();
    let dual = R::apply(&dual, parameter);
    ([w * tangents.of(y), w * dual.tangent()], inputs.iter().zip(v).map(|(x, v)| adjoints.of(*x) * v).collect())
}

type ByMode = fn(&[f64], f64) -> Derivatives;
/// A gradient with the name of the engine that computed it.
type Named = (&'static str, Vec<f64>);
/// ⟨w, Jv⟩ in two ways, and the terms of ⟨Jᵀw, v⟩.
type Products = ([f64; 2], Vec<f64>);

/// A row with its rule under every engine, as plain functions: the judges are compiled once, and not
/// once for every rule.
struct Subject {
    row: Row,
    value: fn(&[f64], f64) -> f64,
    value_single: fn(&[f32], f64) -> f32,
    second_order: [(&'static str, ByMode); 6],
    first_order: fn(&[f64], f64) -> Vec<Named>,
    single_precision: fn(&[f32], f64) -> [Vec<f32>; 2],
    pushed_and_pulled: fn(&[f64], f64, &[f64], f64) -> Products,
    series: fn(&[f64], &[f64], usize, f64) -> Vec<f64>,
    nested_duals: fn(&[f64], &[f64], f64) -> [f64; 5],
    record: for<'t> fn(&[Var<'t>], f64) -> Var<'t>,
}

impl Subject {
    fn new<R: Rule>(row: &Row) -> Self {
        Subject {
            row: row.clone(),
            value: R::apply::<f64>,
            value_single: R::apply::<f32>,
            second_order: [
                ("duals of duals", by_duals_of_duals::<R>),
                ("one pair at a time", by_one_pair_at_a_time::<R>),
                ("a tape of duals", by_tape_of_duals::<R>),
                ("duals of variables", by_duals_of_variables::<R>),
                ("a tape of tapes", by_tape_of_tapes::<R>),
                ("Taylor numbers", by_taylor::<R>),
            ],
            first_order: first_order::<R>,
            single_precision: in_single_precision::<R>,
            pushed_and_pulled: pushed_and_pulled::<R>,
            series: series::<R>,
            nested_duals: by_nested_duals::<R>,
            record: |x, parameter| R::apply(x, parameter),
        }
    }

    fn parameter(&self) -> f64 {
        self.row.parameter.map_or(0.0, |parameter| parameter.default)
    }

    fn value(&self, x: &[f64]) -> f64 {
        (self.value)(x, self.parameter())
    }

    fn series(&self, x: &[f64], direction: &[f64], order: usize) -> Vec<f64> {
        (self.series)(x, direction, order, self.parameter())
    }
}

/// Every row of the table.
fn table() -> Vec<Subject> {
    struct Collect(Vec<Subject>);
    impl Visitor for Collect {
        fn unary<R: Unary>(&mut self, row: &Row) {
            self.0.push(Subject::new::<One<R>>(row));
        }
        fn binary<R: Binary>(&mut self, row: &Row) {
            self.0.push(Subject::new::<Two<R>>(row));
        }
    }
    let mut collect = Collect(Vec::new());
    visit(&mut collect);
    assert_eq!(collect.0.len(), Operation::ALL.len(), "every row is visited once");
    collect.0
}

// ------------------------------------------------------------------ where the rows are tried

/// Random points of the row's domain, at least three steps of the finite differences from a kink.
fn points(row: &Row) -> Vec<Vec<f64>> {
    let mut random =
        Random::new(row.operation.name().bytes().fold(7u64, |seed, byte| seed.rotate_left(5) ^ u64::from(byte)));
    let margin = 3.0 * differences::LARGEST_STEP;
    let clear = |x: &Vec<f64>| {
        let place = if x.len() == 1 { x[0] } else { x[0] - x[1] };
        row.kinks.iter().all(|kink| (place - kink).abs() > margin)
    };
    std::iter::repeat_with(|| row.domain.iter().map(|range| random.within(range)).collect())
        .filter(clear)
        .take(POINTS)
        .collect()
}

// ------------------------------------------------------------------ the judges

type Verdict = Result<(), String>;

/// First and second partial derivatives equal finite differences of the value.
///
/// Differences of order one carry a rounding of ε/h and those of order two of ε/h², at a step h where
/// truncation has the same size: that leaves three quarters of the digits, and two thirds.
fn finite_differences(name: Operation, value: impl Fn(&[f64]) -> f64, claimed: &Derivatives, x: &[f64]) -> Verdict {
    let size = size_of_all(&claimed.numbers());
    for i in 0..x.len() {
        let (difference, slope) = (differences::partial(&value, x, i), claimed.gradient[i]);
        if !agree(slope, difference, size, ROUNDINGS * f64::EPSILON.powf(-0.25)) {
            return Err(format!("{name}: partial {i} at {x:?} is {slope:e}, differences say {difference:e}"));
        }
        for j in 0..x.len() {
            let (difference, curvature) = (differences::second_partial(&value, x, i, j), claimed.hessian[i][j]);
            if !agree(curvature, difference, size, ROUNDINGS * f64::EPSILON.powf(-1.0 / 3.0)) {
                let complaint = format!("is {curvature:e}, differences say {difference:e}");
                return Err(format!("{name}: second partial {i}{j} at {x:?} {complaint}"));
            }
        }
    }
    Ok(())
}

/// ⟨w, Jv⟩ = ⟨Jᵀw, v⟩ between the two sweeps of one tape, and between dual numbers and the tape.
fn adjoint_identity(subject: &Subject, x: &[f64]) -> Verdict {
    let mut random = Random::new(x[0].to_bits());
    let w = random.within(&(-2.0..2.0));
    let v: Vec<f64> = x.iter().map(|_| random.within(&(-2.0..2.0))).collect();
    let (pushed, terms) = (subject.pushed_and_pulled)(x, subject.parameter(), &v, w);
    let pulled: f64 = terms.iter().sum();
    let size: f64 = terms.iter().map(|term| term.abs()).sum();
    for (name, pushed) in ["the tape", "dual numbers"].into_iter().zip(pushed) {
        if !agree(pushed, pulled, size, 4.0) {
            let operation = subject.row.operation;
            return Err(format!("{operation}: at {x:?} {name} pushes {pushed:e}, reverse pulls {pulled:e}"));
        }
    }
    Ok(())
}

/// Every mode computes the same value, gradient and Hessian.
fn modes_agree(subject: &Subject, x: &[f64]) -> Verdict {
    let (operation, parameter) = (subject.row.operation, subject.parameter());
    let reference = subject.second_order[0].1(x, parameter).numbers();
    let size = size_of_all(&reference);
    let compare = |mode: &str, found: &[f64], expected: &[f64]| {
        let close = found.iter().zip(expected).all(|(a, b)| agree(*a, *b, size, ROUNDINGS));
        if close && found.len() == expected.len() {
            return Ok(());
        }
        Err(format!("{operation}: at {x:?} {mode} finds {found:?} instead of {expected:?}"))
    };
    for (mode, derivatives) in subject.second_order {
        compare(mode, &derivatives(x, parameter).numbers(), &reference)?;
    }
    for (mode, found) in (subject.first_order)(x, parameter) {
        compare(mode, &found, &reference[1..=x.len()])?;
    }
    Ok(())
}

fn judge(subject: &Subject, x: &[f64]) -> Verdict {
    let claimed = subject.second_order[0].1(x, subject.parameter());
    finite_differences(subject.row.operation, |x| subject.value(x), &claimed, x)?;
    adjoint_identity(subject, x)?;
    modes_agree(subject, x)
}

#[test]
fn every_row_of_the_table_passes_every_check() {
    let complaints: Vec<String> = table()
        .iter()
        .flat_map(|subject| points(&subject.row).into_iter().filter_map(|x| judge(subject, &x).err()))
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_rule_that_is_wrong_by_a_thousandth_fails() {
    struct Spoil;
    impl Spoil {
        /// Finite differences know nothing but the value, so they must find what is wrong.
        fn check<Right: Rule, Wrong: Rule>(row: &Row) {
            let parameter = row.parameter.map_or(0.0, |parameter| parameter.default);
            let points = points(row);
            let complains = |x: &Vec<f64>| {
                let claimed = by_duals_of_duals::<Wrong>(x, parameter);
                finite_differences(row.operation, |x| Right::apply(x, parameter), &claimed, x).is_err()
            };
            for partial in 0..Right::ARGUMENTS {
                let right = |x: &Vec<f64>| by_duals_of_duals::<Right>(x, parameter).gradient[partial];
                SPOILED.set((partial, points.iter().all(|x| right(x) == 0.0)));
                assert!(points.iter().any(complains), "a wrong partial {partial} of {} passes", row.operation);
            }
            // Without the fault the wrapped rule is the row's own, so the fault alone was found.
            SPOILED.set((usize::MAX, false));
            assert!(!points.iter().any(complains), "{} fails unspoiled", row.operation);
        }
    }
    impl Visitor for Spoil {
        fn unary<R: Unary>(&mut self, row: &Row) {
            Spoil::check::<One<R>, One<Perturbed<R>>>(row);
        }
        fn binary<R: Binary>(&mut self, row: &Row) {
            Spoil::check::<Two<R>, Two<Perturbed<R>>>(row);
        }
    }
    visit(&mut Spoil);
}

#[test]
fn single_precision_agrees_with_double() {
    for subject in table() {
        for x in points(&subject.row) {
            let single: Vec<f32> = x.iter().map(|x| *x as f32).collect();
            let x: Vec<f64> = single.iter().map(|x| f64::from(*x)).collect();
            let exact = subject.second_order[0].1(&x, subject.parameter()).numbers();
            let size = size_of_all(&exact);
            // The same tolerance as between modes, with the other epsilon.
            let roundings = ROUNDINGS * f64::from(f32::EPSILON) / f64::EPSILON;
            for found in (subject.single_precision)(&single, subject.parameter()) {
                let mut pairs = found.iter().zip(&exact);
                let close = pairs.all(|(found, exact)| agree(f64::from(*found), *exact, size, roundings));
                assert!(close, "{} in f32 at {x:?} gives {found:?}, not {exact:?}", subject.row.operation);
            }
        }
    }
}

// ------------------------------------------------------------------ pinned points

/// The number of steps from one floating-point number to another; both zeros are one number.
fn ulps(a: f64, b: f64) -> u64 {
    let place = |x: f64| {
        let bits = x.to_bits() as i64;
        if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }
    };
    place(a).abs_diff(place(b))
}

fn pinned(actual: f64, stated: f64) -> bool {
    (actual.is_nan() && stated.is_nan()) || ulps(actual, stated) <= 4
}

#[test]
fn every_special_point_holds_in_forward_and_reverse() {
    for subject in table() {
        let name = subject.row.operation;
        assert!(!subject.row.special.is_empty(), "{name} pins no point");
        for special in &subject.row.special {
            let (at, value) = (&special.at, subject.value(&special.at));
            assert!(pinned(value, special.value), "{name} at {at:?}: {value:e}, not {:e}", special.value);
            let taylor = |i: usize| {
                let direction: Vec<f64> = (0..at.len()).map(|k| one_at(k, i)).collect();
                subject.series(at, &direction, 1)[1]
            };
            let mut modes = (subject.first_order)(at, subject.parameter());
            modes.push(("Taylor numbers", (0..at.len()).map(taylor).collect()));
            for (mode, found) in modes {
                let right = found.iter().zip(&special.partials).all(|(found, stated)| pinned(*found, *stated));
                assert!(right, "{name} at {at:?} by {mode}: {found:?}, not {:?}", special.partials);
            }
        }
    }
}

/// The pinned points at which a function has no second derivative: kinks, poles of the derivative,
/// ends of the domain, the edge of a power, where only one side exists, and a branch cut.
fn rough(row: &Row, at: &[f64]) -> bool {
    let place = if at.len() == 1 { at[0] } else { at[0] - at[1] };
    let edge = match row.operation {
        Operation::Sqrt | Operation::Cbrt | Operation::Powf | Operation::Pow => at[0] == 0.0,
        Operation::Asin | Operation::Acosh => at[0] == 1.0,
        Operation::Hypot => at == [0.0, 0.0],
        Operation::Atan2 => at[0] == 0.0 && at[1] < 0.0,
        _ => false,
    };
    edge || row.kinks.contains(&place)
}

#[test]
fn second_order_holds_at_the_special_points_that_are_smooth() {
    let mut complaints = Vec::new();
    for subject in table() {
        let smooth = subject.row.special.iter().filter(|special| !rough(&subject.row, &special.at));
        complaints.extend(smooth.filter_map(|special| judge(&subject, &special.at).err()));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

// ------------------------------------------------------------------ high orders

/// Series and nested dual numbers agree up to order four.
fn series_agrees_with_nested_duals(subject: &Subject, x: &[f64], v: &[f64], series: &[f64]) {
    let nested = (subject.nested_duals)(x, v, subject.parameter());
    let size = size_of_all(&nested);
    let factorials = [1.0, 1.0, 2.0, 6.0, 24.0];
    for (order, (coefficient, nested)) in series.iter().zip(nested).enumerate() {
        let derivative = coefficient * factorials[order];
        // Each order differentiates the formula once more, and so doubles what can be rounded.
        let roundings = ROUNDINGS * f64::powi(2.0, order as i32);
        assert!(
            agree(derivative, nested, size, roundings),
            "{}: derivative {order} at {x:?} is {derivative:e} by series, {nested:e} by nested duals",
            subject.row.operation
        );
    }
}

/// The polynomial of order twelve is the function, but for the terms left out.
fn series_sums_up(subject: &Subject, x: &[f64], v: &[f64], series: &[f64]) {
    let t = 1.0 / 64.0;
    let there: Vec<f64> = x.iter().zip(v).map(|(x, v)| x + t * v).collect();
    let sum = series.iter().rev().fold(0.0, |sum, coefficient| sum * t + coefficient);
    // Poles are at least six times as far away as the point, so that the tail is a geometric series.
    let tail = 2.0 * series[11].abs().max(series[12].abs() * t) * f64::powi(t, 11);
    let tolerance = tail + ROUNDINGS * f64::EPSILON * size_of_all(series.iter().take(2));
    let error = (sum - subject.value(&there)).abs();
    assert!(error <= tolerance, "{}: the series at {x:?} along {v:?} misses by {error:e}", subject.row.operation);
}

#[test]
fn taylor_series_of_every_row_reach_order_twelve() {
    // A rule that calls itself twice at every order would need minutes.
    for subject in table() {
        for x in points(&subject.row) {
            let mut random = Random::new(x[0].to_bits());
            let v: Vec<f64> = x.iter().map(|_| random.within(&(-1.0..1.0))).collect();
            let series = subject.series(&x, &v, 12);
            assert_eq!(series.len(), 13);
            series_agrees_with_nested_duals(&subject, &x, &v, &series);
            series_sums_up(&subject, &x, &v, &series);
        }
    }
}

// ------------------------------------------------------------------ extremes and edges

#[test]
fn saturating_functions_have_finite_derivatives_far_out() {
    use Operation::*;
    let saturating = [
        Sigmoid, LogSigmoid, Softplus, Tanh, Gelu, GeluTanh, Silu, Mish, Elu, Relu, LeakyRelu, Softsign, Atan, Asinh,
        Erf, Erfc,
    ];
    let mut complaints = Vec::new();
    for subject in table().into_iter().filter(|subject| saturating.contains(&subject.row.operation)) {
        for x in [1000.0, -1000.0, 1e300, -1e300] {
            for (mode, derivatives) in subject.second_order {
                let found = derivatives(&[x], subject.parameter()).numbers();
                if !found.iter().all(|number| number.is_finite()) {
                    complaints.push(format!("{} at {x:e} by {mode}: {found:?}", subject.row.operation));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn nan_goes_in_and_comes_out() {
    for subject in table() {
        let x = &points(&subject.row)[0];
        for place in 0..x.len() {
            let mut x = x.clone();
            x[place] = f64::NAN;
            let single: Vec<f32> = x.iter().map(|x| *x as f32).collect();
            assert!(subject.value(&x).is_nan(), "{} of NaN in f64", subject.row.operation);
            let value = (subject.value_single)(&single, subject.parameter());
            assert!(value.is_nan(), "{} of NaN in f32", subject.row.operation);
        }
    }
}

#[test]
fn log1p_and_expm1_keep_their_digits_near_zero() {
    for exponent in 1..=300 {
        for x in [10f64.powi(-exponent), -(10f64.powi(-exponent))] {
            // Of the series x ∓ x²/2 + x³/3 …, the first terms that matter at this size.
            let log1p = if exponent > 7 { x - 0.5 * x * x } else { x.ln_1p() };
            let expm1 = if exponent > 7 { x + 0.5 * x * x } else { x.exp_m1() };
            let (log, exponential) = (Dual::variable(x).log1p(), Dual::variable(x).expm1());
            assert!((log.value - log1p).abs() <= 2.0 * f64::EPSILON * x.abs(), "log1p at {x:e}");
            assert!((exponential.value - expm1).abs() <= 2.0 * f64::EPSILON * x.abs(), "expm1 at {x:e}");
            assert!((log.tangent() - 1.0 / (1.0 + x)).abs() <= 2.0 * f64::EPSILON);
            assert!((exponential.tangent() - x.exp()).abs() <= 2.0 * f64::EPSILON * x.exp());
        }
    }
}

#[test]
fn erfc_keeps_its_digits_in_the_tail() {
    // Value and derivative from forty-digit arithmetic.
    let tail: [(f64, f64, f64); 2] = [
        (10.0, 2.088_487_583_762_545e-45, -4.197_656_231_354_417e-44),
        (25.0, 8.300_172_571_196_523e-274, -4.153_401_063_639_896_5e-272),
    ];
    for (x, value, slope) in tail {
        let y = Dual::variable(x).erfc();
        assert!((y.value / value - 1.0).abs() <= 1e-13, "erfc({x}) = {:e}", y.value);
        assert!((y.tangent() / slope - 1.0).abs() <= 1e-13, "erfc'({x}) = {:e}", y.tangent());
    }
}

#[test]
fn powers_keep_their_edges() {
    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;
    // Base, exponent; value, partial in the base, partial in the exponent.
    let edges = [
        (0.0, 0.0, 1.0, 0.0, 0.0),
        (-0.0, 0.0, 1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0, 1.0, 0.0),
        (0.0, 2.0, 0.0, 0.0, 0.0),
        (0.0, 0.5, 0.0, INF, 0.0),
        (0.0, -1.0, INF, -INF, 0.0),
        (1.0, 0.0, 1.0, 0.0, 0.0),
        (5.0, 0.0, 1.0, 0.0, 5f64.ln()),
        (-2.0, 0.0, 1.0, 0.0, NAN),
        (-2.0, 3.0, -8.0, 12.0, NAN),
        (-2.0, -1.0, -0.5, -0.25, NAN),
        (-2.0, 0.5, NAN, NAN, NAN),
    ];
    for (base, exponent, value, in_base, in_exponent) in edges {
        let at = [base, exponent];
        assert!(pinned(Two::<rule::Pow>::apply(&at, 0.0), value), "{base}^{exponent}");
        for (mode, found) in first_order::<Two<rule::Pow>>(&at, 0.0) {
            let right = pinned(found[0], in_base) && pinned(found[1], in_exponent);
            assert!(right, "{base}^{exponent} by {mode}: {found:?}, not [{in_base}, {in_exponent}]");
        }
    }
}

#[test]
fn a_fixed_exponent_behaves_alike_however_it_is_written() {
    fn thrice<T: Real>(x: T, n: i32) -> [T; 3] {
        [x.powi(n), x.powf(f64::from(n)), x.pow(T::literal(f64::from(n)))]
    }
    for n in [0, 1, 2, 3, 5, -1, -2] {
        for x in [-2.0, -0.5, 0.0, 1.0, 3.0] {
            if x == 0.0 && n < 0 {
                continue;
            }
            // The falling factorial n(n-1)… times the power, and zero when a factor is zero: also at 0.
            let exact: Vec<f64> = (0..4)
                .map(|k| {
                    let factor: f64 = (0..k).map(|j| f64::from(n - j)).product();
                    if factor == 0.0 { 0.0 } else { factor * f64::powi(x, n - k) }
                })
                .collect();
            for way in 0..3 {
                let by_series = glassgrad::scalar::derivatives(|x| thrice(x, n)[way], x, 3);
                let y = thrice(Dual::variable(Dual::variable(Dual::variable(x))), n)[way];
                let by_duals = [
                    y.value.value.value,
                    y.tangent().value.value,
                    y.tangent().tangent().value,
                    y.tangent().tangent().tangent(),
                ];
                let size = size_of_all(&exact);
                for k in 0..4 {
                    assert!(agree(by_series[k], exact[k], size, ROUNDINGS), "series of {x}^{n}, way {way}, order {k}");
                    assert!(agree(by_duals[k], exact[k], size, ROUNDINGS), "duals of {x}^{n}, way {way}, order {k}");
                }
                let tape = Tape::new();
                let variable = tape.input(x);
                let y = thrice(variable, n)[way];
                assert!(agree(tape.reverse(y).of(variable), exact[1], size, ROUNDINGS), "tape of {x}^{n}, way {way}");
            }
        }
    }
}

// ------------------------------------------------------------------ the table at run time

#[test]
fn every_row_is_found_by_name_and_applied_at_run_time() {
    struct AtRunTime;
    impl Visitor for AtRunTime {
        fn unary<R: Unary>(&mut self, row: &Row) {
            let (operation, x) = (row.operation, points(row)[0][0]);
            let p = row.parameter.map_or(0.0, |parameter| parameter.default);
            assert_eq!(Operation::from_name(operation.name()), Some(operation));
            assert_eq!((operation, operation.arity(), row.arguments.len()), (R::OPERATION, 1, 1));
            let y = R::value(x, p);
            assert_eq!(operation.apply_unary(x, p), Some(y));
            assert_eq!(operation.derivative(x, y, p), Some(R::derivative(x, y, p)));
            assert_eq!(operation.apply_binary(x, x), None);
            assert_eq!(operation.partials(x, x, y), None);
            assert_eq!(operation.parameter(), row.parameter);
            assert!(row.summary.ends_with('.'), "{operation}: the summary is a sentence");
        }
        fn binary<R: Binary>(&mut self, row: &Row) {
            let (operation, x) = (row.operation, &points(row)[0]);
            assert_eq!(Operation::from_name(operation.name()), Some(operation));
            assert_eq!((operation, operation.arity(), row.arguments.len()), (R::OPERATION, 2, 2));
            let y = R::value(x[0], x[1]);
            assert_eq!(operation.apply_binary(x[0], x[1]), Some(y));
            assert_eq!(operation.partials(x[0], x[1], y), Some([R::first(x[0], x[1], y), R::second(x[0], x[1], y)]));
            assert_eq!(operation.apply_unary(x[0], 0.0), None);
            assert_eq!(operation.derivative(x[0], y, 0.0), None);
            assert!(row.summary.ends_with('.'), "{operation}: the summary is a sentence");
        }
    }
    visit(&mut AtRunTime);
}

#[test]
fn a_replayed_row_equals_a_fresh_recording() {
    for subject in table() {
        let points = points(&subject.row);
        let mut tape = Tape::new();
        let y = NodeId::from((subject.record)(&tape.inputs(&points[0]), subject.parameter()));
        for x in &points {
            tape.replay(x).unwrap();
            let fresh = Tape::new();
            let fresh_y = (subject.record)(&fresh.inputs(x), subject.parameter());
            assert_eq!(tape.node(y), fresh.node(fresh_y), "{}", subject.row.operation);
        }
    }
}
