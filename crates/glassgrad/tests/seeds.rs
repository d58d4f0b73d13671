//! The numbers of the texts that this library grew from: their worked examples, tables and orders.

#[path = "judges/modes.rs"]
mod modes;

use glassgrad::Real;
use glassgrad::ops::{Algebra, Operation, Relation};
use glassgrad::scalar::{
    Active, Dual, NodeId, Sweep, Tape, TaylorPool, Var, derivative, derivatives, gradient, hvp, value_and_gradient,
};
use modes::{Function, hessians, jacobians, values};

/// A function with one result, written as an expression in `x` that is generic in its number.
macro_rules! function {
    ($Name:ident, |$x:ident| $body:expr) => {
        struct $Name;
        impl Function for $Name {
            fn at<T: Real>(&self, $x: &[T]) -> Vec<T> {
                vec![$body]
            }
        }
    };
}

/// Value, gradient and, if given, Hessian are exactly these in every mode.
fn assert_in_every_mode(f: &impl Function, x: &[f64], value: f64, slopes: &[f64], curvature: Option<&[f64]>) {
    assert_eq!(values(f, x), [value]);
    for (mode, found) in jacobians(f, x) {
        assert_eq!(found.elements(), slopes, "gradient by {mode}");
    }
    if let Some(curvature) = curvature {
        for (mode, found) in hessians(f, x) {
            assert_eq!(found.elements(), curvature, "Hessian by {mode}");
        }
    }
}

// ------------------------------------------------------------------ small graphs

#[test]
fn the_product_of_a_sum_and_a_product() {
    // f = (x + y)·(x·y): with a = x + y and b = x·y, f_x = b + a·y and f_y = b + a·x.
    function!(F, |v| (v[0] + v[1]) * (v[0] * v[1]));
    for (x, y) in [(2.0, 3.0), (-1.5, 4.0), (0.0, 7.0)] {
        let (a, b): (f64, f64) = (x + y, x * y);
        let mixed = 2.0 * a;
        assert_in_every_mode(&F, &[x, y], a * b, &[b + a * y, b + a * x], Some(&[2.0 * y, mixed, mixed, 2.0 * x]));
    }
}

#[test]
fn the_forward_table_of_the_worked_example() {
    // e = (a·b)·(b + 1) at a = 2, b = 3, with every row of the table.
    let tape = Tape::new();
    let (a, b) = (tape.input(2.0), tape.input(3.0));
    let c = a * b;
    let d = b + 1.0;
    let e = c * d;
    assert_eq!([a, b, c, d, e].map(Var::value), [2.0, 3.0, 6.0, 4.0, 24.0]);
    let (by_a, by_b) = (tape.forward(a), tape.forward(b));
    assert_eq!([a, b, c, d, e].map(|v| by_a.of(v)), [1.0, 0.0, 3.0, 0.0, 12.0]);
    assert_eq!([a, b, c, d, e].map(|v| by_b.of(v)), [0.0, 1.0, 2.0, 1.0, 14.0]);
    let adjoints = tape.reverse(e);
    assert_eq!([a, b, c, d, e].map(|v| adjoints.of(v)), [12.0, 14.0, 4.0, 6.0, 1.0]);
    // Each edge of the drawing carries the local partial derivative.
    assert_eq!(tape.node(c).partials, [3.0, 2.0]);
    assert_eq!(tape.node(d).partials, [1.0]);
    assert_eq!(tape.node(e).partials, [4.0, 6.0]);

    function!(E, |v| (v[0] * v[1]) * (v[1] + T::literal(1.0)));
    assert_in_every_mode(&E, &[2.0, 3.0], 24.0, &[12.0, 14.0], Some(&[0.0, 7.0, 7.0, 4.0]));
}

#[test]
fn the_volume_of_the_reverse_mode_example() {
    // V = xy + z(x + y) has the gradient (y + z, x + z, x + y).
    function!(V, |v| v[0] * v[1] + v[2] * (v[0] + v[1]));
    let ones = [0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0];
    assert_in_every_mode(&V, &[2.0, 3.0, 5.0], 31.0, &[8.0, 7.0, 5.0], Some(&ones));
}

