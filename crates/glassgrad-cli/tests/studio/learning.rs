//! The pages on which networks learn, in a real Chromium.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::devtools::Browser;
use crate::page::{CONTRAST, is_quiet, open, text, visited};
use crate::pictures::{picture, whole_page};
use crate::server::Studio;

/// The form is filled, and nothing is left to come.
const READY: &str = "document.getElementById('set-lr')?.value.length > 0";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned()
}

/// Chooses a value as a person does, so that the page hears of it.
fn choose(browser: &mut Browser, id: &str, value: &str) {
    let script = format!(
        "(() => {{ const own = document.getElementById({}); own.value = {}; own.dispatchEvent(new Event('change', {{ bubbles: true }})); return own.value; }})()",
        json!(id),
        json!(value)
    );
    assert_eq!(browser.evaluate(&script), value, "{id}");
}

fn click(browser: &mut Browser, selector: &str) {
    browser.evaluate(&format!("document.querySelector({}).click()", json!(selector)));
}

fn run_of(browser: &mut Browser) -> u64 {
    let number = browser.evaluate("Number(new URLSearchParams(location.hash.split('?')[1]).get('run'))");
    number.as_u64().filter(|number| *number > 0).expect("the address names the run")
}

fn sent(studio: &Studio, run: u64) -> Value {
    studio.request("GET", &format!("/api/runs/{run}"), &[], "").json()
}

fn steps(browser: &mut Browser) -> u64 {
    text(browser, "#state-step").parse().expect("a number")
}

#[test]
fn a_network_learns_while_it_is_watched() {
    let Some((studio, mut browser)) = visited("learning") else { return };
    let browser = &mut browser;
    open(browser, &studio, "#/train", 1280, "light");
    browser.until(READY);
    choose(browser, "train-speed", "50");
    // From here on by keys alone: space starts, pauses and goes on, a point makes one step.
    browser.press(" ");
    browser.until("Number(document.getElementById('state-step').textContent) > 3");
    browser.press(" ");
    browser.until("document.getElementById('state-phase').textContent === 'paused'");
    let paused = steps(browser);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(steps(browser), paused, "what is paused stands still");
    browser.press(".");
    browser.until(&format!("document.getElementById('state-step').textContent === '{}'", paused + 1));
    browser.until("document.getElementById('state-phase').textContent === 'paused'");
    let places = "JSON.stringify(['train-loss', 'view-boundary', 'view-confusion', 'view-weights'].map(id => document.getElementById(id).getBoundingClientRect().top))";
    browser.until(
        "document.getElementById('view-histograms') !== null && document.getElementById('view-weights') !== null",
    );
    let before = browser.evaluate(places);
    // Another learning rate, while it waits.
    choose(browser, "train-rate", "0.02");
    browser.until("document.getElementById('state-rate').textContent === '0.02'");
    choose(browser, "train-rate", "0.01");
    browser.until("document.getElementById('state-rate').textContent === '0.01'");
    choose(browser, "train-speed", "");
    browser.press(" ");
    browser.until("document.getElementById('state-phase').textContent === 'finished'");
    assert_eq!(browser.evaluate(places), before, "nothing jumps while data streams");

    // What the page shows is what the library says.
    let run = run_of(browser);
    let latest = sent(&studio, run);
    assert_eq!(text(browser, "#state-test"), latest["state"]["test"]["shown"].as_str().expect("a text"));
    assert!(latest["state"]["test"]["number"].as_f64() >= Some(0.99), "{}", latest["state"]);
    let right = latest["confusion"]["data"]["right"].as_u64().expect("a count");
    assert_eq!(text(browser, "#view-confusion caption"), format!("{right} of 500 correct"));
    assert_eq!(browser.evaluate("document.querySelectorAll('#view-boundary circle').length"), 1000);
    // The boundary is seen: the two corners that belong to different moons have different colours.
    let corners = browser.evaluate(
        "(() => { const canvas = document.querySelector('#view-boundary canvas'); const colour = (x, y) => [...canvas.getContext('2d').getImageData(x, y, 1, 1).data]; return [colour(2, 2), colour(canvas.width - 3, canvas.height - 3)]; })()",
    );
    assert_ne!(corners[0], corners[1], "{corners}");
    click(browser, "#surface-compute");
    browser.until("document.querySelector('#train-surface .way') !== null");
    picture(browser, "studio-train", 1300);

    // A weight, by a click on its picture: its last update is the one of the library.
    browser.evaluate("document.querySelector('#view-weights canvas.matrix').dispatchEvent(new MouseEvent('click', { clientX: document.querySelector('#view-weights canvas.matrix').getBoundingClientRect().left + 2, clientY: document.querySelector('#view-weights canvas.matrix').getBoundingClientRect().top + 2 }))");
    browser.until("document.querySelector('#inside .chain .last b') !== null");
    let question = json!({ "at": "weight", "path": "layers.0.weight", "place": [0, 0] });
    let weight = studio.ask(&format!("/api/runs/{run}/inspect"), &question);
    assert_eq!(text(browser, "#inside .chain .last b"), weight["shown"]["after"].as_str().expect("a text"));
    assert_eq!(text(browser, "#inside .chain .first b"), weight["shown"]["gradient"].as_str().expect("a text"));
    // The tabs, by keys.
    browser.evaluate("document.getElementById('inside-weight').focus()");
    for (name, arrived) in [
        (
            "sample",
            "document.querySelector('#inside table') !== null && document.querySelector('#inside .bars') !== null",
        ),
        ("graph", "document.querySelectorAll('#inside .node').length > 3"),
        (
            "passes",
            "document.querySelectorAll('#inside tbody tr').length > 3 && document.querySelector('#inside details') !== null",
        ),
        ("audit", "document.querySelector('#inside .verdict.right') !== null"),
    ] {
        browser.press("ArrowRight");
        assert_eq!(browser.evaluate("document.activeElement.id"), format!("inside-{name}"));
        browser.until(arrived);
        if name == "graph" {
            browser.evaluate("document.getElementById('inside').scrollIntoView()");
            picture(browser, "studio-inside", 800);
        }
    }
    // The same address shows the same run.
    let hash = browser.evaluate("location.hash");
    open(browser, &studio, hash.as_str().expect("a hash"), 1280, "dark");
    browser.until("document.getElementById('state-phase').textContent === 'finished' && document.querySelector('#view-boundary canvas') !== null");
    is_quiet(browser);
}

