//! The page in a real Chromium: what it shows is what the library says, with a mouse or without one.

use std::path::Path;

use serde_json::{Value, json};

use crate::devtools::{Browser, chromium};
use crate::pictures::{picture, whole_page};
use crate::server::Studio;

const READY: &str = "document.getElementById('work').getAttribute('aria-busy') === 'false' && document.querySelectorAll('#ways tbody tr').length > 0";

/// A studio with a browser, or nothing where there is no browser.
pub(crate) fn visited(name: &str) -> Option<(Studio, Browser)> {
    let program = chromium()?;
    let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("studio-{name}-{}", std::process::id()));
    Some((Studio::start(&[]), Browser::start(&program, &profile)))
}

pub(crate) fn open(browser: &mut Browser, studio: &Studio, hash: &str, width: u32, scheme: &str) {
    // From another place, so that the page is loaded and not only its hash changed.
    browser.visit("about:blank", width, scheme);
    let own = studio.address("");
    let visit = browser.visit(&format!("{own}{hash}"), width, scheme);
    assert!(visit.complaints.is_empty(), "{:#?}", visit.complaints);
    assert!(visit.requests.iter().all(|url| url.starts_with(&own)), "asked elsewhere: {:?}", visit.requests);
}

pub(crate) fn is_quiet(browser: &mut Browser) {
    browser.evaluate("1");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

pub(crate) fn text(browser: &mut Browser, selector: &str) -> String {
    let found = browser.evaluate(&format!("document.querySelector({})?.textContent ?? null", json!(selector)));
    found.as_str().unwrap_or_else(|| panic!("there is no {selector}")).to_owned()
}

/// The third line of each node: its tangent or adjoint.
fn adjoint_texts(browser: &mut Browser) -> Vec<String> {
    let lines = browser.evaluate(
        "[...document.querySelectorAll('.node .adjoint')].map(line => line.textContent.split(' = ')[1] || '')",
    );
    serde_json::from_value(lines).expect("a list of texts")
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    value.as_array().expect("a list").iter().map(|row| row[field].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn both_sweeps_are_stepped_through_by_keys_alone() {
    let Some((studio, mut browser)) = visited("steps") else { return };
    let browser = &mut browser;
    let asked = json!({ "expression": "ln(x1) + x1*x2 - sin(x2)", "at": { "x1": 2, "x2": 5 } });
    let answer = studio.ask("/api/explore", &asked);
    open(browser, &studio, "", 1280, "light");
    browser.until(READY);
    // The first screen is the whole answer.
    assert_eq!(text(browser, "[data-result=value]"), "11.6521");
    assert_eq!(text(browser, "[data-result=x1]"), "5.5");
    assert_eq!(text(browser, "[data-result=x2]"), answer["gradient"][1]["shown"].as_str().expect("a text"));
    let (values, steps) =
        (texts(&answer["nodes"], "shown"), answer["reverse"]["steps"].as_array().expect("steps").clone());

    browser.press("Home");
    assert_eq!(text(browser, "#step-count"), format!("0 of {}", values.len() + steps.len()));
    assert!(adjoint_texts(browser).iter().all(String::is_empty));
    for (done, value) in values.iter().enumerate() {
        browser.press("ArrowRight");
        assert_eq!(text(browser, ".node.now .value"), *value);
        assert_eq!(
            browser.evaluate("document.querySelectorAll('#value-table tr:not(.pending) td:first-child').length"),
            done + 1
        );
    }
    let mut adjoints = vec![String::new(); values.len()];
    for (done, step) in steps.iter().enumerate() {
        browser.press("ArrowRight");
        adjoints[step["node"].as_u64().expect("a number") as usize] =
            step["shown"].as_str().expect("a text").to_owned();
        assert_eq!(adjoint_texts(browser), adjoints, "after step {}", done + 1);
        assert_eq!(text(browser, "#reverse-table tr.now td:last-child"), step["shown"].as_str().expect("a text"));
        let rule = browser.evaluate("document.querySelector('#rule math').textContent");
        assert!(
            rule.as_str().is_some_and(|rule| rule.replace('−', "-").ends_with(step["shown"].as_str().expect("a text"))),
            "{rule}"
        );
    }
    browser.press("ArrowLeft");
    picture(browser, "studio", 900);
    assert_eq!(
        text(browser, "#step-count"),
        format!("{} of {}", values.len() + steps.len() - 1, values.len() + steps.len())
    );

    // The other mode.
    browser.press("m");
    assert_eq!(browser.evaluate("document.querySelector('input[name=mode]:checked').value"), "forward");
    browser.press("Home");
    let tangents = texts(&answer["forward"]["rows"], "shown");
    for done in 1..=tangents.len() {
        browser.press("ArrowRight");
        let reached: Vec<String> = (0..tangents.len())
            .map(|place| if place < done { tangents[place].clone() } else { String::new() })
            .collect();
        assert_eq!(adjoint_texts(browser), reached);
    }
    // What the page shows is in its address.
    browser.press("ArrowLeft");
    let hash = browser.evaluate("location.hash");
    let hash = hash.as_str().expect("a hash").to_owned();
    assert!(hash.contains("mode=forward") && hash.contains("step=6"), "{hash}");
    open(browser, &studio, &hash, 1280, "light");
    browser.until(READY);
    assert_eq!(text(browser, "#step-count"), "6 of 7");
    // It also plays by itself, and stops on request.
    browser.press("Home");
    browser.press(" ");
    browser.until("document.getElementById('step-count').textContent === '2 of 7'");
    assert_eq!(browser.evaluate("document.getElementById('step-play').getAttribute('aria-label')"), "Pause");
    browser.press(" ");
    assert_eq!(browser.evaluate("document.getElementById('step-play').getAttribute('aria-label')"), "Play");
    is_quiet(browser);
}

#[test]
fn beyond_this_machine_the_page_opens_with_its_token() {
    let Some(program) = chromium() else { return };
    let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("studio-token-{}", std::process::id()));
    let browser = &mut Browser::start(&program, &profile);
    let studio = Studio::start(&["--host", "0.0.0.0"]);
    let token = studio.token.clone().expect("a token is printed");
    browser.visit(&studio.address(&format!("?token={token}")), 1280, "light");
    browser.until(READY);
    assert_eq!(text(browser, "[data-result=x1]"), "5.5");
    // The token is neither in the address any more nor within reach of scripts.
    assert_eq!(browser.evaluate("location.search + document.cookie"), "");
    is_quiet(browser);
}

#[test]
fn what_is_typed_is_answered_or_explained() {
    let Some((studio, mut browser)) = visited("typing") else { return };
    let browser = &mut browser;
    open(browser, &studio, "", 1280, "light");
    browser.until(READY);
    // Tab leads from link to link to the expression.
    for _ in 0..20 {
        if browser.evaluate("document.activeElement.id") == "expression" {
            break;
        }
        browser.press("Tab");
    }
    assert_eq!(browser.evaluate("document.activeElement.id"), "expression");
    browser.call("Input.insertText", json!({ "text": "" }));
    browser.evaluate("document.activeElement.select()");
    browser.call("Input.insertText", json!({ "text": "x^2 + tahn(y)" }));
    browser.until("document.getElementById('problem').textContent.length > 0");
    assert_eq!(text(browser, "#problem"), "unknown function 'tahn': did you mean 'tan' or 'tanh'?");
    assert_eq!(text(browser, "#mirror mark.wrong"), "tahn");
    assert_eq!(text(browser, "[data-result=value]"), "11.6521", "what was there stays in sight");
    browser.evaluate("document.activeElement.select()");
    browser.call("Input.insertText", json!({ "text": "x^2 + y; x*y" }));
    browser.until(
        "document.querySelector('[data-result=y]') !== null && document.getElementById('problem').textContent === ''",
    );
    assert_eq!(browser.evaluate("document.querySelectorAll('#output option').length"), 2);
    // The next stop is the slider of x; it moves the numbers and nothing else.
    browser.press("Tab");
    assert_eq!(browser.evaluate("document.activeElement.type"), "range");
    let places = "JSON.stringify(['graph', 'step', 'tables', 'compare'].map(id => document.getElementById(id).getBoundingClientRect().top))";
    browser.until(READY);
    let before = browser.evaluate(places);
    let boxes = "JSON.stringify([...document.querySelectorAll('.node rect')].map(box => [box.getAttribute('x'), box.getAttribute('y'), box.getAttribute('width')]))";
    let drawn = browser.evaluate(boxes);
    browser.press("ArrowRight");
    browser.until("document.querySelector('[data-result=value]').textContent !== '2'");
    let at = browser.evaluate("document.getElementById('value-x').value");
    let at: f64 = at.as_str().and_then(|text| text.parse().ok()).expect("a number");
    let answer = studio.ask("/api/explore", &json!({ "expression": "x^2 + y; x*y", "at": { "x": at } }));
    browser.until(&format!("document.querySelector('[data-result=value]').textContent === {}", answer["shown"]));
    assert_eq!(text(browser, "[data-result=x]"), answer["gradient"][0]["shown"].as_str().expect("a text"));
    assert_eq!(browser.evaluate(places), before, "nothing jumps");
    assert_eq!(browser.evaluate(boxes), drawn, "the graph stays where it is");
    is_quiet(browser);
}

/// The smallest ratio of contrast between text and what is behind it.
pub(crate) const CONTRAST: &str = "(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (element) => { for (let own = element; own; own = own.parentElement) { const colour = rgb(getComputedStyle(own).backgroundColor); if (colour[3] === 255) return colour; } return [255, 255, 255, 255]; };
  let worst = [99, ''];
  for (const element of document.querySelectorAll('main :is(p, dt, dd, td, th, h1, h2, h3, legend, label, summary, b, code, button, span, li, caption), header :is(a, button), footer p')) {
    const own = getComputedStyle(element);
    if (!element.offsetParent || own.color === 'rgba(0, 0, 0, 0)' || element.closest('[aria-disabled=true], .pending') || !element.textContent.trim()) continue;
    const [a, b] = [light(rgb(own.color)), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst[0]) worst = [ratio, element.outerHTML.slice(0, 120)];
  }
  return worst;
})()";