#[test]
fn the_sine_of_a_sum_times_a_number() {
    // The graph that Autograd draws: y = sin(x1 + x2)·x3.
    function!(Y, |x| (x[0] + x[1]).sin() * x[2]);
    let (sine, cosine) = 0.75_f64.sin_cos();
    assert_in_every_mode(&Y, &[0.25, 0.5, 3.0], 3.0 * sine, &[3.0 * cosine, 3.0 * cosine, sine], None);
    let tape = Tape::new();
    let x = tape.inputs(&[0.25, 0.5, 3.0]);
    let y = (x[0] + x[1]).sin() * x[2];
    let operations: Vec<Operation> = tape.ids().map(|id| tape.node(id).operation).collect();
    use Operation::{Add, Input, Mul, Sin};
    assert_eq!(operations, [Input, Input, Input, Add, Sin, Mul]);
    assert_eq!(tape.ancestors(y).len(), 6);
}

#[test]
fn the_logarithm_of_a_quadratic_form() {
    // z = log(3x² + 5xy): z_x = (6x + 5y)/(3x² + 5xy), z_y = 5x/(3x² + 5xy).
    function!(Z, |v| (T::literal(3.0) * v[0].square() + T::literal(5.0) * v[0] * v[1]).ln());
    for (x, y) in [(1.0, 2.0), (0.5, 0.25), (3.0, -1.0)] {
        let inside: f64 = 3.0 * x * x + 5.0 * x * y;
        let exact = [(6.0 * x + 5.0 * y) / inside, 5.0 * x / inside];
        assert_eq!(values(&Z, &[x, y]), [inside.ln()]);
        for (mode, found) in jacobians(&Z, &[x, y]) {
            for (found, exact) in found.elements().iter().zip(exact) {
                assert!((found - exact).abs() <= 4.0 * f64::EPSILON * exact.abs(), "{mode}: {found} is not {exact}");
            }
        }
    }
}

#[test]
fn a_dead_rectifier_stops_the_gradient() {
    // y = relu(w1·x + b1)·w2 + b2 with a negative inside: the weights get nothing, b2 gets all.
    function!(Y, |v| (v[1] * v[0] + v[2]).relu() * v[3] + v[4]);
    assert_in_every_mode(&Y, &[2.0, -3.0, 1.0, 2.0, 0.5], 0.5, &[0.0, 0.0, 0.0, 0.0, 1.0], Some(&[0.0; 25]));
}

#[test]
fn the_power_loop_grows_with_its_bound() {
    fn power_loop<T: Real>(x: T, n: usize) -> T {
        (1..n).fold(x, |result, _| result * x)
    }
    let tape = Tape::new();
    let x = tape.input(2.0);
    let y = power_loop(x, 3);
    assert_eq!((y.value(), tape.reverse(y).of(x), tape.forward(x).of(y)), (8.0, 12.0, 12.0));
    assert_eq!(tape.len(), 3, "one input and two products");
    for n in 1..8 {
        let longer = Tape::new();
        let _ = power_loop(longer.input(2.0), n);
        assert_eq!(longer.len(), n, "the graph follows the loop");
    }
    assert_eq!(derivatives(|x| power_loop(x, 3), 2.0, 4), [8.0, 12.0, 12.0, 6.0, 0.0]);
}

// `c += c + 1` is how micrograd's test is written: it must double c, and not merely step it.
#[allow(clippy::misrefactored_assign_op)]
#[test]
fn micrograd_passes_its_own_two_tests() {
    let (value, slope) = value_and_gradient(
        |x| {
            let x = x[0];
            let z = 2.0 * x + 2.0 + x;
            let q = z.relu() + z * x;
            let h = (z * z).relu();
            h + q + q * x
        },
        &[-4.0],
    );
    assert_eq!((value, slope), (-20.0, vec![46.0]));

    let (value, slopes) = value_and_gradient(
        |x| {
            let (a, b) = (x[0], x[1]);
            let mut c = a + b;
            let mut d = a * b + b.powi(3);
            c += c + 1.0;
            c += 1.0 + c + (-a);
            d += d * 2.0 + (b + a).relu();
            d += 3.0 * d + (b - a).relu();
            let e = c - d;
            let f = e.powi(2);
            let mut g = f / 2.0;
            g += 10.0 / f;
            g
        },
        &[-4.0, 2.0],
    );
    assert!((value - 24.70408163265306).abs() <= 4.0 * f64::EPSILON * value);
    assert!((slopes[0] - 138.83381924198252).abs() <= 4.0 * f64::EPSILON * slopes[0]);
    assert!((slopes[1] - 645.5772594752186).abs() <= 4.0 * f64::EPSILON * slopes[1]);
}

// ------------------------------------------------------------------ the example of the step-by-step text

