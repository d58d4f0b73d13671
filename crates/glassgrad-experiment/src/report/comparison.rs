//! Several experiments on the same data, side by side.

use super::Contestant;
use super::curves::{Named, chart, curve};
use super::head::{duration, optimizer};
use super::html::{Cell, Section, document, escaped, note, opening, table};
use crate::chart::number;
use crate::history::EpochRecord;
use crate::objective::{Measure, Score};
use crate::task::Description;

pub(super) fn page(about: &Description, contestants: &[Contestant]) -> String {
    let best = best(contestants);
    let verdict = match best.map(|place| &contestants[place]) {
        Some(Contestant { name, test: Some(score), .. }) => {
            let (name, measure) = (escaped(name), escaped(&score.measure.to_string()));
            format!("<strong>{name}</strong> did best of {}: {measure}", contestants.len())
        }
        _ => "Every run diverged.".to_owned(),
    };
    let head = opening("comparison of optimizers", about, &verdict);
    let sections = [
        Section { id: "curves", title: "Learning curves", body: curves(contestants) },
        Section { id: "results", title: "Results", body: results(contestants, best) },
    ];
    document(&format!("{}: comparison of optimizers", about.name), &head, &sections)
}

/// The place of the one that does best on the test set.
fn best(contestants: &[Contestant]) -> Option<usize> {
    let scored = contestants.iter().enumerate().filter_map(|(place, one)| Some((place, one.test?)));
    scored
        .filter(|(_, score)| !score.measure.number().is_nan())
        .fold(None, |best: Option<(usize, Score)>, (place, score)| match best {
            Some((_, other)) if !score.measure.is_better_than(other.measure) => best,
            _ => Some((place, score)),
        })
        .map(|(place, _)| place)
}

fn curves(contestants: &[Contestant]) -> String {
    if contestants.iter().all(|one| one.history.epochs.is_empty()) {
        return note("No epoch was run.");
    }
    let of = |what: fn(&EpochRecord) -> Option<f64>| -> Vec<Named<'_>> {
        contestants.iter().map(|one| (one.name.as_str(), curve(&one.history, what))).collect()
    };
    let measure = contestants.iter().find_map(|one| one.test).map(|score| score.measure);
    let (title, name) = match measure {
        Some(Measure::Accuracy(_)) => ("Test accuracy", "accuracy"),
        Some(Measure::Error { .. }) => ("Test RMSE", "RMSE"),
        Some(Measure::Bits(_)) => ("Bits per character of held-out text", "bits"),
        None => ("Test metric", "measure"),
    };
    let charts = [
        chart("Training loss", "after each epoch", "loss", &of(|seen| Some(seen.loss))),
        chart("Test loss", "after each epoch", "loss", &of(|seen| Some(seen.test?.loss))),
        chart(title, "after each epoch", name, &of(|seen| Some(seen.test?.measure.number()))),
    ];
    format!("<div class=\"charts\">\n{}</div>", charts.concat())
}

fn results(contestants: &[Contestant], best: Option<usize>) -> String {
    let row = |(place, one): (usize, &Contestant)| {
        let name = escaped(&one.name);
        let loss = one.history.epochs.last().map_or("–".to_owned(), |seen| number(seen.loss));
        let metric = one.test.map_or_else(|| "–".to_owned(), |score| score.measure.to_string());
        vec![
            Cell::Html("", if best == Some(place) { format!("<b>{name}</b> · best") } else { name }),
            Cell::Text(optimizer(&one.settings)),
            Cell::Number(loss),
            Cell::Number(metric),
            Cell::Number(duration(one.history.seconds())),
        ]
    };
    let rows: Vec<Vec<Cell>> = contestants.iter().enumerate().map(row).collect();
    let mut html = table("Results", &["optimizer", "settings", "last loss", "test", "time"], &rows);
    for one in contestants {
        if let Some(trouble) = &one.trouble {
            html += &format!("<h3>{}</h3>\n<pre class=\"trouble\">{}</pre>\n", escaped(&one.name), escaped(trouble));
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::report::tests;
    use crate::task::View;

    #[test]
    fn failures_and_hostile_names_make_a_page() {
        let study = tests::study(tests::classes(20, 2, 2), View::Row { numbers: 2 }, |_| {});
        let about = &study.task.about;
        let contestant = |name: &str, part: f64, trouble: Option<&str>| Contestant {
            name: name.to_owned(),
            settings: study.settings.clone(),
            history: History::default(),
            test: Some(Score { loss: f64::NAN, measure: Measure::Accuracy(part) }),
            trouble: trouble.map(str::to_owned),
        };
        let three =
            [contestant("a", f64::NAN, Some("<i>no</i>")), contestant("b", 0.5, None), contestant("c", 0.9, None)];
        let page = page(about, &three);
        assert_eq!(best(&three), Some(2));
        assert!(!page.contains("<script") && !page.contains("<i>no") && page.contains("<strong>c</strong>"));
        assert!(page.len() < 100_000);
        assert!(super::page(about, &[]).contains("Every run diverged"));
    }
}
