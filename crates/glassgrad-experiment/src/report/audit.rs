//! Which parameters the loss reaches, and what cuts off the others.

use glassgrad::error::Error;
use glassgrad::glass::{Cut, Finding, Verdict};

use super::Subject;
use super::html::{Cell, escaped, name_of, note, table};
use crate::graph::audit;

const MOST_ROWS: usize = 100;

pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let report = audit(subject.study, &subject.outcome.network)?;
    let floats: Vec<&Finding> =
        report.findings.iter().filter(|finding| finding.verdict != Verdict::NotDifferentiable).collect();
    let reached = floats.iter().filter(|finding| finding.verdict == Verdict::Reached).count();
    let about = match reached == floats.len() {
        true => format!("The gradient of the loss reaches all {reached} parameters."),
        false => format!(
            "The gradient of the loss reaches {reached} of {} parameters; the others are not trained.",
            floats.len()
        ),
    };
    // What is out of reach comes first: it is what one looks for.
    let mut findings: Vec<&Finding> = report.findings.iter().collect();
    findings.sort_by_key(|finding| finding.verdict == Verdict::Reached);
    let row = |finding: &&Finding| {
        let class = if finding.verdict == Verdict::Reached { "reached" } else { "trouble" };
        let gradient = finding.gradient.as_ref().map(ToString::to_string).unwrap_or_default();
        let zeros = finding.gradient.as_ref().filter(|gradient| gradient.zeros > 0 && gradient.elements > 1);
        let zeros =
            zeros.map(|gradient| format!("; 0 in {} of {}", gradient.zeros, gradient.elements)).unwrap_or_default();
        let by = |cut: &Cut| format!("{} at {}:{}", cut.expression, cut.origin.file(), cut.origin.line());
        let cuts: Vec<String> = finding.verdict.cuts().iter().map(by).collect();
        vec![
            Cell::Path(finding.name.clone()),
            Cell::Path(finding.described.clone()),
            Cell::Html(class, escaped(finding.verdict.word())),
            Cell::Html("wide", name_of(&format!("{gradient}{zeros}"), 200)),
            Cell::Html("wide", name_of(&cuts.join("; "), 400)),
        ]
    };
    let rows: Vec<Vec<Cell>> = findings.iter().take(MOST_ROWS).map(row).collect();
    let more = match findings.len() > MOST_ROWS {
        true => note(&format!("The first {MOST_ROWS} of {} parameters are shown.", findings.len())),
        false => String::new(),
    };
    let has_cuts = findings.iter().any(|finding| !finding.verdict.cuts().is_empty());
    let headings = &["parameter", "type", "verdict", "gradient", "because of"][..if has_cuts { 5 } else { 4 }];
    let rows: Vec<Vec<Cell>> = rows.into_iter().map(|row| row.into_iter().take(headings.len()).collect()).collect();
    Ok(Some(note(&about) + &table("Gradient-path audit", headings, &rows) + &more))
}
