//! Random programs over the smooth rows of the table: every mode must tell the same story.
//!
//! A program is a list of instructions. Before a row is applied its arguments are squashed into its
//! domain, and its result is scaled so that value and slope stay near 1: then programs of any shape
//! are smooth and tame, and what differs between two modes is rounding.

#[path = "judges/cases.rs"]
mod cases;
#[path = "judges/differences.rs"]
mod differences;
#[path = "judges/modes.rs"]
mod modes;
#[path = "judges/random.rs"]
mod random;

use std::ops::Range;
use std::sync::OnceLock;

use cases::random_cases;
use glassgrad::Real;
use glassgrad::ops::{Binary, Operation, Row, Unary, Visitor, visit};
use glassgrad::scalar::{
    Dual, Matrix, NodeId, Recorded, TaylorPool, Var, hvp, jacobian_forward, jvp, sparse_hessian, sparse_jacobian, vjp,
};
use modes::{Function, hessians, jacobians, recorded, values};
use proptest::prelude::*;
use random::Random;

// ------------------------------------------------------------------ rows that can be composed

/// A row without kinks, with what makes it tame.
struct Smooth {
    operation: Operation,
    parameter: f64,
    domain: Vec<Range<f64>>,
    /// The largest of value, slope and curvature on the domain, in units of its half width.
    scale: f64,
}

fn smooth_rows() -> &'static [Smooth] {
    struct Collect(Vec<Smooth>);
    impl Collect {
        fn add(&mut self, row: &Row, curve: impl Fn(&[Dual<Dual<f64>>], f64) -> Dual<Dual<f64>>) {
            if !row.kinks.is_empty() {
                return;
            }
            let parameter = row.parameter.map_or(0.0, |parameter| parameter.default);
            let mut random = Random::new(3);
            let sizes = (0..200).map(|_| {
                // Along the diagonal of the domain, so that one number tells of all arguments.
                let line: Vec<_> = row
                    .domain
                    .iter()
                    .map(|range| {
                        let speed = 0.5 * (range.end - range.start);
                        Dual::new(Dual::new(random.within(range), [speed]), [Dual::constant(speed)])
                    })
                    .collect();
                let y = curve(&line, parameter);
                y.value.value.abs().max(y.tangent().value.abs()).max(y.tangent().tangent().abs())
            });
            let scale = sizes.fold(1.0, f64::max);
            self.0.push(Smooth { operation: row.operation, parameter, domain: row.domain.clone(), scale });
        }
    }
    impl Visitor for Collect {
        fn unary<R: Unary>(&mut self, row: &Row) {
            self.add(row, |x, parameter| row.operation.apply_unary(x[0], parameter).expect("one argument"));
        }
        fn binary<R: Binary>(&mut self, row: &Row) {
            self.add(row, |x, _| row.operation.apply_binary(x[0], x[1]).expect("two arguments"));
        }
    }
    static ROWS: OnceLock<Vec<Smooth>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let mut collect = Collect(Vec::new());
        visit(&mut collect);
        collect.0
    })
}

impl Smooth {
    #[inline(never)]
    fn apply<T: Real>(&self, a: T, b: T) -> T {
        let squash = |x: T, range: &Range<f64>| {
            let (centre, radius) = (0.5 * (range.start + range.end), 0.475 * (range.end - range.start));
            T::literal(centre) + T::literal(radius) * x.tanh()
        };
        let y = match &self.domain[..] {
            [only] => self.operation.apply_unary(squash(a, only), self.parameter),
            [first, second] => self.operation.apply_binary(squash(a, first), squash(b, second)),
            _ => None,
        };
        y.expect("a row of one argument or two") * T::literal(1.0 / self.scale)
    }
}

// ------------------------------------------------------------------ programs

/// Instructions name a row and two earlier numbers, outputs name a number; all modulo what there is.
#[derive(Clone, Debug)]
struct Program {
    instructions: Vec<(usize, usize, usize)>,
    outputs: Vec<usize>,
}

