//! The steps of a program in words, with what they compute and move and how long they take.

use std::panic::Location;

use serde_json::{Value, json};

use super::limits::{Bound, Limits};
use crate::exec::Timed;
use crate::opt::program::{Contraction, ContractionAxis, Instruction, Loop, Program, Reduction, Step};
use crate::sorting::IndirectSort;

/// The most operations of a loop that are named.
const NAMED: usize = 6;

/// The kind of a step.
///
/// ```
/// use glassgrad::{Tensor, explain::Kind};
/// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
/// let kinds: Vec<Kind> = x.matmul(&x).tanh().explain().unwrap().steps.iter().map(|step| step.kind).collect();
/// assert_eq!(kinds, [Kind::Product, Kind::Loop]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A fused loop.
    Loop,
    /// A product of matrices.
    Product,
    /// An operation on whole arrays, by the reference.
    Call,
    /// A loop over time.
    Scan,
    /// The sweep back over one.
    Sweep,
}

/// One step of a program.
///
/// ```
/// use glassgrad::Tensor;
/// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
/// let explanation = (x.matmul(&x) + 1.0).tanh().explain().unwrap();
/// let what: Vec<&str> = explanation.steps.iter().map(|step| step.what.as_str()).collect();
/// assert_eq!(what, ["product 2×2×2", "loop 4: add, tanh"]);
/// assert_eq!((explanation.steps[0].flops, explanation.steps[0].bytes), (16.0, 96.0));
/// assert!(explanation.steps[0].origins[0].file().ends_with(".rs"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedStep {
    /// What it is.
    pub kind: Kind,
    /// The same in a few words.
    pub what: String,
    /// The user's lines for which it works. Where several operations became one, as products of products do, it is the
    /// line of the last of them.
    pub origins: Vec<&'static Location<'static>>,
    /// Multiplications and additions.
    pub flops: f64,
    /// Bytes that are read and written at least once.
    pub bytes: f64,
    /// The seconds that it needs by the limits of the machine, without the time to begin a step.
    pub least: f64,
    /// Its bottleneck.
    pub bound: Bound,
    /// The seconds that it should take.
    pub predicted: f64,
    /// The seconds that it took.
    pub measured: f64,
    /// Elements times registers of a loop, or operations of a product: what is too little for several threads.
    pub work: f64,
    /// What runs it: kernels, a library, the host. Empty on a CPU, and for steps inside of others.
    pub placement: String,
    /// The programs that it runs, if it is a loop over time.
    pub inside: Vec<Inside>,
}

/// A program inside of a step, of which one run is reported.
///
/// ```
/// use glassgrad::{Tensor, scan};
/// let step = |sum: &Tensor, x: &Tensor| (sum + x.tanh(), ());
/// let (last, ()) = scan(step, &Tensor::from(0.0), &Tensor::from([1.0, 2.0, 3.0]));
/// let explanation = last.explain().unwrap();
/// let inside = &explanation.steps[0].inside[0];
/// assert_eq!((inside.what, inside.runs, inside.steps[0].what.as_str()), ("one step", 3, "loop: tanh, add"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Inside {
    /// What it does.
    pub what: &'static str,
    /// How often it runs.
    pub runs: usize,
    /// Its steps, in one run.
    pub steps: Vec<ExplainedStep>,
}

/// The steps of a program with their times. What has no line of its own inside of a step has those of the step.
pub(super) fn explained(
    program: &Program,
    times: &[Timed],
    limits: &Limits,
    origins: &[&'static Location<'static>],
    around: &[&'static Location<'static>],
) -> Vec<ExplainedStep> {
    let nothing = Timed::default();
    let mut sources = program.sources.clone();
    sources.indirect_sort();
    sources.dedup();
    let steps = program.steps.iter().enumerate().map(|(number, step)| {
        let timed = times.get(number).unwrap_or(&nothing);
        let (least, bound) = limits.least(step);
        let mut lines: Vec<&'static Location<'static>> = Vec::new();
        let from = sources.partition_point(|(step, _)| *step < number);
        let own = sources[from..].iter().take_while(|(step, _)| *step == number);
        for origin in own.filter_map(|(_, source)| origins.get(*source).copied()) {
            if !lines.iter().any(|line| (line.file(), line.line()) == (origin.file(), origin.line())) {
                lines.push(origin);
            }
        }
        if lines.is_empty() {
            lines.extend(around);
        }
        let inside = inner(step).into_iter().enumerate().map(|(place, (what, runs, program))| {
            let times = timed.inside.get(place).map_or(&[][..], Vec::as_slice);
            Inside { what, runs, steps: explained(program, times, limits, origins, &lines) }
        });
        let inside = inside.collect();
        ExplainedStep {
            kind: kind(step),
            what: words(step),
            origins: lines,
            flops: step.flops(),
            bytes: step.bytes(),
            least,
            bound,
            predicted: limits.predicted(step),
            measured: timed.seconds,
            work: work(step),
            placement: String::new(),
            inside,
        }
    });
    steps.collect()
}

/// The programs that a step runs, with a word for each and how often it runs.
fn inner(step: &Step) -> Vec<(&'static str, usize, &Program)> {
    match step {
        Step::Scan(repeat) => vec![("one step", repeat.length, &repeat.body)],
        Step::ReverseScan(sweep) => {
            let [forwards, back] = sweep.runs();
            vec![("one step forwards", forwards, &sweep.advance), ("one step back", back, &sweep.reverse)]
        }
        Step::Loop(_) | Step::Contract(_) | Step::Call(_) => Vec::new(),
    }
}

