//! Numbers as pictures need them: rounded, and many of them as bytes.
//!
//! Bytes are written in base64. Levels go from 0 to 255. Signed levels have 128 for zero, 1 and 255 for the largest size with
//! either sign, and 0 for what is not a finite number.

use glassgrad::trace::json_number;
use serde_json::Value;

use crate::chart::bitmap::base64;

/// A number for a picture: six digits, which is more than a screen shows.
pub(crate) fn rounded(number: f64) -> Value {
    if number == 0.0 || !number.is_finite() {
        return json_number(number);
    }
    json_number(format!("{number:.5e}").parse().unwrap_or(number))
}

/// Rounded numbers.
pub(crate) fn list(numbers: &[f64]) -> Value {
    numbers.iter().copied().map(rounded).collect()
}

/// Bytes, in base64.
pub(crate) fn bytes(bytes: impl Iterator<Item = u8>) -> Value {
    base64(&bytes.collect::<Vec<u8>>()).into()
}

/// Numbers between two ends as bytes; what is not a number is at the lower end.
pub(crate) fn levels(numbers: &[f64], (low, high): (f64, f64)) -> Value {
    let level = |number: &f64| {
        let part = if high > low { (number - low) / (high - low) } else { 0.0 };
        (255.0 * part.clamp(0.0, 1.0)).round() as u8
    };
    bytes(numbers.iter().map(level))
}

/// Numbers around zero as bytes, and the size that the ends stand for: the largest.
pub(crate) fn signed(numbers: &[f64]) -> (Value, Value) {
    let scale =
        numbers.iter().filter(|number| number.is_finite()).fold(0.0, |most: f64, number| most.max(number.abs()));
    let level = |number: &f64| match number {
        number if !number.is_finite() => 0,
        _ if scale == 0.0 => 128,
        number => (128.0 + 127.0 * (number / scale)).round() as u8,
    };
    (bytes(numbers.iter().map(level)), rounded(scale))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The bytes of an answer.
    pub(crate) fn read(text: &Value) -> Vec<u8> {
        let digit = |byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => panic!("{byte} is no digit of base64"),
        };
        let text = text.as_str().expect("a text").trim_end_matches('=');
        let bits: Vec<u8> =
            text.bytes().map(digit).flat_map(|digit| (0..6).rev().map(move |bit| digit >> bit & 1)).collect();
        bits.chunks_exact(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | bit)).collect()
    }

    #[test]
    fn what_is_written_can_be_read() {
        for count in 0..9 {
            let all: Vec<u8> = (0..count).map(|k: u8| k.wrapping_mul(231)).collect();
            assert_eq!(read(&bytes(all.iter().copied())), all);
        }
        assert_eq!(read(&levels(&[0.0, 0.5, 1.0, 7.0, f64::NAN], (0.0, 1.0))), [0, 128, 255, 255, 0]);
        assert_eq!(read(&levels(&[3.0], (1.0, 1.0))), [0]);
        let (bytes, scale) = signed(&[0.0, -2.0, 1.0, 2.0, f64::NAN, f64::INFINITY]);
        assert_eq!((read(&bytes), scale), (vec![128, 1, 192, 255, 0, 0], 2.0.into()));
        assert_eq!(read(&signed(&[0.0, 0.0]).0), [128, 128]);
        assert!(read(&signed(&[]).0).is_empty());
    }

    #[test]
    fn numbers_are_rounded_and_others_are_words() {
        assert_eq!(list(&[0.1 + 0.2, -1.0 / 3.0, 0.0]).to_string(), "[0.3,-0.333333,0.0]");
        assert_eq!(
            list(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]).to_string(),
            r#"["NaN","Infinity","-Infinity"]"#
        );
        assert!(!list(&[f64::MAX, 5e-324]).to_string().contains("Inf"));
    }
}