impl Function for Program {
    fn at<T: Real>(&self, x: &[T]) -> Vec<T> {
        let rows = smooth_rows();
        let mut numbers = x.to_vec();
        for (row, a, b) in &self.instructions {
            let (a, b) = (numbers[a % numbers.len()], numbers[b % numbers.len()]);
            numbers.push(rows[row % rows.len()].apply(a, b));
        }
        // The outputs are looked for among the latest numbers, which depend on the most.
        let count = numbers.len();
        self.outputs.iter().map(|output| numbers[count - 1 - output % count.min(4)]).collect()
    }
}

fn programs() -> impl Strategy<Value = Program> {
    let instruction = (0..1000usize, 0..1000usize, 0..1000usize);
    let instructions = proptest::collection::vec(instruction, 1..10);
    let outputs = proptest::collection::vec(0..4usize, 1..4);
    (instructions, outputs).prop_map(|(instructions, outputs)| Program { instructions, outputs })
}

fn points() -> impl Strategy<Value = Vec<f64>> {
    // Multiples of 2⁻¹⁰ stay exact under the steps of the finite differences.
    proptest::collection::vec((-1024..=1024i32).prop_map(|k| f64::from(k) / 1024.0), 1..5)
}

// ------------------------------------------------------------------ sizes and tolerances

/// What rounding can do to first derivatives: the adjoints with every partial taken by magnitude,
/// which add up all paths without cancellation.
fn magnitude(f: &impl Function, x: &[f64]) -> f64 {
    let recorded = recorded(f, x);
    let tape = recorded.tape();
    let mut sizes = vec![1.0; tape.len()];
    for id in tape.ids().rev() {
        for (parent, partial) in tape.node(id).parents() {
            sizes[parent.index()] += sizes[id.index()] * partial.abs();
        }
    }
    sizes.into_iter().fold(1.0, f64::max)
}

/// A rounding for each of the some thirty operations that an instruction makes in a derivative.
fn roundings(program: &Program) -> f64 {
    32.0 * (program.instructions.len() + 1) as f64 * f64::EPSILON
}

