//! GPT-2 in files of Hugging Face: safetensors under the names of `transformers`.

use super::gpt::{Gpt, GptConfig};
use crate::error::Error;
use crate::rng::Key;
use crate::save::{File, Source};
use crate::tree::Path;

/// Parts of paths here, and in the files. The layers of GPT-2 are `Conv1D`, whose weights are `[inputs, outputs]` as those of
/// [`Linear`](crate::nn::Linear) are, so that nothing is transposed; those of `nn.Linear` would be.
const NAMES: [(&str, &str); 11] = [
    ("blocks.", "h."),
    (".attention_norm.", ".ln_1."),
    (".linear_norm.", ".ln_2."),
    (".attention.input.", ".attn.c_attn."),
    (".attention.output.", ".attn.c_proj."),
    (".linear.0.", ".mlp.c_fc."),
    (".linear.2.", ".mlp.c_proj."),
    ("tokens.", "wte."),
    ("positions.", "wpe."),
    (".scale", ".weight"),
    (".shift", ".bias"),
];

/// The prefix of a model with a head, as `GPT2LMHeadModel.save_pretrained` writes it.
const PREFIX: &str = "transformer.";
/// The output projection, which is the token embedding.
const HEAD: &str = "lm_head.weight";

/// The name of a leaf in the files.
fn name_of(path: &str) -> String {
    let name = NAMES.iter().fold(path.to_owned(), |name, (here, there)| name.replace(here, there));
    match name.strip_prefix("norm.") {
        Some(part) => format!("ln_f.{part}"),
        None => name,
    }
}

/// Whether a tensor is a causal mask that older files hold beside the weights.
fn is_mask(name: &str) -> bool {
    name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"))
}

impl Gpt {
    /// Reads GPT-2 from a safetensors file with the names of Hugging Face's `transformers`, with or without the prefix
    /// `transformer.`. Sizes are those of the tensors; the number of heads is not in the file (12, 16, 20 and 25 in the
    /// published models). Causal masks in the file are skipped. An output projection in it must equal the token embedding,
    /// to which it is tied. Elements of 16 bits become `f32`.
    ///
    /// ```
    /// use glassgrad::{Tensor, models::{Gpt, GptConfig}, nn::Layer, rng::Key, save::File};
    /// let config = GptConfig { vocabulary: 9, context: 8, width: 8, layers: 2, heads: 2, dropout: 0.0 };
    /// let network = Gpt::new(Key::new(1), &config);
    /// let bytes = network.to_hugging_face().unwrap().to_bytes().unwrap();
    /// let read = Gpt::from_hugging_face(&File::from_bytes(&bytes).unwrap(), 2).unwrap();
    /// let tokens = Tensor::from([[1_i64, 5]]);
    /// assert_eq!(read.apply(&tokens).to_string(), network.apply(&tokens).to_string());
    /// ```
    pub fn from_hugging_face(file: &File, heads: usize) -> Result<Gpt, Error> {
        let mut stripped = File::default();
        for (name, tensor) in &file.tensors {
            let name = name.strip_prefix(PREFIX).unwrap_or(name);
            if !is_mask(name) {
                stripped.tensors.insert(name.to_owned(), tensor.clone());
            }
        }
        let refused = |message: String| Error::new("from_hugging_face", message);
        let size = |name: &str| match stripped.tensors.get(name).map(|tensor| tensor.shape()[..].to_vec()).as_deref() {
            Some([rows, columns]) => Ok((*rows, *columns)),
            Some(other) => Err(refused(format!("{name} has the axes {other:?}, and not two"))),
            None => Err(refused(format!("the file has no tensor {name}: it is not a GPT-2"))),
        };
        let ((vocabulary, width), (context, _)) = (size("wte.weight")?, size("wpe.weight")?);
        if let Some(head) = stripped.tensors.remove(HEAD) {
            let tied = head.shape() == stripped.tensors["wte.weight"].shape()
                && head.equal(&stripped.tensors["wte.weight"]).all().item()? == 1.0;
            if !tied {
                return Err(refused(format!("{HEAD} differs from wte.weight, and the two are tied in this model")));
            }
        }
        let layers = (0..).take_while(|n| stripped.tensors.contains_key(&format!("h.{n}.ln_1.weight"))).count();
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(refused(format!("{heads} heads cannot share the width of {width} evenly")));
        }
        let like = Gpt::new(Key::new(0), &GptConfig { vocabulary, context, width, layers, heads, dropout: 0.1 });
        stripped.tree_from(&like, |path: &Path| Source::named(name_of(&path.to_string())))
    }

    /// The parameters under the names of Hugging Face's `transformers`, as `GPT2LMHeadModel` loads them.
    ///
    /// ```
    /// use glassgrad::{models::{Gpt, GptConfig}, rng::Key};
    /// let config = GptConfig { vocabulary: 9, context: 8, width: 8, layers: 1, heads: 2, dropout: 0.0 };
    /// let file = Gpt::new(Key::new(1), &config).to_hugging_face().unwrap();
    /// assert!(file.tensors.contains_key("transformer.h.0.attn.c_attn.weight"));
    /// assert_eq!(file.tensors.len(), 12 + 4);
    /// ```
    pub fn to_hugging_face(&self) -> Result<File, Error> {
        let own = File::of(self)?;
        let named = |(name, tensor): (String, _)| (format!("{PREFIX}{}", name_of(&name)), tensor);
        let notes = [("format".to_owned(), "pt".to_owned())].into_iter().collect();
        Ok(File { tensors: own.tensors.into_iter().map(named).collect(), notes, ..File::default() })
    }
}
