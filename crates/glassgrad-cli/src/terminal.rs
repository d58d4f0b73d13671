//! Text on its way to a terminal. Names and cells of files may hold control characters, which a terminal would obey.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal as _, Write as _};

pub(crate) use glassgrad_experiment::counts::counted;

use crate::failure::Failure;

/// The text with control characters written as `\u001b`: those of ASCII and of Latin-1 but line breaks and tabs, and those
/// that change the direction of text. In JSON, where they occur only inside of strings, this is their escape too.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let is_harmful = |character: char| {
        character.is_control() && !matches!(character, '\n' | '\t')
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
    };
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::new();
    for character in text.chars() {
        match is_harmful(character) {
            true => safe += &format!("\\u{:04x}", u32::from(character)),
            false => safe.push(character),
        }
    }
    Cow::Owned(safe)
}

/// Writes text to standard output, with control characters escaped. A reader that has gone away, as `head` does, is no
/// failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(&escaped(text))
}

/// Writes text with the colours of this program between texts that may come from files.
pub(crate) fn print_around(before: &str, coloured: &str, behind: &str) -> Result<(), Failure> {
    write(&format!("{}{coloured}{}", escaped(before), escaped(behind)))
}

/// Writes data: as it is for a file or another program, with control characters escaped for a terminal.
pub(crate) fn print_data(text: &str) -> Result<(), Failure> {
    if std::io::stdout().is_terminal() { print(text) } else { write(text) }
}

/// Writes a warning to standard error.
pub(crate) fn warn(text: &str) {
    // On a closed pipe a warning has no reader.
    let _ = writeln!(std::io::stderr(), "warning: {}", escaped(text));
}

fn write(text: &str) -> Result<(), Failure> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Result(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(
            escaped("a \u{1b}[31mred\u{1b}[0m\r\u{7}\u{9b}2J\u{7f}"),
            "a \\u001b[31mred\\u001b[0m\\u000d\\u0007\\u009b2J\\u007f"
        );
        assert_eq!(escaped("x\u{202e}y"), "x\\u202ey");
        let plain = "Größe\tπ ≈ 3\n";
        assert!(matches!(escaped(plain), Cow::Borrowed(text) if text == plain));
    }

    #[test]
    fn json_stays_json() {
        let value = serde_json::json!({ "name": "a\u{1b}[2J\u{9b}1m\u{202e}" });
        let read: serde_json::Value = serde_json::from_str(&escaped(&value.to_string())).expect("JSON");
        assert_eq!(read, value);
    }
}