fn assert_near(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let error = (found - expected).abs();
        assert!(error <= tolerance, "{what}: {found:e} instead of {expected:e}, which is {error:e} off");
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn directions(seed: &[f64], length: usize) -> Vec<f64> {
    let mut random = Random::new(seed.iter().fold(1, |seed, x| seed ^ x.to_bits().rotate_left(7)));
    (0..length).map(|_| random.within(&(-1.0..1.0))).collect()
}

// ------------------------------------------------------------------ properties

proptest! {
    #![proptest_config(random_cases(512))]

    #[test]
    fn jacobians_agree_in_every_mode_and_with_finite_differences(program in programs(), x in points()) {
        let size = magnitude(&program, &x);
        let reference = recorded(&program, &x).jacobian(glassgrad::scalar::Mode::Reverse);
        for (mode, found) in jacobians(&program, &x) {
            assert_near(mode, found.elements(), reference.elements(), roundings(&program) * size);
        }
        let four = jacobian_forward::<_, 4>(|x, y| y.copy_from_slice(&program.at(x)), &x, program.outputs.len());
        assert_near("four lanes", four.elements(), reference.elements(), roundings(&program) * size);
        for row in 0..program.outputs.len() {
            for column in 0..x.len() {
                let difference = differences::partial(|x| values(&program, x)[row], &x, column);
                // Three quarters of the digits are what differences leave, of numbers of this size.
                let tolerance = roundings(&program) * f64::EPSILON.powf(-0.25) * size;
                assert_near("differences", &[reference[(row, column)]], &[difference], tolerance);
            }
        }
    }

    #[test]
    fn hessians_are_symmetric_and_agree_in_every_pair_of_modes(program in programs(), x in points()) {
        let size = magnitude(&program, &x).powi(2);
        let all = hessians(&program, &x);
        let reference = &all[0].1;
        for (mode, found) in &all {
            assert_near(mode, found.elements(), reference.elements(), roundings(&program) * size);
            assert_near(mode, found.transpose().elements(), found.elements(), roundings(&program) * size);
        }
        for (i, j) in (0..x.len()).flat_map(|i| (0..=i).map(move |j| (i, j))) {
            let difference = differences::second_partial(|x| values(&program, x)[0], &x, i, j);
            // Two thirds of the digits are what second differences leave.
            let tolerance = roundings(&program) * f64::EPSILON.powf(-1.0 / 3.0) * size;
            assert_near("differences", &[reference[(i, j)]], &[difference], tolerance);
        }
        let v = directions(&x, x.len());
        let product: Vec<f64> = (0..x.len()).map(|row| dot(reference.row(row), &v)).collect();
        assert_near("hvp", &hvp(|x| program.at(x)[0], &x, &v), &product, roundings(&program) * size);
        // The second coefficient along a line is half of vᵀHv.
        let pool = TaylorPool::new(2);
        let line: Vec<_> = x.iter().zip(&v).map(|(x, v)| pool.series(&[*x, *v])).collect();
        let coefficients = program.at(&line)[0].coefficients();
        assert_near("series", &[2.0 * coefficients[2]], &[dot(&v, &product)], roundings(&program) * size);
    }

    #[test]
    fn pushing_forward_and_pulling_back_are_transposed(program in programs(), x in points()) {
        let (v, w) = (directions(&x, x.len()), directions(&[x[0], 1.0], program.outputs.len()));
        let recorded = recorded(&program, &x);
        let forward = jvp(|x, y| y.copy_from_slice(&program.at(x)), &x, &v, w.len());
        let reverse = vjp(|x, y| y.copy_from_slice(&program.at(x)), &x, &w);
        let tolerance = roundings(&program) * magnitude(&program, &x);
        assert_near("values", &forward.0, &reverse.0, 0.0);
        assert_near("Jv", &recorded.jvp(&v), &forward.1, tolerance);
        // Statements multiply partials in another order than the sweep of a tape.
        assert_near("Jᵀw", &recorded.vjp(&w), &reverse.1, tolerance);
        assert_near("⟨w, Jv⟩", &[dot(&w, &forward.1)], &[dot(&reverse.1, &v)], tolerance);
    }

    #[test]
    fn a_replay_is_a_fresh_recording(program in programs(), x in points(), there in points()) {
        let there: Vec<f64> = x.iter().zip(there.iter().cycle()).map(|(_, there)| *there).collect();
        let mut replayed = recorded(&program, &x);
        replayed.replay(&there).expect("smooth rows do not branch");
        let fresh = recorded(&program, &there);
        prop_assert_eq!(replayed.values(), fresh.values());
        prop_assert_eq!(replayed.outputs(), fresh.outputs());
        for id in fresh.tape().ids() {
            prop_assert_eq!(replayed.tape().node(id), fresh.tape().node(id));
        }
    }

    #[test]
    fn sparse_derivatives_equal_the_dense_ones(program in programs(), x in points()) {
        let size = magnitude(&program, &x);
        let dense = recorded(&program, &x).jacobian(glassgrad::scalar::Mode::Reverse);
        let sparse = sparse_jacobian(|x, y| y.copy_from_slice(&program.at(x)), &x, program.outputs.len());
        assert_near("Jacobian", sparse.to_dense().elements(), dense.elements(), roundings(&program) * size);
        let dense = &hessians(&program, &x)[0].1;
        let sparse = sparse_hessian(|x| program.at(x)[0], &x);
        assert_near("Hessian", sparse.to_dense().elements(), dense.elements(), roundings(&program) * size * size);
    }
}

// ------------------------------------------------------------------ sparse structures

/// A sum of terms, each a random row applied to two inputs; or one result for each term.
#[derive(Clone, Debug)]
struct Terms {
    terms: Vec<(usize, usize, usize)>,
    summed: bool,
}

impl Function for Terms {
    fn at<T: Real>(&self, x: &[T]) -> Vec<T> {
        let rows = smooth_rows();
        let terms = self.terms.iter().map(|(row, i, j)| rows[row % rows.len()].apply(x[*i] * x[*j], x[*j] - x[*i]));
        if self.summed { vec![terms.sum()] } else { terms.collect() }
    }
}

/// Pairs of inputs that meet, by the shape of the matrix.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Banded(usize),
    Arrowhead,
    Blocks(usize),
    Scattered(u64),
}

