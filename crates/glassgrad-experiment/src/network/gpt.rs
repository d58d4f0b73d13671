//! Decoder-only Transformer over the characters of a text, with tied embeddings: the GPT of the library.

use glassgrad::Tensor;
use glassgrad::expr::Keys;
use glassgrad::models::{Gpt, GptConfig};
use glassgrad::nn::Layer as _;
use glassgrad::rng::Key;

use super::transformer::common_width;
use super::{Family, IoSpec};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::task::View;

impl Family for Gpt {
    fn build(key: Key, settings: &Settings, ends: &IoSpec) -> Result<Gpt, Failure> {
        let View::Text { symbols } = ends.view else {
            let message = "--model gpt: it generates text and needs a .txt file; for images and tables there is --model transformer";
            return Err(Failure::Input(message.to_owned()));
        };
        let config = GptConfig {
            vocabulary: symbols,
            context: settings.context,
            width: common_width(settings)?,
            layers: settings.layers.len(),
            heads: settings.heads,
            dropout: settings.dropout,
        };
        Ok(Gpt::new(key, &config))
    }

    #[track_caller]
    fn run(&self, x: &Tensor, key: Option<&Keys>) -> Tensor {
        match key {
            Some(key) => self.apply_train(x, key),
            None => self.apply(x),
        }
    }
}
