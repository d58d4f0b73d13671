//! Byte-pair encoding (BPE) of text.

use std::fmt;

use tiktoken_rs::CoreBPE;

use crate::error::Error;

/// A byte-pair encoder: text to token numbers and back.
///
/// ```
/// use glassgrad::data::Tokenizer;
/// let tokenizer = Tokenizer::gpt2().unwrap();
/// let tokens = tokenizer.encode("Hello, world!");
/// assert_eq!(tokens, [15496, 11, 995, 0]);
/// assert_eq!(tokenizer.decode(&tokens).unwrap(), "Hello, world!");
/// ```
pub struct Tokenizer {
    encoding: CoreBPE,
}

impl Tokenizer {
    /// The number of tokens of GPT-2.
    pub const GPT2_VOCABULARY: usize = 50_257;

    /// The token that ends a document of GPT-2.
    pub const GPT2_END: i64 = 50_256;

    /// The encoding of GPT-2, with its 50,257 tokens; the vocabulary is part of the program.
    pub fn gpt2() -> Result<Tokenizer, Error> {
        let encoding = tiktoken_rs::r50k_base().map_err(|error| Error::new("tokenizer", error.to_string()))?;
        Ok(Tokenizer { encoding })
    }

    /// The tokens of a text. Words such as `<|endoftext|>` are text like any other.
    ///
    /// ```
    /// use glassgrad::data::Tokenizer;
    /// assert!(!Tokenizer::gpt2().unwrap().encode("<|endoftext|>").contains(&Tokenizer::GPT2_END));
    /// ```
    pub fn encode(&self, text: &str) -> Vec<i64> {
        self.encoding.encode_ordinary(text).into_iter().map(i64::from).collect()
    }

    /// The text of tokens. Bytes that are no UTF-8, as those of a character whose other tokens are missing, become the
    /// replacement character.
    ///
    /// ```
    /// use glassgrad::data::Tokenizer;
    /// let error = Tokenizer::gpt2().unwrap().decode(&[50_257]).unwrap_err();
    /// assert!(error.to_string().contains("50257"));
    /// ```
    pub fn decode(&self, tokens: &[i64]) -> Result<String, Error> {
        let mut bytes = Vec::new();
        for token in tokens {
            let decoded = u32::try_from(*token).ok().and_then(|token| self.encoding.decode_bytes(&[token]).ok());
            let Some(decoded) = decoded else {
                let message = format!("{token} is not among the tokens of the vocabulary");
                return Err(Error::new("decode", message));
            };
            bytes.extend(decoded);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tokenizer")
    }
}
