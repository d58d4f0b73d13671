//! A checksum of everything in a file that decides on the result: names, element types, shapes, notes and elements.
//!
//! It is stored as one more note, so that every reader of safetensors files still reads the file. It is computed from the
//! content and not from the bytes of the file: a program that writes the same tensors and notes in another order keeps
//! it valid.

use std::collections::BTreeMap;

use crate::error::Error;

/// The note that holds the checksum.
const NAME: &str = "glassgrad.checksum";
/// What its text begins with: the algorithm. Sixteen hexadecimal digits follow.
const ALGORITHM: &str = "crc64-xz:";

/// CRC-64/XZ: the reflected polynomial of ECMA-182. It detects every error burst of up to 64 bits.
struct Crc64 {
    state: u64,
}

/// `TABLES[k][b]` is the remainder of the byte `b` followed by `k` zero bytes, so that eight bytes are divided at a time.
const TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            remainder = remainder >> 1 ^ if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[k - 1][byte];
            tables[k][byte] = tables[0][(before & 255) as usize] ^ before >> 8;
            byte += 1;
        }
        k += 1;
    }
    tables
}

impl Crc64 {
    fn new() -> Crc64 {
        Crc64 { state: u64::MAX }
    }

    fn update(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            let mixed = (self.state ^ u64::from_le_bytes(*chunk)).to_le_bytes();
            self.state = mixed.iter().zip(TABLES.iter().rev()).fold(0, |sum, (b, table)| sum ^ table[usize::from(*b)]);
        }
        for byte in rest {
            self.state = TABLES[0][usize::from(self.state as u8 ^ byte)] ^ self.state >> 8;
        }
    }

    /// A field with its length before it, so that no two sequences of fields have the same bytes.
    fn field(&mut self, bytes: &[u8]) {
        self.update(&(bytes.len() as u64).to_le_bytes());
        self.update(bytes);
    }

    fn finish(self) -> u64 {
        !self.state
    }
}

/// A tensor as the checksum sees it.
pub(super) struct Content<'a> {
    pub(super) name: &'a str,
    /// The element type as the file spells it.
    pub(super) dtype: String,
    pub(super) shape: &'a [usize],
    pub(super) bytes: &'a [u8],
}

/// The text of the checksum of tensors, in the order of their names, and of notes. The note of the checksum does not count.
fn text(notes: &BTreeMap<String, String>, tensors: &[Content<'_>]) -> String {
    let mut sum = Crc64::new();
    let notes = || notes.iter().filter(|(name, _)| *name != NAME);
    sum.update(&(notes().count() as u64).to_le_bytes());
    for (name, note) in notes() {
        sum.field(name.as_bytes());
        sum.field(note.as_bytes());
    }
    sum.update(&(tensors.len() as u64).to_le_bytes());
    for Content { name, dtype, shape, bytes } in tensors {
        sum.field(name.as_bytes());
        sum.field(dtype.as_bytes());
        sum.field(&shape.iter().flat_map(|size| (*size as u64).to_le_bytes()).collect::<Vec<u8>>());
        sum.field(bytes);
    }
    format!("{ALGORITHM}{:016x}", sum.finish())
}

/// Adds the note with the checksum.
pub(super) fn add(notes: &mut BTreeMap<String, String>, tensors: &[Content<'_>]) {
    let text = text(notes, tensors);
    notes.insert(NAME.to_owned(), text);
}

/// Takes the checksum out of the notes and compares it with the content. `Ok(false)` means that there is none.
pub(super) fn verify(notes: &mut BTreeMap<String, String>, tensors: &[Content<'_>]) -> Result<bool, Error> {
    let Some(stored) = notes.get(NAME) else {
        // A checksum under another name is one whose name is damaged: without this, damage there would pass as its absence.
        return match notes.iter().find(|(_, note)| note.starts_with(ALGORITHM)) {
            Some((name, _)) => Err(damaged(&format!("its checksum is called {name:?} and not {NAME:?}"))),
            None => Ok(false),
        };
    };
    let computed = text(notes, tensors);
    if *stored != computed {
        return Err(damaged(&format!("its checksum is {stored}, and its content has {computed}")));
    }
    notes.remove(NAME);
    Ok(true)
}

fn damaged(reason: &str) -> Error {
    let error = Error::new("load", format!("the file is damaged: {reason}"));
    error.help(format!(
        "use another copy of it; a program that changed it on purpose has to remove or renew its note {NAME:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crc(bytes: &[u8]) -> u64 {
        let mut sum = Crc64::new();
        sum.update(bytes);
        sum.finish()
    }

    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(crc(b"123456789"), 0x995D_C9BB_DF19_39FA);
        assert_eq!(crc(b""), 0);
    }

    #[test]
    fn eight_bytes_at_a_time_are_the_same_as_one() {
        let bytes: Vec<u8> = (0..1000_u32).map(|k| ((k * k) >> 3) as u8).collect();
        let mut single = Crc64::new();
        bytes.iter().for_each(|byte| single.update(&[*byte]));
        assert_eq!(single.finish(), crc(&bytes));
    }
}