/// ln x1 + x1·x2 - sin x2 at (2, 5), recorded in the order ln, mul, sin, add, sub.
struct Worked<'t> {
    x1: Var<'t>,
    x2: Var<'t>,
    v: [Var<'t>; 5],
}

impl<'t> Worked<'t> {
    fn record(tape: &'t Tape) -> Self {
        let (x1, x2) = (tape.input(2.0).named("x1"), tape.input(5.0).named("x2"));
        let v1 = x1.ln().named("v1");
        let v2 = (x1 * x2).named("v2");
        let v3 = x2.sin().named("v3");
        let v4 = (v1 + v2).named("v4");
        let v5 = (v4 - v3).named("v5");
        Worked { x1, x2, v: [v1, v2, v3, v4, v5] }
    }

    fn all(&self) -> [Var<'t>; 7] {
        let [v1, v2, v3, v4, v5] = self.v;
        [self.x1, self.x2, v1, v2, v3, v4, v5]
    }

    fn y(&self) -> Var<'t> {
        self.v[4]
    }
}

fn names(tape: &Tape, nodes: Vec<NodeId>) -> Vec<String> {
    nodes.into_iter().map(|node| tape.name_of(node)).collect()
}

#[test]
fn the_step_by_step_tables_come_out_row_by_row() {
    let tape = Tape::new();
    let worked = Worked::record(&tape);
    let all = worked.all();
    let (ln2, sin5, cos5) = (2.0_f64.ln(), 5.0_f64.sin(), 5.0_f64.cos());

    assert_eq!(all.map(Var::value), [2.0, 5.0, ln2, 10.0, sin5, ln2 + 10.0, ln2 + 10.0 - sin5]);
    assert_eq!(format!("{:.3}", worked.y().value()), "11.652");

    let tangents = tape.forward(worked.x1);
    assert_eq!(all.map(|v| tangents.of(v)), [1.0, 0.0, 0.5, 5.0, 0.0, 5.5, 5.5]);
    let tangents = tape.forward(worked.x2);
    assert_eq!(all.map(|v| tangents.of(v)), [0.0, 1.0, 0.0, 2.0, cos5, 2.0, 2.0 - cos5]);

    let adjoints = tape.reverse(worked.y());
    assert_eq!(all.map(|v| adjoints.of(v)), [5.5, 2.0 - cos5, 1.0, 1.0, -1.0, 1.0, 1.0]);
    assert_eq!(format!("{:.3}", adjoints.of(worked.x2)), "1.716");
    assert_eq!(format!("{:.3}", -cos5), "-0.284", "the first contribution to the adjoint of x2");
}

#[test]
fn the_members_of_a_node_are_those_of_the_text() {
    // The table of v2: value 10, parents x1 and x2, child v4, operator mul, partials 5 and 2.
    let tape = Tape::new();
    let worked = Worked::record(&tape);
    let v2 = tape.node(worked.v[1]);
    assert_eq!((v2.value, v2.operation, v2.parameter), (10.0, Operation::Mul, None));
    assert_eq!(v2.parents().collect::<Vec<_>>(), [(worked.x1.into(), 5.0), (worked.x2.into(), 2.0)]);
    assert_eq!(names(&tape, tape.children(worked.v[1])), ["v4"]);
    assert_eq!(names(&tape, tape.children(worked.x1)), ["v1", "v2"]);
    assert_eq!(names(&tape, tape.children(worked.x2)), ["v2", "v3"]);
    assert_eq!(names(&tape, tape.children(worked.y())), [""; 0]);
}

#[test]
fn the_sets_and_orders_are_those_of_the_text() {
    let tape = Tape::new();
    let worked = Worked::record(&tape);
    assert_eq!(names(&tape, tape.reachable(worked.x1)), ["x1", "v1", "v2", "v4", "v5"]);
    assert_eq!(names(&tape, tape.reachable(worked.x2)), ["x2", "v2", "v3", "v4", "v5"]);
    assert_eq!(names(&tape, tape.ancestors(worked.y())), ["x1", "x2", "v1", "v2", "v3", "v4", "v5"]);
    assert_eq!(names(&tape, tape.ancestors(worked.v[3])), ["x1", "x2", "v1", "v2", "v4"]);
    assert_eq!(names(&tape, tape.order_from(worked.x1)), ["x1", "v2", "v1", "v4", "v5"]);
    assert_eq!(names(&tape, tape.order_towards(worked.y())), ["v5", "v3", "v4", "v2", "x2", "v1", "x1"]);
}

