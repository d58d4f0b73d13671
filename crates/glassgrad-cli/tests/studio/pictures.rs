//! Pictures of the page for the documentation, made by the tests: `tools/screenshots` has them written.

use std::path::Path;

use serde_json::json;

use crate::devtools::Browser;

/// Keeps a picture of what is seen now in a window so high, where pictures are wanted.
pub(crate) fn picture(browser: &mut Browser, name: &str, height: u32) {
    let Some(folder) = std::env::var_os("GLASSGRAD_SCREENSHOTS") else { return };
    let metrics = json!({ "width": 1280, "height": height, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", metrics);
    let taken = browser.call("Page.captureScreenshot", json!({ "format": "png" }));
    let bytes = decoded(taken["data"].as_str().expect("a picture"));
    std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).expect("the picture is written");
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
