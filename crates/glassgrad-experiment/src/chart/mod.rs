//! Charts as SVG that a page takes in: lines, bands, dots, bars and heat maps over axes with round numbers.
//!
//! Colours are CSS variables where there are few, so that a page decides how they look by day and by night. What is not
//! finite is left out and never stands in the text. [`axis`] finds round numbers, [`plot`] draws over two axes, [`bitmap`]
//! encodes bitmaps, [`colour`] is the categorical palette, [`sheet()`] writes standalone SVG files.

pub mod axis;
pub mod bitmap;
pub mod colour;
pub mod plot;
pub mod sheet;

pub use axis::{Axis, number};
pub use bitmap::Bitmap;
pub use plot::{Dot, Plot};
pub use sheet::sheet;

/// Text as it may stand in HTML and SVG, between tags and inside of attributes.
///
/// Control characters, which no page can show and XML does not allow, become the sign for what cannot be shown.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            '\t' | '\n' => safe.push(character),
            _ if character.is_control() || ('\u{202a}'..='\u{202e}').contains(&character) => safe.push('\u{fffd}'),
            _ => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn text_of_others_stays_text() {
        let hostile = "</script><img src=x onerror='alert(1)'> & \"quoted\" \u{0}\u{202e}";
        let safe = escaped(hostile);
        assert!(!safe.contains(['<', '>', '"', '\'', '\u{0}', '\u{202e}']), "{safe}");
        assert_eq!(escaped("a & b"), "a &amp; b");
        assert_eq!(escaped("naïve 数"), "naïve 数");
    }
}
