//! Every view of every kind of experiment; what the tests of views share.

use glassgrad::clock::Instant;

use glassgrad::expr::Tensor;
use glassgrad::tree::Tree as _;
use serde_json::Value;

use super::VIEWS;
use crate::experiment::datasets;
use crate::experiment::network::Network;
use crate::experiment::settings::{Model, Settings};
use crate::experiment::sources::Embedded;
use crate::experiment::study::Study;
use crate::experiment::task::Task;
use crate::failure::Failure;

fn fail<T>(failure: Failure) -> T {
    panic!("{failure}")
}

/// An experiment on data with a name.
pub(crate) fn suited(data: &str, change: impl FnOnce(&mut Settings)) -> Study {
    let mut settings = datasets::suited(data, None).unwrap_or_else(fail);
    change(&mut settings);
    let task = datasets::load(&settings, &Embedded).unwrap_or_else(fail);
    Study::new(settings, task).unwrap_or_else(fail)
}

/// An experiment on a text.
pub(crate) fn of_text(change: impl FnOnce(&mut Settings)) -> Study {
    let mut settings = datasets::suited("a.txt", Some(Model::Gru)).unwrap_or_else(fail);
    (settings.layers, settings.context) = (vec![4], 8);
    change(&mut settings);
    let task = Task::of_text("text", &"a & b, and so on\n".repeat(60), &settings).unwrap_or_else(fail);
    Study::new(settings, task).unwrap_or_else(fail)
}

/// The network with every weight not a number.
pub(crate) fn spoiled(network: &Network) -> Network {
    let spoiled = network.map(|leaf| if leaf.is_float() { leaf * f64::NAN } else { leaf.clone() });
    spoiled.realise().expect("weights")
}

/// The network with one number moved a little.
pub(crate) fn moved(network: &Network, path: &str, place: usize, by: f64) -> Network {
    let leaves = network.leaves().into_iter().map(|(own, leaf)| {
        if own.to_string() != path {
            return leaf;
        }
        let mut numbers = leaf.to_f64_vec().expect("numbers");
        numbers[place] += by;
        Tensor::new(&numbers, leaf.shape().clone()).cast(leaf.dtype())
    });
    network.with_leaves(leaves.collect())
}

/// The fixed part of a view, and its evaluation on a network.
pub(crate) fn live_and_fixed(name: &str, study: &Study, network: &Network) -> (Value, Value) {
    let view = VIEWS.iter().find(|view| view.name == name).expect("the view");
    let mut live_view = (view.make)(study).expect("a view").expect("that fits");
    let fixed = live_view.fixed().expect("what stays the same");
    (fixed, live_view.evaluate(network).expect("what a network shows"))
}

fn names(study: &Study) -> Vec<&'static str> {
    let fits = |view: &&super::View| (view.make)(study).expect("a view").is_some();
    VIEWS.iter().filter(fits).map(|view| view.name).collect()
}

#[test]
fn views_fit_what_is_learnt() {
    assert_eq!(names(&suited("moons", |_| {})), ["boundary", "diagram", "confusion", "weights", "histograms"]);
    assert_eq!(names(&suited("function", |_| {})), ["diagram", "fitted", "errors", "weights", "histograms"]);
    assert_eq!(names(&suited("digits", |_| {})), ["images", "confusion", "weights", "histograms"]);
    assert_eq!(names(&suited("iris", |_| {})), ["diagram", "confusion", "weights", "histograms"]);
    assert_eq!(names(&of_text(|_| {})), ["weights", "histograms"]);
}

#[test]
fn answers_are_small_and_quick() {
    for study in [suited("moons", |_| {}), suited("digits", |_| {}), of_text(|_| {})] {
        for view in VIEWS {
            let Some(mut live_view) = (view.make)(&study).expect("a view") else { continue };
            live_view.evaluate(&study.start).expect("the first evaluation");
            let begin = Instant::now();
            let live = live_view.evaluate(&study.start).expect("an evaluation").to_string();
            println!("{} {}: {} bytes, {:?}", study.task.about.name, view.name, live.len(), begin.elapsed());
            assert!(live.len() < 100_000, "{}: {} bytes", view.name, live.len());
            let fixed = live_view.fixed().expect("what stays the same").to_string();
            assert!(fixed.len() < 100_000, "{}: {} bytes", view.name, fixed.len());
        }
    }
}

#[test]
fn a_network_of_one_layer_and_one_weight_has_views() {
    let study = suited("function", |settings| settings.layers = Vec::new());
    for name in names(&study) {
        live_and_fixed(name, &study, &study.start);
        live_and_fixed(name, &study, &spoiled(&study.start));
    }
}
