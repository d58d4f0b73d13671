//! `glassgrad check`: a certificate, and the three ways to differentiate side by side.

use clap::Args;
use glassgrad::certify::Certificate;
use glassgrad::formula::number;
use glassgrad::trace::short;
use glassgrad_studio::comparison::{Comparison, best_central, symbolic_values};

use crate::failure::{Failure, print};
use crate::question::{Problem, Question};
use crate::table::Table;
use crate::terminal::counted;

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
