//! Runs and optimizers side by side, graphs that are zoomed, formulas without math fonts, names for screen readers, and the lengths of pages, in
//! a real Chromium.

use serde_json::{Value, json};

use crate::devtools::Browser;
use crate::page::{CONTRAST, is_quiet, open, text, visited};
use crate::pictures::whole_page;

/// The widths of a desktop, a tablet and a phone, each in a theme.
const SCREENS: [(u32, &str); 4] = [(1280, "light"), (1280, "dark"), (768, "light"), (390, "dark")];

fn set(browser: &mut Browser, id: &str, value: &str, event: &str) {
    browser.evaluate(&format!(
        "(() => {{ const own = document.getElementById('{id}'); own.value = {}; own.dispatchEvent(new Event('{event}', {{ bubbles: true }})); }})()",
        json!(value)
    ));
}

#[test]
fn runs_are_compared_smoothed_and_exported() {
    let Some((studio, mut browser)) = visited("compare") else { return };
    let browser = &mut browser;
    for optimizer in ["sgd", "adam"] {
        let asked = json!({ "data": "moons", "options": { "epochs": 10, "optimizer": optimizer } });
        studio.ask("/api/runs", &asked)["id"].as_u64().expect("a run");
    }
    open(browser, &studio, "#/compare?smoothing=0", 1280, "light");
    browser.until("[...document.querySelectorAll('#compare-runs .note')].filter(own => own.textContent.includes('finished')).length === 2");
    // A run is named by what distinguishes it.
    let names = text(browser, "#compare-training .legend");
    assert!(
        names.starts_with("1: ") && names.contains("sgd") && names.contains("2: ") && names.contains("adam"),
        "{names}"
    );
    assert_eq!(browser.evaluate("document.querySelectorAll('#compare-training .line').length"), 2);
    let path = "document.querySelector('#compare-training .line:last-of-type').getAttribute('d')";
    let raw = browser.evaluate(path);
    // Smoothing adds the raw curves, pale, and is what the library computes.
    set(browser, "compare-smoothing", "0.9", "input");
    browser.until("document.querySelectorAll('#compare-training .line.pale').length === 2");
    assert_ne!(browser.evaluate(path), raw);
    assert!(browser.evaluate("location.hash").as_str().is_some_and(|hash| hash.contains("smoothing=0.9")));
    let curves = studio.ask("/api/curves", &json!({ "smoothing": 0.9, "runs": [2] }));
    let (value, smooth) = (&curves["runs"][0]["training"]["value"], &curves["runs"][0]["training"]["smooth"]);
    assert_eq!(value[0], smooth[0]);
    let expected =
        (0.9 * value[0].as_f64().expect("a number") * 0.1 + 0.1 * value[1].as_f64().expect("a number")) / 0.19;
    assert!((smooth[1].as_f64().expect("a number") - expected).abs() < 1e-4 * expected, "{}", smooth[1]);
    assert!(
        curves["csv"]
            .as_str()
            .is_some_and(|csv| csv.starts_with("run,name,curve,step,value,smoothed\n2,") && csv.contains(",accuracy,"))
    );
    // A logarithmic axis of steps has powers in equal distances.
    browser.evaluate("document.getElementById('compare-log-across').click()");
    browser.until("[...document.querySelectorAll('#compare-training .tick')].some(own => own.textContent === '100')");
    // One run is hidden, and the link says so.
    browser.evaluate("document.getElementById('compare-on-1').click()");
    assert_eq!(browser.evaluate("document.querySelectorAll('#compare-training .line').length"), 2);
    let hash = browser.evaluate("location.hash");
    let hash = hash.as_str().expect("a hash").to_owned();
    assert!(hash.contains("off=1") && hash.contains("across=log"), "{hash}");
    for (width, scheme) in SCREENS {
        open(browser, &studio, &hash, width, scheme);
        browser.until("document.querySelectorAll('#compare-training .line').length === 2");
        looks_right(browser, "compare", width, scheme);
    }
    assert_eq!(browser.evaluate("document.getElementById('compare-on-1').checked"), false);
}