impl Shape {
    fn pairs(self, n: usize) -> Vec<(usize, usize)> {
        let all = || (0..n).flat_map(|i| (i..n).map(move |j| (i, j)));
        match self {
            Shape::Banded(width) => all().filter(|(i, j)| j - i <= width).collect(),
            Shape::Arrowhead => all().filter(|(i, j)| *i == 0 || i == j).collect(),
            Shape::Blocks(size) => all().filter(|(i, j)| i / size == j / size).collect(),
            Shape::Scattered(seed) => {
                let mut random = Random::new(seed);
                (0..2 * n).map(|_| (random.next() as usize % n, random.next() as usize % n)).collect()
            }
        }
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    prop_oneof![
        (0..4usize).prop_map(Shape::Banded),
        Just(Shape::Arrowhead),
        (1..5usize).prop_map(Shape::Blocks),
        any::<u64>().prop_map(Shape::Scattered),
    ]
}

proptest! {
    #![proptest_config(random_cases(128))]

    #[test]
    fn sparse_derivatives_of_structured_problems_equal_the_dense_ones(
        shape in shapes(), n in 1..24usize, seed in any::<u64>()
    ) {
        let mut random = Random::new(seed);
        let x: Vec<f64> = (0..n).map(|_| random.within(&(-1.0..1.0))).collect();
        let pairs = shape.pairs(n);
        let terms: Vec<_> = pairs.iter().map(|(i, j)| (random.next() as usize, *i, *j)).collect();
        // Two numbers meet in each term: a product of terms' sizes bounds what is added up.
        let tolerance = 32.0 * f64::EPSILON * 100.0 * (terms.len() + 1) as f64;

        let results = Terms { terms: terms.clone(), summed: false };
        let dense = recorded(&results, &x).jacobian(glassgrad::scalar::Mode::Reverse);
        let sparse = sparse_jacobian(|x, y| y.copy_from_slice(&results.at(x)), &x, terms.len());
        assert_near("Jacobian", sparse.to_dense().elements(), dense.elements(), tolerance);
        prop_assert!(sparse.colors <= n.min(terms.len()) && sparse.stored() <= 2 * terms.len());

        let sum = Terms { terms, summed: true };
        let dense = glassgrad::scalar::hessian(|x| sum.at(x)[0], &x);
        let sparse = sparse_hessian(|x| sum.at(x)[0], &x);
        assert_near("Hessian", sparse.to_dense().elements(), dense.elements(), tolerance);
        prop_assert!(sparse.colors <= n);
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            prop_assert_eq!(sparse.get(i, j), sparse.to_dense()[(i, j)]);
            let meet = i == j || pairs.contains(&(i, j)) || pairs.contains(&(j, i));
            prop_assert!(meet || sparse.row(i).all(|(column, _)| column != j), "{} and {} never meet", i, j);
        }
        let v = directions(&x, n);
        let product: Vec<f64> = (0..n).map(|row| dot(dense.row(row), &v)).collect();
        assert_near("matvec", &sparse.matvec(&v), &product, tolerance);
    }
}