#[test]
fn a_second_output_is_left_out_of_the_sweep() {
    // v6 is a child of v4 beside v5, with a partial that would spoil everything: it must not count.
    let tape = Tape::new();
    let worked = Worked::record(&tape);
    let v6 = ((worked.v[3] - worked.v[3]) / 0.0).named("v6");
    assert!(v6.value().is_nan());
    let adjoints = tape.reverse(worked.y());
    assert_eq!(adjoints.of(v6), 0.0);
    assert_eq!((adjoints.of(worked.x1), adjoints.of(worked.x2)), (5.5, 2.0 - 5.0_f64.cos()));
    assert_eq!(names(&tape, tape.order_towards(worked.y())), ["v5", "v3", "v4", "v2", "x2", "v1", "x1"]);
    assert!(!tape.ancestors(worked.y()).contains(&v6.into()));

    // As a further output with a weight of its own it is counted.
    let tape = Tape::new();
    let worked = Worked::record(&tape);
    let v6 = worked.v[3] * 3.0;
    let mut both = Sweep::new();
    tape.reverse_into(&[(worked.y().into(), 1.0), (v6.into(), 10.0)], &mut both);
    assert_eq!(both.of(worked.x1), 5.5 + 10.0 * 3.0 * 5.5);
    assert_eq!(tape.reverse(v6).of(worked.x1), 16.5);
}

// ------------------------------------------------------------------ higher orders

fn assert_close(what: &str, found: &[f64], exact: &[f64]) {
    assert_eq!(found.len(), exact.len());
    for (order, (found, exact)) in found.iter().zip(exact).enumerate() {
        let tolerance = 32.0 * f64::EPSILON * exact.abs().max(1.0);
        assert!((found - exact).abs() <= tolerance, "{what}, order {order}: {found} is not {exact}");
    }
}

#[test]
fn x_to_the_x_at_one_to_fourth_order_in_every_way() {
    let exact = [1.0, 1.0, 2.0, 3.0, 8.0];
    assert_close("series", &derivatives(|x| x.pow(x), 1.0, 4), &exact);

    let x = Dual::variable(Dual::variable(Dual::variable(Dual::variable(1.0))));
    let y = x.pow(x);
    let (first, second) = (y.tangent(), y.tangent().tangent());
    let (third, fourth) = (second.tangent(), second.tangent().tangent());
    let nested = [y.value.value.value.value, first.value.value.value, second.value.value, third.value, fourth];
    assert_close("nested duals", &nested, &exact);

    let once = gradient(|x| x[0].pow(x[0]), &[1.0]);
    let twice = gradient(|x| gradient(|x| x[0].pow(x[0]), x)[0], &[1.0]);
    let thrice = gradient(|x| gradient(|x| gradient(|x| x[0].pow(x[0]), x)[0], x)[0], &[1.0]);
    let four_times = gradient(|x| gradient(|x| gradient(|x| gradient(|x| x[0].pow(x[0]), x)[0], x)[0], x)[0], &[1.0]);
    assert_close("nested reverse", &[1.0, once[0], twice[0], thrice[0], four_times[0]], &exact);
}

#[test]
fn what_cancels_has_no_derivative() {
    function!(Nothing, |x| x[0] - x[0]);
    assert_in_every_mode(&Nothing, &[0.7], 0.0, &[0.0], Some(&[0.0]));
    assert_eq!(derivatives(|x| x - x, 0.7, 4), [0.0; 5]);
    assert_eq!(hvp(|x| x[0] - x[0], &[0.7], &[1.0]), [0.0]);
}

#[test]
fn a_vanishing_factor_does_not_hide_a_second_derivative() {
    // a·sin x at a = 0: f_x = 0 there, and yet f_ax = cos x. A zero adjoint may be skipped only if
    // nothing that depends on the inputs travels with it.
    function!(F, |v| v[0] * v[1].sin());
    let (sine, cosine) = 0.7_f64.sin_cos();
    assert_in_every_mode(&F, &[0.0, 0.7], 0.0, &[sine, 0.0], Some(&[0.0, cosine, cosine, 0.0]));
    assert_eq!(hvp(|v| v[0] * v[1].sin(), &[0.0, 0.7], &[0.0, 1.0]), [cosine, 0.0]);
}

// ------------------------------------------------------------------ branches not taken

function!(GuardedLogarithm, |x| T::choose(x[0], Relation::Greater, T::literal(0.0), x[0].ln(), T::literal(0.0)));
function!(GuardedRoot, |x| T::choose(x[0], Relation::Greater, T::literal(0.0), x[0].sqrt(), T::literal(0.0)));