#[test]
fn four_optimizers_are_started_and_watched() {
    let Some((studio, mut browser)) = visited("each") else { return };
    let browser = &mut browser;
    open(browser, &studio, "#/compare", 1280, "light");
    browser.until("document.querySelectorAll('#compare-data option').length > 3");
    browser.evaluate("document.getElementById('compare-start').click()");
    browser.until("document.querySelectorAll('#compare-runs li').length === 4");
    // The curves grow while the page looks on.
    let length = "document.querySelector('#compare-training .line.pale')?.getAttribute('d').length ?? 0";
    browser.until(&format!("({length}) > 60"));
    let before = browser.evaluate(length).as_u64().expect("a number");
    browser.until(&format!("({length}) > {before}"));
    let names = text(browser, "#compare-runs");
    assert!(["sgd", "momentum", "rmsprop", "adam"].iter().all(|name| names.contains(name)), "{names}");
    is_quiet(browser);
}

#[test]
fn optimizers_walk_side_by_side() {
    let Some((studio, mut browser)) = visited("paths") else { return };
    let browser = &mut browser;
    open(browser, &studio, "#/paths?e=x%5E2%20%2B%205*y%5E2&at=x:-4,y:1.5&rates=sgd:0.05", 1280, "light");
    let paths = "document.querySelectorAll('#paths-plane .line').length";
    browser.until(&format!("{paths} === 9"));
    let asked = json!({ "of": { "expression": "x^2 + 5*y^2", "at": { "x": -4, "y": 1.5 } }, "rates": { "sgd": 0.05 } });
    let answer = studio.ask("/api/paths", &asked);
    let last = answer["paths"][0]["last"].as_f64().expect("a number");
    assert!(last < 1e-6 && text(browser, "#paths-value-sgd").contains('e'), "{last}");
    assert_eq!(text(browser, "#paths-value-newton"), "0");
    // With keys: to the beginning, one step, and play.
    browser.press("Home");
    assert_eq!(text(browser, "#paths-count"), "step 0 of 200");
    assert_eq!(text(browser, "#paths-value-sgd"), "27.3");
    browser.press("ArrowRight");
    assert_eq!(text(browser, "#paths-value-newton"), "0");
    browser.press(" ");
    browser.until("Number(document.getElementById('paths-step').value) > 5");
    browser.press(" ");
    // One is switched off; a click on the plane is a new start. Both are in the link.
    browser.evaluate("document.getElementById('paths-on-sgd').click()");
    assert_eq!(browser.evaluate(paths), 8);
    browser.evaluate("(() => { const own = document.querySelector('#paths-plane svg'); const box = own.getBoundingClientRect(); own.dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + box.height / 4 })); })()");
    browser.until("document.getElementById('paths-at-0').value === '0' || Math.abs(Number(document.getElementById('paths-at-0').value)) < 0.1");
    let hash = browser.evaluate("location.hash");
    assert!(hash.as_str().is_some_and(|hash| hash.contains("off=sgd") && hash.contains("rates=sgd%3A0.05")), "{hash}");
    for (width, scheme) in SCREENS {
        open(browser, &studio, "#/paths", width, scheme);
        browser.until(&format!("{paths} === 9"));
        looks_right(browser, "paths", width, scheme);
    }
    // What is wrong is said.
    open(browser, &studio, "#/paths?e=x%5E2", 1280, "light");
    browser.until("document.getElementById('paths-problem').textContent.includes('two variables')");
    is_quiet(browser);
}