#[test]
fn errors_are_reported() {
    let Some((studio, mut browser)) = visited("wrong") else { return };
    let browser = &mut browser;
    open(browser, &studio, "#/train?data=function&layers=8,0", 1280, "light");
    browser.until(READY);
    click(browser, "#train-start");
    browser.until("document.getElementById('train-problem').textContent.includes('0 wide')");
    choose(browser, "set-layers", "8");
    choose(browser, "set-optimizer", "sgd");
    choose(browser, "set-lr", "1e30");
    browser.until("document.getElementById('train-problem').textContent === ''");
    click(browser, "#train-start");
    // Where it began opens by itself.
    browser.until("!document.getElementById('train-trouble').hidden && document.getElementById('train-trouble').offsetParent !== null");
    assert!(text(browser, "#train-trouble-text").contains("the loss is"));
    assert_eq!(text(browser, "#state-phase"), "failed");
    // A deleted run is reported, and can be started again.
    open(browser, &studio, "#/train?data=moons&run=99", 1280, "light");
    browser.until("document.getElementById('train-problem').textContent.includes('Run 99 was deleted')");
    is_quiet(browser);
}

#[test]
fn models_are_kept_exported_loaded_and_compared() {
    let Some((studio, mut browser)) = visited("models") else { return };
    let browser = &mut browser;
    open(browser, &studio, "#/train?data=iris&epochs=30", 1280, "light");
    browser.until(READY);
    choose(browser, "train-speed", "");
    click(browser, "#train-start");
    browser.until("document.getElementById('state-phase').textContent === 'finished'");
    let first = run_of(browser);
    browser.until(&format!("document.querySelector('#train-runs a[href=\"/api/runs/{first}/model\"]') !== null"));
    let path = folder().join(format!("exported-{}.safetensors", std::process::id()));
    std::fs::write(&path, studio.bytes(&format!("/api/runs/{first}/model"))).expect("a file");
    // The file is chosen as a person does.
    let root = browser.call("DOM.getDocument", json!({}))["root"]["nodeId"].clone();
    let input =
        browser.call("DOM.querySelector", json!({ "nodeId": root, "selector": "#train-load" }))["nodeId"].clone();
    browser.call("DOM.setFileInputFiles", json!({ "nodeId": input, "files": [path] }));
    browser.until(&format!("Number(new URLSearchParams(location.hash.split('?')[1]).get('run')) > {first}"));
    browser.until("document.getElementById('state-phase').textContent === 'paused'");
    let second = run_of(browser);
    let [weights, loaded] = [first, second].map(|run| sent(&studio, run)["weights"]["data"].clone());
    assert_eq!(weights, loaded, "the network is the one that left");
    // Keep the first, and draw its curves beside those of the second.
    browser.until("document.querySelectorAll('#train-runs > li').length === 2");
    let button = |row: usize, name: &str| {
        format!(
            "[...document.querySelectorAll('#train-runs > li')[{row}].querySelectorAll('button')].find(own => own.textContent === '{name}')"
        )
    };
    browser.evaluate(&format!("{}.click()", button(0, "Pin")));
    browser.until(&format!("{} !== undefined", button(0, "Pinned")));
    assert_eq!(studio.request("GET", "/api/runs", &[], "").json()["runs"][0]["pinned"], true);
    browser.press(".");
    browser.until("document.getElementById('state-step').textContent === '1'");
    browser.evaluate(&format!("{}.click()", button(0, "Compare")));
    browser.until("document.querySelectorAll('#train-loss path.line').length === 3");
    // And back to it.
    browser.evaluate(&format!("{}.click()", button(0, "Open")));
    browser.until("document.getElementById('state-phase').textContent === 'finished'");
    assert_eq!(run_of(browser), first);
    browser.evaluate(&format!("{}.click()", button(1, "Delete")));
    browser.until("document.querySelectorAll('#train-runs > li').length === 1");
    is_quiet(browser);
}

