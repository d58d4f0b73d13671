//! Explanation of a program: passes, steps, time and memory.
//!
//! [`Tensor::explain`] and [`Compiled::explain`] plan a computation as it is planned when it runs, run it with a clock
//! around every step, and report: what each pass over the graph changed; the steps in a few words with the user's lines,
//! what they compute and move, how long they should take by the limits of this machine and how long they took; and what
//! lies in memory from when to when, as text and as a picture.
//!
//! - `limits` measures what this machine can do, and predicts from it;
//! - `steps` puts steps into words;
//! - `roofline` compares a step with the limits of the machine, and names the bottleneck;
//! - `arena` and `svg` draw the memory.

mod arena;
mod limits;
mod roofline;
mod steps;
mod svg;
mod text;

pub use arena::{Arena, ArenaValue};
pub use limits::{Bound, Limits};
pub use roofline::Reason;
pub use steps::{ExplainedStep, Inside, Kind};

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::array::Array;
use crate::compile::Compiled;
use crate::diff::Outcome;
use crate::error::Error;
use crate::exec::Input;
use crate::expr::Tensor;
use crate::opt::Capture;
use crate::opt::contract::metric;
use crate::opt::lower::lower;
use crate::opt::passes::{Report, optimised, unfused};
use crate::runtime;
use crate::sorting::IndirectSort;
use crate::tree::Tree;
use steps::{explained, line_of};
use text::{Edge, seconds, shortened, table};

/// A program is run for about this long to see how long its steps take, at least once.
const PATIENCE: Duration = Duration::from_millis(50);
/// The most steps that are shown; of longer programs the slowest are.
const SHOWN: usize = 60;

/// The explanation of a program, see [`Tensor::explain`].
///
/// ```
/// use glassgrad::{Tensor, grad};
/// let x = Tensor::new(&[0.5_f64; 600], [20, 30]);
/// let loss = |w: &Tensor| x.matmul(w).tanh().square().sum();
/// let explanation = grad(loss)(&Tensor::new(&[0.1_f64; 30], [30, 1])).explain().unwrap();
/// let text = explanation.to_string();
/// assert!(text.contains("loop 20×30: mul, row sum, tanh"), "{text}");
/// assert_eq!(explanation.passes.len(), 8);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// What each pass did to the graph.
    pub passes: Vec<Report>,
    /// The steps, in order.
    pub steps: Vec<ExplainedStep>,
    /// The memory between steps.
    pub arena: Arena,
    /// The limits of this machine, from which times are predicted.
    pub limits: Limits,
}

impl Tensor {
    /// Explains the program that computes this tensor and nothing else, and runs it a few times to see how long its
    /// steps take. Nothing is kept in the tensor.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let explanation = (x.matmul(&x) + 1.0).tanh().sum().explain().unwrap();
    /// assert_eq!(explanation.steps[1].what, "loop 4: add, tanh, sum");
    /// assert_eq!(explanation.flops(), 28.0);
    /// println!("{explanation}");
    /// ```
    #[track_caller]
    pub fn explain(&self) -> Result<Explanation, Error> {
        Tensor::explain_all(&[self])
    }

    /// The same for several tensors that are computed together.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0]).exp();
    /// let explanation = Tensor::explain_all(&[&x.sum(), &x.max()]).unwrap();
    /// assert_eq!(explanation.steps[0].what, "loop 2: exp, row sum, row max");
    /// ```
    #[track_caller]
    pub fn explain_all(tensors: &[&Tensor]) -> Result<Explanation, Error> {
        let extract = runtime::capture(tensors)?;
        let inputs = extract.known_leaves()?;
        Explanation::of(&extract, &inputs)
    }
}

impl<F, R: Tree> Compiled<F, R> {
    /// Explains the program for arguments of these shapes, and runs it a few times on these arguments to see how long
    /// its steps take.
    ///
    /// ```
    /// use glassgrad::{Tensor, compile, grad};
    /// let gradient = compile(grad(|x: &Tensor| x.powi(3).sum()));
    /// let explanation = gradient.explain(&Tensor::from([1.0, 2.0])).unwrap();
    /// assert_eq!(explanation.steps.len(), gradient.program(&Tensor::from([1.0, 2.0])).unwrap().steps.len());
    /// ```
    #[track_caller]
    pub fn explain<X: Tree, O: Outcome<Tree = R>>(&self, x: &X) -> Result<Explanation, Error>
    where
        F: Fn(&X) -> O,
    {
        let (extract, given) = self.extracted(x)?;
        let inputs: Vec<(&Array, usize)> = given.iter().map(|(array, start)| (array, *start)).collect();
        Explanation::of(&extract, &inputs)
    }
}

