//! A text: what the network writes by itself, and what counting letters would have reached.

use glassgrad::error::Error;
use glassgrad::rng::Key;

use crate::lab::objective::Measure;
use crate::lab::verse::{self, Writing};
use crate::lab::{ngram, study::Study};
use crate::report::Subject;
use crate::report::html::{escaped, note};

/// So many characters are written, at a temperature at which words hold together.
const LENGTH: usize = 600;
const TEMPERATURE: f64 = 0.7;

pub(super) fn part(subject: &Subject<'_>, alphabet: &[char]) -> Result<Option<String>, Error> {
    let study: &Study = subject.study;
    let Some(text) = &study.task.text else { return Ok(None) };
    let [learnt, held_out] = &**text;
    let (context, key) = (study.settings.context, Key::new(study.settings.seed).fold(7));
    let begin: String =
        held_out.iter().take(context / 2).filter_map(|symbol| alphabet.get(usize::try_from(*symbol).ok()?)).collect();
    let how = Writing { context, length: LENGTH, temperature: TEMPERATURE, key };
    let written = verse::write(&subject.outcome.network, alphabet, &begin, how)?;
    let counted = ngram::best(learnt, held_out, context - context / 2 + 1, alphabet.len());
    let reached = match subject.outcome.test.measure {
        Measure::Bits(bits) => format!("{bits:.3} bits"),
        other => other.to_string(),
    };
    let about = format!(
        "After the first characters of the text that was held out, the network goes on by itself, each character drawn by the \
         probabilities that it tells, at the temperature {TEMPERATURE}. It needs {reached} for a character; counting sequences of up to {} \
         characters needs {:.3}.",
        counted.order, counted.bits
    );
    Ok(Some(format!("{}<pre id=\"verse\"><b>{}</b>{}</pre>", note(&about), escaped(&begin), escaped(&written))))
}
