//! The three ways to differentiate, side by side, with a certificate.

use glassgrad::certify::{Certificate, certify};
use glassgrad::formula::Symbols;
use glassgrad::scalar::{Tape, gradient};
use glassgrad::trace::{Trace, json_number};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::problem::Problem;

/// The orders of derivative for which symbolic growth is shown.
const ORDERS: usize = 4;

/// One row of the comparison with finite differences.
pub struct Difference {
    pub step: f64,
    pub forward_error: f64,
    pub central_error: f64,
}

/// The size of symbolic derivatives of one order.
pub struct Growth {
    pub order: usize,
    pub written_out: f64,
    pub shared: usize,
}

/// The three ways to differentiate the first result, side by side.
pub struct Comparison {
    pub certificate: Certificate,
    pub automatic: Vec<f64>,
    pub differences: Vec<Difference>,
    pub growth: Vec<Growth>,
    pub operations: usize,
}

impl Comparison {
    /// Differentiates in all ways, where there is something to differentiate and it is finite.
    pub fn of(problem: &Problem, seed: u64) -> Result<Comparison, Failure> {
        if problem.point.is_empty() {
            return Err(Failure::Input("the expression has no variable, so there is nothing to check".to_owned()));
        }
        let tape = Tape::new();
        let outputs = problem.record(&tape);
        if let Some(failure) = problem.not_finite(&Trace::new(&tape), outputs[0]) {
            return Err(failure);
        }
        let automatic = gradient(|x| problem.expression.evaluate(x)[0], &problem.point);
        Ok(Comparison {
            certificate: certify(|x| problem.expression.evaluate(x)[0], &problem.point, seed),
            differences: differences(problem, automatic[0]),
            growth: growth(problem),
            operations: tape.len() - problem.point.len(),
            automatic,
        })
    }

    pub fn as_json(&self, problem: &Problem) -> Value {
        let Comparison { certificate, automatic, differences, growth, .. } = self;
        let slope = |slope: Option<f64>| slope.map(json_number);
        let ways: Vec<Value> = symbolic_values(problem)
            .into_iter()
            .enumerate()
            .map(|(variable, (formula, value))| {
                json!({ "variable": problem.name(variable), "finite_difference": json_number(best_central(problem, variable)),
                        "symbolic": json_number(value), "formula": formula, "automatic": json_number(automatic[variable]) })
            })
            .collect();
        let errors: Vec<Value> = differences
            .iter()
            .map(|row| json!({ "h": row.step, "forward_error": json_number(row.forward_error), "central_error": json_number(row.central_error) }))
            .collect();
        let sizes: Vec<Value> = growth
            .iter()
            .map(|row| json!({ "order": row.order, "written_out": json_number(row.written_out), "shared": row.shared }))
            .collect();
        json!({
            "expression": problem.expression.source(),
            "certified": certificate.holds(),
            "adjoint_gap": json_number(certificate.adjoint_gap),
            "symmetry_gap": json_number(certificate.symmetry_gap),
            "first_order_slope": slope(certificate.first_order_slope),
            "second_order_slope": slope(certificate.second_order_slope),
            "blame": certificate.blame.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "derivatives": ways,
            "finite_difference_errors": errors,
            "symbolic_growth": sizes,
        })
    }
}

fn value_at(problem: &Problem, variable: usize, moved: f64) -> f64 {
    let mut point = problem.point.clone();
    point[variable] = moved;
    problem.expression.evaluate(&point)[0]
}

/// The error of finite differences in the first variable, for steps from 10⁻¹ down to 10⁻¹⁵.
fn differences(problem: &Problem, exact: f64) -> Vec<Difference> {
    let x = problem.point[0];
    let base = value_at(problem, 0, x);
    (1..=15)
        .map(|digits| {
            let step = 10_f64.powi(-digits);
            let (above, below) = (value_at(problem, 0, x + step), value_at(problem, 0, x - step));
            Difference {
                step,
                forward_error: ((above - base) / step - exact).abs(),
                central_error: ((above - below) / (2.0 * step) - exact).abs(),
            }
        })
        .collect()
}

/// The size of the symbolic derivatives with respect to the first variable.
fn growth(problem: &Problem) -> Vec<Growth> {
    let symbols = Symbols::new();
    let inputs: Vec<_> = problem.expression.variables().iter().map(|name| symbols.variable(name)).collect();
    let (value, mut derivative) = problem.expression.derivative(0, &symbols);
    let mut rows =
        vec![Growth { order: 0, written_out: value.operations_written_out(), shared: value.operations_shared() }];
    for order in 1..=ORDERS {
        let (written_out, shared) = (derivative.operations_written_out(), derivative.operations_shared());
        rows.push(Growth { order, written_out, shared });
        // Formulas beyond this size say what there is to say about growth.
        if order == ORDERS || shared > 20_000 {
            break;
        }
        let Some(formula) = derivative.to_formula() else { break };
        derivative = formula.derivative(&inputs, 0)[0].1;
    }
    rows
}

/// The symbolic derivative in each variable, and its value.
pub fn symbolic_values(problem: &Problem) -> Vec<(String, f64)> {
    (0..problem.point.len())
        .map(|variable| {
            let symbols = Symbols::new();
            let (_, derivative) = problem.expression.derivative(variable, &symbols);
            (derivative.to_string(), derivative.evaluate(&problem.point))
        })
        .collect()
}

/// The central difference quotient of the step that balances truncation and rounding.
pub fn best_central(problem: &Problem, variable: usize) -> f64 {
    let x = problem.point[variable];
    let step = 6e-6 * x.abs().max(1.0); // The cube root of the machine's precision balances both errors.
    (value_at(problem, variable, x + step) - value_at(problem, variable, x - step)) / (2.0 * step)
}
