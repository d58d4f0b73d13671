//! Generation of 16 tokens by the character GPT behind a prompt of 64, with a context of 128: over a KV cache, or by computing the
//! whole context anew for each token. The tokens are given, so that all engines do the same work.

use glassgrad::compile::Compiled;
use glassgrad::error::Error;
use glassgrad::expr::s;
use glassgrad::models::Gpt;
use glassgrad::nn::{KvCache, Layer as _};
use glassgrad::rng::Key;
use glassgrad::tree::Tree as _;
use glassgrad::{Tensor, compile};

use super::super::data::{Source, direction};
use super::super::workload::Workload;
use super::character_gpt::CONFIG;
use super::filled;

const PROMPT: usize = 64;
const TOKENS: usize = 16;

type Cached = fn(&(Vec<KvCache>, (Gpt, Tensor))) -> (Vec<KvCache>, Tensor);
type Whole = fn(&(Gpt, (Tensor, Tensor))) -> Tensor;

pub(super) struct Generation {
    network: Gpt,
    tokens: Vec<i64>,
    is_cached: bool,
    cached: Compiled<Cached, (Vec<KvCache>, Tensor)>,
    whole: Compiled<Whole, Tensor>,
    /// The caches behind the prompt.
    prompt: Vec<KvCache>,
    last: Vec<f64>,
}

pub(super) fn workload(is_cached: bool) -> Generation {
    let mut source = Source::default();
    let network = filled(&mut source, &Gpt::new(Key::new(0), &CONFIG));
    let tokens = source.indices(PROMPT + TOKENS, CONFIG.vocabulary).to_vec::<i64>().unwrap_or_default();
    let cached: Cached = |(cache, (network, tokens))| {
        let (logits, cache) = network.apply_cached(tokens, cache);
        (cache, logits.slice(&[s(0), s(-1)]))
    };
    let whole: Whole = |(network, (tokens, place))| network.apply(tokens).slice(&[s(0)]).take(place, 0);
    let empty = network.cache(1, CONFIG.context);
    Generation {
        network,
        tokens,
        is_cached,
        cached: compile(cached),
        whole: compile(whole),
        prompt: empty,
        last: Vec::new(),
    }
}

impl Generation {
    fn step_cached(&self, cache: &mut Vec<KvCache>, tokens: &[i64]) -> Result<Vec<f64>, Error> {
        let data = (self.network.clone(), Tensor::new(tokens, [1, tokens.len()]));
        self.cached.update(cache, &data)?.to_f64_vec()
    }

    /// The logits behind the token at a place, from the whole context, which is padded to one size.
    fn step_whole(&self, place: usize) -> Result<Vec<f64>, Error> {
        let mut context = self.tokens[..=place].to_vec();
        context.resize(CONFIG.context, 0);
        let tokens = Tensor::new(&context, [1, CONFIG.context]);
        self.whole.call(&(self.network.clone(), (tokens, Tensor::from(place as i64))))?.to_f64_vec()
    }
}

impl Workload for Generation {
    fn run(&mut self) -> Result<(), Error> {
        if !self.is_cached {
            for place in PROMPT..PROMPT + TOKENS {
                self.last = self.step_whole(place)?;
            }
            return Ok(());
        }
        if self.prompt[0].length.item()? == 0.0 {
            let mut cache = self.prompt.clone();
            self.step_cached(&mut cache, &self.tokens[..PROMPT])?;
            self.prompt = cache;
        }
        let mut cache = self.prompt.clone();
        for place in PROMPT..PROMPT + TOKENS {
            self.last = self.step_cached(&mut cache, &self.tokens[place..=place])?;
        }
        Ok(())
    }

    fn forward(&mut self) -> Result<(), Error> {
        self.run()
    }

    fn value(&self) -> f64 {
        self.last.iter().zip(direction(self.last.len())).map(|(logit, step)| logit * step).sum()
    }

    fn results(&self) -> Vec<Tensor> {
        let token = Tensor::new(&self.tokens[PROMPT..=PROMPT], [1, 1]);
        match self.is_cached {
            true => self.network.apply_cached(&token, &self.prompt).flatten(),
            false => vec![self.network.apply(&Tensor::new(&self.tokens[..PROMPT], [1, PROMPT]))],
        }
    }

    /// Both ways predict the same.
    fn check(&self) -> Result<(), String> {
        let whole = self.step_whole(PROMPT + TOKENS - 1).map_err(|error| error.to_string())?;
        let apart = whole.iter().zip(&self.last).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        if apart <= 1e-3 { Ok(()) } else { Err(format!("logits with and without the cache differ by {apart}")) }
    }
}
