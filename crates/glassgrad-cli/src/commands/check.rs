//! `glassgrad check`: a certificate, and the three ways to differentiate side by side.

use clap::Args;
use glassgrad::certify::{Certificate, certify};
use glassgrad::formula::{Symbols, number};
use glassgrad::scalar::{Tape, gradient};
use glassgrad::trace::{Trace, json_number, short};
use serde_json::{Value, json};

use crate::failure::{Failure, print};
use crate::question::{Problem, Question};
use crate::table::Table;
use crate::terminal::counted;

/// The orders of derivative for which symbolic growth is shown.
const ORDERS: usize = 4;

/// Certify the derivatives of an expression, and compare the three ways to differentiate
#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    question: Question,

    /// Random seed of the directions
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// One row of the comparison with finite differences.
struct Difference {
    step: f64,
    forward_error: f64,
    central_error: f64,
}

/// The size of symbolic derivatives of one order.
struct Growth {
    order: usize,
    written_out: f64,
    shared: usize,
}

impl Check {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let problem = self.question.understand()?;
        let compared = Comparison::of(&problem, self.seed)?;
        if self.json {
            print(&format!("{}\n", compared.as_json(&problem)))?;
        } else {
            print(&as_text(&problem, &compared))?;
        }
        let certificate = &compared.certificate;
        if certificate.holds() {
            return Ok(());
        }
        let blame: Vec<String> = certificate.blame.iter().map(|blame| format!("\n  {blame}")).collect();
        Err(Failure::Result(format!(
            "the derivatives are not certified at this point; a kink near it is the usual reason{}",
            blame.concat()
        )))
    }
}

/// The three ways to differentiate the first result, side by side.
pub(crate) struct Comparison {
    certificate: Certificate,
    automatic: Vec<f64>,
    differences: Vec<Difference>,
    growth: Vec<Growth>,
    operations: usize,
}

impl Comparison {
    /// Differentiates in all ways, where there is something to differentiate and it is finite.
    pub(crate) fn of(problem: &Problem, seed: u64) -> Result<Comparison, Failure> {
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

    pub(crate) fn as_json(&self, problem: &Problem) -> Value {
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

fn symbolic_values(problem: &Problem) -> Vec<(String, f64)> {
    (0..problem.point.len())
        .map(|variable| {
            let symbols = Symbols::new();
            let (_, derivative) = problem.expression.derivative(variable, &symbols);
            (derivative.to_string(), derivative.evaluate(&problem.point))
        })
        .collect()
}

fn best_central(problem: &Problem, variable: usize) -> f64 {
    let x = problem.point[variable];
    let step = 6e-6 * x.abs().max(1.0); // The cube root of the machine's precision balances both errors.
    (value_at(problem, variable, x + step) - value_at(problem, variable, x - step)) / (2.0 * step)
}

fn verdict(passed: bool) -> String {
    (if passed { "pass" } else { "FAIL" }).to_owned()
}

fn certificate_table(certificate: &Certificate) -> Table {
    let slope =
        |slope: Option<f64>| slope.map_or("no remainder".to_owned(), |slope| format!("falls with h^{slope:.2}"));
    let mut table = Table::new(["test", "identity", "found", "verdict"]);
    let mut row = |test: &str, identity: &str, found: String, passed: bool| {
        table.row([test.to_owned(), identity.to_owned(), found, verdict(passed)]);
    };
    let gap = |gap: f64| format!("relative gap {}", short(gap));
    row("adjoint", "⟨w, Jv⟩ = ⟨Jᵀw, v⟩", gap(certificate.adjoint_gap), certificate.adjoint_gap <= 1e-10);
    row("symmetry", "uᵀHv = vᵀHu", gap(certificate.symmetry_gap), certificate.symmetry_gap <= 1e-10);
    let first = certificate.first_order_slope;
    row("Taylor, gradient", "f(x+hv) - f - h gᵀv = O(h²)", slope(first), first.is_none_or(|slope| slope >= 1.8));
    let second = certificate.second_order_slope;
    row("Taylor, Hessian", "… - h²/2 vᵀHv = O(h³)", slope(second), second.is_none_or(|slope| slope >= 2.7));
    let blamed = certificate.blame.len();
    row(
        "operations",
        "each against itself",
        match blamed {
            0 => "all agree".to_owned(),
            blamed => format!("{blamed} wrong"),
        },
        blamed == 0,
    );
    table
}

fn as_text(problem: &Problem, compared: &Comparison) -> String {
    let Comparison { certificate, automatic, differences, growth, operations } = compared;
    let mut text = format!("f = {}\nat {}\n\nCertificate\n", problem.expression.source(), problem.point_text());
    text += &certificate_table(certificate).render();
    text += "\nThree ways to differentiate\n";
    let mut table = Table::new(["", "finite differences", "symbolic", "automatic"]);
    let symbolic = symbolic_values(problem);
    for (variable, exact) in automatic.iter().enumerate() {
        let difference = number(best_central(problem, variable));
        table.row([
            format!("∂f/∂{}", problem.name(variable)),
            difference,
            number(symbolic[variable].1),
            number(*exact),
        ]);
    }
    text += &table.render();
    text += &format!("\nFinite differences: the error of ∂f/∂{} against the step h\n", problem.name(0));
    let mut table = Table::new(["h", "forward", "central"]);
    for row in differences {
        table.row([
            format!("{:e}", row.step),
            format!("{:.1e}", row.forward_error),
            format!("{:.1e}", row.central_error),
        ]);
    }
    text += &table.render();
    text += "\nSymbolic: the formulas\n";
    for (variable, (formula, _)) in symbolic.iter().enumerate() {
        let shown =
            if formula.len() > 300 { format!("(a formula of {} characters)", formula.len()) } else { formula.clone() };
        text += &format!("  ∂f/∂{} = {shown}\n", problem.name(variable));
    }
    text += &format!("\nSymbolic: growth of the derivatives in {}, in operations\n", problem.name(0));
    let mut table = Table::new(["order", "written out", "with shared parts"]);
    for row in growth {
        table.row([row.order.to_string(), short(row.written_out), row.shared.to_string()]);
    }
    text += &table.render();
    text += &format!(
        "\nAutomatic: exact to rounding; a tape of {}, one reverse sweep for {}\n",
        counted(*operations, "operation"),
        match automatic.len() {
            1 => "the derivative".to_owned(),
            several => format!("all {several} derivatives"),
        }
    );
    text
}