#[test]
fn graphs_fit_and_are_zoomed_and_moved() {
    let Some((studio, mut browser)) = visited("zoom") else { return };
    let browser = &mut browser;
    let chain = "x".to_owned() + &"*(1%20-%20x)".repeat(18);
    open(browser, &studio, &format!("#/explore?e={chain}&at=x:0.5"), 1280, "light");
    browser.until("document.querySelectorAll('#graph .node').length > 20");
    let size = "(() => { const box = document.getElementById('graph'); const own = box.querySelector('svg').getBoundingClientRect(); return [own.width, own.height, box.clientWidth, box.clientHeight]; })()";
    let number = |value: &Value, place: usize| value[place].as_f64().expect("a number");
    let before = browser.evaluate(size);
    browser.evaluate("document.getElementById('graph').focus()");
    browser.press("+");
    let larger = browser.evaluate(size);
    assert!((number(&larger, 0) / number(&before, 0) - 1.25).abs() < 0.01, "{before} {larger}");
    // Dragging moves the drawing.
    browser.press("+");
    let moved = "(() => { const own = document.getElementById('graph'); const send = (kind, x, y) => own.dispatchEvent(new PointerEvent(kind, { bubbles: true, clientX: x, clientY: y, button: 0, pointerType: 'mouse' })); own.scrollTop = 0; send('pointerdown', 700, 500); send('pointermove', 650, 380); send('pointerup', 650, 380); return own.scrollTop; })()";
    assert_eq!(browser.evaluate(moved), 120);
    // Fit: the whole graph is in its frame.
    browser.press("0");
    let fitted = browser.evaluate(size);
    assert!(
        number(&fitted, 0) <= number(&fitted, 2) + 1.0 && number(&fitted, 1) <= number(&fitted, 3).max(320.0) + 1.0,
        "{fitted}"
    );
    is_quiet(browser);
}

/// The machine of the tests has no math font: without the one of the page, subscripts would stand on the line.
#[test]
fn formulas_are_typeset_without_fonts_of_the_machine() {
    let Some((studio, mut browser)) = visited("font") else { return };
    let browser = &mut browser;
    open(browser, &studio, "#/explore?e=x1%5E2%20%2B%20sqrt(x2%2F3)&at=x1:2,x2:5", 1280, "light");
    browser
        .until("document.querySelector('#formula msub') !== null && document.fonts.check('16px \"Glassgrad Math\"')");
    let loaded = browser.evaluate("[...document.fonts].map(own => [own.family, own.status])");
    assert!(
        loaded[0][0].as_str().is_some_and(|name| name.contains("Glassgrad Math")) && loaded[0][1] == "loaded",
        "{loaded}"
    );
    let places = "(() => { const box = (own) => own.getBoundingClientRect(); const [base, index] = document.querySelector('#formula msub').children; \
                  const power = document.querySelector('#formula msup'); const [low, high] = [box(power.children[0]), box(power.children[1])]; \
                  return [box(index).bottom - box(base).bottom, parseFloat(getComputedStyle(index).fontSize) / parseFloat(getComputedStyle(base).fontSize), low.top - high.top]; })()";
    let found = browser.evaluate(places);
    let [below, smaller, above] = [0, 1, 2].map(|place| found[place].as_f64().expect("a number"));
    assert!(below > 1.0, "a subscript hangs below its base: {found}");
    assert!((0.5..0.85).contains(&smaller), "a subscript is smaller than its base: {found}");
    assert!(above > 1.0, "an exponent stands above its base: {found}");
    is_quiet(browser);
}

#[test]
fn everything_that_is_operated_has_a_name() {
    let Some((studio, mut browser)) = visited("names") else { return };
    let browser = &mut browser;
    let run =
        studio.ask("/api/runs", &json!({ "data": "moons", "options": { "epochs": 3 } }))["id"].as_u64().expect("a run");
    let pages = [
        ("#/explore".to_owned(), "document.querySelector('#plot-field canvas') !== null"),
        ("#/matrix".to_owned(), "document.querySelector('[data-notation=matrix] math') !== null"),
        (format!("#/train?run={run}"), "document.querySelector('#view-histograms') !== null"),
        ("#/compare".to_owned(), "document.querySelector('#compare-training .line') !== null"),
        ("#/paths".to_owned(), "document.querySelector('#paths-plane .line') !== null"),
        ("#/draw".to_owned(), "document.querySelector('#draw-input canvas') !== null"),
        ("#/tour".to_owned(), "document.querySelectorAll('#tour-list li').length === 10"),
        ("#/gallery".to_owned(), "document.querySelectorAll('.example').length >= 17"),
        ("#/glossary".to_owned(), "document.querySelectorAll('#glossary dt').length > 30"),
    ];
    browser.call("Accessibility.enable", json!({}));
    let operated =
        ["button", "link", "textbox", "combobox", "slider", "checkbox", "radio", "image", "spinbutton", "tab"];
    for (hash, condition) in pages {
        open(browser, &studio, &hash, 390, "light");
        browser.until(condition);
        let tree = browser.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().expect("nodes");
        let role = |node: &Value| node["role"]["value"].as_str().unwrap_or_default().to_owned();
        let (mut named, mut headings) = (0, 0);
        for node in nodes.iter().filter(|node| node["ignored"] != true) {
            headings += usize::from(role(node) == "heading");
            if operated.contains(&role(node).as_str()) {
                let name = node["name"]["value"].as_str().unwrap_or_default().trim().to_owned();
                assert!(!name.is_empty(), "{hash}: a {} without a name: {node}", role(node));
                named += 1;
            }
        }
        assert!(named >= 10 && headings >= 1, "{hash}: {named} named, {headings} headings");
    }
}

