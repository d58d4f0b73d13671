//! The static site in a real Chromium, from a plain file server on this machine.
//!
//! The site is built by `tools/site target/site`, or is the folder that `GLASSGRAD_SITE` names. Without it the tests say that they
//! are skipped; with `GLASSGRAD_SITE=required` they fail.

#[path = "../../../glassgrad-cli/tests/browser/devtools.rs"]
mod devtools;
#[path = "../../../glassgrad-cli/tests/studio/pictures.rs"]
mod pictures;
mod server;

use std::cell::RefCell;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use devtools::{Browser, chromium};
use glassgrad_experiment::datasets;
use glassgrad_experiment::sources::Embedded;
use glassgrad_experiment::study::{RunOptions, Study};
use pictures::whole_page;
use serde_json::{Value, json};
use server::Files;

/// The folder of the site, or `None` after a message that the test is skipped.
fn site() -> Option<PathBuf> {
    let given = std::env::var("GLASSGRAD_SITE").unwrap_or_default();
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/site");
    let folder = if given.is_empty() || given == "required" { usual } else { given.as_str().into() };
    if folder.join("sw.js").is_file() {
        return Some(folder);
    }
    assert!(given.is_empty(), "there is no site in {}: build it by tools/site", folder.display());
    let _ = writeln!(std::io::stderr(), "SKIPPED: there is no site in {}: build it by tools/site", folder.display());
    None
}

/// The site, served, and a browser that has never seen it.
fn visited(name: &str) -> Option<(Files, Browser)> {
    let (folder, program) = (site()?, chromium()?);
    let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("site-{name}-{}", std::process::id()));
    Some((Files::serve(&folder), Browser::start(&program, &profile)))
}

fn open(browser: &mut Browser, files: &Files, hash: &str, width: u32, scheme: &str) {
    // From another place, so that the page is loaded and not only its hash changed.
    browser.visit("about:blank", width, scheme);
    let own = files.address();
    let visit = browser.visit(&format!("{own}{hash}"), width, scheme);
    assert!(visit.complaints.is_empty(), "{:#?}", visit.complaints);
    assert!(visit.requests.iter().all(|url| url.starts_with(&own)), "asked elsewhere: {:?}", visit.requests);
}