#[test]
fn every_page_fits_and_can_be_read_by_day_and_by_night() {
    let Some((studio, mut browser)) = visited("themes") else { return };
    let browser = &mut browser;
    let ready = [
        ("", READY),
        (
            "#/explore?e=sqrt(x%20-%203)%20%2B%20ln(y)&at=x:1,y:2&order=2",
            "document.getElementById('warning').textContent.includes('not finite') && document.getElementById('compare').textContent.length > 0",
        ),
        ("#/matrix", "document.querySelector('[data-notation=matrix] math') !== null"),
        ("#/tour?lesson=2", "document.getElementById('tour-title').textContent.startsWith('2.')"),
        ("#/gallery", "document.querySelectorAll('.example').length >= 17"),
        (
            "#/glossary?term=Loss%20surface",
            "document.querySelector('#glossary dt.now')?.textContent === 'Loss surface'",
        ),
    ];
    for (hash, condition) in ready {
        for (width, scheme) in [(1280, "light"), (1280, "dark"), (768, "light"), (390, "light"), (360, "dark")] {
            open(browser, &studio, hash, width, scheme);
            browser.until(condition);
            let wide = browser.evaluate("document.documentElement.scrollWidth");
            assert_eq!(wide, width, "{hash} is {wide} wide in a window of {width}");
            let paper = browser.evaluate("getComputedStyle(document.body).backgroundColor");
            assert_eq!(paper == "rgb(15, 20, 27)", scheme == "dark", "{scheme}: {paper}");
            whole_page(browser, hash, width, scheme);
            let worst = browser.evaluate(CONTRAST);
            assert!(worst[0].as_f64() >= Some(4.5), "{hash} at {width}, {scheme}: contrast {worst}");
            is_quiet(browser);
        }
    }
    // A theme that was chosen holds against the system's, also when the page is opened again.
    open(browser, &studio, "", 1280, "dark");
    browser.until(READY);
    browser.evaluate("document.getElementById('theme').click()");
    assert_eq!(text(browser, "#theme"), "Theme: light");
    open(browser, &studio, "", 1280, "dark");
    assert_eq!(browser.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(245, 246, 248)");
}

#[test]
fn every_example_of_the_gallery_opens() {
    let Some((studio, mut browser)) = visited("gallery") else { return };
    let browser = &mut browser;
    open(browser, &studio, "#/gallery", 1280, "light");
    browser.until("document.querySelectorAll('.example').length >= 17");
    let links: Vec<String> = texts(&studio.request("GET", "/api/gallery", &[], "").json()["examples"], "link");
    for link in links {
        open(browser, &studio, &link, 1280, "light");
        if link.starts_with("#/matrix") {
            browser.until("document.querySelector('[data-notation=einstein] math') !== null");
            assert_eq!(text(browser, "#matrix-problem"), "", "{link}");
        } else if link.starts_with("#/train") {
            browser.until("document.getElementById('set-lr')?.value.length > 0");
            browser.evaluate("document.getElementById('train-start').click()");
            browser.until("Number(document.getElementById('state-step').textContent) > 0");
            assert_eq!(text(browser, "#train-problem"), "", "{link}");
            browser.evaluate("[...document.querySelectorAll('#train-runs button')].filter(own => own.textContent === 'Delete').forEach(own => own.click())");
            browser.until("document.getElementById('train-work').hidden");
        } else {
            browser.until("document.querySelectorAll('.node').length > 0 && document.getElementById('compare').textContent.length > 0");
            assert_eq!(text(browser, "#problem"), "", "{link}");
            // Every formula was read: nothing but words stands as text.
            let unread = "[...document.querySelectorAll('#formula mtext')].map(one => one.textContent).filter(word => !['if\\u00a0', 'otherwise'].includes(word)).length";
            assert_eq!(browser.evaluate(unread), 0, "{link}");
        }
        is_quiet(browser);
    }
    // The last is about matrices; the one about factors holds 800 bytes of 800 MB.
    open(
        browser,
        &studio,
        "#/matrix?e=norm2(T%20-%20U*V')%5E2&sizes=T:%20n%20n,%20U:%20n%20k,%20V:%20n%20k,%20n=1000,%20k=10&wrt=U&order=2",
        390,
        "light",
    );
    browser.until("document.querySelector('[data-bytes=held]') !== null");
    assert_eq!(text(browser, "[data-bytes=held]"), "800 bytes");
    assert_eq!(text(browser, "[data-bytes=dense]"), "800 MB");
    assert!(browser.evaluate("document.querySelectorAll('.ledger > li').length").as_u64() > Some(0));
}

#[test]
fn the_plot_follows_the_slider() {
    let Some((studio, mut browser)) = visited("plot") else { return };
    let browser = &mut browser;
    open(browser, &studio, "#/explore?e=sin(x)*exp(x%2F4)&at=x:1&order=4", 1280, "light");
    browser.until("document.querySelectorAll('#plot-curve .line').length === 3");
    let slope = |browser: &mut Browser| text(browser, "#plot-curve .legend .k1");
    let asked = json!({ "expression": "sin(x)*exp(x/4)", "at": { "x": 1 } });
    let expected = studio.ask("/api/explore", &asked)["gradient"][0]["value"].as_f64().expect("a number");
    assert_eq!(slope(browser), format!("tangent, slope {}", (expected * 1000.0).round() / 1000.0));
    assert_eq!(text(browser, "#plot-curve .legend .k2"), "Taylor polynomial of order 4");
    let place = "document.querySelector('#plot-curve .here').getAttribute('cx')";
    let before = browser.evaluate(place);
    // With the keys of the slider.
    browser.evaluate("document.querySelector('#values input[type=range]').focus()");
    browser.press("ArrowRight");
    browser.until(&format!("{place} !== {before}"));
    // Of two variables there are contours and a field; a point without a value has no arrow.
    open(browser, &studio, "#/explore?e=ln(x)*y&at=x:1,y:2", 390, "dark");
    browser.until("document.querySelector('#plot-field canvas') !== null");
    let arrows = browser.evaluate("document.querySelectorAll('#plot-field .arrow:not(.own)').length");
    assert!(arrows.as_u64().is_some_and(|arrows| (30..=66).contains(&arrows)), "{arrows}");
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), 390);
    whole_page(browser, "plot", 390, "dark");
    is_quiet(browser);
}

