//! `glassgrad derive`: derivatives of matrix and tensor expressions, written down, explained and checked.

use clap::{Args, ValueEnum};
use glassgrad::calculator::{Derived, Language, Question, Step, derive, emit};
use glassgrad_studio::derivation::{as_json, disagreement};

use crate::failure::{Failure, print};
use crate::table::Table;

/// Derive matrix and tensor expressions, and show the work
///
/// Vectors are columns, * is the matrix product, .* ./ .^ work element by element, ' transposes. There are sum, tr, norm1,
/// norm2, inv, det, logdet, diag, vector(1), matrix(1), eye, einsum("ij,jk->ik", A, B), and all functions that
/// `glassgrad operations` lists, element by element.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Derive {
    /// The expression, for example "norm2(A*x - b)^2"
    #[arg(allow_hyphen_values = true)]
    expression: String,

    /// Differentiate with respect to this symbol
    #[arg(long, value_name = "SYMBOL")]
    wrt: String,

    /// 1 for the gradient or Jacobian, 2 for the Hessian of a number
    #[arg(long, default_value_t = 1)]
    order: usize,

    /// Symbols with their sizes, and numbers for sizes: "A: m n, x: n, t:, m=5, n=3"
    #[arg(long, value_name = "DECLARATIONS")]
    sizes: Vec<String>,

    /// One symbol with its sizes, as in A=m,n; may be repeated
    #[arg(long, value_name = "SYMBOL=SIZES")]
    shape: Vec<String>,

    /// Memory limit of materialised values, for example 500MB
    #[arg(long, default_value = "1GB", value_parser = bytes)]
    limit: u128,

    /// Show every step of the derivation, checked at a random point
    #[arg(long)]
    steps: bool,

    /// Code for value, gradient and Hessian-vector product instead, which needs nothing but its language or library
    #[arg(long, value_enum, value_name = "LANGUAGE", conflicts_with_all = ["json", "steps"])]
    emit: Option<Emit>,

    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Emit {
    Rust,
    C,
    Numpy,
    Jax,
}

const EXAMPLES: &str = "Examples:
  glassgrad derive \"norm2(A*x - b)^2\" --wrt x --sizes \"A: m n, x: n, b: m\"
  glassgrad derive \"sum(exp(A*x))\" --wrt x --order 2 --sizes \"A: m n, x: n, m=1000, n=20\"
  glassgrad derive \"norm2(U*V')^2\" --wrt U --order 2 --shape U=n,k --shape V=n,k --sizes n=1000
  glassgrad derive \"logdet(X)\" --wrt X --sizes \"X: n n\" --steps
  glassgrad derive \"sum(exp(A*x))\" --wrt x --sizes \"A: m n, x: n\" --emit c";

/// A number of bytes with or without a unit.
fn bytes(text: &str) -> Result<u128, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1.0,
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        other => return Err(format!("'{other}' is no unit; write B, kB, MB, GB or TB")),
    };
    match digits.trim().parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok((number * unit) as u128),
        _ => Err("a number of bytes was expected, as in 500MB".to_owned()),
    }
}

impl Derive {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut question = Question::new(&self.expression, &self.wrt).order(self.order).limit(self.limit);
        let refused = |option: &str, error: glassgrad::lang::SyntaxError| Failure::Input(format!("{option}: {error}"));
        for text in &self.shape {
            question = question.declare_shape(text).map_err(|error| refused("--shape", error))?;
        }
        for text in &self.sizes {
            question = question.declare(text).map_err(|error| refused("--sizes", error))?;
        }
        if let Some(language) = self.emit {
            let language = match language {
                Emit::Rust => Language::Rust,
                Emit::C => Language::C,
                Emit::Numpy => Language::Numpy,
                Emit::Jax => Language::Jax,
            };
            return print(&emit(&question, language).map_err(Failure::input)?);
        }
        let derived = derive(&question).map_err(Failure::input)?;
        let shown = if self.json { format!("{}\n", as_json(&derived)) } else { self.as_text(&derived) };
        print(&shown)?;
        disagreement(&derived).map_or(Ok(()), |message| Err(Failure::Result(message)))
    }

    fn as_text(&self, derived: &Derived) -> String {
        let mut text = format!("f = {}, a {}\n\n{} in\n", self.expression, derived.shape, derived.heading);
        text += &format!("  Einstein notation  {}\n", derived.einstein);
        text += &format!("  Ricci notation     {}\n", derived.ricci);
        text += &match (&derived.matrix, &derived.direction) {
            (Some(matrix), None) => format!("  matrix notation    {matrix}\n"),
            (Some(matrix), Some(direction)) => format!("  matrix notation    {direction} -> {matrix}\n"),
            (None, _) => "  matrix notation    none: it is no product of matrices and vectors\n".to_owned(),
        };
        text += &format!("  LaTeX              {}\n", derived.latex);
        let sizes: Vec<String> = derived.sizes.iter().map(|(name, number)| format!("{name} = {number}")).collect();
        let at = if sizes.is_empty() { String::new() } else { format!(" at {}", sizes.join(", ")) };
        text += &format!("\nHeld{at}\n");
        for (array, axes) in &derived.held {
            let axes: Vec<String> = axes.iter().map(ToString::to_string).collect();
            let axes = if axes.is_empty() { "a number".to_owned() } else { axes.join("×") };
            text += &format!("  {array}: {axes}\n");
        }
        text += &format!(
            "  {}; {} bytes of {} in a dense array\n",
            derived.structure, derived.held_bytes, derived.dense_bytes
        );
        let agreement = derived.agreement;
        text += "\nDeviation at a random point\n";
        text += &format!("  from finite differences  {:.0e}\n", agreement.finite_differences);
        text += &format!("  from nested modes        {:.0e}\n", agreement.nested);
        if let Some(matrix) = agreement.matrix {
            text += &format!("  of the matrix notation   {matrix:.0e}\n");
        }
        let worst = derived.steps.iter().map(|step| step.deviation).fold(0.0, f64::max);
        let count = derived.steps.len();
        match (count, self.steps) {
            (0, _) => text += "\nNo step of rewriting was needed\n",
            (_, false) => {
                text += &format!("  of {count} steps of rewriting, at most  {worst:.0e}   (--steps shows them)\n");
            }
            (_, true) => text += &ledger(&derived.steps),
        }
        text
    }
}

/// The steps as blocks of lines: the expressions are too wide for columns.
fn ledger(steps: &[Step]) -> String {
    let mut text = "\nSteps\n".to_owned();
    let mut table = Table::new(["step", "rule", "FLOP before", "after", "deviation"]);
    for (number, step) in steps.iter().enumerate() {
        text += &format!("  {}  {}\n       {}\n     = {}\n", number + 1, step.rule, step.before, step.after);
        let deviation = format!("{:.0e}", step.deviation);
        let [before, after] = [step.flops_before, step.flops_after].map(|flops| flops.to_string());
        table.row([(number + 1).to_string(), step.rule.to_owned(), before, after, deviation]);
    }
    text + "\n" + &table.render()
}