#[test]
fn a_digit_is_drawn_and_predicted() {
    let Some((studio, mut browser)) = visited("drawing") else { return };
    let browser = &mut browser;
    open(browser, &studio, "#/draw", 1280, "light");
    browser.until("document.getElementById('draw-state').textContent.startsWith('finished')");
    // An empty canvas has no prediction.
    browser.until("document.getElementById('draw-predicted').textContent === '–'");
    assert_eq!(browser.evaluate("document.querySelectorAll('#draw-shares li').length"), 0);
    let run = run_of(browser);
    assert!(sent(&studio, run)["state"]["test"]["number"].as_f64() > Some(0.95));
    // A one, with a pointer.
    let place = browser.evaluate("(() => { const box = document.getElementById('draw-pad').getBoundingClientRect(); return [box.left, box.top, box.width]; })()");
    let [left, top, width] = [0, 1, 2].map(|k| place[k].as_f64().expect("a number"));
    let mouse = |browser: &mut Browser, kind: &str, x: f64, y: f64| {
        let event = json!({ "type": kind, "x": left + x * width, "y": top + y * width, "button": "left", "buttons": 1, "clickCount": 1 });
        browser.call("Input.dispatchMouseEvent", event);
    };
    mouse(browser, "mousePressed", 0.5, 0.12);
    for part in 1..=20 {
        mouse(browser, "mouseMoved", 0.5, 0.12 + 0.76 * f64::from(part) / 20.0);
    }
    mouse(browser, "mouseReleased", 0.5, 0.88);
    browser.until("document.getElementById('draw-predicted').textContent === '1'");
    assert_eq!(browser.evaluate("document.querySelectorAll('#draw-shares li').length"), 10);
    // The same drawing, asked by a script: the page has computed nothing of its own.
    let ink = browser.evaluate("(() => { const pad = document.getElementById('draw-pad'); const data = pad.getContext('2d').getImageData(0, 0, 112, 112).data; return Array.from({ length: 112 * 112 }, (_, k) => data[4 * k + 3]); })()");
    let drawn =
        studio.ask(&format!("/api/runs/{run}/inspect"), &json!({ "at": "drawn", "ink": ink, "from": [112, 112] }));
    let predicted = drawn["predicted"].as_u64().expect("a class") as usize;
    assert_eq!(drawn["names"][predicted], "1");
    let share = format!("{:.1} %", 100.0 * drawn["shares"][predicted].as_f64().expect("a share"));
    browser.until(&format!("document.querySelector('#draw-shares .predicted b').textContent === '{share}'"));
    picture(browser, "studio-draw", 760);
    // The gradient of another class is another.
    let gradients = "document.querySelector('#draw-gradient canvas').toDataURL()";
    let before = browser.evaluate(gradients);
    choose(browser, "draw-class", "8");
    browser.until(&format!(
        "{gradients} !== {before} && document.getElementById('draw-about').textContent.includes('“8”')"
    ));
    // With keys alone: clear, and a stroke downwards.
    browser.evaluate("document.getElementById('draw-pad').focus()");
    browser.press("Backspace");
    browser.until("document.getElementById('draw-predicted').textContent === '–'");
    browser.press(" ");
    for _ in 0..10 {
        browser.press("ArrowDown");
    }
    browser.press(" ");
    browser.until("document.getElementById('draw-predicted').textContent === '1'");
    assert_eq!(browser.evaluate("document.querySelectorAll('#draw-shares li').length"), 10);
    // The link has the drawing.
    let pixels = "(() => { const data = document.getElementById('draw-pad').getContext('2d').getImageData(0, 0, 112, 112).data; let sum = 0; for (let k = 3; k < data.length; k += 4) sum += data[k]; return sum; })()";
    let before = browser.evaluate(pixels).as_f64().expect("a number");
    let hash = browser.evaluate("location.hash");
    open(browser, &studio, hash.as_str().expect("a hash"), 1280, "light");
    browser.until("document.getElementById('draw-predicted').textContent === '1'");
    let after = browser.evaluate(pixels).as_f64().expect("a number");
    assert!((after / before - 1.0).abs() < 0.05, "{before} {after}");
    is_quiet(browser);
}