#[test]
fn structures_need_as_many_colors_as_is_known_of_them() {
    for n in [5, 6, 17, 100] {
        let x: Vec<f64> = (0..n).map(|k| 1.0 + 0.01 * k as f64).collect();
        let chain = sparse_hessian(|x| x.windows(2).map(|pair| pair[0].square() * pair[1]).sum(), &x);
        assert_eq!((chain.colors, chain.stored()), (3, 3 * n - 3), "a tridiagonal Hessian with a straight corner");
        let arrow = sparse_hessian(|x| x.iter().map(|each| x[0] * each.square()).sum(), &x);
        assert_eq!((arrow.colors, arrow.stored()), (2, 3 * n - 2), "an arrowhead");
        let full = sparse_hessian(|x| x.iter().copied().sum::<Var<'_, _>>().square(), &x);
        assert_eq!((full.colors, full.stored()), (n, n * n), "a dense Hessian");
        let diagonal = sparse_hessian(|x| x.iter().map(|x| x.exp()).sum(), &x);
        assert_eq!((diagonal.colors, diagonal.stored()), (1, n), "a diagonal");
        let straight = sparse_hessian(|x| x.iter().copied().sum(), &x);
        assert_eq!(straight.stored(), 0, "a linear function has no Hessian");

        let neighbours = sparse_jacobian(
            |x, y| (0..n).for_each(|k| y[k] = x[k.saturating_sub(1)] * x[k] * x[(k + 1).min(n - 1)]),
            &x,
            n,
        );
        assert_eq!((neighbours.colors, neighbours.stored()), (3, 3 * n - 2), "a tridiagonal Jacobian");
        let all = sparse_jacobian(|x, y| y.fill(x.iter().copied().product()), &x, n);
        assert_eq!((all.colors, all.stored()), (n, n * n), "a dense Jacobian");
        let wide = sparse_jacobian(|x, y| y[0] = x.iter().copied().product(), &x, 1);
        assert_eq!((wide.colors, wide.stored()), (1, n), "one result needs one reverse sweep");
        let tall = sparse_jacobian(|x, y| y.iter_mut().for_each(|y| *y = x[0].sin()), &x[..1], n);
        assert_eq!((tall.colors, tall.stored()), (1, n), "one input needs one forward sweep");
    }
}

#[test]
fn the_pattern_of_every_row_holds_its_own_curvature() {
    // The arguments come straight from the inputs, so that no other operation makes them meet.
    struct Bare(Operation, f64, Option<f64>);
    impl Function for Bare {
        fn at<T: Real>(&self, x: &[T]) -> Vec<T> {
            let second = self.2.map_or_else(|| x[1], T::literal);
            vec![self.0.apply_unary(x[0], self.1).or_else(|| self.0.apply_binary(x[0], second)).expect("a row")]
        }
    }
    struct Check(usize);
    impl Check {
        fn row(&mut self, row: &Row) {
            let mut random = Random::new(5);
            let parameter = row.parameter.map_or(0.0, |parameter| parameter.default);
            for _ in 0..8 {
                let x = [&row.domain[0], row.domain.last().expect("a domain")].map(|range| random.within(range));
                // With both arguments, and with the second fixed.
                for fixed in [None, Some(x[1])] {
                    let f = Bare(row.operation, parameter, fixed);
                    let dense = glassgrad::scalar::hessian(|x| f.at(x)[0], &x);
                    let sparse = sparse_hessian(|x| f.at(x)[0], &x);
                    assert_eq!(sparse.to_dense(), dense, "{} at {x:?}", row.operation);
                    self.0 += sparse.stored();
                }
            }
        }
    }
    impl Visitor for Check {
        fn unary<R: Unary>(&mut self, row: &Row) {
            self.row(row);
        }
        fn binary<R: Binary>(&mut self, row: &Row) {
            self.row(row);
        }
    }
    let mut check = Check(0);
    visit(&mut check);
    assert!(check.0 > 0);
    // A reciprocal written as a quotient bends in its second argument alone.
    let quotient = sparse_hessian(|x| 1.0 / x[0] + 1.0 / x[1], &[0.5, 2.0]);
    assert_eq!((quotient.to_dense(), quotient.stored()), (Matrix::from_rows([[16.0, 0.0], [0.0, 0.25]]), 2));
}

#[test]
fn sparse_derivatives_of_functions_at_the_edge() {
    // No inputs, no results.
    let nothing = sparse_hessian(|_| Var::constant(glassgrad::c(3.0)), &[] as &[f64]);
    assert_eq!((nothing.rows(), nothing.columns, nothing.stored(), nothing.colors), (0, 0, 0, 0));
    let nothing = sparse_jacobian(|_, _| {}, &[] as &[f64], 0);
    assert_eq!((nothing.rows(), nothing.columns, nothing.stored()), (0, 0, 0));
    let no_results = sparse_jacobian(|_, _| {}, &[1.0, 2.0], 0);
    assert_eq!((no_results.rows(), no_results.columns, no_results.stored()), (0, 2, 0));
    let constants = sparse_jacobian(|_, y| y[1] = Var::constant(4.0), &[1.0, 2.0], 3);
    assert_eq!((constants.rows(), constants.columns, constants.stored()), (3, 2, 0));
    // Inputs on which nothing depends have empty rows and columns.
    let idle = sparse_hessian(|x| x[1].square() * x[3], &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(
        idle.to_dense(),
        Matrix::from_fn(4, 4, |i, j| [0.0, 8.0, 0.0, 4.0][if i * j == 1 {
            1
        } else if i * j == 3 {
            3
        } else {
            0
        }])
    );
    assert_eq!((idle.row(0).count(), idle.row(2).count(), idle.stored()), (0, 0, 3));
    let idle = sparse_jacobian(|x, y| y[1] = x[2] * 5.0, &[1.0, 2.0, 3.0], 2);
    assert_eq!((idle.stored(), idle.get(1, 2), idle.get(0, 0)), (1, 5.0, 0.0));
    // An output that is an input.
    let bare = sparse_jacobian(|x, y| y[0] = x[1], &[1.0, 2.0], 1);
    assert_eq!(bare.row(0).collect::<Vec<_>>(), [(1, 1.0)]);
    assert_eq!(sparse_hessian(|x| x[1], &[1.0, 2.0]).stored(), 0);
}

#[test]
fn results_may_be_added_up_in_place() {
    // The results start at zero in every evaluation, also when inputs are differentiated in groups.
    fn add_up<T: Real>(x: &[T], y: &mut [T]) {
        for x in x {
            y[0] += x.square();
            y[1] += *x;
        }
    }
    let x = [1.0, 2.0, 3.0, 4.0, 5.0];
    let exact = Matrix::from_rows([[2.0, 4.0, 6.0, 8.0, 10.0], [1.0; 5]]);
    assert_eq!(jacobian_forward::<_, 2>(add_up, &x, 2), exact);
    assert_eq!(jacobian_forward::<_, 1>(add_up, &x, 2), exact);
    assert_eq!(jacobian_forward::<_, 8>(add_up, &x, 2), exact);
    assert_eq!(Recorded::several(|x, y| add_up(x, y), &x, 2).jacobian(glassgrad::scalar::Mode::Auto), exact);
    assert_eq!(sparse_jacobian(|x, y| add_up(x, y), &x, 2).to_dense(), exact);
}

#[test]
fn random_programs_reach_every_smooth_row() {
    let rows = smooth_rows();
    let smooth = |operation: &&Operation| rows.iter().any(|row| row.operation == **operation);
    let (smooth, rough): (Vec<&Operation>, Vec<&Operation>) = Operation::ALL.iter().partition(smooth);
    assert!(smooth.len() >= 40, "most of the table composes: {smooth:?}");
    let bent: Vec<&str> = rough.into_iter().map(|operation| operation.name()).collect();
    for name in ["relu", "abs", "floor", "max", "min"] {
        assert!(bent.contains(&name), "{name} has a kink and is not composed");
    }
    // A deep chain through all of them, once each, still agrees forwards and in reverse.
    let chain = Program { instructions: (0..rows.len()).map(|k| (k, k, k + 1)).collect(), outputs: vec![0] };
    let recorded = recorded(&chain, &[0.3, -0.2]);
    let nodes: Vec<NodeId> = recorded.tape().ids().collect();
    let used = |row: &Smooth| nodes.iter().any(|node| recorded.tape().node(*node).operation == row.operation);
    assert!(rows.iter().all(used));
    let (forward, reverse) = (recorded.jvp(&[1.0, 0.0])[0], recorded.vjp(&[1.0])[0]);
    let tolerance = roundings(&chain) * magnitude(&chain, &[0.3, -0.2]);
    assert!((forward - reverse).abs() <= tolerance, "{forward:e} and {reverse:e}");
}