impl Explanation {
    fn of(extract: &Capture, inputs: &[(&Array, usize)]) -> Result<Explanation, Error> {
        // Planned anew, because a cached program does not record what the passes did. It is the same one.
        let target = runtime::Context::current().capabilities();
        let (graph, passes) = optimised(unfused(extract.graph(), target));
        let plan = runtime::prepare(lower(&graph, target))?;
        let mut inputs: Vec<Input<'_>> = inputs.iter().map(|(array, start)| Input::Read(array, *start)).collect();
        let times = plan.profile(&mut inputs, &extract.origins, PATIENCE)?;
        let program = plan.program();
        let limits = Limits::measured();
        let mut steps = explained(program, &times, limits, &extract.origins, &[]);
        for (number, step) in steps.iter_mut().enumerate() {
            step.placement = plan.placement(number).unwrap_or_default();
        }
        let arena = Arena::of(program, &steps);
        Ok(Explanation { passes, steps, arena, limits: limits.clone() })
    }

    /// Multiplications and additions of all steps.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let y = Tensor::from([1.0, 2.0]) * 3.0;
    /// assert_eq!(y.explain().unwrap().flops(), y.program().unwrap().flops());
    /// ```
    pub fn flops(&self) -> f64 {
        self.total(|step| step.flops)
    }

    /// Bytes that all steps read and write.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!((Tensor::from([1.0, 2.0]) * 3.0).explain().unwrap().bytes(), 40.0); // 3.0 is read too
    /// ```
    pub fn bytes(&self) -> f64 {
        self.total(|step| step.bytes)
    }

    /// The seconds that all steps should take.
    ///
    /// ```
    /// assert!(glassgrad::Tensor::from([1.0, 2.0]).exp().explain().unwrap().predicted() > 0.0);
    /// ```
    pub fn predicted(&self) -> f64 {
        self.total(|step| step.predicted)
    }

    /// The seconds that all steps took.
    ///
    /// ```
    /// assert!(glassgrad::Tensor::from([1.0, 2.0]).exp().explain().unwrap().measured() > 0.0);
    /// ```
    pub fn measured(&self) -> f64 {
        self.total(|step| step.measured)
    }

    /// The memory between steps as an SVG picture, see [`Arena::svg`].
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::new(&[0.5_f32; 100], [10, 10]);
    /// let svg = x.matmul(&x).matmul(&x.tanh()).explain().unwrap().arena_svg("two products");
    /// assert!(svg.contains(">two products</text>"));
    /// ```
    pub fn arena_svg(&self, title: &str) -> String {
        self.arena.svg(title)
    }

    /// Everything as JSON.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let json = Tensor::from([1.0, 2.0]).exp().explain().unwrap().to_json();
    /// assert_eq!((&json["steps"][0]["what"], &json["arena"]["bytes"]), (&"loop 2: exp".into(), &0.into()));
    /// ```
    pub fn to_json(&self) -> Value {
        let pass = |report: &Report| json!({ "pass": report.pass, "nodes": report.nodes, "flops": report.flops, "bytes": report.bytes });
        json!({
            "passes": self.passes.iter().map(pass).collect::<Vec<_>>(),
            "steps": self.steps.iter().map(ExplainedStep::to_json).collect::<Vec<_>>(),
            "arena": self.arena.to_json(),
            "limits": self.limits.to_json(),
        })
    }

    /// The sum over all steps; that of nothing is 0, and not -0 as sums of the standard library are.
    fn total(&self, of: impl Fn(&ExplainedStep) -> f64) -> f64 {
        self.steps.iter().fold(0.0, |sum, step| sum + of(step))
    }

    /// The numbers of the steps that are shown: all, or the slowest of many.
    fn shown(&self) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..self.steps.len()).collect();
        if numbers.len() > SHOWN {
            numbers.indirect_sort_by(|a, b| self.steps[*b].measured.total_cmp(&self.steps[*a].measured));
            numbers.truncate(SHOWN);
            numbers.sort_unstable();
        }
        numbers
    }
}

type Row = [String; 8];