#[test]
fn the_pages_of_learning_fit_and_can_be_read() {
    let Some((studio, mut browser)) = visited("fits") else { return };
    let browser = &mut browser;
    let begin = |question: Value| studio.ask("/api/runs", &question)["id"].as_u64().expect("a run");
    let moons = begin(json!({ "data": "moons", "options": { "epochs": 10 } }));
    let digits = begin(json!({ "data": "digits", "options": { "epochs": 3 } }));
    let pages = [
        (
            format!("#/train?run={moons}"),
            "document.querySelector('#view-histograms') !== null && document.querySelector('#train-loss svg') !== null",
        ),
        (
            format!("#/train?run={digits}"),
            "document.querySelectorAll('#view-images .digit').length === 20 && document.querySelector('#view-confusion') !== null",
        ),
        (format!("#/draw?run={digits}"), "document.querySelector('#draw-input canvas') !== null"),
    ];
    for (hash, condition) in &pages {
        for (width, scheme) in [(1280, "light"), (1280, "dark"), (768, "light"), (390, "light"), (360, "dark")] {
            open(browser, &studio, hash, width, scheme);
            browser.until(condition);
            let wide = browser.evaluate("document.documentElement.scrollWidth");
            assert_eq!(wide, width, "{hash} is {wide} wide in a window of {width}");
            whole_page(browser, hash, width, scheme);
            let worst = browser.evaluate(CONTRAST);
            assert!(worst[0].as_f64() >= Some(4.5), "{hash} at {width}, {scheme}: contrast {worst}");
            let twice = "[...document.querySelectorAll('[id]')].map(own => own.id).filter((id, place, all) => all.indexOf(id) !== place)";
            assert_eq!(browser.evaluate(twice), json!([]), "{hash}: names of elements that occur twice");
            is_quiet(browser);
        }
    }
}

#[test]
fn the_decision_boundary_is_above_the_fold_and_the_network_is_drawn() {
    let Some((studio, mut browser)) = visited("fold") else { return };
    let browser = &mut browser;
    let asked = json!({ "data": "moons", "options": { "epochs": 10, "layers": [4, 12] } });
    let run = studio.ask("/api/runs", &asked)["id"].as_u64().expect("a run");
    open(browser, &studio, &format!("#/train?run={run}"), 1280, "light");
    browser.until("document.querySelector('#view-diagram .unit') !== null && document.querySelector('#view-boundary canvas') !== null");
    browser.until("document.getElementById('state-phase').textContent === 'finished'");
    let bottom = browser.evaluate("document.querySelector('#view-boundary canvas').getBoundingClientRect().bottom");
    assert!(bottom.as_f64().is_some_and(|bottom| bottom <= 800.0), "the boundary ends at {bottom}");
    // Two inputs, four units, eight of twelve, two outputs.
    assert_eq!(browser.evaluate("document.querySelectorAll('#view-diagram canvas.unit').length"), 14);
    assert_eq!(browser.evaluate("document.querySelectorAll('#view-diagram .edge-of-unit').length"), 8 + 32 + 16);
    assert!(text(browser, "#view-diagram svg").contains("layer 2: 8 of 12"));
    // An edge is its weight: the inspection shows the same number.
    browser.evaluate("document.querySelector('#view-diagram .edge-of-unit').dispatchEvent(new MouseEvent('click', { bubbles: true }))");
    browser.until("document.querySelector('#inside-body .chain') !== null");
    is_quiet(browser);
}