fn kind(step: &Step) -> Kind {
    match step {
        Step::Loop(_) => Kind::Loop,
        Step::Contract(_) => Kind::Product,
        Step::Call(_) => Kind::Call,
        Step::Scan(_) => Kind::Scan,
        Step::ReverseScan(_) => Kind::Sweep,
    }
}

fn work(step: &Step) -> f64 {
    match step {
        Step::Loop(fused) => {
            let elements: f64 = fused.extents.iter().map(|extent| *extent as f64).product();
            elements * (fused.loads.len() + fused.code.len() + fused.stores.len()) as f64
        }
        other @ (Step::Contract(_) | Step::Call(_) | Step::Scan(_) | Step::ReverseScan(_)) => other.flops(),
    }
}

/// A step in a few words.
fn words(step: &Step) -> String {
    match step {
        Step::Loop(fused) => loop_words(fused),
        Step::Contract(product) => product_words(product),
        Step::Call(call) => call.kind.describe(),
        Step::Scan(repeat) if repeat.reversed => format!("repeat {} times backwards", repeat.length),
        Step::Scan(repeat) => format!("repeat {} times", repeat.length),
        Step::ReverseScan(sweep) => {
            let schedule = &sweep.schedule;
            format!("sweep back over {} steps, {} kept", schedule.steps, schedule.snapshots)
        }
    }
}

fn sizes(extents: impl Iterator<Item = usize>) -> String {
    extents.map(|extent| extent.to_string()).collect::<Vec<_>>().join("×")
}

fn loop_words(fused: &Loop) -> String {
    match fused.extents.is_empty() {
        true => format!("loop: {}", operations(fused)),
        false => format!("loop {}: {}", sizes(fused.extents.iter().copied()), operations(fused)),
    }
}

/// What a loop does to each element.
fn operations(fused: &Loop) -> String {
    // Each operation once, in the order in which they come.
    let mut names: Vec<&str> = Vec::new();
    let code = fused.code.iter().filter_map(|(instruction, _)| name(instruction));
    let combined = fused.stores.iter().filter_map(|store| match store.reduction? {
        Reduction::Sum => Some("sum"),
        Reduction::Max => Some("max"),
    });
    for name in code.chain(combined) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len() > NAMED;
    names.truncate(NAMED);
    match (names.is_empty(), more) {
        (true, _) => "copy".to_owned(),
        (false, true) => names.join(", ") + ", …",
        (false, false) => names.join(", "),
    }
}

fn name(instruction: &Instruction) -> Option<&'static str> {
    match instruction {
        Instruction::Constant(_) => None,
        Instruction::Unary(operation, ..) | Instruction::Binary(operation, ..) => Some(operation.name()),
        Instruction::MaskedMul(..) => Some("mul"),
        Instruction::Compare(..) => Some("compare"),
        Instruction::Logic(..) => Some("logic"),
        Instruction::Select(..) => Some("choose"),
        Instruction::Cast(_) | Instruction::Narrow(..) => Some("cast"),
        Instruction::BroadcastRow(_) => None,
        Instruction::RowReduce(Reduction::Sum, ..) => Some("row sum"),
        Instruction::RowReduce(Reduction::Max, ..) => Some("row max"),
    }
}

/// Rows, inner axis and columns, behind them what there are several of.
fn product_words(product: &Contraction) -> String {
    let one = sizes([product.rows, product.inner, product.columns].map(|axis| axis.extent).into_iter());
    let several = |axes: &[ContractionAxis], word: &str| match axes {
        [] => String::new(),
        axes => format!(", {word} {}", sizes(axes.iter().map(|axis| axis.extent))),
    };
    let folded = if product.accumulates { ", folded" } else { "" };
    let epilogue =
        product.epilogue.as_ref().map_or_else(String::new, |epilogue| format!(", epilogue {}", operations(epilogue)));
    format!(
        "product {one}{}{}{folded}{epilogue}",
        several(&product.batch, "batch"),
        several(&product.sums, "summed over")
    )
}

impl ExplainedStep {
    /// The step as JSON, with the steps inside of it.
    ///
    /// ```
    /// let json = glassgrad::Tensor::from([1.0, 2.0, 3.0]).exp().explain().unwrap().steps[0].to_json();
    /// assert_eq!((&json["what"], &json["flops"]), (&"loop 3: exp".into(), &3.0.into()));
    /// ```
    pub fn to_json(&self) -> Value {
        let origin = |origin: &&Location<'_>| json!({ "file": origin.file(), "line": origin.line() });
        let inside = |inside: &Inside| {
            let steps: Vec<Value> = inside.steps.iter().map(ExplainedStep::to_json).collect();
            json!({ "what": inside.what, "runs": inside.runs, "steps": steps })
        };
        json!({
            "kind": format!("{:?}", self.kind).to_lowercase(),
            "what": self.what,
            "placement": self.placement,
            "origins": self.origins.iter().map(origin).collect::<Vec<_>>(),
            "flops": self.flops,
            "bytes": self.bytes,
            "bound": self.bound.word(),
            "least_seconds": self.least,
            "predicted_seconds": self.predicted,
            "measured_seconds": self.measured,
            "inside": self.inside.iter().map(inside).collect::<Vec<_>>(),
        })
    }
}

/// The file without its folders, and the line.
pub(super) fn line_of(origin: &Location<'_>) -> String {
    let file = origin.file().rsplit(['/', '\\']).next().unwrap_or_default();
    format!("{file}:{}", origin.line())
}