/// The rows of a step and of the steps inside of it, which run `times` times.
fn rows(step: &ExplainedStep, number: &str, indent: usize, times: f64, total: f64, rows: &mut Vec<Row>) {
    let share = if total > 0.0 { 100.0 * times * step.measured / total } else { 0.0 };
    rows.push([
        number.to_owned(),
        format!("{}{}{}", " ".repeat(indent), shortened(&step.what, 52), placed(step)),
        metric(step.flops as u128, "FLOP"),
        metric(step.bytes as u128, "B"),
        seconds(step.predicted),
        seconds(step.measured),
        format!("{share:.1} %"),
        lines(step),
    ]);
    for inside in &step.inside {
        let mut head = Row::default();
        head[1] = format!("{}{}, {} times:", " ".repeat(indent + 2), inside.what, inside.runs);
        rows.push(head);
        for (place, step) in inside.steps.iter().enumerate() {
            self::rows(step, &format!("{number}.{place}"), indent + 4, times * inside.runs as f64, total, rows);
        }
    }
}

/// What runs a step, behind what it does.
fn placed(step: &ExplainedStep) -> String {
    if step.placement.is_empty() { String::new() } else { format!(" [{}]", step.placement) }
}

/// The user's lines of a step: the first few.
fn lines(step: &ExplainedStep) -> String {
    const NAMED: usize = 2;
    let mut lines: Vec<String> = step.origins.iter().take(NAMED).map(|origin| line_of(origin)).collect();
    if let Some(more) = step.origins.len().checked_sub(NAMED).filter(|more| *more > 0) {
        lines.push(format!("+{more}"));
    }
    lines.join(" ")
}

/// The passes, the steps and the memory, as tables.
impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Edge::{Left, Right};
        let heads = ["pass", "nodes", "", "FLOP", "", "bytes", ""].map(str::to_owned);
        let pass = |report: &Report| {
            let [flops, bytes] = [(report.flops, "FLOP"), (report.bytes, "B")]
                .map(|(amounts, unit)| amounts.map(|amount| metric(amount as u128, unit)));
            let after = |text: &str| format!("→ {text}");
            [
                report.pass.to_owned(),
                report.nodes[0].to_string(),
                after(&report.nodes[1].to_string()),
                flops[0].clone(),
                after(&flops[1]),
                bytes[0].clone(),
                after(&bytes[1]),
            ]
        };
        let passes: Vec<[String; 7]> = std::iter::once(heads).chain(self.passes.iter().map(pass)).collect();
        write!(formatter, "{}", table([Left, Right, Left, Right, Left, Right, Left], &passes))?;

        let (shown, total) = (self.shown(), self.measured());
        let heads = ["step", "", "FLOP", "bytes", "predicted", "measured", "share", "lines"].map(str::to_owned);
        let mut all = vec![heads];
        for number in &shown {
            rows(&self.steps[*number], &number.to_string(), 0, 1.0, total, &mut all);
        }
        let left_out = self.steps.len() - shown.len();
        if left_out > 0 {
            let seen: f64 = shown.iter().map(|number| self.steps[*number].measured).sum();
            let mut row = Row::default();
            row[1] = format!("and {left_out} steps that took less time");
            row[5] = seconds((total - seen).max(0.0));
            row[6] = format!("{:.1} %", if total > 0.0 { 100.0 * (1.0 - seen / total) } else { 0.0 });
            all.push(row);
        }
        all.push([
            String::new(),
            "in all".to_owned(),
            metric(self.flops() as u128, "FLOP"),
            metric(self.bytes() as u128, "B"),
            seconds(self.predicted()),
            seconds(total),
            String::new(),
            String::new(),
        ]);
        write!(formatter, "\n{}", table([Right, Left, Right, Right, Right, Right, Right, Left], &all))?;

        let Arena { bytes, unshared, highest, highest_at, values, .. } = &self.arena;
        let [bytes, unshared, highest] = [bytes, unshared, highest].map(|bytes| metric(*bytes as u128, "B"));
        if values.is_empty() {
            return writeln!(formatter, "\n  memory between steps: none");
        }
        let most = format!("at most {highest} in use at once, in step {highest_at}");
        writeln!(formatter, "\n  memory between steps: {bytes}; {unshared} without sharing; {most}\n")?;
        write!(formatter, "{}", self.arena.text())
    }
}