#[test]
fn the_tour_is_completed_with_keys_alone() {
    let Some((studio, mut browser)) = visited("tour") else { return };
    let browser = &mut browser;
    open(browser, &studio, "#/tour", 1280, "light");
    browser.until("document.getElementById('tour-title').textContent.startsWith('1.')");
    let verdict = "document.getElementById('tour-verdict')";
    let answer = |browser: &mut Browser, text: &str| {
        for letter in text.chars() {
            browser.press(&letter.to_string());
        }
        browser.press("Enter");
    };
    // A wrong answer gets a reason and no mark.
    browser.press("/");
    answer(browser, "-12");
    browser.until(&format!("{verdict}.textContent.includes('sign')"));
    for _ in 0..3 {
        browser.press("Backspace");
    }
    let answers =
        ["12", "6*x*exp(3*x^2)", "5", "1.716", "1000", "12", "x*(1-tanh(w*x+b)^2)", "354", "0.25^10", "17/12"];
    for (place, own) in answers.iter().enumerate() {
        browser.until(&format!("document.getElementById('tour-title').textContent.startsWith('{}.')", place + 1));
        browser.until("document.activeElement.id === 'tour-answer'");
        answer(browser, own);
        browser.until(&format!("{verdict}.className === 'verdict right'"));
        // The focus is on the button that goes on.
        if place + 1 < answers.len() {
            browser.until("document.activeElement.id === 'tour-next'");
            browser.press("Enter");
        }
    }
    assert_eq!(text(browser, "#tour-count"), "All ten exercises are solved.");
    assert!(browser.evaluate("location.hash").as_str().is_some_and(|hash| hash.ends_with("lesson=10")));
    // Every lesson leads to a page that works.
    let links = browser.evaluate("import('./js/api.js').then(async ({ get }) => { window.links = (await get('/api/tour')).lessons.map(one => one.link); }) && null");
    assert!(links.is_null());
    browser.until("window.links !== undefined");
    let links: Vec<String> = serde_json::from_value(browser.evaluate("window.links")).expect("links");
    for link in links {
        open(browser, &studio, &link, 1280, "light");
        let is_there =
            if link.starts_with("#/train") { "document.getElementById('set-lr')?.value.length > 0" } else { READY };
        browser.until(is_there);
        is_quiet(browser);
    }
}
