//! Pictures of single pixels as PNG inside of a page.
//!
//! The format asks for a deflate stream with checksums; blocks that are stored as they are make a valid one, and pictures of
//! a few thousand pixels need no better.

/// Pixels row by row: red, green, blue, and how strongly they cover what is behind.
#[derive(Clone, Debug)]
pub struct Bitmap {
    width: usize,
    pixels: Vec<[u8; 4]>,
}

impl Bitmap {
    /// A picture of some rows.
    pub fn new(width: usize, pixels: Vec<[u8; 4]>) -> Bitmap {
        Bitmap { width: width.max(1), pixels }
    }

    /// The picture as an address that holds it whole.
    pub fn address(&self) -> String {
        format!("data:image/png;base64,{}", base64(&self.png()))
    }

    fn png(&self) -> Vec<u8> {
        let height = self.pixels.len() / self.width;
        let mut header = Vec::new();
        header.extend((self.width as u32).to_be_bytes());
        header.extend((height as u32).to_be_bytes());
        // Eight bits a channel, with transparency; the usual compression and filter; not interlaced.
        header.extend([8, 6, 0, 0, 0]);
        let mut rows = Vec::with_capacity(self.pixels.len() * 4 + height);
        for row in self.pixels.chunks_exact(self.width) {
            // Each row says that it is not filtered.
            rows.push(0);
            rows.extend(row.iter().flatten());
        }
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        for (name, content) in [(b"IHDR", header), (b"IDAT", stored(&rows)), (b"IEND", Vec::new())] {
            file.extend((content.len() as u32).to_be_bytes());
            let checked: Vec<u8> = name.iter().chain(&content).copied().collect();
            file.extend(&checked);
            file.extend(crc(&checked).to_be_bytes());
        }
        file
    }
}

/// A zlib stream of stored blocks.
fn stored(bytes: &[u8]) -> Vec<u8> {
    const LONGEST: usize = 65_535;
    let mut stream = vec![0x78, 0x01];
    let blocks = bytes.len().div_ceil(LONGEST).max(1);
    for (number, block) in (1..).zip(bytes.chunks(LONGEST)) {
        let length = block.len() as u16;
        stream.push(u8::from(number == blocks));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    stream.extend((high << 16 | low).to_be_bytes());
    stream
}

/// The cyclic redundancy check that PNG asks for.
fn crc(bytes: &[u8]) -> u32 {
    let divided = |mut rest: u32| {
        for _ in 0..8 {
            rest = if rest & 1 == 1 { 0xedb8_8320 ^ (rest >> 1) } else { rest >> 1 };
        }
        rest
    };
    !bytes.iter().fold(!0, |rest: u32, byte| divided((rest ^ u32::from(*byte)) & 0xff) ^ (rest >> 8))
}

pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = (0..3).fold(0_usize, |word, place| word << 8 | usize::from(three.get(place).copied().unwrap_or(0)));
        for place in 0..4 {
            let digit = char::from(DIGITS[word >> (18 - 6 * place) & 63]);
            text.push(if place <= three.len() { digit } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_and_digits_are_those_of_the_standards() {
        // The check values that the definitions of CRC-32 and Adler-32 name, and the examples of RFC 4648.
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        let stream = stored(b"Wikipedia");
        assert_eq!(stream[stream.len() - 4..], 0x11e6_0398_u32.to_be_bytes());
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }

    #[test]
    fn a_large_picture_is_several_blocks() {
        let bytes = vec![7; 70_000];
        let stream = stored(&bytes);
        assert_eq!((stream[2], &stream[3..5]), (0, &65_535_u16.to_le_bytes()[..]));
        assert_eq!(stream[2 + 5 + 65_535], 1);
        assert_eq!(stream.len(), 2 + 2 * 5 + 70_000 + 4);
    }
}
