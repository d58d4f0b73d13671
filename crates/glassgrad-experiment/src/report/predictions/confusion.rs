//! Confusion matrix: which classes are taken for which.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use glassgrad::error::Error;

use crate::chart::{Bitmap, colour};
use crate::predictions::{Counts, confusions};
use crate::report::Subject;
use crate::report::html::{Cell, caption, name_of, note, scroll, table};
use crate::task::Kind;

/// More classes than this are shown as a picture and a list.
const MOST_IN_A_TABLE: usize = 20;
/// More than this only as a list.
const MOST_IN_A_PICTURE: usize = 400;
const MOST_IN_A_LIST: usize = 15;

pub(in crate::report) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let Kind::Classes { names } = &subject.study.task.about.kind else { return Ok(None) };
    let classes = subject.study.task.test.tensors().1.to_vec::<i64>()?;
    let counts = confusions(&classes, subject.outputs, names.len());
    let about = note("Rows are actual classes of the test set, columns predicted classes; the diagonal is correct.");
    Ok(Some(match names.len() {
        0..=MOST_IN_A_TABLE => format!("{about}{}", matrix(names, &counts)),
        classes if classes <= MOST_IN_A_PICTURE => {
            format!("{about}{}{}", heat_map(names, &counts), list(names, &counts))
        }
        _ => list(names, &counts),
    }))
}

/// The examples of each class.
fn sums(counts: &Counts) -> BTreeMap<usize, usize> {
    let mut sums = BTreeMap::new();
    for ((class, _), count) in counts {
        *sums.entry(*class).or_default() += count;
    }
    sums
}

/// The fraction of the examples of a class.
fn part_of(sums: &BTreeMap<usize, usize>, class: usize, count: usize) -> f64 {
    count as f64 / sums.get(&class).copied().unwrap_or(1).max(1) as f64
}

fn matrix(names: &[String], counts: &Counts) -> String {
    let sums = sums(counts);
    let mut text = "<table class=\"confusion\"><thead><tr><th scope=\"col\">actual \\ predicted</th>".to_owned();
    for name in names {
        let _ = write!(text, "<th scope=\"col\">{}</th>", name_of(name, 14));
    }
    text += "<th scope=\"col\">recall</th></tr></thead><tbody>\n";
    for (class, name) in names.iter().enumerate() {
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", name_of(name, 20));
        for predicted in 0..names.len() {
            let count = counts.get(&(class, predicted)).copied().unwrap_or(0);
            let part = part_of(&sums, class, count);
            let which = if class == predicted { "var(--c2)" } else { "var(--c5)" };
            // A single mistake among many is still to be seen.
            let strength = if count == 0 { 0.0 } else { 12.0 + 48.0 * part };
            let kind = if count == 0 { " class=\"zero\"" } else { "" };
            let _ = write!(
                text,
                "<td{kind} data-count=\"{count}\" style=\"background:color-mix(in srgb,{which} {strength:.0}%,transparent)\">{count}</td>"
            );
        }
        let right = counts.get(&(class, class)).copied().unwrap_or(0);
        let share = match sums.get(&class) {
            Some(_) => format!("{:.1} %", 100.0 * part_of(&sums, class, right)),
            None => "–".to_owned(),
        };
        let _ = writeln!(text, "<td>{share}</td></tr>");
    }
    scroll("", "Confusion matrix", &(text + "</tbody></table>"))
}

fn heat_map(names: &[String], counts: &Counts) -> String {
    let (sums, classes) = (sums(counts), names.len());
    let mut pixels = vec![[0; 4]; classes * classes];
    for ((class, predicted), count) in counts {
        let [red, green, blue] = colour::rgb(if class == predicted { 2 } else { 5 });
        let strength = 60.0 + 195.0 * part_of(&sums, *class, *count);
        pixels[class * classes + predicted] = [red, green, blue, strength.min(255.0) as u8];
    }
    let address = Bitmap::new(classes, pixels).address();
    format!(
        "<figure>{}<img class=\"pixels\" alt=\"Confusion matrix of {classes} classes\" src=\"{address}\"></figure>\n",
        caption(
            &format!("{classes} classes"),
            "correct predictions are green, errors red; the stronger, the more frequent"
        )
    )
}

fn list(names: &[String], counts: &Counts) -> String {
    let sums = sums(counts);
    let mut wrong: Vec<(&(usize, usize), &usize)> =
        counts.iter().filter(|((class, predicted), _)| class != predicted).collect();
    wrong.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let name = |class: usize| Cell::Text(names.get(class).cloned().unwrap_or_default());
    let row = |((class, predicted), count): &(&(usize, usize), &usize)| {
        let share = format!("{:.1} %", 100.0 * part_of(&sums, *class, **count));
        vec![name(*class), name(*predicted), Cell::Number(count.to_string()), Cell::Number(share)]
    };
    let rows: Vec<Vec<Cell>> = wrong.iter().take(MOST_IN_A_LIST).map(row).collect();
    match rows.is_empty() {
        true => note("No test example is misclassified."),
        false => format!(
            "<h3>Most frequent confusions</h3>\n{}",
            table("Most frequent confusions", &["actual", "predicted", "examples", "of its class"], &rows)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_of_classes_are_shown_and_names_stay_names() {
        for classes in [1, 2, 20, 100, 1000] {
            let names: Vec<String> = (0..classes).map(|k| format!("<b>{k}</b>{}", "x".repeat(300))).collect();
            let counts: Counts = [((0, 0), 3), ((0, classes - 1), 1)].into();
            for html in [
                matrix(&names[..names.len().min(20)], &counts),
                heat_map(&names[..names.len().min(400)], &[((0, 0), 3)].into()),
                list(&names, &counts),
            ] {
                assert!(!html.contains("<b>"), "{html}");
                assert!(html.len() < 1_500_000, "{}", html.len());
            }
        }
    }

    #[test]
    fn a_class_without_examples_has_no_part() {
        let html = matrix(&["a".into(), "b".into()], &[((0, 0), 2)].into());
        assert!(html.contains("<td>100.0 %</td>") && html.contains("<td>–</td>"), "{html}");
    }
}
