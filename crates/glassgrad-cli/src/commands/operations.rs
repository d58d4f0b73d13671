//! `glassgrad operations`: the table of operations, and the reference page generated from it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use glassgrad::formula::{Symbols, number};
use glassgrad::ops::{Binary, Row, Unary, Visitor, visit};

use crate::chart::sheet::TITLE;
use crate::chart::{Axis, Plot, sheet};
use crate::failure::{Failure, print};
use crate::table::Table;

/// List the functions of the expression language
#[derive(Args)]
pub(crate) struct Operations {
    /// Write the reference page and a picture of each function into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// The entry of one row in the reference.
struct Entry {
    row: Row,
    derivatives: Vec<String>,
    /// The function and its derivative over the domain, for rows of one argument.
    curves: Option<[Vec<(f64, f64)>; 2]>,
}

impl Operations {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut collector = Collector(Vec::new());
        visit(&mut collector);
        match self.out {
            None => print(&listing(&collector.0)),
            Some(folder) => write_reference(&folder, &collector.0)
                .map_err(|error| Failure::Input(format!("cannot write to {}: {error}", folder.display()))),
        }
    }
}

struct Collector(Vec<Entry>);

impl Visitor for Collector {
    fn unary<R: Unary>(&mut self, row: &Row) {
        let symbols = Symbols::new();
        let parameter = row.parameter.map_or(0.0, |parameter| parameter.default);
        let derivative = R::derivative(symbols.variable("x"), symbols.variable("y"), parameter);
        self.0.push(Entry {
            row: row.clone(),
            derivatives: vec![derivative.to_string()],
            curves: Some(curves::<R>(row, parameter)),
        });
    }

    fn binary<R: Binary>(&mut self, row: &Row) {
        let symbols = Symbols::new();
        let [a, b, y] = ["a", "b", "y"].map(|name| symbols.variable(name));
        let derivatives = vec![R::first(a, b, y).to_string(), R::second(a, b, y).to_string()];
        self.0.push(Entry { row: row.clone(), derivatives, curves: None });
    }
}

/// Points of the function and of its derivative over the domain.
fn curves<R: Unary>(row: &Row, parameter: f64) -> [Vec<(f64, f64)>; 2] {
    const POINTS: usize = 240;
    let range = &row.domain[0];
    let mut curves = [Vec::new(), Vec::new()];
    for k in 0..=POINTS {
        let x = range.start + (range.end - range.start) * k as f64 / POINTS as f64;
        let y = R::value(x, parameter);
        curves[0].push((x, y));
        curves[1].push((x, R::derivative(x, y, parameter)));
    }
    curves
}

fn signature(row: &Row) -> String {
    let parameter = row.parameter.map(|parameter| format!(", {} = {}", parameter.name, number(parameter.default)));
    format!("{}({}{})", row.operation, row.arguments.join(", "), parameter.unwrap_or_default())
}

fn listing(entries: &[Entry]) -> String {
    let mut table = Table::new(["function", "meaning"]);
    for entry in entries {
        table.row([signature(&entry.row), entry.row.summary.to_owned()]);
    }
    table.row([
        "where(condition, a, b)".into(),
        "a where the condition holds, b elsewhere; the other contributes nothing.".into(),
    ]);
    format!("{}\nlog is another name of ln; pi and e are numbers; + - * / % ^ as usual.\n", table.render())
}

fn write_reference(folder: &Path, entries: &[Entry]) -> std::io::Result<()> {
    let pictures = folder.join("operations");
    std::fs::create_dir_all(&pictures)?;
    for entry in entries {
        if let Some(curves) = &entry.curves {
            std::fs::write(pictures.join(format!("{}.svg", entry.row.operation)), picture(entry, curves))?;
        }
    }
    std::fs::write(folder.join("operations.md"), page(entries))
}

fn page(entries: &[Entry]) -> String {
    let mut page = String::from(
        "# Reference of operations\n\n\
         Generated from the table in `crates/glassgrad-math/src/ops.rs` by `cargo run --release -- operations --out docs`.\n\
         Each rule is a formula in the argument and the output y. Pictures show the function (blue) and its\n\
         derivative (orange).\n",
    );
    for entry in entries {
        let row = &entry.row;
        let _ = write!(page, "\n## {}\n\n{}\n\n", row.operation, row.summary);
        let _ = writeln!(page, "- call: `{}`", signature(row));
        let left =
            |argument: &str| if row.arguments.len() == 1 { "y′".to_owned() } else { format!("∂y/∂{argument}") };
        for (argument, derivative) in row.arguments.iter().zip(&entry.derivatives) {
            let _ = writeln!(page, "- {} = `{derivative}`", left(argument));
        }
        if !row.kinks.is_empty() {
            let kinks: Vec<String> = row.kinks.iter().map(|kink| number(*kink)).collect();
            let place = if row.arguments.len() == 1 { "x" } else { "a - b" };
            let _ = writeln!(page, "- no derivative in the classical sense at {place} = {}", kinks.join(", "));
        }
        for special in &row.special {
            let [at, partials] = [&special.at, &special.partials]
                .map(|values| values.iter().map(|value| number(*value)).collect::<Vec<_>>().join(", "));
            let _ = writeln!(page, "- at {at}: value {}, derivative {partials}", number(special.value));
        }
        if entry.curves.is_some() {
            let _ = write!(page, "\n![{0} and its derivative](operations/{0}.svg)\n", row.operation);
        }
    }
    page
}

/// The values that a picture shows, with a margin, and always the axis.
fn shown_range(curves: &[Vec<(f64, f64)>; 2]) -> (f64, f64) {
    let values = || curves.iter().flatten().map(|(_, y)| *y).filter(|y| y.is_finite());
    let (low, high) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
    let margin = 0.08 * (high - low).max(1e-3);
    (low - margin, high + margin)
}

fn picture(entry: &Entry, curves: &[Vec<(f64, f64)>; 2]) -> String {
    let (low, high) = shown_range(curves);
    let (start, end) = (curves[0][0].0, curves[0][curves[0].len() - 1].0);
    let name = entry.row.operation.name();
    let (across, up) = (Axis::between("", start, end), Axis::between("", low, high));
    let mut plot = Plot::shaped(&format!("{name} and its derivative"), across, up, (420.0, 260.0 - TITLE));
    for (curve, colour) in curves.iter().zip(["#2563eb", "#ea580c"]) {
        for piece in pieces(curve, low, high) {
            plot.function("", colour, piece);
        }
    }
    sheet(&[(name, plot)], 1)
}

/// A curve cut at its jumps, where a line would be false.
fn pieces(curve: &[(f64, f64)], low: f64, high: f64) -> impl Iterator<Item = &[(f64, f64)]> {
    curve.chunk_by(move |(_, y), (_, next)| (y - next).abs() <= 0.12 * (high - low))
}