/// Cards are folded on narrow screens, so that no page is longer than a few screens; an open one is opened by keys.
#[test]
fn pages_on_a_phone_are_short() {
    let Some((studio, mut browser)) = visited("phone") else { return };
    let browser = &mut browser;
    let asked = json!({ "data": "moons", "options": { "epochs": 5 } });
    let run = studio.ask("/api/runs", &asked)["id"].as_u64().expect("a run");
    let pages = [
        (
            "#/explore".to_owned(),
            "document.querySelector('#plot-field canvas') !== null && document.querySelectorAll('#ways tbody tr').length > 0",
            3400,
        ),
        ("#/matrix".to_owned(), "document.querySelector('[data-notation=matrix] math') !== null", 2600),
        (
            format!("#/train?run={run}"),
            "document.querySelector('#view-histograms') !== null && document.querySelector('#view-boundary canvas') !== null",
            3000,
        ),
        ("#/compare".to_owned(), "document.querySelector('#compare-training .line') !== null", 2000),
        ("#/paths".to_owned(), "document.querySelector('#paths-plane .line') !== null", 2000),
        ("#/draw".to_owned(), "document.querySelector('#draw-input canvas') !== null", 2000),
        ("#/tour".to_owned(), "document.querySelectorAll('#tour-list li').length === 10", 1800),
        ("#/gallery".to_owned(), "document.querySelectorAll('.example').length >= 17", 4600),
    ];
    for (hash, condition, most) in pages {
        open(browser, &studio, &hash, 390, "light");
        browser.until(condition);
        let tall = browser.evaluate("document.documentElement.scrollHeight").as_u64().expect("a number");
        println!("{hash}: {tall} px");
        assert!(tall <= most, "{hash} is {tall} px tall at 390 px, more than {most}");
        whole_page(browser, &format!("phone{hash}"), 390, "light");
    }
    open(browser, &studio, "#/explore", 390, "light");
    browser.until("document.querySelectorAll('#ways tbody tr').length > 0");
    let card = "document.querySelector('section[aria-label=Comparison]')";
    let tall = format!("{card}.getBoundingClientRect().height");
    let folded = browser.evaluate(&tall).as_f64().expect("a number");
    browser.evaluate(&format!("{card}.querySelector('.fold').focus()"));
    browser.press("Enter");
    browser.until(&format!("{card}.querySelector('.fold').getAttribute('aria-expanded') === 'true'"));
    assert!(browser.evaluate(&tall).as_f64() > Some(folded + 200.0));
    is_quiet(browser);
}

fn looks_right(browser: &mut Browser, name: &str, width: u32, scheme: &str) {
    let wide = browser.evaluate("document.documentElement.scrollWidth");
    assert_eq!(wide, width, "{name} is {wide} wide in a window of {width}");
    whole_page(browser, name, width, scheme);
    let worst = browser.evaluate(CONTRAST);
    assert!(worst[0].as_f64() >= Some(4.5), "{name} at {width}, {scheme}: contrast {worst}");
    is_quiet(browser);
}
