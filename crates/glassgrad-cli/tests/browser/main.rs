//! The pages of experiments in a real Chromium: what they show, and that they ask for nothing and complain of nothing.
//!
//! `tools/chromium` finds the browser. Where there is none the tests are skipped, visibly; with GLASSGRAD_BROWSER=required,
//! as in continuous integration, one is installed, and its absence is a failure.

mod devtools;

use std::path::{Path, PathBuf};
use std::process::Command;

use devtools::{Browser, chromium};
use serde_json::{Value, json};

/// An experiment that was run, with its page.
struct Experiment {
    folder: PathBuf,
    result: Value,
}

impl Experiment {
    fn run(name: &str, arguments: &[&str]) -> Experiment {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        let output = Command::new(env!("CARGO_BIN_EXE_glassgrad"))
            .arg("train")
            .args(arguments)
            .args(["--json", "--out"])
            .arg(&folder)
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Experiment { folder, result: serde_json::from_slice(&output.stdout).expect("one JSON object") }
    }

    fn page(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The address of a file.
fn address(file: &Path) -> String {
    format!("file://{}", file.display())
}

/// Opens a page wide and narrow, by day and by night: it is quiet, asks for nothing, and never has to be moved sideways.
fn is_well_behaved(browser: &mut Browser, page: &Path) {
    let size = std::fs::metadata(page).expect("a page").len();
    assert!(size < 3_000_000, "{} has {size} bytes", page.display());
    for (width, scheme) in [(390, "dark"), (360, "light"), (1280, "light")] {
        let visit = browser.visit(&address(page), width, scheme);
        assert!(visit.complaints.is_empty(), "{} at {width}: {:#?}", page.display(), visit.complaints);
        assert!(visit.requests.is_empty(), "{} asks for {:?}", page.display(), visit.requests);
        let wide = browser.evaluate("document.documentElement.scrollWidth");
        assert_eq!(wide, width, "{} is {wide} wide in a window of {width}", page.display());
        let paper = browser.evaluate("getComputedStyle(document.body).backgroundColor");
        assert_eq!(paper == "rgb(15, 20, 27)", scheme == "dark", "{scheme}: {paper}");
        let unseen = "[...document.images].filter(image => !(image.complete && image.naturalWidth > 0)).length";
        assert_eq!(browser.evaluate(unseen), 0, "pictures of {} are broken", page.display());
        let spoiled = "/NaN|Infinity|undefined/.test(document.querySelector('main').outerHTML)";
        assert_eq!(browser.evaluate(spoiled), false, "{}", page.display());
    }
    // Letters are large enough on a telephone: those beside an axis are drawn at least nine pixels high.
    browser.visit(&address(page), 390, "light");
    let small = "Math.min(...[...document.querySelectorAll('svg.chart .tick')].map(letter => letter.getBoundingClientRect().height))";
    let smallest = browser.evaluate(small).as_f64().unwrap_or(f64::INFINITY);
    assert!(smallest >= 9.0, "{}: letters of {smallest} pixels", page.display());
}

/// How many points each curve of a section has, by its name.
fn points(browser: &mut Browser, section: &str) -> Value {
    browser.evaluate(&format!(
        "[...document.querySelectorAll('#{section} polyline')].map(line => [line.dataset.name, line.points.numberOfItems])"
    ))
}

fn texts(browser: &mut Browser, selector: &str) -> Vec<String> {
    let list = browser.evaluate(&format!("[...document.querySelectorAll('{selector}')].map(one => one.textContent)"));
    list.as_array().expect("a list").iter().map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
}

/// The numbers of the table of confusions.
fn confusions(browser: &mut Browser) -> Vec<Vec<f64>> {
    let rows = "[...document.querySelectorAll('.confusion tbody tr')].map(row => [...row.querySelectorAll('td[data-count]')].map(cell => +cell.textContent))";
    serde_json::from_value(browser.evaluate(rows)).expect("rows of numbers")
}

/// The accuracy that a table of confusions tells.
fn accuracy(counts: &[Vec<f64>]) -> f64 {
    let right: f64 = counts.iter().enumerate().map(|(class, row)| row[class]).sum();
    right / counts.iter().flatten().sum::<f64>()
}

fn sections(browser: &mut Browser) -> Vec<String> {
    let list = browser.evaluate("[...document.querySelectorAll('main > section')].map(section => section.id)");
    serde_json::from_value(list).expect("a list of names")
}

#[test]
fn pages_show_what_was_learnt() {
    let Some(program) = chromium() else { return };
    let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-profile-{}", std::process::id()));
    let browser = &mut Browser::start(&program, &profile);
    of_a_bad_one(browser);
    of_points(browser);
    of_images(browser);
    of_flowers(browser);
    of_a_function(browser);
    of_nothing(browser);
    of_optimizers(browser);
}

/// A page that does what a report must not is found out, or the checks of the others would mean nothing.
fn of_a_bad_one(browser: &mut Browser) {
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser-bad.html");
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:\">";
    let image = "<img src=\"elsewhere.png\">";
    for (html, complains, asks) in [
        // Violations of the content security policy are reported too.
        (format!("<!DOCTYPE html>{policy}{image}"), true, true),
        (format!("<!DOCTYPE html>{image}"), true, true),
        ("<!DOCTYPE html><script>console.log('hello')</script>".to_owned(), true, false),
        ("<!DOCTYPE html><script>throw 1</script>".to_owned(), true, false),
        ("<!DOCTYPE html><p>quiet</p>".to_owned(), false, false),
    ] {
        std::fs::write(&page, &html).expect("a file is written");
        let visit = browser.visit(&address(&page), 390, "light");
        assert_eq!(!visit.complaints.is_empty(), complains, "{html}: {:?}", visit.complaints);
        assert_eq!(!visit.requests.is_empty(), asks, "{html}: {:?}", visit.requests);
    }
    let wide = "<!DOCTYPE html><meta name=viewport content='width=device-width'><div style='width:900px'>wide</div>";
    std::fs::write(&page, wide).expect("a file is written");
    browser.visit(&address(&page), 390, "light");
    assert!(browser.evaluate("document.documentElement.scrollWidth").as_u64() >= Some(900));
}

fn of_points(browser: &mut Browser) {
    let moons = Experiment::run("moons", &["moons", "--epochs", "9", "--noise", "0.3", "--points", "300"]);
    let page = moons.page("report.html");
    is_well_behaved(browser, &page);
    assert_eq!(points(browser, "curves"), json!([["training", 9], ["test", 9], ["test", 9]]));
    assert_eq!(browser.evaluate("document.querySelectorAll('#boundary image.heat').length"), 1);
    let drawn = "[...document.querySelectorAll('#boundary path[data-count]')].filter(path => !path.classList.contains('cross')).map(path => (path.getAttribute('d').match(/M/g) || []).length).reduce((a, b) => a + b)";
    assert_eq!(browser.evaluate(drawn), 300, "every example is a dot");
    let accuracy_told = moons.result["test_accuracy"].as_f64().expect("a number");
    let counts = confusions(browser);
    assert_eq!(counts.iter().flatten().sum::<f64>(), 150.0);
    assert_eq!(accuracy(&counts), accuracy_told);
    assert!(texts(browser, ".verdict strong")[0].starts_with(&format!("{:.2}", 100.0 * accuracy_told)));
    let wanted = ["curves", "predictions", "confusions", "weights", "graph", "update", "audit", "reproduce"];
    assert_eq!(sections(browser), wanted);
    // The chain of one weight ends where the weight that is taken from it says.
    assert_eq!(texts(browser, ".chain li span").first().map(String::as_str), Some("gradient"));
    assert!(browser.evaluate("document.querySelectorAll('#graph .graph rect.box').length").as_u64() > Some(3));
    assert_eq!(browser.evaluate("document.querySelectorAll('#audit .reached').length"), 6);
    // The command that the page shows makes the same experiment.
    let command = texts(browser, "#command").remove(0);
    let again: Vec<&str> = command.split(' ').skip(2).collect();
    let again = Experiment::run("moons-again", &again);
    assert_eq!(again.result["settings"], moons.result["settings"]);
    assert_eq!(again.result["losses"], moons.result["losses"]);
    let settings: Value = serde_json::from_str(&texts(browser, "#settings")[0]).expect("settings are JSON");
    assert_eq!(settings, moons.result["settings"]);
}

fn of_images(browser: &mut Browser) {
    for (name, model, tiles) in [("mlp", "mlp", 12), ("cnn", "cnn", 4)] {
        let layers = if model == "mlp" { "12" } else { "4,4,8" };
        let digits = Experiment::run(name, &["digits", "--model", model, "--layers", layers, "--epochs", "2"]);
        is_well_behaved(browser, &digits.page("report.html"));
        assert_eq!(points(browser, "curves")[0], json!(["training", 2]));
        assert_eq!(accuracy(&confusions(browser)), digits.result["test_accuracy"].as_f64().expect("a number"));
        assert_eq!(browser.evaluate("document.querySelectorAll('#units img').length"), tiles, "{model}");
        let wrong = "[...document.querySelectorAll('#images .tile')].map(tile => tile.classList.contains('wrong'))";
        let wrong: Vec<bool> = serde_json::from_value(browser.evaluate(wrong)).expect("a list");
        assert_eq!(wrong.len(), 60);
        assert!(wrong.is_sorted_by(|a, b| a >= b), "wrong ones come first: {wrong:?}");
    }
}

fn of_flowers(browser: &mut Browser) {
    let iris = Experiment::run("iris", &["iris", "--epochs", "12"]);
    is_well_behaved(browser, &iris.page("report.html"));
    // A summed loss and the mean of the test set have charts of their own.
    assert_eq!(points(browser, "curves"), json!([["training", 12], ["test", 12], ["test", 12]]));
    assert_eq!(accuracy(&confusions(browser)), iris.result["test_accuracy"].as_f64().expect("a number"));
    assert!(browser.evaluate("document.querySelectorAll('#confidence svg.chart').length") == 2);
}

fn of_a_function(browser: &mut Browser) {
    let function = Experiment::run(
        "function",
        &["function", "--loss", "normal", "--epochs", "5", "--points", "80", "--schedule", "cosine", "--clip", "1"],
    );
    is_well_behaved(browser, &function.page("report.html"));
    assert_eq!(points(browser, "curves"), json!([["training", 5], ["test", 5], ["test", 5], ["rate", 5]]));
    assert_eq!(browser.evaluate("document.querySelectorAll('#fitted polygon.band').length"), 1);
    assert_eq!(points(browser, "fitted"), json!([["prediction", 300]]));
    assert_eq!(browser.evaluate("document.querySelector('#confusions')"), Value::Null);
    assert!(texts(browser, ".chain li span").contains(&"clip by norm".to_owned()));
}

fn of_nothing(browser: &mut Browser) {
    let none = Experiment::run("none", &["moons", "--epochs", "0", "--points", "20"]);
    is_well_behaved(browser, &none.page("report.html"));
    assert_eq!(points(browser, "curves"), json!([]));
    let one = Experiment::run("one", &["moons", "--epochs", "1", "--points", "4", "--test", "0.25"]);
    is_well_behaved(browser, &one.page("report.html"));
    assert_eq!(browser.evaluate("document.querySelectorAll('#curves circle.point').length"), 3);
}

fn of_optimizers(browser: &mut Browser) {
    let compared =
        Experiment::run("compared", &["moons", "--epochs", "6", "--points", "200", "--compare", "sgd,momentum,adam"]);
    is_well_behaved(browser, &compared.page("comparison.html"));
    let three = ["sgd", "momentum", "adam"].map(|name| json!([name, 6]));
    assert_eq!(points(browser, "curves"), Value::from(vec![three; 3].concat()));
    assert_eq!(browser.evaluate("document.querySelectorAll('#results tbody tr').length"), 3);
}