#[test]
fn a_branch_not_taken_contributes_exactly_nothing() {
    assert_in_every_mode(&GuardedLogarithm, &[0.0], 0.0, &[0.0], Some(&[0.0]));
    assert_in_every_mode(&GuardedRoot, &[0.0], 0.0, &[0.0], Some(&[0.0]));
    assert_in_every_mode(&GuardedLogarithm, &[-1.0], 0.0, &[0.0], Some(&[0.0]));
    assert_in_every_mode(&GuardedRoot, &[4.0], 2.0, &[0.25], Some(&[-0.03125]));
    // To higher orders, by series and by nested reverse mode.
    assert_eq!(derivatives(|x| GuardedLogarithm.at(&[x])[0], 0.0, 6), [0.0; 7]);
    assert_eq!(derivatives(|x| GuardedRoot.at(&[x])[0], 0.0, 6), [0.0; 7]);
    let third = gradient(|x| gradient(|x| gradient(|x| GuardedLogarithm.at(x)[0], x)[0], x)[0], &[0.0]);
    assert_eq!(third, [0.0]);
    let third = derivative(|x| derivative(|x| derivative(|x| GuardedRoot.at(&[x])[0], x), x), 0.0);
    assert_eq!(third, 0.0);
}

#[test]
fn a_zero_tangent_contributes_nothing_across_an_infinite_derivative() {
    // √x has an infinite slope at 0. Along y alone x stands still, and zero wins in every mode.
    function!(F, |v| v[0].sqrt() + v[1] + T::literal(0.0).sqrt() * v[1]);
    assert_in_every_mode(&F, &[0.0, 2.0], 2.0, &[f64::INFINITY, 1.0], None);
    let pool = TaylorPool::new(3);
    let series = F.at(&[pool.series(&[0.0, 0.0]), pool.variable(2.0)])[0];
    assert_eq!(series.coefficients(), [2.0, 1.0, 0.0, 0.0]);
}

#[test]
fn a_choice_is_decided_anew_when_it_is_replayed() {
    fn replayed<T: Real>(tape: &mut Tape<T>, x: T) -> (f64, T) {
        let input = tape.ids().next().expect("an input");
        let output = tape.ids().next_back().expect("an output");
        tape.replay(&[x]).expect("a choice is no branch of the program");
        (tape.value(output).primal(), tape.reverse(output).of(input))
    }
    // Recorded where the logarithm is not taken, replayed where it is, and back.
    let mut tape = Tape::new();
    let _ = GuardedLogarithm.at(&[tape.input(0.0)]);
    assert_eq!(replayed(&mut tape, 2.0), (2.0_f64.ln(), 0.5));
    assert_eq!(replayed(&mut tape, 0.0), (0.0, 0.0));
    assert_eq!(replayed(&mut tape, -3.0), (0.0, 0.0));
    assert_eq!(replayed(&mut tape, 4.0), (4.0_f64.ln(), 0.25));
    // The same to second order, on a tape of dual numbers.
    let mut tape = Tape::new();
    let _ = GuardedRoot.at(&[tape.input(Dual::variable(4.0))]);
    let (value, slope) = replayed(&mut tape, Dual::variable(0.0));
    assert_eq!((value, slope.value, slope.tangent()), (0.0, 0.0, 0.0));
    let (value, slope) = replayed(&mut tape, Dual::variable(4.0));
    assert_eq!((value, slope.value, slope.tangent()), (2.0, 0.25, -0.03125));
}

#[test]
fn nested_derivatives_are_not_confused() {
    // d/dx (x · d/dy (x + y)) = 1: the inner derivative must see x as a constant.
    assert_eq!(derivative(|x| x * derivative(|y| Dual::constant(x) + y, x), 3.0), 1.0);
    let reverse = gradient(|x| x[0] * gradient(|y| Active::constant(x[0]) + y[0], &[x[0]])[0], &[3.0]);
    assert_eq!(reverse, [1.0]);
    // d/dx (x · d/dy (x·y)) = d/dx x² = 2x, forwards inside reverse and the other way round.
    let mixed = gradient(|x| x[0] * derivative(|y| Dual::constant(x[0]) * y, x[0]), &[3.0]);
    assert_eq!(mixed, [6.0]);
    let mixed = derivative(|x| x * gradient(|y| Active::constant(x) * y[0], &[x])[0], 3.0);
    assert_eq!(mixed, 6.0);
}