fn is_quiet(browser: &mut Browser) {
    browser.evaluate("1");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

fn text(browser: &mut Browser, selector: &str) -> String {
    let found = browser.evaluate(&format!("document.querySelector({})?.textContent ?? null", json!(selector)));
    found.as_str().unwrap_or_else(|| panic!("there is no {selector}")).to_owned()
}

/// The value and the gradient of the expression are shown.
const ANSWERED: &str = "document.querySelector('[data-result=value]')?.textContent === '11.6521'";

#[test]
fn the_first_screen_of_a_cold_load() {
    let Some((files, mut browser)) = visited("cold") else { return };
    let began = Instant::now();
    open(&mut browser, &files, "", 1280, "light");
    browser.until(ANSWERED);
    let took = began.elapsed();
    is_quiet(&mut browser);
    // A figure to record, not an assertion: the machine may be busy.
    println!("cold load to the first answer: {:.2} s, {:.2} MB", took.as_secs_f64(), files.bytes() as f64 / 1e6);
    assert_eq!(text(&mut browser, "[data-result=x1]"), "5.5");
}

#[test]
fn every_page_works_in_both_themes_and_widths() {
    let Some((files, mut browser)) = visited("pages") else { return };
    let pages = [
        ("", "document.querySelectorAll('#ways tbody tr').length > 0"),
        ("#/matrix", "document.getElementById('matrix-work').getAttribute('aria-busy') === 'false'"),
        ("#/train", "document.getElementById('set-lr')?.value.length > 0"),
        ("#/paths", "document.querySelectorAll('#paths-plane .line').length === 9"),
        ("#/compare", "document.querySelectorAll('#compare-data option').length > 3"),
        ("#/draw", "document.querySelector('#draw-input canvas') !== null"),
        ("#/tour", "document.querySelectorAll('#tour-list li').length === 10"),
        ("#/gallery", "document.querySelectorAll('#gallery .example').length > 16"),
        ("#/glossary", "document.querySelectorAll('#glossary dt').length > 30"),
    ];
    for (hash, condition) in pages {
        for (width, scheme) in [(1280, "light"), (390, "dark")] {
            open(&mut browser, &files, hash, width, scheme);
            browser.until(condition);
            let wide = browser.evaluate("document.documentElement.scrollWidth");
            assert_eq!(wide, width, "{hash} is {wide} wide in a window of {width}");
            whole_page(&mut browser, &format!("site{hash}"), width, scheme);
            is_quiet(&mut browser);
        }
    }
}

/// Begins a run in the page, at full speed, and waits for its end; the final state is that of the worker.
fn trained(browser: &mut Browser, files: &Files, hash: &str) -> Value {
    open(browser, files, hash, 1280, "light");
    browser.until("document.getElementById('set-lr')?.value.length > 0");
    browser.evaluate(
        "(() => { const own = document.getElementById('train-speed'); own.value = ''; own.dispatchEvent(new Event('change')); \
         document.getElementById('train-start').click(); })()",
    );
    browser.until("document.getElementById('state-phase').textContent === 'finished'");
    browser.evaluate(
        "import('./js/api.js').then(async ({ get }) => { const { runs } = await get('/api/runs'); window.state = runs.at(-1).state; })",
    );
    browser.until("window.state !== undefined");
    browser.evaluate("window.state")
}

#[test]
fn moons_are_learnt_to_99_percent() {
    let Some((files, mut browser)) = visited("moons") else { return };
    let state = trained(&mut browser, &files, "#/train?data=moons");
    assert!(state["test"]["number"].as_f64() >= Some(0.99), "{state}");
    assert!(text(&mut browser, "#state-test").contains('%'));
    browser.until("document.querySelector('#view-boundary canvas') !== null");
    whole_page(&mut browser, "site-moons", 1280, "light");
    is_quiet(&mut browser);
}

/// The final loss and metric of the command line, which is single-threaded and multi-threaded alike.
fn by_the_program(data: &str, epochs: u64) -> (f64, f64) {
    let mut settings = datasets::suited(data, None).unwrap_or_else(|failure| panic!("{failure}"));
    settings.epochs = epochs;
    let task = datasets::load(&settings, &Embedded).unwrap_or_else(|failure| panic!("{failure}"));
    let study = Study::new(settings, task).unwrap_or_else(|failure| panic!("{failure}"));
    let Ok(outcome) = study.run(RunOptions::default(), &RefCell::default(), &mut ()) else { panic!("it trains") };
    (outcome.test.loss, outcome.test.measure.number())
}

/// Programs of WebAssembly round multiply-adds twice, those of this machine once: `docs/webassembly.md` states these bounds.
#[test]
fn results_are_those_of_the_command_line() {
    let Some((files, mut browser)) = visited("results") else { return };
    for (data, epochs, bound) in
        [("iris", 100, 1e-12), ("moons", 20, 1e-4), ("function", 20, 1e-4), ("digits", 3, 1e-4)]
    {
        let (loss, metric) = by_the_program(data, epochs);
        let state = trained(&mut browser, &files, &format!("#/train?data={data}&epochs={epochs}"));
        let number = |field: &str| state["test"][field].as_f64().expect("a number");
        let [of_loss, of_metric] = [(number("loss"), loss), (number("number"), metric)]
            .map(|(own, expected)| (own - expected).abs() / expected.abs().max(1e-12));
        println!(
            "{data}: loss {} and {loss}, relative difference {of_loss:.1e}; metric {of_metric:.1e}",
            number("loss")
        );
        assert!(of_loss <= bound, "{data}: {state} and {loss}");
        // An example near the boundary may change sides.
        assert!(of_metric <= 0.005, "{data}: {state} and {metric}");
        is_quiet(&mut browser);
    }
}

/// The site has a subset of MNIST if it was built with one (`tools/site OUT --mnist DIR`).
#[test]
fn images_of_mnist_are_trained_on_and_drawn() {
    let Some((files, mut browser)) = visited("mnist") else { return };
    if !site().is_some_and(|folder| folder.join("mnist.gzip").is_file()) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: the site has no images: build it by tools/site OUT --mnist DIR");
        return;
    }
    open(&mut browser, &files, "#/train", 1280, "light");
    browser.until("[...document.querySelectorAll('option')].some(option => option.value === 'mnist')");
    let state = trained(&mut browser, &files, "#/train?data=mnist&epochs=4");
    assert!(state["test"]["number"].as_f64() >= Some(0.85), "{state}");
    whole_page(&mut browser, "site-mnist", 1280, "light");
    is_quiet(&mut browser);
}

#[test]
fn a_digit_is_drawn_with_keys() {
    let Some((files, mut browser)) = visited("draw") else { return };
    open(&mut browser, &files, "#/draw", 1280, "light");
    browser.until("document.getElementById('draw-state').textContent.startsWith('finished')");
    browser.evaluate("document.getElementById('draw-pad').focus()");
    browser.press(" ");
    for _ in 0..10 {
        browser.press("ArrowDown");
    }
    browser.press(" ");
    browser.until("document.getElementById('draw-predicted').textContent === '1'");
    assert_eq!(browser.evaluate("document.querySelectorAll('#draw-shares li').length"), 10);
    whole_page(&mut browser, "site-draw", 1280, "light");
    is_quiet(&mut browser);
}