#[test]
fn an_own_function_is_fitted() {
    let Some((studio, mut browser)) = visited("function") else { return };
    let browser = &mut browser;
    open(browser, &studio, "#/train?data=function&epochs=5", 1280, "light");
    browser.until(READY);
    choose(browser, "set-function", "sin(3*x)");
    browser.until("location.hash.includes('sin')");
    click(browser, "#train-start");
    browser.until("document.getElementById('train-title').textContent.includes('y = sin(3*x)')");
    browser.until("document.getElementById('train-command').textContent.includes(\"--function 'sin(3*x)'\")");
    is_quiet(browser);
    choose(browser, "set-function", "sin(3*");
    browser.until("document.getElementById('train-problem').textContent.includes('an expression in x')");
}

#[test]
fn data_is_shown_before_the_start_and_points_are_edited() {
    let Some((studio, mut browser)) = visited("preview") else { return };
    let browser = &mut browser;
    open(browser, &studio, "#/train?data=moons&points=40&epochs=3", 1280, "light");
    let points = "document.querySelectorAll('#train-preview .point').length";
    browser.until(&format!("{points} === 40"));
    whole_page(browser, "preview", 1280, "light");
    // A click adds a point of the chosen class.
    browser.evaluate("document.querySelectorAll('#train-preview input[type=radio]')[1].click()");
    let place = browser.evaluate("(() => { const box = document.querySelector('#train-preview .board').getBoundingClientRect(); return [box.left + 12, box.top + 12]; })()");
    let mouse = |browser: &mut Browser, kind: &str, by: f64| {
        let [x, y] = [0, 1].map(|axis| place[axis].as_f64().expect("a number") + by);
        let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
        browser.call("Input.dispatchMouseEvent", event);
    };
    mouse(browser, "mousePressed", 0.0);
    mouse(browser, "mouseReleased", 0.0);
    browser.until(&format!("{points} === 41 && document.getElementById('train-task').value === 'csv'"));
    let last = "document.querySelector('#train-preview .point:last-child')";
    assert_eq!(browser.evaluate(&format!("{last}.classList.contains('k1')")), true);
    // Dragging moves it, as do the arrow keys, and Delete removes it.
    let before = browser.evaluate(&format!("{last}.getAttribute('cx')"));
    mouse(browser, "mousePressed", 0.0);
    mouse(browser, "mouseMoved", 60.0);
    mouse(browser, "mouseReleased", 60.0);
    browser.until(&format!("{last}.getAttribute('cx') !== {before}"));
    let dragged = browser.evaluate(&format!("{last}.getAttribute('cx')"));
    browser.press("ArrowRight");
    browser.until(&format!("{last}.getAttribute('cx') !== {dragged}"));
    // The link has the points, in another window too.
    browser.until("document.getElementById('set-target').value === 'class' && location.hash.includes('table=')");
    let hash = browser.evaluate("location.hash");
    open(browser, &studio, hash.as_str().expect("a hash"), 1280, "light");
    browser.until(&format!("{points} === 41 && document.getElementById('train-task').value === 'csv'"));
    browser.until(&format!("location.hash === {hash}"));
    // The run learns these points.
    browser.until("document.getElementById('set-target').value === 'class'");
    click(browser, "#train-start");
    browser.until("document.getElementById('train-facts').textContent.includes('example')");
    let count = "document.getElementById('train-facts').textContent.match(/(\\d+) training examples?, (\\d+) test/).slice(1).map(Number).reduce((a, b) => a + b)";
    assert_eq!(browser.evaluate(count), 41);
    browser.until("document.querySelector('#view-boundary canvas') !== null");
    is_quiet(browser);
}
