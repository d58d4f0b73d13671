//! Pages of experiments that no one would choose: many classes, many features, hostile names, numbers that are none.

use glassgrad::data::{Labelled, Source, Targets};
use glassgrad::expr::Tensor;
use glassgrad::rng::Key;
use glassgrad::tree::Tree as _;

use super::page;
use crate::datasets;
use crate::history::{EpochRecord, History, Norms};
use crate::objective::{Evaluator, Measure, Score};
use crate::settings::{Loss, Model, Settings};
use crate::study::{Kept, Outcome, Study};
use crate::task::{Scaling, Task, View};

/// A name as an untrusted file may have it.
pub(super) fn hostile(number: usize) -> String {
    format!("</title></svg><script>alert({number})</script><img src=x onerror='y'>\"&{}", "long ".repeat(200))
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(hostile).collect()
}

/// Examples with classes that go round.
pub fn classes(examples: usize, features: usize, classes: usize) -> Labelled {
    let drawn = Tensor::uniform(Key::new(5), [examples, features]);
    let indices: Vec<i64> = (0..examples).map(|place| (place % classes) as i64).collect();
    Labelled { features: drawn, targets: Targets::Classes { indices: Tensor::from(indices), names: names(classes) } }
}

pub fn numbers(examples: usize, features: usize, columns: usize) -> Labelled {
    let drawn = |key: u64, columns: usize| Tensor::uniform(Key::new(key), [examples, columns]);
    Labelled {
        features: drawn(5, features),
        targets: Targets::Numbers { values: drawn(6, columns), names: names(columns) },
    }
}

pub fn study(examples: Labelled, view: View, change: impl FnOnce(&mut Settings)) -> Study {
    let fail = |failure: crate::failure::Failure| -> Study { panic!("{failure}") };
    let mut settings = datasets::suited("moons", None).unwrap_or_else(|failure| panic!("{failure}"));
    (settings.layers, settings.batch, settings.data) = (vec![4], 0, hostile(0));
    if matches!(examples.targets, Targets::Numbers { .. }) {
        settings.loss = Loss::Mse;
    }
    change(&mut settings);
    let feature_names = names(view.numbers());
    let source = Source { name: hostile(1), title: hostile(2), feature_names, examples, test: None };
    match Task::of(source, view, Scaling::Columns, &settings) {
        Ok(task) => Study::new(settings, task).unwrap_or_else(fail),
        Err(failure) => fail(failure),
    }
}

/// The outcome before the first step, with a history of this many epochs.
fn outcome(study: &Study, epochs: u64, number: f64) -> Outcome {
    let parameters: Vec<String> = study.start.leaves().iter().map(|(path, _)| path.to_string()).collect();
    let evaluated = |part| Evaluator::new(&study.objective, part).evaluate(&study.start).expect("a verdict").score;
    let score = Score { loss: number, measure: Measure::Accuracy(number) };
    let sizes = vec![Norms { gradient: number, number }; parameters.len()];
    let seen = |epoch| EpochRecord {
        epoch,
        loss: number,
        rate: number,
        test: Some(score),
        sizes: sizes.clone(),
        seconds: 0.1,
    };
    Outcome {
        network: study.start.clone(),
        history: History { parameters, epochs: (1..=epochs).map(seen).collect() },
        linear: None,
        training: evaluated(&study.task.training),
        test: evaluated(&study.task.test),
        steps: epochs,
        stopped: true,
        warnings: Vec::new(),
        kept: Kept::default(),
    }
}