#[test]
fn it_works_offline_after_the_first_load() {
    let Some((files, mut browser)) = visited("offline") else { return };
    open(&mut browser, &files, "", 1280, "light");
    browser.until(ANSWERED);
    browser.evaluate("navigator.serviceWorker.ready.then(() => { window.isCached = true; })");
    browser.until("window.isCached === true && navigator.serviceWorker.controller !== null");
    let own = files.address();
    drop(files);
    std::thread::sleep(Duration::from_millis(100));
    browser.visit("about:blank", 1280, "light");
    browser.visit(&format!("{own}#/matrix"), 1280, "light");
    browser.until("document.getElementById('matrix-work').getAttribute('aria-busy') === 'false'");
    assert!(text(&mut browser, "#matrix-work").contains("Einstein"));
}

/// Every page of the book, at the widths of a desktop and of a phone; figures are the studio itself.
#[test]
fn the_book_is_readable_and_its_figures_are_live() {
    let Some((files, mut browser)) = visited("book") else { return };
    open(&mut browser, &files, "book/introduction.html", 1280, "light");
    let chapters =
        browser.evaluate("[...document.querySelectorAll('.beside .contents a')].map(own => own.getAttribute('href'))");
    let chapters: Vec<String> = serde_json::from_value(chapters).expect("a list of chapters");
    assert!(chapters.len() > 30, "{chapters:?}");
    let is_live = "[...document.querySelectorAll('.live iframe')].every(own => { const page = own.contentDocument; \
                   return page && ['.node', '[data-notation] math', '#paths-plane .line', '#draw-input canvas', '#train-preview canvas', '#train-preview svg'].some(one => page.querySelector(one)) || page?.querySelector('#set-lr')?.value.length > 0; })";
    let mut figures = 0;
    for (place, chapter) in chapters.iter().enumerate() {
        // All at the width of a desktop, some in the other theme on a phone.
        let screens = [(1280, "light"), (390, "dark")];
        for (width, scheme) in &screens[..1 + usize::from(place % 4 == 0)] {
            open(&mut browser, &files, &format!("book/{chapter}"), *width, scheme);
            let wide = browser.evaluate("document.documentElement.scrollWidth");
            assert_eq!(wide, *width, "{chapter} is {wide} wide in a window of {width}");
            let count =
                browser.evaluate("document.querySelectorAll('.live iframe').length").as_u64().expect("a number");
            if count > 0 && *width == 1280 {
                figures += count;
                browser
                    .evaluate("document.querySelectorAll('.live iframe').forEach(own => { own.loading = 'eager'; })");
                browser.until(is_live);
                let problems = "[...document.querySelectorAll('.live iframe')].flatMap(own => [...own.contentDocument.querySelectorAll('.problem')]).map(own => own.textContent).join('')";
                assert_eq!(browser.evaluate(problems), "", "{chapter}");
                let framed = "[...document.querySelectorAll('.live iframe')].every(own => own.contentDocument.querySelector('.bar').offsetParent === null)";
                assert_eq!(browser.evaluate(framed), true, "{chapter}: a figure has no header");
            }
            if place % 4 == 0 {
                whole_page(&mut browser, &format!("book{chapter}"), *width, scheme);
            }
            is_quiet(&mut browser);
        }
    }
    assert!(figures >= 15, "{figures} figures");
    // Chapters are turned with links.
    open(&mut browser, &files, "book/introduction.html", 390, "light");
    let next = browser.evaluate("document.querySelector('a[rel=next]').getAttribute('href')");
    assert_eq!(next, "installation.html");
}

#[test]
fn files_of_a_run_can_be_saved() {
    let Some((files, mut browser)) = visited("files") else { return };
    trained(&mut browser, &files, "#/train?data=iris&epochs=3");
    for (what, beginning) in [("history", "epoch,"), ("report", "<!DOCTYPE html>")] {
        let script = format!(
            "window.saved = undefined; import('./js/host.js').then(async ({{ request }}) => {{ const own = await request('/api/runs/1/{what}'); \
             window.saved = [own.headers.get('x-file'), (await own.text()).slice(0, 15)]; }})"
        );
        browser.evaluate(&script);
        browser.until("window.saved !== undefined");
        let saved = browser.evaluate("window.saved");
        assert!(saved[0].as_str().is_some_and(|name| name.starts_with("iris-mlp.")), "{saved}");
        assert!(saved[1].as_str().is_some_and(|text| text.starts_with(beginning)), "{saved}");
    }
    is_quiet(&mut browser);
}
