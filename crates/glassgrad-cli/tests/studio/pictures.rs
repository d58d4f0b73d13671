//! Pictures of the page for the documentation, made by the tests: `tools/screenshots` has them written.

use std::path::Path;

use serde_json::json;

use crate::devtools::Browser;

/// A screenshot of a window of 1280 pixels and this height, if screenshots are requested.
#[allow(dead_code, reason = "the tests of the static site write no pictures of the documentation")]
pub(crate) fn picture(browser: &mut Browser, name: &str, height: u32) {
    let Some(folder) = std::env::var_os("GLASSGRAD_SCREENSHOTS") else { return };
    let metrics = json!({ "width": 1280, "height": height, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", metrics);
    capture(browser, Path::new(&folder), name, json!({ "format": "png" }));
}

/// A screenshot of the whole page at the width and in the theme it is shown in, if those of all pages are requested.
pub(crate) fn whole_page(browser: &mut Browser, hash: &str, width: u32, scheme: &str) {
    let Some(folder) = std::env::var_os("GLASSGRAD_PAGES") else { return };
    let page: String = hash.chars().filter(char::is_ascii_alphanumeric).take(24).collect();
    let page = if page.is_empty() { "start".to_owned() } else { page };
    let height = browser.evaluate("document.documentElement.scrollHeight");
    let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
    let options = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
    capture(browser, Path::new(&folder), &format!("{page}-{width}-{scheme}"), options);
}

fn capture(browser: &mut Browser, folder: &Path, name: &str, options: serde_json::Value) {
    let taken = browser.call("Page.captureScreenshot", options);
    let bytes = decoded(taken["data"].as_str().expect("a picture"));
    std::fs::write(folder.join(format!("{name}.png")), bytes).expect("the picture is written");
}

fn decoded(base64: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = |letter: u8| LETTERS.iter().position(|own| *own == letter).map(|place| place as u32);
    let mut bytes = Vec::new();
    for four in base64.as_bytes().chunks(4) {
        let digits: Vec<u32> = four.iter().filter_map(|letter| value(*letter)).collect();
        let whole = digits.iter().fold(0, |sum, digit| sum << 6 | digit) << (6 * (4 - digits.len()));
        bytes.extend_from_slice(&whole.to_be_bytes()[1..digits.len().max(1)]);
    }
    bytes
}