/// Every tag that is opened is closed, in order; nothing of a hostile name has become a tag.
pub(super) fn is_sound(html: &str) {
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
    assert!(!html.contains("<script") && !html.contains("<img src=x"), "a name has become a tag");
    let mut open: Vec<&str> = Vec::new();
    // The stylesheet has its own signs.
    let (before, rest) = html.split_once("<style>").expect("a stylesheet");
    let after = rest.split_once("</style>").expect("its end").1;
    for tag in [before, after].into_iter().flat_map(|part| part.split('<').skip(1)) {
        let (inside, _) = tag.split_once('>').unwrap_or_else(|| panic!("<{tag} is never closed"));
        let name = inside.split([' ', '\n', '/']).next().unwrap_or_default();
        match inside {
            _ if inside.starts_with(['!', '?']) || ["meta", "link", "img"].contains(&name) || inside.ends_with('/') => {
            }
            _ if inside.starts_with('/') => assert_eq!(open.pop(), Some(&inside[1..]), "…{inside}"),
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?} are never closed");
    for places in html.split("points=\"").skip(1).chain(html.split(" d=\"").skip(1)) {
        let places = places.split('"').next().unwrap_or_default();
        assert!(!places.contains("NaN") && !places.contains("inf"), "{places}");
    }
}

fn rendered(study: &Study, outcome: &Outcome) -> String {
    let html = page(study, outcome).unwrap_or_else(|failure| panic!("{failure}"));
    is_sound(&html);
    html
}

#[test]
fn a_hundred_classes() {
    let study = study(classes(400, 2, 100), View::Row { numbers: 2 }, |_| {});
    let html = rendered(&study, &outcome(&study, 3, 0.5));
    assert!(html.contains("id=\"boundary\"") && html.contains("class=\"pixels\""));
    assert!(!html.contains("could not be rendered"));
}

#[test]
fn ten_thousand_features() {
    let study = study(classes(12, 10_000, 3), View::Row { numbers: 10_000 }, |_| {});
    let html = rendered(&study, &outcome(&study, 1, 0.5));
    assert!(html.contains("id=\"confidence\"") && !html.contains("could not be rendered"));
}

#[test]
fn one_example_of_each_part() {
    let study = study(numbers(2, 1, 1), View::Row { numbers: 1 }, |settings| settings.test = 0.5);
    let html = rendered(&study, &outcome(&study, 1, 0.5));
    assert!(html.contains("id=\"fitted\"") && !html.contains("could not be rendered"), "{html}");
}

#[test]
fn many_numbers_with_deviations() {
    for (features, id) in [(1, "fitted"), (3, "truth")] {
        let study =
            study(numbers(40, features, 6), View::Row { numbers: features }, |settings| settings.loss = Loss::Normal);
        let html = rendered(&study, &outcome(&study, 2, 0.5));
        assert!(html.contains(&format!("id=\"{id}\"")) && !html.contains("could not be rendered"));
    }
}

#[test]
fn large_images() {
    let view = View::Image { height: 28, width: 28 };
    let study = study(classes(300, 784, 10), view, |settings| settings.layers = vec![512, 128]);
    let html = rendered(&study, &outcome(&study, 10_000, 0.5));
    assert_eq!(html.matches("class=\"tile\"").count() + html.matches("class=\"tile wrong\"").count(), 60 + 64);
}

#[test]
fn every_kind_of_network() {
    for model in
        [Model::Mlp, Model::Sparse, Model::Cnn, Model::Rnn, Model::Lstm, Model::Gru, Model::Transformer, Model::Resnet]
    {
        let view = View::Image { height: 8, width: 8 };
        let study = study(classes(20, 64, 3), view, |settings| {
            settings.model = model;
            settings.layers = if model == Model::Cnn { vec![3, 4] } else { vec![8] };
        });
        let html = rendered(&study, &outcome(&study, 1, 0.5));
        assert!(!html.contains("could not be rendered"), "{model:?}");
        for id in ["graph", "update", "audit"] {
            assert!(html.contains(&format!("<section id=\"{id}\"")), "{model:?} has no {id}");
        }
    }
}

#[test]
fn a_text_is_gone_on_with() {
    let mut settings = datasets::suited("a.txt", Some(Model::Gru)).unwrap_or_else(|failure| panic!("{failure}"));
    (settings.layers, settings.context, settings.data) = (vec![4], 8, hostile(0));
    let task = Task::of_text(&hostile(1), &"<b>a & b</b>\n".repeat(60), &settings)
        .unwrap_or_else(|failure| panic!("{failure}"));
    let study = Study::new(settings, task).unwrap_or_else(|failure| panic!("{failure}"));
    let outcome = outcome(&study, 1, 0.5);
    let html = rendered(&study, &outcome);
    let kept = || outcome.sample(&study).ok().flatten().expect("what was written");
    assert!(std::ptr::eq(kept(), kept()), "it is written once");
    assert!(html.contains(&super::html::escaped(&kept().written)), "what is kept is what is shown");
    let sample =
        html.split("<pre id=\"sample\"><b>").nth(1).and_then(|rest| rest.split("</pre>").next()).expect("a text");
    assert!(sample.len() >= 600 && !html.contains("could not be rendered"), "{sample}");
}

#[test]
fn numbers_that_are_none() {
    let study = study(classes(30, 2, 2), View::Row { numbers: 2 }, |_| {});
    for number in [f64::NAN, f64::INFINITY, 0.0, 1e308] {
        let mut outcome = outcome(&study, 3, number);
        outcome.network = outcome.network.map(|leaf| leaf * number);
        rendered(&study, &outcome);
    }
    rendered(&study, &outcome(&study, 0, 0.5));
}
